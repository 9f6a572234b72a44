package wire

// PSN is a 24-bit packet sequence number. Its order is circular: of two PSNs, the
// later one is less than half the circle ahead of the other (IBA 9.7.1).
type PSN uint32

// PSNMask covers the 24 bits of a PSN on the wire.
const PSNMask = 1<<24 - 1

// Add returns the PSN n packets after p.
func (p PSN) Add(n uint32) PSN { return (p + PSN(n)) & PSNMask }

// Sub returns the PSN n packets before p.
func (p PSN) Sub(n uint32) PSN { return (p - PSN(n)) & PSNMask }

// Next returns the PSN after p.
func (p PSN) Next() PSN { return p.Add(1) }

// Diff returns the signed distance p-q, in [-2^23, 2^23): positive when p is
// later than q.
func (p PSN) Diff(q PSN) int32 { return int32((p-q)<<8) >> 8 }

// Less reports whether p is earlier than q.
func (p PSN) Less(q PSN) bool { return p.Diff(q) < 0 }
