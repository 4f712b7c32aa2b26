package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

// describeUpgrade has the story of an upgrade of BMO with provisioned hosts.
func describeUpgrade(w *world) {
	It("stays as it is when BMO is upgraded, and a host that is being provisioned continues", func(ctx context.Context) {
		management := bed.lab.Management()
		DeferCleanup(func(ctx context.Context) {
			Expect(bed.lab.UpgradeOperator(ctx, management)).To(Succeed())
		}, NodeTimeout(storyLimit))
		Expect(bed.lab.EarlierOperator(ctx, management)).To(Succeed())
		w.scale(ctx, 2)
		w.untilRunning(ctx, w.workers.Name, 2)

		known := w.machineNames(ctx, Default)
		finish, err := bed.lab.BMC().HoldImage(lab.NodeImage)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(finish)
		w.scale(ctx, 3)
		Eventually(func() int { return bed.lab.BMC().Held(lab.NodeImage) }, patiently()...).Should(Equal(1), "an agent waits")
		var deployed string
		for _, machine := range w.metal3Machines(ctx, Default, w.workers.Name) {
			if !slices.Contains(known, machine.Name) {
				deployed = hostOf(&machine)
			}
		}
		w.untilReconciled(ctx)
		hosts, ready := picturesOf(w.hosts(ctx, Default), deployed), w.readySince(ctx, known)

		upgraded := time.Now()
		Expect(bed.lab.UpgradeOperator(ctx, management)).To(Succeed())
		w.untilReconciled(ctx)
		fmt.Printf("the upgraded BMO reconciled all hosts after %s\n", time.Since(upgraded).Round(time.Second))
		Expect(changes(upgraded)).To(BeEmpty())
		// The earlier BMO writes no conditions.
		same := cmpopts.IgnoreFields(bmov1alpha1.BareMetalHostStatus{}, "Conditions")
		Expect(cmp.Diff(hosts, picturesOf(w.hosts(ctx, Default), deployed), same)).To(BeEmpty())
		finish()
		w.untilRunning(ctx, w.workers.Name, 3)
		Expect(inserted(upgraded, deployed)).To(BeZero(), "the waiting agent writes the image")
		Expect(changes(upgraded, deployed)).To(BeEmpty())
		Expect(w.readySince(ctx, known)).To(Equal(ready), "a machine was not ready meanwhile")

		w.scale(ctx, 1)
		w.untilRunning(ctx, w.workers.Name, 1)
		w.noSurplus(ctx)
	}, NodeTimeout(storyLimit))
}

// readySince returns the times since when Metal3Machines are ready.
func (w *world) readySince(ctx context.Context, names []string) map[string]metav1.Time {
	GinkgoHelper()
	since := map[string]metav1.Time{}
	for _, name := range names {
		machine := &infrav1.Metal3Machine{}
		Expect(w.Get(ctx, named(name), machine)).To(Succeed())
		ready := meta.FindStatusCondition(machine.Status.Conditions, infrav1.ReadyCondition)
		Expect(ready).To(HaveField("Status", metav1.ConditionTrue), name)
		since[name] = ready.LastTransitionTime
	}
	return since
}

// untilReconciled waits until the running BMO has reconciled each host.
func (w *world) untilReconciled(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		written, err := bed.lab.Management().Kubectl(ctx, "logs", "--namespace", lab.OperatorNamespace,
			"deployment/"+lab.OperatorDeployment, "--tail=-1")
		g.Expect(err).NotTo(HaveOccurred())
		for _, host := range w.hosts(ctx, g) {
			isDone := func(line string) bool {
				return strings.Contains(line, `"msg":"done"`) && strings.Contains(line, `"name":"`+host.Name+`"`)
			}
			g.Expect(slices.ContainsFunc(strings.Split(written, "\n"), isDone)).To(BeTrue(), host.Name)
		}
	}, patiently()...).Should(Succeed())
}
