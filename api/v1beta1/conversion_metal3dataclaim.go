package v1beta1

import (
	"context"

	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// ConvertMetal3DataClaimToHub fills a v1beta2 Metal3DataClaim from a v1beta1 one.
func ConvertMetal3DataClaimToHub(_ context.Context, src *Metal3DataClaim, dst *infrav1.Metal3DataClaim) error {
	return metal3DataClaimVersions(src.DeepCopy(), dst).toHub()
}

// ConvertMetal3DataClaimFromHub fills a v1beta1 Metal3DataClaim from a v1beta2 one.
func ConvertMetal3DataClaimFromHub(_ context.Context, src *infrav1.Metal3DataClaim, dst *Metal3DataClaim) error {
	return metal3DataClaimVersions(dst, src.DeepCopy()).toSpoke()
}

func metal3DataClaimVersions(spoke *Metal3DataClaim, hub *infrav1.Metal3DataClaim) versions {
	return versions{
		spoke: spoke, hub: hub, spokeMeta: &spoke.ObjectMeta, hubMeta: &hub.ObjectMeta,
		parts: map[string]part{
			"spec":   newPart(&spoke.Spec, &hub.Spec, dataClaimSpecToHub, dataClaimSpecFromHub),
			"status": newPart(&spoke.Status, &hub.Status, dataClaimStatusToHub, dataClaimStatusFromHub),
		},
	}
}

func dataClaimSpecToHub(in Metal3DataClaimSpec) infrav1.Metal3DataClaimSpec {
	return infrav1.Metal3DataClaimSpec{Template: referenceToHub(in.Template)}
}

func dataClaimSpecFromHub(in infrav1.Metal3DataClaimSpec) Metal3DataClaimSpec {
	return Metal3DataClaimSpec{Template: referenceFromHub(in.Template)}
}

func dataClaimStatusToHub(in Metal3DataClaimStatus) infrav1.Metal3DataClaimStatus {
	return infrav1.Metal3DataClaimStatus{
		RenderedData: referenceToHub(in.RenderedData), ErrorMessage: ptr.Deref(in.ErrorMessage, ""),
	}
}

func dataClaimStatusFromHub(in infrav1.Metal3DataClaimStatus) Metal3DataClaimStatus {
	return Metal3DataClaimStatus{
		RenderedData: referenceFromHub(in.RenderedData), ErrorMessage: unlessZero(in.ErrorMessage),
	}
}
