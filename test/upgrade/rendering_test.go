package upgrade_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1beta1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta1"
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// templates returns the specs of Metal3DataTemplates by name. They contain every shape that CAPM3 renders.
func templates() map[string]string {
	return map[string]string{
		"values": `metaData:
  strings: [{key: text, value: fixed}, {key: number, value: "007"}, {key: yes, value: "true"}, {key: colon, value: "a: b # c"}]
  objectNames: [{key: m, object: machine}, {key: m3m, object: metal3machine}, {key: bmh, object: baremetalhost}]
  indexes: [{key: plain}, {key: counted, offset: 10, step: 2, prefix: node-, suffix: -x}, {key: down, offset: 9, step: -3}]
  namespaces: [{key: ns}]
  fromHostInterfaces: [{key: mac, interface: eth1}, {key: boot, fromBootMAC: true}]
  fromLabels: [{key: rack, object: baremetalhost, label: rack}, {key: cluster, object: metal3machine, label: cluster.x-k8s.io/cluster-name},
    {key: none, object: machine, label: none}]
  fromAnnotations: [{key: note, object: machine, annotation: note}, {key: m3mNote, object: metal3machine, annotation: note},
    {key: bmhNote, object: baremetalhost, annotation: note}, {key: noNote, object: baremetalhost, annotation: none}]`,
		// Several sources of one key: CAPM3 and this provider must choose the same one.
		"clashes": `metaData:
  fromHostInterfaces: [{key: a, interface: eth1}]
  ipAddressesFromPool: [{key: a, name: pool4}, {key: b, name: pool4}]
  prefixesFromPool: [{key: b, name: pool4}, {key: c, name: pool4}]
  gatewaysFromPool: [{key: c, name: pool6}, {key: d, name: pool6}]
  indexes: [{key: d}, {key: e}]
  namespaces: [{key: e}, {key: f}]
  objectNames: [{key: f, object: machine}, {key: g, object: machine}]
  fromLabels: [{key: g, object: baremetalhost, label: rack}, {key: h, object: baremetalhost, label: rack}]
  fromAnnotations: [{key: h, object: machine, annotation: note}, {key: i, object: machine, annotation: note}]
  strings: [{key: i, value: fixed}, {key: providerid, value: mine}]`,
		"ethernets": `networkData:
  links:
    ethernets:
    - {type: phy, id: nic0, mtu: 1500, macAddress: {fromHostInterface: eth0}}
    - {type: vif, id: nic1, name: ens1, mtu: 9000, macAddress: {string: "52:54:00:aa:bb:cc"}}
    - {type: bridge, id: nic2, macAddress: {fromAnnotation: {object: baremetalhost, annotation: mac}}}
    - {type: dvs, id: nic3, macAddress: {fromAnnotation: {object: machine, annotation: mac}}}
    - {type: hw_veb, id: nic4, macAddress: {fromAnnotation: {object: metal3machine, annotation: mac}}}
    - {type: hyperv, id: nic5, macAddress: {string: "52-54-00-AA-BB-CC"}}
    - {type: ovs, id: nic6, macAddress: {string: "52:54:00:AA:BB:CC", fromHostInterface: eth0}}
    - {type: tap, id: nic7, macAddress: {fromHostInterface: eth1, fromAnnotation: {object: machine, annotation: mac}}}
    - {type: vhostuser, id: nic8}
  networks:
    ipv4DHCP:
    - {id: dhcp4, link: nic0, routes: [{network: 10.0.0.0, prefix: 8, gateway: {string: 192.0.2.1}, services: {dns: [192.0.2.3]}}]}
    ipv6DHCP: [{id: dhcp6, link: nic0}]
    ipv6SLAAC: [{id: slaac, link: nic1, routes: [{network: "2001:db8:9::", prefix: 48, gateway: {string: "2001:db8::1"}}]}]
  services: {dns: [192.0.2.2, "2001:db8::2"]}`,
		"bonds": `networkData:
  links:
    bonds:
    - {id: bond0, name: team, bondMode: 802.3ad, bondXmitHashPolicy: layer3+4, macAddress: {fromHostInterface: eth1},
       bondLinks: [nic0, nic1], parameters: [{name: miimon, value: 100}, {name: lacp_rate, value: fast}]}
    - {id: bond1, bondMode: balance-rr, mtu: 9000, macAddress: {string: "52:54:00:aa:bb:01"}, bondLinks: [nic0]}
    - {id: bond2, bondMode: active-backup, macAddress: {fromAnnotation: {object: machine, annotation: mac}}, bondLinks: [nic1, nic0],
       parameters: [{name: primary, value: nic1}, {name: fail_over_mac, value: "1"}]}
    - {id: bond3, bondMode: balance-xor, bondXmitHashPolicy: layer2, bondLinks: [nic0]}
    - {id: bond4, bondMode: broadcast, bondLinks: [nic0]}
    - {id: bond5, bondMode: balance-tlb, bondXmitHashPolicy: layer2+3, bondLinks: [nic0]}
    - {id: bond6, bondMode: balance-alb, bondLinks: [nic0], parameters: [{name: arp_ip_target, value: [192.0.2.1, 192.0.2.2]}]}
    ethernets: [{type: phy, id: nic0, macAddress: {fromHostInterface: eth0}}, {type: phy, id: nic1, macAddress: {fromHostInterface: eth1}}]
    vlans:
    - {id: vlan20, name: store, vlanID: 20, vlanLink: bond0, macAddress: {fromHostInterface: eth1}}
    - {id: vlan30, vlanID: 30, vlanLink: nic0, mtu: 1400, macAddress: {string: "52:54:00:aa:bb:02"}}
    - {id: vlan1, vlanID: 1, vlanLink: nic0, macAddress: {fromAnnotation: {object: baremetalhost, annotation: mac}}}
    - {id: vlan4094, vlanID: 4094, vlanLink: nic1}`,
		"pools": `metaData:
  ipAddressesFromPool: [{key: ip, name: pool4}, {key: ip6, name: pool6}]
  prefixesFromPool: [{key: prefix, name: pool4}, {key: prefix6, name: pool6}]
  gatewaysFromPool: [{key: gateway, name: pool4}, {key: gateway6, name: pool6}]
networkData:
  networks:
    ipv4:
    - {id: net4, link: nic0, ipAddressFromIPPool: pool4, routes: [
       {network: 0.0.0.0, prefix: 0, gateway: {fromIPPool: pool4}, services: {dns: [192.0.2.3], dnsFromIPPool: pool4}},
       {network: 192.0.2.9, prefix: 32, gateway: {string: 10.0.0.7}}, {network: 198.51.100.0, prefix: 25, gateway: {fromPoolRef: {name: pool4}}}]}
    - {id: ref4, link: nic1, fromPoolRef: {name: pool4}, routes: [{network: 10.0.0.0, prefix: 8, gateway: {fromPoolRef: {name: pool4}}}]}
    ipv6:
    - {id: net6, link: nic0, ipAddressFromIPPool: pool6, routes: [
       {network: "::", prefix: 0, gateway: {fromIPPool: pool6}, services: {dns: ["2001:db8::7"], dnsFromIPPool: pool6}},
       {network: "2001:db8::9", prefix: 128, gateway: {string: "2001:db8::8"}}]}
    - {id: ref6, link: nic1, fromPoolRef: {name: pool6}, routes: [{network: "2001:db8:9::", prefix: 33, gateway: {fromPoolRef: {name: pool6}}}]}
  services: {dns: ["2001:db8::5", 192.0.2.5], dnsFromIPPool: pool6}`,
		"dynamic": `networkData:
  networks:
    ipv4DHCP: [{id: dhcp4, link: nic0, routes: [{network: 0.0.0.0, gateway: {fromIPPool: pool4}, services: {dnsFromIPPool: pool4}}]}]
    ipv6DHCP: [{id: dhcp6, link: nic0, routes: [{network: "::", prefix: 0, gateway: {fromPoolRef: {name: pool6}}}]}]
    ipv6SLAAC: [{id: slaac, link: nic0, routes: [{network: "::", prefix: 0, gateway: {fromIPPool: pool6}, services: {dnsFromIPPool: pool6}}]}]
  services: {dnsFromIPPool: pool4}`,
		"annotated": `networkData:
  networks:
    ipv4:
    - {id: net4, link: nic0, fromPoolAnnotation: {object: machine, annotation: pool}, routes: [
       {network: 0.0.0.0, prefix: 0, gateway: {fromPoolAnnotation: {object: machine, annotation: pool}}}]}
    - {id: host4, link: nic0, fromPoolAnnotation: {object: baremetalhost, annotation: pool}}
    ipv6: [{id: net6, link: nic0, fromPoolAnnotation: {object: metal3machine, annotation: pool}}]`,
		// The pools of Cluster API's contract.
		"contract": `networkData:
  networks:
    ipv4:
    - {id: net4, link: nic0, fromPoolRef: {name: contract4, apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool}, routes: [
       {network: 0.0.0.0, prefix: 0, gateway: {fromPoolRef: {name: contract4, apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool}}}]}
    ipv6:
    - {id: net6, link: nic0, fromPoolRef: {name: contract6, apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool}, routes: [
       {network: "::", prefix: 0, gateway: {fromPoolRef: {name: contract6, apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool}}}]}`,
	}
}

const (
	// dataMachines is the number of machines of each template.
	dataMachines = 2

	// withAddresses is the number of templates whose machines get addresses of two pools.
	withAddresses = 5
)

// versions are the versions of the API in which a template is created, with the suffix of its name.
var versions = map[string]func(template *infrav1.Metal3DataTemplate) client.Object{
	"": func(template *infrav1.Metal3DataTemplate) client.Object { return template },
	"-v1beta1": func(template *infrav1.Metal3DataTemplate) client.Object {
		older := &infrav1beta1.Metal3DataTemplate{}
		Expect(infrav1beta1.ConvertMetal3DataTemplateFromHub(context.Background(), template, older)).To(Succeed())
		// The annotation would keep fields that the older version lacks.
		older.Annotations = nil
		return older
	},
}

// templateNames returns the names of all templates in both versions, in order.
func templateNames() []string {
	var names []string
	for name := range templates() {
		for suffix := range versions {
			names = append(names, name+suffix)
		}
	}
	slices.Sort(names)
	return names
}

// describeRendering compares the data that both providers render from the same templates, hosts and pools.
func describeRendering(w *world) {
	It("finds data that CAPM3 rendered", func(ctx context.Context) {
		webhooks := w.startCAPM3(ctx, "capm3-data")
		DeferCleanup(w.stopCAPM3)
		w.convertBy(ctx, webhooks)
		w.dataNamespace = stage.Namespace(ctx, w.server)
		w.rendered = w.renderAll(ctx, w.dataNamespace)
		w.addresses = w.allocations(ctx, w.dataNamespace)
		Expect(w.addresses).To(HaveLen(withAddresses * 2 * dataMachines * len(versions)))
	})
}

// describeComparison continues after the manager of this provider has started.
func describeComparison(w *world) {
	It("renders the same data as CAPM3", func(ctx context.Context) {
		if w.rendered == nil {
			Skip("CAPM3 has not rendered")
		}
		w.convertBy(ctx, w.server.Webhook)
		namespace := stage.Namespace(ctx, w.server)
		got := w.renderAll(ctx, namespace)
		for name, want := range w.rendered {
			Expect(got).To(HaveKey(name))
			renamed := strings.ReplaceAll(want, w.dataNamespace, namespace)
			Expect(got[name]).To(MatchYAML(renamed), name)
		}
		Expect(got).To(HaveLen(len(w.rendered)))
		AddReportEntry("compared Secrets", len(got))
	})

	It("keeps the data and the addresses that CAPM3 rendered", func(ctx context.Context) {
		if w.rendered == nil {
			Skip("CAPM3 has not rendered")
		}
		for _, template := range templateNames() {
			for i := range dataMachines {
				data := &infrav1.Metal3Data{}
				key := client.ObjectKey{Namespace: w.dataNamespace, Name: fmt.Sprintf("%s-%d", template, i)}
				Eventually(func(g Gomega) {
					g.Expect(w.server.Client.Get(ctx, key, data)).To(Succeed())
					g.Expect(data.Status.Conditions).To(stage.HaveCondition(infrav1.ReadyCondition, stage.IsTrue()))
				}).Should(Succeed(), key.Name)
			}
		}
		Expect(w.secrets(ctx, w.dataNamespace)).To(Equal(w.rendered))
		Expect(w.allocations(ctx, w.dataNamespace)).To(Equal(w.addresses))
	})
}

// renderAll creates pools, templates and machines in a namespace. It returns the content of the rendered Secrets by
// name. It creates one machine after the other, so that indexes and addresses are the same each time.
func (w *world) renderAll(ctx context.Context, namespace string) map[string]string {
	GinkgoHelper()
	here := build.InNamespace(namespace)
	w.create(ctx, build.Cluster(clusterName, here, build.InfrastructureReady()))
	w.addressPool(ctx, namespace, "pool4", "10.0.0.", 24)
	w.addressPool(ctx, namespace, "pool6", "2001:db8::", 64)
	w.contractPool(ctx, namespace, "contract4", "10.20.0.", 24)
	w.contractPool(ctx, namespace, "contract6", "2001:db8:20::", 64)
	for _, name := range templateNames() {
		shape, suffix, _ := strings.Cut(name, "-")
		template := &infrav1.Metal3DataTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		Expect(yaml.UnmarshalStrict([]byte(templates()[shape]), &template.Spec)).To(Succeed())
		template.Spec.ClusterName = clusterName
		w.create(ctx, versions[strings.TrimSuffix("-"+suffix, "-")](template.DeepCopy()))
		for i := range dataMachines {
			w.dataMachine(ctx, namespace, fmt.Sprintf("%s-m%d", name, i), name, i)
		}
	}
	return w.secrets(ctx, namespace)
}

// convertBy makes a manager convert the templates between the versions of the API until the end of the spec.
func (w *world) convertBy(ctx context.Context, manager env.WebhookServer) {
	GinkgoHelper()
	set := func(ctx context.Context, conversion apiextensionsv1.CustomResourceConversion) {
		key := client.ObjectKey{Name: "metal3datatemplates.infrastructure.cluster.x-k8s.io"}
		stage.Change(ctx, w.server.Client, key, &apiextensionsv1.CustomResourceDefinition{},
			func(definition *apiextensionsv1.CustomResourceDefinition) { definition.Spec.Conversion = &conversion })
	}
	DeferCleanup(func(ctx context.Context) {
		set(ctx, apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter})
	})
	set(ctx, apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				URL: ptr.To(fmt.Sprintf("https://%s:%d/convert", manager.Host, manager.Port)), CABundle: manager.Authority,
			},
			ConversionReviewVersions: []string{"v1"},
		},
	})
	// The API server reads the definition again after a moment.
	Eventually(func(g Gomega) {
		older := &infrav1beta1.Metal3DataTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "probe-"}}
		older.Spec.MetaData = &infrav1beta1.MetaData{PrefixesFromPool: []infrav1beta1.FromPool{{
			Key: "prefix", Name: "pool", APIGroup: "ipam.metal3.io", Kind: "IPPool",
		}}}
		g.Expect(w.server.Client.Create(ctx, older)).To(Succeed())
		stored := &infrav1.Metal3DataTemplate{}
		g.Expect(w.server.Client.Get(ctx, client.ObjectKeyFromObject(older), stored)).To(Succeed())
		g.Expect(w.server.Client.Delete(ctx, stored)).To(Succeed())
		g.Expect(stored.Spec.MetaData.PrefixesFromPool).To(HaveLen(1))
	}).Should(Succeed())
}

// dataMachine creates a machine on its host with a claim of data, and waits until its data is rendered. Its
// Metal3Machine is paused, so that only the data changes.
func (w *world) dataMachine(ctx context.Context, namespace, name, template string, index int) {
	GinkgoHelper()
	here := build.InNamespace(namespace)
	owner := build.Machine(name, clusterName, here, build.Annotations(map[string]string{
		"note": "of " + name, "pool": "pool4", "mac": "52:54:00:00:00:0c",
	}))
	w.create(ctx, owner)
	// All hosts have one boot MAC address, which Ironic refuses. Without BMO they keep their hardware, too.
	host := build.Host("host-"+name, here, build.Available(), ofCluster(), build.Paused("test"),
		build.Labels(map[string]string{"rack": "r7"}), build.Annotations(map[string]string{
			"note": "on the host", "pool": "pool4", "mac": "52:54:00:00:00:0a",
		}),
		build.NIC("eth0", fmt.Sprintf("52:54:00:00:01:%02x", index), ""), build.NIC("eth1", fmt.Sprintf("52:54:00:00:02:%02x", index), ""),
		stage.With(func(host *bmov1alpha1.BareMetalHost) { host.Spec.BootMACAddress = "52:54:00:00:00:0b" }))
	machine := build.Metal3Machine(name, clusterName, here, build.OwnedBy(owner), build.OnHost(host),
		build.Annotations(map[string]string{
			clusterv1.PausedAnnotation: "", "note": "'quoted' \"twice\"", "pool": "pool6", "mac": "52:54:00:00:00:0d",
		}),
		stage.With(func(machine *infrav1.Metal3Machine) {
			machine.Spec.DataTemplate = &infrav1.Metal3ObjectRef{Name: template, Namespace: namespace}
		}))
	w.create(ctx, machine)
	host.Spec.ConsumerRef = &corev1.ObjectReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Machine", Namespace: namespace, Name: name,
	}
	w.create(ctx, host)
	w.create(ctx, dataClaim(machine, template))
	data := &infrav1.Metal3Data{}
	Eventually(func(g Gomega) {
		key := client.ObjectKey{Namespace: namespace, Name: fmt.Sprintf("%s-%d", template, index)}
		g.Expect(w.server.Client.Get(ctx, key, data)).To(Succeed())
		g.Expect(data.Status.Ready).To(HaveValue(BeTrue()), "%+v", data.Status)
	}).Should(Succeed(), name)
}

// addressPool creates an IPPool with the addresses 10 to 99 after a prefix.
func (w *world) addressPool(ctx context.Context, namespace, name, network string, prefix int) {
	GinkgoHelper()
	address := func(last string) metal3ipamv1.IPAddressStr { return metal3ipamv1.IPAddressStr(network + last) }
	pool := &metal3ipamv1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	pool.Spec = metal3ipamv1.IPPoolSpec{
		ClusterName: ptr.To(clusterName), NamePrefix: name, Prefix: prefix, Gateway: ptr.To(address("1")),
		Pools:      []metal3ipamv1.Pool{{Start: ptr.To(address("10")), End: ptr.To(address("99"))}},
		DNSServers: []metal3ipamv1.IPAddressStr{address("2"), address("3")},
	}
	w.create(ctx, pool)
}

// contractPool creates an InClusterIPPool with the addresses 10 to 99 after a prefix.
func (w *world) contractPool(ctx context.Context, namespace, name, network string, prefix int) {
	GinkgoHelper()
	w.create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "kind": "InClusterIPPool",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec": map[string]any{
			"addresses": []any{network + "10-" + network + "99"}, "prefix": int64(prefix), "gateway": network + "1",
		},
	}})
}

// secrets returns the content of the rendered Secrets by name.
func (w *world) secrets(ctx context.Context, namespace string) map[string]string {
	GinkgoHelper()
	var list corev1.SecretList
	Expect(w.server.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	found := map[string]string{}
	for _, secret := range list.Items {
		for _, key := range []string{"metaData", "networkData"} {
			if content, exists := secret.Data[key]; exists {
				Expect(secret.Type).To(BeEquivalentTo(infrav1.DataSecretType), secret.Name)
				found[secret.Name] = string(content)
			}
		}
	}
	return found
}

// allocations returns the addresses of the IPClaims by their names.
func (w *world) allocations(ctx context.Context, namespace string) map[string]string {
	GinkgoHelper()
	var claims metal3ipamv1.IPClaimList
	Expect(w.server.Client.List(ctx, &claims, client.InNamespace(namespace))).To(Succeed())
	found := map[string]string{}
	for _, claim := range claims.Items {
		Expect(claim.Status.Address).NotTo(BeNil(), claim.Name)
		found[claim.Name] = claim.Status.Address.Name
	}
	var contract ipamv1.IPAddressClaimList
	Expect(w.server.Client.List(ctx, &contract, client.InNamespace(namespace))).To(Succeed())
	for _, claim := range contract.Items {
		Expect(claim.Status.AddressRef.Name).NotTo(BeEmpty(), claim.Name)
		found[claim.Name] = claim.Status.AddressRef.Name
	}
	return found
}
