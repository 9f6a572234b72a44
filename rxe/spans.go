package rxe

// spanBatch gathers or scatters many pieces with one call of their Memory.
// Every piece holds its region in use until the batch is done. Memory values
// are compared, so they must be comparable: pointers are.
type spanBatch struct {
	mem    Memory
	spans  []Span
	grants []grant
}

// maxSpans bounds how many pieces wait; a system call takes 1,024 (IOV_MAX).
const maxSpans = 512

// fits says whether a piece of mem can join without a flush.
func (s *spanBatch) fits(mem Memory) bool {
	return len(s.spans) == 0 || (s.mem == mem && len(s.spans) < maxSpans)
}

// add takes over the grant. The batch must fit it.
func (s *spanBatch) add(g grant, buf []byte) {
	s.mem = g.mem
	s.spans = append(s.spans, Span{VA: g.va, Buf: buf})
	s.grants = append(s.grants, g)
}

func (s *spanBatch) read() error {
	var err error
	if len(s.spans) > 0 {
		err = s.mem.ReadV(s.spans)
	}
	s.drop()
	return err
}

func (s *spanBatch) write() error {
	var err error
	if len(s.spans) > 0 {
		err = s.mem.WriteV(s.spans)
	}
	s.drop()
	return err
}

// drop forgets what waits and lets its regions go.
func (s *spanBatch) drop() {
	for i := range s.grants {
		s.grants[i].release()
	}
	clear(s.grants)
	clear(s.spans)
	s.mem, s.spans, s.grants = nil, s.spans[:0], s.grants[:0]
}

// cursor is a place in a scatter/gather list.
type cursor struct {
	sge int
	off uint32 // in that element
}

// seek returns the cursor at byte off of the list.
func seek(sgl []SGE, off uint32) cursor {
	for i := range sgl {
		if off < sgl[i].Length {
			return cursor{i, off}
		}
		off -= sgl[i].Length
	}
	return cursor{len(sgl), 0}
}

// next returns the piece of at most n bytes at the cursor and moves past it.
func (c *cursor) next(sgl []SGE, n int) (SGE, bool) {
	for c.sge < len(sgl) && c.off >= sgl[c.sge].Length {
		c.sge, c.off = c.sge+1, 0
	}
	if c.sge >= len(sgl) {
		return SGE{}, false
	}
	e := sgl[c.sge]
	take := min(e.Length-c.off, uint32(n))
	piece := SGE{Addr: e.Addr + uint64(c.off), Length: take, LKey: e.LKey}
	c.off += take
	return piece, true
}
