package pivot_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func reference(namespace, name string) *corev1.SecretReference {
	return &corev1.SecretReference{Namespace: namespace, Name: name}
}

func TestNamedSecrets(t *testing.T) {
	host := func(edit func(*bmov1alpha1.BareMetalHostSpec)) *bmov1alpha1.BareMetalHost {
		host := build.Host("host")
		edit(&host.Spec)
		return host
	}
	spec := infrav1.Metal3MachineSpec{
		UserData: reference("", "user"), MetaData: reference(build.DefaultNamespace, "meta"),
		NetworkData: reference("other", "network"),
	}
	machine := build.Metal3Machine("machine", "cluster")
	machine.Spec = spec
	template := build.MachineTemplate("template")
	template.Spec.Template.Spec = spec
	claim := &bmov1alpha1.HostClaim{Spec: bmov1alpha1.HostClaimSpec{
		UserData: reference("", "user"), MetaData: reference("", "meta"), NetworkData: reference("", "network"),
		Image: &bmov1alpha1.Image{OCIAuthSecretName: ptr.To("registry")},
	}}
	cluster := build.Metal3Cluster("cluster")
	cluster.Spec.Ironic = &infrav1.Ironic{
		CredentialsRef: &corev1.LocalObjectReference{Name: "credentials"},
		TLSRef:         &corev1.LocalObjectReference{Name: "certificates"},
	}
	cases := map[string]struct {
		reason string
		object metav1.Object
		want   []string
	}{
		"NewHost": {
			"a host has credentials from the beginning", host(func(*bmov1alpha1.BareMetalHostSpec) {}), []string{"host-bmc"},
		},
		"FullHost": {
			"each field counts, and the order is fixed", host(func(spec *bmov1alpha1.BareMetalHostSpec) {
				spec.UserData, spec.MetaData = reference(build.DefaultNamespace, "user"), reference("", "meta")
				spec.NetworkData, spec.PreprovisioningNetworkDataName = reference("", "network"), "ramdisk"
				spec.Image = &bmov1alpha1.Image{OCIAuthSecretName: ptr.To("registry")}
			}), []string{"host-bmc", "meta", "network", "ramdisk", "registry", "user"},
		},
		"PublicImage": {
			"an image without a Secret for its registry", host(func(spec *bmov1alpha1.BareMetalHostSpec) {
				spec.Image = &bmov1alpha1.Image{}
			}), []string{"host-bmc"},
		},
		"SharedSecret": {
			"a Secret is named once", host(func(spec *bmov1alpha1.BareMetalHostSpec) {
				spec.NetworkData, spec.PreprovisioningNetworkDataName = reference("", "network"), "network"
			}), []string{"host-bmc", "network"},
		},
		"OtherNamespace": {
			"a move covers only the namespace of the host", host(func(spec *bmov1alpha1.BareMetalHostSpec) {
				spec.UserData = reference("other", "user")
			}), []string{"host-bmc"},
		},
		"NoCredentials": {
			"an externally managed host may have none", host(func(spec *bmov1alpha1.BareMetalHostSpec) {
				spec.BMC.CredentialsName = ""
			}), nil,
		},
		"Machine":  {"a machine that waits for its host", machine, []string{"meta", "user"}},
		"Template": {"a template without machines", template, []string{"meta", "user"}},
		"Claim":    {"a HostClaim has the same fields as a host", claim, []string{"meta", "network", "registry", "user"}},
		"Subscription": {
			"events are sent with headers", &bmov1alpha1.BMCEventSubscription{
				Spec: bmov1alpha1.BMCEventSubscriptionSpec{HTTPHeadersRef: reference("", "headers")},
			}, []string{"headers"},
		},
		"Cluster": {"the Secrets of the user for the Ironic endpoint", cluster, []string{"certificates", "credentials"}},
		"Plain":   {"a Metal3Cluster without an Ironic endpoint names no Secret", build.Metal3Cluster("plain"), nil},
		"Other":   {"other kinds name no Secret", &corev1.ConfigMap{}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, pivot.NamedSecrets(tc.object)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// discovered is the label of a definition whose kind clusterctl discovers.
func discovered() map[string]string { return map[string]string{infrav1.DiscoverLabel: ""} }

// install adds the definitions of a cluster without a missing definition.
func install(facts *pivot.MoveFacts) {
	for _, name := range []string{
		"clusters.cluster.x-k8s.io", "machines.cluster.x-k8s.io", "metal3machines.infrastructure.cluster.x-k8s.io",
	} {
		facts.AddDefinition(name, discovered())
	}
	facts.AddDefinition("sealedsecrets.bitnami.com", nil)
	facts.AddDefinition("baremetalhosts.metal3.io", map[string]string{
		infrav1.DiscoverLabel: "", infrav1.MoveLabel: "", infrav1.MoveHierarchyLabel: "",
	})
}

// TestLeftBehind tests the objects that clusterctl omits without an error.
func TestLeftBehind(t *testing.T) {
	const sealed = " is owned by SealedSecret s, which does not move: remove the owner reference"
	const byHand = " has no owner and would stay behind: set label clusterctl.cluster.x-k8s.io/move on it"
	const noOwner = byHand + ", or run the manager with --keep-move-labels"
	stranger := metav1.OwnerReference{APIVersion: "bitnami.com/v1alpha1", Kind: "SealedSecret", Name: "s"}
	operator := metav1.OwnerReference{APIVersion: "metal3.io/v1alpha1", Kind: "BareMetalHost", Name: "host"}
	movesBy := func(meta metav1.ObjectMeta) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: meta}
	}
	owned := movesBy(metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{operator}})
	labelled := movesBy(metav1.ObjectMeta{Labels: map[string]string{infrav1.MoveLabel: ""}})
	cases := map[string]struct {
		reason  string
		edit    func(*pivot.MoveFacts)
		want    []string
		unmoved bool
	}{
		"Owned":    {"it moves with its owner", func(*pivot.MoveFacts) {}, nil, false},
		"Labelled": {"only the key counts", func(f *pivot.MoveFacts) { f.Secrets["host-bmc"] = labelled }, nil, false},
		"Missing": {
			"BMO reports a missing Secret", func(f *pivot.MoveFacts) { delete(f.Secrets, "host-bmc") }, nil, true,
		},
		"Unnamed": {
			"no object names the Secret", func(f *pivot.MoveFacts) { f.Secrets["other"] = movesBy(metav1.ObjectMeta{}) }, nil, false,
		},
		"Stray": {
			"the Secret has neither owner nor label", func(f *pivot.MoveFacts) { f.Secrets["host-bmc"] = movesBy(metav1.ObjectMeta{}) },
			[]string{"Secret host-bmc of host host" + noOwner}, true,
		},
		"Sealed": {
			"one owner that does not move is enough, despite the label", func(f *pivot.MoveFacts) {
				f.Secrets["host-bmc"] = movesBy(metav1.ObjectMeta{
					Labels: labelled.Labels, OwnerReferences: []metav1.OwnerReference{operator, stranger},
				})
			}, []string{"Secret host-bmc of host host" + sealed}, true,
		},
		"Shared": {
			"a Secret is reported once", func(f *pivot.MoveFacts) {
				f.Hosts = append(f.Hosts, f.Hosts[0])
				f.Secrets["host-bmc"] = movesBy(metav1.ObjectMeta{})
			}, []string{"Secret host-bmc of host host" + noOwner}, true,
		},
		"OfMachine": {
			"machines and templates name Secrets too", func(f *pivot.MoveFacts) {
				machine, template := build.Metal3Machine("machine", "c", build.OwnedBy(build.Machine("m", "c"))),
					build.MachineTemplate("template")
				cluster := build.Metal3Cluster("c")
				cluster.Spec.Ironic = &infrav1.Ironic{TLSRef: &corev1.LocalObjectReference{Name: "tls"}}
				f.Secrets["tls"] = movesBy(metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{stranger}})
				machine.Spec.UserData = reference("", "user")
				template.Spec.Template.Spec.NetworkData = reference("", "network")
				f.Naming = []metav1.Object{machine, template, cluster}
				f.Secrets["user"], f.Secrets["network"] = movesBy(metav1.ObjectMeta{}), movesBy(metav1.ObjectMeta{})
			}, []string{
				"Secret tls of Metal3Cluster c" + sealed, "Secret user of Metal3Machine machine" + noOwner,
				"Secret network of Metal3MachineTemplate template" + noOwner,
			}, true,
		},
		"OfOthers": {
			"the manager labels nothing for kinds that may not be installed", func(f *pivot.MoveFacts) {
				claim, subscription := &bmov1alpha1.HostClaim{}, &bmov1alpha1.BMCEventSubscription{}
				claim.Name, claim.Spec.UserData = "claim", reference("", "user")
				subscription.Name, subscription.Spec.HTTPHeadersRef = "events", reference("", "headers")
				f.Naming = []metav1.Object{claim, subscription}
				f.Secrets["user"], f.Secrets["headers"] = movesBy(metav1.ObjectMeta{}), movesBy(metav1.ObjectMeta{})
			}, []string{
				"Secret user of HostClaim claim" + byHand, "Secret headers of BMCEventSubscription events" + byHand,
			}, true,
		},
		"Host": {
			"a host does not move without its owner", func(f *pivot.MoveFacts) {
				f.Hosts[0].OwnerReferences = []metav1.OwnerReference{stranger}
			}, []string{"host host" + sealed}, false,
		},
		"Template": {
			"a template does not move without its owner", func(f *pivot.MoveFacts) {
				template := build.MachineTemplate("template")
				template.OwnerReferences = []metav1.OwnerReference{stranger}
				f.Naming = []metav1.Object{template}
			}, []string{"Metal3MachineTemplate template" + sealed}, false,
		},
		"OfTheGroup": {
			"the API group of the Ironic operator moves, its kind Ironic does not", func(f *pivot.MoveFacts) {
				f.AddDefinition("ironics.ironic.metal3.io", nil)
				f.Secrets["host-bmc"] = movesBy(metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
					{APIVersion: "ironic.metal3.io/v1alpha1", Kind: "Ironic", Name: "ironic"},
				}})
			}, []string{
				"Secret host-bmc of host host is owned by Ironic ironic, which does not move: set label " +
					"clusterctl.cluster.x-k8s.io on CustomResourceDefinition ironics.ironic.metal3.io, or remove the owner reference",
			}, true,
		},
		"Others": {
			"other kinds do not move without their owners either", func(f *pivot.MoveFacts) {
				f.Others = map[string]metav1.Object{
					"IPPool b": movesBy(metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{stranger}}),
					"IPPool a": movesBy(metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{stranger, operator}}),
					"IPPool c": movesBy(metav1.ObjectMeta{}),
				}
			}, []string{"IPPool a" + sealed, "IPPool b" + sealed}, false,
		},
		"IrregularNames": {
			"kinds with irregular plural names", func(f *pivot.MoveFacts) {
				f.AddDefinition("hostfirmwaresettings.metal3.io", discovered())
				f.AddDefinition("metal3datas.infrastructure.cluster.x-k8s.io", discovered())
				f.Secrets["host-bmc"] = movesBy(metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
					{APIVersion: "metal3.io/v1alpha1", Kind: "HostFirmwareSettings", Name: "host"},
					{APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Data", Name: "data"},
				}})
			}, nil, false,
		},
		"WithoutLabel": {
			"a missing label of BMO is one obstacle, not one more for each object of the kind", func(f *pivot.MoveFacts) {
				f.AddDefinition("firmwareschemas.metal3.io", nil)
				f.Secrets["host-bmc"] = movesBy(metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
					{APIVersion: "metal3.io/v1alpha1", Kind: "FirmwareSchema", Name: "schema"},
				}})
			}, []string{
				"CustomResourceDefinition firmwareschemas.metal3.io: clusterctl.cluster.x-k8s.io is missing: set this label, or run " +
					"the manager with --keep-move-labels",
			}, false,
		},
		"Above": {
			"a Cluster or Machine does not move without its owner, nor do its dependents", func(f *pivot.MoveFacts) {
				cluster, machine := build.Cluster("c", build.InfrastructureReady()), build.Machine("m", "c")
				meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{
					Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized",
				})
				machine.Status.NodeRef.Name = "node"
				cluster.OwnerReferences = []metav1.OwnerReference{stranger}
				machine.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "keeper"}}
				f.Clusters, f.Machines = []*clusterv1.Cluster{cluster}, []*clusterv1.Machine{machine}
			}, []string{
				"Cluster c" + sealed, "Machine m is owned by ConfigMap keeper, which does not move: remove the owner reference",
			}, false,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			facts := pivot.MoveFacts{
				Hosts:   []*bmov1alpha1.BareMetalHost{build.Host("host")},
				Secrets: map[string]*metav1.PartialObjectMetadata{"host-bmc": owned},
			}
			install(&facts)
			tc.edit(&facts)
			if diff := cmp.Diff(tc.want, texts(pivot.Obstacles(facts))); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if got := pivot.SecretsMove(facts); got == tc.unmoved {
				t.Errorf("%s: it says %v of all Secrets", tc.reason, got)
			}
		})
	}
}
