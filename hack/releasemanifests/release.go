package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

const (
	// defaultImage is the image in config/manager, without its tag.
	defaultImage = "ghcr.io/metal3-pivot/cluster-api-provider-metal3"

	// developmentTag is the tag of the image in config/manager.
	developmentTag = "dev"

	metadataFile   = "metadata.yaml"
	componentsFile = "infrastructure-components.yaml"
)

// release has the settings of a release.
type release struct {
	// root is the top of the checkout.
	root string

	// version is the version of the release, and the name of its folder. It starts with v.
	version string

	// image is the image of the manager, with its tag.
	image string

	// guard is the image with keepalived and its guard, with its tag.
	guard string

	// output is the parent folder of the folder of the version.
	output string
}

// write creates the folder of the release and returns the files in it.
func (r release) write(ctx context.Context) ([]string, error) {
	metadata, err := os.ReadFile(filepath.Join(r.root, metadataFile))
	if err != nil {
		return nil, err
	}
	if err := checkVersion(r.version, metadata); err != nil {
		return nil, err
	}
	components, err := r.components(ctx)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{metadataFile: metadata, componentsFile: components}
	if err := r.addTemplates(files); err != nil {
		return nil, err
	}
	if err := r.addIronic(ctx, files); err != nil {
		return nil, err
	}
	if err := checkTags(files); err != nil {
		return nil, err
	}
	return writeFolder(filepath.Join(r.output, r.version), files)
}

// components builds all components. The manager uses the guard of its own version, unless the release names another
// image.
func (r release) components(ctx context.Context) ([]byte, error) {
	built, err := r.kustomize(ctx, filepath.Join(r.root, "config", "default"))
	if err != nil {
		return nil, err
	}
	if built, err = setImage(built, r.image); err != nil || r.guard == defaultGuard+":"+r.version {
		return built, err
	}
	return setGuard(built, r.guard)
}

// kustomize builds a folder.
func (r release) kustomize(ctx context.Context, folder string) ([]byte, error) {
	tools, err := binaries.Ensure(ctx, r.root, binaries.Tools(), os.Stderr)
	if err != nil {
		return nil, err
	}
	var output, problems bytes.Buffer
	command := exec.CommandContext(ctx, filepath.Join(tools, "kustomize"), "build", folder)
	command.Dir, command.Stdout, command.Stderr = r.root, &output, &problems
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("building %s: %w\n%s", folder, err, problems.String())
	}
	return output.Bytes(), nil
}

func (r release) addTemplates(files map[string][]byte) error {
	for _, pattern := range []string{"cluster-template*.yaml", "clusterclass-*.yaml"} {
		paths, err := filepath.Glob(filepath.Join(r.root, "templates", pattern))
		if err != nil {
			return err
		}
		if len(paths) == 0 {
			return fmt.Errorf("no file matches templates/%s", pattern)
		}
		for _, path := range paths {
			if files[filepath.Base(path)], err = os.ReadFile(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkVersion returns an error if clusterctl would refuse a release of this version.
func checkVersion(name string, metadata []byte) error {
	parsed, err := version.ParseSemantic(name)
	if err != nil || name != "v"+parsed.String() {
		return fmt.Errorf("-version is %q: give a semantic version that starts with v, such as v1.15.0", name)
	}
	known := &clusterctlv1.Metadata{}
	if err := yaml.UnmarshalStrict(metadata, known); err != nil {
		return fmt.Errorf("reading %s: %w", metadataFile, err)
	}
	if known.GetReleaseSeriesForVersion(parsed) == nil {
		return fmt.Errorf("-version is %q: add the series %d.%d to %s first",
			name, parsed.Major(), parsed.Minor(), metadataFile)
	}
	return nil
}

// setImage replaces the image of config/manager.
func setImage(components []byte, image string) ([]byte, error) {
	development := []byte(defaultImage + ":" + developmentTag + "\n")
	if count := bytes.Count(components, development); count != 1 {
		return nil, fmt.Errorf("the components name the image %s:%s %d times: config/manager must name it once",
			defaultImage, developmentTag, count)
	}
	return bytes.Replace(components, development, []byte(image+"\n"), 1), nil
}

// setGuard adds the flag for the image of the guard to the arguments of the manager.
func setGuard(components []byte, guard string) ([]byte, error) {
	first := []byte("        - --leader-elect\n")
	if count := bytes.Count(components, first); count != 1 {
		return nil, fmt.Errorf("the components have the argument --leader-elect %d times: config/manager must have it once",
			count)
	}
	return bytes.Replace(components, first, append(first, "        - --keepalived-guard-image="+guard+"\n"...), 1), nil
}

// checkTags returns an error if a file names an image with the development tag, which no registry has.
func checkTags(files map[string][]byte) error {
	development := regexp.MustCompile(`image: *"?(\S+:` + developmentTag + `)["\s]`)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if image := development.FindSubmatch(files[name]); image != nil {
			return fmt.Errorf("%s names the image %s: give it the tag of the release", name, image[1])
		}
	}
	return nil
}

func writeFolder(folder string, files map[string][]byte) ([]string, error) {
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755)); err != nil {
		return nil, err
	}
	written := make([]string, 0, len(files))
	for name, content := range files {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return nil, err
		}
		written = append(written, path)
	}
	slices.Sort(written)
	return written, nil
}
