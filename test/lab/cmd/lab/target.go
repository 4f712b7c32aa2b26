package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

const (
	// machinesLimit is the time limit for the machines of a new target.
	machinesLimit = 15 * time.Minute

	// readyLimit is the time limit for a Metal3Cluster to report ReadyForMove.
	readyLimit = 5 * time.Minute

	// managerNamespace and managerName identify the Deployment of this provider.
	managerNamespace, managerName = "capm3-system", "capm3-controller-manager"
)

const prepared = `
Cluster %[1]s can be moved to. Management and target:
  export KUBECONFIG=%[2]s
  export TARGET=%[3]s
Look before the move, move, and hand the VIP over:
  go run ./cmd/clusterctl-metal3 pivot preflight --namespace %[4]s --to-kubeconfig $TARGET
  go run ./cmd/clusterctl-metal3 pivot run --namespace %[4]s --to-kubeconfig $TARGET
  go run ./cmd/clusterctl-metal3 pivot handover --namespace %[4]s --to-kubeconfig $TARGET
`

// prepareTarget makes a cluster on hosts of the lab a target for a move, with BMO, Cluster API and this provider, as in
// docs/runbook.md. Ironic comes with spec.ironic. If the cluster has the provider, prepareTarget only waits.
func prepareTarget(running *lab.Lab) prepareFunc {
	return func(ctx context.Context, name string, progress lab.Progress) (string, error) {
		management := running.Management()
		count, err := wantedMachines(ctx, management.Client, name)
		if err != nil {
			return "", err
		}
		progress("waiting for %d machines of cluster %s", count, name)
		if err := running.WaitForMachines(ctx, name, count, machinesLimit); err != nil {
			return "", err
		}
		target, err := running.Workload(ctx, name)
		if err != nil {
			return "", err
		}
		installed := target.Client.Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: managerName},
			&appsv1.Deployment{})
		if client.IgnoreNotFound(installed) != nil {
			return "", fmt.Errorf("reading Deployment %s/%s of cluster %s: %w", managerNamespace, managerName, name, installed)
		}
		if installed != nil {
			progress("installing Cluster API, BMO and this provider on cluster %s", name)
			if err := running.Install(ctx, target, running.Ironic()); err != nil {
				return "", err
			}
		}
		if err := waitReadyForMove(ctx, management.Client, name, progress); err != nil {
			return "", err
		}
		return fmt.Sprintf(prepared, name, management.Kubeconfig, target.Kubeconfig, lab.Namespace), nil
	}
}

// wantedMachines returns the desired number of machines of a cluster.
func wantedMachines(ctx context.Context, reader client.Reader, name string) (int, error) {
	cluster := &clusterv1.Cluster{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: lab.Namespace, Name: name}, cluster); err != nil {
		return 0, fmt.Errorf("reading Cluster %s/%s: %w", lab.Namespace, name, err)
	}
	of := []client.ListOption{client.InNamespace(lab.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name}}
	var controlPlanes controlplanev1.KubeadmControlPlaneList
	if err := reader.List(ctx, &controlPlanes, of...); err != nil {
		return 0, fmt.Errorf("listing control planes of Cluster %s/%s: %w", lab.Namespace, name, err)
	}
	var deployments clusterv1.MachineDeploymentList
	if err := reader.List(ctx, &deployments, of...); err != nil {
		return 0, fmt.Errorf("listing MachineDeployments of Cluster %s/%s: %w", lab.Namespace, name, err)
	}
	count := int32(0)
	for _, each := range controlPlanes.Items {
		count += ptr.Deref(each.Spec.Replicas, 1)
	}
	for _, each := range deployments.Items {
		count += ptr.Deref(each.Spec.Replicas, 1)
	}
	return int(count), nil
}

// waitReadyForMove waits until a Metal3Cluster reports ReadyForMove.
func waitReadyForMove(ctx context.Context, reader client.Reader, name string, progress lab.Progress) error {
	what := fmt.Sprintf("Metal3Cluster %s/%s is ReadyForMove", lab.Namespace, name)
	return progress.WaitFor(ctx, what, readyLimit, func(ctx context.Context) error {
		found := &infrav1.Metal3Cluster{}
		if err := reader.Get(ctx, client.ObjectKey{Namespace: lab.Namespace, Name: name}, found); err != nil {
			return err
		}
		condition := meta.FindStatusCondition(found.Status.Conditions, infrav1.ReadyForMoveCondition)
		switch {
		case condition == nil:
			return fmt.Errorf("condition %s is missing", infrav1.ReadyForMoveCondition)
		case condition.Status != metav1.ConditionTrue:
			return fmt.Errorf("%s: %s", condition.Reason, condition.Message)
		default:
			return nil
		}
	})
}
