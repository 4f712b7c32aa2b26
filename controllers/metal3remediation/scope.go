package metal3remediation

import (
	"context"
	"fmt"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// scope holds what one reconcile observes.
type scope struct {
	request *infrav1.Metal3Remediation
	pass    *flow.Pass

	// record is the progress of the remediation, including the steps of this reconcile.
	record remediation.Record

	// grace is the time for which the try continues after its timeout.
	grace time.Duration

	// limits are the limits of the strategy. strategy is blocked if the strategy is invalid.
	limits   remediation.Limits
	strategy outcome.Outcome

	// owner is the Machine. Nil if it does not exist, or if the Metal3Remediation has no owner.
	owner *clusterv1.Machine

	// cluster is the Cluster. Nil if it does not exist.
	cluster *clusterv1.Cluster

	// pause is why the Metal3Remediation, its Machine or its Cluster is paused. Empty if none is.
	pause string

	// infra is the Metal3Cluster. Nil if it does not exist.
	infra *infrav1.Metal3Cluster

	// machine is the Metal3Machine. Nil if it does not exist.
	machine *infrav1.Metal3Machine

	// host is the host with the Metal3Machine as consumer. Nil if there is none.
	host *bmov1alpha1.BareMetalHost

	// lostHost is the name of the recorded host if it was deleted. Empty otherwise.
	lostHost string
}

func newScope(request *infrav1.Metal3Remediation, pass *flow.Pass) *scope {
	s := &scope{request: request, pass: pass, record: remediation.Recall(request)}
	s.limits, s.strategy = remediation.LimitsOf(request.Spec.Strategy)
	return s
}

// save stores the record before a step that depends on it.
func (s *scope) save(ctx context.Context) error {
	if err := s.record.Store(s.request); err != nil {
		return fmt.Errorf("recording the progress of Metal3Remediation %s: %w", s.request.Name, err)
	}
	return s.pass.Save(ctx)
}

// isKept returns true if Machine and Cluster exist and are not being deleted.
func (s *scope) isKept() bool {
	return s.owner != nil && s.owner.DeletionTimestamp.IsZero() &&
		s.cluster != nil && s.cluster.DeletionTimestamp.IsZero()
}

// unhealthy returns true while a MachineHealthCheck reports the Machine as unhealthy.
func (s *scope) unhealthy() bool {
	return conditions.IsFalse(s.owner, clusterv1.MachineHealthCheckSucceededCondition)
}

// isStopped returns true if the controller must not act on the remediation.
func (s *scope) isStopped() bool { return s.pause != "" || s.isManagedElsewhere() }

// isManagedElsewhere returns true if another management cluster manages the Cluster.
func (s *scope) isManagedElsewhere() bool { return pivot.IsSuperseded(s.infra) }

func (s *scope) left(now time.Time) time.Duration { return s.record.Left(s.limits.Timeout, now) }

func (s *scope) clusterKey() client.ObjectKey { return client.ObjectKeyFromObject(s.cluster) }

func (r *Reconciler) readOwner(ctx context.Context, s *scope) error {
	owner, err := util.GetOwnerMachine(ctx, r.Client, s.request.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Machine of Metal3Remediation %s: %w", s.request.Name, err)
	}
	s.owner = owner
	return nil
}

func (r *Reconciler) readCluster(ctx context.Context, s *scope) (err error) {
	name := s.request.Labels[clusterv1.ClusterNameLabel]
	if s.owner != nil {
		name = s.owner.Spec.ClusterName
	}
	if s.cluster, err = flow.Find[clusterv1.Cluster](ctx, r.Client, s.named(name)); err != nil {
		return err
	}
	s.pause = flow.Paused(s.cluster, s.request)
	if s.owner != nil {
		s.pause = flow.Paused(s.cluster, s.request, s.owner)
	}
	if s.cluster != nil {
		s.infra, err = flow.Find[infrav1.Metal3Cluster](ctx, r.Client, s.named(s.cluster.Spec.InfrastructureRef.Name))
	}
	return err
}

func (r *Reconciler) readMachine(ctx context.Context, s *scope) (err error) {
	if s.owner == nil || s.owner.Spec.InfrastructureRef.Kind != host.MachineKind {
		return nil
	}
	s.machine, err = flow.Find[infrav1.Metal3Machine](ctx, r.Client, s.named(s.owner.Spec.InfrastructureRef.Name))
	return err
}

func (r *Reconciler) readHost(ctx context.Context, s *scope) error {
	if s.machine == nil {
		return nil
	}
	holdings, err := r.Hosts.Holdings(ctx, client.ObjectKeyFromObject(s.machine), host.Recorded(s.machine))
	s.host = holdings.Host
	if err != nil || s.host != nil {
		return err
	}
	recorded := host.Recorded(s.machine)
	existing, err := flow.Find[bmov1alpha1.BareMetalHost](ctx, r.Live, s.named(recorded))
	if err == nil && (existing == nil || remediation.IsReplaced(existing, s.machine)) {
		s.lostHost = recorded
	}
	return err
}

func (s *scope) subject() remediation.Subject {
	return remediation.Subject{
		Owner: s.owner, OwnerName: remediation.MachineOf(s.request), ClusterFound: s.cluster != nil,
		Machine: s.machine, Host: s.host, LostHost: s.lostHost,
		Unhealthy: s.owner != nil && s.unhealthy(), Withheld: withheld(s.host),
	}
}

// named returns the key of an object in the namespace of the remediation.
func (s *scope) named(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.request.Namespace, Name: name}
}
