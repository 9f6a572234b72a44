package bench

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestByItself measures copies, a doorbell and two accesses, as briefly as it can be done.
func TestByItself(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Self: []string{self}, Target: time.Millisecond}
	for _, b := range []baseline{copied, rung, accessed} {
		if us, err := b.measure(t.Context(), cfg, nil); err != nil || us <= 0 {
			t.Errorf("%s: %v µs, %v", b.name(), us, err)
		}
	}
}

// TestMonotonic: the clock that makes no system call has the kernel's time. So two processes agree
// on it.
func TestMonotonic(t *testing.T) {
	clock, err := newMonotonic()
	if err != nil {
		t.Fatal(err)
	}
	const slack = 100 * time.Microsecond // of readings whose calls were interrupted
	before, err1 := readClock(unix.CLOCK_MONOTONIC)
	at := time.Duration(clock.now())
	after, err2 := readClock(unix.CLOCK_MONOTONIC)
	if err1 != nil || err2 != nil || at < before-slack || at > after+slack {
		t.Errorf("%v is not between %v and %v (%v, %v)", at, before, after, err1, err2)
	}
}

// TestWhole: a call that moves less than it should is an error.
func TestWhole(t *testing.T) {
	if err := whole("call", callBytes, nil); err != nil {
		t.Error(err)
	}
	for _, err := range []error{whole("call", 1, nil), whole("call", -1, os.ErrPermission)} {
		if err == nil {
			t.Error("no error")
		}
	}
}

// TestLeast: what a row takes at least grows with its bytes, and is more for two daemons.
func TestLeast(t *testing.T) {
	r := run{udp: map[baseline]*Series{}}
	for _, row := range Rows() {
		for _, p := range row.leasts() {
			if r.udp[p.of] == nil {
				r.udp[p.of] = &Series{}
				r.udp[p.of].add(float64(10 + p.of.segment))
			}
		}
	}
	for _, test := range []struct {
		row  Row
		want float64
	}{
		{Row{Place: OneDaemon, Kind: Bandwidth, Size: 64 << 10, MTU: 1024}, 10},
		{Row{Place: OneRun, Kind: Bandwidth, Size: 4 << 10, MTU: 4096}, 10. / 16},
		{Row{Place: TwoDaemons, Kind: Bandwidth, Size: 1 << 20, MTU: 4096}, 16 * (10 + 10 + 4096 + 16)},
		{Row{Place: TwoDaemons, Kind: Messages, Size: 8, MTU: 4096}, 0},
		{Row{Place: OneRun, Tool: "ib_write_lat", Kind: Latency, Size: 2, MTU: 4096}, 10},
		{Row{Place: TwoDaemons, Tool: "ib_send_lat", Kind: Latency, Size: 2, MTU: 4096}, 10 + 10 + 2 + writeOverhead},
		{Row{Place: OneRun, Tool: "ib_read_lat", Kind: Latency, Size: 8, MTU: 4096}, 10},
		{Row{Place: OneDaemon, Tool: atomicLat, Kind: Latency, Size: 8, MTU: 4096}, 15},
		{Row{Place: TwoDaemons, Tool: "ib_read_lat", Kind: Latency, Size: 8, MTU: 4096}, 10 + 2*(10+8+writeOverhead)},
	} {
		res := &Result{Row: test.row}
		if res.fillLeast(&r); res.Least != test.want {
			t.Errorf("%s: %v, want %v", test.row.Name(), res.Least, test.want)
		}
	}
}
