package verbsapi

import (
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/internal/segment/ether"
)

// RWQIndTable is an indirection table (struct ibv_rwq_ind_table): work queues, by hash.
type RWQIndTable struct {
	ctx   *Context
	wqs   []*WQ
	users users // RSSQPs
}

// CreateRWQIndTable makes an indirection table (ibv_create_rwq_ind_table). Its length is a power of
// two, at most 2,048. A queue may have several places.
func (c *Context) CreateRWQIndTable(wqs []*WQ) (*RWQIndTable, error) {
	const op = "CreateRWQIndTable"
	if n := len(wqs); n == 0 || n > mostQueues || n&(n-1) != 0 {
		return nil, invalid(op, "ind_tbl", "has a length other than a power of two up to 2,048")
	}
	if err := c.verb(op, "create_rwq_ind_table"); err != nil {
		return nil, err
	}
	t := &RWQIndTable{ctx: c}
	for _, w := range wqs {
		err := invalid(op, "ind_tbl", "has a queue of another context")
		if w != nil && w.ctx == c {
			err = w.users.join(op, "wq")
		}
		if err != nil {
			t.release()
			return nil, err
		}
		t.wqs = append(t.wqs, w)
	}
	return own(c, op, kindIndTable, t)
}

func (t *RWQIndTable) release() {
	for _, w := range t.wqs {
		w.users.leave()
	}
}

// Destroy frees the table (ibv_destroy_rwq_ind_table). ErrBusy while an RSSQP has it.
func (t *RWQIndTable) Destroy() error {
	return t.ctx.destroy("DestroyRWQIndTable", "destroy_rwq_ind_table", kindIndTable, t, t.destroy)
}

func (t *RWQIndTable) destroy() error {
	return t.users.end("DestroyRWQIndTable", "ind_tbl", func() error {
		t.release()
		return nil
	})
}

func (t *RWQIndTable) destroyNow() { t.destroy() } //nolint:errcheck // nothing uses it

// HashFields are the fields of a frame that an RSSQP hashes (enum ibv_rx_hash_fields).
type HashFields = ether.HashFields

// enum ibv_rx_hash_fields.
const (
	HashSrcIPv4 = ether.HashSrcIPv4
	HashDstIPv4 = ether.HashDstIPv4
	HashSrcIPv6 = ether.HashSrcIPv6
	HashDstIPv6 = ether.HashDstIPv6
	HashSrcTCP  = ether.HashSrcTCP
	HashDstTCP  = ether.HashDstTCP
	HashSrcUDP  = ether.HashSrcUDP
	HashDstUDP  = ether.HashDstUDP
)

// RXHash says how frames are spread, by Toeplitz (struct ibv_rx_hash_conf). A frame without the
// fields has hash 0. FrameInfo.Hash has it, and its low bits choose the place in the table.
type RXHash struct {
	Key    [ether.HashKeySize]byte
	Fields HashFields // of one version of IP, and of TCP or UDP; 0: the table has one queue
}

// RSSQP is a queue pair that spreads frames over the queues of a table (receive side scaling). It
// has neither state nor number, and sends nothing. It receives what its flows take.
type RSSQP struct {
	ctx   *Context
	to    segment.Spread
	table *RWQIndTable
	flows users
}

// CreateQP makes a queue pair with the table (ibv_create_qp_ex with rwq_ind_tbl).
func (t *RWQIndTable) CreateQP(h RXHash) (*RSSQP, error) {
	const op = "CreateQP"
	switch {
	case h.Fields == 0 && len(t.wqs) > 1:
		return nil, invalid(op, "rx_hash_fields_mask", "is 0, and there are several work queues")
	case !h.Fields.Valid():
		return nil, invalid(op, "rx_hash_fields_mask", "has both IPv4 and IPv6, both TCP and UDP, or unknown fields")
	}
	if err := t.ctx.verb(op, "create_qp"); err != nil {
		return nil, err
	}
	if err := t.users.join(op, "ind_tbl"); err != nil {
		return nil, err
	}
	q := &RSSQP{ctx: t.ctx, table: t, to: segment.Spread{RSS: ether.RSS(h)}}
	for _, w := range t.wqs {
		q.to.Queues = append(q.to.Queues, w.q.QP)
	}
	return own(t.ctx, op, kindQP, q)
}

// CreateFlow has the queue pair receive the frames that attr describes (ibv_create_flow).
func (q *RSSQP) CreateFlow(attr FlowAttr) (*Flow, error) {
	return q.ctx.createFlow(&q.to, &q.flows, attr)
}

// Destroy frees the queue pair (ibv_destroy_qp). ErrBusy while a flow leads to it.
func (q *RSSQP) Destroy() error {
	return q.ctx.destroy("DestroyQP", "destroy_qp", kindQP, q, q.destroy)
}

func (q *RSSQP) destroy() error {
	return q.flows.end("DestroyQP", "qp", func() error {
		q.table.users.leave()
		return nil
	})
}

func (q *RSSQP) destroyNow() { q.destroy() } //nolint:errcheck // nothing uses it
