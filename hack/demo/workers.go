package main

import (
	"context"
	"fmt"
	"os"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

const (
	// workersCluster is the cluster whose API server answers: it is the management cluster itself.
	workersCluster = "workers"
	workers        = 3
)

// workersManifest is a cluster without a control plane of its own: its machines bring their bootstrap data.
const workersManifest = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: workers, namespace: %[1]s}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3Cluster, name: workers}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: Metal3Cluster
metadata: {name: workers, namespace: %[1]s}
spec:
  controlPlaneEndpoint: {host: 192.0.2.20, port: 6443}
---
apiVersion: v1
kind: Secret
metadata: {name: workers-bootstrap, namespace: %[1]s, labels: {cluster.x-k8s.io/cluster-name: workers}}
type: cluster.x-k8s.io/secret
stringData: {value: "#cloud-config", format: cloud-config}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: Metal3MachineTemplate
metadata: {name: workers, namespace: %[1]s}
spec:
  template:
    spec:
      image:
        url: http://images.example/node.qcow2
        checksum: http://images.example/node.qcow2.sha256sum
        checksumType: sha256
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: workers, namespace: %[1]s}
spec:
  clusterName: workers
  replicas: %[2]d
  selector: {matchLabels: {demo: workers}}
  template:
    metadata: {labels: {demo: workers}}
    spec:
      clusterName: workers
      version: v1.36.0
      bootstrap: {dataSecretName: workers-bootstrap}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: workers}
`

func (p *platform) createWorkers(ctx context.Context) error {
	if err := p.apply(ctx, fmt.Sprintf(workersManifest, namespace, workers)); err != nil {
		return err
	}
	if err := p.giveKubeconfig(ctx); err != nil {
		return err
	}
	p.say("As a kubelet would, a simulated node registers for each host that runs its image, with the UID of the host.")
	return p.until(ctx, "all workers are running", func(seen world) bool {
		p.registerNodes(ctx, seen)
		running := 0
		for _, machine := range seen.machines {
			if machine.Spec.ClusterName == workersCluster && machine.Status.NodeRef.IsDefined() {
				running++
			}
		}
		return running == workers && conditionTrue(seen, infrav1.NodeLinkedCondition) == workers
	})
}

// giveKubeconfig makes the management cluster the workload cluster: its nodes are real objects.
func (p *platform) giveKubeconfig(ctx context.Context) error {
	content, err := os.ReadFile(p.server.Kubeconfig)
	if err != nil {
		return err
	}
	return p.server.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: workersCluster + "-kubeconfig",
			Labels: map[string]string{clusterv1.ClusterNameLabel: workersCluster},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": content},
	})
}

// registerNodes plays the kubelets.
func (p *platform) registerNodes(ctx context.Context, seen world) {
	for _, host := range seen.hosts {
		labels := host.Labels
		if host.Status.Provisioning.State != bmov1alpha1.StateProvisioned ||
			labels[clusterv1.ClusterNameLabel] != workersCluster {
			continue
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: host.Name, Labels: map[string]string{infrav1.HostUIDLabel: string(host.UID)},
		}}
		if err := p.server.Client.Create(ctx, node); err == nil {
			p.say("  %-42s registered", "Node "+node.Name)
		} else if !apierrors.IsAlreadyExists(err) {
			p.say("Registering node %s: %v", node.Name, err)
		}
	}
}
