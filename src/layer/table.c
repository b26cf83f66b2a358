/* THE table of layers. */
#include "layer/layer.h"

static void conv(clattn_plan_desc *desc, const clattn_layer_desc *layer)
{
    desc->taps = (int32_t)layer->taps;
    desc->with_bias = 1;
}

/* Channels that are one by one anyway, as heads of as many as a rule takes. */
static void heads_of_channels(clattn_plan_desc *desc, const clattn_layer_desc *layer)
{
    enum { MOST_CHANNELS = 256 };
    int64_t width = layer->value_dim < MOST_CHANNELS ? layer->value_dim : MOST_CHANNELS;

    while (layer->value_dim % width != 0)
        width--;
    desc->value_dim = width;
    desc->heads = layer->value_dim / width;
}

#define OP(name) CLATTN_##name

/* clang-format off */
static const struct layer layers[] = {
    [CLATTN_LAYER_MAMBA] = {
        "mamba", "MambaMixer",
        "y = W_out mamba(silu(conv(W_x x)), W_dt dt, B, C, D, z), (dt, B, C) = W silu(conv(W_x x)), z = W_z x",
        "Gu and Dao 2023, Mamba, arXiv:2312.00752",
        .letters = "CVKRW", .eps = 1e-5,
        .weights = {
            {"in_proj.weight",  {"V+V", "C"},   .form = FORM_MATRIX},
            {"conv1d.weight",   {"V", "1", "W"}, .form = FORM_FLOATS},
            {"conv1d.bias",     {"V"},          .form = FORM_FLOATS, .optional = 1},
            {"x_proj.weight",   {"R+K+K", "V"}, .form = FORM_MATRIX},
            {"dt_proj.weight",  {"V", "R"},     .form = FORM_MATRIX},
            {"dt_proj.bias",    {"V"},          .form = FORM_FLOATS},
            {"A_log",           {"V", "K"},     .form = FORM_RATES},
            {"D",               {"V"},          .form = FORM_FLOATS},
            {"out_proj.weight", {"C", "V"},     .form = FORM_MATRIX},
        },
        .states = {
            {"conv_state",       {"B", "W", "V"}, 1, CLATTN_LAYER_INPUT},
            {"state",            {"B", "V", "K"}, 1, CLATTN_LAYER_INPUT},
            {"final_conv_state", {"B", "W", "V"}, 1, CLATTN_LAYER_OUTPUT},
            {"final_state",      {"B", "V", "K"}, 1, CLATTN_LAYER_OUTPUT},
        },
        .values = {{"xz", "V+V", 0}, {"v", "V", 0}, {"dt_b_c", "R+K+K", 0}, {"dt", "V", 0}, {"o", "V", 0}},
        .steps = {
            {.refs = {{OP(A), "x", 0}, {OP(B), "in_proj.weight", 0}, {OP(D), "xz", 0}}},
            {CLATTN_SHORT_CONV, .value_dim = "V", .more = conv,
             .refs = {{OP(V), "xz", 0}, {OP(W), "conv1d.weight", 0}, {OP(BIAS), "conv1d.bias", 0}, {OP(O), "v", 0},
                      {OP(STATE_IN), "conv_state", 0}, {OP(STATE_OUT), "final_conv_state", 0}}},
            {.refs = {{OP(A), "v", 0}, {OP(B), "x_proj.weight", 0}, {OP(D), "dt_b_c", 0}}},
            {.refs = {{OP(A), "dt_b_c", 0}, {OP(B), "dt_proj.weight", 0}, {OP(D), "dt", 0}}},
            {CLATTN_MAMBA, CLATTN_SOFTPLUS | CLATTN_WITH_DT_BIAS | CLATTN_WITH_D | CLATTN_WITH_Z | CLATTN_STATE_VK,
             .key_dim = "K", .more = heads_of_channels,
             .refs = {{OP(Q), "dt_b_c", "R+K"}, {OP(K), "dt_b_c", "R"}, {OP(V), "v", 0}, {OP(DT), "dt", 0},
                      {OP(DT_BIAS), "dt_proj.bias", 0}, {OP(A), "A_log", 0}, {OP(D), "D", 0}, {OP(Z), "xz", "V"},
                      {OP(O), "o", 0}, {OP(STATE_IN), "state", 0}, {OP(STATE_OUT), "final_state", 0}}},
            {.refs = {{OP(A), "o", 0}, {OP(B), "out_proj.weight", 0}, {OP(D), "y", 0}}},
        },
    },
};
/* clang-format on */

const struct layer *layer_get(clattn_layer layer)
{
    size_t index = (size_t)layer;

    return index < sizeof layers / sizeof *layers && layers[index].name != NULL ? &layers[index] : NULL;
}
