/* channels and channels_lanes: a state whose elements have a decay each, so that nothing is a product of matrices.
 *
 *     S[n][c] = e[n][c] S[n][c] + k[n] x[c];  o[c] = sum over n of q[n] S[n][c]
 *
 * A group works block_v value columns of one head of one sequence, a tile of tokens at a time. A work-item of
 * `channels` keeps `vec` columns of a few channels and works one of several spans of a tile's tokens. A work-item of
 * `channels_lanes` keeps `vec` channels of one column and works all of a tile's tokens. */
#include "solve/state_tile.h"

#include <stddef.h>

enum { FLOAT = 4, SERIAL_VEC = 16, SHARED_VEC = 4, FEW_TOKENS = 8 };

struct channels_tiles {
    int group;     /* work-items */
    int vec;       /* floats that a work-item works at once */
    int lanes_k;   /* work-items that share a column */
    int block_v;   /* value columns of a group */
    int spans;     /* of a tile of tokens */
    int tokens;    /* of a span */
    int sub_group; /* work-items of a sub-group; 0: the compiler's choice */
};

struct channels_shape {
    struct channels_tiles tiles;
    struct kernel_step step;
    int value_groups;
};

/* What the solvers differ in. */
struct channels_body {
    int (*takes)(const struct device_facts *facts, const struct problem *problem);
    clattn_status (*by_heuristic)(const struct channels_body *body, const struct device_facts *facts,
                                  const struct problem *problem, struct channels_tiles *t);
    /* The tiles that follow from others; and whether all go together. */
    void (*follow)(const struct problem *problem, struct channels_tiles *t);
    int (*is_sound)(const struct problem *problem, const struct channels_tiles *t);
    struct kernel_step (*step_of)(const struct problem *problem, const struct channels_tiles *t);
};

static const struct channels_body *body_of(const struct solver *solver)
{
    return solver->variant;
}

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    return problem->rule->op == OP_MIXER && !rule_has_list(problem->rule) && !rule_has_chunks(problem->rule) &&
           body_of(solver)->takes(facts, problem);
}

/* ---- Sizes and constants ------------------------------------------------------------------------------------------
 */

static int has(const struct problem *problem, uint64_t flag)
{
    return (problem->desc.flags & flag) != 0;
}

static int has_keys(const struct problem *problem)
{
    return rule_has_keys(problem->rule);
}

/* Channels of all work-items of a column: whole vectors of keys, and whole pairs in each work-item. */
static int channels_of(const struct problem *problem, const struct channels_tiles *t)
{
    const int unit = t->lanes_k * (1 + has(problem, CLATTN_COMPLEX));

    return round_up(problem->desc.key_dim, has_keys(problem) ? higher(unit, t->vec) : unit);
}

/* Vectors of a token's decays that a work-item has. */
static int decays_of(const struct problem *problem, const struct channels_tiles *t)
{
    return channels_of(problem, t) / t->lanes_k * (1 + (problem->rule->decay == DECAY_COMPLEX));
}

/* Tokens of a tile. */
static int tile_of(const struct channels_tiles *t)
{
    return t->spans * t->tokens;
}

static void add_options(struct kernel_step *step, const struct problem *problem)
{
    static const int has_step[] = {
#define WRITE(value, row, role, strength, plain, matrix, made, step) step,
#include "op/words.def"
    };

    step_constant(step, "HAS_KEYS", has_keys(problem));
    step_constant(step, "HAS_STEP", has_step[problem->rule->write]);
    step_constant(step, "HAS_BIAS", has(problem, CLATTN_WITH_DT_BIAS));
    step_constant(step, "HAS_SOFTPLUS", has(problem, CLATTN_SOFTPLUS));
    step_constant(step, "HAS_INPUT", problem->pass != PASS_TRANSITION);
    step_constant(step, "HAS_OUTPUT", !problem_is_summary(problem));
    step_constant(step, "HAS_D", has(problem, CLATTN_WITH_D) && !problem_is_summary(problem));
    step_constant(step, "HAS_Z", has(problem, CLATTN_WITH_Z) && !problem_is_summary(problem));
    step_constant(step, "PAIRS", has(problem, CLATTN_COMPLEX));
}

static struct kernel_step common_step(enum embedded_file file, const struct problem *problem,
                                      const struct channels_tiles *t)
{
    const int channels = channels_of(problem, t);
    struct kernel_step step = kernel_step(file, problem);

    step_tile(&step, t->group, t->vec, 1, t->sub_group);
    step_constant(&step, "BV", t->block_v);
    step_constant(&step, "LANES_K", t->lanes_k);
    step_constant(&step, "KEY_PITCH", channels);
    step_constant(&step, "CHANNELS", channels / t->lanes_k);
    step_constant(&step, "DECAYS", decays_of(problem, t));
    step_constant(&step, "SPANS", t->spans);
    step_constant(&step, "TOKENS", t->tokens);
    step_constant(&step, "TILE", tile_of(t));
    step_constant(&step, "ROW_VECTORS", divide_up((int64_t)tile_of(t) * channels, (int64_t)t->vec * t->group));
    step_constant(&step, "OUTPUT_TURNS", divide_up(t->tokens, t->lanes_k));
    step_constant(&step, "SPAN_LANES", t->block_v / t->vec * t->lanes_k);
    add_options(&step, problem);
    return step;
}

static int fits(const struct channels_body *body, const struct device_facts *facts, const struct problem *problem,
                const struct channels_tiles *t)
{
    const struct kernel_step step = body->step_of(problem, t);

    return step_fits(&step, facts->device) == CLATTN_SUCCESS;
}

/* The tiles that follow; UNSUPPORTED where all do not go together, or the device cannot have them. */
static clattn_status complete(const struct channels_body *body, const struct device_facts *facts,
                              const struct problem *problem, struct channels_tiles *t)
{
    body->follow(problem, t);
    return t->tokens >= 1 && t->block_v >= t->vec && t->block_v % t->vec == 0 && body->is_sound(problem, t) &&
                   group_fits(facts, t->group) && fits(body, facts, problem, t)
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

/* ---- channels -----------------------------------------------------------------------------------------------------
 */

static int takes_any(const struct device_facts *facts, const struct problem *problem)
{
    (void)facts, (void)problem;
    return 1;
}

static struct kernel_step spans_step(const struct problem *problem, const struct channels_tiles *t)
{
    static const enum embedded_file decay_headers[] = {
        [DECAY_VALUE] = FILE_channels_decay_given,
        [DECAY_COMPLEX] = FILE_channels_decay_complex,
        [DECAY_PRODUCT] = FILE_channels_decay_step,
        [DECAY_FULL] = FILE_channels_decay_given,
    };
    const int channels = channels_of(problem, t), tile = tile_of(t);
    const int parts = t->lanes_k * tile * t->block_v;
    const int summaries = t->spans > 1 ? (decays_of(problem, t) + channels / t->lanes_k) * t->group * t->vec : 1;
    struct kernel_step step = common_step(FILE_channels, problem, t);

    step_locals(&step, "LOCAL_ROWS", 2, has_keys(problem) ? tile * channels : 1, FLOAT);
    step_local(&step, "LOCAL_SUMMARIES", higher(summaries, parts), FLOAT);
    step_header(&step, decay_headers[problem->rule->decay]);
    return step;
}

static void follow_spans(const struct problem *problem, struct channels_tiles *t)
{
    (void)problem;
    t->group = t->block_v / t->vec * t->lanes_k * t->spans;
}

/* Whether registers can hold what a work-item has of the state, and decays of its tokens: more is left in memory. */
static int registers_hold(const struct problem *problem, const struct channels_tiles *t)
{
    enum { MOST_FLOATS = 128 };

    return t->group == 1 || decays_of(problem, t) * t->tokens * t->vec <= MOST_FLOATS;
}

static int spans_are_sound(const struct problem *problem, const struct channels_tiles *t)
{
    return (has_keys(problem) || t->lanes_k == 1) && registers_hold(problem, t);
}

/* Channels that a work-item keeps. */
static int kept_channels(const struct device_facts *facts, const struct problem *problem)
{
    if (!has_keys(problem))
        return 1;
    return facts->device->sub_group != 0 ? 2 : 4;
}

/* As few columns as leave every compute unit some groups, however few groups there are then: whole lines of memory. */
static int columns_of(const struct device_facts *facts, const struct problem *problem, int lanes_k)
{
    enum { MOST = 64 };
    const int least = has_keys(problem) ? 16 : 32;
    const int64_t wanted = 2 * (int64_t)facts->device->info.compute_units;
    int columns = SHARED_VEC;

    while (2 * columns <= MOST && columns < problem->desc.value_dim &&
           2 * columns / SHARED_VEC * lanes_k <= facts->most_group &&
           (columns < least || value_groups_of_all(problem, 2 * columns) >= wanted))
        columns *= 2;
    return columns;
}

/* Some columns and few channels for a work-item, and as many spans as the group then has room for. Neither depends on
 * lengths, but for a few tokens: packed sequences have the bits that they have alone. */
static void share(const struct device_facts *facts, const struct problem *problem, struct channels_tiles *t)
{
    enum { MOST_SPANS = 32 };
    const int few = problem->desc.seq_len <= FEW_TOKENS, narrow = facts->device->sub_group != 0;
    const int kept = kept_channels(facts, problem);

    t->vec = SHARED_VEC;
    t->sub_group = facts->device->sub_group;
    t->tokens = few ? 1 : (has_keys(problem) ? 4 : 8) / (narrow ? 4 : 1);
    while (t->lanes_k * kept < problem->desc.key_dim && 2 * t->lanes_k <= facts->most_group)
        t->lanes_k *= 2;
    t->block_v = columns_of(facts, problem, t->lanes_k);
    while (!few && 2 * t->spans <= MOST_SPANS && 2 * t->spans * t->block_v / t->vec * t->lanes_k <= facts->most_group)
        t->spans *= 2;
}

static clattn_status spans_by_heuristic(const struct channels_body *body, const struct device_facts *facts,
                                        const struct problem *problem, struct channels_tiles *t)
{
    *t = (struct channels_tiles){.vec = SERIAL_VEC, .lanes_k = 1, .block_v = SERIAL_VEC, .spans = 1, .tokens = 1};
    if (!is_serial(facts))
        share(facts, problem, t);
    for (follow_spans(problem, t); !fits(body, facts, problem, t); follow_spans(problem, t)) {
        if (t->spans > 1)
            t->spans /= 2;
        else if (t->block_v > t->vec)
            t->block_v /= 2;
        else if (t->tokens > 1)
            t->tokens /= 2;
        else
            return CLATTN_UNSUPPORTED;
    }
    return CLATTN_SUCCESS;
}

static const struct channels_body spans_body = {takes_any, spans_by_heuristic, follow_spans, spans_are_sound,
                                                spans_step};

/* ---- channels_lanes -----------------------------------------------------------------------------------------------
 */

/* A decay e^(dt a) of real numbers alone, where work-items share a tile. */
static int takes_steps(const struct device_facts *facts, const struct problem *problem)
{
    return problem->rule->decay == DECAY_PRODUCT && !has(problem, CLATTN_COMPLEX) && !facts->device->serial;
}

/* Whether columns are enough for every compute unit, a work-item each. */
static enum preference lanes_prefers(const struct device_facts *facts, const struct problem *problem)
{
    enum { LEAST_COLUMNS = 8 }; /* of a group */
    const int64_t groups = problem_heads(problem) * (problem->desc.value_dim / LEAST_COLUMNS);

    return problem->rule->op == OP_MIXER && takes_steps(facts, problem) && problem->desc.seq_len > FEW_TOKENS &&
                   groups >= facts->device->info.compute_units
               ? PREFERENCE_IN_MODE
               : PREFERENCE_NONE;
}

static struct kernel_step lanes_step(const struct problem *problem, const struct channels_tiles *t)
{
    const int tile = tile_of(t);
    struct kernel_step step = common_step(FILE_channels_lanes, problem, t);

    step.options = PLAIN_OPTIONS " -cl-denorms-are-zero"; /* else an exponential takes four instructions */
    step.shared = 1;
    step_locals(&step, "LOCAL_ROWS", 2, (int64_t)tile * channels_of(problem, t), FLOAT);
    step_locals(&step, "LOCAL_TILE", 2, (int64_t)tile * t->block_v, FLOAT);
    step_local(&step, "LOCAL_PARTS", (int64_t)(tile + 1) * t->block_v * t->lanes_k, FLOAT);
    return step;
}

/* A tile's tokens are those that the work-items bring: each `tokens` of them, of a vector of columns. */
static void follow_lanes(const struct problem *problem, struct channels_tiles *t)
{
    t->vec = SHARED_VEC;
    t->lanes_k = (int)divide_up(problem->desc.key_dim, t->vec);
    t->spans = t->vec * t->lanes_k;
    t->group = t->block_v * t->lanes_k;
}

static int lanes_are_sound(const struct problem *problem, const struct channels_tiles *t)
{
    (void)problem, (void)t;
    return 1;
}

/* A tile of 32 tokens, or of 48 where a compute unit has one group only, and nothing else to do at a tile's ends; whole
 * lines of memory as wide as leave three of four compute units a group. */
static clattn_status lanes_by_heuristic(const struct channels_body *body, const struct device_facts *facts,
                                        const struct problem *problem, struct channels_tiles *t)
{
    enum { TILE = 32, LONG_TILE = 48, LINE = 32 };
    const int lanes = (int)divide_up(problem->desc.key_dim, SHARED_VEC);
    const int64_t units = facts->device->info.compute_units;

    *t = (struct channels_tiles){.block_v = LINE, .tokens = higher(LONG_TILE / (SHARED_VEC * lanes), 1)};
    if (value_groups_of_all(problem, LINE) > units || complete(body, facts, problem, t) != CLATTN_SUCCESS)
        t->tokens = higher(TILE / (SHARED_VEC * lanes), 1);
    while (t->block_v > SHARED_VEC &&
           (t->block_v * lanes > facts->most_group || t->block_v >= 2 * problem->desc.value_dim ||
            (t->block_v > 2 * SHARED_VEC && value_groups_of_all(problem, t->block_v) < 3 * units / 4) ||
            complete(body, facts, problem, t) != CLATTN_SUCCESS))
        t->block_v /= 2;
    return t->block_v * lanes <= facts->most_group ? complete(body, facts, problem, t) : CLATTN_UNSUPPORTED;
}

static const struct channels_body lanes_body = {takes_steps, lanes_by_heuristic, follow_lanes, lanes_are_sound,
                                                lanes_step};

/* ---- Tiles, shape and recipe --------------------------------------------------------------------------------------
 */

static int take(int *tile, int given)
{
    if (given != TILE_OPEN)
        *tile = given;
    return given != TILE_OPEN;
}

/* Puts what tuning chose in; whether it chose anything. */
static int take_given(struct channels_tiles *t, const struct channels_tiles *given)
{
    return take(&t->vec, given->vec) + take(&t->lanes_k, given->lanes_k) + take(&t->block_v, given->block_v) +
               take(&t->spans, given->spans) + take(&t->tokens, given->tokens) >
           0;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    const struct channels_body *body = body_of(solver);
    struct channels_tiles *t = tiles;
    const struct channels_tiles given = *t;

    TRY(body->by_heuristic(body, facts, problem, t));
    return take_given(t, &given) ? complete(body, facts, problem, t) : CLATTN_SUCCESS;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct channels_shape *s = shape;

    s->tiles = *(const struct channels_tiles *)tiles;
    s->step = body_of(solver)->step_of(problem, &s->tiles);
    s->value_groups = value_groups(problem, s->tiles.block_v);
    return step_fits(&s->step, facts->device);
}

/* Tokens are worked one by one, whatever the tile. */
/* A token has a turn of its own, and its part of those of its tile. */
static int64_t turns(const struct problem *problem, const void *shape)
{
    (void)shape;
    return 2 * problem_rows(problem);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    (void)problem, (void)shape;
    return (struct reach){.chunk = 1, .parts = 1};
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct channels_shape *s = shape;

    build_kernel(b, &s->step,
                 (struct grid3){build_length(b, IR_SEQUENCES), problem_work_heads(problem), s->value_groups});
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct channels_shape *s = shape;
    const struct channels_tiles *t = &s->tiles;

    (void)step;
    text_format(text, "group %d, vec %d, %d spans of %d tokens, value tile %d, key lanes %d, local %zu bytes\n",
                t->group, t->vec, t->spans, t->tokens, t->block_v, t->lanes_k, s->step.local_bytes);
}

static const struct parameter spans_parameters[] = {
    PARAMETER_ROW("vec", struct channels_tiles, vec, 4, 16),
    PARAMETER_ROW("lanes_k", struct channels_tiles, lanes_k, 1, 2, 4, 8, 16, 32),
    PARAMETER_ROW("block_v", struct channels_tiles, block_v, 4, 8, 16, 32, 64, 128),
    PARAMETER_ROW("spans", struct channels_tiles, spans, 1, 2, 4, 8, 16, 32),
    PARAMETER_ROW("tokens", struct channels_tiles, tokens, 1, 2, 4, 8, 16),
    PARAMETERS_END,
};

static const struct parameter lanes_parameters[] = {
    PARAMETER_ROW("block_v", struct channels_tiles, block_v, 4, 8, 16, 32, 64),
    PARAMETER_ROW("tokens", struct channels_tiles, tokens, 1, 2, 3, 4, 8),
    PARAMETERS_END,
};

#define CHANNELS_SOLVER(body)                                                                                          \
    .mode = CLATTN_MODE_RECURRENT, .transitions = 1, .variant = body, .tiles_size = sizeof(struct channels_tiles),     \
    .shape_size = sizeof(struct channels_shape), .applies = applies, .choose_tiles = choose_tiles,                     \
    .derive_shape = derive_shape, .turns = turns, .reach = reach, .recipe = recipe, .describe = describe

const struct solver solver_channels = {
    .space = {"channels", spans_parameters, 1024, 0, 0, 1}, .rank = 820, CHANNELS_SOLVER(&spans_body)};
const struct solver solver_channels_lanes = {.space = {"channels_lanes", lanes_parameters, 1024, 0, 0, 1},
                                             .rank = 810,
                                             .shared = 1,
                                             .prefers = lanes_prefers,
                                             CHANNELS_SOLVER(&lanes_body)};
