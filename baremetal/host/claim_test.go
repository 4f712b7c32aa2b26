package host_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

const (
	blockMove = "clusterctl.cluster.x-k8s.io/block-move"

	// foundOff is the record of a host that was off and had no other fields set.
	foundOff = `{"online":false}`
)

func secret(name string) *corev1.SecretReference {
	return &corev1.SecretReference{Namespace: build.DefaultNamespace, Name: name}
}

func claim(changes ...func(*host.Claim)) host.Claim {
	wants := host.Claim{Machine: machineName, Namespace: build.DefaultNamespace, Cluster: clusterName}
	for _, change := range changes {
		change(&wants)
	}
	return wants
}

func provisioning(c *host.Claim) {
	c.Provision = &host.Provision{
		Image: &infrav1.Image{
			URL: "http://images.example/new.qcow2", Checksum: "abc", ChecksumType: "sha512", DiskFormat: "raw",
		},
		UserData:    secret("user-data"),
		MetaData:    secret("meta-data"),
		NetworkData: secret("network-data"),
	}
}

func machineOwner(version string) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: infrav1.GroupVersion.Group + "/" + version, Kind: "Metal3Machine", Name: machineName, UID: "1",
	}
}

func ownerOfUser() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Rack", Name: "rack-0", UID: "2"}
}

// claimed returns the result of Desired for an available host, with changes.
func claimed(changes ...func(*bmov1alpha1.BareMetalHost)) *bmov1alpha1.BareMetalHost {
	h := available("host-0", annotated(infrav1.ReleaseAnnotation, foundOff),
		build.Labels(map[string]string{clusterv1.ClusterNameLabel: clusterName}))
	return edit(h, append([]func(*bmov1alpha1.BareMetalHost){consumer(machineRef(machineName))}, changes...)...)
}

func running(h *bmov1alpha1.BareMetalHost) {
	diskFormat := "raw"
	h.Spec.Image = &bmov1alpha1.Image{
		URL: "http://images.example/new.qcow2", Checksum: "abc", ChecksumType: bmov1alpha1.SHA512, DiskFormat: &diskFormat,
	}
	h.Spec.UserData, h.Spec.MetaData, h.Spec.NetworkData = secret("user-data"), secret("meta-data"), secret("network-data")
	h.Spec.Online = true
}

func labelled(key, value string) func(*bmov1alpha1.BareMetalHost) {
	return func(h *bmov1alpha1.BareMetalHost) { metav1.SetMetaDataLabel(&h.ObjectMeta, key, value) }
}

func note(key, value string) func(*bmov1alpha1.BareMetalHost) {
	return func(h *bmov1alpha1.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, key, value) }
}

func owners(list ...metav1.OwnerReference) func(*bmov1alpha1.BareMetalHost) {
	return func(h *bmov1alpha1.BareMetalHost) { h.OwnerReferences = list }
}

func TestDesired(t *testing.T) {
	bare := func(changes ...func(*bmov1alpha1.BareMetalHost)) *bmov1alpha1.BareMetalHost {
		return edit(available("host-0"), changes...)
	}
	withoutRecord := func(h *bmov1alpha1.BareMetalHost) { delete(h.Annotations, infrav1.ReleaseAnnotation) }
	oldVersion := func(h *bmov1alpha1.BareMetalHost) {
		h.Spec.ConsumerRef.APIVersion = infrav1.GroupVersion.Group + "/v1beta1"
	}
	cleaning := func(mode bmov1alpha1.AutomatedCleaningMode) func(*bmov1alpha1.BareMetalHost) {
		return func(h *bmov1alpha1.BareMetalHost) { h.Spec.AutomatedCleaningMode = mode }
	}
	ofTheUser := func(h *bmov1alpha1.BareMetalHost) {
		h.Spec.Online = true
		h.Spec.AutomatedCleaningMode = bmov1alpha1.CleaningModeMetadata
		h.Spec.UserData, h.Spec.MetaData, h.Spec.NetworkData = secret("u"), secret("m"), secret("n")
		labelled(clusterv1.ClusterNameLabel, "mine")(h)
	}
	const otherFields = `"clusterLabel":"mine",` +
		`"userData":{"name":"u","namespace":"metal3"},"metaData":{"name":"m","namespace":"metal3"},` +
		`"networkData":{"name":"n","namespace":"metal3"}}`
	const fullRecord = `{"online":true,"automatedCleaningMode":"metadata",` + otherFields
	const withoutMode = `{"online":true,` + otherFields

	cases := map[string]struct {
		reason string
		host   *bmov1alpha1.BareMetalHost
		claim  host.Claim
		want   *bmov1alpha1.BareMetalHost
	}{
		"FirstClaimBeforeItsDataIsReady": {
			reason: "the claim sets no image",
			host:   bare(),
			claim:  claim(),
			want:   claimed(),
		},
		"FirstClaimWithEverything": {
			reason: "one write claims and provisions the host",
			host:   bare(),
			claim:  claim(provisioning),
			want:   claimed(running),
		},
		"FirstClaimRecordsTheOriginalValues": {
			reason: "the release restores the values of the administrator",
			host:   bare(ofTheUser),
			claim:  claim(provisioning, func(c *host.Claim) { c.CleaningMode = "disabled" }),
			want: claimed(running, note(infrav1.ReleaseAnnotation, fullRecord),
				cleaning(bmov1alpha1.CleaningModeDisabled)),
		},
		"FieldsThatTheMachineDoesNotSetStay": {
			reason: "the administrator may have set network data, and may change the cleaning mode",
			host:   bare(ofTheUser),
			claim: claim(func(c *host.Claim) {
				c.Provision = &host.Provision{CustomDeploy: &infrav1.CustomDeploy{Method: "install"}}
			}),
			want: claimed(ofTheUser, labelled(clusterv1.ClusterNameLabel, clusterName),
				note(infrav1.ReleaseAnnotation, withoutMode),
				func(h *bmov1alpha1.BareMetalHost) { h.Spec.CustomDeploy = &bmov1alpha1.CustomDeploy{Method: "install"} }),
		},
		"DataArrivesAfterTheClaim": {
			reason: "the record of the claim is written once",
			host:   claimed(),
			claim:  claim(provisioning),
			want:   claimed(running),
		},
		"ProvisionedHostIsUnchanged": {
			reason: "a changed image would wipe a running system, and BMO ignores changed data",
			host:   claimed(image, state(bmov1alpha1.StateProvisioned)),
			claim:  claim(provisioning),
			want:   claimed(image, state(bmov1alpha1.StateProvisioned)),
		},
		"DeployedHostIsUnchanged": {
			reason: "a custom deploy step has the same effect as an image",
			host: claimed(func(h *bmov1alpha1.BareMetalHost) {
				h.Spec.CustomDeploy = &bmov1alpha1.CustomDeploy{Method: "install"}
			}),
			claim: claim(provisioning),
			want: claimed(func(h *bmov1alpha1.BareMetalHost) {
				h.Spec.CustomDeploy = &bmov1alpha1.CustomDeploy{Method: "install"}
			}),
		},
		"HostOfCAPM3": {
			reason: "the original values are unknown, so there is no record, and the version of the reference stays",
			host:   claimed(withoutRecord, oldVersion, running, owners(machineOwner("v1beta1"), ownerOfUser())),
			claim:  claim(provisioning),
			want:   claimed(withoutRecord, oldVersion, running, owners(ownerOfUser())),
		},
		"LostLabelComesBack": {
			reason: "clusterctl move requires the label",
			host:   claimed(func(h *bmov1alpha1.BareMetalHost) { delete(h.Labels, clusterv1.ClusterNameLabel) }),
			claim:  claim(),
			want:   claimed(),
		},
		"BlockMoveIsRemoved": {
			reason: "no move runs while a machine reconciles",
			host:   claimed(note(blockMove, "true")),
			claim:  claim(),
			want:   claimed(),
		},
		"OwnPauseStays": {
			reason: "another Ironic may answer in the target cluster",
			host:   claimed(note(bmov1alpha1.PausedAnnotation, infrav1.HostPausedByProvider)),
			claim:  claim(),
			want:   claimed(note(bmov1alpha1.PausedAnnotation, infrav1.HostPausedByProvider)),
		},
		"PauseOfTheUserStays": {
			reason: "the user ends it",
			host:   claimed(note(bmov1alpha1.PausedAnnotation, "")),
			claim:  claim(),
			want:   claimed(note(bmov1alpha1.PausedAnnotation, "")),
		},
		"ReservedHostKeepsTheFirstRecord": {
			reason: "the previous machine set the current values, the record has the original ones",
			host:   bare(reserved(owner), note(infrav1.ReleaseAnnotation, fullRecord)),
			claim:  claim(),
			want:   claimed(note(infrav1.ReleaseAnnotation, fullRecord)),
		},
		"ReservedHostWithoutARecord": {
			reason: "CAPM3 reserved the host, so the current values are recorded",
			host:   bare(reserved(owner)),
			claim:  claim(),
			want:   claimed(),
		},
		"ReservedHostWithAMalformedRecord": {
			reason: "an invalid record counts as none",
			host:   bare(reserved(owner), note(infrav1.ReleaseAnnotation, "{")),
			claim:  claim(),
			want:   claimed(),
		},
		"HostWithoutConsumerKeepsTheFirstRecord": {
			reason: "the host still has the values of the previous machine",
			host:   bare(note(infrav1.ReleaseAnnotation, fullRecord)),
			claim:  claim(),
			want:   claimed(note(infrav1.ReleaseAnnotation, fullRecord)),
		},
		"FirstCleaningModeAfterTheClaim": {
			reason: "the release restores the mode that the machine replaces",
			host:   claimed(cleaning(bmov1alpha1.CleaningModeMetadata), note(infrav1.ReleaseAnnotation, withoutMode)),
			claim:  claim(func(c *host.Claim) { c.CleaningMode = "disabled" }),
			want:   claimed(cleaning(bmov1alpha1.CleaningModeDisabled), note(infrav1.ReleaseAnnotation, fullRecord)),
		},
		"NextCleaningModeAfterTheClaim": {
			reason: "the record has the mode of the administrator",
			host:   claimed(cleaning(bmov1alpha1.CleaningModeDisabled), note(infrav1.ReleaseAnnotation, fullRecord)),
			claim:  claim(func(c *host.Claim) { c.CleaningMode = "metadata" }),
			want:   claimed(cleaning(bmov1alpha1.CleaningModeMetadata), note(infrav1.ReleaseAnnotation, fullRecord)),
		},
		"EmptyCleaningModeKeepsThatOfTheHost": {
			reason: "the field is optional",
			host:   claimed(cleaning(bmov1alpha1.CleaningModeMetadata)),
			claim:  claim(),
			want:   claimed(cleaning(bmov1alpha1.CleaningModeMetadata)),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.host.DeepCopy()
			got := host.Desired(tc.host, tc.claim)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(before, tc.host); diff != "" {
				t.Errorf("the given host was changed: -before +after:\n%s", diff)
			}
			if diff := cmp.Diff(got, host.Desired(got, tc.claim)); diff != "" {
				t.Errorf("a second time changed the host again: -once +twice:\n%s", diff)
			}
		})
	}
}

func TestDesiredImage(t *testing.T) {
	cases := map[string]struct {
		image infrav1.Image
		want  bmov1alpha1.Image
	}{
		"no disk format is nil, not empty": {
			infrav1.Image{URL: "http://images.example/a", Checksum: "abc", ChecksumType: "auto"},
			bmov1alpha1.Image{URL: "http://images.example/a", Checksum: "abc", ChecksumType: bmov1alpha1.AutoChecksum},
		},
		"a live ISO": {
			infrav1.Image{URL: "http://images.example/a", DiskFormat: "live-iso"},
			bmov1alpha1.Image{URL: "http://images.example/a", DiskFormat: ptrTo("live-iso")},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := host.Desired(available("host-0"), claim(func(c *host.Claim) {
				c.Provision = &host.Provision{Image: &tc.image}
			}))
			if diff := cmp.Diff(&tc.want, got.Spec.Image); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestDesiredWithoutURL claims a host for a custom deploy step and an image without a URL, and takes the host back.
func TestDesiredWithoutURL(t *testing.T) {
	wanted := claim(func(c *host.Claim) {
		c.Provision = &host.Provision{
			Image: &infrav1.Image{Checksum: "abc"}, CustomDeploy: &infrav1.CustomDeploy{Method: "install"},
		}
	})
	claimed := host.Desired(available("host-0"), wanted)
	if claimed.Spec.Image != nil || claimed.Spec.CustomDeploy == nil {
		t.Errorf("got image %v and custom deploy %v", claimed.Spec.Image, claimed.Spec.CustomDeploy)
	}
	claimed.Spec.ConsumerRef = nil
	if host.Reclaimed(claimed, wanted, nil) == nil {
		t.Error("the host is not taken back")
	}
}

func ptrTo[T any](value T) *T { return &value }

// TestDesiredSharesNothing changes the returned host and expects that host and claim stay unchanged.
func TestDesiredSharesNothing(t *testing.T) {
	given := available("host-0", annotated("a", "1"))
	wants := claim(provisioning)
	before := fmt.Sprintf("%v %v", given, *wants.Provision.UserData)
	got := host.Desired(given, wants)
	got.Annotations["a"] = "2"
	got.Spec.UserData.Name = "changed"
	*got.Spec.Image.DiskFormat = "changed"
	if after := fmt.Sprintf("%v %v", given, *wants.Provision.UserData); after != before {
		t.Errorf("got  %s\nwant %s", after, before)
	}
	if wants.Provision.Image.DiskFormat != "raw" {
		t.Error("the image of the claim was changed")
	}
}
