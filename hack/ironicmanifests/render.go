package main

import (
	"bytes"

	appsv1 "k8s.io/api/apps/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/controlplane"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/certificates"
)

// Names in the hand-written part of config/ironic.
const (
	namespace      = "metal3-ironic-system"
	deploymentName = "metal3-ironic"
	valuesName     = "ironic-values"
	settingsName   = "ironic-guard"
	credentialName = "ironic-credentials" //nolint:gosec // The name of a Secret, not what is in it.
	tlsName        = "ironic-tls"

	// guardImage has the tag of the manager's image in config/manager.
	guardImage = "ghcr.io/metal3-pivot/keepalived-guard:dev"
)

// Placeholders of values. The addresses are reserved for documentation.
const (
	placeholderID        = "placeholder"
	placeholderInterface = "placeholder0"
	placeholderIP        = "192.0.2.2"
	placeholderCIDR      = "192.0.2.0/27"
	placeholderPrefix    = 27
	placeholderRouterID  = 251
	placeholderServer    = "192.0.2.1"
	placeholderRange     = "192.0.2.10,192.0.2.19,255.255.255.224"

	placeholderSecondIP   = "2001:db8::2"
	placeholderSecondCIDR = "2001:db8::/64"
)

// rendered is the output of the renderer.
type rendered struct {
	deployment *appsv1.Deployment
	settings   []byte
	// dnsmasq is the file of a node.
	dnsmasq []byte
}

// render renders placeholders with DHCP and other components.
func render(components ...string) (rendered, error) {
	described, err := describe(placeholders(), append(components, "dhcp")...)
	if err != nil {
		return rendered{}, err
	}
	return renderFor(described)
}

// endpointFor returns an endpoint with temporary secrets.
func endpointFor(described infrav1.Ironic, certificates controlplane.Certificates) controlplane.Endpoint {
	return controlplane.Endpoint{
		Ironic: described, GuardImage: guardImage, Certificates: certificates,
		Credentials: controlplane.Credentials{
			Username: []byte("nobody"), Password: []byte("nothing"), Htpasswd: []byte("nobody:$2y$05$thrown.away\n"),
		},
	}
}

// renderFor renders the management side with temporary secrets.
func renderFor(described infrav1.Ironic) (rendered, error) {
	certificates, err := throwaway(described.Endpoint.VirtualIPs...)
	if err != nil {
		return rendered{}, err
	}
	place := ironic.Management{Name: deploymentName, Namespace: namespace, Secret: credentialName}
	deployment, data, err := controlplane.Management(endpointFor(described, certificates), place)
	if err != nil {
		return rendered{}, err
	}
	return rendered{
		deployment: deployment,
		settings:   data[ironic.SecretKey(ironic.SettingsFile)],
		dnsmasq:    bytes.TrimSpace(data[ironic.SecretKey(ironic.DHCPFile)]),
	}, nil
}

// throwaway returns a certificate of an authority without a use, because the renderer requires one.
func throwaway(addresses ...string) (controlplane.Certificates, error) {
	authority, err := certificates.NewAuthority("throwaway")
	if err != nil {
		return controlplane.Certificates{}, err
	}
	server, err := authority.Server(addresses...)
	return controlplane.Certificates{
		Certificate: server.Certificate, Authority: authority.Certificate(), Key: server.Key,
	}, err
}
