package rxe

import "testing"

// lanes and gbps are what the codes stand for (IBA 14.2.5.6, PortInfo).
var (
	lanes = map[uint8]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
	gbps  = map[uint32]float64{1: 2.5, 2: 5, 4: 10, 8: 10, 16: 14, 32: 25, 64: 50, 128: 100, 256: 200}
)

func TestLinkSpeeds(t *testing.T) {
	last := 0
	for _, s := range LinkSpeeds() {
		if got := float64(lanes[s.Width]) * gbps[s.Lane] * 1000; int(got) != s.Mbps {
			t.Errorf("%+v is %v Mb/s", s, got)
		}
		if s.Mbps <= last {
			t.Errorf("%+v is not above %d Mb/s", s, last)
		}
		last = s.Mbps
		if LinkSpeedFor(s.Mbps) != s {
			t.Errorf("%d Mb/s becomes %+v", s.Mbps, LinkSpeedFor(s.Mbps))
		}
	}
}

// TestLinkSpeedFor: what Linux makes of an interface's speed
// (drivers/infiniband/core/verbs.c: ib_get_width_and_speed).
func TestLinkSpeedFor(t *testing.T) {
	for mbps, want := range map[int]LinkSpeed{
		0:       {2500, 1, 1},
		1000:    {2500, 1, 1},
		2500:    {2500, 1, 1},
		10000:   {10000, 1, 8},
		20000:   {20000, 2, 2},
		25000:   {25000, 1, 32},
		40000:   {40000, 2, 8},
		100000:  {100000, 2, 32},
		200000:  {200000, 2, 64},
		400000:  {400000, 2, 128},
		800000:  {800000, 2, 256},
		9999999: {2400000, 8, 256},
	} {
		if got := LinkSpeedFor(mbps); got != want {
			t.Errorf("%d Mb/s: %+v, want %+v", mbps, got, want)
		}
	}
}

func TestSetSpeed(t *testing.T) {
	d := newObjDev(t)
	if a := d.QueryPort(); a.ActiveWidth != 1 || a.ActiveSpeed != 1 || a.ActiveSpeedEx != 1 {
		t.Errorf("nobody has said a speed: %+v", a)
	}
	for _, tt := range []struct {
		mbps          int
		width, legacy uint8
		lane          uint32
	}{{40000, 2, 8, 8}, {400000, 2, 128, 128}, {800000, 2, 128, 256}} {
		d.SetSpeed(LinkSpeedFor(tt.mbps))
		d.SetSpeed(LinkSpeedFor(tt.mbps))
		if tt.mbps == 40000 {
			d.wantNoEvent()
		} else {
			d.wantEvent(Event{Type: EventDeviceSpeedChange, Port: 1})
		}
		if a := d.QueryPort(); a.ActiveWidth != tt.width || a.ActiveSpeed != tt.legacy || a.ActiveSpeedEx != tt.lane || a.Mbps != tt.mbps {
			t.Errorf("%d Mb/s: %+v", tt.mbps, a)
		}
	}
}
