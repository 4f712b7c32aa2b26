package outcome_test

import (
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

func TestNames(t *testing.T) {
	for want, names := range map[string][]string{
		"":                         nil,
		"a":                        {"a"},
		"a, b, c, d, e":            {"a", "b", "c", "d", "e"},
		"a, b, c, d, e and 1 more": {"a", "b", "c", "d", "e", "f"},
	} {
		if got := outcome.Names(names); got != want {
			t.Errorf("%v: got %q, want %q", names, got, want)
		}
	}
}
