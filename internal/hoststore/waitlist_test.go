package hoststore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

const owner = "md-workers"

func owned(w *host.Wanted) { w.Owner = owner }

func selecting(rack string) func(*host.Wanted) {
	return func(w *host.Wanted) { w.Selector = labels.SelectorFromSet(labels.Set{"rack": rack}) }
}

func strictly(domain string) func(*host.Wanted) {
	return func(w *host.Wanted) { w.FailureDomain, w.Strict = domain, true }
}

func naming(name string) func(*host.Wanted) { return func(w *host.Wanted) { w.Named = name } }

func taken(name string, options ...build.HostOption) *bmov1alpha1.BareMetalHost {
	return available(name, append(options, build.Consumed(build.Metal3Machine("other", "cluster-0")))...)
}

func reserve(h *bmov1alpha1.BareMetalHost) {
	metav1.SetMetaDataLabel(&h.ObjectMeta, infrav1.NodeReuseLabel, owner)
	h.Spec.ConsumerRef = &corev1.ObjectReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Namespace: build.DefaultNamespace, Name: "cluster-0",
	}
}

// reserved returns a busy host that is reserved for the owner.
func reserved(name string) *bmov1alpha1.BareMetalHost {
	h := build.Host(name, build.State(bmov1alpha1.StateDeprovisioning))
	reserve(h)
	return h
}

func free(h *bmov1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil }

func touch(h *bmov1alpha1.BareMetalHost) { h.Spec.Description += "x" }

// wait requests a host for each machine and expects none.
func (p *process) wait(t *testing.T, list ...host.Wanted) {
	t.Helper()
	for _, wanted := range list {
		if chosen := p.choose(t, wanted); chosen != nil {
			t.Fatalf("%s got %s, but it should wait", wanted.Machine, chosen.Name)
		}
		p.settle(wanted.Machine, true)
	}
	p.enqueues(t)
}

// enqueues expects exactly these machines, in this order.
func (p *process) enqueues(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, p.requests()); diff != "" {
		t.Errorf("enqueued: -want +got:\n%s", diff)
	}
}

// change changes host-0 on the server and syncs the cache.
func (p *process) change(edit func(*bmov1alpha1.BareMetalHost)) {
	p.server.edit("host-0", edit)
	p.sync()
}

func TestAFreeHostEnqueuesTheFirstWaiter(t *testing.T) {
	p := newProcess(newServer(taken("host-0")), 1)
	p.wait(t, wants("c"), wants("a"), wants("b"))
	p.change(free)
	p.enqueues(t, "c")
	p.change(touch)
	p.enqueues(t)
}

// TestARequeuedMachineKeepsItsPlace reconciles the first machine again, and lets it decline an offer. It keeps its
// place until it stops waiting.
func TestARequeuedMachineKeepsItsPlace(t *testing.T) {
	p := newProcess(newServer(taken("host-0")), 1)
	p.wait(t, wants("first"), wants("second"), wants("first"))
	p.change(free)
	p.enqueues(t, "first")
	p.server.edit("host-0", func(h *bmov1alpha1.BareMetalHost) { h.Spec.ConsumerRef = taken("").Spec.ConsumerRef })
	p.sync()
	p.wait(t, wants("first"))
	p.change(free)
	p.enqueues(t, "first")
	p.settle("first", false)
	p.enqueues(t, "second")
}

// TestShortagesEndWithTheirMachines lets machines of many owners wait for some time, while one machine waits all the time.
func TestShortagesEndWithTheirMachines(t *testing.T) {
	p := newProcess(newServer(taken("host-0")), 1)
	p.wait(t, wants("stays"))
	for i := range 20 {
		brief := wants(fmt.Sprintf("machine-%d", i), func(w *host.Wanted) { w.Owner = fmt.Sprintf("owner-%d", i) })
		p.wait(t, brief)
		p.settle(brief.Machine, false)
		p.change(free)
		p.enqueues(t, "stays")
		p.change(func(h *bmov1alpha1.BareMetalHost) { h.Spec.ConsumerRef = taken("").Spec.ConsumerRef })
		p.wait(t, wants("stays"))
	}
	if got := p.store.Shortages(); got > 2 {
		t.Errorf("the waitlist remembers %d searches, although one machine waits", got)
	}
}

func TestAHostEnqueuesOnlyAMachineThatItSuits(t *testing.T) {
	p := newProcess(newServer(taken("host-0", build.Labels(map[string]string{"rack": "b"}))), 1)
	p.wait(t, wants("a", selecting("a")), wants("b", selecting("b")), wants("c"))
	p.change(free)
	p.enqueues(t, "b")
}

func TestAPausedHostEnqueuesNoMachine(t *testing.T) {
	p := newProcess(newServer(taken("host-0", build.Paused("user"))), 1)
	p.wait(t, wants("a"))
	p.change(free)
	p.enqueues(t)
	p.change(func(h *bmov1alpha1.BareMetalHost) { h.Annotations = nil })
	p.enqueues(t, "a")
}

func TestAClaimEndsTheOffer(t *testing.T) {
	p := newProcess(newServer(taken("host-0")), 1)
	p.wait(t, wants("a"), wants("b"))
	p.change(free)
	p.enqueues(t, "a")
	if _, err := p.claim(p.choose(t, wants("a")), "a"); err != nil {
		t.Fatal(err)
	}
	p.settle("a", false)
	p.sync()
	p.enqueues(t)
	want := hoststore.Memory{Waiters: 1}
	if diff := cmp.Diff(want, p.store.Memory()); diff != "" {
		t.Errorf("memory: -want +got:\n%s", diff)
	}
}

func TestADeclinedHostIsOfferedToTheNextMachine(t *testing.T) {
	cases := map[string]struct {
		reason  string
		decline func(t *testing.T, p *process)
	}{
		"Deleted": {
			reason: "a deleted machine claims no host",
			decline: func(_ *testing.T, p *process) {
				p.store.Forget(key("a"))
				p.settle("a", false)
			},
		},
		"NoRequest": {
			reason:  "the reconcile failed before its request",
			decline: func(_ *testing.T, p *process) { p.settle("a", false) },
		},
		"OtherRequest": {
			reason: "the selector of the machine changed",
			decline: func(t *testing.T, p *process) {
				t.Helper()
				if chosen := p.choose(t, wants("a", selecting("other"))); chosen != nil {
					t.Errorf("got %s", chosen.Name)
				}
				p.settle("a", true)
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := newProcess(newServer(taken("host-0")), 1)
			p.wait(t, wants("a"), wants("b"), wants("c"))
			p.change(free)
			p.enqueues(t, "a")
			tc.decline(t, p)
			t.Log(tc.reason)
			p.enqueues(t, "b")
			if chosen := p.choose(t, wants("b")); chosen == nil {
				t.Error("the next machine does not get the host")
			}
		})
	}
}

// TestAHostEnqueuesOnlyMachinesOfItsNamespace has an earlier request in another namespace.
func TestAHostEnqueuesOnlyMachinesOfItsNamespace(t *testing.T) {
	p := newProcess(newServer(taken("host-0")), 1)
	elsewhere := wants("a", func(w *host.Wanted) { w.Namespace = "elsewhere" })
	if chosen := p.choose(t, elsewhere); chosen != nil {
		t.Fatalf("got %s, which is in another namespace", chosen.Name)
	}
	p.store.Settle(context.Background(), hoststore.Key{Namespace: "elsewhere", Name: "a"}, true)
	p.wait(t, wants("b"))
	p.change(free)
	p.enqueues(t, "b")
	p.settle("b", false)
	p.enqueues(t)
}

// TestAnIrrelevantUpdateEnqueuesNoMachine updates a free host and a reserved host that suit no waiting machine.
func TestAnIrrelevantUpdateEnqueuesNoMachine(t *testing.T) {
	p := newProcess(newServer(reserved("host-0"), available("host-1")), 2)
	p.wait(t, wants("a", owned))
	for _, name := range []string{"host-0", "host-1"} {
		p.server.edit(name, touch)
		p.sync()
		p.enqueues(t)
	}
	p.change(func(h *bmov1alpha1.BareMetalHost) { h.Status.Provisioning.State = bmov1alpha1.StatePreparing })
	p.enqueues(t, "a")
}

// TestAnOfferReachesEachMachineOnce lets all machines decline. The offer must end.
func TestAnOfferReachesEachMachineOnce(t *testing.T) {
	p := newProcess(newServer(reserved("host-0"), taken("host-1")), 2)
	p.wait(t, wants("a", owned), wants("b", owned), wants("c", owned))
	p.change(func(h *bmov1alpha1.BareMetalHost) { h.Status.Provisioning.State = bmov1alpha1.StatePreparing })
	for _, machine := range []string{"a", "b", "c"} {
		p.enqueues(t, machine)
		if chosen := p.choose(t, wants(machine, owned)); chosen != nil {
			t.Errorf("%s got %s although its host is busy", machine, chosen.Name)
		}
		p.settle(machine, true)
	}
	p.enqueues(t)
	want := hoststore.Memory{Waiters: 3}
	if diff := cmp.Diff(want, p.store.Memory()); diff != "" {
		t.Errorf("memory: -want +got:\n%s", diff)
	}
}

// TestOneMachineWaitsForEachReservedHost has three machines of one owner. One waits for the busy reserved host, the
// others claim free hosts.
func TestOneMachineWaitsForEachReservedHost(t *testing.T) {
	p := newProcess(newServer(reserved("host-0"), available("host-1"), available("host-2")), 3)
	p.wait(t, wants("a", owned), wants("a", owned))
	for _, machine := range []string{"b", "c"} {
		chosen := p.choose(t, wants(machine, owned))
		if chosen == nil || chosen.Name == "host-0" {
			t.Fatalf("%s got %v, want a free host", machine, chosen)
		}
		if _, err := p.claim(chosen, machine); err != nil {
			t.Fatal(err)
		}
		p.settle(machine, false)
		p.sync()
	}
	p.wait(t, wants("a", owned))
	p.change(func(h *bmov1alpha1.BareMetalHost) { h.Status.Provisioning.State = bmov1alpha1.StateAvailable })
	p.enqueues(t, "a")
	if chosen := p.choose(t, wants("a", owned)); chosen == nil || chosen.Name != "host-0" {
		t.Errorf("got %v, want the reserved host", chosen)
	}
}

// TestOnlyMachinesThatCanUseAReservedHostWaitBeforeOthers has a busy reserved host in rack a, and an earlier machine of
// the same owner.
func TestOnlyMachinesThatCanUseAReservedHostWaitBeforeOthers(t *testing.T) {
	cases := map[string]struct {
		reason  string
		earlier func(*host.Wanted)
		want    string
	}{
		"Like":         {"the earlier machine waits for the reserved host", selecting("a"), "host-1"},
		"AnyHost":      {"the reserved host also suits a machine without a selector", func(*host.Wanted) {}, "host-1"},
		"OtherRack":    {"the reserved host does not match the selector", selecting("b"), ""},
		"OtherDomain":  {"the reserved host is in no failure domain", strictly("room-1"), ""},
		"Named":        {"a user named the reserved host", naming("host-0"), "host-1"},
		"NamedAnother": {"a user named another host", naming("host-2"), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRackA := build.Labels(map[string]string{"rack": "a"})
			busy, other := reserved("host-0"), available("host-1", inRackA)
			inRackA(busy)
			p := newProcess(newServer(busy, other), 2)
			earlier, later := wants("a", owned, tc.earlier), wants("b", owned, selecting("a"))
			p.server.edit("host-1", func(h *bmov1alpha1.BareMetalHost) { h.Status.ErrorMessage = "no power" })
			p.sync()
			p.wait(t, earlier, later)
			p.server.edit("host-1", func(h *bmov1alpha1.BareMetalHost) { h.Status.ErrorMessage = "" })
			p.sync()
			got := ""
			if chosen := p.choose(t, later); chosen != nil {
				got = chosen.Name
			}
			if got != tc.want {
				t.Errorf("%s: the later machine got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// TestAnEventDuringSettleReachesAllMachines changes the host after a machine declines and before the next offer.
func TestAnEventDuringSettleReachesAllMachines(t *testing.T) {
	p := newProcess(newServer(taken("host-0")), 1)
	p.wait(t, wants("a"), wants("b"), wants("c"))
	p.change(free)
	p.enqueues(t, "a")
	p.beforeGet = func() {
		p.beforeGet = func() {}
		p.server.edit("host-0", func(h *bmov1alpha1.BareMetalHost) {
			h.Annotations = map[string]string{bmov1alpha1.PausedAnnotation: "user"}
		})
		p.sync()
		p.wait(t, wants("d"))
		p.server.edit("host-0", func(h *bmov1alpha1.BareMetalHost) { h.Annotations = nil })
		p.sync()
	}
	p.settle("a", false)
	for _, machine := range []string{"b", "c", "d"} {
		p.enqueues(t, machine)
		p.settle(machine, false)
	}
	p.enqueues(t)
}

func TestADeletedHostIsNotOffered(t *testing.T) {
	p := newProcess(newServer(taken("host-0")), 1)
	p.wait(t, wants("a"), wants("b"))
	p.change(free)
	p.enqueues(t, "a")
	p.server.remove()
	p.sync()
	p.settle("a", false)
	p.enqueues(t)
	if got := p.store.Memory().Offers; got != 0 {
		t.Errorf("got %d offers, want none", got)
	}
}

// TestAnUnclaimedHostIsOfferedToTheNextMachine tests hosts that become free without an event.
func TestAnUnclaimedHostIsOfferedToTheNextMachine(t *testing.T) {
	cases := map[string]struct {
		reason  string
		abandon func(t *testing.T, p *process, chosen *bmov1alpha1.BareMetalHost)
	}{
		"MachineIsDeleted": {
			reason: "the machine was deleted between its choice and its claim",
			abandon: func(_ *testing.T, p *process, _ *bmov1alpha1.BareMetalHost) {
				p.store.Forget(key("a"))
				p.settle("a", false)
			},
		},
		"WriteFailedAndTheMachineStopsWaiting": {
			reason: "the next reconcile reads live that the write failed",
			abandon: func(t *testing.T, p *process, chosen *bmov1alpha1.BareMetalHost) {
				t.Helper()
				p.fail = func(*bmov1alpha1.BareMetalHost) error { return internalError() }
				if _, err := p.claim(chosen, "a"); err == nil {
					t.Error("the write did not fail")
				}
				p.settle("a", false)
				p.enqueues(t)
				p.holding(t, "a", "")
				p.settle("a", false)
			},
		},
		"ConflictWithAChangeThatTheCacheShowed": {
			reason: "the event came while the host was assumed for the first machine",
			abandon: func(t *testing.T, p *process, chosen *bmov1alpha1.BareMetalHost) {
				t.Helper()
				p.change(func(h *bmov1alpha1.BareMetalHost) { h.Labels = nil })
				p.enqueues(t)
				if _, err := p.claim(chosen, "a"); !errors.Is(err, hoststore.ErrConflict) {
					t.Errorf("got %v, want a conflict", err)
				}
				if again := p.choose(t, wants("a", selecting("a"))); again != nil {
					t.Errorf("got %s, which does not match any more", again.Name)
				}
				p.settle("a", true)
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := newProcess(newServer(available("host-0", build.Labels(map[string]string{"rack": "a"}))), 1)
			chosen := p.choose(t, wants("a", selecting("a")))
			p.wait(t, wants("b"))
			tc.abandon(t, p, chosen)
			t.Log(tc.reason)
			p.enqueues(t, "b")
		})
	}
}

func TestTheEventAfterAConflictOffersTheHost(t *testing.T) {
	p := newProcess(newServer(available("host-0")), 1)
	chosen := p.choose(t, wants("a"))
	p.wait(t, wants("b"))
	p.server.edit("host-0", touch)
	if _, err := p.claim(chosen, "a"); !errors.Is(err, hoststore.ErrConflict) {
		t.Fatalf("got %v, want a conflict", err)
	}
	p.settle("a", false)
	p.enqueues(t)
	p.sync()
	p.enqueues(t, "b")
}

func TestAReservedHostEnqueuesAMachineOfItsOwner(t *testing.T) {
	p := newProcess(newServer(reserved("host-0")), 1)
	p.wait(t, wants("other"), wants("a", owned), wants("b", owned))
	p.change(func(h *bmov1alpha1.BareMetalHost) { h.Status.Provisioning.State = bmov1alpha1.StateAvailable })
	p.enqueues(t, "a")
	if chosen := p.choose(t, wants("a", owned)); chosen == nil || chosen.Name != "host-0" {
		t.Errorf("got %v, want the reserved host", chosen)
	}
}

// TestAReservedHostEnqueuesTheMachineThatItSuits tests machines of one owner with different requirements.
func TestAReservedHostEnqueuesTheMachineThatItSuits(t *testing.T) {
	p := newProcess(newServer(reserved("host-0")), 1)
	named := func(w *host.Wanted) { w.Named = "host-9" }
	p.wait(t, wants("a", owned, named), wants("b", owned))
	p.change(func(h *bmov1alpha1.BareMetalHost) { h.Status.Provisioning.State = bmov1alpha1.StateAvailable })
	p.enqueues(t, "b")
}

// TestTheEndOfAReservationEnqueuesAMachineOfItsOwner tests machines that wait for a reserved host while other hosts are
// free. The free hosts cause no event.
func TestTheEndOfAReservationEnqueuesAMachineOfItsOwner(t *testing.T) {
	cases := map[string]struct {
		reason string
		end    func(*process)
	}{
		"Deleted": {
			reason: "a user deletes the host",
			end: func(p *process) {
				p.server.remove()
				p.sync()
			},
		},
		"LabelRemoved": {
			reason: "a user releases the host",
			end: func(p *process) {
				p.change(func(h *bmov1alpha1.BareMetalHost) { h.Labels, h.Spec.ConsumerRef = nil, nil })
			},
		},
		"ClaimedByAnotherMachine": {
			reason: "a machine of another process claims the host",
			end: func(p *process) {
				p.change(func(h *bmov1alpha1.BareMetalHost) { *h = *host.Desired(h, claimOf("sibling")) })
			},
		},
		"InError": {
			reason: "a host in error may never be available",
			end: func(p *process) {
				p.change(func(h *bmov1alpha1.BareMetalHost) { h.Status.ErrorMessage = "no power" })
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := newProcess(newServer(reserved("host-0"), available("host-1")), 2)
			p.wait(t, wants("a", owned))
			tc.end(p)
			t.Log(tc.reason)
			p.enqueues(t, "a")
			if chosen := p.choose(t, wants("a", owned)); chosen == nil || chosen.Name != "host-1" {
				t.Errorf("got %v, want the free host", chosen)
			}
		})
	}
}

func TestTheEndOfAReservationEnqueuesAllMachinesOfItsOwner(t *testing.T) {
	p := newProcess(newServer(reserved("host-0"), reserved("host-1"), available("host-2")), 3)
	p.wait(t, wants("b", owned), wants("a", owned))
	p.server.remove()
	p.sync()
	p.enqueues(t, "b", "a")
}

func TestATombstoneIsADeletion(t *testing.T) {
	p := newProcess(newServer(reserved("host-0"), available("host-1")), 2)
	p.wait(t, wants("a", owned))
	p.store.HandleDelete(tombstone(p.server.host("host-0")))
	p.enqueues(t, "a")
	p.store.HandleDelete(&corev1.Node{})
	p.enqueues(t)
}

// TestSettleWithoutACache tests a process that stops.
func TestSettleWithoutACache(t *testing.T) {
	p := newProcess(newServer(taken("host-0")), 1)
	p.wait(t, wants("a"), wants("b"))
	p.change(free)
	p.enqueues(t, "a")
	p.beforeGet = func() { delete(p.hosts, key("host-0")) }
	p.store.Settle(context.Background(), key("a"), false)
	p.enqueues(t)
}
