/* Which solver a plan uses, and with which tiles. Measured tiles come first, if there are any and they pass the
 * self-test; then those of the heuristic; then the other solvers. */
#include "plan/plan.h"

#include "device/program.h"
#include "plan/gemm.h"
#include "tune/tuning_layers.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_GROUP = 256 /* of the heuristic */ };

/* Every solver, in descending order of rank, closed by NULL. */
struct ranking {
    const struct solver *solvers[MAX_SPACES + 1];
};

static struct ranking rank_solvers(void)
{
    struct ranking ranking = {{NULL}};

    for (int i = 0; solver_at(i) != NULL; i++) {
        int at = i;
        while (at > 0 && ranking.solvers[at - 1]->rank < solver_at(i)->rank) {
            ranking.solvers[at] = ranking.solvers[at - 1];
            at--;
        }
        ranking.solvers[at] = solver_at(i);
    }
    return ranking;
}

/* What a solver may know of the context's device, with groups of at most `most_group` work-items. */
static struct device_facts facts_of(const struct clattn_context *context, int64_t most_group)
{
    const int64_t device = (int64_t)context->device.info.max_work_group;

    return (struct device_facts){
        .device = &context->device, .engine = context->engine, .most_group = lower(most_group, device)};
}

static int is_chosen_on(const struct solver *solver, const struct clattn_context *context)
{
    return solver_suits(solver, &context->device, context->engine);
}

int plan_chooses(const clattn_context *context, const struct space *space)
{
    return is_chosen_on(solver_find(space->name), context);
}

/* ---- One try ------------------------------------------------------------------------------------------------------
 */

/* One attempt: a solver with the tiles of a measured entry, or with those of the heuristic for groups of at most
 * `most_group` work-items. */
struct choice {
    const struct solver *solver;
    const struct tuned *tuned; /* NULL: the heuristic */
    int most_group;
    const char *tiles_by;
};

static clattn_status try(struct clattn_plan *plan, const struct choice *choice)
{
    free(plan->tiles_by);
    plan->tiles_by = text_copy(choice->tiles_by);
    if (plan->tiles_by == NULL)
        return CLATTN_OUT_OF_MEMORY;
    return plan_bind(plan, choice->solver, choice->tuned, NULL, choice->most_group);
}

/* Binds the plan and runs the self-test. */
static clattn_status try_and_test(struct clattn_plan *plan, const struct choice *choice)
{
    clattn_status status;

    TRY(try(plan, choice));
    if (!plan->context->self_test)
        return CLATTN_SUCCESS;
    status = plan_self_test(plan);
    if (status == CLATTN_DEVICE_ERROR && bound_renew(&plan->bound))
        status = plan_self_test(plan);
    if (status == CLATTN_UNSUPPORTED)
        plan->rejected++;
    if (status != CLATTN_SUCCESS)
        log_line(&plan->context->log, CLATTN_LOG_WARNING, "%s on %s: solver %s, tiles by %s, %s",
                 plan->problem.rule->name, plan->context->device.info.name, choice->solver->space.name,
                 choice->tiles_by,
                 status == CLATTN_UNSUPPORTED ? "gives wrong results: not used" : "cannot be run: not used this time");
    return status;
}

/* Whether other tiles of the same solver may succeed where this attempt failed. */
static int other_tiles_may_succeed(clattn_status status)
{
    return status == CLATTN_UNSUPPORTED || status == CLATTN_DEVICE_ERROR;
}

/* Whether another solver may succeed. It has other kernels, which the compiler may accept. */
static int other_solver_may_succeed(clattn_status status)
{
    return other_tiles_may_succeed(status) || status == CLATTN_BUILD_FAILED;
}

/* The one of two failures to report. An error of the device or the compiler says more than "does not fit". */
static clattn_status worse_status(clattn_status before, clattn_status status)
{
    return status == CLATTN_UNSUPPORTED ? before : status;
}

/* ---- All tries ----------------------------------------------------------------------------------------------------
 */

/* Whether smaller groups may succeed. An error that occurred before there was a recipe came from the probe of the
 * engine, whose group size is fixed. */
static int may_shrink(const struct clattn_plan *plan, clattn_status status)
{
    return other_tiles_may_succeed(status) && (status == CLATTN_UNSUPPORTED || plan->has_recipe) &&
           !plan->context->device.serial;
}

/* The heuristic's tiles. The group size is halved until the device accepts the kernels. */
static clattn_status solve_by_heuristic(struct clattn_plan *plan, const struct solver *solver,
                                        clattn_status (*attempt)(struct clattn_plan *plan, const struct choice *choice))
{
    const clattn_device_info *info = &plan->context->device.info;
    struct choice choice = {solver, NULL, info->max_work_group < MOST_GROUP ? (int)info->max_work_group : MOST_GROUP,
                            "rule of thumb"};
    clattn_status status = CLATTN_UNSUPPORTED;

    do {
        status = worse_status(status, attempt(plan, &choice));
        choice.most_group /= 2;
    } while (may_shrink(plan, status) && choice.most_group >= 1);
    return status;
}

/* The measured entry of a solver for the plan's problem, or NULL. An entry that was measured with another driver is
 * used only if the self-test is on. */
static const struct tuning_entry *find_entry(const struct clattn_plan *plan, const struct solver *solver, int *layer)
{
    const struct clattn_context *context = plan->context;

    if (plan->problem.desc.chunk != 0)
        return NULL;
    return tuning_find(context, &plan->problem, &solver->space, context->self_test, layer);
}

static clattn_status solve(struct clattn_plan *plan, const struct solver *solver)
{
    int layer;
    const struct tuning_entry *entry = find_entry(plan, solver, &layer);

    if (entry != NULL && tuning_is_near(entry, plan->context, &plan->problem)) {
        const struct choice choice = {solver, &entry->tuned, (int)plan->context->device.info.max_work_group,
                                      tuning_layer_name(plan->context->tuning, layer)};
        if (try_and_test(plan, &choice) == CLATTN_SUCCESS)
            return CLATTN_SUCCESS;
    }
    return solve_by_heuristic(plan, solver, try_and_test);
}

/* Whether the device can run the solver with its default tiles. */
static int default_applies(const struct clattn_plan *plan, const struct solver *solver)
{
    const struct device_facts facts = facts_of(plan->context, MOST_GROUP);

    return solver_can(solver, &facts, &plan->problem);
}

/* A measurement does not count if the fastest solver it was compared with cannot run this problem. Layers after the one
 * that decided are not considered. */
static int missing_solver_was_faster(const struct clattn_plan *plan, const int *missing, int layer)
{
    for (int i = 0; solver_at(i) != NULL; i++)
        if (missing[i] && tuning_was_fastest(plan->context, &plan->problem, space_at(i), layer))
            return 1;
    return 0;
}

/* The solver that was measured to be fastest at the problem's length, or NULL. Each entry says from which length on its
 * solver is the fastest, so the answer is the entry with the largest such length that is not beyond the problem's.
 * Every solver that applies must have an entry, for heads similar to the problem's, because the crossover lengths
 * depend on the heads. */
static const struct solver *measured_solver(const struct clattn_plan *plan)
{
    int64_t rows = problem_rows(&plan->problem), last = -1;
    const struct solver *best = NULL;
    int missing[MAX_SPACES] = {0}, best_layer = 0;

    for (int i = 0; solver_at(i) != NULL; i++) {
        const struct solver *solver = solver_at(i);
        int layer;
        const struct tuning_entry *entry = find_entry(plan, solver, &layer);
        if (solver->space.tuned_keys != 0)
            continue;
        missing[i] = entry == NULL;
        if (entry == NULL && is_chosen_on(solver, plan->context) && default_applies(plan, solver))
            return NULL;
        if (entry != NULL && !tuning_is_near(entry, plan->context, &plan->problem))
            return NULL;
        if (entry == NULL || entry->from_rows < 0 || entry->from_rows > rows || entry->from_rows <= last)
            continue;
        last = entry->from_rows;
        best = solver;
        best_layer = layer;
    }
    return best != NULL && !missing_solver_was_faster(plan, missing, best_layer) ? best : NULL;
}

/* The solver with the strongest preference for the problem, or NULL. *most is that preference. */
static const struct solver *most_preferred(const struct clattn_plan *plan, enum preference *most)
{
    const struct device_facts facts = facts_of(plan->context, MOST_GROUP);
    const struct solver *solver = NULL;

    *most = PREFERENCE_NONE;
    for (int i = 0; solver_at(i) != NULL; i++) {
        const enum preference preference =
            solver_at(i)->prefers != NULL ? solver_at(i)->prefers(&facts, &plan->problem) : PREFERENCE_NONE;
        if (preference > *most) {
            *most = preference;
            solver = solver_at(i);
        }
    }
    return solver;
}

/* The solver that is tried before those of higher rank, or NULL. */
static const struct solver *first_tried(const struct clattn_plan *plan)
{
    const clattn_plan_desc *desc = &plan->problem.desc;
    enum preference most;
    const struct solver *preferred = most_preferred(plan, &most), *first = NULL;

    if (desc->chunk == 0 && most == PREFERENCE_FIRST)
        return preferred;
    if (desc->mode == CLATTN_MODE_AUTO && desc->chunk == 0) {
        first = measured_solver(plan);
        if (first == NULL && most != PREFERENCE_FIRST)
            first = preferred;
    }
    return first == NULL && most == PREFERENCE_IN_MODE ? preferred : first;
}

/* The solvers in the order in which they are tried. */
static struct ranking trial_order(const struct clattn_plan *plan)
{
    const struct solver *first = first_tried(plan);
    struct ranking all = rank_solvers(), order = {{first}};
    int count = first != NULL;

    for (int i = 0; all.solvers[i] != NULL; i++)
        if (all.solvers[i] != first)
            order.solvers[count++] = all.solvers[i];
    return order;
}

/* ---- Why there is none --------------------------------------------------------------------------------------------
 */

static int asks_for_states(const struct problem *problem)
{
    return problem->desc.state_window != 0 || problem->desc.state_every != 0;
}

static int lists_by_tokens(const struct problem *problem)
{
    return problem->desc.mode == CLATTN_MODE_RECURRENT && rule_has_list(problem->rule);
}

static int has_no_tokens(const struct problem *problem)
{
    return problem->desc.mode == CLATTN_MODE_RECURRENT && !rule_has_tokens(problem->rule);
}

static int has_no_chunks(const struct problem *problem)
{
    return problem->desc.mode == CLATTN_MODE_CHUNK && !rule_has_chunks(problem->rule);
}

static int states_without_chunks(const struct problem *problem)
{
    return !rule_has_chunks(problem->rule) && asks_for_states(problem);
}

static int states_within_chunks(const struct problem *problem)
{
    return problem->desc.mode == CLATTN_MODE_CHUNK && asks_for_states(problem);
}

static int reads_other_states(const struct problem *problem)
{
    return problem_reads_whole(problem) && problem_state_type(problem) != CLATTN_F32;
}

static int attn_of_writes(const struct problem *problem)
{
    return (problem->desc.flags & CLATTN_WITH_ATTN) && problem->rule->erase == ERASE_KERNEL;
}

/* What no device computes. The first row that applies is the reason. */
static const struct {
    int (*applies)(const struct problem *problem);
    const char *reason;
} refusals[] = {
    {lists_by_tokens,
     "mode recurrent is for rules whose state is a matrix; modes auto and chunk also take single tokens"},
    {has_no_tokens, "mode recurrent is for rules whose state is a matrix; use mode auto or chunk"},
    {has_no_chunks,
     "mode chunk is for rules whose chunks are matrix products; modes auto and recurrent take any length"},
    {states_without_chunks, "only the reference returns states before the end (state_window, state_every)"},
    {states_within_chunks,
     "mode chunk returns states only at the ends of chunks (state_every a multiple of chunk, no state_window): use "
     "mode auto"},
    {reads_other_states, "only the reference computes noncausal with states other than f32"},
    {attn_of_writes, "only the reference computes attn"},
};

/* least: bytes of the smallest workspace of a solver that fits; 0: none fits */
static clattn_status no_solver(const clattn_context *context, const struct problem *problem, int64_t least)
{
    const clattn_plan_desc *desc = &problem->desc;
    char turns[48] = "";

    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (refusals[i].applies(problem))
            return FAIL(&context->log, UNSUPPORTED, "%s: %s", problem->rule->name, refusals[i].reason);
    if (desc->workspace_limit != 0 && least > desc->workspace_limit)
        return FAIL(&context->log, UNSUPPORTED, "%s: workspace_limit is %lld bytes, at least %lld are needed",
                    problem->rule->name, (long long)desc->workspace_limit, (long long)least);
    if (context->device.loop_turns != 0)
        snprintf(turns, sizeof turns, ", %lld turns of loops", (long long)context->device.loop_turns);
    return FAIL(&context->log, UNSUPPORTED,
                "%s, key_dim %lld, value_dim %lld, chunk %d: no solver fits %s (%llu bytes of local memory%s)",
                problem->rule->name, (long long)desc->key_dim, (long long)desc->value_dim, desc->chunk,
                context->device.info.name, (unsigned long long)context->device.info.local_memory, turns);
}

/* ---- All solvers --------------------------------------------------------------------------------------------------
 */

/* Solves and, if the compiler refuses the kernels, logs that: another solver may still succeed. */
static clattn_status solve_and_report(struct clattn_plan *plan, const struct solver *solver)
{
    clattn_status status = solve(plan, solver);

    if (status == CLATTN_BUILD_FAILED)
        log_line(&plan->context->log, CLATTN_LOG_WARNING, "%s on %s: solver %s cannot be built: not used",
                 plan->problem.rule->name, plan->context->device.info.name, solver->space.name);
    return status;
}

/* One pass over the solvers, with the problem's chunk where the problem has one. */
static clattn_status choose_solver(struct clattn_plan *plan)
{
    const struct ranking order = trial_order(plan);
    clattn_mode mode = plan->problem.desc.mode;
    clattn_status status = CLATTN_UNSUPPORTED;

    for (const struct solver *const *solver = order.solvers; *solver != NULL && other_solver_may_succeed(status);
         solver++)
        if ((mode == CLATTN_MODE_AUTO || mode == (*solver)->mode) && is_chosen_on(*solver, plan->context))
            status = worse_status(status, solve_and_report(plan, *solver));
    return status;
}

/* Halves the chunk, for a problem whose chunk no solver can use. 0: it cannot be shorter. */
static int shorten_chunk(clattn_plan_desc *desc)
{
    if (desc->chunk <= 8)
        return 0;
    desc->chunk /= 2;
    return 1;
}

static clattn_status choose(struct clattn_plan *plan)
{
    clattn_status status;

    do
        status = choose_solver(plan);
    while (status == CLATTN_UNSUPPORTED && shorten_chunk(&plan->problem.desc));
    return status;
}

/* ---- Without a plan -----------------------------------------------------------------------------------------------
 */

/* Whether the solver can make a complete recipe, which includes the steps around it, and every matrix product of that
 * recipe has a provider. */
static int makes_recipe(clattn_context *context, const struct problem *problem, const struct solver *solver,
                        int64_t most_group, int64_t *least)
{
    struct problem limited = *problem;
    const struct device_facts facts = facts_of(context, most_group);
    struct ir_recipe ir = {0};
    struct built built = {0};
    const struct log no_log = {NULL, NULL};
    const struct planner planner = {context, &no_log, planner_choose_untried};
    struct builder builder = {.ir = &ir, .built = &built, .problem = problem, .facts = &facts, .planner = &planner};
    const int has_providers = build_within_limit(&builder, &limited, solver, NULL, least) == CLATTN_SUCCESS;

    ir_close(&ir);
    built_free(&built);
    return has_providers;
}

/* Tries the heuristic's group size, then smaller ones. */
static int has_recipe(clattn_context *context, const struct problem *problem, const struct solver *solver,
                      int64_t *least)
{
    int most_group = (int)lower(MOST_GROUP, (int64_t)context->device.info.max_work_group), has;

    do {
        has = makes_recipe(context, problem, solver, most_group, least);
        most_group /= 2;
    } while (!has && most_group >= 1 && !context->device.serial);
    return has;
}

clattn_status plan_supports(clattn_context *context, const struct problem *problem)
{
    clattn_mode mode = problem->desc.mode;
    struct problem shorter = *problem;
    int64_t least = 0;

    do
        for (int i = 0; solver_at(i) != NULL; i++)
            if ((mode == CLATTN_MODE_AUTO || mode == solver_at(i)->mode) && is_chosen_on(solver_at(i), context) &&
                has_recipe(context, &shorter, solver_at(i), &least))
                return CLATTN_SUCCESS;
    while (shorten_chunk(&shorter.desc));
    return no_solver(context, problem, least);
}

/* ---- Exactly what is asked for ------------------------------------------------------------------------------------
 */

/* Binds exactly the point that the caller gave. A default point stands for the heuristic's tiles. */
static clattn_status bind_exactly(struct clattn_plan *plan, const struct tuned *forced)
{
    const struct solver *solver = solver_find(forced->space->name);
    const struct choice choice = {solver, forced, (int)plan->context->device.info.max_work_group, "the caller"};

    return tuned_is_default(forced) ? solve_by_heuristic(plan, solver, try) : try(plan, &choice);
}

/* While solvers are tried, errors are logged as warnings. They become errors if no solver succeeds. */
clattn_status plan_choose(struct clattn_plan *plan, const struct tuned *forced)
{
    struct log_tried tried = {plan->context->log, ""};
    clattn_status status;

    if (forced != NULL)
        return bind_exactly(plan, forced);
    plan->log = (struct log){log_try, &tried};
    status = choose(plan);
    plan->log = plan->context->log;
    if (status == CLATTN_UNSUPPORTED)
        return no_solver(plan->context, &plan->problem, plan->least_workspace);
    if (status != CLATTN_SUCCESS)
        log_give_up(&tried);
    else
        program_keep(plan->context);
    return status;
}
