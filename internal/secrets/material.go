package secrets

import (
	"fmt"
	"strings"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/controlplane"
)

// Keys of the Secret.
const (
	UsernameKey     = "username"
	PasswordKey     = "password"
	HtpasswdKey     = "htpasswd"
	AuthorityKey    = "ca.crt"
	AuthorityKeyKey = "ca.key"
	CertificateKey  = "tls.crt"
	KeyKey          = "tls.key"
)

// nameSuffix is the suffix of the name of the Secret, after the name of the Cluster.
const nameSuffix = "-ironic"

// Name returns the name of the Secret with the material of a Cluster.
func Name(cluster string) string { return cluster + nameSuffix }

// Material has the credentials and certificates of an endpoint, for its servers and clients. All values are set.
type Material struct {
	// Username and Password are the credentials of clients. Htpasswd has a line for them.
	Username, Password, Htpasswd []byte

	// Authority is the CA that clients trust. It has signed Certificate, and Key belongs to Certificate. All are in
	// PEM.
	Authority, Certificate, Key []byte

	// Renewal is the remedy for a certificate that ends soon, for the end of a message. Only Ensure sets it.
	Renewal string
}

// Endpoint returns the endpoint with this material. GuardImage is the image of guard and keepalived of this release.
func (m Material) Endpoint(described *infrav1.Ironic, guardImage string) controlplane.Endpoint {
	return controlplane.Endpoint{
		Ironic:       *described.DeepCopy(),
		GuardImage:   guardImage,
		Credentials:  controlplane.Credentials{Username: m.Username, Password: m.Password, Htpasswd: m.Htpasswd},
		Certificates: controlplane.Certificates{Certificate: m.Certificate, Key: m.Key, Authority: m.Authority},
	}
}

// String omits secrets in logs.
func (m Material) String() string { return fmt.Sprintf("material for user %q", m.Username) }

// GoString omits secrets in logs.
func (m Material) GoString() string { return m.String() }

// Read returns the material from the data of the Secret. It returns an error if keys are missing.
func Read(data map[string][]byte) (Material, error) {
	missing := missing(data, UsernameKey, PasswordKey, HtpasswdKey, AuthorityKey, CertificateKey, KeyKey)
	if missing != "" {
		return Material{}, fmt.Errorf("reading the material of an Ironic endpoint: %s is missing", missing)
	}
	return Material{
		Username: data[UsernameKey], Password: data[PasswordKey], Htpasswd: data[HtpasswdKey],
		Authority: data[AuthorityKey], Certificate: data[CertificateKey], Key: data[KeyKey],
	}, nil
}

// missing returns the keys without a value.
func missing(data map[string][]byte, keys ...string) string {
	var list []string
	for _, key := range keys {
		if len(data[key]) == 0 {
			list = append(list, key)
		}
	}
	return strings.Join(list, ", ")
}

// present returns the keys with a value.
func present(data map[string][]byte, keys ...string) string {
	var list []string
	for _, key := range keys {
		if len(data[key]) > 0 {
			list = append(list, key)
		}
	}
	return strings.Join(list, ", ")
}

// problem is an error that the user must correct.
type problem struct{ message string }

// Error implements error.
func (p *problem) Error() string { return p.message }

func problemf(format string, arguments ...any) error {
	return &problem{message: fmt.Sprintf(format, arguments...)}
}
