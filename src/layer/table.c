/* THE table of layers. */
#include "layer/layer.h"

#define OP(name) CLATTN_##name

enum { MAMBA_FLAGS = CLATTN_SOFTPLUS | CLATTN_WITH_DT_BIAS | CLATTN_WITH_D | CLATTN_WITH_Z | CLATTN_STATE_VK };

enum { SSD_FLAGS = CLATTN_WITH_A_LOG | CLATTN_WITH_DT_BIAS | CLATTN_STATE_VK };

/* Gates and strengths as a projection gives them. */
#define RAW_GATES                                                                                                      \
    .flags = CLATTN_QK_L2NORM | CLATTN_WITH_A_LOG | CLATTN_WITH_DT_BIAS, .gate_map = CLATTN_GATE_MAP_SOFTPLUS,         \
    .beta_map = CLATTN_BETA_SIGMOID

/* clang-format off */
/* y = W x, or y = W x + b where the desc has CLATTN_LAYER_BIASES */
#define PROJECTION(x, weight, bias, without, y, columns)                                                               \
    {.when = UNBIASED, .refs = {{OP(A), x, 0}, {OP(B), weight, 0}, {OP(D), y, 0}}},                                    \
    {.when = BIASED, .refs = {{OP(A), x, 0}, {OP(B), weight, 0}, {OP(D), without, 0}}},                                \
    {{.rule = CLATTN_SHORT_CONV, .flags = CLATTN_WITH_BIAS, .activation = CLATTN_ACTIVATION_NONE},                     \
     .when = BIASED, .value_dim = columns, .taps = "1",                                                                \
     .refs = {{OP(V), without, 0}, {OP(W), "ones", 0}, {OP(BIAS), bias, 0}, {OP(O), y, 0}}}

/* What Mamba's layers have in common. */
#define MAMBA_WEIGHTS                                                                                                  \
    {"in_proj.weight",  {"V+V", "C"},   .form = FORM_MATRIX},                                                          \
    {"in_proj.bias",    {"V+V"},        .form = FORM_FLOATS, .optional = 1, .bias = 1},                                \
    {"conv1d.weight",   {"V", "1", "W"}, .form = FORM_FLOATS},                                                         \
    {"conv1d.bias",     {"V"},          .form = FORM_FLOATS, .optional = 1},                                           \
    {"x_proj.weight",   {"R+K+K", "V"}, .form = FORM_MATRIX},                                                          \
    {"dt_proj.weight",  {"V", "R"},     .form = FORM_MATRIX},                                                          \
    {"dt_proj.bias",    {"V"},          .form = FORM_FLOATS},                                                          \
    {"A_log",           {"V", "K"},     .form = FORM_RATES},                                                           \
    {"D",               {"V"},          .form = FORM_FLOATS},                                                          \
    {"out_proj.weight", {"C", "V"},     .form = FORM_MATRIX},                                                          \
    {"out_proj.bias",   {"C"},          .form = FORM_FLOATS, .optional = 1, .bias = 1}
#define MAMBA_STATES                                                                                                   \
    {"conv_state",       {"B", "W", "V"}, OF_FLOATS, CLATTN_LAYER_INPUT},                                              \
    {"state",            {"B", "V", "K"}, OF_FLOATS, CLATTN_LAYER_INPUT},                                              \
    {"final_conv_state", {"B", "W", "V"}, OF_FLOATS, CLATTN_LAYER_OUTPUT},                                             \
    {"final_state",      {"B", "V", "K"}, OF_FLOATS, CLATTN_LAYER_OUTPUT}
#define MAMBA_VALUES                                                                                                   \
    {"xz", "V+V", 0}, {"v", "V", 0}, {"dt_b_c", "R+K+K", 0}, {"dt", "V", 0}, {"o", "V", 0},                            \
    {"unbiased_xz", "V+V", 0}, {"unbiased_y", "C", 0}
#define MAMBA_FIRST                                                                                                    \
    PROJECTION("x", "in_proj.weight", "in_proj.bias", "unbiased_xz", "xz", "V+V"),                                     \
    {{.rule = CLATTN_SHORT_CONV, .flags = CLATTN_WITH_BIAS}, .value_dim = "V", .taps = "W",                            \
     .refs = {{OP(V), "xz", 0}, {OP(W), "conv1d.weight", 0}, {OP(BIAS), "conv1d.bias", 0}, {OP(O), "v", 0},            \
              {OP(STATE_IN), "conv_state", 0}, {OP(STATE_OUT), "final_conv_state", 0}}},                               \
    {.refs = {{OP(A), "v", 0}, {OP(B), "x_proj.weight", 0}, {OP(D), "dt_b_c", 0}}}
/* Of so many columns of dt, B and C from one on */
#define MAMBA_NORM(columns, at, weight)                                                                                \
    {{.rule = CLATTN_RMS_NORM}, .value_dim = columns, .with_eps = 1,                                                   \
     .refs = {{OP(V), "dt_b_c", at}, {OP(W), weight, 0}, {OP(O), "normed", at}}}
#define MAMBA_LAST(dt_b_c)                                                                                             \
    {.refs = {{OP(A), dt_b_c, 0}, {OP(B), "dt_proj.weight", 0}, {OP(D), "dt", 0}}},                                    \
    {{.rule = CLATTN_MAMBA, .flags = MAMBA_FLAGS}, .channels = "V", .qk_heads = "1", .key_dim = "K",                   \
     .refs = {{OP(Q), dt_b_c, "R+K"}, {OP(K), dt_b_c, "R"}, {OP(V), "v", 0}, {OP(DT), "dt", 0},                        \
              {OP(DT_BIAS), "dt_proj.bias", 0}, {OP(A), "A_log", 0}, {OP(D), "D", 0}, {OP(Z), "xz", "V"},              \
              {OP(O), "o", 0}, {OP(STATE_IN), "state", 0}, {OP(STATE_OUT), "final_state", 0}}},                        \
    PROJECTION("o", "out_proj.weight", "out_proj.bias", "unbiased_y", "y", "C")

/* What the two forms of gated_deltanet have in common: all but the names of the first projections. */
#define DELTANET_WEIGHTS                                                                                               \
    {"conv1d.weight",       {"QK+QK+HV", "1", "W"}, .form = FORM_FLOATS},                                              \
    {"dt_bias",             {"H"},                  .form = FORM_FLOATS},                                              \
    {"A_log",               {"H"},                  .form = FORM_FLOATS},                                              \
    {"norm.weight",         {"V"},                  .form = FORM_FLOATS},                                              \
    {"out_proj.weight",     {"C", "HV"},            .form = FORM_MATRIX}
#define DELTANET_STATES                                                                                                \
    {"conv_state",       {"B", "W", "QK+QK+HV"}, OF_FLOATS, CLATTN_LAYER_INPUT},                                       \
    {"state",            {"B", "H", "K", "V"},   1, CLATTN_LAYER_INPUT},                                               \
    {"final_conv_state", {"B", "W", "QK+QK+HV"}, OF_FLOATS, CLATTN_LAYER_OUTPUT},                                      \
    {"final_state",      {"B", "H", "K", "V"},   1, CLATTN_LAYER_OUTPUT}
#define DELTANET_VALUES                                                                                                \
    {"qkvzba", "QK+QK+HV+HV+H+H", 0}, {"qkv", "QK+QK+HV", 0}, {"o", "HV", 0}, {"normed", "HV", 0}
#define DELTANET_STEPS(in_proj)                                                                                        \
    {.refs = {{OP(A), "x", 0}, {OP(B), in_proj, 0}, {OP(D), "qkvzba", 0}}},                                            \
    {{.rule = CLATTN_SHORT_CONV}, .value_dim = "QK+QK+HV", .taps = "W",                                                \
     .refs = {{OP(V), "qkvzba", 0}, {OP(W), "conv1d.weight", 0}, {OP(O), "qkv", 0},                                    \
              {OP(STATE_IN), "conv_state", 0}, {OP(STATE_OUT), "final_conv_state", 0}}},                               \
    {{.rule = CLATTN_GATED_DELTA_RULE, RAW_GATES}, .gates_as_values = 1,                                               \
     .heads = "H", .qk_heads = "Q", .key_dim = "K", .value_dim = "V",                                                  \
     .refs = {{OP(Q), "qkv", 0}, {OP(K), "qkv", "QK"}, {OP(V), "qkv", "QK+QK"},                                        \
              {OP(BETA), "qkvzba", "QK+QK+HV+HV"}, {OP(G), "qkvzba", "QK+QK+HV+HV+H"},                                 \
              {OP(A_LOG), "A_log", 0}, {OP(DT_BIAS), "dt_bias", 0}, {OP(O), "o", 0},                                   \
              {OP(STATE_IN), "state", 0}, {OP(STATE_OUT), "final_state", 0}}},                                         \
    {{.rule = CLATTN_RMS_NORM, .flags = CLATTN_WITH_Z}, .heads = "H", .value_dim = "V", .with_eps = 1,                 \
     .refs = {{OP(V), "o", 0}, {OP(W), "norm.weight", 0}, {OP(Z), "qkvzba", "QK+QK+HV"},                               \
              {OP(O), "normed", 0}}},                                                                                  \
    {.refs = {{OP(A), "normed", 0}, {OP(B), "out_proj.weight", 0}, {OP(D), "y", 0}}}
#define DELTANET_FORMULA                                                                                               \
    "y = W_out (rms_norm(gated_delta_rule(q, k, v, a, b)) o silu(z)), (q, k, v) = silu(conv(W_qkv x)), "               \
    "(z, b, a) = W_zba x"

static const struct layer layers[] = {
    [CLATTN_LAYER_MAMBA] = {
        "mamba", "MambaMixer",
        "y = W_out mamba(silu(conv(W_x x)), W_dt dt, B, C, D, z), (dt, B, C) = W silu(conv(W_x x)), z = W_z x",
        "Gu and Dao 2023, Mamba, arXiv:2312.00752",
        .letters = "CVKRW", .eps = 1e-5,
        .weights = {MAMBA_WEIGHTS, {"ones", {"V+V+C"}, .form = FORM_ONES}},
        .states = {MAMBA_STATES},
        .values = {MAMBA_VALUES},
        .steps = {MAMBA_FIRST, MAMBA_LAST("dt_b_c")},
    },
    [CLATTN_LAYER_JAMBA] = {
        "jamba", "JambaMambaMixer",
        "y = W_out mamba(silu(conv(W_x x)), W_dt n(dt), n(B), n(C), D, z), (dt, B, C) = W silu(conv(W_x x)), z = W_z x, "
        "n = rms_norm",
        "Lieber et al. 2024, Jamba, arXiv:2403.19887",
        .letters = "CVKRW", .eps = 1e-6,
        .weights = {
            MAMBA_WEIGHTS,
            {"dt_layernorm.weight", {"R"}, .form = FORM_FLOATS},
            {"b_layernorm.weight",  {"K"}, .form = FORM_FLOATS},
            {"c_layernorm.weight",  {"K"}, .form = FORM_FLOATS},
            {"ones",                {"V+V+C"}, .form = FORM_ONES},
        },
        .states = {MAMBA_STATES},
        .values = {MAMBA_VALUES, {"normed", "R+K+K", 0}},
        .steps = {MAMBA_FIRST, MAMBA_NORM("R", 0, "dt_layernorm.weight"), MAMBA_NORM("K", "R", "b_layernorm.weight"),
                  MAMBA_NORM("K", "R+K", "c_layernorm.weight"), MAMBA_LAST("normed")},
    },
    [CLATTN_LAYER_FALCON_MAMBA] = {
        "falcon_mamba", "FalconMambaMixer",
        "y = W_out mamba(silu(conv(W_x x)), W_dt n(dt), n(B), n(C), D, z), (dt, B, C) = W silu(conv(W_x x)), z = W_z x, "
        "n = rms_norm without weights",
        "Zuo et al. 2024, Falcon Mamba, arXiv:2410.05355",
        .letters = "CVKRW", .eps = 1e-6,
        .weights = {MAMBA_WEIGHTS, {"ones", {"V+V+C+R+K"}, .form = FORM_ONES}},
        .states = {MAMBA_STATES},
        .values = {MAMBA_VALUES, {"normed", "R+K+K", 0}},
        .steps = {MAMBA_FIRST, MAMBA_NORM("R", 0, "ones"), MAMBA_NORM("K", "R", "ones"),
                  MAMBA_NORM("K", "R+K", "ones"), MAMBA_LAST("normed")},
    },
    [CLATTN_LAYER_MAMBA2] = {
        "mamba2", "Mamba2Mixer",
        "y = W_out rms_norm((ssd(C, B, v, dt) + D o v) o silu(z)), (v, B, C) = silu(conv(W_vBC x)), (z, dt) = W_zdt x",
        "Dao and Gu 2024, Transformers are SSMs, arXiv:2405.21060",
        .letters = "CHQKVW", .eps = 1e-5, .usual = {{'Q', "1"}},
        .weights = {
            {"in_proj.weight",  {"HV+HV+QK+QK+H", "C"},  .form = FORM_MATRIX},
            {"in_proj.bias",    {"HV+HV+QK+QK+H"},       .form = FORM_FLOATS, .optional = 1, .bias = 1},
            {"conv1d.weight",   {"HV+QK+QK", "1", "W"},  .form = FORM_FLOATS},
            {"conv1d.bias",     {"HV+QK+QK"},            .form = FORM_FLOATS, .optional = 1},
            {"dt_bias",         {"H"},                   .form = FORM_FLOATS},
            {"A_log",           {"H"},                   .form = FORM_FLOATS},
            {"D",               {"H"},                   .form = FORM_FLOATS, .repeat = "V"},
            {"norm.weight",     {"HV"},                  .form = FORM_FLOATS},
            {"out_proj.weight", {"C", "HV"},             .form = FORM_MATRIX},
            {"out_proj.bias",   {"C"},                   .form = FORM_FLOATS, .optional = 1, .bias = 1},
            {"ones",            {"HV+HV+QK+QK+H+C"},     .form = FORM_ONES},
        },
        .states = {
            {"conv_state",       {"B", "W", "HV+QK+QK"}, OF_FLOATS, CLATTN_LAYER_INPUT},
            {"state",            {"B", "H", "V", "K"},   1, CLATTN_LAYER_INPUT},
            {"final_conv_state", {"B", "W", "HV+QK+QK"}, OF_FLOATS, CLATTN_LAYER_OUTPUT},
            {"final_state",      {"B", "H", "V", "K"},   1, CLATTN_LAYER_OUTPUT},
        },
        .values = {{"zvbcdt", "HV+HV+QK+QK+H", 0}, {"vbc", "HV+QK+QK", 0}, {"o", "HV", 0}, {"normed", "HV", 0},
                   {"unbiased_zvbcdt", "HV+HV+QK+QK+H", 0}, {"unbiased_y", "C", 0}},
        .steps = {
            PROJECTION("x", "in_proj.weight", "in_proj.bias", "unbiased_zvbcdt", "zvbcdt", "HV+HV+QK+QK+H"),
            {{.rule = CLATTN_SHORT_CONV, .flags = CLATTN_WITH_BIAS}, .value_dim = "HV+QK+QK", .taps = "W",
             .refs = {{OP(V), "zvbcdt", "HV"}, {OP(W), "conv1d.weight", 0}, {OP(BIAS), "conv1d.bias", 0},
                      {OP(O), "vbc", 0}, {OP(STATE_IN), "conv_state", 0}, {OP(STATE_OUT), "final_conv_state", 0}}},
            {{.rule = CLATTN_SSD, .flags = SSD_FLAGS, .gate_map = CLATTN_GATE_MAP_SOFTPLUS,
              .beta_map = CLATTN_BETA_SOFTPLUS}, .gates_as_values = 1, .with_limits = 1,
             .heads = "H", .qk_heads = "Q", .key_dim = "K", .value_dim = "V",
             .refs = {{OP(Q), "vbc", "HV+QK"}, {OP(K), "vbc", "HV"}, {OP(V), "vbc", 0},
                      {OP(G), "zvbcdt", "HV+HV+QK+QK"}, {OP(BETA), "zvbcdt", "HV+HV+QK+QK"},
                      {OP(A_LOG), "A_log", 0}, {OP(DT_BIAS), "dt_bias", 0}, {OP(O), "o", 0},
                      {OP(STATE_IN), "state", 0}, {OP(STATE_OUT), "final_state", 0}}},
            {{.rule = CLATTN_RMS_NORM, .flags = CLATTN_WITH_Z | CLATTN_WITH_D, .gating = CLATTN_GATING_BEFORE,
              .weighting = CLATTN_WEIGHTING_HEADS}, .heads = "Q", .value_dim = "HV/Q", .with_eps = 1,
             .refs = {{OP(V), "o", 0}, {OP(U), "vbc", 0}, {OP(D), "D", 0}, {OP(Z), "zvbcdt", 0},
                      {OP(W), "norm.weight", 0}, {OP(O), "normed", 0}}},
            PROJECTION("normed", "out_proj.weight", "out_proj.bias", "unbiased_y", "y", "C"),
        },
    },
    [CLATTN_LAYER_GATED_DELTANET] = {
        "gated_deltanet", "Qwen3NextGatedDeltaNet",
        DELTANET_FORMULA,
        "Yang et al. 2024, Gated Delta Networks, arXiv:2412.06464",
        .letters = "CHQKVW", .eps = 1e-6, .usual = {{'K', "V"}},
        .weights = {
            {"in_proj_qkvz.weight", {"QK+QK+HV+HV", "C"},   .form = FORM_MATRIX, .each = "Q"},
            {"in_proj_ba.weight",   {"H+H", "C"},           .form = FORM_MATRIX, .each = "Q", .joined = 1},
            DELTANET_WEIGHTS,
        },
        .states = {DELTANET_STATES},
        .values = {DELTANET_VALUES},
        .steps = {DELTANET_STEPS("in_proj_qkvz.weight")},
    },
    [CLATTN_LAYER_GATED_DELTANET_SPLIT] = {
        "gated_deltanet_split", "Qwen3_5GatedDeltaNet",
        DELTANET_FORMULA,
        "Yang et al. 2024, Gated Delta Networks, arXiv:2412.06464",
        .letters = "CHQKVW", .eps = 1e-6, .usual = {{'K', "V"}},
        .weights = {
            {"in_proj_qkv.weight",  {"QK+QK+HV", "C"},      .form = FORM_MATRIX},
            {"in_proj_z.weight",    {"HV", "C"},            .form = FORM_MATRIX, .joined = 1},
            {"in_proj_b.weight",    {"H", "C"},             .form = FORM_MATRIX, .joined = 1},
            {"in_proj_a.weight",    {"H", "C"},             .form = FORM_MATRIX, .joined = 1},
            DELTANET_WEIGHTS,
        },
        .states = {DELTANET_STATES},
        .values = {DELTANET_VALUES},
        .steps = {DELTANET_STEPS("in_proj_qkv.weight")},
    },
    [CLATTN_LAYER_KDA] = {
        "kda", "KimiLinearDeltaAttention",
        "y = W_o (rms_norm(kda(q, k, v, W_f f, b)) o sigmoid(W_g g)), (q, k, v) = silu(conv(W_qkv x)), "
        "(f, g, b) = W_fgb x",
        "Kimi Team 2025, Kimi Linear, arXiv:2510.26692",
        .letters = "CHKVWR", .eps = 1e-5,
        .weights = {
            {"q_proj.weight",                  {"HK", "C"},            .form = FORM_MATRIX},
            {"k_proj.weight",                  {"HK", "C"},            .form = FORM_MATRIX, .joined = 1},
            {"v_proj.weight",                  {"HV", "C"},            .form = FORM_MATRIX, .joined = 1},
            {"forget_gate.f_a_proj.weight",    {"R", "C"},             .form = FORM_MATRIX, .joined = 1},
            {"g_a_proj.weight",                {"R", "C"},             .form = FORM_MATRIX, .joined = 1},
            {"b_proj.weight",                  {"H", "C"},             .form = FORM_MATRIX, .joined = 1},
            {"conv1d.weight",                  {"HK+HK+HV", "1", "W"}, .form = FORM_FLOATS},
            {"forget_gate.f_b_proj.weight",    {"HK", "R"},            .form = FORM_MATRIX},
            {"forget_gate.dt_bias",            {"HK"},                 .form = FORM_FLOATS},
            {"forget_gate.A_log",              {"1", "1", "H", "1"},   .form = FORM_FLOATS},
            {"g_b_proj.weight",                {"HV", "R"},            .form = FORM_MATRIX},
            {"o_norm.weight",                  {"V"},                  .form = FORM_FLOATS},
            {"o_proj.weight",                  {"C", "HV"},            .form = FORM_MATRIX},
        },
        .states = {
            {"conv_state",       {"B", "W", "HK+HK+HV"}, OF_FLOATS, CLATTN_LAYER_INPUT},
            {"state",            {"B", "H", "K", "V"},   1, CLATTN_LAYER_INPUT},
            {"final_conv_state", {"B", "W", "HK+HK+HV"}, OF_FLOATS, CLATTN_LAYER_OUTPUT},
            {"final_state",      {"B", "H", "K", "V"},   1, CLATTN_LAYER_OUTPUT},
        },
        .values = {{"qkvfgb", "HK+HK+HV+R+R+H", 0}, {"qkv", "HK+HK+HV", 0}, {"g", "HK", 0}, {"z", "HV", 0},
                   {"o", "HV", 0}, {"normed", "HV", 0}},
        .steps = {
            {.refs = {{OP(A), "x", 0}, {OP(B), "q_proj.weight", 0}, {OP(D), "qkvfgb", 0}}},
            {{.rule = CLATTN_SHORT_CONV}, .value_dim = "HK+HK+HV", .taps = "W",
             .refs = {{OP(V), "qkvfgb", 0}, {OP(W), "conv1d.weight", 0}, {OP(O), "qkv", 0},
                      {OP(STATE_IN), "conv_state", 0}, {OP(STATE_OUT), "final_conv_state", 0}}},
            {.refs = {{OP(A), "qkvfgb", "HK+HK+HV"}, {OP(B), "forget_gate.f_b_proj.weight", 0}, {OP(D), "g", 0}}},
            {.refs = {{OP(A), "qkvfgb", "HK+HK+HV+R"}, {OP(B), "g_b_proj.weight", 0}, {OP(D), "z", 0}}},
            {{.rule = CLATTN_KDA, RAW_GATES}, .gates_as_values = 1, .heads = "H", .key_dim = "K", .value_dim = "V",
             .refs = {{OP(Q), "qkv", 0}, {OP(K), "qkv", "HK"}, {OP(V), "qkv", "HK+HK"},
                      {OP(BETA), "qkvfgb", "HK+HK+HV+R+R"}, {OP(G), "g", 0},
                      {OP(A_LOG), "forget_gate.A_log", 0}, {OP(DT_BIAS), "forget_gate.dt_bias", 0}, {OP(O), "o", 0},
                      {OP(STATE_IN), "state", 0}, {OP(STATE_OUT), "final_state", 0}}},
            {{.rule = CLATTN_RMS_NORM, .flags = CLATTN_WITH_Z, .gating = CLATTN_GATING_SIGMOID},
             .heads = "H", .value_dim = "V", .with_eps = 1,
             .refs = {{OP(V), "o", 0}, {OP(W), "o_norm.weight", 0}, {OP(Z), "z", 0}, {OP(O), "normed", 0}}},
            {.refs = {{OP(A), "normed", 0}, {OP(B), "o_proj.weight", 0}, {OP(D), "y", 0}}},
        },
    },
    [CLATTN_LAYER_GLA] = {
        "gla", "GatedLinearAttention",
        "y = W_o (rms_norm(gla(q, k, v, logsigmoid(W_r r + b) / 16)) o silu(g)), (q, k, v, g, r) = W x",
        "Yang et al. 2023, Gated Linear Attention, arXiv:2312.06635",
        .letters = "CHKVR", .eps = 1e-5,
        .weights = {
            {"q_proj.weight",            {"HK", "C"}, .form = FORM_MATRIX},
            {"k_proj.weight",            {"HK", "C"}, .form = FORM_MATRIX, .joined = 1},
            {"v_proj.weight",            {"HV", "C"}, .form = FORM_MATRIX, .joined = 1},
            {"g_proj.weight",            {"HV", "C"}, .form = FORM_MATRIX, .joined = 1},
            {"gk_proj.0.weight",         {"R", "C"},  .form = FORM_MATRIX, .joined = 1},
            {"gk_proj.1.weight",         {"HK", "R"}, .form = FORM_MATRIX},
            {"gk_proj.1.bias",           {"HK"},      .form = FORM_FLOATS},
            {"g_norm_swish_gate.weight", {"V"},       .form = FORM_FLOATS},
            {"o_proj.weight",            {"C", "HV"}, .form = FORM_MATRIX},
        },
        .states = {
            {"state",       {"B", "H", "K", "V"}, OF_FLOATS, CLATTN_LAYER_INPUT},
            {"final_state", {"B", "H", "K", "V"}, OF_FLOATS, CLATTN_LAYER_OUTPUT},
        },
        .values = {{"qkvgr", "HK+HK+HV+HV+R", 0}, {"gk", "HK", 0}, {"o", "HV", 0}, {"normed", "HV", 0}},
        .steps = {
            {.refs = {{OP(A), "x", 0}, {OP(B), "q_proj.weight", 0}, {OP(D), "qkvgr", 0}}},
            {.refs = {{OP(A), "qkvgr", "HK+HK+HV+HV"}, {OP(B), "gk_proj.1.weight", 0}, {OP(D), "gk", 0}}},
            {{.rule = CLATTN_GLA, .flags = CLATTN_WITH_DT_BIAS, .gate_map = CLATTN_GATE_MAP_LOGSIGMOID,
              .gate_scale = 1.0 / 16}, .gates_as_values = 1, .heads = "H", .key_dim = "K", .value_dim = "V",
             .refs = {{OP(Q), "qkvgr", 0}, {OP(K), "qkvgr", "HK"}, {OP(V), "qkvgr", "HK+HK"}, {OP(G), "gk", 0},
                      {OP(DT_BIAS), "gk_proj.1.bias", 0}, {OP(O), "o", 0}, {OP(STATE_IN), "state", 0},
                      {OP(STATE_OUT), "final_state", 0}}},
            {{.rule = CLATTN_RMS_NORM, .flags = CLATTN_WITH_Z}, .heads = "H", .value_dim = "V", .with_eps = 1,
             .refs = {{OP(V), "o", 0}, {OP(W), "g_norm_swish_gate.weight", 0}, {OP(Z), "qkvgr", "HK+HK+HV"},
                      {OP(O), "normed", 0}}},
            {.refs = {{OP(A), "normed", 0}, {OP(B), "o_proj.weight", 0}, {OP(D), "y", 0}}},
        },
    },
    [CLATTN_LAYER_RETNET] = {
        "retnet", "MultiScaleRetention",
        "y = W_o (rms_norm(retention(rope(q), rope(k), v)) o silu(g)), (q, k, v, g) = W x",
        "Sun et al. 2023, Retentive Network, arXiv:2307.08621",
        .letters = "CHKV", .eps = 1e-5,
        .weights = {
            {"q_proj.weight",            {"HK", "C"}, .form = FORM_MATRIX},
            {"k_proj.weight",            {"HK", "C"}, .form = FORM_MATRIX, .joined = 1},
            {"v_proj.weight",            {"HV", "C"}, .form = FORM_MATRIX, .joined = 1},
            {"g_proj.weight",            {"HV", "C"}, .form = FORM_MATRIX, .joined = 1},
            {"g_norm_swish_gate.weight", {"V"},       .form = FORM_FLOATS},
            {"o_proj.weight",            {"C", "HV"}, .form = FORM_MATRIX},
        },
        .states = {
            {"state",       {"B", "H", "K", "V"}, OF_FLOATS, CLATTN_LAYER_INPUT},
            {"position",    {"B"},                OF_WHOLE,  CLATTN_LAYER_INPUT},
            {"final_state", {"B", "H", "K", "V"}, OF_FLOATS, CLATTN_LAYER_OUTPUT},
        },
        .values = {{"qkvg", "HK+HK+HV+HV", 0}, {"o", "HV", 0}, {"normed", "HV", 0}},
        .steps = {
            {.refs = {{OP(A), "x", 0}, {OP(B), "q_proj.weight", 0}, {OP(D), "qkvg", 0}}},
            {{.rule = CLATTN_ROPE}, .heads = "2H", .value_dim = "K",
             .refs = {{OP(V), "qkvg", 0}, {OP(O), "qkvg", 0}, {OP(POSITION), "position", 0}}},
            {{.rule = CLATTN_RETENTION}, .heads = "H", .key_dim = "K", .value_dim = "V",
             .refs = {{OP(Q), "qkvg", 0}, {OP(K), "qkvg", "HK"}, {OP(V), "qkvg", "HK+HK"}, {OP(O), "o", 0},
                      {OP(STATE_IN), "state", 0}, {OP(STATE_OUT), "final_state", 0}}},
            {{.rule = CLATTN_RMS_NORM, .flags = CLATTN_WITH_Z}, .heads = "H", .value_dim = "V", .with_eps = 1,
             .refs = {{OP(V), "o", 0}, {OP(W), "g_norm_swish_gate.weight", 0}, {OP(Z), "qkvg", "HK+HK+HV"},
                      {OP(O), "normed", 0}}},
            {.refs = {{OP(A), "normed", 0}, {OP(B), "o_proj.weight", 0}, {OP(D), "y", 0}}},
        },
    },
    [CLATTN_LAYER_LACT] = {
        "lact", "FastWeightGluMLPMultihead",
        "y = W_c rms_norm(lact(q / (|q| + 1e-5), k / (|k| + 1e-5), v, lr)), (q, k, v) = silu(W_qkv x), lr = softplus(W_lr x + b)",
        "Zhang et al. 2025, Test-Time Training Done Right, arXiv:2505.23884",
        .letters = "CHKF", .eps = 1e-5,
        .weights = {
            {"to_qkv.weight", {"3HK", "C"},    .form = FORM_MATRIX},
            {"lr_fc.weight",  {"3H", "C"},     .form = FORM_MATRIX, .joined = 1},
            {"lr_fc.bias",    {"3H"},          .form = FORM_STEPS},
            {"w0",            {"H", "K", "F"}, .form = FORM_TURNED, .repeat = "B"},
            {"w1",            {"H", "F", "K"}, .form = FORM_TURNED, .repeat = "B"},
            {"w2",            {"H", "K", "F"}, .form = FORM_TURNED, .repeat = "B"},
            {"o_norm.weight", {"K"},           .form = FORM_FLOATS},
            {"c_proj.weight", {"C", "HK"},     .form = FORM_MATRIX},
            {"ones",          {"3HK"},         .form = FORM_ONES},
            {"roots",         {"K"},           .form = FORM_ROOTS},
        },
        .states = {
            {"state_w0", {"B", "H", "F", "K"}, OF_FLOATS, CLATTN_LAYER_INPUT},
            {"state_w1", {"B", "H", "K", "F"}, OF_FLOATS, CLATTN_LAYER_INPUT},
            {"state_w2", {"B", "H", "F", "K"}, OF_FLOATS, CLATTN_LAYER_INPUT},
            {"final_w0", {"B", "H", "F", "K"}, OF_FLOATS, CLATTN_LAYER_OUTPUT},
            {"final_w1", {"B", "H", "K", "F"}, OF_FLOATS, CLATTN_LAYER_OUTPUT},
            {"final_w2", {"B", "H", "F", "K"}, OF_FLOATS, CLATTN_LAYER_OUTPUT},
        },
        .values = {{"qkvlr", "3HK+3H", 0}, {"qkv", "3HK", 0}, {"qk", "2HK", 0}, {"lr", "3H", 1},
                   {"o", "HK", 0}, {"normed", "HK", 0}},
        .steps = {
            {.refs = {{OP(A), "x", 0}, {OP(B), "to_qkv.weight", 0}, {OP(D), "qkvlr", 0}}},
            {{.rule = CLATTN_SHORT_CONV}, .value_dim = "3HK", .taps = "1", /* silu alone */
             .refs = {{OP(V), "qkvlr", 0}, {OP(W), "ones", 0}, {OP(O), "qkv", 0}}},
            {{.rule = CLATTN_RMS_NORM}, .heads = "2H", .value_dim = "K", .norm_eps = 1e-5, /* x / (|x| + 1e-5) */
             .refs = {{OP(V), "qkv", 0}, {OP(W), "roots", 0}, {OP(O), "qk", 0}}},
            {{.rule = CLATTN_GATES, .flags = CLATTN_WITH_DT_BIAS, .gate_map = CLATTN_GATE_MAP_SOFTPLUS, .scale = -1},
             .heads = "3H", .refs = {{OP(V), "qkvlr", "3HK"}, {OP(DT_BIAS), "lr_fc.bias", 0}, {OP(O), "lr", 0}}},
            {{.rule = CLATTN_LACT}, .heads = "H", .key_dim = "K", .value_dim = "K", .inner = "F",
             .refs = {{OP(Q), "qk", 0}, {OP(K), "qk", "HK"}, {OP(V), "qkv", "2HK"}, {OP(LR0), "lr", 0},
                      {OP(LR1), "lr", "H"}, {OP(LR2), "lr", "2H"}, {OP(O), "o", 0},
                      {OP(W0), "state_w0", 0}, {OP(W0), "w0", 0}, {OP(W1), "state_w1", 0}, {OP(W1), "w1", 0},
                      {OP(W2), "state_w2", 0}, {OP(W2), "w2", 0},
                      {OP(FINAL_W0), "final_w0", 0}, {OP(FINAL_W1), "final_w1", 0}, {OP(FINAL_W2), "final_w2", 0}}},
            {{.rule = CLATTN_RMS_NORM}, .heads = "H", .value_dim = "K", .with_eps = 1,
             .refs = {{OP(V), "o", 0}, {OP(W), "o_norm.weight", 0}, {OP(O), "normed", 0}}},
            {.refs = {{OP(A), "normed", 0}, {OP(B), "c_proj.weight", 0}, {OP(D), "y", 0}}},
        },
    },
    [CLATTN_LAYER_MESA_NET] = {
        "mesa_net", "MesaNet",
        "y = W_o rms_norm(mesa_net(q, k, v, log sigmoid(W_a x + b), sigmoid(W_b x + c))), (q, k) = silu(conv(W_qk x)), "
        "v = W_v x, ridge = softplus(lambda) + 0.25",
        "von Oswald et al. 2025, MesaNet, arXiv:2506.05233",
        .letters = "CHKVW", .eps = 1e-5,
        .weights = {
            {"q_proj.weight",   {"HK", "C"},      .form = FORM_MATRIX},
            {"k_proj.weight",   {"HK", "C"},      .form = FORM_MATRIX, .joined = 1},
            {"v_proj.weight",   {"HV", "C"},      .form = FORM_MATRIX, .joined = 1},
            {"a_proj.weight",   {"H", "C"},       .form = FORM_MATRIX, .joined = 1},
            {"b_proj.weight",   {"H", "C"},       .form = FORM_MATRIX, .joined = 1},
            {"a_proj.bias",     {"H"},            .form = FORM_FLOATS},
            {"b_proj.bias",     {"H"},            .form = FORM_FLOATS},
            {"lambda_params",   {"HK"},           .form = FORM_RIDGES},
            {"q_conv1d.weight", {"HK", "1", "W"}, .form = FORM_FLOATS},
            {"k_conv1d.weight", {"HK", "1", "W"}, .form = FORM_FLOATS, .joined = 1},
            {"q_conv1d.bias",   {"HK"},           .form = FORM_FLOATS, .optional = 1},
            {"k_conv1d.bias",   {"HK"},           .form = FORM_FLOATS, .optional = 1, .joined = 1},
            {"o_norm.weight",   {"V"},            .form = FORM_FLOATS},
            {"o_proj.weight",   {"C", "HV"},      .form = FORM_MATRIX},
        },
        .states = {
            {"conv_state",       {"B", "W", "HK+HK"},  OF_FLOATS, CLATTN_LAYER_INPUT},
            {"state",            {"B", "H", "K", "V"}, OF_FLOATS, CLATTN_LAYER_INPUT},
            {"gram",             {"B", "H", "K", "K"}, OF_FLOATS, CLATTN_LAYER_INPUT},
            {"final_conv_state", {"B", "W", "HK+HK"},  OF_FLOATS, CLATTN_LAYER_OUTPUT},
            {"final_state",      {"B", "H", "K", "V"}, OF_FLOATS, CLATTN_LAYER_OUTPUT},
            {"final_gram",       {"B", "H", "K", "K"}, OF_FLOATS, CLATTN_LAYER_OUTPUT},
        },
        .values = {{"qkvab", "HK+HK+HV+H+H", 0}, {"qk", "HK+HK", 0}, {"decay", "H", 1}, {"strength", "H", 1},
                   {"o", "HV", 0}, {"normed", "HV", 0}},
        .steps = {
            {.refs = {{OP(A), "x", 0}, {OP(B), "q_proj.weight", 0}, {OP(D), "qkvab", 0}}},
            {{.rule = CLATTN_SHORT_CONV, .flags = CLATTN_WITH_BIAS}, .value_dim = "HK+HK", .taps = "W",
             .refs = {{OP(V), "qkvab", 0}, {OP(W), "q_conv1d.weight", 0}, {OP(BIAS), "q_conv1d.bias", 0},
                      {OP(O), "qk", 0}, {OP(STATE_IN), "conv_state", 0}, {OP(STATE_OUT), "final_conv_state", 0}}},
            {{.rule = CLATTN_GATES, .flags = CLATTN_WITH_DT_BIAS, .gate_map = CLATTN_GATE_MAP_LOGSIGMOID,
              .gate_scale = 1}, .heads = "H",
             .refs = {{OP(V), "qkvab", "HK+HK+HV"}, {OP(DT_BIAS), "a_proj.bias", 0}, {OP(O), "decay", 0}}},
            {{.rule = CLATTN_GATES, .flags = CLATTN_WITH_DT_BIAS, .gate_map = CLATTN_GATE_MAP_SIGMOID,
              .gate_scale = 1}, .heads = "H",
             .refs = {{OP(V), "qkvab", "HK+HK+HV+H"}, {OP(DT_BIAS), "b_proj.bias", 0}, {OP(O), "strength", 0}}},
            {{.rule = CLATTN_MESA_NET, .flags = CLATTN_QK_L2NORM}, .heads = "H", .key_dim = "K", .value_dim = "V",
             .refs = {{OP(Q), "qk", 0}, {OP(K), "qk", "HK"}, {OP(V), "qkvab", "HK+HK"}, {OP(G), "decay", 0},
                      {OP(BETA), "strength", 0}, {OP(RIDGE), "lambda_params", 0}, {OP(O), "o", 0},
                      {OP(STATE_IN), "state", 0}, {OP(STATE_OUT), "final_state", 0},
                      {OP(GRAM_IN), "gram", 0}, {OP(GRAM_OUT), "final_gram", 0}}},
            {{.rule = CLATTN_RMS_NORM}, .heads = "H", .value_dim = "V", .with_eps = 1,
             .refs = {{OP(V), "o", 0}, {OP(W), "o_norm.weight", 0}, {OP(O), "normed", 0}}},
            {.refs = {{OP(A), "normed", 0}, {OP(B), "o_proj.weight", 0}, {OP(D), "y", 0}}},
        },
    },
};
/* clang-format on */

const struct layer *layer_get(clattn_layer layer)
{
    size_t index = (size_t)layer;

    return index < sizeof layers / sizeof *layers && layers[index].name != NULL ? &layers[index] : NULL;
}

int weight_is_made(const struct layer_weight *weight)
{
    return weight->form == FORM_ONES || weight->form == FORM_ROOTS;
}
