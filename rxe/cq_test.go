package rxe

import (
	"errors"
	"strconv"
	"testing"
)

func pushN(c *CQ, from, n int) (ok int) {
	for i := range n {
		if c.push(&WC{ID: uint64(from + i)}, false) {
			ok++
		}
	}
	return ok
}

func (o *objDev) wantIDs(c *CQ, max int, ids ...uint64) {
	o.t.Helper()
	wcs := make([]WC, max)
	n, err := c.Poll(wcs)
	o.must(err)
	if n != len(ids) {
		o.t.Fatalf("%d completions, want %d", n, len(ids))
	}
	for i, id := range ids {
		if wcs[i].ID != id {
			o.t.Errorf("completion %d has ID %d, want %d", i, wcs[i].ID, id)
		}
	}
}

func TestCQOrderAcrossWrap(t *testing.T) {
	d := newObjDev(t)
	c := d.cq(3)
	for from := range 10 {
		if pushN(c, from, 3) != 3 {
			t.Fatal("full before its size")
		}
		id := uint64(from)
		d.wantIDs(c, 1, id)
		d.wantIDs(c, 5, id+1, id+2)
		d.wantIDs(c, 5)
	}
}

func TestCQOverflow(t *testing.T) {
	d := newObjDev(t)
	c := d.cq(2)
	if pushN(c, 0, 4) != 2 {
		t.Error("more fit than should")
	}
	d.wantEvent(Event{Type: EventCQErr, CQ: c})
	d.wantIDs(c, 4, 0, 1)
	_, err := c.Poll(make([]WC, 1))
	d.want(err, ErrFull, "cq")
	if pushN(c, 0, 1) != 0 {
		t.Error("a CQ in error took a completion")
	}
	d.wantNoEvent()
	d.must(c.Destroy())
}

func TestCQNotify(t *testing.T) {
	for _, c := range []struct {
		name      string
		arm       []bool // solicitedOnly of each ReqNotify
		solicited bool
		status    WCStatus
		want      int
	}{
		{"not armed", nil, true, WCFatalErr, 0},
		{"any, plain", []bool{false}, false, WCSuccess, 1},
		{"any, solicited", []bool{false}, true, WCSuccess, 1},
		{"solicited, plain", []bool{true}, false, WCSuccess, 0},
		{"solicited, solicited", []bool{true}, true, WCSuccess, 1},
		{"solicited, error", []bool{true}, false, WCFlushErr, 1},
		{"both", []bool{false, true}, false, WCSuccess, 1},
		{"twice", []bool{false, false}, false, WCSuccess, 1},
	} {
		d := newObjDev(t)
		fired := 0
		cq, err := d.CreateCQ(CQInit{Entries: 4, OnCompletion: func(*CQ) { fired++ }})
		d.must(err)
		for _, s := range c.arm {
			d.must(cq.ReqNotify(s))
		}
		for range 3 { // once, however many come
			cq.push(&WC{Status: c.status}, c.solicited)
		}
		if fired != c.want {
			t.Errorf("%s: notified %d times, want %d", c.name, fired, c.want)
		}
	}
}

// TestCQNotifySilent: a completion that arrived without a notification, and that is still in
// the queue, counts for the next request. Each step is a letter: p and s push a plain and
// a solicited completion, and t takes one out. With a, the owner asks for a notification of
// any completion, with o of a solicited one.
func TestCQNotifySilent(t *testing.T) {
	for _, c := range []struct {
		steps string
		want  string // how often the owner has been notified, after each step
	}{
		{"pa", "01"},
		{"po", "00"},
		{"so", "01"},
		{"sa", "01"},
		{"spo", "001"},
		{"poa", "001"},
		{"pta", "000"},
		{"ppta", "0001"},
		{"pptta", "00000"},
		{"spto", "0000"}, // Only the plain one is left.
		{"spta", "0001"},
		{"opap", "0011"}, // The request ends with its notification.
		{"apa", "011"},   // The notification was of the completion that waits.
		{"apapa", "01122"},
		{"appa", "0112"}, // Of two, it was of the first one.
		{"appta", "01112"},
		{"apptta", "011111"},
		{"paa", "011"},
		{"pata", "0111"},
		{"patap", "01112"},
	} {
		for _, elsewhere := range []bool{false, true} {
			d := newObjDev(t)
			fired := 0
			init := CQInit{Entries: 4, OnCompletion: func(*CQ) { fired++ }}
			ring := &sliceRing{max: 4}
			if elsewhere {
				init.Ring = ring
			}
			cq, err := d.CreateCQ(init)
			d.must(err)
			got := ""
			for _, step := range c.steps {
				switch step {
				case 'p', 's':
					cq.push(&WC{}, step == 's')
				case 'a', 'o':
					d.must(cq.ReqNotify(step == 'o'))
				case 't':
					if elsewhere {
						ring.wcs = ring.wcs[1:]
						break
					}
					_, err := cq.Poll(make([]WC, 1))
					d.must(err)
				}
				got += strconv.Itoa(fired)
			}
			if got != c.want {
				t.Errorf("%s, ring elsewhere %v: notified %s, want %s", c.steps, elsewhere, got, c.want)
			}
		}
	}
}

func TestCQResize(t *testing.T) {
	d := newObjDev(t)
	c := d.cq(4)
	pushN(c, 0, 4)
	d.wantIDs(c, 2, 0, 1)
	pushN(c, 4, 1) // wraps; 2, 3, 4 wait
	d.want(c.Resize(0), ErrInvalid, "entries")
	d.want(c.Resize(1<<15), ErrInvalid, "entries")
	d.want(c.Resize(2), ErrInvalid, "entries")
	if c.Cap() != 4 {
		t.Errorf("cap %d after refusals", c.Cap())
	}
	d.must(c.Resize(3))
	if pushN(c, 9, 1) != 0 {
		t.Error("the smaller queue takes as many as before")
	}
	d.wantIDs(c, 8, 2, 3, 4)

	c = d.cq(1)
	pushN(c, 0, 1)
	d.must(c.Resize(3))
	if pushN(c, 1, 2) != 2 || c.Cap() != 3 {
		t.Error("did not grow")
	}
	d.wantIDs(c, 8, 0, 1, 2)
}

func TestCQBadInput(t *testing.T) {
	d := newObjDev(t)
	for _, n := range []int{-1, 0, 1 << 15} {
		_, err := d.CreateCQ(CQInit{Entries: n})
		d.want(err, ErrInvalid, "entries")
	}
	c := d.cq(1)
	d.must(c.Destroy())
	if c.push(&WC{}, false) {
		t.Error("push to a destroyed CQ")
	}
	_, err := c.Poll(nil)
	for _, err := range []error{err, c.Resize(2), c.ReqNotify(false)} {
		d.want(err, ErrClosed, "cq")
	}
}

// sliceRing is a CQ's storage elsewhere.
type sliceRing struct {
	wcs []WC
	max int
}

func (r *sliceRing) Push(wc *WC) bool {
	if len(r.wcs) == r.max {
		return false
	}
	r.wcs = append(r.wcs, *wc)
	return true
}

func (r *sliceRing) Waiting() int { return len(r.wcs) }

func TestCQForeignRing(t *testing.T) {
	d := newObjDev(t)
	ring := &sliceRing{max: 1}
	c, err := d.CreateCQ(CQInit{Entries: 1, Ring: ring})
	d.must(err)
	pushN(c, 0, 1)
	d.want(c.Resize(2), ErrNotSupported, "cq")
	broken := errors.New("no memory")
	if err := c.ReplaceRing(2, func() (CQRing, error) { return nil, broken }); err != broken {
		t.Errorf("ReplaceRing: %v", err)
	}
	d.must(c.ReplaceRing(2, func() (CQRing, error) {
		return &sliceRing{wcs: ring.wcs, max: 2}, nil
	}))
	if pushN(c, 1, 2) != 1 || c.Cap() != 2 {
		t.Error("the new ring is not in use")
	}
	d.wantEvent(Event{Type: EventCQErr, CQ: c})
	d.want(d.cq(1).ReplaceRing(2, nil), ErrNotSupported, "cq")
}

func TestCQAllocatesNothing(t *testing.T) {
	d := newObjDev(t)
	c := d.cq(2)
	wcs := make([]WC, 2)
	if n := testing.AllocsPerRun(100, func() {
		c.push(&wcs[1], true)
		_, _ = c.Poll(wcs)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
