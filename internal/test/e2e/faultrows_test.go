package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gorxe/gorxe/internal/fault"
)

// faultyProgram runs testdata/faulty.c, which knows nothing of rules, with rules that all must
// fire.
type faultyProgram struct {
	d   *daemon
	bin string
}

func newFaultyProgram(t *testing.T) faultyProgram {
	t.Helper()
	notNative(t, "fault rules")
	return faultyProgram{oneDaemon(t), compile(t, "faulty")}
}

// says returns the lines of a part of the program.
func (f faultyProgram) says(t *testing.T, rules []string, part string, args ...string) []string {
	t.Helper()
	report := filepath.Join(t.TempDir(), "faults.json")
	argv := []string{gorxe, "run"}
	for _, rule := range rules {
		argv = append(argv, "--fault", rule)
	}
	if len(rules) > 0 {
		argv = append(argv, "--fault-report", report)
	}
	p := start(t, f.d.host, f.d.env(), slices.Concat(argv, []string{"--", f.bin, part, "rxe0"}, args)...)
	out := p.ok()
	if len(rules) > 0 {
		for _, r := range readFaults(t, report).Rules {
			if strings.Contains(r.Rule, "first=1") && r.Fired != 1 {
				t.Errorf("%s has fired %d times", r.Rule, r.Fired)
			}
		}
	}
	return strings.Split(strings.TrimSpace(out), "\n")
}

// TestEachVerbFails: a program makes each call that reaches the device, first with a rule that
// makes it fail with an errno. The call fails so, and succeeds when the program repeats it.
func TestEachVerbFails(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	f := newFaultyProgram(t)
	errnos := []struct {
		name   string
		number syscall.Errno
	}{{"EDQUOT", syscall.EDQUOT}, {"ENOSPC", syscall.ENOSPC}, {"ENOBUFS", syscall.ENOBUFS}, {"EXFULL", syscall.EXFULL}, {"EUSERS", syscall.EUSERS}}
	rules, want := make(map[string][]string), make(map[string][]string)
	for i, verb := range fault.Verbs() {
		if adapterVerb(verb) {
			continue
		}
		part, errno, hit := "verbs", errnos[i%len(errnos)], "first=1"
		number := errno.number
		if strings.HasPrefix(verb, "rdma_") {
			part = "cm"
		}
		switch verb {
		case "rdma_create_id":
			hit = "first=2" // librdmacm makes an id for itself before, and needs none
		case "open_device":
			number = syscall.ENOENT // libibverbs looks for the file elsewhere, and reports that
		}
		rules[part] = append(rules[part], fmt.Sprintf("verb fail,verb=%s,errno=%s,%s", verb, errno.name, hit))
		want[part] = append(want[part], fmt.Sprintf("%s %d", verb, number))
	}
	for part := range rules {
		for _, with := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, with rules: %v", part, with), func(t *testing.T) {
				t.Parallel()
				asked, expected := rules[part], slices.Clone(want[part])
				if !with {
					asked = nil
					for i, line := range expected {
						verb, _, _ := strings.Cut(line, " ")
						expected[i] = verb + " 0"
					}
				}
				got := f.says(t, asked, part, f.d.host.addr)
				sameLines(t, got, expected)
			})
		}
	}
}

// sameLines compares lines, whatever their order.
func sameLines(t *testing.T, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("the program says\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// wcErrors are the errors of enum ibv_wc_status, in order, from 1 on.
var wcErrors = strings.Fields(`LOC_LEN_ERR LOC_QP_OP_ERR LOC_EEC_OP_ERR LOC_PROT_ERR WR_FLUSH_ERR MW_BIND_ERR BAD_RESP_ERR
	LOC_ACCESS_ERR REM_INV_REQ_ERR REM_ACCESS_ERR REM_OP_ERR RETRY_EXC_ERR RNR_RETRY_EXC_ERR LOC_RDD_VIOL_ERR REM_INV_RD_REQ_ERR
	REM_ABORT_ERR INV_EECN_ERR INV_EEC_STATE_ERR FATAL_ERR RESP_TIMEOUT_ERR GENERAL_ERR`)

// TestEachStatus: a program's work requests complete with each error, and with a vendor_err. RC
// queue pairs are then in ERR, others in SQE, and the next work request is flushed. The peer of a
// receive gets a NAK.
func TestEachStatus(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	f := newFaultyProgram(t)
	const inRTS, inSQE, inERR = 3, 5, 6 // of enum ibv_qp_state
	var rules, rounds, want, good []string
	one := func(round string, status, state int) {
		typ, op, _ := strings.Cut(round, ":")
		vendor := 0x1000 + len(rounds)
		rules = append(rules, fmt.Sprintf("completion fail,status=IBV_WC_%s,vendor_err=%d,qp=%s,opcode=%s,first=1", wcErrors[status-1], vendor, typ, op))
		rounds = append(rounds, round)
		peer, peerGood := "", ""
		if op == "RECV" {
			peer, peerGood = ", peer 11", ", peer 0"
		}
		want = append(want, fmt.Sprintf("%s: status %d, vendor_err %#x, state %d, next 5%s", round, status, vendor, state, peer))
		good = append(good, fmt.Sprintf("%s: status 0, vendor_err 0, state %d, next 0%s", round, inRTS, peerGood))
	}
	for i := range wcErrors {
		one("RC:RDMA_WRITE", i+1, inERR)
	}
	for i, op := range []string{"SEND", "RECV", "RDMA_READ", "COMP_SWAP", "FETCH_ADD", "BIND_MW"} {
		one("RC:"+op, i+1, inERR)
	}
	one("UC:RDMA_WRITE", 2, inSQE)
	one("UC:SEND", 4, inSQE)
	one("UD:SEND", 21, inSQE)
	if got := f.says(t, rules, "work", rounds...); !slices.Equal(got, want) {
		t.Errorf("the program says\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := f.says(t, nil, "work", rounds...); !slices.Equal(got, good) {
		t.Errorf("without rules the program says\n%s", strings.Join(got, "\n"))
	}
}

// asyncFaults are the rows of testdata/fault-outcomes.md about a message from queue pair a to b,
// which has a shared receive queue. They have the events that come, and the status of a's work
// request (-1: none).
var asyncFaults = []struct {
	rule   string
	events []string
	status int
	aState int
	bState int
}{
	{"", nil, 0, 3, 3},
	{"device fail,event=IBV_EVENT_QP_FATAL,opcode=SEND,first=1", []string{"QP_FATAL a"}, 5, 6, 3},
	{"device fail,event=IBV_EVENT_QP_REQ_ERR,opcode=SEND,first=1", []string{"QP_REQ_ERR a"}, 5, 6, 3},
	{"device fail,event=IBV_EVENT_QP_ACCESS_ERR,opcode=SEND,first=1", []string{"QP_ACCESS_ERR a"}, 5, 6, 3},
	{"device fail,event=IBV_EVENT_CQ_ERR,opcode=SEND,first=1", []string{"CQ_ERR a", "QP_FATAL a"}, -1, 6, 3},
	{"device fail,event=IBV_EVENT_DEVICE_FATAL,opcode=SEND,first=1", []string{"DEVICE_FATAL", "QP_FATAL a", "QP_LAST_WQE_REACHED b"}, 5, 6, 6},
	{"device fail,event=IBV_EVENT_QP_FATAL,opcode=RECV,first=1", []string{"QP_FATAL b", "QP_LAST_WQE_REACHED b"}, 11, 6, 6},
	{"device fail,event=IBV_EVENT_QP_REQ_ERR,opcode=RECV,first=1", []string{"QP_REQ_ERR b", "QP_LAST_WQE_REACHED b"}, 9, 6, 6},
	{"device fail,event=IBV_EVENT_QP_ACCESS_ERR,opcode=RECV,first=1", []string{"QP_ACCESS_ERR b", "QP_LAST_WQE_REACHED b"}, 10, 6, 6},
	{"device fail,event=IBV_EVENT_CQ_ERR,opcode=RECV,first=1", []string{"CQ_ERR b", "QP_FATAL b", "QP_LAST_WQE_REACHED b"}, 12, 6, 6},
	{"device fail,event=IBV_EVENT_SRQ_ERR,first=1", []string{"SRQ_ERR", "QP_FATAL b", "QP_LAST_WQE_REACHED b"}, 12, 6, 6},
	{"device fail,event=IBV_EVENT_SRQ_LIMIT_REACHED,first=1", []string{"SRQ_LIMIT_REACHED"}, 0, 3, 3},
	{"completion fail,status=IBV_WC_LOC_PROT_ERR,opcode=RECV,event=IBV_EVENT_QP_ACCESS_ERR,first=1", []string{"QP_ACCESS_ERR b", "QP_LAST_WQE_REACHED b"}, 10, 6, 6},
	{"completion fail,status=IBV_WC_LOC_PROT_ERR,opcode=RECV,first=1", []string{"QP_LAST_WQE_REACHED b"}, 11, 6, 6},
}

// TestEachEvent: a program gets the events that a rule raises, and no other.
func TestEachEvent(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	f := newFaultyProgram(t)
	for _, c := range asyncFaults {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			var rules, want []string
			if c.rule != "" {
				rules = []string{c.rule}
			}
			for _, event := range c.events {
				want = append(want, "event "+event)
			}
			if c.status >= 0 {
				want = append(want, fmt.Sprintf("a completes with %d", c.status))
			}
			limit := 1
			if slices.Equal(c.events, []string{"SRQ_LIMIT_REACHED"}) {
				limit = 0 // the event has disarmed it
			}
			want = append(want, fmt.Sprintf("a is in %d, b in %d", c.aState, c.bState), fmt.Sprintf("limit %d", limit))
			args := []string{strconv.Itoa(len(c.events))}
			if wcErrors[max(c.status, 1)-1] == "RETRY_EXC_ERR" {
				args = append(args, "hasty")
			}
			sameLines(t, f.says(t, rules, "events", args...), want)
		})
	}
}

// TestEitherOrder: the completions of two queue pairs come in the order that a rule makes.
func TestEitherOrder(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	f := newFaultyProgram(t)
	const first, second = "RC, UC", "UC, RC"
	for _, c := range []struct {
		rules []string
		want  []string // one of them
	}{
		{[]string{"completion delay,time=400ms,qp=RC"}, []string{second}},
		{[]string{"completion delay,time=400ms,qp=UC"}, []string{first}},
		{nil, []string{first, second}},
	} {
		t.Run(strings.Join(c.rules, ""), func(t *testing.T) {
			t.Parallel()
			if got := f.says(t, c.rules, "order", "400000000"); len(got) != 1 || !slices.Contains(c.want, got[0]) {
				t.Errorf("the completions came %q, not %q", got, c.want)
			}
		})
	}
}

// TestEachLimit: a program may have as much as a rule allows. One more fails with the errno of the
// device's own limit, and ibv_devinfo shows the limit.
func TestEachLimit(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	need(t, "ibv_devinfo")
	f := newFaultyProgram(t)
	const tooMany, tooLarge = syscall.ENOMEM, syscall.EINVAL
	var rules, want, plain, fields []string
	for _, c := range []struct {
		limit string
		value int
		has   int // of it when the program begins to count
		errno syscall.Errno
		field string // of ibv_devinfo
	}{
		{"max_pd", 5, 1, tooMany, "max_pd"},
		{"max_mr", 6, 0, tooMany, "max_mr"},
		{"max_mw", 7, 0, tooMany, "max_mw"},
		{"max_ah", 8, 0, tooMany, "max_ah"},
		{"max_srq", 9, 0, tooMany, "max_srq"},
		{"max_cq", 10, 0, tooMany, "max_cq"},
		{"max_qp", 11, 0, tooMany, "max_qp"},
		{"max_uc", 0, 0, syscall.EOPNOTSUPP, ""},
		{"max_cqe", 12, 0, tooLarge, "max_cqe"},
		{"max_qp_wr", 13, 0, tooLarge, "max_qp_wr"},
		{"max_sge", 14, 0, tooLarge, "max_sge"},
		{"max_inline", 15, 0, tooLarge, ""}, // ibv_query_device does not say it
		{"max_srq_wr", 16, 0, tooLarge, "max_srq_wr"},
		{"max_srq_sge", 17, 0, tooLarge, "max_srq_sge"},
		{"max_rd_atomic", 18, 0, tooLarge, "max_qp_rd_atom"},
		{"memory", 19, 0, tooMany, ""}, // in pages
	} {
		rule := fmt.Sprintf("limits set,%s=%d", c.limit, c.value)
		if c.limit == "memory" {
			rule = fmt.Sprintf("limits set,memory=%dKiB", 4*c.value)
		}
		rules = append(rules, rule)
		want = append(want, fmt.Sprintf("%s %d, then %d", c.limit, c.value-c.has, c.errno))
		plain = append(plain, fmt.Sprintf("%s 20, then 0", c.limit))
		if c.field != "" {
			fields = append(fields, fmt.Sprintf("%s:\t%d", c.field, c.value))
		}
	}
	sameLines(t, f.says(t, rules, "limits"), want)
	sameLines(t, f.says(t, nil, "limits"), plain)
	argv := []string{gorxe, "run", "--faults-may-miss"}
	for _, rule := range rules {
		argv = append(argv, "--fault", rule)
	}
	out := start(t, f.d.host, f.d.env(), append(argv, "--", "ibv_devinfo", "-v", "-d", "rxe0")...).ok()
	for _, field := range fields {
		if !hasField(out, field) {
			t.Errorf("ibv_devinfo lacks %q:\n%s", field, out)
		}
	}
}

// TestAsyncFaultRows: testdata/fault-outcomes.md has a row for each case of asyncFaults.
func TestAsyncFaultRows(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	text, err := os.ReadFile("testdata/fault-outcomes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range asyncFaults[1:] {
		status := "does not complete"
		switch {
		case c.status == 0:
			status = "good"
		case c.status > 0:
			status = "IBV_WC_" + wcErrors[c.status-1]
		}
		if row := fmt.Sprintf("\n| `%s` | %s | %s |\n", c.rule, strings.Join(c.events, ", "), status); !strings.Contains(string(text), row) {
			t.Errorf("testdata/fault-outcomes.md lacks%s", row)
		}
	}
}

// adapterVerb reports whether a verb is of XRC, device memory, moderation, flow rules or receive
// side scaling, which rxe0 does not have. TestVerbNames of package uverbs knows these verbs.
func adapterVerb(verb string) bool {
	for _, part := range []string{"_xrcd", "_dm", "_flow", "_counters", "_wq", "_rwq_ind_table"} {
		if strings.Contains(verb, part) {
			return true
		}
	}
	return verb == "open_qp" || verb == "modify_cq"
}
