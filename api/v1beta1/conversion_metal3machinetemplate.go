package v1beta1

import (
	"context"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// ConvertMetal3MachineTemplateToHub fills a v1beta2 Metal3MachineTemplate from a v1beta1 one.
func ConvertMetal3MachineTemplateToHub(
	_ context.Context, src *Metal3MachineTemplate, dst *infrav1.Metal3MachineTemplate,
) error {
	return metal3MachineTemplateVersions(src.DeepCopy(), dst).toHub()
}

// ConvertMetal3MachineTemplateFromHub fills a v1beta1 Metal3MachineTemplate from a v1beta2 one.
func ConvertMetal3MachineTemplateFromHub(
	_ context.Context, src *infrav1.Metal3MachineTemplate, dst *Metal3MachineTemplate,
) error {
	return metal3MachineTemplateVersions(dst, src.DeepCopy()).toSpoke()
}

func metal3MachineTemplateVersions(spoke *Metal3MachineTemplate, hub *infrav1.Metal3MachineTemplate) versions {
	return versions{
		spoke: spoke, hub: hub, spokeMeta: &spoke.ObjectMeta, hubMeta: &hub.ObjectMeta,
		parts: map[string]part{
			"spec": newPart(&spoke.Spec, &hub.Spec, machineTemplateSpecToHub, machineTemplateSpecFromHub),
			// v1beta1 has no status. With this part, a write in v1beta1 does not lose the status.
			"status": newPart(&nothing{}, &hub.Status,
				func(nothing) infrav1.Metal3MachineTemplateStatus { return infrav1.Metal3MachineTemplateStatus{} },
				func(infrav1.Metal3MachineTemplateStatus) nothing { return nothing{} }),
		},
	}
}

func machineTemplateSpecToHub(in Metal3MachineTemplateSpec) infrav1.Metal3MachineTemplateSpec {
	return infrav1.Metal3MachineTemplateSpec{
		NodeReuse: in.NodeReuse,
		Template:  infrav1.Metal3MachineTemplateResource{Spec: machineSpecToHub(in.Template.Spec)},
	}
}

func machineTemplateSpecFromHub(in infrav1.Metal3MachineTemplateSpec) Metal3MachineTemplateSpec {
	return Metal3MachineTemplateSpec{
		NodeReuse: in.NodeReuse,
		Template:  Metal3MachineTemplateResource{Spec: machineSpecFromHub(in.Template.Spec)},
	}
}
