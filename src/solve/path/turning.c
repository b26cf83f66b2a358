/* Queries and keys that are turned each by itself, by all tokens up to its own (CLATTN_ABSOLUTE): then a list is read
 * in which nothing turns. */
#include "solve/path/path.h"

enum { PREPARE, CARRY, TURN };

clattn_status path_derive_turning(const struct device_facts *facts, const struct problem *problem,
                                  const struct path_tiles *tiles, struct path_turning *turning)
{
    turning->tiles = *tiles;
    turning->prepare = path_prepare_step(problem, tiles);
    turning->carry = path_carry_step(problem, tiles);
    turning->turn = path_turn_step(problem, tiles);
    TRY(step_fits(&turning->prepare, facts->device));
    TRY(step_fits(&turning->carry, facts->device));
    return step_fits(&turning->turn, facts->device);
}

/* Memory for rows of so many heads of every sequence, which touch. */
static int turned_rows(struct builder *b, const char *name, int64_t heads, int64_t tokens)
{
    const clattn_plan_desc *desc = &b->problem->desc;
    const int64_t row = heads * desc->key_dim;
    const ir_expression strides[3] = {build_constant(b, tokens * row), build_constant(b, row),
                                      build_constant(b, desc->key_dim)};

    return build_scratch_of(b, name, desc->dtype, desc->batch * tokens * row, strides);
}

void path_add_turning(struct builder *b, const struct path_turning *turning)
{
    const clattn_plan_desc *desc = &b->problem->desc;
    const struct extent most = problem_most(b->problem);
    const int queries = turned_rows(b, "turned queries", desc->heads, most.seq_len);
    const int keys = turned_rows(b, "turned keys", desc->kv_heads, most.kv_len);
    const struct grid3 grid = {build_key_slots(b, turning->tiles.chunk), desc->kv_heads + desc->heads, 1};

    build_bind(b, "turned_q", queries);
    build_bind(b, "turned_k", keys);
    path_add_prepared(b, &turning->tiles, &turning->prepare, &turning->carry);
    build_kernel(b, &turning->turn, grid);
    build_bind(b, "q", queries);
    build_bind(b, "k", keys);
}

void path_describe_turning(struct text *text, const struct path_turning *turning, int step)
{
    const struct kernel_step *kernel = step == PREPARE ? &turning->prepare
                                       : step == CARRY ? &turning->carry
                                                       : &turning->turn;

    path_describe(text, &turning->tiles, kernel, turning->tiles.block_v);
}
