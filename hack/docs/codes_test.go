package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

var codeConstant = regexp.MustCompile(`(?m)^\t(Code\w+)\s+Code = "(\w+)"$`)

// TestEveryCodeIsUsed returns an error for a code that pivot.Codes does not list, and for one that no obstacle has.
func TestEveryCodeIsUsed(t *testing.T) {
	listed := map[string]bool{}
	for _, each := range pivot.Codes() {
		listed[string(each.Code)] = true
	}
	code := ""
	for _, folder := range []string{"baremetal/pivot", "internal/plugin", "controllers/metal3cluster"} {
		code += codeOf(t, folder)
	}
	constants := codeConstant.FindAllStringSubmatch(read(t, "baremetal/pivot/code.go"), -1)
	if len(constants) != len(listed) {
		t.Errorf("%d constants, and %d codes are listed", len(constants), len(listed))
	}
	for _, each := range constants {
		if !listed[each[2]] {
			t.Errorf("pivot.Codes does not list %s", each[2])
		}
		if !regexp.MustCompile(`\b` + each[1] + `\b`).MatchString(code) {
			t.Errorf("no obstacle has %s", each[1])
		}
	}
}

// codeOf returns the source of a folder, without tests and without the codes.
func codeOf(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", folder, err)
	}
	var code strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if name := filepath.Base(file); name != "code.go" && !strings.HasSuffix(name, "_test.go") {
			code.Write(content)
		}
	}
	return code.String()
}
