package procmem

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/uffd"
	"github.com/gorxe/gorxe/rxe"
	"golang.org/x/sys/unix"
)

// TestLongBurst: a burst is more than one call by process number, and the program
// holds up the first one for as long as it likes. What is meant by the number
// then is looked at again.
func TestLongBurst(t *testing.T) {
	mem, handler, err := uffd.Map(1 << 20)
	if errors.Is(err, unix.EPERM) && os.Getuid() != 0 {
		t.Skip("userfaultfd of system calls' accesses is for root (vm.unprivileged_userfaultfd)")
	}
	if err != nil {
		t.Fatal(err)
	}
	// The number belongs to this process, as if it were reused; the memory belongs to
	// another one.
	_, fd := sleeper(t)
	s := New(fd, os.Getpid(), new(User))
	defer s.Release()
	stranger, strangerVA := mapped(t, 4096, unix.PROT_READ|unix.PROT_WRITE)
	clear(stranger)
	spans := pieces(addrOf(mem), 16*vectorLen, 16, 1)
	spans = append(spans, rxe.Span{VA: strangerVA, Buf: bytes.Repeat([]byte{1}, 64)})
	done := make(chan error)
	go func() { done <- s.WriteV(spans) }()
	must.Eventually(t, "the first part is written", func() bool { return s.bursts.Load() > 0 })
	s.memOnly.Store(true)
	_ = unix.Close(handler) // the page is as any other from now on
	if err := <-done; err == nil {
		t.Error("no error")
	}
	if stranger[0] != 0 {
		t.Error("the second call went to the process that has the number")
	}
}

func TestByNumber(t *testing.T) {
	const ptrace = 1 << unix.CAP_SYS_PTRACE
	for _, c := range []struct {
		sameUser, mayTrace bool
		permitted          uint64
		want               bool
	}{
		{true, false, 0, true},
		{true, true, 0, false}, // root of a container, and a daemon outside of it
		{true, true, ptrace, true},
		{false, true, ptrace, false},
		{false, false, 0, false},
	} {
		if got := byNumber(c.sameUser, c.mayTrace, c.permitted); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if ByNumber(uint32(os.Geteuid())+1, ptrace) {
		t.Error("another user's programs are accessed by number")
	}
}
