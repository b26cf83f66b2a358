#include "solve/pieces.h"

enum { SERIAL_VEC = 16, WIDE_VEC = 8, SHARED_VEC = 4 };

struct columns piece_columns(const struct device_facts *facts, const struct problem *problem)
{
    enum { GROUP = 128, SERIAL_COLUMNS = 256 };
    const int serial = is_serial(facts), values = problem_values(problem);
    const int narrow = problem->desc.dtype != CLATTN_F32 && problem->desc.taps <= 4;
    const int room = facts->device->sub_group == 0; /* Intel's work-items have too few registers for vectors of 8 */
    struct columns c = {.group = serial ? 1 : lower(GROUP, facts->most_group), .vec = SHARED_VEC};

    c.sub_group = serial ? 0 : facts->device->sub_group;
    if (serial && values >= SERIAL_VEC)
        c.vec = SERIAL_VEC;
    if (!serial && narrow && room && values >= WIDE_VEC)
        c.vec = WIDE_VEC;
    c.block_v = lower(round_up(values, c.vec), serial ? SERIAL_COLUMNS : c.group * c.vec);
    return c;
}

void columns_complete(struct columns *columns, int group, int vec)
{
    if (group != TILE_OPEN)
        columns->group = group;
    if (vec != TILE_OPEN)
        columns->vec = vec;
    columns->block_v = round_up(columns->block_v, columns->vec);
}

struct kernel_step piece_step(enum embedded_file file, const struct problem *problem, const struct columns *columns,
                              int chunk)
{
    struct kernel_step step = kernel_step(file, problem);

    step_tile(&step, columns->group, columns->vec, chunk, columns->sub_group);
    step_constant(&step, "BV", columns->block_v);
    return step;
}

/* Slots; of a call of no tokens the sequences. */
static ir_expression slots_or_sequences(const struct builder *b, ir_expression slots)
{
    const ir_expression tokens = build_length(b, IR_TOKENS), none = build_constant(b, 0);
    const ir_expression left =
        build_binary(b, IR_MULTIPLY, build_binary(b, IR_EQUAL, tokens, none), build_length(b, IR_SEQUENCES));

    return build_binary(b, IR_ADD, left, build_binary(b, IR_MULTIPLY, build_binary(b, IR_LESS, none, tokens), slots));
}

void piece_add(struct builder *b, const struct kernel_step *step, int chunk, int64_t head_groups, int64_t value_groups,
               int leaves_state)
{
    const ir_expression slots = build_slots(b, chunk);

    build_kernel(b, step,
                 (struct grid3){leaves_state ? slots_or_sequences(b, slots) : slots, head_groups, value_groups});
}

void piece_describe(struct text *text, const struct columns *columns, int chunk, int tokens, size_t local_bytes)
{
    text_format(text, "group %d, vec %d, chunk %d, %d tokens of %d columns, local %zu bytes\n", columns->group,
                columns->vec, chunk, tokens, columns->block_v, local_bytes);
}
