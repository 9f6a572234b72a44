package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// meetingFlags are those of a run. X is a file or directory.
var meetingFlags = []struct{ name, flags string }{
	{"none", ""},
	{"`--device rxe0=lo`", "--device rxe0=lo"},
	{"`--pcap FILE`", "--pcap X"},
	{"`--verdict DIR`", "--verdict X"},
	{"`--private`", "--private"},
}

// meeting is a user on a host, whose runs meet others.
type meeting struct {
	*host
	env []string
	dir string
}

// meets returns a user with a directory of its own.
func meets(t *testing.T, h *host, uid uint32) meeting {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "meet-")
	if err == nil {
		err = os.Chown(dir, int(uid), int(uid))
	}
	if err != nil {
		t.Fatal(err)
	}
	return meeting{h.as(uid, uid), []string{"XDG_RUNTIME_DIR=" + dir, "HOME=" + dir}, dir}
}

// run starts a program that says which daemon it has and at which address, and then executes what
// then says.
func (m *meeting) run(t *testing.T, flags, file, then string) *proc {
	t.Helper()
	if strings.HasPrefix(flags, "--pcap") {
		file += ".pcapng"
	}
	words := strings.Fields(strings.ReplaceAll(flags, "X", filepath.Join(m.dir, file)))
	// Each daemon makes a socket.
	const script = `echo DAEMON $GORXE_SOCKET.$(stat -c %i.%.9Z $GORXE_SOCKET) $GORXE_ADDRESS; `
	return start(t, m.host, m.env, slices.Concat([]string{gorxe, "run"}, words, []string{"--", "sh", "-c", script + then})...)
}

// said returns what a program of run said; nil if it did not.
func said(p *proc) []string {
	_, line, _ := strings.Cut(p.out.String(), "DAEMON ")
	line, _, ended := strings.Cut(line, "\n")
	if f := strings.Fields(line); ended && len(f) == 2 {
		return f
	}
	return nil
}

// fate says what a run got that met another one.
func fate(t *testing.T, first []string, p *proc) string {
	t.Helper()
	code := p.wait()
	second := said(p)
	switch {
	case code == 125 && second == nil && strings.Contains(p.out.String(), "--private"):
		return "refused"
	case code == 125 && second == nil && strings.Contains(p.out.String(), "give each of them a directory of its own"):
		return "refused"
	case code != 0 || second == nil:
		t.Errorf("%s: exit status %d\n%s", p.name, code, p.out.String())
		return "failed"
	case second[0] == first[0]:
		return "shared"
	case strings.Contains(p.out.String(), "on the free loopback address "+second[1]):
		return "its own, moved"
	}
	return "its own"
}

// TestMeetings: what a run gets that begins while another one runs, or after it: the same user's or
// another one's, in the same network namespace or another one. docs/testing.md has the table.
func TestMeetings(t *testing.T) {
	besideOthers(t)
	notNative(t, "gorxe run")
	if !selection.takes(standard) || oneUser {
		return
	}
	a, b := twoHosts(t, 1500)
	a.ip(t, "route add default via 10.88.0.2")
	b.ip(t, "route add default via 10.88.0.1")
	one, two := meets(t, a, 65534), meets(t, a, 65533)
	there := meeting{b.as(65534, 65534), one.env, one.dir}
	table := "| first run | second: "
	for _, f := range meetingFlags {
		table += f.name + " | "
	}
	table += "the same command | another user | another network namespace | afterward |\n|" + strings.Repeat("---|", len(meetingFlags)+5) + "\n"
	for _, f := range meetingFlags {
		row := []string{f.name}
		holder := one.run(t, f.flags, "first", "exec sleep 1000")
		if !until(programLimit, func() bool { return holder.ended() || said(holder) != nil }) || holder.ended() {
			t.Fatal(holder.describe())
		}
		first := said(holder)
		var seconds []*proc
		second := func(m *meeting, flags, file string) {
			p := m.run(t, flags, file, "")
			if seconds = append(seconds, p); f.flags == "--private" {
				p.wait() // these would meet each other
			}
		}
		for _, s := range meetingFlags {
			second(&one, s.flags, "second")
		}
		second(&one, f.flags, "first")
		second(&two, f.flags, "first")
		second(&there, f.flags, "third")
		for _, p := range seconds {
			row = append(row, fate(t, first, p))
		}
		holder.killProgram("sleep")
		holder.wait()
		row = append(row, fate(t, first, one.run(t, f.flags, "first", "")))
		table += "| " + strings.Join(row, " | ") + " |\n"
	}
	generated(t, filepath.Join("..", "..", "..", "docs", "testing.md"), "meetings", table)
}
