package flow_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// step is the result of one stage.
type step struct {
	condition string
	outcome   outcome.Outcome
	err       error
}

// line returns a condition in one line.
func line(machine *infrav1.Metal3Machine, conditionType string) string {
	condition := conditions.Get(machine, conditionType)
	if condition == nil {
		return ""
	}
	return strings.TrimSpace(string(condition.Status) + " " + condition.Reason + " " + condition.Message)
}

func conditionOf(name string) flow.Condition[*trace] {
	return flow.Condition[*trace]{
		Type: name, Initial: "Initial", Failed: "Failed", Aside: name == "Aside",
		Done: func(*trace) flow.Reached { return flow.Reached{Reason: "Reached", Message: "There"} },
	}
}

// run runs the steps on a machine in a world and returns what they reported.
func (w *world) run(pause string, steps ...step) (*trace, ctrl.Result, error) {
	w.t.Helper()
	w.begin()
	plan := flow.Plan[*trace]{Paused: pause, Conditions: []flow.Condition[*trace]{
		conditionOf("First"), conditionOf("Aside"), conditionOf("Second"), conditionOf(clusterv1.DeletingCondition),
	}}
	for i, step := range steps {
		plan.Stages = append(plan.Stages, conditionOf(step.condition).Stage(
			func(_ context.Context, scope *trace) (outcome.Outcome, error) {
				scope.ran = append(scope.ran, step.condition+string(rune('0'+i)))
				return step.outcome, step.err
			}))
	}
	scope := &trace{}
	result, err := flow.Run(context.Background(), w.pass, scope, plan)
	return scope, result, err
}

func TestRun(t *testing.T) {
	resource := schema.GroupResource{Resource: "baremetalhosts"}
	refused := apierrors.NewForbidden(resource, "host", errors.New("a policy says no"))
	conflict := apierrors.NewConflict(resource, "host", errors.New("it changed"))
	away := errors.New("the API server is away")
	const refusal = `False Failed Baremetalhosts "host" is forbidden: a policy says no`
	waiting := outcome.Waiting("NoHost", "Waiting for a host")
	allTrue := []metav1.Condition{is("First", "Old", ""), is("Aside", "Old", ""), is("Second", "Old", "")}
	cases := map[string]struct {
		reason               string
		before               []metav1.Condition
		steps                []step
		ran                  []string
		first, second, aside string
		ready                string
		after                time.Duration
		err                  error
	}{
		"Done": {
			reason: "all stages ran", steps: []step{{condition: "First"}, {condition: "First"}, {condition: "Second"}},
			ran: []string{"First0", "First1", "Second2"}, first: "True Reached There", second: "True Reached There",
			aside: "False Initial", ready: "True Ready",
		},
		"Waiting": {
			reason: "a later condition cannot be true while an earlier one is false", before: allTrue,
			steps: []step{{condition: "First", outcome: waiting.WithAfter(time.Minute)}, {condition: "Second"}},
			ran:   []string{"First0"}, first: "False NoHost Waiting for a host", aside: "True Old", second: "False Initial",
			ready: "False NoHost Waiting for a host", after: time.Minute,
		},
		"Blocked": {
			reason: "a condition is false while one of its stages is",
			steps:  []step{{condition: "First"}, {condition: "First", outcome: outcome.Blocked("Invalid", "Correct it")}},
			ran:    []string{"First0", "First1"}, first: "False Invalid Correct it", aside: "False Initial",
			second: "False Initial", ready: "False Invalid Correct it",
		},
		"Refused": {
			reason: "a retry cannot succeed", before: allTrue,
			steps: []step{{condition: "First", err: refused}, {condition: "Second"}}, ran: []string{"First0"},
			first: refusal, aside: "True Old", second: "True Old", ready: refusal, err: refused,
		},
		"FailedBefore": {
			reason: "an error sets the condition", steps: []step{{condition: "First"}, {condition: "Second", err: away}},
			ran: []string{"First0", "Second1"}, first: "True Reached There", aside: "False Initial",
			second: "False Failed The API server is away", ready: "False Failed The API server is away", err: away,
		},
		"FailedAfter": {
			reason: "a temporary error keeps a true condition", before: allTrue,
			steps: []step{{condition: "First"}, {condition: "Second", err: away}}, ran: []string{"First0", "Second1"},
			first: "True Reached There", aside: "True Old", second: "True Failed The API server is away",
			ready: "True Ready", err: away,
		},
		"Conflict": {
			reason: "a conflict changes no condition", before: allTrue,
			steps: []step{{condition: "First", err: conflict}, {condition: "Second"}}, ran: []string{"First0"},
			first: "True Old", aside: "True Old", second: "True Old", ready: "True Ready", after: flow.ConflictDelay,
		},
		"ConflictAtFirst": {
			reason: "an object that another version has reported as ready stays ready",
			before: []metav1.Condition{is("First", "Old", ""), is("Ready", "Ready", "")},
			steps:  []step{{condition: "First"}, {condition: "Second", err: conflict}}, ran: []string{"First0", "Second1"},
			first: "True Reached There", ready: "True Ready", after: flow.ConflictDelay,
		},
		"ConflictAndRefusal": {
			reason: "a conflict does not hide another error of the stage", before: allTrue,
			steps: []step{{condition: "First", err: errors.Join(conflict, refused)}}, ran: []string{"First0"},
			first: refusal, aside: "True Old", second: "True Old", ready: refusal, err: refused,
		},
		"ConflictAndOutage": {
			reason: "a conflict is no refusal", before: allTrue,
			steps: []step{{condition: "First", err: errors.Join(conflict, away)}}, ran: []string{"First0"},
			first: "True Failed The API server is away", aside: "True Old", second: "True Old", ready: "True Ready", err: away,
		},
		"Conflicts": {
			reason: "several conflicts change no condition", before: allTrue,
			steps: []step{{condition: "First", err: errors.Join(conflict, conflict)}}, ran: []string{"First0"},
			first: "True Old", aside: "True Old", second: "True Old", ready: "True Ready", after: flow.ConflictDelay,
		},
		"FailedAtFirst": {
			reason: "a temporary error keeps a ready object ready", before: []metav1.Condition{is("Ready", "Ready", "")},
			steps: []step{{condition: "First"}, {condition: "Second", err: away}}, ran: []string{"First0", "Second1"},
			first: "True Reached There", second: "True Failed The API server is away", ready: "True Ready", err: away,
		},
		"RefusedAtFirst": {
			reason: "a retry cannot succeed",
			before: []metav1.Condition{is("Ready", "Ready", "")},
			steps:  []step{{condition: "First", err: refused}}, ran: []string{"First0"},
			first: refusal, ready: refusal, err: refused,
		},
		"Aside": {
			reason: "a condition aside stops its own stages only",
			steps:  []step{{condition: "Aside", outcome: waiting}, {condition: "First"}, {condition: "Aside"}, {condition: "Second"}},
			ran:    []string{"Aside0", "First1", "Second3"}, first: "True Reached There",
			aside: "False NoHost Waiting for a host", second: "True Reached There", ready: "True Ready",
		},
		"AsideFailedAtFirst": {
			reason: "Ready does not include a condition aside, so a ready object says nothing about it",
			before: []metav1.Condition{is("Ready", "Ready", "")},
			steps:  []step{{condition: "Aside", err: away}, {condition: "First"}, {condition: "Second"}},
			ran:    []string{"Aside0", "First1", "Second2"}, first: "True Reached There",
			aside: "False Failed The API server is away", second: "True Reached There", ready: "True Ready", err: away,
		},
		"Unfinished": {
			reason: "a condition is not true before the last of its stages", before: []metav1.Condition{isNot("Second", "Old", "")},
			steps: []step{{condition: "Second"}, {condition: "First", err: away}, {condition: "Second"}},
			ran:   []string{"Second0", "First1"}, first: "False Failed The API server is away", aside: "False Initial",
			second: "False Old", ready: "False Failed The API server is away", err: away,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			stored := w.stored()
			for _, condition := range tc.before {
				conditions.Set(stored, condition)
			}
			if err := w.others.Status().Update(context.Background(), stored); err != nil {
				t.Fatal(err)
			}
			scope, result, err := w.run("", tc.steps...)
			if !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) || result.RequeueAfter != tc.after {
				t.Errorf("%s: got %v, %v, want %v after %s", tc.reason, result, err, tc.err, tc.after)
			}
			machine := w.stored()
			got := []string{line(machine, "First"), line(machine, "Aside"), line(machine, "Second"), line(machine, "Ready")}
			if diff := cmp.Diff([]string{tc.first, tc.aside, tc.second, tc.ready}, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.ran, scope.ran); diff != "" {
				t.Errorf("%s: ran: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestLongMessages expects messages that the API server accepts: it refuses a status with a message of over 32768 bytes.
func TestLongMessages(t *testing.T) {
	const limit = 32768
	long := strings.Repeat("語", 40000/3)
	w := newWorld(t)
	machine := w.begin()
	first, second := conditionOf("First"), conditionOf("Second")
	first.Done = func(*trace) flow.Reached { return flow.Reached{Reason: "Reached", Message: long} }
	var message string
	plan := flow.Plan[*trace]{
		Conditions: []flow.Condition[*trace]{first, second},
		Stages: []flow.Stage[*trace]{
			first.Stage(func(context.Context, *trace) (outcome.Outcome, error) { return outcome.Done(), nil }),
			second.Stage(func(context.Context, *trace) (outcome.Outcome, error) { return outcome.Blocked("Invalid", long), nil }),
		},
		Status: func(_ *trace, results flow.Results) {
			message = results["Second"].Message
			conditions.Set(machine, isNot("Third", "Invalid", long))
		},
	}
	if _, err := flow.Run(context.Background(), w.pass, &trace{}, plan); err != nil {
		t.Fatal(err)
	}
	messages := map[string]string{"result": message}
	for _, condition := range w.stored().GetConditions() {
		messages[condition.Type] = condition.Message
	}
	for _, name := range []string{"result", "First", "Second", "Third", "Ready"} {
		got := messages[name]
		if got == "" || len(got) > limit || !strings.HasPrefix(long, got) {
			t.Errorf("the message of %s has %d bytes", name, len(got))
		}
	}
}

func TestReadFailed(t *testing.T) {
	w := newWorld(t)
	w.begin()
	_, err := flow.ReadFailed(context.Background(), w.pass, errBroken)
	if !errors.Is(err, errBroken) {
		t.Errorf("got %v, want %v", err, errBroken)
	}
	if got := line(w.stored(), "Ready"); got != "False ReadFailed Broken" {
		t.Errorf("Ready is %q", got)
	}
	stored := w.stored()
	conditions.Set(stored, is("Ready", "Ready", ""))
	if err := w.others.Status().Update(context.Background(), stored); err != nil {
		t.Fatal(err)
	}
	w.begin()
	if _, err := flow.ReadFailed(context.Background(), w.pass, errBroken); !errors.Is(err, errBroken) {
		t.Errorf("got %v, want %v", err, errBroken)
	}
	if got := line(w.stored(), "Ready"); got != "True ReadFailed Broken" {
		t.Errorf("Ready of a ready object after a failed read is %q", got)
	}
}

func TestRunOnDeletion(t *testing.T) {
	w := newWorld(t, build.Finalizers(ours))
	w.deleted()
	for _, tc := range []struct {
		step step
		want string
	}{
		{step{outcome: outcome.Waiting("Cleaning", "Waiting for the host")}, "True Cleaning Waiting for the host"},
		{step{err: errBroken}, "True Failed Broken"},
		{step{}, "True Reached There"},
	} {
		tc.step.condition = clusterv1.DeletingCondition
		if _, _, err := w.run("", tc.step); !errors.Is(err, tc.step.err) {
			t.Errorf("got error %v", err)
		}
		if got := line(w.stored(), clusterv1.DeletingCondition); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
		if got := line(w.stored(), "First"); got != "" {
			t.Errorf("a deletion reports %q for another condition", got)
		}
	}
}

func TestRunWhilePaused(t *testing.T) {
	w := newWorld(t)
	scope, _, err := w.run("paused", step{condition: "First"})
	if err != nil || len(scope.ran) != 1 {
		t.Errorf("got %v, ran %v", err, scope.ran)
	}
	if line(w.stored(), "First") != "" || line(w.stored(), "Ready") != "" {
		t.Error("a pause changed another condition")
	}
}

func TestTheSameErrorIsWrittenOnce(t *testing.T) {
	w := newWorld(t)
	broken := func(port int) error {
		return &net.OpError{
			Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: port},
			Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 6443}, Err: errors.New("connection reset by peer"),
		}
	}
	for port := range 3 {
		if _, _, err := w.run("", step{condition: "First", err: broken(40000 + port)}); err == nil {
			t.Fatal("the error is lost")
		}
	}
	if len(w.writes) != 1 {
		t.Errorf("got writes %q, want one", w.writes)
	}
	want := "False Failed Read tcp 192.0.2.2:6443: connection reset by peer"
	if got := line(w.stored(), "First"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWithoutOldConditions(t *testing.T) {
	old := &infrav1.DeprecatedStatus{V1Beta1: &infrav1.Metal3V1Beta1Status{
		Conditions: clusterv1.Conditions{{Type: "Ready", Status: "True"}}, //nolint:staticcheck // This is what CAPM3 wrote.
	}}
	if got := flow.WithoutOldConditions(old); got != nil {
		t.Errorf("got %+v, want nothing", got)
	}
	old.V1Beta1.FailureReason = "kept"
	want := &infrav1.DeprecatedStatus{V1Beta1: &infrav1.Metal3V1Beta1Status{FailureReason: "kept"}}
	if diff := cmp.Diff(want, flow.WithoutOldConditions(old)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
