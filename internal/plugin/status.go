package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/sets"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

const (
	// defaultInterval is the interval of status --watch.
	defaultInterval = 2 * time.Second

	// clearScreen moves to the top left corner of a terminal and clears the screen.
	clearScreen = "\x1b[H\x1b[2J"
)

// Values of --until.
const (
	untilParked  = "parked"
	untilArrived = "arrived"
	untilAdopted = "adopted"
)

// statusCommand is status with its flags.
type statusCommand struct {
	where    sides
	form     output
	all      bool
	watch    bool
	until    string
	interval time.Duration
	timeout  time.Duration

	source, target *cluster
}

func setupStatus(set *pflag.FlagSet) runner {
	c := &statusCommand{}
	c.where.add(set)
	set.BoolVarP(&c.all, "all-namespaces", "A", false, "read all namespaces")
	set.BoolVarP(&c.watch, "watch", "w", false,
		"repeat: redraw a terminal; print lines that changed elsewhere, or one document per change")
	set.StringVar(&c.until, "until", "", "end --watch when all hosts are parked, arrived or adopted")
	set.DurationVar(&c.interval, "interval", defaultInterval, "time between two reads of --watch")
	set.DurationVar(&c.timeout, "timeout", 0, "how long --until waits; 0 is without a limit")
	c.form.add(set)
	return c.run
}

func (c *statusCommand) check() error {
	_, known := goals()[c.until]
	switch {
	case c.form != formWide && c.form.check() != nil:
		return fmt.Errorf("--output is %q; use text, wide, json or yaml", string(c.form))
	case c.interval <= 0:
		return fmt.Errorf("--interval is %s; use a time above zero, such as 2s", c.interval)
	case c.timeout < 0:
		return fmt.Errorf("--timeout is %s; use a time above zero, such as 10m", c.timeout)
	case c.until != "" && !known:
		return fmt.Errorf("--until is %q; use parked, arrived or adopted", c.until)
	case c.until != "" && !c.watch:
		return fmt.Errorf("--until is %q without --watch: set --watch too", c.until)
	case c.until != "" && c.until != untilParked && c.where.toKubeconfig == "":
		return fmt.Errorf("--until is %q, and --to-kubeconfig is empty: name the target", c.until)
	default:
		return nil
	}
}

func (c *statusCommand) run(ctx context.Context, environment Environment) (int, error) {
	if err := c.check(); err != nil {
		return exitBlind, err
	}
	var err error
	if c.source, c.target, err = c.where.open(); err != nil {
		return exitBlind, err
	}
	if c.watch {
		return c.follow(ctx, c.reporter(environment.Output))
	}
	// A side that answers is printed even if the other side does not answer. The error sets the exit code.
	seen, err := c.look(ctx)
	if c.form.machine() {
		return exitDone, errors.Join(err, c.form.write(environment.Output, seen, false))
	}
	return exitDone, errors.Join(err, seen.write(environment.Output, c.form == formWide, false))
}

// follow reports each view until the context ends, or until the goal is reached.
func (c *statusCommand) follow(ctx context.Context, report func(view) error) (int, error) {
	reached, limited := goals()[c.until], ctx
	if c.timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	ticker := time.NewTicker(c.interval)
	defer ticker.Stop()
	// The timeout does not bound the first view.
	for bound := ctx; ; bound = limited {
		// The view has the error of a side that does not answer.
		seen, _ := c.look(bound)
		if bound.Err() == nil {
			if err := report(seen); err != nil {
				return exitBlind, err
			}
			if reached != nil && seen.complete() && reached(seen) {
				return exitDone, nil
			}
		}
		select {
		case <-limited.Done():
			if c.until == "" {
				return exitDone, nil
			}
			return exitNotReady, nil
		case <-ticker.C:
		}
	}
}

// goals returns whether the goal of --until is reached.
func goals() map[string]func(view) bool {
	return map[string]func(view) bool{
		untilParked:  func(v view) bool { return v.Source.parked() || v.arrived() },
		untilArrived: view.arrived,
		untilAdopted: func(v view) bool { return v.arrived() && v.Target.adopted() },
	}
}

// parked returns true if all Clusters are paused, and all hosts may be copied.
func (s *sideView) parked() bool {
	running := func(cluster clusterView) bool { return !cluster.Paused }
	busy := func(host hostView) bool { return host.Phase != pivot.PhaseParked && host.Phase != pivot.PhaseLeaving }
	return len(s.Clusters) > 0 && !slices.ContainsFunc(s.Clusters, running) && !slices.ContainsFunc(s.Hosts, busy)
}

// arrived returns true if the source is empty, and the Clusters and hosts of the target run.
func (v view) arrived() bool {
	if v.Target == nil || len(v.Source.Clusters)+len(v.Source.Hosts) > 0 || len(v.Target.Clusters) == 0 {
		return false
	}
	paused := func(cluster clusterView) bool { return cluster.Paused }
	return !slices.ContainsFunc(v.Target.Clusters, paused) && !slices.ContainsFunc(v.Target.Hosts, waits)
}

// waits returns true for a host that is still paused for the move.
func waits(host hostView) bool {
	switch host.Phase {
	case pivot.PhaseRunning, pivot.PhaseBusy, pivot.PhasePausedByUser:
		return false
	default:
		return true
	}
}

// awaitsIronic returns true for a host that waits until the Ironic endpoint of another namespace has moved.
func awaitsIronic(host hostView) bool {
	return host.Phase == pivot.PhaseWaitingForEndpoint && host.Reason == pivot.PauseReason(pivot.AwaitIronic)
}

// arrives returns true for a host that waits, and not for another namespace.
func arrives(host hostView) bool { return waits(host) && !awaitsIronic(host) }

// adopted returns true if the control plane holds each Ironic endpoint, and its Ironic has registered all hosts.
func (s *sideView) adopted() bool {
	return !slices.ContainsFunc(s.Clusters, func(cluster clusterView) bool {
		ironic := cluster.Ironic
		return ironic != nil && (!strings.HasPrefix(ironic.Holder, string(infrav1.HolderControlPlane)) ||
			ironic.KnownHosts == nil || int(*ironic.KnownHosts) < ironic.ExpectedHosts)
	})
}

// look reads both sides. The error names the sides that do not answer. The view has them, too.
func (c *statusCommand) look(ctx context.Context) (view, error) {
	seen := view{header: headerOf("PivotStatus")}
	var first, second error
	seen.Source, first = c.side(ctx, c.source)
	if c.target != nil {
		seen.Target, second = c.side(ctx, c.target)
	}
	if c.all {
		seen.Namespaces = seen.campaign(c.where.flags())
	}
	return seen, errors.Join(first, second)
}

func (c *statusCommand) side(ctx context.Context, from *cluster) (*sideView, error) {
	var sights []*sight
	var err error
	if c.all {
		sights, err = from.lookEverywhere(ctx)
	} else {
		var seen *sight
		seen, err = from.lookLeniently(ctx, c.where.namespace)
		sights = []*sight{seen}
	}
	if err != nil {
		return &sideView{Problem: err.Error(), Clusters: []clusterView{}, Free: []freeView{}, Hosts: []hostView{}}, err
	}
	return summarize(sights), nil
}

// reporter returns a function that prints each view.
func (c *statusCommand) reporter(writer io.Writer) func(view) error {
	switch {
	case c.form.machine():
		return reportDocuments(writer, c.form)
	case isTerminal(writer):
		return func(seen view) error {
			if _, err := io.WriteString(writer, clearScreen); err != nil {
				return fmt.Errorf("writing the result: %w", err)
			}
			return seen.write(writer, c.form == formWide, true)
		}
	default:
		return reportLines(writer)
	}
}

// reportDocuments writes a view that differs from the previous one.
func reportDocuments(writer io.Writer, form output) func(view) error {
	var last []byte
	return func(seen view) error {
		var document bytes.Buffer
		if err := form.write(&document, seen, true); err != nil {
			return err
		}
		if bytes.Equal(document.Bytes(), last) {
			return nil
		}
		last = document.Bytes()
		if _, err := writer.Write(last); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
		return nil
	}
}

// lineReport records the printed lines, to print only changes.
type lineReport struct {
	writer io.Writer

	// cells are the last printed cells of each subject and fact. Nil before the first print.
	cells map[[2]string][]string

	// lines are the lines below the table.
	lines sets.Set[string]
}

// reportLines writes the whole table first, and then the rows and lines that differ from those before.
func reportLines(writer io.Writer) func(view) error {
	r := &lineReport{writer: writer}
	return func(seen view) error {
		first := r.cells == nil
		if first {
			r.cells = map[[2]string][]string{}
		}
		changed := r.compare(seen)
		if first {
			return seen.write(writer, false, false)
		}
		return printTable(writer, changed)
	}
}

// compare records a view, and returns its differences from the previous one. A side that does not answer has none.
func (r *lineReport) compare(seen view) [][]string {
	var changed [][]string
	subjects := sets.New[string]()
	for _, row := range slices.Concat(seen.rows(), seen.hostRows()) {
		subjects.Insert(row.subject)
		if r.differs(row) {
			changed = append(changed, row.cells())
		}
	}
	if seen.complete() {
		gone := sets.New[string]()
		for key := range r.cells {
			if !subjects.Has(key[0]) {
				gone.Insert(key[0])
				delete(r.cells, key)
			}
		}
		for _, subject := range sets.List(gone) {
			changed = append(changed, []string{subject, "gone"})
		}
	}
	for _, line := range seen.why() {
		if !r.lines.Has(line) {
			changed = append(changed, []string{line})
		}
	}
	r.lines = sets.New(seen.why()...)
	return changed
}

func (r *lineReport) differs(now row) bool {
	key := [2]string{now.subject, now.fact}
	before, told := r.cells[key]
	if !told {
		r.cells[key] = slices.Clone(now.sides)
		return true
	}
	differs := false
	for i, cell := range now.sides {
		if cell != unseen && cell != before[i] {
			before[i], differs = cell, true
		}
	}
	return differs
}

// hostRows returns the phases of all hosts. Each row has the names of its columns.
func (v view) hostRows() []row {
	var rows []row
	pairs := v.pairs()
	for _, name := range sortedKeys(pairs) {
		rows = append(rows, row{"host " + name, "phase", v.phaseCells(pairs[name])})
	}
	return rows
}

// write prints the namespaces, the Clusters, the hosts, and notes. It omits hosts that do not wait if brief is true, or
// if there is a table of namespaces.
func (v view) write(writer io.Writer, wide, brief bool) error {
	head := []string{"CLUSTER", "WHAT", "STATE"}
	if v.Target != nil {
		head = []string{"CLUSTER", "WHAT", "SOURCE", "TARGET"}
	}
	table := [][]string{head}
	for _, row := range v.rows() {
		table = append(table, row.cells())
	}
	if len(table) == 1 && v.complete() {
		return say(writer, "There is no Metal3Cluster and no host; look elsewhere with --namespace or --all-namespaces.")
	}
	if err := errors.Join(printCampaign(writer, v.Namespaces), printTable(writer, table)); err != nil {
		return err
	}
	if hosts := v.hostTable(wide, brief || len(v.Namespaces) > 1); len(hosts) > 1 {
		if err := errors.Join(say(writer, ""), printTable(writer, hosts)); err != nil {
			return err
		}
	}
	for i, line := range v.why() {
		format := "%s"
		if i == 0 {
			format = "\n%s"
		}
		if err := say(writer, format, line); err != nil {
			return err
		}
	}
	return nil
}

func isTerminal(writer io.Writer) bool {
	file, isFile := writer.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}
