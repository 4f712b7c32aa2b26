package manifests_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/app"
)

// TestMigrationKeepsArguments runs the command by which the document about the migration adds an argument of CAPM3 to
// the release. The value of the argument must have precedence over that of the release.
func TestMigrationKeepsArguments(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(checkout(t), "docs", "migration-from-capm3.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, command, found := strings.Cut(string(page), "   ```sh\n   argument=")
	command, _, closed := strings.Cut(command, "```")
	if !found || !closed {
		t.Fatal("the document has no command that adds an argument")
	}
	made, home := newRelease(t), t.TempDir()
	copied := filepath.Join(home, "providers", "infrastructure-metal3", made.version)
	if err := os.CopyFS(copied, os.DirFS(made.folder)); err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", "argument="+command)
	shell.Env = append(os.Environ(), "HOME="+home)
	output(t, shell)

	content, err := os.ReadFile(filepath.Join(copied, "infrastructure-components.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, container := manager(t, split(t, content))
	variable := regexp.MustCompile(`\$\{\w+:=(.*)\}`)
	for i, argument := range container.Args {
		container.Args[i] = variable.ReplaceAllString(argument, "$1")
	}
	set, settings := pflag.NewFlagSet("manager", pflag.ContinueOnError), app.NewFlags(func(string) string { return "" })
	settings.Add(set)
	if err := set.Parse(container.Args); err != nil {
		t.Fatal(err)
	}
	if !settings.ClaimsByHostName || !settings.LeaderElect {
		t.Errorf("the arguments %q do not set --enable-bmh-name-based-preallocation and --leader-elect", container.Args)
	}
}
