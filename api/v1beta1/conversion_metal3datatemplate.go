package v1beta1

import (
	"cmp"
	"context"
	"math"
	"slices"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// ConvertMetal3DataTemplateToHub fills a v1beta2 Metal3DataTemplate from a v1beta1 one.
func ConvertMetal3DataTemplateToHub(
	_ context.Context, src *Metal3DataTemplate, dst *infrav1.Metal3DataTemplate,
) error {
	return metal3DataTemplateVersions(src.DeepCopy(), dst).toHub()
}

// ConvertMetal3DataTemplateFromHub fills a v1beta1 Metal3DataTemplate from a v1beta2 one.
func ConvertMetal3DataTemplateFromHub(
	_ context.Context, src *infrav1.Metal3DataTemplate, dst *Metal3DataTemplate,
) error {
	return metal3DataTemplateVersions(dst, src.DeepCopy()).toSpoke()
}

func metal3DataTemplateVersions(spoke *Metal3DataTemplate, hub *infrav1.Metal3DataTemplate) versions {
	return versions{
		spoke: spoke, hub: hub, spokeMeta: &spoke.ObjectMeta, hubMeta: &hub.ObjectMeta,
		parts: map[string]part{
			"spec":   newPart(&spoke.Spec, &hub.Spec, dataTemplateSpecToHub, dataTemplateSpecFromHub),
			"status": newPart(&spoke.Status, &hub.Status, dataTemplateStatusToHub, dataTemplateStatusFromHub),
		},
	}
}

func dataTemplateSpecToHub(in Metal3DataTemplateSpec) infrav1.Metal3DataTemplateSpec {
	return infrav1.Metal3DataTemplateSpec{
		ClusterName: in.ClusterName,
		MetaData:    convertOptional(in.MetaData, metaDataToHub),
		NetworkData: convertOptional(in.NetworkData, networkDataToHub),
	}
}

func dataTemplateSpecFromHub(in infrav1.Metal3DataTemplateSpec) Metal3DataTemplateSpec {
	return Metal3DataTemplateSpec{
		ClusterName: in.ClusterName,
		MetaData:    convertOptional(in.MetaData, metaDataFromHub),
		NetworkData: convertOptional(in.NetworkData, networkDataFromHub),
	}
}

func dataTemplateStatusToHub(in Metal3DataTemplateStatus) infrav1.Metal3DataTemplateStatus {
	return infrav1.Metal3DataTemplateStatus{Indexes: indexesToHub(in.Indexes), LastUpdated: in.LastUpdated}
}

func dataTemplateStatusFromHub(in infrav1.Metal3DataTemplateStatus) Metal3DataTemplateStatus {
	return Metal3DataTemplateStatus{Indexes: indexesFromHub(in.Indexes), LastUpdated: in.LastUpdated}
}

// indexesToHub turns a map into a list in the order of the indexes. Of several claims with the same index it keeps the
// last by name. It drops invalid indexes.
func indexesToHub(in map[string]int) []infrav1.DataIndex {
	if in == nil {
		return nil
	}
	names := slices.DeleteFunc(sortedKeys(in), func(name string) bool { return in[name] < 0 || in[name] > math.MaxInt32 })
	out := convertKeyed(names, func(name string) (int, infrav1.DataIndex) {
		return in[name], infrav1.DataIndex{Index: toInt32(in[name]), Name: name}
	})
	slices.SortFunc(out, func(a, b infrav1.DataIndex) int { return cmp.Compare(a.Index, b.Index) })
	return out
}

func indexesFromHub(in []infrav1.DataIndex) map[string]int {
	if in == nil {
		return nil
	}
	out := make(map[string]int, len(in))
	for _, used := range in {
		out[used.Name] = int(used.Index)
	}
	return out
}
