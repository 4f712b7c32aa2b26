package flow

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
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

// Requests returns a request for each object of a cached list. It ignores errors, which occur only while the manager
// stops.
func Requests(ctx context.Context, cache client.Reader, list client.ObjectList, options ...client.ListOption,
) []ctrl.Request {
	if err := cache.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil
	}
	var requests []ctrl.Request
	// EachListItem fails only for a type without items.
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if object, isObject := item.(client.Object); isObject {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)})
		}
		return nil
	})
	return requests
}
