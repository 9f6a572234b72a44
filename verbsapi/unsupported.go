package verbsapi

// This file has the calls of libibverbs that the device cannot serve, so that a search for
// one ends here. Each fails with ErrNotSupported. No call makes an object of the types below,
// so they have no state.

type (
	// TD is a thread domain (struct ibv_td). You can use any object from many
	// goroutines at once. So there are no locks to save.
	TD struct{}
	// FlowAction is what a flow steering rule does (struct ibv_flow_action).
	FlowAction struct{}
	// ECE are the options of enhanced connection establishment (struct ibv_ece).
	ECE struct{ VendorID, Options, CompMask uint32 }
)

// AllocNullMR is not supported (ibv_alloc_null_mr).
func (p *PD) AllocNullMR() (*MR, error) { return nil, notSupported("AllocNullMR") }

// AdviseMR is not supported: there is nothing to fetch ahead (ibv_advise_mr).
func (p *PD) AdviseMR(advice, flags uint32, sgl []SGE) error { return notSupported("AdviseMR") }

// AllocTD is not supported (ibv_alloc_td).
func (c *Context) AllocTD() (*TD, error) { return nil, notSupported("AllocTD") }

// Dealloc is not supported (ibv_dealloc_td).
func (*TD) Dealloc() error { return notSupported("DeallocTD") }

// AllocParentDomain is not supported (ibv_alloc_parent_domain).
func (c *Context) AllocParentDomain(pd *PD, td *TD) (*PD, error) {
	return nil, notSupported("AllocParentDomain")
}

// ImportDevice is not supported: the device lives in this process
// (ibv_import_device).
func ImportDevice(fd int) (*Context, error) { return nil, notSupported("ImportDevice") }

// ImportPD is not supported (ibv_import_pd).
func (c *Context) ImportPD(handle uint32) (*PD, error) { return nil, notSupported("ImportPD") }

// Unimport is not supported (ibv_unimport_pd).
func (p *PD) Unimport() error { return notSupported("UnimportPD") }

// ImportMR is not supported (ibv_import_mr).
func (p *PD) ImportMR(handle uint32) (*MR, error) { return nil, notSupported("ImportMR") }

// Unimport is not supported (ibv_unimport_mr).
func (m *MR) Unimport() error { return notSupported("UnimportMR") }

// ImportDM is not supported (ibv_import_dm).
func (c *Context) ImportDM(handle uint32) (*DM, error) { return nil, notSupported("ImportDM") }

// Unimport is not supported (ibv_unimport_dm).
func (*DM) Unimport() error { return notSupported("UnimportDM") }

// PostOps is not supported: there is no tag matching (ibv_post_srq_ops).
func (s *SRQ) PostOps() error { return notSupported("PostSRQOps") }

// Modify is not supported: completions are never held back (ibv_modify_cq).
func (q *CQ) Modify(count, period uint16) error { return notSupported("ModifyCQ") }

// ReadCompletionTS is not supported (ibv_wc_read_completion_ts).
func (q *CQEx) ReadCompletionTS() (uint64, error) { return 0, notSupported("ReadCompletionTS") }

// ReadCompletionWallclockNS is not supported
// (ibv_wc_read_completion_wallclock_ns).
func (q *CQEx) ReadCompletionWallclockNS() (uint64, error) {
	return 0, notSupported("ReadCompletionWallclockNS")
}

// ReadTMInfo is not supported (ibv_wc_read_tm_info).
func (q *CQEx) ReadTMInfo() (tag uint64, priv uint32, err error) {
	return 0, 0, notSupported("ReadTMInfo")
}

// QueryRTValuesEx is not supported: the device has no clock
// (ibv_query_rt_values_ex).
func (c *Context) QueryRTValuesEx() (rawClock uint64, err error) {
	return 0, notSupported("QueryRTValuesEx")
}

// ModifyRateLimit is not supported (ibv_modify_qp_rate_limit).
func (q *QP) ModifyRateLimit(kbps, maxBurst uint32) error { return notSupported("ModifyQPRateLimit") }

// SetECE is not supported (ibv_set_ece).
func (q *QP) SetECE(e ECE) error { return notSupported("SetECE") }

// QueryECE is not supported (ibv_query_ece).
func (q *QP) QueryECE() (ECE, error) { return ECE{}, notSupported("QueryECE") }

// CreateFlowActionESP is not supported (ibv_create_flow_action_esp).
func (c *Context) CreateFlowActionESP() (*FlowAction, error) {
	return nil, notSupported("CreateFlowActionESP")
}

// ModifyESP is not supported (ibv_modify_flow_action_esp).
func (*FlowAction) ModifyESP() error { return notSupported("ModifyFlowActionESP") }

// Destroy is not supported (ibv_destroy_flow_action).
func (*FlowAction) Destroy() error { return notSupported("DestroyFlowAction") }

// ResolveEthL2FromGID is not supported: the operating system finds the neighbour
// (ibv_resolve_eth_l2_from_gid).
func (c *Context) ResolveEthL2FromGID(attr AHAttr) (mac [6]byte, vlan uint16, err error) {
	return mac, 0, notSupported("ResolveEthL2FromGID")
}
