package rxe

// nullMemory is what DeviceAttr.NullLKey names: it reads as zeros, and forgets what is written.
type nullMemory struct{}

func (nullMemory) ReadV(spans []Span) error {
	for i := range spans {
		clear(spans[i].Buf)
	}
	return nil
}

func (nullMemory) WriteV([]Span) error                                { return nil }
func (nullMemory) CompareSwap(uint64, uint64, uint64) (uint64, error) { return 0, nil }
func (nullMemory) FetchAdd(uint64, uint64) (uint64, error)            { return 0, nil }
func (nullMemory) Store(uint64, uint64) error                         { return nil }
