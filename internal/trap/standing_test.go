package trap

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/trap/notify"
)

// TestStackPlaces: the stack of a call that comes from a known place is where it was, from the
// address of what it writes.
func TestStackPlaces(t *testing.T) {
	const pc, back = 0x7f0000001234, 0x7f0000005678
	stack := func(sp uint64, at int) *kernel.Stack {
		s := &kernel.Stack{PC: pc, SP: sp, Bytes: make([]byte, 4096)}
		binary.NativeEndian.PutUint64(s.Bytes, 7)
		binary.NativeEndian.PutUint64(s.Bytes[8:], sp+64) // a frame pointer
		if at >= 0 {
			binary.NativeEndian.PutUint64(s.Bytes[at:], back)
		}
		return s
	}
	call := func(nr int32, pc, data uint64) *notify.Call {
		return &notify.Call{NR: nr, PC: pc, Args: [6]uint64{3, data, 32}}
	}
	const sp = 0x7ffc00001000
	for _, c := range []struct {
		name string
		call *notify.Call
		at   int
		want stackPlace
	}{
		{"a leaf", call(unix.SYS_WRITE, pc, sp+0x80), 0, stackPlace{pc, 0x80, back, 0}},
		{"a frame", call(unix.SYS_WRITE, pc, sp+0x80), 40, stackPlace{pc, 0x80, back, 40}},
		{"no address", call(unix.SYS_WRITE, pc, sp+0x80), -1, stackPlace{}},
		{"data elsewhere", call(unix.SYS_WRITE, pc, sp-8), 0, stackPlace{}},
		{"another call", call(unix.SYS_IOCTL, pc, sp+0x80), 0, stackPlace{}},
		{"the thread is elsewhere", call(unix.SYS_WRITE, pc+2, sp+0x80), 0, stackPlace{}},
	} {
		var k stacks
		k.keep(c.call, stack(sp, c.at))
		var got stackPlace
		if at := k.known[1].Load(); at != nil {
			got = *at
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	var k stacks
	for range 3 * stackPlaces {
		k.keep(call(unix.SYS_WRITE, pc, sp+0x80), stack(sp, 0))
	}
}
