/* Host memory of calls. A plan keeps it for the next call: the system gives large blocks out page by page, each of which
 * costs at its first use about what a network takes to send it. */
#include "mpi/mpi.h"

#include <stdlib.h>

void *pool_take(clattn_mpi_plan *plan, size_t bytes)
{
    struct pool_block *best = NULL, *unused = NULL;

    for (int i = 0; i < POOL_BLOCKS; i++) {
        struct pool_block *block = &plan->pool[i];
        if (block->taken)
            continue;
        unused = block;
        if (block->bytes >= bytes + 1 && (best == NULL || block->bytes < best->bytes))
            best = block;
    }
    if (best == NULL && unused == NULL)
        return malloc(bytes + 1);
    if (best == NULL) {
        free(unused->memory);
        *unused = (struct pool_block){.memory = malloc(bytes + 1), .bytes = bytes + 1};
        best = unused;
    }
    best->taken = best->memory != NULL;
    best->bytes = best->taken ? best->bytes : 0;
    return best->memory;
}

void pool_give(clattn_mpi_plan *plan, void *memory)
{
    for (int i = 0; i < POOL_BLOCKS && memory != NULL; i++)
        if (plan->pool[i].memory == memory) {
            plan->pool[i].taken = 0;
            return;
        }
    free(memory);
}

void pool_free(clattn_mpi_plan *plan)
{
    for (int i = 0; i < POOL_BLOCKS; i++)
        free(plan->pool[i].memory);
}
