package metal3cluster

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// caresForMove says whether it matters now if the cluster could be moved.
func (s *scope) caresForMove() bool { return s.cluster != nil && s.infra.DeletionTimestamp.IsZero() }

// readMove reads what decides whether the namespace can be moved. It asks the cache.
func (r *Reconciler) readMove(ctx context.Context, s *scope) error {
	if !s.caresForMove() {
		return nil
	}
	var err error
	if s.move.Hosts, err = r.Hosts.Hosts(ctx, s.infra.Namespace); err != nil {
		return err
	}
	if s.move.Around, err = r.Hosts.Neighbours(ctx, s.infra.Namespace); err != nil {
		return err
	}
	if s.paused {
		return nil
	}
	var machines clusterv1.MachineList
	here := client.InNamespace(s.infra.Namespace)
	if err := r.Client.List(ctx, &machines, here, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Machines: %w", err)
	}
	for i := range machines.Items {
		s.move.AddMachine(&machines.Items[i])
	}
	var remediations infrav1.Metal3RemediationList
	if err := r.Client.List(ctx, &remediations, here, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Metal3Remediations: %w", err)
	}
	for i := range remediations.Items {
		s.move.Remediations = append(s.move.Remediations, remediations.Items[i].Name)
	}
	return r.readMoveLabels(ctx, s)
}

// readMoveLabels finds the CRDs that clusterctl would leave out. It asks the cache.
func (r *Reconciler) readMoveLabels(ctx context.Context, s *scope) error {
	var definitions metav1.PartialObjectMetadataList
	definitions.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
	if err := r.Client.List(ctx, &definitions, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing CustomResourceDefinitions: %w", err)
	}
	for i := range definitions.Items {
		s.move.AddDefinition(definitions.Items[i].Name, definitions.Items[i].Labels)
	}
	return nil
}

// keepGate makes clusterctl move wait for this controller. It counts only if it is there before the Cluster is paused.
func keepGate(_ context.Context, s *scope) (outcome.Outcome, error) {
	metav1.SetMetaDataAnnotation(&s.infra.ObjectMeta, infrav1.BlockMoveAnnotation, "")
	return outcome.Done(), nil
}

// openGate lets clusterctl move go on once every host that moves is quiet, paused and recorded.
func (r *Reconciler) openGate(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.cluster == nil || !ptr.Deref(s.cluster.Spec.Paused, false) {
		return outcome.Done(), nil
	}
	if waits := pivot.NotParked(s.move); len(waits) > 0 {
		return s.record(infrav1.ReadyForMoveCondition, outcome.Waiting(infrav1.WaitingForHostsReason,
			"The move waits: "+pivot.Enumerate(waits))), nil
	}
	if err := r.tellIronic(ctx, s, true); err != nil {
		return outcome.Done(), err
	}
	delete(s.infra.Annotations, infrav1.BlockMoveAnnotation)
	return s.record(infrav1.ReadyForMoveCondition, outcome.Done()), nil
}

// takeBackHandover lets the Ironic of the management cluster take the address again: the cluster is here, and runs.
func (r *Reconciler) takeBackHandover(ctx context.Context, s *scope) (outcome.Outcome, error) {
	return outcome.Done(), r.tellIronic(ctx, s, false)
}

func (r *Reconciler) tellIronic(ctx context.Context, s *scope, handedOver bool) error {
	if s.infra.Spec.Ironic == nil || s.infra.Spec.Ironic.ClusterID == "" {
		return nil
	}
	return r.Handover.Tell(ctx, s.infra.Spec.Ironic.ClusterID, handedOver)
}
