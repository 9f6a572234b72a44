package uverbs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/gorxe/gorxe/internal/testenv"
)

// cValues evaluates C expressions with the system's headers.
func cValues(t *testing.T, includes, exprs []string) []int {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		testenv.Missing(t, "no C compiler: install gcc and libc6-dev")
	}
	var src strings.Builder
	src.WriteString("#include <stdio.h>\n#include <stddef.h>\n")
	for _, h := range includes {
		if _, err := os.Stat("/usr/include/" + h); err != nil {
			testenv.Missing(t, "no %s: install linux-libc-dev", h)
		}
		fmt.Fprintf(&src, "#include <%s>\n", h)
	}
	src.WriteString("int main(void) {\n")
	for _, e := range exprs {
		fmt.Fprintf(&src, "printf(\"%%d\\n\", (int)(%s));\n", e)
	}
	src.WriteString("return 0; }\n")
	dir := t.TempDir()
	file, bin := filepath.Join(dir, "values.c"), filepath.Join(dir, "values")
	if err := os.WriteFile(file, []byte(src.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-o", bin, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(bin).Output()
	if err != nil {
		t.Fatal(err)
	}
	var values []int
	for f := range strings.FieldsSeq(string(out)) {
		v, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, v)
	}
	if len(values) != len(exprs) {
		t.Fatalf("%d values of %d expressions", len(values), len(exprs))
	}
	return values
}

func offset(structName, field string) string {
	return "offsetof(struct " + structName + ", " + field + ")"
}

// TestQueueLayout: every offset and size of the shared queues and the event
// records is what the kernel's headers say. wr.flush is in headers from Linux 6.3
// on only, and not compared.
func TestQueueLayout(t *testing.T) {
	const buf, send, recv, wc, av = "rxe_queue_buf", "rxe_send_wqe", "rxe_recv_wqe", "ib_uverbs_wc", "rxe_av"
	const comp, async = "ib_uverbs_comp_event_desc", "ib_uverbs_async_event_desc"
	tests := []struct {
		expr string
		got  int
	}{
		{offset(buf, "log2_elem_size"), queueLog2ElemSize},
		{offset(buf, "index_mask"), queueIndexMask},
		{offset(buf, "producer_index"), queueProducer},
		{offset(buf, "consumer_index"), queueConsumer},
		{offset(buf, "data"), queueData},

		{"sizeof(struct ib_uverbs_wc)", wcSize},
		{offset(wc, "wr_id"), wcID},
		{offset(wc, "status"), wcStatus},
		{offset(wc, "opcode"), wcOpcode},
		{offset(wc, "vendor_err"), wcVendorErr},
		{offset(wc, "byte_len"), wcByteLen},
		{offset(wc, "ex.imm_data"), wcEx},
		{offset(wc, "ex.invalidate_rkey"), wcEx},
		{offset(wc, "qp_num"), wcQPN},
		{offset(wc, "src_qp"), wcSrcQP},
		{offset(wc, "wc_flags"), wcFlags},
		{offset(wc, "pkey_index"), wcPKeyIndex},
		{offset(wc, "port_num"), wcPort},

		{"sizeof(struct rxe_recv_wqe)", recvSGL},
		{offset(recv, "wr_id"), recvWRID},
		{offset(recv, "dma.num_sge"), recvNumSGE},
		{offset(recv, "dma.sge"), recvSGL},
		{"sizeof(struct rxe_sge)", sgeSize},
		{offset("rxe_sge", "addr"), sgeAddr},
		{offset("rxe_sge", "length"), sgeLength},
		{offset("rxe_sge", "lkey"), sgeLKey},

		{"sizeof(struct rxe_send_wqe)", sendHeadSize},
		{offset(send, "wr.wr_id"), sendWRID},
		{offset(send, "wr.opcode"), sendOpcode},
		{offset(send, "wr.send_flags"), sendFlags},
		{offset(send, "wr.ex.imm_data"), sendEx},
		{offset(send, "wr.ex.invalidate_rkey"), sendEx},
		{offset(send, "wr.wr.rdma.remote_addr"), sendRDMAAddr},
		{offset(send, "wr.wr.rdma.rkey"), sendRDMARKey},
		{offset(send, "wr.wr.atomic.remote_addr"), sendRDMAAddr},
		{offset(send, "wr.wr.atomic.compare_add"), sendAtomicAdd},
		{offset(send, "wr.wr.atomic.swap"), sendAtomicSwap},
		{offset(send, "wr.wr.atomic.rkey"), sendAtomicRKey},
		{offset(send, "wr.wr.ud.remote_qpn"), sendUDQPN},
		{offset(send, "wr.wr.ud.remote_qkey"), sendUDQKey},
		{offset(send, "wr.wr.ud.ah_num"), sendUDAHNum},
		{offset(send, "wr.wr.ud.av"), sendUDAV},
		{offset(send, "wr.wr.mw.addr"), sendMWAddr},
		{offset(send, "wr.wr.mw.length"), sendMWLength},
		{offset(send, "wr.wr.mw.mr_lkey"), sendMWMRLKey},
		{offset(send, "wr.wr.mw.mw_rkey"), sendMWRKey},
		{offset(send, "wr.wr.mw.rkey"), sendMWNewRKey},
		{offset(send, "wr.wr.mw.access"), sendMWAccess},
		{offset(send, "dma.length"), sendLength},
		{offset(send, "dma.num_sge"), sendNumSGE},
		{offset(send, "dma.sge"), sendPayload},
		{offset(send, "dma.inline_data"), sendPayload},

		{"sizeof(struct rxe_av)", avSize},
		{offset(av, "port_num"), avPort},
		{offset(av, "grh.dgid"), avDGID},
		{offset(av, "grh.flow_label"), avFlowLabel},
		{offset(av, "grh.sgid_index"), avSGIDIndex},
		{offset(av, "grh.hop_limit"), avHopLimit},
		{offset(av, "grh.traffic_class"), avTrafficClass},

		{"sizeof(struct " + comp + ")", compEventSize},
		{offset(comp, "cq_handle"), 0},
		{"sizeof(struct " + async + ")", asyncEventSize},
		{offset(async, "element"), 0},
		{offset(async, "event_type"), asyncEventType},

		// The test's own view of a client (librxe_test.go).
		{"sizeof(struct rxe_send_wqe)", int(unsafe.Sizeof(cSendWQE{}))},
		{offset(send, "iova"), int(unsafe.Offsetof(cSendWQE{}.iova))},
		{offset(send, "dma"), int(unsafe.Offsetof(cSendWQE{}.dma))},
		{"sizeof(struct rxe_recv_wqe)", int(unsafe.Sizeof(cRecvWQE{}))},
		{"sizeof(struct ib_uverbs_wc)", int(unsafe.Sizeof(cWC{}))},
	}
	exprs := make([]string, len(tests))
	for i, tc := range tests {
		exprs[i] = tc.expr
	}
	for i, want := range cValues(t, []string{"rdma/rdma_user_rxe.h", "rdma/ib_user_verbs.h"}, exprs) {
		if tests[i].got != want {
			t.Errorf("%s is %d, not %d", tests[i].expr, want, tests[i].got)
		}
	}
}
