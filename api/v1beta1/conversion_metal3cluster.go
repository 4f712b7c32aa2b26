package v1beta1

import (
	"context"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// ConvertMetal3ClusterToHub fills a v1beta2 Metal3Cluster from a v1beta1 one.
func ConvertMetal3ClusterToHub(_ context.Context, src *Metal3Cluster, dst *infrav1.Metal3Cluster) error {
	return metal3ClusterVersions(src.DeepCopy(), dst).toHub()
}

// ConvertMetal3ClusterFromHub fills a v1beta1 Metal3Cluster from a v1beta2 one.
func ConvertMetal3ClusterFromHub(_ context.Context, src *infrav1.Metal3Cluster, dst *Metal3Cluster) error {
	return metal3ClusterVersions(dst, src.DeepCopy()).toSpoke()
}

func metal3ClusterVersions(spoke *Metal3Cluster, hub *infrav1.Metal3Cluster) versions {
	return versions{
		spoke: spoke, hub: hub, spokeMeta: &spoke.ObjectMeta, hubMeta: &hub.ObjectMeta,
		parts: map[string]part{
			"spec":   newPart(&spoke.Spec, &hub.Spec, clusterSpecToHub, clusterSpecFromHub),
			"status": newPart(&spoke.Status, &hub.Status, clusterStatusToHub, clusterStatusFromHub),
		},
	}
}

func clusterSpecToHub(in Metal3ClusterSpec) infrav1.Metal3ClusterSpec {
	return infrav1.Metal3ClusterSpec{
		ControlPlaneEndpoint: endpointToHub(in.ControlPlaneEndpoint),
		CloudProviderEnabled: cloudProviderToHub(in),
		FailureDomains:       failureDomainsToHub(in.FailureDomains),
	}
}

func clusterSpecFromHub(in infrav1.Metal3ClusterSpec) Metal3ClusterSpec {
	return Metal3ClusterSpec{
		ControlPlaneEndpoint: APIEndpoint{
			Host: in.ControlPlaneEndpoint.Host, Port: int(in.ControlPlaneEndpoint.Port),
		},
		CloudProviderEnabled: in.CloudProviderEnabled,
		FailureDomains:       failureDomainsFromHub(in.FailureDomains),
	}
}

// endpointToHub drops a port that is out of range.
func endpointToHub(in APIEndpoint) clusterv1.APIEndpoint {
	out := clusterv1.APIEndpoint{Host: clip(in.Host, maxHost)}
	if in.Port > 0 && in.Port <= maxPort {
		out.Port = toInt32(in.Port)
	}
	return out
}

// cloudProviderToHub uses the older field if the newer one is missing.
//
//	cloudProviderEnabled  noCloudProvider  v1beta2
//	set                   any              as it is
//	missing               set              the opposite of noCloudProvider
//	missing               missing          missing
func cloudProviderToHub(in Metal3ClusterSpec) *bool {
	if in.CloudProviderEnabled != nil || in.NoCloudProvider == nil {
		return in.CloudProviderEnabled
	}
	return ptr.To(!*in.NoCloudProvider)
}

func clusterStatusToHub(in Metal3ClusterStatus) infrav1.Metal3ClusterStatus {
	return infrav1.Metal3ClusterStatus{
		Conditions:     conditionsToHub(in.V1Beta2),
		Initialization: initializationToHub(in.Ready),
		FailureDomains: failureDomainsToHub(in.FailureDomains),
		LastUpdated:    in.LastUpdated,
		Deprecated:     deprecatedToHub(in.Conditions, in.FailureReason, in.FailureMessage),
	}
}

func clusterStatusFromHub(in infrav1.Metal3ClusterStatus) Metal3ClusterStatus {
	deprecated := deprecatedFromHub(in.Deprecated)
	return Metal3ClusterStatus{
		LastUpdated:    in.LastUpdated,
		FailureReason:  unlessZero(deprecated.FailureReason),
		FailureMessage: unlessZero(deprecated.FailureMessage),
		FailureDomains: failureDomainsFromHub(in.FailureDomains),
		Ready:          ptr.Deref(in.Initialization.Provisioned, false),
		Conditions:     deprecatedConditionsFromHub(deprecated.Conditions),
		V1Beta2:        conditionsFromHub(in.Conditions),
	}
}
