package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

// Goals for two processors.
const (
	goalSize        = 1000
	goalAssociation = 10 * time.Second
	goalExponent    = 1.1
	goalMemory      = 150 << 20
	goalMemoryLarge = 300 << 20
	goalRelease     = 3 * time.Second
	goalProcessor   = 5 * time.Millisecond
)

// printSize prints the results of one size.
func printSize(out io.Writer, r result) {
	fmt.Fprintf(out, "\n== %d machines, %d hosts ==\n", r.size, r.hosts)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(table, "%s\t%s\n", name, value) }
	row("creating as many Machines without any manager", seconds(r.plainCreation))
	row("processor time of the manager until it is idle after its start", seconds(r.started.manager))
	row("memory of the manager at its peak, start", mebibytes(r.started.memory))
	if r.waited.manager > 0 {
		row("processor time of the manager until all machines wait", seconds(r.waited.manager))
		row("processor time of the manager in a minute while they wait", seconds(r.minute.manager))
		row("making the hosts available, one by one", seconds(r.creation))
	} else {
		row("creating the Metal3Machines", seconds(r.creation))
	}
	row("all machines have their host, since the first creation", seconds(r.associated))
	row("the same writes by plain clients, without manager and webhooks", seconds(r.floor))
	row("all machines have their host, since the last creation", seconds(r.afterLast))
	row("processor time of the manager until then", seconds(r.used.manager))
	row("the same per machine, goal "+milliseconds(goalProcessor, 1), milliseconds(r.used.manager, r.size))
	row("processor time of the API server until then", seconds(r.used.server))
	row("processor time of etcd until then", seconds(r.used.etcd))
	row("processor time of this program until then", seconds(r.used.own))
	row("memory of the manager at its peak, association", mebibytes(r.used.memory))
	row("memory of the manager at its peak, all phases", mebibytes(r.memory))
	if r.idle != nil {
		row("processor time of the manager in an idle minute", seconds(r.minute.manager))
		row("requests of the manager in that minute", strconv.Itoa(len(ofManager(r.idle))))
	}
	if r.release != nil {
		row("last host available again, since the first deletion", seconds(r.available))
		row("all hosts free and machines deleted, since the last host was available", seconds(r.released))
	}
	if r.contest != nil {
		row(fmt.Sprintf("%d competitors claimed", len(r.contest.clients)), fmt.Sprintf("%d hosts in %s, %d writes refused",
			len(r.contest.claims), seconds(r.contest.took), r.contest.refused))
	}
	table.Flush() //nolint:errcheck // An error of the terminal cannot be shown.
	printRequests(out, "association", r.association, r.size)
	if r.release != nil {
		printRequests(out, "provisioning", r.provisioning, r.size)
		printRequests(out, "release", r.release, r.size)
	}
}

// printRequests prints the requests of the manager in a phase.
func printRequests(out io.Writer, phase string, requests []env.Request, machines int) {
	asked := ofManager(requests)
	perMachine := func(number int) float64 { return float64(number) / float64(machines) }
	writes, events := count(asked, isWrite), count(asked, isEvent)
	fmt.Fprintf(out, "requests of the manager, %s: %.2f per machine, of them writes %.2f (events %.2f), conflicts %d\n",
		phase, perMachine(len(asked)), perMachine(writes), perMachine(events), count(asked, isConflict))
	kinds := env.CountRequests(asked, env.Request.String)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(table, "  %s\t%d\t%.3f per machine\n", kind, kinds[kind], perMachine(kinds[kind]))
	}
	table.Flush() //nolint:errcheck // An error of the terminal cannot be shown.
}

// memoryGoal returns the goal for the memory of the manager in bytes.
func memoryGoal(machines int) int64 {
	if machines <= goalSize {
		return goalMemory
	}
	return goalMemoryLarge
}

// printSummary prints all sizes, their growth, and the goals.
func printSummary(out io.Writer, results []result) {
	fmt.Fprintln(out, "\n== all sizes ==")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table,
		"machines\twall\tgrowth\twrites alone\tprocessor\teach\tgrowth\tmemory\twrites each\trelease\tconflicts")
	for i, r := range results {
		wall, processor := "-", "-"
		if i > 0 {
			smaller := results[i-1]
			wall = growth(smaller, r, func(r result) time.Duration { return r.associated })
			processor = growth(smaller, r, func(r result) time.Duration { return r.used.manager })
		}
		asked, released := ofManager(r.association), "-"
		if r.release != nil {
			released = seconds(r.released)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.2f\t%s\t%d\n",
			r.size, seconds(r.associated), wall, seconds(r.floor), seconds(r.used.manager),
			milliseconds(r.used.manager, r.size), processor, mebibytes(r.memory),
			float64(count(asked, isWrite))/float64(r.size), released, count(asked, isConflict))
	}
	fmt.Fprintf(table, "goal\t%s for %d\tN^%.1f\t\t\t%s\tN^%.1f\t%s\t%d\t%s\n",
		seconds(goalAssociation), goalSize, goalExponent, milliseconds(goalProcessor, 1), goalExponent,
		mebibytes(memoryGoal(results[len(results)-1].size)), writesPerMachine, seconds(goalRelease))
	table.Flush() //nolint:errcheck // An error of the terminal cannot be shown.
}

// growth returns the power of the number of machines with which a value grows.
func growth(smaller, larger result, of func(result) time.Duration) string {
	return fmt.Sprintf("N^%.2f", exponent(
		float64(smaller.size), float64(larger.size), of(smaller).Seconds(), of(larger).Seconds()))
}

// exponent returns the slope between two points on logarithmic axes.
func exponent(x1, x2, y1, y2 float64) float64 {
	return math.Log(y2/y1) / math.Log(x2/x1)
}

func seconds(duration time.Duration) string { return fmt.Sprintf("%.2f s", duration.Seconds()) }

// milliseconds returns the duration per machine.
func milliseconds(duration time.Duration, machines int) string {
	return fmt.Sprintf("%.1f ms", duration.Seconds()*1000/float64(machines))
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }
