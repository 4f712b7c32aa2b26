package e2e_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

// place is the cluster that manages the cluster, and the holder of the VIP. Each story begins in one place and ends
// in one. A story that runs alone first reaches its place in the shortest way.
type place string

const (
	// unarmed: the management cluster manages the cluster and holds the VIP. No node is armed.
	unarmed place = "unarmed"
	// armed is unarmed with nodes that the story arms.
	armed place = "armed"
	// handed is armed without the management Ironic. A node holds the VIP.
	handed place = "handed"
	// movable is unarmed, and the providers are installed in the cluster.
	movable place = "movable"
	// arrived: the cluster manages itself. The management cluster still holds the VIP.
	arrived place = "arrived"
	// alone is arrived without the management machine, which has no power. A node holds the VIP.
	alone place = "alone"
	// beside is alone with the management machine, which has power again.
	beside place = "beside"
	// demoted is arrived without the management Ironic. A node holds the VIP.
	demoted place = "demoted"
)

// way changes from one place to another.
type way struct {
	from, to place
	lead     func(context.Context)
}

func (e *endpoint) ways() []way {
	home := func(ctx context.Context) { e.comeBack(ctx, e.move) }
	return []way{
		{unarmed, armed, e.armAll},
		{unarmed, movable, e.install},
		{armed, handed, e.handOver},
		{armed, unarmed, e.disarmNodes},
		{handed, armed, e.scaleManagementUp},
		{movable, arrived, e.moveIn},
		{arrived, movable, home},
		{arrived, alone, e.loseManagement},
		{arrived, demoted, func(ctx context.Context) {
			Expect(e.demote(ctx)).To(ended(0))
			e.untilHolder(ctx, infrav1.HolderControlPlane)
		}},
		{alone, beside, e.restoreManagement},
		{beside, movable, home},
		{demoted, movable, func(ctx context.Context) {
			Expect(e.demote(ctx, "--undo")).To(ended(0))
			home(ctx)
		}},
	}
}

// story declares a story that begins in one place and ends in another. A way must exist from the end of the previous
// story.
func (e *endpoint) story(text string, from, to place, tell func(context.Context), decorators ...any) {
	if _, leads := route(e.ways(), e.declared, from); !leads {
		panic("no way leads from " + string(e.declared) + " to the story that " + text)
	}
	e.declared = to
	It(text, append(decorators, Offset(1), NodeTimeout(rolloutLimit), func(ctx SpecContext) {
		e.reach(ctx, from)
		tell(ctx)
		e.at = to
	})...)
}

// reach reaches a place in the shortest way.
func (e *endpoint) reach(ctx context.Context, goal place) {
	GinkgoHelper()
	steps, leads := route(e.ways(), e.at, goal)
	Expect(leads).To(BeTrue(), "no way leads from %s to %s", e.at, goal)
	for _, step := range steps {
		By("going from " + string(step.from) + " to " + string(step.to))
		e.untouched = time.Now()
		step.lead(ctx)
		e.at = step.to
	}
}

// route returns the shortest list of ways from one place to another, and false if there is none.
func route(ways []way, from, goal place) ([]way, bool) {
	routes := map[place][]way{from: nil}
	for reached := []place{from}; len(reached) > 0; reached = reached[1:] {
		here := reached[0]
		if here == goal {
			return routes[here], true
		}
		for _, next := range ways {
			if _, known := routes[next.to]; next.from == here && !known {
				routes[next.to] = append(slices.Clone(routes[here]), next)
				reached = append(reached, next.to)
			}
		}
	}
	return nil, false
}

// armAll arms all nodes, and each node that joins later.
func (e *endpoint) armAll(ctx context.Context) {
	GinkgoHelper()
	e.armNodes()
	for _, node := range e.nodes(ctx) {
		e.eventually(ctx, node, "armed", "1")
	}
}

// handOver stops the management Ironic. A node claims the VIP.
func (e *endpoint) handOver(ctx context.Context) {
	GinkgoHelper()
	e.scaleManagement(ctx, 0)
	e.untilHolder(ctx, infrav1.HolderControlPlane)
	e.untilHostsKnown(ctx)
}

// scaleManagementUp starts the management Ironic, which claims the VIP.
func (e *endpoint) scaleManagementUp(ctx context.Context) {
	GinkgoHelper()
	e.scaleManagement(ctx, 1)
	e.untilHolder(ctx, infrav1.HolderManagement)
	e.untilHostsKnown(ctx)
}

// install installs the providers in the workload cluster.
func (e *endpoint) install(ctx context.Context) {
	GinkgoHelper()
	Expect(bed.lab.Install(ctx, e.workload, bed.lab.Ironic())).To(Succeed())
	e.untilReadyForMove(ctx, e.workload)
}

// moveIn moves the cluster to its own control plane. All hosts are unchanged, and the management cluster keeps the
// VIP.
func (e *endpoint) moveIn(ctx context.Context) {
	GinkgoHelper()
	before := e.pictures(ctx, Default)
	e.move(ctx, e.workload)
	e.untilSettled(ctx)
	e.untilArmed(ctx)
	e.untilHolder(ctx, infrav1.HolderManagement)
	e.expectHeldByManagement(e.untouched)
	e.untilSame(ctx, before)
	e.expectUntouched(ctx)
}

// loseManagement powers the management machine off. A node claims the VIP and adopts all hosts.
func (e *endpoint) loseManagement(ctx context.Context) {
	GinkgoHelper()
	Expect(bed.lab.Machine(lab.ManagementName).PowerOff(ctx)).To(Succeed())
	e.untilHolder(ctx, infrav1.HolderControlPlane)
	e.untilHostsKnown(ctx)
	e.expectUntouched(ctx)
}

// restoreManagement powers the management machine on again. The VIP stays on its holder.
func (e *endpoint) restoreManagement(ctx context.Context) {
	GinkgoHelper()
	on := time.Now()
	Expect(bed.lab.Machine(lab.ManagementName).PowerOn(ctx)).To(Succeed())
	e.untilStarted(ctx, on)
	e.untilGuardSays(ctx, "HandedOver")
	e.untilHolder(ctx, infrav1.HolderControlPlane)
	e.untilCalm(ctx)
}

// untilCalm waits until both API servers answer soon again. A machine that starts all pods of a management cluster uses
// the processors for minutes, which the nodes share with it.
func (e *endpoint) untilCalm(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		for _, cluster := range []*lab.Cluster{bed.lab.Management(), e.workload} {
			asked := time.Now()
			g.Expect(cluster.Client.List(ctx, &corev1.PodList{})).To(Succeed())
			g.Expect(time.Since(asked)).To(BeNumerically("<", time.Second), cluster.Name)
		}
	}, patiently()[0], time.Second).MustPassRepeatedly(10).Should(Succeed())
}
