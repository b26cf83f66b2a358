/* A layer's call, and where the steps of the table find their operands: the same on the host and on a device. */
#ifndef CLATTN_SRC_LAYER_BIND_H
#define CLATTN_SRC_LAYER_BIND_H

#include "layer/layer.h"

/* Where a block of a call lies. */
struct memory {
    cl_mem buffer;
    char *host;
    size_t offset; /* bytes in the buffer */
};

/* What a call has: the block of weights, the workspace, and the operands in the order of bound_get. */
struct memories {
    struct memory weights, work, bound[MOST_BOUND];
};

/* A call's operands by their names, of a device's memory or the host's. INVALID_ARGUMENT, INVALID_OPERAND. */
clattn_status call_read(struct memories *memories, int64_t *seq_len, const struct module *module,
                        const clattn_layer_call *call, size_t call_size, size_t operand_size, int host,
                        const struct log *log);

/* What a step names. */
struct layer_place {
    enum { PLACE_NONE, PLACE_WEIGHTS, PLACE_VALUE, PLACE_GRADIENT, PLACE_BOUND } in; /* gradients: those by values */
    int index;       /* of the layer's values, or as bound_get has it */
    size_t at;       /* bytes from its beginning */
    int64_t columns; /* of its rows, one a token; 0: it has none */
};

clattn_dtype value_type(const struct module *module, const struct layer_value *value);
/* Bytes of a value of so many tokens as the desc has, whole sections. */
size_t value_bytes(const struct module *module, const struct layer_value *value);

/* The rule of a step for so many tokens. */
clattn_plan_desc step_desc(const struct module *module, const struct layer_step *step, int64_t seq_len);
/* Its operands in a call of seq_len tokens, but for their memory, and where each lies; how many. Those of tokens are left
 * out where there are none. */
size_t step_operands(const struct module *module, const struct layer_step *step, int64_t seq_len,
                     clattn_operand operands[LAYER_REFS], struct layer_place places[LAYER_REFS]);

/* The step after this one, if it normalises this one's output by heads, and this one's rule can do the same: a token's step
 * of a layer then has one plan for both. NULL: there is none. */
const struct layer_step *step_norm(const struct module *module, int index);
/* The plan of both steps, and its operands. */
clattn_plan_desc step_normed_desc(const struct module *module, int index, int64_t seq_len);
size_t step_normed_operands(const struct module *module, int index, int64_t seq_len, clattn_operand operands[],
                            struct layer_place places[]);

/* Whether a backward pass computes the step's forward pass again: not of those that give y. */
int step_is_again(const struct layer_step *step);
/* The same of the step's backward pass; `index` is its number. Its operands have the library's own ids of gradients. */
clattn_plan_desc step_back_desc(const struct module *module, int index, int64_t seq_len);
size_t step_back_operands(const struct module *module, int index, int64_t seq_len, clattn_operand operands[],
                          struct layer_place places[]);
enum { BACK_OPERANDS = 2 * LAYER_REFS };

/* A product: D = A B^T of batch * seq_len rows. */
struct layer_product {
    struct layer_place a, b, d;
    int64_t n, k, lda, ldd;
};
struct layer_product step_product(const struct module *module, const struct layer_step *step);
/* The places of the gradients by its matrices, and whether that by A is added to what is there. */
struct layer_product_back {
    struct layer_place a, b, d;
    int adds;
};
struct layer_product_back step_product_back(const struct module *module, int index);

#endif
