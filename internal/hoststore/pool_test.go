package hoststore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// TestChooseFromThePool chooses while every list of hosts fails, so that only the pool can return a host.
func TestChooseFromThePool(t *testing.T) {
	free, held := available("a"), taken("a")
	cases := map[string]struct {
		reason string
		events func(see func(before, after *bmov1alpha1.BareMetalHost))
		want   string
	}{
		"Nothing": {
			reason: "An empty pool requires the list for the message.",
			events: func(func(before, after *bmov1alpha1.BareMetalHost)) {},
		},
		"New": {
			reason: "A new host enters the pool.",
			events: func(see func(before, after *bmov1alpha1.BareMetalHost)) { see(nil, free) },
			want:   "a",
		},
		"Claimed": {
			reason: "A claimed host leaves the pool.",
			events: func(see func(before, after *bmov1alpha1.BareMetalHost)) { see(nil, free); see(free, held) },
		},
		"Released": {
			reason: "A released host returns to the pool.",
			events: func(see func(before, after *bmov1alpha1.BareMetalHost)) { see(nil, held); see(held, free) },
			want:   "a",
		},
		"Deleted": {
			reason: "A deleted host leaves the pool.",
			events: func(see func(before, after *bmov1alpha1.BareMetalHost)) { see(nil, free); see(free, nil) },
		},
		"OtherNamespace": {
			reason: "A machine cannot claim hosts of other namespaces.",
			events: func(see func(before, after *bmov1alpha1.BareMetalHost)) {
				see(nil, build.Host("a", build.Available(), build.InNamespace("other")))
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			c := fake.NewClientBuilder().WithScheme(build.SharedScheme()).WithInterceptorFuncs(interceptor.Funcs{
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
					return errBroken
				},
			}).Build()
			store := hoststore.New(c, c)
			informers := &informertest.FakeInformers{Scheme: build.SharedScheme()}
			if _, err := store.Watch(ctx, informers); err != nil {
				t.Fatal(err)
			}
			informer, err := informers.FakeInformerFor(ctx, &bmov1alpha1.BareMetalHost{})
			if err != nil {
				t.Fatal(err)
			}
			tc.events(func(before, after *bmov1alpha1.BareMetalHost) {
				switch {
				case before == nil:
					informer.Add(after)
				case after == nil:
					informer.Delete(before)
				default:
					informer.Update(before, after)
				}
			})
			choice, err := store.Choose(ctx, host.Wanted{Machine: "machine", Namespace: build.DefaultNamespace})
			if tc.want == "" {
				if !errors.Is(err, errBroken) {
					t.Errorf("%s\nChoose() = %q, %v, want the error of the list", tc.reason, choice.Message, err)
				}
				return
			}
			if err != nil || choice.Host == nil || choice.Host.Name != tc.want {
				t.Errorf("%s\nChoose() = %q, %v, want host %s", tc.reason, choice.Message, err, tc.want)
			}
		})
	}
}

// TestMachinesShareTheMessage counts the lists for machines that find no host.
func TestMachinesShareTheMessage(t *testing.T) {
	ctx := context.Background()
	lists := 0
	c := fake.NewClientBuilder().WithScheme(build.SharedScheme()).WithObjects(taken("a")).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			lists++
			return c.List(ctx, list, options...)
		},
	}).Build()
	store := hoststore.New(c, c)
	informers := &informertest.FakeInformers{Scheme: build.SharedScheme()}
	if _, err := store.Watch(ctx, informers); err != nil {
		t.Fatal(err)
	}
	informer, err := informers.FakeInformerFor(ctx, &bmov1alpha1.BareMetalHost{})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(machine, domain, message string, want int) {
		t.Helper()
		wanted := host.Wanted{Machine: machine, Namespace: build.DefaultNamespace, FailureDomain: domain, Strict: true}
		choice, err := store.Choose(ctx, wanted)
		if err != nil || choice.Message != message || lists != want {
			t.Errorf("got %q, %v after %d lists, want %q after %d", choice.Message, err, lists, message, want)
		}
	}
	informer.Add(taken("a"))
	expect("machine-0", "", "1 host: 1 claimed", 1)
	expect("machine-1", "", "1 host: 1 claimed", 1)
	expect("machine-2", "other", "1 host: 1 claimed", 2)
	broken := available("b")
	broken.Status.ErrorMessage = "no power"
	if err := c.Create(ctx, broken); err != nil {
		t.Fatal(err)
	}
	informer.Add(broken)
	expect("machine-0", "", "2 hosts: 1 claimed, 1 in error (b)", 3)
	expect("machine-1", "", "2 hosts: 1 claimed, 1 in error (b)", 3)
}

// TestChooseBeforeThePoolIsComplete chooses while the pool lacks the reserved host of the machine, which the cache has.
func TestChooseBeforeThePoolIsComplete(t *testing.T) {
	ctx := context.Background()
	free := available("a")
	kept := available("b", build.Labels(map[string]string{infrav1.NodeReuseLabel: "md-workers"}))
	c := fake.NewClientBuilder().WithScheme(build.SharedScheme()).WithObjects(free, kept).Build()
	store := hoststore.New(c, c)
	starting := controllertest.NewFakeInformer()
	informers := &informertest.FakeInformers{
		Scheme:         build.SharedScheme(),
		InformersByGVK: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{free.GroupVersionKind(): starting},
	}
	if _, err := store.Watch(ctx, informers); err != nil {
		t.Fatal(err)
	}
	starting.Add(free)
	choice, err := store.Choose(ctx, host.Wanted{
		Machine: "machine", Namespace: build.DefaultNamespace, Owner: "md-workers",
	})
	if err != nil || choice.Host == nil || choice.Host.Name != kept.Name {
		t.Errorf("Choose() = %q, %v, want host %s", choice.Message, err, kept.Name)
	}
}

// TestChoiceFromThePoolEqualsChoiceFromAllHosts compares the choices from random pools with those from all hosts.
func TestChoiceFromThePoolEqualsChoiceFromAllHosts(t *testing.T) {
	seed := theSeed(t)
	for round := range theRounds {
		random := rand.New(rand.NewPCG(seed, uint64(round)))
		s := newServer()
		var all []host.Candidate
		for i := range random.IntN(30) {
			h := randomHost(random, fmt.Sprintf("host-%d", i))
			s.create(h)
			all = append(all, host.Candidate{Host: h})
		}
		p := newProcess(s, len(all))
		for i := range 10 {
			wanted := wants(fmt.Sprintf("machine-%d", i))
			if random.IntN(3) == 0 {
				wanted.Owner = owner
			}
			if random.IntN(3) == 0 {
				wanted.FailureDomain, wanted.Strict = "a", random.IntN(2) == 0
			}
			want := host.Choose(all, wanted)
			got := p.choose(t, wanted)
			switch {
			case (got == nil) != (want.Host == nil), got != nil && got.Name != want.Host.Name:
				t.Fatalf("round %d: %+v gets %v, want %v: %s", round, wanted, got, want.Host, want.Message)
			}
			p.store.Forget(key(wanted.Machine))
			p.settle(wanted.Machine, false)
		}
	}
}

// TestThePoolFollowsChanges compares choices after each of many random changes of one pool.
func TestThePoolFollowsChanges(t *testing.T) {
	const hosts = 12
	random := rand.New(rand.NewPCG(theSeed(t), 1))
	s := newServer()
	for i := range hosts {
		s.create(randomHost(random, fmt.Sprintf("host-%d", i)))
	}
	p := newProcess(s, hosts)
	for round := range 500 {
		name := fmt.Sprintf("host-%d", random.IntN(hosts))
		s.edit(name, func(h *bmov1alpha1.BareMetalHost) {
			changed := randomHost(random, name)
			h.Labels, h.Spec, h.Status = changed.Labels, changed.Spec, changed.Status
		})
		p.sync()
		var all []host.Candidate
		for i := range hosts {
			all = append(all, host.Candidate{Host: s.host(fmt.Sprintf("host-%d", i))})
		}
		wanted := wants(fmt.Sprintf("machine-%d", random.IntN(5)))
		if random.IntN(2) == 0 {
			wanted.Owner = owner
		}
		if random.IntN(2) == 0 {
			wanted.FailureDomain, wanted.Strict = "a", random.IntN(2) == 0
		}
		want, got := host.Choose(all, wanted), p.choose(t, wanted)
		if (got == nil) != (want.Host == nil) || got != nil && got.Name != want.Host.Name {
			t.Fatalf("round %d: %+v gets %v, want %v: %s", round, wanted, got, want.Host, want.Message)
		}
		p.store.Forget(key(wanted.Machine))
		p.settle(wanted.Machine, false)
		p.requests()
	}
}

// TestManyHostsAreCountedInIntervals counts the lists of machines that find none of many hosts, while the hosts change.
func TestManyHostsAreCountedInIntervals(t *testing.T) {
	const hosts = 200
	now := clocktesting.NewFakeClock(time.Now())
	s := newServer()
	for i := range hosts {
		s.create(build.Host(fmt.Sprintf("host-%d", i), build.State(bmov1alpha1.StateInspecting)))
	}
	p := newProcess(s, hosts)
	p.store.SetClock(now)
	expect := func(machine string, lists int) {
		t.Helper()
		p.wait(t, wants(machine))
		if p.lists != lists {
			t.Errorf("%s: %d lists, want %d", machine, p.lists, lists)
		}
	}
	expect("machine-0", 1)
	expect("machine-0", 1)
	p.change(func(h *bmov1alpha1.BareMetalHost) { h.Status.Provisioning.State = bmov1alpha1.StatePreparing })
	expect("machine-1", 1)
	now.SetTime(now.Now().Add(hosts * time.Millisecond))
	expect("machine-0", 2)
	expect("machine-1", 2)
	p.change(func(h *bmov1alpha1.BareMetalHost) { h.Status.Provisioning.State = bmov1alpha1.StateAvailable })
	p.enqueues(t, "machine-0")
	if chosen := p.choose(t, wants("machine-0")); chosen == nil || chosen.Name != "host-0" || p.lists != 2 {
		t.Errorf("got %v after %d lists, want host-0 without another list", chosen, p.lists)
	}
}

// TestAnOfferedHostIsPreferred has a machine with an offer, and another free host that was not offered to it.
func TestAnOfferedHostIsPreferred(t *testing.T) {
	domain := func(w *host.Wanted) { w.FailureDomain = "a" }
	cases := map[string]struct {
		reason string
		wanted func(*host.Wanted)
		other  *bmov1alpha1.BareMetalHost
		want   string
	}{
		"Equal": {
			"each machine claims the host of its offer", func(*host.Wanted) {}, taken("host-1"), "host-0",
		},
		"OtherDomain": {
			"the wanted failure domain has precedence", domain, taken("host-1", build.InDomain("a")), "host-1",
		},
		"Reserved": {
			"a reserved host has precedence", owned, func() *bmov1alpha1.BareMetalHost {
				h := available("host-1")
				reserve(h)
				return h
			}(), "host-1",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			// The order of the hosts on the ring depends on the name of the machine.
			for i := range 10 {
				machine := fmt.Sprintf("machine-%d", i)
				busy := tc.other.DeepCopy()
				busy.Status.Provisioning.State = bmov1alpha1.StateInspecting
				p := newProcess(newServer(taken("host-0"), busy), 2)
				p.wait(t, wants(machine, tc.wanted))
				p.change(free)
				p.server.edit("host-1", func(h *bmov1alpha1.BareMetalHost) {
					h.Status.Provisioning.State = bmov1alpha1.StateAvailable
					if h.Spec.ConsumerRef.Kind == host.MachineKind {
						free(h)
					}
				})
				p.sync()
				if chosen := p.choose(t, wants(machine, tc.wanted)); chosen == nil || chosen.Name != tc.want {
					t.Errorf("%s: %s got %v, want %s", tc.reason, machine, chosen, tc.want)
				}
			}
		})
	}
}

// theRounds is the number of random pools of a test.
const theRounds = 50

func randomHost(random *rand.Rand, name string) *bmov1alpha1.BareMetalHost {
	h := available(name)
	for _, change := range []func(){
		func() { reserve(h) },
		func() { *h = *available(name, build.InDomain("a")) },
		func() { *h = *taken(name) },
		func() { h.Status.Provisioning.State = bmov1alpha1.StateInspecting },
		func() { h.Status.ErrorMessage = "no power" },
	} {
		if random.IntN(5) == 0 {
			change()
		}
	}
	return h
}

// BenchmarkChoose claims all hosts, one per machine.
func BenchmarkChoose(b *testing.B) {
	for _, hosts := range []int{300, 1000, 5000} {
		b.Run(fmt.Sprint(hosts), func(b *testing.B) {
			c := fake.NewClientBuilder().WithScheme(build.SharedScheme()).Build()
			ctx := context.Background()
			for b.Loop() {
				b.StopTimer()
				store := hoststore.New(c, c)
				informers := &informertest.FakeInformers{Scheme: build.SharedScheme()}
				if _, err := store.Watch(ctx, informers); err != nil {
					b.Fatal(err)
				}
				informer, err := informers.FakeInformerFor(ctx, &bmov1alpha1.BareMetalHost{})
				if err != nil {
					b.Fatal(err)
				}
				for i := range hosts {
					informer.Add(available(fmt.Sprintf("host-%d", i)))
				}
				b.StartTimer()
				for i := range hosts {
					wanted := host.Wanted{
						Machine: fmt.Sprintf("machine-%d", i), Namespace: build.DefaultNamespace, Owner: "md-workers",
					}
					choice, err := store.Choose(ctx, wanted)
					if err != nil || choice.Host == nil {
						b.Fatalf("got %+v, %v", choice, err)
					}
					claimed := choice.Host.DeepCopy()
					claimed.Spec.ConsumerRef = taken("").Spec.ConsumerRef
					claimed.Spec.ConsumerRef.Name = wanted.Machine
					informer.Update(choice.Host, claimed)
					store.Settle(ctx, hoststore.Key{Namespace: wanted.Namespace, Name: wanted.Machine}, false)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*hosts), "µs/machine")
		})
	}
}

// BenchmarkArrivals has a machine wait for each host, and makes the hosts available one by one.
func BenchmarkArrivals(b *testing.B) {
	for _, hosts := range []int{300, 1000, 5000} {
		b.Run(fmt.Sprint(hosts), func(b *testing.B) {
			ctx := context.Background()
			wanted := func(machine string) host.Wanted { return wants(machine, owned) }
			for b.Loop() {
				b.StopTimer()
				s := newServer()
				for i := range hosts {
					s.create(build.Host(fmt.Sprintf("host-%d", i), build.State(bmov1alpha1.StateInspecting)))
				}
				p := newProcess(s, hosts)
				for i := range hosts {
					machine := fmt.Sprintf("machine-%d", i)
					if _, err := p.store.Choose(ctx, wanted(machine)); err != nil {
						b.Fatal(err)
					}
					p.settle(machine, true)
				}
				for i := range hosts {
					s.edit(fmt.Sprintf("host-%d", i), func(h *bmov1alpha1.BareMetalHost) {
						h.Status.Provisioning.State = bmov1alpha1.StateAvailable
					})
				}
				b.StartTimer()
				for range hosts {
					p.step()
					for _, machine := range p.requests() {
						choice, err := p.store.Choose(ctx, wanted(machine))
						if err != nil || choice.Host == nil {
							b.Fatalf("%s got %+v, %v", machine, choice, err)
						}
						claimed := choice.Host.DeepCopy()
						claimed.Spec.ConsumerRef = taken("").Spec.ConsumerRef
						claimed.Spec.ConsumerRef.Name = machine
						p.hosts[client.ObjectKeyFromObject(claimed)] = claimed
						p.informer.Update(choice.Host, claimed)
						p.settle(machine, false)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*hosts), "µs/machine")
		})
	}
}
