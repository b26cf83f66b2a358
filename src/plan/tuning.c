#include "plan/tuning.h"

#include "kernel/matrix.h"
#include "plan/plan.h"

#include <string.h>

enum { SERIAL_VEC = 16, SHARED_VEC = 4 };

static int lower(int a, int b)
{
    return a < b ? a : b;
}

/* The largest power of two not above x. */
static int power_below(int64_t x)
{
    int power = 1;

    while (power * 2 <= x)
        power *= 2;
    return power;
}

/* channels cut into slices of at most most, each a multiple of unit, with as little padding as possible. */
static int slice(int64_t channels, int most, int unit)
{
    int64_t count = (channels + most - 1) / most;

    return round_up((channels + count - 1) / count, unit);
}

/* Work-groups that the variant's value tiles of that width give. */
static int64_t groups(const struct variant *variant, int block_v)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    int64_t sequences = desc->flags & CLATTN_CU_SEQLENS ? desc->sequences : desc->batch;

    return sequences * desc->heads * ((variant->value_dim + block_v - 1) / block_v);
}

/* A tile belongs to one work-item: wide vectors, as many value columns as leave every core a few tiles. */
static void serial_tiles(const struct device *device, struct variant *variant)
{
    struct tiles *tiles = &variant->tiles;
    int64_t wanted = 4 * (int64_t)device->info.compute_units;

    tiles->group = 1;
    tiles->vec = SERIAL_VEC;
    tiles->pad = 0;
    tiles->lanes_k = 1;
    tiles->block_k = slice(variant->problem->desc.key_dim, 64, SERIAL_VEC);
    tiles->block_v = round_up(variant->value_dim, SERIAL_VEC);
    if (tiles->block_v > 64)
        tiles->block_v = 64;
    while (tiles->block_v > SERIAL_VEC &&
           (tiles->block_v % (2 * SERIAL_VEC) != 0 || groups(variant, tiles->block_v) < wanted))
        tiles->block_v -= SERIAL_VEC;
}

/* A group shares a tile. */
static void shared_tiles(const struct device *device, struct variant *variant, int most_group)
{
    struct tiles *tiles = &variant->tiles;
    int recurrent = variant->kernel == KERNEL_RECURRENT;
    /* Two groups a compute unit; but narrower groups of the recurrence cost more than some units that have one. */
    int64_t wanted = 2 * (int64_t)device->info.compute_units * (recurrent ? 9 : 10) / 10;
    int most_columns = !recurrent ? 16 : device->sub_group != 0 ? 32 : 64;
    int two_streams = variant->kernel == KERNEL_SCAN && variant->problem->rule->erase == ERASE_LOW_RANK;

    tiles->vec = SHARED_VEC;
    tiles->pad = SHARED_VEC;
    tiles->lanes_k = 1;
    tiles->block_k = slice(variant->problem->desc.key_dim, two_streams ? 16 : 32, SHARED_VEC);
    tiles->block_v = lower(round_up(variant->value_dim, SHARED_VEC), most_columns);
    while (tiles->block_v > 2 * SHARED_VEC && groups(variant, tiles->block_v) < wanted)
        tiles->block_v = round_up(tiles->block_v / 2, SHARED_VEC);
    tiles->group = lower(64, most_group);
    tiles->sub_group = device->sub_group;
}

/* The recurrence: lanes for the value columns, times lanes that share a column so that each keeps few channels. */
static void recurrent_tiles(struct variant *variant, int most_group)
{
    struct tiles *tiles = &variant->tiles;
    int64_t channels = variant->problem->desc.key_dim;
    int columns, kept; /* channels that a work-item keeps of its columns: what its registers hold */

    tiles->chunk = 1;
    if (tiles->group == 1) {
        tiles->block_v = tiles->vec;
        tiles->block_k = round_up(channels, tiles->vec);
        return;
    }
    kept = tiles->sub_group != 0 ? 4 : 16;
    columns = power_below(tiles->block_v / tiles->vec);
    while (tiles->lanes_k * kept < channels && 2 * tiles->lanes_k * columns <= most_group)
        tiles->lanes_k *= 2;
    while (tiles->lanes_k * kept < channels && columns > 1) {
        columns /= 2;
        tiles->lanes_k *= 2;
    }
    tiles->block_v = tiles->vec * columns;
    tiles->group = columns * tiles->lanes_k;
    tiles->block_k = round_up(channels, tiles->lanes_k > tiles->vec ? tiles->lanes_k : tiles->vec);
}

/* Narrower value tiles, then narrower slices, until local memory holds the variant. */
static clattn_status fit(const struct device *device, struct variant *variant)
{
    struct tiles *tiles = &variant->tiles;

    while (kernel_local_bytes(variant) > device->info.local_memory) {
        if (variant->kernel == KERNEL_SCAN && tiles->block_v > tiles->vec)
            tiles->block_v = round_up(tiles->block_v / 2, tiles->vec);
        else if (variant->kernel != KERNEL_RECURRENT && tiles->block_k > tiles->vec)
            tiles->block_k = round_up(tiles->block_k / 2, tiles->vec);
        else
            return CLATTN_UNSUPPORTED;
    }
    return CLATTN_SUCCESS;
}

/* ---- A point of the solver's space -------------------------------------------------------------------------------- */

struct tuned tuned_default(const struct solver *solver)
{
    struct tuned tuned = {.solver = solver};

    for (int i = 0; i < MAX_PARAMETERS; i++)
        tuned.values[i] = BY_THUMB;
    return tuned;
}

unsigned solver_kernels(const struct solver *solver)
{
    unsigned kernels = 0;

    for (const struct parameter *parameter = solver->parameters; parameter->name != NULL; parameter++)
        kernels |= parameter->kernels;
    return kernels;
}

int parameter_has(const struct parameter *parameter, int value)
{
    for (const int *known = parameter->values; *known != BY_THUMB; known++)
        if (*known == value)
            return 1;
    return 0;
}

/* Writes what tuned says of this kernel; returns how many fields. */
static int apply(const struct tuned *tuned, struct variant *variant)
{
    const struct parameter *parameter = tuned->solver->parameters;
    int count = 0;

    for (int i = 0; parameter[i].name != NULL; i++) {
        if (tuned->values[i] == BY_THUMB || !(parameter[i].kernels >> variant->kernel & 1))
            continue;
        memcpy((char *)&variant->tiles + parameter[i].field, &tuned->values[i], sizeof(int));
        count++;
    }
    return count;
}

/* What follows from the fields that were written: no tile wider than the problem, the recurrence's group. */
static void complete(struct variant *variant)
{
    struct tiles *tiles = &variant->tiles;
    int64_t channels = variant->problem->desc.key_dim;

    tiles->block_v = lower(tiles->block_v, round_up(variant->value_dim, tiles->vec));
    tiles->block_k = lower(round_up(tiles->block_k, tiles->vec), round_up(channels, tiles->vec));
    if (variant->kernel != KERNEL_RECURRENT)
        return;
    tiles->group = tiles->block_v / tiles->vec * tiles->lanes_k;
    tiles->block_k = round_up(channels, tiles->lanes_k > tiles->vec ? tiles->lanes_k : tiles->vec);
}

/* Whether registers can hold what a lane of the recurrence has of the state: more is left in memory. */
static int state_fits(const struct tiles *t)
{
    enum { MOST_FLOATS = 128 };

    return t->group == 1 || t->block_k / t->lanes_k * t->vec <= MOST_FLOATS;
}

/* Whether the words work with such tiles, and the device with such groups. */
static int is_sound(const struct device *device, const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;

    return t->block_v >= t->vec && t->block_v % t->vec == 0 && t->block_k >= t->vec && t->block_k % t->vec == 0 &&
           (variant->kernel != KERNEL_RECURRENT || state_fits(t)) && t->group >= 1 &&
           (size_t)t->group <= device->info.max_work_group && (t->group == 1 || !device->serial) &&
           kernel_local_bytes(variant) <= device->info.local_memory;
}

clattn_status tuning_tiles(const struct device *device, const struct tuned *tuned, struct variant *variant,
                           int most_group)
{
    int asked = variant->problem->desc.chunk;

    if (matrix_kernel(variant->kernel)) {
        TRY(matrix_tiles(device, variant));
        return tuned != NULL && apply(tuned, variant) > 0 ? matrix_complete(device, variant) : CLATTN_SUCCESS;
    }
    variant->tiles = (struct tiles){.chunk = asked != 0 ? asked : 16};
    if (device->serial || most_group < 4)
        serial_tiles(device, variant);
    else
        shared_tiles(device, variant, most_group);
    if (variant->kernel == KERNEL_RECURRENT)
        recurrent_tiles(variant, most_group);
    if (tuned == NULL || apply(tuned, variant) == 0)
        return fit(device, variant);
    complete(variant);
    return is_sound(device, variant) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

int tuning_point_tiles(const clattn_context *context, const struct problem *problem, const struct tuned *tuned,
                       struct tiles tiles[KERNEL_COUNT])
{
    enum { MOST_GROUP = 256 };
    unsigned kernels = solver_kernels(tuned->solver);

    memset(tiles, 0, KERNEL_COUNT * sizeof *tiles);
    for (int id = 0; id < KERNEL_COUNT; id++) {
        struct variant variant = {.kernel = (enum kernel_id)id,
                                  .problem = problem,
                                  .out = dtype_name(problem->desc.dtype),
                                  .value_dim = (int)problem->desc.value_dim,
                                  .engine = context->engine};
        if (!(kernels >> id & 1))
            continue;
        if ((matrix_kernel(variant.kernel) && context->engine == NULL) ||
            tuning_tiles(&context->device, tuned, &variant, MOST_GROUP) != CLATTN_SUCCESS)
            return 0;
        tiles[id] = variant.tiles;
    }
    return 1;
}

int tuning_prefers_recurrent(const struct device *device, const struct problem *problem)
{
    return problem->desc.seq_len * problem->desc.steps <= (device->serial ? 8 : 32);
}
