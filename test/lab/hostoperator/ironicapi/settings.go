// Package ironicapi is how the stand-in for the Baremetal Operator talks to Ironic: one read of everything that a
// decision needs, and one request per decision.
//
// It refuses to decide anything, and to repeat a request: whoever calls it observes again. Three kinds of trouble are
// told apart, because they mean different things for a host: nobody answers properly (ErrUnreachable), the node is
// locked (ErrBusy), and Ironic says no (Refusal).
//
// Ironic is asked for its drivers before anything else, and again every few seconds, as the Baremetal Operator does: an
// API without a conductor behind it knows nodes, but does nothing with them. While Ironic works on a node, it is asked
// for that node alone, so that many hosts can be polled often.
package ironicapi

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/httpbasic"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/noauth"
)

const (
	// microversion is the lowest that knows all that is used here; disable_power_off came last. Ironic has it since
	// its release 2025.1.
	microversion = "1.95"

	// requestLimit bounds one request, as the Baremetal Operator does by default.
	requestLimit = 30 * time.Second
)

// Settings say where Ironic is.
type Settings struct {
	// Endpoint is the URL of the API with its version: https://172.22.0.10:6385/v1/.
	Endpoint string

	// Username and Password are for HTTP basic authentication. Both empty means none.
	Username, Password string

	// CA are the certificates, in PEM, of who may have signed Ironic's. Empty means those of the system.
	CA []byte

	// Insecure accepts every certificate.
	Insecure bool
}

// New makes a client. It does not connect yet.
func New(settings Settings) (*Client, error) {
	service, err := newService(settings)
	if err != nil {
		return nil, fmt.Errorf("making a client for Ironic at %s: %w", settings.Endpoint, err)
	}
	security := &tls.Config{
		MinVersion: tls.VersionTLS12,
		//nolint:gosec // Only a user who says so gets it.
		InsecureSkipVerify: settings.Insecure,
	}
	if len(settings.CA) > 0 {
		security.RootCAs = x509.NewCertPool()
		if !security.RootCAs.AppendCertsFromPEM(settings.CA) {
			return nil, errors.New("the file with the certificates of Ironic holds none")
		}
	}
	service.ProviderClient.HTTPClient = http.Client{
		Timeout:   requestLimit,
		Transport: &http.Transport{TLSClientConfig: security, Proxy: http.ProxyFromEnvironment},
	}
	service.Microversion = microversion
	return &Client{service: service}, nil
}

func newService(settings Settings) (*gophercloud.ServiceClient, error) {
	if settings.Username == "" && settings.Password == "" {
		return noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: settings.Endpoint})
	}
	return httpbasic.NewBareMetalHTTPBasic(httpbasic.EndpointOpts{
		IronicEndpoint: settings.Endpoint, IronicUser: settings.Username, IronicUserPassword: settings.Password,
	})
}
