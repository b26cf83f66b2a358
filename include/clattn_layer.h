/* clattn_layer: token mixers as whole modules, y = layer(x), made of clattn's rules and matrix products.
 *
 * The functions are in libclattn. Programs that only need the rules do not need this header.
 *
 * A *layer* is a list of steps: projections, a short convolution, gates, a rule, a normalisation, a projection. Its
 * weights have the names and shapes of the module in Hugging Face transformers, or in the place where the module was
 * published; `clattn layer NAME` prints them. The weights are packed once, on the host, into a block of bytes that every
 * plan of the same desc reads. A plan works for every number of tokens up to its maximum, both for prompts and for
 * single tokens:
 *
 *     clattn_layer_desc desc = {.layer = CLATTN_LAYER_MAMBA, .dtype = CLATTN_BF16, .seq_len = 4096,
 *         .flags = CLATTN_LAYER_INITIAL_STATE | CLATTN_LAYER_FINAL_STATE};
 *     clattn_layer_fit(&desc, &desc, tensors, tensor_count, NULL, NULL);
 *     clattn_layer_packed_size(&desc, &bytes);
 *     clattn_layer_pack(&desc, tensors, tensor_count, packed, NULL, NULL);      (then into a buffer of the device)
 *     clattn_layer_plan_create(&plan, context, &desc, NULL, NULL);
 *     clattn_layer_operand operands[] = {
 *         {"weights", .buffer = weights}, {"x", .buffer = x}, {"y", .buffer = y},
 *         {"conv_state", .buffer = conv}, {"state", .buffer = state},
 *         {"final_conv_state", .buffer = conv}, {"final_state", .buffer = state}};
 *     clattn_layer_enqueue(plan, queue, &(clattn_layer_call){.operands = operands, .operand_count = 7, .seq_len = 1000,
 *         .workspace = workspace}, 0, NULL, NULL);
 *
 * The conventions are those of clattn.h. */
#ifndef CLATTN_LAYER_H
#define CLATTN_LAYER_H

#include <clattn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Layers ------------------------------------------------------------------------------------------------- */

/* X(NAME, value): the list of all layers. New layers are added at its end. A module may have the tensor names of a
 * layer and compute something else, which its tensors do not show. Falcon-Mamba has MAMBA's names, and normalises B, C
 * and dt without weights: it is FALCON_MAMBA. Falcon-H1 has MAMBA2's names, and multiplies its projections by factors
 * from its config: its outputs would be wrong here. `clattn layer` rejects a wrong layer by the model_type in the file's
 * metadata or in config.json next to it. */
#define CLATTN_LAYERS(X)                                                                                               \
    X(MAMBA, 1)                                                                                                        \
    X(GATED_DELTANET, 2)                                                                                               \
    X(KDA, 3)                                                                                                          \
    X(MAMBA2, 4)                                                                                                       \
    X(GLA, 5)                                                                                                          \
    X(RETNET, 6)                                                                                                       \
    X(LACT, 7)                                                                                                         \
    X(JAMBA, 8)                                                                                                        \
    X(FALCON_MAMBA, 9)                                                                                                 \
    X(GATED_DELTANET_SPLIT, 10)                                                                                        \
    X(MESA_NET, 11)

typedef enum clattn_layer {
    CLATTN_LAYER_NONE = 0,
#define CLATTN_LAYER_ENUM(NAME, value) CLATTN_LAYER_##NAME = value,
    CLATTN_LAYERS(CLATTN_LAYER_ENUM)
#undef CLATTN_LAYER_ENUM
} clattn_layer;

/* A layer's description. Strings are static. */
typedef struct clattn_layer_info {
    clattn_layer layer;
    const char *name;    /* "mamba" */
    const char *module;  /* the module whose tensor names and shapes it has */
    const char *formula; /* one line */
    const char *paper;   /* the source of the method */
} clattn_layer_info;

/* INVALID_ARGUMENT: there is no such layer. */
CLATTN_INLINE clattn_status clattn_layer_describe(clattn_layer layer, clattn_layer_info *info);
/* The layer with that name, or CLATTN_LAYER_NONE. */
CLATTN_API clattn_layer clattn_layer_find(const char *name);

/* ---- Descriptions ------------------------------------------------------------------------------------------- */

enum {
    CLATTN_LAYER_INITIAL_STATE =
        1 << 0, /* those of the operands conv_state, state, gram and position that the layer has are read; without the
                 * flag they are zero. lact: state_w0, state_w1, state_w2; without the flag they are the checkpoint's
                 * weights */
    CLATTN_LAYER_FINAL_STATE = 1 << 1, /* final_conv_state, final_state and final_gram are written, for lact final_w0,
                                        * final_w1, final_w2; they may be the same memory */
    CLATTN_LAYER_BIASES =
        1 << 2, /* the layer adds in_proj.bias and out_proj.bias, those that there are. clattn_layer_fit
                 * sets it if there is one of them */
    /* The gradients of a loss instead of y: of gated_deltanet, gated_deltanet_split, kda, gla, retnet and mamba2. Operands
     * are weights, x, d_y, the states that INITIAL_STATE reads, and with FINAL_STATE the gradients d_final_conv_state and
     * d_final_state. Written are d_x; d_conv_state and d_state with INITIAL_STATE; and d_weights, f32, laid out as the packed
     * block would be if all of it were f32 (clattn_layer_unpack). The layer is computed again, nothing is kept from a forward
     * pass. seq_len is not 0. */
    CLATTN_LAYER_BACKWARD = 1 << 3,
    CLATTN_LAYER_ADDED = 1 << 4 /* with BACKWARD: d_weights is added to what is there */
};

/* What a layer computes. The sizes of its module follow from the module's tensors (clattn_layer_fit). */
typedef struct clattn_layer_desc {
    clattn_layer layer; /* required */
    clattn_dtype dtype; /* of x, y, intermediate results and matrices; states are f32, positions i32 */
    uint32_t flags;     /* CLATTN_LAYER_INITIAL_STATE … */
    int64_t batch;      /* 0: 1; the same in every call */
    int64_t seq_len;    /* tokens, a maximum; required for plans */
    int64_t hidden;     /* C: width of x and y */
    int64_t heads;      /* H: heads of values */
    int64_t qk_heads;   /* Q: heads of queries and keys, a divisor of heads; groups of mamba2 */
    int64_t key_dim;    /* K: also the state size of mamba and mamba2 */
    int64_t value_dim;  /* V; for mamba the inner width */
    int64_t taps;       /* W: taps of the short convolution */
    int64_t rank;       /* R: the rank of a projection by two matrices */
    double eps;         /* of the normalisation; 0: the module's default */
    int64_t inner;      /* F: hidden width of lact's networks */
    /* lact: as in clattn_plan_desc. Each batch of mini_batch tokens in a call is read, then learned from. States are
     * those after complete batches, so a call that continues must begin with the tokens that were not learned from. The
     * module has muon KELLER. Rows of q and k are divided by |x| + 1e-5, as in the module. */
    int32_t mini_batch; /* 0: 2048 */
    clattn_muon muon;
    /* mamba2: limits of each token's step dt, as in clattn_plan_desc: the module's time_step_limit, 0 for no limit. They
     * apply to each call. The module in transformers applies them to prompts, but not to a single token after one. */
    double step_min;
    double step_max;
} clattn_layer_desc;

/* A tensor of a checkpoint in host memory, contiguous, of any alignment. */
typedef struct clattn_layer_tensor {
    const char *name;
    clattn_dtype dtype;
    int32_t rank;
    int64_t dims[4];
    const void *data; /* not read by clattn_layer_fit */
} clattn_layer_tensor;

/* Completes a desc: copies it to *full (may be desc), and sets sizes that are 0 from the shapes of the tensors. If
 * these leave a choice, the usual value is used: key_dim is value_dim, and mamba2's qk_heads is 1. INVALID_OPERAND: a
 * tensor is missing or its dims differ from the sizes; the log has its name and the numbers. INVALID_ARGUMENT,
 * INVALID_DESC. log may be NULL. */
CLATTN_INLINE clattn_status clattn_layer_fit(clattn_layer_desc *full, const clattn_layer_desc *desc,
                                             const clattn_layer_tensor *tensors, size_t count, clattn_log_fn log,
                                             void *log_user);

typedef enum clattn_layer_role {
    CLATTN_LAYER_WEIGHT = 0, /* a tensor of the checkpoint */
    CLATTN_LAYER_INPUT = 1,  /* an operand that a call reads */
    CLATTN_LAYER_OUTPUT = 2  /* an operand that a call writes */
} clattn_layer_role;

/* The properties of one tensor or operand of a layer. */
typedef struct clattn_layer_part {
    const char *name;
    clattn_layer_role role;
    int32_t rank;
    int64_t dims[4];        /* for x, y [batch, seq_len, hidden]; 0 if the desc does not determine it yet */
    const char *letters[4]; /* the same in the letters of clattn_layer_desc, with B batch and T seq_len: "QK+QK+HV" */
    clattn_dtype dtype;     /* of operands; weights may have any type */
    int32_t optional;       /* a weight that may be missing */
    int32_t whole;          /* i32, whatever dtype is: position, that of x's first token in each sequence */
} clattn_layer_part;

/* Part number `index` of the layer that desc describes, from 0: weights, then the operands that its flags ask for.
 * INVALID_ARGUMENT: there is no such part. */
CLATTN_INLINE clattn_status clattn_layer_part_describe(const clattn_layer_desc *desc, size_t index,
                                                       clattn_layer_part *part);

/* ---- Weights ------------------------------------------------------------------------------------------------ */

/* The size of the block with all weights in the form that the steps read: matrices in desc's dtype, everything else in
 * f32. It depends only on the desc's sizes and dtype, for lact also on batch. INVALID_ARGUMENT, INVALID_DESC;
 * clattn_layer_fit and clattn_layer_pack log the reason. */
CLATTN_INLINE clattn_status clattn_layer_packed_size(const clattn_layer_desc *desc, size_t *bytes);
/* Fills the block from a checkpoint. Tensors with other names are ignored. INVALID_ARGUMENT, INVALID_DESC,
 * INVALID_OPERAND. */
CLATTN_INLINE clattn_status clattn_layer_pack(const clattn_layer_desc *desc, const clattn_layer_tensor *tensors,
                                              size_t count, void *packed, clattn_log_fn log, void *log_user);

/* One weight's gradient from the block d_weights of a backward pass: `gradient` gets f32 numbers in the shape that
 * clattn_layer_part_describe says. INVALID_ARGUMENT: a pointer is NULL, or the layer has no such weight. INVALID_DESC. */
CLATTN_INLINE clattn_status clattn_layer_unpack(const clattn_layer_desc *desc, const void *d_weights, const char *name,
                                                float *gradient, clattn_log_fn log, void *log_user);

/* ---- Calls -------------------------------------------------------------------------------------------------- */

/* An operand by name: "weights", which is the packed block, and those that clattn_layer_part_describe lists.
 * Contiguous. */
typedef struct clattn_layer_operand {
    const char *name;
    cl_mem buffer; /* for clattn_layer_enqueue */
    void *host;    /* for clattn_layer_reference */
    size_t offset; /* bytes; a multiple of 16 */
} clattn_layer_operand;

typedef struct clattn_layer_call {
    const clattn_layer_operand *operands;
    size_t operand_count;
    int64_t seq_len;  /* the tokens of this call, up to the plan's; CLATTN_WHOLE: the plan's; 0: y is not written and
                       * states do not change */
    cl_mem workspace; /* for clattn_layer_enqueue: clattn_layer_workspace_size bytes */
    size_t workspace_offset; /* bytes, a multiple of 16 */
} clattn_layer_call;

/* Computes the layer on the host. Each step is in double precision; intermediate results have the desc's types.
 * INVALID_ARGUMENT, INVALID_DESC, INVALID_OPERAND, OUT_OF_MEMORY. */
CLATTN_INLINE clattn_status clattn_layer_reference(const clattn_layer_desc *desc, const clattn_layer_call *call,
                                                   clattn_log_fn log, void *log_user);

typedef struct clattn_layer_plan clattn_layer_plan;

/* Creates the plans of all steps, for desc's number of tokens and for one token. log gets messages about the layer, and
 * the context's own log those about its steps. Returns what clattn_plan_create and clattn_gemm_plan_create return. */
CLATTN_INLINE clattn_status clattn_layer_plan_create(clattn_layer_plan **plan, clattn_context *context,
                                                     const clattn_layer_desc *desc, clattn_log_fn log, void *log_user);
/* As clattn_plan_destroy. */
CLATTN_API void clattn_layer_plan_destroy(clattn_layer_plan *plan);
/* Bytes of workspace that a call needs at the plan's maxima. */
CLATTN_API clattn_status clattn_layer_workspace_size(const clattn_layer_plan *plan, size_t *bytes);
/* One or two lines for each step. Otherwise like clattn_plan_describe. */
CLATTN_API clattn_status clattn_layer_plan_text(const clattn_layer_plan *plan, char *text, size_t size);
/* Like clattn_enqueue: it does not allocate device memory or compile, and *event completes after all steps, which wait
 * for each other. On failure, earlier steps may have been enqueued. INVALID_ARGUMENT, INVALID_OPERAND,
 * INVALID_WORKSPACE, OUT_OF_MEMORY, DEVICE_ERROR. */
CLATTN_INLINE clattn_status clattn_layer_enqueue(clattn_layer_plan *plan, cl_command_queue queue,
                                                 const clattn_layer_call *call, uint32_t n_wait, const cl_event *wait,
                                                 cl_event *event);

/* ---- The sizes of structs: see clattn.h --------------------------------------------------------------------- */

CLATTN_API clattn_status clattn_layer_describe_sized(clattn_layer layer, clattn_layer_info *info, size_t info_size);
CLATTN_API clattn_status clattn_layer_fit_sized(clattn_layer_desc *full, const clattn_layer_desc *desc,
                                                size_t desc_size, const clattn_layer_tensor *tensors,
                                                size_t tensor_size, size_t count, clattn_log_fn log, void *log_user);
CLATTN_API clattn_status clattn_layer_part_describe_sized(const clattn_layer_desc *desc, size_t desc_size, size_t index,
                                                          clattn_layer_part *part, size_t part_size);
CLATTN_API clattn_status clattn_layer_packed_size_sized(const clattn_layer_desc *desc, size_t desc_size, size_t *bytes);
CLATTN_API clattn_status clattn_layer_pack_sized(const clattn_layer_desc *desc, size_t desc_size,
                                                 const clattn_layer_tensor *tensors, size_t tensor_size, size_t count,
                                                 void *packed, clattn_log_fn log, void *log_user);
CLATTN_API clattn_status clattn_layer_unpack_sized(const clattn_layer_desc *desc, size_t desc_size,
                                                   const void *d_weights, const char *name, float *gradient,
                                                   clattn_log_fn log, void *log_user);
CLATTN_API clattn_status clattn_layer_reference_sized(const clattn_layer_desc *desc, size_t desc_size,
                                                      const clattn_layer_call *call, size_t call_size,
                                                      size_t operand_size, clattn_log_fn log, void *log_user);
CLATTN_API clattn_status clattn_layer_plan_create_sized(clattn_layer_plan **plan, clattn_context *context,
                                                        const clattn_layer_desc *desc, size_t desc_size,
                                                        clattn_log_fn log, void *log_user);
CLATTN_API clattn_status clattn_layer_enqueue_sized(clattn_layer_plan *plan, cl_command_queue queue,
                                                    const clattn_layer_call *call, size_t call_size,
                                                    size_t operand_size, uint32_t n_wait, const cl_event *wait,
                                                    cl_event *event);

CLATTN_INLINE clattn_status clattn_layer_describe(clattn_layer layer, clattn_layer_info *info)
{
    return clattn_layer_describe_sized(layer, info, sizeof *info);
}

CLATTN_INLINE clattn_status clattn_layer_fit(clattn_layer_desc *full, const clattn_layer_desc *desc,
                                             const clattn_layer_tensor *tensors, size_t count, clattn_log_fn log,
                                             void *log_user)
{
    return clattn_layer_fit_sized(full, desc, sizeof *desc, tensors, sizeof *tensors, count, log, log_user);
}

CLATTN_INLINE clattn_status clattn_layer_part_describe(const clattn_layer_desc *desc, size_t index,
                                                       clattn_layer_part *part)
{
    return clattn_layer_part_describe_sized(desc, sizeof *desc, index, part, sizeof *part);
}

CLATTN_INLINE clattn_status clattn_layer_packed_size(const clattn_layer_desc *desc, size_t *bytes)
{
    return clattn_layer_packed_size_sized(desc, sizeof *desc, bytes);
}

CLATTN_INLINE clattn_status clattn_layer_pack(const clattn_layer_desc *desc, const clattn_layer_tensor *tensors,
                                              size_t count, void *packed, clattn_log_fn log, void *log_user)
{
    return clattn_layer_pack_sized(desc, sizeof *desc, tensors, sizeof *tensors, count, packed, log, log_user);
}

CLATTN_INLINE clattn_status clattn_layer_unpack(const clattn_layer_desc *desc, const void *d_weights, const char *name,
                                                float *gradient, clattn_log_fn log, void *log_user)
{
    return clattn_layer_unpack_sized(desc, sizeof *desc, d_weights, name, gradient, log, log_user);
}

CLATTN_INLINE clattn_status clattn_layer_reference(const clattn_layer_desc *desc, const clattn_layer_call *call,
                                                   clattn_log_fn log, void *log_user)
{
    return clattn_layer_reference_sized(desc, sizeof *desc, call, sizeof *call, sizeof(clattn_layer_operand), log,
                                        log_user);
}

CLATTN_INLINE clattn_status clattn_layer_plan_create(clattn_layer_plan **plan, clattn_context *context,
                                                     const clattn_layer_desc *desc, clattn_log_fn log, void *log_user)
{
    return clattn_layer_plan_create_sized(plan, context, desc, sizeof *desc, log, log_user);
}

CLATTN_INLINE clattn_status clattn_layer_enqueue(clattn_layer_plan *plan, cl_command_queue queue,
                                                 const clattn_layer_call *call, uint32_t n_wait, const cl_event *wait,
                                                 cl_event *event)
{
    return clattn_layer_enqueue_sized(plan, queue, call, sizeof *call, sizeof(clattn_layer_operand), n_wait, wait,
                                      event);
}

#ifdef __cplusplus
}
#endif

#endif
