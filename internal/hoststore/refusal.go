package hoststore

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unique"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A policy may refuse the claims of all machines on all hosts. Each refusal therefore pauses the machine and the host.
const (
	// hostPause is the time until another machine may claim a host after a refusal.
	hostPause = time.Second

	// firstPause is the time until the next claim of a machine after each of its firstRefusals, because the webhook of
	// BMO may refuse some hosts only. It doubles with each further refusal, up to lastPause.
	firstPause    = time.Second
	firstRefusals = 10
	lastPause     = time.Minute
)

// pause is the time until the next claim of a machine, its end, and the refusals so far.
type pause struct {
	length   time.Duration
	end      time.Time
	refusals int
}

// next returns the pause after another refusal.
func (p pause) next(now time.Time) pause {
	length := firstPause
	if p.refusals >= firstRefusals {
		length = min(2*p.length, lastPause)
	}
	return pause{length: length, end: now.Add(length), refusals: p.refusals + 1}
}

// Refusal is the error of a write that a permission, an admission policy, a webhook or the schema refused. A repeated
// write fails until one of them or the host changes.
type Refusal struct{ error }

// Unwrap returns the cause.
func (r Refusal) Unwrap() error { return r.error }

// IsRefusal returns true if the error of Write is a Refusal.
func IsRefusal(err error) bool {
	var refusal Refusal
	return errors.As(err, &refusal)
}

func describeRefusal(current, desired *bmov1alpha1.BareMetalHost, err error) error {
	if apierrors.IsForbidden(err) && len(desired.OwnerReferences) < len(current.OwnerReferences) {
		return fmt.Errorf("removing ownerReferences of BareMetalHost %s, which requires the permission to delete "+
			"BareMetalHosts where the API server guards owners: %w", current.Name, err)
	}
	return fmt.Errorf("writing BareMetalHost %s: %w", current.Name, err)
}

// refused ends a claim that the API server refused. After the pause of the host, the next machine may claim it.
func (s *Store) refused(ctx context.Context, current, desired *bmov1alpha1.BareMetalHost, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.assumed.refuse(current, desired, cause) {
		s.assumed.clock.AfterFunc(hostPause, func() { s.resume(ctx, client.ObjectKeyFromObject(current)) })
	}
}

// resume offers a host to the next machine after its pause.
func (s *Store) resume(ctx context.Context, key Key) {
	if current := s.cached(ctx, key); current != nil {
		s.offerNext(current, s.gained(key.Namespace))
	}
}

// gained records that a machine of a namespace may find a host, and returns the sequence number.
func (s *Store) gained(namespace string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.waitlists[namespace]
	if list == nil {
		return 0
	}
	list.recordChange(true)
	return list.sequence
}

// startOver lets a machine claim hosts that refused it.
func (s *Store) startOver(machine Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assumed.startOver(machine)
	s.waitlist(machine.Namespace).recordChange(true)
}

// isPaused returns true if no machine may claim a host because of a refusal.
func (a *assumeCache) isPaused(known facts) bool { return a.clock.Now().Before(known.resumes) }

// retryAfter returns the time until a machine may claim a host after a refusal. Zero means now.
func (a *assumeCache) retryAfter(machine Key) time.Duration {
	return max(0, a.pauses[machine].end.Sub(a.clock.Now()))
}

// startOver drops the refusals of a machine by the hosts that are not paused. It does not shorten the next pause of the
// machine.
func (a *assumeCache) startOver(machine Key) {
	for key, known := range a.hosts {
		if !a.isPaused(known) {
			delete(known.refusals, machine)
			a.store(key, known)
		}
	}
}

// refuse pauses a machine and a host after the API server refused a claim, and ends the assumption. It returns true if
// the write was a claim.
func (a *assumeCache) refuse(current, desired *bmov1alpha1.BareMetalHost, cause error) (wasClaim bool) {
	key := client.ObjectKeyFromObject(current)
	known := a.hosts[key]
	if known.isConsumed(current) || !known.isConsumed(desired) {
		return false
	}
	a.pauses[known.machine] = a.pauses[known.machine].next(a.clock.Now())
	if known.refusals == nil || known.refused != current.ResourceVersion {
		known.refusals = map[Key]unique.Handle[string]{}
	}
	known.refusals[known.machine] = unique.Make(cause.Error())
	known.refused, known.resumes = current.ResourceVersion, a.clock.Now().Add(hostPause)
	a.store(key, known)
	a.end(key)
	return true
}
