package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/witness"
)

// A cluster with an Ironic endpoint is moved to its control plane and back. A witness on the network observes the
// VIP. Each story prints how long the VIP and Ironic were unavailable, without a limit.
//
// The stories with the label spine are one life of a cluster, from its creation to its deletion. They run on every
// change. Each other story adds one case.
var _ = Describe("An Ironic endpoint", Ordered, func() {
	e := &endpoint{disarm: func() {}, at: unarmed, declared: unarmed}

	BeforeAll(func(ctx context.Context) {
		e.created = time.Now()
		e.live(bed.lab.Management())
		DeferCleanup(e.remove, NodeTimeout(2*storyLimit))
		e.create(ctx)
	}, NodeTimeout(storyLimit))

	BeforeEach(func() { e.began = time.Now() })

	AfterEach(func(ctx context.Context) {
		var shared error
		if e.seen != nil {
			e.report()
			shared = e.seen.Check(e.began, overlapLimit)
		}
		if report := CurrentSpecReport(); report.Failed() || shared != nil {
			explain(ctx, report)
		}
		Expect(shared).NotTo(HaveOccurred())
	}, NodeTimeout(storyLimit))

	describeBeginning(e)
	describeNodes(e)
	describePivot(e)
	describeReturn(e)
	describeLoss(e)
})

// describeBeginning has the stories of a new cluster.
func describeBeginning(e *endpoint) {
	e.story("stays with the management cluster while every node runs Ironic", unarmed, unarmed, func(ctx context.Context) {
		for _, node := range e.nodes(ctx) {
			e.eventually(ctx, node, "ironic-ok", "1")
			e.eventually(ctx, node, "armed", "0")
			e.eventually(ctx, node, "holder", "0")
			_, err := bed.lab.Machine(node).Run(ctx, "setpriv", "--reuid=nobody", "--clear-groups", "ls", ironic.SharedDirectory)
			Expect(err).To(MatchError(ContainSubstring("Permission denied")), "a user of node %s reaches the socket of Ironic", node)
		}
		e.untilPodsReady(ctx)
		e.untilHolder(ctx, infrav1.HolderManagement)
		Expect(e.seen.Held.Since(e.created)).To(HaveEach(HaveField("Shared()", BeFalse())))
		for _, span := range e.seen.Held.Since(e.created) {
			Expect(span.Who).To(BeElementOf(lab.ManagementName, witness.None), "before any node is armed: %s", span)
		}
	}, Label(spine))

	e.story("belongs to a cluster that clusterctl describes as available", unarmed, unarmed, func(ctx context.Context) {
		expectDescribed(ctx, e.home, endpointCluster, *controlPlanes)
	}, Label(spine))

	e.story("stays with the management cluster when nodes are armed", unarmed, armed, func(ctx context.Context) {
		e.armAll(ctx)
		since := time.Now()
		Consistently(func(g Gomega) {
			for _, node := range e.nodes(ctx) {
				g.Expect(e.state(ctx, g, node, "armed")).To(Equal("1"), node)
			}
		}, calm, often).Should(Succeed())
		e.untilHolder(ctx, infrav1.HolderManagement)
		e.expectHeldByManagement(since)
	})
}

// describeNodes has the stories of faults of nodes that hold the VIP.
func describeNodes(e *endpoint) {
	e.story("goes to a node when the management Ironic is scaled down", armed, handed, e.handOver)

	e.story("goes to another node when its node loses power, and does not return with it", handed, handed,
		func(ctx context.Context) {
			lost := e.holder(ctx)
			Expect(bed.lab.Machine(lost).PowerOff(ctx)).To(Succeed())
			e.untilMoved(ctx, lost)
			Expect(bed.lab.Machine(lost).PowerOn(ctx)).To(Succeed())
			e.settle(ctx)
			Expect(e.holder(ctx)).NotTo(Equal(lost), "a node that returns must not claim the VIP")
		})

	e.story("stays with its node when Ironic of its node crashes, which continues with its database", handed, handed,
		func(ctx context.Context) { e.expectKept(ctx, e.crashIronic) })

	e.story("stays with its node when the guard of its node is killed, and Ironic keeps its database", handed, handed,
		func(ctx context.Context) { e.expectKept(ctx, e.killGuard) })

	e.story("has one holder on each side of a partition, and one when the network has healed", handed, handed,
		func(ctx context.Context) {
			nodes, lost := e.nodes(ctx), e.holder(ctx)
			Expect(bed.lab.Network().Partition(allBut(lost), []string{lost})).To(Succeed())
			e.untilMoved(ctx, lost)
			Consistently(func(g Gomega) {
				g.Expect(e.state(ctx, g, lost, "holder")).To(Equal("1"), "the only holder on its side")
			}, calm, often).Should(Succeed())
			Expect(bed.lab.Network().Heal()).To(Succeed())
			e.settle(ctx)
			Eventually(func(g Gomega) {
				var holders []string
				for _, node := range nodes {
					if e.state(ctx, g, node, "holder") == "1" {
						holders = append(holders, node)
					}
				}
				g.Expect(holders).To(HaveExactElements(e.seen.Held.Last()))
			}, patiently()...).Should(Succeed())
		})

	e.story("goes to another node when its node shuts down and starts again", handed, handed, func(ctx context.Context) {
		lost := e.holder(ctx)
		Expect(bed.lab.Machine(lost).Shutdown(ctx)).To(Succeed())
		e.untilMoved(ctx, lost)
		Expect(bed.lab.Machine(lost).PowerOn(ctx)).To(Succeed())
		e.settle(ctx)
		Expect(e.holder(ctx)).NotTo(Equal(lost))
	})

	e.story("goes to another node when a MachineHealthCheck reboots its node, whose kubelet hangs", handed, handed,
		e.rebootHolder)

	e.story("survives a rollout of the control plane with rotated credentials", handed, handed, func(ctx context.Context) {
		before := e.machineNames(ctx)
		userBefore := e.rotateCredentials(ctx)
		e.untilReplaced(ctx, before)
		e.settle(ctx)
		e.untilHolder(ctx, infrav1.HolderControlPlane)
		for _, node := range append(e.nodes(ctx), "") {
			e.untilAnswered(ctx, node, bed.lab.Ironic(), http.StatusOK)
			// The previous user stays valid until the next change.
			e.untilAnswered(ctx, node, userBefore, http.StatusOK)
		}
		e.demoteHolder(ctx)
	})

	e.story("goes back to the management cluster when its Ironic is scaled up", handed, armed, e.scaleManagementUp)
}

const (
	endpointCluster = "endpoint"

	// staticPods is the number of static pods on each of them: keepalived, Ironic and DHCP.
	staticPods = 3

	// rolloutLimit is the time limit to replace them one by one.
	rolloutLimit = 30 * time.Minute

	// overlapLimit is how long an old and a new holder may both answer for the VIP, usually a moment. A stalled
	// machine cannot hear the new holder, but loses the VIP two seconds after its guard last ran.
	overlapLimit = 4 * time.Second

	// moment is how long the VIP may be elsewhere while a machine is stalled: other nodes miss the holder until it
	// advertises again.
	moment = 5 * time.Second

	// calm is the time in which a state must not change, and often the interval of the checks.
	calm, often = 5 * time.Second, 200 * time.Millisecond

	// armEvery is the interval at which new nodes are armed.
	armEvery = time.Second

	// controlPlaneLabel is the label of control-plane nodes of kubeadm.
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
)

// endpoint is a cluster with an Ironic endpoint, and its witness.
type endpoint struct {
	// Client is the client of home.
	client.Client

	// home is the cluster that manages this cluster: the management cluster, or the cluster itself.
	home *lab.Cluster
	// moved is true after the first attempt of a move.
	moved bool
	// workers is the number of worker nodes.
	workers int
	// company is the number of machines of another cluster in the namespace.
	company int
	// at is the current place of the stories. declared is the place where the last declared story ends.
	at, declared place
	// untouched is the time since which no machine may change.
	untouched time.Time

	seen *witness.Witness
	// created is the creation time of the cluster, and began the start of the story.
	created, began time.Time
	workload       *lab.Cluster
	// disarm stops arming new nodes.
	disarm func()
}

// create creates the cluster and waits until it is complete. It kills the manager after the first claim of a host.
func (e *endpoint) create(ctx context.Context) {
	GinkgoHelper()
	var err error
	e.seen, err = bed.lab.WatchIronic(context.WithoutCancel(ctx))
	Expect(err).NotTo(HaveOccurred())
	Expect(bed.lab.CreateCluster(ctx, endpointCluster, *controlPlanes)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(e.hosts(ctx, g)).To(ContainElement(HaveField("Spec.ConsumerRef", Not(BeNil()))))
	}, patiently()[0], often).Should(Succeed())
	killManager(ctx)
	Expect(bed.lab.WaitForMachines(ctx, endpointCluster, *controlPlanes, storyLimit)).To(Succeed())
	e.workload, err = bed.lab.Workload(ctx, endpointCluster)
	Expect(err).NotTo(HaveOccurred())
	for _, machine := range e.machines(ctx, Default) {
		e.expectLabelled(ctx, machine)
	}
}

// expectLabelled requires the labels of the data template of the flavour on the Node of a Machine.
func (e *endpoint) expectLabelled(ctx context.Context, machine clusterv1.Machine) {
	GinkgoHelper()
	node := &corev1.Node{}
	Expect(e.workload.Client.Get(ctx, client.ObjectKey{Name: machine.Status.NodeRef.Name}, node)).To(Succeed())
	Expect(node.Labels).To(HaveKeyWithValue("metal3.io/machine", machine.Name))
}

// remove deletes the cluster from any place of the stories, and so releases all hosts. A cluster that manages itself
// cannot be deleted.
func (e *endpoint) remove(ctx context.Context) {
	e.disarm()
	if e.seen != nil {
		defer func() { Expect(e.seen.Stop()).To(Succeed()) }()
	}
	Expect(bed.lab.Network().Heal()).To(Succeed())
	if err := InterceptGomegaFailure(func() {
		e.comeHome(ctx)
		e.dismissGuests(ctx)
	}); err != nil {
		AbortSuite(fmt.Sprintf("cluster %s could not be brought back to the management cluster, so other stories cannot use "+
			"its hosts: %v", endpointCluster, err))
	}
	e.removeCompany(ctx)
	removeCluster(ctx, e, endpointCluster)
	Eventually(func(g Gomega) {
		g.Expect(e.allocated(ctx, g)).To(BeEmpty(), "addresses were not released")
		for _, host := range e.hosts(ctx, g) {
			g.Expect(host.Spec.ConsumerRef).To(BeNil(), host.Name)
			g.Expect(host.Status.Provisioning.State).To(Equal(bmov1alpha1.StateAvailable), host.Name)
			g.Expect(host.Annotations).To(BeEmpty(), host.Name)
		}
	}, patiently()...).Should(Succeed())
}

// expectHeldByManagement requires that the management machine has held the VIP since a time.
func (e *endpoint) expectHeldByManagement(since time.Time) {
	GinkgoHelper()
	Expect(witness.Longest(e.seen.Held.Since(since), func(span witness.Span) bool {
		return !strings.Contains(span.Who, lab.ManagementName)
	})).To(BeNumerically("<", moment), "another machine held the VIP, or none")
}

// report prints the observations of the witness during the story.
func (e *endpoint) report() {
	away := func(span witness.Span) bool { return span.Who == witness.None }
	for _, watched := range []struct {
		what    string
		journal *witness.Journal
	}{{"The address", &e.seen.Held}, {"Ironic", &e.seen.Answered}, {"DHCP", &e.seen.Offered}} {
		spans := watched.journal.Since(e.began)
		fmt.Printf("%s: unavailable for %s at most, several holders for %s at most\n", watched.what,
			witness.Longest(spans, away).Round(time.Millisecond),
			witness.Longest(spans, witness.Span.Shared).Round(time.Millisecond))
		for _, span := range spans {
			fmt.Printf("  %s\n", span)
		}
	}
}

// hosts returns the hosts of the lab, without guests.
func (e *endpoint) hosts(ctx context.Context, g Gomega) []bmov1alpha1.BareMetalHost {
	return slices.DeleteFunc(hostsIn(ctx, g, e.home), isGuest)
}

// nodes returns the names of the control-plane nodes, which are also the names of their machines in the lab.
func (e *endpoint) nodes(ctx context.Context) []string {
	GinkgoHelper()
	var names []string
	Eventually(func(g Gomega) {
		var list corev1.NodeList
		g.Expect(e.workload.Client.List(ctx, &list, client.HasLabels{controlPlaneLabel})).To(Succeed())
		names = nil
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		g.Expect(names).NotTo(BeEmpty())
	}, patiently()...).Should(Succeed())
	return names
}

// state returns the content of a file of the guard.
func (e *endpoint) state(ctx context.Context, g Gomega, node, file string) string {
	content, err := bed.lab.Machine(node).Run(ctx, "cat", path.Join(ironic.StateDirectory, file))
	g.Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(content))
}

func (e *endpoint) eventually(ctx context.Context, node, file, want string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(e.state(ctx, g, node, file)).To(Equal(want))
	}, patiently()...).Should(Succeed(), "%s of %s", file, node)
}

// untilPodsReady waits until the kubelets report that all static pods of every node are ready.
func (e *endpoint) untilPodsReady(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var pods corev1.PodList
		g.Expect(e.workload.Client.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem),
			client.HasLabels{ironic.ComponentLabel})).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(staticPods * *controlPlanes))
		for _, pod := range pods.Items {
			g.Expect(pod.Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.PodReady),
				HaveField("Status", corev1.ConditionTrue))), pod.Name)
		}
	}, patiently()...).Should(Succeed())
}

// holder returns the machine with the VIP.
func (e *endpoint) holder(ctx context.Context) string {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(bed.lab.Machines()).To(ContainElement(e.seen.Held.Last()))
	}, patiently()...).WithContext(ctx).Should(Succeed())
	return e.seen.Held.Last()
}

// untilHolder waits until one machine of a kind has the VIP, Ironic answers there, and the Metal3Cluster reports it.
// Then only a node serves DHCP; the management cluster of the lab does not.
func (e *endpoint) untilHolder(ctx context.Context, kind infrav1.HolderKind) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		holder := e.seen.Held.Last()
		g.Expect(holder == lab.ManagementName).To(Equal(kind == infrav1.HolderManagement), "the holder is %s", holder)
		g.Expect(e.seen.Answered.Last()).To(Equal(lab.IronicClusterID + "-" + holder))
		server := holder
		if kind == infrav1.HolderManagement {
			server = witness.None
		}
		g.Expect(e.seen.Offered.Last()).To(Equal(server), "DHCP")
		var cluster infrav1.Metal3Cluster
		g.Expect(e.Get(ctx, client.ObjectKey{Namespace: lab.Namespace, Name: endpointCluster}, &cluster)).To(Succeed())
		g.Expect(cluster.Status.Conditions).To(ContainElement(And(
			HaveField("Type", infrav1.IronicEndpointReadyCondition), HaveField("Status", metav1.ConditionTrue))))
		g.Expect(cluster.Status.Ironic).NotTo(BeNil())
		g.Expect(cluster.Status.Ironic.Holder).To(HaveValue(And(HaveField("Kind", kind), HaveField("Name", holder),
			HaveField("Term", Not(BeEmpty())))))
	}, patiently()...).Should(Succeed())
}

// untilElsewhere waits until another node has the VIP and Ironic answers there.
func (e *endpoint) untilElsewhere(ctx context.Context, from string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		holder := e.seen.Held.Last()
		g.Expect(holder).NotTo(Or(Equal(from), Equal(lab.ManagementName)))
		g.Expect(e.seen.Answered.Last()).To(Equal(lab.IronicClusterID + "-" + holder))
	}, patiently()...).WithContext(ctx).Should(Succeed())
}

// untilMoved waits until another node has the VIP and all hosts are registered in its Ironic.
func (e *endpoint) untilMoved(ctx context.Context, from string) {
	GinkgoHelper()
	e.untilElsewhere(ctx, from)
	e.untilHostsKnown(ctx)
}

// untilHostsKnown waits until all hosts of the cluster are registered in the answering Ironic, and no operation runs.
func (e *endpoint) untilHostsKnown(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		for _, host := range e.hosts(ctx, g) {
			g.Expect(host.Status.ErrorMessage).To(BeEmpty(), host.Name)
			g.Expect(host.Status.Provisioning.State).To(BeElementOf(bmov1alpha1.StateAvailable, bmov1alpha1.StateProvisioned),
				host.Name)
		}
		var cluster infrav1.Metal3Cluster
		g.Expect(e.Get(ctx, client.ObjectKey{Namespace: lab.Namespace, Name: endpointCluster}, &cluster)).To(Succeed())
		g.Expect(cluster.Status.Ironic).NotTo(BeNil())
		g.Expect(cluster.Status.Ironic.KnownHosts).To(HaveValue(BeNumerically("==", *controlPlanes+e.workers)))
	}, patiently()...).Should(Succeed())
}

// settle waits until every node can claim the VIP and may be lost.
func (e *endpoint) settle(ctx context.Context) {
	GinkgoHelper()
	Expect(bed.lab.WaitForNodes(ctx, e.workload, *controlPlanes, storyLimit)).To(Succeed())
	for _, node := range e.nodes(ctx) {
		e.eventually(ctx, node, "ironic-ok", "1")
		e.eventually(ctx, node, "armed", "1")
	}
	Expect(bed.lab.WaitForMachines(ctx, endpointCluster, *controlPlanes, storyLimit)).To(Succeed())
	e.untilHostsKnown(ctx)
}
