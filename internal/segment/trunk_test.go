package segment

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/rxe"
)

// far is another process's segment. It takes some frames of each batch.
type far struct {
	batches []int
	frames  [][]byte
	most    int
}

func (f *far) Send(frames [][]byte) int {
	f.batches = append(f.batches, len(frames))
	n := min(len(frames), f.most)
	for _, b := range frames[:n] {
		f.frames = append(f.frames, bytes.Clone(b))
	}
	return n
}

func (f *far) took() string {
	defer func() { f.batches, f.frames = nil, nil }()
	return fmt.Sprint(f.batches)
}

// TestTrunk: what stations of another segment get goes there, in one batch, and nothing goes from
// one trunk to another.
func TestTrunk(t *testing.T) {
	var s Segment
	var seen tap
	a := newNode(t, &s, 1)
	x, y := &far{most: 100}, &far{most: 100}
	tx, ty := s.Connect(x), s.Connect(y)
	there := [6]byte{2, 9, 9, 9, 9, 9}
	send := func(dst [6]byte, n int) {
		var frames []rxe.FrameOut
		for i := range n {
			frames = append(frames, rxe.FrameOut{Data: frameOf(dst, a.mac, 0x88, 0xb5, byte(i))})
		}
		a.SendFrames(nil, frames)
	}
	send(there, 3)
	if gx, gy := x.took(), y.took(); gx != "[3]" || gy != "[3]" {
		t.Errorf("to nobody known: %s, %s", gx, gy)
	}
	s.Capture(&seen)
	if !tx.Arrive(frameOf(a.mac, there, plain...)) || a.own.took() != 1 || len(seen) != 1 || a.wakes == 0 {
		t.Error("a frame from there does not arrive, wakes nobody, or is not captured")
	}
	send(there, 2)
	if gx, gy := x.took(), y.took(); gx != "[2]" || gy != "[]" {
		t.Errorf("to a known one: %s, %s", gx, gy)
	}
	send(a.mac, 1)
	if gx, gy := x.took(), y.took(); gx != "[]" || gy != "[]" || a.own.took() != 1 {
		t.Errorf("to a station here: %s, %s", gx, gy)
	}
	for _, dst := range [][6]byte{{255, 255, 255, 255, 255, 255}, {2, 7}, there} {
		ty.Arrive(frameOf(dst, [6]byte{2, 8}, plain...))
	}
	if gx, gy := x.took(), y.took(); gx != "[]" || gy != "[]" {
		t.Errorf("from one trunk to another: %s, %s", gx, gy)
	}
	tx.Leave()
	send(there, 1)
	if gx, gy := x.took(), y.took(); gx != "[]" || gy != "[1]" {
		t.Errorf("after one has left: %s, %s", gx, gy)
	}
	y.most = 2
	send(there, 5)
	if n := a.Counters.NotTaken.Load(); n != 3 {
		t.Errorf("%d frames were not taken", n)
	}
	if ty.Arrive(make([]byte, 13)) || ty.Arrive(make([]byte, rxe.MaxFrame+1)) {
		t.Error("14 bytes are the least, and MaxFrame the most")
	}
}

// TestTrunkOffloads: frames that are built here leave as they are on a wire, also several of one
// batch.
func TestTrunkOffloads(t *testing.T) {
	var s Segment
	a, b := newNode(t, &s, 1), newNode(t, &s, 2)
	b.promiscuous(t)
	x := &far{most: 100}
	s.Connect(x)
	to := [6]byte{2, 9, 9, 9, 9, 9}
	a.SendFrames(nil, []rxe.FrameOut{
		{Data: frameOf(to, a.mac, plain...)},
		{Data: frameOf(to, a.mac, plain...), As: rxe.FrameSend{Flags: rxe.FrameInsertVLAN, VLAN: 7}},
		{Data: udp(to, a.mac), As: rxe.FrameSend{Flags: rxe.FrameInsertVLAN | rxe.FrameL3Sum | rxe.FrameL4Sum, VLAN: 8}},
		{Data: tcp(to, a.mac, make([]byte, 2500)), As: rxe.FrameSend{MSS: 1000, Header: tcpHead}},
		{Data: frameOf(to, a.mac, plain...)},
	})
	if len(x.frames) != 7 || len(b.all.frames) != 7 {
		t.Fatalf("%d frames leave, and %d arrive here", len(x.frames), len(b.all.frames))
	}
	for i, f := range x.frames {
		if !bytes.Equal(f, b.all.frames[i]) {
			t.Errorf("frame %d leaves as % x, and arrives here as % x", i, f, b.all.frames[i])
		}
	}
}

// TestKeep: a segment that is kept stays without stations, so that others can be joined to it.
func TestKeep(t *testing.T) {
	var u Users
	s := u.Keep("ann")
	st := must.Get[*Station](t)(u.Station("ann", 1, func() (Config, error) { return Config{}, nil }))
	if st.segment != s {
		t.Error("a station is on another segment")
	}
	st.Release()
	if u.Keep("ann") != s {
		t.Error("the segment is gone")
	}
}

// TestAllocations: frames between segments cost no memory.
func TestAllocations(t *testing.T) {
	if race.Enabled { // a sync.Pool forgets some of what it has then
		return
	}
	var s Segment
	a := newNode(t, &s, 1)
	to := s.Connect(nowhere{})
	out := []rxe.FrameOut{{Data: frameOf([6]byte{2, 9, 9, 9, 9, 9}, a.mac, plain...)}}
	in := frameOf([6]byte{2, 7}, [6]byte{2, 9, 9, 9, 9, 9}, plain...)
	for name, f := range map[string]func(){
		"out": func() { a.SendFrames(nil, out) },
		"in":  func() { to.Arrive(in) },
	} {
		if n := testing.AllocsPerRun(1000, f); n >= 1 {
			t.Errorf("%s: %v allocations of a frame", name, n)
		}
	}
}

type nowhere struct{}

func (nowhere) Send(frames [][]byte) int { return len(frames) }
