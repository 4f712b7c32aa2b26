package bootdata_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/bootdata"
)

// understood is what cloud-init makes of user data.
type understood struct {
	Version  string
	Config   map[string]any
	Warnings []string
	Schema   string
	// files are what it wrote, by path.
	files map[string]file
}

type file struct {
	Mode    os.FileMode
	Content string
}

// cloudInit gives each user data to the cloud-init of the machine. Where it is elsewhere, PYTHONPATH says so.
func cloudInit(t *testing.T, all ...[]byte) []understood {
	t.Helper()
	if output, err := exec.CommandContext(t.Context(), "python3", "-c", "import cloudinit.user_data").CombinedOutput(); err != nil {
		t.Skipf("cloud-init is not installed, or PYTHONPATH does not name it: %s", output)
	}
	asked := make([]map[string]any, 0, len(all))
	roots := make([]string, 0, len(all))
	for _, data := range all {
		roots = append(roots, t.TempDir())
		instance := map[string]any{"ds": map[string]any{"meta_data": map[string]any{"name": "node-0"}}}
		asked = append(asked, map[string]any{"data": data, "root": roots[len(roots)-1], "instance": instance})
	}
	question, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	said := make([]understood, 0, len(all))
	if err := json.Unmarshal(run(t, question, "python3", "-B", "testdata/run_cloud_init.py"), &said); err != nil {
		t.Fatal(err)
	}
	for i := range said {
		said[i].files = written(t, filepath.Join(roots[i], "files"))
	}
	return said
}

// written are the files below the directory, by their paths in it.
func written(t *testing.T, root string) map[string]file {
	t.Helper()
	files := map[string]file{}
	err := filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files[path[len(root):]] = file{info.Mode(), string(content)}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return files
}

func run(t *testing.T, input []byte, name string, arguments ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, name, arguments...)
	var problems bytes.Buffer
	command.Stdin, command.Stderr = bytes.NewReader(input), &problems
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, arguments, err, problems.String())
	}
	return output
}

// TestCloudInit gives each golden to cloud-init, before and after: what it understood before it understands after, and
// it writes the files.
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
	said := cloudInit(t, all...)
	for i, name := range names {
		t.Run(name, func(t *testing.T) { testUnderstood(t, said[2*i], said[2*i+1]) })
	}
}

func testUnderstood(t *testing.T, before, after understood) {
	t.Helper()
	t.Logf("cloud-init %s", after.Version)
	for _, wanted := range added() {
		want := file{Mode: wanted.Mode, Content: string(wanted.Content)}
		if diff := cmp.Diff(want, after.files[wanted.Path]); diff != "" {
			t.Errorf("%s:\n%s", wanted.Path, diff)
		}
		delete(after.files, wanted.Path)
	}
	if diff := cmp.Diff(before.files, after.files); diff != "" {
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
	// A list that was empty is not empty any more, to the joy of the schema.
	if after.Schema != before.Schema && after.Schema != "" {
		t.Errorf("schema: before %q, after %q", before.Schema, after.Schema)
	}
	if diff := cmp.Diff(before.Warnings, after.Warnings); diff != "" {
		t.Errorf("warnings:\n%s", diff)
	}
}
