// Command krew writes the manifest with which krew, the package manager for plugins of kubectl, installs the plugin.
//
// It adds the version, and the address and checksum of each archive of a release, to metal3.yaml. It returns an error
// if the folder of the release has no archive, or one whose name has no platform.
package main

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
)

//go:embed metal3.yaml
var base []byte

const (
	// program is the name of the plugin in an archive. The name of an archive is program-OS-ARCH.tar.gz.
	program   = "clusterctl-metal3"
	extension = ".tar.gz"
)

// manifest is a Plugin of krew.
type manifest struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metadata `json:"metadata"`
	Spec            spec     `json:"spec"`
}

type metadata struct {
	Name string `json:"name"`
}

type spec struct {
	Version          string     `json:"version"`
	Homepage         string     `json:"homepage"`
	ShortDescription string     `json:"shortDescription"`
	Description      string     `json:"description"`
	Caveats          string     `json:"caveats"`
	Platforms        []platform `json:"platforms"`
}

// platform is an archive, and its platform.
type platform struct {
	Selector metav1.LabelSelector `json:"selector"`
	URI      string               `json:"uri"`
	SHA256   string               `json:"sha256"`
	Bin      string               `json:"bin"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
}

func run() error {
	name := flag.String("version", "", "version of the release, such as v1.15.0")
	folder := flag.String("archives", "", "folder with the archives of the plugin (default: out/release/VERSION)")
	download := flag.String("download", "https://github.com/metal3-pivot/cluster-api-provider-metal3/releases/download",
		"address of the releases; a release is in a folder with the name of its version")
	flag.Parse()
	if *folder == "" {
		*folder = filepath.Join("out", "release", *name)
	}
	content, err := render(*name, *folder, *download)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(content)
	return err
}

// render returns the manifest of a release whose archives are in a folder.
func render(name, folder, download string) ([]byte, error) {
	parsed, err := version.ParseSemantic(name)
	if err != nil || name != "v"+parsed.String() {
		return nil, fmt.Errorf("-version is %q: give a semantic version that starts with v, such as v1.15.0", name)
	}
	var made manifest
	if err := yaml.UnmarshalStrict(base, &made); err != nil {
		return nil, fmt.Errorf("reading metal3.yaml: %w", err)
	}
	made.Spec.Version = name
	archives, err := filepath.Glob(filepath.Join(folder, program+"-*"+extension))
	if err != nil {
		return nil, err
	}
	if len(archives) == 0 {
		return nil, fmt.Errorf("%s has no %s-OS-ARCH%s: build the archives first", folder, program, extension)
	}
	for _, archive := range archives {
		added, err := describe(archive, download+"/"+name)
		if err != nil {
			return nil, err
		}
		made.Spec.Platforms = append(made.Spec.Platforms, added)
	}
	return yaml.Marshal(made)
}

// describe returns the platform of an archive that is downloaded from a folder.
func describe(archive, download string) (platform, error) {
	name := filepath.Base(archive)
	suffix := strings.TrimSuffix(strings.TrimPrefix(name, program+"-"), extension)
	system, architecture, found := strings.Cut(suffix, "-")
	if !found || system == "" || architecture == "" || strings.Contains(architecture, "-") {
		return platform{}, fmt.Errorf("the name of %s has no platform: name it %s-OS-ARCH%s", archive, program, extension)
	}
	content, err := os.ReadFile(archive)
	if err != nil {
		return platform{}, err
	}
	sum := sha256.Sum256(content)
	return platform{
		Selector: metav1.LabelSelector{MatchLabels: map[string]string{"os": system, "arch": architecture}},
		URI:      download + "/" + name, SHA256: hex.EncodeToString(sum[:]), Bin: program,
	}, nil
}
