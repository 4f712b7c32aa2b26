package app

import "testing"

func TestGuardImageOf(t *testing.T) {
	cases := map[string]string{
		"v1.15.0":        "ghcr.io/metal3-pivot/keepalived-guard:v1.15.0",
		"v1.15.0+dirty1": "ghcr.io/metal3-pivot/keepalived-guard:v1.15.0-dirty1",
		"":               "ghcr.io/metal3-pivot/keepalived-guard:latest",
	}
	for version, want := range cases {
		if got := guardImageOf(version); got != want {
			t.Errorf("version %q has image %s, want %s", version, got, want)
		}
	}
}
