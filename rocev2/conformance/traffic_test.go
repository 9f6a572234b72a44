package conformance

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/wire"
)

// traffic is a pcap file that is made while it is read: WRITEs of several packets
// between many pairs of queue pairs, each with its acknowledgement.
type traffic struct {
	left    int // packets
	payload int
	qps     int
	strange bool // every packet to a queue pair of its own
	seq     int
	psn     []wire.PSN
	msn     []uint32
	out     []byte
	states  [2]wire.ICRCState
	buf     []byte
}

const trafficRun = 16 // packets of a WRITE

func newTraffic(packets, payload, qps int) *traffic {
	tr := &traffic{left: packets, payload: payload, qps: qps, psn: make([]wire.PSN, qps), msn: make([]uint32, qps)}
	for i := range tr.psn {
		tr.psn[i] = wire.PSN(0x100000 + 0x30000*i&0x7fffff)
	}
	tr.states[0] = wire.NewICRC(&wire.Route{Src: sceneA, Dst: sceneB, SrcPort: 0xc123}, wire.UDPPort)
	tr.states[1] = wire.NewICRC(&wire.Route{Src: sceneB, Dst: sceneA, SrcPort: 0xc123}, wire.UDPPort)
	tr.out = binary.LittleEndian.AppendUint32(nil, 0xa1b23c4d)
	tr.out = append(tr.out, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0)
	return tr
}

func (tr *traffic) Read(b []byte) (int, error) {
	for len(tr.out) < len(b) && tr.left > 0 {
		tr.add()
	}
	if len(tr.out) == 0 {
		return 0, io.EOF
	}
	n := copy(b, tr.out)
	tr.out = tr.out[:copy(tr.out, tr.out[n:])]
	return n, nil
}

// add appends the next packet.
func (tr *traffic) add() {
	step, qp := tr.seq%(trafficRun+1), tr.seq/(trafficRun+1)%tr.qps
	tr.left--
	tr.seq++
	h := wire.Headers{PKey: wire.DefaultPKey, DestQP: wire.QPN(0x1000 + qp), PSN: tr.psn[qp]}
	if tr.strange {
		h.DestQP = wire.QPN(tr.seq & wire.QPNMask)
	}
	n, from := tr.payload, 0
	switch step {
	case trafficRun:
		h.Opcode, h.DestQP, h.PSN, n, from = wire.RCAck, h.DestQP+0x1000, h.PSN.Sub(1), 0, 1
		h.Syndrome, h.MSN = wire.SyndromeACK, wire.MSN(tr.msn[qp])
	case 0:
		h.Opcode, h.VA, h.DMALen = wire.RCWriteFirst, 0x10000, uint32(trafficRun*tr.payload)
	case trafficRun - 1:
		h.Opcode, h.AckReq = wire.RCWriteLast, true
		tr.msn[qp]++
	default:
		h.Opcode = wire.RCWriteMiddle
	}
	if from == 0 {
		tr.psn[qp] = tr.psn[qp].Next()
	}
	body := h.Append(tr.buf[:0])
	body = append(body, zeros[:n+wire.ICRCLen]...)
	tr.buf = body
	tr.states[from].Put(body, 0)
	length := 14 + 28 + len(body)
	at := uint64(tr.seq) * 1000
	o := binary.LittleEndian
	for _, v := range []uint64{1700000000 + at/1e9, at % 1e9, uint64(length), uint64(length)} {
		tr.out = o.AppendUint32(tr.out, uint32(v))
	}
	tr.out = append(tr.out, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, byte((length-14)>>8), byte(length-14), 0, 0, 0x40, 0, 64, 17)
	check := len(tr.out)
	src, dst := sceneA.As4(), sceneB.As4()
	if from == 1 {
		src, dst = dst, src
	}
	tr.out = append(tr.out, 0, 0)
	tr.out = append(tr.out, src[:]...)
	tr.out = append(tr.out, dst[:]...)
	sum := uint32(0)
	for i := check - 10; i < check+10; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(tr.out[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(tr.out[check:], ^uint16(sum>>16+sum))
	tr.out = append(tr.out, 0xc1, 0x23, 0x12, 0xb7, byte((length-34)>>8), byte(length-34), 0, 0)
	tr.out = append(tr.out, body...)
}

var zeros [8192]byte

// heap is the memory in use, in bytes.
func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapSys - m.HeapReleased
}

// TestMemory: a capture of ten million packets needs little memory, and so does one
// with a different queue pair in every packet.
func TestMemory(t *testing.T) {
	n := 10_000_000
	if race.Enabled {
		n = 100_000
	}
	const limit = 200 << 20
	// More queue pairs than can keep full histories.
	tr := newTraffic(n, 256, 500)
	r, err := Check(tr, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if int(r.Packets) != n || r.Violations+r.Warnings+r.Notes > 0 || len(r.Flows) != 1000 {
		t.Errorf("%d packets, %d flows, findings %.3v", r.Packets, len(r.Flows), r.Findings)
	}
	used := heap()
	t.Logf("%d packets: %d MiB", n, used>>20)
	if used > limit {
		t.Errorf("%d MiB", used>>20)
	}
	strangers := max(n/50, 3*defaultMaxFlows)
	tr = newTraffic(strangers, 256, 1)
	tr.strange = true
	if r, err = Check(tr, Options{}); err != nil {
		t.Fatal(err)
	}
	if used = heap(); used > limit {
		t.Errorf("a queue pair for each packet: %d MiB", used>>20)
	}
	t.Logf("%d queue pairs: %d MiB, %d forgotten", strangers, used>>20, r.Forgotten)
	if len(r.Flows) > defaultMaxFlows || r.Forgotten == 0 || len(r.Findings) > MaxFindings {
		t.Errorf("%d flows, %d forgotten, %d findings", len(r.Flows), r.Forgotten, len(r.Findings))
	}
}

// TestAllocations: in steady state, a packet costs no allocation.
func TestAllocations(t *testing.T) {
	l := load(t, "traffic", trafficFile(t, 20000, 256))
	c, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	next := func() {
		c.Add(&l.packets[i])
		i++
	}
	for range 10000 {
		next()
	}
	if n := testing.AllocsPerRun(5000, next); n > 0 {
		t.Errorf("%v allocations for a packet", n)
	}
}

func trafficFile(t testing.TB, packets, payload int) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := io.Copy(&b, newTraffic(packets, payload, 16)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// cpuTime is what this process has used.
func cpuTime(t testing.TB) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkCheck judges a file in memory, of packets of 256 bytes to 4 KiB. On a busy
// machine, compare the CPU time.
func BenchmarkCheck(b *testing.B) {
	for _, payload := range []int{256, 1024, 4096} {
		b.Run(bytesSeen(payload), func(b *testing.B) {
			const packets = 34000
			file := trafficFile(b, packets, payload)
			b.SetBytes(int64(payload))
			b.ReportAllocs()
			b.ResetTimer()
			began := cpuTime(b)
			done := 0
			for ; done < b.N; done += packets {
				r, err := Check(bytes.NewReader(file), Options{})
				if err != nil || r.Of("icrc").Total() > 0 {
					b.Fatal(err, r)
				}
			}
			each := float64(cpuTime(b)-began) / float64(done)
			b.ReportMetric(each, "cpu-ns/packet")
			b.ReportMetric(1000/each, "Mpackets/cpu-s")
		})
	}
}
