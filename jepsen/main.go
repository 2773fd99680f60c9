// Command jepsen attacks clusters of real zkd processes and judges what their clients saw.
//
//	go run ./jepsen run register --nemesis kill,partition --time 1m --seed 42
//	go run ./jepsen all --time 2h        pairs of workload and nemeses until the time is over
//	go run ./jepsen list                 what there is, and what this machine cannot do
//	go run ./jepsen check RESULT_DIR     the checkers again, over a recorded history
//	go run ./jepsen replay RESULT_DIR    the same plan again
//	go run ./jepsen shrink RESULT_DIR    a smaller run that still finds something
//	go run ./jepsen regress              the bugs that were found, each as a scenario
//	go run ./jepsen mutants              planted bugs, each of which must be caught
//	go run ./jepsen abuse                what strangers try, and the test of each
//	go run ./jepsen sim --seeds 1-500    simulated clusters, in virtual time
//
// docs/correctness.md says which promises are tested how, and what is not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	simulation "github.com/zkd-project/zkd/internal/sim/command"
	"github.com/zkd-project/zkd/jepsen/foreign"
	"github.com/zkd-project/zkd/jepsen/nemesis"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) { // which is there already
		fmt.Fprintln(os.Stderr, "jepsen:", err)
		os.Exit(1)
	}
}

// errViolated is returned when a run has found something.
var errViolated = errors.New("a promise was broken, or could not be judged")

const commands = "run, all, list, check, replay, shrink, regress, mutants, abuse, sim"

const help = `jepsen attacks clusters of real zkd processes and judges what their clients saw.

  jepsen run WORKLOAD [flags]      one run; --nemesis has its faults
  jepsen all [flags]               drawn workloads and faults, until --time is over, and a report
  jepsen list                      what there is, and what this machine cannot do
  jepsen check RESULT_DIR          the checkers again, over a recorded history
  jepsen replay RESULT_DIR         the same plan again, --times N for several
  jepsen shrink RESULT_DIR         a smaller run that still finds something
  jepsen regress [--only NAMES]    the bugs that were found, each as a scenario
  jepsen mutants [--only NAMES]    planted bugs, each of which must be caught
  jepsen abuse                     what strangers try, and the test of each
  jepsen sim --seeds FROM-TO       simulated clusters, --virtual so long in virtual time each

--help after run, all, regress or mutants has their flags; docs/correctness.md says what is promised, and how it is judged.
`

func command(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("say what to do: " + commands)
	}
	name, args := args[0], args[1:]
	hasFlags := slices.Contains([]string{"run", "all", "regress", "mutants"}, name) // and help for them
	if isHelp(name) || len(args) > 0 && isHelp(args[0]) && !hasFlags {
		name = "help"
	}
	switch name {
	case "help":
		_, err := io.WriteString(out, help)
		return err
	case "run":
		return runCommand(ctx, args, out)
	case "all":
		return allCommand(ctx, args, out)
	case "list":
		return listCommand(out)
	case "check":
		return checkCommand(args, out)
	case "replay":
		return replayCommand(ctx, args, out)
	case "mutants":
		return mutantsCommand(ctx, args, out)
	case "shrink":
		return shrinkCommand(ctx, args, out)
	case "regress":
		return regressCommand(ctx, args, out)
	case "abuse":
		return abuseCommand(ctx, args, out)
	case "sim":
		return simCommand(ctx, args, out)
	}
	return fmt.Errorf("there is no command %q; there are %s", name, commands)
}

// isHelp says whether a word asks for help, as the package flag has it.
func isHelp(word string) bool { return slices.Contains([]string{"-h", "-help", "--help"}, word) }

// simCommand runs the simulation, which needs the test binary's virtual time.
func simCommand(ctx context.Context, args []string, out io.Writer) error {
	c, err := simulation.Sim(ctx, args)
	if err != nil {
		return err
	}
	c.Stdout, c.Stderr = out, os.Stderr
	if c.Run() != nil {
		return errViolated
	}
	return nil
}

// flags registers the flags of a run.
func flags(o *Options) *flag.FlagSet {
	f := flag.NewFlagSet("jepsen", flag.ContinueOnError)
	f.Func("nemesis", "kinds of faults, separated by commas; none without it", func(s string) error {
		o.Nemeses = strings.Split(s, ",")
		return nil
	})
	f.IntVar(&o.Nodes, "nodes", 3, "servers")
	f.DurationVar(&o.Time, "time", 30*time.Second, "how long faults and clients are at work")
	f.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano())%1_000_000, "of everything that is drawn")
	f.StringVar(&o.Driver, "driver", "", "loopback or netns; netns where the machine allows it")
	f.StringVar(&o.Binary, "binary", "", "the server; it is built without this")
	f.StringVar(&o.Client, "client", "", "kazoo or java: a library that others have written, with the workloads register and lock; the client of these tests without it")
	f.StringVar(&o.Mutant, "mutant", "", "build the server with a planted bug")
	f.StringVar(&o.Store, "store", "jepsen/store", "folder for results")
	f.IntVar(&o.Scale, "scale", 1, "how many times as large the workload bulk may be; it needs as many times 40s for that")
	f.BoolVar(&o.Race, "race", false, "build the server with the race detector")
	return f
}

// isSet says whether a flag was given.
func isSet(f *flag.FlagSet, name string) bool {
	set := false
	f.Visit(func(x *flag.Flag) { set = set || x.Name == name })
	return set
}

func runCommand(ctx context.Context, args []string, out io.Writer) error {
	o := Options{}
	f := flags(&o)
	// The workload may come first, as one says it.
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		o.Workload, args = args[0], args[1:]
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.Workload == "" && f.NArg() == 1 {
		o.Workload = f.Arg(0)
	}
	if o.Workload == "" {
		return errors.New("say which workload; `go run ./jepsen list` shows them")
	}
	return runOnce(ctx, o, out)
}

// runOnce runs and prints the verdict.
func runOnce(ctx context.Context, o Options, out io.Writer) error {
	v, err := Run(ctx, o)
	if err != nil {
		return err
	}
	v.Print(out)
	if !v.OK() {
		return errViolated
	}
	return nil
}

func listCommand(out io.Writer) error {
	fmt.Fprintln(out, "workloads")
	for _, w := range workloads() {
		fmt.Fprintf(out, "  %-14s %s\n", w.Name, w.Doc)
	}
	for _, l := range foreign.Clients() {
		fmt.Fprintf(out, "workloads with --client %s, %s\n", l.Name, l.Doc)
		for _, w := range l.Workloads() {
			fmt.Fprintf(out, "  %-14s %s\n", w.Name, w.Doc)
		}
		if why := l.Unavailable(); why != "" {
			fmt.Fprintf(out, "  %-14s not on this machine: %s\n", "", why)
		}
	}
	fmt.Fprintln(out, "nemeses")
	_, missing := available(&Options{})
	for _, n := range nemesis.All() {
		fmt.Fprintf(out, "  %-14s %s\n", n.Name, n.Doc)
		if why := missing[n.Name]; why != "" {
			fmt.Fprintf(out, "  %-14s not on this machine: %s\n", "", why)
		}
	}
	return nil
}
