package daemon

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/fdid"
)

// questions are the open questions of a session to its keeper.
type questions struct {
	mu   sync.Mutex // below
	last uint64
	open map[uint64]chan answer
	gone bool // the keeper is gone
}

// answer is a descriptor, the file that one refers to, or an errno.
type answer struct {
	fd  int // -1: none
	id  fdid.ID
	err error
}

// got returns an error for an answer that lacks what was asked for.
func (a answer) got(file bool) answer {
	if a.err == nil && (a.fd >= 0) != file {
		if a.fd >= 0 {
			unix.Close(a.fd)
		}
		return answer{fd: -1, err: unix.EPERM}
	}
	return a
}

// keeperTimeout is how long a keeper may take. A stopped keeper (SIGSTOP) must not block the
// session for ever.
const keeperTimeout = 5 * time.Second

// ask asks the keeper r's question about the process that pidfd stands for.
func (q *questions) ask(conn *Conn, r reply, pidfd int) answer {
	none := answer{fd: -1, err: unix.EPERM}
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

	r.Version, r.Question = protocolVersion, id
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
	none.err = unix.ETIMEDOUT
	return none
}

// take ends question id and returns where its answer goes; nil if it has one.
func (q *questions) take(id uint64) chan answer {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.open[id]
	delete(q.open, id)
	return c
}

// answer handles an answer from the keeper. It drops one that fits no question.
func (q *questions) answer(req request, fds []int) {
	got := q.take(req.ID)
	if got == nil {
		closeAll(fds)
		return
	}
	a := answer{fd: -1, id: fdid.ID{Dev: req.Dev, Ino: req.Ino}}
	switch {
	case req.Errno != 0:
		closeAll(fds)
		a.err = unix.Errno(req.Errno)
	case len(fds) == 1:
		a.fd = fds[0]
	default:
		closeAll(fds)
	}
	got <- a
}

// end answers all questions with an error, because the keeper is gone.
func (q *questions) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gone = true
	for id, c := range q.open {
		delete(q.open, id)
		c <- answer{fd: -1, err: unix.EPERM}
	}
}
