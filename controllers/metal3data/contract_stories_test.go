package metal3data_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// inCluster is a template with addresses of one InClusterIPPool.
const inCluster = "{metaData: {ipAddressesFromPool: [{key: ip, name: in-cluster, apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool}], " +
	"prefixesFromPool: [{key: prefix, name: in-cluster, apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool}], " +
	"gatewaysFromPool: [{key: gateway, name: in-cluster, apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool}]}}"

// describeContract are the stories with the in-cluster provider of Cluster API's IPAM contract. The address manager of
// Metal3 runs beside it.
func describeContract(s *suite) {
	It("renders addresses of the in-cluster provider, and releases them", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		pool := w.inClusterPool(ctx, "in-cluster", "10.20.0.10")
		w.template(ctx, "template", inCluster)
		w.machine(ctx, "first", "template")
		w.ready(ctx, "template-0")
		var rendered map[string]string
		Expect(unmarshal(w.secret(ctx, "first-metadata", "metaData"), &rendered)).To(Succeed())
		Expect(rendered).To(And(HaveKeyWithValue("ip", "10.20.0.10"), HaveKeyWithValue("prefix", "24"), HaveKeyWithValue("gateway", "10.20.0.1")))

		// The pool has one address. The second machine gets it after the first is released.
		w.machine(ctx, "second", "template")
		w.eventually(ctx, "template-1", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.WaitingForAddressReason,
			"spec.metaData.ipAddressesFromPool[ip]: Waiting for InClusterIPPool in-cluster to allocate an address for IPAddressClaim template-1-in-cluster."))
		w.releaseClaim(ctx, "first")
		w.gone(ctx, "template-0-in-cluster", &ipamv1.IPAddressClaim{})
		w.gone(ctx, "template-0", &infrav1.Metal3Data{})
		w.ready(ctx, "template-1")
		Expect(unmarshal(w.secret(ctx, "second-metadata", "metaData"), &rendered)).To(Succeed())
		Expect(rendered).To(HaveKeyWithValue("ip", "10.20.0.10"))

		w.releaseClaim(ctx, "second")
		w.gone(ctx, "template-1", &infrav1.Metal3Data{})
		Eventually(func(g Gomega) {
			g.Expect(w.client.Get(ctx, w.key("in-cluster"), pool)).To(Succeed())
			used, _, err := unstructured.NestedInt64(pool.Object, "status", "ipAddresses", "used")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(used).To(BeZero())
		}).Should(Succeed())
	})

	It("names an InClusterIPPool that does not exist, and continues once it exists", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.template(ctx, "template", inCluster)
		w.machine(ctx, "machine", "template")
		const missing = "spec.metaData.ipAddressesFromPool[ip]: Waiting for InClusterIPPool in-cluster to allocate an address for " +
			"IPAddressClaim template-0-in-cluster. If this lasts, check that InClusterIPPool.ipam.cluster.x-k8s.io in-cluster exists, " +
			"is not paused and has free addresses, and read the log of its provider."
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.WaitingForAddressReason, missing))
		Consistently(func(g Gomega) {
			claim := w.addressClaim(ctx, "template-0-in-cluster")
			g.Expect(claim.Status.Conditions).To(BeEmpty(), "the provider reports a missing pool only in its log")
		}).Should(Succeed())
		w.inClusterPool(ctx, "in-cluster", "10.20.0.10")
		w.ready(ctx, "template-0")
	})
}

// inClusterPool creates an InClusterIPPool with an address or a range of addresses.
func (w *world) inClusterPool(ctx context.Context, name, addresses string) *unstructured.Unstructured {
	GinkgoHelper()
	pool := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte("{apiVersion: ipam.cluster.x-k8s.io/v1alpha2, kind: InClusterIPPool, "+
		"metadata: {name: "+name+", namespace: "+w.namespace+"}, "+
		"spec: {addresses: ["+addresses+"], prefix: 24, gateway: 10.20.0.1}}"), &pool.Object)).To(Succeed())
	Expect(w.client.Create(ctx, pool)).To(Succeed())
	return pool
}
