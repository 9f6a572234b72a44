// Command gorxe is the command line of the software RDMA device. It gives devices to
// unmodified programs, shows what they do with them, and checks captures. It parses the
// command line and prints results; packages below internal and rocev2 do the work.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/gorxe/gorxe/cmd/internal/completion"
	"github.com/gorxe/gorxe/cmd/internal/ociruntime"
	"github.com/gorxe/gorxe/internal/service/keeper"
	"github.com/gorxe/gorxe/internal/service/pod"
)

// The exit codes of every subcommand.
const (
	exitOK     = 0
	exitFailed = 1 // the command ran and did not succeed
	exitUsage  = 2 // the command line is wrong; nothing was done
)

// usageError marks an error in the command line that the flag parser could not see.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// cli is the grammar of the command line.
type cli struct {
	Run     runCmd     `cmd:"" help:"Run a program with an RDMA device."`
	Pair    pairCmd    `cmd:"" help:"Run a server and its client, which starts when the server listens."`
	Lab     labCmd     `cmd:"" help:"Run programs on several hosts of a lab, which a file describes."`
	Daemon  daemonCmd  `cmd:"" help:"Serve devices to programs of several runs and users."`
	Fault   faultCmd   `cmd:"" help:"Change the fault rules of a running program."`
	Status  statusCmd  `cmd:"" help:"Show devices and the programs that use them."`
	Top     topCmd     `cmd:"" help:"Show the busiest queue pairs, and repeat."`
	Watch   watchCmd   `cmd:"" help:"Print what happens, as lines for a log."`
	Explain explainCmd `cmd:"" help:"Say what an error means, or what went wrong in the programs that run."`
	Metrics metricsCmd `cmd:"" help:"Serve metrics of the devices of this host's containers."`
	NRI     nriCmd     `cmd:"" name:"nri" help:"Give devices to containers that ask by an annotation, as a plugin of containerd or CRI-O."`
	Demo    demoCmd    `cmd:"" help:"Run two devices over real UDP on loopback: verify, measure, capture."`
	Devices devicesCmd `cmd:"" help:"List the devices that this host can have, and what programs find of them."`
	Doctor  doctorCmd  `cmd:"" help:"Say what this machine or container allows, and what to do about the rest."`
	Extcap  extcapCmd  `cmd:"" help:"Capture live for Wireshark and tshark, which call this command."`
	PCAP    pcapCmd    `cmd:"" name:"pcap" help:"Check, show and replay captures of RDMA traffic, of any device."`
	Rsh     rshCmd     `cmd:"" help:"Run a command on another host of a lab."`
	Version versionCmd `cmd:"" help:"Print the version, as gorxe --version and gorxe -V."`

	Help       helpCmd            `cmd:"" help:"Show the help of a command, or a topic: devices, doorbells, faults, chaos, CI, containers, verdict and more."`
	Completion completion.Command `cmd:"" help:"Print how to activate completion in bash, zsh or fish."`
	Manual     manualCmd          `cmd:"" hidden:"" help:"Write the manual pages."`
}

// streams are where a subcommand writes.
type streams struct {
	out, err io.Writer
}

func main() {
	if filepath.Base(os.Args[0]) == ociruntime.Name {
		if err := ociruntime.Main(os.Args[1:]); err != nil {
			complain(streams{out: os.Stdout, err: os.Stderr}, err)
			os.Exit(exitFailed)
		}
		os.Exit(exitOK) // of a hook
	}
	if filepath.Base(os.Args[0]) == extcapName {
		os.Args = slices.Insert(os.Args, 1, "extcap")
	}
	keeper.Stage(os.Args)
	if len(os.Args) > 1 && os.Args[1] == pod.Stage {
		os.Exit(servePod(os.Args[2:], streams{out: os.Stdout, err: os.Stderr}))
	}
	os.Exit(run(untilSignal, os.Args[1:], streams{out: os.Stdout, err: os.Stderr}))
}

// contexts makes the context of a command.
type contexts func() (context.Context, error)

// ending returns the signals that end a command: SIGINT, SIGTERM, and SIGHUP, which comes when a
// terminal is closed, unless nohup has made this process ignore it.
func ending() []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return []os.Signal{os.Interrupt, syscall.SIGTERM}
	}
	return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
}

// untilSignal returns a context that ends with one of these signals.
func untilSignal() (context.Context, error) {
	ctx, stop := signal.NotifyContext(context.Background(), ending()...)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	return ctx, nil
}

// grammar is the parser of command lines. To make one takes milliseconds.
type grammar struct {
	*kong.Kong
	std    streams
	helped bool // the command line asked for help
}

// newGrammar makes a parser. newContext makes the context of a command that asks for one.
func newGrammar(newContext contexts, std streams) *grammar {
	g := &grammar{std: std}
	parser, err := kong.New(&cli{},
		kong.Name("gorxe"),
		kong.Description("A software RDMA (RoCEv2) device in user space: no kernel module, no RDMA hardware.\n\n"+
			"Examples:\n  gorxe run ibv_devinfo\n  gorxe run -- ib_write_bw -d rxe0 --report_gbits\n  gorxe status\n  gorxe demo\n  gorxe pcap check demo.pcapng"),
		kong.Writers(std.out, std.err),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindToProvider((func() (context.Context, error))(newContext)),
		kong.Bind(newContext),
		kong.Bind(std),
		plainValues(),
		// The parser calls this for --help only, and continues to parse.
		kong.Exit(func(int) { g.helped = true }),
	)
	if err != nil {
		panic(err) // the grammar above is wrong; no input causes this
	}
	g.Kong = parser
	return g
}

// parse reads a command line. The code is not exitOK if it is wrong; the context is nil if there is
// nothing to run.
func (g *grammar) parse(args []string) (*kong.Context, int) {
	if completion.Wanted() {
		return nil, complete(g.Kong, g.std)
	}
	parsed, err := g.Parse(args)
	if g.helped {
		return nil, exitOK
	}
	if err != nil {
		complain(g.std, clearer(err))
		fmt.Fprintf(g.std.err, "Run 'gorxe %s--help' for usage.\n", commandOf(err))
		return nil, exitUsage
	}
	return parsed, exitOK
}

// shortGuess is a guess of the parser that does not help: a flag of one letter for a long one.
var shortGuess = regexp.MustCompile(`, did you mean "-[a-zA-Z]"\?$`)

// clearer returns an error of the parser with what helps, and without what does not.
func clearer(err error) error {
	var wrong *kong.ParseError
	if !errors.As(err, &wrong) {
		return err
	}
	text, node := shortGuess.ReplaceAllString(err.Error(), ""), wrong.Context.Selected()
	flag, unknown := strings.CutPrefix(text, "unknown flag --")
	flagged, _, valueless := strings.Cut(text, `: expected string value but got "EOL"`)
	switch {
	case valueless:
		text = flagged + " needs a value"
	case unknown:
		text += longerFlag(node, flag)
	case strings.HasPrefix(text, `expected "<`):
		text += takenBy(wrong.Context)
	case strings.HasPrefix(text, "unexpected argument "):
		text = unexpected(text, node)
	}
	return errors.New(text)
}

// unexpected returns the error of a word that no command takes, with what was meant. The parser
// guesses a command for nearly every word of three letters.
func unexpected(text string, node *kong.Node) string {
	plain, _, guessed := strings.Cut(text, ", did you mean")
	word := strings.TrimPrefix(plain, "unexpected argument ")
	program := node == nil && isProgram(word)
	switch {
	case guessed && (!program || len(word) > 3):
		return text
	case program:
		return plain + ", did you mean gorxe run " + word + "?"
	}
	return plain + commands(node)
}

// commands lists the commands below one, if it has any.
func commands(n *kong.Node) string {
	if n == nil || len(n.Children) == 0 {
		return ""
	}
	var names []string
	for _, c := range n.Children {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return ": gorxe " + n.Name + " has the commands " + strings.Join(names, ", ")
}

// takenBy names the last flag that took a word as its value: the word may be the argument that is
// missing.
func takenBy(c *kong.Context) (says string) {
	for _, p := range c.Path {
		if p.Flag == nil {
			continue
		}
		if value, ok := c.FlagValue(p.Flag).(string); ok {
			says = fmt.Sprintf(": --%s took %s as its value", p.Flag.Name, value)
		}
	}
	return says
}

// longerFlag guesses the flag of a command that has a word of another name in its own, as
// --socket-group has group.
func longerFlag(n *kong.Node, word string) string {
	if n != nil {
		for _, f := range n.Flags {
			if !f.Hidden && slices.Contains(strings.Split(f.Name, "-"), word) {
				return fmt.Sprintf(", did you mean \"--%s\"?", f.Name)
			}
		}
	}
	return ""
}

// commandOf returns the words of the command whose line is wrong, with a space behind each.
func commandOf(err error) (words string) {
	var wrong *kong.ParseError
	if !errors.As(err, &wrong) {
		return ""
	}
	for n := wrong.Context.Selected(); n != nil && n.Parent != nil; n = n.Parent {
		words = n.Name + " " + words
	}
	return words
}

// negative is an errno as gorxe explain may get it, and not a flag.
var negative = regexp.MustCompile(`^-[0-9]+$`)

// run executes one command line and returns its exit code. Signals end the commands that ask for no
// context as usual.
func run(newContext contexts, args []string, std streams) int {
	if len(args) == 1 && (args[0] == "--version" || args[0] == "-V") {
		args = []string{"version"}
	}
	if at := slices.IndexFunc(args, negative.MatchString); at > 0 && args[0] == "explain" {
		args = slices.Insert(slices.Clone(args), at, "--")
	}
	parsed, code := newGrammar(newContext, std).parse(args)
	if parsed == nil {
		return code
	}
	if err := parsed.Run(); err != nil {
		// the user has ended the command
		if !errors.Is(err, errSaid) && !errors.Is(err, context.Canceled) {
			complain(std, err)
		}
		var usage usageError
		var exit *keeper.ExitError
		switch {
		case errors.As(err, &usage):
			return exitUsage
		case errors.As(err, &exit):
			return exit.Code
		}
		return exitFailed
	}
	return exitOK
}

// complain prints an error. It adds a hint to EMFILE, because the functions that open
// files do not know the remedy.
func complain(std streams, err error) {
	hint := ""
	if errors.Is(err, syscall.EMFILE) {
		hint = ": raise the limit of open files (ulimit -n, LimitNOFILE= in a systemd unit)"
	}
	fmt.Fprintf(std.err, "gorxe: %s%s\n", printableText(err.Error()), hint)
}
