/* The slots of sequences' states in a pool, where the host has the indices. */
#include "op/problem.h"

#include <stdlib.h>
#include <string.h>

struct used_slot {
    int32_t slot;
    int64_t sequence;
};

static int compare(const void *a, const void *b)
{
    const struct used_slot *one = a, *other = b;

    if (one->slot != other->slot)
        return one->slot < other->slot ? -1 : 1;
    return one->sequence < other->sequence ? -1 : one->sequence > other->sequence;
}

/* The indices need not be aligned. */
static int32_t index_at(const void *indices, int64_t n)
{
    int32_t index;

    memcpy(&index, (const char *)indices + n * (int64_t)sizeof index, sizeof index);
    return index;
}

int64_t problem_slot(const struct problem *problem, const struct extent *extent, const void *indices, int64_t sequence)
{
    int64_t slot = index_at(indices, sequence);

    return slot < problem_dim(&problem->desc, extent, 'M') ? slot : -1;
}

/* Lists the slots in use, in ascending order. Returns their number. */
static int64_t list_used_slots(const struct problem *problem, const struct extent *extent, const void *indices,
                               struct used_slot *used)
{
    int64_t count = 0;

    for (int64_t n = 0; n < extent->sequences; n++)
        if (problem_slot(problem, extent, indices, n) >= 0)
            used[count++] = (struct used_slot){index_at(indices, n), n};
    if (count > 0)
        qsort(used, (size_t)count, sizeof *used, compare);
    return count;
}

clattn_status problem_check_slots(const struct problem *problem, const struct extent *extent, const void *indices,
                                  const struct log *log)
{
    struct used_slot *used = malloc((size_t)(extent->sequences + 1) * sizeof *used);
    clattn_status status = CLATTN_SUCCESS;
    int64_t count;

    if (used == NULL)
        return FAIL(log, OUT_OF_MEMORY, "no memory for the %lld state_indices", (long long)extent->sequences);
    count = list_used_slots(problem, extent, indices, used);
    for (int64_t i = 1; i < count && status == CLATTN_SUCCESS; i++)
        if (used[i].slot == used[i - 1].slot)
            status =
                FAIL(log, INVALID_OPERAND,
                     "state_indices[%lld] and state_indices[%lld] are both %d, expected a state of its own for each "
                     "sequence",
                     (long long)used[i - 1].sequence, (long long)used[i].sequence, used[i].slot);
    free(used);
    return status;
}
