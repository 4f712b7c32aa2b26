package ironic

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/thread"
)

// stepLimitOfTest is the time limit for the next stable state of a node on a busy machine.
const stepLimitOfTest = time.Minute

// testRoot returns the root file system of Ironic, or skips the test.
func testRoot(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("requires root to start Ironic in its own root file system")
	}
	root, _, err := EnsureRoot(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// start runs an Ironic until the end of the test.
func start(t *testing.T, options Options) *Process {
	t.Helper()
	options.Root, options.Log = testRoot(t), t.Output()
	process, err := Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Stop(context.Background()); err != nil {
			t.Errorf("stopping Ironic: %v", err)
		}
	})
	return process
}

func newClient(t *testing.T, process *Process) *gophercloud.ServiceClient {
	t.Helper()
	client, err := process.Client()
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// machine is a node of Ironic.
type machine struct {
	client *gophercloud.ServiceClient
	id     string
}

func (m *machine) get(t *testing.T) *nodes.Node {
	t.Helper()
	node, err := nodes.Get(t.Context(), m.client, m.id).Extract()
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func (m *machine) set(t *testing.T, path string, value any) {
	t.Helper()
	_, err := nodes.Update(t.Context(), m.client, m.id,
		nodes.UpdateOpts{nodes.UpdateOperation{Op: nodes.AddOp, Path: path, Value: value}}).Extract()
	if err != nil {
		t.Fatal(err)
	}
}

// begin requests a provision state.
func (m *machine) begin(t *testing.T, request nodes.ProvisionStateOpts) {
	t.Helper()
	if err := nodes.ChangeProvisionState(t.Context(), m.client, m.id, request).ExtractErr(); err != nil {
		t.Fatalf("%s: %v", request.Target, err)
	}
}

// change requests a provision state and waits for a given state.
func (m *machine) change(t *testing.T, request nodes.ProvisionStateOpts, want nodes.ProvisionState) *nodes.Node {
	t.Helper()
	m.begin(t, request)
	return m.wait(t, func(node *nodes.Node) bool {
		// A refused verification returns to its initial state.
		stable := node.TargetProvisionState == "" || strings.HasSuffix(node.ProvisionState, "failed")
		if stable && node.ProvisionState != string(want) {
			t.Fatalf("%s: node is %s, want %s: %s", request.Target, node.ProvisionState, want, node.LastError)
		}
		return stable
	})
}

// switchPower requests a power state and waits for it.
func (m *machine) switchPower(t *testing.T, target nodes.TargetPowerState) *nodes.Node {
	t.Helper()
	err := nodes.ChangePowerState(t.Context(), m.client, m.id, nodes.PowerStateOpts{Target: target}).ExtractErr()
	if err != nil {
		t.Fatal(err)
	}
	return m.wait(t, func(node *nodes.Node) bool { return node.TargetPowerState == "" })
}

func (m *machine) wait(t *testing.T, reached func(*nodes.Node) bool) *nodes.Node {
	t.Helper()
	deadline := time.NewTimer(stepLimitOfTest)
	defer deadline.Stop()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		node := m.get(t)
		if reached(node) {
			return node
		}
		select {
		case <-deadline.C:
			t.Fatalf("node is still %s (target %s), power %s (target %s) after %s: %s", node.ProvisionState,
				node.TargetProvisionState, node.PowerState, node.TargetPowerState, stepLimitOfTest, node.LastError)
		case <-ticker.C:
		}
	}
}

func TestClientsAreChecked(t *testing.T) {
	process := start(t, Options{})
	foreign, err := NewCredentials(process.Config.Address)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		credentials Credentials
		want        string
	}{
		"right":          {credentials: process.Credentials},
		"wrong password": {with(process.Credentials, func(c *Credentials) { c.Password = "guess" }), "401"},
		"wrong user":     {with(process.Credentials, func(c *Credentials) { c.Username = "guest" }), "401"},
		"wrong CA":       {with(process.Credentials, func(c *Credentials) { c.CA = foreign.CA }), "unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := NewClient(process.Endpoint(), test.credentials, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = nodes.List(client, nil).AllPages(t.Context())
			switch {
			case test.want == "" && err != nil:
				t.Fatalf("listing nodes: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Fatalf("listing nodes: %v, want an error with %q", err, test.want)
			}
		})
	}
}

func with(credentials Credentials, change func(*Credentials)) Credentials {
	change(&credentials)
	return credentials
}

func TestStopLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	process := start(t, Options{})
	if err := process.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		t.Errorf("%s holds %v, %v", os.TempDir(), left, err)
	}
	if err := process.Stop(t.Context()); err != nil {
		t.Errorf("stopping Ironic again: %v", err)
	}
	if err := process.command.Process.Signal(syscall.Signal(0)); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("the process remains: %v", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), os.TempDir()) {
		t.Errorf("mounts remain in %s: %v", os.TempDir(), err)
	}
	// All tests share the root file system, so it must not change.
	written, err := filepath.Glob(filepath.Join(testRoot(t), StateDir, "*"))
	if err != nil || len(written) > 0 {
		t.Errorf("the root file system was written to: %v, %v", written, err)
	}
}

func TestRunEndsWhenItCannotStart(t *testing.T) {
	process := start(t, Options{})
	_, err := Run(t.Context(), Options{Root: testRoot(t), Config: process.Config, Credentials: process.Credentials})
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("starting a second Ironic on the same port: %v", err)
	}
	if _, err := Run(t.Context(), Options{Root: t.TempDir()}); err == nil {
		t.Fatal("Ironic started from an empty folder")
	}
}

func TestRunInNetworkNamespace(t *testing.T) {
	namespace := newNetworkNamespace(t)
	process := start(t, Options{NetworkNamespace: namespace, Config: Config{Address: netip.MustParseAddr("::1")}})
	if _, err := nodes.List(newClient(t, process), nil).AllPages(t.Context()); err != nil {
		t.Fatalf("listing nodes in the namespace: %v", err)
	}
	outside, err := process.Credentials.HTTPClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, process.Endpoint(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := outside.Do(request); err == nil {
		_ = response.Body.Close()
		t.Error("Ironic answers outside of its network namespace")
	}
}

// newNetworkNamespace creates a network namespace with a loopback interface until the end of the test.
func newNetworkNamespace(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("requires root to create a network namespace")
	}
	ready, end, ended := make(chan string, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- thread.Own(func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				close(ready)
				return err
			}
			loopback, err := netlink.LinkByName("lo")
			if err == nil {
				err = netlink.LinkSetUp(loopback)
			}
			ready <- fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
			<-end
			return err
		})
	}()
	t.Cleanup(func() {
		close(end)
		if err := <-ended; err != nil {
			t.Errorf("creating a network namespace: %v", err)
		}
	})
	return <-ready
}
