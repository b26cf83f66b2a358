/* How decode and path_decode cut queries and keys, by heuristic and as tuning chose. */
#include "solve/decode/decode.h"

enum { MOST_ROWS = 8, SERIAL_VEC = 16, SHARED_VEC = 4 };

/* The number of sequences whose lengths add up to the number of rows; 1 if each has its own rows. */
static int64_t packed_sequences(const struct problem *problem)
{
    return problem->desc.flags & CLATTN_CU_SEQLENS ? problem_most(problem).sequences : 1;
}

/* The tokens of a tile: the average length of a sequence, limited by the rows that a tile can have. */
static int tokens_of(const struct problem *problem, int heads)
{
    const int64_t queries = divide_up(problem_most(problem).seq_len, packed_sequences(problem));
    int count = 1;

    while (count < queries && 2 * count * heads <= MOST_ROWS)
        count *= 2;
    return count;
}

/* The number of tiles of query rows, over all heads and sequences. */
static int64_t all_tiles(const struct problem *problem, const struct decode_tiles *t)
{
    const struct extent most = problem_most(problem);

    return divide_up(most.seq_len, packed_sequences(problem) * t->tokens) * most.sequences * head_tiles(problem, t);
}

/* The number of keys that a tile sees; for packed sequences, the average. */
static int64_t seen_keys(const struct problem *problem, const struct decode_tiles *t)
{
    const int64_t keys = divide_up(problem_most(problem).kv_len, packed_sequences(problem));
    const int64_t window = problem->desc.window;

    return window != 0 ? lower(keys, window + t->tokens) : keys;
}

/* The number of parts that occupies all compute units, where each part has enough keys to be worth a softmax of its
 * own. */
static int splits_of(const struct device_facts *facts, const struct problem *problem, const struct decode_tiles *t)
{
    enum { MOST = 512, LEAST_KEYS = 128 };
    const int64_t wanted = (t->read.group == 1 ? 1 : 16) * (int64_t)facts->device->info.compute_units;
    const int64_t tiles = all_tiles(problem, t), keys = seen_keys(problem, t);
    int count = 1;

    while (count < MOST && count * tiles < wanted && keys >= 2 * count * LEAST_KEYS)
        count *= 2;
    return count;
}

/* Reduces the lanes of a key, then the keys, then the heads, until local memory holds the read. */
static clattn_status cut_to_fit(const struct device_facts *facts, const struct problem *problem, struct decode_tiles *t)
{
    for (;;) {
        const struct kernel_step step = decode_read_step(problem, t);
        if (step_fits(&step, facts->device) == CLATTN_SUCCESS)
            return CLATTN_SUCCESS;
        if (t->read.lanes > 1)
            t->read.lanes /= 2;
        else if (t->read.keys > SERIAL_VEC)
            t->read.keys /= 2;
        else if (t->heads > 1)
            t->heads = (t->heads + 1) / 2;
        else
            return CLATTN_UNSUPPORTED;
    }
}

static clattn_status by_heuristic(const struct device_facts *facts, const struct problem *problem,
                                  struct decode_tiles *t)
{
    enum { GROUP = 128, KEYS = 64, LANES = 8 };
    const int serial = is_serial(facts);
    const int64_t heads = query_heads(problem), tiles = divide_up(heads, MOST_ROWS);

    *t = (struct decode_tiles){.vec = serial ? SERIAL_VEC : SHARED_VEC,
                               .heads = (int)divide_up(heads, tiles),
                               .splits = 1,
                               .sub_group = serial ? 0 : facts->device->sub_group};
    t->read = (struct reading){serial ? 1 : lower(GROUP, facts->most_group), KEYS, serial ? 1 : LANES};
    t->tokens = tokens_of(problem, t->heads);
    TRY(cut_to_fit(facts, problem, t));
    t->walk = t->read;
    t->splits = splits_of(facts, problem, t);
    return CLATTN_SUCCESS;
}

/* Copies a tile if tuning chose it. Returns whether it did. */
static int copy_if_chosen(int *tile, int chosen)
{
    if (chosen != TILE_OPEN)
        *tile = chosen;
    return chosen != TILE_OPEN;
}

static int copy_reading(struct reading *tiles, const struct reading *chosen)
{
    return copy_if_chosen(&tiles->group, chosen->group) + copy_if_chosen(&tiles->keys, chosen->keys) +
           copy_if_chosen(&tiles->lanes, chosen->lanes);
}

clattn_status decode_choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    struct decode_tiles *t = tiles;
    const struct decode_tiles chosen = *t;
    int count;

    (void)solver;
    TRY(by_heuristic(facts, problem, t));
    count = copy_if_chosen(&t->vec, chosen.vec) + copy_if_chosen(&t->heads, chosen.heads) +
            copy_if_chosen(&t->splits, chosen.splits) + copy_reading(&t->read, &chosen.read) +
            copy_reading(&t->walk, &chosen.walk);
    if (count == 0)
        return CLATTN_SUCCESS;
    t->heads = lower(t->heads, query_heads(problem));
    t->tokens = tokens_of(problem, t->heads);
    return group_fits(facts, t->read.group) && group_fits(facts, t->walk.group) && t->read.keys % t->vec == 0 &&
                   t->walk.keys % t->vec == 0
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}
