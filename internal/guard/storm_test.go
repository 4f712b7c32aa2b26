package guard_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
)

// storm is a fault of the holder.
type storm struct {
	name string
	// strike begins and ends the fault. The holder takes part again some time later.
	strike func(*testing.B, *node)
	// moves is true if another node may claim the VIP, and with it an Ironic with an empty database.
	moves bool
	// shares is true if two nodes answer for the VIP for a while.
	shares bool
	// divides is true if the nodes cannot communicate, so that two Ironics are active.
	divides bool
	// keeps is true if the database usually survives a freeze or a restart of Ironic: heartbeats of an agent continue.
	keeps bool
}

// storms are sorted by severity.
func (s *stage) storms() []storm {
	return []storm{
		{name: "CPU stalled for 1 s", strike: s.stall(time.Second), keeps: true},
		{name: "cable out for 1 s", strike: flap(time.Second), keeps: true},
		{name: "30 % of packets lost for 10 s", strike: lose(10 * time.Second), moves: true},
		{name: "guard killed", strike: s.killGuard, keeps: true},
		{name: "keepalived killed", strike: s.killKeepalived, keeps: true},
		{name: "httpd of the images away for 3 s", strike: s.restartImages},
		{name: "Ironic killed", strike: s.crashIronic, keeps: true},
		{name: "CPU stalled for 3 s", strike: s.stall(3 * time.Second), moves: true, shares: true, keeps: true},
		{name: "CPU stalled for 5 s", strike: s.stall(5 * time.Second), moves: true, shares: true},
		{name: "CPU stalled for 3.7 s", strike: s.stall(3700 * time.Millisecond), moves: true, shares: true},
		{name: "cable out for 3 s", strike: flap(3 * time.Second), moves: true, keeps: true},
		{name: "cable out for 10 s", strike: flap(10 * time.Second), moves: true},
		{name: "guard ended", strike: s.endGuard, moves: true},
		{name: "demoted by its file", strike: s.demote, moves: true},
		{name: "vip pod killed, and not started", strike: s.killPod, moves: true, shares: true},
		{name: "node rebooted", strike: s.reboot, moves: true},
		{name: "power off", strike: s.loseHost, moves: true},
		{name: "network divided for 10 s, and healed", strike: s.divide, moves: true, shares: true, divides: true},
	}
}

// measured are the measurements of a storm, one for each run.
type measured struct {
	storm        storm
	address, api []time.Duration
	shared       time.Duration
	active       time.Duration
	kept, struck int

	// took are the times of power commands, and silence the times without a heartbeat, while the database is kept.
	took, silence []time.Duration
	// failed is the number of commands for which Ironic reports an error, and requests the most requests to the BMC for
	// one command.
	failed, requests int
}

// measure causes a storm on the holder, and records the effects after the recovery.
func (s *stage) measure(b *testing.B, what storm, entered *measured) {
	b.Helper()
	holder := s.holder()
	name := fmt.Sprintf("before-%d", time.Now().UnixNano())
	s.enrol(b, name)
	command := s.inFlight.begin(b, what)
	began := time.Now()
	what.strike(b, holder)
	command.end(b)
	s.rest(b)
	ended := time.Now()
	entered.struck++
	entered.address = append(entered.address, s.census.gap(began, ended))
	entered.api = append(entered.api, s.meter.outage(began))
	shared := s.census.shared(began)
	entered.shared = max(entered.shared, shared)
	active := s.active.shared(began)
	entered.active = max(entered.active, active)
	known := s.deleteNode(b, name)
	switch {
	case known && what.divides:
		b.Errorf("%s: the previous database of %s is back", what.name, holder.name)
	case known:
		entered.kept++
	case !what.moves:
		b.Errorf("%s: the database of %s is lost", what.name, holder.name)
	}
	if shared > 0 && !what.shares {
		b.Errorf("%s: two nodes answered for the VIP for %s", what.name, shared)
	}
	if active > 0 && !what.divides {
		b.Errorf("%s: two Ironics were active for %s", what.name, active)
	}
	command.record(b, entered, known)
}

// enrol registers a node in the Ironic of the holder.
func (s *stage) enrol(b *testing.B, name string) {
	b.Helper()
	eventually(b, time.Minute, "Ironic takes a node", func() string {
		_, err := nodes.Create(b.Context(), s.api, nodes.CreateOpts{Driver: "fake-hardware", Name: name}).Extract()
		return text(err)
	})
}

// deleteNode deletes the node, and returns true if Ironic still had it.
func (s *stage) deleteNode(b *testing.B, name string) (known bool) {
	b.Helper()
	eventually(b, time.Minute, "Ironic answers for the node", func() string {
		err := nodes.Delete(b.Context(), s.api, name).ExtractErr()
		known = err == nil
		if gophercloud.ResponseCodeIs(err, 404) {
			return ""
		}
		return text(err)
	})
	return known
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// benchmarkStorms prints a matrix: how long the VIP and the API of Ironic were unavailable, whether the database was
// kept, and how long two nodes answered for the VIP and two Ironics were active. Another table has the power commands
// and the heartbeats that were in flight.
func benchmarkStorms(b *testing.B) {
	b.Helper()
	s := newStage(b)
	var matrix []*measured
	for _, what := range s.storms() {
		entered := &measured{storm: what}
		b.Run(strings.ReplaceAll(what.name, ",", ""), func(b *testing.B) {
			for b.Loop() {
				s.measure(b, what, entered)
			}
		})
		if entered.struck > 0 {
			matrix = append(matrix, entered)
		}
	}
	printStorms(matrix)
	printInFlight(matrix)
}

func printStorms(matrix []*measured) {
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-38s %8s %8s %8s %8s %9s %8s %8s\n", "", "VIP away", "worst", "API away", "worst", "database", "shared",
		"active")
	for _, row := range matrix {
		slices.Sort(row.address)
		slices.Sort(row.api)
		fmt.Fprintf(&table, "%-38s %6.2f s %6.2f s %6.2f s %6.2f s %4d/%-4d %6.2f s %6.3f s\n", row.storm.name,
			middle(row.address), worst(row.address), middle(row.api), worst(row.api), row.kept, row.struck, row.shared.Seconds(),
			row.active.Seconds())
	}
	_, _ = fmt.Fprint(os.Stdout, table.String())
}

func printInFlight(matrix []*measured) {
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-38s %8s %8s %8s %8s %9s %8s\n", "", "command", "worst", "failed", "requests", "heartbeat",
		"worst")
	for _, row := range matrix {
		fmt.Fprintf(&table, "%-38s %s %5d/%-2d %8d  %s\n", row.storm.name, spans(row.took), row.failed, len(row.took),
			row.requests, spans(row.silence))
	}
	_, _ = fmt.Fprint(os.Stdout, table.String())
}

// spans returns the median and the worst time.
func spans(of []time.Duration) string {
	if len(of) == 0 {
		return fmt.Sprintf("%8s %8s", "-", "-")
	}
	slices.Sort(of)
	return fmt.Sprintf("%6.2f s %6.2f s", middle(of), worst(of))
}

func middle(sorted []time.Duration) float64 { return sorted[len(sorted)/2].Seconds() }
func worst(sorted []time.Duration) float64  { return sorted[len(sorted)-1].Seconds() }

// stall stops all processes of the holder, as a hypervisor or a broken disk does. Ironic continues first.
func (s *stage) stall(span time.Duration) func(*testing.B, *node) {
	return func(b *testing.B, holder *node) {
		b.Helper()
		stopped := holder.processes("")
		for _, pid := range stopped {
			must(b, syscall.Kill(pid, syscall.SIGSTOP))
		}
		s.active.stalled.Store(holder.name, true)
		<-time.After(span)
		ironics := holder.kubelet.ironics()
		slices.SortStableFunc(stopped, func(one, other int) int {
			return cmp.Compare(slices.Index(ironics, other), slices.Index(ironics, one))
		})
		s.active.stalled.Delete(holder.name)
		for _, pid := range stopped {
			must(b, syscall.Kill(pid, syscall.SIGCONT))
		}
	}
}

// flap removes the carrier of the holder for a while.
func flap(span time.Duration) func(*testing.B, *node) {
	return func(b *testing.B, holder *node) {
		b.Helper()
		holder.turnPort(false)
		<-time.After(span)
		holder.turnPort(true)
	}
}

// lose drops three of ten packets from and to the holder.
func lose(span time.Duration) func(*testing.B, *node) {
	return func(b *testing.B, holder *node) {
		b.Helper()
		filter, err := nftables.New(nftables.WithNetNSFd(int(holder.space)))
		must(b, err)
		table := filter.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "storm"})
		for _, hook := range []*nftables.ChainHook{nftables.ChainHookInput, nftables.ChainHookOutput} {
			chain := filter.AddChain(&nftables.Chain{
				Name: fmt.Sprintf("hook-%d", *hook), Table: table, Type: nftables.ChainTypeFilter,
				Hooknum: hook, Priority: nftables.ChainPriorityFilter,
			})
			filter.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
				&expr.Numgen{Register: 1, Modulus: 10, Type: uint32(1)},
				&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4},
				&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binaryutil.BigEndian.PutUint32(3)},
				&expr.Verdict{Kind: expr.VerdictDrop},
			}})
		}
		must(b, filter.Flush())
		<-time.After(span)
		filter.DelTable(table)
		must(b, filter.Flush())
	}
}

// killGuard kills the guard, and keepalived with it, as in a container that runs out of memory.
func (s *stage) killGuard(b *testing.B, holder *node) {
	b.Helper()
	kill(b, append(holder.keepalivedProcesses(), holder.process.Process.Pid))
	<-holder.ended
	holder.start()
}

func (s *stage) killKeepalived(b *testing.B, holder *node) {
	b.Helper()
	kill(b, holder.keepalivedProcesses())
}

func (s *stage) restartImages(b *testing.B, holder *node) {
	b.Helper()
	must(b, holder.images.Close())
	<-time.After(3 * time.Second)
	holder.images = holder.startImages()
}

func (s *stage) crashIronic(b *testing.B, holder *node) {
	b.Helper()
	holder.kubelet.crash()
	eventually(b, generous, "the API is unavailable", func() string { return s.meter.now() })
}

func (s *stage) endGuard(b *testing.B, holder *node) {
	b.Helper()
	holder.signal(syscall.SIGTERM)
	<-holder.ended
	holder.start()
}

func (s *stage) demote(b *testing.B, holder *node) {
	b.Helper()
	began := time.Now()
	holder.write("etc/armed", "0\n")
	s.moves(b, began, holder)
	must(b, os.Remove(holder.path("etc", "armed")))
}

// killPod leaves the VIP on the interface of a running machine, without a program that removes it.
func (s *stage) killPod(b *testing.B, holder *node) {
	b.Helper()
	began := time.Now()
	kill(b, append(holder.keepalivedProcesses(), holder.process.Process.Pid))
	s.moves(b, began, holder)
	eventually(b, generous, "the kernel removes the leftover VIP", s.census.settled(500*time.Millisecond))
	<-holder.ended
	holder.start()
}

// reboot cuts power and cable, and restores them after twenty seconds.
func (s *stage) reboot(b *testing.B, holder *node) {
	b.Helper()
	s.cut(b, holder)
	<-time.After(20 * time.Second)
	s.boot(b, holder)
}

// loseHost cuts power and cable. The machine returns at the end, for the following storms.
func (s *stage) loseHost(b *testing.B, holder *node) {
	b.Helper()
	began := time.Now()
	s.cut(b, holder)
	s.moves(b, began, holder)
	s.boot(b, holder)
}

func (s *stage) cut(b *testing.B, holder *node) {
	b.Helper()
	holder.turnPort(false)
	killAll(b, holder)
	<-holder.ended
}

// boot restores the cable and the guard of a machine.
func (s *stage) boot(b *testing.B, holder *node) {
	b.Helper()
	// The leftover VIP would be gone after the start of the machine.
	eventually(b, generous, "the VIP leaves the dead node", noHolder(holder))
	holder.turnPort(true)
	holder.start()
}

// divide separates the holder from the other nodes and all clients, while it has a carrier.
func (s *stage) divide(_ *testing.B, holder *node) {
	holder.move("br1")
	<-time.After(10 * time.Second)
	holder.move("br0")
}
