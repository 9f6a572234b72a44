package interpose

import (
	"fmt"
	"slices"

	"github.com/gorxe/gorxe/internal/nofile"
	"golang.org/x/sys/unix"
)

// FilterSpec is what a filter is made for.
type FilterSpec struct {
	FDs FDRange
}

// The descriptors of ours lie just below the soft limit, because the kernel
// refuses higher ones, but not above 4096: programs that close everything up to
// the limit are trapped for each, and select(2) is not for such numbers anyway.
const (
	maxFDs    = 4096
	maxCount  = 160
	leastFDs  = 32 // a limit below this leaves no room worth having
	fdsPerOne = 4  // the share of a low limit that is taken: a quarter
	bellShare = 5  // the part of it that bells are: a fifth
)

// files is the range below r for files of the tree that were opened for reading.
// They are memfds that the kernel reads, and nothing about them is trapped but what
// asks for their status: that is to be the one which stat gives for the path.
func (r FDRange) files() FDRange {
	count := min(r.Count, r.Base)
	return FDRange{Base: r.Base - count, Count: count}
}

// bells is the part of r for devices whose doorbells are not trapped.
func (r FDRange) bells() FDRange {
	count := r.Count / bellShare
	return FDRange{Base: r.Base + r.Count - count, Count: count}
}

// trapped is the rest of r.
func (r FDRange) trapped() FDRange {
	return FDRange{Base: r.Base, Count: r.Count - r.bells().Count}
}

// RangeFor is the range of descriptors for a program whose soft RLIMIT_NOFILE is
// limit.
func RangeFor(limit uint64) (FDRange, error) {
	if limit < leastFDs {
		return FDRange{}, fmt.Errorf("the limit of open files (RLIMIT_NOFILE) is %d; "+
			"a program with an RDMA device needs %d or more: raise it with ulimit -n", limit, leastFDs)
	}
	top := uint32(min(limit, maxFDs))
	count := min(top/fdsPerOne, maxCount)
	return FDRange{Base: top - count, Count: count}, nil
}

// check refuses what is not a range that RangeFor makes.
func (r FDRange) check() error {
	if r.Count == 0 || r.Count > maxCount || r.Base > maxFDs-r.Count {
		return fmt.Errorf("%d descriptors from %d on are no range of a filter's", r.Count, r.Base)
	}
	return nil
}

// OwnRange is RangeFor the limit that this process was started with, which is also
// the limit of a program that it executes. (Getrlimit shows another one: package
// syscall raises it.)
func OwnRange() (FDRange, error) { return RangeFor(nofile.Soft()) }

// rule says when a system call is trapped. Descriptors are C ints: the upper half
// of the register is ignored, as the kernel does.
type rule uint8

const (
	always    rule = iota
	fdAt0          // the descriptor args[0] is in the range
	statAt0        // args[0] is in the range or that of files
	fdAt0or1       // args[0] or args[1] is
	bell           // fdAt0, but for a doorbell on one of FDRange.bells
	fdSpan         // close_range: args[0] to args[1] overlap the range
	dupFcntl       // fdAt0, and the command makes a duplicate
	pathFlag2      // always, but fstat's forms as statAt0; AT_ flags are args[2]
	pathFlag3      // the same with args[3]
	netlink        // NETLINK_RDMA
)

// Offsets in struct seccomp_data. The low half of an argument comes first on the
// two architectures that there are tables for.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16
)

func offArg(i int) uint32 { return uint32(offArgs + 8*i) }

// Instructions of classic BPF.
const (
	opLoad = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	opJump = unix.BPF_JMP | unix.BPF_JA
	opJEQ  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	opJGE  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	opJSET = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	opRet  = unix.BPF_RET | unix.BPF_K
)

type program []unix.SockFilter

func load(off uint32) unix.SockFilter { return unix.SockFilter{Code: opLoad, K: off} }
func ret(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: opRet, K: action}
}

// on jumps by yes instructions if the comparison holds, by no otherwise.
func on(op uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: op, Jt: yes, Jf: no, K: k}
}

var (
	allow = ret(unix.SECCOMP_RET_ALLOW)
	trap  = ret(unix.SECCOMP_RET_USER_NOTIF)
)

// filter makes the program for spec. Calls of another architecture (32-bit and
// x32 programs on amd64) are not trapped: there is no provider for them to talk
// to a device with.
//
// The search is by halves, so that the many calls that are not listed cost six
// comparisons; and it looks at nothing but architecture and number before the
// rule of a listed call, so that the kernel finds out, once, that the others are
// always allowed (since 5.11, kernel/seccomp.c: seccomp_is_const_allow).
func filter(spec FilterSpec) program {
	p := program{load(offArch), on(opJEQ, auditArch, 1, 0), allow, load(offNr)}
	if x32Bit != 0 {
		p = append(p, on(opJGE, x32Bit, 0, 1), allow)
	}
	calls := slices.Clone(trapped)
	slices.SortFunc(calls, func(a, b call) int { return int(a.nr) - int(b.nr) })
	return append(p, search(calls, spec.FDs)...)
}

// search is the code that finds the call whose number is loaded.
func search(calls []call, fds FDRange) program {
	if len(calls) == 1 {
		return append(program{on(opJEQ, calls[0].nr, 1, 0), allow}, check(calls[0].rule, fds)...)
	}
	half := len(calls) / 2
	low, high := search(calls[:half], fds), search(calls[half:], fds)
	// The distance may be more than a conditional jump can say.
	p := program{
		on(opJGE, calls[half].nr, 0, 1),
		{Code: opJump, K: uint32(len(low))},
	}
	return append(append(p, low...), high...)
}

// check is the code of a rule.
func check(r rule, fds FDRange) program {
	end := fds.Base + fds.Count
	switch r {
	case always:
		return program{trap}
	case fdAt0:
		return program{load(offArg(0)), on(opJGE, fds.Base, 0, 1), on(opJGE, end, 0, 1), allow, trap}
	case bell:
		return program{
			load(offArg(0)), on(opJGE, fds.Base, 0, 1), on(opJGE, end, 0, 1), allow,
			on(opJGE, fds.bells().Base, 0, 4),
			load(offArg(2) + 4), on(opJEQ, 0, 0, 2), load(offArg(2)), on(opJEQ, doorbellSize, 1, 0),
			trap, allow,
		}
	case statAt0:
		return program{load(offArg(0)), on(opJGE, fds.files().Base, 0, 1), on(opJGE, end, 0, 1), allow, trap}
	case fdAt0or1:
		return program{
			load(offArg(0)), on(opJGE, fds.Base, 0, 1), on(opJGE, end, 0, 3),
			load(offArg(1)), on(opJGE, fds.Base, 0, 2), on(opJGE, end, 1, 0),
			trap, allow,
		}
	case fdSpan:
		return program{
			load(offArg(0)), on(opJGE, end, 2, 0),
			load(offArg(1)), on(opJGE, fds.Base, 1, 0),
			allow, trap,
		}
	case dupFcntl:
		return program{
			load(offArg(1)), on(opJEQ, unix.F_DUPFD, 2, 0), on(opJEQ, unix.F_DUPFD_CLOEXEC, 1, 0), allow,
			load(offArg(0)), on(opJGE, fds.Base, 0, 1), on(opJGE, end, 0, 1), allow, trap,
		}
	case pathFlag2:
		return unlessFstat(2, fds)
	case pathFlag3:
		return unlessFstat(3, fds)
	default: // netlink
		return program{
			load(offArg(0)), on(opJEQ, unix.AF_NETLINK, 0, 3),
			load(offArg(2)), on(opJEQ, unix.NETLINK_RDMA, 0, 1),
			trap, allow,
		}
	}
}

// unlessFstat traps a call whose path may be empty unless it says AT_EMPTY_PATH
// with a descriptor that is not ours, nor of a file of the tree: that is how glibc
// and others spell fstat.
func unlessFstat(flags int, fds FDRange) program {
	cwd := int32(unix.AT_FDCWD)
	return program{
		load(offArg(flags)), on(opJSET, unix.AT_EMPTY_PATH, 0, 4),
		load(offArg(0)), on(opJEQ, uint32(cwd), 2, 0),
		on(opJGE, fds.files().Base, 0, 2), on(opJGE, fds.Base+fds.Count, 1, 0),
		trap, allow,
	}
}
