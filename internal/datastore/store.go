package datastore

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
)

const (
	// claimIndex finds Metal3Data by the name of the claim that they answer.
	claimIndex = "spec.claim.name"

	// templateIndex finds Metal3Data and Metal3DataClaims by the name of their template.
	templateIndex = "spec.template.name"
)

// Store finds and creates Metal3Data.
type Store struct {
	client client.Client
	live   client.Reader

	ledger ledger
	synced func() bool
}

// New returns a store that reads through a client with a cache. Setup must run before the cache starts.
func New(c client.Client, live client.Reader) *Store {
	return &Store{client: c, live: live, synced: func() bool { return false }}
}

// Setup registers the indexes that the store reads through and makes it follow the Metal3Data of a cache.
func (s *Store) Setup(ctx context.Context, indexer client.FieldIndexer, informers cache.Informers) error {
	if err := errors.Join(
		indexer.IndexField(ctx, &infrav1.Metal3Data{}, claimIndex, byClaim),
		indexer.IndexField(ctx, &infrav1.Metal3Data{}, templateIndex, byTemplate),
		indexer.IndexField(ctx, &infrav1.Metal3DataClaim{}, templateIndex, byTemplate),
	); err != nil {
		return fmt.Errorf("setting up the indexes for Metal3Data: %w", err)
	}
	informer, err := informers.GetInformer(ctx, &infrav1.Metal3Data{})
	if err != nil {
		return fmt.Errorf("watching Metal3Data: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { observe(object, s.ledger.seen) },
		UpdateFunc: func(_, object any) { observe(object, s.ledger.seen) },
		DeleteFunc: func(object any) { observe(object, s.ledger.gone) },
	})
	if err != nil {
		return fmt.Errorf("watching Metal3Data: %w", err)
	}
	s.synced = registration.HasSynced
	return nil
}

func observe(object any, note func(*infrav1.Metal3Data)) {
	if last, isLast := object.(toolscache.DeletedFinalStateUnknown); isLast {
		object = last.Obj
	}
	if data, isData := object.(*infrav1.Metal3Data); isData {
		note(data)
	}
}

func byClaim(object client.Object) []string {
	if data, isData := object.(*infrav1.Metal3Data); isData && data.Spec.Claim != nil {
		return []string{data.Spec.Claim.Name}
	}
	return nil
}

func byTemplate(object client.Object) []string {
	if name := hostdata.TemplateOf(object); name != "" {
		return []string{name}
	}
	return nil
}

// Synced returns true once the memory holds all Metal3Data that existed at the start.
func (s *Store) Synced() bool { return s.synced() }

// OfClaim returns the Metal3Data that name a claim. They are read-only.
func (s *Store) OfClaim(ctx context.Context, claim client.ObjectKey) ([]*infrav1.Metal3Data, error) {
	return s.data(ctx, claim.Namespace, client.MatchingFields{claimIndex: claim.Name})
}

// OfTemplate returns the Metal3Data that name a template. They are read-only.
func (s *Store) OfTemplate(ctx context.Context, template client.ObjectKey) ([]*infrav1.Metal3Data, error) {
	return s.data(ctx, template.Namespace, client.MatchingFields{templateIndex: template.Name})
}

func (s *Store) data(
	ctx context.Context, namespace string, fields client.MatchingFields,
) ([]*infrav1.Metal3Data, error) {
	var list infrav1.Metal3DataList
	err := s.client.List(ctx, &list, client.InNamespace(namespace), fields, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing Metal3Data: %w", err)
	}
	return pointers(list.Items), nil
}

// ClaimsOf returns the claims of a template. They are read-only.
func (s *Store) ClaimsOf(ctx context.Context, template client.ObjectKey) ([]*infrav1.Metal3DataClaim, error) {
	var list infrav1.Metal3DataClaimList
	err := s.client.List(ctx, &list, client.InNamespace(template.Namespace),
		client.MatchingFields{templateIndex: template.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing Metal3DataClaims: %w", err)
	}
	return pointers(list.Items), nil
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}

// Create creates the Metal3Data for a claim with the lowest free index of its template. The desired object must name
// both, and gets its name and index here. Create returns an existing object if an earlier create for the claim
// succeeded although its answer was lost.
func (s *Store) Create(
	ctx context.Context, claim *infrav1.Metal3DataClaim, desired *infrav1.Metal3Data,
) (*infrav1.Metal3Data, error) {
	for {
		created := desired.DeepCopy()
		s.ledger.reserve(created)
		err := s.client.Create(ctx, created)
		if err == nil {
			return created, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("creating Metal3Data %s: %w", created.Name, err)
		}
		existing := &infrav1.Metal3Data{}
		err = s.live.Get(ctx, client.ObjectKeyFromObject(created), existing)
		switch {
		case apierrors.IsNotFound(err):
			s.ledger.cancel(claimOf(created))
		case err != nil:
			return nil, fmt.Errorf("reading Metal3Data %s: %w", created.Name, err)
		case hostdata.Answers(claim, existing):
			return existing, nil
		default:
			s.ledger.lost(claimOf(created))
		}
	}
}

// Forget drops the reservation of a deleted claim.
func (s *Store) Forget(claim client.ObjectKey) { s.ledger.cancel(claim) }
