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
	detach := annotated(bmov1alpha1.DetachedAnnotation, `{"deleteAction":"delay"}`)
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

func TestWithheldDetached(t *testing.T) {
	const force = `{"force":true}`
	moved := annotated(bmov1alpha1.StatusAnnotation, `{"provisioning":{"state":"provisioned","ID":"uuid"}}`)
	busy := annotated(bmov1alpha1.StatusAnnotation, `{"provisioning":{"state":"deprovisioning","ID":"uuid"}}`)
	cases := map[string]struct {
		reason string
		value  string
		state  bmov1alpha1.ProvisioningState
		option build.HostOption
		want   bool
	}{
		"Provisioned":       {reason: "BMO removes it from Ironic", state: bmov1alpha1.StateProvisioned, want: true},
		"External":          {reason: "BMO removes it from Ironic", state: bmov1alpha1.StateExternallyProvisioned, want: true},
		"Ready":             {reason: "an earlier name of available", state: bmov1alpha1.StateReady, want: true},
		"Available":         {reason: "BMO removes it from Ironic", state: bmov1alpha1.StateAvailable, want: true},
		"Inspecting":        {reason: "BMO inspects it", state: bmov1alpha1.StateInspecting},
		"Preparing":         {reason: "BMO prepares it", state: bmov1alpha1.StatePreparing},
		"Provisioning":      {reason: "BMO provisions it", state: bmov1alpha1.StateProvisioning},
		"Deprovisioning":    {reason: "BMO deprovisions it", state: bmov1alpha1.StateDeprovisioning},
		"Unregistered":      {reason: "BMO registers it first", state: bmov1alpha1.StateNone},
		"Forced":            {reason: "BMO stops the operation", value: force, state: bmov1alpha1.StateDeprovisioning, want: true},
		"NotForced":         {reason: "BMO continues", value: `{"force":false}`, state: bmov1alpha1.StateDeprovisioning},
		"Unreadable":        {reason: "BMO ignores the value", value: "true", state: bmov1alpha1.StateDeprovisioning},
		"UnreadableAndIdle": {reason: "BMO ignores the value", value: "true", state: bmov1alpha1.StateAvailable, want: true},
		"Deleting":          {reason: "BMO removes it from Ironic anyway", value: force, state: bmov1alpha1.StateDeleting},
		"Arrived":           {reason: "BMO restores the status first", state: bmov1alpha1.StateNone, option: moved, want: true},
		"ArrivedBusy":       {reason: "BMO restores the status first", state: bmov1alpha1.StateNone, option: busy},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			options := []build.HostOption{build.State(tc.state), annotated(bmov1alpha1.DetachedAnnotation, tc.value)}
			if tc.option != nil {
				options = append(options, tc.option)
			}
			current := build.Host("host-0", options...)
			if tc.state == bmov1alpha1.StateNone {
				current.Status.LastUpdated = nil
			}
			if got := host.Withheld(current) != ""; got != tc.want {
				t.Errorf("%s: got %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
}
