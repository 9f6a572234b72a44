package hostile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/netns"
	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/verbsapi"
	"github.com/gorxe/gorxe/verbsapi/verbstest"
	"github.com/gorxe/gorxe/wire"
	"golang.org/x/sys/unix"
)

// floodRole sends packets to an address until its input ends, and then says how many and how
// long: "ADDRESS random" to random queue pairs, "ADDRESS N" to queue pair N.
func floodRole(args []string) error {
	dst, err := netip.ParseAddr(args[0])
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: dst.As4(), Port: wire.UDPPort}); err != nil {
		return err
	}
	fixed, err := strconv.ParseUint(args[1], 0, 24)
	random := err != nil
	h := wire.Headers{Opcode: wire.RCSendOnly, PKey: wire.DefaultPKey}
	pkt := append(h.Append(nil), make([]byte, 64+wire.ICRCLen)...)
	// One call sends many packets.
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, len(pkt)); err != nil {
		return err
	}
	const burst = 50
	packets := bytes.Repeat(pkt, burst)
	done := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // its end is all that counts
		close(done)
	}()
	start, sent := time.Now(), 0
	fmt.Println("started")
	for {
		select {
		case <-done:
			fmt.Println(sent, time.Since(start).Seconds())
			return nil
		default:
		}
		for at := 0; at < len(packets); at += len(pkt) {
			n := uint32(fixed)
			if random {
				n = rand.Uint32()
			}
			binary.BigEndian.PutUint32(packets[at+4:], n&wire.QPNMask)
		}
		if _, err := unix.Write(fd, packets); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return err
		}
		sent += burst
	}
}

// A flood is a process that sends packets.
type flood struct {
	in  io.Closer
	out *bufio.Reader
	cmd *exec.Cmd
}

// startFlood starts a flood on a host, and returns when it has begun.
func startFlood(t testing.TB, from *netns.Host, to netip.Addr, qpn string) *flood {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", to.String(), qpn)
	cmd.Env = append(os.Environ(), roleEnv+"=flood")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must.OK(t, err)
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, from.Do(cmd.Start))
	f := &flood{in, bufio.NewReader(out), cmd}
	if line, err := f.out.ReadString('\n'); line != "started\n" {
		t.Fatalf("the flood says %q: %v", line, err)
	}
	return f
}

// stop ends the flood and returns its packets and its rate.
func (f *flood) stop(t testing.TB) (packets int, rate float64) {
	t.Helper()
	must.OK(t, f.in.Close())
	line, err := f.out.ReadString('\n')
	must.OK(t, err)
	must.OK(t, f.cmd.Wait())
	var seconds float64
	if _, err := fmt.Sscan(strings.TrimSpace(line), &packets, &seconds); err != nil {
		t.Fatal(err)
	}
	return packets, float64(packets) / seconds
}

// hosts are an honest client and server, and a stranger that reaches the server.
type hosts struct {
	client, server, stranger *netns.Host
	clientAddr, serverAddr   netip.Addr
}

func newHosts(t testing.TB) *hosts {
	t.Helper()
	var h hosts
	for _, p := range []**netns.Host{&h.client, &h.server, &h.stranger} {
		host, err := netns.New()
		if err != nil {
			testenv.Missing(t, "%v", err)
		}
		t.Cleanup(host.Close)
		*p = host
	}
	must.OK(t, netns.Cable(h.client, h.server, 4500, netip.MustParsePrefix("10.71.0.1/24"), netip.MustParsePrefix("10.71.0.2/24")))
	must.OK(t, h.server.IP("link set eth0 down"))
	must.OK(t, h.server.IP("link set eth0 name eth1"))
	must.OK(t, h.server.IP("link set eth1 up"))
	must.OK(t, netns.Cable(h.stranger, h.server, 4500, netip.MustParsePrefix("10.72.0.1/24"), netip.MustParsePrefix("10.72.0.2/24")))
	// as a network card: packets arrive one by one
	must.OK(t, h.stranger.IP("link set eth0 gso_max_segs 1"))
	must.OK(t, h.stranger.IP("route add 10.71.0.0/24 via 10.72.0.2"))
	h.clientAddr, h.serverAddr = netip.MustParseAddr("10.71.0.1"), netip.MustParseAddr("10.71.0.2")
	return &h
}

// open opens a device on a host.
func open(t testing.TB, h *netns.Host, addr netip.Addr) *verbsapi.Context {
	t.Helper()
	var ctx *verbsapi.Context
	must.OK(t, h.Do(func() (err error) {
		ctx, err = verbsapi.Open(verbsapi.Config{Address: addr})
		return err
	}))
	t.Cleanup(func() { ctx.Close() })
	return ctx
}

// writer writes messages to the server, and keeps some under way.
type writer struct {
	client, server *verbstest.End
	posted, done   uint64
}

const (
	writeBytes = 64 << 10
	writeDepth = 8
)

func newWriter(t testing.TB, h *hosts) *writer {
	t.Helper()
	w := &writer{}
	w.client, w.server = verbstest.Connect(t, open(t, h.client, h.clientAddr), open(t, h.server, h.serverAddr),
		// 1 s
		verbstest.Config{BufferSize: writeDepth * writeBytes, Attr: verbsapi.ConnectAttr{PathMTU: 4096, Timeout: 18}})
	for i := range w.client.Buffer {
		w.client.Buffer[i] = byte(i * 7)
	}
	return w
}

// write completes one message more.
func (w *writer) write() {
	for w.posted < w.done+writeDepth {
		at := int(w.posted%writeDepth) * writeBytes
		w.client.Post(verbsapi.SendWR{ID: w.posted, Op: verbsapi.WRWrite, SGL: []verbsapi.SGE{w.client.SGE(at, writeBytes)},
			RemoteAddr: w.server.MR.Addr() + uint64(at), RKey: w.server.MR.RKey()})
		w.posted++
	}
	w.client.Await(w.done)
	w.done++
}

// An honest connection goes on beside floods of packets to random queue pairs, to one that
// the stranger knows, and to QP 1. GORXE_HOSTILE=DURATION goes on for that long.
func TestBesideFlood(t *testing.T) {
	h := newHosts(t)
	w := newWriter(t, h)
	floods := []string{"random", strconv.Itoa(int(w.server.QP.Num())), "1"}
	long, _ := time.ParseDuration(os.Getenv("GORXE_HOSTILE")) // none: 0
	for i, began := 0, time.Now(); i < len(floods) || time.Since(began) < long; i++ {
		to := floods[i%len(floods)]
		before := w.server.Context.PortCounters().ReceiveFilterDrop.Load()
		f := startFlood(t, h.stranger, h.serverAddr, to)
		for range 200 {
			w.write()
		}
		for w.server.Context.PortCounters().ReceiveFilterDrop.Load() == before {
			w.write() // until the filter has met the flood
		}
		packets, rate := f.stop(t)
		c := w.server.Context.PortCounters()
		t.Logf("to %s: %d packets, %.0f/s; receive_filter_drop %d, receive_queue_drop %d", to, packets, rate,
			c.ReceiveFilterDrop.Load()-before, c.ReceiveQueueDrop.Load())
	}
	if !bytes.Equal(w.client.Buffer, w.server.Buffer) {
		t.Error("the server has other bytes than the client wrote")
	}
}

// BenchmarkBesideFlood measures an honest connection alone and beside floods.
func BenchmarkBesideFlood(b *testing.B) {
	for _, to := range []string{"alone", "random", "known", "1"} {
		b.Run(to, func(b *testing.B) {
			h := newHosts(b)
			w := newWriter(b, h)
			qpn := to
			if to == "known" {
				qpn = strconv.Itoa(int(w.server.QP.Num()))
			}
			var f *flood
			if to != "alone" {
				f = startFlood(b, h.stranger, h.serverAddr, qpn)
			}
			b.SetBytes(writeBytes)
			for b.Loop() {
				w.write()
			}
			if f != nil {
				_, rate := f.stop(b)
				b.ReportMetric(rate, "flood/s")
			}
			c := w.server.Context.PortCounters()
			b.ReportMetric(float64(c.ReceiveQueueDrop.Load()), "queue_drops")
		})
	}
}
