package image

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// fakeParts are folders in the form of the parts of a root file system.
func fakeParts(t *testing.T) parts {
	t.Helper()
	top := t.TempDir()
	debian := filepath.Join(top, "debian")
	for name, content := range map[string]string{
		"etc/machine-id": "of another machine", "etc/resolv.conf": "nameserver 192.0.2.1", "etc/ssh/ssh_host_rsa_key": "secret",
		"usr/bin/bash": "shell", "usr/local/sbin/tool": "tool", "usr/share/doc/bash/README": "words", "usr/share/doc-base/a": "kept",
		"var/cache/apt/archives/bash.deb": "package", "var/log/dpkg.log": "log", "run/lock": "lock",
		"etc/systemd/system/multi-user.target.wants/ssh.service": "unit", "usr/lib/systemd/system/ssh.service": "unit",
		"etc/cloud/cloud.cfg.d/05_logging.cfg": "logging",
	} {
		write(t, filepath.Join(debian, name), content, 0o644)
	}
	programs := parts{debian: debian, kubernetes: filepath.Join(top, "kubernetes"), control: filepath.Join(top, "control"),
		own: filepath.Join(top, "own")}
	for _, program := range programs.programs() {
		write(t, program, "program", 0o755)
	}
	return programs
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var status syscall.Stat_t
	if err := syscall.Lstat(path, &status); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return status.Ino
}

// assembled returns a root file system and its parts.
func assembled(t *testing.T) (string, parts) {
	t.Helper()
	parts := fakeParts(t)
	root := filepath.Join(filepath.Dir(parts.debian), "root")
	if err := parts.assemble(root); err != nil {
		t.Fatal(err)
	}
	return root, parts
}

func TestAssembleReplacesWithoutWriting(t *testing.T) {
	root, parts := assembled(t)
	for path, want := range map[string]string{
		filepath.Join(parts.debian, "etc/machine-id"): "of another machine",
		filepath.Join(root, "etc/machine-id"):         "",
		filepath.Join(root, "etc/hostname"):           "lab\n",
	} {
		if got := read(t, path); got != want {
			t.Errorf("%s has %q, want %q", path, got, want)
		}
	}
	if got := read(t, filepath.Join(root, "etc/resolv.conf")); !strings.Contains(got, "\nnameserver ") {
		t.Errorf("CoreDNS would not start with %q", got)
	}
	for _, shared := range []string{"usr/bin/bash", "usr/share/doc-base/a", "etc/cloud/cloud.cfg.d/05_logging.cfg"} {
		if inode(t, filepath.Join(root, shared)) != inode(t, filepath.Join(parts.debian, shared)) {
			t.Errorf("%s is not linked", shared)
		}
	}
}

func TestAssembleTrims(t *testing.T) {
	root, _ := assembled(t)
	for _, gone := range []string{
		"etc/ssh/ssh_host_rsa_key", "usr/share/doc/bash", "var/cache/apt/archives", "var/log/dpkg.log", "run/lock",
	} {
		if present, err := exists(filepath.Join(root, gone)); present || err != nil {
			t.Errorf("%s is there, %v", gone, err)
		}
	}
}

func TestAssembleAdds(t *testing.T) {
	root, parts := assembled(t)
	for _, folder := range append(mountPoints(), "run", "etc/kubernetes/kubelet.conf.d") {
		if status, err := os.Stat(filepath.Join(root, folder)); err != nil || !status.IsDir() {
			t.Errorf("%s: %v", folder, err)
		}
	}
	for program := range parts.programs() {
		if status, err := os.Stat(filepath.Join(root, program)); err != nil || status.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v", program, err)
		}
	}
	for name, destination := range unitLinks() {
		if got, err := os.Readlink(filepath.Join(root, name)); err != nil || got != destination {
			t.Errorf("%s -> %s, %v; want %s", name, got, err, destination)
		}
	}
}

func TestPartsDecideTheKey(t *testing.T) {
	one := parts{debian: "/c/debian-1", kubernetes: "/c/nodes-1", control: "/c/controlplane-1", own: "/c/programs-1"}
	seen := map[string]bool{key(one.keys()): true}
	for _, other := range []parts{
		{"/c/debian-2", one.kubernetes, one.control, one.own}, {one.debian, "/c/nodes-2", one.control, one.own},
		{one.debian, one.kubernetes, "/c/controlplane-2", one.own}, {one.debian, one.kubernetes, one.control, "/c/programs-2"},
	} {
		if made := key(other.keys()); seen[made] {
			t.Errorf("%+v has the key of another", other)
		} else {
			seen[made] = true
		}
	}
}

func TestRootFilesAgree(t *testing.T) {
	const folder = "rootfs/"
	containerd := read(t, folder+"etc/containerd/config.toml")
	if want := `sandbox_image = "registry.k8s.io/pause:` + pauseVersion + `"`; !strings.Contains(containerd, want) {
		t.Errorf("containerd would use another image than the packed one: no %s", want)
	}
	units := read(t, folder+"usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf")
	if !strings.Contains(units, "--config-dir=/etc/kubernetes/kubelet.conf.d") {
		t.Error("kubelet would not read the folder with the file of the lab")
	}
	for name, kind := range map[string]string{
		"etc/kubernetes/kubelet.conf.d/10-lab.conf": "KubeletConfiguration",
		"etc/lab/kube-proxy.yaml":                   "KubeProxyConfiguration",
	} {
		var found struct {
			Kind string `json:"kind"`
		}
		if err := yaml.Unmarshal([]byte(read(t, folder+name)), &found); err != nil || found.Kind != kind {
			t.Errorf("%s: %q, %v", name, found.Kind, err)
		}
	}
	if !strings.HasPrefix(read(t, folder+"etc/lab/kube-proxy.yaml"), "---\n") {
		t.Error("kube-proxy.yaml cannot be appended to another document")
	}
	if !strings.HasPrefix(binaries.KubernetesVersion, "v1.36.") {
		t.Errorf("%s is another minor release: look up the versions of pause, etcd and CoreDNS that its kubeadm lists, and "+
			"whether its kubelet still runs with Debian's containerd", binaries.KubernetesVersion)
	}
}

func TestLinkStore(t *testing.T) {
	folder := t.TempDir()
	from, to := filepath.Join(folder, "from"), filepath.Join(folder, "to")
	const (
		blob, layered       = "content/blobs/sha256/abc", "overlayfs/snapshots/1/fs/var/lib/some.db"
		metadata, snapshots = "bolt/meta.db", "overlayfs/metadata.db"
	)
	for _, name := range []string{blob, layered, metadata, snapshots} {
		write(t, filepath.Join(from, name), name, 0o640)
	}
	if err := os.Chmod(filepath.Join(from, "content"), 0o711); err != nil {
		t.Fatal(err)
	}
	if err := LinkStore(from, to); err != nil {
		t.Fatal(err)
	}
	shared := map[string]bool{}
	for _, name := range []string{blob, layered, metadata, snapshots} {
		if read(t, filepath.Join(to, name)) != name {
			t.Errorf("%s differs", name)
		}
		shared[name] = inode(t, filepath.Join(from, name)) == inode(t, filepath.Join(to, name))
	}
	if diff := cmp.Diff(map[string]bool{blob: true, layered: true, metadata: false, snapshots: false}, shared); diff != "" {
		t.Error(diff)
	}
	if status, err := os.Stat(filepath.Join(to, "content")); err != nil || status.Mode().Perm() != 0o711 {
		t.Errorf("%v, %v", status, err)
	}
	if err := LinkStore(from, to); err == nil {
		t.Error("a store was linked over another one")
	}
	if read(t, filepath.Join(to, metadata)) != metadata {
		t.Error("the store of another program was removed")
	}
}
