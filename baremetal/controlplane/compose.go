package controlplane

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/bootdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/staticpod"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// private is the mode of all files: only root may read them.
const private fs.FileMode = 0o600

// Endpoint is an Ironic endpoint with its images, credentials and certificates.
type Endpoint struct {
	// Ironic is spec.ironic. Empty fields get their defaults, except for the clusterID.
	Ironic infrav1.Ironic

	// GuardImage is the image of guard and keepalived of this release. images.keepalived has precedence.
	GuardImage string

	// Credentials for the API.
	Credentials Credentials

	// Certificates of the services.
	Certificates Certificates
}

// Credentials for the API of Ironic.
type Credentials struct {
	// Username and Password are the credentials of clients.
	Username, Password []byte

	// Htpasswd has a line for the user, with a bcrypt hash of the password.
	Htpasswd []byte
}

// Certificates are in PEM.
type Certificates struct {
	// Certificate is valid for the VIPs. Certificates between it and Authority may follow it.
	Certificate []byte

	// Key belongs to Certificate.
	Key []byte

	// Authority is the CA that clients trust.
	Authority []byte
}

// Files returns the files of a control-plane machine of the cluster, sorted by path, with the manifests at the end. A
// kubelet that runs already would otherwise create a folder for a file that a pod mounts. The same endpoint gives the
// same bytes.
func Files(endpoint Endpoint) ([]bootdata.File, error) {
	endpoint.Ironic = withDefaults(endpoint.Ironic)
	files, config, err := endpoint.files()
	var manifests []bootdata.File
	if err == nil {
		manifests, err = endpoint.manifests(config)
	}
	if err != nil {
		return nil, fmt.Errorf("composing the files of Ironic endpoint %q: %w", endpoint.Ironic.ClusterID, err)
	}
	return append(files, manifests...), nil
}

// Hash returns the value of ironic.HashAnnotation in the manifests of Files. It is the same for all nodes of the
// cluster, and does not change with the time.
func Hash(endpoint Endpoint) (string, error) {
	endpoint.Ironic = withDefaults(endpoint.Ironic)
	_, config, err := endpoint.files()
	if err != nil {
		return "", fmt.Errorf("hashing the files of Ironic endpoint %q: %w", endpoint.Ironic.ClusterID, err)
	}
	return config.Hash, nil
}

// files returns the files that the pods mount, and the configuration of the pods with the hash of these files and of
// the pods without their hash. The encoding of the pods in JSON takes a small part of the time of their manifests.
func (e Endpoint) files() ([]bootdata.File, ironic.Config, error) {
	contents, config, err := e.material(vip.ControlPlane)
	if err != nil {
		return nil, ironic.Config{}, err
	}
	var files []bootdata.File
	for name, content := range contents {
		files = append(files, bootdata.File{Path: path.Join(ironic.NodeDirectory, name), Mode: private, Content: content})
	}
	slices.SortFunc(files, func(a, b bootdata.File) int { return cmp.Compare(a.Path, b.Path) })
	pods, err := ironic.Pods(config)
	if err != nil {
		return nil, ironic.Config{}, err
	}
	described, err := json.Marshal(pods)
	config.Hash = hash(append(slices.Clip(files), bootdata.File{Path: e.Ironic.ManifestsDirectory, Content: described}))
	return files, config, err
}

func (e Endpoint) manifests(config ironic.Config) ([]bootdata.File, error) {
	pods, err := ironic.Pods(config)
	if err != nil {
		return nil, err
	}
	var files []bootdata.File
	for _, pod := range pods {
		content, err := staticpod.Render(pod)
		if err != nil {
			return nil, err
		}
		files = append(files, bootdata.File{
			Path: path.Join(e.Ironic.ManifestsDirectory, pod.Name+".yaml"), Mode: private, Content: content,
		})
	}
	return files, nil
}

// Management returns the Deployment of the management side, and the data of the Secret that it mounts.
func Management(endpoint Endpoint, place ironic.Management) (*appsv1.Deployment, map[string][]byte, error) {
	endpoint.Ironic = withDefaults(endpoint.Ironic)
	contents, config, err := endpoint.material(vip.Management)
	if err != nil {
		return nil, nil, fmt.Errorf("composing the management side of Ironic endpoint %q: %w",
			endpoint.Ironic.ClusterID, err)
	}
	deployment, err := ironic.Deployment(config, place)
	if err != nil {
		return nil, nil, fmt.Errorf("composing the management side of Ironic endpoint %q: %w",
			endpoint.Ironic.ClusterID, err)
	}
	data := map[string][]byte{}
	for name, content := range contents {
		data[ironic.SecretKey(name)] = content
	}
	return deployment, data, nil
}

// material returns the files below ironic.NodeDirectory by name, and the configuration of the pods that read them.
func (e Endpoint) material(role vip.Role) (map[string][]byte, ironic.Config, error) {
	addresses, err := vip.Addresses(e.Ironic.Endpoint.VirtualIPs, e.Ironic.Endpoint.CIDRs)
	if err != nil {
		return nil, ironic.Config{}, err
	}
	if err := e.check(addresses); err != nil {
		return nil, ironic.Config{}, err
	}
	settings, err := e.settings(role, addresses)
	if err != nil {
		return nil, ironic.Config{}, err
	}
	config, err := e.config(role, addresses)
	if err != nil {
		return nil, ironic.Config{}, err
	}
	encoded, err := settings.Encode()
	if err != nil {
		return nil, ironic.Config{}, err
	}
	contents := map[string][]byte{
		ironic.SettingsFile:    encoded,
		ironic.HtpasswdFile:    e.Credentials.Htpasswd,
		ironic.CertificateFile: e.Certificates.Certificate,
		ironic.KeyFile:         e.Certificates.Key,
		ironic.AuthorityFile:   e.Certificates.Authority,
	}
	for name, bundle := range map[string]string{
		ironic.BMCAuthoritiesFile:     e.Ironic.TLS.BMCCABundle,
		ironic.TrustedAuthoritiesFile: e.Ironic.TLS.TrustedCABundle,
	} {
		if bundle != "" {
			// The image appends other certificates to a copy of the file.
			contents[name] = []byte(strings.TrimSpace(bundle) + "\n")
		}
	}
	if config.DHCP != nil {
		if contents[ironic.DHCPFile], err = ironic.DNSMasq(config); err != nil {
			return nil, ironic.Config{}, err
		}
	}
	return contents, config, nil
}

// hash identifies a state of the files. All users that may read Pods can read it. Passwords cannot be guessed with it,
// because the private key is part of the input.
func hash(files []bootdata.File) string {
	sum := sha256.New()
	for _, file := range files {
		// Lengths separate the files in the input of the hash.
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", file.Path, len(file.Content), file.Content)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}
