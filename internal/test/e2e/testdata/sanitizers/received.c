/* A message of 8 bytes comes to a receive of 64. With an argument, the program uses a ninth. */
#include "../../../../../testdata/misuse/rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	char *buf = malloc(64);
	struct ibv_mr *mr;
	struct ibv_wc wc;
	int sum = 0;

	CHECK(r.mr = ibv_reg_mr(r.pd, r.buf, SIZE, ALL));
	CHECK(mr = ibv_reg_mr(r.pd, buf, 64, ALL));
	rig_connect(&r);
	struct ibv_sge sge = {(uintptr_t)buf, 64, mr->lkey};
	struct ibv_recv_wr recv = {.wr_id = 8, .sg_list = &sge, .num_sge = 1}, *bad;
	CHECK(!ibv_post_recv(r.qp[1], &recv, &bad));
	CHECK(!rig_post(&r, IBV_WR_SEND, r.buf, r.mr->lkey, 8, 0, 0, 0));
	for (int i = 0; i < 2; i++) {
		while (ibv_poll_cq(r.cq, 1, &wc) == 0)
			;
		CHECK(wc.status == IBV_WC_SUCCESS);
#ifdef GORXE_SANITIZE_RECEIVED
		if (wc.opcode == IBV_WC_RECV)
			gorxe_received(&sge, 1, wc.byte_len);
#endif
	}
	for (int i = 0; i < 8 + (argc > 1); i++)
		sum += buf[i];
	CHECK(sum == 0);
	CHECK(!ibv_dereg_mr(mr));
	rig_end(&r);
	return 0;
}
