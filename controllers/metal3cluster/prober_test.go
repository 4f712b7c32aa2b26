package metal3cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// probeCounter counts the probes of endpoints in one test, which runs in the time of synctest.
type probeCounter struct {
	*EndpointProber

	// answer is the result of all probes. Stuck endpoints answer at the end of the probe.
	answer ironicapi.Observation
	stuck  map[string]bool

	// count are the probes of each endpoint, and full those with all requests.
	count, full map[string]int
}

// probes runs a test with a started prober.
func probes(t *testing.T, test func(a *probeCounter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &probeCounter{stuck: map[string]bool{}, count: map[string]int{}, full: map[string]int{}}
		a.answer = ironicapi.Observation{Answer: pivot.Unreachable, Detail: "no answer"}
		a.EndpointProber = NewEndpointProber(func(
			ctx context.Context, endpoint ironicapi.Endpoint, last *ironicapi.Observation,
		) ironicapi.Observation {
			a.mutex.Lock()
			a.count[endpoint.URL]++
			if last == nil {
				a.full[endpoint.URL]++
			}
			answer, isStuck := a.answer, a.stuck[endpoint.URL]
			a.mutex.Unlock()
			if isStuck {
				<-ctx.Done()
				return ironicapi.Observation{Answer: pivot.Unreachable, Detail: ctx.Err().Error()}
			}
			return answer
		}, clock.RealClock{}, time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.Start(ctx) }()
		test(a)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func (a *probeCounter) track(name, url string, eager bool) (ironicapi.Observation, bool) {
	result, known := a.Track(types.NamespacedName{Name: name}, endpointTarget{ironicapi.Endpoint{URL: url}, eager})
	synctest.Wait()
	return result.Observation, known
}

// number returns the number of probes of an endpoint.
func (a *probeCounter) number(counted map[string]int, url string) int {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return counted[url]
}

func (a *probeCounter) change(edit func()) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	edit()
}

// pass waits until just after a tick.
func pass(intervals time.Duration) {
	<-time.After(intervals * time.Second)
	synctest.Wait()
}

// enqueued returns the names of the clusters that were enqueued since the last call.
func (a *probeCounter) enqueued() []string {
	var names []string
	for {
		select {
		case event := <-a.events:
			names = append(names, event.Object.GetName())
		default:
			return names
		}
	}
}

func TestANewTargetIsProbedAtOnceAndThenAtEachTick(t *testing.T) {
	probes(t, func(a *probeCounter) {
		if seen, known := a.track("a", "first", false); known {
			t.Errorf("got %+v before any answer", seen)
		}
		if seen, known := a.track("a", "first", false); !known || !cmp.Equal(seen, a.answer) {
			t.Errorf("got %+v, %t", seen, known)
		}
		pass(30)
		if got := a.number(a.count, "first"); got != 31 {
			t.Errorf("%d probes in 30 seconds without a reconcile, want 31", got)
		}
	})
}

func TestATargetBeforeTheStartIsProbedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		number := 0
		prober := newProber(probing[string, int]{
			probe:    func(context.Context, types.NamespacedName, string, *int) int { number++; return number },
			isSame:   func(before, after string) bool { return before == after },
			isUrgent: func(string, string) bool { return false },
			differs:  func(before, after int) bool { return before != after },
			limit:    time.Second,
		}, clock.RealClock{}, time.Minute)
		prober.Track(types.NamespacedName{Name: "a"}, "first")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- prober.Start(ctx) }()
		synctest.Wait()
		if number != 1 {
			t.Errorf("%d probes at the start, want 1", number)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestANewTargetStartsNoOtherProbe(t *testing.T) {
	probes(t, func(a *probeCounter) {
		a.track("a", "first", false)
		a.track("b", "second", false)
		if first, second := a.number(a.count, "first"), a.number(a.count, "second"); first != 1 || second != 1 {
			t.Errorf("%d and %d probes within an interval, want 1 and 1", first, second)
		}
	})
}

func TestOnlyChangesEnqueueAMetal3Cluster(t *testing.T) {
	probes(t, func(a *probeCounter) {
		a.track("a", "first", false)
		pass(10)
		if diff := cmp.Diff([]string{"a"}, a.enqueued()); diff != "" {
			t.Errorf("the first result: -want +got:\n%s", diff)
		}
		a.change(func() { a.answer = ironicapi.Observation{Answer: pivot.Answers} })
		pass(10)
		if diff := cmp.Diff([]string{"a"}, a.enqueued()); diff != "" {
			t.Errorf("another result: -want +got:\n%s", diff)
		}
	})
}

func TestAHangingTargetDelaysNoOther(t *testing.T) {
	probes(t, func(a *probeCounter) {
		a.change(func() { a.stuck["hangs"] = true })
		a.track("a", "hangs", false)
		a.track("b", "answers", false)
		if _, known := a.track("b", "answers", false); !known {
			t.Error("a target waits for another one")
		}
		pass(3)
		if a.number(a.count, "hangs") != 1 || a.number(a.count, "answers") != 4 {
			t.Error("got another number of probes")
		}
		pass(3)
		if seen, known := a.track("a", "hangs", false); !known || seen.Answer != pivot.Unreachable {
			t.Errorf("the probe has no limit: %+v, %t", seen, known)
		}
	})
}

func TestAllNodesAreListedEveryTenSeconds(t *testing.T) {
	probes(t, func(a *probeCounter) {
		a.track("a", "first", false)
		pass(9)
		if a.number(a.full, "first") != 1 {
			t.Errorf("%d lists in 9 seconds, want 1", a.number(a.full, "first"))
		}
		pass(1)
		if a.number(a.full, "first") != 2 {
			t.Errorf("%d lists in 10 seconds, want 2", a.number(a.full, "first"))
		}
		a.track("a", "first", true)
		pass(4)
		if a.number(a.full, "first") != 7 {
			t.Errorf("%d lists while hosts are missing, want 7", a.number(a.full, "first"))
		}
	})
}

func TestNoProbesDuringAPause(t *testing.T) {
	probes(t, func(a *probeCounter) {
		a.track("a", "first", false)
		a.Pause(types.NamespacedName{Name: "a"})
		a.Pause(types.NamespacedName{Name: "unknown"})
		pass(30)
		if a.number(a.count, "first") != 1 {
			t.Errorf("%d probes, want 1", a.number(a.count, "first"))
		}
		if _, known := a.track("a", "first", false); !known || a.number(a.count, "first") != 2 {
			t.Errorf("after the pause: known %t, %d probes, want 2", known, a.number(a.count, "first"))
		}
		a.Forget(types.NamespacedName{Name: "a"})
		pass(30)
		if _, known := a.track("a", "first", false); known || a.number(a.count, "first") != 3 {
			t.Errorf("after the deletion: known %t, %d probes, want 3", known, a.number(a.count, "first"))
		}
	})
}

func TestAResultIsNotThatOfAnotherEndpoint(t *testing.T) {
	probes(t, func(a *probeCounter) {
		key := types.NamespacedName{Name: "a"}
		before := ironicapi.Endpoint{URL: "first", Authority: []byte("a")}
		for name, after := range map[string]ironicapi.Endpoint{
			"URL":       {URL: "second", Authority: []byte("a")},
			"Username":  {URL: before.URL, Username: "new", Authority: []byte("a")},
			"Password":  {URL: before.URL, Password: "new", Authority: []byte("a")},
			"Authority": {URL: before.URL, Authority: []byte("b")},
		} {
			a.Track(key, endpointTarget{Endpoint: before})
			synctest.Wait()
			if seen, known := a.Track(key, endpointTarget{Endpoint: after}); known {
				t.Errorf("%s: got %+v of another endpoint", name, seen)
			}
			synctest.Wait()
			if _, known := a.Track(key, endpointTarget{Endpoint: after}); !known {
				t.Errorf("%s: the new endpoint is not probed", name)
			}
		}
	})
}

// planes is a workload cluster.
type planes struct {
	seen         workload.ControlPlane
	err, claim   error
	standing     pivot.Standing
	reads, armed int

	// claims counts the calls of Claim.
	claims int
}

func (p *planes) Read(context.Context, types.NamespacedName, string) (workload.ControlPlane, error) {
	p.reads++
	seen := p.seen
	seen.Nodes = append([]workload.ControlPlaneNode(nil), p.seen.Nodes...)
	return seen, p.err
}

func (p *planes) Claim(_ context.Context, _ types.NamespacedName, epoch pivot.Epoch,
) (pivot.Claim, pivot.Standing, error) {
	p.claims++
	if p.claim != nil {
		return pivot.Claim{}, "", p.claim
	}
	return pivot.Claim{Epoch: epoch}, p.standing, nil
}

func (p *planes) Arm(_ context.Context, _ types.NamespacedName, node string, armed bool) error {
	if node == "broken" {
		return errAway
	}
	p.armed++
	for i := range p.seen.Nodes {
		if p.seen.Nodes[i].Name == node && armed {
			p.seen.Nodes[i].Armed = pivot.ArmedByProvider
		}
	}
	return nil
}

func TestNodesAreProbedEachFiveIntervals(t *testing.T) {
	ready := workload.ControlPlaneNode{Name: "cp-0", Armed: pivot.ArmedByUser, Carries: true, PodsReady: true}
	starting := workload.ControlPlaneNode{Name: "cp-0", Armed: pivot.ArmedByUser, Carries: true}
	for name, there := range map[string]planes{
		"Ready":       {seen: workload.ControlPlane{Nodes: []workload.ControlPlaneNode{ready}}},
		"Starting":    {seen: workload.ControlPlane{Nodes: []workload.ControlPlaneNode{starting}}},
		"Unreachable": {err: workload.ErrUnreachable},
		"Broken":      {err: errAway},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				prober := NewNodeProber(&there, events.NewFakeRecorder(10), clock.RealClock{}, time.Second)
				ctx, cancel := context.WithCancel(t.Context())
				go func() { _ = prober.Start(ctx) }()
				prober.Track(types.NamespacedName{Name: "a"}, nodesTarget{infra: &infrav1.Metal3Cluster{}})
				<-time.After(10*time.Minute - time.Millisecond)
				synctest.Wait()
				cancel()
				if there.reads != 120 {
					t.Errorf("%d probes in 10 minutes, want 120", there.reads)
				}
				result, _ := prober.Track(types.NamespacedName{Name: "a"}, nodesTarget{infra: &infrav1.Metal3Cluster{}})
				if (result.problem == "") != (there.err == nil) || (result.seen == nil) != (there.err != nil) {
					t.Errorf("got %+v", result)
				}
			})
		})
	}
}

// TestAClaimWaitsForTheConnection starts a manager that connects to the workload cluster after the first probes.
func TestAClaimWaitsForTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := &planes{claim: workload.ErrNotTried}
		prober := NewNodeProber(there, events.NewFakeRecorder(10), clock.RealClock{}, time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = prober.Start(ctx) }()
		target := nodesTarget{infra: &infrav1.Metal3Cluster{}}
		prober.Track(types.NamespacedName{Name: "a"}, target)
		<-time.After(10*time.Second - time.Millisecond)
		synctest.Wait()
		cancel()
		if result, _ := prober.Track(types.NamespacedName{Name: "a"}, target); !result.isPending || result.isUnproven {
			t.Errorf("got %+v", result)
		}
		if there.claims != 10 || there.reads != 0 {
			t.Errorf("%d claims and %d reads in 10 seconds, want a claim each second", there.claims, there.reads)
		}
	})
}

func TestNodesOfAClusterThatManagesItselfAreArmedOnce(t *testing.T) {
	there := &planes{seen: workload.ControlPlane{Own: true, Nodes: []workload.ControlPlaneNode{
		{Name: "broken", Armed: pivot.NotArmed}, {Name: "cp-0", Armed: pivot.NotArmed}, {Name: "cp-1", Armed: pivot.Refused},
	}}}
	recorder := events.NewFakeRecorder(10)
	target := nodesTarget{infra: &infrav1.Metal3Cluster{}}
	for range 2 {
		result := probeNodes(t.Context(), there, recorder, target, nil)
		if want := "its nodes could not be armed: " + errAway.Error(); result.problem != want {
			t.Errorf("got %q, want %q", result.problem, want)
		}
	}
	if there.armed != 1 || len(recorder.Events) != 1 {
		t.Errorf("armed %d times with %d events, want once", there.armed, len(recorder.Events))
	}
	there.err = errors.New("no connection")
	if result := probeNodes(t.Context(), there, recorder, target, nil); result.problem != "its nodes could not be read: no connection" {
		t.Errorf("got %q", result.problem)
	}
}

// TestSupersededArmsNothing covers a cluster that manages itself and that another management cluster has claimed.
func TestSupersededArmsNothing(t *testing.T) {
	there := &planes{standing: pivot.Superseded, seen: workload.ControlPlane{
		Own: true, Nodes: []workload.ControlPlaneNode{{Name: "cp-0", Armed: pivot.NotArmed}},
	}}
	result := probeNodes(t.Context(), there, events.NewFakeRecorder(10), nodesTarget{epoch: 4}, nil)
	if there.armed != 0 || result.seen == nil || result.epoch != 4 || result.standing != pivot.Superseded {
		t.Errorf("armed %d times, got %+v", there.armed, result)
	}
}

func TestAnIncompleteEndpointIsNoIronic(t *testing.T) {
	seen := ProbeIronic(
		context.Background(), ironicapi.Endpoint{URL: "https://192.0.2.2:6385/v1/", Password: "do-not-tell"}, nil)
	if seen.Answer != pivot.Broken || seen.Detail == "" {
		t.Errorf("got %+v", seen)
	}
}
