package ladder

import (
	"fmt"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// mad returns the management datagram of a packet to queue pair 1, nil if it has none.
func (r *Row) mad() *wire.MAD {
	if !r.parsed || r.pkt.DestQP() != wire.GSIQPN || !r.pkt.Info().Has(wire.HasDETH) || r.Payload != wire.MADLen {
		return nil
	}
	m, err := wire.ParseMAD(r.sample)
	if err != nil {
		return nil
	}
	return m
}

// Management says what a datagram to queue pair 1 means; empty: the packet is none.
func Management(p *capture.Packet, v *conformance.Verdict) string {
	var r Row
	if r.set(p, v); r.mad() == nil {
		return ""
	}
	return printable(madWords(r.mad()))
}

// madWords describes a management datagram in the usual terms.
func madWords(m *wire.MAD) string {
	if cm, err := wire.ParseCM(m[:]); err == nil {
		return "CM " + cm.String()
	}
	return m.String()
}

// madHeaders returns the fields of a management datagram.
func madHeaders(m *wire.MAD) []Header {
	v := m.Header()
	h := Header{Name: "MAD"}
	h.add("class", "%#02x %v", uint8(v.Class), v.Class)
	h.add("class version", "%d", v.ClassVersion)
	h.add("method", "%v", v.Method)
	h.add("status", "%#04x", v.Status)
	h.add("TID", "%#016x", v.TID)
	h.add("attribute", "%#04x", v.Attribute)
	h.add("modifier", "%#08x", v.Modifier)
	cm, err := wire.ParseCM(m[:])
	if err != nil {
		return []Header{h}
	}
	return append([]Header{h}, cmHeaders(cm)...)
}

// cmHeaders returns the fields of a message of the connection manager.
func cmHeaders(m wire.CMMessage) []Header {
	h := Header{Name: "CM " + m.CMAttribute().String()}
	var more []Header
	switch m := m.(type) {
	case wire.CMREQ:
		more = reqFields(&h, m)
	case wire.CMREP:
		h.commIDs(m)
		h.add("queue pair", "0x%06x", uint32(m.QPN()))
		h.add("XRC target, or end-to-end context", "0x%06x", uint32(m.XRCQPN()))
		h.add("starting PSN", "0x%06x", uint32(m.StartingPSN()))
		h.add("responder resources", "%d", m.ResponderResources())
		h.add("initiator depth", "%d", m.InitiatorDepth())
		h.add("target ACK delay", "%d", m.TargetACKDelay())
		h.add("failover accepted", "%d", m.Failover())
		h.add("flow control", "%v", m.FlowControl())
		h.add("RNR retries", "%d", m.RNRRetryCount())
		h.add("shared receive queue", "%v", m.SRQ())
		h.add("CA GUID", "%016x", m.CAGUID())
	case wire.CMMRA:
		h.commIDs(m)
		h.add("received", "%v", m.MessageMRAed())
		h.add("service timeout", "%d", m.ServiceTimeout())
	case wire.CMREJ:
		h.commIDs(m)
		h.add("rejected", "%v", m.MessageRejected())
		h.add("reason", "%d %v", uint16(m.Reason()), m.Reason())
		h.add("additional information", "%d B % x", len(m.Info()), m.Info())
	case wire.CMRTU:
		h.commIDs(m)
	case wire.CMDREQ:
		h.commIDs(m)
		h.add("queue pair of the receiver", "0x%06x", uint32(m.RemoteQPN()))
	case wire.CMDREP:
		h.commIDs(m)
	case wire.CMSIDRREQ:
		h.add("request ID", "0x%08x", m.RequestID())
		h.add("P_Key", "%#04x", uint16(m.PKey()))
		h.service(m.ServiceID())
		more = ipFields(m.ServiceID(), m.PrivateData())
	case wire.CMSIDRREP:
		h.add("request ID", "0x%08x", m.RequestID())
		h.add("status", "%d %v", uint8(m.Status()), m.Status())
		h.add("queue pair", "0x%06x", uint32(m.QPN()))
		h.add("Q_Key", "%#08x", m.QKey())
		h.service(m.ServiceID())
	case wire.CMLAP:
		h.commIDs(m)
		h.add("queue pair of the receiver", "0x%06x", uint32(m.RemoteQPN()))
		p := m.AlternatePath()
		h.path("alternate", &p)
	case wire.CMAPR:
		h.commIDs(m)
		h.add("status", "%d %v", uint8(m.Status()), m.Status())
	}
	private := Header{Name: "Private data"}
	private.add("length", "%d B", len(m.PrivateData()))
	private.add("bytes", "%s", hexWithoutZeros(m.PrivateData()))
	return append(append([]Header{h}, more...), private)
}

func reqFields(h *Header, m wire.CMREQ) []Header {
	h.add("local communication ID", "0x%08x", m.LocalCommID())
	h.service(m.ServiceID())
	h.add("CA GUID", "%016x", m.CAGUID())
	h.add("queue pair", "0x%06x", uint32(m.QPN()))
	h.add("starting PSN", "0x%06x", uint32(m.StartingPSN()))
	h.add("transport", "%d", m.TransportType())
	h.add("responder resources", "%d", m.ResponderResources())
	h.add("initiator depth", "%d", m.InitiatorDepth())
	h.add("remote CM timeout", "%d", m.RemoteCMTimeout())
	h.add("local CM timeout", "%d", m.LocalCMTimeout())
	h.add("CM retries", "%d", m.MaxCMRetries())
	h.add("retries", "%d", m.RetryCount())
	h.add("RNR retries", "%d", m.RNRRetryCount())
	h.add("flow control", "%v", m.FlowControl())
	h.add("shared receive queue", "%v", m.SRQ())
	h.add("path MTU", "%d B", 128<<m.PathMTU())
	h.add("P_Key", "%#04x", uint16(m.PKey()))
	p := m.PrimaryPath()
	h.path("primary", &p)
	return ipFields(m.ServiceID(), m.PrivateData())
}

// commIDs adds the identifiers of a connection.
func (h *Header) commIDs(m interface {
	LocalCommID() uint32
	RemoteCommID() uint32
}) {
	h.add("local communication ID", "0x%08x", m.LocalCommID())
	h.add("remote communication ID", "0x%08x", m.RemoteCommID())
}

// service adds a service ID, and the port that it names.
func (h *Header) service(id uint64) {
	port := ""
	if ps, n, ok := wire.SplitServiceID(id); ok {
		port = fmt.Sprintf(" (port space %#04x, port %d)", uint16(ps), n)
	}
	h.add("service ID", "0x%016x%s", id, port)
}

func (h *Header) path(name string, p *wire.CMPath) {
	h.add(name+" local GID", "%v", p.LocalGID.Addr())
	h.add(name+" remote GID", "%v", p.RemoteGID.Addr())
	h.add(name+" traffic class", "%d", p.TrafficClass)
	h.add(name+" flow label", "%#05x", p.FlowLabel)
	h.add(name+" hop limit", "%d", p.HopLimit)
	h.add(name+" local ACK timeout", "%d", p.LocalACKTimeout)
}

// ipFields returns the header of the RDMA IP CM service, if the service ID names a port.
func ipFields(service uint64, private []byte) []Header {
	if _, _, ok := wire.SplitServiceID(service); !ok {
		return nil
	}
	v, err := wire.ParseIPCM(private)
	if err != nil {
		return nil
	}
	h := Header{Name: "RDMA IP CM"}
	h.add("source", "%v", v.Src)
	h.add("source port", "%d", v.SrcPort)
	h.add("destination", "%v", v.Dst)
	return []Header{h}
}

// hexWithoutZeros returns bytes up to the last one that is not zero: private data has a
// fixed length.
func hexWithoutZeros(b []byte) string {
	n := len(b)
	for n > 0 && b[n-1] == 0 {
		n--
	}
	switch {
	case n == 0:
		return "all zero"
	case n < len(b):
		return fmt.Sprintf("% x, then zeros", b[:n])
	}
	return fmt.Sprintf("% x", b)
}
