package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Exit codes.
const (
	// exitDone means ready, or done.
	exitDone = 0

	// exitNotReady means that something is in the way, or that it did not become what was waited for.
	exitNotReady = 1

	// exitBlind means that a cluster could not be looked at or written to, or that the command was not understood.
	exitBlind = 2
)

const usage = `Usage: %[1]s pivot COMMAND [flags]

Commands:
  preflight   says whether clusterctl move would succeed now and lose nothing
  status      shows where clusters and hosts are in a move
  demote      takes the Ironic of the management cluster down, so that the control plane takes its address

%[1]s pivot COMMAND --help explains the flags.
`

// Environment is what a command runs in.
type Environment struct {
	// Output is where results go. A file that is a terminal is redrawn by status --watch.
	Output io.Writer

	// Errors is where messages go that are no result.
	Errors io.Writer
}

// command is one of those that the usage names. Run returns the exit code; with an error that is at least exitBlind.
type command struct {
	summary string
	setup   func(*pflag.FlagSet) (run func(context.Context, Environment) (int, error))
}

func commands() map[string]command {
	return map[string]command{
		"preflight": {"Says whether clusterctl move would succeed now and lose nothing.", setupPreflight},
		"status":    {"Shows where clusters and hosts are in a move.", setupStatus},
		"demote": {"Takes the Ironic of the management cluster of --kubeconfig down, and waits until the control plane has " +
			"its address\nand knows all hosts. --to-kubeconfig names the cluster that the hosts live in now.", setupDemote},
	}
}

// Main runs the command that the arguments name, the first of which is the name of the program, and returns the exit
// code: 0 ready or done, 1 not ready, 2 could not look.
func Main(ctx context.Context, arguments []string, environment Environment) int {
	// The libraries complain otherwise. What they have to say comes back as an error, too.
	ctrllog.SetLogger(logr.Discard())
	name := calledAs(arguments)
	if len(arguments) < 3 || arguments[1] != "pivot" {
		return misunderstood(arguments, name, environment)
	}
	chosen, found := commands()[arguments[2]]
	if !found {
		return misunderstood(arguments, name, environment)
	}
	full := name + " pivot " + arguments[2]
	set := pflag.NewFlagSet(full, pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.SortFlags = false
	run := chosen.setup(set)
	err := set.Parse(arguments[3:])
	switch {
	case errors.Is(err, pflag.ErrHelp):
		_, _ = fmt.Fprintf(environment.Output, "%s\n\nUsage: %s [flags]\n\n%s", chosen.summary, full, set.FlagUsages())
		return exitDone
	case err == nil && set.NArg() > 0:
		err = fmt.Errorf("%q is no flag", set.Arg(0))
	}
	if err != nil {
		_, _ = fmt.Fprintf(environment.Errors, "%s: %v; %s --help lists the flags\n", full, err, full)
		return exitBlind
	}
	code, err := run(ctx, environment)
	if err != nil {
		_, _ = fmt.Fprintf(environment.Errors, "%s: %v\n", full, err)
		return max(code, exitBlind)
	}
	return code
}

// calledAs is what a person has typed: clusterctl and kubectl run a file that carries their name.
func calledAs(arguments []string) string {
	if len(arguments) == 0 {
		return "clusterctl metal3"
	}
	return strings.Replace(filepath.Base(arguments[0]), "-", " ", 1)
}

func misunderstood(arguments []string, name string, environment Environment) int {
	typed := arguments[min(1, len(arguments)):]
	if len(typed) > 0 && (typed[len(typed)-1] == "--help" || typed[len(typed)-1] == "-h" || typed[0] == "help") {
		_, _ = fmt.Fprintf(environment.Output, usage, name)
		return exitDone
	}
	if len(typed) > 0 && strings.Join(typed, " ") != "pivot" {
		_, _ = fmt.Fprintf(environment.Errors, "%q is no command.\n", strings.Join(typed, " "))
	}
	_, _ = fmt.Fprintf(environment.Errors, usage, name)
	return exitBlind
}

// seconds is how a duration is told to people: nobody needs more than a tenth.
func seconds(duration time.Duration) string { return fmt.Sprintf("%.1fs", duration.Seconds()) }
