package replay

import (
	"errors"
	"io"

	"github.com/gorxe/gorxe/internal/explain/plural"
)

// Replay plays a capture. If reading the capture fails, Replay plays the packets before
// that and returns the error. Of a capture that does not fit in memory it plays the beginning:
// Report.Part.
func Replay(in io.Reader) (*Report, error) { return replay(in, usual) }

func replay(in io.Reader, b bounds) (*Report, error) {
	l, err := load(in, b)
	if l == nil {
		return nil, err
	}
	report := &Report{Part: l.part, Cut: l.cut, CutAt: l.cutAt, Empty: len(l.streams) == 0}
	var sessions []*session
	sessions, report.Skipped = l.sessions()
	for _, n := range sessions {
		if n.reliable() && n.paired {
			report.play(n, Responder, playResponder)
		}
		report.play(n, Requester, playRequester)
	}
	for _, k := range l.talks.all {
		for _, active := range []bool{true, false} {
			report.playTalk(k, active)
		}
	}
	return report, err
}

func (r *Report) play(n *session, role Role, play func(*session, *Session) error) {
	s := &Session{
		Flow: n.flow.String(), Role: role, First: n.events[0].number,
		Free: make(map[string]int), Assumed: make(map[string]int),
	}
	if n.guessed {
		s.assume("which flows are the two directions of the connection")
	}
	if err := play(n, s); err != nil && !errors.Is(err, errEnd) {
		s.Stopped = err.Error()
	}
	r.Sessions = append(r.Sessions, s)
}

// playTalk plays one side of a talk, if the capture has a message of it.
func (r *Report) playTalk(k *talk, active bool) {
	if k.first(active) == nil {
		return
	}
	if k.first(!active) == nil {
		var unheard int
		if k, unheard = k.alone(); unheard > 0 {
			r.Skipped = append(r.Skipped, Skipped{k.name(active), plural.Of(unheard, "message") + ": the capture lacks those of the other side"})
		}
	}
	s := &Session{
		Flow: k.name(active), Role: Manager, First: k.messages[0].number,
		Free: make(map[string]int), Assumed: make(map[string]int),
	}
	playManager(k, active, s)
	r.Sessions = append(r.Sessions, s)
}

// errEnd ends a session in which nothing is left to compare.
var errEnd = errors.New("the queue pair is in error")

// budget returns how many bytes the engine may send in a session: several times as many
// as were captured.
func (n *session) budget() int64 {
	const slack, times = 1 << 20, 16
	total := int64(slack)
	for _, e := range n.events {
		total += times * int64(len(e.pkt.Bytes()))
	}
	return total
}
