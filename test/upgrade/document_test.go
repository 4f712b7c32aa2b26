package upgrade_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// blocks returns the blocks of a language in a section of the document about the migration.
func (w *world) blocks(section, language string) []string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(w.server.Root(), "docs", "migration-from-capm3.md"))
	Expect(err).NotTo(HaveOccurred())
	_, text, found := strings.Cut(string(content), "\n## "+section+"\n")
	Expect(found).To(BeTrue(), "the document has no section %s", section)
	text, _, _ = strings.Cut(text, "\n## ")
	var blocks []string
	for {
		_, after, isBlock := strings.Cut(text, "```"+language+"\n")
		if !isBlock {
			Expect(blocks).NotTo(BeEmpty(), "section %s has no block of %s", section, language)
			return blocks
		}
		block, rest, _ := strings.Cut(after, "```")
		blocks, text = append(blocks, block), rest
	}
}

// commands returns the commands of kubectl after the prompts in a section of the document.
func (w *world) commands(section string) []string {
	GinkgoHelper()
	var commands []string
	for _, block := range w.blocks(section, "console") {
		for line := range strings.Lines(block) {
			if command, isCommand := strings.CutPrefix(strings.TrimSpace(line), "$ kubectl "); isCommand {
				commands = append(commands, "kubectl "+command)
			}
		}
	}
	Expect(commands).NotTo(BeEmpty(), "section %s has no command of kubectl", section)
	return commands
}

// checks runs the commands of kubectl after the prompts in a section of the document, and returns their answers. It omits
// commands about the Deployments of managers and their environment, because managers run outside of the cluster here.
func (w *world) checks(ctx context.Context, section string) map[string]string {
	GinkgoHelper()
	answers := map[string]string{}
	for _, command := range w.commands(section) {
		if !strings.Contains(command, "deployment") && !strings.Contains(command, "configmap") {
			answers[command] = w.bash(ctx, GinkgoT().TempDir(), command)
		}
	}
	return answers
}

// bash runs a script of the document in a folder, and returns its output. It finds kubectl, whose kubeconfig is that of
// the management cluster.
func (w *world) bash(ctx context.Context, folder, script string) string {
	GinkgoHelper()
	programs, err := binaries.Ensure(ctx, w.server.Root(), binaries.ControlPlane(), w.server.Progress())
	Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	command.Dir = folder
	command.Env = append(os.Environ(), fmt.Sprintf("PATH=%s:%s", programs, os.Getenv("PATH")), "KUBECONFIG="+w.server.Kubeconfig)
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s\n%s", script, output)
	return string(output)
}
