package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// shutdownInterval is the interval of shutdown requests. A booting system may miss the first.
const shutdownInterval = 3 * time.Second

// PowerOn powers the machine on and boots from its disk, if it has a system. It blocks until the first process runs. It
// does nothing if the machine is on.
func (m *Machine) PowerOn(ctx context.Context) error {
	return m.change(ctx, "powering on", func() error { return m.on(ctx, m.bootDisk) })
}

// PowerOff cuts the power. Written data stays on the disk.
func (m *Machine) PowerOff(ctx context.Context) error {
	return m.change(ctx, "powering off", func() error { return m.off(ctx) })
}

// Shutdown shuts the system down and blocks until the machine is off. It returns ErrShutdownLimit if that takes too
// long; the machine is then still on. Without a system it cuts the power.
func (m *Machine) Shutdown(ctx context.Context) error {
	return m.change(ctx, "shutting down", func() error {
		if err := m.shutDown(ctx); err != nil {
			return err
		}
		return m.off(ctx)
	})
}

// Reset cuts the power and restores it.
func (m *Machine) Reset(ctx context.Context) error {
	return m.change(ctx, "resetting", func() error {
		if err := m.off(ctx); err != nil {
			return err
		}
		return m.on(ctx, m.bootDisk)
	})
}

// on powers the machine on and calls boot.
func (m *Machine) on(ctx context.Context, boot func(context.Context) error) error {
	if m.Powered() {
		return nil
	}
	if err := m.spec.Switch.Plug(m.port); err != nil {
		return err
	}
	m.state.Lock()
	m.powered = true
	err := m.cable()
	m.state.Unlock()
	if err == nil {
		err = boot(ctx)
	}
	if err != nil {
		return errors.Join(err, m.off(context.WithoutCancel(ctx)))
	}
	return nil
}

// bootDisk boots the system on the disk.
func (m *Machine) bootDisk(ctx context.Context) error {
	key, err := m.disk().installed()
	if err != nil || key == "" {
		return err
	}
	lower, err := m.lower(key)
	if err != nil {
		return err
	}
	if err := m.presentMedia(); err != nil {
		return err
	}
	return m.boot(ctx, m.disk().plan(lower), m.bootDisk)
}

// boot boots the system of a plan. Again boots the next system after a reboot.
func (m *Machine) boot(ctx context.Context, plan Plan, again func(context.Context) error) error {
	for _, group := range []string{SystemGroup, LabGroup} {
		if err := m.group.Child(group).Create(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(m.path("root"), 0o755); err != nil {
		return fmt.Errorf("creating a folder for mounts: %w", err)
	}
	plan.Group, plan.Root = m.group.Path(), m.path("root")
	plan.Namespace = network.MachineName(m.spec.Claim.Lab(), m.spec.Name)
	if err := plan.write(m.path("plan.json")); err != nil {
		return err
	}
	started, err := startBoot(ctx, m.spec.Claim.program, m.path("plan.json"), m.Console())
	if err != nil {
		return err
	}
	m.state.Lock()
	m.running = started
	m.state.Unlock()
	// The machine outlives the context of the caller.
	go m.follow(context.WithoutCancel(ctx), started, again)
	return nil
}

// follow handles the end of a system: the machine powers off or reboots. A failed system leaves the machine on, as on
// metal.
func (m *Machine) follow(ctx context.Context, ended *boot, again func(context.Context) error) {
	<-ended.done
	err := m.change(ctx, "following its operating system", func() error {
		if m.last() != ended {
			return nil
		}
		switch ended.code {
		case ExitPoweredOff:
			return m.off(ctx)
		case ExitRebooting:
			if err := m.off(ctx); err != nil {
				return err
			}
			return m.on(ctx, again)
		}
		return nil
	})
	if err != nil {
		m.note(err.Error())
	}
}

// last returns the last booted system since power-on, which may have ended.
func (m *Machine) last() *boot {
	m.state.Lock()
	defer m.state.Unlock()
	return m.running
}

// note writes a line of the lab to the console.
func (m *Machine) note(line string) {
	console, err := os.OpenFile(m.Console(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer func() { _ = console.Close() }()
	fmt.Fprintf(console, "\r\n*** %s %s\r\n", time.Now().UTC().Format(time.RFC3339), line)
}

// off cuts the power: it kills all processes, and removes the control groups and the network card.
func (m *Machine) off(ctx context.Context) error {
	if err := m.group.Kill(ctx); err != nil {
		return err
	}
	if running := m.last(); running != nil {
		select {
		case <-running.done:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the end of the operating system: %w", ctx.Err())
		}
	}
	if err := m.group.Remove(ctx); err != nil {
		return err
	}
	if err := m.spec.Switch.Unplug(m.port); err != nil {
		return err
	}
	m.state.Lock()
	board := m.board
	m.powered, m.running, m.board = false, nil, nil
	m.state.Unlock()
	return board.close()
}

// shutDown presses the power button until the system has ended.
func (m *Machine) shutDown(ctx context.Context) error {
	running := m.current()
	if running == nil {
		return nil
	}
	again := time.NewTicker(shutdownInterval)
	defer again.Stop()
	limit := time.NewTimer(m.spec.ShutdownLimit)
	defer limit.Stop()
	for {
		if err := running.signal(syscall.SIGTERM); err != nil {
			return err
		}
		select {
		case <-running.done:
			return nil
		case <-again.C:
		case <-limit.C:
			return fmt.Errorf("%w (%s)", ErrShutdownLimit, m.spec.ShutdownLimit)
		case <-ctx.Done():
			return fmt.Errorf("waiting for the operating system to power itself off: %w", ctx.Err())
		}
	}
}
