/* The kernels of any device, with all that their sources depend on. */
#include "solve/path/path.h"

enum { FLOAT = 4 };

/* Floats of the tiles that a kernel works with. */
struct sizes {
    int channels;        /* padded to whole slices */
    int span_rows;       /* of a span's matrix H, rounded up to whole chunks */
    int columns, matrix; /* a chunk in whole vectors, and a chunk's rows of them */
    int slice, values;
};

static struct sizes sizes_of(const struct problem *problem, const struct path_tiles *t)
{
    struct sizes s = {.channels = round_up(problem->desc.key_dim, t->block_k),
                      .columns = round_up(t->chunk, t->vec),
                      .slice = t->chunk * t->block_k,
                      .values = t->chunk * t->block_v};

    s.span_rows = round_up(s.channels, t->chunk);
    s.matrix = t->chunk * s.columns;
    return s;
}

static struct kernel_step path_step(enum embedded_file file, const struct problem *problem, const struct path_tiles *t,
                                    int group)
{
    const struct sizes s = sizes_of(problem, t);
    const struct number numbers[] = {
        {"BK", t->block_k},
        {"BV", t->block_v},
        {"KP", s.channels},
        {"HP", s.span_rows},
        {"RP", t->block_k},
        {"CP", s.columns},
        {"SPAN", t->span},
        {"KV_GROUP", problem->desc.heads / problem->desc.kv_heads},
        {"KV_HEADS", problem->desc.kv_heads},
    };
    struct kernel_step step = kernel_step(file, problem);

    step_tile(&step, group, t->vec, t->chunk, t->sub_group);
    step_constants(&step, numbers, sizeof numbers / sizeof *numbers);
    return step;
}

struct kernel_step path_prepare_step(const struct problem *problem, const struct path_tiles *t)
{
    const struct sizes s = sizes_of(problem, t);
    struct kernel_step step = path_step(FILE_prepare_path, problem, t, t->prepare_group);

    step_locals(&step, "LOCAL_SLICE", 3, s.slice, FLOAT);
    step_locals(&step, "LOCAL_SCORES", 4, s.matrix, FLOAT);
    step_locals(&step, "LOCAL_NORMS", 2, t->chunk, FLOAT);
    step_header(&step, FILE_path);
    return step;
}

/* A kernel that has a block's rows transposed in local memory, and walks others a slice at a time. */
static struct kernel_step walking_step(enum embedded_file file, const struct problem *problem,
                                       const struct path_tiles *t, int matrices)
{
    const struct sizes s = sizes_of(problem, t);
    struct kernel_step step = path_step(file, problem, t, t->prepare_group);

    step_local(&step, "LOCAL_QUERIES", s.channels * s.columns, FLOAT);
    step_local(&step, "LOCAL_SLICE", s.slice, FLOAT);
    step_locals(&step, "LOCAL_SCORES", matrices, s.matrix, FLOAT);
    step_header(&step, FILE_path);
    return step;
}

struct kernel_step path_carry_step(const struct problem *problem, const struct path_tiles *t)
{
    return walking_step(FILE_carry_path, problem, t, 1);
}

struct kernel_step path_turn_step(const struct problem *problem, const struct path_tiles *t)
{
    const struct sizes s = sizes_of(problem, t);
    struct kernel_step step = walking_step(FILE_turn_path, problem, t, 1);

    step_local(&step, "LOCAL_CROSSED", s.span_rows * s.columns, FLOAT);
    return step;
}

struct kernel_step path_fold_step(const struct problem *problem, const struct path_tiles *t)
{
    struct kernel_step step = walking_step(FILE_fold_path, problem, t, 2);

    step_local(&step, "LOCAL_NORMS", t->chunk, FLOAT);
    return step;
}

struct kernel_step path_read_step(const struct problem *problem, const struct path_tiles *t)
{
    const struct sizes s = sizes_of(problem, t);
    const int is_gated = problem_decay(problem) != DECAY_NONE;
    struct kernel_step step = path_step(FILE_flash_path, problem, t, t->read_group);

    step_local(&step, "LOCAL_QUERIES", s.channels * s.columns, FLOAT);
    step_local(&step, "LOCAL_CROSSED", s.span_rows * s.columns, FLOAT);
    step_local(&step, "LOCAL_ROWS", higher(higher(s.slice, s.values), s.matrix), FLOAT);
    step_locals(&step, "LOCAL_SCORES", 2, s.matrix, FLOAT);
    step_local(&step, "LOCAL_OUTPUT", s.values, FLOAT);
    step_local(&step, "LOCAL_WEIGHTS", 4 * s.columns, FLOAT);
    step_local(&step, "LOCAL_NORMS", t->chunk, FLOAT);
    step_local(&step, "LOCAL_BIAS", is_gated ? 2 * t->chunk + s.columns : 1, FLOAT);
    flash_add_words(&step, problem, flash_weights(problem->desc.kernel));
    step_header(&step, FILE_path);
    return step;
}

/* ---- In a recipe --------------------------------------------------------------------------------------------------
 */

void path_add_prepared(struct builder *b, const struct path_tiles *t, const struct kernel_step *prepare,
                       const struct kernel_step *carry)
{
    enum { TURN_ROWS = 3 }; /* of path.clh */
    const struct problem *problem = b->problem;
    const struct sizes s = sizes_of(problem, t);
    const int64_t heads = problem->desc.kv_heads, blocks = most_key_slots(problem, t->chunk);
    const int64_t spans = blocks / t->span + problem_most(problem).sequences;
    const ir_expression slots = build_key_slots(b, t->chunk);

    build_bind(b, "records", build_scratch(b, "records", CLATTN_F32, blocks * heads * s.matrix));
    build_bind(b, "rows",
               build_scratch(b, "rows", CLATTN_F32, blocks * heads * TURN_ROWS * t->chunk * (int64_t)s.channels));
    build_bind(b, "segments",
               build_scratch(b, "segments", CLATTN_F32, spans * heads * s.span_rows * (int64_t)s.channels));
    build_kernel(b, prepare, (struct grid3){slots, heads, 1});
    build_kernel(b, carry, (struct grid3){slots, heads, 1 + s.span_rows / t->chunk});
}

void path_describe(struct text *text, const struct path_tiles *t, const struct kernel_step *step, int block_v)
{
    text_format(text, "group %d, vec %d, chunk %d, span of %d chunks, key slice %d, value tile %d, local %zu bytes\n",
                step->group, t->vec, t->chunk, t->span, t->block_k, block_v, step->local_bytes);
}
