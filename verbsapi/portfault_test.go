package verbsapi

import (
	"context"
	"testing"
)

// portEvents returns the next n events of the port.
func portEvents(ctx context.Context, t *testing.T, c *Context, n int) (list []EventType) {
	t.Helper()
	for len(list) < n {
		ev := must(c.GetAsyncEvent(ctx))(t)
		ev.Ack()
		switch ev.Type {
		case EventPortErr, EventPortActive, EventGIDChange:
			list = append(list, ev.Type)
		default:
		}
	}
	return list
}

func wantEvents(t *testing.T, got []EventType, want ...EventType) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("events %v, want %v", got, want)
			return
		}
	}
}

// TestPortDown: the port is down, its packets are lost, and a WRITE that began meanwhile ends when
// the port is up again.
func TestPortDown(t *testing.T) {
	for _, p := range peers[:2] {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			x, y := p.open(t)
			a, b := pair(t, x, y, endConfig{}, ConnectAttr{Timeout: hasty})
			ctx := testContext(t)
			id := must(x.AddFaults(faults(t, "port down,scope=device")...))(t)
			wantEvents(t, portEvents(ctx, t, x, 1), EventPortErr)
			if attr := must(x.QueryPort(1))(t); attr.State != PortDown {
				t.Errorf("the port is %v", attr.State)
			}
			a.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 100)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			if s := must(x.RemoveFaults(id))(t)[0]; s.Fired != 1 || s.First == nil {
				t.Errorf("%+v", s)
			}
			wantEvents(t, portEvents(ctx, t, x, 1), EventPortActive)
			a.expect(ctx, 1, WCSuccess)
			if a.counter("timeouts") == 0 {
				t.Error("the packets of a port that was down were not lost")
			}
			if attr := must(x.QueryPort(1))(t); attr.State != PortActive {
				t.Errorf("the port is %v", attr.State)
			}
		})
	}
}

// TestPortFlap: a port that goes down again and again has an event for each time.
func TestPortFlap(t *testing.T) {
	x := openTest(t, Config{})
	ctx := testContext(t)
	must(x.AddFaults(faults(t, "port down,time=5ms,times=3,scope=device,after=10ms")...))(t)
	wantEvents(t, portEvents(ctx, t, x, 6), EventPortErr, EventPortActive, EventPortErr, EventPortActive, EventPortErr, EventPortActive)
	if s := x.Faults()[0]; s.Fired != 3 {
		t.Errorf("%+v", s)
	}
}

// TestPortGIDAndSpeed: a port lacks a GID, or has another speed, as long as the rule is in force.
func TestPortGIDAndSpeed(t *testing.T) {
	x := openTest(t, Config{})
	ctx := testContext(t)
	gid, before := must(x.QueryGID(1, 0))(t), must(x.QueryPort(1))(t)
	id := must(x.AddFaults(faults(t, "port gid_removed,gid=0,time=1h,scope=device", "port speed,gbps=100,time=1h,scope=device")...))(t)
	wantEvents(t, portEvents(ctx, t, x, 1), EventGIDChange)
	if got := must(x.QueryGID(1, 0))(t); !got.IsZero() {
		t.Errorf("GID 0 is %v", got)
	}
	if got := must(x.QueryPort(1))(t); got.Mbps < 100_000 || got.Mbps == before.Mbps {
		t.Errorf("the speed is %d Mb/s", got.Mbps)
	}
	must(x.RemoveFaults(id, id+1))(t)
	wantEvents(t, portEvents(ctx, t, x, 1), EventGIDChange)
	if got := must(x.QueryGID(1, 0))(t); got != gid {
		t.Errorf("GID 0 is %v, and was %v", got, gid)
	}
	if got := must(x.QueryPort(1))(t); got.Mbps != before.Mbps {
		t.Errorf("the speed is %d Mb/s, and was %d", got.Mbps, before.Mbps)
	}
}
