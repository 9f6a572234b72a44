package filter

import (
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// rule says when a system call is trapped. A descriptor is a C int: like the kernel,
// a rule ignores the upper half of the register.
type rule uint8

const (
	always     rule = iota
	fdAt0           // the descriptor args[0] is in the range
	ourAt0          // args[0] is in the range, Range.Pollable or Range.Overflow
	statAt0         // args[0] is there or in Range.Files
	fdAt0or1        // args[0] or args[1] is
	writeAt0        // ourAt0, except for a doorbell on one of Range.Doorbells
	fdSpan          // close_range: args[0] to args[1] overlap the range
	dupFcntl        // ourAt0, and the command makes a duplicate
	pathFlag2       // always, but fstat's forms as statAt0; AT_ flags are args[2]
	pathFlag3       // the same with args[3]
	netlink         // NETLINK_RDMA
	contiguous      // never, but refused if args[4] is as with ourAt0, and the offset is libmlx5's
)

// Where libmlx5 maps queues of a device's file if MLX_QP_ALLOC_TYPE and the like ask for contiguous
// pages (MLX5_IB_MMAP_GET_CONTIGUOUS_PAGES, with the logarithm of the size). Two queues of a size
// have one offset, so a file cannot serve them. The answer is the kernel's (mlx5_ib_mmap), after
// which libmlx5 allocates memory.
const (
	ContiguousFrom, ContiguousTo = 1 << 20, 2 << 20
	contiguousErrno              = unix.ENOSYS
)

// Offsets in struct seccomp_data. The low half of an argument comes first on the
// two architectures that there are tables for.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16
)

func offArg(i int) uint32 { return uint32(offArgs + 8*i) }

type program []bpf.Instruction

func load(off uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: off, Size: 4} }

// The comparisons.
const (
	eq  = bpf.JumpEqual
	ge  = bpf.JumpGreaterOrEqual
	set = bpf.JumpBitsSet
)

// on jumps by yes instructions if the comparison holds, by no otherwise.
func on(cond bpf.JumpTest, k uint32, yes, no uint8) bpf.Instruction {
	return bpf.JumpIf{Cond: cond, Val: k, SkipTrue: yes, SkipFalse: no}
}

var (
	allow  = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	trap   = bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF}
	refuse = bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(contiguousErrno)}
)

// assemble returns the program as the kernel takes it.
func (p program) assemble() ([]unix.SockFilter, error) {
	raw, err := bpf.Assemble(p)
	if err != nil {
		return nil, err
	}
	list := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		list[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return list, nil
}

// build makes the program for a range, and for doorbells of a size. Calls of another
// architecture (32-bit and x32 programs on amd64) are not trapped: such programs have no provider
// for the device.
//
// The program searches by halves, so the many calls that are not listed cost six
// comparisons. It loads nothing but architecture and number before the rule of a
// listed call. So the kernel finds out, once, that the others are always allowed
// (since 5.11, kernel/seccomp.c: seccomp_is_const_allow).
func build(fds Range, doorbell uint32) program {
	p := program{load(offArch), on(eq, auditArch, 1, 0), allow, load(offNr)}
	if x32Bit != 0 {
		p = append(p, on(ge, x32Bit, 0, 1), allow)
	}
	list := slices.Clone(calls)
	slices.SortFunc(list, func(a, b call) int { return int(a.nr) - int(b.nr) })
	return append(p, search(list, fds, doorbell)...)
}

// search is the code that finds the rule of the call whose number is loaded.
func search(calls []call, fds Range, doorbell uint32) program {
	if len(calls) == 1 {
		return append(program{on(eq, calls[0].nr, 1, 0), allow}, check(calls[0].rule, fds, doorbell)...)
	}
	half := len(calls) / 2
	low, high := search(calls[:half], fds, doorbell), search(calls[half:], fds, doorbell)
	// The distance may exceed that of a conditional jump, which is 255.
	p := program{
		on(ge, calls[half].nr, 0, 1),
		bpf.Jump{Skip: uint32(len(low))},
	}
	return append(append(p, low...), high...)
}

// check is the code of a rule.
func check(r rule, fds Range, doorbell uint32) program {
	end := fds.Base + fds.Count
	switch r {
	case always:
		return program{trap}
	case fdAt0:
		return program{load(offArg(0)), on(ge, fds.Base, 0, 1), on(ge, end, 0, 1), allow, trap}
	case ourAt0:
		return append(ours(0, fds), trap)
	case writeAt0:
		return append(ours(0, fds),
			on(ge, fds.Doorbells().Base, 0, 5), on(ge, end, 4, 0),
			load(offArg(2)+4), on(eq, 0, 0, 2), load(offArg(2)), on(eq, doorbell, 1, 0),
			trap, allow,
		)
	case statAt0:
		return append(oursOrFiles(fds), trap)
	case fdAt0or1:
		return program{
			load(offArg(0)), on(ge, fds.Base, 0, 1), on(ge, end, 0, 3),
			load(offArg(1)), on(ge, fds.Base, 0, 2), on(ge, end, 1, 0),
			trap, allow,
		}
	case fdSpan:
		return program{
			load(offArg(0)), on(ge, end, 2, 0),
			load(offArg(1)), on(ge, fds.Base, 1, 0),
			allow, trap,
		}
	case dupFcntl:
		p := program{load(offArg(1)), on(eq, unix.F_DUPFD, 2, 0), on(eq, unix.F_DUPFD_CLOEXEC, 1, 0), allow}
		return append(append(p, ours(0, fds)...), trap)
	case pathFlag2:
		return unlessFstat(2, fds)
	case pathFlag3:
		return unlessFstat(3, fds)
	case contiguous:
		p := program{
			load(offArg(5) + 4), on(eq, 0, 0, 3),
			load(offArg(5)), on(ge, ContiguousFrom, 0, 1), on(ge, ContiguousTo, 0, 1), allow,
		}
		return append(append(p, ours(4, fds)...), refuse)
	default: // netlink
		return program{
			load(offArg(0)), on(eq, unix.AF_NETLINK, 0, 3),
			load(offArg(2)), on(eq, unix.NETLINK_RDMA, 0, 1),
			trap, allow,
		}
	}
}

// ours continues behind its end if the descriptor args[i], which it loads, is in the range,
// in Range.Pollable or Range.Overflow, and allows the call if not.
func ours(i int, fds Range) program {
	over := fds.Overflow()
	return program{
		load(offArg(i)), on(ge, fds.Pollable().Base, 0, 5), on(ge, fds.Files().Base, 0, 5),
		on(ge, fds.Base, 0, 3), on(ge, fds.Base+fds.Count, 0, 3),
		on(ge, over.Base, 0, 1), on(ge, over.Base+over.Count, 0, 1), allow,
	}
}

// oursOrFiles is ours with Range.Files, which lies in between.
func oursOrFiles(fds Range) program {
	over := fds.Overflow()
	return program{
		load(offArg(0)), on(ge, fds.Pollable().Base, 0, 3), on(ge, fds.Base+fds.Count, 0, 3),
		on(ge, over.Base, 0, 1), on(ge, over.Base+over.Count, 0, 1), allow,
	}
}

// unlessFstat traps a call that may have an empty path. It lets the call pass if the flags have
// AT_EMPTY_PATH and the descriptor is in none of the ranges: glibc and others make fstat of that
// form.
func unlessFstat(flags int, fds Range) program {
	cwd := int32(unix.AT_FDCWD)
	over := fds.Overflow()
	return program{
		load(offArg(flags)), on(set, unix.AT_EMPTY_PATH, 0, 6),
		load(offArg(0)), on(eq, uint32(cwd), 4, 0),
		on(ge, fds.Pollable().Base, 0, 4), on(ge, fds.Base+fds.Count, 0, 2),
		on(ge, over.Base, 0, 2), on(ge, over.Base+over.Count, 1, 0),
		trap, allow,
	}
}
