package rxe

import "github.com/gorxe/gorxe/wire"

// spanBatch gathers or scatters many pieces with one call of their Memory. Every
// piece keeps its region in use until the batch is done. Memory values are
// compared, so they must be comparable: pointers are.
type spanBatch struct {
	spans   []Span
	refs    []regionRef
	parts   []int // where parts that may fail by themselves end, in spans
	mem     Memory
	checked checkedRange
}

// endPart makes what was added since the last one a part of its own.
func (s *spanBatch) endPart() { s.parts = append(s.parts, len(s.spans)) }

// cutPart forgets the pieces behind the last part.
func (s *spanBatch) cutPart() {
	if len(s.parts) == 0 {
		s.drop()
		return
	}
	s.spans, s.checked = s.spans[:s.parts[len(s.parts)-1]], checkedRange{}
}

// checkedRange is the range for which the batch's last regionRef was checked. The
// pieces of one message follow each other, and one check serves them all.
type checkedRange struct {
	key       uint32
	addr, end uint64 // as the key's owner names it
	va        uint64 // of addr, in the batch's Memory
}

// extend adds a piece if the checked range covers it.
func (s *spanBatch) extend(key uint32, addr uint64, buf []byte) bool {
	checked := &s.checked
	if checked.key != key || addr < checked.addr || addr > checked.end || uint64(len(buf)) > checked.end-addr ||
		len(s.spans) == 0 || len(s.spans) == maxSpans {
		return false
	}
	s.spans = append(s.spans, Span{VA: checked.va + (addr - checked.addr), Buf: buf})
	return true
}

// checkedRange returns the range for which ref was checked: n bytes at addr under
// key.
func (ref regionRef) checkedRange(key uint32, addr, n uint64) checkedRange {
	return checkedRange{key: key, addr: addr, end: addr + n, va: ref.va}
}

// addChecked adds the first piece of a checked range.
func (s *spanBatch) addChecked(ref regionRef, checked checkedRange, buf []byte) {
	s.checked = checked
	s.add(ref, buf)
}

// fits reports whether a piece of mem can join without a flush.
func (s *spanBatch) fits(mem Memory) bool {
	return len(s.spans) == 0 || (s.mem == mem && len(s.spans) < maxSpans)
}

// add takes ref over. The piece must fit the batch.
func (s *spanBatch) add(ref regionRef, buf []byte) {
	s.mem = ref.mem
	s.spans = append(s.spans, Span{VA: ref.va, Buf: buf})
	s.refs = append(s.refs, ref)
}

// cover adds pieces of the list, from the cursor on, for all of b, and moves the
// cursor past them. need is 0 for pieces to be read, and AccessLocalWrite for
// pieces to be written. It reports false when a key does not allow it, when the list
// ends, or when parts wait that have to be written first.
func (s *spanBatch) cover(q *QP, sgl []SGE, at *cursor, b []byte, need Access) bool {
	for len(b) > 0 {
		rest, ok := at.rest(sgl)
		if !ok {
			return false
		}
		n := min(len(b), int(rest.Length))
		if !s.extend(uint32(rest.LKey), rest.Addr, b[:n]) && !s.check(q, q.pd, rest, b[:n], need) {
			return false
		}
		at.off += uint32(n)
		b = b[n:]
	}
	return true
}

// check adds the first piece of rest, and checks all of rest, whose key belongs to pd. With
// AccessRemoteRead the key is an rkey.
func (s *spanBatch) check(q *QP, pd *PD, rest SGE, b []byte, need Access) bool {
	ref, why := regionRef{}, keyOK
	if need == AccessRemoteRead {
		ref, why = q.remoteAccess(pd, wire.RKey(rest.LKey), rest.Addr, uint64(rest.Length), need)
	} else {
		ref, why = q.localAccess(pd, rest, need)
	}
	if why != keyOK {
		return false
	}
	if !s.fits(ref.mem) {
		if len(s.parts) > 0 {
			ref.release()
			return false
		}
		transfer := s.read
		if need&AccessLocalWrite != 0 {
			transfer = s.write
		}
		if transfer() != nil {
			ref.release()
			return false
		}
	}
	s.addChecked(ref, ref.checkedRange(uint32(rest.LKey), rest.Addr, uint64(rest.Length)), b)
	return true
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

// writeParts is write for pieces in parts. If writing all of them fails, it writes part after
// part. It returns how many parts were written before one failed.
func (s *spanBatch) writeParts() (int, error) {
	parts := len(s.parts)
	var err error
	if len(s.spans) > 0 {
		err = s.mem.WriteV(s.spans)
	}
	if err != nil && parts > 0 {
		parts, err = s.writeEach()
	}
	s.drop()
	return parts, err
}

// writeEach writes part after part, and then what follows the last one.
func (s *spanBatch) writeEach() (int, error) {
	from := 0
	for i, to := range s.parts {
		if to == from {
			continue
		}
		if err := s.mem.WriteV(s.spans[from:to]); err != nil {
			return i, err
		}
		from = to
	}
	if from == len(s.spans) {
		return len(s.parts), nil
	}
	return len(s.parts), s.mem.WriteV(s.spans[from:])
}

// drop forgets the pieces that wait and releases their regions.
func (s *spanBatch) drop() {
	if len(s.spans) == 0 && len(s.refs) == 0 && len(s.parts) == 0 {
		return
	}
	for i := range s.refs {
		s.refs[i].release()
	}
	clear(s.refs)
	clear(s.spans)
	s.mem, s.spans, s.refs, s.parts, s.checked = nil, s.spans[:0], s.refs[:0], s.parts[:0], checkedRange{}
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

// rest returns the rest of the element at the cursor.
func (c *cursor) rest(sgl []SGE) (SGE, bool) {
	for c.sge < len(sgl) && c.off >= sgl[c.sge].Length {
		c.sge, c.off = c.sge+1, 0
	}
	if c.sge >= len(sgl) {
		return SGE{}, false
	}
	e := &sgl[c.sge]
	return SGE{Addr: e.Addr + uint64(c.off), Length: e.Length - c.off, LKey: e.LKey}, true
}
