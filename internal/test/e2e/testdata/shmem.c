/*
 * OpenSHMEM: put, get and atomics between all processes, each value checked. Exits
 * with 1 at the first wrong one, else PE 0 writes "N processes: all data right, B bytes
 * exchanged" to FILE.
 * usage: shmem FILE
 */
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(ok, ...)                                                         \
	do {                                                                   \
		if (!(ok)) {                                                   \
			fprintf(stderr, "PE %d, %s: ", me, __func__);          \
			fprintf(stderr, __VA_ARGS__);                          \
			fprintf(stderr, "\n");                                 \
			shmem_global_exit(1);                                  \
		}                                                              \
	} while (0)

static const size_t sizes[] = {1, 8, 100, 4096, 8191, 65536, 300001, 1 << 20};
static int me, all;
static long exchanged; /* bytes that went to or came from another process */

static unsigned char at(size_t i, int from, int to, int size)
{
	return (i * 2654435761u + from * 97 + to * 31 + size * 7) >> 13;
}

/* Everybody puts to the next one, and reads back from there. */
static void put_get(void)
{
	size_t largest = sizes[sizeof(sizes) / sizeof(*sizes) - 1];
	unsigned char *there = shmem_malloc(largest), *buf = malloc(largest);
	int next = (me + 1) % all, before = (me + all - 1) % all;

	CHECK(there && buf, "no memory");
	for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		for (size_t i = 0; i < sizes[k]; i++)
			buf[i] = at(i, me, next, k);
		exchanged += 2 * sizes[k];
		shmem_putmem(there, buf, sizes[k], next);
		shmem_barrier_all();
		for (size_t i = 0; i < sizes[k]; i++)
			CHECK(there[i] == at(i, before, me, k), "put of %zu bytes: byte %zu is %d", sizes[k], i, there[i]);
		memset(buf, 0, sizes[k]);
		shmem_getmem(buf, there, sizes[k], next);
		for (size_t i = 0; i < sizes[k]; i++)
			CHECK(buf[i] == at(i, me, next, k), "get of %zu bytes: byte %zu is %d", sizes[k], i, buf[i]);
		shmem_barrier_all();
	}
	free(buf);
	shmem_free(there);
}

static void atomics(void)
{
	enum { TIMES = 50 };
	long *words = shmem_calloc(3, sizeof(*words)), *lock = words + 2;
	long last = -1;

	CHECK(words, "no memory");
	shmem_barrier_all();
	for (int i = 0; i < TIMES; i++) {
		long old = shmem_long_atomic_fetch_inc(words, 0);
		CHECK(old > last && old < (long)TIMES * all, "fetched %ld after %ld", old, last);
		last = old;
		shmem_long_atomic_add(words + 1, me + 1, 0);
	}
	for (int i = 0; i < 5; i++) {
		while (shmem_long_atomic_compare_swap(lock, 0, me + 1, 0) != 0)
			;
		long holder = shmem_long_atomic_swap(lock, 0, 0);
		CHECK(holder == me + 1, "the lock was %ld's", holder);
	}
	shmem_barrier_all();
	long n = shmem_long_atomic_fetch(words, 0), sum = shmem_long_atomic_fetch(words + 1, 0);
	CHECK(n == (long)TIMES * all, "counted %ld", n);
	CHECK(sum == (long)TIMES * all * (all + 1) / 2, "the sum is %ld", sum);
	shmem_barrier_all();
	shmem_free(words);
}

int main(int argc, char **argv)
{
	shmem_init();
	me = shmem_my_pe();
	all = shmem_n_pes();
	CHECK(argc > 1, "needs the name of a file");
	put_get();
	atomics();
	shmem_barrier_all();
	if (me == 0) { /* all of them have exchanged as much */
		FILE *f = fopen(argv[1], "w");
		CHECK(f && fprintf(f, "%d processes: all data right, %ld bytes exchanged\n", all, exchanged * all) > 0 &&
			      fclose(f) == 0, "cannot write %s", argv[1]);
	}
	shmem_finalize();
	return 0;
}
