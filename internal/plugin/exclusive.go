package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// leaseName is the Lease that a command holds while it moves or removes objects of a namespace of the source. Two
// commands would copy and delete the same objects, and one of them would restore what the other one has changed.
const leaseName = "metal3-pivot"

const (
	// leaseEvery is the interval of renewals.
	leaseEvery = 5 * time.Second

	// leaseDuration is how long a Lease is valid after its last renewal: the next command waits as long after a command
	// that was killed on another host.
	leaseDuration = leaseDeadline + 30*time.Second

	// leaseDeadline is how long a command works after its last renewal. It ends before others can get the Lease. While an
	// API server refuses connections, clusterctl repeats writes for up to three minutes, and its wait for block-move for
	// up to seven: the Lease does not end a move before clusterctl does.
	leaseDeadline = 7 * time.Minute

	// leaseGone is leaseDuration for a command that ran on this host and has ended. Two hosts or containers may have the
	// same name, so a Lease that is renewed stays valid.
	leaseGone = 3 * leaseEvery
)

// errLeaseLost is the cause of the end of a command that could not renew its Lease.
var errLeaseLost = fmt.Errorf("the Lease %s was lost", leaseName)

// exclusive works while no other command moves or removes objects of the namespace. If it had to wait for another one,
// it plans again first, and returns an error if an obstacle exists or the plan has changed. A dry run changes nothing.
func (c *recovery) exclusive(ctx context.Context, again planAgain, work func(context.Context) error) error {
	if c.dryRun {
		return work(ctx)
	}
	held, waited, err := c.acquire(ctx)
	if waited {
		work = c.afterWait(again, work)
	}
	switch {
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// Without the namespace, there are no objects to move.
		return work(ctx)
	case err != nil:
		return c.unleased(err)
	}
	defer func() {
		mine := client.Preconditions{ResourceVersion: &held.ResourceVersion}
		// Without the deletion, the next command waits until the Lease ends.
		_ = c.source.client.Delete(context.WithoutCancel(ctx), held, mine)
	}()
	// A missing permission is an error before the work.
	if err := c.renewOnce(ctx, held); err != nil {
		return c.unleased(err)
	}
	working, cancel := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { c.renew(working, held, cancel) })
	err = work(working)
	if cause := context.Cause(working); errors.Is(cause, errLeaseLost) {
		err = errors.Join(cause, err)
	}
	cancel(nil)
	renewing.Wait()
	return err
}

// afterWait returns the work of a command that had to wait: it begins with a new plan.
func (c *recovery) afterWait(again planAgain, work func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		unchanged, err := again()
		switch {
		case err != nil:
			return err
		case !unchanged:
			return fmt.Errorf("not done: the obstacles %w. Now: %s", errChanged, pivot.Enumerate(c.done.Refusals))
		}
		return work(ctx)
	}
}

// unleased returns the error of a command that did not get the Lease.
func (c *recovery) unleased(err error) error {
	remedy := ""
	if apierrors.IsForbidden(err) {
		remedy = "; check that you may get, create, update and delete leases.coordination.k8s.io"
	}
	return fmt.Errorf("getting the Lease %s/%s of the source, which keeps other pivot commands away: %w%s",
		c.where.namespace, leaseName, err, remedy)
}

// acquire returns the Lease once no other command holds it, and whether it has waited. A Lease ends if it is not
// renewed while this command waits, because the clock of the other command may be wrong.
func (c *recovery) acquire(ctx context.Context) (held *coordinationv1.Lease, waited bool, err error) {
	var seen string
	var since time.Time
	err = wait.PollUntilContextTimeout(ctx, lookEvery, c.timeout, true, func(ctx context.Context) (taken bool, err error) {
		held = &coordinationv1.Lease{}
		err = c.source.client.Get(ctx, client.ObjectKey{Namespace: c.where.namespace, Name: leaseName}, held)
		switch {
		case err == nil && held.ResourceVersion != seen:
			if !waited {
				err = c.progress.say("Waiting: %s runs a pivot command in namespace %s.", holderOf(held), c.where.namespace)
			}
			seen, since, waited = held.ResourceVersion, time.Now(), true
		case err == nil && !isOver(held, time.Since(since)):
		case client.IgnoreNotFound(err) == nil:
			taken, err = c.take(ctx, held)
		}
		if waited && !isPermanent(err) {
			// The next attempt sees what has changed.
			err = nil
		}
		return taken, err
	})
	if waited && wait.Interrupted(err) && ctx.Err() == nil {
		err = fmt.Errorf("another pivot command did not end within %s: if it no longer runs, delete the Lease", c.timeout)
	}
	return held, waited, err
}

// take writes the Lease for this command, and returns whether it has it. Another command may be faster.
func (c *recovery) take(ctx context.Context, held *coordinationv1.Lease) (bool, error) {
	now := metav1.NowMicro()
	held.Spec = coordinationv1.LeaseSpec{
		HolderIdentity:       ptr.To(holderName(os.Getpid())),
		LeaseDurationSeconds: ptr.To(int32(leaseDuration / time.Second)),
		AcquireTime:          &now, RenewTime: &now,
	}
	if held.ResourceVersion != "" {
		err := c.source.client.Update(ctx, held)
		return err == nil, client.IgnoreNotFound(err)
	}
	held.Namespace, held.Name = c.where.namespace, leaseName
	err := c.source.client.Create(ctx, held)
	return err == nil, client.IgnoreAlreadyExists(err)
}

// renew renews the Lease until the context ends. It cancels the work when that fails for too long, or when the command
// no longer has the Lease. An API server that starts may answer Forbidden for a while.
func (c *recovery) renew(ctx context.Context, held *coordinationv1.Lease, cancel context.CancelCauseFunc) {
	renewed := time.Now()
	_ = wait.PollUntilContextCancel(ctx, leaseEvery, false, func(ctx context.Context) (bool, error) {
		began := time.Now()
		limited, stop := context.WithDeadline(ctx, renewed.Add(leaseDeadline))
		defer stop()
		switch err := c.renewOnce(limited, held); {
		case err == nil:
			renewed = began
		case errors.Is(err, errLeaseLost):
			cancel(err)
			return true, nil
		case ctx.Err() == nil && time.Since(renewed) >= leaseDeadline:
			cancel(errors.Join(errLeaseLost, err))
			return true, nil
		}
		return false, nil
	})
}

// renewOnce renews the Lease. It returns errLeaseLost if the command no longer has the Lease.
func (c *recovery) renewOnce(ctx context.Context, held *coordinationv1.Lease) error {
	next := held.DeepCopy()
	next.Spec.RenewTime = ptr.To(metav1.NowMicro())
	err := c.source.client.Update(ctx, next)
	if apierrors.IsConflict(err) {
		// The answer to a renewal may have been lost.
		err = c.source.client.Get(ctx, client.ObjectKeyFromObject(held), next)
	}
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: a user deleted it", errLeaseLost)
	case err != nil:
		return err
	case !isSameHolder(next, held):
		return fmt.Errorf("%w to %s", errLeaseLost, holderOf(next))
	}
	next.DeepCopyInto(held)
	return nil
}

func isSameHolder(a, b *coordinationv1.Lease) bool {
	return ptr.Equal(a.Spec.HolderIdentity, b.Spec.HolderIdentity) && a.Spec.AcquireTime.Equal(b.Spec.AcquireTime)
}

// holderName tells other users who runs a command.
func holderName(process int) string {
	name, host := "unknown", "unknown"
	if current, err := user.Current(); err == nil {
		name = current.Username
	}
	if found, err := os.Hostname(); err == nil {
		host = found
	}
	return fmt.Sprintf("%s on %s (process %d)", name, host, process)
}

func holderOf(lease *coordinationv1.Lease) string {
	return ptr.Deref(lease.Spec.HolderIdentity, "another user")
}

// isOver returns true if others may take a Lease that was not renewed for some time.
func isOver(lease *coordinationv1.Lease, idle time.Duration) bool {
	return idle >= leaseDuration || idle >= leaseGone && isGone(holderOf(lease))
}

// isGone returns true for the holder name of a process of this user and host that has ended. A container that starts
// again has the same process ID.
func isGone(holder string) bool {
	_, id, _ := strings.Cut(holder, " (process ")
	process, err := strconv.Atoi(strings.TrimSuffix(id, ")"))
	if err != nil || holder != holderName(process) {
		return false
	}
	found, err := os.FindProcess(process)
	if err == nil {
		err = found.Signal(syscall.Signal(0))
	}
	return errors.Is(err, os.ErrProcessDone) || process == os.Getpid()
}
