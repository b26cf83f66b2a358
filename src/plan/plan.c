/* The life of a plan: open, bind, query, enqueue, destroy. Its solver is chosen in choose.c. */
#include "plan/plan.h"

#include "base/sized.h"
#include "base/system.h"
#include "base/text.h"
#include "plan/gemm.h"
#include "plan/probe.h"
#include "plan/verbose.h"

#include <stdlib.h>
#include <string.h>

/* ---- Binding ------------------------------------------------------------------------------------------------------
 */

/* What a solver may know of the context's device. */
static struct device_facts facts_of(const struct clattn_plan *plan, int most_group)
{
    return (struct device_facts){
        .device = &plan->context->device, .engine = plan->context->engine, .most_group = most_group};
}

/* If the solver uses a matrix engine and the problem has 16-bit elements, probes the engine. UNSUPPORTED: the engine
 * computes wrong products. If only its teams do, a solver that can work without teams is told so. */
static clattn_status probe_for(const struct clattn_plan *plan, struct device_facts *facts)
{
    const struct solver *solver = plan->solver;
    clattn_status status;

    if (!solver->space.engine || plan->problem.desc.dtype == CLATTN_F32)
        return CLATTN_SUCCESS;
    if (!solver->applies(solver, facts, &plan->problem))
        return CLATTN_UNSUPPORTED;
    if (solver->team == TEAM_ALWAYS)
        return probe_engine(plan->context, &plan->problem, 1);
    TRY(probe_engine(plan->context, &plan->problem, 0));
    if (solver->team == TEAM_NEVER || !has_teams(facts))
        return CLATTN_SUCCESS;
    status = probe_engine(plan->context, &plan->problem, 1);
    facts->teamless = status == CLATTN_UNSUPPORTED;
    return facts->teamless ? CLATTN_SUCCESS : status;
}

static clattn_status make_recipe(struct clattn_plan *plan, struct builder *b, struct device_facts *facts,
                                 const struct tuned *tuned)
{
    const struct solver *solver = plan->solver;
    int *tiles = calloc(1, solver->tiles_size);
    clattn_status status = tiles != NULL ? probe_for(plan, facts) : CLATTN_OUT_OF_MEMORY;

    if (status == CLATTN_SUCCESS && b->like == NULL)
        status = solver_tiles(solver, b->facts, b->problem, tuned, tiles);
    if (status == CLATTN_SUCCESS)
        status = build_within_limit(b, &plan->problem, solver, b->like == NULL ? tiles : NULL, &plan->least_workspace);
    free(tiles);
    return status;
}

clattn_status plan_bind(struct clattn_plan *plan, const struct solver *solver, const struct tuned *tuned,
                        const struct clattn_plan *like, int most_group)
{
    struct device_facts facts = facts_of(plan, most_group);
    const struct planner planner = {plan->context, &plan->log, planner_choose};
    struct builder builder = {.ir = &plan->bound.ir,
                              .built = &plan->bound.built,
                              .like = like != NULL ? &like->bound.built : NULL,
                              .problem = &plan->problem,
                              .facts = &facts,
                              .head_decay = plan->head_decay,
                              .planner = &planner};

    bound_drop(&plan->bound);
    plan->solver = solver;
    plan->problem.span = like != NULL && like->problem.span != 0;
    plan->has_recipe = 0;
    TRY(make_recipe(plan, &builder, &facts, tuned));
    plan->has_recipe = 1;
    return bound_build(&plan->bound, &plan->log);
}

const struct child *plan_child(const struct clattn_plan *plan)
{
    return &plan->bound.built.children[plan->bound.built.own];
}

/* ---- Opening ------------------------------------------------------------------------------------------------------
 */

/* Creates the buffer of log-decays that the rule fixes for each head. */
static clattn_status make_head_decay(struct clattn_plan *plan)
{
    const clattn_plan_desc *desc = &plan->problem.desc;
    int64_t heads = problem_work_heads(&plan->problem);
    float *decay;
    clattn_status status;

    if (plan->problem.rule->head_decay == NULL)
        return CLATTN_SUCCESS;
    decay = malloc((size_t)heads * sizeof *decay);
    if (decay == NULL)
        return CLATTN_OUT_OF_MEMORY;
    for (int64_t h = 0; h < heads; h++)
        decay[h] = (float)plan->problem.rule->head_decay(desc, h);
    status = opencl_create_buffer(&plan->log, plan->context->device.cl, plan->context->cl,
                                  CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, (size_t)heads * sizeof *decay, decay,
                                  &plan->head_decay);
    free(decay);
    return status;
}

static clattn_status fill(struct clattn_plan *plan, const clattn_plan_desc *desc, size_t desc_size)
{
    TRY(problem_read(&plan->problem, desc, desc_size, &plan->log));
    TRY(problem_check_kernels(&plan->problem, &plan->log));
    plan_find_usual(plan);
    return make_head_decay(plan);
}

clattn_status plan_finish_create(clattn_plan **plan, clattn_status status)
{
    if (status != CLATTN_SUCCESS) {
        clattn_plan_destroy(*plan);
        *plan = NULL;
    }
    return status;
}

clattn_status plan_open(clattn_plan **plan, clattn_context *context, const clattn_plan_desc *desc, size_t desc_size)
{
    *plan = calloc(1, sizeof **plan);
    if (*plan == NULL)
        return CLATTN_OUT_OF_MEMORY;
    (*plan)->context = context;
    (*plan)->log = context->log;
    bound_open(&(*plan)->bound, context);
    return plan_finish_create(plan, fill(*plan, desc, desc_size));
}

clattn_status plan_create_sharing(clattn_plan **plan, const clattn_plan_desc *desc, const struct clattn_plan *like)
{
    TRY(plan_open(plan, like->context, desc, sizeof *desc));
    (*plan)->log = like->log;
    return plan_finish_create(plan, plan_bind(*plan, like->solver, NULL, like, 0));
}

void clattn_plan_destroy(clattn_plan *plan)
{
    if (plan == NULL)
        return;
    bound_close(&plan->bound);
    if (plan->head_decay != NULL)
        plan->context->device.cl->ReleaseMemObject(plan->head_decay);
    free(plan->tiles_by);
    free(plan);
}

/* ---- Queries ------------------------------------------------------------------------------------------------------
 */

static size_t bytes_of(const clattn_plan *plan, enum ir_home home)
{
    return (size_t)plan->bound.ir.bytes[home];
}

clattn_status clattn_plan_workspace_size(const clattn_plan *plan, size_t *bytes)
{
    if (plan == NULL || bytes == NULL)
        return CLATTN_INVALID_ARGUMENT;
    *bytes = bytes_of(plan, IR_SCRATCH);
    return CLATTN_SUCCESS;
}

static int32_t reported_chunk(struct reach reach)
{
    return (int32_t)(reach.reported != 0 ? reach.reported : reach.chunk);
}

/* Tokens that are computed together: a chunk, a learner's mini-batch, or 1. */
static int32_t tokens_at_once(const clattn_plan *plan)
{
    const struct child *child = plan_child(plan);

    return reported_chunk(child->solver->reach(&plan->problem, child->shape));
}

/* The name of the matrix engine that the solver uses, or NULL. */
static const char *solver_engine(const clattn_plan *plan)
{
    return plan->solver->space.engine && plan->context->engine != NULL ? plan->context->engine->name : NULL;
}

clattn_status clattn_plan_get_sized(const clattn_plan *plan, clattn_plan_info *info, size_t info_size)
{
    clattn_plan_info ours;

    if (plan == NULL || info == NULL)
        return CLATTN_INVALID_ARGUMENT;
    ours = (clattn_plan_info){.desc = &plan->problem.desc,
                              .solver = plan->solver->space.name,
                              .tiles_by = plan->tiles_by,
                              .engine = solver_engine(plan),
                              .mode = plan->solver->mode,
                              .chunk = tokens_at_once(plan),
                              .launches = (int32_t)plan_launches(plan),
                              .rejected = plan->rejected,
                              .workspace_bytes = bytes_of(plan, IR_SCRATCH),
                              .saved_bytes = bytes_of(plan, IR_SAVED)};
    sized_write(info, info_size, &ours, sizeof ours);
    return CLATTN_SUCCESS;
}

/* The number of the child's own kernels before a step. */
static int kernels_before(const struct clattn_plan *plan, const struct child *child, int step)
{
    int kernels = 0;

    for (int i = child->first; i < step; i++)
        kernels += built_product_of(&plan->bound.built, i) == NULL;
    return kernels;
}

static void describe_product(struct text *text, const struct built_product *product)
{
    const clattn_gemm_desc *d = &product->gemm.desc;

    text_format(text, "%lld x %lld x %lld of a head, by %s\n", (long long)d->m, (long long)d->n, (long long)d->k,
                product->choice.way->provider);
}

static const char *step_name(const struct clattn_plan *plan, int step)
{
    return built_product_of(&plan->bound.built, step) != NULL ? "gemm" : plan->bound.built.steps[step].name;
}

/* Writes the tiles and sizes that follow a kernel's name. */
static void describe_step(struct text *text, const struct clattn_plan *plan, int step)
{
    const struct built_product *product = built_product_of(&plan->bound.built, step);
    const struct child *innermost = NULL;

    if (product != NULL) {
        describe_product(text, product);
        return;
    }
    for (int i = 0; i < plan->bound.built.child_count; i++) {
        const struct child *child = &plan->bound.built.children[i];
        if (step >= child->first && step < child->first + child->count)
            innermost = child; /* a child stands behind the one that added it */
    }
    innermost->solver->describe(text, innermost->shape, kernels_before(plan, innermost, step));
}

void plan_write_steps(struct text *text, const struct clattn_plan *plan)
{
    const clattn_plan_desc *d = &plan->problem.desc;
    int list = rule_has_list(plan->problem.rule), shares = list || d->kv_heads != d->heads;

    text_format(text, "%s %s, B=%lld T=%lld H=%lld %s=%lld K=%lld V=%lld, on %s\n", plan->problem.rule->name,
                dtype_name(d->dtype), (long long)d->batch, (long long)d->seq_len, (long long)d->heads,
                shares ? "HK" : "HQ", (long long)(shares ? d->kv_heads : d->qk_heads), (long long)d->key_dim,
                (long long)d->value_dim, plan->context->device.info.name);
    if (list && (d->kv_len != 0 || d->window != 0))
        text_format(text, "keys %lld, window %lld\n", (long long)problem_most(&plan->problem).kv_len,
                    (long long)d->window);
    text_format(text, "solver %s, tiles by %s\n", plan->solver->space.name, plan->tiles_by);
    for (int i = 0; i < plan->bound.built.step_count; i++) {
        text_format(text, "  %-10s ", step_name(plan, i));
        describe_step(text, plan, i);
    }
}

void plan_write_workspace(struct text *text, const struct ir_recipe *recipe)
{
    for (int i = 0; i < recipe->tensor_count; i++)
        if (recipe->tensors[i].home == IR_SCRATCH && recipe->tensors[i].bytes > 0)
            text_format(text, "  workspace: %s at byte %lld\n", recipe->tensors[i].name,
                        (long long)recipe->tensors[i].at);
    text_format(text, "  workspace: %lld bytes\n", (long long)recipe->bytes[IR_SCRATCH]);
}

char *plan_text(const struct clattn_plan *plan)
{
    struct text text = {0};

    plan_write_steps(&text, plan);
    plan_write_workspace(&text, &plan->bound.ir);
    return text_take(&text);
}

clattn_status clattn_plan_describe(const clattn_plan *plan, char *text, size_t size)
{
    char *whole;

    if (plan == NULL || text == NULL || size == 0)
        return CLATTN_INVALID_ARGUMENT;
    whole = plan_text(plan);
    if (whole == NULL)
        return CLATTN_OUT_OF_MEMORY;
    text_fit(text, size, "%s", whole);
    free(whole);
    return CLATTN_SUCCESS;
}

/* Whether there are n_wait events and none of them is NULL. */
static int are_events(uint32_t n_wait, const cl_event *wait)
{
    if ((n_wait > 0) != (wait != NULL))
        return 0;
    for (uint32_t i = 0; i < n_wait; i++)
        if (wait[i] == NULL)
            return 0;
    return 1;
}

/* With a line on stderr when the call is done. */
static clattn_status enqueue_verbosely(clattn_plan *plan, cl_command_queue queue, const struct arguments *arguments,
                                       uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    const double begin = now_seconds();
    cl_event own = NULL, *done = event != NULL ? event : &own;

    TRY(plan_run(plan, queue, arguments, n_wait, wait, done));
    if (*done != NULL)
        verbose_enqueued(plan, arguments, begin, *done);
    if (own != NULL)
        plan->context->device.cl->ReleaseEvent(own);
    return CLATTN_SUCCESS;
}

clattn_status clattn_enqueue_sized(clattn_plan *plan, cl_command_queue queue, const clattn_call *call, size_t call_size,
                                   size_t operand_size, uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    struct arguments arguments;

    if (event != NULL)
        *event = NULL;
    if (plan == NULL)
        return CLATTN_INVALID_ARGUMENT;
    if (queue == NULL || call == NULL)
        return FAIL(&plan->log, INVALID_ARGUMENT, "%s is NULL", queue == NULL ? "queue" : "call");
    if (!are_events(n_wait, wait))
        return FAIL(&plan->log, INVALID_ARGUMENT, "wait does not hold %u events", (unsigned)n_wait);
    TRY(arguments_read(&arguments, &plan->problem, call, call_size, operand_size, &plan->log));
    if (plan->verbose)
        return enqueue_verbosely(plan, queue, &arguments, n_wait, wait, event);
    return plan_run(plan, queue, &arguments, n_wait, wait, event);
}
