#include "solve/levels/levels.h"

int levels_apply(const struct problem *problem)
{
    const struct rule *rule = problem->rule;

    return rule_has_levels(rule) && rule->decay == DECAY_SCALAR && rule->order == DECAY_FIRST &&
           (rule->erase == ERASE_NONE || rule->erase == ERASE_KEY);
}

struct kernel_step levels_step(enum embedded_file file, const struct problem *problem, const struct state_tile *tile)
{
    const struct state_sizes sizes = state_sizes(problem, tile);
    struct kernel_step step = state_step(file, problem, tile, &sizes, OUTPUTS_WRITTEN);

    step_constant(&step, "LEVELS", problem->desc.levels);
    step_constant(&step, "ERASES", problem->rule->erase != ERASE_NONE);
    return step;
}

void levels_bind_buckets(struct builder *b, const struct problem *problem, const struct state_tile *tile)
{
    const int64_t columns = (int64_t)value_groups(problem, tile->block_v) * tile->block_v;
    const int64_t state = state_sizes(problem, tile).channels * columns;
    const int64_t count = problem->desc.levels - 1;

    build_bind(b, "buckets", build_scratch(b, "buckets", CLATTN_F32, problem_heads(problem) * count * state + 1));
}

struct kernel_step levels_position_step(const struct problem *problem)
{
    struct kernel_step step = kernel_step(FILE_levels_position, problem);

    step_tile(&step, 1, 4, 1, 0);
    return step;
}

void levels_add_position(struct builder *b, const struct kernel_step *step)
{
    if (build_operand(b, CLATTN_POSITION_OUT) != IR_NONE && b->problem->pass == PASS_OUTPUTS)
        build_kernel(b, step, (struct grid3){build_length(b, IR_SEQUENCES), 1, 1});
}

void levels_add_tail(struct builder *b, const struct kernel_step *tail, const struct kernel_step *position,
                     const struct state_tile *tile, int groups)
{
    const struct problem *problem = b->problem;

    levels_bind_buckets(b, problem, tile);
    build_kernel(b, tail, (struct grid3){build_length(b, IR_SEQUENCES), problem_work_heads(problem), groups});
    levels_add_position(b, position);
}

int64_t levels_most_tokens(const struct device_facts *facts)
{
    return facts->device->serial ? 4 : 16;
}
