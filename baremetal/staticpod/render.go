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

// Render writes the manifest of a static pod, with the same bytes for the same pod. Keys, volumes, mounts and ports are
// sorted; containers, arguments and environment variables are not, because their order has a meaning. The pod itself is
// not changed.
//
// It fails for a pod without name, namespace or containers, for one with a generated name, owners or finalizers, and
// for one that refers to objects of an API server; the error names all of these places. The status is left out.
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
		return errors.New("metadata.name is needed and metadata.generateName is not; give the pod a name")
	case pod.Namespace == "":
		return errors.New("metadata.namespace is empty; the mirror of the pod would land in default")
	case len(pod.OwnerReferences) > 0 || len(pod.Finalizers) > 0:
		return errors.New("metadata has owners or finalizers, which are for objects of an API server; leave them out")
	case len(pod.Spec.Containers) == 0:
		return errors.New("spec.containers is empty; give at least one")
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

// manifest is a pod as a person would write it. Of the metadata it has what a kubelet reads.
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

// marshal writes what sigs.k8s.io/yaml would. That makes JSON of the pod and reads it as YAML, to get at the tree that
// it writes in the end with yaml/v2; here the pod is made into the tree at once, which takes half the time.
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
