#include "op/options.h"

#include "op/rule.h"

#include <stddef.h>
#include <string.h>

enum {
    /* Flags that no rule names: its family says whether it takes them. */
    FAMILY_FLAGS = CLATTN_QK_L2NORM | CLATTN_STATE_VK | CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE | CLATTN_CU_SEQLENS |
                   CLATTN_CU_SEQLENS_INT64 | CLATTN_REVERSED | CLATTN_WITH_ATTN | CLATTN_HEADS_TILED |
                   CLATTN_WITH_STATE_INDICES
};

static const struct {
    uint32_t flag;
    const char *name;
} flags[] = {{CLATTN_NORMALIZE, "normalize"},
             {CLATTN_GATE_PER_HEAD, "a gate per head"},
             {CLATTN_VALUE_GATE, "gv"},
             {CLATTN_UNGATED, "ungated"},
             {CLATTN_WITH_SINK, "sink"},
             {CLATTN_WITH_LSE, "lse"},
             {CLATTN_WITH_KV_LENS, "kv_lens"},
             {CLATTN_CU_SEQLENS_KV, "cu_seqlens_kv"},
             {CLATTN_WITH_P, "p"},
             {CLATTN_WITH_BETA, "beta"},
             {CLATTN_WITH_WRITTEN, "written"},
             {CLATTN_APPEND, "append"},
             {CLATTN_CARRY, "carry"},
             {CLATTN_SOFTPLUS, "softplus"},
             {CLATTN_WITH_DT_BIAS, "dt_bias"},
             {CLATTN_WITH_A_LOG, "a_log"},
             {CLATTN_WITH_D, "d"},
             {CLATTN_WITH_Z, "z"},
             {CLATTN_NONCAUSAL, "noncausal"},
             {CLATTN_WITH_ROPE, "rope"},
             {CLATTN_COMPLEX, "complex"}};

/* Fields that only rules with the knob may have set: to another number than the usual one. */
#define FIELD(knob, name, usual)                                                                                       \
    {                                                                                                                  \
        RULE_TAKES_##knob, offsetof(clattn_plan_desc, name), sizeof(((clattn_plan_desc *)0)->name), usual, #name       \
    }

static const struct {
    uint32_t knob;
    size_t offset, size;
    unsigned char usual;
    const char *name;
} fields[] = {FIELD(FEATURE_MAP, feature_map, CLATTN_FEATURE_IDENTITY),
              FIELD(STEPS, steps, 1),
              FIELD(LAYER, layer, 0),
              FIELD(LAYER, layers, 1),
              FIELD(LAYER, slopes, CLATTN_SLOPES_LIGHTNING),
              FIELD(EPS, eps, 0), /* 0.0 has no bit set */
              FIELD(KERNEL, kernel, CLATTN_WEIGHTS_SOFTMAX),
              FIELD(GATE_MAP, gate_map, CLATTN_GATE_MAP_LOG),
              FIELD(BETA_MAP, beta_map, CLATTN_BETA_STRENGTH),
              FIELD(WRITE_KERNEL, write_kernel, CLATTN_WEIGHTS_SOFTMAX),
              FIELD(TAPS, taps, 0),
              FIELD(TAPS, activation, CLATTN_ACTIVATION_SILU),
              FIELD(TAPS, with_bias, 0),
              FIELD(TAPS, residual, 0),
              FIELD(NORM, weighting, CLATTN_WEIGHTING_SHARED),
              FIELD(NORM, gating, CLATTN_GATING_AFTER),
              FIELD(NORM, centered, 0),
              FIELD(NORM, eps_outside, 0),
              FIELD(ROPE, rope_base, 0),
              FIELD(ROPE, rope_dim, 0),
              FIELD(ROPE, interleaved, 0),
              FIELD(ROPE, with_position, 0),
              FIELD(ROPE, turned_back, 0),
              FIELD(FEATURES, features, CLATTN_FEATURES_FAVOR),
              FIELD(FEATURES, of_queries, 0),
              FIELD(TAIL, tail, 0),
              FIELD(TAIL, absolute, 0),
              FIELD(LEARNING, hidden_dim, 0),
              FIELD(LEARNING, mini_batch, 0),
              FIELD(LEARNING, muon, CLATTN_MUON_NONE),
              FIELD(LEARNING, pre_norm, 0),
              FIELD(LEARNING, with_momentum, 0)};

static int64_t field_of(const clattn_plan_desc *desc, size_t offset, size_t size)
{
    const char *at = (const char *)desc + offset;
    int64_t whole;
    int32_t half;

    memcpy(&whole, at, size == sizeof whole ? sizeof whole : 0);
    memcpy(&half, at, sizeof half);
    return size == sizeof whole ? whole : half;
}

static clattn_status refuse(const struct rule *rule, const char *name, const struct log *log)
{
    return FAIL(log, INVALID_DESC, "%s takes no option %s", rule->name, name);
}

static clattn_status check_flags(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    uint32_t known = FAMILY_FLAGS;

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        known |= flags[i].flag;
        if ((desc->flags & flags[i].flag) && !(rule_flags(rule) & flags[i].flag))
            return refuse(rule, flags[i].name, log);
    }
    if (desc->flags & ~known)
        return FAIL(log, INVALID_DESC, "flags has unknown bits: 0x%x", desc->flags & ~known);
    return CLATTN_SUCCESS;
}

/* Fields that the kind of state decides. */
static clattn_status check_state(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    int list = rule_has_list(rule), states = !list && rule->op == OP_MIXER;

    if (list && desc->state_slots != 0)
        return refuse(rule, "state_slots", log);
    if (!states && desc->state_window != 0)
        return refuse(rule, "state_window", log);
    if (!states && desc->state_every != 0)
        return refuse(rule, "state_every", log);
    if (!list && desc->kv_len != 0)
        return refuse(rule, "kv_len", log);
    if (!list && desc->window != 0)
        return refuse(rule, "window", log);
    return CLATTN_SUCCESS;
}

clattn_status options_check(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    uint32_t knobs = rule->knobs | (desc->flags & CLATTN_WITH_ROPE ? RULE_TAKES_ROPE : 0);

    TRY(check_flags(desc, rule, log));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!(knobs & fields[i].knob) && field_of(desc, fields[i].offset, fields[i].size) != fields[i].usual)
            return refuse(rule, fields[i].name, log);
    if (desc->beta_map == CLATTN_BETA_SOFTPLUS && !(rule->knobs & RULE_TAKES_STEP_MAP))
        return refuse(rule, "beta_map=softplus", log);
    return check_state(desc, rule, log);
}
