package staticpod

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Render returns the manifest of a static pod. The same pod gives the same bytes. Keys, volumes, mounts and ports are
// sorted. Containers, arguments and environment variables are not, because their order has a meaning. Render does not
// change the pod.
//
// Render returns an error for a pod without name, namespace or containers, with a generated name, owners or finalizers,
// and for references to objects of an API server. The error names all of them. Render omits the status.
func Render(pod *corev1.Pod) ([]byte, error) {
	if err := check(pod); err != nil {
		return nil, fmt.Errorf("rendering static pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	content, err := marshal(sorted(pod))
	if err != nil {
		return nil, fmt.Errorf("rendering static pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return content, nil
}

func check(pod *corev1.Pod) error {
	switch {
	case pod.Name == "" || pod.GenerateName != "":
		return errors.New("metadata.name is required, and metadata.generateName is not supported; set a name")
	case pod.Namespace == "":
		return errors.New("metadata.namespace is empty; the mirror pod would be in namespace default")
	case len(pod.OwnerReferences) > 0 || len(pod.Finalizers) > 0:
		return errors.New("metadata has owners or finalizers, which are for objects of an API server; leave them out")
	case len(pod.Spec.Containers) == 0:
		return errors.New("spec.containers is empty; set at least one")
	}
	if references := References(&pod.Spec); len(references) > 0 {
		return fmt.Errorf("a static pod cannot refer to objects of an API server, but these do: %s; use files of the node",
			strings.Join(references, ", "))
	}
	return nil
}

func sorted(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	slices.SortStableFunc(pod.Spec.Volumes, func(a, b corev1.Volume) int { return cmp.Compare(a.Name, b.Name) })
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			slices.SortStableFunc(containers[i].VolumeMounts, func(a, b corev1.VolumeMount) int {
				return cmp.Compare(a.MountPath, b.MountPath)
			})
			slices.SortStableFunc(containers[i].Ports, func(a, b corev1.ContainerPort) int {
				return cmp.Compare(a.ContainerPort, b.ContainerPort)
			})
		}
	}
	return pod
}

// manifest is a pod without empty fields. Of the metadata it has the fields that a kubelet reads.
type manifest struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metadata       `json:"metadata"`
	Spec            corev1.PodSpec `json:"spec"`
}

type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// marshal returns the output of sigs.k8s.io/yaml, which converts the pod to JSON and parses it as YAML. marshal builds
// the YAML tree directly, which takes half the time.
func marshal(pod *corev1.Pod) ([]byte, error) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&manifest{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		Metadata: metadata{
			Name: pod.Name, Namespace: pod.Namespace, Labels: pod.Labels, Annotations: pod.Annotations,
		},
		Spec: pod.Spec,
	})
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(tree)
}
