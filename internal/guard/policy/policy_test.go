package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/policy"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	waiting := policy.Observation{Role: vip.ControlPlane, Takeover: vip.AfterMove}
	with := func(change func(*policy.Observation)) policy.Observation {
		changed := waiting
		change(&changed)
		return changed
	}
	for name, test := range map[string]struct {
		reason string
		in     policy.Observation
		want   policy.Decision
	}{
		"management": {
			reason: "no other node exists yet",
			in:     policy.Observation{Role: vip.Management},
			want:   policy.Decision{Armed: true, Reason: "Management"},
		},
		"management, demoted by annotation": {
			reason: "the controller decides",
			in:     policy.Observation{Role: vip.Management, Annotation: policy.No},
			want:   policy.Decision{Reason: "DisarmedByAnnotation"},
		},
		"management, demoted by file": {
			reason: "a user decides",
			in:     policy.Observation{Role: vip.Management, Override: policy.No},
			want:   policy.Decision{Reason: "DisarmedByFile"},
		},
		"management, garbage in the file": {
			reason: "an invalid override means no",
			in:     policy.Observation{Role: vip.Management, Override: policy.Unclear},
			want:   policy.Decision{Reason: "UnreadableFile"},
		},
		"management, handed over while it holds the VIP": {
			reason: "its Ironic has the nodes; the next one is empty",
			in:     policy.Observation{Role: vip.Management, HandedOver: true, Holding: true},
			want:   policy.Decision{Armed: true, Reason: "Management"},
		},
		"management, handed over and without the VIP": {
			reason: "the control plane serves Ironic",
			in:     policy.Observation{Role: vip.Management, HandedOver: true},
			want:   policy.Decision{Reason: "HandedOver"},
		},
		"management, handed over and demoted while it holds the VIP": {
			reason: "false has precedence",
			in:     policy.Observation{Role: vip.Management, HandedOver: true, Holding: true, Annotation: policy.No},
			want:   policy.Decision{Reason: "DisarmedByAnnotation"},
		},
		"management, handed over and armed by file": {
			reason: "the override file has precedence",
			in:     policy.Observation{Role: vip.Management, HandedOver: true, Override: policy.Yes},
			want:   policy.Decision{Armed: true, Reason: "ArmedByFile"},
		},
		"management, not handed over and without the VIP": {
			reason: "it reclaims the VIP",
			in:     policy.Observation{Role: vip.Management, Annotation: policy.Yes},
			want:   policy.Decision{Armed: true, Reason: "Management"},
		},
		"control plane, handed over": {
			reason: "the handover matters only for management nodes",
			in:     with(func(o *policy.Observation) { o.HandedOver = true; o.Annotation = policy.Yes }),
			want:   policy.Decision{Armed: true, Reason: "ArmedByAnnotation"},
		},
		"before the move": {
			reason: "the cluster does not manage itself yet",
			in:     waiting,
			want:   policy.Decision{Reason: "WaitingForMove"},
		},
		"after the move": {
			reason: "only a controller in the target cluster writes the annotation",
			in:     with(func(o *policy.Observation) { o.Annotation = policy.Yes }),
			want:   policy.Decision{Armed: true, Reason: "ArmedByAnnotation"},
		},
		"after the move, disarmed by file": {
			reason: "the override file has precedence",
			in:     with(func(o *policy.Observation) { o.Annotation = policy.Yes; o.Override = policy.No }),
			want:   policy.Decision{Reason: "DisarmedByFile"},
		},
		"before the move, armed by file": {
			reason: "the override file has precedence",
			in:     with(func(o *policy.Observation) { o.Override = policy.Yes }),
			want:   policy.Decision{Armed: true, Reason: "ArmedByFile"},
		},
		"silence without a limit": {
			reason: "arming by silence is opt-in",
			in:     with(func(o *policy.Observation) { o.Silence = 1000 * time.Hour }),
			want:   policy.Decision{Reason: "WaitingForMove"},
		},
		"silence below the limit": {
			reason: "management may only be restarting",
			in: with(func(o *policy.Observation) {
				o.Silence, o.SilenceLimit = 15*time.Minute-1, 15*time.Minute
			}),
			want: policy.Decision{Reason: "WaitingForMove"},
		},
		"silence at the limit": {
			reason: "the management cluster was lost before the move",
			in:     with(func(o *policy.Observation) { o.Silence, o.SilenceLimit = 15*time.Minute, 15*time.Minute }),
			want:   policy.Decision{Armed: true, Reason: "ManagementSilent"},
		},
		"silence against a no": {
			reason: "false has precedence over silence",
			in: with(func(o *policy.Observation) {
				o.Silence, o.SilenceLimit, o.Annotation = time.Hour, time.Minute, policy.No
			}),
			want: policy.Decision{Reason: "DisarmedByAnnotation"},
		},
		"always": {
			reason: "armed from the first boot",
			in:     with(func(o *policy.Observation) { o.Takeover = vip.Always }),
			want:   policy.Decision{Armed: true, Reason: "Always"},
		},
		"always, but no": {
			reason: "the controller may disarm a node",
			in:     with(func(o *policy.Observation) { o.Takeover = vip.Always; o.Annotation = policy.No }),
			want:   policy.Decision{Reason: "DisarmedByAnnotation"},
		},
		"manual": {
			reason: "only a user arms it",
			in: with(func(o *policy.Observation) {
				o.Takeover, o.Annotation, o.Silence, o.SilenceLimit = vip.Manual, policy.Yes, time.Hour, time.Minute
			}),
			want: policy.Decision{Reason: "WaitingForFile"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, policy.Decide(test.in)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", test.reason, diff)
			}
		})
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason           string
		standby          vip.Standby
		healthy, holding bool
		since            time.Duration
		want             bool
	}{
		"warm, well":                {reason: "Ironic is healthy", standby: vip.Warm, healthy: true, want: true},
		"warm, not well":            {reason: "a warm standby must be healthy before it claims the VIP", standby: vip.Warm},
		"warm, not well, new":       {reason: "a warm standby must be healthy before it claims the VIP", standby: vip.Warm, holding: true},
		"cold, elsewhere":           {reason: "Ironic does not run on this node yet", standby: vip.Cold, want: true},
		"cold, new holder":          {reason: "Ironic is starting", standby: vip.Cold, holding: true, since: time.Minute, want: true},
		"cold, not started":         {reason: "another node gets the VIP", standby: vip.Cold, holding: true, since: time.Hour},
		"cold, started":             {reason: "Ironic has started", standby: vip.Cold, healthy: true, holding: true, since: time.Hour, want: true},
		"unknown standby, not well": {reason: "counts as warm", standby: "Tepid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := policy.Fit(test.standby, test.healthy, test.holding, test.since); got != test.want {
				t.Errorf("%s: got %t", test.reason, got)
			}
		})
	}
}
