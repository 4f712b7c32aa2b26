package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/sets"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

const (
	// defaultInterval is how often status --watch looks.
	defaultInterval = 2 * time.Second

	// clearScreen goes to the top left corner of a terminal and clears what is below.
	clearScreen = "\x1b[H\x1b[2J"
)

// statusCommand is status with its flags.
type statusCommand struct {
	where    sides
	form     output
	all      bool
	watch    bool
	interval time.Duration

	source, target *cluster
}

func setupStatus(set *pflag.FlagSet) func(context.Context, Environment) (int, error) {
	c := &statusCommand{}
	c.where.add(set)
	set.BoolVarP(&c.all, "all-namespaces", "A", false, "look at all namespaces")
	set.BoolVarP(&c.watch, "watch", "w", false,
		"go on: redraw a terminal; print lines that changed elsewhere, or one JSON document per change")
	set.DurationVar(&c.interval, "interval", defaultInterval, "how often --watch looks")
	c.form.add(set)
	return c.run
}

func (c *statusCommand) run(ctx context.Context, environment Environment) (int, error) {
	if err := c.form.check(); err != nil {
		return exitBlind, err
	}
	if c.interval <= 0 {
		return exitBlind, fmt.Errorf("--interval is %s; use a time above zero, such as 2s", c.interval)
	}
	var err error
	if c.source, c.target, err = c.where.open(); err != nil {
		return exitBlind, err
	}
	if c.watch {
		return exitDone, c.follow(ctx, c.reporter(environment.Output))
	}
	// What answers is shown even if the other side does not. The error makes the exit code.
	seen, err := c.look(ctx)
	if c.form.json() {
		return exitDone, errors.Join(err, printJSON(environment.Output, seen, false))
	}
	return exitDone, errors.Join(err, seen.write(environment.Output))
}

// follow reports what is seen until the context ends.
func (c *statusCommand) follow(ctx context.Context, report func(view) error) error {
	ticker := time.NewTicker(c.interval)
	defer ticker.Stop()
	for {
		// A side that does not answer is part of what is seen.
		seen, _ := c.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := report(seen); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look sees both sides. The error tells of those that could not be seen; they are in the view as well.
func (c *statusCommand) look(ctx context.Context) (view, error) {
	var seen view
	var first, second error
	seen.Source, first = c.side(ctx, c.source)
	if c.target != nil {
		seen.Target, second = c.side(ctx, c.target)
	}
	return seen, errors.Join(first, second)
}

func (c *statusCommand) side(ctx context.Context, from *cluster) (*sideView, error) {
	namespaces := []string{c.where.namespace}
	var err error
	if c.all {
		namespaces, err = from.namespaces(ctx)
	}
	var sights []*sight
	for _, namespace := range namespaces {
		var seen *sight
		if seen, err = from.lookLeniently(ctx, namespace); err != nil {
			break
		}
		sights = append(sights, seen)
	}
	if err != nil {
		return &sideView{Problem: err.Error(), Clusters: []clusterView{}, Free: []freeView{}}, err
	}
	return summarize(sights), nil
}

// namespaces are those with a Metal3Cluster or a host.
func (c *cluster) namespaces(ctx context.Context) ([]string, error) {
	found := sets.New[string]()
	infras, err := c.list(ctx, infrav1.GroupVersion.WithKind("Metal3Cluster"), "")
	if err != nil {
		return nil, c.blind(err)
	}
	hosts, err := c.list(ctx, bmov1alpha1.GroupVersion.WithKind("BareMetalHost"), "")
	if err != nil {
		return nil, c.blind(err)
	}
	for _, object := range slices.Concat(infras, hosts) {
		found.Insert(object.Namespace)
	}
	return sets.List(found), nil
}

// reporter returns what tells of each view that is seen one after the other.
func (c *statusCommand) reporter(writer io.Writer) func(view) error {
	switch {
	case c.form.json():
		return reportDocuments(writer)
	case isTerminal(writer):
		return func(seen view) error {
			if _, err := io.WriteString(writer, clearScreen); err != nil {
				return fmt.Errorf("writing the result: %w", err)
			}
			return seen.write(writer)
		}
	default:
		return reportLines(writer)
	}
}

// reportDocuments writes a view that differs from the one before.
func reportDocuments(writer io.Writer) func(view) error {
	var last []byte
	return func(seen view) error {
		var document bytes.Buffer
		if err := printJSON(&document, seen, true); err != nil {
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

// lineReport remembers what was told, to tell only what has changed.
type lineReport struct {
	writer io.Writer

	// cells are those that were last told of each subject and fact. Nil until something was told.
	cells map[[2]string][]string

	// lines are those below the table.
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
			return seen.write(writer)
		}
		return printTable(writer, changed)
	}
}

// compare remembers what is seen, and returns what differs from before. A side that was not seen differs in nothing.
func (r *lineReport) compare(seen view) [][]string {
	var changed [][]string
	subjects := sets.New[string]()
	for _, row := range seen.rows() {
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

func (v view) write(writer io.Writer) error {
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
	if err := printTable(writer, table); err != nil {
		return err
	}
	for i, line := range v.why() {
		if i == 0 {
			line = "\n" + line
		}
		if err := say(writer, "%s", line); err != nil {
			return err
		}
	}
	return nil
}

func isTerminal(writer io.Writer) bool {
	file, isFile := writer.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}
