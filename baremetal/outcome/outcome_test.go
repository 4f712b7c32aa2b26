package outcome_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// view has the observable properties of an outcome.
type view struct {
	Done, Blocked   bool
	Reason, Message string
	After           time.Duration
}

func TestOutcome(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     outcome.Outcome
		want   view
	}{
		"TheZeroValueIsDone": {
			reason: "an empty outcome must not stop the phases after it",
			in:     outcome.Outcome{},
			want:   view{Done: true},
		},
		"Done": {
			reason: "done has no reason and no message",
			in:     outcome.Done(),
			want:   view{Done: true},
		},
		"DoneWithAfter": {
			reason: "a phase may be done and still requeue",
			in:     outcome.Done().WithAfter(time.Second),
			want:   view{Done: true, After: time.Second},
		},
		"Waiting": {
			reason: "waiting is neither done nor blocked, and an event ends it",
			in:     outcome.Waiting("NoHost", "Waiting for a host"),
			want:   view{Reason: "NoHost", Message: "Waiting for a host"},
		},
		"WaitingWithAfter": {
			reason: "without an event, the outcome has the time of the requeue",
			in:     outcome.Waiting("NoHost", "Waiting for a host").WithAfter(time.Minute),
			want:   view{Reason: "NoHost", Message: "Waiting for a host", After: time.Minute},
		},
		"Blocked": {
			reason: "the user must act",
			in:     outcome.Blocked("InvalidSpec", "Correct spec.image"),
			want:   view{Blocked: true, Reason: "InvalidSpec", Message: "Correct spec.image"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := view{
				Done: tc.in.IsDone(), Blocked: tc.in.IsBlocked(),
				Reason: tc.in.Reason, Message: tc.in.Message, After: tc.in.After,
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestWithAfterLeavesTheOriginal(t *testing.T) {
	original := outcome.Waiting("NoHost", "Waiting for a host")
	_ = original.WithAfter(time.Minute)
	if original.After != 0 {
		t.Errorf("WithAfter changed the outcome that it was called on: After is %s", original.After)
	}
}
