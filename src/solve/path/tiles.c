/* How the kernels of any device cut queries and keys: by heuristic, and as tuning has chosen. */
#include "solve/path/path.h"

enum { SERIAL_VEC = 16, SHARED_VEC = 4 };

static int read_fits(const struct device_facts *facts, const struct problem *problem, const struct path_tiles *t)
{
    const struct kernel_step step = path_read_step(problem, t);

    return step_fits(&step, facts->device) == CLATTN_SUCCESS;
}

/* Narrower value tiles, then shorter blocks, then narrower slices, until local memory holds the read: all kernels have
 * its tiles. */
static clattn_status cut_to_fit(const struct device_facts *facts, const struct problem *problem, struct path_tiles *t)
{
    enum { LEAST_CHUNK = 4 };

    while (!read_fits(facts, problem, t)) {
        if (t->block_v > 4 * t->vec)
            t->block_v = round_up(t->block_v / 2, t->vec);
        else if (problem->desc.chunk == 0 && t->chunk > LEAST_CHUNK && t->chunk > t->vec)
            t->chunk /= 2;
        else if (t->block_k > t->vec)
            t->block_k = round_up(t->block_k / 2, t->vec);
        else
            return CLATTN_UNSUPPORTED;
    }
    return CLATTN_SUCCESS;
}

clattn_status path_by_heuristic(const struct device_facts *facts, const struct problem *problem, struct path_tiles *t)
{
    const clattn_plan_desc *desc = &problem->desc;
    const int serial = is_serial(facts), vec = serial ? SERIAL_VEC : SHARED_VEC;
    const int group = serial ? 1 : lower(64, facts->most_group);

    *t = (struct path_tiles){.vec = vec,
                             .chunk = desc->chunk != 0 ? desc->chunk
                                      : serial         ? 32
                                                       : 16,
                             .span = 1,
                             .block_k = flash_slice(desc->key_dim, serial ? 64 : 32, vec),
                             .prepare_group = group,
                             .read_group = group,
                             .block_v = round_up(desc->value_dim, vec),
                             .sub_group = serial ? 0 : facts->device->sub_group};
    TRY(cut_to_fit(facts, problem, t));
    t->span = PATH_SPAN_TOKENS / t->chunk;
    t->matrix_block_v = t->block_v;
    return CLATTN_SUCCESS;
}

/* Whether tiles of which tuning has chosen some go together; local memory aside. */
static int are_sound(const struct device_facts *facts, const struct path_tiles *t)
{
    return t->block_v >= t->vec && t->block_v % t->vec == 0 && group_fits(facts, t->prepare_group) &&
           group_fits(facts, t->read_group);
}

clattn_status path_choose_tiles(const struct device_facts *facts, const struct problem *problem, struct path_tiles *t)
{
    const struct path_tiles chosen = *t;
    struct problem attention = *problem;
    int block_v;

    TRY(path_by_heuristic(facts, problem, t));
    if (take_tiles(t, &chosen, sizeof chosen) == 0)
        return CLATTN_SUCCESS;
    attention.pass = PASS_ATTENTION;
    block_v = round_up(t->block_v, t->vec);
    t->block_v = lower(block_v, round_up(problem_values(problem), t->vec));
    t->matrix_block_v = lower(block_v, round_up(problem_values(&attention), t->vec));
    t->block_k = lower(round_up(t->block_k, t->vec), round_up(problem->desc.key_dim, t->vec));
    return are_sound(facts, t) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}
