package v1beta1_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta1"
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Limits of the API server for the cost of validation rules.
const (
	costPerCall  = 1_000_000
	costTogether = 10_000_000
)

// unknownField starts the error for a field that is not in the schema.
const unknownField = "unknown field "

// definition is the schema of one version of a kind.
type definition struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
}

// definitions returns the versions of a kind by name.
func definitions(t *testing.T, kind string) map[string]definition {
	t.Helper()
	plural := strings.ToLower(kind) + "s"
	path := filepath.Join("..", "..", "config", "crd", "bases", "infrastructure.cluster.x-k8s.io_"+plural+".yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("reading the definition of %s: %v", kind, err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		t.Fatalf("reading %s: %v", path, err)
	}
	versions := map[string]definition{}
	for _, version := range crd.Spec.Versions {
		versions[version.Name] = newDefinition(t, version)
	}
	for _, name := range []string{"v1beta1", "v1beta2"} {
		if _, found := versions[name]; !found {
			t.Fatalf("%s has no version %s: generate the definitions again", path, name)
		}
	}
	return versions
}

func newDefinition(t *testing.T, version apiextensionsv1.CustomResourceDefinitionVersion) definition {
	t.Helper()
	var internal apiextensions.JSONSchemaProps
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		version.Schema.OpenAPIV3Schema, &internal, nil)
	if err != nil {
		t.Fatalf("converting the schema of %s: %v", version.Name, err)
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		t.Fatalf("reading the schema of %s: %v", version.Name, err)
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		t.Fatalf("creating a validator for %s: %v", version.Name, err)
	}
	return definition{
		structural: structural, validator: validator, rules: cel.NewValidator(structural, true, costPerCall),
	}
}

// admit processes an object like the API server with strict field validation: it rejects unknown fields, sets defaults,
// and validates. It returns the object with its defaults, and the problems.
func (d definition) admit(t *testing.T, fields map[string]any) (map[string]any, []string) {
	t.Helper()
	fields = unstructuredOf(t, fields)
	var problems []string
	unknown := pruning.PruneWithOptions(fields, d.structural, true,
		schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range unknown {
		problems = append(problems, unknownField+path)
	}
	defaulting.Default(fields, d.structural)
	errs := validation.ValidateCustomResource(nil, fields, d.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, fields)...)
	violated, _ := d.rules.Validate(t.Context(), nil, d.structural, fields, nil, costTogether)
	for _, err := range append(errs, violated...) {
		problems = append(problems, err.Error())
	}
	return fields, problems
}

// accepted fails the test if a version does not accept an object.
func (d definition) accepted(t *testing.T, object client.Object) map[string]any {
	t.Helper()
	fields, problems := d.admit(t, unstructuredOf(t, object))
	for _, problem := range problems {
		t.Errorf("%s is rejected: %s", object.GetObjectKind().GroupVersionKind(), problem)
	}
	return fields
}

// TestV1Beta2AcceptsWhatV1Beta1Accepted converts the extremes of v1beta1. A controller that reads such an object must
// be able to write it.
func TestV1Beta2AcceptsWhatV1Beta1Accepted(t *testing.T) {
	long := strings.Repeat("x", 600)
	network := func(data v1beta1.NetworkData) client.Object {
		return &v1beta1.Metal3DataTemplate{Spec: v1beta1.Metal3DataTemplateSpec{NetworkData: &data}}
	}
	manyIndexes := map[string]int{}
	for index := range 600 {
		manyIndexes["claim-"+strconv.Itoa(index)] = index
	}
	cases := map[string]struct {
		reason string
		kind   string
		spoke  client.Object
	}{
		"BondWithoutParameters": {
			reason: "A bond requires no parameters.",
			kind:   "Metal3DataTemplate",
			spoke: network(v1beta1.NetworkData{Links: v1beta1.NetworkLinks{Bonds: []v1beta1.BondLink{
				{ID: "bond0", BondMode: "802.3ad", BondLinks: []string{"a", "a"}},
			}}}),
		},
		"BondWithAnyParameters": {
			reason: "A parameter of a bond is any JSON value, also null.",
			kind:   "Metal3DataTemplate",
			spoke: network(v1beta1.NetworkData{Links: v1beta1.NetworkLinks{Bonds: []v1beta1.BondLink{
				{ID: "bond0", BondMode: "balance-rr", Parameters: map[string]apiextensionsv1.JSON{
					"miimon": {Raw: []byte(`100`)}, "text": {Raw: []byte(`"fast"`)}, "list": {Raw: []byte(`[1,"a"]`)},
					"map": {Raw: []byte(`{"z":{"y":null},"a":1.5}`)}, "nothing": {}, "": {Raw: []byte(`false`)},
				}},
			}}}),
		},
		"TwoVlansWithOneID": {
			reason: "One VLAN may be on several links.",
			kind:   "Metal3DataTemplate",
			spoke: network(v1beta1.NetworkData{Links: v1beta1.NetworkLinks{Vlans: []v1beta1.VlanLink{
				{ID: "a", VlanID: 7, VlanLink: "eth0"}, {ID: "b", VlanID: 7, VlanLink: "eth1"}, {ID: "c", VlanID: -7},
			}}}),
		},
		"TwoRoutesToOneNetwork": {
			reason: "Several routes may have one destination.",
			kind:   "Metal3DataTemplate",
			spoke: network(v1beta1.NetworkData{Networks: v1beta1.NetworkAddresses{IPv4: []v1beta1.StaticNetwork{
				{ID: "a", Link: "eth0", Routes: []v1beta1.NetworkRoute{
					{Network: "0.0.0.0", Prefix: ptr.To(0), Gateway: v1beta1.NetworkGateway{String: ptr.To("10.0.0.1")}},
					{Network: "0.0.0.0", Prefix: ptr.To(-1), Gateway: v1beta1.NetworkGateway{FromIPPool: ptr.To("b")}},
				}},
			}}}),
		},
		"LinksAndNetworksWithOneName": {
			reason: "v1beta1 does not require unique IDs.",
			kind:   "Metal3DataTemplate",
			spoke:  network(oneIDTwice()),
		},
		"MetaDataWithOneKey": {
			reason: "v1beta1 does not require unique keys.",
			kind:   "Metal3DataTemplate",
			spoke: &v1beta1.Metal3DataTemplate{Spec: v1beta1.Metal3DataTemplateSpec{MetaData: &v1beta1.MetaData{
				Strings:            []v1beta1.MetaDataString{{Key: "a", Value: "1"}, {Key: "a", Value: "2"}},
				ObjectNames:        []v1beta1.MetaDataObjectName{{Key: "a", Object: "machine"}, {Key: "a", Object: "machine"}},
				Indexes:            []v1beta1.MetaDataIndex{{Key: "a", Offset: math.MaxInt}, {Key: "a", Step: math.MinInt}},
				Namespaces:         []v1beta1.MetaDataNamespace{{Key: "a"}, {Key: "a"}},
				FromHostInterfaces: []v1beta1.MetaDataHostInterface{{Key: "a", Interface: "b"}, {Key: "a"}},
				PrefixesFromPool:   []v1beta1.FromPool{{Key: "a", Name: "b"}, {Key: "a", Name: "c"}},
			}}},
		},
		"ManyIndexes": {
			reason: "A template may serve more than 512 machines.",
			kind:   "Metal3DataTemplate",
			spoke:  &v1beta1.Metal3DataTemplate{Status: v1beta1.Metal3DataTemplateStatus{Indexes: manyIndexes}},
		},
		"OddIndexes": {
			reason: "v1beta1 does not require unique or valid indexes.",
			kind:   "Metal3DataTemplate",
			spoke: &v1beta1.Metal3DataTemplate{Status: v1beta1.Metal3DataTemplateStatus{Indexes: map[string]int{
				"a": 1, "b": 1, "c": -1, "d": math.MaxInt, "": 2,
			}}},
		},
		"OddCluster": {
			reason: "v1beta1 has no limits on the endpoint and on failure domains.",
			kind:   "Metal3Cluster",
			spoke: &v1beta1.Metal3Cluster{
				Spec: v1beta1.Metal3ClusterSpec{
					ControlPlaneEndpoint: v1beta1.APIEndpoint{Host: long, Port: 70000},
					FailureDomains: clusterv1beta1.FailureDomains{
						"": {}, long + "a": {ControlPlane: true}, long + "b": {}, "a": {Attributes: map[string]string{"": ""}},
					},
				},
				Status: v1beta1.Metal3ClusterStatus{
					FailureDomains: clusterv1beta1.FailureDomains{"": {ControlPlane: true}}, FailureReason: ptr.To(""),
				},
			},
		},
		"EndpointWithoutPort": {
			reason: "v1beta1 accepts a host without a port, and an empty endpoint.",
			kind:   "Metal3ClusterTemplate",
			spoke: &v1beta1.Metal3ClusterTemplate{Spec: v1beta1.Metal3ClusterTemplateSpec{
				Template: v1beta1.Metal3ClusterTemplateResource{Spec: v1beta1.Metal3ClusterSpec{
					ControlPlaneEndpoint: v1beta1.APIEndpoint{Host: "a", Port: -1},
				}},
			}},
		},
		"EmptyTemplate": {
			reason: "Every field of a cluster is optional.",
			kind:   "Metal3ClusterTemplate",
			spoke:  &v1beta1.Metal3ClusterTemplate{},
		},
		"OddMachine": {
			reason: "v1beta1 has no limits on names, and accepts references without a name.",
			kind:   "Metal3Machine",
			spoke: &v1beta1.Metal3Machine{
				Spec: v1beta1.Metal3MachineSpec{
					ProviderID: ptr.To(long), FailureDomain: ptr.To(long), Image: v1beta1.Image{Checksum: "a"},
					DataTemplate: &corev1.ObjectReference{Name: long, Namespace: long},
					HostSelector: v1beta1.HostSelector{MatchExpressions: []v1beta1.HostSelectorRequirement{
						{Key: "a", Operator: "Exists"}, {Key: "a", Operator: "In", Values: []string{"b", "b"}},
					}},
				},
				Status: v1beta1.Metal3MachineStatus{Phase: "odd", RenderedData: &corev1.ObjectReference{Kind: "a"}},
			},
		},
		"OddMachineTemplate": {
			reason: "A template has the same spec as a machine.",
			kind:   "Metal3MachineTemplate",
			spoke: &v1beta1.Metal3MachineTemplate{Spec: v1beta1.Metal3MachineTemplateSpec{
				Template: v1beta1.Metal3MachineTemplateResource{Spec: v1beta1.Metal3MachineSpec{
					DataTemplate: &corev1.ObjectReference{}, UserData: &corev1.SecretReference{},
				}},
			}},
		},
		"OddData": {
			reason: "v1beta1 accepts references without a name, and any index.",
			kind:   "Metal3Data",
			spoke: &v1beta1.Metal3Data{
				Spec:   v1beta1.Metal3DataSpec{Index: -1, Claim: &corev1.ObjectReference{}, TemplateReference: "a"},
				Status: v1beta1.Metal3DataStatus{ErrorMessage: ptr.To("")},
			},
		},
		"OddDataClaim": {
			reason: "v1beta1 accepts references without a name.",
			kind:   "Metal3DataClaim",
			spoke: &v1beta1.Metal3DataClaim{
				Spec:   v1beta1.Metal3DataClaimSpec{Template: &corev1.ObjectReference{Namespace: "a"}},
				Status: v1beta1.Metal3DataClaimStatus{RenderedData: &corev1.ObjectReference{UID: "a"}},
			},
		},
		"OddRemediation": {
			reason: "v1beta1 has no limits on numbers and on the phase.",
			kind:   "Metal3Remediation",
			spoke: &v1beta1.Metal3Remediation{
				Spec: v1beta1.Metal3RemediationSpec{Strategy: &v1beta1.RemediationStrategy{
					RetryLimit: math.MaxInt, Timeout: &metav1.Duration{Duration: math.MaxInt64},
				}},
				Status: v1beta1.Metal3RemediationStatus{Phase: "odd", RetryCount: math.MinInt},
			},
		},
		"OddRemediationTemplate": {
			reason: "A template has the same spec as a remediation.",
			kind:   "Metal3RemediationTemplate",
			spoke: &v1beta1.Metal3RemediationTemplate{
				Spec: v1beta1.Metal3RemediationTemplateSpec{Template: v1beta1.Metal3RemediationTemplateResource{
					Spec: v1beta1.Metal3RemediationSpec{Strategy: &v1beta1.RemediationStrategy{
						Timeout: &metav1.Duration{Duration: -time.Nanosecond},
					}},
				}},
				Status: v1beta1.Metal3RemediationTemplateStatus{Status: v1beta1.Metal3RemediationStatus{Phase: "odd"}},
			},
		},
	}
	kinds := kinds(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kind, definitions := kinds[tc.kind], definitions(t, tc.kind)
			// An API server sets defaults before the conversion.
			written := definitions["v1beta1"].accepted(t, transcribe(t, tc.spoke, kind.spoke()))
			spoke := transcribe(t, written, kind.spoke())
			hub := kind.toHub(t, spoke)
			stored := transcribe(t, definitions["v1beta2"].accepted(t, hub), kind.hub())
			if diff := cmp.Diff(spoke, kind.toSpoke(t, stored)); diff != "" {
				t.Errorf("%s\nThe stored object differs (-written +read):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestV1Beta1AcceptsWhatV1Beta2Holds converts the extremes of v1beta2. A client that reads such an object must be
// able to write it.
func TestV1Beta1AcceptsWhatV1Beta2Holds(t *testing.T) {
	cases := map[string]struct {
		reason string
		kind   string
		hub    client.Object
	}{
		"Image": {
			reason: "v1beta2 has an additional checksum type, and selectors without values.",
			kind:   "Metal3Machine",
			hub: &infrav1.Metal3Machine{Spec: infrav1.Metal3MachineSpec{
				Image: &infrav1.Image{ChecksumType: "auto"},
				HostSelector: infrav1.HostSelector{MatchExpressions: []infrav1.HostSelectorRequirement{
					{Key: "a", Operator: "Exists"},
				}},
				FailureDomainPolicy: infrav1.FailureDomainStrict,
			}},
		},
		"Cluster": {
			reason: "v1beta2 accepts an endpoint without a port, and an Ironic endpoint.",
			kind:   "Metal3Cluster",
			hub: &infrav1.Metal3Cluster{
				Spec: infrav1.Metal3ClusterSpec{
					ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "a"}, Ironic: ironic(),
				},
				Status: infrav1.Metal3ClusterStatus{
					Initialization: infrav1.InitializationStatus{Provisioned: ptr.To(false)},
				},
			},
		},
		"DataTemplate": {
			reason: "v1beta2 requires no cluster, no MAC address and no kind of a pool.",
			kind:   "Metal3DataTemplate",
			hub: &infrav1.Metal3DataTemplate{Spec: infrav1.Metal3DataTemplateSpec{
				MetaData: &infrav1.MetaData{DNSServersFromPool: []infrav1.FromPool{{Key: "a", Name: "b"}}},
				NetworkData: &infrav1.NetworkData{
					Links: infrav1.NetworkLinks{
						Ethernets: []infrav1.EthernetLink{{ID: "a", Type: "phy"}},
						Bonds:     []infrav1.BondLink{{ID: "b", BondMode: "802.3ad"}},
						Vlans:     []infrav1.VlanLink{{ID: "c"}},
					},
					Networks: infrav1.NetworkAddresses{IPv6: []infrav1.StaticNetwork{
						{ID: "a", Link: "a", FromPoolRef: &infrav1.PoolRef{Name: "b"}, Routes: []infrav1.NetworkRoute{
							{Network: "not an address", Prefix: ptr.To[int32](128)},
						}},
					}},
				},
			}},
		},
		"Data": {
			reason: "v1beta2 requires neither a claim nor a template.",
			kind:   "Metal3Data",
			hub:    &infrav1.Metal3Data{},
		},
		"DataClaim": {
			reason: "v1beta2 requires no template.",
			kind:   "Metal3DataClaim",
			hub:    &infrav1.Metal3DataClaim{},
		},
		"RemediationTemplate": {
			reason: "v1beta2 requires no status inside the status.",
			kind:   "Metal3RemediationTemplate",
			hub: &infrav1.Metal3RemediationTemplate{Status: infrav1.Metal3RemediationTemplateStatus{
				Status: &infrav1.Metal3RemediationStatus{},
			}},
		},
	}
	kinds := kinds(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kind, definitions := kinds[tc.kind], definitions(t, tc.kind)
			stored := definitions["v1beta2"].accepted(t, transcribe(t, tc.hub, kind.hub()))
			hub := transcribe(t, stored, kind.hub())
			read := definitions["v1beta1"].accepted(t, kind.toSpoke(t, hub))
			if diff := cmp.Diff(hub, kind.toHub(t, transcribe(t, read, kind.spoke()))); diff != "" {
				t.Errorf("%s\nThe object changed (-before +after):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestSchemaOfTheIronicEndpoint has values of spec.ironic that the schema rejects without a webhook.
func TestSchemaOfTheIronicEndpoint(t *testing.T) {
	endpoint := func(ways ...any) string {
		return fmt.Sprintf(`{"virtualIPs":["172.22.0.2"],"cidrs":["172.22.0.0/24"]%s}`, fmt.Sprint(ways...))
	}
	overrides := func(containers string) string {
		return fmt.Sprintf(`{"endpoint":%s,"overrides":{"containers":[%s]}}`, endpoint(`,"interface":"eth0"`), containers)
	}
	const name, mac, cidr = `,"interface":"eth0"`, `,"macAddresses":["52:54:00:00:00:0A"]`, `,"interfaceCIDR":"172.22.0.0/24"`
	const ways = "set at most one of interface, macAddresses and interfaceCIDR"
	for what, test := range map[string]struct {
		reason, ironic, want string
	}{
		"name": {reason: "only the name is set", ironic: `{"endpoint":` + endpoint(name) + `}`},
		"MAC":  {reason: "upper case is accepted", ironic: `{"endpoint":` + endpoint(mac) + `}`},
		"CIDR": {reason: "only the network is set", ironic: `{"endpoint":` + endpoint(cidr) + `}`},
		"name and MAC": {
			reason: "the values may select two interfaces", ironic: `{"endpoint":` + endpoint(name, mac) + `}`, want: ways},
		"name and CIDR": {
			reason: "the values may select two interfaces", ironic: `{"endpoint":` + endpoint(name, cidr) + `}`, want: ways},
		"MAC and CIDR": {
			reason: "the values may select two interfaces", ironic: `{"endpoint":` + endpoint(mac, cidr) + `}`, want: ways},
		"no MACs": {
			reason: "no interface matches", ironic: `{"endpoint":` + endpoint(`,"macAddresses":[]`) + `}`, want: "at least 1 items"},
		"half a MAC": {
			reason: "no interface matches", ironic: `{"endpoint":` + endpoint(`,"macAddresses":["52:54:00"]`) + `}`,
			want: "macAddresses[0]"},

		"requests and limits": {reason: "all units are accepted", ironic: overrides(`{"name":"ironic","resources":{
			"requests":{"cpu":1,"memory":"1Gi"},"limits":{"cpu":"2500m","memory":"2e9"}}}`)},
		"all containers": {reason: "each container can be overridden", ironic: overrides(`{"name":"guard"},{"name":"ironic"},
			{"name":"httpd"},{"name":"ramdisk-logs"},{"name":"download"},{"name":"exporter"},{"name":"dnsmasq"}`)},
		"container of the provider": {
			reason: "users cannot override prepare", ironic: overrides(`{"name":"prepare"}`), want: "containers[0].name: Unsupported"},
		"container twice": {
			reason: "the override is ambiguous", ironic: overrides(`{"name":"ironic"},{"name":"ironic"}`), want: "containers[1]: Duplicate"},
		"container without a name": {
			reason: "the container is unknown", ironic: overrides(`{"resources":{"limits":{"cpu":1}}}`), want: "containers[0].name: Required"},
		"storage": {
			reason: "only CPU and memory are supported", want: "ephemeral-storage",
			ironic: overrides(`{"name":"ironic","resources":{"limits":{"ephemeral-storage":"1Gi"}}}`)},
		"not an amount": {
			reason: "the kubelet would reject the pod", want: "resources.limits.memory",
			ironic: overrides(`{"name":"ironic","resources":{"limits":{"memory":"much"}}}`)},
		"image of a container": {
			reason: "spec.ironic.images sets images", want: unknownField + "spec.ironic.overrides.containers[0].image",
			ironic: overrides(`{"name":"ironic","image":"ironic:v1"}`)},
		"variables of a container": {
			reason: "spec.ironic.extraConfig sets options", want: unknownField + "spec.ironic.overrides.containers[0].env",
			ironic: overrides(`{"name":"ironic","env":[]}`)},
	} {
		t.Run(what, func(t *testing.T) {
			var ironic map[string]any
			if err := yaml.Unmarshal([]byte(test.ironic), &ironic); err != nil {
				t.Fatal(err)
			}
			_, problems := definitions(t, "Metal3Cluster")["v1beta2"].admit(t, map[string]any{
				"apiVersion": infrav1.GroupVersion.String(), "kind": "Metal3Cluster",
				"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"ironic": ironic},
			})
			if (len(problems) > 0) != (test.want != "") || !strings.Contains(strings.Join(problems, "\n"), test.want) {
				t.Errorf("%s: got %q, want %q", test.reason, problems, test.want)
			}
		})
	}
}

// ironic returns an Ironic endpoint, which only v1beta2 has.
func ironic() *infrav1.Ironic {
	return &infrav1.Ironic{
		ClusterID: "0a1b2c3d",
		Endpoint: infrav1.IronicEndpoint{
			VirtualIPs: []string{"172.22.0.2"}, CIDRs: []string{"172.22.0.0/24"}, Interface: "provisioning",
		},
		ManifestsDirectory: "/var/lib/rancher/rke2/agent/pod-manifests",
		Kubelet: &infrav1.IronicKubelet{
			Kubeconfig:            "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
			CredentialFiles:       []string{"/var/lib/rancher/rke2/agent/client-kubelet.crt"},
			CredentialDirectories: []string{"/var/lib/kubelet/pki"},
		},
	}
}
