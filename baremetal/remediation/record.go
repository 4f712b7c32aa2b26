package remediation

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Fence prevents pods from running on the Node of a host that is powered off. The remediation must undo it.
type Fence string

// Values of Fence.
const (
	// NoFence means that no fence must be undone.
	NoFence Fence = ""

	// TaintFence is the taint node.kubernetes.io/out-of-service on the Node.
	TaintFence Fence = "Taint"

	// DeleteFence is the deletion of the Node. The Metal3Remediation keeps its annotations and labels.
	DeleteFence Fence = "Delete"
)

// Record is the progress of a remediation.
type Record struct {
	// Phase is empty before the first try.
	Phase infrav1.RemediationPhase `json:"phase,omitempty"`

	// RetryCount is the number of tries after the first one.
	RetryCount int32 `json:"retryCount,omitempty"`

	// LastRemediated is the start of the try. Nil before the first try.
	LastRemediated *metav1.Time `json:"lastRemediated,omitempty"`

	// Fence is the fence of the Node.
	Fence Fence `json:"fence,omitempty"`

	// FencedAt is when the try began to fence the Node. Nil before.
	FencedAt *metav1.Time `json:"fencedAt,omitempty"`

	// AfterOutage says that the try began again because no manager ran at its timeout.
	AfterOutage bool `json:"afterOutage,omitempty"`

	// NotRebooted says that no earlier try powered the host on again. Next sets it at the end of each try.
	NotRebooted bool `json:"notRebooted,omitempty"`
}

// Recall returns the record of a remediation.
//
//	annotation   status                  record
//	readable     any                     the annotation
//	other        Running or Waiting      the status, as CAPM3 leaves it, and the fence of CAPM3
//	other        Deleting machine        the status
//	other        none, Failed            no try has begun
//
// An object that is younger than its try was moved: the try begins again, because nothing happened during the move.
func Recall(request *infrav1.Metal3Remediation) Record {
	var record Record
	text := request.Annotations[infrav1.RemediationAnnotation]
	if json.Unmarshal([]byte(text), &record) != nil {
		record = recallStatus(request)
	}
	if created := request.CreationTimestamp; record.LastRemediated != nil && record.LastRemediated.Before(&created) {
		record.LastRemediated = &created
	}
	return record
}

func recallStatus(request *infrav1.Metal3Remediation) Record {
	status := request.Status
	record := Record{Phase: status.Phase, RetryCount: status.RetryCount, LastRemediated: status.LastRemediated}
	switch status.Phase {
	case infrav1.RemediationRunning, infrav1.RemediationWaiting:
		record.Fence = TaintFence
		if hasBackup(request) {
			record.Fence = DeleteFence
		}
		return record
	case infrav1.RemediationDeletingMachine:
		return record
	default:
		return Record{}
	}
}

// Store writes the record to the annotation.
func (r Record) Store(request *infrav1.Metal3Remediation) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&request.ObjectMeta, infrav1.RemediationAnnotation, string(text))
	return nil
}

// Left returns the time until the timeout of the try, and zero after it.
func (r Record) Left(timeout time.Duration, now time.Time) time.Duration {
	if r.LastRemediated == nil {
		return 0
	}
	return max(0, r.LastRemediated.Add(timeout).Sub(now))
}

// FenceLeft returns the time for which the host stays off until its Node is fenced: half of the time that the try has
// left when the fence begins.
func (r Record) FenceLeft(timeout time.Duration, now time.Time) time.Duration {
	return max(0, r.Left(timeout, now)-min(timeout, r.Left(timeout, r.FencedAt.Time))/2)
}

// Progress has the facts that decide whether a try continues.
type Progress struct {
	Record Record
	Limits Limits

	// Unhealthy says that a MachineHealthCheck reports the Machine as unhealthy.
	Unhealthy bool

	// PoweredOn says that the host is powered on, and that no restart of it is requested.
	PoweredOn bool

	// Grace is the time for which the try continues after its timeout.
	Grace time.Duration

	// Since is when this manager began to reconcile.
	Since time.Time

	Now time.Time
}

// Next returns the record for this time, and the time until it changes. Zero means until an event.
//
//	phase               timeout       Machine     retries   next
//	none                                                    the first try begins
//	Running, Waiting    before        any                   the try continues
//	Running, Waiting    after         healthy               the try continues: its MachineHealthCheck ends it
//	Running, Waiting    before Since  unhealthy             its time begins again, once: no manager ran at its end
//	Running, Waiting    in Grace      unhealthy             the try continues
//	Running, Waiting    after both    unhealthy   left      the next try begins
//	Running, Waiting    after both    unhealthy   none      Deleting machine
//	Deleting machine                                        stays
func Next(progress Progress) (Record, time.Duration) {
	record, timeout := progress.Record, progress.Limits.Timeout
	switch {
	case record.Phase == infrav1.RemediationDeletingMachine:
		return record, 0
	case record.Phase == "":
	case progress.Unhealthy && !record.AfterOutage && record.LastRemediated != nil &&
		record.Left(timeout, progress.Since) == 0:
		record = record.Resumed(progress.Now)
		record.AfterOutage = true
		return record, timeout
	case record.Left(timeout+progress.Grace, progress.Now) > 0 || !progress.Unhealthy:
		return record, record.Left(timeout+progress.Grace, progress.Now)
	case record.RetryCount >= progress.Limits.Retries:
		record.NotRebooted = progress.notRebooted()
		record.Phase = infrav1.RemediationDeletingMachine
		return record, 0
	default:
		record.NotRebooted = progress.notRebooted()
		record.RetryCount++
		record.FencedAt, record.AfterOutage = nil, false
	}
	record.Phase = infrav1.RemediationRunning
	record.LastRemediated = &metav1.Time{Time: progress.Now.Truncate(time.Second)}
	return record, timeout
}

// notRebooted returns NotRebooted at the end of a try. The field is missing in a record of an earlier version.
func (p Progress) notRebooted() bool {
	rebooted := p.Record.Phase == infrav1.RemediationWaiting && p.PoweredOn
	return !rebooted && (p.Record.NotRebooted || p.Record.RetryCount == 0)
}

// Resumed returns the record of a remediation that was paused: the time of its try begins again.
func (r Record) Resumed(now time.Time) Record {
	if r.LastRemediated != nil {
		r.LastRemediated = &metav1.Time{Time: now.Truncate(time.Second)}
	}
	return r
}
