package rule

import (
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// MachineSpec validates the spec of a Metal3Machine. Own is its namespace.
func MachineSpec(path *field.Path, spec *infrav1.Metal3MachineSpec, own string) Findings {
	findings := machineFields(path, spec)
	for _, each := range machineReferences(path, spec) {
		findings = Join(findings, Refusals(OwnNamespace(each.path, each.namespace, own)))
	}
	return findings
}

// MachineTemplateSpec validates the spec in a Metal3MachineTemplate. Own is the namespace of the template. A reference
// into another namespace causes a warning: a ClusterClass may be in another namespace than its machines, and CAPM3
// accepts it. MachineSpec validates the namespace of each machine.
func MachineTemplateSpec(path *field.Path, spec *infrav1.Metal3MachineSpec, own string) Findings {
	findings := machineFields(path, spec)
	for _, each := range machineReferences(path, spec) {
		if OwnNamespace(each.path, each.namespace, own) == nil {
			continue
		}
		findings = Join(findings, Warn(each.path.Child("namespace"), "%q is not the namespace of the template; only "+
			"machines in namespace %q are admitted; leave the field out for machines in any namespace",
			each.namespace, each.namespace))
	}
	return findings
}

// machineFields validates the fields that do not depend on the namespace of the machine.
func machineFields(path *field.Path, spec *infrav1.Metal3MachineSpec) Findings {
	return Join(
		Refusals(deployment(path, spec)...),
		Refusals(dataTemplate(path.Child("dataTemplate"), spec.DataTemplate)),
		Refusals(named(path.Child("metaData"), spec.MetaData), named(path.Child("networkData"), spec.NetworkData)),
		hostSelector(path, spec.HostSelector),
	)
}

// reference is a field that references an object. An empty namespace means that of the object with the field.
type reference struct {
	path      *field.Path
	namespace string
}

func machineReferences(path *field.Path, spec *infrav1.Metal3MachineSpec) []reference {
	var references []reference
	for _, each := range []struct {
		name   string
		secret *corev1.SecretReference
	}{
		{"userData", spec.UserData}, {"metaData", spec.MetaData}, {"networkData", spec.NetworkData},
	} {
		if each.secret != nil {
			references = append(references, reference{path.Child(each.name), each.secret.Namespace})
		}
	}
	if spec.DataTemplate != nil {
		references = append(references, reference{path.Child("dataTemplate"), spec.DataTemplate.Namespace})
	}
	return references
}

// deployment validates the image of the host. With a custom deploy step, the step defines the image.
func deployment(path *field.Path, spec *infrav1.Metal3MachineSpec) field.ErrorList {
	if spec.CustomDeploy != nil && spec.CustomDeploy.Method != "" {
		return nil
	}
	if spec.Image == nil || spec.Image.URL == "" && spec.Image.Checksum == "" {
		return field.ErrorList{field.Required(path.Child("image"), "set image, or customDeploy.method to deploy without one")}
	}
	return image(path.Child("image"), spec.Image)
}

func image(path *field.Path, image *infrav1.Image) field.ErrorList {
	errs := imageURL(path.Child("url"), image.URL)
	checksum := path.Child("checksum")
	switch {
	case strings.HasPrefix(strings.ToLower(image.URL), infrav1.OCIScheme):
		return append(errs, ociImage(path, image)...)
	case image.DiskFormat == infrav1.LiveISODiskFormat:
		return errs
	case image.Checksum == "":
		return append(errs, field.Required(checksum, "give the checksum of the image or the URL of a file that holds it; "+
			"only an image of format "+infrav1.LiveISODiskFormat+" or with a URL that begins with "+infrav1.OCIScheme+
			" needs none"))
	case strings.HasPrefix(image.Checksum, "http://"), strings.HasPrefix(image.Checksum, "https://"):
		return append(errs, parsesAsURL(checksum, image.Checksum)...)
	default:
		return errs
	}
}

func imageURL(path *field.Path, raw string) field.ErrorList {
	if raw == "" {
		return field.ErrorList{field.Required(path, "give the URL that the image is fetched from")}
	}
	return parsesAsURL(path, raw)
}

// ociImage refuses checksums: a digest identifies an image in a registry.
func ociImage(path *field.Path, image *infrav1.Image) field.ErrorList {
	const remedy = "omit it: an image whose URL begins with " + infrav1.OCIScheme + " carries its own digest"
	var errs field.ErrorList
	if image.Checksum != "" {
		errs = append(errs, field.Forbidden(path.Child("checksum"), remedy))
	}
	if image.ChecksumType != "" {
		errs = append(errs, field.Forbidden(path.Child("checksumType"), remedy))
	}
	return errs
}

func parsesAsURL(path *field.Path, raw string) field.ErrorList {
	if _, err := url.ParseRequestURI(raw); err != nil {
		return field.ErrorList{field.Invalid(path, shownURL(raw), "is not a URL; write it like https://server/path")}
	}
	return nil
}

// named requires the name of a Secret. The name in userData is optional, because it counts only without bootstrap data.
func named(path *field.Path, secret *corev1.SecretReference) *field.Error {
	if secret == nil || secret.Name != "" {
		return nil
	}
	return field.Required(path.Child("name"), "name a Secret, or leave out "+lastOf(path))
}

func dataTemplate(path *field.Path, template *infrav1.Metal3ObjectRef) *field.Error {
	if template == nil || template.Name != "" {
		return nil
	}
	return field.Required(path.Child("name"), "name a Metal3DataTemplate, or leave out dataTemplate")
}

// hostSelector warns of an invalid selector, once for each part. Such a machine waits without end, and its conditions
// report the reason. CAPM3 accepts it.
func hostSelector(path *field.Path, selector infrav1.HostSelector) Findings {
	_, err := host.Selector(selector)
	if err == nil {
		return Findings{}
	}
	var findings Findings
	for problem := range strings.SplitSeq(err.Error(), "\n") {
		findings.Warnings = append(findings.Warnings, fmt.Sprintf("%s.%s; no host is chosen until this is corrected",
			path, strings.TrimPrefix(problem, "spec.")))
	}
	return findings
}

// ProviderID warns of a provider ID with another format than that of this provider. Objects of other providers may have
// one.
func ProviderID(path *field.Path, providerID, own string) Findings {
	if providerID == "" {
		return Findings{}
	}
	parts := strings.Split(strings.TrimPrefix(providerID, infrav1.ProviderIDPrefix), "/")
	wellFormed := strings.HasPrefix(providerID, infrav1.ProviderIDPrefix) && len(parts) == 3 &&
		parts[0] == own && parts[1] != "" && parts[2] != ""
	if wellFormed {
		return Findings{}
	}
	return Warn(path, "%q does not have the form %s%s/<host>/<metal3machine>; leave the field to the provider",
		providerID, infrav1.ProviderIDPrefix, own)
}
