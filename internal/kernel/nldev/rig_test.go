package nldev

import (
	"encoding/binary"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
)

const (
	testSeq  = 77
	testPort = 4711
)

// world is a Source with two devices, of which the first has resources.
type world struct {
	devices   []*Device
	resources Resources
	exclusive bool
}

func newWorld() *world {
	w := &world{resources: Resources{
		PDs:      []PD{{ID: 1, Context: 1, Users: 3, PID: 100}},
		CQs:      []CQ{{ID: 2, Context: 1, Entries: 63, Users: 2, PID: 100}},
		QPs:      []QP{{Num: 17, DestQPN: 18, RecvPSN: 5, SendPSN: 6, Type: 2, State: 3, Connected: true, PD: 1, PID: 100}, {Num: 19, Type: 4, PD: 1, PID: 100}},
		CMIDs:    []CMID{{ID: 7, QPN: 17, Type: 2, Space: 0x106, State: 10, Bound: true, Src: make([]byte, 128), PID: 100}},
		MRs:      []MR{{ID: 3, PD: 1, RKey: 0x1234, LKey: 0x5678, Length: 4096, PID: 100}},
		Contexts: []Context{{ID: 1, PID: 100}},
		SRQs:     []SRQ{{ID: 4, PD: 1, QPs: []uint32{17, 18, 19, 25}, PID: 100}},
	}}
	for i, name := range []string{"rxe0", "rxe1"} {
		w.devices = append(w.devices, &Device{
			Index: uint32(i), Name: name, CapFlags: 0x100000000, NodeGUID: 0x0102030405060708, SysImageGUID: 9,
			NodeType: 1, Protocol: "roce",
			CharDevs: []CharDev{
				{Type: "uverbs", Name: "uverbs0", Dev: unix.Mkdev(231, 192), ABI: 2, DriverID: 14},
				{Type: "umad", Name: "umad0", Dev: unix.Mkdev(231, 0), ABI: 5, Port: 1},
			},
			Port:     func() Port { return Port{State: 4, PhysState: 5, NetdevIndex: 3, Netdev: "eth0"} },
			Counters: func() []Counter { return []Counter{{"sent_pkts", 12}, {"rcvd_pkts", 1 << 40}} },
		})
	}
	return w
}

func (w *world) Devices() []*Device     { return w.devices }
func (w *world) Exclusive() bool        { return w.exclusive }
func (w *world) SetExclusive(only bool) { w.exclusive = only }
func (w *world) CharDevs() []CharDev {
	return []CharDev{{Type: "rdma_cm", Name: "rdma_cm", Dev: unix.Mkdev(10, 1000), ABI: 4}}
}

func (w *world) Resources(d *Device) *Resources {
	if d.Index != 0 {
		return new(Resources)
	}
	return &w.resources
}

// request makes a message with attributes, each of which put appends.
func request(command int, flags uint16, put ...func(*builder)) []byte {
	m := begin(nil, uint16(clientNLDEV<<clientShift|command), unix.NLM_F_REQUEST|flags, testSeq, 0)
	for _, p := range put {
		p(m)
	}
	return m.end()
}

func dev(index uint32) func(*builder)   { return func(m *builder) { m.u32(attrDevIndex, index) } }
func port(number uint32) func(*builder) { return func(m *builder) { m.u32(attrPortIndex, number) } }
func u32(typ uint16, v uint32) func(*builder) {
	return func(m *builder) { m.u32(typ, v) }
}
func str(typ uint16, s string) func(*builder) { return func(m *builder) { m.text(typ, s) } }

// asking is the program that asks, and its socket.
type asking struct {
	admin          bool
	dumping        bool
	capAck, extAck bool
}

// ask returns the messages of the answer, as package syscall reads them.
func ask(t testing.TB, src Source, who asking, data []byte) (got []syscall.NetlinkMessage) {
	t.Helper()
	req := &kernel.NetlinkRequest{Data: data, Port: testPort, Dumping: who.dumping, CapAck: who.capAck, ExtAck: who.extAck}
	Answer(src, Caller{NetAdmin: func() bool { return who.admin }}, req, func(datagram []byte, dump bool) {
		msgs, err := syscall.ParseNetlinkMessage(datagram)
		if err != nil || len(msgs) == 0 {
			t.Fatalf("datagram %x: %v", datagram, err)
		}
		if dump && len(datagram) > datagramSize {
			t.Fatalf("a datagram of a dump has %d bytes", len(datagram))
		}
		for _, m := range msgs {
			if multi := m.Header.Flags&unix.NLM_F_MULTI != 0; multi != dump || m.Header.Pid != testPort {
				t.Fatalf("header %+v of a dump: %t", m.Header, dump)
			}
		}
		got = append(got, msgs...)
	})
	return got
}

// errnoIn is the errno of an NLMSG_ERROR or an NLMSG_DONE.
func errnoIn(t testing.TB, m syscall.NetlinkMessage) unix.Errno {
	t.Helper()
	if typ := m.Header.Type; typ != unix.NLMSG_ERROR && typ != unix.NLMSG_DONE {
		t.Fatalf("type %#x is neither an error nor the end of a dump", typ)
	}
	return unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
}

// fields are the attributes of a message or of a nest, by number and in their order.
type fields []syscall.NetlinkRouteAttr

func fieldsOf(t testing.TB, b []byte) (list fields) {
	t.Helper()
	for len(b) >= unix.SizeofNlAttr {
		n, typ := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])
		if n < unix.SizeofNlAttr || n > len(b) {
			t.Fatalf("attribute of %d bytes in %d", n, len(b))
		}
		list = append(list, syscall.NetlinkRouteAttr{Attr: syscall.RtAttr{Len: uint16(n), Type: typ}, Value: b[unix.SizeofNlAttr:n]})
		b = b[min(align(n), len(b)):]
	}
	return list
}

func (f fields) get(t testing.TB, typ int) []byte {
	t.Helper()
	i := slices.IndexFunc(f, func(a syscall.NetlinkRouteAttr) bool { return int(a.Attr.Type) == typ })
	if i < 0 {
		t.Fatalf("attribute %d is missing", typ)
	}
	return f[i].Value
}

func (f fields) has(typ int) bool {
	return slices.ContainsFunc(f, func(a syscall.NetlinkRouteAttr) bool { return int(a.Attr.Type) == typ })
}

func (f fields) u32(t testing.TB, typ int) uint32 {
	t.Helper()
	return binary.NativeEndian.Uint32(f.get(t, typ))
}

func (f fields) u64(t testing.TB, typ int) uint64 {
	t.Helper()
	return binary.NativeEndian.Uint64(f.get(t, typ))
}

func (f fields) str(t testing.TB, typ int) string {
	t.Helper()
	v := f.get(t, typ)
	if len(v) == 0 || v[len(v)-1] != 0 {
		t.Fatalf("attribute %d is no string: %x", typ, v)
	}
	return string(v[:len(v)-1])
}

// single is the one message of an answer.
func single(t testing.TB, msgs []syscall.NetlinkMessage) fields {
	t.Helper()
	if len(msgs) != 1 || msgs[0].Header.Type < unix.NLMSG_MIN_TYPE || msgs[0].Header.Seq != testSeq {
		t.Fatalf("the answer is %+v", msgs)
	}
	return fieldsOf(t, msgs[0].Data)
}

// items are the messages of a dump, whose end is checked.
func items(t testing.TB, msgs []syscall.NetlinkMessage) (list []fields) {
	t.Helper()
	if len(msgs) == 0 || errnoIn(t, msgs[len(msgs)-1]) != 0 {
		t.Fatalf("the dump is %+v", msgs)
	}
	for _, m := range msgs[:len(msgs)-1] {
		list = append(list, fieldsOf(t, m.Data))
	}
	return list
}
