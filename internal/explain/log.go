package explain

import (
	"sync"
	"time"
)

// kept is how many records a Log keeps.
const kept = 64

// Log keeps the last records of a program, and counts all. Its lock is a leaf lock. The zero value
// is ready to use.
type Log struct {
	mu    sync.Mutex // below
	ring  []Record
	next  int // in the ring, once it is full
	total uint64
}

// Add adds a record. One that equals the last is only counted.
func (l *Log) Add(r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	if last := l.last(); last != nil && last.same(&r) {
		last.Count++
		return
	}
	if r.Count = 1; r.Time.IsZero() {
		r.Time = time.Now()
	}
	if len(l.ring) < kept {
		l.ring = append(l.ring, r)
		return
	}
	l.ring[l.next] = r
	l.next = (l.next + 1) % kept
}

func (l *Log) last() *Record {
	if len(l.ring) == 0 {
		return nil
	}
	return &l.ring[(l.next+len(l.ring)-1)%len(l.ring)]
}

// Records returns the records that are kept, the oldest first, and how many there were in all.
func (l *Log) Records() (list []Record, total uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list = append(append(list, l.ring[l.next:]...), l.ring[:l.next]...)
	return list, l.total
}
