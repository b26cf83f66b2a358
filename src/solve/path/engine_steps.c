/* The kernels on a matrix engine, with all that their sources depend on. */
#include "solve/path/engine.h"

enum {
    TILE = MATRIX_TILE,
    PAD = 8,     /* numbers after a staged row: eight rows meet all banks */
    ALIGNED = 8, /* numbers for a float: rows are whole pieces */
    SLOTS = 3,   /* of local memory, where sub-groups of their own bring what a team reads */
    NUMBER = 2,
    FLOAT = 4
};

/* ---- Sizes --------------------------------------------------------------------------------------------------------
 */

struct sizes {
    int channels, values;          /* tiles */
    int parts;                     /* of w and F, the second of what the first lacks */
    int query_pitch, output_pitch; /* numbers of a row of a sub-group by itself in local memory */
    int64_t key_tile, value_tile;  /* of a block's rows of channels, and of values, */
    int64_t square_tile;           /* and of X */
    int key_pitch, value_pitch;    /* of their rows, or panels, */
    int square_pitch;              /* and of X's */
    int64_t row, span;             /* of what is left of a key, and of a span (H) */
};

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t panels(int tiles)
{
    return divide_up((int64_t)tiles * TILE, PANEL);
}

/* Rows of blocks one after the other, or in panels as teams read them: then all take as much. */
static void place_blocks(const struct path_engine_tiles *t, struct sizes *s)
{
    s->key_pitch = t->team ? t->keys * PANEL : s->query_pitch;
    s->value_pitch = t->team ? t->keys * PANEL : s->output_pitch;
    s->square_pitch = t->team ? t->keys * PANEL : t->keys + PAD;
    s->key_tile = (int64_t)t->keys * s->query_pitch;
    s->value_tile = (int64_t)t->keys * s->output_pitch;
    s->square_tile = (int64_t)t->keys * (t->keys + PAD);
    if (t->team)
        s->key_tile = s->value_tile = s->square_tile =
            (int64_t)t->keys * PANEL * most(panels(s->channels), panels(s->values));
}

static struct sizes sizes_of(const struct problem *problem, const struct path_engine_tiles *t)
{
    struct sizes s = {.channels = (int)divide_up(problem->desc.key_dim, TILE), .values = t->block_v / TILE};
    const int64_t width = (int64_t)s.channels * TILE;

    s.parts = !t->team && problem->desc.dtype == CLATTN_BF16 ? 2 : 1;
    s.query_pitch = s.channels * TILE + PAD;
    s.output_pitch = t->block_v + PAD;
    s.row = (2 * s.parts + 2) * width + t->keys + ALIGNED;
    s.span = round_up(width, t->keys) * width;
    place_blocks(t, &s);
    return s;
}

int64_t path_engine_slot_floats(const struct problem *problem, const struct path_engine_tiles *t)
{
    return divide_up(t->chunk * sizes_of(problem, t).row * NUMBER, FLOAT);
}

int64_t path_engine_span_floats(const struct problem *problem, const struct path_engine_tiles *t)
{
    return divide_up(sizes_of(problem, t).span * NUMBER, FLOAT);
}

int64_t path_engine_groups(enum path_engine_kernel kernel, const struct problem *problem,
                           const struct path_engine_tiles *t)
{
    switch (kernel) {
    case PATH_PREPARE: return t->chunk / t->keys;
    case PATH_CARRY: return 1 + divide_up((int64_t)sizes_of(problem, t).channels * TILE, t->chunk);
    case PATH_READ: return divide_up(problem->desc.value_dim, t->block_v);
    case PATH_ENGINE_KERNELS: break;
    }
    return 1;
}

/* ---- Local memory -------------------------------------------------------------------------------------------------
 */

/* w and k of a block, and F of its tiles, in whose place products stand before; where sums are no floats F of the last
 * tile takes the place of its keys. X stands where the last w have been, or after all of it. */
static void add_prepare_locals(const struct path_engine_tiles *t, const struct sizes *s, struct kernel_step *step)
{
    const int64_t tile = (int64_t)TILE * s->query_pitch, tiles = t->keys / TILE, ahead = (s->parts + 1) * tiles;
    const int64_t factors = (t->team ? tiles - 1 : s->parts * tiles) * tile;
    const int64_t numbers = ahead * tile + most(factors, 2 * tiles * TILE * TILE * FLOAT / NUMBER);
    const int64_t squares = (tiles - 1) * TILE * (TILE + PAD);
    const int within = squares <= tile;

    step_constant(step, "LAST_FACTORS", (t->team ? ahead - 1 : ahead + (tiles - 1) * s->parts) * tile);
    step_constant(step, "SQUARE_PITCH", TILE + PAD);
    step_constant(step, "SQUARES_AT", within ? (tiles - 1) * s->parts * tile : numbers);
    step_local(step, "LOCAL_TILES", within ? numbers : numbers + squares, NUMBER);
    step_local(step, "LOCAL_BETA", t->keys, FLOAT);
    step_local(step, "LOCAL_UNITS", t->team ? 2 * t->keys : 1, FLOAT);
}

/* Slots by turns, the first of them beyond X of the group's keys. */
static void add_carry_locals(const struct path_engine_tiles *t, const struct sizes *s, int slots,
                             struct kernel_step *step)
{
    const int64_t slot = s->parts * s->key_tile, last = most((slots - 1) * slot, t->chunk * (int64_t)(t->keys + PAD));

    step_constant(step, "SLOT", slot);
    step_constant(step, "LAST_SLOT", last);
    step_constant(step, "SQUARE_PITCH", t->keys + PAD);
    step_local(step, "LOCAL_TILES", last + slot, NUMBER);
}

/* What is brought between two barriers (cl/path/path_queue_staged.clh), in turn. */
static int64_t staged_numbers(const struct path_engine_tiles *t, const struct sizes *s)
{
    const int64_t walked = (1 + s->parts) * s->key_tile + s->square_tile;
    const int64_t read = s->value_tile + s->parts * s->key_tile;

    return most(most(walked, read), t->stages * (s->key_tile + s->value_tile) + s->key_tile);
}

static void add_read_locals(const struct path_engine_tiles *t, const struct sizes *s, struct kernel_step *step)
{
    const int64_t blocks = t->loaders > 0 ? SLOTS * s->key_tile : staged_numbers(t, s);

    step_constant(step, "SLOT", s->key_tile);
    step_local(step, "LOCAL_TILES", most(blocks, (int64_t)t->chunk * s->output_pitch), NUMBER);
}

static void add_locals(enum path_engine_kernel kernel, const struct problem *problem, const struct path_engine_tiles *t,
                       int stages, struct kernel_step *step)
{
    const struct sizes s = sizes_of(problem, t);

    switch (kernel) {
    case PATH_PREPARE: add_prepare_locals(t, &s, step); break;
    case PATH_CARRY: add_carry_locals(t, &s, stages, step); break;
    case PATH_READ: add_read_locals(t, &s, step); break;
    case PATH_ENGINE_KERNELS: break;
    }
}

/* ---- Constants and words ------------------------------------------------------------------------------------------
 */

static void add_constants(const struct engine *engine, const struct problem *problem, const struct path_engine_tiles *t,
                          int stages, struct kernel_step *step)
{
    const struct sizes s = sizes_of(problem, t);
    const struct number numbers[] = {{"BLOCK_ROW", s.row},
                                     {"H_NUMBERS", s.span},
                                     {"FLOAT_SUMS", !t->team},
                                     {"PARTS", s.parts},
                                     {"GATES_ARE_DATA", problem_gate_type(problem) == problem->desc.dtype},
                                     {"KV_GROUP", problem->desc.heads / problem->desc.kv_heads},
                                     {"KV_HEADS", problem->desc.kv_heads},
                                     {"SHARE", 1},
                                     {"QUERIES", t->chunk},
                                     {"SPAN", 1},
                                     {"SPAN_ROWS", t->span},
                                     {"KEYS", t->keys},
                                     {"STEP", t->keys / TILE},
                                     {"UNIT", t->keys},
                                     {"UNITS", 1},
                                     {"STAGES", stages},
                                     {"BV", t->block_v},
                                     {"KT", s.channels},
                                     {"VT", s.values},
                                     {"QUERY_PITCH", s.query_pitch},
                                     {"OUTPUT_PITCH", s.output_pitch},
                                     {"KEY_PITCH", s.key_pitch},
                                     {"VALUE_PITCH", s.value_pitch},
                                     {"X_PITCH", s.square_pitch},
                                     {"KEY_TILE", s.key_tile},
                                     {"VALUE_TILE", s.value_tile},
                                     {"VALUES_AT", 0},
                                     {"TEAM_ROWS", (t->team ? TEAM : 1) * engine->rows},
                                     {"LIST_LANES", t->loaders > 0 ? t->loaders / 2 * engine->lanes : step->group},
                                     {"MOVED_APART", t->loaders > 0},
                                     {"READERS", 0},
                                     {"VALUE_TILES", t->subs}};

    step_constants(step, numbers, sizeof numbers / sizeof *numbers);
    flash_add_sums_constants(step, problem, t->keys);
}

static enum embedded_file copies_of(const struct engine *engine)
{
    const int asynchronous = engine->instructions == FILE_nvidia_sm90 || engine->instructions == FILE_nvidia_sm80;

    return asynchronous ? FILE_copies_grouped_nvidia : FILE_copies_grouped;
}

static void add_words(enum path_engine_kernel kernel, const struct engine *engine, const struct problem *problem,
                      const struct path_engine_tiles *t, struct kernel_step *step)
{
    if (kernel == PATH_READ)
        step_header(step, flash_bias(problem, 1)); /* decays are summed ahead of the read */
    step_header(step, t->team ? FILE_path_team : FILE_path_alone);
    step_header(step, FILE_path_walk);
    switch (kernel) {
    case PATH_PREPARE: step_header(step, FILE_path_prepare); break;
    case PATH_CARRY:
        step_header(step, copies_of(engine));
        step_header(step, FILE_path_carry);
        break;
    case PATH_READ:
        step_header(step, FILE_flash_softmax);
        step_header(step, FILE_path_queue);
        step_header(step, t->loaders > 0 ? FILE_path_queue_apart : FILE_path_queue_staged);
        break;
    case PATH_ENGINE_KERNELS: break;
    }
}

/* ---- Steps --------------------------------------------------------------------------------------------------------
 */

/* Blocks, or parts of them, in local memory at once. */
static int stages_of(enum path_engine_kernel kernel, const struct path_engine_tiles *t)
{
    return kernel == PATH_CARRY ? (t->team ? SLOTS : 2) : t->stages;
}

/* The tiles of one kernel: a group of prepare has one block's keys, and nobody moves but for the read. */
static struct path_engine_tiles tiles_of(enum path_engine_kernel kernel, const struct engine *engine,
                                         const struct path_engine_tiles *tiles)
{
    struct path_engine_tiles t = *tiles;

    if (kernel == PATH_PREPARE)
        t.subs = t.keys / engine->rows;
    if (kernel != PATH_READ)
        t.loaders = 0;
    return t;
}

struct kernel_step path_engine_step(enum path_engine_kernel kernel, const struct engine *engine,
                                    const struct problem *problem, const struct path_engine_tiles *tiles)
{
    static const enum embedded_file files[] = {FILE_prepare_path_matrix, FILE_carry_path_matrix,
                                               FILE_flash_path_matrix};
    const struct path_engine_tiles t = tiles_of(kernel, engine, tiles);
    const int stages = stages_of(kernel, &t);
    struct kernel_step step = kernel_step(files[kernel], problem);

    step.options = engine->options;
    step.any_group = 1;
    step_tile(&step, (t.subs + t.loaders) * engine->lanes, 4, t.chunk, t.sub_group);
    step_scratch(&step, engine->scratch);
    add_constants(engine, problem, &t, stages, &step);
    add_locals(kernel, problem, &t, stages, &step);
    step_header(&step, engine->instructions);
    step_header(&step, engine->words);
    if (t.team)
        step_team(&step, engine, t.subs / TEAM, t.loaders > 0);
    add_words(kernel, engine, problem, &t, &step);
    return step;
}
