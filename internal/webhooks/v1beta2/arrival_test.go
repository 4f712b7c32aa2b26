package v1beta2_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

var errAway = errors.New("the cache is away")

// failing is an API server that returns an error for one kind.
func failing(kind client.Object) interceptor.Funcs {
	return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
		options ...client.GetOption,
	) error {
		if reflect.TypeOf(object) == reflect.TypeOf(kind) {
			return errAway
		}
		return c.Get(ctx, key, object, options...)
	}}
}

func TestArrivals(t *testing.T) {
	bring := func(epoch, inventory string) func(*infrav1.Metal3Cluster) {
		return func(infra *infrav1.Metal3Cluster) {
			build.Labels(map[string]string{clusterv1.ClusterNameLabel: "cluster"})(infra)
			build.Annotations(map[string]string{
				infrav1.MoveEpochAnnotation: epoch, infrav1.MoveInventoryAnnotation: inventory,
			})(infra)
		}
	}
	in := build.InNamespace(validCluster().Namespace)
	other := build.Machine("of-another", "other", in)
	elsewhere := build.Machine("elsewhere", "cluster", build.InNamespace("elsewhere"))
	kept, gone := build.Machine("kept", "cluster", in), build.Machine("gone", "cluster", in)
	arriving := altered(validCluster, bring("3", `{"Machine":["kept"]}`))
	leaving := arriving.DeepCopy()
	build.Annotations(map[string]string{infrav1.DeleteForMoveAnnotation: ""})(leaving)
	deleted := func(object client.Object) client.Object {
		object.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
		object.SetFinalizers([]string{"example.com/keep"})
		return object
	}
	remembered := &corev1.ConfigMap{Data: map[string]string{"hosts": "[]", "metal3cluster." + validCluster().Name: "5"}}
	remembered.Namespace, remembered.Name = validCluster().Namespace, pivot.DepartureName
	half := arriving.DeepCopy()
	deleted(half)
	for name, tc := range map[string]struct {
		reason        string
		before, after *infrav1.Metal3Cluster
		here          []client.Object
		funcs         interceptor.Funcs
		want          string
	}{
		"First move": {reason: "the target is empty", after: arriving},
		"Others": {
			reason: "other Clusters have their own objects", after: arriving, here: []client.Object{other, elsewhere},
		},
		"Second move": {
			reason: "an interrupted move is repeated", before: altered(validCluster, bring("1", "{}")), after: arriving,
			here: []client.Object{kept},
		},
		"Out of date": {
			reason: "the target has managed the cluster since", before: altered(validCluster, bring("4", "{}")), after: arriving,
			want: "move epoch 4 is here and 3 arrives",
		},
		"Leftover": {
			reason: "the Machine was deleted in the source", before: altered(validCluster, bring("1", "{}")), after: arriving,
			here: []client.Object{kept, gone}, want: "Machine gone here, which the source no longer has",
		},
		"Leftover without its Metal3Cluster": {
			reason: "a user removed only the Metal3Cluster", after: arriving, here: []client.Object{gone}, want: "Machine gone",
		},
		"Metal3Machine": {
			reason: "the leftover would claim a host", after: arriving,
			here: []client.Object{build.Metal3Machine("gone", "cluster", in)}, want: "Metal3Machine gone",
		},
		"Half a Machine": {
			reason: "its deletion would continue and wipe the host", after: arriving,
			here: []client.Object{deleted(kept.DeepCopy())}, want: "Machine kept here, which is being deleted",
		},
		"Half a Cluster": {
			reason: "the deletion of the Cluster would continue", after: arriving,
			here: []client.Object{deleted(build.Cluster("cluster", in))}, want: "Cluster cluster here, which is being deleted",
		},
		"Cluster": {reason: "the Cluster arrives first", after: arriving, here: []client.Object{build.Cluster("cluster", in)}},
		"Half a Metal3Cluster": {
			reason: "its deletion would continue after the move", before: altered(validCluster, bring("1", "{}")), after: half,
			want: "which is being deleted",
		},
		"No Cluster to read": {
			reason: "the answer is unknown", after: arriving, want: errAway.Error(),
			funcs: failing(&clusterv1.Cluster{}),
		},
		"Moved away": {
			reason: "the Metal3Cluster moved away", after: validCluster(), here: []client.Object{remembered},
			want: "Metal3Cluster " + validCluster().Name + " moved to another management cluster",
		},
		"Back": {reason: "it arrives", after: arriving, here: []client.Object{remembered}},
		"No departure to read": {
			reason: "the answer is unknown", after: validCluster(), want: errAway.Error(), funcs: failing(&corev1.ConfigMap{}),
		},
		"Leaving":  {reason: "the webhook must not delay a deletion", after: leaving, here: []client.Object{gone}},
		"Running":  {reason: "the Cluster is not paused", before: arriving, after: arriving, here: []client.Object{gone}},
		"Unparsed": {reason: "the annotation is invalid", after: altered(validCluster, bring("3", "[")), want: "parsing annotation"},
		"Away": {
			reason: "the answer is unknown", after: arriving, want: errAway.Error(),
			funcs: interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return errAway
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(tc.here...).
				WithInterceptorFuncs(tc.funcs).Build()
			validator := v1beta2.WithArrivals(v1beta2.Metal3ClusterValidator(), reader)
			_, err := validator.ValidateCreate(t.Context(), tc.after)
			if tc.before != nil {
				_, err = validator.ValidateUpdate(t.Context(), tc.before, tc.after)
			}
			switch {
			case tc.want == "" && err != nil, tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%s: got %v, want %q", tc.reason, err, tc.want)
			case tc.want != "" && tc.want != errAway.Error() && !apierrors.IsForbidden(err):
				t.Errorf("%s: got %v, want a refusal", tc.reason, err)
			}
		})
	}
	_, err := v1beta2.WithArrivals(v1beta2.Metal3ClusterValidator(), fake.NewFakeClient()).
		ValidateCreate(t.Context(), altered(validCluster, ironic(func(ironic *infrav1.Ironic) {
			ironic.Endpoint.VirtualIPs = []string{validCluster().Spec.ControlPlaneEndpoint.Host}
		})))
	if !apierrors.IsInvalid(err) {
		t.Errorf("the other rules do not count: %v", err)
	}
}
