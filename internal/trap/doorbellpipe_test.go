package trap

import (
	"testing"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/statetable"
)

// TestPipeTable walks the table in pipeState's comment.
func TestPipeTable(t *testing.T) {
	states := map[string]pipeState{"file": pipeFile, "pipe": pipePipe, "never": pipeNever}
	events := map[string]pipeEvent{
		"fileIn": pipeFileIn, "pipeIn": pipePipeIn, "refused": pipeRefused, "hungUp": pipeHungUp,
	}
	table := statetable.Read(t, "doorbellpipe.go", "pipeState")
	if len(table) != len(states) || len(pipeTable) != len(states) {
		t.Fatalf("%d states in the comment, %d in the code, and %d in the test", len(table), len(pipeTable), len(states))
	}
	for state, row := range table {
		if len(row) != len(events) {
			t.Errorf("%d events in the comment, want %d", len(row), len(events))
		}
		for event, next := range row {
			from, known := states[state]
			to, also := states[next]
			e, happens := events[event]
			if !known || !also || !happens {
				t.Fatalf("%s, %s, %s: no such state or event", state, event, next)
			}
			p := doorbellPipe{state: from}
			p.on(e)
			if p.state != to {
				t.Errorf("%s, %s: state %d, want %s", state, event, p.state, next)
			}
		}
	}
}

// TestPipeGivenUp: no pipe comes for a device with too many threads that may be about to map, nor
// for one that was closed.
func TestPipeGivenUp(t *testing.T) {
	var p doorbellPipe
	for tid := range uint32(maxMapping) {
		p.mayMap(tid)
	}
	if p.state != pipeFile || len(p.mapping) != maxMapping {
		t.Errorf("%d threads: state %d", len(p.mapping), p.state)
	}
	p.mayMap(maxMapping)
	if p.state != pipeNever || p.mapping != nil {
		t.Errorf("one more: state %d, %d threads", p.state, len(p.mapping))
	}
	p.mayMap(1)
	if p.mapping != nil {
		t.Error("threads are noted for nothing")
	}
	b := quota.New(pipeCost)
	closed := doorbellPipe{state: pipePipe, paid: b.TakeNow(pipeCost) == nil}
	closed.end(b, false)
	if closed.state != pipeNever || b.Used() != (quota.Cost{}) {
		t.Errorf("closed: state %d, %+v in use", closed.state, b.Used())
	}
}
