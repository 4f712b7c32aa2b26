package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

const (
	// claimLimit is how long Acquire waits for the guard of an ended process.
	claimLimit = 30 * time.Second
	// releaseLimit is the time limit for a guard to remove a lab.
	releaseLimit = 2 * time.Minute
	// wantedInotifyInstances suffices for twenty machines. Each systemd, kubelet and containerd uses some.
	wantedInotifyInstances = 1024
)

// Claim is the claim of a process on the name of a lab. A guard removes the lab when the process ends.
type Claim struct {
	lab      string
	program  string
	name     net.Listener
	guard    *exec.Cmd
	lifeline io.Closer
	// release runs only the first call of Release.
	release sync.Once
}

// Build builds the program that sets machines up and guards a lab. The checkout is the top of this repository. It takes
// seconds if the packages are not in Go's cache.
func Build(ctx context.Context, checkout, target string) error {
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", target,
		"./test/lab/machine/stage")
	command.Dir = checkout
	// The program runs in the root file system of machines, without libraries of this computer.
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building the program that sets machines up: %w\n%s", err, output)
	}
	return nil
}

// Acquire claims the name of a lab, removes an earlier lab and starts the guard. The program is the output of Build.
// The folder has the log of the guard. If another process has the claim, Acquire waits half a minute and then returns
// an error.
func Acquire(ctx context.Context, lab, dir, program string) (*Claim, error) {
	if err := network.CheckLab(lab); err != nil {
		return nil, err
	}
	if err := raiseInotifyLimit(); err != nil {
		return nil, err
	}
	name, err := claimName(ctx, lab)
	if err != nil {
		return nil, err
	}
	claim := &Claim{lab: lab, program: program, name: name}
	if err := Sweep(ctx, lab); err != nil {
		return nil, errors.Join(fmt.Errorf("removing an earlier lab: %w", err), name.Close())
	}
	if err := claim.startGuard(ctx, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the guard of lab %s: %w", lab, err), name.Close())
	}
	return claim, nil
}

// Lab returns the claimed name.
func (c *Claim) Lab() string { return c.lab }

// Release removes the lab from the kernel and releases its name. The guard does this, as after a crash. Only the first
// call has an effect.
func (c *Claim) Release(ctx context.Context) (err error) {
	c.release.Do(func() { err = c.end(ctx) })
	return err
}

func (c *Claim) end(ctx context.Context) error {
	if err := errors.Join(c.lifeline.Close(), c.name.Close()); err != nil {
		return fmt.Errorf("releasing lab %s: %w", c.lab, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.guard.Wait() }()
	ctx, stop := context.WithTimeout(ctx, releaseLimit)
	defer stop()
	select {
	case err := <-ended:
		if err == nil {
			return nil
		}
		// The guard may have ended.
		if again := Sweep(ctx, c.lab); again != nil {
			return fmt.Errorf("releasing lab %s: the guard failed: %w, and so did sweeping: %w", c.lab, err, again)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the guard of lab %s: %w", c.lab, ctx.Err())
	}
}

// socketName returns the abstract socket of the claim: the kernel lets only one process bind the name, until that
// process and its guard have ended.
func socketName(lab string) string { return "@" + network.Name(lab) }

func claimName(ctx context.Context, lab string) (net.Listener, error) {
	var name net.Listener
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, claimLimit, true,
		func(ctx context.Context) (bool, error) {
			var err error
			name, err = new(net.ListenConfig).Listen(ctx, "unix", socketName(lab))
			if errors.Is(err, syscall.EADDRINUSE) {
				return false, nil
			}
			return err == nil, err
		})
	if wait.Interrupted(err) {
		return nil, fmt.Errorf("lab %s is in use by another process of this computer: stop it or choose another name: %w",
			lab, err)
	}
	if err != nil {
		return nil, fmt.Errorf("claiming the name of lab %s: %w", lab, err)
	}
	return name, nil
}

// startGuard starts a process that outlives this one: it waits for the end of a pipe of this process.
func (c *Claim) startGuard(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, "guard.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	unixName, isUnix := c.name.(*net.UnixListener)
	if !isUnix {
		return fmt.Errorf("the claim is a %T, which cannot be inherited", c.name)
	}
	name, err := unixName.File()
	if err != nil {
		return err
	}
	defer func() { _ = name.Close() }()
	// The guard outlives the context of the caller.
	guard := exec.CommandContext(context.WithoutCancel(ctx), c.program, "guard", c.lab)
	guard.Stdout, guard.Stderr = log, log
	guard.ExtraFiles = []*os.File{name}
	// In its own session the guard receives no signals of the terminal.
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	lifeline, err := guard.StdinPipe()
	if err != nil {
		return err
	}
	if err := guard.Start(); err != nil {
		return err
	}
	c.guard, c.lifeline = guard, lifeline
	return nil
}

func raiseInotifyLimit() error {
	const file = "/proc/sys/fs/inotify/max_user_instances"
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading how many inotify instances a user may have: %w", err)
	}
	current, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return fmt.Errorf("reading how many inotify instances a user may have: %w", err)
	}
	if current >= wantedInotifyInstances {
		return nil
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(wantedInotifyInstances)), 0o644); err != nil {
		return fmt.Errorf("raising fs.inotify.max_user_instances from %d to %d (this needs root): %w",
			current, wantedInotifyInstances, err)
	}
	return nil
}

// checkFileSystem returns an error for a folder that cannot be the upper layer of an overlay, such as one in a
// container.
func checkFileSystem(dir string) error {
	var facts unix.Statfs_t
	if err := unix.Statfs(dir, &facts); err != nil {
		return fmt.Errorf("reading the file system of %s: %w", dir, err)
	}
	if facts.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return fmt.Errorf("%s is on overlayfs, which does not support disks of machines: use a folder on ext4 or xfs", dir)
	}
	return nil
}
