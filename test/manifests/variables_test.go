package manifests_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// The words in docs/templates.md for variables without a default.
const (
	requiredVariable = "required"
	optionalVariable = "none"
	argumentVariable = "argument"
)

// flavours returns the flavours that have a template. The empty one has no name.
func flavours(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(checkout(t), "templates", "cluster-template*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range paths {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "cluster-template"), ".yaml")
		found = append(found, strings.TrimPrefix(name, "-"))
	}
	return found
}

func templatePath(t *testing.T, flavour string) string {
	t.Helper()
	if flavour != "" {
		flavour = "-" + flavour
	}
	return filepath.Join(checkout(t), "templates", "cluster-template"+flavour+".yaml")
}

func TestVariablesAreDocumented(t *testing.T) {
	made := newRelease(t)
	documented := documentedVariables(t)
	for _, flavour := range flavours(t) {
		t.Run("flavour "+flavour, func(t *testing.T) {
			want := listVariables(t, made, flavour)
			if diff := cmp.Diff(want, documented[flavour]); diff != "" {
				t.Errorf("docs/templates.md: -clusterctl, +documented:\n%s", diff)
			}
			delete(documented, flavour)
		})
	}
	for flavour := range documented {
		t.Errorf("docs/templates.md has a table for the flavour %q, which does not exist", flavour)
	}
}

func TestClassVariablesAreDocumented(t *testing.T) {
	class := clusterClass(t)
	want := map[string]string{}
	for _, variable := range class.Spec.Variables {
		want[variable.Name] = optionalVariable
		if ptr.Deref(variable.Required, false) {
			want[variable.Name] = requiredVariable
		}
		if fallback := variable.Schema.OpenAPIV3Schema.Default; fallback != nil {
			want[variable.Name] = string(fallback.Raw)
			if want[variable.Name] != `""` {
				want[variable.Name] = strings.Trim(want[variable.Name], `"`)
			}
		}
	}
	got := map[string]string{}
	readTable(t, section(t, "## Variables of the ClusterClass `metal3`"), got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/templates.md: -class, +documented:\n%s", diff)
	}
}

// listVariables returns the variables of a flavour with their defaults from clusterctl.
func listVariables(t *testing.T, made release, flavour string) map[string]string {
	t.Helper()
	listed := string(made.clusterctl(t, nil, "generate", "cluster", "name", "--infrastructure", "metal3:"+made.version,
		"--target-namespace", "namespace", "--flavor", flavour, "--list-variables"))
	fallback := regexp.MustCompile(`^  - (\S+)(?: +\(defaults to (.*)\))?$`)
	variables := map[string]string{}
	for line := range strings.SplitSeq(listed, "\n") {
		match := fallback.FindStringSubmatch(line)
		switch {
		case match == nil:
		case match[1] == "CLUSTER_NAME" || match[1] == "NAMESPACE":
			variables[match[1]] = argumentVariable
		case match[2] == "":
			variables[match[1]] = requiredVariable
		case match[2] == `""`:
			variables[match[1]] = match[2]
		default:
			variables[match[1]] = strings.Trim(match[2], `"`)
		}
	}
	// clusterctl generate yaml must list the same names.
	names := exec.CommandContext(t.Context(), program(t, binaries.ClusterAPI(), "clusterctl"),
		"generate", "yaml", "--from", templatePath(t, flavour), "--list-variables", "--config", made.config)
	names.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=1")
	for line := range strings.SplitSeq(string(output(t, names)), "\n") {
		name, found := strings.CutPrefix(line, "  - ")
		if _, known := variables[name]; found && !known {
			t.Errorf("variable %s is used but clusterctl generate cluster does not list it", name)
		}
	}
	return variables
}

// documentedVariables reads the tables of docs/templates.md: flavour, variable, default.
func documentedVariables(t *testing.T) map[string]map[string]string {
	t.Helper()
	const heading = "## Variables of the flavour "
	tables := map[string]map[string]string{}
	for _, line := range strings.Split(templatesPage(t), "\n") {
		name, found := strings.CutPrefix(line, heading)
		if !found {
			continue
		}
		flavour := strings.Trim(name, "`")
		if name == "without a name" {
			flavour = ""
		}
		tables[flavour] = map[string]string{}
		readTable(t, section(t, "## Variables of all flavours"), tables[flavour])
		readTable(t, section(t, line), tables[flavour])
	}
	return tables
}

func readTable(t *testing.T, text string, into map[string]string) {
	t.Helper()
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (`[^`]+`|required|none|argument) \\| [^|]+ \\|$")
	for _, match := range row.FindAllStringSubmatch(text, -1) {
		if _, twice := into[match[1]]; twice {
			t.Errorf("docs/templates.md: %s has two rows", match[1])
		}
		into[match[1]] = strings.Trim(match[2], "`")
	}
	// A row that the pattern does not match must fail the test.
	if rows := strings.Count(text, "\n| `"); rows != len(row.FindAllString(text, -1)) {
		t.Errorf("docs/templates.md: cannot read all rows of\n%s", text)
	}
}

// section returns the text below a heading.
func section(t *testing.T, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(templatesPage(t), heading+"\n")
	if !found {
		t.Fatalf("docs/templates.md has no heading %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

func templatesPage(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(checkout(t), "docs", "templates.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
