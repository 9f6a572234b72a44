package uverbs

import (
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/test/leak"
	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// holdingCaller is a program whose memory answers when it is let.
type holdingCaller struct {
	*program
	entered, release chan struct{}
}

func newHolding(p *program) *holdingCaller {
	return &holdingCaller{p, make(chan struct{}), make(chan struct{})}
}

func (c *holdingCaller) Write(addr uint64, b []byte) error {
	c.entered <- struct{}{}
	<-c.release
	return c.program.Write(addr, b)
}

// TestCloseDuringCall: a file is closed while a call waits for memory that does not
// answer. Close does not wait, no other call can begin, and everything ends with the call.
func TestCloseDuringCall(t *testing.T) {
	d, engine := newDevice(t)
	u := &user{opened(t, d), forms[0]}
	u.makeAll()
	v := verb{cmd: uapi.CmdAllocPD, req: bytesFrom(uapi.AllocPDReq{}), resp: 4}
	u.reset()
	buf := u.alloc(v.bytes(u.room(4)))
	c := newHolding(u.program)
	done := make(chan error)
	go func() {
		_, err := u.f.Write(c, buf, 16)
		done <- err
	}()
	<-c.entered
	u.f.Close()
	u.f.Close()
	if _, err := u.f.Write(u, buf, 16); err != unix.EIO {
		t.Errorf("write after close: %v", err)
	}
	if _, err := u.f.Ioctl(u, uapi.RDMAVerbsIoctl, buf); err != unix.EIO {
		t.Errorf("ioctl after close: %v", err)
	}
	if n := engine.Objects(); n.PD != 2 {
		t.Errorf("the call's objects are gone: %+v", n)
	}
	c.release <- struct{}{}
	if err := <-done; err != nil {
		t.Error(err)
	}
	must.Eventually(t, "the file's thread ends its objects", func() bool { return engine.Objects() == rxe.ObjectCounts{} })
	if s := u.f.Status(100); s.PDs != 0 || len(s.QPs) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestBusyObject: an object that a call works with cannot be destroyed by
// another, and the other way round.
func TestBusyObject(t *testing.T) {
	d, _ := newDevice(t)
	u := &user{opened(t, d), forms[0]}
	o := u.makeAll()
	u.reset()
	v := verb{cmd: uapi.CmdQueryQP, req: bytesFrom(uapi.QueryQPReq{QPHandle: o.qp}), resp: uapi.SizeOf[uapi.QueryQPResp]()}
	b := v.bytes(u.room(v.resp))
	buf := u.alloc(b)
	c := newHolding(u.program)
	done := make(chan error)
	go func() {
		_, err := u.f.Write(c, buf, uint64(len(b)))
		done <- err
	}()
	<-c.entered
	other := &program{t: t, f: u.f, mem: &programMemory{Memory: u.mem.Memory}}
	other.top = programBase + 64<<10
	raw := func(v verb) error {
		b := v.bytes(programBase + 128<<10)
		at := other.alloc(b)
		_, err := u.f.Write(other, at, uint64(len(b)))
		return err
	}
	if err := raw(destroyVerb(uapi.CmdDestroyQP, o.qp)); err != unix.EBUSY {
		t.Errorf("destroyed while in use: %v", err)
	}
	if err := raw(v); err != nil {
		t.Errorf("two that look: %v", err)
	}
	c.release <- struct{}{}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := raw(destroyVerb(uapi.CmdDestroyQP, o.qp)); err != nil {
		t.Error(err)
	}
}

// TestDestroyHeldUp: a doorbell that waits for memory was answered for, so the
// program may destroy the QP; that waits with it, and succeeds.
func TestDestroyHeldUp(t *testing.T) {
	e := newLoop(t)
	v := doorbellVerb(e.qp)
	doorbell := e.alloc(v.bytes(e.room(4)))
	v = destroyVerb(uapi.CmdDestroyQP, e.qp)
	end := v.bytes(e.room(16))
	endAt := e.alloc(end)
	entered, release := make(chan struct{}), make(chan struct{})
	e.mem.read = func() {
		close(entered)
		<-release
	}
	e.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{Op: rxe.WRSend, SGL: []rxe.SGE{e.sge(0, 64)}}})
	var calls sync.WaitGroup
	calls.Go(func() { _, _ = e.f.Write(e, doorbell, 32) }) // as if answered: it may say anything
	<-entered
	var destroyed atomic.Bool
	calls.Go(func() {
		if _, err := e.f.Write(e, endAt, uint64(len(end))); err != nil {
			t.Errorf("destroy: %v", err)
		}
		destroyed.Store(true)
	})
	o := e.f.objects.Lookup(e.qp)
	must.Eventually(t, "the object is being destroyed", func() bool { return o.Use.Load() == -1 || destroyed.Load() })
	close(release)
	calls.Wait()
}

// TestDisassociateDuringCall: a device and a file that go away while a call is in
// progress, as a daemon's do that ends: the queues are flushed even so.
func TestDisassociateDuringCall(t *testing.T) {
	d, _ := newDevice(t)
	u := &user{opened(t, d), forms[0]}
	e := newEndpoint(t, u, rxe.QPRC)
	e.connect(e.qp, rxe.QPRC, e.qpn)
	for id := range uint64(3) {
		e.recv.PostRecv(id, e.sge(0, 64))
	}
	e.reset()
	v := verb{cmd: uapi.CmdQueryQP, req: bytesFrom(uapi.QueryQPReq{QPHandle: e.qp}), resp: uapi.SizeOf[uapi.QueryQPResp]()}
	b := v.bytes(u.room(v.resp))
	buf := u.alloc(b)
	c := newHolding(u.program)
	var calls sync.WaitGroup
	calls.Go(func() { _, _ = u.f.Write(c, buf, uint64(len(b))) })
	<-c.entered
	calls.Go(func() {
		d.Close()
		u.f.Close()
	})
	must.Eventually(t, "the end of the file waits for the call", func() bool {
		u.f.gate.mu.Lock()
		defer u.f.gate.mu.Unlock()
		return u.f.gate.pending
	})
	close(c.release)
	calls.Wait()
	for id := range uint64(3) {
		if wc, ok := e.comp.Poll(); !ok || wc.ID != id || rxe.WCStatus(wc.Status) != rxe.WCFlushErr {
			t.Errorf("%+v %v", wc, ok)
		}
	}
}

// TestDisassociateFlushes: a program that only looks at its queues learns there
// that the device is gone.
func TestDisassociateFlushes(t *testing.T) {
	d, _ := newDevice(t)
	e := newEndpoint(t, &user{opened(t, d), forms[0]}, rxe.QPRC)
	e.connect(e.qp, rxe.QPRC, e.qpn)
	for id := range uint64(3) {
		e.recv.PostRecv(id, e.sge(0, 64))
	}
	d.Close()
	for id := range uint64(3) {
		if wc, ok := e.comp.Poll(); !ok || wc.ID != id || rxe.WCStatus(wc.Status) != rxe.WCFlushErr {
			t.Errorf("%+v %v", wc, ok)
		}
	}
}

// TestDisassociate: the device goes away under its programs.
func TestDisassociate(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		async := u.real(firstFD(u.program))
		o := u.makeAll()
		d.Close()
		d.Close()
		if n := engine.Objects(); n != (rxe.ObjectCounts{}) {
			t.Errorf("left: %+v", n)
		}
		var b [16]byte
		if n, err := unix.Read(async, b[:]); n != 16 || err != nil || uapi.Load[uint32](b[8:]) != uint32(rxe.EventDeviceFatal) {
			t.Errorf("event %d %v %x", n, err, b)
		}
		destroys := map[string]bool{"DESTROY_AH": true, "DEALLOC_MW": true, "DEREG_MR": true, "DESTROY_QP": true,
			"DESTROY_SRQ": true, "DESTROY_CQ": true, "DEALLOC_PD (EBUSY)": true}
		for name, v := range o.verbs() {
			if destroys[name] {
				continue
			}
			if _, err := u.form.call(u.program, v); err != unix.EIO {
				t.Errorf("%s: %v", name, err)
			}
		}
		// What the program gives up is gone already.
		for name, v := range o.verbs() {
			if !destroys[name] {
				continue
			}
			if _, err := u.form.call(u.program, v); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := u.form.call(u.program, v); err != unix.ENOENT {
				t.Errorf("%s twice: %v", name, err)
			}
		}
		if _, err := d.Open(nil); err == nil {
			t.Error("opened")
		}
	})
}

// TestExit: a program that goes away at any moment leaves nothing: no object, no
// descriptor.
func TestExit(t *testing.T) {
	d, engine := newDevice(t)
	fds := len(leak.OpenFiles())
	for range 3 {
		for _, form := range forms {
			u := &user{opened(t, d), form}
			o := u.makeAll()
			u.call(verb{cmd: uapi.CmdAttachMcast, req: bytesFrom(uapi.McastReq{GID: [16]byte{10: 0xff, 11: 0xff, 12: 224, 15: 9}, QPHandle: o.qp})})
			e := newEndpoint(t, u, rxe.QPRC)
			e.connect(e.qp, rxe.QPRC, e.qpn)
			mw := u.allocMW(e.pd, 2)
			e.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{Op: rxe.WRBindMW, Flags: rxe.SendSignaled}, MWRKey: mw.RKey,
				BindRKey: mw.RKey ^ 1, MRLKey: e.mr.LKey, BindAddr: programData, BindLength: 10, BindAccess: uint32(rxe.AccessRemoteRead)})
			e.call(doorbellVerb(e.qp))
			if wc, ok := e.comp.Poll(); !ok || wc.Status != 0 {
				t.Fatalf("bind: %+v %v", wc, ok)
			}
			// nobody receives
			e.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{Op: rxe.WRSend, SGL: []rxe.SGE{e.sge(0, 10)}}})
			e.call(doorbellVerb(e.qp))
			u.exit()
		}
	}
	if n := engine.Objects(); n != (rxe.ObjectCounts{}) {
		t.Errorf("objects left: %+v", n)
	}
	if len(d.owners) != 0 || len(d.files) != 0 {
		t.Errorf("%d owners, %d files left", len(d.owners), len(d.files))
	}
	must.Eventually(t, "other threads close the pipes", func() bool { return len(leak.OpenFiles()) <= fds })
}

// TestChannels: channels that the program closed are not kept, and one that it
// cannot be given is not made.
func TestChannels(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		// Until some are forgotten: the daemon's ends are closed by other threads.
		for before, n := 0, 0; n >= before; n, _ = u.f.events.counts() {
			before = n
			u.closeFD(u.createChannel())
		}
		keep := u.createChannel()
		before, _ := u.f.events.counts()
		u.maxFDs = len(u.fds)
		v := verb{cmd: uapi.CmdCreateCompChannel, req: bytesFrom(uapi.CreateCompChannelReq{}), resp: 4}
		if _, err := u.form.call(u.program, v); err != unix.EMFILE {
			t.Errorf("no room for a descriptor: %v", err)
		}
		if n, _ := u.f.events.counts(); n > before+1 {
			t.Errorf("%d channels, %d before", n, before)
		}
		if err := u.ioctl(uapi.ObjAsyncEvent, uapi.MethodAsyncEventAlloc, newFD(uapi.AttrAsyncEventFD)); err != unix.EMFILE {
			t.Errorf("no room for a descriptor: %v", err)
		}
		// A CQ outlives its channel.
		cq, _ := u.createCQ(4, keep, 1)
		u.closeFD(keep)
		u.f.objects.Lookup(cq.CQHandle).Res.(*cqRes).channel.notify(1, nil)
		u.call(destroyVerb(uapi.CmdDestroyCQ, cq.CQHandle))
	})
}

// TestFirstAsyncFD: events go to the first descriptor that the program got, not
// to one that it did not get.
func TestFirstAsyncFD(t *testing.T) {
	d, _ := newDevice(t)
	p := newProgram(t, d)
	p.reset()
	p.ok(p.ioctl(uapi.ObjDevice, uapi.MethodGetContext))
	p.maxFDs = 0
	p.want(p.ioctl(uapi.ObjAsyncEvent, uapi.MethodAsyncEventAlloc, newFD(uapi.AttrAsyncEventFD)), unix.EMFILE)
	p.maxFDs = 9
	p.ok(p.ioctl(uapi.ObjAsyncEvent, uapi.MethodAsyncEventAlloc, newFD(uapi.AttrAsyncEventFD)))
	u := &user{p, forms[0]}
	o := u.makeAll()
	d.Event(rxe.Event{Type: rxe.EventQPFatal, QP: u.f.objects.Lookup(o.qp).Res.(*qpRes).qp})
	var b [16]byte
	if n, err := unix.Read(p.real(51), b[:]); n != 16 || err != nil {
		t.Errorf("%d %v", n, err)
	}
}

// TestConcurrent: several threads of one program, the device's events, and
// someone who asks for the status, at once.
func TestConcurrent(t *testing.T) {
	d, engine := newDevice(t)
	u := &user{opened(t, d), forms[0]}
	o := u.makeAll()
	var wg sync.WaitGroup
	for n := range 4 {
		p := &program{t: t, dev: d, f: u.f, maxFDs: 1000, nextFD: 1000 * int32(n+1), fds: make(map[int32]int),
			mem: &programMemory{Memory: u.mem.Memory}}
		p.mem.Data = make([]byte, programSize)
		v := &user{p, forms[n%2]}
		wg.Go(func() {
			for i := range 100 {
				pd := v.allocPD()
				cq, _ := v.createCQ(4, -1, 5)
				qp, _ := v.createQP(rxe.QPUD, pd, cq.CQHandle)
				mr := v.regMR(pd, programData, 100, 1)
				for _, req := range connectReqs(qp.QPHandle, rxe.QPUD, 0) {
					_, _ = v.form.call(v.program, modifyVerb(req)) // another may have destroyed it
				}
				_, _ = v.form.call(v.program, doorbellVerb(qp.QPHandle))
				_, _ = v.form.call(v.program, doorbellVerb(o.qp))
				_, _ = v.form.call(v.program, destroyVerb(uapi.CmdDestroyQP, uint32(i))) // any
				for _, w := range []verb{destroyVerb(uapi.CmdDestroyQP, qp.QPHandle), destroyVerb(uapi.CmdDeregMR, mr.MRHandle),
					destroyVerb(uapi.CmdDestroyCQ, cq.CQHandle), destroyVerb(uapi.CmdDeallocPD, pd)} {
					_, _ = v.form.call(v.program, w)
				}
			}
		})
	}
	stop := make(chan struct{})
	var bystanders sync.WaitGroup
	for _, f := range []func(){
		func() { u.f.Status(100) },
		func() { d.Event(rxe.Event{Type: rxe.EventGIDChange, Port: 1}) },
	} {
		bystanders.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	bystanders.Wait()
	u.exit()
	if n := engine.Objects(); n != (rxe.ObjectCounts{}) {
		t.Errorf("left: %+v", n)
	}
}

// TestDoorbellCost: a doorbell reads the program's memory once, writes nothing
// there, and allocates nothing.
func TestDoorbellCost(t *testing.T) {
	e := newLoop(t)
	v := doorbellVerb(e.qp)
	b := v.bytes(e.room(4))
	buf := e.alloc(b)
	e.reads, e.writes = 0, 0
	if _, err := e.f.Write(e, buf, 32); err != nil || e.reads != 1 || e.writes != 0 {
		t.Errorf("%v, %d reads, %d writes", err, e.reads, e.writes)
	}
	wr := &librxeclient.SendWR{SendWR: rxe.SendWR{Op: rxe.WRWrite, Flags: rxe.SendSignaled, RemoteAddr: programData + 4096,
		SGL: []rxe.SGE{e.sge(0, 64)}}}
	wr.RKey = wire.RKey(e.mr.RKey)
	allocs := testing.AllocsPerRun(200, func() {
		e.send.PostSend(wr)
		if _, err := e.f.Write(e, buf, 32); err != nil {
			t.Fatal(err)
		}
		if wc, ok := e.comp.Poll(); !ok || wc.Status != 0 {
			t.Fatalf("%+v %v", wc, ok)
		}
	})
	if allocs != 0 && !race.Enabled {
		t.Errorf("%v allocations for a doorbell", allocs)
	}
}

// TestDoorbellAnswered: a doorbell that has nothing to write back is answered when it
// begins, with the length of the write. Other requests are answered when they end.
func TestDoorbellAnswered(t *testing.T) {
	e := newLoop(t)
	for _, s := range []struct {
		name string
		form form
		v    verb
		want int64
	}{
		{"doorbell", forms[0], doorbellVerb(e.qp), 32},
		{"no such QP", forms[0], doorbellVerb(e.qp + 99), 0},
		{"a work request within", forms[0], verb{cmd: uapi.CmdPostSend, resp: 4,
			req: append(bytesFrom(uapi.PostSendReq{QPHandle: e.qp, WRCount: 1, WQESize: 56}), make([]byte, 56)...)}, 0},
		{"doorbell by ioctl", forms[1], doorbellVerb(e.qp), 0},
		{"another command", forms[0], verb{cmd: uapi.CmdAllocPD, req: bytesFrom(uapi.AllocPDReq{}), resp: 4}, 0},
	} {
		e.answered.Store(0)
		e.reset()
		_, _ = s.form.call(e.program, s.v)
		if got := e.answered.Load(); got != s.want {
			t.Errorf("%s: answered with %d, want %d", s.name, got, s.want)
		}
	}
}

func BenchmarkWriteDoorbell(b *testing.B) {
	e := newLoop(b)
	v := doorbellVerb(e.qp)
	buf := e.alloc(v.bytes(e.room(4)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.f.Write(e, buf, 32); err != nil {
			b.Fatal(err)
		}
	}
}
