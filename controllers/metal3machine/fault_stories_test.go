package metal3machine_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"syscall"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3machine"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/hostsim"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeFaults are the stories about requests that fail, programs that die and API servers that are away. Whatever
// happens, the machine gets one host and leaves nothing behind.
func describeFaults(s *suite) {
	host := corev1.Resource("object")
	faults := map[string]stage.Verdict{
		"a conflict": {Err: apierrors.NewConflict(host, "object", errors.New("it was changed"))},
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
		It("lives through this at every second write: "+name, func(ctx context.Context) {
			w := s.livingWorld(ctx)
			asked := 0
			judge := func(stage.Write) stage.Verdict {
				asked++
				if asked%2 == 1 {
					return fault
				}
				return stage.Verdict{}
			}
			w.writes.Judge(judge)
			w.nodes = func(real metal3machine.Nodes) metal3machine.Nodes {
				return &unreliableNodes{Nodes: real, verdict: fault}
			}
			w.start()
			w.live(ctx)
			Expect(asked).To(BeNumerically(">=", 20), "claim, data, provisioning, link and release are ten writes")
		})
	}

	It("lives though its manager dies after every single write", func(ctx context.Context) {
		w := s.livingWorld(ctx)
		dead := make(chan struct{}, 1)
		died := false
		w.writes.Judge(func(stage.Write) stage.Verdict {
			if died {
				return stage.Verdict{Err: errors.New("the process is dead")}
			}
			died = true
			dead <- struct{}{}
			return stage.Verdict{Err: errors.New("the process died before the answer came"), Lost: true}
		})
		running := w.start()
		deaths := 0
		w.look = func() {
			select {
			case <-dead:
				running.Stop()
				died = false
				deaths++
				running = w.start()
			default:
			}
		}
		w.live(ctx)
		Expect(deaths).To(BeNumerically(">=", 12), "claim, data, provisioning, link and release are more writes")
	})

	It("goes on after an outage of the API server", func(ctx context.Context) {
		w := s.livingWorld(ctx)
		line := stage.NewLine(w.server.Config)
		w.config = line.Config
		// The line breaks in the middle of a claim, and once more in the middle of a release.
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
		w.look = func() {
			select {
			case <-cut:
				// Long enough for several tries to fail.
				held := w.held(ctx, Default, "machine")
				Consistently(func(g Gomega) { g.Expect(w.held(ctx, g, "machine")).To(Equal(held)) }).Should(Succeed())
				Expect(line.Mend()).To(Succeed())
			default:
			}
		}
		w.start()
		w.live(ctx)
		Expect(cuts).To(BeEmpty())
	})
}

// livingWorld makes a world in which a machine can live from its claim to its release.
func (s *suite) livingWorld(ctx context.Context) *world {
	GinkgoHelper()
	w := s.world(ctx)
	w.connected = true
	w.connect(ctx)
	w.simulate(hostsim.Delays{})
	for _, name := range []string{"host-0", "host-1", "host-2"} {
		w.host(ctx, name)
		w.settled(ctx, name)
	}
	return w
}

// live is the life of a machine: it gets a host, data and a node, and gives everything back.
func (w *world) live(ctx context.Context) {
	GinkgoHelper()
	before := w.hosts(ctx)
	w.machine(ctx, "machine", withDataTemplate())
	name := w.associated(ctx, "machine")
	w.eventually(ctx, "machine", infrav1.DataReadyCondition, isFalseBecause(infrav1.WaitingForDataReason, ""))
	w.render(ctx, "machine", true)
	w.eventually(ctx, "machine", infrav1.HostProvisionedCondition, isTrue())
	Expect(w.held(ctx, Default, "machine")).To(ConsistOf(name))
	host := w.getHost(ctx, Default, name)
	node := w.node(ctx, "node", "", map[string]string{infrav1.HostUIDLabel: string(host.UID)})
	w.eventually(ctx, "machine", infrav1.ReadyCondition, isTrue())
	Expect(w.nodeID(ctx, node)).To(Equal(w.providerID(name, "machine")))
	Expect(w.getMachine(ctx, Default, "machine").Spec.ProviderID).To(Equal(w.providerID(name, "machine")))
	Expect(w.held(ctx, Default, "machine")).To(ConsistOf(name))

	w.remove(ctx, "machine")
	w.gone(ctx, "machine")
	Eventually(func(g Gomega) {
		for name, left := range before {
			g.Expect(cmp.Diff(steady(&left), steady(w.getHost(ctx, g, name)))).To(BeEmpty())
		}
	}).Should(Succeed())
	claim := &infrav1.Metal3DataClaim{}
	Expect(apierrors.IsNotFound(w.client.Get(ctx, w.key("machine"), claim))).To(BeTrue(), "left behind: %v", claim)
}

// unreliableNodes fails every second write of a node.
type unreliableNodes struct {
	metal3machine.Nodes
	verdict stage.Verdict
	asked   int
}

func (n *unreliableNodes) SetProviderID(
	ctx context.Context, cluster types.NamespacedName, node, providerID string,
) error {
	n.asked++
	if n.asked%2 == 0 {
		return n.Nodes.SetProviderID(ctx, cluster, node, providerID)
	}
	if n.verdict.Lost {
		if err := n.Nodes.SetProviderID(ctx, cluster, node, providerID); err != nil {
			return err
		}
	}
	return n.verdict.Err
}
