package remediation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// outOfService is the taint that makes Kubernetes delete the pods of a Node and detach their volumes at once. It may
// only be set while the host is off.
var outOfService = corev1.Taint{
	Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute,
}

// taintSince is the first version of Kubernetes in which the taint is generally available.
var taintSince = version.MajorMinor(1, 28)

// FenceFor returns the fence for the version of the API server of the workload cluster. An invalid version counts as
// old.
func FenceFor(serverVersion string) Fence {
	parsed, err := version.ParseGeneric(serverVersion)
	if err != nil || parsed.LessThan(taintSince) {
		return DeleteFence
	}
	return TaintFence
}

// Tainted returns the Node with the taint.
func Tainted(node *corev1.Node) *corev1.Node {
	if slices.ContainsFunc(node.Spec.Taints, isOutOfService) {
		return node
	}
	desired := node.DeepCopy()
	desired.Spec.Taints = append(desired.Spec.Taints, outOfService)
	return desired
}

// Untainted returns the Node without the taint.
func Untainted(node *corev1.Node) *corev1.Node {
	desired := node.DeepCopy()
	desired.Spec.Taints = slices.DeleteFunc(desired.Spec.Taints, isOutOfService)
	return desired
}

func isOutOfService(taint corev1.Taint) bool {
	return taint.Key == outOfService.Key && taint.Effect == outOfService.Effect
}

// Remaining returns the pods and volumes that have not left a Node with the taint, except for pods that stay. If such a
// pod uses a persistent volume, Remaining omits all volumes: Kubernetes keeps this volume attached, and a pod does not
// name its volumes as the Node does.
//
//	pod                                 leaves
//	is being deleted                    yes
//	has succeeded or failed             no: it does not run
//	mirror of a static pod              no: the kubelet runs it without the API server
//	tolerates the taint without an end  no
//	any other                           yes
func Remaining(node *corev1.Node, pods []corev1.Pod) []string {
	var names []string
	volumes := node.Status.VolumesAttached
	for i := range pods {
		switch {
		case leaves(&pods[i]):
			names = append(names, "Pod "+pods[i].Namespace+"/"+pods[i].Name)
		case slices.ContainsFunc(pods[i].Spec.Volumes, isPersistent):
			volumes = nil
		}
	}
	for _, volume := range volumes {
		names = append(names, "volume "+string(volume.Name))
	}
	slices.Sort(names)
	return names
}

func leaves(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case mirror:
		return false
	case !pod.DeletionTimestamp.IsZero():
		return true
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return false
	default:
		return !slices.ContainsFunc(pod.Spec.Tolerations, toleratesForEver)
	}
}

func isPersistent(volume corev1.Volume) bool {
	return volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil
}

func toleratesForEver(toleration corev1.Toleration) bool {
	return toleration.TolerationSeconds == nil && tolerates(toleration, outOfService)
}

// Backup stores annotations and labels of a Node on the remediation before the Node is deleted. It keeps keys of an
// earlier backup that the Node lacks, and omits the annotations in without.
func Backup(request *infrav1.Metal3Remediation, node *corev1.Node, without ...string) error {
	annotations := maps.Clone(node.Annotations)
	for _, key := range without {
		delete(annotations, key)
	}
	for key, now := range map[string]map[string]string{
		infrav1.NodeAnnotationsBackupAnnotation: annotations,
		infrav1.NodeLabelsBackupAnnotation:      node.Labels,
	} {
		kept, err := backedUp(request, key)
		if err != nil || kept == nil {
			// An invalid backup cannot be restored.
			kept = map[string]string{}
		}
		maps.Copy(kept, now)
		text, err := json.Marshal(kept)
		if err != nil {
			return fmt.Errorf("backing up Node %s: %w", node.Name, err)
		}
		metav1.SetMetaDataAnnotation(&request.ObjectMeta, key, string(text))
	}
	return nil
}

// Restored returns the Node with the annotations and labels of the backup that it lacks.
func Restored(request *infrav1.Metal3Remediation, node *corev1.Node) (*corev1.Node, error) {
	desired := node.DeepCopy()
	for key, target := range map[string]*map[string]string{
		infrav1.NodeAnnotationsBackupAnnotation: &desired.Annotations,
		infrav1.NodeLabelsBackupAnnotation:      &desired.Labels,
	} {
		kept, err := backedUp(request, key)
		if err != nil {
			return nil, fmt.Errorf("restoring Node %s: %w", node.Name, err)
		}
		if len(kept) == 0 {
			continue
		}
		maps.Copy(kept, *target)
		*target = kept
	}
	return desired, nil
}

// DropBackup removes the backup from the remediation.
func DropBackup(request *infrav1.Metal3Remediation) {
	delete(request.Annotations, infrav1.NodeAnnotationsBackupAnnotation)
	delete(request.Annotations, infrav1.NodeLabelsBackupAnnotation)
}

func backedUp(request *infrav1.Metal3Remediation, key string) (map[string]string, error) {
	text, exists := request.Annotations[key]
	if !exists || text == "" {
		// CAPM3 records an empty text for a Node without annotations or labels.
		return nil, nil
	}
	var kept map[string]string
	if err := json.Unmarshal([]byte(text), &kept); err != nil {
		return nil, fmt.Errorf("annotation %s is not a JSON object of texts; correct or remove it: %w", key, err)
	}
	return kept, nil
}

func hasBackup(request *infrav1.Metal3Remediation) bool {
	_, annotations := request.Annotations[infrav1.NodeAnnotationsBackupAnnotation]
	_, labels := request.Annotations[infrav1.NodeLabelsBackupAnnotation]
	return annotations || labels
}
