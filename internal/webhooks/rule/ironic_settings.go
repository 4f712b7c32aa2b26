package rule

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// minSensorInterval is the minimum time of Ironic between two reads of the sensors of a BMC.
const minSensorInterval = time.Minute

// ownedOptions are the options of ironic.conf that the endpoint depends on, with the alternatives. A group alone means
// all of its options.
var ownedOptions = map[string]string{
	"default/auth_strategy":             "omit it: the web server of Ironic requires credentials",
	"default/host":                      "omit it: it identifies the Ironic of a node",
	"default/http_basic_auth_user_file": "omit it: the web server of Ironic requires credentials",
	"default/my_ip":                     "omit it: it is the first of endpoint.virtualIPs",
	"default/rpc_transport":             "omit it: API and conductor are one process",
	"api":                               "omit it: Ironic listens on a socket behind its web server",
	"database":                          "omit it: the database is valid for one term of the virtual IP",
	"deploy/external_callback_url":      "set endpoint.externalCallbackURL",
	"deploy/external_http_url":          "set endpoint.imageServerExternalURL",
	"deploy/http_root":                  "omit it: the web server has its files there",
	"deploy/http_url":                   "omit it: it is made of endpoint.virtualIPs and endpoint.imagePort",
	"pxe/kernel_append_params":          "set ramdisk.extraKernelParams",
	"redfish/kernel_append_params":      "set ramdisk.extraKernelParams",
	"sensor_data/interval":              "set prometheusExporter.sensorCollectionInterval",
	"sensor_data/send_sensor_data":      "set prometheusExporter.enabled",
	"service_catalog/endpoint_override": "omit it: it is made of endpoint.virtualIPs and endpoint.port",
	"ssl":                               "set tlsRef",
	"oslo_messaging_notifications":      "set prometheusExporter.enabled",
	"inspector/extra_kernel_params":     "set inspection",
}

// OwnedOptions returns the options of ironic.conf that extraConfig must not contain, as group/option or group in lower
// case, with the alternatives.
func OwnedOptions() map[string]string { return maps.Clone(ownedOptions) }

// settings validates the optional settings of operators.
func settings(path *field.Path, ironic *infrav1.Ironic) field.ErrorList {
	errs := externals(path.Child("endpoint"), ironic.Endpoint)
	errs = append(errs, options(path.Child("extraConfig"), ironic.ExtraConfig)...)
	errs = append(errs, proxy(path.Child("proxy"), ironic.Proxy)...)
	errs = append(errs, caBundle(path.Child("tls", "bmcCABundle"), ironic.TLS.BMCCABundle)...)
	errs = append(errs, caBundle(path.Child("tls", "trustedCABundle"), ironic.TLS.TrustedCABundle)...)
	errs = append(errs, exporter(path.Child("prometheusExporter"), ironic)...)
	errs = append(errs, overrides(path.Child("overrides", "containers"), ironic.Overrides.Containers)...)
	errs = append(errs, architectures(path.Child("ramdisk", "architectures"), ironic.Ramdisk.Architectures)...)
	errs = append(errs, checksums(path.Child("ramdisk"), ironic.Ramdisk)...)
	errs = append(errs, kernelParams(path.Child("ramdisk", "extraKernelParams"), ironic.Ramdisk.ExtraKernelParams)...)
	return append(errs, sshKey(path.Child("ramdisk", "sshKey"), ironic.Ramdisk.SSHKey)...)
}

// externals validates the external addresses of Ironic.
func externals(path *field.Path, endpoint infrav1.IronicEndpoint) field.ErrorList {
	var errs field.ErrorList
	callback, images := path.Child("externalCallbackURL"), path.Child("imageServerExternalURL")
	if endpoint.ExternalIP != "" {
		if _, err := nodeAddress(path.Child("externalIP"), endpoint.ExternalIP); err != nil {
			errs = append(errs, err)
		}
		if endpoint.ExternalCallbackURL != "" || endpoint.ImageServerExternalURL != "" {
			errs = append(errs, field.Invalid(path.Child("externalIP"), endpoint.ExternalIP,
				"has no effect beside externalCallbackURL and imageServerExternalURL; give the address or the URLs"))
		}
	}
	switch {
	case endpoint.ExternalCallbackURL != "" && endpoint.ImageServerExternalURL == "":
		errs = append(errs, field.Required(images,
			"set it too, because externalCallbackURL is set: virtual media require both"))
	case endpoint.ExternalCallbackURL == "" && endpoint.ImageServerExternalURL != "":
		errs = append(errs, field.Required(callback,
			"set it too, because imageServerExternalURL is set: virtual media require both"))
	}
	errs = append(errs, webURL(callback, endpoint.ExternalCallbackURL)...)
	return append(errs, webURL(images, endpoint.ImageServerExternalURL)...)
}

// webURL validates a URL of a web server. All users that may read Pods can read it, so it must have no credentials.
func webURL(path *field.Path, raw string) field.ErrorList {
	if raw == "" {
		return nil
	}
	parsed, err := url.Parse(raw)
	switch {
	case err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Hostname() == "":
		return field.ErrorList{field.Invalid(path, shownURL(raw),
			"is not the URL of a server; write it like https://server:443")}
	case parsed.User != nil:
		return field.ErrorList{field.Invalid(path, shownURL(raw),
			"has credentials, which all users that may read Pods could read; use a server that requires none")}
	default:
		return nil
	}
}

func options(path *field.Path, options []infrav1.IronicOption) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, option := range options {
		group := option.Group
		if group == "" {
			group = "DEFAULT"
		}
		name := strings.ToLower(group + "/" + option.Name)
		remedy, owned := ownedOptions[name]
		if !owned {
			remedy, owned = ownedOptions[strings.ToLower(group)]
		}
		switch {
		case owned:
			errs = append(errs, field.Forbidden(path.Index(i),
				fmt.Sprintf("option %s of group %s belongs to the provider; %s", option.Name, group, remedy)))
		case seen[name]:
			errs = append(errs, field.Duplicate(path.Index(i), group+"/"+option.Name))
		}
		seen[name] = true
		errs = append(errs, oneLine(path.Index(i).Child("value"), option.Value)...)
	}
	return errs
}

// oneLine refuses line breaks, which would begin another line of a configuration file.
func oneLine(path *field.Path, value string) field.ErrorList {
	if !strings.ContainsFunc(value, unicode.IsControl) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, "has a line end or another control character; use one line")}
}

func kernelParams(path *field.Path, parameters string) field.ErrorList {
	return append(oneLine(path, parameters),
		noDollar(path, parameters, "remove it, and log in with ramdisk.sshKey instead of a password")...)
}

// noDollar refuses $ in a value that the image writes into ironic.conf and inspector.ipxe. Ironic replaces $name with
// an option, and fails without such an option. iPXE replaces only ${name}, so no escape sequence suits both.
// The error omits the value, which may be the hash of a password.
func noDollar(path *field.Path, value, remedy string) field.ErrorList {
	if !strings.Contains(value, "$") {
		return nil
	}
	return field.ErrorList{field.Invalid(path, "***",
		"has a $, which Ironic and iPXE replace in different ways, and Ironic may fail; "+remedy)}
}

func proxy(path *field.Path, proxy infrav1.IronicProxy) field.ErrorList {
	errs := webURL(path.Child("httpProxy"), proxy.HTTPProxy)
	errs = append(errs, webURL(path.Child("httpsProxy"), proxy.HTTPSProxy)...)
	if len(proxy.NoProxy) > 0 && proxy.HTTPProxy == "" && proxy.HTTPSProxy == "" {
		errs = append(errs, field.Required(path.Child("httpsProxy"), "give a proxy, or leave out noProxy"))
	}
	for i, name := range proxy.NoProxy {
		if name == "" || strings.ContainsFunc(name, unicode.IsSpace) || strings.ContainsAny(name, ",/:") && !isNetwork(name) {
			errs = append(errs, field.Invalid(path.Child("noProxy").Index(i), name,
				"is not a name, a domain, an address or a network; write it like example.org, .example.org or 192.0.2.0/24"))
		}
	}
	return errs
}

// proxiedNetworks warns of IPv6 networks, which Python ignores in no_proxy. It compares IPv6 addresses as text.
func proxiedNetworks(path *field.Path, ironic *infrav1.Ironic) Findings {
	if ironic.Proxy.HTTPProxy == "" && ironic.Proxy.HTTPSProxy == "" {
		return Findings{}
	}
	texts := slices.Concat(ironic.Endpoint.CIDRs, ironic.Proxy.NoProxy)
	if ironic.DHCP != nil {
		for _, extra := range ironic.DHCP.ExtraRanges {
			texts = append(texts, extra.NetworkCIDR)
		}
	}
	networks := sets.New[string]()
	for _, text := range texts {
		if network, err := netip.ParsePrefix(text); err == nil && network.Addr().Is6() {
			networks.Insert(network.Masked().String())
		}
	}
	if len(networks) == 0 {
		return Findings{}
	}
	return Warn(path.Child("proxy"), "applies to hosts and BMCs in %s, because Ironic ignores IPv6 networks in no_proxy; "+
		"list each IPv6 address in noProxy, or use a proxy that routes to these networks",
		strings.Join(sets.List(networks), ", "))
}

// overrides validates resources: the kubelet refuses a static pod whose request exceeds its limit.
func overrides(path *field.Path, containers []infrav1.IronicContainerOverride) field.ErrorList {
	var errs field.ErrorList
	for i, container := range containers {
		requests, limits := container.Resources.Requests, container.Resources.Limits
		at := path.Index(i).Child("resources")
		errs = append(errs, amounts(at, "cpu", requests.CPU, limits.CPU)...)
		errs = append(errs, amounts(at, "memory", requests.Memory, limits.Memory)...)
	}
	return errs
}

// amounts validates the request and the limit of a resource.
func amounts(path *field.Path, name string, request, limit infrav1.Quantity) field.ErrorList {
	least, errs := amount(path.Child("requests", name), request)
	most, others := amount(path.Child("limits", name), limit)
	errs = append(errs, others...)
	if least != nil && most != nil && least.Cmp(*most) > 0 {
		errs = append(errs, field.Invalid(path.Child("requests", name), string(request),
			fmt.Sprintf("is more than the limit of %s; lower it, or raise the limit", limit)))
	}
	return errs
}

// amount parses a quantity. It returns nil for an omitted or invalid one.
func amount(path *field.Path, text infrav1.Quantity) (*resource.Quantity, field.ErrorList) {
	if text == "" {
		return nil, nil
	}
	parsed, err := text.Parse()
	switch {
	case err != nil:
		return nil, field.ErrorList{field.Invalid(path, string(text), err.Error())}
	case parsed.Sign() <= 0:
		return nil, field.ErrorList{field.Invalid(path, string(text), "is not positive; omit it, or raise it")}
	default:
		return &parsed, nil
	}
}

func isNetwork(text string) bool {
	_, networkErr := netip.ParsePrefix(text)
	_, addressErr := netip.ParseAddr(text)
	return networkErr == nil || addressErr == nil
}

func exporter(path *field.Path, ironic *infrav1.Ironic) field.ErrorList {
	var errs field.ErrorList
	described := ironic.PrometheusExporter
	if described.BindAddress != "" {
		at := path.Child("bindAddress")
		address, err := Address(at, described.BindAddress)
		switch {
		case err != nil:
			errs = append(errs, err)
		case !address.IsUnspecified() && !address.IsLoopback():
			errs = append(errs, field.Invalid(at, described.BindAddress,
				"is not an address of every node, and the exporter runs on each; use 0.0.0.0, :: or 127.0.0.1"))
		}
	}
	interval := described.SensorCollectionInterval
	if interval != nil && (interval.Duration < minSensorInterval || interval.Duration%time.Second != 0) {
		errs = append(errs, field.Invalid(path.Child("sensorCollectionInterval"), interval.Duration.String(),
			fmt.Sprintf("is too short or has parts of a second; use whole seconds, at least %s", minSensorInterval)))
	}
	if !ptr.Deref(described.Enabled, false) {
		return errs
	}
	port := exporterPort(ironic)
	if port == guardPort {
		errs = append(errs, samePort(path.Child("port"), port, guardPortUser))
	}
	for name, other := range servicePorts(ironic.Endpoint) {
		if port == other {
			errs = append(errs, samePort(path.Child("port"), port, "endpoint."+name))
		}
	}
	return errs
}

// exporterPort returns the port of the exporter, or its default.
func exporterPort(ironic *infrav1.Ironic) int32 {
	if ironic.PrometheusExporter.Port == 0 {
		return infrav1.DefaultExporterPort
	}
	return ironic.PrometheusExporter.Port
}

// pemBegin matches the begin of each PEM block. pem.Decode skips blocks that it cannot read.
var pemBegin = regexp.MustCompile(`(?m)^[ \t]*-----BEGIN`)

// caBundle accepts certificates in PEM format, and text between them. The error omits the value, which may be a private
// key.
func caBundle(path *field.Path, bundle string) field.ErrorList {
	if bundle == "" {
		return nil
	}
	invalid := func(problem string) field.ErrorList {
		return field.ErrorList{field.Invalid(path, "***", problem+"; write certificates of CAs in PEM format")}
	}
	begins := pemBegin.FindAllStringIndex(bundle, -1)
	if len(begins) == 0 {
		return invalid("has no certificate")
	}
	for i, begin := range begins {
		end := len(bundle)
		if i+1 < len(begins) {
			end = begins[i+1][0]
		}
		if problem := notAuthority(bundle[begin[0]:end]); problem != "" {
			return invalid(fmt.Sprintf("block %d %s", i+1, problem))
		}
	}
	return nil
}

// notAuthority returns why a PEM block is no certificate of a CA.
func notAuthority(text string) string {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return "is damaged or indented"
	}
	if block.Type != "CERTIFICATE" {
		return "is a " + block.Type
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "cannot be parsed"
	case certificate.BasicConstraintsValid && !certificate.IsCA:
		return "is not of a CA"
	default:
		return ""
	}
}

func sshKey(path *field.Path, key string) field.ErrorList {
	if key == "" {
		return nil
	}
	_, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(key))
	if err == nil && len(rest) == 0 && !strings.ContainsFunc(strings.TrimSpace(key), unicode.IsControl) &&
		!strings.Contains(key, `"`) {
		return noDollar(path, key, "remove it from the comment or the options of the key")
	}
	// The value may be a private key.
	return field.ErrorList{field.Invalid(path, "***",
		"is not one public key; write it as in authorized_keys, like ssh-ed25519 AAAA... name")}
}
