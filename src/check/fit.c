/* Adapts a desc that was written for any rule to its own rule: removes what the rule does not have. */
#include "check/check.h"
#include "op/op.h"
#include "op/options.h"

/* Even widths, where the problem has complex numbers or rotary embedding. */
static void fit_pairs(clattn_plan_desc *desc, const struct rule *rule)
{
    int64_t columns;

    if (desc->flags & (CLATTN_COMPLEX | CLATTN_WITH_ROPE))
        desc->key_dim += desc->key_dim % 2;
    if (rule->decay == DECAY_COMPLEX || rule_takes(rule, OPTION_rope_dim))
        desc->value_dim += desc->value_dim % 2;
    columns = rule->op == OP_PIECE ? desc->value_dim : desc->key_dim;
    if (desc->rope_dim > columns)
        desc->rope_dim = (int32_t)columns;
}

/* One channel if the rule has no keys, and one state per head. */
static void fit_channels(clattn_plan_desc *desc, const struct rule *rule)
{
    if (!rule_has_chunks(rule))
        desc->kv_heads = 0;
    if (rule->op == OP_PIECE) {
        desc->flags &= rule_flags(rule);
        desc->scale = 0;
    }
    if (!rule_has_keys(rule)) {
        desc->key_dim = rule_takes(rule, OPTION_features) ? desc->key_dim + desc->key_dim % 2 : 1;
        desc->qk_heads = 0;
        desc->flags &= ~CLATTN_QK_L2NORM;
    }
}

/* The width that LN(z) is compared with, or added to. */
static void fit_norm(clattn_plan_desc *desc, const struct rule *rule)
{
    clattn_plan_desc kinds = *desc;

    learner_complete_kinds(&kinds, rule);
    if (kinds.loss == CLATTN_LOSS_LN || kinds.readout == CLATTN_READOUT_Q)
        desc->value_dim = desc->key_dim;
}

/* Learners have no packed sequences and no shared heads. */
static void fit_learner(clattn_plan_desc *desc, const struct rule *rule)
{
    if (rule->op != OP_LEARNER)
        return;
    desc->flags &= rule_flags(rule);
    desc->sequences = 0;
    desc->qk_heads = desc->kv_heads = 0;
    if (!rule_takes(rule, OPTION_scale))
        desc->scale = 0;
    fit_norm(desc, rule);
}

/* Only for rules with an attention matrix, and options with which devices compute it. */
static void fit_attn(clattn_plan_desc *desc, const struct rule *rule)
{
    if (!rule_has_matrix(rule) || rule->erase == ERASE_KERNEL ||
        (desc->flags & (CLATTN_VALUE_GATE | CLATTN_REVERSED | CLATTN_NONCAUSAL)) || desc->pass == CLATTN_PASS_BACKWARD)
        desc->flags &= ~CLATTN_WITH_ATTN;
}

/* States of levels are not returned on the way. Their position comes with the initial state; in a pool it is of no use
 * for rope. */
static void fit_levels(clattn_plan_desc *desc, const struct rule *rule)
{
    const uint64_t turns = CLATTN_WITH_ROPE | CLATTN_INTERLEAVED | CLATTN_TURNED_BACK;

    if (!rule_has_levels(rule))
        return;
    desc->state_window = desc->state_every = 0;
    desc->flags &= ~(CLATTN_WITH_ACCEPTED | CLATTN_WITH_POSITION);
    if (!(desc->flags & CLATTN_WITH_STATE_INDICES) || !(desc->flags & CLATTN_INITIAL_STATE))
        return;
    desc->flags &= ~turns;
    desc->rope_base = 0;
    desc->rope_dim = 0;
}

static void fit_list(clattn_plan_desc *desc, const struct rule *rule)
{
    if (!rule_has_list(rule))
        return;
    desc->flags &= ~(CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE | CLATTN_STATE_VK);
    if (desc->qk_heads != 0 && desc->qk_heads != desc->heads) {
        desc->kv_heads = desc->qk_heads;
        desc->qk_heads = desc->heads;
    }
}

/* Gradients are those of outputs that are not normalised. */
static void fit_output_norm(clattn_plan_desc *desc, const struct rule *rule)
{
    (void)rule;
    if (!(desc->flags & CLATTN_NORM_OUTPUT) || desc->pass != CLATTN_PASS_BACKWARD)
        return;
    desc->flags &= ~(CLATTN_NORM_OUTPUT | CLATTN_WITH_Z);
    desc->gating = CLATTN_GATING_AFTER;
    desc->eps = 0;
}

void check_fit(clattn_plan_desc *desc)
{
    static void (*const fits[])(clattn_plan_desc * desc, const struct rule *rule) = {
        fit_channels, fit_pairs, fit_learner, fit_attn, fit_levels, fit_list, fit_output_norm};
    const struct rule *rule = rule_get(desc->rule);

    for (size_t i = 0; i < sizeof fits / sizeof *fits && rule != NULL; i++)
        fits[i](desc, rule);
}
