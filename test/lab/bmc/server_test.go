package bmc_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/iso/isotest"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// A Machine and a Network of a lab fit the server.
var (
	_ bmc.Machine = (*machine.Machine)(nil)
	_ bmc.Network = (*network.Switch)(nil)
)

// Paths of the machine "one".
const (
	system = "/redfish/v1/Systems/one"
	reset  = system + "/Actions/ComputerSystem.Reset"
	slot   = "/redfish/v1/Managers/one/VirtualMedia/Cd"
	insert = slot + "/Actions/VirtualMedia.InsertMedia"
	eject  = slot + "/Actions/VirtualMedia.EjectMedia"
)

func TestPowerFollowsTheCommands(t *testing.T) {
	fixture := start(t)
	for _, step := range []struct {
		command, state string
		calls          []string
	}{
		{"On", "On", []string{"PowerOn"}},
		{"ForceRestart", "On", []string{"PowerOff", "PowerOn"}},
		{"ForceOff", "Off", []string{"PowerOff"}},
	} {
		fixture.machine.calls = nil
		fixture.want(t, http.StatusNoContent, "POST", reset, `{"ResetType": "`+step.command+`"}`)
		if diff := cmp.Diff(step.calls, fixture.machine.calls); diff != "" {
			t.Errorf("%s: calls of the machine (-want +got):\n%s", step.command, diff)
		}
		if state := fixture.read(t, system)["PowerState"]; state != step.state {
			t.Errorf("after %s: %s", step.command, state)
		}
	}
}

// TestGracefulShutdownIsAnsweredAtOnce has a machine that ends its system only after the response.
func TestGracefulShutdownIsAnsweredAtOnce(t *testing.T) {
	for command, want := range map[string][]string{
		"GracefulShutdown": {"Shutdown"}, "GracefulRestart": {"Shutdown", "PowerOn"},
	} {
		fixture := start(t)
		answered := make(chan struct{})
		fixture.machine.block = func() { <-answered }
		fixture.want(t, http.StatusNoContent, "POST", reset, `{"ResetType": "`+command+`"}`)
		close(answered)
		// A change of the machine waits for an earlier one.
		fixture.want(t, http.StatusNoContent, "PATCH", system, `{"Boot": {"BootSourceOverrideTarget": "Hdd"}}`)
		if diff := cmp.Diff(want, fixture.machine.calls); diff != "" {
			t.Errorf("%s: calls of the machine (-want +got):\n%s", command, diff)
		}
	}
}

// TestForcedCommandEndsGracefulOne has a system that ignores a shutdown.
func TestForcedCommandEndsGracefulOne(t *testing.T) {
	for command, want := range map[string][]string{
		"ForceOff": {"Shutdown", "PowerOff"}, "ForceRestart": {"Shutdown", "PowerOff", "PowerOn"},
	} {
		fixture := start(t)
		started := make(chan struct{})
		fixture.machine.block = func() { close(started) }
		fixture.machine.stubborn = true
		fixture.want(t, http.StatusNoContent, "POST", reset, `{"ResetType": "GracefulShutdown"}`)
		<-started
		fixture.want(t, http.StatusNoContent, "POST", reset, `{"ResetType": "`+command+`"}`)
		if diff := cmp.Diff(want, fixture.machine.calls); diff != "" {
			t.Errorf("%s: calls of the machine (-want +got):\n%s", command, diff)
		}
	}
}

// TestSessions has two BMCs with different passwords.
func TestSessions(t *testing.T) {
	fixture := start(t)
	if err := fixture.server.Add("other", "admin", "another", &fakeMachine{number: 21}); err != nil {
		t.Fatal(err)
	}
	fixture.open(t, "wrong", http.StatusUnauthorized)
	token, path := fixture.open(t, "secret", http.StatusCreated)
	fixture.wantWith(t, token, "one", http.StatusOK)
	fixture.wantWith(t, token, "other", http.StatusUnauthorized)
	fixture.wantWith(t, "invented", "one", http.StatusUnauthorized)
	fixture.want(t, http.StatusNoContent, "DELETE", path, "")
	fixture.wantWith(t, token, "one", http.StatusUnauthorized)
	for _, operation := range fixture.server.Operations() {
		if operation.Changes() {
			t.Errorf("the journal takes %+v for a change of a machine", operation)
		}
	}
}

func TestRotationEndsSessions(t *testing.T) {
	fixture := start(t)
	token, _ := fixture.open(t, "secret", http.StatusCreated)
	if err := fixture.server.SetCredentials("one", "admin", "rotated"); err != nil {
		t.Fatal(err)
	}
	fixture.wantWith(t, token, "one", http.StatusUnauthorized)
	fixture.want(t, http.StatusUnauthorized, "GET", system, "")
	fixture.open(t, "secret", http.StatusUnauthorized)
	token, _ = fixture.open(t, "rotated", http.StatusCreated)
	fixture.wantWith(t, token, "one", http.StatusOK)
	if fixture.server.SetCredentials("nobody", "a", "b") == nil || fixture.server.SetCredentials("one", "", "b") == nil {
		t.Error("empty credentials were set")
	}
}

// open opens a session, and returns its token and its path.
func (f *fixture) open(t *testing.T, password string, status int) (token, path string) {
	t.Helper()
	response, err := f.client.Do(f.request(t, "POST", "http://"+bmc.Address+"/redfish/v1/SessionService/Sessions",
		`{"UserName": "admin", "Password": "`+password+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	token, path = response.Header.Get("X-Auth-Token"), response.Header.Get("Location")
	if response.StatusCode != status || (status == http.StatusCreated) != (token != "" && path != "") {
		t.Errorf("a session with %s: %s %v, want %d", password, response.Status, response.Header, status)
	}
	return token, path
}

// wantWith reads a system with a token.
func (f *fixture) wantWith(t *testing.T, token, machine string, status int) {
	t.Helper()
	_, path := bmc.RedfishAddress(machine)
	request := f.request(t, "GET", "http://"+bmc.Address+path, "")
	request.Header.Del("Authorization")
	request.Header.Set("X-Auth-Token", token)
	if got, _ := f.send(t, request); got != status {
		t.Errorf("reading %s: %d, want %d", machine, got, status)
	}
}

// TestTLS reads over TLS with a certificate of an unknown authority.
func TestTLS(t *testing.T) {
	fixture := start(t)
	server, path := bmc.RedfishTLSAddress("one")
	get := func(client *http.Client) (int, error) {
		response, err := client.Do(fixture.request(t, "GET", server+path, ""))
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	var unknown x509.UnknownAuthorityError
	if _, err := get(fixture.client); !errors.As(err, &unknown) {
		t.Errorf("a client that verifies gets %v", err)
	}
	careless := &http.Client{Transport: &http.Transport{
		DialContext: fixture.network.Dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	defer careless.CloseIdleConnections()
	if status, err := get(careless); err != nil || status != http.StatusOK {
		t.Errorf("a client that does not verify gets %d, %v", status, err)
	}
}

// TestIgnoredPower accepts a command without executing it.
func TestIgnoredPower(t *testing.T) {
	fixture := start(t)
	fixture.set(bmc.Fault{IgnorePower: true})
	fixture.want(t, http.StatusNoContent, "POST", reset, `{"ResetType": "On"}`)
	if state := fixture.read(t, system)["PowerState"]; state != "Off" || len(fixture.machine.calls) != 0 {
		t.Errorf("the machine is %v with calls %v", state, fixture.machine.calls)
	}
}

// TestBootSource serves a medium as Ironic does and boots from it, once.
func TestBootSource(t *testing.T) {
	fixture := start(t)
	files := map[string]string{"EFI/BOOT/grub.cfg": "linux /vmlinuz ipa-api-url=https://172.22.0.2:6385 --\n"}
	medium := isotest.Make(t, "genisoimage", files, "-r")
	images := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) { _, _ = writer.Write(medium) }))
	t.Cleanup(images.Close)
	fixture.network.listeners["images:80"] = images.Listener.Addr().String()
	on, off := `{"ResetType": "On"}`, `{"ResetType": "ForceOff"}`

	t.Log("a medium without a boot source is not used")
	fixture.want(t, http.StatusNoContent, "POST", insert, `{"Image": "http://images/boot.iso"}`)
	fixture.want(t, http.StatusConflict, "POST", insert, `{"Image": "http://images/other.iso"}`)
	fixture.want(t, http.StatusNoContent, "POST", reset, on)
	fixture.want(t, http.StatusNoContent, "POST", reset, off)

	t.Log("the boot source Once applies to one boot")
	fixture.want(t, http.StatusNoContent, "PATCH", system,
		`{"Boot": {"BootSourceOverrideTarget": "Cd", "BootSourceOverrideEnabled": "Once"}}`)
	fixture.want(t, http.StatusNoContent, "POST", reset, on)
	if got := string(fixture.machine.medium["EFI/BOOT/grub.cfg"]); got != files["EFI/BOOT/grub.cfg"] {
		t.Errorf("the machine booted from %q", got)
	}
	after := fixture.read(t, system)
	enabled, mode := at(t, after, "Boot", "BootSourceOverrideEnabled"), at(t, after, "Boot", "BootSourceOverrideMode")
	if enabled != "Disabled" || mode != "UEFI" {
		t.Errorf("after the boot: %v, %v", enabled, mode)
	}
	fixture.want(t, http.StatusNoContent, "POST", reset, off)
	fixture.want(t, http.StatusNoContent, "POST", reset, on)
	fixture.want(t, http.StatusNoContent, "POST", reset, off)

	t.Log("a missing medium is an error, and the machine stays off")
	fixture.want(t, http.StatusNoContent, "PATCH", system,
		`{"Boot": {"BootSourceOverrideTarget": "Cd", "BootSourceOverrideEnabled": "Continuous"}}`)
	fixture.want(t, http.StatusNoContent, "POST", eject, "")
	fixture.want(t, http.StatusNoContent, "POST", insert, `{"Image": "http://nowhere/boot.iso"}`)
	answer := fixture.want(t, http.StatusInternalServerError, "POST", reset, on)
	if !strings.Contains(answer, "http://nowhere/boot.iso") {
		t.Errorf("the answer is %s", answer)
	}
	want := []string{"PowerOn", "PowerOff", "PowerOnFrom", "PowerOff", "PowerOn", "PowerOff"}
	if diff := cmp.Diff(want, fixture.machine.calls); diff != "" {
		t.Errorf("calls of the machine (-want +got):\n%s", diff)
	}
}

// TestResources follows the links as Ironic's library does, from the root that requires no password.
func TestResources(t *testing.T) {
	fixture := start(t)
	request := fixture.request(t, "GET", "http://"+bmc.Address+"/redfish/v1/", "")
	request.Header.Del("Authorization")
	status, body := fixture.send(t, request)
	var root map[string]any
	if err := json.Unmarshal([]byte(body), &root); err != nil || status != http.StatusOK || root["RedfishVersion"] == nil {
		t.Fatalf("the root: %d %s", status, body)
	}
	one := fixture.read(t, system)
	manager := fixture.read(t, followed(t, one, "Links", "ManagedBy", "0"))
	slots := fixture.read(t, followed(t, manager, "VirtualMedia"))
	if path := followed(t, slots, "Members", "0"); path != slot {
		t.Errorf("the slot is %s", path)
	}
	drive := fixture.read(t, slot)
	if drive["Inserted"] != false {
		t.Errorf("the drive is %v", drive)
	}
	cards := fixture.read(t, followed(t, one, "EthernetInterfaces"))
	if card := fixture.read(t, followed(t, cards, "Members", "0")); card["MACAddress"] != "02:22:00:00:00:14" {
		t.Errorf("the card is %v", card)
	}
	for want, got := range map[string]any{
		reset:  at(t, one, "Actions", "#ComputerSystem.Reset", "target"),
		insert: at(t, drive, "Actions", "#VirtualMedia.InsertMedia", "target"),
		eject:  at(t, drive, "Actions", "#VirtualMedia.EjectMedia", "target"),
	} {
		if got != want {
			t.Errorf("the target of an action is %v, want %s", got, want)
		}
	}
}

// at returns the value at a path in a resource.
func at(t *testing.T, value any, path ...string) any {
	t.Helper()
	for _, step := range path {
		switch known := value.(type) {
		case map[string]any:
			value = known[step]
		case []any:
			index, err := strconv.Atoi(step)
			if err != nil || index >= len(known) {
				t.Fatalf("%s is missing in %v", step, known)
			}
			value = known[index]
		default:
			t.Fatalf("%s is missing in %v", step, value)
		}
	}
	return value
}

// followed returns the target of the link at a path.
func followed(t *testing.T, value any, path ...string) string {
	t.Helper()
	return fmt.Sprint(at(t, value, append(path, "@odata.id")...))
}

// TestBIOS changes settings of a BIOS, which take effect at the next start of the machine.
func TestBIOS(t *testing.T) {
	fixture := start(t)
	settings := followed(t, fixture.read(t, system), "Bios")
	bios := fixture.read(t, settings)
	pending := followed(t, bios, "@Redfish.Settings", "SettingsObject")
	for body, want := range map[string]int{
		`{"Attributes": {"ProcVirtualization": "Sometimes"}}`:                       http.StatusBadRequest,
		`{"Attributes": {"ProcVirtualization": 1}}`:                                 http.StatusBadRequest,
		`{"Attributes": {"BootDelaySeconds": 61}}`:                                  http.StatusBadRequest,
		`{"Attributes": {"BootDelaySeconds": "Enabled"}}`:                           http.StatusBadRequest,
		`{"Attributes": {"Unknown": 1}}`:                                            http.StatusBadRequest,
		`{"Attributes": {"ProcVirtualization": "Disabled", "BootDelaySeconds": 5}}`: http.StatusNoContent,
	} {
		fixture.want(t, want, "PATCH", pending, body)
	}
	before := map[string]any{"BootDelaySeconds": 0, "ProcVirtualization": "Enabled"}
	if diff := cmp.Diff(before, fixture.server.BIOS("one")); diff != "" {
		t.Errorf("before the machine starts (-want +got):\n%s", diff)
	}
	fixture.want(t, http.StatusNoContent, "POST", reset, `{"ResetType": "On"}`)
	after := map[string]any{"BootDelaySeconds": 5.0, "ProcVirtualization": "Disabled"}
	if diff := cmp.Diff(after, at(t, fixture.read(t, settings), "Attributes")); diff != "" {
		t.Errorf("after the start (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{}, at(t, fixture.read(t, pending), "Attributes")); diff != "" {
		t.Errorf("still pending (-want +got):\n%s", diff)
	}

	registry := fixture.read(t, followed(t, fixture.read(t, followed(t, fixture.read(t, "/redfish/v1/"), "Registries")), "Members", "0"))
	if registry["Id"] != bios["AttributeRegistry"] {
		t.Errorf("the registry is %v", registry["Id"])
	}
	entries := fixture.read(t, fmt.Sprint(at(t, registry, "Location", "0", "Uri")))
	known := map[string]any{}
	for index := range len(before) {
		entry := at(t, entries, "RegistryEntries", "Attributes", strconv.Itoa(index))
		known[fmt.Sprint(at(t, entry, "AttributeName"))] = at(t, entry, "DefaultValue")
	}
	if diff := cmp.Diff(map[string]any{"BootDelaySeconds": 0.0, "ProcVirtualization": "Enabled"}, known); diff != "" {
		t.Errorf("the registry (-want +got):\n%s", diff)
	}
}

func TestFailuresHaveTheirStatus(t *testing.T) {
	for name, test := range map[string]struct {
		prepare            func(*fixture)
		method, path, body string
		status             int
		says               string
	}{
		"a failure of the machine": {
			prepare: func(f *fixture) { f.machine.failure = errors.New("the hardware failed") },
			method:  "POST", path: reset, body: `{"ResetType": "On"}`, status: http.StatusInternalServerError,
			says: "the hardware failed",
		},
		"an unknown command": {
			method: "POST", path: reset, body: `{"ResetType": "Explode"}`, status: http.StatusBadRequest, says: "Explode",
		},
		"no JSON": {method: "POST", path: reset, body: "On", status: http.StatusBadRequest, says: "reading the request"},
		"an unknown boot source": {
			method: "PATCH", path: system, body: `{"Boot": {"BootSourceOverrideTarget": "Tape"}}`,
			status: http.StatusBadRequest, says: "Tape",
		},
		"a legacy boot": {
			method: "PATCH", path: system, body: `{"Boot": {"BootSourceOverrideMode": "Legacy"}}`,
			status: http.StatusBadRequest, says: "UEFI only",
		},
		"no medium": {method: "POST", path: insert, body: `{}`, status: http.StatusBadRequest, says: "URL of the image"},
		"refused power": {
			prepare: func(f *fixture) { f.set(bmc.Fault{FailPower: "power supply broken"}) },
			method:  "POST", path: reset, body: `{"ResetType": "On"}`, status: http.StatusInternalServerError,
			says: "power supply broken",
		},
		"refused credentials": {
			prepare: func(f *fixture) { f.set(bmc.Fault{RefuseCredentials: true}) },
			method:  "GET", path: system, status: http.StatusUnauthorized, says: "password",
		},
		"busy": {
			prepare: func(f *fixture) { f.set(bmc.Fault{Busy: true}) },
			method:  "GET", path: system, status: http.StatusServiceUnavailable, says: "busy",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fixture := start(t)
			if test.prepare != nil {
				test.prepare(fixture)
			}
			answer := fixture.want(t, test.status, test.method, test.path, test.body)
			var problem struct{ Error struct{ Message string } }
			if err := json.Unmarshal([]byte(answer), &problem); err != nil || !strings.Contains(problem.Error.Message, test.says) {
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
		"right":                        {"one", "admin", "secret", http.StatusOK},
		"wrong password":               {"one", "admin", "another", http.StatusUnauthorized},
		"wrong user name":              {"one", "root", "secret", http.StatusUnauthorized},
		"none":                         {"one", "", "", http.StatusUnauthorized},
		"of another":                   {"other", "admin", "secret", http.StatusUnauthorized},
		"another machine with its own": {"other", "admin", "another", http.StatusOK},
		"of an unknown machine":        {"nobody", "admin", "secret", http.StatusNotFound},
		"a removed machine":            {"gone", "admin", "secret", http.StatusNotFound},
	} {
		if err := fixture.server.Add("gone", "admin", "secret", other); err != nil {
			t.Fatal(err)
		}
		fixture.server.Remove("gone")
		_, path := bmc.RedfishAddress(test.machine)
		request := fixture.request(t, "GET", "http://"+bmc.Address+path, "")
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
	if status, _ := fixture.send(t, fixture.request(t, "HEAD", bmc.ImageURL("unknown"), "")); status != http.StatusNotFound {
		t.Errorf("a missing image: got %d", status)
	}
}

func TestMediaAreServedUnderTheirOwnNames(t *testing.T) {
	fixture := start(t)
	fixture.server.AddMedium("debian", []byte("a medium"))
	for url, want := range map[string]string{
		bmc.MediumURL("debian"):                          "a medium",
		bmc.ImageURL("debian"):                           `{"rootfs":"root-key"}`,
		bmc.MediumURL("unknown"):                         "",
		bmc.ImageURL("debian.iso"):                       "",
		"http://" + bmc.ImagesAddress + "/images/debian": "",
	} {
		status, got := fixture.send(t, fixture.request(t, "GET", url, ""))
		if (status == http.StatusOK) != (want != "") || want != "" && got != want {
			t.Errorf("%s: got %d %q, want %q", url, status, got, want)
		}
	}
}

func TestHeldImageBlocksDownloads(t *testing.T) {
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
	if held := fixture.server.Held("debian"); held != 0 {
		t.Errorf("%d downloads are held, want none", held)
	}
	held := make(chan int, 1)
	go func() {
		for fixture.server.Held("debian") == 0 {
			runtime.Gosched()
		}
		held <- fixture.server.Held("debian")
		release()
	}()
	status, image := fixture.send(t, fixture.request(t, "GET", bmc.ImageURL("debian"), ""))
	if status != http.StatusOK || !strings.Contains(image, "root-key") || <-held != 1 {
		t.Errorf("got %d %q, want the image after its release", status, image)
	}
	if _, err := fixture.server.HoldImage("unknown"); err == nil {
		t.Error("an unknown image could be held")
	}
}

func TestJournalRecordsRequests(t *testing.T) {
	fixture := start(t)
	before := time.Now()
	fixture.want(t, http.StatusOK, "GET", system, "")
	fixture.want(t, http.StatusNoContent, "POST", reset, `{"ResetType": "On"}`)
	fixture.want(t, http.StatusNoContent, "POST", eject, "")
	var got []string
	for _, operation := range fixture.server.Operations() {
		if operation.Time.Before(before) || operation.Duration < 0 {
			t.Errorf("the times of %+v", operation)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s %d %t", operation.Machine, operation.Method, operation.Resource,
			operation.Detail, operation.Status, operation.Changes()))
	}
	want := []string{"one GET system  200 false", "one POST reset On 204 true", "one POST eject  204 true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

// TestOperationsSince has a request before a time with a response after it.
func TestOperationsSince(t *testing.T) {
	fixture := start(t)
	begun, release := make(chan struct{}), make(chan struct{})
	fixture.machine.block = func() {
		close(begun)
		<-release
	}
	var slow sync.WaitGroup
	slow.Go(func() { fixture.want(t, http.StatusNoContent, "POST", reset, `{"ResetType": "On"}`) })
	<-begun
	moment := time.Now()
	fixture.want(t, http.StatusOK, "GET", system, "")
	close(release)
	slow.Wait()
	since := fixture.server.OperationsSince(moment)
	if len(since) != 1 || since[0].Changes() || len(fixture.server.Operations()) != 2 {
		t.Errorf("since then the journal has %+v", since)
	}
}

func TestChangesComeOneAfterTheOtherAndToTheirEnd(t *testing.T) {
	fixture := start(t)
	begun, release := make(chan struct{}), make(chan struct{})
	fixture.machine.block = func() {
		close(begun)
		<-release
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := fixture.request(t, "POST", "http://"+bmc.Address+reset, `{"ResetType": "On"}`).WithContext(ctx)
	var both sync.WaitGroup
	gone := make(chan struct{})
	both.Go(func() {
		defer close(gone)
		response, err := fixture.client.Do(first)
		if err == nil {
			_ = response.Body.Close()
			t.Error("the first client got an answer after it had disconnected")
		}
	})
	<-begun
	// Reads do not wait for changes.
	fixture.want(t, http.StatusOK, "GET", system, "")
	both.Go(func() {
		fixture.want(t, http.StatusNoContent, "POST", reset, `{"ResetType": "ForceOff"}`)
	})
	cancel()
	<-gone
	close(release)
	both.Wait()
	if diff := cmp.Diff([]string{"PowerOn", "PowerOff"}, fixture.machine.calls); diff != "" {
		t.Errorf("calls of the machine (-want +got):\n%s", diff)
	}
	if fixture.machine.cancelled {
		t.Error("the first operation ended when its client disconnected")
	}
}

func TestSlowControllerDropsCancelledRequests(t *testing.T) {
	fixture := start(t)
	fixture.set(bmc.Fault{Delay: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	response, err := fixture.client.Do(
		fixture.request(t, "POST", "http://"+bmc.Address+reset, `{"ResetType": "On"}`).WithContext(ctx))
	if err == nil {
		_ = response.Body.Close()
		t.Fatal("a BMC with a delay of an hour answered at once")
	}
	fixture.set(bmc.Fault{Delay: time.Millisecond})
	fixture.want(t, http.StatusNoContent, "POST", reset, `{"ResetType": "ForceOff"}`)
	if diff := cmp.Diff([]string{"PowerOff"}, fixture.machine.calls); diff != "" {
		t.Errorf("calls of the machine (-want +got):\n%s", diff)
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
	network *loopback
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
	made := &fixture{server: server, machine: &fakeMachine{number: 20}, client: client, network: on}
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
	got, answer := f.send(t, f.request(t, method, "http://"+bmc.Address+path, body))
	if got != status {
		t.Errorf("%s %s %s: got %d %s, want %d", method, path, body, got, answer, status)
	}
	return answer
}

func (f *fixture) read(t *testing.T, path string) map[string]any {
	t.Helper()
	var found map[string]any
	if err := json.Unmarshal([]byte(f.want(t, http.StatusOK, "GET", path, "")), &found); err != nil {
		t.Fatal(err)
	}
	if found["@odata.id"] != path {
		t.Errorf("%s calls itself %v", path, found["@odata.id"])
	}
	return found
}

// loopback replaces the network of a lab: its addresses lead to ports of this computer.
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
		return nil, fmt.Errorf("no program listens on %s", address)
	}
	return new(net.Dialer).DialContext(ctx, protocol, target)
}

// fakeMachine records its calls.
type fakeMachine struct {
	number  byte
	failure error
	// block is called once, in the middle of the next change.
	block func()
	// stubborn makes it ignore Shutdown.
	stubborn bool

	mutex     sync.Mutex
	on        bool
	cancelled bool
	calls     []string
	// medium is the medium of the last boot. Nil for the disk.
	medium map[string][]byte
}

func (m *fakeMachine) perform(ctx context.Context, call string, change func()) error {
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

func (m *fakeMachine) PowerOnFrom(ctx context.Context, medium map[string][]byte) error {
	return m.perform(ctx, "PowerOnFrom", func() { m.on, m.medium = true, medium })
}

func (m *fakeMachine) PowerOn(ctx context.Context) error {
	return m.perform(ctx, "PowerOn", m.turn(true))
}

func (m *fakeMachine) PowerOff(ctx context.Context) error {
	return m.perform(ctx, "PowerOff", m.turn(false))
}

func (m *fakeMachine) Shutdown(ctx context.Context) error {
	if !m.stubborn {
		return m.perform(ctx, "Shutdown", m.turn(false))
	}
	return m.perform(ctx, "Shutdown", func() {
		m.mutex.Unlock()
		defer m.mutex.Lock()
		<-ctx.Done()
	})
}

func (m *fakeMachine) Port() network.Port { return network.Port{Machine: "one", Number: m.number} }
