package interop

import (
	"encoding/binary"
	"testing"

	"github.com/gorxe/gorxe/wire"
)

const newerSection = "ATOMIC WRITE, FLUSH"

// TestAtomicWrite: eight bytes at once, in order with the operations around them.
func TestAtomicWrite(t *testing.T) {
	if !lab.has(atomicWrite) {
		return
	}
	atomic := path{kind: typeRC, extended: extSend | extWrite | extRead | extAtomicWrite}
	for _, f := range []family{ipv4, ipv6} {
		eachRole(t, newerSection, "ATOMIC WRITE", f, func(tr *trial, server, client *machine) {
			a, b := tr.pair(client, server, f, 1<<16, atomic)
			for i := range 20 {
				a.do("set mr=0 off=%d to=%d", 64*i, 0x0102030405060708*(i+1))
				a.do("awrite qp=0 id=%d mr=0 off=%d raddr=%d rkey=%s", i, 64*i, b.addr+uint64(8*i), b.rkey)
			}
			for i := range 20 {
				if c := a.polled("ATOMIC WRITE", statusSuccess); c.id != i {
					tr.Errorf("completion %d, not %d", c.id, i)
				}
			}
			for i := range 20 {
				if got := b.do("get mr=0 off=%d", 8*i).number(b, "is"); got != uint64(0x0102030405060708*(i+1)) {
					tr.Errorf("value %d is %#x", i, got)
				}
			}
			tr.row.Note = "20 of them"
		})
	}
	eachFamily(t, newerSection, "ATOMIC WRITE, rkey of nothing", ipv4, func(tr *trial, server, client *machine) {
		a, b := tr.pair(client, server, tr.row.Family, 1<<16, atomic)
		key := b.do("mr mr=1 len=8192 access=%d", accessAll)
		b.do("dereg mr=1")
		a.do("awrite qp=0 mr=0 off=0 raddr=%s rkey=%s", key.fields["addr"], key.fields["rkey"])
		tr.refusedWith(a, b, statusRemAccess, wire.NAKRemoteAccess)
	})
}

// refusedWith wants the requester's status and the responder's NAK.
func (tr *trial) refusedWith(a, b *endpoint, status int, nak wire.NAKCode) {
	tr.Helper()
	a.polled("the request", status)
	naks := tr.naks(b.machine == lab.gorxe)
	tr.row.Note = statusName[status] + "; " + answersOnWire(naks)
	if len(naks) == 0 || naks[len(naks)-1] != wire.SyndromeNAK(nak) {
		tr.Errorf("answers on the wire: %v", naks)
	}
}

// flushOfKernel reports whether a packet is a FLUSH with the ICRC that rdma_rxe gives it.
func (r *roce) flushOfKernel() bool {
	return r.opcode() == wire.RCFlush &&
		binary.LittleEndian.Uint32(r.Transport[len(r.Transport)-wire.ICRCLen:]) == sealedTwice(r, r.Transport)
}

// TestFlush: rdma_rxe computes the ICRC of a FLUSH in its own way, and accepts no other. The
// case therefore seals each FLUSH again on the cable. So it sees how each side handles the
// FLUSH of the other.
func TestFlush(t *testing.T) {
	if !lab.has(flush) {
		return
	}
	pair := func(tr *trial, server, client *machine, f family) (a, b *endpoint) {
		tr.Helper()
		a, b = tr.openNewer(client, f, 1<<16), tr.openNewer(server, f, 1<<16)
		join(a, b, 0, path{kind: typeRC, extended: extSend | extWrite | extRead | extFlush, more: "timeout=18"})
		return a, b
	}
	flushes := func(a, b *endpoint, addr uint64, rkey string, level, status int) {
		a.Helper()
		a.answered[b] = a.responses(b, anyResponse)
		a.do("flush qp=0 id=2 raddr=%d rkey=%s len=4096 placement=%d range=%d", addr, rkey, flushGlobal, level)
		if a.nextResponse(b, silence) == "nothing" {
			a.row.Note = defectFlush.String()
			how := sealRight
			if b.machine.isKernel() {
				how = sealTwice
			}
			// When the FLUSH comes again, the kernel has lost its address.
			a.forge(a, wire.RCFlush, func(h *wire.Headers) { h.VA = addr }, how)
		}
		if c := a.polled("FLUSH", status); status == statusSuccess && c.id != 2 {
			a.Errorf("completion %d, not of the FLUSH", c.id)
		}
	}
	for _, level := range []struct {
		name string
		is   int
	}{{"range", flushRange}, {"region", flushRegion}} {
		for _, f := range []family{ipv4, ipv6} {
			eachRole(t, newerSection, "FLUSH of a "+level.name, f, func(tr *trial, server, client *machine) {
				a, b := pair(tr, server, client, f)
				a.do("fill mr=0 off=0 len=4096 seed=8")
				a.do("send qp=0 id=1 op=%d mr=0 off=0 len=4096 raddr=%d rkey=%s", opWrite, b.addr, b.rkey)
				a.polled("WRITE", statusSuccess)
				flushes(a, b, b.addr, b.rkey, level.is, statusSuccess)
				b.holds("WRITE", 0, 4096, 8)
			})
		}
	}
	for name, access := range map[string]int{"rkey of nothing": -1, "region without the right": accessAll} {
		eachFamily(t, newerSection, "FLUSH, "+name, ipv4, func(tr *trial, server, client *machine) {
			a, b := pair(tr, server, client, tr.row.Family)
			key := b.do("mr mr=1 len=8192 access=%d", max(access, 0)|accessLocalWrite)
			if access < 0 {
				b.do("dereg mr=1")
			}
			flushes(a, b, key.number(b, "addr"), key.fields["rkey"], flushRange, statusRemAccess)
			tr.row.Note += "; REM_ACCESS_ERR; " + answersOnWire(tr.naks(b.machine == lab.gorxe))
		})
	}
	eachFamily(t, "Duplicates", "FLUSH", ipv4, func(tr *trial, server, client *machine) {
		a, b := pair(tr, server, client, tr.row.Family)
		flushes(a, b, b.addr, b.rkey, flushRange, statusSuccess)
		tr.answered[b] = tr.responses(b, anyResponse)
		how := sealRight
		if server.isKernel() {
			how = sealTwice
		}
		tr.forge(a, wire.RCFlush, func(h *wire.Headers) { h.VA = b.addr }, how)
		switch answer := tr.nextResponse(b, patience(server)); {
		case server.isKernel():
			tr.row.Settled = "A duplicate FLUSH is answered with " + answer + "."
		case answer != "RC_RDMA_READ_RESPONSE_ONLY":
			tr.Errorf("answered with %s", answer)
		}
	})
}
