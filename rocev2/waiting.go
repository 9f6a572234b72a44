package rocev2

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/internal/sys/mmsg"
	"golang.org/x/sys/unix"
)

// waiting is how a reader waits for packets: in the runtime's poller, or in a thread.
//
// A packet wakes a thread that waits in recvmmsg, and nothing else. If the poller waits, a packet
// wakes one of the runtime's threads. That thread looks for other work before and after it runs the
// reader, and may wake further threads for that.
//
// A thread of the real-time class does not tell Go's runtime that it waits (sched.AwaitBriefly says
// why). It keeps its processor of Go meanwhile. After sched.Briefly it waits as others do.
type waiting struct {
	socket  *socket
	raw     syscall.RawConn
	threads *Threads // nil: it never waits in a thread
	batch   *recvBatch
	poll    func(fd uintptr) bool // fills batch, or reports false if nothing is there
	await   func(fd uintptr) bool // fills batch

	inThread bool
	thread   sched.Thread
	affinity affinity
	arrivals sched.Arrivals // while the poller waits
}

// begin prepares to wait. The reader that this one replaces may have left the socket as a thread
// needs it. If there is no descriptor for the other way, this reader has a thread, too.
func (w *waiting) begin(s *socket, t *Threads, b *recvBatch) (err error) {
	w.socket, w.threads, w.batch = s, t, b
	w.poll = func(fd uintptr) bool {
		b.n, b.errno = mmsg.Receive(int(fd), b.msgs[:b.want])
		return b.errno != unix.EAGAIN
	}
	w.await = func(fd uintptr) bool {
		for {
			unseen := w.thread.InClass()
			b.n, b.errno = mmsg.Await(int(fd), b.msgs[:b.want], unseen)
			if b.errno != unix.EAGAIN || !arrives(int(fd), time.Duration(t.idle.Load())) {
				return true
			}
		}
	}
	w.raw, err = s.setWaits(false)
	if err != nil && !errors.Is(err, os.ErrClosed) {
		t.used.Add(1)
		w.haveThread()
		return nil
	}
	return err
}

// receive waits for packets, and fills the batch. It fails if the socket was closed.
func (w *waiting) receive() error {
	for {
		if !w.inThread && w.threads != nil && w.arrivals.Busy(sched.Now()) {
			w.enterThread()
		}
		if !w.inThread {
			return w.raw.Read(w.poll)
		}
		w.thread.UpdateClass(w.threads.class.ForPackets())
		w.affinity.follow(w.threads.avoid.Load())
		if err := w.raw.Read(w.await); err != nil {
			return err
		}
		if w.batch.errno == unix.EAGAIN {
			w.leaveThread()
			continue
		}
		// A socket that is being closed returns a message without a byte, or an error.
		if (w.batch.errno != 0 || w.batch.msgs[0].N == 0) && w.socket.isClosed() {
			return os.ErrClosed
		}
		return nil
	}
}

// enterThread makes the reader wait in a thread, if there is one for it.
func (w *waiting) enterThread() {
	if !w.threads.take() {
		return
	}
	raw, err := w.socket.setWaits(true)
	if err != nil {
		w.threads.give()
		return
	}
	w.raw = raw
	w.haveThread()
}

func (w *waiting) haveThread() {
	runtime.LockOSThread()
	w.inThread = true
	w.thread.Class, w.thread.Packets = w.threads.class, true
	w.affinity = affinity{}
}

// leaveThread is called when no packet came for Threads.idle. If there is no descriptor for the
// other way, the reader stays in its thread.
func (w *waiting) leaveThread() {
	if raw, err := w.socket.setWaits(false); err == nil {
		w.raw = raw
		w.end()
	}
}

// end gives the thread back.
func (w *waiting) end() {
	if !w.inThread {
		return
	}
	w.inThread = false
	w.affinity.End()
	w.thread.End()
	runtime.UnlockOSThread()
	w.threads.give()
}
