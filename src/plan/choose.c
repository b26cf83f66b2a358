/* Which solver a plan takes, and with which tiles: measured ones where there are any and they pass the self-test, then those
 * of the rule of thumb, then the other solvers. */
#include "plan/plan.h"

#include "device/program.h"
#include "plan/tuning.h"
#include "tune/tuning_layers.h"

#include <stdlib.h>
#include <string.h>

static const struct solver *const solvers[] = {&solver_matrix_scan, &solver_chunk_scan, &solver_recurrent};

enum { SOLVER_COUNT = sizeof solvers / sizeof *solvers };

const struct solver *solver_at(int index)
{
    return index < SOLVER_COUNT ? solvers[index] : NULL;
}

const struct solver *solver_find(const char *name)
{
    for (int i = 0; i < SOLVER_COUNT; i++)
        if (strcmp(solvers[i]->name, name) == 0)
            return solvers[i];
    return NULL;
}

/* ---- One try ------------------------------------------------------------------------------------------------------ */

static void describe_problem(struct text *text, const struct clattn_plan *plan, const char *tiles_by)
{
    const clattn_plan_desc *d = &plan->problem.desc;

    text_format(text, "%s %s, B=%lld T=%lld H=%lld HQ=%lld K=%lld V=%lld, on %s\n", plan->problem.rule->name,
                dtype_name(d->dtype), (long long)d->batch, (long long)d->seq_len, (long long)d->heads,
                (long long)d->qk_heads, (long long)d->key_dim, (long long)d->value_dim,
                plan->context->device.info.name);
    text_format(text, "solver %s, tiles by %s\n", plan->solver->name, tiles_by);
}

static void describe_workspace(struct text *text, const struct clattn_plan *plan)
{
    static const char *const names[SECTION_COUNT] = {"records", "rows",     "segments",   "kept by segments",
                                                     "decay",   "strength", "stabilizer", "denominators"};

    for (int i = 0; i < SECTION_COUNT; i++)
        if (plan->section_floats[i] > 0)
            text_format(text, "  workspace: %s at float %lld\n", names[i], (long long)plan->section_at[i]);
    text_format(text, "  workspace: %lld bytes\n", (long long)plan->workspace_floats * 4);
}

static clattn_status add_stabilize(struct clattn_plan *plan, int most_group, struct text *description)
{
    struct variant variant = plan_variant(plan, KERNEL_STABILIZE, (struct pass){0});

    if (!problem_stabilized(&plan->problem))
        return CLATTN_SUCCESS;
    return plan_add(plan, &variant, (struct pass){0}, GRID_SEQUENCES, most_group, description);
}

/* plan->solver with plan->tuned, in groups of at most most_group work-items. */
static clattn_status try_solver(struct clattn_plan *plan, int most_group, const char *tiles_by)
{
    struct text text = {0};
    clattn_status status;

    plan_drop_launches(plan);
    describe_problem(&text, plan, tiles_by);
    plan_reserve_rows(plan);
    status = add_stabilize(plan, most_group, &text);
    if (status == CLATTN_SUCCESS)
        status = plan->solver->add(plan, most_group, &text);
    describe_workspace(&text, plan);
    free(plan->description);
    plan->description = text_take(&text);
    if (status == CLATTN_SUCCESS && plan->description == NULL)
        status = CLATTN_OUT_OF_MEMORY;
    return status;
}

/* The same, and then the self-test. */
static clattn_status try_tested(struct clattn_plan *plan, int most_group, const char *tiles_by)
{
    clattn_status status;

    TRY(try_solver(plan, most_group, tiles_by));
    status = plan_self_test(plan);
    if (status != CLATTN_SUCCESS)
        log_line(&plan->context->log, CLATTN_LOG_WARNING, "%s on %s: solver %s, tiles by %s, %s",
                 plan->problem.rule->name, plan->context->device.info.name, plan->solver->name, tiles_by,
                 status == CLATTN_UNSUPPORTED ? SOLVER_TURNED_DOWN : "cannot be run: not used this time");
    return status;
}

/* Whether another way may do where one has failed. */
static int may_go_on(clattn_status status)
{
    return status == CLATTN_UNSUPPORTED || status == CLATTN_DEVICE_ERROR;
}

/* Of two tries that failed, the one to report: what the device says comes before what does not fit it. */
static clattn_status graver(clattn_status before, clattn_status status)
{
    return status == CLATTN_UNSUPPORTED && before == CLATTN_DEVICE_ERROR ? before : status;
}

/* ---- All tries ---------------------------------------------------------------------------------------------------- */

/* Halves the groups until the device takes the kernels. */
static clattn_status solve_by_thumb(struct clattn_plan *plan)
{
    const clattn_device_info *info = &plan->context->device.info;
    int most_group = info->max_work_group < 256 ? (int)info->max_work_group : 256;
    clattn_status status = CLATTN_UNSUPPORTED;

    plan->tuned.solver = NULL;
    do {
        status = graver(status, try_tested(plan, most_group, "rule of thumb"));
        most_group /= 2;
    } while (may_go_on(status) && most_group >= 1 && !plan->context->device.serial);
    return status;
}

/* The measured entry of a solver for the plan's problem; NULL. An entry of another driver needs the self-test. */
static const struct tuning_entry *find_entry(const struct clattn_plan *plan, const struct solver *solver, int *layer)
{
    const struct clattn_context *context = plan->context;

    if (plan->problem.desc.chunk != 0)
        return NULL;
    return tuning_find(context, &plan->problem, solver, context->self_test, layer);
}

static clattn_status solve(struct clattn_plan *plan, const struct solver *solver)
{
    int layer;
    const struct tuning_entry *entry = find_entry(plan, solver, &layer);
    const char *from;

    plan->solver = solver;
    if (entry != NULL && tuning_is_near(entry, plan->context, &plan->problem)) {
        plan->tuned = entry->tuned;
        from = tuning_layer_name(&plan->context->tuning, layer);
        if (try_tested(plan, (int)plan->context->device.info.max_work_group, from) == CLATTN_SUCCESS)
            return CLATTN_SUCCESS;
    }
    return solve_by_thumb(plan);
}

/* Whether the device can have the solver's default. */
static int may_apply(const struct clattn_plan *plan, const struct solver *solver)
{
    const struct tuned usual = tuned_default(solver);
    struct tiles tiles[KERNEL_COUNT];

    return tuning_point_tiles(plan->context, &plan->problem, &usual, tiles);
}

/* Where all that apply are measured: the solver whose rows begin last before the problem's. */
static const struct solver *measured_solver(const struct clattn_plan *plan)
{
    int64_t rows = plan->problem.desc.seq_len * plan->problem.desc.steps, last = -1;
    const struct solver *best = NULL;

    for (int i = 0; i < SOLVER_COUNT; i++) {
        int layer;
        const struct tuning_entry *entry = find_entry(plan, solvers[i], &layer);
        if (entry == NULL && may_apply(plan, solvers[i]))
            return NULL;
        if (entry == NULL || entry->from_rows < 0 || entry->from_rows > rows || entry->from_rows <= last)
            continue;
        last = entry->from_rows;
        best = solvers[i];
    }
    return best;
}

/* The solvers in the order in which they are tried: with AUTO the preferred one first. */
static void set_order(const struct clattn_plan *plan, const struct solver *order[SOLVER_COUNT])
{
    const struct solver *first = NULL;
    int count = 0;

    if (plan->problem.desc.mode == CLATTN_MODE_AUTO && plan->problem.desc.chunk == 0) {
        first = measured_solver(plan);
        if (first == NULL && tuning_prefers_recurrent(&plan->context->device, &plan->problem))
            first = &solver_recurrent;
    }
    if (first != NULL)
        order[count++] = first;
    for (int i = 0; i < SOLVER_COUNT; i++)
        if (solvers[i] != first)
            order[count++] = solvers[i];
}

static clattn_status choose(struct clattn_plan *plan)
{
    const struct solver *order[SOLVER_COUNT];
    clattn_mode mode = plan->problem.desc.mode;
    clattn_status status = CLATTN_UNSUPPORTED;

    set_order(plan, order);
    for (int i = 0; i < SOLVER_COUNT && may_go_on(status); i++)
        if (mode == CLATTN_MODE_AUTO || mode == order[i]->mode)
            status = graver(status, solve(plan, order[i]));
    if (status == CLATTN_UNSUPPORTED)
        return FAIL(&plan->context->log, UNSUPPORTED,
                    "%s, key_dim %lld, value_dim %lld, chunk %d: no solver fits %s (%llu bytes of local memory)",
                    plan->problem.rule->name, (long long)plan->problem.desc.key_dim,
                    (long long)plan->problem.desc.value_dim, plan->problem.desc.chunk, plan->context->device.info.name,
                    (unsigned long long)plan->context->device.info.local_memory);
    return status;
}

/* Exactly what is asked for. */
static clattn_status take(struct clattn_plan *plan, const struct solver *solver, const struct tuned *tuned)
{
    plan->solver = solver;
    if (tuned != NULL)
        plan->tuned = *tuned;
    return try_solver(plan, (int)plan->context->device.info.max_work_group, "the caller");
}

static int is_default(const struct tuned *tuned)
{
    for (int i = 0; i < MAX_PARAMETERS; i++)
        if (tuned->values[i] != BY_THUMB)
            return 0;
    return 1;
}

clattn_status plan_choose(struct clattn_plan *plan)
{
    if (plan->like != NULL)
        return take(plan, plan->like->solver, NULL);
    if (plan->forced != NULL && !is_default(plan->forced))
        return take(plan, plan->forced->solver, plan->forced);
    if (plan->forced != NULL) {
        plan->solver = plan->forced->solver;
        return solve_by_thumb(plan);
    }
    TRY(choose(plan));
    program_keep(plan->context);
    return CLATTN_SUCCESS;
}
