package hostoperator_test

import (
	"context"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/step"
)

func describeLife(s *suite, b backend) {
	It("leads a host through its life", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()

		By("registering and inspecting it")
		w.host(ctx, "host", func(host *bmov1alpha1.BareMetalHost) { host.Spec.PreprovisioningNetworkDataName = "network" })
		w.eventually(ctx, "host", inState(bmov1alpha1.StateAvailable), isFine(),
			HaveField("Finalizers", ConsistOf(bmov1alpha1.BareMetalHostFinalizer)),
			HaveField("Status.HardwareDetails.RAMMebibytes", 2048),
			HaveField("Status.OperationHistory.Register.End", Not(BeZero())),
			HaveField("Status.OperationHistory.Inspect.End", Not(BeZero())),
			HaveField("Status.ErrorCount", 0),
		)
		host := w.get(ctx, "host")
		secret := &corev1.Secret{}
		Expect(w.Get(ctx, w.key("host-bmc"), secret)).To(Succeed())
		Expect(step.IsClaimed(secret, host)).To(BeTrue(), "%v", secret.ObjectMeta)
		Expect(host.Status.GoodCredentials.Match(*secret)).To(BeTrue())
		hardware := &bmov1alpha1.HardwareData{}
		Expect(w.Get(ctx, w.key("host"), hardware)).To(Succeed())
		Expect(hardware.Spec.HardwareDetails).To(Equal(host.Status.HardwareDetails))
		Expect(hardware.OwnerReferences).To(ConsistOf(And(HaveField("UID", host.UID), HaveField("Controller", HaveValue(BeTrue())))))

		By("provisioning it")
		w.secret(ctx, "user", map[string]string{"value": "#cloud-config for the host\n"})
		w.secret(ctx, "meta", map[string]string{"metaData": "local-hostname: from-the-user\nprovider: mine\n"})
		w.secret(ctx, "network", map[string]string{"networkData": `{"services": [{"type": "dns", "address": "192.0.2.53"}]}`})
		w.change(ctx, "host", func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.Image = w.image()
			host.Spec.UserData = &corev1.SecretReference{Name: "user"}
			host.Spec.MetaData = &corev1.SecretReference{Name: "meta", Namespace: w.namespace}
		})
		w.eventually(ctx, "host", inState(bmov1alpha1.StateProvisioned), isFine(), isOn(true),
			HaveField("Status.Provisioning.Image", *w.image()),
			HaveField("Status.OperationHistory.Provision.End", Not(BeZero())),
		)
		Expect(w.drive(w.machine("host"))).To(And(
			ContainSubstring("#cloud-config for the host\n"), ContainSubstring("from-the-user"), ContainSubstring("mine"),
			ContainSubstring("metal3-namespace"), ContainSubstring(string(host.UID)), ContainSubstring("192.0.2.53"),
		))

		By("deprovisioning it")
		w.change(ctx, "host", func(host *bmov1alpha1.BareMetalHost) { host.Spec.Image, host.Spec.Online = nil, false })
		w.eventually(ctx, "host", inState(bmov1alpha1.StateAvailable), isFine(), isOn(false),
			HaveField("Status.Provisioning.Image.URL", BeEmpty()),
			HaveField("Status.OperationHistory.Deprovision.End", Not(BeZero())),
		)

		By("letting it go")
		Expect(w.Delete(ctx, w.get(ctx, "host"))).To(Succeed())
		w.eventuallyGone(ctx, "host")
		Expect(w.Get(ctx, w.key("host-bmc"), secret)).To(Succeed())
		Expect(secret.Finalizers).To(BeEmpty())
		Expect(w.Get(ctx, w.key("host"), hardware)).To(Succeed())
		Expect(hardware.Finalizers).To(BeEmpty())
	})

	It("cleans a host that is deleted while it runs, and switches it off", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()
		w.provisioned(ctx, "host")
		before := len(w.commands(w.machine("host")))
		Expect(w.powered(w.machine("host"))).To(BeTrue())
		Expect(w.Delete(ctx, w.get(ctx, "host"))).To(Succeed())
		w.eventuallyGone(ctx, "host")
		Expect(w.powered(w.machine("host"))).To(BeFalse())
		Expect(w.commands(w.machine("host"))[before:]).To(
			ContainElement(Or(Equal("deleted"), Equal("DELETE disk"))), "the image has to go")
	})

	It("switches a host off and on, and reboots it", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()
		w.provisioned(ctx, "host")

		By("following spec.online")
		w.change(ctx, "host", func(host *bmov1alpha1.BareMetalHost) { host.Spec.Online = false })
		w.eventually(ctx, "host", isOn(false), isFine())
		w.change(ctx, "host", func(host *bmov1alpha1.BareMetalHost) { host.Spec.Online = true })
		w.eventually(ctx, "host", isOn(true), isFine())

		By("granting a request without a name")
		before := len(w.commands(w.machine("host")))
		w.annotate(ctx, "host", bmov1alpha1.RebootAnnotationPrefix, `{"mode":"hard"}`)
		w.eventually(ctx, "host", isOn(true), isFine(), HaveField("Annotations", BeEmpty()))
		Eventually(func() int { return len(w.commands(w.machine("host"))) }).Should(Equal(before + 2))

		By("holding it off for a request with a name")
		w.annotate(ctx, "host", bmov1alpha1.RebootAnnotationPrefix+"/me", "")
		w.eventually(ctx, "host", isOn(false), isFine())
		w.consistently(ctx, "host", isOn(false))
		w.change(ctx, "host", func(host *bmov1alpha1.BareMetalHost) { host.Annotations = nil })
		w.eventually(ctx, "host", isOn(true), isFine(), inState(bmov1alpha1.StateProvisioned))
	})

	It("leaves alone what others have provisioned", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()
		w.host(ctx, "host", func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.ExternallyProvisioned, host.Spec.Online = true, false
		})
		w.eventually(ctx, "host", inState(bmov1alpha1.StateExternallyProvisioned), isFine())
		w.consistently(ctx, "host", inState(bmov1alpha1.StateExternallyProvisioned), isFine())
		Expect(w.commands(w.machine("host"))).To(BeEmpty())
	})

	It("believes what the user says of the hardware", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()
		w.host(ctx, "host", func(host *bmov1alpha1.BareMetalHost) {
			host.Annotations[bmov1alpha1.InspectAnnotationPrefix] = "disabled"
			host.Annotations[bmov1alpha1.HardwareDetailsAnnotation] = `{"ramMebibytes":77}`
		})
		w.eventually(ctx, "host", inState(bmov1alpha1.StateAvailable), isFine(),
			HaveField("Status.HardwareDetails.RAMMebibytes", 77),
			HaveField("Annotations", Not(HaveKey(bmov1alpha1.HardwareDetailsAnnotation))),
			HaveField("Status.OperationHistory.Inspect.Start", BeZero()),
		)
	})

	It("waits for a host to name its management controller", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()
		var details bmov1alpha1.BMCDetails
		w.host(ctx, "host", func(host *bmov1alpha1.BareMetalHost) {
			details, host.Spec.BMC = host.Spec.BMC, bmov1alpha1.BMCDetails{}
		})
		w.eventually(ctx, "host", inState(bmov1alpha1.StateUnmanaged),
			HaveField("Status.OperationalStatus", bmov1alpha1.OperationalStatusDiscovered))
		w.change(ctx, "host", func(host *bmov1alpha1.BareMetalHost) { host.Spec.BMC = details })
		w.eventually(ctx, "host", inState(bmov1alpha1.StateAvailable), isFine())
	})
}
