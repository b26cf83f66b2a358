/* The kernels on a matrix engine, with all that their sources depend on. */
#include "solve/path/engine.h"

enum {
    TILE = MATRIX_TILE,
    BLOCK = 64,         /* keys that a team walks at once */
    SLOTS = 3,          /* of a team's local memory */
    PAD = 8,            /* numbers after a staged row: eight rows meet all banks */
    X_PITCH = TILE + 8, /* of path_turn.clh */
    ALIGNED = 8,        /* numbers for a float: rows are whole pieces */
    NUMBER = 2,
    FLOAT = 4
};

/* ---- Sizes --------------------------------------------------------------------------------------------------------
 */

struct sizes {
    int channels, values;       /* tiles */
    int parts, walked;          /* of w and F, the second of what the first lacks; keys that are walked at once */
    int key_pitch, value_pitch; /* numbers of a row of keys and of values in local memory, */
    int64_t stage, slot;        /* of a block in it, and of a part of a team's block; */
    int64_t row, whole;         /* of what is left of a key, and of a span */
};

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t panels(int tiles)
{
    return divide_up((int64_t)tiles * TILE, PANEL);
}

static struct sizes sizes_of(const struct problem *problem, const struct path_engine_tiles *t)
{
    struct sizes s = {.channels = (int)divide_up(problem->desc.key_dim, TILE), .values = t->block_v / TILE};
    const int64_t width = (int64_t)s.channels * TILE;

    s.parts = problem->desc.dtype == CLATTN_BF16 ? 2 : 1;
    s.walked = s.parts > 1 ? TILE : t->keys;
    s.key_pitch = s.channels * TILE + PAD;
    s.value_pitch = t->block_v + PAD;
    s.stage = t->keys * (int64_t)(s.key_pitch + s.value_pitch);
    s.slot = BLOCK * PANEL * most(panels(s.channels), panels(s.values));
    s.row = t->team ? 4 * width + BLOCK + ALIGNED : (2 * s.parts + 1) * width + TILE;
    s.whole = t->team ? round_up(width, BLOCK) * width : width * width;
    return s;
}

int64_t path_engine_block_floats(const struct problem *problem, const struct path_engine_tiles *t)
{
    return divide_up(t->chunk * sizes_of(problem, t).row * NUMBER, FLOAT);
}

int64_t path_engine_span_floats(const struct problem *problem, const struct path_engine_tiles *t)
{
    return divide_up(sizes_of(problem, t).whole * NUMBER, FLOAT);
}

int64_t path_engine_groups(enum path_engine_kernel kernel, const struct problem *problem,
                           const struct path_engine_tiles *t)
{
    switch (kernel) {
    case PATH_PREPARE: return t->team ? t->chunk / BLOCK : 1;
    case PATH_CARRY: return 1 + divide_up((int64_t)sizes_of(problem, t).channels * TILE, t->chunk);
    case PATH_READ: return divide_up(problem->desc.value_dim, t->block_v);
    case PATH_ENGINE_KERNELS: break;
    }
    return 1;
}

/* ---- Local memory -------------------------------------------------------------------------------------------------
 */

/* Numbers of what sub-groups by themselves walk at once. */
static int64_t walk_numbers(const struct sizes *s)
{
    return s->walked * (int64_t)(2 * s->parts * s->key_pitch + X_PITCH);
}

/* Blocks on their way, one that is walked, a span's matrix, queries and outputs in turn. */
static int64_t read_numbers(const struct path_engine_tiles *t, const struct sizes *s)
{
    const int64_t whole = (int64_t)s->channels * TILE * s->key_pitch;
    const int64_t rows = t->chunk * most(s->key_pitch, s->value_pitch);

    return most(most(t->stages * s->stage, s->stage + walk_numbers(s)), most(whole, rows));
}

static void add_locals(enum path_engine_kernel kernel, const struct problem *problem, const struct path_engine_tiles *t,
                       struct kernel_step *step)
{
    const struct sizes s = sizes_of(problem, t);
    const int64_t rows = (int64_t)t->chunk * s.key_pitch;

    switch (kernel) {
    case PATH_PREPARE:
        step_local(step, "LOCAL_TILES", 2 * rows, NUMBER);
        step_local(step, "LOCAL_SQUARES", 2 * t->chunk * TILE, FLOAT);
        step_local(step, "LOCAL_BETA", t->chunk, FLOAT);
        break;
    case PATH_CARRY: step_local(step, "LOCAL_TILES", most(rows, walk_numbers(&s)), NUMBER); break;
    case PATH_READ:
        step_local(step, "LOCAL_TILES", read_numbers(t, &s), NUMBER);
        step_local(step, "LOCAL_NORMS", 1, FLOAT);
        if (problem_decay(problem) != DECAY_NONE)
            flash_add_bias_locals(step, t->keys, TILE);
        break;
    case PATH_ENGINE_KERNELS: break;
    }
}

/* Keys and their w, and F of all tiles but the last, which takes the place of products; X where the last w have been, or
 * after all of it. */
static void add_team_prepare_locals(const struct sizes *s, struct kernel_step *step)
{
    const int64_t tile = (int64_t)TILE * s->key_pitch, tiles = BLOCK / TILE;
    const int64_t more = most((tiles - 1) * tile, 2 * tiles * TILE * TILE * FLOAT / NUMBER);
    const int64_t numbers = 2 * tiles * tile + more, squares = (tiles - 1) * TILE * (TILE + PAD);
    const int within = squares <= tile;

    step_constant(step, "SQUARE_PITCH", TILE + PAD);
    step_constant(step, "SQUARES_AT", within ? (tiles - 1) * tile : numbers);
    step_local(step, "LOCAL_TILES", within ? numbers : numbers + squares, NUMBER);
    step_local(step, "LOCAL_BETA", BLOCK, FLOAT);
    step_local(step, "LOCAL_UNITS", 2 * BLOCK, FLOAT);
}

static void add_team_locals(enum path_engine_kernel kernel, const struct problem *problem,
                            const struct path_engine_tiles *t, struct kernel_step *step)
{
    const struct sizes s = sizes_of(problem, t);
    const int64_t last = most((SLOTS - 1) * s.slot, t->chunk * (int64_t)(BLOCK + PAD));

    switch (kernel) {
    case PATH_PREPARE: add_team_prepare_locals(&s, step); break;
    case PATH_CARRY:
        step_constant(step, "SQUARE_PITCH", BLOCK + PAD);
        step_constant(step, "LAST_SLOT", last);
        step_local(step, "LOCAL_TILES", last + s.slot, NUMBER);
        break;
    case PATH_READ:
        step_local(step, "LOCAL_TILES", most(SLOTS * s.slot, t->chunk * (int64_t)s.value_pitch), NUMBER);
        break;
    case PATH_ENGINE_KERNELS: break;
    }
}

/* ---- Constants and words ------------------------------------------------------------------------------------------
 */

static void add_constants(const struct problem *problem, const struct path_engine_tiles *t, struct kernel_step *step)
{
    const struct sizes s = sizes_of(problem, t);
    const struct number numbers[] = {{"TURN_ROW", s.row},
                                     {"WHOLE", s.whole},
                                     {"KV_GROUP", problem->desc.heads / problem->desc.kv_heads},
                                     {"KV_HEADS", problem->desc.kv_heads},
                                     {"SHARE", 1},
                                     {"QUERIES", t->chunk},
                                     {"SPAN", 1},
                                     {"SPAN_ROWS", t->span},
                                     {"KEYS", t->keys},
                                     {"BV", t->block_v},
                                     {"KT", s.channels},
                                     {"VT", s.values},
                                     {"QUERY_PITCH", s.key_pitch},
                                     {"OUTPUT_PITCH", s.value_pitch},
                                     {"READERS", 0},
                                     {"VALUE_TILES", t->subs}};

    step_constants(step, numbers, sizeof numbers / sizeof *numbers);
}

/* Of sub-groups by themselves. */
static void add_own_constants(const struct problem *problem, const struct path_engine_tiles *t,
                              struct kernel_step *step)
{
    const struct sizes s = sizes_of(problem, t);
    const struct number numbers[] = {{"STEP", 1},
                                     {"UNIT", TILE},
                                     {"UNITS", t->keys / TILE},
                                     {"STAGES", t->stages},
                                     {"STAGE", s.stage},
                                     {"PARTS", s.parts},
                                     {"WALK_KEYS", s.walked},
                                     {"LIST_LANES", step->group},
                                     {"KEY_PITCH", s.key_pitch},
                                     {"VALUE_PITCH", s.value_pitch},
                                     {"VALUES_AT", (int64_t)t->keys * s.key_pitch},
                                     {"QUERY_TILES", s.channels}};

    step_constants(step, numbers, sizeof numbers / sizeof *numbers);
}

static void add_team_constants(const struct engine *engine, const struct problem *problem,
                               const struct path_engine_tiles *t, int loaders, struct kernel_step *step)
{
    const struct sizes s = sizes_of(problem, t);
    const struct number numbers[] = {{"GATES_ARE_DATA", problem_gate_type(problem) == problem->desc.dtype},
                                     {"STEP", BLOCK / TILE},
                                     {"UNIT", BLOCK},
                                     {"UNITS", 1},
                                     {"STAGES", SLOTS},
                                     {"SLOT", s.slot},
                                     {"KEY_PITCH", BLOCK * PANEL},
                                     {"VALUE_PITCH", BLOCK * PANEL},
                                     {"VALUES_AT", 0},
                                     {"LIST_LANES", loaders > 0 ? loaders / 2 * engine->lanes : step->group},
                                     {"TEAM_ROWS", TEAM * engine->rows}};

    step_constants(step, numbers, sizeof numbers / sizeof *numbers);
    flash_add_sums_constants(step, problem, t->keys);
}

static void add_words(enum path_engine_kernel kernel, const struct problem *problem, struct kernel_step *step)
{
    switch (kernel) {
    case PATH_PREPARE: step_header(step, FILE_path_prepare); break;
    case PATH_CARRY: step_header(step, FILE_path_carry); break;
    case PATH_READ:
        step_header(step, flash_bias(problem, 0));
        step_header(step, FILE_flash_queries_held);
        step_header(step, FILE_flash_products);
        step_header(step, FILE_path_flash);
        break;
    case PATH_ENGINE_KERNELS: break;
    }
}

static enum embedded_file copies_of(const struct engine *engine)
{
    const int asynchronous = engine->instructions == FILE_nvidia_sm90 || engine->instructions == FILE_nvidia_sm80;

    return asynchronous ? FILE_copies_grouped_nvidia : FILE_copies_grouped;
}

static void add_team_words(enum path_engine_kernel kernel, const struct engine *engine, const struct problem *problem,
                           int loaders, struct kernel_step *step)
{
    switch (kernel) {
    case PATH_PREPARE: step_header(step, FILE_path_team_prepare); break;
    case PATH_CARRY:
        step_header(step, copies_of(engine));
        step_header(step, FILE_path_team_carry);
        break;
    case PATH_READ:
        step_header(step, flash_bias(problem, 1));
        step_header(step, loaders > 0 ? FILE_path_parts_apart : FILE_path_parts);
        break;
    case PATH_ENGINE_KERNELS: break;
    }
}

/* ---- Steps --------------------------------------------------------------------------------------------------------
 */

static void add_own(enum path_engine_kernel kernel, const struct problem *problem, const struct path_engine_tiles *t,
                    struct kernel_step *step)
{
    add_own_constants(problem, t, step);
    add_locals(kernel, problem, t, step);
    add_words(kernel, problem, step);
}

static void add_team(enum path_engine_kernel kernel, const struct engine *engine, const struct problem *problem,
                     const struct path_engine_tiles *t, struct kernel_step *step)
{
    const int loaders = kernel == PATH_READ ? t->loaders : 0;
    const int teams = kernel == PATH_PREPARE ? 1 : t->subs / TEAM;

    add_team_constants(engine, problem, t, loaders, step);
    add_team_locals(kernel, problem, t, step);
    step_team(step, engine, teams, loaders > 0);
    add_team_words(kernel, engine, problem, loaders, step);
}

struct kernel_step path_engine_step(enum path_engine_kernel kernel, const struct engine *engine,
                                    const struct problem *problem, const struct path_engine_tiles *tiles)
{
    static const enum embedded_file files[][PATH_ENGINE_KERNELS] = {
        {FILE_prepare_path_matrix, FILE_carry_path_matrix, FILE_flash_path_matrix},
        {FILE_prepare_path_team, FILE_carry_path_team, FILE_flash_path_team}};
    struct path_engine_tiles t = *tiles;
    struct kernel_step step = kernel_step(files[t.team][kernel], problem);
    int subs;

    if (kernel == PATH_PREPARE && t.team)
        t.subs = TEAM;
    subs = t.subs + (kernel == PATH_READ ? t.loaders : 0);
    step.options = engine->options;
    step.any_group = 1;
    step_tile(&step, subs * engine->lanes, 4, t.chunk, t.sub_group);
    step_scratch(&step, engine->scratch);
    add_constants(problem, &t, &step);
    step_header(&step, engine->instructions);
    step_header(&step, engine->words);
    if (t.team)
        add_team(kernel, engine, problem, &t, &step);
    else
        add_own(kernel, problem, &t, &step);
    return step;
}
