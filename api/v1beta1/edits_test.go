package v1beta1_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conversion"

	"github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta1"
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// TestEditedSpoke edits in v1beta1 an object that has more fields in v1beta2.
func TestEditedSpoke(t *testing.T) {
	kind := kinds(t)["Metal3Cluster"]
	hub := func(change func(*infrav1.Metal3Cluster)) *infrav1.Metal3Cluster {
		cluster := &infrav1.Metal3Cluster{
			Spec: infrav1.Metal3ClusterSpec{
				ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "a", Port: 6443}, CloudProviderEnabled: ptr.To(true),
				FailureDomains: []clusterv1.FailureDomain{{Name: "b"}, {Name: "a", ControlPlane: ptr.To(false)}},
				Ironic:         ironic(),
			},
			Status: infrav1.Metal3ClusterStatus{
				Initialization: infrav1.InitializationStatus{Provisioned: ptr.To(false)},
				Ironic:         &infrav1.IronicStatus{Holder: &infrav1.IronicHolder{Name: "node-0"}},
			},
		}
		change(cluster)
		return is[*infrav1.Metal3Cluster](t, transcribe(t, cluster, kind.hub()))
	}
	cases := map[string]struct {
		reason string
		edit   func(*v1beta1.Metal3Cluster)
		want   *infrav1.Metal3Cluster
	}{
		"Nothing": {
			reason: "Without an edit, nothing changes.",
			edit:   func(*v1beta1.Metal3Cluster) {},
			want:   hub(func(*infrav1.Metal3Cluster) {}),
		},
		"Change": {
			reason: "The edited value has precedence, and other fields stay.",
			edit:   func(cluster *v1beta1.Metal3Cluster) { cluster.Spec.ControlPlaneEndpoint.Host = "b" },
			want:   hub(func(cluster *infrav1.Metal3Cluster) { cluster.Spec.ControlPlaneEndpoint.Host = "b" }),
		},
		"Removal": {
			reason: "A removed value stays removed.",
			edit: func(cluster *v1beta1.Metal3Cluster) {
				cluster.Spec.CloudProviderEnabled = nil
				cluster.Spec.FailureDomains = nil
			},
			want: hub(func(cluster *infrav1.Metal3Cluster) {
				cluster.Spec.CloudProviderEnabled = nil
				cluster.Spec.FailureDomains = nil
			}),
		},
		"List": {
			reason: "An edited list replaces the whole list.",
			edit: func(cluster *v1beta1.Metal3Cluster) {
				cluster.Spec.FailureDomains["c"] = clusterv1beta1.FailureDomainSpec{ControlPlane: true}
			},
			want: hub(func(cluster *infrav1.Metal3Cluster) {
				cluster.Spec.FailureDomains = []clusterv1.FailureDomain{
					{Name: "a"}, {Name: "b"}, {Name: "c", ControlPlane: ptr.To(true)},
				}
			}),
		},
		"Status": {
			reason: "Spec and status are independent.",
			edit:   func(cluster *v1beta1.Metal3Cluster) { cluster.Status.Ready = true },
			want: hub(func(cluster *infrav1.Metal3Cluster) {
				cluster.Status.Initialization.Provisioned = ptr.To(true)
			}),
		},
		"AnnotationGone": {
			reason: "Without the annotation, as after kubectl replace, its fields are lost.",
			edit:   func(cluster *v1beta1.Metal3Cluster) { cluster.Annotations = nil },
			want: hub(func(cluster *infrav1.Metal3Cluster) {
				cluster.Spec.Ironic = nil
				cluster.Spec.FailureDomains = []clusterv1.FailureDomain{{Name: "a"}, {Name: "b"}}
				cluster.Status = infrav1.Metal3ClusterStatus{}
			}),
		},
		"AnnotationUnreadable": {
			reason: "An object with an invalid annotation can still be read and repaired.",
			edit: func(cluster *v1beta1.Metal3Cluster) {
				cluster.Annotations[conversion.DataAnnotation] = `{"spec":{"ironic":"x"},"status":7`
			},
			want: hub(func(cluster *infrav1.Metal3Cluster) {
				cluster.Spec.Ironic = nil
				cluster.Spec.FailureDomains = []clusterv1.FailureDomain{{Name: "a"}, {Name: "b"}}
				cluster.Status = infrav1.Metal3ClusterStatus{}
			}),
		},
		"HalfOfAnnotationUnreadable": {
			reason: "The valid part of the annotation applies.",
			edit: func(cluster *v1beta1.Metal3Cluster) {
				cluster.Annotations[conversion.DataAnnotation] = `{"spec":{"ironic":"x"},"status":{"ironic":{}}}`
			},
			want: hub(func(cluster *infrav1.Metal3Cluster) {
				cluster.Spec.Ironic = nil
				cluster.Spec.FailureDomains = []clusterv1.FailureDomain{{Name: "a"}, {Name: "b"}}
				cluster.Status = infrav1.Metal3ClusterStatus{Ironic: &infrav1.IronicStatus{}}
			}),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spoke := is[*v1beta1.Metal3Cluster](t, kind.toSpoke(t, hub(func(*infrav1.Metal3Cluster) {})))
			tc.edit(spoke)
			got := kind.toHub(t, spoke)
			got.SetAnnotations(nil)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n(-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestEditedHub edits in v1beta2 an object that has more fields in v1beta1.
func TestEditedHub(t *testing.T) {
	kind := kinds(t)["Metal3Machine"]
	spoke := func(change func(*v1beta1.Metal3Machine)) *v1beta1.Metal3Machine {
		machine := &v1beta1.Metal3Machine{
			Spec: v1beta1.Metal3MachineSpec{
				Image:        v1beta1.Image{URL: "http://a"},
				DataTemplate: &corev1.ObjectReference{Kind: "Metal3DataTemplate", Name: "a", UID: "b"},
				HostSelector: v1beta1.HostSelector{MatchExpressions: []v1beta1.HostSelectorRequirement{
					{Key: "a", Operator: "Exists"},
				}},
			},
			Status: v1beta1.Metal3MachineStatus{
				Phase: "Running", Ready: true, RenderedData: &corev1.ObjectReference{Kind: "Metal3Data", Name: "c"},
			},
		}
		change(machine)
		return is[*v1beta1.Metal3Machine](t, transcribe(t, machine, kind.spoke()))
	}
	forgetSpec := func(machine *v1beta1.Metal3Machine) {
		machine.Spec.DataTemplate = &corev1.ObjectReference{Name: "a"}
	}
	forgetStatus := func(machine *v1beta1.Metal3Machine) {
		machine.Status.Phase = ""
		machine.Status.RenderedData = &corev1.ObjectReference{Name: "c"}
	}
	cases := map[string]struct {
		reason string
		edit   func(*infrav1.Metal3Machine)
		want   *v1beta1.Metal3Machine
	}{
		"Nothing": {
			reason: "Without an edit, nothing changes.",
			edit:   func(*infrav1.Metal3Machine) {},
			want:   spoke(func(*v1beta1.Metal3Machine) {}),
		},
		"Spec": {
			reason: "The saved spec may contradict the edit. The saved status applies.",
			edit:   func(machine *infrav1.Metal3Machine) { machine.Spec.Image.URL = "http://b" },
			want: spoke(func(machine *v1beta1.Metal3Machine) {
				machine.Spec.Image.URL = "http://b"
				forgetSpec(machine)
			}),
		},
		"Reference": {
			reason: "The saved UID belongs to another object.",
			edit:   func(machine *infrav1.Metal3Machine) { machine.Spec.DataTemplate.Name = "d" },
			want: spoke(func(machine *v1beta1.Metal3Machine) {
				machine.Spec.DataTemplate = &corev1.ObjectReference{Name: "d"}
			}),
		},
		"Removal": {
			reason: "A removed reference stays removed.",
			edit:   func(machine *infrav1.Metal3Machine) { machine.Spec.DataTemplate = nil },
			want:   spoke(func(machine *v1beta1.Metal3Machine) { machine.Spec.DataTemplate = nil }),
		},
		"Status": {
			reason: "The saved status may contradict the edit. The saved spec applies.",
			edit:   func(machine *infrav1.Metal3Machine) { machine.Status.RenderedData.Name = "d" },
			want: spoke(func(machine *v1beta1.Metal3Machine) {
				forgetStatus(machine)
				machine.Status.RenderedData.Name = "d"
			}),
		},
		"StatusGone": {
			reason: "A move drops the status. The saved status does not apply.",
			edit:   func(machine *infrav1.Metal3Machine) { machine.Status = infrav1.Metal3MachineStatus{} },
			want: spoke(func(machine *v1beta1.Metal3Machine) {
				machine.Status = v1beta1.Metal3MachineStatus{}
			}),
		},
		"LongerList": {
			reason: "An additional rule is an edit.",
			edit: func(machine *infrav1.Metal3Machine) {
				machine.Spec.HostSelector.MatchExpressions = append(machine.Spec.HostSelector.MatchExpressions,
					infrav1.HostSelectorRequirement{Key: "b", Operator: "Exists"})
			},
			want: spoke(func(machine *v1beta1.Metal3Machine) {
				machine.Spec.HostSelector.MatchExpressions = append(machine.Spec.HostSelector.MatchExpressions,
					v1beta1.HostSelectorRequirement{Key: "b", Operator: "Exists"})
				forgetSpec(machine)
			}),
		},
		"Addition": {
			reason: "Additional fields, such as defaults of admission, do not contradict the saved spec.",
			edit: func(machine *infrav1.Metal3Machine) {
				machine.Spec.AutomatedCleaningMode = "metadata"
				machine.Spec.HostSelector.MatchLabels = map[string]string{"a": "b"}
			},
			want: spoke(func(machine *v1beta1.Metal3Machine) {
				machine.Spec.AutomatedCleaningMode = ptr.To("metadata")
				machine.Spec.HostSelector.MatchLabels = map[string]string{"a": "b"}
			}),
		},
		"OnlyInV1Beta2": {
			reason: "An edit of a field that v1beta1 lacks does not contradict the saved spec.",
			edit: func(machine *infrav1.Metal3Machine) {
				machine.Spec.FailureDomainPolicy = infrav1.FailureDomainStrict
				machine.Status.FailureDomain = "a"
			},
			want: spoke(func(*v1beta1.Metal3Machine) {}),
		},
		"AnnotationUnreadable": {
			reason: "An object with an invalid annotation can still be read and repaired.",
			edit:   func(machine *infrav1.Metal3Machine) { machine.Annotations[v1beta1.DataAnnotation] = `[]` },
			want: spoke(func(machine *v1beta1.Metal3Machine) {
				forgetSpec(machine)
				forgetStatus(machine)
			}),
		},
		"HalfOfAnnotationUnreadable": {
			reason: "The valid part of the annotation applies.",
			edit: func(machine *infrav1.Metal3Machine) {
				data := machine.Annotations[v1beta1.DataAnnotation]
				machine.Annotations[v1beta1.DataAnnotation] = strings.Replace(data, `"spec":{`, `"spec":{"image":1,`, 1)
			},
			want: spoke(forgetSpec),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			hub := is[*infrav1.Metal3Machine](t, kind.toHub(t, spoke(func(*v1beta1.Metal3Machine) {})))
			tc.edit(hub)
			got := kind.toSpoke(t, hub)
			if _, seen := got.GetAnnotations()[v1beta1.DataAnnotation]; seen {
				t.Errorf("%s\nv1beta1 shows the annotation %s", tc.reason, v1beta1.DataAnnotation)
			}
			got.SetAnnotations(nil)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n(-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestAdmissionBetweenConversions sets defaults of a strategy, as admission does between two conversions of one
// request.
func TestAdmissionBetweenConversions(t *testing.T) {
	kind := kinds(t)["Metal3Remediation"]
	spoke := transcribe(t, remediation(timeout(300*time.Second+time.Millisecond)), kind.spoke())
	hub := is[*infrav1.Metal3Remediation](t, kind.toHub(t, spoke))
	hub.Spec.Strategy.Type = infrav1.RebootRemediation
	hub.Spec.Strategy.RetryLimit = infrav1.DefaultRemediationRetryLimit
	want := transcribe(t, remediation(&v1beta1.RemediationStrategy{
		Type: "Reboot", RetryLimit: 1, Timeout: &metav1.Duration{Duration: 300*time.Second + time.Millisecond},
	}), kind.spoke())
	got := kind.toSpoke(t, hub)
	got.SetAnnotations(nil)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the fraction of a second is lost (-want +got):\n%s", diff)
	}
}

// TestForeignAnnotations sets the annotation of one version on an object of the other. The conversion must ignore and
// remove it.
func TestForeignAnnotations(t *testing.T) {
	kind := kinds(t)["Metal3Machine"]
	data := `{"spec":{"failureDomain":"a"},"status":{"phase":"a"}}`

	spoke := kind.spoke()
	spoke.SetAnnotations(map[string]string{v1beta1.DataAnnotation: data, "kept": "yes"})
	hub := kind.hub()
	hub.SetAnnotations(map[string]string{conversion.DataAnnotation: data, "kept": "yes"})

	wantHub := kind.hub()
	wantHub.SetAnnotations(map[string]string{"kept": "yes"})
	if diff := cmp.Diff(wantHub, kind.toHub(t, spoke)); diff != "" {
		t.Errorf("v1beta2 (-want +got):\n%s", diff)
	}
	wantSpoke := kind.spoke()
	wantSpoke.SetAnnotations(map[string]string{"kept": "yes"})
	if diff := cmp.Diff(wantSpoke, kind.toSpoke(t, hub)); diff != "" {
		t.Errorf("v1beta1 (-want +got):\n%s", diff)
	}
}

// TestHugeObjects expects that the annotations stay within their limit, so that a controller can write the object.
func TestHugeObjects(t *testing.T) {
	kind := kinds(t)["Metal3DataTemplate"]
	huge := strings.Repeat("x", validation.TotalAnnotationSizeLimitB)
	cases := map[string]struct {
		reason                 string
		clusterName, claimName string
		wantSpec, wantStatus   bool
	}{
		"Small":      {reason: "Spec and status fit.", wantSpec: true, wantStatus: true},
		"HugeStatus": {reason: "The status is dropped first.", claimName: huge, wantSpec: true},
		"HugeSpec":   {reason: "The spec exceeds the limit, so both are dropped.", clusterName: huge},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			hub := kind.toHub(t, transcribe(t, &v1beta1.Metal3DataTemplate{
				Spec:   v1beta1.Metal3DataTemplateSpec{ClusterName: tc.clusterName, TemplateReference: "a"},
				Status: v1beta1.Metal3DataTemplateStatus{Indexes: map[string]int{"a": -1, "b" + tc.claimName: 1}},
			}, kind.spoke()))
			if err := validation.ValidateAnnotationsSize(hub.GetAnnotations()); err != nil {
				t.Errorf("%s\nv1beta2 cannot be written: %v", tc.reason, err)
			}
			spoke := is[*v1beta1.Metal3DataTemplate](t, kind.toSpoke(t, hub))
			if kept := spoke.Spec.TemplateReference == "a"; kept != tc.wantSpec {
				t.Errorf("%s\nThe spec is saved: %t, want %t", tc.reason, kept, tc.wantSpec)
			}
			if kept := spoke.Status.Indexes["a"] == -1; kept != tc.wantStatus {
				t.Errorf("%s\nThe status is saved: %t, want %t", tc.reason, kept, tc.wantStatus)
			}
		})
	}
}

// TestHugeHub expects that a client of v1beta1 can write a template with very many indexes, and that the template
// keeps them.
func TestHugeHub(t *testing.T) {
	kind := kinds(t)["Metal3DataTemplate"]
	indexes := make([]infrav1.DataIndex, 5000)
	for i := range indexes {
		indexes[i] = infrav1.DataIndex{Name: fmt.Sprintf("a-claim-with-a-name-of-some-length-%d", i), Index: int32(i)}
	}
	hub := is[*infrav1.Metal3DataTemplate](t, kind.hub())
	hub.Spec.ClusterName = "c"
	hub.Status = infrav1.Metal3DataTemplateStatus{
		Indexes: indexes, Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}},
	}
	spoke := kind.toSpoke(t, hub)
	if err := validation.ValidateAnnotationsSize(spoke.GetAnnotations()); err != nil {
		t.Errorf("v1beta1 cannot be written: %v", err)
	}
	back := is[*infrav1.Metal3DataTemplate](t, kind.toHub(t, spoke))
	if back.Spec.ClusterName != "c" || len(back.Status.Indexes) != len(indexes) {
		t.Errorf("got %q and %d indexes", back.Spec.ClusterName, len(back.Status.Indexes))
	}
}
