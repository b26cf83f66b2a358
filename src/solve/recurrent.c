/* recurrent: token by token, with the state in registers; for short sequences and decoding.
 *
 * S = decay(S);  S = S + k^T (x - p S);  o = q S
 *
 * A group computes block_v value columns of one head of one sequence; lanes_k work-items share a column. If sequences
 * are cut into segments, a group computes one segment, and a first launch gathers what each segment adds to the state
 * and what it keeps of the state before. */
#include "solve/around.h"
#include "solve/state_tile.h"

#include <stddef.h>

enum { FLOAT = 4, FEW_TOKENS = 8, WIDE_COLUMNS = 64, OUTPUTS = 0, DENOMINATORS = 1, PASSES = 2 };

struct pass_tiles {
    struct state_tile tile;
    int segments; /* segments of a sequence, which are computed in parallel */
};

struct recurrent_tiles {
    struct pass_tiles passes[PASSES];
};

struct pass_shape {
    struct kernel_step gather, scan;
    struct pass_tiles tiles;
    int value_groups;
    int64_t segment, kept; /* floats of a segment and head: what it adds to the state, and what it keeps of the state
                            * before */
};

struct recurrent_shape {
    struct pass_shape passes[PASSES];
    int denominators; /* whether there is the pass that computes denominators */
    int norms;        /* whether groups have whole rows of o, which they normalise */
};

#define FIELD passes[OUTPUTS].tile
static const struct parameter parameters[] = {
    PARAMETER_ROW("vec", struct recurrent_tiles, FIELD.vec, 4, 16),
    PARAMETER_ROW("lanes_k", struct recurrent_tiles, FIELD.lanes_k, 1, 2, 4, 8, 16, 32),
    PARAMETER_ROW("block_v", struct recurrent_tiles, FIELD.block_v, 4, 8, 16, 32, 64, 128),
    PARAMETER_ROW("rows", struct recurrent_tiles, FIELD.chunk, 1, 2, 4, 8, 16, 32),
    PARAMETER_ROW("segments", struct recurrent_tiles, passes[OUTPUTS].segments, 1, 2, 4, 8, 16),
    PARAMETERS_END,
};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return has_state_of_matrices(problem);
}

/* The number of rows up to which the recurrence is faster than chunks. It is smallest if 16-bit numbers can use a
 * matrix engine. Rules that erase make chunks dearer than the recurrence, which then stays faster as long as every
 * compute unit has a head. Rules that do not erase compute segments in parallel. Figures are in bench/results. */
static int64_t most_rows(const struct device_facts *facts, const struct problem *problem)
{
    const struct device *device = facts->device;
    const int64_t units = device->info.compute_units, heads = problem_heads(problem);

    if (device->serial)
        return 8;
    if ((facts->engine != NULL && problem->desc.dtype != CLATTN_F32) || (device->sub_group != 0 && heads > units))
        return 32;
    if (problem->rule->erase != ERASE_NONE)
        return heads > units ? INT64_MAX : 2 * heads > units ? 128 : 64;
    if (4 * heads <= units)
        return 256;
    return problem->rule->decay == DECAY_CHANNEL ? 128 : 64;
}

static enum preference prefers(const struct device_facts *facts, const struct problem *problem)
{
    return has_state_of_matrices(problem) && problem_rows(problem) <= most_rows(facts, problem) ? PREFERENCE_HIGH
                                                                                                : PREFERENCE_NONE;
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

/* Whether there are only a few rows, as in decoding. */
static int is_short(const struct problem *problem)
{
    return problem_rows(problem) <= FEW_TOKENS;
}

/* Whether to use wide tiles: many columns, with many channels for each lane. They are for decoding with so many heads
 * that every compute unit still has a group. Rules that erase then wait for sums over fewer lanes. Other rules need
 * more groups to gain from wide tiles. */
static int is_wide(const struct device_facts *facts, const struct problem *problem)
{
    const int64_t units = facts->device->info.compute_units;
    const int64_t wanted = problem->rule->erase != ERASE_NONE ? units * 9 / 10 : 2 * units;

    return facts->device->sub_group == 0 && (is_short(problem) || value_groups_of_all(problem, WIDE_COLUMNS) >= wanted);
}

/* Whether a sequence may be cut into segments. The factor by which a segment keeps the state before it must not be a
 * matrix. */
static int may_have_segments(const struct problem *problem)
{
    return erase_words(problem).streams == 0 && problem->pass != PASS_ATTENTION;
}

/* The number of segments: at most `most`, each with a few tokens. For packed sequences, the average length counts. */
static int segments_up_to(const struct problem *problem, int64_t most)
{
    enum { LEAST_PART = 8 };
    const clattn_plan_desc *desc = &problem->desc;
    const int64_t tokens = desc->flags & CLATTN_CU_SEQLENS ? desc->seq_len / desc->sequences : desc->seq_len;

    return may_have_segments(problem) ? power_of_two_below(lower(tokens / LEAST_PART, most)) : 1;
}

/* The number of segments that gives every compute unit four groups, for sequences long enough to be worth a second
 * launch of each pass. */
static int segments_of(const struct device_facts *facts, const struct problem *problem, int block_v)
{
    enum { MOST_SEGMENTS = 16, LEAST_SEGMENTS = 8, GROUPS = 4 };
    const int64_t alone = value_groups_of_all(problem, block_v);
    const int64_t wanted = GROUPS * (int64_t)facts->device->info.compute_units;

    if (segments_up_to(problem, MOST_SEGMENTS) < LEAST_SEGMENTS * (1 + problem_normalized(problem)))
        return 1;
    return segments_up_to(problem, lower(MOST_SEGMENTS, wanted / alone));
}

/* Whether groups with these tiles normalise the rows of o, of which each has all columns. */
static int has_whole_rows(const struct problem *problem, const struct pass_tiles *t)
{
    return problem_norms(problem) && problem->pass == PASS_OUTPUTS && problem_reads(problem) == 1 && t->segments == 1 &&
           t->tile.group > 1 && t->tile.block_v >= problem->desc.value_dim &&
           problem->types[CLATTN_O] == problem->desc.dtype;
}

/* Rows that are loaded at once. Their number does not change the results' bits. */
static int rows_up_to(const struct problem *problem, int most)
{
    return power_of_two_below(lower(problem_rows(problem), most));
}

/* Channels of its columns that a work-item keeps in registers. */
static int kept_channels(const struct device_facts *facts, const struct problem *problem, const struct state_tile *t,
                         int columns)
{
    enum { MOST_LANES = 128 };

    if (t->sub_group != 0)
        return 4;
    if (columns == 1) /* a tile of one vector of columns uses its work-items as lanes */
        return (int)divide_up(problem->desc.key_dim, MOST_LANES);
    return is_wide(facts, problem) ? 16 : 8;
}

/* The vectors of columns of a group that has all of them, and of a lane no more channels than it keeps in registers; 0:
 * there is none, or a norm of whole rows is not asked for. One token saves a launch by it, which many tokens, or more
 * heads than a few for each compute unit, would pay for with slower groups. */
static int columns_of_row(const struct device_facts *facts, const struct problem *problem, const struct state_tile *t)
{
    enum { MOST_KEPT = 16, FEW_KEPT = 4, MOST_GROUPS = 2 };
    const int64_t columns = divide_up(problem_values(problem), t->vec), channels = problem->desc.key_dim;
    const int kept = t->sub_group != 0 ? FEW_KEPT : MOST_KEPT;

    if (!problem_norms(problem) || problem->pass != PASS_OUTPUTS || problem_reads(problem) > 1 || !is_short(problem) ||
        columns > facts->most_group || problem_heads(problem) > MOST_GROUPS * facts->device->info.compute_units)
        return 0;
    return power_of_two_below(facts->most_group / columns) * kept >= channels ? (int)columns : 0;
}

/* Divides a group into lanes along the value columns and lanes that share a column, so that each keeps few channels. */
static void share_columns(const struct device_facts *facts, const struct problem *problem, struct state_tile *t)
{
    const int64_t channels = problem->desc.key_dim;
    const int whole = columns_of_row(facts, problem, t);
    int columns = whole > 0 ? whole : power_of_two_below(t->block_v / t->vec);
    const int kept = kept_channels(facts, problem, t, columns);

    while (t->lanes_k * kept < channels && 2 * t->lanes_k * columns <= facts->most_group)
        t->lanes_k *= 2;
    while (t->lanes_k * kept < channels && columns > 1 && whole == 0) {
        columns /= 2;
        t->lanes_k *= 2;
    }
    t->block_v = t->vec * columns;
    t->group = columns * t->lanes_k;
    t->block_k = round_up(channels, higher(t->lanes_k, t->vec));
}

static struct pass_tiles by_heuristic(const struct device_facts *facts, const struct problem *problem)
{
    enum { ROWS = 8 };
    const int most_columns = is_wide(facts, problem) ? WIDE_COLUMNS : 32;
    /* Narrow groups cost more than they gain by occupying more compute units. Beyond a few tokens, wide groups are
     * faster even if there are few. */
    const struct shared_wish wish = {most_columns, is_short(problem) ? 8 : most_columns,
                                     2 * (int64_t)facts->device->info.compute_units * 9 / 10, 32};
    struct pass_tiles t = {state_tile(facts, problem, &wish), 1};

    t.tile.chunk = t.tile.group == 1 ? 1 : rows_up_to(problem, ROWS);
    if (t.tile.group == 1) {
        t.tile.block_v = t.tile.vec;
        t.tile.block_k = round_up(problem->desc.key_dim, t.tile.vec);
        return t;
    }
    share_columns(facts, problem, &t.tile);
    t.segments = segments_of(facts, problem, t.tile.block_v);
    return t;
}

/* Copies the tiles that tuning chose. Returns whether it chose any. */
static int copy_tuned(struct pass_tiles *t, const struct pass_tiles *tuned)
{
    const struct state_tile *g = &tuned->tile;
    const int any = g->vec != TILE_OPEN || g->lanes_k != TILE_OPEN || g->block_v != TILE_OPEN ||
                    g->chunk != TILE_OPEN || tuned->segments != TILE_OPEN;

    t->tile.vec = g->vec != TILE_OPEN ? g->vec : t->tile.vec;
    t->tile.lanes_k = g->lanes_k != TILE_OPEN ? g->lanes_k : t->tile.lanes_k;
    t->tile.block_v = g->block_v != TILE_OPEN ? g->block_v : t->tile.block_v;
    t->tile.chunk = g->chunk != TILE_OPEN ? g->chunk : t->tile.chunk;
    t->segments = tuned->segments != TILE_OPEN ? tuned->segments : t->segments;
    return any;
}

/* Reduces tiles to the problem's size and derives the group size. */
static void follow(const struct problem *problem, struct pass_tiles *t)
{
    state_tile_follow(&t->tile, problem);
    t->tile.group = t->tile.block_v / t->tile.vec * t->tile.lanes_k;
    t->tile.block_k = round_up(problem->desc.key_dim, higher(t->tile.lanes_k, t->tile.vec));
    t->tile.chunk = rows_up_to(problem, t->tile.chunk);
    if (t->segments > 1 && may_have_segments(problem))
        t->segments = segments_up_to(problem, t->segments);
    if (problem->pass == PASS_ATTENTION)
        t->segments = 1;
}

/* Whether registers can hold a lane's part of the state. If not, the compiler spills it to memory. */
static int state_fits(const struct state_tile *t)
{
    enum { MOST_FLOATS = 128 };

    return t->group == 1 || t->block_k / t->lanes_k * t->vec <= MOST_FLOATS;
}

static struct kernel_step step_of(const struct problem *problem, const struct pass_tiles *tiles, int gather);

/* Loads fewer rows at once until local memory holds the kernel. */
static clattn_status cut_rows(const struct device_facts *facts, const struct problem *problem, struct pass_tiles *t)
{
    struct kernel_step step = step_of(problem, t, 0);

    while (step_fits(&step, facts->device) != CLATTN_SUCCESS) {
        if (t->tile.chunk == 1)
            return CLATTN_UNSUPPORTED;
        t->tile.chunk /= 2;
        step = step_of(problem, t, 0);
    }
    return CLATTN_SUCCESS;
}

static clattn_status choose_pass(const struct device_facts *facts, const struct problem *problem,
                                 const struct pass_tiles *tuned, struct pass_tiles *t)
{
    struct kernel_step step;

    *t = by_heuristic(facts, problem);
    TRY(cut_rows(facts, problem, t));
    if (!copy_tuned(t, tuned))
        return CLATTN_SUCCESS;
    follow(problem, t);
    if (!state_tile_is_sound(&t->tile, facts) || !state_fits(&t->tile) ||
        (t->segments > 1 && !may_have_segments(problem)))
        return CLATTN_UNSUPPORTED;
    step = step_of(problem, t, 0);
    return step_fits(&step, facts->device);
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    struct recurrent_tiles *t = tiles;
    const struct pass_tiles tuned = t->passes[OUTPUTS];
    struct problem sums = *problem;

    (void)solver;
    *t = (struct recurrent_tiles){{{{0}, 0}}};
    sums.pass = PASS_DENOMINATORS;
    if (problem->pass == PASS_OUTPUTS && problem_normalized(problem))
        TRY(choose_pass(facts, &sums, &tuned, &t->passes[DENOMINATORS]));
    return choose_pass(facts, problem, &tuned, &t->passes[OUTPUTS]);
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------
 */

static const char *const erase_rows[] = {"LOCAL_ERASE_P", "LOCAL_ERASE_B"}, *const erase_squares[] = {
                                                                                "LOCAL_ERASE_SQUARES"};

static void add_locals(struct kernel_step *step, const struct problem *problem, const struct state_tile *t,
                       const struct state_sizes *s)
{
    const struct erase_words erase = erase_words(problem);
    const int norms = (problem->desc.flags & CLATTN_QK_L2NORM) != 0, parts = t->chunk * s->token_parts;

    step_local(step, "LOCAL_ROWS_Q", s->slice, FLOAT);
    step_local(step, "LOCAL_ROWS_K", s->slice, FLOAT);
    step_local(step, "LOCAL_ROWS_X", s->values, FLOAT);
    step_local(step, "LOCAL_PREDICTED_PARTS", erase.streams > 0 && t->lanes_k > 1 ? 2 * t->group * t->vec : 1, FLOAT);
    step_local(step, "LOCAL_OUT_PARTS", (int64_t)t->chunk * t->group * t->vec, FLOAT);
    step_local(step, "FACTORS", s->factors, FLOAT);
    step_local(step, "LOCAL_SQUARES", 1 + norms * 2 * parts, FLOAT);
    add_decay_locals(step, problem, t, s);
    add_some_locals(step, erase_rows, erase.streams, s->slice);
    add_some_locals(step, erase_squares, erase.norms, 1 + norms * parts);
    if (reads_bonus(problem))
        step_local(step, "LOCAL_BONUS_PARTS", parts, FLOAT);
    if (problem->desc.flags & CLATTN_VALUE_GATE)
        step_local(step, "LOCAL_MIX_FACTOR", s->values, FLOAT);
}

static void add_norm(struct kernel_step *step, const struct problem *problem, const struct pass_tiles *tiles)
{
    const struct state_tile *t = &tiles->tile;

    if (!has_whole_rows(problem, tiles)) {
        step_header(step, FILE_norm_none);
        return;
    }
    step_header(step, FILE_norm_rows);
    step_local(step, "LOCAL_NORM_SQUARES", (int64_t)t->chunk * t->block_v / t->vec, FLOAT);
    add_gating(step, &problem->desc);
    step->eps = problem->desc.eps;
}

static struct kernel_step step_of(const struct problem *problem, const struct pass_tiles *tiles, int gather)
{
    const struct state_tile *t = &tiles->tile;
    const struct state_sizes sizes = state_sizes(problem, t);
    const int groups = value_groups(problem, t->block_v);
    struct kernel_step step = state_step(FILE_recurrent, problem, t, &sizes, gather ? OUTPUTS_NONE : OUTPUTS_WRITTEN);

    add_locals(&step, problem, t, &sizes);
    add_norm(&step, problem, tiles);
    step_constant(&step, "SEGMENTS", tiles->segments);
    step_constant(&step, "GATHER", gather);
    step_constant(&step, "VALUE_GROUPS", groups);
    step_constant(&step, "VP", (int64_t)groups * t->block_v);
    if (gather)
        step_replace(&step, "SNAPSHOTS", 0);
    return step;
}

static clattn_status derive_pass(const struct device_facts *facts, const struct problem *problem,
                                 const struct pass_tiles *tiles, struct pass_shape *s)
{
    const struct state_sizes sizes = state_sizes(problem, &tiles->tile);
    const int64_t columns = (int64_t)value_groups(problem, tiles->tile.block_v) * tiles->tile.block_v;

    s->tiles = *tiles;
    s->scan = step_of(problem, tiles, 0);
    s->gather = step_of(problem, tiles, 1);
    s->value_groups = value_groups(problem, tiles->tile.block_v);
    s->segment = sizes.channels * columns;
    s->kept = sizes.channels + columns;
    return step_fits(&s->scan, facts->device);
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    const struct recurrent_tiles *t = tiles;
    struct recurrent_shape *s = shape;
    struct problem sums = *problem;

    (void)solver;
    sums.pass = PASS_DENOMINATORS;
    s->denominators = problem->pass == PASS_OUTPUTS && problem_normalized(problem);
    if (s->denominators)
        TRY(derive_pass(facts, &sums, &t->passes[DENOMINATORS], &s->passes[DENOMINATORS]));
    s->norms = has_whole_rows(problem, &t->passes[OUTPUTS]);
    return derive_pass(facts, problem, &t->passes[OUTPUTS], &s->passes[OUTPUTS]);
}

/* A row has a turn of its own, those of its channels where they are too many to be unrolled, a sum over the lanes of its
 * columns, and its part of the loads. */
static int64_t turns(const struct problem *problem, const void *shape)
{
    enum { LOADS = 3, UNROLLED = 32 };
    const struct pass_tiles *t = &((const struct recurrent_shape *)shape)->passes[OUTPUTS].tiles;
    const int64_t sums = erase_words(problem).streams > 0 ? t->tile.lanes_k : 0,
                  kept = t->tile.block_k / t->tile.lanes_k;
    const int64_t own = kept > UNROLLED ? 1 + 2 * kept : 1;

    return divide_up(problem_rows(problem), t->segments) * (own + sums + LOADS);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct pass_tiles *t = &((const struct recurrent_shape *)shape)->passes[OUTPUTS].tiles;

    (void)problem;
    return (struct reach){.chunk = t->tile.chunk, .parts = t->segments, .reported = 1};
}

/* ---- Recipe -------------------------------------------------------------------------------------------------------
 */

/* Adds one pass over the sequences. If these are cut into segments, first adds a launch that gathers what each segment
 * adds to the state and keeps of it. The last segment is not gathered: the initial state takes its slot. */
static clattn_status add_pass(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct recurrent_shape *of = shape;
    const struct pass_shape *s = &of->passes[problem->pass == PASS_DENOMINATORS ? DENOMINATORS : OUTPUTS];
    const int64_t heads = problem_work_heads(problem), segments = s->tiles.segments;
    const int64_t states = problem_heads(problem) * segments;
    struct grid3 grid = {build_length(b, IR_SEQUENCES), heads, s->value_groups * (segments - 1)};

    build_bind(b, "segments", segments > 1 ? build_scratch(b, "segments", CLATTN_F32, states * s->segment) : IR_NONE);
    build_bind(b, "kept", segments > 1 ? build_scratch(b, "kept by segments", CLATTN_F32, states * s->kept) : IR_NONE);
    if (segments > 1)
        build_kernel(b, &s->gather, grid);
    grid.z = s->value_groups * segments;
    build_kernel(b, &s->scan, grid);
    return CLATTN_SUCCESS;
}

/* The same where the kernel normalises rows of o: it has o itself, and what normalises. */
static clattn_status add_normed(struct builder *b, const struct problem *problem, const void *shape)
{
    const int names = b->name_count;

    build_bind(b, "o", b->normed_output);
    build_bind(b, "norm", build_operand(b, CLATTN_NORM));
    build_bind(b, "z", build_operand(b, CLATTN_Z));
    TRY(add_pass(b, problem, shape));
    b->name_count = names;
    b->normed_output = IR_NONE;
    return CLATTN_SUCCESS;
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    if (((const struct recurrent_shape *)shape)->norms)
        return add_normed(b, problem, shape);
    return problem->pass == PASS_OUTPUTS ? build_passes(b, shape, add_pass) : add_pass(b, problem, shape);
}

/* Steps alternate: gather, then scan, for each pass. */
static void describe(struct text *text, const void *shape, int step)
{
    const struct recurrent_shape *s = shape;
    const int before = s->denominators ? 1 + (s->passes[DENOMINATORS].tiles.segments > 1) : 0;
    const struct pass_shape *pass = &s->passes[step < before ? DENOMINATORS : OUTPUTS];
    const int gathers = pass->tiles.segments > 1 && step - (step < before ? 0 : before) == 0;

    state_tile_describe(text, &pass->tiles.tile, "rows");
    if (pass->tiles.segments > 1)
        text_format(text, "%d segments%s, ", pass->tiles.segments, gathers ? " gathered" : "");
    text_format(text, "local %zu bytes\n", gathers ? pass->gather.local_bytes : pass->scan.local_bytes);
}

const struct solver solver_recurrent = {
    .space = {"recurrent", parameters, 32, 0, 0, 1},
    .mode = CLATTN_MODE_RECURRENT,
    .rank = 960,
    .units = 1,
    .transitions = 1,
    .tiles_size = sizeof(struct recurrent_tiles),
    .shape_size = sizeof(struct recurrent_shape),
    .prefers = prefers,
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .turns = turns,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
