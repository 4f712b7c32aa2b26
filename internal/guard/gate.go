package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/process"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/term"
)

// gatePatience is the time for a program to end after the VIP has left.
const gatePatience = 5 * time.Second

// errLost is the error of a gate with UntilLost whose VIP has left.
var errLost = errors.New("the VIP was here and has left, so the program was killed and has to start from nothing")

// errHung is the error of a gate with UntilLost whose program hangs without the VIP.
var errHung = fmt.Errorf("the VIP is not here, and the program has not answered the guard for %s, so it was killed "+
	"and has to start from nothing", term.HungAfter)

// Gate runs a program depending on the VIP. It receives changes of addresses from the kernel, within milliseconds.
//
//	                     WhileHere            UntilLost                  both            none
//	starts the program   with the VIP         at once                    with the VIP    at once
//	the VIP leaves       sends SIGTERM, and   freezes it until the term  the same        changes nothing
//	                     waits for the next   of the VIP is decided
//
// A VIP that exists when the gate starts counts as one that arrived. None is for a node without a guard: nothing else
// runs the program, so the gate only deletes files.
type Gate struct {
	// Interface of the VIP. An interface that does not exist has no VIP.
	Interface string

	// InterfaceFile contains the name of the interface that the guard of the node chose. It replaces Interface. The
	// program starts when the file exists.
	InterfaceFile string

	// Virtual is the VIP, in one or two IP families. It counts as present while one of the addresses is.
	Virtual []netip.Addr

	// Command is the path of the program and its arguments. With InterfaceFile, InterfaceMark in an argument stands
	// for the name of the interface.
	Command []string

	// Folders are directories. At each start of the program, FolderMark in an argument stands for the first of them that
	// has files, or for the last one.
	Folders []string

	// WhileHere runs the program only while the VIP is on the node.
	WhileHere bool

	// UntilLost keeps the program and its child processes for one term of the VIP: see package term. At the end of
	// the term the gate kills them with SIGKILL: a program that handles SIGTERM would continue for a while with its
	// outdated database. The gate then exits, so that the container ends and its files are deleted. It does the same
	// with a program that hangs without the VIP, or whose database cannot be written.
	UntilLost bool

	// Term is the file with the term that the guard of the node writes.
	Term string

	// Sweep are patterns of paths that are deleted when the gate starts, because a killed program leaves files.
	Sweep []string

	// Renew are patterns of paths that are deleted before each start of the program, which creates them again.
	Renew []string

	// Again are variables like NAME=value for a program that is restarted during its term.
	Again []string

	// Database is the directory of the database of the program. With UntilLost, the gate kills the program when the disk
	// of the directory refuses all writes for diskPatience. Empty means no check.
	Database string
}

type passage struct {
	Gate
	log    *slog.Logger
	reaper *process.Reaper
	child  *process.Child

	// seen is the last observation of the interface.
	seen address.Interface

	// leaving is true after the gate got SIGTERM.
	leaving bool

	// life is the state of the program in its term, for UntilLost.
	life life

	// patience is the patience of the term, for the watcher of the interface.
	patience atomic.Int64

	// unseen is true if the interface could not be observed before the next observation.
	unseen atomic.Bool

	// device is the last name in InterfaceFile, a string.
	device atomic.Value

	// disk checks the disk of the database.
	disk disk
}

// Run returns the exit code of a program that ends by itself. When the context ends, Run sends SIGTERM to the
// program, without a time limit. A VIP that leaves meanwhile counts as lost nevertheless.
func (g Gate) Run(ctx context.Context, log *slog.Logger) (int, error) {
	p := &passage{Gate: g, log: log, reaper: process.NewReaper(), disk: newDisk(g.Database)}
	defer p.reaper.Close()
	return p.run(ctx)
}

func (p *passage) run(ctx context.Context) (int, error) {
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	observations, failures := p.begin(watching)
	done := ctx.Done()
	for {
		select {
		case <-done:
			done, p.leaving = nil, true
			p.terminate()
		case <-p.ended():
			if code, over := p.result(); over {
				return code, nil
			}
		case <-p.life.again():
			if err := p.follow(); err != nil {
				return exitFailure, err
			}
		case now := <-observations:
			if err := p.change(now); err != nil {
				return exitFailure, err
			}
		case err := <-failures:
			p.end()
			return exitFailure, err
		}
		if p.leaving && p.child == nil {
			return 0, nil
		}
	}
}

// begin deletes files of earlier programs, and starts to observe the interface and the disk. It returns the
// observations of the interface and the error of a disk that refuses writes.
func (p *passage) begin(ctx context.Context) (chan address.Interface, chan error) {
	observations, failures := make(chan address.Interface, 1), make(chan error, 1)
	p.remove(p.Sweep)
	if p.UntilLost {
		p.said()
		go p.disk.watch(ctx, failures)
	}
	go p.watchNamed(ctx, func(now address.Interface) { latest(observations, now) })
	return observations, failures
}

// watch reports observations of the interface. While the interface cannot be observed, it counts as one without the
// VIP: the program is stopped, and continues if the VIP was kept and the guard does not end the term.
func (p *passage) watch(ctx context.Context, device string, changed func(address.Interface)) {
	isBlind := false
	var seen address.Interface
	observed := func(now address.Interface) {
		if isBlind {
			isBlind = false
			p.log.Info("Sees the interface again", "interface", device)
		}
		seen = now
		changed(now)
	}
	for ctx.Err() == nil {
		err := address.Watcher{
			Interface: device, Virtual: p.Virtual,
			Patience: func() time.Duration { return time.Duration(p.patience.Load()) },
			Before:   seen, Gap: isBlind, Changed: observed, Renewed: observed,
		}.Run(ctx)
		if err != nil && !isBlind {
			isBlind = true
			p.unseen.Store(true)
			p.log.Error("Cannot see the interface", "interface", device, "error", err)
			changed(address.Interface{})
		}
		pause(ctx, observePause)
	}
}

// change compares an observation with the last one.
func (p *passage) change(now address.Interface) error {
	p.see(now)
	if p.UntilLost {
		p.enterLease(now)
		if p.life.began {
			return p.follow()
		}
	}
	here := now.HasAny(p.Virtual)
	switch {
	case p.child == nil && !p.leaving && (here || !p.WhileHere):
		p.log.Info("The program starts", "program", p.Command[0], "addressIsHere", here)
		if err := p.start(nil); err != nil || !p.UntilLost {
			return err
		}
		p.life.began = true
		return p.follow()
	case p.child != nil && !here && p.WhileHere:
		p.end()
	}
	return nil
}

// see records an observation. After a time without one, the VIP counts as kept only after the patience of the term.
func (p *passage) see(now address.Interface) {
	p.seen = now
	if now.Index != 0 && p.unseen.Swap(false) {
		p.life.doubtUntil = time.Now().Add(p.life.read.Patience)
	}
}

// remove deletes files of earlier programs. An error does not prevent the start.
func (p *passage) remove(patterns []string) {
	for _, pattern := range patterns {
		if err := remove(pattern); err != nil {
			p.log.Error("Cannot delete files of an earlier program", "pattern", pattern, "error", err)
		}
	}
}

func (p *passage) start(variables []string) error {
	p.remove(p.Renew)
	var err error
	p.child, err = p.reaper.Start(p.program(variables))
	p.life.started = time.Now()
	return err
}

// terminate sends SIGTERM to the program. A stopped program does not handle it, and is killed with its database.
func (p *passage) terminate() {
	switch {
	case p.child == nil:
	case p.life.frozen:
		p.child.Kill()
	default:
		// The only possible error is that the program has ended.
		_ = p.child.Signal(syscall.SIGTERM)
	}
}

// ended returns a channel that is closed when the program has ended. Without a program it never is.
func (p *passage) ended() <-chan struct{} {
	if p.child == nil {
		return nil
	}
	return p.child.Done()
}

// result returns the exit code of a program that has ended by itself or after SIGTERM. It also returns true if the
// gate ends.
func (p *passage) result() (int, bool) {
	p.log.Info("The program ended by itself", "program", p.Command[0], "ending", p.child.Ending())
	if p.leaving {
		return 0, true
	}
	code := p.child.ExitCode()
	p.life.left, p.child, p.life.frozen = p.child, nil, false
	p.killLeft()
	if p.UntilLost && p.decide() != term.Exit {
		p.life.notBefore = time.Now().Add(restartPause)
		return 0, false
	}
	return code, true
}

// end ends the program. It does not wait for a killed program. Processes outside of its group die with process 1 of
// the container, which is the gate.
func (p *passage) end() {
	switch {
	case p.child == nil:
	case p.UntilLost:
		p.child.Kill()
	default:
		p.child.Stop(gatePatience)
		p.log.Info("The VIP has left, and the program has ended", "program", p.Command[0], "ending", p.child.Ending())
		p.child = nil
	}
}

// latest replaces an unread value.
func latest(observations chan address.Interface, now address.Interface) {
	select {
	case <-observations:
	default:
	}
	observations <- now
}
