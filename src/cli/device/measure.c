#include "cli/device/measure.h"

#include "cli/device/peak.h"
#include "device/context.h"
#include "op/rule.h"
#include "tuner/buffers.h"

#include <stdio.h>
#include <string.h>

/* Limits in seconds: of the timed runs, and of the reference. The third is the reference's time for one element of the
 * state of one head and one token. */
static const double time_budget = 10, reference_budget = 20, reference_cost = 5e-9;
static const double reference_multiply = 0.7e-9; /* for a multiplication in rules whose state is a list */

enum { MAX_SETS = 256 };
static const double sets_bytes = 256e6; /* more than caches hold */

struct bench {
    struct target *target;
    struct log log;
    clattn_plan *plan;
    struct buffers buffers;
    struct check_tensors tensors; /* the full problem */
};

/* As many products with a state as a token takes: one for each level, and to solve for a query about a third as many as a
 * gram matrix has rows. */
static double states_of(const clattn_plan_desc *desc)
{
    const struct rule *rule = rule_get(desc->rule);

    return rule_has_levels(rule) ? desc->levels : rule_is_solved(rule) ? 1 + (double)desc->key_dim / 3 : 1;
}

static double reference_seconds(const clattn_plan_desc *desc)
{
    if (rule_has_list(rule_get(desc->rule)) || rule_get(desc->rule)->op == OP_LEARNER)
        return reference_multiply * flops_of(desc);
    return reference_cost * states_of(desc) * (double)desc->batch * (double)desc->seq_len * desc->steps *
           (double)desc->heads * (double)desc->key_dim * (double)desc->value_dim;
}

clattn_plan_desc measure_reduced(const clattn_plan_desc *full, double budget)
{
    clattn_plan_desc desc = *full;

    while (desc.batch > 1 && reference_seconds(&desc) > budget)
        desc.batch = (desc.batch + 1) / 2;
    while (desc.seq_len > 1 && reference_seconds(&desc) > budget)
        desc.seq_len = desc.seq_len * 7 / 8;
    return desc;
}

static clattn_status compute(struct bench *bench, struct check_tensors *tensors)
{
    struct arguments operands;

    if (bench->target->reference) {
        check_operands(&operands, tensors);
        return check_compute(&tensors->desc, &operands, sink_log, &bench->target->sink);
    }
    TRY(buffers_write(&bench->buffers, 0, tensors));
    operands = buffers_operands(&bench->buffers, 0, &tensors->desc);
    TRY(check_enqueue(bench->plan, bench->target->device.queue, &operands, 0, NULL, NULL));
    TRY_CL(&bench->log, opencl_get(), Finish, bench->target->device.queue);
    return buffers_read(&bench->buffers, 0, tensors);
}

static clattn_status compare(struct bench *bench, struct check_tensors *tensors, struct measurement *result)
{
    struct check_tensors expected;

    TRY(compute(bench, tensors));
    TRY(check_reference(&expected, tensors, sink_log, &bench->target->sink));
    result->checked = tensors->desc;
    result->error = check_error(tensors, &expected, &result->worst);
    check_free(&expected);
    return CLATTN_SUCCESS;
}

static clattn_status check(struct bench *bench, uint64_t seed, struct measurement *result)
{
    clattn_plan_desc desc = measure_reduced(&bench->tensors.desc, reference_budget);
    struct check_tensors tensors;
    clattn_status status;

    if (desc.batch == bench->tensors.desc.batch && desc.seq_len == bench->tensors.desc.seq_len)
        return compare(bench, &bench->tensors, result);
    TRY(check_make(&tensors, &desc, seed, CHECK_GATES_USUAL, NULL));
    status = compare(bench, &tensors, result);
    check_free(&tensors);
    return status;
}

static clattn_status run_once(void *user, size_t run, cl_event *event)
{
    struct bench *bench = user;
    struct arguments operands;

    if (bench->target->reference) {
        check_operands(&operands, &bench->tensors);
        return check_compute(&bench->tensors.desc, &operands, sink_log, &bench->target->sink);
    }
    operands = buffers_operands(&bench->buffers, run % bench->buffers.sets, &bench->tensors.desc);
    return check_enqueue(bench->plan, bench->target->device.queue, &operands, 0, NULL, event);
}

static clattn_status time_runs(struct bench *bench, size_t runs, struct measurement *result)
{
    const struct timing_job job = {bench->target->device.queue, run_once, bench, bench->log};

    for (size_t set = 0; set < bench->buffers.sets; set++)
        TRY(buffers_write(&bench->buffers, set, &bench->tensors));
    return timing_measure(&job, runs, time_budget, &result->timing);
}

static size_t choose_sets(const struct bench *bench, double bytes)
{
    const clattn_device_info *info = &bench->target->info;
    double sets = info->gpu ? sets_bytes / bytes : 1;

    for (int id = 1; id < OPERAND_COUNT; id++) {
        double most = (double)info->max_allocation / 2 / ((double)bench->tensors.tensor[id].bytes + 4096);
        sets = sets < most ? sets : most;
    }
    return sets < 1 ? 1 : sets > MAX_SETS ? MAX_SETS : (size_t)sets;
}

/* Creates the plan and checks that the device has memory for it. */
static clattn_status plan(struct bench *bench, const clattn_plan_desc *desc, size_t *workspace)
{
    if (bench->target->reference)
        return CLATTN_SUCCESS;
    TRY(clattn_plan_create(&bench->plan, bench->target->device.context, desc));
    TRY(clattn_plan_workspace_size(bench->plan, workspace));
    return buffers_fit(&bench->target->device.context->device.info, desc, *workspace, &bench->log);
}

static clattn_status prepare(struct bench *bench, int in_place, size_t workspace, struct measurement *result)
{
    struct target *target = bench->target;

    for (int id = 1; id < OPERAND_COUNT; id++)
        result->bytes += (double)bench->tensors.tensor[id].bytes;
    result->workspace = workspace;
    snprintf(result->plan, sizeof result->plan, "reference");
    if (target->reference)
        return CLATTN_SUCCESS;
    result->sets = choose_sets(bench, result->bytes);
    TRY(clattn_plan_describe(bench->plan, result->plan, sizeof result->plan));
    return buffers_create(&bench->buffers, &target->device, &bench->tensors, result->sets, in_place, workspace,
                          sink_log, &target->sink);
}

clattn_status measure(struct target *target, const clattn_plan_desc *desc, int in_place, uint64_t seed, size_t runs,
                      struct measurement *result)
{
    struct bench bench = {.target = target, .log = {sink_log, &target->sink}};
    size_t workspace = 0;
    clattn_status status;

    memset(result, 0, sizeof *result);
    target->sink.error[0] = '\0';
    status = plan(&bench, desc, &workspace);
    if (status == CLATTN_SUCCESS)
        status = check_make(&bench.tensors, desc, seed, CHECK_GATES_USUAL, NULL);
    if (status == CLATTN_SUCCESS)
        status = prepare(&bench, in_place, workspace, result);
    if (status == CLATTN_SUCCESS)
        status = check(&bench, seed, result);
    if (status == CLATTN_SUCCESS && result->error <= check_bound_of(desc))
        status = time_runs(&bench, runs, result);
    buffers_destroy(&bench.buffers);
    clattn_plan_destroy(bench.plan);
    check_free(&bench.tensors);
    return status;
}
