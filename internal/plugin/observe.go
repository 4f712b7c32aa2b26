package plugin

import (
	"context"
	"fmt"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// providerName is the value of label cluster.x-k8s.io/provider of the objects of this provider.
const providerName = "infrastructure-metal3"

// scheme has the kinds that are read completely. Only the metadata of other kinds is read.
func scheme() *runtime.Scheme {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, eventsv1.AddToScheme, coordinationv1.AddToScheme,
		apiextensionsv1.AddToScheme, clusterv1.AddToScheme, clusterctlv1.AddToScheme, bmov1alpha1.AddToScheme,
		infrav1.AddToScheme,
	} {
		utilruntime.Must(add(kinds))
	}
	// All definitions together are megabytes of JSON.
	utilruntime.Must(apiutil.AddToProtobufScheme(apiextensionsv1.AddToScheme))
	return kinds
}

// sight has the observed objects of one namespace of a cluster.
type sight struct {
	namespace string
	hosts     []*bmov1alpha1.BareMetalHost
	clusters  []*clusterv1.Cluster
	infras    []*infrav1.Metal3Cluster

	// around are the Clusters that decide about the hosts.
	around []pivot.Neighbour
}

// clusterOf is the Cluster whose infrastructure a Metal3Cluster is. Nil if there is none.
func (s *sight) clusterOf(infra *infrav1.Metal3Cluster) *clusterv1.Cluster {
	for _, cluster := range s.clusters {
		reference := cluster.Spec.InfrastructureRef
		if cluster.Namespace == infra.Namespace && reference.Kind == "Metal3Cluster" && reference.Name == infra.Name {
			return cluster
		}
	}
	return nil
}

// blind adds the cluster and the remedy to an error of a read.
func (c *cluster) blind(err error) error {
	return fmt.Errorf("reading the %s cluster: %w; check that %s names it, that it answers, "+
		"and that you may read it", c.side, err, c.flag)
}

// look reads a namespace. It returns an error for a cluster without the kinds of this provider or of BMO.
func (c *cluster) look(ctx context.Context, namespace string) (*sight, error) {
	hosts, err := c.readHosts(ctx, namespace)
	if err != nil {
		return nil, c.blind(err)
	}
	clusters, infras, err := c.readClusters(ctx, namespace)
	if err != nil {
		return nil, c.blind(err)
	}
	return sightOf(namespace, hosts, clusters, infras), nil
}

// readClusters reads the Clusters of a namespace, and all Metal3Clusters: those of other namespaces may have the Ironic
// of its hosts.
func (c *cluster) readClusters(ctx context.Context, namespace string) (
	[]clusterv1.Cluster, []infrav1.Metal3Cluster, error,
) {
	var clusters clusterv1.ClusterList
	if err := c.client.List(ctx, &clusters, client.InNamespace(namespace)); err != nil {
		return nil, nil, fmt.Errorf("listing Clusters: %w", err)
	}
	var infras infrav1.Metal3ClusterList
	if err := c.client.List(ctx, &infras); err != nil {
		return nil, nil, fmt.Errorf("listing Metal3Clusters: %w", err)
	}
	return clusters.Items, infras.Items, nil
}

// sightOf selects the objects of a namespace. An empty namespace selects all. It omits Metal3Clusters that clusterctl
// deletes: clusterctl has replaced their annotations, so they have no epoch.
func sightOf(namespace string, hosts []*bmov1alpha1.BareMetalHost, clusters []clusterv1.Cluster,
	infras []infrav1.Metal3Cluster,
) *sight {
	seen := &sight{namespace: namespace}
	isHere := func(object client.Object) bool { return namespace == "" || object.GetNamespace() == namespace }
	for _, host := range hosts {
		if isHere(host) {
			seen.hosts = append(seen.hosts, host)
		}
	}
	var here []clusterv1.Cluster
	for i := range clusters {
		if isHere(&clusters[i]) {
			here = append(here, clusters[i])
			seen.clusters = append(seen.clusters, &clusters[i])
		}
	}
	for i := range infras {
		if isHere(&infras[i]) && !infrav1.IsLeaving(&infras[i]) {
			seen.infras = append(seen.infras, &infras[i])
		}
	}
	seen.around = pivot.NeighboursOf(namespace, here, infras)
	return seen
}

// lookEverywhere reads all namespaces with a Metal3Cluster or a host. It lists each kind once. A target without the
// kinds counts as empty.
func (c *cluster) lookEverywhere(ctx context.Context) ([]*sight, error) {
	hosts, err := c.readHosts(ctx, metav1.NamespaceAll)
	if err != nil {
		return nil, c.missing(c.blind(err))
	}
	clusters, infras, err := c.readClusters(ctx, metav1.NamespaceAll)
	if err != nil {
		return nil, c.missing(c.blind(err))
	}
	found := sets.New[string]()
	for _, host := range hosts {
		found.Insert(host.Namespace)
	}
	for i := range infras {
		found.Insert(infras[i].Namespace)
	}
	var sights []*sight
	for _, namespace := range sets.List(found) {
		sights = append(sights, sightOf(namespace, hosts, clusters, infras))
	}
	return sights, nil
}

// lookLeniently calls look. A target without the kinds counts as empty.
func (c *cluster) lookLeniently(ctx context.Context, namespace string) (*sight, error) {
	seen, err := c.look(ctx, namespace)
	if c.side == targetSide && lacksKind(err) {
		return &sight{namespace: namespace}, nil
	}
	return seen, err
}

// lacksKind returns true for the error of a kind that is not installed.
func lacksKind(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// isPermanent returns true for the error of a read that fails again: the kind is not installed, or the user may not
// read it.
func isPermanent(err error) bool {
	return lacksKind(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// manager returns the obstacles of the manager of this provider. Empty if it runs.
func (c *cluster) manager(ctx context.Context) ([]pivot.Obstacle, error) {
	managers, err := c.managers(ctx)
	if err != nil {
		return nil, err
	}
	return managerObstacles(managers), nil
}

// managers reads the Deployments of the manager of this provider. CAPM3 gives its Deployment the same label.
func (c *cluster) managers(ctx context.Context) ([]appsv1.Deployment, error) {
	var deployments appsv1.DeploymentList
	ours := client.MatchingLabels{clusterv1.ProviderNameLabel: providerName}
	if err := c.client.List(ctx, &deployments, ours); err != nil {
		return nil, c.blind(fmt.Errorf("listing Deployments: %w", err))
	}
	return deployments.Items, nil
}

// managerObstacles returns none if one of the Deployments runs. The condition is also true with no replicas.
func managerObstacles(deployments []appsv1.Deployment) []pivot.Obstacle {
	if len(deployments) == 0 {
		return []pivot.Obstacle{pivot.AboutNothing().Blocks(pivot.CodeManagerDown, "install it with clusterctl init",
			"the manager of this provider is not installed: there is no Deployment with the label %s=%s",
			clusterv1.ProviderNameLabel, providerName)}
	}
	available := func(deployment appsv1.Deployment) bool { return deployment.Status.AvailableReplicas > 0 }
	if slices.ContainsFunc(deployments, available) {
		return nil
	}
	first := &deployments[0]
	return []pivot.Obstacle{pivot.About("Deployment", first).Blocks(pivot.CodeManagerDown, "check its pods",
		"the manager of this provider does not run: Deployment %s has 0 of %d replicas available",
		client.ObjectKeyFromObject(first), replicas(first))}
}
