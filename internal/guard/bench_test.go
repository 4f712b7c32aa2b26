package guard_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/ironic"
)

// measures are what a row of the table is made from, in the order of the table.
type measures struct {
	rows []*row
}

// row is one thing that is measured, in one unit.
type row struct {
	what, unit string
	goal       float64
	values     []float64
}

func (m *measures) row(what, unit string, goal float64) *row {
	added := &row{what: what, unit: unit, goal: goal}
	m.rows = append(m.rows, added)
	return added
}

func (r *row) add(value float64) {
	r.values = append(r.values, value)
}

// print writes the table. A row without figures fails the bench: a goal that nobody has measured is not reached.
func (m *measures) print(b *testing.B) {
	b.Helper()
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-66s %10s %10s %10s %5s\n", "", "median", "worst", "goal", "of")
	for _, row := range m.rows {
		slices.Sort(row.values)
		count := len(row.values)
		if count == 0 {
			fmt.Fprintf(&table, "%-66s %s\n", row.what, "not measured")
			b.Errorf("not measured: %s", row.what)
			continue
		}
		number := func(value float64) string { return fmt.Sprintf("%.2f %s", value, row.unit) }
		fmt.Fprintf(&table, "%-66s %10s %10s %10s %5d\n", row.what, number(row.values[count/2]),
			number(row.values[count-1]), number(row.goal), count)
	}
	_, _ = fmt.Fprint(os.Stdout, table.String())
}

// BenchmarkEndpoint measures what a client on the network sees, with the real keepalived and the real Ironic. `make
// bench-vip` runs it; each iteration is one takeover.
func BenchmarkEndpoint(b *testing.B) {
	all := &measures{}
	b.Run("takeover", func(b *testing.B) { benchmarkTakeover(b, all) })
	b.Run("footprint", func(b *testing.B) { benchmarkFootprint(b, all) })
	b.Run("rendering", func(b *testing.B) { benchmarkRendering(b, all) })
	all.print(b)
}

// stage is a control plane of three nodes with clients that watch.
type stage struct {
	*lab
	nodes  []*node
	census *census
	meter  *meter

	// again is how long the API takes to answer after the address moved, outlived how long the Ironic of before has
	// outlived its address.
	again, outlived *row

	// away is how long the API did not answer the last time that the address moved.
	away time.Duration
}

func newStage(b *testing.B, again, outlived *row) *stage {
	b.Helper()
	requireLab(b)
	root, err := ironic.CachedRoot()
	must(b, err)
	if root == "" {
		b.Fatal("needs the root file system of Ironic in the cache: make lab as root puts it there")
	}
	s := &stage{lab: newLab(b), again: again, outlived: outlived}
	for _, name := range []string{"a", "b", "c"} {
		s.nodes = append(s.nodes, s.addNode(name))
	}
	for _, n := range s.nodes {
		n.configure(vip.ControlPlane, s.nodes...)
		settings := n.settings
		settings.Takeover = vip.Always
		n.use(settings)
		n.startAPIServer()
		n.startKubelet(root)
		n.start()
	}
	s.census = s.takeCensus(b, s.addNode("client"), s.nodes...)
	s.meter = s.watch(b, 300*time.Millisecond)
	s.rest(b)
	return s
}

// rest waits until all is well again, so that what comes next finds standbys that compete. For two seconds after its
// start keepalived would wait that much longer.
func (s *stage) rest(b *testing.B) {
	b.Helper()
	for _, n := range s.nodes {
		eventually(b, 2*time.Minute, "the node takes part", n.ready)
	}
	eventually(b, time.Minute, "one node answers", s.census.settled(3*time.Second))
}

func (s *stage) holder() *node {
	index := slices.IndexFunc(s.nodes, func(n *node) bool { return n.name == s.census.holder() })
	return s.nodes[max(index, 0)]
}

// moves returns how long after then another node than the old one answered.
func (s *stage) moves(b *testing.B, then time.Time, old *node) time.Duration {
	b.Helper()
	var at time.Time
	var next string
	eventually(b, time.Minute, "another node answers", func() string {
		arrived, who, moved := s.census.arrival(then, old.name)
		if at, next = arrived, who; moved {
			return ""
		}
		return "still " + s.census.holder()
	})
	eventually(b, time.Minute, "Ironic answers", func() string {
		answered, does := s.meter.answered(at, next)
		if !does {
			return s.meter.now() + " answers"
		}
		s.again.add(answered.Sub(at).Seconds())
		s.away = answered.Sub(then)
		return ""
	})
	return at.Sub(then)
}

// turnPort switches the port of the switch that the node is plugged into.
func (n *node) turnPort(on bool) {
	t := n.lab.t
	port, err := n.lab.bridge.LinkByName("p-" + n.name + "-eth0")
	must(t, err)
	turn := n.lab.bridge.LinkSetDown
	if on {
		turn = n.lab.bridge.LinkSetUp
	}
	must(t, turn(port))
}

func benchmarkTakeover(b *testing.B, all *measures) {
	b.Helper()
	lost := all.row("a host is lost: the address answers elsewhere", "s", 1)
	demoted := all.row("a holder is demoted (guard told to end): it answers elsewhere", "s", 0.3)
	byFile := all.row("a holder is demoted by its file: it answers elsewhere", "s", 0.3)
	crashed := all.row("Ironic crashed: its API answers again, with its database", "s", 10)
	lostAPI := all.row("a host is lost: the API of Ironic answers again", "s", 3)
	demotedAPI := all.row("a holder is demoted (guard told to end): the API answers again", "s", 1)
	again := all.row("the address moved to a warm standby: the API of Ironic answers", "s", 2)
	outlived := all.row("the address left: something is left of the Ironic that had it", "ms", 100)
	both := all.row("the vip pod is killed: two answer for the address", "s", 2)
	never := all.row("in all other cases together: two answer for the address", "s", 0)
	s := newStage(b, again, outlived)
	for round := 1; b.Loop(); round++ {
		fmt.Fprintf(os.Stderr, "takeovers of round %d\n", round)
		began := time.Now()
		s.measure(lost, lostAPI, s.loseHost(b))
		s.measure(demoted, demotedAPI, s.endGuard(b))
		byFile.add(s.demote(b).Seconds())
		crashed.add(s.crashIronic(b).Seconds())
		never.add(s.census.shared(began).Seconds())
		both.add(s.killPod(b).Seconds())
	}
}

// measure enters how long the VIP did not answer, and how long the API did not.
func (s *stage) measure(address, api *row, took time.Duration) {
	address.add(took.Seconds())
	api.add(s.away.Seconds())
}

// loseHost cuts power and cable.
func (s *stage) loseHost(b *testing.B) time.Duration {
	b.Helper()
	old, began := s.holder(), time.Now()
	old.turnPort(false)
	killAll(b, old)
	took := s.moves(b, began, old)
	<-old.ended
	// What is left of the address would be gone after the start of the machine.
	eventually(b, generous, "the address leaves the dead node", nobody(old))
	old.turnPort(true)
	old.start()
	s.rest(b)
	return took
}

func (s *stage) endGuard(b *testing.B) time.Duration {
	b.Helper()
	old, began := s.holder(), time.Now()
	old.signal(syscall.SIGTERM)
	took := s.moves(b, began, old)
	<-old.ended
	old.start()
	s.rest(b)
	return took
}

func (s *stage) demote(b *testing.B) time.Duration {
	b.Helper()
	old, began := s.holder(), time.Now()
	before := old.kubelet.count()
	old.write("etc/armed", "0\n")
	took := s.moves(b, began, old)
	must(b, os.Remove(old.path("etc", "armed")))
	s.rest(b)
	s.outlived.add(float64(old.kubelet.livedOn(before)) / float64(time.Millisecond))
	return took
}

func (s *stage) crashIronic(b *testing.B) time.Duration {
	b.Helper()
	old, began := s.holder(), time.Now()
	old.kubelet.crash()
	eventually(b, generous, "the API is away", func() string { return s.meter.now() })
	away := time.Now()
	var back time.Time
	eventually(b, time.Minute, "Ironic is back in its term", func() (missing string) {
		at, answers := s.meter.answered(away, old.name)
		if back = at; !answers {
			missing = "it does not answer"
		}
		return missing
	})
	s.rest(b)
	return back.Sub(began)
}

// killPod leaves the address on the interface of a machine that lives, with nobody to take it away.
func (s *stage) killPod(b *testing.B) time.Duration {
	b.Helper()
	old, began := s.holder(), time.Now()
	kill(b, append(old.processes("keepalived"), old.process.Process.Pid))
	s.moves(b, began, old)
	eventually(b, generous, "the leftover goes", s.census.settled(500*time.Millisecond))
	took := s.census.overlap(began, old.name)
	<-old.ended
	old.start()
	s.rest(b)
	return took
}

// footprintSpan is for how long the guard is watched in each iteration.
const footprintSpan = 5 * time.Second

// benchmarkFootprint watches a guard that holds the address, is asked for its metrics, and has nothing else to do.
func benchmarkFootprint(b *testing.B, all *measures) {
	b.Helper()
	resident := all.row("memory of the guard", "MiB", 15)
	busy := all.row("processor of the guard", "%", 0.5)
	_, n := alone(b)
	for b.Loop() {
		_ = n.metric("vip_holder")
		before := processorTime(b, n.process.Process.Pid)
		<-time.After(footprintSpan)
		used := processorTime(b, n.process.Process.Pid) - before
		busy.add(100 * used.Seconds() / footprintSpan.Seconds())
		resident.add(residentMemory(b, n.process.Process.Pid))
	}
}

// residentMemory of the process in MiB.
func residentMemory(tb testing.TB, pid int) float64 {
	tb.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(tb, err)
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			var kilobytes float64
			_, err = fmt.Sscan(value, &kilobytes)
			must(tb, err)
			return kilobytes / 1024
		}
	}
	tb.Fatalf("process %d has no VmRSS", pid)
	return 0
}

// processorTime is how long the process has run on a processor, with a resolution of a nanosecond.
func processorTime(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	must(tb, err)
	var sum int64
	for _, entry := range entries {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, entry.Name()))
		if err != nil {
			continue
		}
		var ran int64
		_, err = fmt.Sscan(string(content), &ran)
		must(tb, err)
		sum += ran
	}
	return time.Duration(sum)
}
