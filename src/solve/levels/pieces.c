/* levels_pieces: a level is a problem of the rule without levels (cl/levels/README.md).
 *
 * For bucket b, each sequence is cut into pieces of 2^(b + 1) tokens. The first half of a piece writes and the second half
 * reads, all pieces at once: packed sequences, which the solver of the other rule computes. The loop over buckets adds
 * what their levels are weighed with. A piece of the fewest tokens has its attention matrix in place of levels: the same
 * rule of unit vectors gives that.
 *
 *     rows:   if there are several batch elements, copies of rows in which they follow each other
 *     cut:    where the pieces of all levels begin
 *     loop:   values -> the rule -> add
 *     units -> the rule -> own, the outputs
 *     tail, position: what final states have of the last tokens, and their positions */
#include "solve/levels/levels.h"

#include <stddef.h>
#include <stdlib.h>

enum { FLOAT = 4 };

struct pieces_tiles {
    int piece; /* tokens of the smallest pieces */
    int few;   /* from this bucket on there are so few pieces that the rule should have other tiles */
    struct state_tile own, tail;
};

enum pieces_kernel {
    KERNEL_ROWS,
    KERNEL_CUT,
    KERNEL_VALUES,
    KERNEL_ADD,
    KERNEL_UNITS,
    KERNEL_OWN,
    KERNEL_TAIL,
    KERNEL_POSITION,
    KERNELS
};

struct pieces_shape {
    struct pieces_tiles tiles;
    struct kernel_step steps[KERNELS];
    int value_groups, tail_groups, pitch; /* of a row of sums, in floats */
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("piece", struct pieces_tiles, piece, 16, 32, 64, 128),
    PARAMETER_ROW("few", struct pieces_tiles, few, 5, 7, 9, 10, 11, 12, 13, 14, 15),
    PARAMETER_ROW("vec", struct pieces_tiles, own.vec, 4, 16),
    PARAMETER_ROW("group", struct pieces_tiles, own.group, 1, 32, 64, 128, 256),
    PARAMETER_ROW("block_v", struct pieces_tiles, own.block_v, 4, 8, 16, 32, 64, 128),
    PARAMETERS_END,
};

/* ---- Problems -----------------------------------------------------------------------------------------------------
 */

static int is_packed(const struct problem *problem)
{
    return (problem->desc.flags & CLATTN_CU_SEQLENS) != 0;
}

static int has_final(const struct problem *problem)
{
    return (problem->desc.flags & CLATTN_FINAL_STATE) != 0;
}

/* The tokens of all sequences. */
static int64_t most_tokens(const struct problem *problem)
{
    return is_packed(problem) ? problem->desc.seq_len : problem->desc.batch * problem->desc.seq_len;
}

/* Pieces of so many tokens, at most. Packed sequences may begin anywhere. */
static int64_t most_pieces(const struct problem *problem, int64_t piece)
{
    const int64_t sequences = problem_most(problem).sequences;

    return is_packed(problem) ? problem->desc.seq_len / piece + sequences
                              : sequences * divide_up(problem->desc.seq_len, piece);
}

/* A call begins with no state, so that positions are numbers of tokens. Tokens are counted in 32 bits. */
static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    const uint64_t flags = problem->desc.flags;

    (void)solver, (void)facts;
    return levels_apply(problem) && problem->pass == PASS_OUTPUTS &&
           !(flags & (CLATTN_INITIAL_STATE | CLATTN_WITH_STATE_INDICES)) &&
           !(is_packed(problem) && (flags & CLATTN_REVERSED)) && most_tokens(problem) < (int64_t)1 << 30;
}

/* Where groups share a tile, a scan of one sequence leaves most of the device idle. */
static enum preference prefers(const struct device_facts *facts, const struct problem *problem)
{
    enum { LEAST_TOKENS = 256 };

    return !is_serial(facts) && applies(NULL, facts, problem) && problem_rows(problem) > LEAST_TOKENS
               ? PREFERENCE_IN_MODE
               : PREFERENCE_NONE;
}

/* The rule without levels, of pieces of so many tokens as packed sequences. Its final states are in a pool: those of a
 * sequence's last pieces alone are written. */
static struct problem piece_problem(const struct problem *problem, int64_t piece, int64_t value_dim, int finals)
{
    const uint64_t apart = CLATTN_FINAL_STATE | CLATTN_WITH_ATTN | CLATTN_WITH_ROPE | CLATTN_WITH_POSITION |
                           CLATTN_REVERSED | CLATTN_CU_SEQLENS_INT64;
    const uint64_t pool = finals ? CLATTN_FINAL_STATE | CLATTN_WITH_STATE_INDICES : 0;
    struct problem child = *problem;
    clattn_plan_desc *desc = &child.desc;

    desc->rule = problem->rule->erase == ERASE_NONE ? CLATTN_SIMPLE_GLA : CLATTN_GATED_DELTA_RULE;
    child.rule = rule_get(desc->rule);
    desc->flags = (desc->flags & ~apart) | CLATTN_CU_SEQLENS | pool;
    desc->mode = CLATTN_MODE_CHUNK;
    desc->chunk = desc->levels = 0;
    desc->rope_dim = 0;
    desc->batch = 1;
    desc->seq_len = most_tokens(problem);
    desc->sequences = most_pieces(problem, piece);
    desc->state_slots = finals ? problem_most(problem).sequences : 0;
    desc->value_dim = (int32_t)value_dim;
    child.operand_count = rule_operands(desc, child.operands);
    child.types[CLATTN_O] = desc->dtype;
    return child;
}

/* ---- Kernels and tiles --------------------------------------------------------------------------------------------
 */

/* The number of a bucket of so many tokens. */
static int bits_of(int piece)
{
    int bits = 0;

    while (piece >> bits > 1)
        bits++;
    return bits;
}

static struct kernel_step rows_step(enum embedded_file file, const struct problem *problem,
                                    const struct pieces_tiles *t)
{
    struct kernel_step step = kernel_step(file, problem);

    step_tile(&step, t->own.group, t->own.vec, t->piece, t->own.sub_group);
    step_constant(&step, "OWN_BITS", bits_of(t->piece));
    return step;
}

static struct kernel_step own_step(const struct problem *problem, const struct pieces_tiles *t)
{
    const struct state_sizes s = state_sizes(problem, &t->own);
    struct kernel_step step = levels_step(FILE_levels_own, problem, &t->own);

    step_constant(&step, "OWN_BITS", bits_of(t->piece));
    step_local(&step, "LOCAL_SCORES", s.matrix, FLOAT);
    step_local(&step, "LOCAL_VALUES", s.values, FLOAT);
    step_local(&step, "LOCAL_OUTPUT", s.values, FLOAT);
    step.local_bytes += (size_t)t->piece * FLOAT;
    return step;
}

static int own_fits(const struct device_facts *facts, const struct problem *problem, const struct pieces_tiles *t)
{
    const struct kernel_step step = own_step(problem, t);

    return step_fits(&step, facts->device) == CLATTN_SUCCESS;
}

static void take(int *tile, int tuned)
{
    *tile = tuned != TILE_OPEN ? tuned : *tile;
}

/* The first bucket whose pieces leave compute units idle that have each half of a piece's value columns; the number of
 * buckets if there is none. */
static int few_from(const struct device_facts *facts, const struct problem *problem, int own)
{
    const int64_t heads = problem_work_heads(problem), units = facts->device->info.compute_units;
    int bucket = own;

    while (bucket < problem->desc.levels - 1 &&
           10 * 2 * heads * most_pieces(problem, (int64_t)2 << bucket) >= 9 * units)
        bucket++;
    return bucket;
}

/* There are groups enough that each may have many columns, because each has a piece's matrix. */
static void widen(const struct device_facts *facts, struct state_tile *t)
{
    enum { GROUP = 128, COLUMNS = 32 };

    if (is_serial(facts))
        return;
    t->group = lower(GROUP, power_of_two_below(facts->most_group));
    t->block_v = COLUMNS;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    enum { PIECE = 64, LEAST = 16, MOST = 128 };
    const struct shared_wish wish = {32, 8, 2 * (int64_t)facts->device->info.compute_units, 32};
    struct pieces_tiles *t = tiles;
    const struct state_tile tuned = t->own;

    (void)solver;
    default_to(&t->piece, problem->desc.chunk != 0 ? problem->desc.chunk : PIECE);
    if (t->piece < LEAST || t->piece > MOST || (t->piece & (t->piece - 1)) != 0)
        return CLATTN_UNSUPPORTED;
    default_to(&t->few, few_from(facts, problem, bits_of(t->piece)));
    t->few = higher(t->few, bits_of(t->piece));
    t->own = state_tile(facts, problem, &wish);
    t->own.chunk = t->piece;
    widen(facts, &t->own);
    take(&t->own.vec, tuned.vec);
    take(&t->own.group, tuned.group);
    take(&t->own.block_v, tuned.block_v);
    state_tile_follow(&t->own, problem);
    if (!state_tile_is_sound(&t->own, facts))
        return CLATTN_UNSUPPORTED;
    while (!own_fits(facts, problem, t)) {
        if (t->own.block_v <= t->own.vec)
            return CLATTN_UNSUPPORTED;
        t->own.block_v = round_up(t->own.block_v / 2, t->own.vec);
    }
    return levels_tokens_tile(facts, problem, &t->tail);
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    static const enum embedded_file files[] = {[KERNEL_ROWS] = FILE_levels_rows,
                                               [KERNEL_CUT] = FILE_levels_cut,
                                               [KERNEL_VALUES] = FILE_levels_values,
                                               [KERNEL_ADD] = FILE_levels_add,
                                               [KERNEL_UNITS] = FILE_levels_values};
    struct pieces_shape *s = shape;

    (void)solver;
    s->tiles = *(const struct pieces_tiles *)tiles;
    s->pitch = round_up(problem->desc.value_dim, s->tiles.own.vec);
    for (int kernel = 0; kernel <= KERNEL_UNITS; kernel++)
        s->steps[kernel] = rows_step(files[kernel], problem, &s->tiles);
    step_constant(&s->steps[KERNEL_VALUES], "UNITS", 0);
    step_constant(&s->steps[KERNEL_UNITS], "UNITS", 1);
    s->steps[KERNEL_OWN] = own_step(problem, &s->tiles);
    s->steps[KERNEL_TAIL] = levels_tokens_step(problem, &s->tiles.tail, s->tiles.piece);
    s->steps[KERNEL_POSITION] = levels_position_step(problem);
    s->value_groups = value_groups(problem, s->tiles.own.block_v);
    s->tail_groups = value_groups(problem, s->tiles.tail.block_v);
    TRY(step_fits(&s->steps[KERNEL_TAIL], facts->device));
    return step_fits(&s->steps[KERNEL_OWN], facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    (void)problem;
    return (struct reach){.chunk = ((const struct pieces_shape *)shape)->tiles.piece, .parts = 1};
}

/* ---- Recipe -------------------------------------------------------------------------------------------------------
 */

/* What the steps of a recipe have in common. */
struct pieces {
    struct builder *b;
    const struct problem *problem;
    const struct pieces_shape *s;
    ir_expression tokens, sequences; /* tokens of all sequences */
    ir_expression slots, pieces;     /* of the fewest tokens: those of sequences as they are, and as they are cut */
    ir_expression buckets;           /* of the call above the smallest pieces */
    ir_expression entries;           /* of cuts for a level */
    int cuts, lasts;
    int rows[4]; /* of q, k, g and beta; the tokens of all sequences follow each other */
};

static const char *const row_names[] = {"q", "k", "g", "beta"};

/* Rows of `width` numbers for every token and head. */
static int add_rows(const struct pieces *p, const char *name, clattn_dtype type, int64_t heads, int64_t width)
{
    struct builder *b = p->b;
    const ir_expression strides[3] = {build_times(b, build_length(b, IR_TOKENS), heads * width),
                                      build_constant(b, heads * width), build_constant(b, heads > 1 ? width : 0)};

    return build_scratch_of(b, name, type, most_tokens(p->problem) * heads * width, strides);
}

/* The number of pieces of so many tokens, some of which may be empty. */
static ir_expression pieces_of_length(const struct builder *b, const struct problem *problem, ir_expression piece)
{
    const ir_expression tokens = build_length(b, IR_TOKENS), sequences = build_length(b, IR_SEQUENCES);

    return is_packed(problem) ? build_binary(b, IR_ADD, build_binary(b, IR_DIVIDE, tokens, piece), sequences)
                              : build_binary(b, IR_MULTIPLY, build_binary(b, IR_DIVIDE_UP, tokens, piece), sequences);
}

/* The tokens' rows as they are in the caller's memory, where batch elements may have a gap between them: then copies. */
static void bind_rows(struct pieces *p)
{
    static const char *const copies[] = {"row_q", "row_k", "row_g", "row_beta"};
    struct builder *b = p->b;
    const struct problem *problem = p->problem;
    const int64_t heads = problem_work_heads(problem), key_heads = lower(heads, problem->desc.qk_heads);
    const struct {
        clattn_operand_id id;
        clattn_dtype type;
        int64_t heads, width;
    } rows[] = {{CLATTN_Q, problem->desc.dtype, key_heads, problem->desc.key_dim},
                {CLATTN_K, problem->desc.dtype, key_heads, problem->desc.key_dim},
                {problem->rule->gate, problem_gate_type(problem), heads, 1},
                {operand_of_strength(problem->rule), problem_strength_type(problem), heads, 1}};
    const int whole = is_packed(problem) || problem->desc.batch == 1;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        p->rows[i] = build_operand(b, rows[i].id);
        if (!whole && p->rows[i] != IR_NONE)
            p->rows[i] = add_rows(p, copies[i], rows[i].type, rows[i].heads, rows[i].width);
        build_bind(b, copies[i], p->rows[i]);
    }
    if (!whole)
        build_kernel(b, &p->s->steps[KERNEL_ROWS], (struct grid3){p->slots, heads, 1});
}

/* Numbers for the pieces of each level, of which the turn's are a slice. */
static int add_cuts(const struct pieces *p, const char *name)
{
    struct builder *b = p->b;
    const int64_t entries = most_pieces(p->problem, p->s->tiles.piece) + 1;
    const ir_expression strides[3] = {p->entries, p->sequences, build_constant(b, 1)};

    return build_scratch_of(b, name, CLATTN_F32, (p->problem->desc.levels + 1) * entries, strides);
}

/* The tensor from that element on. */
static int slice_from(struct builder *b, int tensor, ir_expression elements)
{
    struct ir_tensor slice = {.home = IR_SLICE,
                              .base = tensor,
                              .tokens = IR_NONE,
                              .heads = IR_NONE,
                              .elements = elements,
                              .strides = {IR_NONE, IR_NONE, IR_NONE}};

    if (tensor == IR_NONE || b->ir->failed)
        return IR_NONE;
    slice.element = b->ir->tensors[tensor].element;
    return ir_tensor(b->ir, &slice);
}

/* Adds the rule of pieces that many tokens long, in sequences from these cuts. */
static clattn_status add_rule(const struct pieces *p, const struct problem *rule, int cuts, int finals,
                              ir_expression pieces, ir_expression tokens)
{
    struct builder *b = p->b;
    const ir_expression lengths[IR_LENGTHS] = {build_constant(b, 1), tokens, pieces, IR_NONE, IR_NONE};
    const ir_expression *outside = b->lengths;
    const int names = b->name_count;
    clattn_status status;

    for (size_t i = 0; i < sizeof row_names / sizeof *row_names; i++)
        build_bind(b, row_names[i], p->rows[i]);
    build_bind(b, "cu", cuts);
    build_bind(b, "slots", finals);
    build_bind(b, "initial", IR_NONE);
    b->lengths = lengths;
    status = build_problem(b, rule);
    b->lengths = outside;
    b->name_count = names;
    return status;
}

/* The steps of a bucket, which is an expression in a loop from bucket `first` on. If `active` is 0, they do nothing. */
static clattn_status add_bucket(const struct pieces *p, int first, ir_expression bucket, ir_expression active)
{
    struct builder *b = p->b;
    const struct problem *problem = p->problem;
    const int64_t heads = problem_work_heads(problem), V = problem->desc.value_dim;
    const int own = bits_of(p->s->tiles.piece);
    const ir_expression next = build_binary(b, IR_ADD, bucket, build_constant(b, 1));
    const ir_expression number = build_binary(b, IR_SUBTRACT, next, build_constant(b, own));
    const ir_expression at = build_binary(b, IR_MULTIPLY, number, p->entries);
    const ir_expression piece = build_binary(b, IR_SHIFT, build_constant(b, 2), bucket);
    const ir_expression pieces = pieces_of_length(b, problem, piece);
    const struct grid3 grid = {build_binary(b, IR_MULTIPLY, active, p->slots), heads, 1};
    const ir_expression state = build_times(b, next, problem->desc.key_dim * V);
    struct problem *rule = malloc(sizeof *rule);
    clattn_status status = CLATTN_OUT_OF_MEMORY;

    build_number(b, "level", bucket);
    build_kernel(b, &p->s->steps[KERNEL_VALUES], grid);
    build_bind(b, "v", build_bound(b, "values"));
    build_bind(b, "o", build_bound(b, "read"));
    build_bind(b, "final", slice_from(b, build_bound(b, "final"), state));
    if (rule != NULL) {
        *rule = piece_problem(problem, (int64_t)2 << first, V, has_final(problem));
        status =
            add_rule(p, rule, slice_from(b, p->cuts, at), slice_from(b, p->lasts, at),
                     build_binary(b, IR_MULTIPLY, active, pieces), build_binary(b, IR_MULTIPLY, active, p->tokens));
    }
    build_kernel(b, &p->s->steps[KERNEL_ADD], grid);
    free(rule);
    return status;
}

/* The buckets from `first` on that the call has, but none from `until` on. */
static clattn_status add_buckets(const struct pieces *p, int first, int until)
{
    struct builder *b = p->b;
    const int own = bits_of(p->s->tiles.piece), names = b->name_count;
    const ir_expression last = build_binary(b, IR_LOWER, p->buckets, build_constant(b, until - own));
    const ir_expression count = build_binary(
        b, IR_HIGHER, build_binary(b, IR_SUBTRACT, last, build_constant(b, first - own)), build_constant(b, 0));
    int loop;

    if (until <= first)
        return CLATTN_SUCCESS;
    loop = build_open_loop(b, count, 1);
    TRY(add_bucket(p, first,
                   build_binary(b, IR_ADD, ir_loop_value(b->ir, IR_LOOP_TURN, loop), build_constant(b, first)),
                   build_binary(b, IR_LOWER, count, build_constant(b, 1))));
    build_close_loop(b, loop);
    b->name_count = names;
    return CLATTN_SUCCESS;
}

/* The smallest pieces, and the outputs. */
static clattn_status add_own(const struct pieces *p)
{
    struct builder *b = p->b;
    const int64_t heads = problem_work_heads(p->problem), piece = p->s->tiles.piece;
    const clattn_dtype type = p->problem->desc.dtype;
    const int units = add_rows(p, "units", type, 1, piece),
              attn = add_rows(p, "attention of pieces", type, heads, piece);
    struct problem *rule = malloc(sizeof *rule);
    int names = b->name_count;
    clattn_status status = CLATTN_OUT_OF_MEMORY;

    build_number(b, "level", build_constant(b, 0));
    build_bind(b, "values", units);
    build_kernel(b, &p->s->steps[KERNEL_UNITS], (struct grid3){p->slots, 1, 1});
    build_bind(b, "v", units);
    build_bind(b, "o", attn);
    build_bind(b, "final", IR_NONE);
    if (rule != NULL) {
        *rule = piece_problem(p->problem, piece, piece, 0);
        status = add_rule(p, rule, p->cuts, IR_NONE, p->pieces, p->tokens);
    }
    b->name_count = names;
    build_bind(b, "attn", attn);
    build_number(b, "adds", build_binary(b, IR_LOWER, p->buckets, build_constant(b, 1)));
    build_kernel(b, &p->s->steps[KERNEL_OWN], (struct grid3){p->slots, heads, p->s->value_groups});
    b->name_count = names;
    free(rule);
    return status;
}

/* The number of buckets above the smallest pieces of which a sequence of the call may have tokens that are read, or that
 * the final state has. */
static ir_expression bucket_count(struct builder *b, const struct problem *problem, int own)
{
    const ir_expression last =
        build_binary(b, IR_SUBTRACT, build_length(b, IR_TOKENS), build_constant(b, has_final(problem) ? 0 : 1));
    const ir_expression all =
        build_binary(b, IR_LOWER, build_binary(b, IR_BITS, last, last), build_constant(b, problem->desc.levels - 1));

    return build_binary(b, IR_HIGHER, build_binary(b, IR_SUBTRACT, all, build_constant(b, own)), build_constant(b, 0));
}

static struct pieces pieces_of(struct builder *b, const struct problem *problem, const struct pieces_shape *s)
{
    const ir_expression tokens = build_length(b, IR_TOKENS), sequences = build_length(b, IR_SEQUENCES);
    struct pieces p = {.b = b, .problem = problem, .s = s, .sequences = sequences};

    p.tokens = is_packed(problem) ? tokens : build_binary(b, IR_MULTIPLY, build_length(b, IR_BATCH), tokens);
    p.slots = build_slots(b, s->tiles.piece);
    p.pieces = pieces_of_length(b, problem, build_constant(b, s->tiles.piece));
    p.entries = build_binary(b, IR_ADD, p.pieces, build_constant(b, 1));
    p.buckets = bucket_count(b, problem, bits_of(s->tiles.piece));
    p.cuts = add_cuts(&p, "cuts");
    p.lasts = has_final(problem) ? add_cuts(&p, "last pieces") : IR_NONE;
    return p;
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    enum { PARTS = 8 };
    const struct pieces_shape *s = shape;
    const clattn_plan_desc *desc = &problem->desc;
    const int own = bits_of(s->tiles.piece), few = lower(s->tiles.few, desc->levels - 1);
    const int64_t heads = problem_work_heads(problem);
    struct pieces p = pieces_of(b, problem, s);

    bind_rows(&p);
    build_bind(b, "cuts", p.cuts);
    build_bind(b, "lasts", p.lasts);
    build_bind(b, "sums", add_rows(&p, "sums", CLATTN_F32, heads, s->pitch));
    build_bind(b, "values", add_rows(&p, "values", desc->dtype, heads, desc->value_dim));
    build_bind(b, "read", add_rows(&p, "read", desc->dtype, heads, desc->value_dim));
    build_kernel(b, &s->steps[KERNEL_CUT],
                 (struct grid3){build_binary(b, IR_ADD, p.buckets, build_constant(b, 1)), PARTS, 1});
    TRY(add_buckets(&p, own, few));
    TRY(add_buckets(&p, few, desc->levels - 1));
    TRY(add_own(&p));
    if (has_final(problem))
        levels_add_tail(b, &s->steps[KERNEL_TAIL], &s->steps[KERNEL_POSITION], &s->tiles.tail, s->tail_groups);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct pieces_shape *s = shape;

    (void)step;
    text_format(text, "group %d, vec %d, piece %d, few from %d, value tile %d\n", s->tiles.own.group, s->tiles.own.vec,
                s->tiles.piece, s->tiles.few, s->tiles.own.block_v);
}

const struct solver solver_levels_pieces = {
    .space = {"levels_pieces", parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_CHUNK,
    .rank = 965,
    .tiles_size = sizeof(struct pieces_tiles),
    .shape_size = sizeof(struct pieces_shape),
    .prefers = prefers,
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
