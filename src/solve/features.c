/* features: feature maps of queries or keys for linear attention: FAVOR+, random Fourier features, Hedgehog.
 *
 * A group computes `chunk` rows of one head. It projects them on all of omega, which its rows share, then writes the
 * features. A work-item projects `tokens` of the rows at once. */
#include "solve/pieces_back.h"

enum { STATS = 3 }; /* numbers that the work-items of a row share */

/* Projections of a row. */
static int64_t projections_of(const clattn_plan_desc *desc)
{
    return desc->features == CLATTN_FEATURES_FAVOR ? desc->key_dim : desc->key_dim / 2;
}

/* Bytes of local memory for that many rows. */
static int64_t local_bytes(const clattn_plan_desc *desc, int rows)
{
    return rows * (projections_of(desc) + STATS) * (int64_t)sizeof(float);
}

/* The rows of a work-item share its loads of omega. */
static void choose(const struct device_facts *facts, const struct problem *problem, struct piece_tiles *t)
{
    enum { RUN = 4, ROWS = 16 };
    const int few = problem->desc.seq_len < RUN;

    t->tokens = few ? 1 : RUN;
    t->chunk = few ? 1 : ROWS;
    while (t->chunk > t->tokens && local_bytes(&problem->desc, t->chunk) > (int64_t)facts->device->info.local_memory)
        t->chunk /= 2;
}

static void add(struct kernel_step *step, const struct problem *problem, const struct piece_tiles *t)
{
    const clattn_plan_desc *desc = &problem->desc;
    const int64_t projections = projections_of(desc);

    step_constant(step, "M", projections);
    step_constant(step, "RUN", t->tokens);
    step_constant(step, "IS_FAVOR", desc->features == CLATTN_FEATURES_FAVOR);
    step_constant(step, "IS_RFA", desc->features == CLATTN_FEATURES_RFA);
    step_constant(step, "IS_HEDGEHOG", desc->features == CLATTN_FEATURES_HEDGEHOG);
    step_constant(step, "OF_QUERIES", (desc->flags & CLATTN_OF_QUERIES) != 0);
    step_local(step, "LOCAL_PROJECTIONS", t->chunk * projections, sizeof(float));
    step_local(step, "LOCAL_STATS", (int64_t)t->chunk * STATS, sizeof(float));
}

/* A group handles whole rows. */
static struct piece_groups groups(const struct problem *problem, const struct piece_tiles *t)
{
    (void)t;
    return (struct piece_groups){problem_work_heads(problem), 1};
}

static const struct piece_body body = {PIECE_FEATURES, FILE_features, choose, NULL, add, groups};
const struct solver solver_features = {PIECE_SOLVER("features", &body)};

/* ---- The backward pass --------------------------------------------------------------------------------------------
 *
 * The first kernel has the gradient by v and leaves, for each row, those by its projections. The second multiplies these
 * with v: a group adds all of a head's tokens of a chunk of its own, which is longer. */

struct back_shape {
    struct piece_shape rows;
    struct shares shares;
    struct kernel_step weights;
    int chunk; /* tokens of a group of the second kernel */
};

/* Chunks of the second kernel: few, because each leaves a head's whole omega. */
static int weights_chunk(const struct problem *problem)
{
    enum { LEAST = 64, MOST_CHUNKS = 32, MOST = 1 << 20 };
    int chunk = LEAST;

    while (chunk < MOST && most_slots(problem, chunk) > MOST_CHUNKS * problem_most(problem).sequences)
        chunk *= 2;
    return chunk;
}

static void add_columns(struct kernel_step *step, const struct problem *problem, int vec)
{
    step_constant(step, "COLUMN_VECTORS", divide_up(problem->desc.value_dim, vec));
    step_constant(step, "HEADS", problem->desc.heads);
    step_constant(step, "ADD_V", problem_adds(problem, CLATTN_V));
    step->out = problem->desc.dtype;
}

static clattn_status derive_back(const struct solver *solver, const struct device_facts *facts,
                                 const struct problem *problem, const void *tiles, void *shape)
{
    const struct share omega = {CLATTN_OMEGA, "AT_OMEGA", projections_of(&problem->desc) * problem->desc.value_dim, 0};
    const struct piece_tiles *t = tiles;
    struct back_shape *s = shape;

    TRY(piece_derive_shape(solver, facts, problem, tiles, &s->rows));
    step_local(&s->rows.step, "LOCAL_SUMS", t->chunk, sizeof(float));
    add_columns(&s->rows.step, problem, t->vec);
    shares_add(&s->shares, problem, &omega);
    shares_derive(&s->shares, facts, problem);
    s->chunk = weights_chunk(problem);
    s->weights = kernel_step(FILE_features_weights, problem);
    step_tile(&s->weights, t->group, t->vec, s->chunk, t->sub_group);
    step_constant(&s->weights, "M", projections_of(&problem->desc));
    add_columns(&s->weights, problem, t->vec);
    shares_constants(&s->shares, &s->weights);
    return step_fits(&s->rows.step, facts->device);
}

/* Rows of projections, [batch, token, head] */
static int slopes_of(struct builder *b, const struct problem *problem)
{
    const int64_t row = projections_of(&problem->desc), token = problem->desc.heads * row;
    const ir_expression strides[3] = {build_times(b, build_length(b, IR_TOKENS), token), build_constant(b, token),
                                      build_constant(b, row)};

    return build_scratch_of(b, "slopes", CLATTN_F32, problem->desc.batch * problem->desc.seq_len * token, strides);
}

static clattn_status recipe_back(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct back_shape *s = shape;
    const ir_expression slots = build_slots(b, s->chunk);

    build_bind(b, "d_o", build_operand(b, gradient_of(CLATTN_O)));
    build_bind(b, "d_v", build_operand(b, gradient_of(CLATTN_V)));
    build_bind(b, "slopes", slopes_of(b, problem));
    shares_bind(b, &s->shares, most_slots(problem, s->chunk));
    TRY(piece_recipe(b, problem, &s->rows));
    build_kernel(b, &s->weights, (struct grid3){slots, problem->desc.heads, 1});
    shares_build(b, &s->shares, slots);
    return CLATTN_SUCCESS;
}

static const struct piece_body back = {PIECE_FEATURES, FILE_features_back, choose, NULL, add, groups};
const struct solver solver_features_back = {
    .space = {"features_back", piece_parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_RECURRENT,
    .backward = 1,
    .variant = &back,
    .tiles_size = sizeof(struct piece_tiles),
    .shape_size = sizeof(struct back_shape),
    .applies = piece_applies,
    .choose_tiles = piece_choose_tiles,
    .derive_shape = derive_back,
    .reach = piece_reach,
    .recipe = recipe_back,
    .describe = piece_describe,
};
