/* What the parts of faulty.c share. */
#ifndef FAULTY_H
#define FAULTY_H

/* A part uses some of it. */
#pragma GCC diagnostic ignored "-Wunused-function"
#include "qp.h"

extern struct ibv_context *ctx;
extern struct ibv_pd *pd;

/* A queue pair of any type, and what it uses. Each part has its own queues. */
struct party {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

enum { buffer_size = 4096, qkey = 0x1234 };
extern char *buffer; /* buffer_size bytes */
extern struct ibv_mr *mr;
extern int hasty; /* queue pairs soon give up a peer that is silent */

struct party make_party(enum ibv_qp_type type, struct ibv_srq *srq);
void to_init(struct party *p);
void to_rts(struct party *p, struct party *peer);
void end_party(struct party *p);

/* Returns the next completion of a queue. */
struct ibv_wc next(struct ibv_cq *cq);
int state_of(struct ibv_qp *qp);
struct ibv_ah *make_ah(void);

/* Prints the errno of a call, which a rule may have made to fail. The call must succeed when it is
 * repeated. */
#define STEP(verb, result)                                  \
	do {                                                \
		int step_error = (result);                  \
		printf("%s %d\n", verb, step_error);        \
		if (step_error && (errno = (result)))       \
			CHECK(verb, !errno);                \
	} while (0)

/* Three kinds of calls: a null pointer with errno, a positive errno, a negative value with errno. */
#define POINTER(verb, call) STEP(verb, (errno = 0, (call)) ? 0 : errno)
#define NUMBER(verb, call) STEP(verb, (call))
#define MINUS(verb, call) STEP(verb, (errno = 0, (call) < 0) ? errno : 0)

void all_verbs(const char *device);
void all_cm(const char *address);
void limits(void);
void work(int rounds, char **names);
void events(int count);
void order(long long delay);

#endif
