package e2e_test

import (
	"context"
	"fmt"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/agent"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/iso/isotest"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine"
)

// liveMedium is the name of a live ISO.
const liveMedium = "live"

// describeDeploys has the stories about machines without an image on the disk.
func describeDeploys(w *world) {
	It("boots a live ISO on the host of a machine, and does not write the disk", func(ctx context.Context) {
		bed.lab.BMC().AddMedium(liveMedium, isotest.Make(GinkgoTB(), "genisoimage",
			map[string]string{machine.LiveFile: bed.lab.NodeRoot()}, "-r"))
		began := time.Now()
		name := w.another(ctx, liveMedium, func(_ *clusterv1.MachineDeployment, template *infrav1.Metal3MachineTemplate) {
			template.Spec.Template.Spec.Image = &infrav1.Image{
				URL: bmc.MediumURL(liveMedium), DiskFormat: infrav1.LiveISODiskFormat,
			}
		})
		used := w.untilDeployed(ctx, name)
		fmt.Printf("a live ISO runs on %s after %s\n", used, time.Since(began).Round(time.Second))
		w.untilReason(ctx, name, infrav1.WaitingForNodeReason, "")
		status := w.host(ctx, Default, used).Status.Provisioning
		Expect(status.Image).To(Equal(bmov1alpha1.Image{
			URL: bmc.MediumURL(liveMedium), DiskFormat: ptr.To(infrav1.LiveISODiskFormat),
		}))
		run(ctx, used, "touch", "/root/of-this-boot")
		Expect(bed.lab.Machine(used).Installed()).To(BeEmpty(), "nothing is written to the disk")

		rebooted := time.Now()
		w.reboot(ctx, used)
		Eventually(func() error {
			_, err := bed.lab.Machine(used).Run(ctx, "test", "!", "-e", "/root/of-this-boot")
			return err
		}, patiently()...).Should(Succeed(), "the machine boots from the medium again")
		Expect(changesOf(rebooted, used)).To(HaveEach(HaveField("Resource", "reset")), "the medium stays in the drive")

		w.removeOther(ctx, name)
		w.untilFree(ctx, used)
		machine := bed.lab.Machine(used)
		Expect(!machine.Running() || machine.RunsRamdisk()).To(BeTrue(), "the live system still runs")
	}, NodeTimeout(storyLimit))

	It("gets a worker from a deploy step of the ramdisk instead of an image", func(ctx context.Context) {
		began := time.Now()
		name := w.another(ctx, "custom", func(_ *clusterv1.MachineDeployment, template *infrav1.Metal3MachineTemplate) {
			template.Spec.Template.Spec.Image = nil
			template.Spec.Template.Spec.CustomDeploy = &infrav1.CustomDeploy{Method: agent.InstallStep}
		})
		w.untilRunning(ctx, name, 1)
		used := w.untilDeployed(ctx, name)
		fmt.Printf("a custom deploy made a node of %s after %s\n", used, time.Since(began).Round(time.Second))
		host := w.host(ctx, Default, used)
		Expect(host.Spec.Image).To(BeNil())
		Expect(host.Status.Provisioning.Image).To(BeZero())
		Expect(host.Status.Provisioning.CustomDeploy).To(Equal(&bmov1alpha1.CustomDeploy{Method: agent.InstallStep}))
		Expect(inserted(began, used)).To(BeNumerically("<", 3),
			"its agent boots for the step, unless it runs since the host was cleaned, and before it to clean the host, unless it was")

		w.removeOther(ctx, name)
		w.untilFree(ctx, used)
		Expect(w.host(ctx, Default, used).Spec.CustomDeploy).To(BeNil())
		Expect(bed.lab.Machine(used).Installed()).To(BeEmpty(), "the disk")
	}, NodeTimeout(storyLimit))
}

// untilDeployed waits until the host of the only machine of a MachineDeployment is provisioned, and returns its name.
func (w *world) untilDeployed(ctx context.Context, deployment string) string {
	GinkgoHelper()
	var name string
	Eventually(func(g Gomega) {
		machines := w.metal3Machines(ctx, g, deployment)
		g.Expect(machines).To(HaveLen(1))
		g.Expect(reached(infrav1.HostProvisionedCondition)(&machines[0])).To(BeTrue())
		name = hostOf(&machines[0])
		g.Expect(w.host(ctx, g, name)).To(And(inState(bmov1alpha1.StateProvisioned), isWell(), isOn()))
		g.Expect(bed.lab.Machine(name).Running()).To(BeTrue())
	}, patiently()...).Should(Succeed())
	return name
}

// reboot requests a reboot of a host and waits for it.
func (w *world) reboot(ctx context.Context, name string) {
	GinkgoHelper()
	began := time.Now()
	host := w.host(ctx, Default, name)
	before := host.DeepCopy()
	metav1.SetMetaDataAnnotation(&host.ObjectMeta, bmov1alpha1.RebootAnnotationPrefix, "")
	Expect(w.Patch(ctx, host, client.MergeFrom(before))).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(reboots(began, name)).To(Equal(1))
		g.Expect(w.host(ctx, g, name)).To(And(isWell(), isOn()))
		g.Expect(bed.lab.Machine(name).Running()).To(BeTrue())
	}, patiently()...).Should(Succeed())
}
