package uverbs

import (
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider/librxe"
	"github.com/gorxe/gorxe/internal/sys/memfd"
	"github.com/gorxe/gorxe/internal/test/librxeclient"
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
	for list[1].f.TakeDoorbells(true).More {
	}
	if list[1].completed() != 1 {
		t.Fatal("no completion")
	}
	a := list[1].call(verb{cmd: uapi.CmdResizeCQ, req: bytesFrom(uapi.ResizeCQReq{CQHandle: list[1].cq.CQHandle, CQE: 100}),
		resp: uapi.SizeOf[uapi.ResizeCQResp](), uhwResp: uapi.SizeOf[librxe.MMInfo]()})
	place := uhw[librxe.MMInfo](a)
	list[1].comp = librxeclient.Map(t, list[1].f.FD(), place.Offset, place.Size)
	for i, e := range list {
		for id := range uint64(i + 1) {
			e.write(10+id, 8)
		}
		e.recv.PostRecv(50)
	}
	fd := reopened(t, list[0].f.FD())
	n, err := librxe.FlushOrphan(memfd.File(fd))
	if want := 1 + 2 + 3 + len(list); err != nil || n != want {
		t.Fatalf("%d flushed (%v), want %d", n, err, want)
	}
	for i, e := range list {
		var got []uint64
		for {
			wc, ok := e.comp.Poll()
			if !ok {
				break
			}
			if wc.Status != uint32(rxe.WCFlushErr) || wc.QPN != e.qpn {
				t.Errorf("queue pair %d: %+v", i, wc)
			}
			got = append(got, wc.ID)
		}
		want := []uint64{10, 11, 12}[:i+1]
		slices.Sort(got)
		if !slices.Equal(got, append(want, 50)) {
			t.Errorf("queue pair %d: completions of %v", i, got)
		}
	}
	if n, err := librxe.FlushOrphan(memfd.File(fd)); n != 0 || err != nil {
		t.Errorf("%d more flushed (%v)", n, err)
	}
}
