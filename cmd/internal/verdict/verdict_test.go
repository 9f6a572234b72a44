package verdict

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/explain/sanitize"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rocev2"
)

// writtenOf writes a verdict whose capture has no packet, and returns the path of the page.
func writtenOf(t *testing.T, r *Run) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new", "dir")
	if err := Prepare(dir); err != nil {
		t.Fatal(err)
	}
	tap, err := rocev2.OpenTap(CapturePath(dir), "gorxe")
	if err != nil {
		t.Fatal(err)
	}
	if err := tap.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return PagePath(dir)
}

// verdictOf writes a verdict whose capture has no packet, and returns the page.
func verdictOf(t *testing.T, r *Run) string {
	t.Helper()
	page, err := os.ReadFile(writtenOf(t, r))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// misused is the report of a program that misuses verbs.
func misused() *proto.Report {
	return &proto.Report{Sanitizer: &sanitize.Report{Findings: []sanitize.Finding{
		{Check: "leak", Level: sanitize.Note, What: "a region"},
		{Check: "key-range", Level: sanitize.Error, Program: "prog", What: "3 bytes | past",
			Places: []sanitize.Place{{Lines: []sanitize.Frame{{Function: "f"}, {File: "/src/main.c", Line: 88}}}}},
		{Check: "rnr", Level: sanitize.Error, Suppressed: true},
	}}}
}

// TestBlame: the page names the side at fault.
func TestBlame(t *testing.T) {
	with := func(list ...explain.Record) *proto.Report {
		var total uint64
		for i := range list {
			list[i].Count, list[i].Program, list[i].What = 1, "prog", "it failed"
			total++
		}
		return &proto.Report{Errors: proto.Errors{Total: total, Errors: list}}
	}
	many := with(explain.Record{Fault: explain.Program})
	many.Errors.Total, many.Errors.Errors[0].Count = 100, 7
	cut := with()
	cut.CaptureLeftOut = 3
	for _, c := range []struct {
		run  Run
		says []string
	}{
		{Run{Report: with()}, []string{"# Verdict: the program ended well\n", "- No one: the program ended well", "There was nothing to judge."}},
		{Run{Report: with(), Exit: 2, Chaos: 7}, []string{"Chaos was on: `--chaos 7` repeats it.", "failed with exit status 2\n", "- **The program**, outside of RDMA: "}},
		{Run{Report: with(), Missed: true}, []string{"# Verdict: a fault rule never fired\n", "- No one: the program ended well. A fault rule found nothing"}},
		{Run{Report: with(explain.Record{Fault: explain.Peer})}, []string{"- **The peer** of `prog`: it failed.\n"}},
		{Run{Report: with(explain.Record{Fault: explain.Network})}, []string{"- **The network**, for `prog`: it failed.\n"}},
		{Run{Report: with(explain.Record{Fault: explain.Limit})}, []string{"- **A limit of the machine or of the daemon**, which `prog` met: "}},
		{Run{Report: with(explain.Record{Fault: explain.Unreachable})}, []string{"- **The peer or the network**, for `prog`: it failed. The capture has no packet to the peer's queue pair.\n"}},
		{Run{Report: many}, []string{"This is the first of 7 errors of this kind.\n", "The last of 100 errors:\n", " (7 times)\n"}},
		{Run{Report: cut}, []string{"The capture ends at its limit of 64 MiB: 3 packets came later, and are not judged.\n"}},
		{Run{Report: misused()}, []string{"# Verdict: the program exited with status 0, but the sanitizer found 1 error\n",
			"- **The program** `prog` misuses verbs: key-range: 3 bytes \\| past (main.c:88).\n",
			"\n## Misuse of verbs\n\n- error key-range: 3 bytes \\| past (main.c:88)\n- note leak: a region\n",
			"- `misuse.json`: what the sanitizer found; also as misuse.sarif\n"}},
		{Run{Report: &proto.Report{Sanitizer: &sanitize.Report{}}}, []string{"# Verdict: the program ended well\n", "The sanitizer found none.\n"}},
		{Run{Trouble: "the daemon is ending"}, []string{"- It is not known, because the daemon is gone: the daemon is ending.\n"}},
		{Run{Signal: "SIGKILL", Report: with(), Faults: []fault.Status{{Rule: "packet drop,opcode=A|B", Candidates: 9, Fired: 1}}}, []string{
			"# Verdict: the program was killed by SIGKILL\n", "- **The fault rule** `packet drop,opcode=A|B`, on purpose: it fired once.", `| packet drop,opcode=A\|B` + "` | 9 | 1 |\n"}},
	} {
		c.run.Command, c.run.Duration = []string{"a`b", "c\nd"}, 1500*time.Millisecond
		page := verdictOf(t, &c.run)
		for _, s := range append(c.says, "\n`'a'b' 'c d'` ran for 1.5s.\n") {
			if !strings.Contains(page, strings.Replace(s, "| packet", "| `packet", 1)) {
				t.Errorf("%q is missing in:\n%s", s, page)
			}
		}
	}
}

// TestOrder: the page leads with what went wrong first, a process that died or an error. It does
// not say of a run with errors that it ended well.
func TestOrder(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	exit := func(n int) *int { return &n }
	failed := explain.Record{Time: at(900), Count: 1, PID: 11, Program: "server", Kind: explain.Completion, Fault: explain.Unreachable, QPN: 0x11, PeerQPN: 0x12, What: "it got no answer"}
	refused := explain.Record{Time: at(100), Count: 2, PID: 11, Program: "server", Kind: explain.Refusal, Fault: explain.Program, What: "it was refused"}
	killed := proto.ProcessEnd{Time: at(500), PID: 7926, Name: "client", Signal: "SIGKILL"}
	ownerless := explain.Record{Time: at(450), Count: 1, PID: 7926, Program: "client", Kind: explain.Request, Fault: explain.Program, What: "its memory is gone", AfterEnd: true}
	left := proto.ProcessStatus{PID: 7926, Name: "client", Files: []proto.FileStatus{{Device: "rxe0", QPs: []proto.QPStatus{{QPN: 0x12, Type: "RC", State: "RTS"}}}}}
	rule := fault.Status{Rule: "peer silent", Candidates: 1, Fired: 1, First: &fault.Event{Time: at(600)}}
	for name, c := range map[string]struct {
		run   Run
		order []string // parts of the page, in their order
	}{
		"killed first": {
			Run{Exit: 1, Report: reportOf([]explain.Record{failed}, []proto.ProcessEnd{killed, {Time: at(950), PID: 11, Name: "server", Status: exit(1)}}, left)},
			[]string{
				"# Verdict: the program failed with exit status 1, after `client[7926]` was killed by SIGKILL\n",
				"- **Process 7926** (`client`), after 0.500 s: it was killed by SIGKILL first. What is below came later, and may follow from it.\n",
				"- **The peer or the network**, for `server`: it got no answer.", " That queue pair was of process 7926 (`client`), which was killed by SIGKILL after 0.500 s.\n",
				"1. After 0.500 s, `client[7926]` was killed by SIGKILL.\n", "2. After 0.900 s, `server[11]`: it got no answer.\n", "3. After 0.950 s, `server[11]` exited with status 1.\n",
			}},
		"noticed later than what it caused": {
			Run{Exit: 1, Report: reportOf([]explain.Record{ownerless, failed}, []proto.ProcessEnd{{Time: at(950), PID: 11, Name: "server", Status: exit(1)}, killed})},
			[]string{
				"# Verdict: the program failed with exit status 1, after `client[7926]` was killed by SIGKILL\n",
				"- **Process 7926** (`client`), after 0.450 s: it was killed by SIGKILL first.",
				"1. After 0.450 s, `client[7926]` was killed by SIGKILL.\n", "2. After 0.450 s, `client[7926]`: its memory is gone.\n", "3. After 0.900 s, `server[11]`: it got no answer.\n",
			}},
		"killed by a rule": {
			Run{Exit: 1, Report: reportOf([]explain.Record{ownerless, failed}, []proto.ProcessEnd{killed}), Faults: []fault.Status{{Rule: "peer killed", Fired: 1}}},
			[]string{"- **The fault rule** `peer killed`, on purpose: it fired once.", "- **Process 7926** (`client`), after 0.450 s: it was killed by the fault rule (SIGKILL) first. What is below came later"}},
		"both ends have a record of one mistake": {
			Run{Exit: 1, Report: reportOf([]explain.Record{
				{Time: at(100), Count: 1, PID: 11, Program: "server", Fault: explain.Peer, QPN: 0x11, PeerQPN: 0x12, What: "it refused the rkey"},
				{Time: at(110), Count: 1, PID: 12, Program: "client", Fault: explain.Program, QPN: 0x12, PeerQPN: 0x11, What: "its rkey was refused"},
			}, nil)},
			[]string{"## Who was at fault\n\n- **The program** `client`: its rkey was refused.\n\n## What the device saw"},
		},
		"the other end knows why": {
			Run{Exit: 1, Report: reportOf([]explain.Record{
				{Time: at(100), Count: 1, PID: 11, Program: "server", Kind: explain.Request, Fault: explain.Peer, QPN: 0x11, PeerQPN: 0x12, PSN: 7, What: "it refused rkey 0x5"},
				{Time: at(110), Count: 1, PID: 12, Program: "client", Kind: explain.Completion, Operation: "SEND", Answer: "NAK", Fault: explain.Program, QPN: 0x12, PeerQPN: 0x11, PSN: 7, What: "its rkey was refused"},
			}, nil)},
			[]string{"## Who was at fault\n\n- **The program** `client`: its rkey was refused. `server[11]`: it refused rkey 0x5.\n\n## What the device saw"},
		},
		"different path MTUs": {
			Run{Exit: 1, Report: reportOf([]explain.Record{
				{Time: at(100), Count: 1, PID: 11, Program: "prog", Role: "server", Kind: explain.Request, Fault: explain.Both, QPN: 0x11, PeerQPN: 0x12, PSN: 7, What: "path MTUs differ"},
				{Time: at(110), Count: 1, PID: 12, Program: "prog", Role: "client", Kind: explain.Completion, Operation: "SEND", Answer: "NAK", Fault: explain.Program, QPN: 0x12, PeerQPN: 0x11, PSN: 7, What: "NAK: invalid request"},
			}, nil)},
			[]string{"## Who was at fault\n\n- **Both ends**, which do not agree. The server (`prog`, pid 11): path MTUs differ.\n\n## What the device saw"},
		},
		"killed later": {
			Run{Exit: 1, Report: reportOf([]explain.Record{refused}, []proto.ProcessEnd{killed})},
			[]string{"# Verdict: the program failed with exit status 1\n", "- **The program** `server`: it was refused.", "- **Process 7926** (`client`), after 0.500 s: it was killed by SIGKILL.\n"},
		},
		"a rule after the death": {
			Run{Exit: 1, Faults: []fault.Status{rule}, Report: reportOf([]explain.Record{failed}, []proto.ProcessEnd{killed})},
			[]string{"- **Process 7926**", "- **The fault rule** `peer silent`", "- **The peer or the network**"},
		},
		"exit status 0": {
			Run{Report: reportOf([]explain.Record{refused, failed, failed}, nil)},
			[]string{"# Verdict: the program exited with status 0, but 2 work requests failed and 2 verbs were refused\n"},
		},
		"one of each": {
			Run{Missed: true, Report: reportOf([]explain.Record{failed}, nil)},
			[]string{"# Verdict: a fault rule never fired, and 1 work request failed\n"},
		},
		"the server is ended when all is done": {
			Run{Report: reportOf(nil, []proto.ProcessEnd{{Time: at(500), PID: 11, Name: "server", Signal: "SIGTERM"}})},
			[]string{"# Verdict: the program ended well\n", "- No one: the program ended well, and the device saw no error.\n", "No verb was refused, and no work request failed.\n\n1. After 0.500 s, `server[11]` was killed by SIGTERM.\n"},
		},
		"the server crashes when all is done": {
			Run{Report: reportOf(nil, []proto.ProcessEnd{{Time: at(500), PID: 11, Name: "server", Signal: "SIGSEGV"}})},
			[]string{"# Verdict: the program ended well\n", "- **Process 11** (`server`), after 0.500 s: it was killed by SIGSEGV.\n"},
		},
		"the kernel does not say": {
			Run{Exit: 1, Report: reportOf([]explain.Record{failed}, []proto.ProcessEnd{{Time: at(500), PID: 7926, Name: "client"}}, left)},
			[]string{"which ended (this kernel does not say how) after 0.500 s"},
		},
		"the program itself": {
			Run{Signal: "SIGSEGV", Report: reportOf(nil, []proto.ProcessEnd{{Time: at(500), PID: 7926, Name: "a.out", Signal: "SIGSEGV"}})},
			[]string{"# Verdict: the program was killed by SIGSEGV\n", "- **Process 7926** (`a.out`), after 0.500 s: it was killed by SIGSEGV.\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.run.Started = start
			page := verdictOf(t, &c.run)
			rest := page
			for _, s := range c.order {
				_, after, ok := strings.Cut(rest, s)
				if !ok {
					t.Fatalf("%q is missing, or not in its place, in:\n%s", s, page)
				}
				rest = after
			}
			if strings.Count(page, "its memory is gone") > 1 {
				t.Errorf("a program that was killed is blamed for what came of it:\n%s", page)
			}
			if c.run.Report.Errors.Total > 0 && strings.Contains(page, "ended well") {
				t.Errorf("there were errors, and the page says that the program ended well:\n%s", page)
			}
		})
	}
}

// TestPair: the page of a pair names its ends by their roles, shows what the user typed, and blames
// no end that gorxe itself ended.
func TestPair(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	one := 1
	failed := explain.Record{Time: at(100), Count: 1, PID: 12, Program: "prog", Role: "client", Kind: explain.Completion, Fault: explain.Unreachable, QPN: 0x12, PeerQPN: 0x11, What: "it got no answer"}
	wrong := explain.Record{Time: at(90), Count: 1, PID: 11, Program: "prog", Role: "server", Kind: explain.Refusal, Fault: explain.Program, What: "it was refused"}
	ends := []proto.ProcessEnd{
		{Time: at(200), PID: 12, Name: "prog", Role: "client", Status: &one},
		{Time: at(210), PID: 11, Name: "prog", Role: "server", Signal: "SIGTERM", Stopped: true},
	}
	left := proto.ProcessStatus{PID: 11, Name: "prog", Role: "server", Files: []proto.FileStatus{{Device: "rxe0", QPs: []proto.QPStatus{{QPN: 0x11, Type: "RC", State: "RTS"}}}}}
	for name, c := range map[string]struct {
		run  Run
		says []string
		not  string
	}{
		"the client fails": {
			Run{Pair: true, Exit: 1, Report: reportOf([]explain.Record{failed}, ends, left)},
			[]string{
				"# Verdict: the client failed with exit status 1\n", "\n`gorxe pair --fault 'packet drop,first=1' a -- b` ran for",
				"- **The peer or the network**, for the client (`prog`, pid 12): it got no answer.",
				"1. After 0.100 s, the client (`prog`, pid 12): it got no answer.\n", "3. After 0.210 s, the server (`prog`, pid 11) was ended by gorxe pair.\n",
				"| the server (`prog`, pid 11) | rxe0 |",
			}, "SIGTERM"},
		"the server's verb": {
			Run{Pair: true, Exit: 1, Report: reportOf([]explain.Record{wrong}, ends)},
			[]string{"- **The server** (`prog`, pid 11): it was refused.\n"}, "Process"},
		"no error": {
			Run{Pair: true, Exit: 1, Report: reportOf(nil, ends)},
			[]string{"- **The client** (`prog`, pid 12), after 0.200 s: it exited with status 1.\n- The device refused no verb"}, "SIGTERM"},
		"no process opened a device": {
			Run{Pair: true, Exit: 1, Report: reportOf(nil, nil)}, []string{"# Verdict: the pair failed with exit status 1\n"}, "program failed"},
		"somebody else ended the server": {
			Run{Pair: true, Exit: 1, Report: reportOf(nil, []proto.ProcessEnd{{Time: at(10), PID: 11, Name: "prog", Role: "server", Signal: "SIGTERM"}, ends[0]})},
			[]string{"the client failed with exit status 1, after the server (`prog`, pid 11) was killed by SIGTERM\n", "- **The server** (`prog`, pid 11), after 0.010 s: it was killed by SIGTERM.\n"}, "gorxe pair."},
		"one end of two hosts": {
			Run{Role: "server", Signal: "SIGTERM", Report: reportOf(nil, nil)},
			[]string{"# Verdict: the server was killed by SIGTERM\n", "- gorxe pair ends an end so when the other one has failed"}, "is not known"},
	} {
		c.run.Started, c.run.Command = start, []string{"gorxe", "pair", "--fault", "packet drop,first=1", "a", "--", "b"}
		page := verdictOf(t, &c.run)
		for _, s := range c.says {
			if !strings.Contains(page, s) {
				t.Errorf("%s: %q is missing in:\n%s", name, s, page)
			}
		}
		if strings.Contains(page, c.not) {
			t.Errorf("%s: %q is in:\n%s", name, c.not, page)
		}
	}
}

func reportOf(records []explain.Record, ends []proto.ProcessEnd, left ...proto.ProcessStatus) *proto.Report {
	rep := &proto.Report{Ends: ends, Ended: left}
	for _, x := range records {
		rep.Errors.Errors = append(rep.Errors.Errors, x)
		rep.Errors.Total += x.Count
	}
	return rep
}

// TestDiscard: a run that leaves no verdict leaves nothing, except for the files of others.
func TestDiscard(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "v")
	for _, others := range []bool{false, true} {
		if err := Prepare(dir); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "mine")
		if others {
			if err := os.WriteFile(file, nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := Discard(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); (err == nil) != others {
			t.Errorf("others have files: %v; the directory: %v", others, err)
		}
	}
}

// TestHostileNames: what a program chooses stays text on its line.
func TestHostileNames(t *testing.T) {
	const name = "`[x](//e)|\r# \x1b\u009b\\"
	file := proto.FileStatus{Device: "rxe0", QPs: []proto.QPStatus{{QPN: 0x11, Type: "RC", State: "RTS"}}}
	page := verdictOf(t, &Run{Command: []string{name}, Report: &proto.Report{
		Errors: proto.Errors{Total: 1, Errors: []explain.Record{{Count: 1, PID: 7, Program: name, What: name, Fault: explain.Peer}}},
		Ended:  []proto.ProcessStatus{{PID: 7, Name: name, Files: []proto.FileStatus{file}}},
	}})
	for _, c := range page {
		if c != '\n' && !strconv.IsPrint(c) {
			t.Errorf("the page has %q", c)
		}
	}
	for _, s := range []string{
		"\n`''[x](//e)| # ??\\'` ran for ",
		"\n1. `'[x](//e)| # ??\\[7]`: \\`\\[x](//e)\\| # ??\\\\.\n",
		"\n| `'[x](//e)\\| # ??\\[7]` | rxe0 | 0x000011 | RC | RTS | - | 0 |\n",
	} {
		if !strings.Contains(page, s) {
			t.Errorf("%q is missing in:\n%s", s, page)
		}
	}
}

// TestForeignLink: a verdict is not written through a link that somebody puts into the directory.
func TestForeignLink(t *testing.T) {
	for _, name := range []string{PageFile, CheckFile, RunFile, LadderFile} {
		dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
		if err := Prepare(dir); err != nil {
			t.Fatal(err)
		}
		tap, err := rocev2.OpenTap(CapturePath(dir), "gorxe")
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(tap.Close(), os.WriteFile(other, []byte("kept"), 0o666), os.Symlink(other, filepath.Join(dir, name)))
		if err != nil {
			t.Fatal(err)
		}
		if err := (&Run{}).Write(t.Context(), dir); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", name, err)
		}
		if text, err := os.ReadFile(other); string(text) != "kept" {
			t.Errorf("%s: the file behind the link has %.40q, %v", name, text, err)
		}
	}
}

// TestDiscardLink: a link to a directory is the user's, and stays. So does a directory in which no
// verdict was prepared, because the program could not be found.
func TestDiscardLink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "v"), 0o777), os.Symlink("v", link)); err != nil {
		t.Fatal(err)
	}
	for _, made := range []bool{false, true} {
		if made {
			if err := Prepare(link); err != nil {
				t.Fatal(err)
			}
		}
		if err := Discard(link); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(link); err != nil {
			t.Errorf("a verdict was prepared: %v: %v", made, err)
		}
	}
}
