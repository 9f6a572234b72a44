package mmsg

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Conn is the part of syscall.RawConn that sends.
type Conn interface {
	Control(f func(fd uintptr)) error
}

// SendFrames sends frames over a socket without waiting, each as a message that begins with head,
// and returns how many the kernel took. If it has no room for one, the others are not tried.
// Several threads may call it.
func SendFrames(c Conn, head []byte, frames [][]byte, flags uintptr) (sent int) {
	b := outPool.Get().(*outBatch)
	defer outPool.Put(b)
	c.Control(func(fd uintptr) { //nolint:errcheck // it is closed: nothing is sent
		for more := true; more && len(frames) > 0; {
			n := min(len(frames), batchLen)
			b.fill(head, frames[:n])
			var taken int
			taken, more = b.send(int(fd), n, flags)
			sent, frames = sent+taken, frames[n:]
		}
	})
	return sent
}

type outBatch struct {
	msgs [batchLen]Header
	iovs [batchLen][2]unix.Iovec
}

var outPool = sync.Pool{New: func() any { return new(outBatch) }}

func (b *outBatch) fill(head []byte, frames [][]byte) {
	for i, f := range frames {
		iovs := b.iovs[i][:]
		if len(head) == 0 {
			iovs = iovs[1:]
		} else {
			SetIovec(&iovs[0], head)
		}
		SetIovec(&b.iovs[i][1], f)
		b.msgs[i].Set(iovs, nil)
	}
}

// send sends the first n messages. It leaves out those that are too long for the socket. more is
// false if the socket takes none now.
func (b *outBatch) send(fd, n int, flags uintptr) (sent int, more bool) {
	for at := 0; at < n; {
		taken, errno := Send(fd, b.msgs[at:n], flags)
		switch errno {
		case 0:
			sent += taken
			at += taken
		case unix.EMSGSIZE:
			at++
		default:
			return sent, false
		}
	}
	return sent, true
}

// Inbox receives frames from a socket, for one thread.
type Inbox struct {
	room, control int // of a message
	buf, controls []byte
	msgs          [batchLen]Header
	iovs          [batchLen][1]unix.Iovec
}

// NewInbox makes an Inbox for messages of at most room bytes, with so many bytes of control
// messages. Each may grow in place by spare bytes.
func NewInbox(room, control, spare int) *Inbox {
	stride := room + spare
	b := &Inbox{room: room, control: control, buf: make([]byte, stride*batchLen), controls: make([]byte, control*batchLen)}
	for i := range b.iovs {
		SetIovec(&b.iovs[i][0], b.buf[i*stride:][:room])
	}
	return b
}

// InboxBytes returns what NewInbox allocates, nearly all of it.
func InboxBytes(room, control, spare int) int64 { return int64(room+control+spare) * batchLen }

// Receive receives what is there, at most a batch, without waiting.
func (b *Inbox) Receive(fd int) (n int, errno unix.Errno) {
	for i := range b.msgs {
		b.msgs[i].Set(b.iovs[i][:], b.controls[i*b.control:][:b.control])
	}
	return Receive(fd, b.msgs[:])
}

// Reader is the part of syscall.RawConn that receives.
type Reader interface {
	Read(f func(fd uintptr) (done bool)) error
}

// Wait is Receive, but waits until something is there. The end of a connection waits for what Read
// calls, so that is one batch: a peer may send without end. An error is an errno, or Read's.
func (b *Inbox) Wait(c Reader) (n int, err error) {
	var errno unix.Errno
	err = c.Read(func(fd uintptr) bool {
		n, errno = b.Receive(int(fd))
		return errno != unix.EAGAIN
	})
	if err == nil && errno != 0 {
		err = errno
	}
	return n, err
}

// Message returns a message that came, with its control messages. Whole is false if it was longer
// than the room.
func (b *Inbox) Message(i int) (data, control []byte, whole bool) {
	m := &b.msgs[i]
	stride := len(b.buf) / batchLen
	data = b.buf[i*stride:][:m.N:stride]
	control = b.controls[i*b.control:][:min(int(m.Hdr.Controllen), b.control)]
	return data, control, m.Hdr.Flags&unix.MSG_TRUNC == 0
}
