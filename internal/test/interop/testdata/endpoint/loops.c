/* Many operations, each compared with what it ought to have done. */
#include <endian.h>
#include <string.h>

#include "endpoint.h"

enum { SLOTS = 8 };

/* draw is a random number that the seed and the place fix. */
static uint32_t draw(uint32_t seed, uint32_t i)
{
	uint32_t x = (seed + 1) * 2654435761u ^ (i + 1) * 2246822519u;

	x = (x ^ x >> 15) * 3266489917u;
	return x ^ x >> 13;
}

/* size_of varies the lengths of the loops' messages; one in four is inline. */
static uint32_t size_of(uint32_t seed, uint32_t i, uint32_t max)
{
	return 1 + draw(seed, i) % (draw(seed, ~i) % 4 ? max : MAX_INLINE);
}

/* work is a work request of the loops: length, and inline if it is short. */
static int work(struct ibv_qp *qp, struct ibv_send_wr *wr, uint8_t *at, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)at, len, region_argument()->mr->lkey };
	struct ibv_send_wr *bad;
	int carries = wr->opcode != IBV_WR_RDMA_READ && wr->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD && wr->opcode != IBV_WR_ATOMIC_CMP_AND_SWP;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags |= len <= MAX_INLINE && carries ? IBV_SEND_INLINE : 0;
	return ibv_post_send(qp, wr, &bad);
}

/* rdma posts a WRITE or a READ of the loops. */
static int rdma(struct ibv_qp *qp, int op, uint64_t id, uint8_t *at, uint32_t len, uint64_t raddr, uint32_t rkey)
{
	/* The READ that follows a WRITE tells of both. */
	struct ibv_send_wr wr = { .wr_id = id, .opcode = op, .send_flags = op == IBV_WR_RDMA_READ ? IBV_SEND_SIGNALED : 0 };

	wr.wr.rdma.remote_addr = raddr;
	wr.wr.rdma.rkey = rkey;
	return work(qp, &wr, at, len);
}

/* count adds 1 to the peer's counter, with one atomic or the other. */
static int count(struct ibv_qp *qp, int compare, uint64_t id, uint64_t was, uint8_t *at, uint64_t raddr, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = id, .opcode = compare ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .send_flags = IBV_SEND_SIGNALED };

	wr.wr.atomic.remote_addr = raddr;
	wr.wr.atomic.rkey = rkey;
	wr.wr.atomic.compare_add = compare ? was : 1;
	wr.wr.atomic.swap = was + 1;
	return work(qp, &wr, at, 8);
}

/* wrong counts those of n messages, from number i on, that were read back as something else. */
static uint32_t wrong(const uint8_t *in, uint32_t n, uint32_t i, uint32_t max, uint32_t seed)
{
	uint32_t k, found = 0;

	for (k = 0; k < n; k++)
		found += differs_at(in + k * max, size_of(seed, i + k, max), seed + i + k) >= 0;
	return found;
}

/*
 * do_loop writes messages to the peer, reads each back and compares, and counts it
 * with an atomic at the peer: three operations, SLOTS messages at a time. n bounds
 * the messages, for (in ms) the time. The peer's region starts with SLOTS places of
 * max bytes; its counter is behind them.
 */
void do_loop(void)
{
	struct ibv_qp *qp = qps[object("qp")];
	uint32_t n = number("n", UINT32_MAX), max = number("max", 4096), seed = number("seed", 0), rkey = number("rkey", 0), i = 0, k;
	uint64_t raddr = number("raddr", 0);
	uint8_t *base = region_argument()->at, *counted = base + 2 * SLOTS * max;
	double until = seconds() + number("ms", 100000) / 1e3, end = seconds() + number("for", UINT32_MAX) / 1e3;
	struct ibv_wc wc;

	while (i < n && seconds() < end) {
		uint32_t batch = n - i < SLOTS ? n - i : SLOTS;

		for (k = 0; k < batch; k++) {
			uint8_t *out = base + k * max, *in = base + (SLOTS + k) * max;
			uint32_t len = size_of(seed, i + k, max);
			int error;

			fill_at(out, len, seed + i + k);
			memset(in, 0, len);
			error = rdma(qp, IBV_WR_RDMA_WRITE, i + k, out, len, raddr + k * max, rkey);
			if (!error)
				error = rdma(qp, IBV_WR_RDMA_READ, i + k, in, len, raddr + k * max, rkey);
			if (!error)
				error = count(qp, draw(seed, i + k) & 1, i + k, i + k, counted + 8 * k, raddr + SLOTS * max, rkey);
			if (error) {
				fails("ibv_post_send", error);
				return;
			}
		}
		for (k = 0; k < 2 * batch; k++) {
			if (next(&wc, until) <= 0) {
				say("error message %u: no completion", i);
				return;
			}
			if (wc.status || wc.wr_id != i + k / 2) {
				say("error message %u, completion %u: id %llu, %s; READs before that, of other data: %u", i, k,
				    (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status),
				    wrong(base + SLOTS * max, (k + 1) / 2, i, max, seed));
				return;
			}
		}
		for (k = 0; k < batch; k++) {
			uint32_t len = size_of(seed, i + k, max);
			long at = differs_at(base + (SLOTS + k) * max, len, seed + i + k);
			uint64_t was;

			memcpy(&was, counted + 8 * k, 8);
			if (at >= 0) {
				say("error message %u of %u bytes differs at %ld", i + k, len, at);
				return;
			}
			if (was != i + k) {
				say("error message %u: the counter was %llu", i + k, (unsigned long long)was);
				return;
			}
		}
		i += batch;
	}
	say("ok n=%u", i);
}

/* do_stream sends messages, SLOTS at a time; the last one's immediate is 1. */
void do_stream(void)
{
	struct ibv_qp *qp = qps[object("qp")];
	uint32_t n = number("n", UINT32_MAX), max = number("max", 4096), seed = number("seed", 0), posted = 0, i;
	uint8_t *base = region_argument()->at;
	double until = seconds() + number("ms", 100000) / 1e3, end = seconds() + number("for", UINT32_MAX) / 1e3;
	struct ibv_wc wc;
	int last = 0;

	for (i = 0; !last || i < posted; i++) {
		for (; !last && posted < i + SLOTS; posted++) {
			struct ibv_send_wr wr = { .wr_id = posted, .send_flags = IBV_SEND_SIGNALED };
			uint8_t *out = base + posted % SLOTS * max;
			int error;

			last = posted + 1 == n || seconds() >= end;
			wr.opcode = last || draw(seed, posted) & 1 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
			wr.imm_data = htobe32(last);
			fill_at(out, size_of(seed, posted, max), seed + posted);
			error = work(qp, &wr, out, size_of(seed, posted, max));
			if (error) {
				fails("ibv_post_send", error);
				return;
			}
		}
		if (next(&wc, until) <= 0 || wc.status || wc.wr_id != i) {
			say("error send %u: id %llu, %s", i, (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
			return;
		}
	}
	say("ok n=%u", i);
}

static int post_sink(struct ibv_qp *qp, uint32_t i, uint32_t max)
{
	struct ibv_sge sge = { (uintptr_t)region_argument()->at + i % SLOTS * max, max, region_argument()->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

/* do_sink receives what do_stream sends: all, in order, unchanged. */
void do_sink(void)
{
	struct ibv_qp *qp = qps[object("qp")];
	uint32_t max = number("max", 4096), seed = number("seed", 0), posted, i, last = 0;
	double until = seconds() + number("ms", 100000) / 1e3;
	struct ibv_wc wc;

	for (posted = 0; posted < SLOTS; posted++)
		post_sink(qp, posted, max);
	for (i = 0; !last; i++) {
		uint32_t len = size_of(seed, i, max);
		long at;

		if (next(&wc, until) <= 0 || wc.status || wc.wr_id != i || wc.byte_len != len) {
			say("error receive %u: id %llu, %u bytes, %s", i, (unsigned long long)wc.wr_id, wc.byte_len, ibv_wc_status_str(wc.status));
			return;
		}
		at = differs_at(region_argument()->at + i % SLOTS * max, len, seed + i);
		if (at >= 0) {
			say("error receive %u differs at %ld", i, at);
			return;
		}
		last = wc.wc_flags & IBV_WC_WITH_IMM ? be32toh(wc.imm_data) : 0;
		post_sink(qp, posted++, max);
	}
	say("ok n=%u", i);
}
