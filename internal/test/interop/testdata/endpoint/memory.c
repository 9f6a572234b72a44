/* Memory regions, and what is in them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint.h"

static struct region regions[OBJECTS];

/* pattern is what byte i of a message with that seed is. */
static uint8_t pattern(uint32_t seed, uint32_t i)
{
	uint32_t x = (i / 4 + 1) * 2654435761u ^ seed * 40503u;

	return x >> (8 * (i % 4)) ^ x >> 13;
}

void fill_at(uint8_t *at, size_t len, uint32_t seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		at[i] = pattern(seed, i);
}

/* differs_at returns where the bytes are not the pattern, or -1. */
long differs_at(const uint8_t *at, size_t len, uint32_t seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (at[i] != pattern(seed, i))
			return i;
	return -1;
}

struct region *region_argument(void) { return &regions[object("mr")]; }

uint8_t *place(void) { return region_argument()->at + number("off", 0); }

void do_mr(void)
{
	struct region *r = region_argument();

	r->len = number("len", 1 << 20);
	if (!r->at && posix_memalign((void **)&r->at, 4096, r->len)) {
		fails("posix_memalign", ENOMEM);
		return;
	}
	memset(r->at, 0, r->len);
	r->mr = ibv_reg_mr(pds[number("pd", 0) & 1], r->at, r->len, number("access", 0));
	if (!r->mr)
		fails("ibv_reg_mr", 0);
	else
		say("ok rkey=%u lkey=%u addr=%llu", r->mr->rkey, r->mr->lkey, (unsigned long long)(uintptr_t)r->at);
}

void do_dereg(void) { answer("ibv_dereg_mr", ibv_dereg_mr(region_argument()->mr)); }

void do_fill(void)
{
	fill_at(place(), number("len", 0), number("seed", 0));
	ok();
}

void do_check(void) { say("ok at=%ld", differs_at(place(), number("len", 0), number("seed", 0))); }

void do_set(void)
{
	uint64_t v = number("to", 0);

	memcpy(place(), &v, sizeof v);
	ok();
}

void do_get(void)
{
	uint64_t v;

	memcpy(&v, place(), sizeof v);
	say("ok is=%llu", (unsigned long long)v);
}
