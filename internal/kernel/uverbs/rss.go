package uverbs

import (
	"encoding/binary"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/rxe"
)

// tableRes is an indirection table: work queues, by hash.
type tableRes struct {
	wqs   []*wqRes     // a power of two
	users atomic.Int32 // queue pairs
}

// Destroy is ib_destroy_rwq_ind_table.
func (r *tableRes) Destroy(_ *dispatch.Object, closing bool) error {
	if !closing && r.users.Load() > 0 {
		return rxe.ErrBusy
	}
	for _, wq := range r.wqs {
		wq.tables.Add(-1)
	}
	return nil
}

func (r *tableRes) log() (n uint32) {
	for len(r.wqs)>>n > 1 {
		n++
	}
	return n
}

// writeCreateTable is uverbs_cmd.c:ib_uverbs_ex_create_rwq_ind_table. The handles of the work
// queues follow the request.
func writeCreateTable(k *call) error {
	head := uapi.SizeOf[uapi.CreateRWQIndTblReq]()
	if len(k.In) < head {
		return unix.ENOSPC
	}
	req, b := uapi.Load[uapi.CreateRWQIndTblReq](k.In), k.In[head:]
	switch {
	case req.CompMask != 0:
		return unix.EOPNOTSUPP
	case req.LogIndTblSize > uapi.MaxLogIndTblSize:
		return kernel.Refuse(unix.EINVAL, "log_ind_tbl_size", "is above 13", "use max_rwq_indirection_table_size")
	}
	n := 1 << req.LogIndTblSize
	switch {
	case len(b) < 4*n:
		return unix.ENOSPC
	case !dispatch.IsZero(b[4*n:]):
		return unix.EOPNOTSUPP
	}
	r := &tableRes{wqs: make([]*wqRes, n)}
	for i := range r.wqs {
		wq, err := dispatch.Held[*wqRes](&k.Call, uapi.ObjWQ, binary.NativeEndian.Uint32(b[4*i:]))
		if err != nil {
			return err
		}
		r.wqs[i] = wq
	}
	o, err := k.Make(uapi.ObjRWQIndTbl)
	if err != nil {
		return err
	}
	if err := k.f.charge(o, 8*int64(n)); err != nil {
		return err
	}
	if err := k.f.ctx.(provider.Steering).NewTable(udata{k}, req.LogIndTblSize); err != nil {
		return err
	}
	for _, wq := range r.wqs {
		wq.tables.Add(1)
	}
	o.Res = r
	return dispatch.Respond(&k.Call, uapi.CreateRWQIndTblResp{IndTblHandle: o.Handle, IndTblNum: k.f.dev.numbers.tables.Add(1),
		ResponseLength: dispatch.ResponseLength[uapi.CreateRWQIndTblResp](&k.Call)})
}

// rssRes is a queue pair that spreads frames over the work queues of a table. It has neither a
// state nor a number.
type rssRes struct {
	segment.Spread
	table *tableRes
	// loopback: it takes frames that f sends, too.
	loopback bool
	flow     flowTarget
	f        *File
}

func (r *rssRes) flowTarget() *flowTarget { return &r.flow }

func (r *rssRes) Destroy(_ *dispatch.Object, closing bool) error {
	if err := r.flow.busy(closing); err != nil {
		return err
	}
	r.table.users.Add(-1)
	r.flow.station.Release()
	return nil
}

// TakesFrom implements segment.Choosy (mlx5_ib: self_lb_block of a TIR). A program that sends back
// what it receives, as DPDK's macswap does, would else get its own frames for ever.
func (r *rssRes) TakesFrom(sender segment.Receiver) bool {
	q, ok := sender.(*rxe.QP)
	if !ok || q == nil || r.loopback {
		return true
	}
	port, ok := q.FramePort().(framePort)
	return !ok || port.f != r.f
}

// createRSS is create_rss_raw_qp_tir of mlx5_ib.
func (k *call) createRSS(o *dispatch.Object, user uint64, typ uint64, table *tableRes) error {
	station := k.f.dev.cfg.Station
	if typ != uapi.QPTypeRawPacket || station == nil {
		return unix.EOPNOTSUPP
	}
	r := &rssRes{table: table, f: k.f}
	rss, err := k.f.ctx.(provider.Steering).NewRSS(udata{k}, table.log())
	if err != nil {
		return err
	}
	r.RSS, r.loopback = rss.RSS, rss.SelfLoopback
	for _, wq := range table.wqs {
		r.Queues = append(r.Queues, wq.QP)
	}
	r.flow.station, r.flow.to = station(k.f.budget, k.Caller.NetRaw()), r
	table.users.Add(1)
	o.User, o.Res = user, r
	return nil
}

// hasNoQueues refuses what the request for a queue pair with a table says of queues of its own;
// flagged: flags, or objects.
func hasNoQueues(c uapi.QPCap, flagged bool) error {
	if flagged || c.MaxRecvWR != 0 || c.MaxRecvSGE != 0 || c.MaxSendWR != 0 {
		return kernel.Refuse(unix.EINVAL, "queues", "a queue pair with an indirection table has none of its own", "leave CQs, SRQ, flags and sizes out")
	}
	return nil
}

// writeCreateRSS is EX_CREATE_QP with a table.
func writeCreateRSS(k *call, req *uapi.ExCreateQPReq) error {
	o, err := k.Make(uapi.ObjQP)
	if err != nil {
		return err
	}
	table, err := dispatch.Held[*tableRes](&k.Call, uapi.ObjRWQIndTbl, req.RWQIndTblHandle)
	if err != nil {
		return err
	}
	sizes := uapi.QPCap{MaxSendWR: req.MaxSendWR, MaxRecvWR: req.MaxRecvWR, MaxRecvSGE: req.MaxRecvSGE}
	if err := hasNoQueues(sizes, req.IsSRQ != 0 || req.CreateFlags != 0); err != nil {
		return err
	}
	if _, err := dispatch.Held[*pdRes](&k.Call, uapi.ObjPD, req.PDHandle); err != nil {
		return err
	}
	if err := k.createRSS(o, req.UserHandle, uint64(req.QPType), table); err != nil {
		return err
	}
	return dispatch.Respond(&k.Call, uapi.ExCreateQPResp{Base: uapi.CreateQPResp{QPHandle: o.Handle},
		ResponseLength: dispatch.ResponseLength[uapi.ExCreateQPResp](&k.Call)})
}

// ioctlCreateRSS is QP_CREATE with a table.
func ioctlCreateRSS(k *call, table *tableRes) error {
	s := &k.Attrs
	typ, err := s.Constant(uapi.AttrCreateQPType, 1<<32-1)
	if err != nil {
		return err
	}
	if s.Object(uapi.AttrCreateQPPD) == nil {
		return kernel.Refuse(unix.ENOENT, "pd", "is missing", "name it")
	}
	flags, err := s.Flags(uapi.AttrCreateQPFlags, 1<<32-1)
	if err != nil {
		return err
	}
	limits := uapi.Load[uapi.QPCap](s.Get(uapi.AttrCreateQPCap).Data)
	if err := hasNoQueues(limits, flags != 0 || s.Object(uapi.AttrCreateQPSendCQ) != nil || s.Object(uapi.AttrCreateQPRecvCQ) != nil ||
		s.Object(uapi.AttrCreateQPSRQ) != nil); err != nil {
		return err
	}
	if err := k.createRSS(s.Object(uapi.AttrCreateQPHandle), s.U64(uapi.AttrCreateQPUserHandle), typ, table); err != nil {
		return err
	}
	if err := dispatch.PutStruct(&k.Call, uapi.AttrCreateQPRespCap, limits); err != nil {
		return err
	}
	return dispatch.Put(&k.Call, uapi.AttrCreateQPRespQPNum, uint32(0))
}
