package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

func root(t *testing.T) string {
	t.Helper()
	folder, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// read returns the text of a file of the checkout.
func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// texts returns all documents by their names.
func texts(t *testing.T) map[string]string {
	t.Helper()
	names, err := documents(root(t))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range names {
		all[name] = read(t, name)
	}
	return all
}

// block is a fenced block of a document. Text has no indentation of a list around the block.
type block struct {
	Line int
	Text string
}

var fence = regexp.MustCompile("(?ms)^( *)```([a-z]*)\n(.*?)^ *```$")

// blocks returns the fenced blocks of one language.
func blocks(document, language string) []block {
	var found []block
	for _, match := range fence.FindAllStringSubmatchIndex(document, -1) {
		if document[match[4]:match[5]] == language {
			indent, text := document[match[2]:match[3]], document[match[6]:match[7]]
			found = append(found, block{
				Line: strings.Count(document[:match[0]], "\n") + 1,
				Text: strings.ReplaceAll(strings.TrimPrefix(text, indent), "\n"+indent, "\n"),
			})
		}
	}
	return found
}

// shellBlocks returns the blocks with commands: those of shell, and the lines with a prompt of console.
func shellBlocks(document string) []block {
	found := blocks(document, "sh")
	for _, session := range blocks(document, "console") {
		var commands strings.Builder
		for line := range strings.Lines(session.Text) {
			if command, prompted := strings.CutPrefix(line, "$ "); prompted {
				commands.WriteString(command)
			}
		}
		found = append(found, block{session.Line, commands.String()})
	}
	return found
}

func TestBlocks(t *testing.T) {
	const document = "Text.\n```sh\na\n```\n1. Step:\n\n   ```sh\n   b <<END\n     c\n   END\n   ```\n\n" +
		"   ```console\n   $ d\n   output\n   $ e\n   ```\n\n```yaml\nf: g\n```\n"
	want := []block{{2, "a\n"}, {7, "b <<END\n  c\nEND\n"}, {13, "d\ne\n"}}
	if diff := cmp.Diff(want, shellBlocks(document)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// borrowed are the constants of Cluster API that constants of this provider are equal to.
func borrowed() map[string]string {
	return map[string]string{
		"ReadyCondition":    v1beta2.ReadyCondition,
		"DeletingCondition": v1beta2.DeletingCondition,
		"PausedCondition":   v1beta2.PausedCondition,
		"ReadyReason":       v1beta2.ReadyReason,
		"DeletingReason":    v1beta2.DeletingReason,
		"WaitingForClusterInfrastructureReadyReason": v1beta2.WaitingForClusterInfrastructureReadyReason,
		"WaitingForBootstrapDataReason":              v1beta2.WaitingForBootstrapDataReason,
	}
}

// constants returns the values of the constants of the files that a pattern matches, by name.
func constants(t *testing.T, pattern string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root(t), pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no file matches %s: %v", pattern, err)
	}
	found := map[string]string{}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			spec, isValue := node.(*ast.ValueSpec)
			if !isValue || len(spec.Values) != len(spec.Names) {
				return true
			}
			for i, value := range spec.Values {
				found[spec.Names[i].Name] = valueOf(t, value)
			}
			return true
		})
	}
	return found
}

func valueOf(t *testing.T, expression ast.Expr) string {
	t.Helper()
	switch value := expression.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(value.Value); err == nil {
			return text
		}
	case *ast.SelectorExpr:
		if text, known := borrowed()[value.Sel.Name]; known {
			return text
		}
		t.Errorf("the value of %s is unknown: add it to borrowed", value.Sel.Name)
	}
	return ""
}

// literals returns the text literals of a file that match.
func literals(t *testing.T, name string, matches func(string) bool) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), name), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(file, func(node ast.Node) bool {
		if literal, is := node.(*ast.BasicLit); is && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil && matches(text) {
				found = append(found, text)
			}
		}
		return true
	})
	return found
}
