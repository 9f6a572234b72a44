package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"net/netip"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/internal/service/daemon"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/sys/terminal"
)

type statusCmd struct {
	Socket     string        `placeholder:"PATH" predictor:"file" help:"Socket of the daemon (default: $$GORXE_SOCKET; else /run/gorxe.sock for root; else gorxe.sock in $$XDG_RUNTIME_DIR, /run/user/UID or /tmp/gorxe-UID, then /run/gorxe.sock)."`
	JSON       bool          `name:"json" help:"Print JSON instead of tables."`
	Congestion bool          `help:"Print how the devices answer congestion, too: the parameters of DCQCN."`
	Wide       bool          `help:"Print every column, and each row in one line."`
	Errors     bool          `help:"Print the last errors of each program: verbs that were refused, and bad completions."`
	Watch      bool          `short:"w" help:"Repeat until interrupted."`
	Interval   time.Duration `default:"1s" help:"Time between two reports of --watch (default: ${default})."`
}

// Help is the part of `gorxe status --help` above the flags.
func (statusCmd) Help() string {
	return `Asks the daemon for its devices, ports and GIDs, and for the attached programs with their queue pairs, completion queues and memory regions. The daemon may be one that gorxe run started. Only root and the daemon's own user see the sessions of other users.

MTUs are in bytes, and MEMORY is that of the memory regions. QUEUED are work requests in the send queue that are not completed. MBIT/S is what congestion control has left of the queue pair's rate, if it limits that. gorxe top has how fast it sends. A table that is wider than the terminal lacks the columns that are 0 or empty everywhere. If that is not enough, it has several lines for each row. --wide prints all.

With --errors, it lists the last 64 errors of each program instead. gorxe help run has the errors of programs that have ended: --explain.

The exit code is 0, 1 if no daemon is reachable, 2 if the command line is wrong.

Examples:
  gorxe status
  gorxe status --json
  gorxe status --congestion
  gorxe status --errors
  gorxe status --watch --interval 500ms`
}

// Run prints the status.
func (c statusCmd) Run(newContext contexts, std streams) error {
	if c.Interval <= 0 {
		return usageError{fmt.Errorf("--interval %v: it must be positive", c.Interval)}
	}
	if !c.Watch {
		return c.print(std.out)
	}
	return repeat(newContext, c.Interval, func() error {
		if terminal.Is(std.out) {
			fmt.Fprint(std.out, homeAndClear)
		}
		err := c.print(std.out)
		if err == nil && !c.JSON {
			fmt.Fprintln(std.out)
		}
		return err
	})
}

// homeAndClear goes to the top left corner of a terminal, and clears what is below.
const homeAndClear = "\x1b[H\x1b[J"

func checkRepeat(interval time.Duration, count int) error {
	if interval <= 0 || count < 0 {
		return usageError{fmt.Errorf("--interval %v and --count %d must be positive", interval, count)}
	}
	return nil
}

// repeatTimes is repeat with an end after count calls; 0 is no end.
func repeatTimes(newContext contexts, interval time.Duration, count int, do func() error) error {
	n := 0
	err := repeat(newContext, interval, func() error {
		err := do()
		if n++; err == nil && n == count {
			err = errTopDone
		}
		return err
	})
	if errors.Is(err, errTopDone) {
		return nil
	}
	return err
}

// repeat calls a function at once and after each interval, until it returns an error or the
// user interrupts.
func repeat(newContext contexts, interval time.Duration, do func() error) error {
	ctx, err := newContext()
	if err != nil {
		return err
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := do(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (c statusCmd) print(w io.Writer) error {
	if c.Errors {
		return printErrors(w, c.Socket, c.JSON)
	}
	st, err := askStatus(c.Socket)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(w, st)
	}
	if err := writeStatus(w, st, c.Congestion, c.Wide); err != nil || c.Socket != "" {
		return err
	}
	if says := privateRuns(proto.PrivateSockets()); says != "" {
		fmt.Fprintf(w, "\n%s\n", says)
	}
	return nil
}

// askStatus asks the daemon at a socket.
func askStatus(socket string) (*proto.Status, error) {
	client, err := dialDaemon(socket)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.Status()
}

// dialDaemon connects to the daemon at a socket, or at one of the usual places if socket is empty.
func dialDaemon(socket string) (*proto.Client, error) {
	paths, err := proto.Sockets(socket)
	if err != nil {
		return nil, err
	}
	client, err := proto.Dial(paths)
	if err != nil && socket == "" && errors.Is(err, proto.ErrNoDaemon) {
		if says := privateRuns(proto.PrivateSockets()); says != "" {
			err = fmt.Errorf("%w. %s", err, says)
		}
	}
	return client, err
}

// privateRuns names the daemons of runs with --private; empty: there is none.
func privateRuns(sockets []string) string {
	if len(sockets) == 0 {
		return ""
	}
	return "Runs with --private have their own: --socket " + printable(strings.Join(sockets, ", --socket "))
}

// writeStatus prints one table each of ports, of processes and of queue pairs.
func writeStatus(w io.Writer, st *proto.Status, congestion, wide bool) error {
	what := "daemon"
	if st.Private {
		what = "private daemon"
	}
	writeWrapped(w, "", fmt.Sprintf("%s, process %d at %s, since %s", what, st.PID, printable(st.Socket), st.Started.Format(time.DateTime)))
	fmt.Fprintln(w)
	t := newTable(w)
	if wide {
		t.width = math.MaxInt
	}
	writePorts(t, st.Devices)
	writeLikes(t, st.Devices)
	if congestion {
		writeCongestion(t, st.Devices)
	}
	writeGIDs(t, st.Devices)
	writeProcesses(t, st)
	writeDoorbells(t, st)
	writeQPs(t, st)
	writeCMIDs(t, st)
	if err := t.Flush(); err != nil {
		return err
	}
	writeLosses(w, st)
	writeOldLibrxe(w, st)
	writeLeftOut(w, st)
	for _, s := range st.Sessions {
		if s.Label != "" {
			fmt.Fprintf(w, "\nSession %d has the label %s\n", s.ID, s.Label)
		}
		if s.Chaos != 0 {
			fmt.Fprintf(w, "\nSession %d has chaos, seed %d\n", s.ID, s.Chaos)
		}
	}
	if st.Hidden > 0 {
		fmt.Fprintf(w, "\nSessions of other users: %d\n", st.Hidden)
	}
	return nil
}

func writePorts(w io.Writer, devices []proto.DeviceStatus) {
	fmt.Fprintln(w, "DEVICE\tPORT\tSTATE\tINTERFACE\tMTU\tACTIVE MTU\tSPEED\tCONGESTION")
	for _, d := range devices {
		for _, p := range d.Ports {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%d\t%v Gb/s\t%s\n", d.Name, p.Number, p.State, p.Interface, p.MTU, p.ActiveMTU, p.SpeedGbps, proto.ECNWord(d.ECN))
		}
	}
}

// writeLikes says which adapters the devices look like, if any does.
func writeLikes(w io.Writer, devices []proto.DeviceStatus) {
	head := "\nDEVICE\tLIKE\n"
	for _, d := range devices {
		if d.Like != "" {
			fmt.Fprintf(w, "%s%s\t%s\n", head, d.Name, d.Like)
			head = ""
		}
	}
}

// writeCongestion prints the parameters.
func writeCongestion(w io.Writer, devices []proto.DeviceStatus) {
	head := "\nDEVICE\tCONGESTION\n"
	for _, d := range devices {
		for _, line := range wrap(proto.ECNText(d.ECN), congestionWidth) {
			fmt.Fprintf(w, "%s%s\t%s\n", head, d.Name, line)
			head = ""
		}
	}
}

func writeGIDs(w io.Writer, devices []proto.DeviceStatus) {
	head := "\nDEVICE\tPORT\tINDEX\tGID\n"
	for _, d := range devices {
		for _, p := range d.Ports {
			for _, g := range p.GIDs {
				fmt.Fprintf(w, "%s%s\t%d\t%d\t%s\n", head, d.Name, p.Number, g.Index, shortGID(g.GID))
				head = ""
			}
		}
	}
}

// congestionWidth is the number of columns for the parameters of ECN, so that a line has 80.
const congestionWidth = 68

// shortGID writes a GID as an IPv6 address is written.
func shortGID(gid string) string {
	if addr, err := netip.ParseAddr(gid); err == nil {
		return addr.String()
	}
	return gid
}

// shortAddress is shortGID, and IPv4 addresses without the prefix that makes them GIDs.
func shortAddress(gid string) string {
	return strings.TrimPrefix(shortGID(gid), "::ffff:")
}

func writeProcesses(w io.Writer, st *proto.Status) {
	if len(st.Sessions) == 0 {
		return
	}
	domains := false // a column for what few programs have
	for _, f := range files(st) {
		domains = domains || f.XRCDs > 0
	}
	more := func(column any) string {
		if !domains {
			return ""
		}
		return fmt.Sprint("\t", column)
	}
	fmt.Fprintf(w, "\nSESSION\tUSER\tPROCESS\tNAME\tDEVICE\tPDS\tMRS\tMEMORY\tCQS\tSRQS\tQPS%s\n", more("XRCDS"))
	for _, s := range st.Sessions {
		if len(s.Processes) == 0 {
			fmt.Fprintf(w, "%d\t%s\t-\t%.15s\t-\t-\t-\t-\t-\t-\t-%s\n", s.ID, userName(s.UID), printable(strings.Join(s.Command, " ")), more("-"))
		}
		for _, p := range s.Processes {
			for _, f := range p.Files {
				fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%d\t%d\t%s\t%d\t%d\t%d%s\n", s.ID, userName(s.UID), p.PID, printable(p.Name),
					f.Device, f.PDs, len(f.MRs)+f.LeftOut.MRs, short(float64(f.MRBytes), 1024), len(f.CQs)+f.LeftOut.CQs,
					len(f.SRQs)+f.LeftOut.SRQs, len(f.QPs)+f.LeftOut.QPs, more(f.XRCDs))
			}
		}
	}
}

// doorbellsWidth is the number of columns for how doorbells arrive, so that a line has 80.
const doorbellsWidth = 56

// writeDoorbells says how they reach the devices.
func writeDoorbells(w io.Writer, st *proto.Status) {
	head := "\nPROCESS\tDEVICE\tDOORBELLS\n"
	for p, f := range files(st) {
		says := f.Doorbells.How
		if f.Doorbells.Why != "" {
			says += ": " + printable(f.Doorbells.Why)
		}
		if says == "" {
			continue
		}
		first := fmt.Sprintf("%d\t%s", p.PID, f.Device)
		for _, line := range wrap(says, doorbellsWidth) {
			fmt.Fprintf(w, "%s%s\t%s\n", head, first, line)
			head, first = "", "\t"
		}
	}
}

func writeQPs(w io.Writer, st *proto.Status) {
	color := paintOf(w)
	head := "\nPROCESS\tDEVICE\tQPN\tTYPE\tSTATE\tPEER QPN\tPEER\tMTU\tQUEUED\tMBIT/S\n"
	for p, f := range files(st) {
		for _, q := range f.QPs {
			fmt.Fprint(w, head)
			head = ""
			peer := "-\t-\t-"
			if q.Peer != nil {
				peer = fmt.Sprintf("0x%06x\t%s\t%d", q.Peer.QPN, shortAddress(q.Peer.GID), q.Peer.MTU)
			}
			rate := "-"
			if q.RateMbps > 0 {
				rate = megabits(q.RateMbps)
			}
			fmt.Fprintf(w, "%d\t%s\t0x%06x\t%s\t%s\t%s\t%d\t%s\n", p.PID, f.Device, q.QPN, q.Type, stateColor(color, q.State), peer, q.SendQueue, rate)
		}
	}
	head = "\nPROCESS\tQPN\tCOUNTERS\n"
	for p, f := range files(st) {
		for _, q := range f.QPs {
			first := fmt.Sprintf("%d\t0x%06x", p.PID, q.QPN)
			for _, line := range wrap(counters(q.Counters), countersWidth) {
				if line != "-" {
					fmt.Fprintf(w, "%s%s\t%s\n", head, first, line)
					head, first = "", "\t"
				}
			}
		}
	}
}

func stateColor(p paint, state string) string {
	switch state {
	case "ERR", "SQE":
		return p.as(red, state)
	case "RTS":
		return p.as(green, state)
	}
	return state
}

// countersWidth is the number of columns for counters, so that a line has 80.
const countersWidth = 60

// files yields the open devices of all processes.
func files(st *proto.Status) iter.Seq2[*proto.ProcessStatus, *proto.FileStatus] {
	return func(yield func(*proto.ProcessStatus, *proto.FileStatus) bool) {
		for i := range st.Sessions {
			for j := range st.Sessions[i].Processes {
				p := &st.Sessions[i].Processes[j]
				for k := range p.Files {
					if !yield(p, &p.Files[k]) {
						return
					}
				}
			}
		}
	}
}

func writeCMIDs(w io.Writer, st *proto.Status) {
	head := "\nPROCESS\tDEVICE\tCM ID\tSPACE\tSTATE\tLOCAL\tREMOTE\n"
	for _, s := range st.Sessions {
		for _, id := range s.CMIDs {
			fmt.Fprint(w, head)
			head = ""
			fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%s\t%s\n", id.PID, cmp.Or(id.Device, "-"), id.ID, id.Space, id.State,
				cmp.Or(id.Local, "-"), cmp.Or(id.Remote, "-"))
		}
	}
}

// writeLosses names the counters of lost packets that are not zero.
func writeLosses(w io.Writer, st *proto.Status) {
	for _, d := range st.Devices {
		lost := make(map[string]uint64)
		for _, p := range d.Ports {
			maps.Copy(lost, p.Counters)
		}
		maps.Copy(lost, d.Counters)
		maps.DeleteFunc(lost, func(name string, _ uint64) bool { return !strings.Contains(name, "drop") && name != "icrc_errors" })
		if text := counters(lost); text != "-" {
			fmt.Fprintln(w)
			for i, line := range wrap(d.Name+" has lost packets: "+text, columns(w)-2) {
				fmt.Fprintln(w, strings.Repeat("  ", min(i, 1))+line)
			}
		}
	}
}

// writeLeftOut says what the tables have no rows for.
func writeLeftOut(w io.Writer, st *proto.Status) {
	for _, s := range st.Sessions {
		qps := 0
		for _, p := range s.Processes {
			for _, f := range p.Files {
				qps += f.LeftOut.QPs
			}
		}
		if s.CMIDsLeftOut > 0 {
			fmt.Fprintf(w, "\nSession %d: not shown: %s\n", s.ID, plural.Of(s.CMIDsLeftOut, "CM id"))
		}
		if s.FilesLeftOut+qps > 0 {
			fmt.Fprintln(w)
			writeWrapped(w, "", fmt.Sprintf("Session %d: not shown: %s, and %s of the others", s.ID, plural.Of(s.FilesLeftOut, "open device"), plural.Of(qps, "queue pair")))
		}
	}
}

// writeOldLibrxe names the processes whose librxe loses completions.
func writeOldLibrxe(w io.Writer, st *proto.Status) {
	for _, s := range st.Sessions {
		for _, p := range s.Processes {
			if slices.ContainsFunc(p.Files, func(f proto.FileStatus) bool { return f.OldLibrxe }) {
				fmt.Fprintln(w)
				writeWrapped(w, "", daemon.OldLibrxe(p.PID, p.Name))
			}
		}
	}
}

// counters formats the counters that are not zero.
func counters(all map[string]uint64) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != 0 {
			fmt.Fprintf(&b, "%s=%d ", name, all[name])
		}
	}
	if b.Len() == 0 {
		return "-"
	}
	return strings.TrimSuffix(b.String(), " ")
}

// userName is the name of a user, or the number if there is none.
func userName(uid uint32) string {
	number := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}
