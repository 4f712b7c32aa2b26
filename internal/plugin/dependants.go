package plugin

import (
	"context"
	"fmt"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// dependants returns the namespaces of a cluster whose hosts the Ironic of a clusterID serves, without the hosts that
// the filter omits. It returns none for a cluster without the kinds.
func (c *cluster) dependants(ctx context.Context, clusterID string, drop func(*bmov1alpha1.BareMetalHost) bool,
) ([]pivot.Dependants, error) {
	hosts, err := c.listHosts(ctx, metav1.NamespaceAll)
	if lacksKind(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list infrav1.Metal3ClusterList
	if err := c.client.List(ctx, &list); err != nil && !lacksKind(err) {
		return nil, fmt.Errorf("listing Metal3Clusters: %w", err)
	}
	infras := make([]*infrav1.Metal3Cluster, 0, len(list.Items))
	for i := range list.Items {
		infras = append(infras, &list.Items[i])
	}
	return pivot.DependantsOf(clusterID, slices.DeleteFunc(slices.Clone(hosts), drop), infras), nil
}

// readDependants reads which other namespaces of the source depend on the Ironics of the clusters that move.
func (c *cluster) readDependants(ctx context.Context, s *scope) error {
	if c.side != sourceSide {
		return nil
	}
	told := map[string]bool{}
	for _, infra := range s.infras {
		if infra.Spec.Ironic == nil || infra.Spec.Ironic.ClusterID == "" || told[infra.Spec.Ironic.ClusterID] {
			continue
		}
		clusterID := infra.Spec.Ironic.ClusterID
		told[clusterID] = true
		found, err := c.dependants(ctx, clusterID, func(host *bmov1alpha1.BareMetalHost) bool {
			return host.Namespace == s.namespace
		})
		if err != nil {
			return err
		}
		for _, namespace := range found {
			s.dependants = append(s.dependants, pivot.StillServed(clusterID, namespace).String())
		}
	}
	return nil
}

// abandoned returns obstacles for the namespaces of the management cluster that depend on the Ironic that is scaled
// down. A host that has arrived in the target is a leftover here.
func (c *handoverCommand) abandoned(ctx context.Context, clusterID string, arrived []*bmov1alpha1.BareMetalHost,
) ([]pivot.Obstacle, error) {
	if c.management == c.home {
		return nil, nil
	}
	known := map[client.ObjectKey]bool{}
	for _, host := range arrived {
		known[client.ObjectKeyFromObject(host)] = true
	}
	found, err := c.management.dependants(ctx, clusterID, func(host *bmov1alpha1.BareMetalHost) bool {
		return known[client.ObjectKeyFromObject(host)]
	})
	if err != nil {
		return nil, c.management.blind(err)
	}
	var obstacles []pivot.Obstacle
	for _, namespace := range found {
		obstacles = append(obstacles, pivot.StillServed(clusterID, namespace))
	}
	return obstacles, nil
}
