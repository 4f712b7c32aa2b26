package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/endpoint"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/image"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine"
)

const (
	// buildLimit is the time limit to compile one program.
	buildLimit = 10 * time.Minute

	// unprivileged is the user of the programs.
	unprivileged = "65532:65532"

	// componentsFile is the file of a release that clusterctl installs.
	componentsFile = "infrastructure-components.yaml"

	// managerContainer is the name of the container of a manager in the contract of clusterctl.
	managerContainer = "manager"

	// managerNamespace and managerDeployment identify the installed manager.
	managerNamespace, managerDeployment = "capm3-system", "capm3-controller-manager"

	// laterSuffix is the suffix of the version and the image of the later build.
	laterSuffix = "-later"

	operatorImage = "lab.invalid/baremetal-operator:lab"

	earlierOperatorImage = "lab.invalid/baremetal-operator:earlier"

	// addressManagerProgram is the command of the released Deployment of the IP address manager.
	addressManagerProgram = "/manager"
)

// program is built from the checkout and runs in the clusters of a lab.
type program struct {
	// name is the name of its files, source the package to build.
	name, source string
	// image is the name of the container image, and path that of the program in it.
	image, path string
	// flags are for the linker.
	flags string
}

// endpointImages returns the images of Ironic's pods that change with the checkout, all but Ironic itself.
func endpointImages(ctx context.Context, checkout string, progress io.Writer) ([]image.Image, error) {
	guard, err := endpoint.GuardImage(ctx, checkout, progress)
	if err != nil {
		return nil, err
	}
	downloader, err := endpoint.DownloaderImage(ctx, checkout, progress)
	return []image.Image{guard, downloader}, err
}

// programs returns the programs that change with the checkout.
func (l *Lab) programs() ([]program, error) {
	manager, later, err := l.ManagerImages()
	if err != nil {
		return nil, err
	}
	version := " -X sigs.k8s.io/cluster-api/version.gitVersion=" + filepath.Base(l.options.Release)
	programs := []program{{name: "manager", source: ".", image: manager, path: "/manager", flags: version}}
	if l.options.Later {
		programs = append(programs, program{
			name: "manager" + laterSuffix, source: ".", image: later, path: "/manager",
			flags: version + laterSuffix,
		})
	}
	return programs, nil
}

// ManagerImages returns the names of the image of the manager, and of its later build. The latter exists only with
// Options.Later.
func (l *Lab) ManagerImages() (current, later string, err error) {
	current, err = managerImage(l.options.Release)
	return current, current + laterSuffix, err
}

// Upgrade rolls out the later build of the manager, and blocks until it is available and the previous one has ended. It
// returns an error if Options.Later is not set.
func (l *Lab) Upgrade(ctx context.Context, cluster *Cluster) error {
	if !l.options.Later {
		return errors.New("upgrading the manager: Options.Later is not set")
	}
	_, later, err := l.ManagerImages()
	if err != nil {
		return err
	}
	if _, err := cluster.Kubectl(ctx, "set", "image", "--namespace="+managerNamespace,
		"deployment/"+managerDeployment, managerContainer+"="+later); err != nil {
		return err
	}
	return l.WaitForDeployments(ctx, cluster, client.InNamespace(managerNamespace))
}

// packPrograms builds the programs and packs each into an archive.
func (l *Lab) packPrograms(ctx context.Context) ([]string, error) {
	programs, err := l.programs()
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(l.folder, "images")
	if err := os.MkdirAll(folder, folderMode); err != nil {
		return nil, err
	}
	archives := make([]string, len(programs))
	for i, program := range programs {
		l.options.Progress("building %s (%d of %d)", program.name, i+1, len(programs))
		archives[i] = filepath.Join(folder, program.name+".tar")
		if err := l.pack(ctx, program, archives[i]); err != nil {
			return nil, err
		}
	}
	released, err := l.packReleased(ctx, folder)
	if err != nil {
		return nil, err
	}
	more, err := l.packEndpoint(ctx, folder)
	return slices.Concat(archives, released, more), err
}

// packReleased packs released programs that no node image has.
func (l *Lab) packReleased(ctx context.Context, folder string) ([]string, error) {
	addressManager, err := l.source().AddressManagerImage(ctx)
	if err != nil {
		return nil, err
	}
	var archives []string
	for _, released := range []struct {
		set         binaries.Set
		image, path string
	}{
		{binaries.CertManager(), certManagerImage, certManagerProgram},
		{binaries.BaremetalOperator(), operatorImage, operatorProgram},
		{binaries.AddressManager(), addressManager, addressManagerProgram},
	} {
		archive := filepath.Join(folder, released.set.Programs[0].Name+".tar")
		if err := l.packProgram(ctx, released.set, released.image, released.path, archive); err != nil {
			return nil, err
		}
		archives = append(archives, archive)
	}
	return archives, nil
}

// packProgram packs the only program of a set.
func (l *Lab) packProgram(ctx context.Context, set binaries.Set, name, path, archive string) error {
	programs, err := binaries.Ensure(ctx, l.checkout, set, &lines{progress: l.options.Progress})
	if err != nil {
		return err
	}
	return image.Pack(image.Image{
		Names: []string{name}, Entrypoint: []string{path}, Environment: []string{image.FewCollections}, User: unprivileged,
		Files: []image.File{{Path: path, From: filepath.Join(programs, set.Programs[0].Name)}},
	}, archive)
}

// importImage imports the images of an archive into the store of a running machine.
func importImage(ctx context.Context, into *machine.Machine, archive string) error {
	content, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	command, err := into.Command(ctx, "ctr", "--namespace=k8s.io", "images", "import", "-")
	if err != nil {
		return err
	}
	command.Stdin = content
	_, err = output(command)
	return err
}

// packEndpoint packs the images of Ironic's pods.
func (l *Lab) packEndpoint(ctx context.Context, folder string) ([]string, error) {
	l.options.Progress("building the images of the Ironic endpoint")
	images, err := endpointImages(ctx, l.checkout, &lines{progress: l.options.Progress})
	if err != nil {
		return nil, err
	}
	archives := make([]string, len(images))
	for i, packed := range images {
		archives[i] = filepath.Join(folder, fmt.Sprintf("endpoint-%d.tar", i))
		if err := image.Pack(packed, archives[i]); err != nil {
			return nil, err
		}
	}
	return archives, nil
}

func (l *Lab) pack(ctx context.Context, program program, archive string) error {
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	binary := filepath.Join(filepath.Dir(archive), program.name)
	command := exec.CommandContext(ctx, "go", "build", "-tags=fieldsv1string", "-trimpath",
		"-ldflags=-s -w"+program.flags, "-o", binary, program.source)
	command.Dir = l.checkout
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", program.name, err, output)
	}
	return image.Pack(image.Image{
		Names: []string{program.image}, Files: []image.File{{Path: program.path, From: binary}},
		Entrypoint: []string{program.path}, Environment: []string{image.FewCollections}, User: unprivileged,
	}, archive)
}

// managerImage returns the image of the manager in a release.
func managerImage(release string) (string, error) {
	content, err := os.ReadFile(filepath.Join(release, componentsFile))
	if err != nil {
		return "", err
	}
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), len(content))
	for {
		// For other kinds only the kind is decoded.
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
