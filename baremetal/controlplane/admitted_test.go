package controlplane_test

import (
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/controlplane"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/seed"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
)

// chance chooses values for the fields of an endpoint.
type chance struct{ *rand.Rand }

func choose[T any](c chance, values ...T) T { return values[c.IntN(len(values))] }

func (c chance) duration(lengths ...time.Duration) *metav1.Duration {
	length := choose(c, lengths...)
	if length == 0 {
		return nil
	}
	return &metav1.Duration{Duration: length}
}

const (
	router4, router6 = "172.22.0.1", "fd00:172:22::1"
	range4, end4     = "172.22.0.100", "172.22.0.200"
	range6, end6     = "fd00:172:22::100", "fd00:172:22::200"
)

// endpoint returns an endpoint. Each field is valid by itself, but the fields often contradict one another.
func (c chance) endpoint() infrav1.Ironic {
	cidr4, cidr6 := choose(c, "172.22.0.0/24", "172.22.0.0/16"), choose(c, "fd00:172:22::/64", "fd00:172:22::/48")
	described := infrav1.Ironic{ClusterID: "3f9c1a7e", VRRP: c.vrrp(), DHCP: c.dhcp()}
	described.Endpoint = choose(c,
		infrav1.IronicEndpoint{VirtualIPs: []string{"172.22.0.2"}, CIDRs: []string{cidr4}},
		infrav1.IronicEndpoint{VirtualIPs: []string{"fd00:172:22::2"}, CIDRs: []string{cidr6}},
		infrav1.IronicEndpoint{VirtualIPs: []string{"172.22.0.2", "fd00:172:22::2"}, CIDRs: []string{cidr4, cidr6}},
	)
	described.Endpoint.Port = choose[int32](c, 0, 6385, 443)
	switch c.IntN(3) {
	case 0:
		described.Endpoint.Interface = "provisioning"
	case 1:
		described.Endpoint.MACAddresses = []string{"52:54:00:00:00:01"}
	default:
		described.Endpoint.InterfaceCIDR = choose(c, "172.22.0.0/24", "fd00:172:22::/64")
	}
	described.Takeover = choose(c, "", infrav1.TakeoverAfterMove, infrav1.TakeoverAlways, infrav1.TakeoverManual)
	described.TakeoverAfterSilence = c.duration(0, 15*time.Minute)
	described.Standby = choose(c, "", infrav1.StandbyWarm, infrav1.StandbyCold)
	on := choose(c, true, false)
	described.PrometheusExporter = infrav1.IronicPrometheusExporter{
		Enabled: &on, BindAddress: choose(c, "", "0.0.0.0", "::", "127.0.0.1", "172.22.0.2"),
		Port: choose[int32](c, 0, 9608, 6385), SensorCollectionInterval: c.duration(0, time.Minute, time.Second),
	}
	described.Ramdisk.Architectures = choose(c, nil, []infrav1.IronicRamdiskArchitecture{
		{Architecture: "aarch64", Flavor: "debian-arm64"},
	})
	return described
}

func (c chance) vrrp() infrav1.VRRP {
	of4, of6 := []string{"172.22.0.10", "172.22.0.21"}, []string{"fd00:172:22::10", "fd00:172:22::21"}
	return infrav1.VRRP{
		VirtualRouterID: 51, Mode: choose(c, "", infrav1.VRRPUnicast, infrav1.VRRPMulticast),
		Peers:                 choose(c, nil, of4, of6, append(of4, of6...)),
		AdvertisementInterval: c.duration(0, 10*time.Millisecond, time.Second, 40*time.Second),
	}
}

func (c chance) dhcp() *infrav1.IronicDHCP {
	described := choose(c, nil, &infrav1.IronicDHCP{RangeBegin: range4, RangeEnd: end4},
		&infrav1.IronicDHCP{RangeBegin: range6, RangeEnd: end6})
	if described == nil {
		return nil
	}
	described.Gateway = choose(c, "", "", router4, router6)
	described.DNS = choose(c, nil, nil, []string{router4}, []string{router6}, []string{router4, router6})
	described.LeaseTime = c.duration(0, 2*time.Minute, time.Minute)
	described.Hosts = choose(c, nil, []string{"52:54:00:00:00:01,172.22.0.150"}, []string{"52:54:00:00:00:01,[fd00:172:22::150]"})
	described.ExtraRanges = choose(c, nil, nil,
		[]infrav1.IronicDHCPRange{{
			NetworkCIDR: "172.30.0.0/24", RangeBegin: "172.30.0.10", RangeEnd: "172.30.0.20", GatewayAddress: "172.30.0.1",
		}},
		[]infrav1.IronicDHCPRange{{
			NetworkCIDR: choose(c, "fd00:30::/64", "fd00:30::/48"), RangeBegin: "fd00:30::10", RangeEnd: "fd00:30::20",
			GatewayAddress: choose(c, "", "fd00:30::1"),
		}},
	)
	return described
}

// TestWhatIsAdmittedIsRendered renders every endpoint that the webhook admits. One that cannot be rendered would stop
// each new control-plane machine.
func TestWhatIsAdmittedIsRendered(t *testing.T) {
	const tries, atLeast = 4000, 100
	chosen := seed.Chosen()
	t.Logf("%s=%d", seed.Variable, chosen)
	c := chance{rand.New(rand.NewPCG(chosen, 0))}
	endpoint := least(t)
	admitted := 0
	for range tries {
		endpoint.Ironic = c.endpoint()
		if len(rule.Ironic(field.NewPath("spec", "ironic"), &endpoint.Ironic)) > 0 {
			continue
		}
		admitted++
		if _, err := controlplane.Files(endpoint); err != nil {
			text, _ := yaml.Marshal(endpoint.Ironic)
			t.Errorf("admitted, and not rendered: %v\n%s", err, text)
		}
	}
	if admitted < atLeast {
		t.Errorf("%d of %d endpoints were admitted, want at least %d: the test compares too little", admitted, tries, atLeast)
	}
	t.Logf("%d of %d endpoints were admitted", admitted, tries)
}
