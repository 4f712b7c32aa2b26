package hostmove

import (
	"context"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// registrationTime is the time that BMO has to register a host after a Nudge. BMO works on few hosts at a time.
const registrationTime = 5 * time.Minute

// registration is a host that BMO has to register with another Ironic.
type registration struct {
	// holder is the VIP holder of the Nudge.
	holder string

	// since is when the host was seen first after the Nudge.
	since time.Time

	// repeated says that BMO was made to register the host again.
	repeated bool
}

// untilOverdue returns the time until BMO should have registered a host. Zero means that nothing is awaited.
func (r *Reconciler) untilOverdue(host *bmov1alpha1.BareMetalHost) time.Duration {
	awaited := r.registrationOf(host)
	if awaited.since.IsZero() || awaited.repeated {
		return 0
	}
	return max(0, registrationTime-r.Clock.Since(awaited.since))
}

// addRegistration adds the facts about the registration of a host.
func (r *Reconciler) addRegistration(host *bmov1alpha1.BareMetalHost, facts *pivot.HostFacts) {
	known := r.registrationOf(host)
	facts.Repeated = known.repeated
	facts.Overdue = !known.since.IsZero() && !known.repeated && r.Clock.Since(known.since) >= registrationTime
}

// registrationOf returns the registration that a host awaits. Nothing is awaited since the zero time.
func (r *Reconciler) registrationOf(host *bmov1alpha1.BareMetalHost) registration {
	key, holder := client.ObjectKeyFromObject(host), host.Annotations[infrav1.IronicHolderAnnotation]
	_, nudged := host.Annotations[infrav1.LastRegistrationAnnotation]
	awaits := pivot.AwaitsRegistration(host)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	known := r.registrations[key]
	switch {
	case !nudged, !awaits && !known.repeated:
		delete(r.registrations, key)
		return registration{}
	case known.holder != holder:
		known = registration{holder: holder, since: r.Clock.Now()}
		r.setRegistration(key, known)
	}
	return known
}

// setRegistration needs the lock.
func (r *Reconciler) setRegistration(key client.ObjectKey, known registration) {
	if r.registrations == nil {
		r.registrations = map[client.ObjectKey]registration{}
	}
	r.registrations[key] = known
}

// registerAgain makes BMO register a host again.
func (r *Reconciler) registerAgain(ctx context.Context, host *bmov1alpha1.BareMetalHost) error {
	if err := r.Credentials.Mark(ctx, host); err != nil {
		return err
	}
	known := r.registrationOf(host)
	known.repeated = true
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.setRegistration(client.ObjectKeyFromObject(host), known)
	return nil
}
