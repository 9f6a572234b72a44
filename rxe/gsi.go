package rxe

import (
	"sync/atomic"

	"github.com/gorxe/gorxe/wire"
)

// Queue pair 1 is the general services interface (IBA 13.5.1). It is not a QP
// object: its packets go to one handler before QPs are looked up, and the handler
// may answer with SendGSI. Both directions carry UD SENDs with a fixed Q_Key.

// GSIQPN and GSIQKey are queue pair 1 and the Q_Key of all packets to it
// (IBA 10.2.5, 13.5.1).
const (
	GSIQPN  wire.QPN = 1
	GSIQKey uint32   = 0x8001_0000
)

// GSI handles the packets to queue pair 1.
type GSI interface {
	// ReceiveGSI receives one packet: a UD SEND_ONLY whose P_Key and Q_Key are
	// right. Its bytes, and from, are valid only during the call. No QP is locked,
	// so that it may call the device. Several threads may call it at once.
	ReceiveGSI(pkt wire.Packet, from *wire.Datagram)
}

// gsi is the device's state of queue pair 1.
type gsi struct {
	psn   atomic.Uint32
	inbox inbox // from QPs of this device; under runQueue.mu
}

// SendGSI sends one datagram from queue pair 1 to QP dest at the address in attr.
// There, dest is usually queue pair 1 too. It returns ErrInvalid for an address
// that CreateAH would refuse and for a payload longer than the port's MTU. No QP
// may be locked.
func (d *Device) SendGSI(attr AHAttr, dest wire.QPN, payload []byte) error {
	const op = "SendGSI"
	if len(payload) > int(d.activeMTU()) {
		return invalid(op, "payload", "longer than the port's MTU", "send less")
	}
	route, err := d.route(op, &attr, GSIQPN, dest)
	if err != nil {
		return err
	}
	st := d.newStep()
	h := wire.Headers{Opcode: wire.UDSendOnly, PKey: pkeyTable[0], DestQP: dest,
		PSN: wire.PSN(d.gsi.psn.Add(1)) & wire.PSNMask, SrcQP: GSIQPN, QKey: GSIQKey,
		Pad: uint8(wire.PadLen(len(payload)))}
	hl := h.Len()
	b := st.packet(route, hl, hl+len(payload)+int(h.Pad))
	h.Put(b)
	clear(b[hl+copy(b[hl:], payload):])
	st.countSent(h.Opcode, 1)
	if dest != GSIQPN || d.cfg.OnDeliver != nil || d.intercepted(GSIQPN, dest) {
		st.posted()
		return nil
	}
	// The caller runs no queue pair of a program, whose memory may not answer.
	st.flush()
	st.close()
	d.runGSI()
	return nil
}

// receiveGSI checks a packet to queue pair 1 and hands it to the handler. No QP is
// locked.
func (d *Device) receiveGSI(pkt wire.Packet, dg *wire.Datagram) {
	c := &d.counters
	switch {
	case pkt.Opcode() != wire.UDSendOnly:
		c.BadType.Add(1)
	case !wire.PKeyMatch(pkt.PKey(), pkeyTable[0]):
		c.BadPKey.Add(1)
	case pkt.QKey() != GSIQKey:
		c.BadQKey.Add(1)
	case forgedSource(pkt, dg):
		c.BadSrcQP.Add(1)
	default:
		d.opcodes.rcvd[wire.UDSendOnly].Add(1)
		d.cfg.GSI.ReceiveGSI(pkt, dg)
	}
}

// forgedSource reports whether a datagram of this device names another source than the connected
// queue pair that sent it. A fault rule can make a datagram of a packet whose payload says
// anything.
func forgedSource(pkt wire.Packet, dg *wire.Datagram) bool {
	return dg.SrcQP != 0 && dg.SrcQP != pkt.SrcQP()
}

// enqueueGSI leaves an item of this device's own packets for the handler. A QP may
// be locked.
func (d *Device) enqueueGSI(item *inboxItem) {
	rq := &d.runQueue
	rq.mu.Lock()
	full := d.gsi.inbox.bytes+item.memory() > gsiInboxLimit
	if !full {
		d.gsi.inbox.add(item)
		rq.count.Add(1)
	}
	rq.mu.Unlock()
	if full {
		d.counters.InboxFull.Add(uint64(item.count()))
		item.free()
	}
}

// runGSI hands what was enqueued to the handler. No QP may be locked.
func (d *Device) runGSI() {
	rq := &d.runQueue
	rq.mu.Lock()
	item := d.gsi.inbox.first
	d.gsi.inbox = inbox{}
	for i := item; i != nil; i = i.next {
		rq.count.Add(-1)
	}
	rq.mu.Unlock()
	for item != nil {
		d.unpackGSI(item)
		next := item.next
		item.free()
		item = next
	}
}

func (d *Device) unpackGSI(item *inboxItem) {
	d.counters.RcvdPkts.Add(uint64(item.count()))
	dg := item.from
	at := 0
	for _, end := range item.ends {
		dg.Data = item.buf[at:end]
		at = int(end) + item.trailer
		pkt, err := wire.Parse(dg.Data)
		if err != nil {
			d.counters.Malformed.Add(1)
			continue
		}
		d.receiveGSI(pkt, &dg)
	}
}
