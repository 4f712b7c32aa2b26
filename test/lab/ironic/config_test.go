package ironic

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/golden"
)

// ipv6 differs from all defaults.
var ipv6 = Config{
	Address: netip.MustParseAddr("fd00:172:22::2"), Port: 16385, ConductorHost: "ironic-two",
	Advertised: netip.MustParseAddr("fd00:172:22::3"), PowerSyncSeconds: 15,
}

func TestRender(t *testing.T) {
	for file, config := range map[string]Config{
		"defaults.conf": {Address: netip.MustParseAddr("172.22.0.10")},
		"ipv6.conf":     ipv6,
	} {
		t.Run(file, func(t *testing.T) {
			content, err := Render(config)
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, file, content)
		})
	}
}

func TestRenderRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		config Config
		want   string
	}{
		"no address":    {Config{}, "Address"},
		"two lines":     {Config{Address: ipv6.Address, ConductorHost: "a\nb"}, "ConductorHost"},
		"a placeholder": {Config{Address: ipv6.Address, ConductorHost: "$my_ip"}, "ConductorHost"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Render(test.config); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error that names %s", err, test.want)
			}
		})
	}
}

func TestEndpoint(t *testing.T) {
	for want, config := range map[string]Config{
		"https://172.22.0.10:6385/v1/":       {Address: netip.MustParseAddr("172.22.0.10")},
		"https://[fd00:172:22::2]:16385/v1/": ipv6,
	} {
		if got := config.Endpoint(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
