package metal3machine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3machine"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// provision starts the manager and creates a machine with a provisioned host.
func (w *world) provision(ctx context.Context) {
	GinkgoHelper()
	w.start()
	w.machine(ctx, "machine")
	w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsTrueBecause(infrav1.HostProvisionedReason))
}

// countedNodes count the passes that look for a Node.
type countedNodes struct {
	metal3machine.Nodes
	finds atomic.Int32
}

func (n *countedNodes) Find(
	ctx context.Context, cluster types.NamespacedName, query workload.Query,
) (host.NodeFacts, error) {
	n.finds.Add(1)
	return n.Nodes.Find(ctx, cluster, query)
}

// describeLinks are the stories about a machine with a provisioned host, and its Node. The API server of the story is
// also that of the workload cluster.
func describeLinks(s *suite) {
	// provisioned returns a world with a machine on a provisioned host.
	provisioned := func(ctx context.Context, options ...build.Metal3ClusterOption) *world {
		GinkgoHelper()
		w := s.connectedWorld(ctx, options...)
		w.host(ctx, "host")
		w.provision(ctx)
		return w
	}
	linked := func(ctx context.Context, w *world) {
		GinkgoHelper()
		w.eventually(ctx, "machine", infrav1.NodeLinkedCondition, stage.IsTrueBecause(infrav1.NodeLinkedReason))
		w.eventually(ctx, "machine", infrav1.ReadyCondition, stage.IsTrueBecause(infrav1.ReadyReason))
		machine := w.getMachine(ctx, Default, "machine")
		Expect(machine.Spec.ProviderID).To(Equal(w.providerID("host", "machine")))
		Expect(machine.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	}
	waitsForNode := func(ctx context.Context, w *world, reason string) {
		GinkgoHelper()
		w.eventually(ctx, "machine", infrav1.NodeLinkedCondition,
			stage.IsFalseBecause(reason, "provider ID "+w.providerID("host", "machine")))
		machine := w.getMachine(ctx, Default, "machine")
		Expect(machine.Spec.ProviderID).To(BeEmpty())
		Expect(machine.Status.Initialization.Provisioned).To(BeNil())
	}

	stops := func(ctx context.Context, w *world) {
		GinkgoHelper()
		w.eventually(ctx, "machine", infrav1.NodeLinkedCondition, stage.IsFalseBecause(infrav1.ProviderIDConflictReason,
			"Metal3Machine "+w.namespace+"/copy has the same spec.providerID "))
	}

	It("is not reconciled when Cluster API copies its conditions into the Machine", func(ctx context.Context) {
		w := s.connectedWorld(ctx)
		counted := &countedNodes{}
		w.nodes = func(nodes metal3machine.Nodes) metal3machine.Nodes {
			counted.Nodes = nodes
			return counted
		}
		w.host(ctx, "host")
		w.provision(ctx)
		w.node(ctx, "node", w.providerID("host", "machine"), nil)
		linked(ctx, w)
		w.untouched(ctx, "machine", "host")
		before := counted.finds.Load()
		changeStatus(ctx, w, "machine", &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
			conditions.Set(machine, metav1.Condition{
				Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready",
			})
		})
		Consistently(counted.finds.Load).Should(Equal(before))
		changeStatus(ctx, w, "machine", &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
			machine.Status.NodeRef.Name = "node"
		})
		Eventually(counted.finds.Load).Should(BeNumerically(">", before))
	})

	It("is ready when a Node has its provider ID", func(ctx context.Context) {
		w := provisioned(ctx)
		waitsForNode(ctx, w, infrav1.WaitingForNodeReason)
		w.node(ctx, "node", w.providerID("host", "machine"), nil)
		linked(ctx, w)
	})

	It("sets its provider ID on the Node with the UID of its host", func(ctx context.Context) {
		w := provisioned(ctx)
		host := w.getHost(ctx, Default, "host")
		node := w.node(ctx, "node", "", map[string]string{infrav1.HostUIDLabel: string(host.UID)})
		linked(ctx, w)
		Expect(w.nodeID(ctx, node)).To(Equal(w.providerID("host", "machine")))
	})

	// stale returns a world with a machine on a provisioned host, and a Node of an earlier system of the host.
	stale := func(ctx context.Context) (*world, *corev1.Node) {
		GinkgoHelper()
		w := s.connectedWorld(ctx)
		host := w.host(ctx, "host")
		node := w.node(ctx, "stale", "", map[string]string{infrav1.HostUIDLabel: string(host.UID)})
		w.setNodeReady(ctx, node, corev1.ConditionUnknown)
		// Timestamps have whole seconds.
		Eventually(time.Now).Should(BeTemporally(">=", node.CreationTimestamp.Add(time.Second)))
		w.provision(ctx)
		w.eventually(ctx, "machine", infrav1.NodeLinkedCondition,
			stage.IsFalseBecause(infrav1.WaitingForNodeReason, "If this lasts, delete Node "+node.Name+"."))
		Expect(w.nodeID(ctx, node)).To(BeEmpty())
		waitsForNode(ctx, w, infrav1.WaitingForNodeReason)
		return w, node
	}

	It("ignores a Node with the UID of its host that is older than its system", func(ctx context.Context) {
		w, old := stale(ctx)
		host := w.getHost(ctx, Default, "host")
		node := w.node(ctx, "node", "", map[string]string{infrav1.HostUIDLabel: string(host.UID)})
		linked(ctx, w)
		Expect(w.nodeID(ctx, node)).To(Equal(w.providerID("host", "machine")))
		Expect(w.nodeID(ctx, old)).To(BeEmpty())
	})

	It("sets its provider ID on an older Node with the UID of its host when its kubelet updates the Node",
		func(ctx context.Context) {
			w, node := stale(ctx)
			w.setNodeReady(ctx, node, corev1.ConditionFalse)
			linked(ctx, w)
			Expect(w.nodeID(ctx, node)).To(Equal(w.providerID("host", "machine")))
		})

	It("sets its provider ID on the Node with the host name of its host", func(ctx context.Context) {
		w := provisioned(ctx)
		node := w.node(ctx, "node", "", map[string]string{corev1.LabelHostname: "unknown"})
		waitsForNode(ctx, w, infrav1.WaitingForNodeReason)
		before := node.DeepCopy()
		node.Labels[corev1.LabelHostname] = "host"
		Expect(w.client.Patch(ctx, node, client.MergeFrom(before))).To(Succeed())
		linked(ctx, w)
		Expect(w.nodeID(ctx, node)).To(Equal(w.providerID("host", "machine")))
	})

	It("ignores a Node with the host name of its host and the UID of another host", func(ctx context.Context) {
		w := s.connectedWorld(ctx)
		w.host(ctx, "host")
		other := w.host(ctx, "other", build.Consumed(build.Metal3Machine("neighbour", "cluster")))
		w.provision(ctx)
		shifted := w.node(ctx, "shifted", "", map[string]string{
			corev1.LabelHostname: "host", infrav1.HostUIDLabel: string(other.UID),
		})
		Consistently(func(g Gomega) { g.Expect(w.nodeID(ctx, shifted)).To(BeEmpty()) }).Should(Succeed())
		waitsForNode(ctx, w, infrav1.WaitingForNodeReason)
		node := w.node(ctx, "node", "", map[string]string{
			corev1.LabelHostname: "third", infrav1.HostUIDLabel: string(w.getHost(ctx, Default, "host").UID),
		})
		linked(ctx, w)
		Expect(w.nodeID(ctx, node)).To(Equal(w.providerID("host", "machine")))
		Expect(w.nodeID(ctx, shifted)).To(BeEmpty())
	})

	// ignores expects no provider ID on a Node with the host name of the host, which then belongs to another machine.
	ignores := func(ctx context.Context, w *world) {
		GinkgoHelper()
		unrelated := w.node(ctx, "unrelated", "", map[string]string{corev1.LabelHostname: "host"})
		Consistently(func(g Gomega) { g.Expect(w.nodeID(ctx, unrelated)).To(BeEmpty()) }).Should(Succeed())
		waitsForNode(ctx, w, infrav1.WaitingForNodeReason)
		host := w.getHost(ctx, Default, "host")
		node := w.node(ctx, "node", "", map[string]string{infrav1.HostUIDLabel: string(host.UID)})
		w.setNodeReady(ctx, node, corev1.ConditionTrue)
		linked(ctx, w)
		Expect(w.nodeID(ctx, node)).To(Equal(w.providerID("host", "machine")))
		Expect(w.nodeID(ctx, unrelated)).To(BeEmpty())
	}

	It("ignores a Node with a host name that another host has too", func(ctx context.Context) {
		w := s.connectedWorld(ctx)
		w.host(ctx, "host")
		w.host(ctx, "twin", build.Consumed(w.named("neighbour")), stage.With(func(twin *bmov1alpha1.BareMetalHost) {
			twin.Status.HardwareDetails.Hostname = "host"
		}))
		w.provision(ctx)
		ignores(ctx, w)
	})

	It("sets its provider ID on a Node with a host name that another host no longer has", func(ctx context.Context) {
		w := s.connectedWorld(ctx)
		w.host(ctx, "host")
		twin := w.host(ctx, "twin", build.Consumed(w.named("neighbour")), stage.With(func(twin *bmov1alpha1.BareMetalHost) {
			twin.Status.HardwareDetails.Hostname = "host"
		}))
		w.provision(ctx)
		node := w.node(ctx, "node", "", map[string]string{corev1.LabelHostname: "host"})
		w.eventually(ctx, "machine", infrav1.NodeLinkedCondition,
			stage.IsFalseBecause(infrav1.WaitingForNodeReason, "other hosts have it too"))
		changeStatus(ctx, w, twin.Name, twin, func(twin *bmov1alpha1.BareMetalHost) {
			twin.Status.HardwareDetails.Hostname = "another"
		})
		linked(ctx, w)
		Expect(w.nodeID(ctx, node)).To(Equal(w.providerID("host", "machine")))
	})

	It("sets its provider ID on a Node with the UID of another host when that host is deleted", func(ctx context.Context) {
		w := s.connectedWorld(ctx)
		w.host(ctx, "host")
		other := w.host(ctx, "other", build.Consumed(w.named("neighbour")))
		w.provision(ctx)
		node := w.node(ctx, "node", "", map[string]string{
			corev1.LabelHostname: "host", infrav1.HostUIDLabel: string(other.UID),
		})
		w.eventually(ctx, "machine", infrav1.NodeLinkedCondition,
			stage.IsFalseBecause(infrav1.WaitingForNodeReason, "its label names another host"))
		Expect(w.client.Delete(ctx, other)).To(Succeed())
		linked(ctx, w)
		Expect(w.nodeID(ctx, node)).To(Equal(w.providerID("host", "machine")))
	})

	It("ignores a Node with the host name of its host that is older than its system", func(ctx context.Context) {
		w := s.connectedWorld(ctx)
		w.host(ctx, "host", build.Provisioned(), build.Consumed(w.named("machine")), ofCluster(clusterName),
			stage.With(func(host *bmov1alpha1.BareMetalHost) {
				host.Status.OperationHistory.Provision.Start = metav1.NewTime(time.Now().Add(time.Hour))
			}))
		w.provision(ctx)
		ignores(ctx, w)
	})

	It("sets its provider ID on the Node with the host name of its host and a UID from before a move",
		func(ctx context.Context) {
			w := provisioned(ctx)
			node := w.node(ctx, "node", "", map[string]string{
				corev1.LabelHostname: "host", infrav1.HostUIDLabel: "6a2c4a8e-6b26-4f1c-9d4e-3f3c3f1f0a51",
			})
			linked(ctx, w)
			Expect(w.nodeID(ctx, node)).To(Equal(w.providerID("host", "machine")))
		})

	It("sets its provider ID on a Node with the host name of its host that joined before a move", func(ctx context.Context) {
		w := s.connectedWorld(ctx)
		node := w.node(ctx, "node", "", map[string]string{corev1.LabelHostname: "host"})
		// A move creates the machine anew. Timestamps have whole seconds.
		Eventually(time.Now).Should(BeTemporally(">=", node.CreationTimestamp.Add(time.Second)))
		w.host(ctx, "host", build.Provisioned(), build.Consumed(w.named("machine")), ofCluster(clusterName),
			stage.With(func(host *bmov1alpha1.BareMetalHost) {
				host.Status.OperationHistory.Provision.Start = metav1.NewTime(node.CreationTimestamp.Add(-time.Hour))
			}))
		w.provision(ctx)
		linked(ctx, w)
		Expect(w.nodeID(ctx, node)).To(Equal(w.providerID("host", "machine")))
	})

	It("waits for a cloud provider to set the provider ID", func(ctx context.Context) {
		w := provisioned(ctx, stage.With(func(cluster *infrav1.Metal3Cluster) {
			cluster.Spec.CloudProviderEnabled = ptr.To(true)
		}))
		host := w.getHost(ctx, Default, "host")
		node := w.node(ctx, "node", "", map[string]string{infrav1.HostUIDLabel: string(host.UID)})
		waitsForNode(ctx, w, infrav1.WaitingForCloudProviderReason)
		Expect(w.nodeID(ctx, node)).To(BeEmpty())
		before := node.DeepCopy()
		node.Spec.ProviderID = w.providerID("host", "machine")
		Expect(w.client.Patch(ctx, node, client.MergeFrom(before))).To(Succeed())
		linked(ctx, w)
	})

	It("blocks on a Node with another provider ID", func(ctx context.Context) {
		w := provisioned(ctx)
		host := w.getHost(ctx, Default, "host")
		node := w.node(ctx, "node", "example://1", map[string]string{infrav1.HostUIDLabel: string(host.UID)})
		w.eventually(ctx, "machine", infrav1.NodeLinkedCondition, stage.IsFalseBecause(infrav1.ProviderIDConflictReason,
			"Node "+node.Name+" has provider ID example://1 instead of "+w.providerID("host", "machine")+
				", and a provider ID is immutable: delete the Node and restart the kubelet of the host: kubectl delete node "+node.Name))
		Expect(w.getMachine(ctx, Default, "machine").Spec.ProviderID).To(BeEmpty())
		Expect(w.client.Delete(ctx, node)).To(Succeed())
		waitsForNode(ctx, w, infrav1.WaitingForNodeReason)
		w.node(ctx, "better", "", map[string]string{infrav1.HostUIDLabel: string(host.UID)})
		linked(ctx, w)
	})

	It("blocks on two Nodes with its provider ID", func(ctx context.Context) {
		w := provisioned(ctx)
		first := w.node(ctx, "first", w.providerID("host", "machine"), nil)
		linked(ctx, w)
		second := w.node(ctx, "second", w.providerID("host", "machine"), nil)
		w.eventually(ctx, "machine", infrav1.NodeLinkedCondition, stage.IsFalseBecause(infrav1.ProviderIDConflictReason,
			"Nodes "+first.Name+", "+second.Name+" have the same provider ID"))
		Expect(w.client.Delete(ctx, first)).To(Succeed())
		linked(ctx, w)
	})

	It("blocks on another machine with its provider ID until the other machine is deleted", func(ctx context.Context) {
		w := provisioned(ctx)
		w.node(ctx, "node", w.providerID("host", "machine"), nil)
		linked(ctx, w)
		w.copy(ctx)
		stops(ctx, w)
		Expect(w.client.Delete(ctx, w.getMachine(ctx, Default, "copy"))).To(Succeed())
		linked(ctx, w)
	})

	It("sets its provider ID on a recreated Node", func(ctx context.Context) {
		w := provisioned(ctx)
		node := w.node(ctx, "node", w.providerID("host", "machine"), nil)
		linked(ctx, w)
		Expect(w.client.Delete(ctx, node)).To(Succeed())
		w.eventually(ctx, "machine", infrav1.NodeLinkedCondition, stage.IsFalseBecause(infrav1.WaitingForNodeReason, ""))
		host := w.getHost(ctx, Default, "host")
		again := w.node(ctx, "again", "", map[string]string{infrav1.HostUIDLabel: string(host.UID)})
		linked(ctx, w)
		Expect(w.nodeID(ctx, again)).To(Equal(w.providerID("host", "machine")))
	})

	It("blocks on another machine with its provider ID until the other machine is corrected", func(ctx context.Context) {
		w := provisioned(ctx)
		w.node(ctx, "node", w.providerID("host", "machine"), nil)
		linked(ctx, w)
		w.copy(ctx)
		stops(ctx, w)
		change(ctx, w, "copy", &infrav1.Metal3Machine{}, func(machine *infrav1.Metal3Machine) {
			machine.Spec.ProviderID = w.providerID("other", "copy")
		})
		linked(ctx, w)
		change(ctx, w, "copy", &infrav1.Metal3Machine{}, func(machine *infrav1.Metal3Machine) {
			machine.Spec.ProviderID = w.providerID("host", "machine")
		})
		stops(ctx, w)
	})

	It("names what its kubeconfig lacks until the API server of the workload cluster answers", func(ctx context.Context) {
		w := s.world(ctx)
		w.connected = true
		w.operate(ctx)
		w.host(ctx, "host")
		access := kubeconfig.GenerateSecret(w.cluster, []byte(build.SilentKubeconfig))
		labels := access.Labels
		access.Labels = nil
		w.create(ctx, access)
		w.start()
		w.machine(ctx, "machine")
		waits := func(message string) {
			GinkgoHelper()
			w.eventually(ctx, "machine", infrav1.NodeLinkedCondition, stage.IsFalseBecause(
				infrav1.WorkloadClusterUnreachableReason, message))
		}
		const missing = "Restore Secret cluster-kubeconfig with label cluster.x-k8s.io/cluster-name=cluster and key value"
		waits(missing)
		change(ctx, w, access.Name, access, func(access *corev1.Secret) { access.Labels = labels })
		waits("Waiting for the API server of Cluster cluster to answer")
		expired, err := build.CertificateKubeconfig(time.Now().Add(-time.Hour))
		Expect(err).NotTo(HaveOccurred())
		change(ctx, w, access.Name, access, func(access *corev1.Secret) {
			access.Data[secret.KubeconfigDataName] = []byte(expired)
		})
		waits("key value of Secret cluster-kubeconfig has a client certificate that expired at ")
		Expect(w.client.Delete(ctx, access)).To(Succeed())
		waits(missing)
		Expect(w.getMachine(ctx, Default, "machine").Spec.ProviderID).To(BeEmpty())
		w.node(ctx, "node", w.providerID("host", "machine"), nil)
		w.connect(ctx, w.server.Config)
		linked(ctx, w)
	})

	It("does not wait for a Node without a bootstrap provider", func(ctx context.Context) {
		w := s.world(ctx)
		w.operate(ctx)
		w.host(ctx, "host")
		w.start()
		w.secret(ctx, "machine")
		w.metal3Machine(ctx, w.owner(ctx, "machine"))
		w.eventually(ctx, "machine", infrav1.NodeLinkedCondition,
			stage.IsFalseBecause(infrav1.WorkloadClusterUnreachableReason, ""))
		machine := w.getMachine(ctx, Default, "machine")
		Expect(machine.Spec.ProviderID).To(Equal(w.providerID("host", "machine")))
		Expect(machine.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
	})

	It("has the failure domain of its Machine before Cluster API copies it", func(ctx context.Context) {
		w := s.world(ctx)
		w.operate(ctx)
		w.host(ctx, "host", build.InDomain("room-1"))
		w.start()
		w.secret(ctx, "machine")
		w.metal3Machine(ctx, w.owner(ctx, "machine", build.InDomain("room-1")), build.InDomain("room-2"))
		Eventually(func(g Gomega) {
			g.Expect(w.getMachine(ctx, g, "machine").Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
		}).Should(Succeed())
		Expect(w.getMachine(ctx, Default, "machine").Spec.FailureDomain).To(Equal("room-1"))
	})

	It("rebuilds its status after a move", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host", build.Provisioned(), build.InDomain("room-1"),
			build.Consumed(build.Metal3Machine("machine", clusterName, build.InNamespace(w.namespace))))
		host := w.getHost(ctx, Default, "host")
		w.start()
		w.machine(ctx, "machine", build.OnHost(host), stage.With(func(machine *infrav1.Metal3Machine) {
			machine.Spec.ProviderID = w.providerID("host", "machine")
		}))
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsTrue())
		Eventually(func(g Gomega) {
			status := w.getMachine(ctx, g, "machine").Status
			g.Expect(status.Initialization.Provisioned).To(HaveValue(BeTrue()))
			g.Expect(status.FailureDomain).To(Equal("room-1"))
			g.Expect(status.Addresses).NotTo(BeEmpty())
		}).Should(Succeed())
	})

	It("reports the error of its host until the error ends", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		w.start()
		w.machine(ctx, "machine")
		w.associated(ctx, "machine")
		changeStatus(ctx, w, "host", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.State = bmov1alpha1.StateProvisioning
			host.Status.OperationalStatus = bmov1alpha1.OperationalStatusError
			host.Status.ErrorType, host.Status.ErrorMessage = bmov1alpha1.ProvisioningError, "image\n  not found"
		})
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsFalseBecause(infrav1.HostErrorReason,
			"BareMetalHost host reports provisioning error: image not found"))
		w.eventually(ctx, "machine", infrav1.ReadyCondition, stage.IsFalseBecause(infrav1.HostErrorReason, "image not found"))
		changeStatus(ctx, w, "host", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Status.OperationalStatus = bmov1alpha1.OperationalStatusOK
			host.Status.ErrorType, host.Status.ErrorMessage = "", ""
		})
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition,
			stage.IsFalseBecause(infrav1.HostProvisioningReason, "(state: provisioning)"))
	})

	It("reports an error of a provisioned host once, and stays ready", func(ctx context.Context) {
		w := s.world(ctx)
		w.connect(ctx, w.server.Config)
		w.host(ctx, "host", build.Provisioned(), build.Consumed(w.named("machine")))
		w.start()
		w.machine(ctx, "machine", build.Finalizers(infrav1.MachineFinalizer), build.OnHost(w.getHost(ctx, Default, "host")))
		w.node(ctx, "node", w.providerID("host", "machine"), nil)
		linked(ctx, w)

		trouble := func(kind bmov1alpha1.ErrorType, message string) {
			GinkgoHelper()
			changeStatus(ctx, w, "host", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
				host.Status.ErrorType, host.Status.ErrorMessage = kind, message
			})
		}
		says := func(reason, message string) {
			GinkgoHelper()
			w.eventually(ctx, "machine", infrav1.HostProvisionedCondition,
				And(stage.IsTrueBecause(reason), HaveField("Message", message)))
			linked(ctx, w)
		}
		trouble(bmov1alpha1.PowerManagementError, "401:\n unauthorized")
		says(infrav1.HostErrorReason, "BareMetalHost host is provisioned; it reports power management error: 401: unauthorized")
		warned := []string{corev1.EventTypeWarning + ": BareMetalHost host is provisioned; it reports power management error: 401: unauthorized"}
		Eventually(func(g Gomega) { g.Expect(w.troubles(ctx, g, "machine")).To(Equal(warned)) }).Should(Succeed())
		change(ctx, w, "host", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Labels = map[string]string{infrav1.FailureDomainLabel: "a"}
		})
		Eventually(func(g Gomega) {
			g.Expect(w.getMachine(ctx, g, "machine").Status.FailureDomain).To(Equal("a"))
		}).Should(Succeed(), "the machine has been reconciled again")
		Consistently(func(g Gomega) { g.Expect(w.troubles(ctx, g, "machine")).To(Equal(warned)) }).Should(Succeed())

		trouble("", "")
		says(infrav1.HostProvisionedReason, "BareMetalHost host is provisioned")
	})

	It("reports that the ownerReferences of its host must stay, and stays ready", func(ctx context.Context) {
		w := s.world(ctx)
		w.connect(ctx, w.server.Config)
		w.host(ctx, "host", build.Provisioned(), build.Consumed(w.named("machine")))
		running := w.start()
		w.machine(ctx, "machine", build.Finalizers(infrav1.MachineFinalizer), build.OnHost(w.getHost(ctx, Default, "host")))
		w.node(ctx, "node", w.providerID("host", "machine"), nil)
		linked(ctx, w)
		running.Stop()
		owner := *metav1.NewControllerRef(w.getMachine(ctx, Default, "machine"), infrav1.GroupVersion.WithKind("Metal3Machine"))
		change(ctx, w, "host", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.OwnerReferences = []metav1.OwnerReference{owner}
			metav1.SetMetaDataAnnotation(&host.ObjectMeta, infrav1.BlockMoveAnnotation, "")
		})
		writes := 0
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			if write.Kind != "BareMetalHost" {
				return stage.Verdict{}
			}
			// The second one leaves the owners as they are.
			if writes++; writes == 2 {
				return stage.Verdict{}
			}
			return stage.Verdict{Err: apierrors.NewForbidden(schema.GroupResource{Resource: "baremetalhosts"}, write.Name,
				errors.New("cannot set an ownerRef"))}
		})
		w.start()
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, And(
			stage.IsTrueBecause(infrav1.ProvisioningFailedReason), HaveField("Message", And(
				HavePrefix("BareMetalHost host is provisioned; "), ContainSubstring("the permission to delete BareMetalHosts"),
				ContainSubstring("cannot set an ownerRef")))))
		linked(ctx, w)
		Eventually(func(g Gomega) {
			g.Expect(w.events(ctx, g, "machine")).To(ContainElement(infrav1.ProvisioningFailedReason))
		}).Should(Succeed())
		host := w.getHost(ctx, Default, "host")
		Expect(host.Annotations).NotTo(HaveKey(infrav1.BlockMoveAnnotation), "the owners stop no other change")
		Expect(host.OwnerReferences).To(ConsistOf(owner))

		w.writes.Judge(nil)
		change(ctx, w, "host", &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Labels = map[string]string{infrav1.FailureDomainLabel: "a"}
		})
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsTrueBecause(infrav1.HostProvisionedReason))
		Expect(w.getHost(ctx, Default, "host").OwnerReferences).To(BeEmpty())
	})

	It("warns that its host is being deleted, and stays ready", func(ctx context.Context) {
		w := s.world(ctx)
		w.connect(ctx, w.server.Config)
		w.host(ctx, "host", build.Provisioned(), build.Consumed(w.named("machine")),
			build.Finalizers(bmov1alpha1.BareMetalHostFinalizer))
		w.start()
		w.machine(ctx, "machine", build.OnHost(w.getHost(ctx, Default, "host")))
		w.node(ctx, "node", w.providerID("host", "machine"), nil)
		linked(ctx, w)
		Expect(w.client.Delete(ctx, w.getHost(ctx, Default, "host"))).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(w.troubles(ctx, g, "machine")).To(ConsistOf(corev1.EventTypeWarning +
				": BareMetalHost host is provisioned; it is being deleted: delete the Machine to replace it"))
		}).Should(Succeed())
		linked(ctx, w)
	})
}

// troubles returns the events about errors of the host of a Metal3Machine: their types, texts, and counts above one.
func (w *world) troubles(ctx context.Context, g Gomega, machine string) []string {
	var list eventsv1.EventList
	g.Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	var troubles []string
	for _, event := range list.Items {
		if event.Regarding.Name != machine || event.Reason != infrav1.HostErrorReason {
			continue
		}
		text := event.Type + ": " + event.Note
		if event.Series != nil {
			text = fmt.Sprintf("%s (%d times)", text, event.Series.Count)
		}
		troubles = append(troubles, text)
	}
	return troubles
}

// copy creates a machine with the provider ID of another one.
func (w *world) copy(ctx context.Context) {
	GinkgoHelper()
	w.create(ctx, build.Metal3Machine("copy", clusterName, build.InNamespace(w.namespace),
		stage.With(func(machine *infrav1.Metal3Machine) { machine.Spec.ProviderID = w.providerID("host", "machine") })))
}

func (w *world) providerID(host, machine string) string {
	return "metal3://" + w.namespace + "/" + host + "/" + machine
}

// setNodeReady sets the condition Ready of a Node, as the kubelet and the node controller do.
func (w *world) setNodeReady(ctx context.Context, node *corev1.Node, status corev1.ConditionStatus) {
	GinkgoHelper()
	stage.ChangeStatus(ctx, w.client, client.ObjectKeyFromObject(node), &corev1.Node{}, func(node *corev1.Node) {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	})
}

// nodeID returns the provider ID of a Node.
func (w *world) nodeID(ctx context.Context, node *corev1.Node) string {
	GinkgoHelper()
	Expect(w.client.Get(ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
	return node.Spec.ProviderID
}
