package workload_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

func system(uid types.UID) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: uid}}
}

func controlPlaneNode(name string, annotations map[string]string) *corev1.Node {
	made := node(name, "", "", name)
	made.Labels["node-role.kubernetes.io/control-plane"] = ""
	made.Annotations = annotations
	return made
}

// ironicPod returns the mirror pod of a static pod of the endpoint.
func ironicPod(component, node, clusterID string, ready corev1.ConditionStatus) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}}
	pod.Namespace, pod.Name = ironic.Namespace, "metal3-"+component+"-"+node
	pod.Labels = map[string]string{ironic.ComponentLabel: component, ironic.ClusterLabel: clusterID}
	pod.Annotations = map[string]string{ironic.HashAnnotation: "hash-of-" + component}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	return pod
}

func controlPlanes(own types.UID, funcs interceptor.Funcs, objects ...client.Object) (*workload.ControlPlanes, client.Client) {
	there := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
	here := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(system(own)).Build()
	return workload.NewControlPlanes(clustercache.NewFakeClusterCache(there, cluster()), here), there
}

func TestReadControlPlane(t *testing.T) {
	yes, no := corev1.ConditionTrue, corev1.ConditionFalse
	objects := []client.Object{
		system("there"), node("worker", "", "", "worker"),
		controlPlaneNode("cp-1", map[string]string{ironic.ArmedAnnotation: "true"}),
		ironicPod("vip", "cp-1", "c1", yes), ironicPod("ironic", "cp-1", "c1", yes), ironicPod("dnsmasq", "cp-1", "c1", yes),
		controlPlaneNode("cp-0", map[string]string{ironic.ArmedAnnotation: "false"}),
		ironicPod("vip", "cp-0", "c1", yes), ironicPod("ironic", "cp-0", "c1", yes), ironicPod("dnsmasq", "cp-0", "c1", no),
		controlPlaneNode("cp-2", map[string]string{
			ironic.ArmedAnnotation: "true", ironic.ArmedByAnnotation: "provider",
		}), ironicPod("vip", "cp-2", "c1", yes), ironicPod("ironic", "cp-2", "c2", yes),
		controlPlaneNode("cp-3", nil),
	}
	want := workload.ControlPlane{Nodes: []workload.ControlPlaneNode{
		{Name: "cp-0", Armed: pivot.Refused, Carries: true, ConfigHash: "hash-of-ironic"},
		{Name: "cp-1", Armed: pivot.ArmedByUser, Carries: true, PodsReady: true, ConfigHash: "hash-of-ironic"},
		{Name: "cp-2", Armed: pivot.ArmedByProvider},
		{Name: "cp-3", Armed: pivot.NotArmed},
	}}
	for uid, own := range map[types.UID]bool{"here": false, "there": true} {
		want.Own = own
		planes, _ := controlPlanes(uid, interceptor.Funcs{}, objects...)
		got, err := planes.Read(t.Context(), cluster(), "c1")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the manager runs %s; -want +got:\n%s", uid, diff)
		}
	}
}

func TestReadControlPlaneFails(t *testing.T) {
	planes := workload.NewControlPlanes(clustercache.NewFakeEmptyClusterCache(), fake.NewClientBuilder().Build())
	if _, err := planes.Read(t.Context(), cluster(), "c1"); !errors.Is(err, workload.ErrUnreachable) {
		t.Errorf("without a connection: %v", err)
	}
	if err := planes.Arm(t.Context(), cluster(), "cp-0", true); !errors.Is(err, workload.ErrUnreachable) {
		t.Errorf("without a connection: %v", err)
	}
	for name, tc := range map[string]struct {
		funcs   interceptor.Funcs
		objects []client.Object
		says    string
	}{
		"nodes": {interceptor.Funcs{List: func(
			ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
		) error {
			if _, nodes := list.(*corev1.NodeList); nodes {
				return errBroken
			}
			return c.List(ctx, list, options...)
		}}, []client.Object{system("x")}, "control-plane nodes"},
		"pods": {interceptor.Funcs{List: func(
			ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
		) error {
			if _, pods := list.(*corev1.PodList); pods {
				return errBroken
			}
			return c.List(ctx, list, options...)
		}}, []client.Object{system("x")}, "Ironic pods"},
		"namespace": {interceptor.Funcs{Get: func(
			context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption,
		) error {
			return errBroken
		}}, nil, "kube-system"},
	} {
		planes, _ := controlPlanes("here", tc.funcs, tc.objects...)
		if _, err := planes.Read(t.Context(), cluster(), "c1"); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestArm(t *testing.T) {
	broken := false
	planes, there := controlPlanes("here", interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch,
		object client.Object, patch client.Patch, options ...client.PatchOption,
	) error {
		if broken {
			return errBroken
		}
		return c.Patch(ctx, object, patch, options...)
	}}, controlPlaneNode("cp-0", map[string]string{"other": "stays"}))
	for _, armed := range []bool{true, true, false, false, true} {
		if err := planes.Arm(t.Context(), cluster(), "cp-0", armed); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"other": "stays"}
		if armed {
			want[ironic.ArmedAnnotation], want[ironic.ArmedByAnnotation] = "true", "provider"
		}
		var got corev1.Node
		if err := there.Get(t.Context(), client.ObjectKey{Name: "cp-0"}, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Annotations); diff != "" {
			t.Errorf("armed %v; -want +got:\n%s", armed, diff)
		}
	}
	broken = true
	if err := planes.Arm(t.Context(), cluster(), "cp-0", false); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}
