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

// shutdownLimit is how long a system gets to turn itself off when the Spec says nothing.
const shutdownLimit = 90 * time.Second

// Errors that callers tell apart.
var (
	// ErrRunning is returned when the disk of a machine is asked for while a system runs from it.
	ErrRunning = errors.New("an operating system is running: turn the machine off first")
	// ErrNotRunning is returned when something is to be run on a machine that has no running system.
	ErrNotRunning = errors.New("no operating system is running: turn the machine on, with an image on its disk")
	// ErrShutdownLimit is returned when a system did not turn itself off in time. The machine is still on.
	ErrShutdownLimit = errors.New("the operating system did not turn itself off in time")
)

// Spec describes a machine.
type Spec struct {
	// Claim is the claim of the lab that the machine belongs to.
	Claim *Claim
	// Switch is the switch of the same lab.
	Switch *network.Switch
	// Name of the machine: a DNS label that is unique in the lab.
	Name string
	// Number ends the machine's addresses, see the address plan of the package network. It is unique in the lab.
	Number byte
	// Dir is the folder that holds everything of the machine. It has to be on a real file system, the one of Store.
	Dir string
	// Root returns the root file system that an image key names. It must not change while machines run from it.
	Root func(key string) (string, error)
	// Store is a filled folder of containerd that every newly written disk gets. Empty means none.
	Store string
	// LinkStore makes a copy of Store that shares its large files. It is needed when there is a Store.
	LinkStore func(from, to string) error
	// Ramdisk is the root file system that the machine boots from a medium, with the program that BuildRamdisk makes.
	// Empty means that it boots from its disk only.
	Ramdisk string
	// ShutdownLimit is how long a system gets to turn itself off. Zero means 90 seconds.
	ShutdownLimit time.Duration
}

// Machine is one bare-metal machine. Its methods may be called at the same time: what changes its power or its disk is
// done one after the other.
type Machine struct {
	spec  Spec
	port  network.Port
	group cgroup.Group

	// operation has room for one value. The goroutine that sends it may change the machine.
	operation chan struct{}
	// media guards the folder of the config drive.
	media sync.Mutex
	// state guards what is below.
	state sync.Mutex
	// powered tells whether the power is on.
	powered bool
	// pulled tells whether the cable is pulled. A power cycle does not plug it in.
	pulled bool
	// running is the system that was booted last, nil when there was none since power-on.
	running *boot
	// board serves the ramdisk that was booted last, nil when a system from the disk was.
	board *board
}

// New makes a machine that is powered off, with the disk of its folder.
func New(spec Spec) (*Machine, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(spec.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of machine %s: %w", spec.Name, err)
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
		return fmt.Errorf("machine %q: it needs a claim, a switch and a way to find root file systems", s.Name)
	}
	if s.Claim.Lab() != s.Switch.Lab() {
		return fmt.Errorf("machine %q: its claim is on lab %s and its switch is of lab %s",
			s.Name, s.Claim.Lab(), s.Switch.Lab())
	}
	if s.Store != "" && s.LinkStore == nil {
		return fmt.Errorf("machine %q: it has a store of container images and no way to link it", s.Name)
	}
	// The kernel separates the layers of an overlay with these.
	if !filepath.IsAbs(s.Dir) || strings.ContainsAny(s.Dir, `:,\`) {
		return fmt.Errorf("machine %q: its folder is %q: use an absolute path without colon, comma and backslash",
			s.Name, s.Dir)
	}
	return network.CheckMachine(s.Name)
}

// Name is the name of the machine.
func (m *Machine) Name() string { return m.spec.Name }

// Port is the machine's place on the switch.
func (m *Machine) Port() network.Port { return m.port }

// Console is the file that everything is appended to that the system prints: its journal, over all boots.
func (m *Machine) Console() string { return m.path("console.log") }

// Powered tells whether the power is on.
func (m *Machine) Powered() bool {
	m.state.Lock()
	defer m.state.Unlock()
	return m.powered
}

// Running tells whether an operating system runs. A machine that is on without one waits for an image.
func (m *Machine) Running() bool { return m.current() != nil }

// current is the running system, nil when there is none.
func (m *Machine) current() *boot {
	m.state.Lock()
	defer m.state.Unlock()
	if m.running == nil || m.running.ended() {
		return nil
	}
	return m.running
}

// Installed is the key of the image on the disk, and empty where nothing is.
func (m *Machine) Installed() (string, error) { return m.disk().installed() }

// WriteDisk wipes the disk and puts an image on it. It fails with ErrRunning while a system runs from the disk.
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

// WipeDisk leaves nothing on the disk that could boot. It fails with ErrRunning while a system runs from it.
func (m *Machine) WipeDisk(ctx context.Context) error {
	return m.change(ctx, "wiping the disk", func() error {
		if m.Running() {
			return ErrRunning
		}
		return m.disk().wipe()
	})
}

// LinkDown pulls the machine's cable, until LinkUp.
func (m *Machine) LinkDown(ctx context.Context) error {
	return m.change(ctx, "pulling the cable", func() error { return m.setCable(true) })
}

// LinkUp puts the machine's cable back.
func (m *Machine) LinkUp(ctx context.Context) error {
	return m.change(ctx, "putting the cable back", func() error { return m.setCable(false) })
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

// cable makes the port be as the cable is.
func (m *Machine) cable() error {
	if m.pulled {
		return m.spec.Switch.LinkDown(m.port)
	}
	return m.spec.Switch.LinkUp(m.port)
}

// Remove turns the machine off and deletes everything of it, its console too.
func (m *Machine) Remove(ctx context.Context) error {
	return m.change(ctx, "removing it", func() error {
		if err := m.off(ctx); err != nil {
			return err
		}
		return os.RemoveAll(m.spec.Dir)
	})
}

// change runs a function that changes the machine. Changes run one after the other.
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

// lower is the root file system of an image.
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
