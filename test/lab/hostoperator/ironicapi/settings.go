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
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

	defaultAuthFolder      = "/opt/metal3/auth"
	defaultCertificateFile = "/opt/metal3/certs/ca/tls.crt"
)

// Settings say where Ironic is. The names of the variables and the default files are those of the Baremetal Operator.
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

// SettingsFrom reads the settings: IRONIC_ENDPOINT, the files ironic/username and ironic/password below
// METAL3_AUTH_ROOT_DIR (/opt/metal3/auth), IRONIC_CACERT_FILE (/opt/metal3/certs/ca/tls.crt) and IRONIC_INSECURE
// (false). Files that do not exist mean no authentication and the certificates of the system.
func SettingsFrom(getenv func(string) string) (Settings, error) {
	settings := Settings{Endpoint: getenv("IRONIC_ENDPOINT")}
	if settings.Endpoint == "" {
		return Settings{}, errors.New("set IRONIC_ENDPOINT to the URL of Ironic, like https://172.22.0.10:6385/v1/")
	}
	folder := filepath.Join(or(getenv("METAL3_AUTH_ROOT_DIR"), defaultAuthFolder), "ironic")
	for name, value := range map[string]*string{"username": &settings.Username, "password": &settings.Password} {
		content, err := readIfExists(filepath.Join(folder, name))
		if err != nil {
			return Settings{}, fmt.Errorf("reading the credentials of Ironic: %w", err)
		}
		*value = strings.TrimSpace(string(content))
	}
	var err error
	if settings.CA, err = readIfExists(or(getenv("IRONIC_CACERT_FILE"), defaultCertificateFile)); err != nil {
		return Settings{}, fmt.Errorf("reading the certificates that Ironic may have: %w", err)
	}
	if insecure := getenv("IRONIC_INSECURE"); insecure != "" {
		if settings.Insecure, err = strconv.ParseBool(insecure); err != nil {
			return Settings{}, fmt.Errorf("IRONIC_INSECURE is %q, want true or false", insecure)
		}
	}
	return settings, nil
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

func readIfExists(file string) ([]byte, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return content, err
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
