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

// besideLimit is the number of stories that run at the same time on the same clusters. More stories would wait for
// processors, and not for clusterctl.
const besideLimit = 3

// story is a test in a namespace of its own.
type story struct {
	name string
	play func(ctx context.Context)
}

// atNight leaves a story to the nightly tests, unless its name is selected. In the short tests another layer, or the
// chaos, covers the behaviour, as CONTRIBUTING.md says.
func (s story) atNight() story {
	if !testing.Short() || *only != "" {
		return s
	}
	return story{s.name, func(context.Context) { panic(skipped("the nightly tests play this story")) }}
}

// describeStories has one spec for each story. The stories run before the first spec, at the same time, and the specs
// report their results. Most of the time, a story waits: for clusterctl, which sends one request after the other and
// polls every five seconds, and for hosts that must not change. Stories that disturb no other story run in parallel.
// Stories that kill programs or cut connections run one after the other, in clusters of their own. So do stories that
// start another BMO or an Ironic endpoint.
func describeStories(whole *clusters) {
	broken, replaced := &clusters{}, &clusters{}
	quietly := chosen(slices.Concat(undisturbed(whole), addressed(whole), unfinished(whole), inspectedAgain(whole),
		[]story{belongingsMove(whole), killedWhileWaiting(whole), simulated(whole)}))
	// An Ironic endpoint serves the hosts of other namespaces, which wait for it in the target. So the stories with an
	// endpoint run last.
	later := chosen(slices.Concat([]story{chaos(whole)}, directories(whole), survival(whole),
		[]story{chaosOfHandovers(whole).atNight()}))
	breaking := chosen(slices.Concat(
		givingUp(broken), outages(broken), byPlugin(broken), late(broken), leftBehind(broken)))
	replacing := chosen(slices.Concat(
		laterReleases(replaced), builtImages(replaced), endpoints(replaced), fences(replaced)))
	told := &endings{}

	BeforeAll(func(ctx context.Context) {
		RegisterFailHandler(endStory)
		defer RegisterFailHandler(Fail)
		apart := func(c *clusters, stories []story) func() {
			return func() {
				if len(stories) > 0 {
					c.open(ctx)
					c.inTurn(ctx, told, stories)
				}
			}
		}
		together(
			func() {
				whole.beside(ctx, told, quietly)
				whole.inTurn(ctx, told, later)
			},
			apart(broken, breaking),
			apart(replaced, replacing),
		)
	})

	for _, one := range slices.Concat(quietly, later, breaking, replacing) {
		It(one.name, func() { told.of(one) })
	}
}

// endings has the results of stories.
type endings struct {
	mutex sync.Mutex
	all   map[string]ending
}

// ending is the result of a story: nil, failed, skipped, or the value of another panic.
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

// Panics that end a story: failed is a failed assertion, skipped is the reason why the story cannot run here.
type (
	failed  string
	skipped string
)

// endStory is the fail handler while stories run at the same time: a failure belongs to the story of its goroutine, and
// not to the current spec.
func endStory(message string, skip ...int) {
	panic(failed(types.NewCodeLocation(1+append(skip, 0)[0]).String() + ":\n" + message))
}

// beside runs stories at the same time. No story may disturb another one.
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

// inTurn runs stories one after the other, and repairs before each story what the previous one has broken.
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

// play runs a story, and keeps its result.
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

// reason runs the story and returns why it ended early. Nil means that it ran to its end.
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

// together runs functions at the same time, and fails if one of them has failed.
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
