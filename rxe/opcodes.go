package rxe

import "github.com/gorxe/gorxe/wire"

// messageOps is the BTH opcode for each position in a message.
type messageOps [numPositions]wire.Opcode

const (
	opFirst = iota
	opMiddle
	opLast
	opOnly
	numPositions
)

// at returns the opcode of a packet that begins or ends the message.
func (m *messageOps) at(begins, ends bool) wire.Opcode {
	switch {
	case begins && ends:
		return m[opOnly]
	case begins:
		return m[opFirst]
	case ends:
		return m[opLast]
	default:
		return m[opMiddle]
	}
}

// sendOpcodes holds the opcodes of each service's messages, readOps those of a
// READ's responses.
var sendOpcodes = [...][WRAtomicWrite + 1]messageOps{
	0: {
		WRSend:     {wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLast, wire.RCSendOnly},
		WRSendImm:  {wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLastImm, wire.RCSendOnlyImm},
		WRSendInv:  {wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLastInv, wire.RCSendOnlyInv},
		WRWrite:    {wire.RCWriteFirst, wire.RCWriteMiddle, wire.RCWriteLast, wire.RCWriteOnly},
		WRWriteImm: {wire.RCWriteFirst, wire.RCWriteMiddle, wire.RCWriteLastImm, wire.RCWriteOnlyImm},
	},
	1: {
		WRSend:     {wire.UCSendFirst, wire.UCSendMiddle, wire.UCSendLast, wire.UCSendOnly},
		WRSendImm:  {wire.UCSendFirst, wire.UCSendMiddle, wire.UCSendLastImm, wire.UCSendOnlyImm},
		WRWrite:    {wire.UCWriteFirst, wire.UCWriteMiddle, wire.UCWriteLast, wire.UCWriteOnly},
		WRWriteImm: {wire.UCWriteFirst, wire.UCWriteMiddle, wire.UCWriteLastImm, wire.UCWriteOnlyImm},
	},
	2: { // a message is one packet
		WRSend:    {opOnly: wire.UDSendOnly},
		WRSendImm: {opOnly: wire.UDSendOnlyImm},
	},
}

var readOps = messageOps{wire.RCReadResponseFirst, wire.RCReadResponseMiddle,
	wire.RCReadResponseLast, wire.RCReadResponseOnly}

func (q *QP) messageOps(op WROpcode) *messageOps {
	switch q.typ {
	case QPRC:
		return &sendOpcodes[0][op]
	case QPUC:
		return &sendOpcodes[1][op]
	default:
		return &sendOpcodes[2][op]
	}
}
