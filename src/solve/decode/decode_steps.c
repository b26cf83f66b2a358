/* The kernels of decode and path_decode, with everything that their sources depend on. */
#include "solve/decode/decode.h"

enum { FLOAT = 4, PART_UNIT = 16 };

struct decode_sizes decode_sizes(const struct problem *problem, const struct decode_tiles *t)
{
    struct decode_sizes s = {.rows = t->tokens * t->heads,
                             .channels = round_up(problem->desc.key_dim, t->vec),
                             .values = round_up(problem->desc.value_dim, t->vec),
                             .parts = t->splits + has_walk(problem)};

    s.record = round_up((int64_t)s.rows * (s.values + 3), PART_UNIT);
    return s;
}

/* The number of sets of lanes. Lanes beyond those that a row's values need handle other keys of the block, or other
 * parts. */
static int shares(int group, int columns, int count)
{
    int share = 1;

    while (2 * share * columns <= group && count % (2 * share) == 0)
        share *= 2;
    return share;
}

static struct kernel_step part_step(enum embedded_file file, const struct problem *problem,
                                    const struct decode_tiles *t, const struct reading *reading)
{
    const struct decode_sizes s = decode_sizes(problem, t);
    const struct number numbers[] = {
        {"KV_GROUP", query_heads(problem)},
        {"HEADS", t->heads},
        {"ROWS", s.rows},
        {"KEYS", reading->keys},
        {"SPLITS", t->splits},
        {"PARTS", s.parts},
        {"WALKED", has_walk(problem)},
        {"LANES_K", reading->lanes},
        {"KP", s.channels},
        {"VP", s.values},
        {"PART", s.record},
        {"BK", t->vec},
        {"BV", t->vec},
        {"RP", t->vec},
        {"CP", round_up(t->tokens, t->vec)},
    };
    struct kernel_step step = kernel_step(file, problem);

    step_tile(&step, reading->group, t->vec, t->tokens, t->sub_group);
    step_constants(&step, numbers, sizeof numbers / sizeof *numbers);
    return step;
}

/* Adds the local arrays and the first words of a kernel that reads keys. */
static void add_reading(struct kernel_step *step, const struct problem *problem, const struct decode_tiles *t,
                        const struct reading *reading, int products)
{
    static const enum embedded_file bias[] = {
        [DECAY_NONE] = FILE_parts_bias_none, [DECAY_SCALAR] = FILE_parts_bias_scalar};
    const struct decode_sizes s = decode_sizes(problem, t);
    const int share = shares(reading->group, s.values / t->vec, reading->keys), scores = s.rows * reading->keys;
    const enum decay decay = problem_decay(problem);

    step_constant(step, "SHARES", share);
    step_header(step, problem_has_distances(problem) ? FILE_parts_bias_distance : bias[decay]);
    step_header(step, FILE_parts_weigh);
    step_local(step, "LOCAL_QUERIES", (int64_t)s.rows * s.channels, FLOAT);
    step_local(step, "LOCAL_PRODUCTS", (int64_t)reading->lanes * products, FLOAT);
    step_local(step, "LOCAL_SCORES", scores, FLOAT);
    step_local(step, "LOCAL_OUTPUT", (int64_t)share * s.rows * s.values, FLOAT);
    step_local(step, "LOCAL_DECAYS", decay == DECAY_NONE ? 1 : scores, FLOAT);
    step_locals(step, "LOCAL_MOST", 4, scores / t->vec, FLOAT);
    step_local(step, "LOCAL_KEPT", s.rows, FLOAT);
}

struct kernel_step decode_walk_step(const struct problem *problem, const struct decode_tiles *t)
{
    struct kernel_step step = part_step(FILE_walk_path, problem, t, &t->walk);

    add_reading(&step, problem, t, &t->walk, 2 * t->tokens * t->heads);
    step_header(&step, FILE_parts_walk);
    step_header(&step, FILE_output_plain);
    return step;
}

/* Whether registers can hold a lane's share of a block, which is at most one column. Not on Intel, where kernels
 * require a sub-group size. */
static int is_ahead(const struct problem *problem, const struct decode_tiles *t)
{
    enum { MOST_BYTES = 512 };
    const struct decode_sizes s = decode_sizes(problem, t);
    const int columns = s.values / t->vec, share = shares(t->read.group, columns, t->read.keys);
    const int64_t turns = divide_up((int64_t)t->read.keys * t->read.lanes, t->read.group) *
                          divide_up(s.channels, (int64_t)t->read.lanes * t->vec);
    const int64_t bytes = (turns + t->read.keys / share) * t->vec * (int64_t)dtype_size(problem->desc.dtype);

    return t->read.group > 1 && t->sub_group == 0 && share * columns <= t->read.group && bytes <= MOST_BYTES;
}

struct kernel_step decode_read_step(const struct problem *problem, const struct decode_tiles *t)
{
    struct kernel_step step = part_step(FILE_decode, problem, t, &t->read);
    const int norms = (problem->desc.flags & CLATTN_QK_L2NORM) != 0;

    add_reading(&step, problem, t, &t->read, (t->tokens * t->heads + norms) * t->read.keys);
    step_header(&step, is_ahead(problem, t) ? FILE_parts_ahead : FILE_parts_direct);
    step_header(&step, has_walk(problem) ? FILE_parts_queries_walked : FILE_parts_queries_given);
    step_header(&step, FILE_output_plain);
    return step;
}

struct kernel_step decode_join_step(const struct problem *problem, const struct decode_tiles *t)
{
    struct kernel_step step = part_step(FILE_join_parts, problem, t, &t->read);
    const struct decode_sizes s = decode_sizes(problem, t);
    const int share = shares(t->read.group, s.values / t->vec, t->splits);

    step_constant(&step, "SHARES", share);
    step_locals(&step, "LOCAL_PARTS", 3, s.parts, FLOAT);
    step_local(&step, "LOCAL_SHARES", (int64_t)share * s.values, FLOAT);
    step_header(&step, FILE_list);
    step_header(&step, FILE_output_plain);
    return step;
}
