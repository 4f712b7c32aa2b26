package bmc_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConfigDriveReachesTheMachineAsItWasPacked(t *testing.T) {
	files := map[string]string{
		"openstack/latest/meta_data.json":                `{"name": "one"}`,
		"openstack/latest/network_data.json":             `{}`,
		"openstack/latest/user_data":                     "#cloud-config\n",
		"openstack/2012-08-10/meta_data.json":            `{"name": "one"}`,
		"openstack/content/A file, with a Long Name.x.y": strings.Repeat("0123456789", 50000),
		"empty": "",
	}
	// Ironic uses the first of these that it finds. The options are those that leave the Rock Ridge names out.
	for maker, plain := range map[string][]string{"genisoimage": nil, "mkisofs": nil, "xorrisofs": {"--norock"}} {
		t.Run(maker, func(t *testing.T) {
			fixture := start(t)
			image := makeImage(t, maker, files, "-J", "-r")
			fixture.want(t, http.StatusNoContent, "PUT", "/media", pack(t, image))
			got := map[string]string{}
			for name, content := range fixture.machine.media {
				got[name] = string(content)
			}
			if diff := cmp.Diff(files, got); diff != "" {
				t.Errorf("the media (-want +got):\n%s", diff)
			}
			fixture.want(t, http.StatusNoContent, "DELETE", "/media", "")
			if fixture.machine.media != nil {
				t.Error("the media were not ejected")
			}

			t.Log("an image that was cut off is refused")
			for _, part := range []int{len(image) / 20, len(image) / 4, len(image) / 2} {
				answer := fixture.want(t, http.StatusBadRequest, "PUT", "/media", pack(t, image[:part]))
				if !strings.Contains(answer, "reading the config drive") {
					t.Errorf("the answer is %q", answer)
				}
			}
			t.Log("so is one with names that were cut")
			answer := fixture.want(t, http.StatusBadRequest, "PUT", "/media", pack(t, makeImage(t, maker, files, plain...)))
			if !strings.Contains(answer, "Rock Ridge") {
				t.Errorf("the answer is %q", answer)
			}
		})
	}
}

// makeImage packs files as Ironic does, with the options that decide about names.
func makeImage(t *testing.T, maker string, files map[string]string, options ...string) []byte {
	t.Helper()
	program, err := exec.LookPath(maker)
	if err != nil {
		t.Skipf("%s is not installed: install genisoimage or xorriso", maker)
	}
	folder := t.TempDir()
	for name, content := range files {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	target := filepath.Join(t.TempDir(), "image.iso")
	args := append([]string{"-quiet", "-V", "config-2", "-o", target}, options...)
	if output, err := exec.CommandContext(t.Context(), program, append(args, folder)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", maker, err, output)
	}
	image, err := os.ReadFile(target)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// pack compresses an image as Ironic stores it, with line breaks as some programs add.
func pack(t *testing.T, image []byte) string {
	t.Helper()
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	if _, err := writer.Write(image); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString(compressed.Bytes())
	half := len(encoded) / 2
	return encoded[:half] + "\n" + encoded[half:] + "\n"
}
