package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/plugin"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

type place struct {
	document string
	words    []string
}

func (p place) String() string { return p.document + " runs " + strings.Join(p.words, " ") }

var inlineCommand = regexp.MustCompile("`((?:clusterctl|kubectl|make|go run|go build|lab|pivot) [^`]+)`")

// commands returns the commands of all documents, in blocks and in sentences.
func commands(t *testing.T) []place {
	t.Helper()
	var found []place
	for name, text := range texts(t) {
		var scripts []string
		for _, block := range shellBlocks(text) {
			scripts = append(scripts, block.Text)
		}
		for _, match := range inlineCommand.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			scripts = append(scripts, match[1])
		}
		for _, script := range scripts {
			for _, words := range commandsOf(script) {
				// Sentences about the plugin omit its name.
				if words[0] == "pivot" {
					words = append([]string{"clusterctl", "metal3"}, words...)
				}
				found = append(found, place{name, words})
			}
		}
	}
	return found
}

// commandsWith returns the commands of all documents that run a program.
func commandsWith(t *testing.T, program string) []place {
	t.Helper()
	found := slices.DeleteFunc(commands(t), func(each place) bool { return each.words[0] != program })
	if len(found) == 0 {
		t.Fatalf("no document runs %s: correct this test", program)
	}
	return found
}

// TestShellBlocksAreWellFormed parses each block with bash, without running it.
func TestShellBlocksAreWellFormed(t *testing.T) {
	for name, text := range texts(t) {
		for _, block := range shellBlocks(text) {
			command := exec.CommandContext(t.Context(), "bash", "-n")
			command.Stdin = strings.NewReader(block.Text)
			if output, err := command.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v: %s", name, block.Line, err, output)
			}
		}
	}
}

// help is the help of a program for a command: the recognized command, and whether it has subcommands.
type help struct {
	path  []string
	group bool
}

var usageLine = regexp.MustCompile(`(?m)^Usage:\n((?:  .+\n?)+)`)

// parseHelp reads the usage that programs with cobra print.
func parseHelp(text, program string) (help, error) {
	usage := usageLine.FindStringSubmatch(text + "\n")
	if usage == nil {
		return help{}, fmt.Errorf("no usage in %q", text)
	}
	found := help{group: strings.Contains(usage[1], "[command]")}
	line, _, _ := strings.Cut(strings.TrimSpace(usage[1]), "\n")
	for _, word := range strings.Fields(strings.TrimPrefix(line, program)) {
		if !regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(word) {
			break
		}
		found.path = append(found.path, word)
	}
	return found, nil
}

// leading returns the number of words before the first flag.
func leading(words []string) int {
	if flag := slices.IndexFunc(words, func(word string) bool { return strings.HasPrefix(word, "-") }); flag >= 0 {
		return flag
	}
	return len(words)
}

// judge compares a command of a document with its help. The program has already refused unknown flags.
func judge(command place, said help) error {
	for _, word := range said.path {
		if !slices.Contains(command.words, word) {
			return fmt.Errorf("%s, which the program parsed as %q", command, said.path)
		}
	}
	if said.group && leading(command.words[1:]) > len(said.path) || len(said.path) == 0 {
		return fmt.Errorf("%s, which is not a command: the program parsed only %q", command, said.path)
	}
	return nil
}

// withHelp inserts --help before any flag of a document, so that no command is executed.
func withHelp(words []string) []string {
	// kubectl searches for a plugin if --help precedes the command.
	if len(words) > 1 && slices.Contains([]string{"--kubeconfig", "-n"}, words[0]) {
		words = words[2:]
	}
	return slices.Insert(slices.Clone(words), leading(words), "--help")
}

// valueMissing is the error of programs for a flag without its value in a sentence.
const valueMissing = "flag needs an argument"

func TestCommandsOfThePluginExist(t *testing.T) {
	count := 0
	for _, each := range append(commandsWith(t, "clusterctl"), commandsWith(t, "kubectl")...) {
		if len(each.words) < 3 || each.words[1] != "metal3" {
			continue
		}
		count++
		var output, problems strings.Builder
		arguments := append([]string{"clusterctl-metal3"}, withHelp(each.words[2:])...)
		code := plugin.Main(context.Background(), arguments, plugin.Environment{Output: &output, Errors: &problems})
		if code != 0 {
			if !strings.Contains(problems.String(), valueMissing) {
				t.Errorf("%s: %s", each, problems.String())
			}
			continue
		}
		said, err := parseHelp(output.String(), "clusterctl metal3")
		if err != nil {
			t.Error(err)
			continue
		}
		if err := judge(place{each.document, each.words[1:]}, said); err != nil {
			t.Error(err)
		}
	}
	if count == 0 {
		t.Error("no document runs the plugin: correct this test")
	}
}

// TestUndoneYieldsCheckHosts requires the cluster of the hosts in a command that makes an Ironic lose its database.
func TestUndoneYieldsCheckHosts(t *testing.T) {
	count := 0
	for _, each := range commandsWith(t, "clusterctl") {
		if slices.Contains(each.words, "yield") && slices.Contains(each.words, "--undo") {
			count++
			if !slices.Contains(each.words, "--to-kubeconfig") {
				t.Errorf("%s, which checks no hosts: add --to-kubeconfig", each)
			}
		}
	}
	if count == 0 {
		t.Error("no document runs yield --undo: correct this test")
	}
}

// foreignPlugins are commands that the program itself does not have. The plugin of this provider has its own test, and
// krew is not installed.
var foreignPlugins = sets.New("metal3", "krew")

// testHelp runs a program with --help for each command in the documents.
func testHelp(t *testing.T, program, path string) {
	t.Helper()
	seen := sets.New[string]()
	for _, each := range commandsWith(t, program) {
		text := strings.Join(each.words, " ")
		if len(each.words) < 2 || foreignPlugins.Has(each.words[1]) || seen.Has(text) {
			continue
		}
		seen.Insert(text)
		command := exec.CommandContext(t.Context(), path, withHelp(each.words[1:])...)
		command.Env = []string{"HOME=" + t.TempDir(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true"}
		output, err := command.CombinedOutput()
		if err != nil {
			if !strings.Contains(string(output), valueMissing) {
				t.Errorf("%s: %v: %s", each, err, output)
			}
			continue
		}
		said, err := parseHelp(string(output), program)
		if err != nil {
			t.Errorf("%s: %v", each, err)
			continue
		}
		if err := judge(each, said); err != nil {
			t.Error(err)
		}
	}
}

func TestCommandsOfClusterctlExist(t *testing.T) {
	folder, err := binaries.Ensure(t.Context(), root(t), binaries.ClusterAPI(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	testHelp(t, "clusterctl", filepath.Join(folder, "clusterctl"))
}

func TestCommandsOfKubectlExist(t *testing.T) {
	folder, err := binaries.Ensure(t.Context(), root(t), binaries.ControlPlane(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	testHelp(t, "kubectl", filepath.Join(folder, "kubectl"))
}

// TestProgramsOfTheCheckoutExist requires that programs of the checkout in documents exist.
func TestProgramsOfTheCheckoutExist(t *testing.T) {
	for _, each := range commandsWith(t, "go") {
		if len(each.words) < 3 || each.words[1] != "run" && each.words[1] != "build" {
			continue
		}
		at := slices.IndexFunc(each.words, func(word string) bool { return strings.HasPrefix(word, "./") })
		if at < 0 {
			t.Errorf("%s: name the folder of the program", each)
			continue
		}
		files, err := filepath.Glob(filepath.Join(root(t), each.words[at], "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s, but the folder has no program", each)
			continue
		}
		testArguments(t, each, at)
	}
}

// testArguments requires that the program in a folder knows the arguments behind the folder.
func testArguments(t *testing.T, command place, at int) {
	t.Helper()
	code := codeOf(t, command.words[at])
	for i, argument := range command.words[at+1:] {
		name, _, _ := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		isFlag := strings.HasPrefix(argument, "-")
		if isFlag && !strings.Contains(code, `"`+name+`"`) || !isFlag && i == 0 && !strings.Contains(code, `case "`+name+`"`) {
			t.Errorf("%s, but the program has no %s", command, argument)
		}
	}
}

// TestProgramsOfTheCheckoutAreNotInstalled requires go run for a program that no target installs.
func TestProgramsOfTheCheckoutAreNotInstalled(t *testing.T) {
	for _, each := range commands(t) {
		if each.words[0] == "lab" {
			t.Errorf("%s, which is not installed: write go run ./test/lab/cmd/lab", each)
		}
	}
}

// TestTargetsExist requires that targets and variables of make in documents are in the Makefile.
func TestTargetsExist(t *testing.T) {
	known := sets.New[string]()
	defined := regexp.MustCompile(`(?m)^(?:([a-z0-9-]+):|([A-Z_]+) \?=)`)
	for _, match := range defined.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		known.Insert(match[1] + match[2])
	}
	for _, each := range commandsWith(t, "make") {
		for _, word := range each.words[1:] {
			if name, _, _ := strings.Cut(word, "="); !strings.HasPrefix(name, "-") && !known.Has(name) {
				t.Errorf("%s, but the Makefile lacks %s", each, name)
			}
		}
	}
}
