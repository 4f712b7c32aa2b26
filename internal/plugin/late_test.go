package plugin

import (
	"slices"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func TestLateHosts(t *testing.T) {
	as := func(*bmov1alpha1.BareMetalHost) {}
	free := func(host *bmov1alpha1.BareMetalHost) { host.Spec.ConsumerRef = nil }
	claimed := func(host *bmov1alpha1.BareMetalHost) { delete(host.Annotations, bmov1alpha1.PausedAnnotation) }
	running := func(host *bmov1alpha1.BareMetalHost) {
		claimed(host)
		free(host)
	}
	unrecorded := func(host *bmov1alpha1.BareMetalHost) { host.Status.LastUpdated = ptr.To(metav1.Now()) }
	leaving := func(host *bmov1alpha1.BareMetalHost) { host.Annotations[infrav1.DeleteForMoveAnnotation] = "" }
	in := func(name string) func(*bmov1alpha1.BareMetalHost) {
		return func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.BMC.Address = build.Host(name).Spec.BMC.Address
		}
	}
	named := func(name string) func(*bmov1alpha1.BareMetalHost) {
		return func(host *bmov1alpha1.BareMetalHost) { host.Spec.BMC.CredentialsName = name }
	}
	credentials := func() *metav1.PartialObjectMetadata { return belongingTo("late-bmc", "BareMetalHost", "late") }
	loose := func() *metav1.PartialObjectMetadata { return partial("late-bmc", "") }
	for name, tc := range map[string]struct {
		reason string
		source *scope
		target *scope
		// left is the record of the source: the names of hosts and the epoch.
		left          pivot.Departure
		want, staying []string
		refused       []pivot.Code
	}{
		"Late": {
			reason: "no Cluster is left that would resume it", source: nothing().leftHost("late", as).put("Secret", credentials()),
			want: []string{"late"},
		},
		"OneOfTwo": {
			reason: "the other one is a leftover", source: nothing().leftHost("late", as).leftHost("left", as),
			target: copied(false, "4").leftHost("left", as), want: []string{"late"},
		},
		"Arrived": {reason: "nothing is missing", source: nothing().leftHost("left", as), target: copied(false, "4").leftHost("left", as)},
		"Cluster": {reason: "the move is not complete", source: copied(true, "3").leftHost("late", as)},
		"Machine": {reason: "a person has to decide", source: nothing().leftHost("late", as).put("Machine", belongingTo("m", "Cluster", "c"))},
		"Runs": {
			reason: "BMO manages it in the source", source: nothing().leftHost("late", running), staying: []string{"late"},
		},
		"RunsClaimed": {
			reason: "its machine is in the target", source: nothing().leftHost("late", claimed), staying: []string{"late"},
			refused: []pivot.Code{pivot.CodeLeftoverRuns},
		},
		"RunsTwice": {
			reason: "two BMOs would manage it", source: nothing().leftHost("late", running),
			target: copied(false, "4").leftHost("moved", in("late")), staying: []string{"late"},
			refused: []pivot.Code{pivot.CodeMoveUnclear},
		},
		"Twice": {
			reason: "two BMOs would manage it", source: nothing().leftHost("late", free),
			target: copied(false, "4").leftHost("moved", in("late")), want: []string{"late"},
			refused: []pivot.Code{pivot.CodeMoveUnclear},
		},
		"ToBeResumed": {
			reason: "the manager of the source resumes it", source: nothing().leftHost("late", free),
			left: pivot.Departure{Infras: map[string]pivot.Epoch{"c": 3}}, staying: []string{"late"},
		},
		"Remembered": {
			reason: "the manager of the source does not know that it did not move", source: nothing().leftHost("late", as),
			left: pivot.Departure{Hosts: []pivot.DepartedHost{{Name: "late"}}, Infras: map[string]pivot.Epoch{"c": 3}},
			want: []string{"late"},
		},
		"NotRecorded": {
			reason: "BMO would inspect and provision the host again", source: nothing().leftHost("late", unrecorded), want: []string{"late"},
			refused: []pivot.Code{pivot.CodeHostParking},
		},
		"Leaving": {reason: "clusterctl is deleting it", source: nothing().leftHost("late", leaving)},
		"SecretOfOthers": {
			reason: "clusterctl does not move a Secret that the host does not need",
			source: nothing().leftHost("late", as).put("Secret", belongingTo("x", "ExternalSecret", "x")), want: []string{"late"},
		},
		"SecretStays": {
			reason: "clusterctl would leave the Secret behind",
			source: nothing().leftHost("late", named("late-bmc")).put("Secret", belongingTo("late-bmc", "ExternalSecret", "x")),
			want:   []string{"late"}, refused: []pivot.Code{pivot.CodeOwnerStays},
		},
		"LooseSecret": {
			reason: "clusterctl would leave the Secret behind", source: nothing().leftHost("late", named("late-bmc")).put("Secret", loose()),
			want: []string{"late"}, refused: []pivot.Code{pivot.CodeSecretStays},
		},
		"SharedSecret": {
			reason: "the target has the Secret", source: nothing().leftHost("late", named("late-bmc")).put("Secret", loose()),
			target: copied(false, "4").put("Secret", loose()), want: []string{"late"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.target == nil {
				tc.target = copied(false, "4")
			}
			for _, side := range []*scope{tc.source, tc.target} {
				for _, kind := range []string{"Cluster", "Machine", "Metal3Cluster", "BareMetalHost"} {
					side.put(kind)
				}
				for _, objects := range side.objects {
					for _, object := range objects {
						object.Namespace = build.DefaultNamespace
					}
				}
				side.identify()
			}
			late, refusals := lateIn(tc.source, tc.target, tc.left)
			got, staying := namesOf(late.hosts), namesOf(late.staying)
			if !slices.Equal(tc.want, got) || !slices.Equal(tc.staying, staying) ||
				!slices.Equal(tc.refused, codesOf(refusals)) {
				t.Errorf("%s: got %v, %v, %v", tc.reason, got, staying, refusals)
			}
		})
	}
}
