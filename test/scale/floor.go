package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

// measureFloor measures the writes of an association by plain clients, without a manager, webhooks and decisions. It
// is the lower limit for any manager with the same writes on the same computer.
func measureFloor(ctx context.Context, size int) (took time.Duration, err error) {
	server, err := env.Start(ctx, env.Options{Definitions: definitions(), Audit: true, WatchCache: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	made, err := prepare(ctx, server.Client, size, size, bmov1alpha1.StateAvailable)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := inParallel(size, func(number int) error { return made.associateByHand(ctx, number) }); err != nil {
		return 0, fmt.Errorf("writing by hand: %w", err)
	}
	return time.Since(start), nil
}

// associateByHand sends the writes of one association with the host of the same number.
func (f *fixture) associateByHand(ctx context.Context, number int) error {
	machine := f.machines[number].DeepCopy()
	if err := f.client.Create(ctx, machine); err != nil {
		return err
	}
	before := machine.DeepCopy()
	build.Finalizers(infrav1.MachineFinalizer)(machine)
	build.Annotations(map[string]string{infrav1.HostAnnotation: machine.Namespace + "/" + hostName(number)})(machine)
	if err := f.client.Patch(ctx, machine, client.MergeFrom(before)); err != nil {
		return err
	}
	host := f.hosts[hostName(number)]
	lock := client.MergeFromWithOptions(&host, client.MergeFromWithOptimisticLock{})
	if err := f.client.Patch(ctx, claimed(host, machine), lock); err != nil {
		return err
	}
	before = machine.DeepCopy()
	for _, condition := range []string{
		infrav1.ReadyCondition, infrav1.PausedCondition, infrav1.HostAssociatedCondition, infrav1.DataReadyCondition,
		infrav1.DataAssociatedCondition, infrav1.HostProvisionedCondition, infrav1.NodeLinkedCondition,
	} {
		meta.SetStatusCondition(&machine.Status.Conditions, metav1.Condition{
			Type: condition, Status: metav1.ConditionTrue, Reason: condition, Message: "Associated BareMetalHost " + host.Name,
		})
	}
	if err := f.client.Status().Patch(ctx, machine, client.MergeFrom(before)); err != nil {
		return err
	}
	return f.client.Create(ctx, announcement(machine))
}

// claimed returns a host after the claim of a machine.
func claimed(host bmov1alpha1.BareMetalHost, by *infrav1.Metal3Machine) *bmov1alpha1.BareMetalHost {
	desired := host.DeepCopy()
	desired.Spec.ConsumerRef = &corev1.ObjectReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: machineKind, Namespace: by.Namespace, Name: by.Name,
	}
	desired.Spec.Image = &bmov1alpha1.Image{
		URL: by.Spec.Image.URL, Checksum: by.Spec.Image.Checksum, ChecksumType: bmov1alpha1.SHA256,
	}
	desired.Spec.UserData = &corev1.SecretReference{Namespace: by.Namespace, Name: by.Name + "-bootstrap"}
	desired.Spec.Online = true
	build.Labels(map[string]string{clusterv1.ClusterNameLabel: clusterName})(desired)
	build.Annotations(map[string]string{infrav1.ReleaseAnnotation: `{"online":false}`})(desired)
	return desired
}

func announcement(about *infrav1.Metal3Machine) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: about.Namespace, Name: about.Name + ".associated"},
		EventTime:           metav1.NowMicro(),
		ReportingController: "example.com/scale",
		ReportingInstance:   "scale",
		Action:              "Reconcile",
		Reason:              infrav1.HostAssociatedReason,
		Type:                corev1.EventTypeNormal,
		Note:                "The machine has a host",
		Regarding: corev1.ObjectReference{
			APIVersion: infrav1.GroupVersion.String(), Kind: machineKind, Namespace: about.Namespace, Name: about.Name,
		},
	}
}
