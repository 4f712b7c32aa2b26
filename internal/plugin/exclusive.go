package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leaseName is the Lease that a command holds while it moves or removes objects of a namespace of the source. Two
// commands would copy and delete the same objects, and one of them would restore what the other one has changed.
const leaseName = "metal3-pivot"

const (
	// leaseEvery is the interval of renewals.
	leaseEvery = 5 * time.Second

	// leaseDuration is how long a Lease is valid after its last renewal: the next command waits as long after a command
	// that was killed.
	leaseDuration = time.Minute

	// leaseDeadline is how long a command works after its last renewal. It ends before others can get the Lease.
	leaseDeadline = 45 * time.Second
)

// errLeaseLost is the cause of the end of a command that could not renew its Lease.
var errLeaseLost = fmt.Errorf("the Lease %s was lost", leaseName)

// exclusive works while no other command moves or removes objects of the namespace. If it had to wait for another one,
// it returns an error if the course of the move has changed. A dry run changes nothing.
func (c *recovery) exclusive(ctx context.Context, work func(context.Context) error) error {
	if c.dryRun {
		return work(ctx)
	}
	return c.holdLease(ctx, c.lookAgain, work)
}

// holdLease works while it has the Lease. If it has waited for the Lease, it calls check first.
func (c *recovery) holdLease(ctx context.Context, check, work func(context.Context) error) error {
	held, waited, err := c.acquire(ctx)
	switch {
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// Without the namespace, there are no objects to move.
		return work(ctx)
	case err != nil:
		return fmt.Errorf("getting the Lease %s/%s of the source, which keeps other pivot commands away: %w; "+
			"check that you may get, create, update and delete leases.coordination.k8s.io",
			c.where.namespace, leaseName, err)
	}
	working, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var renewing sync.WaitGroup
	renewing.Go(func() { c.renew(working, held, cancel) })
	if waited {
		err = check(working)
	}
	if err == nil {
		err = work(working)
	}
	if cause := context.Cause(working); errors.Is(cause, errLeaseLost) {
		err = errors.Join(cause, err)
	}
	cancel(nil)
	renewing.Wait()
	mine := client.Preconditions{ResourceVersion: &held.ResourceVersion}
	// Without the deletion, the next command waits until the Lease ends.
	_ = c.source.client.Delete(context.WithoutCancel(ctx), held, mine)
	return err
}

// acquire returns the Lease once no other command holds it, and whether it has waited. A Lease ends if it is not
// renewed while this command waits, because the clock of the other command may be wrong.
func (c *recovery) acquire(ctx context.Context) (held *coordinationv1.Lease, waited bool, err error) {
	var seen string
	var since time.Time
	err = wait.PollUntilContextTimeout(ctx, lookEvery, c.timeout, true, func(ctx context.Context) (bool, error) {
		found := &coordinationv1.Lease{}
		err := c.source.client.Get(ctx, client.ObjectKey{Namespace: c.where.namespace, Name: leaseName}, found)
		now := metav1.NowMicro()
		switch {
		case apierrors.IsNotFound(err):
			held = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: c.where.namespace, Name: leaseName}}
			held.Spec = leaseFrom(now)
			err = c.source.client.Create(ctx, held)
			return err == nil, client.IgnoreAlreadyExists(err)
		case err != nil && waited && !isPermanent(err):
			return false, nil
		case err != nil:
			return false, err
		case found.ResourceVersion != seen:
			if !waited {
				err = c.progress.say("Waiting: %s runs a pivot command in namespace %s.",
					ptr.Deref(found.Spec.HolderIdentity, "another user"), c.where.namespace)
			}
			seen, since, waited = found.ResourceVersion, now.Time, true
			return false, err
		case now.Sub(since) < leaseDuration:
			return false, nil
		}
		held = found
		held.Spec = leaseFrom(now)
		// After an error, the next attempt sees what has changed.
		return c.source.client.Update(ctx, held) == nil, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = fmt.Errorf("another pivot command did not end within %s", c.timeout)
	}
	return held, waited, err
}

// renew renews the Lease until the context ends. It cancels the work when that fails for too long, or when another
// command has the Lease.
func (c *recovery) renew(ctx context.Context, held *coordinationv1.Lease, cancel context.CancelCauseFunc) {
	renewed := time.Now()
	_ = wait.PollUntilContextCancel(ctx, leaseEvery, false, func(ctx context.Context) (bool, error) {
		limited, stop := context.WithDeadline(ctx, renewed.Add(leaseDeadline))
		defer stop()
		next := held.DeepCopy()
		next.Spec.RenewTime = ptr.To(metav1.NowMicro())
		err := c.source.client.Update(limited, next)
		if apierrors.IsConflict(err) {
			// The answer to a renewal may have been lost.
			err = c.source.client.Get(limited, client.ObjectKeyFromObject(held), next)
			if err == nil && !isSameHolder(next, held) {
				cancel(fmt.Errorf("%w to %s", errLeaseLost, ptr.Deref(next.Spec.HolderIdentity, "another user")))
				return true, nil
			}
		}
		switch {
		case err == nil:
			renewed = time.Now()
			next.DeepCopyInto(held)
		case ctx.Err() == nil && time.Since(renewed) >= leaseDeadline:
			cancel(errors.Join(errLeaseLost, err))
			return true, nil
		}
		return false, nil
	})
}

func isSameHolder(a, b *coordinationv1.Lease) bool {
	return ptr.Equal(a.Spec.HolderIdentity, b.Spec.HolderIdentity) && a.Spec.AcquireTime.Equal(b.Spec.AcquireTime)
}

// leaseFrom returns the Lease of this command. The holder tells other users who runs the command.
func leaseFrom(now metav1.MicroTime) coordinationv1.LeaseSpec {
	return coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(holderName()), LeaseDurationSeconds: ptr.To(int32(leaseDuration / time.Second)),
		AcquireTime: &now, RenewTime: &now,
	}
}

func holderName() string {
	name, host := "unknown", "unknown"
	if current, err := user.Current(); err == nil {
		name = current.Username
	}
	if found, err := os.Hostname(); err == nil {
		host = found
	}
	return fmt.Sprintf("%s on %s (process %d)", name, host, os.Getpid())
}
