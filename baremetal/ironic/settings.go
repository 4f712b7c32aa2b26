package ironic

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Settings are optional settings of operators.
type Settings struct {
	// Options of ironic.conf.
	Options []Option

	// Proxy for downloads.
	Proxy Proxy

	// ExternalIP, CallbackURL and ImageURL are for hosts and BMCs that do not reach the VIPs.
	ExternalIP, CallbackURL, ImageURL string

	// PlainVirtualMedia serves virtual media without TLS.
	PlainVirtualMedia bool

	// BMCAuthorities verifies BMCs with BMCAuthoritiesFile, and TrustedAuthorities verifies image servers with
	// TrustedAuthoritiesFile, instead of the CAs of the images.
	BMCAuthorities, TrustedAuthorities bool

	// Collectors and VLANs of the inspection.
	Collectors, VLANs []string

	// GuardAddress is the listen address of the guard. The zero value means the loopback interface.
	GuardAddress netip.Addr

	// Resources of containers, by their names. A missing request is that of the container, or the limit if that is
	// lower.
	Resources map[string]corev1.ResourceRequirements

	// Exporter serves the data of sensors. Nil means none.
	Exporter *Exporter
}

// Option is an option of ironic.conf. An empty group means DEFAULT.
type Option struct {
	Group, Name, Value string
}

// Variable returns the environment variable from which Ironic reads the option.
// Source: oslo.config, "The environment backend".
func (o Option) Variable() string {
	group := o.Group
	if group == "" {
		group = "DEFAULT"
	}
	return fmt.Sprintf("OS_%s__%s", strings.ToUpper(group), strings.ToUpper(o.Name))
}

// Proxy is an HTTP proxy. Without a URL there is none.
type Proxy struct {
	// HTTP and HTTPS are URLs, for URLs of these schemes.
	HTTP, HTTPS string

	// Except are the destinations without the proxy.
	Except []string
}

// Exporter is the Prometheus exporter of Ironic.
type Exporter struct {
	// Address and Port that it listens on.
	Address netip.Addr
	Port    int32

	// Interval between two reads of the sensors. Zero means the default of the image.
	Interval time.Duration
}

// size sets the resources of a container. All downloads have the same.
func (s Settings) size(container *corev1.Container) {
	name := container.Name
	if strings.HasPrefix(name, downloadContainer+"-") {
		name = downloadContainer
	}
	wanted := s.Resources[name]
	requests := container.Resources.Requests
	for name, limit := range wanted.Limits {
		if request, found := requests[name]; found && request.Cmp(limit) > 0 {
			requests[name] = limit
		}
	}
	maps.Copy(requests, wanted.Requests)
	if len(wanted.Limits) > 0 {
		container.Resources.Limits = wanted.Limits
	}
}

// environment returns the variables for the settings, without those of the proxy.
func (s Settings) environment() []corev1.EnvVar {
	var variables []corev1.EnvVar
	add := func(name, value string) {
		if value != "" {
			variables = append(variables, corev1.EnvVar{Name: name, Value: value})
		}
	}
	add("IRONIC_EXTERNAL_IP", inURL(s.ExternalIP))
	add("IRONIC_EXTERNAL_CALLBACK_URL", s.CallbackURL)
	add("IRONIC_EXTERNAL_HTTP_URL", s.ImageURL)
	add("IRONIC_IPA_COLLECTORS", strings.Join(s.Collectors, ","))
	// The scripts of the web server have no default for it.
	add("IRONIC_ENABLE_VLAN_INTERFACES", cmp.Or(strings.Join(s.VLANs, ","), "all"))
	if s.TrustedAuthorities {
		add("WEBSERVER_CACERT_FILE", trustedAuthorities)
	}
	if s.Exporter != nil {
		add("SEND_SENSOR_DATA", "true")
		if interval := s.Exporter.Interval; interval > 0 {
			add("OS_SENSOR_DATA__INTERVAL", strconv.Itoa(int(interval.Seconds())))
		}
	}
	for _, option := range s.Options {
		// An empty value is valid.
		variables = append(variables, corev1.EnvVar{Name: option.Variable(), Value: escaped(option.Value)})
	}
	return variables
}

// escaped escapes $ in a value, so that the kubelet expands no $(NAME).
func escaped(value string) string { return strings.ReplaceAll(value, "$", "$$") }

// proxy returns the variables for programs that download. Some programs read only lower case, and the image completes
// only upper case. If both exist, Python reads lower case.
func (c Config) proxy() []corev1.EnvVar {
	proxy := c.Settings.Proxy
	if proxy.HTTP == "" && proxy.HTTPS == "" {
		return nil
	}
	except := []string{"localhost", loopback, "::1"}
	for _, address := range c.VirtualIPs {
		except = append(except, address.String())
	}
	if c.Settings.ExternalIP != "" {
		except = append(except, c.Settings.ExternalIP)
	}
	if c.DHCP != nil {
		for _, extra := range c.DHCP.Extra {
			except = append(except, extra.Network.String())
		}
	}
	except = append(except, proxy.Except...)
	var variables []corev1.EnvVar
	for _, one := range []struct{ name, value string }{
		{"http_proxy", proxy.HTTP}, {"https_proxy", proxy.HTTPS}, {"no_proxy", strings.Join(except, ",")},
	} {
		if one.value == "" {
			continue
		}
		for _, name := range []string{one.name, strings.ToUpper(one.name)} {
			variables = append(variables, corev1.EnvVar{Name: name, Value: escaped(one.value)})
		}
	}
	return variables
}

// exporter serves the data of sensors that Ironic stores in the shared folder. It requires no credentials and no
// certificates.
func (c Config) exporter() corev1.Container {
	exporter := c.Settings.Exporter
	container := c.ironicContainer("exporter", "10m", "128Mi", "/bin/runironic-exporter")
	container.Env = append(container.Env,
		corev1.EnvVar{Name: "FLASK_RUN_HOST", Value: bracketed(exporter.Address)},
		corev1.EnvVar{Name: "FLASK_RUN_PORT", Value: strconv.Itoa(int(exporter.Port))})
	container.VolumeMounts = []corev1.VolumeMount{sharedMount()}
	return container
}

// guardListens returns the listen address of the guard for metrics and health.
func (s Settings) guardListens() string {
	address := s.GuardAddress
	if !address.IsValid() {
		address = netip.MustParseAddr(loopback)
	}
	return netip.AddrPortFrom(address, GuardPort).String()
}

// inURL returns an address for the use in URLs: the image writes it there as it is. It returns any other text
// unchanged.
func inURL(text string) string {
	if address, err := netip.ParseAddr(text); err == nil {
		return bracketed(address)
	}
	return text
}

// bracketed returns an address for the use with a port.
func bracketed(address netip.Addr) string {
	if address.Is6() {
		return "[" + address.String() + "]"
	}
	return address.String()
}
