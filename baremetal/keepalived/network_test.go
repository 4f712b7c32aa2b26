package keepalived_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
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

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/thread"
)

// nic is the interface of every node.
const nic = "provisioning"

// world is a switch with nodes, each with keepalived in its own network namespace. The namespaces have no names, so
// nothing is left when the test ends.
type world struct {
	t        *testing.T
	handle   *netlink.Handle
	switchNS netns.NsHandle
	nodes    map[string]*member

	// began is the time of the last change. Durations count from it.
	began time.Time

	mutex   sync.Mutex
	holders map[string]int // how many VIPs a node has
	moved   time.Time      // when holders changed last
	changed chan struct{}
}

// member is a node and its keepalived.
type member struct {
	name      string
	namespace netns.NsHandle
	directory string
	port      string
	command   *exec.Cmd
	exited    chan struct{}
	log       *logged
	own4      *netlink.Addr
}

// logged collects the output of a program.
type logged struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *logged) Write(data []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(data)
}

func (l *logged) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}

// now reads the clock: the tests report the duration of a takeover.
func now() time.Time {
	return time.Now() //nolint:forbidigo // A measurement requires a clock.
}

// newWorld creates the switch. It skips the test if that fails.
func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can create network namespaces")
	}
	if _, err := exec.LookPath("keepalived"); err != nil {
		t.Skip("keepalived is not installed")
	}
	w := &world{t: t, nodes: map[string]*member{}, holders: map[string]int{}, changed: make(chan struct{}, 1)}
	w.switchNS = newNamespace(t)
	handle, err := netlink.NewHandleAt(w.switchNS)
	if err != nil {
		t.Skipf("no access to a network namespace: %v", err)
	}
	t.Cleanup(handle.Close)
	w.handle = handle
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "switch"}, MulticastSnooping: new(false)}
	if err := errors.Join(handle.LinkAdd(bridge), handle.LinkSetUp(bridge)); err != nil {
		t.Skipf("creating a bridge: %v", err)
	}
	return w
}

// newNamespace creates a namespace that exists until the test and all processes in it end.
func newNamespace(t *testing.T) netns.NsHandle {
	t.Helper()
	var made netns.NsHandle
	err := thread.Own(func() (err error) {
		made, err = netns.New()
		return err
	})
	if err != nil {
		t.Skipf("creating a network namespace: %v", err)
	}
	t.Cleanup(func() { _ = made.Close() })
	return made
}

// add connects a node with the own addresses that end in the number.
func (w *world) add(name string, number int) {
	w.t.Helper()
	node := &member{name: name, namespace: newNamespace(w.t), directory: w.t.TempDir(), port: "port-" + name}
	w.nodes[name] = node
	bridge, err := w.handle.LinkByName("switch")
	if err != nil {
		w.t.Fatal(err)
	}
	cable := &netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: node.port, MasterIndex: bridge.Attrs().Index},
		PeerName:      nic,
		PeerNamespace: netlink.NsFd(int(node.namespace)),
		// A node that returns keeps its MAC address, which other nodes have cached.
		PeerHardwareAddr: net.HardwareAddr{0x02, 0x22, 0, 0, 0, byte(number)},
	}
	if err := errors.Join(w.handle.LinkAdd(cable), w.handle.LinkSetUp(cable)); err != nil {
		w.t.Fatalf("connecting %s: %v", name, err)
	}
	inside, err := netlink.NewHandleAt(node.namespace)
	if err != nil {
		w.t.Fatal(err)
	}
	defer inside.Close()
	link, err := inside.LinkByName(nic)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, own := range []string{fmt.Sprintf("172.22.0.%d/24", number), fmt.Sprintf("fd00:172:22::%d/64", number)} {
		address, err := netlink.ParseAddr(own)
		if err != nil {
			w.t.Fatal(err)
		}
		// Without duplicate address detection, an IPv6 address can be used at once.
		address.Flags = syscall.IFA_F_NODAD
		if err := inside.AddrAdd(link, address); err != nil {
			w.t.Fatalf("adding %s to %s: %v", own, name, err)
		}
		if address.IP.To4() != nil {
			node.own4 = address
		}
	}
	if err := inside.LinkSetUp(link); err != nil {
		w.t.Fatal(err)
	}
	w.watch(node)
}

// own adds or removes the own IPv4 address of a node. Without promote_secondaries, the kernel would remove the VIP too.
func (w *world) own(name string, change func(*netlink.Handle, netlink.Link, *netlink.Addr) error) {
	w.t.Helper()
	node := w.nodes[name]
	w.began = now()
	err := thread.Own(func() error {
		err := netns.Set(node.namespace)
		if err == nil {
			err = os.WriteFile("/proc/sys/net/ipv4/conf/"+nic+"/promote_secondaries", []byte("1"), 0o600)
		}
		return err
	})
	inside, errInside := netlink.NewHandleAt(node.namespace)
	if err := errors.Join(err, errInside); err != nil {
		w.t.Fatal(err)
	}
	defer inside.Close()
	link, err := inside.LinkByName(nic)
	if err == nil {
		err = change(inside, link, node.own4)
	}
	if err != nil {
		w.t.Fatalf("changing the own address of %s: %v", name, err)
	}
}

// watch observes the VIPs of a node.
func (w *world) watch(node *member) {
	w.t.Helper()
	updates, done := make(chan netlink.AddrUpdate, 64), make(chan struct{})
	err := netlink.AddrSubscribeWithOptions(updates, done, netlink.AddrSubscribeOptions{Namespace: &node.namespace})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { close(done) })
	go func() {
		has := map[string]bool{}
		for update := range updates {
			if slices.ContainsFunc([]netip.Prefix{virtual4, virtual6}, func(p netip.Prefix) bool {
				return update.LinkAddress.IP.Equal(net.IP(p.Addr().AsSlice()))
			}) {
				has[update.LinkAddress.IP.String()] = update.NewAddr
				w.holds(node.name, has)
			}
		}
	}()
}

func (w *world) holds(name string, has map[string]bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.moved = now()
	w.holders[name] = 0
	for _, held := range has {
		if held {
			w.holders[name]++
		}
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// holding returns the number of VIPs of each node, such as "a:2".
func (w *world) holding() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var all []string
	for name, count := range w.holders {
		if count > 0 {
			all = append(all, fmt.Sprintf("%s:%d", name, count))
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// until waits until the nodes hold one of the wanted states, and reports the time since the last change. The limit only
// ends a failing test.
func (w *world) until(story string, wants ...string) time.Duration {
	w.t.Helper()
	limit, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	for !slices.Contains(wants, w.holding()) {
		select {
		case <-w.changed:
		case <-limit.Done():
			w.fail(story, strings.Join(wants, " or "))
		}
	}
	w.mutex.Lock()
	took := w.moved.Sub(w.began)
	w.mutex.Unlock()
	w.t.Logf("%-60s %s after %s", story, w.holding(), took.Round(time.Millisecond))
	return took
}

// settled waits until nothing has changed for some time.
func (w *world) settled(while time.Duration) {
	w.t.Helper()
	for quiet := false; !quiet; {
		end, cancel := context.WithTimeout(w.t.Context(), while)
		select {
		case <-w.changed:
		case <-end.Done():
			quiet = true
		}
		cancel()
	}
}

// stays requires for some time that at every moment no other node holds a VIP.
func (w *world) stays(story, want string, while time.Duration) {
	w.t.Helper()
	end, cancel := context.WithTimeout(w.t.Context(), while)
	defer cancel()
	for {
		if w.holding() != want {
			w.fail(story, want)
		}
		select {
		case <-w.changed:
		case <-end.Done():
			w.t.Logf("%-60s %q for %s", story, want, while)
			return
		}
	}
}

func (w *world) fail(story, want string) {
	w.t.Helper()
	for name, node := range w.nodes {
		w.t.Logf("keepalived of %s:\n%s", name, node.log)
	}
	w.t.Fatalf("%s: want %q to hold the VIPs, got %q", story, want, w.holding())
}

// start runs keepalived on a node. Its files are in a directory of the test.
func (w *world) start(name string, config keepalived.Config) {
	w.t.Helper()
	node := w.nodes[name]
	config.HealthFile, config.ArmedFile = node.file("ironic-ok"), node.file("armed")
	content, err := keepalived.Render(config)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(node.file("keepalived.conf"), content, 0o600); err != nil {
		w.t.Fatal(err)
	}
	// Cleanup kills the whole group, which a context does not.
	node.command = exec.CommandContext(context.WithoutCancel(w.t.Context()), "keepalived", "--dont-fork", "--log-console", "--log-detail", "--vrrp",
		"--use-file", node.file("keepalived.conf"), "--pid", node.file("pid"), "--vrrp_pid", node.file("vrrp.pid"))
	node.log, node.exited = &logged{}, make(chan struct{})
	node.command.Stdout, node.command.Stderr = node.log, node.log
	// The process also ends if the test is killed: with the thread that started it, which therefore waits.
	node.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() {
		defer close(node.exited)
		_ = thread.Own(func() error {
			err := netns.Set(node.namespace)
			if err == nil {
				err = node.command.Start()
			}
			started <- err
			if err == nil {
				// The test judges the VIPs. A killed process always returns an error.
				_ = node.command.Wait()
			}
			return nil
		})
	}()
	if err := <-started; err != nil {
		w.t.Fatalf("starting keepalived on %s: %v", name, err)
	}
	w.t.Cleanup(func() { w.kill(name, syscall.SIGKILL) })
	// keepalived overwrites the health file when it starts, so the test writes it after that.
	w.eventually("keepalived has read its files", func() bool {
		_, err := os.Stat(node.file("ironic-ok"))
		return err == nil && strings.Contains(node.log.String(), "Startup complete")
	})
}

// eventually polls a state without events.
func (w *world) eventually(story string, holds func() bool) {
	w.t.Helper()
	limit, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond) //nolint:forbidigo // A log sends no events.
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit.Done():
			w.fail(story, "?")
		}
	}
}

// kill kills keepalived of a node with all of its processes, and waits for them.
func (w *world) kill(name string, signal syscall.Signal) {
	node := w.nodes[name]
	if node.command == nil {
		return
	}
	target := node.command.Process.Pid
	if signal == syscall.SIGKILL {
		target = -target
	}
	w.began = now()
	_ = syscall.Kill(target, signal)
	<-node.exited
	node.command = nil
}

// track writes a track file like the guard.
func (w *world) track(name, file, word string) {
	w.t.Helper()
	w.began = now()
	path := w.nodes[name].file(file)
	err := errors.Join(os.WriteFile(path+".new", []byte(word), 0o600), os.Rename(path+".new", path))
	if err != nil {
		w.t.Fatal(err)
	}
}

// remove deletes a track file.
func (w *world) remove(name, file string) {
	w.t.Helper()
	w.began = now()
	if err := os.Remove(w.nodes[name].file(file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
}

// crash simulates a power failure: the node sends nothing, and its addresses are removed from the network.
func (w *world) crash(name string) {
	w.t.Helper()
	node := w.nodes[name]
	link, err := w.handle.LinkByName(node.port)
	if err != nil {
		w.t.Fatal(err)
	}
	began := now()
	if err := w.handle.LinkDel(link); err != nil {
		w.t.Fatal(err)
	}
	w.kill(name, syscall.SIGKILL)
	w.began = began
}

func (m *member) file(name string) string {
	return filepath.Join(m.directory, name)
}
