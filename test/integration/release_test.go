package integration_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// releaseVariable names the folder of the release to test. Without it, the newest release is tested.
const releaseVariable = "METAL3_RELEASE"

// earlierVariable names the folder of a release of CAPM3.
const earlierVariable = "CAPM3_RELEASE"

// releaseFolder returns the release to test: the newest in out/release.
func releaseFolder(root string) (string, error) {
	if folder := os.Getenv(releaseVariable); folder != "" {
		return folder, nil
	}
	const what = "no release in out/release: run make release-manifests"
	folders, err := filepath.Glob(filepath.Join(root, "out", "release", "v*"))
	if err != nil {
		return "", err
	}
	var newest *version.Version
	var found string
	for _, folder := range folders {
		parsed, err := version.ParseSemantic(filepath.Base(folder))
		if err != nil {
			return "", fmt.Errorf("reading the version of %s: %w", folder, err)
		}
		if newest == nil || newest.LessThan(parsed) {
			newest, found = parsed, folder
		}
	}
	if found == "" {
		return "", errors.New(what)
	}
	return found, nil
}

// variables are the required variables of the templates and components.
func variables() []string {
	return []string{
		"CLUSTER_TOPOLOGY=true",
		"NAMESPACE=" + build.DefaultNamespace,
		"CLUSTER_APIENDPOINT_HOST=" + build.EndpointHost,
		fmt.Sprintf("CLUSTER_APIENDPOINT_PORT=%d", build.EndpointPort),
		"IRONIC_ADDRESS=192.0.2.20", "IRONIC_CIDR=192.0.2.0/24",
		"IMAGE_URL=" + build.ImageURL,
		"IMAGE_CHECKSUM=" + build.ImageURL + ".sha256sum",
		"IMAGE_CHECKSUM_TYPE=sha256",
		"IMAGE_FORMAT=qcow2",
	}
}
