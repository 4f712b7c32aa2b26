package metal3machine

import (
	"context"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/labels/format"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// scope holds what one reconcile observes.
type scope struct {
	machine *infrav1.Metal3Machine
	pass    *flow.Pass

	// owner is the Machine. Nil before Cluster API sets the ownerReference.
	owner *clusterv1.Machine

	// cluster is the Cluster. Nil if it does not exist.
	cluster *clusterv1.Cluster

	// infra is the Metal3Cluster. Nil if it does not exist.
	infra *infrav1.Metal3Cluster

	// pause is why the machine or its Cluster is paused. Empty if neither is.
	pause string

	// host is the host with the machine as consumer. Nil if there is none.
	host *bmov1alpha1.BareMetalHost

	// recorded is the recorded host of a machine without a host. Nil if it does not exist.
	recorded *bmov1alpha1.BareMetalHost

	// surplus are further hosts with the machine as consumer.
	surplus []*bmov1alpha1.BareMetalHost

	bootstrap bootstrapData

	// claim and data are the objects of the machine for spec.dataTemplate. Nil if they do not exist.
	claim *infrav1.Metal3DataClaim
	data  *infrav1.Metal3Data

	// obstacle is a Metal3DataClaim with the name of the machine whose data the machine must not use, see ownsData. Nil if
	// there is none.
	obstacle *infrav1.Metal3DataClaim

	// claimed is the choice of the claim that this reconcile wrote. Its host is nil if there was none.
	claimed host.Choice

	// ownersRefused is the error of the removal of ownerReferences from the host. Nil if it did not fail.
	ownersRefused error

	// surplusRefused is the error of the last refused release of a surplus host. Nil if none was refused.
	surplusRefused error

	// waits is true if the machine waits for an available host.
	waits bool
}

// bootstrapData describes the bootstrap data Secret of the Machine.
type bootstrapData struct {
	// name of the Secret. Nil before the bootstrap provider sets it, empty if the Machine has no bootstrap data.
	name *string

	// found is true if the Secret exists, hasValue if it has the key value. Both are read while the host has no image.
	found, hasValue bool
}

func (s *scope) key() client.ObjectKey { return client.ObjectKeyFromObject(s.machine) }

// named returns the key of an object in the namespace of the machine.
func (s *scope) named(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.machine.Namespace, Name: name}
}

// isManagedElsewhere returns true if another management cluster manages the Cluster. Its hosts are paused here. Changes
// of them would take effect if this management cluster took over.
func (s *scope) isManagedElsewhere() bool { return pivot.IsSuperseded(s.infra) }

// isStopped returns true if the controller must not act on the machine.
func (s *scope) isStopped() bool { return s.pause != "" || s.isManagedElsewhere() }

// providerID returns the provider ID of the machine, or the future one for its host.
func (s *scope) providerID() string {
	if s.machine.Spec.ProviderID != "" {
		return s.machine.Spec.ProviderID
	}
	return host.ProviderID(s.machine.Namespace, s.host.Name, s.machine.Name)
}

// failureDomain returns the failure domain of the Machine, or else that of the Metal3Machine.
func (s *scope) failureDomain() string {
	if s.owner.Spec.FailureDomain != "" {
		return s.owner.Spec.FailureDomain
	}
	return s.machine.Spec.FailureDomain
}

// reuseOwner returns the value of the node-reuse label for the owner of the Machine.
//
//	owner of the Machine   value
//	a control plane        "cp-" and its name
//	a MachineDeployment    "md-" and its name
//	any other              empty
//
// A name that is too long for a label value is replaced by its hash, as in the labels of Cluster API.
func (s *scope) reuseOwner() string {
	if s.owner == nil {
		return ""
	}
	if owner := controlPlaneOwner(s.owner); owner != nil {
		return format.MustFormatValue("cp-" + owner.Name)
	}
	if deployment := s.owner.Labels[clusterv1.MachineDeploymentNameLabel]; deployment != "" {
		return format.MustFormatValue("md-" + deployment)
	}
	return ""
}

func (r *Reconciler) readOwners(ctx context.Context, s *scope) error {
	owner, err := util.GetOwnerMachine(ctx, r.Client, s.machine.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Machine of %s: %w", s.machine.Name, err)
	}
	s.owner = owner
	name := s.machine.Labels[clusterv1.ClusterNameLabel]
	if owner != nil {
		name, s.bootstrap.name = owner.Spec.ClusterName, owner.Spec.Bootstrap.DataSecretName
	}
	if s.cluster, err = flow.Find[clusterv1.Cluster](ctx, r.Client, s.named(name)); err != nil {
		return err
	}
	s.pause = flow.Paused(s.cluster, s.machine)
	if s.cluster != nil {
		s.infra, err = flow.Find[infrav1.Metal3Cluster](ctx, r.Client, s.named(s.cluster.Spec.InfrastructureRef.Name))
	}
	return err
}

func (r *Reconciler) readHost(ctx context.Context, s *scope) error {
	name := host.Recorded(s.machine)
	holdings, err := r.Hosts.Holdings(ctx, s.key(), name)
	if err != nil {
		return err
	}
	s.host, s.surplus = holdings.Host, holdings.Surplus
	if s.host != nil {
		return nil
	}
	s.recorded, err = flow.Find[bmov1alpha1.BareMetalHost](ctx, r.Client, s.named(name))
	return err
}

func (r *Reconciler) readData(ctx context.Context, s *scope) error {
	if s.machine.Spec.DataTemplate == nil && s.machine.Status.RenderedData == nil {
		return nil
	}
	claim, err := flow.Find[infrav1.Metal3DataClaim](ctx, r.Client, s.key())
	if claim == nil {
		return err
	}
	if !ownsData(s.machine, claim) {
		s.obstacle = claim
		return nil
	}
	s.claim = claim
	if claim.Status.RenderedData == nil {
		return nil
	}
	s.data, err = flow.Find[infrav1.Metal3Data](ctx, r.Client, s.named(claim.Status.RenderedData.Name))
	return err
}

// ownsData returns true if the machine may use the data of a claim with its name.
//
//	claim                                          the machine may use its data
//	has another controller, or none                no: a deleted machine with the same name may have created it
//	is not being deleted                           yes
//	is being deleted, with the machine's finalizer  yes: the data exists until the machine removes the finalizer
//	is being deleted, without that finalizer       no: another machine may get the index and the addresses
func ownsData(machine *infrav1.Metal3Machine, claim *infrav1.Metal3DataClaim) bool {
	return metav1.IsControlledBy(claim, machine) &&
		(claim.DeletionTimestamp.IsZero() || controllerutil.ContainsFinalizer(claim, infrav1.MachineFinalizer))
}
