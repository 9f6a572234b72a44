package procfs

import (
	"strconv"
	"strings"
)

// Standing is where a thread waits: its program counter and stack pointer, and whether it waits in
// a system call.
type Standing struct {
	InCall bool
	PC, SP uint64
}

// ParseStanding reads /proc/PID/syscall (fs/proc/base.c: proc_pid_syscall): the call's number, six
// arguments, the stack pointer and the program counter, or -1 and the last two. ok is false if the
// thread runs.
func ParseStanding(text string) (s Standing, ok bool) {
	words := strings.Fields(text)
	switch len(words) {
	case 9:
		s.InCall = true
	case 3:
		if words[0] != "-1" {
			return Standing{}, false
		}
	default:
		return Standing{}, false
	}
	sp, spErr := strconv.ParseUint(words[len(words)-2], 0, 64)
	pc, pcErr := strconv.ParseUint(words[len(words)-1], 0, 64)
	if spErr != nil || pcErr != nil {
		return Standing{}, false
	}
	s.PC, s.SP = pc, sp
	return s, true
}
