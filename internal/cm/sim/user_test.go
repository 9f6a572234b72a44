package sim

import (
	"bytes"
	"errors"
	"time"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// user is the program at one end of a connection.
type user struct {
	w    *world
	h    *host
	p    *plan
	side int // client or server
	conn *cm.Conn
	gone bool // destroyed, or its host has crashed

	events []cm.EventKind
	// What the user knows of the connection.
	answered    bool // server: accepted
	established bool
	failed      bool // it will not be established
	over        bool // it was established, and has ended
	attr        [2]rxe.QPAttr
}

// after runs f after d, or at once if d is 0, unless the user is gone by then.
func (u *user) after(d time.Duration, f func()) {
	run := func() {
		if !u.gone {
			f()
			u.h.arm()
		}
	}
	if d == 0 {
		run()
		return
	}
	u.w.net.After(d, run)
}

// connect starts the client.
func (w *world) connect(p *plan) {
	h, to := w.hosts[p.from], w.hosts[p.to]
	u := &user{w: w, h: h, p: p, side: client}
	path := rxe.AHAttr{DGID: to.gid(), HopLimit: 64}
	var err error
	if p.lookup {
		u.conn, err = h.m.Lookup(h.now(), &cm.LookupParams{Service: lookup, Path: path, PrivateData: p.request}, u.handle)
	} else {
		u.conn, err = h.m.Connect(h.now(), &cm.ConnectParams{
			Service: service, Path: path, SGID: h.gid(), QPN: h.nextQPN(), StartingPSN: p.startingPSN[client], PathMTU: 1024,
			ResponderResources: p.depths[0], InitiatorDepth: p.depths[1], RetryCount: 7, RNRRetryCount: 3, PrivateData: p.request,
		}, u.handle)
	}
	must(err)
	u.join()
	h.arm()
}

// join adds the user to the world.
func (u *user) join() {
	u.w.users = append(u.w.users, u)
	if at := u.p.destroyAt[u.side]; at != 0 {
		u.after(max(1, at-time.Duration(u.h.now())), u.destroy)
	}
}

// request is the server: the listener's handler.
func (h *host) request(_ rxe.Time, c *cm.Conn, req *cm.Request) cm.Verdict {
	w := h.w
	p := w.p.plans[int(req.PrivateData[0])-1]
	if p.to != h.index || req.Lookup != p.lookup || !padded(req.PrivateData, p.request) {
		failf("plan %d: host %d got the request %+v", p.index, h.index, req)
	}
	if !p.lookup && (req.ResponderResources != p.depths[0] || req.InitiatorDepth != p.depths[1] || req.PathMTU != 1024) {
		failf("plan %d: request %+v", p.index, req)
	}
	w.stats.requests++
	switch {
	case p.server == ignore && !w.ignored[p.index]:
		w.ignored[p.index] = true
		return cm.Ignore
	case p.server == refuse:
		return cm.Refuse{Reason: wire.RejectConsumer, Data: p.reason}
	}
	taken, ok := c.Admit(h, p.index)
	if !ok {
		failf("plan %d: host %d has no room for the request", p.index, h.index)
	}
	u := &user{w: w, h: h, p: p, side: server, conn: c}
	c.SetHandler(u.handle)
	u.join()
	u.after(p.serverDelay, u.answer)
	return taken
}

// answer is what the server does with the request.
func (u *user) answer() {
	now := u.h.now()
	var err error
	switch u.p.server {
	case reject:
		err = u.conn.Reject(now, wire.RejectConsumer, nil, u.p.reason)
		u.failed = true
	case destroy:
		u.destroy()
	default:
		err = u.conn.Accept(now, &cm.AcceptParams{
			QPN: u.h.nextQPN(), StartingPSN: u.p.startingPSN[server], ResponderResources: u.p.depths[2], InitiatorDepth: u.p.depths[3],
			RNRRetryCount: 2, QKey: 0x01234567, PrivateData: u.p.reply,
		})
		u.answered = true
		if u.p.lookup {
			u.over = true
			u.retire()
		}
	}
	// The client may have taken the request back.
	u.mayBeTooLate(err)
}

// mayBeTooLate allows a call to fail if the connection has failed or ended before. If
// its peer has crashed and uses the queue pair's number again, the connection manager
// may be disconnecting it already.
func (u *user) mayBeTooLate(err error) {
	stale := !u.w.p.polite && u.conn.State() == cm.StateDREQSent
	if err == nil || errors.Is(err, cm.ErrState) && (u.failed || u.over || stale) {
		return
	}
	failf("plan %d side %d in state %v after %v: %v", u.p.index, u.side, u.conn.State(), u.events, err)
}

// handle is the handler of the connection's events.
func (u *user) handle(_ rxe.Time, ev *cm.Event) {
	if u.gone {
		failf("plan %d side %d: event %v after the end", u.p.index, u.side, ev.Kind)
	}
	u.w.stats.events[ev.Kind]++
	u.legal(ev.Kind)
	u.events = append(u.events, ev.Kind)
	switch ev.Kind {
	case cm.EventReply:
		if !padded(ev.PrivateData, u.p.reply) || ev.ResponderResources != u.p.depths[2] || ev.InitiatorDepth != u.p.depths[3] {
			failf("plan %d: reply %+v", u.p.index, ev)
		}
		u.after(u.p.clientDelay, u.replied)
	case cm.EventReady:
		u.ready()
	case cm.EventRejected:
		if ev.Reason == wire.RejectConsumer && len(ev.PrivateData) != wire.CMREJPrivateLen {
			failf("plan %d: rejection %+v", u.p.index, ev)
		}
		if u.w.p.polite && !padded(ev.PrivateData, u.p.reason) {
			failf("plan %d: rejection with % x", u.p.index, ev.PrivateData)
		}
		u.over = u.over || u.established
		u.failed = !u.over
	case cm.EventUnreachable, cm.EventLookupUnreachable:
		u.failed = true
		u.retire()
	case cm.EventDisconnect:
		u.established, u.over = true, true
		u.after(u.p.replyDelay[u.side], func() {
			err := u.conn.Disconnect(u.h.now())
			u.mayBeTooLate(err)
		})
	case cm.EventDisconnected:
		u.over = true
	case cm.EventTimewaitExit:
		u.retire()
	case cm.EventLookupReply:
		if ev.SIDRStatus == wire.SIDRSuccess && (!padded(ev.PrivateData, u.p.reply) || ev.QKey != 0x01234567 || ev.RemoteQPN <= 0x100) {
			failf("plan %d: lookup reply %+v", u.p.index, ev)
		}
		u.over = ev.SIDRStatus == wire.SIDRSuccess
		u.failed = !u.over
		u.retire()
	}
}

// replied is what the client does with the REP.
func (u *user) replied() {
	var err error
	switch u.p.client {
	case reject:
		err = u.conn.Reject(u.h.now(), wire.RejectConsumer, nil, u.p.reason)
		u.failed = true
	case destroy:
		u.destroy()
	default:
		if err = u.conn.Ready(u.h.now()); err == nil {
			u.ready()
		}
	}
	u.mayBeTooLate(err)
}

// ready is the start of the connection, on either side.
func (u *user) ready() {
	u.established = true
	for i, target := range []rxe.QPState{rxe.QPRTR, rxe.QPRTS} {
		var err error
		u.attr[i], _, err = u.conn.QPAttr(target)
		must(err)
	}
	if u.side == client && u.p.notify != 0 {
		u.w.net.After(u.p.notify, func() { u.w.dataCame(u) })
	}
	if u.p.ending == bothDisconnect || u.p.ending == ending(u.side) {
		u.after(u.p.endDelay, func() { u.mayBeTooLate(u.disconnect()) })
	}
}

func (u *user) disconnect() error { return u.conn.Disconnect(u.h.now()) }

// dataCame tells the server of a client's connection that data has come.
func (w *world) dataCame(from *user) {
	for _, u := range w.users {
		if u.side == server && !u.gone && u.conn.LocalCommID() == from.conn.RemoteCommID() && u.conn.RemoteCommID() == from.conn.LocalCommID() {
			if err := u.conn.Established(u.h.now()); err != nil && !u.established && !u.failed {
				failf("plan %d: data came in state %v: %v", u.p.index, u.conn.State(), err)
			}
			u.h.arm()
		}
	}
}

// destroy ends the user.
func (u *user) destroy() {
	u.w.stats.ended[u.conn.State()]++
	u.gone = true
	u.conn.Destroy(u.h.now())
	if u.conn.State() != cm.StateDestroyed {
		failf("plan %d: destroyed, and in state %v", u.p.index, u.conn.State())
	}
}

// retire destroys a connection that is over, unless its program keeps it.
func (u *user) retire() {
	if !u.p.keep[u.side] {
		u.after(0, u.destroy)
	}
}

// legal checks the order of events.
func (u *user) legal(next cm.EventKind) {
	had := func(k cm.EventKind) bool {
		for _, e := range u.events {
			if e == k {
				return true
			}
		}
		return false
	}
	last := len(u.events) - 1
	first := last < 0
	ok := false
	switch next {
	case cm.EventReply:
		ok = u.side == client && first && !u.p.lookup
	case cm.EventReady:
		ok = u.side == server && first && u.answered && !u.p.lookup
	case cm.EventRejected:
		ok = first || u.events[last] == cm.EventReply || u.events[last] == cm.EventReady
	case cm.EventUnreachable:
		ok = first && !u.p.lookup
	case cm.EventDisconnect:
		ok = !had(cm.EventDisconnect) && !had(cm.EventDisconnected) && !had(cm.EventUnreachable) && (u.established || u.answered)
	case cm.EventDisconnected:
		ok = !had(cm.EventDisconnected) && !had(cm.EventTimewaitExit) && (u.established || u.over)
	case cm.EventTimewaitExit:
		// Also after a rejection of the REP, or one that says stale.
		ok = !had(cm.EventTimewaitExit)
	case cm.EventLookupReply, cm.EventLookupUnreachable:
		ok = u.side == client && first && u.p.lookup
	}
	if !ok {
		failf("plan %d side %d: %v after %v", u.p.index, u.side, next, u.events)
	}
}

// padded reports whether got is want and zeros.
func padded(got, want []byte) bool {
	return len(got) >= len(want) && bytes.Equal(got[:len(want)], want) && len(bytes.Trim(got[len(want):], "\x00")) == 0
}
