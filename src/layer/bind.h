/* A step with its operands' places, on the host or on a device. */
#ifndef CLATTN_SRC_LAYER_BIND_H
#define CLATTN_SRC_LAYER_BIND_H

#include "layer/layer.h"

/* Where a block lies. */
struct memory {
    cl_mem buffer;
    char *host;
    size_t offset;
};

/* What a call has: the block of weights, the workspace, and the operands in the order of bound_get. */
enum { MOST_BOUND = 2 + LAYER_STATES };
struct memories {
    struct memory weights, work, bound[MOST_BOUND];
};

/* A call's operands by their names, of a device's memory or the host's. INVALID_ARGUMENT, INVALID_OPERAND. */
clattn_status call_read(struct memories *memories, int64_t *seq_len, const struct module *module,
                        const clattn_layer_call *call, size_t call_size, size_t operand_size, int host,
                        const struct log *log);

/* Bytes of the workspace that hold the values of so many tokens as the desc has. */
size_t values_bytes(const struct module *module);

/* The rule of a step for so many tokens. */
clattn_plan_desc step_desc(const struct module *module, const struct layer_step *step, int64_t seq_len);
/* Its operands in a call of seq_len tokens; how many. Those of tokens are left out where there are none. */
size_t step_operands(const struct module *module, const struct layer_step *step, const struct memories *memories,
                     int64_t seq_len, clattn_operand operands[LAYER_REFS]);

/* A product: D = A B^T of batch * seq_len rows. */
struct layer_product {
    struct memory a, b, d;
    int64_t n, k, lda, ldd;
};
struct layer_product step_product(const struct module *module, const struct layer_step *step,
                                  const struct memories *memories);

#endif
