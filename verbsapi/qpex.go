package verbsapi

import (
	"math"
	"sync"
)

// SendOpsFlags say which operations a QPEx may build (enum
// ibv_qp_create_send_ops_flags).
type SendOpsFlags uint64

// enum ibv_qp_create_send_ops_flags.
const (
	SendOpWrite       SendOpsFlags = 1 << 0
	SendOpWriteImm    SendOpsFlags = 1 << 1
	SendOpSend        SendOpsFlags = 1 << 2
	SendOpSendImm     SendOpsFlags = 1 << 3
	SendOpRead        SendOpsFlags = 1 << 4
	SendOpCompareSwap SendOpsFlags = 1 << 5
	SendOpFetchAdd    SendOpsFlags = 1 << 6
	SendOpLocalInv    SendOpsFlags = 1 << 7
	SendOpBindMW      SendOpsFlags = 1 << 8
	SendOpSendInv     SendOpsFlags = 1 << 9
	SendOpTSO         SendOpsFlags = 1 << 10
	SendOpFlush       SendOpsFlags = 1 << 11
	SendOpAtomicWrite SendOpsFlags = 1 << 12

	sendOpsKnown = SendOpAtomicWrite<<1 - 1
)

// QPInitAttrEx is what CreateQPEx takes (struct ibv_qp_init_attr_ex).
type QPInitAttrEx struct {
	QPInitAttr
	PD      *PD
	SendOps SendOpsFlags // which WR… calls will be used
}

// QPEx builds work requests call by call (struct ibv_qp_ex). WRStart locks the
// QPEx, until WRComplete posts the requests, all or none, or WRAbort drops
// them. Each WR… call that begins a work request reads WRID and WRFlags.
type QPEx struct {
	*QP
	WRID    uint64
	WRFlags SendFlags

	ops   SendOpsFlags
	mu    sync.Mutex
	open  bool
	wrs   []SendWR
	wait  sync.Cond
	wrong error // the first mistake, for WRComplete
}

// CreateQPEx makes a queue pair with a builder (ibv_create_qp_ex). It returns
// ErrNotSupported for operations that the device does not have, or the type.
func (c *Context) CreateQPEx(init QPInitAttrEx) (*QPEx, error) {
	const op = "CreateQPEx"
	switch {
	case init.PD == nil || init.PD.ctx != c:
		return nil, invalid(op, "pd", "is not of this context")
	case init.SendOps&SendOpTSO != 0 && init.Type != QPRaw || init.SendOps&^sendOpsKnown != 0:
		return nil, &OpError{Op: op, Arg: "send_ops_flags", Err: ErrNotSupported}
	}
	qp, err := init.PD.CreateQP(init.QPInitAttr)
	if err != nil {
		return nil, err
	}
	return newQPEx(qp, init.SendOps), nil
}

// Ex returns a builder for the queue pair, for every operation
// (ibv_qp_to_qp_ex).
func (q *QP) Ex() *QPEx { return newQPEx(q, sendOpsKnown) }

func newQPEx(q *QP, ops SendOpsFlags) *QPEx {
	x := &QPEx{QP: q, ops: ops}
	x.wait.L = &x.mu
	return x
}

// WRStart begins a batch (ibv_wr_start).
func (x *QPEx) WRStart() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.open {
		x.wait.Wait()
	}
	x.open, x.wrong = true, nil
	x.clear()
}

// WRComplete posts the batch (ibv_wr_complete). With an error it has posted nothing,
// with two exceptions: ErrFull and errors of the queue pair's state may come after
// the first requests were posted.
func (x *QPEx) WRComplete() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.open {
		return invalid("WRComplete", "qp", "no WRStart")
	}
	defer x.end()
	if x.wrong != nil {
		return x.wrong
	}
	_, err := x.PostSend(x.wrs)
	return err
}

// WRAbort drops the batch (ibv_wr_abort).
func (x *QPEx) WRAbort() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open {
		x.end()
	}
}

func (x *QPEx) end() {
	x.open = false
	x.clear()
	x.wait.Signal()
}

// clear keeps the storage of gather lists for the next batch.
func (x *QPEx) clear() {
	for i := range x.wrs {
		x.wrs[i] = SendWR{SGL: x.wrs[i].SGL[:0]}
	}
	x.wrs = x.wrs[:0]
}

// begin adds a work request, or records why it cannot.
func (x *QPEx) begin(op WROpcode, name string, need SendOpsFlags) *SendWR {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case !x.open:
		return new(SendWR) // not posted: there was no WRStart
	case x.ops&need == 0:
		x.fail(invalid(name, "send_ops_flags", "the operation was not asked for"))
	}
	if n := len(x.wrs); n < cap(x.wrs) {
		x.wrs = x.wrs[:n+1]
	} else {
		x.wrs = append(x.wrs, SendWR{})
	}
	wr := &x.wrs[len(x.wrs)-1]
	*wr = SendWR{ID: x.WRID, Op: op, Flags: x.WRFlags &^ SendInline, SGL: wr.SGL[:0]}
	return wr
}

// last returns the work request that the WRSet… calls are about.
func (x *QPEx) last(name string) *SendWR {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.open || len(x.wrs) == 0 {
		if x.open {
			x.fail(invalid(name, "qp", "there is no work request to set it for"))
		}
		return new(SendWR)
	}
	return &x.wrs[len(x.wrs)-1]
}

func (x *QPEx) fail(err error) {
	if x.wrong == nil {
		x.wrong = err
	}
}

func (x *QPEx) refuse(err error) {
	x.mu.Lock()
	x.fail(err)
	x.mu.Unlock()
}

// WRSend begins a SEND (ibv_wr_send).
func (x *QPEx) WRSend() { x.begin(WRSend, "WRSend", SendOpSend) }

// WRSendImm begins a SEND with immediate data in host order (ibv_wr_send_imm).
func (x *QPEx) WRSendImm(imm uint32) { x.begin(WRSendImm, "WRSendImm", SendOpSendImm).Imm = imm }

// WRSendInv begins a SEND with invalidate (ibv_wr_send_inv).
func (x *QPEx) WRSendInv(key RKey) { x.begin(WRSendInv, "WRSendInv", SendOpSendInv).InvRKey = key }

// WRSendTSO begins the send of TCP segments (ibv_wr_send_tso): the data is cut into pieces of at
// most mss bytes. Each gets the headers, from Ethernet to TCP, with lengths, a sequence number and
// checksums of its own.
func (x *QPEx) WRSendTSO(header []byte, mss uint16) {
	wr := x.begin(WRSend, "WRSendTSO", SendOpTSO)
	wr.Header, wr.Frame = header, FrameSend{MSS: mss, Header: uint16(len(header))}
	if mss == 0 || len(header) > math.MaxUint16 {
		x.refuse(invalid("WRSendTSO", "tso", "needs a maximum of bytes, and headers of at most 64 KiB"))
	}
}

func (x *QPEx) remote(op WROpcode, name string, need SendOpsFlags, key RKey, addr uint64) *SendWR {
	wr := x.begin(op, name, need)
	wr.RKey, wr.RemoteAddr = key, addr
	return wr
}

// WRRDMAWrite begins an RDMA WRITE (ibv_wr_rdma_write).
func (x *QPEx) WRRDMAWrite(key RKey, addr uint64) {
	x.remote(WRWrite, "WRRDMAWrite", SendOpWrite, key, addr)
}

// WRRDMAWriteImm begins an RDMA WRITE with immediate data (ibv_wr_rdma_write_imm).
func (x *QPEx) WRRDMAWriteImm(key RKey, addr uint64, imm uint32) {
	x.remote(WRWriteImm, "WRRDMAWriteImm", SendOpWriteImm, key, addr).Imm = imm
}

// WRRDMARead begins an RDMA READ (ibv_wr_rdma_read).
func (x *QPEx) WRRDMARead(key RKey, addr uint64) {
	x.remote(WRRead, "WRRDMARead", SendOpRead, key, addr)
}

// WRAtomicCmpSwp begins a compare-and-swap (ibv_wr_atomic_cmp_swp).
func (x *QPEx) WRAtomicCmpSwp(key RKey, addr, compare, swap uint64) {
	wr := x.remote(WRCompareSwap, "WRAtomicCmpSwp", SendOpCompareSwap, key, addr)
	wr.CompareAdd, wr.Swap = compare, swap
}

// WRAtomicFetchAdd begins a fetch-and-add (ibv_wr_atomic_fetch_add).
func (x *QPEx) WRAtomicFetchAdd(key RKey, addr, add uint64) {
	x.remote(WRFetchAdd, "WRAtomicFetchAdd", SendOpFetchAdd, key, addr).CompareAdd = add
}

// WRAtomicWrite begins an ATOMIC WRITE of 8 bytes (ibv_wr_atomic_write).
func (x *QPEx) WRAtomicWrite(key RKey, addr, value uint64) {
	x.remote(WRAtomicWrite, "WRAtomicWrite", SendOpAtomicWrite, key, addr).AtomicWrite = value
}

// WRFlush begins a FLUSH of n bytes (ibv_wr_flush of later libibverbs).
func (x *QPEx) WRFlush(key RKey, addr uint64, n uint32, kind, level uint8) {
	wr := x.remote(WRFlush, "WRFlush", SendOpFlush, key, addr)
	wr.FlushLength, wr.FlushType, wr.FlushLevel = n, kind, level
}

// WRBindMW begins the binding of a window (ibv_wr_bind_mw).
func (x *QPEx) WRBindMW(bind MWBind) { x.begin(WRBindMW, "WRBindMW", SendOpBindMW).Bind = &bind }

// WRLocalInv begins a local invalidation (ibv_wr_local_inv).
func (x *QPEx) WRLocalInv(key RKey) { x.begin(WRLocalInv, "WRLocalInv", SendOpLocalInv).InvRKey = key }

// WRSetUDAddr says where a UD message goes (ibv_wr_set_ud_addr).
func (x *QPEx) WRSetUDAddr(ah *AH, qpn QPN, qkey uint32) {
	wr := x.last("WRSetUDAddr")
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, qpn, qkey
}

// WRSetXRCSRQN names the SRQ of an XRC request (ibv_wr_set_xrc_srqn).
func (x *QPEx) WRSetXRCSRQN(srqn uint32) { x.last("WRSetXRCSRQN").XRCSRQN = srqn }

// WRSetInlineData gives the data itself (ibv_wr_set_inline_data).
func (x *QPEx) WRSetInlineData(data []byte) {
	wr := x.last("WRSetInlineData")
	wr.Flags |= SendInline
	wr.Inline = data
}

// WRSetInlineDataList gives the data in pieces (ibv_wr_set_inline_data_list).
func (x *QPEx) WRSetInlineDataList(pieces [][]byte) {
	wr := x.last("WRSetInlineDataList")
	wr.Flags |= SendInline
	wr.Inline = nil
	for _, p := range pieces {
		wr.Inline = append(wr.Inline, p...)
	}
}

// WRSetSGE gives the data in one piece of memory (ibv_wr_set_sge).
func (x *QPEx) WRSetSGE(key LKey, addr uint64, length uint32) {
	wr := x.last("WRSetSGE")
	wr.SGL = append(wr.SGL[:0], SGE{Addr: addr, Length: length, LKey: key})
}

// WRSetSGEList gives the data in several pieces of memory (ibv_wr_set_sge_list).
func (x *QPEx) WRSetSGEList(sgl []SGE) {
	wr := x.last("WRSetSGEList")
	wr.SGL = append(wr.SGL[:0], sgl...)
}
