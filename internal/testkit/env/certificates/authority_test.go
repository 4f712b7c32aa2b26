package certificates_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/keyutil"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/certificates"
)

func TestServer(t *testing.T) {
	authority := newAuthority(t)
	pair, err := authority.Server("127.0.0.1", "::1", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(pair.Certificate, pair.Key); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority.Certificate()) {
		t.Fatal("the certificate of the authority cannot be parsed")
	}
	certificate := parse(t, pair.Certificate)
	for _, host := range []string{"127.0.0.1", "::1", "localhost"} {
		if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: "elsewhere.example"}); err == nil {
		t.Error("the certificate is valid for another host")
	}
}

func TestServing(t *testing.T) {
	serving, trust, err := certificates.Serving("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(trust) {
		t.Fatal("the certificate of the authority cannot be parsed")
	}
	ours, theirs := net.Pipe()
	server, client := tls.Server(ours, serving), tls.Client(theirs, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"})
	ended := make(chan error, 1)
	go func() { ended <- server.HandshakeContext(t.Context()) }()
	if err := errors.Join(client.HandshakeContext(t.Context()), <-ended); err != nil {
		t.Error(err)
	}
}

func TestUser(t *testing.T) {
	pair, err := newAuthority(t).User("somebody", "system:masters", "others")
	if err != nil {
		t.Fatal(err)
	}
	subject := parse(t, pair.Certificate).Subject
	if subject.CommonName != "somebody" {
		t.Errorf("user %q, want user somebody", subject.CommonName)
	}
	// A certificate does not keep the order.
	slices.Sort(subject.Organization)
	if diff := cmp.Diff([]string{"others", "system:masters"}, subject.Organization); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func TestSigningKey(t *testing.T) {
	key, err := certificates.NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keyutil.ParsePrivateKeyPEM(key); err != nil {
		t.Errorf("the private part: %v", err)
	}
	if public, err := keyutil.ParsePublicKeysPEM(key); err != nil || len(public) != 1 {
		t.Errorf("the public part: %d keys, error %v", len(public), err)
	}
}

func newAuthority(t *testing.T) *certificates.Authority {
	t.Helper()
	authority, err := certificates.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func parse(t *testing.T, encoded []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(encoded)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}
