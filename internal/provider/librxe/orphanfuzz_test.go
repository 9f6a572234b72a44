package librxe

import (
	"encoding/binary"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/memfd"
	"github.com/gorxe/gorxe/internal/test/must"
)

// FuzzOrphan: whatever a program has written into its queues' headers, the flush ends,
// and writes no more than the completion queues hold.
func FuzzOrphan(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add([]byte{6, 0, 0, 0, 0xff, 0xff, 0xff, 0x3f}, []byte{6, 0, 0, 0, 3, 0, 0, 0, 0x67, 0x72, 0x78, 0x65, 2})
	f.Add([]byte{16, 0, 0, 0, 1, 0, 0, 0}, []byte{40, 0, 0, 0, 3})
	f.Fuzz(func(t *testing.T, cqHead, workHead []byte) {
		a := testArena(t)
		cq, send := must.Get[*cqRing](t)(newCQRing(a, 3)), must.Get[*recvRing](t)(newRecvRing(a, 7, 1))
		cq.label(label{kind: labelCQ, cq: 1})
		send.label(label{kind: labelWork, cq: 1, qpn: 5})
		binary.NativeEndian.PutUint32(send.piece.mem[queueProducer:], 5)
		copy(cq.piece.mem[:queueData], cqHead)
		copy(send.piece.mem[:queueData], workHead)
		n, err := FlushOrphan(memfd.File(reopen(t, a.fd())))
		if n > maxOrphanWork {
			t.Errorf("%d flushed (%v)", n, err)
		}
	})
}

// reopen makes a description of a device's file that nobody else uses.
func reopen(t testing.TB, fd int) int {
	t.Helper()
	own, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(own) })
	return own
}
