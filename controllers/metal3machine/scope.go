package metal3machine

import (
	"context"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/labels/format"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// scope is what one reconcile knows.
type scope struct {
	machine *infrav1.Metal3Machine
	pass    *flow.Pass

	// owner is the Machine. Nil until Cluster API has set the owner reference.
	owner *clusterv1.Machine

	// cluster is the Cluster. Nil until the Machine names one, and when it is gone.
	cluster *clusterv1.Cluster

	// infra is the Metal3Cluster. Nil when there is none of the name that the Cluster refers to.
	infra *infrav1.Metal3Cluster

	// paused says that the machine or its Cluster is paused.
	paused bool

	// host is the host that carries the machine as consumer. Nil when there is none.
	host *bmov1alpha1.BareMetalHost

	// surplus are further hosts that carry the machine as consumer.
	surplus []*bmov1alpha1.BareMetalHost

	// bootstrap says what is known of the bootstrap data.
	bootstrap bootstrapData

	// claim and data are the objects that answer spec.dataTemplate. Nil when they do not exist.
	claim *infrav1.Metal3DataClaim
	data  *infrav1.Metal3Data

	// reached holds the outcome of the phase that each condition reports. A condition without one keeps its state.
	reached map[string]outcome.Outcome

	// claimed is the choice behind a claim that was made in this reconcile. Without a host when none was made.
	claimed host.Choice

	// waits says that the machine waits for a host to become free.
	waits bool
}

// bootstrapData is what is known of the Secret that the Machine names.
type bootstrapData struct {
	// name of the Secret. Nil until the Machine names one; empty when the Machine wants no bootstrap data.
	name *string

	// found says that the Secret exists, hasValue that it has the key value.
	found, hasValue bool
}

func (s *scope) record(condition string, result outcome.Outcome) outcome.Outcome {
	s.reached[condition] = result
	return result
}

func (s *scope) key() client.ObjectKey { return client.ObjectKeyFromObject(s.machine) }

// providerID is the one that the machine carries, or the one that it will get on its host.
func (s *scope) providerID() string {
	if s.machine.Spec.ProviderID != "" {
		return s.machine.Spec.ProviderID
	}
	return host.ProviderID(s.machine.Namespace, s.host.Name, s.machine.Name)
}

func (s *scope) cleaningMode() string { return s.machine.Spec.AutomatedCleaningMode }

// failureDomain is where the host should stand: the Machine decides, the Metal3Machine only where the Machine is
// silent.
func (s *scope) failureDomain() string {
	if s.owner.Spec.FailureDomain != "" {
		return s.owner.Spec.FailureDomain
	}
	return s.machine.Spec.FailureDomain
}

// reuseOwner is the value of the node-reuse label for the owner of the Machine.
//
//	owner of the Machine                      value
//	a control plane, with or without others   "cp-" and its name
//	a MachineDeployment                       "md-" and its name
//	none that would replace it                empty
//
// What is no value of a label, because the name is too long, gives way to its hash, as in the labels of Cluster API.
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
		name = owner.Spec.ClusterName
	}
	if name == "" {
		s.paused = flow.Paused(nil, s.machine)
		return nil
	}
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.machine.Namespace, Name: name}, cluster); err == nil {
		s.cluster = cluster
	} else if !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading Cluster %s: %w", name, err)
	}
	s.paused = flow.Paused(s.cluster, s.machine)
	return r.readInfrastructure(ctx, s)
}

func (r *Reconciler) readInfrastructure(ctx context.Context, s *scope) error {
	if s.cluster == nil || !s.cluster.Spec.InfrastructureRef.IsDefined() {
		return nil
	}
	infra := &infrav1.Metal3Cluster{}
	key := client.ObjectKey{Namespace: s.machine.Namespace, Name: s.cluster.Spec.InfrastructureRef.Name}
	err := r.Client.Get(ctx, key, infra)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading Metal3Cluster %s: %w", key.Name, err)
	}
	s.infra = infra
	return nil
}

func (r *Reconciler) readHost(ctx context.Context, s *scope) error {
	holdings, err := r.Hosts.Holdings(ctx, s.key(), recordedHost(s.machine))
	if err != nil {
		return err
	}
	s.host, s.surplus = holdings.Host, holdings.Surplus
	return nil
}

func (r *Reconciler) readBootstrapData(ctx context.Context, s *scope) error {
	if s.owner == nil {
		return nil
	}
	s.bootstrap.name = s.owner.Spec.Bootstrap.DataSecretName
	if ptr.Deref(s.bootstrap.name, "") == "" || s.host != nil && isImaged(s.host) {
		return nil
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.machine.Namespace, Name: *s.bootstrap.name}
	err := r.Secrets.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		// Not every bootstrap provider labels its Secrets for the cache.
		err = r.Live.Get(ctx, key, secret)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading bootstrap data Secret %s: %w", key.Name, err)
	}
	s.bootstrap.found = true
	_, s.bootstrap.hasValue = secret.Data[valueKey]
	return nil
}

func (r *Reconciler) readData(ctx context.Context, s *scope) error {
	if s.machine.Spec.DataTemplate == nil && s.machine.Status.RenderedData == nil {
		return nil
	}
	claim := &infrav1.Metal3DataClaim{}
	if err := r.Client.Get(ctx, s.key(), claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.claim = claim
	if claim.Status.RenderedData == nil {
		return nil
	}
	data := &infrav1.Metal3Data{}
	key := client.ObjectKey{Namespace: s.machine.Namespace, Name: claim.Status.RenderedData.Name}
	if err := r.Client.Get(ctx, key, data); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.data = data
	return nil
}

// recordedHost is the name of the host that the machine has recorded. Empty when it recorded none.
func recordedHost(machine *infrav1.Metal3Machine) string {
	_, name := splitHostAnnotation(machine.Annotations[infrav1.HostAnnotation])
	return name
}

func isImaged(h *bmov1alpha1.BareMetalHost) bool {
	return h.Spec.Image != nil || h.Spec.CustomDeploy != nil
}
