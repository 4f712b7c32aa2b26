package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

// pair is a condition of a kind with one of its reasons.
type pair struct{ kind, condition, reason string }

// stagePackage is the source of a controller that declares its conditions and stages with internal/flow.
type stagePackage struct {
	kind  string
	names map[string]string
	// functions are those of the package by name, and those of other packages by package and name.
	functions map[string][]*ast.FuncDecl
	// types are the types of conditions by the name of their variable.
	types map[string]string
	found sets.Set[pair]
}

// kindsOfPackages returns the kinds of the controllers that have rows for their conditions.
func kindsOfPackages() map[string]string {
	return map[string]string{
		"metal3cluster": "Metal3Cluster", "metal3data": "Metal3Data", "metal3dataclaim": "Metal3DataClaim",
		"metal3datatemplate": "Metal3DataTemplate", "metal3machine": "Metal3Machine",
		"metal3machinetemplate": "Metal3MachineTemplate", "metal3remediation": "Metal3Remediation",
	}
}

// pairsOf returns the pairs that the source of a controller names: the first reason of a condition, that of an error,
// those of a true condition, and the reasons of outcomes of its stages. It follows calls of functions that return an
// outcome.
func pairsOf(t *testing.T, folder, kind string, names map[string]string) sets.Set[pair] {
	t.Helper()
	source := stagePackage{
		kind: kind, names: names, functions: map[string][]*ast.FuncDecl{}, types: map[string]string{},
		found: sets.New[pair](),
	}
	for _, file := range parsed(t, "internal", "baremetal") {
		source.add(file, file.Name.Name+".")
	}
	files := parsed(t, filepath.Join("controllers", folder))
	for _, file := range files {
		source.add(file, "")
	}
	for _, visit := range []func(ast.Node) bool{source.condition, source.stage} {
		for _, file := range files {
			ast.Inspect(file, visit)
		}
	}
	return source.found
}

// parsed returns the source in folders and below.
func parsed(t *testing.T, folders ...string) []*ast.File {
	t.Helper()
	var files []*ast.File
	for _, path := range goFiles(t, folders...) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// add records the functions of a file. Of other packages, it records no methods.
func (p *stagePackage) add(file *ast.File, prefix string) {
	for _, declaration := range file.Decls {
		function, is := declaration.(*ast.FuncDecl)
		if is && function.Body != nil && (prefix == "" || function.Recv == nil) {
			name := prefix + function.Name.Name
			p.functions[name] = append(p.functions[name], function)
		}
	}
}

// condition records a variable with a condition, and its own reasons.
func (p *stagePackage) condition(node ast.Node) bool {
	spec, is := node.(*ast.ValueSpec)
	if !is {
		return true
	}
	for i, value := range spec.Values {
		fields := fieldsOf(value)
		of, isName := fields["Type"].(*ast.SelectorExpr)
		if !isName || fields["Failed"] == nil {
			continue
		}
		condition := p.names[of.Sel.Name]
		p.types[spec.Names[i].Name] = condition
		for _, field := range []string{"Initial", "Failed", "Done"} {
			if fields[field] != nil {
				p.reasonsIn(condition, fields[field])
			}
		}
		if done, is := fields["Done"].(*ast.Ident); is {
			for _, function := range p.functions[done.Name] {
				p.reasonsIn(condition, function.Body)
			}
		}
	}
	return true
}

// fieldsOf returns the fields of a literal of a struct.
func fieldsOf(value ast.Expr) map[string]ast.Expr {
	fields := map[string]ast.Expr{}
	literal, is := value.(*ast.CompositeLit)
	if !is {
		return fields
	}
	for _, element := range literal.Elts {
		if field, is := element.(*ast.KeyValueExpr); is {
			if name, is := field.Key.(*ast.Ident); is {
				fields[name.Name] = field.Value
			}
		}
	}
	return fields
}

// reasonsIn records all reasons that a part of the source names.
func (p *stagePackage) reasonsIn(condition string, part ast.Node) {
	ast.Inspect(part, func(node ast.Node) bool {
		if selector, is := node.(*ast.SelectorExpr); is && strings.HasSuffix(selector.Sel.Name, "Reason") {
			if reason, known := p.names[selector.Sel.Name]; known {
				p.found.Insert(pair{p.kind, condition, reason})
			}
		}
		return true
	})
}

// stage records the reasons of the outcomes of a stage: VARIABLE.Stage(FUNCTION).
func (p *stagePackage) stage(node ast.Node) bool {
	call, is := node.(*ast.CallExpr)
	if !is || len(call.Args) != 1 {
		return true
	}
	selector, is := call.Fun.(*ast.SelectorExpr)
	if !is || selector.Sel.Name != "Stage" {
		return true
	}
	variable, is := selector.X.(*ast.Ident)
	if !is || p.types[variable.Name] == "" {
		return true
	}
	seen := sets.New[string]()
	for _, name := range namesIn(call.Args[0]) {
		p.outcomesOf(p.types[variable.Name], name, seen)
	}
	return true
}

func namesIn(part ast.Node) []string {
	var names []string
	ast.Inspect(part, func(node ast.Node) bool {
		if name, is := node.(*ast.Ident); is {
			names = append(names, name.Name)
		}
		return true
	})
	return names
}

// outcomesOf records the reasons of the outcomes that a function returns.
func (p *stagePackage) outcomesOf(condition, name string, seen sets.Set[string]) {
	if seen.Has(name) {
		return
	}
	seen.Insert(name)
	for _, function := range p.functions[name] {
		ast.Inspect(function.Body, func(node ast.Node) bool {
			call, is := node.(*ast.CallExpr)
			if !is {
				return true
			}
			switch called := call.Fun.(type) {
			case *ast.Ident:
				p.follow(condition, called.Name, seen)
			case *ast.SelectorExpr:
				from, is := called.X.(*ast.Ident)
				if is && from.Name == "outcome" && len(call.Args) > 0 {
					p.reasonsIn(condition, call.Args[0])
				} else if is {
					p.follow(condition, from.Name+"."+called.Sel.Name, seen)
				}
				p.follow(condition, called.Sel.Name, seen)
			}
			return true
		})
	}
}

// follow continues in a function that returns an outcome.
func (p *stagePackage) follow(condition, name string, seen sets.Set[string]) {
	returnsOutcome := func(function *ast.FuncDecl) bool {
		if function.Type.Results == nil {
			return false
		}
		result, is := function.Type.Results.List[0].Type.(*ast.SelectorExpr)
		return is && result.Sel.Name == "Outcome"
	}
	if slices.ContainsFunc(p.functions[name], returnsOutcome) {
		p.outcomesOf(condition, name, seen)
	}
}

// allKinds are the kinds of a condition in a row that is about all kinds.
const allKinds = "all kinds"

// conditionCell is a condition in the first column. The kinds behind it are also those of the conditions before it.
var conditionCell = regexp.MustCompile("`(\\w+)`(?: \\(([^)]*)\\))?")

// conditionsOf returns the kinds of each condition in the first column of a row.
func conditionsOf(cell string) []rowCondition {
	var found []rowCondition
	kinds := allKinds
	for _, match := range slices.Backward(conditionCell.FindAllStringSubmatch(cell, -1)) {
		kinds = cmp.Or(match[2], kinds)
		found = append(found, rowCondition{match[1], strings.Split(kinds, ", ")})
	}
	return found
}

// rowCondition is a condition in a row of the table.
type rowCondition struct {
	name  string
	kinds []string
}

// isOf returns true if the row is about this condition of a kind.
func (c rowCondition) isOf(kind string) bool {
	return slices.Contains(c.kinds, kind) || slices.Contains(c.kinds, allKinds)
}

// reasonRows returns the rows of the tables with four columns of a page.
func reasonRows(page string) [][]string {
	var rows [][]string
	for line := range strings.Lines(page) {
		if row := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | "); len(row) == 4 {
			rows = append(rows, row)
		}
	}
	return rows
}

// isExplained returns true if a row of the table has the pair.
func isExplained(rows [][]string, want pair) bool {
	return slices.ContainsFunc(rows, func(row []string) bool {
		return strings.Contains(row[1], "`"+want.reason+"`") &&
			slices.ContainsFunc(conditionsOf(row[0]), func(each rowCondition) bool {
				return each.name == want.condition && each.isOf(want.kind)
			})
	})
}

func TestEveryReasonOfAConditionIsExplained(t *testing.T) {
	rows := reasonRows(reasons(t))
	names := constants(t, "api/v1beta2/conditions*.go")
	for folder, kind := range kindsOfPackages() {
		found := pairsOf(t, folder, kind, names)
		if found.Len() == 0 {
			t.Errorf("controllers/%s declares no condition: correct this test", folder)
		}
		for each := range found {
			if !isExplained(rows, each) {
				t.Errorf("docs/troubleshooting.md does not explain %s of %s of a %s", each.reason, each.condition, each.kind)
			}
		}
	}
}
