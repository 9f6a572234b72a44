package replay

import (
	"bytes"

	"github.com/gorxe/gorxe/wire"
)

// XRC differs from RC in only one thing: each request names one of the responder's shared receive
// queues (IBA A14). PSNs, MSNs, responses and retries are those of a reliable connection. A capture
// does not say what these queues are. So XRC is played as RC, without the choice of a receive
// queue.

// PlayedAsRC is what a session of XRC assumes.
const PlayedAsRC = "XRC played as RC: not which receive queue takes a message"

// asRC returns the bytes of a packet; an XRC packet becomes one of RC.
func asRC(p wire.Packet) []byte {
	if p.Info().Service != wire.ServiceXRC {
		return bytes.Clone(p.Bytes())
	}
	h := p.Headers()
	h.Opcode = h.Opcode - wire.XRCSendFirst + wire.RCSendFirst
	b := append(h.Append(nil), p.Payload()...)
	return append(b, make([]byte, p.Pad())...)
}
