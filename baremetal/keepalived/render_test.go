package keepalived_test

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/golden"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/verdict"
)

var (
	virtual4 = netip.MustParsePrefix("172.22.0.2/24")
	virtual6 = netip.MustParsePrefix("fd00:172:22::2/128")

	// members are all nodes of the group, unsorted.
	members = []netip.Addr{
		netip.MustParseAddr("172.22.0.22"), netip.MustParseAddr("172.22.0.10"), netip.MustParseAddr("172.22.0.21"),
		netip.MustParseAddr("fd00:172:22::10"), netip.MustParseAddr("fd00:172:22::22"), netip.MustParseAddr("fd00:172:22::21"),
	}
)

// addresses of the families that a case names: v4, v6 or dual.
func addresses(family string) []netip.Prefix {
	switch family {
	case "v4":
		return []netip.Prefix{virtual4}
	case "v6":
		return []netip.Prefix{virtual6}
	default:
		return []netip.Prefix{virtual4, virtual6}
	}
}

// node is the configuration of the node whose own addresses end in the number.
func node(family string, unicast bool, role keepalived.Role, number int) keepalived.Config {
	config := keepalived.Config{
		Name: fmt.Sprintf("3f9c1a7e-node-%d", number), Role: role, Interface: "provisioning", VirtualRouterID: 51,
		Unicast: unicast, HealthFile: "/run/metal3-ironic/ironic-ok", ArmedFile: "/run/metal3-ironic/armed",
	}
	for _, address := range addresses(family) {
		instance := keepalived.Instance{Address: address}
		if address.Addr().Is4() {
			instance.Source = netip.MustParseAddr(fmt.Sprintf("172.22.0.%d", number))
		} else if unicast {
			instance.Source = netip.MustParseAddr(fmt.Sprintf("fd00:172:22::%d", number))
		}
		if unicast {
			instance.Peers = members
		}
		config.Instances = append(config.Instances, instance)
	}
	return config
}

// ranked sets the rank of node 21: by its position among the members, or by its name in mode Multicast.
func ranked(config keepalived.Config) keepalived.Config {
	if config.Ordinal = 3; config.Unicast {
		config.Ordinal = 1
	}
	return config
}

// TestRender renders the file of every combination, and checks each with keepalived.
func TestRender(t *testing.T) {
	for _, family := range []string{"v4", "v6", "dual"} {
		for mode, unicast := range map[string]bool{"unicast": true, "multicast": false} {
			for role, config := range map[string]keepalived.Config{
				"management":   node(family, unicast, keepalived.Management, 10),
				"controlplane": ranked(node(family, unicast, keepalived.ControlPlane, 21)),
			} {
				name := family + "-" + mode + "-" + role
				t.Run(name, func(t *testing.T) {
					content, err := keepalived.Render(config)
					if err != nil {
						t.Fatal(err)
					}
					golden.Equal(t, filepath.Join(name, "keepalived.conf"), content)
					oneStatementPerLine(t, string(content))
					verdict.Keepalived(t, func(network string) ([]byte, error) {
						config.Interface = network
						return keepalived.Render(config)
					})
				})
			}
		}
	}
}

// oneStatementPerLine reports blocks whose content starts on the first line: keepalived ignores their options.
func oneStatementPerLine(t *testing.T, content string) {
	t.Helper()
	for number, line := range strings.Split(content, "\n") {
		if before, after, found := strings.Cut(line, "{"); found && (strings.TrimSpace(after) != "" ||
			len(strings.Fields(before)) > 2) {
			t.Errorf("line %d: %q holds a block and its content", number+1, line)
		}
		if trimmed := strings.TrimSpace(line); strings.Contains(trimmed, "}") && trimmed != "}" {
			t.Errorf("line %d: %q holds more than the end of a block", number+1, line)
		}
	}
}

// TestRenderRefuses has values that keepalived would misread.
func TestRenderRefuses(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*keepalived.Config)
		want   string
	}{
		"statement in a name": {
			reason: "a newline ends a statement", want: `name is "a\nscript b"`,
			change: func(c *keepalived.Config) { c.Name = "a\nscript b" },
		},
		"no interface": {
			reason: "keepalived would choose one", want: `interface is ""`,
			change: func(c *keepalived.Config) { c.Interface = "" },
		},
		"quote in a file": {
			reason: "it ends the name", want: `armed file is "/run/\"armed"`,
			change: func(c *keepalived.Config) { c.ArmedFile = `/run/"armed` },
		},
		"relative file": {
			reason: "keepalived requires absolute paths", want: "use absolute paths",
			change: func(c *keepalived.Config) { c.HealthFile = "ironic-ok" },
		},
		"one file for both": {
			reason: "init_file overwrite would disarm the node", want: "use two",
			change: func(c *keepalived.Config) { c.HealthFile = c.ArmedFile },
		},
		"router ID is too large": {
			reason: "a router ID has eight bits", want: "virtual router ID is 256",
			change: func(c *keepalived.Config) { c.VirtualRouterID = 256 },
		},
		"too fast": {
			reason: "VRRP counts hundredths of a second", want: "advertisement interval is 15ms; use a multiple of 10ms up to 40s",
			change: func(c *keepalived.Config) { c.Interval = 15 * time.Millisecond },
		},
		"too slow": {
			reason: "the interval has twelve bits", want: "advertisement interval is 41s",
			change: func(c *keepalived.Config) { c.Interval = 41 * time.Second },
		},
		"no VIP": {
			reason: "an instance requires an address", want: "there are 0 VIPs",
			change: func(c *keepalived.Config) { c.Instances = nil },
		},
		"empty address": {
			reason: "an instance requires an address", want: "a VIP is empty",
			change: func(c *keepalived.Config) { c.Instances[0].Address = netip.Prefix{} },
		},
		"two of a family": {
			reason: "two instances with one ID and one family", want: "are of one family",
			change: func(c *keepalived.Config) { c.Instances[1] = c.Instances[0] },
		},
		"alone": {
			reason: "keepalived falls back to multicast", want: "has no peers beside the node itself, 172.22.0.21",
			change: func(c *keepalived.Config) { c.Instances[0].Peers = []netip.Addr{c.Instances[0].Source} },
		},
		"source of the other family": {
			reason: "the family of the instance is that of its address", want: "unicast requires one of the same family",
			change: func(c *keepalived.Config) { c.Instances[0].Source = c.Instances[1].Source },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			config := node("dual", true, keepalived.ControlPlane, 21)
			c.change(&config)
			content, err := keepalived.Render(config)
			if err == nil || !strings.Contains(err.Error(), c.want) || content != nil {
				t.Errorf("%s: want an error with %q, got %v and %q", c.reason, c.want, err, content)
			}
		})
	}
}

// TestRenderOrder renders the members in another order and with the node itself twice.
func TestRenderOrder(t *testing.T) {
	config := node("dual", true, keepalived.ControlPlane, 21)
	want, err := keepalived.Render(config)
	if err != nil {
		t.Fatal(err)
	}
	for i := range config.Instances {
		peers := append([]netip.Addr{config.Instances[i].Source}, members[3:]...)
		config.Instances[i].Peers = append(peers, members...)
	}
	got, err := keepalived.Render(config)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the order of members changes the file (-want +got):\n%s", diff)
	}
}

func TestPriority(t *testing.T) {
	last := keepalived.Priority(keepalived.Management, 0)
	for ordinal := range 5 {
		priority := keepalived.Priority(keepalived.ControlPlane, ordinal)
		if last-priority < 20 || priority < 1 {
			t.Errorf("ordinal %d has priority %d after %d; want a gap of at least 20", ordinal, priority, last)
		}
		last = priority
	}
	for _, ordinal := range []int{5, 1000} {
		if priority := keepalived.Priority(keepalived.ControlPlane, ordinal); priority != last {
			t.Errorf("ordinal %d has priority %d, want %d", ordinal, priority, last)
		}
	}
	if priority := keepalived.Priority(keepalived.HandedOver, 0); priority >= last || priority < 1 {
		t.Errorf("a management side that handed over has priority %d, and the last node %d", priority, last)
	}
	want := []int{150, 10, 100, 80, 60, 40, 20}
	if all := keepalived.Priorities(); !slices.Equal(all, want) {
		t.Errorf("all priorities are %v, want %v", all, want)
	}
	if priority := keepalived.Priority(keepalived.ControlPlane, -1); priority != 100 {
		t.Errorf("ordinal -1 has priority %d, want 100", priority)
	}
}
