package plugin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/handover"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/plugin"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const (
	// patience is the time limit of a story for each wait. It is not an expected time.
	patience = 5 * time.Minute

	// pollEvery is the polling interval.
	pollEvery = 50 * time.Millisecond

	// clusterName is the name of the Cluster and of the Metal3Cluster of every story, clusterID is that of its Ironic.
	clusterName, clusterID = "cluster", "c1"

	// managerNamespace is the namespace of the manager.
	managerNamespace = "capm3-system"
)

func TestPlugin(t *testing.T) { specs.Run(t, "The plugin") }

// clusters are the two management clusters.
type clusters struct{ source, target *env.Server }

var _ = Describe("The plugin", Ordered, ContinueOnFailure, func() {
	c := &clusters{}

	BeforeAll(func(ctx context.Context) {
		SetDefaultEventuallyTimeout(patience)
		SetDefaultEventuallyPollingInterval(pollEvery)
		groups := []components.Group{components.Provider, components.ClusterAPI, components.BaremetalOperator}
		// Each command lists all definitions, which are large.
		c.source = stage.Start(ctx, env.Options{Definitions: groups, WatchCache: true})
		c.target = stage.Start(ctx, env.Options{Definitions: []components.Group{}, WatchCache: true})
		install(ctx, c.source)
	})

	describeEmptyTarget(c)

	Context("with everything installed in the target", Ordered, func() {
		BeforeAll(func(ctx context.Context) {
			Expect(c.target.InstallDefinitions(ctx, components.Provider, components.ClusterAPI, components.BaremetalOperator)).
				To(Succeed())
			install(ctx, c.target)
		})

		describePreflight(c)
		describeStatus(c)
		describeDemotion(c)
		describeRecovery(c)
		describeExclusion(c)
		describeKeeping(c)
		describeIronic(c)
		describeTimeline(c)
		describeSides(c)
		describeUnpausing(c)
		describeChanges(c)
		describeLateChanges(c)
		describeWaiting(c)
		describeClasses(c)
		describePermissions(c)
	})
})

// install creates the objects that an installation of the provider and one run of its manager leave.
func install(ctx context.Context, server *env.Server) {
	GinkgoHelper()
	var definitions apiextensionsv1.CustomResourceDefinitionList
	Expect(server.Client.List(ctx, &definitions)).To(Succeed())
	for i := range definitions.Items {
		definition := &definitions.Items[i]
		for _, label := range pivot.MoveLabels(definition.Name) {
			metav1.SetMetaDataLabel(&definition.ObjectMeta, label, "")
		}
		Expect(server.Client.Update(ctx, definition)).To(Succeed())
	}
	Expect(server.Client.Create(ctx, providerDefinition())).To(Succeed())
	Expect(server.Client.Create(ctx, build.Namespace(managerNamespace))).To(Succeed())
	Expect(client.IgnoreAlreadyExists(server.Client.Create(ctx, build.Namespace(handover.Namespace)))).To(Succeed())
	manager := deployment(managerNamespace, "capm3-controller-manager",
		map[string]string{clusterv1.ProviderNameLabel: "infrastructure-metal3"})
	manager.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	Expect(build.CreateWithStatus(ctx, server.Client, manager)).To(Succeed())
	Eventually(func() error { return server.Client.Create(ctx, provider("v1.15.0")) }).Should(Succeed())
	installOperator(ctx, server)
}

// operatorKey is the Deployment of BMO on each side, ironicKey is its ConfigMap.
func operatorKey() client.ObjectKey {
	return client.ObjectKey{Namespace: "baremetal-operator-system", Name: "baremetal-operator-controller-manager"}
}

func ironicKey() client.ObjectKey {
	return client.ObjectKey{Namespace: operatorKey().Namespace, Name: "ironic"}
}

// endpointURL is the Ironic endpoint in the ConfigMap of BMO, the same in every story.
const endpointURL = "https://192.0.2.2:6385/v1/"

// installOperator creates BMO as its release does, with the Ironic endpoint of every story.
func installOperator(ctx context.Context, server *env.Server) {
	GinkgoHelper()
	Expect(server.Client.Create(ctx, build.Namespace(operatorKey().Namespace))).To(Succeed())
	Expect(server.Client.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ironicKey().Namespace, Name: ironicKey().Name},
		Data:       map[string]string{"IRONIC_ENDPOINT": endpointURL},
	})).To(Succeed())
	operator := deployment(operatorKey().Namespace, operatorKey().Name,
		map[string]string{"webhook": "metal3-io-v1alpha1-baremetalhost"})
	operator.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{
		ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: ironicKey().Name}},
	}}
	operator.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	Expect(build.CreateWithStatus(ctx, server.Client, operator)).To(Succeed())
}

// useIronic configures BMO of one side for another Ironic, for one story.
func useIronic(ctx context.Context, server *env.Server, url string) {
	GinkgoHelper()
	set := func(ctx context.Context, url string) {
		stage.Change(ctx, server.Client, ironicKey(), &corev1.ConfigMap{}, func(read *corev1.ConfigMap) {
			read.Data = map[string]string{"IRONIC_ENDPOINT": url}
		})
	}
	set(ctx, url)
	DeferCleanup(func(ctx context.Context) { set(ctx, endpointURL) })
}

// providerDefinition is the definition of the kind in which clusterctl records what it has installed.
func providerDefinition() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "providers.clusterctl.cluster.x-k8s.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "clusterctl.cluster.x-k8s.io",
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: "Provider", ListKind: "ProviderList", Plural: "providers", Singular: "provider",
			},
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha3", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
}

func provider(version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
		"metadata":     map[string]any{"namespace": managerNamespace, "name": "infrastructure-metal3"},
		"providerName": "metal3", "type": "InfrastructureProvider", "version": version,
	}}
}

func deployment(namespace, name string, labels map[string]string) *appsv1.Deployment {
	pods := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: pods},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pods},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image.example/main"}}},
			},
		},
	}
}

// ran is the result of a command.
type ran struct {
	code         int
	text, errors string
}

// run runs a command on the two clusters with a namespace.
func (c *clusters) run(ctx context.Context, namespace, arguments string) ran {
	return runOn(ctx, c.source.Kubeconfig, c.target.Kubeconfig, namespace, arguments)
}

// runOn runs a command on the clusters of these kubeconfigs. An empty name omits the cluster.
func runOn(ctx context.Context, source, target, namespace, arguments string) ran {
	var text, errors buffer
	code := plugin.Main(ctx, commandLine(source, target, namespace, arguments),
		plugin.Environment{Output: &text, Errors: &errors})
	return ran{code: code, text: text.String(), errors: errors.String()}
}

func commandLine(source, target, namespace, arguments string) []string {
	line := append([]string{"clusterctl-metal3", "pivot"}, strings.Fields(arguments)...)
	line = append(line, "--kubeconfig="+source, "--namespace="+namespace)
	if target != "" {
		line = append(line, "--to-kubeconfig="+target)
	}
	for _, writes := range []string{
		"demote", "handover", "abort", "clean", "resume", "run", "keep", "fence", "takeover", "forget", "yield",
		"unpause", "discard", "allow-busy", "unblock", "refresh",
	} {
		if strings.HasPrefix(arguments, writes) && !strings.Contains(arguments, "--yes=false") {
			line = append(line, "--yes")
		}
	}
	return line
}

// buffer allows reads and writes at the same time.
type buffer struct {
	mutex   sync.Mutex
	content bytes.Buffer
}

func (b *buffer) Write(content []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.content.Write(content)
}

func (b *buffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.content.String()
}

// decode decodes the only JSON document in the output of a command.
func (r ran) decode() map[string]any {
	GinkgoHelper()
	document := map[string]any{}
	Expect(json.Unmarshal([]byte(r.text), &document)).To(Succeed(), r.text)
	return document
}

// end matches the exit code of a command, and words of its output.
func end(code int, words ...string) types.GomegaMatcher {
	matchers := []types.GomegaMatcher{HavePrefix(fmt.Sprintf("exit code %d\n", code))}
	for _, word := range words {
		matchers = append(matchers, ContainSubstring(word))
	}
	return WithTransform(func(r ran) string { return fmt.Sprintf("exit code %d\n%s%s", r.code, r.text, r.errors) },
		And(matchers...))
}

// world is a cluster in a namespace of one of the two management clusters.
type world struct {
	client    client.Client
	namespace string
}

func (w world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

func (w world) host(ctx context.Context, name string) *bmov1alpha1.BareMetalHost {
	GinkgoHelper()
	host := &bmov1alpha1.BareMetalHost{}
	Expect(w.client.Get(ctx, w.key(name), host)).To(Succeed())
	return host
}

func (w world) create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		object.SetNamespace(w.namespace)
		Expect(build.CreateWithStatus(ctx, w.client, object)).To(Succeed())
	}
}

// leaveNoHosts deletes the hosts at the end of the story. The next story would count a remaining host as busy, because
// demotions read the hosts of all namespaces in both clusters.
func (w world) leaveNoHosts() {
	DeferCleanup(func(ctx context.Context) {
		Expect(w.client.DeleteAllOf(ctx, &bmov1alpha1.BareMetalHost{}, client.InNamespace(w.namespace))).To(Succeed())
	})
}

// withoutEndpoint removes the Ironic endpoint of the provider.
func withoutEndpoint(infra *infrav1.Metal3Cluster) {
	infra.Spec.Ironic, infra.Status.Ironic = nil, nil
}

// settle creates a cluster with one host, as the managers leave it when no operation is in progress.
func settle(ctx context.Context, server *env.Server, namespace string, edits ...func(*infrav1.Metal3Cluster)) world {
	GinkgoHelper()
	w := world{client: server.Client, namespace: namespace}
	w.leaveNoHosts()
	cluster := build.Cluster(clusterName, build.InfrastructureReady())
	cluster.Status.Conditions = []metav1.Condition{condition(clusterv1.ClusterControlPlaneInitializedCondition)}
	w.create(ctx, cluster)
	infra := build.Metal3Cluster(clusterName, build.OwnedBy(cluster),
		build.Labels(map[string]string{clusterv1.ClusterNameLabel: clusterName}),
		build.Annotations(map[string]string{infrav1.BlockMoveAnnotation: ""}))
	infra.Spec.Ironic = &infrav1.Ironic{ClusterID: clusterID, Endpoint: infrav1.IronicEndpoint{
		VirtualIPs: []string{"192.0.2.2"}, CIDRs: []string{"192.0.2.0/24"}, Interface: "eth0",
	}}
	infra.Status.Conditions = []metav1.Condition{
		condition(infrav1.IronicEndpointReadyCondition), condition(infrav1.ReadyForMoveCondition),
	}
	infra.Status.Ironic = &infrav1.IronicStatus{
		Holder:     &infrav1.IronicHolder{Kind: infrav1.HolderManagement, Name: "management"},
		KnownHosts: ptr.To(int32(1)),
		Nodes: []infrav1.IronicNode{
			{Name: "node-0", ConfigHash: "hash", Armed: ptr.To(false), PodsReady: ptr.To(true)},
		},
	}
	for _, edit := range edits {
		edit(infra)
	}
	machine := build.ControlPlaneMachine("machine", clusterName, build.OwnedBy(cluster))
	machine.Status.NodeRef.Name = "node-0"
	host := build.Host("host", build.Provisioned(), build.Labels(map[string]string{clusterv1.ClusterNameLabel: clusterName}),
		build.InNamespace(namespace), build.Consumed(build.Metal3Machine("machine", clusterName, build.InNamespace(namespace))))
	w.create(ctx, infra, machine, host)
	w.create(ctx, build.Metal3Machine("machine", clusterName, build.OwnedBy(machine)))
	w.create(ctx, build.ControllerSecret(host, build.OwnedBy(host)))
	return w
}

func condition(conditionType string) metav1.Condition {
	return metav1.Condition{
		Type: conditionType, Status: metav1.ConditionTrue, Reason: conditionType, LastTransitionTime: metav1.Now(),
	}
}

func (w world) changeInfra(ctx context.Context, edit func(*infrav1.Metal3Cluster)) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key(clusterName), &infrav1.Metal3Cluster{}, edit)
}

func (w world) changeInfraStatus(ctx context.Context, edit func(*infrav1.Metal3Cluster)) {
	GinkgoHelper()
	stage.ChangeStatus(ctx, w.client, w.key(clusterName), &infrav1.Metal3Cluster{}, edit)
}

// arm does what the manager does in a cluster that manages itself.
func (w world) arm(ctx context.Context) {
	GinkgoHelper()
	w.changeInfraStatus(ctx, func(infra *infrav1.Metal3Cluster) { infra.Status.Ironic.Nodes[0].Armed = ptr.To(true) })
}

// hold sets the VIP holder, and the number of hosts that its Ironic has registered.
func (w world) hold(ctx context.Context, kind infrav1.HolderKind, known int32) {
	GinkgoHelper()
	w.changeInfraStatus(ctx, func(infra *infrav1.Metal3Cluster) {
		infra.Status.Ironic.Holder = &infrav1.IronicHolder{Kind: kind, Name: "node-0"}
		infra.Status.Ironic.KnownHosts = ptr.To(known)
	})
}

// ironicOf creates the Ironic of the management cluster, for one story.
func (c *clusters) ironicOf(ctx context.Context) client.ObjectKey {
	GinkgoHelper()
	return ironicIn(ctx, c.source)
}

func ironicIn(ctx context.Context, server *env.Server) client.ObjectKey {
	GinkgoHelper()
	created := deployment(handover.Namespace, ironic.IronicPod, map[string]string{ironic.ClusterLabel: clusterID})
	Expect(server.Client.Create(ctx, created)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(server.Client.Delete(ctx, created))).To(Succeed())
	})
	return client.ObjectKeyFromObject(created)
}
