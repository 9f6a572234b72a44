/* What librxe has no call for: enhanced connection establishment, moderation of completions, and
 * timestamps. Prints the errno of each. */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#define SAY(name, error) printf(name ": %s\n", (error) ? strerrorname_np(error) : "ok")

int main(int argc, char **argv)
{
	struct ibv_context *ctx = NULL;
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; argc > 1 && list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), argv[1]))
			ctx = ibv_open_device(list[i]);
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	struct ibv_cq *cq = ctx ? ibv_create_cq(ctx, 16, NULL, NULL, 0) : NULL;
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .cap = {.max_send_wr = 1, .max_send_sge = 1}};
	struct ibv_qp *qp = cq ? ibv_create_qp(pd, &init) : NULL;
	if (!qp)
		return 1;
	struct ibv_ece ece = {0};
	SAY("ibv_query_ece", ibv_query_ece(qp, &ece));
	SAY("ibv_set_ece", ibv_set_ece(qp, &ece));
	struct ibv_modify_cq_attr moderate = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {.cq_count = 8, .cq_period = 8}};
	SAY("ibv_modify_cq", ibv_modify_cq(cq, &moderate));
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	SAY("ibv_query_rt_values_ex", ibv_query_rt_values_ex(ctx, &values));
	struct ibv_cq_init_attr_ex with = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	SAY("completion timestamp", ibv_create_cq_ex(ctx, &with) ? 0 : errno);
	with.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	SAY("wall clock", ibv_create_cq_ex(ctx, &with) ? 0 : errno);
	return 0;
}
