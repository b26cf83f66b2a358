/* The heads of a problem: those that are computed, and those that share the data of others. */
#include "op/problem.h"

void problem_share_heads(clattn_plan_desc *desc, int64_t shared)
{
    int64_t *keys = desc->kv_heads != desc->heads ? &desc->kv_heads : &desc->qk_heads;

    if (rule_has_list(rule_get(desc->rule)))
        keys = &desc->kv_heads;
    desc->heads = shared * desc->heads / *keys;
    desc->qk_heads = desc->kv_heads = desc->heads;
    *keys = shared;
}

int64_t problem_work_heads(const struct problem *problem)
{
    return rule_has_list(problem->rule) ? problem->desc.heads : problem->desc.kv_heads;
}

int64_t problem_reads(const struct problem *problem)
{
    return problem_is_summary(problem) ? 1 : problem->desc.heads / problem_work_heads(problem);
}

int64_t problem_heads(const struct problem *problem)
{
    return problem_most(problem).sequences * problem_work_heads(problem);
}
