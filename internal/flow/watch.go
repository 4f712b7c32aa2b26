package flow

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Second is the usual delay of Gather.
func Second(types.NamespacedName) time.Duration { return time.Second }

// Gather enqueues each object of an event after a delay, which merges the events in this time. It is for reconciles
// that read all objects of a namespace.
func Gather(delay func(types.NamespacedName) time.Duration, toRequests handler.MapFunc) handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]
	enqueue := func(ctx context.Context, object client.Object, q queue) {
		for _, request := range toRequests(ctx, object) {
			q.AddAfter(request, delay(request.NamespacedName))
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { enqueue(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, e.Object, q) },
	}
}

// Map returns a handler that enqueues the requests for each object of an event. It ignores objects of another kind.
func Map[T client.Object](toRequests func(ctx context.Context, object T) []ctrl.Request) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []ctrl.Request {
		if typed, isKind := object.(T); isKind {
			return toRequests(ctx, typed)
		}
		return nil
	})
}

// MapKey returns a handler that enqueues the requests for the key in each object of an event. For an update that keeps
// the key, it calls toRequests once.
func MapKey(
	keyOf func(client.Object) client.ObjectKey, toRequests func(context.Context, client.ObjectKey) []ctrl.Request,
) handler.EventHandler {
	all := Map(func(ctx context.Context, o client.Object) []ctrl.Request { return toRequests(ctx, keyOf(o)) })
	update := func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
		if keyOf(e.ObjectOld) == keyOf(e.ObjectNew) {
			e.ObjectOld = nil
		}
		all.Update(ctx, e, q)
	}
	return handler.Funcs{CreateFunc: all.Create, UpdateFunc: update, DeleteFunc: all.Delete}
}

// Request returns the request for an object. It returns none for an empty name.
func Request(namespace, name string) []ctrl.Request {
	if name == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}}
}

// Requests returns a request for each object of a cached list. It ignores errors, which occur only while the manager
// stops.
func Requests(ctx context.Context, cache client.Reader, list client.ObjectList, options ...client.ListOption,
) []ctrl.Request {
	return RequestsIf(ctx, cache, list, func(client.Object) bool { return true }, options...)
}

// RequestsIf returns a request for each object of a cached list for which wanted returns true.
func RequestsIf[T client.Object](ctx context.Context, cache client.Reader, list client.ObjectList, wanted func(T) bool,
	options ...client.ListOption,
) []ctrl.Request {
	if err := cache.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil
	}
	var objects []T
	// EachListItem fails only for a type without items.
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if object, isKind := item.(T); isKind {
			objects = append(objects, object)
		}
		return nil
	})
	return RequestsFor(objects, wanted)
}

// RequestsFor returns a request for each object for which wanted returns true.
func RequestsFor[T client.Object](objects []T, wanted func(T) bool) []ctrl.Request {
	var requests []ctrl.Request
	for _, object := range objects {
		if wanted(object) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)})
		}
	}
	return requests
}

// NotOnlyStatus drops updates that changed only the status, so that the status writes of a controller do not enqueue
// the object. It passes the periodic resync.
func NotOnlyStatus() predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() ||
			!sameButStatus(e.ObjectOld, e.ObjectNew)
	}}
}

func sameButStatus(before, after client.Object) bool {
	return before.GetGeneration() == after.GetGeneration() &&
		before.GetUID() == after.GetUID() &&
		before.GetDeletionTimestamp().IsZero() == after.GetDeletionTimestamp().IsZero() &&
		sameMetadata(before, after)
}

func sameMetadata(before, after client.Object) bool {
	return maps.Equal(before.GetLabels(), after.GetLabels()) &&
		maps.Equal(before.GetAnnotations(), after.GetAnnotations()) && sameLists(before, after)
}

func sameLists(a, b client.Object) bool {
	return slices.Equal(a.GetFinalizers(), b.GetFinalizers()) && same(a.GetOwnerReferences(), b.GetOwnerReferences())
}

// Updates drops updates, including the periodic resync, unless matters returns true. It passes all other events.
func Updates[T client.Object](matters func(before, after T) bool) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isKind := e.ObjectOld.(T)
		after, stillKind := e.ObjectNew.(T)
		return isKind && stillKind && matters(before, after)
	}}
}

// OnlyDeletes passes only deletions.
func OnlyDeletes() predicate.Funcs {
	passes := predicate.NewPredicateFuncs(func(client.Object) bool { return false })
	passes.DeleteFunc = nil
	return passes
}

// OnlyCreates passes only creations.
func OnlyCreates() predicate.Funcs {
	passes := predicate.NewPredicateFuncs(func(client.Object) bool { return false })
	passes.CreateFunc = nil
	return passes
}

// ComesOrGoes drops updates.
func ComesOrGoes() predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}

// ComesOrLeaves passes creations, deletions, and updates that set the deletionTimestamp or replace the object.
func ComesOrLeaves() predicate.Funcs {
	return Updates(func(before, after client.Object) bool {
		return before.GetUID() != after.GetUID() ||
			before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
	})
}
