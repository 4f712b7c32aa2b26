package metal3cluster

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
)

// looking is a lookout whose answers come when the test gives them.
type looking struct {
	*Lookout
	clock   *clocktesting.FakePassiveClock
	asked   chan ironicapi.Endpoint
	answers chan ironicapi.Observation

	// last is what the last question carried, eager what the next reconcile wants.
	last  *ironicapi.Observation
	eager bool
}

const testInterval = 10 * time.Second

func newLooking() *looking {
	l := &looking{
		clock: clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0)),
		asked: make(chan ironicapi.Endpoint), answers: make(chan ironicapi.Observation),
	}
	l.Lookout = NewLookout(func(
		ctx context.Context, endpoint ironicapi.Endpoint, last *ironicapi.Observation,
	) ironicapi.Observation {
		if _, limited := ctx.Deadline(); !limited || ctx.Err() != nil {
			return ironicapi.Observation{Answer: "the look has no time limit, or ends with its reconcile"}
		}
		l.last = last
		l.asked <- endpoint
		return <-l.answers
	}, l.clock, testInterval)
	return l
}

// see looks like a reconcile that ends at once.
func (l *looking) see(name string, endpoint ironicapi.Endpoint) (ironicapi.Observation, bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	return l.See(ctx, types.NamespacedName{Name: name}, endpoint, l.eager)
}

// news tells whether the cluster was woken. It waits where something is expected.
func (l *looking) woken(t *testing.T, want string) {
	t.Helper()
	select {
	case event := <-l.news:
		if event.Object.GetName() != want {
			t.Errorf("%s is woken, want %s", event.Object.GetName(), want)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("%s is not woken", want)
	}
}

// settled waits until no look of a cluster is under way.
func (l *looking) settled(t *testing.T, name string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		l.mutex.Lock()
		busy := l.sights[types.NamespacedName{Name: name}].looking
		l.mutex.Unlock()
		if !busy {
			return
		}
		select {
		case <-deadline:
			t.Fatal("the look does not end")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestLookoutNeverKeepsAReconcileWaiting(t *testing.T) {
	l := newLooking()
	first := ironicapi.Endpoint{URL: "https://192.0.2.2:6385/v1/", Username: "a", Password: "b"}
	for range 3 {
		if seen, known := l.see("a", first); known {
			t.Fatalf("got %+v before anybody answered", seen)
		}
	}
	if diff := cmp.Diff(first, <-l.asked); diff != "" {
		t.Errorf("another endpoint is asked:\n%s", diff)
	}
	// Another cluster does not wait for this one.
	l.see("b", first)
	<-l.asked
	answer := ironicapi.Observation{Answer: ironicapi.Answers, Conductors: []string{"c1-a"}}
	l.answers <- answer
	l.answers <- answer
	<-l.news
	<-l.news
	seen, known := l.see("a", first)
	if diff := cmp.Diff(answer, seen); diff != "" || !known {
		t.Errorf("known: %t, -want +got:\n%s", known, diff)
	}
}

func TestLookoutLooksOnceAnInterval(t *testing.T) {
	l := newLooking()
	endpoint := ironicapi.Endpoint{URL: "https://192.0.2.2:6385/v1/"}
	same := ironicapi.Observation{Answer: ironicapi.Unreachable, Detail: "nobody"}
	l.see("a", endpoint)
	<-l.asked
	l.answers <- same
	l.woken(t, "a")
	l.settled(t, "a")
	l.see("a", endpoint)
	select {
	case <-l.asked:
		t.Error("the result of a look begins the next one")
	case <-time.After(50 * time.Millisecond):
	}
	l.clock.SetTime(l.clock.Now().Add(testInterval))
	if _, known := l.see("a", endpoint); !known {
		t.Error("the last result is gone while the next look runs")
	}
	<-l.asked
	l.answers <- same
	l.settled(t, "a")
	l.clock.SetTime(l.clock.Now().Add(testInterval))
	l.see("a", endpoint)
	<-l.asked
	l.answers <- ironicapi.Observation{Answer: ironicapi.Answers}
	l.woken(t, "a")
	select {
	case <-l.news:
		t.Error("the same result wakes the cluster")
	default:
	}
}

func TestLookoutAsksForEverythingNowAndThen(t *testing.T) {
	l := newLooking()
	l.rest = time.Second
	endpoint := ironicapi.Endpoint{URL: "https://192.0.2.2:6385/v1/"}
	for step, tc := range []struct {
		after      time.Duration
		eager      bool
		everything bool
	}{
		{0, false, true}, {time.Second, false, false}, {time.Second, true, true}, {8 * time.Second, false, false},
		{2 * time.Second, false, true}, {time.Second, false, false},
	} {
		l.clock.SetTime(l.clock.Now().Add(tc.after))
		l.eager = tc.eager
		l.see("a", endpoint)
		<-l.asked
		if everything := l.last == nil; everything != tc.everything {
			t.Errorf("step %d: asks for everything: %v, want %v", step, everything, tc.everything)
		}
		l.answers <- ironicapi.Observation{Answer: ironicapi.Answers}
		l.settled(t, "a")
	}
}

func TestLookoutForgetsAnotherEndpoint(t *testing.T) {
	l := newLooking()
	before := ironicapi.Endpoint{URL: "https://192.0.2.2:6385/v1/", Authority: []byte("a")}
	for name, after := range map[string]ironicapi.Endpoint{
		"URL":       {URL: "https://192.0.2.3:6385/v1/", Authority: []byte("a")},
		"Password":  {URL: before.URL, Password: "new", Authority: []byte("a")},
		"Authority": {URL: before.URL, Authority: []byte("b")},
		"Forgotten": before,
	} {
		l.see(name, before)
		<-l.asked
		l.answers <- ironicapi.Observation{Answer: ironicapi.Answers}
		l.woken(t, name)
		if name == "Forgotten" {
			l.Forget(types.NamespacedName{Name: name})
		}
		if seen, known := l.see(name, after); known {
			t.Errorf("%s: got %+v of another endpoint", name, seen)
		}
		<-l.asked
		l.answers <- ironicapi.Observation{Answer: ironicapi.Answers}
		l.woken(t, name)
	}
}

func TestAnIncompleteEndpointIsNoIronic(t *testing.T) {
	seen := AskIronic(
		context.Background(), ironicapi.Endpoint{URL: "https://192.0.2.2:6385/v1/", Password: "do-not-tell"}, nil)
	if seen.Answer != ironicapi.Broken || seen.Detail == "" {
		t.Errorf("got %+v", seen)
	}
}

// TestAnswersAreTheSameOnBothFloors holds the kinds of the judge against those of the client.
func TestAnswersAreTheSameOnBothFloors(t *testing.T) {
	pairs := map[ironicapi.Answer]pivot.Answer{
		ironicapi.Answers: pivot.Answers, ironicapi.Unreachable: pivot.Unreachable, ironicapi.Untrusted: pivot.Untrusted,
		ironicapi.Unauthorized: pivot.Unauthorized, ironicapi.Broken: pivot.Broken, ironicapi.Unsupported: pivot.Unsupported,
	}
	for asked, judged := range pairs {
		if string(asked) != string(judged) {
			t.Errorf("the client says %q, the judge knows %q", asked, judged)
		}
	}
}
