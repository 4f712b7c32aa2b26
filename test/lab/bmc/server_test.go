package bmc_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/inventory"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// The machines and the switch of a lab are what the server is made for.
var (
	_ bmc.Machine = (*machine.Machine)(nil)
	_ bmc.Network = (*network.Switch)(nil)
)

func TestPowerFollowsTheCommands(t *testing.T) {
	fixture := start(t)
	for _, step := range []struct {
		command, state string
		calls          []string
	}{
		{"on", "on", []string{"PowerOn"}},
		{"reboot", "on", []string{"Reset"}},
		{"soft-reboot", "on", []string{"Shutdown", "PowerOn"}},
		{"soft-off", "off", []string{"Shutdown"}},
		{"on", "on", []string{"PowerOn"}},
		{"off", "off", []string{"PowerOff"}},
	} {
		fixture.machine.calls = nil
		fixture.want(t, http.StatusNoContent, "PUT", "/power", `{"power": "`+step.command+`"}`)
		if diff := cmp.Diff(step.calls, fixture.machine.calls); diff != "" {
			t.Errorf("%s: the machine was told (-want +got):\n%s", step.command, diff)
		}
		answer := fixture.want(t, http.StatusOK, "GET", "/power", "")
		if diff := cmp.Diff(`{"power":"`+step.state+`"}`, answer); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", step.command, diff)
		}
	}
}

func TestFailuresHaveTheirStatus(t *testing.T) {
	for name, test := range map[string]struct {
		prepare            func(*fixture)
		method, path, body string
		status             int
		says               string
	}{
		"a system that does not shut down": {
			prepare: func(f *fixture) { f.machine.failure = fmt.Errorf("machine one: %w", machine.ErrShutdownLimit) },
			method:  "PUT", path: "/power", body: `{"power": "soft-off"}`, status: http.StatusGatewayTimeout,
			says: machine.ErrShutdownLimit.Error(),
		},
		"a disk in use": {
			prepare: func(f *fixture) { f.machine.failure = fmt.Errorf("machine one: %w", machine.ErrRunning) },
			method:  "DELETE", path: "/disk", status: http.StatusConflict, says: machine.ErrRunning.Error(),
		},
		"any other failure": {
			prepare: func(f *fixture) { f.machine.failure = errors.New("the board is on fire") },
			method:  "PUT", path: "/power", body: `{"power": "on"}`, status: http.StatusInternalServerError,
			says: "the board is on fire",
		},
		"an unknown command": {
			method: "PUT", path: "/power", body: `{"power": "explode"}`, status: http.StatusBadRequest, says: `"explode"`,
		},
		"no JSON": {method: "PUT", path: "/power", body: "on", status: http.StatusBadRequest, says: "reading the request"},
		"no image": {
			method: "PUT", path: "/disk", body: `{}`, status: http.StatusBadRequest, says: "the image is missing",
		},
		"an image that is not there": {
			method: "PUT", path: "/disk", body: `{"image": "` + bmc.ImageURL("other") + `"}`, status: http.StatusBadGateway,
			says: "404",
		},
		"no config drive": {
			method: "PUT", path: "/media", body: "bm90IGd6aXA=", status: http.StatusBadRequest, says: "gzip in base64",
		},
		"refused power": {
			prepare: func(f *fixture) { f.set(bmc.Fault{FailPower: "power supply broken"}) },
			method:  "PUT", path: "/power", body: `{"power": "on"}`, status: http.StatusInternalServerError,
			says: "power supply broken",
		},
		"refused credentials": {
			prepare: func(f *fixture) { f.set(bmc.Fault{RefuseCredentials: true}) },
			method:  "GET", path: "/power", status: http.StatusUnauthorized, says: "password",
		},
		"a missing image": {
			prepare: func(f *fixture) {
				if err := f.server.SetImageMissing("debian", true); err != nil {
					panic(err)
				}
			},
			method: "PUT", path: "/disk", body: `{"image": "` + bmc.ImageURL("debian") + `"}`, status: http.StatusBadGateway,
			says: "404",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fixture := start(t)
			if test.prepare != nil {
				test.prepare(fixture)
			}
			answer := fixture.want(t, test.status, test.method, test.path, test.body)
			if !strings.Contains(answer, test.says) {
				t.Errorf("the answer is %q, want it to say %q", answer, test.says)
			}
			operations := fixture.server.Operations()
			if len(operations) != 1 || operations[0].Status != test.status || operations[0].Problem == "" {
				t.Errorf("the journal has %+v", operations)
			}
			if fixture.machine.on {
				t.Error("the machine was turned on")
			}
		})
	}
}

func TestEachMachineHasItsOwnCredentials(t *testing.T) {
	fixture := start(t)
	other := &fakeMachine{number: 21}
	if err := fixture.server.Add("other", "admin", "another", other); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		machine, username, password string
		status                      int
	}{
		"right":             {"one", "admin", "secret", http.StatusOK},
		"wrong password":    {"one", "admin", "another", http.StatusUnauthorized},
		"wrong user name":   {"one", "root", "secret", http.StatusUnauthorized},
		"none":              {"one", "", "", http.StatusUnauthorized},
		"of another":        {"other", "admin", "secret", http.StatusUnauthorized},
		"the other's own":   {"other", "admin", "another", http.StatusOK},
		"of nobody":         {"nobody", "admin", "secret", http.StatusNotFound},
		"a removed machine": {"gone", "admin", "secret", http.StatusNotFound},
	} {
		if err := fixture.server.Add("gone", "admin", "secret", other); err != nil {
			t.Fatal(err)
		}
		fixture.server.Remove("gone")
		request := fixture.request(t, "GET", bmc.URL(test.machine)+"/power", "")
		request.Header.Del("Authorization")
		if test.username != "" {
			request.SetBasicAuth(test.username, test.password)
		}
		if status, answer := fixture.send(t, request); status != test.status {
			t.Errorf("%s: got %d %s, want %d", name, status, answer, test.status)
		}
	}
	if err := fixture.server.Add("other", "admin", "another", other); err == nil {
		t.Error("a second controller of the same machine was accepted")
	}
	if err := fixture.server.Add("third", "", "", other); err == nil {
		t.Error("a controller without credentials was accepted")
	}
}

func TestDiskGetsTheRootFileSystemThatTheImageNames(t *testing.T) {
	fixture := start(t)
	fixture.want(t, http.StatusNoContent, "PUT", "/disk", `{"image": "`+bmc.ImageURL("debian")+`"}`)
	fixture.want(t, http.StatusNoContent, "DELETE", "/disk", "")
	if diff := cmp.Diff([]string{"WriteDisk root-key", "WipeDisk"}, fixture.machine.calls); diff != "" {
		t.Errorf("the machine was told (-want +got):\n%s", diff)
	}
}

func TestImagesHaveTheirChecksum(t *testing.T) {
	fixture := start(t)
	status, image := fixture.send(t, fixture.request(t, "GET", bmc.ImageURL("debian"), ""))
	if want := `{"rootfs":"root-key"}`; status != http.StatusOK || image != want {
		t.Errorf("the image: got %d %q, want %q", status, image, want)
	}
	checksum := fmt.Sprintf("%x", sha256.Sum256([]byte(image+"\n")))
	if got, err := fixture.server.Checksum("debian"); err != nil || got != checksum {
		t.Errorf("the checksum: got %s, %v, want %s", got, err, checksum)
	}
	status, sums := fixture.send(t, fixture.request(t, "GET", bmc.ChecksumURL("debian"), ""))
	if want := checksum + "  debian.img"; status != http.StatusOK || sums != want {
		t.Errorf("the file of checksums: got %d %q, want %q", status, sums, want)
	}
	if status, _ := fixture.send(t, fixture.request(t, "HEAD", bmc.ImageURL("debian"), "")); status != http.StatusOK {
		t.Errorf("HEAD: got %d", status)
	}
	if err := fixture.server.SetImageMissing("debian", true); err != nil {
		t.Fatal(err)
	}
	if status, _ := fixture.send(t, fixture.request(t, "HEAD", bmc.ImageURL("debian"), "")); status != http.StatusNotFound {
		t.Errorf("a missing image: got %d", status)
	}
	if err := fixture.server.SetImageMissing("unknown", true); err == nil {
		t.Error("an unknown image could be made missing")
	}
}

func TestImagesThatAreHeldHaveToBeWaitedFor(t *testing.T) {
	fixture := start(t)
	release, err := fixture.server.HoldImage("debian")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for method, url := range map[string]string{"HEAD": bmc.ImageURL("debian"), "GET": bmc.ChecksumURL("debian")} {
		if status, _ := fixture.send(t, fixture.request(t, method, url, "")); status != http.StatusOK {
			t.Errorf("%s %s: got %d, want an answer at once", method, url, status)
		}
	}
	began := time.Now()
	const soon = 200 * time.Millisecond
	time.AfterFunc(soon, release)
	status, image := fixture.send(t, fixture.request(t, "GET", bmc.ImageURL("debian"), ""))
	if waited := time.Since(began); status != http.StatusOK || !strings.Contains(image, "root-key") || waited < soon {
		t.Errorf("got %d %q after %s, want the image, and not before it is released", status, image, waited)
	}
	if _, err := fixture.server.HoldImage("unknown"); err == nil {
		t.Error("an unknown image could be held")
	}
}

func TestInventoryIsWhatClientsOfIronicRead(t *testing.T) {
	fixture := start(t)
	var report struct {
		Inventory  inventory.InventoryType      `json:"inventory"`
		PluginData inventory.StandardPluginData `json:"plugin_data"`
	}
	if err := json.Unmarshal([]byte(fixture.want(t, http.StatusOK, "GET", "/inventory", "")), &report); err != nil {
		t.Fatal(err)
	}
	const address = "02:22:00:00:00:14"
	found, plugin := report.Inventory, report.PluginData
	if len(found.Interfaces) != 1 || len(found.Disks) != 1 {
		t.Fatalf("got the network cards %+v and the disks %+v, want one of each", found.Interfaces, found.Disks)
	}
	got := map[string]any{
		"MAC":               found.Interfaces[0].MACAddress,
		"IPv4":              found.Interfaces[0].IPV4Address,
		"IPv6":              found.Interfaces[0].IPV6Address,
		"host name":         found.Hostname,
		"serial number":     found.SystemVendor.SerialNumber,
		"boot card":         found.Boot.PXEInterface,
		"boot card, plugin": plugin.BootInterface,
		"valid card":        plugin.ValidInterfaces["eth0"].MACAddress,
		"has processors":    found.CPU.Count > 0 && found.CPU.Architecture != "",
		"has memory":        found.Memory.PhysicalMb > 0,
		"has disk space":    found.Disks[0].Size > 1<<30,
		"root disk":         plugin.RootDisk.Name == found.Disks[0].Name,
	}
	want := map[string]any{
		"MAC": address, "IPv4": "172.22.0.20", "IPv6": "fd00:172:22::20", "host name": "one", "serial number": "one",
		"boot card": address, "boot card, plugin": address, "valid card": address, "has processors": true,
		"has memory": true, "has disk space": true, "root disk": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
}

func TestJournalTellsWhatWasAskedFor(t *testing.T) {
	fixture := start(t)
	before := time.Now()
	fixture.want(t, http.StatusOK, "GET", "/power", "")
	fixture.want(t, http.StatusNoContent, "PUT", "/power", `{"power": "on"}`)
	fixture.want(t, http.StatusNoContent, "DELETE", "/media", "")
	var got []string
	for _, operation := range fixture.server.Operations() {
		if operation.Time.Before(before) || operation.Duration < 0 {
			t.Errorf("the times of %+v", operation)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s %d %t", operation.Machine, operation.Method, operation.Resource,
			operation.Detail, operation.Status, operation.Changes()))
	}
	want := []string{"one GET power  200 false", "one PUT power on 204 true", "one DELETE media  204 true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

func TestChangesComeOneAfterTheOtherAndToTheirEnd(t *testing.T) {
	fixture := start(t)
	begun, release := make(chan struct{}), make(chan struct{})
	fixture.machine.block = func() {
		close(begun)
		<-release
	}
	ctx, giveUp := context.WithCancel(t.Context())
	first := fixture.request(t, "PUT", bmc.URL("one")+"/power", `{"power": "on"}`).WithContext(ctx)
	var both sync.WaitGroup
	gone := make(chan struct{})
	both.Go(func() {
		defer close(gone)
		response, err := fixture.client.Do(first)
		if err == nil {
			_ = response.Body.Close()
			t.Error("the first client got an answer after it had given up")
		}
	})
	<-begun
	// Reading does not wait for changes.
	fixture.want(t, http.StatusOK, "GET", "/power", "")
	both.Go(func() {
		fixture.want(t, http.StatusNoContent, "PUT", "/power", `{"power": "off"}`)
	})
	giveUp()
	<-gone
	close(release)
	both.Wait()
	if diff := cmp.Diff([]string{"PowerOn", "PowerOff"}, fixture.machine.calls); diff != "" {
		t.Errorf("the machine was told (-want +got):\n%s", diff)
	}
	if fixture.machine.cancelled {
		t.Error("the first operation was cut short when its client gave up")
	}
}

func TestSlowControllerDoesNothingForClientsThatGaveUp(t *testing.T) {
	fixture := start(t)
	fixture.set(bmc.Fault{Delay: time.Hour})
	ctx, giveUp := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer giveUp()
	response, err := fixture.client.Do(
		fixture.request(t, "PUT", bmc.URL("one")+"/power", `{"power": "on"}`).WithContext(ctx))
	if err == nil {
		_ = response.Body.Close()
		t.Fatal("a controller that is slow for an hour answered at once")
	}
	fixture.set(bmc.Fault{Delay: time.Millisecond})
	fixture.want(t, http.StatusNoContent, "PUT", "/power", `{"power": "off"}`)
	if diff := cmp.Diff([]string{"PowerOff"}, fixture.machine.calls); diff != "" {
		t.Errorf("the machine was told (-want +got):\n%s", diff)
	}
	if err := fixture.server.SetFault("nobody", bmc.Fault{}); err == nil {
		t.Error("a fault was set for an unknown machine")
	}
}

// fixture is a server with one machine and one image.
type fixture struct {
	server  *bmc.Server
	machine *fakeMachine
	client  *http.Client
}

func start(t *testing.T) *fixture {
	t.Helper()
	on := &loopback{listeners: map[string]string{}}
	server, err := bmc.Start(t.Context(), on)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: on.Dial}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	made := &fixture{server: server, machine: &fakeMachine{number: 20}, client: client}
	if err := server.Add("one", "admin", "secret", made.machine); err != nil {
		t.Fatal(err)
	}
	if err := server.AddImage("debian", "root-key"); err != nil {
		t.Fatal(err)
	}
	return made
}

func (f *fixture) set(fault bmc.Fault) {
	if err := f.server.SetFault("one", fault); err != nil {
		panic(err)
	}
}

func (f *fixture) request(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth("admin", "secret")
	return request
}

func (f *fixture) send(t *testing.T, request *http.Request) (int, string) {
	t.Helper()
	response, err := f.client.Do(request)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return response.StatusCode, strings.TrimSpace(string(body))
}

func (f *fixture) want(t *testing.T, status int, method, path, body string) string {
	t.Helper()
	got, answer := f.send(t, f.request(t, method, bmc.URL("one")+path, body))
	if got != status {
		t.Errorf("%s %s %s: got %d %s, want %d", method, path, body, got, answer, status)
	}
	return answer
}

// loopback stands in for a lab's network: its addresses lead to ports of this computer.
type loopback struct {
	mutex     sync.Mutex
	listeners map[string]string
}

func (l *loopback) Listen(ctx context.Context, protocol, address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, protocol, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.listeners[address] = listener.Addr().String()
	return listener, nil
}

func (l *loopback) Dial(ctx context.Context, protocol, address string) (net.Conn, error) {
	l.mutex.Lock()
	target, known := l.listeners[address]
	l.mutex.Unlock()
	if !known {
		return nil, fmt.Errorf("nobody listens on %s", address)
	}
	return new(net.Dialer).DialContext(ctx, protocol, target)
}

// fakeMachine remembers what it was told.
type fakeMachine struct {
	number  byte
	failure error
	// block is called once, in the middle of the next change.
	block func()

	mutex     sync.Mutex
	on        bool
	cancelled bool
	calls     []string
	media     map[string][]byte
}

func (m *fakeMachine) told(ctx context.Context, call string, change func()) error {
	m.mutex.Lock()
	m.calls = append(m.calls, call)
	block := m.block
	m.block = nil
	m.mutex.Unlock()
	if block != nil {
		block()
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.cancelled = m.cancelled || ctx.Err() != nil
	if m.failure == nil {
		change()
	}
	return m.failure
}

func (m *fakeMachine) turn(on bool) func() { return func() { m.on = on } }

func (m *fakeMachine) Powered() bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.on
}

func (m *fakeMachine) PowerOn(ctx context.Context) error { return m.told(ctx, "PowerOn", m.turn(true)) }

func (m *fakeMachine) PowerOff(ctx context.Context) error {
	return m.told(ctx, "PowerOff", m.turn(false))
}

func (m *fakeMachine) Shutdown(ctx context.Context) error {
	return m.told(ctx, "Shutdown", m.turn(false))
}

func (m *fakeMachine) Reset(ctx context.Context) error { return m.told(ctx, "Reset", m.turn(true)) }

func (m *fakeMachine) WriteDisk(ctx context.Context, key string) error {
	return m.told(ctx, "WriteDisk "+key, func() {})
}

func (m *fakeMachine) WipeDisk(ctx context.Context) error {
	return m.told(ctx, "WipeDisk", func() {})
}

func (m *fakeMachine) InsertMedia(files map[string][]byte) error {
	return m.told(context.Background(), "InsertMedia", func() { m.media = files })
}

func (m *fakeMachine) EjectMedia() error {
	return m.told(context.Background(), "EjectMedia", func() { m.media = nil })
}

func (m *fakeMachine) Port() network.Port { return network.Port{Machine: "one", Number: m.number} }
