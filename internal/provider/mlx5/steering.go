package mlx5

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/segment/ether"
)

var _ provider.Steers = Driver{}

// HasSteering implements provider.Steers.
func (Driver) HasSteering() bool { return true }

// privateRequest refuses a private request without its first least bytes, or with something set
// behind those that are known.
func privateRequest[T any](u provider.UData, least int) (req T, err error) {
	b := u.Request()
	if err := lacks(u, least); err != nil {
		return req, err
	}
	if n := uapi.SizeOf[T](); len(b) > n && !dispatch.IsZero(b[n:]) {
		return req, unix.EOPNOTSUPP
	}
	return uapi.Load[T](b), nil
}

// NewFlow implements provider.Steering (mlx5_ib_create_flow). libmlx5 says what a counters object
// counts with its first rule.
func (c *userContext) NewFlow(u provider.UData, read func(addr uint64, b []byte) error) ([]ether.Point, error) {
	b := u.Request()
	if len(b) == 0 {
		return nil, nil
	}
	head, data := uapi.SizeOf[CreateFlowReq](), uapi.SizeOf[FlowCountersData]()
	if len(b) < head {
		return nil, unix.EOPNOTSUPP
	}
	req := uapi.Load[CreateFlowReq](b)
	if req.NCountersData > 1 {
		return nil, refuse("ncounters_data", "is above 1", "give one counters object to a flow")
	}
	need := head + int(req.NCountersData)*data
	switch {
	case len(b) < need:
		return nil, refuse("request", "lacks the counters", "use the libmlx5 of rdma-core")
	case !dispatch.IsZero(b[need:]):
		return nil, unix.EOPNOTSUPP
	case req.NCountersData == 0:
		return nil, nil
	}
	return readCounters(uapi.Load[FlowCountersData](b[head:]), read)
}

// readCounters reads what a counters object counts from the program's memory.
func readCounters(d FlowCountersData, read func(addr uint64, b []byte) error) ([]ether.Point, error) {
	size := uapi.SizeOf[FlowCountersDesc]()
	if d.NCounters > mostFlowCounters {
		return nil, refuse("ncounters", "is too large", "attach fewer points")
	}
	b := make([]byte, int(d.NCounters)*size)
	if len(b) > 0 {
		if err := read(d.CountersData, b); err != nil {
			return nil, err
		}
	}
	list := make([]ether.Point, 0, d.NCounters)
	for ; len(b) > 0; b = b[size:] {
		desc := uapi.Load[FlowCountersDesc](b)
		if desc.Description > counterBytes || desc.Index >= mostFlowCounters {
			return nil, refuse("counters", "have an unknown point or a large index", "use IBV_COUNTER_PACKETS or IBV_COUNTER_BYTES")
		}
		list = append(list, ether.Point{Bytes: desc.Description == counterBytes, Index: desc.Index})
	}
	return list, nil
}

// NewTable implements provider.Steering (mlx5_ib_create_rwq_ind_table).
func (c *userContext) NewTable(u provider.UData, log uint32) error {
	if b := u.Request(); !dispatch.IsZero(b) {
		return unix.EOPNOTSUPP
	}
	if log > logMostTable {
		return refuse("log_ind_tbl_size", "is above 11", "use max_rwq_indirection_table_size")
	}
	return respond(u, CreateWQResp{ResponseLength: uint32(min(u.Room(), uapi.SizeOf[CreateWQResp]()))})
}

// NewRSS implements provider.Steering (qp.c: create_rss_raw_qp_tir). A queue pair that hashes
// nothing has one work queue.
func (c *userContext) NewRSS(u provider.UData, log uint32) (rss provider.RSS, err error) {
	req, err := privateRequest[CreateRSSReq](u, uapi.SizeOf[CreateRSSReq]())
	if err != nil {
		return rss, err
	}
	switch {
	case req.CompMask != 0, req.Flags&^rssSelfLoopback != 0, req.RxHashFieldsMask&hashInner != 0:
		return rss, unix.EOPNOTSUPP
	case req.RxHashFunction != hashToeplitz:
		return rss, unix.EOPNOTSUPP
	case req.RxKeyLen != ether.HashKeySize:
		return rss, refuse("rx_hash_key_len", "is not 40", "give a key of 40 bytes")
	case req.RxHashFieldsMask == 0 && log > 0:
		return rss, refuse("rx_hash_fields_mask", "is 0, and there are several work queues", "name what is hashed")
	case !ether.HashFields(req.RxHashFieldsMask).Valid():
		return rss, refuse("rx_hash_fields_mask", "has both IPv4 and IPv6, both TCP and UDP, or unknown fields", "make a queue pair for each")
	}
	rss.Fields, rss.SelfLoopback = ether.HashFields(req.RxHashFieldsMask), req.Flags&rssSelfLoopback != 0
	copy(rss.Key[:], req.RxHashKey[:])
	return rss, respond(u, CreateQPResp{})
}
