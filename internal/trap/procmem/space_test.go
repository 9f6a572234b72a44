package procmem

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/gorxe/gorxe/internal/sys/clock"
	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/rxe"
	"golang.org/x/sys/unix"
)

// ownSpace is this process's address space, seen from outside.
func ownSpace(t testing.TB) *Space {
	t.Helper()
	fd, err := unix.Open("/proc/self/mem", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := New(fd, os.Getpid(), new(User))
	t.Cleanup(s.Release)
	return s
}

// mapped is anonymous memory of its own, with its address.
func mapped(t testing.TB, size, prot int) ([]byte, uint64) {
	t.Helper()
	b, err := unix.Mmap(-1, 0, size, prot, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return b, addrOf(b)
}

func addrOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }

// ways are the two ways into a space.
func ways(t *testing.T, f func(t *testing.T, s *Space)) {
	t.Run("process_vm", func(t *testing.T) { f(t, ownSpace(t)) })
	t.Run("mem", func(t *testing.T) {
		s := ownSpace(t)
		s.memOnly.Store(true)
		f(t, s)
	})
}

// pieces cuts size bytes at va into spans of the given length, in random buffers.
func pieces(va uint64, size, each int, fill byte) []rxe.Span {
	var spans []rxe.Span
	for off := 0; off < size; off += each {
		spans = append(spans, rxe.Span{VA: va + uint64(off), Buf: bytes.Repeat([]byte{fill + byte(off/each)}, min(each, size-off))})
	}
	return spans
}

func TestSpaceTransfer(t *testing.T) {
	ways(t, func(t *testing.T, s *Space) {
		const size = 1 << 20
		mem, va := mapped(t, size, unix.PROT_READ|unix.PROT_WRITE)
		// 1000: more pieces than one call takes
		for _, each := range []int{1000, 4096, 65536, size} {
			spans := pieces(va, size, each, byte(each/7))
			if err := s.WriteV(spans); err != nil {
				t.Fatal(err)
			}
			for i, p := range spans {
				if !bytes.Equal(mem[p.VA-va:][:len(p.Buf)], p.Buf) {
					t.Fatalf("pieces of %d: piece %d was not written", each, i)
				}
				clear(p.Buf)
			}
			// Backwards, so that no piece follows the one before.
			for i, j := 0, len(spans)-1; i < j; i, j = i+1, j-1 {
				spans[i], spans[j] = spans[j], spans[i]
			}
			if err := s.ReadV(spans); err != nil {
				t.Fatal(err)
			}
			for i, p := range spans {
				if !bytes.Equal(mem[p.VA-va:][:len(p.Buf)], p.Buf) {
					t.Fatalf("pieces of %d: piece %d was not read", each, i)
				}
			}
		}
	})
}

// TestSpaceGaps: pieces with gaps between them are moved, and a write leaves the gaps as they are.
// The last pieces are at the end of what is mapped.
func TestSpaceGaps(t *testing.T) {
	ways(t, func(t *testing.T, s *Space) {
		const size, each = 3 * 4096, 24
		mem, va := mapped(t, size+4096, unix.PROT_READ|unix.PROT_WRITE)
		if err := unix.Mprotect(mem[size:], unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
		mem = mem[:size]
		for _, gap := range []int{1, 40, 200, maxGap, maxGap + 1, 4096} {
			var spans []rxe.Span
			for off := size - each; off >= 0; off -= each + gap {
				spans = append(spans, rxe.Span{VA: va + uint64(off), Buf: make([]byte, each)})
			}
			slices.Reverse(spans)
			fill(mem, 1)
			if err := s.ReadV(spans); err != nil {
				t.Fatalf("gaps of %d: %v", gap, err)
			}
			want := bytes.Clone(mem)
			for i, p := range spans {
				if !bytes.Equal(mem[p.VA-va:][:each], p.Buf) {
					t.Fatalf("gaps of %d: piece %d was not read", gap, i)
				}
				fill(p.Buf, byte(i))
				copy(want[p.VA-va:], p.Buf)
			}
			if err := s.WriteV(spans); err != nil {
				t.Fatalf("gaps of %d: %v", gap, err)
			}
			if !bytes.Equal(mem, want) {
				t.Fatalf("gaps of %d: the memory is not as written", gap)
			}
		}
	})
}

// fill makes the bytes of b differ from their neighbours.
func fill(b []byte, from byte) {
	for i := range b {
		b[i] = from + byte(i*7)
	}
}

func TestSpaceFaults(t *testing.T) {
	ways(t, func(t *testing.T, s *Space) {
		_, va := mapped(t, 4*4096, unix.PROT_READ|unix.PROT_WRITE)
		if _, _, errno := unix.Syscall(unix.SYS_MUNMAP, uintptr(va+2*4096), 4096, 0); errno != 0 {
			t.Fatal(errno)
		}
		buf := func(n int) []byte { return make([]byte, n) }
		for name, spans := range map[string][]rxe.Span{
			"small":         {{VA: va + 2*4096, Buf: buf(1)}},
			"end":           {{VA: va + 2*4096 - 4, Buf: buf(8)}},
			"large":         {{VA: va, Buf: buf(3 * 4096)}},
			"after a gap":   {{VA: va, Buf: buf(8)}, {VA: va + 2*4096 - 8, Buf: buf(4)}, {VA: va + 2*4096, Buf: buf(8)}},
			"second":        {{VA: va, Buf: buf(4096)}, {VA: va + 2*4096, Buf: buf(4096)}},
			"null":          {{VA: 0, Buf: buf(8)}},
			"kernel":        {{VA: 0xffff_8000_0000_0000, Buf: buf(8192)}},
			"kernel, small": {{VA: 1 << 63, Buf: buf(8)}},
			"wrap":          {{VA: ^uint64(0) - 3, Buf: buf(8)}},
			"wrap, large":   {{VA: ^uint64(0) - 3, Buf: buf(8192)}},
			"wrap, signed":  {{VA: 1<<63 - 3, Buf: buf(8192)}},
		} {
			if err := s.ReadV(spans); err != unix.EFAULT {
				t.Errorf("%s: read: %v", name, err)
			}
			if err := s.WriteV(spans); err != unix.EFAULT {
				t.Errorf("%s: write: %v", name, err)
			}
		}
		for _, none := range [][]rxe.Span{nil, {{VA: 0}}, {{VA: 0}, {VA: ^uint64(0)}}} {
			if s.ReadV(none) != nil || s.WriteV(none) != nil {
				t.Error("nothing to move is an error")
			}
		}
	})
}

func TestSpaceAtomics(t *testing.T) {
	s := ownSpace(t)
	mem, va := mapped(t, 4096, unix.PROT_READ|unix.PROT_WRITE)
	word := (*uint64)(unsafe.Pointer(&mem[8]))
	*word = 5
	if old, err := s.CompareSwap(va+8, 4, 9); old != 5 || err != nil || *word != 5 {
		t.Errorf("CompareSwap that differs: %d, %v, then %d", old, err, *word)
	}
	if old, err := s.CompareSwap(va+8, 5, 9); old != 5 || err != nil || *word != 9 {
		t.Errorf("CompareSwap: %d, %v, then %d", old, err, *word)
	}
	if old, err := s.FetchAdd(va+8, ^uint64(0)); old != 9 || err != nil || *word != 8 {
		t.Errorf("FetchAdd: %d, %v, then %d", old, err, *word)
	}
	if err := s.Store(va+8, 77); err != nil || *word != 77 {
		t.Errorf("Store: %v, then %d", err, *word)
	}
	for _, bad := range []uint64{va + 4, 0, 1 << 63} {
		if _, err := s.FetchAdd(bad, 1); err != unix.EFAULT {
			t.Errorf("FetchAdd at %#x: %v", bad, err)
		}
	}
	*word = 0
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 500 {
				if _, err := s.FetchAdd(va+8, 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if *word != 2000 {
		t.Errorf("2000 additions make %d", *word)
	}
}

func TestSpaceCheck(t *testing.T) {
	for _, old := range []bool{false, true} {
		noMapQuery.Store(old)
		s := ownSpace(t)
		_, va := mapped(t, 8*4096, unix.PROT_READ|unix.PROT_WRITE)
		protect := func(page, prot uintptr) {
			if _, _, errno := unix.Syscall(unix.SYS_MPROTECT, uintptr(va)+page*4096, 4096, prot); errno != 0 {
				t.Fatal(errno)
			}
		}
		protect(4, unix.PROT_READ)
		protect(5, unix.PROT_NONE)
		if _, _, errno := unix.Syscall(unix.SYS_MUNMAP, uintptr(va)+6*4096, 4096, 0); errno != 0 {
			t.Fatal(errno)
		}
		for _, tt := range []struct {
			from, n     uint64
			read, write bool
		}{
			{0, 4 * 4096, true, true},
			{1, 4*4096 - 1, true, true},
			{0, 0, true, true},
			{3 * 4096, 2 * 4096, true, false},
			{4 * 4096, 1, true, false},
			{4 * 4096, 4097, false, false},
			{5 * 4096, 1, false, false},
			{6 * 4096, 1, false, false},
			{6*4096 - 1, 2, false, false},
			{0, 8 * 4096, false, false},
			{1 << 62, 1, false, false},
			{0, ^uint64(0), false, false},
		} {
			if err := s.Check(va+tt.from, tt.n, false); (err == nil) != tt.read {
				t.Errorf("old %t: %d bytes at %d: read: %v", old, tt.n, tt.from, err)
			}
			if err := s.Check(va+tt.from, tt.n, true); (err == nil) != tt.write {
				t.Errorf("old %t: %d bytes at %d: write: %v", old, tt.n, tt.from, err)
			}
		}
		if noMapQuery.Load() != old {
			t.Log("this kernel has no PROCMAP_QUERY (Linux 6.11)")
		}
	}
	noMapQuery.Store(false)
}

// TestScanMaps: every prefix of a list is a list, or an error, and no more.
func TestScanMaps(t *testing.T) {
	const list = "00400000-00401000 r-xp 00000000 08:01 1 /bin/x\n7f0000000000-7f0000002000 rw-p 00000000 00:00 0\n"
	for n := range len(list) {
		_, _ = scanMaps(strings.NewReader(list[:n]), 0x7f0000000000, 0x7f0000002000, true)
	}
	if ok, err := scanMaps(strings.NewReader(list), 0x7f0000000000, 0x7f0000002000, true); !ok || err != nil {
		t.Errorf("%t, %v", ok, err)
	}
}

// sleeper starts a program that does nothing, and opens its memory.
func sleeper(t *testing.T) (p *exec.Cmd, mem int) {
	t.Helper()
	p = exec.Command("/bin/sleep", "1000")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(p) })
	mem, err := Open(p.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return p, mem
}

// end kills a program and waits for it.
func end(p *exec.Cmd) {
	_ = p.Process.Kill()
	_ = p.Wait()
}

// TestSpaceEnded: of a process that has ended nothing can be read, and nothing
// that has its number since is reached.
func TestSpaceEnded(t *testing.T) {
	p, fd := sleeper(t)
	s := New(fd, p.Process.Pid, new(User))
	if !s.Alive() {
		t.Error("a living process counts as ended")
	}
	end(p)
	if s.Alive() {
		t.Error("an ended process counts as living")
	}
	defer s.Release()
	s = New(dupFD(t, s.mem), os.Getpid(), new(User)) // its number is another's now: ours
	mem, va := mapped(t, 8192, unix.PROT_READ|unix.PROT_WRITE)
	for _, n := range []int{1, 8192} {
		if err := s.WriteV([]rxe.Span{{VA: va, Buf: bytes.Repeat([]byte{1}, n)}}); err != errEnded {
			t.Errorf("write of %d: %v", n, err)
		}
	}
	if mem[0] != 0 || mem[8191] != 0 {
		t.Error("a write to an ended process went to the next of its number")
	}
	s.Release()
	if s.acquire() {
		t.Error("access after the last reference")
	}
}

// TestNumberSeen: a look at the process number serves for NumberLife. That the process
// has ended meanwhile is noticed all the same.
func TestNumberSeen(t *testing.T) {
	p, fd := sleeper(t)
	s := New(fd, p.Process.Pid, new(User))
	defer s.Release()
	if !s.checkNumber() || s.checked.Load() == 0 {
		t.Fatal("the number of a living process does not count as its own")
	}
	end(p)
	large := []rxe.Span{{VA: 1 << 20, Buf: make([]byte, 8192)}}
	s.checked.Store(clock.Now()) // as if it had ended just now
	if err := s.WriteV(large); err != errEnded {
		t.Errorf("write to a process that ended a moment ago: %v", err)
	}
	s = New(dupFD(t, s.mem), os.Getpid(), new(User)) // its number is another's now: ours
	defer s.Release()
	s.checked.Store(clock.Now() - NumberLife)
	mem, va := mapped(t, 8192, unix.PROT_READ|unix.PROT_WRITE)
	if err := s.WriteV([]rxe.Span{{VA: va, Buf: bytes.Repeat([]byte{1}, len(mem))}}); err != errEnded || mem[0] != 0 {
		t.Errorf("write with a number that was looked at long ago: %v, memory %d", err, mem[0])
	}
}

func dupFD(t *testing.T, fd int) int {
	t.Helper()
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSpaceAllocations(t *testing.T) {
	ways(t, func(t *testing.T, s *Space) {
		mem, va := mapped(t, 1<<16, unix.PROT_READ|unix.PROT_WRITE)
		clear(mem)
		bulk, one := pieces(va, 1<<16, 1024, 1), pieces(va, 8, 8, 1)
		for name, f := range map[string]func(){
			"ReadV":    func() { _ = s.ReadV(bulk) },
			"WriteV":   func() { _ = s.WriteV(bulk) },
			"one word": func() { _ = s.WriteV(one) },
			"FetchAdd": func() { _, _ = s.FetchAdd(va, 1) },
			"Store":    func() { _ = s.Store(va, 1) },
		} {
			if n := testing.AllocsPerRun(200, f); n > 0 && !race.Enabled {
				t.Errorf("%s: %v allocations", name, n)
			}
		}
	})
}

func BenchmarkSpace(b *testing.B) {
	s := ownSpace(b)
	mem, va := mapped(b, 1<<20, unix.PROT_READ|unix.PROT_WRITE)
	clear(mem)
	for _, way := range []string{"vm", "mem"} {
		s.memOnly.Store(way == "mem")
		for _, size := range []int{8, 512, 4096, 8192, 65536} {
			spans := pieces(va, size, min(size, 4096), 1)
			b.Run(way+"/"+strconv.Itoa(size), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if err := s.WriteV(spans); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkPieces reads 64 pieces of 8 bytes with gaps between them.
func BenchmarkPieces(b *testing.B) {
	const pieces = 64
	s := ownSpace(b)
	for _, gap := range []int{0, 56, 248, 504, maxGap, maxGap + 8} {
		b.Run("gap="+strconv.Itoa(gap), func(b *testing.B) {
			mem, va := mapped(b, pieces*(8+gap), unix.PROT_READ|unix.PROT_WRITE)
			clear(mem)
			var spans []rxe.Span
			for i := range uint64(pieces) {
				spans = append(spans, rxe.Span{VA: va + i*uint64(8+gap), Buf: make([]byte, 8)})
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := s.ReadV(spans); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMessage copies 64 KiB twice, as a SEND between two programs does: in as many
// pieces as there are SENDs, each read and then written. The pieces are within this process.
func BenchmarkMessage(b *testing.B) {
	const size = 64 << 10
	for _, each := range []int{8 << 10, size} {
		b.Run(strconv.Itoa(each>>10)+"KiB", func(b *testing.B) {
			s := ownSpace(b)
			_, from := mapped(b, size, unix.PROT_READ|unix.PROT_WRITE)
			_, to := mapped(b, size, unix.PROT_READ|unix.PROT_WRITE)
			buf := make([]byte, each)
			b.SetBytes(size)
			for b.Loop() {
				for off := uint64(0); off < size; off += uint64(each) {
					if err := s.ReadV([]rxe.Span{{VA: from + off, Buf: buf}}); err != nil {
						b.Fatal(err)
					}
					if err := s.WriteV([]rxe.Span{{VA: to + off, Buf: buf}}); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
