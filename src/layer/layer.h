/* The table of layers: what a layer's tensors are, and its steps. A new layer is a row in table.c.
 *
 * Sizes are sums of products of the letters of clattn_layer_desc, "QK+QK+HV": C hidden, H heads, Q qk_heads, K key_dim,
 * V value_dim, W taps, R rank, F inner; of a call B batch, T seq_len; digits are factors, too, and "HV/Q" divides. */
#ifndef CLATTN_SRC_LAYER_LAYER_H
#define CLATTN_SRC_LAYER_LAYER_H

#include "clattn_layer.h"
#include "base/log.h"

enum {
    LETTERS = 26,
    LAYER_WEIGHTS = 16,
    LAYER_VALUES = 8,
    LAYER_STEPS = 14,
    LAYER_REFS = 16,
    LAYER_USUAL = 3,
    LAYER_STATES = 6,
    MOST_BOUND = 4 + 2 * LAYER_STATES /* operands of a call beside the weights */
};
enum { LAYER_DIMS = 4, SECTION = 256 }; /* every section begins at a multiple of that many bytes */

/* How a weight lies in the packed block. */
enum form {
    FORM_MATRIX, /* in the desc's dtype */
    FORM_FLOATS, /* f32 */
    FORM_RATES,  /* f32: -e^x */
    FORM_STEPS,  /* f32: x + y, log(1 + e^y) = 0.01 */
    FORM_RIDGES, /* f32: log(1 + e^x) + 0.25 */
    FORM_TURNED, /* f32: the matrix of every head with its rows as columns, the same for each sequence */
    FORM_ONES,   /* f32, of no tensor: 1; after all that have one */
    FORM_ROOTS   /* the same: 1 / sqrt(how many there are) */
};

struct layer_weight {
    const char *name;
    const char *dims[LAYER_DIMS];
    enum form form;
    /* Of rows in turn for every head of that letter: its terms of dims[0] are packed one after the other. */
    const char *each;
    const char *repeat; /* every number that many times */
    int joined;         /* goes on where the weight before ends: more rows of one matrix */
    int optional;       /* zeros where it lacks */
    int bias;           /* of a projection: only with CLATTN_LAYER_BIASES */
};

/* What the steps pass on: rows of so many columns, one for every token. */
struct layer_value {
    const char *name, *columns;
    int floats; /* f32, not the desc's dtype */
};

/* An operand of the call. Those of states are read or written as the desc's flags say. */
struct layer_bound {
    const char *name;
    const char *dims[LAYER_DIMS];
    enum { OF_DATA, OF_FLOATS, OF_WHOLE, OF_WEIGHTS } numbers; /* the desc's dtype, f32, i32; all weights in f32 */
    clattn_layer_role role;
};

/* An operand of a step: a value, from a column on, a weight, or an operand of the call. Of two with the same id the
 * second is taken where the call has no first. */
struct layer_ref {
    clattn_operand_id id; /* of a product: A, B and D */
    const char *name, *at;
};

/* A rule's plan: what `fixed` says, with sizes, dtype and states of the layer's desc. */
struct layer_step {
    clattn_plan_desc fixed;                 /* rule NONE: a product, D = A B^T, and nothing else of it */
    enum { ALWAYS, BIASED, UNBIASED } when; /* with CLATTN_LAYER_BIASES, or without */
    const char *heads, *qk_heads, *key_dim, *value_dim, *taps;
    const char *inner;    /* of a learner, with the layer's mini_batch and muon */
    const char *channels; /* in the place of heads and value_dim: so many, which are one by one anyway */
    int gates_as_values;  /* gates are what a product gives, of the desc's dtype */
    int with_eps;         /* the layer's */
    int with_limits;      /* of steps: the layer's */
    double norm_eps;      /* of rms_norm: added to a row's norm, which is sqrt(V) times its root mean square */
    struct layer_ref refs[LAYER_REFS];
};

/* A size that shapes may leave open. */
struct usual_size {
    char letter;
    const char *size;
};

struct layer {
    const char *name, *module, *formula, *paper;
    const char *letters; /* the sizes that it has */
    double eps;
    struct usual_size usual[LAYER_USUAL];
    struct layer_weight weights[LAYER_WEIGHTS];
    struct layer_bound states[LAYER_STATES];
    struct layer_value values[LAYER_VALUES];
    struct layer_step steps[LAYER_STEPS];
};

/* NULL for a layer that does not exist. */
const struct layer *layer_get(clattn_layer layer);

/* Every letter's size; 0: not known. */
struct sizes {
    int64_t of[LETTERS];
};

struct sizes sizes_of(const clattn_layer_desc *desc);
/* NULL is 1. */
int64_t sizes_value(const struct sizes *sizes, const char *text);
/* Whether all letters of text are known. */
int size_known(const struct sizes *sizes, const char *text);
/* Each from 0, or from 1 where they may not be open, to a limit that keeps products of three within 64 bits. */
clattn_status sizes_check(const clattn_layer_desc *desc, const struct layer *layer, int open, const struct log *log);
/* Sizes from the tensors' shapes, and the layer's usual ones where these leave a choice; some may stay open. */
clattn_status sizes_fit(clattn_layer_desc *desc, const struct layer *layer, const clattn_layer_tensor *tensors,
                        size_t tensor_size, size_t count, const struct log *log);

/* A desc completed and checked. */
struct module {
    clattn_layer_desc desc;
    const struct layer *layer;
    struct sizes sizes;
    struct layer_bound bound[MOST_BOUND]; /* the operands of a call beside the weights that the desc's flags ask for */
    int bound_count;
};
clattn_status module_read(struct module *module, const clattn_layer_desc *desc, size_t desc_size,
                          const struct log *log);

/* A tensor of a list of structs of that size by name; 0: there is none. */
int tensor_read(const clattn_layer_tensor *tensors, size_t tensor_size, size_t count, const char *name,
                clattn_layer_tensor *tensor);
/* Whether it is of no tensor. */
int weight_is_made(const struct layer_weight *weight);
/* Step number `index` of those that the desc's flags ask for; NULL past the last. */
const struct layer_step *step_get(const struct module *module, int index);
/* Every weight is there and has its shape. */
clattn_status module_check(const struct module *module, const clattn_layer_tensor *tensors, size_t tensor_size,
                           size_t count, const struct log *log);

size_t element_of(clattn_dtype dtype);
/* Bytes of the packed block, and where in it a weight's section begins. */
size_t packed_bytes(const struct module *module);
size_t packed_at(const struct module *module, const struct layer_weight *weight);
/* Its elements, as the checkpoint has them. */
int64_t weight_count(const struct module *module, const struct layer_weight *weight);
/* Rows of the matrix that begins with this weight. */
int64_t matrix_rows(const struct module *module, const struct layer_weight *weight);
clattn_dtype weight_type(const struct module *module, const struct layer_weight *weight);

/* Where in the block of the weights' gradients that of a weight begins. */
size_t gradient_at(const struct module *module, const struct layer_weight *weight);
/* The name of the gradient by an operand. */
const char *gradient_name(const char *name);
static inline int module_is_backward(const struct module *module)
{
    return (module->desc.flags & CLATTN_LAYER_BACKWARD) != 0;
}

/* One of the module's bound; NULL past the last. */
const struct layer_bound *bound_get(const struct module *module, int index);
size_t bound_bytes(const struct module *module, const struct layer_bound *bound);
/* Whether it has rows of tokens. */
int bound_has_tokens(const struct layer_bound *bound);

#endif
