package metal3machinetemplate_test

import (
	"context"
	"errors"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeCleaningMode are the stories about the cleaning mode.
func describeCleaningMode(s *suite) {
	cleaning := func(mode string) build.ObjectOption {
		return stage.With(func(template *infrav1.Metal3MachineTemplate) {
			template.Spec.Template.Spec.AutomatedCleaningMode = mode
		})
	}
	machineWrites := func(w *world) []stage.Write {
		var found []stage.Write
		for _, write := range w.writes.Done() {
			if write.Kind == "Metal3Machine" {
				found = append(found, write)
			}
		}
		return found
	}
	patched := func(name string) stage.Write { return stage.Write{Verb: "patch", Kind: "Metal3Machine", Name: name} }

	It("copies a new cleaning mode once to the machines that differ", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx, "same", "template", "disabled")
		w.machine(ctx, "differs", "template", "metadata")
		w.machine(ctx, "silent", "template", "")
		w.machine(ctx, "unrelated", "other-template", "metadata")
		w.template(ctx, cleaning("disabled"))
		w.manager.Start()
		Eventually(func(g Gomega) {
			for _, name := range []string{"same", "differs", "silent"} {
				g.Expect(w.modeOf(ctx, g, name)).To(Equal("disabled"))
			}
		}).Should(Succeed())
		Consistently(func() []stage.Write { return machineWrites(w) }).Should(ConsistOf(patched("differs"), patched("silent")))
		Expect(w.modeOf(ctx, Default, "unrelated")).To(Equal("metadata"))

		w.change(ctx, func(spec *infrav1.Metal3MachineSpec) { spec.AutomatedCleaningMode = "metadata" })
		Eventually(func(g Gomega) { g.Expect(machineWrites(w)).To(HaveLen(5)) }).Should(Succeed())
		Expect(w.modeOf(ctx, Default, "same")).To(Equal("metadata"))
	})

	It("copies the mode to a new machine that was created from an older template", func(ctx context.Context) {
		w := s.world(ctx)
		w.template(ctx, cleaning("disabled"))
		w.manager.Start()
		w.eventually(ctx, infrav1.PausedCondition, HaveField("Reason", clusterv1.NotPausedReason))
		w.machine(ctx, "late", "template", "metadata")
		Eventually(func(g Gomega) { g.Expect(w.modeOf(ctx, g, "late")).To(Equal("disabled")) }).Should(Succeed())
	})

	It("copies no empty mode and no other field", func(ctx context.Context) {
		w := s.world(ctx)
		w.machine(ctx, "machine", "template", "metadata")
		w.template(ctx)
		w.manager.Start()
		w.eventually(ctx, infrav1.PausedCondition, HaveField("Reason", clusterv1.NotPausedReason))
		w.change(ctx, func(spec *infrav1.Metal3MachineSpec) { spec.FailureDomain = "room-1" })
		Consistently(func() []stage.Write { return machineWrites(w) }).Should(BeEmpty())
	})

	It("continues with the other machines after a failed write", func(ctx context.Context) {
		w := s.world(ctx)
		for _, name := range []string{"a", "b", "c"} {
			w.machine(ctx, name, "template", "metadata")
		}
		failures := 0
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			if write.Name == "b" && failures < 3 {
				failures++
				return stage.Verdict{Err: apierrors.NewInternalError(errors.New("no leader"))}
			}
			return stage.Verdict{}
		})
		w.template(ctx, cleaning("disabled"))
		w.manager.Start()
		Eventually(func(g Gomega) {
			g.Expect(machineWrites(w)).To(ConsistOf(patched("a"), patched("b"), patched("c")))
		}).Should(Succeed())
	})
}

// describeCapacity are the stories about the capacity of hosts.
func describeCapacity(s *suite) {
	offers := func(ctx context.Context, w *world, cpus, memory infrav1.Quantity, architecture infrav1.Architecture) {
		GinkgoHelper()
		w.eventually(ctx, infrav1.ReadyCondition, stage.IsTrueBecause(infrav1.CapacityKnownReason))
		Eventually(func(g Gomega) {
			status := w.get(ctx, g).Status
			g.Expect(status.Capacity[corev1.ResourceCPU]).To(Equal(cpus))
			g.Expect(status.Capacity[corev1.ResourceMemory]).To(Equal(memory))
			g.Expect(status.NodeInfo).To(HaveValue(Equal(
				infrav1.NodeInfo{OperatingSystem: "linux", Architecture: architecture})))
		}).Should(Succeed())
	}

	It("reports the minimum capacity of the selected hosts", func(ctx context.Context) {
		w := s.world(ctx)
		rack := build.Labels(map[string]string{"rack": "a"})
		w.host(ctx, "large", rack, build.Hardware(64, 4096))
		w.host(ctx, "long", rack, build.Hardware(8, 65536))
		w.host(ctx, "tiny", build.Hardware(1, 512))
		w.host(ctx, "unknown", rack)
		w.template(ctx, build.Selecting(map[string]string{"rack": "a"}))
		w.manager.Start()
		offers(ctx, w, "8", "4Gi", "amd64")

		w.changeHardware(ctx, "long", func(details *bmov1alpha1.HardwareDetails) { details.CPU.Count = 16 })
		offers(ctx, w, "16", "4Gi", "amd64")
		w.changeHardware(ctx, "large", func(details *bmov1alpha1.HardwareDetails) { details.CPU.Arch = "aarch64" })
		offers(ctx, w, "16", "4Gi", "")
		stage.Change(ctx, w.client, w.key("large"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Labels["rack"] = "b"
		})
		offers(ctx, w, "16", "64Gi", "amd64")
		w.host(ctx, "new", rack, build.Hardware(2, 2048))
		offers(ctx, w, "2", "2Gi", "amd64")
		Expect(w.client.Delete(ctx, build.Host("new", build.InNamespace(w.namespace)))).To(Succeed())
		offers(ctx, w, "16", "64Gi", "amd64")
	})

	It("reports an unknown capacity and an invalid selector", func(ctx context.Context) {
		w := s.world(ctx)
		w.template(ctx)
		w.manager.Start()
		w.eventually(ctx, infrav1.ReadyCondition, stage.IsFalseBecause(infrav1.CapacityUnknownReason,
			"Waiting for the inspection of a BareMetalHost that matches spec.template.spec.hostSelector"))
		w.host(ctx, "host", build.Hardware(2, 2048))
		offers(ctx, w, "2", "2Gi", "amd64")
		w.change(ctx, func(spec *infrav1.Metal3MachineSpec) {
			spec.HostSelector.MatchExpressions = []infrav1.HostSelectorRequirement{{Key: "rack", Operator: "within"}}
		})
		w.eventually(ctx, infrav1.ReadyCondition,
			stage.IsFalseBecause(infrav1.InvalidHostSelectorReason, `operator "within" is unknown`))
		Expect(w.get(ctx, Default).Status.Capacity).To(BeEmpty())
	})

	It("has no capacity that clients cannot parse", func(ctx context.Context) {
		w := s.world(ctx)
		w.template(ctx)
		for _, text := range []string{"1e1.5", "1e100"} {
			status := fmt.Appendf(nil, `{"status": {"capacity": {"cpu": %q}}}`, text)
			err := w.client.Status().Patch(ctx, w.get(ctx, Default), client.RawPatch(types.MergePatchType, status))
			Expect(err).To(MatchError(ContainSubstring("status.capacity.cpu: Invalid value")), text)
		}
	})

	It("writes nothing for irrelevant changes of hosts", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host", build.Hardware(2, 2048))
		w.template(ctx)
		w.manager.Start()
		offers(ctx, w, "2", "2Gi", "amd64")
		version := w.get(ctx, Default).ResourceVersion
		stage.ChangeStatus(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Status.PoweredOn = true
		})
		w.changeHardware(ctx, "host", func(details *bmov1alpha1.HardwareDetails) { details.Hostname = "other" })
		Consistently(func(g Gomega) { g.Expect(w.get(ctx, g).ResourceVersion).To(Equal(version)) }).Should(Succeed())
	})
}

// describeOthers are the stories about pauses, moves and the watch filter.
func describeOthers(s *suite) {
	It("only reports the pause while it is paused", func(ctx context.Context) {
		w := s.world(ctx)
		w.host(ctx, "host", build.Hardware(2, 2048))
		w.machine(ctx, "machine", "template", "metadata")
		cluster := build.Cluster("cluster", build.InNamespace(w.namespace), build.ClusterPaused())
		w.create(ctx, cluster)
		w.template(ctx, build.OwnedBy(cluster), stage.With(func(template *infrav1.Metal3MachineTemplate) {
			template.Spec.Template.Spec.AutomatedCleaningMode = "disabled"
		}))
		w.manager.Start()
		w.eventually(ctx, infrav1.PausedCondition, stage.IsTrueBecause(clusterv1.PausedReason))
		Consistently(func(g Gomega) { g.Expect(w.modeOf(ctx, g, "machine")).To(Equal("metadata")) }).Should(Succeed())
		Expect(w.get(ctx, Default).Status.Capacity).To(BeEmpty())
		w.pause(ctx, false)
		w.eventually(ctx, infrav1.ReadyCondition, stage.IsTrueBecause(infrav1.CapacityKnownReason))
		Eventually(func(g Gomega) { g.Expect(w.modeOf(ctx, g, "machine")).To(Equal("disabled")) }).Should(Succeed())
	})

	It("does nothing while a move deletes it, and does not write a machine that a move deletes", func(ctx context.Context) {
		w := s.world(ctx)
		moving := build.Annotations(map[string]string{infrav1.DeleteForMoveAnnotation: ""})
		disabled := stage.With(func(template *infrav1.Metal3MachineTemplate) {
			template.Spec.Template.Spec.AutomatedCleaningMode = "disabled"
		})
		w.machine(ctx, "machine", "template", "metadata")
		w.machine(ctx, "moving", "template", "metadata")
		stage.Change(ctx, w.client, w.key("moving"), &infrav1.Metal3Machine{}, func(machine *infrav1.Metal3Machine) {
			moving(machine)
		})
		w.template(ctx, disabled, moving)
		w.manager.Start()
		w.writes.AwaitRead("template")
		Consistently(func(g Gomega) {
			g.Expect(w.get(ctx, g).Status.Conditions).To(BeEmpty())
			g.Expect(w.modeOf(ctx, g, "machine")).To(Equal("metadata"))
		}).Should(Succeed())
		stage.Change(ctx, w.client, w.key("template"), &infrav1.Metal3MachineTemplate{},
			func(template *infrav1.Metal3MachineTemplate) { template.Annotations = nil })
		Eventually(func(g Gomega) { g.Expect(w.modeOf(ctx, g, "machine")).To(Equal("disabled")) }).Should(Succeed())
		Expect(w.modeOf(ctx, Default, "moving")).To(Equal("metadata"))
	})

	It("reconciles only templates with the label of its watch filter", func(ctx context.Context) {
		w := s.world(ctx)
		w.watchFilter = "mine"
		w.template(ctx, build.Labels(map[string]string{clusterv1.WatchLabel: "theirs"}))
		w.create(ctx, build.MachineTemplate("mine", build.InNamespace(w.namespace),
			build.Labels(map[string]string{clusterv1.WatchLabel: "mine"})))
		w.manager.Start()
		// The event of a host enqueues all templates of the namespace.
		w.host(ctx, "host", build.Hardware(2, 2048))
		w.writes.AwaitRead("mine")
		Consistently(func(g Gomega) { g.Expect(w.get(ctx, g).Status.Conditions).To(BeEmpty()) }).Should(Succeed())
	})
}
