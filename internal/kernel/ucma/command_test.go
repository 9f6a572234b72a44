package ucma

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// TestFrame: what is wrong with a header, in the order in which the kernel looks.
func TestFrame(t *testing.T) {
	p := newHost(t).open()
	write := func(at, n uint64) error {
		_, err := p.f.Write(p, at, n)
		return err
	}
	p.want(write(programBase, 7), unix.EINVAL)
	p.want(write(0x1000, 8), unix.EFAULT)
	p.want(p.raw(uapi.UcmaCommands, nil, 0, 0), unix.EINVAL)
	p.want(p.raw(-1, nil, 0, 0), unix.EINVAL)
	p.want(p.raw(uapi.UcmaListen, make([]byte, 8), 9, 0), unix.EINVAL)
	p.want(p.raw(uapi.UcmaGetOption, nil, 0, 0), unix.ENOSYS)
	p.want(p.raw(uapi.UcmaGetOption, nil, 1, 0), unix.EINVAL)
	p.want(write(programBase+programSize-8, 8), unix.ENOSPC) // CREATE_ID, all zeros
	if _, err := p.f.Read(p, programBase, 8); err != unix.EINVAL {
		t.Errorf("read: %v", err)
	}
	if _, err := p.f.Ioctl(p, 1, 2); err != unix.ENOTTY {
		t.Errorf("ioctl: %v", err)
	}
	// More than the command is no fault, and all of it counts as written.
	p.ok(p.raw(uapi.UcmaCreateID, uapi.BytesOf(&uapi.UcmaCreateIDReq{Response: answerAt, PS: uint16(tcp)}), 24, 4))
	req := uapi.UcmaDestroyID
	p.ok(p.raw(req, append(uapi.BytesOf(&uapi.UcmaIDReq{Response: answerAt}), make([]byte, 100)...), 16, 400))
}

// TestOneRead: a command is read at once. If the program has written more than there is, only
// what the command needs must exist.
func TestOneRead(t *testing.T) {
	p := newHost(t).open()
	create := func(at, n uint64) int {
		t.Helper()
		hdr := uapi.UcmaHdr{Cmd: uapi.UcmaCreateID, In: uint16(uapi.SizeOf[uapi.UcmaCreateIDReq]()), Out: 4}
		req := uapi.UcmaCreateIDReq{UID: at, Response: answerAt, PS: uint16(tcp)}
		copy(p.mem.Bytes(at, 32), append(bytes.Clone(uapi.BytesOf(&hdr)), uapi.BytesOf(&req)...))
		p.reads = 0
		got, err := p.f.Write(p, at, n)
		p.ok(err)
		if got != int64(n) {
			t.Errorf("%d of %d bytes", got, n)
		}
		return p.reads
	}
	if n := create(programBase, 32); n != 1 {
		t.Errorf("%d reads of a command", n)
	}
	if n := create(programBase, 8<<10); n != 1 {
		t.Errorf("%d reads of a command with more behind it", n)
	}
	if n := create(programBase+programSize-32, 1<<40); n != 3 { // all, the header, the request
		t.Errorf("%d reads of a command at the end of the memory", n)
	}
}

// withID are the requests of the commands that name an id, with that id.
func withID(id uint32) map[int][]byte {
	bytes := func(b []byte) []byte { return append([]byte(nil), b...) }
	return map[int][]byte{
		uapi.UcmaDestroyID:        bytes(uapi.BytesOf(&uapi.UcmaIDReq{Response: answerAt, ID: id})),
		uapi.UcmaBindIP:           bytes(uapi.BytesOf(&uapi.UcmaBindIPReq{Addr: in6(0), ID: id})),
		uapi.UcmaResolveIP:        bytes(uapi.BytesOf(&uapi.UcmaResolveIPReq{DstAddr: in6(port), ID: id, TimeoutMs: 1})),
		uapi.UcmaResolveRoute:     bytes(uapi.BytesOf(&uapi.UcmaResolveRouteReq{ID: id, TimeoutMs: 1})),
		uapi.UcmaQueryRoute:       bytes(uapi.BytesOf(&uapi.UcmaQueryReq{Response: answerAt, ID: id})),
		uapi.UcmaConnect:          bytes(uapi.BytesOf(&uapi.UcmaConnectReq{ConnParam: param(1, ""), ID: id})),
		uapi.UcmaListen:           bytes(uapi.BytesOf(&uapi.UcmaListenReq{ID: id})),
		uapi.UcmaAccept:           bytes(uapi.BytesOf(&uapi.UcmaAcceptReq{ConnParam: param(1, ""), ID: id})),
		uapi.UcmaReject:           bytes(uapi.BytesOf(&uapi.UcmaRejectReq{ID: id})),
		uapi.UcmaDisconnect:       bytes(uapi.BytesOf(&uapi.UcmaDisconnectReq{ID: id})),
		uapi.UcmaInitQPAttr:       bytes(uapi.BytesOf(&uapi.UcmaInitQPAttrReq{Response: answerAt, ID: id, QPState: 1})),
		uapi.UcmaSetOption:        bytes(uapi.BytesOf(&uapi.UcmaSetOptionReq{Optval: answerAt, ID: id, Optlen: 1})),
		uapi.UcmaNotify:           bytes(uapi.BytesOf(&uapi.UcmaNotifyReq{ID: id, Event: 4})),
		uapi.UcmaJoinIPMcast:      bytes(uapi.BytesOf(&uapi.UcmaJoinIPMcastReq{Response: answerAt, Addr: in6(0), ID: id})),
		uapi.UcmaLeaveMcast:       bytes(uapi.BytesOf(&uapi.UcmaIDReq{Response: answerAt, ID: id})),
		uapi.UcmaMigrateID:        bytes(uapi.BytesOf(&uapi.UcmaMigrateIDReq{Response: answerAt, ID: id, FD: 1})),
		uapi.UcmaQuery:            bytes(uapi.BytesOf(&uapi.UcmaQueryReq{Response: answerAt, ID: id})),
		uapi.UcmaBind:             bytes(uapi.BytesOf(&uapi.UcmaBindReq{ID: id, AddrSize: uapi.SizeofSockaddrIn, Addr: storage(0)})),
		uapi.UcmaResolveAddr:      bytes(uapi.BytesOf(&uapi.UcmaResolveAddrReq{ID: id, TimeoutMs: 1, DstSize: uapi.SizeofSockaddrIn, DstAddr: storage(port)})),
		uapi.UcmaJoinMcast:        bytes(uapi.BytesOf(&uapi.UcmaJoinMcastReq{Response: answerAt, ID: id, AddrSize: uapi.SizeofSockaddrIn, Addr: storage(0)})),
		uapi.UcmaResolveIBService: bytes(uapi.BytesOf(&uapi.UcmaResolveIBServiceReq{ID: id})),
		uapi.UcmaWriteCMEvent:     bytes(uapi.BytesOf(&uapi.UcmaWriteCMEventReq{ID: id, Event: 18})),
	}
}

// TestIDs: an id that does not exist, and one of another file. A multicast group has a number
// of its own kind.
func TestIDs(t *testing.T) {
	h := newHost(t)
	p, other := h.open(), h.open()
	id := other.create(1, tcp)
	p.fds[1] = p.f
	for cmd := range uapi.UcmaCommands {
		body, ok := withID(77)[cmd]
		if !ok {
			continue
		}
		t.Run(fmt.Sprint(cmd), func(t *testing.T) {
			p.want(p.raw(cmd, body, len(body), 400), unix.ENOENT)
			body := withID(id)[cmd]
			want := unix.EINVAL
			if cmd == uapi.UcmaLeaveMcast {
				want = unix.ENOENT
			}
			p.want(p.raw(cmd, body, len(body), 400), want)
			p.mem.Data = p.mem.Data[:16] // the request ends in memory that is not mapped
			err := p.raw(cmd, body[:min(len(body), 8)], len(body[:min(len(body), 8)]), 400)
			p.mem.Data = p.mem.Data[:programSize]
			if len(body) > 8 && err != unix.EFAULT && err != unix.EINVAL {
				t.Errorf("a torn request: %v", err)
			}
		})
	}
}

// TestRoom: commands that answer want room for the answer.
func TestRoom(t *testing.T) {
	p := newHost(t).open()
	id := p.create(1, tcp)
	for cmd, least := range map[int]int{
		uapi.UcmaDestroyID: 4, uapi.UcmaQueryRoute: 200, uapi.UcmaInitQPAttr: 144, uapi.UcmaJoinIPMcast: 4,
		uapi.UcmaLeaveMcast: 4, uapi.UcmaQuery: 272, uapi.UcmaJoinMcast: 4,
	} {
		body := withID(id)[cmd]
		p.want(p.raw(cmd, body, len(body), least-1), unix.ENOSPC)
	}
	p.want(do(p, uapi.UcmaCreateID, uapi.UcmaCreateIDReq{PS: uint16(tcp), Response: answerAt}, 3), unix.ENOSPC)
	p.want(do(p, uapi.UcmaGetEvent, uapi.UcmaGetEventReq{Response: answerAt}, 323), unix.ENOSPC)
}

// TestUnbound: what needs a device is EINVAL without.
func TestUnbound(t *testing.T) {
	p := newHost(t).open()
	id := p.create(1, tcp)
	for _, cmd := range []int{
		uapi.UcmaResolveRoute, uapi.UcmaConnect, uapi.UcmaAccept, uapi.UcmaReject, uapi.UcmaDisconnect,
		uapi.UcmaInitQPAttr, uapi.UcmaNotify, uapi.UcmaJoinMcast, uapi.UcmaResolveIBService,
	} {
		body := withID(id)[cmd]
		if err := p.raw(cmd, body, len(body), 400); err != unix.EINVAL {
			t.Errorf("command %d: %v", cmd, err)
		}
	}
}

// TestCreate: port spaces, and an answer that cannot be written.
func TestCreate(t *testing.T) {
	h := newHost(t)
	p := h.open()
	for ps, want := range map[uint16]error{0x106: nil, 0x111: nil, 2: nil, 0x13f: nil, 0: unix.EINVAL, 6: unix.EINVAL} {
		p.want(do(p, uapi.UcmaCreateID, uapi.UcmaCreateIDReq{Response: answerAt, PS: ps, QPType: 2}, 4), want)
	}
	p.want(do(p, uapi.UcmaCreateID, uapi.UcmaCreateIDReq{Response: 8, PS: 0x106}, 4), unix.EFAULT)
	if id := p.create(1, tcp); id != 4 {
		t.Errorf("id %d after one that failed", id)
	}
	p.exit()
	h.given()
}

// TestOldBodies: librdmacm before ECE sends 8 bytes less.
func TestOldBodies(t *testing.T) {
	h := newHost(t)
	s, c := h.open(), h.open()
	s.listener(0xa, tcp, 5)
	active := c.resolved(0xc, tcp)
	req := uapi.BytesOf(&uapi.UcmaConnectReq{ConnParam: param(1, ""), ID: active})
	c.want(c.raw(uapi.UcmaConnect, req[:279], 279, 0), unix.EINVAL)
	c.ok(c.raw(uapi.UcmaConnect, req[:280], 280, 0))
	passive := s.event().ID
	accept := uapi.BytesOf(&uapi.UcmaAcceptReq{UID: 5, ConnParam: param(2, ""), ID: passive})
	s.want(s.raw(uapi.UcmaAccept, accept[:287], 287, 0), unix.EINVAL)
	s.ok(s.raw(uapi.UcmaAccept, accept[:288], 288, 0))
	c.expect(rdmacm.ConnectResponse, active, 0xc)
}

// TestAddresses: families and sizes, in both forms of each command, and the probe of AF_IB
// with which librdmacm begins.
func TestAddresses(t *testing.T) {
	p := newHost(t).open()
	sized := func(family uint16, size uint16) error {
		req := uapi.UcmaBindReq{ID: p.create(1, wire.PortSpaceIB), AddrSize: size}
		binary.NativeEndian.PutUint16(req.Addr[:], family)
		if family == uapi.AFIB {
			binary.BigEndian.PutUint64(req.Addr[24:], 0x01060000)
			binary.BigEndian.PutUint64(req.Addr[32:], ^uint64(0xffff))
		}
		return do(p, uapi.UcmaBind, req, 0)
	}
	for _, tt := range []struct {
		family, size uint16
		want         error
	}{
		{uapi.AFIB, 48, nil}, {uapi.AFIB, 28, unix.EINVAL}, {uapi.AFInet, 16, nil}, {uapi.AFInet6, 28, nil},
		{uapi.AFInet, 28, unix.EINVAL}, {uapi.AFInet, 0, unix.EINVAL}, {3, 16, unix.EINVAL}, {0, 0, unix.EINVAL},
	} {
		if err := sized(tt.family, tt.size); err != tt.want {
			t.Errorf("family %d, size %d: %v, want %v", tt.family, tt.size, err, tt.want)
		}
	}
	var ib uapi.SockaddrIn6
	binary.NativeEndian.PutUint16(ib[:], uapi.AFIB)
	p.want(do(p, uapi.UcmaBindIP, uapi.UcmaBindIPReq{Addr: ib, ID: p.create(1, tcp)}, 0), unix.EINVAL)
	p.want(do(p, uapi.UcmaResolveIP, uapi.UcmaResolveIPReq{SrcAddr: ib, DstAddr: in6(1), ID: 0}, 0), unix.EINVAL)
	p.want(do(p, uapi.UcmaResolveIP, uapi.UcmaResolveIPReq{ID: 0}, 0), unix.EINVAL)
	p.want(do(p, uapi.UcmaBind, uapi.UcmaBindReq{ID: 0, AddrSize: 16, Reserved: 1, Addr: storage(0)}, 0), unix.EINVAL)
	p.want(do(p, uapi.UcmaResolveAddr, uapi.UcmaResolveAddrReq{DstSize: 16, DstAddr: storage(0), Reserved: 1}, 0), unix.EINVAL)
	p.want(do(p, uapi.UcmaResolveAddr, uapi.UcmaResolveAddrReq{}, 0), unix.EINVAL)
	id := p.create(9, tcp)
	p.ok(do(p, uapi.UcmaResolveIP, uapi.UcmaResolveIPReq{SrcAddr: in6(0), DstAddr: in6(port), ID: id, TimeoutMs: 1000}, 0))
	p.expect(rdmacm.AddrResolved, id, 9)
}

// TestOptions: names, lengths and levels.
func TestOptions(t *testing.T) {
	p := newHost(t).open()
	id := p.create(1, tcp)
	for _, tt := range []struct {
		level, name, size uint32
		want              error
	}{
		{0, 0, 1, nil}, {0, 0, 4, unix.EINVAL}, {0, 1, 4, nil}, {0, 1, 1, unix.EINVAL}, {0, 2, 4, nil}, {0, 2, 8, unix.EINVAL},
		{0, 3, 1, nil}, {0, 3, 0, unix.EINVAL}, {0, 4, 1, unix.ENOSYS}, {1, 0, 1, unix.ENOSYS}, {2, 0, 1, unix.ENOSYS},
		{1, 1, 71, unix.EINVAL}, {1, 1, 72, unix.EINVAL}, {1, 1, 0, unix.EINVAL}, {0, 0, 1 << 31, unix.EINVAL},
	} {
		req := uapi.UcmaSetOptionReq{Optval: answerAt, ID: id, Level: tt.level, Optname: tt.name, Optlen: tt.size}
		if err := do(p, uapi.UcmaSetOption, req, 0); err != tt.want {
			t.Errorf("level %d, name %d, %d bytes: %v, want %v", tt.level, tt.name, tt.size, err, tt.want)
		}
	}
	p.want(do(p, uapi.UcmaSetOption, uapi.UcmaSetOptionReq{Optval: 8, ID: id, Optlen: 1}, 0), unix.EFAULT)
}

// TestPathOption: a path that the program gives replaces RESOLVE_ROUTE.
func TestPathOption(t *testing.T) {
	p := newHost(t).open()
	id := p.create(7, tcp)
	p.ok(do(p, uapi.UcmaResolveIP, uapi.UcmaResolveIPReq{DstAddr: in6(port), ID: id, TimeoutMs: 1000}, 0))
	p.expect(rdmacm.AddrResolved, id, 7)
	gid := wire.GIDFromAddr(rxedev.Addr)
	path := rdmacm.PathRecord{DGID: gid, SGID: gid, FlowLabel: 0x12345, HopLimit: 9, TrafficClass: 32, SL: 3,
		PKey: wire.DefaultPKey, MTU: 3, Rate: 2, PacketLifetime: 18, Reversible: true, ServiceID: 0x01061c06}
	data := []uapi.PathRecData{{Flags: 1}, {Flags: uapi.PathFlags, PathRec: packPath(&path)}}
	for i := range data {
		copy(p.mem.Bytes(answerAt+uint64(72*i), 72), uapi.BytesOf(&data[i]))
	}
	p.ok(do(p, uapi.UcmaSetOption, uapi.UcmaSetOptionReq{Optval: answerAt, ID: id, Level: 1, Optname: 1, Optlen: 144}, 0))
	p.expect(rdmacm.RouteResolved, id, 7)
	p.ok(do(p, uapi.UcmaQuery, uapi.UcmaQueryReq{Response: answerAt, ID: id, Option: uapi.UcmaQueryPath}, 8+6*72))
	if got := answer[uapi.UcmaQueryPathResp](p); got.NumPaths != 1 {
		t.Errorf("%d paths", got.NumPaths)
	}
	got := uapi.Load[uapi.PathRecData](p.mem.Bytes(answerAt+8, 72))
	if got.Flags != uapi.PathFlags || unpackPath(&got.PathRec) != path {
		t.Errorf("%+v, want %+v", unpackPath(&got.PathRec), path)
	}
	// The kernel's comparison leaves out a path that would just fit.
	p.ok(do(p, uapi.UcmaQuery, uapi.UcmaQueryReq{Response: answerAt + 0x1000, ID: id, Option: uapi.UcmaQueryPath}, 8+72))
	if b := p.mem.Bytes(answerAt+0x1008, 4); binary.NativeEndian.Uint32(b) != 0 {
		t.Error("a path that fills the room is there")
	}
}

// TestQuery: what an id is bound to, in each form.
func TestQuery(t *testing.T) {
	p := newHost(t).open()
	unbound := p.create(1, tcp)
	p.ok(do(p, uapi.UcmaQueryRoute, uapi.UcmaQueryReq{Response: answerAt, ID: unbound}, 208))
	if r := answer[uapi.UcmaQueryRouteResp](p); r != (uapi.UcmaQueryRouteResp{}) {
		t.Errorf("unbound: %+v", r)
	}
	id := p.resolved(0xc, tcp)
	var guid [8]byte
	binary.BigEndian.PutUint64(guid[:], nodeGUID)
	gid := wire.GIDFromAddr(rxedev.Addr)
	p.ok(do(p, uapi.UcmaQueryRoute, uapi.UcmaQueryReq{Response: answerAt, ID: id}, 208))
	r := answer[uapi.UcmaQueryRouteResp](p)
	path := r.IBRoute[0]
	if r.NodeGUID != guid || r.NumPaths != 1 || r.PortNum != 1 || r.IBDevIndex != devIndex || r.DstAddr != in6(port) ||
		wire.GID(path.SGID) != gid || wire.GID(path.DGID) != gid || path.PKey != [2]byte{0xff, 0xff} || path.MTU != 3 {
		t.Errorf("%+v", r)
	}
	p.ok(do(p, uapi.UcmaQuery, uapi.UcmaQueryReq{Response: answerAt, ID: id, Option: uapi.UcmaQueryAddr}, 280))
	a := answer[uapi.UcmaQueryAddrResp](p)
	if a.NodeGUID != guid || a.PortNum != 1 || a.IBDevIndex != devIndex || a.SrcSize != 16 || a.DstSize != 16 || a.DstAddr != storage(port) {
		t.Errorf("%+v", a)
	}
	if local := parse(a.SrcAddr[:]); local.Addr() != rxedev.Addr || local.Port() == 0 {
		t.Errorf("local address %v", local)
	}
	p.ok(do(p, uapi.UcmaQuery, uapi.UcmaQueryReq{Response: answerAt, ID: id, Option: uapi.UcmaQueryGID}, 280))
	g := answer[uapi.UcmaQueryAddrResp](p)
	if dst := parse(g.DstAddr[:]).AFIB; g.DstSize != 48 || dst == nil || dst.GID != gid || dst.ServiceID != wire.ServiceID(tcp, port) {
		t.Errorf("%+v", g)
	}
	p.want(do(p, uapi.UcmaQuery, uapi.UcmaQueryReq{Response: answerAt, ID: id, Option: 3}, 280), unix.ENODATA)
	p.want(do(p, uapi.UcmaQuery, uapi.UcmaQueryReq{Response: answerAt, ID: id, Option: 4}, 280), unix.ENOSYS)
	p.ok(do(p, uapi.UcmaInitQPAttr, uapi.UcmaInitQPAttrReq{Response: answerAt, ID: id, QPState: uint32(rxe.QPInit)}, 144))
	if q := answer[uapi.QPAttr](p); q.QPAttrMask != 0x39 || q.QPState != uint32(rxe.QPInit) || q.PortNum != 1 {
		t.Errorf("%+v", q)
	}
	p.want(do(p, uapi.UcmaInitQPAttr, uapi.UcmaInitQPAttrReq{Response: answerAt, ID: id, QPState: 7}, 144), unix.EINVAL)
}
