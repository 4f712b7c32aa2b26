package hostoperator_test

import (
	"context"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

func describeErrors(s *suite, b backend) {
	It("reports wrong credentials, and takes the right ones at once", func(ctx context.Context) {
		w := s.world(ctx, b)
		// A repair that had to wait for the back-off would come too late.
		w.rules.Retry, w.rules.RetryLimit = 2*patience, 2*patience
		w.operate()
		w.secret(ctx, "host-bmc", map[string]string{"username": "operator", "password": "hunter2"})
		w.hostAlone(ctx, "host")
		w.eventually(ctx, "host", inState(bmov1alpha1.StateRegistering),
			hasFailed(bmov1alpha1.RegistrationError, "401"))
		Expect(w.get(ctx, "host").Status.ErrorMessage).NotTo(ContainSubstring("hunter2"))

		stage.Change(ctx, w.Client, w.key("host-bmc"), &corev1.Secret{}, func(secret *corev1.Secret) {
			secret.Data["password"] = []byte(goodPassword)
		})
		w.eventually(ctx, "host", inState(bmov1alpha1.StateAvailable), isFine(), HaveField("Status.ErrorCount", 0))
	})

	It("tries wrong credentials again and again", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()
		w.secret(ctx, "host-bmc", map[string]string{"username": "operator", "password": "hunter2"})
		w.hostAlone(ctx, "host")
		w.eventually(ctx, "host", hasFailed(bmov1alpha1.RegistrationError, "401"),
			HaveField("Status.ErrorCount", BeNumerically(">=", 3)))
		Expect(w.Delete(ctx, w.get(ctx, "host"))).To(Succeed())
		w.eventuallyGone(ctx, "host")
	})

	It("waits for a Secret that is missing or not complete", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()
		w.hostAlone(ctx, "host")
		w.eventually(ctx, "host", hasFailed(bmov1alpha1.RegistrationError, "does not exist"))
		w.secret(ctx, "host-bmc", map[string]string{"username": "operator"})
		w.eventually(ctx, "host", hasFailed(bmov1alpha1.RegistrationError, "needs the keys username and password"))
		stage.Change(ctx, w.Client, w.key("host-bmc"), &corev1.Secret{}, func(secret *corev1.Secret) {
			secret.Data["password"] = []byte(goodPassword)
		})
		w.eventually(ctx, "host", inState(bmov1alpha1.StateAvailable), isFine())
	})

	It("reports an image that cannot be written, and writes the one that can", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()
		w.host(ctx, "host", func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.Image = w.image()
			host.Spec.Image.URL += ".missing"
		})
		w.eventually(ctx, "host", inState(bmov1alpha1.StateProvisioning),
			hasFailed(bmov1alpha1.ProvisioningError, "Image provisioning failed: "),
			HaveField("Status.ErrorMessage", ContainSubstring(".missing")))
		w.change(ctx, "host", func(host *bmov1alpha1.BareMetalHost) { host.Spec.Image = w.image() })
		w.eventually(ctx, "host", inState(bmov1alpha1.StateProvisioned), isFine(), isOn(true),
			HaveField("Status.ErrorCount", 0), HaveField("Status.Provisioning.Image", *w.image()))
	})

	It("reports what Ironic refuses to deploy", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()
		w.host(ctx, "host", func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.CustomDeploy = &bmov1alpha1.CustomDeploy{Method: "install"}
		})
		w.eventually(ctx, "host", hasFailed(bmov1alpha1.ProvisioningError, "instance_info lacks image_source"),
			HaveField("Status.ErrorMessage", HavePrefix("Image provisioning failed: ")))
		GinkgoWriter.Println(w.get(ctx, "host").Status.ErrorMessage)
		w.change(ctx, "host", func(host *bmov1alpha1.BareMetalHost) { host.Spec.CustomDeploy = nil })
		w.eventually(ctx, "host", inState(bmov1alpha1.StateAvailable), isFine())
	})

	It("refuses a second host with the same MAC address", func(ctx context.Context) {
		w := s.world(ctx, b)
		w.operate()
		w.host(ctx, "first")
		w.eventually(ctx, "first", inState(bmov1alpha1.StateAvailable))
		w.host(ctx, "second", func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.BootMACAddress = w.get(ctx, "first").Spec.BootMACAddress
		})
		w.eventually(ctx, "second", hasFailed(bmov1alpha1.RegistrationError, "belongs to the node "+w.namespace+"~first"))
	})
}
