package upgrade_test

import (
	"context"
	"fmt"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// templates returns the specs of Metal3DataTemplates by name. They contain every type that CAPM3 renders.
func templates() map[string]string {
	return map[string]string{
		"values": `metaData:
  strings: [{key: text, value: fixed}, {key: number, value: "007"}, {key: yes, value: "true"}]
  objectNames: [{key: m, object: machine}, {key: m3m, object: metal3machine}, {key: bmh, object: baremetalhost}]
  indexes: [{key: plain}, {key: counted, offset: 10, step: 2, prefix: node-, suffix: -x}, {key: down, offset: 9, step: -3}]
  namespaces: [{key: ns}]
  fromHostInterfaces: [{key: mac, interface: eth1}, {key: boot, fromBootMAC: true}]
  fromLabels: [{key: rack, object: baremetalhost, label: rack}, {key: none, object: machine, label: none}]
  fromAnnotations: [{key: note, object: machine, annotation: note}]`,
		"links": `networkData:
  links:
    ethernets:
    - {type: phy, id: nic0, mtu: 1500, macAddress: {fromHostInterface: eth0}}
    - {type: vif, id: nic1, name: ens1, mtu: 9000, macAddress: {string: "52:54:00:aa:bb:cc"}}
    - {type: phy, id: nic2, macAddress: {fromAnnotation: {object: baremetalhost, annotation: mac}}}
    bonds:
    - {id: bond0, name: team, bondMode: 802.3ad, bondXmitHashPolicy: layer3+4, macAddress: {fromHostInterface: eth1},
       bondLinks: [nic0, nic1], parameters: [{name: miimon, value: 100}, {name: lacp_rate, value: fast}]}
    vlans:
    - {id: vlan20, name: store, vlanID: 20, vlanLink: bond0, macAddress: {fromHostInterface: eth1}}
  networks:
    ipv4DHCP:
    - {id: dhcp4, link: nic0, routes: [{network: 10.0.0.0, prefix: 8, gateway: {string: 192.0.2.1}, services: {dns: [192.0.2.3]}}]}
    ipv6DHCP: [{id: dhcp6, link: nic0}]
    ipv6SLAAC: [{id: slaac, link: nic1, routes: [{network: "2001:db8:9::", prefix: 48, gateway: {string: "2001:db8::1"}}]}]
  services: {dns: [192.0.2.2, "2001:db8::2"]}`,
		"pools": `metaData:
  ipAddressesFromPool: [{key: ip, name: pool4}, {key: ip6, name: pool6}]
  prefixesFromPool: [{key: prefix, name: pool4}, {key: prefix6, name: pool6}]
  gatewaysFromPool: [{key: gateway, name: pool4}, {key: gateway6, name: pool6}]
networkData:
  networks:
    ipv4:
    - {id: net4, link: nic0, ipAddressFromIPPool: pool4, routes: [
       {network: 0.0.0.0, prefix: 0, gateway: {fromIPPool: pool4}, services: {dns: [192.0.2.3], dnsFromIPPool: pool4}}]}
    - {id: ref4, link: nic1, fromPoolRef: {name: pool4}, routes: [{network: 10.0.0.0, prefix: 8, gateway: {fromPoolRef: {name: pool4}}}]}
    ipv6:
    - {id: net6, link: nic0, ipAddressFromIPPool: pool6, routes: [{network: "::", prefix: 0, gateway: {fromIPPool: pool6}}]}
  services: {dnsFromIPPool: pool6}`,
		"annotated": `networkData:
  networks:
    ipv4: [{id: net4, link: nic0, fromPoolAnnotation: {object: machine, annotation: pool}}]`,
	}
}

// dataMachines is the number of machines of each template.
const dataMachines = 2

// describeRendering compares the data that both providers render from the same templates, hosts and pools.
func describeRendering(w *world) {
	It("finds data that CAPM3 rendered", func(ctx context.Context) {
		w.startCAPM3(ctx, "capm3-data")
		DeferCleanup(w.stopCAPM3)
		w.dataNamespace = stage.Namespace(ctx, w.server)
		w.rendered = w.renderAll(ctx, w.dataNamespace)
		w.addresses = w.allocations(ctx, w.dataNamespace)
		Expect(w.addresses).To(HaveLen(2*dataMachines + dataMachines))
	})
}

// describeComparison continues after the manager of this provider has started.
func describeComparison(w *world) {
	It("renders the same data as CAPM3", func(ctx context.Context) {
		if w.rendered == nil {
			Skip("CAPM3 has not rendered")
		}
		namespace := stage.Namespace(ctx, w.server)
		got := w.renderAll(ctx, namespace)
		for name, want := range w.rendered {
			Expect(got).To(HaveKey(name))
			renamed := strings.ReplaceAll(want, w.dataNamespace, namespace)
			Expect(got[name]).To(MatchYAML(renamed), name)
		}
		Expect(got).To(HaveLen(len(w.rendered)))
	})

	It("keeps the data and the addresses that CAPM3 rendered", func(ctx context.Context) {
		if w.rendered == nil {
			Skip("CAPM3 has not rendered")
		}
		for template := range templates() {
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
	for _, name := range []string{"annotated", "links", "pools", "values"} {
		template := &infrav1.Metal3DataTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		Expect(yaml.UnmarshalStrict([]byte(templates()[name]), &template.Spec)).To(Succeed())
		template.Spec.ClusterName = clusterName
		w.create(ctx, template)
		for i := range dataMachines {
			w.dataMachine(ctx, namespace, fmt.Sprintf("%s-m%d", name, i), name, i)
		}
	}
	return w.secrets(ctx, namespace)
}

// dataMachine creates a machine on its host with a claim of data, and waits until its data is rendered. Its
// Metal3Machine is paused, so that only the data changes.
func (w *world) dataMachine(ctx context.Context, namespace, name, template string, index int) {
	GinkgoHelper()
	here := build.InNamespace(namespace)
	owner := build.Machine(name, clusterName, here, build.Annotations(map[string]string{"note": "of " + name, "pool": "pool4"}))
	w.create(ctx, owner)
	host := build.Host("host-"+name, here, build.Available(), ofCluster(),
		build.Labels(map[string]string{"rack": "r7"}), build.Annotations(map[string]string{"mac": "52:54:00:00:00:0a"}),
		build.NIC("eth0", fmt.Sprintf("52:54:00:00:01:%02x", index), ""), build.NIC("eth1", fmt.Sprintf("52:54:00:00:02:%02x", index), ""),
		stage.With(func(host *bmov1alpha1.BareMetalHost) { host.Spec.BootMACAddress = "52:54:00:00:00:0b" }))
	machine := build.Metal3Machine(name, clusterName, here, build.OwnedBy(owner), build.OnHost(host),
		build.Annotations(map[string]string{clusterv1.PausedAnnotation: ""}),
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

// addressPool creates an IPPool with the addresses 10 to 20 after a prefix.
func (w *world) addressPool(ctx context.Context, namespace, name, network string, prefix int) {
	GinkgoHelper()
	address := func(last string) metal3ipamv1.IPAddressStr { return metal3ipamv1.IPAddressStr(network + last) }
	pool := &metal3ipamv1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	pool.Spec = metal3ipamv1.IPPoolSpec{
		ClusterName: ptr.To(clusterName), NamePrefix: name, Prefix: prefix, Gateway: ptr.To(address("1")),
		Pools:      []metal3ipamv1.Pool{{Start: ptr.To(address("10")), End: ptr.To(address("20"))}},
		DNSServers: []metal3ipamv1.IPAddressStr{address("2"), address("3")},
	}
	w.create(ctx, pool)
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
	return found
}
