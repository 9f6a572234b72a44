package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// trial is a program that runs with gorxe run --verdict.
type trial struct {
	*host
	dir, socket string
}

// newTrial returns where a verdict can be made, with a daemon of its own.
func newTrial(t *testing.T) trial {
	t.Helper()
	notNative(t, "verdict")
	a, _ := twoHosts(t, 1500)
	dir, err := os.MkdirTemp(scratch, "verdict-")
	if err != nil {
		t.Fatal(err)
	}
	return trial{a, filepath.Join(dir, "verdict"), filepath.Join(dir, "s")}
}

// run runs a program with flags of gorxe run, and returns its exit status and output.
func (j *trial) run(t *testing.T, flags []string, argv ...string) (int, string) {
	t.Helper()
	args := append([]string{gorxe, "run", "--socket", j.socket, "--device", "rxe0=eth0"}, flags...)
	p := start(t, j.host, nil, append(append(args, "--"), argv...)...)
	code := p.wait()
	return code, p.out.String()
}

func (j *trial) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(j.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// has checks the page.
func (j *trial) has(t *testing.T, lines ...string) {
	t.Helper()
	page := j.read(t, "verdict.md")
	for _, s := range lines {
		if !strings.Contains(page, s) {
			t.Errorf("%q is missing in:\n%s", s, page)
		}
	}
	for _, name := range []string{"run.json", "errors.json", "objects.json", "faults.json", "check.json"} {
		var v any
		if err := json.Unmarshal([]byte(j.read(t, name)), &v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !strings.Contains(j.read(t, "verdict.html"), "</html>") || j.read(t, "check.txt") == "" {
		t.Error("verdict.html or check.txt has nothing")
	}
}

// pingpongs is a shell's command: a server and a client of ibv_rc_pingpong, which begins when the
// server listens. Its exit status is the client's.
func (j *trial) pingpongs() []string {
	port := j.nextPort()
	p := fmt.Sprintf("ibv_rc_pingpong -d rxe0 -g %d -n 50 -p %d", gidIPv4, port)
	return []string{"sh", "-c", fmt.Sprintf(
		`%s & server=$!; until grep -q ':%04X 0\{8\}:0000 0A' /proc/net/tcp; do sleep 0.1; done; %s 127.0.0.1; code=$?; [ $code = 0 ] || kill $server; wait; exit $code`, p, port, p)}
}

// TestVerdictOfLoss: packets are lost by a rule, and the verdict names the rule.
func TestVerdictOfLoss(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	j := newTrial(t)
	code, out := j.run(t, []string{"--verdict", j.dir, "--fault", "packet drop,opcode=RC_SEND_*,after=3"}, j.pingpongs()...)
	if code != 1 || !strings.Contains(out, "gorxe: the verdict is "+filepath.Join(j.dir, "verdict.md")) {
		t.Errorf("exit status %d\n%s", code, out)
	}
	j.has(t, "# Verdict: the program failed with exit status 1\n",
		"- **The fault rule** `packet drop,opcode=RC_SEND_*,after=3`, on purpose: it fired ",
		"ended with IBV_WC_RETRY_EXC_ERR: ", " obeyed it, in ", "| ERR |", "| `packet drop,opcode=RC_SEND_*,after=3` |")
}

// TestVerdictOfKilled: a server is killed, and its client, which writes all the time, fails because
// of that. The verdict begins with the process that was killed.
func TestVerdictOfKilled(t *testing.T) {
	need(t, "ib_write_bw")
	j := newTrial(t)
	port, dir := j.nextPort(), filepath.Dir(j.dir)
	p := fmt.Sprintf("stdbuf -oL ib_write_bw -F -d rxe0 -x %d -D 600 -p %d", gidIPv4, port)
	// Both ends print the peer's address when they are connected.
	code, out := j.run(t, []string{"--verdict", j.dir}, "sh", "-c", fmt.Sprintf(
		`cd %s; %s >server & server=$!; until grep -q ':%04X 0\{8\}:0000 0A' /proc/net/tcp; do sleep 0.1; done
		%[2]s 127.0.0.1 >client & client=$!; until grep -q remote client && grep -q remote server; do sleep 0.1; done
		kill -KILL $server; wait $client`, dir, p, port))
	if code != 1 {
		t.Errorf("exit status %d\n%s", code, out)
	}
	title, rest, _ := strings.Cut(j.read(t, "verdict.md"), "\n")
	killed := regexp.MustCompile("^# Verdict: the program failed with exit status 1, after `ib_write_bw\\[([0-9]+)\\]` was killed by SIGKILL$").FindStringSubmatch(title)
	if killed == nil {
		t.Fatalf("the title is %s\n%s", title, rest)
	}
	_, blame, _ := strings.Cut(rest, "## Who was at fault\n\n")
	if !strings.HasPrefix(blame, "- **Process "+killed[1]+"** (`ib_write_bw`), after ") {
		t.Errorf("the process that was killed is not named first:\n%s", blame)
	}
	j.has(t, "it was killed by SIGKILL first.", "ended with IBV_WC_RETRY_EXC_ERR: ", " That queue pair was of process "+killed[1]+" (`ib_write_bw`), which was killed by SIGKILL after ")
}

// TestVerdictOfGood: a program that ends well leaves no verdict with --verdict-on-failure, and a
// good one with --verdict. The second run has a daemon of its own.
func TestVerdictOfGood(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	need(t, "ibv_rc_pingpong")
	j := newTrial(t)
	argv := j.pingpongs()
	if code, out := j.run(t, []string{"--verdict-on-failure", j.dir}, argv...); code != 0 {
		t.Errorf("exit status %d\n%s", code, out)
	}
	if _, err := os.Stat(j.dir); !os.IsNotExist(err) {
		t.Errorf("a program ended well, and a verdict is left: %v", err)
	}
	if code, out := j.run(t, []string{"--verdict", j.dir}, argv...); code != 0 {
		t.Errorf("exit status %d\n%s", code, out)
	}
	j.has(t, "# Verdict: the program ended well\n", "- No one: the program ended well, and the device saw no error.\n",
		"No verb was refused, and no work request failed.", " packets in 2 flows.", " obeyed it, in ")
}

// TestVerdictOfEnd: the verdict has the program's exit status or signal, whatever the device saw,
// and exit status 3 remains that of a rule that never fired.
func TestVerdictOfEnd(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	j := newTrial(t)
	for i, c := range []struct {
		flags []string
		end   string
		code  int
		says  string
	}{
		{nil, "exit 7", 7, "# Verdict: the program failed with exit status 7\n"},
		{nil, "kill -TERM $$", -15, "# Verdict: the program was killed by SIGTERM\n"},
		{[]string{"--fault", "packet drop,qp=UD"}, "exit 0", 3, "# Verdict: a fault rule never fired\n"},
	} {
		j.dir = fmt.Sprint(filepath.Dir(j.dir), "/verdict", i)
		if code, out := j.run(t, append(c.flags, "--verdict-on-failure", j.dir), "sh", "-c", c.end); code != c.code {
			t.Errorf("%s: exit status %d, want %d\n%s", c.end, code, c.code, out)
		}
		j.has(t, c.says)
	}
}

// TestVerdictRefused: a directory that cannot be used is refused before the program starts.
func TestVerdictRefused(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	j := newTrial(t)
	used := filepath.Dir(j.dir)
	file := filepath.Join(used, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags []string
		code  int
		says  string
	}{
		{[]string{"--verdict", used}, 125, "it has files, as file: give an empty directory, or one that does not exist"},
		{[]string{"--verdict", file}, 125, "file"},
		{[]string{"--verdict-on-failure", "/proc/verdict"}, 125, "gorxe: --verdict-on-failure: mkdir /proc/verdict"},
		{[]string{"--verdict", j.dir, "--pcap", "x.pcapng"}, 2, "leave --pcap out"},
		{[]string{"--verdict", j.dir, "--verdict-on-failure", j.dir}, 2, "--verdict"},
	} {
		code, out := j.run(t, c.flags, "echo", "the program ran")
		if code != c.code || !strings.Contains(out, c.says) || strings.Contains(out, "the program ran") {
			t.Errorf("%q: exit status %d, want %d and %q\n%s", c.flags, code, c.code, c.says, out)
		}
	}
}

// varying is what differs from run to run.
var varying = []struct {
	is   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`0x[0-9a-f]+`), "0xN"},
	{regexp.MustCompile(`\[\d+\]`), "[PID]"},
	{regexp.MustCompile(`ran for [0-9.]+m?s`), "ran for TIME"},
	{regexp.MustCompile(`After [0-9.]+ s`), "After TIME"},
	{regexp.MustCompile(`(\d+\.){3}\d+`), "ADDRESS"},
	{regexp.MustCompile("`[^` ]*wrongkey rxe0`"), "`./wrongkey rxe0`"},
	{regexp.MustCompile("(?m)^(\\| `wrongkey\\[PID\\].*\n)+"), "| wrongkey\n"}, // in no order
}

func same(text string) string {
	for _, v := range varying {
		text = v.is.ReplaceAllString(text, v.with)
	}
	return strings.TrimSpace(text)
}

// TestVerdictExample: the page of docs/verdict.md is that of a program with a wrong rkey.
func TestVerdictExample(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	need(t, "gcc")
	j := newTrial(t)
	bin := filepath.Join(filepath.Dir(j.dir), "wrongkey")
	if out, err := exec.Command("gcc", "-O1", "-Wall", "-o", bin, "testdata/wrongkey.c", "-libverbs").CombinedOutput(); err != nil {
		t.Fatalf("gcc wrongkey.c: %v\n%s", err, out)
	}
	if code, out := j.run(t, []string{"--verdict", j.dir}, bin, "rxe0"); code != 1 {
		t.Errorf("exit status %d\n%s", code, out)
	}
	j.has(t)
	docs, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "verdict.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(docs), "````markdown\n")
	example, _, _ = strings.Cut(example, "````")
	if got := same(j.read(t, "verdict.md")); got != same(example) {
		t.Errorf("the page is\n%s\nand docs/verdict.md has\n%s", j.read(t, "verdict.md"), example)
	}
	var list struct {
		Errors []struct{ Kind, Status string }
	}
	if err := json.Unmarshal([]byte(j.read(t, "errors.json")), &list); err != nil || len(list.Errors) != 2 {
		t.Errorf("errors.json has %s errors: %v", strconv.Itoa(len(list.Errors)), err)
	}
}
