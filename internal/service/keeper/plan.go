package keeper

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/internal/trap/filter"
	"golang.org/x/sys/unix"
)

// self is this executable, for the processes that gorxe run starts of itself.
const self = "/proc/self/exe"

// envSession is set in the program's environment: the number of the session. It tells a gorxe run
// inside the program about the outer one.
const envSession = "GORXE_SESSION"

// First arguments of the stages. They are not commands, because no command begins with an
// underscore.
const (
	stageKeep  = "_keep"
	stageStart = "_start"
)

// plan is the command line of a stage:
//
//	gorxe _keep PARENT FRONT DAEMON TRACER MASK FILE ARG0…
//	gorxe _start KEEPER BASE COUNT TOP TRACER MASK FILE ARG0…
type plan struct {
	parent int           // process of the front
	front  int           // descriptor: socket of the front, or of the keeper
	daemon int           // descriptor: socket of the daemon
	fds    filter.Range  // for the filter
	tracer int           // process that may access the program's memory; 0: none
	mask   unix.Sigset_t // the program's signal mask
	file   string        // the program
	argv   []string      // its arguments, with the name
}

func (p *plan) keeperArgs() []string {
	return append([]string{"gorxe", stageKeep,
		strconv.Itoa(p.parent), strconv.Itoa(p.front), strconv.Itoa(p.daemon),
		strconv.Itoa(p.tracer), formatMask(p.mask), p.file}, p.argv...)
}

func (p *plan) childArgs(keeper int, fds filter.Range) []string {
	return append([]string{"gorxe", stageStart,
		strconv.Itoa(keeper), strconv.Itoa(int(fds.Base)), strconv.Itoa(int(fds.Count)), strconv.Itoa(int(fds.Top)),
		strconv.Itoa(p.tracer), formatMask(p.mask), p.file}, p.argv...)
}

// errPlan: a user called a stage by hand.
var errPlan = errors.New("this is a part of `gorxe run` and not a command")

// parsePlan reads args behind the stage's name.
func parsePlan(stage string, args []string) (p plan, err error) {
	numbers := 4 // that come before the mask
	if stage == stageStart {
		numbers = 5
	}
	if len(args) < numbers+3 {
		return plan{}, errPlan
	}
	n := make([]uint64, numbers)
	for i := range n {
		if n[i], err = strconv.ParseUint(args[i], 10, 64); err != nil {
			return plan{}, errPlan
		}
	}
	if p.mask, err = parseMask(args[numbers]); err != nil {
		return plan{}, errPlan
	}
	p.file, p.argv = args[numbers+1], args[numbers+2:]
	p.tracer = int(n[numbers-1])
	if stage == stageKeep {
		p.parent, p.front, p.daemon = int(n[0]), int(n[1]), int(n[2])
	} else {
		p.front, p.fds = int(n[0]), filter.Range{Base: uint32(n[1]), Count: uint32(n[2]), Top: uint32(n[3])}
	}
	return p, nil
}

// Stage runs a process of gorxe run and does not return, if args (os.Args) name one.
// Otherwise it returns at once.
func Stage(args []string) {
	if len(args) < 2 || args[1] != stageKeep && args[1] != stageStart {
		return
	}
	p, err := parsePlan(args[1], args[2:])
	switch {
	case err != nil:
		complain("%v", err)
		os.Exit(ExitFailed)
	case args[1] == stageStart:
		os.Exit(become(p))
	}
	if keep(p) != nil {
		os.Exit(ExitFailed) // the front reports the error
	}
	os.Exit(0)
}

// isStopped reports whether a process is stopped (proc_pid_stat(5)).
func isStopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The name, in parentheses, may have any character in it.
	text := string(stat)
	rest := text[strings.LastIndexByte(text, ')')+1:]
	return strings.HasPrefix(rest, " T")
}
