package ironic

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the files in testdata instead of comparing with them")

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run the test with -update", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// ipv6 differs from the defaults in everything.
var ipv6 = Config{
	Address: netip.MustParseAddr("fd00:172:22::2"), Port: 16385, ConductorHost: "ironic-two", DeploySeconds: 7,
	PowerSyncSeconds: 15,
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
			golden(t, file, content)
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
