package metal3machine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// labelPrefixes returns the annotation with the prefixes of labels to copy to Nodes. Empty means none.
func (s *scope) labelPrefixes() string {
	if s.infra == nil {
		return ""
	}
	return s.infra.Annotations[infrav1.LabelSyncPrefixesAnnotation]
}

// syncLabels copies labels of the host to the Node of the machine. It does nothing for a paused host or Metal3Cluster.
func (r *Reconciler) syncLabels(ctx context.Context, s *scope) (outcome.Outcome, error) {
	prefixes, invalid := host.SyncPrefixes(s.labelPrefixes())
	if len(invalid) > 0 {
		return outcome.Blocked(infrav1.InvalidLabelPrefixReason, fmt.Sprintf(
			"Annotation %s of Metal3Cluster %s lists %q, which are not valid prefixes of labels: list DNS names such as "+
				"example.com, separated by commas", infrav1.LabelSyncPrefixesAnnotation, s.infra.Name, invalid)), nil
	}
	if _, paused := s.host.Annotations[bmov1alpha1.PausedAnnotation]; paused || flow.Paused(nil, s.infra) != "" {
		return outcome.Done(), nil
	}
	node, cluster := s.owner.Status.NodeRef.Name, client.ObjectKeyFromObject(s.cluster)
	if node == "" {
		return outcome.Waiting(infrav1.WaitingForNodeReason, fmt.Sprintf(
			"Waiting for Cluster API to set status.nodeRef of Machine %s", s.owner.Name)), nil
	}
	labels, found, err := r.Nodes.Labels(ctx, cluster, node)
	switch {
	case errors.Is(err, workload.ErrUnreachable):
		return r.Nodes.WaitForAPIServer(ctx, cluster), nil
	case err != nil:
		return outcome.Done(), err
	case !found:
		return outcome.Waiting(infrav1.WaitingForNodeReason, fmt.Sprintf("Waiting for Node %s", node)), nil
	}
	changes := host.NodeLabels(prefixes, s.host.Labels, labels.All, labels.OfMachine)
	if len(changes) == 0 {
		return outcome.Done(), nil
	}
	return outcome.Done(), r.Nodes.SetLabels(ctx, cluster, node, changes)
}

// labelsSynced is the condition of a machine with labelPrefixes.
var labelsSynced = condition{
	Type: infrav1.NodeLabelsSyncedCondition, Initial: infrav1.WaitingForNodeReason, Failed: infrav1.LabelSyncFailedReason,
	Aside: true,
	Done: func(s *scope) flow.Reached {
		prefixes, _ := host.SyncPrefixes(s.labelPrefixes())
		return flow.Reached{
			Reason:  infrav1.NodeLabelsSyncedReason,
			Message: "The Node has the labels of the host with the prefixes " + strings.Join(prefixes, ", "),
		}
	},
}
