package guard_test

import (
	"context"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	pods "github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/endpoint"
)

// TestRebootsOffline boots a node with a server of ramdisks, three times without it, and once with a truncated
// ramdisk. It runs the init containers of the static pod, with the downloader of Metal3.
func TestRebootsOffline(t *testing.T) {
	t.Parallel()
	n, server := newBootingNode(t)
	if err := <-n.initialize(); err != nil {
		t.Fatalf("the first boot: %v\n%s", err, n.said)
	}
	must(t, server.Close())
	for range 3 {
		must(t, os.RemoveAll(n.path("run")))
		if err := <-n.initialize(); err != nil {
			t.Fatalf("a boot without a network: %v\n%s", err, n.said)
		}
		n.startIronic()
		n.start()
		eventually(t, patient, "the node claims the VIP", heldBy(n, n))
		eventually(t, patient, "the guard adds a lease to the VIP", leased(n))
		n.stopIronic()
		killAll(t, n)
		eventually(t, generous, "the lease of the VIP ends", noHolder(n))
	}

	ramdisk := n.path("shared", "html", "images", pods.RamdiskFile)
	whole, err := os.ReadFile(ramdisk)
	must(t, err)
	must(t, os.Truncate(ramdisk, int64(len(whole)/2)))
	ended := n.initialize()
	eventually(t, generous, "the truncated ramdisk is found", n.logs("The download failed. Check the network, the proxy and "+
		"spec.ironic.ramdisk, or provide the files and delete the record"))
	n.serveRamdisk(t)
	if err := <-ended; err != nil {
		t.Fatalf("the network is back: %v\n%s", err, n.said)
	}
	if now, err := os.ReadFile(ramdisk); err != nil || string(now) != string(whole) {
		t.Errorf("the ramdisk has %d bytes and not %d: %v", len(now), len(whole), err)
	}
}

// ramdiskServer is the address of the server of ramdisks for the node.
const ramdiskServer = "127.0.0.1:8080"

func newBootingNode(t *testing.T) (*node, *http.Server) {
	t.Helper()
	program := os.Getenv("IPA_DOWNLOADER")
	if program == "" {
		t.Skip("set IPA_DOWNLOADER to get-resource.sh of metal3-io/ironic-ipa-downloader")
	}
	l := newLab(t)
	n, absent := l.addNode("n"), l.addNode("absent")
	n.configure(vip.Management, n, absent)
	n.startAPIServer()
	for _, folder := range []string{"data", "etc/auth", "etc/tls", "tools"} {
		must(t, os.MkdirAll(n.path(folder), 0o755))
	}
	for _, file := range []string{pods.HtpasswdFile, pods.CertificateFile, pods.KeyFile, pods.AuthorityFile} {
		n.write(filepath.Join("etc", file), "content")
	}
	script, err := os.ReadFile(program)
	must(t, err)
	must(t, os.WriteFile(n.path("get-resource.sh"), script, 0o755))
	n.openFolders()
	return n, n.serveRamdisk(t)
}

func (n *node) serveRamdisk(t *testing.T) *http.Server {
	t.Helper()
	handler, err := endpoint.RamdiskHandler()
	must(t, err)
	server := &http.Server{Handler: handler}
	listener := n.listen(ramdiskServer)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// initialize runs the init containers one after the other, until one of them fails.
func (n *node) initialize() <-chan error {
	t := n.lab.t
	t.Helper()
	rendered, err := pods.Pods(pods.Config{
		ClusterID: clusterID, VirtualIPs: []netip.Addr{vip4}, Interface: "eth0",
		Ports: pods.Ports{API: 6385, Image: 6180, ImageTLS: 6183}, Images: pods.Images{Guard: "guard"},
		Ramdisk: pods.Ramdisk{Source: pods.RamdiskSource{BaseURL: "http://" + ramdiskServer}},
	})
	must(t, err)
	ironic := rendered[slices.IndexFunc(rendered, func(p *corev1.Pod) bool { return p.Name == pods.IronicPod })]
	ended := make(chan error, 1)
	go func() {
		for _, container := range ironic.Spec.InitContainers {
			if err := n.runContainer(container); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	return ended
}

// runContainer runs the command of a container with its variables and user, in the folders of the node.
func (n *node) runContainer(container corev1.Container) error {
	paths := strings.NewReplacer(
		"/tools/guard", n.lab.binary, pods.GuardProgram, n.lab.binary, "/usr/local/bin", n.path(),
		pods.NodeDirectory, n.path("etc"), pods.DataDirectory, n.path("data"), "/private", n.path("private"),
		"=/tools", "="+n.path("tools"), "/shared", n.path("shared"),
	)
	arguments := make([]string, len(container.Command))
	for i, argument := range container.Command {
		arguments[i] = paths.Replace(argument)
	}
	command := exec.CommandContext(context.Background(), arguments[0], arguments[1:]...)
	command.Stdout, command.Stderr = n.said, n.said
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "SHARED_DIR=" + n.path("shared")}
	for _, variable := range container.Env {
		command.Env = append(command.Env, variable.Name+"="+variable.Value)
	}
	security := container.SecurityContext
	command.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGTERM,
		Credential: &syscall.Credential{
			Uid: uint32(*security.RunAsUser), Gid: uint32(*security.RunAsGroup),
		},
	}
	return within(n.space, command.Run)
}
