/* Two kernels: rows of parts are added in runs side by side, then the runs. */
#include "solve/shares.h"

enum { SEGMENTS = 64, SHARED_GROUP = 64, SERIAL_NUMBERS = 256 };

void shares_add(struct shares *shares, const struct problem *problem, const struct share *share)
{
    for (int i = 0; i < problem->operand_count; i++)
        if (problem->operands[i].id == gradient_of(share->id)) {
            shares->of[shares->count++] = *share;
            shares->width += share->numbers;
            return;
        }
    shares->absent[shares->absent_count++] = share->at;
}

static int64_t begin_of(const struct shares *shares, int index)
{
    int64_t begin = 0;

    for (int i = 0; i < index; i++)
        begin += shares->of[i].numbers;
    return begin;
}

void shares_constants(const struct shares *shares, struct kernel_step *step)
{
    step_constant(step, "WIDTH", shares->width);
    for (int i = 0; i < shares->count; i++)
        step_constant(step, shares->of[i].at, begin_of(shares, i));
    for (int i = 0; i < shares->absent_count; i++)
        step_constant(step, shares->absent[i], 0);
}

/* Numbers that a group adds. */
static int block_of(const struct kernel_step *step)
{
    return step->group == 1 ? SERIAL_NUMBERS : step->group;
}

static struct kernel_step sums_step(enum embedded_file file, const struct device_facts *facts,
                                    const struct problem *problem, int64_t width)
{
    struct kernel_step step = kernel_step(file, problem);
    const int serial = is_serial(facts);

    step_tile(&step, serial ? 1 : lower(SHARED_GROUP, facts->most_group), 4, 1, serial ? 0 : facts->device->sub_group);
    step_constant(&step, "BLOCK", block_of(&step));
    step_constant(&step, "SEGMENTS", SEGMENTS);
    step_constant(&step, "WIDTH", width);
    return step;
}

/* Elements of a gradient that a head has, or that all heads have together. */
static int64_t numbers_of(const struct problem *problem, const struct operand_row *row)
{
    const struct extent most = problem_most(problem);
    int64_t numbers = 1;

    for (const char *letter = row->dims; *letter != '\0'; letter++)
        numbers *= *letter == 'H' ? 1 : problem_dim(&problem->desc, &most, *letter);
    return numbers;
}

static const struct operand_row *row_of(const struct problem *problem, clattn_operand_id id)
{
    const struct operand_row *row = problem->operands;

    while (row->id != id)
        row++;
    return row;
}

static int is_by_head(const struct operand_row *row)
{
    return row->dims[0] == 'H';
}

void shares_derive(struct shares *shares, const struct device_facts *facts, const struct problem *problem)
{
    const int64_t heads = problem_work_heads(problem);

    shares->add = sums_step(FILE_add_parts, facts, problem, heads * shares->width);
    for (int i = 0; i < shares->count; i++) {
        const clattn_operand_id id = gradient_of(shares->of[i].id);
        const struct operand_row *row = row_of(problem, id);
        const int64_t numbers = numbers_of(problem, row);
        struct kernel_step *step = &shares->leave[i];
        *step = sums_step(FILE_leave_sums, facts, problem, shares->width);
        step->out = problem->types[id];
        step_constant(step, "HEADS", heads);
        step_constant(step, "AT", begin_of(shares, i));
        step_constant(step, "NUMBERS", numbers);
        step_constant(step, "INNER", shares->of[i].summed ? shares->of[i].numbers / numbers : 1);
        step_constant(step, "OF_ALL", !is_by_head(row));
        step_constant(step, "ADDS", problem_adds(problem, shares->of[i].id));
    }
}

void shares_bind(struct builder *b, const struct shares *shares, int64_t most)
{
    const int64_t row = problem_work_heads(b->problem) * shares->width;

    build_bind(b, "parts", build_scratch(b, "parts", CLATTN_F32, most * row));
    build_bind(b, "middle", build_scratch(b, "sums of parts", CLATTN_F32, SEGMENTS * row));
}

void shares_build(struct builder *b, const struct shares *shares, ir_expression rows)
{
    const int64_t heads = problem_work_heads(b->problem), block = block_of(&shares->add);

    if (shares->count == 0)
        return;
    build_number(b, "count", rows);
    build_kernel(b, &shares->add,
                 (struct grid3){build_constant(b, SEGMENTS), divide_up(heads * shares->width, block), 1});
    for (int i = 0; i < shares->count; i++) {
        const struct operand_row *row = row_of(b->problem, gradient_of(shares->of[i].id));
        const int64_t groups = divide_up(numbers_of(b->problem, row), block);
        build_bind(b, "gradient", build_operand(b, row->id));
        build_kernel(b, &shares->leave[i], (struct grid3){build_constant(b, groups), is_by_head(row) ? heads : 1, 1});
    }
}
