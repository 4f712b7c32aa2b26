package move_test

import (
	"context"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeLabels has the story of kinds that clusterctl does not discover by itself.
func describeLabels(c *clusters) {
	It("finds the kinds of BMO, which are not labelled", func(ctx context.Context) {
		Eventually(func(g Gomega) {
			for _, name := range []string{"hostfirmwaresettings.metal3.io", "bmceventsubscriptions.metal3.io"} {
				definition := &apiextensionsv1.CustomResourceDefinition{}
				g.Expect(c.source.client.Get(ctx, client.ObjectKey{Name: name}, definition)).To(Succeed())
				g.Expect(definition.Labels).To(HaveKey(infrav1.DiscoverLabel))
			}
		}).Should(Succeed())
	})
}

// belongingsMove is the story of two hosts that clusterctl moves without a Cluster, and of the objects that belong to
// them.
func belongingsMove(c *clusters) story {
	return story{"moves hosts with all objects that belong to them, and keeps them paused", func(ctx context.Context) {
		namespace := stage.Namespace(ctx, c.source.server)
		create := func(object client.Object) {
			GinkgoHelper()
			Expect(build.CreateWithStatus(ctx, c.source.client, object)).To(Succeed())
		}
		secret := func(name string) *corev1.Secret {
			return &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Data:       map[string][]byte{"value": []byte("of " + name)},
			}
		}
		labelled := []string{"running-bmc", "ramdisk-network", "user-data", "template-network"}
		// BMO makes a host that is not paused the owner of its Secret, and clusterctl follows owners.
		secrets := append([]string{"free-bmc"}, labelled...)
		for _, name := range append([]string{"unrelated"}, secrets...) {
			create(secret(name))
		}
		running := build.Host("running", build.InNamespace(namespace), build.Provisioned(),
			build.Finalizers(bmov1alpha1.BareMetalHostFinalizer), build.Paused("maintenance"),
			stage.With(func(host *bmov1alpha1.BareMetalHost) {
				host.Spec.PreprovisioningNetworkDataName = "ramdisk-network"
				host.Spec.UserData = &corev1.SecretReference{Name: "user-data", Namespace: namespace}
			}))
		free := build.Host("free", build.InNamespace(namespace), build.Available(),
			build.Finalizers(bmov1alpha1.BareMetalHostFinalizer))
		create(running)
		create(free)
		create(build.MachineTemplate("template", build.InNamespace(namespace),
			stage.With(func(template *infrav1.Metal3MachineTemplate) {
				template.Spec.Template.Spec.NetworkData = &corev1.SecretReference{Name: "template-network"}
			})))
		// BMO sets no owner on the objects of a paused host.
		belongings := slices.Concat(belongings(running), lateOwned(running), lateOwned(free, build.OwnedBy(free)))
		for _, object := range belongings {
			Expect(c.source.client.Create(ctx, object)).To(Succeed())
		}
		c.eventuallyLabelled(ctx, namespace, labelled)

		seen := c.sights(ctx, namespace, 2)
		_, err := c.clusterctl.Run(ctx, "move", "--kubeconfig="+c.source.kubeconfig,
			"--to-kubeconfig="+c.target.kubeconfig, "--namespace="+namespace)
		Expect(err).NotTo(HaveOccurred())

		deleting := 0
		for _, sight := range seen() {
			if sight.deleting {
				deleting++
				Expect(sight.pause).NotTo(BeEmpty(), "%s could have been powered off", sight.host)
			}
		}
		Expect(deleting).To(BeNumerically(">=", 2))
		for _, name := range secrets {
			arrived := secret(name)
			Expect(c.target.client.Get(ctx, client.ObjectKeyFromObject(arrived), arrived)).To(Succeed(), name)
			Expect(arrived.Data).To(Equal(secret(name).Data))
		}
		for _, object := range append([]client.Object{running, free}, belongings...) {
			key := client.ObjectKeyFromObject(object)
			Expect(c.source.client.Get(ctx, key, object)).To(MatchError(ContainSubstring("not found")), "%T", object)
			Expect(c.target.client.Get(ctx, key, object)).To(Succeed(), "%T", object)
		}
		for _, object := range lateOwned(free) {
			Expect(c.target.client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed(), "%T", object)
			Expect(object.GetOwnerReferences()).To(ContainElement(HaveField("UID", free.UID)), "%T", object)
		}
		Expect(running.Annotations).To(Equal(map[string]string{bmov1alpha1.PausedAnnotation: "maintenance"}))
		Expect(free.Annotations).NotTo(HaveKey(bmov1alpha1.PausedAnnotation))
		Expect(c.source.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "unrelated"}, secret(""))).To(Succeed())
	}}
}

// belongings returns objects of BMO for a host: with an owner, and without one.
func belongings(host *bmov1alpha1.BareMetalHost) []client.Object {
	meta := metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name}
	hardware := &bmov1alpha1.HardwareData{ObjectMeta: meta}
	build.OwnedBy(host)(hardware)
	settings := &bmov1alpha1.HostFirmwareSettings{ObjectMeta: meta}
	settings.Spec.Settings = bmov1alpha1.DesiredSettingsMap{}
	build.OwnedBy(host)(settings)
	subscription := &bmov1alpha1.BMCEventSubscription{ObjectMeta: meta}
	subscription.Spec = bmov1alpha1.BMCEventSubscriptionSpec{HostName: host.Name, Destination: "https://events.example/"}
	return []client.Object{hardware, settings, subscription}
}

// lateOwned returns objects that the host owns only after BMO has reconciled it.
func lateOwned(host *bmov1alpha1.BareMetalHost, options ...build.ObjectOption) []client.Object {
	meta := metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name}
	image := &bmov1alpha1.DataImage{ObjectMeta: meta, Spec: bmov1alpha1.DataImageSpec{URL: "http://images.example/data.iso"}}
	policy := &bmov1alpha1.HostUpdatePolicy{ObjectMeta: meta, Spec: bmov1alpha1.HostUpdatePolicySpec{
		FirmwareSettings: bmov1alpha1.HostUpdatePolicyOnReboot,
	}}
	for _, option := range options {
		option(image)
		option(policy)
	}
	return []client.Object{image, policy}
}

func (c *clusters) eventuallyLabelled(ctx context.Context, namespace string, names []string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		for _, name := range names {
			secret := &corev1.Secret{}
			g.Expect(c.source.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)).To(Succeed())
			g.Expect(secret.Labels).To(HaveKey(infrav1.MoveLabel), name)
		}
	}).Should(Succeed())
}

// sight is the state of a host that BMO in the source could read at one moment.
type sight struct {
	host, pause string
	deleting    bool
}

// sights watches the hosts of the source until a number of hosts are deleted, and returns all states.
func (c *clusters) sights(ctx context.Context, namespace string, gone int) func() []sight {
	GinkgoHelper()
	stream := c.source.watch(ctx, namespace, &bmov1alpha1.BareMetalHostList{})
	return func() []sight {
		GinkgoHelper()
		var all []sight
		for left := gone; left > 0; {
			var event watch.Event
			Eventually(stream.ResultChan()).Should(Receive(&event))
			host, isHost := event.Object.(*bmov1alpha1.BareMetalHost)
			Expect(isHost).To(BeTrue(), "%v", event)
			all = append(all, sight{
				host: host.Name, pause: host.Annotations[bmov1alpha1.PausedAnnotation],
				deleting: !host.DeletionTimestamp.IsZero(),
			})
			if event.Type == watch.Deleted {
				left--
			}
		}
		return all
	}
}
