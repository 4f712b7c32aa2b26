package move_test

import (
	"context"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
)

// besideLimit is how many stories are played at the same time on the same clusters. More of them would wait for
// processors, and not for clusterctl.
const besideLimit = 3

// story is one that is told in a namespace of its own.
type story struct {
	name string
	play func(ctx context.Context)
}

// atNight leaves a story to the nightly tests, unless it is chosen by its name. In the short tests another layer, or the chaos,
// covers what it shows, as CONTRIBUTING.md says.
func (s story) atNight() story {
	if !testing.Short() || *only != "" {
		return s
	}
	return story{s.name, func(context.Context) { panic(skipped("the nightly tests play this story")) }}
}

// describeStories has one spec for each story. The stories are played before the first spec, at the same time, and the
// specs say how each ended. Most of each is waiting: for clusterctl, which asks for one thing after the other and looks
// again after five seconds, and for hosts to stay as they are. Those that disturb no other story run in parallel;
// those that kill managers or cut lines take turns, in clusters of their own.
func describeStories(whole, broken *clusters) {
	quietly := chosen(slices.Concat(undisturbed(whole), addressed(whole), unfinished(whole),
		[]story{belongingsMove(whole), killedWhileWaiting(whole), simulated(whole)}))
	// An Ironic endpoint serves the hosts of other namespaces, and they wait for it where they arrive. So the stories with
	// an endpoint are the last.
	later := chosen(slices.Concat([]story{chaos(whole)}, directories(whole), survival(whole),
		[]story{chaosOfHandovers(whole).atNight()}))
	breaking := chosen(slices.Concat(givingUp(broken), outages(broken), byPlugin(broken), late(broken), leftBehind(broken),
		laterReleases(broken), endpoints(broken), fences(broken)))
	told := &endings{}

	BeforeAll(func(ctx context.Context) {
		RegisterFailHandler(endStory)
		defer RegisterFailHandler(Fail)
		together(
			func() {
				whole.beside(ctx, told, quietly)
				whole.inTurn(ctx, told, later)
			},
			func() {
				if len(breaking) > 0 {
					broken.open(ctx)
					broken.inTurn(ctx, told, breaking)
				}
			},
		)
	})

	for _, one := range slices.Concat(quietly, later, breaking) {
		It(one.name, func() { told.of(one) })
	}
}

// endings says how stories ended.
type endings struct {
	mutex sync.Mutex
	all   map[string]ending
}

// ending is how a story ended: nil, failed, skipped, or the value of another panic.
type ending struct {
	reason any
	took   time.Duration
}

// of fails the spec of a story that has failed.
func (e *endings) of(one story) {
	GinkgoHelper()
	e.mutex.Lock()
	defer e.mutex.Unlock()
	ended, told := e.all[one.name]
	Expect(told).To(BeTrue(), "the story was not played")
	AddReportEntry("played after the first spec began, in", ended.took.Round(time.Millisecond).String())
	switch reason := ended.reason.(type) {
	case nil:
	case skipped:
		Skip(string(reason))
	default:
		Fail(fmt.Sprint(reason))
	}
}

// Panics that end a story: failed is an assertion that does not hold, skipped says why the story cannot be played here.
type (
	failed  string
	skipped string
)

// endStory is the fail handler while stories are played at the same time: a failure belongs to the story of its
// goroutine, and not to the spec that runs.
func endStory(message string, skip ...int) {
	panic(failed(types.NewCodeLocation(1+append(skip, 0)[0]).String() + ":\n" + message))
}

// beside plays stories at the same time. None of them may disturb another one.
func (c *clusters) beside(ctx context.Context, told *endings, stories []story) {
	GinkgoHelper()
	turns := make(chan struct{}, besideLimit)
	var parts []func()
	for _, one := range stories {
		parts = append(parts, func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			told.play(ctx, one)
		})
	}
	together(parts...)
	c.tellManagers(false)
}

// inTurn plays stories one after the other, and mends before each what the one before has broken.
func (c *clusters) inTurn(ctx context.Context, told *endings, stories []story) {
	GinkgoHelper()
	for _, one := range stories {
		c.heal(ctx)
		told.play(ctx, one)
		c.tellManagers(false)
	}
}

func chosen(stories []story) []story {
	wanted := regexp.MustCompile(*only)
	return slices.DeleteFunc(stories, func(one story) bool { return !wanted.MatchString(one.name) })
}

// play plays a story, and keeps how it ended.
func (e *endings) play(ctx context.Context, one story) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	began := time.Now()
	By(one.name)
	reason := one.reason(ctx)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.all == nil {
		e.all = map[string]ending{}
	}
	e.all[one.name] = ending{reason: reason, took: time.Since(began)}
}

// reason plays the story and returns why it ended early. Nil means that it was told to its end.
func (s story) reason(ctx context.Context) (reason any) {
	defer func() {
		reason = recover()
		switch reason.(type) {
		case nil, failed, skipped:
		default:
			reason = fmt.Sprintf("panic: %v\n%s", reason, debug.Stack())
		}
	}()
	s.play(ctx)
	return nil
}

// together does several things at the same time, and fails if one of them has failed.
func together(parts ...func()) {
	GinkgoHelper()
	var failed atomic.Bool
	var doing sync.WaitGroup
	for _, part := range parts {
		doing.Go(func() {
			defer GinkgoRecover()
			done := false
			defer func() {
				if !done {
					failed.Store(true)
				}
			}()
			part()
			done = true
		})
	}
	doing.Wait()
	Expect(failed.Load()).To(BeFalse(), "one of the parts has failed")
}
