package host

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// SyncPrefixes parses the annotation of a Metal3Cluster that lists the prefixes of labels to copy from hosts to Nodes,
// separated by commas. It also returns the values that are not DNS subdomains.
func SyncPrefixes(annotation string) (prefixes, invalid []string) {
	for text := range strings.SplitSeq(annotation, ",") {
		switch prefix := strings.TrimSpace(text); {
		case prefix == "":
		case len(validation.IsDNS1123Subdomain(prefix)) > 0:
			invalid = append(invalid, prefix)
		default:
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes, invalid
}

// NodeLabels returns the changes that copy the labels with the prefixes from a host to its Node. A nil value removes a
// label.
//
//	label of the host   of the Node   prefix                    change
//	value               other, none   any                       set to the value
//	none                value         any but of Kubernetes     removed
//	none                value         kubernetes.io, k8s.io     none: the kubelet, kubeadm or a cloud provider set it
//	any                 any           metal3.io/uuid, hostname  none: they identify the Node
//	any                 any           any, and ofMachine        none: Cluster API sets it, and would set it again
//
// ofMachine are the names of the labels that Cluster API copies from the Machine to the Node.
func NodeLabels(prefixes []string, host, node map[string]string, ofMachine []string) map[string]*string {
	changes := map[string]*string{}
	wanted, fixed := sets.New(prefixes...), sets.New(ofMachine...).Insert(infrav1.HostUIDLabel, corev1.LabelHostname)
	synced := func(label string) (ofKubernetes, ok bool) {
		prefix, _, hasPrefix := strings.Cut(label, "/")
		if !hasPrefix || !wanted.Has(prefix) || fixed.Has(label) {
			return false, false
		}
		return isOfKubernetes(prefix), true
	}
	for label := range node {
		ofKubernetes, ok := synced(label)
		if _, onHost := host[label]; ok && !onHost && !ofKubernetes {
			changes[label] = nil
		}
	}
	for label, value := range host {
		_, ok := synced(label)
		if current, onNode := node[label]; ok && (!onNode || current != value) {
			changes[label] = &value
		}
	}
	return changes
}

func isOfKubernetes(prefix string) bool {
	return slices.ContainsFunc([]string{"kubernetes.io", "k8s.io"}, func(domain string) bool {
		return prefix == domain || strings.HasSuffix(prefix, "."+domain)
	})
}
