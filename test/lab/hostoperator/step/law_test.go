package step_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/step"
)

// TestLaw holds what must be true of every step from wherever: all states of a host with all states of its node.
func TestLaw(t *testing.T) {
	states := []bmov1alpha1.ProvisioningState{
		bmov1alpha1.StateRegistering, bmov1alpha1.StateInspecting, bmov1alpha1.StateMatchProfile,
		bmov1alpha1.StatePreparing, bmov1alpha1.StateReady, bmov1alpha1.StateAvailable, bmov1alpha1.StateProvisioning,
		bmov1alpha1.StateProvisioned, bmov1alpha1.StateExternallyProvisioned, bmov1alpha1.StateDeprovisioning,
		bmov1alpha1.StatePoweringOffBeforeDelete, bmov1alpha1.StateDeleting,
	}
	ironic := []nodes.ProvisionState{
		"", nodes.Enroll, nodes.Verifying, nodes.Manageable, nodes.Available, nodes.Active, nodes.DeployWait,
		nodes.Deploying, nodes.DeployFail, nodes.Deleting, nodes.Cleaning, nodes.CleanWait, nodes.CleanFail, nodes.Error,
		nodes.Inspecting, nodes.InspectFail, nodes.InspectWait, nodes.Adopting, nodes.AdoptFail, nodes.Rescue,
		nodes.Servicing,
	}
	circumstances := map[string]func(*step.Seen){
		"plain":      func(*step.Seen) {},
		"external":   external,
		"offline":    offline,
		"deleted":    deleted,
		"no Secret":  func(s *step.Seen) { deleted(s); noSecret(s) },
		"new Secret": newSecret,
		"crowded":    crowded,
		"detached":   annotated(bmov1alpha1.DetachedAnnotation, ""),
		"by force":   annotated(bmov1alpha1.DetachedAnnotation, `{"force":true}`),
		"reboot":     annotated(bmov1alpha1.RebootAnnotationPrefix, ""),
		"no inspect": func(s *step.Seen) {
			annotated(bmov1alpha1.InspectAnnotationPrefix, "")(s)
			s.Host.Spec.InspectionMode = bmov1alpha1.InspectionModeDisabled
		},
		"inspect":     annotated(bmov1alpha1.InspectAnnotationPrefix, ""),
		"failed":      failed(bmov1alpha1.ProvisioningError, 1),
		"maintenance": onNodeIfAny(func(node *nodes.Node) { node.Maintenance = true }),
		"fault": onNodeIfAny(func(node *nodes.Node) {
			node.Maintenance, node.Fault = true, "power failure"
		}),
		"no image":    func(s *step.Seen) { s.Host.Spec.Image = nil },
		"other image": func(s *step.Seen) { s.Host.Spec.Image.URL = "http://other" },
	}
	count := 0
	for _, state := range states {
		for _, node := range ironic {
			for name, change := range circumstances {
				all := running(state, node)
				if node == "" {
					all = running(state, "", noNodeButOn)
				}
				change(&all)
				count++
				for _, broken := range append(lawsBroken(all, step.Next(all, rules)), circles(all)...) {
					t.Errorf("%s, node %q, %s: %s", state, node, name, broken)
				}
			}
		}
	}
	if want := len(states) * len(ironic) * len(circumstances); count != want {
		t.Errorf("looked at %d of %d", count, want)
	}
}

func lawsBroken(all step.Seen, got step.Step) []string {
	var broken []string
	add := func(format string, args ...any) { broken = append(broken, got.Why+": "+fmt.Sprintf(format, args...)) }
	if got.Host == nil {
		return []string{"no host"}
	}
	if diff := cmp.Diff(all.Host.Spec, got.Host.Spec); diff != "" {
		add("the spec is the user's (-before +after):\n%s", diff)
	}
	isIdle := got.Call == nil && got.Chore == step.NoChore && equality.Semantic.DeepEqual(all.Host, got.Host)
	if got.After == 0 && isIdle {
		add("looks again at once without having done anything, and so for ever")
	}
	if strings.Contains(got.Why, "secret") || strings.Contains(got.Host.Status.ErrorMessage, "secret") {
		add("tells the password")
	}
	if _, isEnroll := got.Call.(step.Enroll); !isEnroll && all.Node == nil && got.Call != nil {
		add("nothing can be asked of Ironic without a node")
		return broken
	}
	return append(broken, callsBroken(all, got)...)
}

// circles follows a host for as long as nobody has to be waited for, which must come to an end.
func circles(all step.Seen) []string {
	const limit = 10
	why := []string{}
	for range limit {
		got := step.Next(all, rules)
		if got.After != 0 || got.Call != nil || got.Chore != step.NoChore {
			return nil
		}
		why = append(why, got.Why)
		all.Host = got.Host
	}
	return []string{"goes round in circles: " + strings.Join(why, ", ")}
}

// callsBroken are the laws about what is asked of Ironic.
func callsBroken(all step.Seen, got step.Step) []string {
	var broken []string
	add := func(format string, args ...any) { broken = append(broken, got.Why+": "+fmt.Sprintf(format, args...)) }
	state := all.Host.Status.Provisioning.State
	runs := state == bmov1alpha1.StateProvisioned || state == bmov1alpha1.StateExternallyProvisioned
	switch call := got.Call.(type) {
	case step.Power:
		if runs && all.Node.ProvisionState == string(nodes.Manageable) {
			add("%q for a host that has to be adopted first", call.Options.Target)
		}
	case step.Provision:
		if all.Node.Maintenance && call.Target != nodes.TargetAbort {
			add("%q for a node in maintenance, which Ironic refuses", call.Target)
		}
		if runs && slices.Contains(takesImage, call.Target) {
			add("%q for a host that runs its image", call.Target)
		}
	case step.Deploy:
		if state != bmov1alpha1.StateProvisioning {
			add("an image is written in another state than provisioning")
		}
	}
	return broken
}

// takesImage are the verbs that would cost a host what runs on it.
var takesImage = []nodes.TargetProvisionState{nodes.TargetDeleted, nodes.TargetProvide, nodes.TargetInspect}

func onNodeIfAny(change func(*nodes.Node)) func(*step.Seen) {
	return func(s *step.Seen) {
		if s.Node != nil {
			change(s.Node)
		}
	}
}

func TestQueryFor(t *testing.T) {
	host := seen(bmov1alpha1.StateInspecting, "").Host
	host.Spec.BootMACAddress = strings.ToUpper(mac)
	want := step.Query{ID: nodeID, Name: "metal3~host", MACAddress: mac, Inventory: true, Busy: true}
	if diff := cmp.Diff(want, step.QueryFor(host)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	host.Status.Provisioning.State = bmov1alpha1.StateDeprovisioning
	want.Inventory = false
	if diff := cmp.Diff(want, step.QueryFor(host)); diff != "" {
		t.Errorf("deprovisioning (-want +got):\n%s", diff)
	}
	host.Status.Provisioning.State = bmov1alpha1.StateProvisioned
	want.Inventory, want.Busy = false, false
	if diff := cmp.Diff(want, step.QueryFor(host)); diff != "" {
		t.Errorf("what nobody needs is looked up (-want +got):\n%s", diff)
	}
}
