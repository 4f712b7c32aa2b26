package rule_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/randfill"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
)

const badAddress = "is not an IP address; write it like 192.0.2.10 or 2001:db8::10"

// dualStack returns an endpoint with all fields.
func dualStack() *infrav1.Ironic {
	return &infrav1.Ironic{
		ClusterID: "3f9c1a7e",
		Endpoint: infrav1.IronicEndpoint{
			VirtualIPs: []string{"172.22.0.2", "fd00:22::2"},
			CIDRs:      []string{"172.22.0.0/24", "fd00:22::/64"},
			Interface:  "provisioning",
			Port:       6385, ImagePort: 6180, ImageTLSPort: 6183,
		},
		VRRP: infrav1.VRRP{
			VirtualRouterID: 51, Mode: infrav1.VRRPUnicast,
			Peers:                 []string{"172.22.0.11", "172.22.0.12", "fd00:22::11", "fd00:22::12"},
			AdvertisementInterval: lasting(time.Second),
		},
		Takeover:             infrav1.TakeoverAfterMove,
		TakeoverAfterSilence: lasting(15 * time.Minute),
		Standby:              infrav1.StandbyWarm,
		DHCP: &infrav1.IronicDHCP{
			RangeBegin: "172.22.0.100", RangeEnd: "172.22.0.200", Gateway: "172.22.0.1",
			DNS: []string{"172.22.0.1", "192.0.2.53"}, LeaseTime: lasting(2 * time.Minute),
		},
		CredentialsRef: &corev1.LocalObjectReference{Name: "credentials"},
		TLSRef:         &corev1.LocalObjectReference{Name: "tls"},
		Images: infrav1.IronicImages{
			Keepalived: "registry.example:5000/keepalived:v1", Ironic: "ironic@sha256:44d8f7e2",
		},
		Ramdisk:            infrav1.IronicRamdisk{BaseURL: "https://images.example/ipa"},
		ManifestsDirectory: "/etc/kubernetes/manifests",
	}
}

// least returns an endpoint with required fields only.
func least() *infrav1.Ironic {
	return &infrav1.Ironic{Endpoint: infrav1.IronicEndpoint{
		VirtualIPs: []string{"172.22.0.2"}, CIDRs: []string{"172.22.0.0/24"}, Interface: "br0",
	}}
}

func lasting(duration time.Duration) *metav1.Duration { return &metav1.Duration{Duration: duration} }

// mistake is a change of a valid endpoint and the expected findings.
type mistake struct {
	reason string
	change func(*infrav1.Ironic)
	want   []string
}

func findMistakes(t *testing.T, mistakes map[string]mistake) {
	t.Helper()
	for name, c := range mistakes {
		t.Run(name, func(t *testing.T) {
			ironic := dualStack()
			c.change(ironic)
			got := texts(rule.Ironic(field.NewPath("ironic"), ironic))
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func texts(errs field.ErrorList) []string {
	var found []string
	for _, err := range errs {
		found = append(found, err.Error())
	}
	return found
}

func TestIronicEndpoint(t *testing.T) {
	findMistakes(t, map[string]mistake{
		"complete": {reason: "everything set", change: func(*infrav1.Ironic) {}},
		"least":    {reason: "only required fields", change: func(ironic *infrav1.Ironic) { *ironic = *least() }},
		"one IPv6 address": {
			reason: "IPv4 is optional",
			change: func(ironic *infrav1.Ironic) {
				*ironic = *least()
				ironic.Endpoint.VirtualIPs, ironic.Endpoint.CIDRs = []string{"fd00::2"}, []string{"fd00::2/128"}
			},
		},
		"no address": {
			reason: "an endpoint requires an address",
			change: func(ironic *infrav1.Ironic) {
				ironic.Endpoint.VirtualIPs, ironic.Endpoint.CIDRs = nil, nil
			},
			want: []string{"ironic.endpoint.virtualIPs: Required value: give the address that Ironic answers on"},
		},
		"not an address": {
			reason: "dependent values are not validated",
			change: func(ironic *infrav1.Ironic) {
				ironic.Endpoint.VirtualIPs[0] = "172.22.0.2/24"
				ironic.Endpoint.CIDRs[1] = "fd00:22::"
			},
			want: []string{
				`ironic.endpoint.virtualIPs[0]: Invalid value: "172.22.0.2/24": ` + badAddress,
				`ironic.endpoint.cidrs[1]: Invalid value: "fd00:22::": is not a network; write it like 192.0.2.0/24 or ` +
					"2001:db8::/64",
			},
		},
		"addresses that no node can have": {
			reason: "each would fail only on the node",
			change: func(ironic *infrav1.Ironic) {
				ironic.Endpoint.VirtualIPs = []string{"255.255.255.255", "fe80::2"}
				ironic.Endpoint.CIDRs = []string{"0.0.0.0/0", "fe80::/64"}
			},
			want: []string{
				`ironic.endpoint.virtualIPs[0]: Invalid value: "255.255.255.255": is not the address of one node; use no ` +
					"loopback, multicast, broadcast or unspecified address",
				`ironic.endpoint.virtualIPs[1]: Invalid value: "fe80::2": works on one interface only and not in URLs; ` +
					"use an address that is not link-local",
			},
		},
		"mapped and zoned": {
			reason: "two forms of an address that keepalived does not support",
			change: func(ironic *infrav1.Ironic) {
				ironic.Endpoint.VirtualIPs = []string{"::ffff:172.22.0.2", "fe80::2%eth0"}
			},
			want: []string{
				`ironic.endpoint.virtualIPs[0]: Invalid value: "::ffff:172.22.0.2": is an IPv4 address in the form of an ` +
					"IPv6 address; write 172.22.0.2",
				`ironic.endpoint.virtualIPs[1]: Invalid value: "fe80::2%eth0": has a zone; remove the % and the text ` +
					"after it",
			},
		},
		"two of one family": {
			reason: "one address per IP family",
			change: func(ironic *infrav1.Ironic) {
				ironic.Endpoint.VirtualIPs[1], ironic.Endpoint.CIDRs[1] = "172.22.0.3", "172.22.0.0/24"
			},
			want: []string{`ironic.endpoint.virtualIPs[1]: Invalid value: "172.22.0.3": is a second IPv4 address beside ` +
				"172.22.0.2; give at most one of each family"},
		},
		"too few networks": {
			reason: "each address has its network",
			change: func(ironic *infrav1.Ironic) { ironic.Endpoint.CIDRs = ironic.Endpoint.CIDRs[:1] },
			want: []string{`ironic.endpoint.cidrs: Invalid value: ["172.22.0.0/24"]: has a different length than ` +
				"virtualIPs, which has 2; give the network of each address, in the same order"},
		},
		"other order": {
			reason: "the order assigns networks to addresses",
			change: func(ironic *infrav1.Ironic) {
				ironic.Endpoint.CIDRs = []string{"fd00:22::/64", "172.22.0.0/24"}
			},
			want: []string{
				`ironic.endpoint.cidrs[0]: Invalid value: "fd00:22::/64": does not contain 172.22.0.2; give the network of ` +
					"each address, in the same order as virtualIPs",
				`ironic.endpoint.cidrs[1]: Invalid value: "172.22.0.0/24": does not contain fd00:22::2; give the network of ` +
					"each address, in the same order as virtualIPs",
			},
		},
		"addresses of no node": {
			reason: "network and broadcast addresses",
			change: func(ironic *infrav1.Ironic) {
				ironic.Endpoint.VirtualIPs = []string{"172.22.0.255", "fd00:22::"}
			},
			want: []string{
				`ironic.endpoint.virtualIPs[0]: Invalid value: "172.22.0.255": is the network address or the broadcast ` +
					"address of 172.22.0.0/24; choose another one",
				`ironic.endpoint.virtualIPs[1]: Invalid value: "fd00:22::": is the network address or the broadcast ` +
					"address of fd00:22::/64; choose another one",
			},
		},
		"network with host bits": {
			reason: "the address of a node with its prefix",
			change: func(ironic *infrav1.Ironic) { ironic.Endpoint.CIDRs[0] = "172.22.0.2/24" },
		},
		"one port for two": {
			reason: "defaults count",
			change: func(ironic *infrav1.Ironic) {
				ironic.Endpoint.Port, ironic.Endpoint.ImagePort, ironic.Endpoint.ImageTLSPort = 0, 6385, 6385
			},
			want: []string{
				"ironic.endpoint.imagePort: Invalid value: 6385: is the same as port; give each service its own port",
				"ironic.endpoint.imageTLSPort: Invalid value: 6385: is the same as imagePort; give each service its own port",
			},
		},
		"port of the guard": {
			reason: "the guard runs on each node",
			change: func(ironic *infrav1.Ironic) { ironic.Endpoint.ImagePort = 9650 },
			want: []string{"ironic.endpoint.imagePort: Invalid value: 9650: is the same as the port of the guard; give " +
				"each service its own port"},
		},
	})
	if got := rule.Ironic(field.NewPath("ironic"), nil); len(got) > 0 {
		t.Errorf("no endpoint at all is fine, got %v", got)
	}
}

func TestIronicVRRP(t *testing.T) {
	const interval = ": cannot be expressed in VRRP; use a multiple of 10ms up to 40s"
	findMistakes(t, map[string]mistake{
		"multicast": {
			reason: "no peer is required",
			change: func(ironic *infrav1.Ironic) { ironic.VRRP = infrav1.VRRP{Mode: infrav1.VRRPMulticast} },
		},
		"peers and no mode": {
			reason: "peers imply Unicast",
			change: func(ironic *infrav1.Ironic) { ironic.VRRP.Mode = "" },
		},
		"unicast without peers": {
			reason: "without peers each node would hold the VIP",
			change: func(ironic *infrav1.Ironic) { ironic.VRRP.Peers = nil },
			want: []string{
				"ironic.vrrp.peers: Required value: mode Unicast requires the IPv4 addresses of all nodes that may hold " +
					"172.22.0.2, at least 2, and there are 0; list them, or set mode to Multicast",
				"ironic.vrrp.peers: Required value: mode Unicast requires the IPv6 addresses of all nodes that may hold " +
					"fd00:22::2, at least 2, and there are 0; list them, or set mode to Multicast",
			},
		},
		"peers of one family": {
			reason: "each IP family requires peers",
			change: func(ironic *infrav1.Ironic) { ironic.VRRP.Peers = []string{"fd00:22::11", "fd00:22::12"} },
			want: []string{"ironic.vrrp.peers: Required value: mode Unicast requires the IPv4 addresses of all nodes that may " +
				"hold 172.22.0.2, at least 2, and there are 0; list them, or set mode to Multicast"},
		},
		"a single peer": {
			reason: "the only entry is the node itself",
			change: func(ironic *infrav1.Ironic) {
				*ironic = *least()
				ironic.VRRP = infrav1.VRRP{Mode: infrav1.VRRPUnicast, Peers: []string{"172.22.0.11"}}
			},
			want: []string{"ironic.vrrp.peers: Required value: mode Unicast requires the IPv4 addresses of all nodes that may " +
				"hold 172.22.0.2, at least 2, and there are 1; list them, or set mode to Multicast"},
		},
		"wrong peers": {
			reason: "each peer is the own address of a node",
			change: func(ironic *infrav1.Ironic) {
				ironic.VRRP.Peers = []string{
					"node-1", "172.22.0.2", "172.22.0.11", "172.22.0.11", "224.0.0.18", "fe80::12",
				}
			},
			want: []string{
				`ironic.vrrp.peers[0]: Invalid value: "node-1": ` + badAddress,
				`ironic.vrrp.peers[1]: Invalid value: "172.22.0.2": is one of the virtualIPs; list the nodes' own addresses`,
				`ironic.vrrp.peers[3]: Duplicate value: "172.22.0.11"`,
				`ironic.vrrp.peers[4]: Invalid value: "224.0.0.18": is not the address of one node; use no loopback, ` +
					"multicast, broadcast or unspecified address",
				`ironic.vrrp.peers[5]: Invalid value: "fe80::12": works on one interface only, and the nodes cannot be ` +
					"rendered with it; list the global addresses of the nodes",
			},
		},
		"peer of a family without address": {
			reason: "no VIP of this IP family",
			change: func(ironic *infrav1.Ironic) {
				*ironic = *least()
				ironic.VRRP.Peers = []string{"172.22.0.11", "fd00:22::11"}
			},
			want: []string{`ironic.vrrp.peers[1]: Invalid value: "fd00:22::11": is an IPv6 address and none of the ` +
				"virtualIPs is; list addresses of the same family as the virtualIPs"},
		},
		"shortest interval": {
			reason: "the minimum of VRRP",
			change: func(ironic *infrav1.Ironic) { ironic.VRRP.AdvertisementInterval = lasting(10 * time.Millisecond) },
		},
		"longest interval": {
			reason: "the maximum of VRRP",
			change: func(ironic *infrav1.Ironic) { ironic.VRRP.AdvertisementInterval = lasting(40 * time.Second) },
		},
		"no interval": {
			reason: "zero is not the default",
			change: func(ironic *infrav1.Ironic) { ironic.VRRP.AdvertisementInterval = lasting(0) },
			want:   []string{`ironic.vrrp.advertisementInterval: Invalid value: "0s"` + interval},
		},
		"interval between steps": {
			reason: "it would be rounded",
			change: func(ironic *infrav1.Ironic) { ironic.VRRP.AdvertisementInterval = lasting(15 * time.Millisecond) },
			want:   []string{`ironic.vrrp.advertisementInterval: Invalid value: "15ms"` + interval},
		},
		"interval too long": {
			reason: "above the maximum of VRRP",
			change: func(ironic *infrav1.Ironic) {
				ironic.VRRP.AdvertisementInterval = lasting(40*time.Second + 10*time.Millisecond)
			},
			want: []string{`ironic.vrrp.advertisementInterval: Invalid value: "40.01s"` + interval},
		},
	})
}

func TestIronicDHCP(t *testing.T) {
	findMistakes(t, map[string]mistake{
		"none": {reason: "there is no DHCP server", change: func(ironic *infrav1.Ironic) { ironic.DHCP = nil }},
		"IPv6": {
			reason: "the other network of the endpoint",
			change: func(ironic *infrav1.Ironic) {
				ironic.DHCP = &infrav1.IronicDHCP{RangeBegin: "fd00:22::100", RangeEnd: "fd00:22::100"}
			},
		},
		"no range": {
			reason: "the range is required",
			change: func(ironic *infrav1.Ironic) { ironic.DHCP.RangeBegin, ironic.DHCP.RangeEnd = "", "end" },
			want: []string{
				"ironic.dhcp.rangeBegin: Required value: give an IPv4 or IPv6 address",
				`ironic.dhcp.rangeEnd: Invalid value: "end": ` + badAddress,
			},
		},
		"outside": {
			reason: "dnsmasq serves the network of the address",
			change: func(ironic *infrav1.Ironic) {
				ironic.DHCP.RangeBegin, ironic.DHCP.RangeEnd = "172.22.1.100", "172.22.1.200"
			},
			want: []string{
				`ironic.dhcp.rangeBegin: Invalid value: "172.22.1.100": is not in 172.22.0.0/24, the network of ` +
					"172.22.0.2; hand out addresses of that network",
				`ironic.dhcp.rangeEnd: Invalid value: "172.22.1.200": is not in 172.22.0.0/24, the network of ` +
					"172.22.0.2; hand out addresses of that network",
			},
		},
		"two families": {
			reason: "a range has one family",
			change: func(ironic *infrav1.Ironic) { ironic.DHCP.RangeEnd = "fd00:22::200" },
			want: []string{`ironic.dhcp.rangeEnd: Invalid value: "fd00:22::200": is not in 172.22.0.0/24, the network of ` +
				"172.22.0.2; hand out addresses of that network"},
		},
		"family without address": {
			reason: "no VIP of this IP family",
			change: func(ironic *infrav1.Ironic) {
				*ironic = *least()
				ironic.DHCP = &infrav1.IronicDHCP{RangeBegin: "fd00:22::100", RangeEnd: "fd00:22::200"}
			},
			want: []string{`ironic.dhcp.rangeBegin: Invalid value: "fd00:22::100": is an IPv6 address and none of the ` +
				"virtualIPs is; hand out addresses of a network of the endpoint"},
		},
		"backwards": {
			reason: "the range would be empty",
			change: func(ironic *infrav1.Ironic) {
				ironic.DHCP.RangeBegin, ironic.DHCP.RangeEnd = "172.22.0.200", "172.22.0.100"
			},
			want: []string{`ironic.dhcp.rangeEnd: Invalid value: "172.22.0.100": comes before rangeBegin 172.22.0.200; ` +
				"swap them"},
		},
		"contains the address of Ironic": {
			reason: "a host would get the VIP",
			change: func(ironic *infrav1.Ironic) { ironic.DHCP.RangeBegin = "172.22.0.2" },
			want: []string{`ironic.dhcp.rangeBegin: Invalid value: "172.22.0.2": begins a range up to 172.22.0.200 that ` +
				"contains the address 172.22.0.2 of Ironic itself; choose a range beside it"},
		},
		"ends at the address of Ironic": {
			reason: "the end belongs to the range",
			change: func(ironic *infrav1.Ironic) {
				ironic.DHCP.RangeBegin, ironic.DHCP.RangeEnd = "172.22.0.1", "172.22.0.2"
			},
			want: []string{`ironic.dhcp.rangeBegin: Invalid value: "172.22.0.1": begins a range up to 172.22.0.2 that ` +
				"contains the address 172.22.0.2 of Ironic itself; choose a range beside it"},
		},
		"options": {
			reason: "invalid addresses, and a too short lease",
			change: func(ironic *infrav1.Ironic) {
				ironic.DHCP.Gateway, ironic.DHCP.DNS = "172.23.0.1", []string{"172.22.0.1", "dns"}
				ironic.DHCP.LeaseTime = lasting(time.Minute)
			},
			want: []string{
				`ironic.dhcp.dns[1]: Invalid value: "dns": ` + badAddress,
				`ironic.dhcp.leaseTime: Invalid value: "1m0s": is shorter than dnsmasq allows; use at least 2m0s, or omit ` +
					"it for 15m",
				`ironic.dhcp.gateway: Invalid value: "172.23.0.1": is not in 172.22.0.0/24, the network of the range; give ` +
					"a gateway that its addresses can reach",
			},
		},
		"name server of the other family": {
			reason: "DHCP of IPv4 has no option for it",
			change: func(ironic *infrav1.Ironic) { ironic.DHCP.DNS = []string{"172.22.0.1", "fd00:22::1"} },
			want: []string{`ironic.dhcp.dns[1]: Invalid value: "fd00:22::1": is an IPv6 address and the range has IPv4 ` +
				"addresses; list only DNS servers with IPv4 addresses"},
		},
		"gateway over IPv6": {
			reason: "DHCPv6 has no such option",
			change: func(ironic *infrav1.Ironic) {
				ironic.DHCP = &infrav1.IronicDHCP{
					RangeBegin: "fd00:22::100", RangeEnd: "fd00:22::200", Gateway: "fd00:22::1",
				}
			},
			want: []string{`ironic.dhcp.gateway: Invalid value: "fd00:22::1": cannot be handed out over IPv6; omit it and ` +
				"let the router announce itself"},
		},
		"large network of IPv6": {
			reason: "dnsmasq does not start with it",
			change: func(ironic *infrav1.Ironic) {
				ironic.Endpoint.CIDRs = []string{"172.22.0.0/24", "fd00:22::/48"}
				ironic.DHCP = &infrav1.IronicDHCP{RangeBegin: "fd00:22::100", RangeEnd: "fd00:22::200"}
			},
			want: []string{`ironic.dhcp.rangeBegin: Invalid value: "fd00:22::100": is in fd00:22::/48, which is larger ` +
				"than dnsmasq can serve; use a network with a prefix of 64 or longer"},
		},
		"gateway that is no address": {
			reason: "an invalid address",
			change: func(ironic *infrav1.Ironic) { ironic.DHCP.Gateway = "router" },
			want:   []string{`ironic.dhcp.gateway: Invalid value: "router": ` + badAddress},
		},
		"least": {
			reason: "no gateway, no name servers, the usual lease",
			change: func(ironic *infrav1.Ironic) {
				ironic.DHCP.Gateway, ironic.DHCP.DNS, ironic.DHCP.LeaseTime = "", nil, nil
			},
		},
	})
}

func TestIronicOtherFields(t *testing.T) {
	const url = "cannot be downloaded from; write it like https://server/path. For files that the node has, omit it and set " +
		"ramdisk.disableDownloader"
	const directory = "is not an absolute path in its shortest form; write it like /etc/kubernetes/manifests"
	const image = "is not a container image; write it like registry/name:tag, without spaces and without https://"
	baseURL := func(url string) func(*infrav1.Ironic) {
		return func(ironic *infrav1.Ironic) { ironic.Ramdisk.BaseURL = url }
	}
	manifests := func(directory string) func(*infrav1.Ironic) {
		return func(ironic *infrav1.Ironic) { ironic.ManifestsDirectory = directory }
	}
	mistakes := map[string]mistake{
		"silence with the default": {
			reason: "AfterMove is the default",
			change: func(ironic *infrav1.Ironic) { ironic.Takeover = "" },
		},
		"silence without meaning": {
			reason: "silence arms no node with Manual",
			change: func(ironic *infrav1.Ironic) { ironic.Takeover = infrav1.TakeoverManual },
			want: []string{`ironic.takeoverAfterSilence: Invalid value: "15m0s": has no meaning with takeover Manual; ` +
				"omit it, or set takeover to AfterMove"},
		},
		"no silence": {
			reason: "zero is invalid",
			change: func(ironic *infrav1.Ironic) { ironic.TakeoverAfterSilence = lasting(0) },
			want: []string{`ironic.takeoverAfterSilence: Invalid value: "0s": is not positive; raise it, or omit ` +
				"it for never"},
		},
		"secrets without name": {
			reason: "a missing reference differs from an empty one",
			change: func(ironic *infrav1.Ironic) {
				ironic.CredentialsRef, ironic.TLSRef = &corev1.LocalObjectReference{}, &corev1.LocalObjectReference{}
			},
			want: []string{
				"ironic.credentialsRef.name: Required value: name the Secret, or leave out credentialsRef to have one " +
					"generated",
				"ironic.tlsRef.name: Required value: name the Secret, or leave out tlsRef to have one generated",
			},
		},
		"images": {
			reason: "invalid image references",
			change: func(ironic *infrav1.Ironic) {
				ironic.Images = infrav1.IronicImages{
					Keepalived: "keep alived", Ironic: "https://me:secret@registry.example/ironic", RamdiskDownloader: "ipa\n",
				}
			},
			want: []string{
				`ironic.images.keepalived: Invalid value: "keep alived": ` + image,
				`ironic.images.ironic: Invalid value: "https://***@registry.example/ironic": ` + image,
				`ironic.images.ramdiskDownloader: Invalid value: "ipa\n": ` + image,
			},
		},
		"ramdisk from a file": {
			reason: "the container has no folder of the node with an archive",
			change: baseURL("file:///opt/ipa"),
			want:   []string{`ironic.ramdisk.baseURL: Invalid value: "file:///opt/ipa": ` + url},
		},
		"ramdisk by default": {reason: "the downloader has a default", change: baseURL("")},
		"ramdisk without host": {
			reason: "no server",
			change: baseURL("https:///ipa"),
			want:   []string{`ironic.ramdisk.baseURL: Invalid value: "https:///ipa": ` + url},
		},
		"ramdisk with a relative file": {
			reason: "a relative path",
			change: baseURL("file:ipa"),
			want:   []string{`ironic.ramdisk.baseURL: Invalid value: "file:ipa": ` + url},
		},
		"ramdisk without scheme": {
			reason: "a path is not a URL",
			change: baseURL("images.example/ipa"),
			want:   []string{`ironic.ramdisk.baseURL: Invalid value: "images.example/ipa": ` + url},
		},
		"ramdisk with credentials": {
			reason: "no message repeats them",
			change: baseURL("ftp://me:secret@images.example?token=secret"),
			want:   []string{`ironic.ramdisk.baseURL: Invalid value: "ftp://***@images.example?***": ` + url},
		},
		"manifests by default": {reason: "where kubeadm puts them", change: manifests("")},
	}
	for _, wrong := range []string{"manifests", "/etc/kubernetes/", "/etc/../manifests", "/", "/etc/my manifests"} {
		mistakes["manifests in "+wrong] = mistake{
			reason: "only the shortest form is valid", change: manifests(wrong),
			want: []string{`ironic.manifestsDirectory: Invalid value: "` + wrong + `": ` + directory},
		}
	}
	findMistakes(t, mistakes)
}

func TestIronicChange(t *testing.T) {
	vrrp := func(mode infrav1.VRRPMode, peers ...string) *infrav1.Ironic {
		ironic := least()
		ironic.VRRP = infrav1.VRRP{Mode: mode, Peers: peers}
		return ironic
	}
	const remedy = "restore it: nodes of different modes ignore the advertisements of each other, and two nodes would hold " +
		"the VIP"
	cases := map[string]struct {
		reason        string
		before, after *infrav1.Ironic
		want          rule.Findings
	}{
		"added":   {reason: "a start", after: dualStack()},
		"removed": {reason: "an end", before: dualStack()},
		"same":    {reason: "nothing", before: dualStack(), after: dualStack()},
		"mode set to its default": {
			reason: "without peers it was Multicast", before: vrrp(""), after: vrrp(infrav1.VRRPMulticast),
		},
		"mode changed": {
			reason: "nodes of both modes would hold the VIP",
			before: vrrp(infrav1.VRRPMulticast), after: vrrp(infrav1.VRRPUnicast, "172.22.0.11"),
			want: rule.Refusals(field.Invalid(field.NewPath("ironic", "vrrp", "mode"), "Unicast",
				`is "Multicast" and does not change; `+remedy)),
		},
		"mode removed": {
			reason: "without it, nodes without peers would use Multicast",
			before: vrrp(infrav1.VRRPUnicast), after: vrrp(""),
			want: rule.Refusals(field.Invalid(field.NewPath("ironic", "vrrp", "mode"), "",
				`is "Unicast" and does not change; `+remedy)),
		},
		"default removed": {
			reason: "nodes with peers use Unicast without it",
			before: vrrp(infrav1.VRRPUnicast, "172.22.0.11"), after: vrrp("", "172.22.0.11"),
		},
		"mode follows peers": {
			reason: "a mode that was not set changes with the peers",
			before: vrrp(""), after: vrrp("", "172.22.0.11"),
			want: rule.Findings{Warnings: []string{"ironic.vrrp.mode: changes from Multicast to Unicast; nodes with the old mode " +
				"ignore the advertisements of new nodes: replace all control-plane nodes, or set mode to Multicast"}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := rule.IronicChange(field.NewPath("ironic"), c.before, c.after)
			if diff := cmp.Diff(texts(c.want.Errors), texts(got.Errors)); diff != "" {
				t.Errorf("%s\nerrors (-want +got):\n%s", c.reason, diff)
			}
			if diff := cmp.Diff(c.want.Warnings, got.Warnings); diff != "" {
				t.Errorf("%s\nwarnings (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// TestIronicRandom combines valid and invalid addresses: no combination may panic.
func TestIronicRandom(*testing.T) {
	known := []string{"172.22.0.2", "172.22.0.11", "172.22.0.0/24", "fd00:22::2", "fd00:22::11", "fd00:22::/64", "", "no"}
	for seed := range int64(5000) {
		fill := randfill.NewWithSeed(seed).NilChance(0.2).NumElements(1, 2).Funcs(
			func(text *string, fill randfill.Continue) { *text = known[fill.Intn(len(known))] })
		before, after := &infrav1.Ironic{}, &infrav1.Ironic{}
		fill.Fill(before)
		fill.Fill(after)
		rule.Ironic(field.NewPath("ironic"), after)
		rule.IronicChange(field.NewPath("ironic"), before, after)
	}
}

// TestIronicInterface tests the choice of the interface that carries the VIPs.
func TestIronicInterface(t *testing.T) {
	const bad = "is not the MAC address of an interface; write it like 52:54:00:00:00:0a"
	instead := func(macs []string, cidr string) func(*infrav1.Ironic) {
		return func(ironic *infrav1.Ironic) {
			ironic.Endpoint.Interface, ironic.Endpoint.MACAddresses, ironic.Endpoint.InterfaceCIDR = "", macs, cidr
		}
	}
	const one = "; keep one of interface, macAddresses and interfaceCIDR"
	findMistakes(t, map[string]mistake{
		"interface": {reason: "one name for all nodes", change: func(*infrav1.Ironic) {}},
		"MAC addresses": {
			reason: "one for each node, in any case", change: instead([]string{"52:54:00:00:00:0A", "52:54:00:00:00:0b"}, ""),
		},
		"CIDR":      {reason: "the nodes have their own addresses in it", change: instead(nil, "10.0.0.0/16")},
		"IPv6 CIDR": {reason: "a VIP is of that family", change: instead(nil, "fd00:23::/64")},
		"CIDR with host bits": {
			reason: "the address of a node with its prefix", change: instead(nil, "172.22.0.11/24"),
		},
		"no interface": {
			reason: "an interface is required",
			change: func(ironic *infrav1.Ironic) { ironic.Endpoint.Interface = "" },
			want: []string{"ironic.endpoint.interface: Required value: name the interface or bridge that carries the " +
				"addresses, or set macAddresses or interfaceCIDR"},
		},
		"interface that is a folder": {
			reason: "the kernel refuses the name",
			change: func(ironic *infrav1.Ironic) { ironic.Endpoint.Interface = ".." },
			want: []string{`ironic.endpoint.interface: Invalid value: "..": is not the name of a network interface; use ` +
				"at most 15 letters, digits, dots, dashes and underscores"},
		},
		"interface that breaks out": {
			reason: "the name is part of a configuration file",
			change: func(ironic *infrav1.Ironic) { ironic.Endpoint.Interface = "eth0 }" },
			want: []string{`ironic.endpoint.interface: Invalid value: "eth0 }": is not the name of a network interface; ` +
				"use at most 15 letters, digits, dots, dashes and underscores"},
		},
		"interface and MAC addresses": {
			reason: "they may be of different interfaces",
			change: func(ironic *infrav1.Ironic) { ironic.Endpoint.MACAddresses = []string{"52:54:00:00:00:0a"} },
			want:   []string{"ironic.endpoint.macAddresses: Forbidden: is set together with interface" + one},
		},
		"all": {
			reason: "one error is reported",
			change: func(ironic *infrav1.Ironic) {
				ironic.Endpoint.MACAddresses, ironic.Endpoint.InterfaceCIDR = []string{"52:54:00:00:00:0a"}, "172.22.0.0/24"
			},
			want: []string{"ironic.endpoint.interfaceCIDR: Forbidden: is set together with interface" + one},
		},
		"MAC addresses that no interface has": {
			reason: "no interface can have these addresses",
			change: instead([]string{"01:00:5e:00:00:12", "00:00:00:00:00:00", "00:11:22:33:44:55:66:77", "eth0"}, ""),
			want: []string{
				`ironic.endpoint.macAddresses[0]: Invalid value: "01:00:5e:00:00:12": ` + bad,
				`ironic.endpoint.macAddresses[1]: Invalid value: "00:00:00:00:00:00": ` + bad,
				`ironic.endpoint.macAddresses[2]: Invalid value: "00:11:22:33:44:55:66:77": ` + bad,
				`ironic.endpoint.macAddresses[3]: Invalid value: "eth0": ` + bad,
			},
		},
		"a MAC address twice": {
			reason: "a typing mistake", change: instead([]string{"52:54:00:00:00:0a", "52:54:00:00:00:0A"}, ""),
			want: []string{`ironic.endpoint.macAddresses[1]: Duplicate value: "52:54:00:00:00:0A"`},
		},
		"no CIDR": {
			reason: "the prefix is missing", change: instead(nil, "172.22.0.0"),
			want: []string{`ironic.endpoint.interfaceCIDR: Invalid value: "172.22.0.0": is not a network; write it like ` +
				"192.0.2.0/24 or 2001:db8::/64"},
		},
		"CIDR of one address": {
			reason: "other nodes cannot have the address", change: instead(nil, "172.22.0.11/32"),
			want: []string{`ironic.endpoint.interfaceCIDR: Invalid value: "172.22.0.11/32": is one address, which at most ` +
				"one node has; give the network of all control-plane nodes"},
		},
		"CIDR of every machine": {
			reason: "all interfaces have an address in it", change: instead(nil, "fe80::/64"),
			want: []string{`ironic.endpoint.interfaceCIDR: Invalid value: "fe80::/64": is loopback, multicast or ` +
				"link-local; give the network of the addresses of the nodes"},
		},
		"CIDR of another family": {
			reason: "keepalived uses the IP family of the VIP",
			change: func(ironic *infrav1.Ironic) {
				*ironic = *least()
				instead(nil, "fd00:22::/64")(ironic)
			},
			want: []string{`ironic.endpoint.interfaceCIDR: Invalid value: "fd00:22::/64": is of another IP family than the ` +
				"VIPs; give a network of theirs"},
		},
	})
}
