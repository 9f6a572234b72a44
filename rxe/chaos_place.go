package rxe

// An acknowledgement promises that the responder has the data, and not that memory has it
// (IBA 9.7.5.1). A later request of the same QP promises it (IBA 9.5): a SEND or WRITE with
// immediate data when it completes there, an atomic or READ when it is executed. FLUSH does too
// (IBA A19). Until then chaos holds the data back, in pieces, and places these in another
// order. Requests are executed in order all the same (C9-28): a piece that overlaps an earlier one
// comes after it.

// lateWrites is data that waits to be written to memory.
type lateWrites struct {
	pieces []latePiece // in the order of the requests
	bytes  int
	pool   *pool  // of the device
	seq    uint64 // of the latest piece
	batch  []Span
}

// latePiece is a part of a span.
type latePiece struct {
	Span
	mem  Memory
	due  Time
	seq  uint64
	from *lateBatch
}

// lateBatch keeps the regions of a batch in use while pieces of it are left.
type lateBatch struct {
	refs []regionRef
	left int
	pend pendingWrite // without its batch: the request at fault
}

// order is how the pieces of a batch follow each other in time.
type order uint8

const (
	forward order = iota
	backward
	shuffled
	numOrders
)

// which selects pieces.
type which func(p *latePiece) bool

func all(*latePiece) bool { return true }

func dueBy(now Time) which { return func(p *latePiece) bool { return p.due <= now } }

// through selects what was received before something with this number.
func through(seq uint64) which { return func(p *latePiece) bool { return p.seq <= seq } }

// next returns when the first piece is due; 0: there is none.
func (l *lateWrites) next() (next Time) {
	for i := range l.pieces {
		if due := l.pieces[i].due; next == 0 || due < next {
			next = due
		}
	}
	return next
}

// keep takes over what waits in batch, and writes it late, or at once. The error is that of
// something that was written now.
func (l *lateWrites) keep(c *chaos, batch *spanBatch, pend pendingWrite, now Time) error {
	pend.batch = spanBatch{} // the pieces, or batch itself, have it
	size := 0
	for i := range batch.spans {
		size += len(batch.spans[i].Buf)
	}
	late := Time(c.draw(latePlace))
	if len(batch.spans)*lateCuts > latePieces {
		late = 0
	}
	if late != 0 && size > l.pool.take(size, true) {
		l.pool.give(size)
		late = 0
	}
	if late == 0 || len(l.pieces)+len(batch.spans)*lateCuts > latePieces || l.bytes+size > lateWritesLimit {
		if err := l.place(all); err != nil {
			if late != 0 {
				l.pool.give(size)
			}
			batch.drop()
			return err
		}
	}
	if late == 0 {
		if err := batch.write(); err != nil {
			return &placeError{err, pend}
		}
		return nil
	}
	l.cut(c, batch, pend, now, late)
	return nil
}

// cut turns a batch into pieces that are due within late.
func (l *lateWrites) cut(c *chaos, batch *spanBatch, pend pendingWrite, now, late Time) {
	from := &lateBatch{refs: append([]regionRef(nil), batch.refs...), pend: pend}
	first := len(l.pieces)
	for _, s := range batch.spans {
		rest := Span{VA: s.VA, Buf: append([]byte(nil), s.Buf...)}
		for cuts := c.rng.IntN(lateCuts); cuts > 0 && len(rest.Buf) > 1; cuts-- {
			n := 1 + c.rng.IntN(len(rest.Buf)-1)
			l.add(batch.mem, Span{VA: rest.VA, Buf: rest.Buf[:n]}, from)
			rest = Span{VA: rest.VA + uint64(n), Buf: rest.Buf[n:]}
		}
		l.add(batch.mem, rest, from)
	}
	n, how := Time(len(l.pieces)-first), order(c.rng.IntN(int(numOrders)))
	for i := first; i < len(l.pieces); i++ {
		at := Time(i - first)
		switch how {
		case forward:
			at++
		case backward:
			at = n - at
		default:
			at = 1 + Time(c.rng.Int64N(int64(n)))
		}
		l.pieces[i].due = max(now+late*at/n, l.lastBelow(i))
	}
	clear(batch.refs) // they are from's now
	batch.refs = batch.refs[:0]
	batch.drop()
}

func (l *lateWrites) add(mem Memory, s Span, from *lateBatch) {
	l.seq++
	l.pieces = append(l.pieces, latePiece{Span: s, mem: mem, seq: l.seq, from: from})
	from.left++
	l.bytes += len(s.Buf)
}

// lastBelow returns when the last of the earlier pieces is due that piece i may overlap. Two
// Memory values may be the same memory.
func (l *lateWrites) lastBelow(i int) (last Time) {
	p := &l.pieces[i]
	for j := range i {
		e := &l.pieces[j]
		if e.mem != p.mem || e.VA < p.VA+uint64(len(p.Buf)) && p.VA < e.VA+uint64(len(e.Buf)) {
			last = max(last, e.due)
		}
	}
	return last
}

// place writes the selected pieces. A selection never leaves a piece behind that an earlier one
// must precede. After an error nothing is left.
func (l *lateWrites) place(selects which) error {
	var err error
	rest := l.pieces[:0]
	for i := 0; i < len(l.pieces); {
		p := l.pieces[i]
		if err == nil && !selects(&p) {
			rest = append(rest, p)
			i++
			continue
		}
		l.batch = l.batch[:0]
		j := i
		for ; j < len(l.pieces) && l.pieces[j].mem == p.mem && (err != nil || selects(&l.pieces[j])); j++ {
			l.batch = append(l.batch, l.pieces[j].Span)
		}
		if err == nil {
			if err = p.mem.WriteV(l.batch); err != nil {
				err = &placeError{err, p.from.pend}
				l.release(rest)
				rest = rest[:0]
			}
		}
		l.release(l.pieces[i:j])
		i = j
	}
	clear(l.pieces[len(rest):])
	l.pieces = rest
	clear(l.batch)
	return err
}

func (l *lateWrites) release(pieces []latePiece) {
	for i := range pieces {
		p := &pieces[i]
		l.bytes -= len(p.Buf)
		l.pool.give(len(p.Buf))
		if p.from.left--; p.from.left == 0 {
			for j := range p.from.refs {
				p.from.refs[j].release()
			}
		}
	}
}

// placeError says which request's data could not be written.
type placeError struct {
	error
	pend pendingWrite
}

func (e *placeError) Unwrap() error { return e.error }
