package rule

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// MachineSpec validates the common fields of a Metal3Machine and its template. Own is the namespace of the object.
func MachineSpec(path *field.Path, spec *infrav1.Metal3MachineSpec, own string) Findings {
	return Join(
		Refusals(deployment(path, spec)...),
		Refusals(
			ownSecret(path.Child("userData"), spec.UserData, own),
			ownSecret(path.Child("metaData"), spec.MetaData, own),
			ownSecret(path.Child("networkData"), spec.NetworkData, own),
		),
		Refusals(dataTemplate(path.Child("dataTemplate"), spec.DataTemplate, own)...),
		hostSelector(path, spec.HostSelector),
	)
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

func dataTemplate(path *field.Path, template *infrav1.Metal3ObjectRef, own string) field.ErrorList {
	if template == nil {
		return nil
	}
	var errs field.ErrorList
	if template.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "name a Metal3DataTemplate, or leave out dataTemplate"))
	}
	if err := OwnNamespace(path, template.Namespace, own); err != nil {
		errs = append(errs, err)
	}
	return errs
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
