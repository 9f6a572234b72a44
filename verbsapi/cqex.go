package verbsapi

// CQWCFlags say which fields of a completion a CQEx must offer (enum
// ibv_create_cq_wc_flags).
type CQWCFlags uint64

// enum ibv_create_cq_wc_flags, as far as the device has the fields.
const (
	CQWithByteLen      CQWCFlags = 1 << 0
	CQWithImm          CQWCFlags = 1 << 1
	CQWithQPNum        CQWCFlags = 1 << 2
	CQWithSrcQP        CQWCFlags = 1 << 3
	CQWithSLID         CQWCFlags = 1 << 4
	CQWithSL           CQWCFlags = 1 << 5
	CQWithDLIDPathBits CQWCFlags = 1 << 6

	CQStandardFlags = CQWithDLIDPathBits<<1 - 1

	CQWithCVLAN   CQWCFlags = 1 << 8 // of a QPRaw, as the next
	CQWithFlowTag CQWCFlags = 1 << 9
)

// CQInitAttrEx is what CreateCQEx takes (struct ibv_cq_init_attr_ex).
type CQInitAttrEx struct {
	Entries int
	Channel *CompChannel // nil: none
	WCFlags CQWCFlags
}

// CQEx is a completion queue whose completions are read field by field (struct
// ibv_cq_ex). StartPoll takes the queue for the caller until EndPoll.
type CQEx struct {
	CQ
	polling chan struct{} // holds a token between StartPoll and EndPoll
	wc      [1]WC
}

// CreateCQEx makes a completion queue for field-by-field polling
// (ibv_create_cq_ex). It returns ErrNotSupported for fields that the device does
// not have: time stamps, tag matching.
func (c *Context) CreateCQEx(attr CQInitAttrEx) (*CQEx, error) {
	if attr.WCFlags&^(CQStandardFlags|CQWithCVLAN|CQWithFlowTag) != 0 {
		return nil, &OpError{Op: "CreateCQEx", Arg: "wc_flags", Err: ErrNotSupported}
	}
	q := &CQEx{polling: make(chan struct{}, 1)}
	if err := c.initCQ(&q.CQ, attr.Entries, attr.Channel); err != nil {
		return nil, err
	}
	return q, nil
}

// AsCQ returns the queue for the calls that take a CQ (ibv_cq_ex_to_cq).
func (q *CQEx) AsCQ() *CQ { return &q.CQ }

// StartPoll takes the first completion (ibv_start_poll). If it returns true, the
// fields can be read and EndPoll must follow. It returns false if there is none.
func (q *CQEx) StartPoll() (bool, error) {
	q.polling <- struct{}{}
	ok, err := q.NextPoll()
	if !ok {
		q.EndPoll()
	}
	return ok, err
}

// NextPoll goes on to the next completion (ibv_next_poll). It returns false if
// there is none; EndPoll must still follow.
func (q *CQEx) NextPoll() (bool, error) {
	n, err := q.Poll(q.wc[:])
	return n == 1, err
}

// EndPoll gives the queue back (ibv_end_poll).
func (q *CQEx) EndPoll() {
	select {
	case <-q.polling:
	default: // nobody polls
	}
}

// WRID is the work request's ID (ibv_cq_ex.wr_id).
func (q *CQEx) WRID() uint64 { return q.wc[0].ID }

// Status is the completion status (ibv_cq_ex.status).
func (q *CQEx) Status() WCStatus { return q.wc[0].Status }

// ReadOpcode is what completed (ibv_wc_read_opcode).
func (q *CQEx) ReadOpcode() WCOpcode { return q.wc[0].Opcode }

// ReadVendorErr is the vendor's error code (ibv_wc_read_vendor_err).
func (q *CQEx) ReadVendorErr() uint32 { return q.wc[0].VendorErr }

// ReadByteLen is the number of bytes transferred (ibv_wc_read_byte_len).
func (q *CQEx) ReadByteLen() uint32 { return q.wc[0].ByteLen }

// ReadImmData is the immediate data in host order (ibv_wc_read_imm_data).
func (q *CQEx) ReadImmData() uint32 { return q.wc[0].Imm }

// ReadInvalidatedRKey is the key that the sender invalidated
// (ibv_wc_read_invalidated_rkey).
func (q *CQEx) ReadInvalidatedRKey() RKey { return q.wc[0].InvRKey }

// ReadQPNum is the local queue pair (ibv_wc_read_qp_num).
func (q *CQEx) ReadQPNum() QPN { return q.wc[0].QPN }

// ReadSrcQP is the sender's queue pair, of UD (ibv_wc_read_src_qp).
func (q *CQEx) ReadSrcQP() QPN { return q.wc[0].SrcQP }

// ReadWCFlags are the completion's flags (ibv_wc_read_wc_flags).
func (q *CQEx) ReadWCFlags() WCFlags { return q.wc[0].Flags }

// ReadSLID is 0: Ethernet has no LIDs (ibv_wc_read_slid).
func (q *CQEx) ReadSLID() uint32 { return 0 }

// ReadSL is SLRoCEv2IPv4 or SLRoCEv2IPv6 of a UD receive, and 0 of all others
// (ibv_wc_read_sl).
func (q *CQEx) ReadSL() uint8 { return q.wc[0].SL }

// ReadDLIDPathBits is 0 (ibv_wc_read_dlid_path_bits).
func (q *CQEx) ReadDLIDPathBits() uint8 { return 0 }

// ReadCVLAN is the control information of the frame's 802.1Q tag (ibv_wc_read_cvlan).
func (q *CQEx) ReadCVLAN() uint16 { return q.wc[0].Frame().VLAN }

// ReadFlowTag is the tag of the flow that took the frame (ibv_wc_read_flow_tag).
func (q *CQEx) ReadFlowTag() uint32 { return q.wc[0].Frame().Tag }
