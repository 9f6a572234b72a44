/*
 * Exchanges data in every way of MPI's that has a path of its own through UCX, and
 * checks each byte. Any number of processes from 2 on. Exits with 1 at the first
 * wrong value, else rank 0 writes "N processes: all data right, B bytes exchanged" to FILE.
 * usage: mpi FILE [ROUNDS]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static int64_t exchanged; /* bytes that went to another process */

#define CHECK(ok, ...)                                                         \
	do {                                                                   \
		if (!(ok)) {                                                   \
			fprintf(stderr, "rank %d, %s: ", rank, __func__);      \
			fprintf(stderr, __VA_ARGS__);                          \
			fprintf(stderr, "\n");                                 \
			MPI_Abort(MPI_COMM_WORLD, 1);                          \
		}                                                              \
	} while (0)

static const int largest = (4 << 20) + 3;
/* Short and eager messages, one buffer, many packets, rendezvous. */
static const int sizes[] = {0, 1, 8, 100, 1000, 4096, 8191, 8192, 65536, 300001, 1 << 20, (4 << 20) + 3};
static const int n_sizes = sizeof(sizes) / sizeof(*sizes);

static void *room(size_t size)
{
	void *p = malloc(size);

	CHECK(p, "no memory");
	return p;
}

/* fill writes bytes that depend on the position and on a seed. */
static void fill(unsigned char *p, int n, unsigned seed)
{
	uint32_t x = seed * 2654435761u + 1;

	for (int i = 0; i < n; i++) {
		x = x * 1664525u + 1013904223u;
		p[i] = x >> 24;
	}
}

static void want(const unsigned char *p, int n, unsigned seed, const char *what)
{
	unsigned char *right = room(n + 1);

	fill(right, n, seed);
	for (int i = 0; i < n; i++)
		CHECK(p[i] == right[i], "%s of %d bytes: byte %d is %d, want %d", what, n, i, p[i], right[i]);
	free(right);
}

/* Rank 0 and each other rank in turn. */
static void ping_pong(unsigned round)
{
	unsigned char *buf = room(largest);
	MPI_Status st;
	int n;

	for (int peer = 1; peer < ranks; peer++)
		for (int i = 0; i < n_sizes; i++) {
			unsigned seed = round * 1000 + peer * 100 + i;
			if (rank == 0) {
				fill(buf, sizes[i], seed);
				MPI_Send(buf, sizes[i], MPI_BYTE, peer, i, MPI_COMM_WORLD);
				exchanged += 2 * sizes[i];
				memset(buf, 0, sizes[i]);
				MPI_Recv(buf, largest, MPI_BYTE, peer, i, MPI_COMM_WORLD, &st);
				MPI_Get_count(&st, MPI_BYTE, &n);
				CHECK(n == sizes[i], "%d bytes came back, want %d", n, sizes[i]);
				want(buf, n, seed + 7, "answer");
			} else if (rank == peer) {
				MPI_Recv(buf, largest, MPI_BYTE, 0, i, MPI_COMM_WORLD, &st);
				MPI_Get_count(&st, MPI_BYTE, &n);
				CHECK(n == sizes[i], "%d bytes came, want %d", n, sizes[i]);
				want(buf, n, seed, "message");
				fill(buf, n, seed + 7);
				MPI_Send(buf, n, MPI_BYTE, 0, i, MPI_COMM_WORLD);
			}
		}
	free(buf);
}

/* Everybody sends to everybody at once, several messages of each size, the receives
 * posted in the opposite order. */
static void crossing(unsigned round)
{
	enum { WINDOW = 4 };
	int all = ranks * WINDOW;
	MPI_Request *req = room(2 * all * sizeof(*req));

	for (int i = 0; i < n_sizes - 1; i++) {
		int n = sizes[i];
		unsigned char *out = room((size_t)all * n + 1), *in = room((size_t)all * n + 1);
		for (int k = 0; k < all; k++) {
			int from = k / WINDOW, tag = WINDOW - 1 - k % WINDOW;
			MPI_Irecv(in + (size_t)(from * WINDOW + tag) * n, n, MPI_BYTE, from, tag, MPI_COMM_WORLD, req + k);
		}
		for (int k = 0; k < all; k++) {
			int to = k / WINDOW, tag = k % WINDOW;
			exchanged += to != rank ? n : 0;
			fill(out + (size_t)k * n, n, round * 7919 + rank * 641 + to * 53 + tag);
			MPI_Isend(out + (size_t)k * n, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, req + all + k);
		}
		MPI_Waitall(2 * all, req, MPI_STATUSES_IGNORE);
		for (int k = 0; k < all; k++)
			want(in + (size_t)k * n, n, round * 7919 + k / WINDOW * 641 + rank * 53 + k % WINDOW, "message");
		free(out);
		free(in);
	}
	free(req);
}

static void allreduce(unsigned round)
{
	static const int counts[] = {1, 16, 1000, 100000};

	for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		int n = counts[i];
		int64_t *in = room(n * sizeof(*in)), *out = room(n * sizeof(*out));
		for (int k = 0; k < n; k++)
			in[k] = (int64_t)(rank + 1) * (k + round);
		MPI_Allreduce(in, out, n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
		for (int k = 0; k < n; k++)
			CHECK(out[k] == (int64_t)ranks * (ranks + 1) / 2 * (k + round), "element %d of %d is %lld", k, n, (long long)out[k]);
		free(in);
		free(out);
	}
}

/* Put, get, accumulate, fetch-and-op and compare-and-swap. The window is ordinary
 * memory: MPI_Win_allocate would be shared memory between processes of a host. */
static void one_sided(unsigned round)
{
	enum { PART = 100003 };
	size_t size = (size_t)ranks * PART;
	unsigned char *mem = room(size), *buf = room(PART);
	int64_t *sums = calloc(ranks + 2, sizeof(*sums)), one = 1, old, mine, expected;
	MPI_Win bytes, words;
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;

	memset(mem, 0, size);
	MPI_Win_create(mem, size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &bytes);
	MPI_Win_create(sums, (ranks + 2) * sizeof(*sums), sizeof(*sums), MPI_INFO_NULL, MPI_COMM_WORLD, &words);

	/* Each puts a part of its own into everybody's window. */
	MPI_Win_fence(0, bytes);
	fill(buf, PART, round + rank);
	exchanged += (int64_t)(ranks - 1) * PART;
	for (int to = 0; to < ranks; to++)
		MPI_Put(buf, PART, MPI_BYTE, to, (MPI_Aint)rank * PART, PART, MPI_BYTE, bytes);
	MPI_Win_fence(0, bytes);
	for (int from = 0; from < ranks; from++)
		want(mem + (size_t)from * PART, PART, round + from, "put");

	/* And reads from the next one what the one before wrote there. */
	memset(buf, 0, PART);
	MPI_Win_fence(0, bytes);
	MPI_Get(buf, PART, MPI_BYTE, next, (MPI_Aint)before * PART, PART, MPI_BYTE, bytes);
	MPI_Win_fence(0, bytes);
	want(buf, PART, round + before, "get");

	/* Sums that everybody adds to, element by element. */
	MPI_Win_fence(0, words);
	mine = rank + 1;
	for (int to = 0; to < ranks; to++)
		for (int k = 0; k < 20; k++)
			MPI_Accumulate(&mine, 1, MPI_INT64_T, to, k % ranks, 1, MPI_INT64_T, MPI_SUM, words);
	MPI_Win_fence(MPI_MODE_NOSUCCEED, words);
	for (int k = 0; k < ranks; k++) {
		int times = 20 / ranks + (k < 20 % ranks);
		CHECK(sums[k] == (int64_t)times * ranks * (ranks + 1) / 2, "sum %d is %lld", k, (long long)sums[k]);
	}

	/* A counter of rank 0's: all the values fetched are different. */
	char *taken = calloc(ranks * 50, 1), *all = calloc(ranks * 50, 1);
	MPI_Win_lock_all(0, words);
	for (int k = 0; k < 50; k++) {
		MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, ranks, MPI_SUM, words);
		MPI_Win_flush(0, words);
		CHECK(old >= 0 && old < ranks * 50 && !taken[old], "fetched %lld", (long long)old);
		taken[old] = 1;
	}
	MPI_Allreduce(taken, all, ranks * 50, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
	for (int k = 0; k < ranks * 50; k++)
		CHECK(all[k] == 1, "%d was fetched by %d processes", k, all[k]);

	/* A lock of rank 0's, taken and given back by compare-and-swap. */
	for (int k = 0; k < 5; k++) {
		int64_t id = rank + 1, none = 0;
		do {
			MPI_Compare_and_swap(&id, &none, &old, MPI_INT64_T, 0, ranks + 1, words);
			MPI_Win_flush(0, words);
		} while (old != 0);
		expected = id;
		MPI_Compare_and_swap(&none, &expected, &old, MPI_INT64_T, 0, ranks + 1, words);
		MPI_Win_flush(0, words);
		CHECK(old == id, "the lock was %lld's", (long long)old);
	}
	MPI_Win_unlock_all(words);
	MPI_Win_free(&words);
	MPI_Win_free(&bytes);
	free(taken);
	free(all);
	free(sums);
	free(mem);
	free(buf);
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 2 ? atoi(argv[2]) : 1;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	CHECK(ranks > 1, "needs two processes or more");
	CHECK(argc > 1, "needs the name of a file");
	for (unsigned round = 0; round < rounds; round++) {
		ping_pong(round);
		crossing(round);
		allreduce(round);
		one_sided(round);
	}
	int64_t all = 0;
	MPI_Reduce(&exchanged, &all, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		FILE *f = fopen(argv[1], "w");
		CHECK(f && fprintf(f, "%d processes: all data right, %lld bytes exchanged\n", ranks, (long long)all) > 0 &&
			      fclose(f) == 0, "cannot write %s", argv[1]);
	}
	MPI_Finalize();
	return 0;
}
