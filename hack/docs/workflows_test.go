package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// TestWorkflows: what the workflows of GitHub run is in the Makefile. They cannot run here.
func TestWorkflows(t *testing.T) {
	known := sets.New[string]()
	defined := regexp.MustCompile(`(?m)^(?:([a-z0-9-]+):|([A-Z_]+) \?=)`)
	for _, match := range defined.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		known.Insert(match[1] + match[2])
	}
	calls := regexp.MustCompile(`\bmake ([a-z0-9-]+)((?: +[A-Z_]+=\S+)*)`).FindAllStringSubmatch(scripts(t), -1)
	if len(calls) == 0 {
		t.Error("no workflow runs make, so this test shows nothing")
	}
	for _, call := range calls {
		if !known.Has(call[1]) {
			t.Errorf("a workflow runs make %s, which the Makefile does not have", call[1])
		}
		for _, set := range strings.Fields(call[2]) {
			if name, _, _ := strings.Cut(set, "="); !known.Has(name) {
				t.Errorf("a workflow runs make %s with %s, which the Makefile does not have", call[1], name)
			}
		}
	}
}

// scripts returns what the workflows run, each command on one line.
func scripts(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), ".github", "workflows", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		name := filepath.Join(".github", "workflows", filepath.Base(file))
		var workflow struct {
			Jobs map[string]struct {
				Steps []struct {
					Run string `json:"run"`
				} `json:"steps"`
			} `json:"jobs"`
		}
		if err := yaml.Unmarshal([]byte(read(t, name)), &workflow); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, job := range workflow.Jobs {
			for _, step := range job.Steps {
				all.WriteString(strings.ReplaceAll(step.Run, "\\\n", " ") + "\n")
			}
		}
	}
	return all.String()
}
