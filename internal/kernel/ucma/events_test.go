package ucma

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/must"
)

// user queues an event of the program's own.
func (p *program) user(id uint32, status int32) error {
	return do(p, uapi.UcmaWriteCMEvent, uapi.UcmaWriteCMEventReq{ID: id, Event: eventUser, Status: status}, 0)
}

// readable reports what poll says of the program's descriptor.
func readable(t *testing.T, fd int) bool {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n := must.Get[int](t)(unix.Poll(fds, 0))
	return n == 1 && fds[0].Revents&unix.POLLIN != 0
}

// TestEventKept: an event that the program did not get stays first, is counted once, and
// keeps the descriptor readable.
func TestEventKept(t *testing.T) {
	h := newHost(t)
	p := h.open()
	id := p.create(0xa, tcp)
	fd := must.Get[int](t)(unix.FcntlInt(uintptr(p.f.FD()), unix.F_DUPFD_CLOEXEC, 0))
	defer unix.Close(fd)
	if readable(t, fd) {
		t.Error("readable without an event")
	}
	p.ok(p.user(id, 1))
	p.ok(p.user(id, 2))
	get := func() error {
		return do(p, uapi.UcmaGetEvent, uapi.UcmaGetEventReq{Response: answerAt}, 336)
	}
	p.torn = true
	p.want(get(), unix.EFAULT)
	p.torn, p.gone = false, true
	p.want(get(), unix.ESRCH)
	p.gone = false
	if !readable(t, fd) {
		t.Error("not readable with two events")
	}
	for _, status := range []int32{1, 2} {
		if e := p.event(); e.Status != status || e.Event != eventUser || e.UID != 0xa || e.ID != id {
			t.Errorf("%+v", e)
		}
	}
	if readable(t, fd) {
		t.Error("readable when all are read")
	}
	if n := p.destroy(id); n != 2 {
		t.Errorf("%d read, want 2", n)
	}
	if p.delivered != 2 {
		t.Errorf("%d delivered", p.delivered)
	}
}

// TestEventSizes: programs of before ECE read less of an event.
func TestEventSizes(t *testing.T) {
	p := newHost(t).open()
	id := p.create(0xa, tcp)
	for _, n := range []int{324, 328, 336, 400} {
		p.ok(p.user(id, int32(n)))
		copy(p.mem.Bytes(answerAt, 512), make([]byte, 512))
		p.mem.Bytes(answerAt, 512)[min(n, 336)] = 0xee
		p.ok(do(p, uapi.UcmaGetEvent, uapi.UcmaGetEventReq{Response: answerAt}, n))
		if b := p.mem.Bytes(answerAt, 512); b[min(n, 336)] != 0xee || binary.NativeEndian.Uint32(b[16:]) != uint32(n) {
			t.Errorf("%d bytes: %v", n, b[:20])
		}
	}
}

// TestDestroyDropsEvents: unread events go with their id, and others stay.
func TestDestroyDropsEvents(t *testing.T) {
	h := newHost(t)
	p := h.open()
	a, b := p.create(0xa, tcp), p.create(0xb, tcp)
	for i := range int32(3) {
		p.ok(p.user(a, i))
		p.ok(p.user(b, i))
	}
	p.event()
	if n := p.destroy(a); n != 1 {
		t.Errorf("%d read, want 1", n)
	}
	for i := range int32(3) {
		if e := p.event(); e.ID != b || e.Status != i {
			t.Errorf("%+v", e)
		}
	}
	p.quiet()
	p.exit()
	h.given()
}

// TestMigrate: an id takes its unread events to another file, in order, and its count.
func TestMigrate(t *testing.T) {
	h := newHost(t)
	from, to := h.open(), h.open()
	to.fds[5] = from.f
	id, stays := from.create(0xa, tcp), from.create(0xb, tcp)
	for i := range int32(3) {
		from.ok(from.user(id, i))
		from.ok(from.user(stays, i))
	}
	from.event()
	migrate := func(id uint32, fd int32) error {
		return do(to, uapi.UcmaMigrateID, uapi.UcmaMigrateIDReq{Response: answerAt, ID: id, FD: uint32(fd)}, 4)
	}
	to.want(migrate(id, 9), unix.ENOENT)
	to.want(migrate(id, 0), unix.EINVAL)
	to.want(migrate(77, 5), unix.ENOENT)
	to.ok(migrate(id, 5))
	if n := answer[uapi.UcmaReported](to).EventsReported; n != 1 {
		t.Errorf("%d read, want 1", n)
	}
	to.want(migrate(id, 5), unix.EINVAL)
	from.want(from.user(id, 0), unix.EINVAL)
	for i := range int32(3) {
		if e := from.event(); e.ID != stays || e.Status != i {
			t.Errorf("%+v stayed", e)
		}
	}
	from.quiet()
	for i := int32(1); i < 3; i++ {
		if e := to.event(); e.ID != id || e.Status != i {
			t.Errorf("%+v moved", e)
		}
	}
	from.exit()
	if n := to.destroy(id); n != 3 {
		t.Errorf("%d read, want 3", n)
	}
}

// TestMigrateListener: connections come to the file that the listener has moved to.
func TestMigrateListener(t *testing.T) {
	h := newHost(t)
	s, c := h.open(), h.open()
	listener := s.listener(0xa, tcp, 5)
	moved := h.open()
	moved.fds[3] = s.f
	moved.ok(do(moved, uapi.UcmaMigrateID, uapi.UcmaMigrateIDReq{Response: answerAt, ID: listener, FD: 3}, 4))
	s.exit()
	passive, _ := established(t, moved, c, listener)
	if n := moved.destroy(passive); n != 1 {
		t.Errorf("%d read, want 1", n)
	}
}

// TestWriteEvent: only two kinds are the program's, and each costs something.
func TestWriteEvent(t *testing.T) {
	h := newHost(t)
	p := h.open()
	id := p.create(0xa, tcp)
	p.want(do(p, uapi.UcmaWriteCMEvent, uapi.UcmaWriteCMEventReq{ID: id, Event: 9}, 0), unix.EINVAL)
	req := uapi.UcmaWriteCMEventReq{ID: id, Event: eventInternal, Status: -5}
	for i := range req.Param {
		req.Param[i] = byte(i + 1)
	}
	p.ok(do(p, uapi.UcmaWriteCMEvent, req, 0))
	e := p.event()
	if e.Event != eventInternal || e.Status != -5 || e.Param[7] != 8 || e.Param[8] != 0 {
		t.Errorf("%+v", e)
	}
	before := h.budget.Used()
	p.ok(p.user(id, 0))
	if after := h.budget.Used(); after.Memory <= before.Memory {
		t.Errorf("an event costs nothing: %+v", after)
	}
	p.destroy(id)
	if after := h.budget.Used(); after.Memory >= before.Memory {
		t.Errorf("after the id: %+v", after)
	}
}

// TestSpent: a user whose budget is used up gets errors, and no request of a peer.
func TestSpent(t *testing.T) {
	h := newHost(t)
	h.dev.budget = quota.New(quota.Cost{Memory: 3*idCost.Memory + 200<<10, Files: 10})
	h.budget = h.dev.budget
	p := h.open()
	n := 0
	for do(p, uapi.UcmaCreateID, uapi.UcmaCreateIDReq{Response: answerAt, PS: uint16(tcp)}, 4) == nil {
		n++
	}
	p.want(do(p, uapi.UcmaCreateID, uapi.UcmaCreateIDReq{Response: answerAt, PS: uint16(tcp)}, 4), unix.ENOMEM)
	if n == 0 {
		t.Error("no id at all")
	}
	p.exit()
	h.given()
}

// TestUnread: events that a program does not read cost its user, as soon as they are more than a
// few. Beyond the budget they are dropped. What was paid comes back when they are read, or with the
// id.
func TestUnread(t *testing.T) {
	h := newHost(t)
	p := h.open()
	id := p.create(0xa, tcp)
	h.dev.mu.Lock()
	c := h.dev.ids.find(id)
	h.dev.mu.Unlock()
	idle := h.dev.budget.Used()
	const paid = 5
	h.dev.budget = h.dev.budget.Share(quota.Cost{Memory: paid * eventCost.Memory})
	unhook := h.dev.budget.BeforeRefusal(func() { t.Error("somebody looks for what is not needed, with the Manager's lock held") })
	for range few + 2*paid {
		c.event(&rdmacm.Event{Kind: rdmacm.AddrError, Status: -19})
	}
	unhook()
	if n, used := len(p.f.events), h.dev.budget.Used().Memory; n != few+paid || used != paid*eventCost.Memory {
		t.Errorf("%d events wait and cost %d bytes", n, used)
	}
	for range few + paid {
		p.ok(do(p, uapi.UcmaGetEvent, uapi.UcmaGetEventReq{Response: answerAt}, 336))
	}
	if used := h.dev.budget.Used().Memory; used != 0 || c.unread != 0 {
		t.Errorf("events that were read cost %d bytes", used)
	}
	for range few + paid {
		c.event(&rdmacm.Event{Kind: rdmacm.AddrError, Status: -19})
	}
	h.dev.mu.Lock()
	children := p.f.forget(func(*event) bool { return true })
	h.dev.mu.Unlock()
	p.f.Sync()
	if used := h.dev.budget.Used().Memory; used != 0 || len(children) != 0 {
		t.Errorf("events that were dropped cost %d bytes", used)
	}
	h.dev.budget = h.budget
	if used := h.budget.Used(); used != idle {
		t.Errorf("%+v is paid, not %+v", used, idle)
	}
}

// TestMulticast: a group has a number and a uid of its own, and its events count for the id
// as well.
func TestMulticast(t *testing.T) {
	h := newHost(t)
	p := h.open()
	id := p.create(0xa, udp)
	p.ok(do(p, uapi.UcmaBindIP, uapi.UcmaBindIPReq{Addr: in6(0), ID: id}, 0))
	addr := in6(0)
	copy(addr[4:], []byte{239, 1, 1, 1})
	join := func() uint32 {
		p.ok(do(p, uapi.UcmaJoinIPMcast, uapi.UcmaJoinIPMcastReq{Response: answerAt, UID: 0x33, Addr: addr, ID: id}, 4))
		return answer[uapi.UcmaID](p).ID
	}
	group := join()
	e := p.expect(rdmacm.MulticastJoin, group, 0x33)
	ud := uapi.Load[uapi.UcmaUDParam](e.Param[:])
	want := [16]byte{10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 1, 15: 1}
	if ud.AHAttr.DGID != want || ud.QPNum != 0xffffff || ud.QKey != 0x01234567 {
		t.Errorf("%+v", ud)
	}
	other := h.open()
	other.want(do(other, uapi.UcmaLeaveMcast, uapi.UcmaIDReq{Response: answerAt, ID: group}, 4), unix.EINVAL)
	p.ok(do(p, uapi.UcmaLeaveMcast, uapi.UcmaIDReq{Response: answerAt, ID: group}, 4))
	if n := answer[uapi.UcmaReported](p).EventsReported; n != 1 {
		t.Errorf("%d events of the group were read, want 1", n)
	}
	p.want(do(p, uapi.UcmaLeaveMcast, uapi.UcmaIDReq{Response: answerAt, ID: group}, 4), unix.ENOENT)
	if again := join(); again != group {
		t.Errorf("the next group is %d, want %d", again, group)
	}
	p.expect(rdmacm.MulticastJoin, group, 0x33)
	p.want(do(p, uapi.UcmaJoinMcast, uapi.UcmaJoinMcastReq{Response: answerAt, ID: id, AddrSize: 16, JoinFlags: 2, Addr: storage(0)}, 4), unix.EINVAL)
	if n := p.destroy(id); n != 2 {
		t.Errorf("%d events of the id were read, want 2", n)
	}
	p.exit()
	other.exit()
	h.given()
}
