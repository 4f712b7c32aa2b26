package bootdata_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/bootdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/golden"
)

// verdict is what Ignition says to a config that it accepts.
type verdict struct {
	Files    []ignitionFile
	Warnings []string
}

type ignitionFile struct {
	Path      string
	Mode      uint32
	Content   []byte
	Overwrite bool
}

// ignition builds the program in testdata/ignition, which has Ignition's own validators in it.
func ignition(t *testing.T) string {
	t.Helper()
	download := exec.CommandContext(t.Context(), "go", "-C", "testdata/ignition", "mod", "download")
	if output, err := download.CombinedOutput(); err != nil {
		t.Skipf("the modules of Ignition cannot be had: %v\n%s", err, output)
	}
	program := filepath.Join(t.TempDir(), "ignition")
	run(t, nil, "go", "-C", "testdata/ignition", "build", "-o", program, ".")
	return program
}

func validated(t *testing.T, program string, data []byte) verdict {
	t.Helper()
	var said verdict
	if err := json.Unmarshal(run(t, data, program, "validate"), &said); err != nil {
		t.Fatal(err)
	}
	return said
}

// TestIgnition gives configs of all versions to Ignition, before and after.
func TestIgnition(t *testing.T) {
	program := ignition(t)
	golden.Equal(t, filepath.Join("ignition-2", "input"), run(t, nil, program, "render-init"))
	golden.Equal(t, filepath.Join("ignition-2-join", "input"), run(t, nil, program, "render-join"))

	configs := map[string][]byte{}
	for name, input := range samples(t) {
		if format(input) == bootdata.Ignition {
			configs[name] = input
		}
	}
	for major, newest := range map[int]int{2: 4, 3: 6} {
		for minor := range newest + 1 {
			version := fmt.Sprintf("%d.%d.0", major, minor)
			configs[version] = fmt.Appendf(nil, `{"ignition":{"version":%q}}`, version)
		}
	}
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			got, err := bootdata.Add(config, bootdata.Ignition, added())
			if err != nil {
				t.Fatal(err)
			}
			before, after := validated(t, program, config), validated(t, program, got)
			want := make([]ignitionFile, 0, len(added())+len(before.Files))
			for _, wanted := range added() {
				content := append([]byte{}, wanted.Content...)
				want = append(want, ignitionFile{wanted.Path, uint32(wanted.Mode), content, true})
			}
			if diff := cmp.Diff(append(want, before.Files...), after.Files); diff != "" {
				t.Errorf("files:\n%s", diff)
			}
			if diff := cmp.Diff(before.Warnings, after.Warnings); diff != "" {
				t.Errorf("warnings:\n%s", diff)
			}
		})
	}
}
