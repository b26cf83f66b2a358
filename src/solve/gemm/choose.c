/* A way and its tiles, as far as they are known without a compiler. */
#include "solve/gemm/way.h"

#include <string.h>

clattn_status gemm_choose(struct gemm_choice *choice, const struct gemm_way *way, const struct device_facts *facts,
                          const struct gemm *gemm, const struct tuned *tuned)
{
    memset(choice, 0, sizeof *choice);
    choice->way = way;
    tuned_tiles(tuned, choice->tiles, way->tiles_size);
    if (way->choose_tiles != NULL)
        TRY(way->choose_tiles(facts, gemm, choice->tiles));
    if (!gemm_has_kernel(way))
        return CLATTN_SUCCESS;
    way->derive_shape(facts, gemm, choice->tiles, &choice->shape);
    return step_fits(&choice->shape.step, facts->device);
}

int gemm_largest_group(const clattn_context *context)
{
    return lower((int64_t)context->device.info.max_work_group, GEMM_MOST_GROUP);
}

clattn_status gemm_choose_any(struct gemm_choice *choice, const struct gemm_way *way, const clattn_context *context,
                              const struct gemm *gemm)
{
    struct device_facts facts = {&context->device, context->engine, gemm_largest_group(context), 0};
    clattn_status status = CLATTN_UNSUPPORTED;

    for (; facts.most_group >= 1 && status == CLATTN_UNSUPPORTED; facts.most_group /= 2)
        status = gemm_choose(choice, way, &facts, gemm, NULL);
    return status;
}

clattn_status gemm_choose_untried(struct gemm_choice *choice, clattn_context *context, const struct gemm *gemm,
                                  int varies)
{
    for (int i = 0; gemm_ways[i] != NULL; i++)
        if (!(varies && gemm_ways[i]->fixed) && gemm_ways[i]->applies(context, gemm) &&
            gemm_choose_any(choice, gemm_ways[i], context, gemm) == CLATTN_SUCCESS)
            return CLATTN_SUCCESS;
    return CLATTN_UNSUPPORTED;
}
