package mlx5

import (
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/procmaps"
	"github.com/gorxe/gorxe/internal/test/must"
)

// idlePage returns a page of the process that it does not use: the last one of its stack.
func (p *process) idlePage() uint64 {
	p.t.Helper()
	for m, err := range procmaps.Read(strings.NewReader(p.maps())) {
		if err == nil && m.Path == "[stack]" {
			return m.Start
		}
	}
	p.t.Fatal("no stack")
	return 0
}

// TestTurns: records are protected only while the guard is armed: otherwise nobody lets a store to
// one go on.
func TestTurns(t *testing.T) {
	g, at := bareGuard(t)
	g.addRecord(&udata{p: &program{process: at}}, at.idlePage(), true)
	g.arm()
	if !g.turn() || !g.turned {
		t.Fatal("no turn")
	}
	g.mu.Lock()
	g.extend() // as for a new place
	g.mu.Unlock()
	if g.turned {
		t.Error("the records are protected, and the guard is not armed")
	}
	if g.turn() { // as by a worker that was blocked, and has come back
		t.Error("a guard that is not armed takes turns")
	}
	g.arm()
	if !g.turn() || !g.turned {
		t.Error("no turn after all that")
	}
}

// TestSharedRecord: records in shared memory are not protected, even if the program was not watched
// when it made the queue.
func TestSharedRecord(t *testing.T) {
	p := must.Get[*pages](t)(newPages())
	g := &guard{pages: p, budget: quota.New(quota.Cost{})}
	t.Cleanup(func() { g.close(); p.close() })
	list := must.Get[[]*page](t)(p.add(0, 1))
	at := newProcess(t, p.file, 0)
	u := &udata{p: &program{process: at}}
	g.addRecord(u, placesOf(at.maps(), p.file, list, nil)[0].Start, false)
	g.cover(u, at.space(), list)
	g.addRecord(u, at.idlePage(), true)
	g.arm()
	if g.turn() {
		t.Error("a page of a file is protected")
	}
}

// TestWriteRecord: while the daemon writes to a record, none is protected. Such a write may block
// for ever, and holds up nobody.
func TestWriteRecord(t *testing.T) {
	g, at := bareGuard(t)
	g.addRecord(&udata{p: &program{process: at}}, at.idlePage(), true)
	g.arm()
	if !g.turn() {
		t.Fatal("no turn")
	}
	done := make(chan bool)
	must.OK(t, g.write(func() error {
		go func() {
			protected := g.turned || g.turn()
			g.close()
			done <- protected
		}()
		select {
		case protected := <-done:
			if protected {
				t.Error("the records are protected")
			}
		case <-time.After(10 * time.Second):
			t.Error("a write holds up the end of the guard")
		}
		return nil
	}))
}
