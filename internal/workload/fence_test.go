package workload_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

func TestRead(t *testing.T) {
	nodes, _ := world(interceptor.Funcs{}, node("node", "", "", "node"))
	if current, err := nodes.Read(t.Context(), cluster(), "node"); err != nil || current == nil {
		t.Errorf("got %v, %v", current, err)
	}
	if absent, err := nodes.Read(t.Context(), cluster(), "absent"); err != nil || absent != nil {
		t.Errorf("a node that does not exist: %v, %v", absent, err)
	}
}

func TestWrite(t *testing.T) {
	writes := 0
	nodes, _ := world(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, object client.Object,
		patch client.Patch, options ...client.PatchOption,
	) error {
		writes++
		return c.Patch(ctx, object, patch, options...)
	}}, node("node", "", "", "node"))
	current := read(t, nodes)
	desired := current.DeepCopy()
	desired.Labels["rack"] = "a"
	for _, to := range []*corev1.Node{current, desired} {
		if err := nodes.Write(t.Context(), cluster(), current, to); err != nil {
			t.Fatal(err)
		}
	}
	if writes != 1 {
		t.Errorf("got %d writes, want one for the difference", writes)
	}
	if err := nodes.Write(t.Context(), cluster(), current, node("node", "", "", "other")); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
	if diff := cmp.Diff(desired.Labels, read(t, nodes).Labels); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDelete(t *testing.T) {
	nodes, _ := world(interceptor.Funcs{}, node("node", "", "", "node"))
	current := read(t, nodes)
	for range 2 {
		if err := nodes.Delete(t.Context(), cluster(), current); err != nil {
			t.Errorf("deleting twice: %v", err)
		}
	}
	if left := read(t, nodes); left != nil {
		t.Errorf("got %v", left)
	}
}

func read(t *testing.T, nodes *workload.Nodes) *corev1.Node {
	t.Helper()
	current, err := nodes.Read(t.Context(), cluster(), "node")
	if err != nil {
		t.Fatal(err)
	}
	return current
}

func TestPods(t *testing.T) {
	pod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node},
		}
	}
	c := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(pod("here", "node"), pod("there", "other")).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(object client.Object) []string {
			pod, isPod := object.(*corev1.Pod)
			if !isPod {
				return nil
			}
			return []string{pod.Spec.NodeName}
		}).Build()
	nodes := workload.New(clustercache.NewFakeClusterCache(c, cluster()), c)
	pods, err := nodes.Pods(t.Context(), cluster(), "node")
	if err != nil || len(pods) != 1 || pods[0].Name != "here" {
		t.Errorf("got %v, %v", pods, err)
	}
}

func TestFencingFails(t *testing.T) {
	away := workload.New(clustercache.NewFakeEmptyClusterCache(), nil)
	broken, _ := world(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errBroken
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errBroken
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errBroken
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return errBroken },
	})
	current, desired := node("node", "", "", "node"), node("node", "", "", "other")
	for name, do := range map[string]func(nodes *workload.Nodes) error{
		"read":   func(nodes *workload.Nodes) error { _, err := nodes.Read(t.Context(), cluster(), "node"); return err },
		"pods":   func(nodes *workload.Nodes) error { _, err := nodes.Pods(t.Context(), cluster(), "node"); return err },
		"write":  func(nodes *workload.Nodes) error { return nodes.Write(t.Context(), cluster(), current, desired) },
		"delete": func(nodes *workload.Nodes) error { return nodes.Delete(t.Context(), cluster(), current) },
	} {
		if err := do(away); !errors.Is(err, workload.ErrUnreachable) {
			t.Errorf("%s: without a connection: %v", name, err)
		}
		if err := do(broken); !errors.Is(err, errBroken) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := away.Version(t.Context(), cluster()); !errors.Is(err, workload.ErrUnreachable) {
		t.Errorf("version: without a connection: %v", err)
	}
}
