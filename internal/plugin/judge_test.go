package plugin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// texts returns obstacles as users read them.
func texts(obstacles []pivot.Obstacle) []string {
	var all []string
	for _, each := range obstacles {
		all = append(all, each.String())
	}
	return all
}

func gone() []pivot.Obstacle {
	return []pivot.Obstacle{{Code: pivot.CodeManagerDown, Message: "the manager is gone"}}
}

func TestSourceObstacles(t *testing.T) {
	cases := map[string]struct {
		reason string
		edit   func(*scope)
		want   []string
	}{
		"Ready": {reason: "nothing is in the way", edit: func(*scope) {}},
		"NoEndpoint": {
			reason: "a cluster without an endpoint has no endpoint to check",
			edit:   func(s *scope) { s.infras[0].Spec.Ironic, s.infras[0].Status.Ironic = nil, nil },
		},
		"NoManager": {
			reason: "no manager would pause the hosts",
			edit:   func(s *scope) { s.managerObstacles = gone() },
			want:   []string{"the manager is gone"},
		},
		"Empty": {
			reason: "a wrong namespace must not look like success",
			edit:   func(s *scope) { s.sight = &sight{} },
			want:   []string{"no Cluster has a Metal3Cluster, and there is no host: name another namespace with --namespace"},
		},
		"HostsAlone": {
			reason: "the manager parks hosts only for a Cluster",
			edit:   func(s *scope) { s.clusters, s.infras = nil, nil },
			want: []string{"no Cluster has a Metal3Cluster, so the manager does not pause the 1 hosts and keep their status: " +
				"move them together with a Cluster"},
		},
		"FromObstacles": {
			reason: "preflight finds the obstacles of package pivot",
			edit: func(s *scope) {
				s.remediations, s.openPools = []string{"r"}, []string{"p"}
				s.machines[0].Status.NodeRef = clusterv1.MachineNodeReference{}
				s.hosts[0].Status.Provisioning.State = bmov1alpha1.StateInspecting
				for i := range s.definitions {
					if s.definitions[i].Kind == hostKind() {
						delete(s.definitions[i].Labels, infrav1.MoveHierarchyLabel)
					}
				}
			},
			want: []string{
				"CustomResourceDefinition baremetalhosts.metal3.io: clusterctl.cluster.x-k8s.io/move-hierarchy is missing: " +
					"set this label, or run the manager with --keep-move-labels",
				"Machine machine has no node: wait for it, or delete it",
				"Metal3Remediation r is running: wait until it is done, or delete it",
				"IPPool p has no spec.clusterName, so the address manager of the target could give its addresses to other " +
					"machines: set it to the name of a Cluster of the namespace",
				"host host is inspecting: wait until it is done, or let it move meanwhile with " +
					"`clusterctl metal3 pivot allow-busy --namespace metal3 --host host`",
			},
		},
		"Refused": {
			reason: "clusterctl refuses some clusters itself, and a pause has removed the gate",
			edit: func(s *scope) {
				s.clusters[0].Spec.Paused, s.pausedClasses = ptr.To(true), []client.ObjectKey{{Namespace: build.DefaultNamespace, Name: "class"}}
				s.infras[0].Annotations = nil
			},
			want: []string{
				"Cluster c is paused: wait for a move in progress; complete an interrupted move with pivot resume, or abort it " +
					"with pivot abort; without a move, use `clusterctl metal3 pivot unpause --namespace metal3`",
				"ClusterClass class is paused: a move is under way or was given up; wait for it, " +
					"or remove its annotation cluster.x-k8s.io/paused",
				"host host is being paused: wait until it is paused",
			},
		},
		"Unlabelled": {
			reason: "a newer BMO has kinds that this release does not know",
			edit:   func(s *scope) { s.unlabelled = []string{"baremetalracks.metal3.io"} },
			want: []string{"CustomResourceDefinition baremetalracks.metal3.io has no label, so clusterctl would leave its objects " +
				"behind: set label clusterctl.cluster.x-k8s.io on it, and clusterctl.cluster.x-k8s.io/move if its objects have no owner"},
		},
		"OwnedByAStranger": {
			reason: "preflight checks the owner of each object once",
			edit: func(s *scope) {
				stranger := []metav1.OwnerReference{{APIVersion: "fleet.example.com/v1", Kind: "Bundle", Name: "b"}}
				pool := partial("pool", "c")
				pool.OwnerReferences, s.hosts[0].OwnerReferences = stranger, stranger
				s.objects[hostKind()]["host"].OwnerReferences = stranger
				s.objects[schema.GroupKind{Group: "ipam.metal3.io", Kind: "IPPool"}] = belongings{"pool": pool}
			},
			want: []string{
				"host host is owned by Bundle b, which does not move: remove the owner reference",
				"IPPool pool is owned by Bundle b, which does not move: remove the owner reference",
			},
		},
		"OwnersOfMachines": {
			reason: "the deletion of an owner of Machines does not move",
			edit: func(s *scope) {
				going := func(name string) belongings {
					object := partial(name, "c")
					object.DeletionTimestamp = ptr.To(metav1.Now())
					return belongings{name: object}
				}
				s.objects[clusterv1.GroupVersion.WithKind("MachineDeployment").GroupKind()] = going("workers")
				s.objects[schema.GroupKind{Group: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane"}] = going("plane")
			},
			want: []string{
				"KubeadmControlPlane plane is being deleted, and a move would lose the deletion: wait until it is gone",
				"MachineDeployment workers is being deleted, and a move would lose the deletion: wait until it is gone",
			},
		},
		"Endpoint": {
			reason: "the condition has the message, the status has the nodes",
			edit: func(s *scope) {
				s.infras[0].Status.Conditions[0].Status = metav1.ConditionFalse
				s.infras[0].Status.Conditions[0].Message = "Waiting for Ironic"
				s.infras[0].Status.Ironic.Nodes[0].ConfigHash = ""
			},
			want: []string{
				"Ironic endpoint: Waiting for Ironic",
				"node node-0 does not run the pods of the Ironic endpoint: check its pods, or roll the control plane out",
			},
		},
		"Rivals": {
			reason: "a conflicting user of the VIP is named instead of ReadyForMove",
			edit: func(s *scope) {
				s.infras[0].Status.Conditions[1].Status = metav1.ConditionFalse
				s.infras[0].Status.Conditions[1].Message = "the same again"
				s.infras[0].Status.Conditions = append(s.infras[0].Status.Conditions, rivalry(infrav1.VirtualIPTakenReason,
					"Host host had 192.0.2.2 when it was inspected: remove the address from it"))
			},
			want: []string{"Ironic endpoint: Host host had 192.0.2.2 when it was inspected: remove the address from it"},
		},
		"RivalsOfOne": {
			reason: "with several clusters, the message names the cluster with the conflict",
			edit: func(s *scope) {
				s.clusters, s.infras = append(s.clusters, runningCluster("d")), append(s.infras, runningInfra("d"))
				s.infras[1].Status.Conditions = append(s.infras[1].Status.Conditions, rivalry(infrav1.VirtualRouterIDTakenReason,
					"Metal3Cluster n/x uses virtual router ID 51 on this network too: set another"))
			},
			want: []string{"Metal3Cluster d: Ironic endpoint: " +
				"Metal3Cluster n/x uses virtual router ID 51 on this network too: set another"},
		},
		"NoRivals": {
			reason: "the VIP has no conflict, the endpoint was removed, or the probe is pending",
			edit: func(s *scope) {
				alone := metav1.Condition{Type: infrav1.IronicEndpointUniqueCondition, Status: metav1.ConditionTrue}
				s.clusters = append(s.clusters, runningCluster("d"), runningCluster("e"))
				s.infras = append(s.infras, runningInfra("d"), runningInfra("e"))
				s.infras[0].Status.Conditions = append(s.infras[0].Status.Conditions, alone)
				s.infras[1].Spec.Ironic, s.infras[1].Status.Ironic = nil, nil
				s.infras[1].Status.Conditions = append(s.infras[1].Status.Conditions,
					rivalry(infrav1.VirtualIPTakenReason, "what was so before"))
				s.infras[2].Status.Conditions = append(s.infras[2].Status.Conditions, rivalry(infrav1.NotYetObservedReason, ""))
			},
		},
		"TwoClusters": {
			reason: "with several clusters, the message names the cluster",
			edit: func(s *scope) {
				s.clusters = append(s.clusters, runningCluster("d"))
				s.infras = append(s.infras, runningInfra("d"))
				s.infras[1].Status.Ironic = nil
			},
			want: []string{"Metal3Cluster d: it is unknown whether the control plane can take the Ironic endpoint: " +
				"the manager has seen no node of Metal3Cluster d: check that the API server of the cluster answers"},
		},
		"StraySecret": {
			reason: "each Secret once, and only those that exist",
			edit: func(s *scope) {
				s.hosts[0].Spec.PreprovisioningNetworkDataName = "network"
				s.hosts[0].Spec.UserData = &corev1.SecretReference{Name: "network"}
				s.hosts[0].Spec.MetaData = &corev1.SecretReference{Name: "gone"}
				s.hosts[0].Spec.NetworkData = &corev1.SecretReference{Name: "labelled"}
				s.secrets["network"] = partial("network", "")
				s.secrets["labelled"] = partial("labelled", "")
				s.secrets["labelled"].Labels = map[string]string{infrav1.MoveLabel: ""}
				template := build.MachineTemplate("template")
				template.Spec.Template.Spec.UserData = &corev1.SecretReference{Name: "user"}
				s.naming, s.secrets["user"] = append(s.naming, template), partial("user", "")
			},
			want: []string{
				"Secret user of Metal3MachineTemplate template has no owner and would stay behind: " +
					"set label clusterctl.cluster.x-k8s.io/move on it, or run the manager with --keep-move-labels",
				"Secret network of host host has no owner and would stay behind: " +
					"set label clusterctl.cluster.x-k8s.io/move on it, or run the manager with --keep-move-labels",
			},
		},
		"Doubt": {
			reason: "only the manager observes the nodes",
			edit: func(s *scope) {
				s.infras[0].Status.Conditions[1].Status = metav1.ConditionFalse
				s.infras[0].Status.Conditions[1].Message = "node x is bare"
			},
			want: []string{"ReadyForMove of Metal3Cluster c is not true: node x is bare"},
		},
		"DoubtIsLast": {
			reason: "ReadyForMove would repeat the obstacle",
			edit: func(s *scope) {
				s.infras[0].Status.Conditions = s.infras[0].Status.Conditions[:1]
				s.remediations = []string{"r"}
			},
			want: []string{"Metal3Remediation r is running: wait until it is done, or delete it"},
		},
		"NotJudged": {
			reason: "a manager without ReadyForMove may not have set block-move",
			edit:   func(s *scope) { s.infras[0].Status.Conditions = s.infras[0].Status.Conditions[:1] },
			want:   []string{"the manager has not judged Metal3Cluster c yet: see its log"},
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			source := ready()
			test.edit(source)
			source.neighbours()
			if diff := cmp.Diff(test.want, texts(departure{source}.obstacles())); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", test.reason, diff)
			}
		})
	}
}

func TestTargetObstacles(t *testing.T) {
	attachments := schema.GroupKind{Group: "metal3.io", Kind: "HostNetworkAttachment"}
	cases := map[string]struct {
		reason string
		edit   func(source, target *scope)
		want   []string
	}{
		"Ready": {reason: "the target has no object of the move", edit: func(_, _ *scope) {}},
		"Same": {
			reason: "the same cluster has one obstacle, not one for each object",
			edit:   func(_, target *scope) { target.identity, target.definitions = "source", nil },
			want:   []string{"it is the same cluster as the source: name another one with --to-kubeconfig"},
		},
		"NoManager": {
			reason: "no manager would resume the hosts",
			edit:   func(_, target *scope) { target.managerObstacles = gone() },
			want:   []string{"the manager is gone"},
		},
		"NoOperator": {
			reason: "no BMO would manage the hosts",
			edit:   func(_, target *scope) { target.operators = nil },
			want: []string{"BMO was not found: no Deployment that watches namespace metal3 has the label " +
				"webhook=metal3-io-v1alpha1-baremetalhost: install it, or use --ignore OperatorMissing if it runs without this label"},
		},
		"OperatorDown": {
			reason: "the same",
			edit:   func(_, target *scope) { target.operators[0].Status.AvailableReplicas = 0 },
			want: []string{"BMO does not run: Deployment baremetal-operator-system/bmo has 0 of 1 replicas available: scale it, " +
				"or check its pods"},
		},
		"NothingInstalled": {
			reason: "only kinds of this provider, of BMO and of Cluster API count",
			edit: func(source, target *scope) {
				target.definitions = nil
				source.definitions = only(source, "baremetalhosts")
			},
			want: []string{"CustomResourceDefinition baremetalhosts.metal3.io is missing: install the component that contains it, " +
				"in the same version as in the source"},
		},
		"OtherStorage": {
			reason: "objects are copied in the version that is stored",
			edit: func(source, target *scope) {
				source.definitions, target.definitions = only(source, "clusters.cluster"), definitionsOf("v2")
			},
			want: []string{"CustomResourceDefinition clusters.cluster.x-k8s.io stores v2, in the source v1: " +
				"install the component in the same version"},
		},
		"Attachments": {
			reason: "clusterctl cannot move them",
			edit: func(source, target *scope) {
				source.objects[attachments] = belongings{"there": partial("there", ""), "missing": partial("missing", "")}
				target.objects = map[schema.GroupKind]belongings{attachments: {"there": partial("there", "")}}
			},
			want: []string{"HostNetworkAttachment missing does not move, and hosts may reference it: create it in the target"},
		},
		"NotOurs": {
			reason: "clusterctl checks the kinds of other providers",
			edit:   func(source, target *scope) { target.definitions = nil; source.definitions = only(source, "aws") },
		},
		"ProviderMissing": {
			reason: "clusterctl refuses",
			edit:   func(_, target *scope) { target.providers = nil },
			want:   []string{"provider infrastructure-metal3 is missing: install v1.15.0 or newer with clusterctl init"},
		},
		"ProviderOlder": {
			reason: "clusterctl refuses; of several the newest counts",
			edit: func(_, target *scope) {
				target.providers = []clusterctlv1.Provider{provider("v1.14.9"), provider("v1.9.0")}
			},
			want: []string{"provider infrastructure-metal3 has version v1.14.9, in the source v1.15.0: " +
				"upgrade it with clusterctl upgrade"},
		},
		"ProviderNewer": {
			reason: "clusterctl accepts",
			edit:   func(_, target *scope) { target.providers = append(target.providers, provider("v1.16.0-rc.1")) },
		},
		"VersionUnreadable": {
			reason: "clusterctl fails at either of them",
			edit: func(source, target *scope) {
				source.providers = append(source.providers, provider("dev"))
				target.providers[0].Version = "main"
			},
			want: []string{
				`Provider capm3-system/infrastructure-metal3 has version "main", which clusterctl cannot read: install a release`,
				`Provider capm3-system/infrastructure-metal3 of the source has version "dev", which clusterctl cannot read: ` +
					"install a release",
			},
		},
		"Strangers": {
			reason: "clusterctl overwrites objects with the same name",
			edit: func(source, target *scope) {
				target.objects = map[schema.GroupKind]belongings{hostKind(): {"host": partial("host", "other")}}
				source.secrets["certs"] = partial("certs", "c")
				source.secrets["mine"] = partial("mine", "")
				target.secrets = belongings{"certs": byCluster("certs", "other"), "mine": partial("mine", "other")}
			},
			want: []string{
				"BareMetalHost host is there already, belongs to Cluster other and would be overwritten: rename one of them, " +
					"or move to a cluster without it",
				"Secret certs is there already, belongs to Cluster other and would be overwritten: rename one of them, " +
					"or move to a cluster without it",
			},
		},
		"Used": {
			reason: "another host of the target would get other credentials, and another IPAddress another pool",
			edit: func(source, target *scope) {
				pools := schema.GroupKind{Group: "ipam.metal3.io", Kind: "IPPool"}
				addresses := schema.GroupKind{Group: "ipam.metal3.io", Kind: "IPAddress"}
				pool, address := partial("pool", ""), partial("address", "")
				pool.UID, address.OwnerReferences = "pool", []metav1.OwnerReference{{Kind: "IPPool", Name: "pool", UID: "pool"}}
				source.objects[pools] = belongings{"pool": partial("pool", "")}
				target.objects = map[schema.GroupKind]belongings{pools: {"pool": pool}, addresses: {"address": address}}
				moving := partial("own-bmc", "")
				moving.Labels = map[string]string{infrav1.MoveLabel: ""}
				source.secrets["own-bmc"] = moving
				target.secrets = belongings{"own-bmc": partial("own-bmc", "")}
				target.hosts = append(target.hosts, build.Host("own", build.Available()))
			},
			want: []string{
				"IPPool pool is there already, is used by IPAddress address and would be overwritten: rename one of them, or move " +
					"to a cluster without it",
				"Secret own-bmc is there already, is used by BareMetalHost own and would be overwritten: rename one of them, or move " +
					"to a cluster without it",
			},
		},
		"HalfDeleted": {
			reason: "the deletion continues after the move; a host stays paused",
			edit: func(source, target *scope) {
				machine := schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: "Machine"}
				there := partial("m", "c")
				there.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
				source.objects[machine] = belongings{"m": partial("m", "c")}
				target.objects = map[schema.GroupKind]belongings{machine: {"m": there}, hostKind(): {"host": there}}
			},
			want: []string{"Machine m is there already, is being deleted, and its deletion would continue after the move: remove it " +
				"with pivot clean --target"},
		},
		"Abandoned": {
			reason: "controllers would reconcile objects that were deleted in the source; other objects of the target stay",
			edit: func(_, target *scope) {
				moved := partial("moved", "")
				moved.Annotations = map[string]string{infrav1.StatusOriginAnnotation: "uid"}
				target.objects = map[schema.GroupKind]belongings{hostKind(): {
					"host": partial("host", "c"), "deleted": partial("deleted", "c"), "moved": moved,
					"own": partial("own", ""), "others": partial("others", "other"),
				}}
			},
			want: []string{
				"BareMetalHost deleted is in the target only, left by an earlier move, and controllers would reconcile it: remove it " +
					"with pivot clean --target",
				"BareMetalHost moved is in the target only, left by an earlier move, and controllers would reconcile it: remove it " +
					"with pivot clean --target",
			},
		},
		"LeftOvers": {
			reason: "an aborted move has left the same objects, without a status",
			edit: func(source, target *scope) {
				target.objects = source.objects
				left := source.hosts[0].DeepCopy()
				left.Status = bmov1alpha1.BareMetalHostStatus{}
				target.sight = (&sight{
					hosts: []*bmov1alpha1.BareMetalHost{left}, clusters: source.clusters, infras: source.infras,
				}).neighbours()
			},
		},
		"LeftOverHostWithStatus": {
			reason: "BMO ignores the status that arrives on a host that has one",
			edit: func(source, target *scope) {
				target.objects = source.objects
				target.sight = (&sight{hosts: source.hosts, clusters: source.clusters, infras: source.infras}).neighbours()
			},
			want: []string{"BareMetalHost host is there already, with an older status: remove it with pivot " +
				"clean --target, or it may stay paused after the move"},
		},
		"LeftOverHostBeingDeleted": {
			reason: "BMO would deprovision the host that arrives on it",
			edit: func(source, target *scope) {
				target.objects = source.objects
				left := source.hosts[0].DeepCopy()
				left.Status, left.DeletionTimestamp = bmov1alpha1.BareMetalHostStatus{}, ptr.To(metav1.Now())
				target.sight = (&sight{
					hosts: []*bmov1alpha1.BareMetalHost{left}, clusters: source.clusters, infras: source.infras,
				}).neighbours()
			},
			want: []string{"BareMetalHost host is there already, and is being deleted: remove it with pivot clean --target, or " +
				"it may stay paused after the move"},
		},
		"OtherMachine": {
			reason: "the name is the same, the machine is not",
			edit: func(_, target *scope) {
				target.hosts = []*bmov1alpha1.BareMetalHost{build.Host("host"), build.Host("another")}
				target.hosts[0].Spec.BMC.Address = "ipmi://elsewhere"
			},
			want: []string{"BareMetalHost host is there already, has another spec.bmc.address and would be overwritten: " +
				"rename one of them"},
		},
		"OtherCluster": {
			reason: "the name is the same, the cluster is not",
			edit: func(_, target *scope) {
				target.infras = []*infrav1.Metal3Cluster{build.Metal3Cluster("c", build.Endpoint("192.0.2.99", 6443))}
			},
			want: []string{"Metal3Cluster c is there already, has control-plane endpoint 192.0.2.99:6443, in the source " +
				"192.0.2.10:6443, and would be overwritten: rename one of them"},
		},
		"EndpointNotReached": {
			reason: "a leftover Metal3Cluster shows whether the target reaches the endpoint",
			edit: func(_, target *scope) {
				left := runningInfra("c")
				left.Status.Conditions[0].Status, left.Status.Conditions[0].Message = metav1.ConditionFalse, "nobody answers"
				other := runningInfra("d")
				other.Status.Conditions = nil
				target.infras = []*infrav1.Metal3Cluster{left, other}
				target.clusters = []*clusterv1.Cluster{runningCluster("c"), runningCluster("d")}
			},
			want: []string{"Ironic endpoint: nobody answers"},
		},
		"Rivals": {
			reason: "a leftover Metal3Cluster shows a conflicting user of the VIP in the target",
			edit: func(_, target *scope) {
				left := runningInfra("c")
				left.Status.Conditions = append(left.Status.Conditions,
					rivalry(infrav1.VirtualIPTakenReason, "Metal3Cluster n/x has 192.0.2.2 too: choose another one"))
				target.infras = []*infrav1.Metal3Cluster{left}
				target.clusters = []*clusterv1.Cluster{runningCluster("c")}
			},
			want: []string{"Ironic endpoint: Metal3Cluster n/x has 192.0.2.2 too: choose another one"},
		},
		"EndpointOfPaused": {
			reason: "the conditions of a paused Cluster do not count",
			edit: func(_, target *scope) {
				left := runningInfra("c")
				left.Status.Conditions = nil
				target.infras = []*infrav1.Metal3Cluster{left}
				target.clusters = []*clusterv1.Cluster{build.Cluster("c", build.ClusterPaused())}
			},
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			source, target := ready(), empty()
			test.edit(source, target)
			if diff := cmp.Diff(test.want, texts(arrivalOf(source, target).obstacles())); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", test.reason, diff)
			}
		})
	}
}

// only returns the definitions of a scope whose names begin with a word.
func only(s *scope, word string) []definition {
	var kept []definition
	for _, found := range s.definitions {
		if len(found.Name) > len(word) && found.Name[:len(word)] == word {
			kept = append(kept, found)
		}
	}
	return kept
}

func byCluster(name, cluster string) *metav1.PartialObjectMetadata {
	object := named(name, "")
	object.OwnerReferences = []metav1.OwnerReference{ownerOf(clusterv1.ClusterKind, cluster)}
	return object
}

func TestManagerProblem(t *testing.T) {
	down := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "down"}}
	up := down
	up.Status.AvailableReplicas = 1
	none := down
	none.Spec.Replicas = ptr.To(int32(0))
	cases := map[string]struct {
		reason      string
		deployments []appsv1.Deployment
		want        string
	}{
		"None": {"it is not installed", nil, "the manager of this provider is not installed: there is no Deployment with the " +
			"label cluster.x-k8s.io/provider=infrastructure-metal3: install it with clusterctl init"},
		"Down": {"its pods do not run", []appsv1.Deployment{down}, "the manager of this provider does not run: " +
			"Deployment n/down has 0 of 1 replicas available: check its pods"},
		"Zero": {"zero of zero is not available either", []appsv1.Deployment{none}, "the manager of this provider does not " +
			"run: Deployment n/down has 0 of 0 replicas available: check its pods"},
		"One": {"one that runs is enough", []appsv1.Deployment{down, up}, ""},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if got := pivot.Enumerate(managerObstacles(test.deployments)); got != test.want {
				t.Errorf("%s: got %q, want %q", test.reason, got, test.want)
			}
		})
	}
}

// TestUnowned tests objects that stay behind, and may not be required.
func TestUnowned(t *testing.T) {
	template := schema.GroupKind{Group: infrav1.GroupVersion.Group, Kind: "Metal3DataTemplate"}
	pools := schema.GroupKind{Group: "ipam.metal3.io", Kind: "IPPool"}
	stranger := schema.GroupKind{Group: "example.com", Kind: "Thing"}
	labelled := partial("labelled", "c")
	labelled.Labels[infrav1.MoveLabel] = ""
	source := ready()
	attachments := schema.GroupKind{Group: "metal3.io", Kind: "HostNetworkAttachment"}
	source.objects[attachments] = belongings{"network": partial("network", "")}
	source.definitions = append(source.definitions, definition{Name: pivot.AttachmentDefinition, Kind: attachments})
	for kind, label := range map[schema.GroupKind]string{
		template: infrav1.DiscoverLabel, pools: infrav1.MoveLabel, stranger: infrav1.DiscoverLabel,
	} {
		source.definitions = append(source.definitions, definition{
			Name: kind.Kind, Kind: kind, Labels: map[string]string{label: ""},
		})
		source.objects[kind] = belongings{
			"old": partial("old", "c"), "labelled": labelled, "owned": owned("owned"),
		}
	}
	want := []string{
		"Metal3DataTemplate old has no owner, and stays behind: " +
			"set label clusterctl.cluster.x-k8s.io/move on it if the target requires it",
	}
	if diff := cmp.Diff(want, departure{source}.notes()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRemembered(t *testing.T) {
	cases := map[string]struct {
		reason, annotation string
		want               int32
		known              bool
	}{
		"Number":  {"the recorded number", "3", 3, true},
		"Nothing": {"another client has scaled the Deployment", "", 0, false},
		"Zero":    {"zero replicas restore no Ironic", "0", 0, false},
		"Garbage": {"the annotation is no number", "many", 0, false},
		"Huge":    {"the number is too large", "99999999999", 0, false},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			deployment := &appsv1.Deployment{}
			if test.annotation != "" {
				deployment.Annotations = map[string]string{replicasAnnotation: test.annotation}
			}
			got, problem := remembered(deployment)
			if got != test.want || (len(problem) == 0) != test.known {
				t.Errorf("%s: got %d, %q", test.reason, got, problem)
			}
		})
	}
}
