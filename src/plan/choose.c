/* Which solver a plan takes, and with which tiles: measured ones where there are any and they pass the self-test, then
 * those of the rule of thumb, then the other solvers. */
#include "plan/plan.h"

#include "device/program.h"
#include "plan/gemm.h"
#include "tune/tiles.h"
#include "tune/tuning_layers.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_GROUP = 256 /* of the heuristic */ };

/* Every solver, those of the highest rank first, closed by NULL. */
struct ranking {
    const struct solver *solvers[MAX_SPACES + 1];
};

static struct ranking rank_all(void)
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

/* What a solver may know of the context's device, in groups of at most so many work-items. */
static struct device_facts facts_of(const struct clattn_context *context, int64_t most_group)
{
    const int64_t device = (int64_t)context->device.info.max_work_group;

    return (struct device_facts){
        .device = &context->device, .engine = context->engine, .most_group = lower(most_group, device)};
}

/* Whether any kernel of the solver is for work-items that share a tile. */
static int is_shared(const struct solver *solver)
{
    uint64_t kernels = space_kernels(&solver->space);

    if (!solver->old)
        return solver->shared;
    for (int id = 0; id < KERNEL_COUNT; id++)
        if (kernels >> id & 1 && kernel_family((enum kernel_id)id)->shared)
            return 1;
    return 0;
}

/* Whether the device is of those that the solver is for. Not yet of Intel's: states and prepare_blocks keep private
 * memory there, and nobody has measured what that costs. An engine is asked for, or the device's own. */
static int is_for(const struct solver *solver, const struct clattn_context *context)
{
    return (solver->space.engine && context->engine != NULL) || !is_shared(solver) ||
           (!context->device.serial && context->device.sub_group == 0);
}

int plan_chooses(const clattn_context *context, const struct space *space)
{
    return is_for(solver_find(space->name), context);
}

/* ---- One try ------------------------------------------------------------------------------------------------------
 */

/* The tiles of a try: those of a measured entry, or by rule of thumb in groups of at most so many work-items. */
struct choice {
    const struct solver *solver;
    const struct tuned *tuned; /* NULL: rule of thumb */
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

/* The same, and then the self-test. */
static clattn_status try_tested(struct clattn_plan *plan, const struct choice *choice)
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

/* Whether another way may do where one has failed. */
static int may_go_on(clattn_status status)
{
    return status == CLATTN_UNSUPPORTED || status == CLATTN_DEVICE_ERROR;
}

/* The same of another solver: its kernels may be those that a compiler takes. */
static int may_go_on_otherwise(clattn_status status)
{
    return may_go_on(status) || status == CLATTN_BUILD_FAILED;
}

/* Of two tries that failed, the one to report: what the device says comes before what does not fit it. */
static clattn_status graver(clattn_status before, clattn_status status)
{
    return status == CLATTN_UNSUPPORTED ? before : status;
}

/* ---- All tries ----------------------------------------------------------------------------------------------------
 */

/* Whether smaller groups may do. An error before there is a recipe is of the probe of the engine, whose groups do not
 * change. */
static int may_shrink(const struct clattn_plan *plan, clattn_status status)
{
    return may_go_on(status) && (status == CLATTN_UNSUPPORTED || plan->has_recipe) && !plan->context->device.serial;
}

/* Halves the groups until the device takes the kernels. */
static clattn_status solve_by_thumb(struct clattn_plan *plan, const struct solver *solver,
                                    clattn_status (*attempt)(struct clattn_plan *plan, const struct choice *choice))
{
    const clattn_device_info *info = &plan->context->device.info;
    struct choice choice = {solver, NULL, info->max_work_group < MOST_GROUP ? (int)info->max_work_group : MOST_GROUP,
                            "rule of thumb"};
    clattn_status status = CLATTN_UNSUPPORTED;

    do {
        status = graver(status, attempt(plan, &choice));
        choice.most_group /= 2;
    } while (may_shrink(plan, status) && choice.most_group >= 1);
    return status;
}

/* The measured entry of a solver for the plan's problem; NULL. An entry of another driver needs the self-test. */
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
        if (try_tested(plan, &choice) == CLATTN_SUCCESS)
            return CLATTN_SUCCESS;
    }
    return solve_by_thumb(plan, solver, try_tested);
}

/* Whether the device can have the solver's default. */
static int may_apply(const struct clattn_plan *plan, const struct solver *solver)
{
    const struct tuned usual = tuned_default(&solver->space);
    const struct device_facts facts = facts_of(plan->context, MOST_GROUP);
    struct tiles tiles[KERNEL_COUNT];

    return solver->old ? tuning_point_tiles(plan->context, &plan->problem, &usual, tiles)
                       : solver_can(solver, &facts, &plan->problem);
}

/* Whether what was measured was beside a solver that was faster and does not apply. Measurements of a later layer are
 * not those that decide. */
static int was_faster(const struct clattn_plan *plan, const int *missing, int layer)
{
    for (int i = 0; solver_at(i) != NULL; i++)
        if (missing[i] && tuning_was_first(plan->context, &plan->problem, space_at(i), layer))
            return 1;
    return 0;
}

/* Where all that apply are measured, of heads like the problem's, which move the lengths from which each is ahead: the
 * solver whose rows begin last before the problem's. */
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
        if (entry == NULL && is_for(solver, plan->context) && may_apply(plan, solver))
            return NULL;
        if (entry != NULL && !tuning_is_near(entry, plan->context, &plan->problem))
            return NULL;
        if (entry == NULL || entry->from_rows < 0 || entry->from_rows > rows || entry->from_rows <= last)
            continue;
        last = entry->from_rows;
        best = solver;
        best_layer = layer;
    }
    return best != NULL && !was_faster(plan, missing, best_layer) ? best : NULL;
}

/* The solver that prefers the problem most, and how much; NULL: none. */
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

/* The solver that is tried before those of a higher rank; NULL: none. */
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
static struct ranking order_of(const struct clattn_plan *plan)
{
    const struct solver *first = first_tried(plan);
    struct ranking all = rank_all(), order = {{first}};
    int count = first != NULL;

    for (int i = 0; all.solvers[i] != NULL; i++)
        if (all.solvers[i] != first)
            order.solvers[count++] = all.solvers[i];
    return order;
}

static clattn_status no_solver(const clattn_context *context, const struct problem *problem)
{
    const clattn_plan_desc *desc = &problem->desc;

    if (desc->mode == CLATTN_MODE_RECURRENT && rule_has_list(problem->rule))
        return FAIL(&context->log, UNSUPPORTED,
                    "%s: mode recurrent is for rules whose state is a matrix; modes auto and chunk take one token, too",
                    problem->rule->name);
    if (desc->mode == CLATTN_MODE_RECURRENT && !rule_has_tokens(problem->rule))
        return FAIL(&context->log, UNSUPPORTED,
                    "%s: mode recurrent is for rules whose state is a matrix; modes auto and chunk learn from batches "
                    "of tokens",
                    problem->rule->name);
    if (desc->mode == CLATTN_MODE_CHUNK && !rule_has_chunks(problem->rule))
        return FAIL(
            &context->log, UNSUPPORTED,
            "%s: mode chunk is for rules whose decay leaves products of matrices; modes auto and recurrent take any "
            "length",
            problem->rule->name);
    if (!rule_has_chunks(problem->rule) && (desc->state_window != 0 || desc->state_every != 0))
        return FAIL(
            &context->log, UNSUPPORTED,
            "%s: states are left at the end alone (state_window %lld, state_every %lld): the reference has others",
            problem->rule->name, (long long)desc->state_window, (long long)desc->state_every);
    if (desc->mode == CLATTN_MODE_CHUNK && (desc->state_window != 0 || desc->state_every != 0))
        return FAIL(
            &context->log, UNSUPPORTED,
            "%s: mode chunk has no states but at the ends of chunks (state_window %lld, state_every %lld, chunk "
            "%d): mode auto has them",
            problem->rule->name, (long long)desc->state_window, (long long)desc->state_every, desc->chunk);
    if (problem_reads_whole(problem) && problem_state_type(problem) != CLATTN_F32)
        return FAIL(&context->log, UNSUPPORTED, "%s: noncausal, and so f32 states alone: the reference has others",
                    problem->rule->name);
    if ((desc->flags & CLATTN_WITH_ATTN) && problem->rule->erase == ERASE_KERNEL)
        return FAIL(&context->log, UNSUPPORTED, "%s: attn is the reference's alone", problem->rule->name);
    return FAIL(&context->log, UNSUPPORTED,
                "%s, key_dim %lld, value_dim %lld, chunk %d: no solver fits %s (%llu bytes of local memory)",
                problem->rule->name, (long long)desc->key_dim, (long long)desc->value_dim, desc->chunk,
                context->device.info.name, (unsigned long long)context->device.info.local_memory);
}

/* What a solver comes to; a compiler that refuses it is worth a line, for another solver may do. */
static clattn_status solve_or_say(struct clattn_plan *plan, const struct solver *solver)
{
    clattn_status status = solve(plan, solver);

    if (status == CLATTN_BUILD_FAILED)
        log_line(&plan->context->log, CLATTN_LOG_WARNING, "%s on %s: solver %s cannot be built: not used",
                 plan->problem.rule->name, plan->context->device.info.name, solver->space.name);
    return status;
}

/* Of the problem's chunk, where it asks for one. */
static clattn_status choose_solver(struct clattn_plan *plan)
{
    const struct ranking order = order_of(plan);
    clattn_mode mode = plan->problem.desc.mode;
    clattn_status status = CLATTN_UNSUPPORTED;

    for (const struct solver *const *solver = order.solvers; *solver != NULL && may_go_on_otherwise(status); solver++)
        if ((mode == CLATTN_MODE_AUTO || mode == (*solver)->mode) && is_for(*solver, plan->context))
            status = graver(status, solve_or_say(plan, *solver));
    return status;
}

/* A shorter chunk, where the one asked for fits nothing; 0: there is none. */
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

/* Whether the solver and what the problem asks for around it make a recipe, whose products something computes. */
static int makes_recipe(clattn_context *context, const struct problem *problem, const struct solver *solver,
                        int64_t most_group)
{
    const struct device_facts facts = facts_of(context, most_group);
    struct ir_recipe ir = {0};
    struct built built = {0};
    const struct log no_log = {NULL, NULL};
    const struct planner planner = {context, &no_log, planner_choose_untried};
    struct builder builder = {.ir = &ir, .built = &built, .problem = problem, .facts = &facts, .planner = &planner};
    const int made = build_recipe(&builder, solver, NULL) == CLATTN_SUCCESS;

    ir_close(&ir);
    built_free(&built);
    return made;
}

static clattn_status make_dry(const struct solver *solver, const struct recipe_maker *maker)
{
    if (solver->old)
        return solver_make(solver, maker);
    if (!makes_recipe(maker->context, maker->problem, solver, maker->most_group))
        return CLATTN_UNSUPPORTED;
    return solver_has_behind(maker->problem) ? solver_make_behind(maker) : CLATTN_SUCCESS;
}

/* In groups of as many work-items as the heuristic takes, or fewer. */
static int has_recipe(clattn_context *context, const struct problem *problem, const struct solver *solver)
{
    struct recipe recipe = {0};
    struct recipe_maker maker = {context, problem, NULL, NULL, (int)context->device.info.max_work_group, &recipe, 1};
    clattn_status status;

    if (maker.most_group > MOST_GROUP)
        maker.most_group = MOST_GROUP;
    do {
        status = recipe_open(&recipe);
        if (status == CLATTN_SUCCESS)
            status = make_dry(solver, &maker);
        maker.most_group /= 2;
    } while (status == CLATTN_UNSUPPORTED && maker.most_group >= 1 && !context->device.serial);
    recipe_close(&recipe);
    return status == CLATTN_SUCCESS;
}

clattn_status plan_supports(clattn_context *context, const struct problem *problem)
{
    clattn_mode mode = problem->desc.mode;
    struct problem shorter = *problem;

    do
        for (int i = 0; solver_at(i) != NULL; i++)
            if ((mode == CLATTN_MODE_AUTO || mode == solver_at(i)->mode) && is_for(solver_at(i), context) &&
                has_recipe(context, &shorter, solver_at(i)))
                return CLATTN_SUCCESS;
    while (shorten_chunk(&shorter.desc));
    return no_solver(context, problem);
}

/* ---- Exactly what is asked for ------------------------------------------------------------------------------------
 */

/* Exactly what is asked for; a point of nothing is the rule of thumb's. */
static clattn_status take(struct clattn_plan *plan, const struct tuned *forced)
{
    const struct solver *solver = solver_find(forced->space->name);
    const struct choice choice = {solver, forced, (int)plan->context->device.info.max_work_group, "the caller"};

    return tuned_is_default(forced) ? solve_by_thumb(plan, solver, try) : try(plan, &choice);
}

/* What keeps one solver from being used is an error where none is. */
clattn_status plan_choose(struct clattn_plan *plan, const struct tuned *forced)
{
    struct log_tried tried = {plan->context->log, ""};
    clattn_status status;

    if (forced != NULL)
        return take(plan, forced);
    plan->log = (struct log){log_try, &tried};
    status = choose(plan);
    plan->log = plan->context->log;
    if (status == CLATTN_UNSUPPORTED)
        return no_solver(plan->context, &plan->problem);
    if (status != CLATTN_SUCCESS)
        log_give_up(&tried);
    else
        program_keep(plan->context);
    return status;
}
