package controllers_test

import (
	"context"
	"testing"

	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3data"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3dataclaim"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3datatemplate"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// TestWatchFilter reconciles objects of another manager. Their events are not filtered.
func TestWatchFilter(t *testing.T) {
	type reconcile = func(context.Context, ctrl.Request) (ctrl.Result, error)
	reporter := func(c client.Client) flow.Reporter {
		return flow.Reporter{Client: c, Recorder: events.NewFakeRecorder(10), WatchFilter: "mine"}
	}
	for name, tc := range map[string]struct {
		object    client.Object
		reconcile func(client.Client) reconcile
	}{
		"Metal3Data": {&infrav1.Metal3Data{}, func(c client.Client) reconcile {
			return (&metal3data.Reconciler{Reporter: reporter(c)}).Reconcile
		}},
		"Metal3DataClaim": {&infrav1.Metal3DataClaim{}, func(c client.Client) reconcile {
			return (&metal3dataclaim.Reconciler{Reporter: reporter(c)}).Reconcile
		}},
		"Metal3DataTemplate": {&infrav1.Metal3DataTemplate{}, func(c client.Client) reconcile {
			return (&metal3datatemplate.Reconciler{Reporter: reporter(c)}).Reconcile
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.object.SetNamespace(build.DefaultNamespace)
			tc.object.SetName("object")
			tc.object.SetLabels(map[string]string{clusterv1.WatchLabel: "theirs"})
			stored := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(tc.object).Build()
			key := client.ObjectKeyFromObject(tc.object)
			if err := stored.Get(t.Context(), key, tc.object); err != nil {
				t.Fatal(err)
			}
			before := tc.object.GetResourceVersion()
			if _, err := tc.reconcile(stored)(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			if err := stored.Get(t.Context(), key, tc.object); err != nil || tc.object.GetResourceVersion() != before {
				t.Errorf("the object of another manager was written: %v", err)
			}
		})
	}
}
