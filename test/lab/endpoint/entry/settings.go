package entry

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Settings are what the environment and the files of a container say about Ironic and its web server. Both containers
// read the same.
type Settings struct {
	// Address is that of the endpoint. Nothing waits until this machine has it.
	Address netip.Addr
	// ListenAll makes everything listen on all addresses, and not on Address alone.
	ListenAll bool
	// AccessPort is the port of the API in URLs, ListenPort the one that is listened on.
	AccessPort, ListenPort int
	// ImagePort serves images over HTTP, MediaPort with TLS.
	ImagePort, MediaPort int
	// Proxy has the web server check credentials and terminate TLS, with Ironic behind it on a socket.
	Proxy bool
	// TLS says that there is a certificate for the API, MediaTLS that there is one for MediaPort.
	TLS, MediaTLS bool
	// Users says that there is a file of users.
	Users bool
	// Conductor is the name of the conductor.
	Conductor string
	// ExternalImageURL and CallbackURL are what hosts and BMCs get instead of the addresses of the endpoint. Empty where
	// they get these.
	ExternalImageURL, CallbackURL string
	// KernelParameters are those of ramdisks, beside the parameters that Ironic itself adds.
	KernelParameters string
	// Workers is the number of processes of the API. 0 leaves it to Ironic.
	Workers int
}

// refused are the variables that ask for what the lab does not have, with the values that are fine.
var refused = []struct{ name, fine, reason string }{
	{"PROVISIONING_IP", "", "nothing waits for an address here: set IRONIC_IP"},
	{"IRONIC_USE_MARIADB", "false", "the database is SQLite"},
	{"IRONIC_EXPOSE_JSON_RPC", "false", "API and conductor are one process"},
	{"IRONIC_HTPASSWD", "", "users are in the file " + htpasswdFile},
}

// ReadSettings reads the settings. It fails when a variable is missing or makes no sense, or asks for what the lab does
// not have.
func ReadSettings(getenv func(string) string, exists func(string) bool) (Settings, error) {
	for _, variable := range refused {
		if value := getenv(variable.name); value != "" && !strings.EqualFold(value, variable.fine) {
			return Settings{}, fmt.Errorf("%s is %q: %s", variable.name, value, variable.reason)
		}
	}
	address, err := netip.ParseAddr(getenv("IRONIC_IP"))
	if err != nil {
		return Settings{}, fmt.Errorf("IRONIC_IP has to be the address of the endpoint: %w", err)
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

// check refuses what would leave the API open, or broken.
func (s Settings) check(private string) error {
	switch {
	case s.Proxy && private != "unix":
		return fmt.Errorf("IRONIC_PRIVATE_PORT is %q: behind the web server Ironic listens on a socket only: set it to unix",
			private)
	case s.Proxy && !s.TLS:
		return fmt.Errorf("IRONIC_REVERSE_PROXY_SETUP is true, but there is no certificate %s", certificateFile)
	case s.Proxy && !s.Users:
		return fmt.Errorf("IRONIC_REVERSE_PROXY_SETUP is true, but there is no file of users %s", htpasswdFile)
	case strings.ContainsAny(s.Conductor, "\n\r$"):
		return fmt.Errorf("IRONIC_CONDUCTOR_HOST %q must be one line without $, which Ironic expands", s.Conductor)
	}
	return nil
}

// URL is the address of the API as clients and Ironic itself write it.
func (s Settings) URL() string {
	scheme := "http"
	if s.TLS {
		scheme = "https"
	}
	return scheme + "://" + s.host(s.AccessPort)
}

// ImageURL is the address of the web server for images.
func (s Settings) ImageURL() string { return "http://" + s.host(s.ImagePort) }

func (s Settings) host(port int) string {
	return net.JoinHostPort(s.Address.String(), strconv.Itoa(port))
}

// Listen is what the web server listens on for a port.
func (s Settings) Listen(port int) string {
	if s.ListenAll {
		return strconv.Itoa(port)
	}
	return net.JoinHostPort(s.Address.String(), strconv.Itoa(port))
}

// Host is the address that Ironic listens on where it listens on one.
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
		r.err = fmt.Errorf("%s is %q, but has to be %s", name, r.getenv(name), want)
	}
}
