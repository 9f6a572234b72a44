package umad

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/wire"
)

// A datagram goes to the port's own agents and comes back, with either size of headers.
func TestExchange(t *testing.T) {
	for _, size := range []int{uapi.MADHdrOldSize, uapi.MADHdrSize} {
		h := newHost(t)
		p := h.open()
		if size == uapi.MADHdrSize {
			_, err := p.f.Ioctl(p, uapi.MADEnablePKey, 0)
			p.want(err, nil)
		}
		smi, gsi := p.register(subnetClient), p.register(client)
		if smi != 0 || gsi != 1 || p.f.headerSize() != size {
			t.Errorf("agents %d and %d, headers of %d bytes", smi, gsi, p.f.headerSize())
		}
		if _, err := p.f.Ioctl(p, uapi.MADEnablePKey, 0); err != unix.EINVAL {
			t.Errorf("P_Key indices are enabled late: %v", err)
		}
		m := request(wire.MADClassSubnetLID, wire.MADGet, uint16(wire.AttrNodeDescription))
		p.want(p.send(&uapi.MADHdr{ID: smi, TimeoutMS: 1000}, m[:]), nil)
		hdr, answer := p.next()
		if want := (uapi.MADHdr{ID: smi, Length: uint32(size) + 256}); hdr != want || answer.TID()&(1<<32-1) != 0x42 ||
			string(wire.SMP{MAD: answer}.Attr()[:6]) != "a node" {
			t.Errorf("%+v, %v", hdr, answer)
		}
		m = request(wire.MADClassPerformance, wire.MADGet, 1)
		p.want(p.send(&uapi.MADHdr{ID: gsi, TimeoutMS: 1000}, m[:36]), nil) // the rest is zero
		if hdr, answer = p.next(); hdr.ID != gsi || binary.BigEndian.Uint32(hdr.QPN[:]) != 1 || hdr.GRHPresent != 0 || answer.Status() != 0 {
			t.Errorf("%+v, %v", hdr, answer)
		}
		over := overWire(uapi.MADHdr{ID: gsi, TimeoutMS: 1000, TrafficClass: 0x20})
		p.want(p.send(&over, m[:]), nil)
		hdr, answer = p.next()
		want := uapi.MADHdr{ID: gsi, Length: uint32(size) + 256, GRHPresent: 1, HopLimit: 64, TrafficClass: 0x20, GID: wire.GIDFromAddr(rxedev.Addr)}
		if binary.BigEndian.PutUint32(want.QPN[:], 1); hdr != want || answer.Method() != wire.MADGetResp {
			t.Errorf("%+v, want %+v; %v", hdr, want, answer)
		}
		p.nothing()
		p.exit()
		h.given()
	}
}

// Two programs of one port: a server that answers without a GRH, as libibmad does.
func TestServer(t *testing.T) {
	h := newHost(t)
	s, c := h.open(), h.open()
	serves, asks := s.register(server), c.register(client)
	for _, to := range []uapi.MADHdr{{ID: asks, TimeoutMS: 1000}, overWire(uapi.MADHdr{ID: asks, TimeoutMS: 1000})} {
		m := request(0x32, wire.MADGet, 1)
		c.want(c.send(&to, m[:]), nil)
		hdr, q := s.next()
		if hdr.GRHPresent != to.GRHPresent || hdr.Status != 0 {
			t.Errorf("asked with %+v", hdr)
		}
		q.Answer(wire.MADGetResp, 0)
		s.want(s.send(&uapi.MADHdr{ID: serves, QPN: hdr.QPN}, q[:]), nil)
		if _, answer := c.next(); *answer != *q {
			t.Errorf("answered %v, want %v", answer, q)
		}
	}
	s.exit()
	// Nobody is there now.
	m := request(0x32, wire.MADGet, 1)
	c.want(c.send(&uapi.MADHdr{ID: asks, TimeoutMS: 1000}, m[:]), nil)
	if _, answer := c.next(); answer.Status() != wire.MADUnsupportedAttribute {
		t.Errorf("answered %v, %#x", answer, answer.Status())
	}
	c.exit()
	h.given()
}

// A datagram that is not answered comes back: its own header, and the status.
func TestTimedOut(t *testing.T) {
	h := newHost(t)
	p := h.open()
	id := p.register(client)
	m := request(0x33, wire.MADSend, 1)
	hdr := overWire(uapi.MADHdr{ID: id, TimeoutMS: 1, Retries: 2, Length: 77})
	p.want(p.send(&hdr, m[:]), nil)
	got, b, err := p.read(1024)
	p.want(err, nil)
	want := hdr
	want.Status, want.PKeyIndex = uint32(unix.ETIMEDOUT), 0
	if got != want || len(b) != wire.MADHeaderLen || binary.BigEndian.Uint32(b[12:]) != 0x42 {
		t.Errorf("%+v, want %+v; % x", got, want, b)
	}
	// What nobody awaits does not come back.
	hdr.TimeoutMS = 0
	p.want(p.send(&hdr, m[:]), nil)
	hdr.TimeoutMS = 1<<32 - 1 // -1: for ever
	p.want(p.send(&hdr, m[:]), nil)
	p.want(p.send(&hdr, m[:]), unix.EINVAL) // the same identifier
	p.nothing()
	p.exit()
	h.given()
}

// A datagram that a read cannot take stays for the next one.
func TestShortRead(t *testing.T) {
	h := newHost(t)
	p := h.open()
	id := p.register(subnetClient)
	p.ask(id)
	_, _, err := p.read(uapi.MADHdrOldSize - 1)
	p.want(err, unix.EINVAL)
	_, _, err = p.read(uapi.MADHdrOldSize + wire.MADLen - 1)
	p.want(err, unix.EINVAL)
	if _, err := p.f.Read(p, 1, 1024); err != unix.EFAULT {
		t.Errorf("a read to nowhere: %v", err)
	}
	p.torn = true
	_, _, err = p.read(1024)
	p.want(err, unix.EFAULT)
	p.torn, p.gone = false, true
	if _, err := p.f.Read(p, answerAt, 1024); err != unix.ESRCH {
		t.Errorf("a read of a thread that has gone: %v", err)
	}
	p.gone = false
	if _, answer := p.next(); answer.Method() != wire.MADGetResp {
		t.Errorf("%v", answer)
	}
	p.nothing()
}

// The file is readable while there are datagrams, and always writable.
func TestPoll(t *testing.T) {
	h := newHost(t)
	p := h.open()
	id := p.register(subnetClient)
	poll := func() int16 {
		fds := []unix.PollFd{{Fd: int32(p.f.FD()), Events: unix.POLLIN | unix.POLLOUT}}
		if _, err := unix.Poll(fds, 0); err != nil {
			t.Fatal(err)
		}
		return fds[0].Revents
	}
	if got := poll(); got != unix.POLLOUT {
		t.Errorf("empty: %#x", got)
	}
	p.ask(id)
	p.f.Sync()
	fds := []unix.PollFd{{Fd: int32(p.f.FD()), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, int(wait.Milliseconds())); n != 1 || err != nil || poll() != unix.POLLIN|unix.POLLOUT {
		t.Errorf("with a datagram: %d, %v, %#x", n, err, poll())
	}
	p.next()
	if got := poll(); got != unix.POLLOUT {
		t.Errorf("empty again: %#x", got)
	}
	end := []unix.PollFd{{Fd: int32(p.f.Poll())}}
	p.f.HandedOver() // the program has closed its own
	if n, err := unix.Poll(end, int(wait.Milliseconds())); n != 1 || err != nil || end[0].Revents&unix.POLLERR == 0 {
		t.Errorf("after the close: %d, %v, %#x", n, err, end[0].Revents)
	}
}

// Requests to register are refused as by Linux.
func TestRegisterErrors(t *testing.T) {
	h := newHost(t)
	p := h.open()
	bad := client
	bad.QPN = 2
	p.want(ioctl(p, uapi.MADRegisterAgent, &bad), unix.EINVAL)
	bad = client
	bad.Class = 0x81
	p.want(ioctl(p, uapi.MADRegisterAgent, &bad), unix.EINVAL)
	for _, cmd := range []uint32{uapi.MADRegisterAgent, uapi.MADRegisterAgent2, uapi.MADUnregisterAgent} {
		_, err := p.f.Ioctl(p, cmd, 8)
		p.want(err, unix.EFAULT)
	}
	_, err := p.f.Ioctl(p, 0x1b05, programBase)
	p.want(err, unix.ENOTTY)
	flags := uapi.MADRegReq2{QPN: 1, Flags: 6}
	p.want(ioctl(p, uapi.MADRegisterAgent2, &flags), unix.EINVAL)
	if flags.Flags != uapi.MADUserRMPP {
		t.Errorf("known flags %#x", flags.Flags)
	}
	for _, r := range []uapi.MADRegReq2{{QPN: 2}, {QPN: 1, Class: 0x32, OUI: 1 << 24}, {QPN: 1, Class: 0x32}, {QPN: 1, Flags: 1}} {
		p.want(ioctl(p, uapi.MADRegisterAgent2, &r), unix.EINVAL)
	}
	p.torn = true // the number cannot be told
	c := client
	p.want(ioctl(p, uapi.MADRegisterAgent, &c), unix.EFAULT)
	p.torn = false
	if n := h.port.Agents(); n != 0 {
		t.Errorf("%d agents after errors", n)
	}
	newer := uapi.MADRegReq2{QPN: 1, Class: 0x32, Version: 1, OUI: 0x001405, MethodMask: [2]uint64{1<<1 | 1<<33, 1 << 63}, RMPPVersion: 1, Flags: 1}
	p.want(ioctl(p, uapi.MADRegisterAgent2, &newer), nil)
	if newer.ID != 0 || p.f.headerSize() != uapi.MADHdrSize {
		t.Errorf("agent %d, headers of %d bytes", newer.ID, p.f.headerSize())
	}
	q := h.open()
	taken := server
	q.want(ioctl(q, uapi.MADRegisterAgent, &taken), unix.EINVAL)
	taken.MethodMask = [4]uint32{0, 1 << 1}
	q.want(ioctl(q, uapi.MADRegisterAgent, &taken), unix.EINVAL)
	taken.MethodMask = [4]uint32{0, 0, 0, 1 << 31}
	q.want(ioctl(q, uapi.MADRegisterAgent, &taken), unix.EINVAL)
	taken.MethodMask = [4]uint32{1 << 3}
	q.want(ioctl(q, uapi.MADRegisterAgent, &taken), nil)
}

// A file has 32 agents, and numbers are used again.
func TestAgents(t *testing.T) {
	h := newHost(t)
	p := h.open()
	for i := range uint32(maxAgents) {
		if id := p.register(client); id != i {
			t.Fatalf("agent %d has number %d", i, id)
		}
	}
	c := client
	p.want(ioctl(p, uapi.MADRegisterAgent, &c), unix.ENOMEM)
	c2 := uapi.MADRegReq2{QPN: 1}
	p.want(ioctl(p, uapi.MADRegisterAgent2, &c2), unix.ENOMEM)
	for id, want := range map[uint32]error{7: nil, 32: unix.EINVAL, 1<<32 - 1: unix.EINVAL} {
		p.want(ioctl(p, uapi.MADUnregisterAgent, &id), want)
	}
	seven := uint32(7)
	p.want(ioctl(p, uapi.MADUnregisterAgent, &seven), unix.EINVAL)
	m := request(4, wire.MADGet, 1)
	p.want(p.send(&uapi.MADHdr{ID: 7}, m[:]), unix.EIO)
	if id := p.register(client); id != 7 {
		t.Errorf("number %d, want 7 again", id)
	}
	p.exit()
	h.given()
}

// Writes are refused as by Linux.
func TestWriteErrors(t *testing.T) {
	h := newHost(t)
	p := h.open()
	id := p.register(client)
	m := request(4, wire.MADGet, 1)
	long := append(slices.Clone(m[:]), 0)
	for name, c := range map[string]struct {
		hdr  uapi.MADHdr
		b    []byte
		want error
	}{
		"short":             {uapi.MADHdr{ID: id}, m[:minMAD-1], unix.EINVAL},
		"long":              {uapi.MADHdr{ID: id}, long, unix.EINVAL},
		"number 32":         {uapi.MADHdr{ID: 32}, m[:], unix.EINVAL},
		"number -1":         {uapi.MADHdr{ID: 1<<32 - 1}, m[:], unix.EINVAL},
		"no agent":          {uapi.MADHdr{ID: 31}, m[:], unix.EIO},
		"LID":               {uapi.MADHdr{ID: id, LID: [2]byte{0, 1}}, m[:], unix.EINVAL},
		"GID index":         {overWire(uapi.MADHdr{ID: id, GIDIndex: 200}), m[:], unix.EINVAL},
		"no GID":            {uapi.MADHdr{ID: id, GRHPresent: 1}, m[:], unix.EINVAL},
		"answer to nothing": {uapi.MADHdr{ID: id}, append([]byte{1, 4, 1, 0x81}, m[4:]...), unix.EINVAL},
	} {
		for _, timeout := range []uint32{0, 1000, 1<<32 - 1} {
			c.hdr.TimeoutMS = timeout
			if err := p.send(&c.hdr, c.b); err != c.want {
				t.Errorf("%s, timeout %d: %v, want %v", name, timeout, err, c.want)
			}
		}
	}
	size := uint64(p.f.headerSize())
	for _, at := range []uint64{8, programBase + programSize - 8, programBase + programSize - size, programBase + programSize - size - minMAD} {
		if _, err := p.f.Write(p, at, size+wire.MADLen); err != unix.EFAULT {
			t.Errorf("memory ends behind %#x: %v", at, err)
		}
	}
	p.nothing()
	p.exit()
	h.given()
}

// A program that never reads gets a bounded number of datagrams, and what it awaits is bounded.
func TestFlood(t *testing.T) {
	h := newHost(t)
	p := h.open()
	id := p.register(client)
	m := request(0x33, wire.MADSend, 1)
	hdr := overWire(uapi.MADHdr{ID: id, TimeoutMS: 1<<32 - 1, Retries: 1<<32 - 1})
	for i := range maxPending {
		m.SetTID(uint64(i))
		if err := p.send(&hdr, m[:]); err != nil {
			t.Fatalf("datagram %d: %v", i, err)
		}
	}
	m.SetTID(maxPending)
	p.want(p.send(&hdr, m[:]), unix.ENOMEM)
	ask := request(4, wire.MADGet, 1)
	for range 5 {
		p.want(p.send(&uapi.MADHdr{ID: id, TimeoutMS: 0}, ask[:]), nil) // its answer is dropped
	}
	p.nothing()
	s := h.open()
	serves := s.register(server)
	q := h.open()
	asks := q.register(client)
	hello := request(0x32, wire.MADGet, 1)
	for i := range maxQueued + 5 {
		hello.SetTID(uint64(i))
		q.want(q.send(&uapi.MADHdr{ID: asks}, hello[:]), nil)
	}
	for i := range maxQueued {
		if hdr, m := s.next(); hdr.ID != serves || m.TID()&(1<<32-1) != uint64(i) {
			t.Fatalf("datagram %d is %v", i, m)
		}
	}
	s.nothing()
	if s.f.dropped != 5 {
		t.Errorf("%d datagrams were dropped", s.f.dropped)
	}
	for _, x := range []*program{p, q, s} {
		x.exit()
	}
	h.given()
}

// A program with a spent budget is told so, and leaves nothing.
func TestBudget(t *testing.T) {
	h := newHost(t)
	first := h.open()
	room := agentCost.Memory + 2*packetCost.Memory
	h.budget = quota.New(quota.Cost{Memory: room + h.budget.Used().Memory})
	first.exit()
	p := h.open()
	id := p.register(client)
	c := client
	p.want(ioctl(p, uapi.MADRegisterAgent, &c), unix.ENOMEM)
	m := request(0x33, wire.MADSend, 1)
	hdr := overWire(uapi.MADHdr{ID: id, TimeoutMS: 1<<32 - 1})
	for i := range 2 {
		m.SetTID(uint64(i))
		p.want(p.send(&hdr, m[:]), nil)
	}
	m.SetTID(2)
	p.want(p.send(&hdr, m[:]), unix.ENOMEM)
	hdr.TimeoutMS = 0
	p.want(p.send(&hdr, m[:]), nil)
	p.exit()
	h.given()
}

// After its device was removed, a file wakes its reader, and calls fail as in the kernel.
func TestRemoved(t *testing.T) {
	h := newHost(t)
	p, other := h.open(), h.open()
	id := p.register(client)
	kept := other.register(subnetClient)
	m := request(0x33, wire.MADSend, 1)
	hdr := overWire(uapi.MADHdr{ID: id, TimeoutMS: 1<<32 - 1})
	p.want(p.send(&hdr, m[:]), nil) // waits for an answer
	go p.f.Remove()
	_, _, err := p.read(1024)
	p.want(err, unix.EIO)
	p.f.Remove() // again, and after it the agents are gone
	if n := h.port.Agents(); n != 1 {
		t.Errorf("%d agents are left", n)
	}
	fd := []unix.PollFd{{Fd: int32(p.f.FD()), Events: unix.POLLIN}}
	if n, err := unix.Poll(fd, 0); n != 1 || err != nil {
		t.Errorf("poll returns %d, %v", n, err)
	}
	p.want(p.send(&hdr, m[:]), unix.EIO)
	c, c2 := client, uapi.MADRegReq2{QPN: 1, Class: 0x33}
	p.want(ioctl(p, uapi.MADRegisterAgent, &c), unix.EPIPE)
	p.want(ioctl(p, uapi.MADRegisterAgent2, &c2), unix.EPIPE)
	p.want(ioctl(p, uapi.MADUnregisterAgent, &id), unix.EINVAL)
	other.ask(kept)
	other.next()
	p.exit()
	other.exit()
	h.given()
}

// FuzzWrite feeds writes and ioctls as bytes, at the end of the mapped memory. Afterwards the
// program still works, and leaves nothing.
func FuzzWrite(f *testing.F) {
	for _, m := range []*wire.MAD{request(1, wire.MADGet, 0x11), request(0x81, wire.MADGet, 0x15), request(4, wire.MADSet, 0x12),
		request(0x32, wire.MADGet, 1), request(0x32, wire.MADGetResp, 1), request(7, wire.MADSend, 0x10)} {
		for id := range uint32(3) {
			for _, hdr := range []uapi.MADHdr{{ID: id, TimeoutMS: 1 << 31}, overWire(uapi.MADHdr{ID: id, TimeoutMS: 1 << 31})} {
				f.Add(uint32(0), append(slices.Clone(uapi.BytesOf(&hdr)[:uapi.MADHdrOldSize]), m[:]...))
			}
		}
	}
	c, c2, n := client, uapi.MADRegReq2{QPN: 1, Class: 0x33, OUI: 3, MethodMask: [2]uint64{1<<64 - 1, 7}}, uint32(1)
	f.Add(uint32(uapi.MADRegisterAgent), uapi.BytesOf(&c))
	f.Add(uint32(uapi.MADRegisterAgent2), uapi.BytesOf(&c2))
	f.Add(uint32(uapi.MADUnregisterAgent), uapi.BytesOf(&n))
	f.Fuzz(func(t *testing.T, cmd uint32, b []byte) {
		if len(b) > answerAt-programBase {
			return
		}
		h := newHost(t)
		p, other := h.open(), h.open()
		p.register(subnetClient)
		p.register(client)
		p.register(server)
		at := uint64(programSize - len(b))
		copy(p.mem.Data[at:], b)
		if cmd == 0 {
			if n, err := p.f.Write(p, programBase+at, uint64(len(b))); err == nil && n != int64(len(b)) {
				t.Errorf("write returns %d of %d", n, len(b))
			}
		} else if _, err := p.f.Ioctl(p, cmd, programBase+at); err == kernel.ErrWait {
			t.Error("an ioctl waits")
		}
		id := other.register(subnetClient)
		other.ask(id)
		other.next()
		p.exit()
		other.exit()
		h.given()
	})
}
