package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/endpoint"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

const (
	// IronicNamespace is where Ironic runs on the management cluster.
	IronicNamespace = "metal3-ironic-system"

	// IronicDeployment is what runs it.
	IronicDeployment = "metal3-ironic"

	// IronicAddress is the address that Ironic answers on, which moves between machines.
	IronicAddress = "172.22.0.2"

	// IronicClusterID begins the names of the conductors, those of the management cluster and those of its target.
	IronicClusterID = "lab"

	// ironicPort is that of the API. Nothing in config/ironic changes it.
	ironicPort = 6385

	// ironicRouterID tells the machines that share the address from those that share that of an API server.
	ironicRouterID = 193

	// ironicInterface is the only network card of a machine.
	ironicInterface = "eth0"

	// ironicCredentials and ironicCertificate are Secrets that config/ironic names.
	ironicCredentials = "ironic-credentials" //nolint:gosec // The name of a Secret, not what is in it.
	ironicCertificate = "ironic-tls"

	// certificateLimit is how long the certificate of Ironic may take.
	certificateLimit = time.Minute

	// credentialsLimit is how long making credentials may take, with compiling the program that makes them.
	credentialsLimit = 5 * time.Minute
)

// ironicValues are the values.env of an installation of Ironic in the lab.
func ironicValues() map[string]string {
	return map[string]string{
		"PROVISIONING_IP": IronicAddress, "PROVISIONING_CIDR": network.Provisioning4,
		"PROVISIONING_INTERFACE": ironicInterface,
		"CLUSTER_ID":             IronicClusterID, "VIRTUAL_ROUTER_ID": strconv.Itoa(ironicRouterID),
	}
}

// writeIronic makes the manifest of Ironic for the management cluster the way a user does: by an overlay of a copy of
// config/ironic with values of its own.
func (l *Lab) writeIronic(ctx context.Context) error {
	folder := filepath.Join(l.folder, "ironic")
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(l.checkout, "config", "ironic"))); err != nil {
		return fmt.Errorf("copying config/ironic: %w", err)
	}
	if err := editValues(filepath.Join(folder, "values", "values.env"), ironicValues()); err != nil {
		return err
	}
	overlay := filepath.Join(folder, "overlays", "lab")
	if err := os.MkdirAll(overlay, folderMode); err != nil {
		return err
	}
	content, err := yaml.Marshal(l.ironicOverlay())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), content, fileMode); err != nil {
		return err
	}
	l.ironicManifest, err = l.Kustomize(ctx, overlay)
	return err
}

// editValues gives variables of a file other values. It refuses variables that the file does not have.
func editValues(path string, values map[string]string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines, changed := strings.Split(string(content), "\n"), 0
	for i, line := range lines {
		name, _, _ := strings.Cut(line, "=")
		if value, known := values[name]; known {
			lines[i] = name + "=" + value
			changed++
		}
	}
	if changed != len(values) {
		return fmt.Errorf("%s has %d of the variables %v: bring this list up to date", path, changed, values)
	}
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")), fileMode)
}

// ironicOverlay is what kustomize reads: the images of the lab, and nothing else.
func (l *Lab) ironicOverlay() map[string]any {
	type object = map[string]any
	var images []object
	for from, to := range map[string]string{
		"ghcr.io/metal3-pivot/keepalived-guard":   endpoint.GuardImageName,
		"quay.io/metal3-io/ironic":                l.ironicImage,
		"quay.io/metal3-io/ironic-ipa-downloader": endpoint.DownloaderImageName,
	} {
		name, tag, _ := strings.Cut(to, ":")
		images = append(images, object{"name": from, "newName": name, "newTag": tag})
	}
	return object{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
		"resources": []string{"../../ironic-keepalived"},
		"images":    images,
	}
}

// Kustomize returns what kustomize builds of a folder.
func (l *Lab) Kustomize(ctx context.Context, folder string, flags ...string) (string, error) {
	tools, err := binaries.Ensure(ctx, l.checkout, binaries.Tools(), &lines{progress: l.options.Progress})
	if err != nil {
		return "", err
	}
	arguments := append([]string{"build", folder}, flags...)
	return output(exec.CommandContext(ctx, filepath.Join(tools, "kustomize"), arguments...))
}

// output runs a program and returns what it prints.
func output(command *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("running %v: %w\n%s", command.Args, err, stderr.String())
	}
	return stdout.String(), nil
}

// installIronic installs Ironic on the management cluster as docs/ironic-endpoint.md tells users, and does not wait
// until it runs. It requires an issuer of certificates.
func (l *Lab) installIronic(ctx context.Context) error {
	l.options.Progress("installing Ironic on cluster %s", l.management.Name)
	// BMO gets a ConfigMap.
	for _, namespace := range []string{IronicNamespace, OperatorNamespace} {
		if err := create(ctx, l.management.Client, build.Namespace(namespace)); err != nil {
			return err
		}
	}
	credentials, err := l.makeCredentials(ctx)
	if err != nil {
		return err
	}
	for _, manifest := range []string{credentials, l.ironicManifest} {
		if _, err := l.management.KubectlWithInput(ctx, strings.NewReader(manifest), "apply", "-f", "-"); err != nil {
			return err
		}
	}
	settings, err := l.ironicSettings(ctx)
	l.UseIronic(settings)
	return err
}

// makeCredentials makes the manifest of a Secret with credentials for Ironic.
func (l *Lab) makeCredentials(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, credentialsLimit)
	defer cancel()
	command := exec.CommandContext(ctx, "go", "run", "./hack/ironicmanifests", "credentials",
		"--namespace="+IronicNamespace)
	command.Dir = l.checkout
	return output(command)
}

// ironicSettings are what clients of Ironic need, once there is a certificate.
func (l *Lab) ironicSettings(ctx context.Context) (ironicapi.Endpoint, error) {
	var credentials, certificate corev1.Secret
	what := "there is a certificate for Ironic"
	err := l.options.Progress.WaitFor(ctx, what, certificateLimit, func(ctx context.Context) error {
		for name, secret := range map[string]*corev1.Secret{
			ironicCredentials: &credentials, ironicCertificate: &certificate,
		} {
			key := client.ObjectKey{Namespace: IronicNamespace, Name: name}
			if err := l.management.Client.Get(ctx, key, secret); err != nil {
				return err
			}
		}
		if len(certificate.Data[secrets.AuthorityKey]) == 0 {
			return errors.New("its Secret is empty")
		}
		return nil
	})
	return ironicapi.Endpoint{
		URL:      "https://" + net.JoinHostPort(IronicAddress, strconv.Itoa(ironicPort)) + "/v1/",
		Username: string(credentials.Data[secrets.UsernameKey]), Password: string(credentials.Data[secrets.PasswordKey]),
		Authority: certificate.Data[secrets.AuthorityKey],
	}, err
}

// ShareIronic copies the credentials and the certificate of Ironic to the namespace of the clusters, where the template
// TemplateWithIronic refers to them. A Metal3Cluster takes them along when it is deleted, so every cluster needs this
// anew.
func (l *Lab) ShareIronic(ctx context.Context) error {
	for _, name := range []string{ironicCredentials, ironicCertificate} {
		var original corev1.Secret
		key := client.ObjectKey{Namespace: IronicNamespace, Name: name}
		if err := l.management.Client.Get(ctx, key, &original); err != nil {
			return fmt.Errorf("sharing Ironic: %w", err)
		}
		shared := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name}, Type: original.Type, Data: original.Data,
		}
		if err := create(ctx, l.management.Client, shared); err != nil {
			return fmt.Errorf("sharing Ironic: %w", err)
		}
	}
	return nil
}
