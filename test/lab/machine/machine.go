package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine/cgroup"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// shutdownLimit is the default of Spec.ShutdownLimit.
const shutdownLimit = 90 * time.Second

// Errors for callers.
var (
	// ErrRunning is the error of changes of a disk while a system runs from it.
	ErrRunning = errors.New("an operating system is running: power the machine off first")
	// ErrNotRunning is the error of commands on a machine without a running system.
	ErrNotRunning = errors.New("no operating system is running: power the machine on, with an image on its disk")
	// ErrShutdownLimit is the error of a system that did not power itself off in time. The machine is still on.
	ErrShutdownLimit = errors.New("the operating system did not power itself off in time")
)

// Spec describes a machine.
type Spec struct {
	// Claim is the claim of the lab.
	Claim *Claim
	// Switch is the switch of the same lab.
	Switch *network.Switch
	// Name of the machine: a DNS label that is unique in the lab.
	Name string
	// Number is the last part of the machine's addresses: see the address plan of package network. It is unique in the
	// lab.
	Number byte
	// Dir is the folder of the machine, on a real file system, that of Store.
	Dir string
	// Root returns the root file system of an image key. It must not change while machines run from it.
	Root func(key string) (string, error)
	// Store is the folder of containerd for each new disk. Empty means none.
	Store string
	// LinkStore copies Store, and shares its large files. It is required with Store.
	LinkStore func(from, to string) error
	// Ramdisk is the root file system for boots from a medium, with the program of BuildRamdisk. Empty means that the
	// machine boots only from its disk.
	Ramdisk string
	// ShutdownLimit is the time for a system to power itself off. Zero means 90 seconds.
	ShutdownLimit time.Duration
}

// Machine is one bare-metal machine. It is safe for concurrent use: changes of power and disk run one after the other.
type Machine struct {
	spec  Spec
	port  network.Port
	group cgroup.Group

	// operation has room for one value. The goroutine that sends it may change the machine.
	operation chan struct{}
	// media guards the folder of the config drive.
	media sync.Mutex
	// state guards the fields below.
	state sync.Mutex
	// powered is true while the power is on.
	powered bool
	// pulled is true while the cable is unplugged. A power cycle does not change it.
	pulled bool
	// running is the last booted system. Nil if there was none since power-on.
	running *boot
	// board serves the last booted ramdisk. Nil for a system from the disk or from a live medium.
	board *board
}

// New returns a machine that is powered off, with the disk in its folder.
func New(spec Spec) (*Machine, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(spec.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder of machine %s: %w", spec.Name, err)
	}
	if err := checkFileSystem(spec.Dir); err != nil {
		return nil, fmt.Errorf("machine %s: %w", spec.Name, err)
	}
	group, err := cgroup.Open(filepath.Join(network.Name(spec.Claim.Lab()), spec.Name))
	if err != nil {
		return nil, fmt.Errorf("machine %s: %w", spec.Name, err)
	}
	if spec.ShutdownLimit == 0 {
		spec.ShutdownLimit = shutdownLimit
	}
	return &Machine{
		spec:      spec,
		port:      network.Port{Machine: spec.Name, Number: spec.Number},
		group:     group,
		operation: make(chan struct{}, 1),
	}, nil
}

func (s Spec) check() error {
	if s.Claim == nil || s.Switch == nil || s.Root == nil {
		return fmt.Errorf("machine %q: Claim, Switch and Root are required", s.Name)
	}
	if s.Claim.Lab() != s.Switch.Lab() {
		return fmt.Errorf("machine %q: its claim is on lab %s and its switch is of lab %s",
			s.Name, s.Claim.Lab(), s.Switch.Lab())
	}
	if s.Store != "" && s.LinkStore == nil {
		return fmt.Errorf("machine %q: Store requires LinkStore", s.Name)
	}
	// The kernel separates the layers of an overlay with these characters.
	if !filepath.IsAbs(s.Dir) || strings.ContainsAny(s.Dir, `:,\`) {
		return fmt.Errorf("machine %q: its folder is %q: use an absolute path without colon, comma and backslash",
			s.Name, s.Dir)
	}
	return network.CheckMachine(s.Name)
}

// Name returns the name of the machine.
func (m *Machine) Name() string { return m.spec.Name }

// Port returns the port of the machine on the switch.
func (m *Machine) Port() network.Port { return m.port }

// Console returns the file with the output of all systems, which includes the journal.
func (m *Machine) Console() string { return m.path("console.log") }

// Powered returns true if the power is on.
func (m *Machine) Powered() bool {
	m.state.Lock()
	defer m.state.Unlock()
	return m.powered
}

// Running returns true if an operating system runs.
func (m *Machine) Running() bool { return m.current() != nil }

// RunsRamdisk returns true if the ramdisk runs, and not a system from the disk or from a live medium.
func (m *Machine) RunsRamdisk() bool {
	m.state.Lock()
	defer m.state.Unlock()
	return m.board != nil && m.running != nil && !m.running.ended()
}

// current returns the running system, or nil.
func (m *Machine) current() *boot {
	m.state.Lock()
	defer m.state.Unlock()
	if m.running == nil || m.running.ended() {
		return nil
	}
	return m.running
}

// Installed returns the key of the image on the disk, or an empty string.
func (m *Machine) Installed() (string, error) { return m.disk().installed() }

// WriteDisk wipes the disk and writes an image. It returns ErrRunning while a system runs from the disk.
func (m *Machine) WriteDisk(ctx context.Context, rootKey string) error {
	return m.change(ctx, "writing the disk", func() error {
		if m.Running() {
			return ErrRunning
		}
		if _, err := m.lower(rootKey); err != nil {
			return err
		}
		if err := m.disk().wipe(); err != nil {
			return err
		}
		return m.disk().write(rootKey, m.spec.Store, m.spec.LinkStore)
	})
}

// LinkDown unplugs the cable of the machine until LinkUp.
func (m *Machine) LinkDown(ctx context.Context) error {
	return m.change(ctx, "unplugging the cable", func() error { return m.setCable(true) })
}

// LinkUp plugs the cable of the machine in.
func (m *Machine) LinkUp(ctx context.Context) error {
	return m.change(ctx, "plugging the cable in", func() error { return m.setCable(false) })
}

func (m *Machine) setCable(pulled bool) error {
	m.state.Lock()
	defer m.state.Unlock()
	m.pulled = pulled
	if !m.powered {
		return nil
	}
	return m.cable()
}

// cable sets the state of the port.
func (m *Machine) cable() error {
	if m.pulled {
		return m.spec.Switch.LinkDown(m.port)
	}
	return m.spec.Switch.LinkUp(m.port)
}

// Remove powers the machine off and deletes it, with its console.
func (m *Machine) Remove(ctx context.Context) error {
	return m.change(ctx, "removing it", func() error {
		if err := m.off(ctx); err != nil {
			return err
		}
		return os.RemoveAll(m.spec.Dir)
	})
}

// change runs a change of the machine. Changes run one after the other.
func (m *Machine) change(ctx context.Context, what string, do func() error) error {
	select {
	case m.operation <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("machine %s: %s: waiting for an earlier operation: %w", m.spec.Name, what, ctx.Err())
	}
	defer func() { <-m.operation }()
	if err := do(); err != nil {
		return fmt.Errorf("machine %s: %s: %w", m.spec.Name, what, err)
	}
	return nil
}

func (m *Machine) path(name string) string { return filepath.Join(m.spec.Dir, name) }

func (m *Machine) disk() disk { return disk{dir: m.path("disk")} }

// lower returns the root file system of an image.
func (m *Machine) lower(key string) (string, error) {
	lower, err := m.spec.Root(key)
	if err != nil {
		return "", fmt.Errorf("finding the image %s: %w", key, err)
	}
	if !filepath.IsAbs(lower) || strings.ContainsAny(lower, `:,\`) {
		return "", fmt.Errorf("the image %s is in %q: use an absolute path without colon, comma and backslash", key, lower)
	}
	return lower, nil
}
