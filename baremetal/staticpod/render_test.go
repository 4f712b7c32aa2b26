package staticpod_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/staticpod"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/golden"
)

// least is the smallest pod that can be rendered.
func least() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "kube-system"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "one", Image: "registry.example/one:v1"}}},
	}
}

// full returns a pod with lists that Render sorts, and lists that it must not sort.
func full() *corev1.Pod {
	pod := least()
	pod.Labels = map[string]string{"b": "2", "a": "1"}
	pod.Status.Phase = corev1.PodRunning
	folder := func(name string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/srv/" + name},
		}}
	}
	pod.Spec.Volumes = []corev1.Volume{folder("zebra"), folder("ape")}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
		{Name: "zebra", MountPath: "/zebra"}, {Name: "ape", MountPath: "/ape"},
	}
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 6385}, {ContainerPort: 6180}}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
		{Name: "GREETING", Value: "hello $(NODE_NAME)"},
	}
	pod.Spec.Containers[0].Args = []string{"z", "a"}
	return pod
}

func TestRender(t *testing.T) {
	pod := full()
	content, err := staticpod.Render(pod)
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "full/pod.yaml", content)
	if diff := cmp.Diff(full(), pod); diff != "" {
		t.Errorf("rendering changed the pod (-want +got):\n%s", diff)
	}
	slices.Reverse(pod.Spec.Volumes)
	slices.Reverse(pod.Spec.Containers[0].VolumeMounts)
	slices.Reverse(pod.Spec.Containers[0].Ports)
	again, err := staticpod.Render(pod)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(content), string(again)); diff != "" {
		t.Errorf("the order of volumes, mounts and ports changes the file (-want +got):\n%s", diff)
	}
	var read corev1.Pod
	if err := yaml.UnmarshalStrict(content, &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full().Spec.Containers[0].Env, read.Spec.Containers[0].Env); diff != "" {
		t.Errorf("environment after reading the file (-want +got):\n%s", diff)
	}
}

func TestRenderRefuses(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*corev1.Pod)
		want   string
	}{
		"no name": {
			reason: "the kubelet refuses it", want: "metadata.name is required",
			change: func(pod *corev1.Pod) { pod.Name, pod.GenerateName = "", "pod-" },
		},
		"no namespace": {
			reason: "the mirror pod requires a namespace", want: "metadata.namespace is empty",
			change: func(pod *corev1.Pod) { pod.Namespace = "" },
		},
		"owner": {
			reason: "a kubelet cannot read the owner", want: "metadata has owners",
			change: func(pod *corev1.Pod) { pod.OwnerReferences = []metav1.OwnerReference{{Name: "owner"}} },
		},
		"nothing to run": {
			reason: "the kubelet refuses it", want: "spec.containers is empty",
			change: func(pod *corev1.Pod) { pod.Spec.Containers = nil },
		},
		"two references": {
			reason: "the error names all references", want: "spec.serviceAccountName, spec.volumes[1].secret; use files",
			change: func(pod *corev1.Pod) {
				pod.Spec.ServiceAccountName = "default"
				pod.Spec.Volumes = []corev1.Volume{
					{Name: "folder", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
					{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x"}}},
				}
			},
		},
		"variable of an init container": {
			reason: "init containers count", want: "spec.initContainers[0].env[0].valueFrom.configMapKeyRef",
			change: func(pod *corev1.Pod) {
				pod.Spec.InitContainers = []corev1.Container{{Env: []corev1.EnvVar{{
					Name: "x", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "x"}},
				}}}}
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := least()
			c.change(pod)
			content, err := staticpod.Render(pod)
			if err == nil || !strings.Contains(err.Error(), c.want) || content != nil {
				t.Errorf("%s: want an error with %q, got %v and %q", c.reason, c.want, err, content)
			}
		})
	}
}
