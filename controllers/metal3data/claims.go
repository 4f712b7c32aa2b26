package metal3data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

const (
	// ownerIndex finds claims of addresses by the UID or the name of their Metal3Data.
	ownerIndex = "metal3data"

	// recheckInterval is the default of Reconciler.RecheckInterval.
	recheckInterval = 10 * time.Second
)

// api is an API for claims of addresses.
type api interface {
	// kind of the claims.
	kind() string

	// objects returns a claim and a list of claims to read into.
	objects() (client.Object, client.ObjectList)

	// desired returns a claim of an address of a pool for a Cluster. The name of the Cluster may be empty. The metadata of
	// the claim has only the namespace and name.
	desired(key client.ObjectKey, pool hostdata.Pool, cluster string) client.Object

	// result reads the result of a claim: its address, or its failure and whether the failure is final.
	result(ctx context.Context, live client.Reader, claim client.Object) (hostdata.FoundClaim, error)

	// poolIsMissing returns true if the pool of a claim without a result does not exist.
	poolIsMissing(ctx context.Context, live client.Reader, claim client.Object, pool hostdata.Pool) (bool, error)
}

func apis() []api { return []api{metal3API{}, clusterAPI{}} }

func apiOf(pool hostdata.Pool) api {
	if pool.IsMetal3() {
		return metal3API{}
	}
	return clusterAPI{}
}

func (r *Reconciler) recheckInterval() time.Duration {
	return cmp.Or(r.RecheckInterval, recheckInterval)
}

// claimAddress runs the next step of one claim. It stores the address in the scope.
func (r *Reconciler) claimAddress(ctx context.Context, s *scope, wanted hostdata.Claim) (outcome.Outcome, error) {
	through := apiOf(wanted.Pool)
	switch err := r.watch(ctx, through); {
	case meta.IsNoMatchError(err):
		return outcome.Waiting(infrav1.AddressManagerMissingReason, fmt.Sprintf(
			"%s refers to %s, but the kind %s is not installed. Install the provider of this pool.",
			wanted.Field, wanted.Pool, through.kind())).WithAfter(r.recheckInterval()), nil
	case errors.Is(err, errNotListed):
		return r.notListed(through), nil
	case err != nil:
		return outcome.Done(), fmt.Errorf("watching %ss: %w", through.kind(), err)
	}
	claim, found, err := r.find(ctx, s, through, wanted)
	if err != nil {
		return outcome.Done(), err
	}
	step := hostdata.Next(found)
	switch step {
	case hostdata.CreateClaim:
		return r.create(ctx, s, through, wanted)
	case hostdata.UseAddress:
		s.addresses[wanted.Pool] = *found.Address
		return outcome.Done(), nil
	case hostdata.DiscardClaim:
		err = r.delete(ctx, claim)
		// The end of a claim without an owner enqueues no data.
		return waiting(wanted, "Waiting for the unusable %s %s to be deleted", through.kind(), found.Name).
			WithAfter(r.recheckInterval()), err
	case hostdata.AwaitOther:
		return outcome.Waiting(infrav1.AddressConflictReason, fmt.Sprintf(
			"%s requires %s %s, which this Metal3Data does not own. Delete it if no machine uses its address.",
			wanted.Field, through.kind(), found.Name)).WithAfter(r.recheckInterval()), nil
	case hostdata.AwaitPool:
		return outcome.Waiting(infrav1.AddressConflictReason, fmt.Sprintf(
			"%s: %s %s got an address of %s instead of %s. Use pools with different names in a new Metal3DataTemplate.",
			wanted.Field, through.kind(), found.Name, found.OtherPool, wanted.Pool)), nil
	case hostdata.ReportFailure:
		return r.failed(wanted, through, found), nil
	default:
		return r.await(ctx, through, claim, wanted)
	}
}

// notListed returns the outcome while the cache does not hold the claims of an API.
func (r *Reconciler) notListed(through api) outcome.Outcome {
	return outcome.Waiting(infrav1.ClaimsNotListedReason, fmt.Sprintf(
		"%ss cannot be listed yet. Check that the manager has the permission to list and watch them, and read its log.",
		through.kind())).WithAfter(r.recheckInterval())
}

func waiting(wanted hostdata.Claim, format string, arguments ...any) outcome.Outcome {
	return outcome.Waiting(infrav1.WaitingForAddressReason,
		fmt.Sprintf("%s: ", wanted.Field)+fmt.Sprintf(format, arguments...))
}

// failed returns the outcome of a failed claim. It checks the claim again, because an address that is created or
// corrected after the claim names it enqueues no data.
func (r *Reconciler) failed(wanted hostdata.Claim, through api, found *hostdata.FoundClaim) outcome.Outcome {
	reached := outcome.Waiting(infrav1.AddressFailedReason, fmt.Sprintf(
		"%s: %s allocated no address for %s %s: %s. Correct or enlarge the pool, or delete machines that use it.",
		wanted.Field, wanted.Pool, through.kind(), found.Name, found.Failure))
	if found.Final {
		return reached.WithAfter(hostdata.RetryAfter - found.Age)
	}
	return reached.WithAfter(r.recheckInterval())
}

// await waits for the address manager. It checks whether the pool exists, because the address manager does not report a
// missing pool.
func (r *Reconciler) await(
	ctx context.Context, through api, claim client.Object, wanted hostdata.Claim,
) (outcome.Outcome, error) {
	missing, err := through.poolIsMissing(ctx, r.Live, claim, wanted.Pool)
	if err != nil {
		return outcome.Done(), fmt.Errorf("reading %s: %w", wanted.Pool, err)
	}
	if missing {
		return outcome.Waiting(infrav1.PoolMissingReason, fmt.Sprintf(
			"%s refers to %s, which does not exist. Create it, or use another pool in a new Metal3DataTemplate.",
			wanted.Field, wanted.Pool)), nil
	}
	return awaited(wanted, through, claim.GetName()), nil
}

// awaited returns the outcome of a claim without a result. The address manager of Metal3 reports an exhausted pool, and
// await reports a missing one. Most providers of the IPAM contract report both only in their log.
func awaited(wanted hostdata.Claim, through api, name string) outcome.Outcome {
	remedy := ""
	if pool := wanted.Pool; !pool.IsMetal3() {
		remedy = fmt.Sprintf(". If this lasts, check that %s.%s %s exists, is not paused and has free addresses, and read "+
			"the log of its provider.", pool.Kind, pool.Group, pool.Name)
	}
	return waiting(wanted, "Waiting for %s to allocate an address for %s %s%s", wanted.Pool, through.kind(), name, remedy)
}

// find reads the claim by each of its possible names. It returns nil if there is none.
func (r *Reconciler) find(
	ctx context.Context, s *scope, through api, wanted hostdata.Claim,
) (client.Object, *hostdata.FoundClaim, error) {
	var other client.Object
	for _, name := range append([]string{wanted.Name}, wanted.Others...) {
		claim, _ := through.objects()
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.data.Namespace, Name: name}, claim)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s %s: %w", through.kind(), name, err)
		}
		switch owner := ownerOf(s.data, claim); {
		case owner == hostdata.OwnedByData:
			return r.readResult(ctx, s, through, claim)
		case owner != hostdata.OwnedByPredecessor && name != wanted.Name:
			// A claim with another name must belong to the data.
		case other == nil:
			other = claim
		}
	}
	if other == nil {
		return nil, nil, nil
	}
	return r.readResult(ctx, s, through, other)
}

func (r *Reconciler) readResult(
	ctx context.Context, s *scope, through api, claim client.Object,
) (client.Object, *hostdata.FoundClaim, error) {
	found, err := through.result(ctx, r.Live, claim)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the address of %s %s: %w", through.kind(), claim.GetName(), err)
	}
	found.Name, found.Owner = claim.GetName(), ownerOf(s.data, claim)
	found.Deleting = !claim.GetDeletionTimestamp().IsZero()
	found.Age = r.Clock.Since(claim.GetCreationTimestamp().Time)
	r.dropCreated(s.data, through, claim.GetName())
	return claim, &found, nil
}

func ownerOf(data *infrav1.Metal3Data, claim client.Object) hostdata.Owner {
	if len(claim.GetOwnerReferences()) == 0 {
		return hostdata.OwnedByNone
	}
	for _, owner := range claim.GetOwnerReferences() {
		switch {
		case owner.UID == data.UID:
			return hostdata.OwnedByData
		case hostdata.IsInfra(owner, "Metal3Data") && owner.Name == data.Name:
			return hostdata.OwnedByPredecessor
		}
	}
	return hostdata.OwnedByOther
}

func (r *Reconciler) create(
	ctx context.Context, s *scope, through api, wanted hostdata.Claim,
) (outcome.Outcome, error) {
	claim := through.desired(client.ObjectKey{Namespace: s.data.Namespace, Name: wanted.Name}, wanted.Pool,
		s.data.Labels[clusterv1.ClusterNameLabel])
	claim.SetLabels(r.labels(s.data, wanted.Pool))
	claim.SetFinalizers([]string{infrav1.DataFinalizer})
	claim.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Data",
		Name: s.data.Name, UID: s.data.UID, Controller: ptr.To(true),
	}})
	r.recordCreated(s.data, through, wanted.Name)
	waits := awaited(wanted, through, wanted.Name)
	err := r.Client.Create(ctx, claim)
	if apierrors.IsAlreadyExists(err) {
		// The cache does not show the claim yet. The event of a claim with another owner does not enqueue the data.
		return waits.WithAfter(r.recheckInterval()), nil
	}
	if err != nil {
		return outcome.Done(), fmt.Errorf("creating %s %s: %w", through.kind(), wanted.Name, err)
	}
	return waits, nil
}

// labels returns the labels of the data, including that of its Cluster. With ByHostName, it adds two labels by which
// CAPM3 finds an IPClaim. It omits a name that is too long for a label value, because the API server would reject the
// IPClaim. This controller finds an IPClaim by its name and owner.
func (r *Reconciler) labels(data *infrav1.Metal3Data, pool hostdata.Pool) map[string]string {
	labels := maps.Clone(data.Labels)
	if !pool.IsMetal3() || !r.ByHostName {
		return labels
	}
	if labels == nil {
		labels = map[string]string{}
	}
	for key, value := range map[string]string{infrav1.DataNameLabel: data.Name, infrav1.PoolNameLabel: pool.Name} {
		if len(validation.IsValidLabelValue(value)) == 0 {
			labels[key] = value
		}
	}
	return labels
}

// recordCreated records a claim before its creation, so that it is released even if the cache does not show it.
func (r *Reconciler) recordCreated(data *infrav1.Metal3Data, through api, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.created == nil {
		r.created = sets.New[createdClaim]()
	}
	r.created.Insert(createdClaim{data.UID, through.kind(), name})
}

// dropCreated drops the record of a claim that the cache shows.
func (r *Reconciler) dropCreated(data *infrav1.Metal3Data, through api, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.created.Delete(createdClaim{data.UID, through.kind(), name})
}

// releaseAddresses deletes the claims of the data in both APIs.
func (r *Reconciler) releaseAddresses(ctx context.Context, s *scope) (outcome.Outcome, error) {
	reached := outcome.Done()
	var errs []error
	for _, through := range apis() {
		switch err := r.release(ctx, s, through); {
		case meta.IsNoMatchError(err):
			// The API is not installed.
		case errors.Is(err, errNotListed):
			reached = r.notListed(through)
		default:
			errs = append(errs, err)
		}
	}
	return reached, errors.Join(errs...)
}

func (r *Reconciler) release(ctx context.Context, s *scope, through api) error {
	if err := r.watch(ctx, through); err != nil {
		return err
	}
	data := client.ObjectKeyFromObject(s.data)
	err := r.each(ctx, through, data, string(s.data.UID), func(claim client.Object) error {
		r.dropCreated(s.data, through, claim.GetName())
		return r.delete(ctx, claim)
	})
	if err != nil {
		return err
	}
	return r.releaseUnseen(ctx, s, through)
}

// each calls a function for each cached claim of a Metal3Data. The owner is a value of ownerIndex.
func (r *Reconciler) each(
	ctx context.Context, through api, data client.ObjectKey, owner string, do func(claim client.Object) error,
) error {
	_, list := through.objects()
	err := r.Client.List(ctx, list, client.InNamespace(data.Namespace), client.MatchingFields{ownerIndex: owner})
	if err != nil {
		return fmt.Errorf("listing %ss of Metal3Data %s: %w", through.kind(), data.Name, err)
	}
	return meta.EachListItem(list, func(object runtime.Object) error {
		claim, isObject := object.(client.Object)
		if !isObject {
			return nil
		}
		return do(claim)
	})
}

// releaseUnseen deletes the claims that this process created and the cache has not shown. It reads them live.
func (r *Reconciler) releaseUnseen(ctx context.Context, s *scope, through api) error {
	r.mu.Lock()
	unseen := r.created.UnsortedList()
	r.mu.Unlock()
	for _, created := range unseen {
		if created.data != s.data.UID || created.api != through.kind() {
			continue
		}
		claim, _ := through.objects()
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.data.Namespace, Name: created.name}, claim)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading %s %s: %w", through.kind(), created.name, err)
		}
		if err == nil && ownerOf(s.data, claim) == hostdata.OwnedByData {
			if err := r.delete(ctx, claim); err != nil {
				return err
			}
		}
		r.dropCreated(s.data, through, created.name)
	}
	return nil
}

// delete deletes a claim and removes the finalizer of this controller, which releases the address. The API server
// accepts only one deletion, because the resourceVersion of a claim that is being deleted differs.
func (r *Reconciler) delete(ctx context.Context, claim client.Object) error {
	return flow.Discard(ctx, r.Client, claim, infrav1.DataFinalizer, true)
}
