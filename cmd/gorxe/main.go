// Command gorxe is the command line of the software RDMA device: it shows what
// devices a host would have, and demonstrates them. It is thin: what it does
// lies in internal/demo and rocev2.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// The exit codes of every subcommand.
const (
	exitOK     = 0
	exitFailed = 1 // the command ran and did not succeed
	exitUsage  = 2 // the command line is wrong; nothing was done
)

// usageError marks an error that the caller's command line is to blame for and
// that the flag parser could not see.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// cli is the grammar of the command line.
type cli struct {
	Demo    demoCmd    `cmd:"" help:"Run two devices over real UDP on loopback: verify, measure, capture."`
	Devices devicesCmd `cmd:"" help:"List the devices that the interfaces of this host would have."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

// streams are where a subcommand writes.
type streams struct {
	out, err io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, std streams) int {
	helped := false
	parser, err := kong.New(&cli{},
		kong.Name("gorxe"),
		kong.Description("A software RDMA (RoCEv2) device in user space: no kernel module, no RDMA hardware.\n\n"+
			"Examples:\n  gorxe demo\n  gorxe demo --duration 5s --no-pcap\n  gorxe devices --json"),
		kong.Writers(std.out, std.err),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(std),
		// The parser calls this for --help only, and goes on parsing when it returns.
		kong.Exit(func(int) { helped = true }),
	)
	if err != nil {
		panic(err) // the grammar above is wrong: no input leads here
	}
	parsed, err := parser.Parse(args)
	if helped {
		return exitOK
	}
	if err != nil {
		complain(std, err)
		fmt.Fprintln(std.err, "Run 'gorxe --help' for usage.")
		return exitUsage
	}
	if err := parsed.Run(); err != nil {
		complain(std, err)
		var usage usageError
		if errors.As(err, &usage) {
			return exitUsage
		}
		return exitFailed
	}
	return exitOK
}

func complain(std streams, err error) {
	fmt.Fprintf(std.err, "gorxe: %v\n", err)
}
