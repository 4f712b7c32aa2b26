package e2e_test

import (
	"context"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

const (
	// managerNamespace is the namespace in which clusterctl installs the provider.
	managerNamespace = "capm3-system"

	// outage is how long the API server is unavailable.
	outage = time.Minute

	apiServerManifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"
	apiServerAside    = "/root/kube-apiserver.yaml"
)

// describeFaults has the stories about faults around the provider.
func describeFaults(w *world) {
	It("gets its worker although the manager is killed in every phase", func(ctx context.Context) {
		started := w.machineNames(ctx, Default)
		w.scale(ctx, 2)
		for _, phase := range []func(*infrav1.Metal3Machine) bool{
			func(machine *infrav1.Metal3Machine) bool { return hostOf(machine) != "" },
			reached(infrav1.HostAssociatedCondition),
			reached(infrav1.HostProvisionedCondition),
			reached(infrav1.NodeLinkedCondition),
		} {
			w.untilPhase(ctx, started, phase)
			killManager(ctx)
		}
		w.untilRunning(ctx, w.workers.Name, 2)

		w.scale(ctx, 1)
		w.untilPhase(ctx, nil, func(machine *infrav1.Metal3Machine) bool { return !machine.DeletionTimestamp.IsZero() })
		killManager(ctx)
		w.untilRunning(ctx, w.workers.Name, 1)
		w.noSurplus(ctx)
	}, NodeTimeout(storyLimit))

	It("continues after the API server was unavailable for a minute", func(ctx context.Context) {
		started := w.machineNames(ctx, Default)
		w.scale(ctx, 2)
		w.untilPhase(ctx, started, reached(infrav1.HostAssociatedCondition))
		withoutAPIServer(ctx, func(away func(Gomega)) {
			Consistently(away, outage, time.Second).Should(Succeed())
		})
		w.untilRunning(ctx, w.workers.Name, 2)
		w.scale(ctx, 1)
		w.untilRunning(ctx, w.workers.Name, 1)
		w.noSurplus(ctx)
	}, NodeTimeout(storyLimit))

	It("reports a host with wrong credentials, and claims it when they are corrected", func(ctx context.Context) {
		chosen := w.anyFree(ctx)
		owned := w.copies(ctx, chosen)
		Expect(w.Delete(ctx, w.host(ctx, Default, chosen))).To(Succeed())
		w.untilGone(ctx, owned)
		selected := map[string]string{"story": "credentials"}
		var right []byte
		for _, object := range owned {
			switch object := object.(type) {
			case *corev1.Secret:
				if password, has := object.Data["password"]; has {
					right, object.Data["password"] = password, []byte("wrong")
				}
			case *bmov1alpha1.BareMetalHost:
				object.Labels = selected
			}
			Expect(client.IgnoreAlreadyExists(w.Create(ctx, object))).To(Succeed())
		}
		Eventually(func(g Gomega) {
			g.Expect(w.host(ctx, g, chosen).Status.ErrorType).To(Equal(bmov1alpha1.RegistrationError))
		}, patiently()...).Should(Succeed())
		name := w.another(ctx, "wrong", func(_ *clusterv1.MachineDeployment, template *infrav1.Metal3MachineTemplate) {
			template.Spec.Template.Spec.HostSelector.MatchLabels = selected
		})
		w.untilReason(ctx, name, infrav1.NoHostAvailableReason, "in error")
		w.changeSecret(ctx, w.host(ctx, Default, chosen).Spec.BMC.CredentialsName, func(credentials *corev1.Secret) {
			credentials.Data["password"] = right
		})
		w.untilRunning(ctx, name, 1)
		Expect(w.onlyHost(ctx, Default, name)).To(Equal(chosen))
		w.removeOther(ctx, name)
		w.untilFree(ctx, chosen)
		w.unlabel(ctx, chosen)
	}, NodeTimeout(storyLimit))

	It("reports why an image cannot be deployed, and releases the host", func(ctx context.Context) {
		name := w.another(ctx, "broken", func(_ *clusterv1.MachineDeployment, template *infrav1.Metal3MachineTemplate) {
			template.Spec.Template.Spec.Image.Checksum = strings.Repeat("0", 64)
		})
		w.untilReason(ctx, name, infrav1.HostErrorReason, "checksum")
		used := w.onlyHost(ctx, Default, name)
		w.removeOther(ctx, name)
		w.untilFree(ctx, used)
	}, NodeTimeout(storyLimit))

	It("reports the deletion of a host with a machine, and replaces the machine on demand", func(ctx context.Context) {
		lost := w.onlyHost(ctx, Default, w.workers.Name)
		restore := w.copies(ctx, lost)
		Expect(w.Delete(ctx, w.host(ctx, Default, lost))).To(Succeed())
		w.untilReason(ctx, w.workers.Name, infrav1.HostLostReason, lost)
		machines := w.machines(ctx, Default, w.workers.Name)
		Expect(machines).To(HaveLen(1))
		Expect(w.Delete(ctx, &machines[0])).To(Succeed())
		w.untilRunning(ctx, w.workers.Name, 1)
		Expect(w.onlyHost(ctx, Default, w.workers.Name)).NotTo(Equal(lost))
		w.untilGone(ctx, restore)
		for _, object := range restore {
			// A Secret without an owner still exists.
			Expect(client.IgnoreAlreadyExists(w.Create(ctx, object))).To(Succeed())
		}
		w.untilFree(ctx, lost)
	}, NodeTimeout(storyLimit))
}

// withoutAPIServer stops the API server of the management cluster while do runs. The argument of do checks the
// outage.
func withoutAPIServer(ctx context.Context, do func(away func(Gomega))) {
	GinkgoHelper()
	management := bed.lab.Management()
	machine := bed.lab.Machine(management.Name)
	answers := func(ctx context.Context) error { return management.Client.List(ctx, &bmov1alpha1.BareMetalHostList{}) }
	away := func(g Gomega) { g.Expect(answers(ctx)).NotTo(Succeed()) }
	_, err := machine.Run(ctx, "mv", apiServerManifest, apiServerAside)
	Expect(err).NotTo(HaveOccurred())
	defer func() {
		// Also after an error or a timeout: the cleanup requires the API server.
		ctx := context.WithoutCancel(ctx)
		_, err := machine.Run(ctx, "mv", apiServerAside, apiServerManifest)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error { return answers(ctx) }, patiently()...).Should(Succeed())
	}()
	Eventually(away, patiently()...).Should(Succeed())
	do(away)
}

func reached(condition string) func(*infrav1.Metal3Machine) bool {
	return func(machine *infrav1.Metal3Machine) bool { return isTrue(machine.Status.Conditions, condition) }
}

func (w *world) machineNames(ctx context.Context, g Gomega) []string {
	var names []string
	for _, machine := range w.metal3Machines(ctx, g, w.workers.Name) {
		names = append(names, machine.Name)
	}
	return names
}

// untilPhase waits until a new worker has reached a phase.
func (w *world) untilPhase(ctx context.Context, before []string, phase func(*infrav1.Metal3Machine) bool) {
	GinkgoHelper()
	const often = 100 * time.Millisecond
	Eventually(func(g Gomega) {
		found := false
		for _, machine := range w.metal3Machines(ctx, g, w.workers.Name) {
			known := false
			for _, name := range before {
				known = known || name == machine.Name
			}
			found = found || !known && phase(&machine)
		}
		g.Expect(found).To(BeTrue())
	}, patiently()[0], often).Should(Succeed())
}

// killManager kills the manager of the management cluster with SIGKILL. Its Deployment restarts it.
func killManager(ctx context.Context) {
	GinkgoHelper()
	_, err := bed.lab.Management().Kubectl(ctx, "delete", "pods", "--all", "--namespace", managerNamespace,
		"--grace-period=0", "--force", "--wait=false")
	Expect(err).NotTo(HaveOccurred())
}

// noSurplus requires that no more hosts are claimed than there are machines.
func (w *world) noSurplus(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		consumers := map[string]int{}
		for _, found := range w.hosts(ctx, g) {
			if found.Spec.ConsumerRef != nil {
				consumers[found.Spec.ConsumerRef.Name]++
			}
		}
		var machines infrav1.Metal3MachineList
		g.Expect(w.List(ctx, &machines, client.InNamespace(lab.Namespace))).To(Succeed())
		g.Expect(consumers).To(HaveLen(len(machines.Items)))
		for name, held := range consumers {
			g.Expect(held).To(Equal(1), name)
		}
	}, patiently()...).Should(Succeed())
}

// another creates a MachineDeployment with one machine, like that of the workers except for a change.
func (w *world) another(ctx context.Context, name string,
	change func(*clusterv1.MachineDeployment, *infrav1.Metal3MachineTemplate),
) string {
	GinkgoHelper()
	Expect(w.Get(ctx, client.ObjectKeyFromObject(w.workers), w.workers)).To(Succeed())
	template := &infrav1.Metal3MachineTemplate{}
	key := client.ObjectKey{Namespace: lab.Namespace, Name: w.workers.Spec.Template.Spec.InfrastructureRef.Name}
	Expect(w.Get(ctx, key, template)).To(Succeed())
	template.ObjectMeta = metav1.ObjectMeta{Namespace: lab.Namespace, Name: clusterName + "-" + name}
	template.Spec.NodeReuse = false
	deployment := &clusterv1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: lab.Namespace, Name: template.Name},
		Spec: clusterv1.MachineDeploymentSpec{
			ClusterName: clusterName, Replicas: ptr.To[int32](1),
			Template: *w.workers.Spec.Template.DeepCopy(),
		},
	}
	deployment.Spec.Template.Labels = map[string]string{"of": template.Name}
	deployment.Spec.Selector.MatchLabels = map[string]string{"of": template.Name}
	deployment.Spec.Template.Spec.InfrastructureRef.Name = template.Name
	change(deployment, template)
	Expect(w.Create(ctx, template)).To(Succeed())
	Expect(w.Create(ctx, deployment)).To(Succeed())
	return deployment.Name
}

// removeOther deletes the objects of another, and waits until its machines are deleted.
func (w *world) removeOther(ctx context.Context, name string) {
	GinkgoHelper()
	named := metav1.ObjectMeta{Namespace: lab.Namespace, Name: name}
	Expect(w.Delete(ctx, &clusterv1.MachineDeployment{ObjectMeta: named})).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(w.metal3Machines(ctx, g, name)).To(BeEmpty())
	}, patiently()...).Should(Succeed())
	err := w.Delete(ctx, &infrav1.Metal3MachineTemplate{ObjectMeta: named})
	Expect(client.IgnoreNotFound(err)).To(Succeed())
}

// anyFree returns the name of a host without a consumer.
func (w *world) anyFree(ctx context.Context) string {
	GinkgoHelper()
	for _, candidate := range w.hosts(ctx, Default) {
		if candidate.Spec.ConsumerRef == nil && candidate.Status.Provisioning.State == bmov1alpha1.StateAvailable {
			return candidate.Name
		}
	}
	Fail("no host is free")
	return ""
}

// untilGone waits until a deleted host and its owned Secret do not exist.
func (w *world) untilGone(ctx context.Context, objects []client.Object) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		for _, object := range objects {
			found, isObject := object.DeepCopyObject().(client.Object)
			g.Expect(isObject).To(BeTrue())
			err := w.Get(ctx, client.ObjectKeyFromObject(object), found)
			if apierrors.IsNotFound(err) {
				continue
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found.GetOwnerReferences()).To(BeEmpty(), "%T %s is deleted with its owner", object, object.GetName())
			g.Expect(found).NotTo(BeAssignableToTypeOf(&bmov1alpha1.BareMetalHost{}), found.GetName())
		}
	}, patiently()...).Should(Succeed())
}

// unlabel removes the labels of a host.
func (w *world) unlabel(ctx context.Context, name string) {
	GinkgoHelper()
	found := w.host(ctx, Default, name)
	before := found.DeepCopy()
	found.Labels = nil
	Expect(w.Patch(ctx, found, client.MergeFrom(before))).To(Succeed())
}

// copies returns copies of a host and its Secrets as their owner created them, because the Secrets are deleted with
// the host.
func (w *world) copies(ctx context.Context, name string) []client.Object {
	GinkgoHelper()
	found := w.host(ctx, Default, name)
	var copies []client.Object
	for _, secret := range []string{found.Spec.BMC.CredentialsName, found.Spec.PreprovisioningNetworkDataName} {
		read := &corev1.Secret{}
		err := w.Get(ctx, client.ObjectKey{Namespace: lab.Namespace, Name: secret}, read)
		if apierrors.IsNotFound(err) {
			continue
		}
		Expect(err).NotTo(HaveOccurred())
		copies = append(copies, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: read.Namespace, Name: read.Name}, Data: read.Data, Type: read.Type,
		})
	}
	return append(copies, &bmov1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: found.Namespace, Name: found.Name}, Spec: w.found[name],
	})
}
