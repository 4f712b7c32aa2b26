package flow

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

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
		maps.Equal(before.GetLabels(), after.GetLabels()) &&
		maps.Equal(before.GetAnnotations(), after.GetAnnotations()) &&
		slices.Equal(before.GetFinalizers(), after.GetFinalizers()) &&
		equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences())
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
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// OnlyCreates passes only creations.
func OnlyCreates() predicate.Funcs {
	return predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
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
