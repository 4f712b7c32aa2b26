package secrets

import (
	"fmt"
	"strings"
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

// nameSuffix follows the name of the Cluster in the name of the Secret.
const nameSuffix = "-ironic"

// Name of the Secret with the material of a Cluster.
func Name(cluster string) string { return cluster + nameSuffix }

// Material is what an endpoint is served with, and what its clients need. All of it is set.
type Material struct {
	// Username and Password are what clients use. Htpasswd has a line for them.
	Username, Password, Htpasswd []byte

	// Authority is what clients trust, Certificate is signed by it, Key belongs to Certificate. All are in PEM.
	Authority, Certificate, Key []byte
}

// String keeps secrets out of logs.
func (m Material) String() string { return fmt.Sprintf("material for user %q", m.Username) }

// GoString keeps secrets out of logs.
func (m Material) GoString() string { return m.String() }

// Read takes the material from the data of the Secret. It fails while keys are missing.
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

// missing lists the keys that have no value.
func missing(data map[string][]byte, keys ...string) string {
	var list []string
	for _, key := range keys {
		if len(data[key]) == 0 {
			list = append(list, key)
		}
	}
	return strings.Join(list, ", ")
}

// present lists the keys that have a value.
func present(data map[string][]byte, keys ...string) string {
	var list []string
	for _, key := range keys {
		if len(data[key]) > 0 {
			list = append(list, key)
		}
	}
	return strings.Join(list, ", ")
}

// problem is something that the user has to correct.
type problem struct{ message string }

// Error implements error.
func (p *problem) Error() string { return p.message }

func problemf(format string, arguments ...any) error {
	return &problem{message: fmt.Sprintf(format, arguments...)}
}
