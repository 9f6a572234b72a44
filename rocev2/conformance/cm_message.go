package conformance

import (
	"errors"
	"fmt"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// management judges a datagram to QP1 by itself. It returns the connection manager's
// message in it, nil if there is none.
func (c *Checker) management(s *subject, f *Flow) wire.CMMessage {
	b := s.pkt.Payload()
	mad, err := wire.ParseMAD(b)
	switch {
	case errors.Is(err, wire.ErrMADLength) && s.Kind == capture.RoCEv2:
		c.report(s, f, ruleMAD, fmt.Sprintf("%d bytes", wire.MADLen), bytesSeen(len(b)))
		return nil
	case errors.Is(err, wire.ErrMADVersion) && s.Kind == capture.RoCEv2:
		c.report(s, f, ruleMAD, "base version 1", fmt.Sprint(b[0]))
		return nil
	case err != nil || mad.Class() != wire.MADClassCM:
		return nil
	}
	const classPortInfo = 0x0001 // which any class may be asked for
	if mad.Attribute() == classPortInfo {
		return nil
	}
	m, err := wire.ParseCM(b)
	switch {
	case errors.Is(err, wire.ErrCMClass):
		c.report(s, f, ruleMAD, "class version 2", fmt.Sprint(mad.Header().ClassVersion))
		return nil
	case err != nil:
		c.report(s, f, ruleMAD, "a message of the connection manager", wire.CMAttribute(mad.Attribute()).String())
		return nil
	case mad.Method() != wire.MADSend:
		c.report(s, f, ruleMAD, "method Send", mad.Method().String())
	}
	c.message(s, f, m)
	return m
}

// Offsets in the data of a message, and bounds, that package wire does not have because its
// getters cannot fail.
const (
	cmInfoMax = 72 // bytes of additional information

	rejInfoLen  = 9 // its upper 7 bits
	sidrInfoLen = 5
	aprInfoLen  = 8
)

// message judges what a message of the connection manager says by itself.
func (c *Checker) message(s *subject, f *Flow, m wire.CMMessage) {
	data := s.pkt.Payload()[wire.MADHeaderLen:]
	switch m := m.(type) {
	case wire.CMREQ:
		c.addresses(s, f, m.ServiceID(), m.PrivateData())
	case wire.CMSIDRREQ:
		c.addresses(s, f, m.ServiceID(), m.PrivateData())
	case wire.CMREJ:
		c.information(s, f, data[rejInfoLen]>>1)
		if r := m.Reason(); !definedReason(r) {
			c.report(s, f, ruleCMStatus, "a defined reason", r.String())
		}
		if r := m.MessageRejected(); r > wire.CMSubjectOther {
			c.report(s, f, ruleCMStatus, "the message that is rejected: 0 to 2", fmt.Sprint(uint8(r)))
		}
	case wire.CMMRA:
		if r := m.MessageMRAed(); r > wire.CMSubjectOther {
			c.report(s, f, ruleCMStatus, "the message that was received: 0 to 2", fmt.Sprint(uint8(r)))
		}
	case wire.CMSIDRREP:
		c.information(s, f, data[sidrInfoLen])
		if v := m.Status(); v > wire.SIDRVersion {
			c.report(s, f, ruleCMStatus, "a defined status", v.String())
		}
	case wire.CMAPR:
		c.information(s, f, data[aprInfoLen])
	}
}

// definedReason reports whether IBA 12.6.7.2 and the errata define a reason.
func definedReason(r wire.CMReason) bool { return r >= 1 && r <= 33 || r == wire.RejectVendorOption }

// information judges the length of the additional information.
func (c *Checker) information(s *subject, f *Flow, n uint8) {
	if n > cmInfoMax {
		c.report(s, f, ruleCMLength, "at most 72 bytes of additional information", bytesSeen(int(n)))
	}
}

// addresses judges the header that the RDMA IP CM service puts before private data.
func (c *Checker) addresses(s *subject, f *Flow, service uint64, private []byte) {
	const ipService = 0x01 // the byte before the protocol and the port (IBA A11.2.1)
	if service>>24 != ipService {
		return
	}
	h, err := wire.ParseIPCM(private)
	switch {
	case err != nil:
		c.report(s, f, ruleCMAddress, "a header of version 0, for IPv4 or IPv6", fmt.Sprintf("% x", private[:4]))
	case h.Src.IsMulticast() || h.Src.IsUnspecified() || h.Dst.IsMulticast() || h.Dst.IsUnspecified():
		c.report(s, f, ruleCMAddress, "addresses of two hosts", fmt.Sprintf("%v and %v", h.Src, h.Dst))
	}
}
