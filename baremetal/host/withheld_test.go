package host_test

import (
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func TestWithheld(t *testing.T) {
	const paused = "is paused: remove its annotation baremetalhost.metal3.io/paused"
	const detached = "is detached: remove its annotation baremetalhost.metal3.io/detached"
	detach := annotated(bmov1alpha1.DetachedAnnotation, `{"force":true}`)
	cases := map[string]struct {
		reason  string
		options []build.HostOption
		want    string
	}{
		"Kept":     {reason: "BMO reconciles it"},
		"Failed":   {reason: "it is registered despite its error", options: []build.HostOption{build.Error("no power")}},
		"OurPause": {reason: "the provider unpauses it", options: []build.HostOption{build.Paused(infrav1.HostPausedByProvider)}},
		"Paused":   {reason: "BMO does not register it with a new Ironic", options: []build.HostOption{build.Paused("maintenance")}, want: paused},
		"Empty":    {reason: "the value is optional", options: []build.HostOption{build.Paused("")}, want: paused},
		"Detached": {reason: "BMO removes it from Ironic", options: []build.HostOption{detach}, want: detached},
		"Both":     {reason: "the pause comes first", options: []build.HostOption{build.Paused("maintenance"), detach}, want: paused},
		"OurPauseOfDetached": {
			reason: "it stays detached after the pause", want: detached,
			options: []build.HostOption{build.Paused(infrav1.HostPausedByProvider), detach},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := host.Withheld(available("host-0", tc.options...)); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
