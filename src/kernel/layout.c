/* What every kernel's layout has; then its family's part. */
#include "kernel/kernel.h"

int variant_values(const struct variant *variant)
{
    const struct extent most = problem_most(variant->problem);

    if (variant->attn)
        return (int)(rule_has_list(variant->problem->rule) ? most.kv_len : most.seq_len * variant->problem->desc.steps);
    return variant->normalizer ? 1 : (int)variant->problem->desc.value_dim;
}

/* Whether the library makes the log-decays that the kernel reads. */
static int gates_made(const struct variant *variant)
{
    int made = problem_stabilized(variant->problem) || variant->problem->rule->head_decay != NULL;

    return made && variant->kernel != KERNEL_STABILIZE;
}

clattn_dtype variant_gate(const struct variant *variant)
{
    return gates_made(variant) ? CLATTN_F32 : variant->problem->desc.gate_dtype;
}

static clattn_gate_map gate_map(const struct variant *variant)
{
    return gates_made(variant) ? CLATTN_GATE_MAP_LOG : variant->problem->desc.gate_map;
}

clattn_dtype variant_out(const struct variant *variant)
{
    if (variant->gemm != NULL)
        return gemm_type(&variant->gemm->desc, GEMM_D);
    return variant->normalizer || variant->attn ? CLATTN_F32 : variant->problem->types[CLATTN_O];
}

clattn_dtype variant_state(const struct variant *variant)
{
    int matrix = !variant->normalizer && variant->kernel != KERNEL_STABILIZE;

    return matrix ? problem_state_type(variant->problem) : CLATTN_F32;
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

int variant_snapshots(const struct variant *variant)
{
    const clattn_plan_desc *desc = &variant->problem->desc;

    return !variant->gather && !variant->attn && (desc->state_window != 0 || desc->state_every != 0);
}

void layout_constant(struct layout *layout, const char *name, int64_t value)
{
    if (layout->constant_count == MAX_CONSTANTS) {
        layout->left_out = name;
        return;
    }
    layout->constants[layout->constant_count].name = name;
    layout->constants[layout->constant_count++].value = value;
}

void layout_constants(struct layout *layout, const struct number *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        layout_constant(layout, numbers[i].name, numbers[i].value);
}

void layout_locals(struct layout *layout, const char *name, int arrays, int64_t count, int64_t element)
{
    layout_constant(layout, name, count);
    layout->local_bytes += (size_t)(arrays * count * element);
}

void layout_local(struct layout *layout, const char *name, int64_t count, int64_t element)
{
    layout_locals(layout, name, 1, count, element);
}

void layout_scratch(struct layout *layout, const struct variant *variant, int bytes)
{
    if (bytes > 0) /* a device's own instructions take none */
        layout_local(layout, "ENGINE_SCRATCH", (int64_t)bytes * variant->tiles.group, 1);
}

void layout_header(struct layout *layout, enum embedded_file header)
{
    if (layout->header_count == MAX_HEADERS || header == FILE_nothing) {
        layout->left_out = header == FILE_nothing ? "a header that does not exist" : embedded_files[header].name;
        return;
    }
    layout->headers[layout->header_count++] = header;
}

void layout_copies(struct layout *layout, const struct engine *engine)
{
    int asynchronous = engine->instructions == FILE_nvidia_sm90 || engine->instructions == FILE_nvidia_sm80;

    layout_header(layout, asynchronous ? FILE_copies_grouped_nvidia : FILE_copies_grouped);
}

void layout_team(struct layout *layout, const struct variant *variant, int teams)
{
    static const struct {
        int teams, computing, moving;
    } shares[] = {{2, 232, 40}, {0, 0, 0}};
    const struct tiles *t = &variant->tiles;
    int i = 0, none = variant->engine->registers == 0 || t->loaders == 0;

    while (shares[i].teams != 0 && (shares[i].teams != teams || none))
        i++;
    if (shares[i].teams != 0) { /* at first all have the same */
        layout->registers = variant->engine->registers / t->group / 8 * 8;
        layout_constant(layout, "BOUND_REGISTERS", layout->registers);
    }
    layout_constant(layout, "COMPUTING_REGISTERS", shares[i].computing);
    layout_constant(layout, "MOVING_REGISTERS", shares[i].moving);
    if (variant->engine->team != FILE_nothing) /* words may be asked for of an engine that has none */
        layout_header(layout, variant->engine->team);
}

static int cu_stride(const clattn_plan_desc *desc)
{
    if (!(desc->flags & CLATTN_CU_SEQLENS))
        return 0;
    return desc->flags & CLATTN_CU_SEQLENS_INT64 ? 2 : 1;
}

struct layout layout_of(const struct variant *variant,
                        void (*lay_out)(const struct variant *variant, struct layout *layout))
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct tiles *t = &variant->tiles;
    struct layout layout = {.slots = 1, .value_groups = 1};
    const struct number numbers[] = {
        {"GROUP", t->group},
        {"VEC", t->vec},
        {"CHUNK", t->chunk},
        {"KEY_DIM", desc->key_dim},
        {"VALUE_DIM", variant->attn ? desc->value_dim : variant_values(variant)}, /* of attn the call has columns */
        {"STEPS", desc->steps},
        {"QK_GROUP", desc->heads / desc->qk_heads}, /* 1 where heads share a state */
        {"QK_TILED", desc->flags & CLATTN_HEADS_TILED && desc->qk_heads != desc->heads ? desc->qk_heads : 0},
        {"CU_STRIDE", cu_stride(desc)},
        {"STATE_VK", !variant->normalizer && (desc->flags & CLATTN_STATE_VK) != 0},
        {"STATE_POOL", (desc->flags & CLATTN_WITH_STATE_INDICES) != 0},
        {"SNAPSHOTS", variant_snapshots(variant)},
        {"ERASE_BEFORE", variant->problem->rule->order == ERASE_FIRST},
        {"REVERSED", (desc->flags & CLATTN_REVERSED) != 0},
        {"L2NORM", (desc->flags & CLATTN_QK_L2NORM) && !variant_turned(variant)},
        {"TURNED", variant_turned(variant)},
        {"FEATURE", desc->feature_map},
        {"FEATURE_ELU1", CLATTN_FEATURE_ELU1},
        {"FEATURE_RELU", CLATTN_FEATURE_RELU},
        {"GATE_MAP", gate_map(variant)},
        {"GATE_SOFTPLUS", CLATTN_GATE_MAP_SOFTPLUS},
        {"GATE_SIGMOID", CLATTN_GATE_MAP_SIGMOID},
        {"GATE_LOGSIGMOID", CLATTN_GATE_MAP_LOGSIGMOID},
        {"GATE_EXP", CLATTN_GATE_MAP_EXP},
        {"BETA_MAP", desc->beta_map},
        {"BETA_SOFTPLUS", CLATTN_BETA_SOFTPLUS},
        {"HAS_A_LOG", (desc->flags & CLATTN_WITH_A_LOG) != 0},
        {"HAS_GATE_BIAS", (desc->flags & CLATTN_WITH_DT_BIAS) != 0},
    };

    layout_constants(&layout, numbers, sizeof numbers / sizeof *numbers);
    if (t->sub_group != 0)
        layout_constant(&layout, "SUB_GROUP", t->sub_group);
    lay_out(variant, &layout);
    return layout;
}

int layout_fits(const struct device *device, const struct variant *variant,
                void (*lay_out)(const struct variant *variant, struct layout *layout))
{
    return layout_of(variant, lay_out).local_bytes <= device->info.local_memory;
}
