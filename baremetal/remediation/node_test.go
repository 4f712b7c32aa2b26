package remediation_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
)

func TestFenceFor(t *testing.T) {
	for version, want := range map[string]remediation.Fence{
		"v1.36.3": remediation.TaintFence, "v1.28.0": remediation.TaintFence, "v1.30.1+k3s1": remediation.TaintFence,
		"v1.27.9": remediation.DeleteFence, "v0.99.0": remediation.DeleteFence, "": remediation.DeleteFence,
		"unknown": remediation.DeleteFence,
	} {
		if got := remediation.FenceFor(version); got != want {
			t.Errorf("%q: got %s, want %s", version, got, want)
		}
	}
}

func TestTaint(t *testing.T) {
	other := corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoExecute}
	node := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{other}}}
	tainted := remediation.Tainted(remediation.Tainted(node))
	want := []corev1.Taint{other, {
		Key: "node.kubernetes.io/out-of-service", Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute,
	}}
	if diff := cmp.Diff(want, tainted.Spec.Taints); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(node.Spec.Taints, remediation.Untainted(tainted).Spec.Taints); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(want, tainted.Spec.Taints); diff != "" {
		t.Errorf("the node that was given has changed; -want +got:\n%s", diff)
	}
}

func TestRemaining(t *testing.T) {
	pod := func(name string, edit func(*corev1.Pod)) corev1.Pod {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		edit(&pod)
		return pod
	}
	tolerates := func(toleration corev1.Toleration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.Tolerations = []corev1.Toleration{toleration} }
	}
	node := &corev1.Node{Status: corev1.NodeStatus{VolumesAttached: []corev1.AttachedVolume{{Name: "csi^1"}}}}
	pods := []corev1.Pod{
		pod("plain", func(*corev1.Pod) {}),
		pod("done", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }),
		pod("failed", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }),
		pod("terminating", func(pod *corev1.Pod) {
			pod.DeletionTimestamp, pod.Status.Phase = ptr.To(metav1.Unix(1, 0)), corev1.PodFailed
		}),
		pod("mirror", func(pod *corev1.Pod) { pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: ""} }),
		pod("tolerates-all", tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists})),
		pod("tolerates-it", tolerates(corev1.Toleration{
			Key: "node.kubernetes.io/out-of-service", Operator: corev1.TolerationOpEqual, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute,
		})),
		pod("tolerates-for-a-while", tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists, TolerationSeconds: ptr.To[int64](300)})),
		pod("tolerates-other-effect", tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})),
		pod("tolerates-other-key", tolerates(corev1.Toleration{Key: "other", Operator: corev1.TolerationOpExists})),
		pod("tolerates-other-value", tolerates(corev1.Toleration{Key: "node.kubernetes.io/out-of-service", Value: "other"})),
	}
	want := []string{
		"Pod ns/plain", "Pod ns/terminating", "Pod ns/tolerates-for-a-while", "Pod ns/tolerates-other-effect",
		"Pod ns/tolerates-other-key", "Pod ns/tolerates-other-value", "volume csi^1",
	}
	if diff := cmp.Diff(want, remediation.Remaining(node, pods)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRemainingVolumes has one attached volume, and one pod that may use it.
func TestRemainingVolumes(t *testing.T) {
	node := &corev1.Node{Status: corev1.NodeStatus{VolumesAttached: []corev1.AttachedVolume{{Name: "csi^1"}}}}
	claim := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}
	ephemeral := corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
	stays := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	cases := map[string]struct {
		tolerations []corev1.Toleration
		volume      corev1.VolumeSource
		want        []string
	}{
		"Leaves":         {nil, claim, []string{"Pod ns/pod", "volume csi^1"}},
		"Stays":          {stays, claim, nil},
		"StaysEphemeral": {stays, ephemeral, nil},
		"StaysWithout":   {stays, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, []string{"volume csi^1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"}}
			pod.Spec.Tolerations, pod.Spec.Volumes = tc.tolerations, []corev1.Volume{{Name: "data", VolumeSource: tc.volume}}
			if diff := cmp.Diff(tc.want, remediation.Remaining(node, []corev1.Pod{pod})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestBackup(t *testing.T) {
	request := &infrav1.Metal3Remediation{}
	before := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "node", Labels: map[string]string{"rack": "a", "zone": "b"}, Annotations: map[string]string{"note": "x", "armed": "true"},
	}}
	if err := remediation.Backup(request, before, "armed"); err != nil {
		t.Fatal(err)
	}
	if before.Annotations["armed"] == "" {
		t.Error("the node that was given has changed")
	}
	// The Node of a second try lacks labels that were not restored.
	again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"zone": "c"}}}
	if err := remediation.Backup(request, again); err != nil {
		t.Fatal(err)
	}
	joined := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"rack": "new"}}}
	got, err := remediation.Restored(request, joined)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"rack": "new", "zone": "c"}, got.Labels); diff != "" {
		t.Errorf("labels that exist win; -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"note": "x"}, got.Annotations); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	remediation.DropBackup(request)
	if len(request.Annotations) != 0 {
		t.Errorf("got %v", request.Annotations)
	}
	request.Annotations = map[string]string{"remediation.metal3.io/node-labels-backup": "{"}
	if _, err := remediation.Restored(request, joined); err == nil {
		t.Error("a broken backup must be an error, because labels would be lost")
	}
	if err := remediation.Backup(request, before); err != nil {
		t.Errorf("a broken backup is replaced: %v", err)
	}
}

func TestEmptyBackupOfCAPM3(t *testing.T) {
	request := &infrav1.Metal3Remediation{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		"remediation.metal3.io/node-labels-backup": `{"rack":"a"}`, "remediation.metal3.io/node-annotations-backup": "",
	}}}
	got, err := remediation.Restored(request, &corev1.Node{})
	if err != nil {
		t.Fatalf("CAPM3 writes an empty text for a Node without annotations: %v", err)
	}
	if diff := cmp.Diff(map[string]string{"rack": "a"}, got.Labels); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
