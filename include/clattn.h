/* clattn: linear attention, and softmax attention with its relatives, for every OpenCL device.
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
 * In some rules the state is a list of all keys and values so far, and the read is a softmax over that list:
 *
 *     b_j <- b_j + g          decay of every earlier key j
 *     o  = sum_j p_j v_j      p_j = e^(scale q.k_j + b_j) / sum of these over the keys that are seen
 *
 * path_attn also erases from every earlier key before the read, k_j <- k_j - e (p^T k_j). deltaformer writes
 * u = v - beta sum_j p_j u_j, over the earlier keys, in place of v.
 *
 * `clattn rules` prints every rule's recurrence, operands and paper. A *plan* is a rule prepared for one device and one
 * set of head sizes. It works for every batch and sequence length up to its maxima. Creating a plan does everything that
 * is slow or may fail; enqueueing it does not allocate memory or compile kernels.
 *
 *     clattn_context *ctx;  clattn_plan *plan;  size_t bytes;
 *     clattn_context_create(&ctx, &(clattn_context_desc){.cl = context, .device = device});
 *     clattn_plan_create(&plan, ctx, &(clattn_plan_desc){.rule = CLATTN_GATED_DELTA_RULE, .dtype = CLATTN_BF16,
 *         .batch = 2, .seq_len = 4096, .heads = 32, .qk_heads = 16, .key_dim = 128, .value_dim = 128});
 *     clattn_plan_workspace_size(plan, &bytes);
 *     clattn_operand operands[] = {
 *         {CLATTN_Q, .buffer = q}, {CLATTN_K, .buffer = k},       {CLATTN_V, .buffer = v},
 *         {CLATTN_G, .buffer = g}, {CLATTN_BETA, .buffer = beta}, {CLATTN_O, .buffer = o}};
 *     clattn_enqueue(plan, queue, &(clattn_call){.operands = operands, .operand_count = 6, .seq_len = 1000,
 *         .workspace = workspace}, 0, NULL, NULL);
 *
 * Decoding needs a second plan, with seq_len 1 and the flags CLATTN_INITIAL_STATE and CLATTN_FINAL_STATE. The state may
 * stay in one buffer, which the prompt's plan writes and each step reads and writes:
 *
 *     clattn_enqueue(prompt_plan, queue, &prompt_call, 0, NULL, NULL);
 *     for (int token = 0; token < count; token++)
 *         clattn_enqueue(step_plan, queue, &step_call, 0, NULL, NULL);
 *
 * Conventions: a desc is zero-initialised, and zero means the default. Every function that can fail returns a
 * clattn_status. No function prints, aborts or keeps process-wide state. Destroy functions accept NULL. Functions whose
 * comment does not mention threads may be called from any number of threads at once. Offsets and sizes are in bytes,
 * strides in elements.
 *
 * After fork(), a child must not use or destroy contexts and plans of its parent, because OpenCL drivers do not support
 * that; it may create its own if the parent had not used OpenCL before. */
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
#define CLATTN_VERSION_MINOR 3
#define CLATTN_VERSION_PATCH 0
#define CLATTN_VERSION (CLATTN_VERSION_MAJOR * 10000 + CLATTN_VERSION_MINOR * 100 + CLATTN_VERSION_PATCH)

/* Structs only grow at their end, and enum values never change. The functions marked CLATTN_INLINE are defined at the
 * end of this header: they tell the library how large the program's structs are. A program therefore works with every
 * later library of the same soname. An older library refuses fields that it does not know unless they are zero. */
#define CLATTN_INLINE static inline

/* OpenCL's handles, declared as in CL/cl.h, so that a program without OpenCL headers can use clattn. */
typedef struct _cl_context *cl_context;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_event *cl_event;

/* The version of the library at run time, as "major.minor.patch", and as a number like CLATTN_VERSION. */
CLATTN_API const char *clattn_version(void);
CLATTN_API int clattn_version_number(void);

/* ---- Status ------------------------------------------------------------------------------------------------- */

/* X(name, value, text): the one list of statuses. */
#define CLATTN_STATUSES(X)                                                                                             \
    X(SUCCESS, 0, "success")                                                                                           \
    X(INVALID_ARGUMENT, 1, "an argument is NULL or out of its range")                                                  \
    X(INVALID_DESC, 2, "the plan description contradicts itself or the rule")                                          \
    X(INVALID_OPERAND, 3, "an operand is missing, unexpected, or does not fit the plan")                               \
    X(INVALID_WORKSPACE, 4, "the workspace is missing, too small or not aligned")                                      \
    X(UNSUPPORTED, 5, "no kernel of this device or solver of this build takes the problem")                            \
    X(NO_OPENCL, 6, "no OpenCL library on this machine")                                                               \
    X(NO_DEVICE, 7, "no usable OpenCL device")                                                                         \
    X(BUILD_FAILED, 8, "the device's compiler refused a kernel")                                                       \
    X(OUT_OF_MEMORY, 9, "out of host or device memory")                                                                \
    X(DEVICE_ERROR, 10, "an OpenCL call failed")

typedef enum clattn_status {
#define CLATTN_STATUS_ENUM(name, value, text) CLATTN_##name = value,
    CLATTN_STATUSES(CLATTN_STATUS_ENUM)
#undef CLATTN_STATUS_ENUM
} clattn_status;

/* A short English text for a status. Never NULL. */
CLATTN_API const char *clattn_status_text(clattn_status status);

typedef enum clattn_log_level { CLATTN_LOG_ERROR = 0, CLATTN_LOG_WARNING = 1, CLATTN_LOG_INFO = 2 } clattn_log_level;

/* Receives one line without a newline. Errors name the wrong operand or field and the numbers that conflict. It may be
 * called from any thread that calls clattn. Callbacks run outside all locks: they may call clattn themselves. */
typedef void (*clattn_log_fn)(void *user, clattn_log_level level, const char *message);

/* ---- Rules -------------------------------------------------------------------------------------------------- */

/* X(NAME, value): the list of all rules. New rules are added at its end. */
#define CLATTN_RULES(X)                                                                                                \
    X(LINEAR_ATTN, 1)                                                                                                  \
    X(RETENTION, 2)                                                                                                    \
    X(LIGHTNING_ATTN, 3)                                                                                               \
    X(SIMPLE_GLA, 4) /* also Mamba-2 (SSD) and gated retention */                                                      \
    X(GLA, 5)        /* also HGRN2 */                                                                                  \
    X(RWKV6, 6)                                                                                                        \
    X(DELTA_RULE, 7)                                                                                                   \
    X(GATED_DELTA_RULE, 8)                                                                                             \
    X(KDA, 9)                                                                                                          \
    X(COMBA, 10)                                                                                                       \
    X(GDN2, 11)                                                                                                        \
    X(GATED_DELTA_PRODUCT, 12)                                                                                         \
    X(DPLR, 13)                                                                                                        \
    X(IPLR, 14)                                                                                                        \
    X(RWKV7, 15)                                                                                                       \
    X(MLSTM, 16)                                                                                                       \
    X(PRECOND_GATED_DELTA_RULE, 17)                                                                                    \
    X(SOFTMAX_ATTN, 18)                                                                                                \
    X(ALIBI_ATTN, 19)                                                                                                  \
    X(FORGETTING_ATTN, 20)                                                                                             \
    X(PATH_ATTN, 21) /* also PaTH-FoX, with its gate */                                                                \
    X(DELTAFORMER, 22)                                                                                                 \
    X(HGRN, 23)                                                                                                        \
    X(LRU, 24)                                                                                                         \
    X(MAMBA, 25) /* also selective_scan, and S4D with CLATTN_COMPLEX */                                                \
    X(FULL_GATE, 26)                                                                                                   \
    X(SHORT_CONV, 27) /* a piece, an operation that models have around rules; so are the next four */                  \
    X(RMS_NORM, 28)                                                                                                    \
    X(GATES, 29)                                                                                                       \
    X(ROPE, 30)                                                                                                        \
    X(FEATURES, 31)                                                                                                    \
    X(SSD, 32)                                                                                                         \
    X(LACT, 33) /* a learner: its state is the weights of a network, which are trained by large batches of tokens */   \
    X(LOG_LINEAR_ATTN, 34)                                                                                             \
    X(LOG_LINEAR_GATED_DELTA_RULE, 35)                                                                                 \
    X(TTT_LINEAR, 36) /* learners that batches of a few tokens train; so are the next three */                         \
    X(TTT_MLP, 37)                                                                                                     \
    X(TITANS, 38) /* also Atlas, with omega and muon */                                                                \
    X(TITANS_MLP, 39)                                                                                                  \
    X(MESA_NET, 40) /* the query is solved for: a ridge regression of all values before on their keys */

/* Differences from the original implementations:
 * DELTAFORMER      Without CLATTN_WITH_P, p is k, as in the paper. flash-linear-attention's code writes u by
 *                  softmax(q.k): for that, pass p = q.
 * PATH_ATTN        The gate is scaled, as in flash-linear-attention: scale (q.k + b).
 * FORGETTING_ATTN  The gate is not scaled: scale q.k + b.
 * FEATURES         FAVOR subtracts no maximum from the exponents of keys. From those of queries it subtracts
 *                  their row's maximum, with CLATTN_OF_QUERIES. eps is added after the exponential.
 *                  Performer's authors also subtract the maximum over all keys.
 * LACT             CLATTN_MUON_NONE adds a step unchanged. The authors' muon_update_steps = 0 divides it by
 *                  its norm.
 * TTT_LINEAR, TTT_MLP
 *                  o is q + LN(z), as in the authors' code. flash-linear-attention has z + LN(z), with scale
 *                  1/sqrt(K): readout and scale.
 * TITANS           theta multiplies the gradient of |z - v|^2 / 2. The paper's loss is |z - v|^2: pass twice its
 *                  theta. flash-linear-attention's gradient of LN has a bracket elsewhere, which is not followed.
 * MAMBA            A head has up to 1024 channels. For more, pass several heads with qk_heads 1.
 *                  Falcon-Mamba normalises B, C and dt: use rms_norm before this rule.
 *                  S4D is a zero-order hold: with its input matrix B, k = B (e^(dt a) - 1) / (a dt), where a
 *                  and k are complex.
 * MESA_NET         Solved in each token, or cg_steps steps. flash-linear-attention takes 30 steps, and adds 1e-5 to the
 *                  denominators of each, which ends at a relative error of 2e-4 to 1e-2.
 * HGRN, LRU, MAMBA, FULL_GATE, and state_window in any rule: CLATTN_MODE_CHUNK is UNSUPPORTED, AUTO works. */
typedef enum clattn_rule {
    CLATTN_RULE_NONE = 0,
#define CLATTN_RULE_ENUM(NAME, value) CLATTN_##NAME = value,
    CLATTN_RULES(CLATTN_RULE_ENUM)
#undef CLATTN_RULE_ENUM
} clattn_rule;

/* A rule's description, as `clattn rules` prints it. Strings are static. */
typedef struct clattn_rule_info {
    clattn_rule rule;
    const char *name;       /* "gated_delta_rule" */
    const char *aliases;    /* space-separated, or "" */
    const char *recurrence; /* one line of formula */
    const char *paper;      /* the source of the method */
} clattn_rule_info;

/* INVALID_ARGUMENT: there is no such rule. */
CLATTN_INLINE clattn_status clattn_rule_describe(clattn_rule rule, clattn_rule_info *info);
/* The rule with that name or alias, or CLATTN_RULE_NONE. */
CLATTN_API clattn_rule clattn_rule_find(const char *name);

/* ---- Problem ------------------------------------------------------------------------------------------------ */

typedef enum clattn_dtype { CLATTN_F32 = 0, CLATTN_F16 = 1, CLATTN_BF16 = 2 } clattn_dtype;

typedef enum clattn_mode {
    CLATTN_MODE_AUTO = 0,
    CLATTN_MODE_RECURRENT = 1, /* token by token; UNSUPPORTED for rules of a list, where CHUNK also takes single tokens,
                                * and for learners */
    CLATTN_MODE_CHUNK = 2      /* chunks of tokens, computed as matrix products; UNSUPPORTED for hgrn, lru, mamba and
                                * full_gate, where each element of the state has its own decay, and for pieces */
} clattn_mode;
/* Reproducibility. A call that is repeated on the same plan gives the same bits. On CPUs, and in clattn_reference, so do
 * a sequence alone and in a batch or packed, rules of a state in f32. On other devices the number of sequences decides
 * how sums are divided, so that these agree up to rounding, as do a sequence at once and in several calls, other tiles,
 * other solvers, other devices and other versions. Measured tiles depend on the user's files: see CLATTN_ISOLATED.
 * For packed sequences of a list, see below.
 *
 * What NaN and infinity reach. A token's operands do not affect the outputs of earlier tokens (except with
 * CLATTN_REVERSED and CLATTN_NONCAUSAL), other sequences or batch elements, or heads that do not read them. This holds
 * even if they are NaN, are infinite, or overflow: everything else has the same bits as without them.
 *
 * The exception is chunk mode on a matrix engine, including engines that multiply f32; AUTO may choose that mode.
 * There, whole tiles are multiplied, and 0 times NaN or infinity is NaN. Such a token may turn the outputs of earlier
 * tokens of its own chunk into NaN. The gates and keys of a later token may also change how these are rounded. Earlier
 * chunks have the same bits. For a list, this is so if the chunk is a multiple of 16 (of 64 if the kernel flash_team
 * reads); otherwise the token may also turn up to 15 (63) tokens before it in the previous chunk into NaN. Chunks are
 * counted from the beginning of each sequence. clattn_plan_describe gives their length in tokens (for
 * gated_delta_product in writes), and says which kernels use the engine.
 *
 * In a list with a window, on any device, values that are not finite may also reach later tokens, whose windows they
 * have just left.
 *
 * Reproducibility of packed sequences. Packed sequences of a list have the same bits as each sequence alone, whatever
 * their lengths, in the solvers flash, flash_matrix, flash_team, path, path_matrix, path_team, delta, delta_matrix and
 * delta_team with tiles by rule of thumb. They agree up to rounding in the other solvers (decode, path_decode,
 * flash_blocks, flash_matrix_blocks), whose parts and tiles depend on a plan's lengths; with measured tiles; and if the
 * two plans use different solvers. */

/* Applied to q and k by linear_attn, after the l2 normalisation if there is one. */
typedef enum clattn_feature_map {
    CLATTN_FEATURE_IDENTITY = 0,
    CLATTN_FEATURE_ELU1 = 1, /* elu(x) + 1 */
    CLATTN_FEATURE_RELU = 2
} clattn_feature_map;

/* lightning_attn: the decay of each head. */
typedef enum clattn_slopes {
    CLATTN_SLOPES_LIGHTNING = 0, /* e^(-(8/H)(1 - layer/layers) h) */
    CLATTN_SLOPES_MINIMAX = 1 /* MiniMax-01, with scale 1: e^(-2^(-8(h+1)/H)(1 - layer/(layers - 1 + 1e-5) + 1e-5)) */
} clattn_slopes;

/* short_conv: the function that is applied to its sum. */
typedef enum clattn_activation {
    CLATTN_ACTIVATION_SILU = 0, /* x / (1 + e^-x) */
    CLATTN_ACTIVATION_NONE = 1
} clattn_activation;

/* rms_norm: the shape of the weights. */
typedef enum clattn_weighting {
    CLATTN_WEIGHTING_SHARED = 0, /* w is [V], the same for all heads */
    CLATTN_WEIGHTING_HEADS = 1,  /* w is [H,V] */
    CLATTN_WEIGHTING_NONE = 2    /* there is no w */
} clattn_weighting;

/* rms_norm, or CLATTN_NORM_OUTPUT, with CLATTN_WITH_Z: where z is applied. A rule's v is here what it would write to o. */
typedef enum clattn_gating {
    CLATTN_GATING_AFTER = 0,  /* o o silu(z), the last operation */
    CLATTN_GATING_BEFORE = 1, /* v o silu(z) is the input of the norm: Mamba-2's norm_before_gate = False */
    CLATTN_GATING_SIGMOID = 2 /* o o sigmoid(z), the last operation: KDA */
} clattn_gating;

/* features: a function of y = omega v, m numbers. omega is random or learned. */
typedef enum clattn_features {
    CLATTN_FEATURES_FAVOR = 0,   /* m^(-1/2) (e^(y - |x|^2/2) + eps), with x = V^(-1/4) v in place of v: Performer */
    CLATTN_FEATURES_RFA = 1,     /* m^(-1/2) [sin y, cos y] for v rsqrt(sum v^2 + 1e-6): Peng et al.,
                                  * arXiv:2103.02143 */
    CLATTN_FEATURES_HEDGEHOG = 2 /* [softmax y, softmax -y]: Zhang et al. 2024, arXiv:2402.04347 */
} clattn_features;

/* lact: how a step D is changed before it is added. Except for NONE, this is five Newton-Schulz steps, which bring all
 * singular values close to 1 (Jordan et al. 2024, Muon):
 *     X = D / (|D| + 1e-7), or its transpose if that has fewer rows;  X <- a X + (b A + c A^2) X, A = X X^T
 * D should have full rank, from at least as many tokens as it has rows or columns. In directions that it lacks there is
 * only rounding noise, which grows up to 490 times. */
typedef enum clattn_muon {
    CLATTN_MUON_NONE = 0,  /* D itself */
    CLATTN_MUON_FIVE = 1,  /* different a, b, c in each step, from LaCT's authors: singular values 0.98 to 1.03 */
    CLATTN_MUON_KELLER = 2 /* (3.4445, -4.7750, 2.0315) in every step: 0.68 to 1.13 */
} clattn_muon;

/* ttt_linear, ttt_mlp, titans, titans_mlp: the loss of a token, for z = f(W; k). LN(z) = ln_weight o (z - mean) /
 * sqrt(variance + 1e-6) + ln_bias. */
typedef enum clattn_loss {
    CLATTN_LOSS_RULE = 0, /* the rule's own: LN, but L2 for titans and titans_mlp */
    CLATTN_LOSS_LN = 1,   /* |LN(z) - (v - k)|^2 / 2, with V = K */
    CLATTN_LOSS_L2 = 2,   /* |z - v|^2 / 2 */
    CLATTN_LOSS_DOT = 3   /* -z.v */
} clattn_loss;

/* The same rules: o, for z = f(W; scale q). */
typedef enum clattn_readout {
    CLATTN_READOUT_RULE = 0, /* the rule's own: Q, but NONE for titans and titans_mlp */
    CLATTN_READOUT_NONE = 1, /* z */
    CLATTN_READOUT_Z = 2,    /* z + LN(z) */
    CLATTN_READOUT_Q = 3     /* scale q + LN(z), with V = K */
} clattn_readout;

/* Rules of a list: the weight of a score x = scale q.k. Only softmax has a denominator: the others have no gate, sink
 * or lse. */
typedef enum clattn_weights {
    CLATTN_WEIGHTS_SOFTMAX = 0,
    CLATTN_WEIGHTS_LINEAR = 1, /* x */
    CLATTN_WEIGHTS_RELU = 2,   /* max(x, 0) */
    CLATTN_WEIGHTS_ROUND = 3,  /* floor(x + 1/2) */
    CLATTN_WEIGHTS_FLOOR = 4   /* floor(x) */
} clattn_weights;

/* What the operand of a rule's log-decay contains. Kernels apply the map, so that a model's projections can be passed
 * directly. x is the number plus dt_bias, and r = e^a_log of its head; without CLATTN_WITH_DT_BIAS and
 * CLATTN_WITH_A_LOG they are the number and 1. The maps are for rules with a decay of a head or a key channel for each
 * token; gv is always a log-decay. The piece gates applies the same maps to v, times scale. There, 0 means SOFTPLUS,
 * which with scale -1 gives Mamba's steps dt; SIGMOID gives beta, and gate_scale may be any number. */
typedef enum clattn_gate_map {
    CLATTN_GATE_MAP_LOG = 0,      /* the log-decay */
    CLATTN_GATE_MAP_SOFTPLUS = 1, /* the log-decay is -r log(1 + e^x): Mamba-2, Gated DeltaNet (arXiv:2412.06464), Kimi
                                   * Linear */
    CLATTN_GATE_MAP_SIGMOID = 2,  /* gate_scale / (1 + e^(-r x)): Kimi Linear (arXiv:2510.26692) with a lower bound */
    CLATTN_GATE_MAP_LOGSIGMOID = 3, /* -gate_scale log(1 + e^-x): forget gates; GLA (arXiv:2312.06635) with 1/16 */
    CLATTN_GATE_MAP_EXP = 4         /* -e^x: RWKV-6 (arXiv:2404.05892) */
} clattn_gate_map;

/* What beta contains, in rules of a state where it is a strength */
typedef enum clattn_beta_map {
    CLATTN_BETA_STRENGTH = 0,
    CLATTN_BETA_SIGMOID = 1,       /* 1 / (1 + e^-beta) */
    CLATTN_BETA_TWICE_SIGMOID = 2, /* twice that, which allows negative eigenvalues: Grazzi et al. 2024,
                                    * arXiv:2411.12537 */
    CLATTN_BETA_SOFTPLUS = 3       /* ssd: log(1 + e^beta), after adding dt_bias if that is given: Mamba-2's step dt */
} clattn_beta_map;

/* The flags of a plan desc, 64 bits. They are macros because an enumerator in C11 is an int. */
#define CLATTN_FLAG(bit) (UINT64_C(1) << (bit))
/* Rows of q, k and p are multiplied by rsqrt(sum x^2 + 1e-6) before use. */
#define CLATTN_QK_L2NORM CLATTN_FLAG(0)
#define CLATTN_NORMALIZE CLATTN_FLAG(1)     /* linear_attn: o /= (scale q)^T z + 1e-10, z = sum of k so far */
#define CLATTN_STATE_VK CLATTN_FLAG(2)      /* states are stored [sequences, heads, value_dim, key_dim] */
#define CLATTN_GATE_PER_HEAD CLATTN_FLAG(3) /* simple_gla, gla: g is [H] or [H,K], the same for every token */
#define CLATTN_VALUE_GATE CLATTN_FLAG(4)    /* gla: the operand gv decays the value dimension as well */
#define CLATTN_UNGATED CLATTN_FLAG(5)       /* gated_delta_product, path_attn: there is no g */
#define CLATTN_INITIAL_STATE CLATTN_FLAG(6) /* states start from the initial_… operands, not from zero */
#define CLATTN_FINAL_STATE CLATTN_FLAG(7)   /* the final_… operands are written */
/* batch is 1, and the seq_len tokens are several sequences, divided by cu_seqlens. */
#define CLATTN_CU_SEQLENS CLATTN_FLAG(8)
#define CLATTN_CU_SEQLENS_INT64 CLATTN_FLAG(9) /* with CLATTN_CU_SEQLENS: its elements are int64, not int32 */
#define CLATTN_WITH_SINK CLATTN_FLAG(10)       /* rules of a list: the operand sink is read */
#define CLATTN_WITH_LSE CLATTN_FLAG(11)        /* rules of a list: the operand lse is written */
/* softmax_attn, alibi_attn, forgetting_attn, with kv_len: the operand kv_lens is read. */
#define CLATTN_WITH_KV_LENS CLATTN_FLAG(12)
/* Rules of a list with kv_len: keys are divided by cu_seqlens_kv, not by cu_seqlens. */
#define CLATTN_CU_SEQLENS_KV CLATTN_FLAG(13)
#define CLATTN_WITH_P CLATTN_FLAG(14)       /* deltaformer: the operand p is read; without it, p is k as in the paper */
#define CLATTN_WITH_BETA CLATTN_FLAG(15)    /* deltaformer: the operand beta is read; without it, beta is 1 */
#define CLATTN_WITH_WRITTEN CLATTN_FLAG(16) /* deltaformer: the operand written is written */
/* softmax_attn, alibi_attn, forgetting_attn, with kv_len: k_new and v_new are first copied into k and v, at the
 * positions of their queries. Tokens before the first key are not copied. */
#define CLATTN_APPEND CLATTN_FLAG(17)
/* Rules of a state: each sequence is processed from its last token to its first, as if its operands were stored in
 * reverse order (for gated_delta_product: the order of writes). Not with attn. */
#define CLATTN_REVERSED CLATTN_FLAG(18)
/* linear_attn: all tokens of a sequence read the state after its last one, so that each sees all others (encoders).
 * INVALID_DESC with attn, intermediate states or state_indices; UNSUPPORTED on devices with 16-bit states.
 * lact: all tokens are learned from at once, then all are read.
 * softmax_attn, alibi_attn: each query sees all keys of its sequence, before and after its own position (encoders); with
 * kv_len, those of another sequence of any length (cross attention). With a window, it sees the keys that are fewer than
 * `window` positions away. alibi_attn's bias is the slope times -|i - j|, as ALiBi's authors propose for encoders
 * (github.com/ofirpress/attention_with_linear_biases, issue 5) and as FlashAttention computes it: query t is at position
 * t + kv_len - seq_len there, too. kv_lens, cu_seqlens and cu_seqlens_kv say how many keys a sequence has. */
#define CLATTN_NONCAUSAL CLATTN_FLAG(19)
#define CLATTN_SOFTPLUS CLATTN_FLAG(20)     /* mamba: dt is replaced by log(1 + e^dt), after adding dt_bias */
#define CLATTN_WITH_DT_BIAS CLATTN_FLAG(21) /* mamba: dt_bias is added to dt; with a gate_map: to the gate */
#define CLATTN_WITH_D CLATTN_FLAG(22)       /* mamba: o += d o v; rms_norm: the input of the norm is v + d o u */
/* mamba: o = o o silu(z), the last operation; rms_norm, and rules with CLATTN_NORM_OUTPUT: see gating */
#define CLATTN_WITH_Z CLATTN_FLAG(23)
/* mamba: channels 2n and 2n+1 of q, k, a and the state are the real and imaginary part of a complex channel. key_dim is
 * even, and o = 2 Re(S^T q). */
#define CLATTN_COMPLEX CLATTN_FLAG(24)
#define CLATTN_WITH_ATTN CLATTN_FLAG(25)          /* the operand attn is written */
#define CLATTN_HEADS_TILED CLATTN_FLAG(26)        /* rules of a state: head h reads h % HQ (h % HK), not h / (H / HQ) */
#define CLATTN_WITH_STATE_INDICES CLATTN_FLAG(27) /* rules of a state: states are in a pool of state_slots states */
#define CLATTN_WITH_A_LOG CLATTN_FLAG(28)         /* with gate_map SOFTPLUS or SIGMOID: the operand a_log is read */
/* path_attn: after k was read, every key is overwritten by its value after the last token, so that the tail of the next
 * call can begin after it. See tail. */
#define CLATTN_CARRY CLATTN_FLAG(29)
/* Rules with q and k: these and p are rotated by their tokens' positions before everything else, as by the piece rope.
 * See rope_base. */
#define CLATTN_WITH_ROPE CLATTN_FLAG(30)
/* The piece rope, and with CLATTN_WITH_ROPE: columns 2n and 2n+1 form a pair (RetNet), not n and n + rope_dim/2. */
#define CLATTN_INTERLEAVED CLATTN_FLAG(31)
#define CLATTN_WITH_POSITION CLATTN_FLAG(32) /* likewise: the operand position is read */
/* The piece rope, and with CLATTN_WITH_ROPE: rotates by the negative angle, which is the inverse and the gradient. */
#define CLATTN_TURNED_BACK CLATTN_FLAG(33)
#define CLATTN_WITH_BIAS CLATTN_FLAG(34)   /* short_conv: the operand bias is added before the activation */
#define CLATTN_RESIDUAL CLATTN_FLAG(35)    /* short_conv: o += v, the last operation (Canon layers) */
#define CLATTN_CENTERED CLATTN_FLAG(36)    /* rms_norm: 1 + w in place of w */
#define CLATTN_EPS_OUTSIDE CLATTN_FLAG(37) /* rms_norm: x / (sqrt(mean(x^2)) + eps), with eps outside of the root */
/* features, FAVOR: subtracts the row's largest y from its exponents, which the denominator cancels. */
#define CLATTN_OF_QUERIES CLATTN_FLAG(38)
/* lact: steps are summed up separately, and w is that sum with the original norms. */
#define CLATTN_PRE_NORM CLATTN_FLAG(39)
#define CLATTN_WITH_MOMENTUM CLATTN_FLAG(40) /* lact, titans, titans_mlp: the operand momentum is read */
/* path_attn: q_i becomes H_1 … H_i q_i and k_j becomes H_1 … H_j k_j, with H_m = I - beta_m w_m w_m^T. The product H_1
 * … H_i x is x minus the output of delta_rule, with scale 1, for x, w and w. Queries then read as in forgetting_attn,
 * but the bias is scaled. This equals path_attn without the flag only if every beta |w|^2 is 2. Not with tail or
 * CLATTN_CARRY. */
#define CLATTN_ABSOLUTE CLATTN_FLAG(41)
/* Rules of a state and short_conv, with state_window: speculative decoding. The operand accepted is read, which says
 * from which of its last states each sequence goes on. See state_window. */
#define CLATTN_WITH_ACCEPTED CLATTN_FLAG(42)
/* Rules of a state: what the tokens do to a state, in place of outputs. See clattn_state_fold. */
#define CLATTN_SUMMARY CLATTN_FLAG(43)
#define CLATTN_WITH_THETA CLATTN_FLAG(44) /* ttt_linear, ttt_mlp: the operand theta is read; without it, it is 1 */
/* titans, titans_mlp: the operand eta is read, as in ttt_linear. Not with alpha, momentum, omega and muon. */
#define CLATTN_WITH_ETA CLATTN_FLAG(45)
#define CLATTN_WITH_ALPHA CLATTN_FLAG(46) /* titans, titans_mlp: the operand alpha is read; without it, it is 0 */
#define CLATTN_WITH_GAMMA CLATTN_FLAG(47) /* titans, titans_mlp: the operand gamma is read; without it, it is 1 */
/* Rules of a state, those that `clattn rules` lists it for: each head's row of o is normalised, as by rms_norm with the
 * operand norm as w, eps, and with CLATTN_WITH_Z gating by z. A decoding step on a GPU then is one kernel if a group can
 * keep a head's state. Not of the backward pass, where rms_norm has gradients of its own. */
#define CLATTN_NORM_OUTPUT CLATTN_FLAG(48)
/* alibi_attn, forgetting_attn: every query comes after all keys of its sequence, and sees them all. Of the bias it has
 * what goes with a key: b_j sums the log-decays from the key after j up to the last one. Those from there up to a query,
 * b_i, are the same for all its keys: they leave o as it is, and lse is without them. So keys may be read in blocks, as
 * by ranks that have parts of a sequence: o = sum_p e^(lse_p + b_p - lse) o_p. INVALID_DESC with a window; of
 * softmax_attn it is CLATTN_NONCAUSAL. */
#define CLATTN_KEYS_BEFORE CLATTN_FLAG(49)

/* ---- Operands ----------------------------------------------------------------------------------------------- */

/* X(ID, name, value, shape): the list of all operands. CLATTN_Q … are their ids; the names are those in files and
 * messages.
 * B batch, T tokens, H value heads, HQ query/key heads, K key_dim, V value_dim, N sequences (B without cu_seqlens), n
 * steps.
 * States are f32 unless operand_types says otherwise. Always f32 are: normalizers, stabilizers, lse, sink, mamba's a,
 * d, dt_bias, a_log, and lru's gv and theta. In operands whose first dimension is N, batch_stride is the distance
 * between sequences.
 * hgrn and lru have no q and k: their state is a row of V elements, and K is 1. In lru, v, o and the state are pairs of
 * a real and an imaginary part, and V is even.
 * If kv_heads is less than heads in a rule of a state, only q and o have H heads; all other operands have HK heads in
 * place of HQ and H.
 * Rules of a list have HK key/value heads and TK tokens of keys: q is [B,T,H,K], k [B,TK,HK,K], v [B,TK,HK,V], g
 * [B,TK,H]. sink: Xiao et al. 2023, arXiv:2309.17453. lse, by which parts of a list can be combined: Dao et al. 2022,
 * arXiv:2205.14135. */
#define CLATTN_OPERANDS(X)                                                                                             \
    X(Q, q, 1, "[B,T,HQ,K]")                                                                                           \
    X(K, k, 2, "[B,T*n,HQ,K]")                                                                                         \
    X(V, v, 3, "[B,T*n,H,V]; a piece's input")                                                                         \
    X(O, o, 4, "[B,T,H,V]")                                                                                            \
    X(G, g, 5,                                                                                                         \
      "[B,T,H] or [B,T,H,K]: log-decay, <= 0; -inf forgets. [H] or [H,K] with CLATTN_GATE_PER_HEAD; of full_gate "     \
      "[B,T,H,K*V], for every element of the state, [K][V]")                                                           \
    X(GV, gv, 6, "[B,T,H,V]: log-decay of the value dimension; of lru [H,V/2]")                                        \
    X(BETA, beta, 7, "[B,T*n,H]: write strength; of path_attn and deltaformer [B,TK,HK]: see tail")                    \
    X(P, p, 8, "[B,T,HQ,K]: erase key; of deltaformer [B,TK,HK,K]")                                                    \
    X(A, a, 9, "[B,T,H,K]: erase key; of mamba [H,V,K], <= 0: the log-decay of a step of 1")                           \
    X(B, b, 10, "[B,T,H,K]: erase direction, or erase gate of gdn2")                                                   \
    X(W, w, 11,                                                                                                        \
      "[B,T,H,K]: log-decay, write gate [B,T,H,V] of gdn2, or [B,TK,HK,K]: direction of path_attn, see tail; "         \
      "weights of short_conv, [H,V,W]: the last is the token's own; of rms_norm [V] or [H,V]")                         \
    X(U, u, 12, "[H,K]: bonus of the current token; of rms_norm with d [B,T,H,V], rows")                               \
    X(F, f, 13, "[B,T,H]: log of the forget gate")                                                                     \
    X(I, i, 14, "[B,T,H]: log of the input gate")                                                                      \
    X(STATE_IN, initial_state, 15,                                                                                     \
      "[N,H,K,V], or [N,H,V,K] with CLATTN_STATE_VK; of short_conv [N,W,H,V]: its last W inputs, the newest last")     \
    X(STATE_OUT, final_state, 16, "like initial_state; may be the same memory")                                        \
    X(NORMALIZER_IN, initial_normalizer, 17, "[N,H,K]: z of linear_attn with normalize, n of mlstm")                   \
    X(NORMALIZER_OUT, final_normalizer, 18, "like initial_normalizer; may be the same memory")                         \
    X(STABILIZER_IN, initial_stabilizer, 19, "[N,H]: m of mlstm; its state and normalizer are stored times e^-m")      \
    X(STABILIZER_OUT, final_stabilizer, 20, "like initial_stabilizer; may be the same memory")                         \
    X(SEQLENS, cu_seqlens, 21, "[N+1]: 0, …, T: where the packed sequences begin and end")                             \
    X(SINK, sink, 22, "[H]: a logit that takes its share of each softmax and has no value")                            \
    X(LSE, lse, 23, "[B,T,H]: natural log of the softmax's denominator, sink included; -inf if no key is seen")        \
    X(KV_LENS, kv_lens, 24, "[N]: i32, the number of keys of each sequence, whose last query is at the last of them")  \
    X(SEQLENS_KV, cu_seqlens_kv, 25, "[N+1]: where the keys of packed sequences begin and end, of cu_seqlens' type")   \
    X(WRITTEN, written, 26, "[B,TK,HK,V]: u, what deltaformer writes in the place of v")                               \
    X(K_NEW, k_new, 27, "[B,T,HK,K]: keys of the call's own tokens, which CLATTN_APPEND writes into k")                \
    X(V_NEW, v_new, 28, "[B,T,HK,V]: their values")                                                                    \
    X(THETA, theta, 29, "[H,V/2]: angle of a complex decay; of ttt and titans [B,T,H]: rate of a token's gradient")    \
    X(DT, dt, 30, "[B,T,H,V]: step size of mamba")                                                                     \
    X(DT_BIAS, dt_bias, 31, "[H,V]: added to dt, or to v of gates; with gate_map [H] or [H,K], to the gate")           \
    X(D, d, 32, "[H,V]: factor of v in mamba's output, and of u in the input of rms_norm")                             \
    X(Z, z, 33, "[B,T,H,V]: gate of mamba's output, and of a norm")                                                    \
    X(STATE_INDICES, state_indices, 34,                                                                                \
      "[N]: i32, each sequence's state in the pool; below 0 or beyond it: starts from zero and is not kept")           \
    X(STATES, states, 35,                                                                                              \
      "[N,W,H,K*V]: the states after each of the last W tokens, or after every so many; of short_conv "                \
      "[N,W*taps,H,V]")                                                                                                \
    X(BIAS, bias, 36, "[H,V]: added to what short_conv sums")                                                          \
    X(A_LOG, a_log, 37, "[H]: log of each head's rate in gate_map")                                                    \
    X(ATTN, attn, 38, "[B,H,T,T*n], of a list [B,H,T,TK]: the attention matrix, o = attn v")                           \
    X(POSITION, position, 39, "[N]: i32, the position of each sequence's first token, for rope or levels; else 0")     \
    X(OMEGA, omega, 40, "[H,m,V]: rows of features; m is K, and K/2 of those that come in pairs")                      \
    X(W0, w0, 41, "[N,H,F,K]: f32, weights of lact, f(x) = w1 (silu(w0 x) o (w2 x)), as they are at first")            \
    X(W1, w1, 42, "[N,H,V,F]: f32; of ttt_mlp and titans_mlp [N,H,K,F]")                                               \
    X(W2, w2, 43, "[N,H,F,K]: f32; of ttt_mlp and titans_mlp [N,H,F,V]")                                               \
    X(FINAL_W0, final_w0, 44, "like w0, after all whole batches; may be the same memory")                              \
    X(FINAL_W1, final_w1, 45, "like w1; may be the same memory")                                                       \
    X(FINAL_W2, final_w2, 46, "like w2; may be the same memory")                                                       \
    X(LR0, lr0, 47, "[B,T,H]: the rate of each token's share in the step of w0")                                       \
    X(LR1, lr1, 48, "[B,T,H]: of w1")                                                                                  \
    X(LR2, lr2, 49, "[B,T,H]: of w2")                                                                                  \
    X(MOMENTUM, momentum, 50,                                                                                          \
      "[B,T,H]: its mean over a batch is the part of the previous step that a step keeps; of titans each token's own") \
    X(ACCEPTED, accepted, 51, "[N]: i32, how many tokens of the previous call each sequence keeps; see state_window")  \
    X(NORMALIZERS, normalizers, 52, "[N,W,H,K]: the normalizers that belong to states")                                \
    X(STABILIZERS, stabilizers, 53, "[N,W,H]: the stabilizers that belong to states")                                  \
    X(LEVELS, levels, 54, "[B,T,H,L]: f32, what each token weighs a level with: see levels")                           \
    X(POSITION_OUT, final_position, 55, "[N]: i32, position after the last token; may be the same memory")             \
    X(TRANSITION, final_transition, 56,                                                                                \
      "f32, what a summary keeps of the state before: [N,H,K] factors of its rows; [N,H,K,K] where something is "      \
      "erased; [N,H,K,V] where each element has a decay, pairs of complex ones; [N,H] of mlstm, log of the factor")    \
    X(INITIAL_BIAS, initial_bias, 57, "[N,H,V]: f32, what ttt_linear adds to W^T x, at first")                         \
    X(FINAL_BIAS, final_bias, 58, "like initial_bias; may be the same memory")                                         \
    X(INITIAL_MOMENTUM, initial_momentum, 59,                                                                          \
      "[N,H,K,V]: f32, titans' step before the first token; of titans_mlp [N,H,n]: those of w1, b1, w2 and b2")        \
    X(FINAL_MOMENTUM, final_momentum, 60, "like initial_momentum; may be the same memory")                             \
    X(B1, b1, 61, "[N,H,F]: f32, with w1 of ttt_mlp and titans_mlp, f(x) = w2^T gelu(w1^T x + b1) + b2")               \
    X(B2, b2, 62, "[N,H,V]: f32")                                                                                      \
    X(FINAL_B1, final_b1, 63, "like b1; may be the same memory")                                                       \
    X(FINAL_B2, final_b2, 64, "like b2; may be the same memory")                                                       \
    X(ETA, eta, 65, "[B,T,H]: factor of all steps since the batch's first, as a token sees them")                      \
    X(ALPHA, alpha, 66, "[B,T,H]: the part of the weights that a token forgets, 0 to 1")                               \
    X(GAMMA, gamma, 67, "[B,T,H]: factor of a token's gradient")                                                       \
    X(LN_WEIGHT, ln_weight, 68, "[H,V]: f32, of LN in ttt and titans")                                                 \
    X(LN_BIAS, ln_bias, 69, "[H,V]: f32")                                                                              \
    X(RIDGE, ridge, 70, "[H,K]: f32, above 0: what mesa_net adds to the diagonal of its gram matrix")                  \
    X(GRAM_IN, initial_gram, 71, "[N,H,K,K]: f32, R of mesa_net: symmetric, without negative eigenvalues")             \
    X(GRAM_OUT, final_gram, 72, "like initial_gram; may be the same memory")                                           \
    X(GRAMS, grams, 73, "[N,W,H,K*K]: the gram matrices that belong to states")                                        \
    X(NORM, norm, 74, "[V]: f32, weights of the norm of o with CLATTN_NORM_OUTPUT")

typedef enum clattn_operand_id {
    CLATTN_OPERAND_NONE = 0,
#define CLATTN_OPERAND_ENUM(ID, name, value, shape) CLATTN_##ID = value,
    CLATTN_OPERANDS(CLATTN_OPERAND_ENUM)
#undef CLATTN_OPERAND_ENUM
        CLATTN_GRADIENTS = 256
} clattn_operand_id;

/* The gradient of a loss by an operand: "d_q" in files and messages. See clattn_pass. */
#define CLATTN_GRAD(id) ((clattn_operand_id)(CLATTN_GRADIENTS + (id)))

/* One operand of a call: its id, and its memory. The last dimension is contiguous. Strides are in elements; three zeros
 * mean the contiguous tensor of the operand's shape. The strides of an output must keep its elements apart: each stride
 * is at least the extent of the smaller ones. The token stride of `states` is the distance from one state to the next.
 * It may be negative, which puts the newest state first; offset is then that of the oldest.
 *
 * attn is the whole attention matrix in f32, for inspection: the factor of each v in each output, including inverse,
 * gates, strengths, scale and denominator. So o = attn v, plus the contribution of an initial state. For packed
 * sequences it is 0 outside of their own squares. T*n and TK are at most 8192. Rules in which each value column has a
 * matrix of its own do not have it: INVALID_DESC with gdn2's write gate, with gv, and for hgrn, lru, mamba and
 * full_gate. Because o is linear in v, the matrix is computed as the rule's output for unit vectors: token by token, or
 * for a list in blocks. For deltaformer only the reference has it. */
typedef struct clattn_operand {
    clattn_operand_id id;
    cl_mem buffer; /* clattn_enqueue: a buffer of the plan's cl_context */
    void *host;    /* clattn_run and clattn_reference: at any address; inputs are never written */
    size_t offset; /* of the first element in bytes, a multiple of the element's size */
    /* Bytes available from offset on. 0: all that the buffer has, but for .host NOT CHECKED: a binding should always set
     * it. */
    size_t size;
    int64_t batch_stride, token_stride, head_stride;
} clattn_operand;

#define CLATTN_WHOLE (-1)

/* What a call works on: every operand that the plan uses and no others, in any order; of the gradients that a backward
 * pass writes, those that are wanted. Nothing of it is referenced after the call. */
typedef struct clattn_call {
    const clattn_operand *operands;
    size_t operand_count;
    /* The lengths of this call, up to the plan's. seq_len: CLATTN_WHOLE is the plan's. With 0 tokens, o is not written,
     * final states are copies of the initial ones, keys are carried if that is requested, and operands without elements
     * may lack memory or be absent. batch and sequences: 0 is the plan's. */
    int64_t seq_len, batch, sequences;
    /* clattn_enqueue only: clattn_plan_workspace_size bytes. */
    cl_mem workspace;
    size_t workspace_offset; /* bytes, a multiple of 16 */
    size_t workspace_size;   /* bytes available from there on; 0: to the end of the buffer */
    /* Tokens of keys in this call, up to the plan's; 0: the plan's. For a cache that has room for more keys, pass its
     * strides: without strides, k, v and g are taken to have this length. */
    int64_t kv_len;
    /* The rows of w and beta in this call, for a plan with a tail: seq_len to kv_len. 0: the plan's, or kv_len if that
     * is less. */
    int64_t tail;
} clattn_call;

/* ---- Plan descriptions -------------------------------------------------------------------------------------- */

/* What a desc computes.
 *
 * CLATTN_PASS_BACKWARD: the gradients of a loss by the inputs, of pieces and of the rules that multiply queries with a
 * state (not of lists and channels). Operands are the inputs of the forward pass; o as it computed it where o is divided
 * (normalize, mlstm); CLATTN_GRAD(CLATTN_O), and with CLATTN_FINAL_STATE the gradients by final_state and
 * final_normalizer, [N,…] in f32. Written are CLATTN_GRAD of every input that is a tensor of numbers: in the input's shape
 * and type, those by initial_state and initial_normalizer [N,…] in f32, of a pool, too. Those that a call does not have
 * are not written. What several heads, tokens or sequences share has the sum of their gradients. mlstm's stabilizers are
 * constants, of which o does not depend; they have no gradient, and those by its states are at fixed stabilizers. A gate
 * of -inf has the gradient 0.
 * Katharopoulos et al. 2020, arXiv:2006.16236 (the sum's), and the reverse of each rule's recurrence.
 *
 * A plan computes the states of the forward pass again. In mode CHUNK its workspace grows with seq_len, unless the desc has
 * a workspace_limit; in RECURRENT it grows with the root of seq_len. INVALID_DESC with attn, state_window and
 * state_every. */
typedef enum clattn_pass { CLATTN_PASS_FORWARD = 0, CLATTN_PASS_BACKWARD = 1 } clattn_pass;

typedef struct clattn_operand_type {
    clattn_operand_id id;
    clattn_dtype dtype;
} clattn_operand_type;

/* What to compute. batch, seq_len and sequences are maxima of a plan. Settings of published models that differ from the
 * defaults: RWKV-6 scale 1; MiniMax-01 slopes CLATTN_SLOPES_MINIMAX and scale 1; xLSTM eps 1e-6. */
typedef struct clattn_plan_desc {
    clattn_rule rule; /* required */
    clattn_dtype
        dtype; /* storage of q, k, v, o, written, dt, z, rms_norm's u and the vectors p, a, b (dplr, iplr, rwkv7) */
    clattn_dtype gate_dtype; /* storage of g, gv, beta, f, i, u, w, gdn2's b, lr0 … and momentum; the default is f32 */
    clattn_mode mode;
    uint64_t flags;    /* CLATTN_QK_L2NORM … */
    int64_t batch;     /* 0: 1 */
    int64_t seq_len;   /* tokens; required */
    int64_t sequences; /* with CLATTN_CU_SEQLENS: N, where cu_seqlens has N + 1 entries; else 0 */
    int64_t heads;     /* value heads H; required */
    int64_t qk_heads;  /* query/key heads HQ, a divisor of heads: value head h has the query and key h / (H / HQ), and a
                        * state of its own, as in Gated DeltaNet; 0: heads. kv_heads is the other way to share */
    /* K and V: 1 to 1024, of pieces V to 65536. Required, but key_dim is 1 for pieces and for rules without keys. The
     * reference takes all of them. A plan cuts value columns into tiles, so that what a device can do does not depend
     * on V; the local memory that a group needs may grow with K. Where a device has too little, plans are UNSUPPORTED,
     * and the log says how much it has: path_attn takes up to 256 channels in 32 KiB, and fewer than 1024 in 64. */
    int64_t key_dim, value_dim;
    double scale;  /* multiplies q; 0: 1/sqrt(key_dim), but 1 for rwkv7, hgrn, lru, mamba, ssd, mesa_net and the
                  * rules with levels */
    double eps;    /* mlstm: o = S^T q / (max(|n^T q|, e^-m) + eps); 0 to 1e30 */
    int32_t chunk; /* tokens of a chunk; 0: the device's best. Otherwise a hint: the nearest of 8, 16, 32 and 64 that
                    * the device supports is used, which clattn_plan_info reports */
    clattn_feature_map feature_map; /* linear_attn */
    clattn_slopes slopes;           /* lightning_attn */
    int32_t layer, layers;          /* lightning_attn: the index of the layer, from 0, and their number; 0 layers: 1 */
    int32_t steps;                  /* gated_delta_product: n writes a token, where k, v, beta have n rows a token;
                                     * 0: 1 */
    /* Operands whose type differs from dtype and gate_dtype, and types of initial_state, final_state and states other
     * than f32. In rules of a state and in pieces, o has any type at no cost, and beta one of its own beside the gates:
     * q, k and v in bf16 with g and o in f32 and beta in bf16 are read and written as they are. A plan converts other
     * operands in a step of its own: to the type of the others, or all to f32 if those that are read differ; the o of a
     * rule of a list is rounded to their type first. A completed desc has the types that kernels read in dtype and
     * gate_dtype. UNSUPPORTED: states with different types, and different types in lact, or with append, carry and
     * written. The reference takes any types. */
    int32_t operand_type_count;
    clattn_operand_type operand_types[8];
    /* Grouped key/value heads (GQA): Ainslie et al. 2023, arXiv:2305.13245. Several query heads read the same keys and
     * values, or in rules of a state the same state, of which there are HK. qk_heads is then equal to heads. For rules
     * of a state a plan runs its launches once for each of the H / HK query heads of a state. */
    int64_t kv_heads; /* a divisor of heads; head h reads h / (H / HK); 0: heads */
    /* The fields below are for rules of a list. */
    /* Tokens of keys and values, a maximum of a plan: a cache whose last seq_len tokens are those of q. Query t is at
     * position t + kv_len - seq_len and sees the keys up to it. Queries before the first key see none: o is 0, lse is
     * -inf (or the sink's). With CLATTN_NONCAUSAL, all queries see all keys. 0: the tokens of q, in each call. With CLATTN_CU_SEQLENS, kv_len is 0; with
     * CLATTN_CU_SEQLENS_KV as well, it is the number of packed keys of all sequences. With CLATTN_WITH_KV_LENS, a
     * sequence has the first kv_lens of its keys, from 0 on. */
    int64_t kv_len;
    int64_t window;        /* each query sees that many positions, including its own; 0: all. See CLATTN_NONCAUSAL */
    clattn_weights kernel; /* softmax_attn, path_attn, deltaformer: weights of the read */
    /* deltaformer: weights of the write u, which is stored in dtype. Only softmax's weights have a bounded sum: with
     * others, u may grow by a factor at each token and exceed f16's maximum of 65504. Use bf16, f32 or a smaller scale
     * then. */
    clattn_weights write_kernel;
    /* Rules of a state. With CLATTN_WITH_STATE_INDICES, initial_state, final_state and related operands have
     * state_slots states instead of N. Sequence n reads and writes state number state_indices[n]. If that is negative
     * or beyond the pool, the sequence starts from zero and its final state is not written. Several sequences may be
     * without a state, but no two may have the same one: clattn_reference and clattn_run return INVALID_OPERAND.
     * clattn_enqueue cannot see the indices: after it, such a state is undefined. */
    int64_t state_slots; /* 0: N */
    /* Only one of these may be set, at most 2^27. Rules of a state and short_conv. The operand `states` has either each
     * sequence's states after its last state_window tokens, with the newest at the end; or those after every
     * state_every tokens, with the first at the beginning. So have normalizers, stabilizers and gram matrices, in
     * rules that have these. States that a short sequence does not have are not written. A window, and a state_every
     * that is not a multiple of a chunk, need mode recurrent, which AUTO then uses. So does any state_every of mesa_net.
     *
     * Speculative decoding: with CLATTN_WITH_ACCEPTED and CLATTN_INITIAL_STATE, the states of a sequence are a ring.
     * The state after token i of a call, counted from 1, is number (i - 1) % state_window of `states`, so that a call
     * of up to state_window tokens has the state after its first token in front. initial_state has the shape of
     * `states` and may be the same memory (likewise initial_normalizer and normalizers, initial_stabilizer and
     * stabilizers). A sequence goes on from state number (accepted - 1) % state_window, which is the state after that
     * many tokens of the previous call; if accepted is 0 or negative, from zero. The first token of a call was accepted
     * before the call, so a sequence that goes on always accepts at least 1. A sequence without tokens in a call leaves
     * its ring unchanged. With CLATTN_WITH_STATE_INDICES the rings are in the pool: [state_slots,W,...]. The results
     * are those of calls that never had the rejected tokens, bit for bit with the same plan.
     *
     *     desc.seq_len = desc.state_window = 1 + DRAFTED;
     *     for (n = 0; n < sequences; n++)
     *         accepted[n] = 1;       the prompt's final_state is state 0 of the ring: pass its place with a batch_stride
     *     for (;;) {                                                                                    of W*H*K*V
     *         tokens[n] = the last accepted token of sequence n, then DRAFTED proposed ones;
     *         clattn_enqueue(...);   initial_state and states are the same buffer
     *         accepted[n] = 1 + the number of proposed tokens that the outputs confirm;
     *     } */
    int64_t state_window, state_every;
    /* The fields below are for pieces. Their v and o are [B,T,H,V], where V is at most 65536. There are no queries and
     * keys. */
    int32_t taps;                 /* short_conv: W, 1 to 8; 0: 4 */
    clattn_activation activation; /* short_conv */
    clattn_weighting weighting;   /* rms_norm; its eps is 1e-5 if eps is 0 */
    clattn_gating gating;         /* rms_norm */
    /* For rules again: gates as they come from a model's projections. Kernels apply the maps when they load them. Also
     * for the piece gates, whose o has the gates' type, and has one number a head if V is 1. */
    clattn_gate_map gate_map;
    clattn_beta_map beta_map;
    double gate_scale; /* SIGMOID: the lower bound, negative; 0: -5. LOGSIGMOID: positive; 0: 1. Must be 0 for other
                        * maps. The piece gates: 0 is 1 */
    /* rope: pair n of the first rope_dim columns is rotated by t rope_base^(-2n/rope_dim), where t is the token's
     * position. The angle is exact for any t. If q and k are both rotated, their products depend only on i - j.
     * CLATTN_WITH_ROPE does the same to the first rope_dim channels of a rule's q, k and p. One launch for each writes
     * the rotated rows to the workspace, rounded to their type; the l2 normalisation and maps come after that. t counts
     * from the sequence's first token in memory, reversed or not; with CLATTN_WITH_POSITION, it counts from position.
     * The n keys of a token of gated_delta_product have the token's position. Other operands (a, b, u, w) are not
     * rotated.
     * INVALID_DESC: rules without q and k; kv_len or CLATTN_CARRY (keys in a cache were rotated when they were written:
     * use the piece); CLATTN_COMPLEX; and CLATTN_NORMALIZE without a feature_map, because rotated weights have both
     * signs. */
    double rope_base; /* 0: 10000 */
    int32_t rope_dim; /* even, at most 1024; 0: value_dim, for rules key_dim */
    /* features: o is [B,T,H,K], key_dim features of each row, which is a q or k for linear_attn with CLATTN_NORMALIZE.
     * V and K are at most 1024. eps is 1e-4 if it is 0. */
    clattn_features features;
    /* path_attn with kv_len, a cache of carried keys: the keys of the last `tail` tokens are as projected. w and beta
     * have only the rows of these tokens, the last row for the last token. In every earlier key, the erases of all
     * tokens before the tail have been applied, as a call with CLATTN_CARRY does it. Queries pass through the tail and
     * read carried keys as in softmax_attn. seq_len to kv_len, a maximum of a plan; 0: all keys are as projected. Not
     * with cu_seqlens. Neither tail nor CLATTN_CARRY may be used with CLATTN_QK_L2NORM, because a carried key must not
     * be normalised again. */
    int64_t tail;
    /* lact: Zhang et al. 2025, Test-Time Training Done Right, arXiv:2505.23884. K, V and F are at most 1024. Batches
     * have mini_batch tokens, counted from the sequence's first. A batch is first read, o = f(q), and then learned
     * from; an incomplete last batch is only read. The gradients of the loss -v.f(k), with each token's multiplied by
     * its rate, are
     *     dw1 = lr1 v h^T, dw0 = lr0 (dh o c o silu'(a)) k^T, dw2 = lr2 (dh o silu(a)) k^T,
     *     a = w0 k, c = w2 k, h = silu(a) o c, dh = w1^T v, all with the weights that the batch was read with.
     * The step is D = their sums + mean(momentum) D of the previous batch, which is 0 at first. w += D, or muon's
     * result for D. Then each row x of w becomes x / (|x| + 1e-5) times its initial norm.
     * final_w0 … are the weights after all complete batches, or with CLATTN_NONCAUSAL after all tokens. A call that
     * continues at the end of a batch begins with them. It differs from one longer call in two ways: D and the sums of
     * CLATTN_PRE_NORM begin again, and norms differ by 1e-5. Packed sequences are INVALID_DESC. */
    int64_t hidden_dim; /* F of w0, w1 and w2; 0: key_dim, but 4 key_dim for ttt_mlp and titans_mlp */
    int32_t mini_batch; /* 0: 2048, but 16 for ttt and titans, see loss */
    clattn_muon muon;
    clattn_pass pass; /* what is computed: outputs, or gradients of inputs */
    /* softmax_attn, alibi_attn, forgetting_attn: scores are softcap tanh(scale q.k / softcap), before biases, masks and
     * weights: Gemma 2 (Gemma Team 2024, arXiv:2408.00118, with 50), Grok-1 (with 30). 0: scale q.k */
    double softcap;
    /* BACKWARD: a bit, 1 << id, for each operand whose gradient is added to what is in CLATTN_GRAD(id); the others are
     * overwritten. */
    int64_t added_gradients;
    /* Limits of a step log(1 + e^x), which is what gate_map SOFTPLUS multiplies by -r, what beta_map SOFTPLUS gives, and
     * mamba's dt with CLATTN_SOFTPLUS: a smaller one becomes step_min, a larger one step_max. The gradient by x of such
     * a step is 0. Mamba-2's time_step_limit (Dao and Gu 2024, arXiv:2405.21060). 0: no limit */
    double step_min, step_max;
    /* log_linear_attn, log_linear_gated_delta_rule: Guo et al. 2025, arXiv:2506.04761. o_i = sum over j <= i of
     * levels[i][l(i,j)] a_ij v_j, where a is the attention matrix of the rule without levels, and l(i,j) is 0 for j = i,
     * else one more than the highest bit in which the positions of i and j differ. Keys of a level that does not exist
     * are forgotten. A state has a matrix for each level, [N,H,L,K*V]: level b + 1 is used if bit b of position is set,
     * and then has the last 2^b tokens before those of the lower bits. initial_state comes with position, the number of
     * tokens before the call, and final_state with final_position; with CLATTN_WITH_STATE_INDICES both are in the pool.
     * Not with intermediate states. 1 to 32, at least log2 of seq_len, rounded up, plus 1; 0: that many */
    int32_t levels;
    /* ttt_linear, ttt_mlp: Sun et al. 2024, Learning to (Learn at Test Time), arXiv:2407.04620. titans, titans_mlp:
     * Behrouz et al. 2025, Titans, arXiv:2501.00663, and with omega, gamma and muon Atlas, arXiv:2505.23735.
     * f(W; x) is W^T x, in ttt_linear plus a bias, or w2^T gelu(w1^T x + b1) + b2, gelu with tanh. A sequence is cut
     * into batches of mini_batch tokens, of which the last may be short. G_j is the gradient of token j's loss by all
     * weights, at the weights W' before its batch. Token i reads z = f(W_i; scale q_i), so its own step included:
     *     with eta     W_i = W' - eta_i sum_(j <= i of the batch) theta_j G_j
     *     without      M_i = momentum_i M_(i-1) - theta_i sum_(i - omega < j <= i) gamma_j G_j
     *                  W_i = (1 - alpha_i) W_(i-1) + M_i, with muon + muon's result for the matrices in M_i
     * With omega above 1, G of tokens before the batch are at W', too; none is before the call's first token.
     * A call that ends at a batch's end is continued by one that begins with its final weights and momentum: the
     * results are those of one call, but with omega, for which the window begins again. To decode, keep the weights
     * at the beginning of the unfinished batch, and compute its tokens, up to mini_batch of them, again with each new
     * one. Heads are not shared, and packed sequences are INVALID_DESC. */
    clattn_loss loss;
    clattn_readout readout;
    int32_t omega; /* tokens whose gradients are in a step; 0: 1 */
    /* mesa_net: von Oswald et al. 2025, MesaNet, arXiv:2506.05233. o = S^T x with (R + diag(ridge)) x = scale q.
     * 0: solved. The reference factors the matrix. A plan takes steps of conjugate gradients, in f32, until the residual
     * is 1e-6 of q (1e-5 where q has 16 bits), 64 at most: enough for condition numbers of some hundreds. On a matrix
     * engine R is rounded to f16: enough for those up to 100.
     * n, up to 256: exactly n steps from x = 0, in the reference, too. */
    int32_t cg_steps;
    /* Bytes of workspace, at most. A solver that needs more is not used. A backward pass in chunks then goes through the
     * sequences by spans of tokens: it walks forward to keep the states at their beginnings, and takes the spans from
     * the last to the first. That costs one more walk, and gradients differ by roundings from those without a limit. A
     * plan whose least workspace is above the limit is UNSUPPORTED, and the log says how much it needs. 0: no limit */
    int64_t workspace_limit;
} clattn_plan_desc;

/* Completes a desc: copies it to *full with every default filled in, and checks it. INVALID_ARGUMENT, INVALID_DESC. log
 * may be NULL. */
CLATTN_INLINE clattn_status clattn_plan_desc_complete(clattn_plan_desc *full, const clattn_plan_desc *desc,
                                                      clattn_log_fn log, void *log_user);

/* The properties of an operand in a problem. rank is 0 if the problem does not use the operand. */
typedef struct clattn_operand_info {
    const char *name;
    int64_t dims[4];      /* as in the list above, with the desc's lengths */
    int32_t rank;         /* number of dims */
    int32_t output;       /* written, not read */
    clattn_dtype dtype;   /* not for cu_seqlens, cu_seqlens_kv and kv_lens */
    int32_t element_size; /* bytes */
} clattn_operand_info;

/* The operand that a desc (completed or not) needs. INVALID_ARGUMENT, INVALID_DESC. */
CLATTN_INLINE clattn_status clattn_operand_describe(const clattn_plan_desc *desc, clattn_operand_id id,
                                                    clattn_operand_info *info);

/* ---- The reference ------------------------------------------------------------------------------------------ */

/* Computes the problem on the host in double precision, token by token, on all cores. It is the reference of clattn's
 * tests, and works on machines without OpenCL. Operands are in .host, no workspace is needed, and log may be NULL.
 * INVALID_ARGUMENT, INVALID_DESC, INVALID_OPERAND (also if cu_seqlens, cu_seqlens_kv or kv_lens are wrong, or two
 * state_indices are equal), OUT_OF_MEMORY. */
CLATTN_INLINE clattn_status clattn_reference(const clattn_plan_desc *desc, const clattn_call *call, clattn_log_fn log,
                                             void *log_user);

/* ---- States of parts of a sequence -------------------------------------------------------------------------- */

/* What a stretch of tokens does to a state is affine: S <- M S + N. A plan with CLATTN_SUMMARY computes both of a call's
 * tokens, which begin from zero: N is final_state (with final_normalizer and final_stabilizer), M is final_transition.
 * It has no q and no o, and no other operand that only outputs depend on; CLATTN_FINAL_STATE is set for it. Rules that
 * keep the whole state (linear_attn) have no final_transition. Stretches of a sequence, on several devices or machines,
 * are computed at once in this way; the states that they begin with follow by clattn_state_fold. INVALID_DESC with
 * initial_state, state_indices, attn, noncausal, states on the way, and for the backward pass.
 *
 * State and summary on the host, contiguous, in f32 and in the layout of the desc; those that the rule does not have are
 * NULL. */
typedef struct clattn_state_parts {
    float *state;      /* [N,H,K,V], or [N,H,V,K] with CLATTN_STATE_VK */
    float *normalizer; /* [N,H,K]: linear_attn with normalize, mlstm */
    float *stabilizer; /* [N,H]: mlstm; -inf: there were no tokens */
    float *transition; /* a summary's final_transition; not used of a state */
} clattn_state_parts;

/* The state becomes that after the stretch: M S + N, for all sequences of the desc (N is its batch, or sequences) and
 * all heads that have a state, on all cores. The result has the same bits wherever it is computed by the same build.
 *
 * With CLATTN_PASS_BACKWARD, state is the gradient by the state after a stretch and becomes that by the state before it:
 * M^T S + N, where summary has N, the gradient by the state before if that after has none (GRAD(initial_state) of the
 * backward pass), and the M of the forward pass. UNSUPPORTED for lists and pieces, and backward for mlstm.
 * INVALID_ARGUMENT, INVALID_DESC, OUT_OF_MEMORY. log may be NULL. */
CLATTN_INLINE clattn_status clattn_state_fold(const clattn_plan_desc *desc, const clattn_state_parts *state,
                                              const clattn_state_parts *summary, clattn_log_fn log, void *log_user);

/* ---- Devices and contexts ----------------------------------------------------------------------------------- */

typedef struct clattn_device_info {
    cl_device_id device;
    char platform[64], name[128], driver[64], version[64]; /* UTF-8, cut to fit */
    int gpu;                                               /* 0: CPU or another device */
    uint32_t compute_units;
    uint64_t global_memory, local_memory, max_allocation; /* bytes */
    size_t max_work_group;                                /* work-items, in one dimension */
    const char *unusable; /* the reason why no context can be created, static; NULL: the device is usable */
} clattn_device_info;

/* Fills up to capacity infos and sets *count to the number of devices of this machine, best first: GPUs with memory of
 * their own, GPUs that share the host's memory, CPUs, other devices, emulators; then by an estimate of their speed,
 * which is the number of compute units times the lanes of the vendor's units times the clock. If two platforms list the
 * same GPU, its vendor's comes first. Unusable devices come last.
 * Without an OpenCL library: *count = 0 and NO_OPENCL. infos may be NULL if capacity is 0. */
CLATTN_INLINE clattn_status clattn_devices(clattn_device_info *infos, size_t capacity, size_t *count);

typedef struct clattn_context clattn_context;

/* An application's own store of compiled programs, used instead of clattn's files. key is a name of 32 hexadecimal
 * digits. load copies the blob into data if size is large enough, and returns the blob's size, or 0 if there is none.
 * Damaged or outdated blobs are detected. Both functions may be called from any thread that calls clattn, like the
 * log. */
typedef size_t (*clattn_blob_load_fn)(void *user, const char *key, void *data, size_t size);
typedef void (*clattn_blob_store_fn)(void *user, const char *key, const void *data, size_t size);

/* Flags of a context. */
enum {
    CLATTN_ISOLATED =
        1 << 0 /* nothing is read from the environment, and nothing is read or written in the user's folders: only what
                * this desc names is used, besides what is compiled into the library */
};

/* Compiled programs are cached on disk, so that no process compiles what another one has compiled. The folder is
 * cache_dir, else the value of CLATTN_CACHE_DIR, else the user's ($XDG_CACHE_HOME/clattn or the platform's equivalent).
 * `clattn cache` lists and clears it. */
typedef struct clattn_context_desc {
    cl_context cl; /* retained; NULL: clattn creates a context */
    /* NULL: the context's only device. If cl is also NULL: the best of the machine's devices, in the order of
     * clattn_devices, for which a context can be created; each one that is skipped is logged as a WARNING. If a device
     * is given here and cannot be used, that is NO_DEVICE, with the reason in the log. */
    cl_device_id device;
    clattn_log_fn log; /* NULL: silent */
    void *log_user;
    const char *cache_dir;           /* NULL: as described above; "": nothing is stored on disk */
    uint64_t cache_limit;            /* the folder's limit in bytes; the least recently used programs are removed first;
                                      * 0: 256 MiB */
    clattn_blob_load_fn blob_load;   /* if not NULL, called instead of reading files */
    clattn_blob_store_fn blob_store; /* if not NULL, called instead of writing files */
    void *blob_user;
    /* The matrix engine, by name: "none", or one that `clattn devices` shows. Those named *_emulated run on any device,
     * slowly, to check kernels of devices that are not available. NULL: the value of CLATTN_ENGINE, or the device's
     * own. */
    const char *engine;
    /* The file of measured parameters that `clattn tune` wrote. "": use none, not even those compiled into the library.
     * NULL: the value of CLATTN_TUNING, or the user's file. */
    const char *tuning;
    int32_t
        self_test;  /* of a plan's kernels: 1 yes, -1 no; 0: yes, unless the variable CLATTN_SELF_TEST is 0 or empty */
    uint32_t flags; /* CLATTN_ISOLATED */
    /* The library file of CLBlast, for matrix products. "": do not use CLBlast. NULL: the value of CLATTN_CLBLAST, or
     * the library with the usual soname. */
    const char *clblast;
} clattn_context_desc;

/* desc may be NULL. INVALID_ARGUMENT, INVALID_DESC, NO_OPENCL, NO_DEVICE, OUT_OF_MEMORY, DEVICE_ERROR. The caller owns
 * *context, and must destroy it after its plans. It retains its cl_context, which the caller may release. */
CLATTN_INLINE clattn_status clattn_context_create(clattn_context **context, const clattn_context_desc *desc);
/* Must not run while another thread uses the context or one of its plans. */
CLATTN_API void clattn_context_destroy(clattn_context *context);
/* Sets measured parameters of the application, a text in the format of `clattn tune --export`. They come before those
 * of the user's file (written by `clattn tune`; CLATTN_TUNING may name another) and before those compiled into the
 * library. Entries for other devices are ignored. Must not run while another thread creates a plan of the context or
 * sets its tuning. INVALID_ARGUMENT. */
CLATTN_API clattn_status clattn_context_set_tuning(clattn_context *context, const char *json);
/* The context's OpenCL context and device, which it still owns. Either pointer may be NULL. */
CLATTN_API clattn_status clattn_context_get(const clattn_context *context, cl_context *cl, cl_device_id *device);

/* ---- Plans -------------------------------------------------------------------------------------------------- */

typedef struct clattn_plan clattn_plan;

/* Whether a plan can be created for the desc, judging by sizes alone: nothing is compiled or enqueued. SUCCESS, or
 * UNSUPPORTED, INVALID_DESC, INVALID_ARGUMENT with the message that clattn_plan_create would log. A compiler or a
 * self-test may still fail where this succeeds. */
CLATTN_INLINE clattn_status clattn_supports(clattn_context *context, const clattn_plan_desc *desc);

/* Chooses a solver and tiles, and compiles the kernels that neither an earlier plan of the context nor the cache has.
 * Kernels that are new to this device and driver are tested on two short sequences against the reference; if they fail,
 * other kernels are used. self_test of the context's desc can turn the test off. INVALID_ARGUMENT, INVALID_DESC,
 * UNSUPPORTED, BUILD_FAILED, OUT_OF_MEMORY, DEVICE_ERROR. */
CLATTN_INLINE clattn_status clattn_plan_create(clattn_plan **plan, clattn_context *context,
                                               const clattn_plan_desc *desc);
/* A plan may be destroyed as soon as clattn_enqueue has returned, because enqueued work keeps what it needs. Must not
 * run while another thread uses the plan. */
CLATTN_API void clattn_plan_destroy(clattn_plan *plan);

/* Bytes of workspace that a call needs at the plan's maxima. May be 0. */
CLATTN_API clattn_status clattn_plan_workspace_size(const clattn_plan *plan, size_t *bytes);

/* The properties of a plan. Pointers live as long as the plan. */
typedef struct clattn_plan_info {
    const clattn_plan_desc *desc; /* completed */
    /* "recurrent", "backward", "channels", "chunk_scan", "chunk_blocks", "matrix_blocks", "matrix_scan", "flash", "flash_matrix", "flash_team",
     * "flash_matrix_blocks", "flash_blocks", "decode", "path", "path_decode", "path_matrix", "path_team", "delta",
     * "delta_matrix"; a piece's own name */
    const char *solver;
    const char *tiles_by;     /* "rule of thumb", "the shipped table", a file's path … */
    const char *engine;       /* the matrix engine that it uses; NULL: none */
    clattn_mode mode;         /* RECURRENT or CHUNK */
    int32_t chunk;            /* tokens; 1 for RECURRENT */
    int32_t launches;         /* kernel launches in a call of the desc's lengths */
    int32_t rejected;         /* choices that failed the self-test before this one was used */
    uint64_t workspace_bytes; /* the same as clattn_plan_workspace_size */
    uint64_t saved_bytes;     /* kept for a plan of the backward pass; 0 */
} clattn_plan_info;

/* INVALID_ARGUMENT. */
CLATTN_INLINE clattn_status clattn_plan_get(const clattn_plan *plan, clattn_plan_info *info);

/* A few lines of text: problem, solver, tiles, launches, workspace. Writes at most size bytes including the final NUL.
 * Text that does not fit is cut and ends in "...". */
CLATTN_API clattn_status clattn_plan_describe(const clattn_plan *plan, char *text, size_t size);

/* Enqueues the plan on a queue of its context, in order or out of order. The work waits for n_wait events, and *event
 * completes after all of it; event may be NULL, and the caller releases *event. Calls from several threads are safe if
 * each has its own workspace and outputs. cu_seqlens, cu_seqlens_kv and kv_lens are read on the device, which clamps
 * entries to 0 … seq_len, to 0 … kv_len and to the keys that their sequence may have.
 * On failure *event is NULL. Arguments are checked before anything is enqueued. After DEVICE_ERROR and OUT_OF_MEMORY,
 * kernels that were enqueued before the failure may still run, and write outputs and workspace. INVALID_ARGUMENT,
 * INVALID_OPERAND, INVALID_WORKSPACE, OUT_OF_MEMORY, DEVICE_ERROR. */
CLATTN_INLINE clattn_status clattn_enqueue(clattn_plan *plan, cl_command_queue queue, const clattn_call *call,
                                           uint32_t n_wait, const cl_event *wait, cl_event *event);

/* The same with operands in .host; returns when the outputs are there. It is for tests and small programs: every call
 * creates a queue and buffers, copies all operands and releases everything. No workspace is needed. INVALID_ARGUMENT,
 * INVALID_OPERAND (also if cu_seqlens, cu_seqlens_kv or kv_lens are wrong, or two state_indices are equal),
 * OUT_OF_MEMORY, DEVICE_ERROR. */
CLATTN_INLINE clattn_status clattn_run(clattn_plan *plan, const clattn_call *call);

/* ---- Matrix products ---------------------------------------------------------------------------------------- */

/* D = alpha op(A) op(B) + beta C for every matrix of a batch: projections around a rule, or any other product. op(A) is
 * [m,k], op(B) [k,n], C and D [m,n]. Matrices are row-major. (For column-major ones, exchange A and B, m and n.) Sums
 * are f32. D must not overlap A or B. */
enum {
    CLATTN_GEMM_TRANS_A = 1 << 0,  /* A is stored as [k,m] */
    CLATTN_GEMM_TRANS_B = 1 << 1,  /* B is stored as [n,k] */
    CLATTN_GEMM_SHARED_A = 1 << 2, /* one A for the whole batch */
    CLATTN_GEMM_SHARED_B = 1 << 3,
    CLATTN_GEMM_WITH_C = 1 << 4, /* C is a separate matrix; otherwise C is the previous content of D */
    CLATTN_GEMM_F32_D = 1 << 5   /* C and D are f32, whatever type A and B have */
};

/* The matrices of a call: buffers of the plan's cl_context, and offsets in bytes that are multiples of the element's
 * size. c is only used with CLATTN_GEMM_WITH_C. */
typedef struct clattn_gemm_call {
    cl_mem a, b, c, d;
    size_t a_offset, b_offset, c_offset, d_offset;
    int64_t m; /* the rows of this call, up to the plan's; 0: the plan's. The provider "gemv" for few rows needs all
                * rows */
} clattn_gemm_call;

struct clattn_gemm_desc;
/* A product that the application implements: enqueues the product of desc (completed) after the n_wait events. If event
 * is not NULL, *event must complete after all of it. */
typedef clattn_status (*clattn_gemm_fn)(void *user, const struct clattn_gemm_desc *desc, cl_command_queue queue,
                                        const clattn_gemm_call *call, uint32_t n_wait, const cl_event *wait,
                                        cl_event *event);

typedef struct clattn_gemm_desc {
    clattn_dtype dtype;                             /* storage of A, B, C and D: see CLATTN_GEMM_F32_D */
    uint32_t flags;                                 /* CLATTN_GEMM_TRANS_A … */
    int64_t m, n, k;                                /* required */
    int64_t batch;                                  /* 0: 1 */
    int64_t lda, ldb, ldc, ldd;                     /* distance between rows in memory, in elements; 0: contiguous
                                                     * rows */
    int64_t stride_a, stride_b, stride_c, stride_d; /* distance between matrices, in elements; 0: contiguous matrices */
    double alpha;                                   /* 0: 1 */
    double beta;
    /* What computes the product: "plain" (OpenCL C), "engine" (the device's matrix engine), "team" (several sub-groups
     * of the engine together, f16 and bf16, if it can), "gemv" (m or n up to 8), "clblast" (if that library is on the
     * machine; it is never linked) or "callback". NULL: the one that was measured to be the fastest, else the choice of
     * a rule of thumb. */
    const char *provider;
    clattn_gemm_fn callback; /* for the provider "callback" */
    void *user;
} clattn_gemm_desc;

typedef struct clattn_gemm_plan clattn_gemm_plan;

/* Chooses a provider, compiles its kernels, and runs it once on numbers whose product is known. A provider whose result
 * is wrong is not used. INVALID_ARGUMENT, INVALID_DESC, UNSUPPORTED (also if the requested provider is wrong or
 * missing), BUILD_FAILED, OUT_OF_MEMORY, DEVICE_ERROR. */
CLATTN_INLINE clattn_status clattn_gemm_plan_create(clattn_gemm_plan **plan, clattn_context *context,
                                                    const clattn_gemm_desc *desc);
/* As clattn_plan_destroy. */
CLATTN_API void clattn_gemm_plan_destroy(clattn_gemm_plan *plan);

/* The properties of a plan. Pointers live as long as the plan. */
typedef struct clattn_gemm_info {
    const clattn_gemm_desc *desc; /* completed */
    const char *provider;
    const char *chosen_by; /* "rule of thumb", "the caller", a file's path … */
    int32_t rejected;      /* providers that gave wrong results before this one was used */
    int32_t scratch;       /* 1: the provider allocates memory at every call, as CLBlast does */
} clattn_gemm_info;
/* INVALID_ARGUMENT. */
CLATTN_INLINE clattn_status clattn_gemm_plan_get(const clattn_gemm_plan *plan, clattn_gemm_info *info);
/* As clattn_plan_describe. */
CLATTN_API clattn_status clattn_gemm_plan_describe(const clattn_gemm_plan *plan, char *text, size_t size);

/* As clattn_enqueue. INVALID_ARGUMENT, INVALID_OPERAND, OUT_OF_MEMORY, DEVICE_ERROR. */
CLATTN_INLINE clattn_status clattn_gemm_enqueue(clattn_gemm_plan *plan, cl_command_queue queue,
                                                const clattn_gemm_call *call, uint32_t n_wait, const cl_event *wait,
                                                cl_event *event);

/* ---- The sizes of structs ----------------------------------------------------------------------------------- */

/* The functions that the inline functions above call. A size is that of the program's struct, which also serves
 * bindings to other languages. If it is less than the library's, the further fields count as zero or are not written.
 * If it is greater, the further fields must be zero (INVALID_DESC, INVALID_ARGUMENT), or are set to zero. */
CLATTN_API clattn_status clattn_rule_describe_sized(clattn_rule rule, clattn_rule_info *info, size_t info_size);
CLATTN_API clattn_status clattn_plan_desc_complete_sized(clattn_plan_desc *full, const clattn_plan_desc *desc,
                                                         size_t desc_size, clattn_log_fn log, void *log_user);
CLATTN_API clattn_status clattn_operand_describe_sized(const clattn_plan_desc *desc, size_t desc_size,
                                                       clattn_operand_id id, clattn_operand_info *info,
                                                       size_t info_size);
CLATTN_API clattn_status clattn_reference_sized(const clattn_plan_desc *desc, size_t desc_size, const clattn_call *call,
                                                size_t call_size, size_t operand_size, clattn_log_fn log,
                                                void *log_user);
CLATTN_API clattn_status clattn_state_fold_sized(const clattn_plan_desc *desc, size_t desc_size,
                                                 const clattn_state_parts *state, const clattn_state_parts *summary,
                                                 clattn_log_fn log, void *log_user);
CLATTN_API clattn_status clattn_devices_sized(clattn_device_info *infos, size_t infos_size, size_t capacity,
                                              size_t *count);
CLATTN_API clattn_status clattn_context_create_sized(clattn_context **context, const clattn_context_desc *desc,
                                                     size_t desc_size);
CLATTN_API clattn_status clattn_supports_sized(clattn_context *context, const clattn_plan_desc *desc, size_t desc_size);
CLATTN_API clattn_status clattn_plan_create_sized(clattn_plan **plan, clattn_context *context,
                                                  const clattn_plan_desc *desc, size_t desc_size);
CLATTN_API clattn_status clattn_plan_get_sized(const clattn_plan *plan, clattn_plan_info *info, size_t info_size);
CLATTN_API clattn_status clattn_enqueue_sized(clattn_plan *plan, cl_command_queue queue, const clattn_call *call,
                                              size_t call_size, size_t operand_size, uint32_t n_wait,
                                              const cl_event *wait, cl_event *event);
CLATTN_API clattn_status clattn_run_sized(clattn_plan *plan, const clattn_call *call, size_t call_size,
                                          size_t operand_size);

CLATTN_API clattn_status clattn_gemm_plan_create_sized(clattn_gemm_plan **plan, clattn_context *context,
                                                       const clattn_gemm_desc *desc, size_t desc_size);
CLATTN_API clattn_status clattn_gemm_plan_get_sized(const clattn_gemm_plan *plan, clattn_gemm_info *info,
                                                    size_t info_size);
CLATTN_API clattn_status clattn_gemm_enqueue_sized(clattn_gemm_plan *plan, cl_command_queue queue,
                                                   const clattn_gemm_call *call, size_t call_size, uint32_t n_wait,
                                                   const cl_event *wait, cl_event *event);

CLATTN_INLINE clattn_status clattn_rule_describe(clattn_rule rule, clattn_rule_info *info)
{
    return clattn_rule_describe_sized(rule, info, sizeof *info);
}

CLATTN_INLINE clattn_status clattn_plan_desc_complete(clattn_plan_desc *full, const clattn_plan_desc *desc,
                                                      clattn_log_fn log, void *log_user)
{
    return clattn_plan_desc_complete_sized(full, desc, sizeof *desc, log, log_user);
}

CLATTN_INLINE clattn_status clattn_operand_describe(const clattn_plan_desc *desc, clattn_operand_id id,
                                                    clattn_operand_info *info)
{
    return clattn_operand_describe_sized(desc, sizeof *desc, id, info, sizeof *info);
}

CLATTN_INLINE clattn_status clattn_reference(const clattn_plan_desc *desc, const clattn_call *call, clattn_log_fn log,
                                             void *log_user)
{
    return clattn_reference_sized(desc, sizeof *desc, call, sizeof *call, sizeof(clattn_operand), log, log_user);
}

CLATTN_INLINE clattn_status clattn_state_fold(const clattn_plan_desc *desc, const clattn_state_parts *state,
                                              const clattn_state_parts *summary, clattn_log_fn log, void *log_user)
{
    return clattn_state_fold_sized(desc, sizeof *desc, state, summary, log, log_user);
}

CLATTN_INLINE clattn_status clattn_devices(clattn_device_info *infos, size_t capacity, size_t *count)
{
    return clattn_devices_sized(infos, sizeof *infos, capacity, count);
}

CLATTN_INLINE clattn_status clattn_context_create(clattn_context **context, const clattn_context_desc *desc)
{
    return clattn_context_create_sized(context, desc, sizeof *desc);
}

CLATTN_INLINE clattn_status clattn_supports(clattn_context *context, const clattn_plan_desc *desc)
{
    return clattn_supports_sized(context, desc, sizeof *desc);
}

CLATTN_INLINE clattn_status clattn_plan_create(clattn_plan **plan, clattn_context *context,
                                               const clattn_plan_desc *desc)
{
    return clattn_plan_create_sized(plan, context, desc, sizeof *desc);
}

CLATTN_INLINE clattn_status clattn_plan_get(const clattn_plan *plan, clattn_plan_info *info)
{
    return clattn_plan_get_sized(plan, info, sizeof *info);
}

CLATTN_INLINE clattn_status clattn_enqueue(clattn_plan *plan, cl_command_queue queue, const clattn_call *call,
                                           uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    return clattn_enqueue_sized(plan, queue, call, sizeof *call, sizeof(clattn_operand), n_wait, wait, event);
}

CLATTN_INLINE clattn_status clattn_run(clattn_plan *plan, const clattn_call *call)
{
    return clattn_run_sized(plan, call, sizeof *call, sizeof(clattn_operand));
}

CLATTN_INLINE clattn_status clattn_gemm_plan_create(clattn_gemm_plan **plan, clattn_context *context,
                                                    const clattn_gemm_desc *desc)
{
    return clattn_gemm_plan_create_sized(plan, context, desc, sizeof *desc);
}

CLATTN_INLINE clattn_status clattn_gemm_plan_get(const clattn_gemm_plan *plan, clattn_gemm_info *info)
{
    return clattn_gemm_plan_get_sized(plan, info, sizeof *info);
}

CLATTN_INLINE clattn_status clattn_gemm_enqueue(clattn_gemm_plan *plan, cl_command_queue queue,
                                                const clattn_gemm_call *call, uint32_t n_wait, const cl_event *wait,
                                                cl_event *event)
{
    return clattn_gemm_enqueue_sized(plan, queue, call, sizeof *call, n_wait, wait, event);
}

#ifdef __cplusplus
}
#endif

#endif
