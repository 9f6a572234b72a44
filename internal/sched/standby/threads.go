package standby

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// noCall is what the kernel says of a thread that is blocked outside of a system
// call: it waits for a page.
const noCall = -1

// memoryCalls are the system calls in which a thread may wait for another
// process's memory, directly or in /proc/PID/mem.
var memoryCalls = map[int]bool{
	unix.SYS_PROCESS_VM_READV: true, unix.SYS_PROCESS_VM_WRITEV: true,
	unix.SYS_PREAD64: true, unix.SYS_PWRITE64: true,
	unix.SYS_PREADV: true, unix.SYS_PWRITEV: true,
	noCall: true,
}

// memoryWaits reports whether any thread of this process waits for memory, or
// cannot be looked at. One that runs, or would if there were a processor for it,
// does not wait (proc(5), /proc/pid/syscall).
func memoryWaits() bool {
	const tasks = "/proc/self/task"
	entries, err := os.ReadDir(tasks)
	if err != nil {
		return true
	}
	for _, e := range entries {
		text, err := os.ReadFile(tasks + "/" + e.Name() + "/syscall")
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH):
			// It has ended.
		case err != nil || waitsForMemory(text):
			return true
		}
	}
	return false
}

// waitsForMemory judges what the kernel says of a thread: "running", or the number
// of the system call that it is blocked in, and more.
func waitsForMemory(text []byte) bool {
	first, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte(" "))
	if string(first) == "running" {
		return false
	}
	number, err := strconv.Atoi(string(first))
	return err != nil || memoryCalls[number]
}
