package proto

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/fdid"
)

// Questions are the open questions of a session to its keeper.
type Questions struct {
	mu   sync.Mutex // below
	last uint64
	open map[uint64]chan answer
	gone bool // the keeper is gone
}

// answer is a descriptor, the file that one refers to, or an errno.
type answer struct {
	FD  int // -1: none
	ID  fdid.ID
	Err error
}

// Got returns an error for an answer that lacks what was asked for.
func (a answer) Got(file bool) answer {
	if a.Err == nil && (a.FD >= 0) != file {
		if a.FD >= 0 {
			unix.Close(a.FD)
		}
		return answer{FD: -1, Err: unix.EPERM}
	}
	return a
}

// keeperTimeout is how long a keeper may take. A stopped keeper (SIGSTOP) must not block the
// session for ever.
const keeperTimeout = 5 * time.Second

// Ask asks the keeper r's question about the process that pidfd stands for.
func (q *Questions) Ask(conn *Conn, r Reply, pidfd int) answer {
	none := answer{FD: -1, Err: unix.EPERM}
	q.mu.Lock()
	if q.gone {
		q.mu.Unlock()
		return none
	}
	q.last++
	id, got := q.last, make(chan answer, 1)
	if q.open == nil {
		q.open = make(map[uint64]chan answer)
	}
	q.open[id] = got
	q.mu.Unlock()

	r.Version, r.Question = ProtocolVersion, id
	if err := conn.Send(r, pidfd); err != nil {
		q.take(id)
		return none
	}
	timer := time.NewTimer(keeperTimeout)
	defer timer.Stop()
	select {
	case a := <-got:
		return a
	case <-timer.C:
	}
	if q.take(id) == nil {
		return <-got // it came at the last moment
	}
	none.Err = unix.ETIMEDOUT
	return none
}

// take ends question id and returns where its answer goes; nil if it has one.
func (q *Questions) take(id uint64) chan answer {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.open[id]
	delete(q.open, id)
	return c
}

// Answer handles an answer from the keeper. It drops one that fits no question.
func (q *Questions) Answer(req Request, fds []int) {
	got := q.take(req.ID)
	if got == nil {
		CloseAll(fds)
		return
	}
	a := answer{FD: -1, ID: fdid.ID{Dev: req.Dev, Ino: req.Ino}}
	switch {
	case req.Errno != 0:
		CloseAll(fds)
		a.Err = unix.Errno(req.Errno)
	case len(fds) == 1:
		a.FD = fds[0]
	default:
		CloseAll(fds)
	}
	got <- a
}

// End answers all questions with an error, because the keeper is gone.
func (q *Questions) End() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gone = true
	for id, c := range q.open {
		delete(q.open, id)
		c <- answer{FD: -1, Err: unix.EPERM}
	}
}
