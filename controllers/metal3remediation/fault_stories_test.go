package metal3remediation_test

import (
	"context"
	"errors"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// unreliable fails every second write of a Node.
type unreliable struct {
	metal3remediation.Nodes
	verdict stage.Verdict
	writes  *atomic.Int64
}

func (n *unreliable) do(write func() error) error {
	if n.writes.Add(1)%2 == 0 {
		return write()
	}
	if n.verdict.Lost {
		if err := write(); err != nil {
			return err
		}
	}
	return n.verdict.Err
}

func (n *unreliable) Write(ctx context.Context, cluster types.NamespacedName, current, desired *corev1.Node) error {
	return n.do(func() error { return n.Nodes.Write(ctx, cluster, current, desired) })
}

func (n *unreliable) Delete(ctx context.Context, cluster types.NamespacedName, node *corev1.Node) error {
	return n.do(func() error { return n.Nodes.Delete(ctx, cluster, node) })
}

// describeFaults are the stories about failed requests and crashes.
func describeFaults(s *suite) {
	faults := map[string]stage.Verdict{
		"an error before the write": {Err: apierrors.NewInternalError(errors.New("no leader"))},
		"a timeout after the write": {Err: context.DeadlineExceeded, Lost: true},
		"a conflict": {
			Err: apierrors.NewConflict(schema.GroupResource{}, name, errors.New("it was changed")),
		},
	}
	for title, fault := range faults {
		It("survives this at every second write: "+title, func(ctx context.Context) {
			w := s.world(ctx)
			w.clusters = old
			w.machine(ctx)
			w.operate(ctx)
			writes := 0
			w.writes.Judge(func(stage.Write) stage.Verdict {
				if writes++; writes%2 == 1 {
					return fault
				}
				return stage.Verdict{}
			})
			onNodes := &atomic.Int64{}
			w.nodes = func(nodes metal3remediation.Nodes) metal3remediation.Nodes {
				return &unreliable{Nodes: nodes, verdict: fault, writes: onNodes}
			}
			w.start()
			w.live(ctx)
			Expect(writes).To(BeNumerically(">=", 8))
			Expect(onNodes.Load()).To(BeNumerically(">=", 2), "the Node is deleted, and restored")
		})
	}

	It("survives a crash of its manager after every write", func(ctx context.Context) {
		w := s.world(ctx)
		w.clusters = old
		w.machine(ctx)
		w.operate(ctx)
		mortal := stage.StartMortal(w.writes, w.start)
		w.onRead = mortal.Revive
		w.live(ctx)
		Expect(mortal.Deaths).To(BeNumerically(">=", 6))
	})

	It("reports that a policy rejects its write of the host, and of the Machine", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		refuse := func(kind string) {
			w.writes.Judge(func(write stage.Write) stage.Verdict {
				if write.Kind != kind {
					return stage.Verdict{}
				}
				return stage.Verdict{Err: apierrors.NewForbidden(schema.GroupResource{}, write.Name, errors.New("denied by a policy"))}
			})
		}
		refuse("BareMetalHost")
		w.start()
		w.remediate(ctx)
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.RebootFailedReason, "denied by a policy"))
		Eventually(func(g Gomega) { g.Expect(w.events(ctx, g)).To(ContainElement("Warning RebootFailed")) }).Should(Succeed())
		w.writes.Judge(nil)
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.PoweringOffReason, ""))
		refuse("Machine")
		stage.Change(ctx, w.client, w.key(name), &infrav1.Metal3Remediation{}, at(`{"phase":"Deleting machine"}`))
		w.eventually(ctx, infrav1.HostRebootedCondition,
			stage.IsFalseBecause(infrav1.RebootFailedReason, "etting condition OwnerRemediated of Machine machine"))
		w.writes.Judge(nil)
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.RetriesExhaustedReason, ""))
	})

	It("marks the Machine after the last try although a policy rejects its write of the host", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx)
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			if write.Kind != "BareMetalHost" {
				return stage.Verdict{}
			}
			return stage.Verdict{Err: apierrors.NewForbidden(schema.GroupResource{}, write.Name, errors.New("denied by a policy"))}
		})
		w.start()
		w.remediate(ctx, at(`{"phase":"Deleting machine"}`))
		Eventually(func(g Gomega) {
			g.Expect(w.owner(ctx, g).Status.Conditions).To(
				stage.HaveCondition(clusterv1.MachineOwnerRemediatedCondition, HaveField("Status", metav1.ConditionFalse)))
		}).Should(Succeed())
		w.eventually(ctx, infrav1.HostRebootedCondition, stage.IsFalseBecause(infrav1.RebootFailedReason, "denied by a policy"))
	})
}

// live runs the life of a remediation in a cluster without the out-of-service taint.
func (w *world) live(ctx context.Context) {
	GinkgoHelper()
	w.remediate(ctx)
	w.eventually(ctx, infrav1.NodeRestoredCondition, stage.IsFalseBecause(infrav1.WaitingForNodeReason, "Waiting for Node"))
	w.joins(ctx, nil)
	w.done(ctx)
	Expect(w.getNode(ctx, Default).Labels).To(HaveKeyWithValue("rack", "a"))
	Expect(w.request(ctx, Default).Status.RetryCount).To(BeZero())
	w.remove(ctx, w.request(ctx, Default))
	w.gone(ctx)
	Expect(w.host(ctx, Default).Annotations).To(BeEmpty())
	Expect(w.host(ctx, Default).Spec.Online).To(BeTrue())
}
