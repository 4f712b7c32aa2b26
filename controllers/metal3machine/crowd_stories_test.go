package metal3machine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/seed"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeCrowds is the story about more machines than hosts.
func describeCrowds(s *suite) {
	const (
		machines, hosts = 40, 25

		// One write in oneIn fails.
		oneIn = 5
	)

	It("claims each host for one of many machines, and released hosts for the others", func(ctx context.Context) {
		w := s.world(ctx)
		w.workers = 16
		w.operate(ctx)
		for i := range hosts {
			w.host(ctx, fmt.Sprintf("host-%02d", i))
		}
		chosen := seed.Chosen()
		AddReportEntry("seed of the failures", fmt.Sprintf("%s=%d", seed.Variable, chosen))
		dice := rand.New(rand.NewPCG(chosen, chosen))
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			if dice.IntN(oneIn) != 0 {
				return stage.Verdict{}
			}
			return w.failure(ctx, write, dice)
		})
		changes := w.watchConsumers(ctx)
		w.start()
		for i := range machines {
			w.machine(ctx, fmt.Sprintf("machine-%02d", i))
		}
		var associated []string
		Eventually(func(g Gomega) {
			associated = w.associatedMachines(ctx, g, hosts)
			g.Expect(w.waiting(ctx, g)).To(HaveLen(machines - hosts))
		}).Should(Succeed())

		for _, machine := range associated[:machines-hosts] {
			w.remove(ctx, machine)
		}
		for _, machine := range associated[:machines-hosts] {
			w.gone(ctx, machine)
		}
		Eventually(func(g Gomega) {
			w.associatedMachines(ctx, g, hosts)
			g.Expect(w.waiting(ctx, g)).To(BeEmpty())
		}).Should(Succeed())
		Expect(changes()).To(BeEmpty())
	})
}

// failure returns the verdict for a write: a conflict, or an error before or after the write.
func (w *world) failure(ctx context.Context, write stage.Write, dice *rand.Rand) stage.Verdict {
	if dice.IntN(2) == 0 {
		return w.overtake(ctx, write)
	}
	return stage.Verdict{Err: apierrors.NewInternalError(errors.New("no leader")), Lost: dice.IntN(2) == 0}
}

// associatedMachines returns the associated machines. It expects a number of them, each with its own host.
func (w *world) associatedMachines(ctx context.Context, g Gomega, want int) []string {
	var list infrav1.Metal3MachineList
	g.Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	consumers := map[string]string{}
	for name, host := range w.hosts(ctx) {
		if host.Spec.ConsumerRef != nil {
			consumers[w.namespace+"/"+name] = host.Spec.ConsumerRef.Name
		}
	}
	var names []string
	for _, machine := range list.Items {
		if meta.IsStatusConditionTrue(machine.Status.Conditions, infrav1.HostProvisionedCondition) {
			g.Expect(consumers).To(HaveKeyWithValue(machine.Annotations[infrav1.HostAnnotation], machine.Name))
			names = append(names, machine.Name)
		}
	}
	g.Expect(names).To(HaveLen(want))
	g.Expect(consumers).To(HaveLen(want))
	return names
}

// waiting returns the machines that report that they can claim no host.
func (w *world) waiting(ctx context.Context, g Gomega) []string {
	var list infrav1.Metal3MachineList
	g.Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	var waiting []string
	for _, machine := range list.Items {
		condition := meta.FindStatusCondition(machine.Status.Conditions, infrav1.HostAssociatedCondition)
		if condition == nil || condition.Reason == infrav1.NoHostAvailableReason {
			waiting = append(waiting, machine.Name)
		}
	}
	return waiting
}

// watchConsumers watches the hosts. The returned function returns the hosts that changed their machine without a
// release.
func (w *world) watchConsumers(ctx context.Context) func() []string {
	GinkgoHelper()
	watcher, err := client.NewWithWatch(w.server.Config, client.Options{Scheme: build.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	stream, err := watcher.Watch(ctx, &bmov1alpha1.BareMetalHostList{}, client.InNamespace(w.namespace))
	Expect(err).NotTo(HaveOccurred())
	found := make(chan []string)
	go func() {
		var changes []string
		consumers := map[string]string{}
		for event := range stream.ResultChan() {
			host, isHost := event.Object.(*bmov1alpha1.BareMetalHost)
			if !isHost {
				continue
			}
			before, now := consumers[host.Name], ""
			if host.Spec.ConsumerRef != nil {
				now = host.Spec.ConsumerRef.Name
			}
			if before != "" && now != "" && before != now {
				changes = append(changes, fmt.Sprintf("%s went from %s to %s", host.Name, before, now))
			}
			consumers[host.Name] = now
		}
		found <- changes
	}()
	return func() []string {
		stream.Stop()
		return <-found
	}
}
