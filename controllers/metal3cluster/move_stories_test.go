package metal3cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// crew stands for the nodes of a control plane, and for the Ironic of the management cluster.
type crew struct {
	mutex sync.Mutex
	seen  workload.ControlPlane
	err   error

	// away says that no node can be seen.
	away bool

	// handed says what Ironic was told last, by clusterID.
	handed map[string]bool
}

func newCrew(nodes ...string) *crew {
	c := &crew{handed: map[string]bool{}}
	for _, name := range nodes {
		c.seen.Nodes = append(c.seen.Nodes, workload.ControlPlaneNode{
			Name: name, Armed: pivot.NotArmed, Carries: true, PodsReady: true, ConfigHash: "hash",
		})
	}
	return c
}

func (c *crew) change(edit func(*crew)) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	edit(c)
}

// Look implements metal3cluster.ControlPlanes.
func (c *crew) Look(context.Context, types.NamespacedName, string) (workload.ControlPlane, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.away {
		return workload.ControlPlane{}, workload.ErrUnreachable
	}
	return workload.ControlPlane{Own: c.seen.Own, Nodes: slices.Clone(c.seen.Nodes)}, c.err
}

// Arm implements metal3cluster.ControlPlanes.
func (c *crew) Arm(_ context.Context, _ types.NamespacedName, node string, armed bool) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for i := range c.seen.Nodes {
		if c.seen.Nodes[i].Name == node {
			c.seen.Nodes[i].Armed = pivot.NotArmed
			if armed {
				c.seen.Nodes[i].Armed = pivot.ArmedByProvider
			}
		}
	}
	return c.err
}

// Tell implements metal3cluster.Handover.
func (c *crew) Tell(_ context.Context, clusterID string, handedOver bool) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.handed[clusterID] = handedOver
	return c.err
}

// told is what Ironic was told last.
func (c *crew) told(clusterID string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.handed[clusterID]
}

func (c *crew) armed() []bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var armed []bool
	for _, node := range c.seen.Nodes {
		armed = append(armed, node.Armed != pivot.NotArmed)
	}
	return armed
}

// gate waits until the Metal3Cluster makes clusterctl wait, or does so no longer.
func (w *world) gate(ctx context.Context, closed bool) {
	GinkgoHelper()
	has := HaveKey(infrav1.BlockMoveAnnotation)
	if !closed {
		has = Not(has)
	}
	Eventually(func(g Gomega) { g.Expect(w.get(ctx, g).Annotations).To(has) }).Should(Succeed())
}

func (w *world) host(ctx context.Context, name string, options ...build.HostOption) {
	GinkgoHelper()
	w.create(ctx, build.Host(name, append([]build.HostOption{build.InNamespace(w.namespace)}, options...)...))
}

// park does what the controller of hosts does before a move.
func (w *world) park(ctx context.Context, name string) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key(name), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
		build.Annotations(map[string]string{
			bmov1alpha1.PausedAnnotation: infrav1.HostPausedByProvider,
			bmov1alpha1.StatusAnnotation: statusOf(host),
		})(host)
	})
}

// describeMoves are the stories of clusterctl move.
func describeMoves(s *suite) {
	It("makes clusterctl wait until every host is parked, and waits again afterwards", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx))
		w.host(ctx, "free", build.Available())
		w.host(ctx, "busy", build.State(bmov1alpha1.StateInspecting))
		w.gate(ctx, true)
		w.pause(ctx, true)
		w.eventually(ctx, infrav1.PausedCondition, stage.IsTrue())
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason, "host busy is inspecting"))
		w.park(ctx, "free")
		w.gate(ctx, true)
		stage.ChangeStatus(ctx, w.client, w.key("busy"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.State = bmov1alpha1.StateAvailable
		})
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason, "host busy is being paused"))
		w.gate(ctx, true)
		w.park(ctx, "busy")
		w.gate(ctx, false)
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsTrueBecause(infrav1.MovableReason))
		w.pause(ctx, false)
		w.gate(ctx, true)
	})

	It("names what is in the way of a move", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx))
		w.host(ctx, "host", build.State(bmov1alpha1.StateProvisioning))
		w.controlPlaneNode(ctx, "cp-0")
		machine := build.Machine("new", clusterName, build.InNamespace(w.namespace))
		w.create(ctx, machine)
		remediation := &infrav1.Metal3Remediation{}
		remediation.Namespace, remediation.Name = w.namespace, "remediation"
		w.create(ctx, remediation)
		obstacle := func(text string) {
			GinkgoHelper()
			w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.NotReadyForMoveReason, text))
		}
		obstacle("host host is provisioning")
		obstacle("Machine new has no node")
		obstacle("Metal3Remediation remediation is running")
		Expect(w.client.Delete(ctx, remediation)).To(Succeed())
		Expect(w.client.Delete(ctx, machine)).To(Succeed())
		stage.ChangeStatus(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.State = bmov1alpha1.StateProvisioned
		})
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsTrueBecause(infrav1.ReadyForMoveReason))
	})

	It("leaves a Metal3Cluster alone that clusterctl deletes", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx))
		w.gate(ctx, true)
		stage.Change(ctx, w.client, w.key(clusterName), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
			infra.Annotations = map[string]string{infrav1.DeleteForMoveAnnotation: ""}
		})
		w.untouched(ctx)
		w.gate(ctx, false)
	})

	It("arms the nodes of a cluster that manages itself, and disarms them when it is moved back", func(ctx context.Context) {
		w := s.world(ctx)
		w.crew = newCrew("cp-0", "cp-1")
		ironic := newIronic()
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), withIronic(ironic))
		w.controlPlaneNode(ctx, "cp-0")
		material := w.material(ctx)
		ironic.change(func(i *fakeIronic) { i.material, i.conductors = &material, []string{"c1-management"} })
		w.holder(ctx, infrav1.HolderManagement, "management")
		Eventually(func(g Gomega) {
			g.Expect(w.get(ctx, g).Status.Ironic.Nodes).To(HaveLen(2))
		}).Should(Succeed())
		Expect(w.crew.armed()).To(Equal([]bool{false, false}), "a management cluster elsewhere holds the endpoint")

		w.crew.change(func(c *crew) { c.seen.Own = true })
		Eventually(w.crew.armed).Should(Equal([]bool{true, true}))
		Eventually(func(g Gomega) {
			g.Expect(w.get(ctx, g).Status.Ironic.Nodes).To(HaveEach(HaveField("Armed", HaveValue(BeTrue()))))
		}).Should(Succeed())

		ironic.change(func(i *fakeIronic) { i.conductors = []string{"c1-cp-0"} })
		w.holder(ctx, infrav1.HolderControlPlane, "cp-0")
		w.crew.change(func(c *crew) { c.seen.Own = false })
		Consistently(w.crew.armed).Should(Equal([]bool{true, true}), "nobody else could serve yet")
		ironic.change(func(i *fakeIronic) { i.conductors = []string{"c1-management"} })
		Eventually(w.crew.armed).Should(Equal([]bool{false, false}))
	})

	It("takes no address from a node that nobody knows yet after a move", func(ctx context.Context) {
		w := s.world(ctx)
		w.crew = newCrew("cp-0")
		w.crew.change(func(c *crew) { c.seen.Nodes[0].Armed, c.away = pivot.ArmedByProvider, true })
		ironic := newIronic()
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), withIronic(ironic))
		arrived := build.ControlPlaneMachine("cp-0", clusterName, build.InNamespace(w.namespace))
		arrived.Spec.ProviderID = "metal3://metal3/host/cp-0"
		w.create(ctx, arrived)
		material := w.material(ctx)
		ironic.change(func(i *fakeIronic) { i.material, i.conductors = &material, []string{"c1-cp-0"} })
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsTrueBecause(infrav1.EndpointAnswersReason))
		Expect(w.get(ctx, Default).Status.Ironic.Holder).To(BeNil(), "neither a Machine nor a node tells whose it is")

		w.crew.change(func(c *crew) { c.away = false })
		w.holder(ctx, infrav1.HolderControlPlane, "cp-0")
		Consistently(w.crew.armed).Should(Equal([]bool{true}))
	})

	It("tells the Ironic of the management cluster that the cluster leaves, and that it is back", func(ctx context.Context) {
		w := s.world(ctx)
		w.crew = newCrew("cp-0")
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), withIronic(newIronic()))
		w.host(ctx, "host", build.Available())
		w.gate(ctx, true)
		w.pause(ctx, true)
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason, "host host"))
		Expect(w.crew.told("c1")).To(BeFalse())
		w.crew.change(func(c *crew) { c.err = errors.New("no connection") })
		w.park(ctx, "host")
		Eventually(func() bool { return w.crew.told("c1") }).Should(BeTrue())
		w.gate(ctx, true)
		w.crew.change(func(c *crew) { c.err = nil })
		w.gate(ctx, false)
		w.pause(ctx, false)
		Eventually(func() bool { return w.crew.told("c1") }).Should(BeFalse())
	})

	It("says when nodes of the control plane could not take the endpoint", func(ctx context.Context) {
		w := s.world(ctx)
		w.crew = newCrew("cp-0", "cp-1")
		w.crew.change(func(c *crew) { c.seen.Nodes[1].Carries = false })
		ironic := newIronic()
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), withIronic(ironic))
		material := w.material(ctx)
		ironic.change(func(i *fakeIronic) { i.material, i.conductors = &material, []string{"other-m"} })
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.NotReadyForMoveReason, "Ironic endpoint: Conductor other-m"))
		ironic.change(func(i *fakeIronic) { i.conductors = []string{"c1-m"} })
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.NotReadyForMoveReason, "node cp-1 does not run the pods"))
		w.crew.change(func(c *crew) { c.seen.Nodes[1].Carries, c.err = true, workload.ErrUnreachable })
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.NotReadyForMoveReason, "does not answer"))
		w.crew.change(func(c *crew) { c.err = nil })
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsTrueBecause(infrav1.ReadyForMoveReason))
	})
}

// statusOf is the annotation that the status of a host makes.
func statusOf(host *bmov1alpha1.BareMetalHost) string {
	GinkgoHelper()
	content, err := json.Marshal(host.Status)
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}
