/* flash_blocks: a list read in register blocks, for devices whose work-items share a tile. A work-group has `chunk` queries
 * of one head and blocks of as many keys; scores and outputs are in the registers of a grid of lanes, and the weights
 * between their two products in local memory. flash_blocks multiplies and adds; flash_matrix_blocks does the same with a
 * matrix engine's products of floats. */
#include "solve/flash/flash.h"
#include "solve/register_blocks.h"

enum {
    VEC = BLOCKS_VEC,
    FLOAT = 4,
    ENGINE_PAD = 8, /* floats after a row that an engine reads by columns: its lanes meet all banks */
    LEAST_SLICE = 8,
    USUAL_SLICE = 16,
    MOST_COLUMN_LANES = 16,
    MOST_COLUMNS = 128,
    MOST_HELD = 160 /* floats of scores and outputs of a lane */
};

struct blocks {
    int group;     /* work-items */
    int chunk;     /* queries of a group, and keys of a block */
    int block_k;   /* channels in local memory at once */
    int block_v;   /* value columns of a group */
    int tokens;    /* of values in local memory at once */
    int sub_group; /* work-items of a sub-group; 0: the compiler's choice */
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("chunk", struct blocks, chunk, 32, 64, 128),
    PARAMETER_ROW("group", struct blocks, group, 64, 128, 256, 512),
    PARAMETER_ROW("block_k", struct blocks, block_k, 8, 16, 32, 64),
    PARAMETER_ROW("block_v", struct blocks, block_v, 32, 64, 128, 256),
    PARAMETER_ROW("tokens", struct blocks, tokens, 8, 16, 32, 64),
    PARAMETERS_END,
};

struct shape {
    struct blocks tiles;
    struct kernel_step step;
};

/* ---- Shape --------------------------------------------------------------------------------------------------------
 */

/* The grid of lanes, and what a lane has. */
struct grid {
    int row_lanes, column_lanes;
    int scores, columns;           /* vectors of queries, and of value columns */
    int score_pitch, column_pitch; /* floats of a row in local memory */
};

/* Lanes of a sub-group along an engine's rows; engine NULL: 1. */
static int least_rows(const struct engine *engine)
{
    return engine != NULL ? engine->lanes / BLOCKS_ENGINE_COLUMNS : 1;
}

static struct grid grid_of(const struct engine *engine, const struct blocks *t)
{
    struct grid g;

    g.column_lanes = higher(lower(t->chunk / VEC, MOST_COLUMN_LANES), 1);
    g.row_lanes = higher(t->group / g.column_lanes, least_rows(engine));
    g.column_lanes = higher(t->group / g.row_lanes, 1);
    g.scores = t->chunk / VEC / g.column_lanes;
    g.columns = t->block_v / VEC / g.column_lanes;
    g.score_pitch = t->chunk + (engine != NULL ? ENGINE_PAD : VEC);
    g.column_pitch = t->block_v + (engine != NULL ? ENGINE_PAD : 0);
    return g;
}

static void add_locals(struct kernel_step *step, const struct engine *engine, const struct problem *problem,
                       const struct blocks *t)
{
    const struct grid g = grid_of(engine, t);
    const int slices = t->chunk * (t->block_k + VEC) + t->block_k * g.score_pitch;
    const int values = t->tokens * g.column_pitch, tops = g.row_lanes * t->chunk;

    if (engine != NULL)
        step_scratch(step, engine->exact_scratch);
    step_local(step, "LOCAL_TILES", higher(higher(slices, values), tops), FLOAT);
    step_local(step, "LOCAL_SCORES", t->chunk * g.score_pitch, FLOAT);
    step_local(step, "LOCAL_KEPT", 2 * t->chunk, FLOAT);
    step_local(step, "LOCAL_NORMS", 2 * t->chunk, FLOAT);
    step_local(step, "LOCAL_BIAS", problem->rule->decay == DECAY_NONE ? 1 : 3 * t->chunk, FLOAT);
}

static void add_constants(struct kernel_step *step, const struct engine *engine, const struct problem *problem,
                          const struct blocks *t)
{
    const struct grid g = grid_of(engine, t);
    const clattn_plan_desc *desc = &problem->desc;
    const struct number numbers[] = {
        {"BK", t->block_k},
        {"BT", t->tokens},
        {"BV", t->block_v},
        {"KP", round_up(desc->key_dim, t->block_k)},
        {"MADE", 0},
        {"RP", t->block_k + VEC},
        {"CP", t->chunk},
        {"SCORE_PITCH", g.score_pitch},
        {"COLUMN_PITCH", g.column_pitch},
        {"KV_GROUP", desc->heads / desc->kv_heads},
        {"ROW_LANES", g.row_lanes},
        {"COL_LANES", g.column_lanes},
        {"KEY_ROWS", t->chunk / g.row_lanes},
        {"QUERY_ROWS", t->chunk / g.row_lanes},
        {"MOST_ROWS", t->chunk / g.row_lanes},
        {"SCORE_WIDE", g.scores},
        {"WIDE", g.columns},
        {"LONG_SUMS", 1},
        {"WIDEST", higher(g.scores, g.columns)},
        {"SPLIT", 1},
    };

    step_constants(step, numbers, sizeof numbers / sizeof *numbers);
}

static struct kernel_step read_step(const struct engine *engine, const struct problem *problem, const struct blocks *t)
{
    struct kernel_step step = kernel_step(FILE_flash_blocks, problem);

    step_tile(&step, t->group, VEC, t->chunk, t->sub_group);
    step.shared = 1;
    add_constants(&step, engine, problem, t);
    add_locals(&step, engine, problem, t);
    add_block_products(&step, engine);
    flash_add_words(&step, problem, FILE_blocks_list);
    return step;
}

/* flash_matrix_blocks' variant. */
static const int by_engine = 1;

static const struct engine *engine_used(const struct solver *solver, const struct device_facts *facts)
{
    return solver->variant == &by_engine ? facts->engine : NULL;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct shape *s = shape;

    s->tiles = *(const struct blocks *)tiles;
    s->step = read_step(engine_used(solver, facts), problem, tiles);
    return step_fits(&s->step, facts->device);
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

/* Whether lanes have whole vectors and rows of everything, and an engine whole tiles. */
static int is_whole(const struct engine *engine, const struct blocks *t)
{
    const struct grid g = grid_of(engine, t);
    const int slice = engine != NULL ? BLOCKS_ENGINE_TILE : LEAST_SLICE;

    return t->group == g.row_lanes * g.column_lanes && t->chunk % (VEC * g.row_lanes) == 0 &&
           t->chunk % (VEC * g.column_lanes) == 0 && t->block_v % (VEC * g.column_lanes) == 0 &&
           g.column_lanes % BLOCKS_ENGINE_COLUMNS == 0 && g.row_lanes % least_rows(engine) == 0 &&
           t->block_k % slice == 0 && t->tokens % slice == 0 && t->chunk % t->tokens == 0 &&
           t->chunk * (t->chunk + t->block_v) <= MOST_HELD * t->group;
}

/* As many lanes as a result has blocks of VEC x VEC; usually half of them where a lane holds two: its products then read
 * less. */
static int most_lanes(int chunk)
{
    return lower(chunk / VEC, MOST_COLUMN_LANES) * (chunk / VEC);
}
static int usual_lanes(int chunk)
{
    return lower(most_lanes(chunk), 2 * chunk);
}

/* What tiles are chosen for. */
struct choice {
    const struct device_facts *facts;
    const struct problem *problem;
    const struct engine *engine;
};

static int fits(const struct choice *c, const struct blocks *t)
{
    struct kernel_step step;

    if (!is_whole(c->engine, t))
        return 0;
    step = read_step(c->engine, c->problem, t);
    return step_fits(&step, c->facts->device) == CLATTN_SUCCESS;
}

/* The problem's value columns, as a vector of every lane along the columns. */
static int all_columns(const struct choice *c, const struct blocks *t)
{
    return round_up(c->problem->desc.value_dim, VEC * grid_of(c->engine, t).column_lanes);
}

/* As many lanes as groups may have; slices that local memory has room for. */
static int cut_chunk(const struct choice *c, int chunk, struct blocks *t)
{
    *t = (struct blocks){.chunk = chunk, .sub_group = c->facts->device->sub_group};
    t->group = lower(usual_lanes(chunk), c->facts->most_group);
    t->block_v = lower(all_columns(c, t), MOST_COLUMNS);
    for (t->block_k = t->tokens = USUAL_SLICE; t->tokens >= LEAST_SLICE; t->block_k = t->tokens /= 2)
        if (fits(c, t))
            return 1;
    return 0;
}

/* Whether fewer queries a group leave fewer compute units idle, or fewer rows of a tile. */
static int is_short(const struct choice *c, int chunk)
{
    const clattn_plan_desc *desc = &c->problem->desc;

    return desc->seq_len <= chunk / 2 ||
           problem_heads(c->problem) * divide_up(desc->seq_len, chunk) < (int64_t)c->facts->device->info.compute_units;
}

static clattn_status by_heuristic(const struct choice *c, struct blocks *t)
{
    enum { USUAL_CHUNK = 64, LEAST_CHUNK = 32 };
    const int asked = c->problem->desc.chunk;
    int chunk = asked != 0 ? asked : USUAL_CHUNK;

    if (chunk < LEAST_CHUNK)
        return CLATTN_UNSUPPORTED;
    if (asked == 0 && is_short(c, chunk) && cut_chunk(c, LEAST_CHUNK, t))
        return CLATTN_SUCCESS;
    while (!cut_chunk(c, chunk, t)) {
        if (asked != 0 || chunk == LEAST_CHUNK)
            return CLATTN_UNSUPPORTED;
        chunk /= 2;
    }
    return CLATTN_SUCCESS;
}

static clattn_status correct(const struct choice *c, struct blocks *t)
{
    t->group = lower(t->group, most_lanes(t->chunk));
    t->block_v = lower(t->block_v, all_columns(c, t));
    return (size_t)t->group <= c->facts->device->info.max_work_group && fits(c, t) ? CLATTN_SUCCESS
                                                                                   : CLATTN_UNSUPPORTED;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    const struct choice choice = {facts, problem, engine_used(solver, facts)};
    const struct blocks chosen = *(struct blocks *)tiles;

    TRY(by_heuristic(&choice, tiles));
    return take_tiles(tiles, &chosen, sizeof chosen) > 0 ? correct(&choice, tiles) : CLATTN_SUCCESS;
}

/* ---- The recipe ---------------------------------------------------------------------------------------------------
 */

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    const struct engine *engine = engine_used(solver, facts);

    if (!rule_has_list(problem->rule) || problem->rule->erase != ERASE_NONE ||
        problem->desc.kernel != CLATTN_WEIGHTS_SOFTMAX)
        return 0;
    return solver->variant != &by_engine ||
           (engine != NULL && engine->exact != FILE_nothing && problem->desc.dtype == CLATTN_F32);
}

/* A block of keys is multiplied a channel at a time, and its values a token at a time. */
static int64_t turns(const struct problem *problem, const void *shape)
{
    enum { OTHERS = 64 };
    const struct blocks *t = &((const struct shape *)shape)->tiles;
    const int64_t blocks = divide_up(problem_most(problem).kv_len, t->chunk);

    return blocks * (2 * problem->desc.key_dim + 2 * t->chunk + OTHERS);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct shape *s = shape;

    (void)problem;
    return (struct reach){.chunk = s->tiles.chunk, .parts = 1};
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct shape *s = shape;
    const struct grid3 grid = {build_slots(b, s->tiles.chunk), problem_work_heads(problem),
                               divide_up(problem->desc.value_dim, s->tiles.block_v)};

    build_kernel(b, &s->step, grid);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct shape *s = shape;
    const struct blocks *t = &s->tiles;

    (void)step;
    text_format(text, "group %d, chunk %d, key slice %d, value slice %d, value tile %d, local %zu bytes\n", t->group,
                t->chunk, t->block_k, t->tokens, t->block_v, s->step.local_bytes);
}

#define BLOCKS_SOLVER                                                                                                  \
    .mode = CLATTN_MODE_CHUNK, .shared = 1, .tiles_size = sizeof(struct blocks), .shape_size = sizeof(struct shape),   \
    .applies = applies, .choose_tiles = choose_tiles, .derive_shape = derive_shape, .reach = reach, .recipe = recipe,  \
    .turns = turns, .describe = describe

const struct solver solver_flash_matrix_blocks = {
    .space = {"flash_matrix_blocks", parameters, 1024, 0, 1, 1}, .rank = 930, .variant = &by_engine, BLOCKS_SOLVER};
const struct solver solver_flash_blocks = {
    .space = {"flash_blocks", parameters, 1024, 0, 0, 1}, .rank = 920, BLOCKS_SOLVER};
