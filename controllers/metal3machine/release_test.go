package metal3machine

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func TestReleaseDataReadsUncachedObjects(t *testing.T) {
	s := complete(deleted, func(s *scope) {
		s.machine.UID = "machine"
		s.machine.Spec.DataTemplate = &infrav1.Metal3ObjectRef{Name: "template"}
	})
	claim := &infrav1.Metal3DataClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.machine.Namespace, Name: s.machine.Name, Finalizers: []string{infrav1.MachineFinalizer},
	}}
	stored := fake.NewClientBuilder().WithScheme(build.Scheme()).Build()
	r := &Reconciler{Reporter: flow.Reporter{Client: stored}, Live: stored}
	if err := r.own(s, claim); err != nil {
		t.Fatal(err)
	}
	if err := stored.Create(context.Background(), claim); err != nil {
		t.Fatal(err)
	}
	if got, err := r.releaseData(context.Background(), s); err != nil || !got.IsDone() {
		t.Fatalf("got %+v, %v", got, err)
	}
	if err := stored.Get(context.Background(), s.key(), claim); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want that the Metal3DataClaim is deleted", err)
	}
}
