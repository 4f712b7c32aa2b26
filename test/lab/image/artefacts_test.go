package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// buildVariable enables slow builds: Debian and the programs of Kubernetes.
const buildVariable = "METAL3_LAB_BUILD"

// artefacts returns the real artefacts. It skips the test if they cannot be built, or if the build is slow.
func artefacts(t *testing.T, progress io.Writer) Artefacts {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("requires root to build the files of a lab")
	}
	checkout, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	cache, err := binaries.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	shop := workshop{cache: cache, checkout: checkout, progress: io.Discard}
	if _, err := shop.parts(ended); err != nil && os.Getenv(buildVariable) != "true" {
		t.Skipf("requires files in the cache that take minutes to build: set %s=true, or start a lab", buildVariable)
	}
	made, err := Ensure(t.Context(), checkout, progress)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// inStore returns the names of the images in a store from its containerd.
func inStore(t *testing.T, artefacts Artefacts, store string) []string {
	t.Helper()
	var names []string
	err := withContainerd(t.Context(), artefacts.Root, store, func() error {
		output, err := inRoot(t.Context(), artefacts.Root, "/usr/bin/ctr", "--namespace", namespace, "images", "list", "-q").Output()
		names = strings.Fields(string(output))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// mounts returns the mounts of this machine below the artefacts.
func mounts(t *testing.T, made Artefacts) []string {
	t.Helper()
	var found []string
	for line := range strings.Lines(read(t, "/proc/self/mounts")) {
		if strings.Contains(line, made.Root) || strings.Contains(line, made.Store) || strings.Contains(line, "lab-test-") {
			found = append(found, line)
		}
	}
	return found
}

func TestArtefacts(t *testing.T) {
	made := artefacts(t, os.Stderr)

	t.Run("nothing is built again", func(t *testing.T) {
		var progress bytes.Buffer
		started := time.Now()
		again := artefacts(t, &progress)
		if progress.Len() > 0 || again.Root != made.Root || again.Store != made.Store {
			t.Errorf("%s\ngot %+v, want %+v", progress.String(), again, made)
		}
		if took := time.Since(started); took > 5*time.Second {
			t.Errorf("took %s", took)
		}
	})
	t.Run("the store has the images of kubeadm", func(t *testing.T) { testStore(t, made) })
	t.Run("a lab has its own images", func(t *testing.T) { testDerive(t, made) })
	t.Run("kubeadm accepts the file for kube-proxy", func(t *testing.T) { testProxyConfiguration(t, made) })
	t.Run("programs run with the files of Programs", func(t *testing.T) { testPrograms(t, made) })
	if left := mounts(t, made); len(left) > 0 {
		t.Errorf("mounts remain: %v", left)
	}
}

func temporary(t *testing.T, made Artefacts) string {
	t.Helper()
	// Next to the store, because hard links do not cross file systems.
	folder, err := os.MkdirTemp(filepath.Dir(made.Store), "lab-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

func testStore(t *testing.T, made Artefacts) {
	copied := filepath.Join(temporary(t, made), "store")
	if err := LinkStore(made.Store, copied); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), made.Kubeadm, "config", "images", "list", "--kubernetes-version",
		binaries.KubernetesVersion).Output()
	if err != nil {
		t.Fatal(err)
	}
	wanted := strings.Fields(string(output))
	if len(wanted) < 7 {
		t.Fatalf("kubeadm lists only %v", wanted)
	}
	for _, manager := range managerImages("") {
		wanted = append(wanted, manager.Names...)
	}
	names := inStore(t, made, copied)
	for _, name := range wanted {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not among %v", name, names)
		}
	}
}

func testDerive(t *testing.T, made Artefacts) {
	folder := temporary(t, made)
	const name = "lab.invalid/own:v1"
	archive := filepath.Join(folder, "own.tar")
	// The content is new, so that its import writes to the store.
	content := []byte(time.Now().String())
	if err := Pack(Image{Names: []string{name}, Files: []File{{Path: "/own", Content: content}}}, archive); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(folder, "store")
	if err := made.Derive(t.Context(), own, archive); err != nil {
		t.Fatal(err)
	}
	if names := inStore(t, made, own); !slices.Contains(names, name) {
		t.Errorf("%s is not among %v", name, names)
	}
	shared := filepath.Join(folder, "shared")
	if err := LinkStore(made.Store, shared); err != nil {
		t.Fatal(err)
	}
	if names := inStore(t, made, shared); slices.Contains(names, name) {
		t.Errorf("the image of one lab is in the store of all: %v", names)
	}
	broken := filepath.Join(folder, "broken.tar")
	write(t, broken, "not an archive", 0o644)
	failed := filepath.Join(folder, "failed")
	if err := made.Derive(t.Context(), failed, broken); err == nil || !strings.Contains(err.Error(), broken) {
		t.Errorf("got %v", err)
	}
	if present, err := exists(failed); present || err != nil {
		t.Errorf("a failed store remains, %v", err)
	}
}

func testProxyConfiguration(t *testing.T, made Artefacts) {
	configuration := fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %s
%s`, binaries.KubernetesVersion, read(t, filepath.Join(made.Root, "etc/lab/kube-proxy.yaml")))
	path := write(t, filepath.Join(t.TempDir(), "kubeadm.yaml"), configuration, 0o600)
	output, err := exec.CommandContext(t.Context(), made.Kubeadm, "config", "validate", "--config", path).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

// testPrograms unpacks a layer with programs and runs them with the layer as their root.
func testPrograms(t *testing.T, made Artefacts) {
	files, err := Programs(made.Root, "curl", "keepalived", "ip")
	if err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	if err := writeLayer(&layer, Image{Files: files}); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	extract(t, &layer, folder)
	for _, program := range [][]string{{"/usr/bin/curl", "--version"}, {"/usr/sbin/keepalived", "--version"}, {"/usr/bin/ip", "-V"}} {
		command := exec.CommandContext(t.Context(), program[0], program[1:]...)
		command.Dir = "/"
		command.SysProcAttr = &syscall.SysProcAttr{Chroot: folder}
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", program, err, output)
		}
	}
}

func extract(t *testing.T, from io.Reader, folder string) {
	t.Helper()
	for reader := tar.NewReader(from); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(folder, header.Name)
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(target, 0o755)
		case tar.TypeSymlink:
			err = os.Symlink(header.Linkname, target)
		default:
			var content []byte
			if content, err = io.ReadAll(reader); err == nil {
				err = os.WriteFile(target, content, os.FileMode(header.Mode))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
