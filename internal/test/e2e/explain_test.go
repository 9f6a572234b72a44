package e2e

import (
	"strconv"
	"strings"
	"testing"
)

// explained are runs of the client of ibv_rc_pingpong, with a rule if there is one, and the
// sentences of gorxe run --explain.
var explained = []struct {
	name, rule string
	argv       []string
	says       []string
}{
	{"good", "", nil, []string{"gorxe: no errors\n"}},
	{"too many entries", "", []string{"-r", "9999999"}, []string{
		"ibv_create_cq failed with EINVAL: entries 10000000 is not between 1 and max_cqe; use 1 to 32767.\n"}},
	{"lost", "packet drop,direction=out", nil, []string{
		": SEND (wr_id 0x2) ended with IBV_WC_RETRY_EXC_ERR: ", " answered no packet from PSN 0x", " on in 7 retries; on purpose, by fault rule 1 (packet drop,direction=out).\n"}},
	{"silent", "peer silent", nil, []string{
		" answered no packet from PSN 0x", " on in 7 retries; on purpose, by fault rule 1 (peer silent).\n"}},
	{"completion", "completion fail,status=IBV_WC_LOC_PROT_ERR,opcode=SEND,first=1", nil, []string{
		": SEND (wr_id 0x2) ended with IBV_WC_LOC_PROT_ERR: a fault rule says so; fault rule 1 (completion fail,status=IBV_WC_LOC_PROT_ERR,opcode=SEND,first=1) fired once.\n"}},
	{"verb", "verb fail,verb=modify_qp,errno=EINVAL,first=1", nil, []string{
		"ibv_modify_qp failed with EINVAL: a fault rule says so; fault rule 1 (verb fail,verb=modify_qp,errno=EINVAL,first=1) fired once.\n"}},
}

// TestExplain: gorxe run --explain says why verbs were refused and why work requests failed, and
// gorxe status --errors says it of programs that run.
func TestExplain(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	need(t, "ibv_rc_pingpong")
	notNative(t, "explanations")
	d := oneDaemon(t)
	for _, c := range explained {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			port := d.host.nextPort()
			argv := []string{"ibv_rc_pingpong", "-d", "rxe0", "-g", strconv.Itoa(gidIPv4), "-p", strconv.Itoa(port), "-n", "50"}
			d.run(t, argv...).listening(port)
			run := []string{gorxe, "run", "--explain"}
			if c.rule != "" {
				run = append(run, "--fault", c.rule)
			}
			p := start(t, d.host, d.env(), append(append(append(run, "--"), argv...), append(c.argv, "127.0.0.1")...)...)
			p.wait()
			for _, s := range c.says {
				if !strings.Contains(p.out.String(), s) {
					t.Errorf("%q is missing in:\n%s", s, p.out.String())
				}
			}
		})
	}
}

// TestUnexplained: a program that failed leaves one line behind its own that leads to --explain.
// One that succeeds leaves none, and none is in the standard output.
func TestUnexplained(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	notNative(t, "explanations")
	d := oneDaemon(t)
	const hint = "gorxe: 1 error: --explain says why\n"
	for end, want := range map[string]int{"exit 1": 1, "kill -KILL $$": 1, "exit 0": 0} {
		out := start(t, d.host, d.env(), "sh", "-c", gorxe+` run -- sh -c "$0" 2>&1 >/dev/null; true`, "ibv_rc_pingpong -r 9999999; "+end).ok()
		if strings.Count(out, "gorxe: ") != want || strings.Count(out, hint) != want {
			t.Errorf("%s: %q is not there %d times in:\n%s", end, hint, want, out)
		}
	}
}

// TestStatusErrors: gorxe status --errors lists the errors of a program that runs.
func TestStatusErrors(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	notNative(t, "explanations")
	d := oneDaemon(t)
	out := d.run(t, "sh", "-c", "ibv_rc_pingpong -r 9999999; "+gorxe+" status --errors; "+gorxe+" explain --json").ok()
	for _, s := range []string{
		": 1 error\n", "ibv_rc_pingpong[", "]: ibv_create_cq failed with EINVAL: entries 10000000 is not between 1 and max_cqe; use 1 to 32767.\n",
		`"argument": "entries"`, `"given": "10000000"`, `"fault": "program"`,
	} {
		if !strings.Contains(out, s) {
			t.Errorf("%q is missing in:\n%s", s, out)
		}
	}
}
