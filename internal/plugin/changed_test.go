package plugin

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// rivalled returns a client with a conflicting client: it changes each object just before the first patch.
func rivalled(objects ...client.Object) client.Client {
	isFirst := true
	return fake.NewClientBuilder().WithScheme(scheme()).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption,
		) error {
			if isFirst {
				isFirst = false
				other := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/touched":"yes"}}}`))
				if err := c.Patch(ctx, copyOf(object), other); err != nil {
					return err
				}
			}
			return c.Patch(ctx, object, patch, options...)
		},
	}).Build()
}

func copyOf(object client.Object) client.Object {
	copied, _ := object.DeepCopyObject().(client.Object)
	return copied
}

// TestChangedMeanwhile runs commands while another client writes.
func TestChangedMeanwhile(t *testing.T) {
	parked, infra := runningCluster("c"), runningInfra("c")
	parked.Spec.Paused = ptr.To(true)
	metav1.SetMetaDataAnnotation(&infra.ObjectMeta, infrav1.BlockMoveAnnotation, "")
	host := build.Host("host", build.Paused(infrav1.HostPausedByProvider))
	over := func(object client.Object) recovery {
		return recovery{
			yes: true, where: sides{namespace: build.DefaultNamespace},
			source: &cluster{client: rivalled(object), side: sourceSide}, progress: newProgress(&bytes.Buffer{}),
		}
	}
	has := func(key string) func(client.Object) bool {
		return func(object client.Object) bool { _, has := object.GetAnnotations()[key]; return has }
	}
	for name, tc := range map[string]struct {
		object client.Object
		do     func(context.Context, recovery) error
		kept   func(client.Object) bool
	}{
		"Unblock": {infra, func(ctx context.Context, c recovery) error {
			return (&unblocking{recovery: c}).unblock(ctx)
		}, has(infrav1.BlockMoveAnnotation)},
		"UnpauseHosts": {host, func(ctx context.Context, c recovery) error {
			return (&unpausing{recovery: c, allHosts: true}).unpauseHosts(ctx)
		}, has(bmov1alpha1.PausedAnnotation)},
		"Unpause": {parked, func(ctx context.Context, c recovery) error {
			seen, err := c.source.look(ctx, c.where.namespace)
			if err != nil {
				return err
			}
			return c.unpause(ctx, c.source, &scope{sight: seen})
		}, func(object client.Object) bool {
			cluster, isCluster := object.(*clusterv1.Cluster)
			return isCluster && isPaused(cluster)
		}},
		"Discard": {host, func(ctx context.Context, c recovery) error {
			seen, err := c.source.look(ctx, c.where.namespace)
			if err != nil {
				return err
			}
			found := removal{
				located: located{hostKindOf(), host.Name}, version: bmov1alpha1.GroupVersion.Version,
				object: &metav1.PartialObjectMetadata{ObjectMeta: seen.hosts[0].ObjectMeta},
			}
			return c.act(func() error { return found.mark(ctx, c.source.client) }, "Saved it")
		}, func(object client.Object) bool { return !infrav1.IsLeaving(object) }},
	} {
		c := over(tc.object)
		if err := tc.do(t.Context(), c); !errors.Is(err, errChanged) {
			t.Errorf("%s: got %v", name, err)
		}
		now := copyOf(tc.object)
		if err := c.source.client.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil {
			t.Fatal(err)
		}
		if !tc.kept(now) {
			t.Errorf("%s: the object was changed", name)
		}
	}
}

// TestAwaitHosts continues after a temporary error of an API server, and ends after a permanent error.
func TestAwaitHosts(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		failure error
		want    bool
	}{
		"Away":      {"an API server restarts", errors.New("connection refused"), true},
		"Forbidden": {"the user may not look", apierrors.NewForbidden(schema.GroupResource{}, "", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			failed := false
			c := fake.NewClientBuilder().WithScheme(scheme()).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if !failed {
						failed = true
						return tc.failure
					}
					return c.List(ctx, list, options...)
				},
			}).Build()
			waiting := recovery{
				where: sides{namespace: build.DefaultNamespace}, timeout: time.Minute, progress: newProgress(&bytes.Buffer{}),
			}
			left, err := waiting.awaitHosts(t.Context(), &cluster{client: c, side: targetSide}, nil)
			if (err == nil) != tc.want || len(left) > 0 {
				t.Errorf("%s: got %v, %v", tc.reason, left, err)
			}
		})
	}
}
