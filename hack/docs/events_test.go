package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

// goFiles returns the files of folders of the checkout and below, without tests.
func goFiles(t *testing.T, folders ...string) []string {
	t.Helper()
	var files []string
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root(t), folder), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) == 0 {
		t.Fatalf("no file in %q", folders)
	}
	return files
}

// conditionEvents is the package that writes the events of conditions. docs/troubleshooting.md lists their reasons with
// the conditions.
const conditionEvents = "internal/flow"

// eventReasons returns the reasons of the events of controllers, without those of conditions.
func eventReasons(t *testing.T) sets.Set[string] {
	t.Helper()
	found := sets.New[string]()
	for _, path := range goFiles(t, "controllers", "internal") {
		if strings.HasSuffix(filepath.Dir(path), filepath.FromSlash(conditionEvents)) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		texts := textsOf(file)
		ast.Inspect(file, func(node ast.Node) bool {
			call, is := node.(*ast.CallExpr)
			if !is {
				return true
			}
			if selector, is := call.Fun.(*ast.SelectorExpr); !is || selector.Sel.Name != "Eventf" || len(call.Args) < 5 {
				return true
			}
			reasons := texts.of(call.Args[3])
			if len(reasons) == 0 {
				t.Errorf("%s: the reason of an event is not a text of this file: correct this test", path)
			}
			found.Insert(reasons...)
			return true
		})
	}
	if found.Len() == 0 {
		t.Fatal("no controller writes an event: correct this test")
	}
	return found
}

// fileTexts are the possible texts of names in a file.
type fileTexts map[string][]string

// textsOf collects the texts of constants, variables and functions, and texts next to the type of an event in tables.
func textsOf(file *ast.File) fileTexts {
	found := fileTexts{}
	ast.Inspect(file, func(node ast.Node) bool {
		switch each := node.(type) {
		case *ast.ValueSpec:
			for i, value := range each.Values {
				found.add(each.Names[i].Name, value)
			}
		case *ast.AssignStmt:
			for i, target := range each.Lhs {
				if name, is := target.(*ast.Ident); is && len(each.Lhs) == len(each.Rhs) {
					found.add(name.Name, each.Rhs[i])
				}
			}
		case *ast.ReturnStmt:
			if len(each.Results) == 3 {
				found.add("reason", each.Results[1])
			}
		case *ast.CompositeLit:
			if len(each.Elts) == 3 {
				found.add("reason", each.Elts[1])
			}
		}
		return true
	})
	return found
}

var reasonText = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)

// add records a possible text of a name.
func (f fileTexts) add(name string, value ast.Expr) {
	switch value := value.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(value.Value); err == nil && reasonText.MatchString(text) {
			f[name] = append(f[name], text)
		}
	case *ast.Ident:
		f[name] = append(f[name], f[value.Name]...)
	case *ast.SelectorExpr:
		f[name] = append(f[name], f[value.Sel.Name]...)
	}
}

// of returns the possible texts of an expression.
func (f fileTexts) of(expression ast.Expr) []string {
	f["the argument"] = nil
	f.add("the argument", expression)
	return f["the argument"]
}

// describedEvents returns the events in docs/troubleshooting.md, from tables with Event in the head.
func describedEvents(t *testing.T) sets.Set[string] {
	t.Helper()
	described := sets.New[string]()
	for section := range strings.SplitSeq(read(t, "docs/troubleshooting.md"), "\n\n") {
		if strings.HasPrefix(section, "| Event ") {
			described = described.Union(cells(section, 0))
		}
	}
	return described
}

func TestEventsAreDescribed(t *testing.T) {
	written, described := eventReasons(t), describedEvents(t)
	for _, missing := range sets.List(written.Difference(described)) {
		t.Errorf("docs/troubleshooting.md does not describe the event %s", missing)
	}
	for _, stale := range sets.List(described.Difference(written)) {
		t.Errorf("docs/troubleshooting.md describes the event %s, which no controller writes", stale)
	}
}
