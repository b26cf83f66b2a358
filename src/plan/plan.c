/* From a problem to launches. */
#include "plan/plan.h"

#include "kernel/matrix.h"
#include "plan/tuning.h"

#include <stdlib.h>
#include <string.h>

static struct source operand(clattn_operand_id id)
{
    return (struct source){SOURCE_OPERAND, (int)id};
}

static struct source section(enum section index)
{
    return (struct source){SOURCE_SECTION, (int)index};
}

/* Roles that hold the operand of the same meaning for every rule that has it. */
static const struct {
    enum role role;
    clattn_operand_id operand;
} plain_roles[] = {
    {ROLE_q, CLATTN_OPERAND_q},
    {ROLE_k, CLATTN_OPERAND_k},
    {ROLE_v, CLATTN_OPERAND_v},
    {ROLE_o, CLATTN_OPERAND_o},
    {ROLE_gv, CLATTN_OPERAND_gv},
    {ROLE_beta, CLATTN_OPERAND_beta},
    {ROLE_u, CLATTN_OPERAND_u},
    {ROLE_f, CLATTN_OPERAND_f},
    {ROLE_i, CLATTN_OPERAND_i},
    {ROLE_cu, CLATTN_OPERAND_cu_seqlens},
    {ROLE_initial, CLATTN_OPERAND_initial_state},
    {ROLE_final, CLATTN_OPERAND_final_state},
};

static const struct {
    clattn_operand_id p, e;
} erase_roles[] = {[ERASE_NONE] = {NO_OPERAND, NO_OPERAND},
                   [ERASE_KEY] = {NO_OPERAND, NO_OPERAND},
                   [ERASE_OPERAND] = {CLATTN_OPERAND_p, NO_OPERAND},
                   [ERASE_GATED] = {CLATTN_OPERAND_b, NO_OPERAND},
                   [ERASE_LOW_RANK] = {CLATTN_OPERAND_a, CLATTN_OPERAND_b}};

static int uses(const struct problem *problem, clattn_operand_id id)
{
    for (int i = 0; i < problem->operand_count; i++)
        if (problem->operands[i].id == id)
            return 1;
    return 0;
}

static void bind_role(struct clattn_plan *plan, enum role role, clattn_operand_id id)
{
    if (id != NO_OPERAND && uses(&plan->problem, id))
        plan->sources[role] = operand(id);
}

/* What the rule's roles stand for. */
static void bind_roles(struct clattn_plan *plan)
{
    const struct rule *rule = plan->problem.rule;

    for (size_t i = 0; i < sizeof plain_roles / sizeof *plain_roles; i++)
        bind_role(plan, plain_roles[i].role, plain_roles[i].operand);
    bind_role(plan, ROLE_g, rule->gate);
    bind_role(plan, ROLE_p, erase_roles[rule->erase].p);
    bind_role(plan, ROLE_e, erase_roles[rule->erase].e);
    if (rule->write == WRITE_GATED)
        bind_role(plan, ROLE_w, CLATTN_OPERAND_w);
    if (rule->head_decay != NULL)
        plan->sources[ROLE_g].kind = SOURCE_FIXED;
    if (problem_stabilized(&plan->problem)) {
        plan->sources[ROLE_g] = plan->sources[ROLE_decay] = section(SECTION_DECAY);
        plan->sources[ROLE_beta] = plan->sources[ROLE_strength] = section(SECTION_STRENGTH);
        plan->sources[ROLE_m] = section(SECTION_M);
    }
}

/* ---- Passes and variants ------------------------------------------------------------------------------------------ */

int plan_passes(const struct clattn_plan *plan, struct pass passes[2])
{
    int count = 0;

    if (problem_normalized(&plan->problem))
        passes[count++].normalizer = 1;
    passes[count++].normalizer = 0;
    return count;
}

/* The storage of what a variant's gate roles stand for: the caller's, or f32 where the library makes the gates. */
static const char *gate_type(const struct clattn_plan *plan, enum kernel_id kernel)
{
    int made = plan->sources[ROLE_g].kind == SOURCE_SECTION || plan->sources[ROLE_g].kind == SOURCE_FIXED;

    return dtype_name(made && kernel != KERNEL_STABILIZE ? CLATTN_F32 : plan->problem.desc.gate_dtype);
}

struct variant plan_variant(const struct clattn_plan *plan, enum kernel_id kernel, struct pass pass)
{
    const clattn_plan_desc *desc = &plan->problem.desc;
    struct variant variant = {
        .kernel = kernel, .problem = &plan->problem, .gate = gate_type(plan, kernel), .engine = plan->context->engine};

    if (pass.normalizer) {
        variant.out = "f32";
        variant.value = "value_ones.clh";
        variant.output = problem_stabilized(&plan->problem) ? "output_stable.clh" : "output_sum.clh";
        variant.value_dim = 1;
        variant.value_ones = 1;
        return variant;
    }
    variant.out = dtype_name(desc->dtype);
    variant.value = plan->problem.rule->write == WRITE_GATED ? "value_gated.clh" : "value_plain.clh";
    variant.output = problem_normalized(&plan->problem) ? "output_divided.clh" : "output_plain.clh";
    variant.value_dim = (int)desc->value_dim;
    variant.state_vk = (desc->flags & CLATTN_STATE_VK) != 0;
    return variant;
}

/* A launch's sources: the rule's, but for what the pass changes. */
static void bind_pass(struct clattn_plan *plan, struct launch *launch, struct pass pass)
{
    memcpy(launch->sources, plan->sources, sizeof launch->sources);
    if (pass.normalizer) {
        launch->sources[ROLE_o] = section(SECTION_DEN);
        launch->sources[ROLE_den] = section(SECTION_M);
        if (launch->sources[ROLE_initial].kind != SOURCE_NONE)
            launch->sources[ROLE_initial] = operand(CLATTN_OPERAND_initial_normalizer);
        if (launch->sources[ROLE_final].kind != SOURCE_NONE)
            launch->sources[ROLE_final] = operand(CLATTN_OPERAND_final_normalizer);
    } else if (problem_normalized(&plan->problem))
        launch->sources[ROLE_den] = section(SECTION_DEN);
    if (launch->id == KERNEL_STABILIZE) {
        if (launch->sources[ROLE_initial].kind != SOURCE_NONE)
            launch->sources[ROLE_initial] = operand(CLATTN_OPERAND_initial_stabilizer);
        if (launch->sources[ROLE_final].kind != SOURCE_NONE)
            launch->sources[ROLE_final] = operand(CLATTN_OPERAND_final_stabilizer);
    }
}

static void describe_matrix_launch(struct text *text, const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;

    text_format(text, "  %-10s group %d, chunk %d", kernel_name(variant->kernel), t->group, t->chunk);
    if (variant->kernel == KERNEL_SCAN_MATRIX)
        text_format(text,
                    ", value tile %d by %d sub-groups, key split %d, readers %d, loaders %d, depth %d, stages %d, "
                    "segments %d%s",
                    t->block_v, t->value_tiles, t->key_split, t->readers * t->value_tiles, t->loaders,
                    matrix_depth(variant), t->stages, t->segments, variant->gather ? ", gathers" : "");
    text_format(text, ", local %zu bytes\n", kernel_local_bytes(variant));
}

static void describe_launch(struct text *text, const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;

    if (matrix_kernel(variant->kernel)) {
        describe_matrix_launch(text, variant);
        return;
    }
    text_format(text,
                "  %-10s group %d, vec %d, chunk %d, key slice %d, value tile %d, key lanes %d, local %zu bytes\n",
                kernel_name(variant->kernel), t->group, t->vec, t->chunk, t->block_k, t->block_v, t->lanes_k,
                kernel_local_bytes(variant));
}

clattn_status plan_tiles(const struct clattn_plan *plan, struct variant *variant, int most_group)
{
    const struct tuned *tuned = plan->tuned.solver != NULL ? &plan->tuned : NULL;

    if (plan->like == NULL)
        return tuning_tiles(&plan->context->device, tuned, variant, most_group);
    variant->tiles = plan->like->launches[plan->launch_count].tiles;
    return CLATTN_SUCCESS;
}

static int value_tiles(const struct variant *variant, enum grid grid)
{
    return grid == GRID_SLOTS ? 1 : (variant->value_dim + variant->tiles.block_v - 1) / variant->tiles.block_v;
}

clattn_status plan_add(struct clattn_plan *plan, struct variant *variant, struct pass pass, enum grid grid,
                       int most_group, struct text *description)
{
    struct launch *launch = &plan->launches[plan->launch_count];

    TRY(plan_tiles(plan, variant, most_group));
    TRY(kernel_create(plan->context, variant, &launch->kernel, &plan->hash));
    plan->launch_count++;
    launch->id = variant->kernel;
    launch->grid = grid;
    launch->tiles = variant->tiles;
    launch->value_tiles = matrix_kernel(variant->kernel) ? matrix_groups(variant) : value_tiles(variant, grid);
    bind_pass(plan, launch, pass);
    describe_launch(description, variant);
    return CLATTN_SUCCESS;
}

/* ---- Workspace ---------------------------------------------------------------------------------------------------- */

int64_t plan_section_end(const struct clattn_plan *plan, int section)
{
    return plan->section_at[section] + (plan->section_floats[section] + 63) / 64 * 64;
}

void plan_reserve(struct clattn_plan *plan, enum section index, int64_t floats)
{
    if (floats <= plan->section_floats[index])
        return;
    plan->section_floats[index] = floats;
    plan->section_at[index] = plan->workspace_floats;
    plan->workspace_floats = plan_section_end(plan, index);
}

int64_t plan_slots(const struct problem *problem, const struct extent *extent, int chunk)
{
    int64_t rows = extent->seq_len * problem->desc.steps;

    if (problem->desc.flags & CLATTN_CU_SEQLENS)
        return rows / chunk + extent->sequences;
    return extent->batch * ((rows + chunk - 1) / chunk);
}

void plan_reserve_rows(struct clattn_plan *plan)
{
    const clattn_plan_desc *desc = &plan->problem.desc;
    int64_t rows = desc->batch * desc->seq_len * desc->heads;

    if (problem_stabilized(&plan->problem)) {
        plan_reserve(plan, SECTION_DECAY, rows);
        plan_reserve(plan, SECTION_STRENGTH, rows);
        plan_reserve(plan, SECTION_M, rows);
    }
    if (problem_normalized(&plan->problem))
        plan_reserve(plan, SECTION_DEN, rows);
}

/* ---- Creation ----------------------------------------------------------------------------------------------------- */

/* The log-decays that a rule fixes by head, on the device. */
static clattn_status make_head_decay(struct clattn_plan *plan)
{
    const clattn_plan_desc *desc = &plan->problem.desc;
    float *decay;
    cl_int error;

    if (plan->problem.rule->head_decay == NULL)
        return CLATTN_SUCCESS;
    decay = malloc((size_t)desc->heads * sizeof *decay);
    if (decay == NULL)
        return CLATTN_OUT_OF_MEMORY;
    for (int64_t h = 0; h < desc->heads; h++)
        decay[h] = (float)plan->problem.rule->head_decay(desc, h);
    plan->head_decay = plan->context->device.cl->CreateBuffer(
        plan->context->cl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, (size_t)desc->heads * sizeof *decay, decay, &error);
    free(decay);
    return plan->head_decay != NULL ? CLATTN_SUCCESS : opencl_status(&plan->context->log, "clCreateBuffer", error);
}

void plan_drop_launches(struct clattn_plan *plan)
{
    while (plan->launch_count > 0)
        plan->context->device.cl->ReleaseKernel(plan->launches[--plan->launch_count].kernel);
    memset(plan->launches, 0, sizeof plan->launches);
    memset(plan->section_at, 0, sizeof plan->section_at);
    memset(plan->section_floats, 0, sizeof plan->section_floats);
    plan->workspace_floats = 0;
    plan->hash = (struct hash){0, 0};
}

static clattn_status fill(struct clattn_plan *plan, const clattn_plan_desc *desc)
{
    TRY(problem_init(&plan->problem, desc, &plan->context->log));
    bind_roles(plan);
    TRY(make_head_decay(plan));
    return plan_choose(plan);
}

clattn_status plan_create(clattn_plan **plan, clattn_context *context, const clattn_plan_desc *desc,
                          const struct tuned *forced, const clattn_plan *like)
{
    clattn_status status;

    *plan = calloc(1, sizeof **plan);
    if (*plan == NULL)
        return CLATTN_OUT_OF_MEMORY;
    (*plan)->context = context;
    (*plan)->forced = forced;
    (*plan)->like = like;
    lock_init(&(*plan)->lock);
    status = fill(*plan, desc);
    if (status != CLATTN_SUCCESS) {
        clattn_plan_destroy(*plan);
        *plan = NULL;
    }
    return status;
}

clattn_status clattn_plan_create(clattn_plan **plan, clattn_context *context, const clattn_plan_desc *desc)
{
    if (plan == NULL)
        return CLATTN_INVALID_ARGUMENT;
    *plan = NULL;
    if (context == NULL)
        return CLATTN_INVALID_ARGUMENT;
    return plan_create(plan, context, desc, NULL, NULL);
}

void clattn_plan_destroy(clattn_plan *plan)
{
    if (plan == NULL)
        return;
    plan_drop_launches(plan);
    if (plan->head_decay != NULL)
        plan->context->device.cl->ReleaseMemObject(plan->head_decay);
    lock_destroy(&plan->lock);
    free(plan->description);
    free(plan);
}

clattn_status clattn_plan_workspace_size(const clattn_plan *plan, size_t *bytes)
{
    if (plan == NULL || bytes == NULL)
        return CLATTN_INVALID_ARGUMENT;
    *bytes = (size_t)plan->workspace_floats * sizeof(float);
    return CLATTN_SUCCESS;
}

clattn_status clattn_plan_describe(const clattn_plan *plan, char *text, size_t size)
{
    size_t length;

    if (plan == NULL || text == NULL || size == 0)
        return CLATTN_INVALID_ARGUMENT;
    length = strlen(plan->description);
    if (length >= size)
        length = size - 1;
    memcpy(text, plan->description, length);
    text[length] = '\0';
    return CLATTN_SUCCESS;
}

clattn_status clattn_enqueue(clattn_plan *plan, cl_command_queue queue, const clattn_operands *operands,
                             uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    if (event != NULL)
        *event = NULL;
    if (plan == NULL)
        return CLATTN_INVALID_ARGUMENT;
    if (queue == NULL || operands == NULL || (n_wait > 0) != (wait != NULL))
        return FAIL(&plan->context->log, INVALID_ARGUMENT, "%s",
                    queue == NULL      ? "queue is NULL"
                    : operands == NULL ? "operands is NULL"
                                       : "n_wait and wait disagree");
    return launch_all(plan, queue, operands, n_wait, wait, event);
}
