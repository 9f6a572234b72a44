package fallback

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxPipeBytes is the default of fs.pipe-max-size.
	maxPipeBytes = 1 << 20
	// A thread that waits for room in a pipe gets so much time to find it, in each of jamRounds rounds.
	jamTime   = 5 * time.Millisecond
	jamRounds = 8
)

// jam makes doorbells fail that go to a pipe, with EAGAIN, and reports whether the descriptor is of such a pipe. A pipe of another kind is
// not open for reading and writing.
func jam(pidfd, fd int) bool {
	theirs, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err != nil {
		return false
	}
	flags, err := unix.FcntlInt(uintptr(theirs), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE != unix.O_RDWR || unix.SetNonblock(theirs, true) != nil {
		unix.Close(theirs)
		return false
	}
	empty(theirs)
	time.Sleep(jamTime)
	fill(theirs)
	// On a busy machine, a thread that waited for room may have had no turn.
	go func() {
		defer unix.Close(theirs)
		for range jamRounds {
			time.Sleep(10 * jamTime)
			empty(theirs)
			time.Sleep(jamTime)
			fill(theirs)
		}
	}()
	return true
}

// empty reads what is in the pipe. The program may write meanwhile.
func empty(pipe int) {
	var b [4096]byte
	for range 2 * maxPipeBytes / len(b) {
		if _, err := unix.Read(pipe, b[:]); err != nil {
			return
		}
	}
}

// fill writes until there is no room for a byte.
func fill(pipe int) {
	var b [4096]byte
	for _, size := range []int{len(b), 1} {
		for range 2 * maxPipeBytes / len(b) * len(b) / size {
			if _, err := unix.Write(pipe, b[:size]); err != nil {
				break
			}
		}
	}
}
