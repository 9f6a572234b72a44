package trap

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
)

// pacedFile is a fakeFile whose program has told where it keeps its number.
type pacedFile struct {
	*fakeFile
	where atomic.Uint64
}

func (f *pacedFile) NumberAt(kernel.Caller) (uint64, bool) {
	at := f.where.Load()
	return at, at != 0
}

// tellNumber is how long a write is that tells where the number is.
const tellNumber = 16

// pacedFakes are fakes that count the doorbells that are trapped.
func pacedFakes(t *testing.T) (h *fakes, trapped, behind *atomic.Int32) {
	h, trapped, behind = newFakes(t), new(atomic.Int32), new(atomic.Int32)
	open := h.open
	h.open = func(name string, who Credentials) (File, error) {
		f, err := open(name, who)
		if err != nil {
			return nil, err
		}
		file := &pacedFile{fakeFile: f.(*fakeFile)}
		file.write = func(c kernel.Caller, addr, n uint64) (int64, error) {
			switch n {
			case doorbellSize:
				trapped.Add(1)
				if s, _ := c.(kernel.Standing).Stack(leastStack); s.Behind {
					behind.Add(1)
				}
			case tellNumber:
				var b [8]byte
				if err := c.Read(addr, b[:]); err != nil {
					return 0, err
				}
				file.where.Store(binary.NativeEndian.Uint64(b[:]))
			}
			return int64(n), nil
		}
		return file, nil
	}
	return h, trapped, behind
}

// TestPace: a program's posts are trapped until it posts too fast; then it has another number,
// which another call and a rest take back. A close ends the device, and the other number serves
// again.
func TestPace(t *testing.T) {
	h, trapped, behind := pacedFakes(t)
	out := run(t, options{program: "paced", host: h, doorbells: doorbell.Direct, paced: true, patient: true}, "right")
	h.allClosed(t)
	if out != "2 devices, one quick number\n" {
		t.Errorf("%q", out)
	}
	if n := trapped.Load(); n < 2*sched.MostStops {
		t.Errorf("%d doorbells were trapped, want %d or more", n, 2*sched.MostStops)
	}
	if behind.Load() == 0 {
		t.Error("no doorbell was said to come after others that were not trapped")
	}
}

// TestNoPace: a program that keeps its number elsewhere, or does not tell where, has each doorbell
// trapped, and its memory stays as it is.
func TestNoPace(t *testing.T) {
	for _, what := range []string{"wrong", "silent"} {
		h, trapped, behind := pacedFakes(t)
		out := run(t, options{program: "paced", host: h, doorbells: doorbell.Direct, paced: true, patient: true}, what)
		h.allClosed(t)
		if out != "all at one number\n" {
			t.Errorf("%s: %q", what, out)
		}
		if n := trapped.Load(); n != 4*sched.MostStops || behind.Load() != 0 {
			t.Errorf("%s: %d doorbells were trapped of %d, %d after others", what, n, 4*sched.MostStops, behind.Load())
		}
	}
}

// TestSpares: the numbers of several devices serve again, and none at which the program has a file
// of its own meanwhile.
func TestSpares(t *testing.T) {
	h, _, _ := pacedFakes(t)
	out := run(t, options{program: "paced", host: h, doorbells: doorbell.Direct, paced: true, patient: true}, "spares")
	h.allClosed(t)
	if out != "2 numbers, then another one\n" {
		t.Errorf("%q", out)
	}
}

// TestSpareMoved: a spare number is not used if another process has put a file there, with
// which the program shares its descriptors.
func TestSpareMoved(t *testing.T) {
	h, _, _ := pacedFakes(t)
	out := run(t, options{program: "paced", host: h, doorbells: doorbell.Direct, paced: true, patient: true}, "moved")
	h.allClosed(t)
	if out != "its own file is there\n" {
		t.Errorf("%q", out)
	}
}

// TestPaceFork: a forked process, which has the quick number in its memory, gets the slow one with
// other calls. Its parent keeps the quick one.
func TestPaceFork(t *testing.T) {
	h, _, _ := pacedFakes(t)
	out := run(t, options{program: "paced", host: h, doorbells: doorbell.Direct, paced: true, patient: true}, "fork")
	h.allClosed(t)
	if out != "the child rings at the slow number\n" {
		t.Errorf("%q", out)
	}
}

// library is what libibverbs keeps of a device.
type library struct {
	before int32
	number atomic.Int32
	after  int32
}

func (l *library) write(n int) error {
	_, err := unix.Write(int(l.number.Load()), make([]byte, n))
	return err
}

func (l *library) tell(p unsafe.Pointer) error {
	var b [tellNumber]byte
	binary.NativeEndian.PutUint64(b[:], uint64(uintptr(p)))
	_, err := unix.Write(int(l.number.Load()), b[:])
	return err
}

// until rings until the number is another one than now.
func (l *library) until() (int32, error) {
	old := l.number.Load()
	for range 100 * sched.MostStops {
		if err := l.write(doorbellSize); err != nil {
			return 0, err
		}
		if now := l.number.Load(); now != old {
			return now, nil
		}
	}
	return 0, fmt.Errorf("the number stays %d", old)
}

// pacedProgram rings as the tests above say.
func pacedProgram(args []string) error {
	l := &library{before: -1, after: -1}
	defer runtime.KeepAlive(l)
	switch args[0] {
	case "right":
	case "spares":
		return pacedTwice()
	case "moved":
		return pacedMoved(l)
	case "fork":
		return pacedFork(l)
	default:
		return pacedAtOneNumber(l, args[0])
	}
	first, firstSlow := int32(0), int32(0)
	for round := range 2 {
		fd, err := openModern(device)
		if err != nil {
			return err
		}
		slow := int32(fd)
		if firstSlow != 0 && slow != firstSlow { // round 0 left a file of no use there
			return fmt.Errorf("slow numbers %d and %d", firstSlow, slow)
		}
		firstSlow = slow
		l.number.Store(slow)
		if err := l.tell(unsafe.Pointer(&l.number)); err != nil {
			return err
		}
		quick, err := l.until()
		if err != nil {
			return err
		}
		if first != 0 && quick != first {
			return fmt.Errorf("quick numbers %d and %d", first, quick)
		}
		first = quick
		if err := l.write(doorbellSize / 2); err != nil || l.number.Load() != slow {
			return fmt.Errorf("after another call, number %d: %w", l.number.Load(), err)
		}
		if _, err := l.until(); err != nil {
			return err
		}
		time.Sleep(100 * sched.StopEvery)
		if l.number.Load() != slow {
			return fmt.Errorf("after a rest, number %d", l.number.Load())
		}
		if round == 0 { // this one is closed at the quick number
			if _, err := l.until(); err != nil {
				return err
			}
		}
		if err := unix.Close(int(l.number.Load())); err != nil {
			return err
		}
		// one is closed, and the other is another file
		for _, number := range []int32{slow, quick} {
			if link, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", number)); link != "" && link != os.DevNull {
				return fmt.Errorf("number %d is %s", number, link)
			}
		}
		if l.before != -1 || l.after != -1 {
			return fmt.Errorf("memory beside the number has changed")
		}
	}
	fmt.Println("2 devices, one quick number")
	return nil
}

// pacedTwice opens two devices at once, twice, and then one.
func pacedTwice() error {
	var l [2]library
	defer runtime.KeepAlive(&l)
	var slow [2]int32
	open := func(i int) (quick int32, err error) {
		fd, err := openModern(device)
		if err != nil {
			return 0, err
		}
		l := &l[i]
		slow[i] = int32(fd)
		l.number.Store(slow[i])
		if err := l.tell(unsafe.Pointer(&l.number)); err != nil {
			return 0, err
		}
		return l.until()
	}
	// shut closes it at the slow number, which another call gives to the program, unless the timer
	// is about to do so.
	shut := func(i int) error {
		for l[i].number.Load() != slow[i] {
			if err := l[i].write(doorbellSize / 2); err != nil {
				return err
			}
		}
		return unix.Close(int(slow[i]))
	}
	quick := map[int32]bool{}
	for range 2 {
		for i := range l {
			n, err := open(i)
			if err != nil {
				return err
			}
			quick[n] = true
		}
		for i := range l {
			if err := shut(i); err != nil {
				return err
			}
		}
	}
	if len(quick) != 2 {
		return fmt.Errorf("quick numbers %v", quick)
	}
	// now the program has files of its own there
	for n := range quick {
		if err := unix.Close(int(n)); err != nil {
			return err
		}
		if err := unix.Dup2(1, int(n)); err != nil {
			return err
		}
	}
	n, err := open(0)
	if err != nil {
		return err
	}
	if quick[n] {
		return fmt.Errorf("the program's own file at %d was replaced", n)
	}
	fmt.Println("2 numbers, then another one")
	return shut(0)
}

// pacedMoved closes a device at the quick number. Another process, which has the same descriptors,
// puts another file at the slow one.
func pacedMoved(l *library) error {
	fd, err := openModern(device)
	if err != nil {
		return err
	}
	l.number.Store(int32(fd))
	if err := l.tell(unsafe.Pointer(&l.number)); err != nil {
		return err
	}
	quick, err := l.until()
	if err != nil {
		return err
	}
	if err := unix.Close(int(quick)); err != nil {
		return err
	}
	none := make([]byte, 4)
	child, err := forked(unix.CLONE_FILES, [][4]uintptr{{unix.SYS_DUP3, 1, uintptr(fd), 0}}, new(int32), &none)
	if err != nil || child != 0 {
		return fmt.Errorf("the child ended with %#x: %w", uint32(child), err)
	}
	again, err := openModern(device)
	if err != nil {
		return err
	}
	if again == fd {
		return fmt.Errorf("the program's own file at %d was replaced", fd)
	}
	fmt.Println("its own file is there")
	return unix.Close(again)
}

// forked makes calls in a forked process, and then copies what is at from to to, which both share.
// The runtime is not there in that process, nor the race detector's. It returns the first errno.
//
//go:norace
func forked(flags uintptr, calls [][4]uintptr, from *int32, to *[]byte) (st unix.WaitStatus, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.Gosched() // nobody asks this thread to yield in the child
	child, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	if child == 0 {
		status := uintptr(0)
		for i := range calls {
			c := &calls[i]
			if _, _, errno := unix.RawSyscall(c[0], c[1], c[2], c[3]); errno != 0 && status == 0 {
				status = uintptr(errno)
			}
		}
		*(*int32)(unsafe.Pointer(&(*to)[0])) = *from
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, status, 0, 0)
	}
	_, err = unix.Wait4(int(child), &st, 0, nil)
	return st, err
}

// pacedFork rings fast, and forks.
func pacedFork(l *library) error {
	fd, err := openModern(device)
	if err != nil {
		return err
	}
	l.number.Store(int32(fd))
	if err := l.tell(unsafe.Pointer(&l.number)); err != nil {
		return err
	}
	shared, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	var b [doorbellSize]byte
	at := uintptr(unsafe.Pointer(&b))
	quick, err := l.until()
	if err != nil {
		return err
	}
	write := [4]uintptr{unix.SYS_WRITE, uintptr(quick), at, doorbellSize}
	other := [4]uintptr{unix.SYS_WRITE, uintptr(quick), at, doorbellSize / 2}
	// The timer may be at work for the parent in the first one.
	calls := slices.Concat([][4]uintptr{write}, slices.Repeat([][4]uintptr{other}, 100), [][4]uintptr{write})
	child, err := forked(0, calls, (*int32)(unsafe.Pointer(&l.number)), &shared)
	runtime.KeepAlive(&b)
	if n := int32(binary.NativeEndian.Uint32(shared)); err != nil || child != 0 || n != int32(fd) {
		return fmt.Errorf("the child ended with %#x, and number %d: %w", uint32(child), n, err)
	}
	fmt.Println("the child rings at the slow number")
	return unix.Close(int(l.number.Load()))
}

func pacedAtOneNumber(l *library, what string) error {
	fd, err := openModern(device)
	if err != nil {
		return err
	}
	l.number.Store(int32(fd))
	if what == "wrong" {
		if err := l.tell(unsafe.Pointer(&l.after)); err != nil {
			return err
		}
	}
	for range 4 * sched.MostStops {
		if err := l.write(doorbellSize); err != nil {
			return err
		}
	}
	if l.number.Load() != int32(fd) || l.before != -1 || l.after != -1 {
		return fmt.Errorf("%d %d %d", l.before, l.number.Load(), l.after)
	}
	fmt.Println("all at one number")
	return nil
}
