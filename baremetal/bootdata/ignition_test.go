package bootdata_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/bootdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/golden"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/verdict"
)

// TestIgnition passes configs of all versions to Ignition, before and after files are added.
func TestIgnition(t *testing.T) {
	ignition := verdict.NewIgnition(t)
	golden.Equal(t, filepath.Join("ignition-2", "input"), ignition.Render(t, true))
	golden.Equal(t, filepath.Join("ignition-2-join", "input"), ignition.Render(t, false))

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
			before, after := ignition.Validate(t, config), ignition.Validate(t, got)
			want := make([]verdict.IgnitionFile, 0, len(added())+len(before.Files))
			for _, wanted := range added() {
				content := append([]byte{}, wanted.Content...)
				want = append(want, verdict.IgnitionFile{
					Path: wanted.Path, Mode: uint32(wanted.Mode), Content: content, Overwrite: true,
				})
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
