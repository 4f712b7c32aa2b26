package verdict

import (
	_ "embed"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed cloud_init.py
var cloudInit string

// Understood is the result of cloud-init for user data.
type Understood struct {
	// Version of cloud-init.
	Version string

	// Config is the cloud-config after templates and merging, Schema the errors of the schema, and Warnings the
	// warnings in the log of cloud-init.
	Config   map[string]any
	Schema   string
	Warnings []string

	// Files are the written files, by path.
	Files map[string]File `json:"-"`
}

// File is a file that cloud-init wrote.
type File struct {
	Mode    os.FileMode
	Content string
}

// CloudInit passes each user data to the cloud-init of this machine. PYTHONPATH names another location. The name in the
// meta-data is node-0.
func CloudInit(t *testing.T, all ...[]byte) []Understood {
	t.Helper()
	probe := exec.CommandContext(t.Context(), "python3", "-c", "import cloudinit.user_data")
	if output, err := probe.CombinedOutput(); err != nil {
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
	said := make([]Understood, 0, len(all))
	if err := json.Unmarshal(run(t, question, "python3", "-B", "-c", cloudInit), &said); err != nil {
		t.Fatal(err)
	}
	for i := range said {
		said[i].Files = written(t, filepath.Join(roots[i], "files"))
	}
	return said
}

// written returns the files below the directory, by their relative paths.
func written(t *testing.T, directory string) map[string]File {
	t.Helper()
	files := map[string]File{}
	root, err := os.OpenRoot(directory)
	if os.IsNotExist(err) {
		return files
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := root.ReadFile(path)
		files["/"+path] = File{info.Mode(), string(content)}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
