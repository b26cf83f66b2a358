/* A program of the last release: built with its header, run with today's library. */
#include <clattn.h>
#include <stdio.h>
#include <string.h>

static void say(void *user, clattn_log_level level, const char *message)
{
    (void)user, (void)level;
    fprintf(stderr, "%s\n", message);
}

static int sums_are_right(const float o[3])
{
    return o[0] == 1 && o[1] == 3 && o[2] == 6;
}

static int run_on_device(const clattn_plan_desc *desc, const clattn_call *call)
{
    clattn_context *context = NULL;
    clattn_plan *plan = NULL;
    clattn_plan_info info;
    clattn_status status =
        clattn_context_create(&context, &(clattn_context_desc){.log = say, .flags = CLATTN_ISOLATED});
    int right = status == CLATTN_NO_OPENCL || status == CLATTN_NO_DEVICE;

    if (status == CLATTN_SUCCESS)
        right = clattn_supports(context, desc) == CLATTN_SUCCESS &&
                clattn_plan_create(&plan, context, desc) == CLATTN_SUCCESS &&
                clattn_plan_get(plan, &info) == CLATTN_SUCCESS && info.desc->scale == 1 && info.launches > 0 &&
                clattn_run(plan, call) == CLATTN_SUCCESS;
    clattn_plan_destroy(plan);
    clattn_context_destroy(context);
    return right;
}

int main(void)
{
    float q[3] = {1, 1, 1}, k[3] = {1, 1, 1}, v[3] = {1, 2, 3}, o[3] = {0, 0, 0};
    const clattn_plan_desc desc = {.rule = CLATTN_LINEAR_ATTN, .seq_len = 3, .heads = 1, .key_dim = 1, .value_dim = 1};
    const clattn_operand operands[] = {
        {CLATTN_Q, .host = q}, {CLATTN_K, .host = k}, {CLATTN_V, .host = v}, {CLATTN_O, .host = o}};
    const clattn_call call = {.operands = operands, .operand_count = 4, .seq_len = CLATTN_WHOLE};
    clattn_operand_info info;
    clattn_rule_info rule;
    int right = clattn_operand_describe(&desc, CLATTN_O, &info) == CLATTN_SUCCESS && info.output && info.rank == 4 &&
                clattn_rule_describe(CLATTN_LINEAR_ATTN, &rule) == CLATTN_SUCCESS &&
                strcmp(rule.name, "linear_attn") == 0 && clattn_reference(&desc, &call, say, NULL) == CLATTN_SUCCESS &&
                sums_are_right(o);

    memset(o, 0, sizeof o);
    right = right && run_on_device(&desc, &call);
    printf("header %d, library %d: %s\n", CLATTN_VERSION, clattn_version_number(), right ? "right" : "wrong");
    return !right;
}
