package ironicapi_test

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/fakeironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/step"
)

const (
	name = "metal3~host"
	mac  = "02:22:00:00:00:14"
)

// world is an Ironic in memory and a client for it.
type world struct {
	*testing.T
	server *fakeironic.Server
	client *ironicapi.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server := fakeironic.New()
	t.Cleanup(server.Close)
	client, err := ironicapi.New(settings(server))
	if err != nil {
		t.Fatal(err)
	}
	return &world{T: t, server: server, client: client}
}

func settings(server *fakeironic.Server) ironicapi.Settings {
	return ironicapi.Settings{Endpoint: server.Endpoint(), Username: server.Username, Password: server.Password}
}

// enroll makes a node with a port and returns its ID.
func (w *world) enroll(name, address string) string {
	w.Helper()
	w.do("", step.Enroll{Node: nodes.CreateOpts{Name: name, Driver: "lab"}})
	id := w.observe(step.Query{Name: name}).Node.UUID
	w.do(id, step.AddPort{MACAddress: address, PXE: true})
	return id
}

func (w *world) do(node string, calls ...step.Call) {
	w.Helper()
	for _, call := range calls {
		if err := w.client.Do(w.Context(), node, call); err != nil {
			w.Fatalf("%T: %v", call, err)
		}
	}
}

func (w *world) observe(query step.Query) step.Ironic {
	w.Helper()
	seen, err := w.client.Observe(w.Context(), query)
	if err != nil {
		w.Fatal(err)
	}
	return seen
}

func to(target nodes.TargetProvisionState) step.Call { return step.Provision{Target: target} }

func TestObserve(t *testing.T) {
	w := newWorld(t)
	if seen := w.observe(step.Query{ID: "unknown", Name: name, MACAddress: mac}); seen.Node != nil || seen.Stranger != "" {
		t.Errorf("an empty Ironic knows %+v", seen)
	}
	id := w.enroll(name, strings.ToUpper(mac))
	if seen := w.observe(step.Query{ID: "of another Ironic", Name: name}); seen.Node == nil || seen.Node.UUID != id {
		t.Errorf("the node was not found by its name: %+v", seen)
	}
	if seen := w.observe(step.Query{ID: id, Name: "renamed"}); seen.Node == nil || seen.Node.UUID != id {
		t.Errorf("the node was not found by its ID: %+v", seen)
	} else if diff := cmp.Diff([]string{mac}, seen.Ports); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	if seen := w.observe(step.Query{Name: "metal3~other", MACAddress: mac}); seen.Node != nil || seen.Stranger != name {
		t.Errorf("who has the MAC address is not known: %+v", seen)
	}
}

func TestInventory(t *testing.T) {
	w := newWorld(t)
	id := w.enroll(name, mac)
	w.do(id, to(nodes.TargetManage))
	if seen := w.observe(step.Query{Name: name, Inventory: true}); seen.Inventory != nil {
		t.Errorf("an inventory without an inspection: %+v", seen.Inventory)
	}
	w.do(id, to(nodes.TargetInspect))
	want := &bmov1alpha1.HardwareDetails{
		SystemVendor: bmov1alpha1.HardwareSystemVendor{Manufacturer: "fake"},
		RAMMebibytes: 2048,
		Hostname:     "fake",
		CPU:          bmov1alpha1.CPU{Arch: "x86_64", Count: 2, ClockMegahertz: 2400, Flags: []string{"a", "b"}},
		NIC:          []bmov1alpha1.NIC{{Name: "eth0", MAC: mac, IP: "172.22.0.20", SpeedGbps: 10, PXE: true}},
		Storage: []bmov1alpha1.Storage{
			{Name: "/dev/sda", AlternateNames: []string{"/dev/sda"}, Type: bmov1alpha1.SSD, SizeBytes: 1 << 30},
		},
	}
	if diff := cmp.Diff(want, w.observe(step.Query{Name: name, Inventory: true}).Inventory); diff != "" {
		t.Errorf("hardware (-want +got):\n%s", diff)
	}
	if seen := w.observe(step.Query{Name: name}); seen.Inventory != nil {
		t.Error("an inventory that nobody asked for")
	}
}

func TestObserveCountsOthers(t *testing.T) {
	w := newWorld(t)
	for _, one := range []string{"a", "b", "c"} {
		id := w.enroll(one, "02:00:00:00:00:0"+one)
		w.do(id, to(nodes.TargetManage))
		w.observe(step.Query{Name: one})
	}
	w.server.Break(fakeironic.Faults{Stuck: true})
	for _, one := range []string{"a", "b"} {
		w.do(w.observe(step.Query{Name: one}).Node.UUID, to(nodes.TargetInspect))
	}
	if got := w.observe(step.Query{Name: "c", Busy: true}).Busy; got != 2 {
		t.Errorf("Ironic works on %d others, want 2", got)
	}
	if got := w.observe(step.Query{Name: "c"}).Busy; got != 0 {
		t.Errorf("counted %d, though nobody asked", got)
	}
}

func TestDo(t *testing.T) {
	w := newWorld(t)
	id := w.enroll(name, mac)
	for what, row := range map[string]struct {
		node    string
		call    step.Call
		refusal string
	}{
		"unknown driver": {
			call:    step.Enroll{Node: nodes.CreateOpts{Name: "x", Driver: "other"}},
			refusal: "No valid host was found. Reason: No conductor supports driver other.",
		},
		"taken MAC address": {
			node: id, call: step.AddPort{MACAddress: mac},
			refusal: "A port with MAC address " + mac + " already exists.",
		},
		"wrong state": {
			node: id, call: to(nodes.TargetActive),
			refusal: `The requested action "active" can not be performed on node "` + id + `" while it is in state "enroll".`,
		},
		"unknown power": {
			node: id, call: step.Power{Options: nodes.PowerStateOpts{Target: "sideways"}},
			refusal: `The target state "sideways" is not valid.`,
		},
	} {
		t.Run(what, func(t *testing.T) {
			err := w.client.Do(t.Context(), row.node, row.call)
			var refusal *ironicapi.Refusal
			if !errors.As(err, &refusal) || refusal.Message != row.refusal {
				t.Errorf("got %v, want the refusal %q", err, row.refusal)
			}
		})
	}

	w.do(id,
		step.Update{Changes: nodes.UpdateOpts{
			nodes.UpdateOperation{Op: nodes.AddOp, Path: "/automated_clean", Value: false},
		}},
		step.Maintenance{On: true}, step.Maintenance{})
	if node, _ := w.server.Node(name); node.AutomatedClean == nil || *node.AutomatedClean || node.Maintenance {
		t.Errorf("node: %+v", node)
	}

	w.server.Break(fakeironic.Faults{Stuck: true})
	w.do(id, to(nodes.TargetManage))
	if err := w.client.Do(t.Context(), id, step.Update{Changes: nodes.UpdateOpts{
		nodes.UpdateOperation{Op: nodes.AddOp, Path: "/name", Value: "other"},
	}}); !errors.Is(err, ironicapi.ErrBusy) {
		t.Errorf("a node that is locked: %v", err)
	}
	w.server.Empty()
	w.do(id, step.Remove{})
}

func TestUnreachable(t *testing.T) {
	good := fakeironic.New()
	t.Cleanup(good.Close)
	gone := fakeironic.New()
	gone.Close()
	empty := fakeironic.New()
	empty.Break(fakeironic.Faults{NoConductor: true})
	t.Cleanup(empty.Close)
	down := fakeironic.New()
	down.Break(fakeironic.Faults{Down: true})
	t.Cleanup(down.Close)
	stranger := settings(good)
	stranger.Password = "wrong"
	for what, settings := range map[string]ironicapi.Settings{
		"nobody": settings(gone), "no conductor": settings(empty), "down": settings(down), "wrong password": stranger,
	} {
		t.Run(what, func(t *testing.T) {
			client, err := ironicapi.New(settings)
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Observe(t.Context(), step.Query{Name: name})
			if !errors.Is(err, ironicapi.ErrUnreachable) {
				t.Errorf("got %v", err)
			}
			if strings.Contains(err.Error(), "wrong") {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}

	t.Run("went away", func(t *testing.T) {
		w := newWorld(t)
		id := w.enroll(name, mac)
		w.server.Break(fakeironic.Faults{Down: true})
		if _, err := w.client.Observe(t.Context(), step.Query{Name: name}); !errors.Is(err, ironicapi.ErrUnreachable) {
			t.Errorf("reading: %v", err)
		}
		if err := w.client.Do(t.Context(), id, to(nodes.TargetManage)); !errors.Is(err, ironicapi.ErrUnreachable) {
			t.Errorf("writing: %v", err)
		}
	})
}

func TestTrust(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"drivers": [{"name": "lab"}]}`))
	}))
	t.Cleanup(server.Close)
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for what, row := range map[string]struct {
		settings ironicapi.Settings
		trusted  bool
	}{
		"its certificate":      {settings: ironicapi.Settings{CA: own}, trusted: true},
		"every certificate":    {settings: ironicapi.Settings{Insecure: true}, trusted: true},
		"those of the system":  {},
		"none, but a password": {settings: ironicapi.Settings{Username: "a", Password: "b"}},
	} {
		t.Run(what, func(t *testing.T) {
			row.settings.Endpoint = server.URL + "/v1/"
			client, err := ironicapi.New(row.settings)
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Observe(context.WithoutCancel(t.Context()), step.Query{})
			if (err == nil) != row.trusted {
				t.Errorf("trusted: %v, want %v", err, row.trusted)
			}
		})
	}
	if _, err := ironicapi.New(ironicapi.Settings{Endpoint: server.URL, CA: []byte("no certificate")}); err == nil {
		t.Error("a file without a certificate is taken for one")
	}
}
