package datastore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/datastore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/seed"
)

const (
	namespace = "metal3"
	template  = "template"
	claims    = 40
	steps     = 4000
)

var errBroken = errors.New("the connection broke")

// event is a change that a process has not seen yet.
type event struct {
	data    *infrav1.Metal3Data
	deleted bool
}

// process is a manager: a store, its undelivered events, and the objects in its cache by claim.
type process struct {
	store  *datastore.Store
	events []event
	cache  map[string]*infrav1.Metal3Data
}

// world is an API server with creates that fail before or after they happen, and one manager. The suite of
// controllers/metal3data compares it with a real API server: many claims at once, lost answers, two managers, a
// crash.
type world struct {
	t       *testing.T
	random  *rand.Rand
	server  client.WithWatch
	objects map[int32]*infrav1.Metal3Data
	active  *process
	// reliable lets every create succeed.
	reliable bool
}

func newWorld(t *testing.T, chosen uint64) *world {
	t.Helper()
	w := &world{t: t, random: rand.New(rand.NewPCG(chosen, 0)), objects: map[int32]*infrav1.Metal3Data{}}
	w.server = interceptor.NewClient(fake.NewClientBuilder().WithScheme(build.SharedScheme()).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			fault := w.random.IntN(6)
			if fault == 0 && !w.reliable {
				return errBroken
			}
			if err := c.Create(ctx, object, options...); err != nil {
				return err
			}
			w.created(object)
			if fault == 1 && !w.reliable {
				return errBroken
			}
			return nil
		},
	})
	w.restart()
	return w
}

// created records an object and checks that no claim has two.
func (w *world) created(object client.Object) {
	data, isData := object.(*infrav1.Metal3Data)
	if !isData {
		w.t.Fatalf("created %T", object)
	}
	w.objects[*data.Spec.Index] = data.DeepCopy()
	w.active.events = append(w.active.events, event{data: data.DeepCopy()})
	of := map[string]int{}
	for _, existing := range w.objects {
		of[existing.Spec.Claim.Name]++
	}
	for claim, count := range of {
		if count > 1 {
			w.t.Fatalf("claim %s has %d Metal3Data", claim, count)
		}
	}
}

// restart replaces the process by one that has listed all objects.
func (w *world) restart() {
	w.active = &process{store: datastore.New(w.server, w.server), cache: map[string]*infrav1.Metal3Data{}}
	for _, data := range w.objects {
		w.active.store.Show(data, false)
		w.active.cache[data.Spec.Claim.Name] = data
	}
}

// deliver delivers the oldest event to the process.
func (w *world) deliver() bool {
	p := w.active
	if len(p.events) == 0 {
		return false
	}
	next := p.events[0]
	p.events = p.events[1:]
	p.store.Show(next.data, next.deleted)
	if next.deleted {
		delete(p.cache, next.data.Spec.Claim.Name)
	} else {
		p.cache[next.data.Spec.Claim.Name] = next.data
	}
	return true
}

// serve is one reconcile of a claim.
func (w *world) serve(claim string) (*infrav1.Metal3Data, error) {
	if found := w.active.cache[claim]; found != nil {
		return found, nil
	}
	uid := types.UID(claim)
	owner := &infrav1.Metal3DataClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claim, UID: uid}}
	return w.active.store.Create(w.t.Context(), owner, &infrav1.Metal3Data{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3DataClaim", Name: claim, UID: uid,
		}}},
		Spec: infrav1.Metal3DataSpec{
			Template: &infrav1.Metal3ObjectRef{Name: template}, Claim: &infrav1.Metal3ObjectRef{Name: claim},
		},
	})
}

// release deletes a random object. Its claim then has no Metal3Data.
func (w *world) release() {
	indexes := slices.Sorted(maps.Keys(w.objects))
	if len(indexes) > 0 {
		index := indexes[w.random.IntN(len(indexes))]
		data := w.objects[index]
		if err := w.server.Delete(w.t.Context(), data.DeepCopy()); err != nil {
			w.t.Fatal(err)
		}
		delete(w.objects, index)
		w.active.events = append(w.active.events, event{data: data, deleted: true})
	}
}

func (w *world) step() {
	switch w.random.IntN(12) {
	case 0:
		w.release()
	case 1:
		if w.random.IntN(8) == 0 {
			w.restart()
		}
	case 2, 3, 4, 5:
		w.deliver()
	default:
		if _, err := w.serve(claimName(w.random.IntN(claims))); err != nil && !errors.Is(err, errBroken) {
			w.t.Fatal(err)
		}
	}
}

// TestOneDataForEachClaim lets creates fail before and after they happen, delays events, deletes objects and restarts
// the process. No claim ever gets two Metal3Data.
func TestOneDataForEachClaim(t *testing.T) {
	chosen := seed.Chosen()
	t.Logf("seed %d", chosen)
	w := newWorld(t, chosen)
	for range steps {
		w.step()
	}
	w.reliable = true
	for w.deliver() {
	}
	for claim := range claims {
		data, err := w.serve(claimName(claim))
		if err != nil {
			t.Fatal(err)
		}
		if data.Name != hostdata.Name(template, *data.Spec.Index) {
			t.Errorf("Metal3Data %s has index %d", data.Name, *data.Spec.Index)
		}
	}
	for w.deliver() {
	}
	for index := range w.objects {
		if index >= 2*claims {
			t.Errorf("index %d is in use by one of %d claims: gaps are not filled", index, claims)
		}
	}
}

// TestLowestFree creates Metal3Data one after the other and checks each index against all indexes in use.
func TestLowestFree(t *testing.T) {
	w := newWorld(t, seed.Chosen())
	w.reliable = true
	for step := range 500 {
		for w.deliver() {
		}
		if w.random.IntN(3) == 0 {
			w.release()
			continue
		}
		lowest := int32(0)
		for w.objects[lowest] != nil {
			lowest++
		}
		data, err := w.serve(fmt.Sprintf("step-%d", step))
		if err != nil {
			t.Fatal(err)
		}
		if *data.Spec.Index != lowest {
			t.Fatalf("got index %d, want the lowest free one, which is %d", *data.Spec.Index, lowest)
		}
	}
}

func claimName(number int) string { return fmt.Sprintf("claim-%d", number) }
