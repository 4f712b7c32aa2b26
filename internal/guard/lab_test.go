package guard_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// The lab is a network namespace with a bridge, and one namespace for each node. It runs the real guard and
// keepalived. The API server is a stub. Ironic is a stub if the real one is not in the cache or not required.
const (
	clusterID = "3f9c1a7e"
	annotated = "ironic.infrastructure.cluster.x-k8s.io/armed"
	keepalive = "/usr/sbin/keepalived"
	generous  = 30 * time.Second

	// patient is for the start of a real Ironic on a busy machine.
	patient = 2 * time.Minute
)

var (
	vip4 = netip.MustParseAddr("172.22.0.2")
	vip6 = netip.MustParseAddr("fd00:22::2")

	virtuals = []netip.Addr{vip4, vip6}
)

// requireLab skips the test if the lab cannot be built. A bench fails: a table without figures must not pass.
func requireLab(tb testing.TB) {
	tb.Helper()
	missing := tb.Skipf
	if _, isBench := tb.(*testing.B); isBench {
		missing = tb.Fatalf
	}
	if _, err := os.Stat(keepalive); err != nil {
		missing("requires keepalived at %s: install the package keepalived", keepalive)
	}
	if os.Geteuid() != 0 {
		missing("requires root to create network namespaces")
	}
	err := within(netns.None(), func() error {
		made, err := netns.New()
		if err == nil {
			err = made.Close()
		}
		return err
	})
	if err != nil {
		missing("creating network namespaces: %v", err)
	}
}

// within runs a function on a thread in the namespace, and restores the thread.
func within(space netns.NsHandle, do func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		origin, err := netns.Get()
		if err == nil && space.IsOpen() {
			err = netns.Set(space)
		}
		if err == nil {
			err = do()
		}
		// A thread that cannot be restored stays locked, and ends with the goroutine.
		if origin.IsOpen() && netns.Set(origin) == nil {
			runtime.UnlockOSThread()
		}
		_ = origin.Close()
		result <- err
	}()
	return <-result
}

func newSpace(tb testing.TB) netns.NsHandle {
	tb.Helper()
	space := netns.None()
	must(tb, within(netns.None(), func() error {
		var err error
		space, err = netns.New()
		return err
	}))
	tb.Cleanup(func() { _ = space.Close() })
	handle := linksIn(tb, space)
	loopback, err := handle.LinkByName("lo")
	must(tb, err)
	must(tb, handle.LinkSetUp(loopback))
	return space
}

func linksIn(tb testing.TB, space netns.NsHandle) *netlink.Handle {
	tb.Helper()
	handle, err := netlink.NewHandleAt(space)
	must(tb, err)
	tb.Cleanup(handle.Close)
	return handle
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// checkInterval is the interval of the checks of a condition.
const checkInterval = 10 * time.Millisecond

// eventually waits until the function returns nothing, and fails with its last result. It calls a slow function less
// often, to save processor time.
func eventually(tb testing.TB, limit time.Duration, what string, missing func() string) {
	tb.Helper()
	began := time.Now()
	for {
		begun := time.Now()
		left := missing()
		if left == "" {
			return
		}
		if time.Since(began) > limit {
			tb.Fatalf("%s: not within %s: %s", what, limit, left)
		}
		<-time.After(max(checkInterval, min(4*time.Since(begun), 20*checkInterval)))
	}
}

// throughout requires that the function returns nothing for a time. It calls the function at least once.
func throughout(tb testing.TB, span time.Duration, what string, wrong func() string) {
	tb.Helper()
	for began := time.Now(); ; <-time.After(checkInterval) {
		if left := wrong(); left != "" {
			tb.Fatalf("%s: after %s: %s", what, time.Since(began), left)
		}
		if time.Since(began) >= span {
			return
		}
	}
}

// lasting returns nothing when the function has returned nothing for a time.
func lasting(span time.Duration, wrong func() string) func() string {
	var since time.Time
	return func() string {
		if left := wrong(); left != "" {
			since = time.Time{}
			return left
		}
		if since.IsZero() {
			since = time.Now()
		}
		if lasted := time.Since(since); lasted < span {
			return fmt.Sprintf("it has lasted for %s, want %s", lasted, span)
		}
		return ""
	}
}

type lab struct {
	t      testing.TB
	bridge *netlink.Handle
	space  netns.NsHandle
	folder string
	binary string
	issued material
	next   int
}

// material are the certificates of the lab.
type material struct {
	authority, certificate, key []byte
}

var buildOnce = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "guard-binary-")
	if err != nil {
		return "", err
	}
	// Another user runs it in a container.
	if err := os.Chmod(folder, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(folder, "guard")
	flags := []string{"-tags=nethttpomithttp2,netgo,osusergo", "-trimpath", "-ldflags=-s -w"}
	variables := append(os.Environ(), "CGO_ENABLED=0")
	if raced {
		flags, variables = []string{"-race"}, os.Environ()
	}
	flags = append([]string{"build", "-o", path}, flags...)
	command := exec.CommandContext(context.Background(), "go",
		append(flags, "github.com/metal3-pivot/cluster-api-provider-metal3/cmd/guard")...)
	command.Env = variables
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the guard: %w: %s", err, output)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	if options := os.Getenv(playsContainer); options != "" {
		os.Exit(containerMain(options))
	}
	flag.Parse()
	setParallel()
	code := m.Run()
	if path, err := buildOnce(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// atATime is the default number of parallel tests. Most of them wait for other programs, so it may exceed the number
// of processors.
const atATime = 3

func setParallel() {
	const name = "test.parallel"
	chosen := false
	flag.Visit(func(given *flag.Flag) { chosen = chosen || given.Name == name })
	if !chosen {
		_ = flag.Set(name, strconv.Itoa(max(atATime, runtime.GOMAXPROCS(0))))
	}
}

func newLab(tb testing.TB) *lab {
	tb.Helper()
	requireLab(tb)
	binary, err := buildOnce()
	must(tb, err)
	l := &lab{t: tb, space: newSpace(tb), folder: tb.TempDir(), binary: binary, next: 11}
	// The node itself sends requests to the real Ironic too.
	addresses := []net.IP{net.ParseIP(vip4.String()), net.ParseIP(vip6.String()), net.IPv4zero, net.IPv6unspecified}
	l.issued = issue(tb, addresses, time.Now().Add(time.Hour))
	l.bridge = linksIn(tb, l.space)
	snooping := false
	must(tb, l.bridge.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}, MulticastSnooping: &snooping}))
	link, err := l.bridge.LinkByName("br0")
	must(tb, err)
	must(tb, l.bridge.LinkSetUp(link))
	return l
}

// node is one machine.
type node struct {
	lab      *lab
	name     string
	address4 netip.Addr
	address6 netip.Addr
	space    netns.NsHandle
	links    *netlink.Handle
	folder   string
	settings vip.NodeSettings
	said     *safeBuffer
	process  *exec.Cmd
	ended    chan struct{}
	// endIronic ends Ironic or its stub. kubelet runs the real one.
	endIronic func()
	kubelet   *kubelet
	// images is the web server beside the Ironic of a kubelet.
	images *http.Server
	// pair is the certificate of the stub of Ironic.
	pair atomic.Pointer[tls.Certificate]
	// annotation are the annotations of the Node object. Nil means that the API server is unavailable.
	annotation atomic.Pointer[map[string]string]
	flags      []string
	variables  []string
}

// pair adds two control-plane nodes with their API servers and Ironics, without guards. They are always armed.
func (l *lab) pair(edit func(*vip.NodeSettings)) []*node {
	l.t.Helper()
	both := []*node{l.addNode("a"), l.addNode("b")}
	for _, n := range both {
		n.configure(vip.ControlPlane, both...)
		settings := n.settings
		settings.Takeover = vip.Always
		edit(&settings)
		n.use(settings)
		n.startAPIServer()
		n.startIronic()
	}
	return both
}

// addNode adds a machine to the network, without programs.
func (l *lab) addNode(name string) *node {
	l.t.Helper()
	n := &node{
		lab: l, name: name, space: newSpace(l.t), folder: filepath.Join(l.folder, name), said: &safeBuffer{},
		address4: netip.AddrFrom4([4]byte{172, 22, 0, byte(l.next)}),
		address6: netip.MustParseAddr("fd00:22::" + strconv.Itoa(l.next)),
	}
	l.next++
	n.links = linksIn(l.t, n.space)
	n.annotation.Store(&map[string]string{})
	must(l.t, os.MkdirAll(n.path("etc"), 0o755))
	n.plug("eth0")
	return n
}

// plug connects the node to the bridge.
func (n *node) plug(device string) {
	t := n.lab.t
	port := "p-" + n.name + "-" + device
	must(t, n.lab.bridge.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: port}, PeerName: device,
		PeerNamespace: netlink.NsFd(int(n.space))}))
	bridge, err := n.lab.bridge.LinkByName("br0")
	must(t, err)
	outer, err := n.lab.bridge.LinkByName(port)
	must(t, err)
	must(t, n.lab.bridge.LinkSetMaster(outer, bridge))
	must(t, n.lab.bridge.LinkSetUp(outer))
	inner, err := n.links.LinkByName(device)
	must(t, err)
	for _, address := range n.own() {
		must(t, n.links.AddrAdd(inner, address))
	}
	must(t, n.links.LinkSetUp(inner))
}

// own returns the own addresses of the node.
func (n *node) own() (addresses []*netlink.Addr) {
	for _, text := range []string{n.address4.String() + "/24", n.address6.String() + "/64"} {
		parsed, err := netlink.ParseAddr(text)
		must(n.lab.t, err)
		// Duplicate address detection would take a second.
		parsed.Flags = syscall.IFA_F_NODAD
		addresses = append(addresses, parsed)
	}
	return addresses
}

func (n *node) path(parts ...string) string {
	return filepath.Join(append([]string{n.folder}, parts...)...)
}

// configure writes the settings of the node, with these nodes as peers.
func (n *node) configure(role vip.Role, peers ...*node) {
	settings := vip.NodeSettings{
		ClusterID: clusterID, Role: role, Interface: "eth0", VirtualRouterID: 51, Mode: vip.Unicast,
		VirtualIPs: []vip.Address{
			{Address: vip4, Prefix: 24, Network: netip.MustParsePrefix("172.22.0.0/24")},
			{Address: vip6, Prefix: 128, Network: netip.MustParsePrefix("fd00:22::/64")},
		},
		AdvertisementInterval: vip.Duration(200 * time.Millisecond), Takeover: vip.AfterMove, Standby: vip.Warm,
		Ports: vip.Ports{API: 6385, Image: 6180, ImageTLS: 6183},
		Files: vip.Files{
			Socket: n.socket(), Authority: n.path("etc", "ca.crt"),
			State: n.path("run"), Kubeconfig: n.path("etc", "kubelet.conf"),
		},
		Images:          []string{"ironic-python-agent.kernel", "ironic-python-agent.initramfs"},
		ArmedAnnotation: vip.Annotation{Name: annotated, Value: "true"},
	}
	for _, peer := range peers {
		settings.Peers = append(settings.Peers, peer.address4, peer.address6)
	}
	n.write("etc/ca.crt", string(n.lab.issued.authority))
	n.use(settings)
}

func (n *node) use(settings vip.NodeSettings) {
	n.lab.t.Helper()
	n.settings = settings
	content, err := settings.Encode()
	must(n.lab.t, err)
	n.write("etc/guard.json", string(content))
}

func (n *node) write(name, content string) {
	n.lab.t.Helper()
	path := n.path(name)
	must(n.lab.t, os.WriteFile(path+".new", []byte(content), 0o600))
	must(n.lab.t, os.Rename(path+".new", path))
}

// start runs the guard until the test ends.
func (n *node) start() {
	t := n.lab.t
	t.Helper()
	arguments := append([]string{
		"--settings", n.path("etc", "guard.json"), "--node", n.name, "--cache", n.path("cache"),
	}, n.flags...)
	command := exec.CommandContext(context.Background(), n.lab.binary, arguments...)
	command.Stderr, command.Stdout = n.said, n.said
	command.Env = append(os.Environ(), n.variables...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	n.process, n.ended = command, make(chan struct{})
	started := make(chan error)
	ended := n.ended
	go func() {
		_ = within(n.space, func() error {
			err := command.Start()
			started <- err
			if err == nil {
				_ = command.Wait()
			}
			close(ended)
			return nil
		})
	}()
	must(t, <-started)
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(generous):
			_ = command.Process.Kill()
			<-ended
		}
		if strings.Contains(n.said.String(), "DATA RACE") {
			t.Errorf("the guard of %s has a race", n.name)
		}
		if t.Failed() {
			t.Logf("log of the guard of %s:\n%s", n.name, n.said)
		}
	})
}

// signal sends a signal to the guard only.
func (n *node) signal(number syscall.Signal) {
	n.lab.t.Helper()
	must(n.lab.t, n.process.Process.Signal(number))
}

// keepalivedProcesses returns the processes in the namespace of the node, the main process first.
func (n *node) keepalivedProcesses() []int {
	return n.processes("keepalived")
}

func (n *node) processes(name string) []int {
	var own syscall.Stat_t
	must(n.lab.t, syscall.Fstat(int(n.space), &own))
	entries, err := os.ReadDir("/proc")
	must(n.lab.t, err)
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		var theirs syscall.Stat_t
		if syscall.Stat(filepath.Join("/proc", entry.Name(), "ns", "net"), &theirs) != nil || theirs.Ino != own.Ino {
			continue
		}
		command, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "comm"))
		if name == "" || strings.TrimSpace(string(command)) == name {
			found = append(found, pid)
		}
	}
	return found
}

// held returns the VIPs on the interface of the node.
func (n *node) held() []netip.Addr {
	link, err := n.links.LinkByName("eth0")
	if err != nil {
		return nil
	}
	entries, err := n.links.AddrList(link, netlink.FAMILY_ALL)
	must(n.lab.t, err)
	var found []netip.Addr
	for _, entry := range entries {
		if address, ok := netip.AddrFromSlice(entry.IP); ok {
			found = append(found, address.Unmap())
		}
	}
	return found
}

// leased returns nothing when both VIPs of the node have a lease. keepalived adds them without a lease, and the guard
// adds it a moment later.
func leased(n *node) func() string {
	return func() string {
		link, err := n.links.LinkByName("eth0")
		must(n.lab.t, err)
		entries, err := n.links.AddrList(link, netlink.FAMILY_ALL)
		must(n.lab.t, err)
		ends := map[netip.Addr]bool{}
		for _, entry := range entries {
			if address, ok := netip.AddrFromSlice(entry.IP); ok {
				ends[address.Unmap()] = entry.ValidLft < math.MaxUint32
			}
		}
		if !ends[vip4] || !ends[vip6] {
			return fmt.Sprintf("both addresses should have a lease: %v", ends)
		}
		return ""
	}
}

// killAll kills all processes of a node at once, as a power loss would, but keeps its network.
func killAll(tb testing.TB, n *node) {
	tb.Helper()
	var stopped []int
	for {
		pids := n.processes("")
		if !slices.ContainsFunc(pids, func(pid int) bool { return !slices.Contains(stopped, pid) }) {
			kill(tb, pids)
			return
		}
		// A process may start another one before it stops.
		halt(tb, pids)
		stopped = pids
	}
}

// halt stops processes and waits until they have stopped.
func halt(tb testing.TB, pids []int) {
	tb.Helper()
	send(tb, syscall.SIGSTOP, pids)
	eventually(tb, generous, "the processes stop", func() string { return running(pids) })
}

// send sends a signal to processes, some of which may have ended.
func send(tb testing.TB, number syscall.Signal, pids []int) {
	tb.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, number); err != nil && !errors.Is(err, syscall.ESRCH) {
			tb.Fatal(err)
		}
	}
}

// kill stops all processes before it kills the first one, so that none reacts to the death of another. It kills
// children before their parents: the kernel continues the stopped children of a dying process, and keepalived would
// release the VIP in that moment.
func kill(tb testing.TB, pids []int) {
	tb.Helper()
	pids = slices.Clone(pids)
	depth := map[int]int{}
	for _, pid := range pids {
		depth[pid] = len(ancestors(pid))
	}
	slices.SortFunc(pids, func(a, b int) int { return depth[b] - depth[a] })
	halt(tb, pids)
	send(tb, syscall.SIGKILL, pids)
}

// ancestors returns the parent of a process, its parent, and so on.
func ancestors(pid int) []int {
	var found []int
	for fields := stat(pid); len(fields) > 1; fields = stat(pid) {
		parent, err := strconv.Atoi(fields[1])
		if err != nil || parent == 0 {
			break
		}
		found, pid = append(found, parent), parent
	}
	return found
}

// stat returns the fields of /proc/PID/stat from the state on. Nil if the process has ended.
func stat(pid int) []string {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(content), ") ")
	return strings.Fields(rest)
}

// running names the processes that have not stopped.
func running(pids []int) string {
	left := slices.DeleteFunc(slices.Clone(pids), hasStopped)
	if len(left) == 0 {
		return ""
	}
	return fmt.Sprint("processes ", left, " run")
}

// hasStopped returns true if a process has stopped or ended.
func hasStopped(pid int) bool {
	fields := stat(pid)
	return len(fields) == 0 || strings.Contains("TZX", fields[0])
}

// isDying returns true if a process executes no more code: a killed process that was stopped stays in the kernel for
// some hundredths of a second, until its memory is freed.
func isDying(pid int) bool {
	const exiting, killed = 1 << 2, 1 << (syscall.SIGKILL - 1)
	fields := stat(pid)
	if len(fields) < 29 {
		return true
	}
	flags, _ := strconv.ParseUint(fields[6], 10, 64)
	pending, _ := strconv.ParseUint(fields[28], 10, 64)
	return flags&exiting != 0 || pending&killed != 0
}

// holds returns true if the node has the address on its interface.
func (n *node) holds(address netip.Addr) bool {
	return slices.Contains(n.held(), address)
}

// file returns the content of a track file.
func (n *node) file(name string) string {
	content, err := os.ReadFile(n.path("run", name))
	if err != nil {
		return "missing"
	}
	return strings.TrimSpace(string(content))
}

// holders names the nodes with an address.
func holders(address netip.Addr, nodes ...*node) string {
	var names []string
	for _, n := range nodes {
		if n.holds(address) {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ",")
}

// heldBy returns nothing when only this node has all VIPs of its settings.
func heldBy(want *node, nodes ...*node) func() string {
	return func() string {
		for _, n := range nodes {
			held := n.held()
			for _, virtual := range want.settings.VirtualIPs {
				if slices.Contains(held, virtual.Address) != (n == want) {
					return fmt.Sprintf("%s has %v, and %s should have %s", n.name, held, want.name, virtual.Address)
				}
			}
		}
		return ""
	}
}

// noHolder returns nothing if the nodes have no VIP.
func noHolder(nodes ...*node) func() string {
	return func() string { return holders(vip4, nodes...) + holders(vip6, nodes...) }
}

func differs(want, got string) string {
	if want == got {
		return ""
	}
	return fmt.Sprintf("%q instead of %q", got, want)
}

// oneAtMost also requires, each time, that no two nodes have a VIP.
func oneAtMost(then func() string, nodes ...*node) func() string {
	return func() string {
		for _, address := range []string{holders(vip4, nodes...), holders(vip6, nodes...)} {
			if len(address) > 1 {
				nodes[0].lab.t.Errorf("an address is held by %s at once", address)
			}
		}
		return then()
	}
}

// ready returns nothing when the guard takes part and Ironic is healthy.
func (n *node) ready() string {
	if n.file("ironic-ok") != "1" {
		return n.name + ": ironic-ok is " + n.file("ironic-ok")
	}
	if code, body := n.get("/readyz"); code != http.StatusOK {
		return fmt.Sprintf("%s: readyz says %d %s", n.name, code, body)
	}
	return ""
}

// get requests a page of the guard.
func (n *node) get(page string) (int, string) {
	client := n.client()
	client.Timeout = 5 * time.Second
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://127.0.0.1:9650"+page, http.NoBody)
	must(n.lab.t, err)
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

// metric returns the lines of a metric.
func (n *node) metric(name string) string {
	_, body := n.get("/metrics")
	return strings.Join(regexp.MustCompile(`(?m)^metal3_guard_`+name+`\b.*$`).FindAllString(body, -1), "\n")
}

// client returns an HTTP client in the namespace of the node.
func (n *node) client() *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(n.lab.issued.authority)
	return &http.Client{Timeout: 300 * time.Millisecond, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool},
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			var connection net.Conn
			err := within(n.space, func() error {
				var err error
				connection, err = (&net.Dialer{}).DialContext(ctx, network, address)
				return err
			})
			return connection, err
		},
	}}
}

func (n *node) listen(address string) net.Listener {
	n.lab.t.Helper()
	var listener net.Listener
	must(n.lab.t, within(n.space, func() error {
		var err error
		listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
		return err
	}))
	return listener
}

// socket returns the path of the socket of Ironic behind its web server.
func (n *node) socket() string {
	return n.path("etc", "ironic.sock")
}

// startIronic runs a stub on all addresses of the node until the test ends or stopIronic is called. It serves only
// what the guard requests.
func (n *node) startIronic() {
	n.serveWith(n.lab.issued)
	api := http.NewServeMux()
	api.HandleFunc("GET /v1/drivers", func(writer http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(writer).Encode(drivers(clusterID + "-" + n.name))
	})
	api.HandleFunc("GET /v1", func(http.ResponseWriter, *http.Request) {})
	secure := &http.Server{Handler: requirePassword(api), TLSConfig: &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return n.pair.Load(), nil },
	}}
	behind := &http.Server{Handler: api}
	images := n.startImages()
	n.endIronic = func() { _ = errors.Join(secure.Close(), behind.Close(), images.Close()) }
	go func(listener net.Listener) { _ = behind.Serve(listener) }(listenAt(n.lab.t, n.socket()))
	go func(listener net.Listener) { _ = secure.ServeTLS(listener, "", "") }(n.listen(":6385"))
	n.lab.t.Cleanup(n.stopIronic)
}

// requirePassword requires the password for all paths except the version of the API.
func requirePassword(api http.Handler) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		username, password, _ := request.BasicAuth()
		if request.URL.Path != "/v1" && (username != "ironic" || password != "secret") {
			writer.WriteHeader(http.StatusUnauthorized)
			return
		}
		api.ServeHTTP(writer, request)
	})
}

// listenAt listens at a path, which a killed process may have left behind.
func listenAt(tb testing.TB, path string) net.Listener {
	tb.Helper()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		tb.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", path)
	must(tb, err)
	return listener
}

// startImages serves what the web server beside Ironic does.
func (n *node) startImages() *http.Server {
	images := http.NewServeMux()
	images.HandleFunc("/images/", func(writer http.ResponseWriter, _ *http.Request) {
		_, _ = writer.Write([]byte("image"))
	})
	if n.kubelet != nil {
		images.Handle("/", n.kubelet.media())
	}
	server := &http.Server{Handler: images}
	go func(listener net.Listener) { _ = server.Serve(listener) }(n.listen(":6180"))
	n.lab.t.Cleanup(func() { _ = server.Close() })
	return server
}

// stopIronic kills the Ironic of the node.
func (n *node) stopIronic() {
	n.endIronic()
}

func drivers(conductors ...string) map[string]any {
	return map[string]any{"drivers": []map[string]any{
		{"name": "redfish", "type": "dynamic", "hosts": conductors, "links": []any{}},
	}}
}

// startAPIServer serves the Node object of this node, and writes a kubeconfig as kubeadm does.
func (n *node) startAPIServer() {
	issued := issue(n.lab.t, []net.IP{net.IPv4(127, 0, 0, 1)}, time.Now().Add(time.Hour))
	pair, err := tls.X509KeyPair(issued.certificate, issued.key)
	must(n.lab.t, err)
	n.write("etc/kubelet-client-current.pem", string(issued.certificate)+string(issued.key))
	n.write("etc/kubelet.conf", kubeconfig("https://127.0.0.1:6443", issued.authority,
		"client-certificate: kubelet-client-current.pem", "client-key: kubelet-client-current.pem"))
	server := &http.Server{
		Handler: nodeHandler(n.name, &n.annotation),
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert,
		},
	}
	go func(listener net.Listener) { _ = server.ServeTLS(listener, "", "") }(n.listen("127.0.0.1:6443"))
	n.lab.t.Cleanup(func() { _ = server.Close() })
}

func kubeconfig(server string, authority []byte, user ...string) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: system:node@lab\n" +
		"clusters:\n- name: lab\n  cluster:\n    server: " + server + "\n    certificate-authority-data: " +
		base64.StdEncoding.EncodeToString(authority) + "\n" +
		"contexts:\n- name: system:node@lab\n  context: {cluster: lab, user: system:node}\n" +
		"users:\n- name: system:node\n  user:\n    " + strings.Join(user, "\n    ") + "\n"
}

func nodeHandler(name string, annotations *atomic.Pointer[map[string]string]) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		said := annotations.Load()
		switch {
		case said == nil:
			writer.WriteHeader(http.StatusServiceUnavailable)
		case request.URL.Path != "/api/v1/nodes/"+name:
			writer.WriteHeader(http.StatusForbidden)
		default:
			writer.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(writer).Encode(map[string]any{
				"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": map[string]any{"name": name, "annotations": *said},
			})
		}
	})
}

func (n *node) annotate(value string) {
	n.annotation.Store(&map[string]string{annotated: value})
}

// safeBuffer is safe for concurrent use.
type safeBuffer struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (b *safeBuffer) Write(data []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.Write(data)
}

func (b *safeBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.String()
}
