/* What follows from the table of options: which rules take an option, what its zero means, and which values it has. */
#include "op/options.h"

#include "op/op.h"
#include "op/state.h"

#include <string.h>

#define VALUE_OF(word, ID, rule)                                                                                       \
    {                                                                                                                  \
        word, "CLATTN_" #ID, CLATTN_##ID, rule                                                                         \
    }
#define VALUE(word, ID) VALUE_OF(word, ID, CLATTN_RULE_NONE)
#define NO_VALUE                                                                                                       \
    {                                                                                                                  \
        NULL, NULL, 0, CLATTN_RULE_NONE                                                                                \
    }
#define VALUES(...)                                                                                                    \
    (const struct option_value[])                                                                                      \
    {                                                                                                                  \
        __VA_ARGS__, NO_VALUE                                                                                          \
    }
#define TWO_WORDS(off, on) VALUES({off, NULL, 0, CLATTN_RULE_NONE}, {on, NULL, 1, CLATTN_RULE_NONE})

static const struct option_value dtype_values[] = {VALUE("f32", F32), VALUE("f16", F16), VALUE("bf16", BF16), NO_VALUE};
static const struct option_value mode_values[] = {VALUE("auto", MODE_AUTO), VALUE("recurrent", MODE_RECURRENT),
                                                  VALUE("chunk", MODE_CHUNK), NO_VALUE};
static const struct option_value weights_values[] = {
#define WEIGHTS(value, name, header) VALUE(name, WEIGHTS_##value),
#include "op/words.def"
    NO_VALUE};
static const struct option_value switch_values[] = {
    {"off", NULL, 0, CLATTN_RULE_NONE}, {"on", NULL, 1, CLATTN_RULE_NONE}, NO_VALUE};

#define FLAG(own, ID, ...) {.name = #own, .id = "CLATTN_" #ID, .type = OPTION_FLAG, .flag = CLATTN_##ID, __VA_ARGS__},
#define FIELD(own, TYPE, ...)                                                                                          \
    {.name = #own, .id = #own, .type = OPTION_##TYPE, .offset = offsetof(clattn_plan_desc, own), __VA_ARGS__},
#define SIZE(own, TYPE, ...) FIELD(own, TYPE, __VA_ARGS__)
const struct desc_option desc_options[OPTION_COUNT] = {
#include "op/options.def"
};

int option_set_any(const struct option_set *set)
{
    for (enum option_id i = 0; i < OPTION_COUNT; i++)
        if (set->has[i])
            return 1;
    return 0;
}

static unsigned gate_kinds(const struct rule *rule)
{
    int gated = rule->op == OP_MIXER && rule->gate != NO_OPERAND &&
                (rule->decay == DECAY_SCALAR || rule->decay == DECAY_CHANNEL);
    int raw = gated && !rule_has_list(rule) && rule->read != READ_STABILIZED;

    return (gated ? OF_GATE : 0U) | (raw ? OF_STATE_GATE : 0U);
}

unsigned rule_kinds(const struct rule *rule)
{
    static const unsigned ops[OP_COUNT] = {[OP_MIXER] = OF_STATE, [OP_PIECE] = OF_PIECE, [OP_LEARNER] = OF_LEARNER};
    unsigned kinds = rule_has_list(rule) ? OF_LIST : ops[rule->op];

    if (rule_has_keys(rule))
        kinds |= rule->op == OP_MIXER ? OF_KEYS | OF_SCORES : OF_KEYS;
    if (rule->op == OP_MIXER && rule->write == WRITE_BETA)
        kinds |= OF_STRENGTH;
    if (rule->op == OP_MIXER && !rule_has_list(rule) && rule_has_chunks(rule) && !rule_has_levels(rule) &&
        !rule_is_solved(rule))
        kinds |= OF_CHUNKS;
    if (rule->op == OP_MIXER && !rule_has_list(rule) && !rule_has_levels(rule) && !rule_is_solved(rule))
        kinds |= OF_AFFINE;
    for (const struct state_tensor *tensor = rule->state; tensor->name != NULL; tensor++)
        if (tensor->between != NO_OPERAND)
            kinds |= OF_SNAPSHOTS;
    return kinds | gate_kinds(rule);
}

int rule_takes(const struct rule *rule, enum option_id option)
{
    const struct desc_option *row = &desc_options[option];

    if (row->kinds & rule_kinds(rule))
        return 1;
    for (size_t i = 0; i < sizeof row->rules / sizeof *row->rules; i++)
        if (row->rules[i] != CLATTN_RULE_NONE && rule_get(row->rules[i]) == rule)
            return 1;
    return 0;
}

int rule_has_state(const struct rule *rule)
{
    return rule->state->name != NULL;
}

uint64_t rule_flags(const struct rule *rule)
{
    uint64_t flags = 0;

    for (enum option_id i = 0; i < OPTION_COUNT; i++)
        if (rule_takes(rule, i) || (desc_options[i].with & flags))
            flags |= desc_options[i].flag; /* flags that other flags permit: the rows of those come first */
    return flags;
}

int option_taken(enum option_id option, const clattn_plan_desc *desc, const struct rule *rule)
{
    return (desc->flags & desc_options[option].with) != 0 || rule_takes(rule, option);
}

int64_t option_whole(enum option_id option, const clattn_plan_desc *desc)
{
    const struct desc_option *row = &desc_options[option];
    const void *field = (const char *)desc + row->offset;

    switch (row->type) {
    case OPTION_FLAG: return (desc->flags & row->flag) != 0;
    case OPTION_INT64: return *(const int64_t *)field;
    case OPTION_INT32: return *(const int32_t *)field;
    case OPTION_ENUM: return *(const int *)field;
    case OPTION_DOUBLE:
    case OPTION_FLAGS:
    case OPTION_TYPES: break;
    }
    return 0;
}

double option_get(enum option_id option, const clattn_plan_desc *desc)
{
    const struct desc_option *row = &desc_options[option];
    const void *field = (const char *)desc + row->offset;

    return row->type == OPTION_DOUBLE ? *(const double *)field : (double)option_whole(option, desc);
}

static void put_whole(const struct desc_option *row, int64_t value, clattn_plan_desc *desc)
{
    void *field = (char *)desc + row->offset;
    int narrow = (int)value;

    switch (row->type) {
    case OPTION_FLAG: desc->flags = (desc->flags & ~row->flag) | (value != 0 ? row->flag : 0); break;
    case OPTION_INT64: memcpy(field, &value, sizeof value); break;
    case OPTION_INT32:
    case OPTION_ENUM: memcpy(field, &narrow, sizeof narrow); break; /* an enum has the size of an int */
    case OPTION_DOUBLE:
    case OPTION_FLAGS:
    case OPTION_TYPES: break;
    }
}

void option_put(enum option_id option, double value, clattn_plan_desc *desc)
{
    const struct desc_option *row = &desc_options[option];

    if (row->type == OPTION_DOUBLE)
        memcpy((char *)desc + row->offset, &value, sizeof value);
    else
        put_whole(row, (int64_t)value, desc);
}

const struct option_value *option_values(enum option_id option)
{
    const struct desc_option *row = &desc_options[option];
    int is_switch = row->type == OPTION_FLAG;

    return row->values != NULL ? row->values : is_switch ? switch_values : NULL;
}

static const struct option_value *find_value(enum option_id option, int value)
{
    const struct option_value *at = option_values(option);

    while (at != NULL && at->word != NULL && at->value != value)
        at++;
    return at != NULL && at->word != NULL ? at : NULL;
}

const char *option_word(enum option_id option, int value)
{
    const struct option_value *found = find_value(option, value);

    return found != NULL ? found->word : NULL;
}

void options_complete(clattn_plan_desc *desc, const struct rule *rule)
{
    for (enum option_id i = 0; i < OPTION_COUNT; i++) {
        double number = option_taken(i, desc, rule) ? desc_options[i].usual : desc_options[i].idle;
        if (number != 0 && option_get(i, desc) == 0)
            option_put(i, number, desc);
    }
}

/* The values of an enum or a switch are consecutive. */
static int64_t last_value(enum option_id option)
{
    int64_t last = 0;

    for (const struct option_value *at = option_values(option); at->word != NULL; at++)
        last = at->value > last ? at->value : last;
    return last;
}

static clattn_status check_number(const clattn_plan_desc *desc, enum option_id option, const struct log *log)
{
    const struct desc_option *row = &desc_options[option];
    double value = option_get(option, desc);

    if (row->type == OPTION_FLAG)
        return CLATTN_SUCCESS;
    if (option_values(option) != NULL)
        return check_range(log, row->name, option_whole(option, desc), 0, last_value(option));
    if (row->low == 0 && row->high == 0)
        return CLATTN_SUCCESS;
    if (row->type != OPTION_DOUBLE)
        return check_range(log, row->name, option_whole(option, desc), (int64_t)row->low, (int64_t)row->high);
    if (!(value >= row->low && value <= row->high))
        return FAIL(log, INVALID_DESC, "%s is %g, expected %g to %g", row->name, value, row->low, row->high);
    return CLATTN_SUCCESS;
}

/* The text of an option with its value: "lse", "state=vk", "beta_map=softplus" */
static clattn_status refuse(const clattn_plan_desc *desc, const struct rule *rule, enum option_id option,
                            const struct log *log)
{
    const struct desc_option *row = &desc_options[option];
    const char *word = option_word(option, (int)option_whole(option, desc));
    int plain = word == NULL || option_values(option) == switch_values;

    return FAIL(log, INVALID_DESC, "%s takes no option %s%s%s%s%s", rule->name, row->name, plain ? "" : "=",
                plain ? "" : word, row->refused != NULL ? ": " : "", row->refused != NULL ? row->refused : "");
}

static clattn_status check_option(const clattn_plan_desc *desc, const struct rule *rule, enum option_id option,
                                  const struct log *log)
{
    const struct option_value *value;

    if (!option_taken(option, desc, rule) && option_get(option, desc) == desc_options[option].idle)
        return CLATTN_SUCCESS;
    TRY(check_number(desc, option, log));
    value = find_value(option, (int)option_whole(option, desc));
    if (!option_taken(option, desc, rule) ||
        (value != NULL && value->only != CLATTN_RULE_NONE && rule_get(value->only) != rule))
        return refuse(desc, rule, option, log);
    return CLATTN_SUCCESS;
}

static clattn_status check_flags(const clattn_plan_desc *desc, const struct log *log)
{
    uint64_t known = 0;

    for (enum option_id i = 0; i < OPTION_COUNT; i++)
        known |= desc_options[i].flag;
    if (desc->flags & ~known)
        return FAIL(log, INVALID_DESC, "flags has unknown bits: 0x%llx", (unsigned long long)(desc->flags & ~known));
    return CLATTN_SUCCESS;
}

clattn_status options_check(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    for (enum option_id i = 0; i < OPTION_COUNT; i++)
        TRY(check_option(desc, rule, i, log));
    return check_flags(desc, log);
}
