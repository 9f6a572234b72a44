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

// typeFacts are what distinguishes a type of queue pair on the wire.
type typeFacts struct {
	service  wire.Service
	reliable bool       // requests are acknowledged, and sent again
	lacks    QPAttrMask // attributes of RC that it does not have (qpattr.go)

	messages [WRAtomicWrite + 1]messageOps // of the requester, by operation
	answers  messageOps                    // to a READ

	blockSelf bool       // QPInitAttr.BlockSelfMulticast
	frames    *FrameInit // of a QPRaw
}

// noService is that of no opcode: IBA 9.2 has three bits for it.
const noService wire.Service = 1 << 3 // IBA 9.2

// factsOf are the facts of each type; a type without an entry does not exist.
var factsOf = map[QPType]*typeFacts{
	QPRC: {service: wire.ServiceRC, reliable: true, messages: reliableOps, answers: readOps},
	QPUC: {service: wire.ServiceUC, messages: [...]messageOps{
		WRSend:        {wire.UCSendFirst, wire.UCSendMiddle, wire.UCSendLast, wire.UCSendOnly},
		WRSendImm:     {wire.UCSendFirst, wire.UCSendMiddle, wire.UCSendLastImm, wire.UCSendOnlyImm},
		WRWrite:       {wire.UCWriteFirst, wire.UCWriteMiddle, wire.UCWriteLast, wire.UCWriteOnly},
		WRWriteImm:    {wire.UCWriteFirst, wire.UCWriteMiddle, wire.UCWriteLastImm, wire.UCWriteOnlyImm},
		WRAtomicWrite: {}, // there is none
	}},
	QPUD: {service: wire.ServiceUD, messages: [...]messageOps{ // a message is one packet
		WRSend:        {opOnly: wire.UDSendOnly},
		WRSendImm:     {opOnly: wire.UDSendOnlyImm},
		WRAtomicWrite: {},
	}},
	QPRaw:    {service: noService}, // no packet is for it
	QPXRCIni: xrcFacts(QPAttrMaxDestRdAtomic | QPAttrMinRNRTimer),
	QPXRCTgt: xrcFacts(QPAttrRetryCnt | QPAttrRNRRetry | QPAttrMaxRdAtomic),
}

// udBlockSelf are the facts of a datagram queue pair that receives none of its own.
var udBlockSelf = &typeFacts{service: wire.ServiceUD, messages: factsOf[QPUD].messages, blockSelf: true}

var (
	reliableOps = [WRAtomicWrite + 1]messageOps{
		WRSend:     {wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLast, wire.RCSendOnly},
		WRSendImm:  {wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLastImm, wire.RCSendOnlyImm},
		WRSendInv:  {wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLastInv, wire.RCSendOnlyInv},
		WRWrite:    {wire.RCWriteFirst, wire.RCWriteMiddle, wire.RCWriteLast, wire.RCWriteOnly},
		WRWriteImm: {wire.RCWriteFirst, wire.RCWriteMiddle, wire.RCWriteLastImm, wire.RCWriteOnlyImm},
	}
	readOps = messageOps{wire.RCReadResponseFirst, wire.RCReadResponseMiddle,
		wire.RCReadResponseLast, wire.RCReadResponseOnly}
)

// xrcFacts returns the facts of a half of XRC: the operations are those of RC, with opcodes of
// their own (IBA A14).
func xrcFacts(lacks QPAttrMask) *typeFacts {
	f := &typeFacts{service: wire.ServiceXRC, reliable: true, lacks: lacks, messages: reliableOps, answers: readOps}
	for op := range f.messages {
		f.messages[op].move(f.service)
	}
	f.answers.move(f.service)
	return f
}

func (m *messageOps) move(s wire.Service) {
	for i := range m {
		m[i] = s.Of(m[i])
	}
}

func (q *QP) messageOps(op WROpcode) *messageOps { return &q.facts.messages[op] }

// opcode returns the QP's opcode for one of RC.
func (q *QP) opcode(rc wire.Opcode) wire.Opcode { return q.facts.service.Of(rc) }
