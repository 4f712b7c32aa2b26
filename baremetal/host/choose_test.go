package host_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func candidates(hosts ...*bmov1alpha1.BareMetalHost) []host.Candidate {
	list := make([]host.Candidate, 0, len(hosts))
	for _, h := range hosts {
		list = append(list, host.Candidate{Host: h})
	}
	return list
}

// chosen holds the fields of a Choice that the tests compare.
type chosen struct {
	Host    string
	Reused  bool
	Message string
}

func seen(choice host.Choice) chosen {
	view := chosen{Reused: choice.Reused, Message: choice.Message}
	if choice.Host != nil {
		view.Host = choice.Host.Name
	}
	return view
}

func TestChoose(t *testing.T) {
	const reservedName = "reserved"
	reuse := func(changes ...func(*bmov1alpha1.BareMetalHost)) *bmov1alpha1.BareMetalHost {
		return edit(available(reservedName), append(changes, reserved(owner))...)
	}
	inError := func(h *bmov1alpha1.BareMetalHost) { h.Status.ErrorMessage = "no power" }
	waits := "Waiting for BareMetalHost reserved, which is reserved for md-workers by node reuse and is deprovisioning"
	reused := chosen{Host: reservedName, Reused: true}

	cases := map[string]struct {
		reason string
		hosts  []*bmov1alpha1.BareMetalHost
		wanted host.Wanted
		want   chosen
	}{
		"OneReservedIsAvailable": {
			reason: "the reserved host has the data of the previous node",
			hosts:  []*bmov1alpha1.BareMetalHost{available("free-0"), available("free-1"), reuse(), available("free-2")},
			wanted: wanted(owned),
			want:   reused,
		},
		"OneReservedIsAvailableAndOthersAreBusy": {
			reason: "the machine does not wait for a busy host while another is available",
			hosts: []*bmov1alpha1.BareMetalHost{
				edit(build.Host("a-busy", build.State(bmov1alpha1.StateDeprovisioning)), reserved(owner)), reuse(),
			},
			wanted: wanted(owned),
			want:   reused,
		},
		"AllReservedAreBusy": {
			reason: "the machine waits although another host is free",
			hosts:  []*bmov1alpha1.BareMetalHost{available("free-0"), reuse(state(bmov1alpha1.StateDeprovisioning))},
			wanted: wanted(owned),
			want:   chosen{Message: waits},
		},
		"SeveralReservedAreBusy": {
			reason: "the message names the same host each time, whatever the order of the candidates",
			hosts: []*bmov1alpha1.BareMetalHost{
				edit(build.Host("z-busy", build.State(bmov1alpha1.StateProvisioned)), reserved(owner)),
				reuse(state(bmov1alpha1.StateDeprovisioning)),
			},
			wanted: wanted(owned),
			want:   chosen{Message: waits},
		},
		"OneReservedIsBusyAndAnotherInError": {
			reason: "the machine waits for the busy host",
			hosts: []*bmov1alpha1.BareMetalHost{
				available("free-0"), reuse(state(bmov1alpha1.StateDeprovisioning)),
				edit(available("broken"), inError, reserved(owner)),
			},
			wanted: wanted(owned),
			want:   chosen{Message: waits},
		},
		"ReservedThatIsNotRegisteredYet": {
			reason: "BMO has not reconciled the host yet, for example after a move",
			hosts:  []*bmov1alpha1.BareMetalHost{reuse(state(bmov1alpha1.StateNone))},
			wanted: wanted(owned),
			want: chosen{
				Message: "Waiting for BareMetalHost reserved, which is reserved for md-workers by node reuse and is not registered yet",
			},
		},
		"OthersWaitForAllReserved": {
			reason: "a busy host serves one machine, so the next one does not wait for it",
			hosts:  []*bmov1alpha1.BareMetalHost{available("free-0"), reuse(state(bmov1alpha1.StateDeprovisioning))},
			wanted: wanted(owned, func(w *host.Wanted) { w.Ahead = 1 }),
			want:   chosen{Host: "free-0"},
		},
		"OthersWaitForSomeReserved": {
			reason: "one machine waits for each busy host",
			hosts: []*bmov1alpha1.BareMetalHost{
				available("free-0"), reuse(state(bmov1alpha1.StateDeprovisioning)),
				edit(build.Host("z-busy", build.State(bmov1alpha1.StateProvisioned)), reserved(owner)),
			},
			wanted: wanted(owned, func(w *host.Wanted) { w.Ahead = 1 }),
			want:   chosen{Message: waits},
		},
		"OthersWaitAndNoneIsFree": {
			reason: "the message names the host that the machine waits for",
			hosts:  []*bmov1alpha1.BareMetalHost{reuse(state(bmov1alpha1.StateDeprovisioning))},
			wanted: wanted(owned, func(w *host.Wanted) { w.Ahead = 1 }),
			want:   chosen{Message: waits},
		},
		"AllReservedAreInErrorAndOneIsFree": {
			reason: "a host in error may never be available",
			hosts:  []*bmov1alpha1.BareMetalHost{reuse(inError), available("free-0")},
			wanted: wanted(owned),
			want:   chosen{Host: "free-0"},
		},
		"NoneIsReservedAndOneIsFree": {
			reason: "the ordinary case",
			hosts:  []*bmov1alpha1.BareMetalHost{build.Host("busy"), available("free-0")},
			wanted: wanted(owned),
			want:   chosen{Host: "free-0"},
		},
		"NonePasses": {
			reason: "the message counts the reasons",
			hosts:  []*bmov1alpha1.BareMetalHost{build.Host("busy"), reuse(inError)},
			wanted: wanted(owned),
			want:   chosen{Message: "2 hosts: 1 in error (reserved), 1 not available yet"},
		},
		"OnlyAUserCanHelp": {
			reason: "the message names the first host of each kind, and what excludes it",
			hosts: []*bmov1alpha1.BareMetalHost{
				available("rack-9", annotated(infrav1.UnhealthyAnnotation, "")), edit(available("rack-7"), reserved("md-b")),
				available("rack-4", annotated(infrav1.UnhealthyAnnotation, "")), edit(available("rack-5"), reserved("md-a")),
				edit(available("rack-8"), reserved("md-c")),
			},
			wanted: wanted(),
			want: chosen{Message: "5 hosts: 3 reserved for another owner (rack-5 and 2 more: label " +
				"infrastructure.cluster.x-k8s.io/node-reuse=md-a; to release the host, remove the label and spec.consumerRef), " +
				"2 marked unhealthy (rack-4 and 1 more: " +
				"remove annotation capm3.metal3.io/unhealthy after the repair)"},
		},
		"ReservedByTheLabelOnly": {
			reason: "a user removed the consumerRef",
			hosts:  []*bmov1alpha1.BareMetalHost{edit(available("rack-5"), reserved("md-a"), consumer(nil))},
			wanted: wanted(),
			want: chosen{Message: "1 host: 1 reserved for another owner (rack-5: label " +
				"infrastructure.cluster.x-k8s.io/node-reuse=md-a; to release the host, remove the label)"},
		},
		"NoHostAtAll": {
			reason: "the message contains the namespace",
			wanted: wanted(),
			want:   chosen{Message: "No BareMetalHosts in namespace metal3: create them there"},
		},
		"OneIsInTheWantedFailureDomain": {
			reason: "a preferred failure domain outranks the hash",
			hosts: []*bmov1alpha1.BareMetalHost{
				available("a-0", build.InDomain("a")), available("a-1", build.InDomain("a")),
				available("b-0", build.InDomain("b")), available("none"),
			},
			wanted: wanted(domain("b", false)),
			want:   chosen{Host: "b-0"},
		},
		"NoneIsInTheWantedFailureDomain": {
			reason: "a preferred failure domain is not required",
			hosts:  []*bmov1alpha1.BareMetalHost{available("a-0", build.InDomain("a"))},
			wanted: wanted(domain("b", false)),
			want:   chosen{Host: "a-0"},
		},
		"AStrictFailureDomainWaits": {
			reason: "a strict failure domain is required",
			hosts:  []*bmov1alpha1.BareMetalHost{available("a-0", build.InDomain("a"))},
			wanted: wanted(domain("b", true)),
			want:   chosen{Message: "1 host: 1 not in failure domain b"},
		},
		"AReservationOutranksTheFailureDomain": {
			reason: "the data on the disk has precedence",
			hosts:  []*bmov1alpha1.BareMetalHost{available("b-0", build.InDomain("b")), reuse()},
			wanted: wanted(owned, domain("b", false)),
			want:   reused,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			list := candidates(tc.hosts...)
			random := rand.New(rand.NewPCG(1, 1))
			for range 4 {
				if diff := cmp.Diff(tc.want, seen(host.Choose(list, tc.wanted))); diff != "" {
					t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
				}
				random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			}
		})
	}
}

// TestChooseDoesNotDependOnTheOrder shuffles random candidates and expects the same choice and message.
func TestChooseDoesNotDependOnTheOrder(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		pool := make([]host.Candidate, 0, 20)
		for i := range 1 + random.IntN(20) {
			pool = append(pool, host.Candidate{
				Host: randomHost(random, fmt.Sprintf("host-%d", i)), Assumed: random.IntN(5) == 0,
			})
		}
		wants := wanted()
		if random.IntN(2) == 0 {
			wants.Owner = owner
		}
		if random.IntN(2) == 0 {
			wants.FailureDomain, wants.Strict = "a", random.IntN(2) == 0
		}
		want := seen(host.Choose(pool, wants))
		for range 5 {
			random.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
			if diff := cmp.Diff(want, seen(host.Choose(pool, wants))); diff != "" {
				t.Fatalf("seed %d: the order of the candidates changed the choice: -before +after:\n%s", seed, diff)
			}
		}
	}
}

func randomHost(random *rand.Rand, name string) *bmov1alpha1.BareMetalHost {
	states := []bmov1alpha1.ProvisioningState{
		bmov1alpha1.StateAvailable, bmov1alpha1.StateReady, bmov1alpha1.StateDeprovisioning, bmov1alpha1.StateInspecting,
	}
	h := build.Host(name, build.State(states[random.IntN(len(states))]))
	for _, change := range []func(*bmov1alpha1.BareMetalHost){
		reserved(owner), reserved("md-other"), consumer(machineRef("other")), image, beingDeleted,
		func(h *bmov1alpha1.BareMetalHost) { h.Status.ErrorMessage = "no power" },
		func(h *bmov1alpha1.BareMetalHost) { annotated(infrav1.UnhealthyAnnotation, "")(h) },
	} {
		if random.IntN(6) == 0 {
			change(h)
		}
	}
	if random.IntN(2) == 0 {
		h = edit(h, func(h *bmov1alpha1.BareMetalHost) {
			build.Labels(map[string]string{"infrastructure.cluster.x-k8s.io/failure-domain": "a"})(h)
		})
	}
	return h
}

// TestChooseSpreads lets machines choose independently. A random choice of 1000 machines yields 632 of 1000 hosts.
func TestChooseSpreads(t *testing.T) {
	const count = 1000
	pool := make([]host.Candidate, 0, count)
	for i := range count {
		pool = append(pool, host.Candidate{Host: available(fmt.Sprintf("host-%d", i))})
	}
	taken := map[string]int{}
	most := 0
	for i := range count {
		choice := host.Choose(pool, wanted(func(w *host.Wanted) { w.Machine = fmt.Sprintf("workers-x7k2p-%d", i) }))
		taken[choice.Host.Name]++
		most = max(most, taken[choice.Host.Name])
	}
	if len(taken) < 580 || most > 8 {
		t.Errorf("%d machines chose %d different hosts, one of them was chosen %d times", count, len(taken), most)
	}
}

func TestSummary(t *testing.T) {
	notIn, err := labels.Parse("rack notin (a,b),zone")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		counts map[host.Reason]int
		wanted host.Wanted
		want   string
	}{
		"the most frequent reason comes first": {
			counts: map[host.Reason]int{host.InError: 2, host.Claimed: 7, host.NotMatching: 3},
			wanted: wanted(inRackB),
			want:   "12 hosts: 7 claimed, 3 not matching selector rack=b, 2 in error (broken and 1 more)",
		},
		"a host in error is named": {
			counts: map[host.Reason]int{host.InError: 1}, wanted: wanted(), want: "1 host: 1 in error (broken)",
		},
		"reasons of the same count are sorted by name": {
			counts: map[host.Reason]int{host.Paused: 1, host.Detached: 1, host.BeingDeleted: 1},
			wanted: wanted(),
			want: "3 hosts: 1 being deleted, 1 detached (rack-6: remove annotation baremetalhost.metal3.io/detached), " +
				"1 paused (rack-5: remove annotation baremetalhost.metal3.io/paused)",
		},
		"one host is singular": {
			counts: map[host.Reason]int{host.Unhealthy: 1},
			wanted: wanted(),
			want:   "1 host: 1 marked unhealthy (rack-4: remove annotation capi.metal3.io/unhealthy after the repair)",
		},
		"the failure domain is named": {
			counts: map[host.Reason]int{host.OtherFailureDomain: 2},
			wanted: wanted(domain("b", true)),
			want:   "2 hosts: 2 not in failure domain b",
		},
		"the selector has the format of kubectl": {
			counts: map[host.Reason]int{host.NotMatching: 2},
			wanted: wanted(func(w *host.Wanted) { w.Selector = notIn }),
			want:   "2 hosts: 2 not matching selector rack notin (a,b),zone",
		},
		"no host at all": {
			wanted: wanted(),
			want:   "No BareMetalHosts in namespace metal3: create them there",
		},
	}
	first := map[host.Reason]*bmov1alpha1.BareMetalHost{
		host.InError:   build.Host("broken"),
		host.Paused:    build.Host("rack-5", build.Paused("me")),
		host.Detached:  build.Host("rack-6", annotated(bmov1alpha1.DetachedAnnotation, "")),
		host.Unhealthy: build.Host("rack-4", annotated(infrav1.DeprecatedUnhealthyAnnotation, "")),
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := (host.Failing{Counts: tc.counts, First: first}).Summary(tc.wanted); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestChooseNamed(t *testing.T) {
	named := func(w *host.Wanted) { w.Named = "named" }
	waits := func(state string) chosen {
		return chosen{Message: "Waiting for BareMetalHost named, which " + state + ". Remove annotation " +
			"metal3.io/BareMetalHost of Metal3Machine machine-0 to choose another host."}
	}
	exists := func(options ...build.HostOption) *host.Candidate {
		return &host.Candidate{Host: build.Host("named", options...)}
	}
	refused := exists(build.Available())
	refused.Refused = "denied by the webhook"
	cases := map[string]struct {
		reason string
		named  *host.Candidate
		wanted host.Wanted
		want   chosen
	}{
		"Available": {
			"the named host has precedence", exists(build.Available()), wanted(named), chosen{Host: "named"},
		},
		"Busy": {
			"the machine waits for it", exists(build.State(bmov1alpha1.StateInspecting)), wanted(named),
			waits("is not available yet"),
		},
		"Claimed": {
			"the user named this host and no other", exists(build.Available(), build.Consumed(build.Metal3Machine("other", "c"))),
			wanted(named), waits("is claimed"),
		},
		"OtherSelector": {
			"selector and annotation contradict each other", exists(build.Available()), wanted(named, inRackB),
			waits("is not matching selector"),
		},
		"Unhealthy": {
			"the user named a host that a remediation has marked", exists(build.Available(), annotated(infrav1.UnhealthyAnnotation, "")),
			wanted(named), waits("is marked unhealthy: remove annotation capm3.metal3.io/unhealthy after the repair"),
		},
		"Paused": {
			"a user paused it", exists(build.Available(), build.Paused("me")), wanted(named),
			waits("is paused: remove annotation baremetalhost.metal3.io/paused"),
		},
		"PausedByProvider": {
			"a move paused it, and ends its pause", exists(build.Available(), build.Paused(infrav1.HostPausedByProvider)),
			wanted(named), waits("is paused: see annotation infrastructure.cluster.x-k8s.io/pause-reason"),
		},
		"Missing": {"the user may create the host later", nil, wanted(named), waits("does not exist")},
		"Refused": {
			"the API server refuses the claim", refused, wanted(named),
			waits("is refused by the API server (denied by the webhook)"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			list := candidates(available("free"))
			if tc.named != nil {
				list = append(list, *tc.named)
			}
			got := host.Choose(list, tc.wanted)
			if diff := cmp.Diff(tc.want, seen(got)); diff != "" || got.Refused != (name == "Refused") {
				t.Errorf("%s: refused %t, -want +got:\n%s", tc.reason, got.Refused, diff)
			}
		})
	}
}

// TestChooseRefused expects that another host has precedence, and that the message names the cause.
func TestChooseRefused(t *testing.T) {
	refused := host.Candidate{Host: available("host-0"), Refused: "denied by\nthe webhook"}
	got := host.Choose([]host.Candidate{refused}, wanted())
	want := chosen{Message: "1 host: 1 refused by the API server (host-0: denied by the webhook)"}
	if diff := cmp.Diff(want, seen(got)); diff != "" || !got.Refused {
		t.Errorf("refused %t, -want +got:\n%s", got.Refused, diff)
	}
	got = host.Choose([]host.Candidate{refused, {Host: available("host-1")}}, wanted())
	if diff := cmp.Diff(chosen{Host: "host-1"}, seen(got)); diff != "" || got.Refused {
		t.Errorf("refused %t, -want +got:\n%s", got.Refused, diff)
	}
	// The message of several hosts does not depend on which of them was tried.
	for _, tried := range []string{"host-2", "host-3"} {
		refused := host.Candidate{Host: available(tried), Refused: fmt.Sprintf("hosts %q is forbidden", tried)}
		got = host.Choose([]host.Candidate{{Host: available("host-1")}, refused, {Host: build.Host("busy")}},
			wanted(func(w *host.Wanted) { w.Refused = true }))
		want = chosen{Message: "3 hosts: 2 refused by the API server (hosts is forbidden), 1 not available yet"}
		if diff := cmp.Diff(want, seen(got)); diff != "" || !got.Refused {
			t.Errorf("%s: refused %t, -want +got:\n%s", tried, got.Refused, diff)
		}
	}
}

// TestANamedHostSuitsOnlyItsMachine expects no offer of another host.
func TestANamedHostSuitsOnlyItsMachine(t *testing.T) {
	named := wanted(func(w *host.Wanted) { w.Named = "host-0" })
	for name, want := range map[string]bool{"host-0": true, "host-1": false} {
		if got := host.Suits(host.Candidate{Host: available(name)}, named); got != want {
			t.Errorf("%s suits: %t, want %t", name, got, want)
		}
	}
}

func TestNamedByUser(t *testing.T) {
	cases := map[string]struct {
		reason           string
		recorded, chosen string
		want             string
	}{
		"None":      {"the machine has no host", "", "", ""},
		"Leftover":  {"nothing is recorded", "", "host-0", ""},
		"ByUser":    {"only the user writes one annotation", "metal3/host-0", "", "host-0"},
		"Chosen":    {"the provider chose it", "metal3/host-0", "host-0", ""},
		"Corrected": {"the user named another host later", "metal3/host-1", "host-0", "host-1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			machine := build.Metal3Machine("machine", "cluster", build.Annotations(map[string]string{
				"metal3.io/BareMetalHost": tc.recorded, "infrastructure.cluster.x-k8s.io/chosen-host": tc.chosen,
			}))
			if got := host.NamedByUser(machine); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
