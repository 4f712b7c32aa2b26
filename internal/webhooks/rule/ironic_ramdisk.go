package rule

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// defaultFlavor is the flavor of the ramdisk that the downloader downloads without an architecture.
const defaultFlavor = "centos9"

// architectures validates the ramdisks of further architectures. The downloader unpacks each archive into a folder with
// the name of the archive, and a download deletes older folders with this name.
func architectures(path *field.Path, ramdisks []infrav1.IronicRamdiskArchitecture) field.ErrorList {
	var errs field.ErrorList
	for i, ramdisk := range ramdisks {
		at := path.Index(i)
		if name := ironicArchitectures[ramdisk.Architecture]; name != "" {
			errs = append(errs, field.Invalid(at.Child("architecture"), ramdisk.Architecture,
				"is not the name that Ironic uses, so no host would boot this ramdisk; write "+name))
		}
		clashes := func(other infrav1.IronicRamdiskArchitecture) bool {
			return deletes(ramdisk.Flavor, other.Flavor) || deletes(other.Flavor, ramdisk.Flavor)
		}
		if ramdisk.Flavor == defaultFlavor || slices.ContainsFunc(ramdisks[:i], clashes) {
			errs = append(errs, field.Invalid(at.Child("flavor"), ramdisk.Flavor,
				"is the flavor of another ramdisk, or one begins with the other and -, and one would delete the files of the "+
					"other: publish the archive under another flavor"))
		}
		errs = append(errs, downloadURL(at.Child("baseURL"), ramdisk.BaseURL)...)
	}
	return errs
}

// ironicArchitectures are the names of Ironic for architectures that others name differently.
var ironicArchitectures = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// deletes returns true if a download of a flavor deletes the folders of another one.
func deletes(flavor, other string) bool { return strings.HasPrefix(other+"-", flavor+"-") }

// checksums refuses checksums without the downloader, the only program that compares them.
func checksums(path *field.Path, ramdisk infrav1.IronicRamdisk) field.ErrorList {
	if !ptr.Deref(ramdisk.DisableDownloader, false) {
		return nil
	}
	var errs field.ErrorList
	refuse := func(path *field.Path, sums *infrav1.IronicRamdiskChecksums) {
		if sums != nil {
			errs = append(errs, field.Forbidden(path.Child("checksums"), "has no effect with ramdisk.disableDownloader true, "+
				"because only the downloader compares checksums; omit it, or set disableDownloader to false"))
		}
	}
	refuse(path, ramdisk.Checksums)
	for i, other := range ramdisk.Architectures {
		refuse(path.Child("architectures").Index(i), other.Checksums)
	}
	return errs
}
