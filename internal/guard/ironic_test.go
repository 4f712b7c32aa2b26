package guard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/ironic"
)

// everyAddress is what the Ironic of a node listens on, and what it is asked on by the node itself. Go would try the same
// of IPv6 in both families, on threads that are in other namespaces.
var everyAddress = netip.IPv4Unspecified()

// realIronic returns the root file system of Ironic, or skips.
func realIronic(tb testing.TB) string {
	tb.Helper()
	requireLab(tb)
	root, err := ironic.CachedRoot()
	must(tb, err)
	if root == "" {
		tb.Skip("needs the root file system of Ironic in the cache; `make lab` as root puts it there")
	}
	return root
}

// kubelet keeps the real Ironic of a node running: it starts one that ended, and kills one whose liveness probe fails.
type kubelet struct {
	node    *node
	root    string
	marker  string
	ended   chan struct{}
	mutex   sync.Mutex
	process *ironic.Process
	starts  int
}

// probeInterval is less than that of the pod, to save time.
const probeInterval = time.Second

// startKubelet returns before Ironic answers. It ends with the test.
func (n *node) startKubelet(root string) *kubelet {
	k := &kubelet{node: n, root: root, marker: n.path("held"), ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(k.ended)
		for ctx.Err() == nil {
			k.runContainer(ctx)
		}
	}()
	n.lab.t.Cleanup(func() {
		cancel()
		<-k.ended
	})
	n.startImages()
	return k
}

// credentials are those that the guard of the node has.
func (l *lab) credentials() ironic.Credentials {
	return ironic.Credentials{
		Username: "ironic", Password: "secret",
		CA: l.issued.authority, Certificate: l.issued.certificate, Key: l.issued.key,
	}
}

// issueForAll makes certificates that Ironic can also be asked with on the node itself.
func (l *lab) issueForAll() {
	addresses := []net.IP{net.ParseIP(vip4.String()), net.ParseIP(vip6.String()), net.IPv4zero}
	l.issued = issue(l.t, addresses, time.Now().Add(time.Hour))
}

// runContainer is the life of one container, whose files are new.
func (k *kubelet) runContainer(ctx context.Context) {
	t := k.node.lab.t
	_ = os.Remove(k.marker)
	process, err := ironic.Run(ctx, ironic.Options{
		Root: k.root, Credentials: k.node.lab.credentials(),
		Config:           ironic.Config{Address: everyAddress, Port: 6385, ConductorHost: clusterID + "-" + k.node.name},
		NetworkNamespace: fmt.Sprintf("/proc/self/fd/%d", int(k.node.space)),
	})
	if err != nil {
		if ctx.Err() == nil {
			t.Errorf("Ironic of %s: %v", k.node.name, err)
			<-ctx.Done()
		}
		return
	}
	k.mutex.Lock()
	k.process, k.starts = process, k.starts+1
	k.mutex.Unlock()
	ticks := time.NewTicker(probeInterval)
	defer ticks.Stop()
	for {
		select {
		case <-process.Done():
			return
		case <-ctx.Done():
		case <-ticks.C:
			if k.probe(ctx) {
				continue
			}
		}
		stop, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = process.Stop(stop)
		return
	}
}

// probe says whether the liveness probe of the pod succeeds.
func (k *kubelet) probe(ctx context.Context) bool {
	probe := exec.CommandContext(ctx, k.node.lab.binary, "probe", "held-and-lost",
		"--settings="+k.node.path("etc", "guard.json"), "--marker="+k.marker)
	return within(k.node.space, probe.Run) == nil
}

// count is how often Ironic was started.
func (k *kubelet) count() int {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.starts
}

// restarted returns nothing once Ironic was started again since there were so many starts, and answers.
func (k *kubelet) restarted(before int) func() string {
	return func() string {
		if k.count() > before {
			return ""
		}
		return fmt.Sprintf("Ironic of %s was started %d times, as before", k.node.name, before)
	}
}

// crash kills Ironic without a word.
func (k *kubelet) crash() {
	t := k.node.lab.t
	killed := 0
	for _, pid := range k.node.processes("") {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(command), "python") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			killed++
		}
	}
	if killed == 0 {
		t.Fatalf("%s runs no Ironic that could crash", k.node.name)
	}
}

// api is a client of Ironic on an address, which dials anew for each request.
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

// board is the controller of a machine, and the server of its image. It keeps what changed the machine.
type board struct {
	mutex    sync.Mutex
	power    string
	commands []string
}

// imageContent is the image that the board serves.
const imageContent = "an operating system\n"

// startBoard serves on a node until the test ends.
func (n *node) startBoard() *board {
	b := &board{power: "off"}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /image", func(writer http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(writer, imageContent)
	})
	mux.HandleFunc("GET /power", func(writer http.ResponseWriter, _ *http.Request) {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		_ = json.NewEncoder(writer).Encode(map[string]string{"power": b.power})
	})
	mux.HandleFunc("PUT /power", func(_ http.ResponseWriter, request *http.Request) {
		var want struct{ Power string }
		_ = json.NewDecoder(request.Body).Decode(&want)
		b.mutex.Lock()
		defer b.mutex.Unlock()
		b.power = strings.TrimPrefix(want.Power, "soft-")
		b.commands = append(b.commands, "power "+want.Power)
	})
	mux.HandleFunc("/", func(_ http.ResponseWriter, request *http.Request) {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		b.commands = append(b.commands, request.Method+" "+request.URL.Path)
	})
	server := &http.Server{Handler: mux}
	go func(listener net.Listener) { _ = server.Serve(listener) }(n.listen(":8000"))
	n.lab.t.Cleanup(func() { _ = server.Close() })
	return b
}

// sent returns what changed the machine since the last call.
func (b *board) sent() []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	defer func() { b.commands = nil }()
	return b.commands
}
