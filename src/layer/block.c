/* Where weights and their gradients lie in a block. */
#include "layer/layer.h"

size_t element_of(clattn_dtype dtype)
{
    return dtype == CLATTN_F32 ? 4 : 2;
}

clattn_dtype weight_type(const struct module *module, const struct layer_weight *weight)
{
    return weight->form == FORM_MATRIX ? module->desc.dtype : CLATTN_F32;
}

int64_t weight_count(const struct module *module, const struct layer_weight *weight)
{
    int64_t count = 1;

    for (int i = 0; i < LAYER_DIMS && weight->dims[i] != NULL; i++)
        count *= sizes_value(&module->sizes, weight->dims[i]);
    return count;
}

static size_t weight_numbers(const struct module *module, const struct layer_weight *weight)
{
    return (size_t)(weight_count(module, weight) * sizes_value(&module->sizes, weight->repeat));
}

/* Where a weight begins in a block of all weights, each as the desc or in f32; NULL: where the block ends. */
static size_t block_at(const struct module *module, const struct layer_weight *weight, int floats)
{
    size_t at = 0;

    for (const struct layer_weight *each = module->layer->weights;; each++) {
        if (!each->joined)
            at = (at + SECTION - 1) / SECTION * SECTION;
        if (each == weight || each->name == NULL)
            return at;
        at += weight_numbers(module, each) * (floats ? sizeof(float) : element_of(weight_type(module, each)));
    }
}

size_t packed_at(const struct module *module, const struct layer_weight *weight)
{
    return block_at(module, weight, 0);
}

size_t gradient_at(const struct module *module, const struct layer_weight *weight)
{
    return block_at(module, weight, 1);
}
