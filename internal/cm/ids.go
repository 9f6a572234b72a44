package cm

// idSource draws comm IDs. It draws each ID once in 2^32 draws, so a late message of an
// ended connection does not reach another connection. A host that has seen some IDs
// cannot predict others. The source is a counter and a permutation: a Feistel network of
// four rounds with random keys.
type idSource struct {
	next uint32
	keys [4]uint32
}

func newIDSource(random func() uint32) idSource {
	s := idSource{next: random()}
	for i := range s.keys {
		s.keys[i] = random()
	}
	return s
}

// draw returns the next ID, which is not 0: in a message, 0 stands for an ID that is not
// known.
func (s *idSource) draw() uint32 {
	for {
		id := s.permute(s.next)
		s.next++
		if id != 0 {
			return id
		}
	}
}

func (s *idSource) permute(v uint32) uint32 {
	left, right := uint16(v>>16), uint16(v)
	for _, key := range s.keys {
		left, right = right, left^mix(right, key)
	}
	return uint32(left)<<16 | uint32(right)
}

// mix is the round function: half of a product whose bits all depend on half and key.
func mix(half uint16, key uint32) uint16 {
	v := (uint32(half) ^ key) * 0x9e3779b1
	v = (v ^ v>>15) * 0x85ebca6b
	return uint16(v >> 16)
}

// newID returns a comm ID that no connection has.
func (m *Machine) newID() uint32 {
	for {
		id := m.ids.draw()
		if m.conns[id] == nil {
			return id
		}
	}
}
