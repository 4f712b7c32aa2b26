package plugin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// errOutage is not a permanent error.
var errOutage = errors.New("connection refused")

// TestExclusive expects that a command waits for the end of another one, and then until the Lease of a killed one ends.
func TestExclusive(t *testing.T) {
	for name, tc := range map[string]struct {
		// works is how long the other command works. Killed is its name if it leaves its Lease.
		works   time.Duration
		killed  string
		timeout time.Duration
		// waits is how long the command waits before it works, and problem is its error.
		waits   time.Duration
		problem string
	}{
		"Alone": {timeout: time.Minute},
		"Ends":  {works: 2*time.Minute - time.Millisecond, timeout: 10 * time.Minute, waits: 2 * time.Minute},
		// The last renewal is seen after 25 seconds.
		"Killed": {
			works: 30*time.Second - time.Millisecond, killed: holderName(math.MaxInt32), timeout: 10 * time.Minute,
			waits: 40 * time.Second,
		},
		"ContainerRestarts": {
			works: 30*time.Second - time.Millisecond, killed: holderName(os.Getpid()), timeout: 10 * time.Minute,
			waits: 40 * time.Second,
		},
		"StillRuns": {
			works: 30*time.Second - time.Millisecond, killed: holderName(os.Getppid()), timeout: 10 * time.Minute,
			waits: 475 * time.Second,
		},
		"KilledElsewhere": {
			works: 30*time.Second - time.Millisecond, killed: "root on another (process 2147483647)", timeout: 10 * time.Minute,
			waits: 475 * time.Second,
		},
		"Long": {works: time.Hour, timeout: 10 * time.Minute, problem: "did not end within 10m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := fake.NewClientBuilder().WithScheme(scheme()).Build()
				command, said := (&leases{WithWatch: server}).command(tc.timeout)
				if tc.works > 0 {
					other, _ := (&leases{WithWatch: server, killed: tc.killed}).command(tc.timeout)
					go func() {
						_ = other.exclusive(t.Context(), nil, func(context.Context) error { <-time.After(tc.works); return nil })
					}()
					// Its renewals come between the looks of the command.
					<-time.After(lookEvery / 2)
				}
				began := time.Now()
				var waited, checked time.Duration
				err := command.exclusive(t.Context(),
					func() (bool, error) { checked = time.Since(began); return true, nil },
					func(context.Context) error { waited = time.Since(began); return nil })
				if waited != tc.waits || checked != tc.waits || (err == nil) != (tc.problem == "") {
					t.Errorf("waited %s, checked after %s (error: %v), want %s (error: %s)", waited, checked, err, tc.waits, tc.problem)
				}
				if err != nil && !strings.Contains(err.Error(), tc.problem) {
					t.Errorf("error %v, want %s", err, tc.problem)
				}
				if told := strings.Contains(said.String(), cmp.Or(tc.killed, holderName(os.Getpid()))); told != (tc.works > 0) {
					t.Errorf("said %q", said)
				}
				<-time.After(tc.works)
				var left coordinationv1.LeaseList
				if err := server.List(t.Context(), &left); err != nil || len(left.Items) > 0 {
					t.Errorf("%d Leases are left (error: %v)", len(left.Items), err)
				}
			})
		})
	}
}

// TestExclusiveRenewal expects that a command ends before others get its Lease, and only then.
func TestExclusiveRenewal(t *testing.T) {
	for name, tc := range map[string]struct {
		renews func(context.Context, *leases, client.Object) error
		// ends is when the context of the work ends, and problem is the error.
		ends    time.Duration
		problem string
	}{
		"Outage": {
			renews: func(context.Context, *leases, client.Object) error { return errOutage },
			ends:   7 * time.Minute, problem: errOutage.Error(),
		},
		"Hangs": {
			renews: func(ctx context.Context, _ *leases, _ client.Object) error { <-ctx.Done(); return ctx.Err() },
			ends:   7 * time.Minute, problem: "deadline exceeded",
		},
		"Another": {
			renews: func(ctx context.Context, s *leases, lease client.Object) error {
				taken := lease.DeepCopyObject().(*coordinationv1.Lease) //nolint:errcheck // a copy is of the same type
				taken.Spec.HolderIdentity = ptr.To("another user")
				return errors.Join(s.WithWatch.Update(ctx, taken), s.WithWatch.Update(ctx, lease))
			},
			ends: leaseEvery, problem: "to another user",
		},
		"Deleted": {
			renews: func(ctx context.Context, s *leases, lease client.Object) error {
				return errors.Join(s.WithWatch.Delete(ctx, lease), s.WithWatch.Update(ctx, lease))
			},
			ends: leaseEvery, problem: "a user deleted it",
		},
		"ServerStarts": {
			renews: func(ctx context.Context, s *leases, lease client.Object) error {
				if s.updates < 5 {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, leaseName, nil)
				}
				return s.WithWatch.Update(ctx, lease)
			},
			ends: time.Hour,
		},
		"AnswerLost": {
			renews: func(ctx context.Context, s *leases, lease client.Object) error {
				return errors.Join(s.WithWatch.Update(ctx, lease.DeepCopyObject().(client.Object)), errOutage) //nolint:errcheck // a copy
			},
			ends: time.Hour,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &leases{WithWatch: fake.NewClientBuilder().WithScheme(scheme()).Build(), renews: tc.renews}
				c, _ := server.command(time.Minute)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				err := c.exclusive(ctx, nil, func(ctx context.Context) error { <-ctx.Done(); return nil })
				if took := time.Since(began); took != tc.ends || errors.Is(err, errLeaseLost) != (tc.problem != "") {
					t.Errorf("ended after %s (error: %v), want %s", took, err, tc.ends)
				}
				if err != nil && !strings.Contains(err.Error(), tc.problem) {
					t.Errorf("error %v, want %s", err, tc.problem)
				}
			})
		})
	}
}

// TestExclusiveAttempts expects that a command works without a namespace, names missing permissions before it works,
// and waits through errors that end. After a wait, it plans again.
func TestExclusiveAttempts(t *testing.T) {
	namespaces, resource := schema.GroupResource{Resource: "namespaces"}, schema.GroupResource{Resource: "leases"}
	terminating := apierrors.NewForbidden(resource, leaseName, nil)
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	held := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: leaseName}}
	forbidden := apierrors.NewForbidden(resource, leaseName, errors.New("may not"))
	denied := func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return forbidden }
	updates := 0
	for name, tc := range map[string]struct {
		exists bool
		funcs  interceptor.Funcs
		works  bool
		want   string
	}{
		"NoNamespace": {
			funcs: interceptor.Funcs{Create: failsToCreate(apierrors.NewNotFound(namespaces, "fleet"))}, works: true,
		},
		"Terminating": {funcs: interceptor.Funcs{Create: failsToCreate(terminating)}, works: true},
		"NamespaceDeletedMeanwhile": {exists: true, works: true, funcs: interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
				_ ...client.GetOption,
			) error {
				return errors.Join(c.Get(ctx, key, object), c.Delete(ctx, held.DeepCopy()))
			},
			Create: failsToCreate(apierrors.NewNotFound(namespaces, "fleet")),
		}},
		"MayNotCreate": {funcs: interceptor.Funcs{Create: failsToCreate(forbidden)}, want: "may not"},
		"MayNotRenew":  {funcs: interceptor.Funcs{Update: denied}, want: "may not"},
		"MayNotUpdate": {exists: true, funcs: interceptor.Funcs{Update: denied}, want: "may not"},
		"Hangs": {
			funcs: interceptor.Funcs{Create: failsToCreate(fmt.Errorf("no answer: %w", context.DeadlineExceeded))},
			want:  "no answer",
		},
		"Outage":       {exists: true, funcs: interceptor.Funcs{Get: failsOnce(2)}, works: true},
		"OutageAtOnce": {exists: true, funcs: interceptor.Funcs{Get: failsOnce(1)}, want: errOutage.Error()},
		"DeletedMeanwhile": {exists: true, works: true, funcs: interceptor.Funcs{
			Update: func(ctx context.Context, c client.WithWatch, lease client.Object, _ ...client.UpdateOption) error {
				if updates++; updates > 1 {
					return c.Update(ctx, lease)
				}
				return errors.Join(c.Delete(ctx, lease), apierrors.NewNotFound(resource, leaseName))
			},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				builder := fake.NewClientBuilder().WithScheme(scheme()).WithInterceptorFuncs(tc.funcs)
				if tc.exists {
					builder = builder.WithObjects(held.DeepCopy())
				}
				c, _ := (&leases{WithWatch: builder.Build()}).command(10 * time.Minute)
				works, plans := false, false
				err := c.exclusive(t.Context(), func() (bool, error) { plans = true; return true, nil },
					func(context.Context) error { works = true; return nil })
				if works != tc.works || (err == nil) != tc.works || plans != (tc.exists && works) {
					t.Errorf("works: %t, plans again: %t (error: %v), want %t", works, plans, err, tc.works)
				}
				if err == nil {
					return
				}
				if !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v, want %q", err, tc.want)
				}
				if strings.Contains(err.Error(), "create, update and delete leases") != apierrors.IsForbidden(err) {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

// TestExclusiveChanged expects that a command does not work if an obstacle exists after a wait, or an object has changed.
func TestExclusiveChanged(t *testing.T) {
	for name, tc := range map[string]struct {
		again planAgain
		want  error
	}{
		"Obstacle": {func() (bool, error) { return false, nil }, errChanged},
		"Changed":  {func() (bool, error) { return true, errChanged }, errChanged},
		"Unread":   {func() (bool, error) { return false, errOutage }, errOutage},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				held := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: leaseName}}
				c, _ := (&leases{WithWatch: fake.NewClientBuilder().WithScheme(scheme()).WithObjects(held).Build()}).command(time.Hour)
				err := c.exclusive(t.Context(), tc.again, func(context.Context) error { t.Error("works"); return nil })
				if !errors.Is(err, tc.want) {
					t.Errorf("error %v, want %v", err, tc.want)
				}
			})
		})
	}
}

func failsToCreate(err error) func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
	return func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return err }
}

// failsOnce fails one read.
func failsOnce(read int) func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
	return func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
		if read--; read == 0 {
			return errOutage
		}
		return c.Get(ctx, key, object)
	}
}

// leases is a server with faults.
type leases struct {
	client.WithWatch

	// renews replaces updates during the work. Nil means none. Updates counts all.
	renews  func(context.Context, *leases, client.Object) error
	updates int

	// killed is the name of a command that is killed.
	killed string
}

func (l *leases) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if lease, isLease := object.(*coordinationv1.Lease); isLease && l.killed != "" {
		lease.Spec.HolderIdentity = &l.killed
	}
	return l.WithWatch.Create(ctx, object, options...)
}

func (l *leases) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	if l.updates++; l.updates > 1 && l.renews != nil {
		return l.renews(ctx, l, object)
	}
	return l.WithWatch.Update(ctx, object, options...)
}

func (l *leases) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if l.killed != "" {
		return nil
	}
	return l.WithWatch.Delete(ctx, object, options...)
}

// command returns a command with what it says.
func (l *leases) command(timeout time.Duration) (*recovery, *bytes.Buffer) {
	said := &bytes.Buffer{}
	return &recovery{
		where: sides{namespace: "fleet"}, timeout: timeout, source: &cluster{client: l}, progress: newProgress(said),
	}, said
}
