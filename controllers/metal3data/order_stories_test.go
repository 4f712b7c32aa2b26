package metal3data_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/seed"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeOrders are the stories about deletions in any order.
func describeOrders(s *suite) {
	It("leaves nothing behind, in whatever order the objects of a machine are deleted", func(ctx context.Context) {
		w := s.world(ctx)
		w.pools(ctx)
		w.manager.Start()
		steps := func(machine int) [][]client.Object {
			in := func(object client.Object, format string) client.Object {
				object.SetNamespace(w.namespace)
				object.SetName(fmt.Sprintf(format, machine))
				return object
			}
			return [][]client.Object{
				{in(&infrav1.Metal3DataTemplate{}, "t-%d")},
				{in(&infrav1.Metal3DataClaim{}, "m-%d")},
				{in(&infrav1.Metal3Data{}, "t-%d-0")},
				{in(&metal3ipamv1.IPClaim{}, "t-%d-0-pool"), in(&ipamv1.IPAddressClaim{}, "t-%d-0-other")},
				{in(&corev1.Secret{}, "m-%d-metadata")},
				{in(&infrav1.Metal3Machine{}, "m-%d")},
			}
		}
		all := orders(len(steps(0)))
		for machine := range all {
			w.template(ctx, fmt.Sprintf("t-%d", machine), both)
			w.machine(ctx, fmt.Sprintf("m-%d", machine), fmt.Sprintf("t-%d", machine))
		}
		w.allReady(ctx, len(all))
		// The controllers reconcile a machine while the story deletes objects of the other ones.
		for step := range steps(0) {
			for machine, order := range all {
				for _, object := range steps(machine)[order[step]] {
					Expect(client.IgnoreNotFound(w.client.Delete(ctx, object))).To(Succeed())
				}
			}
		}
		w.nothingLeft(ctx)
		Eventually(func(g Gomega) {
			var templates infrav1.Metal3DataTemplateList
			g.Expect(w.client.List(ctx, &templates, client.InNamespace(w.namespace))).To(Succeed())
			g.Expect(templates.Items).To(BeEmpty())
		}).Should(Succeed())
		// The garbage collector, which does not run here, deletes the Secrets that were rendered again.
		var secrets corev1.SecretList
		Expect(w.client.List(ctx, &secrets, client.InNamespace(w.namespace))).To(Succeed())
		for i := range secrets.Items {
			Expect(metav1.GetControllerOf(&secrets.Items[i])).To(HaveValue(HaveField("Kind", "Metal3Data")))
		}
		for claim, count := range w.releases() {
			Expect(count).To(Equal(1), "deletions of %s", claim)
		}
	})
}

// describeSingleReleases are the stories that count deletions.
func describeSingleReleases(s *suite) {
	It("releases each address once, despite two managers, lost responses, conflicts and a crash", func(ctx context.Context) {
		const machines = 20
		chosen := seed.Chosen()
		By(fmt.Sprintf("seed %d", chosen))
		random := rand.New(rand.NewPCG(chosen, 0))
		w := s.world(ctx)
		w.pools(ctx)
		w.template(ctx, "template", both)
		for i := range machines {
			w.machine(ctx, fmt.Sprintf("m-%d", i), "template")
		}
		first := w.manager.Start()
		w.allReady(ctx, machines)
		lost := map[stage.Write]bool{}
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			chance := random.IntN(8)
			switch {
			case isRelease(write) && !lost[write], chance == 0:
				lost[write] = true
				return stage.Verdict{Err: errors.New("the connection broke"), Lost: true}
			case chance == 1:
				return stage.Verdict{Err: errors.New("the connection broke")}
			case chance == 2:
				return stage.Verdict{Err: apierrors.NewConflict(schema.GroupResource{}, write.Name, errors.New("changed"))}
			default:
				return stage.Verdict{}
			}
		})
		w.manager.Start()
		for i := range machines {
			w.releaseClaim(ctx, fmt.Sprintf("m-%d", i))
			if i == machines/2 {
				first.Stop()
				w.manager.Start()
			}
		}
		w.nothingLeft(ctx)
		// The manager that crashed may not have seen the response to a deletion, which is not counted then.
		Expect(w.releases()).To(HaveEach(1))
	})
}

// allReady waits until a number of Metal3Data exist and are rendered.
func (w *world) allReady(ctx context.Context, count int) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var list infrav1.Metal3DataList
		g.Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
		g.Expect(list.Items).To(HaveLen(count))
		g.Expect(list.Items).To(HaveEach(HaveField("Status.Ready", HaveValue(BeTrue()))))
	}).Should(Succeed())
}

// releases returns the number of deletions of each claim of an address that the managers sent and the API server
// accepted.
func (w *world) releases() map[string]int {
	counts := map[string]int{}
	for _, write := range w.writes.Done() {
		if isRelease(write) {
			counts[write.Kind+" "+write.Name]++
		}
	}
	return counts
}

func isRelease(write stage.Write) bool {
	return write.String() == "delete IPClaim" || write.String() == "delete IPAddressClaim"
}

// orders returns orders of steps in which each step follows each set of other steps. A decision of a controller depends
// on the objects that are deleted or being deleted at that time, and not on the order of these deletions.
func orders(steps int) [][]int {
	type move struct{ before, step int }
	tried := map[move]bool{}
	untried := func(from int) int {
		count := 0
		for before := range 1 << steps {
			for step := range steps {
				if before&from == from && before&(1<<step) == 0 && !tried[move{before, step}] {
					count++
				}
			}
		}
		return count
	}
	var all [][]int
	for untried(0) > 0 {
		var order []int
		for before := 0; len(order) < steps; {
			best, most := 0, -1
			for step := range steps {
				gain := untried(before | 1<<step)
				if !tried[move{before, step}] {
					gain += steps << steps
				}
				if before&(1<<step) == 0 && gain > most {
					best, most = step, gain
				}
			}
			tried[move{before, best}] = true
			order, before = append(order, best), before|1<<best
		}
		all = append(all, order)
	}
	return all
}
