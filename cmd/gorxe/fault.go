package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/keeper"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/sys/procfs"
)

// faultCmd changes the fault rules of a running session.
type faultCmd struct {
	Add    faultAddCmd    `cmd:"" help:"Add fault rules to a running program."`
	List   faultListCmd   `cmd:"" help:"List the fault rules of a running program, and what they did."`
	Remove faultRemoveCmd `cmd:"" help:"Remove fault rules of a running program, and show what they did."`
	Clear  faultClearCmd  `cmd:"" help:"Remove all fault rules of a running program, and show what they did."`
}

// sessionFlags choose a session.
type sessionFlags struct {
	Socket  string `placeholder:"PATH" predictor:"file" help:"Socket of the daemon, as for gorxe run."`
	Session uint64 `placeholder:"N" help:"The session by its number in gorxe status."`
	PID     int    `name:"pid" placeholder:"PID" help:"The session of this process, or of this gorxe run. Without it and --session: that of this command, if gorxe run started it, or else the only one."`
	Label   string `placeholder:"NAME" help:"The session of gorxe run --label NAME."`
	JSON    bool   `help:"Print JSON."`
}

// open connects to the daemon about the session.
func (f *sessionFlags) open() (*proto.Faults, error) {
	if f.Session != 0 && f.PID != 0 || f.Label != "" && (f.Session != 0 || f.PID != 0) {
		return nil, usageError{errors.New("--session, --pid and --label: give one of them")}
	}
	client, err := dialDaemon(f.Socket)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	id := f.Session
	if id == 0 {
		st, err := client.Status()
		if err != nil {
			return nil, err
		}
		find := f.find
		if f.Label != "" {
			find = f.labeled
		}
		if id, err = find(st); err != nil {
			return nil, err
		}
	}
	return proto.DialFaults([]string{client.Socket()}, id)
}

// labeled returns the session of --label.
func (f *sessionFlags) labeled(st *proto.Status) (id uint64, err error) {
	for _, s := range st.Sessions {
		switch {
		case s.Label != f.Label:
		case id != 0:
			return 0, usageError{fmt.Errorf("sessions %d and %d have the label %s: give --session", id, s.ID, f.Label)}
		default:
			id = s.ID
		}
	}
	if id == 0 {
		return 0, fmt.Errorf("no session has the label %s: gorxe status lists them", f.Label)
	}
	return id, nil
}

// find returns the session of --pid, or the one that this process is in, or the only one.
func (f *sessionFlags) find(st *proto.Status) (uint64, error) {
	byKeeper := make(map[int]uint64)
	for _, s := range st.Sessions {
		byKeeper[s.Keeper] = s.ID
		if f.PID > 1 && parent(s.Keeper) == f.PID {
			return s.ID, nil // the gorxe run that the shell knows
		}
	}
	pid := f.PID
	if pid == 0 {
		pid = os.Getpid()
	}
	for ; pid > 1; pid = parent(pid) {
		if id := byKeeper[pid]; id != 0 {
			return id, nil
		}
	}
	switch {
	case f.PID != 0:
		return 0, fmt.Errorf("process %d is in no session: gorxe status lists them", f.PID)
	case len(st.Sessions) == 0:
		return 0, errors.New("there is no session: start a program with gorxe run")
	case len(st.Sessions) > 1:
		return 0, usageError{fmt.Errorf("there are %d sessions: give --session, with a number of gorxe status", len(st.Sessions))}
	}
	return st.Sessions[0].ID, nil
}

// parent returns the parent of a process, or 0.
func parent(pid int) int {
	st, err := procfs.ReadStatus(pid)
	if err != nil {
		return 0
	}
	return st.PPID
}

// ask connects, asks, and prints the answer.
func (f *sessionFlags) ask(std streams, what func(*proto.Faults) ([]fault.Status, error)) ([]fault.Status, error) {
	conn, err := f.open()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	list, err := what(conn)
	if err != nil {
		return nil, err
	}
	if f.JSON {
		return list, writeJSON(std.out, reportOf(list))
	}
	return list, fault.WriteTable(std.out, list)
}

type faultAddCmd struct {
	sessionFlags `embed:""`
	Faults       []string `placeholder:"FILE" sep:"none" predictor:"file" help:"A YAML file with rules (repeatable). See gorxe help faults."`
	Rule         []string `arg:"" optional:"" predictor:"fault" help:"Rules, as 'packet drop,first=1'. See gorxe help faults."`
}

// Run adds the rules, all or none.
func (c faultAddCmd) Run(std streams) error {
	rules := c.Rule
	if err := checkRules(rules); err != nil {
		return usageError{err}
	}
	for _, file := range c.Faults {
		more, err := readRules(file)
		if err != nil {
			return err
		}
		rules = append(rules, more...)
	}
	if len(rules) == 0 {
		return usageError{errors.New("give a rule, or --faults FILE")}
	}
	_, err := c.ask(std, func(f *proto.Faults) ([]fault.Status, error) { return f.Add(rules) })
	return err
}

type faultListCmd struct {
	sessionFlags `embed:""`
}

// Run lists the rules.
func (c faultListCmd) Run(std streams) error {
	_, err := c.ask(std, (*proto.Faults).List)
	return err
}

type faultRemoveCmd struct {
	sessionFlags  `embed:""`
	FaultsMayMiss bool     `name:"faults-may-miss" help:"Exit with 0 even if a rule never fired, and not with 3."`
	ID            []uint64 `arg:"" help:"Numbers of rules, as list shows them."`
}

// Run removes rules, all or none.
func (c faultRemoveCmd) Run(std streams) error {
	list, err := c.ask(std, func(f *proto.Faults) ([]fault.Status, error) { return f.Remove(c.ID) })
	return missedError(list, c.FaultsMayMiss, err)
}

type faultClearCmd struct {
	sessionFlags  `embed:""`
	FaultsMayMiss bool `name:"faults-may-miss" help:"Exit with 0 even if a rule never fired, and not with 3."`
}

// Run removes all rules.
func (c faultClearCmd) Run(std streams) error {
	list, err := c.ask(std, (*proto.Faults).Clear)
	return missedError(list, c.FaultsMayMiss, err)
}

// missedError returns err, or else an error if a rule never fired and had to.
func missedError(list []fault.Status, mayMiss bool, err error) error {
	missed := len(fault.Missed(list))
	if err != nil || missed == 0 || mayMiss {
		return err
	}
	return &keeper.ExitError{Code: exitMissed, Err: fmt.Errorf("%d of %d fault rules never fired", missed, len(list))}
}
