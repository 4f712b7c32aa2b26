package plugin

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestExclusive expects that a command waits for the end of another one, and then until the Lease of a killed one ends.
func TestExclusive(t *testing.T) {
	for name, tc := range map[string]struct {
		// works is how long the other command works, and killed is true if it leaves its Lease.
		works   time.Duration
		killed  bool
		timeout time.Duration
		// waits is how long the command waits before it works, and problem is its error.
		waits   time.Duration
		problem string
	}{
		"Nobody": {timeout: time.Minute},
		"Ends":   {works: 2*time.Minute - time.Millisecond, timeout: 10 * time.Minute, waits: 2 * time.Minute},
		"Killed": {
			works: 30*time.Second - time.Millisecond, killed: true, timeout: 10 * time.Minute, waits: 85 * time.Second,
		},
		"Long": {works: time.Hour, timeout: 10 * time.Minute, problem: "did not end within 10m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := fake.NewClientBuilder().WithScheme(scheme()).Build()
				first, said := exclusiveCommand(cluster, tc.timeout)
				if tc.works > 0 {
					other, _ := exclusiveCommand(cluster, tc.timeout)
					ctx, kill := context.WithCancel(t.Context())
					if tc.killed {
						other.source.client = deaf(ctx, cluster)
					}
					go func() {
						_ = other.exclusive(t.Context(), func(context.Context) error { <-time.After(tc.works); kill(); return nil })
					}()
					// Its renewals come between the looks of the command.
					<-time.After(lookEvery / 2)
				}
				began := time.Now()
				var waited time.Duration
				err := first.exclusive(t.Context(), func(context.Context) error { waited = time.Since(began); return nil })
				if waited != tc.waits || (err == nil) != (tc.problem == "") {
					t.Errorf("waited %s (error: %v), want %s (error: %s)", waited, err, tc.waits, tc.problem)
				}
				if err != nil && !strings.Contains(err.Error(), tc.problem) {
					t.Errorf("error %v, want %s", err, tc.problem)
				}
				if told := strings.Contains(said.String(), holderName()); told != (tc.works > 0) {
					t.Errorf("said %q", said)
				}
				<-time.After(tc.works)
				var left coordinationv1.LeaseList
				if err := cluster.List(t.Context(), &left); err != nil || len(left.Items) > 0 {
					t.Errorf("%d Leases are left (error: %v)", len(left.Items), err)
				}
			})
		})
	}
}

// TestExclusiveEnds expects that a command ends before others get its Lease.
func TestExclusiveEnds(t *testing.T) {
	lease := schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}
	for name, tc := range map[string]struct {
		err  error
		want time.Duration
	}{
		"Outage":  {errors.New("connection refused"), 50 * time.Second},
		"Another": {apierrors.NewConflict(lease, leaseName, errors.New("changed")), leaseEvery},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := exclusiveCommand(fake.NewClientBuilder().WithScheme(scheme()).WithInterceptorFuncs(interceptor.Funcs{
					Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return tc.err },
				}).Build(), time.Minute)
				began := time.Now()
				err := c.exclusive(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
				if took := time.Since(began); took != tc.want || !errors.Is(err, errLeaseLost) || !errors.Is(err, tc.err) {
					t.Errorf("ended after %s (error: %v), want %s", took, err, tc.want)
				}
			})
		})
	}
}

// TestExclusiveWithout expects that a command works without a namespace, and names the permissions that it lacks.
func TestExclusiveWithout(t *testing.T) {
	namespaces, leases := schema.GroupResource{Resource: "namespaces"}, schema.GroupResource{Resource: "leases"}
	for name, tc := range map[string]struct {
		err     error
		works   bool
		problem string
	}{
		"Namespace":  {apierrors.NewNotFound(namespaces, "fleet"), true, ""},
		"Permission": {apierrors.NewForbidden(leases, leaseName, nil), false, "create, update and delete leases"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := exclusiveCommand(fake.NewClientBuilder().WithScheme(scheme()).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return tc.err },
			}).Build(), time.Minute)
			works := false
			err := c.exclusive(t.Context(), func(context.Context) error { works = true; return nil })
			if works != tc.works || (err == nil) != tc.works {
				t.Errorf("works: %t (error: %v), want %t", works, err, tc.works)
			}
			if err != nil && !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("error %v, want %q", err, tc.problem)
			}
		})
	}
}

func exclusiveCommand(source client.Client, timeout time.Duration) (*recovery, *bytes.Buffer) {
	said := &bytes.Buffer{}
	return &recovery{
		where: sides{namespace: "fleet"}, timeout: timeout, source: &cluster{client: source}, progress: newProgress(said),
	}, said
}

// deaf returns a client that deletes nothing once the context has ended, like the client of a killed command.
func deaf(ctx context.Context, source client.WithWatch) client.Client {
	return interceptor.NewClient(source, interceptor.Funcs{
		Delete: func(_ context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if ctx.Err() != nil {
				return nil
			}
			return c.Delete(ctx, object, options...)
		},
	})
}
