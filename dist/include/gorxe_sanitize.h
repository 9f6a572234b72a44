/*
 * gorxe_sanitize.h tells MemorySanitizer and ThreadSanitizer what libibverbs and an RDMA device do
 * to a program's memory. libibverbs is not built with them, and the device does not write by
 * instructions of the program. It works with any device. Compile each file of the program with
 *
 *     clang -fsanitize=memory -include gorxe_sanitize.h ...   and run it with
 *     MSAN_OPTIONS=poison_in_malloc=0:poison_in_free=0
 *     gcc -fsanitize=thread -include gorxe_sanitize.h ...
 *
 * Without a sanitizer the header does nothing.
 *
 * MemorySanitizer: what verbs return is initialized, and so is the memory of a READ or an atomic, from
 * its post on, and that of a receive. With -DGORXE_SANITIZE_RECEIVED the memory of a receive is not,
 * from its post on. Then the program calls gorxe_received after the completion, and MemorySanitizer
 * finds where it uses more than has come, or uses it too early. For memory that a peer writes, and
 * for what librdmacm or another library fills in on the stack, it calls gorxe_wrote. With these
 * options memory of malloc counts as initialized, because libibverbs and libnl use it, too.
 *
 * ThreadSanitizer: what a thread did before it posted comes before what a thread does after it has
 * polled from the completion queue.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GORXE_SANITIZE_H
#define GORXE_SANITIZE_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __has_feature
#if __has_feature(memory_sanitizer)
#define GORXE_MSAN 1
#endif
#if __has_feature(thread_sanitizer)
#define GORXE_TSAN 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define GORXE_TSAN 1
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifdef GORXE_MSAN
void __msan_unpoison(const volatile void *addr, size_t size);
void __msan_poison(const volatile void *addr, size_t size);
#endif
#ifdef GORXE_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#endif

/* gorxe_wrote says that memory has been written: by a peer, or by a library. */
static inline void gorxe_wrote(const volatile void *addr, size_t size)
{
#ifdef GORXE_MSAN
	__msan_unpoison(addr, size);
#else
	(void)addr;
	(void)size;
#endif
}

/* gorxe_received says that a message of size bytes (byte_len) has come to the memory of a receive. */
static inline void gorxe_received(const struct ibv_sge *list, int n, size_t size)
{
	for (int i = 0; i < n && size > 0; i++) {
		size_t part = list[i].length < size ? list[i].length : size;

		gorxe_wrote((const void *)(uintptr_t)list[i].addr, part);
		size -= part;
	}
}

#if defined(GORXE_MSAN) || defined(GORXE_TSAN)

static inline void gorxe_posted(struct ibv_cq *cq)
{
#ifdef GORXE_TSAN
	if (cq)
		__tsan_release(cq);
#else
	(void)cq;
#endif
}

/* gorxe_shared stands for all shared receive queues, whose completion queues nobody knows. */
__attribute__((weak)) char gorxe_shared;

static inline int gorxe_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int err;

	for (struct ibv_send_wr *w = wr; w; w = w->next)
		if (w->opcode == IBV_WR_RDMA_READ || w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			gorxe_received(w->sg_list, w->num_sge, SIZE_MAX);
	gorxe_posted(qp->send_cq);
	err = ibv_post_send(qp, wr, bad);
	if (err)
		gorxe_wrote(bad, sizeof(*bad));
	return err;
}

static inline void gorxe_receives(struct ibv_recv_wr *wr)
{
	for (; wr; wr = wr->next) {
#if defined(GORXE_MSAN) && defined(GORXE_SANITIZE_RECEIVED)
		for (int i = 0; i < wr->num_sge; i++)
			__msan_poison((const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
#else
		gorxe_received(wr->sg_list, wr->num_sge, SIZE_MAX);
#endif
	}
}

static inline int gorxe_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int err;

	gorxe_receives(wr);
	gorxe_posted(qp->recv_cq);
	err = ibv_post_recv(qp, wr, bad);
	if (err)
		gorxe_wrote(bad, sizeof(*bad));
	return err;
}

static inline int gorxe_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int err;

	gorxe_receives(wr);
#ifdef GORXE_TSAN
	__tsan_release(&gorxe_shared);
#endif
	err = ibv_post_srq_recv(srq, wr, bad);
	if (err)
		gorxe_wrote(bad, sizeof(*bad));
	return err;
}

static inline int gorxe_poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	int n = ibv_poll_cq(cq, entries, wc);

	if (n > 0) {
		gorxe_wrote(wc, n * sizeof(*wc));
#ifdef GORXE_TSAN
		__tsan_acquire(cq);
		__tsan_acquire(&gorxe_shared);
#endif
	}
	return n;
}

#define ibv_post_send gorxe_post_send
#define ibv_post_recv gorxe_post_recv
#define ibv_post_srq_recv gorxe_post_srq_recv
#define ibv_poll_cq gorxe_poll_cq

#endif

#ifdef GORXE_MSAN

/* gorxe_filled returns what a verb returns that has filled in a struct. */
#define gorxe_filled(call, out)                       \
	__extension__({                               \
		__typeof__(call) gorxe_filled_ = (call); \
		gorxe_wrote((out), sizeof(*(out)));   \
		gorxe_filled_;                        \
	})

static inline int gorxe_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
	return gorxe_filled(ibv_query_port(ctx, port, attr), attr);
}

static inline int gorxe_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	int err = ibv_get_cq_event(channel, cq, cq_context);

	gorxe_wrote(cq, sizeof(*cq));
	gorxe_wrote(cq_context, sizeof(*cq_context));
	return err;
}

static inline int gorxe_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	int err = ibv_query_qp(qp, attr, mask, init);

	gorxe_wrote(attr, sizeof(*attr));
	gorxe_wrote(init, sizeof(*init));
	return err;
}

static inline struct ibv_qp *gorxe_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp *qp = ibv_create_qp(pd, init);

	gorxe_wrote(&init->cap, sizeof(init->cap));
	return qp;
}

#undef ibv_query_port
#define ibv_query_port gorxe_query_port
#define ibv_get_cq_event gorxe_get_cq_event
#define ibv_query_qp gorxe_query_qp
#define ibv_create_qp gorxe_create_qp
#define ibv_query_gid(ctx, port, index, gid) gorxe_filled(ibv_query_gid((ctx), (port), (index), (gid)), (gid))
#define ibv_query_device(ctx, attr) gorxe_filled(ibv_query_device((ctx), (attr)), (attr))
#define ibv_get_async_event(ctx, event) gorxe_filled(ibv_get_async_event((ctx), (event)), (event))

#endif

#ifdef __cplusplus
}
#endif

#endif
