package inflight

import (
	"fmt"
	"os"
	"testing"

	"github.com/gorxe/gorxe/internal/trap/notify"
	"golang.org/x/sys/unix"
)

// TestOpen: a file that is not a page is not mapped.
func TestOpen(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int64{0, pageSize, sharedSize - 1, sharedSize + 1} {
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(f); err == nil {
			t.Errorf("a file of %d bytes was mapped", size)
		}
	}
}

// TestReader: a process that has the file sees what stands in the page, and can change nothing.
func TestReader(t *testing.T) {
	page, f, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer page.Unmap()
	reader, err := Open(f)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Unmap()
	call := notify.Call{ID: 7, TID: 8, NR: unix.SYS_IOCTL, Args: [6]uint64{900, 1, 2}}
	page.Inherit(page.Slot(), &call)
	if got := reader.InHand(); len(got) != 1 || got[0] != call {
		t.Errorf("%+v are in hand, want %+v", got, call)
	}
	page.pids++
	if got := reader.InHand(); len(got) != 1 || got[0].TID != 0 {
		t.Errorf("%+v: the number of a thread in another namespace", got)
	}
	again, err := os.OpenFile(fmt.Sprint("/proc/self/fd/", f.Fd()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for _, fd := range []int{int(f.Fd()), int(again.Fd())} {
		if _, err := unix.Pwrite(fd, []byte{1}, 0); err == nil {
			t.Error("a byte was written")
		}
		if _, err := unix.Mmap(fd, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
			t.Error("the file was mapped for writing")
		}
		if unix.Ftruncate(fd, 0) == nil {
			t.Error("the file was cut")
		}
		if unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, pageSize) == nil {
			t.Error("a page was removed")
		}
	}
	if unix.Mprotect(reader.raw, unix.PROT_READ|unix.PROT_WRITE) == nil {
		t.Error("the mapping was made writable")
	}
	if got := reader.InHand(); len(got) != 1 || got[0].ID != 7 {
		t.Errorf("%+v are in hand at the end", got)
	}
}

// TestSlots: a slot that is not there is no crash.
func TestSlots(t *testing.T) {
	p := Own()
	for range Slots + 1 {
		p.Inherit(p.Slot(), &notify.Call{ID: 7, NR: unix.SYS_IOCTL})
	}
}

// TestRecords: a list in the shared page that is full refuses, and forgets nothing.
func TestRecords(t *testing.T) {
	p := Own()
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
