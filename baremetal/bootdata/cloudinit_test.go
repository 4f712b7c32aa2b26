package bootdata_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/bootdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/verdict"
)

// TestCloudInit passes each golden to cloud-init, before and after files are added. cloud-init must keep the config of
// the user, and write the files.
func TestCloudInit(t *testing.T) {
	var names []string
	var all [][]byte
	add := func(name string, input []byte) {
		got, err := bootdata.Add(input, bootdata.CloudConfig, added())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		names, all = append(names, name), append(all, input, got)
	}
	for name, input := range samples(t) {
		if format(input) == bootdata.CloudConfig {
			add(name, input)
			add(name+"-gzip", zipped(t, input))
		}
	}
	said := verdict.CloudInit(t, all...)
	for i, name := range names {
		t.Run(name, func(t *testing.T) { testUnderstood(t, said[2*i], said[2*i+1]) })
	}
}

func testUnderstood(t *testing.T, before, after verdict.Understood) {
	t.Helper()
	t.Logf("cloud-init %s", after.Version)
	for _, wanted := range added() {
		want := verdict.File{Mode: wanted.Mode, Content: string(wanted.Content)}
		if diff := cmp.Diff(want, after.Files[wanted.Path]); diff != "" {
			t.Errorf("%s:\n%s", wanted.Path, diff)
		}
		delete(after.Files, wanted.Path)
	}
	if diff := cmp.Diff(before.Files, after.Files); diff != "" {
		t.Errorf("files of the user:\n%s", diff)
	}
	list, _ := after.Config["write_files"].([]any)
	rest := slices.DeleteFunc(list, func(item any) bool {
		entry, _ := item.(map[string]any)
		return slices.ContainsFunc(added(), func(own bootdata.File) bool { return own.Path == entry["path"] })
	})
	after.Config["write_files"] = rest
	if _, had := before.Config["write_files"]; !had {
		delete(after.Config, "write_files")
	}
	if diff := cmp.Diff(before.Config, after.Config, cmp.Transformer("noNil", func(list []any) []any {
		return append([]any{}, list...)
	})); diff != "" {
		t.Errorf("config of the user:\n%s", diff)
	}
	// The schema rejects an empty list. The added files end that.
	if after.Schema != before.Schema && after.Schema != "" {
		t.Errorf("schema: before %q, after %q", before.Schema, after.Schema)
	}
	if diff := cmp.Diff(before.Warnings, after.Warnings); diff != "" {
		t.Errorf("warnings:\n%s", diff)
	}
}
