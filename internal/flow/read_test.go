package flow_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func TestOpen(t *testing.T) {
	cases := map[string]struct {
		name, filter string
		annotation   string
		behind       bool
		want         flow.Presence
	}{
		"an object":                         {name: "machine-0", want: flow.Present},
		"an object with the label":          {name: "machine-0", filter: "ours", want: flow.Present},
		"none":                              {name: "other", want: flow.Gone},
		"an object of another manager":      {name: "machine-0", filter: "theirs", want: flow.Ignored},
		"an object that a move deletes":     {name: "machine-0", annotation: infrav1.DeleteForMoveAnnotation, want: flow.Ignored},
		"a copy from before the last write": {name: "machine-0", behind: true, want: flow.Behind},
		"that copy, of another manager":     {name: "machine-0", filter: "theirs", behind: true, want: flow.Ignored},
		"an object with another annotation": {name: "machine-0", annotation: "other", want: flow.Present},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, build.Labels(map[string]string{clusterv1.WatchLabel: "ours"}))
			if tc.annotation != "" {
				w.meanwhile(func(m *infrav1.Metal3Machine) { annotate(m, tc.annotation) })
			}
			reporter := &flow.Reporter{Client: w.Client, Recorder: w.events, WatchFilter: tc.filter}
			if tc.behind {
				old := w.stored()
				saveOwn(t, w, reporter)
				reporter.Client = interceptor.NewClient(w.others, interceptor.Funcs{Get: func(
					_ context.Context, _ client.WithWatch, _ client.ObjectKey, into client.Object, _ ...client.GetOption,
				) error {
					if machine, isMachine := into.(*infrav1.Metal3Machine); isMachine {
						old.DeepCopyInto(machine)
					}
					return nil
				}})
			}
			key := client.ObjectKey{Namespace: build.DefaultNamespace, Name: tc.name}
			pass, got, err := reporter.Open(context.Background(), key, &infrav1.Metal3Machine{}, nil)
			if err != nil || got != tc.want || (pass != nil) != (tc.want == flow.Present) {
				t.Errorf("got pass %v, presence %v, error %v, want presence %v", pass != nil, got, err, tc.want)
			}
			if again := got.Result().RequeueAfter; (again > 0) != (tc.want == flow.Behind) {
				t.Errorf("%v is reconciled again after %s", tc.want, again)
			}
		})
	}
}

func TestFind(t *testing.T) {
	w := newWorld(t)
	broken := interceptor.NewClient(w.others, interceptor.Funcs{Get: func(
		context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption,
	) error {
		return errors.New("no leader")
	}})
	cases := map[string]struct {
		reader    client.Reader
		name      string
		found     bool
		wantError string
	}{
		"an object": {reader: w.others, name: "machine-0", found: true},
		"none":      {reader: w.others, name: "other"},
		"no name":   {reader: broken, name: ""},
		"no answer": {reader: broken, name: "machine-0", wantError: "reading Metal3Machine machine-0: no leader"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			key := client.ObjectKey{Namespace: build.DefaultNamespace, Name: tc.name}
			found, err := flow.Find[infrav1.Metal3Machine](context.Background(), tc.reader, key)
			if (found != nil) != tc.found || (err == nil) != (tc.wantError == "") ||
				err != nil && !strings.Contains(err.Error(), tc.wantError) {
				t.Errorf("got %v, %v, want %t, %q", found, err, tc.found, tc.wantError)
			}
		})
	}
}

func TestPausedWithCluster(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	check := func(what string, want bool) {
		t.Helper()
		if got, err := flow.PausedWithCluster(ctx, w.others, w.stored()); (got != "") != want || err != nil {
			t.Errorf("%s: got %q, %v, want %t", what, got, err, want)
		}
	}
	check("no Cluster", false)
	if err := w.others.Create(ctx, build.Cluster("cluster-0", build.ClusterPaused())); err != nil {
		t.Fatal(err)
	}
	check("a paused Cluster", true)
}

// TestMap covers objects of another kind and objects without a name, which enqueue nothing.
func TestMap(t *testing.T) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	defer queue.ShutDown()
	toCluster := flow.Map(func(_ context.Context, cluster *clusterv1.Cluster) []ctrl.Request {
		return flow.Request(cluster.Namespace, cluster.Name)
	})
	for _, object := range []client.Object{build.Metal3Machine("m", "c"), build.Cluster(""), build.Cluster("c")} {
		toCluster.Create(t.Context(), event.CreateEvent{Object: object}, queue)
	}
	if queue.Len() == 0 {
		t.Fatal("nothing is enqueued")
	}
	if got, _ := queue.Get(); queue.Len() != 0 || got.Name != "c" {
		t.Errorf("got %v and %d more, want only the request for the Cluster", got, queue.Len())
	}
}

// TestMapKey counts how often an event determines requests, and expects those of the old and the new key.
func TestMapKey(t *testing.T) {
	type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]
	calls := 0
	toDomain := flow.MapKey(func(object client.Object) client.ObjectKey {
		return client.ObjectKey{Namespace: object.GetNamespace(), Name: object.GetLabels()["domain"]}
	}, func(_ context.Context, key client.ObjectKey) []ctrl.Request {
		calls++
		return flow.Request(key.Namespace, key.Name)
	})
	in := func(domain string) client.Object {
		return build.Metal3Machine("m", "c", build.Labels(map[string]string{"domain": domain}))
	}
	for name, tc := range map[string]struct {
		handle func(q queue)
		calls  int
		want   []string
	}{
		"Created": {
			func(q queue) { toDomain.Create(t.Context(), event.CreateEvent{Object: in("a")}, q) }, 1, []string{"a"},
		},
		"Updated": {func(q queue) {
			toDomain.Update(t.Context(), event.UpdateEvent{ObjectOld: in("a"), ObjectNew: in("a")}, q)
		}, 1, []string{"a"}},
		"Moved": {func(q queue) {
			toDomain.Update(t.Context(), event.UpdateEvent{ObjectOld: in("a"), ObjectNew: in("b")}, q)
		}, 2, []string{"a", "b"}},
		"Deleted": {
			func(q queue) { toDomain.Delete(t.Context(), event.DeleteEvent{Object: in("a")}, q) }, 1, []string{"a"},
		},
	} {
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
		calls = 0
		tc.handle(q)
		var got []string
		for q.Len() > 0 {
			request, _ := q.Get()
			got = append(got, request.Name)
		}
		q.ShutDown()
		slices.Sort(got)
		if !slices.Equal(got, tc.want) || calls != tc.calls {
			t.Errorf("%s: got %v after %d calls, want %v after %d", name, got, calls, tc.want, tc.calls)
		}
	}
}

func TestPredicates(t *testing.T) {
	now := metav1.Unix(1_700_000_000, 0)
	before := build.Metal3Machine("m", "c")
	changed, leaving, another := before.DeepCopy(), before.DeepCopy(), before.DeepCopy()
	changed.Generation++
	leaving.DeletionTimestamp, another.UID = &now, "2"
	for name, tc := range map[string]struct {
		predicate predicate.Funcs
		// want is what passes: new, changed, leaving, another object in its place, gone.
		want [5]bool
	}{
		"OnlyCreates":   {flow.OnlyCreates(), [5]bool{true}},
		"OnlyDeletes":   {flow.OnlyDeletes(), [5]bool{4: true}},
		"ComesOrGoes":   {flow.ComesOrGoes(), [5]bool{0: true, 4: true}},
		"ComesOrLeaves": {flow.ComesOrLeaves(), [5]bool{0: true, 2: true, 3: true, 4: true}},
	} {
		got := [5]bool{
			tc.predicate.Create(event.CreateEvent{Object: before}),
			tc.predicate.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: changed}),
			tc.predicate.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: leaving}),
			tc.predicate.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: another}),
			tc.predicate.Delete(event.DeleteEvent{Object: before}),
		}
		if got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}
