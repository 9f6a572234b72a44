package trap

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/nlsocket"
)

// TestNumbersOfSockets: devices leave numbers for netlink sockets, whose calls are all trapped
// there.
func TestNumbersOfSockets(t *testing.T) {
	all := must.Get[filter.Range](t)(filter.For(1024, 1024))
	s := must.Get[*nlsocket.Socket](t)(nlsocket.New(quota.New(quota.Cost{}), unix.SOCK_RAW))
	defer s.Close()
	free := make(map[uint32]bool)
	for _, part := range (&object{file: s, socket: s}).numbers(all) {
		for n := range part.Count {
			free[part.Base+n] = true
		}
	}
	for fd := range free {
		if !all.Contains(fd) || all.Doorbells().Contains(fd) {
			t.Errorf("calls on a socket at %d are not all trapped", fd)
		}
	}
	for _, device := range []*object{{file: s}, {file: s, readOnly: true}, {file: s, direct: new(doorbell.Device)}} {
		for _, part := range device.numbers(all) {
			for n := range part.Count {
				delete(free, part.Base+n)
			}
		}
	}
	if len(free) == 0 {
		t.Error("devices leave no number for a socket")
	}
}
