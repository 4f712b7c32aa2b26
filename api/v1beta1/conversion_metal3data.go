package v1beta1

import (
	"context"
	"math"

	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// ConvertMetal3DataToHub fills a v1beta2 Metal3Data from a v1beta1 one.
func ConvertMetal3DataToHub(_ context.Context, src *Metal3Data, dst *infrav1.Metal3Data) error {
	return metal3DataVersions(src.DeepCopy(), dst).toHub()
}

// ConvertMetal3DataFromHub fills a v1beta1 Metal3Data from a v1beta2 one.
func ConvertMetal3DataFromHub(_ context.Context, src *infrav1.Metal3Data, dst *Metal3Data) error {
	return metal3DataVersions(dst, src.DeepCopy()).toSpoke()
}

func metal3DataVersions(spoke *Metal3Data, hub *infrav1.Metal3Data) versions {
	return versions{
		spoke: spoke, hub: hub, spokeMeta: &spoke.ObjectMeta, hubMeta: &hub.ObjectMeta,
		parts: map[string]part{
			"spec":   newPart(&spoke.Spec, &hub.Spec, dataSpecToHub, dataSpecFromHub),
			"status": newPart(&spoke.Status, &hub.Status, dataStatusToHub, dataStatusFromHub),
		},
	}
}

// dataSpecToHub always sets the index: v1beta1 omits index 0.
func dataSpecToHub(in Metal3DataSpec) infrav1.Metal3DataSpec {
	return infrav1.Metal3DataSpec{
		Index:       ptr.To(bounded(in.Index, 0, math.MaxInt32)),
		Template:    referenceToHub(in.Template),
		Claim:       referenceToHub(in.Claim),
		MetaData:    in.MetaData,
		NetworkData: in.NetworkData,
	}
}

func dataSpecFromHub(in infrav1.Metal3DataSpec) Metal3DataSpec {
	return Metal3DataSpec{
		Index:       int(ptr.Deref(in.Index, 0)),
		MetaData:    in.MetaData,
		NetworkData: in.NetworkData,
		Claim:       referenceFromHub(in.Claim),
		Template:    referenceFromHub(in.Template),
	}
}

func dataStatusToHub(in Metal3DataStatus) infrav1.Metal3DataStatus {
	return infrav1.Metal3DataStatus{Ready: unlessZero(in.Ready), ErrorMessage: ptr.Deref(in.ErrorMessage, "")}
}

func dataStatusFromHub(in infrav1.Metal3DataStatus) Metal3DataStatus {
	return Metal3DataStatus{Ready: ptr.Deref(in.Ready, false), ErrorMessage: unlessZero(in.ErrorMessage)}
}
