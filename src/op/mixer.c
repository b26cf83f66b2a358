/* Mixers: checks of their descs. */
#include "op/op.h"
#include "op/options.h"

/* A gate and a sink change the denominator, and lse is its logarithm: without one, none of them is possible. */
static clattn_status check_weights(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    int gated = rule->gate != NO_OPERAND && !(desc->flags & CLATTN_UNGATED);

    if (desc->kernel == CLATTN_WEIGHTS_SOFTMAX || (!gated && !(desc->flags & (CLATTN_WITH_SINK | CLATTN_WITH_LSE))))
        return CLATTN_SUCCESS;
    return FAIL(log, INVALID_DESC, "%s with kernel %s has no denominator, and so no %s", rule->name,
                option_word(OPTION_kernel, (int)desc->kernel),
                gated                            ? "gate: see CLATTN_UNGATED"
                : desc->flags & CLATTN_WITH_SINK ? "sink"
                                                 : "lse");
}

/* Keys that were carried to the beginning of the tail, to which the queries must belong. */
static clattn_status check_tail(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    if (desc->tail == 0 && !(desc->flags & CLATTN_CARRY))
        return CLATTN_SUCCESS;
    if (desc->flags & CLATTN_ABSOLUTE)
        return FAIL(log, INVALID_DESC, "%s: absolute with %s, whose keys turn with every token that follows",
                    rule->name, desc->tail != 0 ? "tail" : "carry");
    if (desc->flags & CLATTN_QK_L2NORM)
        return FAIL(log, INVALID_DESC, "%s: qk_l2norm with %s, whose keys are not to be normalised again", rule->name,
                    desc->tail != 0 ? "tail" : "carry");
    if (desc->tail == 0)
        return CLATTN_SUCCESS;
    if (desc->flags & CLATTN_CU_SEQLENS)
        return FAIL(log, INVALID_DESC, "tail is %lld, expected 0 with cu_seqlens", (long long)desc->tail);
    if (desc->kv_len == 0)
        return FAIL(log, INVALID_DESC, "tail is %lld, expected 0 without kv_len, the keys of %s's cache",
                    (long long)desc->tail, rule->name);
    if (desc->tail < desc->seq_len || desc->tail > desc->kv_len)
        return FAIL(log, INVALID_DESC, "tail is %lld, expected seq_len %lld to kv_len %lld", (long long)desc->tail,
                    (long long)desc->seq_len, (long long)desc->kv_len);
    return CLATTN_SUCCESS;
}

/* Keys and values may have their own numbers of heads and tokens. */
static clattn_status check_list(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    TRY(check_weights(desc, rule, log));
    if (desc->qk_heads != desc->heads)
        return FAIL(log, INVALID_DESC, "qk_heads is %lld, %s has queries for each of %lld heads: kv_heads may be fewer",
                    (long long)desc->qk_heads, rule->name, (long long)desc->heads);
    if (desc->kv_len != 0 && (desc->flags & CLATTN_CU_SEQLENS) && !(desc->flags & CLATTN_CU_SEQLENS_KV))
        return FAIL(log, INVALID_DESC, "kv_len is %lld, expected 0 with cu_seqlens and without cu_seqlens_kv",
                    (long long)desc->kv_len);
    if ((desc->flags & CLATTN_CU_SEQLENS_KV) && !(desc->flags & CLATTN_CU_SEQLENS))
        return FAIL(log, INVALID_DESC, "%s: cu_seqlens_kv without cu_seqlens, which cuts the queries", rule->name);
    if (desc->kv_len == 0 && (desc->flags & (CLATTN_WITH_KV_LENS | CLATTN_CU_SEQLENS_KV | CLATTN_APPEND)))
        return FAIL(log, INVALID_DESC, "kv_len is 0, expected the keys of %s's cache with %s", rule->name,
                    desc->flags & CLATTN_CU_SEQLENS_KV  ? "cu_seqlens_kv"
                    : desc->flags & CLATTN_WITH_KV_LENS ? "kv_lens"
                                                        : "append");
    if ((desc->flags & CLATTN_KEYS_BEFORE) && (desc->window != 0 || (desc->flags & CLATTN_NONCAUSAL)))
        return FAIL(log, INVALID_DESC, "%s: keys_before with %s, which depends on where a query is", rule->name,
                    desc->window != 0 ? "a window" : "noncausal");
    if ((desc->flags & (CLATTN_NONCAUSAL | CLATTN_KEYS_BEFORE)) && desc->kv_len + desc->seq_len > INT32_MAX)
        return FAIL(log, INVALID_DESC, "kv_len %lld and seq_len %lld: %s has distances up to %d",
                    (long long)desc->kv_len, (long long)desc->seq_len,
                    desc->flags & CLATTN_NONCAUSAL ? "noncausal" : "keys_before", INT32_MAX);
    if ((double)desc->batch * (double)desc->kv_len * (double)desc->heads * MAX_DIM > MAX_ELEMENTS)
        return FAIL(log, INVALID_DESC, "batch %lld times kv_len %lld times heads %lld is too large for 64-bit offsets",
                    (long long)desc->batch, (long long)desc->kv_len, (long long)desc->heads);
    return check_tail(desc, rule, log);
}

/* The state has one channel, and complex numbers are pairs of values. */
static clattn_status check_channels(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    if (!rule_has_keys(rule) && (desc->key_dim != 1 || desc->qk_heads != desc->heads))
        return FAIL(log, INVALID_DESC,
                    "%s has no queries and keys: key_dim is %lld, expected 1, qk_heads %lld, expected heads %lld",
                    rule->name, (long long)desc->key_dim, (long long)desc->qk_heads, (long long)desc->heads);
    if (!rule_has_chunks(rule) && desc->kv_heads != desc->heads)
        return FAIL(log, INVALID_DESC, "%s: kv_heads is %lld, expected heads %lld: states are not shared", rule->name,
                    (long long)desc->kv_heads, (long long)desc->heads);
    if ((desc->flags & CLATTN_COMPLEX) && desc->key_dim % 2 != 0)
        return FAIL(log, INVALID_DESC, "%s with complex: key_dim is %lld, expected pairs of channels", rule->name,
                    (long long)desc->key_dim);
    if (rule->decay == DECAY_COMPLEX && desc->value_dim % 2 != 0)
        return FAIL(log, INVALID_DESC, "%s: value_dim is %lld, expected pairs of columns", rule->name,
                    (long long)desc->value_dim);
    return CLATTN_SUCCESS;
}

/* The fewest levels that the tokens of one call from position 0 need. */
static int32_t least_levels(int64_t tokens)
{
    int32_t levels = 1;

    while (levels < 62 && (int64_t)1 << (levels - 1) < tokens)
        levels++;
    return levels;
}

static clattn_status check_levels(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    const int32_t least = rule_has_levels(rule) ? least_levels(desc->seq_len) : 0;

    if (!rule_has_levels(rule))
        return CLATTN_SUCCESS;
    if (desc->levels < least)
        return FAIL(log, INVALID_DESC, "%s: levels is %d, expected %d or more for seq_len %lld", rule->name,
                    (int)desc->levels, (int)least, (long long)desc->seq_len);
    if ((desc->flags & CLATTN_WITH_POSITION) && !(desc->flags & CLATTN_INITIAL_STATE))
        return FAIL(log, INVALID_DESC, "%s: position is a part of initial_state, which is absent", rule->name);
    if ((desc->flags & CLATTN_WITH_POSITION) && (desc->flags & CLATTN_WITH_STATE_INDICES))
        return FAIL(log, INVALID_DESC, "%s: rope with state_indices, by which position is in the pool", rule->name);
    return CLATTN_SUCCESS;
}

/* A summary is of a state that begins from zero, and has no outputs. */
static clattn_status check_summary(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    static const struct {
        uint64_t flag;
        const char *name;
    } others[] = {{CLATTN_INITIAL_STATE, "initial_state"},
                  {CLATTN_WITH_STATE_INDICES, "state_indices"},
                  {CLATTN_WITH_ATTN, "attn"},
                  {CLATTN_NONCAUSAL, "noncausal"}};

    if (!(desc->flags & CLATTN_SUMMARY))
        return CLATTN_SUCCESS;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (desc->flags & others[i].flag)
            return FAIL(log, INVALID_DESC, "%s: a summary, and so no %s", rule->name, others[i].name);
    if (desc->state_window != 0 || desc->state_every != 0 || desc->pass == CLATTN_PASS_BACKWARD)
        return FAIL(log, INVALID_DESC, "%s: a summary, and so no %s", rule->name,
                    desc->pass == CLATTN_PASS_BACKWARD ? "backward pass" : "states on the way");
    return CLATTN_SUCCESS;
}

/* Heads may share either queries and keys, or states. */
static clattn_status check_state(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    TRY(check_slots(desc, log));
    TRY(check_levels(desc, rule, log));
    TRY(check_pass(desc, rule, log));
    TRY(check_snapshots(desc, rule, log));
    TRY(check_summary(desc, rule, log));
    if ((desc->flags & (CLATTN_REVERSED | CLATTN_NONCAUSAL)) && (desc->flags & CLATTN_WITH_ATTN))
        return FAIL(log, INVALID_DESC, "%s: %s, and so no attn", rule->name,
                    desc->flags & CLATTN_REVERSED ? "reversed" : "noncausal");
    if ((desc->flags & CLATTN_NONCAUSAL) &&
        (desc->state_window != 0 || desc->state_every != 0 || (desc->flags & CLATTN_WITH_STATE_INDICES)))
        return FAIL(log, INVALID_DESC, "%s: noncausal, and so no states on the way, and none in a pool", rule->name);
    if (desc->qk_heads != desc->heads && desc->kv_heads != desc->heads)
        return FAIL(log, INVALID_DESC,
                    "%s: qk_heads %lld and kv_heads %lld are both fewer than heads %lld, expected one", rule->name,
                    (long long)desc->qk_heads, (long long)desc->kv_heads, (long long)desc->heads);
    return CLATTN_SUCCESS;
}

static void complete(clattn_plan_desc *desc, const struct rule *rule)
{
    if ((desc->flags & CLATTN_SUMMARY) && !rule_has_list(rule))
        desc->flags |= CLATTN_FINAL_STATE;
    if (!rule_has_keys(rule) && desc->key_dim == 0)
        desc->key_dim = 1;
    if (rule_has_levels(rule) && desc->levels == 0)
        desc->levels = least_levels(desc->seq_len);
    if (rule_has_levels(rule) && (desc->flags & CLATTN_WITH_ROPE) && (desc->flags & CLATTN_INITIAL_STATE))
        desc->flags |= CLATTN_WITH_POSITION; /* it is there for the state */
}

static clattn_status check(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    TRY(check_channels(desc, rule, log));
    return (rule_has_list(rule) ? check_list : check_state)(desc, rule, log);
}

const struct op op_mixer = {MAX_DIM, complete, check, mixer_operands};
