package ironic

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/golden"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newCredentials(t *testing.T, addresses ...netip.Addr) Credentials {
	t.Helper()
	credentials, err := NewCredentials(noon, addresses...)
	if err != nil {
		t.Fatal(err)
	}
	return credentials
}

// objects are the Secret and the Deployment of a configuration.
func objects(t *testing.T, config Config, credentials Credentials) (*corev1.Secret, *appsv1.Deployment) {
	t.Helper()
	made, err := Objects("lab.invalid/ironic:test", config, credentials)
	if err != nil {
		t.Fatal(err)
	}
	if len(made) != 3 {
		t.Fatalf("got %d objects", len(made))
	}
	secret, isSecret := made[1].(*corev1.Secret)
	deployment, isDeployment := made[2].(*appsv1.Deployment)
	if !isSecret || !isDeployment {
		t.Fatalf("got %T and %T", made[1], made[2])
	}
	return secret, deployment
}

func TestObjects(t *testing.T) {
	credentials := newCredentials(t, ipv6.Address)
	secret, deployment := objects(t, ipv6, credentials)
	config, err := Render(ipv6)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"ironic.conf": string(config), "tls.crt": string(credentials.Certificate), "tls.key": string(credentials.Key),
		"username": credentials.Username, "password": credentials.Password,
	} {
		if got := string(secret.Data[name]); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	// What is random is not part of the golden file.
	deployment.Spec.Template.Annotations[contentAnnotation] = "hash"
	content, err := yaml.Marshal(deployment)
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "deployment.yaml", content)
}

// TestObjectsRollOut holds the annotation to its purpose: a pod is replaced when what it has read has changed.
func TestObjectsRollOut(t *testing.T) {
	credentials := newCredentials(t, ipv6.Address)
	annotation := func(config Config, credentials Credentials) string {
		_, deployment := objects(t, config, credentials)
		return deployment.Spec.Template.Annotations[contentAnnotation]
	}
	first := annotation(ipv6, credentials)
	if first != annotation(ipv6, credentials) {
		t.Error("the same content has two hashes")
	}
	slower := ipv6
	slower.DeploySeconds++
	if first == annotation(slower, credentials) {
		t.Error("another configuration has the same hash")
	}
	if first == annotation(ipv6, newCredentials(t, ipv6.Address)) {
		t.Error("other credentials have the same hash")
	}
}

func TestCredentials(t *testing.T) {
	v4, v6 := netip.MustParseAddr("172.22.0.2"), netip.MustParseAddr("fd00:172:22::2")
	credentials := newCredentials(t, v4, v6)
	pair, err := tls.X509KeyPair(credentials.Certificate, credentials.Key)
	if err != nil {
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(credentials.CA) {
		t.Fatal("no certificate authority")
	}
	for name, test := range map[string]struct {
		address string
		now     time.Time
		refused bool
	}{
		"IPv4":            {v4.String(), noon, false},
		"IPv6":            {v6.String(), noon, false},
		"clock behind":    {v4.String(), noon.Add(-backdate / 2), false},
		"another address": {"172.22.0.3", noon, true},
		"expired":         {v4.String(), noon.Add(validFor + time.Second), true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: authorities, CurrentTime: test.now, DNSName: test.address})
			if (err != nil) != test.refused {
				t.Errorf("got %v", err)
			}
		})
	}
	if other := newCredentials(t, v4); other.Password == credentials.Password || len(other.Password) < 20 {
		t.Errorf("passwords are weak: %q, %q", other.Password, credentials.Password)
	}
}

func TestCredentialsRefuse(t *testing.T) {
	if _, err := NewCredentials(noon); err == nil || !strings.Contains(err.Error(), "address") {
		t.Errorf("credentials for no address: %v", err)
	}
	if _, err := (Credentials{CA: []byte("none")}).HTTPClient(nil); err == nil {
		t.Error("a client trusts an empty certificate authority")
	}
}
