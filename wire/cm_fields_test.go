package wire

// cmField is a field of a message of the connection manager, in the place that IBA
// 12.6, 12.8 and 12.11 give it. Its first bit counts from the start of the datagram's
// data, and from the top of each byte.
type cmField struct {
	name       string
	bit, width int
	set        func(*MAD, uint64)
	get        func(*MAD) uint64
}

// cmFields has the fields of each message, apart from those that are bytes: GIDs,
// additional information, private data.
var cmFields = map[CMAttribute][]cmField{
	AttrREQ: {
		{"LocalCommID", 0 * 8, 32, func(m *MAD, v uint64) { CMREQ{m}.SetLocalCommID(uint32(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.LocalCommID()) }},
		{"VendorID", 5 * 8, 24, func(m *MAD, v uint64) { CMREQ{m}.SetVendorID(uint32(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.VendorID()) }},
		{"ServiceID", 8 * 8, 64, func(m *MAD, v uint64) { CMREQ{m}.SetServiceID(uint64(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.ServiceID()) }},
		{"CAGUID", 16 * 8, 64, func(m *MAD, v uint64) { CMREQ{m}.SetCAGUID(uint64(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.CAGUID()) }},
		{"QKey", 28 * 8, 32, func(m *MAD, v uint64) { CMREQ{m}.SetQKey(uint32(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.QKey()) }},
		{"QPN", 32 * 8, 24, func(m *MAD, v uint64) { CMREQ{m}.SetQPN(QPN(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.QPN()) }},
		{"ResponderResources", 35 * 8, 8, func(m *MAD, v uint64) { CMREQ{m}.SetResponderResources(uint8(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.ResponderResources()) }},
		{"InitiatorDepth", 39 * 8, 8, func(m *MAD, v uint64) { CMREQ{m}.SetInitiatorDepth(uint8(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.InitiatorDepth()) }},
		{"RemoteCMTimeout", 43 * 8, 5, func(m *MAD, v uint64) { CMREQ{m}.SetRemoteCMTimeout(uint8(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.RemoteCMTimeout()) }},
		{"TransportType", 43*8 + 5, 2, func(m *MAD, v uint64) { CMREQ{m}.SetTransportType(uint8(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.TransportType()) }},
		{"FlowControl", 43*8 + 7, 1, func(m *MAD, v uint64) { CMREQ{m}.SetFlowControl(v != 0) }, func(m *MAD) uint64 { return uint64(btoi(CMREQ{m}.FlowControl())) }},
		{"StartingPSN", 44 * 8, 24, func(m *MAD, v uint64) { CMREQ{m}.SetStartingPSN(PSN(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.StartingPSN()) }},
		{"LocalCMTimeout", 47 * 8, 5, func(m *MAD, v uint64) { CMREQ{m}.SetLocalCMTimeout(uint8(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.LocalCMTimeout()) }},
		{"RetryCount", 47*8 + 5, 3, func(m *MAD, v uint64) { CMREQ{m}.SetRetryCount(uint8(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.RetryCount()) }},
		{"PKey", 48 * 8, 16, func(m *MAD, v uint64) { CMREQ{m}.SetPKey(PKey(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.PKey()) }},
		{"PathMTU", 50 * 8, 4, func(m *MAD, v uint64) { CMREQ{m}.SetPathMTU(uint8(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.PathMTU()) }},
		{"RNRRetryCount", 50*8 + 5, 3, func(m *MAD, v uint64) { CMREQ{m}.SetRNRRetryCount(uint8(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.RNRRetryCount()) }},
		{"MaxCMRetries", 51 * 8, 4, func(m *MAD, v uint64) { CMREQ{m}.SetMaxCMRetries(uint8(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.MaxCMRetries()) }},
		{"SRQ", 51*8 + 4, 1, func(m *MAD, v uint64) { CMREQ{m}.SetSRQ(v != 0) }, func(m *MAD) uint64 { return uint64(btoi(CMREQ{m}.SRQ())) }},
		{"ExtendedTransportType", 51*8 + 5, 3, func(m *MAD, v uint64) { CMREQ{m}.SetExtendedTransportType(uint8(v)) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.ExtendedTransportType()) }},
		{"PrimaryPath.LocalLID", 52 * 8, 16, func(m *MAD, v uint64) {
			p := CMREQ{m}.PrimaryPath()
			p.LocalLID = uint16(v)
			CMREQ{m}.SetPrimaryPath(&p)
		}, func(m *MAD) uint64 { return uint64(CMREQ{m}.PrimaryPath().LocalLID) }},
		{"PrimaryPath.RemoteLID", 54 * 8, 16, func(m *MAD, v uint64) {
			p := CMREQ{m}.PrimaryPath()
			p.RemoteLID = uint16(v)
			CMREQ{m}.SetPrimaryPath(&p)
		}, func(m *MAD) uint64 { return uint64(CMREQ{m}.PrimaryPath().RemoteLID) }},
		{"PrimaryPath.FlowLabel", 88 * 8, 20, func(m *MAD, v uint64) {
			p := CMREQ{m}.PrimaryPath()
			p.FlowLabel = uint32(v)
			CMREQ{m}.SetPrimaryPath(&p)
		}, func(m *MAD) uint64 { return uint64(CMREQ{m}.PrimaryPath().FlowLabel) }},
		{"PrimaryPath.ServiceLevel", 94 * 8, 4, func(m *MAD, v uint64) {
			p := CMREQ{m}.PrimaryPath()
			p.ServiceLevel = uint8(v)
			CMREQ{m}.SetPrimaryPath(&p)
		}, func(m *MAD) uint64 { return uint64(CMREQ{m}.PrimaryPath().ServiceLevel) }},
		{"PrimaryPath.SubnetLocal", 94*8 + 4, 1, func(m *MAD, v uint64) {
			p := CMREQ{m}.PrimaryPath()
			p.SubnetLocal = v != 0
			CMREQ{m}.SetPrimaryPath(&p)
		}, func(m *MAD) uint64 { return uint64(btoi(CMREQ{m}.PrimaryPath().SubnetLocal)) }},
		{"PrimaryPath.LocalACKTimeout", 95 * 8, 5, func(m *MAD, v uint64) {
			p := CMREQ{m}.PrimaryPath()
			p.LocalACKTimeout = uint8(v)
			CMREQ{m}.SetPrimaryPath(&p)
		}, func(m *MAD) uint64 { return uint64(CMREQ{m}.PrimaryPath().LocalACKTimeout) }},
		{"PrimaryPath.Rate", 91*8 + 2, 6, func(m *MAD, v uint64) { p := CMREQ{m}.PrimaryPath(); p.Rate = uint8(v); CMREQ{m}.SetPrimaryPath(&p) }, func(m *MAD) uint64 { return uint64(CMREQ{m}.PrimaryPath().Rate) }},
		{"PrimaryPath.TrafficClass", 92 * 8, 8, func(m *MAD, v uint64) {
			p := CMREQ{m}.PrimaryPath()
			p.TrafficClass = uint8(v)
			CMREQ{m}.SetPrimaryPath(&p)
		}, func(m *MAD) uint64 { return uint64(CMREQ{m}.PrimaryPath().TrafficClass) }},
		{"PrimaryPath.HopLimit", 93 * 8, 8, func(m *MAD, v uint64) {
			p := CMREQ{m}.PrimaryPath()
			p.HopLimit = uint8(v)
			CMREQ{m}.SetPrimaryPath(&p)
		}, func(m *MAD) uint64 { return uint64(CMREQ{m}.PrimaryPath().HopLimit) }},
		{"AlternatePath.LocalLID", 96 * 8, 16, func(m *MAD, v uint64) {
			p := CMREQ{m}.AlternatePath()
			p.LocalLID = uint16(v)
			CMREQ{m}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(CMREQ{m}.AlternatePath().LocalLID) }},
		{"AlternatePath.RemoteLID", 98 * 8, 16, func(m *MAD, v uint64) {
			p := CMREQ{m}.AlternatePath()
			p.RemoteLID = uint16(v)
			CMREQ{m}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(CMREQ{m}.AlternatePath().RemoteLID) }},
		{"AlternatePath.FlowLabel", 132 * 8, 20, func(m *MAD, v uint64) {
			p := CMREQ{m}.AlternatePath()
			p.FlowLabel = uint32(v)
			CMREQ{m}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(CMREQ{m}.AlternatePath().FlowLabel) }},
		{"AlternatePath.ServiceLevel", 138 * 8, 4, func(m *MAD, v uint64) {
			p := CMREQ{m}.AlternatePath()
			p.ServiceLevel = uint8(v)
			CMREQ{m}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(CMREQ{m}.AlternatePath().ServiceLevel) }},
		{"AlternatePath.SubnetLocal", 138*8 + 4, 1, func(m *MAD, v uint64) {
			p := CMREQ{m}.AlternatePath()
			p.SubnetLocal = v != 0
			CMREQ{m}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(btoi(CMREQ{m}.AlternatePath().SubnetLocal)) }},
		{"AlternatePath.LocalACKTimeout", 139 * 8, 5, func(m *MAD, v uint64) {
			p := CMREQ{m}.AlternatePath()
			p.LocalACKTimeout = uint8(v)
			CMREQ{m}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(CMREQ{m}.AlternatePath().LocalACKTimeout) }},
		{"AlternatePath.Rate", 135*8 + 2, 6, func(m *MAD, v uint64) {
			p := CMREQ{m}.AlternatePath()
			p.Rate = uint8(v)
			CMREQ{m}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(CMREQ{m}.AlternatePath().Rate) }},
		{"AlternatePath.TrafficClass", 136 * 8, 8, func(m *MAD, v uint64) {
			p := CMREQ{m}.AlternatePath()
			p.TrafficClass = uint8(v)
			CMREQ{m}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(CMREQ{m}.AlternatePath().TrafficClass) }},
		{"AlternatePath.HopLimit", 137 * 8, 8, func(m *MAD, v uint64) {
			p := CMREQ{m}.AlternatePath()
			p.HopLimit = uint8(v)
			CMREQ{m}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(CMREQ{m}.AlternatePath().HopLimit) }},
	},
	AttrMRA: {
		{"LocalCommID", 0 * 8, 32, func(m *MAD, v uint64) { c := CMMRA{comms{m}}; c.SetCommIDs(uint32(v), c.RemoteCommID()) }, func(m *MAD) uint64 { return uint64(CMMRA{comms{m}}.LocalCommID()) }},
		{"RemoteCommID", 4 * 8, 32, func(m *MAD, v uint64) { c := CMMRA{comms{m}}; c.SetCommIDs(c.LocalCommID(), uint32(v)) }, func(m *MAD) uint64 { return uint64(CMMRA{comms{m}}.RemoteCommID()) }},
		{"MessageMRAed", 8 * 8, 2, func(m *MAD, v uint64) { CMMRA{comms{m}}.SetMessageMRAed(CMSubject(v)) }, func(m *MAD) uint64 { return uint64(CMMRA{comms{m}}.MessageMRAed()) }},
		{"ServiceTimeout", 9 * 8, 5, func(m *MAD, v uint64) { CMMRA{comms{m}}.SetServiceTimeout(uint8(v)) }, func(m *MAD) uint64 { return uint64(CMMRA{comms{m}}.ServiceTimeout()) }},
	},
	AttrREJ: {
		{"LocalCommID", 0 * 8, 32, func(m *MAD, v uint64) { c := CMREJ{comms{m}}; c.SetCommIDs(uint32(v), c.RemoteCommID()) }, func(m *MAD) uint64 { return uint64(CMREJ{comms{m}}.LocalCommID()) }},
		{"RemoteCommID", 4 * 8, 32, func(m *MAD, v uint64) { c := CMREJ{comms{m}}; c.SetCommIDs(c.LocalCommID(), uint32(v)) }, func(m *MAD) uint64 { return uint64(CMREJ{comms{m}}.RemoteCommID()) }},
		{"MessageRejected", 8 * 8, 2, func(m *MAD, v uint64) { CMREJ{comms{m}}.SetMessageRejected(CMSubject(v)) }, func(m *MAD) uint64 { return uint64(CMREJ{comms{m}}.MessageRejected()) }},
		{"Reason", 10 * 8, 16, func(m *MAD, v uint64) { CMREJ{comms{m}}.SetReason(CMReason(v)) }, func(m *MAD) uint64 { return uint64(CMREJ{comms{m}}.Reason()) }},
	},
	AttrREP: {
		{"LocalCommID", 0 * 8, 32, func(m *MAD, v uint64) { c := CMREP{comms{m}}; c.SetCommIDs(uint32(v), c.RemoteCommID()) }, func(m *MAD) uint64 { return uint64(CMREP{comms{m}}.LocalCommID()) }},
		{"RemoteCommID", 4 * 8, 32, func(m *MAD, v uint64) { c := CMREP{comms{m}}; c.SetCommIDs(c.LocalCommID(), uint32(v)) }, func(m *MAD) uint64 { return uint64(CMREP{comms{m}}.RemoteCommID()) }},
		{"QKey", 8 * 8, 32, func(m *MAD, v uint64) { CMREP{comms{m}}.SetQKey(uint32(v)) }, func(m *MAD) uint64 { return uint64(CMREP{comms{m}}.QKey()) }},
		{"QPN", 12 * 8, 24, func(m *MAD, v uint64) { CMREP{comms{m}}.SetQPN(QPN(v)) }, func(m *MAD) uint64 { return uint64(CMREP{comms{m}}.QPN()) }},
		{"XRCQPN", 16 * 8, 24, func(m *MAD, v uint64) { CMREP{comms{m}}.SetXRCQPN(QPN(v)) }, func(m *MAD) uint64 { return uint64(CMREP{comms{m}}.XRCQPN()) }},
		{"StartingPSN", 20 * 8, 24, func(m *MAD, v uint64) { CMREP{comms{m}}.SetStartingPSN(PSN(v)) }, func(m *MAD) uint64 { return uint64(CMREP{comms{m}}.StartingPSN()) }},
		{"ResponderResources", 24 * 8, 8, func(m *MAD, v uint64) { CMREP{comms{m}}.SetResponderResources(uint8(v)) }, func(m *MAD) uint64 { return uint64(CMREP{comms{m}}.ResponderResources()) }},
		{"InitiatorDepth", 25 * 8, 8, func(m *MAD, v uint64) { CMREP{comms{m}}.SetInitiatorDepth(uint8(v)) }, func(m *MAD) uint64 { return uint64(CMREP{comms{m}}.InitiatorDepth()) }},
		{"TargetACKDelay", 26 * 8, 5, func(m *MAD, v uint64) { CMREP{comms{m}}.SetTargetACKDelay(uint8(v)) }, func(m *MAD) uint64 { return uint64(CMREP{comms{m}}.TargetACKDelay()) }},
		{"Failover", 26*8 + 5, 2, func(m *MAD, v uint64) { CMREP{comms{m}}.SetFailover(uint8(v)) }, func(m *MAD) uint64 { return uint64(CMREP{comms{m}}.Failover()) }},
		{"FlowControl", 26*8 + 7, 1, func(m *MAD, v uint64) { CMREP{comms{m}}.SetFlowControl(v != 0) }, func(m *MAD) uint64 { return uint64(btoi(CMREP{comms{m}}.FlowControl())) }},
		{"RNRRetryCount", 27 * 8, 3, func(m *MAD, v uint64) { CMREP{comms{m}}.SetRNRRetryCount(uint8(v)) }, func(m *MAD) uint64 { return uint64(CMREP{comms{m}}.RNRRetryCount()) }},
		{"SRQ", 27*8 + 3, 1, func(m *MAD, v uint64) { CMREP{comms{m}}.SetSRQ(v != 0) }, func(m *MAD) uint64 { return uint64(btoi(CMREP{comms{m}}.SRQ())) }},
		{"CAGUID", 28 * 8, 64, func(m *MAD, v uint64) { CMREP{comms{m}}.SetCAGUID(uint64(v)) }, func(m *MAD) uint64 { return uint64(CMREP{comms{m}}.CAGUID()) }},
	},
	AttrRTU: {
		{"LocalCommID", 0 * 8, 32, func(m *MAD, v uint64) { c := CMRTU{comms{m}}; c.SetCommIDs(uint32(v), c.RemoteCommID()) }, func(m *MAD) uint64 { return uint64(CMRTU{comms{m}}.LocalCommID()) }},
		{"RemoteCommID", 4 * 8, 32, func(m *MAD, v uint64) { c := CMRTU{comms{m}}; c.SetCommIDs(c.LocalCommID(), uint32(v)) }, func(m *MAD) uint64 { return uint64(CMRTU{comms{m}}.RemoteCommID()) }},
	},
	AttrDREQ: {
		{"LocalCommID", 0 * 8, 32, func(m *MAD, v uint64) { c := CMDREQ{comms{m}}; c.SetCommIDs(uint32(v), c.RemoteCommID()) }, func(m *MAD) uint64 { return uint64(CMDREQ{comms{m}}.LocalCommID()) }},
		{"RemoteCommID", 4 * 8, 32, func(m *MAD, v uint64) { c := CMDREQ{comms{m}}; c.SetCommIDs(c.LocalCommID(), uint32(v)) }, func(m *MAD) uint64 { return uint64(CMDREQ{comms{m}}.RemoteCommID()) }},
		{"RemoteQPN", 8 * 8, 24, func(m *MAD, v uint64) { CMDREQ{comms{m}}.SetRemoteQPN(QPN(v)) }, func(m *MAD) uint64 { return uint64(CMDREQ{comms{m}}.RemoteQPN()) }},
	},
	AttrDREP: {
		{"LocalCommID", 0 * 8, 32, func(m *MAD, v uint64) { c := CMDREP{comms{m}}; c.SetCommIDs(uint32(v), c.RemoteCommID()) }, func(m *MAD) uint64 { return uint64(CMDREP{comms{m}}.LocalCommID()) }},
		{"RemoteCommID", 4 * 8, 32, func(m *MAD, v uint64) { c := CMDREP{comms{m}}; c.SetCommIDs(c.LocalCommID(), uint32(v)) }, func(m *MAD) uint64 { return uint64(CMDREP{comms{m}}.RemoteCommID()) }},
	},
	AttrLAP: {
		{"LocalCommID", 0 * 8, 32, func(m *MAD, v uint64) { c := CMLAP{comms{m}}; c.SetCommIDs(uint32(v), c.RemoteCommID()) }, func(m *MAD) uint64 { return uint64(CMLAP{comms{m}}.LocalCommID()) }},
		{"RemoteCommID", 4 * 8, 32, func(m *MAD, v uint64) { c := CMLAP{comms{m}}; c.SetCommIDs(c.LocalCommID(), uint32(v)) }, func(m *MAD) uint64 { return uint64(CMLAP{comms{m}}.RemoteCommID()) }},
		{"RemoteQPN", 12 * 8, 24, func(m *MAD, v uint64) { CMLAP{comms{m}}.SetRemoteQPN(QPN(v)) }, func(m *MAD) uint64 { return uint64(CMLAP{comms{m}}.RemoteQPN()) }},
		{"RemoteCMTimeout", 15 * 8, 5, func(m *MAD, v uint64) { CMLAP{comms{m}}.SetRemoteCMTimeout(uint8(v)) }, func(m *MAD) uint64 { return uint64(CMLAP{comms{m}}.RemoteCMTimeout()) }},
		{"AlternatePath.LocalLID", 20 * 8, 16, func(m *MAD, v uint64) {
			p := CMLAP{comms{m}}.AlternatePath()
			p.LocalLID = uint16(v)
			CMLAP{comms{m}}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(CMLAP{comms{m}}.AlternatePath().LocalLID) }},
		{"AlternatePath.RemoteLID", 22 * 8, 16, func(m *MAD, v uint64) {
			p := CMLAP{comms{m}}.AlternatePath()
			p.RemoteLID = uint16(v)
			CMLAP{comms{m}}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(CMLAP{comms{m}}.AlternatePath().RemoteLID) }},
		{"AlternatePath.FlowLabel", 56 * 8, 20, func(m *MAD, v uint64) {
			p := CMLAP{comms{m}}.AlternatePath()
			p.FlowLabel = uint32(v)
			CMLAP{comms{m}}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(CMLAP{comms{m}}.AlternatePath().FlowLabel) }},
		{"AlternatePath.ServiceLevel", 62 * 8, 4, func(m *MAD, v uint64) {
			p := CMLAP{comms{m}}.AlternatePath()
			p.ServiceLevel = uint8(v)
			CMLAP{comms{m}}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(CMLAP{comms{m}}.AlternatePath().ServiceLevel) }},
		{"AlternatePath.SubnetLocal", 62*8 + 4, 1, func(m *MAD, v uint64) {
			p := CMLAP{comms{m}}.AlternatePath()
			p.SubnetLocal = v != 0
			CMLAP{comms{m}}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(btoi(CMLAP{comms{m}}.AlternatePath().SubnetLocal)) }},
		{"AlternatePath.LocalACKTimeout", 63 * 8, 5, func(m *MAD, v uint64) {
			p := CMLAP{comms{m}}.AlternatePath()
			p.LocalACKTimeout = uint8(v)
			CMLAP{comms{m}}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(CMLAP{comms{m}}.AlternatePath().LocalACKTimeout) }},
		{"AlternatePath.TrafficClass", 59 * 8, 8, func(m *MAD, v uint64) {
			p := CMLAP{comms{m}}.AlternatePath()
			p.TrafficClass = uint8(v)
			CMLAP{comms{m}}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(CMLAP{comms{m}}.AlternatePath().TrafficClass) }},
		{"AlternatePath.HopLimit", 60 * 8, 8, func(m *MAD, v uint64) {
			p := CMLAP{comms{m}}.AlternatePath()
			p.HopLimit = uint8(v)
			CMLAP{comms{m}}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(CMLAP{comms{m}}.AlternatePath().HopLimit) }},
		{"AlternatePath.Rate", 61*8 + 2, 6, func(m *MAD, v uint64) {
			p := CMLAP{comms{m}}.AlternatePath()
			p.Rate = uint8(v)
			CMLAP{comms{m}}.SetAlternatePath(&p)
		}, func(m *MAD) uint64 { return uint64(CMLAP{comms{m}}.AlternatePath().Rate) }},
	},
	AttrAPR: {
		{"LocalCommID", 0 * 8, 32, func(m *MAD, v uint64) { c := CMAPR{comms{m}}; c.SetCommIDs(uint32(v), c.RemoteCommID()) }, func(m *MAD) uint64 { return uint64(CMAPR{comms{m}}.LocalCommID()) }},
		{"RemoteCommID", 4 * 8, 32, func(m *MAD, v uint64) { c := CMAPR{comms{m}}; c.SetCommIDs(c.LocalCommID(), uint32(v)) }, func(m *MAD) uint64 { return uint64(CMAPR{comms{m}}.RemoteCommID()) }},
		{"Status", 9 * 8, 8, func(m *MAD, v uint64) { CMAPR{comms{m}}.SetStatus(APRStatus(v)) }, func(m *MAD) uint64 { return uint64(CMAPR{comms{m}}.Status()) }},
	},
	AttrSIDRREQ: {
		{"RequestID", 0 * 8, 32, func(m *MAD, v uint64) { CMSIDRREQ{m}.SetRequestID(uint32(v)) }, func(m *MAD) uint64 { return uint64(CMSIDRREQ{m}.RequestID()) }},
		{"PKey", 4 * 8, 16, func(m *MAD, v uint64) { CMSIDRREQ{m}.SetPKey(PKey(v)) }, func(m *MAD) uint64 { return uint64(CMSIDRREQ{m}.PKey()) }},
		{"ServiceID", 8 * 8, 64, func(m *MAD, v uint64) { CMSIDRREQ{m}.SetServiceID(uint64(v)) }, func(m *MAD) uint64 { return uint64(CMSIDRREQ{m}.ServiceID()) }},
	},
	AttrSIDRREP: {
		{"RequestID", 0 * 8, 32, func(m *MAD, v uint64) { CMSIDRREP{m}.SetRequestID(uint32(v)) }, func(m *MAD) uint64 { return uint64(CMSIDRREP{m}.RequestID()) }},
		{"Status", 4 * 8, 8, func(m *MAD, v uint64) { CMSIDRREP{m}.SetStatus(SIDRStatus(v)) }, func(m *MAD) uint64 { return uint64(CMSIDRREP{m}.Status()) }},
		{"QPN", 8 * 8, 24, func(m *MAD, v uint64) { CMSIDRREP{m}.SetQPN(QPN(v)) }, func(m *MAD) uint64 { return uint64(CMSIDRREP{m}.QPN()) }},
		{"ServiceID", 12 * 8, 64, func(m *MAD, v uint64) { CMSIDRREP{m}.SetServiceID(uint64(v)) }, func(m *MAD) uint64 { return uint64(CMSIDRREP{m}.ServiceID()) }},
		{"QKey", 20 * 8, 32, func(m *MAD, v uint64) { CMSIDRREP{m}.SetQKey(uint32(v)) }, func(m *MAD) uint64 { return uint64(CMSIDRREP{m}.QKey()) }},
	},
}
