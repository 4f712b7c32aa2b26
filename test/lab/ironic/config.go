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

// Paths of Ironic, in a container and in the root file system of Run.
const (
	// ConfigDir has ironic.conf, the certificate of the server and the credentials.
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
	// KernelFile and RamdiskFile are the files for the media of agents, below ConfigDir. Machines of a lab do not read
	// them.
	KernelFile  = "agent.kernel"
	RamdiskFile = "agent.initramfs"
	// ImagesDir is the part of StateDir that a web server must serve at Config.ImagesURL.
	ImagesDir = "html"
)

// DefaultPort is the default port of Ironic's API.
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

// Config is the configuration of one Ironic.
type Config struct {
	// Address is the IP address of the API. Required; IPv4 or IPv6.
	Address netip.Addr
	// Port is the TCP port of the API. Default: DefaultPort.
	Port int
	// Advertised is the IP address for agents and BMCs. Default: Address.
	Advertised netip.Addr
	// ConductorHost is the name of the conductor. Default: lab-ironic.
	ConductorHost string
	// ImagesURL is the URL of the media of Ironic for machines. Default: port 6180 of Advertised.
	ImagesURL string
	// CallbackSeconds is how long Ironic waits for a message of an agent. Default: 120.
	CallbackSeconds int
	// PowerSyncSeconds is the interval of comparisons of the power of machines with the database. Default: 30.
	PowerSyncSeconds int
}

// Endpoint returns the URL of the API for clients.
func (c Config) Endpoint() string {
	c = c.withDefaults()
	return origin(c.Address, c.Port) + "/v1/"
}

// Origin returns the URL of the API without the version, as in the parameters of agents.
func (c Config) Origin() string {
	c = c.withDefaults()
	return origin(c.Advertised, c.Port)
}

func origin(address netip.Addr, port int) string {
	return "https://" + net.JoinHostPort(address.String(), strconv.Itoa(port))
}

// Render renders ironic.conf. It returns an error if the address is missing or a value cannot be a line of the file.
func Render(config Config) ([]byte, error) {
	config = config.withDefaults()
	if !config.Address.IsValid() {
		return nil, fmt.Errorf("rendering %s: Address is required", configFile)
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
