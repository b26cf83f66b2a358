/* What every kernel's layout has; then its family's part. */
#include "kernel/kernel.h"

int variant_values(const struct variant *variant)
{
    const struct extent most = problem_most(variant->problem);

    if (variant->attn)
        return (int)(rule_has_list(variant->problem->rule) ? most.kv_len : most.seq_len * variant->problem->desc.steps);
    return (int)variant->problem->desc.value_dim;
}

clattn_dtype variant_gate(const struct variant *variant)
{
    return problem_gate_type(variant->problem);
}

clattn_dtype variant_out(const struct variant *variant)
{
    return variant->attn ? CLATTN_F32 : variant->problem->types[CLATTN_O];
}

int variant_reads_list(const struct variant *variant)
{
    return variant->kernel == KERNEL_FLASH || variant->kernel == KERNEL_FLASH_MATRIX ||
           variant->kernel == KERNEL_FLASH_TEAM;
}

int variant_turned(const struct variant *variant)
{
    return variant->kernel == KERNEL_FLASH_SUMS
               ? variant->problem->rule->erase == ERASE_POSITION
               : (variant->problem->desc.flags & CLATTN_ABSOLUTE) && variant_reads_list(variant);
}

void layout_scratch(struct layout *layout, const struct variant *variant, int bytes)
{
    (void)variant;
    step_scratch(&layout->step, bytes);
}

void layout_copies(struct layout *layout, const struct engine *engine)
{
    step_copies(&layout->step, engine);
}

void layout_team(struct layout *layout, const struct variant *variant, int teams)
{
    step_team(&layout->step, variant->engine, teams, variant->tiles.loaders > 0);
}

/* The pass that the variant is of. */
static enum pass pass_of(const struct variant *variant)
{
    return variant->attn ? PASS_ATTENTION : PASS_OUTPUTS;
}

/* What a kernel has otherwise than its problem says. */
static void set_exceptions(const struct variant *variant, struct kernel_step *step)
{
    step->out = variant_out(variant);
    if (variant_turned(variant)) {
        step_replace(step, "TURNED", 1);
        step_replace(step, "L2NORM", 0);
    }
}

struct layout layout_of(const struct variant *variant,
                        void (*lay_out)(const struct variant *variant, struct layout *layout))
{
    const struct tiles *t = &variant->tiles;
    struct layout layout = {.value_groups = 1};
    struct problem problem = *variant->problem;

    problem.pass = pass_of(variant);
    layout.step = kernel_step(FILE_nothing, &problem);
    set_exceptions(variant, &layout.step);
    step_tile(&layout.step, t->group, t->vec, t->chunk, t->sub_group);
    lay_out(variant, &layout);
    return layout;
}

int layout_fits(const struct device *device, const struct variant *variant,
                void (*lay_out)(const struct variant *variant, struct layout *layout))
{
    return layout_of(variant, lay_out).step.local_bytes <= device->info.local_memory;
}
