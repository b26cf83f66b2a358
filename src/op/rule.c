/* THE table of rules, and what follows from its columns. */
#include "op/alibi.h"
#include "op/op.h"
#include "op/state.h"

#ifdef __clang__ /* op and piece are given for pieces alone */
#pragma clang diagnostic ignored "-Wmissing-field-initializers"
#endif

#include "base/sized.h"

#include <math.h>
#include <string.h>

/* RetNet: gamma_h = 1 - 2^(-5-h) */
static double retention_decay(const clattn_plan_desc *desc, int64_t head)
{
    (void)desc;
    return log1p(-exp2(-5.0 - (double)head));
}

/* Lightning Attention-2, or the decays that MiniMax-01 has in its place */
static double lightning_decay(const clattn_plan_desc *desc, int64_t head)
{
    double heads = (double)desc->kv_heads, layer = (double)desc->layer, layers = (double)desc->layers;

    switch (desc->slopes) {
    case CLATTN_SLOPES_LIGHTNING: return -8 / heads * (1 - layer / layers) * (double)head;
    case CLATTN_SLOPES_MINIMAX:
        return -exp2(-8 * (double)(head + 1) / heads) * (1 - layer / (layers - 1 + 1e-5) + 1e-5);
    }
    return 0;
}

/* clang-format off */
/* What a row says of the words: those of words.def by their names */
#define WORDS(decay, gate, head_decay, erase, order, write, read, state)                                               \
    DECAY_##decay, gate, head_decay, ERASE_##erase, order##_FIRST, WRITE_##write, READ_##read, state_##state

/* The same of a piece, which has no words. */
#define PIECE_OF(own, keeps) .op = OP_PIECE, .piece = PIECE_##own, .read = READ_AFTER, .state = state_##keeps

/* And of a learner. */
#define LEARNER(keeps) .op = OP_LEARNER, .read = READ_AFTER, .state = state_##keeps
/* Of those that batches of a few tokens train, at the end of their rows */
#define TRAINED(own, of_tokens, biased, minimises, reads)                                                              \
    .model = MODEL_##own, .rates = RATES_##of_tokens, .bias = biased, .default_loss = CLATTN_LOSS_##minimises,         \
    .default_readout = CLATTN_READOUT_##reads

static const struct rule rules[RULE_COUNT] = {
    /* name, aliases,
              decay    gate        head_decay       erase     first  write  read,   state,   scale,
        recurrence, paper */
    [CLATTN_LINEAR_ATTN] = { "linear_attn", "",
        WORDS(NONE,    NO_OPERAND, NULL,            NONE,     DECAY, VALUE, AFTER, normalized), 0,
        "S += k v^T; o = S^T q", "Katharopoulos et al. 2020, Transformers are RNNs, arXiv:2006.16236" },
    [CLATTN_RETENTION] = { "retention", "retnet",
        WORDS(SCALAR,  NO_OPERAND, retention_decay, NONE,     DECAY, VALUE, AFTER, matrix), 0,
        "S = (1 - 2^(-5-h)) S + k v^T; o = S^T q", "Sun et al. 2023, Retentive Network, arXiv:2307.08621" },
    [CLATTN_LIGHTNING_ATTN] = { "lightning_attn", "",
        WORDS(SCALAR,  NO_OPERAND, lightning_decay, NONE,     DECAY, VALUE, AFTER, matrix), 0,
        "S = e^(-(8/H)(1 - layer/layers) h) S + k v^T; o = S^T q",
        "Qin et al. 2024, Lightning Attention-2, arXiv:2401.04658" },
    [CLATTN_SIMPLE_GLA] = { "simple_gla", "mamba2 gated_retention",
        WORDS(SCALAR,  OP(G),      NULL,            NONE,     DECAY, VALUE, AFTER, matrix), 0,
        "S = e^g S + k v^T; o = S^T q", "Dao and Gu 2024, Transformers are SSMs, arXiv:2405.21060" },
    [CLATTN_SSD] = { "ssd", "",
        WORDS(SCALAR,  OP(G),      NULL,            NONE,     DECAY, BETA,  AFTER, matrix), 1,
        "S = e^g S + beta k v^T; o = S^T q", "Dao and Gu 2024, Transformers are SSMs, arXiv:2405.21060" },
    [CLATTN_GLA] = { "gla", "hgrn2",
        WORDS(CHANNEL, OP(G),      NULL,            NONE,     DECAY, VALUE, AFTER, matrix), 0,
        "S = diag(e^g) S [diag(e^gv)] + k v^T; o = S^T q",
        "Yang et al. 2023, Gated Linear Attention, arXiv:2312.06635" },
    [CLATTN_RWKV6] = { "rwkv6", "",
        WORDS(CHANNEL, OP(W),      NULL,            NONE,     DECAY, VALUE, BONUS, matrix), 0,
        "o = (S + diag(u) k v^T)^T q; S = diag(e^w) S + k v^T", "Peng et al. 2024, Eagle and Finch, arXiv:2404.05892" },
    [CLATTN_DELTA_RULE] = { "delta_rule", "deltanet",
        WORDS(NONE,    NO_OPERAND, NULL,            KEY,      DECAY, BETA,  AFTER, matrix), 0,
        "S += beta k (v - S^T k)^T; o = S^T q",
        "Yang et al. 2024, Parallelizing Linear Transformers with the Delta Rule, arXiv:2406.06484" },
    [CLATTN_GATED_DELTA_RULE] = { "gated_delta_rule", "gated_deltanet gdn",
        WORDS(SCALAR,  OP(G),      NULL,            KEY,      DECAY, BETA,  AFTER, matrix), 0,
        "S = e^g S; S += beta k (v - S^T k)^T; o = S^T q", "Yang et al. 2024, Gated Delta Networks, arXiv:2412.06464" },
    [CLATTN_KDA] = { "kda", "kimi_delta_attention",
        WORDS(CHANNEL, OP(G),      NULL,            KEY,      DECAY, BETA,  AFTER, matrix), 0,
        "S = diag(e^g) S; S += beta k (v - S^T k)^T; o = S^T q", "Kimi Team 2025, Kimi Linear, arXiv:2510.26692" },
    [CLATTN_COMBA] = { "comba", "",
        WORDS(SCALAR,  OP(G),      NULL,            OPERAND,  ERASE, BETA,  AFTER, matrix), 0,
        "S = e^g S + beta k (v - S^T p)^T; o = S^T q", "Hu et al. 2025, Comba, arXiv:2506.02475" },
    [CLATTN_GDN2] = { "gdn2", "gated_deltanet2",
        WORDS(CHANNEL, OP(G),      NULL,            GATED,    DECAY, GATED, AFTER, matrix), 0,
        "S = diag(e^g) S; S += k (w o v - S^T (b o k))^T; o = S^T q", "Gated DeltaNet-2" },
    [CLATTN_GATED_DELTA_PRODUCT] = { "gated_delta_product", "deltaproduct",
        WORDS(SCALAR,  OP(G),      NULL,            KEY,      DECAY, BETA,  AFTER, matrix), 0,
        "S = e^g S; n times S += beta_j k_j (v_j - S^T k_j)^T; o = S^T q",
        "Siems et al. 2025, DeltaProduct, arXiv:2502.10297" },
    [CLATTN_DPLR] = { "dplr", "",
        WORDS(CHANNEL, OP(G),      NULL,            LOW_RANK, ERASE, VALUE, AFTER, matrix), 0,
        "S = diag(e^g) S + b (a^T S) + k v^T; o = S^T q",
        "Yang and Zhang, flash-linear-attention; Peng et al. 2025, arXiv:2503.14456" },
    [CLATTN_IPLR] = { "iplr", "",
        WORDS(NONE,    NO_OPERAND, NULL,            LOW_RANK, ERASE, VALUE, AFTER, matrix), 0,
        "S = S + b (a^T S) + k v^T; o = S^T q", "Yang and Zhang, flash-linear-attention" },
    [CLATTN_RWKV7] = { "rwkv7", "",
        WORDS(CHANNEL, OP(W),      NULL,            LOW_RANK, ERASE, VALUE, AFTER, matrix), 1,
        "S = diag(e^w) S + b (a^T S) + k v^T; o = S^T r", "Peng et al. 2025, RWKV-7 Goose, arXiv:2503.14456" },
    [CLATTN_MLSTM] = { "mlstm", "xlstm",
        WORDS(SCALAR,  OP(F),      NULL,            NONE,     DECAY, EXP,   STABILIZED, stabilized), 0,
        "S = e^f S + e^i k v^T; n = e^f n + e^i k; o = S^T q / (max(|n^T q|, e^-m) + eps)",
        "Beck et al. 2024, xLSTM, arXiv:2405.04517" },
    [CLATTN_PRECOND_GATED_DELTA_RULE] = { "precond_gated_delta_rule", "",
        WORDS(SCALAR,  OP(G),      NULL,            OPERAND,  DECAY, BETA,  AFTER, matrix), 0,
        "S = e^g S; S += beta k (v - S^T p)^T; o = S^T q",
        "Tumma et al. 2026, Preconditioned DeltaNet, arXiv:2604.21100" },
    [CLATTN_SOFTMAX_ATTN] = { "softmax_attn", "attention sdpa flash_attn",
        WORDS(NONE,    NO_OPERAND, NULL,            NONE,     DECAY, VALUE, SOFTMAX, none), 0,
        "o = sum_j softmax_j(q.k_j) v_j", "Vaswani et al. 2017, Attention Is All You Need, arXiv:1706.03762" },
    [CLATTN_ALIBI_ATTN] = { "alibi_attn", "",
        WORDS(SCALAR,  NO_OPERAND, alibi_decay,     NONE,     DECAY, VALUE, SOFTMAX, none), 0,
        "o_i = sum_j softmax_j(q.k_j - 2^(-8(h+1)/H) (i - j)) v_j",
        "Press et al. 2021, Train Short, Test Long, arXiv:2108.12409" },
    [CLATTN_FORGETTING_ATTN] = { "forgetting_attn", "fox",
        WORDS(SCALAR,  OP(G),      NULL,            NONE,     DECAY, VALUE, SOFTMAX, none), 0,
        "b_j += g for each j before; o = sum_j softmax_j(q.k_j + b_j) v_j",
        "Lin et al. 2025, Forgetting Transformer, arXiv:2503.02130" },
    [CLATTN_PATH_ATTN] = { "path_attn", "path path_fox",
        WORDS(SCALAR,  OP(G),      NULL,            POSITION, DECAY, VALUE, SOFTMAX, none), 0,
        "b_j += g, k_j -= beta w (w^T k_j) for each j before; o = sum_j softmax_j(scale (q.k_j + b_j)) v_j",
        "Yang et al. 2025, PaTH Attention, arXiv:2505.16381" },
    [CLATTN_DELTAFORMER] = { "deltaformer", "",
        WORDS(NONE,    NO_OPERAND, NULL,            KERNEL,   DECAY, VALUE, SOFTMAX, none), 0,
        "u = v - beta sum_(j before) softmax_j(p.k_j) u_j; o = sum_j softmax_j(q.k_j) u_j",
        "Zhong et al. 2025, Understanding Transformer from the Perspective of Associative Memory, arXiv:2505.19488" },
    [CLATTN_HGRN] = { "hgrn", "",
        WORDS(VALUE,   OP(GV),     NULL,            NONE,     DECAY, VALUE, STATE, matrix), 1,
        "h = e^gv o h + v; o = h", "Qin et al. 2023, Hierarchically Gated Recurrent Neural Network, arXiv:2311.04823" },
    [CLATTN_LRU] = { "lru", "",
        WORDS(COMPLEX, OP(GV),     NULL,            NONE,     DECAY, VALUE, STATE, matrix), 1,
        "h = e^(gv + i theta) o h + v; o = h, of pairs (re, im)",
        "Orvieto et al. 2023, Resurrecting Recurrent Neural Networks for Long Sequences, arXiv:2303.06349" },
    [CLATTN_MAMBA] = { "mamba", "selective_scan s4d",
        WORDS(PRODUCT, OP(A),      NULL,            NONE,     DECAY, STEP,  AFTER, matrix), 1,
        "S = e^(a dt) o S + k (dt o v)^T; o = (S^T q [+ d o v]) [o silu(z)]",
        "Gu and Dao 2023, Mamba, arXiv:2312.00752" },
    [CLATTN_FULL_GATE] = { "full_gate", "",
        WORDS(FULL,    OP(G),      NULL,            NONE,     DECAY, VALUE, AFTER, matrix), 0,
        "S = e^g o S + k v^T; o = S^T q", "Yang et al. 2023, Gated Linear Attention, arXiv:2312.06635" },
    [CLATTN_SHORT_CONV] = { "short_conv", "causal_conv1d canon", PIECE_OF(SHORT_CONV, inputs), 1,
        "o_t = act(sum_(r < W) w_r v_(t-W+1+r) [+ bias]) [+ v_t]",
        "Gu and Dao 2023, Mamba, arXiv:2312.00752; Allen-Zhu 2025, Canon layers, arXiv:2512.17351" },
    [CLATTN_RMS_NORM] = { "rms_norm", "gated_rms_norm", PIECE_OF(RMS_NORM, none), 1,
        "x = v [+ d o u]; o = x / sqrt(mean(x^2) + eps) [o w] [o silu(z)]",
        "Zhang and Sennrich 2019, Root Mean Square Layer Normalization, arXiv:1910.07467", .default_eps = 1e-5 },
    [CLATTN_GATES] = { "gates", "", PIECE_OF(GATES, none), 1,
        "x = v [+ dt_bias]; o = scale times -e^a_log softplus(x), c sigmoid(e^a_log x), c log sigmoid(x) or -e^x",
        "Dao and Gu 2024, Transformers are SSMs, arXiv:2405.21060; Yang et al. 2023, arXiv:2312.06635" },
    [CLATTN_ROPE] = { "rope", "rotary", PIECE_OF(ROPE, none), 1,
        "o = pairs of v turned by t base^(-2n/dim)", "Su et al. 2021, RoFormer, arXiv:2104.09864" },
    [CLATTN_FEATURES] = { "features", "performer hedgehog", PIECE_OF(FEATURES, none), 1,
        "o = e^(y - |v|^2/2), y = omega v; or [sin y, cos y], [softmax y, softmax -y]",
        "Choromanski et al. 2020, Rethinking Attention with Performers, arXiv:2009.14794", .default_eps = 1e-4 },
    [CLATTN_LOG_LINEAR_ATTN] = { "log_linear_attn", "log_linear_mamba2",
        WORDS(SCALAR,  OP(G),      NULL,            NONE,     DECAY, VALUE, LEVELS, levels), 1,
        "S_l = e^g S_l for each level l; S_0 = k v^T; o = sum_l levels_l S_l^T q; levels merge as a binary counter",
        "Guo et al. 2025, Log-Linear Attention, arXiv:2506.04761" },
    [CLATTN_LOG_LINEAR_GATED_DELTA_RULE] = { "log_linear_gated_delta_rule", "log_linear_gated_deltanet",
        WORDS(SCALAR,  OP(G),      NULL,            KEY,      DECAY, BETA,  LEVELS, levels), 1,
        "S_l = e^g S_l, S_l -= beta k (S_l^T k)^T for each level l; S_0 = beta k v^T; o = sum_l levels_l S_l^T q; "
        "levels merge as a binary counter", "Guo et al. 2025, Log-Linear Attention, arXiv:2506.04761" },
    [CLATTN_LACT] = { "lact", "", LEARNER(network), 1,
        "o = w1 (silu(w0 q) o (w2 q)); after a batch w += sum of lr d(v.w1 (silu(w0 k) o (w2 k)))/dw, rows rescaled",
        "Zhang et al. 2025, Test-Time Training Done Right, arXiv:2505.23884" },
    [CLATTN_TTT_LINEAR] = { "ttt_linear", "ttt", LEARNER(biased_weights), 1,
        "W = W' - eta sum of d(|LN(z) - (v - k)|^2/2)/dW' over the batch so far, z = W'^T k + c'; o = q + LN(W^T q + c)",
        "Sun et al. 2024, Learning to (Learn at Test Time), arXiv:2407.04620", TRAINED(LINEAR, ETA, 1, LN, Q) },
    [CLATTN_TTT_MLP] = { "ttt_mlp", "", LEARNER(mlp), 1,
        "ttt_linear of f(x) = w2^T gelu(w1^T x + b1) + b2",
        "Sun et al. 2024, Learning to (Learn at Test Time), arXiv:2407.04620", TRAINED(MLP, ETA, 1, LN, Q) },
    [CLATTN_TITANS] = { "titans", "atlas omega", LEARNER(moving_weights), 1,
        "M = momentum M - theta d(|z - v|^2/2)/dW', z = W'^T k; W = (1 - alpha) W + M; o = W^T q",
        "Behrouz et al. 2025, Titans, arXiv:2501.00663", TRAINED(LINEAR, THETA, 0, L2, NONE) },
    [CLATTN_TITANS_MLP] = { "titans_mlp", "atlas_mlp", LEARNER(moving_mlp), 1,
        "titans of f(x) = w2^T gelu(w1^T x + b1) + b2", "Behrouz et al. 2025, Titans, arXiv:2501.00663",
        TRAINED(MLP, THETA, 1, L2, NONE) },
    [CLATTN_MESA_NET] = { "mesa_net", "mesanet mesa",
        WORDS(SCALAR,  OP(G),      NULL,            NONE,     DECAY, BETA,  SOLVED, solved), 1,
        "R = e^g R + beta k k^T; S = e^g S + beta k v^T; o = S^T (R + diag(ridge))^-1 q",
        "von Oswald et al. 2025, MesaNet, arXiv:2506.05233" },
};

/* What each word reads, beside q, k, v. */
#define NONE_ROW ROW(NO_OPERAND, NULL, STORE_DATA, WRITTEN)
static const struct operand_row erase_rows[][2] = {
#define ERASE(value, name, p, e, ...) { p, e },
#include "op/words.def"
};
static const struct operand_row write_rows[] = {
#define WRITE(value, row, ...) row,
#include "op/words.def"
};
static const int writes_columns[] = {
#define WRITE(value, row, role, strength, plain, matrix, made, step) (made) || (step),
#include "op/words.def"
};
static const struct operand_row read_rows[] = {
#define READ(value, row, ...) row,
#include "op/words.def"
};
static const struct {
    int before, list, keyless;
} read_words[] = {
#define READ(value, row, plain, matrix, before, bonus, list, keyless) { before, list, keyless },
#include "op/words.def"
};
static const struct {
    const char *name;
    int work;
} erase_words[] = {
#define ERASE(value, name, p, e, draw, work, ...) { name, work },
#include "op/words.def"
};
static const struct {
    const char *name, *list_dims;
    struct operand_row gate, second;
    int channels;
} decay_words[] = {
#define DECAY(value, name, dims, list_dims, plain, matrix, bias, blocks, storage, numbers, second, channels)           \
    { name, list_dims, ROW(NO_OPERAND, dims, STORE_##storage, numbers), second, WORD_##channels },
#define WORD_CHANNELS 1
#define WORD_CHUNKS 0
#include "op/words.def"
};
/* clang-format on */

const struct operand_row *erase_operands(enum erase erase)
{
    return erase_rows[erase];
}

const struct operand_row *write_operand(enum write write)
{
    return &write_rows[write];
}

clattn_operand_id operand_of_strength(const struct rule *rule)
{
    return rule->op == OP_MIXER && rule->write == WRITE_BETA && !rule_has_list(rule) ? CLATTN_BETA : NO_OPERAND;
}

const char *decay_name(enum decay decay)
{
    return decay_words[decay].name;
}

const char *erase_name(enum erase erase)
{
    return erase_words[erase].name;
}

int read_is_before(enum read read)
{
    return read_words[read].before;
}

int rule_has_list(const struct rule *rule)
{
    return read_words[rule->read].list;
}

int rule_has_levels(const struct rule *rule)
{
    return rule->read == READ_LEVELS;
}

int rule_is_solved(const struct rule *rule)
{
    return rule->read == READ_SOLVED;
}

int rule_has_keys(const struct rule *rule)
{
    return rule->op != OP_PIECE && !read_words[rule->read].keyless;
}

int rule_asks_key_dim(const struct rule *rule)
{
    return rule_has_keys(rule) || rule->piece == PIECE_FEATURES;
}

int rule_has_chunks(const struct rule *rule)
{
    return rule->op == OP_LEARNER || (rule->op == OP_MIXER && !decay_words[rule->decay].channels);
}

int rule_has_tokens(const struct rule *rule)
{
    return rule->op != OP_LEARNER && !rule_has_list(rule);
}

int rule_has_matrix(const struct rule *rule)
{
    return rule->op == OP_MIXER && rule_has_chunks(rule) && !writes_columns[rule->write];
}

int erase_work(enum erase erase)
{
    return erase_words[erase].work;
}

const struct rule *rule_get(clattn_rule rule)
{
    return rule > CLATTN_RULE_NONE && rule < RULE_COUNT ? &rules[rule] : NULL;
}

clattn_status clattn_rule_describe_sized(clattn_rule rule, clattn_rule_info *info, size_t info_size)
{
    const struct rule *row = rule_get(rule);

    if (row == NULL || info == NULL)
        return CLATTN_INVALID_ARGUMENT;
    const clattn_rule_info ours = {rule, row->name, row->aliases, row->recurrence, row->paper};
    sized_write(info, info_size, &ours, sizeof ours);
    return CLATTN_SUCCESS;
}

/* Whether name is one of the space-separated words. */
static int has_word(const char *words, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = words; length > 0 && (at = strstr(at, name)) != NULL; at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return 1;
    return 0;
}

clattn_rule clattn_rule_find(const char *name)
{
    if (name == NULL || strchr(name, ' ') != NULL)
        return CLATTN_RULE_NONE;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        if (strcmp(rules[rule].name, name) == 0 || has_word(rules[rule].aliases, name))
            return rule;
    return CLATTN_RULE_NONE;
}

static struct operand_row gate_row(const clattn_plan_desc *desc, const struct rule *rule)
{
    struct operand_row row = decay_words[rule->decay].gate;

    row.id = rule->gate;
    if (rule->read == READ_STABILIZED)
        row.numbers = NUMBERS_FORGET;
    if (rule_has_list(rule))
        row.dims = decay_words[rule->decay].list_dims;
    if (desc->flags & CLATTN_GATE_PER_HEAD)
        row.dims = rule->decay == DECAY_CHANNEL ? "GK" : "G";
    if (desc->gate_map != CLATTN_GATE_MAP_LOG)
        row.numbers = NUMBERS_RAW;
    return row;
}

/* What is added to a gate's channels, or to mamba's steps */
static struct operand_row bias_row(const struct rule *rule)
{
    const char *dims = rule->write == WRITE_STEP ? "HV" : rule->decay == DECAY_CHANNEL ? "GK" : "G";

    return (struct operand_row)ROW(OP(DT_BIAS), dims, STORE_STATE, BONUS);
}

static struct operand_row write_row(const clattn_plan_desc *desc, const struct rule *rule)
{
    struct operand_row row = write_rows[rule->write];

    if (desc->beta_map != CLATTN_BETA_STRENGTH)
        row.numbers = NUMBERS_LOGIT;
    return row;
}

/* What a summary keeps of the state before. NULL: all of it. */
static const char *transition_dims(const clattn_plan_desc *desc, const struct rule *rule)
{
    if (rule->read == READ_STABILIZED)
        return "NG";
    if (rule->erase != ERASE_NONE)
        return "NGKK";
    if (!rule_has_chunks(rule) || (desc->flags & CLATTN_VALUE_GATE))
        return "NGKV";
    return rule->decay != DECAY_NONE ? "NGK" : NULL;
}

static int forward_operands(const clattn_plan_desc *desc, const struct rule *rule,
                            struct operand_row rows[OPERAND_COUNT])
{
    int gated = !(desc->flags & CLATTN_UNGATED) && rule->gate != NO_OPERAND;
    int may_lack = rule->erase == ERASE_KERNEL; /* p, for which k stands, and beta, which is 1 */
    int list = rule_has_list(rule), matrix = !list, keys = matrix && rule_has_keys(rule);
    int count;
    int summary = (desc->flags & CLATTN_SUMMARY) != 0, reads = !summary;
    const char *const kept = summary ? transition_dims(desc, rule) : NULL;
    const struct operand_choice all[] = {
        {keys && reads, ROW(OP(Q), "BTQK", STORE_DATA, QUERY)},
        {keys, ROW(OP(K), "BSLK", STORE_DATA, KEY)},
        {matrix, ROW(OP(V), "BSGV", STORE_DATA, VALUE)},
        {list, ROW(OP(Q), "BTHK", STORE_DATA, LISTED)},
        {list, ROW(OP(K), "BXYK", STORE_DATA, LISTED)},
        {list, ROW(OP(V), "BXYV", STORE_DATA, VALUE)},
        {reads, ROW(OP(O), "BTHV", STORE_DATA, WRITTEN)},
        {gated, gate_row(desc, rule)},
        {gated, decay_words[rule->decay].second},
        {(desc->flags & CLATTN_VALUE_GATE) != 0, ROW(OP(GV), "BTGV", STORE_GATE, DECAY)},
        {!may_lack || (desc->flags & CLATTN_WITH_P), erase_rows[rule->erase][0]},
        {!may_lack || (desc->flags & CLATTN_WITH_BETA), erase_rows[rule->erase][1]},
        {1, write_row(desc, rule)},
        {reads, read_rows[rule->read]},
        {(desc->flags & CLATTN_WITH_DT_BIAS) != 0, bias_row(rule)},
        {(desc->flags & CLATTN_WITH_A_LOG) != 0, ROW(OP(A_LOG), "G", STORE_STATE, BONUS)},
        {reads && (desc->flags & CLATTN_WITH_D) != 0, ROW(OP(D), "HV", STORE_STATE, BONUS)},
        {reads && (desc->flags & CLATTN_WITH_Z) != 0, ROW(OP(Z), "BTHV", STORE_DATA, VALUE)},
        {reads && (desc->flags & CLATTN_NORM_OUTPUT) != 0, ROW(OP(NORM), "V", STORE_STATE, VALUE)},
        {kept != NULL, ROW(OP(TRANSITION), kept, STORE_STATE, WRITTEN)},
        {matrix && (desc->flags & CLATTN_WITH_ACCEPTED), ROW(OP(ACCEPTED), "N", STORE_LENGTH, COUNTS)},
        {matrix && (desc->flags & CLATTN_WITH_STATE_INDICES), ROW(OP(STATE_INDICES), "N", STORE_LENGTH, SLOTS)},
        {(desc->flags & CLATTN_CU_SEQLENS) != 0, ROW(OP(SEQLENS), "P", STORE_INDEX, CUTS)},
        {(desc->flags & CLATTN_CU_SEQLENS_KV) != 0, ROW(OP(SEQLENS_KV), "P", STORE_INDEX, CUTS_KV)},
        {(desc->flags & CLATTN_WITH_POSITION) && !rule_has_levels(rule), /* whose state has it */
         ROW(OP(POSITION), "N", STORE_LENGTH, POSITIONS)},
        {(desc->flags & CLATTN_WITH_KV_LENS) != 0, ROW(OP(KV_LENS), "N", STORE_LENGTH, LENGTHS)},
        {(desc->flags & CLATTN_WITH_SINK) != 0, ROW(OP(SINK), "H", STORE_STATE, LOGIT)},
        {(desc->flags & CLATTN_WITH_WRITTEN) != 0, ROW(OP(WRITTEN), "BXYV", STORE_DATA, WRITTEN)},
        {(desc->flags & CLATTN_APPEND) != 0, ROW(OP(K_NEW), "BTYK", STORE_DATA, LISTED)},
        {(desc->flags & CLATTN_APPEND) != 0, ROW(OP(V_NEW), "BTYV", STORE_DATA, VALUE)},
        {(desc->flags & CLATTN_WITH_LSE) != 0, ROW(OP(LSE), "BTH", STORE_STATE, WRITTEN)},
        {(desc->flags & CLATTN_WITH_ATTN) != 0, ROW(OP(ATTN), "BHTC", STORE_STATE, WRITTEN)},
    };

    count = operands_used(all, sizeof all / sizeof *all, rows);
    return count + state_operands(desc, rule, rows + count);
}

/* ---- The backward pass --------------------------------------------------------------------------------------------
 */

/* The gradient by an operand: like it, but for states, whose gradients are f32 and lie by sequence. */
static struct operand_row gradient_row(const clattn_plan_desc *desc, const struct state_tensor *state,
                                       const struct operand_row *row, enum numbers numbers)
{
    struct operand_row gradient = *row;

    gradient.id = gradient_of(row->id);
    gradient.numbers = numbers;
    if (state != NULL) {
        gradient.storage = STORE_STATE;
        gradient.dims = state_dims(desc, state)->sequence;
    }
    return gradient;
}

/* What the backward pass has of an operand of the forward pass; how many rows. */
static int backward_rows(const clattn_plan_desc *desc, const struct rule *rule, const struct operand_row *row,
                         struct operand_row rows[2])
{
    const int divided = rule->read == READ_STABILIZED || (desc->flags & CLATTN_NORMALIZE);
    const struct state_tensor *state = state_of_operand(rule, row->id);
    int count = 0;

    if (state != NULL && state->numbers == NUMBERS_STABILIZER) { /* a constant of the gradients */
        if (row->numbers != NUMBERS_WRITTEN)
            rows[count++] = *row;
        return count;
    }
    if (row->numbers == NUMBERS_WRITTEN) {
        if (row->id == CLATTN_O && divided)
            (rows[count] = *row, rows[count++].numbers = NUMBERS_VALUE);
        if (row->id == CLATTN_O || state != NULL)
            rows[count++] = gradient_row(desc, state, row, NUMBERS_VALUE);
        return count;
    }
    rows[count++] = *row;
    if (!operand_is_index(row->id))
        rows[count++] = gradient_row(desc, state, row, NUMBERS_WRITTEN);
    return count;
}

int backward_operands(const clattn_plan_desc *desc, const struct rule *rule, const struct operand_row *forward,
                      int count, struct operand_row rows[OPERAND_COUNT])
{
    int all = 0;

    for (int i = 0; i < count; i++)
        all += backward_rows(desc, rule, &forward[i], rows + all);
    return all;
}

int mixer_operands(const clattn_plan_desc *desc, const struct rule *rule, struct operand_row rows[OPERAND_COUNT])
{
    struct operand_row forward[OPERAND_COUNT];

    if (desc->pass == CLATTN_PASS_FORWARD)
        return forward_operands(desc, rule, rows);
    return backward_operands(desc, rule, forward, forward_operands(desc, rule, forward), rows);
}

const char *operand_name(clattn_operand_id id)
{
#define OPERAND_NAME(ID, name, value, shape) [CLATTN_##ID] = #name, [OPERAND_IDS + CLATTN_##ID] = "d_" #name,
    static const char *const names[OPERAND_COUNT] = {CLATTN_OPERANDS(OPERAND_NAME)};
#undef OPERAND_NAME
    return names[id];
}

/* The tensor of a state into which a call of some rule writes the operand, after the last token or on the way; or NULL. */
static const struct state_tensor *written_state(clattn_operand_id id)
{
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
        const struct state_tensor *state = state_of_operand(&rules[rule], id);
        if (state != NULL && id != state->before)
            return state;
    }
    return NULL;
}

int operand_is_output(clattn_operand_id id)
{
    static const int outputs[OPERAND_COUNT] = {
        [CLATTN_O] = 1, [CLATTN_LSE] = 1, [CLATTN_ATTN] = 1, [CLATTN_WRITTEN] = 1, [CLATTN_TRANSITION] = 1};

    return outputs[id] || written_state(id) != NULL;
}

int operand_is_optional(const struct operand_row *row)
{
    return (int)row->id > (int)OPERAND_IDS && row->numbers == NUMBERS_WRITTEN;
}

int operand_is_updated(const clattn_plan_desc *desc, clattn_operand_id id)
{
    return ((desc->flags & CLATTN_APPEND) && (id == CLATTN_K || id == CLATTN_V)) ||
           ((desc->flags & CLATTN_CARRY) && id == CLATTN_K);
}

int operand_is_snapshots(const struct operand_row *row)
{
    const struct state_tensor *state = written_state(row->id);

    return state != NULL && row->id == state->between;
}

int operand_is_index(clattn_operand_id id)
{
    return id == CLATTN_SEQLENS || id == CLATTN_SEQLENS_KV || id == CLATTN_KV_LENS || id == CLATTN_STATE_INDICES ||
           id == CLATTN_POSITION || id == CLATTN_POSITION_OUT || id == CLATTN_ACCEPTED;
}
