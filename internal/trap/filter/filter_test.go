package filter

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/race"
)

// sysData is struct seccomp_data.
type sysData struct {
	nr, arch uint32
	args     [6]uint64
}

func (d *sysData) bytes() []byte {
	b := binary.NativeEndian.AppendUint32(nil, d.nr)
	b = binary.NativeEndian.AppendUint32(b, d.arch)
	b = binary.NativeEndian.AppendUint64(b, 0) // instruction pointer
	for _, a := range d.args {
		b = binary.NativeEndian.AppendUint64(b, a)
	}
	return b
}

// built is the program for a range, as the kernel gets it.
func built(t testing.TB, fds Range) code {
	t.Helper()
	p, err := build(fds, doorbellSize).assemble()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Instructions of classic BPF.
const (
	opLoad = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	opJump = unix.BPF_JMP | unix.BPF_JA
	opJEQ  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	opJGE  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	opJSET = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	opRet  = unix.BPF_RET | unix.BPF_K
)

type code []unix.SockFilter

// run is the kernel's interpreter, for the instructions that filter uses. Loads
// must be aligned and inside (kernel/seccomp.c: seccomp_check_filter), and jumps
// go forward.
func (p code) run(t testing.TB, d *sysData) (action uint32, steps int) {
	t.Helper()
	data := d.bytes()
	var a uint32
	for pc := 0; ; steps++ {
		if pc >= len(p) {
			t.Fatalf("jump to %d of %d", pc, len(p))
		}
		in := p[pc]
		pc++
		yes := false
		switch in.Code {
		case opLoad:
			if in.K%4 != 0 || int(in.K)+4 > len(data) {
				t.Fatalf("load at %d", in.K)
			}
			a = binary.NativeEndian.Uint32(data[in.K:])
			continue
		case opRet:
			return in.K, steps
		case opJump:
			pc += int(in.K)
			continue
		case opJEQ:
			yes = a == in.K
		case opJGE:
			yes = a >= in.K
		case opJSET:
			yes = a&in.K != 0
		default:
			t.Fatalf("instruction %#x", in.Code)
		}
		if yes {
			pc += int(in.Jt)
		} else {
			pc += int(in.Jf)
		}
	}
}

var testRange = Range{Base: 896, Count: 128, Top: 4096}

// doorbellSize is that of librxe.
const doorbellSize = 32

// expect says the same as filter, in other words.
func expect(d *sysData, fds Range) uint32 {
	const notify, pass = uint32(unix.SECCOMP_RET_USER_NOTIF), uint32(unix.SECCOMP_RET_ALLOW)
	when := func(c bool) uint32 {
		if c {
			return notify
		}
		return pass
	}
	if d.arch != auditArch {
		return pass
	}
	over := func(i int) bool {
		return fds.Top > 1024 && uint32(d.args[i]) >= fds.Top-(fds.Top-1024)/2 && uint32(d.args[i]) < fds.Top
	}
	polled := func(i int) bool { return fds.Pollable().Contains(uint32(d.args[i])) || over(i) }
	polls := polled(0)
	stat := fds.Contains(uint32(d.args[0])) || fds.Files().Contains(uint32(d.args[0])) || polls
	in := func(i int) bool { return fds.Contains(uint32(d.args[i])) }
	for _, c := range calls {
		if c.nr != d.nr {
			continue
		}
		switch c.rule {
		case always:
			return notify
		case fdAt0:
			return when(in(0))
		case ourAt0:
			return when(in(0) || polls)
		case writeAt0:
			top := fds.Base + fds.Count
			free := uint32(d.args[0]) >= top-fds.Count/5 && uint32(d.args[0]) < top && d.args[2] == 32
			return when(in(0) && !free || polls)
		case statAt0:
			return when(stat)
		case fdAt0or1:
			return when(in(0) || in(1))
		case fdSpan:
			return when(uint32(d.args[0]) < fds.Base+fds.Count && uint32(d.args[1]) >= fds.Base)
		case dupFcntl:
			return when((in(0) || polls) && (uint32(d.args[1]) == unix.F_DUPFD || uint32(d.args[1]) == unix.F_DUPFD_CLOEXEC))
		case pathFlag2, pathFlag3:
			flags := d.args[2]
			if c.rule == pathFlag3 {
				flags = d.args[3]
			}
			return when(flags&unix.AT_EMPTY_PATH == 0 || stat || int32(d.args[0]) == unix.AT_FDCWD)
		case contiguous:
			if (in(4) || polled(4)) && d.args[5]>>20 == 1 {
				return unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
			}
			return pass
		case netlink:
			return when(uint32(d.args[0]) == unix.AF_NETLINK && uint32(d.args[2]) == unix.NETLINK_RDMA)
		}
	}
	return pass
}

func TestFilter(t *testing.T) {
	if race.Enabled {
		return // one goroutine, and long
	}
	p := built(t, testRange)
	if len(p) > unix.BPF_MAXINSNS {
		t.Fatalf("%d instructions", len(p))
	}
	cwd := int32(unix.AT_FDCWD)
	values := []uint64{
		0, 1, 2, 3, uint64(testRange.Pollable().Base) - 1, uint64(testRange.Pollable().Base),
		uint64(testRange.Files().Base) - 1, uint64(testRange.Files().Base), uint64(testRange.Base) - 1, uint64(testRange.Base), uint64(testRange.Base + testRange.Count - 1),
		uint64(testRange.Base + testRange.Count), uint64(testRange.Overflow().Base) - 1, uint64(testRange.Overflow().Base), uint64(testRange.Top) - 1, uint64(testRange.Top), uint64(testRange.Base) | 7<<32, uint64(uint32(cwd)), ^uint64(0), 1 << 31,
		unix.AT_EMPTY_PATH, unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW, unix.F_DUPFD_CLOEXEC,
		unix.AF_NETLINK, unix.NETLINK_RDMA, doorbellSize, doorbellSize | 1<<32,
		uint64(testRange.Doorbells().Base) - 1, uint64(testRange.Doorbells().Base),
		1<<20 - 1, 1 << 20, 2<<20 - 1, 2 << 20, 1<<20 | 1<<32,
	}
	longest := 0
	numbers := map[uint32]bool{0: true, MaxNR: true, ^uint32(0): true}
	for _, c := range calls {
		numbers[c.nr-1], numbers[c.nr], numbers[c.nr+1] = true, true, true
	}
	for nr := range numbers {
		for _, a := range values {
			for _, b := range values {
				for _, flags := range values {
					d := &sysData{nr: nr, arch: auditArch, args: [6]uint64{a, b, flags, flags, a, b}}
					got, steps := p.run(t, d)
					if want := expect(d, testRange); got != want {
						t.Fatalf("call %d %#x: %#x, want %#x", nr, d.args, got, want)
					}
					longest = max(longest, steps)
				}
			}
		}
	}
	if longest > 30 {
		t.Errorf("up to %d instructions", longest)
	}
}

func TestFilterOtherArchitectures(t *testing.T) {
	p := built(t, testRange)
	for _, d := range []sysData{
		{nr: unix.SYS_OPENAT, arch: unix.AUDIT_ARCH_I386},
		{nr: unix.SYS_OPENAT, arch: unix.AUDIT_ARCH_ARM},
		{nr: unix.SYS_OPENAT, arch: 0},
		{nr: unix.SYS_OPENAT | 0x40000000, arch: auditArch}, // x32
	} {
		if got, _ := p.run(t, &d); got != unix.SECCOMP_RET_ALLOW {
			t.Errorf("%+v: %#x", d, got)
		}
	}
}

func FuzzFilter(f *testing.F) {
	f.Add(uint32(unix.SYS_IOCTL), uint32(auditArch), uint64(4000), uint64(0), uint64(0), uint64(0), uint32(864), uint32(160))
	f.Fuzz(func(t *testing.T, nr, arch uint32, a, b, c, e uint64, base, count uint32) {
		fds := Range{Base: base % (selectTop - maxCount), Count: 1 + count%maxCount, Top: base % maxTop}
		d := &sysData{nr: nr, arch: arch, args: [6]uint64{a, b, c, e, a, b}}
		got, _ := built(t, fds).run(t, d)
		if nr >= 0x40000000 {
			return // x32
		}
		if want := expect(d, fds); got != want {
			t.Errorf("%+v with %+v: %#x, want %#x", d, fds, got, want)
		}
	})
}

func TestFor(t *testing.T) {
	const infinity = ^uint64(0) // RLIM_INFINITY
	for _, tt := range []struct {
		soft, hard uint64
		want       Range
		ok         bool
	}{
		{infinity, infinity, Range{864, 160, 32768}, true},
		{1 << 20, 1 << 20, Range{864, 160, 32768}, true},
		{20000, 1 << 20, Range{864, 160, 20000}, true},
		{2048, 2048, Range{864, 160, 2048}, true},
		{1024, 1024, Range{864, 160, 0}, true},
		{1024, 4096, Range{864, 160, 4096}, true}, // the program may raise it
		{256, 512, Range{192, 64, 0}, true},
		{256, infinity, Range{192, 64, 32768}, true},
		{leastTop, leastTop, Range{24, 8, 0}, true},
		{leastTop - 1, infinity, Range{}, false},
		{0, 0, Range{}, false},
	} {
		got, err := For(tt.soft, tt.hard)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("For(%d, %d) = %v, %v", tt.soft, tt.hard, got, err)
		}
	}
}

// TestSelectable: whatever the limit is, descriptors that a program waits for are below FD_SETSIZE.
// A program with the usual limit may have 500 of them, and the lowest numbers are its own. The
// ranges lie one above the other.
func TestSelectable(t *testing.T) {
	for _, tt := range []struct {
		limit uint64
		want  Range
	}{
		{1 << 20, Range{Base: 176, Count: 528}},
		{20000, Range{Base: 176, Count: 528}},
		{1024, Range{Base: 176, Count: 528}},
		{256, Range{Base: 32, Count: 96}},
		{leastTop, Range{Base: 4, Count: 12}},
	} {
		r, err := For(tt.limit, tt.limit)
		if err != nil {
			t.Fatal(err)
		}
		got := r.Pollable()
		if got != tt.want || got.Base+got.Count != r.Files().Base || r.Files().Base+r.Files().Count != r.Base || r.Base+r.Count > 1024 {
			t.Errorf("with a limit of %d: %v, want %v, below %v and %v", tt.limit, got, tt.want, r.Files(), r)
		}
		if !r.Ours(got.Base) || !r.Ours(r.Base) || r.Ours(r.Files().Base) || r.Ours(got.Base-1) || r.Ours(r.Base+r.Count) {
			t.Errorf("with a limit of %d: Ours is not the union of the ranges", tt.limit)
		}
		if s := r.Spare(); s.Base+s.Count != r.Base+r.Count || s.Base-r.Base != deviceRoom {
			t.Errorf("with a limit of %d: the spare part of %v is %v", tt.limit, r, s)
		}
		if d := r.Devices(); d.Base <= r.Trapped().Base || d.Base+d.Count != r.Doorbells().Base {
			t.Errorf("with a limit of %d: of %v, %v is for devices", tt.limit, r, d)
		}
	}
}

// TestOverflow: a process can have as many devices as half of its limit, because each needs a
// second descriptor, for its events. Only half of the numbers above 1024 are trapped.
func TestOverflow(t *testing.T) {
	for _, limit := range []uint64{1025, 2048, 4096, 20000, maxTop} {
		r, err := For(limit, limit)
		if err != nil {
			t.Fatal(err)
		}
		over := r.Overflow()
		if n := over.Count + r.Pollable().Count + r.Devices().Count; uint64(n) < limit/2 || uint64(over.Count) > (limit-1024)/2 {
			t.Errorf("with a limit of %d: room for %d devices, %v above 1024", limit, n, over)
		}
		if over.Base < 1024 || over.Count > 0 && (!r.Ours(over.Base) || !r.Ours(uint32(limit)-1)) || r.Ours(over.Base-1) || r.Ours(uint32(limit)) {
			t.Errorf("with a limit of %d: Ours is not the union of the ranges", limit)
		}
	}
}

func TestInstallError(t *testing.T) {
	if !errors.Is(installError(unix.EBUSY), ErrListenerExists) {
		t.Error("EBUSY is not ErrListenerExists")
	}
	for _, e := range []unix.Errno{unix.EPERM, unix.ENOSYS, unix.EINVAL, unix.ENOMEM} {
		if err := installError(e); !errors.Is(err, e) {
			t.Errorf("%v does not unwrap to %v", err, e)
		}
	}
}

func TestCheckRange(t *testing.T) {
	for limit := uint64(0); limit < 2*maxTop; limit++ {
		if r, err := For(limit, 2*limit); err == nil && r.Check() != nil {
			t.Errorf("limit %d: %v", limit, r.Check())
		}
	}
	for _, r := range []Range{
		{}, {Base: 100}, {Count: maxCount + 1}, {Count: math.MaxUint32}, {Base: selectTop, Count: 1},
		{Base: math.MaxUint32, Count: 2}, {Base: math.MaxUint32 - 1, Count: 1},
		{Base: 800, Count: 100, Top: 1000}, {Base: 800, Count: 100, Top: maxTop + 1},
	} {
		if r.Check() == nil {
			t.Errorf("%+v is taken", r)
		}
	}
}
