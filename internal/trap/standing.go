package trap

import (
	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/sys/procfs"
)

var _ kernel.Standing = (*caller)(nil)

// Stack implements kernel.Standing. The call must still wait after the look, as for NetRaw.
func (c *caller) Stack(most int) (s kernel.Stack, ok bool) {
	s.TID, s.Behind = c.r.thread(), c.behind
	if c.guess(&s, most) {
		return s, c.r.s.listener.Valid(c.r.n.ID)
	}
	text, err := procfs.ReadFile(procfs.Path(s.TID, "syscall"))
	if err != nil {
		return s, false
	}
	at, ok := procfs.ParseStanding(string(text))
	if !ok || !at.InCall {
		return s, false
	}
	s.PC, s.SP = at.PC, at.SP
	for n := most; n >= leastStack; n /= 2 { // the stack may end before that
		buf := make([]byte, n)
		if c.Read(s.SP, buf) == nil {
			s.Bytes = buf
			c.r.s.stacks.keep(&c.r.n, &s)
			return s, c.r.s.listener.Valid(c.r.n.ID)
		}
	}
	return s, false
}

// Maps implements kernel.Standing.
func (c *caller) Maps(most int) string {
	text, err := procfs.ReadBegin(procfs.Path(c.r.thread(), "maps"), most+1)
	if err != nil || len(text) > most || !c.r.s.listener.Valid(c.r.n.ID) {
		return ""
	}
	return string(text)
}

// Interrupted implements kernel.Standing.
func (c *caller) Interrupted() bool { return c.r.s.receivers.missed.Load() }

// Alone implements kernel.Standing.
func (c *caller) Alone() bool {
	return len(procfs.Threads(c.r.thread())) == 1 && c.r.s.listener.Valid(c.r.n.ID)
}
