package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

const (
	// componentsFile is what clusterctl installs of a release.
	componentsFile = "infrastructure-components.yaml"

	// managerContainer is what the contract of clusterctl calls the container of a manager.
	managerContainer = "manager"
)

// managerImage is the name of the image that a release runs as its manager.
func managerImage(release string) (string, error) {
	content, err := os.ReadFile(filepath.Join(release, componentsFile))
	if err != nil {
		return "", err
	}
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), len(content))
	for {
		// Of other kinds nothing but the kind is read into this.
		var found appsv1.Deployment
		switch err := documents.Decode(&found); {
		case errors.Is(err, io.EOF):
			return "", fmt.Errorf("%s of %s holds no Deployment with a container %s", componentsFile, release, managerContainer)
		case err != nil:
			return "", fmt.Errorf("reading %s of %s: %w", componentsFile, release, err)
		}
		if found.Kind != "Deployment" {
			continue
		}
		for _, container := range found.Spec.Template.Spec.Containers {
			if container.Name == managerContainer {
				return container.Image, nil
			}
		}
	}
}
