package ironic

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"strings"
	"testing"
)

func newCredentials(t *testing.T, addresses ...netip.Addr) Credentials {
	t.Helper()
	credentials, err := NewCredentials(addresses...)
	if err != nil {
		t.Fatal(err)
	}
	return credentials
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
		refused bool
	}{
		"IPv4":            {v4.String(), false},
		"IPv6":            {v6.String(), false},
		"another address": {"172.22.0.3", true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: authorities, DNSName: test.address})
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
	if _, err := NewCredentials(); err == nil || !strings.Contains(err.Error(), "address") {
		t.Errorf("credentials without an address: %v", err)
	}
	if _, err := (Credentials{CA: []byte("none")}).HTTPClient(nil); err == nil {
		t.Error("a client trusts an empty certificate authority")
	}
}
