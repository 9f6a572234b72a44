package nldev

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// message is a view of a netlink message: struct nlmsghdr and what follows it. nextMessage has
// checked its length.
type message []byte

func (m message) length() uint32 { return binary.NativeEndian.Uint32(m) }
func (m message) typ() uint16    { return binary.NativeEndian.Uint16(m[4:]) }
func (m message) flags() uint16  { return binary.NativeEndian.Uint16(m[6:]) }
func (m message) seq() uint32    { return binary.NativeEndian.Uint32(m[8:]) }

func (m message) client() int  { return int(m.typ()>>clientShift) & 0x3f }
func (m message) command() int { return int(m.typ() & commandMask) }

// nextMessage takes the first message from b. There is none, and nothing is answered, if the
// length is wrong (netlink.c: rdma_nl_rcv_skb).
func nextMessage(b []byte) (m message, rest []byte, ok bool) {
	if len(b) < unix.SizeofNlMsghdr {
		return nil, nil, false
	}
	n := message(b).length()
	if n < unix.SizeofNlMsghdr || uint64(n) > uint64(len(b)) {
		return nil, nil, false
	}
	end := min(align(int(n)), len(b))
	return message(b[:n:n]), b[end:], true
}

// align rounds a length up to that of netlink messages and attributes (NLMSG_ALIGN, NLA_ALIGN).
func align(n int) int { return (n + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1) }

// form is what the value of an attribute must be (struct nla_policy).
type form struct {
	kind formKind
	max  int // of text: the length without its zero
}

type formKind uint8

const (
	unchecked formKind = iota
	fixed8
	fixed32
	fixed64
	text // with a zero at the end
	nested
)

// size is the least length of the value.
func (k formKind) size() int {
	switch k {
	case fixed8:
		return 1
	case fixed32:
		return 4
	case fixed64:
		return 8
	default:
		return 0
	}
}

// The lengths of names (rdma_netlink.h, ib_verbs.h, if.h).
const (
	maxDevName  = 63
	maxFWName   = 31
	maxIfName   = 16
	maxEntryStr = 16
	maxChardev  = 32
)

// policy is nldev_policy, for the attributes that requests have.
var policy = [numAttrs]form{
	attrDevIndex: {kind: fixed32}, attrDevName: {text, maxDevName}, attrPortIndex: {kind: fixed32},
	attrCapFlags: {kind: fixed64}, attrFWVersion: {text, maxFWName},
	attrNodeGUID: {kind: fixed64}, attrSysImageGUID: {kind: fixed64}, attrSubnetPrefix: {kind: fixed64},
	attrLID: {kind: fixed32}, attrSMLID: {kind: fixed32}, attrLMC: {kind: fixed8},
	attrPortState: {kind: fixed8}, attrPortPhysState: {kind: fixed8}, attrDevNodeType: {kind: fixed8},
	attrResSummary: {kind: nested}, attrResSummaryEntry: {kind: nested},
	attrResSummaryEntryName: {text, maxEntryStr}, attrResSummaryEntryCurr: {kind: fixed64},
	attrResQP: {kind: nested}, attrResQPEntry: {kind: nested},
	attrResLQPN: {kind: fixed32}, attrResRQPN: {kind: fixed32}, attrResRQPSN: {kind: fixed32}, attrResSQPSN: {kind: fixed32},
	attrResPathMigState: {kind: fixed8}, attrResType: {kind: fixed8}, attrResState: {kind: fixed8},
	attrResPID: {kind: fixed32}, attrResKernName: {text, maxEntryStr},
	attrResCMID: {kind: nested}, attrResCMIDEntry: {kind: nested}, attrResPS: {kind: fixed32},
	attrResCQ: {kind: nested}, attrResCQEntry: {kind: nested}, attrResCQE: {kind: fixed32},
	attrResUseCnt: {kind: fixed64}, attrResPollCtx: {kind: fixed8},
	attrResMR: {kind: nested}, attrResMREntry: {kind: nested}, attrResRKey: {kind: fixed32}, attrResLKey: {kind: fixed32},
	attrResIOVA: {kind: fixed64}, attrResMRLen: {kind: fixed64},
	attrResPD: {kind: nested}, attrResPDEntry: {kind: nested},
	attrResLocalDMALKey: {kind: fixed32}, attrResUnsafeGlobalRKey: {kind: fixed32},
	attrNdevIndex: {kind: fixed32}, attrNdevName: {text, maxIfName},
	attrResPDN: {kind: fixed32}, attrResCQN: {kind: fixed32}, attrResMRN: {kind: fixed32},
	attrResCMIDN: {kind: fixed32}, attrResCtxN: {kind: fixed32},
	attrLinkType: {text, maxEntryStr}, attrSysNetnsMode: {kind: fixed8}, attrDevProtocol: {text, maxEntryStr},
	attrNetNSFD: {kind: fixed32}, attrChardevType: {text, maxChardev}, attrChardevName: {text, maxEntryStr},
	attrChardevABI: {kind: fixed64}, attrChardev: {kind: fixed64}, attrUverbsDriverID: {kind: fixed64},
	attrStatMode: {kind: fixed32}, attrStatRes: {kind: fixed32}, attrStatAutoModeMask: {kind: fixed32},
	attrStatCounter: {kind: nested}, attrStatCounterID: {kind: fixed32},
	attrStatHWCounters: {kind: nested}, attrStatHWCounterEntry: {kind: nested},
	attrStatHWCounterName: {text, maxEntryStr}, attrStatHWCounterValue: {kind: fixed64},
	attrDevDIM: {kind: fixed8}, attrResCtx: {kind: nested}, attrResCtxEntry: {kind: nested},
	attrResSRQ: {kind: nested}, attrResSRQEntry: {kind: nested}, attrResSRQN: {kind: fixed32},
	attrMinRange: {kind: fixed32}, attrMaxRange: {kind: fixed32}, attrSysCopyOnFork: {kind: fixed8},
	attrStatHWCounterIndex: {kind: fixed32}, attrSysPrivilegedQKey: {kind: fixed8}, attrDriverDetails: {kind: fixed8},
}

// accepts reports whether the value has the form (lib/nlattr.c: validate_nla, with
// NL_VALIDATE_LIBERAL: a value may be longer than it must).
func (f form) accepts(value []byte) bool {
	switch f.kind {
	case text:
		n := bytes.IndexByte(value[:min(len(value), f.max+1)], 0)
		return n >= 0
	case nested:
		return len(value) == 0 || len(value) >= unix.SizeofNlAttr
	default:
		return len(value) >= f.kind.size()
	}
}

// attrs has the values of a message's attributes, by number. The last one of a number counts.
type attrs [numAttrs][]byte

// typeMask takes the flags NLA_F_NESTED and NLA_F_NET_BYTEORDER from an attribute's type.
const typeMask = 0xffff &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)

// parse reads the attributes of a message, of which unknown ones are skipped. If one is not of
// its form, bad is its position in the message. What is left over at the end is ignored, as by
// nlmsg_parse_deprecated.
func (a *attrs) parse(m message) (bad int, ok bool) {
	*a = attrs{}
	for at := unix.SizeofNlMsghdr; len(m)-at >= unix.SizeofNlAttr; {
		n := int(binary.NativeEndian.Uint16(m[at:]))
		if n < unix.SizeofNlAttr || n > len(m)-at {
			return 0, true
		}
		typ := int(binary.NativeEndian.Uint16(m[at+2:]) & typeMask)
		if typ > 0 && typ < numAttrs {
			value := m[at+unix.SizeofNlAttr : at+n : at+n]
			if !policy[typ].accepts(value) {
				return at, false
			}
			a[typ] = value
		}
		at += align(n)
	}
	return 0, true
}

// has reports whether the message has the attribute.
func (a *attrs) has(typ int) bool { return a[typ] != nil }

// u32 is the value of an attribute that the message has.
func (a *attrs) u32(typ int) uint32 { return binary.NativeEndian.Uint32(a[typ]) }

// text is the value of an attribute that the message has, up to its zero.
func (a *attrs) text(typ int) string {
	s, _, _ := bytes.Cut(a[typ], []byte{0})
	return string(s)
}
