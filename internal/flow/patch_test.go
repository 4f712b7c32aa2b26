package flow_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// versions are the changes of a Metal3Machine by which the versions of the test differ.
func versions() map[string]func(*infrav1.Metal3Machine) {
	condition := func(status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: "Ready", Status: status, Reason: "R", LastTransitionTime: metav1.Unix(1, 0)}
	}
	everything := func(m *infrav1.Metal3Machine) {
		m.Labels, m.Annotations = map[string]string{"a": "b", "c": ""}, map[string]string{"d": "e", "f": "<&>"}
		m.Finalizers = []string{ours, theirs}
		m.OwnerReferences = []metav1.OwnerReference{{Kind: "Machine", Name: "a", Controller: ptr.To(true)}}
		m.Spec.ProviderID, m.Spec.UserData = "metal3://a/b/c", &corev1.SecretReference{Name: "u"}
		m.Spec.HostSelector.MatchLabels = map[string]string{"a": "b"}
		m.Spec.HostSelector.MatchExpressions = []infrav1.HostSelectorRequirement{{Key: "k", Values: []string{"v"}}}
		m.Status.Conditions = []metav1.Condition{condition(metav1.ConditionTrue), {Type: "Other"}}
		m.Status.Initialization.Provisioned = ptr.To(true)
		m.Status.Addresses, m.Status.FailureDomain = []clusterv1.MachineAddress{{Address: "::1"}}, "a"
	}
	return map[string]func(*infrav1.Metal3Machine){
		"Plain":      func(*infrav1.Metal3Machine) {},
		"Everything": everything,
		"Empty": func(m *infrav1.Metal3Machine) {
			m.Labels, m.Annotations = map[string]string{}, map[string]string{}
			m.Finalizers, m.OwnerReferences = []string{}, []metav1.OwnerReference{}
			m.Spec.HostSelector.MatchLabels = map[string]string{}
			m.Spec.HostSelector.MatchExpressions = []infrav1.HostSelectorRequirement{}
			m.Status.Conditions, m.Status.Addresses = []metav1.Condition{}, []clusterv1.MachineAddress{}
		},
		"Nothing": func(m *infrav1.Metal3Machine) { m.Labels, m.Spec = nil, infrav1.Metal3MachineSpec{ProviderID: "x"} },
		"Keys": func(m *infrav1.Metal3Machine) {
			everything(m)
			m.Labels, m.Annotations = map[string]string{"a": "", "x": "y"}, map[string]string{"f": "<&>"}
		},
		"Finalizers": func(m *infrav1.Metal3Machine) { everything(m); m.Finalizers = []string{theirs} },
		"Owner":      func(m *infrav1.Metal3Machine) { everything(m); m.OwnerReferences[0].Controller = nil },
		"Spec": func(m *infrav1.Metal3Machine) {
			everything(m)
			m.Spec.Image, m.Spec.UserData = &infrav1.Image{}, &corev1.SecretReference{}
			m.Spec.HostSelector = infrav1.HostSelector{MatchLabels: map[string]string{"c": "d"}}
		},
		"Status": func(m *infrav1.Metal3Machine) {
			everything(m)
			m.Status = infrav1.Metal3MachineStatus{Conditions: []metav1.Condition{condition(metav1.ConditionFalse)}}
		},
		"Condition": func(m *infrav1.Metal3Machine) { m.Status.Conditions = []metav1.Condition{{Type: "Ready"}} },
		"Moment": func(m *infrav1.Metal3Machine) {
			m.Status.Conditions = []metav1.Condition{{Type: "Ready", LastTransitionTime: metav1.Unix(0, 1)}}
		},
		"Second": func(m *infrav1.Metal3Machine) {
			m.Status.Conditions = []metav1.Condition{{Type: "Ready", LastTransitionTime: metav1.Unix(0, 2)}}
		},
	}
}

// TestPatchesEqualPatchesOfWholeObjects changes each version of a machine to each other one. The patches must have the
// same effect as patches of the whole objects, on the version that the pass read and on one that another client wrote.
func TestPatchesEqualPatchesOfWholeObjects(t *testing.T) {
	version := func(change func(*infrav1.Metal3Machine)) *infrav1.Metal3Machine {
		machine := build.Metal3Machine("machine-0", "cluster-0")
		machine.ResourceVersion, machine.Generation, machine.UID = "7", 3, "uid"
		machine.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
		change(machine)
		return machine
	}
	foreign := version(versions()["Everything"])
	foreign.Labels["foreign"], foreign.Spec.FailureDomain, foreign.Status.FailureDomain = "x", "x", "x"
	for from, toBefore := range versions() {
		for to, toAfter := range versions() {
			before, after := version(toBefore), version(toAfter)
			main, status := patchesOf(t, before, after)
			wholeMain, wholeStatus := wholePatches(t, before, after)
			stores := []*infrav1.Metal3Machine{before, foreign}
			if from == "Empty" || to == "Empty" {
				stores = stores[:1] // A patch of the whole object also replaces an absent map by an empty one.
			}
			for _, stored := range stores {
				want := applied(t, applied(t, stored, wholeMain), wholeStatus)
				got := applied(t, applied(t, stored, main), status)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s to %s: -whole +got:\n%s", from, to, diff)
				}
			}
			if (main == "{}") != (wholeMain == "{}") || (status == "{}") != (wholeStatus == "{}") {
				t.Errorf("%s to %s: got %s and %s, want %s and %s", from, to, main, status, wholeMain, wholeStatus)
			}
			lists := !equality.Semantic.DeepEqual(before.Finalizers, after.Finalizers) ||
				!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences)
			if locked := strings.Contains(main, `"resourceVersion":"7"`); locked != lists {
				t.Errorf("%s to %s: got %s, want a resource version: %t", from, to, main, lists)
			}
		}
	}
}

// patchesOf returns the patches that a pass sends, {} for none.
func patchesOf(t *testing.T, before, after *infrav1.Metal3Machine) (main, status string) {
	t.Helper()
	main, status = "{}", "{}"
	save := func(to *string, object client.Object, patch client.Patch) error {
		data, err := patch.Data(object)
		*to = string(data)
		return err
	}
	c := fake.NewClientBuilder().WithScheme(build.SharedScheme()).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, object client.Object, patch client.Patch,
			_ ...client.PatchOption,
		) error {
			return save(&main, object, patch)
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, object client.Object, patch client.Patch,
			_ ...client.SubResourcePatchOption,
		) error {
			return save(&status, object, patch)
		},
	}).Build()
	object := before.DeepCopy()
	pass := (&flow.Reporter{Client: c}).Begin(object, nil)
	after.DeepCopyInto(object)
	if _, err := pass.End(t.Context(), outcome.Done(), nil, nothing); err != nil {
		t.Fatal(err)
	}
	return main, status
}

// wholePatches returns the patches between the whole objects without their status, and between each whole status.
func wholePatches(t *testing.T, before, after *infrav1.Metal3Machine) (main, status string) {
	t.Helper()
	rest := before.DeepCopy()
	rest.Status = after.Status
	main, status = wholePatch(t, rest, after), wholePatch(t, before.Status, after.Status)
	if status == "{}" {
		return main, status
	}
	return main, `{"status":` + status + `}`
}

func wholePatch(t *testing.T, before, after any) string {
	t.Helper()
	if equality.Semantic.DeepEqual(before, after) {
		return "{}"
	}
	patch, err := jsonpatch.CreateMergePatch(encoded(t, before), encoded(t, after))
	if err != nil {
		t.Fatal(err)
	}
	return string(patch)
}

func encoded(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// applied returns a machine with a merge patch applied.
func applied(t *testing.T, machine *infrav1.Metal3Machine, patch string) *infrav1.Metal3Machine {
	t.Helper()
	data, err := jsonpatch.MergePatch(encoded(t, machine), []byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	result := &infrav1.Metal3Machine{}
	if err := json.Unmarshal(data, result); err != nil {
		t.Fatal(err)
	}
	return result
}
