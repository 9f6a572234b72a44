package fallback

import (
	"time"

	"golang.org/x/sys/unix"
)

// jam makes doorbells fail that go to a pipe, with EAGAIN, and reports whether the descriptor is of
// such a pipe. A pipe of another kind is not open for reading and writing.
//
// jam goes on in the background, because on a busy machine a thread that waits for room may have no
// turn at first. It empties the pipe again for jamTime, jamRounds times. A doorbell that the
// program rings in that time succeeds, so jam calls rung afterwards. It does not when the process
// has ended.
func jam(pidfd, fd int, rung func()) bool {
	pipe, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err != nil {
		return false
	}
	flags, err := unix.FcntlInt(uintptr(pipe), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE != unix.O_RDWR || unix.SetNonblock(pipe, true) != nil {
		unix.Close(pipe)
		return false
	}
	refill(pipe)
	process, err := unix.FcntlInt(uintptr(pidfd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		unix.Close(pipe)
		return true
	}
	go func() {
		defer unix.Close(pipe)
		defer unix.Close(process)
		for range jamRounds {
			time.Sleep(jamPause)
			refill(pipe)
			if unix.PidfdSendSignal(process, 0, nil, 0) != nil {
				return
			}
			rung()
		}
	}()
	return true
}

// refill lets threads have room that wait for it, for jamTime, and fills the pipe.
func refill(pipe int) {
	empty(pipe)
	time.Sleep(jamTime)
	fill(pipe)
}

// empty reads what is in the pipe. The program may write meanwhile.
func empty(pipe int) {
	var b [jamChunk]byte
	for range 2 * maxPipeBytes / len(b) {
		if _, err := unix.Read(pipe, b[:]); err != nil {
			return
		}
	}
}

// fill writes until there is no room for a byte.
func fill(pipe int) {
	var b [jamChunk]byte
	for _, size := range []int{len(b), 1} {
		for range 2 * maxPipeBytes / len(b) * len(b) / size {
			if _, err := unix.Write(pipe, b[:size]); err != nil {
				break
			}
		}
	}
}
