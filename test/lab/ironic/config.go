package ironic

import (
	"bytes"
	_ "embed"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"text/template"
)

// Where Ironic finds its files, in a container and in the root file system that Run starts.
const (
	// ConfigDir holds ironic.conf, the server's certificate and the credentials.
	ConfigDir = "/etc/lab-ironic"
	// StateDir is the writable folder: the database, the file of users, locks and temporary files.
	StateDir = "/var/lib/lab-ironic"

	configFile      = "ironic.conf"
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
	authorityFile   = "ca.crt"
	usernameFile    = "username"
	passwordFile    = "password"
	systemPartition = "esp.img"
	// KernelFile and RamdiskFile are what Ironic puts on the media that agents boot from, below ConfigDir. Machines of a
	// lab look at neither.
	KernelFile  = "agent.kernel"
	RamdiskFile = "agent.initramfs"
	// ImagesDir is the part of StateDir that a web server has to serve at Config.ImagesURL.
	ImagesDir = "html"
)

// DefaultPort is the port of Ironic's API where the configuration names none.
const DefaultPort = 6385

const (
	defaultConductorHost    = "lab-ironic"
	defaultPowerSyncSeconds = 30
	defaultCallbackSeconds  = 120
	defaultImagesPort       = 6180
)

//go:embed templates/ironic.conf.tmpl
var configText string

var configTemplate = template.Must(template.New(configFile).Option("missingkey=error").Parse(configText))

// Config says how one Ironic is set up.
type Config struct {
	// Address is the IP address that the API listens on. Required; IPv4 or IPv6.
	Address netip.Addr
	// Port is the TCP port of the API. Default: DefaultPort.
	Port int
	// Advertised is the IP address that agents and board controllers reach this Ironic at. Default: Address.
	Advertised netip.Addr
	// ConductorHost is the name that the conductor has in the lists of conductors and drivers. Default: lab-ironic.
	ConductorHost string
	// ImagesURL is where machines find the media that Ironic builds. Default: port 6180 of Advertised.
	ImagesURL string
	// CallbackSeconds is how long Ironic waits for the next word of an agent. Default: 120.
	CallbackSeconds int
	// PowerSyncSeconds is how often the power states of the machines are compared with the database. Default: 30.
	PowerSyncSeconds int
}

// Endpoint is the URL of the API, as clients want it.
func (c Config) Endpoint() string {
	c = c.withDefaults()
	return origin(c.Address, c.Port) + "/v1/"
}

// Origin is the URL of the API without the version, as Ironic tells it to agents.
func (c Config) Origin() string {
	c = c.withDefaults()
	return origin(c.Advertised, c.Port)
}

func origin(address netip.Addr, port int) string {
	return "https://" + net.JoinHostPort(address.String(), strconv.Itoa(port))
}

// Render makes ironic.conf. It fails when the address is missing or a value cannot be a line of the file.
func Render(config Config) ([]byte, error) {
	config = config.withDefaults()
	if !config.Address.IsValid() {
		return nil, fmt.Errorf("rendering %s: Address is not set: give the IP address that the API listens on", configFile)
	}
	if strings.ContainsAny(config.ConductorHost, "\n\r$") {
		return nil, fmt.Errorf("rendering %s: ConductorHost %q must be one line without $, which Ironic expands",
			configFile, config.ConductorHost)
	}
	var content bytes.Buffer
	if err := configTemplate.Execute(&content, struct {
		Config
		ConfigDir, StateDir string
	}{config, ConfigDir, StateDir}); err != nil {
		return nil, fmt.Errorf("rendering %s: %w", configFile, err)
	}
	return content.Bytes(), nil
}

func (c Config) withDefaults() Config {
	setDefault(&c.Port, DefaultPort)
	setDefault(&c.Advertised, c.Address)
	setDefault(&c.PowerSyncSeconds, defaultPowerSyncSeconds)
	setDefault(&c.CallbackSeconds, defaultCallbackSeconds)
	setDefault(&c.ConductorHost, defaultConductorHost)
	setDefault(&c.ImagesURL, "http://"+net.JoinHostPort(c.Advertised.String(), strconv.Itoa(defaultImagesPort)))
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
