package v1beta1_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta1"
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// rule is one rule of the conversion from one version.
type rule struct {
	reason     string
	kind       string
	spoke, hub client.Object
	// saved is true if the other version cannot express all fields, so that they are saved in an annotation.
	saved bool
}

// TestToHub compares the conversion to v1beta2, and expects the same v1beta1 object after the conversion back.
func TestToHub(t *testing.T) {
	kinds := kinds(t)
	tables := []map[string]rule{clusterRulesToHub(), machineRulesToHub(), dataRulesToHub(), otherRulesToHub()}
	for _, table := range tables {
		for name, tc := range table {
			t.Run(tc.kind+"/"+name, func(t *testing.T) {
				kind := kinds[tc.kind]
				spoke, want := transcribe(t, tc.spoke, kind.spoke()), transcribe(t, tc.hub, kind.hub())
				hub := kind.toHub(t, spoke)
				if diff := cmp.Diff(spoke, kind.toSpoke(t, hub)); diff != "" {
					t.Errorf("%s\nThe object changed (-before +after):\n%s", tc.reason, diff)
				}
				if _, kept := hub.GetAnnotations()[v1beta1.DataAnnotation]; kept != tc.saved {
					t.Errorf("%s\nThe annotation exists: %t, want %t", tc.reason, kept, tc.saved)
				}
				hub.SetAnnotations(nil)
				if diff := cmp.Diff(want, hub); diff != "" {
					t.Errorf("%s\nv1beta2 (-want +got):\n%s", tc.reason, diff)
				}
			})
		}
	}
}

// TestToSpoke compares the conversion to v1beta1, and expects the same v1beta2 object after the conversion back.
func TestToSpoke(t *testing.T) {
	kinds := kinds(t)
	for name, tc := range rulesToSpoke() {
		t.Run(tc.kind+"/"+name, func(t *testing.T) {
			kind := kinds[tc.kind]
			hub, want := transcribe(t, tc.hub, kind.hub()), transcribe(t, tc.spoke, kind.spoke())
			spoke := kind.toSpoke(t, hub)
			if diff := cmp.Diff(hub, kind.toHub(t, spoke)); diff != "" {
				t.Errorf("%s\nThe object changed (-before +after):\n%s", tc.reason, diff)
			}
			if _, kept := spoke.GetAnnotations()[conversion.DataAnnotation]; kept != tc.saved {
				t.Errorf("%s\nThe annotation exists: %t, want %t", tc.reason, kept, tc.saved)
			}
			spoke.SetAnnotations(nil)
			if diff := cmp.Diff(want, spoke); diff != "" {
				t.Errorf("%s\nv1beta1 (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// noon is a time without fractions of a second, as all times in JSON.
func noon() metav1.Time { return metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC).Local()) }

func clusterSpec(spec v1beta1.Metal3ClusterSpec) *v1beta1.Metal3Cluster {
	return &v1beta1.Metal3Cluster{Spec: spec}
}

func hubClusterSpec(spec infrav1.Metal3ClusterSpec) *infrav1.Metal3Cluster {
	return &infrav1.Metal3Cluster{Spec: spec}
}

func clusterRulesToHub() map[string]rule {
	return map[string]rule{
		"CloudProvider": {
			reason: "The newer field applies.",
			kind:   "Metal3Cluster",
			spoke:  clusterSpec(v1beta1.Metal3ClusterSpec{CloudProviderEnabled: ptr.To(true)}),
			hub:    hubClusterSpec(infrav1.Metal3ClusterSpec{CloudProviderEnabled: ptr.To(true)}),
		},
		"NoCloudProvider": {
			reason: "The older field means the opposite of the newer one.",
			kind:   "Metal3Cluster",
			spoke:  clusterSpec(v1beta1.Metal3ClusterSpec{NoCloudProvider: ptr.To(true)}),
			hub:    hubClusterSpec(infrav1.Metal3ClusterSpec{CloudProviderEnabled: ptr.To(false)}),
			saved:  true,
		},
		"NotNoCloudProvider": {
			reason: "An expected cloud provider must not be lost.",
			kind:   "Metal3Cluster",
			spoke:  clusterSpec(v1beta1.Metal3ClusterSpec{NoCloudProvider: ptr.To(false)}),
			hub:    hubClusterSpec(infrav1.Metal3ClusterSpec{CloudProviderEnabled: ptr.To(true)}),
			saved:  true,
		},
		"BothCloudProviderFields": {
			reason: "The newer field has precedence.",
			kind:   "Metal3Cluster",
			spoke: clusterSpec(v1beta1.Metal3ClusterSpec{
				NoCloudProvider: ptr.To(true), CloudProviderEnabled: ptr.To(true),
			}),
			hub:   hubClusterSpec(infrav1.Metal3ClusterSpec{CloudProviderEnabled: ptr.To(true)}),
			saved: true,
		},
		"EndpointAndFailureDomains": {
			reason: "Failure domains become a list in the order of their names.",
			kind:   "Metal3Cluster",
			spoke: clusterSpec(v1beta1.Metal3ClusterSpec{
				ControlPlaneEndpoint: v1beta1.APIEndpoint{Host: "192.168.111.249", Port: 6443},
				FailureDomains: clusterv1beta1.FailureDomains{
					"b": {ControlPlane: true}, "a": {Attributes: map[string]string{"rack": "1"}},
				},
			}),
			hub: hubClusterSpec(infrav1.Metal3ClusterSpec{
				ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "192.168.111.249", Port: 6443},
				FailureDomains: []clusterv1.FailureDomain{
					{Name: "a", Attributes: map[string]string{"rack": "1"}}, {Name: "b", ControlPlane: ptr.To(true)},
				},
			}),
		},
		"PortOutOfRange": {
			reason: "An invalid port is dropped.",
			kind:   "Metal3Cluster",
			spoke:  clusterSpec(v1beta1.Metal3ClusterSpec{ControlPlaneEndpoint: v1beta1.APIEndpoint{Host: "a", Port: 65536}}),
			hub:    hubClusterSpec(infrav1.Metal3ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "a"}}),
			saved:  true,
		},
		"Status": {
			reason: "Both formats of conditions are converted.",
			kind:   "Metal3Cluster",
			spoke: &v1beta1.Metal3Cluster{Status: v1beta1.Metal3ClusterStatus{
				LastUpdated: ptr.To(noon()), FailureReason: ptr.To("CreateError"), FailureMessage: ptr.To("no endpoint"),
				FailureDomains: clusterv1beta1.FailureDomains{"a": {}}, Ready: true,
				Conditions: clusterv1beta1.Conditions{{
					Type: "Ready", Status: "False", Severity: "Error", LastTransitionTime: noon(), Reason: "R", Message: "m",
				}},
				V1Beta2: &v1beta1.V1Beta2Status{Conditions: []metav1.Condition{
					{Type: "Ready", Status: "True", LastTransitionTime: noon(), Reason: "Ready"},
				}},
			}},
			hub: &infrav1.Metal3Cluster{Status: infrav1.Metal3ClusterStatus{
				Conditions: []metav1.Condition{
					{Type: "Ready", Status: "True", LastTransitionTime: noon(), Reason: "Ready"},
				},
				Initialization: infrav1.InitializationStatus{Provisioned: ptr.To(true)},
				FailureDomains: []clusterv1.FailureDomain{{Name: "a"}}, LastUpdated: ptr.To(noon()),
				Deprecated: &infrav1.DeprecatedStatus{V1Beta1: &infrav1.Metal3V1Beta1Status{
					Conditions: clusterv1.Conditions{{
						Type: "Ready", Status: "False", Severity: "Error", LastTransitionTime: noon(), Reason: "R", Message: "m",
					}},
					FailureReason: "CreateError", FailureMessage: "no endpoint",
				}},
			}},
		},
		"NotReady": {
			reason: "An object that is not ready sets no value: provisioned never returns to false.",
			kind:   "Metal3Cluster",
			spoke:  &v1beta1.Metal3Cluster{Status: v1beta1.Metal3ClusterStatus{LastUpdated: ptr.To(noon())}},
			hub:    &infrav1.Metal3Cluster{Status: infrav1.Metal3ClusterStatus{LastUpdated: ptr.To(noon())}},
		},
		"EmptyV1Beta2Status": {
			reason: "v1beta2 does not have a status without conditions.",
			kind:   "Metal3Cluster",
			spoke:  &v1beta1.Metal3Cluster{Status: v1beta1.Metal3ClusterStatus{V1Beta2: &v1beta1.V1Beta2Status{}}},
			hub:    &infrav1.Metal3Cluster{},
			saved:  true,
		},
		"Template": {
			reason: "A template has the same spec.",
			kind:   "Metal3ClusterTemplate",
			spoke: &v1beta1.Metal3ClusterTemplate{Spec: v1beta1.Metal3ClusterTemplateSpec{
				Template: v1beta1.Metal3ClusterTemplateResource{
					Spec: v1beta1.Metal3ClusterSpec{NoCloudProvider: ptr.To(false)},
				},
			}},
			hub: &infrav1.Metal3ClusterTemplate{Spec: infrav1.Metal3ClusterTemplateSpec{
				Template: infrav1.Metal3ClusterTemplateResource{
					Spec: infrav1.Metal3ClusterSpec{CloudProviderEnabled: ptr.To(true)},
				},
			}},
			saved: true,
		},
	}
}

func machineRulesToHub() map[string]rule {
	return map[string]rule{
		"Spec": {
			reason: "The format of the image has another name in v1beta2; references keep name and namespace.",
			kind:   "Metal3Machine",
			spoke: &v1beta1.Metal3Machine{Spec: v1beta1.Metal3MachineSpec{
				ProviderID: ptr.To("metal3://metal3/node-0/controlplane-0"),
				Image: v1beta1.Image{
					URL: "http://a/b", Checksum: "c", ChecksumType: ptr.To("sha256"), DiskFormat: ptr.To("raw"),
				},
				CustomDeploy: &v1beta1.CustomDeploy{Method: "install"},
				UserData:     &corev1.SecretReference{Name: "user"},
				HostSelector: v1beta1.HostSelector{
					MatchLabels: map[string]string{"key1": "value1"},
					MatchExpressions: []v1beta1.HostSelectorRequirement{
						{Key: "key2", Operator: "in", Values: []string{"abc", "123"}},
					},
				},
				DataTemplate: &corev1.ObjectReference{Name: "template", Namespace: "metal3"},
				MetaData:     &corev1.SecretReference{Name: "meta"}, NetworkData: &corev1.SecretReference{Name: "network"},
				AutomatedCleaningMode: ptr.To("metadata"), FailureDomain: ptr.To("a"),
			}},
			hub: &infrav1.Metal3Machine{Spec: infrav1.Metal3MachineSpec{
				ProviderID:   "metal3://metal3/node-0/controlplane-0",
				Image:        &infrav1.Image{URL: "http://a/b", Checksum: "c", ChecksumType: "sha256", DiskFormat: "raw"},
				CustomDeploy: &infrav1.CustomDeploy{Method: "install"},
				UserData:     &corev1.SecretReference{Name: "user"},
				DataTemplate: &infrav1.Metal3ObjectRef{Name: "template", Namespace: "metal3"},
				MetaData:     &corev1.SecretReference{Name: "meta"}, NetworkData: &corev1.SecretReference{Name: "network"},
				HostSelector: infrav1.HostSelector{
					MatchLabels: map[string]string{"key1": "value1"},
					MatchExpressions: []infrav1.HostSelectorRequirement{
						{Key: "key2", Operator: "in", Values: []string{"abc", "123"}},
					},
				},
				AutomatedCleaningMode: "metadata", FailureDomain: "a",
			}},
		},
		"NoImage": {
			reason: "An empty image is no image.",
			kind:   "Metal3Machine",
			spoke: &v1beta1.Metal3Machine{Spec: v1beta1.Metal3MachineSpec{
				CustomDeploy: &v1beta1.CustomDeploy{Method: "install"},
			}},
			hub: &infrav1.Metal3Machine{Spec: infrav1.Metal3MachineSpec{
				CustomDeploy: &infrav1.CustomDeploy{Method: "install"},
			}},
		},
		"Reference": {
			reason: "A reference of v1beta2 has no kind, version and UID.",
			kind:   "Metal3Machine",
			spoke: &v1beta1.Metal3Machine{Spec: v1beta1.Metal3MachineSpec{DataTemplate: &corev1.ObjectReference{
				APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3DataTemplate", Name: "a", UID: "b",
				FieldPath: "c", ResourceVersion: "1",
			}}},
			hub: &infrav1.Metal3Machine{Spec: infrav1.Metal3MachineSpec{
				DataTemplate: &infrav1.Metal3ObjectRef{Name: "a"},
			}},
			saved: true,
		},
		"EmptyTexts": {
			reason: "v1beta2 does not distinguish an empty string from none.",
			kind:   "Metal3Machine",
			spoke: &v1beta1.Metal3Machine{Spec: v1beta1.Metal3MachineSpec{
				ProviderID: ptr.To(""), FailureDomain: ptr.To(""),
			}},
			hub:   &infrav1.Metal3Machine{},
			saved: true,
		},
		"Status": {
			reason: "v1beta2 does not have the phase.",
			kind:   "Metal3Machine",
			spoke: &v1beta1.Metal3Machine{Status: v1beta1.Metal3MachineStatus{
				LastUpdated: ptr.To(noon()), FailureReason: ptr.To("a"), FailureMessage: ptr.To("b"), Phase: "Running",
				Ready: true, Addresses: clusterv1beta1.MachineAddresses{{Type: "InternalIP", Address: "10.0.0.1"}},
				UserData: &corev1.SecretReference{Name: "user"}, RenderedData: &corev1.ObjectReference{Name: "data"},
				MetaData: &corev1.SecretReference{Name: "meta"}, NetworkData: &corev1.SecretReference{Name: "network"},
				Conditions: clusterv1beta1.Conditions{{Type: "AssociateBMH", Status: "True", LastTransitionTime: noon()}},
				V1Beta2: &v1beta1.V1Beta2Status{Conditions: []metav1.Condition{
					{Type: "Ready", Status: "True", LastTransitionTime: noon(), Reason: "Ready", ObservedGeneration: 1 << 60},
				}},
			}},
			hub: &infrav1.Metal3Machine{Status: infrav1.Metal3MachineStatus{
				Conditions: []metav1.Condition{
					{Type: "Ready", Status: "True", LastTransitionTime: noon(), Reason: "Ready", ObservedGeneration: 1 << 60},
				},
				Initialization: infrav1.InitializationStatus{Provisioned: ptr.To(true)},
				Addresses:      []clusterv1.MachineAddress{{Type: "InternalIP", Address: "10.0.0.1"}},
				UserData:       &corev1.SecretReference{Name: "user"}, RenderedData: &infrav1.Metal3ObjectRef{Name: "data"},
				MetaData: &corev1.SecretReference{Name: "meta"}, NetworkData: &corev1.SecretReference{Name: "network"},
				LastUpdated: ptr.To(noon()),
				Deprecated: &infrav1.DeprecatedStatus{V1Beta1: &infrav1.Metal3V1Beta1Status{
					Conditions:    clusterv1.Conditions{{Type: "AssociateBMH", Status: "True", LastTransitionTime: noon()}},
					FailureReason: "a", FailureMessage: "b",
				}},
			}},
			saved: true,
		},
		"Template": {
			reason: "A template has the same spec.",
			kind:   "Metal3MachineTemplate",
			spoke: &v1beta1.Metal3MachineTemplate{Spec: v1beta1.Metal3MachineTemplateSpec{
				NodeReuse: true,
				Template: v1beta1.Metal3MachineTemplateResource{
					Spec: v1beta1.Metal3MachineSpec{Image: v1beta1.Image{URL: "http://a/b"}},
				},
			}},
			hub: &infrav1.Metal3MachineTemplate{Spec: infrav1.Metal3MachineTemplateSpec{
				NodeReuse: true,
				Template: infrav1.Metal3MachineTemplateResource{
					Spec: infrav1.Metal3MachineSpec{Image: &infrav1.Image{URL: "http://a/b"}},
				},
			}},
		},
	}
}

func dataRulesToHub() map[string]rule {
	return map[string]rule{
		"FirstIndex": {
			reason: "v1beta1 omits index 0, and v1beta2 distinguishes it from none.",
			kind:   "Metal3Data",
			spoke: &v1beta1.Metal3Data{
				Spec: v1beta1.Metal3DataSpec{
					Claim: &corev1.ObjectReference{Name: "a", Namespace: "b"}, Template: &corev1.ObjectReference{Name: "c"},
					MetaData: &corev1.SecretReference{Name: "d"}, NetworkData: &corev1.SecretReference{Name: "e"},
				},
				Status: v1beta1.Metal3DataStatus{Ready: true, ErrorMessage: ptr.To("f")},
			},
			hub: &infrav1.Metal3Data{
				Spec: infrav1.Metal3DataSpec{
					Index: ptr.To[int32](0),
					Claim: &infrav1.Metal3ObjectRef{Name: "a", Namespace: "b"}, Template: &infrav1.Metal3ObjectRef{Name: "c"},
					MetaData: &corev1.SecretReference{Name: "d"}, NetworkData: &corev1.SecretReference{Name: "e"},
				},
				Status: infrav1.Metal3DataStatus{Ready: ptr.To(true), ErrorMessage: "f"},
			},
		},
		"TemplateReference": {
			reason: "v1beta2 does not have the field.",
			kind:   "Metal3Data",
			spoke:  &v1beta1.Metal3Data{Spec: v1beta1.Metal3DataSpec{Index: 3, TemplateReference: "a"}},
			hub:    &infrav1.Metal3Data{Spec: infrav1.Metal3DataSpec{Index: ptr.To[int32](3)}},
			saved:  true,
		},
		"ReferenceToNothing": {
			reason: "A reference without a name refers to nothing.",
			kind:   "Metal3DataClaim",
			spoke: &v1beta1.Metal3DataClaim{
				Spec:   v1beta1.Metal3DataClaimSpec{Template: &corev1.ObjectReference{Kind: "Metal3DataTemplate"}},
				Status: v1beta1.Metal3DataClaimStatus{ErrorMessage: ptr.To("a")},
			},
			hub:   &infrav1.Metal3DataClaim{Status: infrav1.Metal3DataClaimStatus{ErrorMessage: "a"}},
			saved: true,
		},
		"Claim": {
			reason: "References keep name and namespace.",
			kind:   "Metal3DataClaim",
			spoke: &v1beta1.Metal3DataClaim{
				Spec:   v1beta1.Metal3DataClaimSpec{Template: &corev1.ObjectReference{Name: "a"}},
				Status: v1beta1.Metal3DataClaimStatus{RenderedData: &corev1.ObjectReference{Name: "b", Namespace: "c"}},
			},
			hub: &infrav1.Metal3DataClaim{
				Spec:   infrav1.Metal3DataClaimSpec{Template: &infrav1.Metal3ObjectRef{Name: "a"}},
				Status: infrav1.Metal3DataClaimStatus{RenderedData: &infrav1.Metal3ObjectRef{Name: "b", Namespace: "c"}},
			},
		},
		"Indexes": {
			reason: "Indexes become a list in their order.",
			kind:   "Metal3DataTemplate",
			spoke: &v1beta1.Metal3DataTemplate{
				Spec:   v1beta1.Metal3DataTemplateSpec{ClusterName: "test1"},
				Status: v1beta1.Metal3DataTemplateStatus{Indexes: map[string]int{"b": 2, "a": 10}},
			},
			hub: &infrav1.Metal3DataTemplate{
				Spec: infrav1.Metal3DataTemplateSpec{ClusterName: "test1"},
				Status: infrav1.Metal3DataTemplateStatus{
					Indexes: []infrav1.DataIndex{{Index: 2, Name: "b"}, {Index: 10, Name: "a"}},
				},
			},
		},
		"OneIndexTwice": {
			reason: "An index belongs to one claim: the last by name.",
			kind:   "Metal3DataTemplate",
			spoke: &v1beta1.Metal3DataTemplate{Status: v1beta1.Metal3DataTemplateStatus{
				Indexes: map[string]int{"b": 1, "a": 1, "c": 0},
			}},
			hub: &infrav1.Metal3DataTemplate{Status: infrav1.Metal3DataTemplateStatus{
				Indexes: []infrav1.DataIndex{{Index: 0, Name: "c"}, {Index: 1, Name: "b"}},
			}},
			saved: true,
		},
		"OneKeyTwice": {
			reason: "The later entry is rendered.",
			kind:   "Metal3DataTemplate",
			spoke: &v1beta1.Metal3DataTemplate{Spec: v1beta1.Metal3DataTemplateSpec{MetaData: &v1beta1.MetaData{
				Strings: []v1beta1.MetaDataString{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}, {Key: "a", Value: "3"}},
			}}},
			hub: &infrav1.Metal3DataTemplate{Spec: infrav1.Metal3DataTemplateSpec{MetaData: &infrav1.MetaData{
				Strings: []infrav1.MetaDataString{{Key: "b", Value: "2"}, {Key: "a", Value: "3"}},
			}}},
			saved: true,
		},
		"OneIDTwice": {
			reason: "All links and networks are rendered.",
			kind:   "Metal3DataTemplate",
			spoke:  &v1beta1.Metal3DataTemplate{Spec: v1beta1.Metal3DataTemplateSpec{NetworkData: ptr.To(oneIDTwice())}},
			hub: &infrav1.Metal3DataTemplate{Spec: infrav1.Metal3DataTemplateSpec{NetworkData: &infrav1.NetworkData{
				Links: infrav1.NetworkLinks{
					Ethernets: []infrav1.EthernetLink{{ID: "a", Type: "phy"}, {ID: "a", Type: "vif"}},
					Bonds:     []infrav1.BondLink{{ID: "a", BondMode: "802.3ad"}, {ID: "a", BondMode: "balance-rr"}},
					Vlans:     []infrav1.VlanLink{{ID: "a", VlanID: 1}, {ID: "a", VlanID: 2}},
				},
				Networks: infrav1.NetworkAddresses{
					IPv4:      []infrav1.StaticNetwork{{ID: "a"}, {ID: "a", Link: "b"}},
					IPv6:      []infrav1.StaticNetwork{{ID: "a"}, {ID: "a", Link: "b"}},
					IPv4DHCP:  []infrav1.DynamicNetwork{{ID: "a"}, {ID: "a", Link: "b"}},
					IPv6DHCP:  []infrav1.DynamicNetwork{{ID: "a"}, {ID: "a", Link: "b"}},
					IPv6SLAAC: []infrav1.DynamicNetwork{{ID: "a"}, {ID: "a", Link: "b"}},
				},
			}}},
		},
		"BondParameters": {
			reason: "Settings of a bond become a list in the order of their names; two VLANs may have one number.",
			kind:   "Metal3DataTemplate",
			spoke: &v1beta1.Metal3DataTemplate{Spec: v1beta1.Metal3DataTemplateSpec{NetworkData: &v1beta1.NetworkData{
				Links: v1beta1.NetworkLinks{
					Bonds: []v1beta1.BondLink{{
						ID: "a", BondMode: "802.3ad", BondXmitHashPolicy: "layer2", Name: "b", MTU: 9000, BondLinks: []string{"c"},
						MACAddress: &v1beta1.LinkMAC{String: ptr.To("d"), FromHostInterface: ptr.To("e")},
						Parameters: map[string]apiextensionsv1.JSON{"y": {Raw: []byte(`{"a":1}`)}, "x": {Raw: []byte(`5`)}},
					}},
					Vlans: []v1beta1.VlanLink{{ID: "f", VlanID: 7, VlanLink: "a"}, {ID: "g", VlanID: 7, VlanLink: "c"}},
				},
			}}},
			hub: &infrav1.Metal3DataTemplate{Spec: infrav1.Metal3DataTemplateSpec{NetworkData: &infrav1.NetworkData{
				Links: infrav1.NetworkLinks{
					Bonds: []infrav1.BondLink{{
						ID: "a", BondMode: "802.3ad", BondXmitHashPolicy: "layer2", Name: "b", MTU: 9000, BondLinks: []string{"c"},
						MACAddress: &infrav1.LinkMAC{String: "d", FromHostInterface: "e"},
						Parameters: []infrav1.BondParameter{
							{Name: "x", Value: apiextensionsv1.JSON{Raw: []byte(`5`)}},
							{Name: "y", Value: apiextensionsv1.JSON{Raw: []byte(`{"a":1}`)}},
						},
					}},
					Vlans: []infrav1.VlanLink{{ID: "f", VlanID: 7, VlanLink: "a"}, {ID: "g", VlanID: 7, VlanLink: "c"}},
				},
			}}},
		},
	}
}

// oneIDTwice is network data with two entries of the same ID in each list.
func oneIDTwice() v1beta1.NetworkData {
	static := []v1beta1.StaticNetwork{{ID: "a"}, {ID: "a", Link: "b"}}
	dynamic := []v1beta1.DynamicNetwork{{ID: "a"}, {ID: "a", Link: "b"}}
	return v1beta1.NetworkData{
		Links: v1beta1.NetworkLinks{
			Ethernets: []v1beta1.EthernetLink{{ID: "a", Type: "phy"}, {ID: "a", Type: "vif"}},
			Bonds:     []v1beta1.BondLink{{ID: "a", BondMode: "802.3ad"}, {ID: "a", BondMode: "balance-rr"}},
			Vlans:     []v1beta1.VlanLink{{ID: "a", VlanID: 1}, {ID: "a", VlanID: 2}},
		},
		Networks: v1beta1.NetworkAddresses{
			IPv4: static, IPv6: static, IPv4DHCP: dynamic, IPv6DHCP: dynamic, IPv6SLAAC: dynamic,
		},
	}
}

func remediation(strategy *v1beta1.RemediationStrategy) *v1beta1.Metal3Remediation {
	return &v1beta1.Metal3Remediation{Spec: v1beta1.Metal3RemediationSpec{Strategy: strategy}}
}

func hubRemediation(strategy *infrav1.RemediationStrategy) *infrav1.Metal3Remediation {
	return &infrav1.Metal3Remediation{Spec: infrav1.Metal3RemediationSpec{Strategy: strategy}}
}

func remediationTemplate(strategy *v1beta1.RemediationStrategy) *v1beta1.Metal3RemediationTemplate {
	template := &v1beta1.Metal3RemediationTemplate{}
	template.Spec.Template.Spec.Strategy = strategy
	return template
}

func hubRemediationTemplate(strategy *infrav1.RemediationStrategy) *infrav1.Metal3RemediationTemplate {
	template := &infrav1.Metal3RemediationTemplate{}
	template.Spec.Template.Spec.Strategy = strategy
	return template
}

func timeout(duration time.Duration) *v1beta1.RemediationStrategy {
	return &v1beta1.RemediationStrategy{Timeout: &metav1.Duration{Duration: duration}}
}

func otherRulesToHub() map[string]rule {
	return map[string]rule{
		"Strategy": {
			reason: "A timeout is a number of seconds in v1beta2.",
			kind:   "Metal3Remediation",
			spoke: remediation(&v1beta1.RemediationStrategy{
				Type: "Reboot", RetryLimit: 2, Timeout: &metav1.Duration{Duration: 5 * time.Minute},
			}),
			hub: hubRemediation(&infrav1.RemediationStrategy{
				Type: "Reboot", RetryLimit: 2, TimeoutSeconds: ptr.To[int32](300),
			}),
		},
		"FractionOfASecond": {
			reason: "A timeout is never shorter than requested.",
			kind:   "Metal3Remediation",
			spoke:  remediation(timeout(100*time.Second + time.Nanosecond)),
			hub:    hubRemediation(&infrav1.RemediationStrategy{TimeoutSeconds: ptr.To[int32](101)}),
			saved:  true,
		},
		"Seconds": {
			reason: "Manifests for CAPM3 also have seconds in v1beta1.",
			kind:   "Metal3Remediation",
			spoke:  remediation(&v1beta1.RemediationStrategy{TimeoutSeconds: ptr.To[int32](300)}),
			hub:    hubRemediation(&infrav1.RemediationStrategy{TimeoutSeconds: ptr.To[int32](300)}),
			saved:  true,
		},
		"NegativeRetryLimit": {
			reason: "CAPM3 uses the default instead of a negative limit of a template.",
			kind:   "Metal3RemediationTemplate",
			spoke:  remediationTemplate(&v1beta1.RemediationStrategy{Type: "Reboot", RetryLimit: -1}),
			hub: hubRemediationTemplate(&infrav1.RemediationStrategy{
				Type: "Reboot", RetryLimit: infrav1.DefaultRemediationRetryLimit,
			}),
			saved: true,
		},
		"NegativeRetryLimitOfRemediation": {
			reason: "A MachineHealthCheck copies the limit of a template that was read as v1beta1.",
			kind:   "Metal3Remediation",
			spoke:  remediation(&v1beta1.RemediationStrategy{Type: "Reboot", RetryLimit: -1}),
			hub: hubRemediation(&infrav1.RemediationStrategy{
				Type: "Reboot", RetryLimit: infrav1.DefaultRemediationRetryLimit,
			}),
			saved: true,
		},
		"SecondsAndTimeout": {
			reason: "Seconds in a manifest have precedence over the timeout of the stored object.",
			kind:   "Metal3Remediation",
			spoke: remediation(&v1beta1.RemediationStrategy{
				TimeoutSeconds: ptr.To[int32](300), Timeout: &metav1.Duration{Duration: 10 * time.Minute},
			}),
			hub:   hubRemediation(&infrav1.RemediationStrategy{TimeoutSeconds: ptr.To[int32](300)}),
			saved: true,
		},
		"NoTimeout": {
			reason: "A timeout of zero is not the same as none.",
			kind:   "Metal3Remediation",
			spoke:  remediation(timeout(0)),
			hub:    hubRemediation(&infrav1.RemediationStrategy{TimeoutSeconds: ptr.To[int32](0)}),
		},
		"UnknownType": {
			reason: "Admission rejects the unknown type.",
			kind:   "Metal3Remediation",
			spoke:  remediation(&v1beta1.RemediationStrategy{Type: "Pray"}),
			hub:    hubRemediation(&infrav1.RemediationStrategy{Type: "Pray"}),
		},
		"Status": {
			reason: "A known phase is kept.",
			kind:   "Metal3Remediation",
			spoke: &v1beta1.Metal3Remediation{Status: v1beta1.Metal3RemediationStatus{
				Phase: "Deleting machine", RetryCount: 2, LastRemediated: ptr.To(noon()),
			}},
			hub: &infrav1.Metal3Remediation{Status: infrav1.Metal3RemediationStatus{
				Phase: infrav1.RemediationDeletingMachine, RetryCount: 2, LastRemediated: ptr.To(noon()),
			}},
		},
		"Template": {
			reason: "A template has the same spec, and its status has the same status.",
			kind:   "Metal3RemediationTemplate",
			spoke: &v1beta1.Metal3RemediationTemplate{
				Spec: v1beta1.Metal3RemediationTemplateSpec{Template: v1beta1.Metal3RemediationTemplateResource{
					Spec: v1beta1.Metal3RemediationSpec{Strategy: timeout(time.Minute)},
				}},
				Status: v1beta1.Metal3RemediationTemplateStatus{Status: v1beta1.Metal3RemediationStatus{RetryCount: 1}},
			},
			hub: &infrav1.Metal3RemediationTemplate{
				Spec: infrav1.Metal3RemediationTemplateSpec{Template: infrav1.Metal3RemediationTemplateResource{
					Spec: infrav1.Metal3RemediationSpec{
						Strategy: &infrav1.RemediationStrategy{TimeoutSeconds: ptr.To[int32](60)},
					},
				}},
				Status: infrav1.Metal3RemediationTemplateStatus{Status: &infrav1.Metal3RemediationStatus{RetryCount: 1}},
			},
		},
	}
}

func rulesToSpoke() map[string]rule {
	return map[string]rule{
		"Plain": {
			reason: "Fields of both versions require no annotation.",
			kind:   "Metal3Cluster",
			hub: &infrav1.Metal3Cluster{
				Spec:   infrav1.Metal3ClusterSpec{CloudProviderEnabled: ptr.To(false)},
				Status: infrav1.Metal3ClusterStatus{Initialization: infrav1.InitializationStatus{Provisioned: ptr.To(true)}},
			},
			spoke: &v1beta1.Metal3Cluster{
				Spec:   v1beta1.Metal3ClusterSpec{CloudProviderEnabled: ptr.To(false)},
				Status: v1beta1.Metal3ClusterStatus{Ready: true},
			},
		},
		"Ironic": {
			reason: "v1beta1 has no Ironic endpoint.",
			kind:   "Metal3Cluster",
			hub:    hubClusterSpec(infrav1.Metal3ClusterSpec{Ironic: ironic()}),
			spoke:  &v1beta1.Metal3Cluster{},
			saved:  true,
		},
		"TemplateMetadata": {
			reason: "A template of v1beta1 has no labels.",
			kind:   "Metal3ClusterTemplate",
			hub: &infrav1.Metal3ClusterTemplate{Spec: infrav1.Metal3ClusterTemplateSpec{
				Template: infrav1.Metal3ClusterTemplateResource{
					ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"a": "b"}},
				},
			}},
			spoke: &v1beta1.Metal3ClusterTemplate{},
			saved: true,
		},
		"FailureDomainPolicy": {
			reason: "v1beta1 has one policy only.",
			kind:   "Metal3Machine",
			hub: &infrav1.Metal3Machine{
				Spec:   infrav1.Metal3MachineSpec{FailureDomainPolicy: infrav1.FailureDomainStrict},
				Status: infrav1.Metal3MachineStatus{FailureDomain: "a"},
			},
			spoke: &v1beta1.Metal3Machine{},
			saved: true,
		},
		"TemplateStatus": {
			reason: "v1beta1 has no status of a machine template.",
			kind:   "Metal3MachineTemplate",
			hub: &infrav1.Metal3MachineTemplate{Status: infrav1.Metal3MachineTemplateStatus{
				NodeInfo: &infrav1.NodeInfo{Architecture: "amd64"},
			}},
			spoke: &v1beta1.Metal3MachineTemplate{},
			saved: true,
		},
		"NoIndex": {
			reason: "v1beta1 does not distinguish no index from index 0.",
			kind:   "Metal3Data",
			hub:    &infrav1.Metal3Data{Status: infrav1.Metal3DataStatus{Ready: ptr.To(false)}},
			spoke:  &v1beta1.Metal3Data{},
			saved:  true,
		},
		"ClaimConditions": {
			reason: "Claims of v1beta1 have no conditions.",
			kind:   "Metal3DataClaim",
			hub: &infrav1.Metal3DataClaim{Status: infrav1.Metal3DataClaimStatus{
				Conditions: []metav1.Condition{{Type: "Ready", Status: "True", LastTransitionTime: noon(), Reason: "Ready"}},
			}},
			spoke: &v1beta1.Metal3DataClaim{},
			saved: true,
		},
		"Unsorted": {
			reason: "A map has no order.",
			kind:   "Metal3DataTemplate",
			hub: &infrav1.Metal3DataTemplate{Status: infrav1.Metal3DataTemplateStatus{
				Indexes: []infrav1.DataIndex{{Index: 1, Name: "a"}, {Index: 0, Name: "b"}},
			}},
			spoke: &v1beta1.Metal3DataTemplate{Status: v1beta1.Metal3DataTemplateStatus{
				Indexes: map[string]int{"a": 1, "b": 0},
			}},
			saved: true,
		},
		"Timeout": {
			reason: "A timeout is a duration in v1beta1.",
			kind:   "Metal3Remediation",
			hub:    hubRemediation(&infrav1.RemediationStrategy{TimeoutSeconds: ptr.To[int32](600)}),
			spoke:  remediation(timeout(10 * time.Minute)),
		},
		"NoStatus": {
			reason: "v1beta1 does not distinguish an empty status from none.",
			kind:   "Metal3RemediationTemplate",
			hub: &infrav1.Metal3RemediationTemplate{Status: infrav1.Metal3RemediationTemplateStatus{
				Status: &infrav1.Metal3RemediationStatus{},
			}},
			spoke: &v1beta1.Metal3RemediationTemplate{},
			saved: true,
		},
	}
}
