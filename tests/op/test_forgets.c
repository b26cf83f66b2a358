/* A log-decay of -inf, or of -1000, forgets exactly: what comes after such a token is the same, number for number,
 * whatever the state and the tokens before it were. With CLATTN_TEST_DEVICE=reference the oracle itself.
 * test_forgets [RULE…]: these, or all that have such a gate. */
#include "harness.h"

#include "op/rule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What is asked of a rule, as its columns say. */
struct row {
    clattn_operand_id gate;   /* NO_OPERAND: no decay, or one that is fixed, above 0 */
    clattn_operand_id silent; /* by which the token reads the state from before its own decay: 0 at the token */
    int after; /* 1 where the token's output is of the state before it: what is compared begins with the next */
    uint64_t flags;
};

static struct row row_of(clattn_rule rule)
{
    const struct rule *columns = rule_get(rule);

    return (struct row){.gate = columns->gate,
                        .silent = columns->order == ERASE_FIRST ? erase_operands(columns->erase)[0].id : NO_OPERAND,
                        .after = read_is_before(columns->read)};
}
static const struct row value_gate = {OP(GV), NO_OPERAND, 0, CLATTN_VALUE_GATE}; /* of gla */

static struct test_kind kinds[] = {
    {"recurrent", CLATTN_MODE_RECURRENT, CLATTN_F32, "none", 0},
    {"chunk", CLATTN_MODE_CHUNK, CLATTN_F32, "none", 0},
    {"nvidia", CLATTN_MODE_CHUNK, CLATTN_BF16, "nvidia_emulated", 0},
    {"amd_cdna", CLATTN_MODE_CHUNK, CLATTN_F16, "amd_cdna_emulated", 0},
    {"nvidia in segments", CLATTN_MODE_CHUNK, CLATTN_BF16, "nvidia_emulated", 4},
};

static char **chosen; /* names of rules, up to a NULL */

static int is_chosen(clattn_rule rule)
{
    int found = *chosen == NULL;

    for (char **name = chosen; *name != NULL; name++)
        found |= clattn_rule_find(*name) == rule;
    return found;
}

/* Within a chunk, on its first token and on its last; in segments one */
enum { SHORT = 75, LONG = 560 };

static int64_t tokens_of(const struct test_kind *kind)
{
    return kind->segments > 0 ? LONG : SHORT;
}

static int64_t rows_a_token(const struct check_tensors *tensors, clattn_operand_id id)
{
    return tensors->tensor[id].info.dims[1] / tensors->desc.seq_len;
}

static int is_of_tokens(const struct check_tensors *tensors, clattn_operand_id id)
{
    const clattn_operand_info *info = &tensors->tensor[id].info;

    return tensors->tensor[id].data != NULL && info->rank >= 3 && info->dims[0] == tensors->desc.batch &&
           info->dims[1] % tensors->desc.seq_len == 0;
}

/* The elements of one token */
static void set_token(struct check_tensors *tensors, clattn_operand_id id, int64_t token, double value)
{
    int64_t count = check_count(&tensors->tensor[id].info) / tensors->desc.seq_len;

    for (int64_t i = token * count; i < (token + 1) * count; i++)
        test_set(tensors, id, i, value);
}

/* The first elements of an operand */
static void make_loud(struct check_tensors *tensors, clattn_operand_id id, int64_t count, double loud)
{
    for (int64_t i = 0; i < count; i++)
        test_set(tensors, id, i, test_get(tensors, id, i) * loud);
}

/* *b has other numbers than *a before the token, and the same from it on. On matrix engines the gates are those of
 * *a: sums of logs there begin with the chunk, and round by what was before. */
static void make_pair(struct check_tensors *a, struct check_tensors *b, const clattn_plan_desc *desc,
                      const struct row *row, int64_t token, double decay, int same_gates)
{
    const double loud = desc->dtype == CLATTN_F16 ? 0x1p10 : 0x1p60; /* what is not forgotten is seen */

    assert_status(check_make(a, desc, 1, CHECK_GATES_USUAL, NULL), SUCCESS);
    assert_status(check_make(b, desc, 2, CHECK_GATES_USUAL, NULL), SUCCESS);
    set_token(a, row->gate, token, decay);
    if (row->silent != NO_OPERAND)
        set_token(a, row->silent, token, 0);
    for (int id = 1; id < OPERAND_COUNT; id++) {
        clattn_operand_id operand = (clattn_operand_id)id;
        int64_t first = same_gates && (operand == row->gate || operand == OP(I)) ? 0 : token;
        if (is_of_tokens(a, operand) && !a->tensor[id].info.output)
            test_copy_tokens(b, first * rows_a_token(a, operand), a, first * rows_a_token(a, operand),
                             (desc->seq_len - first) * rows_a_token(a, operand), operand);
    }
    if (b->tensor[OP(STATE_IN)].data != NULL)
        make_loud(b, OP(STATE_IN), check_count(&b->tensor[OP(STATE_IN)].info), loud);
    else
        make_loud(b, OP(V), check_count(&b->tensor[OP(V)].info) / desc->seq_len * token, loud);
    if (a->tensor[OP(POSITION)].data != NULL) /* is no number that could be forgotten */
        memcpy(b->tensor[OP(POSITION)].data, a->tensor[OP(POSITION)].data, a->tensor[OP(POSITION)].bytes);
    if (a->tensor[OP(U)].data != NULL)
        test_copy(b, OP(U), a, OP(U));
    if (a->tensor[OP(RIDGE)].data != NULL)
        test_copy(b, OP(RIDGE), a, OP(RIDGE));
    if (same_gates && a->tensor[OP(STABILIZER_IN)].data != NULL)
        test_copy(b, OP(STABILIZER_IN), a, OP(STABILIZER_IN));
}

/* The same numbers from element `first` on, and others before it */
static void assert_same_from(const struct check_tensors *a, const struct check_tensors *b, clattn_operand_id id,
                             int64_t first, const char *what)
{
    int64_t others = 0;

    for (int64_t i = 0; i < check_count(&a->tensor[id].info); i++) {
        double x = test_get(a, id, i), y = test_get(b, id, i);
        others += x != y && i < first;
        if (i >= first && !(x == y))
            fail_msg("%s: element %lld of %s is %.9g, or %.9g by what was before", what, (long long)(i - first),
                     a->tensor[id].info.name, x, y);
    }
    if (first > 0 && others < first / 2)
        fail_msg("%s: %s before the token is the same, too", what, a->tensor[id].info.name);
}

static void run(struct check_tensors *tensors, struct check_device *device, clattn_plan *plan)
{
    if (plan == NULL)
        test_run(tensors); /* the reference */
    else
        assert_status(check_run_plan(tensors, device, plan, test_log, NULL), SUCCESS);
}

static void check_rule(const struct test_kind *kind, struct check_device *device, clattn_rule rule,
                       const struct row *row)
{
    static const double decays[] = {(double)-INFINITY, -1000};
    static const int64_t tokens[] = {21, 32, 47};
    size_t places = kind->segments > 0 ? 1 : COUNT(tokens);
    clattn_plan_desc desc = {.rule = rule,
                             .dtype = kind->dtype,
                             .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE | row->flags,
                             .seq_len = tokens_of(kind),
                             .heads = 2,
                             .key_dim = 32,
                             .value_dim = 16,
                             .steps = rule == CLATTN_GATED_DELTA_PRODUCT && kind->segments == 0 ? 2 : 0,
                             .mode = kind->mode};
    clattn_plan *plan;

    check_fit(&desc);
    plan = test_is_reference() ? NULL : test_kind_plan(kind, device, &desc);

    for (size_t i = 0; i < COUNT(decays) * places; i++) {
        struct check_tensors a, b;
        int64_t token = tokens[i / COUNT(decays)] + desc.seq_len - SHORT;
        double decay = decays[i % COUNT(decays)];
        char what[128];
        make_pair(&a, &b, &desc, row, token, decay, kind->dtype != CLATTN_F32);
        run(&a, device, plan);
        run(&b, device, plan);
        snprintf(what, sizeof what, "%s %s, %s, token %d, log-decay %g", test_rule_name(rule),
                 row->flags ? "with a value gate" : "", kind->name, (int)token, decay);
        assert_same_from(&a, &b, OP(O), (token + row->after) * desc.heads * desc.value_dim, what);
        for (int id = 1; id < OPERAND_COUNT; id++)
            if (id != CLATTN_O && a.tensor[id].info.output && a.tensor[id].data != NULL)
                assert_same_from(&a, &b, (clattn_operand_id)id, 0, what);
        check_free(&a);
        check_free(&b);
    }
    clattn_plan_destroy(plan);
}

/* Whether every token has a gate of its own. */
static int is_token_gate(clattn_rule rule)
{
    struct operand_row rows[OPERAND_COUNT];
    int count = rule_operands(&(clattn_plan_desc){.rule = rule}, rows), found = 0;

    for (int i = 0; i < count; i++)
        found |= rows[i].id == rule_get(rule)->gate && rows[i].dims[0] == 'B';
    return found;
}

static void test_forgets(void **state)
{
    const struct test_kind *kind = *state;
    struct check_device device = test_is_reference() ? test_device : test_kind_device(kind);
    int rules = 0;

    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
        const struct row row = row_of(rule);
        if (is_chosen(rule) && is_token_gate(rule) && (kind->segments == 0 || rule != CLATTN_MLSTM) &&
            test_kind_applies(kind, rule)) {
            check_rule(kind, &device, rule, &row);
            rules++;
        }
    }
    test_ran(rules);
    if (kind->dtype == CLATTN_F32)
        check_rule(kind, &device, CLATTN_GLA, &value_gate);
    if (!test_is_reference())
        clattn_context_destroy(device.context);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[COUNT(kinds)];
    size_t count = test_is_reference() ? 1 : COUNT(kinds);

    chosen = argv + (argc > 0);
    for (char **name = chosen; *name != NULL; name++)
        if (clattn_rule_find(*name) == CLATTN_RULE_NONE)
            return fprintf(stderr, "%s is no rule\n", *name), 2;
    for (size_t i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){kinds[i].name, test_forgets, NULL, NULL, &kinds[i]};
    return test_run_group("forgets", tests, count, test_device_open, test_device_close);
}
