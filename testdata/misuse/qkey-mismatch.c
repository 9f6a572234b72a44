/* qkey-mismatch: a datagram has another Q_Key than the queue pair that it goes to. */
#include "datagrams.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);
	const uint32_t qkeys[] = {0x11111111, 0x22222222};
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	datagrams(&r, qkeys);
	wr.wr.ud.ah = datagram_to(&r);
	wr.wr.ud.remote_qpn = r.qp[1]->qp_num;
	wr.wr.ud.remote_qkey = qkeys[!MISTAKE];
	sge = (struct ibv_sge){(uintptr_t)r.buf, MESSAGE, r.mr->lkey};
	CHECK(!ibv_post_send(r.qp[0], &wr, &bad)); /* LINE */
	datagrams_end(&r, wr.wr.ud.ah, !MISTAKE);
	return 0;
}
