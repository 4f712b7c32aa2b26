package remediation_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
)

const (
	running = infrav1.RemediationRunning
	waiting = infrav1.RemediationWaiting
	gone    = infrav1.RemediationDeletingMachine
)

func at(seconds int64) *metav1.Time { return ptr.To(metav1.Unix(seconds, 0)) }

func TestRecall(t *testing.T) {
	kept := `{"phase":"Waiting","retryCount":2,"lastRemediated":"1970-01-01T00:16:40Z","fence":"Delete",` +
		`"fencedAt":"1970-01-01T00:16:50Z","afterOutage":true,"notRebooted":true}`
	status := func(phase infrav1.RemediationPhase) infrav1.Metal3RemediationStatus {
		return infrav1.Metal3RemediationStatus{Phase: phase, RetryCount: 1, LastRemediated: at(500)}
	}
	backup := map[string]string{infrav1.NodeLabelsBackupAnnotation: "{}"}
	cases := map[string]struct {
		reason      string
		annotations map[string]string
		status      infrav1.Metal3RemediationStatus
		created     *metav1.Time
		want        remediation.Record
	}{
		"New": {reason: "no try has begun"},
		"Annotation": {
			reason: "the annotation has precedence over the status, which a move drops", status: status(running),
			annotations: map[string]string{infrav1.RemediationAnnotation: kept},
			want: remediation.Record{
				Phase: waiting, RetryCount: 2, LastRemediated: at(1000), Fence: remediation.DeleteFence,
				FencedAt: at(1010), AfterOutage: true, NotRebooted: true,
			},
		},
		"Moved": {
			reason: "nothing happened to the host during the move", created: at(5000),
			annotations: map[string]string{infrav1.RemediationAnnotation: kept},
			want: remediation.Record{
				Phase: waiting, RetryCount: 2, LastRemediated: at(5000), Fence: remediation.DeleteFence,
				FencedAt: at(1010), AfterOutage: true, NotRebooted: true,
			},
		},
		"Broken": {
			reason:      "a user has edited the annotation",
			annotations: map[string]string{infrav1.RemediationAnnotation: "{"}, status: status(gone),
			want: remediation.Record{Phase: gone, RetryCount: 1, LastRemediated: at(500)},
		},
		"OfCAPM3": {
			reason: "CAPM3 may have set the taint", status: status(running),
			want: remediation.Record{Phase: running, RetryCount: 1, LastRemediated: at(500), Fence: remediation.TaintFence},
		},
		"OfCAPM3WithBackup": {
			reason: "CAPM3 has deleted the Node", status: status(waiting), annotations: backup,
			want: remediation.Record{Phase: waiting, RetryCount: 1, LastRemediated: at(500), Fence: remediation.DeleteFence},
		},
		"Failed": {reason: "CAPM3 does not retry; the host may be online", status: status(infrav1.RemediationFailed)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			request := &infrav1.Metal3Remediation{Status: tc.status}
			request.Annotations = tc.annotations
			if tc.created != nil {
				request.CreationTimestamp = *tc.created
			}
			got := remediation.Recall(request)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
			if err := got.Store(request); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, remediation.Recall(request)); diff != "" {
				t.Errorf("the stored record differs; -want +got:\n%s", diff)
			}
		})
	}
}

func TestNext(t *testing.T) {
	const timeout = 600 * time.Second
	try := func(phase infrav1.RemediationPhase, count int32, since int64) remediation.Record {
		return remediation.Record{Phase: phase, RetryCount: count, LastRemediated: at(since), Fence: remediation.TaintFence}
	}
	notRebooted := func(record remediation.Record) remediation.Record {
		record.NotRebooted = true
		return record
	}
	afterOutage := func(record remediation.Record) remediation.Record {
		record.AfterOutage = true
		return record
	}
	fenced := func(record remediation.Record) remediation.Record {
		record.FencedAt = at(1100)
		return record
	}
	cases := map[string]struct {
		reason    string
		record    remediation.Record
		now       int64
		unhealthy bool
		off       bool
		grace     time.Duration
		since     int64
		want      remediation.Record
		after     time.Duration
	}{
		"First": {
			reason: "no try has begun", now: 1000, unhealthy: true,
			want: remediation.Record{Phase: running, LastRemediated: at(1000)}, after: timeout,
		},
		"ByHand": {
			reason: "the first try requires no MachineHealthCheck", now: 1000,
			want: remediation.Record{Phase: running, LastRemediated: at(1000)}, after: timeout,
		},
		"GoesOn":  {reason: "before the timeout", record: try(running, 0, 1000), now: 1599, unhealthy: true, want: try(running, 0, 1000), after: time.Second},
		"Waits":   {reason: "before the timeout", record: try(waiting, 1, 1000), now: 1000, unhealthy: true, want: try(waiting, 1, 1000), after: timeout},
		"Retries": {reason: "one retry is left", record: try(waiting, 0, 1000), now: 1600, unhealthy: true, want: try(running, 1, 1600), after: timeout},
		"RetriesRunning": {
			reason: "a host that cannot be powered off also uses up a try", record: try(running, 1, 1000), now: 1600, unhealthy: true,
			want: try(running, 2, 1600), after: timeout,
		},
		"Escalates": {reason: "the limit is reached", record: try(waiting, 2, 1000), now: 1600, unhealthy: true, want: try(gone, 2, 1000)},
		"Limit shrank": {
			reason: "the strategy may change", record: try(running, 7, 1000), now: 1600, unhealthy: true, want: try(gone, 7, 1000),
		},
		"Healthy": {reason: "the MachineHealthCheck deletes the remediation", record: try(waiting, 2, 1000), now: 9999, want: try(waiting, 2, 1000)},
		"NeverOff": {
			reason: "the host could not be powered off", record: try(running, 0, 1000), now: 1600, unhealthy: true,
			want: notRebooted(try(running, 1, 1600)), after: timeout,
		},
		"NeverOn": {
			reason: "the host could not be powered on", record: notRebooted(try(waiting, 2, 1000)), now: 1600, unhealthy: true, off: true,
			want: notRebooted(try(gone, 2, 1000)),
		},
		"RebootedBefore": {
			reason: "an earlier try powered the host on again", record: try(waiting, 2, 1000), now: 1600, unhealthy: true, off: true,
			want: try(gone, 2, 1000),
		},
		"RebootedAtLast": {
			reason: "the last try powered the host on again", record: notRebooted(try(waiting, 2, 1000)), now: 1600, unhealthy: true,
			want: try(gone, 2, 1000),
		},
		"Grace": {
			reason: "the report of the MachineHealthCheck may be outdated", record: try(waiting, 2, 1000), now: 1600, unhealthy: true,
			grace: timeout, want: try(waiting, 2, 1000), after: timeout,
		},
		"GraceEnds": {
			reason: "the Machine is unhealthy for another reason than its Node", record: try(waiting, 2, 1000), now: 2200, unhealthy: true,
			grace: timeout, want: try(gone, 2, 1000),
		},
		"Outage": {
			reason: "nothing happened to the host while no manager ran", record: try(running, 2, 1000), now: 1701, unhealthy: true,
			since: 1600, want: afterOutage(try(running, 2, 1701)), after: timeout,
		},
		"OutageAgain": {
			reason: "a manager that restarts often would never end the try", record: afterOutage(try(running, 2, 1000)), now: 1701,
			unhealthy: true, since: 1600, want: afterOutage(try(gone, 2, 1000)),
		},
		"NextTryAfterOutage": {
			reason: "each try has its own outage and fence", record: fenced(afterOutage(try(waiting, 0, 1000))), now: 1600, unhealthy: true,
			want: try(running, 1, 1600), after: timeout,
		},
		"ShortOutage": {
			reason: "the manager ran at the timeout", record: try(running, 2, 1000), now: 1701, unhealthy: true,
			since: 1599, want: try(gone, 2, 1000),
		},
		"HealthyAfterOutage": {
			reason: "the Node must not count as down again", record: try(waiting, 2, 1000), now: 1701, since: 1700, want: try(waiting, 2, 1000),
		},
		"Escalated": {
			reason: "only the owner acts now", record: try(gone, 2, 1000), now: 9999, unhealthy: true, want: try(gone, 2, 1000),
		},
		"NoTime": {
			reason: "a record without a time counts as timed out", record: remediation.Record{Phase: waiting}, now: 1000, unhealthy: true,
			since: 1000, want: remediation.Record{Phase: running, RetryCount: 1, LastRemediated: at(1000)}, after: timeout,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, after := remediation.Next(remediation.Progress{
				Record: tc.record, Limits: remediation.Limits{Retries: 2, Timeout: timeout}, Unhealthy: tc.unhealthy,
				PoweredOn: !tc.off, Grace: tc.grace, Since: time.Unix(tc.since, 0), Now: time.Unix(tc.now, 0),
			})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
			if after != tc.after {
				t.Errorf("%s: holds for %s, want %s", tc.reason, after, tc.after)
			}
		})
	}
}

func TestResumed(t *testing.T) {
	held := remediation.Record{Phase: waiting, LastRemediated: at(1000)}
	if got := held.Resumed(time.Unix(5000, 0)); !got.LastRemediated.Equal(at(5000)) {
		t.Errorf("the time of the pause counts: %v", got)
	}
	if got := (remediation.Record{}).Resumed(time.Unix(5000, 0)); got.LastRemediated != nil {
		t.Errorf("no try has begun: %v", got)
	}
}

func TestLimitsOf(t *testing.T) {
	cases := map[string]struct {
		reason  string
		in      *infrav1.RemediationStrategy
		want    remediation.Limits
		blocked string
	}{
		"None": {reason: "CAPM3 hangs", want: remediation.Limits{Retries: 1, Timeout: 10 * time.Minute}},
		"Zero": {
			reason: "CAPM3 accepts a timeout of zero, and reboots without a pause",
			in:     &infrav1.RemediationStrategy{TimeoutSeconds: ptr.To[int32](0)},
			want:   remediation.Limits{Retries: 1, Timeout: 10 * time.Minute},
		},
		"Given": {
			reason: "both values apply",
			in:     &infrav1.RemediationStrategy{Type: "Reboot", RetryLimit: 3, TimeoutSeconds: ptr.To[int32](100)},
			want:   remediation.Limits{Retries: 3, Timeout: 100 * time.Second},
		},
		"Unknown": {
			reason: "field, value and remedy are named", in: &infrav1.RemediationStrategy{Type: "Reinstall"},
			blocked: `spec.strategy.type is "Reinstall". Set it to Reboot here and in the Metal3RemediationTemplate.`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, reached := remediation.LimitsOf(tc.in)
			if diff := cmp.Diff(tc.want, got); diff != "" || reached.Message != tc.blocked || reached.IsBlocked() != (tc.blocked != "") {
				t.Errorf("%s: %v\n-want +got:\n%s", tc.reason, reached, diff)
			}
		})
	}
}

// TestFenceLeft starts a fence at several times of a try of 600 seconds that began at 1000.
func TestFenceLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		fencedAt, now int64
		want          time.Duration
	}{
		"at the start":             {1000, 1000, 300 * time.Second},
		"later":                    {1400, 1400, 100 * time.Second},
		"at its half":              {1400, 1500, 0},
		"over":                     {1400, 1599, 0},
		"before a resumed try":     {400, 1000, 300 * time.Second},
		"at the end of a slow BMC": {1590, 1590, 5 * time.Second},
	} {
		record := remediation.Record{LastRemediated: at(1000), FencedAt: at(tc.fencedAt)}
		if got := record.FenceLeft(600*time.Second, time.Unix(tc.now, 0)); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}
