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
 * The state of some rules is a list instead, of every key and value so far, and the read a softmax over it:
 *
 *     b_j <- b_j + g          decay, of every key j before
 *     o  = sum_j p_j v_j      p_j = e^(scale q.k_j + b_j) / sum of these over the keys that are seen
 *
 * and of path_attn every key before is erased from, k_j <- k_j - e (p^T k_j), ahead of the read; deltaformer writes
 * u = v - beta sum_j p_j u_j over the keys before in the place of v.
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
 *     clattn_operand operands[] = {
 *         {CLATTN_Q, .buffer = q}, {CLATTN_K, .buffer = k},       {CLATTN_V, .buffer = v},
 *         {CLATTN_G, .buffer = g}, {CLATTN_BETA, .buffer = beta}, {CLATTN_O, .buffer = o}};
 *     clattn_enqueue(plan, queue, &(clattn_call){.operands = operands, .operand_count = 6, .seq_len = 1000,
 *         .workspace = workspace}, 0, NULL, NULL);
 *
 * Conventions: a desc is zero-initialised and zero means the default; every function that can fail returns a
 * clattn_status; nothing prints, aborts or keeps process-wide state; destroy functions take NULL. Functions without a
 * word about threads may be called from any number of them at once. */
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

/* Structs grow at their end only, and enum values never move. The functions marked CLATTN_INLINE are defined at the
 * end of this header and tell the library how large the program's structs are: so a program goes on with every
 * later library of the same soname, and what an older library does not know it refuses unless it is zero. */
#define CLATTN_INLINE static inline

/* OpenCL's handles, declared as CL/cl.h declares them, so that a program without OpenCL headers can use clattn. */
typedef struct _cl_context *cl_context;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_event *cl_event;

/* The version of the library that runs, as "major.minor.patch", and as CLATTN_VERSION is written. */
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

/* A short English text for a status; never NULL. */
CLATTN_API const char *clattn_status_text(clattn_status status);

typedef enum clattn_log_level { CLATTN_LOG_ERROR = 0, CLATTN_LOG_WARNING = 1, CLATTN_LOG_INFO = 2 } clattn_log_level;

/* Receives one line without a newline. Errors name the operand or field that is wrong and the numbers that clash.
 * May be called from any thread that calls clattn. Callbacks run outside all locks: they may call clattn themselves. */
typedef void (*clattn_log_fn)(void *user, clattn_log_level level, const char *message);

/* ---- Rules -------------------------------------------------------------------------------------------------- */

/* X(NAME, value): the one list of rules. A new one comes last. */
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
    X(SHORT_CONV, 27) /* a piece: what models have around these; so are the next four */                               \
    X(RMS_NORM, 28)                                                                                                    \
    X(GATES, 29)                                                                                                       \
    X(ROPE, 30)                                                                                                        \
    X(FEATURES, 31)                                                                                                    \
    X(SSD, 32)                                                                                                         \
    X(LACT, 33) /* a learner: its state is the weights of a network, which tokens train in large batches */

/* What surprises those who know the originals:
 * DELTAFORMER      without CLATTN_WITH_P p is k, as in the paper; flash-linear-attention's code writes u by
 *                  softmax(q.k): give it p = q.
 * PATH_ATTN        its gate is within the scale, as flash-linear-attention has it: scale (q.k + b);
 * FORGETTING_ATTN  and this one's is not: scale q.k + b.
 * FEATURES         FAVOR takes no maximum from the exponents of keys, and from those of queries only their row's, with
 *                  CLATTN_OF_QUERIES; eps is added after the exponential. Performer's authors take one of all keys as well.
 * LACT             CLATTN_MUON_NONE adds a step as it is; its authors' muon_update_steps = 0 divides it by its norm.
 * MAMBA            a head has up to 256 channels: of more give heads of 256, with qk_heads 1. Falcon-Mamba normalises
 *                  B, C and dt: that is rms_norm's to do, ahead of this rule.
 *                  S4D is a zero-order hold: with B its input matrix, k = B (e^(dt a) - 1) / (a dt), a and k complex.
 * HGRN, LRU, MAMBA, FULL_GATE, and state_window of any rule: CLATTN_MODE_CHUNK is UNSUPPORTED, AUTO takes them. */
typedef enum clattn_rule {
    CLATTN_RULE_NONE = 0,
#define CLATTN_RULE_ENUM(NAME, value) CLATTN_##NAME = value,
    CLATTN_RULES(CLATTN_RULE_ENUM)
#undef CLATTN_RULE_ENUM
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
CLATTN_INLINE clattn_status clattn_rule_describe(clattn_rule rule, clattn_rule_info *info);
/* The rule of that name or alias, or CLATTN_RULE_NONE. */
CLATTN_API clattn_rule clattn_rule_find(const char *name);

/* ---- Problem ------------------------------------------------------------------------------------------------ */

typedef enum clattn_dtype { CLATTN_F32 = 0, CLATTN_F16 = 1, CLATTN_BF16 = 2 } clattn_dtype;

typedef enum clattn_mode {
    CLATTN_MODE_AUTO = 0,
    CLATTN_MODE_RECURRENT = 1, /* token by token; UNSUPPORTED for rules of a list, where CHUNK takes one token, too, and
                                  for lact */
    CLATTN_MODE_CHUNK = 2      /* chunks of tokens, each worked as matrix products; UNSUPPORTED for hgrn, lru, mamba and
                                  full_gate, whose elements of the state have a decay each, and for pieces */
} clattn_mode;
/* A token's operands reach no earlier token's output (but see CLATTN_REVERSED, CLATTN_NONCAUSAL), no other sequence or
 * batch element, and no head but those that read them, even where they are NaN, infinite, or overflow: all else has the
 * same bits as without. One exception: on a matrix engine, f32 on those that multiply floats included, chunk mode,
 * which AUTO may choose, multiplies whole tiles, where 0 times NaN or infinity is NaN. There such a token may make the
 * outputs of earlier tokens of its own chunk NaN, and a later token's gates and keys may decide how these are rounded;
 * chunks before have the same bits, but for a list's where a chunk is no multiple of 16 (64 where the kernel flash_team
 * reads): there such a token may make the 15 (63) tokens before it NaN in the chunk before, too. Chunks are counted from the beginning
 * of each sequence; clattn_plan_describe says how many tokens (of gated_delta_product writes) one has, and which kernels
 * are the engine's. Of a list with a window, on any
 * device, values that are not finite may also reach later tokens, whose windows they have just left.
 * Packed sequences of a list have the bits that each has alone, in solvers flash, flash_matrix, flash_team, path, path_matrix,
 * path_team, delta, delta_matrix and delta_team with tiles by rule of thumb, whatever the lengths. In the others (decode, path_decode, flash_blocks,
 * flash_matrix_blocks: a plan's lengths decide on their parts and tiles), with measured tiles, and where one plan has
 * another solver than the other, they are the same but for rounding. */

/* Applied to q and k by linear_attn, after any l2 normalisation. */
typedef enum clattn_feature_map {
    CLATTN_FEATURE_IDENTITY = 0,
    CLATTN_FEATURE_ELU1 = 1, /* elu(x) + 1 */
    CLATTN_FEATURE_RELU = 2
} clattn_feature_map;

/* lightning_attn: the decay of each head. */
typedef enum clattn_slopes {
    CLATTN_SLOPES_LIGHTNING = 0, /* e^(-(8/H)(1 - layer/layers) h) */
    CLATTN_SLOPES_MINIMAX = 1 /* e^(-2^(-8(h+1)/H)(1 - layer/(layers - 1 + 1e-5) + 1e-5)): MiniMax-01, with scale 1 */
} clattn_slopes;

/* short_conv: what its sum is mapped by. */
typedef enum clattn_activation {
    CLATTN_ACTIVATION_SILU = 0, /* x / (1 + e^-x) */
    CLATTN_ACTIVATION_NONE = 1
} clattn_activation;

/* rms_norm: which weights there are. */
typedef enum clattn_weighting {
    CLATTN_WEIGHTING_SHARED = 0, /* w is [V], the same for all heads */
    CLATTN_WEIGHTING_HEADS = 1,  /* w is [H,V] */
    CLATTN_WEIGHTING_NONE = 2    /* there is no w */
} clattn_weighting;

/* rms_norm with CLATTN_WITH_Z: where z gates. */
typedef enum clattn_gating {
    CLATTN_GATING_AFTER = 0,  /* o o silu(z), the last of all */
    CLATTN_GATING_BEFORE = 1, /* v o silu(z) is what is normalised: Mamba-2's norm_before_gate = False */
    CLATTN_GATING_SIGMOID = 2 /* o o sigmoid(z), the last of all: KDA */
} clattn_gating;

/* features: of y = omega v, m numbers; omega is random, or learned. */
typedef enum clattn_features {
    CLATTN_FEATURES_FAVOR = 0,   /* m^(-1/2) (e^(y - |x|^2/2) + eps), x = V^(-1/4) v in the place of v: Performer */
    CLATTN_FEATURES_RFA = 1,     /* m^(-1/2) [sin y, cos y] of v rsqrt(sum v^2 + 1e-6): Peng et al., arXiv:2103.02143 */
    CLATTN_FEATURES_HEDGEHOG = 2 /* [softmax y, softmax -y]: Zhang et al. 2024, arXiv:2402.04347 */
} clattn_features;

/* lact: what is made of a step D before it is added. But for NONE five steps of Newton and Schulz, X = D / (|D| + 1e-7),
 * X <- a X + (b A + c A^2) X, A = X X^T, of X^T where it has more rows than columns: a matrix whose singular values
 * are all near 1 (Jordan et al. 2024, Muon). D should have directions for all of its rows or columns, of at least that
 * many tokens: those that it lacks are of rounding, and grow up to 490 times. */
typedef enum clattn_muon {
    CLATTN_MUON_NONE = 0,  /* D itself */
    CLATTN_MUON_FIVE = 1,  /* other a, b, c in each step, those of LaCT's authors: singular values 0.98 to 1.03 */
    CLATTN_MUON_KELLER = 2 /* (3.4445, -4.7750, 2.0315) in all: 0.68 to 1.13 */
} clattn_muon;

/* Rules of a list: what a score x = scale q.k weighs. Others than softmax have no denominator: no gate, sink or lse. */
typedef enum clattn_weights {
    CLATTN_WEIGHTS_SOFTMAX = 0,
    CLATTN_WEIGHTS_LINEAR = 1, /* x */
    CLATTN_WEIGHTS_RELU = 2,   /* max(x, 0) */
    CLATTN_WEIGHTS_ROUND = 3,  /* floor(x + 1/2) */
    CLATTN_WEIGHTS_FLOOR = 4   /* floor(x) */
} clattn_weights;

/* What the operand of a rule's log-decay holds, where a model's kernels make the decay of it. x is the number with dt_bias
 * added, r = e^a_log of its head; each is 0 and 1 where CLATTN_WITH_DT_BIAS and CLATTN_WITH_A_LOG are not given. Of rules
 * with a decay of a head or a key channel for each token; gv stays a log-decay. The piece gates makes the same of v,
 * times scale: its 0 is SOFTPLUS, with scale -1 the steps dt of Mamba; SIGMOID is beta, gate_scale any number. */
typedef enum clattn_gate_map {
    CLATTN_GATE_MAP_LOG = 0,      /* the log-decay */
    CLATTN_GATE_MAP_SOFTPLUS = 1, /* it is -r log(1 + e^x): Mamba-2, Gated DeltaNet (arXiv:2412.06464), Kimi Linear */
    CLATTN_GATE_MAP_SIGMOID = 2,  /* gate_scale / (1 + e^(-r x)): Kimi Linear's (arXiv:2510.26692) with a lower bound */
    CLATTN_GATE_MAP_LOGSIGMOID = 3, /* -gate_scale log(1 + e^-x): forget gates; GLA (arXiv:2312.06635) with 1/16 */
    CLATTN_GATE_MAP_EXP = 4         /* -e^x: RWKV-6 (arXiv:2404.05892) */
} clattn_gate_map;

/* And of beta, where it is a strength of rules of a state */
typedef enum clattn_beta_map {
    CLATTN_BETA_STRENGTH = 0,
    CLATTN_BETA_SIGMOID = 1,       /* 1 / (1 + e^-beta) */
    CLATTN_BETA_TWICE_SIGMOID = 2, /* twice that: eigenvalues below 0, Grazzi et al. 2024, arXiv:2411.12537 */
    CLATTN_BETA_SOFTPLUS = 3       /* ssd: log(1 + e^beta), dt_bias added where it is given: Mamba-2's step dt */
} clattn_beta_map;

/* The bits of a plan desc's flags. They are 64, and macros: an enumerator of C11 is an int. */
#define CLATTN_FLAG(bit) (UINT64_C(1) << (bit))
#define CLATTN_QK_L2NORM CLATTN_FLAG(0)        /* rows of q, k and p times rsqrt(sum x^2 + 1e-6) before use */
#define CLATTN_NORMALIZE CLATTN_FLAG(1)        /* linear_attn: o /= (scale q)^T z + 1e-10, z = sum of k so far */
#define CLATTN_STATE_VK CLATTN_FLAG(2)         /* states are stored [sequences, heads, value_dim, key_dim] */
#define CLATTN_GATE_PER_HEAD CLATTN_FLAG(3)    /* simple_gla, gla: g is [H] or [H,K], the same for every token */
#define CLATTN_VALUE_GATE CLATTN_FLAG(4)       /* gla: the operand gv decays the value dimension too */
#define CLATTN_UNGATED CLATTN_FLAG(5)          /* gated_delta_product, path_attn: without g */
#define CLATTN_INITIAL_STATE CLATTN_FLAG(6)    /* states start from the initial_… operands, not from zero */
#define CLATTN_FINAL_STATE CLATTN_FLAG(7)      /* the final_… operands are written */
#define CLATTN_CU_SEQLENS CLATTN_FLAG(8)       /* batch is 1, and seq_len tokens are sequences, cut by cu_seqlens */
#define CLATTN_CU_SEQLENS_INT64 CLATTN_FLAG(9) /* with CLATTN_CU_SEQLENS: its elements are int64, not int32 */
#define CLATTN_WITH_SINK CLATTN_FLAG(10)       /* rules of a list: the operand sink is read */
#define CLATTN_WITH_LSE CLATTN_FLAG(11)        /* rules of a list: the operand lse is written */
/* softmax_attn, alibi_attn, forgetting_attn, with kv_len: kv_lens is read. */
#define CLATTN_WITH_KV_LENS CLATTN_FLAG(12)
/* Rules of a list, with kv_len: its keys are cut by cu_seqlens_kv, not as q is. */
#define CLATTN_CU_SEQLENS_KV CLATTN_FLAG(13)
#define CLATTN_WITH_P CLATTN_FLAG(14)       /* deltaformer: the operand p is read, else k in its place (the paper's) */
#define CLATTN_WITH_BETA CLATTN_FLAG(15)    /* deltaformer: the operand beta is read, else 1 */
#define CLATTN_WITH_WRITTEN CLATTN_FLAG(16) /* deltaformer: the operand written is written */
/* softmax_attn, alibi_attn, forgetting_attn, with kv_len: k_new and v_new are written into k and v first, where their
 * queries stand; of tokens ahead of the first key nothing. */
#define CLATTN_APPEND CLATTN_FLAG(17)
/* Rules of a state: each sequence from its last token to its first, as if operands of tokens (of gated_delta_product,
 * of writes) lay the other way round; without attn. */
#define CLATTN_REVERSED CLATTN_FLAG(18)
/* linear_attn: all tokens of a sequence read the state after its last one, so that each sees the others (encoders);
 * INVALID_DESC with attn, states on the way or state_indices, UNSUPPORTED on devices with states of 16 bits.
 * lact: learned from all tokens at once, then all are read. */
#define CLATTN_NONCAUSAL CLATTN_FLAG(19)
#define CLATTN_SOFTPLUS CLATTN_FLAG(20)     /* mamba: log(1 + e^dt) in the place of dt, dt_bias included */
#define CLATTN_WITH_DT_BIAS CLATTN_FLAG(21) /* mamba: dt_bias is added to dt; with a gate_map, to the gate */
#define CLATTN_WITH_D CLATTN_FLAG(22)       /* mamba: o += d o v; rms_norm: v + d o u is what is normalised */
#define CLATTN_WITH_Z CLATTN_FLAG(23)       /* mamba: o = o o silu(z), the last of all; rms_norm: see gating */
/* mamba: channels 2n and 2n+1 of q, k, a and the state are a complex one's real and imaginary part, key_dim is even;
 * o = 2 Re(S^T q). */
#define CLATTN_COMPLEX CLATTN_FLAG(24)
#define CLATTN_WITH_ATTN CLATTN_FLAG(25)          /* the operand attn is written */
#define CLATTN_HEADS_TILED CLATTN_FLAG(26)        /* rules of a state: head h reads h % HQ (h % HK), not h / (H / HQ) */
#define CLATTN_WITH_STATE_INDICES CLATTN_FLAG(27) /* rules of a state: they lie in a pool of state_slots */
#define CLATTN_WITH_A_LOG CLATTN_FLAG(28)         /* with gate_map SOFTPLUS or SIGMOID: the operand a_log is read */
/* path_attn: k is written, too, after it was read: every key as it is after the last token, so that the next call's
 * tail begins anew. See tail. */
#define CLATTN_CARRY CLATTN_FLAG(29)
/* Rules with q and k: these and p turn with their tokens' positions, ahead of all else, as the piece rope turns rows:
 * see rope_base. */
#define CLATTN_WITH_ROPE CLATTN_FLAG(30)
/* The piece rope, and with CLATTN_WITH_ROPE: columns 2n and 2n+1 are a pair (RetNet), not n and n + rope_dim/2. */
#define CLATTN_INTERLEAVED CLATTN_FLAG(31)
#define CLATTN_WITH_POSITION CLATTN_FLAG(32) /* the same: the operand position is read */
#define CLATTN_TURNED_BACK CLATTN_FLAG(33)   /* the same: by minus the angle, which undoes it and is its gradient */
#define CLATTN_WITH_BIAS CLATTN_FLAG(34)     /* short_conv: the operand bias is added ahead of the activation */
#define CLATTN_RESIDUAL CLATTN_FLAG(35)      /* short_conv: o += v, the last of all (Canon layers) */
#define CLATTN_CENTERED CLATTN_FLAG(36)      /* rms_norm: 1 + w in the place of w */
#define CLATTN_EPS_OUTSIDE CLATTN_FLAG(37)   /* rms_norm: x / (sqrt(mean(x^2)) + eps): eps is added to the root */
/* features, FAVOR: less the largest y of the row, which the denominator takes away again. */
#define CLATTN_OF_QUERIES CLATTN_FLAG(38)
#define CLATTN_PRE_NORM CLATTN_FLAG(39) /* lact: steps go to sums of their own, and w is what these are scaled to */
#define CLATTN_WITH_MOMENTUM CLATTN_FLAG(40) /* lact: the operand momentum is read */
/* path_attn: q_i becomes H_1 … H_i q_i and k_j H_1 … H_j k_j, H_m = I - beta_m w_m w_m^T, which is x less what delta_rule
 * of scale 1 makes of x, w and w; these are read as forgetting_attn reads, the bias within the scale. It is what
 * path_attn computes without where every beta |w|^2 is 2, and something else elsewhere. Not with tail or
 * CLATTN_CARRY. */
#define CLATTN_ABSOLUTE CLATTN_FLAG(41)

/* ---- Operands ----------------------------------------------------------------------------------------------- */

/* X(ID, name, value, shape): the one list of operands; CLATTN_Q … are their ids, and the names are those in files and
 * messages. B batch, T tokens, H value heads, HQ query/key heads, K key_dim, V value_dim, N sequences (B without
 * cu_seqlens), n steps. States are f32 unless operand_types says otherwise; normalizers, stabilizers, lse, sink, mamba's
 * a, d, dt_bias, a_log and lru's gv, theta are always. For N-shaped operands batch_stride steps the sequence. hgrn and lru have
 * no q and k: their state is a row of V, K is 1; lru's v, o and state are pairs of a real and an imaginary part, V is
 * even.
 * With kv_heads below heads only q and o of rules of a state have H heads, and all else HK in the place of HQ and H.
 * Rules of a list have HK key/value heads and TK tokens of keys: their q is [B,T,H,K], k [B,TK,HK,K], v [B,TK,HK,V],
 * g [B,TK,H]. sink: Xiao et al. 2023, arXiv:2309.17453; lse, which joins parts of a list: Dao et al. 2022,
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
    X(LSE, lse, 23, "[B,T,H]: natural log of the softmax's denominator, sink included; -inf of nothing")               \
    X(KV_LENS, kv_lens, 24, "[N]: i32, how many of a sequence's keys there are: its last query stands at the last")    \
    X(SEQLENS_KV, cu_seqlens_kv, 25, "[N+1]: where the keys of packed sequences begin and end, of cu_seqlens' type")   \
    X(WRITTEN, written, 26, "[B,TK,HK,V]: u, what deltaformer writes in the place of v")                               \
    X(K_NEW, k_new, 27, "[B,T,HK,K]: keys of the call's own tokens, which CLATTN_APPEND writes into k")                \
    X(V_NEW, v_new, 28, "[B,T,HK,V]: their values")                                                                    \
    X(THETA, theta, 29, "[H,V/2]: angle of a complex decay")                                                           \
    X(DT, dt, 30, "[B,T,H,V]: step size of mamba")                                                                     \
    X(DT_BIAS, dt_bias, 31, "[H,V]: added to dt, or to v of gates; with gate_map [H] or [H,K], to the gate")           \
    X(D, d, 32, "[H,V]: what mamba's output has of v itself, and rms_norm's input of u")                               \
    X(Z, z, 33, "[B,T,H,V]: gate of mamba's output")                                                                   \
    X(STATE_INDICES, state_indices, 34,                                                                                \
      "[N]: i32, each sequence's state in the pool; below 0 or past it: from zero to nowhere")                         \
    X(STATES, states, 35, "[N,W,H,K*V]: the states after the last W tokens, or after every so many")                   \
    X(BIAS, bias, 36, "[H,V]: added to what short_conv sums")                                                          \
    X(A_LOG, a_log, 37, "[H]: log of the rate of gate_map: of minus a step of 1")                                      \
    X(ATTN, attn, 38, "[B,H,T,T*n], of a list [B,H,T,TK]: the attention matrix, o = attn v")                           \
    X(POSITION, position, 39, "[N]: i32, where each sequence's first token stands, for rope; 0 without")               \
    X(OMEGA, omega, 40, "[H,m,V]: rows of features; m is K, and K/2 of those that come in pairs")                      \
    X(W0, w0, 41, "[N,H,F,K]: f32, weights of lact, f(x) = w1 (silu(w0 x) o (w2 x)), as they are at first")            \
    X(W1, w1, 42, "[N,H,V,F]: f32")                                                                                    \
    X(W2, w2, 43, "[N,H,F,K]: f32")                                                                                    \
    X(FINAL_W0, final_w0, 44, "like w0, after all whole batches; may be the same memory")                              \
    X(FINAL_W1, final_w1, 45, "like w1; may be the same memory")                                                       \
    X(FINAL_W2, final_w2, 46, "like w2; may be the same memory")                                                       \
    X(LR0, lr0, 47, "[B,T,H]: the rate of each token's share in the step of w0")                                       \
    X(LR1, lr1, 48, "[B,T,H]: of w1")                                                                                  \
    X(LR2, lr2, 49, "[B,T,H]: of w2")                                                                                  \
    X(MOMENTUM, momentum, 50, "[B,T,H]: its mean over a batch is what a step keeps of the one before")

typedef enum clattn_operand_id {
    CLATTN_OPERAND_NONE = 0,
#define CLATTN_OPERAND_ENUM(ID, name, value, shape) CLATTN_##ID = value,
    CLATTN_OPERANDS(CLATTN_OPERAND_ENUM)
#undef CLATTN_OPERAND_ENUM
        CLATTN_GRADIENTS = 256
} clattn_operand_id;

/* The gradient of a loss by an operand: "d_q" in files and messages. See clattn_pass. */
#define CLATTN_GRAD(id) ((clattn_operand_id)(CLATTN_GRADIENTS + (id)))

/* One operand of a call: which, and where it lies. The last dimension is contiguous. Strides are in elements; all three
 * zero means the contiguous tensor of the operand's shape. An output's strides must keep its elements apart: each steps
 * over all that the smaller ones reach. The token stride of states, which steps from one state to the next, may be
 * negative: the newest then lies first, and offset is the oldest's.
 * attn is the whole attention matrix, f32, to look at: what each output has of each v, inverse, gates, strengths, scale
 * and denominator included, so that o = attn v, and what an initial state gives beside. Of packed sequences it is 0
 * outside of their own squares. T*n and TK are up to 8192. Rules whose value columns have a matrix each have none:
 * INVALID_DESC with gdn2's write gate, with gv, and for hgrn, lru, mamba and full_gate. As v gives o linearly, it is what
 * the rule makes of unit vectors: token by token, or of a list by blocks; of deltaformer by the reference alone. */
typedef struct clattn_operand {
    clattn_operand_id id;
    cl_mem buffer; /* for clattn_enqueue: of the plan's cl_context */
    void *host;    /* for clattn_run and clattn_reference, at any address; never written for an input */
    size_t offset; /* of the first element, in bytes; a multiple of the element's size */
    size_t size;   /* bytes available from offset on; 0: not checked, or for a buffer all that it has */
    int64_t batch_stride, token_stride, head_stride;
} clattn_operand;

#define CLATTN_WHOLE (-1)

/* What a call works on: every operand that the plan uses and no other, in any order. Nothing of it is kept. */
typedef struct clattn_call {
    const clattn_operand *operands;
    size_t operand_count;
    /* Of this call, up to the plan's. seq_len: CLATTN_WHOLE for the plan's; 0 tokens are none: o is not touched, final
     * states are the initial ones, keys are carried where that is asked for, and operands without elements may lack
     * memory or not be given. batch and sequences: 0 for the plan's. */
    int64_t seq_len, batch, sequences;
    /* For clattn_enqueue: clattn_plan_workspace_size bytes. */
    cl_mem workspace;
    size_t workspace_offset; /* bytes, a multiple of 16 */
    size_t workspace_size;   /* bytes available from there on; 0: all that the buffer has */
    /* Tokens of keys in this call, up to the plan's; 0: the plan's. A cache that has room for more is given with its
     * strides: without, k, v and g are taken to be of that length. */
    int64_t kv_len;
    /* Rows of w and beta in this call, of a plan with a tail: seq_len to kv_len; 0: the plan's, or kv_len where that is
     * less. */
    int64_t tail;
} clattn_call;

/* ---- Plan descriptions -------------------------------------------------------------------------------------- */

/* What a desc computes.
 *
 * CLATTN_PASS_BACKWARD: the gradients of a loss by the inputs, of the rules that multiply queries with a state (not of
 * lists, channels and pieces). Operands are the inputs of the forward pass; o as it computed it where o is divided
 * (normalize, mlstm); CLATTN_GRAD(CLATTN_O), and with CLATTN_FINAL_STATE the gradients by final_state and
 * final_normalizer, [N,…] in f32. Written are CLATTN_GRAD of every input that is a tensor of numbers: in the input's shape
 * and type, those by initial_state and initial_normalizer [N,…] in f32, of a pool, too. What several heads, tokens or
 * sequences share has the sum of their gradients. mlstm's stabilizers are constants, of which o does not depend; they
 * have no gradient, and those by its states are at fixed stabilizers. A gate of -inf has the gradient 0.
 * Katharopoulos et al. 2020, arXiv:2006.16236 (the sum's), and the reverse of each rule's recurrence.
 *
 * The reference computes it; plans are UNSUPPORTED so far. INVALID_DESC with attn, state_window and state_every. */
typedef enum clattn_pass { CLATTN_PASS_FORWARD = 0, CLATTN_PASS_BACKWARD = 1 } clattn_pass;

typedef struct clattn_operand_type {
    clattn_operand_id id;
    clattn_dtype dtype;
} clattn_operand_type;

/* What to compute. batch, seq_len and sequences are maxima for a plan. What published models want beside the defaults:
 * RWKV-6 scale 1, MiniMax-01 slopes CLATTN_SLOPES_MINIMAX and scale 1, xLSTM eps 1e-6. */
typedef struct clattn_plan_desc {
    clattn_rule rule; /* required */
    clattn_dtype
        dtype; /* storage of q, k, v, o, written, dt, z, rms_norm's u and the vectors p, a, b (dplr, iplr, rwkv7) */
    clattn_dtype gate_dtype; /* storage of g, gv, beta, f, i, u, w and of gdn2's b, lr0 …, momentum; f32 by default */
    clattn_mode mode;
    uint64_t flags;    /* CLATTN_QK_L2NORM … */
    int64_t batch;     /* 0: 1 */
    int64_t seq_len;   /* tokens; required */
    int64_t sequences; /* with CLATTN_CU_SEQLENS: N, cu_seqlens has N + 1 entries; else 0 */
    int64_t heads;     /* value heads H; required */
    int64_t qk_heads;  /* query/key heads, divides heads; head h reads h / (H / HQ); 0: heads. See kv_heads */
    int64_t key_dim,
        value_dim; /* 1 to 256, of lact to 1024; required, key_dim not of pieces and rules without keys: 1 */
    double scale;  /* multiplies q; 0: 1/sqrt(key_dim), and 1 for rwkv7, hgrn, lru, mamba and ssd */
    double eps;    /* mlstm: o = S^T q / (max(|n^T q|, e^-m) + eps); 0 to 1e30 */
    int32_t chunk; /* tokens per chunk, 0: the device's best; else a hint: of 8, 16, 32 and 64 the
                                       nearest that the device has is taken, and clattn_plan_info has it */
    clattn_feature_map feature_map; /* linear_attn */
    clattn_slopes slopes;           /* lightning_attn */
    int32_t layer, layers;          /* lightning_attn: layer of layers, from 0; 0 layers: 1 */
    int32_t steps;                  /* gated_delta_product: writes per token n, k, v, beta have n rows a token; 0: 1 */
    /* Operands stored in another type than dtype and gate_dtype say, and initial_state, final_state and states in
     * another than f32. The reference takes any, plans only one type for q, k, v, o, written, p, a, b, one for the gates
     * and one for these states, and are UNSUPPORTED otherwise. */
    int32_t operand_type_count;
    clattn_operand_type operand_types[8];
    /* Grouped key/value heads: Ainslie et al. 2023, arXiv:2305.13245; qk_heads is heads then. Of a state, which several
     * heads of queries read, there are HK too; a plan runs its launches once for each of the H / HK. */
    int64_t kv_heads; /* divides heads; head h reads h / (H / HK); 0: heads */
    /* What follows is of rules of a list. */
    /* Tokens of keys and values, a maximum for a plan: a cache whose last seq_len tokens are those of q, so that query t
     * stands at position t + kv_len - seq_len and sees the keys up to it. Queries before the first key see none: o is 0,
     * lse -inf (or the sink's). 0: the tokens of q, in each call. With CLATTN_CU_SEQLENS it is 0, or with
     * CLATTN_CU_SEQLENS_KV the packed keys of all sequences together. With CLATTN_WITH_KV_LENS a sequence has the first
     * kv_lens of its keys and no others, from 0 on. */
    int64_t kv_len;
    int64_t window;        /* each query sees that many positions, its own among them; 0: all */
    clattn_weights kernel; /* softmax_attn, path_attn, deltaformer: of what is read */
    /* deltaformer: of what is written, u, which is stored in dtype. Weights other than softmax's have no sum that bounds
     * them: u may grow by a factor a token, past the 65504 of f16; bf16 and f32 have room, or a smaller scale. */
    clattn_weights write_kernel;
    /* Rules of a state. With CLATTN_WITH_STATE_INDICES initial_state, final_state and what goes with them have state_slots
     * states in the place of N, and sequence n the one that state_indices[n] says, read and written. An index below 0 or
     * past the pool is none: its sequence starts from zero, and its final state is not written. Several sequences may
     * have none, but no two the same state: clattn_reference and clattn_run refuse that with INVALID_OPERAND; after a
     * clattn_enqueue, which cannot see the indices, that state may be anything. */
    int64_t state_slots; /* 0: N */
    /* Not both: the operand states has each sequence's states after its last state_window tokens, the last of all
     * at the end; or after every state_every tokens, the first of all at the beginning. What a sequence is too short for
     * is not written. Of rules with a normalizer there are none; a window, and multiples that are none of a chunk, are for
     * mode recurrent, which AUTO takes then. */
    int64_t state_window, state_every;
    /* What follows is of pieces. Their v and o are [B,T,H,V], V up to 65536; there are no queries and keys. */
    int32_t taps;                 /* short_conv: W, 1 to 8; 0: 4 */
    clattn_activation activation; /* short_conv */
    clattn_weighting weighting;   /* rms_norm, whose eps is 1e-5 where it is 0 */
    clattn_gating gating;         /* rms_norm */
    /* Of rules again: gates as a model's projections leave them, mapped where a kernel loads them; and of the piece
     * gates, whose o is of the gates' type, a number a head where V is 1. */
    clattn_gate_map gate_map;
    clattn_beta_map beta_map;
    double gate_scale; /* SIGMOID: the lower bound, below 0; 0: -5. LOGSIGMOID: above 0; 0: 1. Else 0. Of gates 0: 1 */
    /* rope: pair n of the first rope_dim columns turns by t rope_base^(-2n/rope_dim), t the token's position, exact for
     * any. Of q and of k alike: their products then depend on i - j alone. With CLATTN_WITH_ROPE the same of the first
     * rope_dim channels of a rule's q, k and p, which a launch each writes turned, rounded to their type, into the
     * workspace; then they are normalised and mapped. t counts from the sequence's first token in memory, reversed or
     * not, and from position with CLATTN_WITH_POSITION; the n keys of a token of gated_delta_product stand where it does.
     * Other operands (a, b, u, w) are taken as they are. INVALID_DESC for rules without q and k, with kv_len or
     * CLATTN_CARRY (kept keys were turned as they were written: that is the piece's), with CLATTN_COMPLEX, and with
     * CLATTN_NORMALIZE but without a feature_map, for turned weights have both signs. */
    double rope_base; /* 0: 10000 */
    int32_t rope_dim; /* even, up to 1024; 0: value_dim, of rules key_dim */
    /* features: o is [B,T,H,K], key_dim features of a row, q or k of linear_attn with normalize. V and K up to 256; eps
     * is 1e-4 where it is 0. */
    clattn_features features;
    /* path_attn with kv_len, a cache of carried keys: the last `tail` tokens' keys are as projected, w and beta have
     * their rows alone (the last of them is the last token's), and every key before has lost what all tokens before
     * these erase, as a call with CLATTN_CARRY leaves it. Queries cross the tail, and read carried keys as softmax_attn
     * does. seq_len to kv_len, a maximum for a plan; 0: all keys are as projected. Not with cu_seqlens; neither it nor
     * CLATTN_CARRY with CLATTN_QK_L2NORM, as a carried key is not to be normalised again. */
    int64_t tail;
    /* lact, Zhang et al. 2025, Test-Time Training Done Right, arXiv:2505.23884; K, V and F up to 1024. A batch of
     * mini_batch tokens, counted from the sequence's first, is read, o = f(q), and then learned from, but for the last,
     * which is only read: of the loss -v.f(k) the gradients, each token's times its rate,
     *     dw1 = lr1 v h^T, dw0 = lr0 (dh o c o silu'(a)) k^T, dw2 = lr2 (dh o silu(a)) k^T,
     *     a = w0 k, c = w2 k, h = silu(a) o c, dh = w1^T v, all at the weights that the batch was read with;
     * D = their sums + mean(momentum) D, D of the batch before, at first 0; w += D, or what muon makes of it; then each
     * row of w is x / (|x| + 1e-5) times the norm that it had at first. final_w0 … are those after all whole batches, of
     * CLATTN_NONCAUSAL of all tokens: a call that goes on at a batch's end begins from them, and differs from a longer
     * one in that D and CLATTN_PRE_NORM's sums begin anew, and by 1e-5 of a norm. There are no packed sequences: INVALID_DESC.
     */
    int64_t hidden_dim; /* F, of w0, w1 and w2; 0: key_dim */
    int32_t mini_batch; /* 0: 2048 */
    clattn_muon muon;
    clattn_pass pass; /* what is computed: outputs, or gradients of inputs */
} clattn_plan_desc;

/* Fills *full with desc, every default made explicit, and checks it. INVALID_ARGUMENT, INVALID_DESC. log may be
 * NULL. */
CLATTN_INLINE clattn_status clattn_plan_desc_complete(clattn_plan_desc *full, const clattn_plan_desc *desc,
                                                      clattn_log_fn log, void *log_user);

/* What one operand of a problem must look like. rank is 0 for an operand that the problem does not use. */
typedef struct clattn_operand_info {
    const char *name;
    int64_t dims[4];      /* as in the list above, of the desc's lengths */
    int32_t rank;         /* number of dims */
    int32_t output;       /* written, not read */
    clattn_dtype dtype;   /* not for cu_seqlens, cu_seqlens_kv and kv_lens */
    int32_t element_size; /* bytes */
} clattn_operand_info;

/* The operand as a desc (completed or not) needs it. INVALID_ARGUMENT, INVALID_DESC. */
CLATTN_INLINE clattn_status clattn_operand_describe(const clattn_plan_desc *desc, clattn_operand_id id,
                                                    clattn_operand_info *info);

/* ---- The reference ------------------------------------------------------------------------------------------ */

/* Computes the problem on the host in double precision, token by token, on all cores: the oracle of clattn's tests and
 * the path for machines without OpenCL. Operands lie in .host, no workspace is needed, log may be NULL.
 * INVALID_ARGUMENT, INVALID_DESC, INVALID_OPERAND (cu_seqlens, cu_seqlens_kv and kv_lens are read and checked here, and
 * state_indices for two that are the same), OUT_OF_MEMORY. */
CLATTN_INLINE clattn_status clattn_reference(const clattn_plan_desc *desc, const clattn_call *call, clattn_log_fn log,
                                             void *log_user);

/* ---- Devices and contexts ----------------------------------------------------------------------------------- */

typedef struct clattn_device_info {
    cl_device_id device;
    char platform[64], name[128], driver[64], version[64]; /* UTF-8, cut to fit */
    int gpu;                                               /* 0: CPU or another device */
    uint32_t compute_units;
    uint64_t global_memory, local_memory, max_allocation; /* bytes */
    size_t max_work_group;                                /* work-items, in one dimension */
    const char *unusable; /* why no context can be made of it, static; NULL: it can be used */
} clattn_device_info;

/* Fills up to capacity infos and sets *count to the number of devices of this machine, best first: GPUs with memory of
 * their own, GPUs that share the host's, CPUs, other devices, emulators; of one kind by an estimate of the speed, which
 * is compute units, the lanes that the vendor's units have, and the clock. Where two platforms list one GPU its
 * vendor's comes first. Last are devices that cannot be used.
 * No OpenCL library: *count = 0 and NO_OPENCL. infos may be NULL with capacity 0. */
CLATTN_INLINE clattn_status clattn_devices(clattn_device_info *infos, size_t capacity, size_t *count);

typedef struct clattn_context clattn_context;

/* An application's own store of compiled programs, in the place of clattn's files. key is a name of 32 hexadecimal
 * digits. load copies the blob into data if size is large enough, and returns its size, or 0 where there is none; a
 * damaged or outdated blob does no harm. Both may be called from any thread that calls clattn, as the log is. */
typedef size_t (*clattn_blob_load_fn)(void *user, const char *key, void *data, size_t size);
typedef void (*clattn_blob_store_fn)(void *user, const char *key, const void *data, size_t size);

/* Flags of a context. */
enum {
    CLATTN_ISOLATED =
        1 << 0 /* nothing is read of the environment, and nothing read or written in the user's folders: only
                                what this desc names is used, beside what is compiled into the library */
};

/* Programs compiled for a device are kept on disk, and no process compiles again what another has compiled: in
 * cache_dir, else in the folder that the variable CLATTN_CACHE_DIR names, else in the user's
 * ($XDG_CACHE_HOME/clattn or the platform's equivalent). `clattn cache` lists and clears them. */
typedef struct clattn_context_desc {
    cl_context cl; /* retained; NULL: a context of clattn's own */
    /* NULL: the context's only device; without cl the machine's best, by the order of clattn_devices, that a context
     * can be made of: a line of the log (WARNING) names each that is passed over. One that is named here and cannot be
     * used is an error, NO_DEVICE, whose line says why. */
    cl_device_id device;
    clattn_log_fn log; /* NULL: silent */
    void *log_user;
    const char *cache_dir;           /* NULL: as said above; "": nothing is kept on disk */
    uint64_t cache_limit;            /* bytes that the folder may take, the least recently used go first; 0: 256 MiB */
    clattn_blob_load_fn blob_load;   /* not NULL: called instead of reading files */
    clattn_blob_store_fn blob_store; /* not NULL: called instead of writing files */
    void *blob_user;
    /* The matrix engine, by name: "none", or one that `clattn devices` shows; the *_emulated ones run on any
     * device, slowly, to check the kernels of devices that are not at hand. NULL: CLATTN_ENGINE of the environment,
     * or the device's own. */
    const char *engine;
    /* The file of measured parameters that `clattn tune` wrote; "": none, not even those compiled into the library.
     * NULL: what the variable CLATTN_TUNING names, or the user's. */
    const char *tuning;
    int32_t
        self_test;  /* of a plan's kernels: 1 yes, -1 no; 0: yes, unless the variable CLATTN_SELF_TEST is 0 or empty */
    uint32_t flags; /* CLATTN_ISOLATED */
    /* The file of CLBlast, for matrix products; "": it is not looked for. NULL: what the variable CLATTN_CLBLAST names,
     * or the library of the usual soname. */
    const char *clblast;
} clattn_context_desc;

/* desc may be NULL. INVALID_ARGUMENT, INVALID_DESC, NO_OPENCL, NO_DEVICE, OUT_OF_MEMORY, DEVICE_ERROR.
 * The caller owns *context, and destroys it after its plans. It holds its cl_context: the caller may release theirs. */
CLATTN_INLINE clattn_status clattn_context_create(clattn_context **context, const clattn_context_desc *desc);
/* Not while another thread uses the context or one of its plans. */
CLATTN_API void clattn_context_destroy(clattn_context *context);
/* Measured parameters of the application's own, a text as `clattn tune --export` writes it: they come before those
 * of the user's file (which `clattn tune` writes, and the variable CLATTN_TUNING names instead) and those compiled
 * into the library. Entries for other devices are passed over. Not while another thread creates a plan of the
 * context or sets its tuning. INVALID_ARGUMENT. */
CLATTN_API clattn_status clattn_context_set_tuning(clattn_context *context, const char *json);
/* What the context uses; either pointer may be NULL. The handles stay the context's. */
CLATTN_API clattn_status clattn_context_get(const clattn_context *context, cl_context *cl, cl_device_id *device);

/* ---- Plans -------------------------------------------------------------------------------------------------- */

typedef struct clattn_plan clattn_plan;

/* Whether a plan of desc can be had, told from sizes alone: nothing is compiled or enqueued. SUCCESS, or UNSUPPORTED,
 * INVALID_DESC, INVALID_ARGUMENT with the words that clattn_plan_create would log. A compiler or a self-test may still
 * refuse what this does not. */
CLATTN_INLINE clattn_status clattn_supports(clattn_context *context, const clattn_plan_desc *desc);

/* Chooses a solver and tiles, compiles what neither an earlier plan of the context nor the cache has compiled.
 * Kernels that this device and driver have not run before are tried on two short sequences against the reference,
 * and others are taken when they fail; self_test of the context's desc turns that off. INVALID_ARGUMENT,
 * INVALID_DESC, UNSUPPORTED, BUILD_FAILED, OUT_OF_MEMORY, DEVICE_ERROR. */
CLATTN_INLINE clattn_status clattn_plan_create(clattn_plan **plan, clattn_context *context,
                                               const clattn_plan_desc *desc);
/* Enqueued work keeps what it needs: a plan may be destroyed as soon as clattn_enqueue has returned. Not while another
 * thread uses the plan. */
CLATTN_API void clattn_plan_destroy(clattn_plan *plan);

/* Bytes of workspace that a call needs at the plan's maxima; may be 0. */
CLATTN_API clattn_status clattn_plan_workspace_size(const clattn_plan *plan, size_t *bytes);

/* What a plan has come to. Pointers live as long as the plan. */
typedef struct clattn_plan_info {
    const clattn_plan_desc *desc; /* completed */
    /* "recurrent", "channels", "chunk_scan", "chunk_blocks", "matrix_blocks", "matrix_scan", "flash", "flash_matrix", "flash_team",
     * "flash_matrix_blocks", "flash_blocks", "decode", "path", "path_decode", "path_matrix", "path_team", "delta",
     * "delta_matrix"; a piece's own name */
    const char *solver;
    const char *tiles_by;     /* "rule of thumb", "the shipped table", a file's path … */
    const char *engine;       /* the matrix engine it runs on; NULL: none */
    clattn_mode mode;         /* RECURRENT or CHUNK */
    int32_t chunk;            /* tokens; 1 for RECURRENT */
    int32_t launches;         /* of kernels, by a call of the desc's lengths */
    int32_t rejected;         /* choices that gave wrong results in the self-test before this one was taken */
    uint64_t workspace_bytes; /* as clattn_plan_workspace_size says */
    uint64_t saved_bytes;     /* kept for a plan of the backward pass; 0 */
} clattn_plan_info;

/* INVALID_ARGUMENT. */
CLATTN_INLINE clattn_status clattn_plan_get(const clattn_plan *plan, clattn_plan_info *info);

/* A few lines of text: problem, solver, tiles, launches, workspace. Writes at most size bytes with the final NUL;
 * text that does not fit is cut, and ends in "..." then. */
CLATTN_API clattn_status clattn_plan_describe(const clattn_plan *plan, char *text, size_t size);

/* Enqueues the plan on a queue of its context: waits for n_wait events, and *event (may be NULL; the caller
 * releases it) covers all of the work. In-order and out-of-order queues; calls from several threads, each with its
 * own workspace and outputs, are safe. cu_seqlens, cu_seqlens_kv and kv_lens are read on the device, where entries are
 * clamped to 0 … seq_len, to 0 … kv_len and to the keys that their sequence may have.
 * When it fails *event is NULL; what the status names is checked before anything is enqueued, but after
 * DEVICE_ERROR and OUT_OF_MEMORY kernels enqueued before the one that failed may run, and write outputs and
 * workspace. INVALID_ARGUMENT, INVALID_OPERAND, INVALID_WORKSPACE, OUT_OF_MEMORY, DEVICE_ERROR. */
CLATTN_INLINE clattn_status clattn_enqueue(clattn_plan *plan, cl_command_queue queue, const clattn_call *call,
                                           uint32_t n_wait, const cl_event *wait, cl_event *event);

/* The same with operands in .host, and back when the outputs are there: for tests and small programs, since it makes a
 * queue and buffers of its own, copies everything and frees them, at every call. No workspace is needed.
 * INVALID_ARGUMENT, INVALID_OPERAND, OUT_OF_MEMORY, DEVICE_ERROR. */
CLATTN_INLINE clattn_status clattn_run(clattn_plan *plan, const clattn_call *call);

/* ---- Matrix products ---------------------------------------------------------------------------------------- */

/* D = alpha op(A) op(B) + beta C of every matrix of a batch: projections around a rule, and whatever else is a product.
 * op(A) is [m,k], op(B) [k,n], C and D [m,n]; matrices lie row by row. (Column by column: exchange A and B, m and n.)
 * Sums are f32. D overlaps neither A nor B. */
enum {
    CLATTN_GEMM_TRANS_A = 1 << 0,  /* A lies as [k,m] */
    CLATTN_GEMM_TRANS_B = 1 << 1,  /* B lies as [n,k] */
    CLATTN_GEMM_SHARED_A = 1 << 2, /* one A serves the whole batch */
    CLATTN_GEMM_SHARED_B = 1 << 3,
    CLATTN_GEMM_WITH_C = 1 << 4, /* C is a matrix of its own; else D, as it is before the call, is C */
    CLATTN_GEMM_F32_D = 1 << 5   /* C and D are f32, whatever A and B are */
};

/* Where the matrices of a call lie: buffers of the plan's cl_context, offsets in bytes, multiples of the element's
 * size. c is for CLATTN_GEMM_WITH_C alone. */
typedef struct clattn_gemm_call {
    cl_mem a, b, c, d;
    size_t a_offset, b_offset, c_offset, d_offset;
    int64_t m; /* of this call, up to the plan's; 0: the plan's. The provider "gemv" of few rows takes no fewer */
} clattn_gemm_call;

struct clattn_gemm_desc;
/* A product of the application's own: enqueues what desc (completed) says, after the n_wait events, and gives *event
 * for all of it where event is not NULL. */
typedef clattn_status (*clattn_gemm_fn)(void *user, const struct clattn_gemm_desc *desc, cl_command_queue queue,
                                        const clattn_gemm_call *call, uint32_t n_wait, const cl_event *wait,
                                        cl_event *event);

typedef struct clattn_gemm_desc {
    clattn_dtype dtype;                             /* storage of A, B, C and D: see CLATTN_GEMM_F32_D */
    uint32_t flags;                                 /* CLATTN_GEMM_TRANS_A … */
    int64_t m, n, k;                                /* required */
    int64_t batch;                                  /* 0: 1 */
    int64_t lda, ldb, ldc, ldd;                     /* elements from row to row as they lie; 0: rows touch */
    int64_t stride_a, stride_b, stride_c, stride_d; /* elements from matrix to matrix; 0: matrices touch */
    double alpha;                                   /* 0: 1 */
    double beta;
    /* What computes it: "plain" (OpenCL C), "engine" (the device's matrix engine), "team" (f16 and bf16 by its
     * sub-groups together, where it can), "gemv" (m or n up to 8), "clblast" (where that library is on the machine; it
     * is never linked) or "callback". NULL: what was measured to be the fastest, else by rule of thumb. */
    const char *provider;
    clattn_gemm_fn callback; /* of the provider "callback" */
    void *user;
} clattn_gemm_desc;

typedef struct clattn_gemm_plan clattn_gemm_plan;

/* Chooses a provider, compiles its kernels, and runs it once on numbers whose product is known: one that is wrong is not
 * used. INVALID_ARGUMENT, INVALID_DESC, UNSUPPORTED (also: the provider that was asked for is wrong or not there),
 * BUILD_FAILED, OUT_OF_MEMORY, DEVICE_ERROR. */
CLATTN_INLINE clattn_status clattn_gemm_plan_create(clattn_gemm_plan **plan, clattn_context *context,
                                                    const clattn_gemm_desc *desc);
/* As clattn_plan_destroy. */
CLATTN_API void clattn_gemm_plan_destroy(clattn_gemm_plan *plan);

/* What a plan has come to. Pointers live as long as the plan. */
typedef struct clattn_gemm_info {
    const clattn_gemm_desc *desc; /* completed */
    const char *provider;
    const char *chosen_by; /* "rule of thumb", "the caller", a file's path … */
    int32_t rejected;      /* providers that gave wrong results before this one was taken */
    int32_t scratch;       /* 1 where the provider allocates memory of its own at every call: CLBlast's does */
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

/* What the functions above call. A size is that of the program's struct, for bindings to other languages as for C:
 * less than the library's, and the fields past it are zero or are not written; more, and they must be zero
 * (INVALID_DESC, INVALID_ARGUMENT), or are set to zero. */
CLATTN_API clattn_status clattn_rule_describe_sized(clattn_rule rule, clattn_rule_info *info, size_t info_size);
CLATTN_API clattn_status clattn_plan_desc_complete_sized(clattn_plan_desc *full, const clattn_plan_desc *desc,
                                                         size_t desc_size, clattn_log_fn log, void *log_user);
CLATTN_API clattn_status clattn_operand_describe_sized(const clattn_plan_desc *desc, size_t desc_size,
                                                       clattn_operand_id id, clattn_operand_info *info,
                                                       size_t info_size);
CLATTN_API clattn_status clattn_reference_sized(const clattn_plan_desc *desc, size_t desc_size, const clattn_call *call,
                                                size_t call_size, size_t operand_size, clattn_log_fn log,
                                                void *log_user);
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
