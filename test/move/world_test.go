package move_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const (
	// goodPassword is the only password that the management controllers accept.
	goodPassword = "correct-horse"

	// boardUser is the user name for goodPassword.
	boardUser = "admin"

	// reservedLabel holds the name of the machine that a host is meant for.
	reservedLabel = "example.com/for"

	// looksEnough is the number of requests of BMO for a node after which one whole reconcile of its host is complete.
	// Each reconcile sends one request or more, and begins after the previous one has ended.
	looksEnough = 12

	// touchedAnnotation is an annotation that a story sets on a host so that BMO reconciles it.
	touchedAnnotation = "example.com/touched"
)

// boards is the URL of the management controllers. The Ironic in memory sends no requests to it.
const boards = "http://bmc.example/redfish/v1/Systems/"

// world is the namespace of one story.
type world struct {
	*clusters
	namespace string

	// here is the side with the objects. there is the target of the next move.
	here, there *side

	// image is the image of machines. Nil keeps their default.
	image *infrav1.Image

	// dataTemplate is the name of the Metal3DataTemplate of machines. Empty means none.
	dataTemplate string

	// steps are the steps that the story did in place of the user, besides clusterctl move.
	steps []string

	// serial is the counter for MAC addresses.
	serial int
}

// byHand records a step that the story does in place of the user.
func (w *world) byHand(step string) { w.steps = append(w.steps, step) }

// world creates a world. All worlds of these clusters share an Ironic, in which a MAC address belongs to one host.
func (c *clusters) world(ctx context.Context) *world {
	GinkgoHelper()
	place := int(c.worlds.Add(1))
	return &world{
		clusters: c, namespace: stage.Namespace(ctx, c.source.server), here: c.source, there: c.target, serial: place << 8,
	}
}

// stuck stops the work of Ironic on the hosts of this world, or lets it end again.
func (w *world) stuck(stuck bool) {
	w.ironic.Hold(w.namespace+"~", stuck)
}

func (w *world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

func (w *world) create(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(build.CreateWithStatus(ctx, w.here.client, object)).To(Succeed())
}

// cluster creates a Cluster and its Metal3Cluster.
func (w *world) cluster(ctx context.Context, name string, options ...build.Metal3ClusterOption) {
	GinkgoHelper()
	cluster := build.Cluster(name, build.InNamespace(w.namespace))
	w.create(ctx, cluster)
	options = append([]build.Metal3ClusterOption{
		build.InNamespace(w.namespace), build.OwnedBy(cluster), ofCluster(name),
	}, options...)
	w.create(ctx, build.Metal3Cluster(name, options...))
	w.pretend(ctx)
}

// machine creates a Machine with the objects that belong to it, for the host of the same name.
func (w *world) machine(ctx context.Context, cluster, name string, options ...build.MachineOption) {
	GinkgoHelper()
	owner := &clusterv1.Cluster{}
	Expect(w.here.client.Get(ctx, w.key(cluster), owner)).To(Succeed())
	options = append([]build.MachineOption{build.InNamespace(w.namespace), build.OwnedBy(owner)}, options...)
	machine := build.Machine(name, cluster, options...)
	w.create(ctx, machine)
	w.create(ctx, build.BootstrapSecret(name, build.CloudConfig, []byte("#cloud-config\n"),
		build.InNamespace(w.namespace), ofCluster(cluster), build.OwnedBy(machine)))
	infra := build.Metal3Machine(name, cluster, build.InNamespace(w.namespace), build.OwnedBy(machine),
		build.Selecting(map[string]string{reservedLabel: name}))
	if w.image != nil {
		infra.Spec.Image = w.image
	}
	if w.dataTemplate != "" {
		infra.Spec.DataTemplate = &infrav1.Metal3ObjectRef{Name: w.dataTemplate}
	}
	w.create(ctx, infra)
	w.pretend(ctx)
}

// controlPlane labels a Machine as one of the control plane.
func controlPlane() build.MachineOption {
	return build.Labels(map[string]string{clusterv1.MachineControlPlaneLabel: ""})
}

func ofCluster(name string) build.ObjectOption {
	return build.Labels(map[string]string{clusterv1.ClusterNameLabel: name})
}

// host creates a host that is online, and its Secret.
func (w *world) host(ctx context.Context, name string, options ...func(*bmov1alpha1.BareMetalHost)) {
	GinkgoHelper()
	w.serial++
	host := build.Host(name, build.InNamespace(w.namespace), build.Labels(map[string]string{reservedLabel: name}),
		build.Annotations(map[string]string{"example.com/rack": "7"}))
	host.Spec.BMC.Address = "redfish-virtualmedia+" + w.address(name)
	host.Spec.BootMACAddress = fmt.Sprintf("02:22:00:00:%02x:%02x", w.serial>>8, w.serial&0xff)
	host.Spec.Online = true
	secret := build.ControllerSecret(host)
	secret.Data["password"] = []byte(goodPassword)
	for _, option := range options {
		option(host)
	}
	w.create(ctx, secret)
	w.create(ctx, host)
}

// address is the address of the management controller of a host.
func (w *world) address(host string) string {
	return boards + w.namespace + "-" + host
}

// imaged sets an image on a host without a machine.
func imaged(host *bmov1alpha1.BareMetalHost) {
	host.Spec.Image = &bmov1alpha1.Image{
		URL: "http://images.example/own.img", Checksum: "http://images.example/own.img.sha256sum",
		ChecksumType: bmov1alpha1.SHA256,
	}
}

// fleet creates a cluster of machines on hosts, and free hosts, and waits until all are settled.
func (w *world) fleet(ctx context.Context, cluster string, machines, free int) {
	GinkgoHelper()
	w.cluster(ctx, cluster)
	for i := range machines {
		name := fmt.Sprintf("%s-%d", cluster, i)
		w.host(ctx, name)
		w.machine(ctx, cluster, name)
	}
	for i := range free {
		w.host(ctx, fmt.Sprintf("%s-free-%d", cluster, i))
	}
	w.settled(ctx)
}

// readyFleet creates a cluster of two machines and two free hosts, waits until it can move, and returns a trace.
func (w *world) readyFleet(ctx context.Context) trace {
	GinkgoHelper()
	w.fleet(ctx, "cluster", 2, 2)
	w.readyForMove(ctx)
	return w.trace(ctx)
}

// settled waits until all machines run on their hosts and all other hosts are available or provisioned. BMO reconciles
// a host again after ten seconds or after a change, so a change every second saves most of the time.
func (w *world) settled(ctx context.Context) {
	GinkgoHelper()
	looks := 0
	touched := map[string]bool{}
	Eventually(func(g Gomega) {
		var machines infrav1.Metal3MachineList
		g.Expect(w.here.client.List(ctx, &machines, client.InNamespace(w.namespace))).To(Succeed())
		var late []string
		for _, machine := range machines.Items {
			if machine.Spec.ProviderID == "" {
				late = append(late, fmt.Sprintf("%s: %v", machine.Name, machine.Status.Conditions))
			}
		}
		looks++
		for name, host := range w.hosts(ctx, g, w.here) {
			want := bmov1alpha1.StateAvailable
			if host.Spec.Image != nil {
				want = bmov1alpha1.StateProvisioned
			}
			settled, err := And(inState(want), isFine(), HaveField("Status.PoweredOn", host.Spec.Online)).Match(host)
			g.Expect(err).NotTo(HaveOccurred())
			if !settled {
				late = append(late, fmt.Sprintf("%s: %+v", name, host.Status))
				touched[name] = true
				w.touch(ctx, name, looks)
			}
		}
		g.Expect(late).To(BeEmpty())
	}).WithPolling(time.Second).Should(Succeed())
	for name := range touched {
		w.untouch(ctx, name)
	}
}

// touch changes a host, so that BMO reconciles it. Each call requires another number.
func (w *world) touch(ctx context.Context, host string, number int) {
	GinkgoHelper()
	w.change(ctx, host, func(host *bmov1alpha1.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&host.ObjectMeta, touchedAnnotation, fmt.Sprint(number))
	})
}

// untouch removes the annotation of touch.
func (w *world) untouch(ctx context.Context, host string) {
	GinkgoHelper()
	w.change(ctx, host, func(host *bmov1alpha1.BareMetalHost) { delete(host.Annotations, touchedAnnotation) })
}

// pretend does what Cluster API, which does not run here, would do. A story calls pretend again after a move, because
// clusterctl moves no status.
func (w *world) pretend(ctx context.Context) {
	GinkgoHelper()
	here := client.InNamespace(w.namespace)
	var clusters clusterv1.ClusterList
	Expect(w.here.client.List(ctx, &clusters, here)).To(Succeed())
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		if conditions.IsTrue(cluster, clusterv1.ClusterControlPlaneInitializedCondition) {
			continue
		}
		stage.ChangeStatus(ctx, w.here.client, client.ObjectKeyFromObject(cluster), cluster, func(c *clusterv1.Cluster) {
			c.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
			v1beta1conditions.MarkTrue(c, clusterv1.InfrastructureReadyV1Beta1Condition)
			conditions.Set(c, metav1.Condition{
				Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized",
			})
		})
	}
	var machines clusterv1.MachineList
	Expect(w.here.client.List(ctx, &machines, here)).To(Succeed())
	for i := range machines.Items {
		machine := &machines.Items[i]
		infra := &infrav1.Metal3Machine{}
		Expect(client.IgnoreNotFound(w.here.client.Get(ctx, client.ObjectKeyFromObject(machine), infra))).To(Succeed())
		if machine.Spec.ProviderID != infra.Spec.ProviderID {
			stage.Change(ctx, w.here.client, client.ObjectKeyFromObject(machine), machine, func(m *clusterv1.Machine) {
				m.Spec.ProviderID = infra.Spec.ProviderID
			})
		}
		if machine.Status.NodeRef.IsDefined() {
			continue
		}
		stage.ChangeStatus(ctx, w.here.client, client.ObjectKeyFromObject(machine), machine, func(m *clusterv1.Machine) {
			m.Status.NodeRef.Name = m.Name
		})
	}
}

// hosts returns the hosts of a side by name.
func (w *world) hosts(ctx context.Context, g Gomega, at *side) map[string]*bmov1alpha1.BareMetalHost {
	var list bmov1alpha1.BareMetalHostList
	g.Expect(at.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	hosts := map[string]*bmov1alpha1.BareMetalHost{}
	for i := range list.Items {
		hosts[list.Items[i].Name] = &list.Items[i]
	}
	return hosts
}

// eventually waits until a host matches.
func (w *world) eventually(ctx context.Context, name string, want ...gomegatypes.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) (*bmov1alpha1.BareMetalHost, error) {
		host := &bmov1alpha1.BareMetalHost{}
		return host, w.here.client.Get(ctx, w.key(name), host)
	}).WithContext(ctx).Should(And(want...), "host %s", name)
}

// change changes a host as a user does.
func (w *world) change(ctx context.Context, name string, edit func(*bmov1alpha1.BareMetalHost)) {
	GinkgoHelper()
	stage.Change(ctx, w.here.client, w.key(name), &bmov1alpha1.BareMetalHost{}, edit)
}

// readyForMove waits until ReadyForMove of all Metal3Clusters is true.
func (w *world) readyForMove(ctx context.Context) {
	GinkgoHelper()
	w.infras(ctx, stage.HaveCondition(infrav1.ReadyForMoveCondition, stage.IsTrueBecause(infrav1.ReadyForMoveReason)))
}

// infras waits until the conditions of all Metal3Clusters match.
func (w *world) infras(ctx context.Context, want gomegatypes.GomegaMatcher) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var list infrav1.Metal3ClusterList
		g.Expect(w.here.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
		g.Expect(list.Items).NotTo(BeEmpty())
		for i := range list.Items {
			g.Expect(list.Items[i].Status.Conditions).To(want, list.Items[i].Name)
		}
	}).Should(Succeed())
}

// pauseClusters pauses or unpauses the Clusters of a side, as the user does after an aborted move.
func (w *world) pauseClusters(ctx context.Context, at *side, paused bool) {
	GinkgoHelper()
	w.byHand(fmt.Sprintf("setting spec.paused to %v", paused))
	var list clusterv1.ClusterList
	Expect(at.client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	for i := range list.Items {
		w.pauseCluster(ctx, at, list.Items[i].Name, paused)
	}
}

// pauseCluster pauses or unpauses one Cluster of a side.
func (w *world) pauseCluster(ctx context.Context, at *side, name string, paused bool) {
	GinkgoHelper()
	stage.Change(ctx, at.client, w.key(name), &clusterv1.Cluster{},
		func(cluster *clusterv1.Cluster) { cluster.Spec.Paused = ptr.To(paused) })
}

// journey is a running clusterctl.
type journey struct {
	kill  context.CancelFunc
	ended chan error
}

// begin starts to move all objects.
func (w *world) begin(ctx context.Context) *journey {
	GinkgoHelper()
	ctx, kill := context.WithCancel(ctx)
	j := &journey{kill: kill, ended: make(chan error, 1)}
	DeferCleanup(kill)
	go func() {
		_, log, err := w.clusterctl.RunWithLog(ctx, "move", "--kubeconfig="+w.here.kubeconfig,
			"--to-kubeconfig="+w.there.kubeconfig, "--namespace="+w.namespace)
		GinkgoWriter.Printf("clusterctl:\n%s\n", log)
		j.ended <- err
	}()
	return j
}

// arrive waits until clusterctl has moved all objects, and continues in the other cluster.
func (w *world) arrive(ctx context.Context, j *journey) {
	GinkgoHelper()
	Eventually(j.ended).WithTimeout(4 * patience).Should(Receive(Not(HaveOccurred())))
	w.goOnThere(ctx)
}

// goOnThere continues in the other cluster after a move, and does what Cluster API would do there.
func (w *world) goOnThere(ctx context.Context) {
	GinkgoHelper()
	w.here, w.there = w.there, w.here
	w.pretend(ctx)
}

// lose kills clusterctl.
func (j *journey) lose() {
	GinkgoHelper()
	j.kill()
	Eventually(j.ended).Should(Receive(HaveOccurred()), "clusterctl was faster")
}

// move moves all objects.
func (w *world) move(ctx context.Context) {
	GinkgoHelper()
	w.arrive(ctx, w.begin(ctx))
}

// picture has the fields of a host that a move must not change.
type picture struct {
	Labels, Annotations map[string]string
	Finalizers          []string
	Spec                bmov1alpha1.BareMetalHostSpec
	Status              bmov1alpha1.BareMetalHostStatus
	Hardware            *bmov1alpha1.HardwareDetails
	Powered             bool
}

// pictures returns the picture of each host on this side.
func (w *world) pictures(ctx context.Context, g Gomega) map[string]picture {
	pictures := map[string]picture{}
	for name, host := range w.hosts(ctx, g, w.here) {
		hardware := &bmov1alpha1.HardwareData{}
		g.Expect(client.IgnoreNotFound(w.here.client.Get(ctx, w.key(name), hardware))).To(Succeed())
		status := *host.Status.DeepCopy()
		// BMO sets the time of the last change again, counts errors again, and registers the host again, because the
		// version of the Secret differs between clusters.
		status.LastUpdated, status.ErrorCount = nil, 0
		status.TriedCredentials, status.GoodCredentials = bmov1alpha1.CredentialsStatus{}, bmov1alpha1.CredentialsStatus{}
		status.OperationHistory.Register = bmov1alpha1.OperationMetric{}
		// Each cluster counts the generations of an object from 1, and BMO detects a detached host again.
		for i := range status.Conditions {
			status.Conditions[i].ObservedGeneration, status.Conditions[i].LastTransitionTime = 0, metav1.Time{}
		}
		// The manager sets it while it makes BMO register the host again, at any time.
		annotations := maps.Clone(host.Annotations)
		delete(annotations, infrav1.LostRegistrationAnnotation)
		pictures[name] = picture{
			Labels: host.Labels, Annotations: annotations, Finalizers: host.Finalizers, Spec: host.Spec, Status: status,
			Hardware: hardware.Spec.HardwareDetails, Powered: w.ironic.Powered(w.address(name)),
		}
	}
	return pictures
}

// trace is the state before a move.
type trace struct {
	pictures map[string]picture
	calls    int
}

// trace records all hosts, and the number of requests to Ironic so far.
func (w *world) trace(ctx context.Context) trace {
	GinkgoHelper()
	return trace{pictures: w.pictures(ctx, Default), calls: len(w.ironic.Calls())}
}

// except returns the trace without these hosts.
func (t trace) except(hosts ...string) trace {
	kept := maps.Clone(t.pictures)
	maps.DeleteFunc(kept, func(name string, _ picture) bool { return slices.Contains(hosts, name) })
	return trace{pictures: kept, calls: t.calls}
}

// only returns the trace with this host only.
func (t trace) only(host string) trace {
	return trace{pictures: map[string]picture{host: t.pictures[host]}, calls: t.calls}
}

// unharmed waits until all hosts are as in the trace, and requires that Ironic got no request but updates of the
// credentials: BMO sends them when the version of a Secret differs.
func (w *world) unharmed(ctx context.Context, before trace) {
	GinkgoHelper()
	w.same(ctx, before)
	var cared []string
	for name, host := range w.hosts(ctx, Default, w.here) {
		_, counts := before.pictures[name]
		_, known := w.ironic.Node(w.namespace + "~" + name)
		_, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
		if counts && known && !paused && host.Status.ErrorType == "" {
			cared = append(cared, name)
		}
	}
	if len(cared) > 0 {
		w.observed(ctx, cared...)
	}
	w.nothingDone(before, "update")
}

// observed waits until BMO has reconciled the current version of these hosts on this side. None means all hosts.
func (w *world) observed(ctx context.Context, names ...string) {
	GinkgoHelper()
	if len(names) == 0 {
		for name := range w.hosts(ctx, Default, w.here) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		// BMO first registers a host with the current Secret, which it may change before.
		Eventually(func(g Gomega) {
			secret, host := &corev1.Secret{}, &bmov1alpha1.BareMetalHost{}
			g.Expect(w.here.client.Get(ctx, w.key(name+"-bmc"), secret)).To(Succeed())
			g.Expect(w.here.client.Get(ctx, w.key(name), host)).To(Succeed())
			g.Expect(host.Status.GoodCredentials.Version).To(Equal(secret.ResourceVersion), "host %s", name)
		}).Should(Succeed())
	}
	for _, name := range names {
		node, seen := w.namespace+"~"+name, 0
		for touch := 0; seen < looksEnough; touch++ {
			was := w.ironic.Looks(node)
			w.touch(ctx, name, touch)
			Eventually(func() int { return w.ironic.Looks(node) }).Should(BeNumerically(">", was), "host %s", name)
			seen += w.ironic.Looks(node) - was
		}
		w.untouch(ctx, name)
	}
}

// same waits until all hosts are as in the trace, and stay so.
func (w *world) same(ctx context.Context, before trace) {
	GinkgoHelper()
	same := func(g Gomega) {
		now := w.pictures(ctx, g)
		for name, was := range before.pictures {
			g.Expect(now).To(HaveKey(name))
			g.Expect(cmp.Diff(was, now[name])).To(BeEmpty(), "host %s", name)
		}
	}
	Eventually(same).WithPolling(quiet / 5).Should(Succeed())
	Consistently(same).WithPolling(quiet / 4).Should(Succeed())
}

// nothingDone requires that Ironic got only these requests since the trace.
func (w *world) nothingDone(before trace, allowed ...string) {
	GinkgoHelper()
	for _, call := range w.ironic.Calls()[before.calls:] {
		host, ours := strings.CutPrefix(call.Node, w.namespace+"~")
		if _, counts := before.pictures[host]; ours && counts {
			Expect(call.What).To(BeElementOf(allowed), "this was done to host %s: %v", host, call)
		}
	}
}

// asked counts the requests of a kind to Ironic since the trace, for all hosts.
func (w *world) asked(since trace, what string) int {
	count := 0
	for _, call := range w.ironic.Calls()[since.calls:] {
		if strings.HasPrefix(call.Node, w.namespace+"~") && call.What == what {
			count++
		}
	}
	return count
}

func inState(state bmov1alpha1.ProvisioningState) gomegatypes.GomegaMatcher {
	return HaveField("Status.Provisioning.State", state)
}

func isFine() gomegatypes.GomegaMatcher {
	return And(
		HaveField("Status.OperationalStatus", bmov1alpha1.OperationalStatusOK),
		HaveField("Status.ErrorType", BeEmpty()),
	)
}

func hasFailed(kind bmov1alpha1.ErrorType) gomegatypes.GomegaMatcher {
	return And(
		HaveField("Status.OperationalStatus", bmov1alpha1.OperationalStatusError),
		HaveField("Status.ErrorType", kind),
	)
}

func isPausedBy(value string) gomegatypes.GomegaMatcher {
	return HaveField("Annotations", HaveKeyWithValue(bmov1alpha1.PausedAnnotation, value))
}

func isNotPaused() gomegatypes.GomegaMatcher {
	return HaveField("Annotations", Not(HaveKey(bmov1alpha1.PausedAnnotation)))
}

// changeSecret changes the Secret of the management controller of a host.
func (w *world) changeSecret(ctx context.Context, host string, edit func(*corev1.Secret)) {
	GinkgoHelper()
	stage.Change(ctx, w.here.client, w.key(host+"-bmc"), &corev1.Secret{}, edit)
}
