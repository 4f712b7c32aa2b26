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
	// IronicNamespace is the namespace of Ironic on the management cluster.
	IronicNamespace = "metal3-ironic-system"

	// IronicDeployment is the Deployment of Ironic.
	IronicDeployment = "metal3-ironic"

	// IronicAddress is the VIP of Ironic.
	IronicAddress = "172.22.0.2"

	// IronicClusterID is the prefix of the names of the conductors of the management cluster and of its target.
	IronicClusterID = "lab"

	// ironicPort is the port of the API. config/ironic does not change it.
	ironicPort = 6385

	// ironicRouterID distinguishes the VRRP group of Ironic from that of an API server.
	ironicRouterID = 193

	// ironicInterface is the only network card of a machine.
	ironicInterface = "eth0"

	// ironicCredentials and ironicCertificate are Secrets in config/ironic.
	ironicCredentials = "ironic-credentials" //nolint:gosec // The name of a Secret, not what is in it.
	ironicCertificate = "ironic-tls"

	// certificateLimit is the time limit for the certificate of Ironic.
	certificateLimit = 5 * time.Minute

	// credentialsLimit is the time limit for credentials, with compiling the program that creates them.
	credentialsLimit = 5 * time.Minute
)

// ironicValues are the values.env of Ironic in the lab.
func ironicValues() map[string]string {
	return map[string]string{
		"PROVISIONING_IP": IronicAddress, "PROVISIONING_CIDR": network.Provisioning4,
		"PROVISIONING_INTERFACE": ironicInterface,
		"CLUSTER_ID":             IronicClusterID, "VIRTUAL_ROUTER_ID": strconv.Itoa(ironicRouterID),
	}
}

// writeIronic writes the manifest of Ironic for the management cluster as a user does: by an overlay of a copy of
// config/ironic with other values.
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

// editValues replaces values of variables in a file. It returns an error for variables that the file lacks.
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
		return fmt.Errorf("%s has %d of the variables %v: update this list", path, changed, values)
	}
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")), fileMode)
}

// ironicOverlay returns a kustomization with the images of the lab.
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

// Kustomize builds a folder with kustomize.
func (l *Lab) Kustomize(ctx context.Context, folder string, flags ...string) (string, error) {
	tools, err := binaries.Ensure(ctx, l.checkout, binaries.Tools(), &lines{progress: l.options.Progress})
	if err != nil {
		return "", err
	}
	arguments := append([]string{"build", folder}, flags...)
	return output(exec.CommandContext(ctx, filepath.Join(tools, "kustomize"), arguments...))
}

// output runs a program and returns its output.
func output(command *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("running %v: %w\n%s", command.Args, err, stderr.String())
	}
	return stdout.String(), nil
}

// installIronic installs Ironic on the management cluster as in docs/ironic-endpoint.md, and does not wait for it. It
// requires an issuer of certificates.
func (l *Lab) installIronic(ctx context.Context) error {
	l.options.Progress("installing Ironic on cluster %s", l.management.Name)
	// BMO reads a ConfigMap.
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

// makeCredentials returns the manifest of a Secret with credentials for Ironic.
func (l *Lab) makeCredentials(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, credentialsLimit)
	defer cancel()
	command := exec.CommandContext(ctx, "go", "run", "./hack/ironicmanifests", "credentials",
		"--namespace="+IronicNamespace)
	command.Dir = l.checkout
	return output(command)
}

// ironicSettings returns the settings of clients of Ironic, once the certificate exists.
func (l *Lab) ironicSettings(ctx context.Context) (ironicapi.Endpoint, error) {
	var credentials, certificate corev1.Secret
	what := "Ironic has a certificate"
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
// TemplateWithIronic refers to them. They are deleted with the Metal3Cluster, so every cluster requires new ones.
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
