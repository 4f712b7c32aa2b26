package v1beta2

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/departure"
)

// WithArrivals adds rules to a validator of Metal3Clusters. It refuses a Metal3Cluster that clusterctl writes while
// objects of an earlier move remain that the source does not have any more, or if this management cluster managed it
// later. It also refuses to create a Metal3Cluster that moved away.
//
// clusterctl repeats the write for some minutes and then fails. It has deleted nothing in the source by then. A later
// rejection is impossible: clusterctl unpauses the Cluster itself, and Cluster API acts at once.
func WithArrivals(
	validator admission.Validator[*infrav1.Metal3Cluster], reader client.Reader,
) admission.Validator[*infrav1.Metal3Cluster] {
	return arrivals{validator, reader}
}

// arrivals validates Metal3Clusters that clusterctl writes.
type arrivals struct {
	admission.Validator[*infrav1.Metal3Cluster]
	reader client.Reader
}

// ValidateCreate implements admission.Validator.
func (a arrivals) ValidateCreate(ctx context.Context, infra *infrav1.Metal3Cluster) (admission.Warnings, error) {
	left, err := departure.Of(ctx, a.reader, infra.Namespace)
	if err != nil {
		return nil, err
	}
	if refusal := left.InfraRefusal(infra); refusal != "" {
		return nil, forbid(infra, refusal)
	}
	if pivot.Arrives(nil, infra) {
		if err := a.compare(ctx, infra); err != nil {
			return nil, err
		}
	}
	return a.Validator.ValidateCreate(ctx, infra)
}

// ValidateUpdate implements admission.Validator.
func (a arrivals) ValidateUpdate(
	ctx context.Context, before, after *infrav1.Metal3Cluster,
) (admission.Warnings, error) {
	if pivot.Arrives(before, after) {
		if here, arriving := pivot.EpochOf(before), pivot.EpochOf(after); arriving < here {
			return nil, forbid(after, fmt.Sprintf("move epoch %s is here and %s arrives, so this management cluster managed "+
				"the Cluster last: unpause the Cluster here, and see pivot status of the source", here, arriving))
		}
		if err := a.compare(ctx, after); err != nil {
			return nil, err
		}
	}
	return a.Validator.ValidateUpdate(ctx, before, after)
}

// compare returns an error if the Cluster has objects here that do not arrive, or that are being deleted.
func (a arrivals) compare(ctx context.Context, infra *infrav1.Metal3Cluster) error {
	arriving, err := pivot.InventoryOf(infra)
	if err != nil {
		return forbid(infra, err.Error())
	}
	here, deleted := pivot.Inventory{}, pivot.Inventory{}
	enter := func(kind string, object metav1.Object) {
		here.Add(kind, object.GetName())
		if !object.GetDeletionTimestamp().IsZero() {
			deleted.Add(kind, object.GetName())
		}
	}
	if err := a.enterCluster(ctx, infra, arriving, enter); err != nil {
		return err
	}
	for _, wanted := range []schema.GroupVersionKind{
		clusterv1.GroupVersion.WithKind("Machine"), clusterv1.GroupVersion.WithKind("MachineSet"),
		clusterv1.GroupVersion.WithKind("MachineDeployment"), infrav1.GroupVersion.WithKind("Metal3Machine"),
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(wanted.GroupVersion().WithKind(wanted.Kind + "List"))
		if err := a.reader.List(ctx, list, client.InNamespace(infra.Namespace),
			client.MatchingLabels{clusterv1.ClusterNameLabel: clusterOf(infra)}); err != nil {
			return fmt.Errorf("listing %ss: %w", wanted.Kind, err)
		}
		for i := range list.Items {
			enter(wanted.Kind, &list.Items[i])
		}
	}
	if revived := pivot.Revived(infra.Namespace, arriving, here, deleted); revived != "" {
		return forbid(infra, revived)
	}
	return nil
}

// forbid returns an error with a text for users.
func forbid(infra *infrav1.Metal3Cluster, why string) error {
	kind := infrav1.GroupVersion.WithResource("metal3clusters").GroupResource()
	return apierrors.NewForbidden(kind, infra.Name, errors.New(why)) //nolint:err113 // It is a text for people.
}

// enterCluster adds the arriving Metal3Cluster and its Cluster.
func (a arrivals) enterCluster(
	ctx context.Context, infra *infrav1.Metal3Cluster, arriving pivot.Inventory, enter func(string, metav1.Object),
) error {
	arriving.Add("Metal3Cluster", infra.Name)
	enter("Metal3Cluster", infra)
	cluster := &clusterv1.Cluster{}
	key := client.ObjectKey{Namespace: infra.Namespace, Name: clusterOf(infra)}
	switch err := a.reader.Get(ctx, key, cluster); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading Cluster %s: %w", key, err)
	}
	arriving.Add(clusterv1.ClusterKind, cluster.Name)
	enter(clusterv1.ClusterKind, cluster)
	return nil
}

// clusterOf returns the name of the Cluster of a Metal3Cluster.
func clusterOf(infra *infrav1.Metal3Cluster) string {
	for _, owner := range infra.OwnerReferences {
		if owner.Kind == clusterv1.ClusterKind {
			return owner.Name
		}
	}
	return infra.Labels[clusterv1.ClusterNameLabel]
}
