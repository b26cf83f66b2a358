/* flash: attention to a list of keys and values on any device. A work-group has `chunk` queries of one head and reads
 * the keys in blocks of as many, from the queries' own downward; m, l and O of an online softmax stay in local memory. A
 * tile belongs to one work-item with wide vectors, or a group shares it. */
#include "solve/flash/flash.h"

#include "solve/state_words.h"

enum { FLOAT = 4, SERIAL_VEC = 16, SHARED_VEC = 4, MOST_COLUMNS = 256 };

static const struct parameter parameters[] = {
    PARAMETER_ROW("chunk", struct flash_tiles, chunk, 8, 16, 32, 64),
    PARAMETER_ROW("vec", struct flash_tiles, vec, 4, 16),
    PARAMETER_ROW("group", struct flash_tiles, group, 1, 16, 32, 64, 128, 256),
    PARAMETER_ROW("block_k", struct flash_tiles, block_k, 16, 32, 64, 128, 256),
    PARAMETER_ROW("block_v", struct flash_tiles, block_v, 16, 32, 64, 128, 256),
    PARAMETER_ROW("pad", struct flash_tiles, pad, 0, 4, 16),
    PARAMETERS_END,
};

/* ---- Words of lists -----------------------------------------------------------------------------------------------
 */

enum embedded_file flash_weights(clattn_weights weights)
{
    static const enum embedded_file headers[] = {
#define WEIGHTS(value, name, header) [CLATTN_WEIGHTS_##value] = FILE_##header,
#include "op/words.def"
    };
    return headers[weights];
}

static enum embedded_file bias_header(const struct problem *problem)
{
    static const enum embedded_file headers[] = {
#define DECAY(value, name, dims, list_dims, plain, matrix, bias, ...) FILE_##bias,
#include "op/words.def"
    };

    return problem_has_distances(problem) ? FILE_bias_distance : headers[problem_decay(problem)];
}

void flash_add_words(struct kernel_step *step, const struct problem *problem, enum embedded_file weights)
{
    step_header(step, bias_header(problem));
    step_header(step, weights);
    step_header(step, problem->pass == PASS_ATTENTION ? FILE_list_units : FILE_list_values);
    step_header(step, output_words(problem, OUTPUTS_WRITTEN));
}

int flash_slice(int64_t channels, int most, int unit)
{
    const int64_t count = divide_up(channels, most);

    return round_up(divide_up(channels, count), unit);
}

/* ---- Shape --------------------------------------------------------------------------------------------------------
 */

static void add_locals(struct kernel_step *step, const struct problem *problem, const struct flash_tiles *t)
{
    const int channels = round_up(problem->desc.key_dim, t->block_k), columns = round_up(t->chunk, t->vec);
    const int values = t->chunk * t->block_v, pitch = t->block_k + t->pad;
    const int bias = problem->rule->decay == DECAY_NONE ? 1 : 2 * t->chunk + columns;

    step_local(step, "LOCAL_QUERIES", (int64_t)channels * columns, FLOAT);
    step_local(step, "LOCAL_ROWS", higher((int64_t)t->chunk * pitch, values), FLOAT);
    step_local(step, "LOCAL_SCORES", (int64_t)t->chunk * columns, FLOAT);
    step_local(step, "LOCAL_OUTPUT", values, FLOAT);
    step_local(step, "LOCAL_WEIGHTS", 4 * columns, FLOAT);
    step_local(step, "LOCAL_NORMS", t->chunk, FLOAT);
    step_local(step, "LOCAL_BIAS", bias, FLOAT);
}

static struct kernel_step read_step(const struct problem *problem, const struct flash_tiles *t)
{
    const clattn_plan_desc *desc = &problem->desc;
    struct kernel_step step = kernel_step(FILE_flash, problem);

    step_tile(&step, t->group, t->vec, t->chunk, t->sub_group);
    if (desc->flags & CLATTN_ABSOLUTE) { /* queries and keys have turned, and were normalised before */
        step_replace(&step, "TURNED", 1);
        step_replace(&step, "L2NORM", 0);
    }
    add_locals(&step, problem, t);
    step_constant(&step, "BK", t->block_k);
    step_constant(&step, "BV", t->block_v);
    step_constant(&step, "KP", round_up(desc->key_dim, t->block_k));
    step_constant(&step, "RP", t->block_k + t->pad);
    step_constant(&step, "CP", round_up(t->chunk, t->vec));
    step_constant(&step, "KV_GROUP", desc->heads / desc->kv_heads);
    flash_add_words(&step, problem, flash_weights(desc->kernel));
    return step;
}

static int fits(const struct device_facts *facts, const struct problem *problem, const struct flash_tiles *t)
{
    const struct kernel_step step = read_step(problem, t);

    return step_fits(&step, facts->device) == CLATTN_SUCCESS;
}

clattn_status flash_derive_shape(const struct device_facts *facts, const struct problem *problem,
                                 const struct flash_tiles *tiles, struct flash_shape *shape)
{
    shape->tiles = *tiles;
    shape->step = read_step(problem, tiles);
    return step_fits(&shape->step, facts->device);
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

/* Whether queries have keys beside their own tokens'. */
static int has_cache(const clattn_plan_desc *desc)
{
    return desc->kv_len != 0 || (desc->flags & (CLATTN_CU_SEQLENS_KV | CLATTN_WITH_KV_LENS)) != 0;
}

/* Sums over keys are joined block by block, so that a block's length decides bits: it does not depend on lengths, for
 * packed sequences have the bits that they have alone, but where all keys are in one block. */
static void choose_block(const struct device_facts *facts, const struct problem *problem, struct flash_tiles *t)
{
    t->chunk = t->group > 1 ? 16 : 64;
    while (t->chunk > 8 && !fits(facts, problem, t))
        t->chunk /= 2;
    while (t->chunk > 8 && t->chunk / 2 >= problem->desc.seq_len && !has_cache(&problem->desc))
        t->chunk /= 2;
}

/* Blocks of queries and keys: the rows of queries stay in local memory whole, with all value columns where they fit. */
static clattn_status by_heuristic(const struct device_facts *facts, const struct problem *problem,
                                  struct flash_tiles *t)
{
    const clattn_plan_desc *desc = &problem->desc;
    const int serial = is_serial(facts), vec = serial ? SERIAL_VEC : SHARED_VEC;

    *t = (struct flash_tiles){.group = serial ? 1 : lower(64, facts->most_group),
                              .vec = vec,
                              .chunk = desc->chunk,
                              .pad = serial ? 0 : SHARED_VEC,
                              .block_k = flash_slice(desc->key_dim, serial ? 64 : 32, vec),
                              .block_v = lower(round_up(problem_values(problem), vec), MOST_COLUMNS),
                              .sub_group = serial ? 0 : facts->device->sub_group};
    if (desc->chunk == 0)
        choose_block(facts, problem, t);
    while (!fits(facts, problem, t)) {
        if (t->block_v > t->vec)
            t->block_v = round_up(t->block_v / 2, t->vec);
        else if (t->block_k > t->vec)
            t->block_k = round_up(t->block_k / 2, t->vec);
        else
            return CLATTN_UNSUPPORTED;
    }
    return CLATTN_SUCCESS;
}

static clattn_status correct(const struct device_facts *facts, const struct problem *problem, struct flash_tiles *t)
{
    int sound;

    t->block_v = lower(t->block_v, round_up(problem_values(problem), t->vec));
    t->block_k = lower(round_up(t->block_k, t->vec), round_up(problem->desc.key_dim, t->vec));
    sound = t->block_v >= t->vec && t->block_v % t->vec == 0 && t->block_k >= t->vec && t->block_k % t->vec == 0 &&
            group_fits(facts, t->group) && fits(facts, problem, t);
    return sound ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

clattn_status flash_choose_tiles(const struct device_facts *facts, const struct problem *problem,
                                 struct flash_tiles *tiles)
{
    const struct flash_tiles chosen = *tiles;

    TRY(by_heuristic(facts, problem, tiles));
    return take_tiles(tiles, &chosen, sizeof chosen) > 0 ? correct(facts, problem, tiles) : CLATTN_SUCCESS;
}

/* ---- The recipe ---------------------------------------------------------------------------------------------------
 */

int64_t list_block_turns(const struct problem *problem, int group, int vec, int chunk, int block_v)
{
    enum { OTHERS = 64 }; /* the softmax's, and of what the rows are scaled with */
    const int64_t loads = divide_up(chunk * (problem->desc.key_dim + block_v), vec * group);

    return product_turns(group, vec, chunk, chunk, problem->desc.key_dim) +
           product_turns(group, vec, chunk, block_v, chunk) + loads + chunk + OTHERS;
}

int64_t flash_turns(const struct problem *problem, const struct flash_tiles *tiles)
{
    const struct flash_tiles *t = tiles;
    const int64_t blocks = divide_up(problem_most(problem).kv_len, t->chunk);

    return blocks * list_block_turns(problem, t->group, t->vec, t->chunk, t->block_v);
}

struct reach flash_reach(const struct flash_shape *shape)
{
    return (struct reach){.chunk = shape->tiles.chunk, .parts = 1};
}

void flash_add(struct builder *b, const struct problem *problem, const struct flash_shape *shape)
{
    const struct grid3 grid = {build_slots(b, shape->tiles.chunk), problem_work_heads(problem),
                               divide_up(problem_values(problem), shape->tiles.block_v)};

    build_kernel(b, &shape->step, grid);
}

void flash_describe(struct text *text, const struct flash_shape *shape)
{
    const struct flash_tiles *t = &shape->tiles;

    text_format(text, "group %d, vec %d, chunk %d, key slice %d, value tile %d, key lanes 1, local %zu bytes\n",
                t->group, t->vec, t->chunk, t->block_k, t->block_v, shape->step.local_bytes);
}

/* ---- The solver ---------------------------------------------------------------------------------------------------
 */

/* The attention matrix of queries and keys that were turned each by itself is read as any other. */
static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return rule_has_list(problem->rule) &&
           (problem->rule->erase == ERASE_NONE ||
            (problem->pass == PASS_ATTENTION && (problem->desc.flags & CLATTN_ABSOLUTE) != 0));
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    (void)solver;
    return flash_choose_tiles(facts, problem, tiles);
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    (void)solver;
    return flash_derive_shape(facts, problem, tiles, shape);
}

static int64_t turns(const struct problem *problem, const void *shape)
{
    return flash_turns(problem, &((const struct flash_shape *)shape)->tiles);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    (void)problem;
    return flash_reach(shape);
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    flash_add(b, problem, shape);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    (void)step;
    flash_describe(text, shape);
}

const struct solver solver_flash = {
    .space = {"flash", parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_CHUNK,
    .rank = 910,
    .units = 1,
    .tiles_size = sizeof(struct flash_tiles),
    .shape_size = sizeof(struct flash_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .turns = turns,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
