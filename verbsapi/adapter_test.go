package verbsapi

import (
	"errors"
	"strings"
	"testing"
)

// TestLike: a device has the numbers, limits and speed of the adapter that Config names, and works
// with a Soft-RoCE device.
func TestLike(t *testing.T) {
	x, y := openTest(t, Config{Like: "connectx6"}), openTest(t, Config{})
	attr := must(x.QueryDevice())(t)
	if attr.VendorID != 0x02c9 || attr.VendorPartID != 4123 || attr.MaxQPWR != 32768 || attr.Cap&CapXRC == 0 || attr.Cap&CapAtomicWrite != 0 {
		t.Errorf("%+v", attr)
	}
	if d := x.Device(); d.Name() != "mlx5_0" || d.Mbps() != 200000 {
		t.Errorf("%s with %d Mb/s", d.Name(), d.Mbps())
	}
	if port := must(x.QueryPort(1))(t); port.ActiveSpeed == must(y.QueryPort(1))(t).ActiveSpeed {
		t.Errorf("%+v", port)
	}
	a, b := pair(t, x, y, endConfig{bufSize: 64}, ConnectAttr{})
	copy(a.buf, "from an adapter")
	a.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 16)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	a.expect(testContext(t), 1, WCSuccess)
	if string(b.buf[:15]) != "from an adapter" {
		t.Errorf("the peer has %q", b.buf)
	}
}

// TestLikeRefused: what is unknown or contradicts itself is refused with the word at fault.
func TestLikeRefused(t *testing.T) {
	all, addr := DefaultLimits(), testAddr()
	openTest(t, Config{Address: addr, Like: "connectx7-400g"})
	for _, tt := range []struct {
		cfg  Config
		kind error
		want string
	}{
		{Config{Like: "connectx"}, ErrInvalid, `"connectx" is no profile`},
		{Config{Like: "connectx6+no-ud"}, ErrInvalid, `"no-ud" is no quirk`},
		{Config{Like: "connectx6", Limits: &all}, ErrInvalid, "limits"},
		{Config{Address: addr, Like: "connectx6"}, ErrBusy, "like"},
	} {
		c, err := Open(tt.cfg)
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %s", tt.cfg, err, tt.want)
		}
	}
	openTest(t, Config{Address: addr, Like: "connectx7-400g+gids-move"}) // which it does anyway
	openTest(t, Config{Address: addr})
}

// TestNoUC: an adapter without UC refuses such a queue pair, and has the others.
func TestNoUC(t *testing.T) {
	for like, want := range map[string]error{"connectx6+no-uc": ErrNotSupported, "connectx6+uc": nil} {
		x := openTest(t, Config{Like: like})
		pd, cq := must(x.AllocPD())(t), must(x.CreateCQ(1, nil))(t)
		if _, err := pd.CreateQP(QPInitAttr{Type: QPUC, SendCQ: cq, RecvCQ: cq}); !errors.Is(err, want) {
			t.Errorf("%s: UC: %v, want %v", like, err, want)
		}
		for _, typ := range []QPType{QPRC, QPUD, QPXRCIni} {
			must(pd.CreateQP(QPInitAttr{Type: typ, SendCQ: cq, RecvCQ: cq}))(t)
		}
	}
}

// TestResetEinval: an adapter with that quirk refuses RESET in RESET, and takes it in other states.
func TestResetEinval(t *testing.T) {
	for like, want := range map[string]error{"connectx6+reset-einval": ErrInvalid, "connectx6": nil} {
		x := openTest(t, Config{Like: like})
		pd, cq := must(x.AllocPD())(t), must(x.CreateCQ(1, nil))(t)
		qp := must(pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: cq, RecvCQ: cq}))(t)
		reset := QPAttr{State: QPReset}
		if err := qp.Modify(&reset, QPAttrState); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", like, err, want)
		}
		init := QPAttr{State: QPInit, PortNum: 1}
		if err := qp.Modify(&init, QPAttrState|QPAttrPKeyIndex|QPAttrPort|QPAttrAccessFlags); err != nil {
			t.Errorf("%s: INIT: %v", like, err)
		}
		if err := qp.Modify(&reset, QPAttrState); err != nil {
			t.Errorf("%s: RESET from INIT: %v", like, err)
		}
	}
}

// TestGIDsMove: with that quirk a GID has another index each time the port comes back, with the
// event, and a connected queue pair goes on.
func TestGIDsMove(t *testing.T) {
	for like, places := range map[string][]int{"connectx6+gids-move": {1, 2, 1}, "connectx7-400g": {1, 2, 1}, "connectx7-400g+gids-stay": {1, 1, 1}} {
		ctx := testContext(t)
		x := openTest(t, Config{Like: like})
		a, b := pair(t, x, x, endConfig{bufSize: 64}, ConnectAttr{})
		gid := must(x.QueryGID(1, 1))(t)
		first := must(x.QueryGID(1, 0))(t)
		for flap, want := range places {
			if flap > 0 {
				id := must(x.AddFaults(faults(t, "port down,scope=device")...))(t)
				await := func(want ...EventType) {
					for _, e := range want {
						for got := EventType(0); got != e; {
							ev := must(x.GetAsyncEvent(ctx))(t)
							ev.Ack()
							got = ev.Type
						}
					}
				}
				await(EventPortErr)
				must(x.RemoveFaults(id))(t)
				if places[flap] != places[flap-1] {
					await(EventGIDChange)
				}
				await(EventPortActive)
			}
			for index := range 3 {
				got := must(x.QueryGID(1, index))(t)
				if want := map[bool]GID{true: gid}[index == want]; index > 0 && got != want || index == 0 && got != first {
					t.Errorf("%s: after %d flaps GID %d is %v", like, flap, index, got)
				}
			}
			a.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 16)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			a.expect(ctx, 1, WCSuccess)
		}
	}
}
