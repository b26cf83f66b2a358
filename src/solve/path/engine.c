/* path_matrix and path_team: PaTH attention on a matrix engine, whose sub-groups multiply by themselves or in teams. A
 * work-group has `chunk` queries of one head, `rows` of the engine a sub-group, and walks back over the keys as path does.
 * cl/path/README.md has the formulas. */
#include "solve/path/engine.h"

struct engine_tiles {
    struct path_engine_tiles path;
    struct path_tiles turning; /* where queries and keys are turned each by itself these two */
    struct flash_matrix_tiles read;
};

struct engine_shape {
    struct path_engine_tiles tiles;
    int is_absolute, is_summed; /* is_summed: decays are summed ahead of the read */
    struct kernel_step steps[PATH_ENGINE_KERNELS], sums;
    int64_t slot_floats, span_floats, groups[PATH_ENGINE_KERNELS];
    struct path_turning turning;
    struct flash_matrix_shape turned;
};

static const struct parameter matrix_parameters[] = {
    PARAMETER_ROW("chunk", struct engine_tiles, path.chunk, 16, 32, 64, 128, 256),
    PARAMETER_ROW("span", struct engine_tiles, path.span, 32, 64, 128, 256, 512, 1024),
    PARAMETER_ROW("keys", struct engine_tiles, path.keys, 16, 32, 64, 128),
    PARAMETER_ROW("stages", struct engine_tiles, path.stages, 1, 2, 3),
    PARAMETER_ROW("block_v", struct engine_tiles, path.block_v, 16, 32, 64, 128),
    PARAMETERS_END,
};

static const struct parameter team_parameters[] = {
    PARAMETER_ROW("span", struct engine_tiles, path.span, 128, 256, 512, 1024),
    PARAMETERS_END,
};

static const int by_themselves = 0, in_teams = 1;

static int has_teams_of(const struct solver *solver)
{
    return *(const int *)solver->variant;
}

/* ---- What they apply to -------------------------------------------------------------------------------------------
 */

static int is_absolute(const struct problem *problem)
{
    return (problem->desc.flags & CLATTN_ABSOLUTE) != 0;
}

/* Whether the kernels have all that the problem asks for. */
static int has_words(const struct problem *problem)
{
    const uint64_t others = CLATTN_WITH_KV_LENS | CLATTN_CU_SEQLENS_KV | CLATTN_QK_L2NORM | CLATTN_WITH_ATTN;

    return (problem->desc.flags & others) == 0;
}

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    const int team = has_teams_of(solver);

    if (!rule_has_list(problem->rule) || problem->rule->erase != ERASE_POSITION || facts->engine == NULL ||
        problem->desc.dtype == CLATTN_F32 || problem->desc.kernel != CLATTN_WEIGHTS_SOFTMAX)
        return 0;
    if (is_absolute(problem)) /* the last read is by teams where these are right */
        return !team;
    return has_words(problem) &&
           (!team || (has_teams(facts) && problem->desc.chunk == 0 && facts->engine->rows == MATRIX_TILE));
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    struct engine_tiles *t = tiles;

    if (!is_absolute(problem))
        return path_engine_choose_tiles(facts, problem, has_teams_of(solver), &t->path);
    TRY(path_choose_tiles(facts, problem, &t->turning));
    return flash_matrix_choose_best(facts, problem, &t->read);
}

/* ---- Shape --------------------------------------------------------------------------------------------------------
 */

static clattn_status derive_turned(const struct device_facts *facts, const struct problem *problem,
                                   const struct engine_tiles *t, struct engine_shape *s)
{
    TRY(path_derive_turning(facts, problem, &t->turning, &s->turning));
    return flash_matrix_derive_shape(facts, problem, &t->read, &s->turned);
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    const struct engine_tiles *t = tiles;
    struct engine_shape *s = shape;

    (void)solver;
    s->is_absolute = is_absolute(problem);
    if (s->is_absolute)
        return derive_turned(facts, problem, t, s);
    s->tiles = t->path;
    s->is_summed = problem_tokens_decay(problem);
    if (s->is_summed)
        s->sums = flash_sums_step(facts, problem, t->path.keys, t->path.sub_group);
    s->slot_floats = path_engine_slot_floats(problem, &t->path);
    s->span_floats = path_engine_span_floats(problem, &t->path);
    for (int i = 0; i < PATH_ENGINE_KERNELS; i++) {
        s->steps[i] = path_engine_step((enum path_engine_kernel)i, facts->engine, problem, &t->path);
        s->groups[i] = path_engine_groups((enum path_engine_kernel)i, problem, &t->path);
        TRY(step_fits(&s->steps[i], facts->device));
    }
    return CLATTN_SUCCESS;
}

/* ---- The recipe ---------------------------------------------------------------------------------------------------
 */

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct engine_shape *s = shape;

    (void)problem;
    if (s->is_absolute)
        return flash_matrix_reach(&s->turned);
    return (struct reach){.chunk = s->tiles.chunk, .parts = 1, .keys = s->tiles.keys};
}

static void add_kernel(struct builder *b, const struct engine_shape *s, enum path_engine_kernel kernel,
                       ir_expression slots, int64_t heads)
{
    build_kernel(b, &s->steps[kernel], (struct grid3){slots, heads, s->groups[kernel]});
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct engine_shape *s = shape;
    const int64_t heads = problem->desc.kv_heads, blocks = most_key_slots(problem, s->tiles.chunk);
    const int64_t spans = blocks * s->tiles.chunk / s->tiles.span + problem_most(problem).sequences;
    const ir_expression slots = build_key_slots(b, s->tiles.chunk);

    build_bind(b, "rows", build_scratch(b, "rows", CLATTN_F32, blocks * heads * s->slot_floats));
    build_bind(b, "segments", build_scratch(b, "segments", CLATTN_F32, spans * heads * s->span_floats));
    add_kernel(b, s, PATH_PREPARE, slots, heads);
    add_kernel(b, s, PATH_CARRY, slots, heads);
    if (s->is_summed)
        flash_add_sums(b, problem, &s->sums, s->tiles.keys);
    add_kernel(b, s, PATH_READ, build_slots(b, s->tiles.chunk), problem_work_heads(problem));
    return path_add_carry(b, problem);
}

static clattn_status recipe_of_either(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct engine_shape *s = shape;

    if (!s->is_absolute)
        return recipe(b, problem, shape);
    path_add_turning(b, &s->turning);
    flash_matrix_add(b, problem, &s->turned);
    return CLATTN_SUCCESS;
}

static void describe_own(struct text *text, const struct engine_shape *s, int step)
{
    const struct path_engine_tiles *t = &s->tiles;
    const int is_sums = s->is_summed && step == PATH_READ, reads = step >= PATH_READ && !is_sums;
    const struct kernel_step *kernel = &s->steps[reads ? PATH_READ : step];

    if (is_sums) {
        flash_describe_sums(text, &s->sums, t->keys);
        return;
    }
    text_format(text, "group %d, blocks of %d keys, span of %d keys", kernel->group, t->keys, t->span);
    if (reads)
        text_format(text, ", chunk %d, value tile %d", t->chunk, t->block_v);
    if (reads && !t->team)
        text_format(text, ", stages %d", t->stages);
    text_format(text, ", local %zu bytes\n", kernel->local_bytes);
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct engine_shape *s = shape;

    if (!s->is_absolute)
        describe_own(text, s, step);
    else if (step < PATH_TURNING_STEPS)
        path_describe_turning(text, &s->turning, step);
    else
        flash_matrix_describe(text, &s->turned, step - PATH_TURNING_STEPS);
}

#define PATH_ENGINE_SOLVER                                                                                             \
    .mode = CLATTN_MODE_CHUNK, .tiles_size = sizeof(struct engine_tiles), .shape_size = sizeof(struct engine_shape),   \
    .applies = applies, .choose_tiles = choose_tiles, .derive_shape = derive_shape, .reach = reach,                    \
    .recipe = recipe_of_either, .describe = describe

const struct solver solver_path_matrix = {
    .space = {"path_matrix", matrix_parameters, 1024, 0, 1, 2},
    .rank = 880,
    .team = TEAM_IF_RIGHT,
    .variant = &by_themselves,
    PATH_ENGINE_SOLVER,
};

const struct solver solver_path_team = {
    .space = {"path_team", team_parameters, 1024, 0, 1, 1},
    .rank = 890,
    .team = TEAM_ALWAYS,
    .variant = &in_teams,
    PATH_ENGINE_SOLVER,
};
