/* matrix_scan: chunks of tokens on a matrix engine, the state in registers.
 *
 *     D = T (X - (P o e^G) S)      O = (Q o e^G) S + A D      S <- e^(G_C) S + (K o e^(G_C - G))^T D
 *
 * What does not depend on the state, A and T and factors of the rows, is left in records, parallel over all chunks. The
 * scan carries S over the chunks of a sequence, parallel over sequences, heads and value columns; where that leaves
 * compute units idle, over segments of a sequence too, with another scan ahead of it that finds what each adds to the
 * state and keeps of it. A normalised problem has its scans once for the denominators, and then for the outputs. */
#include "solve/matrix_scan/matrix_scan.h"
#include "solve/state_tile.h"

static const struct parameter parameters[] = {
    PARAMETER_ROW("chunk", struct matrix_scan_tiles, scan[PASS_OUTPUTS].chunk, 16, 32),
    PARAMETER_ROW("scan.block_v", struct matrix_scan_tiles, scan[PASS_OUTPUTS].block_v, 16, 32, 64, 128),
    PARAMETER_ROW("key_split", struct matrix_scan_tiles, scan[PASS_OUTPUTS].key_split, 1, 2),
    PARAMETER_ROW("scan.loaders", struct matrix_scan_tiles, scan[PASS_OUTPUTS].loaders, 0, 2, 4),
    PARAMETER_ROW("scan.readers", struct matrix_scan_tiles, scan[PASS_OUTPUTS].readers, 0, 1),
    PARAMETER_ROW("scan.depth", struct matrix_scan_tiles, scan[PASS_OUTPUTS].depth, 1, 2, 3),
    PARAMETER_ROW("scan.segments", struct matrix_scan_tiles, scan[PASS_OUTPUTS].segments, 1, 2, 4, 8),
    PARAMETER_ROW("scan.stages", struct matrix_scan_tiles, scan[PASS_OUTPUTS].stages, 1, 2),
    PARAMETERS_END,
};

/* A kernel of the recipe. */
struct shaped_part {
    enum part_kind kind;
    enum pass pass;
    struct part_tiles tiles;
    struct part_layout layout;
    int depth; /* chunks on their way to a group at once */
};

enum { MOST_PARTS = 5 };

struct matrix_scan_shape {
    struct shaped_part parts[MOST_PARTS]; /* in the recipe's order: what prepares, then each pass */
    int count;
};

/* Sub-groups keep all channels of their columns of the state in registers, which hold no more of them than this. */
enum { MOST_CHANNELS = 256 };

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver;
    return facts->engine != NULL && problem->desc.key_dim <= MOST_CHANNELS && problem->desc.dtype != CLATTN_F32 &&
           has_state_of_matrices(problem) && !problem_reads_whole(problem) && !problem_is_summary(problem) &&
           !(problem->desc.flags & CLATTN_VALUE_GATE);
}

/* ---- Shape --------------------------------------------------------------------------------------------------------
 */

static clattn_status add_part(struct matrix_scan_shape *shape, const struct device_facts *facts,
                              const struct problem *problem, enum part_kind kind, enum pass pass,
                              const struct part_tiles *tiles)
{
    struct problem of_pass = *problem;
    const struct part part = {.kind = kind, .problem = &of_pass, .facts = facts, .tiles = *tiles};
    struct shaped_part *to = &shape->parts[shape->count++];

    of_pass.pass = pass;
    *to = (struct shaped_part){
        .kind = kind, .pass = pass, .tiles = *tiles, .layout = part_layout(&part), .depth = part_traits(&part).depth};
    return step_fits(&to->layout.step, facts->device);
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    const struct matrix_scan_tiles *t = tiles;
    const struct part prepare = {.kind = PART_PREPARE, .problem = problem, .facts = facts, .tiles = t->prepare};
    struct matrix_scan_shape *s = shape;

    (void)solver;
    s->count = 0;
    TRY(add_part(s, facts, problem, part_traits(&prepare).reads_rows ? PART_PREPARE : PART_FACTORS, PASS_OUTPUTS,
                 &t->prepare));
    for (int pass = problem_normalized(problem) ? PASS_DENOMINATORS : PASS_OUTPUTS; pass >= 0; pass--) {
        if (t->scan[pass].segments > 1)
            TRY(add_part(s, facts, problem, PART_GATHER, (enum pass)pass, &t->gather[pass]));
        TRY(add_part(s, facts, problem, PART_SCAN, (enum pass)pass, &t->scan[pass]));
    }
    return CLATTN_SUCCESS;
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct matrix_scan_shape *s = shape;

    (void)problem;
    return (struct reach){.chunk = s->parts[0].tiles.chunk, .parts = 1};
}

/* ---- Recipe -------------------------------------------------------------------------------------------------------
 */

/* What prepare leaves the scans. */
static void bind_records(struct builder *b, const struct problem *problem, const struct shaped_part *prepare)
{
    /* The scan fetches a chunk past a segment's last, and empty segments may lie past the last chunk. */
    enum { MOST_BEYOND = 64 };
    const int64_t heads = problem_work_heads(problem), chunks = most_slots(problem, prepare->tiles.chunk) * heads;
    const int64_t records = (chunks + MOST_BEYOND * heads) * prepare->layout.record;

    build_bind(b, "records", build_scratch(b, "records", CLATTN_F32, records));
    build_bind(b, "rows", build_scratch(b, "rows", CLATTN_F32, chunks * prepare->layout.rows));
}

static void add_prepare(struct builder *b, const struct problem *problem, const struct shaped_part *part)
{
    const ir_expression slots = build_slots(b, part->tiles.chunk);
    const ir_expression groups = build_binary(b, IR_DIVIDE_UP, slots, build_constant(b, part->layout.slots));

    build_kernel(b, &part->layout.step, (struct grid3){groups, problem_work_heads(problem), 1});
}

/* What segments of a sequence leave those after them. */
static void bind_segments(struct builder *b, const struct problem *problem, const struct shaped_part *gather)
{
    const int64_t segments = problem_heads(problem) * gather->tiles.segments;

    build_bind(b, "segments", build_scratch(b, "segments", CLATTN_F32, segments * gather->layout.segment));
    build_bind(b, "kept", build_scratch(b, "kept by segments", CLATTN_F32, segments * gather->layout.segment_kept));
}

/* The scans of a pass. */
static clattn_status add_scans(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct matrix_scan_shape *s = shape;
    const ir_expression sequences = build_length(b, IR_SEQUENCES);

    for (int i = 1; i < s->count; i++) {
        const struct shaped_part *part = &s->parts[i];
        if (part->pass != problem->pass)
            continue;
        if (part->kind == PART_GATHER)
            bind_segments(b, problem, part);
        build_kernel(b, &part->layout.step,
                     (struct grid3){sequences, problem_work_heads(problem), part->layout.groups});
    }
    return CLATTN_SUCCESS;
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct matrix_scan_shape *s = shape;

    bind_records(b, problem, &s->parts[0]);
    add_prepare(b, problem, &s->parts[0]);
    return build_passes(b, s, add_scans);
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct matrix_scan_shape *s = shape;
    const struct shaped_part *part = &s->parts[step];
    const struct part_tiles *t = &part->tiles;

    text_format(text, "group %d, chunk %d", t->group, t->chunk);
    if (part->kind == PART_SCAN || part->kind == PART_GATHER)
        text_format(text,
                    ", value tile %d by %d sub-groups, key split %d, readers %d, loaders %d, depth %d, stages %d, "
                    "segments %d%s",
                    t->block_v, t->value_tiles, t->key_split, t->readers * t->value_tiles, t->loaders, part->depth,
                    t->stages, t->segments, part->kind == PART_GATHER ? ", gathers" : "");
    text_format(text, ", local %zu bytes\n", part->layout.step.local_bytes);
}

const struct solver solver_matrix_scan = {
    .space = {"matrix_scan", parameters, 1024, 0, 1, 1},
    .mode = CLATTN_MODE_CHUNK,
    .rank = 1000,
    .tiles_size = sizeof(struct matrix_scan_tiles),
    .shape_size = sizeof(struct matrix_scan_shape),
    .applies = applies,
    .choose_tiles = matrix_scan_choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
