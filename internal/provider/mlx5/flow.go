package mlx5

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/rxe"
)

// flowMatcher is what the flow rules of mlx5dv_create_flow have in common.
type flowMatcher struct {
	mask     fteMask
	priority int
	flows    atomic.Int32
}

// Destroy implements dispatch.Resource.
func (m *flowMatcher) Destroy(_ *dispatch.Object, closing bool) error {
	if !closing && m.flows.Load() > 0 {
		return rxe.ErrBusy
	}
	return nil
}

// cannot returns an EOPNOTSUPP with its reason.
func cannot(arg, why, fix string) error {
	return &rxe.OpError{Op: "libmlx5", Arg: arg, Why: why, Fix: fix, Err: rxe.ErrNotSupported}
}

// createMatcher is MLX5_IB_METHOD_FLOW_MATCHER_CREATE of fs.c. An adapter refuses a mask that it
// cannot match only with the first rule.
func createMatcher(_ provider.Context, k *dispatch.Call) error {
	s := &k.Attrs
	egress, err := s.Flags(attrMatcherFlags, uapi.FlowEgress)
	if err != nil {
		return err
	}
	switch {
	case s.Get(attrMatcherFlags) != nil && s.Get(attrMatcherTable) != nil:
		return refuse("flags", "are given together with a type of table", "give the type only")
	case egress != 0 || s.U64(attrMatcherTable) != tableNICRx:
		return cannot("ft_type", "rules are for received frames only", "use MLX5DV_FLOW_TABLE_TYPE_NIC_RX")
	}
	m := &flowMatcher{priority: int(uapi.Load[uint16](s.Get(attrMatcherType).Data))}
	if m.mask, err = parseMask(s.Get(attrMatcherMask).Data, s.Get(attrMatcherCriteria).Data[0]); err != nil {
		return err
	}
	s.Object(attrMatcherHandle).Res = m
	return nil
}

// createFlow is MLX5_IB_METHOD_CREATE_FLOW of fs.c. The attributes for objects of DevX and for flow
// actions are unknown here, as no program can have such an object.
func createFlow(ctx provider.Context, k *dispatch.Call) error {
	s := &k.Attrs
	m := s.Object(attrFlowMatcher).Res.(*flowMatcher)
	flags, err := s.Flags(attrFlowFlags, flowMiss|flowDrop)
	if err != nil {
		return err
	}
	req := provider.FlowRequest{QP: s.Object(attrFlowQP), Ended: func() { m.flows.Add(-1) }}
	req.Rule = ether.Rule{Priority: m.priority, Tag: s.U32(attrFlowTag), Drop: flags&flowDrop != 0, Miss: flags&flowMiss != 0}
	switch {
	case req.Rule.Drop && req.Rule.Miss || (flags != 0) == (req.QP != nil):
		return refuse("actions", "have no destination, or two", "give a queue pair, or drop, or default miss")
	case req.Rule.Tag >= mostFlowTag:
		return refuse("tag_value", "exceeds 24 bits", "give a smaller one")
	case m.priority >= ether.Priorities:
		return unix.ENOMEM // MLX5_IB_FLOW_LAST_PRIO
	}
	if req.Rule.Match, err = m.mask.match(s.Get(attrFlowValue).Data); err != nil {
		return err
	}
	flow, err := ctx.(*userContext).addFlow(k, req)
	if err != nil {
		return err
	}
	m.flows.Add(1)
	s.Object(attrFlowHandle).Res = flow
	return nil
}
