package rule

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// ClusterSpec validates the common fields of a Metal3Cluster and its template.
func ClusterSpec(path *field.Path, spec *infrav1.Metal3ClusterSpec) Findings {
	return Join(
		Refusals(controlPlaneEndpoint(path.Child("controlPlaneEndpoint"), spec.ControlPlaneEndpoint)),
		Refusals(failureDomains(path.Child("failureDomains"), spec.FailureDomains)...),
		Refusals(Ironic(path.Child("ironic"), spec.Ironic)...),
		Refusals(apiServerApart(path, spec), apiServerServed(path, spec)),
		ironicWarnings(path.Child("ironic"), spec.Ironic),
	)
}

func controlPlaneEndpoint(path *field.Path, endpoint clusterv1.APIEndpoint) *field.Error {
	if endpoint.Host != "" || endpoint.Port == 0 {
		return nil
	}
	return field.Required(path.Child("host"), fmt.Sprintf("port %d is set without a host; set the host, or leave out "+
		"controlPlaneEndpoint to use the endpoint of the Cluster", endpoint.Port))
}

func failureDomains(path *field.Path, domains []clusterv1.FailureDomain) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i, domain := range domains {
		name := path.Index(i).Child("name")
		switch {
		case domain.Name == "":
			errs = append(errs, field.Required(name, "name the failure domain as the label "+
				infrav1.FailureDomainLabel+" of its hosts does"))
		case names.Has(domain.Name):
			errs = append(errs, field.Duplicate(name, domain.Name))
		}
		names.Insert(domain.Name)
	}
	return errs
}
