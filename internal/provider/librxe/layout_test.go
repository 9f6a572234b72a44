package librxe

import (
	"testing"
	"unsafe"

	"github.com/gorxe/gorxe/internal/test/cabi"
	"github.com/gorxe/gorxe/internal/test/librxeclient"
)

// TestQueueLayout: every offset and size of the shared queues is what the kernel's headers say.
// wr.flush is in headers from Linux 6.3 on only, and not compared.
func TestQueueLayout(t *testing.T) {
	const buf, send, recv, wc, av = "rxe_queue_buf", "rxe_send_wqe", "rxe_recv_wqe", "ib_uverbs_wc", "rxe_av"
	tests := []struct {
		expr string
		got  int
	}{
		{cabi.Offset(buf, "log2_elem_size"), queueLog2ElemSize},
		{cabi.Offset(buf, "index_mask"), queueIndexMask},
		{cabi.Offset(buf, "producer_index"), queueProducer},
		{cabi.Offset(buf, "consumer_index"), queueConsumer},
		{cabi.Offset(buf, "data"), queueData},

		{"sizeof(struct ib_uverbs_wc)", wcSize},
		{cabi.Offset(wc, "wr_id"), wcID},
		{cabi.Offset(wc, "status"), wcStatus},
		{cabi.Offset(wc, "opcode"), wcOpcode},
		{cabi.Offset(wc, "vendor_err"), wcVendorErr},
		{cabi.Offset(wc, "byte_len"), wcByteLen},
		{cabi.Offset(wc, "ex.imm_data"), wcEx},
		{cabi.Offset(wc, "ex.invalidate_rkey"), wcEx},
		{cabi.Offset(wc, "qp_num"), wcQPN},
		{cabi.Offset(wc, "src_qp"), wcSrcQP},
		{cabi.Offset(wc, "wc_flags"), wcFlags},
		{cabi.Offset(wc, "pkey_index"), wcPKeyIndex},
		{cabi.Offset(wc, "port_num"), wcPort},

		{"sizeof(struct rxe_recv_wqe)", recvSGL},
		{cabi.Offset(recv, "wr_id"), recvWRID},
		{cabi.Offset(recv, "dma.num_sge"), recvNumSGE},
		{cabi.Offset(recv, "dma.sge"), recvSGL},
		{"sizeof(struct rxe_sge)", sgeSize},
		{cabi.Offset("rxe_sge", "addr"), sgeAddr},
		{cabi.Offset("rxe_sge", "length"), sgeLength},
		{cabi.Offset("rxe_sge", "lkey"), sgeLKey},

		{"sizeof(struct rxe_send_wqe)", sendHeadSize},
		{cabi.Offset(send, "wr.wr_id"), sendWRID},
		{cabi.Offset(send, "wr.opcode"), sendOpcode},
		{cabi.Offset(send, "wr.send_flags"), sendFlags},
		{cabi.Offset(send, "wr.ex.imm_data"), sendEx},
		{cabi.Offset(send, "wr.ex.invalidate_rkey"), sendEx},
		{cabi.Offset(send, "wr.wr.rdma.remote_addr"), sendRDMAAddr},
		{cabi.Offset(send, "wr.wr.rdma.rkey"), sendRDMARKey},
		{cabi.Offset(send, "wr.wr.atomic.remote_addr"), sendRDMAAddr},
		{cabi.Offset(send, "wr.wr.atomic.compare_add"), sendAtomicAdd},
		{cabi.Offset(send, "wr.wr.atomic.swap"), sendAtomicSwap},
		{cabi.Offset(send, "wr.wr.atomic.rkey"), sendAtomicRKey},
		{cabi.Offset(send, "wr.wr.ud.remote_qpn"), sendUDQPN},
		{cabi.Offset(send, "wr.wr.ud.remote_qkey"), sendUDQKey},
		{cabi.Offset(send, "wr.wr.ud.ah_num"), sendUDAHNum},
		{cabi.Offset(send, "wr.wr.ud.av"), sendUDAV},
		{cabi.Offset(send, "wr.wr.mw.addr"), sendMWAddr},
		{cabi.Offset(send, "wr.wr.mw.length"), sendMWLength},
		{cabi.Offset(send, "wr.wr.mw.mr_lkey"), sendMWMRLKey},
		{cabi.Offset(send, "wr.wr.mw.mw_rkey"), sendMWRKey},
		{cabi.Offset(send, "wr.wr.mw.rkey"), sendMWNewRKey},
		{cabi.Offset(send, "wr.wr.mw.access"), sendMWAccess},
		{cabi.Offset(send, "dma.length"), sendLength},
		{cabi.Offset(send, "dma.num_sge"), sendNumSGE},
		{cabi.Offset(send, "dma.sge"), sendPayload},
		{cabi.Offset(send, "dma.inline_data"), sendPayload},

		{"sizeof(struct rxe_av)", avSize},
		{cabi.Offset(av, "port_num"), avPort},
		{cabi.Offset(av, "grh.dgid"), avDGID},
		{cabi.Offset(av, "grh.flow_label"), avFlowLabel},
		{cabi.Offset(av, "grh.sgid_index"), avSGIDIndex},
		{cabi.Offset(av, "grh.hop_limit"), avHopLimit},
		{cabi.Offset(av, "grh.traffic_class"), avTrafficClass},

		// The test's own view of a client (librxe_test.go).
		{"sizeof(struct rxe_send_wqe)", int(unsafe.Sizeof(librxeclient.SendWQE{}))},
		{cabi.Offset(send, "iova"), int(unsafe.Offsetof(librxeclient.SendWQE{}.IOVA))},
		{cabi.Offset(send, "dma"), int(unsafe.Offsetof(librxeclient.SendWQE{}.DMA))},
		{"sizeof(struct rxe_recv_wqe)", int(unsafe.Sizeof(librxeclient.RecvWQE{}))},
		{"sizeof(struct ib_uverbs_wc)", int(unsafe.Sizeof(librxeclient.WC{}))},
	}
	exprs := make([]string, len(tests))
	for i, tc := range tests {
		exprs[i] = tc.expr
	}
	for i, want := range cabi.Values(t, []string{"rdma/rdma_user_rxe.h", "rdma/ib_user_verbs.h"}, exprs) {
		if tests[i].got != want {
			t.Errorf("%s is %d, not %d", tests[i].expr, want, tests[i].got)
		}
	}
}

// The structs that librxe adds to the ABI.
func TestPrivateStructs(t *testing.T) {
	cabi.CheckStructs(t, cabi.Headers, map[string]any{
		"mminfo":              MMInfo{},
		"rxe_create_qp_resp":  CreateQPResp{},
		"rxe_create_srq_resp": CreateSRQResp{},
		"rxe_modify_srq_cmd":  ModifySRQCmd{},
		"rxe_create_ah_resp":  CreateAHResp{},
		"rxe_create_cq_resp":  struct{ MI MMInfo }{},
		"rxe_resize_cq_resp":  struct{ MI MMInfo }{},
	})
}
