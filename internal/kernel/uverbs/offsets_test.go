package uverbs

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/provider/librxe"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/quotatest"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// sharedFile is the driver of librxe, beside an owner of other pages of each context's file.
type sharedFile struct {
	librxe.Driver
	offsets *provider.Offsets // of the last open
}

func (d *sharedFile) Open(o provider.Open) (provider.Context, error) {
	d.offsets = o.Offsets
	const prescribed = 8 << 20 // as libmlx5's device memory
	if err := d.offsets.TakeAt(prescribed, 1<<20); err != nil {
		return nil, err
	}
	return d.Driver.Open(o)
}

// TestTwoOwnersOfOffsets: pages of device memory lie in the file with librxe's queues, and neither
// is in the other's way, however many queues there are. They end with the file.
func TestTwoOwnersOfOffsets(t *testing.T) {
	driver := new(sharedFile)
	d := must.Get[*Device](t)(NewDevice(Config{Device: rxedev.New(t), Driver: driver}))
	t.Cleanup(d.Close)
	b := quota.New(quota.Cost{})
	u := &user{openedOf(t, d, b), forms[0]}
	const size = 3 << 20
	var memory [][]byte // as the program maps it
	takeMemory := func() {
		from := must.Get[int64](t)(driver.offsets.Take(size))
		memory = append(memory, librxeclient.Map(t, u.f.FD(), uint64(from), size).Mem)
		if b := memory[len(memory)-1]; !bytes.Equal(b, make([]byte, size)) {
			t.Error("new device memory is not zero")
		}
		for i, b := range memory {
			for at := range b {
				b[at] = byte(i + 1)
			}
		}
	}
	var pairs []*endpoint
	for range 3 {
		takeMemory()
		pairs = append(pairs, newEndpoint(t, u, rxe.QPRC))
		u.createCQ(30000, -1, 0) // has a window of its own
	}
	for _, e := range pairs {
		u.connect(e.qp, rxe.QPRC, e.qpn)
		e.recv.PostRecv(7)
		e.write(1, 8)
		u.call(doorbellVerb(e.qp))
		if e.completed() == 0 {
			t.Error("a queue pair beside device memory does not work")
		}
	}
	for i, b := range memory {
		if !bytes.Equal(b, bytes.Repeat([]byte{byte(i + 1)}, size)) {
			t.Errorf("queues have written into device memory %d", i)
		}
	}
	fd := reopened(t, u.f.FD())
	u.f.Close()
	quotatest.WantGiven(t, b)
	if _, err := unix.Seek(fd, 0, unix.SEEK_DATA); err != unix.ENXIO {
		t.Errorf("after the end something is left in the file: %v", err)
	}
}
