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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leaseName is the Lease that a command holds while it changes a namespace of the source. Two commands would copy and
// delete the same objects, and one of them would restore what the other one has changed.
const leaseName = "metal3-pivot"

const (
	// leaseEvery is the interval of renewals.
	leaseEvery = 5 * time.Second

	// leaseDuration is how long a Lease is valid after its last renewal: the next command waits as long after a command
	// that was killed.
	leaseDuration = time.Minute

	// leaseDeadline is how long a command continues without a renewal. It ends before others can get the Lease.
	leaseDeadline = 45 * time.Second
)

// errLeaseLost is the cause of the end of a command that could not renew its Lease.
var errLeaseLost = fmt.Errorf("the Lease %s was not renewed for %s", leaseName, leaseDeadline)

// exclusive works while no other command changes the namespace. A dry run changes nothing.
func (c *recovery) exclusive(ctx context.Context, work func(context.Context) error) error {
	if c.dryRun {
		return work(ctx)
	}
	held, err := c.acquire(ctx)
	switch {
	case apierrors.IsNotFound(err):
		// Without the namespace, there is nothing to change.
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
	err = work(working)
	if cause := context.Cause(working); errors.Is(cause, errLeaseLost) {
		err = errors.Join(cause, err)
	}
	cancel(nil)
	renewing.Wait()
	// Without the deletion, the next command waits until the Lease ends.
	mine := client.Preconditions{ResourceVersion: &held.ResourceVersion}
	_ = c.source.client.Delete(context.WithoutCancel(ctx), held, mine)
	return err
}

// acquire returns the Lease once no other command holds it. A Lease ends if it is not renewed while this command waits,
// because the clock of the other command may be wrong.
func (c *recovery) acquire(ctx context.Context) (held *coordinationv1.Lease, err error) {
	var seen string
	var since time.Time
	err = wait.PollUntilContextTimeout(ctx, lookEvery, c.timeout, true, func(ctx context.Context) (bool, error) {
		found := &coordinationv1.Lease{}
		err := c.source.client.Get(ctx, client.ObjectKey{Namespace: c.where.namespace, Name: leaseName}, found)
		switch {
		case apierrors.IsNotFound(err):
			held = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: c.where.namespace, Name: leaseName}}
			hold(held)
			err = c.source.client.Create(ctx, held)
			return err == nil, unlessOvertaken(err)
		case err != nil:
			return false, err
		case found.ResourceVersion != seen:
			if seen == "" {
				err = c.progress.say("Waiting: %s runs a pivot command in namespace %s.",
					ptr.Deref(found.Spec.HolderIdentity, "another user"), c.where.namespace)
			}
			seen, since = found.ResourceVersion, time.Now()
			return false, err
		case time.Since(since) < leaseDuration:
			return false, nil
		}
		held = found
		hold(held)
		err = c.source.client.Update(ctx, held)
		return err == nil, unlessOvertaken(err)
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = fmt.Errorf("another pivot command did not end within %s", c.timeout)
	}
	return held, err
}

// renew renews the Lease until the context ends. It cancels the work if that fails for too long, or if another command
// has the Lease.
func (c *recovery) renew(ctx context.Context, held *coordinationv1.Lease, cancel context.CancelCauseFunc) {
	renewed := time.Now()
	_ = wait.PollUntilContextCancel(ctx, leaseEvery, false, func(ctx context.Context) (bool, error) {
		next := held.DeepCopy()
		hold(next)
		err := c.source.client.Update(ctx, next)
		switch {
		case err == nil:
			renewed = time.Now()
			next.DeepCopyInto(held)
		case ctx.Err() == nil && (apierrors.IsConflict(err) || time.Since(renewed) > leaseDeadline):
			cancel(errors.Join(errLeaseLost, err))
			return true, nil
		}
		return false, nil
	})
}

// hold sets the holder and the times of a Lease.
func hold(lease *coordinationv1.Lease) {
	now := metav1.NowMicro()
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(holderName()), LeaseDurationSeconds: ptr.To(int32(leaseDuration / time.Second)),
		AcquireTime: &now, RenewTime: &now,
	}
}

// holderName tells other users who runs a command.
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

// unlessOvertaken returns nil if another command was faster.
func unlessOvertaken(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
