package rule

import (
	"fmt"
	"net/url"
	slashpath "path"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
)

// Ironic validates the specification of an Ironic endpoint. Nil is valid.
//
// It refuses settings with which nodes cannot start an endpoint, because nodes read them at their first boot without
// supervision: two addresses of one family, peers without a common network, a DHCP range that contains the VIP.
func Ironic(path *field.Path, ironic *infrav1.Ironic) field.ErrorList {
	if ironic == nil {
		return nil
	}
	networks, errs := virtualNetworks(path.Child("endpoint"), ironic.Endpoint)
	resolved := len(errs) == 0
	errs = append(errs, interfaceChoice(path.Child("endpoint"), ironic.Endpoint, networks)...)
	errs = append(errs, ports(path.Child("endpoint"), ironic.Endpoint)...)
	errs = append(errs, advertisement(path.Child("vrrp"), ironic.VRRP)...)
	if resolved {
		errs = append(errs, peers(path.Child("vrrp"), ironic.VRRP, networks)...)
		errs = append(errs, dhcp(path.Child("dhcp"), ironic.DHCP, networks)...)
	}
	errs = append(errs, settings(path, ironic)...)
	errs = append(errs, takeover(path.Child("takeoverAfterSilence"), ironic)...)
	errs = append(errs, namedSecret(path.Child("credentialsRef"), ironic.CredentialsRef)...)
	errs = append(errs, namedSecret(path.Child("tlsRef"), ironic.TLSRef)...)
	errs = append(errs, images(path.Child("images"), ironic.Images)...)
	errs = append(errs, downloadURL(path.Child("ramdisk", "baseURL"), ironic.Ramdisk.BaseURL)...)
	errs = append(errs, manifests(path.Child("manifestsDirectory"), ironic.ManifestsDirectory)...)
	errs = append(errs, kubelet(path.Child("kubelet"), ironic.Kubelet)...)
	return errs
}

// ironicWarnings warns of settings that work only in some environments.
func ironicWarnings(path *field.Path, ironic *infrav1.Ironic) Findings {
	if ironic == nil {
		return Findings{}
	}
	return Join(lowPorts(path, ironic), unknownKubelet(path, ironic), dhcpFamily(path, ironic),
		proxiedNetworks(path, ironic))
}

// IronicChange returns the errors and warnings of a change of an Ironic endpoint. Users may remove the whole
// endpoint, and add one with another identity after that.
func IronicChange(path *field.Path, before, after *infrav1.Ironic) Findings {
	if before == nil || after == nil {
		return Findings{}
	}
	return Join(
		virtualIPChange(path.Child("endpoint", "virtualIPs"), before, after),
		Refusals(Unchanged(path.Child("clusterID"), before.ClusterID, after.ClusterID,
			"restore it: the hosts of the cluster are registered under it")),
		modeChange(path.Child("vrrp", "mode"), before.VRRP, after.VRRP),
	)
}

// modeChange refuses to change a mode that is set, and warns of another change of the mode of the nodes. A set mode
// that the nodes would have without it may be removed.
func modeChange(path *field.Path, before, after infrav1.VRRP) Findings {
	was, is := effectiveMode(before), effectiveMode(after)
	switch {
	case was == is:
		return Findings{}
	case before.Mode != "":
		return Refusals(Unchanged(path, string(before.Mode), string(after.Mode),
			"restore it: nodes of different modes ignore the advertisements of each other, and two nodes would hold the VIP"))
	default:
		return Warn(path, "changes from %s to %s; nodes with the old mode ignore the advertisements of new nodes: "+
			"replace all control-plane nodes, or set mode to %s", was, is, was)
	}
}

// effectiveMode returns the mode of the nodes.
func effectiveMode(vrrp infrav1.VRRP) infrav1.VRRPMode {
	switch {
	case vrrp.Mode != "":
		return vrrp.Mode
	case len(vrrp.Peers) > 0:
		return infrav1.VRRPUnicast
	default:
		return infrav1.VRRPMulticast
	}
}

func ports(path *field.Path, endpoint infrav1.IronicEndpoint) field.ErrorList {
	var errs field.ErrorList
	taken := map[int32]string{guardPort: guardPortUser}
	numbers := servicePorts(endpoint)
	for _, name := range []string{"port", "imagePort", "imageTLSPort"} {
		number := numbers[name]
		if other, clash := taken[number]; clash {
			errs = append(errs, samePort(path.Child(name), number, other))
		}
		taken[number] = name
	}
	return errs
}

// guardPort is the fixed port of the guard on each node, and guardPortUser its name in messages.
const (
	guardPort     int32 = ironic.GuardPort
	guardPortUser       = "the port of the guard"
)

func samePort(path *field.Path, number int32, other string) *field.Error {
	return field.Invalid(path, number, fmt.Sprintf("is the same as %s; give each service its own port", other))
}

// firstUserPort is the first port that a process without root may use on a node, unless the node has another
// net.ipv4.ip_unprivileged_port_start.
const firstUserPort = 1024

// lowPorts warns of ports that the web server and the exporter, which do not run as root, can use only on some nodes.
func lowPorts(path *field.Path, spec *infrav1.Ironic) Findings {
	at := func(name string) *field.Path { return path.Child("endpoint", name) }
	var found Findings
	numbers := servicePorts(spec.Endpoint)
	for _, name := range []string{"port", "imagePort", "imageTLSPort"} {
		found = Join(found, lowPort(at(name), numbers[name]))
	}
	if ptr.Deref(spec.PrometheusExporter.Enabled, false) {
		found = Join(found, lowPort(path.Child("prometheusExporter", "port"), exporterPort(spec)))
	}
	return found
}

func lowPort(path *field.Path, number int32) Findings {
	if number >= firstUserPort {
		return Findings{}
	}
	return Warn(path, "is %d, and the web server does not run as root; set net.ipv4.ip_unprivileged_port_start of all "+
		"nodes to at most %d, or choose a port from %d on. Otherwise Ironic starts on no node", number, number, firstUserPort)
}

// servicePorts returns the ports of the services by their fields.
func servicePorts(endpoint infrav1.IronicEndpoint) map[string]int32 {
	numbers := map[string]int32{
		"port": endpoint.Port, "imagePort": endpoint.ImagePort, "imageTLSPort": endpoint.ImageTLSPort,
	}
	for name, instead := range map[string]int32{
		"port": infrav1.DefaultIronicPort, "imagePort": infrav1.DefaultImagePort,
		"imageTLSPort": infrav1.DefaultImageTLSPort,
	} {
		if numbers[name] == 0 {
			numbers[name] = instead
		}
	}
	return numbers
}

func takeover(path *field.Path, ironic *infrav1.Ironic) field.ErrorList {
	silence := ironic.TakeoverAfterSilence
	switch {
	case silence == nil:
		return nil
	case ironic.Takeover != "" && ironic.Takeover != infrav1.TakeoverAfterMove:
		return field.ErrorList{field.Invalid(path, silence.Duration.String(), fmt.Sprintf(
			"has no meaning with takeover %s; omit it, or set takeover to %s",
			ironic.Takeover, infrav1.TakeoverAfterMove))}
	case silence.Duration <= 0:
		return field.ErrorList{field.Invalid(path, silence.Duration.String(),
			"is not positive; raise it, or omit it for never")}
	default:
		return nil
	}
}

func namedSecret(path *field.Path, reference *corev1.LocalObjectReference) field.ErrorList {
	if reference == nil || reference.Name != "" {
		return nil
	}
	return field.ErrorList{field.Required(path.Child("name"),
		"name the Secret, or leave out "+lastOf(path)+" to have one generated")}
}

// lastOf is the name of the field itself.
func lastOf(path *field.Path) string {
	full := path.String()
	return full[strings.LastIndex(full, ".")+1:]
}

func images(path *field.Path, images infrav1.IronicImages) field.ErrorList {
	var errs field.ErrorList
	for _, image := range []struct{ name, reference string }{
		{"keepalived", images.Keepalived},
		{"ironic", images.Ironic},
		{"ramdiskDownloader", images.RamdiskDownloader},
	} {
		if strings.ContainsFunc(image.reference, unicode.IsSpace) || strings.Contains(image.reference, "://") {
			errs = append(errs, field.Invalid(path.Child(image.name), shownURL(image.reference),
				"is not a container image; write it like registry/name:tag, without spaces and without https://"))
		}
	}
	return errs
}

func downloadURL(path *field.Path, raw string) field.ErrorList {
	if raw == "" {
		return nil
	}
	parsed, err := url.Parse(raw)
	if err == nil {
		if (parsed.Scheme == "http" || parsed.Scheme == "https") && parsed.Hostname() != "" {
			return nil
		}
	}
	return field.ErrorList{field.Invalid(path, shownURL(raw), "cannot be downloaded from; write it like "+
		"https://server/path. For files that the node has, omit it and set ramdisk.disableDownloader")}
}

func manifests(path *field.Path, directory string) field.ErrorList {
	if directory == "" {
		return nil
	}
	clean := slashpath.IsAbs(directory) && slashpath.Clean(directory) == directory && directory != "/"
	if clean && !strings.ContainsFunc(directory, unicode.IsSpace) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, directory, "is not an absolute path in its shortest form; "+
		"write it like "+infrav1.DefaultManifestsDirectory)}
}
