package host_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// coin returns reproducible random choices.
type coin struct{ *rand.Rand }

func (c coin) flip() bool { return c.IntN(2) == 0 }

func (c coin) secret(name string) *corev1.SecretReference {
	if c.flip() {
		return nil
	}
	return secret(name)
}

func (c coin) cleaning() bmov1alpha1.AutomatedCleaningMode {
	modes := []bmov1alpha1.AutomatedCleaningMode{
		"", bmov1alpha1.CleaningModeMetadata, bmov1alpha1.CleaningModeDisabled,
	}
	return modes[c.IntN(len(modes))]
}

// host returns a host with random settings of an administrator.
func (c coin) host() *bmov1alpha1.BareMetalHost {
	h := available("host-0")
	h.Spec.DisablePowerOff = c.IntN(4) == 0
	// BMO rejects online=false with disablePowerOff.
	h.Spec.Online = h.Spec.DisablePowerOff || c.flip()
	h.Spec.AutomatedCleaningMode = c.cleaning()
	h.Spec.UserData, h.Spec.MetaData, h.Spec.NetworkData = c.secret("u"), c.secret("m"), c.secret("n")
	for _, change := range []func(*bmov1alpha1.BareMetalHost){
		labelled("rack", "a"), labelled(clusterv1.ClusterNameLabel, "mine"), labelled(infrav1.FailureDomainLabel, "a"),
		note("example.com/note", "x"), note(bmov1alpha1.PausedAnnotation, "user"), owners(ownerOfUser()),
	} {
		if c.flip() {
			change(h)
		}
	}
	return h
}

func (c coin) claim(machine string) host.Claim {
	return claim(func(wants *host.Claim) {
		wants.Machine = machine
		wants.CleaningMode = string(c.cleaning())
		if c.IntN(4) == 0 {
			return
		}
		wants.Provision = &host.Provision{
			UserData: c.secret("user-data"), MetaData: c.secret("meta-data"), NetworkData: c.secret("network-data"),
		}
		if c.flip() {
			wants.Provision.Image = &infrav1.Image{URL: "http://images.example/a"}
		} else {
			wants.Provision.CustomDeploy = &infrav1.CustomDeploy{Method: "install"}
		}
	})
}

// mark adds metadata to a claimed host that a machine, a move or a remediation leaves.
func (c coin) mark(h *bmov1alpha1.BareMetalHost) {
	for _, change := range []func(*bmov1alpha1.BareMetalHost){
		note(blockMove, "true"), note(remediationReboot, ""),
		func(h *bmov1alpha1.BareMetalHost) {
			h.OwnerReferences = append(h.OwnerReferences, machineOwner("v1beta1"))
		},
	} {
		if c.flip() {
			change(h)
		}
	}
}

// runRelease runs a release to its end in place of BMO.
func runRelease(t *testing.T, held *bmov1alpha1.BareMetalHost, release host.Release) *bmov1alpha1.BareMetalHost {
	t.Helper()
	for range 5 {
		step := host.PlanRelease(held, release)
		if step.Write != nil {
			held = step.Write
		}
		if step.Outcome.IsDone() {
			return held
		}
		held.Status.Provisioning.State = bmov1alpha1.StateAvailable
	}
	t.Fatal("the release does not end")
	return nil
}

// TestReleaseRestoresTheOriginalValues claims and releases random hosts and expects the original values. The exception
// is that of PlanRelease: a host that was not cleaned stays off.
func TestReleaseRestoresTheOriginalValues(t *testing.T) {
	for seed := range uint64(2000) {
		c := coin{rand.New(rand.NewPCG(seed, 1))}
		found := c.host()
		original := found.DeepCopy()
		fastTrack := c.flip()

		current, machine := found, "machine-a"
		for range c.IntN(3) {
			// All machines but the last reserve the host for the next one.
			current = host.Desired(current, c.claim(machine))
			c.mark(current)
			current = runRelease(t, current, host.Release{
				Machine: machine, Namespace: "metal3", FastTrack: fastTrack, Reserve: owner, Cluster: clusterName,
			})
			machine += "a"
		}
		current = host.Desired(current, c.claim(machine))
		c.mark(current)
		uncleaned := current.Spec.AutomatedCleaningMode == bmov1alpha1.CleaningModeDisabled
		current.Status.Provisioning.State = bmov1alpha1.StateProvisioned
		got := runRelease(t, current, host.Release{Machine: machine, Namespace: "metal3", FastTrack: fastTrack})

		want := original.DeepCopy()
		if uncleaned && !want.Spec.DisablePowerOff {
			want.Spec.Online = false
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d: the release did not restore the host: -want +got:\n%s", seed, diff)
		}
		if diff := cmp.Diff(original, found); diff != "" {
			t.Fatalf("seed %d: the given host was changed: -before +after:\n%s", seed, diff)
		}
	}
}
