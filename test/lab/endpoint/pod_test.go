package endpoint

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/vishvananda/netlink"
	"golang.org/x/crypto/bcrypt"
	corev1 "k8s.io/api/core/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/health"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/image"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/ironic"
)

const (
	// insideOf is set in a test that runs in its own namespaces.
	insideOf = "METAL3_TEST_NAMESPACES"
	// storyLimit is the time limit of the test on a busy machine.
	storyLimit = 5 * time.Minute
	// wellLimit is the time limit of each wait.
	wellLimit = 90 * time.Second
	pollEvery = 100 * time.Millisecond

	// Files of a node from the smallest and the largest spec.
	least, full = "baremetal/controlplane/testdata/least", "baremetal/controlplane/testdata/full"
	dhcpConfig  = "baremetal/ironic/testdata/dhcp4/dnsmasq.conf"

	conductor  = "3f9c1a7e-" + nodeOfTest
	apiAddress = "https://172.22.0.2:6385"
	// The interface of the pods, and the own address of the node on it.
	interfaceOfTest, nodeAddress = "provisioning", "172.22.0.21/24"
)

var virtualIP = netip.MustParseAddr("172.22.0.2")

// requireImages builds the images if it takes seconds, and skips the test otherwise.
func requireImages(t *testing.T) map[string]image.Image {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("requires root to start programs in root file systems")
	}
	root, err := ironic.CachedRoot()
	if err != nil {
		t.Fatal(err)
	}
	debian, err := image.CachedDebian()
	if err != nil {
		t.Fatal(err)
	}
	if root == "" || debian == "" {
		t.Skip("requires the root file systems of Ironic and of a machine in the cache: run make lab")
	}
	packed, err := packedOnce()
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// packedOnce packs the images, by their names in the manifests.
var packedOnce = sync.OnceValues(func() (map[string]image.Image, error) {
	checkout, err := binaries.Root()
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	packed, err := IronicImage(ctx, io.Discard)
	guard, guardErr := GuardImage(ctx, checkout, io.Discard)
	downloader, downloaderErr := DownloaderImage(ctx, checkout, io.Discard)
	return map[string]image.Image{
		"quay.io/metal3-io/ironic:v38.0.0":               packed,
		"registry.example/ironic:v2":                     packed,
		"registry.example/guard:v1":                      guard,
		"registry.example/keepalived:v4":                 guard,
		"quay.io/metal3-io/ironic-ipa-downloader:latest": downloader,
	}, errors.Join(err, guardErr, downloaderErr)
})

// isolate runs the test again in its own namespaces and returns true there. All its processes end with it.
func isolate(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideOf) != "" {
		return true
	}
	ctx, cancel := context.WithTimeout(t.Context(), storyLimit)
	defer cancel()
	command := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), insideOf+"=1")
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	command.Stdout, command.Stderr = t.Output(), t.Output()
	if err := command.Run(); err != nil {
		t.Fatalf("in its own namespaces: %v", err)
	}
	return false
}

// world is a node with the pods of the endpoint.
type world struct {
	*pod
	vip         *pod
	credentials ironic.Credentials
	client      *http.Client
	prober      health.Prober
	service     *gophercloud.ServiceClient
}

func newWorld(t *testing.T, images map[string]image.Image) *world {
	t.Helper()
	addNetwork(t)
	credentials, err := ironic.NewCredentials(virtualIP)
	if err != nil {
		t.Fatal(err)
	}
	node := t.TempDir()
	w := &world{
		pod: readPod(t, least+"/metal3-ironic.yaml", node, images), vip: readPod(t, least+"/metal3-vip.yaml", node, images),
		credentials: credentials,
	}
	w.writeNode(t)
	w.keepLayer(t)
	if w.client, err = credentials.HTTPClient(nil); err != nil {
		t.Fatal(err)
	}
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if w.service, err = ironic.NewClient(apiAddress+"/v1/", credentials, nil); err != nil {
		t.Fatal(err)
	}
	w.prober.Target = health.Target{
		APIPort: 6385, ImagePort: 6180, Address: virtualIP, Conductor: conductor,
		Socket:    filepath.Join(w.volume("shared"), "ironic.sock"),
		Authority: filepath.Join(w.volume("node"), "tls/ca.crt"),
		Images:    []string{"ironic-python-agent.kernel", "ironic-python-agent.initramfs"},
	}
	return w
}

// addNetwork creates the interface of the pods, with the own address of the node.
func addNetwork(t *testing.T) {
	t.Helper()
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: interfaceOfTest}, PeerName: "others"}
	others := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: link.PeerName}}
	address, err := netlink.ParseAddr(nodeAddress)
	err = errors.Join(err, netlink.LinkSetUp(loopback), netlink.LinkAdd(link), netlink.LinkSetUp(link),
		netlink.LinkSetUp(others), netlink.AddrAdd(link, address))
	if err != nil {
		t.Fatal(err)
	}
}

// writeNode writes the files of the boot data of a machine, for both pods, and the file that arms the node.
func (w *world) writeNode(t *testing.T) {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(w.credentials.Password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := os.ReadFile(fromTop(least + "/guard.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"guard.json":    settings,
		"armed":         []byte("1"),
		"auth/htpasswd": append([]byte(w.credentials.Username+":"), hash...),
		"tls/tls.crt":   w.credentials.Certificate,
		"tls/tls.key":   w.credentials.Key,
		"tls/ca.crt":    w.credentials.CA,
	} {
		path := filepath.Join(w.volume("node"), name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// keepLayer keeps the files of Ironic outside of its volumes when it ends, as after the end of only its process.
func (w *world) keepLayer(t *testing.T) {
	t.Helper()
	if err := os.Mkdir(w.volume("layer"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range w.spec.Containers {
		if container := &w.spec.Containers[i]; container.Name == "ironic" {
			container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "layer", MountPath: "/tmp"})
		}
	}
}

// wait repeats a check until it succeeds, and returns how long that took.
func wait(t *testing.T, what string, check func() error) time.Duration {
	t.Helper()
	began := time.Now()
	deadline := time.NewTimer(wellLimit)
	defer deadline.Stop()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return time.Since(began)
		}
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within %s: %v", what, wellLimit, err)
		case <-ticker.C:
		}
	}
}

// TestPods runs the rendered pods of this provider without changes, as the kubelet of a node runs them.
func TestPods(t *testing.T) {
	images := requireImages(t)
	if !isolate(t) {
		return
	}
	w := newWorld(t, images)
	w.prepare(t)
	w.vip.start(t, "guard")
	logs := w.start(t, "ramdisk-logs")
	httpd := w.start(t, "httpd")
	started := time.Now()
	conductorRuns := w.start(t, "ironic")
	wait(t, "Ironic is healthy", func() error { return w.prober.Check(t.Context()) })
	t.Logf("MEASURED: Ironic is healthy %s after its start", time.Since(started).Round(10*time.Millisecond))
	w.waitHolder(t, true)

	t.Run("access of clients", w.testAccess)
	t.Run("another authority", w.testAuthority)
	t.Run("images", w.testImages)
	t.Run("probes of the web server", func(t *testing.T) { w.testProbes(t, httpd) })
	t.Run("logs of a ramdisk", func(t *testing.T) { w.testLogs(t, logs) })
	t.Run("addresses for hosts", func(t *testing.T) { testDHCP(t, images) })
	t.Run("the term of the database", func(t *testing.T) { w.testTerm(t, conductorRuns) })
}

// waitHolder waits until the node has the VIP, or does not have it.
func (w *world) waitHolder(t *testing.T, want bool) {
	t.Helper()
	link, err := netlink.LinkByName(interfaceOfTest)
	if err != nil {
		t.Fatal(err)
	}
	took := wait(t, "the VIP has moved", func() error {
		addresses, err := netlink.AddrList(link, netlink.FAMILY_V4)
		if err != nil {
			return err
		}
		holds := slices.ContainsFunc(addresses, func(a netlink.Addr) bool { return a.IP.String() == virtualIP.String() })
		if holds != want {
			return fmt.Errorf("the node holds the VIP: %t", holds)
		}
		return nil
	})
	t.Logf("MEASURED: holding the VIP is %t %s later", want, took.Round(10*time.Millisecond))
}

// status sends a request to the API and returns the status of the response.
func (w *world) status(t *testing.T, method, url, password string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if password != "" {
		request.SetBasicAuth(w.credentials.Username, password)
	}
	response, err := w.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func (w *world) testAccess(t *testing.T) {
	for name, test := range map[string]struct {
		method, path, password string
		want                   int
	}{
		"drivers, with credentials":      {"GET", "/v1/drivers", w.credentials.Password, 200},
		"drivers, without":               {"GET", "/v1/drivers", "", 401},
		"drivers, with others":           {"GET", "/v1/drivers", "guessed", 401},
		"nodes, without":                 {"POST", "/v1/nodes", "", 401},
		"below a public path":            {"GET", "/v1/nodes/v1/lookup", "", 401},
		"the versions":                   {"GET", "/", "", 200},
		"the version":                    {"GET", "/v1", "", 200},
		"the version, with a slash":      {"GET", "/v1/", "", 200},
		"an unknown ramdisk":             {"GET", "/v1/lookup?addresses=02:22:00:00:00:99", "", 404},
		"a heartbeat for no node":        {"POST", "/v1/heartbeat/9d2d34b1-4ffa-4d2a-9fb6-3b1d4ae7e3a5", "", 400},
		"an inspection that did not run": {"POST", "/v1/continue_inspection", "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			if got := w.status(t, test.method, apiAddress+test.path, test.password); got != test.want {
				t.Errorf("%s %s: got %d, want %d", test.method, test.path, got, test.want)
			}
		})
	}
}

func (w *world) testAuthority(t *testing.T) {
	foreign, err := ironic.NewCredentials(virtualIP)
	if err != nil {
		t.Fatal(err)
	}
	client, err := foreign.HTTPClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, apiAddress+"/v1", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err == nil {
		_ = response.Body.Close()
	}
	var untrusted *tls.CertificateVerificationError
	if !errors.As(err, &untrusted) {
		t.Errorf("a client of another authority got %v", err)
	}
}

func (w *world) testImages(t *testing.T) {
	const file = "/images/ironic-python-agent.kernel"
	for url, want := range map[string]int{
		"http://172.22.0.2:6180" + file:              200,
		"http://172.22.0.2:6180/images/":             403,
		"http://172.22.0.2:6180/images/none":         403,
		"https://172.22.0.2:6183" + file:             200,
		"http://172.22.0.2:6180/../../auth/ironic":   400,
		"http://172.22.0.2:6180/redfish/boot.iso":    403,
		"https://172.22.0.2:6183/redfish/boot.iso":   200,
		apiAddress + file:                            200,
		apiAddress + "/images/none":                  404,
		"http://172.22.0.2:6180/log/ironic/deploy/x": 404,
	} {
		media := filepath.Join(w.volume("shared"), "html", "redfish")
		err := errors.Join(os.MkdirAll(media, 0o755), os.WriteFile(filepath.Join(media, "boot.iso"), []byte("media"), 0o644))
		if err != nil {
			t.Fatal(err)
		}
		if got := w.status(t, http.MethodGet, url, ""); got != want {
			t.Errorf("GET %s: got %d, want %d", url, got, want)
		}
	}
}

// testProbes requires that the probes of the web server succeed. While its processes are stopped, the kernel accepts
// connections, and the liveness probe must fail.
func (w *world) testProbes(t *testing.T, httpd *container) {
	t.Helper()
	index := slices.IndexFunc(w.spec.Containers, func(c corev1.Container) bool { return c.Name == "httpd" })
	liveness, readiness := w.spec.Containers[index].LivenessProbe, w.spec.Containers[index].ReadinessProbe
	for _, probe := range []*corev1.Probe{liveness, readiness} {
		if err := w.succeeds(t.Context(), probe); err != nil {
			t.Errorf("the web server serves files: %v", err)
		}
	}
	defer httpd.stopAll(t)()
	if err := w.succeeds(t.Context(), liveness); err == nil {
		t.Error("the liveness probe succeeds with a stopped web server")
	}
}

// succeeds does what the kubelet does with a probe that is an HTTP request.
func (w *world) succeeds(ctx context.Context, probe *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(probe.TimeoutSeconds)*time.Second)
	defer cancel()
	url := "http://" + net.JoinHostPort(probe.HTTPGet.Host, probe.HTTPGet.Port.String()) + probe.HTTPGet.Path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		err = fmt.Errorf("GET %s: got %s", url, response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

func (w *world) testLogs(t *testing.T, logs *container) {
	t.Helper()
	var content bytes.Buffer
	compressed := gzip.NewWriter(&content)
	archive := tar.NewWriter(compressed)
	err := errors.Join(
		archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "journal", Mode: 0o600, Size: 11}),
		func() error { _, err := io.WriteString(archive, "disk is bad"); return err }(),
		archive.Close(), compressed.Close())
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(w.volume("shared"), "log", "ironic", "deploy", "host-0.tar.gz")
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	// The container reads a file when it is closed.
	_, err = file.Write(content.Bytes())
	if err := errors.Join(err, file.Chown(997, 994), file.Close()); err != nil {
		t.Fatal(err)
	}
	wait(t, "the log is printed and removed", func() error {
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) || !logs.said("disk is bad") {
			return errors.New("not yet")
		}
		return nil
	})
}

// testTerm requires that Ironic keeps its database when the VIP leaves for a moment, and has an empty one after a crash
// of its container.
func (w *world) testTerm(t *testing.T, running *container) {
	t.Helper()
	created, err := nodes.Create(t.Context(), w.service, nodes.CreateOpts{Driver: "redfish", Name: "metal3~host-0"}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	w.requireNodes(t, created.UUID)
	removeAddress(t)
	w.waitHolder(t, true)
	wait(t, "Ironic continues", func() error { return w.prober.Check(t.Context()) })
	w.requireNodes(t, created.UUID)
	wait(t, "Ironic was stopped without the VIP", func() error {
		if !running.said("the program continues") {
			return errors.New("the gate has not logged it")
		}
		return nil
	})

	// As after a crash, the socket remains.
	running.kill()
	ended := time.Now()
	wait(t, "the guard notices", func() error {
		content, err := os.ReadFile(filepath.Join(w.volume("state"), "ironic-ok"))
		if err == nil && string(bytes.TrimSpace(content)) != "0" {
			err = fmt.Errorf("ironic-ok is %q", content)
		}
		return err
	})
	w.waitHolder(t, false)
	if err := w.prober.Check(t.Context()); err == nil {
		t.Error("Ironic counts as healthy although it does not run")
	}
	running = w.start(t, "ironic")
	wait(t, "Ironic is healthy again", func() error { return w.prober.Check(t.Context()) })
	t.Logf("MEASURED: Ironic is healthy %s after the crash", time.Since(ended).Round(10*time.Millisecond))
	w.waitHolder(t, true)
	w.requireNodes(t)

	signalled := time.Now()
	if !running.stop() {
		t.Errorf("Ironic did not end within %s", grace)
	}
	t.Logf("MEASURED: Ironic ended %s after SIGTERM", time.Since(signalled).Round(10*time.Millisecond))
}

// removeAddress removes the VIP from the node.
func removeAddress(t *testing.T) {
	t.Helper()
	link, err := netlink.LinkByName(interfaceOfTest)
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := netlink.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		t.Fatal(err)
	}
	index := slices.IndexFunc(addresses, func(a netlink.Addr) bool { return a.IP.String() == virtualIP.String() })
	if index < 0 {
		t.Fatalf("the node has %v, want %s", addresses, virtualIP)
	}
	if err := netlink.AddrDel(link, &addresses[index]); err != nil {
		t.Fatal(err)
	}
}

// requireNodes requires that exactly these nodes are registered in Ironic.
func (w *world) requireNodes(t *testing.T, want ...string) {
	t.Helper()
	var known []string
	for _, node := range w.list(t) {
		known = append(known, node.UUID)
	}
	if !slices.Equal(known, want) {
		t.Fatalf("got nodes %v, want %v", known, want)
	}
}

func (w *world) list(t *testing.T) []nodes.Node {
	t.Helper()
	pages, err := nodes.List(w.service, nodes.ListOpts{Fields: []string{"uuid", "name"}}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	known, err := nodes.ExtractNodes(pages)
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// testDHCP runs the DHCP server of the node, which waits for the VIP, and downloads the boot programs of machines.
func testDHCP(t *testing.T, images map[string]image.Image) {
	t.Helper()
	server := readPod(t, full+"/metal3-dnsmasq.yaml", t.TempDir(), images)
	content, err := os.ReadFile(fromTop(dhcpConfig))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(server.volume("node"), "dnsmasq.conf"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	// That spec has another interface.
	command := server.spec.Containers[0].Command
	command[slices.Index(command, "--interface=br0")] = "--interface=" + interfaceOfTest
	server.prepare(t)
	server.start(t, "dnsmasq")
	for _, name := range []string{"undionly.kpxe", "snponly-x86_64.efi"} {
		wait(t, "the server offers "+name, func() error { return requestTFTP(t.Context(), name) })
	}
}

// requestTFTP requests a file by TFTP and reads its first block.
func requestTFTP(ctx context.Context, name string) error {
	connection, err := new(net.ListenConfig).ListenPacket(ctx, "udp4", "")
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	server := &net.UDPAddr{IP: virtualIP.AsSlice(), Port: 69}
	if _, err := connection.WriteTo([]byte("\x00\x01"+name+"\x00octet\x00"), server); err != nil {
		return err
	}
	if err := connection.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	answer := make([]byte, 1024)
	length, _, err := connection.ReadFrom(answer)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(answer[:length], []byte("\x00\x03\x00\x01")) || length != 4+512 {
		return fmt.Errorf("the response for %s is %q", name, answer[:min(length, 60)])
	}
	return nil
}
