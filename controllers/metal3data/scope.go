package metal3data

import (
	"cmp"
	"context"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// scope holds what one reconcile observes.
type scope struct {
	data *infrav1.Metal3Data
	pass *flow.Pass

	// pause is why the data or its Cluster is paused. Empty if neither is.
	pause string

	// claim is the Metal3DataClaim of the data. Nil if it does not exist, or if a later claim has its name.
	claim *infrav1.Metal3DataClaim

	// template is nil if it does not exist.
	template *infrav1.Metal3DataTemplate

	// machine, owner and host are the Metal3Machine of the data, its Machine, and its associated host. Nil if they do
	// not exist.
	machine *infrav1.Metal3Machine
	owner   *clusterv1.Machine
	host    *bmov1alpha1.BareMetalHost

	// rendered is true if all Secrets exist. findSecrets and render set it.
	rendered bool

	// missing are the Secrets to render. findSecrets sets it.
	missing []part

	// empty is the message about missing labels and annotations. Nil unless this reconcile has rendered the meta-data.
	empty *string

	// addresses are the allocated addresses. claimAddresses sets it.
	addresses map[hostdata.Pool]hostdata.Address
}

// claimed returns true while the claim requires the data. The controller of Metal3DataClaims removes its finalizer from
// data that it deletes. The finalizer stays if another client deletes the data.
func (s *scope) claimed() bool {
	return s.claim != nil && s.claim.DeletionTimestamp.IsZero() &&
		(s.data.DeletionTimestamp.IsZero() || controllerutil.ContainsFinalizer(s.data, infrav1.DataClaimFinalizer))
}

func (s *scope) subject() hostdata.Subject {
	return hostdata.Subject{
		Machine: s.owner, Metal3Machine: s.machine, Host: s.host, Index: ptr.Deref(s.data.Spec.Index, 0),
	}
}

// named returns the key of an object in the namespace of the data.
func (s *scope) named(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.data.Namespace, Name: name}
}

func (r *Reconciler) readCluster(ctx context.Context, s *scope) (err error) {
	s.pause, err = flow.PausedWithCluster(ctx, r.Client, s.data)
	return err
}

func (r *Reconciler) readClaim(ctx context.Context, s *scope) error {
	claim, err := flow.Find[infrav1.Metal3DataClaim](ctx, r.Client, s.named(nameOf(s.data.Spec.Claim)))
	if claim != nil && hostdata.Answers(claim, s.data) {
		s.claim = claim
	}
	return err
}

func (r *Reconciler) readTemplate(ctx context.Context, s *scope) (err error) {
	s.template, err = flow.Find[infrav1.Metal3DataTemplate](ctx, r.Client, s.named(nameOf(s.data.Spec.Template)))
	return err
}

func (r *Reconciler) readMachine(ctx context.Context, s *scope) (err error) {
	if s.claim == nil {
		return nil
	}
	name := ""
	for _, owner := range s.claim.OwnerReferences {
		if hostdata.IsInfra(owner, "Metal3Machine") {
			name = cmp.Or(name, owner.Name)
		}
	}
	s.machine, err = flow.Find[infrav1.Metal3Machine](ctx, r.Client, s.named(name))
	if s.machine == nil {
		return err
	}
	s.owner, err = util.GetOwnerMachine(ctx, r.Client, s.machine.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Machine of Metal3Machine %s: %w", name, err)
	}
	return nil
}

// readHost reads the recorded host of the machine, if its consumer is the machine.
func (r *Reconciler) readHost(ctx context.Context, s *scope) error {
	if s.machine == nil {
		return nil
	}
	recorded, err := flow.Find[bmov1alpha1.BareMetalHost](ctx, r.Client, s.named(host.Recorded(s.machine)))
	if recorded == nil {
		return err
	}
	if consumer, isConsumed := host.Consumer(recorded); isConsumed && consumer == s.machine.Name {
		s.host = recorded
	}
	return nil
}

func nameOf(reference *infrav1.Metal3ObjectRef) string {
	return ptr.Deref(reference, infrav1.Metal3ObjectRef{}).Name
}
