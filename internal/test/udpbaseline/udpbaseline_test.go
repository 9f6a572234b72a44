package udpbaseline

import (
	"net/netip"
	"testing"
)

func TestTransfer(t *testing.T) {
	for _, segment := range []int{1, 276, 1040, 4112, maxBytes} {
		p, err := New(segment)
		if err != nil {
			t.Fatal(err)
		}
		for _, total := range []int64{1, int64(segment), int64(3*p.Message() + 1), 4 * p.window} {
			if segment == 1 && total > 1000 {
				continue // a datagram per byte takes a while
			}
			if err := p.Transfer(total); err != nil {
				t.Fatal(err)
			}
		}
		p.Close()
	}
	for _, segment := range []int{0, -1, maxBytes + 1} {
		if _, err := New(segment); err == nil {
			t.Errorf("segment of %d bytes is accepted", segment)
		}
	}
}

func BenchmarkPlainUDP(b *testing.B) {
	for _, s := range []struct {
		name    string
		segment int
	}{{"1040", 1040}, {"4112", 4112}} {
		b.Run(s.name, func(b *testing.B) { Benchmark(b, s.segment, 1<<20) })
	}
}

func TestHalfRoundTrip(t *testing.T) {
	a, b := Loopback()
	d, err := HalfRoundTrip(34, 10, a, b)
	if err != nil || d <= 0 {
		t.Errorf("%v, %v", d, err)
	}
	if _, err := HalfRoundTrip(34, 10, a, End{Addr: netip.MustParseAddr("192.0.2.1")}); err == nil {
		t.Error("an address that no host has is accepted")
	}
}

func BenchmarkPlainUDPRoundTrip(b *testing.B) {
	x, y := Loopback()
	d, err := HalfRoundTrip(34, b.N, x, y)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(d.Nanoseconds()), "ns/half")
}
