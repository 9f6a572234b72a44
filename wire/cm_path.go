package wire

import "fmt"

// The messages that move a connection to another path.

// Lengths of the private data.
const (
	CMLAPPrivateLen = 168
	CMAPRPrivateLen = 148
)

// CMLAP asks the other side to load an alternate path (IBA 12.8.1).
type CMLAP struct{ comms }

// Offsets of the fields of a LAP.
const (
	lapRemoteQPN     = 12 // 24 bits
	lapTimeoutByte   = 15
	lapAlternatePath = 20
	lapPrivateData   = 64
)

var lapRemoteTimeout = bitField{3, 5} // of byte 15

// CMAttribute returns AttrLAP.
func (CMLAP) CMAttribute() CMAttribute { return AttrLAP }

// RemoteQPN returns the receiver's queue pair.
func (m CMLAP) RemoteQPN() QPN     { return QPN(m.u24(lapRemoteQPN)) }
func (m CMLAP) SetRemoteQPN(v QPN) { m.put24(lapRemoteQPN, uint32(v)) }

// RemoteCMTimeout returns within what time the receiver must answer: 4.096 µs times
// 2 to this power.
func (m CMLAP) RemoteCMTimeout() uint8     { return m.bits(lapTimeoutByte, lapRemoteTimeout) }
func (m CMLAP) SetRemoteCMTimeout(v uint8) { m.putBits(lapTimeoutByte, lapRemoteTimeout, v) }

// AlternatePath returns the path.
func (m CMLAP) AlternatePath() CMPath      { return m.path(lapAlternatePath, &lapPathLayout) }
func (m CMLAP) SetAlternatePath(p *CMPath) { m.putPath(lapAlternatePath, &lapPathLayout, p) }

// PrivateData returns the consumer's part.
func (m CMLAP) PrivateData() []byte { return m.data(lapPrivateData, CMLAPPrivateLen) }

func (m CMLAP) String() string {
	return fmt.Sprintf("LAP id 0x%08x for 0x%08x QP 0x%06x", m.LocalCommID(), m.RemoteCommID(), m.RemoteQPN())
}

// CMAPR is the alternate path response (IBA 12.8.2).
type CMAPR struct{ comms }

// Offsets of the fields of an APR.
const (
	aprInfoLength  = 8 // 8 bits
	aprStatus      = 9 // 8 bits
	aprInfo        = 12
	aprPrivateData = 84
)

// CMAttribute returns AttrAPR.
func (CMAPR) CMAttribute() CMAttribute { return AttrAPR }

// Status returns whether the path was loaded.
func (m CMAPR) Status() APRStatus     { return APRStatus(m.u8(aprStatus)) }
func (m CMAPR) SetStatus(v APRStatus) { m.put8(aprStatus, uint8(v)) }

// Info returns the additional information: what the sender would accept.
func (m CMAPR) Info() []byte { return m.data(aprInfo, min(int(m.u8(aprInfoLength)), cmInfoLen)) }

// SetInfo sets the additional information, of which it keeps 72 bytes at most.
func (m CMAPR) SetInfo(info []byte) { m.put8(aprInfoLength, m.putInfo(aprInfo, info)) }

// PrivateData returns the consumer's part.
func (m CMAPR) PrivateData() []byte { return m.data(aprPrivateData, CMAPRPrivateLen) }

func (m CMAPR) String() string {
	return fmt.Sprintf("APR id 0x%08x for 0x%08x: %v", m.LocalCommID(), m.RemoteCommID(), m.Status())
}
