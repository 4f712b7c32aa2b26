package guard

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/process"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/track"
)

const (
	// stopPatience is the time for keepalived to release the VIP and end. It requires some tenths of a second.
	stopPatience = 5 * time.Second

	// firstPause and longestPause limit the time between the death of keepalived and its next start.
	firstPause, longestPause = 200 * time.Millisecond, 10 * time.Second

	// calmAfter is the runtime of keepalived after which its next death counts as the first.
	calmAfter = time.Minute
)

// stampWidth is the length of the time at the start of each line of keepalived.
const stampWidth = len("Sat Nov 21 12:28:53 2026: ")

// target is the desired state of keepalived.
type target struct {
	// page is keepalived.conf. Without config, keepalived must not run.
	page

	// incarnation changes when keepalived must be restarted: a reload keeps the interface and the directory of the
	// track files.
	incarnation string

	// waits is true while keepalived must not be started: it would stay in the state FAULT without its source address.
	waits bool

	// device and virtual identify the VIPs to remove after keepalived.
	device  string
	virtual []netip.Addr
}

// supervisor runs keepalived by its target.
type supervisor struct {
	reaper     *process.Reaper
	executable string
	directory  string
	log        *slog.Logger
	facts      *facts

	mutex   sync.Mutex
	wanted  target
	changed chan struct{}

	// hung receives since when keepalived should have released the VIP.
	hung chan time.Time

	// spoke is when keepalived logged its last line. A number would not survive a change of the clock.
	spoke atomic.Pointer[time.Time]

	// Used by run only.
	child     *process.Child
	current   target
	startedAt time.Time
	notBefore time.Time
	pause     time.Duration

	// resuming is true if the previous keepalived died while it held the VIP. reloadAt is when the next one reads its
	// usual configuration.
	resuming bool
	reloadAt time.Time
}

func newSupervisor(reaper *process.Reaper, executable, directory string, facts *facts, log *slog.Logger) *supervisor {
	return &supervisor{
		reaper: reaper, executable: executable, directory: directory,
		facts: facts, log: log, changed: make(chan struct{}, 1), hung: make(chan time.Time, 1),
	}
}

func (s *supervisor) Want(wanted target) {
	s.mutex.Lock()
	same := s.wanted.incarnation == wanted.incarnation && s.wanted.waits == wanted.waits &&
		slices.Equal(s.wanted.config, wanted.config)
	s.wanted = wanted
	s.mutex.Unlock()
	if !same {
		notify(s.changed)
	}
}

// Page returns the configuration of the last target of an incarnation. It is empty if there is none.
func (s *supervisor) Page(incarnation string) page {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.wanted.incarnation != incarnation {
		return page{}
	}
	return s.wanted.page
}

// run follows the target until the context ends, and then stops keepalived.
func (s *supervisor) run(ctx context.Context) {
	for {
		wait := s.settle()
		var died <-chan struct{}
		if s.child != nil {
			died = s.child.Done()
		}
		select {
		case <-ctx.Done():
			s.stop()
			return
		case <-died:
			s.handleDeath()
		case since := <-s.hung:
			s.killHung(since)
		case <-s.changed:
		case <-wait:
		}
	}
}

// settle applies the target. The returned channel fires when more work is due later.
func (s *supervisor) settle() <-chan time.Time {
	s.mutex.Lock()
	wanted := s.wanted
	s.mutex.Unlock()
	if s.child != nil && (wanted.config == nil || wanted.incarnation != s.current.incarnation) {
		s.stop()
	}
	switch {
	case wanted.config == nil || s.child == nil && wanted.waits:
		return nil
	case s.child == nil:
		if rest := time.Until(s.notBefore); rest > 0 {
			return time.After(rest)
		}
		return s.start(wanted)
	case !slices.Equal(wanted.config, s.current.config):
		if rest := time.Until(s.reloadAt); rest > 0 {
			return time.After(rest)
		}
		return s.reload(wanted)
	default:
		return nil
	}
}

func (s *supervisor) path() string {
	return filepath.Join(s.directory, "keepalived.conf")
}

func (s *supervisor) start(wanted target) <-chan time.Time {
	s.current, s.reloadAt = wanted, time.Time{}
	s.clean()
	if s.resuming {
		s.resuming, s.current.config, s.reloadAt = false, wanted.resume, time.Now().Add(wanted.span)
	}
	err := track.Replace(s.path(), s.current.config, 0o644)
	if err == nil {
		err = s.spawn()
	}
	if err != nil {
		s.log.Error("Cannot start keepalived", "error", err)
		return time.After(s.lengthen())
	}
	s.startedAt = time.Now()
	s.facts.setRunning(true)
	s.log.Info("keepalived runs", "pid", s.child.PID())
	if s.reloadAt.IsZero() {
		return nil
	}
	return time.After(time.Until(s.reloadAt))
}

func (s *supervisor) spawn() error {
	pidFiles := []string{filepath.Join(s.directory, "keepalived.pid"), filepath.Join(s.directory, "vrrp.pid")}
	for _, left := range pidFiles {
		// The PIDs of a killed keepalived may belong to other processes by now, and keepalived would not start.
		_ = os.Remove(left)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = write.Close() }()
	child, err := s.reaper.Start(process.Program{
		Path: s.executable,
		Arguments: []string{
			// Without this option keepalived restarts its own dead processes: the guard would not notice, and the VIP
			// would stay meanwhile.
			"--dont-fork", "--log-console", "--no-syslog", "--vrrp", "--dont-respawn",
			"--use-file=" + s.path(),
			"--pid=" + pidFiles[0],
			"--vrrp_pid=" + pidFiles[1],
		},
		Output: write,
	})
	if err != nil {
		_ = read.Close()
		return err
	}
	s.child = child
	go s.relay(read)
	return nil
}

// relay logs the output of keepalived.
func (s *supervisor) relay(output io.ReadCloser) {
	defer func() { _ = output.Close() }()
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		s.spoke.Store(new(time.Now()))
		line := lines.Text()
		// The log has its own time.
		if _, after, found := strings.Cut(line, ": "); found && len(line)-len(after) == stampWidth {
			line = after
		}
		s.log.Info("keepalived says", "line", line)
	}
}

func (s *supervisor) reload(wanted target) <-chan time.Time {
	if err := track.Replace(s.path(), wanted.config, 0o644); err != nil {
		s.log.Error("Cannot change the configuration of keepalived", "error", err)
		return time.After(longestPause)
	}
	s.current = wanted
	if err := s.child.Signal(syscall.SIGHUP); err != nil {
		s.log.Error("Cannot reload keepalived", "error", err)
	}
	s.facts.reloads.Inc()
	s.log.Info("keepalived reads its new configuration")
	return nil
}

// stop ends keepalived, which releases the VIP.
func (s *supervisor) stop() {
	if s.child == nil {
		return
	}
	if !s.child.Stop(stopPatience) {
		s.log.Warn("keepalived did not stop in time and was killed", "patience", stopPatience.String())
	}
	s.log.Info("keepalived stopped", "ending", s.child.Ending())
	s.child = nil
	s.facts.setRunning(false)
	s.clean()
}

// ReplaceHung kills and restarts a keepalived that should have released the VIP since a time, and has logged nothing
// since then. It does not block.
func (s *supervisor) ReplaceHung(since time.Time) {
	select {
	case s.hung <- since:
	default:
	}
}

func (s *supervisor) killHung(since time.Time) {
	spoke := s.spoke.Load()
	if s.child != nil && !s.startedAt.After(since) && (spoke == nil || !spoke.After(since)) {
		s.log.Warn("keepalived hangs and is killed: it did not release the VIP", "since", since)
		s.child.Kill()
	}
}

// handleDeath cleans up after a keepalived that died.
func (s *supervisor) handleDeath() {
	s.log.Warn("keepalived died", "ending", s.child.Ending())
	s.child = nil
	s.resuming = s.facts.snapshot().holding
	s.facts.setRunning(false)
	s.facts.restarts.Inc()
	s.clean()
	if time.Since(s.startedAt) > calmAfter {
		s.pause = 0
	}
	s.lengthen()
}

func (s *supervisor) lengthen() time.Duration {
	s.pause = min(max(2*s.pause, firstPause), longestPause)
	s.notBefore = time.Now().Add(s.pause)
	return s.pause
}

// clean removes VIPs that no keepalived manages.
func (s *supervisor) clean() {
	if s.current.device == "" {
		return
	}
	removed, err := address.Remove(s.current.device, s.current.virtual)
	if err != nil {
		s.log.Error("Cannot remove a VIP that keepalived left behind", "error", err)
	}
	if len(removed) > 0 {
		s.log.Warn("Removed VIPs that keepalived left behind", "addresses", removed)
	}
}
