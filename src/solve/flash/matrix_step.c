/* The kernels of a list that is read on a matrix engine: their constants, words and local memory, and the sums of decays
 * that a team needs ahead. */
#include "solve/flash/flash.h"

enum {
    TILE = MATRIX_TILE,
    PAD = 8, /* numbers after a staged row: eight rows meet all banks */
    NUMBER = 2,
    FLOAT = 4,
    MOST_HELD = 192,    /* registers of a lane for what it sums and the queries, where there are many, */
    MOST_FEW_HELD = 128 /* and where there are few */
};

/* ---- Sizes --------------------------------------------------------------------------------------------------------
 */

struct sizes {
    int channels, values;          /* tiles of channels, and of a group's value columns */
    int rows;                      /* of a group */
    int unit;                      /* keys */
    int query_pitch, output_pitch; /* numbers: of rows, */
    int key_pitch, value_pitch;    /* and of what a block has: of rows or panels */
    int64_t queries;               /* numbers of local memory; a team has none of it */
    int64_t values_at, stage;      /* numbers; a stage is a team's slot, of keys or values */
    int held;                      /* whether queries are in registers */
};

int flash_sum_registers(const struct engine *engine, const struct flash_matrix_tiles *t)
{
    return t->span * t->block_v / TILE * (TILE * engine->rows / engine->lanes);
}

/* And for its queries. */
static int query_registers(const struct engine *engine, const struct flash_matrix_tiles *t, int channels)
{
    return t->span * channels * (TILE * engine->rows / engine->lanes) / 2;
}

/* Of so many tiles. */
static int panels(int tiles)
{
    return (int)divide_up((int64_t)tiles * TILE, PANEL);
}

/* Where keys and values stand in local memory. */
static void place_blocks(const struct flash_matrix_tiles *t, struct sizes *s)
{
    s->query_pitch = s->channels * TILE + PAD;
    s->output_pitch = t->block_v + PAD;
    s->key_pitch = t->team ? t->keys * PANEL : s->query_pitch;
    s->value_pitch = t->team ? t->keys * PANEL : s->output_pitch;
    s->values_at = (int64_t)s->key_pitch * t->keys;
    s->stage = s->values_at + (int64_t)s->value_pitch * t->keys;
    if (t->team)
        s->stage = s->values_at = (int64_t)s->key_pitch * higher(panels(s->channels), panels(s->values));
}

static struct sizes sizes_of(const struct engine *engine, const struct problem *problem,
                             const struct flash_matrix_tiles *t)
{
    const int few = engine->chunk == TILE;
    struct sizes s = {.channels = (int)divide_up(problem->desc.key_dim, TILE),
                      .values = t->block_v / TILE,
                      .rows = t->subs * t->span * engine->rows,
                      .unit = t->step * TILE};

    place_blocks(t, &s);
    s.queries = t->team ? 0 : (int64_t)s.rows * s.query_pitch;
    s.held = t->team || flash_sum_registers(engine, t) + query_registers(engine, t, s.channels) <=
                            (few ? MOST_FEW_HELD : MOST_HELD);
    return s;
}

/* ---- Steps --------------------------------------------------------------------------------------------------------
 */

#define FILE_flash_nothing FILE_nothing
enum embedded_file flash_bias(const struct problem *problem, int team)
{
    static const enum embedded_file headers[] = {
#define DECAY(value, name, dims, list_dims, plain, matrix, bias, ...) FILE_flash_##bias,
#include "op/words.def"
    };

    if (problem->rule->head_decay != NULL)
        return problem_has_distances(problem) ? FILE_flash_bias_distance : FILE_flash_bias_fixed;
    return team && problem_tokens_decay(problem) ? FILE_flash_bias_summed : headers[problem_decay(problem)];
}

void flash_add_bias_locals(struct kernel_step *step, int keys, int unit)
{
    step_local(step, "LOCAL_BIAS_LOGS", 3 * keys, FLOAT);
    step_local(step, "LOCAL_BIAS_SUMS", 2 * (keys + 4 * keys / unit), FLOAT);
}

/* Floats of the norms of a group's queries and of so many blocks of keys; 0 where there are none. */
static int norms(const struct problem *problem, const struct flash_matrix_tiles *t, const struct sizes *s, int blocks)
{
    return problem->desc.flags & CLATTN_QK_L2NORM ? s->rows + blocks * t->keys : 0;
}

/* Queries, where they come by way of local memory, and outputs stand in the place of blocks, but for queries that are
 * not in registers. */
static int64_t tile_numbers(const struct flash_matrix_tiles *t, const struct sizes *s)
{
    const int64_t outputs = (int64_t)s->rows * s->output_pitch;
    int64_t tiles = t->stages * s->stage + (s->held ? 0 : s->queries);

    if (s->held && tiles < s->queries)
        tiles = s->queries;
    return tiles < outputs ? outputs : tiles;
}

static void add_locals(struct kernel_step *step, const struct problem *problem, const struct flash_matrix_tiles *t,
                       const struct sizes *s)
{
    const int64_t tiles = tile_numbers(t, s);

    if (t->team) { /* one array: it may want all that there is */
        const int after = norms(problem, t, s, 2);
        step_constant(step, "SLOT", s->stage);
        step_constant(step, "NORMS_AT", after > 0 ? tiles : 0);
        step_local(step, "LOCAL_TILES", tiles + after * FLOAT / NUMBER, NUMBER);
    } else {
        step_constant(step, "QUERIES_AT", s->held ? 0 : t->stages * s->stage);
        step_local(step, "LOCAL_TILES", tiles, NUMBER);
        step_local(step, "LOCAL_NORMS", higher(norms(problem, t, s, 1), 1), FLOAT);
    }
    if (flash_bias(problem, t->team) == FILE_flash_bias_scalar)
        flash_add_bias_locals(step, t->keys, s->unit);
}

/* What may be given of where keys lie, as cl/words/cache.clh has it: of nothing else the kernel keeps registers. */
static int cached(const clattn_plan_desc *desc)
{
    enum { GIVEN_CU_KV = 4, GIVEN_LENS = 8 };

    return (desc->flags & CLATTN_CU_SEQLENS_KV ? GIVEN_CU_KV : 0) |
           (desc->flags & CLATTN_WITH_KV_LENS ? GIVEN_LENS : 0);
}

static void add_constants(struct kernel_step *step, const struct engine *engine, const struct problem *problem,
                          const struct flash_matrix_tiles *t, const struct sizes *s)
{
    const clattn_plan_desc *desc = &problem->desc;
    const struct number numbers[] = {
        {"KV_GROUP", desc->heads / desc->kv_heads},
        {"CACHED", cached(desc)},
        {"SHARE", t->share},
        {"QUERIES", s->rows},
        {"SPAN", t->span},
        {"KEYS", t->keys},
        {"STEP", t->step},
        {"UNIT", s->unit},
        {"UNITS", t->keys / s->unit},
        {"STAGES", t->stages},
        {"STAGE", s->stage},
        {"BV", t->block_v},
        {"KT", s->channels},
        {"VT", s->values},
        {"QUERY_PITCH", s->query_pitch},
        {"OUTPUT_PITCH", s->output_pitch},
        {"KEY_PITCH", s->key_pitch},
        {"VALUE_PITCH", s->value_pitch},
        {"VALUES_AT", s->values_at},
        {"LIST_LANES", t->loaders > 0 ? t->loaders / 2 * engine->lanes : t->group},
        {"TEAM_ROWS", (t->team ? TEAM : 1) * t->span * engine->rows},
        {"QUERY_TILES", s->held ? t->span * s->channels : 1},
        {"READERS", 0},
        {"VALUE_TILES", t->subs},
    };

    step_constants(step, numbers, sizeof numbers / sizeof *numbers);
}

static void add_words(struct kernel_step *step, const struct engine *engine, const struct problem *problem,
                      const struct flash_matrix_tiles *t, const struct sizes *s)
{
    step_header(step, engine->instructions);
    step_header(step, engine->words);
    if (t->team) {
        flash_add_sums_constants(step, problem, t->keys);
        step_team(step, engine, t->subs / TEAM, t->loaders > 0);
    }
    step_header(step, flash_bias(problem, t->team));
    if (t->team) {
        step_header(step, FILE_flash_queries_far);
        step_header(step, FILE_flash_products_team);
        step_header(step, t->loaders > 0 ? FILE_flash_moved_apart : FILE_flash_moved);
    } else {
        step_header(step, s->held ? FILE_flash_queries_held : FILE_flash_queries_staged);
        step_header(step, FILE_flash_products);
    }
    step_header(step, FILE_flash_softmax);
}

struct kernel_step flash_matrix_step(enum embedded_file file, const struct engine *engine,
                                     const struct problem *problem, const struct flash_matrix_tiles *t)
{
    enum { VEC = 4 };
    const struct sizes s = sizes_of(engine, problem, t);
    struct kernel_step step = kernel_step(file, problem);

    step_tile(&step, t->group, VEC, t->chunk, t->sub_group);
    step.options = engine->options;
    step.any_group = 1; /* as for the other kernels on matrix engines */
    step_scratch(&step, engine->scratch);
    add_locals(&step, problem, t, &s);
    add_constants(&step, engine, problem, t, &s);
    add_words(&step, engine, problem, t, &s);
    return step;
}

/* Where queries and keys have turned, they were normalised before. */
static void set_turned(struct kernel_step *step, int turned)
{
    if (turned) {
        step_replace(step, "TURNED", 1);
        step_replace(step, "L2NORM", 0);
    }
}

/* ---- Sums of decays, ahead of a team's kernel ---------------------------------------------------------------------
 */

/* What flash_sums leaves of a unit: sums, sums in tiles and logs of its keys, and one sum of all. Pairs are aligned. */
static int sums_record(int keys)
{
    enum { ALIGNED = 4 };

    return 3 * keys + ALIGNED;
}

void flash_add_sums_constants(struct kernel_step *step, const struct problem *problem, int keys)
{
    step_constant(step, "UNIT_IN_TILES", keys);
    step_constant(step, "UNIT_LOGS", 2 * keys);
    step_constant(step, "UNIT_TOTAL", 3 * keys);
    step_constant(step, "UNIT_FLOATS", sums_record(keys));
    step_constant(step, "HEADS", problem->desc.heads);
}

struct kernel_step flash_sums_step(const struct device_facts *facts, const struct problem *problem, int keys,
                                   int sub_group)
{
    enum { VEC = 4 };
    const clattn_plan_desc *desc = &problem->desc;
    struct kernel_step step = kernel_step(FILE_flash_sums, problem);

    step_tile(&step, lower(keys, (int64_t)facts->device->info.max_work_group), VEC, keys, sub_group);
    step.options = facts->engine->options;
    set_turned(&step, problem->rule->erase == ERASE_POSITION);
    flash_add_sums_constants(&step, problem, keys);
    step_local(&step, "LOCAL_LOGS", keys, FLOAT);
    step_constant(&step, "UNIT", keys);
    step_constant(&step, "KV_GROUP", desc->heads / desc->kv_heads);
    step_constant(&step, "CACHED", cached(desc));
    return step;
}

void flash_add_sums(struct builder *b, const struct problem *problem, const struct kernel_step *step, int keys)
{
    const int64_t heads = problem->desc.heads, units = most_key_slots(problem, keys) * heads;

    build_bind(b, "after", build_scratch(b, "sums of decays", CLATTN_F32, units * sums_record(keys)));
    build_kernel(b, step, (struct grid3){build_key_slots(b, keys), heads, 1});
}

void flash_describe_sums(struct text *text, const struct kernel_step *step, int keys)
{
    text_format(text, "group %d, units of %d keys, local %zu bytes\n", step->group, keys, step->local_bytes);
}

/* ---- The read -----------------------------------------------------------------------------------------------------
 */

clattn_status flash_matrix_derive_shape(const struct device_facts *facts, const struct problem *problem,
                                        const struct flash_matrix_tiles *tiles, struct flash_matrix_shape *shape)
{
    shape->tiles = *tiles;
    shape->summed = tiles->team && problem_tokens_decay(problem);
    if (shape->summed)
        shape->sums = flash_sums_step(facts, problem, tiles->keys, tiles->sub_group);
    shape->read = flash_matrix_step(tiles->team ? FILE_flash_team : FILE_flash_matrix, facts->engine, problem, tiles);
    shape->rows = sizes_of(facts->engine, problem, tiles).rows;
    shape->held = sizes_of(facts->engine, problem, tiles).held;
    set_turned(&shape->read, (problem->desc.flags & CLATTN_ABSOLUTE) != 0);
    return step_fits(&shape->read, facts->device);
}

struct reach flash_matrix_reach(const struct flash_matrix_shape *shape)
{
    return (struct reach){.chunk = shape->tiles.chunk, .parts = 1, .keys = shape->tiles.keys};
}

void flash_matrix_add(struct builder *b, const struct problem *problem, const struct flash_matrix_shape *shape)
{
    const struct flash_matrix_tiles *t = &shape->tiles;
    const struct grid3 grid = {build_slots(b, t->chunk), problem->desc.heads / t->share,
                               divide_up(problem->desc.value_dim, t->block_v)};

    if (shape->summed)
        flash_add_sums(b, problem, &shape->sums, t->keys);
    build_kernel(b, &shape->read, grid);
}

static void describe_read(struct text *text, const struct flash_matrix_shape *shape)
{
    const struct flash_matrix_tiles *t = &shape->tiles;

    text_format(text,
                "group %d, %d rows: chunk %d, heads %d, by %d sub-groups, queries %s, keys %d in steps of %d, "
                "value tile %d, stages %d, local %zu bytes\n",
                t->group, shape->rows, t->chunk, t->share, t->subs, shape->held ? "held" : "staged", t->keys,
                t->step * TILE, t->block_v, t->stages, shape->read.local_bytes);
}

void flash_matrix_describe(struct text *text, const struct flash_matrix_shape *shape, int step)
{
    if (shape->summed && step == 0)
        flash_describe_sums(text, &shape->sums, shape->tiles.keys);
    else
        describe_read(text, shape);
}
