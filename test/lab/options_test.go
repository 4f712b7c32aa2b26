package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkout creates a folder with releases.
func checkout(t *testing.T, releases ...string) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range releases {
		path := filepath.Join(folder, "out", "release", name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, componentsFile), []byte(releaseComponents), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

const releaseComponents = `apiVersion: v1
kind: Namespace
metadata:
  name: system
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: controller-manager
spec:
  template:
    spec:
      containers:
      - name: sidecar
        image: registry.example/sidecar:v1
      - name: manager
        image: registry.example/manager:v1.15.0
        args:
        - --diagnostics-address=${ADDRESS:=:8443}
`

func TestDefaults(t *testing.T) {
	folder := checkout(t, "v1.9.0", "v1.15.0", "v1.15.0-rc.1", "notes")
	options, err := Options{Name: "a", Hosts: 2}.complete(folder)
	if err != nil {
		t.Fatal(err)
	}
	if options.Machines != 3 {
		t.Errorf("%d machines run, want the hosts and the management machine", options.Machines)
	}
	if want := filepath.Join(folder, "out", "release", "v1.15.0"); options.Release != want {
		t.Errorf("release %s, want %s", options.Release, want)
	}
	if want := filepath.Join(folder, "out", "lab", "a"); options.Artefacts != want {
		t.Errorf("artefacts %s, want %s", options.Artefacts, want)
	}
	options.Progress("no reader of %s", "this")
	image, err := managerImage(options.Release)
	if err != nil || image != "registry.example/manager:v1.15.0" {
		t.Errorf("image %q, error %v", image, err)
	}
}

func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		options Options
		folder  string
		want    string
	}{
		"NoName":        {Options{}, checkout(t, "v1.0.0"), "lower-case"},
		"LongName":      {Options{Name: "abcdefghijklm"}, checkout(t, "v1.0.0"), "1 to 12"},
		"ManyHosts":     {Options{Name: "a", Hosts: 71}, checkout(t, "v1.0.0"), "71 hosts"},
		"NegativeHosts": {Options{Name: "a", Hosts: -1}, checkout(t, "v1.0.0"), "-1 hosts"},
		"NoMachines":    {Options{Name: "a", Machines: -1}, checkout(t, "v1.0.0"), "-1 machines"},
		"NoRelease":     {Options{Name: "a"}, checkout(t), "make release-manifests"},
		"WrongRelease":  {Options{Name: "a", Release: "/nowhere"}, checkout(t), "/nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tc.options.complete(tc.folder)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want it to contain %q", err, tc.want)
			}
		})
	}
}

func TestManagerImageWithoutDeployment(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, componentsFile), []byte("kind: Namespace\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := managerImage(folder); err == nil || !strings.Contains(err.Error(), "no Deployment") {
		t.Errorf("error %v, want one that says what is missing", err)
	}
}
