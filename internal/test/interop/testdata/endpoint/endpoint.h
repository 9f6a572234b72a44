/* What the parts of endpoint share: see main.c. */
#ifndef ENDPOINT_H
#define ENDPOINT_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "../commands/commands.h"

enum { OBJECTS = 32, DEPTH = 64, MAX_INLINE = 64 };

extern struct ibv_context *ctx;
extern struct ibv_pd *pds[2]; /* 1: for what belongs to another domain */
extern struct ibv_cq *cq;
extern int gid_index;

struct region {
	uint8_t *at;
	size_t len;
	struct ibv_mr *mr;
};
extern struct ibv_qp *qps[OBJECTS];
extern struct ibv_mw *mws[OBJECTS];
extern struct ibv_ah *ahs[OBJECTS];
extern struct ibv_srq *srq;

/* objects.c */
unsigned object(const char *name);
union ibv_gid gid_argument(const char *name);
struct ibv_mw_bind_info window(void);

/* memory.c */
struct region *region_argument(void);
uint8_t *place(void);
void fill_at(uint8_t *at, size_t len, uint32_t seed);
long differs_at(const uint8_t *at, size_t len, uint32_t seed);

/* work.c */
double seconds(void);
int next(struct ibv_wc *wc, double until);

/* The commands. */
void do_mr(void);
void do_dereg(void);
void do_fill(void);
void do_check(void);
void do_set(void);
void do_get(void);
void do_srq(void);
void do_qp(void);
void do_connect(void);
void do_modify(void);
void do_state(void);
void do_destroy(void);
void do_ah(void);
void do_join(void);
void do_mw(void);
void do_bind(void);
void do_recv(void);
void do_send(void);
void do_poll(void);
void do_loop(void);
void do_stream(void);
void do_sink(void);
void do_awrite(void);
void do_flush(void);
void do_port(void);
void do_frame(void);

#endif
