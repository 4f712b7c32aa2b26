package rule_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// publicKey is a key of ssh-keygen.
const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHmJbnGcfl8hJpSbAkuAnFVCXpwiXaIBmHPcvBDm5J0U operator"

func TestIronicExternals(t *testing.T) {
	endpoint := func(change func(*infrav1.IronicEndpoint)) func(*infrav1.Ironic) {
		return func(ironic *infrav1.Ironic) { change(&ironic.Endpoint) }
	}
	const server = "is not the URL of a server; write it like https://server:443"
	findMistakes(t, map[string]mistake{
		"address": {
			reason: "a NAT before Ironic",
			change: endpoint(func(e *infrav1.IronicEndpoint) { e.ExternalIP = "203.0.113.7" }),
		},
		"URLs": {
			reason: "a load balancer before Ironic",
			change: endpoint(func(e *infrav1.IronicEndpoint) {
				e.ExternalCallbackURL, e.ImageServerExternalURL = "https://ironic.example", "http://[2001:db8::7]:8080"
			}),
		},
		"address and URLs": {
			reason: "the URLs have precedence in the image",
			change: endpoint(func(e *infrav1.IronicEndpoint) {
				e.ExternalIP, e.ExternalCallbackURL = "203.0.113.7", "https://ironic.example"
				e.ImageServerExternalURL = "https://images.example"
			}),
			want: []string{`ironic.endpoint.externalIP: Invalid value: "203.0.113.7": has no effect beside ` +
				"externalCallbackURL and imageServerExternalURL; give the address or the URLs"},
		},
		"one URL": {
			reason: "a ramdisk from an external server requires an external callback",
			change: endpoint(func(e *infrav1.IronicEndpoint) { e.ExternalCallbackURL = "https://ironic.example" }),
			want: []string{"ironic.endpoint.imageServerExternalURL: Required value: set it too, because " +
				"externalCallbackURL is set: virtual media require both"},
		},
		"the other URL": {
			reason: "the same",
			change: endpoint(func(e *infrav1.IronicEndpoint) { e.ImageServerExternalURL = "https://images.example" }),
			want: []string{"ironic.endpoint.externalCallbackURL: Required value: set it too, because " +
				"imageServerExternalURL is set: virtual media require both"},
		},
		"no URLs": {
			reason: "invalid URLs, and a URL with credentials",
			change: endpoint(func(e *infrav1.IronicEndpoint) {
				e.ExternalCallbackURL, e.ImageServerExternalURL = "ironic.example:6385", "https://me:secret@images.example"
			}),
			want: []string{
				`ironic.endpoint.externalCallbackURL: Invalid value: "ironic.example:6385": ` + server,
				`ironic.endpoint.imageServerExternalURL: Invalid value: "https://***@images.example": has credentials, ` +
					"which all users that may read Pods could read; use a server that requires none",
			},
		},
		"no address": {
			reason: "a name is not an address",
			change: endpoint(func(e *infrav1.IronicEndpoint) { e.ExternalIP = "ironic.example" }),
			want:   []string{`ironic.endpoint.externalIP: Invalid value: "ironic.example": ` + badAddress},
		},
	})
}

func TestIronicOverrides(t *testing.T) {
	override := func(requests, limits infrav1.IronicResourceList) func(*infrav1.Ironic) {
		return func(ironic *infrav1.Ironic) {
			ironic.Overrides.Containers = []infrav1.IronicContainerOverride{{
				Name: "ironic", Resources: infrav1.IronicResources{Requests: requests, Limits: limits},
			}}
		}
	}
	cpu := func(amount infrav1.Quantity) infrav1.IronicResourceList {
		return infrav1.IronicResourceList{CPU: amount}
	}
	memory := func(amount infrav1.Quantity) infrav1.IronicResourceList {
		return infrav1.IronicResourceList{Memory: amount}
	}
	const field = "ironic.overrides.containers[0].resources."
	findMistakes(t, map[string]mistake{
		"request":           {reason: "a large site", change: override(cpu("2"), infrav1.IronicResourceList{})},
		"limit":             {reason: "the request follows a lower limit", change: override(infrav1.IronicResourceList{}, memory("1Mi"))},
		"the same":          {reason: "QoS class Guaranteed", change: override(memory("1Gi"), memory("1024Mi"))},
		"different amounts": {reason: "each resource is validated separately", change: override(cpu("2"), memory("1"))},
		"more than the limit": {
			reason: "the kubelet refuses the pod",
			change: override(memory("2Gi"), memory("1Gi")),
			want: []string{field + `requests.memory: Invalid value: "2Gi": is more than the limit of 1Gi; lower it, ` +
				"or raise the limit"},
		},
		"zero": {
			reason: "a limit of zero",
			change: override(infrav1.IronicResourceList{}, cpu("0")),
			want:   []string{field + `limits.cpu: Invalid value: "0": is not positive; omit it, or raise it`},
		},
		"endless": {
			reason: "the conversion from v1beta1 restores it without the schema",
			change: override(cpu("1e-999999999"), memory("1Gi")),
			want: []string{field + `requests.cpu: Invalid value: "1e-999999999": is not a quantity of at most 32 characters ` +
				"with an exponent of at most two digits; write it like 250m or 1Gi"},
		},
		"negative": {
			reason: "the kubelet refuses the pod",
			change: override(cpu("-1"), infrav1.IronicResourceList{}),
			want:   []string{field + `requests.cpu: Invalid value: "-1": is not positive; omit it, or raise it`},
		},
	})
}

func TestIronicExtraConfig(t *testing.T) {
	options := func(options ...infrav1.IronicOption) func(*infrav1.Ironic) {
		return func(ironic *infrav1.Ironic) { ironic.ExtraConfig = options }
	}
	findMistakes(t, map[string]mistake{
		"options": {
			reason: "an option that the provider does not set",
			change: options(infrav1.IronicOption{Name: "debug", Value: "false"},
				infrav1.IronicOption{Group: "conductor", Name: "workers_pool_size", Value: "50"},
				infrav1.IronicOption{Group: "agent", Name: "debug"}),
		},
		"owned": {
			reason: "environment variables have precedence over the file",
			change: options(infrav1.IronicOption{Group: "default", Name: "Auth_Strategy", Value: "noauth"},
				infrav1.IronicOption{Group: "database", Name: "max_retries", Value: "1"},
				infrav1.IronicOption{Group: "pxe", Name: "kernel_append_params", Value: "quiet"}),
			want: []string{
				"ironic.extraConfig[0]: Forbidden: option Auth_Strategy of group default belongs to the provider; omit " +
					"it: the web server of Ironic requires credentials",
				"ironic.extraConfig[1]: Forbidden: option max_retries of group database belongs to the provider; omit " +
					"it: the database is valid for one term of the virtual IP",
				"ironic.extraConfig[2]: Forbidden: option kernel_append_params of group pxe belongs to the provider; set " +
					"ramdisk.extraKernelParams",
			},
		},
		"twice": {
			reason: "only one of them would have an effect",
			change: options(infrav1.IronicOption{Name: "debug", Value: "false"},
				infrav1.IronicOption{Group: "DEFAULT", Name: "debug", Value: "true"}),
			want: []string{`ironic.extraConfig[1]: Duplicate value: "DEFAULT/debug"`},
		},
		"two lines": {
			reason: "an option has one line",
			change: options(infrav1.IronicOption{Group: "agent", Name: "debug", Value: "a\nb"}),
			want: []string{`ironic.extraConfig[0].value: Invalid value: "a\nb": has a line end or another control ` +
				"character; use one line"},
		},
	})
}

func TestIronicProxy(t *testing.T) {
	const form = "is not a name, a domain, an address or a network; write it like example.org, .example.org or 192.0.2.0/24"
	findMistakes(t, map[string]mistake{
		"proxy": {
			reason: "all forms that Python and curl know",
			change: func(ironic *infrav1.Ironic) {
				ironic.Proxy = infrav1.IronicProxy{
					HTTPSProxy: "http://proxy.example:3128",
					NoProxy:    []string{".example.org", "10.0.0.0/8", "2001:db8::1", "bmc-1.example.org"},
				}
			},
		},
		"exceptions alone": {
			reason: "to what",
			change: func(ironic *infrav1.Ironic) { ironic.Proxy.NoProxy = []string{"10.0.0.0/8"} },
			want:   []string{"ironic.proxy.httpsProxy: Required value: give a proxy, or leave out noProxy"},
		},
		"mistakes": {
			reason: "programs would ignore them without an error",
			change: func(ironic *infrav1.Ironic) {
				ironic.Proxy = infrav1.IronicProxy{
					HTTPProxy: "socks5://proxy.example", HTTPSProxy: "http://me:secret@proxy.example",
					NoProxy: []string{"a,b", "http://bmc", ""},
				}
			},
			want: []string{
				`ironic.proxy.httpProxy: Invalid value: "socks5://proxy.example": is not the URL of a server; write it like ` +
					"https://server:443",
				`ironic.proxy.httpsProxy: Invalid value: "http://***@proxy.example": has credentials, which all users that ` +
					"may read Pods could read; use a server that requires none",
				`ironic.proxy.noProxy[0]: Invalid value: "a,b": ` + form,
				`ironic.proxy.noProxy[1]: Invalid value: "http://bmc": ` + form,
				`ironic.proxy.noProxy[2]: Invalid value: "": ` + form,
			},
		},
	})
}

func TestIronicExporter(t *testing.T) {
	on := true
	findMistakes(t, map[string]mistake{
		"on all addresses": {
			reason: "a collector in another network",
			change: func(ironic *infrav1.Ironic) {
				ironic.PrometheusExporter = infrav1.IronicPrometheusExporter{
					Enabled: &on, BindAddress: "::", SensorCollectionInterval: lasting(time.Minute),
				}
			},
		},
		"mistakes": {
			reason: "a used port, and a too short interval",
			change: func(ironic *infrav1.Ironic) {
				ironic.PrometheusExporter = infrav1.IronicPrometheusExporter{
					Enabled: &on, BindAddress: "all", Port: 6385, SensorCollectionInterval: lasting(time.Second),
				}
			},
			want: []string{
				`ironic.prometheusExporter.bindAddress: Invalid value: "all": ` + badAddress,
				`ironic.prometheusExporter.sensorCollectionInterval: Invalid value: "1s": is too short or has parts of a ` +
					"second; use whole seconds, at least 1m0s",
				"ironic.prometheusExporter.port: Invalid value: 6385: is the same as endpoint.port; give each service its " +
					"own port",
			},
		},
		"on the VIP": {
			reason: "the exporter of a standby could not start",
			change: func(ironic *infrav1.Ironic) {
				ironic.PrometheusExporter = infrav1.IronicPrometheusExporter{Enabled: &on, BindAddress: "172.22.0.2"}
			},
			want: []string{`ironic.prometheusExporter.bindAddress: Invalid value: "172.22.0.2": is not an address of every ` +
				"node, and the exporter runs on each; use 0.0.0.0, :: or 127.0.0.1"},
		},
		"port of the guard": {
			reason: "the guard runs on each node",
			change: func(ironic *infrav1.Ironic) {
				ironic.PrometheusExporter = infrav1.IronicPrometheusExporter{Enabled: &on, Port: 9650}
			},
			want: []string{"ironic.prometheusExporter.port: Invalid value: 9650: is the same as the port of the guard; give " +
				"each service its own port"},
		},
	})
}

func architecturesOf(ramdisks ...infrav1.IronicRamdiskArchitecture) func(*infrav1.Ironic) {
	return func(ironic *infrav1.Ironic) { ironic.Ramdisk.Architectures = ramdisks }
}

func TestIronicRamdisk(t *testing.T) {
	const ramdiskURL = "cannot be downloaded from; write it like https://server/path. For files that the node has, omit it " +
		"and set ramdisk.disableDownloader"
	const sameFlavor = "is the flavor of another ramdisk, or one begins with the other and -, and one would delete the files " +
		"of the other: publish the archive under another flavor"
	const unchecked = "has no effect with ramdisk.disableDownloader true, because only the downloader compares checksums; " +
		"omit it, or set disableDownloader to false"
	sums := &infrav1.IronicRamdiskChecksums{Kernel: strings.Repeat("0a", 32), Initramfs: strings.Repeat("0b", 32)}
	const dollar = "has a $, which Ironic and iPXE replace in different ways, and Ironic may fail; "
	findMistakes(t, map[string]mistake{
		"key and parameters": {
			reason: "access to the ramdisk",
			change: func(ironic *infrav1.Ironic) {
				ironic.Ramdisk.SSHKey, ironic.Ramdisk.ExtraKernelParams = publicKey+"\n", "console=ttyS0,115200 quiet"
			},
		},
		"architectures": {
			reason: "ramdisks for further architectures",
			change: architecturesOf(infrav1.IronicRamdiskArchitecture{Architecture: "aarch64", Flavor: "debian-arm64"}),
		},
		"flavors of architectures": {
			reason: "a download would delete the files of another ramdisk",
			change: architecturesOf(
				infrav1.IronicRamdiskArchitecture{Architecture: "aarch64", Flavor: "centos9", BaseURL: "images.example/ipa"},
				infrav1.IronicRamdiskArchitecture{Architecture: "ppc64le", Flavor: "debian"},
				infrav1.IronicRamdiskArchitecture{Architecture: "riscv64", Flavor: "debian"}),
			want: []string{
				`ironic.ramdisk.architectures[0].flavor: Invalid value: "centos9": ` + sameFlavor,
				`ironic.ramdisk.architectures[0].baseURL: Invalid value: "images.example/ipa": ` + ramdiskURL,
				`ironic.ramdisk.architectures[2].flavor: Invalid value: "debian": ` + sameFlavor,
			},
		},
		"flavors that begin with another": {
			reason: "a download would delete the files of another ramdisk, in either order",
			change: architecturesOf(
				infrav1.IronicRamdiskArchitecture{Architecture: "aarch64", Flavor: "debian-arm64"},
				infrav1.IronicRamdiskArchitecture{Architecture: "x86_64", Flavor: "debian"},
				infrav1.IronicRamdiskArchitecture{Architecture: "ppc64le", Flavor: "debian-arm64-ppc"},
				infrav1.IronicRamdiskArchitecture{Architecture: "riscv64", Flavor: "debianports"}),
			want: []string{
				`ironic.ramdisk.architectures[1].flavor: Invalid value: "debian": ` + sameFlavor,
				`ironic.ramdisk.architectures[2].flavor: Invalid value: "debian-arm64-ppc": ` + sameFlavor,
			},
		},
		"names of architectures": {
			reason: "Ironic does not know those of Go and Debian",
			change: architecturesOf(
				infrav1.IronicRamdiskArchitecture{Architecture: "arm64", Flavor: "debian-arm64"},
				infrav1.IronicRamdiskArchitecture{Architecture: "amd64", Flavor: "debian-amd64"}),
			want: []string{
				`ironic.ramdisk.architectures[0].architecture: Invalid value: "arm64": is not the name that Ironic uses, so no host ` +
					"would boot this ramdisk; write aarch64",
				`ironic.ramdisk.architectures[1].architecture: Invalid value: "amd64": is not the name that Ironic uses, so no host ` +
					"would boot this ramdisk; write x86_64",
			},
		},
		"checksums": {
			reason: "the downloader compares them",
			change: func(ironic *infrav1.Ironic) { ironic.Ramdisk.Checksums = sums },
		},
		"checksums without the downloader": {
			reason: "nodes would use files with other checksums",
			change: func(ironic *infrav1.Ironic) {
				ironic.Ramdisk = infrav1.IronicRamdisk{
					DisableDownloader: new(true), Checksums: sums, Architectures: []infrav1.IronicRamdiskArchitecture{
						{Architecture: "ppc64le", Flavor: "debian-ppc"},
						{Architecture: "aarch64", Flavor: "debian-arm64", Checksums: sums},
					},
				}
			},
			want: []string{
				"ironic.ramdisk.checksums: Forbidden: " + unchecked,
				"ironic.ramdisk.architectures[1].checksums: Forbidden: " + unchecked,
			},
		},
		"private key": {
			reason: "a private key would be on the command line of every host",
			change: func(ironic *infrav1.Ironic) {
				ironic.Ramdisk.SSHKey = "-----BEGIN OPENSSH PRIVATE KEY-----"
			},
			want: []string{`ironic.ramdisk.sshKey: Invalid value: "***": is not one public key; write it as in ` +
				"authorized_keys, like ssh-ed25519 AAAA... name"},
		},
		"two keys": {
			reason: "the ramdisk supports one key",
			change: func(ironic *infrav1.Ironic) { ironic.Ramdisk.SSHKey = publicKey + "\n" + publicKey },
			want: []string{`ironic.ramdisk.sshKey: Invalid value: "***": is not one public key; write it as in ` +
				"authorized_keys, like ssh-ed25519 AAAA... name"},
		},
		"dollar": {
			reason: "Ironic replaces $name with an option, and iPXE replaces ${name}",
			change: func(ironic *infrav1.Ironic) {
				ironic.Ramdisk.ExtraKernelParams, ironic.Ramdisk.SSHKey = "rootpwd=$6$salt$hash", publicKey+"$1"
			},
			want: []string{
				`ironic.ramdisk.extraKernelParams: Invalid value: "***": ` + dollar + "remove it, and log in with " +
					"ramdisk.sshKey instead of a password",
				`ironic.ramdisk.sshKey: Invalid value: "***": ` + dollar + "remove it from the comment or the options of the key",
			},
		},
		"two lines": {
			reason: "a kernel has one command line",
			change: func(ironic *infrav1.Ironic) { ironic.Ramdisk.ExtraKernelParams = "quiet\nsplash" },
			want: []string{`ironic.ramdisk.extraKernelParams: Invalid value: "quiet\nsplash": has a line end or another ` +
				"control character; use one line"},
		},
	})
}

func TestIronicReservations(t *testing.T) {
	const noName = "which is no host name, so dnsmasq would not start; begin it with a letter or a digit, and use only " +
		"letters, digits, - and _ up to the first dot"
	extra := func(network, begin, end, gateway string) infrav1.IronicDHCPRange {
		return infrav1.IronicDHCPRange{NetworkCIDR: network, RangeBegin: begin, RangeEnd: end, GatewayAddress: gateway}
	}
	ranges := func(ranges ...infrav1.IronicDHCPRange) func(*infrav1.Ironic) {
		return func(ironic *infrav1.Ironic) { ironic.DHCP.ExtraRanges = ranges }
	}
	findMistakes(t, map[string]mistake{
		"reservations": {
			reason: "forms of dnsmasq",
			change: func(ironic *infrav1.Ironic) {
				ironic.DHCP.Hosts = []string{"52:54:00:00:00:01,172.22.0.150", "52:54:00:00:00:02,set:rack,node-2,infinite"}
				ironic.DHCP.Ignore = []string{"tag:!known", "tag:rack,tag:!efi"}
			},
		},
		"no reservations": {
			reason: "dnsmasq would not start",
			change: func(ironic *infrav1.Ironic) {
				ironic.DHCP.Hosts, ironic.DHCP.Ignore = []string{"52:54:00:00:00:01", "a, b"}, []string{"known"}
			},
			want: []string{
				`ironic.dhcp.hosts[0]: Invalid value: "52:54:00:00:00:01": is no reservation; write it like ` +
					"52:54:00:00:00:01,192.0.2.21 without spaces",
				`ironic.dhcp.hosts[1]: Invalid value: "a, b": is no reservation; write it like ` +
					"52:54:00:00:00:01,192.0.2.21 without spaces",
				`ironic.dhcp.ignore[0]: Invalid value: "known": is no set of tags; write it like tag:!known or tag:one,tag:two`,
			},
		},
		"all forms of reservations": {
			reason: "several NICs of one host, a NIC with its type, and IPv6",
			change: func(ironic *infrav1.Ironic) {
				ironic.DHCP.Hosts = []string{
					"52:54:00:00:00:01,52:54:00:00:00:02,172.22.0.150", "06-52:54:00:*:*:*,set:rack,ignore",
					"id:00:03:00:01,[fd00:22::21],1h", "id:00:03:00:02,[fd00:22::21]", "id:*,node-3", "tag:rack,52:54:00:00:00:04,node-4,[fd00:22::8/125]",
				}
			},
		},
		"reservation of a VIP": {
			reason: "a host would get the VIP of Ironic",
			change: func(ironic *infrav1.Ironic) {
				ironic.DHCP.Hosts = []string{"52:54:00:00:00:01,172.22.0.2", "id:00:01,[fd00:22::2]"}
			},
			want: []string{
				`ironic.dhcp.hosts[0]: Invalid value: "52:54:00:00:00:01,172.22.0.2": reserves 172.22.0.2, which is one of ` +
					"endpoint.virtualIPs; reserve another address",
				`ironic.dhcp.hosts[1]: Invalid value: "id:00:01,[fd00:22::2]": reserves fd00:22::2, which is one of ` +
					"endpoint.virtualIPs; reserve another address",
			},
		},
		"reservation twice": {
			reason: "dnsmasq would not start",
			change: func(ironic *infrav1.Ironic) {
				ironic.DHCP.Hosts = []string{"52:54:00:00:00:01,172.22.0.150", "52:54:00:00:00:02,172.22.0.150"}
			},
			want: []string{`ironic.dhcp.hosts[1]: Invalid value: "52:54:00:00:00:02,172.22.0.150": reserves 172.22.0.150, ` +
				"as another entry does; reserve each address once"},
		},
		"reservation without a MAC address": {
			reason: "dnsmasq would not start",
			change: func(ironic *infrav1.Ironic) { ironic.DHCP.Hosts = []string{"gg:54:00:00:00:01,172.22.0.150"} },
			want: []string{`ironic.dhcp.hosts[0]: Invalid value: "gg:54:00:00:00:01,172.22.0.150": has gg:54:00:00:00:01, ` +
				"which is no MAC address; write it like 52:54:00:00:00:01,192.0.2.21"},
		},
		"reservation of an IPv6 address without brackets": {
			reason: "dnsmasq would reserve nothing",
			change: func(ironic *infrav1.Ironic) { ironic.DHCP.Hosts = []string{"52:54:00:00:00:01,fd00:22::21"} },
			want: []string{`ironic.dhcp.hosts[0]: Invalid value: "52:54:00:00:00:01,fd00:22::21": has fd00:22::21 without ` +
				"brackets, which dnsmasq reads as a MAC address; write [fd00:22::21]"},
		},
		"names in reservations": {
			reason: "dnsmasq would not start",
			change: func(ironic *infrav1.Ironic) {
				ironic.DHCP.Hosts = []string{
					"52:54:00:00:00:01,node_1.lab.example,172.22.0.150", "52:54:00:00:00:02,node@2", "52:54:00:00:00:03,-x",
				}
			},
			want: []string{
				`ironic.dhcp.hosts[1]: Invalid value: "52:54:00:00:00:02,node@2": has node@2, ` + noName,
				`ironic.dhcp.hosts[2]: Invalid value: "52:54:00:00:00:03,-x": has -x, ` + noName,
			},
		},
		"relayed and local": {
			reason: "a network behind a relay, and another range of the own network",
			change: ranges(extra("172.30.0.0/24", "172.30.0.10", "172.30.0.20", "172.30.0.1"),
				extra("172.22.0.0/24", "172.22.0.210", "172.22.0.220", "")),
		},
		"of another family": {
			reason: "one server supports one IP family",
			change: ranges(extra("fd00:30::/64", "fd00:30::10", "fd00:30::20", "")),
			want: []string{`ironic.dhcp.extraRanges[0].networkCIDR: Invalid value: "fd00:30::/64": is not an IPv4 network, ` +
				"as the first range is; write it like 192.0.2.0/24 or 2001:db8::/64"},
		},
		"overlap": {
			reason: "an address would have two leases",
			change: ranges(extra("172.22.0.0/24", "172.22.0.190", "172.22.0.210", "")),
			want: []string{`ironic.dhcp.extraRanges[0].rangeBegin: Invalid value: "172.22.0.190": begins a range that ` +
				"overlaps rangeBegin to rangeEnd; give each address to one range"},
		},
		"over the VIP": {
			reason: "a host would get the VIP of Ironic",
			change: ranges(extra("172.22.0.0/24", "172.22.0.2", "172.22.0.9", "")),
			want: []string{`ironic.dhcp.extraRanges[0].rangeBegin: Invalid value: "172.22.0.2": begins a range ` +
				"up to 172.22.0.9 that contains the address 172.22.0.2 of Ironic itself; choose a range beside it"},
		},
		"outside": {
			reason: "another network",
			change: ranges(extra("172.30.0.0/24", "172.30.0.10", "172.30.1.20", "172.31.0.1")),
			want: []string{
				`ironic.dhcp.extraRanges[0].rangeEnd: Invalid value: "172.30.1.20": is not in networkCIDR 172.30.0.0/24; hand ` +
					"out addresses of that network",
				`ironic.dhcp.extraRanges[0].gatewayAddress: Invalid value: "172.31.0.1": is not in 172.30.0.0/24, the network ` +
					"of the range; give a gateway that its addresses can reach",
			},
		},
		"backwards": {
			reason: "the range is validated as the first one",
			change: ranges(extra("172.30.0.0/24", "172.30.0.20", "172.30.0.10", "")),
			want: []string{`ironic.dhcp.extraRanges[0].rangeEnd: Invalid value: "172.30.0.10": comes before rangeBegin ` +
				"172.30.0.20; swap them"},
		},
	})
}

func TestIronicAuthorities(t *testing.T) {
	authority := certificate(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true})
	const remedy = "; write certificates of CAs in PEM format"
	bmc := func(bundle string) func(*infrav1.Ironic) {
		return func(ironic *infrav1.Ironic) { ironic.TLS.BMCCABundle = bundle }
	}
	findMistakes(t, map[string]mistake{
		"two CAs": {reason: "a bundle with comments", change: func(ironic *infrav1.Ironic) {
			ironic.TLS.BMCCABundle, ironic.TLS.TrustedCABundle = "# one\n"+authority+"# -----BEGIN\n"+authority, authority
		}},
		"version 1": {
			reason: "an old CA without extensions", change: bmc(certificate(t, &x509.Certificate{})),
		},
		"text": {
			reason: "a path is not supported", change: bmc("/etc/ssl/ca.crt"),
			want: []string{`ironic.tls.bmcCABundle: Invalid value: "***": has no certificate` + remedy},
		},
		"key": {
			reason: "a private key must not be in the API or in a message",
			change: func(ironic *infrav1.Ironic) {
				key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")})
				ironic.TLS.TrustedCABundle = authority + string(key)
			},
			want: []string{`ironic.tls.trustedCABundle: Invalid value: "***": block 2 is a PRIVATE KEY` + remedy},
		},
		"damaged": {
			reason: "half a certificate",
			change: bmc(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("half")}))),
			want:   []string{`ironic.tls.bmcCABundle: Invalid value: "***": block 1 cannot be parsed` + remedy},
		},
		"truncated": {
			reason: "a bundle that was copied without its end",
			change: bmc(authority + authority[:len(authority)/2]),
			want:   []string{`ironic.tls.bmcCABundle: Invalid value: "***": block 2 is damaged or indented` + remedy},
		},
		"truncated in the middle": {
			reason: "the certificate after it is valid",
			change: bmc(authority[:len(authority)/2] + "\n" + authority),
			want:   []string{`ironic.tls.bmcCABundle: Invalid value: "***": block 1 is damaged or indented` + remedy},
		},
		"without a line end": {
			reason: "files without a line end at their ends",
			change: bmc(strings.TrimSpace(authority) + authority),
			want:   []string{`ironic.tls.bmcCABundle: Invalid value: "***": block 1 is damaged or indented` + remedy},
		},
		"indented": {
			reason: "OpenSSL ignores a block that does not begin its line",
			change: bmc(authority + "  " + strings.ReplaceAll(authority, "\n", "\n  ")),
			want:   []string{`ironic.tls.bmcCABundle: Invalid value: "***": block 2 is damaged or indented` + remedy},
		},
		"server": {
			reason: "the certificate of a BMC is no CA",
			change: bmc(authority + certificate(t, &x509.Certificate{BasicConstraintsValid: true})),
			want:   []string{`ironic.tls.bmcCABundle: Invalid value: "***": block 2 is not of a CA` + remedy},
		},
	})
}

// certificate signs a template with its own key.
func certificate(t *testing.T, template *x509.Certificate) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(1)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
