#include "cli/desc_options.h"

#include "base/text.h"
#include "cli/words.h"

#include <stdio.h>
#include <string.h>

static const struct word state_words[] = {{"kv", 0}, {"vk", 1}, {NULL, 0}};
static const struct word gate_words[] = {{"token", 0}, {"head", 1}, {NULL, 0}};
static const struct word gate_map_words[] = {
    {"log", CLATTN_GATE_MAP_LOG},         {"softplus", CLATTN_GATE_MAP_SOFTPLUS},
    {"sigmoid", CLATTN_GATE_MAP_SIGMOID}, {"logsigmoid", CLATTN_GATE_MAP_LOGSIGMOID},
    {"exp", CLATTN_GATE_MAP_EXP},         {NULL, 0}};
static const struct word beta_map_words[] = {{"strength", CLATTN_BETA_STRENGTH},
                                             {"sigmoid", CLATTN_BETA_SIGMOID},
                                             {"twice-sigmoid", CLATTN_BETA_TWICE_SIGMOID},
                                             {"softplus", CLATTN_BETA_SOFTPLUS},
                                             {NULL, 0}};
static const struct word heads_words[] = {{"blocks", 0}, {"tiled", 1}, {NULL, 0}};
static const struct word features_words[] = {
    {"favor", CLATTN_FEATURES_FAVOR}, {"rfa", CLATTN_FEATURES_RFA}, {"hedgehog", CLATTN_FEATURES_HEDGEHOG}, {NULL, 0}};
static const struct word muon_words[] = {
    {"none", CLATTN_MUON_NONE}, {"five", CLATTN_MUON_FIVE}, {"keller", CLATTN_MUON_KELLER}, {NULL, 0}};
static const struct word index_words[] = {{"i32", 0}, {"i64", 1}, {NULL, 0}};

enum kind { COUNT, LENGTH, REAL, WORD, FLAG };
enum seen { HIDDEN, LAYOUT, SHOWN }; /* of a file's tensors: not; it is how they lie; they show it */

#define FIELD(kind, name, words, seen)                                                                                 \
    {                                                                                                                  \
#name, kind, offsetof(clattn_plan_desc, name), words, 0, seen                                                  \
    }
#define SWITCH(name, words, flag, seen)                                                                                \
    {                                                                                                                  \
        name, FLAG, 0, words, flag, seen                                                                               \
    }

static const struct option {
    const char *name;
    enum kind kind;
    size_t offset; /* of an int32_t, an int64_t, a double or an enum; not of flags */
    const struct word *words;
    uint32_t flag;
    enum seen seen;
} options[DESC_OPTION_COUNT] = {
    FIELD(COUNT, steps, NULL, LAYOUT),
    FIELD(COUNT, layer, NULL, HIDDEN),
    FIELD(COUNT, layers, NULL, HIDDEN),
    FIELD(WORD, slopes, slopes_words, HIDDEN),
    FIELD(REAL, eps, NULL, HIDDEN),
    FIELD(REAL, scale, NULL, HIDDEN),
    FIELD(WORD, feature_map, feature_map_words, HIDDEN),
    FIELD(LENGTH, window, NULL, HIDDEN),
    FIELD(LENGTH, state_window, NULL, HIDDEN),
    FIELD(LENGTH, state_every, NULL, HIDDEN),
    FIELD(WORD, gate_map, gate_map_words, HIDDEN),
    FIELD(WORD, beta_map, beta_map_words, HIDDEN),
    FIELD(REAL, gate_scale, NULL, HIDDEN),
    SWITCH("a_log", switch_words, CLATTN_WITH_A_LOG, SHOWN),
    SWITCH("state", state_words, CLATTN_STATE_VK, LAYOUT),
    SWITCH("heads", heads_words, CLATTN_HEADS_TILED, LAYOUT),
    SWITCH("gate", gate_words, CLATTN_GATE_PER_HEAD, SHOWN),
    SWITCH("value_gate", switch_words, CLATTN_VALUE_GATE, SHOWN),
    SWITCH("ungated", switch_words, CLATTN_UNGATED, SHOWN),
    SWITCH("normalize", switch_words, CLATTN_NORMALIZE, HIDDEN),
    SWITCH("qk_l2norm", switch_words, CLATTN_QK_L2NORM, HIDDEN),
    SWITCH("sink", switch_words, CLATTN_WITH_SINK, SHOWN),
    SWITCH("lse", switch_words, CLATTN_WITH_LSE, HIDDEN),
    FIELD(WORD, kernel, weights_words, HIDDEN),
    FIELD(WORD, write_kernel, weights_words, HIDDEN),
    SWITCH("p", switch_words, CLATTN_WITH_P, SHOWN),
    SWITCH("beta", switch_words, CLATTN_WITH_BETA, SHOWN),
    SWITCH("written", switch_words, CLATTN_WITH_WRITTEN, HIDDEN),
    SWITCH("attn", switch_words, CLATTN_WITH_ATTN, HIDDEN),
    SWITCH("reversed", switch_words, CLATTN_REVERSED, HIDDEN),
    SWITCH("softplus", switch_words, CLATTN_SOFTPLUS, HIDDEN),
    SWITCH("dt_bias", switch_words, CLATTN_WITH_DT_BIAS, SHOWN),
    SWITCH("d", switch_words, CLATTN_WITH_D, SHOWN),
    SWITCH("z", switch_words, CLATTN_WITH_Z, SHOWN),
    SWITCH("complex", switch_words, CLATTN_COMPLEX, LAYOUT),
    SWITCH("kv_lens", switch_words, CLATTN_WITH_KV_LENS, SHOWN),
    SWITCH("append", switch_words, CLATTN_APPEND, SHOWN),
    FIELD(LENGTH, tail, NULL, SHOWN),
    SWITCH("carry", switch_words, CLATTN_CARRY, HIDDEN),
    FIELD(WORD, absolute, switch_words, HIDDEN),
    SWITCH("state_indices", switch_words, CLATTN_WITH_STATE_INDICES, SHOWN),
    SWITCH("cu_seqlens", index_words, CLATTN_CU_SEQLENS_INT64, SHOWN),
    FIELD(COUNT, taps, NULL, SHOWN),
    FIELD(WORD, activation, activation_words, HIDDEN),
    FIELD(WORD, with_bias, switch_words, SHOWN),
    FIELD(WORD, residual, switch_words, HIDDEN),
    FIELD(WORD, weighting, weighting_words, HIDDEN),
    FIELD(WORD, gating, gating_words, HIDDEN),
    FIELD(WORD, centered, switch_words, HIDDEN),
    FIELD(WORD, eps_outside, switch_words, HIDDEN),
    SWITCH("rope", switch_words, CLATTN_WITH_ROPE, HIDDEN),
    FIELD(REAL, rope_base, NULL, HIDDEN),
    FIELD(COUNT, rope_dim, NULL, HIDDEN),
    FIELD(WORD, interleaved, switch_words, HIDDEN),
    FIELD(WORD, with_position, switch_words, SHOWN),
    FIELD(WORD, turned_back, switch_words, HIDDEN),
    FIELD(WORD, features, features_words, HIDDEN),
    FIELD(WORD, of_queries, switch_words, HIDDEN),
    FIELD(LENGTH, hidden_dim, NULL, SHOWN),
    FIELD(COUNT, mini_batch, NULL, HIDDEN),
    FIELD(WORD, muon, muon_words, HIDDEN),
    FIELD(WORD, pre_norm, switch_words, HIDDEN),
    FIELD(WORD, with_momentum, switch_words, SHOWN),
    SWITCH("noncausal", switch_words, CLATTN_NONCAUSAL, HIDDEN),
};

size_t desc_option_find(const char *name)
{
    size_t option = 0;

    while (option < DESC_OPTION_COUNT && !word_equal(options[option].name, name))
        option++;
    return option;
}

const char *desc_option_name(size_t option)
{
    return options[option].name;
}

int desc_option_is_shown(size_t option)
{
    return options[option].seen == SHOWN;
}

int desc_option_is_layout(size_t option)
{
    return options[option].seen == LAYOUT;
}

uint32_t desc_option_flag(size_t option)
{
    return options[option].flag;
}

static int read_count(const char *what, const char *text, void *field)
{
    int64_t number;
    int32_t narrow;

    if (number_read(what, text, 0, INT32_MAX, &number) != EXIT_OK)
        return EXIT_BAD;
    narrow = (int32_t)number;
    memcpy(field, &narrow, sizeof narrow);
    return EXIT_OK;
}

static int read_word(const struct word *words, const char *what, const char *text, void *field)
{
    int value;

    if (word_read(what, words, text, &value) != EXIT_OK)
        return EXIT_BAD;
    memcpy(field, &value, sizeof value); /* an enum, whose values are an int's */
    return EXIT_OK;
}

static int read_flag(const struct option *option, const char *what, const char *text, uint32_t *flags)
{
    int set;

    if (word_read(what, option->words, text, &set) != EXIT_OK)
        return EXIT_BAD;
    *flags = (*flags & ~option->flag) | (set ? option->flag : 0);
    return EXIT_OK;
}

int desc_option_read(size_t number, const char *what, const char *text, clattn_plan_desc *desc)
{
    const struct option *option = &options[number];
    void *field = (char *)desc + option->offset;

    switch (option->kind) {
    case COUNT: return read_count(what, text, field);
    case LENGTH: return number_read(what, text, 0, INT32_MAX, field);
    case REAL: return real_read(what, text, field);
    case WORD: return read_word(option->words, what, text, field);
    case FLAG: return read_flag(option, what, text, &desc->flags);
    }
    return EXIT_BAD;
}

const char *desc_option_text(size_t number, const clattn_plan_desc *desc, char *text, size_t size)
{
    const struct option *option = &options[number];
    const void *field = (const char *)desc + option->offset;

    switch (option->kind) {
    case COUNT: snprintf(text, size, "%d", *(const int32_t *)field); break;
    case LENGTH: snprintf(text, size, "%lld", (long long)*(const int64_t *)field); break;
    case REAL: text_fit(text, size, "%.17g", *(const double *)field); break;
    case WORD: snprintf(text, size, "%s", word_name(option->words, *(const int *)field)); break;
    case FLAG: snprintf(text, size, "%s", word_name(option->words, (desc->flags & option->flag) != 0)); break;
    }
    return text;
}

void desc_option_copy(size_t number, const clattn_plan_desc *from, clattn_plan_desc *to)
{
    static const size_t sizes[] = {[COUNT] = sizeof(int32_t),
                                   [LENGTH] = sizeof(int64_t),
                                   [REAL] = sizeof(double),
                                   [WORD] = sizeof(int),
                                   [FLAG] = 0};
    const struct option *option = &options[number];

    memcpy((char *)to + option->offset, (const char *)from + option->offset, sizes[option->kind]);
    to->flags = (to->flags & ~option->flag) | (from->flags & option->flag);
}
