package replay

import (
	"bytes"

	"github.com/gorxe/gorxe/wire"
)

// The engine has no XRC. But that differs from RC in one thing only: each request says
// for which of the responder's shared receive queues it is (IBA A14). PSNs, MSNs,
// responses and retries are those of a reliable connection. So XRC is played as RC,
// and which receive queue takes a message is not.

const assumedXRC = "XRC played as RC: not which receive queue takes a message"

// asRC returns the bytes of a packet, if it is of XRC as one of RC.
func asRC(p wire.Packet) []byte {
	if p.Info().Service != wire.ServiceXRC {
		return bytes.Clone(p.Bytes())
	}
	h := p.Headers()
	h.Opcode = h.Opcode - wire.XRCSendFirst + wire.RCSendFirst
	b := append(h.Append(nil), p.Payload()...)
	return append(b, make([]byte, p.Pad())...)
}
