package process

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
)

// Program is a program to run.
type Program struct {
	// Path of the executable file.
	Path string

	// Arguments after the name of the program.
	Arguments []string

	// Variables like NAME=value are added to the environment of this process.
	Variables []string

	// Output receives standard output and standard error. Nil discards them.
	Output *os.File
}

// Reaper starts children and collects them when they end. Use NewReaper.
type Reaper struct {
	mutex    sync.Mutex
	children map[int]*Child
	adopts   bool
	ended    chan os.Signal
}

// NewReaper returns a Reaper that collects children until Close. As process 1 it also collects orphans.
func NewReaper() *Reaper {
	reaper := &Reaper{
		children: map[int]*Child{},
		adopts:   os.Getpid() == 1,
		ended:    make(chan os.Signal, 1),
	}
	signal.Notify(reaper.ended, syscall.SIGCHLD)
	go reaper.collect()
	return reaper
}

// Close stops collecting. Running children continue.
func (r *Reaper) Close() {
	// No signal arrives after Stop.
	signal.Stop(r.ended)
	close(r.ended)
}

// Start runs the program. The caller must stop the child, or wait until it is done.
func (r *Reaper) Start(program Program) (*Child, error) {
	var child *Child
	var err error
	started := make(chan struct{})
	go func() {
		// Never unlocked: the kernel kills the child when its parent thread ends.
		runtime.LockOSThread()
		child, err = r.fork(program)
		close(started)
		if err == nil {
			<-child.done
		}
	}()
	<-started
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", program.Path, err)
	}
	return child, nil
}

func (r *Reaper) fork(program Program) (*Child, error) {
	nothing, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = nothing.Close() }()
	output := nothing.Fd()
	if program.Output != nil {
		output = program.Output.Fd()
	}
	// Held during the fork, so that a child that ends at once is known when it is collected.
	r.mutex.Lock()
	defer r.mutex.Unlock()
	//nolint:gosec // The command line of the guard names the program.
	pid, err := syscall.ForkExec(program.Path, append([]string{program.Path}, program.Arguments...), &syscall.ProcAttr{
		Env:   append(os.Environ(), program.Variables...),
		Files: []uintptr{nothing.Fd(), output, output},
		Sys:   r.attributes(),
	})
	if err != nil {
		return nil, err
	}
	child := &Child{pid: pid, reaper: r, done: make(chan struct{})}
	r.children[pid] = child
	return child, nil
}

// attributes request a process group for the child, so that Kill also kills its processes, and SIGKILL for the child
// when this process ends. The kernel kills all processes of a container with process 1. A SIGTERM before that would
// make keepalived release the VIP.
func (r *Reaper) attributes() *syscall.SysProcAttr {
	if r.adopts {
		return &syscall.SysProcAttr{Setpgid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

func (r *Reaper) collect() {
	for range r.ended {
		r.reap()
	}
}

// reap collects all ended children: one signal may stand for several.
func (r *Reaper) reap() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.adopts {
		for r.reapOne(-1) {
			continue
		}
		return
	}
	for pid := range r.children {
		r.reapOne(pid)
	}
}

func (r *Reaper) reapOne(pid int) bool {
	var status syscall.WaitStatus
	got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	if err != nil || got <= 0 {
		return false
	}
	if child, ours := r.children[got]; ours {
		delete(r.children, got)
		child.status = status
		close(child.done)
	}
	return true
}
