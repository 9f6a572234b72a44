package rxe

import (
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// Every mistake gets its NAK, its completion and its event, and ends the
// connection. Nothing outside of the regions is touched.
func TestResponderFaults(t *testing.T) {
	const (
		invalid = wire.NAKInvalidRequest
		access  = wire.NAKRemoteAccess
	)
	flushed := []WC{{ID: 1, Status: WCFlushErr}}
	mtu := pattern(benchMTU)
	without := func(a Access) func(*QPAttr) { return func(q *QPAttr) { q.Access &^= a } }
	for _, tc := range []struct {
		name  string
		attr  func(*QPAttr)
		pkts  func(b *bench) []pkt
		nak   wire.NAKCode
		psn   wire.PSN // of the NAK, from 100; earlier packets ask for no ACK
		wcs   []WC     // nil: the posted receive is flushed
		event EventType
	}{
		{name: "MIDDLE first", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCSendMiddle, 100, mtu)}
		}, nak: invalid, event: EventQPReqErr},
		{name: "LAST first", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCWriteLast, 100, mtu)}
		}, nak: invalid, event: EventQPReqErr},
		{name: "missing LAST", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCSendFirst, 100, mtu), req(wire.RCSendOnly, 101, nil)}
		}, nak: invalid, psn: 1, event: EventQPReqErr},
		{name: "WRITE inside SEND", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCSendFirst, 100, mtu), req(wire.RCWriteMiddle, 101, mtu)}
		}, nak: invalid, psn: 1, event: EventQPReqErr},
		{name: "READ inside WRITE", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCWriteFirst, 100, mtu, b.at(0, 2*benchMTU)), req(wire.RCReadRequest, 101, nil, b.at(0, 8))}
		}, nak: invalid, psn: 1, event: EventQPReqErr},

		{name: "QP without write", attr: without(AccessRemoteWrite), pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCWriteOnly, 100, nil, b.at(0, 0))}
		}, nak: invalid, event: EventQPReqErr},
		{name: "QP without read", attr: without(AccessRemoteRead), pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCReadRequest, 100, nil, b.at(0, 8))}
		}, nak: invalid, event: EventQPReqErr},
		{name: "QP without atomic", attr: without(AccessRemoteAtomic), pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCFetchAdd, 100, nil, b.at(0, 0))}
		}, nak: invalid, event: EventQPReqErr},
		{name: "QP without flush", attr: without(AccessFlushPersist), pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCFlush, 100, nil, b.at(0, 8), func(h *wire.Headers) { h.FlushPlacement = 2 })}
		}, nak: invalid, event: EventQPReqErr},
		{name: "no READ resources", attr: func(a *QPAttr) { a.MaxDestRdAtomic = 0 }, pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCReadRequest, 100, nil, b.at(0, 8))}
		}, nak: invalid, event: EventQPReqErr},

		{name: "short FIRST", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCWriteFirst, 100, mtu[:8], b.at(0, 2*benchMTU))}
		}, nak: invalid, event: EventQPReqErr},
		{name: "long ONLY", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCSendOnly, 100, pattern(benchMTU+4))}
		}, nak: invalid, event: EventQPReqErr},
		{name: "empty LAST", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCSendFirst, 100, mtu), req(wire.RCSendLast, 101, nil)}
		}, nak: invalid, psn: 1, event: EventQPReqErr},
		{name: "WRITE shorter than its RETH", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCWriteOnly, 100, mtu[:8], b.at(0, 12))}
		}, nak: invalid, event: EventQPReqErr},
		{name: "WRITE longer than its RETH", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCWriteFirst, 100, mtu, b.at(0, benchMTU+4)), req(wire.RCWriteLast, 101, mtu)}
		}, nak: invalid, psn: 1, event: EventQPReqErr},
		{name: "WRITE that ends in a FIRST", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCWriteFirst, 100, mtu, b.at(0, benchMTU))}
		}, nak: invalid, event: EventQPReqErr},
		{name: "WRITE of more than 2 GiB", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCWriteFirst, 100, mtu, b.at(0, 1<<31+1))}
		}, nak: invalid, event: EventQPReqErr},
		{name: "READ of more than 2 GiB", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCReadRequest, 100, nil, b.at(0, 1<<31+1))}
		}, nak: invalid, event: EventQPReqErr},
		{name: "READ with payload", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCReadRequest, 100, mtu, b.at(0, 8))}
		}, nak: invalid, event: EventQPReqErr},
		{name: "misaligned atomic", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCFetchAdd, 100, nil, b.at(4, 0))}
		}, nak: invalid, event: EventQPReqErr},
		{name: "misaligned ATOMIC WRITE", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCAtomicWrite, 100, mtu[:8], b.at(4, 8))}
		}, nak: invalid, event: EventQPReqErr},
		{name: "ATOMIC WRITE of 4 bytes", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCAtomicWrite, 100, mtu[:4], b.at(0, 4))}
		}, nak: invalid, event: EventQPReqErr},

		{name: "WRITE with a wrong key", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCWriteOnly, 100, mtu, b.at(0, benchMTU), func(h *wire.Headers) { h.RKey++ })}
		}, nak: access, event: EventQPAccessErr},
		{name: "WRITE with immediate data and a wrong key", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCWriteOnlyImm, 100, mtu, b.at(0, benchMTU), func(h *wire.Headers) { h.RKey++ })}
		}, nak: access, wcs: []WC{{ID: 1, Status: WCLocAccessErr}}, event: EventQPAccessErr},
		{name: "the same in two packets, of which the first takes no receive", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCWriteFirst, 100, mtu, b.at(0, 2*benchMTU), func(h *wire.Headers) { h.RKey++ }),
				req(wire.RCWriteLastImm, 101, mtu)}
		}, nak: access, event: EventQPAccessErr},
		{name: "WRITE that reaches outside changes nothing", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCWriteFirst, 100, mtu, b.at(remoteLen-benchMTU, benchMTU+1))}
		}, nak: access, event: EventQPAccessErr},
		{name: "READ outside", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCReadRequest, 100, nil, b.at(0, remoteLen+1))}
		}, nak: access, event: EventQPAccessErr},
		{name: "READ that wraps", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCReadRequest, 100, nil, b.at(0, 8), func(h *wire.Headers) { h.VA = 1<<64 - 4 })}
		}, nak: access, event: EventQPAccessErr},
		{name: "atomic outside", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCFetchAdd, 100, nil, b.at(remoteLen, 0))}
		}, nak: access, event: EventQPAccessErr},
		{name: "WRITE to a region without the right", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCWriteOnly, 100, mtu, func(h *wire.Headers) {
				h.VA, h.RKey, h.DMALen = localVA, b.local.RKey(), benchMTU
			})}
		}, nak: access, event: EventQPAccessErr},

		{name: "SEND longer than the buffer", pkts: func(b *bench) []pkt {
			return []pkt{req(wire.RCSendFirst, 100, mtu), req(wire.RCSendMiddle, 101, mtu), req(wire.RCSendLast, 102, mtu)}
		}, nak: invalid, psn: 2, wcs: []WC{{ID: 1, Status: WCLocLenErr}}, event: EventQPFatal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, QPRC, tc.attr)
			b.post(1, 0, 2*benchMTU)
			pkts := tc.pkts(b)
			b.send(pkts...)
			b.want(nak(tc.nak, 100+tc.psn))
			if tc.wcs == nil {
				tc.wcs = flushed
			}
			b.wantWC(tc.wcs...)
			if tc.event == EventQPFatal {
				b.wantEvents()
			} else {
				b.wantEvents(tc.event)
			}
			b.wantState(QPErr)
			b.wantGuard()
			b.send(req(wire.RCWriteOnly, 101+tc.psn, mtu, b.at(0, benchMTU)))
			b.want()
		})
	}
}

// Zero-length operations do not look at the key (C9-88).
func TestResponderZeroLength(t *testing.T) {
	b := newBench(t, QPRC, nil)
	b.send(req(wire.RCWriteOnly, 100, nil), req(wire.RCReadRequest, 101, nil))
	b.want(readData(wire.RCReadResponseOnly, 101, nil))
	b.send(req(wire.RCReadRequest, 101, nil))
	b.want(readData(wire.RCReadResponseOnly, 101, nil))
	b.wantState(QPRTR)
}

// A receive buffer whose key gives no access is this side's error.
func TestResponderBadReceiveBuffer(t *testing.T) {
	b := newBench(t, QPRC, nil)
	_, err := b.qp.PostRecv([]RecvWR{{ID: 1, SGL: []SGE{{Addr: localVA, Length: 100, LKey: 0xbad}}}, {ID: 2}})
	b.must(err)
	b.send(req(wire.RCSendOnly, 100, pattern(10)))
	b.want(nak(wire.NAKRemoteOp, 100))
	b.wantWC(WC{ID: 1, Status: WCLocProtErr}, WC{ID: 2, Status: WCFlushErr})
	b.wantState(QPErr)
}

// A region that is deregistered in the middle of a WRITE gets no more of it.
func TestResponderDeregisteredMidWrite(t *testing.T) {
	b := newBench(t, QPRC, nil)
	data := pattern(2 * benchMTU)
	b.send(req(wire.RCWriteFirst, 100, data[:benchMTU], b.at(0, len(data))))
	b.must(b.remote.Dereg())
	b.send(req(wire.RCWriteLast, 101, data[benchMTU:]))
	b.want(nak(wire.NAKRemoteAccess, 101))
	if b.bytes(remoteVA+benchMTU, 1)[0] != benchGuard {
		t.Error("written after the deregistration")
	}
}

// If memory turns out to be unmapped, the first request whose data it should have
// received fails.
func TestResponderMemoryUnmapped(t *testing.T) {
	t.Run("WRITE", func(t *testing.T) {
		b := newBench(t, QPRC, nil)
		b.mem.unmap = true
		b.send(req(wire.RCWriteOnly, 100, pattern(8), b.at(0, 8)), req(wire.RCWriteOnly, 101, pattern(8), b.at(0, 8)))
		b.want(nak(wire.NAKRemoteAccess, 100))
		b.wantState(QPErr)
	})
	t.Run("SEND", func(t *testing.T) {
		b := newBench(t, QPRC, nil)
		b.post(1, 0, 100)
		b.mem.unmap = true
		b.send(req(wire.RCSendOnly, 100, pattern(8)))
		b.want(nak(wire.NAKRemoteOp, 100))
		b.wantWC(WC{ID: 1, Status: WCLocProtErr})
	})
	t.Run("READ", func(t *testing.T) {
		b := newBench(t, QPRC, nil)
		b.mem.unmap = true
		b.send(req(wire.RCReadRequest, 100, nil, b.at(0, 8)))
		b.want(nak(wire.NAKRemoteAccess, 100))
		b.wantState(QPErr)
	})
}

// Where the program itself has ended, the device is silent. The peer finds out by
// its retries, as if the device were gone.
func TestResponderSpaceEnded(t *testing.T) {
	for name, request := range map[string]func(b *bench) pkt{
		"SEND":         func(*bench) pkt { return req(wire.RCSendOnly, 100, pattern(8)) },
		"WRITE":        func(b *bench) pkt { return req(wire.RCWriteOnly, 100, pattern(8), b.at(0, 8)) },
		"READ":         func(b *bench) pkt { return req(wire.RCReadRequest, 100, nil, b.at(0, 8)) },
		"FETCH ADD":    func(b *bench) pkt { return req(wire.RCFetchAdd, 100, nil, b.at(0, 0)) },
		"ATOMIC WRITE": func(b *bench) pkt { return req(wire.RCAtomicWrite, 100, pattern(8), b.at(0, 8)) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, QPRC, nil)
			b.post(1, 0, 100)
			b.mem.ended = true
			b.send(request(b))
			b.want()
			b.wantWC(WC{ID: 1, Status: WCFlushErr})
			b.wantState(QPErr)
			b.wantEvents()
			if n := b.dev.counters.MemoryEnded.Load(); n != 1 {
				t.Errorf("drop_memory_gone is %d", n)
			}
		})
	}
}
