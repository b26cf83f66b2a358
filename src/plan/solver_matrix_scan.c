/* Chunks on a matrix engine: prepare_matrix or prepare_factors, parallel over all chunks, then scan_matrix with the state in
 * registers. */
#include "plan/plan.h"

#include "kernel/matrix.h"
#include "plan/probe.h"

enum { MOST_BEYOND = 64 };

/* Whether one scan finds what the other left where it looks for it. */
static int same_cut(const struct tiles *a, const struct tiles *b)
{
    return a->chunk == b->chunk && a->block_v == b->block_v && a->segments == b->segments &&
           a->key_split == b->key_split;
}

/* One pass over all chunks: a scan; or over segments a scan for what each adds to the state and keeps of it, and the scan. */
static clattn_status add_scan(struct clattn_plan *plan, struct pass pass, int most_group, struct text *description)
{
    const clattn_plan_desc *desc = &plan->problem.desc;
    struct variant scan = plan_variant(plan, KERNEL_SCAN_MATRIX, pass), gather = scan;
    int64_t states;

    TRY(plan_tiles(plan, &scan, most_group));
    if (scan.tiles.segments > 1) {
        gather.gather = 1;
        states = (desc->flags & CLATTN_CU_SEQLENS ? desc->sequences : desc->batch) * scan.tiles.segments * desc->heads;
        plan_reserve(plan, SECTION_SEGMENTS, states * matrix_segment_floats(&scan));
        plan_reserve(plan, SECTION_SEGMENT_KEPT, states * matrix_segment_kept_floats(&scan));
        TRY(plan_add(plan, &gather, pass, GRID_SEQUENCES, most_group, description));
        if (!same_cut(&gather.tiles, &scan.tiles))
            return CLATTN_UNSUPPORTED;
    }
    return plan_add(plan, &scan, pass, GRID_SEQUENCES, most_group, description);
}

/* What does not depend on the state, chunk by chunk. */
static clattn_status add_prepare(struct clattn_plan *plan, int most_group, struct text *description)
{
    const clattn_plan_desc *desc = &plan->problem.desc;
    struct pass main_pass = {0};
    struct variant prepare = plan_variant(plan, KERNEL_PREPARE_MATRIX, main_pass);
    struct extent extent = problem_most(&plan->problem);
    int64_t chunks;

    TRY(plan_tiles(plan, &prepare, most_group));
    if (!matrix_reads_rows(&prepare))
        prepare.kernel = KERNEL_PREPARE_FACTORS;
    TRY(plan_add(plan, &prepare, main_pass, GRID_SLOTS, most_group, description));
    chunks = plan_slots(&plan->problem, &extent, prepare.tiles.chunk) * desc->heads;
    /* scan fetches a chunk past a segment's last, and empty segments may lie past the last chunk */
    plan_reserve(plan, SECTION_RECORDS, (chunks + MOST_BEYOND * desc->heads) * matrix_record_floats(&prepare));
    plan_reserve(plan, SECTION_ROWS, chunks * matrix_row_floats(&prepare));
    return CLATTN_SUCCESS;
}

static clattn_status add(struct clattn_plan *plan, int most_group, struct text *description)
{
    struct pass passes[2];
    int count = plan_passes(plan, passes);

    if (plan->context->engine == NULL || plan->problem.desc.dtype == CLATTN_F32)
        return CLATTN_UNSUPPORTED;
    TRY(probe_engine(plan->context, &plan->problem));
    plan->sources[ROLE_records] = (struct source){SOURCE_SECTION, SECTION_RECORDS};
    plan->sources[ROLE_rows] = (struct source){SOURCE_SECTION, SECTION_ROWS};
    plan->sources[ROLE_segments] = (struct source){SOURCE_SECTION, SECTION_SEGMENTS};
    plan->sources[ROLE_kept] = (struct source){SOURCE_SECTION, SECTION_SEGMENT_KEPT};
    TRY(add_prepare(plan, most_group, description));
    for (int i = 0; i < count; i++)
        TRY(add_scan(plan, passes[i], most_group, description));
    return CLATTN_SUCCESS;
}

/* clang-format off */
enum {
    PREPARE = 1 << KERNEL_PREPARE_MATRIX | 1 << KERNEL_PREPARE_FACTORS,
    SCAN = 1 << KERNEL_SCAN_MATRIX
};
static const struct parameter parameters[] = {
    {"chunk",          PREPARE | SCAN, offsetof(struct tiles, chunk),     {16, 32, BY_THUMB}},
    {"scan.block_v",   SCAN,           offsetof(struct tiles, block_v),   {16, 32, 64, 128, BY_THUMB}},
    {"key_split",      PREPARE | SCAN, offsetof(struct tiles, key_split), {1, 2, BY_THUMB}},
    {"scan.loaders",   SCAN,           offsetof(struct tiles, loaders),   {0, 2, 4, BY_THUMB}},
    {"scan.readers",   SCAN,           offsetof(struct tiles, readers),   {0, 1, BY_THUMB}},
    {"scan.depth",     SCAN,           offsetof(struct tiles, depth),     {1, 2, 3, BY_THUMB}},
    {"scan.segments",  SCAN,           offsetof(struct tiles, segments),  {1, 2, 4, 8, BY_THUMB}},
    {"scan.stages",    SCAN,           offsetof(struct tiles, stages),    {1, 2, BY_THUMB}},
    {NULL, 0, 0, {BY_THUMB}},
};
/* clang-format on */

const struct solver solver_matrix_scan = {"matrix_scan", CLATTN_MODE_CHUNK, add, parameters, 1024};
