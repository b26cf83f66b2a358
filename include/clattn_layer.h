/* clattn_layer: token mixers as whole modules, y = layer(x), made of clattn's rules and matrix products.
 *
 * The functions are in libclattn; programs that want only the rules do not need this header.
 *
 * A *layer* is a list of steps: projections, a short convolution, gates, a rule, a normalisation, a projection. Its
 * weights have the names and shapes that the module has in Hugging Face transformers, or else where it was published:
 * `clattn layer NAME` prints them. The weights are packed once, on the host, into a block of bytes that every plan of the same
 * desc reads. A plan serves every number of tokens up to its maximum, prompts and single tokens alike:
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
 * The conventions of clattn.h hold here, too. */
#ifndef CLATTN_LAYER_H
#define CLATTN_LAYER_H

#include <clattn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Layers ------------------------------------------------------------------------------------------------- */

/* X(NAME, value): the one list of layers. A new one comes last. A module may have the tensor names of one and compute
 * something else, which tensors do not tell: Falcon-Mamba has MAMBA's, and normalises B, C and dt without weights;
 * Falcon-H1 has MAMBA2's, and multiplies its projections by factors of its config. Their outputs would be wrong here.
 * `clattn layer` refuses them by model_type of the file's metadata or of config.json beside it. */
#define CLATTN_LAYERS(X)                                                                                               \
    X(MAMBA, 1)                                                                                                        \
    X(GATED_DELTANET, 2)                                                                                               \
    X(KDA, 3)                                                                                                          \
    X(MAMBA2, 4)                                                                                                       \
    X(GLA, 5)                                                                                                          \
    X(RETNET, 6)                                                                                                       \
    X(LACT, 7)

typedef enum clattn_layer {
    CLATTN_LAYER_NONE = 0,
#define CLATTN_LAYER_ENUM(NAME, value) CLATTN_LAYER_##NAME = value,
    CLATTN_LAYERS(CLATTN_LAYER_ENUM)
#undef CLATTN_LAYER_ENUM
} clattn_layer;

/* How a layer describes itself. Strings are static. */
typedef struct clattn_layer_info {
    clattn_layer layer;
    const char *name;    /* "mamba" */
    const char *module;  /* whose tensor names and shapes it has */
    const char *formula; /* one line */
    const char *paper;   /* the source of the method */
} clattn_layer_info;

/* INVALID_ARGUMENT for a layer that does not exist. */
CLATTN_INLINE clattn_status clattn_layer_describe(clattn_layer layer, clattn_layer_info *info);
/* The layer of that name, or CLATTN_LAYER_NONE. */
CLATTN_API clattn_layer clattn_layer_find(const char *name);

/* ---- Descriptions ------------------------------------------------------------------------------------------- */

enum {
    CLATTN_LAYER_INITIAL_STATE =
        1 << 0, /* the operands conv_state, state and position, those the layer has, are read: else zero. Of lact
                   state_w0, state_w1, state_w2: else the weights of the checkpoint */
    CLATTN_LAYER_FINAL_STATE = 1 << 1 /* final_conv_state and final_state, of lact final_w0, final_w1, final_w2, are
                                         written; they may be the same memory */
};

/* What a layer computes. Sizes of the module, those that it has, follow from its tensors (clattn_layer_fit). */
typedef struct clattn_layer_desc {
    clattn_layer layer; /* required */
    clattn_dtype dtype; /* of x, y, of what lies between, and of matrices; states are f32, positions i32 */
    uint32_t flags;     /* CLATTN_LAYER_INITIAL_STATE … */
    int64_t batch;      /* 0: 1; every call has that many */
    int64_t seq_len;    /* tokens, a maximum; required of plans */
    int64_t hidden;     /* C: width of x and y */
    int64_t heads;      /* H: of values */
    int64_t qk_heads;   /* Q: of queries and keys, divides heads; groups of mamba2 */
    int64_t key_dim;    /* K: also the state size of mamba and mamba2 */
    int64_t value_dim;  /* V; of mamba the inner width */
    int64_t taps;       /* W: of the short convolution */
    int64_t rank;       /* R: of a projection by two matrices */
    double eps;         /* of the normalisation; 0: the module's default */
    int64_t inner;      /* F: hidden width of lact's networks */
    /* lact: as clattn_plan_desc has them. Each batch of mini_batch tokens of a call is read, then learned from; states
     * are those after whole batches, so that a call which goes on begins with the tokens that were not learned from.
     * The module has muon KELLER. Rows of q and k are divided by |x| + 1e-5, as there. */
    int32_t mini_batch; /* 0: 2048 */
    clattn_muon muon;
} clattn_layer_desc;

/* A tensor of a checkpoint, in host memory of any alignment, contiguous. */
typedef struct clattn_layer_tensor {
    const char *name;
    clattn_dtype dtype;
    int32_t rank;
    int64_t dims[4];
    const void *data; /* clattn_layer_fit does not look at it */
} clattn_layer_tensor;

/* Fills *full (may be desc) with desc, and sizes that are 0 with what the tensors' shapes say, and where these leave a
 * choice with the usual one: key_dim is value_dim, and mamba2's qk_heads 1. A tensor that lacks or has other dims than the
 * sizes say: INVALID_OPERAND, with a line that names it and the numbers. INVALID_ARGUMENT, INVALID_DESC. log may be NULL. */
CLATTN_INLINE clattn_status clattn_layer_fit(clattn_layer_desc *full, const clattn_layer_desc *desc,
                                             const clattn_layer_tensor *tensors, size_t count, clattn_log_fn log,
                                             void *log_user);

typedef enum clattn_layer_role {
    CLATTN_LAYER_WEIGHT = 0, /* a tensor of the checkpoint */
    CLATTN_LAYER_INPUT = 1,  /* an operand of a call that is read */
    CLATTN_LAYER_OUTPUT = 2  /* one that is written */
} clattn_layer_role;

/* What one tensor or operand of a layer must look like. */
typedef struct clattn_layer_part {
    const char *name;
    clattn_layer_role role;
    int32_t rank;
    int64_t dims[4];        /* of x, y [batch, seq_len, hidden]; 0 where the desc does not say yet */
    const char *letters[4]; /* the same in the letters of clattn_layer_desc, B batch and T seq_len: "QK+QK+HV" */
    clattn_dtype dtype;     /* of operands; weights may have any */
    int32_t optional;       /* a weight that may lack */
    int32_t whole;          /* i32, whatever dtype says: position, of x's first token in each sequence */
} clattn_layer_part;

/* Part `index` of the layer that desc says, from 0 on: weights, then the operands that its flags ask for. INVALID_ARGUMENT past the last. */
CLATTN_INLINE clattn_status clattn_layer_part_describe(const clattn_layer_desc *desc, size_t index,
                                                       clattn_layer_part *part);

/* ---- Weights ------------------------------------------------------------------------------------------------ */

/* The block that holds all weights as the steps read them: matrices in desc's dtype and all else in f32. It depends on the desc's
 * sizes and dtype alone, of lact on batch, too. INVALID_ARGUMENT, INVALID_DESC. */
CLATTN_INLINE clattn_status clattn_layer_packed_size(const clattn_layer_desc *desc, size_t *bytes);
/* Fills it from a checkpoint; tensors of other names are passed over. INVALID_ARGUMENT, INVALID_DESC, INVALID_OPERAND. */
CLATTN_INLINE clattn_status clattn_layer_pack(const clattn_layer_desc *desc, const clattn_layer_tensor *tensors,
                                              size_t count, void *packed, clattn_log_fn log, void *log_user);

/* ---- Calls -------------------------------------------------------------------------------------------------- */

/* An operand by name: "weights", the packed block, and those that clattn_layer_part_describe lists. Contiguous. */
typedef struct clattn_layer_operand {
    const char *name;
    cl_mem buffer; /* for clattn_layer_enqueue */
    void *host;    /* for clattn_layer_reference */
    size_t offset; /* bytes; a multiple of 16 */
} clattn_layer_operand;

typedef struct clattn_layer_call {
    const clattn_layer_operand *operands;
    size_t operand_count;
    int64_t seq_len;  /* of this call, up to the plan's; CLATTN_WHOLE: the plan's; 0: y is not touched, states stay */
    cl_mem workspace; /* for clattn_layer_enqueue: clattn_layer_workspace_size bytes */
    size_t workspace_offset; /* bytes, a multiple of 16 */
} clattn_layer_call;

/* Computes the layer on the host, each step in double precision, what lies between in the desc's types.
 * INVALID_ARGUMENT, INVALID_DESC, INVALID_OPERAND, OUT_OF_MEMORY. */
CLATTN_INLINE clattn_status clattn_layer_reference(const clattn_layer_desc *desc, const clattn_layer_call *call,
                                                   clattn_log_fn log, void *log_user);

typedef struct clattn_layer_plan clattn_layer_plan;

/* Plans of all steps, for as many tokens as desc says and for one alone. log hears of the layer, the context's own log
 * of its steps. What clattn_plan_create and clattn_gemm_plan_create return. */
CLATTN_INLINE clattn_status clattn_layer_plan_create(clattn_layer_plan **plan, clattn_context *context,
                                                     const clattn_layer_desc *desc, clattn_log_fn log, void *log_user);
/* As clattn_plan_destroy. */
CLATTN_API void clattn_layer_plan_destroy(clattn_layer_plan *plan);
/* Bytes of workspace that a call needs at the plan's maxima. */
CLATTN_API clattn_status clattn_layer_workspace_size(const clattn_layer_plan *plan, size_t *bytes);
/* A line or two of every step. As clattn_plan_describe. */
CLATTN_API clattn_status clattn_layer_plan_text(const clattn_layer_plan *plan, char *text, size_t size);
/* As clattn_enqueue: nothing is allocated on the device or compiled, and *event covers all of the steps, which wait for
 * each other. When it fails, steps before the one that failed may have been enqueued. INVALID_ARGUMENT, INVALID_OPERAND,
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
