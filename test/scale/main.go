// Command scale measures how long many machines take to claim their hosts, and to release them.
//
// The manager runs as a separate process with its default flags and the installed user and RBAC rules. A real API
// server calls its webhooks and records every request. All other objects exist before the measurement: hosts
// with realistic hardware details, a Cluster with provisioned infrastructure, and Machines with bootstrap data. The
// manager starts and becomes idle, so that its cache has the hosts. The measurement begins with the creation of the
// first Metal3Machine and ends when the last one reports its host.
//
// The command prints results that depend on the speed of the computer with their goals, and does not fail because of
// them. It checks the other results: no host is claimed twice, no host is listed, and no request is redundant. An idle
// manager writes nothing and reads next to nothing, released hosts have no leftovers, and the memory of the manager is
// within its goal.
//
// The same writes of plain clients, without a manager, show the share of the API server.
//
// With -capm3, the command measures a manager of CAPM3 as an administrator and without webhooks, and checks nothing.
//
// The API server, the clients and the simulated BMO share the processors with the manager. Only results of the same
// computer can be compared.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// problemsShown is the maximum number of printed problems for one size.
const problemsShown = 10

// settings are the values of the flags.
type settings struct {
	sizes       []int
	competitors int
	data        bool
	association bool
	arrivals    bool
	subject     subject
	profiles    string
	patience    time.Duration
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "scale: FAILED:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	settings, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	// The simulated BMO runs in this process. Logs of its libraries would appear between the tables.
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if settings.subject.path == "" {
		folder, err := os.MkdirTemp("", "metal3-scale-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder) //nolint:errcheck // the next boot removes it otherwise
		if settings.subject.path, err = buildManager(ctx, folder); err != nil {
			return err
		}
	}
	if settings.data {
		return measureData(ctx, settings)
	}
	return measureAll(ctx, settings)
}

// measureAll measures each size on a separate management cluster.
func measureAll(ctx context.Context, settings settings) error {
	var results []result
	var problems []error
	for _, size := range settings.sizes {
		measured, err := measure(ctx, settings, size)
		if err != nil {
			return fmt.Errorf("measuring %d machines: %w", size, err)
		}
		if measured.floor, err = measureFloor(ctx, size); err != nil {
			return fmt.Errorf("measuring the writes for %d machines: %w", size, err)
		}
		printSize(os.Stdout, measured)
		results = append(results, measured)
		for _, problem := range measured.problems[:min(len(measured.problems), problemsShown)] {
			problems = append(problems, fmt.Errorf("%d machines: %s", size, problem))
		}
		if more := len(measured.problems) - problemsShown; more > 0 {
			problems = append(problems, fmt.Errorf("%d machines: %d more problems", size, more))
		}
	}
	printSummary(os.Stdout, results)
	if err := errors.Join(problems...); err != nil {
		return err
	}
	if !settings.subject.isChecked {
		return nil
	}
	left := "no leftovers on hosts, "
	if settings.association {
		left = ""
	}
	fmt.Println("\nscale: OK: no double claim, no list of hosts, no redundant write, " + left + "memory within its goal")
	return nil
}

func parse(args []string) (settings, error) {
	var parsed settings
	var sizes, path, capm3 string
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.StringVar(&sizes, "sizes", "100,300,1000", "Comma-separated numbers of machines to measure.")
	flags.IntVar(&parsed.competitors, "competitors", 0,
		"Number of other clients that claim hosts at the same time. There are then half as many hosts more.")
	flags.BoolVar(&parsed.data, "data", false,
		"Measure the claims of one Metal3DataTemplate instead of the claims of hosts.")
	flags.BoolVar(&parsed.association, "association", false,
		"Measure the association alone: no host is provisioned or released. Most of the time of a large size is theirs.")
	flags.BoolVar(&parsed.arrivals, "arrivals", false,
		"Measure hosts that become available one by one while all machines wait for a host. Sets -association.")
	flags.StringVar(&path, "manager", "", "Manager to measure. Empty builds the one of this checkout.")
	flags.StringVar(&capm3, "capm3", "", "Manager of CAPM3 to measure instead. Sets -association.")
	flags.StringVar(&parsed.profiles, "profiles", "",
		"Folder to write a CPU profile of the association and a heap profile after it to. Profiling costs some time.")
	flags.DurationVar(&parsed.patience, "patience", 5*time.Minute, "Time limit for one phase of one size.")
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	for _, field := range strings.Split(sizes, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || size < 1 {
			return settings{}, fmt.Errorf("-sizes is %q, but %q is not a number of machines: use -sizes 100,300", sizes, field)
		}
		parsed.sizes = append(parsed.sizes, size)
	}
	if parsed.competitors < 0 {
		return settings{}, fmt.Errorf("-competitors is %d; use 0 or more", parsed.competitors)
	}
	if parsed.arrivals && parsed.competitors > 0 {
		return settings{}, fmt.Errorf("-competitors is %d, but with -arrivals there are none; leave one of them out",
			parsed.competitors)
	}
	parsed.subject = subject{path: path, hasWebhooks: true, isChecked: true}
	if capm3 != "" {
		parsed.subject, parsed.association = subject{path: capm3, role: "cluster-admin"}, true
	}
	parsed.association = parsed.association || parsed.arrivals
	slices.Sort(parsed.sizes)
	return parsed, nil
}
