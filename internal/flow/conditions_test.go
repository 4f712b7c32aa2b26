package flow_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

func is(name, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

func isNot(name, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// with returns a machine with conditions.
func with(list ...metav1.Condition) *infrav1.Metal3Machine {
	machine := &infrav1.Metal3Machine{}
	for _, condition := range list {
		conditions.Set(machine, condition)
	}
	return machine
}

// sameCondition compares without the transition time.
func sameCondition(t *testing.T, machine *infrav1.Metal3Machine, want metav1.Condition) {
	t.Helper()
	got := conditions.Get(machine, want.Type)
	if diff := cmp.Diff(&want, got, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSetReady(t *testing.T) {
	cases := map[string]struct {
		reason string
		before []metav1.Condition
		want   metav1.Condition
	}{
		"AllStagesAreTrue": {
			reason: "all conditions are true",
			before: []metav1.Condition{is("First", "A", ""), is("Second", "B", "b")},
			want:   is("Ready", "Ready", ""),
		},
		"TwoAreNotTrue": {
			reason: "the first one in the order of the stages has precedence",
			before: []metav1.Condition{isNot("Second", "B", "b"), isNot("First", "A", "a")},
			want:   isNot("Ready", "A", "a"),
		},
		"ALaterOneIsNotTrue": {
			reason: "all conditions must be true",
			before: []metav1.Condition{is("First", "A", "a"), isNot("Second", "B", "b")},
			want:   isNot("Ready", "B", "b"),
		},
		"AnUnknownStageIsNotTrue": {
			reason: "unknown is not true",
			before: []metav1.Condition{{Type: "First", Status: metav1.ConditionUnknown, Reason: "A", Message: "a"}},
			want:   isNot("Ready", "A", "a"),
		},
		"AStageWithoutAConditionDoesNotCount": {
			reason: "a stage is optional",
			before: []metav1.Condition{is("Second", "B", "")},
			want:   is("Ready", "Ready", ""),
		},
		"OtherConditionsDoNotCount": {
			reason: "the condition belongs to no stage",
			before: []metav1.Condition{is("First", "A", ""), isNot("Other", "C", "c")},
			want:   is("Ready", "Ready", ""),
		},
		"Deleting": {
			reason: "an object that is being deleted is not ready",
			before: []metav1.Condition{is("First", "A", ""), is("Deleting", "Releasing", "Host is being cleaned")},
			want:   isNot("Ready", "Deleting", "Host is being cleaned"),
		},
		"NotDeleting": {
			reason: "the condition Deleting is false",
			before: []metav1.Condition{is("First", "A", ""), isNot("Deleting", "NotDeleting", "")},
			want:   is("Ready", "Ready", ""),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			machine := with(tc.before...)
			flow.SetReady(machine, "First", "Second")
			t.Log(tc.reason)
			sameCondition(t, machine, tc.want)
		})
	}
}

func TestSetPaused(t *testing.T) {
	elsewhere := is("Paused", "ManagedElsewhere", "Another management cluster manages the Cluster: see condition "+
		"IronicEndpointReady of the Metal3Cluster")
	for facts, want := range map[struct {
		pause     string
		elsewhere bool
	}]metav1.Condition{
		{"By a user", false}: is("Paused", "Paused", "By a user"),
		{"By a user", true}:  is("Paused", "Paused", elsewhere.Message+". By a user"),
		{"", true}:           elsewhere,
		{"", false}:          isNot("Paused", "NotPaused", ""),
	} {
		for _, before := range []metav1.Condition{is("Paused", "Paused", "x"), isNot("Paused", "NotPaused", "")} {
			machine := with(before)
			flow.SetPaused(machine, facts.pause, facts.elsewhere)
			sameCondition(t, machine, want)
		}
	}
}
