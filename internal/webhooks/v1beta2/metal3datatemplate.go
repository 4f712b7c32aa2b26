package v1beta2

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-metal3datatemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=metal3datatemplates,versions=v1beta2,name=validation.metal3datatemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// Metal3DataTemplateValidator validates Metal3DataTemplates. Rendered fields are immutable, so that a machine can be
// provisioned again with the same data.
func Metal3DataTemplateValidator() admission.Validator[*infrav1.Metal3DataTemplate] {
	return validator[*infrav1.Metal3DataTemplate]{
		kind: "Metal3DataTemplate", state: dataTemplateState, change: dataTemplateChange,
	}
}

func dataTemplateState(template *infrav1.Metal3DataTemplate) rule.Findings {
	path := field.NewPath("spec")
	findings := rule.Join(
		rule.Refusals(metaData(path.Child("metaData"), template.Spec.MetaData)...),
		rule.Refusals(networkData(path.Child("networkData"), template.Spec.NetworkData)...),
	)
	if template.Spec.ClusterName != "" {
		findings = rule.Join(findings, rule.Warn(path.Child("clusterName"), "%q is deprecated and has no effect; leave the "+
			"field out, a template serves all clusters of its namespace", template.Spec.ClusterName))
	}
	return findings
}

func dataTemplateChange(before, after *infrav1.Metal3DataTemplate) rule.Findings {
	path := field.NewPath("spec")
	before, after = withoutZeros(before), withoutZeros(after)
	return rule.Refusals(
		immutable(path.Child("metaData"), before.Spec.MetaData, after.Spec.MetaData),
		immutable(path.Child("networkData"), before.Spec.NetworkData, after.Spec.NetworkData),
	)
}

// withoutZeros returns a copy in which a false fromBootMAC and a route prefix of 0 are missing. They render the same,
// and a manifest of CAPM3, which did not distinguish them, may have either.
func withoutZeros(template *infrav1.Metal3DataTemplate) *infrav1.Metal3DataTemplate {
	template = template.DeepCopy()
	if data := template.Spec.MetaData; data != nil {
		for i := range data.FromHostInterfaces {
			dropZero(&data.FromHostInterfaces[i].FromBootMAC)
		}
	}
	if data := template.Spec.NetworkData; data != nil {
		for _, network := range slices.Concat(data.Networks.IPv4, data.Networks.IPv6) {
			dropZeroPrefixes(network.Routes)
		}
		for _, network := range slices.Concat(data.Networks.IPv4DHCP, data.Networks.IPv6DHCP, data.Networks.IPv6SLAAC) {
			dropZeroPrefixes(network.Routes)
		}
	}
	return template
}

// dropZeroPrefixes changes the array of the slice.
func dropZeroPrefixes(routes []infrav1.NetworkRoute) {
	for i := range routes {
		dropZero(&routes[i].Prefix)
	}
}

func dropZero[T comparable](value **T) {
	if *value != nil && **value == *new(T) {
		*value = nil
	}
}

func immutable(path *field.Path, before, after any) *field.Error {
	const remedy = "create a new Metal3DataTemplate and reference it from a new Metal3MachineTemplate"
	if changes := rule.Changes(before, after); changes != "" {
		return field.Forbidden(path, fmt.Sprintf("does not change, but %s did; %s", changes, remedy))
	}
	return nil
}

func metaData(path *field.Path, data *infrav1.MetaData) field.ErrorList {
	if data == nil {
		return nil
	}
	var errs field.ErrorList
	for _, source := range data.FromHostInterfaces {
		at := path.Child("fromHostInterfaces").Key(source.Key)
		byName, byBoot := source.Interface != "", ptr.Deref(source.FromBootMAC, false)
		switch {
		case byName && byBoot:
			errs = append(errs, field.Invalid(at.Child("interface"), source.Interface,
				"is set together with fromBootMAC; set only one of them"))
		case !byName && !byBoot:
			errs = append(errs, field.Required(at.Child("interface"), "set interface, or set fromBootMAC to true"))
		}
	}
	return errs
}

func networkData(path *field.Path, data *infrav1.NetworkData) field.ErrorList {
	if data == nil {
		return nil
	}
	networks := path.Child("networks")
	errs := hostdata.LargeParameters(path.Child("links", "bonds"), data.Links.Bonds)
	errs = append(errs, staticNetworks(networks.Child("ipv4"), data.Networks.IPv4, ipv4())...)
	errs = append(errs, staticNetworks(networks.Child("ipv6"), data.Networks.IPv6, ipv6())...)
	errs = append(errs, dynamicNetworks(networks.Child("ipv4DHCP"), data.Networks.IPv4DHCP, ipv4())...)
	errs = append(errs, dynamicNetworks(networks.Child("ipv6DHCP"), data.Networks.IPv6DHCP, ipv6())...)
	errs = append(errs, dynamicNetworks(networks.Child("ipv6SLAAC"), data.Networks.IPv6SLAAC, ipv6())...)
	return append(errs, services(path.Child("services"), data.Services)...)
}

// family has the properties of an IP family.
type family struct {
	name   string
	bits   int32
	hasAll func(netip.Addr) bool
}

func ipv4() family { return family{"IPv4", 32, netip.Addr.Is4} }

func ipv6() family { return family{"IPv6", 128, netip.Addr.Is6} }

func staticNetworks(path *field.Path, networks []infrav1.StaticNetwork, of family) field.ErrorList {
	var errs field.ErrorList
	for _, network := range networks {
		at := path.Key(network.ID)
		if !hasSource(network) {
			errs = append(errs, field.Required(at.Child("fromPoolRef", "name"),
				"name the pool of the address here, in ipAddressFromIPPool or through fromPoolAnnotation"))
		}
		errs = append(errs, routes(at.Child("routes"), network.Routes, of)...)
	}
	return errs
}

func hasSource(network infrav1.StaticNetwork) bool {
	return network.IPAddressFromIPPool != "" ||
		network.FromPoolRef != nil && network.FromPoolRef.Name != "" ||
		network.FromPoolAnnotation != nil && network.FromPoolAnnotation.Object != ""
}

func dynamicNetworks(path *field.Path, networks []infrav1.DynamicNetwork, of family) field.ErrorList {
	var errs field.ErrorList
	for _, network := range networks {
		errs = append(errs, routes(path.Key(network.ID).Child("routes"), network.Routes, of)...)
	}
	return errs
}

func routes(path *field.Path, routes []infrav1.NetworkRoute, of family) field.ErrorList {
	var errs field.ErrorList
	for i, route := range routes {
		at := path.Index(i)
		errs = append(errs, rule.Refusals(addressOf(at.Child("network"), route.Network, of)).Errors...)
		if prefix := ptr.Deref(route.Prefix, 0); prefix < 0 || prefix > of.bits {
			errs = append(errs, field.Invalid(at.Child("prefix"), prefix,
				fmt.Sprintf("is not the length of an %s prefix; use 0 to %d", of.name, of.bits)))
		}
		if route.Gateway.String != "" {
			gateway := at.Child("gateway", "string")
			errs = append(errs, rule.Refusals(addressOf(gateway, route.Gateway.String, of)).Errors...)
		}
		errs = append(errs, services(at.Child("services"), route.Services)...)
	}
	return errs
}

func addressOf(path *field.Path, value string, of family) *field.Error {
	address, err := rule.Address(path, value)
	if err == nil && !of.hasAll(address) {
		return field.Invalid(path, value, fmt.Sprintf("is not an %s address; use one of the family of the network", of.name))
	}
	return err
}

// services validates name servers. Their IP family may differ from that of the network.
func services(path *field.Path, services infrav1.NetworkServices) field.ErrorList {
	var errs field.ErrorList
	for i, server := range services.DNS {
		if _, err := rule.Address(path.Child("dns").Index(i), server); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
