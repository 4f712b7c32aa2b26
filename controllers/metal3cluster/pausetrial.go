package metal3cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

const (
	// trialsAtOnce is the least number of hosts that one reconcile tries to pause. It tries more after trialPause, and all
	// hosts in at most trialRounds: each reconcile reads all hosts, so rounds of a fixed size cost the square of their
	// number.
	trialsAtOnce = 50
	trialRounds  = 20
	trialPause   = 200 * time.Millisecond

	// refusalCounts is the time for which a first refusal is valid, because the webhook may change. The time doubles with
	// each further refusal, up to refusalLimit.
	refusalCounts = 10 * time.Second
	refusalLimit  = 10 * time.Minute

	// sampleEvery is the time between two samples of accepted hosts, and sampleSize their number: an upgraded BMO may have
	// stricter rules, and a trial of all hosts costs a request for each. The other two apply while clusterctl waits.
	sampleEvery, sampleSize             = 5 * time.Minute, 1
	sampleEveryAtGate, sampleSizeAtGate = 5 * time.Second, 5

	// hostDefinition is the name of the CRD of hosts. An upgrade of BMO often changes it.
	hostDefinition = "baremetalhosts.metal3.io"
)

// pauseTrials records whether the API server accepts the pause of hosts: the webhook of BMO refuses every write of a
// host with contradicting fields.
type pauseTrials struct {
	mutex sync.Mutex
	known map[string]*namespaceTrials
}

// namespaceTrials has the trials of the hosts of a namespace.
type namespaceTrials struct {
	// known are the results by the UID of the host.
	known map[types.UID]pauseTrial

	// sampled is the time of the last sample of accepted hosts.
	sampled time.Time

	// definition is the generation of the CRD of hosts. 0 if unknown.
	definition int64
}

// pauseTrial is the result for one host.
type pauseTrial struct {
	// generation is the generation of the host at the trial.
	generation int64

	// refusal is the error of the API server. Empty if it accepts the pause. A refusal is valid for the time counts.
	refusal string
	counts  time.Duration
	at      time.Time

	// isOutdated is true for a host that was accepted by rules that have changed since.
	isOutdated bool
}

// dueHosts are the hosts that can be tried.
type dueHosts struct {
	// first were never tried, retry must be tried again, and accepted may be tried again.
	first, retry, accepted []*bmov1alpha1.BareMetalHost

	// next is the time until the first refusal expires. 0 means never.
	next time.Duration
}

// due returns the hosts that can be tried. The first matching row applies.
//
//	host                                            is tried
//	a move does not pause it                        no
//	was never tried                                 yes
//	was accepted by rules that have changed         yes
//	was refused, and its spec has changed           yes
//	was refused                                     when the refusal expires
//	was accepted, and is busy while clusterctl      no
//	waits
//	was accepted                                    if sample returns it
func (n *namespaceTrials) due(hosts []*bmov1alpha1.BareMetalHost, atGate bool, now time.Time) (due dueHosts) {
	for _, host := range hosts {
		if !pivot.ToPark(host) {
			continue
		}
		trial, known := n.known[host.UID]
		switch left := trial.at.Add(trial.lasts(atGate)).Sub(now); {
		case !known:
			due.first = append(due.first, host)
		case trial.isOutdated, trial.refusal != "" && (left <= 0 || trial.generation != host.Generation):
			due.retry = append(due.retry, host)
		case trial.refusal != "":
			due.next = flow.Soonest(due.next, left)
		case !atGate || pivot.Delays(host) == "":
			due.accepted = append(due.accepted, host)
		}
	}
	return due
}

// sample returns the accepted hosts with the oldest trials, and the time until the next sample.
func (n *namespaceTrials) sample(
	accepted []*bmov1alpha1.BareMetalHost, atGate bool, now time.Time,
) ([]*bmov1alpha1.BareMetalHost, time.Duration) {
	every, size := sampleEvery, sampleSize
	if atGate {
		every, size = sampleEveryAtGate, sampleSizeAtGate
	}
	left := n.sampled.Add(every).Sub(now)
	switch {
	case len(accepted) == 0:
		return nil, 0
	case left > 0:
		return nil, left
	}
	slices.SortStableFunc(accepted, func(a, b *bmov1alpha1.BareMetalHost) int {
		return n.known[a.UID].at.Compare(n.known[b.UID].at)
	})
	return accepted[:min(size, len(accepted))], every
}

// lasts returns the time for which a refusal is valid.
func (t pauseTrial) lasts(atGate bool) time.Duration {
	if atGate {
		return min(t.counts, refusalCounts)
	}
	return t.counts
}

// add records a result. If the API server refuses a host that it has accepted before, its rules have changed. The
// results of all accepted hosts are outdated then.
func (n *namespaceTrials) add(host *bmov1alpha1.BareMetalHost, trial pauseTrial) {
	before, known := n.known[host.UID]
	if trial.refusal != "" {
		trial.counts = min(refusalLimit, max(refusalCounts, 2*before.counts)) //nolint:mnd // Doubles.
		if before.generation != trial.generation {
			trial.counts = refusalCounts
		}
	}
	if known && before.refusal == "" && trial.refusal != "" && !before.isOutdated {
		n.recheck()
	}
	n.known[host.UID] = trial
}

// recheck marks the results of accepted hosts as outdated.
func (n *namespaceTrials) recheck() {
	for uid, trial := range n.known {
		trial.isOutdated = trial.refusal == ""
		n.known[uid] = trial
	}
}

// keep removes the results of other hosts.
func (n *namespaceTrials) keep(hosts []*bmov1alpha1.BareMetalHost) {
	if len(n.known) <= len(hosts) {
		return
	}
	kept := map[types.UID]pauseTrial{}
	for _, host := range hosts {
		if trial, known := n.known[host.UID]; known {
			kept[host.UID] = trial
		}
	}
	n.known = kept
}

// of returns the trials of a namespace. The mutex must be locked.
func (p *pauseTrials) of(namespace string) *namespaceTrials {
	if p.known == nil {
		p.known = map[string]*namespaceTrials{}
	}
	if p.known[namespace] == nil {
		p.known[namespace] = &namespaceTrials{known: map[types.UID]pauseTrial{}}
	}
	return p.known[namespace]
}

func (p *pauseTrials) plan(s *scope, now time.Time) []*bmov1alpha1.BareMetalHost {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	trials := p.of(s.infra.Namespace)
	trials.keep(s.move.Hosts)
	if trials.definition != 0 && trials.definition != s.hostDefinition {
		trials.recheck()
	}
	trials.definition = s.hostDefinition
	if len(trials.known) == 0 {
		trials.sampled = now
	}
	due := trials.due(s.move.Hosts, s.waitsAtGate(), now)
	sample, _ := trials.sample(due.accepted, s.waitsAtGate(), now)
	if len(sample) > 0 {
		trials.sampled = now
	}
	limit := max(trialsAtOnce, len(s.move.Hosts)/trialRounds)
	tried := slices.Concat(due.first, due.retry)
	s.move.Untried = len(due.first) > limit
	return slices.Concat(tried[:min(limit, len(tried))], sample)
}

// next returns the time until the next trial. 0 means never.
func (p *pauseTrials) next(s *scope, now time.Time) time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	trials := p.of(s.infra.Namespace)
	due := trials.due(s.move.Hosts, s.waitsAtGate(), now)
	if len(due.first)+len(due.retry) > 0 {
		return trialPause
	}
	_, next := trials.sample(due.accepted, s.waitsAtGate(), now)
	return flow.Soonest(next, due.next)
}

func (p *pauseTrials) add(host *bmov1alpha1.BareMetalHost, trial pauseTrial) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.of(host.Namespace).add(host, trial)
}

// refusal returns the error of the API server for a host. Empty if it accepts the pause, or the pause was not tried.
func (p *pauseTrials) refusal(host *bmov1alpha1.BareMetalHost) string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.of(host.Namespace).known[host.UID].refusal
}

// tryPauses tries the pause of due hosts with a dry run on the API server.
func (r *Reconciler) tryPauses(ctx context.Context, s *scope) error {
	for _, host := range r.trials.plan(s, r.Clock.Now()) {
		trial, err := r.tryPause(ctx, host)
		if err != nil {
			return err
		}
		r.trials.add(host, trial)
	}
	s.untilTrial = r.trials.next(s, r.Clock.Now())
	for _, host := range s.move.Hosts {
		if refusal := r.trials.refusal(host); refusal != "" && pivot.ToPark(host) {
			s.move.Refuse(host, refusal)
		}
	}
	return nil
}

// tryPause tries the pause of a host. A deleted host counts as accepted, and so does any host if the webhook supports
// no dry run. It returns only errors that are unrelated to the host.
func (r *Reconciler) tryPause(ctx context.Context, host *bmov1alpha1.BareMetalHost) (pauseTrial, error) {
	trial := pauseTrial{generation: host.Generation, at: r.Clock.Now()}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`,
		bmov1alpha1.PausedAnnotation, infrav1.HostPausedByProvider)
	// The API server sends only the metadata of the host, which costs less than the whole host.
	tried := &metav1.PartialObjectMetadata{}
	tried.Namespace, tried.Name = host.Namespace, host.Name
	tried.SetGroupVersionKind(bmov1alpha1.GroupVersion.WithKind("BareMetalHost"))
	err := r.Client.Patch(ctx, tried, client.RawPatch(types.MergePatchType, patch), client.DryRunAll)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsInternalError(err):
		trial.refusal = err.Error()
	case client.IgnoreNotFound(err) != nil && !apierrors.IsBadRequest(err):
		return trial, fmt.Errorf("trying to pause BareMetalHost %s: %w", host.Name, err)
	}
	return trial, nil
}
