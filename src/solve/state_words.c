#include "solve/state_words.h"

static const enum embedded_file decay_headers[] = {
#define DECAY(value, name, dims, list_dims, plain, ...) FILE_##plain,
#include "op/words.def"
};

#define PLAIN(header, ...)                                                                                             \
    {                                                                                                                  \
        FILE_##header, __VA_ARGS__                                                                                     \
    }
static const struct erase_words erases[] = {
#define ERASE(value, name, p, e, draw, work, plain, matrix) plain,
#include "op/words.def"
};
static const struct {
    enum embedded_file strength, values;
} writes[] = {
#define WRITE(value, row, role, strength, plain, ...) {FILE_##strength, FILE_##plain},
#include "op/words.def"
};
static const struct {
    enum embedded_file header;
    int bonus;
} reads[] = {
#define READ(value, row, plain, matrix, before, bonus, ...) {FILE_##plain, bonus},
#include "op/words.def"
};

struct erase_words erase_words(const struct problem *problem)
{
    return erases[problem->rule->erase];
}

int reads_bonus(const struct problem *problem)
{
    return reads[problem->rule->read].bonus && !problem_is_summary(problem);
}

static enum embedded_file value_header(const struct problem *problem)
{
    switch (problem->pass) {
    case PASS_OUTPUTS: break;
    case PASS_DENOMINATORS: return FILE_value_ones;
    case PASS_ATTENTION: return FILE_value_units;
    case PASS_TRANSITION: return FILE_value_zeros;
    }
    return writes[problem->rule->write].values;
}

enum embedded_file output_words(const struct problem *problem, enum outputs outputs)
{
    if (outputs == OUTPUTS_NONE || problem_is_summary(problem) ||
        (problem_reads_whole(problem) && outputs != OUTPUTS_AT_END))
        return FILE_output_none;
    if (problem->pass == PASS_DENOMINATORS)
        return problem_stabilized(problem) ? FILE_output_stable : FILE_output_sum;
    return problem_normalized(problem) ? FILE_output_divided : FILE_output_plain;
}

void add_state_words(struct kernel_step *step, const struct problem *problem, enum outputs outputs)
{
    const struct rule *rule = problem->rule;

    step_header(step, erases[rule->erase].header);
    step_header(step, writes[rule->write].strength);
    step_header(step, reads[problem_is_summary(problem) ? READ_AFTER : rule->read].header);
    step_header(step, value_header(problem));
    step_header(step, output_words(problem, outputs));
}

void add_recurrence_words(struct kernel_step *step, const struct problem *problem, enum outputs outputs)
{
    step_header(step, decay_headers[problem_decay(problem)]);
    add_state_words(step, problem, outputs);
    step_header(step, problem->desc.flags & CLATTN_VALUE_GATE ? FILE_mix_gated : FILE_mix_plain);
}
