/* The passes over the sequences that a problem needs. */
#include "solve/builder.h"

#include <stdlib.h>

/* Binds the names that mean something else in this pass. */
static void bind_pass(struct builder *b, enum pass pass)
{
    const int stabilizer = problem_stabilized(b->problem) ? build_bound(b, "m") : IR_NONE;
    const int whole = pass == PASS_DENOMINATORS ? b->whole_sums : b->whole;

    if (pass == PASS_DENOMINATORS)
        build_bind(b, "o", b->denominators);
    build_bind(b, "den", pass == PASS_DENOMINATORS ? stabilizer : b->denominators);
    if (whole != IR_NONE)
        build_bind(b, "final", whole);
}

clattn_status build_pass(struct builder *b, enum pass pass, const void *shape, build_pass_fn add)
{
    const struct problem *outside = b->problem;
    const int names = b->name_count;
    struct problem *problem = malloc(sizeof *problem);
    clattn_status status = CLATTN_OUT_OF_MEMORY;

    if (problem != NULL) {
        *problem = *outside;
        problem->pass = pass;
        b->problem = problem;
        bind_pass(b, pass);
        status = add(b, problem, shape);
    }
    b->problem = outside;
    b->name_count = names;
    free(problem);
    return status;
}

clattn_status build_passes(struct builder *b, const void *shape, build_pass_fn add)
{
    if (problem_normalized(b->problem))
        TRY(build_pass(b, PASS_DENOMINATORS, shape, add));
    return build_pass(b, PASS_OUTPUTS, shape, add);
}
