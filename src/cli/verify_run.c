/* A row of `clattn verify` on the device, against the reference. */
#include "check/check.h"
#include "cli/out/progress.h"
#include "cli/verify.h"
#include "op/rule.h"

#include <math.h>

/* One mode of a problem whose answer is known. */
static void check_mode(struct verify *verify, struct check_tensors *tensors, const struct check_tensors *expected,
                       struct outcome *outcome)
{
    struct target *target = &verify->target;
    char plan[4096] = "";
    clattn_status status;

    tensors->desc.mode = outcome->mode;
    target->sink.error[0] = target->sink.warning[0] = '\0';
    if (target->reference)
        status = target_run(target, tensors, plan, sizeof plan);
    else
        status = check_run(tensors, &target->device, NULL, 0, sink_log, &target->sink);
    outcome->solver = target->reference ? NULL : target->device.plan.solver;
    /* What must not pass though the results are right. */
    outcome->message = target->device.plan.rejected > 0 ? "a solver gave wrong results and another was taken" : NULL;
    if (status == CLATTN_SUCCESS)
        outcome->error = check_error(tensors, expected, &outcome->operand);
    else
        outcome->message = target->sink.error[0] != '\0' ? target->sink.error : clattn_status_text(status);
}

/* The problem in every mode, or why there is nothing to compare with (reason not NULL). */
static void check_modes(struct verify *verify, struct verify_row *row, const struct verify_problem *problem,
                        struct check_tensors *tensors, const struct check_tensors *expected, const char *reason)
{
    for (size_t i = 0; i < row->modes.count && !verify->stopped; i++) {
        struct outcome outcome = {
            .name = problem->name, .mode = row->modes.at[i], .error = (double)INFINITY, .message = reason};
        outcome.bound = check_bound_of(&problem->desc);
        if (reason == NULL)
            check_mode(verify, tensors, expected, &outcome);
        verify_record(verify, row, verify_outcome(&outcome));
    }
    verify->target.sink.error[0] = '\0';
}

static const char *why(const struct verify *verify, clattn_status status)
{
    return verify->target.sink.error[0] != '\0' ? verify->target.sink.error : clattn_status_text(status);
}

/* The reference computes it once. */
static void check_problem(struct verify *verify, struct verify_row *row, const struct verify_problem *problem)
{
    struct sink *sink = &verify->target.sink;
    const struct check_case *c = problem->c;
    struct check_tensors tensors, expected;
    clattn_status status;

    status = check_make(&tensors, &problem->desc, verify->settings->seed + 1, c != NULL ? c->gates : CHECK_GATES_USUAL,
                        c != NULL ? c->cu_seqlens : NULL);
    if (status != CLATTN_SUCCESS) {
        check_modes(verify, row, problem, NULL, NULL, why(verify, status));
        return;
    }
    status = check_reference(&expected, &tensors, sink_log, sink);
    if (status == CLATTN_SUCCESS) {
        check_modes(verify, row, problem, &tensors, &expected, NULL);
        check_free(&expected);
    } else
        check_modes(verify, row, problem, NULL, NULL, why(verify, status));
    check_free(&tensors);
}

void verify_row_run(struct verify *verify, struct verify_row *row)
{
    for (size_t i = 0; i < row->problem_count && !verify->stopped; i++)
        check_problem(verify, row, &row->problems[i]);
}
