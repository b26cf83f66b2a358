/* features: feature maps of queries or keys for linear attention: FAVOR+, random Fourier features, Hedgehog.
 *
 * A group computes `chunk` rows of one head. It projects them on all of omega, which its rows share, then writes the
 * features. A work-item projects `tokens` of the rows at once. */
#include "solve/pieces.h"

enum { STATS = 3 }; /* numbers that the work-items of a row share */

/* Projections of a row. */
static int64_t projections_of(const clattn_plan_desc *desc)
{
    return desc->features == CLATTN_FEATURES_FAVOR ? desc->key_dim : desc->key_dim / 2;
}

/* Bytes of local memory for that many rows. */
static int64_t local_bytes(const clattn_plan_desc *desc, int rows)
{
    return rows * (projections_of(desc) + STATS) * (int64_t)sizeof(float);
}

/* The rows of a work-item share its loads of omega. */
static void choose(const struct device_facts *facts, const struct problem *problem, struct piece_tiles *t)
{
    enum { RUN = 4, ROWS = 16 };
    const int few = problem->desc.seq_len < RUN;

    t->tokens = few ? 1 : RUN;
    t->chunk = few ? 1 : ROWS;
    while (t->chunk > t->tokens && local_bytes(&problem->desc, t->chunk) > (int64_t)facts->device->info.local_memory)
        t->chunk /= 2;
}

static void add(struct kernel_step *step, const struct problem *problem, const struct piece_tiles *t)
{
    const clattn_plan_desc *desc = &problem->desc;
    const int64_t projections = projections_of(desc);

    step_constant(step, "M", projections);
    step_constant(step, "RUN", t->tokens);
    step_constant(step, "IS_FAVOR", desc->features == CLATTN_FEATURES_FAVOR);
    step_constant(step, "IS_RFA", desc->features == CLATTN_FEATURES_RFA);
    step_constant(step, "IS_HEDGEHOG", desc->features == CLATTN_FEATURES_HEDGEHOG);
    step_constant(step, "OF_QUERIES", (desc->flags & CLATTN_OF_QUERIES) != 0);
    step_local(step, "LOCAL_PROJECTIONS", t->chunk * projections, sizeof(float));
    step_local(step, "LOCAL_STATS", (int64_t)t->chunk * STATS, sizeof(float));
}

/* A group handles whole rows. */
static struct piece_groups groups(const struct problem *problem, const struct piece_tiles *t)
{
    (void)t;
    return (struct piece_groups){problem_work_heads(problem), 1};
}

static const struct piece_body body = {PIECE_FEATURES, FILE_features, choose, NULL, add, groups};
const struct solver solver_features = {PIECE_SOLVER("features", &body)};
