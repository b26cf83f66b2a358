/* What every kernel's layout has; then its family's part. */
#include "kernel/kernel.h"

clattn_dtype variant_gate(const struct variant *variant)
{
    return problem_gate_type(variant->problem);
}

clattn_dtype variant_out(const struct variant *variant)
{
    if (variant->gemm != NULL)
        return gemm_type(&variant->gemm->desc, GEMM_D);
    return variant->problem->types[CLATTN_O];
}

void layout_scratch(struct layout *layout, const struct variant *variant, int bytes)
{
    (void)variant;
    step_scratch(&layout->step, bytes);
}

void layout_copies(struct layout *layout, const struct engine *engine)
{
    int asynchronous = engine->instructions == FILE_nvidia_sm90 || engine->instructions == FILE_nvidia_sm80;

    layout_header(layout, asynchronous ? FILE_copies_grouped_nvidia : FILE_copies_grouped);
}

void layout_team(struct layout *layout, const struct variant *variant, int teams)
{
    step_team(&layout->step, variant->engine, teams, variant->tiles.loaders > 0);
}

struct layout layout_of(const struct variant *variant,
                        void (*lay_out)(const struct variant *variant, struct layout *layout))
{
    const struct tiles *t = &variant->tiles;
    struct layout layout = {.value_groups = 1};

    layout.step = kernel_step(FILE_nothing, variant->problem);
    layout.step.out = variant_out(variant);
    step_tile(&layout.step, t->group, t->vec, t->chunk, t->sub_group);
    lay_out(variant, &layout);
    return layout;
}

int layout_fits(const struct device *device, const struct variant *variant,
                void (*lay_out)(const struct variant *variant, struct layout *layout))
{
    return layout_of(variant, lay_out).step.local_bytes <= device->info.local_memory;
}
