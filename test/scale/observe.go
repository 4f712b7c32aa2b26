package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// observer watches objects. It watches only the tracked kinds, because every watch costs processor time of the API
// server.
type observer struct{ cache cache.Cache }

func newObserver(ctx context.Context, config *rest.Config) (*observer, error) {
	created, err := cache.New(config, cache.Options{
		Scheme:            build.Scheme(),
		DefaultNamespaces: map[string]cache.Config{build.DefaultNamespace: {}},
		DefaultTransform:  cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("watching objects: %w", err)
	}
	go func() { _ = created.Start(ctx) }()
	return &observer{cache: created}, nil
}

// tracker records when the wanted number of objects matches.
type tracker struct {
	what  string
	want  int
	holds func(client.Object) bool

	mu    sync.Mutex
	names map[string]bool
	// armed is true once the initial objects were counted.
	armed   bool
	reached time.Time
	done    chan struct{}
}

func newTracker(what string, want int, holds func(client.Object) bool) *tracker {
	return &tracker{what: what, want: want, holds: holds, names: map[string]bool{}, done: make(chan struct{})}
}

// track follows all objects of a kind. It returns after it has counted the initial ones.
func (o *observer) track(ctx context.Context, kind client.Object, tracker *tracker) error {
	informer, err := o.cache.GetInformer(ctx, kind)
	if err != nil {
		return fmt.Errorf("watching %T: %w", kind, err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    tracker.see,
		UpdateFunc: func(_, object any) { tracker.see(object) },
		DeleteFunc: tracker.lose,
	})
	if err != nil {
		return fmt.Errorf("watching %T: %w", kind, err)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return fmt.Errorf("watching %T: %w", kind, context.Cause(ctx))
	}
	tracker.arm()
	return nil
}

func (t *tracker) see(object any) {
	if object, isObject := object.(client.Object); isObject {
		t.note(object.GetName(), t.holds(object))
	}
}

func (t *tracker) lose(object any) {
	if tombstone, isTombstone := object.(toolscache.DeletedFinalStateUnknown); isTombstone {
		object = tombstone.Obj
	}
	if object, isObject := object.(client.Object); isObject {
		t.note(object.GetName(), false)
	}
}

func (t *tracker) note(name string, holds bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if holds {
		t.names[name] = true
	} else {
		delete(t.names, name)
	}
	t.check()
}

func (t *tracker) arm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = true
	t.check()
}

// check requires the lock.
func (t *tracker) check() {
	if t.armed && t.reached.IsZero() && len(t.names) == t.want {
		t.reached = time.Now()
		close(t.done)
	}
}

// wait blocks until the number is reached and returns the time.
func (t *tracker) wait(ctx context.Context) (time.Time, error) {
	select {
	case <-t.done:
		return t.reached, nil
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		return time.Time{}, errors.Join(fmt.Errorf("waiting for %s: %d, want %d", t.what, len(t.names), t.want), ctx.Err())
	}
}
