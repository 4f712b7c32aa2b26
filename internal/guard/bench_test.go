package guard_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/ironic"
)

// measures are the rows of the table, in order.
type measures struct {
	rows []*row
}

// row is one measurement in one unit.
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

// print writes the table. A row without figures fails the bench.
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

// BenchmarkEndpoint measures the view of a client on the network, with the real keepalived and Ironic. `make
// bench-vip` runs it.
func BenchmarkEndpoint(b *testing.B) {
	all := &measures{}
	b.Run("storms", benchmarkStorms)
	b.Run("footprint", func(b *testing.B) { benchmarkFootprint(b, all) })
	b.Run("rendering", func(b *testing.B) { benchmarkRendering(b, all) })
	all.print(b)
}

// stage is a control plane of three nodes with clients that observe it. The nodes have the default timers.
type stage struct {
	*lab
	nodes  []*node
	census *census
	active *activity
	meter  *meter
	// api is Ironic at the VIP.
	api      *gophercloud.ServiceClient
	inFlight *inFlight
}

func newStage(b *testing.B) *stage {
	b.Helper()
	requireLab(b)
	root, err := ironic.CachedRoot()
	must(b, err)
	if root == "" {
		b.Fatal("requires the root file system of Ironic in the cache: run make lab as root")
	}
	s := &stage{lab: newLab(b)}
	for _, name := range []string{"a", "b", "c"} {
		s.nodes = append(s.nodes, s.addNode(name))
	}
	for _, n := range s.nodes {
		n.configure(vip.ControlPlane, s.nodes...)
		settings := n.settings
		settings.Takeover = vip.Always
		settings.AdvertisementInterval = vip.Duration(keepalived.DefaultAdvertisementInterval)
		settings.TakeoverWithin = vip.Duration(keepalived.DefaultTakeoverWithin)
		n.use(settings)
		n.startAPIServer()
		n.startKubelet(root)
		n.start()
	}
	client := s.addNode("client")
	s.api = client.api(vip4)
	s.inFlight = s.newInFlight(client)
	s.census = s.takeCensus(b, client, s.nodes...)
	s.active = s.takeActivity(b, s.nodes...)
	s.meter = s.watch(b, 300*time.Millisecond)
	s.rest(b)
	return s
}

// rest waits until all nodes are healthy, so that the standbys compete in the next measurement. In the first two
// seconds after its start, keepalived would delay that.
func (s *stage) rest(b *testing.B) {
	b.Helper()
	for _, n := range s.nodes {
		eventually(b, 2*time.Minute, "the node takes part", n.ready)
	}
	// An earlier answer does not count: the holder may be about to change.
	const calm = 3 * time.Second
	began := time.Now()
	eventually(b, time.Minute, "one node answers", func() string {
		if time.Since(began) < calm {
			return "too early"
		}
		return s.census.settled(calm)()
	})
	eventually(b, time.Minute, "its Ironic answers", func() string { return differs(s.census.holder(), s.meter.now()) })
}

func (s *stage) holder() *node {
	index := slices.IndexFunc(s.nodes, func(n *node) bool { return n.name == s.census.holder() })
	return s.nodes[max(index, 0)]
}

// moves waits until a node other than the old one answers.
func (s *stage) moves(b *testing.B, then time.Time, old *node) {
	b.Helper()
	eventually(b, time.Minute, "another node answers", func() string {
		if _, _, moved := s.census.arrival(then, old.name); !moved {
			return "still " + s.census.holder()
		}
		return ""
	})
}

// turnPort switches the switch port of the node on or off.
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

// footprintSpan is the time of one measurement of the guard.
const footprintSpan = 5 * time.Second

// benchmarkFootprint measures an idle guard that holds the VIP and serves its metrics.
func benchmarkFootprint(b *testing.B, all *measures) {
	b.Helper()
	resident := all.row("memory of the guard", "MiB", 30)
	busy := all.row("processor of the guard", "%", 1)
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

// processorTime returns the processor time of the process, with a resolution of a nanosecond.
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
