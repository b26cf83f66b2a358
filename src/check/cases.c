/* The awkward shapes and every rule's options. Compilation takes most of a run, so cases share head sizes and flags
 * where they can, and narrow types have few. */
#include "check/check.h"
#include "op/options.h"

#define USUAL CHECK_GATES_USUAL
#define HARD CHECK_GATES_HARD
#define SLOW CHECK_GATES_SLOW

static const int64_t empty[] = {0, 0, 16};
static const int64_t single[] = {0, 0, 1, 130, 131};
static const int64_t few[] = {0, 1, 1, 4, 6};
static const int64_t uneven[] = {0, 1, 100, 300, 1200};

enum {
    FIRST = CLATTN_INITIAL_STATE,
    LAST = CLATTN_FINAL_STATE,
    BOTH = FIRST | LAST,
    VK = CLATTN_STATE_VK,
    NORM = CLATTN_QK_L2NORM,
    LSE = CLATTN_WITH_LSE,
    ATTN = CLATTN_WITH_ATTN,
    LENS = CLATTN_WITH_KV_LENS,
    NEW = CLATTN_APPEND,
    CARRY = CLATTN_CARRY,
    ROPE = CLATTN_WITH_ROPE,
    CUKV = CLATTN_CU_SEQLENS | CLATTN_CU_SEQLENS_KV,
    CU = CLATTN_CU_SEQLENS,
    CU64 = CLATTN_CU_SEQLENS | CLATTN_CU_SEQLENS_INT64,
    F32 = 1 << CLATTN_F32,
    F16 = 1 << CLATTN_F16,
    BF16 = 1 << CLATTN_BF16,
    ALL = F32 | F16 | BF16,
    QUICK_F32 = F32 | F32 << CHECK_QUICK,
    QUICK_F16 = F16 | F16 << CHECK_QUICK,
    QUICK_BF16 = BF16 | BF16 << CHECK_QUICK
};

/* clang-format off */
const struct check_case check_cases[] = {
    /* name, B, T, H, HQ, K, V, flags, gates, cu_seqlens, N, scale, gates as data, variants, dtypes, TK, window, tail */
    { "one token",     1,    1, 1, 1,  16,  16, LAST,             USUAL, NULL,   0, 0,   0, 0, F32, 0, 0, 0 },
    { "one channel",   2,   15, 1, 1,   1,   1, BOTH,             HARD,  NULL,   0, 0,   0, 0, F32, 0, 0, 0 },
    { "short",         2,   63, 3, 3,  32,  16, LAST | VK,        USUAL, NULL,   0, 0,   0, 0, F32, 0, 0, 0 },
    { "one chunk",     1,   64, 4, 2,  64,  64, BOTH,             HARD,  NULL, 0, 0.3, 0, 0, F32 | QUICK_F16, 0, 0, 0 },
    { "one over",  1,   65, 3, 1,  60, 100, BOTH | NORM,      USUAL, NULL, 0, 0,   0, 0, QUICK_F32 | BF16, 0, 0, 0 },
    { "odd",           2,   75, 3, 1, 100,  60, BOTH | VK | ATTN, HARD,  NULL,   0, 0,   1, 1, F32 | F16, 0, 0, 0 },
    { "wide",          1,  100, 1, 1, 256, 256, FIRST | NORM,     USUAL, NULL,   0, 0,   0, 0, F32, 0, 0, 0 },
    { "wide values",   1,   40, 2, 1,  60, 512, BOTH,             USUAL, NULL,   0, 0,   0, 0, F32, 0, 0, 0 },
    { "large",         1,  100, 2, 2, 128, 128, BOTH,             USUAL, NULL,   0, 0,   0, 0, F32, 0, 0, 0 },
    { "long",          1,  500, 2, 1,  64,  64, 0,                HARD,  NULL,   0, 0,   0, 0, F32, 0, 0, 0 },
    { "longer",        1, 1000, 1, 1,  16,  16, BOTH,             USUAL, NULL,   0, 0,   0, 0, F32, 0, 0, 0 },
    { "lasting",       1, 2050, 4, 2,  64,  64, BOTH,             SLOW,  NULL,   0, 0,   0, 0, F16, 0, 0, 0 },
    { "empty first",   1,   16, 4, 2,  64,  64, LAST | CU,        USUAL, empty,  2, 0,   0, 0, F32, 0, 0, 0 },
    { "packed",        1,  131, 4, 2,  64,  64, BOTH | CU | ATTN, HARD,  single, 4, 0,   0, 0, F32, 0, 0, 0 },
    { "packed uneven", 1,1200, 1, 1, 32,  64, LAST | CU64 | VK, USUAL, uneven, 4, 0, 1, 1, F32 | QUICK_BF16, 0, 0, 0 },
    /* rules with a state: more query heads than states */
    { "shared states", 2,   19, 2, 6, 128, 128, BOTH,             HARD,  NULL,   0, 0,   0, 0, F32, 0, 0, 0 },
    /* rules with keys: rotary embedding */
    { "turned",        2,   75, 6, 3,  60, 100, BOTH | NORM | ROPE, HARD, NULL, 0, 0, 0, 0, F32 | F16, 0, 0, 0 },
    { "turned, packed", 1, 131, 2, 4,  64,  64, BOTH | CU | ROPE, HARD,  single, 4, 0,   0, 1, F32, 0, 0, 0 },
    { "turned, usual", 1, 131, 2, 4,  64,  64, BOTH | CU | ROPE, USUAL, single, 4, 0,   0, 1, BF16, 0, 0, 0 },
    /* rules whose state is a list: the queries stand at the end of a cache, or before its first key */
    { "one query",     2,    1, 4, 4,  64,  64, 0,                USUAL, NULL,   0, 0,   0, 1, F32, 75, 0, 0 },
    { "one of a few",  1,    1, 4, 1, 128, 128, LSE,              HARD,  NULL,   0, 0,   1, 0, ALL, 130, 0, 0 },
    { "cache",         2,   19, 6, 2,   7,  13, LSE | ATTN,       HARD,  NULL,   0, 0,   0, 1, QUICK_F32, 100, 0, 0 },
    { "cache, window", 1,   37, 3, 1,  60, 100, LSE | NORM,       USUAL, NULL,   0, 0,   0, 0, F32, 165, 9, 0 },
    { "early rows",    1,   77, 4, 2,  64,  64, LSE,              HARD,  NULL,   0, 0,   0, 1, F32, 20, 0, 0 },
    { "only early",    1,    9, 1, 1,  16,  16, LSE,              USUAL, NULL,   0, 0,   0, 0, F32, 1, 0, 0 },
    { "window of one", 1,  131, 4, 4,  64,  64, LSE,              HARD,  NULL,   0, 0,   0, 0, ALL, 0, 1, 0 },
    { "wide window",   1,  131, 4, 4,  64,  64, LSE,              USUAL, NULL,   0, 0,   0, 0, ALL, 0, 1000, 0 },
    { "window of nine", 1, 131, 4, 4,  64,  64, LSE,              HARD,  NULL,   0, 0,   0, 0, F16 | BF16, 0, 9, 0 },
    { "some early",    1,   77, 4, 4,  64,  64, LSE,              HARD,  NULL,   0, 0,   0, 0, F16 | BF16, 20, 0, 0 },
    { "narrow cache",  1,   19, 4, 2,   7,  13, LSE,              HARD,  NULL,   0, 0,   0, 0, F16 | BF16, 30, 0, 0 },
    { "widest cache",  1,   19, 2, 2, 256, 256, LSE,              USUAL, NULL,   0, 0,   0, 0, F16 | BF16, 40, 0, 0 },
    { "some there",    4,   19, 4, 1,  20,  36, LSE | LENS,       HARD,  NULL,   0, 0,   0, 0, F32, 100, 0, 0 },
    { "few queries",   5,    3, 6, 2,  60, 100, LSE | LENS,       HARD,  NULL,   0, 0,   0, 1, QUICK_F32, 700, 0, 0 },
    { "many heads",    1,    1, 24, 1, 64,  64, LSE | NORM,       USUAL, NULL,   0, 0,   1, 0, ALL, 1000, 300, 0 },
    { "widest query",  1,    2, 2, 2, 256, 256, LSE,              HARD,  NULL,   0, 0,   0, 0, F32, 600, 0, 0 },
    { "wide keys",     1,   19, 2, 1, 576, 512, LSE,              USUAL, NULL,   0, 0,   0, 0, F32 | BF16, 40, 0, 0 },
    { "packed cache",  1,    6, 4, 2,  64,  64, LSE | CUKV,       HARD,  few,    4, 0,   0, 0, F32, 900, 0, 0 },
    { "packed caches", 1,  131, 3, 1,  32,  16, LSE | LENS | CUKV, USUAL, single, 4, 0,  0, 0, F32, 600, 70, 0 },
    { "appended",      2,   19, 6, 2,  60, 100, LSE | NEW,        USUAL, NULL,   0, 0,   0, 0, ALL, 100, 0, 0 },
    { "one appended",  5,    1, 6, 2,  64,  64, LSE | LENS | NEW, HARD,  NULL,   0, 0,   0, 0, F32, 300, 0, 0 },
    { "some appended", 1,  131, 3, 1,  32,  16, LSE | CUKV | NEW, USUAL, single, 4, 0,   0, 0, F32, 600, 0, 0 },
    { "packed window", 1,  131, 4, 2,  64,  64, LSE | CU,         HARD,  single, 4, 0,   0, 0, F32 | F16, 0, 33, 0 },
    /* path_attn: all keys but the last ones are carried */
    { "tail of one",   2,    1, 6, 2,  60, 100, LSE,              HARD,  NULL,   0, 0,   0, 0, ALL, 300, 0, 1 },
    { "whole tail",    1,   16, 4, 1, 128, 128, LSE,              HARD,  NULL,   0, 0,   0, 1, F32 | BF16, 130, 0, 16 },
    { "tail carried", 2,    3, 6, 3,  60, 100, LSE | CARRY,      HARD,  NULL, 0, 0, 1, 0, QUICK_F32 | F16, 200, 0, 13 },
    { "tail, window",  1,    5, 4, 4,  64,  64, LSE,              USUAL, NULL,   0, 0,   0, 0, F32, 300, 9, 14 },
    { "tail in window", 1,   2, 8, 1,   7,  13, LSE | ATTN,       HARD,  NULL,   0, 0,   0, 0, F32, 100, 70, 16 },
    { "long tail",     1,   19, 4, 2,  64,  64, LSE | CARRY,      HARD,  NULL,   0, 0,   0, 0, ALL, 700, 0, 600 },
    { "tail, chunks",  1,   75, 4, 2, 256, 256, LSE | CARRY,      USUAL, NULL,   0, 0,   0, 0, F32, 200, 0, 80 },
};
/* clang-format on */
const size_t check_case_count = sizeof check_cases / sizeof *check_cases;

/* A rule's options, applied to a case. */
static const struct {
    const char *name;
    clattn_plan_desc desc;
} variants[] = {
    {"elu1", {.rule = CLATTN_LINEAR_ATTN, .feature_map = CLATTN_FEATURE_ELU1}},
    {"relu", {.rule = CLATTN_LINEAR_ATTN, .feature_map = CLATTN_FEATURE_RELU}},
    {"normalize", {.rule = CLATTN_LINEAR_ATTN, .flags = CLATTN_NORMALIZE}},
    {"elu1 normalize", {.rule = CLATTN_LINEAR_ATTN, .flags = CLATTN_NORMALIZE, .feature_map = CLATTN_FEATURE_ELU1}},
    {"layer", {.rule = CLATTN_LIGHTNING_ATTN, .layer = 5, .layers = 8}},
    {"minimax", {.rule = CLATTN_LIGHTNING_ATTN, .layer = 5, .layers = 8, .slopes = CLATTN_SLOPES_MINIMAX}},
    {"gate per head", {.rule = CLATTN_SIMPLE_GLA, .flags = CLATTN_GATE_PER_HEAD}},
    {"gv", {.rule = CLATTN_GLA, .flags = CLATTN_VALUE_GATE}},
    {"gate per head", {.rule = CLATTN_GLA, .flags = CLATTN_GATE_PER_HEAD}},
    {"ungated", {.rule = CLATTN_GATED_DELTA_PRODUCT, .flags = CLATTN_UNGATED}},
    {"2 steps", {.rule = CLATTN_GATED_DELTA_PRODUCT, .steps = 2}},
    {"3 steps ungated", {.rule = CLATTN_GATED_DELTA_PRODUCT, .flags = CLATTN_UNGATED, .steps = 3}},
    {"eps", {.rule = CLATTN_MLSTM, .eps = 0.5}},
    {"logsigmoid", {.rule = CLATTN_GLA, .gate_map = CLATTN_GATE_MAP_LOGSIGMOID, .gate_scale = 1.0 / 16}},
    {"softplus a_log dt_bias, twice sigmoid",
     {.rule = CLATTN_GATED_DELTA_RULE,
      .flags = CLATTN_WITH_A_LOG | CLATTN_WITH_DT_BIAS,
      .gate_map = CLATTN_GATE_MAP_SOFTPLUS,
      .beta_map = CLATTN_BETA_TWICE_SIGMOID}},
    {"sigmoid a_log dt_bias, sigmoid",
     {.rule = CLATTN_KDA,
      .flags = CLATTN_WITH_A_LOG | CLATTN_WITH_DT_BIAS,
      .gate_map = CLATTN_GATE_MAP_SIGMOID,
      .beta_map = CLATTN_BETA_SIGMOID}},
    {"softplus a_log dt_bias, softplus",
     {.rule = CLATTN_SSD,
      .flags = CLATTN_WITH_A_LOG | CLATTN_WITH_DT_BIAS,
      .gate_map = CLATTN_GATE_MAP_SOFTPLUS,
      .beta_map = CLATTN_BETA_SOFTPLUS}},
    {"softplus a_log dt_bias, sigmoid",
     {.rule = CLATTN_LOG_LINEAR_GATED_DELTA_RULE,
      .flags = CLATTN_WITH_A_LOG | CLATTN_WITH_DT_BIAS,
      .gate_map = CLATTN_GATE_MAP_SOFTPLUS,
      .beta_map = CLATTN_BETA_SIGMOID}},
    {"reversed", {.rule = CLATTN_LOG_LINEAR_ATTN, .flags = CLATTN_REVERSED}},
    {"softplus dt_bias d z",
     {.rule = CLATTN_MAMBA, .flags = CLATTN_SOFTPLUS | CLATTN_WITH_DT_BIAS | CLATTN_WITH_D | CLATTN_WITH_Z}},
    {"complex d", {.rule = CLATTN_MAMBA, .flags = CLATTN_COMPLEX | CLATTN_WITH_D}},
    {"sink lse", {.rule = CLATTN_SOFTMAX_ATTN, .flags = CLATTN_WITH_SINK | CLATTN_WITH_LSE}},
    {"window", {.rule = CLATTN_SOFTMAX_ATTN, .flags = CLATTN_WITH_LSE, .window = 9}},
    {"sink lse window", {.rule = CLATTN_ALIBI_ATTN, .flags = CLATTN_WITH_SINK | CLATTN_WITH_LSE, .window = 33}},
    {"sink lse window", {.rule = CLATTN_FORGETTING_ATTN, .flags = CLATTN_WITH_SINK | CLATTN_WITH_LSE, .window = 33}},
    {"p beta written lse",
     {.rule = CLATTN_DELTAFORMER, .flags = CLATTN_WITH_P | CLATTN_WITH_BETA | CLATTN_WITH_WRITTEN | CLATTN_WITH_LSE}},
    {"linear, relu",
     {.rule = CLATTN_DELTAFORMER,
      .flags = CLATTN_WITH_BETA,
      .kernel = CLATTN_WEIGHTS_RELU,
      .write_kernel = CLATTN_WEIGHTS_LINEAR}},
    {"linear", {.rule = CLATTN_SOFTMAX_ATTN, .kernel = CLATTN_WEIGHTS_LINEAR}},
    {"ungated linear", {.rule = CLATTN_PATH_ATTN, .flags = CLATTN_UNGATED, .kernel = CLATTN_WEIGHTS_LINEAR}},
    {"ungated lse", {.rule = CLATTN_PATH_ATTN, .flags = CLATTN_UNGATED | CLATTN_WITH_LSE}},
    {"carry lse", {.rule = CLATTN_PATH_ATTN, .flags = CLATTN_CARRY | CLATTN_WITH_LSE}},
    {"sink lse window", {.rule = CLATTN_PATH_ATTN, .flags = CLATTN_WITH_SINK | CLATTN_WITH_LSE, .window = 33}},
    {"absolute lse", {.rule = CLATTN_PATH_ATTN, .flags = CLATTN_WITH_LSE | CLATTN_ABSOLUTE}},
    {"absolute ungated linear",
     {.rule = CLATTN_PATH_ATTN, .flags = CLATTN_UNGATED | CLATTN_ABSOLUTE, .kernel = CLATTN_WEIGHTS_LINEAR}},
    {"ungated, 5 steps", {.rule = CLATTN_MESA_NET, .flags = CLATTN_UNGATED, .cg_steps = 5}},
    {"softplus a_log dt_bias, sigmoid, l2norm, reversed",
     {.rule = CLATTN_MESA_NET,
      .flags = CLATTN_WITH_A_LOG | CLATTN_WITH_DT_BIAS | CLATTN_QK_L2NORM | CLATTN_REVERSED,
      .gate_map = CLATTN_GATE_MAP_SOFTPLUS,
      .beta_map = CLATTN_BETA_SIGMOID}},
    {"reversed", {.rule = CLATTN_MLSTM, .flags = CLATTN_REVERSED}},
    {"reversed, 2 steps", {.rule = CLATTN_GATED_DELTA_PRODUCT, .flags = CLATTN_REVERSED, .steps = 2}},
    {"reversed", {.rule = CLATTN_RWKV7, .flags = CLATTN_REVERSED}},
    {"reversed", {.rule = CLATTN_MAMBA, .flags = CLATTN_REVERSED}},
    {"bias, 3 taps", {.rule = CLATTN_SHORT_CONV, .taps = 3, .flags = CLATTN_WITH_BIAS}},
    {"8 taps, canon",
     {.rule = CLATTN_SHORT_CONV, .taps = 8, .activation = CLATTN_ACTIVATION_NONE, .flags = CLATTN_RESIDUAL}},
    {"1 tap", {.rule = CLATTN_SHORT_CONV, .taps = 1}},
    {"z", {.rule = CLATTN_RMS_NORM, .flags = CLATTN_WITH_Z, .weighting = CLATTN_WEIGHTING_HEADS}},
    {"z before",
     {.rule = CLATTN_RMS_NORM,
      .flags = CLATTN_WITH_Z,
      .weighting = CLATTN_WEIGHTING_NONE,
      .gating = CLATTN_GATING_BEFORE}},
    {"d, z before",
     {.rule = CLATTN_RMS_NORM,
      .flags = CLATTN_WITH_Z | CLATTN_WITH_D,
      .weighting = CLATTN_WEIGHTING_HEADS,
      .gating = CLATTN_GATING_BEFORE}},
    {"sigmoid z, eps",
     {.rule = CLATTN_RMS_NORM, .flags = CLATTN_WITH_Z | CLATTN_CENTERED, .gating = CLATTN_GATING_SIGMOID, .eps = 0.5}},
    {"eps outside", {.rule = CLATTN_RMS_NORM, .eps = 0.5, .flags = CLATTN_EPS_OUTSIDE}},
    {"a_log dt_bias", {.rule = CLATTN_GATES, .flags = CLATTN_WITH_A_LOG | CLATTN_WITH_DT_BIAS}},
    {"logsigmoid", {.rule = CLATTN_GATES, .gate_map = CLATTN_GATE_MAP_LOGSIGMOID, .gate_scale = 1.0 / 16}},
    {"noncausal", {.rule = CLATTN_LINEAR_ATTN, .flags = CLATTN_NONCAUSAL}},
    {"noncausal elu1 normalize",
     {.rule = CLATTN_LINEAR_ATTN, .flags = CLATTN_NONCAUSAL | CLATTN_NORMALIZE, .feature_map = CLATTN_FEATURE_ELU1}},
    {"sigmoid", {.rule = CLATTN_GATES, .gate_map = CLATTN_GATE_MAP_SIGMOID}},
    {"sigmoid a_log, -5",
     {.rule = CLATTN_GATES, .flags = CLATTN_WITH_A_LOG, .gate_map = CLATTN_GATE_MAP_SIGMOID, .gate_scale = -5}},
    {"exp dt_bias", {.rule = CLATTN_GATES, .flags = CLATTN_WITH_DT_BIAS, .gate_map = CLATTN_GATE_MAP_EXP}},
    {"favor of queries, eps", {.rule = CLATTN_FEATURES, .eps = 0.5, .flags = CLATTN_OF_QUERIES}},
    {"rfa", {.rule = CLATTN_FEATURES, .features = CLATTN_FEATURES_RFA}},
    {"hedgehog", {.rule = CLATTN_FEATURES, .features = CLATTN_FEATURES_HEDGEHOG}},
    {"position, 10 columns", {.rule = CLATTN_ROPE, .rope_dim = 10, .flags = CLATTN_WITH_POSITION}},
    {"interleaved position, base 500000",
     {.rule = CLATTN_ROPE, .rope_base = 5e5, .flags = CLATTN_INTERLEAVED | CLATTN_WITH_POSITION}},
    {"momentum", {.rule = CLATTN_LACT, .flags = CLATTN_WITH_MOMENTUM}},
    {"noncausal, pre_norm", {.rule = CLATTN_LACT, .flags = CLATTN_NONCAUSAL | CLATTN_PRE_NORM}},
    {"one token, pre_norm", {.rule = CLATTN_LACT, .mini_batch = 1, .flags = CLATTN_PRE_NORM}},
    {"muon momentum", {.rule = CLATTN_LACT, .muon = CLATTN_MUON_FIVE, .flags = CLATTN_WITH_MOMENTUM}},
    {"keller noncausal", {.rule = CLATTN_LACT, .muon = CLATTN_MUON_KELLER, .flags = CLATTN_NONCAUSAL}},
    {"theta, fla's readout", {.rule = CLATTN_TTT_LINEAR, .readout = CLATTN_READOUT_Z, .flags = CLATTN_WITH_THETA}},
    {"a batch of 40", {.rule = CLATTN_TTT_LINEAR, .mini_batch = 40}},
    {"theta, a batch of 20", {.rule = CLATTN_TTT_MLP, .mini_batch = 20, .flags = CLATTN_WITH_THETA}},
    {"alpha momentum gamma",
     {.rule = CLATTN_TITANS, .flags = CLATTN_WITH_ALPHA | CLATTN_WITH_MOMENTUM | CLATTN_WITH_GAMMA}},
    {"alpha gamma, omega 5, a batch of 20",
     {.rule = CLATTN_TITANS, .omega = 5, .mini_batch = 20, .flags = CLATTN_WITH_ALPHA | CLATTN_WITH_GAMMA}},
    {"eta, dot", {.rule = CLATTN_TITANS, .loss = CLATTN_LOSS_DOT, .flags = CLATTN_WITH_ETA}},
    {"one token", {.rule = CLATTN_TITANS, .mini_batch = 1}},
    {"muon alpha momentum, omega 2",
     {.rule = CLATTN_TITANS, .muon = CLATTN_MUON_FIVE, .omega = 2, .flags = CLATTN_WITH_ALPHA | CLATTN_WITH_MOMENTUM}},
    {"alpha momentum, omega 3",
     {.rule = CLATTN_TITANS_MLP, .omega = 3, .flags = CLATTN_WITH_ALPHA | CLATTN_WITH_MOMENTUM}},
    {"rope interleaved", {.rule = CLATTN_RETENTION, .flags = CLATTN_WITH_ROPE | CLATTN_INTERLEAVED}},
    {"rope of 6, 2 steps", {.rule = CLATTN_GATED_DELTA_PRODUCT, .flags = CLATTN_WITH_ROPE, .rope_dim = 6, .steps = 2}},
    {"rope of 20 back, position, reversed",
     {.rule = CLATTN_GATED_DELTA_RULE,
      .flags = CLATTN_WITH_ROPE | CLATTN_REVERSED | CLATTN_WITH_POSITION | CLATTN_TURNED_BACK,
      .rope_dim = 20}},
    {"rope of p", {.rule = CLATTN_DELTAFORMER, .flags = CLATTN_WITH_ROPE | CLATTN_WITH_P | CLATTN_WITH_BETA}},
    {"rope absolute", {.rule = CLATTN_PATH_ATTN, .flags = CLATTN_WITH_ROPE | CLATTN_ABSOLUTE}},
    {"rope noncausal", {.rule = CLATTN_LACT, .flags = CLATTN_WITH_ROPE | CLATTN_NONCAUSAL}},
    {"interleaved back, 32 columns",
     {.rule = CLATTN_ROPE, .rope_dim = 32, .flags = CLATTN_INTERLEAVED | CLATTN_TURNED_BACK}},
    {"noncausal softcap lse", {.rule = CLATTN_SOFTMAX_ATTN, .flags = CLATTN_NONCAUSAL | CLATTN_WITH_LSE, .softcap = 2}},
    {"noncausal window", {.rule = CLATTN_SOFTMAX_ATTN, .flags = CLATTN_NONCAUSAL, .window = 9}},
    {"noncausal lse", {.rule = CLATTN_ALIBI_ATTN, .flags = CLATTN_NONCAUSAL | CLATTN_WITH_LSE}},
    {"softcap lse", {.rule = CLATTN_ALIBI_ATTN, .flags = CLATTN_WITH_LSE, .softcap = 2}},
    {"softcap", {.rule = CLATTN_FORGETTING_ATTN, .softcap = 2}},
    {"keys before lse", {.rule = CLATTN_ALIBI_ATTN, .flags = CLATTN_KEYS_BEFORE | CLATTN_WITH_LSE}},
    {"keys before lse", {.rule = CLATTN_FORGETTING_ATTN, .flags = CLATTN_KEYS_BEFORE | CLATTN_WITH_LSE}},
    {"softplus a_log dt_bias, softplus, limits",
     {.rule = CLATTN_SSD,
      .flags = CLATTN_WITH_A_LOG | CLATTN_WITH_DT_BIAS,
      .gate_map = CLATTN_GATE_MAP_SOFTPLUS,
      .beta_map = CLATTN_BETA_SOFTPLUS,
      .step_min = 0.04,
      .step_max = 0.125}},
    {"norm, z", {.rule = CLATTN_GATED_DELTA_RULE, .flags = CLATTN_NORM_OUTPUT | CLATTN_WITH_Z, .eps = 1e-3}},
    {"norm, z before, reversed",
     {.rule = CLATTN_RETENTION,
      .flags = CLATTN_NORM_OUTPUT | CLATTN_WITH_Z | CLATTN_REVERSED,
      .gating = CLATTN_GATING_BEFORE}},
    {"norm, sigmoid z",
     {.rule = CLATTN_KDA, .flags = CLATTN_NORM_OUTPUT | CLATTN_WITH_Z, .gating = CLATTN_GATING_SIGMOID}},
    {"norm, 2 steps", {.rule = CLATTN_GATED_DELTA_PRODUCT, .flags = CLATTN_NORM_OUTPUT, .steps = 2}},
    {"softplus, limits", {.rule = CLATTN_MAMBA, .flags = CLATTN_SOFTPLUS, .step_min = 0.1, .step_max = 0.25}},
};

static int is_learner(clattn_rule rule)
{
    return rule_get(rule) != NULL && rule_get(rule)->op == OP_LEARNER;
}

static int has_levels(clattn_rule rule)
{
    return rule_get(rule) != NULL && rule_has_levels(rule_get(rule));
}

/* Makes the hidden width differ from the keys' and the batches several; more levels than the tokens of a call need. */
static void make_awkward(clattn_plan_desc *desc)
{
    enum { WIDER = 8, FEW = 16, MORE_LEVELS = 4 };

    if (has_levels(desc->rule) && desc->levels == 0) {
        desc->levels = MORE_LEVELS;
        while ((int64_t)1 << (desc->levels - MORE_LEVELS) < desc->seq_len)
            desc->levels++;
    }

    if (!is_learner(desc->rule))
        return;
    if (desc->hidden_dim == 0 && rule_takes(rule_get(desc->rule), OPTION_hidden_dim))
        desc->hidden_dim = desc->key_dim + WIDER;
    if (desc->mini_batch == 0)
        desc->mini_batch = FEW;
}

static int has_list(clattn_rule rule)
{
    return rule_get(rule) != NULL && rule_has_list(rule_get(rule));
}

int check_mode_applies(clattn_rule rule, clattn_mode mode)
{
    if (mode == CLATTN_MODE_CHUNK && rule_get(rule) != NULL)
        return rule_has_chunks(rule_get(rule));
    return mode != CLATTN_MODE_RECURRENT || rule_get(rule) == NULL || rule_has_tokens(rule_get(rule));
}

/* Drops the rotary embedding if the variant does not allow it. */
static void fit_rope(clattn_plan_desc *desc)
{
    int mapped = !(desc->flags & CLATTN_NORMALIZE) || desc->feature_map != CLATTN_FEATURE_IDENTITY;

    if (!(desc->flags & ROPE) || (mapped && desc->kv_len == 0 && !(desc->flags & (CLATTN_COMPLEX | CARRY))))
        return;
    desc->flags &= ~(CLATTN_WITH_ROPE | CLATTN_INTERLEAVED | CLATTN_WITH_POSITION | CLATTN_TURNED_BACK);
    desc->rope_base = 0;
    desc->rope_dim = 0;
}

/* Applies a variant's options and their consequences. */
static void apply_variant(const clattn_plan_desc *variant, clattn_plan_desc *desc)
{
    for (enum option_id i = 0; i < OPTION_COUNT; i++)
        if (i != SIZE_rule && option_get(i, variant) != 0)
            option_put(i, option_get(i, variant), desc);
    if (desc->tail != 0)
        desc->flags &= ~CLATTN_ABSOLUTE;
    if (desc->muon != CLATTN_MUON_NONE) /* three batches: each step amplifies the rounding errors of the previous one */
        desc->mini_batch = (int32_t)((desc->seq_len + 2) / 3);
    if (desc->kernel != CLATTN_WEIGHTS_SOFTMAX)
        desc->flags &= ~(uint64_t)LSE;
    fit_rope(desc);
    check_fit(desc);
}

const char *check_variant(clattn_rule rule, int variant, clattn_plan_desc *desc)
{
    check_fit(desc);
    make_awkward(desc);
    if (variant == 0)
        return "";
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        if (variants[i].desc.rule != rule || --variant > 0)
            continue;
        apply_variant(&variants[i].desc, desc);
        return variants[i].name;
    }
    return NULL;
}

/* Whether the rule's variant has keys and still allows rotary embedding. */
static int turns(const struct check_case *c, clattn_rule rule, int variant, clattn_dtype dtype)
{
    clattn_plan_desc desc = check_case_desc(c, rule, dtype, CLATTN_MODE_AUTO);

    return rule_has_keys(rule_get(rule)) && check_variant(rule, variant, &desc) != NULL && (desc.flags & ROPE) != 0;
}

int check_case_applies(const struct check_case *c, clattn_rule rule, int variant, clattn_dtype dtype)
{
    const uint64_t own = CLATTN_WITH_KV_LENS | CLATTN_CU_SEQLENS_KV | CLATTN_APPEND | CLATTN_CARRY;

    if (c->qk_heads > c->heads && has_list(rule))
        return 0;
    if (c->cu_seqlens != NULL && is_learner(rule))
        return 0;
    if (((c->kv_len != 0 || c->window != 0) && !has_list(rule)) || (c->flags & own & ~rule_flags(rule_get(rule))))
        return 0;
    if ((c->flags & ROPE) && !turns(c, rule, variant, dtype))
        return 0;
    if (c->tail != 0 && !rule_takes(rule_get(rule), OPTION_tail))
        return 0;
    return (c->dtypes >> dtype & 1) != 0 && (variant == 0 || c->variants);
}

int check_case_quick(const struct check_case *c, clattn_rule rule, int variant, clattn_dtype dtype)
{
    const int packed = dtype == CLATTN_BF16; /* learners have no packed sequences: they run the case of f32 */
    const unsigned as = packed && is_learner(rule) ? CLATTN_F32 : (unsigned)dtype;

    return variant == 0 && (c->dtypes >> (CHECK_QUICK + as) & 1) != 0;
}

clattn_plan_desc check_case_desc(const struct check_case *c, clattn_rule rule, clattn_dtype dtype, clattn_mode mode)
{
    clattn_plan_desc desc = {.rule = rule,
                             .dtype = dtype,
                             .gate_dtype = c->gates_as_data ? dtype : CLATTN_F32,
                             .flags = c->flags | (c->flags & ROPE ? CLATTN_WITH_POSITION : 0),
                             .batch = c->batch,
                             .seq_len = c->seq_len,
                             .sequences = c->sequences,
                             .heads = c->heads,
                             .qk_heads = c->qk_heads,
                             .key_dim = c->key_dim,
                             .value_dim = c->value_dim,
                             .scale = c->scale,
                             .kv_len = c->kv_len,
                             .window = c->window,
                             .tail = c->tail,
                             .mode = mode};

    if (c->qk_heads > c->heads) {
        desc.heads = c->qk_heads;
        desc.kv_heads = c->heads;
    }
    check_fit(&desc);
    make_awkward(&desc);
    return desc;
}
