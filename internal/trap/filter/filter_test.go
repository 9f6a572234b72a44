package filter

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"golang.org/x/sys/unix"
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

// run is the kernel's interpreter, for the instructions that filter uses. Loads
// must be aligned and inside (kernel/seccomp.c: seccomp_check_filter), and jumps
// go forward.
func (p program) run(t testing.TB, d *sysData) (action uint32, steps int) {
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

var testRange = Range{Base: 3968, Count: 128}

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
	polls := fds.Pollable().Contains(uint32(d.args[0]))
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
			free := uint32(d.args[0]) >= top-fds.Count/5 && d.args[2] == 32
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
		case netlink:
			return when(uint32(d.args[0]) == unix.AF_NETLINK && uint32(d.args[2]) == unix.NETLINK_RDMA)
		}
	}
	return pass
}

func TestFilter(t *testing.T) {
	p := build(testRange)
	if len(p) > unix.BPF_MAXINSNS {
		t.Fatalf("%d instructions", len(p))
	}
	cwd := int32(unix.AT_FDCWD)
	values := []uint64{
		0, 1, 2, 3, uint64(testRange.Pollable().Base) - 1, uint64(testRange.Pollable().Base),
		uint64(testRange.Files().Base) - 1, uint64(testRange.Files().Base), uint64(testRange.Base) - 1, uint64(testRange.Base), uint64(testRange.Base + testRange.Count - 1),
		uint64(testRange.Base + testRange.Count), uint64(testRange.Base) | 7<<32, uint64(uint32(cwd)), ^uint64(0), 1 << 31,
		unix.AT_EMPTY_PATH, unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW, unix.F_DUPFD_CLOEXEC,
		unix.AF_NETLINK, unix.NETLINK_RDMA, DoorbellSize, DoorbellSize | 1<<32,
		uint64(testRange.Doorbells().Base) - 1, uint64(testRange.Doorbells().Base),
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
					d := &sysData{nr: nr, arch: auditArch, args: [6]uint64{a, b, flags, flags}}
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
	p := build(testRange)
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
	f.Add(uint32(unix.SYS_IOCTL), uint32(auditArch), uint64(4000), uint64(0), uint64(0), uint64(0), uint32(3968), uint32(128))
	f.Fuzz(func(t *testing.T, nr, arch uint32, a, b, c, e uint64, base, count uint32) {
		fds := Range{Base: base % 4096, Count: 1 + count%maxCount}
		d := &sysData{nr: nr, arch: arch, args: [6]uint64{a, b, c, e}}
		got, _ := build(fds).run(t, d)
		if nr >= 0x40000000 {
			return // x32
		}
		if want := expect(d, fds); got != want {
			t.Errorf("%+v with %+v: %#x, want %#x", d, fds, got, want)
		}
	})
}

func TestFor(t *testing.T) {
	for _, tt := range []struct {
		limit uint64
		want  Range
		ok    bool
	}{
		{1 << 20, Range{3936, 160}, true},
		{^uint64(0), Range{3936, 160}, true}, // RLIM_INFINITY
		{4096, Range{3936, 160}, true},
		{1024, Range{864, 160}, true},
		{256, Range{192, 64}, true},
		{leastTop, Range{24, 8}, true},
		{leastTop - 1, Range{}, false},
		{0, Range{}, false},
	} {
		got, err := For(tt.limit)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("For(%d) = %v, %v", tt.limit, got, err)
		}
	}
}

// TestPollable: a program with the usual limit may have 500 pollable files, and the
// lowest numbers are its own. The ranges lie one above the other.
func TestPollable(t *testing.T) {
	for _, tt := range []struct {
		limit uint64
		want  Range
	}{
		{1 << 20, Range{2752, 1024}},
		{1024, Range{176, 528}},
		{256, Range{32, 96}},
		{leastTop, Range{4, 12}},
	} {
		r, err := For(tt.limit)
		if err != nil {
			t.Fatal(err)
		}
		got := r.Pollable()
		if got != tt.want || got.Base+got.Count != r.Files().Base || r.Files().Base+r.Files().Count != r.Base {
			t.Errorf("with a limit of %d: %v, want %v, below %v and %v", tt.limit, got, tt.want, r.Files(), r)
		}
		if !r.Ours(got.Base) || !r.Ours(r.Base) || r.Ours(r.Files().Base) || r.Ours(got.Base-1) {
			t.Errorf("with a limit of %d: Ours is not the union of the two ranges", tt.limit)
		}
		if s := r.Spare(); s.Base+s.Count != r.Base+r.Count || s.Base-r.Base != deviceRoom {
			t.Errorf("with a limit of %d: the spare part of %v is %v", tt.limit, r, s)
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
		if r, err := For(limit); err == nil && r.Check() != nil {
			t.Errorf("limit %d: %v", limit, r.Check())
		}
	}
	for _, r := range []Range{
		{}, {Base: 100}, {Count: maxCount + 1}, {Count: math.MaxUint32}, {Base: maxTop, Count: 1},
		{Base: math.MaxUint32, Count: 2}, {Base: math.MaxUint32 - 1, Count: 1},
	} {
		if r.Check() == nil {
			t.Errorf("%+v is taken", r)
		}
	}
}
