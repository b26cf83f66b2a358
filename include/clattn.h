/* clattn: linear attention for every OpenCL device.
 *
 * This header is the whole public interface and its manual; read it from top to bottom.
 *
 * A *rule* says how a recurrent state S, key_dim x value_dim per head, is updated and read:
 *
 *     S <- D S                decay
 *     S <- S - e (p^T S)      erase
 *     S <- S + k x^T          write
 *     o  = S^T (scale q)      read
 *
 * `clattn rules` prints every rule's recurrence, operands and paper. A *plan* is a rule made ready for one
 * device and one set of head sizes: it serves every batch and sequence length up to its maxima. Creating it does
 * everything slow or fallible; enqueueing it allocates and compiles nothing.
 *
 *     clattn_context *ctx;  clattn_plan *plan;  size_t bytes;
 *     clattn_context_create(&ctx, &(clattn_context_desc){.cl = context, .device = device});
 *     clattn_plan_create(&plan, ctx, &(clattn_plan_desc){.rule = CLATTN_GATED_DELTA_RULE, .dtype = CLATTN_BF16,
 *         .batch = 2, .seq_len = 4096, .heads = 32, .qk_heads = 16, .key_dim = 128, .value_dim = 128});
 *     clattn_plan_workspace_size(plan, &bytes);
 *     clattn_enqueue(plan, queue, &(clattn_operands){.q = {q}, .k = {k}, .v = {v}, .g = {g}, .beta = {beta},
 *         .o = {o}, .workspace = {workspace}, .seq_len = 1000}, 0, NULL, NULL);
 *
 * Conventions: a desc is zero-initialised and zero means the default; every function that can fail returns a
 * clattn_status; nothing prints, aborts or keeps process-wide state; destroy functions take NULL. Objects may be
 * used from several threads at once, except while they are destroyed. */
#ifndef CLATTN_H
#define CLATTN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(CLATTN_STATIC)
#define CLATTN_API
#elif defined(_WIN32) && defined(CLATTN_BUILD)
#define CLATTN_API __declspec(dllexport)
#elif defined(_WIN32)
#define CLATTN_API __declspec(dllimport)
#else
#define CLATTN_API __attribute__((visibility("default")))
#endif

#define CLATTN_VERSION_MAJOR 0
#define CLATTN_VERSION_MINOR 1
#define CLATTN_VERSION_PATCH 0

/* OpenCL's handles, declared as CL/cl.h declares them, so that a program without OpenCL headers can use clattn. */
typedef struct _cl_context *cl_context;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_event *cl_event;

/* The version as "major.minor.patch". */
CLATTN_API const char *clattn_version(void);

/* ---- Status ------------------------------------------------------------------------------------------------- */

/* X(name, text): the one list of statuses. */
#define CLATTN_STATUSES(X)                                                                                             \
    X(SUCCESS, "success")                                                                                              \
    X(INVALID_ARGUMENT, "an argument is NULL or out of its range")                                                     \
    X(INVALID_DESC, "the plan description contradicts itself or the rule")                                             \
    X(INVALID_OPERAND, "an operand is missing, unexpected, or does not fit the plan")                                  \
    X(INVALID_WORKSPACE, "the workspace is missing, too small or not aligned")                                         \
    X(UNSUPPORTED, "no kernel of this device or solver of this build takes the problem")                               \
    X(NO_OPENCL, "no OpenCL library on this machine")                                                                  \
    X(NO_DEVICE, "no usable OpenCL device")                                                                            \
    X(BUILD_FAILED, "the device's compiler refused a kernel")                                                          \
    X(OUT_OF_MEMORY, "out of host or device memory")                                                                   \
    X(DEVICE_ERROR, "an OpenCL call failed")

typedef enum clattn_status {
#define CLATTN_STATUS_ENUM(name, text) CLATTN_##name,
    CLATTN_STATUSES(CLATTN_STATUS_ENUM)
#undef CLATTN_STATUS_ENUM
} clattn_status;

/* A short English text for a status; never NULL. */
CLATTN_API const char *clattn_status_text(clattn_status status);

typedef enum clattn_log_level { CLATTN_LOG_ERROR, CLATTN_LOG_WARNING, CLATTN_LOG_INFO } clattn_log_level;

/* Receives one line without a newline. Errors name the operand or field that is wrong and the numbers that clash.
 * May be called from any thread that calls clattn. Callbacks run outside all locks: they may call clattn themselves. */
typedef void (*clattn_log_fn)(void *user, clattn_log_level level, const char *message);

/* ---- Rules -------------------------------------------------------------------------------------------------- */

typedef enum clattn_rule {
    CLATTN_RULE_NONE,
    CLATTN_LINEAR_ATTN,
    CLATTN_RETENTION,
    CLATTN_LIGHTNING_ATTN,
    CLATTN_SIMPLE_GLA, /* also Mamba-2 (SSD) and gated retention */
    CLATTN_GLA,        /* also HGRN2 */
    CLATTN_RWKV6,
    CLATTN_DELTA_RULE,
    CLATTN_GATED_DELTA_RULE,
    CLATTN_KDA,
    CLATTN_COMBA,
    CLATTN_GDN2,
    CLATTN_GATED_DELTA_PRODUCT,
    CLATTN_DPLR,
    CLATTN_IPLR,
    CLATTN_RWKV7,
    CLATTN_MLSTM,
    CLATTN_PRECOND_GATED_DELTA_RULE,
    CLATTN_RULE_COUNT
} clattn_rule;

/* How a rule describes itself: what `clattn rules` prints. Strings are static. */
typedef struct clattn_rule_info {
    clattn_rule rule;
    const char *name;       /* "gated_delta_rule" */
    const char *aliases;    /* space-separated, or "" */
    const char *recurrence; /* one line of formula */
    const char *paper;      /* the source of the method */
} clattn_rule_info;

/* INVALID_ARGUMENT for a rule that does not exist. */
CLATTN_API clattn_status clattn_rule_describe(clattn_rule rule, clattn_rule_info *info);
/* The rule of that name or alias, or CLATTN_RULE_NONE. */
CLATTN_API clattn_rule clattn_rule_find(const char *name);

/* ---- Problem ------------------------------------------------------------------------------------------------ */

typedef enum clattn_dtype { CLATTN_F32, CLATTN_F16, CLATTN_BF16 } clattn_dtype;

typedef enum clattn_mode {
    CLATTN_MODE_AUTO,
    CLATTN_MODE_RECURRENT, /* token by token */
    CLATTN_MODE_CHUNK      /* chunks of tokens, each worked as matrix products */
} clattn_mode;
/* A token's operands reach no earlier token's output, no other sequence or batch element, and no head but those
 * that read them, even where they are NaN, infinite, or overflow: all else has the same bits as without. One
 * exception: on a matrix engine chunk mode, which AUTO may choose, multiplies whole tiles, where 0 times NaN or
 * infinity is NaN. There such a token may make the outputs of earlier tokens of its own chunk NaN, and a later
 * token's gates and keys may decide how these are rounded; chunks before have the same bits. Chunks are counted
 * from the beginning of each sequence; clattn_plan_describe says how many tokens (of gated_delta_product writes)
 * one has, and which kernels are the engine's. */

/* Applied to q and k by linear_attn, after any l2 normalisation. */
typedef enum clattn_feature_map {
    CLATTN_FEATURE_IDENTITY,
    CLATTN_FEATURE_ELU1, /* elu(x) + 1 */
    CLATTN_FEATURE_RELU
} clattn_feature_map;

/* lightning_attn: the decay of each head. */
typedef enum clattn_slopes {
    CLATTN_SLOPES_LIGHTNING, /* e^(-(8/H)(1 - layer/layers) h) */
    CLATTN_SLOPES_MINIMAX    /* e^(-2^(-8(h+1)/H)(1 - layer/(layers - 1 + 1e-5) + 1e-5)): MiniMax-01, with scale 1 */
} clattn_slopes;

enum {
    CLATTN_QK_L2NORM = 1 << 0,       /* rows of q, k and p times rsqrt(sum x^2 + 1e-6) before use */
    CLATTN_NORMALIZE = 1 << 1,       /* linear_attn: o /= (scale q)^T z + 1e-10, z = sum of k so far */
    CLATTN_STATE_VK = 1 << 2,        /* states are stored [sequences, heads, value_dim, key_dim] */
    CLATTN_GATE_PER_HEAD = 1 << 3,   /* simple_gla: g is [heads], the same for every token */
    CLATTN_VALUE_GATE = 1 << 4,      /* gla: the operand gv decays the value dimension too */
    CLATTN_UNGATED = 1 << 5,         /* gated_delta_product: without g */
    CLATTN_INITIAL_STATE = 1 << 6,   /* states start from the initial_… operands, not from zero */
    CLATTN_FINAL_STATE = 1 << 7,     /* the final_… operands are written */
    CLATTN_CU_SEQLENS = 1 << 8,      /* batch is 1 and seq_len tokens are packed sequences, cut by cu_seqlens */
    CLATTN_CU_SEQLENS_INT64 = 1 << 9 /* with CLATTN_CU_SEQLENS: its elements are int64, not int32 */
};

/* What to compute. batch, seq_len and sequences are maxima for a plan. What published models want beside the defaults:
 * RWKV-6 scale 1, MiniMax-01 slopes CLATTN_SLOPES_MINIMAX and scale 1, xLSTM eps 1e-6. */
typedef struct clattn_plan_desc {
    clattn_rule rule;               /* required */
    clattn_dtype dtype;             /* storage of q, k, v, o and of the vectors p, a, b (dplr, iplr, rwkv7) */
    clattn_dtype gate_dtype;        /* storage of g, gv, beta, f, i, u, w and of gdn2's b; f32 by default */
    uint32_t flags;                 /* CLATTN_QK_L2NORM … */
    int64_t batch;                  /* 0: 1 */
    int64_t seq_len;                /* tokens; required */
    int64_t sequences;              /* with CLATTN_CU_SEQLENS: N, cu_seqlens has N + 1 entries; else 0 */
    int64_t heads;                  /* value heads H; required */
    int64_t qk_heads;               /* query/key heads, divides heads; head h reads h / (H / HQ); 0: heads */
    int64_t key_dim, value_dim;     /* 1 to 256; required */
    double scale;                   /* multiplies q; 0: 1/sqrt(key_dim), and 1 for rwkv7 */
    clattn_feature_map feature_map; /* linear_attn */
    int32_t steps;                  /* gated_delta_product: writes per token n, k, v, beta have n rows a token; 0: 1 */
    int32_t layer, layers;          /* lightning_attn: layer of layers, from 0; 0 layers: 1 */
    clattn_mode mode;
    int32_t chunk;        /* tokens per chunk: 8, 16, 32 or 64; 0: the device's best */
    double eps;           /* mlstm: o = S^T q / (max(|n^T q|, e^-m) + eps); 0 to 1e30 */
    clattn_slopes slopes; /* lightning_attn */
} clattn_plan_desc;

/* Fills *full with desc, every default made explicit, and checks it. INVALID_ARGUMENT, INVALID_DESC. log may be NULL. */
CLATTN_API clattn_status clattn_plan_desc_complete(clattn_plan_desc *full, const clattn_plan_desc *desc,
                                                   clattn_log_fn log, void *log_user);

/* ---- Operands ----------------------------------------------------------------------------------------------- */

/* Where a tensor lies. The last dimension is contiguous. Strides are in elements; all three zero means the
 * contiguous tensor of the operand's shape. */
typedef struct clattn_operand {
    cl_mem buffer; /* for clattn_enqueue */
    void *host;    /* for clattn_reference; never written for an input */
    size_t offset; /* of the first element, in bytes; a multiple of the element's size */
    size_t size;   /* bytes available from offset on, checked when not 0 (clattn_enqueue asks OpenCL instead) */
    int64_t batch_stride, token_stride, head_stride;
} clattn_operand;

/* X(name, shape): the one list of operands. B batch, T tokens, H value heads, HQ query/key heads, K key_dim, V value_dim,
 * N sequences (B without cu_seqlens), n steps. States are f32. For N-shaped operands batch_stride steps the sequence. */
#define CLATTN_OPERAND_LIST(X)                                                                                         \
    X(q, "[B,T,HQ,K]")                                                                                                 \
    X(k, "[B,T*n,HQ,K]")                                                                                               \
    X(v, "[B,T*n,H,V]")                                                                                                \
    X(o, "[B,T,H,V]")                                                                                                  \
    X(g, "[B,T,H] or [B,T,H,K]: log-decay, <= 0; -inf forgets. [H] with CLATTN_GATE_PER_HEAD")                         \
    X(gv, "[B,T,H,V]: log-decay of the value dimension")                                                               \
    X(beta, "[B,T*n,H]: write strength")                                                                               \
    X(p, "[B,T,HQ,K]: erase key")                                                                                      \
    X(a, "[B,T,H,K]: erase key")                                                                                       \
    X(b, "[B,T,H,K]: erase direction, or erase gate of gdn2")                                                          \
    X(w, "[B,T,H,K]: log-decay, or write gate [B,T,H,V] of gdn2")                                                      \
    X(u, "[H,K]: bonus of the current token")                                                                          \
    X(f, "[B,T,H]: log of the forget gate")                                                                            \
    X(i, "[B,T,H]: log of the input gate")                                                                             \
    X(initial_state, "[N,H,K,V], or [N,H,V,K] with CLATTN_STATE_VK")                                                   \
    X(final_state, "like initial_state; may be the same memory")                                                       \
    X(initial_normalizer, "[N,H,K]: z of linear_attn with normalize, n of mlstm")                                      \
    X(final_normalizer, "like initial_normalizer; may be the same memory")                                             \
    X(initial_stabilizer, "[N,H]: m of mlstm; its state and normalizer are stored times e^-m")                         \
    X(final_stabilizer, "like initial_stabilizer; may be the same memory")                                             \
    X(cu_seqlens, "[N+1]: 0, …, T: where the packed sequences begin and end")

typedef struct clattn_operands {
#define CLATTN_OPERAND_FIELD(name, shape) clattn_operand name;
    CLATTN_OPERAND_LIST(CLATTN_OPERAND_FIELD)
#undef CLATTN_OPERAND_FIELD
    clattn_operand
        workspace; /* clattn_plan_workspace_size bytes, its offset a multiple of 16; not used by clattn_reference */
    /* Of this call, up to the plan's. batch and sequences: 0 for the plan's. seq_len: CLATTN_WHOLE for the plan's; 0 tokens are none:
     * o is not touched, final states are the initial ones, and operands without elements may lack memory. */
    int64_t batch, seq_len, sequences;
} clattn_operands;

#define CLATTN_WHOLE (-1)

typedef enum clattn_operand_id {
#define CLATTN_OPERAND_ENUM(name, shape) CLATTN_OPERAND_##name,
    CLATTN_OPERAND_LIST(CLATTN_OPERAND_ENUM)
#undef CLATTN_OPERAND_ENUM
        CLATTN_OPERAND_COUNT
} clattn_operand_id;

/* What one operand of a problem must look like. rank is 0 for an operand that the problem does not use. */
typedef struct clattn_operand_info {
    const char *name;
    int rank;           /* number of dims */
    int64_t dims[4];    /* as in the list above */
    clattn_dtype dtype; /* not for cu_seqlens */
    int output;         /* written, not read */
} clattn_operand_info;

/* The operand as a desc (completed or not) needs it. INVALID_ARGUMENT, INVALID_DESC. */
CLATTN_API clattn_status clattn_operand_describe(const clattn_plan_desc *desc, clattn_operand_id id,
                                                 clattn_operand_info *info);

/* ---- The reference ------------------------------------------------------------------------------------------ */

/* Computes the problem on the host in double precision, token by token, on all cores: the oracle of clattn's tests and
 * the path for machines without OpenCL. operands use .host. log may be NULL.
 * INVALID_ARGUMENT, INVALID_DESC, INVALID_OPERAND (cu_seqlens is read and checked here), OUT_OF_MEMORY. */
CLATTN_API clattn_status clattn_reference(const clattn_plan_desc *desc, const clattn_operands *operands,
                                          clattn_log_fn log, void *log_user);

/* ---- Devices and contexts ----------------------------------------------------------------------------------- */

typedef struct clattn_device_info {
    cl_device_id device;
    char platform[64], name[128], driver[64], version[64]; /* UTF-8, cut to fit */
    int gpu;                                               /* 0: CPU or another device */
    uint32_t compute_units;
    uint64_t global_memory, local_memory, max_allocation; /* bytes */
    size_t max_work_group;
} clattn_device_info;

/* Fills up to capacity infos and sets *count to the number of devices of this machine, best first.
 * No OpenCL library: *count = 0 and NO_OPENCL. infos may be NULL with capacity 0. */
CLATTN_API clattn_status clattn_devices(clattn_device_info *infos, size_t capacity, size_t *count);

typedef struct clattn_context clattn_context;

/* An application's own store of compiled programs, in the place of clattn's files. key is a name of 32 hexadecimal
 * digits. load copies the blob into data if size is large enough, and returns its size, or 0 where there is none; a damaged
 * or outdated blob does no harm. Both may be called from any thread that calls clattn, as the log is. */
typedef size_t (*clattn_blob_load_fn)(void *user, const char *key, void *data, size_t size);
typedef void (*clattn_blob_store_fn)(void *user, const char *key, const void *data, size_t size);

/* Programs compiled for a device are kept on disk, and no process compiles again what another has compiled: in cache_dir,
 * else in the folder that the variable CLATTN_CACHE_DIR names, else in the user's ($XDG_CACHE_HOME/clattn or the platform's
 * equivalent). `clattn cache` lists and clears them. */
typedef struct clattn_context_desc {
    cl_context cl;       /* retained; NULL: a context of clattn's own */
    cl_device_id device; /* NULL: the context's only device, or the machine's best */
    clattn_log_fn log;   /* NULL: silent */
    void *log_user;
    const char *cache_dir;           /* NULL: as said above; "": nothing is kept on disk */
    uint64_t cache_limit;            /* bytes that the folder may take, the least recently used go first; 0: 256 MiB */
    clattn_blob_load_fn blob_load;   /* not NULL: called instead of reading files */
    clattn_blob_store_fn blob_store; /* not NULL: called instead of writing files */
    void *blob_user;
    /* The matrix engine, by name: "none", or one that `clattn devices` shows; the *_emulated ones run on any device, slowly,
     * to check the kernels of devices that are not at hand. NULL: CLATTN_ENGINE of the environment, or the device's own. */
    const char *engine;
} clattn_context_desc;

/* desc may be NULL. INVALID_ARGUMENT, NO_OPENCL, NO_DEVICE, OUT_OF_MEMORY, DEVICE_ERROR.
 * The caller owns *context, which outlives no cl_context (it retains one) but must outlive its plans. */
CLATTN_API clattn_status clattn_context_create(clattn_context **context, const clattn_context_desc *desc);
CLATTN_API void clattn_context_destroy(clattn_context *context);
/* Measured parameters of the application's own, a text as `clattn tune --export` writes it: they come before those of the
 * user's file (which `clattn tune` writes, and the variable CLATTN_TUNING names instead) and those compiled into the library.
 * Entries for other devices are passed over. Not while another thread creates a plan of the context. INVALID_ARGUMENT. */
CLATTN_API clattn_status clattn_context_set_tuning(clattn_context *context, const char *json);
/* What the context uses; either pointer may be NULL. The handles stay the context's. */
CLATTN_API clattn_status clattn_context_get(const clattn_context *context, cl_context *cl, cl_device_id *device);

/* ---- Plans -------------------------------------------------------------------------------------------------- */

typedef struct clattn_plan clattn_plan;

/* Chooses a solver and tiles, compiles what neither an earlier plan of the context nor the cache has compiled. Kernels that
 * this device and driver have not run before are tried on two short sequences against the reference, and others are taken
 * when they fail; the variable CLATTN_SELF_TEST=0 turns that off.
 * INVALID_ARGUMENT, INVALID_DESC, UNSUPPORTED, BUILD_FAILED, OUT_OF_MEMORY, DEVICE_ERROR. */
CLATTN_API clattn_status clattn_plan_create(clattn_plan **plan, clattn_context *context, const clattn_plan_desc *desc);
/* Enqueued work keeps what it needs: a plan may be destroyed as soon as clattn_enqueue has returned. */
CLATTN_API void clattn_plan_destroy(clattn_plan *plan);

/* Bytes that .workspace must have for the plan's maxima; may be 0. */
CLATTN_API clattn_status clattn_plan_workspace_size(const clattn_plan *plan, size_t *bytes);

/* What a plan has come to. Strings live as long as the plan. */
typedef struct clattn_plan_info {
    clattn_plan_desc desc;    /* completed */
    const char *solver;       /* "recurrent", "chunk_scan", "matrix_scan" */
    const char *tiles_by;     /* "rule of thumb", "the shipped table", a file's path … */
    const char *engine;       /* the matrix engine it runs on; NULL: none */
    clattn_mode mode;         /* RECURRENT or CHUNK */
    int32_t chunk;            /* tokens; 1 for RECURRENT */
    int32_t launches;         /* of kernels, a call */
    int32_t rejected;         /* choices that gave wrong results in the self-test before this one was taken */
    uint64_t workspace_bytes; /* as clattn_plan_workspace_size says */
    uint64_t saved_bytes;     /* kept for a plan of the backward pass; 0 */
} clattn_plan_info;

/* INVALID_ARGUMENT. */
CLATTN_API clattn_status clattn_plan_get(const clattn_plan *plan, clattn_plan_info *info);

/* A few lines of text: problem, solver, tiles, launches, workspace. Writes at most size bytes with the final NUL;
 * text that does not fit is cut. */
CLATTN_API clattn_status clattn_plan_describe(const clattn_plan *plan, char *text, size_t size);

/* Enqueues the plan on a queue of its context: waits for n_wait events, and *event (may be NULL; the caller releases
 * it) covers all of the work. In-order and out-of-order queues; calls from several threads, each with its own workspace
 * and outputs, are safe. cu_seqlens is read on the device, where entries are clamped to 0 … seq_len.
 * INVALID_ARGUMENT, INVALID_OPERAND, INVALID_WORKSPACE, OUT_OF_MEMORY, DEVICE_ERROR. */
CLATTN_API clattn_status clattn_enqueue(clattn_plan *plan, cl_command_queue queue, const clattn_operands *operands,
                                        uint32_t n_wait, const cl_event *wait, cl_event *event);

#ifdef __cplusplus
}
#endif

#endif
