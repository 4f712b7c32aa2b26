package plugin

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestTakes compares with getMoveNodes and getMoveSequence of clusterctl.
func TestTakes(t *testing.T) {
	owned := func(owners ...metav1.OwnerReference) *metav1.PartialObjectMetadata {
		secret := named("secret", "")
		secret.OwnerReferences = owners
		return secret
	}
	by := func(kind, name string) metav1.OwnerReference { return belongingTo("", kind, name).OwnerReferences[0] }
	stranger, labelled := by("ExternalSecret", "x"), labelledSecret("secret")
	labelled.OwnerReferences = []metav1.OwnerReference{stranger}
	another := by(clusterv1.ClusterKind, "c")
	another.APIVersion = "postgresql.cnpg.io/v1"
	gone := by("BareMetalHost", "host")
	gone.UID = "gone"
	class := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "ClusterClass", Name: "class"}
	for name, tc := range map[string]struct {
		reason string
		object *metav1.PartialObjectMetadata
		want   bool
	}{
		"Loose":        {"it has neither owner nor label", owned(), false},
		"Labelled":     {"it has the label", labelledSecret("secret"), true},
		"OfHost":       {"its owner moves", owned(by("BareMetalHost", "host")), true},
		"OfMachine":    {"a Cluster owns its owner", owned(by("Machine", "m")), true},
		"OfClass":      {"clusterctl moves ClusterClasses without a label", owned(class), true},
		"OfOthers":     {"clusterctl does not discover its owner", owned(stranger), false},
		"OneOfOthers":  {"clusterctl waits for all owners", owned(by("BareMetalHost", "host"), stranger), false},
		"LabelOthers":  {"the label does not replace an owner", labelled, false},
		"OfNamesake":   {"the owner is a Cluster of another API group", owned(another), false},
		"OfStaying":    {"the owner of its owner does not move", owned(by("BareMetalHost", "staying")), false},
		"OfLooseOwner": {"its owner has neither owner nor label", owned(by("Machine", "loose")), false},
		"OfSingle":     {"its owner moves without the objects that it owns", owned(by("Machine", "single")), false},
		"OfItself":     {"no owner is first", owned(by("Machine", "circle")), false},
		"Gone":         {"an administrator decides", owned(gone), true},
	} {
		side := copied(true, "3", "m").put("BareMetalHost", named("host", ""), belongingTo("staying", "ExternalSecret", "x")).
			put("Machine", named("loose", ""), labelledSecret("single"), belongingTo("circle", "Machine", "circle"))
		side.objects[classKind()] = belongings{"class": named("class", "")}
		side.identify()
		side.put("Secret", tc.object)
		if got := side.takes(secretKind(), tc.object); got != tc.want {
			t.Errorf("%s: %s: got %v", name, tc.reason, got)
		}
	}
}

// TestTakesSecretsOfClusters compares with setSoftOwnership of clusterctl.
func TestTakesSecretsOfClusters(t *testing.T) {
	owned := belongingTo("c-etcd", "ExternalSecret", "x")
	for name, tc := range map[string]struct {
		secret *metav1.PartialObjectMetadata
		want   bool
	}{
		"CA":          {named("c-ca", ""), true},
		"Kubeconfig":  {named("c-kubeconfig", ""), true},
		"NoCluster":   {named("d-ca", ""), false},
		"OtherSuffix": {named("c-bmc", ""), false},
		"Owned":       {owned, false},
	} {
		side := copied(true, "3", "m").put("Secret", tc.secret)
		if got := side.takes(secretKind(), tc.secret); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestOwnedOnlyBy compares with the garbage collector, which keeps an object while an owner exists.
func TestOwnedOnlyBy(t *testing.T) {
	by := func(kind, name string) metav1.OwnerReference { return belongingTo("", kind, name).OwnerReferences[0] }
	ours, other, gone := by("BareMetalHost", "ours"), by("BareMetalHost", "other"), by("BareMetalHost", "gone")
	for name, tc := range map[string]struct {
		owners []metav1.OwnerReference
		want   bool
	}{
		"Loose":   {nil, false},
		"Ours":    {[]metav1.OwnerReference{ours}, true},
		"Others":  {[]metav1.OwnerReference{other}, false},
		"Shared":  {[]metav1.OwnerReference{ours, other}, false},
		"Gone":    {[]metav1.OwnerReference{ours, gone}, true},
		"Unknown": {[]metav1.OwnerReference{ours, by("ExternalSecret", "x")}, false},
	} {
		side := copied(true, "3").put("BareMetalHost", named("ours", ""), named("other", ""))
		side.identify()
		secret := named("secret", "")
		secret.OwnerReferences = tc.owners
		if got := side.ownedOnlyBy(secret, map[types.UID]bool{ours.UID: true}); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// classKind is the kind ClusterClass.
func classKind() schema.GroupKind { return clusterv1.GroupVersion.WithKind("ClusterClass").GroupKind() }
