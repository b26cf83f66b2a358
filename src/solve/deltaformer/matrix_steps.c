/* The kernels that write a span on a matrix engine: their constants, words and local memory. */
#include "solve/deltaformer/matrix.h"

enum { TILE = MATRIX_TILE, PAD = 8, NUMBER = 2, FLOAT = 4 };

int64_t deltaformer_part_floats(const struct problem *problem, const struct deltaformer_matrix_tiles *t)
{
    enum { CHAIN_WORDS = 256 }; /* of a tile of 16 rows, at most */
    const int64_t rows = t->span, tiles = rows / TILE, values = round_up(problem->desc.value_dim, TILE);

    return t->splits * rows * values + (t->splits + 1) * 2 * rows + tiles * (tiles + 1) / 2 * CHAIN_WORDS;
}

static void add_span_constants(struct kernel_step *step, const struct problem *problem,
                               const struct deltaformer_matrix_tiles *t)
{
    step_constant(step, "SPAN_ROWS", t->span);
    step_constant(step, "SPLITS", t->splits);
    step_constant(step, "PARTIALS", deltaformer_part_floats(problem, t));
}

struct kernel_step deltaformer_before_step(const struct engine *engine, const struct problem *problem,
                                           const struct deltaformer_matrix_tiles *t)
{
    const int team = t->before.team;
    struct kernel_step step =
        flash_matrix_step(team ? FILE_write_before_team : FILE_write_before_matrix, engine, problem, &t->before);

    step_header(&step, team ? FILE_flash_before_team : FILE_flash_before);
    add_span_constants(&step, problem, t);
    return step;
}

static void add_solve_locals(struct kernel_step *step, const struct deltaformer_matrix_tiles *t, int rows)
{
    const int pitch = t->solve.block_v + PAD;

    step_local(step, "LOCAL_TILES", (int64_t)t->span * pitch, NUMBER);
    step_local(step, "LOCAL_FACTORS", (t->splits + 1) * rows, FLOAT);
    step_local(step, "LOCAL_DIAGONALS", rows * TILE, FLOAT);
    step_local(step, "LOCAL_INVERSES", rows * (TILE + PAD), NUMBER);
    step_local(step, "LOCAL_TILE", TILE * pitch, NUMBER);
}

struct kernel_step deltaformer_solve_step(const struct engine *engine, const struct problem *problem,
                                          const struct deltaformer_matrix_tiles *t)
{
    enum { VEC = 4 };
    const clattn_plan_desc *desc = &problem->desc;
    const int rows = t->solve.subs * engine->rows;
    const struct number numbers[] = {
        {"ROWS", rows},
        {"KV_GROUP", desc->heads / desc->kv_heads},
        {"VT", t->solve.block_v / TILE},
        {"VALUE_PITCH", t->solve.block_v + PAD},
        {"BV", t->solve.block_v},
        {"VALUE_TILES", t->solve.subs},
        {"READERS", 0},
    };
    struct kernel_step step = kernel_step(FILE_write_solve_matrix, problem);

    step_tile(&step, t->solve.group, VEC, t->before.chunk, t->before.sub_group);
    step.options = engine->options;
    step.any_group = 1;
    if (engine->registers > 0) /* two groups a compute unit: a few more than the compiler would find room for */
        step.registers = engine->registers / (2 * t->solve.group) / 8 * 8;
    step_scratch(&step, engine->scratch);
    add_solve_locals(&step, t, rows);
    step_constants(&step, numbers, sizeof numbers / sizeof *numbers);
    step_header(&step, engine->instructions);
    step_header(&step, engine->words);
    step_header(&step, FILE_flash_solve);
    add_span_constants(&step, problem, t);
    return step;
}
