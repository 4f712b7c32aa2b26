package plugin

import (
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// TestKeepsDisks compares with provisioningCancelled and the state handlers of BMO.
func TestKeepsDisks(t *testing.T) {
	image, other := bmov1alpha1.Image{URL: "x"}, bmov1alpha1.Image{URL: "y"}
	method := func(name string) *bmov1alpha1.CustomDeploy { return &bmov1alpha1.CustomDeploy{Method: name} }
	for name, tc := range map[string]struct {
		reason string
		state  bmov1alpha1.ProvisioningState
		spec   bmov1alpha1.BareMetalHostSpec
		status bmov1alpha1.ProvisionStatus
		want   bool
	}{
		"Same": {
			"it runs its image", bmov1alpha1.StateProvisioned, bmov1alpha1.BareMetalHostSpec{Image: &image},
			bmov1alpha1.ProvisionStatus{Image: image}, true,
		},
		"Other": {
			"BMO deprovisions it", bmov1alpha1.StateProvisioned, bmov1alpha1.BareMetalHostSpec{Image: &image},
			bmov1alpha1.ProvisionStatus{Image: other}, false,
		},
		"Removed": {
			"BMO deprovisions it", bmov1alpha1.StateProvisioned, bmov1alpha1.BareMetalHostSpec{},
			bmov1alpha1.ProvisionStatus{Image: image}, false,
		},
		"Neither":        {"BMO deprovisions it", bmov1alpha1.StateProvisioned, bmov1alpha1.BareMetalHostSpec{}, bmov1alpha1.ProvisionStatus{}, false},
		"Available":      {"there is nothing to do", bmov1alpha1.StateAvailable, bmov1alpha1.BareMetalHostSpec{}, bmov1alpha1.ProvisionStatus{}, true},
		"Ready":          {"an old name of available", bmov1alpha1.StateReady, bmov1alpha1.BareMetalHostSpec{}, bmov1alpha1.ProvisionStatus{}, true},
		"Provision":      {"BMO writes the image", bmov1alpha1.StateAvailable, bmov1alpha1.BareMetalHostSpec{Image: &image}, bmov1alpha1.ProvisionStatus{}, false},
		"CustomPending":  {"BMO deploys it", bmov1alpha1.StateReady, bmov1alpha1.BareMetalHostSpec{CustomDeploy: method("a")}, bmov1alpha1.ProvisionStatus{}, false},
		"Preparing":      {"BMO configures its RAID", bmov1alpha1.StatePreparing, bmov1alpha1.BareMetalHostSpec{}, bmov1alpha1.ProvisionStatus{}, false},
		"Registering":    {"BMO prepares it next", bmov1alpha1.StateRegistering, bmov1alpha1.BareMetalHostSpec{}, bmov1alpha1.ProvisionStatus{}, false},
		"Deprovisioning": {"BMO continues", bmov1alpha1.StateDeprovisioning, bmov1alpha1.BareMetalHostSpec{Image: &image}, bmov1alpha1.ProvisionStatus{Image: image}, false},
		"Provisioning":   {"BMO continues", bmov1alpha1.StateProvisioning, bmov1alpha1.BareMetalHostSpec{Image: &image}, bmov1alpha1.ProvisionStatus{Image: image}, false},
		"External": {
			"BMO only manages the power", bmov1alpha1.StateExternallyProvisioned,
			bmov1alpha1.BareMetalHostSpec{ExternallyProvisioned: true}, bmov1alpha1.ProvisionStatus{}, true,
		},
		"ExternalNoMore": {
			"BMO prepares it", bmov1alpha1.StateExternallyProvisioned, bmov1alpha1.BareMetalHostSpec{}, bmov1alpha1.ProvisionStatus{}, false,
		},
		"Custom": {
			"the method is the same", bmov1alpha1.StateProvisioned, bmov1alpha1.BareMetalHostSpec{CustomDeploy: method("a")},
			bmov1alpha1.ProvisionStatus{CustomDeploy: method("a")}, true,
		},
		"CustomOther": {
			"the method differs", bmov1alpha1.StateProvisioned, bmov1alpha1.BareMetalHostSpec{CustomDeploy: method("a")},
			bmov1alpha1.ProvisionStatus{CustomDeploy: method("b")}, false,
		},
		"CustomImage": {
			"the image differs", bmov1alpha1.StateProvisioned,
			bmov1alpha1.BareMetalHostSpec{CustomDeploy: method("a"), Image: &image},
			bmov1alpha1.ProvisionStatus{CustomDeploy: method("a"), Image: other}, false,
		},
		"CustomRemoved": {
			"the method was removed", bmov1alpha1.StateProvisioned, bmov1alpha1.BareMetalHostSpec{Image: &image},
			bmov1alpha1.ProvisionStatus{CustomDeploy: method("a"), Image: image}, false,
		},
	} {
		host := build.Host("host")
		host.Spec, host.Status.Provisioning = tc.spec, tc.status
		host.Status.Provisioning.State = tc.state
		if got := keepsDisks(host); got != tc.want {
			t.Errorf("%s: %s: got %v", name, tc.reason, got)
		}
	}
}
