package metal3cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/departure"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// simulatedPlane simulates the nodes of a control plane, and the Ironic of the management cluster.
type simulatedPlane struct {
	mutex sync.Mutex
	seen  workload.ControlPlane
	err   error

	// away says that the nodes cannot be read.
	away bool

	// handed is the last written handover, by clusterID.
	handed map[string]bool

	// recorded is the claim in the workload cluster. Nil if there is none.
	recorded *pivot.Claim
}

// Claim implements metal3cluster.ControlPlanes.
func (c *simulatedPlane) Claim(
	_ context.Context, _ types.NamespacedName, epoch pivot.Epoch,
) (pivot.Claim, pivot.Standing, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.away {
		return pivot.Claim{}, "", workload.ErrUnreachable
	}
	own := pivot.Claim{Epoch: epoch, Manager: "here"}
	standing := pivot.StandingOf(own, c.recorded)
	if standing == pivot.Claims {
		c.recorded, standing = &own, pivot.Current
	}
	return *c.recorded, standing, nil
}

// claims returns the last recorded claim.
func (c *simulatedPlane) claims() *pivot.Claim {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.recorded
}

func newSimulatedPlane(nodes ...string) *simulatedPlane {
	c := &simulatedPlane{handed: map[string]bool{}}
	for _, name := range nodes {
		c.seen.Nodes = append(c.seen.Nodes, workload.ControlPlaneNode{
			Name: name, Armed: pivot.NotArmed, Carries: true, PodsReady: true, ConfigHash: "hash",
		})
	}
	return c
}

func (c *simulatedPlane) change(edit func(*simulatedPlane)) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	edit(c)
}

// Read implements metal3cluster.ControlPlanes.
func (c *simulatedPlane) Read(context.Context, types.NamespacedName, string) (workload.ControlPlane, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.away {
		return workload.ControlPlane{}, workload.ErrUnreachable
	}
	return workload.ControlPlane{Own: c.seen.Own, Nodes: slices.Clone(c.seen.Nodes)}, c.err
}

// Arm implements metal3cluster.ControlPlanes.
func (c *simulatedPlane) Arm(_ context.Context, _ types.NamespacedName, node string, armed bool) error {
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
func (c *simulatedPlane) Tell(_ context.Context, clusterID string, handedOver bool) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.handed[clusterID] = handedOver
	return c.err
}

// handedOver returns the last written handover.
func (c *simulatedPlane) handedOver(clusterID string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.handed[clusterID]
}

func (c *simulatedPlane) armed() []bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var armed []bool
	for _, node := range c.seen.Nodes {
		armed = append(armed, node.Armed != pivot.NotArmed)
	}
	return armed
}

// gate waits until the Metal3Cluster has block-move, or does not have it.
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

// managed starts a manager with a Cluster and an Ironic in the management cluster that answers.
func (s *suite) managed(ctx context.Context) (*world, *fakeIronic) {
	GinkgoHelper()
	w := s.world(ctx)
	w.plane = newSimulatedPlane("cp-0")
	w.plane.change(func(c *simulatedPlane) { c.seen.Own = true })
	ironic := newIronic()
	w.manager.Start()
	w.infrastructure(ctx, w.cluster(ctx), withIronic(ironic))
	w.controlPlaneNode(ctx, "cp-0")
	material := w.material(ctx)
	ironic.change(func(i *fakeIronic) { i.material, i.conductors = &material, []string{"c1-m"} })
	w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsTrueBecause(infrav1.EndpointAnswersReason))
	return w, ironic
}

// pauseForMove pauses a host like the controller of hosts before a move.
func (w *world) pauseForMove(ctx context.Context, name string) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key(name), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
		build.Annotations(map[string]string{
			bmov1alpha1.PausedAnnotation: infrav1.HostPausedByProvider,
			bmov1alpha1.StatusAnnotation: statusOf(host),
			infrav1.MoveEpochAnnotation:  "1",
		})(host)
	})
}

// departed returns the departure of the namespace.
func (w *world) departed(ctx context.Context, g Gomega) pivot.Departure {
	left, err := departure.Of(ctx, w.client, w.namespace)
	g.Expect(err).NotTo(HaveOccurred())
	return left
}

// data returns a Metal3Data of a Cluster.
func (w *world) data(name, cluster string) *infrav1.Metal3Data {
	data := &infrav1.Metal3Data{ObjectMeta: named(w.namespace, name)}
	data.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
	data.Spec.Template, data.Spec.Claim = &infrav1.Metal3ObjectRef{Name: "template"}, &infrav1.Metal3ObjectRef{Name: name}
	return data
}

// progress waits until a move is at a stage.
func (w *world) progress(ctx context.Context, stageOfMove, message string) {
	GinkgoHelper()
	w.eventually(ctx, infrav1.MoveInProgressCondition,
		And(stage.IsTrueBecause(stageOfMove), HaveField("Message", message)))
}

// begun returns a Cluster that clusterctl would move.
func begun() build.ObjectOption {
	return stage.With(func(cluster *clusterv1.Cluster) {
		cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
		conditions.Set(cluster, metav1.Condition{
			Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized",
		})
	})
}

// obstacle waits until the condition names an obstacle.
func (w *world) obstacle(ctx context.Context, text string) {
	GinkgoHelper()
	w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.NotReadyForMoveReason, text))
}

// movable waits until there is no obstacle.
func (w *world) movable(ctx context.Context) {
	GinkgoHelper()
	w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsTrueBecause(infrav1.ReadyForMoveReason))
}

// describeMoves are the stories of clusterctl move.
func describeMoves(s *suite) {
	It("keeps block-move until every host is paused, and sets it again when the Cluster runs", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx))
		w.host(ctx, "free", build.Available())
		w.host(ctx, "busy", build.State(bmov1alpha1.StateInspecting))
		w.gate(ctx, true)
		w.pause(ctx, true)
		w.eventually(ctx, infrav1.PausedCondition, stage.IsTrue())
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason, "host busy is inspecting"))
		w.pauseForMove(ctx, "free")
		w.gate(ctx, true)
		stage.ChangeStatus(ctx, w.client, w.key("busy"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.State = bmov1alpha1.StateAvailable
		})
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason, "host busy is being paused"))
		w.gate(ctx, true)
		w.pauseForMove(ctx, "busy")
		w.gate(ctx, false)
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsTrueBecause(infrav1.MovableReason))
		w.pause(ctx, false)
		w.gate(ctx, true)
	})

	It("reports the obstacles of a move", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx, begun()))
		w.host(ctx, "host", build.State(bmov1alpha1.StateProvisioning))
		w.controlPlaneNode(ctx, "cp-0")
		machine := build.Machine("new", clusterName, build.InNamespace(w.namespace))
		w.create(ctx, machine)
		remediation := &infrav1.Metal3Remediation{}
		remediation.Namespace, remediation.Name = w.namespace, "remediation"
		w.create(ctx, remediation)
		w.obstacle(ctx, "host host is provisioning")
		w.obstacle(ctx, "Machine new has no node")
		stage.Change(ctx, w.client, w.key("remediation"), remediation, func(remediation *infrav1.Metal3Remediation) {
			remediation.Finalizers = []string{infrav1.RemediationFinalizer}
		})
		w.obstacle(ctx, "Metal3Remediation remediation is running")
		stage.Change(ctx, w.client, w.key("remediation"), remediation, func(remediation *infrav1.Metal3Remediation) {
			remediation.Finalizers = nil
		})
		Expect(w.client.Delete(ctx, machine)).To(Succeed())
		stage.ChangeStatus(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.State = bmov1alpha1.StateProvisioned
		})
		w.movable(ctx)
	})

	It("reports an IPPool with addresses and without a Cluster", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx, begun()))
		w.controlPlaneNode(ctx, "cp-0")
		pool := &ipamv1.IPPool{ObjectMeta: named(w.namespace, "pool")}
		pool.Spec.NamePrefix = "pool"
		pool.Status.Allocations = map[string]ipamv1.IPAddressStr{"data-0-pool": "192.0.2.10"}
		w.create(ctx, pool)
		w.obstacle(ctx, "IPPool pool has no spec.clusterName")
		stage.Change(ctx, w.client, w.key("pool"), pool, func(pool *ipamv1.IPPool) {
			pool.Spec.ClusterName = ptr.To(clusterName)
		})
		w.movable(ctx)
	})

	It("keeps the gate closed while clusterctl would leave objects behind", func(ctx context.Context) {
		w := s.world(ctx)
		secret := &corev1.Secret{ObjectMeta: named(w.namespace, "host-bmc")}
		w.create(ctx, secret)
		w.host(ctx, "host", build.Available())
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx, begun()))
		w.gate(ctx, true)
		w.pauseForMove(ctx, "host")
		w.pause(ctx, true)
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason,
			"Secret host-bmc of host host has no owner and would stay behind"))
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason,
			"Stop clusterctl and unpause the Clusters, and move again after that"))
		w.gate(ctx, true)
		young := build.Metal3Machine("young", clusterName, build.InNamespace(w.namespace))
		w.create(ctx, young)
		stage.Change(ctx, w.client, w.key("host-bmc"), secret, func(secret *corev1.Secret) {
			secret.Labels = map[string]string{infrav1.MoveLabel: ""}
		})
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason,
			"The move waits: Metal3Machine young has no ownerReference, so clusterctl would leave it behind"))
		w.gate(ctx, true)
		Expect(w.client.Delete(ctx, young)).To(Succeed())
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason,
			"The move waits: this was corrected after clusterctl had discovered the objects, so clusterctl would not move it: "+
				"Secret host-bmc of host host has no owner and would stay behind"))
		w.gate(ctx, true)

		By("beginning the move again")
		w.pause(ctx, false)
		Eventually(func(g Gomega) {
			g.Expect(w.get(ctx, g).Annotations).NotTo(HaveKey(infrav1.MoveIncompleteAnnotation))
		}).Should(Succeed())
		w.pauseForMove(ctx, "host")
		stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Annotations[infrav1.MoveEpochAnnotation] = "3"
		})
		w.pause(ctx, true)
		w.gate(ctx, false)
	})

	It("counts the moves, and records the inventory for the target", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host", build.Available())
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx, begun()))
		w.controlPlaneNode(ctx, "cp-0")
		w.create(ctx, w.data("cp-0", clusterName))
		w.create(ctx, w.data("other", "other"))
		w.gate(ctx, true)
		w.movable(ctx)
		w.eventually(ctx, infrav1.MoveInProgressCondition, stage.IsFalseBecause(infrav1.NoMoveReason, ""))
		Expect(w.get(ctx, Default).Annotations).NotTo(HaveKey(infrav1.MoveEpochAnnotation))
		annotations := func() map[string]string { return w.get(ctx, Default).Annotations }

		By("aborting a move before the gate opens")
		w.pause(ctx, true)
		Eventually(annotations).Should(HaveKeyWithValue(infrav1.MoveEpochAnnotation, "1"))
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason, "host host is being paused"))
		w.pause(ctx, false)
		Eventually(annotations).Should(And(HaveKeyWithValue(infrav1.MoveEpochAnnotation, "2"),
			Not(HaveKey(infrav1.ArrivalEpochAnnotation)), Not(HaveKey(infrav1.MoveInventoryAnnotation))))

		By("moving with a host that was paused for an earlier move")
		w.pauseForMove(ctx, "host")
		w.pause(ctx, true)
		Eventually(annotations).Should(HaveKeyWithValue(infrav1.MoveEpochAnnotation, "3"))
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason, "host host is being paused"))
		w.gate(ctx, true)
		w.progress(ctx, infrav1.ParkingHostsReason, "BareMetalHosts: 1 Parking")
		Expect(w.departed(ctx, Default)).To(BeZero())
		stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Annotations[infrav1.MoveEpochAnnotation] = "3"
		})
		w.gate(ctx, false)
		w.progress(ctx, infrav1.MovableReason, "BareMetalHosts: 1 Parked")
		left := w.departed(ctx, Default)
		Expect(left.Infras).To(Equal(map[string]pivot.Epoch{clusterName: 3}))
		Expect(left.Hosts).To(ConsistOf(HaveField("Name", "host")))

		By("reconciling again after the gate has opened")
		w.host(ctx, "late", build.Available())
		w.pauseForMove(ctx, "late")
		late := &bmov1alpha1.BareMetalHost{}
		stage.Change(ctx, w.client, w.key("late"), late, func(host *bmov1alpha1.BareMetalHost) {
			host.Annotations[infrav1.MoveEpochAnnotation] = "3"
		})
		w.progress(ctx, infrav1.MovableReason, "BareMetalHosts: 2 Parked")
		Expect(w.departed(ctx, Default)).To(Equal(left), "the departure is recorded when the gate opens")
		Expect(w.client.Delete(ctx, late)).To(Succeed())
		w.progress(ctx, infrav1.MovableReason, "BareMetalHosts: 1 Parked")
		Expect(annotations()).To(And(HaveKeyWithValue(infrav1.MoveEpochAnnotation, "3"),
			HaveKeyWithValue(infrav1.MoveInventoryAnnotation, MatchJSON(`{"Machine":["cp-0"],"Metal3Data":["cp-0"]}`))))
		w.pause(ctx, false)
		w.gate(ctx, true)
		Expect(annotations()).To(And(HaveKeyWithValue(infrav1.MoveEpochAnnotation, "4"),
			HaveKeyWithValue(infrav1.ArrivalEpochAnnotation, "3"), Not(HaveKey(infrav1.MoveInventoryAnnotation))))
		Eventually(func(g Gomega) { g.Expect(w.departed(ctx, g)).To(BeZero(), "the Cluster runs here") }).Should(Succeed())

		By("resuming the host")
		w.progress(ctx, infrav1.ResumingHostsReason, "BareMetalHosts: 1 Resuming")
		stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Annotations = nil
		})
		w.eventually(ctx, infrav1.MoveInProgressCondition, stage.IsFalseBecause(infrav1.NoMoveReason, ""))
	})

	It("removes hosts that are back from the record, although their Metal3Cluster was deleted elsewhere",
		func(ctx context.Context) {
			w := s.world(ctx)
			w.manager.Start()
			w.host(ctx, "host", build.Available())
			leaving := pivot.Departure{Infras: map[string]pivot.Epoch{"deleted": 5}}
			leaving.Enter([]*bmov1alpha1.BareMetalHost{w.stored(ctx, Default, "host")})
			Expect(departure.New(w.client).Remember(ctx, w.namespace, leaving)).To(Succeed())
			w.pauseForMove(ctx, "host")
			w.infrastructure(ctx, w.cluster(ctx, begun()),
				build.Annotations(map[string]string{infrav1.MoveEpochAnnotation: "5"}))
			Eventually(func(g Gomega) { g.Expect(pivot.EpochOf(w.get(ctx, g))).To(BeEquivalentTo(6)) }).Should(Succeed())
			Consistently(func(g Gomega) {
				g.Expect(w.departed(ctx, g).Hosts).To(HaveLen(1), "the host is not managed here yet")
			}).Should(Succeed())

			stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
				delete(host.Annotations, bmov1alpha1.PausedAnnotation)
			})
			Eventually(func(g Gomega) { g.Expect(w.departed(ctx, g).Hosts).To(BeEmpty()) }).Should(Succeed())
			Expect(w.departed(ctx, Default).Infras).To(HaveKey("deleted"), "it cannot be created here again")
		})

	It("reports a leftover host of an earlier move", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		arrived := build.Annotations(map[string]string{infrav1.MoveEpochAnnotation: "4", infrav1.ArrivalEpochAnnotation: "3"})
		w.infrastructure(ctx, w.cluster(ctx, begun()), arrived)
		w.host(ctx, "left", build.Available())
		w.pauseForMove(ctx, "left")
		w.obstacle(ctx, "BareMetalHost left is a leftover of an earlier move, is not in the last one, and stays paused")
		w.obstacle(ctx, "keep it with `clusterctl metal3 pivot keep --namespace "+w.namespace+" --host left`")
		stage.Change(ctx, w.client, w.key("left"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, infrav1.MoveEpochAnnotation)
		})
		w.movable(ctx)
	})

	It("reports a host whose changes the API server refuses", func(ctx context.Context) {
		w := s.world(ctx)
		kind := schema.GroupResource{Group: "metal3.io", Resource: "baremetalhosts"}
		refuse := func(name string) {
			w.manager.Writes.Judge(func(write stage.Write) stage.Verdict {
				if write.Kind == "BareMetalHost" && write.Name == name {
					return stage.Verdict{Err: apierrors.NewForbidden(kind, write.Name, errors.New("spec.raid contradicts spec.firmware"))}
				}
				return stage.Verdict{}
			})
		}
		refuse("old")
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx, begun()))
		w.host(ctx, "old", build.Available())
		w.host(ctx, "new", build.Available())
		w.obstacle(ctx, "BareMetalHost old cannot be paused")
		w.obstacle(ctx, "spec.raid contradicts spec.firmware")
		reported := conditions.Get(w.get(ctx, Default), infrav1.ReadyForMoveCondition)
		Expect(reported.Message).NotTo(ContainSubstring("BareMetalHost new"))
		for _, name := range []string{"old", "new"} {
			host := &bmov1alpha1.BareMetalHost{}
			Expect(w.client.Get(ctx, w.key(name), host)).To(Succeed())
			Expect(host.Annotations).NotTo(HaveKey(bmov1alpha1.PausedAnnotation), "the pause was only tried")
		}

		By("pausing the Cluster all the same")
		w.pause(ctx, true)
		w.eventually(ctx, infrav1.ReadyForMoveCondition,
			stage.IsFalseBecause(infrav1.WaitingForHostsReason, "spec.raid contradicts spec.firmware"))
		w.gate(ctx, true)
		w.pause(ctx, false)

		By("correcting the host")
		w.manager.Writes.Judge(nil)
		stage.Change(ctx, w.client, w.key("old"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.Description = "corrected"
		})
		w.movable(ctx)

		By("changing a host that was accepted")
		tries := func(name string) (count int) {
			for _, write := range w.manager.Writes.Done() {
				if write.Kind == "BareMetalHost" && write.Name == name {
					count++
				}
			}
			return count
		}
		before := tries("new")
		Expect(before).To(BeNumerically(">", 0))
		stage.Change(ctx, w.client, w.key("new"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.Description = "changed"
		})
		w.host(ctx, "later", build.Available())
		Eventually(func() int { return tries("later") }).Should(Equal(1))
		Expect(tries("new")).To(Equal(before), "a request for each change of each host")

		By("upgrading BMO to rules that refuse a host that was accepted")
		refuse("new")
		w.pause(ctx, true)
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason,
			"BareMetalHost new cannot be paused, because the API server refuses to change it"))
	})

	It("keeps the gate closed while owners of Machines are being deleted", func(ctx context.Context) {
		w := s.world(ctx)
		const stay = "example.com/stay"
		plane := &controlplanev1.KubeadmControlPlane{ObjectMeta: named(w.namespace, "plane")}
		plane.Finalizers = []string{stay}
		plane.Spec.Version = "v1.36.3"
		plane.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "Metal3MachineTemplate", Name: "template",
		}
		w.create(ctx, plane)
		workers := &clusterv1.MachineDeployment{ObjectMeta: named(w.namespace, "workers")}
		workers.Finalizers, workers.Spec.ClusterName = []string{stay}, clusterName
		workers.Spec.Selector.MatchLabels = map[string]string{"example.com/workers": ""}
		workers.Spec.Template.Labels = workers.Spec.Selector.MatchLabels
		workers.Spec.Template.Spec = build.Machine("m", clusterName).Spec
		w.create(ctx, workers)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx, begun(), stage.With(func(cluster *clusterv1.Cluster) {
			cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
			cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
				APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "plane",
			}
		})))
		w.gate(ctx, true)
		w.movable(ctx)
		Expect(w.client.Delete(ctx, plane)).To(Succeed())
		Expect(w.client.Delete(ctx, workers)).To(Succeed())
		w.obstacle(ctx, "MachineDeployment workers is being deleted")
		w.pause(ctx, true)
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason,
			"MachineDeployment workers is being deleted, and a move would lose the deletion"))
		stage.Change(ctx, w.client, w.key("workers"), workers, func(workers *clusterv1.MachineDeployment) { workers.Finalizers = nil })
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason,
			"The move waits: KubeadmControlPlane plane is being deleted, and a move would lose the deletion"))
		w.gate(ctx, true)
		stage.Change(ctx, w.client, w.key("plane"), plane, func(plane *controlplanev1.KubeadmControlPlane) { plane.Finalizers = nil })
		w.gate(ctx, false)
	})

	It("keeps the gate closed for a host that clusterctl has not discovered", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "early", build.Available())
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx, begun()))
		w.gate(ctx, true)
		w.pause(ctx, true)
		early := &bmov1alpha1.BareMetalHost{}
		Expect(w.client.Get(ctx, w.key("early"), early)).To(Succeed())
		late := w.hostAfter(ctx, "late", early.CreationTimestamp)
		stage.ChangeStatus(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
			conditions.Set(cluster, metav1.Condition{
				Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Reason: clusterv1.PausedReason,
				LastTransitionTime: early.CreationTimestamp,
			})
		})
		for _, name := range []string{"early", "late"} {
			w.pauseForMove(ctx, name)
		}
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason,
			"BareMetalHost late was created after clusterctl had discovered the objects"))
		w.gate(ctx, true)
		Expect(w.client.Delete(ctx, late)).To(Succeed())
		w.gate(ctx, false)
	})

	It("keeps the gate closed for late objects before Cluster API reports the pause", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "early", build.Available())
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx, begun()))
		w.gate(ctx, true)
		w.pause(ctx, true)
		w.eventually(ctx, infrav1.PausedCondition, stage.IsTrue())
		paused := conditions.Get(w.get(ctx, Default), infrav1.PausedCondition).LastTransitionTime
		other := build.Cluster("other", build.InNamespace(w.namespace), begun())
		w.create(ctx, other)
		late := w.hostAfter(ctx, "late", paused)
		for _, name := range []string{"early", "late"} {
			w.pauseForMove(ctx, name)
		}
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason,
			"BareMetalHost late was created after clusterctl had discovered the objects"))
		Expect(w.client.Delete(ctx, late)).To(Succeed())
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason, "Cluster other"))
		w.gate(ctx, true)
		Expect(w.client.Delete(ctx, other)).To(Succeed())
		w.gate(ctx, false)
	})

	It("reports objects with which clusterctl move returns an error", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx))
		w.obstacle(ctx, "the infrastructure of Cluster cluster is not provisioned")
		stage.ChangeStatus(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
			cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
		})
		w.obstacle(ctx, "the control plane of Cluster cluster is not initialized")
		stage.ChangeStatus(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
			begun()(cluster)
		})
		w.movable(ctx)

		By("pausing another Cluster of the namespace")
		w.create(ctx, build.Cluster("other", build.InNamespace(w.namespace), begun(), build.ClusterPaused()))
		w.obstacle(ctx, "Cluster other is paused")
		stage.Change(ctx, w.client, w.key("other"), &clusterv1.Cluster{}, func(other *clusterv1.Cluster) {
			other.Spec.Paused = nil
			other.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		})
		w.obstacle(ctx, "Cluster other is paused: remove its annotation")
		Expect(w.client.Delete(ctx, build.Cluster("other", build.InNamespace(w.namespace)))).To(Succeed())
		w.movable(ctx)

		By("leaving a ClusterClass paused, as a move does that was given up")
		class := pausedClass(w.namespace)
		w.create(ctx, class)
		w.obstacle(ctx, "ClusterClass class is paused")
		stage.Change(ctx, w.client, w.key("class"), class, func(class *clusterv1.ClusterClass) { class.Annotations = nil })
		w.movable(ctx)

		By("deleting a Machine that has a node")
		w.controlPlaneNode(ctx, "cp-0")
		stage.Change(ctx, w.client, w.key("cp-0"), &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
			build.Finalizers("example.com/stay")(machine)
		})
		Expect(w.client.Delete(ctx, build.Machine("cp-0", clusterName, build.InNamespace(w.namespace)))).To(Succeed())
		w.obstacle(ctx, "Machine cp-0 is being deleted")
		stage.Change(ctx, w.client, w.key("cp-0"), &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
			machine.Finalizers = nil
		})
		w.movable(ctx)
	})

	It("reports Secrets and Clusters that a move would leave behind", func(ctx context.Context) {
		w := s.world(ctx)
		keeper := &corev1.ConfigMap{ObjectMeta: named(w.namespace, "keeper")}
		w.create(ctx, keeper)
		secret := &corev1.Secret{ObjectMeta: named(w.namespace, "host-bmc")}
		w.create(ctx, secret)
		w.host(ctx, "host", build.Available())
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx, begun()))
		w.obstacle(ctx, "Secret host-bmc of host host has no owner and would stay behind")
		stage.Change(ctx, w.client, w.key("host-bmc"), secret, func(secret *corev1.Secret) { build.OwnedBy(keeper)(secret) })
		w.obstacle(ctx, "Secret host-bmc of host host is owned by ConfigMap keeper, which does not move")
		stage.Change(ctx, w.client, w.key("host-bmc"), secret, func(secret *corev1.Secret) {
			secret.OwnerReferences, secret.Labels = nil, map[string]string{infrav1.MoveLabel: ""}
		})
		w.movable(ctx)
		stage.Change(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
			build.OwnedBy(keeper)(cluster)
		})
		w.obstacle(ctx, "Cluster cluster is owned by ConfigMap keeper")
	})

	It("keeps the gate closed until clusterctl has paused all Clusters of the namespace", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.create(ctx, build.Cluster("other", build.InNamespace(w.namespace), begun()))
		w.infrastructure(ctx, w.cluster(ctx, begun()))
		w.host(ctx, "host", build.Available())
		w.gate(ctx, true)
		w.movable(ctx)
		w.pauseForMove(ctx, "host")
		w.pause(ctx, true)
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason,
			"Cluster other is not paused"))
		w.gate(ctx, true)
		stage.Change(ctx, w.client, w.key("other"), &clusterv1.Cluster{}, func(other *clusterv1.Cluster) {
			other.Spec.Paused = ptr.To(true)
		})
		w.gate(ctx, false)
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsTrueBecause(infrav1.MovableReason))
		Consistently(func(g Gomega) {
			g.Expect(w.get(ctx, g).Status.Conditions).To(
				stage.HaveCondition(infrav1.ReadyForMoveCondition, stage.IsTrueBecause(infrav1.MovableReason)))
		}).WithTimeout(2 * stage.Quiet).Should(Succeed())
	})

	It("opens the gate although its infrastructure was never ready", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx, begun()), build.Endpoint("", 0))
		w.eventually(ctx, infrav1.ReadyCondition, HaveField("Reason", infrav1.EndpointMissingReason))
		w.gate(ctx, true)
		w.pause(ctx, true)
		w.gate(ctx, false)
	})

	It("does not write a Metal3Cluster that clusterctl deletes", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx))
		w.gate(ctx, true)
		// The status is the last write of the reconcile that restored block-move.
		w.ready(ctx)
		stage.Change(ctx, w.client, w.key(clusterName), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
			infra.Annotations = map[string]string{infrav1.DeleteForMoveAnnotation: ""}
		})
		w.untouched(ctx)
		w.gate(ctx, false)
	})

	It("arms the nodes of a cluster that manages itself, and disarms them when it is moved back", func(ctx context.Context) {
		w := s.world(ctx)
		w.plane = newSimulatedPlane("cp-0", "cp-1")
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
		Expect(w.plane.armed()).To(Equal([]bool{false, false}), "a management cluster elsewhere holds the endpoint")

		w.plane.change(func(c *simulatedPlane) { c.seen.Own = true })
		Eventually(w.plane.armed).Should(Equal([]bool{true, true}))
		Eventually(func(g Gomega) {
			g.Expect(w.get(ctx, g).Status.Ironic.Nodes).To(HaveEach(HaveField("Armed", HaveValue(BeTrue()))))
		}).Should(Succeed())

		ironic.change(func(i *fakeIronic) { i.conductors = []string{"c1-cp-0"} })
		w.holder(ctx, infrav1.HolderControlPlane, "cp-0")
		w.plane.change(func(c *simulatedPlane) { c.seen.Own = false })
		Consistently(w.plane.armed).Should(Equal([]bool{true, true}), "no other Ironic answers yet")
		ironic.change(func(i *fakeIronic) { i.conductors = []string{"c1-management"} })
		Eventually(w.plane.armed).Should(Equal([]bool{false, false}))
	})

	It("reports no VIP holder while its Machine has no status.nodeRef after a move", func(ctx context.Context) {
		w := s.world(ctx)
		w.plane = newSimulatedPlane("cp-0")
		w.plane.change(func(c *simulatedPlane) { c.seen.Nodes[0].Armed, c.away = pivot.ArmedByProvider, true })
		ironic := newIronic()
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), withIronic(ironic))
		arrived := build.ControlPlaneMachine("cp-0", clusterName, build.InNamespace(w.namespace))
		arrived.Spec.ProviderID = "metal3://metal3/host/cp-0"
		w.create(ctx, arrived)
		material := w.material(ctx)
		ironic.change(func(i *fakeIronic) { i.material, i.conductors = &material, []string{"c1-cp-0"} })
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsTrueBecause(infrav1.EndpointAnswersReason))
		Expect(w.get(ctx, Default).Status.Ironic.Holder).To(BeNil(), "neither a Machine nor a probe names the node")

		w.plane.change(func(c *simulatedPlane) { c.away = false })
		w.holder(ctx, infrav1.HolderControlPlane, "cp-0")
		Consistently(w.plane.armed).Should(Equal([]bool{true}))
	})

	It("records the handover for the management Ironic, and its end", func(ctx context.Context) {
		w := s.world(ctx)
		w.plane = newSimulatedPlane("cp-0")
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx), withIronic(newIronic()))
		w.host(ctx, "host", build.Available())
		w.gate(ctx, true)
		w.pause(ctx, true)
		w.eventually(ctx, infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason, "host host"))
		Expect(w.plane.handedOver("c1")).To(BeFalse())
		warned := func(reason string) int { return w.warnings(ctx, Default, reason) }
		Eventually(warned).WithArguments("MoveBegan").Should(Equal(1))
		Expect(warned("IronicHandedOver")).To(BeZero())
		w.plane.change(func(c *simulatedPlane) { c.err = errors.New("no connection") })
		w.pauseForMove(ctx, "host")
		Eventually(func() bool { return w.plane.handedOver("c1") }).Should(BeTrue())
		w.gate(ctx, true)
		w.plane.change(func(c *simulatedPlane) { c.err = nil })
		w.gate(ctx, false)
		Eventually(warned).WithArguments("IronicHandedOver").Should(Equal(1))
		Expect(warned("MoveBegan")).To(Equal(1), "one pause begins one move")
		w.pause(ctx, false)
		Eventually(func() bool { return w.plane.handedOver("c1") }).Should(BeFalse())
	})

	It("trusts no answer from before a pause", func(ctx context.Context) {
		w, ironic := s.managed(ctx)
		w.pause(ctx, true)
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, HaveField("Status", metav1.ConditionUnknown))
		ironic.change(func(i *fakeIronic) { i.stuck = true })
		w.pause(ctx, false)
		Eventually(w.plane.claims).Should(HaveValue(Equal(pivot.Claim{Epoch: 2, Manager: "here"})))
		Consistently(func(g Gomega) {
			g.Expect(w.get(ctx, g).Status.Conditions).NotTo(
				stage.HaveCondition(infrav1.IronicEndpointReadyCondition, stage.IsTrue()))
		}).Should(Succeed())
		ironic.change(func(i *fakeIronic) { i.stuck = false })
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsTrueBecause(infrav1.EndpointAnswersReason))
	})

	It("stops when another management cluster has claimed the cluster, and continues after a takeover", func(ctx context.Context) {
		w, _ := s.managed(ctx)
		Expect(w.plane.claims()).To(HaveValue(Equal(pivot.Claim{Epoch: 0, Manager: "here"})))

		By("moving the cluster away, and unpausing it here as well")
		w.pause(ctx, true)
		w.gate(ctx, false)
		Eventually(func() bool { return w.plane.handedOver("c1") }).Should(BeTrue())
		w.plane.change(func(c *simulatedPlane) {
			c.recorded = &pivot.Claim{Epoch: 2, Manager: "there"}
			c.seen.Nodes[0].Armed = pivot.NotArmed
		})
		w.pause(ctx, false)
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsFalseBecause(infrav1.ManagedElsewhereReason, "UID there"))
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsFalseBecause(infrav1.ManagedElsewhereReason,
			"`clusterctl metal3 pivot takeover --namespace "+w.namespace+"`"))
		Consistently(func(g Gomega) {
			g.Expect(w.plane.handedOver("c1")).To(BeTrue(), "the Ironic here must not reclaim the VIP")
			g.Expect(w.plane.armed()).To(Equal([]bool{false}), "the other management cluster arms nodes")
			g.Expect(w.get(ctx, g).Status.Conditions).To(
				stage.HaveCondition(infrav1.IronicEndpointReadyCondition,
					stage.IsFalseBecause(infrav1.ManagedElsewhereReason, "")))
		}).Should(Succeed())

		By("pausing it here, and unpausing it by mistake again")
		for range 2 {
			w.pause(ctx, true)
			w.eventually(ctx, infrav1.PausedCondition, stage.IsTrue())
			w.pause(ctx, false)
			w.eventually(ctx, infrav1.PausedCondition, stage.IsFalseBecause(clusterv1.NotPausedReason, ""))
			w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsFalseBecause(infrav1.ManagedElsewhereReason, ""))
		}
		Expect(w.get(ctx, Default).Annotations).To(HaveKeyWithValue(infrav1.MoveEpochAnnotation, "2"))
		Expect(w.plane.claims()).To(HaveValue(Equal(pivot.Claim{Epoch: 2, Manager: "there"})))

		By("taking over")
		stage.Change(ctx, w.client, w.key(clusterName), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
			infra.Annotations[infrav1.MoveEpochAnnotation] = "4"
		})
		w.eventually(ctx, infrav1.IronicEndpointReadyCondition, stage.IsTrueBecause(infrav1.EndpointAnswersReason))
		Expect(w.plane.claims()).To(HaveValue(Equal(pivot.Claim{Epoch: 4, Manager: "here"})))
		Eventually(func() bool { return w.plane.handedOver("c1") }).Should(BeFalse())
		Eventually(w.plane.armed).Should(Equal([]bool{true}))

		By("losing the annotation")
		stage.Change(ctx, w.client, w.key(clusterName), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
			delete(infra.Annotations, infrav1.MoveEpochAnnotation)
		})
		Eventually(func(g Gomega) {
			g.Expect(w.get(ctx, g).Annotations).To(HaveKeyWithValue(infrav1.MoveEpochAnnotation, "4"))
		}).Should(Succeed())
	})

	It("reports control-plane nodes without the pods of the endpoint", func(ctx context.Context) {
		w := s.world(ctx)
		w.plane = newSimulatedPlane("cp-0", "cp-1")
		w.plane.change(func(c *simulatedPlane) { c.seen.Nodes[1].Carries = false })
		ironic := newIronic()
		w.manager.Start()
		w.infrastructure(ctx, w.cluster(ctx, begun()), withIronic(ironic))
		material := w.material(ctx)
		ironic.change(func(i *fakeIronic) { i.material, i.conductors = &material, []string{"other-m"} })
		w.obstacle(ctx, "Ironic endpoint: Conductor other-m")
		ironic.change(func(i *fakeIronic) { i.conductors = []string{"c1-m"} })
		w.obstacle(ctx, "node cp-1 does not run the pods")
		w.plane.change(func(c *simulatedPlane) { c.seen.Nodes[1].Carries, c.err = true, workload.ErrUnreachable })
		w.obstacle(ctx, "does not answer")
		w.plane.change(func(c *simulatedPlane) { c.err = nil })
		w.movable(ctx)
	})
}

// pausedClass returns a ClusterClass that clusterctl paused.
func pausedClass(namespace string) *clusterv1.ClusterClass {
	class := &clusterv1.ClusterClass{ObjectMeta: named(namespace, "class")}
	class.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	template := func(group, kind string) clusterv1.ClusterClassTemplateReference {
		return clusterv1.ClusterClassTemplateReference{APIVersion: group, Kind: kind, Name: "template"}
	}
	class.Spec.Infrastructure.TemplateRef = template(infrav1.GroupVersion.String(), "Metal3ClusterTemplate")
	class.Spec.ControlPlane.TemplateRef = template("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlaneTemplate")
	return class
}

// statusOf returns the annotation for the status of a host.
func statusOf(host *bmov1alpha1.BareMetalHost) string {
	GinkgoHelper()
	content, err := json.Marshal(host.Status)
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}
