/* A layer's recipe: the steps of the table in the intermediate form, each a plan of its own whose recipe is inlined. What
 * the steps pass on is scratch memory, beside that of the plans, which one allocator lays out. */
#ifndef CLATTN_SRC_LAYER_RECIPE_H
#define CLATTN_SRC_LAYER_RECIPE_H

#include "ir/ir.h"
#include "layer/bind.h"
#include "base/text.h"
#include "base/thread.h"

/* A step of the table: one of both. It has the kernels, and whatever else its steps of the recipe need. */
struct layer_child {
    clattn_plan *rule;
    clattn_gemm_plan *product;
    int first; /* its first step of the recipe */
};

struct layer_recipe {
    struct ir_recipe ir; /* its operands: the weights, then those of bound_get */
    struct layer_child
        children[3 * LAYER_STEPS]; /* of the backward pass also the steps of the forward pass, and two products
                                                   * for each of that */
    int child_count;
    cl_kernel *kernels; /* by step */
    struct ir_set *set;
};

/* For calls of up to so many tokens; where that is one, of one token alone or none. */
clattn_status layer_recipe_open(struct layer_recipe *recipe, const struct module *module, clattn_context *context,
                                int64_t seq_len, const struct log *log);
void layer_recipe_close(struct layer_recipe *recipe);

/* Makes the kernel of a step again that cannot be run, where it came from the cache: SUCCESS. */
clattn_status layer_recipe_renew(struct layer_recipe *recipe, int step, mutex *lock);
/* A line or two of every step of the table, and where scratch memory lies. */
clattn_status layer_recipe_write(struct text *text, const struct layer_recipe *recipe);

#endif
