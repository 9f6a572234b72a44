package uverbs

import (
	"encoding/binary"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
)

// reopened is a description of a device's file that nobody else uses.
func reopened(t testing.TB, fd int) int {
	t.Helper()
	own, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(own) })
	return own
}

// TestFlushOrphan: what a dead daemon left in send and receive queues is completed with
// an error, in order, to the right completion queue, and once.
func TestFlushOrphan(t *testing.T) {
	list := loops(t, 3)
	// Completed before, resized since: neither is in the way.
	list[1].write(7, 8)
	for list[1].f.Ring() {
	}
	if list[1].completed() != 1 {
		t.Fatal("no completion")
	}
	a := list[1].call(verb{cmd: uapi.CmdResizeCQ, req: bytesFrom(uapi.ResizeCQReq{CQHandle: list[1].cq.CQHandle, CQE: 100}),
		resp: uapi.SizeOf[uapi.ResizeCQResp](), uhwResp: uapi.SizeOf[mmInfo]()})
	place := uhw[mmInfo](a)
	list[1].comp = mapQueue(t, list[1].f.FD(), place.Offset, place.Size)
	for i, e := range list {
		for id := range uint64(i + 1) {
			e.write(10+id, 8)
		}
		e.recv.postRecv(50)
	}
	fd := reopened(t, list[0].f.FD())
	n, err := FlushOrphan(fd)
	if want := 1 + 2 + 3 + len(list); err != nil || n != want {
		t.Fatalf("%d flushed (%v), want %d", n, err, want)
	}
	for i, e := range list {
		var got []uint64
		for {
			wc, ok := e.comp.poll()
			if !ok {
				break
			}
			if wc.status != uint32(rxe.WCFlushErr) || wc.qpn != e.qpn {
				t.Errorf("queue pair %d: %+v", i, wc)
			}
			got = append(got, wc.id)
		}
		want := []uint64{10, 11, 12}[:i+1]
		slices.Sort(got)
		if !slices.Equal(got, append(want, 50)) {
			t.Errorf("queue pair %d: completions of %v", i, got)
		}
	}
	if n, err := FlushOrphan(fd); n != 0 || err != nil {
		t.Errorf("%d more flushed (%v)", n, err)
	}
}

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
		n, err := FlushOrphan(reopened(t, a.fd()))
		if n > maxOrphanWork {
			t.Errorf("%d flushed (%v)", n, err)
		}
	})
}
