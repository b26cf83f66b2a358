/* delta: attention whose values depend on those before, u_t = v_t - beta_t sum_(j<t) P_tj u_j, on any device. A span of
 * every sequence at a time: write_before sums what the keys before the span make of its rows, a group a block of rows;
 * write_solve goes through the span block by block, a group a key head. At last flash reads u in the place of v. */
#include "solve/deltaformer/deltaformer.h"

#include "solve/state_words.h"

/* As the chunk, a span does not depend on lengths: packed sequences have the bits that they have alone. It is short
 * on a device that leaves loops after some turns (device->loop_turns), which are as many as the square of a span's
 * chunks. */
enum { FLOAT = 4, SERIAL_VEC = 16, SHARED_VEC = 4, SPAN_TOKENS = 512 };

/* The kernels ahead of the read. */
enum part { BEFORE, SOLVE, PARTS };

struct delta_tiles {
    int group;          /* work-items */
    int vec;            /* floats that a work-item works at once */
    int chunk;          /* rows of a block, and keys */
    int span;           /* blocks of rows of a span */
    int block_k;        /* channels in local memory at once */
    int block_v[PARTS]; /* value columns of a group */
    int sub_group;      /* work-items of a sub-group; 0: the compiler's choice */
    struct flash_tiles read;
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("chunk", struct delta_tiles, chunk, 8, 16, 32, 64),
    PARAMETER_ROW("vec", struct delta_tiles, vec, 4, 16),
    PARAMETER_ROW("span", struct delta_tiles, span, 2, 4, 8, 16, 32, 64),
    PARAMETER_ROW("group", struct delta_tiles, group, 1, 16, 32, 64, 128, 256),
    PARAMETER_ROW("block_k", struct delta_tiles, block_k, 16, 32, 64, 128),
    PARAMETER_ROW("solve.block_v", struct delta_tiles, block_v[SOLVE], 16, 32, 64, 128, 256),
    PARAMETER_ROW("flash.chunk", struct delta_tiles, read.chunk, 8, 16, 32, 64),
    PARAMETER_ROW("flash.group", struct delta_tiles, read.group, 1, 16, 32, 64, 128, 256),
    PARAMETERS_END,
};

struct shape {
    struct delta_tiles tiles;
    struct kernel_step steps[PARTS];
    struct flash_shape read;
};

/* ---- What the solvers share ---------------------------------------------------------------------------------------
 */

int deltaformer_applies(const struct problem *problem)
{
    return rule_has_list(problem->rule) && problem->rule->erase == ERASE_KERNEL &&
           !(problem->desc.flags & CLATTN_WITH_ATTN);
}

/* What is written: the caller's operand, or scratch memory [batch, key, key head, value column]. */
static int written_values(struct builder *b, const struct problem *problem)
{
    const clattn_plan_desc *desc = &problem->desc;
    const struct extent most = problem_most(problem);
    const int64_t keys = desc->flags & CLATTN_CU_SEQLENS ? most.kv_len : most.kv_len * most.batch;
    const int64_t row = desc->kv_heads * desc->value_dim;
    const ir_expression strides[3] = {build_times(b, build_length(b, IR_KEYS), row), build_constant(b, row),
                                      build_constant(b, desc->value_dim)};
    const int operand = build_operand(b, CLATTN_WRITTEN);

    return operand != IR_NONE ? operand : build_scratch_of(b, "written", desc->dtype, keys * row, strides);
}

void deltaformer_add_spans(struct builder *b, const struct problem *problem, const struct deltaformer_span *span)
{
    const int64_t heads = problem->desc.kv_heads, parts = problem_most(problem).sequences * heads * span->part;
    const ir_expression sequences = build_length(b, IR_SEQUENCES);
    const int first = b->ir->step_count;
    int written;

    build_bind(b, "partials", build_scratch(b, "parts of the keys", CLATTN_F32, parts));
    written = written_values(b, problem);
    build_bind(b, "written", written);
    if (build_bound(b, "p") == IR_NONE)
        build_bind(b, "p", build_bound(b, "k"));
    build_number(b, "first_row", ir_loop_value(b->ir, IR_LOOP_FIRST, build_next_loop(b)));
    build_kernel(b, span->before, (struct grid3){sequences, heads, span->before_groups});
    build_kernel(b, span->solve, (struct grid3){sequences, heads, span->solve_groups});
    build_loop(b, first, build_length(b, IR_KEYS), span->rows);
    build_bind(b, "v", written);
}

/* ---- Shape --------------------------------------------------------------------------------------------------------
 */

/* Floats that write_before leaves of a block of rows: sums of all columns, m and the sum of weights. */
static int64_t block_floats(const struct problem *problem, const struct delta_tiles *t)
{
    return (int64_t)t->chunk * round_up(problem->desc.value_dim, t->vec) + 2 * (int64_t)round_up(t->chunk, t->vec);
}

static void add_locals(struct kernel_step *step, const struct problem *problem, const struct delta_tiles *t,
                       enum part part)
{
    const int channels = round_up(problem->desc.key_dim, t->block_k), columns = round_up(t->chunk, t->vec);
    const int solves = part == SOLVE;

    step_local(step, "LOCAL_QUERIES", channels * columns, FLOAT);
    step_local(step, "LOCAL_ROWS", t->chunk * higher(t->block_k, t->block_v[part]), FLOAT);
    step_locals(step, "LOCAL_SCORES", solves ? 3 : 1, t->chunk * columns, FLOAT);
    step_local(step, "LOCAL_OUTPUT", t->chunk * t->block_v[part], FLOAT);
    step_locals(step, "LOCAL_NORMS", solves ? 2 : 1, t->chunk, FLOAT);
    step_local(step, "LOCAL_WEIGHTS", 4 * columns, FLOAT);
}

static struct kernel_step part_step(const struct problem *problem, const struct delta_tiles *t, enum part part)
{
    static const enum embedded_file files[] = {[BEFORE] = FILE_write_before, [SOLVE] = FILE_write_solve};
    const clattn_plan_desc *desc = &problem->desc;
    const struct number numbers[] = {
        {"BK", t->block_k},
        {"BV", t->block_v[part]},
        {"KP", round_up(desc->key_dim, t->block_k)},
        {"VP", round_up(desc->value_dim, t->vec)},
        {"RP", t->block_k},
        {"CP", round_up(t->chunk, t->vec)},
        {"SPAN", t->span},
        {"PARTIALS", block_floats(problem, t)},
        {"KV_GROUP", desc->heads / desc->kv_heads},
        {"KV_HEADS", desc->kv_heads},
    };
    struct kernel_step step = kernel_step(files[part], problem);

    step_tile(&step, t->group, t->vec, t->chunk, t->sub_group);
    add_locals(&step, problem, t, part);
    step_constants(&step, numbers, sizeof numbers / sizeof *numbers);
    step_header(&step, FILE_output_plain);
    step_header(&step, flash_weights(desc->write_kernel));
    step_header(&step, FILE_write);
    return step;
}

static int fits(const struct device_facts *facts, const struct problem *problem, const struct delta_tiles *t,
                enum part part)
{
    const struct kernel_step step = part_step(problem, t, part);

    return step_fits(&step, facts->device) == CLATTN_SUCCESS;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct shape *s = shape;

    (void)solver;
    s->tiles = *(const struct delta_tiles *)tiles;
    for (enum part part = BEFORE; part < PARTS; part++) {
        s->steps[part] = part_step(problem, tiles, part);
        TRY(step_fits(&s->steps[part], facts->device));
    }
    return flash_derive_shape(facts, problem, &s->tiles.read, &s->read);
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

/* Narrower value tiles, then shorter blocks, then narrower slices, until local memory holds the larger kernel. */
static clattn_status cut_to_fit(const struct device_facts *facts, const struct problem *problem, struct delta_tiles *t)
{
    while (!fits(facts, problem, t, SOLVE)) {
        if (t->block_v[SOLVE] > 4 * t->vec)
            t->block_v[SOLVE] = round_up(t->block_v[SOLVE] / 2, t->vec);
        else if (problem->desc.chunk == 0 && t->chunk > 8)
            t->chunk /= 2;
        else if (t->block_k > t->vec)
            t->block_k = round_up(t->block_k / 2, t->vec);
        else
            return CLATTN_UNSUPPORTED;
    }
    t->block_v[BEFORE] = t->block_v[SOLVE];
    return CLATTN_SUCCESS;
}

/* Turns of loops of a work-item that goes through a span: every block with those before it. */
static int64_t solve_turns(const struct problem *problem, const struct delta_tiles *t)
{
    return (int64_t)t->span * (t->span + 3) / 2 *
           list_block_turns(problem, t->group, t->vec, t->chunk, t->block_v[SOLVE]);
}

static clattn_status by_heuristic(const struct device_facts *facts, const struct problem *problem,
                                  struct delta_tiles *t)
{
    const clattn_plan_desc *desc = &problem->desc;
    const struct device *device = facts->device;
    const int serial = is_serial(facts), vec = serial ? SERIAL_VEC : SHARED_VEC, chunk = serial ? 32 : 16;

    *t = (struct delta_tiles){.group = serial ? 1 : lower(64, facts->most_group),
                              .vec = vec,
                              .chunk = desc->chunk != 0 ? desc->chunk : chunk,
                              .block_k = flash_slice(desc->key_dim, serial ? 64 : 32, vec),
                              .block_v[SOLVE] = lower(round_up(desc->value_dim, vec), serial ? 64 : 32),
                              .sub_group = serial ? 0 : device->sub_group};
    TRY(cut_to_fit(facts, problem, t));
    t->span = SPAN_TOKENS / t->chunk;
    while (device->loop_turns != 0 && t->span > 1 && solve_turns(problem, t) > device->loop_turns)
        t->span /= 2;
    return CLATTN_SUCCESS;
}

static clattn_status correct(const struct device_facts *facts, const struct problem *problem, struct delta_tiles *t)
{
    const clattn_plan_desc *desc = &problem->desc;

    t->block_k = lower(round_up(t->block_k, t->vec), round_up(desc->key_dim, t->vec));
    for (enum part part = BEFORE; part < PARTS; part++) {
        t->block_v[part] = lower(round_up(t->block_v[part], t->vec), round_up(desc->value_dim, t->vec));
        if (!fits(facts, problem, t, part))
            return CLATTN_UNSUPPORTED;
    }
    return group_fits(facts, t->group) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    struct delta_tiles *t = tiles;
    const struct delta_tiles chosen = *t;

    (void)solver;
    TRY(by_heuristic(facts, problem, t));
    if (take_tiles(t, &chosen, offsetof(struct delta_tiles, read)) > 0)
        TRY(correct(facts, problem, t));
    t->read = chosen.read;
    return flash_choose_tiles(facts, problem, &t->read);
}

/* ---- The recipe ---------------------------------------------------------------------------------------------------
 */

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return deltaformer_applies(problem);
}

static int64_t turns(const struct problem *problem, const void *shape)
{
    const struct delta_tiles *t = &((const struct shape *)shape)->tiles;
    const int64_t before = divide_up(problem_most(problem).kv_len, t->chunk) *
                           list_block_turns(problem, t->group, t->vec, t->chunk, t->block_v[BEFORE]);

    return higher(before, higher(solve_turns(problem, t), flash_turns(problem, &t->read)));
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    (void)problem;
    return flash_reach(&((const struct shape *)shape)->read);
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct shape *s = shape;
    const struct delta_tiles *t = &s->tiles;
    const int64_t values = problem->desc.value_dim;
    const struct deltaformer_span span = {.before = &s->steps[BEFORE],
                                          .solve = &s->steps[SOLVE],
                                          .before_groups = divide_up(values, t->block_v[BEFORE]) * t->span,
                                          .solve_groups = divide_up(values, t->block_v[SOLVE]),
                                          .part = t->span * block_floats(problem, t),
                                          .rows = (int64_t)t->span * t->chunk};

    deltaformer_add_spans(b, problem, &span);
    flash_add(b, problem, &s->read);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct shape *s = shape;
    const struct delta_tiles *t = &s->tiles;

    if (step >= PARTS) {
        flash_describe(text, &s->read);
        return;
    }
    text_format(text, "group %d, vec %d, chunk %d, span of %d chunks, key slice %d, value tile %d, local %zu bytes\n",
                t->group, t->vec, t->chunk, t->span, t->block_k, t->block_v[step], s->steps[step].local_bytes);
}

const struct solver solver_delta = {
    .space = {"delta", parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_CHUNK,
    .rank = 830,
    .tiles_size = sizeof(struct delta_tiles),
    .shape_size = sizeof(struct shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .turns = turns,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
