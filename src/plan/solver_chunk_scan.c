/* Chunks of tokens: prepare, parallel over all chunks, leaves each chunk's matrices; scan carries the state over the chunks of
 * a sequence, parallel over sequences, heads and value tiles. */
#include "plan/plan.h"

/* Floats of a chunk's record: RECORD in cl/words/tile.clh. */
static int64_t record_floats(const struct variant *variant)
{
    static const int erase_matrices[] = {
        [ERASE_NONE] = 0, [ERASE_KEY] = 1, [ERASE_OPERAND] = 1, [ERASE_GATED] = 1, [ERASE_LOW_RANK] = 3};
    int chunk = variant->tiles.chunk, vec = variant->tiles.vec;
    int pitch = (chunk + vec - 1) / vec * vec;

    return (int64_t)(1 + erase_matrices[variant->problem->rule->erase]) * chunk * pitch + 6 * chunk + vec;
}

static clattn_status add(struct clattn_plan *plan, int most_group, struct text *description)
{
    const clattn_plan_desc *desc = &plan->problem.desc;
    struct pass passes[2], main_pass = {0};
    struct extent extent = problem_most(&plan->problem);
    int count = plan_passes(plan, passes);
    struct variant prepare = plan_variant(plan, KERNEL_PREPARE, main_pass);

    plan->sources[ROLE_records] = (struct source){SOURCE_SECTION, SECTION_RECORDS};
    TRY(plan_add(plan, &prepare, main_pass, GRID_SLOTS, most_group, description));
    plan_reserve(plan, SECTION_RECORDS,
                 plan_slots(&plan->problem, &extent, prepare.tiles.chunk) * desc->heads * record_floats(&prepare));
    for (int i = 0; i < count; i++) {
        struct variant scan = plan_variant(plan, KERNEL_SCAN, passes[i]);
        TRY(plan_add(plan, &scan, passes[i], GRID_SEQUENCES, most_group, description));
    }
    return CLATTN_SUCCESS;
}

/* A chunk's record binds prepare and scan to the same chunk and vec. */
/* clang-format off */
enum { PREPARE = 1 << KERNEL_PREPARE, SCAN = 1 << KERNEL_SCAN };
static const struct parameter parameters[] = {
    {"chunk",           PREPARE | SCAN, offsetof(struct tiles, chunk),   {8, 16, 32, 64, BY_THUMB}},
    {"vec",             PREPARE | SCAN, offsetof(struct tiles, vec),     {4, 16, BY_THUMB}},
    {"prepare.group",   PREPARE,        offsetof(struct tiles, group),   {1, 16, 32, 64, 128, 256, BY_THUMB}},
    {"prepare.block_k", PREPARE,        offsetof(struct tiles, block_k), {16, 32, 64, 128, 256, BY_THUMB}},
    {"prepare.pad",     PREPARE,        offsetof(struct tiles, pad),     {0, 4, 16, BY_THUMB}},
    {"scan.group",      SCAN,           offsetof(struct tiles, group),   {1, 16, 32, 64, 128, 256, BY_THUMB}},
    {"scan.block_k",    SCAN,           offsetof(struct tiles, block_k), {16, 32, 64, 128, 256, BY_THUMB}},
    {"scan.block_v",    SCAN,           offsetof(struct tiles, block_v), {4, 8, 16, 32, 64, 128, BY_THUMB}},
    {"scan.pad",        SCAN,           offsetof(struct tiles, pad),     {0, 4, 16, BY_THUMB}},
    {NULL, 0, 0, {BY_THUMB}},
};
/* clang-format on */

const struct solver solver_chunk_scan = {"chunk_scan", CLATTN_MODE_CHUNK, add, parameters, 1024};
