package v1beta1

import (
	"context"

	"k8s.io/utils/ptr"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// ConvertMetal3MachineToHub fills a v1beta2 Metal3Machine from a v1beta1 one.
func ConvertMetal3MachineToHub(_ context.Context, src *Metal3Machine, dst *infrav1.Metal3Machine) error {
	return metal3MachineVersions(src.DeepCopy(), dst).toHub()
}

// ConvertMetal3MachineFromHub fills a v1beta1 Metal3Machine from a v1beta2 one.
func ConvertMetal3MachineFromHub(_ context.Context, src *infrav1.Metal3Machine, dst *Metal3Machine) error {
	return metal3MachineVersions(dst, src.DeepCopy()).toSpoke()
}

func metal3MachineVersions(spoke *Metal3Machine, hub *infrav1.Metal3Machine) versions {
	return versions{
		spoke: spoke, hub: hub, spokeMeta: &spoke.ObjectMeta, hubMeta: &hub.ObjectMeta,
		parts: map[string]part{
			"spec":   newPart(&spoke.Spec, &hub.Spec, machineSpecToHub, machineSpecFromHub),
			"status": newPart(&spoke.Status, &hub.Status, machineStatusToHub, machineStatusFromHub),
		},
	}
}

func machineSpecToHub(in Metal3MachineSpec) infrav1.Metal3MachineSpec {
	return infrav1.Metal3MachineSpec{
		ProviderID:            clip(ptr.Deref(in.ProviderID, ""), maxProviderID),
		Image:                 imageToHub(in.Image),
		CustomDeploy:          (*infrav1.CustomDeploy)(in.CustomDeploy),
		UserData:              in.UserData,
		DataTemplate:          referenceToHub(in.DataTemplate),
		MetaData:              in.MetaData,
		NetworkData:           in.NetworkData,
		HostSelector:          hostSelectorToHub(in.HostSelector),
		AutomatedCleaningMode: ptr.Deref(in.AutomatedCleaningMode, ""),
		FailureDomain:         clip(ptr.Deref(in.FailureDomain, ""), maxFailureDomain),
	}
}

func machineSpecFromHub(in infrav1.Metal3MachineSpec) Metal3MachineSpec {
	return Metal3MachineSpec{
		ProviderID:            unlessZero(in.ProviderID),
		Image:                 imageFromHub(in.Image),
		CustomDeploy:          (*CustomDeploy)(in.CustomDeploy),
		UserData:              in.UserData,
		HostSelector:          hostSelectorFromHub(in.HostSelector),
		DataTemplate:          referenceFromHub(in.DataTemplate),
		MetaData:              in.MetaData,
		NetworkData:           in.NetworkData,
		AutomatedCleaningMode: unlessZero(in.AutomatedCleaningMode),
		FailureDomain:         unlessZero(in.FailureDomain),
	}
}

// imageToHub returns nil for an empty image: v1beta1 does not distinguish the two.
func imageToHub(in Image) *infrav1.Image {
	return unlessZero(infrav1.Image{
		URL:          in.URL,
		Checksum:     in.Checksum,
		ChecksumType: ptr.Deref(in.ChecksumType, ""),
		DiskFormat:   ptr.Deref(in.DiskFormat, ""),
	})
}

func imageFromHub(in *infrav1.Image) Image {
	image := ptr.Deref(in, infrav1.Image{})
	return Image{
		URL:          image.URL,
		Checksum:     image.Checksum,
		ChecksumType: unlessZero(image.ChecksumType),
		DiskFormat:   unlessZero(image.DiskFormat),
	}
}

func hostSelectorToHub(in HostSelector) infrav1.HostSelector {
	return infrav1.HostSelector{
		MatchLabels: in.MatchLabels,
		MatchExpressions: convertList(in.MatchExpressions,
			func(in HostSelectorRequirement) infrav1.HostSelectorRequirement {
				return infrav1.HostSelectorRequirement(in)
			}),
	}
}

func hostSelectorFromHub(in infrav1.HostSelector) HostSelector {
	return HostSelector{
		MatchLabels: in.MatchLabels,
		MatchExpressions: convertList(in.MatchExpressions,
			func(in infrav1.HostSelectorRequirement) HostSelectorRequirement {
				return HostSelectorRequirement(in)
			}),
	}
}

func machineStatusToHub(in Metal3MachineStatus) infrav1.Metal3MachineStatus {
	return infrav1.Metal3MachineStatus{
		Conditions:     conditionsToHub(in.V1Beta2),
		Initialization: initializationToHub(in.Ready),
		Addresses: convertList(in.Addresses, func(in clusterv1beta1.MachineAddress) clusterv1.MachineAddress {
			return clusterv1.MachineAddress{Type: clusterv1.MachineAddressType(in.Type), Address: in.Address}
		}),
		UserData:     in.UserData,
		MetaData:     in.MetaData,
		NetworkData:  in.NetworkData,
		RenderedData: referenceToHub(in.RenderedData),
		LastUpdated:  in.LastUpdated,
		Deprecated:   deprecatedToHub(in.Conditions, in.FailureReason, in.FailureMessage),
	}
}

func machineStatusFromHub(in infrav1.Metal3MachineStatus) Metal3MachineStatus {
	deprecated := deprecatedFromHub(in.Deprecated)
	return Metal3MachineStatus{
		LastUpdated:    in.LastUpdated,
		FailureReason:  unlessZero(deprecated.FailureReason),
		FailureMessage: unlessZero(deprecated.FailureMessage),
		Addresses: convertList(in.Addresses, func(in clusterv1.MachineAddress) clusterv1beta1.MachineAddress {
			return clusterv1beta1.MachineAddress{Type: clusterv1beta1.MachineAddressType(in.Type), Address: in.Address}
		}),
		Ready:        ptr.Deref(in.Initialization.Provisioned, false),
		UserData:     in.UserData,
		RenderedData: referenceFromHub(in.RenderedData),
		MetaData:     in.MetaData,
		NetworkData:  in.NetworkData,
		Conditions:   deprecatedConditionsFromHub(deprecated.Conditions),
		V1Beta2:      conditionsFromHub(in.Conditions),
	}
}
