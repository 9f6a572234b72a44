package ucma

import (
	"encoding/binary"
	"testing"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// fuzzWorld is a program with an id in each state, and another one whose ids it may name.
type fuzzWorld struct {
	*program
	other *program
}

func newFuzzWorld(t *testing.T) fuzzWorld {
	h := newHost(t)
	w := fuzzWorld{h.open(), h.open()}
	w.fds[1] = w.other.f
	w.create(0xa, tcp)
	w.resolved(0xb, tcp)
	ud := w.create(0xc, udp)
	w.ok(do(w.program, uapi.UcmaBindIP, uapi.UcmaBindIPReq{Addr: in6(0), ID: ud}, 0))
	established(t, w.other, w.program, w.other.listener(0xd, tcp, 5))
	return w
}

// fuzzSteps cuts input into commands: each has its length in front.
func fuzzSteps(data []byte) [][]byte {
	var steps [][]byte
	for len(data) >= 2 && len(steps) < 8 {
		n := min(int(binary.LittleEndian.Uint16(data)), len(data)-2)
		steps = append(steps, data[2:2+n])
		data = data[2+n:]
	}
	return steps
}

// FuzzCommand feeds commands as bytes, whatever their lengths say, at the end of the mapped
// memory. Afterwards the program still works, and leaves nothing.
func FuzzCommand(f *testing.F) {
	for id := range uint32(6) {
		for cmd, body := range withID(id) {
			hdr := uapi.UcmaHdr{Cmd: uint32(cmd), In: uint16(len(body)), Out: 400}
			b := append(append([]byte(nil), uapi.BytesOf(&hdr)...), body...)
			f.Add(append(binary.LittleEndian.AppendUint16(nil, uint16(len(b))), b...))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w := newFuzzWorld(t)
		for _, b := range fuzzSteps(data) {
			if len(b) > answerAt-programBase {
				continue
			}
			at := uint64(programSize - len(b))
			copy(w.mem.Data[at:], b)
			if n, err := w.f.Write(w, programBase+at, uint64(len(b))); err == nil && n != int64(len(b)) {
				t.Errorf("%d of %d bytes", n, len(b))
			}
		}
		id := w.other.create(0xe, tcp)
		w.other.ok(w.other.user(id, 1))
		for e := w.other.event(); rdmacm.EventKind(e.Event) != eventUser || e.ID != id; e = w.other.event() {
		}
		w.exit()
		w.other.exit()
		w.h.given()
	})
}
