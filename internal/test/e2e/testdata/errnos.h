/* How errnos.c and errnos_form.c ask and say. */
#ifndef ERRNOS_H
#define ERRNOS_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern int fd;            /* of the context under test */
extern int gid_index;     /* the IPv4 GID */
extern union ibv_gid own; /* what it holds: the one address that surely resolves */

void ioctl_form(void);
void write_form(void);
void handles(struct ibv_context *ctx, struct ibv_pd *pd, struct ibv_cq *cq);

static inline void say(const char *name, int err)
{
	printf("%s: %s\n", name, err ? strerrorname_np(err) : "ok");
}

/* Three kinds of calls: -1 with errno, a positive errno, a null pointer. */
#define SYS(name, call) (errno = 0, say(name, (long)(call) < 0 ? errno : 0))
#define RET(name, call) say(name, (call))
#define PTR(name, call) (errno = 0, say(name, (call) ? 0 : errno))

/* ---- the two forms ---- */

/* A write() command. The body begins with its response pointer, if it has one. */
static inline long cmd(unsigned number, void *body, size_t n, size_t resp)
{
	unsigned char buf[1024] = {0};
	struct ib_uverbs_cmd_hdr *h = (void *)buf;

	h->command = number;
	h->in_words = (sizeof(*h) + n) / 4;
	h->out_words = resp / 4;
	memcpy(h + 1, body, n);
	return write(fd, buf, sizeof(*h) + n);
}

/* An extended write() command; lengths in 8-byte words. */
static inline long excmd(unsigned number, void *body, size_t n, void *resp, size_t rn)
{
	unsigned char buf[1024] = {0};
	struct ib_uverbs_cmd_hdr *h = (void *)buf;
	struct ib_uverbs_ex_cmd_hdr *ex = (void *)(h + 1);

	h->command = number | IB_USER_VERBS_CMD_FLAG_EXTENDED;
	h->in_words = n / 8;
	h->out_words = rn / 8;
	ex->response = (uintptr_t)resp;
	memcpy(ex + 1, body, n);
	return write(fd, buf, sizeof(*h) + sizeof(*ex) + n);
}

#define MANDATORY UVERBS_ATTR_F_MANDATORY

struct request {
	struct ib_uverbs_ioctl_hdr hdr;
	struct ib_uverbs_attr attrs[12];
};

static inline struct request req(unsigned object, unsigned method)
{
	struct request r = {0};

	r.hdr.object_id = object;
	r.hdr.method_id = method;
	r.hdr.driver_id = RDMA_DRIVER_RXE;
	return r;
}

static inline struct ib_uverbs_attr *attr(struct request *r, unsigned id, unsigned len, uint64_t data)
{
	struct ib_uverbs_attr *a = &r->attrs[r->hdr.num_attrs++];

	a->attr_id = id;
	a->len = len;
	a->flags = MANDATORY;
	a->data = data;
	return a;
}

static inline long submit(struct request *r)
{
	if (!r->hdr.length)
		r->hdr.length = sizeof(r->hdr) + r->hdr.num_attrs * sizeof(r->attrs[0]);
	return ioctl(fd, RDMA_VERBS_IOCTL, r);
}

/* Every destroy of the ioctl form takes its handle as attribute 0, except those
 * that also report (CQ, QP, SRQ: attribute 1). */
static inline long destroy(unsigned object, unsigned method, uint32_t handle)
{
	struct request r = req(object, method);
	struct ib_uverbs_destroy_qp_resp resp[2];

	attr(&r, 0, 0, handle);
	if (object == UVERBS_OBJECT_CQ)
		attr(&r, 1, sizeof(struct ib_uverbs_destroy_cq_resp), (uintptr_t)resp);
	if (object == UVERBS_OBJECT_QP || object == UVERBS_OBJECT_SRQ)
		attr(&r, 1, 4, (uintptr_t)resp);
	return submit(&r);
}

#endif
