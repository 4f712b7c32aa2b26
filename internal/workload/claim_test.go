package workload_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// TestClaim claims one workload cluster from two management clusters.
func TestClaim(t *testing.T) {
	there := fake.NewClientBuilder().WithScheme(build.Scheme()).Build()
	managers := map[string]*workload.ControlPlanes{}
	for _, uid := range []types.UID{"source", "target"} {
		here := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(system(uid)).Build()
		managers[string(uid)] = workload.NewControlPlanes(clustercache.NewFakeClusterCache(there, cluster()), here)
	}
	for _, step := range []struct {
		reason   string
		manager  string
		epoch    pivot.Epoch
		recorded pivot.Claim
		standing pivot.Standing
	}{
		{"a new cluster", "source", 0, pivot.Claim{Epoch: 0, Manager: "source"}, pivot.Current},
		{"the same claim again", "source", 0, pivot.Claim{Epoch: 0, Manager: "source"}, pivot.Current},
		{"a copy without a move", "target", 0, pivot.Claim{Epoch: 0, Manager: "source"}, pivot.Superseded},
		{"a move", "target", 2, pivot.Claim{Epoch: 2, Manager: "target"}, pivot.Current},
		{"both clusters run", "source", 2, pivot.Claim{Epoch: 2, Manager: "target"}, pivot.Superseded},
		{"a move back", "source", 4, pivot.Claim{Epoch: 4, Manager: "source"}, pivot.Current},
		{"a leftover", "target", 2, pivot.Claim{Epoch: 4, Manager: "source"}, pivot.Superseded},
		{"an annotation is lost", "source", 0, pivot.Claim{Epoch: 4, Manager: "source"}, pivot.Behind},
	} {
		recorded, standing, err := managers[step.manager].Claim(t.Context(), cluster(), step.epoch)
		if err != nil || recorded != step.recorded || standing != step.standing {
			t.Fatalf("%s: got %+v, %s, %v", step.reason, recorded, standing, err)
		}
	}
}

// TestClaimsAtTheSameTime writes from the other management cluster between the read and the write. The second
// management cluster gets a conflict and reads the claim of the first one.
func TestClaimsAtTheSameTime(t *testing.T) {
	for name, before := range map[string][]client.Object{"Create": nil, "Update": {record("source", "0")}} {
		for other, want := range map[string]pivot.Standing{"2": pivot.Superseded, "1": pivot.Current} {
			t.Run(name+other, func(t *testing.T) {
				raced := false
				between := func(ctx context.Context, c client.WithWatch) {
					if raced {
						return
					}
					raced = true
					overwrite(ctx, t, c, record("source", other))
				}
				planes, _ := controlPlanes("target", racing(between), before...)
				if _, standing, err := planes.Claim(t.Context(), cluster(), 2); standing != want || err != nil {
					t.Errorf("got %s, %v, want %s", standing, err, want)
				}
			})
		}
	}
}

// TestClaimsAllTheTime writes from the other management cluster before each write. The claim ends with an error.
func TestClaimsAllTheTime(t *testing.T) {
	races := 0
	planes, _ := controlPlanes("target", racing(func(ctx context.Context, c client.WithWatch) {
		races++
		overwrite(ctx, t, c, record("source", "0"))
	}))
	if _, standing, err := planes.Claim(t.Context(), cluster(), 2); standing != "" || !apierrors.IsConflict(err) {
		t.Errorf("got %s, %v, want a conflict", standing, err)
	}
	if races < 2 {
		t.Error("the claim was not tried again")
	}
}

// racing calls a function before each write.
func racing(between func(ctx context.Context, c client.WithWatch)) interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			between(ctx, c)
			return c.Create(ctx, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			between(ctx, c)
			return c.Update(ctx, object, options...)
		},
	}
}

// overwrite replaces the record of a claim.
func overwrite(ctx context.Context, t *testing.T, c client.WithWatch, taken *corev1.ConfigMap) {
	t.Helper()
	current := taken.DeepCopy()
	err := c.Get(ctx, client.ObjectKeyFromObject(taken), current)
	if apierrors.IsNotFound(err) {
		err = c.Create(ctx, taken)
	} else if err == nil {
		current.Annotations = taken.Annotations
		metav1.SetMetaDataAnnotation(&current.ObjectMeta, "example.com/version", current.ResourceVersion)
		err = c.Update(ctx, current)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestClaimFails(t *testing.T) {
	planes, _ := controlPlanes("us", interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errBroken
		},
	})
	if _, _, err := planes.Claim(t.Context(), cluster(), 2); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	unknown := types.NamespacedName{Namespace: "metal3", Name: "unknown"}
	if _, _, err := planes.Claim(t.Context(), unknown, 2); !errors.Is(err, workload.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}

// TestClaimOfAWatchedCluster reads the claim from a cache that may be outdated or broken.
func TestClaimOfAWatchedCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		reason       string
		cached, live *corev1.ConfigMap
		broken       bool
		want         pivot.Standing
		requests     int
	}{
		"Current":    {"the cache knows the claim", record("us", "2"), record("us", "2"), false, pivot.Current, 0},
		"Superseded": {"the cache knows the claim of the others", record("them", "4"), record("them", "4"), false, pivot.Superseded, 0},
		"New":        {"a claim is written after a live read", nil, nil, false, pivot.Current, 2},
		"Newer":      {"a claim is written after a live read", record("us", "0"), record("us", "0"), false, pivot.Current, 2},
		"Outdated":   {"the others were faster than the cache", record("us", "0"), record("them", "2"), false, pivot.Superseded, 1},
		"Broken":     {"the cache cannot be read", nil, record("us", "2"), true, pivot.Current, 1},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			there := racing(func(context.Context, client.WithWatch) { requests++ })
			there.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
				options ...client.GetOption,
			) error {
				requests++
				return c.Get(ctx, key, object, options...)
			}
			cache := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
				object client.Object, options ...client.GetOption,
			) error {
				if tc.broken {
					return errBroken
				}
				return c.Get(ctx, key, object, options...)
			}}
			here := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(system("us")).Build()
			connected := &clusters{cached: holding(cache, tc.cached)}
			connected.clients = map[string]client.Client{cluster().Name: holding(there, tc.live)}
			planes := workload.NewWatchedControlPlanes(connected, here, here)
			_, standing, err := planes.Claim(t.Context(), cluster(), 2)
			if err != nil || standing != tc.want || requests != tc.requests {
				t.Errorf("%s: got %s, %v with %d requests, want %s with %d", tc.reason, standing, err, requests, tc.want, tc.requests)
			}
		})
	}
}

// holding returns a client of a cluster with a claim. Nil means none.
func holding(funcs interceptor.Funcs, claim *corev1.ConfigMap) client.Client {
	builder := fake.NewClientBuilder().WithScheme(build.Scheme()).WithInterceptorFuncs(funcs)
	if claim != nil {
		builder = builder.WithObjects(claim)
	}
	return builder.Build()
}

// record returns the ConfigMap of a claim.
func record(manager, epoch string) *corev1.ConfigMap {
	found := &corev1.ConfigMap{}
	found.Namespace, found.Name = "kube-system", "metal3-management-cluster"
	found.Annotations = map[string]string{
		"infrastructure.cluster.x-k8s.io/management-cluster": manager,
		"infrastructure.cluster.x-k8s.io/move-epoch":         epoch,
	}
	return found
}
