package hoststore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// TestTheFakeServerLocks checks that the fake server rejects a patch with an old resource version.
func TestTheFakeServerLocks(t *testing.T) {
	s := newServer(available("host-0"))
	old := s.host("host-0")
	s.edit("host-0", func(h *bmov1alpha1.BareMetalHost) { h.Spec.Online = true })
	changed := old.DeepCopy()
	changed.Spec.Description = "x"
	patch := client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})
	if err := s.patch(context.Background(), changed, patch); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
}

func TestChooseAssumes(t *testing.T) {
	const hosts = 20
	s := newServer()
	for i := range hosts {
		s.create(available(fmt.Sprintf("host-%d", i)))
	}
	p := newProcess(s, hosts)
	taken := map[string]string{}
	for i := range hosts {
		machine := fmt.Sprintf("machine-%d", i)
		chosen := p.choose(t, wants(machine))
		if chosen == nil {
			t.Fatalf("%s got no host", machine)
		}
		if other, twice := taken[chosen.Name]; twice {
			t.Errorf("%s went to %s and to %s", chosen.Name, other, machine)
		}
		taken[chosen.Name] = machine
		if again := p.choose(t, wants(machine)); again == nil || again.Name != chosen.Name {
			t.Errorf("the choice of %s changed from %s to %v", machine, chosen.Name, again)
		}
	}
	choice, err := p.store.Choose(context.Background(), wants("late"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (host.Choice{Message: "20 hosts: 20 claimed"}); !cmp.Equal(want, choice) {
		t.Errorf("got %+v, want %+v", choice, want)
	}
}

func TestTheMessageCountsAllHosts(t *testing.T) {
	machine := build.Metal3Machine("other", "cluster-0")
	s := newServer(available("a", build.Consumed(machine)), available("b", build.Paused("user")),
		available("c", build.InNamespace("elsewhere")))
	p := newProcess(s, 3)
	choice, err := p.store.Choose(context.Background(), wants("machine-0"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "2 hosts: 1 claimed, 1 paused (b: remove annotation baremetalhost.metal3.io/paused)"; choice.Host != nil || choice.Message != want {
		t.Errorf("got %+v, want none and %q", choice, want)
	}
}

func TestWriteWritesOnlyChanges(t *testing.T) {
	s := newServer(available("host-0"))
	p := newProcess(s, 1)
	stored, err := p.claim(p.choose(t, wants("machine-0")), "machine-0")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := p.claim(stored, "machine-0"); err != nil || again != stored {
		t.Errorf("got %v, %v, want the host itself", again, err)
	}
	if got := len(s.history); got != 2 {
		t.Errorf("the server saw %d versions, want the creation and the claim", got)
	}
	if diff := cmp.Diff(s.host("host-0"), stored); diff != "" {
		t.Errorf("Write returned another host: -server +returned:\n%s", diff)
	}
}

func TestHoldings(t *testing.T) {
	machine, other := build.Metal3Machine("machine-0", "c"), build.Metal3Machine("other", "c")
	hosts := func() *server {
		return newServer(available("a", build.Consumed(other)), available("b", build.Consumed(machine)),
			available("c", build.Consumed(machine)), available("d"), available("e", build.Consumed(machine)))
	}
	cases := map[string]struct {
		hint    string
		held    string
		surplus []string
	}{
		"the recorded host has precedence":      {hint: "c", held: "c", surplus: []string{"b", "e"}},
		"without a record the name decides":     {held: "b", surplus: []string{"c", "e"}},
		"the recorded host has another machine": {hint: "a", held: "b", surplus: []string{"c", "e"}},
		"the recorded host is free":             {hint: "d", held: "b", surplus: []string{"c", "e"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := newProcess(hosts(), 5)
			held, surplus := p.holding(t, "machine-0", tc.hint)
			if held != tc.held || !cmp.Equal(surplus, tc.surplus) {
				t.Errorf("got %q and %q, want %q and %q", held, surplus, tc.held, tc.surplus)
			}
			if p.liveReads != 0 {
				t.Error("a live read without an assumption")
			}
		})
	}
}

func TestHoldingsReturnsAClaimBeforeTheCache(t *testing.T) {
	s := newServer(available("host-0"))
	p := newProcess(s, 1)
	if _, err := p.claim(p.choose(t, wants("machine-0")), "machine-0"); err != nil {
		t.Fatal(err)
	}
	if held, _ := p.holding(t, "machine-0", ""); held != "host-0" {
		t.Errorf("before the cache shows it: got %q", held)
	}
	if p.liveReads != 0 {
		t.Error("a live read after a confirmed write")
	}
	p.sync()
	if held, _ := p.holding(t, "machine-0", ""); held != "host-0" {
		t.Errorf("after the cache shows it: got %q", held)
	}
	p.settle("machine-0", false)
	if got := p.store.Memory(); got != (hoststore.Memory{}) {
		t.Errorf("the memory holds %+v", got)
	}
}

func TestHoldingsReadsLiveAfterALostResponse(t *testing.T) {
	s := newServer(available("host-0"))
	p := newProcess(s, 1)
	p.lose = func(*bmov1alpha1.BareMetalHost) error { return timeout() }
	if _, err := p.claim(p.choose(t, wants("machine-0")), "machine-0"); !apierrors.IsTimeout(err) {
		t.Fatalf("got %v, want the timeout", err)
	}
	p.offline = internalError()
	if _, err := p.store.Holdings(context.Background(), key("machine-0"), ""); !apierrors.IsInternalError(err) {
		t.Errorf("got %v, want the error of the live read", err)
	}
	p.offline = nil
	if held, _ := p.holding(t, "machine-0", ""); held != "host-0" {
		t.Errorf("got %q, want the host that the lost write claimed", held)
	}
	if chosen := p.choose(t, wants("machine-1")); chosen != nil {
		t.Errorf("another machine got %s meanwhile", chosen.Name)
	}
}

// TestHoldingsReadsTheRecordedHostLive starts a process with a cache that lacks the last claim of the previous process.
// A machine that is deleted at that moment must release its host.
func TestHoldingsReadsTheRecordedHostLive(t *testing.T) {
	s := newServer(available("host-0"), available("host-1"))
	before := newProcess(s, 2)
	chosen := before.choose(t, wants("machine-0"))
	if _, err := before.claim(chosen, "machine-0"); err != nil {
		t.Fatal(err)
	}
	after := newProcess(s, 2)
	if held, _ := after.holding(t, "machine-0", chosen.Name); held != chosen.Name {
		t.Errorf("got %q, want %s", held, chosen.Name)
	}
	for _, hint := range []string{"host-0", "gone"} {
		if held, _ := after.holding(t, "machine-1", hint); held != "" {
			t.Errorf("hint %s: got %q, which the machine does not hold", hint, held)
		}
	}
	reads := after.liveReads
	after.sync()
	if held, _ := after.holding(t, "machine-0", chosen.Name); held != chosen.Name || after.liveReads != reads {
		t.Errorf("got %q after %d live reads, want %s from the cache", held, after.liveReads-reads, chosen.Name)
	}
	if held, _ := after.holding(t, "machine-1", ""); held != "" || after.liveReads != reads {
		t.Errorf("got %q after %d live reads for a machine without a record", held, after.liveReads-reads)
	}
}

func TestHoldingsForgetsAFailedWrite(t *testing.T) {
	cases := map[string]error{
		"internal error":    internalError(),
		"too many requests": apierrors.NewTooManyRequests("slow down", 1),
		"timeout":           timeout(),
		"connection":        errors.New("connection refused"),
	}
	for name, failure := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer(available("host-0"))
			p := newProcess(s, 1)
			p.fail = func(*bmov1alpha1.BareMetalHost) error { return failure }
			if _, err := p.claim(p.choose(t, wants("machine-0")), "machine-0"); !errors.Is(err, failure) {
				t.Fatalf("got %v, want %v", err, failure)
			}
			if chosen := p.choose(t, wants("machine-1")); chosen != nil {
				t.Errorf("another machine got %s before the result of the write was known", chosen.Name)
			}
			if held, _ := p.holding(t, "machine-0", "host-0"); held != "" {
				t.Errorf("got %q, want none", held)
			}
			if chosen := p.choose(t, wants("machine-1")); chosen == nil {
				t.Error("no other machine gets the host")
			}
		})
	}
}

func TestHoldingsForgetsADeletedHost(t *testing.T) {
	s := newServer(available("host-0"))
	p := newProcess(s, 1)
	chosen := p.choose(t, wants("machine-0"))
	s.remove()
	if _, err := p.claim(chosen, "machine-0"); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want not found", err)
	}
	if held, _ := p.holding(t, "machine-0", ""); held != "" {
		t.Errorf("got %q, want none", held)
	}
	p.settle("machine-0", false)
	p.sync()
	if got := p.store.Memory(); got != (hoststore.Memory{}) {
		t.Errorf("the memory holds %+v", got)
	}
}

func TestNoMachineChoosesAnOutdatedCopy(t *testing.T) {
	s := newServer(available("host-0"))
	p := newProcess(s, 1)
	chosen := p.choose(t, wants("machine-0"))
	s.edit("host-0", func(h *bmov1alpha1.BareMetalHost) { h.Spec.Description = "changed" })
	if _, err := p.claim(chosen, "machine-0"); !errors.Is(err, hoststore.ErrConflict) {
		t.Fatalf("got %v, want a conflict", err)
	}
	for _, machine := range []string{"machine-0", "machine-1"} {
		if again := p.choose(t, wants(machine)); again != nil {
			t.Errorf("%s got the outdated copy of %s", machine, again.Name)
		}
	}
	p.sync()
	chosen = p.choose(t, wants("machine-0"))
	if chosen == nil {
		t.Fatal("no machine chooses the newer copy")
	}
	if _, err := p.claim(chosen, "machine-0"); err != nil {
		t.Error(err)
	}
}

// TestAConflictAfterTheClaimKeepsTheClaim tests a write of BMO that the cache does not show yet. The machine must not
// claim a second host.
func TestAConflictAfterTheClaimKeepsTheClaim(t *testing.T) {
	s := newServer(available("host-0"), available("host-1"))
	p := newProcess(s, 2)
	stored, err := p.claim(p.choose(t, wants("machine-0")), "machine-0")
	if err != nil {
		t.Fatal(err)
	}
	s.edit(stored.Name, func(h *bmov1alpha1.BareMetalHost) { h.Spec.Description = "changed" })
	provisioned := stored.DeepCopy()
	provisioned.Spec.Online = true
	if _, err := p.store.Write(context.Background(), stored, provisioned); !errors.Is(err, hoststore.ErrConflict) {
		t.Fatalf("got %v, want a conflict", err)
	}
	holdings, err := p.store.Holdings(context.Background(), key("machine-0"), "")
	if err != nil {
		t.Fatal(err)
	}
	if holdings.Host == nil || holdings.Host.Name != stored.Name || holdings.Host.Spec.Description != "changed" {
		t.Errorf("got %v, want %s as it is now", holdings.Host, stored.Name)
	}
}

func TestAConflictKeepsTheAssumptionOfAnotherMachine(t *testing.T) {
	s := newServer(available("host-0"))
	p := newProcess(s, 1)
	stale := s.host("host-0")
	p.choose(t, wants("machine-0"))
	s.edit("host-0", func(h *bmov1alpha1.BareMetalHost) { h.Spec.Description = "changed" })
	p.sync()
	if _, err := p.claim(stale, "machine-1"); !errors.Is(err, hoststore.ErrConflict) {
		t.Fatalf("got %v, want a conflict", err)
	}
	if chosen := p.choose(t, wants("machine-1")); chosen != nil {
		t.Error("the second machine got the host that is assumed for the first one")
	}
}

// TestANewerVersionEndsTheClaim tests a watch that restarts and delivers only the newest version.
func TestANewerVersionEndsTheClaim(t *testing.T) {
	s := newServer(available("host-0"))
	p := newProcess(s, 1)
	if _, err := p.claim(p.choose(t, wants("machine-0")), "machine-0"); err != nil {
		t.Fatal(err)
	}
	s.edit("host-0", func(h *bmov1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil })
	p.position = len(s.history) - 1
	p.sync()
	if held, _ := p.holding(t, "machine-0", ""); held != "" {
		t.Errorf("got %q, which has no consumer", held)
	}
}

func TestChooseAndHoldingsReportErrors(t *testing.T) {
	broken := brokenClient{Client: newServer()}
	store := hoststore.New(broken, broken)
	if _, err := store.Choose(context.Background(), wants("machine-0")); !errors.Is(err, errBroken) {
		t.Errorf("Choose: got %v", err)
	}
	if _, err := store.Holdings(context.Background(), key("machine-0"), ""); !errors.Is(err, errBroken) {
		t.Errorf("Holdings: got %v", err)
	}
	if _, err := store.Hosts(context.Background(), "metal3"); !errors.Is(err, errBroken) {
		t.Errorf("Hosts: got %v", err)
	}
}

var errBroken = errors.New("broken")

type brokenClient struct{ client.Client }

func (brokenClient) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errBroken
}

// TestARefusedMachinePauses refuses all claims. From the eleventh on, each refusal doubles the pause of the machine, which
// claims another host each time, and starts over after the last one.
func TestARefusedMachinePauses(t *testing.T) {
	now := newManualClock()
	p := newProcess(newServer(available("host-0"), available("host-1")), 2)
	p.store.SetClock(now)
	p.fail = func(*bmov1alpha1.BareMetalHost) error { return refusal() }
	var tried []string
	for _, pause := range []time.Duration{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 16, 32, 60, 60, 60} {
		tried = append(tried, p.isRefused(t, pause*time.Second))
		p.settle("machine-0", true)
		p.enqueues(t)
		now.run(pause * time.Second)
		p.enqueues(t)
	}
	for i := 0; i < len(tried); i += 2 {
		if tried[i] == tried[i+1] {
			t.Errorf("the machine tried %v, want both hosts before it starts over", tried)
		}
	}
	p.fail = func(*bmov1alpha1.BareMetalHost) error { return nil }
	if _, err := p.claim(p.choose(t, wants("machine-0")), "machine-0"); err != nil {
		t.Error(err)
	}
	p.settle("machine-0", false)
	p.sync()
	p.store.Forget(key("machine-0"))
	p.settle("machine-0", false)
	if got := p.store.Memory(); got != (hoststore.Memory{}) {
		t.Errorf("the memory holds %+v", got)
	}
}

// TestARefusedHostIsFreeForOtherMachines refuses the claims of machine-0, as if its spec contradicted itself. The host
// goes to machine-1 after its pause, or once it changes.
func TestARefusedHostIsFreeForOtherMachines(t *testing.T) {
	for name, end := range map[string]func(p *process, now *manualClock){
		"Pause":  func(_ *process, now *manualClock) { now.run(time.Second) },
		"Change": func(p *process, _ *manualClock) { p.change(touch) },
	} {
		t.Run(name, func(t *testing.T) {
			now := newManualClock()
			p := newProcess(newServer(available("host-0")), 1)
			p.store.SetClock(now)
			p.fail = func(h *bmov1alpha1.BareMetalHost) error {
				if h.Spec.ConsumerRef.Name == "machine-0" {
					return refusal()
				}
				return nil
			}
			chosen := p.choose(t, wants("machine-0"))
			p.wait(t, wants("machine-1"))
			if _, err := p.claim(chosen, "machine-0"); !hoststore.IsRefusal(err) {
				t.Fatalf("got %v, want a refusal", err)
			}
			p.settle("machine-0", true)
			p.wait(t, wants("machine-1"))
			p.enqueues(t)
			end(p, now)
			p.enqueues(t, "machine-1")
			if _, err := p.claim(p.choose(t, wants("machine-1")), "machine-1"); err != nil {
				t.Error(err)
			}
			p.settle("machine-1", false)
			p.store.Forget(key("machine-0"))
			p.settle("machine-0", false)
			p.sync()
			if got := p.store.Memory(); got != (hoststore.Memory{}) {
				t.Errorf("the memory holds %+v", got)
			}
		})
	}
}

// TestRefusedClaimsAreBounded refuses the claims of all machines on all hosts, which are either more machines or more
// hosts. Until a pause ends, each host and each machine has one refused claim.
func TestRefusedClaimsAreBounded(t *testing.T) {
	for _, counts := range [][2]int{{30, 10}, {10, 30}} {
		machines, hosts := counts[0], counts[1]
		now := newManualClock()
		s := newServer()
		for i := range hosts {
			s.create(available(fmt.Sprintf("host-%d", i)))
		}
		p := newProcess(s, hosts)
		p.store.SetClock(now)
		tried := map[string]int{}
		p.fail = func(h *bmov1alpha1.BareMetalHost) error {
			tried[h.Name]++
			tried[h.Spec.ConsumerRef.Name]++
			return refusal()
		}
		var due []string
		for i := range machines {
			due = append(due, fmt.Sprintf("machine-%d", i))
		}
		for pause := range 4 {
			clear(tried)
			p.requestAll(t, due)
			if len(tried) != 2*min(machines, hosts) {
				t.Errorf("pause %d: tried %v, want %d pairs", pause, tried, min(machines, hosts))
			}
			for name, count := range tried {
				if count > 1 {
					t.Errorf("pause %d: %d refused claims of %s", pause, count, name)
				}
			}
			now.run(time.Minute)
		}
	}
}

// requestAll lets machines, and all that are enqueued meanwhile, claim a host.
func (p *process) requestAll(t *testing.T, machines []string) {
	t.Helper()
	for due := slices.Concat(machines, p.requests()); len(due) > 0; due = p.requests() {
		for _, machine := range due {
			if chosen := p.choose(t, wants(machine)); chosen != nil {
				if _, err := p.claim(chosen, machine); !hoststore.IsRefusal(err) {
					t.Fatalf("got %v, want a refusal", err)
				}
				p.wait(t, wants(machine))
			}
			p.settle(machine, true)
		}
	}
}

// TestForgetDropsRefusals forgets a machine whose claim was refused.
func TestForgetDropsRefusals(t *testing.T) {
	p := newProcess(newServer(available("host-0")), 1)
	p.fail = func(*bmov1alpha1.BareMetalHost) error {
		return apierrors.NewForbidden(hostResource(), "host-0", errors.New("no"))
	}
	if _, err := p.claim(p.choose(t, wants("machine-0")), "machine-0"); !hoststore.IsRefusal(err) {
		t.Fatalf("got %v, want a refusal", err)
	}
	p.store.Forget(key("machine-0"))
	p.settle("machine-0", false)
	if got := p.store.Memory(); got != (hoststore.Memory{}) {
		t.Errorf("the memory holds %+v", got)
	}
}

// TestHoldingsKeepRefusals reads the hosts of a machine that recorded the host that refused it.
func TestHoldingsKeepRefusals(t *testing.T) {
	p := newProcess(newServer(available("host-0")), 1)
	p.store.SetClock(newManualClock())
	p.fail = func(*bmov1alpha1.BareMetalHost) error {
		return apierrors.NewForbidden(hostResource(), "host-0", errors.New("no"))
	}
	if _, err := p.claim(p.choose(t, wants("machine-0")), "machine-0"); !hoststore.IsRefusal(err) {
		t.Fatalf("got %v, want a refusal", err)
	}
	p.settle("machine-0", true)
	if held, _ := p.holding(t, "machine-0", "host-0"); held != "" {
		t.Errorf("the machine holds %s", held)
	}
	p.wait(t, wants("machine-0"))
}

// isRefused lets machine-0 claim a host, expects a refusal and a pause, and returns the host.
func (p *process) isRefused(t *testing.T, pause time.Duration) string {
	t.Helper()
	chosen := p.choose(t, wants("machine-0"))
	if chosen == nil {
		t.Fatal("the machine does not try again")
	}
	if _, err := p.claim(chosen, "machine-0"); !hoststore.IsRefusal(err) || !apierrors.IsForbidden(err) {
		t.Fatalf("got %v, want a refusal with its cause", err)
	}
	choice, err := p.store.Choose(t.Context(), wants("machine-0"))
	if err != nil || choice.Host != nil || !choice.Refused || choice.RetryAfter != pause ||
		!strings.Contains(choice.Message, "2 refused by the API server (") ||
		!strings.Contains(choice.Message, "a policy says no") {
		t.Errorf("got %+v, %v, want another attempt after %s", choice, err, pause)
	}
	return chosen.Name
}

func refusal() error {
	return apierrors.NewForbidden(hostResource(), "host-0", errors.New("a policy says no"))
}

// TestARefusalOfAnotherWriteIsNoRefusalOfTheClaim refuses a write of a claimed host.
func TestARefusalOfAnotherWriteIsNoRefusalOfTheClaim(t *testing.T) {
	p := newProcess(newServer(available("host-0")), 1)
	stored, err := p.claim(p.choose(t, wants("machine-0")), "machine-0")
	if err != nil {
		t.Fatal(err)
	}
	p.fail = func(*bmov1alpha1.BareMetalHost) error {
		return apierrors.NewForbidden(hostResource(), "host-0", errors.New("no"))
	}
	changed := stored.DeepCopy()
	changed.Spec.Online = !stored.Spec.Online
	if _, err := p.store.Write(t.Context(), stored, changed); !hoststore.IsRefusal(err) {
		t.Errorf("got %v, want a refusal", err)
	}
	if got := p.store.Memory(); got.Refused != 0 || got.Assumed != 1 {
		t.Errorf("the memory holds %+v, want the claim", got)
	}
}

func TestHosts(t *testing.T) {
	p := newProcess(newServer(available("a"), available("b", build.InNamespace("elsewhere"))), 2)
	hosts, err := p.store.Hosts(context.Background(), build.DefaultNamespace)
	if err != nil || len(hosts) != 1 || hosts[0].Name != "a" {
		t.Errorf("got %v, %v, want host a", hosts, err)
	}
}

func TestLiveHosts(t *testing.T) {
	p := newProcess(newServer(available("here"), available("elsewhere", build.InNamespace("elsewhere"))), 0)
	hosts, err := p.store.LiveHosts(context.Background(), build.DefaultNamespace)
	if err != nil || len(hosts) != 1 || hosts[0].Name != "here" {
		t.Errorf("got %v, %v, want host here, although the cache shows none", hosts, err)
	}
	broken := hoststore.New(nil, brokenClient{})
	if _, err := broken.LiveHosts(context.Background(), build.DefaultNamespace); !errors.Is(err, errBroken) {
		t.Errorf("got %v, want the error of the list", err)
	}
}
