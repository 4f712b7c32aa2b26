package move_test

import (
	"context"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// possession is an object that a cluster requires, and its owners. clusterctl moves the object only if it moves the
// owners.
type possession struct {
	object client.Object
	owners []client.Object
}

// content has the fields of a possession that a move must not change.
type content struct {
	Labels map[string]string
	// Owners are kind and name.
	Owners []string
	Parts  map[string]any
}

// survival has the stories of objects that must move besides hosts and machines.
func survival(c *clusters) []story {
	return []story{
		{"moves the objects that a cluster requires, and restores their owners", func(ctx context.Context) {
			w := c.world(ctx)
			e := newEndpoint(w.ironic.Access())
			w.given(ctx, "own-credentials", map[string]string{"username": "ironic", "password": "correct-horse-battery-staple"})
			w.cluster(ctx, "cluster", e.at(), stage.With(func(infra *infrav1.Metal3Cluster) {
				infra.Spec.Ironic.CredentialsRef = &corev1.LocalObjectReference{Name: "own-credentials"}
			}))
			w.open(ctx, e, "cluster")
			w.silent(ctx, "cluster")
			w.given(ctx, "user", map[string]string{"value": "#cloud-config\n"})
			w.given(ctx, "meta", map[string]string{"metaData": "rack: \"7\"\n"})
			w.given(ctx, "network", map[string]string{"networkData": "links: []\n"})
			shared := func(host *bmov1alpha1.BareMetalHost) { host.Spec.PreprovisioningNetworkDataName = "network" }
			w.host(ctx, "cp-0", shared)
			w.host(ctx, "worker-0", shared)
			w.settled(ctx)
			found := w.hosts(ctx, Default, w.here)["worker-0"].Spec
			w.machine(ctx, "cluster", "cp-0", controlPlane())
			w.machine(ctx, "cluster", "worker-0")
			w.settled(ctx)
			possessions := w.possessions(ctx)
			for _, secret := range []string{"user", "meta", "network"} {
				Eventually(func(g Gomega) {
					g.Expect(w.read(ctx, g, w.here, w.secret(secret)).GetLabels()).To(HaveKey(infrav1.MoveLabel), secret)
				}).Should(Succeed())
			}
			before := map[string]content{}
			for _, kept := range possessions {
				found := w.read(ctx, Default, w.here, kept.object)
				Expect(found.GetOwnerReferences()).To(HaveLen(len(kept.owners)), describe(found))
				before[describe(found)] = contentOf(found)
			}
			w.move(ctx)
			Eventually(func(g Gomega) {
				for _, kept := range possessions {
					arrived := w.read(ctx, g, w.here, kept.object)
					g.Expect(contentOf(arrived)).To(Equal(before[describe(arrived)]), describe(arrived))
					var owners []types.UID
					for _, owner := range kept.owners {
						owners = append(owners, w.read(ctx, g, w.here, owner).GetUID())
					}
					for _, reference := range arrived.GetOwnerReferences() {
						g.Expect(owners).To(ContainElement(reference.UID), "%s is owned by a %s of the source", describe(arrived),
							reference.Kind)
					}
				}
			}).Should(Succeed())
			for _, kept := range possessions {
				left := w.empty(kept.object)
				err := w.there.client.Get(ctx, client.ObjectKeyFromObject(kept.object), left)
				Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%s is still in the source: %v", describe(left), err)
			}
			w.settled(ctx)

			By("releasing a host that was claimed before")
			w.scaleDown(ctx, "worker-0")
			w.eventually(ctx, "worker-0", inState(bmov1alpha1.StateAvailable), isFine(), HaveField("Spec", found))
		}},
		story{"does not begin while a Secret would stay behind", func(ctx context.Context) {
			w := c.world(ctx)
			keeper := &corev1.ConfigMap{ObjectMeta: w.named("keeper")}
			w.create(ctx, keeper)
			sealed := w.secret("sealed")
			sealed.Labels = map[string]string{infrav1.MoveLabel: ""}
			build.OwnedBy(keeper)(sealed)
			w.create(ctx, sealed)
			w.host(ctx, "host", func(host *bmov1alpha1.BareMetalHost) {
				host.Spec.PreprovisioningNetworkDataName = sealed.Name
			})
			w.fleet(ctx, "cluster", 1, 0)
			w.infras(ctx, stage.HaveCondition(infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.NotReadyForMoveReason,
				"Secret sealed of host host is owned by ConfigMap keeper, which does not move")))
			journey := w.begin(ctx)
			w.infras(ctx, stage.HaveCondition(infrav1.ReadyForMoveCondition, stage.IsFalseBecause(infrav1.WaitingForHostsReason,
				"Secret sealed of host host is owned by ConfigMap keeper, which does not move")))
			Expect(w.hosts(ctx, Default, w.there)).To(BeEmpty())

			By("aborting the move, and removing the owner of the Secret")
			journey.lose()
			stage.Change(ctx, w.here.client, w.key(sealed.Name), sealed, func(secret *corev1.Secret) {
				secret.OwnerReferences = nil
			})
			w.pauseClusters(ctx, w.here, false)
			w.readyForMove(ctx)
			w.move(ctx)
			w.read(ctx, Default, w.here, sealed)
		}}.atNight(),
	}
}

// given creates a Secret of the user.
func (w *world) given(ctx context.Context, name string, values map[string]string) {
	GinkgoHelper()
	secret := w.secret(name)
	secret.StringData = values
	w.create(ctx, secret)
}

func (w *world) secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
}

// possessions creates objects that users and other controllers add to a cluster, and returns all objects that must
// move.
func (w *world) possessions(ctx context.Context) []possession {
	GinkgoHelper()
	cluster, machine := build.Cluster("cluster"), build.Metal3Machine("cp-0", "cluster")
	for _, owner := range []client.Object{cluster, machine} {
		Expect(w.here.client.Get(ctx, w.key(owner.GetName()), owner)).To(Succeed())
	}
	host := build.Host("cp-0", build.InNamespace(w.namespace))
	metal3Cluster := build.Metal3Cluster("cluster", build.InNamespace(w.namespace))
	all := []possession{
		{w.secret(machine.Name + "-ironic-userdata"), []client.Object{machine}},
		{w.secret(secrets.Name("cluster")), []client.Object{metal3Cluster}},
		{w.secret("own-credentials"), []client.Object{metal3Cluster}},
		{w.secret(host.Spec.BMC.CredentialsName), []client.Object{host}},
		{w.secret("user"), nil}, {w.secret("meta"), nil}, {w.secret("network"), nil},
	}
	add := func(object client.Object, owners ...client.Object) {
		GinkgoHelper()
		own(object, owners...)
		w.create(ctx, object)
		all = append(all, possession{object, owners})
	}
	add(build.MachineTemplate("template", build.InNamespace(w.namespace),
		stage.With(func(template *infrav1.Metal3MachineTemplate) {
			spec := &template.Spec.Template.Spec
			spec.UserData, spec.MetaData = &corev1.SecretReference{Name: "user"}, &corev1.SecretReference{Name: "meta"}
			spec.NetworkData = &corev1.SecretReference{Name: "network"}
		})), cluster)
	remediation := &infrav1.Metal3RemediationTemplate{ObjectMeta: w.named("reboot")}
	remediation.Spec.Template.Spec.Strategy = &infrav1.RemediationStrategy{
		Type: infrav1.RebootRemediation, RetryLimit: 2, TimeoutSeconds: ptr.To[int32](300),
	}
	add(remediation)
	w.rendered(add, machine)
	w.addresses(add, cluster)
	return all
}

// rendered creates the objects of the data of a machine, as an earlier provider leaves them. The managers do not change
// paused objects.
func (w *world) rendered(add func(client.Object, ...client.Object), machine client.Object) {
	paused := map[string]string{clusterv1.PausedAnnotation: ""}
	template := &infrav1.Metal3DataTemplate{ObjectMeta: w.named("data")}
	template.Spec.MetaData = &infrav1.MetaData{Strings: []infrav1.MetaDataString{{Key: "rack", Value: "7"}}}
	annotations.AddAnnotations(template, paused)
	add(template)
	of := &infrav1.Metal3ObjectRef{Name: template.Name}
	claim := &infrav1.Metal3DataClaim{ObjectMeta: w.named("claim")}
	claim.Spec.Template = of
	annotations.AddAnnotations(claim, paused)
	add(claim, machine)
	data := &infrav1.Metal3Data{ObjectMeta: w.named("data-0")}
	data.Spec = infrav1.Metal3DataSpec{
		Index: ptr.To[int32](0), Template: of, Claim: &infrav1.Metal3ObjectRef{Name: claim.Name},
		MetaData: &corev1.SecretReference{Name: "data-0-metadata"},
	}
	annotations.AddAnnotations(data, paused)
	add(data, claim, template, machine)
	secret := w.secret("data-0-metadata")
	secret.Data = map[string][]byte{"metaData": []byte("rack: \"7\"\n")}
	add(secret, data)
}

// addresses creates objects of the IP address manager: a pool of the cluster, and a pool without a cluster.
func (w *world) addresses(add func(client.Object, ...client.Object), cluster client.Object) {
	w.pool(add, "pool", ptr.To(cluster.GetName()), cluster)
	w.pool(add, "shared", nil)
}

// pool creates a pool with one claimed address.
func (w *world) pool(
	add func(client.Object, ...client.Object), name string, clusterName *string, owners ...client.Object,
) {
	pool := &metal3ipamv1.IPPool{ObjectMeta: w.named(name)}
	pool.Spec = metal3ipamv1.IPPoolSpec{
		ClusterName: clusterName, NamePrefix: name, Prefix: 24,
		Pools:          []metal3ipamv1.Pool{{Start: ptr.To[metal3ipamv1.IPAddressStr]("192.0.2.20")}},
		PreAllocations: map[string]metal3ipamv1.IPAddressStr{"claim": "192.0.2.20"},
	}
	add(pool, owners...)
	reference := func(object client.Object) corev1.ObjectReference {
		return corev1.ObjectReference{Namespace: w.namespace, Name: object.GetName()}
	}
	claim := &metal3ipamv1.IPClaim{ObjectMeta: w.named("of-" + name)}
	claim.Spec.Pool = reference(pool)
	add(claim, pool)
	address := &metal3ipamv1.IPAddress{ObjectMeta: w.named(name + "-192-0-2-20")}
	address.Spec = metal3ipamv1.IPAddressSpec{
		Claim: reference(claim), Pool: reference(pool), Prefix: 24, Address: "192.0.2.20",
	}
	add(address, claim, pool)
}

func (w *world) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: w.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "cluster"},
	}
}

// own sets the owners of an object. The first owner is the controller.
func own(object client.Object, owners ...client.Object) {
	for i, owner := range owners {
		build.OwnedBy(owner)(object)
		references := object.GetOwnerReferences()
		references[i].Controller = ptr.To(i == 0)
		object.SetOwnerReferences(references)
	}
}

// empty returns an empty object of the same kind and name.
func (w *world) empty(object client.Object) *unstructured.Unstructured {
	GinkgoHelper()
	kind, err := apiutil.GVKForObject(object, build.Scheme())
	Expect(err).NotTo(HaveOccurred())
	whole := &unstructured.Unstructured{}
	whole.SetGroupVersionKind(kind)
	whole.SetName(object.GetName())
	return whole
}

// read returns an object with all its fields.
func (w *world) read(ctx context.Context, g Gomega, at *side, object client.Object) *unstructured.Unstructured {
	GinkgoHelper()
	whole := w.empty(object)
	g.Expect(at.client.Get(ctx, client.ObjectKeyFromObject(object), whole)).To(Succeed(), describe(whole))
	return whole
}

func describe(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetName()
}

// contentOf omits the fields that depend on the cluster of the object.
func contentOf(object *unstructured.Unstructured) content {
	found := content{Labels: object.GetLabels(), Parts: map[string]any{}}
	for _, owner := range object.GetOwnerReferences() {
		group := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
		found.Owners = append(found.Owners, group.String()+" "+owner.Name)
	}
	// clusterctl restores owners in any order.
	slices.Sort(found.Owners)
	for key, value := range object.Object {
		if key != "metadata" && key != "status" {
			found.Parts[key] = value
		}
	}
	return found
}
