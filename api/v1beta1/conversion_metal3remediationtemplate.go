package v1beta1

import (
	"context"
	"reflect"

	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// ConvertMetal3RemediationTemplateToHub fills a v1beta2 Metal3RemediationTemplate from a v1beta1 one.
func ConvertMetal3RemediationTemplateToHub(
	_ context.Context, src *Metal3RemediationTemplate, dst *infrav1.Metal3RemediationTemplate,
) error {
	return metal3RemediationTemplateVersions(src.DeepCopy(), dst).toHub()
}

// ConvertMetal3RemediationTemplateFromHub fills a v1beta1 Metal3RemediationTemplate from a v1beta2 one.
func ConvertMetal3RemediationTemplateFromHub(
	_ context.Context, src *infrav1.Metal3RemediationTemplate, dst *Metal3RemediationTemplate,
) error {
	return metal3RemediationTemplateVersions(dst, src.DeepCopy()).toSpoke()
}

func metal3RemediationTemplateVersions(
	spoke *Metal3RemediationTemplate, hub *infrav1.Metal3RemediationTemplate,
) versions {
	return versions{
		spoke: spoke, hub: hub, spokeMeta: &spoke.ObjectMeta, hubMeta: &hub.ObjectMeta,
		parts: map[string]part{
			"spec": newPart(&spoke.Spec, &hub.Spec, remediationTemplateSpecToHub, remediationTemplateSpecFromHub),
			"status": newPart(&spoke.Status, &hub.Status,
				remediationTemplateStatusToHub, remediationTemplateStatusFromHub),
		},
	}
}

func remediationTemplateSpecToHub(in Metal3RemediationTemplateSpec) infrav1.Metal3RemediationTemplateSpec {
	return infrav1.Metal3RemediationTemplateSpec{
		Template: infrav1.Metal3RemediationTemplateResource{Spec: remediationSpecToHub(in.Template.Spec)},
	}
}

func remediationTemplateSpecFromHub(in infrav1.Metal3RemediationTemplateSpec) Metal3RemediationTemplateSpec {
	return Metal3RemediationTemplateSpec{
		Template: Metal3RemediationTemplateResource{Spec: remediationSpecFromHub(in.Template.Spec)},
	}
}

func remediationTemplateStatusToHub(in Metal3RemediationTemplateStatus) infrav1.Metal3RemediationTemplateStatus {
	status := remediationStatusToHub(in.Status)
	if reflect.ValueOf(status).IsZero() {
		return infrav1.Metal3RemediationTemplateStatus{}
	}
	return infrav1.Metal3RemediationTemplateStatus{Status: &status}
}

func remediationTemplateStatusFromHub(in infrav1.Metal3RemediationTemplateStatus) Metal3RemediationTemplateStatus {
	return Metal3RemediationTemplateStatus{
		Status: remediationStatusFromHub(ptr.Deref(in.Status, infrav1.Metal3RemediationStatus{})),
	}
}
