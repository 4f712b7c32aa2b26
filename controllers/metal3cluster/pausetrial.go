package metal3cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

const (
	// trialsAtOnce is the least number of hosts that one reconcile tries to pause. It tries more after trialPause, and all
	// hosts in at most trialRounds: each reconcile judges all hosts, so rounds of a fixed size cost the square of their
	// number.
	trialsAtOnce = 50
	trialRounds  = 20
	trialPause   = 200 * time.Millisecond

	// refusalCounts is the time for which a refusal is valid. The webhook may change.
	refusalCounts = 10 * time.Second
)

// pauseTrials remember whether the API server accepts the pause of hosts: the webhook of BMO refuses every write of a
// host with contradicting fields.
type pauseTrials struct {
	mutex sync.Mutex
	// known are the results by the namespace and the UID of the host.
	known map[string]map[types.UID]pauseTrial
}

// pauseTrial is the result for one host.
type pauseTrial struct {
	// generation is that of the spec that was refused.
	generation int64

	// refusal is the error of the API server. Empty if it accepts the pause.
	refusal string
	at      time.Time
}

func (p *pauseTrials) of(host *bmov1alpha1.BareMetalHost, now time.Time) (trial pauseTrial, known bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	trial, known = p.known[host.Namespace][host.UID]
	isFresh := trial.generation == host.Generation && now.Sub(trial.at) < refusalCounts
	return trial, known && (trial.refusal == "" || isFresh)
}

func (p *pauseTrials) add(host *bmov1alpha1.BareMetalHost, trial pauseTrial) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.known == nil {
		p.known = map[string]map[types.UID]pauseTrial{}
	}
	if p.known[host.Namespace] == nil {
		p.known[host.Namespace] = map[types.UID]pauseTrial{}
	}
	p.known[host.Namespace][host.UID] = trial
}

// keep forgets the hosts of a namespace that are gone.
func (p *pauseTrials) keep(namespace string, hosts []*bmov1alpha1.BareMetalHost) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.known[namespace]) <= len(hosts) {
		return
	}
	kept := map[types.UID]pauseTrial{}
	for _, host := range hosts {
		if trial, known := p.known[namespace][host.UID]; known {
			kept[host.UID] = trial
		}
	}
	p.known[namespace] = kept
}

// tryPauses tries the pause of hosts with a dry run on the API server. A host that was accepted is not tried again: the
// API server accepts each later change of it by the same rules.
func (r *Reconciler) tryPauses(ctx context.Context, s *scope) error {
	left := max(trialsAtOnce, len(s.move.Hosts)/trialRounds)
	r.trials.keep(s.infra.Namespace, s.move.Hosts)
	for _, host := range s.move.Hosts {
		if !pivot.ToPark(host) {
			continue
		}
		trial, known := r.trials.of(host, r.Clock.Now())
		if !known {
			if left--; left < 0 {
				s.move.Untried = true
				return nil
			}
			var err error
			if trial, err = r.tryPause(ctx, host); err != nil {
				return err
			}
			r.trials.add(host, trial)
		}
		if trial.refusal != "" {
			s.move.Refuse(host, trial.refusal)
		}
	}
	return nil
}

// tryPause tries the pause of a host. A host that is gone is accepted, and so is one with a webhook that allows no dry
// run. It returns an error that is unrelated to the host.
func (r *Reconciler) tryPause(ctx context.Context, host *bmov1alpha1.BareMetalHost) (pauseTrial, error) {
	trial := pauseTrial{generation: host.Generation, at: r.Clock.Now()}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`,
		bmov1alpha1.PausedAnnotation, infrav1.HostPausedByProvider)
	tried := &bmov1alpha1.BareMetalHost{}
	tried.Namespace, tried.Name = host.Namespace, host.Name
	err := r.Client.Patch(ctx, tried, client.RawPatch(types.MergePatchType, patch), client.DryRunAll)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsInternalError(err):
		trial.refusal = err.Error()
	case client.IgnoreNotFound(err) != nil && !apierrors.IsBadRequest(err):
		return trial, fmt.Errorf("trying to pause BareMetalHost %s: %w", host.Name, err)
	}
	return trial, nil
}
