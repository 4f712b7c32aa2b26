package metal3data_test

import (
	"context"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3data"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3dataclaim"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3datatemplate"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/datastore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const clusterName = "cluster"

// workers is the number of objects of a kind that a controller reconciles at the same time.
const workers = 4

// world is the namespace of one story, with the controllers of templates, claims and data.
type world struct {
	client     client.Client
	namespace  string
	writes     *stage.Writes
	clock      *clocktesting.FakePassiveClock
	byHostName bool
	cluster    *clusterv1.Cluster
	manager    stage.Manager
}

func (s *suite) world(ctx context.Context) *world {
	GinkgoHelper()
	w := &world{
		client: s.server.Client, namespace: stage.Namespace(ctx, s.server), writes: &stage.Writes{},
		clock: clocktesting.NewFakePassiveClock(time.Now()),
	}
	w.manager = stage.Manager{
		Config: s.server.Config, Namespace: w.namespace, Writes: w.writes, Setup: w.setup, KindsChange: true,
	}
	w.cluster = build.Cluster(clusterName, build.InNamespace(w.namespace), build.InfrastructureReady())
	w.create(ctx, w.cluster)
	return w
}

func (w *world) setup(ctx context.Context, mgr ctrl.Manager, _ clustercache.ClusterCache) error {
	data := datastore.New(mgr.GetClient(), mgr.GetAPIReader())
	if err := data.Setup(ctx, mgr.GetFieldIndexer(), mgr.GetCache()); err != nil {
		return err
	}
	shared := true
	options := controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: &shared}
	if err := (&metal3datatemplate.Reconciler{
		Reporter: flow.Reporter{Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("metal3datatemplate")}, Data: data,
	}).SetupWithManager(ctx, mgr, options); err != nil {
		return err
	}
	if err := (&metal3dataclaim.Reconciler{
		Reporter: flow.Reporter{Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("metal3dataclaim")}, Data: data, Live: mgr.GetAPIReader(),
	}).SetupWithManager(ctx, mgr, options); err != nil {
		return err
	}
	return (&metal3data.Reconciler{
		Reporter: flow.Reporter{Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("metal3data")}, Clock: w.clock, Data: data,
		Secrets: mgr.GetCache(), Live: mgr.GetAPIReader(), ByHostName: w.byHostName,
		RecheckInterval: time.Second,
	}).SetupWithManager(ctx, mgr, options)
}

func (w *world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

func (w *world) create(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(build.CreateWithStatus(ctx, w.client, object)).To(Succeed())
}

// template creates a template from the YAML of its spec.
func (w *world) template(ctx context.Context, name, spec string) *infrav1.Metal3DataTemplate {
	GinkgoHelper()
	template := &infrav1.Metal3DataTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	Expect(yaml.UnmarshalStrict([]byte(spec), &template.Spec)).To(Succeed())
	w.create(ctx, template)
	return template
}

// machine creates a machine on a host named host-<name>, and its claim, in place of the Metal3Machine controller.
func (w *world) machine(ctx context.Context, name, template string) {
	GinkgoHelper()
	w.unclaimed(ctx, name)
	w.claim(ctx, name, template)
}

func (w *world) unclaimed(ctx context.Context, name string) {
	GinkgoHelper()
	here := build.InNamespace(w.namespace)
	owner := build.Machine(name, clusterName, here)
	w.create(ctx, owner)
	host := build.Host("host-"+name, here, build.Available(), build.NIC("eth0", "52:54:00:00:00:01", ""))
	machine := build.Metal3Machine(name, clusterName, here, build.OwnedBy(owner), build.OnHost(host))
	w.create(ctx, machine)
	host.Spec.ConsumerRef = &corev1.ObjectReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Machine", Namespace: w.namespace, Name: name,
	}
	w.create(ctx, host)
}

func (w *world) claim(ctx context.Context, name, template string) {
	GinkgoHelper()
	machine := &infrav1.Metal3Machine{}
	Expect(w.client.Get(ctx, w.key(name), machine)).To(Succeed())
	claim := &infrav1.Metal3DataClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName},
			Finalizers: []string{infrav1.MachineFinalizer, infrav1.DataClaimFinalizer},
		},
		Spec: infrav1.Metal3DataClaimSpec{Template: &infrav1.Metal3ObjectRef{Name: template}},
	}
	build.OwnedBy(machine)(claim)
	w.create(ctx, claim)
}

// releaseClaim deletes a claim in place of the Metal3Machine controller.
func (w *world) releaseClaim(ctx context.Context, name string) {
	GinkgoHelper()
	claim := &infrav1.Metal3DataClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	stage.Change(ctx, w.client, w.key(name), claim, func(claim *infrav1.Metal3DataClaim) {
		claim.Finalizers = []string{infrav1.DataClaimFinalizer}
	})
	Expect(w.client.Delete(ctx, claim)).To(Succeed())
}

// pool creates an IPPool of Metal3 with the addresses from 10.0.0.10 on.
func (w *world) pool(ctx context.Context, name, last string, edits ...func(*metal3ipamv1.IPPool)) {
	GinkgoHelper()
	address := func(text string) *metal3ipamv1.IPAddressStr { return ptr.To(metal3ipamv1.IPAddressStr(text)) }
	pool := &metal3ipamv1.IPPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: metal3ipamv1.IPPoolSpec{
			NamePrefix: name, Prefix: 24, Gateway: address("10.0.0.1"), DNSServers: []metal3ipamv1.IPAddressStr{"10.0.0.2"},
			Pools: []metal3ipamv1.Pool{{Start: address("10.0.0.10"), End: address(last)}},
		},
	}
	for _, edit := range edits {
		edit(pool)
	}
	w.create(ctx, pool)
}

func (w *world) data(ctx context.Context, g Gomega, name string) *infrav1.Metal3Data {
	data := &infrav1.Metal3Data{}
	g.Expect(w.client.Get(ctx, w.key(name), data)).To(Succeed())
	return data
}

// eventually waits until a condition of a Metal3Data matches.
func (w *world) eventually(ctx context.Context, name, condition string, want gomegatypes.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(w.data(ctx, g, name).Status.Conditions).To(stage.HaveCondition(condition, want))
	}).Should(Succeed())
}

// ready waits until a Metal3Data is rendered.
func (w *world) ready(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(w.data(ctx, g, name).Status.Ready).To(HaveValue(BeTrue()))
	}).Should(Succeed())
}

// secret returns the YAML in a rendered Secret.
func (w *world) secret(ctx context.Context, name, key string) string {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(w.client.Get(ctx, w.key(name), secret)).To(Succeed())
	Expect(secret.Type).To(BeEquivalentTo("infrastructure.cluster.x-k8s.io/secret"))
	Expect(secret.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, clusterName))
	Expect(secret.Data).To(HaveKey(key))
	return string(secret.Data[key])
}

// gone waits until an object does not exist.
func (w *world) gone(ctx context.Context, name string, object client.Object) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		err := w.client.Get(ctx, w.key(name), object)
		g.Expect(client.IgnoreNotFound(err)).To(Succeed())
		g.Expect(err).To(HaveOccurred(), "%T %s still exists: %v", object, name, object.GetFinalizers())
	}).Should(Succeed())
}

// removeByForce deletes an object and then removes its finalizers: the controllers restore the finalizers of an object
// that is not being deleted.
func (w *world) removeByForce(ctx context.Context, name string, object client.Object) {
	GinkgoHelper()
	object.SetNamespace(w.namespace)
	object.SetName(name)
	Expect(client.IgnoreNotFound(w.client.Delete(ctx, object))).To(Succeed())
	withoutFinalizers := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	Expect(client.IgnoreNotFound(w.client.Patch(ctx, object, withoutFinalizers))).To(Succeed())
}

func (w *world) change(ctx context.Context, host string, edit func(*bmov1alpha1.BareMetalHost)) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key(host), &bmov1alpha1.BareMetalHost{}, edit)
}

// emitted waits until the events about an object have these types and reasons, and checks that no event follows. The
// API server stores a repeated event in the series of the first one.
func (w *world) emitted(ctx context.Context, kind, name string, want ...string) {
	GinkgoHelper()
	events := func(g Gomega) {
		var list eventsv1.EventList
		g.Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
		var got []string
		for _, event := range list.Items {
			if event.Regarding.Kind == kind && event.Regarding.Name == name {
				g.Expect(event.Series).To(BeNil(), "%s is repeated", event.Reason)
				got = append(got, event.Type+" "+event.Reason)
			}
		}
		g.Expect(got).To(ConsistOf(want))
	}
	Eventually(events).Should(Succeed())
	Consistently(events).Should(Succeed())
}
