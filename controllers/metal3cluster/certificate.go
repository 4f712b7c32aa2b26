package metal3cluster

import (
	"fmt"
	"time"

	"k8s.io/client-go/util/cert"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
)

// The manager warns in the last third of the lifetime of a certificate, but not earlier than warnsBefore its end. By
// default, cert-manager renews a certificate when its last third begins.
const (
	warnsBefore = 30 * 24 * time.Hour
	warnsFrom   = 3
)

// certificateFacts are the certificates of an Ironic endpoint.
type certificateFacts struct {
	// served is the certificate of the Ironic that answers. Stored is that of the Secret of the cluster, with which new
	// nodes boot.
	served, stored ironicapi.Validity

	// holder is the VIP holder. Nil if unknown.
	holder *infrav1.IronicHolder

	// secret is the name of the Secret of the cluster, and renewal the remedy for its certificate.
	secret, renewal string
}

// factsOf returns the certificates of an endpoint that was probed.
func (s *scope) factsOf(served ironicapi.Validity) certificateFacts {
	facts := certificateFacts{
		served: served, holder: s.verdict.Holder, secret: secrets.Name(s.cluster.Name), renewal: s.material.Renewal,
	}
	if chain, err := cert.ParseCertsPEM(s.material.Certificate); err == nil {
		facts.stored = ironicapi.ValidityOf(chain[0])
	}
	return facts
}

// warning returns which certificate ends soon, and the remedy. Empty if none ends soon. The first row that matches
// counts. A node keeps the certificate of its first boot.
//
//	served     stored                     holder      remedy
//	ends soon  any                        Management  renew the certificate of that Ironic, which reads a changed Secret
//	ends soon  ends later, and not soon   others      roll the control plane out
//	ends soon  anything else              others      renew the stored certificate, and roll the control plane out
//	any        ends soon                  any         the same: nodes have it, or get it at their first boot
//	any        anything else              any         none
func (f certificateFacts) warning(now time.Time) string {
	const rollout = "Then roll the control plane out, because a node keeps the certificate of its first boot"
	end := f.served.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case endsSoon(f.served, now) && f.holder != nil && f.holder.Kind == infrav1.HolderManagement:
		return fmt.Sprintf("Its certificate ends at %s: renew it in the Secret of the management Ironic", end)
	case endsSoon(f.served, now) && !endsSoon(f.stored, now) && f.stored.NotAfter.After(f.served.NotAfter.Time):
		return fmt.Sprintf("Its certificate ends at %s. After that, no node with this certificate can hold the VIP: roll "+
			"the control plane out, so that its nodes get the certificate of Secret %s, which ends at %s", end, f.secret,
			f.stored.NotAfter.UTC().Format(time.RFC3339))
	case endsSoon(f.served, now):
		return fmt.Sprintf("Its certificate ends at %s. After that, no node with this certificate can hold the VIP: %s. %s",
			end, f.renewal, rollout)
	case endsSoon(f.stored, now):
		return fmt.Sprintf("The certificate of Secret %s ends at %s. After that, no node with this certificate can hold the "+
			"VIP: %s. %s", f.secret, f.stored.NotAfter.UTC().Format(time.RFC3339), f.renewal, rollout)
	default:
		return ""
	}
}

// endsSoon returns true in the last third of the lifetime of a certificate, but not earlier than warnsBefore its end.
func endsSoon(certificate ironicapi.Validity, now time.Time) bool {
	lifetime := certificate.NotAfter.Sub(certificate.NotBefore.Time)
	return !certificate.NotAfter.IsZero() && certificate.NotAfter.Sub(now) <= min(warnsBefore, lifetime/warnsFrom)
}
