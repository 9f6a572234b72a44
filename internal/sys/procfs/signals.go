package procfs

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Signals is what /proc/TID/status says of a thread's signals, as sets of bits: signal
// number n is bit n-1.
type Signals struct {
	TGID    int
	Asleep  bool   // the thread waits, and a signal would wake it; or it has stopped or ended
	Thread  uint64 // pending for the thread
	Process uint64 // pending for the process
	Blocked uint64
}

// ReadSignals reads the signals of a thread; ESRCH means that it has ended.
func ReadSignals(tid int) (s Signals, err error) {
	b, err := ReadFile(Path(tid, "status"))
	if err != nil {
		return s, unix.ESRCH
	}
	found := 0
	for line := range bytes.Lines(b) {
		key, rest, _ := bytes.Cut(line, []byte(":\t"))
		rest = bytes.TrimSpace(rest)
		var set *uint64
		switch string(key) {
		case "State":
			s.Asleep = len(rest) > 0 && bytes.IndexByte([]byte("STtZX"), rest[0]) >= 0
			found++
			continue
		case "Tgid":
			s.TGID, err = strconv.Atoi(string(rest))
			found++
			continue
		case "SigPnd":
			set = &s.Thread
		case "ShdPnd":
			set = &s.Process
		case "SigBlk":
			set = &s.Blocked
		default:
			continue
		}
		if *set, err = strconv.ParseUint(string(rest), 16, 64); err != nil {
			return s, err
		}
		found++
	}
	if found < 5 || err != nil {
		return s, unix.ESRCH
	}
	return s, nil
}

// Threads returns the numbers of the threads of a process.
func Threads(tgid int) []int {
	entries, err := os.ReadDir(Path(tgid, "task"))
	if err != nil {
		return nil
	}
	tids := make([]int, 0, len(entries))
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids
}

// FileFlags returns the status flags of descriptor fd of a thread, as F_GETFL does
// (fs/proc/fd.c: seq_show).
func FileFlags(tid int, fd int32) (int, error) {
	b, err := ReadFile(Path(tid, "fdinfo/"+strconv.Itoa(int(fd))))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte("flags:\t")); ok {
			flags, err := strconv.ParseInt(string(bytes.TrimSpace(rest)), 8, 64)
			return int(flags), err
		}
	}
	return 0, unix.EBADF
}
