package wire

import (
	"errors"
	"fmt"
)

// The messages of the connection manager (IBA 12.6) are management datagrams from
// queue pair 1 to queue pair 1. Each has a type here, which is a view of the datagram
// with a getter and a setter for each field. A setter keeps the low bits that fit.
//
// Offsets count from the data of the datagram, as in the tables of IBA 12.6. "Local"
// means the sender of the message and "remote" its receiver.

// CMAttribute is the attribute of a MAD of the connection manager: which message it is.
type CMAttribute uint16

// The messages of the connection manager (IBA 16.7.2).
const (
	AttrREQ     CMAttribute = 0x10 // request for communication
	AttrMRA     CMAttribute = 0x11 // message receipt acknowledgement
	AttrREJ     CMAttribute = 0x12 // reject
	AttrREP     CMAttribute = 0x13 // reply
	AttrRTU     CMAttribute = 0x14 // ready to use
	AttrDREQ    CMAttribute = 0x15 // disconnection request
	AttrDREP    CMAttribute = 0x16 // disconnection reply
	AttrSIDRREQ CMAttribute = 0x17 // service ID resolution request
	AttrSIDRREP CMAttribute = 0x18 // service ID resolution reply
	AttrLAP     CMAttribute = 0x19 // load alternate path
	AttrAPR     CMAttribute = 0x1a // alternate path response
)

var cmNames = map[CMAttribute]string{
	AttrREQ: "REQ", AttrMRA: "MRA", AttrREJ: "REJ", AttrREP: "REP", AttrRTU: "RTU", AttrDREQ: "DREQ", AttrDREP: "DREP",
	AttrSIDRREQ: "SIDR_REQ", AttrSIDRREP: "SIDR_REP", AttrLAP: "LAP", AttrAPR: "APR",
}

func (a CMAttribute) String() string {
	if name := cmNames[a]; name != "" {
		return name
	}
	return fmt.Sprintf("attribute 0x%04x", uint16(a))
}

const cmClassVersion = 2

// Why ParseCM refuses a datagram, besides the errors of ParseMAD.
var (
	ErrCMClass     = errors.New("wire: management datagram is not of version 2 of the connection manager's class")
	ErrCMAttribute = errors.New("wire: unknown message of the connection manager")
)

// CMMessage is a message of the connection manager: one of CMREQ, CMMRA, CMREJ, CMREP,
// CMRTU, CMDREQ, CMDREP, CMSIDRREQ, CMSIDRREP, CMLAP and CMAPR.
type CMMessage interface {
	fmt.Stringer
	// CMAttribute says which message it is.
	CMAttribute() CMAttribute
	// TID is the transaction identifier.
	TID() uint64
	// PrivateData is the consumers' part of the message, in place. Its length is
	// fixed: unused bytes at its end are zero.
	PrivateData() []byte
}

// ParseCM returns a view of the message in the management datagram b. The method is
// not checked, because all messages have the same. The error is that of ParseMAD,
// ErrCMClass or ErrCMAttribute.
func ParseCM(b []byte) (CMMessage, error) {
	m, err := ParseMAD(b)
	if err != nil {
		return nil, err
	}
	if m.Class() != MADClassCM || m[madOffClassVersion] != cmClassVersion {
		return nil, ErrCMClass
	}
	switch CMAttribute(m.Attribute()) {
	case AttrREQ:
		return CMREQ{m}, nil
	case AttrMRA:
		return CMMRA{comms{m}}, nil
	case AttrREJ:
		return CMREJ{comms{m}}, nil
	case AttrREP:
		return CMREP{comms{m}}, nil
	case AttrRTU:
		return CMRTU{comms{m}}, nil
	case AttrDREQ:
		return CMDREQ{comms{m}}, nil
	case AttrDREP:
		return CMDREP{comms{m}}, nil
	case AttrSIDRREQ:
		return CMSIDRREQ{m}, nil
	case AttrSIDRREP:
		return CMSIDRREP{m}, nil
	case AttrLAP:
		return CMLAP{comms{m}}, nil
	case AttrAPR:
		return CMAPR{comms{m}}, nil
	}
	return nil, ErrCMAttribute
}

// The Init methods clear the datagram, write the header of a message, and return the
// view whose setters write the rest.

// InitREQ makes the datagram a REQ.
func (m *MAD) InitREQ(tid uint64) CMREQ {
	m.initCM(AttrREQ, tid)
	return CMREQ{m}
}

// InitMRA makes the datagram an MRA.
func (m *MAD) InitMRA(tid uint64) CMMRA {
	m.initCM(AttrMRA, tid)
	return CMMRA{comms{m}}
}

// InitREJ makes the datagram a REJ.
func (m *MAD) InitREJ(tid uint64) CMREJ {
	m.initCM(AttrREJ, tid)
	return CMREJ{comms{m}}
}

// InitREP makes the datagram a REP.
func (m *MAD) InitREP(tid uint64) CMREP {
	m.initCM(AttrREP, tid)
	return CMREP{comms{m}}
}

// InitRTU makes the datagram an RTU.
func (m *MAD) InitRTU(tid uint64) CMRTU {
	m.initCM(AttrRTU, tid)
	return CMRTU{comms{m}}
}

// InitDREQ makes the datagram a DREQ.
func (m *MAD) InitDREQ(tid uint64) CMDREQ {
	m.initCM(AttrDREQ, tid)
	return CMDREQ{comms{m}}
}

// InitDREP makes the datagram a DREP.
func (m *MAD) InitDREP(tid uint64) CMDREP {
	m.initCM(AttrDREP, tid)
	return CMDREP{comms{m}}
}

// InitSIDRREQ makes the datagram a SIDR_REQ.
func (m *MAD) InitSIDRREQ(tid uint64) CMSIDRREQ {
	m.initCM(AttrSIDRREQ, tid)
	return CMSIDRREQ{m}
}

// InitSIDRREP makes the datagram a SIDR_REP.
func (m *MAD) InitSIDRREP(tid uint64) CMSIDRREP {
	m.initCM(AttrSIDRREP, tid)
	return CMSIDRREP{m}
}

// InitLAP makes the datagram a LAP.
func (m *MAD) InitLAP(tid uint64) CMLAP {
	m.initCM(AttrLAP, tid)
	return CMLAP{comms{m}}
}

// InitAPR makes the datagram an APR.
func (m *MAD) InitAPR(tid uint64) CMAPR {
	m.initCM(AttrAPR, tid)
	return CMAPR{comms{m}}
}

func (m *MAD) initCM(a CMAttribute, tid uint64) {
	m.Init(&MADHeader{Class: MADClassCM, ClassVersion: cmClassVersion, Method: MADSend, TID: tid, Attribute: uint16(a)})
}

// PortSpace is the part of a service ID that the RDMA IP CM service assigns
// (IBA A11.2.1). TCP connects RC queue pairs, UDP resolves UD queue pairs.
type PortSpace uint16

// The port spaces of Linux's rdma_cm (rdma_user_cm.h).
const (
	PortSpaceIPoIB PortSpace = 0x0002
	PortSpaceTCP   PortSpace = 0x0106
	PortSpaceUDP   PortSpace = 0x0111
	PortSpaceIB    PortSpace = 0x013f
)

// ServiceID returns the service ID of a port.
func ServiceID(ps PortSpace, port uint16) uint64 { return uint64(ps)<<16 | uint64(port) }

// SplitServiceID returns the port space and port of a service ID; ok is false if the
// ID is not one of the RDMA IP CM service.
func SplitServiceID(id uint64) (ps PortSpace, port uint16, ok bool) {
	return PortSpace(id >> 16), uint16(id), id>>32 == 0
}

// comms is the start of most messages: the identifiers of the connection that the two
// connection managers chose.
type comms struct{ *MAD }

const (
	cmLocalCommID  = 0
	cmRemoteCommID = 4
)

// LocalCommID returns the sender's identifier of the connection.
func (m comms) LocalCommID() uint32 { return m.u32(cmLocalCommID) }

// RemoteCommID returns the receiver's identifier of the connection.
func (m comms) RemoteCommID() uint32 { return m.u32(cmRemoteCommID) }

// CMReceiver returns the identifier that the receiver of a message chose for its
// connection, or for its service ID request. ok is false if the message has none: a REQ, a
// SIDR_REQ, a REJ of a sender that does not know it, and what is no message.
func CMReceiver(m *MAD) (id uint32, ok bool) {
	msg, err := ParseCM(m[:])
	if err != nil || m.Method() != MADSend {
		return 0, false
	}
	switch msg := msg.(type) {
	case CMREQ, CMSIDRREQ:
		return 0, false
	case CMSIDRREP:
		id = msg.RequestID()
	default:
		id = m.u32(cmRemoteCommID)
	}
	return id, id != 0
}

// SetCommIDs sets both identifiers.
func (m comms) SetCommIDs(local, remote uint32) {
	m.put32(cmLocalCommID, local)
	m.put32(cmRemoteCommID, remote)
}

// data returns n bytes of the datagram's data.
func (m *MAD) data(off, n int) []byte {
	return m[MADHeaderLen+off : MADHeaderLen+off+n : MADHeaderLen+off+n]
}
