package metal3data_test

import (
	"context"
	"strings"
	"time"

	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/managers"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// pooled is a template with addresses of one IPPool of Metal3.
const pooled = "{metaData: {ipAddressesFromPool: [{key: ip, name: pool}], dnsServersFromPool: [{key: dns, name: pool}]}, networkData: {networks: {ipv4: [{id: net, link: nic0, ipAddressFromIPPool: pool, routes: [{network: 0.0.0.0, gateway: {fromIPPool: pool}}]}]}}}"

// describeLateAddresses are the stories that start without the address manager.
func describeLateAddresses(s *suite) {
	It("claims addresses once their API is installed", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.template(ctx, "template", pooled)
		w.machine(ctx, "machine", "template")
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.AddressManagerMissingReason,
			"spec.metaData.ipAddressesFromPool[ip] refers to IPPool pool, but the kind IPClaim is not installed. Install the provider of this pool."))
		Expect(s.server.InstallDefinitions(ctx, components.AddressManager)).To(Succeed())
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.PoolMissingReason,
			"spec.metaData.ipAddressesFromPool[ip] refers to IPPool pool, which does not exist. Create it, or use another pool in a new Metal3DataTemplate."))
		Expect(managers.StartAddressManager(ctx, s.server, "")).To(Succeed())
		w.pool(ctx, "pool", "10.0.0.20")
		w.ready(ctx, "template-0")
	})

	It("claims addresses of the IPAM contract once its API is installed", func(ctx context.Context) {
		s.uninstall(ctx, "ipaddressclaims.ipam.cluster.x-k8s.io")
		w := s.world(ctx)
		w.manager.Start()
		w.template(ctx, "template", inCluster)
		w.machine(ctx, "machine", "template")
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.AddressManagerMissingReason,
			"spec.metaData.ipAddressesFromPool[ip] refers to InClusterIPPool in-cluster, but the kind IPAddressClaim is not installed. Install the provider of this pool."))
		Expect(s.server.InstallDefinitions(ctx, components.ClusterAPICore, components.InClusterAddressManager)).To(Succeed())
		Expect(managers.StartInClusterAddressManager(ctx, s.server)).To(Succeed())
		w.inClusterPool(ctx, "in-cluster", "10.20.0.10")
		w.ready(ctx, "template-0")
		Expect(w.secret(ctx, "machine-metadata", "metaData")).To(ContainSubstring("10.20.0.10"))
	})
}

// uninstall deletes a definition and waits until the API server does not serve it.
func (s *suite) uninstall(ctx context.Context, name string) {
	GinkgoHelper()
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	Expect(s.server.Client.Delete(ctx, definition)).To(Succeed())
	kinds, err := discovery.NewDiscoveryClientForConfig(s.server.Config)
	Expect(err).NotTo(HaveOccurred())
	resource, group, _ := strings.Cut(name, ".")
	Eventually(func(g Gomega) {
		_, lists, err := kinds.ServerGroupsAndResources()
		g.Expect(err).NotTo(HaveOccurred())
		for _, list := range lists {
			if strings.HasPrefix(list.GroupVersion, group+"/") {
				g.Expect(list.APIResources).NotTo(ContainElement(HaveField("Name", resource)))
			}
		}
	}).Should(Succeed())
}

func describeAddresses(s *suite) {
	It("renders the addresses of a pool of Metal3", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.pool(ctx, "pool", "10.0.0.20")
		w.template(ctx, "template", pooled)
		w.machine(ctx, "machine", "template")
		w.ready(ctx, "template-0")
		Expect(w.secret(ctx, "machine-metadata", "metaData")).To(MatchYAML(
			`{ip: 10.0.0.10, dns: 10.0.0.2, providerid: ` + w.namespace + `/host-machine/machine}`))
		Expect(w.secret(ctx, "machine-networkdata", "networkData")).To(MatchYAML(`{links: [], services: [], networks: [
			{type: ipv4, id: net, link: nic0, ip_address: 10.0.0.10, netmask: 255.255.255.0, routes: [{network: 0.0.0.0, netmask: 0.0.0.0, gateway: 10.0.0.1, services: []}]}]}`))
		claim := &metal3ipamv1.IPClaim{}
		Expect(w.client.Get(ctx, w.key("template-0-pool"), claim)).To(Succeed())
		Expect(claim.Finalizers).To(ContainElement(infrav1.DataFinalizer))
		Expect(claim.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, clusterName))
		Expect(metav1.IsControlledBy(claim, w.data(ctx, Default, "template-0"))).To(BeTrue())
		Expect(claim.Spec.Pool.Name).To(Equal("pool"))
	})

	It("renders addresses of a provider of the IPAM contract and of Metal3", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.pool(ctx, "pool", "10.0.0.20")
		w.template(ctx, "template", "metaData: {ipAddressesFromPool: [{key: a, name: pool}, {key: b, name: other, apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool}], prefixesFromPool: [{key: p, name: other, apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool}]}")
		w.machine(ctx, "machine", "template")
		claim := w.addressClaim(ctx, "template-0-other")
		w.allocate(ctx, claim, "10.0.0.25", claim.Spec.PoolRef)
		w.ready(ctx, "template-0")
		var rendered map[string]string
		Expect(unmarshal(w.secret(ctx, "machine-metadata", "metaData"), &rendered)).To(Succeed())
		Expect(rendered["a"]).To(Equal("10.0.0.10"))
		Expect(rendered["b"]).To(Equal("10.0.0.25"))
		Expect(rendered["p"]).To(Equal("24"))
		Expect(claim.Spec.PoolRef).To(Equal(ipamv1.IPPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "other"}))
		Expect(claim.Finalizers).To(ContainElement(infrav1.DataFinalizer))
		Expect(claim.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, clusterName))
	})

	It("reports the failure of a provider of the IPAM contract", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		claim := w.claimOfContract(ctx)
		Expect(claim.Spec.ClusterName).To(Equal(clusterName))
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.WaitingForAddressReason,
			"spec.metaData.ipAddressesFromPool[a]: Waiting for InClusterIPPool p to allocate an address for IPAddressClaim template-0-p. "+
				"If this lasts, check that InClusterIPPool.ipam.cluster.x-k8s.io p exists, is not paused and has free addresses, "+
				"and read the log of its provider."))
		stage.ChangeStatus(ctx, w.client, w.key("template-0-p"), claim, func(claim *ipamv1.IPAddressClaim) {
			claim.Status.Conditions = []metav1.Condition{{
				Type: "Ready", Status: metav1.ConditionFalse, Reason: ipamv1.IPAddressClaimReadyPoolExhaustedReason,
				Message: "no address is left", LastTransitionTime: metav1.Now(),
			}}
		})
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.AddressFailedReason,
			"spec.metaData.ipAddressesFromPool[a]: InClusterIPPool p allocated no address for IPAddressClaim template-0-p: no address is left. "+
				"Correct or enlarge the pool, or delete machines that use it."))
		w.allocate(ctx, claim, "10.9.0.1", claim.Spec.PoolRef)
		w.ready(ctx, "template-0")
		Expect(w.secret(ctx, "machine-metadata", "metaData")).To(ContainSubstring("10.9.0.1"))
	})

	It("renders no address of another pool with the same name", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		claim := w.claimOfContract(ctx)
		w.allocate(ctx, claim, "10.9.0.1", ipamv1.IPPoolReference{APIGroup: "ipam.metal3.io", Kind: "IPPool", Name: "p"})
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.AddressConflictReason,
			"spec.metaData.ipAddressesFromPool[a]: IPAddressClaim template-0-p got an address of IPPool.ipam.metal3.io p "+
				"instead of InClusterIPPool p. Use pools with different names in a new Metal3DataTemplate."))
		w.allocate(ctx, claim, "10.9.0.2", claim.Spec.PoolRef)
		w.ready(ctx, "template-0")
		Expect(w.secret(ctx, "machine-metadata", "metaData")).To(ContainSubstring("10.9.0.2"))
	})

	It("renders an address that its provider creates after the claim names it", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		claim := w.claimOfContract(ctx)
		w.allocated(ctx, claim, "10.9.0.1")
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.AddressFailedReason,
			"status.addressRef names IPAddress address-10.9.0.1, which does not exist"))
		w.address(ctx, claim, "10.9.0.1", claim.Spec.PoolRef)
		w.ready(ctx, "template-0")
		Expect(w.secret(ctx, "machine-metadata", "metaData")).To(ContainSubstring("10.9.0.1"))
	})

	It("renders no address of another claim, or of a claim that is being deleted", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.template(ctx, "template", "{metaData: {ipAddressesFromPool: [{key: a, name: p, apiGroup: ipam.cluster.x-k8s.io, kind: "+
			"InClusterIPPool}, {key: m, name: late}]}}")
		w.machine(ctx, "machine", "template")
		claim := w.addressClaim(ctx, "template-0-p")
		other := claim.DeepCopy()
		other.Name = "other"
		w.address(ctx, other, "10.9.0.1", claim.Spec.PoolRef)
		w.allocated(ctx, claim, "10.9.0.1")
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.AddressFailedReason,
			"status.addressRef names IPAddress address-10.9.0.1, which belongs to IPAddressClaim other"))

		w.allocate(ctx, claim, "10.9.0.2", claim.Spec.PoolRef)
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.PoolMissingReason, "late"))
		Expect(w.client.Delete(ctx, claim)).To(Succeed())
		Eventually(func(g Gomega) {
			next := &ipamv1.IPAddressClaim{}
			g.Expect(w.client.Get(ctx, w.key("template-0-p"), next)).To(Succeed())
			g.Expect(next.UID).NotTo(Equal(claim.UID))
			claim = next
		}).Should(Succeed())
		w.allocate(ctx, claim, "10.9.0.3", claim.Spec.PoolRef)

		foreign := &metal3ipamv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "late-10-0-0-10"}}
		foreign.Spec.Pool.Name, foreign.Spec.Claim.Name = "late", "other"
		foreign.Spec.Address, foreign.Spec.Prefix = "10.0.0.10", 24
		w.create(ctx, foreign)
		setAddress := func(name string) {
			stage.ChangeStatus(ctx, w.client, w.key("template-0-late"), &metal3ipamv1.IPClaim{}, func(claim *metal3ipamv1.IPClaim) {
				claim.Status.Address = &corev1.ObjectReference{Namespace: w.namespace, Name: name}
			})
		}
		setAddress(foreign.Name)
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.AddressFailedReason,
			"status.address names IPAddress late-10-0-0-10, which belongs to IPClaim other"))
		setAddress("gone")
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.AddressFailedReason,
			"status.address names IPAddress gone, which does not exist"))
		w.pool(ctx, "late", "10.0.0.20")
		w.clock.SetTime(time.Now().Add(2 * hostdata.RetryAfter))
		// An event of the data replaces the wait of a minute.
		stage.Change(ctx, w.client, w.key("template-0"), &infrav1.Metal3Data{}, func(data *infrav1.Metal3Data) {
			data.Annotations = map[string]string{"touched": "now"}
		})
		w.ready(ctx, "template-0")
		Expect(w.secret(ctx, "machine-metadata", "metaData")).To(And(ContainSubstring("10.9.0.3"), ContainSubstring("10.0.0.1")))
	})

	It("reports an exhausted pool, and claims again after it was enlarged", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.pool(ctx, "pool", "10.0.0.10")
		w.template(ctx, "template", pooled)
		w.machine(ctx, "first", "template")
		w.ready(ctx, "template-0")
		w.machine(ctx, "second", "template")
		w.eventually(ctx, "template-1", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.AddressFailedReason,
			"spec.metaData.ipAddressesFromPool[ip]: IPPool pool allocated no address for IPClaim template-1-pool: Exhausted IP Pools. "+
				"Correct or enlarge the pool, or delete machines that use it."))
		stage.Change(ctx, w.client, w.key("pool"), &metal3ipamv1.IPPool{}, func(pool *metal3ipamv1.IPPool) {
			pool.Spec.Pools[0].End = ptr.To[metal3ipamv1.IPAddressStr]("10.0.0.11")
		})
		w.clock.SetTime(time.Now().Add(2 * hostdata.RetryAfter))
		// An event of the data replaces the wait of a minute.
		stage.Change(ctx, w.client, w.key("template-1"), &infrav1.Metal3Data{}, func(data *infrav1.Metal3Data) {
			data.Annotations = map[string]string{"touched": "now"}
		})
		w.ready(ctx, "template-1")
		Expect(w.secret(ctx, "second-metadata", "metaData")).To(ContainSubstring("10.0.0.11"))
	})

	It("reports a pool of the wrong family", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.pool(ctx, "pool", "10.0.0.20")
		w.template(ctx, "template", "networkData: {networks: {ipv6: [{id: net, link: nic0, ipAddressFromIPPool: pool}]}}")
		w.machine(ctx, "machine", "template")
		w.eventually(ctx, "template-0", infrav1.SecretsReadyCondition, stage.IsFalseBecause(infrav1.RenderingFailedReason,
			`Metal3DataTemplate template cannot be rendered for Metal3Machine machine: spec.networkData.networks.ipv6[net].ipAddressFromIPPool: Invalid value: "pool": allocated the address 10.0.0.10, which is not of IPv6; use a pool of IPv6 addresses in a new Metal3DataTemplate`))
		w.eventually(ctx, "template-0", infrav1.ReadyCondition, stage.IsFalseBecause(infrav1.RenderingFailedReason, ""))
	})

	It("uses the pool in an annotation, and releases its address", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.pool(ctx, "rack-7", "10.0.0.20")
		w.template(ctx, "template", "networkData: {networks: {ipv4DHCP: [{id: net, link: nic0, routes: [{network: 0.0.0.0, gateway: {fromPoolAnnotation: {object: machine, annotation: pool}}}]}]}}")
		w.machine(ctx, "machine", "template")
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.RenderingFailedReason,
			`spec.networkData.networks.ipv4DHCP[net].routes[0].gateway.fromPoolAnnotation.annotation: Invalid value: "pool": is missing on Machine machine; set the annotation`))
		stage.Change(ctx, w.client, w.key("machine"), &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
			machine.Annotations = map[string]string{"pool": "rack-7"}
		})
		w.ready(ctx, "template-0")
		Expect(w.secret(ctx, "machine-networkdata", "networkData")).To(ContainSubstring("10.0.0.1"))
		Expect(w.client.Delete(ctx, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "machine"}})).To(Succeed())
		w.releaseClaim(ctx, "machine")
		w.gone(ctx, "template-0-rack-7", &metal3ipamv1.IPClaim{})
		w.gone(ctx, "template-0", &infrav1.Metal3Data{})
	})

	It("names claims after hosts for the preallocations of a pool", func(ctx context.Context) {
		w := s.world(ctx)
		w.byHostName = true
		w.manager.Start()
		w.pool(ctx, "pool", "10.0.0.20", func(pool *metal3ipamv1.IPPool) {
			pool.Spec.PreAllocations = map[string]metal3ipamv1.IPAddressStr{"host-machine-pool": "10.0.0.17"}
		})
		w.template(ctx, "template", pooled)
		w.machine(ctx, "machine", "template")
		w.ready(ctx, "template-0")
		Expect(w.secret(ctx, "machine-metadata", "metaData")).To(ContainSubstring("10.0.0.17"))
		claim := &metal3ipamv1.IPClaim{}
		Expect(w.client.Get(ctx, w.key("host-machine-pool"), claim)).To(Succeed())
		Expect(claim.Labels).To(And(HaveKeyWithValue(infrav1.DataNameLabel, "template-0"), HaveKeyWithValue(infrav1.PoolNameLabel, "pool")))
		w.releaseClaim(ctx, "machine")
		w.gone(ctx, "host-machine-pool", claim)
		w.gone(ctx, "template-0", &infrav1.Metal3Data{})
	})

	It("claims an address for data whose name is too long for a label", func(ctx context.Context) {
		w := s.world(ctx)
		w.byHostName = true
		w.manager.Start()
		w.pool(ctx, "pool", "10.0.0.20")
		template := strings.Repeat("t", validation.LabelValueMaxLength)
		w.template(ctx, template, pooled)
		w.machine(ctx, "machine", template)
		w.ready(ctx, template+"-0")
		claim := &metal3ipamv1.IPClaim{}
		Expect(w.client.Get(ctx, w.key("host-machine-pool"), claim)).To(Succeed())
		Expect(claim.Labels).To(Equal(map[string]string{clusterv1.ClusterNameLabel: clusterName, infrav1.PoolNameLabel: "pool"}))
		w.releaseClaim(ctx, "machine")
		w.gone(ctx, "host-machine-pool", claim)
	})

	It("does not use the claim of earlier data with its name", func(ctx context.Context) {
		w := s.world(ctx)
		w.pool(ctx, "pool", "10.0.0.20")
		old := &metal3ipamv1.IPClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: w.namespace, Name: "template-0-pool", Finalizers: []string{infrav1.DataFinalizer},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Data", Name: "template-0", UID: "earlier", Controller: ptr.To(true)}},
			},
		}
		old.Spec.Pool.Name = "pool"
		w.create(ctx, old)
		w.template(ctx, "template", pooled)
		w.manager.Start()
		w.machine(ctx, "machine", "template")
		w.ready(ctx, "template-0")
		claim := &metal3ipamv1.IPClaim{}
		Expect(w.client.Get(ctx, w.key("template-0-pool"), claim)).To(Succeed())
		Expect(claim.UID).NotTo(Equal(old.UID))
	})

	It("waits for a claim without an owner, and releases it after its deletion", func(ctx context.Context) {
		w := s.world(ctx)
		w.pool(ctx, "pool", "10.0.0.20")
		other := &metal3ipamv1.IPClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: "template-0-pool", Finalizers: []string{infrav1.DataFinalizer},
		}}
		other.Spec.Pool.Name = "pool"
		w.create(ctx, other)
		w.template(ctx, "template", pooled)
		w.manager.Start()
		w.machine(ctx, "machine", "template")
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.AddressConflictReason,
			"spec.metaData.ipAddressesFromPool[ip] requires IPClaim template-0-pool, which this Metal3Data does not own."))
		Expect(w.client.Delete(ctx, other)).To(Succeed())
		w.ready(ctx, "template-0")
	})
}

// claimOfContract creates a machine with an address from a pool of the IPAM contract, and waits for its claim.
func (w *world) claimOfContract(ctx context.Context) *ipamv1.IPAddressClaim {
	GinkgoHelper()
	w.template(ctx, "template", "metaData: {ipAddressesFromPool: [{key: a, name: p, apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool}]}")
	w.machine(ctx, "machine", "template")
	return w.addressClaim(ctx, "template-0-p")
}

// addressClaim waits for an IPAddressClaim.
func (w *world) addressClaim(ctx context.Context, name string) *ipamv1.IPAddressClaim {
	GinkgoHelper()
	claim := &ipamv1.IPAddressClaim{}
	Eventually(func() error { return w.client.Get(ctx, w.key(name), claim) }).Should(Succeed())
	return claim
}

// allocate allocates an address of a pool to a claim, as a provider of the IPAM contract does.
func (w *world) allocate(
	ctx context.Context, claim *ipamv1.IPAddressClaim, address string, pool ipamv1.IPPoolReference,
) {
	GinkgoHelper()
	w.address(ctx, claim, address, pool)
	w.allocated(ctx, claim, address)
}

// address creates an address of a claim.
func (w *world) address(ctx context.Context, claim *ipamv1.IPAddressClaim, address string, pool ipamv1.IPPoolReference) {
	GinkgoHelper()
	w.create(ctx, &ipamv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "address-" + address},
		Spec: ipamv1.IPAddressSpec{
			Address: address, Prefix: ptr.To[int32](24), PoolRef: pool,
			ClaimRef: ipamv1.IPAddressClaimReference{Name: claim.Name},
		},
	})
}

// allocated sets the address of a claim.
func (w *world) allocated(ctx context.Context, claim *ipamv1.IPAddressClaim, address string) {
	GinkgoHelper()
	stage.ChangeStatus(ctx, w.client, w.key(claim.Name), &ipamv1.IPAddressClaim{}, func(claim *ipamv1.IPAddressClaim) {
		claim.Status.AddressRef.Name = "address-" + address
		claim.Status.Conditions = []metav1.Condition{{
			Type: "Ready", Status: metav1.ConditionTrue, Reason: "Allocated", LastTransitionTime: metav1.Now(),
		}}
	})
}
