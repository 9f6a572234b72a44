package plot

import (
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

// plotted collects a capture of testdata, and returns its lanes.
func plotted(t testing.TB, c *Collector, name string) (lanes []Lane) {
	t.Helper()
	f, err := os.Open("../../../testdata/pcaps/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := conformance.Read(f, conformance.Options{}, func(p *capture.Packet, v *conformance.Verdict) error {
		c.Add(p, v, Untouched)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Flows {
		lanes = append(lanes, Lane{Requests: f, Responses: f.Peer, Host: f.Src.String()})
	}
	return lanes
}

// TestBins: no value is lost, however long the capture becomes, and there are never too many bins.
func TestBins(t *testing.T) {
	var b bins
	random := rand.New(rand.NewPCG(1, 2))
	sum, most := uint64(0), uint64(0)
	for i := range 10_000 {
		v := random.Uint64N(1000)
		b.add(time.Duration(i*i)*time.Microsecond/7-time.Second, v) // also before the start
		sum, most = sum+v, max(most, v)
	}
	b.add(40*365*24*time.Hour, 5) // the clock jumps
	got := bin{}
	for _, x := range b.data().Bins {
		if x[0] >= maxBins {
			t.Errorf("there is a bin %d", x[0])
		}
		got.n, got.sum, got.most = got.n+x[1], got.sum+x[2], max(got.most, x[3])
	}
	if want := (bin{10_001, sum + 5, most}); got != want {
		t.Errorf("the bins have %v, want %v", got, want)
	}
}

// TestHistogram: percentiles are right to an eighth, and buckets meet without a gap.
func TestHistogram(t *testing.T) {
	for i := range 62*steps - 1 {
		if lower(i) >= lower(i+1) || bucket(lower(i)) != i || bucket(lower(i+1)-1) != i {
			t.Fatalf("bucket %d is from %d below %d", i, lower(i), lower(i+1))
		}
	}
	var h histogram
	var all []uint64
	random := rand.New(rand.NewPCG(3, 4))
	for range 9_999 {
		v := uint64(random.ExpFloat64() * 50_000)
		h.add(v)
		all = append(all, v)
	}
	slices.Sort(all)
	for _, p := range []uint64{1, 50, 90, 99, 100} {
		want := float64(all[(len(all)*int(p)+99)/100-1])
		if got := float64(h.percentile(p)); got < want || got > want*9/8+1 {
			t.Errorf("percentile %d is %.0f, want %.0f", p, got, want)
		}
	}
	if new(histogram).percentile(99) != 0 {
		t.Error("nothing has a percentile")
	}
}

// unpack reads what pack wrote.
func unpack(t *testing.T, p packed, spans bool) (marks []mark) {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(p.Points)
	if err != nil {
		t.Fatal(err)
	}
	signed := func() int64 {
		v, n := binary.Varint(b)
		b = b[n:]
		return v
	}
	unsigned := func() uint64 {
		v, n := binary.Uvarint(b)
		b = b[n:]
		return v
	}
	last := point{}
	for range p.Count {
		last.at += time.Duration(signed())
		last.psn += signed()
		last.number += int(signed())
		m := mark{last, last.at, last.psn}
		if spans {
			m.until, m.most = last.at+time.Duration(unsigned()), last.psn+int64(unsigned())
		}
		marks = append(marks, m)
	}
	if len(b) > 0 {
		t.Errorf("%d bytes are left", len(b))
	}
	return marks
}

// TestPack: the points come back in the order of time, and each level covers those below it.
func TestPack(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var l list
	for i := range 40_000 {
		l.add(point{time.Duration(random.Int64N(1e12)), random.Int64N(1 << 40), i})
	}
	p := l.pack(Again, 1000)
	points := unpack(t, p, false)
	if p.Kind != "again" || p.Seen != 40_000 || len(points) != 40_000 || len(p.Levels) != 2 {
		t.Fatalf("%s: %d seen, %d points, %d levels", p.Kind, p.Seen, len(points), len(p.Levels))
	}
	for i, m := range points {
		if was := l.points[i]; m.at != was.at || m.psn != was.psn+1000 || m.number != was.number || i > 0 && points[i-1].at > m.at {
			t.Fatalf("point %d is %v, was %v", i, m, was)
		}
	}
	finer := points
	for n, level := range p.Levels {
		marks := unpack(t, level, true)
		for i, m := range finer {
			if c := marks[i/group]; c.at > m.at || c.until < m.until || c.psn > m.psn || c.most < m.most {
				t.Fatalf("level %d: mark %v does not cover %v", n, c, m)
			}
		}
		finer = marks
	}
	if len(finer) > enough {
		t.Errorf("the coarsest level has %d marks", len(finer))
	}
}

// TestGoBackN: a chart has what the checker counts in the capture, in the order of PSNs, and
// messages last until their acknowledgement.
func TestGoBackN(t *testing.T) {
	var c Collector
	lanes := plotted(t, &c, "netem_corrupt2.pcap")
	d := c.Data(lanes, nil)
	if len(d.Lanes) != 1 || d.Thinned != 1 || d.Unseen != 0 {
		t.Fatalf("%d lanes, thinned %d, %d unseen", len(d.Lanes), d.Thinned, d.Unseen)
	}
	l, asks, answers := d.Lanes[0], &lanes[0].Requests.Stats, &lanes[0].Responses.Stats
	seen := make(map[string]int)
	for _, k := range l.Kinds {
		seen[k.Kind] = k.Count
		if uint64(k.Count) != k.Seen {
			t.Errorf("%s: %d of %d", k.Kind, k.Count, k.Seen)
		}
	}
	for kind, want := range map[string]uint64{
		"sent":  asks.Packets - asks.Retransmissions - asks.Duplicates,
		"again": asks.Retransmissions + asks.Duplicates, "nak": answers.NAKs, "rnr": 0,
	} {
		if uint64(seen[kind]) != want {
			t.Errorf("%d points are %s, want %d", seen[kind], kind, want)
		}
	}
	if got := uint64(seen["ack"] + seen["response"] + seen["nak"]); got != answers.Packets {
		t.Errorf("%d answers, want %d", got, answers.Packets)
	}
	if l.Messages != 45 || l.Took == nil || l.Took.Count != 45 {
		t.Fatalf("%d messages, %+v", l.Messages, l.Took)
	}
	if took := time.Duration(l.Took.Most); took < 39*time.Millisecond || took > 40*time.Millisecond {
		t.Errorf("the longest took %v", took)
	}
	bytes := uint64(0)
	for _, b := range l.Bytes.Bins {
		bytes += b[2]
	}
	if bytes != asks.Bytes {
		t.Errorf("%d bytes, want %d", bytes, asks.Bytes)
	}
}

// TestThinned: the points stay within their bound, what went wrong is dropped last, and the page
// says that there were more.
func TestThinned(t *testing.T) {
	c := Collector{MaxPoints: 700}
	lanes := plotted(t, &c, "netem_corrupt2.pcap")
	d := c.Data(lanes, nil)
	total := 0
	for _, k := range d.Lanes[0].Kinds {
		total += k.Count
		if k.Kind == "nak" && k.Count != 8 {
			t.Errorf("%d NAKs", k.Count)
		}
	}
	if total > 700 || total < 300 || d.Thinned < 2 {
		t.Errorf("%d points, one of %d", total, d.Thinned)
	}
}

// TestManyFlows: flows beyond the bound are counted.
func TestManyFlows(t *testing.T) {
	var c Collector
	for range MaxFlows + 3 {
		c.flow(new(conformance.Flow))
	}
	if d := c.Data(nil, nil); len(c.order) != MaxFlows || d.Unseen != 3 {
		t.Errorf("%d flows, %d unseen", len(c.order), d.Unseen)
	}
}

// TestBinsBegin: a series begins with its first value. The late part of a run is as fine as the
// early part.
func TestBinsBegin(t *testing.T) {
	var b bins
	b.add(10*time.Second, 1)
	b.add(10*time.Second+100*time.Microsecond, 2)
	b.add(time.Second, 4) // the clock went back
	if d := b.data(); d.Start != 10*time.Second || d.Width != time.Microsecond || len(d.Bins) != 2 || d.Bins[1] != [4]uint64{100, 1, 2, 2} || d.Bins[0][2] != 5 {
		t.Errorf("%+v", d)
	}
}

// TestDatagrams: nothing of a datagram is under way, because nothing acknowledges it.
func TestDatagrams(t *testing.T) {
	var c Collector
	sent := uint64(0)
	for _, l := range c.Data(plotted(t, &c, "udaddy.pcap"), nil).Lanes {
		sent += l.Messages
		if len(l.Depth.Bins) > 0 {
			t.Errorf("%v has work under way", l.Depth)
		}
	}
	if sent == 0 {
		t.Error("nothing was sent")
	}
}
