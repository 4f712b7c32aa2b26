package entry

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Settings are the settings of Ironic and its web server from the environment and files of a container. Both containers
// read the same.
type Settings struct {
	// Address is the address of the endpoint. The programs do not wait for it.
	Address netip.Addr
	// ListenAll makes the programs listen on all addresses instead of Address.
	ListenAll bool
	// AccessPort is the port of the API in URLs, ListenPort the listening port.
	AccessPort, ListenPort int
	// ImagePort serves images over HTTP, MediaPort with TLS.
	ImagePort, MediaPort int
	// Proxy makes the web server check credentials and terminate TLS, with Ironic on a socket.
	Proxy bool
	// TLS is true if the API has a certificate, MediaTLS if MediaPort has one.
	TLS, MediaTLS bool
	// Users is true if a file of users exists.
	Users bool
	// Conductor is the name of the conductor.
	Conductor string
	// ExternalImageURL and CallbackURL replace the addresses of the endpoint for hosts and BMCs. Empty means no
	// replacement.
	ExternalImageURL, CallbackURL string
	// KernelParameters are additional parameters of ramdisks.
	KernelParameters string
	// Workers is the number of processes of the API. 0 means the default of Ironic.
	Workers int
}

// refused are the variables of features that the lab lacks, with their valid values.
var refused = []struct{ name, fine, reason string }{
	{"PROVISIONING_IP", "", "waiting for an address is not supported: set IRONIC_IP"},
	{"IRONIC_USE_MARIADB", "false", "the database is SQLite"},
	{"IRONIC_EXPOSE_JSON_RPC", "false", "API and conductor are one process"},
	{"IRONIC_HTPASSWD", "", "users are in the file " + htpasswdFile},
}

// ReadSettings reads the settings. It returns an error if a variable is missing or invalid, or enables a feature that
// the lab lacks.
func ReadSettings(getenv func(string) string, exists func(string) bool) (Settings, error) {
	for _, variable := range refused {
		if value := getenv(variable.name); value != "" && !strings.EqualFold(value, variable.fine) {
			return Settings{}, fmt.Errorf("%s is %q: %s", variable.name, value, variable.reason)
		}
	}
	address, err := netip.ParseAddr(getenv("IRONIC_IP"))
	if err != nil {
		return Settings{}, fmt.Errorf("reading IRONIC_IP, the address of the endpoint: %w", err)
	}
	read := reader{getenv: getenv}
	settings := Settings{
		Address:    address,
		ListenAll:  read.truth("LISTEN_ALL_INTERFACES", true),
		AccessPort: read.number("IRONIC_ACCESS_PORT", 6385),
		ImagePort:  read.number("HTTP_PORT", 80),
		MediaPort:  read.number("VMEDIA_TLS_PORT", 8083),
		Workers:    read.number("NUMWORKERS", 0),
		TLS:        exists(certificateFile),
		MediaTLS:   exists(mediaCertFile),
		Users:      exists(htpasswdFile),
		Conductor:  getenv("IRONIC_CONDUCTOR_HOST"),

		ExternalImageURL: getenv("IRONIC_EXTERNAL_HTTP_URL"),
		CallbackURL:      getenv("IRONIC_EXTERNAL_CALLBACK_URL"),
		KernelParameters: getenv("IRONIC_KERNEL_PARAMS"),
	}
	if settings.ExternalImageURL == "" && settings.MediaTLS {
		settings.ExternalImageURL = "https://" + settings.host(settings.MediaPort)
	}
	settings.ListenPort = read.number("IRONIC_LISTEN_PORT", settings.AccessPort)
	settings.Proxy = read.truth("IRONIC_REVERSE_PROXY_SETUP", false)
	if settings.Conductor == "" {
		settings.Conductor = address.String()
	}
	if read.err != nil {
		return Settings{}, read.err
	}
	return settings, settings.check(getenv("IRONIC_PRIVATE_PORT"))
}

// check returns an error for settings that would leave the API open, or broken.
func (s Settings) check(private string) error {
	switch {
	case s.Proxy && private != "unix":
		return fmt.Errorf("IRONIC_PRIVATE_PORT is %q: behind the web server Ironic listens on a socket only: set it to unix",
			private)
	case s.Proxy && !s.TLS:
		return fmt.Errorf("IRONIC_REVERSE_PROXY_SETUP is true, but certificate %s is missing", certificateFile)
	case s.Proxy && !s.Users:
		return fmt.Errorf("IRONIC_REVERSE_PROXY_SETUP is true, but the file of users %s is missing", htpasswdFile)
	case strings.ContainsAny(s.Conductor, "\n\r$"):
		return fmt.Errorf("IRONIC_CONDUCTOR_HOST %q must be one line without $, which Ironic expands", s.Conductor)
	}
	return nil
}

// URL returns the URL of the API for clients and Ironic itself.
func (s Settings) URL() string {
	scheme := "http"
	if s.TLS {
		scheme = "https"
	}
	return scheme + "://" + s.host(s.AccessPort)
}

// ImageURL returns the URL of the web server for images.
func (s Settings) ImageURL() string { return "http://" + s.host(s.ImagePort) }

func (s Settings) host(port int) string {
	return net.JoinHostPort(s.Address.String(), strconv.Itoa(port))
}

// Listen returns the listen address of the web server for a port.
func (s Settings) Listen(port int) string {
	if s.ListenAll {
		return strconv.Itoa(port)
	}
	return net.JoinHostPort(s.Address.String(), strconv.Itoa(port))
}

// Host returns the address that Ironic listens on without ListenAll.
func (s Settings) Host() string {
	if s.ListenAll {
		return "::"
	}
	return s.Address.String()
}

// reader reads variables and keeps the first error.
type reader struct {
	getenv func(string) string
	err    error
}

func (r *reader) truth(name string, fallback bool) bool {
	switch value := strings.ToLower(r.getenv(name)); value {
	case "":
		return fallback
	case "true", "false":
		return value == "true"
	default:
		r.fail(name, "true or false")
		return false
	}
}

func (r *reader) number(name string, fallback int) int {
	value := r.getenv(name)
	if value == "" {
		return fallback
	}
	number, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		r.fail(name, "a number")
	}
	return int(number)
}

func (r *reader) fail(name, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s is %q, want %s", name, r.getenv(name), want)
	}
}
