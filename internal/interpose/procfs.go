package interpose

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

func procPath(pid int, file string) string { return "/proc/" + strconv.Itoa(pid) + "/" + file }

// status is what /proc says of a thread.
type status struct {
	tgid, ppid int
	uid, gid   uint32 // effective
}

var errInvisible = errors.New("the program's processes are not visible here: gorxe and the program " +
	"must be in the same pid namespace, or gorxe in an outer one")

func readStatus(tid int) (st status, err error) {
	if tid == 0 {
		return st, errInvisible
	}
	b, err := os.ReadFile(procPath(tid, "status"))
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
		switch string(key) {
		case "Tgid":
			st.tgid = number(0)
		case "PPid":
			st.ppid = number(0)
		case "Uid":
			st.uid = uint32(number(1))
		case "Gid":
			st.gid = uint32(number(1))
		default:
			continue
		}
		found++
	}
	if found < 4 || st.tgid == 0 {
		return st, unix.ESRCH
	}
	return st, nil
}

// stamp is what of /proc/PID/stat an exec changes: where the program's code,
// stack, arguments and environment begin (fields 26 to 28 and 48 to 51 of
// proc(5)). Empty if it is not to be had.
func stamp(tid int) string {
	b, err := os.ReadFile(procPath(tid, "stat"))
	if err != nil {
		return ""
	}
	// The name, in parentheses, may contain anything; the rest are numbers.
	_, rest, _ := bytes.Cut(b[max(bytes.LastIndexByte(b, ')'), 0):], []byte(" "))
	f := bytes.Fields(rest)
	const third = 3 // f[0] is field 3
	if len(f) <= 51-third {
		return ""
	}
	return string(bytes.Join(append(f[26-third:28-third+1:28-third+1], f[48-third:51-third+1]...), []byte(" ")))
}
