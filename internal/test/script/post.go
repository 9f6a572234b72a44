package script

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

var operations = map[string]rxe.WROpcode{
	"send": rxe.WRSend, "send-imm": rxe.WRSendImm, "send-inv": rxe.WRSendInv,
	"write": rxe.WRWrite, "write-imm": rxe.WRWriteImm, "read": rxe.WRRead,
	"compare-swap": rxe.WRCompareSwap, "fetch-add": rxe.WRFetchAdd, "atomic-write": rxe.WRAtomicWrite,
	"flush": rxe.WRFlush, "bind": rxe.WRBindMW, "local-inv": rxe.WRLocalInv,
}

// request is a send work request that has not completed.
type request struct {
	wr       rxe.SendWR
	size     int
	local    int    // offset of its buffer
	target   int    // offset in the peer's memory
	want     []byte // what a READ or an atomic must bring; nil: not known
	message  *message
	windowed bool
}

func (r *request) signaled() bool { return r.wr.Flags&rxe.SendSignaled != 0 }

// mutates reports whether the request changes the peer's memory.
func (r *request) mutates() bool {
	switch r.wr.Op {
	case rxe.WRWrite, rxe.WRWriteImm, rxe.WRCompareSwap, rxe.WRFetchAdd, rxe.WRAtomicWrite:
		return true
	default:
		return false
	}
}

// post posts one send work request, and before it those that were posted with more.
func (s *Script) post(a *args) error {
	h := s.host(a, "a")
	more := a.flag("more")
	if h.q.Type() == rxe.QPXRCTgt {
		return fmt.Errorf("%s is a target, and posts nothing", h.name)
	}
	r, err := h.readRequest(a)
	if err == nil {
		err = a.rest()
	}
	if err != nil {
		return err
	}
	h.batch = append(h.batch, r.wr)
	if more {
		return nil
	}
	return h.postBatch()
}

func (h *host) postBatch() error {
	wrs := h.batch
	h.batch = nil
	n, err := h.q.PostSend(wrs)
	if err != nil {
		h.sends = h.sends[:len(h.sends)-(len(wrs)-n)] // the completed ones are before these
		h.s.concede("a work request was refused")
	}
	return err
}

// readRequest makes a work request and tells the model of it.
func (h *host) readRequest(a *args) (*request, error) {
	names := append([]string{""}, sortedNames...)
	op, ok := operations[a.word(names...)]
	if !ok {
		return nil, fmt.Errorf("give an operation: %s", strings.Join(sortedNames, ", "))
	}
	r := &request{wr: rxe.SendWR{Op: op}}
	r.size = a.number(0)
	if op == rxe.WRCompareSwap || op == rxe.WRFetchAdd || op == rxe.WRAtomicWrite {
		r.size = 8
	}
	n := make(map[string]uint64)
	for name, most := range map[string]uint64{"at": 1 << 40, "imm": math.MaxUint32, "add": math.MaxUint64,
		"compare": math.MaxUint64, "swap": math.MaxUint64, "sges": maxSGE} {
		var err error
		if n[name], err = a.bounded(name, 0, most); err != nil {
			return nil, err
		}
	}
	for name, flag := range map[string]rxe.SendFlags{"fence": rxe.SendFence, "inline": rxe.SendInline,
		"solicited": rxe.SendSolicited} {
		if a.flag(name) {
			r.wr.Flags |= flag
		}
	}
	if !a.flag("unsignaled") {
		r.wr.Flags |= rxe.SendSignaled
	}
	var err error
	if r.local, err = h.alloc(r.size); err != nil {
		return nil, err
	}
	r.target = int(n["at"])
	r.wr.SGL = h.sgl(r.local, r.size, int(n["sges"]))
	r.wr.Imm, r.wr.CompareAdd, r.wr.Swap = uint32(n["imm"]), n["add"]+n["compare"], n["swap"]
	if err := h.aim(r, a.option("rkey", "")); err != nil {
		return nil, err
	}
	if err := h.nameSRQ(r, a.option("srqn", "")); err != nil {
		return nil, err
	}
	h.nextID++
	r.wr.ID = h.nextID
	h.fill(r)
	h.predict(r)
	h.sends = append(h.sends, r)
	return r, nil
}

var sortedNames = []string{"send", "send-imm", "send-inv", "write", "write-imm", "read", "compare-swap",
	"fetch-add", "atomic-write", "flush", "bind", "local-inv"}

// aim sets the fields that name the peer and its memory.
func (h *host) aim(r *request, key string) error {
	r.wr.RemoteAddr, r.wr.RKey = uint64(memBase+r.target), h.peer.mr.RKey()
	switch key {
	case "":
	case "wrong":
		r.wr.RKey ^= 0x55
		h.s.concede("a key is wrong")
	case "window":
		r.wr.RKey, r.windowed = h.peer.window.rkey, true
		if !h.peer.window.bound {
			h.s.concede("the window is not bound")
		}
	default:
		return fmt.Errorf("rkey is wrong or window")
	}
	if h.s.p.typ == rxe.QPUD {
		r.wr.AH, r.wr.RemoteQPN, r.wr.RemoteQKey = h.ah, h.peer.q.Num(), qkey
	}
	switch r.wr.Op {
	case rxe.WRFlush:
		r.wr.FlushType, r.wr.FlushLength, r.wr.SGL = wire.FlushGlobal, uint32(r.size), nil
	case rxe.WRBindMW:
		w := &h.window
		if w.mw == nil {
			return fmt.Errorf("only RC has windows")
		}
		w.rkey = w.mw.RKey()&^0xff | (w.rkey+1)&0xff
		r.wr.SGL = nil
		r.wr.Bind = &rxe.MWBind{MW: w.mw, RKey: w.rkey, MR: h.mr, Addr: uint64(memBase + r.target),
			Length: uint64(r.size), Access: everyAccess}
	case rxe.WRLocalInv:
		r.wr.SGL, r.wr.InvRKey = nil, h.window.rkey
	case rxe.WRSendInv:
		r.wr.InvRKey = h.peer.window.rkey
	default:
	}
	return nil
}

// nameSRQ names the SRQ that takes a request of XRC.
func (h *host) nameSRQ(r *request, which string) error {
	if !h.s.p.xrc {
		if which != "" {
			return fmt.Errorf("only XRC names SRQs")
		}
		return nil
	}
	r.wr.XRCSRQN = h.peer.srq.Num()
	switch which {
	case "":
		return nil
	case "wrong":
		r.wr.XRCSRQN ^= 1
	case "strange":
		r.wr.XRCSRQN = h.peer.strange.Num()
	default:
		return fmt.Errorf("srqn is wrong or strange")
	}
	h.s.concede("a request names another SRQ")
	return nil
}

// fill writes the bytes that the request sends.
func (h *host) fill(r *request) {
	x := h.nextID<<8 | uint64(h.name[0])
	data := h.mem.Data[r.local : r.local+r.size]
	for i := range data {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		data[i] = byte(x)
	}
	switch {
	case r.wr.Op == rxe.WRAtomicWrite:
		r.wr.AtomicWrite, r.wr.SGL = binary.LittleEndian.Uint64(data), nil
	case r.wr.Flags&rxe.SendInline != 0:
		r.wr.Inline, r.wr.SGL = data, nil
	}
}
