package metal3machine_test

import (
	"context"
	"fmt"
	"os"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/hostmove"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/hostsweep"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3machine"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// clusterName is the Cluster of every world.
const clusterName = "cluster"

// world is the namespace with a cluster of one story. The story may change the fields before start.
type world struct {
	server    *env.Server
	bmo       *stage.BaremetalOperator
	client    client.Client
	namespace string

	// cluster and infra are the created objects.
	cluster *clusterv1.Cluster
	infra   *infrav1.Metal3Cluster

	// writes are the writes of the managers of the story.
	writes *stage.Writes

	// config connects the managers to the API server.
	config *rest.Config

	// connected is true if the managers connect to the workload cluster.
	connected bool

	// nodes wraps the access to Nodes. Nil does not wrap it.
	nodes func(metal3machine.Nodes) metal3machine.Nodes

	// onRead runs whenever the story reads a machine.
	onRead func()

	// sweeps is true if the managers sweep hosts.
	sweeps bool

	watchFilter string
	workers     int
}

// world returns a world with a cluster with provisioned infrastructure.
func (s *suite) world(ctx context.Context, options ...build.Metal3ClusterOption) *world {
	GinkgoHelper()
	w := s.emptyWorld(ctx)
	w.cluster = build.Cluster(clusterName, build.InNamespace(w.namespace), build.InfrastructureReady())
	w.create(ctx, w.cluster)
	options = append(options, build.InNamespace(w.namespace), build.OwnedBy(w.cluster), ofCluster(clusterName))
	w.infra = build.Metal3Cluster(clusterName, options...)
	w.create(ctx, w.infra)
	return w
}

// emptyWorld returns a world without a cluster.
func (s *suite) emptyWorld(ctx context.Context) *world {
	GinkgoHelper()
	return &world{
		server: s.server, bmo: s.operator, client: s.server.Client, config: s.server.Config,
		namespace: stage.Namespace(ctx, s.server), writes: &stage.Writes{}, workers: 4, onRead: func() {},
	}
}

// start runs a manager with the controller.
func (w *world) start() *stage.Running {
	GinkgoHelper()
	return stage.Manager{
		Config: w.config, Namespace: w.namespace, Writes: w.writes, Clusters: w.connected, Setup: w.setup,
	}.Start()
}

func (w *world) setup(ctx context.Context, mgr ctrl.Manager, clusters clustercache.ClusterCache) error {
	if err := hoststore.SetupIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	hosts := hoststore.New(mgr.GetClient(), mgr.GetAPIReader())
	offered, err := hosts.Watch(ctx, mgr.GetCache())
	if err != nil {
		return err
	}
	reconciler := &metal3machine.Reconciler{
		Reporter:    flow.Reporter{Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("metal3machine"), WatchFilter: w.watchFilter},
		Clock:       clock.RealClock{},
		Hosts:       hosts,
		Clusters:    hostmove.NewStore(hosts, mgr.GetClient(), mgr.GetAPIReader()),
		Nodes:       workload.New(clusters, mgr.GetCache()),
		Secrets:     mgr.GetCache(),
		Live:        mgr.GetAPIReader(),
		SpecProblem: specProblem,
		GuardImage:  "registry.example.com/guard:v1",

		SecretInterval: time.Second,
	}
	if w.nodes != nil {
		reconciler.Nodes = w.nodes(reconciler.Nodes)
	}
	shared := true
	if w.sweeps {
		sweep := &hostsweep.Reconciler{
			Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("hostsweep"), Hosts: hosts,
		}
		if err := sweep.SetupWithManager(ctx, mgr, controller.Options{SkipNameValidation: &shared}); err != nil {
			return err
		}
	}
	return reconciler.SetupWithManager(ctx, mgr, metal3machine.Sources{Offered: offered, Clusters: clusters},
		controller.Options{MaxConcurrentReconciles: w.workers, SkipNameValidation: &shared})
}

// specProblem replaces the rules of admission.
func specProblem(machine *infrav1.Metal3Machine) string {
	if machine.Spec.Image == nil && machine.Spec.CustomDeploy == nil {
		return "spec.image: set it, or spec.customDeploy"
	}
	return ""
}

// operate lets BMO operate the hosts of the story.
func (w *world) operate(ctx context.Context) {
	GinkgoHelper()
	w.bmo.Operate(ctx, w.namespace)
}

// connectedWorld returns a world with operated hosts and access to Nodes.
func (s *suite) connectedWorld(ctx context.Context, options ...build.Metal3ClusterOption) *world {
	GinkgoHelper()
	w := s.world(ctx, options...)
	w.connect(ctx, w.server.Config)
	w.operate(ctx)
	return w
}

// connect connects the managers to the workload cluster, for which the API server of the story stands.
func (w *world) connect(ctx context.Context, config *rest.Config) {
	GinkgoHelper()
	w.connected = true
	path, err := w.server.WriteKubeconfig(w.namespace, config)
	Expect(err).NotTo(HaveOccurred())
	content, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	w.create(ctx, kubeconfig.GenerateSecret(w.cluster, content))
}

// create creates an object with its status.
func (w *world) create(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(build.CreateWithStatus(ctx, w.client, object)).To(Succeed())
}

// host creates an available host. Options may make it something else.
func (w *world) host(ctx context.Context, name string, options ...build.HostOption) *bmov1alpha1.BareMetalHost {
	GinkgoHelper()
	options = append([]build.HostOption{build.InNamespace(w.namespace), build.Available()}, options...)
	host := build.Host(name, options...)
	Expect(build.CreateHost(ctx, w.client, host)).To(Succeed())
	return host
}

// owner creates a Machine.
func (w *world) owner(ctx context.Context, name string, options ...build.MachineOption) *clusterv1.Machine {
	GinkgoHelper()
	options = append([]build.MachineOption{build.InNamespace(w.namespace)}, options...)
	machine := build.Machine(name, clusterName, options...)
	w.create(ctx, machine)
	return machine
}

// secret creates the bootstrap data of a Machine.
func (w *world) secret(ctx context.Context, machine string) {
	GinkgoHelper()
	w.create(ctx, build.BootstrapSecret(machine, build.CloudConfig, []byte("#cloud-config"),
		build.InNamespace(w.namespace), ofCluster(clusterName)))
}

// dataSecrets creates the Secrets that a machine or a host names, unless they exist.
func (w *world) dataSecrets(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Expect(client.IgnoreAlreadyExists(w.client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, StringData: map[string]string{"value": "{}"},
		}))).To(Succeed())
	}
}

// metal3Machine creates the Metal3Machine of a Machine.
func (w *world) metal3Machine(ctx context.Context, owner *clusterv1.Machine, options ...build.Metal3MachineOption) {
	GinkgoHelper()
	options = append([]build.Metal3MachineOption{build.InNamespace(w.namespace), build.OwnedBy(owner)}, options...)
	w.create(ctx, build.Metal3Machine(owner.Name, owner.Spec.ClusterName, options...))
}

// machine creates a Machine with bootstrap data and its Metal3Machine.
func (w *world) machine(ctx context.Context, name string, options ...build.Metal3MachineOption) {
	GinkgoHelper()
	owner := w.owner(ctx, name, withBootstrapConfig())
	w.secret(ctx, name)
	w.metal3Machine(ctx, owner, options...)
}

// withBootstrapConfig sets a bootstrap provider on a Machine.
func withBootstrapConfig() build.ObjectOption {
	return stage.With(func(machine *clusterv1.Machine) {
		machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{
			APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: machine.Name,
		}
	})
}

func ofCluster(name string) build.ObjectOption {
	return build.Labels(map[string]string{clusterv1.ClusterNameLabel: name})
}

func (w *world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

// change changes an object of the world and stores it.
func change[T client.Object](ctx context.Context, w *world, name string, object T, edit func(T)) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key(name), object, edit)
}

// changeStatus changes the status of an object of the world and stores it.
func changeStatus[T client.Object](ctx context.Context, w *world, name string, object T, edit func(T)) {
	GinkgoHelper()
	stage.ChangeStatus(ctx, w.client, w.key(name), object, edit)
}

func (w *world) getMachine(ctx context.Context, g Gomega, name string) *infrav1.Metal3Machine {
	w.onRead()
	machine := &infrav1.Metal3Machine{}
	g.Expect(w.client.Get(ctx, w.key(name), machine)).To(Succeed())
	return machine
}

func (w *world) getHost(ctx context.Context, g Gomega, name string) *bmov1alpha1.BareMetalHost {
	host := &bmov1alpha1.BareMetalHost{}
	g.Expect(w.client.Get(ctx, w.key(name), host)).To(Succeed())
	return host
}

// hosts returns the stored hosts of the world by name.
func (w *world) hosts(ctx context.Context) map[string]bmov1alpha1.BareMetalHost {
	GinkgoHelper()
	var list bmov1alpha1.BareMetalHostList
	Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	hosts := map[string]bmov1alpha1.BareMetalHost{}
	for _, host := range list.Items {
		hosts[host.Name] = host
	}
	return hosts
}

// hostsOf returns the hosts with a Metal3Machine as consumer.
func (w *world) hostsOf(ctx context.Context, g Gomega, machine string) []string {
	var list bmov1alpha1.BareMetalHostList
	g.Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	var names []string
	for _, host := range list.Items {
		if ref := host.Spec.ConsumerRef; ref != nil && ref.Kind == "Metal3Machine" && ref.Name == machine {
			names = append(names, host.Name)
		}
	}
	return names
}

// eventually waits until a condition of a Metal3Machine matches.
func (w *world) eventually(ctx context.Context, machine, conditionType string, want gomegatypes.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(w.getMachine(ctx, g, machine).Status.Conditions).To(stage.HaveCondition(conditionType, want))
	}).Should(Succeed())
}

// condition returns the current condition.
func (w *world) condition(ctx context.Context, machine, conditionType string) metav1.Condition {
	GinkgoHelper()
	found := meta.FindStatusCondition(w.getMachine(ctx, Default, machine).Status.Conditions, conditionType)
	Expect(found).NotTo(BeNil())
	return *found
}

// untouched expects no write of a machine and its host for a while.
func (w *world) untouched(ctx context.Context, machine, host string) {
	GinkgoHelper()
	versions := func(g Gomega) []string {
		return []string{w.getMachine(ctx, g, machine).ResourceVersion, w.getHost(ctx, g, host).ResourceVersion}
	}
	before := versions(Default)
	Consistently(func(g Gomega) { g.Expect(versions(g)).To(Equal(before)) }).Should(Succeed())
}

// associated waits until a Metal3Machine is associated and returns the name of its host.
func (w *world) associated(ctx context.Context, machine string) string {
	GinkgoHelper()
	w.eventually(ctx, machine, infrav1.HostAssociatedCondition, stage.IsTrue())
	hosts := w.hostsOf(ctx, Default, machine)
	Expect(hosts).To(HaveLen(1), "hosts of %s", machine)
	Expect(w.getMachine(ctx, Default, machine).Annotations).To(
		HaveKeyWithValue(infrav1.HostAnnotation, w.namespace+"/"+hosts[0]))
	return hosts[0]
}

// gone waits until a deleted Metal3Machine does not exist.
func (w *world) gone(ctx context.Context, machine string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		w.onRead()
		var list infrav1.Metal3MachineList
		g.Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
		for _, left := range list.Items {
			g.Expect(left.Name).NotTo(Equal(machine), "conditions: %v", left.Status.Conditions)
		}
	}).Should(Succeed())
}

// remove deletes a Metal3Machine and does not wait.
func (w *world) remove(ctx context.Context, machine string) {
	GinkgoHelper()
	Expect(w.client.Delete(ctx, w.getMachine(ctx, Default, machine))).To(Succeed())
}

// events returns the reasons of the events about a Metal3Machine.
func (w *world) events(ctx context.Context, g Gomega, machine string) []string {
	var list eventsv1.EventList
	g.Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	var reasons []string
	for _, event := range list.Items {
		if event.Regarding.Kind == "Metal3Machine" && event.Regarding.Name == machine {
			reasons = append(reasons, event.Reason)
		}
	}
	return reasons
}

// node creates a node of the workload cluster. Nodes have no namespace, so their names are made unique.
func (w *world) node(ctx context.Context, name, providerID string, labels map[string]string) *corev1.Node {
	GinkgoHelper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s", w.namespace, name), Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: providerID},
	}
	w.create(ctx, node)
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(w.client.Delete(ctx, node))).To(Succeed())
	})
	return node
}
