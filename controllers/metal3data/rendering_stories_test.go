package metal3data_test

import (
	"context"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// plain is a template without pools.
const plain = "{metaData: {indexes: [{key: rank}], objectNames: [{key: name, object: machine}]}, networkData: {links: {ethernets: [{type: phy, id: nic0, macAddress: {fromHostInterface: eth0}}]}}}"

func describeRendering(s *suite) {
	It("renders the data of a machine into Secrets", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.template(ctx, "template", plain)
		w.machine(ctx, "machine", "template")
		w.ready(ctx, "template-0")
		Expect(w.secret(ctx, "machine-metadata", "metaData")).To(MatchYAML(
			`{name: machine, rank: "0", providerid: ` + w.namespace + `/host-machine/machine}`))
		Expect(w.secret(ctx, "machine-networkdata", "networkData")).To(MatchYAML(
			`{links: [{type: phy, id: nic0, mtu: 1500, ethernet_mac_address: "52:54:00:00:00:01"}], networks: [], services: []}`))

		data := w.data(ctx, Default, "template-0")
		Expect(data.Spec.Index).To(HaveValue(BeEquivalentTo(0)))
		Expect(data.Spec.MetaData).To(HaveField("Name", "machine-metadata"))
		Expect(data.Spec.NetworkData).To(HaveField("Name", "machine-networkdata"))
		Expect(data.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, clusterName))
		Expect(data.Finalizers).To(ConsistOf(infrav1.DataFinalizer, infrav1.DataClaimFinalizer))
		Expect(data.Status.Conditions).To(stage.HaveCondition(infrav1.ReadyCondition, stage.IsTrue()))
		claim := &infrav1.Metal3DataClaim{}
		Eventually(func(g Gomega) {
			g.Expect(w.client.Get(ctx, w.key("machine"), claim)).To(Succeed())
			g.Expect(claim.Status.RenderedData).To(HaveValue(HaveField("Name", "template-0")))
		}).Should(Succeed())
		Expect(metav1.IsControlledBy(data, claim)).To(BeTrue())
		template := &infrav1.Metal3DataTemplate{}
		Eventually(func(g Gomega) {
			g.Expect(w.client.Get(ctx, w.key("template"), template)).To(Succeed())
			g.Expect(template.Status.Indexes).To(ConsistOf(infrav1.DataIndex{Index: 0, Name: "machine"}))
		}).Should(Succeed())
		Expect(template.Finalizers).To(ConsistOf(infrav1.DataTemplateFinalizer))
	})

	It("costs five writes for each claim", func(ctx context.Context) {
		w := s.world(ctx)
		w.template(ctx, "template", plain)
		w.unclaimed(ctx, "machine")
		w.manager.Start()
		Eventually(func(g Gomega) {
			template := &infrav1.Metal3DataTemplate{}
			g.Expect(w.client.Get(ctx, w.key("template"), template)).To(Succeed())
			g.Expect(template.Status.Conditions).To(stage.HaveCondition(infrav1.ReadyCondition, stage.IsTrue()))
		}).Should(Succeed())
		w.claim(ctx, "machine", "template")
		w.ready(ctx, "template-0")
		var got []string
		Eventually(func(g Gomega) {
			got = nil
			for _, write := range w.writes.Done() {
				if write.Kind != "Metal3DataTemplate" {
					got = append(got, write.String())
				}
			}
			g.Expect(got).To(HaveLen(5))
		}).Should(Succeed())
		Expect(got).To(ConsistOf("create Metal3Data", "patch status Metal3DataClaim", "create Secret", "create Secret",
			"patch status Metal3Data"))
		Consistently(func() int { return len(w.writes.Done()) }).Should(BeNumerically("<=", 5+3),
			"the finalizer, the conditions and the indexes of the template come besides")
	})

	It("waits for the objects with its values, and then renders", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.template(ctx, "template", "networkData: {links: {ethernets: [{type: phy, id: a, macAddress: {fromHostInterface: eth7}}, {type: phy, id: b, macAddress: {fromAnnotation: {object: machine, annotation: mac}}}]}}")
		w.machine(ctx, "machine", "template")
		w.eventually(ctx, "template-0", infrav1.SecretsReadyCondition, stage.IsFalseBecause(infrav1.RenderingFailedReason,
			`spec.networkData.links.ethernets[a].macAddress.fromHostInterface: Invalid value: "eth7": is not a network interface of BareMetalHost host-machine`))
		Expect(w.data(ctx, Default, "template-0").Status.ErrorMessage).To(ContainSubstring(
			`ethernets[b].macAddress.fromAnnotation.annotation: Invalid value: "mac": is missing on Machine machine; set the annotation`))
		stage.ChangeStatus(ctx, w.client, w.key("host-machine"), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
			host.Status.HardwareDetails.NIC = append(host.Status.HardwareDetails.NIC, bmov1alpha1.NIC{Name: "eth7", MAC: "52:54:00:00:00:07"})
		})
		Eventually(func(g Gomega) {
			g.Expect(w.data(ctx, g, "template-0").Status.ErrorMessage).NotTo(ContainSubstring("eth7"))
		}).Should(Succeed())
		stage.Change(ctx, w.client, w.key("machine"), &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
			machine.Annotations = map[string]string{"mac": "52:54:00:00:00:08"}
		})
		w.ready(ctx, "template-0")
		Expect(w.data(ctx, Default, "template-0").Status.ErrorMessage).To(BeEmpty())
		w.emitted(ctx, "Metal3Data", "template-0", "Warning RenderingFailed")
	})

	It("names field, value and remedy of what cannot be rendered", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		cases := map[string]struct{ template, want string }{
			"route": {
				"networkData: {networks: {ipv4DHCP: [{id: net, link: nic0, routes: [{network: default, gateway: {string: 10.0.0.1}}]}]}}",
				`spec.networkData.networks.ipv4DHCP[net].routes[0].network: Invalid value: "default": is not an IPv4 address; use the network address of the destination in a new Metal3DataTemplate`,
			},
			"prefix": {
				"networkData: {networks: {ipv4DHCP: [{id: net, link: nic0, routes: [{network: 0.0.0.0, prefix: 33, gateway: {string: 10.0.0.1}}]}]}}",
				`spec.networkData.networks.ipv4DHCP[net].routes[0].prefix: Invalid value: 33: is not the length of an IPv4 prefix; use 0 to 32 in a new Metal3DataTemplate`,
			},
			"gateway": {
				`networkData: {networks: {ipv6SLAAC: [{id: net, link: nic0, routes: [{network: "::", gateway: {string: 10.0.0.1}}]}]}}`,
				`spec.networkData.networks.ipv6SLAAC[net].routes[0].gateway.string: Invalid value: "10.0.0.1": is not an IPv6 address; use the address of the gateway in a new Metal3DataTemplate`,
			},
			"mac": {
				"networkData: {links: {ethernets: [{type: phy, id: a, macAddress: {string: nonsense}}]}}",
				`spec.networkData.links.ethernets[a].macAddress.string: Invalid value: "nonsense": is not a MAC address; use six pairs of hexadecimal digits, such as 52:54:00:12:34:56, in a new Metal3DataTemplate`,
			},
			"mtu": {
				"networkData: {links: {ethernets: [{type: phy, id: a, mtu: 67}]}}",
				`spec.networkData.links.ethernets[a].mtu: Invalid value: 67: is smaller than any network allows; use 68 to 9000 in a new Metal3DataTemplate`,
			},
			"interface": {
				"metaData: {fromHostInterfaces: [{key: mac, interface: eth7}]}",
				`spec.metaData.fromHostInterfaces[mac].interface: Invalid value: "eth7": is not a network interface of BareMetalHost host-interface; name one of its status.hardware.nics in a new Metal3DataTemplate, or inspect the host again`,
			},
			"annotation": {
				"networkData: {networks: {ipv4: [{id: net, link: nic0, fromPoolAnnotation: {object: baremetalhost, annotation: pool}}]}}",
				`spec.networkData.networks.ipv4[net].fromPoolAnnotation.annotation: Invalid value: "pool": is missing on BareMetalHost host-annotation; set the annotation`,
			},
		}
		for name, tc := range cases {
			w.template(ctx, name, tc.template)
			w.machine(ctx, name, name)
		}
		for name, tc := range cases {
			w.eventually(ctx, name+"-0", infrav1.ReadyCondition, stage.IsFalseBecause(infrav1.RenderingFailedReason,
				"Metal3DataTemplate "+name+" cannot be rendered for Metal3Machine "+name+": "+tc.want))
			Expect(w.data(ctx, Default, name+"-0").Status.ErrorMessage).To(ContainSubstring(tc.want))
		}
	})

	It("reports a template that was deleted by force before the data was rendered", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		const spec = "metaData: {fromHostInterfaces: [{key: mac, interface: eth7}]}"
		template := w.template(ctx, "template", spec)
		w.machine(ctx, "machine", "template")
		w.eventually(ctx, "template-0", infrav1.SecretsReadyCondition, stage.IsFalseBecause(infrav1.RenderingFailedReason, ""))
		Expect(w.client.Delete(ctx, template)).To(Succeed())
		stage.Change(ctx, w.client, w.key("template"), template, func(template *infrav1.Metal3DataTemplate) {
			template.Finalizers = nil
		})
		w.gone(ctx, "template", template)
		w.eventually(ctx, "template-0", infrav1.ReadyCondition, stage.IsFalseBecause(infrav1.TemplateMissingReason,
			"Metal3DataTemplate template does not exist. Create it again."))
		w.template(ctx, "template", "metaData: {fromHostInterfaces: [{key: mac, interface: eth0}]}")
		w.ready(ctx, "template-0")
	})

	It("names which of two entries of the meta-data with one key it renders", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.template(ctx, "template", "metaData: {namespaces: [{key: a}], strings: [{key: a, value: b}]}")
		w.machine(ctx, "machine", "template")
		w.ready(ctx, "template-0")
		Expect(w.secret(ctx, "machine-metadata", "metaData")).To(MatchYAML(
			`{a: b, providerid: ` + w.namespace + `/host-machine/machine}`))
		Eventually(func(g Gomega) {
			template := &infrav1.Metal3DataTemplate{}
			g.Expect(w.client.Get(ctx, w.key("template"), template)).To(Succeed())
			g.Expect(template.Status.Conditions).To(stage.HaveCondition(infrav1.ReadyCondition, HaveField("Message",
				HavePrefix("Key a of spec.metaData is taken from strings, and not from namespaces. spec.metaData is immutable: create"))))
		}).Should(Succeed())
	})

	It("names the label and annotation that were missing when it was rendered", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.template(ctx, "template", "metaData: {fromLabels: [{key: zone, object: baremetalhost, label: zone}], fromAnnotations: [{key: rack, object: machine, annotation: rack}]}")
		w.machine(ctx, "machine", "template")
		empty := And(stage.IsTrue(), HaveField("Message", And(
			ContainSubstring("spec.metaData.fromLabels[zone] is empty, because BareMetalHost host-machine has no label zone: set"),
			ContainSubstring("spec.metaData.fromAnnotations[rack] is empty, because Machine machine has no annotation rack: set"))))
		w.eventually(ctx, "template-0", infrav1.SecretsReadyCondition, empty)
		Expect(w.secret(ctx, "machine-metadata", "metaData")).To(MatchYAML(
			`{rack: "", zone: "", providerid: ` + w.namespace + `/host-machine/machine}`))

		By("setting one afterwards, which changes no rendered data")
		w.change(ctx, "host-machine", func(host *bmov1alpha1.BareMetalHost) { host.Labels = map[string]string{"zone": "a"} })
		data := w.data(ctx, Default, "template-0")
		pause := func(annotations map[string]string, want metav1.ConditionStatus) {
			stage.Change(ctx, w.client, w.key("template-0"), data, func(data *infrav1.Metal3Data) {
				data.Annotations = annotations
			})
			w.eventually(ctx, "template-0", clusterv1.PausedCondition, HaveField("Status", want))
		}
		pause(map[string]string{clusterv1.PausedAnnotation: ""}, metav1.ConditionTrue)
		pause(nil, metav1.ConditionFalse)
		w.eventually(ctx, "template-0", infrav1.SecretsReadyCondition, empty)
	})

	It("waits for its host", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.template(ctx, "template", plain)
		w.unclaimed(ctx, "machine")
		w.change(ctx, "host-machine", func(host *bmov1alpha1.BareMetalHost) { host.Spec.ConsumerRef = nil })
		w.claim(ctx, "machine", "template")
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition,
			stage.IsFalseBecause(infrav1.WaitingForHostReason, "Metal3Machine machine to be associated"))
		w.change(ctx, "host-machine", func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Machine", Namespace: w.namespace, Name: "machine"}
		})
		w.ready(ctx, "template-0")
	})

	It("does not change existing Secrets", func(ctx context.Context) {
		w := s.world(ctx)
		w.template(ctx, "template", plain)
		w.unclaimed(ctx, "machine")
		for _, name := range []string{"machine-metadata", "machine-networkdata"} {
			w.create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
				Data:       map[string][]byte{"metaData": []byte("of another owner"), "networkData": []byte("unchanged")},
			})
		}
		w.manager.Start()
		w.claim(ctx, "machine", "template")
		w.ready(ctx, "template-0")
		secret := &corev1.Secret{}
		Expect(w.client.Get(ctx, w.key("machine-metadata"), secret)).To(Succeed())
		Expect(string(secret.Data["metaData"])).To(Equal("of another owner"))
	})

	It("does not use a Secret of other data", func(ctx context.Context) {
		w := s.world(ctx)
		w.template(ctx, "template", plain)
		w.unclaimed(ctx, "machine")
		other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: "machine-metadata", Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Data", Name: "old-7", UID: "other", Controller: ptr.To(true),
			}},
		}}
		w.create(ctx, other)
		w.manager.Start()
		w.claim(ctx, "machine", "template")
		w.eventually(ctx, "template-0", infrav1.SecretsReadyCondition, stage.IsFalseBecause(infrav1.SecretConflictReason,
			"Waiting for Secret machine-metadata of Metal3Data old-7 to be deleted"))
		Expect(w.client.Delete(ctx, other)).To(Succeed())
		w.ready(ctx, "template-0")
		Expect(w.secret(ctx, "machine-metadata", "metaData")).To(ContainSubstring("rank"))
	})

	It("renders a Secret again that was deleted", func(ctx context.Context) {
		w := s.world(ctx)
		// The API server sets the creationTimestamp of the Metal3Data, and the fake clock is an hour ahead.
		w.clock.SetTime(time.Now().Add(time.Hour))
		count, sum := renderTime()
		w.manager.Start()
		w.template(ctx, "template", plain)
		w.machine(ctx, "machine", "template")
		w.ready(ctx, "template-0")
		before := w.secret(ctx, "machine-metadata", "metaData")
		old := &corev1.Secret{}
		Expect(w.client.Get(ctx, w.key("machine-metadata"), old)).To(Succeed())
		Expect(w.client.Delete(ctx, old)).To(Succeed())
		Eventually(func(g Gomega) {
			found := &corev1.Secret{}
			g.Expect(w.client.Get(ctx, w.key("machine-metadata"), found)).To(Succeed())
			g.Expect(found.UID).NotTo(Equal(old.UID))
		}).Should(Succeed())
		Expect(w.secret(ctx, "machine-metadata", "metaData")).To(Equal(before))
		lastCount, lastSum := renderTime()
		Expect(lastCount-count).To(BeEquivalentTo(1), "only the first rendering counts")
		Expect(lastSum - sum).To(BeNumerically("~", time.Hour.Seconds(), 10*time.Minute.Seconds()))
	})

	It("is ready with Secrets of CAPM3 and without the template", func(ctx context.Context) {
		w := s.world(ctx)
		w.unclaimed(ctx, "machine")
		w.claim(ctx, "machine", "template")
		claim := &infrav1.Metal3DataClaim{}
		Expect(w.client.Get(ctx, w.key("machine"), claim)).To(Succeed())
		old := &infrav1.Metal3Data{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: w.namespace, Name: "template-5", Labels: claim.Labels,
				Finalizers:      []string{infrav1.DataClaimFinalizer, infrav1.DataFinalizer},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3DataClaim", Name: claim.Name, UID: claim.UID}},
			},
			Spec: infrav1.Metal3DataSpec{
				Index: ptr.To[int32](5), Template: &infrav1.Metal3ObjectRef{Name: "template", Namespace: w.namespace},
				Claim:    &infrav1.Metal3ObjectRef{Name: "machine", Namespace: w.namespace},
				MetaData: &corev1.SecretReference{Name: "machine-metadata", Namespace: w.namespace},
			},
		}
		w.create(ctx, old)
		rendered := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "machine-metadata", Labels: claim.Labels,
				OwnerReferences: []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Data", Name: old.Name, UID: old.UID, Controller: ptr.To(true)}}},
			Data: map[string][]byte{"metaData": []byte("rank: 5")},
		}
		w.create(ctx, rendered)
		w.manager.Start()
		w.ready(ctx, "template-5")
		Eventually(func(g Gomega) {
			g.Expect(w.client.Get(ctx, w.key("machine"), claim)).To(Succeed())
			g.Expect(claim.Status.RenderedData).To(HaveValue(HaveField("Name", "template-5")))
		}).Should(Succeed())
		kept := &corev1.Secret{}
		Expect(w.client.Get(ctx, client.ObjectKeyFromObject(rendered), kept)).To(Succeed())
		Expect(kept.ResourceVersion).To(Equal(rendered.ResourceVersion))
	})

	It("stays ready with Secrets that lack the label of the Cluster", func(ctx context.Context) {
		w := s.world(ctx)
		w.unclaimed(ctx, "machine")
		w.claim(ctx, "machine", "template")
		w.create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "machine-metadata"}})
		w.create(ctx, &infrav1.Metal3Data{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: w.namespace, Name: "template-5", Finalizers: []string{infrav1.DataClaimFinalizer, infrav1.DataFinalizer},
			},
			Spec: infrav1.Metal3DataSpec{
				Index: ptr.To[int32](5), Template: &infrav1.Metal3ObjectRef{Name: "template"},
				Claim: &infrav1.Metal3ObjectRef{Name: "machine"}, MetaData: &corev1.SecretReference{Name: "machine-metadata"},
			},
			Status: infrav1.Metal3DataStatus{Ready: ptr.To(true)},
		})
		w.manager.Start()
		w.eventually(ctx, "template-5", infrav1.SecretsReadyCondition, stage.IsTrue())
		w.ready(ctx, "template-5")
	})
}

// renderTime returns number and sum of the samples of metal3_data_render_seconds.
func renderTime() (count uint64, sum float64) {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == "metal3_data_render_seconds" {
			histogram := family.GetMetric()[0].GetHistogram()
			return histogram.GetSampleCount(), histogram.GetSampleSum()
		}
	}
	Fail("metal3_data_render_seconds is not registered")
	return 0, 0
}
