package handover_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/handover"
)

// server is an API server that counts writes, and fails with a given error.
type server struct {
	client client.Client
	writes int
	fail   error
}

func newServer(objects ...client.Object) *server {
	s := &server{}
	s.client = fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption,
		) error {
			s.writes++
			if s.fail != nil {
				return s.fail
			}
			return c.Patch(ctx, object, patch, options...)
		},
	}).Build()
	return s
}

func notice(data map[string]string) *corev1.ConfigMap {
	object := &corev1.ConfigMap{Data: data}
	object.Namespace, object.Name = handover.Namespace, handover.Name
	return object
}

func TestTell(t *testing.T) {
	s := newServer(notice(map[string]string{"other": "true", "c1": "true"}))
	n := handover.New(s.client)
	for step, tc := range []struct {
		handedOver bool
		want       map[string]string
		writes     int
	}{
		{false, map[string]string{"other": "true"}, 1},
		{false, map[string]string{"other": "true"}, 1},
		{true, map[string]string{"other": "true", "c1": "true"}, 2},
		{true, map[string]string{"other": "true", "c1": "true"}, 2},
		{false, map[string]string{"other": "true"}, 3},
	} {
		if err := n.Tell(t.Context(), "c1", tc.handedOver); err != nil {
			t.Fatal(err)
		}
		var stored corev1.ConfigMap
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(notice(nil)), &stored); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, stored.Data); diff != "" || s.writes != tc.writes {
			t.Errorf("step %d: %d writes, want %d; -want +got:\n%s", step, s.writes, tc.writes, diff)
		}
	}
}

// TestTellAgain replaces the ConfigMap by one that has other data than the last write.
func TestTellAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(notice(map[string]string{"c1": "true"}))
		n := handover.New(s.client)
		tell := func(handedOver bool) {
			t.Helper()
			if err := n.Tell(t.Context(), "c1", handedOver); err != nil {
				t.Fatal(err)
			}
		}
		replace := func(data map[string]string) {
			t.Helper()
			if err := s.client.Delete(t.Context(), notice(nil)); err != nil {
				t.Fatal(err)
			}
			if data == nil {
				return
			}
			if err := s.client.Create(t.Context(), notice(data)); err != nil {
				t.Fatal(err)
			}
		}
		want := func(reason string, data map[string]string) {
			t.Helper()
			stored := notice(nil)
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(data, stored.Data, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", reason, diff)
			}
		}

		tell(false)
		replace(nil)
		tell(true)
		if err := s.client.Create(t.Context(), notice(map[string]string{"c1": "true"})); err != nil {
			t.Fatal(err)
		}
		tell(false)
		want("the ConfigMap was missing in between, so the earlier value may be outdated", nil)

		tell(true)
		replace(map[string]string{"other": "true"})
		<-time.After(10 * time.Minute)
		tell(true)
		want("the ConfigMap was replaced", map[string]string{"other": "true", "c1": "true"})
	})
}

// TestTellBeforeTheConfigMapExists installs Ironic after the cluster was handed over.
func TestTellBeforeTheConfigMapExists(t *testing.T) {
	s := newServer()
	n := handover.New(s.client)
	if err := n.Tell(t.Context(), "c1", true); err != nil {
		t.Fatalf("there is no ConfigMap: %v", err)
	}
	if err := s.client.Create(t.Context(), notice(nil)); err != nil {
		t.Fatal(err)
	}
	if err := n.Tell(t.Context(), "c1", true); err != nil {
		t.Fatal(err)
	}
	var stored corev1.ConfigMap
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(notice(nil)), &stored); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"c1": "true"}, stored.Data); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestOutage(t *testing.T) {
	s := newServer(notice(nil))
	n := handover.New(s.client)
	s.fail = errors.New("no connection")
	if err := n.Tell(t.Context(), "c1", true); !errors.Is(err, s.fail) {
		t.Errorf("got %v", err)
	}
	s.fail = nil
	if err := n.Tell(t.Context(), "c1", true); err != nil || s.writes != 2 {
		t.Errorf("after the outage: %v, %d writes", err, s.writes)
	}
}
