package ironic

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// validFor is how long the certificates of a lab are valid: longer than any lab lives.
const validFor = 30 * 24 * time.Hour

// backdate makes a certificate valid for machines whose clock is a little behind.
const backdate = time.Hour

// requestTimeout is how long one request to Ironic may take.
const requestTimeout = time.Minute

// Credentials is what clients and the server of one Ironic share.
type Credentials struct {
	// Username and Password are for basic authentication.
	Username, Password string
	// CA is the certificate authority, PEM. Its key is thrown away once the server's certificate is signed.
	CA []byte
	// Certificate and Key are the server's, PEM.
	Certificate, Key []byte
}

// NewCredentials makes a random password, a certificate authority and a server certificate for the IP addresses.
// Now is when the certificates start to be valid; they are valid for 30 days.
func NewCredentials(now time.Time, addresses ...netip.Addr) (Credentials, error) {
	if len(addresses) == 0 {
		return Credentials{}, errors.New("making credentials: no address given: the certificate would match no server")
	}
	ca, caKey, err := newCertificate(&x509.Certificate{
		Subject: pkix.Name{CommonName: "lab-ironic-ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, nil, nil, now)
	if err != nil {
		return Credentials{}, fmt.Errorf("making the certificate authority: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "lab-ironic"}, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(address.AsSlice()))
	}
	server, serverKey, err := newCertificate(template, ca, caKey, now)
	if err != nil {
		return Credentials{}, fmt.Errorf("making the server's certificate: %w", err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		return Credentials{}, fmt.Errorf("encoding the server's key: %w", err)
	}
	return Credentials{
		Username: "lab", Password: rand.Text(),
		CA:          pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}),
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Raw}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}, nil
}

// newCertificate makes a key and signs the template with the parent, or with itself when there is no parent.
func newCertificate(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey, now time.Time) (
	*x509.Certificate, *ecdsa.PrivateKey, error,
) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = now.Add(-backdate), now.Add(validFor)
	if parent == nil {
		parent, parentKey = template, key
	}
	content, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(content)
	return certificate, key, err
}

// Dialer opens a connection; nil in a parameter means the network of this process.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// HTTPClient trusts the certificate authority and nothing else, and dials with the dialer.
func (c Credentials) HTTPClient(dial Dialer) (*http.Client, error) {
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(bytes.TrimSpace(c.CA)) {
		return nil, errors.New("reading the certificate authority of Ironic: no certificate in it")
	}
	return &http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{
			DialContext:     dial,
			TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
		},
	}, nil
}
