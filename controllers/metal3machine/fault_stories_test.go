package metal3machine_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"syscall"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3machine"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// touched is the annotation that the other writer changes.
const touched = "example.com/touched"

// describeFaults are the stories about failed requests, crashes and outages of API servers. The machine must claim one
// host and release it completely.
func describeFaults(s *suite) {
	faults := map[string]stage.Verdict{
		"too many requests": {
			Err: apierrors.NewTooManyRequests("slow down", 1),
		},
		"an error inside the API server": {Err: apierrors.NewInternalError(errors.New("no leader"))},
		"a refused connection": {Err: &url.Error{
			Op: "Patch", URL: "https://192.0.2.1:6443", Err: fmt.Errorf("dialling: %w", syscall.ECONNREFUSED),
		}},
		"a timeout before the write": {Err: context.DeadlineExceeded},
		"a timeout after the write":  {Err: context.DeadlineExceeded, Lost: true},
		"an error after the write":   {Err: apierrors.NewInternalError(errors.New("connection reset")), Lost: true},
	}
	for name, fault := range faults {
		It("survives this at every second write: "+name, func(ctx context.Context) {
			w := s.livingWorld(ctx)
			writes := 0
			fail := func(stage.Write) stage.Verdict {
				writes++
				if writes%2 == 1 {
					return fault
				}
				return stage.Verdict{}
			}
			w.writes.Judge(fail)
			w.nodes = func(nodes metal3machine.Nodes) metal3machine.Nodes {
				return &unreliableNodes{Nodes: nodes, verdict: fault}
			}
			w.start()
			w.live(ctx)
			Expect(writes).To(BeNumerically(">=", 20), "claim, data, provisioning, link and release are ten writes")
		})
	}

	It("survives a conflict at every second write", func(ctx context.Context) {
		w := s.livingWorld(ctx)
		writes := 0
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			writes++
			if writes%2 == 1 {
				return w.overtake(ctx, write)
			}
			return stage.Verdict{}
		})
		w.start()
		w.live(ctx)
	})

	It("survives a crash of its manager after every write", func(ctx context.Context) {
		w := s.livingWorld(ctx)
		mortal := stage.StartMortal(w.writes, w.start)
		w.onRead = mortal.Revive
		w.live(ctx)
		Expect(mortal.Deaths).To(BeNumerically(">=", 12), "claim, data, provisioning, link and release are more writes")
	})

	It("offers a host that it could not claim to other machines when it is deleted", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			if write.Kind != "BareMetalHost" {
				return stage.Verdict{}
			}
			return stage.Verdict{Err: apierrors.NewInternalError(errors.New("no leader"))}
		})
		w.start()
		w.machine(ctx, "first")
		w.machine(ctx, "second")
		var claimant, waiting string
		Eventually(func(g Gomega) {
			// With an outdated copy, the first machine may lose the host to the second one.
			claimant, waiting = "first", "second"
			second := w.getMachine(ctx, g, "second")
			if conditions.GetReason(second, infrav1.HostAssociatedCondition) == infrav1.AssociationFailedReason {
				claimant, waiting = "second", "first"
			}
			g.Expect(w.getMachine(ctx, g, claimant).Status.Conditions).To(stage.HaveCondition(
				infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.AssociationFailedReason, "no leader")))
			g.Expect(w.getMachine(ctx, g, waiting).Status.Conditions).To(stage.HaveCondition(
				infrav1.HostAssociatedCondition, stage.IsFalseBecause(infrav1.NoHostAvailableReason, "1 host: 1 claimed")))
		}).Should(Succeed())
		w.remove(ctx, claimant)
		w.gone(ctx, claimant)
		w.writes.Judge(nil)
		Expect(w.associated(ctx, waiting)).To(Equal("host"))
	})

	It("leaves a host to other machines while a policy rejects its own changes", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host")
		w.writes.Judge(rejectChanges("first"))
		w.start()
		w.machine(ctx, "first")
		w.eventually(ctx, "first", infrav1.HostAssociatedCondition,
			stage.IsFalseBecause(infrav1.AssociationFailedReason, "denied by a policy"))
		w.machine(ctx, "second")
		Expect(w.associated(ctx, "second")).To(Equal("host"))
		w.eventually(ctx, "first", infrav1.HostAssociatedCondition,
			stage.IsFalseBecause(infrav1.NoHostAvailableReason, "1 host: 1 claimed"))
		w.remove(ctx, "second")
		w.gone(ctx, "second")
		w.writes.Judge(nil)
		Expect(w.associated(ctx, "first")).To(Equal("host"))
	})

	It("reports that a policy rejects its claim, and then its release", func(ctx context.Context) {
		w := s.world(ctx)
		for i := range 2 {
			w.host(ctx, fmt.Sprintf("host-%d", i))
		}
		var refused atomic.Int32
		refuse := func(write stage.Write) stage.Verdict {
			if write.Kind != "BareMetalHost" {
				return stage.Verdict{}
			}
			refused.Add(1)
			return stage.Verdict{Err: apierrors.NewForbidden(schema.GroupResource{Resource: "baremetalhosts"}, write.Name,
				errors.New("denied by a policy"))}
		}
		shows := func(conditionType, reason string) {
			GinkgoHelper()
			w.eventually(ctx, "machine", conditionType, And(HaveField("Reason", reason),
				HaveField("Message", ContainSubstring("denied by a policy"))))
			Eventually(func(g Gomega) { g.Expect(w.events(ctx, g, "machine")).To(ContainElement(reason)) }).Should(Succeed())
		}
		w.writes.Judge(refuse)
		w.start()
		w.machine(ctx, "machine")
		shows(infrav1.HostAssociatedCondition, infrav1.AssociationFailedReason)
		statusWrites := func() (count int) {
			for _, write := range w.writes.Done() {
				if write.String() == "patch status Metal3Machine" {
					count++
				}
			}
			return count
		}
		before := statusWrites()
		Eventually(refused.Load).Should(BeNumerically(">", 2), "the machine starts over")
		Expect(statusWrites()).To(Equal(before), "the message depends on the host that was tried")
		Eventually(func(g Gomega) {
			g.Expect(w.getMachine(ctx, g, "machine").Annotations).To(
				And(Not(HaveKey(infrav1.HostAnnotation)), Not(HaveKey(infrav1.ChosenHostAnnotation))))
		}).Should(Succeed())
		w.writes.Judge(nil)
		w.associated(ctx, "machine")
		w.writes.Judge(refuse)
		w.remove(ctx, "machine")
		shows(infrav1.DeletingCondition, infrav1.ReleaseFailedReason)
		w.writes.Judge(nil)
		w.gone(ctx, "machine")
	})

	It("continues after an outage of the API server", func(ctx context.Context) {
		w := s.livingWorld(ctx)
		line := stage.NewLine(w.server.Config)
		w.config = line.Config
		// The connection breaks during a claim, and again during a release.
		cuts := map[string]bool{"patch BareMetalHost": true, "delete Metal3DataClaim": true}
		cut := make(chan struct{}, len(cuts))
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			if cuts[write.String()] {
				delete(cuts, write.String())
				line.Cut()
				cut <- struct{}{}
			}
			return stage.Verdict{}
		})
		w.onRead = func() {
			select {
			case <-cut:
				// Long enough for several tries to fail.
				held := w.hostsOf(ctx, Default, "machine")
				Consistently(func(g Gomega) { g.Expect(w.hostsOf(ctx, g, "machine")).To(Equal(held)) }).Should(Succeed())
				Expect(line.Mend()).To(Succeed())
			default:
			}
		}
		w.start()
		w.live(ctx)
		Expect(cuts).To(BeEmpty())
	})

	It("reconciles other machines with one worker while the workload cluster hangs", func(ctx context.Context) {
		w := s.world(ctx)
		w.workers = 1
		hanging := &hangingNodes{line: stage.NewLine(w.server.Config), writes: make(chan struct{}, 10)}
		w.nodes = func(nodes metal3machine.Nodes) metal3machine.Nodes {
			hanging.Nodes = nodes
			return hanging
		}
		w.connect(ctx, hanging.line.Config)
		w.operate(ctx)
		taken := w.host(ctx, "taken")
		w.provision(ctx)
		w.node(ctx, "node", "", map[string]string{infrav1.HostUIDLabel: string(taken.UID)})
		Eventually(hanging.writes).Should(Receive())
		w.host(ctx, "free")
		w.machine(ctx, "other")
		Expect(w.associated(ctx, "other")).To(Equal("free"))
		Eventually(hanging.refused.Load).Should(BeNumerically(">", 1), "it is tried again without a request")
		Expect(hanging.writes).To(BeEmpty())
		w.eventually(ctx, "machine", infrav1.NodeLinkedCondition, HaveField("Message", HaveSuffix("did not answer in time")))
	})
}

// rejectChanges rejects changes of a Metal3Machine, but not of its status.
func rejectChanges(machine string) func(stage.Write) stage.Verdict {
	return func(write stage.Write) stage.Verdict {
		if write.String() != "patch Metal3Machine" || write.Name != machine {
			return stage.Verdict{}
		}
		return stage.Verdict{Err: apierrors.NewForbidden(schema.GroupResource{Resource: "metal3machines"}, write.Name,
			errors.New("denied by a policy"))}
	}
}

// hangingNodes stops the line to the workload cluster with the first write of a Node.
type hangingNodes struct {
	metal3machine.Nodes
	line *stage.Line

	// writes are the writes of Nodes. refused counts the requests that were not sent.
	writes  chan struct{}
	refused atomic.Int32
}

func (n *hangingNodes) SetProviderID(
	ctx context.Context, cluster types.NamespacedName, node, providerID string,
) error {
	n.line.Hang()
	n.writes <- struct{}{}
	return n.Nodes.SetProviderID(ctx, cluster, node, providerID)
}

func (n *hangingNodes) Find(
	ctx context.Context, cluster types.NamespacedName, query workload.Query,
) (host.NodeFacts, error) {
	facts, err := n.Nodes.Find(ctx, cluster, query)
	if err == workload.ErrNoAnswer { //nolint:errorlint // A request that was sent wraps it.
		n.refused.Add(1)
	}
	return facts, err
}

// overtake writes an object before the manager does. A write with a resource version then conflicts. For other writes,
// overtake returns a conflict itself.
func (w *world) overtake(ctx context.Context, write stage.Write) stage.Verdict {
	if write.Kind != "BareMetalHost" {
		return stage.Verdict{Err: apierrors.NewConflict(schema.GroupResource{}, write.Name, errors.New("it was changed"))}
	}
	host := &bmov1alpha1.BareMetalHost{}
	host.Namespace, host.Name = w.namespace, write.Name
	touch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, touched, rand.Text())
	if err := w.client.Patch(ctx, host, client.RawPatch(types.MergePatchType, []byte(touch))); err != nil {
		return stage.Verdict{Err: err}
	}
	return stage.Verdict{}
}

// describeRefusedSpecs has the story of a webhook that refuses all changes of the spec.
func describeRefusedSpecs(s *suite) {
	It("is not provisioned before its provider ID and its failure domain are stored", func(ctx context.Context) {
		w := s.connectedWorld(ctx)
		w.host(ctx, "host")
		w.settled(ctx, "host")
		w.start()
		w.machine(ctx, "machine")
		w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsTrue())
		refused := make(chan struct{}, 100)
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			if write.String() != "patch Metal3Machine" {
				return stage.Verdict{}
			}
			refused <- struct{}{}
			return stage.Verdict{Err: apierrors.NewInternalError(errors.New("the webhook has no endpoint"))}
		})
		w.node(ctx, "node", "", map[string]string{infrav1.HostUIDLabel: string(w.getHost(ctx, Default, "host").UID)})
		// The second pass begins with the status that the first one has written.
		for range 4 {
			Eventually(refused).Should(Receive())
		}
		machine := w.getMachine(ctx, Default, "machine")
		Expect(machine.Spec.ProviderID).To(BeEmpty())
		Expect(machine.Status.Initialization.Provisioned).To(Or(BeNil(), HaveValue(BeFalse())))
		w.writes.Judge(nil)
		w.eventually(ctx, "machine", infrav1.ReadyCondition, stage.IsTrue())
		Expect(w.getMachine(ctx, Default, "machine").Spec.ProviderID).To(Equal(w.providerID("host", "machine")))
	})
}

// livingWorld returns a world for the whole life of a machine.
func (s *suite) livingWorld(ctx context.Context) *world {
	GinkgoHelper()
	w := s.connectedWorld(ctx)
	for _, name := range []string{"host-0", "host-1", "host-2"} {
		w.host(ctx, name)
		w.settled(ctx, name)
	}
	return w
}

// live runs the life of a machine from its claim to its release.
func (w *world) live(ctx context.Context) {
	GinkgoHelper()
	before := w.hosts(ctx)
	w.dataSecrets(ctx, "own-network")
	w.machine(ctx, "machine", withDataTemplate())
	name := w.associated(ctx, "machine")
	w.eventually(ctx, "machine", infrav1.DataReadyCondition, stage.IsFalseBecause(infrav1.WaitingForDataReason, ""))
	w.render(ctx, "machine", true)
	w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, stage.IsTrue())
	Expect(w.hostsOf(ctx, Default, "machine")).To(ConsistOf(name))
	host := w.getHost(ctx, Default, name)
	node := w.node(ctx, "node", "", map[string]string{infrav1.HostUIDLabel: string(host.UID)})
	w.eventually(ctx, "machine", infrav1.ReadyCondition, stage.IsTrue())
	Expect(w.nodeID(ctx, node)).To(Equal(w.providerID(name, "machine")))
	Expect(w.getMachine(ctx, Default, "machine").Spec.ProviderID).To(Equal(w.providerID(name, "machine")))
	Expect(w.hostsOf(ctx, Default, "machine")).To(ConsistOf(name))

	w.remove(ctx, "machine")
	w.gone(ctx, "machine")
	Eventually(func(g Gomega) {
		for name, left := range before {
			now := w.getHost(ctx, g, name)
			delete(now.Annotations, touched)
			g.Expect(cmp.Diff(steady(&left), steady(now), cmpopts.EquateEmpty())).To(BeEmpty())
		}
	}).Should(Succeed())
	claim := &infrav1.Metal3DataClaim{}
	if err := w.client.Get(ctx, w.key("machine"), claim); !apierrors.IsNotFound(err) {
		Expect(err).NotTo(HaveOccurred())
		Expect(claim.DeletionTimestamp).NotTo(BeNil())
		Expect(claim.Finalizers).To(ConsistOf(infrav1.DataClaimFinalizer), "only the controller of claims is left")
	}
}

// unreliableNodes fails every second write of a Node.
type unreliableNodes struct {
	metal3machine.Nodes
	verdict stage.Verdict
	writes  int
}

func (n *unreliableNodes) SetProviderID(
	ctx context.Context, cluster types.NamespacedName, node, providerID string,
) error {
	n.writes++
	if n.writes%2 == 0 {
		return n.Nodes.SetProviderID(ctx, cluster, node, providerID)
	}
	if n.verdict.Lost {
		if err := n.Nodes.SetProviderID(ctx, cluster, node, providerID); err != nil {
			return err
		}
	}
	return n.verdict.Err
}
