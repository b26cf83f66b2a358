/* What the words of a rule add to the kernels: rows, matrices and headers. */
#include "solve/matrix_scan/matrix_scan.h"

#define MATRIX(header, scan_header, ...)                                                                               \
    {                                                                                                                  \
        FILE_##header, FILE_##scan_header, __VA_ARGS__                                                                 \
    }
static const struct {
    enum embedded_file header, scan_header;
    int streams;          /* of rows */
    int decayed_streams;  /* as many more where rows are decayed */
    int prepared_streams; /* those that prepare reads */
    int norms;            /* those of them that may be normalised */
    int recorded, solved; /* matrices of chunk x chunk: in a record, and of floats in prepare */
    int most_chunk;       /* tokens */
    int readers;          /* whether sub-groups of their own may make the output: 2 where they usually do */
    int made;             /* whether prepare makes its rows whatever the decay */
    int norms_in_rows;    /* whether a norm of k is no factor of each of its rows */
} erases[] = {
#define ERASE(value, name, p, e, draw, work, plain, matrix) matrix,
#include "op/words.def"
};
static const enum embedded_file decay_headers[] = {
#define DECAY(value, name, dims, list_dims, plain, matrix, ...) FILE_##matrix,
#include "op/words.def"
};
static const struct {
    enum embedded_file strength, values;
    int made; /* whether prepare makes the values */
} writes[] = {
#define WRITE(value, row, role, strength, plain, matrix, made, ...) {FILE_##strength, FILE_##matrix, made},
#include "op/words.def"
};
static const struct {
    enum embedded_file header;
    int before; /* whether it reads before the write */
} reads[] = {
#define READ(value, row, plain, matrix, before, ...) {FILE_##matrix, before},
#include "op/words.def"
};

/* ---- Traits --------------------------------------------------------------------------------------------------------
 */

static int makes_rows(const struct part *part, const struct part_traits *traits)
{
    const clattn_plan_desc *desc = &part->problem->desc;
    const enum erase erase = part->problem->rule->erase;

    return traits->decayed || erases[erase].made || desc->feature_map != 0 || desc->steps > 1 ||
           desc->key_dim != traits->width || (erases[erase].norms_in_rows && desc->flags & CLATTN_QK_L2NORM);
}

static int depth(const struct part_tiles *t, const struct part_traits *traits)
{
    enum { DECAYED_DEPTH = 3, READ_DEPTH = 2 };
    const int usual = t->readers ? READ_DEPTH : traits->decayed ? DECAYED_DEPTH : 1;

    return t->loaders == 0 ? 1 : t->depth > 0 ? t->depth : usual;
}

static struct part_traits traits_of(const struct problem *problem)
{
    const struct rule *rule = problem->rule;
    const enum erase erase = rule->erase;
    struct part_traits traits = {.erasing = erase != ERASE_NONE,
                                 .decayed = problem_decay(problem) == DECAY_CHANNEL,
                                 .before = reads[rule->read].before,
                                 .may_read = erases[erase].readers,
                                 .prepared_streams = erases[erase].prepared_streams,
                                 .norms = erases[erase].norms,
                                 .solved = erases[erase].solved};

    traits.most_chunk = traits.decayed ? MATRIX_TILE : erases[erase].most_chunk;
    traits.streams = erases[erase].streams + (traits.decayed ? erases[erase].decayed_streams : 0);
    return traits;
}

struct part_traits part_traits(const struct part *part)
{
    const struct problem *problem = part->problem;
    const struct part_tiles *t = &part->tiles;
    struct part_traits traits = traits_of(problem);

    traits.width = round_up(problem->desc.key_dim, MATRIX_TILE * (t->key_split > 2 ? t->key_split : 2));
    traits.made = makes_rows(part, &traits);
    traits.strips = part->facts->engine->span > 1 && !traits.erasing && t->key_split == 1;
    traits.scan_scores = traits.strips && !traits.decayed && !traits.before;
    traits.matrices = traits.scan_scores ? 0 : erases[problem->rule->erase].recorded;
    traits.reads_rows = traits.matrices > 0 || (problem->desc.flags & CLATTN_QK_L2NORM) || traits.made;
    traits.row_factors = traits.decayed ? 0 : 2 + traits.erasing;
    traits.state_factors = traits.decayed ? traits.width : 4;
    traits.divided = problem_normalized(problem) && problem->pass == PASS_OUTPUTS && part->kind != PART_GATHER;
    traits.depth = depth(t, &traits);
    traits.value_groups = t->block_v > 0 ? (int)divide_up(problem_values(problem), t->block_v) : 0;
    return traits;
}

int makes_values(const struct problem *problem)
{
    return writes[problem->rule->write].made && problem->pass == PASS_OUTPUTS;
}

/* ---- Headers ------------------------------------------------------------------------------------------------------
 */

static enum embedded_file values_header(const struct problem *problem)
{
    return problem->pass == PASS_DENOMINATORS ? FILE_values_ones : writes[problem->rule->write].values;
}

/* How a number of the output is finished: where it is divided, the staged reciprocals do that. */
static enum embedded_file output_header(const struct part *part)
{
    if (part->problem->pass == PASS_OUTPUTS || part->kind == PART_GATHER)
        return FILE_output_plain;
    return problem_stabilized(part->problem) ? FILE_output_stable : FILE_output_sum;
}

void add_shared_headers(struct kernel_step *step, const struct part *part, const struct part_traits *traits)
{
    const struct rule *rule = part->problem->rule;

    step_header(step, part->facts->engine->instructions);
    step_header(step, part->facts->engine->words);
    step_header(step, reads[rule->read].header);
    step_header(step, writes[rule->write].strength);
    step_header(step, values_header(part->problem));
    step_header(step, erases[rule->erase].header);
    step_header(step, traits->made ? FILE_rows_made : FILE_rows_raw);
    step_header(step, decay_headers[problem_decay(part->problem)]);
}

void add_scan_headers(struct kernel_step *step, const struct part *part, const struct part_traits *traits)
{
    const int scan_scores = traits->scan_scores && part->kind == PART_SCAN;

    step_header(step, scan_scores ? FILE_scores_staged : FILE_scores_recorded);
    step_header(step, traits->erasing ? FILE_kept_matrix : FILE_kept_factors);
    step_header(step, erases[part->problem->rule->erase].scan_header);
    step_header(step, output_header(part));
    step_header(step, part->tiles.readers ? FILE_scan_reader : FILE_readers_none);
}
