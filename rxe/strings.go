package rxe

// The texts are those of libibverbs (ibv_wc_status_str, ibv_port_state_str,
// ibv_event_type_str, ibv_node_type_str). Where it has none, they are those of
// perftest and the rdma tool.

func name[T ~uint8](names []string, v T, unknown string) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return unknown
}

var wcStatusNames = []string{
	WCSuccess:       "success",
	WCLocLenErr:     "local length error",
	WCLocQPOpErr:    "local QP operation error",
	WCLocEECOpErr:   "local EE context operation error",
	WCLocProtErr:    "local protection error",
	WCFlushErr:      "Work Request Flushed Error",
	WCMWBindErr:     "memory management operation error",
	WCBadRespErr:    "bad response error",
	WCLocAccessErr:  "local access error",
	WCRemInvReqErr:  "remote invalid request error",
	WCRemAccessErr:  "remote access error",
	WCRemOpErr:      "remote operation error",
	WCRetryExcErr:   "transport retry counter exceeded",
	WCRNRRetryErr:   "RNR retry counter exceeded",
	WCLocRDDViolErr: "local RDD violation error",
	WCRemInvRDReq:   "remote invalid RD request",
	WCRemAbortErr:   "aborted error",
	WCInvEECNErr:    "invalid EE context number",
	WCInvEECStErr:   "invalid EE context state",
	WCFatalErr:      "fatal error",
	WCRespTimeout:   "response timeout error",
	WCGeneralErr:    "general error",
}

// String is ibv_wc_status_str.
func (s WCStatus) String() string { return name(wcStatusNames, s, "unknown") }

var portStateNames = []string{
	PortNop:         "no state change (NOP)",
	PortDown:        "down",
	PortInit:        "init",
	PortArmed:       "armed",
	PortActive:      "active",
	PortActiveDefer: "active defer",
}

// String is ibv_port_state_str.
func (s PortState) String() string { return name(portStateNames, s, "unknown") }

var eventNames = []string{
	EventCQErr:            "CQ error",
	EventQPFatal:          "local work queue catastrophic error",
	EventQPReqErr:         "invalid request local work queue error",
	EventQPAccessErr:      "local access violation work queue error",
	EventCommEst:          "communication established",
	EventSQDrained:        "send queue drained",
	EventPathMig:          "path migrated",
	EventPathMigErr:       "path migration request error",
	EventDeviceFatal:      "local catastrophic error",
	EventPortActive:       "port active",
	EventPortErr:          "port error",
	EventLIDChange:        "LID change",
	EventPKeyChange:       "P_Key change",
	EventSMChange:         "SM change",
	EventSRQErr:           "SRQ catastrophic error",
	EventSRQLimitReached:  "SRQ limit reached",
	EventQPLastWQEReached: "last WQE reached",
	EventClientReregister: "client reregistration",
	EventGIDChange:        "GID table change",

	EventDeviceSpeedChange: "Device link speed change",
}

// String is ibv_event_type_str.
func (t EventType) String() string { return name(eventNames, t, "unknown") }

// NodeType is enum ibv_node_type.
type NodeType uint8

// NodeCA is the type of every gorxe device: a channel adapter.
const NodeCA NodeType = 1

var nodeTypeNames = []string{
	1: "InfiniBand channel adapter",
	2: "InfiniBand switch",
	3: "InfiniBand router",
	4: "iWARP NIC",
	5: "usNIC",
	6: "usNIC UDP",
	7: "unspecified",
}

// String is ibv_node_type_str.
func (t NodeType) String() string { return name(nodeTypeNames, t, "unknown") }

var qpStateNames = []string{
	QPReset: "RESET", QPInit: "INIT", QPRTR: "RTR", QPRTS: "RTS",
	QPSQD: "SQD", QPSQE: "SQE", QPErr: "ERR",
}

func (s QPState) String() string { return name(qpStateNames, s, "UNKNOWN") }

var qpTypeNames = []string{QPRC: "RC", QPUC: "UC", QPUD: "UD", QPRaw: "RAW_PACKET", QPXRCIni: "XRC_INI", QPXRCTgt: "XRC_TGT"}

func (t QPType) String() string { return name(qpTypeNames, t, "UNKNOWN") }

var wrOpcodeNames = []string{
	WRWrite:       "RDMA_WRITE",
	WRWriteImm:    "RDMA_WRITE_WITH_IMM",
	WRSend:        "SEND",
	WRSendImm:     "SEND_WITH_IMM",
	WRRead:        "RDMA_READ",
	WRCompareSwap: "ATOMIC_CMP_AND_SWP",
	WRFetchAdd:    "ATOMIC_FETCH_AND_ADD",
	WRLocalInv:    "LOCAL_INV",
	WRBindMW:      "BIND_MW",
	WRSendInv:     "SEND_WITH_INV",
	WRNop:         "NOP",
	WRFlush:       "FLUSH",
	WRAtomicWrite: "ATOMIC_WRITE",
}

func (st WROpcode) String() string { return name(wrOpcodeNames, st, "UNKNOWN") }

var wcOpcodeNames = []string{
	WCSend:        "SEND",
	WCWrite:       "RDMA_WRITE",
	WCRead:        "RDMA_READ",
	WCCompareSwap: "COMP_SWAP",
	WCFetchAdd:    "FETCH_ADD",
	WCBindMW:      "BIND_MW",
	WCLocalInv:    "LOCAL_INV",
	WCFlush:       "FLUSH",
	WCAtomicWrite: "ATOMIC_WRITE",
	WCRecv:        "RECV",
	WCRecvImm:     "RECV_RDMA_WITH_IMM",
}

func (st WCOpcode) String() string { return name(wcOpcodeNames, st, "UNKNOWN") }

// String returns the MW type as the rdma tool prints it.
func (t MWType) String() string { return name([]string{1: "type 1", 2: "type 2"}, t, "unknown") }
