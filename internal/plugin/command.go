package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"sigs.k8s.io/cluster-api/version"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Exit codes.
const (
	// exitDone means ready, or done.
	exitDone = 0

	// exitNotReady means that an obstacle exists, that a command refused or was not confirmed, that an object changed
	// meanwhile, or that the command did not complete in time.
	exitNotReady = 1

	// exitBlind means that reading or writing a cluster failed, or that an argument is invalid.
	exitBlind = 2
)

// Environment has the streams of a command.
type Environment struct {
	// Input is the source of confirmations, which require a terminal. Nil means none.
	Input io.Reader

	// Output receives results. The commands status --watch and run redraw a terminal.
	Output io.Writer

	// Errors receives all other messages.
	Errors io.Writer
}

// runner runs a command after its flags were parsed. It returns the exit code, which is at least exitBlind with an
// error.
type runner func(context.Context, Environment) (int, error)

// command is one of the commands of pivot.
type command struct {
	name, alias, summary, details string
	setup                         func(*pflag.FlagSet) runner
}

func commands() []command { return slices.Concat(movingCommands(), repairingCommands()) }

// movingCommands are the commands of a move without errors.
func movingCommands() []command {
	return []command{
		{
			"preflight", "", "Check whether clusterctl move would succeed now and lose nothing",
			"It reads both clusters, and writes nothing.", setupPreflight,
		},
		{
			"run", "", "Move the Clusters and hosts of a namespace to another management cluster",
			"It runs preflight, then clusterctl move, and waits until the hosts run in the target. It waits for " +
				"obstacles that end by themselves, such as a busy host, and refuses at once for others. After an interrupt, run " +
				"the same command again: it continues the move.", setupRun,
		},
		{
			"allow-busy", "", "Let hosts move while they are inspected, prepared or deprovisioned",
			"It refuses for operations that a move would interrupt.", setupAllowBusy,
		},
		{
			"status", "", "Show the phase of each Cluster and host on both sides",
			"It writes nothing.", setupStatus,
		},
		{
			"timeline", "", "Show what happened in a move, from the events of both sides",
			"It writes nothing. With --output html it prints a page with a lane for each host.", setupTimeline,
		},
		{
			"handover", "demote", "Scale the Ironic of the management cluster down, so that the control plane takes the VIP",
			"It waits until a node of the control plane holds the VIP and its Ironic has registered all hosts. --kubeconfig " +
				"names the cluster whose Ironic is scaled down, --to-kubeconfig the cluster that manages the hosts now.",
			setupDemote,
		},
		{
			"refresh", "", "Have BMO reconcile firmware objects and BMC subscriptions at once after a move",
			"It restarts BMO if HostFirmwareSettings or HostFirmwareComponents of the namespace have no status. --kubeconfig " +
				"names the cluster that the hosts have moved to.", setupRefresh,
		},
	}
}

// repairingCommands are the commands for an interrupted move and its leftovers.
func repairingCommands() []command {
	return []command{
		{
			"resume", "", "Continue a move that was interrupted",
			"If clusterctl has deleted nothing in the source, it moves again. Otherwise it removes the leftovers in the " +
				"source, and unpauses the Clusters in the target.", setupResume,
		},
		{
			"abort", "", "Abort an interrupted move, and unpause the source",
			"It unpauses the Clusters in the source, and removes the copies in the target. It refuses if clusterctl has begun " +
				"to delete in the source.", setupAbort,
		},
		{
			"clean", "", "Remove the leftovers of an interrupted move in the source, or in the target",
			"It removes objects that the target has, too. BMO and Cluster API do not act on them. It keeps the Clusters that " +
				"the target does not manage, and refuses if there are only these. With --target it removes objects that " +
				"would be reconciled or deleted after the next move, and refuses if these may be the only copies.", setupClean,
		},
		{
			"keep", "", "Resume a held host without an action of BMO on its machine",
			"It is for hosts in the phases ArrivalHeld and StatusLost: it replaces an object that was being deleted when it " +
				"arrived, keeps a status that is newer than the one that arrived, or marks a host as provisioned. It refuses " +
				"if BMO would wipe the host.", setupKeep,
		},
		{
			"discard", "", "Remove a held host without an action of BMO on its machine",
			"It is for hosts in the phases ArrivalHeld and StatusLost. The machine keeps its power state and its disks. It " +
				"saves the host and the objects that it owns in a file. It refuses if a Machine uses the host.", setupDiscard,
		},
		{
			"unpause", "", "Unpause Clusters, or hosts that wait for a Cluster or an Ironic that does not arrive",
			"It is for Clusters that are paused without a move, for the target of a move whose source is lost, and for hosts " +
				"that wait for an Ironic endpoint or a Cluster. It refuses if BMO would wipe a host, or if two BMOs would manage " +
				"it. --to-kubeconfig names the other cluster of a move, if there was one.", setupUnpause,
		},
		{
			"fence", "", "Pause the Clusters that another management cluster manages",
			"It is for a Cluster that runs on both sides. --kubeconfig names the side that stops, --to-kubeconfig the other " +
				"side. It refuses if no other management cluster manages a Cluster: a pause begins a move.", setupFence,
		},
		{
			"takeover", "", "Manage the Clusters here that another management cluster has claimed",
			"It unpauses the Clusters. The other management cluster must be lost: if it runs, two BMOs manage each host. It " +
				"refuses if --to-kubeconfig names the other management cluster and a Cluster runs there.", setupTakeover,
		},
		{
			"forget", "", "Forget which hosts and Metal3Clusters have moved away, so that they can be created here again",
			"It is for hosts that the other cluster has released. It refuses if --to-kubeconfig names the other cluster and " +
				"the hosts are there.", setupForget,
		},
		{
			"yield", "", "Prevent the Ironic of a management cluster from taking the VIP, or allow it with --undo",
			"It is for a management cluster that a cluster moves back to, before Ironic is installed there. --kubeconfig " +
				"names the cluster whose Ironic waits, --to-kubeconfig the cluster that manages the hosts now.", setupYield,
		},
		{
			"unblock", "", "Remove block-move from Metal3Clusters that CAPM3 manages",
			"clusterctl move waits for this annotation, and CAPM3 does not remove it. It refuses while the manager of this " +
				"provider runs, which removes the annotation for each move.", setupUnblock,
		},
	}
}

// Main runs the command of the arguments and returns the exit code. The first argument is the name of the program. The
// exit code is 0 for ready or done, 1 for not ready or refused, and 2 for a failed read or write or an invalid
// argument.
func Main(ctx context.Context, arguments []string, environment Environment) int {
	// Without a logger, the libraries print a warning. They return their errors, too.
	ctrllog.SetLogger(logr.Discard())
	code := exitBlind
	root := newRoot(calledAs(arguments), environment, &code) //nolint:contextcheck // ExecuteContext passes it.
	root.SetArgs(arguments[min(1, len(arguments)):])
	if err := root.ExecuteContext(ctx); err != nil {
		_, _ = fmt.Fprintln(environment.Errors, printableLines(err.Error()))
		if errors.Is(err, errNotConfirmed) || errors.Is(err, errChanged) {
			return exitNotReady
		}
		return max(code, exitBlind)
	}
	return code
}

// newRoot returns the root of all commands. Code receives the exit code.
func newRoot(name string, environment Environment, code *int) *cobra.Command {
	root := group(strings.ReplaceAll(name, " ", "-"),
		"Move a cluster with its hosts and its Ironic, and see how far it is", environment, code)
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	root.SetOut(environment.Output)
	root.SetErr(environment.Errors)
	root.SilenceErrors, root.SilenceUsage = true, true
	pivots := group("pivot", "Commands for the pivot: preflight, move, status, recovery, handover", environment, code)
	for _, each := range commands() {
		pivots.AddCommand(each.cobra(environment, code))
	}
	root.AddCommand(pivots, command{
		name: "version", summary: "Print the version of the plugin", setup: setupVersion,
	}.cobra(environment, code))
	return root
}

// group returns a command that only has subcommands. Without a subcommand it returns an error with its help.
func group(use, summary string, environment Environment, code *int) *cobra.Command {
	made := &cobra.Command{Use: use, Short: summary, Args: cobra.NoArgs}
	help := made.HelpFunc()
	made.SetHelpFunc(func(cmd *cobra.Command, arguments []string) {
		*code = exitDone
		help(cmd, arguments)
	})
	// Completions set no exit code.
	made.PersistentPreRun = func(*cobra.Command, []string) { *code = exitDone }
	made.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SetOut(environment.Errors)
		err := cmd.Help()
		*code = exitBlind
		return err
	}
	return made
}

func (c command) cobra(environment Environment, code *int) *cobra.Command {
	made := &cobra.Command{
		Use: c.name, Short: c.summary, Long: strings.TrimSpace(c.summary + ".\n\n" + c.details), Args: cobra.NoArgs,
	}
	if c.alias != "" {
		made.Aliases = []string{c.alias}
	}
	made.Flags().SortFlags = false
	run := c.setup(made.Flags())
	made.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		if *code, err = run(cmd.Context(), environment); err != nil {
			return fmt.Errorf("%s: %w", cmd.CommandPath(), err)
		}
		return nil
	}
	made.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%s: %w; %[1]s --help lists the flags", cmd.CommandPath(), err)
	})
	complete(made)
	return made
}

// complete offers values of flags to the shell.
func complete(cmd *cobra.Command) {
	for flag, values := range map[string][]string{
		"output": {formText, formWide, formHTML, formJSON, formYAML}, "until": {untilParked, untilArrived, untilAdopted},
	} {
		if cmd.Flags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

// calledAs returns the command that the user typed: clusterctl and kubectl run a file with their name.
func calledAs(arguments []string) string {
	if len(arguments) == 0 {
		return "clusterctl metal3"
	}
	return strings.Replace(filepath.Base(arguments[0]), "-", " ", 1)
}

func setupVersion(set *pflag.FlagSet) runner {
	var form output
	form.add(set)
	return func(_ context.Context, environment Environment) (int, error) {
		if err := form.check(); err != nil {
			return exitBlind, err
		}
		built := version.Get()
		if !form.machine() {
			return exitDone, say(environment.Output, "%s (commit %s, %s)", built.GitVersion, built.GitCommit, built.GoVersion)
		}
		return exitDone, form.write(environment.Output, struct {
			header  `json:",inline"`
			Version string `json:"version"`
			Commit  string `json:"commit"`
			Go      string `json:"go"`
		}{headerOf("Version"), built.GitVersion, built.GitCommit, built.GoVersion}, false)
	}
}

// errNotConfirmed is the error of a command that the user has not confirmed.
var errNotConfirmed = errors.New("not confirmed: nothing was done")

// errChanged is the error for an object that has changed since the command judged it.
var errChanged = errors.New("changed in the meantime: run the command again")

// confirm asks the user for confirmation. Without a terminal, it requires yes. It blocks until the answer, or until the
// context ends.
func confirm(ctx context.Context, environment Environment, yes bool, question string) error {
	if yes {
		return nil
	}
	question = printable(question)
	file, isFile := environment.Input.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return fmt.Errorf("%w; %s Use --yes, because the standard input is not a terminal", errNotConfirmed, question)
	}
	if _, err := fmt.Fprintf(environment.Errors, "%s Type yes to continue: ", question); err != nil {
		return fmt.Errorf("asking for confirmation: %w", err)
	}
	answered := make(chan error, 1)
	go func() { answered <- readAnswer(file) }()
	select {
	case <-ctx.Done():
		return errNotConfirmed
	case err := <-answered:
		return err
	}
}

// readAnswer returns an error if the next line is not yes.
func readAnswer(from io.Reader) error {
	answer, err := bufio.NewReader(from).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the confirmation: %w", err)
	}
	if strings.TrimSpace(answer) != "yes" {
		return errNotConfirmed
	}
	return nil
}

// addYes adds the flag that replaces a confirmation.
func addYes(set *pflag.FlagSet, yes *bool) {
	set.BoolVarP(yes, "yes", "y", false, "do not ask for confirmation")
}

// seconds formats a duration for the user, with tenths of a second.
func seconds(duration time.Duration) string { return fmt.Sprintf("%.1fs", duration.Seconds()) }
