package trap

import (
	"strconv"
	"strings"

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
	if s.PC, s.SP, ok = inCall(string(text)); !ok {
		return s, false
	}
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

// inCall reads /proc/PID/syscall of a thread that waits in a call: the call's number, six
// arguments, the stack pointer and the program counter (fs/proc/base.c:proc_pid_syscall).
func inCall(text string) (pc, sp uint64, ok bool) {
	words := strings.Fields(text)
	if len(words) != 9 {
		return 0, 0, false
	}
	sp, err := strconv.ParseUint(words[7], 0, 64)
	if err != nil {
		return 0, 0, false
	}
	pc, err = strconv.ParseUint(words[8], 0, 64)
	return pc, sp, err == nil
}

// Maps implements kernel.Standing.
func (c *caller) Maps(most int) string {
	text, err := procfs.ReadFile(procfs.Path(c.r.thread(), "maps"))
	if err != nil || len(text) > most || !c.r.s.listener.Valid(c.r.n.ID) {
		return ""
	}
	return string(text)
}

// Alone implements kernel.Standing.
func (c *caller) Alone() bool {
	return len(procfs.Threads(c.r.thread())) == 1 && c.r.s.listener.Valid(c.r.n.ID)
}
