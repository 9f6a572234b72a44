/*
 * A program with a mistake: it writes with an rkey that its peer never had. The peer is a second
 * queue pair of the program. usage: wrongkey DEVICE
 */
#include "qp.h"

int main(int argc, char **argv)
{
	struct ibv_context *ctx = open_device(argc > 1 ? argv[1] : "rxe0");
	static char from[4096], to[4096];
	struct end a = make_end(ctx, from, sizeof from), b = make_end(ctx, to, sizeof to);
	struct address at_a = address_of(&a), at_b = address_of(&b);
	struct ibv_wc wc;

	connect_to(&a, &at_b);
	connect_to(&b, &at_a);
	at_b.rkey ^= 0x800; /* the mistake */
	CHECK("ibv_post_send", !(errno = post_write(&a, &at_b, sizeof from)));
	while (ibv_poll_cq(a.cq, 1, &wc) == 0)
		;
	fprintf(stderr, "the WRITE ended with: %s\n", ibv_wc_status_str(wc.status));
	return wc.status != IBV_WC_SUCCESS;
}
