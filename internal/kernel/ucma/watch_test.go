package ucma

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/wire"
)

// seen is a Watcher that writes down what it sees.
type seen struct{ list, told []string }

func (s *seen) Made(id any, _ kernel.Caller) { s.add("made", id) }
func (s *seen) Ended(id any)                 { s.add("ended", id) }
func (s *seen) Left(id any)                  { s.add("left", id) }
func (s *seen) Told(from netip.Addr, qp wire.QPN) {
	s.told = append(s.told, fmt.Sprint("told ", from, " ", qp))
}
func (s *seen) Heard(from netip.Addr, qp wire.QPN) {
	s.told = append(s.told, fmt.Sprint("heard ", from, " ", qp))
}
func (s *seen) Unacknowledged(id any, n uint32, _ kernel.Caller) {
	s.add(fmt.Sprint("waits for ", n), id)
}
func (s *seen) add(what string, id any) {
	s.list = append(s.list, fmt.Sprintf("%s %d", what, id.(*cmID).num))
}

// TestWatcher: a watcher sees the ids that a program makes and gets, and those that it leaves.
func TestWatcher(t *testing.T) {
	h := newHost(t)
	s, c := h.open(), h.open()
	var w seen
	s.f.SetWatcher(&w)
	want := func(list ...string) {
		t.Helper()
		if !slices.Equal(w.list, list) {
			t.Errorf("seen %q, want %q", w.list, list)
		}
		w.list = nil
	}
	listener := s.listener(0xa, tcp, 5)
	want(fmt.Sprint("made ", listener))
	passive, _ := established(t, s, c, listener)
	want(fmt.Sprint("made ", passive))
	if from, to := "10.0.0.1 17", "10.0.0.1 34"; !slices.Equal(w.told, []string{"heard " + from, "told " + to, "heard " + from}) {
		t.Errorf("seen %q", w.told)
	}
	s.destroy(passive)
	want(fmt.Sprint("ended ", passive))
	s.torn = true
	if do(s, uapi.UcmaCreateID, uapi.UcmaCreateIDReq{Response: answerAt, PS: uint16(tcp)}, 4) == nil {
		t.Error("the answer could be written")
	}
	s.torn = false
	if len(w.list) != 2 || w.list[0][:4] != "made" || w.list[1][:5] != "ended" {
		t.Errorf("seen %q", w.list)
	}
	w.list = nil
	c = h.open()
	c.connect(c.resolved(0xc, tcp), "") // the program does not read of it
	s.exit()
	want(fmt.Sprint("left ", listener))
}
