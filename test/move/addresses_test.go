package move_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/managers"
)

// addressed are the stories of machines with addresses, with the address manager of Metal3 in both clusters.
func addressed(c *clusters) []story {
	return []story{{"keeps the addresses and the data of machines", func(ctx context.Context) {
		w := c.world(ctx)
		for _, side := range []*side{w.here, w.there} {
			Expect(managers.StartAddressManager(ctx, side.server, w.namespace)).To(Succeed())
		}
		w.cluster(ctx, "cluster")
		w.addressPool(ctx)
		w.dataTemplate = "data"
		// One machine after the other, so that the order of their names differs from that of their addresses.
		for _, machine := range []string{"z", "y", "x"} {
			w.host(ctx, machine)
			w.machine(ctx, "cluster", machine)
			w.settled(ctx)
		}
		w.readyForMove(ctx)
		before, hosts := w.addressBook(ctx, Default), w.trace(ctx)
		Expect(before.addresses).To(HaveLen(3))
		w.move(ctx)

		var after addressBook
		Eventually(func(g Gomega) {
			after = w.addressBook(ctx, g)
			g.Expect(after.claims).To(Equal(before.claims))
		}).Should(Succeed())
		Expect(after.addresses).To(Equal(before.addresses))
		Expect(after.secrets).To(Equal(before.secrets))
		Expect(after.written).To(Equal(before.written), "a Secret was rendered anew")
		w.unharmed(ctx, hosts)
		for _, list := range []client.ObjectList{
			&metal3ipamv1.IPPoolList{}, &metal3ipamv1.IPClaimList{}, &metal3ipamv1.IPAddressList{},
			&infrav1.Metal3DataList{}, &infrav1.Metal3DataClaimList{}, &infrav1.Metal3DataTemplateList{},
		} {
			Expect(w.there.client.List(ctx, list, client.InNamespace(w.namespace))).To(Succeed())
			Expect(objectsOf(list)).To(BeEmpty(), "%T was left behind", list)
		}

		By("allocating the address of a deleted machine to a new machine")
		w.scaleDown(ctx, "y")
		Eventually(func(g Gomega) {
			g.Expect(w.addressBook(ctx, g).addresses).To(HaveLen(2))
			g.Expect(w.addressBook(ctx, g).claims).To(HaveLen(2))
		}).Should(Succeed())
		w.host(ctx, "w")
		w.machine(ctx, "cluster", "w")
		w.settled(ctx)
		Expect(w.addressBook(ctx, Default).addresses).To(Equal(before.addresses))
	}}}
}

// addressPool creates a pool of three addresses for the cluster, and a template that renders them.
func (w *world) addressPool(ctx context.Context) {
	GinkgoHelper()
	pool := &metal3ipamv1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "pool"}}
	pool.Spec = metal3ipamv1.IPPoolSpec{
		ClusterName: ptr.To("cluster"), NamePrefix: "pool", Prefix: 24,
		Pools: []metal3ipamv1.Pool{{
			Start: ptr.To[metal3ipamv1.IPAddressStr]("192.0.2.20"), End: ptr.To[metal3ipamv1.IPAddressStr]("192.0.2.22"),
		}},
	}
	w.create(ctx, pool)
	template := &infrav1.Metal3DataTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "data"}}
	Expect(yaml.UnmarshalStrict([]byte(`
metaData:
  ipAddressesFromPool: [{key: address, name: pool}]
networkData:
  links: {ethernets: [{type: phy, id: nic0, macAddress: {string: "02:00:00:00:00:01"}}]}
  networks: {ipv4: [{id: net, link: nic0, fromPoolRef: {name: pool}}]}
`), &template.Spec)).To(Succeed())
	w.create(ctx, template)
}

// addressBook has the addresses of the machines and their rendered data.
type addressBook struct {
	// claims are the names of the IPAddresses by the name of the machine.
	claims map[string]string
	// addresses are the addresses by name, with the length of the prefix.
	addresses map[string]string
	// secrets are the rendered data by the name of the Secret.
	secrets map[string]map[string][]byte
	// written is the time at which the Secret was rendered, from its managedFields. clusterctl copies them.
	written map[string]time.Time
}

// addressBook reads the objects on this side. It requires that data owns each claim, and that each address has a claim.
func (w *world) addressBook(ctx context.Context, g Gomega) addressBook {
	book := addressBook{
		claims: map[string]string{}, addresses: map[string]string{}, secrets: map[string]map[string][]byte{},
		written: map[string]time.Time{},
	}
	here := client.InNamespace(w.namespace)
	var claims metal3ipamv1.IPClaimList
	g.Expect(w.here.client.List(ctx, &claims, here)).To(Succeed())
	names := map[string]string{}
	for _, claim := range claims.Items {
		owner := metav1.GetControllerOf(&claim)
		g.Expect(owner).To(HaveValue(HaveField("Kind", "Metal3Data")), claim.Name)
		data := &infrav1.Metal3Data{}
		g.Expect(w.here.client.Get(ctx, w.key(owner.Name), data)).To(Succeed())
		g.Expect(data.UID).To(Equal(owner.UID), "the owner of %s is gone", claim.Name)
		g.Expect(data.Status.Ready).To(HaveValue(BeTrue()))
		g.Expect(claim.Status.Address).NotTo(BeNil(), claim.Name)
		book.claims[data.Spec.Claim.Name] = claim.Status.Address.Name
		names[claim.Name] = claim.Status.Address.Name
		for _, reference := range []*corev1.SecretReference{data.Spec.MetaData, data.Spec.NetworkData} {
			secret := &corev1.Secret{}
			g.Expect(w.here.client.Get(ctx, w.key(reference.Name), secret)).To(Succeed())
			book.secrets[secret.Name] = secret.Data
			for _, part := range secret.ManagedFields {
				if strings.Contains(part.FieldsV1.GetRawString(), `"f:data"`) {
					book.written[secret.Name] = part.Time.Time
				}
			}
			g.Expect(book.written).To(HaveKey(secret.Name))
		}
	}
	var addresses metal3ipamv1.IPAddressList
	g.Expect(w.here.client.List(ctx, &addresses, here)).To(Succeed())
	for _, address := range addresses.Items {
		g.Expect(names).To(HaveKeyWithValue(address.Spec.Claim.Name, address.Name), "%s has no claim", address.Name)
		book.addresses[address.Name] = fmt.Sprintf("%s/%d", address.Spec.Address, address.Spec.Prefix)
	}
	return book
}
