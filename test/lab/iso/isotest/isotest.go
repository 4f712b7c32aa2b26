// Package isotest packs images for tests with the programs of Ironic.
package isotest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Make packs files as Ironic does, with options for names.
func Make(tb testing.TB, maker string, files map[string]string, options ...string) []byte {
	tb.Helper()
	program, err := exec.LookPath(maker)
	if err != nil {
		tb.Skipf("%s is not installed: install genisoimage or xorriso", maker)
	}
	folder := tb.TempDir()
	for name, content := range files {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	target := filepath.Join(tb.TempDir(), "image.iso")
	args := append([]string{"-quiet", "-V", "config-2", "-o", target}, options...)
	if output, err := exec.CommandContext(tb.Context(), program, append(args, folder)...).CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v\n%s", maker, err, output)
	}
	image, err := os.ReadFile(target)
	if err != nil {
		tb.Fatal(err)
	}
	return image
}
