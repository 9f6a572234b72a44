package uverbs

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/segment/ether"
)

// flowSpecs are the specs of a flow rule (uverbs_cmd.c: kern_spec_to_ib_spec).
type flowSpecs struct {
	match ether.Match
	tag   uint32
	drop  bool
	// counts: counters has the handle of a counters object.
	counts   bool
	counters uint32
}

const (
	flowInner   = 0x100   // IB_FLOW_SPEC_INNER: the headers within a tunnel
	mostFlowTag = 1 << 24 // completions have 24 bits
	specHdrSize = 8
	mostSpec    = 88 // sizeof(union ib_uverbs_flow_spec): IPv6
)

// parseFlow reads the request for a flow rule, up to its specs.
func parseFlow(in []byte) (req uapi.CreateFlowReq, specs []byte, err error) {
	n := uapi.SizeOf[uapi.CreateFlowReq]()
	if len(in) < n {
		return req, nil, unix.ENOSPC
	}
	req = uapi.Load[uapi.CreateFlowReq](in)
	if err := noCompMask(req.CompMask); err != nil {
		return req, nil, err
	}
	a := &req.FlowAttr
	switch {
	case a.Flags&^(uapi.FlowDontTrap|uapi.FlowEgress|1) != 0:
		return req, nil, kernel.Refuse(unix.EINVAL, "flags", "has unknown bits", "use IBV_FLOW_ATTR_FLAGS_DONT_TRAP")
	case a.Flags&uapi.FlowDontTrap != 0 && (a.Type == uapi.FlowAllDefault || a.Type == uapi.FlowMCDefault):
		return req, nil, kernel.Refuse(unix.EINVAL, "flags", "a default rule always traps", "leave IBV_FLOW_ATTR_FLAGS_DONT_TRAP out")
	case a.NumOfSpecs > uapi.MaxFlowSpecs:
		return req, nil, kernel.Refuse(unix.EINVAL, "num_of_specs", "is above 10", "give one spec for each layer")
	case int(a.Size) > int(a.NumOfSpecs)*mostSpec:
		return req, nil, kernel.Refuse(unix.EINVAL, "size", "is more than the specs can have", "give the sum of their sizes")
	case a.Reserved != [2]uint8{}:
		return req, nil, kernel.Refuse(unix.EINVAL, "reserved", "is not 0", "zero the struct")
	}
	rest := in[n:]
	if a.NumOfSpecs > 0 {
		if len(rest) < int(a.Size) {
			return req, nil, unix.ENOSPC
		}
		specs, rest = rest[:a.Size], rest[a.Size:]
	}
	if !dispatch.IsZero(rest) {
		return req, nil, unix.EOPNOTSUPP
	}
	return req, specs, nil
}

// parseSpecs reads n specs, which fill b.
func parseSpecs(b []byte, n int) (s flowSpecs, err error) {
	for range n {
		if len(b) < specHdrSize {
			return s, kernel.Refuse(unix.EINVAL, "size", "is less than the specs have", "give the sum of their sizes")
		}
		hdr := uapi.Load[uapi.FlowSpecHdr](b)
		if size := int(hdr.Size); size < specHdrSize || size > len(b) || hdr.Reserved != 0 {
			return s, kernel.Refuse(unix.EINVAL, "spec", "has a size that it cannot have, or reserved bits", "give the size of its struct")
		}
		if err := s.add(hdr.Type, b[:hdr.Size]); err != nil {
			return s, err
		}
		b = b[hdr.Size:]
	}
	if len(b) > 0 {
		return s, kernel.Refuse(unix.EINVAL, "size", "is more than the specs have", "give the sum of their sizes")
	}
	if s.match.Never() {
		return s, kernel.Refuse(unix.EINVAL, "specs", "contradict each other", "give one spec for each layer")
	}
	return s, nil
}

// filter splits a spec into value and mask, which may be shorter or longer than this ABI has them
// (ib_uverbs_kern_spec_to_ib_spec_filter).
func filter[T any](b []byte) (value, mask T, err error) {
	n := (len(b) - specHdrSize) / 2
	if n%4 != 0 || n == 0 {
		return value, mask, kernel.Refuse(unix.EINVAL, "spec", "has a size that it cannot have", "give the size of its struct")
	}
	v, m := b[specHdrSize:specHdrSize+n], b[specHdrSize+n:]
	if have := int(unsafe.Sizeof(value)); n > have {
		if !dispatch.IsZero(m[have:]) {
			return value, mask, kernel.Refuse(unix.EINVAL, "spec", "has a mask for unknown fields", "use headers and libraries that belong together")
		}
	}
	return uapi.Load[T](v), uapi.Load[T](m[:n]), nil
}

// add adds a spec. mlx5_ib (fs.c: parse_flow_attr) refuses some fields.
func (s *flowSpecs) add(typ uint32, b []byte) error {
	switch typ {
	case uapi.FlowSpecEth:
		v, m, err := filter[ether.Eth](b)
		s.match.Eth(v, m)
		return err
	case uapi.FlowSpecIPv4:
		v, m, err := filter[ether.IPv4](b)
		if err == nil && (m.TTL != 0 || m.Flags != 0) {
			return unix.EOPNOTSUPP
		}
		s.match.IPv4(v, m)
		return err
	case uapi.FlowSpecIPv6:
		v, m, err := filter[ether.IPv6](b)
		switch {
		case err != nil:
			return err
		case m.FlowLabel[0] != 0 || m.FlowLabel[1] > 0xf || v.FlowLabel[0] != 0 || v.FlowLabel[1] > 0xf:
			return kernel.Refuse(unix.EINVAL, "flow_label", "exceeds 20 bits", "give it in network order")
		case m.HopLimit != 0:
			return unix.EOPNOTSUPP
		}
		s.match.IPv6(v, m)
		return nil
	case uapi.FlowSpecTCP, uapi.FlowSpecUDP:
		v, m, err := filter[ether.Ports](b)
		proto := byte(ether.ProtoTCP)
		if typ == uapi.FlowSpecUDP {
			proto = ether.ProtoUDP
		}
		s.match.Ports(proto, v, m)
		return err
	}
	return s.addAction(typ, b)
}

func (s *flowSpecs) addAction(typ uint32, b []byte) error {
	want := uapi.SizeOf[uapi.FlowSpecTag]()
	switch typ {
	case uapi.FlowSpecActionDrop:
		s.drop, want = true, specHdrSize
	case uapi.FlowSpecActionTag:
		s.tag = uapi.Load[uapi.FlowSpecTag](b).TagID
		if s.tag >= mostFlowTag {
			return kernel.Refuse(unix.EINVAL, "tag_id", "exceeds 24 bits", "give a smaller one")
		}
	case uapi.FlowSpecActionCount:
		if s.counts {
			return kernel.Refuse(unix.EINVAL, "specs", "name two counters objects", "name one")
		}
		s.counts, s.counters = true, uapi.Load[uapi.FlowSpecTag](b).TagID
	case flowSpecESP, flowSpecVXLAN, flowSpecGRE, flowSpecMPLS:
		return unix.EOPNOTSUPP
	default:
		if typ&flowInner != 0 && typ < uapi.FlowSpecActionTag {
			return unix.EOPNOTSUPP
		}
		return kernel.Refuse(unix.EINVAL, "spec", "has an unknown type", "use a type of ibv_create_flow(3)")
	}
	if len(b) != want {
		return kernel.Refuse(unix.EINVAL, "spec", "has a size that it cannot have", "give the size of its struct")
	}
	return nil
}

// Specs that this device does not have.
const (
	flowSpecESP   = 0x34
	flowSpecVXLAN = 0x50
	flowSpecGRE   = 0x51
	flowSpecMPLS  = 0x60
)
