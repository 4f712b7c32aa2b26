package metal3cluster

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// eventsBuffer is the number of Metal3Clusters that can wait to be enqueued. If the buffer is full, the next reconcile
// reads the result.
const eventsBuffer = 1024

// prober observes state outside of the API server of the management cluster: one target T for each Metal3Cluster, with
// a result R. It ticks in a goroutine of the manager and probes each target in a separate goroutine. A target that does
// not answer therefore blocks no reconcile and no other target. It enqueues a Metal3Cluster only when its result
// changes.
//
//	event             effect
//	Track             the target is probed at the next tick, or at once if it is new or has changed
//	result differs    the Metal3Cluster is enqueued
//	Pause             no probes until the next Track; the last result stays
//	Forget            target and result are removed
type prober[T, R any] struct {
	probing[T, R]

	clock clock.WithTicker
	// interval is the time between two ticks.
	interval time.Duration
	// events enqueues Metal3Clusters. A value in early makes the prober tick at once.
	events chan event.GenericEvent
	early  chan struct{}

	mutex   sync.Mutex
	targets map[types.NamespacedName]*probed[T, R]
}

// probing has the functions and settings of a kind of prober.
type probing[T, R any] struct {
	// probe observes a target. Last is the last result for the same target, nil if there is none.
	probe func(ctx context.Context, cluster types.NamespacedName, target T, last *R) R

	// isSame returns true if the last result of a target is valid for another target. IsUrgent returns true if a target
	// must be probed at once despite a valid result.
	isSame, isUrgent func(before, after T) bool

	// differs returns true if a result must enqueue the Metal3Cluster.
	differs func(before, after R) bool

	// delay returns the time until the next probe. Zero probes at the next tick, as does nil.
	delay func(result R) time.Duration

	// limit is the time limit of a probe.
	limit time.Duration
}

// probed is the state of one target.
type probed[T, R any] struct {
	target T

	// result is the last result. Nil before the first one.
	result *R

	// due is the time of the next probe. The zero time means at once.
	due time.Time

	// isRunning is true while a probe runs, and isPaused while no probe may begin.
	isRunning, isPaused bool
}

func newProber[T, R any](how probing[T, R], now clock.WithTicker, interval time.Duration) *prober[T, R] {
	return &prober[T, R]{
		probing: how, clock: now, interval: interval, events: make(chan event.GenericEvent, eventsBuffer),
		early: make(chan struct{}, 1), targets: map[types.NamespacedName]*probed[T, R]{},
	}
}

// Start probes until the context ends. It implements manager.Runnable.
func (p *prober[T, R]) Start(ctx context.Context) error {
	ticker := p.clock.NewTicker(p.interval)
	defer ticker.Stop()
	p.tick(ctx, false)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.early:
			p.tick(ctx, true)
		case <-ticker.C():
			p.tick(ctx, false)
		}
	}
}

// tick begins the probes that are due. Between two intervals, these are only the probes of new and urgent targets.
func (p *prober[T, R]) tick(ctx context.Context, isBetween bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for cluster, current := range p.targets {
		isLater := isBetween && !current.due.IsZero() || p.clock.Now().Before(current.due)
		if current.isRunning || current.isPaused || isLater {
			continue
		}
		current.isRunning, current.due = true, p.clock.Now()
		go p.run(ctx, cluster, current, current.target, current.result)
	}
}

// run probes once. If the target was replaced in the meantime, no reconcile reads the result.
func (p *prober[T, R]) run(
	ctx context.Context, cluster types.NamespacedName, current *probed[T, R], target T, last *R,
) {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	began := p.clock.Now()
	result := p.probe(ctx, cluster, target, last)
	p.mutex.Lock()
	isChange := last == nil || p.differs(*last, result)
	current.result, current.isRunning = &result, false
	if !current.due.IsZero() && p.delay != nil {
		current.due = began.Add(p.delay(result))
	}
	isKnown := p.targets[cluster] == current
	p.mutex.Unlock()
	if !isChange || !isKnown {
		return
	}
	changed := &infrav1.Metal3Cluster{}
	changed.Namespace, changed.Name = cluster.Namespace, cluster.Name
	select {
	case p.events <- event.GenericEvent{Object: changed}:
	default:
	}
}

// Track returns the last result for the target of a Metal3Cluster, and probes the target from now on. It returns false
// for a target that was never probed, or that replaces another one. It does not block.
func (p *prober[T, R]) Track(cluster types.NamespacedName, target T) (result R, known bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	current := p.targets[cluster]
	switch {
	case current == nil || !p.isSame(current.target, target):
		current = &probed[T, R]{}
		p.targets[cluster] = current
		p.tickNow()
	case current.isPaused || p.isUrgent(current.target, target):
		current.due = time.Time{}
		p.tickNow()
	}
	current.target, current.isPaused = target, false
	if current.result == nil {
		return result, false
	}
	return *current.result, true
}

// Last returns the last result for the target of a Metal3Cluster. It begins no probe.
func (p *prober[T, R]) Last(cluster types.NamespacedName, target T) (result R, known bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	current := p.targets[cluster]
	if current == nil || current.result == nil || !p.isSame(current.target, target) {
		return result, false
	}
	return *current.result, true
}

func (p *prober[T, R]) tickNow() {
	select {
	case p.early <- struct{}{}:
	default:
	}
}

// Pause keeps the last result of a Metal3Cluster and begins no probe until the next Track.
func (p *prober[T, R]) Pause(cluster types.NamespacedName) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if current := p.targets[cluster]; current != nil {
		current.isPaused = true
	}
}

// Forget removes the target and the result of a Metal3Cluster.
func (p *prober[T, R]) Forget(cluster types.NamespacedName) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.targets, cluster)
}
