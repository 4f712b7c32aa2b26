package guard

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/process"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/term"
)

const (
	// termInterval is how often a gate reads the term while the VIP is not known to belong to it.
	termInterval = 50 * time.Millisecond

	// restartPause is the time between the end of a program and its next start.
	restartPause = 500 * time.Millisecond

	// hungInterval is how often the gate of a node without the VIP reads whether its program hangs.
	hungInterval = 10 * time.Second

	// observePause is the time between two attempts to observe the interface.
	observePause = 100 * time.Millisecond

	// staleMargin tolerates the resolution of the kernel, which counts in hundredths of a second. Without it a lease
	// could be stale for a gate and in time for the guard.
	staleMargin = 20 * time.Millisecond
)

// life is the state of a program in its term.
type life struct {
	// began is true once the program was started, and started is when it was last.
	began   bool
	started time.Time

	// frozen is true while the program is stopped by SIGSTOP.
	frozen bool

	// mine is the term that the guard has confirmed.
	mine term.Record

	// at is the interface when the VIP was last known to belong to the program, and kept is the time.
	at   address.Interface
	kept time.Time

	// unsettled is true if a decision is due without a change of the interface.
	unsettled bool

	// notBefore is the earliest restart of an ended program. left is that program while its processes may run.
	notBefore time.Time
	left      *process.Child

	// read is the last term of the guard.
	read term.Record

	// clock computes the age of leases. renewed is the last renewal of the VIP.
	clock   address.Clock
	renewed time.Time

	// doubtUntil is when the VIP counts as kept again after the gate could not observe the interface. A guard that saw a
	// late renewal has ended or confirmed the term by then.
	doubtUntil time.Time
}

// again returns a channel that fires when a decision may be due without a change of the interface.
func (l *life) again() <-chan time.Time {
	switch {
	case l.unsettled:
		return time.After(termInterval)
	case l.read.Patience > 0 && !l.renewed.IsZero():
		return time.After(time.Until(l.renewed.Add(l.read.Patience + staleMargin)))
	case l.began:
		return time.After(hungInterval)
	default:
		return nil
	}
}

// isStale returns true if the lease of the VIP was not renewed for so long that another node may hold it soon, or if
// the gate does not know.
func (l *life) isStale(now time.Time) bool {
	return now.Before(l.doubtUntil) || l.read.Patience > 0 && now.Sub(l.renewed) >= l.read.Patience+staleMargin
}

// enterLease records the renewal of the lease, also if this process or the node was stopped meanwhile.
func (p *passage) enterLease(seen address.Interface) {
	stamp, found := seen.Renewed(p.Virtual)
	if !found {
		p.life.renewed = time.Time{}
		return
	}
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		p.log.Error("Cannot read the clock", "error", err)
		return
	}
	p.life.renewed = time.Now().Add(-p.life.clock.Heard(stamp, time.Duration(boot.Nano())))
}

// decide reads the term and returns the action for the program.
func (p *passage) decide() term.Action {
	seen := p.observe(time.Now())
	p.life.unsettled = seen.Held && (!seen.Kept || !seen.Begun || seen.Process == term.Ended)
	return term.Decide(seen)
}

func (p *passage) observe(now time.Time) term.Observation {
	l := &p.life
	if !l.at.HasAny(p.Virtual) && p.seen.HasAny(p.Virtual) {
		l.at = p.seen
	}
	said := p.said()
	isStale := l.isStale(now)
	seen := term.Observation{
		Process: p.state(), Held: l.at.HasAny(p.Virtual), Kept: p.seen.Kept(l.at, p.Virtual) && !isStale,
	}
	if seen.Kept {
		l.at, l.kept = p.seen, now
	}
	names := p.seen.HasSince(p.Virtual, said.Stamp) && !isStale
	if seen.Kept && l.mine.Term == 0 && names {
		l.mine = said
		p.log.Info("The term of the VIP began", "term", said.Term)
	}
	seen.Hung = now.Sub(l.started) >= term.HungAfter && said.Failing >= term.HungAfter
	seen.Begun, seen.Over = l.mine.Term != 0, said.Term != l.mine.Term
	seen.Confirmed, seen.Away = names && !seen.Over, now.Sub(l.kept)
	return seen
}

// said returns the term of the guard. An unreadable file, for example without a free descriptor, counts as unchanged.
func (p *passage) said() term.Record {
	content, err := os.ReadFile(p.Term)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		p.life.read = term.Parse(string(content))
		p.patience.Store(int64(p.life.read.Patience))
	}
	return p.life.read
}

func (p *passage) state() term.Process {
	switch {
	case p.child == nil:
		return term.Ended
	case p.life.frozen:
		return term.Frozen
	default:
		return term.Running
	}
}

// follow applies the action for the program.
func (p *passage) follow() error {
	action := p.decide()
	switch action {
	case term.Freeze:
		p.life.frozen = true
		if p.seen.HasAny(p.Virtual) {
			p.log.Info("The lease of the VIP was not renewed in time: the program is stopped", "program", p.Command[0],
				"lastRenewal", p.life.renewed)
		} else {
			p.log.Info("The VIP left: the program is stopped", "program", p.Command[0])
		}
		return p.child.Freeze()
	case term.Thaw:
		p.log.Info("The term of the VIP continues: the program continues", "program", p.Command[0],
			"stopped", p.life.frozen)
		p.keep()
		p.life.frozen = false
		return p.child.Thaw()
	case term.Restart:
		p.keep()
		if p.leaving || time.Now().Before(p.life.notBefore) || p.killLeft() {
			return nil
		}
		p.log.Info("The program starts again in the same term", "program", p.Command[0])
		if err := p.start(p.Again); err != nil {
			p.log.Error("Cannot start the program again yet", "error", err)
			p.life.notBefore = time.Now().Add(restartPause)
		}
	case term.Kill, term.Exit:
		p.end()
		return errLost
	case term.Replace:
		p.end()
		return errHung
	case term.Leave:
	}
	return nil
}

// killLeft kills the processes that the previous program has left, and returns true while they exist.
func (p *passage) killLeft() bool {
	if p.life.left != nil && !p.life.left.KillLeft() {
		p.life.left = nil
	}
	return p.life.left != nil
}

// keep records that the VIP on the node belongs to the term.
func (p *passage) keep() {
	p.life.at, p.life.kept, p.life.unsettled = p.seen, time.Now(), p.child == nil
}
