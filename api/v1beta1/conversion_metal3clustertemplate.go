package v1beta1

import (
	"context"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// ConvertMetal3ClusterTemplateToHub fills a v1beta2 Metal3ClusterTemplate from a v1beta1 one.
func ConvertMetal3ClusterTemplateToHub(
	_ context.Context, src *Metal3ClusterTemplate, dst *infrav1.Metal3ClusterTemplate,
) error {
	return metal3ClusterTemplateVersions(src.DeepCopy(), dst).toHub()
}

// ConvertMetal3ClusterTemplateFromHub fills a v1beta1 Metal3ClusterTemplate from a v1beta2 one.
func ConvertMetal3ClusterTemplateFromHub(
	_ context.Context, src *infrav1.Metal3ClusterTemplate, dst *Metal3ClusterTemplate,
) error {
	return metal3ClusterTemplateVersions(dst, src.DeepCopy()).toSpoke()
}

func metal3ClusterTemplateVersions(spoke *Metal3ClusterTemplate, hub *infrav1.Metal3ClusterTemplate) versions {
	return versions{
		spoke: spoke, hub: hub, spokeMeta: &spoke.ObjectMeta, hubMeta: &hub.ObjectMeta,
		parts: map[string]part{
			"spec": newPart(&spoke.Spec, &hub.Spec, clusterTemplateSpecToHub, clusterTemplateSpecFromHub),
		},
	}
}

func clusterTemplateSpecToHub(in Metal3ClusterTemplateSpec) infrav1.Metal3ClusterTemplateSpec {
	return infrav1.Metal3ClusterTemplateSpec{
		Template: infrav1.Metal3ClusterTemplateResource{Spec: clusterSpecToHub(in.Template.Spec)},
	}
}

func clusterTemplateSpecFromHub(in infrav1.Metal3ClusterTemplateSpec) Metal3ClusterTemplateSpec {
	return Metal3ClusterTemplateSpec{
		Template: Metal3ClusterTemplateResource{Spec: clusterSpecFromHub(in.Template.Spec)},
	}
}
