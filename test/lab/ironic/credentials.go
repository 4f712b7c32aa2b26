package ironic

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/certificates"
)

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

// NewCredentials creates a random password, a certificate authority and a server certificate for the IP addresses.
func NewCredentials(addresses ...netip.Addr) (Credentials, error) {
	if len(addresses) == 0 {
		return Credentials{}, errors.New("creating credentials: an address is required")
	}
	authority, err := certificates.NewAuthority("lab-ironic-ca")
	if err != nil {
		return Credentials{}, err
	}
	hosts := make([]string, len(addresses))
	for i, address := range addresses {
		hosts[i] = address.String()
	}
	server, err := authority.Server(hosts...)
	return Credentials{
		Username: "lab", Password: rand.Text(),
		CA: authority.Certificate(), Certificate: server.Certificate, Key: server.Key,
	}, err
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
