package guard_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// activeInterval is the resolution of the times in which an Ironic is active.
const activeInterval = 2 * time.Millisecond

// activity continuously records which Ironics of some nodes are active.
type activity struct {
	census

	// stalled are nodes whose processes the test has stopped.
	stalled sync.Map
}

// takeActivity records until the test ends. An Ironic is active while it can use a BMC: its node has had the VIP
// since its container started, so clients may have registered nodes, and one of its processes is running.
func (l *lab) takeActivity(tb testing.TB, nodes ...*node) *activity {
	tb.Helper()
	a := &activity{census: census{every: activeInterval}}
	stop := make(chan struct{})
	var observers sync.WaitGroup
	for _, n := range nodes {
		var pids atomic.Pointer[[]int]
		pids.Store(&[]int{})
		observers.Go(func() { every(100*time.Millisecond, stop, func() { found := n.kubelet.ironics(); pids.Store(&found) }) })
		observers.Go(func() {
			every(activeInterval, stop, func() {
				_, isStalled := a.stalled.Load(n.name)
				acts := func(pid int) bool { return !hasStopped(pid) && !isDying(pid) }
				if isStalled || !n.kubelet.served() || !slices.ContainsFunc(*pids.Load(), acts) {
					return
				}
				a.mutex.Lock()
				defer a.mutex.Unlock()
				a.claims = append(a.claims, claim{time.Now(), n.name})
			})
		})
	}
	tb.Cleanup(func() {
		close(stop)
		observers.Wait()
	})
	return a
}

// every calls the function at an interval until the channel is closed.
func every(interval time.Duration, stop <-chan struct{}, do func()) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticks.C:
			do()
		}
	}
}

// served returns true if the VIP was on the node during the life of the running container.
func (k *kubelet) served() bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.held || k.heldIn == k.starts && k.starts > 0
}
