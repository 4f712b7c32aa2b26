package build

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// EndpointHost and EndpointPort are the control-plane endpoint, unless a test sets another.
const (
	EndpointHost = "192.0.2.10"
	EndpointPort = 6443
)

// ClusterOption changes a Cluster.
type ClusterOption interface{ applyToCluster(*clusterv1.Cluster) }

type clusterOption func(*clusterv1.Cluster)

func (o clusterOption) applyToCluster(cluster *clusterv1.Cluster) { o(cluster) }
func (o ObjectOption) applyToCluster(cluster *clusterv1.Cluster)  { o(cluster) }

// Cluster returns a Cluster whose infrastructure is the Metal3Cluster of the same name.
func Cluster(name string, options ...ClusterOption) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: meta(name),
		Spec:       clusterv1.ClusterSpec{InfrastructureRef: infrastructure("Metal3Cluster", name)},
	}
	for _, option := range options {
		option.applyToCluster(cluster)
	}
	return cluster
}

// InfrastructureReady marks the infrastructure of a Cluster as provisioned.
func InfrastructureReady() ClusterOption {
	return clusterOption(func(cluster *clusterv1.Cluster) {
		ready := true
		cluster.Status.Initialization.InfrastructureProvisioned = &ready
	})
}

// ClusterPaused pauses a Cluster.
func ClusterPaused() ClusterOption {
	return clusterOption(func(cluster *clusterv1.Cluster) {
		paused := true
		cluster.Spec.Paused = &paused
	})
}

// Metal3ClusterOption changes a Metal3Cluster.
type Metal3ClusterOption interface{ applyToMetal3Cluster(*infrav1.Metal3Cluster) }

type metal3ClusterOption func(*infrav1.Metal3Cluster)

func (o metal3ClusterOption) applyToMetal3Cluster(cluster *infrav1.Metal3Cluster) { o(cluster) }
func (o ObjectOption) applyToMetal3Cluster(cluster *infrav1.Metal3Cluster)        { o(cluster) }

// Metal3Cluster returns a Metal3Cluster with a control-plane endpoint.
func Metal3Cluster(name string, options ...Metal3ClusterOption) *infrav1.Metal3Cluster {
	cluster := &infrav1.Metal3Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Cluster"},
		ObjectMeta: meta(name),
		Spec: infrav1.Metal3ClusterSpec{
			ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: EndpointHost, Port: EndpointPort},
		},
	}
	for _, option := range options {
		option.applyToMetal3Cluster(cluster)
	}
	return cluster
}

// EndpointOption is an option for kinds with a control-plane endpoint.
type EndpointOption clusterv1.APIEndpoint

// Endpoint sets the control-plane endpoint. An empty host removes it.
func Endpoint(host string, port int32) EndpointOption {
	return EndpointOption{Host: host, Port: port}
}

func (o EndpointOption) applyToCluster(cluster *clusterv1.Cluster) {
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint(o)
}

func (o EndpointOption) applyToMetal3Cluster(cluster *infrav1.Metal3Cluster) {
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint(o)
}

// Domains sets the failure domains of a Metal3Cluster, all of them for control planes.
func Domains(names ...string) Metal3ClusterOption {
	return metal3ClusterOption(func(cluster *infrav1.Metal3Cluster) {
		fit := true
		for _, name := range names {
			cluster.Spec.FailureDomains = append(cluster.Spec.FailureDomains,
				clusterv1.FailureDomain{Name: name, ControlPlane: &fit})
		}
	})
}

// Namespace returns a namespace.
func Namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
}

func infrastructure(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kind, Name: name}
}
