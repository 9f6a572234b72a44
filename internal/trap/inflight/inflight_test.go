package inflight

import (
	"os"
	"testing"

	"github.com/gorxe/gorxe/internal/trap/notify"
	"github.com/gorxe/gorxe/internal/trap/sealed"
	"golang.org/x/sys/unix"
)

// TestSharedPage: only what New made is mapped.
func TestSharedPage(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(pageSize); err != nil {
		t.Fatal(err)
	}
	if _, err := Map(f); err == nil {
		t.Error("an ordinary file was mapped")
	}
	fd, err := sealed.FixedSize("gorxe-small", pageSize-1)
	if err != nil {
		t.Fatal(err)
	}
	small := os.NewFile(uintptr(fd), "small")
	defer small.Close()
	if _, err := Map(small); err == nil {
		t.Error("a short file was mapped")
	}
}

// TestPageOfClient: a page can be used that is there whatever the client does to its file.
func TestPageOfClient(t *testing.T) {
	make := func(flags int, size int64, seals int) int {
		fd, err := unix.MemfdCreate("page", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|flags)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		if err := unix.Ftruncate(fd, size); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
		return fd
	}
	shared, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	for name, fd := range map[string]int{
		"not sealed": make(0, pageSize, unix.F_SEAL_GROW),
		"too small":  make(0, pageSize-1, unix.F_SEAL_SHRINK),
		"huge":       make(unix.MFD_HUGETLB, 2<<20, unix.F_SEAL_SHRINK),
	} {
		if checkPage(fd) == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if err := checkPage(int(shared.Fd())); err != nil {
		t.Error(err)
	}
}

// TestSlots: a slot that is not there is no crash.
func TestSlots(t *testing.T) {
	p, err := Map(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Unmap()
	for range Slots + 1 {
		p.Take(p.Slot(), &notify.Call{ID: 7, NR: unix.SYS_IOCTL})
	}
}

// TestRecords: a list in the shared page that is full refuses, and forgets nothing.
func TestRecords(t *testing.T) {
	p, err := Map(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Unmap()
	var last *Record
	for i := range uint64(MaxWaiting) {
		if last = p.AddWaiting(i + 1); last == nil {
			t.Fatalf("record %d of %d is refused", i, MaxWaiting)
		}
	}
	if p.AddWaiting(1) != nil {
		t.Error("a record too many")
	}
	last.Free()
	if p.AddWaiting(7) != last {
		t.Error("a free record is not used")
	}
	for key, want := range map[uint64]string{
		fileKey(&unix.Stat_t{Ino: 5, Mode: unix.S_IFIFO | 0o600}): "pipe:[5]",
		fileKey(&unix.Stat_t{Ino: 6, Mode: unix.S_IFSOCK}):        "socket:[6]",
	} {
		if got := fileLink(key); got != want {
			t.Errorf("%d is %q, want %q", key, got, want)
		}
	}
}
