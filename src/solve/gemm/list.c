#include "solve/gemm/gemm.h"

#include <string.h>

const struct gemm_way *const gemm_ways[] = {
#define WAY_LISTED(name) &gemm_##name,
    GEMM_WAYS(WAY_LISTED) NULL};

const struct space *gemm_space_find(const char *name)
{
    for (int i = 0; gemm_ways[i] != NULL; i++)
        if (gemm_ways[i]->space != NULL && strcmp(gemm_ways[i]->space->name, name) == 0)
            return gemm_ways[i]->space;
    return NULL;
}
