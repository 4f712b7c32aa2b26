package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
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

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/ironic"
)

// everyAddress is the address for requests from the node to its own Ironic, which listens on all addresses of both
// families. For the unspecified IPv6 address, Go would try both families on threads in other namespaces.
var everyAddress = netip.IPv4Unspecified()

// realIronic returns the root file system of Ironic, or skips the test.
func realIronic(tb testing.TB) string {
	tb.Helper()
	requireLab(tb)
	root, err := ironic.CachedRoot()
	must(tb, err)
	if root == "" {
		tb.Skip("requires the root file system of Ironic in the cache: run `make lab` as root")
	}
	return root
}

// kubelet runs the real Ironic of a node behind its gate. It restarts an ended container.
type kubelet struct {
	node *node
	// command is the command of a container, and options is the file with the options of Ironic.
	command []string
	options string
	said    *safeBuffer

	mutex  sync.Mutex
	starts int
	// ends are the times when each container had no process left, and lost is when the VIP last left the node.
	ends []time.Time
	lost time.Time
	// held is true while the VIP is on the node. heldIn is the number of the container that ran when it last was.
	held   bool
	heldIn int
}

// playsContainer makes the test program the entry point of a container. Its value is a file with the options of
// Ironic.
const playsContainer = "GUARD_TEST_PLAYS_CONTAINER"

// containerState names the folder with the files of the container, and containerSocket the socket of Ironic.
const (
	containerState  = "GUARD_TEST_CONTAINER_STATE"
	containerSocket = "GUARD_TEST_CONTAINER_SOCKET"
)

// containerMain runs Ironic and ends with it.
func containerMain(file string) int {
	var options ironic.Options
	var process *ironic.Process
	content, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(content, &options)
	}
	if err == nil {
		err = serveSocket(os.Getenv(containerSocket), options.Credentials)
	}
	if err == nil {
		options.State, options.KeepsDatabase = os.Getenv(containerState), os.Getenv("IRONIC_SKIP_DBSYNC") == "true"
		process, err = ironic.Run(context.Background(), options)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	<-process.Done()
	return 1
}

// serveSocket forwards requests from the socket of the image to Ironic of the lab, which terminates TLS and checks
// the password itself.
func serveSocket(path string, credentials ironic.Credentials) error {
	client, err := credentials.HTTPClient(nil)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", path)
	if err != nil {
		return err
	}
	target := &url.URL{Scheme: "https", Host: netip.AddrPortFrom(everyAddress, 6385).String()}
	proxy := &httputil.ReverseProxy{
		Transport: client.Transport,
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(target)
			request.Out.SetBasicAuth(credentials.Username, credentials.Password)
		},
		// Ironic takes some seconds to start.
		ErrorHandler: func(writer http.ResponseWriter, _ *http.Request, _ error) { writer.WriteHeader(http.StatusBadGateway) },
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	return nil
}

// newKubelet starts nothing yet. The gate is the command before Ironic. Without a gate Ironic outlives the VIP.
func (n *node) newKubelet(root string, gate ...string) *kubelet {
	t := n.lab.t
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	options, err := json.Marshal(ironic.Options{
		Root: root, Credentials: n.lab.credentials(),
		Config: ironic.Config{
			Address: netip.IPv6Unspecified(), Port: 6385, ConductorHost: clusterID + "-" + n.name, Advertised: vip4,
		},
	})
	must(t, err)
	n.write("etc/ironic.json", string(options))
	must(t, os.MkdirAll(n.path("scratch"), 0o755))
	n.kubelet = &kubelet{
		node: n, command: append(gate, program), options: n.path("etc", "ironic.json"), said: &safeBuffer{},
	}
	return n.kubelet
}

// startBareIronic starts the real Ironic if its root file system is in the cache, and a stub otherwise. It ends with
// the test or with stopIronic. It has no gate, so it outlives the VIP.
func (n *node) startBareIronic() {
	t := n.lab.t
	root, err := ironic.CachedRoot()
	must(t, err)
	if root == "" {
		n.startIronic()
		return
	}
	k := n.newKubelet(root)
	stop, images := k.start(), n.startImages()
	n.endIronic = func() {
		_ = images.Close()
		stop()
	}
}

// startKubelet returns before Ironic answers. The kubelet ends with the test.
func (n *node) startKubelet(root string) {
	gate := append([]string{n.lab.binary, "gate", "--until-lost", "--again=IRONIC_SKIP_DBSYNC=true"}, n.place()...)
	k := n.newKubelet(root, append(gate, "--")...)
	k.start()
	n.images = n.startImages()
}

// start runs containers until the test ends or the returned function is called, which kills Ironic.
func (k *kubelet) start() (stop func()) {
	t := k.node.lab.t
	ctx, cancel := context.WithCancel(context.Background())
	var both sync.WaitGroup
	both.Go(func() {
		for ctx.Err() == nil {
			k.runContainer(ctx)
		}
	})
	both.Go(func() {
		err := within(k.node.space, func() error { return address.Watcher{Interface: "eth0", Changed: k.watch()}.Run(ctx) })
		if err != nil {
			t.Errorf("watching the address of %s: %v", k.node.name, err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		both.Wait()
		if t.Failed() {
			t.Logf("log of Ironic of %s:\n%s", k.node.name, k.said)
		}
	})
	t.Cleanup(stop)
	return stop
}

// runContainer runs one container with new files. It returns when no process of the container is left.
func (k *kubelet) runContainer(ctx context.Context) {
	command := exec.CommandContext(ctx, k.command[0], k.command[1:]...)
	state := k.state(k.count() + 1)
	must(k.node.lab.t, os.MkdirAll(state, 0o755))
	command.Env = append(os.Environ(), playsContainer+"="+k.options, "TMPDIR="+k.node.path("scratch"),
		containerState+"="+state, containerSocket+"="+k.node.socket())
	command.Stdout, command.Stderr = k.said, k.said
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	k.mutex.Lock()
	k.starts++
	k.mutex.Unlock()
	_ = within(k.node.space, command.Run)
	// A large process takes a moment to die.
	for len(k.ironics()) > 0 {
		<-time.After(time.Millisecond)
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.ends = append(k.ends, time.Now())
}

// state returns the folder of the files of a container.
func (k *kubelet) state(number int) string {
	return k.node.path("scratch", fmt.Sprint("state-", number))
}

// media returns the virtual media of the running container for BMCs.
func (k *kubelet) media() http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		folder := http.Dir(filepath.Join(k.state(k.count()), ironic.ImagesDir))
		http.FileServer(folder).ServeHTTP(writer, request)
	})
}

// ironics returns the processes of Ironic. A dying process has no command any more, but still its sockets.
func (k *kubelet) ironics() []int {
	return slices.DeleteFunc(k.node.processes(""), func(pid int) bool {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return len(command) > 0 && !strings.Contains(string(command), "python")
	})
}

// watch records when the VIP leaves.
func (k *kubelet) watch() func(address.Interface) {
	virtual := []netip.Addr{vip4, vip6}
	return func(now address.Interface) {
		k.mutex.Lock()
		defer k.mutex.Unlock()
		if k.held && !now.HasAny(virtual) {
			k.lost = time.Now()
		}
		if k.held || now.HasAny(virtual) {
			k.heldIn = k.starts
		}
		k.held = now.HasAny(virtual)
	}
}

func (l *lab) credentials() ironic.Credentials {
	return ironic.Credentials{
		Username: "ironic", Password: "secret",
		CA: l.issued.authority, Certificate: l.issued.certificate, Key: l.issued.key,
	}
}

// count returns the number of starts of Ironic.
func (k *kubelet) count() int {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.starts
}

// killed waits until the previous Ironic is dead because the VIP left.
func (k *kubelet) killed(before int) {
	t := k.node.lab.t
	t.Helper()
	eventually(t, generous, "the previous Ironic is killed", func() string {
		if k.count() > before {
			return ""
		}
		return fmt.Sprintf("Ironic of %s was started %d times, as before", k.node.name, before)
	})
	took := k.livedOn(before)
	if took > atOnce {
		t.Errorf("Ironic of %s lived for %s without the VIP", k.node.name, took)
	}
}

// livedOn returns how long processes of a container ran after the VIP had left.
func (k *kubelet) livedOn(number int) time.Duration {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.ends[number-1].Sub(k.lost)
}

// crash kills Ironic with SIGKILL.
func (k *kubelet) crash() {
	kill(k.node.lab.t, k.running())
}

// hang stops Ironic until the returned function is called. The kernel still accepts connections for it.
func (k *kubelet) hang() (goOn func()) {
	t := k.node.lab.t
	found := k.running()
	for _, pid := range found {
		must(t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	goOn = sync.OnceFunc(func() {
		for _, pid := range found {
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				t.Errorf("continuing process %d of Ironic: %v", pid, err)
			}
		}
	})
	t.Cleanup(goOn)
	return goOn
}

// running returns the processes of an Ironic that must be running.
func (k *kubelet) running() []int {
	t := k.node.lab.t
	found := k.ironics()
	if len(found) == 0 {
		t.Fatalf("%s runs no Ironic", k.node.name)
	}
	return found
}

// api returns a client of Ironic at an address, with a new connection for each request.
func (n *node) api(address netip.Addr) *gophercloud.ServiceClient {
	t := n.lab.t
	endpoint := "https://" + netip.AddrPortFrom(address, 6385).String() + "/v1/"
	client, err := ironic.NewClient(endpoint, n.lab.credentials(), func(ctx context.Context, network, address string) (
		connection net.Conn, err error) {
		err = within(n.space, func() error {
			connection, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return connection, err
	})
	must(t, err)
	client.HTTPClient.Timeout = 5 * time.Second
	if transport, is := client.HTTPClient.Transport.(*http.Transport); is {
		transport.DisableKeepAlives = true
	}
	return client
}
