package wire

// The opcode table is the only place that knows what an opcode means. Parse and Put
// take header offsets from it, and the engine tests flags instead of comparing opcodes.

// OpFlags are the properties of an opcode.
type OpFlags uint32

const (
	// OpFirst, OpMiddle, OpLast and OpOnly give the place of the packet in
	// its message; every opcode has one of them. Requests and responses of a
	// single packet are OpOnly.
	OpFirst OpFlags = 1 << iota
	OpMiddle
	OpLast
	OpOnly

	OpSend        // SEND
	OpWrite       // RDMA WRITE
	OpRead        // RDMA READ request
	OpReadResp    // RDMA READ response
	OpAtomic      // COMPARE AND SWAP or FETCH AND ADD request
	OpAtomicWrite // ATOMIC WRITE request
	OpFlush       // FLUSH request
	OpAck         // ACKNOWLEDGE or ATOMIC ACKNOWLEDGE

	OpRequest  // goes to a responder
	OpResponse // goes to a requester

	OpImm     // delivers immediate data
	OpInv     // invalidates a memory key
	OpPayload // may carry payload
	// OpRecv marks the packet at which a receive work request is taken from
	// the queue: the first of a SEND, the last of an RDMA WRITE with
	// immediate.
	OpRecv

	// The headers that follow the BTH.
	HasRETH
	HasAETH
	HasDETH
	HasImm
	HasIETH
	HasAtomicETH
	HasAtomicAckETH
	HasXRCETH
	HasFETH
	HasCNP // the reserved block of a congestion notification packet

	// OpStart is a packet that begins a message, OpEnd one that ends it.
	OpStart = OpFirst | OpOnly
	OpEnd   = OpLast | OpOnly
)

// Header lengths in bytes (IBA 9.2, 9.3, A14, A17, A19).
const (
	BTHLen          = 12
	RETHLen         = 16
	AETHLen         = 4
	DETHLen         = 8
	ImmLen          = 4
	IETHLen         = 4
	AtomicETHLen    = 28
	AtomicAckETHLen = 8
	XRCETHLen       = 4
	FETHLen         = 4
	CNPLen          = 16
	GRHLen          = 40
	ICRCLen         = 4

	// MaxHeaderLen is the longest BTH with extensions: XRC atomics.
	MaxHeaderLen = BTHLen + XRCETHLen + AtomicETHLen
)

// OpInfo describes one opcode. Offsets are in bytes from the start of the BTH;
// 0 means that the header is absent.
type OpInfo struct {
	Name      string
	Service   Service
	Flags     OpFlags
	HeaderLen int // BTH and all extensions

	RETH, AETH, DETH, Imm, IETH     uint8
	AtomicETH, AtomicAckETH, XRCETH uint8
	FETH, CNP                       uint8

	// va is the offset of the RETH or the AtomicETH: both begin with a virtual
	// address and an rkey.
	va uint8
}

// Valid reports whether the opcode exists.
func (i *OpInfo) Valid() bool { return i.HeaderLen != 0 }

// Has reports whether the opcode has any of the properties in f.
func (i *OpInfo) Has(f OpFlags) bool { return i.Flags&f != 0 }

// connectedOps are the opcodes of the connected services, by their low five
// bits (IBA 9.2.1). XRC has all but the last two, UC the first twelve.
var connectedOps = [...]struct {
	op    Opcode
	name  string
	flags OpFlags
}{
	{0x00, "SEND_FIRST", OpRequest | OpSend | OpFirst | OpPayload | OpRecv},
	{0x01, "SEND_MIDDLE", OpRequest | OpSend | OpMiddle | OpPayload},
	{0x02, "SEND_LAST", OpRequest | OpSend | OpLast | OpPayload},
	{0x03, "SEND_LAST_WITH_IMMEDIATE", OpRequest | OpSend | OpLast | OpPayload | OpImm | HasImm},
	{0x04, "SEND_ONLY", OpRequest | OpSend | OpOnly | OpPayload | OpRecv},
	{0x05, "SEND_ONLY_WITH_IMMEDIATE", OpRequest | OpSend | OpOnly | OpPayload | OpRecv | OpImm | HasImm},
	{0x06, "RDMA_WRITE_FIRST", OpRequest | OpWrite | OpFirst | OpPayload | HasRETH},
	{0x07, "RDMA_WRITE_MIDDLE", OpRequest | OpWrite | OpMiddle | OpPayload},
	{0x08, "RDMA_WRITE_LAST", OpRequest | OpWrite | OpLast | OpPayload},
	{0x09, "RDMA_WRITE_LAST_WITH_IMMEDIATE", OpRequest | OpWrite | OpLast | OpPayload | OpRecv | OpImm | HasImm},
	{0x0a, "RDMA_WRITE_ONLY", OpRequest | OpWrite | OpOnly | OpPayload | HasRETH},
	{0x0b, "RDMA_WRITE_ONLY_WITH_IMMEDIATE", OpRequest | OpWrite | OpOnly | OpPayload | OpRecv | OpImm | HasRETH | HasImm},
	{0x0c, "RDMA_READ_REQUEST", OpRequest | OpRead | OpOnly | HasRETH},
	{0x0d, "RDMA_READ_RESPONSE_FIRST", OpResponse | OpReadResp | OpFirst | OpPayload | HasAETH},
	{0x0e, "RDMA_READ_RESPONSE_MIDDLE", OpResponse | OpReadResp | OpMiddle | OpPayload},
	{0x0f, "RDMA_READ_RESPONSE_LAST", OpResponse | OpReadResp | OpLast | OpPayload | HasAETH},
	{0x10, "RDMA_READ_RESPONSE_ONLY", OpResponse | OpReadResp | OpOnly | OpPayload | HasAETH},
	{0x11, "ACKNOWLEDGE", OpResponse | OpAck | OpOnly | HasAETH},
	{0x12, "ATOMIC_ACKNOWLEDGE", OpResponse | OpAck | OpOnly | HasAETH | HasAtomicAckETH},
	{0x13, "COMPARE_SWAP", OpRequest | OpAtomic | OpOnly | HasAtomicETH},
	{0x14, "FETCH_ADD", OpRequest | OpAtomic | OpOnly | HasAtomicETH},
	{0x16, "SEND_LAST_WITH_INVALIDATE", OpRequest | OpSend | OpLast | OpPayload | OpInv | HasIETH},
	{0x17, "SEND_ONLY_WITH_INVALIDATE", OpRequest | OpSend | OpOnly | OpPayload | OpRecv | OpInv | HasIETH},
	{0x1c, "FLUSH", OpRequest | OpFlush | OpOnly | HasFETH | HasRETH},
	{0x1d, "ATOMIC_WRITE", OpRequest | OpAtomicWrite | OpOnly | OpPayload | HasRETH},
}

var opTable = buildOpTable()

func buildOpTable() (t [256]OpInfo) {
	for _, c := range connectedOps {
		t[c.op] = newOpInfo("RC_"+c.name, ServiceRC, c.flags)
		if c.op <= RCWriteOnlyImm {
			t[UCSendFirst+c.op] = newOpInfo("UC_"+c.name, ServiceUC, c.flags)
		}
		if c.op <= RCSendOnlyInv {
			flags := c.flags
			if flags&OpRequest != 0 {
				flags |= HasXRCETH // A14: requests only
			}
			t[XRCSendFirst+c.op] = newOpInfo("XRC_"+c.name, ServiceXRC, flags)
		}
	}
	const ud = OpRequest | OpSend | OpOnly | OpPayload | OpRecv | HasDETH
	t[UDSendOnly] = newOpInfo("UD_SEND_ONLY", ServiceUD, ud)
	t[UDSendOnlyImm] = newOpInfo("UD_SEND_ONLY_WITH_IMMEDIATE", ServiceUD, ud|OpImm|HasImm)
	t[OpCNP] = newOpInfo("CNP", ServiceCNP, OpOnly|HasCNP)
	return t
}

// newOpInfo puts the headers in the order that they have on the wire.
func newOpInfo(name string, s Service, flags OpFlags) OpInfo {
	i := OpInfo{Name: name, Service: s, Flags: flags, HeaderLen: BTHLen}
	for _, h := range [...]struct {
		bit    OpFlags
		offset *uint8
		length int
	}{
		{HasDETH, &i.DETH, DETHLen},
		{HasXRCETH, &i.XRCETH, XRCETHLen},
		{HasFETH, &i.FETH, FETHLen},
		{HasRETH, &i.RETH, RETHLen},
		{HasAtomicETH, &i.AtomicETH, AtomicETHLen},
		{HasAETH, &i.AETH, AETHLen},
		{HasAtomicAckETH, &i.AtomicAckETH, AtomicAckETHLen},
		{HasImm, &i.Imm, ImmLen},
		{HasIETH, &i.IETH, IETHLen},
		{HasCNP, &i.CNP, CNPLen},
	} {
		if flags&h.bit != 0 {
			*h.offset = uint8(i.HeaderLen)
			i.HeaderLen += h.length
		}
	}
	i.va = max(i.RETH, i.AtomicETH)
	return i
}
