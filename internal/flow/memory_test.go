package flow_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func TestMemory(t *testing.T) {
	w := newWorld(t)
	reporter := &flow.Reporter{Client: w.Client, Recorder: w.events}
	memory := &reporter.Memory
	old := w.stored()
	if memory.Behind(old) {
		t.Error("an object that was never written is behind")
	}
	machine := w.stored()
	pass := reporter.Begin(machine, nil)
	annotate(machine, "key")
	if _, err := pass.End(context.Background(), outcome.Done(), nil, addresses(machine)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !memory.Behind(old) {
			t.Error("an older copy than the own write is not behind")
		}
	}
	if memory.Behind(w.stored()) {
		t.Error("the copy of the own last write is behind")
	}
	if memory.Behind(old) {
		t.Error("the memory still holds a write that the cache showed")
	}
}

func TestMemoryAndOtherWriters(t *testing.T) {
	w := newWorld(t)
	reporter := &flow.Reporter{Client: w.Client, Recorder: w.events}
	memory := &reporter.Memory
	old := w.stored()
	saveOwn(t, w, reporter)
	unreadable := old.DeepCopy()
	unreadable.ResourceVersion = "not a number"
	other := old.DeepCopy()
	other.Name = "other"
	if memory.Behind(other) {
		t.Error("another object is behind")
	}
	if memory.Behind(unreadable) {
		t.Error("an invalid version is behind")
	}
	w.meanwhile(func(m *infrav1.Metal3Machine) { annotate(m, "other") })
	if memory.Behind(w.stored()) {
		t.Error("a copy that is newer than the own write is behind")
	}

	memory.Forget(client.ObjectKeyFromObject(old))
	if memory.Behind(old) {
		t.Error("a forgotten object is behind")
	}
}

func TestMemoryOfADeletedObject(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, build.Finalizers(ours), build.ObjectOption(func(o metav1.Object) { o.SetUID("first") }))
	reporter := &flow.Reporter{Client: w.Client, Recorder: w.events}
	memory := &reporter.Memory
	if err := w.others.Delete(ctx, w.stored()); err != nil {
		t.Fatal(err)
	}
	machine := w.stored()
	old := machine.DeepCopy()
	pass := reporter.Begin(machine, nil)
	controllerutil.RemoveFinalizer(machine, ours)
	if _, err := pass.End(ctx, outcome.Done(), nil, func() {}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !memory.Behind(old) {
			t.Error("a cached copy of the deleted object is not behind")
		}
	}
	next := old.DeepCopy()
	next.UID = "second"
	if memory.Behind(next) {
		t.Error("a new object with the same name is behind")
	}
}

func TestMemoryEndsForAnOlderAPIServer(t *testing.T) {
	w := newWorld(t)
	reporter := &flow.Reporter{Client: w.Client, Recorder: w.events}
	memory := &reporter.Memory
	old := w.stored()
	saveOwn(t, w, reporter)
	const limit = 1000
	for range limit {
		if !memory.Behind(old) {
			return
		}
	}
	t.Errorf("a copy from a restored API server is behind %d times", limit)
}

// saveOwn writes the machine once, as a reconcile does.
func saveOwn(t *testing.T, w *world, reporter *flow.Reporter) {
	t.Helper()
	machine := w.stored()
	pass := reporter.Begin(machine, nil)
	annotate(machine, "key")
	if err := pass.Save(context.Background()); err != nil {
		t.Fatal(err)
	}
}
