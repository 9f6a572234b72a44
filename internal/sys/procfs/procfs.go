// Package procfs reads what /proc says of a program's processes and descriptors.
package procfs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Path returns the path of a file of /proc/PID. A thread's number serves as well.
func Path(pid int, file string) string { return "/proc/" + strconv.Itoa(pid) + "/" + file }

// SelfFD returns the path of a descriptor of this process.
func SelfFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// pathMax is PATH_MAX, with the zero at the end.
const pathMax = 4096

// Readlink returns the target of a symbolic link. Its errors are unix.Errno values.
func Readlink(path string) (string, error) {
	var buf [pathMax]byte
	n, err := unix.Readlink(path, buf[:])
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// mostBytes is more than a short file of /proc has: 65,536 groups in /proc/PID/status take 720 KiB.
const mostBytes = 1 << 20

// ReadFile returns the content of a short file of /proc.
func ReadFile(path string) ([]byte, error) { return ReadBegin(path, mostBytes) }

// ReadBegin returns at most so many bytes of the beginning of a file of /proc. A program may make
// some of them as long as it likes, as its maps. os.ReadFile would also make six more system calls,
// to find out whether such a file can be polled.
func ReadBegin(path string, most int) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	b := make([]byte, 0, min(pathMax, most))
	for len(b) < most {
		n, err := unix.Read(fd, b[len(b):min(cap(b), most)])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return b, nil
		}
		if b = b[:len(b)+n]; len(b) == cap(b) {
			b = slices.Grow(b, len(b))
		}
	}
	return b, nil
}

// Status is what /proc/PID/status says of a thread.
type Status struct {
	TGID, PPID int
	Rights
}

// Rights are the credentials of a thread, which may change at any time (credentials(7)).
type Rights struct {
	UID, GID             uint32 // effective
	RealUID, RealGID     uint32
	FSUID, FSGID         uint32 // for files
	Effective, Permitted uint64 // capabilities(7), as bits
}

// ErrInvisible is the error of a thread whose number is 0: the kernel reports that
// number for a thread that this process's pid namespace does not contain.
var ErrInvisible = errors.New("the program's processes are not visible here: gorxe and the program " +
	"must be in the same pid namespace, or gorxe in an outer one")

// ReadStatus reads the status of a thread; ESRCH means that it has ended.
func ReadStatus(tid int) (st Status, err error) {
	if tid == 0 {
		return st, ErrInvisible
	}
	b, err := ReadFile(Path(tid, "status"))
	if err != nil {
		return st, err
	}
	found := 0
	for line := range bytes.Lines(b) {
		key, rest, _ := bytes.Cut(line, []byte(":\t"))
		f := bytes.Fields(rest)
		number := func(i int) int {
			if i >= len(f) {
				return 0
			}
			n, _ := strconv.Atoi(string(f[i])) // the kernel writes numbers
			return n
		}
		set := func() uint64 {
			// the kernel writes one
			caps, _ := strconv.ParseUint(string(bytes.TrimSpace(rest)), 16, 64)
			return caps
		}
		switch string(key) {
		case "Tgid":
			st.TGID = number(0)
		case "PPid":
			st.PPID = number(0)
		case "Uid":
			st.RealUID, st.UID, st.FSUID = uint32(number(0)), uint32(number(1)), uint32(number(3))
		case "Gid":
			st.RealGID, st.GID, st.FSGID = uint32(number(0)), uint32(number(1)), uint32(number(3))
		case "CapPrm":
			st.Permitted = set()
		case "CapEff":
			st.Effective = set()
		default:
			continue
		}
		found++
	}
	if found < 6 || st.TGID == 0 {
		return st, unix.ESRCH
	}
	return st, nil
}

// Started returns when a process began, which with its number identifies it: field 22 of
// /proc/PID/stat (proc(5)). It is empty if the process has ended.
func Started(pid int) string {
	f := statFields(pid)
	if len(f) == 0 {
		return ""
	}
	return string(f[22-thirdField])
}

// Image returns what identifies the program that a thread executes: the addresses
// of its code, stack, arguments and environment. An execve changes them. The result
// is fields 26 to 28 and 48 to 51 of /proc/PID/stat (proc(5)), or empty if the file
// cannot be read.
func Image(tid int) string {
	f := statFields(tid)
	if len(f) == 0 {
		return ""
	}
	return string(bytes.Join(append(f[26-thirdField:28-thirdField+1:28-thirdField+1], f[48-thirdField:51-thirdField+1]...), []byte(" ")))
}

// Identity returns a number for the program that a process executes, which is the same in each pid
// namespace. It is 0 if the caller has no right to know.
func Identity(pid int) uint64 {
	started, image := Started(pid), Image(pid)
	if started == "" || image == "" || image[0] == '0' { // do_task_stat: no addresses
		return 0
	}
	h := fnv.New64a()
	fmt.Fprint(h, started, " ", image)
	return h.Sum64()
}

// thirdField is the number of statFields' first one in proc(5).
const thirdField = 3

// statFields returns the fields of /proc/PID/stat from the third on, up to the 51st at least; nil
// if the file cannot be read.
func statFields(tid int) [][]byte {
	b, err := ReadFile(Path(tid, "stat"))
	if err != nil {
		return nil
	}
	// The command name stands in parentheses and may contain anything. All fields
	// after it are numbers.
	_, rest, _ := bytes.Cut(b[max(bytes.LastIndexByte(b, ')'), 0):], []byte(" "))
	f := bytes.Fields(rest)
	if len(f) <= 51-thirdField {
		return nil
	}
	return f
}

// What OnlyRunning reads of statFields: fields 3 and 39 of /proc/PID/stat (proc(5)).
const (
	stateField     = 3 - thirdField
	processorField = 39 - thirdField
)

// OnlyRunning returns the processor of the only thread of a process that runs or is ready to. ok is
// false if no thread is, or several are, or if the process has more than most threads.
func OnlyRunning(tgid, most int) (cpu int, ok bool) {
	threads := Threads(tgid)
	if len(threads) > most {
		return 0, false
	}
	for _, tid := range threads {
		fields := statFields(tid)
		if fields == nil || string(fields[stateField]) != "R" {
			continue
		}
		if ok {
			return 0, false
		}
		n, err := strconv.Atoi(string(fields[processorField]))
		if err != nil {
			return 0, false
		}
		cpu, ok = n, true
	}
	return cpu, ok
}

// Ready returns how many threads of the machine run or are ready to, the caller among them
// (proc(5): /proc/loadavg).
func Ready() (threads int, ok bool) {
	text, err := os.ReadFile("/proc/loadavg")
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 4 {
		return 0, false
	}
	ready, _, _ := bytes.Cut(fields[3], []byte("/"))
	threads, err = strconv.Atoi(string(ready))
	return threads, err == nil
}

// pidOf returns the process number behind a pidfd (fs/pidfs.c: pidfd_show_fdinfo).
// ESRCH means that the process has ended.
func pidOf(pidfd int) (int, error) {
	f, err := os.Open("/proc/self/fdinfo/" + strconv.Itoa(pidfd))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if rest, ok := bytes.CutPrefix(lines.Bytes(), []byte("Pid:\t")); ok {
			if pid, err := strconv.Atoi(string(rest)); err == nil && pid > 0 {
				return pid, nil
			}
		}
	}
	return 0, fmt.Errorf("the process has ended: %w", unix.ESRCH)
}

// Descendant returns the number of the process behind pidfd if that process
// descends from this one; otherwise EPERM. All descendants of a subreaper count.
func Descendant(pidfd int) (int, error) {
	pid, err := pidOf(pidfd)
	if err != nil {
		return 0, err
	}
	for at := pid; at != os.Getpid(); {
		st, err := ReadStatus(at)
		if err != nil || st.PPID == 0 {
			return 0, fmt.Errorf("process %d does not belong to this program: %w", pid, unix.EPERM)
		}
		at = st.PPID
	}
	return pid, nil
}
