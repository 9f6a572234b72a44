/* qkey-mismatch: a process sends a datagram with a wrong Q_Key to another process, and ends. */
#include "processes.h"
#include "datagrams.h"

int main(int argc, char **argv)
{
	int child = other();
	struct rig r = rig_make(argc);
	const uint32_t qkeys[] = {0x11111111, 0x22222222};
	struct mine you = {};
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	datagrams(&r, qkeys);
	you.qpn = r.qp[1]->qp_num;
	tell(&you, sizeof(you));
	hear(&you, sizeof(you));
	if (child) {
		wr.wr.ud.ah = datagram_to(&r);
		wr.wr.ud.remote_qpn = you.qpn;
		wr.wr.ud.remote_qkey = qkeys[!MISTAKE];
		sge = (struct ibv_sge){(uintptr_t)r.buf, MESSAGE, r.mr->lkey};
		CHECK(!ibv_post_send(r.qp[0], &wr, &bad)); /* LINE */
		rig_poll(&r);
		CHECK(!ibv_destroy_ah(wr.wr.ud.ah));
		rig_end(&r);
	}
	parted(child);
	if (MISTAKE)
		usleep(100000); /* nothing says that the datagram was dropped */
	else
		rig_poll(&r);
	rig_end(&r);
	return 0;
}
