package controlplane

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// operatorSettings returns the optional settings of operators.
func operatorSettings(described infrav1.Ironic, addresses []vip.Address) (ironic.Settings, error) {
	settings := ironic.Settings{
		Proxy: ironic.Proxy{
			HTTP: described.Proxy.HTTPProxy, HTTPS: described.Proxy.HTTPSProxy, Except: described.Proxy.NoProxy,
		},
		ExternalIP:         described.Endpoint.ExternalIP,
		CallbackURL:        described.Endpoint.ExternalCallbackURL,
		ImageURL:           described.Endpoint.ImageServerExternalURL,
		PlainVirtualMedia:  ptr.Deref(described.TLS.DisableVirtualMediaTLS, false),
		BMCAuthorities:     described.TLS.BMCCABundle != "",
		TrustedAuthorities: described.TLS.TrustedCABundle != "",
		Collectors:         described.Inspection.Collectors,
		VLANs:              described.Inspection.VLANInterfaces,
	}
	for _, option := range described.ExtraConfig {
		settings.Options = append(settings.Options, ironic.Option(option))
	}
	if settings.Proxy.HTTP != "" || settings.Proxy.HTTPS != "" {
		var networks []string
		for _, address := range addresses {
			networks = append(networks, address.Network.String())
		}
		settings.Proxy.Except = append(networks, settings.Proxy.Except...)
	}
	var err error
	if settings.Resources, err = resources(described.Overrides.Containers); err != nil {
		return settings, err
	}
	if address := described.GuardMetrics.BindAddress; address != "" {
		if settings.GuardAddress, err = netip.ParseAddr(address); err != nil {
			return settings, fmt.Errorf("guardMetrics.bindAddress is %q; write an address like 0.0.0.0", address)
		}
	}
	settings.Exporter, err = exporter(described.PrometheusExporter)
	return settings, err
}

// resources returns the resources of the containers by name.
func resources(overrides []infrav1.IronicContainerOverride) (map[string]corev1.ResourceRequirements, error) {
	all := map[string]corev1.ResourceRequirements{}
	for _, container := range overrides {
		path := field.NewPath("overrides", "containers").Key(container.Name).Child("resources")
		requests, err := amounts(path.Child("requests"), container.Resources.Requests)
		if err != nil {
			return nil, err
		}
		limits, err := amounts(path.Child("limits"), container.Resources.Limits)
		if err != nil {
			return nil, err
		}
		all[container.Name] = corev1.ResourceRequirements{Requests: requests, Limits: limits}
	}
	return all, nil
}

func amounts(path *field.Path, described infrav1.IronicResourceList) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for _, one := range []struct {
		name corev1.ResourceName
		text infrav1.Quantity
	}{{corev1.ResourceCPU, described.CPU}, {corev1.ResourceMemory, described.Memory}} {
		if one.text == "" {
			continue
		}
		amount, err := one.text.Parse()
		if err != nil {
			return nil, fmt.Errorf("%s: %q %w", path.Child(string(one.name)), one.text, err)
		}
		list[one.name] = amount
	}
	return list, nil
}

// exporter returns nil if it is not enabled.
func exporter(described infrav1.IronicPrometheusExporter) (*ironic.Exporter, error) {
	if !ptr.Deref(described.Enabled, false) {
		return nil, nil
	}
	orElse(&described.BindAddress, "127.0.0.1")
	orElse(&described.Port, infrav1.DefaultExporterPort)
	address, err := netip.ParseAddr(described.BindAddress)
	if err != nil {
		return nil, fmt.Errorf("prometheusExporter.bindAddress is %q; write an address like 0.0.0.0",
			described.BindAddress)
	}
	result := &ironic.Exporter{Address: address, Port: described.Port}
	if interval := described.SensorCollectionInterval; interval != nil {
		result.Interval = interval.Duration
	}
	return result, nil
}

func ramdisk(described infrav1.IronicRamdisk) ironic.Ramdisk {
	result := ironic.Ramdisk{
		Source: ramdiskSource(described.BaseURL, described.Checksums), Branch: described.Branch,
		KernelParameters: described.ExtraKernelParams, SSHKey: described.SSHKey,
		Present: ptr.Deref(described.DisableDownloader, false),
	}
	for _, one := range described.Architectures {
		result.Others = append(result.Others, ironic.OtherRamdisk{
			Architecture: one.Architecture, Flavor: one.Flavor, Source: ramdiskSource(one.BaseURL, one.Checksums),
		})
	}
	return result
}

func ramdiskSource(baseURL string, sums *infrav1.IronicRamdiskChecksums) ironic.RamdiskSource {
	if sums == nil {
		return ironic.RamdiskSource{BaseURL: baseURL}
	}
	return ironic.RamdiskSource{BaseURL: baseURL, KernelChecksum: sums.Kernel, RamdiskChecksum: sums.Initramfs}
}
