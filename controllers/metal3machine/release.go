package metal3machine

import (
	"context"
	"fmt"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
)

// controlPlaneGroup is the API group of control-plane providers.
const controlPlaneGroup = "controlplane.cluster.x-k8s.io"

func (r *Reconciler) releaseHost(ctx context.Context, s *scope) (outcome.Outcome, error) {
	reserve, err := r.reservation(ctx, s)
	if err != nil {
		return outcome.Done(), err
	}
	result, err := r.releaseOne(ctx, s, s.host, reserve)
	if err == nil && result.IsDone() {
		// The memory must last until the release is done: the cache may not show the claim yet.
		r.Hosts.Forget(s.key())
	}
	return result, err
}

// releaseSurplus releases the surplus hosts of the machine. It waits for them only while the machine is being deleted.
// Otherwise their events requeue the machine, and a refused release does not stop it.
func (r *Reconciler) releaseSurplus(ctx context.Context, s *scope) (outcome.Outcome, error) {
	reached := outcome.Done()
	for _, surplus := range s.surplus {
		result, err := r.releaseOne(ctx, s, surplus, "")
		switch deleting := !s.machine.DeletionTimestamp.IsZero(); {
		case !deleting && hoststore.IsRefusal(err):
			s.surplusRefused, reached = err, outcome.Done().WithAfter(refusalDelay)
			r.Recorder.Eventf(s.machine, surplus, corev1.EventTypeWarning, "WriteRefused", "Release",
				"The API server refused to release a surplus host: %v", err)
		case err != nil, deleting && !result.IsDone():
			return result, err
		}
	}
	return reached, nil
}

func (r *Reconciler) releaseOne(ctx context.Context, s *scope, claimed *bmov1alpha1.BareMetalHost, reserve string,
) (outcome.Outcome, error) {
	hold, err := r.holdOf(ctx, claimed)
	if err != nil {
		return outcome.Done(), err
	}
	release := host.Release{
		Machine:      s.machine.Name,
		Namespace:    s.machine.Namespace,
		CleaningMode: s.machine.Spec.AutomatedCleaningMode,
		FastTrack:    r.FastTrack,
		Reserve:      reserve,
		Secrets:      s.secretNames(),
		Held:         hold,
	}
	if s.cluster != nil {
		release.Cluster = s.cluster.Name
	}
	step := host.PlanRelease(claimed, release)
	if step.Write == nil {
		if hold != "" {
			// The end of the pause requeues the machine, but not every change of the Clusters that decide about the hold.
			step.Outcome = step.Outcome.WithAfter(time.Minute)
		}
		return step.Outcome, nil
	}
	_, err = r.Hosts.Write(ctx, claimed, step.Write)
	switch {
	case apierrors.IsNotFound(err):
		return outcome.Done(), nil
	case err != nil:
		return outcome.Done(), fmt.Errorf("releasing BareMetalHost %s: %w", claimed.Name, err)
	default:
		return step.Outcome, nil
	}
}

// reservation returns the owner to reserve the host for: the owner of the machine, if the template of its replacement
// has nodeReuse. It returns none while the Cluster or the owner is being deleted.
func (r *Reconciler) reservation(ctx context.Context, s *scope) (string, error) {
	owner := s.reuseOwner()
	if s.host == nil || owner == "" || s.cluster == nil || !s.cluster.DeletionTimestamp.IsZero() {
		return "", nil
	}
	if reuses, err := r.reuses(ctx, s); err != nil || !reuses {
		return "", err
	}
	return owner, nil
}

// reuses returns nodeReuse of the current template of the owner. For a worker, it returns nodeReuse of the template of
// the machine if that template exists. It returns false if there is no next machine.
func (r *Reconciler) reuses(ctx context.Context, s *scope) (bool, error) {
	find := func(name string) (*infrav1.Metal3MachineTemplate, error) {
		return flow.Find[infrav1.Metal3MachineTemplate](ctx, r.Client, s.named(name))
	}
	var template *infrav1.Metal3MachineTemplate
	if controlPlaneOwner(s.owner) == nil {
		// Most workers have no nodeReuse, so the cached template is read before the owner.
		var err error
		template, err = find(s.machine.Annotations[clusterv1.TemplateClonedFromNameAnnotation])
		if err != nil || template != nil && !template.Spec.NodeReuse {
			return false, err
		}
	}
	current, err := r.currentTemplate(ctx, s)
	if err != nil || current == "" {
		return false, err
	}
	if template == nil {
		template, err = find(current)
	}
	return template != nil && template.Spec.NodeReuse, err
}

// currentTemplate returns the template that the owner has for its next machine. Empty if the owner does not exist or is
// being deleted, so that there is no next machine.
func (r *Reconciler) currentTemplate(ctx context.Context, s *scope) (string, error) {
	owner := &unstructured.Unstructured{}
	owner.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineDeployment"))
	key := s.named(s.owner.Labels[clusterv1.MachineDeploymentNameLabel])
	if controlPlane := controlPlaneOwner(s.owner); controlPlane != nil {
		owner.SetAPIVersion(controlPlane.APIVersion)
		owner.SetKind(controlPlane.Kind)
		key.Name = controlPlane.Name
	}
	err := r.Live.Get(ctx, key, owner)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading %s %s: %w", owner.GetKind(), key.Name, err)
	case owner.GetDeletionTimestamp() != nil:
		return "", nil
	}
	for _, path := range [][]string{
		{"spec", "machineTemplate", "spec", "infrastructureRef", "name"},
		{"spec", "machineTemplate", "infrastructureRef", "name"},
		{"spec", "infrastructureRef", "name"},
		{"spec", "template", "spec", "infrastructureRef", "name"},
	} {
		if name, found, err := unstructured.NestedString(owner.Object, path...); err == nil && found {
			return name, nil
		}
	}
	return s.machine.Annotations[clusterv1.TemplateClonedFromNameAnnotation], nil
}

// holdOf returns the reason why a host of a deleted machine stays paused. It reads Clusters only for a paused host.
func (r *Reconciler) holdOf(ctx context.Context, current *bmov1alpha1.BareMetalHost) (string, error) {
	if current == nil {
		return "", nil
	}
	if _, paused := current.Annotations[bmov1alpha1.PausedAnnotation]; !paused {
		return "", nil
	}
	around, err := r.Clusters.Neighbours(ctx, current.Namespace)
	if err != nil {
		return "", err
	}
	return pivot.HoldOf(current, around), nil
}
