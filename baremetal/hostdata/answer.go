package hostdata

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Answers returns true for a Metal3Data that was created for a claim. It also returns true for the Metal3Data of an
// earlier claim of the same name and Metal3Machine, unless it is being deleted: the finalizers of the earlier claim
// were removed by force, and the host uses the data.
func Answers(claim *infrav1.Metal3DataClaim, data *infrav1.Metal3Data) bool {
	if data.Spec.Claim == nil || data.Spec.Claim.Name != claim.Name {
		return false
	}
	for _, owner := range data.OwnerReferences {
		if IsInfra(owner, "Metal3DataClaim") && owner.Name == claim.Name {
			return owner.UID == claim.UID || data.DeletionTimestamp.IsZero() && shareMachine(claim, data)
		}
	}
	return true
}

func shareMachine(claim *infrav1.Metal3DataClaim, data *infrav1.Metal3Data) bool {
	return slices.ContainsFunc(claim.OwnerReferences, func(machine metav1.OwnerReference) bool {
		return IsInfra(machine, "Metal3Machine") && machine.UID != "" &&
			slices.ContainsFunc(data.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == machine.UID })
	})
}

// IsInfra returns true for a reference to an object of a kind of this provider.
func IsInfra(reference metav1.OwnerReference, kind string) bool {
	group, _, _ := strings.Cut(reference.APIVersion, "/")
	return reference.Kind == kind && group == infrav1.GroupVersion.Group
}

// Answer returns the Metal3Data of a claim, and surplus ones. Two managers may each create one. Nil if the claim has
// none.
//
//	preferred      because
//	rendered       a host may use it
//	not deleting   it continues to exist
//	recorded       the status of the claim names it
//	lowest index   any manager chooses the same
func Answer(claim *infrav1.Metal3DataClaim, found []*infrav1.Metal3Data) (*infrav1.Metal3Data, []*infrav1.Metal3Data) {
	if len(found) == 0 {
		return nil, nil
	}
	recorded := ""
	if claim.Status.RenderedData != nil {
		recorded = claim.Status.RenderedData.Name
	}
	sorted := slices.Clone(found)
	slices.SortFunc(sorted, func(a, b *infrav1.Metal3Data) int {
		return cmp.Or(
			first(ptr.Deref(a.Status.Ready, false), ptr.Deref(b.Status.Ready, false)),
			first(a.DeletionTimestamp.IsZero(), b.DeletionTimestamp.IsZero()),
			first(a.Name == recorded, b.Name == recorded),
			cmp.Compare(ptr.Deref(a.Spec.Index, 0), ptr.Deref(b.Spec.Index, 0)),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return sorted[0], sorted[1:]
}

// first sorts elements with a property before those without.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}
