package metal3cluster

import (
	"context"
	"crypto/rand"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// countRequests counts the requests that no cache answers. Live returns true for objects that no cache holds.
func countRequests(requests *atomic.Int64, isLive func(object any) bool) interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption,
		) error {
			if isLive(object) {
				requests.Add(1)
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if isLive(list) {
				requests.Add(1)
			}
			return c.List(ctx, list, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			requests.Add(1)
			return c.Create(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption,
		) error {
			requests.Add(1)
			return c.Patch(ctx, object, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption,
		) error {
			requests.Add(1)
			return c.SubResource(sub).Patch(ctx, object, patch, options...)
		},
	}
}

// isUncached returns true for objects that the cache of the manager lacks.
func isUncached(object any) bool {
	switch object := object.(type) {
	case *corev1.Secret, *corev1.ConfigMap:
		return true
	case client.ObjectList:
		return slices.Contains([]string{"SecretList", "IPPoolList"}, object.GetObjectKind().GroupVersionKind().Kind)
	default:
		return false
	}
}

// connection is a ClusterCache with one workload cluster.
type connection struct {
	clustercache.ClusterCache

	cached, live client.Client
}

func (c connection) GetReader(context.Context, client.ObjectKey) (client.Reader, error) {
	return c.cached, nil
}

func (c connection) GetUncachedClient(context.Context, client.ObjectKey) (client.Client, error) {
	return c.live, nil
}

func (c connection) GetHealthCheckingState(context.Context, client.ObjectKey) clustercache.HealthCheckingState {
	return clustercache.HealthCheckingState{}
}

// idleCluster is a cluster without changes.
type idleCluster struct {
	// hasNodes adds a control plane of three nodes. With bare, one of them lacks the pods of the endpoint.
	hasNodes, bare bool

	// missing lacks a Secret that a host references.
	missing bool
}

// planes returns the workload cluster. It counts requests that its cache does not answer.
func (c idleCluster) planes(t *testing.T, requests *atomic.Int64) ControlPlanes {
	t.Helper()
	if !c.hasNodes {
		return disconnected{}
	}
	system := func(uid types.UID) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: uid}}
	}
	objects := []client.Object{system("there")}
	for _, name := range []string{"cp-0", "cp-1", "cp-2"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Labels = map[string]string{workload.ControlPlaneRole: ""}
		objects = append(objects, node)
		if c.bare && name == "cp-2" {
			continue
		}
		for _, component := range []string{"vip", "ironic"} {
			pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: name}}
			pod.Namespace, pod.Name = ironic.Namespace, component+"-"+name
			pod.Labels = map[string]string{ironic.ComponentLabel: component, ironic.ClusterLabel: "c1"}
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			objects = append(objects, pod)
		}
	}
	there := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(objects...).Build()
	here := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(system("here")).Build()
	all := func(any) bool { return true }
	live := interceptor.NewClient(there, countRequests(requests, all))
	return workload.NewWatchedControlPlanes(
		connection{cached: there, live: live}, interceptor.NewClient(here, countRequests(requests, all)), here)
}

// withPlanes is a client of a management cluster with a control plane provider.
type withPlanes struct{ client.Client }

func (withPlanes) RESTMapper() meta.RESTMapper {
	return testrestmapper.TestOnlyStaticRESTMapper(build.Scheme())
}

// setControlPlane sets the control plane of the Cluster.
func setControlPlane(t *testing.T, stored client.Client) {
	t.Helper()
	cluster := build.Cluster("cluster")
	if err := stored.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: controlPlaneGroup, Kind: "KubeadmControlPlane", Name: "plane",
	}
	if err := stored.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
}

// reconciler returns a reconciler of a Metal3Cluster whose endpoint has a Secret of the user, and whose Cluster has a
// control plane. It counts the live reads of control planes in planes as well.
func (c idleCluster) reconciler(t *testing.T, requests, planes *atomic.Int64) (*Reconciler, client.ObjectKey) {
	t.Helper()
	infra := build.Metal3Cluster("cluster")
	withEndpoint(infra)
	infra.Spec.Ironic.CredentialsRef = &corev1.LocalObjectReference{Name: "credentials"}
	r, stored := reconciler(infra, countRequests(requests, isUncached), nil)
	r.Client = withPlanes{r.Client}
	watched, is := stored.(client.WithWatch)
	if !is {
		t.Fatalf("%T has no watches", stored)
	}
	r.Live = interceptor.NewClient(watched, countRequests(requests, func(object any) bool {
		if read, is := object.(*metav1.PartialObjectMetadata); is && read.Kind == "KubeadmControlPlane" {
			planes.Add(1)
		}
		return true
	}))
	setControlPlane(t, stored)
	given := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: infra.Namespace, Name: "credentials"}}
	given.Data = map[string][]byte{"username": []byte("admin"), "password": []byte("given")}
	plane := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: infra.Namespace, Name: "plane"}}
	objects := []client.Object{given, plane}
	for _, name := range []string{"host-0", "host-1", "host-2"} {
		host := build.Host(name, build.Provisioned())
		objects = append(objects, host)
		if c.missing && name == "host-2" {
			continue
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: infra.Namespace}}
		secret.Name, secret.Labels = host.Spec.BMC.CredentialsName, map[string]string{infrav1.MoveLabel: ""}
		objects = append(objects, secret)
	}
	if c.hasNodes {
		for _, name := range []string{"cp-0", "cp-1", "cp-2"} {
			machine := build.ControlPlaneMachine(name, "cluster")
			machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: name}
			objects = append(objects, machine)
		}
	}
	for _, object := range objects {
		if err := stored.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	r.Secrets = &secrets.Keeper{
		Client: r.Client, Random: rand.Reader, Clock: clock.RealClock{},
		Hash: func(password []byte) ([]byte, error) { return password, nil },
	}
	r.Nodes = NewNodeProber(c.planes(t, requests), events.NewFakeRecorder(10), clock.RealClock{}, time.Second)
	return r, client.ObjectKeyFromObject(infra)
}

// TestAnIdleMetal3ClusterCostsFewRequests counts the requests to the API servers of the management cluster and of the
// workload cluster in an hour without changes. The test runs in the time of synctest. It reconciles when a result of a
// probe changes, and after RequeueAfter.
func TestAnIdleMetal3ClusterCostsFewRequests(t *testing.T) {
	for name, tc := range map[string]idleCluster{
		"NoNodes":       {},
		"Nodes":         {hasNodes: true},
		"BareNode":      {hasNodes: true, bare: true},
		"MissingSecret": {hasNodes: true, missing: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests, planes atomic.Int64
				r, key := tc.reconciler(t, &requests, &planes)
				ctx, cancel := context.WithCancel(t.Context())
				for _, start := range []func(context.Context) error{r.Endpoints.Start, r.Nodes.Start} {
					go func() { _ = start(ctx) }()
				}
				// The Secret is generated and the first results arrive.
				reconcileFor(t, r, key, time.Minute)
				requests.Store(0)
				planes.Store(0)
				reconciles := reconcileFor(t, r, key, time.Hour)
				result, known := r.Nodes.Last(key, nodesTarget{cluster: key, clusterID: "c1"})
				if tc.hasNodes && (!known || len(result.seen.Nodes) != 3 || result.seen.Nodes[2].Carries == tc.bare) {
					t.Errorf("the nodes were not probed: %+v", result)
				}
				cancel()
				t.Logf("%d requests, %d of them for the control plane, and %d reconciles in an hour",
					requests.Load(), planes.Load(), reconciles)
				if planes.Load() == 0 {
					t.Error("the control plane was not read")
				}
				if requests.Load() > 2*60 {
					t.Errorf("%d requests in an hour, want at most 2 a minute", requests.Load())
				}
			})
		})
	}
}

// reconcileFor reconciles a Metal3Cluster for a time and returns how often.
func reconcileFor(t *testing.T, r *Reconciler, key client.ObjectKey, span time.Duration) (reconciles int) {
	t.Helper()
	for began := time.Now(); time.Since(began) < span; reconciles++ {
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-r.Endpoints.events:
		case <-r.Nodes.events:
		case <-time.After(result.RequeueAfter):
		}
	}
	return reconciles
}
