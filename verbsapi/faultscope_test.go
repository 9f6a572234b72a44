package verbsapi

import (
	"testing"
)

// TestFaultsElsewhere: a queue pair that no rule may concern goes its fast ways, whatever rules
// others have.
func TestFaultsElsewhere(t *testing.T) {
	addr := testAddr()
	x, y := openTest(t, Config{Address: addr}), openTest(t, Config{Address: addr})
	a, b := pair(t, x, x, endConfig{}, ConnectAttr{Timeout: patient})
	c, d := pair(t, y, y, endConfig{}, ConnectAttr{Timeout: patient})
	mixed, peer := pair(t, x, y, endConfig{}, ConnectAttr{Timeout: patient})
	link := x.eng.faults
	for _, row := range []struct {
		rule             string
		own, both, other bool
	}{
		{"packet drop,psn=77,qp=0x123456", false, false, false},
		{"packet drop,psn=77", true, true, false},
		{"packet drop,psn=77,direction=in", true, false, false},
		{"packet drop,qp=UD", false, false, false},
		{"packet drop,psn=77,scope=device", true, true, true},
		{"packet drop,label=nobody,scope=device", false, false, false},
		{"port down,after=1h,scope=device", false, false, false},
		{"verb delay,verb=create_qp,time=1ms", false, false, false},
	} {
		id := must(x.AddFaults(faults(t, row.rule)...))(t)
		own, both := link.Concerns(a.qp.Num(), b.qp.Num()), link.Concerns(mixed.qp.Num(), peer.qp.Num())
		if other := link.Concerns(c.qp.Num(), d.qp.Num()); own != row.own || both != row.both || other != row.other {
			t.Errorf("%s concerns the owner's queue pairs: %v, one to another program: %v, those of others: %v", row.rule, own, both, other)
		}
		must(x.RemoveFaults(id))(t)
	}
}

// TestFaultsTogether: rules that do not lose a packet all act on it.
func TestFaultsTogether(t *testing.T) {
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			x, y := p.open(t)
			must(x.AddFaults(faults(t, "packet delay,time=2ms,opcode=RC_RDMA_WRITE_ONLY", "packet duplicate,opcode=RC_RDMA_WRITE_ONLY",
				"packet corrupt,field=se,opcode=RC_RDMA_WRITE_ONLY", "packet mark,opcode=RC_RDMA_WRITE_ONLY")...))(t)
			a, b := pair(t, x, y, endConfig{}, ConnectAttr{Timeout: patient})
			a.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			a.expect(testContext(t), 1, WCSuccess)
			for _, s := range x.Faults() {
				if s.Fired != 1 {
					t.Errorf("%+v", s)
				}
			}
			// The copy arrives behind the WRITE, and may come after its acknowledgement.
			a.post(SendWR{ID: 2, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			a.expect(testContext(t), 2, WCSuccess)
			if b.counter("duplicates") == 0 {
				t.Error("the packet arrived once")
			}
		})
	}
}

// BenchmarkFaultsElsewhere: WRITEs of one program beside the rules of another.
func BenchmarkFaultsElsewhere(b *testing.B) {
	const size = 64 << 10
	addr := testAddr()
	x, y := openTest(b, Config{Address: addr}), openTest(b, Config{Address: addr})
	from, to := pair(b, y, y, endConfig{bufSize: size}, ConnectAttr{Timeout: patient, PathMTU: 4096})
	ctx := testContext(b)
	for name, rules := range map[string][]string{"none": nil, "other": {"packet drop,psn=77"}, "all": {"packet drop,psn=77,scope=device"}} {
		b.Run(name, func(b *testing.B) {
			id := must(x.AddFaults(faults(b, rules...)...))(b)
			b.SetBytes(size)
			for b.Loop() {
				from.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{from.mr.SGE(0, size)}, RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey()})
				from.expect(ctx, 1, WCSuccess)
			}
			if len(rules) > 0 {
				must(x.RemoveFaults(id))(b)
			}
		})
	}
}
