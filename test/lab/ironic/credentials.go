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

// validFor is the validity of the certificates of a lab, longer than any lab.
const validFor = 30 * 24 * time.Hour

// backdate is the tolerated delay of the clocks of machines.
const backdate = time.Hour

// requestTimeout is the time limit of one request to Ironic.
const requestTimeout = time.Minute

// Credentials are the shared credentials of clients and server of one Ironic.
type Credentials struct {
	// Username and Password are for basic authentication.
	Username, Password string
	// CA is the certificate authority in PEM format. Its key is deleted after it has signed the certificate of the server.
	CA []byte
	// Certificate and Key of the server, in PEM format.
	Certificate, Key []byte
}

// NewCredentials creates a random password, a certificate authority and a server certificate for the IP addresses. The
// certificates are valid for 30 days from now.
func NewCredentials(now time.Time, addresses ...netip.Addr) (Credentials, error) {
	if len(addresses) == 0 {
		return Credentials{}, errors.New("creating credentials: an address is required")
	}
	ca, caKey, err := newCertificate(&x509.Certificate{
		Subject: pkix.Name{CommonName: "lab-ironic-ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, nil, nil, now)
	if err != nil {
		return Credentials{}, fmt.Errorf("creating the certificate authority: %w", err)
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
		return Credentials{}, fmt.Errorf("creating the certificate of the server: %w", err)
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

// newCertificate creates a key and signs the template with the parent. A nil parent means a self-signed certificate.
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

// Dialer opens a connection. A nil parameter means the network of this process.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// HTTPClient returns a client that trusts only the certificate authority, and uses the dialer.
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
