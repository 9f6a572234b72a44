package interop

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/internal/test/interop/agent"
)

// The numbers of <infiniband/verbs.h> that testdata/endpoint reads and prints.
const (
	typeRC, typeUC, typeUD = 0, 1, 2

	opWrite, opWriteImm, opSend, opSendImm, opRead = 0, 1, 2, 3, 4
	opCmpSwap, opFetchAdd                          = 5, 6
	opLocalInv, opBindMW, opSendInv                = 7, 8, 9

	accessLocalWrite, accessRemoteWrite, accessRemoteRead, accessRemoteAtomic, accessMWBind = 1, 2, 4, 8, 16
	accessAll                                                                               = 31
	accessFlushGlobal                                                                       = 1 << 8

	// ibv_qp_create_send_ops_flags, and what ibv_wr_flush takes.
	extSend, extWrite, extRead, extFlush, extAtomicWrite = 1 << 2, 1 << 0, 1 << 4, 1 << 11, 1 << 12
	flushGlobal, flushRange, flushRegion                 = 1, 0, 1

	flagFence, flagSignaled, flagSolicited, flagInline = 1, 2, 4, 8

	statusSuccess, statusLocLen                           = 0, 1
	statusLocQPOp, statusFlushed                          = 2, 5
	statusRemInvReq, statusRemAccess, statusRemOp         = 9, 10, 11
	statusBadResp, statusRetryExceeded, statusRNRExceeded = 7, 12, 13
	statusFatal                                           = 19

	stateRTS, stateErr = 3, 6

	withImm, withInv = 2, 8
	// IB_WC_WITH_INVALIDATE, the kernel's own, which rxe_resp.c (6.1) gives to users as well
	kernelWithInv = 4
)

// mtuEnum is ibv_mtu of a number of bytes.
var mtuEnum = map[int]int{256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}

var statusName = map[int]string{
	statusSuccess: "success", statusLocLen: "LOC_LEN_ERR", statusLocQPOp: "LOC_QP_OP_ERR", statusFlushed: "WR_FLUSH_ERR",
	statusRemInvReq: "REM_INV_REQ_ERR", statusRemAccess: "REM_ACCESS_ERR", statusRemOp: "REM_OP_ERR",
	statusBadResp: "BAD_RESP_ERR", statusFatal: "FATAL_ERR", statusRetryExceeded: "RETRY_EXC_ERR", statusRNRExceeded: "RNR_RETRY_EXC_ERR",
}

// endpoint is the program testdata/endpoint on one of the machines.
type endpoint struct {
	*trial
	machine *machine
	proc    *agent.Proc
	gid     string
	rkey    string // of region 0
	addr    uint64
	qpn     map[int]string
}

// answer is the reply of an endpoint to a command.
type answer struct {
	fields      map[string]string
	completions []completion
}

type completion struct{ id, status, opcode, bytes, flags, extra int }

// open starts the program, with a region 0 of that size.
func (tr *trial) open(m *machine, f family, size int) *endpoint {
	tr.Helper()
	return tr.start(m, f, size, accessAll, lab.endpoint())
}

// openNewer starts it with libibverbs and librxe of a newer Debian, which have
// FLUSH.
func (tr *trial) openNewer(m *machine, f family, size int) *endpoint {
	tr.Helper()
	libraries := filepath.Join(newerRoot, "usr/lib/x86_64-linux-gnu")
	return tr.start(m, f, size, accessAll|accessFlushGlobal,
		"env", "IBV_DRIVERS="+filepath.Join(libraries, "libibverbs/librxe"),
		filepath.Join(libraries, "ld-linux-x86-64.so.2"), "--library-path", libraries, lab.endpointNewer())
}

func (tr *trial) start(m *machine, f family, size, access int, argv ...string) *endpoint {
	tr.Helper()
	e := &endpoint{trial: tr, machine: m, qpn: map[int]string{}}
	e.proc = tr.verbs(m, append(argv, m.rdma, strconv.Itoa(m.gid[f]))...)
	e.gid = e.reply("its device").fields["gid"]
	a := e.do("mr mr=0 len=%d access=%d", size, access)
	e.rkey, e.addr = a.fields["rkey"], a.number(e, "addr")
	return e
}

func (a answer) number(e *endpoint, name string) uint64 {
	e.Helper()
	n, err := strconv.ParseUint(a.fields[name], 10, 64)
	if err != nil {
		e.Fatalf("%s: %s=%q", e.machine.name, name, a.fields[name])
	}
	return n
}

// begin sends a command without waiting for the answer.
func (e *endpoint) begin(format string, args ...any) string {
	e.Helper()
	line := fmt.Sprintf(format, args...)
	if _, err := e.proc.Write([]byte(line + "\n")); err != nil {
		e.Fatalf("%s: %s: %v", e.machine.name, line, err)
	}
	return line
}

// do sends a command that must succeed.
func (e *endpoint) do(format string, args ...any) answer {
	e.Helper()
	return e.reply(e.begin(format, args...))
}

// reply waits for the answer to a command.
func (e *endpoint) reply(command string) answer {
	e.Helper()
	return e.parse(command, e.line(command))
}

// line returns the answer as text.
func (e *endpoint) line(command string) string {
	e.Helper()
	text, err := e.proc.ReadLine(e.limit)
	if err != nil {
		for _, m := range []*machine{lab.gorxe, lab.guest} {
			e.Log(m.state())
		}
		e.Fatalf("%s: %s: %v", e.machine.name, command, err)
	}
	return text
}

// state says what a machine counts, and how its queue pairs stand: the reason why an endpoint
// waits for a completion in vain.
func (m *machine) state() string {
	p := m.verbs("sh", "-c", "grep . /sys/class/infiniband/"+m.rdma+"/ports/1/hw_counters/* | grep -v ':0$'; "+
		"rdma resource show qp; grep -E 'TASKLET|TIMER|NET_RX' /proc/softirqs")
	if _, err := p.Wait(programTimeout); err != nil {
		return fmt.Sprintf("%s: %v", m.name, err)
	}
	return m.name + ":\n" + p.Output()
}

// parse reads the fields of the answer to a command that must succeed.
func (e *endpoint) parse(command, text string) answer {
	e.Helper()
	if !strings.HasPrefix(text, "ok") {
		e.Fatalf("%s: %s: %s", e.machine.name, command, text)
	}
	a := answer{fields: map[string]string{}}
	for _, field := range strings.Fields(text)[1:] {
		name, v, _ := strings.Cut(field, "=")
		if name != "wc" {
			a.fields[name] = v
			continue
		}
		var c completion
		if _, err := fmt.Sscanf(v, "%d:%d:%d:%d:%d:%d", &c.id, &c.status, &c.opcode, &c.bytes, &c.flags, &c.extra); err != nil {
			e.Fatalf("%s: %s: %q: %v", e.machine.name, command, text, err)
		}
		a.completions = append(a.completions, c)
	}
	return a
}

// poll waits for one completion.
func (e *endpoint) poll() completion {
	e.Helper()
	list := e.do("poll n=1").completions
	if len(list) != 1 {
		e.Fatalf("%s: no completion", e.machine.name)
	}
	return list[0]
}

// polled wants the next completion to have a status.
func (e *endpoint) polled(what string, status int) completion {
	e.Helper()
	c := e.poll()
	if c.status != status {
		e.Fatalf("%s: %s: status %d, want %d", e.machine.name, what, c.status, status)
	}
	return c
}

// holds wants a pattern in region 0.
func (e *endpoint) holds(what string, off, size, seed int) {
	e.Helper()
	if at := e.do("check mr=0 off=%d len=%d seed=%d", off, size, seed).fields["at"]; at != "-1" {
		e.Fatalf("%s: %s: %d bytes differ at %s", e.machine.name, what, size, at)
	}
}

// path describes how two queue pairs are connected.
type path struct {
	kind     int
	mtu      int
	none     bool   // no access
	shared   bool   // the responder's receives come from its shared queue
	extended int    // operations that need an extended queue pair
	more     string // arguments of connect
}

// Sequence numbers begin just before their wrap.
const psnA, psnB = 0xfffff0, 0xfffffa

// pair opens an endpoint on each machine and joins their queue pairs 0.
func (tr *trial) pair(requester, responder *machine, f family, size int, p path) (a, b *endpoint) {
	tr.Helper()
	a, b = tr.open(requester, f, size), tr.open(responder, f, size)
	join(a, b, 0, p)
	return a, b
}

// join makes queue pair number qp on both and connects them.
func join(a, b *endpoint, qp int, p path) {
	a.Helper()
	access := accessAll &^ accessMWBind
	if p.extended&extFlush != 0 {
		access |= accessFlushGlobal
	}
	for _, e := range []*endpoint{a, b} {
		if e == b && p.none {
			access = 0
		}
		srq := 0
		if e == b && p.shared {
			srq = 1
		}
		e.qpn[qp] = e.do("qp qp=%d type=%d access=%d extended=%d srq=%d", qp, p.kind, access, p.extended, srq).fields["qpn"]
	}
	mtu := mtuEnum[p.mtu]
	if mtu == 0 {
		mtu = mtuEnum[1024]
	}
	connect := "connect qp=%d mtu=%d peer=%s gid=%s rqpsn=%d sqpsn=%d %s"
	b.do(connect, qp, mtu, a.qpn[qp], a.gid, psnA, psnB, p.more)
	a.do(connect, qp, mtu, b.qpn[qp], b.gid, psnB, psnA, p.more)
}

// refused sends a command that must fail, and returns the error.
func (e *endpoint) refused(format string, args ...any) string {
	e.Helper()
	line := e.begin(format, args...)
	text, err := e.proc.ReadLine(e.limit)
	if err != nil || !strings.HasPrefix(text, "error ") {
		e.Fatalf("%s: %s: %q %v", e.machine.name, line, text, err)
	}
	return strings.TrimPrefix(text, "error ")
}
