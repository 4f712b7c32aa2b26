package guard

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/process"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/term"
)

// gatePatience is how long a program may take to end once the address has left it.
const gatePatience = 5 * time.Second

// errLost is why a gate ends with UntilLost.
var errLost = errors.New("the VIP was here and has left, so the program was killed and has to start from nothing")

// Gate runs a program beside an address that comes and goes. It hears of that from the kernel, within milliseconds.
//
//	                     WhileHere            UntilLost                  both
//	starts the program   with the address     at once                    with the address
//	the address leaves   asks it to end, and  freezes it until the term  the same
//	                     waits for the next   of the address is decided
//
// An address that is here when the gate starts counts as one that came.
type Gate struct {
	// Interface that the address is looked for on. One that is missing has no address.
	Interface string

	// InterfaceFile has the name of the interface in place of Interface: the guard of the node chooses it. Until there is
	// one, the program does not start.
	InterfaceFile string

	// Virtual is the address, in one or two families. It is here while one of them is.
	Virtual []netip.Addr

	// Command is the program, by its path, and its arguments. With InterfaceFile, InterfaceMark in an argument stands for
	// the name of the interface.
	Command []string

	// WhileHere starts the program only while the address is here.
	WhileHere bool

	// UntilLost keeps the program, with everything that it has started, for one term of the VIP: see package term.
	// The end of the term kills it without asking. A program that is asked continues for a while with what it knows, and
	// so does one that is started again beside its old files: the gate ends as well, so that its container does.
	UntilLost bool

	// Term is the file with the term that the guard of the node writes.
	Term string

	// Sweep are patterns of paths that are deleted when the gate starts: what a program that was killed has left is of no
	// use to the next.
	Sweep []string

	// Renew are patterns of paths that are deleted before each start of the program, which makes them anew.
	Renew []string

	// Again are variables like NAME=value for a program that is started again during its term.
	Again []string
}

// passage is one run of a gate.
type passage struct {
	Gate
	log    *slog.Logger
	reaper *process.Reaper
	child  *process.Child

	// seen is what the interface was like at the last look.
	seen address.Interface

	// leaving says that the gate was told to end.
	leaving bool

	// life is that of the program in its term. Only with UntilLost.
	life life

	// patience is that of the term, for those who watch the interface.
	patience atomic.Int64

	// device is the last interface that InterfaceFile has named, a string.
	device atomic.Value
}

// Run returns the exit code of a program that ends by itself: the caller decides what follows. When the context ends,
// Run sends SIGTERM to the program, without a time limit of its own. A VIP that leaves meanwhile is lost nevertheless.
func (g Gate) Run(ctx context.Context, log *slog.Logger) (int, error) {
	p := &passage{Gate: g, log: log, reaper: process.NewReaper()}
	defer p.reaper.Close()
	p.remove(g.Sweep)
	if g.UntilLost {
		p.said()
	}
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	looks := make(chan address.Interface, 1)
	go p.watchNamed(watching, func(now address.Interface) { latest(looks, now) })
	told := ctx.Done()
	for {
		select {
		case <-told:
			told, p.leaving = nil, true
			p.ask()
		case <-p.ended():
			if code, over := p.result(); over {
				return code, nil
			}
		case <-p.life.again(termInterval):
			if err := p.follow(); err != nil {
				return exitFailure, err
			}
		case now := <-looks:
			if err := p.look(now); err != nil {
				return exitFailure, err
			}
		}
		if p.leaving && p.child == nil {
			return 0, nil
		}
	}
}

// watch tells how the interface is. An interface that cannot be seen counts as one without the VIP, as long as that
// lasts: the program is stopped, and continues if the VIP was there all the time.
func (p *passage) watch(ctx context.Context, device string, changed func(address.Interface)) {
	isBlind := false
	var seen address.Interface
	told := func(now address.Interface) {
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
			Before:   seen, Changed: told, Renewed: told,
		}.Run(ctx)
		if err != nil && !isBlind {
			isBlind = true
			p.log.Error("Cannot see the interface", "interface", device, "error", err)
			changed(address.Interface{})
		}
		pause(ctx, blindPause)
	}
}

// look compares what the interface is like with what it was like.
func (p *passage) look(now address.Interface) error {
	p.seen = now
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
	case p.child != nil && !here:
		p.end()
	}
	return nil
}

// remove deletes files of earlier programs. The program starts even if they stay.
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
	return err
}

// ask sends SIGTERM to the program. A stopped program does not handle it, and is killed with its database.
func (p *passage) ask() {
	switch {
	case p.child == nil:
	case p.life.frozen:
		p.child.Kill()
	default:
		// It only fails after the program has ended.
		_ = p.child.Signal(syscall.SIGTERM)
	}
}

// ended is closed when the program has ended. Without one it never is.
func (p *passage) ended() <-chan struct{} {
	if p.child == nil {
		return nil
	}
	return p.child.Done()
}

// result of a program that has ended by itself, or because it was asked to. It also returns whether the gate is over.
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

// end ends the program. It does not wait for a killed program. Processes outside of its group
// die with process 1 of the container, which is the gate.
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
func latest(looks chan address.Interface, now address.Interface) {
	select {
	case <-looks:
	default:
	}
	looks <- now
}
