package move_test

import (
	"context"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
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

// describeStories plays stories at the same time. Most of each is waiting: for clusterctl, which asks for one thing
// after the other and looks again after five seconds, and for hosts to stay as they are. Those that disturb nobody else
// go on beside one another; those that kill managers or cut lines take turns, in clusters of their own.
func describeStories(whole, broken, released *clusters) {
	It("moves whatever there is, whatever happens", func(ctx context.Context) {
		together(
			func() {
				whole.beside(ctx, slices.Concat(undisturbed(whole), survival(whole), directories(whole),
					[]story{belongingsMove(whole), killedWhileWaiting(whole)}))
				whole.inTurn(ctx, []story{chaos(whole)})
			},
			func() {
				stories := chosen(slices.Concat(givingUp(broken), outages(broken), endpoints(broken)))
				if len(stories) > 0 {
					broken.open(ctx)
					broken.inTurn(ctx, stories)
				}
			},
			func() {
				stories := chosen(ofBMO(released))
				if len(stories) > 0 {
					released.openWithBMO(ctx)
					released.beside(ctx, stories)
				}
			},
		)
	})
}

// beside plays stories at the same time. None of them may disturb another one.
func (c *clusters) beside(ctx context.Context, stories []story) {
	GinkgoHelper()
	turns := make(chan struct{}, besideLimit)
	var parts []func()
	for _, one := range chosen(stories) {
		parts = append(parts, func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			one.tell(ctx)
		})
	}
	together(parts...)
	c.tellManagers(false)
}

// inTurn plays stories one after the other, and mends before each what the one before has broken.
func (c *clusters) inTurn(ctx context.Context, stories []story) {
	GinkgoHelper()
	for _, one := range chosen(stories) {
		c.heal(ctx)
		one.tell(ctx)
		c.tellManagers(false)
	}
}

func chosen(stories []story) []story {
	wanted := regexp.MustCompile(*only)
	return slices.DeleteFunc(stories, func(one story) bool { return !wanted.MatchString(one.name) })
}

// tell plays the story, and names it if it fails. Its host operators end with it.
func (s story) tell(ctx context.Context) {
	GinkgoHelper()
	ctx, end := context.WithCancel(ctx)
	defer end()
	began, told := time.Now(), false
	defer func() {
		if !told {
			AddReportEntry("a story that has failed", s.name)
		}
	}()
	By(s.name)
	s.play(ctx)
	told = true
	GinkgoWriter.Printf("told after %.1f s: %s\n", time.Since(began).Seconds(), s.name)
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
