package metal3remediation_test

import (
	"context"
	"os"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

const (
	clusterName = "cluster"

	// name is the name of the Machine, the Metal3Machine and the Metal3Remediation.
	name = "machine"

	// hostName is the host of the machine.
	hostName = "host"

	// timeout is the timeout of a try.
	timeout = 300 * time.Second
)

// world is a namespace with a cluster, a machine on a host, and its Node. Its API server is also that of the workload
// cluster.
type world struct {
	server    *env.Server
	bmo       *stage.BaremetalOperator
	client    client.Client
	namespace string
	node      string
	writes    *stage.Writes
	clock     *clocktesting.FakePassiveClock

	// connected is true if the manager connects to the workload cluster.
	connected bool

	// nodes and clusters wrap the access to the workload cluster. Nil does not wrap it.
	nodes    func(metal3remediation.Nodes) metal3remediation.Nodes
	clusters func(metal3remediation.Clusters) metal3remediation.Clusters
	planes   metal3remediation.ControlPlanes

	// connection wraps the connection to the workload cluster. Nil does not wrap it.
	connection func(clustercache.ClusterCache) clustercache.ClusterCache

	// reader wraps the live reads from the management cluster. Nil does not wrap them.
	reader func(client.Reader) client.Reader

	// onRead runs whenever the story reads the remediation.
	onRead func()

	watchFilter string
}

func (s *suite) world(ctx context.Context) *world {
	GinkgoHelper()
	w := &world{
		server: s.server, bmo: s.operator, client: s.server.Client, namespace: stage.Namespace(ctx, s.server), writes: &stage.Writes{},
		clock: clocktesting.NewFakePassiveClock(time.Now()), connected: true,
		onRead: func() {},
	}
	w.node = "node-" + w.namespace
	cluster := build.Cluster(clusterName, build.InNamespace(w.namespace), build.InfrastructureReady())
	w.create(ctx, cluster)
	path, err := w.server.WriteKubeconfig(w.namespace, w.server.Config)
	Expect(err).NotTo(HaveOccurred())
	content, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	w.create(ctx, kubeconfig.GenerateSecret(cluster, content))
	return w
}

// machine creates an unhealthy machine on a provisioned host, and its Node.
func (w *world) machine(ctx context.Context, options ...build.MachineOption) *clusterv1.Machine {
	GinkgoHelper()
	here := build.InNamespace(w.namespace)
	owner := build.Machine(name, clusterName, append(options, here)...)
	owner.Spec.ProviderID = "metal3://" + w.namespace + "/" + hostName + "/" + name
	owner.Status.NodeRef = clusterv1.MachineNodeReference{Name: w.node}
	unhealthy(owner, true)
	w.create(ctx, owner)
	machine := build.Metal3Machine(name, clusterName, here, build.OwnedBy(owner),
		build.OnHost(&bmov1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: hostName}}))
	w.create(ctx, machine)
	host := build.Host(hostName, here, build.Provisioned(), build.Consumed(machine))
	Expect(build.CreateHost(ctx, w.client, host)).To(Succeed())
	w.joins(ctx, map[string]string{"rack": "a"})
	return owner
}

// joins creates the Node of the machine.
func (w *world) joins(ctx context.Context, labels map[string]string) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node, Labels: labels}}
	w.create(ctx, node)
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(w.client.Delete(ctx, node))).To(Succeed())
	})
}

func unhealthy(machine *clusterv1.Machine, is bool) {
	condition := metav1.Condition{
		Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionTrue, Reason: "Healthy",
	}
	if is {
		condition.Status, condition.Reason = metav1.ConditionFalse, "UnhealthyNode"
	}
	conditions.Set(machine, condition)
}

// remediate creates the Metal3Remediation in place of a MachineHealthCheck.
func (w *world) remediate(ctx context.Context, edits ...func(*infrav1.Metal3Remediation)) {
	GinkgoHelper()
	w.remediateOwner(ctx, name, edits...)
}

// remediateOwner creates the Metal3Remediation of a Machine.
func (w *world) remediateOwner(ctx context.Context, name string, edits ...func(*infrav1.Metal3Remediation)) {
	GinkgoHelper()
	owner := &clusterv1.Machine{}
	Expect(w.client.Get(ctx, w.key(name), owner)).To(Succeed())
	seconds := int32(timeout / time.Second)
	request := &infrav1.Metal3Remediation{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: owner.Name, UID: owner.UID,
		}},
	}}
	request.Spec.Strategy = &infrav1.RemediationStrategy{
		Type: infrav1.RebootRemediation, RetryLimit: 1, TimeoutSeconds: &seconds,
	}
	for _, edit := range edits {
		edit(request)
	}
	w.create(ctx, request)
}

func (w *world) start() *stage.Running {
	GinkgoHelper()
	return stage.Manager{
		Config: w.server.Config, Namespace: w.namespace, Writes: w.writes, Clusters: w.connected, Setup: w.setup,
	}.Start()
}

func (w *world) setup(ctx context.Context, mgr ctrl.Manager, clusters clustercache.ClusterCache) error {
	if err := hoststore.SetupIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if w.connection != nil {
		clusters = w.connection(clusters)
	}
	nodes := workload.New(clusters, mgr.GetCache())
	reconciler := &metal3remediation.Reconciler{
		Reporter: flow.Reporter{Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("metal3remediation")}, Clock: w.clock,
		Hosts: hoststore.New(mgr.GetClient(), mgr.GetAPIReader()), Nodes: nodes, Clusters: nodes,
		ControlPlanes: workload.NewControlPlanes(clusters, mgr.GetAPIReader()), Live: mgr.GetAPIReader(),
		WatchFilter: w.watchFilter,
	}
	if w.nodes != nil {
		reconciler.Nodes = w.nodes(nodes)
	}
	if w.clusters != nil {
		reconciler.Clusters = w.clusters(nodes)
	}
	if w.planes != nil {
		reconciler.ControlPlanes = w.planes
	}
	if w.reader != nil {
		reconciler.Live = w.reader(mgr.GetAPIReader())
	}
	shared := true
	return reconciler.SetupWithManager(ctx, mgr, clusters,
		controller.Options{MaxConcurrentReconciles: 4, SkipNameValidation: &shared})
}

// provision simulates BMO, which provisions the host, and has provisioned it now if the state is provisioned.
func (w *world) provision(ctx context.Context, state bmov1alpha1.ProvisioningState) {
	GinkgoHelper()
	stage.ChangeStatus(ctx, w.client, w.key(hostName), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
		host.Status.Provisioning.State = state
		if state == bmov1alpha1.StateProvisioned {
			host.Status.OperationHistory.Provision.End = metav1.NewTime(w.clock.Now())
		}
	})
}

// operate lets BMO operate the host of the story.
func (w *world) operate(ctx context.Context) {
	GinkgoHelper()
	w.bmo.Operate(ctx, w.namespace)
}

func (w *world) create(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(build.CreateWithStatus(ctx, w.client, object)).To(Succeed())
}

func (w *world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

func (w *world) request(ctx context.Context, g Gomega) *infrav1.Metal3Remediation {
	w.onRead()
	request := &infrav1.Metal3Remediation{}
	g.Expect(w.client.Get(ctx, w.key(name), request)).To(Succeed())
	return request
}

func (w *world) owner(ctx context.Context, g Gomega) *clusterv1.Machine {
	owner := &clusterv1.Machine{}
	g.Expect(w.client.Get(ctx, w.key(name), owner)).To(Succeed())
	return owner
}

func (w *world) host(ctx context.Context, g Gomega) *bmov1alpha1.BareMetalHost {
	host := &bmov1alpha1.BareMetalHost{}
	g.Expect(w.client.Get(ctx, w.key(hostName), host)).To(Succeed())
	return host
}

func (w *world) getNode(ctx context.Context, g Gomega) *corev1.Node {
	node := &corev1.Node{}
	g.Expect(w.client.Get(ctx, client.ObjectKey{Name: w.node}, node)).To(Succeed())
	return node
}

func (w *world) changeHost(ctx context.Context, edit func(*bmov1alpha1.BareMetalHost)) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key(hostName), &bmov1alpha1.BareMetalHost{}, edit)
}

// power sets the power that BMO reports.
func (w *world) power(ctx context.Context, on bool) {
	GinkgoHelper()
	stage.ChangeStatus(ctx, w.client, w.key(hostName), &bmov1alpha1.BareMetalHost{}, func(host *bmov1alpha1.BareMetalHost) {
		host.Status.PoweredOn = on
	})
}

// passes moves the clock and requeues the remediation. It first moves the clock to the current time, because a try does
// not begin before the creationTimestamp of its Metal3Remediation.
func (w *world) passes(ctx context.Context, duration time.Duration) {
	GinkgoHelper()
	now := w.clock.Now()
	if current := time.Now(); current.After(now) {
		now = current
	}
	w.clock.SetTime(now.Add(duration))
	stage.Change(ctx, w.client, w.key(name), &clusterv1.Machine{}, func(machine *clusterv1.Machine) {
		build.Annotations(map[string]string{"example.com/now": w.clock.Now().String()})(machine)
	})
}

func (w *world) eventually(ctx context.Context, condition string, want types.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(w.request(ctx, g).Status.Conditions).To(stage.HaveCondition(condition, want))
	}).Should(Succeed())
}

// done waits until the host is rebooted and the Node restored.
func (w *world) done(ctx context.Context) {
	GinkgoHelper()
	w.eventually(ctx, infrav1.ReadyCondition, stage.IsTrue())
}

// gone waits until the Metal3Remediation does not exist.
func (w *world) gone(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		w.onRead()
		request := &infrav1.Metal3Remediation{}
		err := w.client.Get(ctx, w.key(name), request)
		g.Expect(client.IgnoreNotFound(err)).To(Succeed())
		g.Expect(err).To(HaveOccurred(), "conditions: %v", request.Status.Conditions)
	}).Should(Succeed())
}

func (w *world) remove(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(w.client.Delete(ctx, object)).To(Succeed())
}

// powerOffRequests returns the annotations that keep the host powered off.
func (w *world) powerOffRequests(ctx context.Context, g Gomega) []string {
	var keys []string
	for key := range w.host(ctx, g).Annotations {
		if strings.HasPrefix(key, infrav1.RemediationRebootPrefix) {
			keys = append(keys, key)
		}
	}
	return keys
}

// events returns types and reasons of the events about the Metal3Remediation.
func (w *world) events(ctx context.Context, g Gomega) []string {
	var list eventsv1.EventList
	g.Expect(w.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	var reasons []string
	for _, event := range list.Items {
		if event.Regarding.Kind == "Metal3Remediation" {
			reasons = append(reasons, event.Type+" "+event.Reason)
		}
	}
	return reasons
}

// oldCluster is a workload cluster without the out-of-service taint.
type oldCluster struct{ metal3remediation.Clusters }

func (oldCluster) Version(context.Context, apitypes.NamespacedName) (string, error) {
	return "v1.27.4", nil
}

func old(clusters metal3remediation.Clusters) metal3remediation.Clusters { return oldCluster{clusters} }
