#include "plan/recipe.h"

#include "tune/tiles.h"

#include <stdlib.h>
#include <string.h>

const char *temporary_name(enum temporary_id id)
{
    static const char *const names[] = {
        [TEMPORARY_RECORDS] = "records",         [TEMPORARY_ROWS] = "rows",
        [TEMPORARY_SEGMENTS] = "segments",       [TEMPORARY_AFTER] = "sums of decays",
        [TEMPORARY_TURNED_Q] = "turned queries", [TEMPORARY_TURNED_K] = "turned keys",
    };
    _Static_assert(sizeof names / sizeof *names == TEMPORARY_COUNT, "a name each");
    return names[id];
}

int64_t recipe_slots(const struct problem *problem, const struct extent *extent, int chunk)
{
    int64_t rows = extent->seq_len * problem->desc.steps;

    if (problem->desc.flags & CLATTN_CU_SEQLENS)
        return rows / chunk + extent->sequences;
    return extent->batch * divide_up(rows, chunk);
}

int64_t recipe_key_slots(const struct problem *problem, const struct extent *extent, int chunk)
{
    if (problem->desc.flags & CLATTN_CU_SEQLENS)
        return extent->kv_len / chunk + 2 * extent->sequences;
    return extent->batch * (divide_up(extent->kv_len, chunk) + 1);
}

/* ---- What roles stand for -----------------------------------------------------------------------------------------
 */

/* Roles that hold the operand of the same meaning for every rule that has it. */
static const struct {
    enum role role;
    clattn_operand_id operand;
} plain_roles[] = {
    {ROLE_q, CLATTN_Q},          {ROLE_k, CLATTN_K},       {ROLE_v, CLATTN_V},     {ROLE_o, CLATTN_O},
    {ROLE_cu, CLATTN_SEQLENS},   {ROLE_sink, CLATTN_SINK}, {ROLE_lse, CLATTN_LSE}, {ROLE_cu_kv, CLATTN_SEQLENS_KV},
    {ROLE_lens, CLATTN_KV_LENS},
};

/* And temporaries. */
static const struct {
    enum role role;
    enum temporary_id temporary;
} made_roles[] = {
    {ROLE_records, TEMPORARY_RECORDS},   {ROLE_rows, TEMPORARY_ROWS},         {ROLE_segments, TEMPORARY_SEGMENTS},
    {ROLE_turned_q, TEMPORARY_TURNED_Q}, {ROLE_turned_k, TEMPORARY_TURNED_K}, {ROLE_after, TEMPORARY_AFTER},
};

static struct source temporary(enum temporary_id id)
{
    return (struct source){SOURCE_TEMPORARY, (int)id};
}

static void bind_operand(const struct problem *problem, struct source *source, clattn_operand_id id)
{
    *source = (struct source){SOURCE_NONE, 0};
    for (int i = 0; i < problem->operand_count; i++)
        if (problem->operands[i].id == id)
            *source = (struct source){SOURCE_OPERAND, (int)id};
}

/* The attention matrix in the place of outputs. */
static void bind_attention(const struct variant *variant, struct source *sources)
{
    if (!variant->attn)
        return;
    bind_operand(variant->problem, &sources[ROLE_o], CLATTN_ATTN);
    sources[ROLE_lse].kind = SOURCE_NONE;
}

/* What the library makes of gates, and scratch memory. */
static void bind_made(const struct variant *variant, struct source *sources)
{
    if (variant->problem->rule->head_decay != NULL)
        sources[ROLE_g].kind = SOURCE_FIXED;
    for (size_t i = 0; i < sizeof made_roles / sizeof *made_roles; i++)
        sources[made_roles[i].role] = temporary(made_roles[i].temporary);
}

/* Queries and keys that were turned each by itself, where they were. */
static void bind_turned(const struct variant *variant, struct source *sources)
{
    if (variant_turned(variant)) {
        sources[ROLE_q] = sources[ROLE_turned_q];
        sources[ROLE_k] = sources[ROLE_turned_k];
    }
}

static void bind_roles(const struct variant *variant, struct source *sources)
{
    const struct problem *problem = variant->problem;
    const struct rule *rule = problem->rule;

    for (size_t i = 0; i < sizeof plain_roles / sizeof *plain_roles; i++)
        bind_operand(problem, &sources[plain_roles[i].role], plain_roles[i].operand);
    bind_operand(problem, &sources[ROLE_g], rule->gate);
    bind_operand(problem, &sources[ROLE_p], erase_operands(rule->erase)[0].id);
    bind_operand(problem, &sources[ROLE_e], erase_operands(rule->erase)[1].id);
    bind_attention(variant, sources);
    bind_made(variant, sources);
    bind_turned(variant, sources);
}

/* ---- Making -------------------------------------------------------------------------------------------------------
 */

struct variant maker_variant(const struct recipe_maker *maker, enum kernel_id kernel)
{
    return (struct variant){.kernel = kernel, .problem = maker->problem, .engine = maker->context->engine};
}

/* Whether two variants are the same part of a recipe. */
static int same_part(const struct variant *a, const struct variant *b)
{
    return a->kernel == b->kernel && a->attn == b->attn;
}

clattn_status maker_tiles(const struct recipe_maker *maker, struct variant *variant)
{
    const struct recipe *like = maker->like;

    if (like == NULL)
        return tuning_tiles(&maker->context->device, maker->tuned, variant, maker->most_group);
    for (int i = 0; i < like->step_count; i++)
        if (same_part(&like->steps[i].variant, variant)) {
            variant->tiles = like->steps[i].variant.tiles;
            return CLATTN_SUCCESS;
        }
    return CLATTN_UNSUPPORTED;
}

enum { MOST_STEPS = 32 };

static clattn_status append(struct recipe *recipe, struct step **step)
{
    if (recipe->step_count == MOST_STEPS)
        return CLATTN_UNSUPPORTED;
    *step = &recipe->steps[recipe->step_count++];
    return CLATTN_SUCCESS;
}

clattn_status maker_add(const struct recipe_maker *maker, const struct variant *variant, enum grid grid,
                        struct step **step)
{
    struct step added = {.variant = *variant, .grid = grid}, *to;

    TRY(maker_tiles(maker, &added.variant));
    added.layout = kernel_layout(&added.variant);
    bind_roles(&added.variant, added.sources);
    TRY(append(maker->recipe, &to));
    *to = added;
    if (step != NULL)
        *step = to;
    return CLATTN_SUCCESS;
}

void maker_reserve(const struct recipe_maker *maker, enum temporary_id id, int64_t floats)
{
    struct temporary *t = &maker->recipe->temporaries[id];

    if (floats > t->floats)
        t->floats = floats;
}

void maker_lay(const struct recipe_maker *maker, enum temporary_id id, clattn_dtype dtype, int64_t sequences,
               struct view strides)
{
    struct temporary *t = &maker->recipe->temporaries[id];

    t->element = (int)dtype_size(dtype);
    t->strides = strides;
    maker_reserve(maker, id, divide_up(sequences * strides.batch * t->element, (int64_t)sizeof(float)));
}

clattn_status recipe_open(struct recipe *recipe)
{
    recipe_close(recipe);
    recipe->steps = calloc(MOST_STEPS, sizeof *recipe->steps);
    return recipe->steps != NULL ? CLATTN_SUCCESS : CLATTN_OUT_OF_MEMORY;
}

void recipe_close(struct recipe *recipe)
{
    free(recipe->steps);
    memset(recipe, 0, sizeof *recipe);
}

const struct step *recipe_first(const struct recipe *recipe)
{
    return recipe->steps;
}

const struct step *recipe_last(const struct recipe *recipe)
{
    const struct step *last = &recipe->steps[recipe->step_count - 1];

    while (last->variant.kernel == KERNEL_FOLD_PATH || last->variant.attn)
        last--;
    return last;
}

/* ---- Absent arguments ----------------------------------------------------------------------------------------------
 */

uint64_t step_absent(const struct step *step)
{
    const struct kernel_signature *signature = kernel_signature(step->variant.kernel);
    uint64_t absent = 0;

    for (int i = 0; i < signature->count; i++)
        if (signature->parameters[i].kind == PARAMETER_TENSOR &&
            step->sources[kernel_role(&signature->parameters[i])].kind == SOURCE_NONE)
            absent |= (uint64_t)1 << i;
    return absent;
}
