package explain

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
	"golang.org/x/sys/unix"
)

// idle is a Link and a Clock of a device without traffic.
type idle struct{}

func (idle) Send([]wire.Burst)    {}
func (idle) Join(wire.GID) error  { return nil }
func (idle) Leave(wire.GID) error { return nil }
func (idle) Now() rxe.Time        { return 0 }
func (idle) Arm(rxe.Time)         {}
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// checkSentence: a record is one sentence of less than 30 words that names what it is about and
// what to do.
func checkSentence(t *testing.T, r *Record, names ...string) {
	t.Helper()
	s := r.String()
	if n := len(strings.Fields(s)); n >= 30 {
		t.Errorf("%d words: %s", n, s)
	}
	if r.Fix == "" || r.Fault == "" || r.Kind == "" || !strings.HasSuffix(s, ".") || strings.Contains(s, "%!") || strings.Contains(s, "  ") {
		t.Errorf("%+v: %s", r, s)
	}
	for _, name := range names {
		if !strings.Contains(s, name) {
			t.Errorf("%q is not in: %s", name, s)
		}
	}
}

// tables drives queue pairs through the engine's tables.
type tables struct {
	t  *testing.T
	d  *rxe.Device
	pd *rxe.PD
	cq *rxe.CQ
}

func newTables(t *testing.T) *tables {
	d := must(rxe.New(rxe.Config{Link: idle{}, Clock: idle{}}))
	t.Cleanup(func() { d.Close() }) //nolint:errcheck // no objects of others
	gid := wire.GIDFromAddr(netip.MustParseAddr("10.0.0.1"))
	if err := d.SetGIDs([]wire.GID{gid}); err != nil {
		t.Fatal(err)
	}
	return &tables{t, d, must(d.AllocPD()), must(d.CreateCQ(rxe.CQInit{Entries: 8}))}
}

// attrs has a good value for every attribute.
func attrs() rxe.QPAttr {
	gid := wire.GIDFromAddr(netip.MustParseAddr("10.0.0.1"))
	return rxe.QPAttr{PathMTU: 1024, AH: rxe.AHAttr{DGID: gid, PortNum: 1}, PortNum: 1}
}

// in returns a new queue pair in a state.
func (x *tables) in(typ rxe.QPType, state rxe.QPState) *rxe.QP {
	q := must(x.pd.CreateQP(rxe.QPInitAttr{Type: typ, SendCQ: x.cq, RecvCQ: x.cq, Cap: rxe.QPCap{MaxSendWR: 1, MaxSendSGE: 1}}))
	last := state
	if state == rxe.QPErr || state == rxe.QPSQD || state == rxe.QPSQE {
		last = rxe.QPRTS
	}
	for s := rxe.QPReset; s < last; s++ {
		x.step(q, typ, s, s+1)
	}
	switch state {
	case rxe.QPErr, rxe.QPSQD:
		x.step(q, typ, last, state)
	case rxe.QPSQE:
		must(q.PostSend([]rxe.SendWR{{Status: rxe.WCLocProtErr}}))
	default:
	}
	if q.State() != state {
		x.t.Fatalf("%v is in %v and not in %v", typ, q.State(), state)
	}
	return q
}

func (x *tables) step(q *rxe.QP, typ rxe.QPType, from, to rxe.QPState) {
	a := attrs()
	a.State = to
	if err := q.Modify(&a, rxe.RequiredMask(typ, from, to)); err != nil {
		x.t.Fatal(err)
	}
}

// refused: modify_qp fails, and the record names the words.
func (x *tables) refused(q *rxe.QP, a rxe.QPAttr, mask rxe.QPAttrMask, names ...string) {
	x.t.Helper()
	err := q.Modify(&a, mask)
	if !errors.Is(err, rxe.ErrInvalid) {
		x.t.Errorf("%v: %v, want a refusal that names %q", mask, err, names)
		return
	}
	r := Refused("modify_qp", unix.EINVAL, err)
	checkSentence(x.t, &r, append(names, "ibv_modify_qp failed with EINVAL")...)
}

// TestModifyTables walks the life cycle of queue pairs: each step that there is not, each attribute
// that is required, and each that a step does not take has its sentence.
func TestModifyTables(t *testing.T) {
	x := newTables(t)
	refusals := 0
	for _, typ := range []rxe.QPType{rxe.QPRC, rxe.QPUC, rxe.QPUD} {
		steps := map[[2]rxe.QPState]rxe.Transition{}
		for _, step := range rxe.Transitions(typ) {
			steps[[2]rxe.QPState{step.From, step.To}] = step
		}
		for from := rxe.QPReset; from <= rxe.QPErr; from++ {
			if from == rxe.QPSQE && typ == rxe.QPRC {
				continue // RC queue pairs never enter it
			}
			q := x.in(typ, from)
			for to := rxe.QPReset; to <= rxe.QPErr; to++ {
				a := attrs()
				a.State = to
				step, ok := steps[[2]rxe.QPState{from, to}]
				if !ok {
					x.refused(q, a, rxe.QPAttrState, "no transition from "+from.String()+" to "+to.String())
					refusals++
					continue
				}
				for bit := rxe.QPAttrState << 1; bit <= rxe.QPAttrRateLimit; bit <<= 1 {
					required := rxe.QPAttrState | step.Required
					switch {
					case step.Required&bit != 0:
						x.refused(q, a, required&^bit, "is required from "+from.String()+" to "+to.String(), "add "+bit.String())
					case step.Optional&bit == 0 && bit != rxe.QPAttrCurState && !strings.HasPrefix(bit.String(), "0x"):
						x.refused(q, a, required|bit, "cannot be set from "+from.String()+" to "+to.String(), "leave out "+bit.String())
					default:
						continue
					}
					refusals++
				}
			}
			if err := q.Destroy(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if refusals < 500 {
		t.Errorf("%d refusals: the tables have more", refusals)
	}
}

// TestModifyValues: each attribute with a wrong value has its sentence, with the value.
func TestModifyValues(t *testing.T) {
	x := newTables(t)
	for _, c := range []struct {
		state, to rxe.QPState
		bit       rxe.QPAttrMask
		set       func(*rxe.QPAttr)
		names     string
	}{
		{rxe.QPReset, rxe.QPInit, 0, func(a *rxe.QPAttr) { a.Access = 1 << 30 }, "qp_access_flags: unknown flags"},
		{rxe.QPReset, rxe.QPInit, 0, func(a *rxe.QPAttr) { a.PKeyIndex = 7 }, "pkey_index is beyond"},
		{rxe.QPReset, rxe.QPInit, 0, func(a *rxe.QPAttr) { a.PortNum = 2 }, "port_num is not 1"},
		{rxe.QPInit, rxe.QPRTR, 0, func(a *rxe.QPAttr) { a.PathMTU = 1000 }, "path_mtu is not 256"},
		{rxe.QPInit, rxe.QPRTR, 0, func(a *rxe.QPAttr) { a.RQPSN = 1 << 24 }, "rq_psn 16777216 exceeds 24 bits; use at most 16777215"},
		{rxe.QPInit, rxe.QPRTR, 0, func(a *rxe.QPAttr) { a.DestQPN = 1 << 24 }, "dest_qp_num 16777216 exceeds 24 bits"},
		{rxe.QPInit, rxe.QPRTR, 0, func(a *rxe.QPAttr) { a.MinRNRTimer = 32 }, "min_rnr_timer 32 exceeds 31; use at most 31"},
		{rxe.QPInit, rxe.QPRTR, 0, func(a *rxe.QPAttr) { a.MaxDestRdAtomic = 200 }, "max_dest_rd_atomic 200 exceeds max_qp_rd_atom; use at most 128"},
		{rxe.QPInit, rxe.QPRTR, 0, func(a *rxe.QPAttr) { a.AH.DGID = wire.GIDFromAddr(netip.MustParseAddr("224.0.0.1")) }, "ah_attr: multicast"},
		{rxe.QPInit, rxe.QPRTR, 0, func(a *rxe.QPAttr) { a.AH.PortNum = 3 }, "ah.port_num is not 1"},
		{rxe.QPInit, rxe.QPRTR, 0, func(a *rxe.QPAttr) { a.AH.SGIDIndex = 9 }, "ah.sgid_index has no GID"},
		{rxe.QPInit, rxe.QPRTR, 0, func(a *rxe.QPAttr) { a.AH.DGID = wire.GID{} }, "ah.dgid is zero"},
		{rxe.QPInit, rxe.QPRTR, 0, func(a *rxe.QPAttr) { a.AH.FlowLabel = 1 << 20 }, "ah.flow_label exceeds 20 bits"},
		{rxe.QPInit, rxe.QPRTR, rxe.QPAttrAltPath, nil, "alt_ah_attr: path migration is not supported"},
		{rxe.QPRTR, rxe.QPRTS, 0, func(a *rxe.QPAttr) { a.Timeout = 40 }, "timeout 40 exceeds 31; use at most 31"},
		{rxe.QPRTR, rxe.QPRTS, 0, func(a *rxe.QPAttr) { a.RetryCnt = 8 }, "retry_cnt 8 exceeds 7"},
		{rxe.QPRTR, rxe.QPRTS, 0, func(a *rxe.QPAttr) { a.RNRRetry = 8 }, "rnr_retry 8 exceeds 7"},
		{rxe.QPRTR, rxe.QPRTS, 0, func(a *rxe.QPAttr) { a.SQPSN = 1 << 24 }, "sq_psn 16777216"},
		{rxe.QPRTR, rxe.QPRTS, 0, func(a *rxe.QPAttr) { a.MaxRdAtomic = 200 }, "max_rd_atomic 200 exceeds max_qp_init_rd_atom"},
		{rxe.QPRTR, rxe.QPRTS, rxe.QPAttrPathMigState, func(a *rxe.QPAttr) { a.PathMigState = 1 }, "path_mig_state is not IBV_MIG_MIGRATED"},
		{rxe.QPRTR, rxe.QPRTS, rxe.QPAttrCurState, func(a *rxe.QPAttr) { a.CurState = rxe.QPInit }, "cur_qp_state is INIT, and the queue pair is in RTR"},
	} {
		q := x.in(rxe.QPRC, c.state)
		a := attrs()
		a.State = c.to
		if c.set != nil {
			c.set(&a)
		}
		x.refused(q, a, rxe.RequiredMask(rxe.QPRC, c.state, c.to)|c.bit, c.names)
	}
}

// TestCreateTables: each limit of a create call has its sentence, with the value and the limit.
func TestCreateTables(t *testing.T) {
	x := newTables(t)
	l := x.d.Attr()
	const much = 1 << 30
	qp := func(c rxe.QPCap) error {
		_, err := x.pd.CreateQP(rxe.QPInitAttr{Type: rxe.QPRC, SendCQ: x.cq, RecvCQ: x.cq, Cap: c})
		return err
	}
	srq := func(i rxe.SRQInit) error { _, err := x.pd.CreateSRQ(i); return err }
	for _, c := range []struct {
		verb  string
		err   error
		names string
	}{
		{"create_qp", qp(rxe.QPCap{MaxSendWR: much}), fmt.Sprintf("cap.max_send_wr %d exceeds max_qp_wr; use at most %d", much, l.MaxQPWR)},
		{"create_qp", qp(rxe.QPCap{MaxSendSGE: much}), fmt.Sprintf("cap.max_send_sge %d exceeds max_sge; use at most %d", much, l.MaxSGE)},
		{"create_qp", qp(rxe.QPCap{MaxInlineData: much}), fmt.Sprintf("cap.max_inline_data %d exceeds the device's limit; use at most %d", much, l.MaxInlineData)},
		{"create_qp", qp(rxe.QPCap{MaxRecvWR: much}), fmt.Sprintf("cap.max_recv_wr %d exceeds max_qp_wr; use at most %d", much, l.MaxQPWR)},
		{"create_qp", qp(rxe.QPCap{MaxRecvSGE: much}), fmt.Sprintf("cap.max_recv_sge %d exceeds max_sge; use at most %d", much, l.MaxSGE)},
		{"create_cq", func() error { _, err := x.d.CreateCQ(rxe.CQInit{}); return err }(), fmt.Sprintf("entries 0 is not between 1 and max_cqe; use 1 to %d", l.MaxCQE)},
		{"create_srq", srq(rxe.SRQInit{}), fmt.Sprintf("max_wr 0 is not between 1 and max_srq_wr; use 1 to %d", l.MaxSRQWR)},
		{"create_srq", srq(rxe.SRQInit{MaxWR: 1, MaxSGE: much}), "max_sge 1073741824 exceeds max_srq_sge"},
		{"create_srq", srq(rxe.SRQInit{MaxWR: 1, Limit: 2}), "srq_limit 2 exceeds max_wr; use at most 1"},
	} {
		if !errors.Is(c.err, rxe.ErrInvalid) {
			t.Errorf("%s: %v, want a refusal that names %q", c.verb, c.err, c.names)
			continue
		}
		r := Refused(c.verb, unix.EINVAL, c.err)
		checkSentence(t, &r, "ibv_"+c.verb+" failed with EINVAL", c.names)
	}
}

// TestErrnos: an errno without a reason has a sentence too.
func TestErrnos(t *testing.T) {
	for errno := range errnoWords {
		r := Refused("create_qp", errno, errno)
		checkSentence(t, &r, unix.ErrnoName(errno))
	}
	for _, err := range []error{rxe.ErrBusy, rxe.ErrFull, rxe.ErrLimit, rxe.ErrNotSupported, rxe.ErrClosed} {
		r := Refused("destroy_cq", unix.EBUSY, &rxe.OpError{Op: "x", Arg: "cq", Err: err})
		checkSentence(t, &r)
	}
}

// TestCauses: each cause of a failure has its sentence, for each status.
func TestCauses(t *testing.T) {
	key := rxe.KeyRefusal{Key: 0x12345678, Addr: 0x7ffffffff000, Length: 1 << 31, Need: rxe.AccessLocalWrite, Why: "wrong protection domain"}
	for cause := rxe.CauseUnknown; cause < rxe.NumCauses; cause++ {
		for status := range rxe.WCGeneralErr + 1 {
			f := &rxe.Failure{Status: status, ID: 1 << 40, Cause: cause, PSN: 0xfffffe, Retries: 7, Op: rxe.WRFetchAdd,
				Peer: wire.GIDFromAddr(netip.MustParseAddr("fe80::1")), PeerQPN: 17, Key: key, Syndrome: wire.SyndromeNAK(wire.NAKRemoteOp)}
			r := Failed(0x1234, f)
			checkSentence(t, &r, "queue pair 0x001234")
		}
	}
}

// TestJoin: the hint of a NAK is that of the queue pair that sent it, if that is of the same
// daemon.
func TestJoin(t *testing.T) {
	refused := Failed(0x11, &rxe.Failure{Cause: rxe.CauseMTU, PSN: 7, PeerQPN: 0x12, Bytes: 4096, MTU: 1024, Syndrome: wire.SyndromeNAK(wire.NAKInvalidRequest)})
	failed := Failed(0x12, &rxe.Failure{Status: rxe.WCRemInvReqErr, Cause: rxe.CauseNAK, PSN: 7, PeerQPN: 0x11, Syndrome: wire.SyndromeNAK(wire.NAKInvalidRequest)})
	other := failed
	other.PSN++
	alone := failed.Fix
	list := []Record{refused, failed, other}
	Join(list)
	if refused.Fault != Both || !strings.Contains(refused.String(), "a packet has 4096 bytes, this end's path MTU is 1024; use one path_mtu (-m).") {
		t.Errorf("%s: %s", refused.Fault, refused.String())
	}
	if list[1].Fix != refused.Fix || list[0] != refused || list[2].Fix != alone || !strings.HasPrefix(alone, "check both ends' path MTU") {
		t.Errorf("the hints are %q, %q and %q", list[0].Fix, list[1].Fix, list[2].Fix)
	}
}

// TestLinkMTU: work whose packets the interface cannot carry says which path MTU it can.
func TestLinkMTU(t *testing.T) {
	r := Failed(0x11, &rxe.Failure{Status: rxe.WCRetryExcErr, Cause: rxe.CauseLinkMTU, Bytes: 1500, MTU: 2048, Fits: 1024, Retries: 7})
	const want = "packets with path MTU 2048 exceed the interface's MTU 1500; use path_mtu 1024 (-m 1024 of ibv_*_pingpong and perftest)."
	if s := r.String(); !strings.Contains(s, want) || r.Fault != Program {
		t.Errorf("%s: %s", r.Fault, s)
	}
}

// TestWords: each status has a word, and each is found.
func TestWords(t *testing.T) {
	for s := rxe.WCSuccess; s <= rxe.WCGeneralErr; s++ {
		for _, name := range []string{StatusName(s), strings.TrimPrefix(StatusName(s), "IBV_WC_"), strings.ToUpper(s.String())} {
			if found := Find(name); len(found) != 1 || found[0].Name != StatusName(s) {
				t.Errorf("%s: found %v", name, found)
			}
		}
	}
	for _, w := range Words() {
		if found := Find(strings.ToLower(w.Name)); len(found) != 1 || found[0].Meaning == "" {
			t.Errorf("%s: found %v", w.Name, found)
		}
	}
	if found := Find("IBV_WC_NOTHING"); found != nil {
		t.Errorf("found %v", found)
	}
}

// TestLog: a log keeps the last records, and counts equal ones as one.
func TestLog(t *testing.T) {
	var l Log
	for i := range 3 * kept {
		for range 2 {
			l.Add(Record{QPN: uint32(i)})
		}
	}
	list, total := l.Records()
	if len(list) != kept || total != 6*kept {
		t.Fatalf("%d records of %d, want %d of %d", len(list), total, kept, 6*kept)
	}
	for i := range list {
		if want := uint32(2*kept + i); list[i].QPN != want || list[i].Count != 2 || list[i].Time.IsZero() {
			t.Errorf("record %d is %+v, want that of %d", i, list[i], want)
		}
	}
}

// TestLoweredLimits: a refusal names the limit of the fault rule, and so does a work request that
// is too long.
func TestLoweredLimits(t *testing.T) {
	sub, err := newTables(t).d.Subdevice(map[rxe.Limit]uint64{rxe.LimitPD: 1, rxe.LimitCQE: 9}, noWatch{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sub.AllocPD(); err != nil {
		t.Fatal(err)
	}
	_, pd := sub.AllocPD()
	_, cq := sub.CreateCQ(rxe.CQInit{Entries: 10})
	long := &rxe.OpError{Op: "PostSend", Arg: "sg_list", Given: "10", Why: "a fault rule limits max_msg_sz to 9", Lowered: true, Err: rxe.ErrInvalid}
	for _, c := range []struct {
		r    Record
		says string
	}{
		{Refused("alloc_pd", unix.ENOMEM, pd), "ibv_alloc_pd failed with ENOMEM: a fault rule limits max_pd to 1; see gorxe fault list."},
		{Refused("create_cq", unix.EINVAL, cq), "ibv_create_cq failed with EINVAL: entries 10: a fault rule limits max_cqe to 9; see gorxe fault list."},
		{Failed(17, &rxe.Failure{Status: rxe.WCLocLenErr, Cause: rxe.CauseMalformed, Malformed: long}), "sg_list 10: a fault rule limits max_msg_sz to 9; see gorxe fault list."},
	} {
		checkSentence(t, &c.r)
		if !strings.HasSuffix(c.r.String(), c.says) || c.r.Fault != Rule {
			t.Errorf("%s: %s, want %s", c.r.Fault, c.r.String(), c.says)
		}
	}
}

// noWatch implements rxe.LimitWatch.
type noWatch struct{}

func (noWatch) Compared(rxe.Limit, bool) {}

// TestBlame: a fault rule that hit a connection is named where packets did not arrive.
func TestBlame(t *testing.T) {
	r := Failed(0x1234, &rxe.Failure{Status: rxe.WCRetryExcErr, Cause: rxe.CauseTimeout, Retries: 7, PSN: 9})
	if packets, receives := r.Lost(); !packets || receives {
		t.Errorf("%+v: %v, %v", r, packets, receives)
	}
	before := r
	if r.Blame(nil); r != before {
		t.Error("no rule, and the record changes")
	}
	r.Blame([]string{"1 (peer silent)", "2 (packet drop,p=0.5)"})
	if !strings.HasSuffix(r.String(), "; on purpose, by fault rules 1 (peer silent), 2 (packet drop,p=0.5); see gorxe fault list.") || r.Fault != Rule {
		t.Errorf("%s, %s", r.String(), r.Fault)
	}
	for pad := range 3 {
		long := before
		long.Blame([]string{strings.Repeat("x", pad) + strings.Repeat("ü", 5000)})
		if len(long.What) > 1000 || !utf8.ValidString(long.What) {
			t.Errorf("a long name: %q", long.What)
		}
	}
	if r.Blame([]string{strings.Repeat("x", 5000)}); len(r.What) > 1000 {
		t.Errorf("%d bytes", len(r.What))
	}
	rnr := Failed(1, &rxe.Failure{Status: rxe.WCRNRRetryErr, Cause: rxe.CauseRNR})
	key := Failed(1, &rxe.Failure{Status: rxe.WCLocProtErr, Cause: rxe.CauseMemory})
	if packets, receives := rnr.Lost(); packets || !receives {
		t.Errorf("%+v", rnr)
	}
	if packets, receives := key.Lost(); packets || receives {
		t.Errorf("%+v", key)
	}
}

// TestNumbers: a number is explained as the status and as the errno that programs may mean.
func TestNumbers(t *testing.T) {
	for number, want := range map[string][]string{
		"12": {"IBV_WC_RETRY_EXC_ERR", "ENOMEM"}, "22": {"EINVAL"}, "111": {"ECONNREFUSED"}, "5": {"IBV_WC_WR_FLUSH_ERR", "EIO"},
		"0": {"IBV_WC_SUCCESS"}, "-1": {"EPERM"}, "-12": {"ENOMEM"}, "-4711": nil, "4711": nil,
		"8": {"IBV_WC_LOC_ACCESS_ERR", "IB_CM_REJ_INVALID_SERVICE_ID"}, "28": {"IB_CM_REJ_CONSUMER_DEFINED", "ENOSPC"},
	} {
		var names []string
		for _, w := range Find(number) {
			names = append(names, w.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s is %v, want %v", number, names, want)
		}
	}
}

// TestErrnoCauses: an errno that ping-pong programs print without a reason leads to the option that
// is missing.
func TestErrnoCauses(t *testing.T) {
	for name, want := range map[string]string{"EINVAL": "-g 1 with ibv_rc_pingpong", "ENOSPC": "the server has ended", "ENODATA": "ibv_devinfo -v"} {
		if w := Find(name); len(w) != 1 || !strings.Contains(w[0].Meaning, want) || !strings.HasSuffix(w[0].Meaning, ".") {
			t.Errorf("%q is not in %+v", want, w)
		}
	}
}

// TestErrnosOfABI: each errno that a file of the device, RDMA CM or the trap returns is explained.
func TestErrnosOfABI(t *testing.T) {
	named := regexp.MustCompile(`unix\.(E[A-Z0-9]+)\b`)
	found := make(map[string]string)
	for _, dir := range []string{"../kernel", "../cm", "../trap", "../provider", "../../rxe"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range named.FindAllStringSubmatch(string(text), -1) {
				if !strings.HasPrefix(m[1], "EPOLL") && !strings.HasPrefix(m[1], "EFD") && !strings.HasPrefix(m[1], "EM_") {
					found[m[1]] = path
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, path := range found {
		if len(Find(name)) == 0 {
			t.Errorf("%s, of %s, is not explained", name, path)
		}
	}
	if len(found) < 30 {
		t.Errorf("only %d errnos were found", len(found))
	}
}
