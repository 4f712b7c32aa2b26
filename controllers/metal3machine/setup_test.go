package metal3machine

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func requestFor(object client.Object) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}
}

// requests returns requests for objects of the default namespace.
func requests(names ...string) []ctrl.Request {
	var list []ctrl.Request
	for _, name := range names {
		list = append(list, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: build.DefaultNamespace, Name: name}})
	}
	return list
}

// change is a change of an object of type T, and whether it causes a reconcile.
type change[T any] struct {
	reason string
	change func(*T)
	want   bool
}

func checkChanges[T any, P interface {
	*T
	client.Object
}](t *testing.T, matters func(before, after P) bool, cases map[string]change[T]) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before, after := new(T), new(T)
			tc.change(after)
			if got := flow.Updates(matters).Update(event.UpdateEvent{ObjectOld: P(before), ObjectNew: P(after)}); got != tc.want {
				t.Errorf("%s: got %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
}

// TestMachineMatters lists what the controller reads of a Machine: a change that is dropped could let its machine wait
// forever.
func TestMachineMatters(t *testing.T) {
	checkChanges(t, machineMatters, map[string]change[clusterv1.Machine]{
		"Status": {"Cluster API copies the conditions of the Metal3Machine", func(m *clusterv1.Machine) {
			m.ResourceVersion = "2"
			m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineInfrastructureReadyCondition}}
			m.Status.Phase, m.Status.LastUpdated = string(clusterv1.MachinePhaseProvisioning), metav1.Now()
			m.Status.Addresses = clusterv1.MachineAddresses{{Address: "192.0.2.1"}}
			m.Status.NodeInfo, m.Status.Deprecated = &corev1.NodeSystemInfo{}, &clusterv1.MachineDeprecatedStatus{}
			m.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
			m.Status.FailureDomain, m.Status.ObservedGeneration = "a", 2
		}, false},
		"Annotation": {"annotations have no effect", func(m *clusterv1.Machine) { m.Annotations = map[string]string{"a": "b"} }, false},
		"Finalizer":  {"finalizers have no effect", func(m *clusterv1.Machine) { m.Finalizers = []string{"a"} }, false},
		"Spec":       {"bootstrap data, Cluster, failure domain and Metal3Machine", func(m *clusterv1.Machine) { m.Generation++ }, true},
		"Node":       {"labels are copied to the Node", func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "node" }, true},
		"Replaced":   {"another Machine with the same name", func(m *clusterv1.Machine) { m.UID = "other" }, true},
		"Role": {"the control plane runs Ironic", func(m *clusterv1.Machine) {
			m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
		}, true},
		"Deployment": {"hosts are reserved for it", func(m *clusterv1.Machine) {
			m.Labels = map[string]string{clusterv1.MachineDeploymentNameLabel: "a"}
		}, true},
		"ControlPlane": {"hosts are reserved for it", func(m *clusterv1.Machine) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: controlPlaneGroup + "/v1beta2", Name: "a"}}
		}, true},
	})
}

func TestClusterMatters(t *testing.T) {
	cases := map[string]struct {
		reason        string
		before, after func(*clusterv1.Cluster)
		want          bool
	}{
		"Nothing": {reason: "a heartbeat"},
		"Labels": {
			reason: "labels have no effect", after: func(c *clusterv1.Cluster) { c.Labels = map[string]string{"a": "b"} },
		},
		"Pause":    {reason: "a pause begins", after: func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }, want: true},
		"EndPause": {reason: "a pause ends", before: func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }, want: true},
		"NoPause": {
			reason: "nil and false are equal", after: func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(false) },
		},
		"Infrastructure": {
			reason: "machines wait for it", after: func(c *clusterv1.Cluster) {
				c.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
			}, want: true,
		},
		"Reference": {
			reason: "the Metal3Cluster is another one",
			after:  func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef.Name = "other" }, want: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before, after := build.Cluster("cluster"), build.Cluster("cluster")
			if tc.before != nil {
				tc.before(before)
			}
			if tc.after != nil {
				tc.after(after)
			}
			got := flow.Updates(clusterMatters).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
			if got != tc.want {
				t.Errorf("%s: got %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
	if !flow.Updates(clusterMatters).Create(event.CreateEvent{Object: build.Cluster("cluster")}) {
		t.Error("a new Cluster was dropped")
	}
}

func TestNodeMatters(t *testing.T) {
	reports := func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
	}
	checkChanges(t, nodeMatters, map[string]change[corev1.Node]{
		"Heartbeat": {"the kubelet updates the status", func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure}}
		}, false},
		"Reporting":  {"a kubelet updates an older Node again", reports, true},
		"Annotation": {"annotations have no effect", func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} }, false},
		"Label":      {"a label may have a prefix to copy", func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }, true},
		"ProviderID": {"the provider ID was set", func(n *corev1.Node) { n.Spec.ProviderID = "metal3://a/b/c" }, true},
		"HostUID":    {"the label identifies the host", func(n *corev1.Node) { n.Labels = map[string]string{infrav1.HostUIDLabel: "1"} }, true},
		"Hostname":   {"the host name may identify the host", func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelHostname: "host"} }, true},
	})
	before, after := &corev1.Node{}, &corev1.Node{}
	before.Spec.ProviderID, after.Spec.ProviderID = "metal3://a/b/c", "metal3://a/b/c"
	reports(after)
	if flow.Updates(nodeMatters).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
		t.Error("the condition Ready of a linked Node passed")
	}
}

func TestInfrastructureMatters(t *testing.T) {
	annotated := func(key string) func(*infrav1.Metal3Cluster) {
		return func(c *infrav1.Metal3Cluster) { c.Annotations = map[string]string{key: "a"} }
	}
	cases := map[string]struct {
		reason string
		change func(*infrav1.Metal3Cluster)
		want   bool
	}{
		"Status":     {"no machine reads it", func(c *infrav1.Metal3Cluster) { c.Status.Conditions = []metav1.Condition{{Type: "Ready"}} }, false},
		"Annotation": {"another annotation has no effect", annotated("a"), false},
		"OtherLabel": {"another label has no effect", func(c *infrav1.Metal3Cluster) { c.Labels = map[string]string{"a": "b"} }, false},
		"Label": {"Cluster API adopts a Metal3Cluster without labels after its creation", func(c *infrav1.Metal3Cluster) {
			c.Labels = map[string]string{clusterv1.ClusterNameLabel: "cluster"}
		}, true},
		"Spec":     {"the spec changed", func(c *infrav1.Metal3Cluster) { c.Generation++ }, true},
		"Prefixes": {"labels to copy", annotated(infrav1.LabelSyncPrefixesAnnotation), true},
		"Pause":    {"a pause begins", annotated(clusterv1.PausedAnnotation), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before, after := &infrav1.Metal3Cluster{}, &infrav1.Metal3Cluster{}
			tc.change(after)
			got := flow.Updates(infrastructureMatters).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
			if got != tc.want {
				t.Errorf("%s: got %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
}

func TestProviderIDMatters(t *testing.T) {
	before, after := build.Metal3Machine("machine", "cluster"), build.Metal3Machine("machine", "cluster")
	after.Labels = map[string]string{"a": "b"}
	if flow.Updates(providerIDMatters).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
		t.Error("a label passed")
	}
	after.Spec.ProviderID = "metal3://a/b/c"
	if !flow.Updates(providerIDMatters).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
		t.Error("another provider ID was dropped")
	}
	if !flow.Updates(providerIDMatters).Create(event.CreateEvent{Object: after}) ||
		!flow.Updates(providerIDMatters).Delete(event.DeleteEvent{Object: after}) {
		t.Error("a creation or a deletion was dropped")
	}
}

func TestHostToMachines(t *testing.T) {
	machine := build.Metal3Machine("machine", "cluster")
	elsewhere := build.Metal3Machine("machine", "cluster", build.InNamespace("elsewhere"))
	cases := map[string]struct {
		reason string
		object *bmov1alpha1.BareMetalHost
		want   []ctrl.Request
	}{
		"Free":      {"the store offers free hosts", build.Host("free"), nil},
		"Recorded":  {"a machine may have lost it", build.Host("recorded"), requests("recorder")},
		"Published": {"a machine may have lost it and its annotation", build.Host("published"), requests("publisher")},
		"Claimed":   {"its machine", build.Host("host", build.Consumed(machine)), requests("machine")},
		"Elsewhere": {"machines and hosts share a namespace", build.Host("host", build.Consumed(elsewhere)), nil},
	}
	recorder := build.Metal3Machine("recorder", "cluster", build.OnHost(build.Host("recorded")))
	publisher := build.Metal3Machine("publisher", "cluster")
	publisher.Spec.ProviderID = "metal3://metal3/published/publisher"
	r := &Reconciler{Reporter: flow.Reporter{Client: fake.NewClientBuilder().WithScheme(build.Scheme()).
		WithObjects(recorder, publisher).
		WithIndex(&infrav1.Metal3Machine{}, hoststore.RecordedHostIndex, hoststore.ByRecordedHost).Build()}}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, r.hostToMachines(context.Background(), tc.object)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestDataToMachine(t *testing.T) {
	data := &infrav1.Metal3Data{ObjectMeta: metav1.ObjectMeta{Namespace: build.DefaultNamespace, Name: "data"}}
	if got := dataToMachine(context.Background(), data); got != nil {
		t.Errorf("got %v for data without a claim", got)
	}
	data.Spec.Claim = &infrav1.Metal3ObjectRef{Name: "machine"}
	if diff := cmp.Diff(requests("machine"), dataToMachine(context.Background(), data)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestObjectsToMachines(t *testing.T) {
	unlinked := build.Metal3Machine("unlinked", "cluster", build.OnHost(build.Host("host-0")))
	linked := build.Metal3Machine("linked", "cluster", build.OnHost(build.Host("host-1")))
	linked.Status.Initialization.Provisioned = ptr.To(true)
	linked.Spec.ProviderID = "metal3://metal3/host-1/linked"
	hostless := build.Metal3Machine("hostless", "other")
	copied := build.Metal3Machine("copied", "cluster")
	copied.Spec.ProviderID = linked.Spec.ProviderID
	abroad := build.Metal3Machine("abroad", "cluster", build.InNamespace("abroad"))
	abroad.Spec.ProviderID = linked.Spec.ProviderID
	owner := build.Machine("unlinked", "cluster")
	c := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(unlinked, linked, hostless, abroad, owner).
		WithIndex(&clusterv1.Machine{}, bootstrapIndex, byBootstrapData).
		WithIndex(&infrav1.Metal3Machine{}, providerIDIndex, byProviderID).Build()
	r := &Reconciler{Reporter: flow.Reporter{Client: c}}
	ofCluster := build.Labels(map[string]string{clusterv1.ClusterNameLabel: "cluster"})
	cases := map[string]struct {
		reason string
		got    []ctrl.Request
		want   []ctrl.Request
	}{
		"SameProviderID": {
			"a conflict may start or end", r.sameProviderID(context.Background(), copied),
			requests("linked"),
		},
		"OwnProviderID": {"the machine itself is not enqueued", r.sameProviderID(context.Background(), linked), nil},
		"NoProviderID":  {"most machines have none at first", r.sameProviderID(context.Background(), unlinked), nil},
		"Infrastructure": {
			"all machines of the cluster",
			r.infrastructureToMachines(context.Background(), build.Metal3Cluster("cluster", ofCluster)),
			requests("linked", "unlinked"),
		},
		"InfrastructureWithoutCluster": {
			"a Metal3Cluster without a Cluster", r.infrastructureToMachines(context.Background(), build.Metal3Cluster("x")), nil,
		},
		"Secret": {
			"the machine of the bootstrap data",
			r.secretToMachine(context.Background(), build.BootstrapSecret("unlinked", "", nil)), requests("unlinked"),
		},
		"Kubeconfig": {
			"machines report whether it is valid",
			r.secretToMachine(context.Background(), kubeconfig.GenerateSecret(build.Cluster("cluster"), nil)),
			requests("linked", "unlinked"),
		},
		"OtherSecret": {
			"no machine", r.secretToMachine(context.Background(), build.BootstrapSecret("other", "", nil)), nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestNodeToMachines(t *testing.T) {
	onHost := func(machine, name, uid, hostname, cluster string) (*infrav1.Metal3Machine, *bmov1alpha1.BareMetalHost) {
		holder := build.Metal3Machine(machine, cluster)
		held := build.Host(name, build.Consumed(holder), build.Labels(map[string]string{clusterv1.ClusterNameLabel: cluster}))
		held.UID = types.UID(uid)
		held.Status.HardwareDetails = &bmov1alpha1.HardwareDetails{Hostname: hostname}
		return holder, held
	}
	first, firstHost := onHost("first", "host-0", "uid-0", "name-0", "cluster")
	second, secondHost := onHost("second", "host-1", "uid-1", "name-1", "cluster")
	other, otherHost := onHost("other", "host-2", "uid-2", "name-2", "other")
	earlier := build.Metal3Machine("earlier", "cluster")
	earlier.Spec.ProviderID = "metal3://uid-before-the-move"
	c := fake.NewClientBuilder().WithScheme(build.Scheme()).
		WithObjects(first, firstHost, second, secondHost, other, otherHost, earlier).
		WithIndex(&infrav1.Metal3Machine{}, providerIDIndex, byProviderID).
		WithIndex(&bmov1alpha1.BareMetalHost{}, hostUIDIndex, byUID).
		WithIndex(&bmov1alpha1.BareMetalHost{}, hostnameIndex, byHostname).Build()
	cases := map[string]struct {
		reason                string
		providerID, uid, name string
		want                  []ctrl.Request
	}{
		"ProviderID": {reason: "the provider ID contains the machine", providerID: "metal3://metal3/host-0/first", want: requests("first")},
		"HostUID":    {reason: "the kubelet sets the label", uid: "uid-1", want: requests("second")},
		"EarlierID": {
			reason:     "an earlier provider ID has only the UID of the host, which a move changes",
			providerID: "metal3://uid-before-the-move", want: requests("earlier"),
		},
		"Hostname": {reason: "the UID may be from before a move", uid: "uid-9", name: "name-1", want: requests("second")},
		"Conflict": {
			reason: "both machines of a conflict", providerID: "metal3://metal3/host-0/first", uid: "uid-1",
			want: requests("first", "second"),
		},
		"OtherCluster":     {reason: "the machine belongs to another cluster", uid: "uid-2", providerID: "metal3://metal3/host-2/other"},
		"OtherNamespace":   {reason: "the machine belongs to another namespace", providerID: "metal3://elsewhere/host-0/first"},
		"ForeignID":        {reason: "the ID of a cloud provider", providerID: "aws:///x", name: "name-0", want: requests("first")},
		"NothingOfTheNode": {reason: "the Node belongs to no host", uid: "uid-9", name: "name-9"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: tc.providerID}}
			node.Labels = map[string]string{infrav1.HostUIDLabel: tc.uid, corev1.LabelHostname: tc.name}
			cluster := types.NamespacedName{Namespace: build.DefaultNamespace, Name: "cluster"}
			got := (&Reconciler{Reporter: flow.Reporter{Client: c}}).nodeToMachines(cluster)(context.Background(), node)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}
