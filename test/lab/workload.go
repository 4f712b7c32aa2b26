package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/endpoint"
)

// apiAddress is the address of the API server of a cluster.
const apiAddress = "172.22.0.100"

// reconcileEvery is the minimum interval between two reconciles that ReconcileControlPlanes enforces.
const reconcileEvery = 10 * time.Second

// reconcileAnnotation is the annotation that ReconcileControlPlanes changes.
const reconcileAnnotation = "lab.metal3.io/reconcile"

// Template returns the flavour ubuntu for the machines of the lab, for clusterctl generate cluster --from.
func (l *Lab) Template() string { return l.template("plain") }

// TemplateWithIronic returns the flavour ironic for the machines of the lab. Its clusters require ShareIronic. Its
// workers have addresses of an IPPool.
func (l *Lab) TemplateWithIronic() string { return l.template("ironic") }

func (l *Lab) template(name string) string {
	return filepath.Join(l.folder, "cluster-template-"+name+".yaml")
}

// writeTemplates adapts the released templates to the machines of the lab.
func (l *Lab) writeTemplates(ctx context.Context) error {
	for _, name := range []string{"plain", "ironic"} {
		content, err := l.Kustomize(ctx, filepath.Join(l.checkout, "test", "lab", "templates", name),
			"--load-restrictor=LoadRestrictionsNone")
		if err != nil {
			return err
		}
		if err := os.WriteFile(l.template(name), []byte(content), fileMode); err != nil {
			return err
		}
	}
	return nil
}

// CreateCluster creates a cluster of control-plane nodes on hosts of the lab. It does not block until they are ready.
// The cluster takes over the Ironic endpoint only after a handover.
func (l *Lab) CreateCluster(ctx context.Context, name string, controlPlanes int) error {
	if err := l.ShareIronic(ctx); err != nil {
		return err
	}
	manifest, err := l.management.Clusterctl().Run(ctx, "generate", "cluster", name, "--from="+l.TemplateWithIronic(),
		"--target-namespace="+Namespace, "--kubernetes-version="+binaries.KubernetesVersion,
		"--control-plane-machine-count="+strconv.Itoa(controlPlanes), "--worker-machine-count=0")
	if err != nil {
		return err
	}
	_, err = l.management.KubectlWithInput(ctx, strings.NewReader(manifest), "apply", "-f", "-")
	return err
}

// WaitForMachines blocks until a cluster has a number of Machines, and all of them are Running and Available.
func (l *Lab) WaitForMachines(ctx context.Context, cluster string, count int, limit time.Duration) error {
	what := fmt.Sprintf("%d machines of cluster %s are available", count, cluster)
	return l.options.Progress.WaitFor(ctx, what, limit, func(ctx context.Context) error {
		var found clusterv1.MachineList
		if err := l.management.Client.List(ctx, &found, client.InNamespace(Namespace),
			client.MatchingLabels{clusterv1.ClusterNameLabel: cluster}); err != nil {
			return err
		}
		missing := unavailable(found.Items, count)
		if missing == nil {
			return nil
		}
		return errors.Join(missing, l.management.ReconcileControlPlanes(ctx))
	})
}

// ReconcileControlPlanes annotates the KubeadmControlPlanes so that their controller reconciles them, as
// docs/troubleshooting.md tells users to do, see docs/adr/0020-what-the-lab-changes.md. The controller does not watch
// Nodes. After it has seen the unreachable taint, the conditions of the control plane are Unknown until its next
// resync. Source: cluster-api v1.14, kubeadmcontrolplane_controller.go, workload_cluster_conditions.go.
func (c *Cluster) ReconcileControlPlanes(ctx context.Context) error {
	var found controlplanev1.KubeadmControlPlaneList
	if err := c.Client.List(ctx, &found, client.InNamespace(Namespace)); err != nil {
		return fmt.Errorf("listing control planes: %w", err)
	}
	now := time.Now().Truncate(reconcileEvery).UTC().Format(time.RFC3339)
	for i := range found.Items {
		if found.Items[i].Annotations[reconcileAnnotation] == now {
			continue
		}
		before := found.Items[i].DeepCopy()
		metav1.SetMetaDataAnnotation(&found.Items[i].ObjectMeta, reconcileAnnotation, now)
		if err := c.Client.Patch(ctx, &found.Items[i], client.MergeFrom(before)); err != nil {
			return fmt.Errorf("annotating KubeadmControlPlane %s: %w", before.Name, err)
		}
	}
	return nil
}

// unavailable returns an error that names the missing and the unavailable Machines, or nil.
func unavailable(machines []clusterv1.Machine, count int) error {
	var missing []error
	if len(machines) != count {
		missing = append(missing, fmt.Errorf("there are %d machines", len(machines)))
	}
	for _, machine := range machines {
		condition := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.AvailableCondition)
		switch {
		case machine.Status.Phase != string(clusterv1.MachinePhaseRunning):
			missing = append(missing, fmt.Errorf("%s is in phase %s", machine.Name, machine.Status.Phase))
		case condition == nil || condition.Status != metav1.ConditionTrue:
			missing = append(missing, fmt.Errorf("%s runs and is not available yet", machine.Name))
		}
	}
	return errors.Join(missing...)
}

// templateVariables returns the variables of the lab's templates that clusterctl has no arguments for, as NAME=value.
func (l *Lab) templateVariables() []string {
	return []string{
		"CLUSTER_APIENDPOINT_HOST=" + apiAddress, "CLUSTER_APIENDPOINT_INTERFACE=eth0", "SERVICE_CIDR=10.96.0.0/16",
		"CONTAINER_RUNTIME=containerd", "IMAGE_FORMAT=raw",
		"IMAGE_URL=" + bmc.ImageURL(NodeImage), "IMAGE_CHECKSUM=" + bmc.ChecksumURL(NodeImage),
		"IRONIC_CLUSTER_ID=" + IronicClusterID, "IRONIC_ADDRESS=" + IronicAddress, "IRONIC_CIDR=172.22.0.0/24",
		"IRONIC_INTERFACE=eth0", "IRONIC_VRID=" + strconv.Itoa(ironicRouterID),
		"IRONIC_RAMDISK_URL=http://" + ramdiskAddress,
		"IRONIC_IMAGE=" + l.ironicImage, "KEEPALIVED_GUARD_IMAGE=" + endpoint.GuardImageName,
		"RAMDISK_DOWNLOADER_IMAGE=" + endpoint.DownloaderImageName,
	}
}
