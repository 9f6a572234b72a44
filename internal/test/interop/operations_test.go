package interop

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// takes says whether a case runs: the quick run has a selection.
func takes(standard bool) bool { return standard || full }

// TestTransfers: every operation that moves data, at sizes around the path MTU.
func TestTransfers(t *testing.T) {
	for _, tc := range []struct {
		kind  int
		name  string
		mtu   int
		quick family // of the quick run; "" for none
	}{
		{typeRC, "RC", 256, ipv4}, {typeRC, "RC", 512, ""}, {typeRC, "RC", 1024, ipv4}, {typeRC, "RC", 2048, ""}, {typeRC, "RC", 4096, ipv6},
		{typeUC, "UC", 256, ""}, {typeUC, "UC", 512, ""}, {typeUC, "UC", 1024, ipv4}, {typeUC, "UC", 2048, ""}, {typeUC, "UC", 4096, ""},
	} {
		name := fmt.Sprintf("%s, path MTU %d", tc.name, tc.mtu)
		eachFamily(t, "Every operation and size", name, tc.quick, func(tr *trial, server, client *machine) {
			a, b := tr.pair(client, server, tr.row.Family, 1<<18, path{kind: tc.kind, mtu: tc.mtu})
			sizes := []int{0, 1, 3, 4, tc.mtu - 1, tc.mtu, tc.mtu + 1, 2 * tc.mtu, 3*tc.mtu + 7, 65536}
			for i, size := range sizes {
				transfers(a, b, tc.kind, size, 100*i)
			}
			tr.row.Note = "SEND, WRITE, with and without immediate; READ if RC; 0 to 65536 bytes; PSNs wrap"
		})
	}
}

// transfers moves one size with each operation. The first half of region 0 is
// the source, the second the target.
func transfers(a, b *endpoint, kind, size, seed int) {
	a.Helper()
	const half = 1 << 17
	for op, name := range []string{opWrite: "WRITE", opWriteImm: "WRITE_IMM", opSend: "SEND", opSendImm: "SEND_IMM", opRead: "READ"} {
		seed++
		what := fmt.Sprintf("%s of %d", name, size)
		from, to := a, b
		if op == opRead {
			if kind != typeRC {
				continue
			}
			from, to = b, a
		}
		from.do("fill mr=0 off=0 len=%d seed=%d", size, seed)
		off, raddr := 0, b.addr+half
		if op == opRead {
			off, raddr = half, b.addr
		}
		received := op == opWriteImm || op == opSend || op == opSendImm
		if received {
			length := size
			if op == opWriteImm {
				length = 0
			}
			b.do("recv qp=0 id=%d mr=0 off=%d len=%d", seed, half, length)
		}
		a.do("send qp=0 op=%d id=%d mr=0 off=%d len=%d raddr=%d rkey=%s imm=%d", op, seed, off, size, raddr, b.rkey, 0xa1b2c300+seed)
		a.polled(what, statusSuccess)
		switch {
		case received:
			c := b.polled(what, statusSuccess)
			wrong := c.id != seed || c.bytes != size
			if op != opSend {
				wrong = wrong || c.flags != withImm || c.extra != 0xa1b2c300+seed
			}
			if wrong {
				b.Fatalf("%s: %s: completion %+v", b.machine.name, what, c)
			}
		case kind == typeUC:
			// Nothing says that a WRITE has arrived, but what follows it on the
			// queue pair has.
			b.do("recv qp=0 id=1 mr=0 off=0 len=0")
			a.do("send qp=0 op=%d id=1 mr=0 len=0", opSend)
			a.polled(what, statusSuccess)
			b.polled(what, statusSuccess)
		}
		to.holds(what, half, size, seed)
	}
}

// TestBig: messages of many windows.
func TestBig(t *testing.T) {
	for _, tc := range []struct {
		mtu, size int
		quick     family // of the quick run; "" for none
	}{
		{4096, 1 << 20, ipv4}, {1024, 1 << 20, ipv6}, {256, 1 << 20, ""}, {512, 1 << 20, ""}, {2048, 1 << 20, ""},
		{256, 8 << 20, ""}, {512, 8 << 20, ""}, {1024, 8 << 20, ""}, {2048, 8 << 20, ""}, {4096, 8 << 20, ""},
	} {
		name := fmt.Sprintf("RC, %d MiB, path MTU %d", tc.size>>20, tc.mtu)
		eachFamily(t, "Every operation and size", name, tc.quick, func(tr *trial, server, client *machine) {
			a, b := tr.pair(client, server, tr.row.Family, 2*tc.size, path{kind: typeRC, mtu: tc.mtu})
			a.do("fill mr=0 off=0 len=%d seed=1", tc.size)
			a.do("send qp=0 op=%d mr=0 off=0 len=%d raddr=%d rkey=%s", opWrite, tc.size, b.addr, b.rkey)
			a.polled("WRITE", statusSuccess)
			b.holds("WRITE", 0, tc.size, 1)
			a.do("send qp=0 op=%d mr=0 off=%d len=%d raddr=%d rkey=%s", opRead, tc.size, tc.size, b.addr, b.rkey)
			a.polled("READ", statusSuccess)
			a.holds("READ", tc.size, tc.size, 1)
			b.do("recv qp=0 mr=0 off=%d len=%d", tc.size, tc.size)
			a.do("send qp=0 op=%d mr=0 off=%d len=%d", opSend, tc.size, tc.size)
			a.polled("SEND", statusSuccess)
			b.polled("SEND", statusSuccess)
			b.holds("SEND", tc.size, tc.size, 1)
			tr.row.Note = "WRITE, READ, SEND"
		})
	}
}

// TestAtomics: what they return and what they leave.
func TestAtomics(t *testing.T) {
	for _, f := range []family{ipv4, ipv6} {
		eachRole(t, "Atomics, order, forms of posting", "both atomics", f, func(tr *trial, server, client *machine) {
			a, b := tr.pair(client, server, f, 1<<16, path{kind: typeRC})
			value := uint64(0xfffffffffffffff0)
			b.do("set mr=0 off=64 to=%d", value)
			for i, tc := range []struct {
				op        int
				add, swap uint64
				then      uint64
			}{
				{opFetchAdd, 1, 0, value + 1},
				{opFetchAdd, 0x20, 0, 0x11}, // wraps
				{opCmpSwap, 0x11, 0xdeadbeefcafe, 0xdeadbeefcafe},
				{opCmpSwap, 0x11, 7, 0xdeadbeefcafe}, // is not equal
				{opFetchAdd, 0, 0, 0xdeadbeefcafe},
			} {
				before := value
				a.do("send qp=0 op=%d id=%d mr=0 off=128 len=8 raddr=%d rkey=%s add=%d swap=%d", tc.op, i, b.addr+64, b.rkey, tc.add, tc.swap)
				a.polled("atomic", statusSuccess)
				got, want := a.do("get mr=0 off=128"), b.do("get mr=0 off=64")
				if got.number(a, "is") != before || want.number(b, "is") != tc.then {
					tr.Fatalf("atomic %d: returned %s, left %s", i, got.fields["is"], want.fields["is"])
				}
				value = tc.then
			}
			tr.row.Note = "values returned and left; a sum that wraps; a comparison that fails"
		})
	}
}

// TestOrder: many operations at once complete in order; a fence, inline data,
// work requests that ask for no completion.
func TestOrder(t *testing.T) {
	eachFamily(t, "Atomics, order, forms of posting", "mixed, 13 at once", ipv4, func(tr *trial, server, client *machine) {
		a, b := tr.pair(client, server, tr.row.Family, 1<<17, path{kind: typeRC})
		b.do("fill mr=0 off=0 len=4096 seed=5")
		b.do("set mr=0 off=8192 to=0")
		id := 0
		post := func(op, off, size int, at uint64, more string) {
			id++
			a.begin("send qp=0 id=%d op=%d mr=0 off=%d len=%d raddr=%d rkey=%s %s", id, op, off, size, b.addr+at, b.rkey, more)
		}
		for i := range 4 {
			post(opRead, 4096*i, 4096, 0, "")
			post(opFetchAdd, 40960, 8, 8192, "add=1")
		}
		a.begin("fill mr=0 off=65536 len=3000 seed=6")
		post(opWrite, 65536, 3000, 16384, fmt.Sprintf("flags=%d", flagSignaled|flagFence))
		post(opRead, 81920, 3000, 16384, "")
		post(opWrite, 65536, 48, 32768, fmt.Sprintf("flags=%d", flagInline))
		post(opRead, 90112, 48, 32768, "")
		post(opWrite, 65536, 0, 0, "")
		for range id + 1 {
			a.reply("a work request")
		}
		done := a.do("poll n=%d", id-1).completions
		want := 0
		for _, c := range done {
			if want++; want == 11 { // the inline one is not signaled
				want++
			}
			if c.status != statusSuccess || c.id != want {
				tr.Fatalf("completions %+v", done)
			}
		}
		if len(done) != id-1 {
			tr.Fatalf("%d completions, not %d", len(done), id-1)
		}
		a.holds("READ", 4096*3, 4096, 5)
		a.holds("READ after WRITE", 81920, 3000, 6)
		a.holds("READ after inline WRITE", 90112, 48, 6)
		if n := b.do("get mr=0 off=8192").number(b, "is"); n != 4 {
			tr.Errorf("the counter is %d", n)
		}
		tr.row.Note = "READs and atomics beyond the depth of 4, fence, inline, unsignaled, zero bytes"
	})
}

// TestUD: datagrams, and their address handles.
func TestUD(t *testing.T) {
	for _, f := range []family{ipv4, ipv6} {
		eachRole(t, "Datagrams", "UD, with and without immediate", f, func(tr *trial, server, client *machine) {
			a, b := tr.pair(client, server, f, 1<<16, path{kind: typeUD})
			a.do("ah ah=0 gid=%s", b.gid)
			for i, size := range []int{0, 1, 2, 3, 4, 100, 1024, 4095, 4096} {
				for _, op := range []int{opSend, opSendImm} {
					a.do("fill mr=0 off=0 len=%d seed=%d", size, i)
					// behind a GRH of 40 bytes the data is at 8192
					b.do("recv qp=0 mr=0 off=8152 len=4136")
					a.do("send qp=0 ah=0 peer=%s op=%d mr=0 off=0 len=%d imm=%d", b.qpn[0], op, size, 77+i)
					a.polled("UD", statusSuccess)
					c := b.polled("UD", statusSuccess)
					if c.bytes != size+40 || op == opSendImm && (c.flags != withImm || c.extra != 77+i) {
						tr.Fatalf("UD of %d: completion %+v", size, c)
					}
					b.holds("UD", 8192, size, i)
				}
			}
			tr.row.Note = "0 to 4096 bytes behind the GRH"
		})
		eachRole(t, "Datagrams", "UD, wrong Q_Key", f, func(tr *trial, server, client *machine) {
			a, b := tr.pair(client, server, f, 1<<16, path{kind: typeUD})
			a.do("ah ah=0 gid=%s", b.gid)
			b.do("recv qp=0 id=1 mr=0 off=8152 len=4136")
			before := b.do("port").number(b, "qkey")
			for id, qkey := range []int{0x22222222, 0x11111111} {
				a.do("send qp=0 ah=0 peer=%s op=%d mr=0 len=%d qkey=%d", b.qpn[0], opSend, 8*(id+1), qkey)
				a.polled("UD", statusSuccess)
			}
			if c := b.polled("UD", statusSuccess); c.bytes != 40+16 {
				tr.Errorf("received %d bytes: that with the wrong Q_Key", c.bytes)
			}
			if n := b.do("port").number(b, "qkey") - before; n != 1 {
				tr.Errorf("the port counted %d", n)
			}
			tr.row.Note = "dropped, and counted in qkey_viol_cntr; the next with the right one arrives"
		})
	}
	for f, group := range map[family]netip.Addr{ipv4: netip.MustParseAddr("239.77.0.7"), ipv6: netip.MustParseAddr("ff0e::7777")} {
		eachRole(t, "Datagrams", "UD, multicast", f, func(tr *trial, server, client *machine) {
			if server.isKernel() {
				// rdma_rxe joins at the link only; its IP layer has to be told.
				address := fmt.Sprintf("%v/%d dev eth0", group, group.BitLen())
				if _, err := server.sh("ip addr add " + address + " autojoin"); err != nil {
					tr.Fatal(err)
				}
				defer func() {
					if _, err := server.sh("ip addr del " + address); err != nil {
						tr.Error(err)
					}
				}()
			}
			gid := hex.EncodeToString(group.AsSlice())
			if group.Is4() {
				gid = "00000000000000000000ffff" + gid
			}
			a, b := tr.pair(client, server, f, 1<<16, path{kind: typeUD})
			b.do("join qp=0 gid=%s", gid)
			a.do("ah ah=0 gid=%s", gid)
			a.do("fill mr=0 off=0 len=500 seed=3")
			b.do("recv qp=0 mr=0 off=8152 len=4136")
			a.do("send qp=0 ah=0 peer=%d op=%d mr=0 off=0 len=500", 0xffffff, opSend)
			a.polled("UD", statusSuccess)
			b.polled("UD", statusSuccess)
			b.holds("UD", 8192, 500, 3)
			tr.row.Note = "500 bytes to a group"
		})
	}
}

// TestSharedReceives: two queue pairs take from one shared receive queue.
func TestSharedReceives(t *testing.T) {
	eachFamily(t, "Atomics, order, forms of posting", "2 queue pairs, 1 shared receive queue", ipv4, func(tr *trial, server, client *machine) {
		a, b := tr.open(client, tr.row.Family, 1<<16), tr.open(server, tr.row.Family, 1<<16)
		b.do("srq")
		for qp := range 2 {
			join(a, b, qp, path{kind: typeRC, shared: true})
		}
		a.do("fill mr=0 off=0 len=3000 seed=7")
		for id := range 8 {
			b.do("recv srq=1 id=%d mr=0 off=%d len=4096", id, 4096*id)
		}
		for id := range 8 {
			a.do("send qp=%d id=%d op=%d mr=0 off=0 len=3000", id%2, id, opSend)
			a.polled("SEND", statusSuccess)
			if c := b.polled("SEND", statusSuccess); c.id != id {
				tr.Errorf("receive %d completes, not %d", c.id, id)
			}
			b.holds("SEND", 4096*id, 3000, 7)
		}
		tr.row.Note = "8 SENDs take the receives in order"
	})
}

// TestDepth: a requester with more READs than it may have outstanding.
func TestDepth(t *testing.T) {
	eachFamily(t, "Atomics, order, forms of posting", "8 READs at once, max_rd_atomic 3", ipv4, func(tr *trial, server, client *machine) {
		a, b := tr.pair(client, server, tr.row.Family, 1<<16, path{kind: typeRC, mtu: 256, more: "rd=3"})
		b.do("fill mr=0 off=0 len=4096 seed=5")
		for id := range 8 {
			a.begin("send qp=0 id=%d op=%d mr=0 off=%d len=4096 raddr=%d rkey=%s", id, opRead, 4096*(id+1), b.addr, b.rkey)
		}
		for range 8 {
			a.reply("a READ")
		}
		for id := range 8 {
			a.polled("READ", statusSuccess)
			a.holds("READ", 4096*(id+1), 4096, 5)
		}
		most, outstanding := 0, 0
		tr.collect()
		for _, p := range tr.packets {
			switch r, err := parseRoCE(p.data); {
			case r == nil || err != nil:
			case r.opcode() == wire.RCReadRequest:
				outstanding++
				most = max(most, outstanding)
			case r.opcode() == wire.RCReadResponseLast || r.opcode() == wire.RCReadResponseOnly:
				outstanding--
			}
		}
		switch {
		case most <= 3:
		case client.isKernel():
			tr.row.Settled = fmt.Sprintf("Asked for max_rd_atomic 3, it has up to %d READs outstanding.", most)
		default:
			tr.Errorf("%d READs outstanding", most)
		}
		tr.row.Note = "all of them"
	})
}
