package plugin

import (
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// hostKind is the kind of BareMetalHosts.
func hostKind() schema.GroupKind { return schema.GroupKind{Group: "metal3.io", Kind: "BareMetalHost"} }

// runningCluster is a Cluster that clusterctl would move.
func runningCluster(name string) *clusterv1.Cluster {
	cluster := build.Cluster(name, build.InfrastructureReady())
	cluster.Status.Conditions = []metav1.Condition{
		{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue},
	}
	return cluster
}

// runningInfra is a Metal3Cluster that is ready for a move, and whose VIP the management cluster holds.
func runningInfra(name string) *infrav1.Metal3Cluster {
	infra := build.Metal3Cluster(name, build.Annotations(map[string]string{infrav1.BlockMoveAnnotation: ""}),
		build.Labels(map[string]string{clusterv1.ClusterNameLabel: name}))
	infra.Spec.Ironic = &infrav1.Ironic{ClusterID: "c1", Endpoint: infrav1.IronicEndpoint{VirtualIPs: []string{"192.0.2.2"}}}
	infra.Status.Conditions = []metav1.Condition{
		{Type: infrav1.IronicEndpointReadyCondition, Status: metav1.ConditionTrue},
		{Type: infrav1.ReadyForMoveCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReadyForMoveReason},
	}
	infra.Status.Ironic = &infrav1.IronicStatus{
		Holder:     &infrav1.IronicHolder{Kind: infrav1.HolderManagement, Name: "management"},
		KnownHosts: ptr.To(int32(1)),
		Nodes:      []infrav1.IronicNode{{Name: "node-0", ConfigHash: "h", PodsReady: ptr.To(true), Armed: ptr.To(false)}},
	}
	return infra
}

// rivalry is the condition of an endpoint with a conflicting user.
func rivalry(reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: infrav1.IronicEndpointUniqueCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message,
	}
}

// ownedHost is a host of a cluster.
func ownedHost(name, cluster string, options ...build.HostOption) *bmov1alpha1.BareMetalHost {
	options = append([]build.HostOption{
		build.Provisioned(), build.Labels(map[string]string{clusterv1.ClusterNameLabel: cluster}),
		build.Consumed(build.Metal3Machine(name, cluster)),
	}, options...)
	return build.Host(name, options...)
}

// consumer is the Metal3Machine that has claimed a host.
func consumer(name, cluster string) *infrav1.Metal3Machine {
	return build.Metal3Machine(name, cluster, build.OwnedBy(build.Machine(name, cluster)))
}

// neighbours sets the Clusters around the hosts, as hoststore does.
func (s *sight) neighbours() *sight {
	s.around = nil
	for _, cluster := range s.clusters {
		for _, infra := range s.infras {
			if s.clusterOf(infra) == cluster {
				s.around = append(s.around, pivot.NeighbourOf(cluster, infra))
			}
		}
	}
	return s
}

// definitionsOf returns definitions with all their labels, and with a storage version.
func definitionsOf(version string) []definition {
	var all []definition
	for name, kind := range map[string]schema.GroupKind{
		"baremetalhosts.metal3.io":                          hostKind(),
		"metal3clusters.infrastructure.cluster.x-k8s.io":    {Group: infrav1.GroupVersion.Group, Kind: "Metal3Cluster"},
		"clusters.cluster.x-k8s.io":                         clusterKind(),
		"machines.cluster.x-k8s.io":                         {Group: clusterv1.GroupVersion.Group, Kind: "Machine"},
		"certificates.cert-manager.io":                      {Group: "cert-manager.io", Kind: "Certificate"},
		"awsclusters.infrastructure.cluster.x-k8s.io":       {Group: infrav1.GroupVersion.Group, Kind: "AWSCluster"},
		"clusterresourcesets.addons.cluster.x-k8s.io":       {Group: "addons.cluster.x-k8s.io", Kind: "ClusterResourceSet"},
		"metal3clustertemplates.infrastructure.example.com": {Group: "infrastructure.example.com", Kind: "Metal3Thing"},
	} {
		labels := map[string]string{infrav1.DiscoverLabel: ""}
		for _, label := range pivot.MoveLabels(name) {
			labels[label] = ""
		}
		all = append(all, definition{Name: name, Storage: version, Kind: kind, Labels: labels})
	}
	// The API server lists them in this order.
	slices.SortFunc(all, func(a, b definition) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// vip is the Ironic endpoint of runningInfra.
const vip = "https://192.0.2.2:6385"

// bmo is a running BMO with an Ironic.
func bmo(endpoint string) operator {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "baremetal-operator-system", Name: "bmo"}}
	deployment.Status.AvailableReplicas = 1
	return operator{deployment, endpointIn(endpoint)}
}

// ready is a source that can be moved.
func ready() *scope {
	infra := runningInfra("c")
	machine := build.Machine("machine", "c")
	machine.Status.NodeRef.Name = "node-0"
	host := ownedHost("host", "c")
	return &scope{
		sight: (&sight{
			namespace: build.DefaultNamespace, hosts: []*bmov1alpha1.BareMetalHost{host},
			clusters: []*clusterv1.Cluster{runningCluster("c")}, infras: []*infrav1.Metal3Cluster{infra},
		}).neighbours(),
		operators: []operator{bmo(vip)}, everywhere: []*infrav1.Metal3Cluster{infra},
		identity: "source", machines: []*clusterv1.Machine{machine}, definitions: definitionsOf("v1"),
		providers: []clusterctlv1.Provider{provider("v1.15.0")},
		naming:    []metav1.Object{consumer("host", "c")},
		objects:   map[schema.GroupKind]belongings{hostKind(): {"host": partial("host", "c")}},
		secrets:   belongings{"host-bmc": owned("host-bmc")},
	}
}

// empty is a target without objects that is ready for a move.
func empty() *scope {
	return &scope{
		sight: &sight{namespace: build.DefaultNamespace}, identity: "target", definitions: definitionsOf("v1"),
		operators: []operator{bmo(vip + "/v1/")},
		providers: []clusterctlv1.Provider{provider("v1.15.0")},
	}
}

func provider(version string) clusterctlv1.Provider {
	return clusterctlv1.Provider{
		ObjectMeta:   metav1.ObjectMeta{Namespace: "capm3-system", Name: "infrastructure-metal3"},
		ProviderName: "metal3", Type: string(clusterctlv1.InfrastructureProviderType), Version: version,
	}
}

func partial(name, cluster string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if cluster != "" {
		object.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
	}
	return object
}

func owned(name string) *metav1.PartialObjectMetadata {
	object := partial(name, "")
	object.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: bmov1alpha1.GroupVersion.String(), Kind: "BareMetalHost", Name: "host",
	}}
	return object
}

func namesOf(hosts []*bmov1alpha1.BareMetalHost) []string {
	var names []string
	for _, host := range hosts {
		names = append(names, host.Name)
	}
	return names
}
