package guard

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/track"
)

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

const usage = `Usage: guard [run] [flags]                         hold the VIP by the rules, as process 1
       guard gate --while-vip [flags] -- PROGRAM...  run a program only while the VIP is here
       guard gate --until-lost [flags] -- PROGRAM... run a program for one term of the VIP: stop it (SIGSTOP)
                                                     when the VIP leaves, and kill it and fail when the term is
                                                     over; with --while-vip it starts with the VIP; with
                                                     --until-lost=false it only deletes files, without a guard
       guard prepare [--install=DIRECTORY] [--owner=USER:GROUP] [--closed=PATH]... [--directory=PATH]...
                     [--copy=FROM:TO]...             copy this program for containers that do not have it, make
                                                     directories, and copies of files, that belong to a user, and
                                                     close the ones that they come from
       guard follow --copy=FROM:TO... --certificate=FROM --key=FROM --authority=FROM --passwords=FROM:TO -- PROGRAM...
                                                     run a web server, and give it new certificates and passwords when
                                                     the files change that they come from
       guard download --image=PATH... --record=PATH [--sha256=SUM]... [--stale=PATTERN]... [--scratch=PATH]
                     -- PROGRAM...                   run a program until the files are there; not at all if they are
Each command explains its flags with --help.
`

// Environment is the environment of a command.
type Environment struct {
	// Getenv reads a variable.
	Getenv func(string) string

	// Errors receives log and messages.
	Errors io.Writer
}

// Main runs the command that the arguments name, without the program name, and returns the exit code.
func Main(ctx context.Context, arguments []string, environment Environment) int {
	name, rest := "run", arguments
	if len(arguments) > 0 && !strings.HasPrefix(arguments[0], "-") {
		name, rest = arguments[0], arguments[1:]
	}
	commands := map[string]func(context.Context, []string, Environment) (int, error){
		"run": runCommand, "gate": gateCommand,
		"prepare": prepareCommand, "follow": followCommand, "download": downloadCommand,
	}
	command, found := commands[name]
	if !found {
		_, _ = fmt.Fprintf(environment.Errors, "%q is no command.\n%s", name, usage)
		return exitUsage
	}
	code, err := command(ctx, rest, environment)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintln(environment.Errors, "guard:", err)
		return max(code, exitFailure)
	default:
		return code
	}
}

func newFlags(name string, environment Environment) *flag.FlagSet {
	flags := flag.NewFlagSet("guard "+name, flag.ContinueOnError)
	flags.SetOutput(environment.Errors)
	return flags
}

// several adds a flag that may be repeated.
func several(flags *flag.FlagSet, name, usage string, values *[]string) {
	flags.Func(name, usage+"; may be repeated", func(value string) error {
		*values = append(*values, value)
		return nil
	})
}

// copied is a file and its copy.
type copied struct{ from, to string }

// pairs adds a flag with two paths. It calls the function for each value.
func pairs(flags *flag.FlagSet, name, usage string, enter func(copied)) {
	flags.Func(name, "FROM:TO, absolute paths of a "+usage, func(text string) error {
		from, to, found := strings.Cut(text, ":")
		if !found {
			return errors.New("give two paths like /from:/to")
		}
		enter(copied{from, to})
		return nil
	})
}

func (e Environment) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(e.Errors, nil))
}

func runCommand(ctx context.Context, arguments []string, environment Environment) (int, error) {
	options := Options{Getenv: environment.Getenv}
	flags := newFlags("run", environment)
	flags.StringVar(&options.Settings, "settings", DefaultSettings, "file of the settings. Without it and with "+
		variableAddress+", "+variablePrefix+" and "+variableInterface+" are used")
	flags.StringVar(&options.State, "state", DefaultState, "directory of the track files, if the settings name none")
	flags.StringVar(&options.Node, "node", nodeName(environment), "name of the node")
	flags.StringVar(&options.Keepalived, "keepalived", "/usr/sbin/keepalived", "executable file of keepalived")
	flags.StringVar(&options.Listen, "listen", DefaultListen, "address of metrics and health checks")
	flags.StringVar(&options.Cache, "cache", "/var/lib/metal3-ironic/guard", "directory that survives a reboot")
	if err := flags.Parse(arguments); err != nil {
		return exitUsage, err
	}
	if options.Node == "" {
		return exitUsage, errors.New("the name of the node is missing: set NODE_NAME or --node")
	}
	return 0, Run(ctx, options, environment.logger())
}

func nodeName(environment Environment) string {
	name, _ := os.Hostname()
	return cmp.Or(environment.Getenv("NODE_NAME"), name)
}

func gateCommand(ctx context.Context, arguments []string, environment Environment) (int, error) {
	var gate Gate
	flags := newFlags("gate", environment)
	gate.addPlace(flags)
	state := flags.String("state", DefaultState, "directory with the term of the VIP")
	flags.BoolVar(&gate.WhileHere, "while-vip", false, "start the program when the VIP comes, and end it, with time "+
		"to do so, when the VIP leaves")
	flags.BoolVar(&gate.UntilLost, "until-lost", false, "stop the program (SIGSTOP) when the VIP leaves, let it "+
		"continue when the VIP is back in the same term, and else kill it and fail; a program that ends in its term starts "+
		"again")
	several(flags, "sweep", "pattern of absolute paths to delete when the gate starts", &gate.Sweep)
	several(flags, "renew", "pattern of absolute paths to delete before each start of the program", &gate.Renew)
	several(flags, "again", "NAME=value, a variable for a program that starts again in its term", &gate.Again)
	flags.StringVar(&gate.Database, "database", "", "directory of the database of the program; with --until-lost, kill "+
		"the program and fail when the disk refuses all writes for "+diskPatience.String())
	several(flags, "folder", "absolute path of a directory; "+FolderMark+" in the arguments of the program stands for "+
		"the first one that has files, or for the last one", &gate.Folders)
	if err := flags.Parse(arguments); err != nil {
		return exitUsage, err
	}
	isChosen := false
	flags.Visit(func(given *flag.Flag) { isChosen = isChosen || given.Name == "while-vip" || given.Name == "until-lost" })
	switch {
	case !isChosen || flags.NArg() == 0:
		return exitUsage, errors.New("--while-vip, --until-lost or both are required, or --until-lost=false without a " +
			"guard, and the program after --")
	case gate.Interface != "" && gate.InterfaceFile != "":
		return exitUsage, errors.New("give --interface or --interface-file, not both")
	case gate.Interface == "" && gate.InterfaceFile == "" || len(gate.Virtual) == 0:
		return exitUsage, errors.New("--interface or --interface-file, and --addresses are required")
	}
	var err error
	gate.Term, gate.Command = filepath.Join(*state, track.Term), flags.Args()
	if gate.Command[0], err = exec.LookPath(gate.Command[0]); err != nil {
		return exitFailure, err
	}
	return gate.Run(ctx, environment.logger())
}

// addPlace adds the flags with the VIPs and their interface.
func (g *Gate) addPlace(flags *flag.FlagSet) {
	flags.StringVar(&g.Interface, "interface", "", "network interface of the VIPs")
	flags.StringVar(&g.InterfaceFile, "interface-file", "", "file with the name of the network interface, which the "+
		"guard of the node chooses; "+InterfaceMark+" in the arguments of the program stands for that name")
	flags.Func("addresses", "comma-separated VIPs, of which one is sufficient", func(list string) error {
		for text := range strings.SplitSeq(list, ",") {
			address, err := netip.ParseAddr(text)
			if err != nil {
				return errors.New("write addresses like 192.0.2.2,2001:db8::2")
			}
			g.Virtual = append(g.Virtual, address)
		}
		return nil
	})
}
