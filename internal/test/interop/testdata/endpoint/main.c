/*
 * endpoint DEVICE GID-INDEX: a verbs program that does what it is told, one
 * command a line: a word, then name=number pairs. It answers each with a line,
 * "ok name=value ..." or "error ...". So a test has both ends of a connection in
 * its hand, wherever they run. Objects are named by small numbers that the test
 * chooses.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint.h"

enum { CQ_ENTRIES = 1024 };

struct ibv_context *ctx;
struct ibv_pd *pds[2];
struct ibv_cq *cq;
int gid_index;

static const struct command commands[] = {
	{ "mr", do_mr }, { "dereg", do_dereg }, { "fill", do_fill }, { "check", do_check }, { "set", do_set },
	{ "get", do_get }, { "srq", do_srq }, { "qp", do_qp }, { "connect", do_connect }, { "modify", do_modify },
	{ "state", do_state }, { "destroy", do_destroy }, { "ah", do_ah }, { "join", do_join }, { "mw", do_mw },
	{ "bind", do_bind }, { "recv", do_recv }, { "send", do_send }, { "poll", do_poll }, { "loop", do_loop },
	{ "stream", do_stream }, { "sink", do_sink }, { "awrite", do_awrite }, { "flush", do_flush }, { "port", do_port },
	{ "frame", do_frame },
};

static int open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	union ibv_gid gid;
	int i;

	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (!ctx || ibv_query_gid(ctx, 1, gid_index, &gid))
		return -1;
	pds[0] = ibv_alloc_pd(ctx);
	pds[1] = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, CQ_ENTRIES, NULL, NULL, 0);
	if (!pds[0] || !pds[1] || !cq)
		return -1;
	printf("ok gid=");
	for (i = 0; i < 16; i++)
		printf("%02x", gid.raw[i]);
	say("");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	gid_index = atoi(argv[2]);
	if (open_device(argv[1])) {
		say("error %s: %s", argv[1], strerror(errno));
		return 1;
	}
	return serve(commands, sizeof commands / sizeof commands[0]);
}
