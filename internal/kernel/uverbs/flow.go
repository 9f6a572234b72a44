package uverbs

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/rxe"
)

// flowRes is a flow rule.
type flowRes struct {
	station  *segment.Station
	rule     ether.Rule
	target   *flowTarget  // nil: nobody receives the frames, and the rule itself holds the station
	counters *countersRes // nil: none
	ended    func()       // nil: nobody wants to know
}

// flowTarget is the part of a queue pair that flow rules need.
type flowTarget struct {
	station *segment.Station // nil: none, as the queue pair is not one for raw packets
	to      segment.Receiver
	flows   atomic.Int32
}

// flowable is implemented by what may be the queue pair of a rule.
type flowable interface {
	dispatch.Resource
	flowTarget() *flowTarget
}

// busy is for the end of a queue pair (verbs.c: ib_destroy_qp_user).
func (t *flowTarget) busy(closing bool) error {
	if !closing && t.flows.Load() > 0 {
		return rxe.ErrBusy
	}
	return nil
}

func (r *flowRes) Destroy(*dispatch.Object, bool) error {
	r.station.RemoveFlow(&r.rule)
	if r.target == nil {
		r.station.Release()
	} else {
		r.target.flows.Add(-1)
	}
	if r.counters != nil {
		r.counters.users.Add(-1)
	}
	if r.ended != nil {
		r.ended()
	}
	return nil
}

// writeCreateFlow is uverbs_cmd.c:ib_uverbs_ex_create_flow and mlx5_ib_create_flow. The kernel
// wants CAP_NET_RAW. Here a rule only chooses among the frames that reach the caller's segment.
func writeCreateFlow(k *call) error {
	req, specs, err := parseFlow(k.In)
	if err != nil {
		return err
	}
	o, err := k.Make(uapi.ObjFlow)
	if err != nil {
		return err
	}
	a := &req.FlowAttr
	if a.Port != 1 {
		return kernel.Refuse(unix.EINVAL, "port", "is not 1", "use port 1, the only one")
	}
	qp, err := dispatch.Held[flowable](&k.Call, uapi.ObjQP, req.QPHandle)
	if err != nil {
		return err
	}
	r := new(flowRes)
	if err := r.aim(qp); err != nil {
		return err
	}
	s, err := parseSpecs(specs, int(a.NumOfSpecs))
	switch {
	case err != nil:
		return err
	case a.Flags&^uapi.FlowDontTrap != 0:
		return kernel.Refuse(unix.EINVAL, "flags", "rules for sent frames are not supported", "leave IBV_FLOW_ATTR_FLAGS_EGRESS out")
	case a.Type > uapi.FlowSniffer:
		return kernel.Refuse(unix.EINVAL, "type", "is unknown", "use a type of enum ibv_flow_attr_type")
	case a.Priority >= ether.Priorities:
		return unix.ENOMEM // MLX5_IB_FLOW_LAST_PRIO
	}
	if err := k.countFlow(r, &s); err != nil {
		return err
	}
	r.rule.Type, r.rule.Priority = ether.Type(a.Type), int(a.Priority)
	if a.Type == uapi.FlowNormal { // others have no specs
		r.rule.DontTrap, r.rule.Match = a.Flags&uapi.FlowDontTrap != 0, s.match
		r.rule.Tag, r.rule.Drop = s.tag, s.drop
	}
	if err := r.station.AddFlow(&r.rule); err != nil {
		return err
	}
	r.target.flows.Add(1)
	if r.counters != nil {
		r.counters.users.Add(1)
	}
	o.Res = r
	return dispatch.Respond(&k.Call, uapi.CreateFlowResp{FlowHandle: o.Handle})
}

// aim says which queue pair gets the frames.
func (r *flowRes) aim(qp flowable) error {
	r.target = qp.flowTarget()
	if r.station, r.rule.To = r.target.station, r.target.to; r.station == nil {
		return kernel.Refuse(unix.EINVAL, "qp", "is not one for raw packets", "use IBV_QPT_RAW_PACKET")
	}
	return nil
}

// addFlow is provider.Open.AddFlow.
func (f *File) addFlow(k *dispatch.Call, req provider.FlowRequest) (dispatch.Resource, error) {
	r := &flowRes{rule: req.Rule, ended: req.Ended}
	if f.dev.cfg.Station == nil {
		return nil, kernel.Refuse(unix.EOPNOTSUPP, "device", "is on no Ethernet segment", "use one that has raw packet queue pairs")
	}
	if req.QP == nil {
		r.station = f.dev.cfg.Station(f.budget, k.Caller.NetRaw())
	} else if qp, ok := req.QP.Res.(flowable); !ok {
		return nil, unix.ENOSYS
	} else if err := r.aim(qp); err != nil {
		return nil, err
	}
	if err := r.station.AddFlow(&r.rule); err != nil {
		if r.target == nil {
			r.station.Release()
		}
		return nil, err
	}
	if r.target != nil {
		r.target.flows.Add(1)
	}
	return r, nil
}

// countFlow finds the counters object of a rule (fs.c: flow_counters_set_data).
func (k *call) countFlow(r *flowRes, s *flowSpecs) error {
	values, err := k.f.ctx.(provider.Steering).NewFlow(udata{k}, k.Caller.Read)
	if err != nil || !s.counts {
		return err
	}
	if r.counters, err = dispatch.Held[*countersRes](&k.Call, uapi.ObjCounters, s.counters); err != nil {
		return kernel.Refuse(unix.EINVAL, "counters", "there is no such object", "give that of ibv_create_counters")
	}
	if err := r.counters.bind(values); err != nil {
		return err
	}
	r.rule.Count = &r.counters.counter
	return nil
}

func noCompMask(mask uint32) error {
	if mask != 0 {
		return kernel.Refuse(unix.EINVAL, "comp_mask", "has unknown bits", "use headers and libraries that belong together")
	}
	return nil
}
