/* test_causality [some]: what is not finite at a token, or so large that it overflows, leaves every earlier output its
 * bits, and those of other heads and batch elements: each row of the table is one rule by one solver and its tiles. The
 * plan is made once; each run puts one value in the place of one token's row, of one head, of one operand. On an engine,
 * whose tiles are whole, the outputs before the token's chunk. some: rows with a word of a rule, a solver or a type that
 * none before has. */
#include "harness.h"

#include "device/context.h"
#include "device/engine.h"
#include "plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 2, TOKENS = 70, HEADS = 2, KEY = 16, VALUE = 16, OWN = -1 };

/* Who works a tile: the group of prepare and scan, or the recurrence in one lane or many, or register blocks, by
 * themselves or on an engine that multiplies floats */
enum who { ONE, LANES_16, LANES_64, TOKENS_ONE, TOKENS_LANES, BLOCKS, ENGINE_NVIDIA, ENGINE_CDNA };
static const struct {
    const char *name;
    int serial, vec, group; /* group 0: token by token; OWN: the solver's */
    const char *engine;     /* NULL: none */
} workers[] = {
    [ONE] = {"one lane", 1, 16, 1, NULL},
    [LANES_16] = {"16 lanes", 0, 4, 16, NULL},
    [LANES_64] = {"64 lanes", 0, 4, 64, NULL},
    [TOKENS_ONE] = {"tokens", 1, 16, 0, NULL},
    [TOKENS_LANES] = {"tokens, lanes", 0, 4, 0, NULL},
    [BLOCKS] = {"register blocks", 1, 4, OWN, NULL},
    [ENGINE_NVIDIA] = {"nvidia's engine", 1, 4, OWN, "nvidia_emulated"},
    [ENGINE_CDNA] = {"cdna's engine", 1, 4, OWN, "amd_cdna_emulated"},
};

static const int64_t tokens[] = {1, 15, 36, 37, 39};
static const double values[] = {(double)NAN, (double)INFINITY, 1e30};

/* clang-format off */
static const struct row {
    const char *rule;
    int variant;
    clattn_dtype dtype;
    enum who who;
    int chunk;
    int all; /* every operand that has tokens; else k and v */
} rows[] = {
    /* every rule */
    { "linear_attn",         0, CLATTN_F32,  ONE,       32, 1 },
    { "linear_attn",         3, CLATTN_F32,  ONE,       32, 0 }, /* normalize */
    { "retention",           0, CLATTN_F32,  ONE,       16, 0 },
    { "lightning_attn",      0, CLATTN_F32,  ONE,       16, 0 },
    { "simple_gla",          0, CLATTN_F32,  ONE,       64, 1 },
    { "gla",                 0, CLATTN_F32,  ONE,       16, 0 },
    { "gla",                 1, CLATTN_F32,  ONE,       32, 1 }, /* gv */
    { "rwkv6",               0, CLATTN_F32,  ONE,       32, 1 },
    { "delta_rule",          0, CLATTN_F32,  ONE,       16, 0 },
    { "gated_delta_rule",    0, CLATTN_F32,  ONE,       32, 1 },
    { "kda",                 0, CLATTN_F32,  ONE,       32, 1 },
    { "comba",               0, CLATTN_F32,  ONE,       32, 1 },
    { "gdn2",                0, CLATTN_F32,  ONE,       32, 1 },
    { "gated_delta_product", 2, CLATTN_F32,  ONE,       64, 1 }, /* 2 steps */
    { "dplr",                0, CLATTN_F32,  ONE,       16, 0 },
    { "iplr",                0, CLATTN_F32,  ONE,       64, 0 },
    { "rwkv7",               0, CLATTN_F32,  ONE,       32, 1 },
    { "mlstm",               0, CLATTN_F32,  ONE,       32, 1 },
    { "softmax_attn",        0, CLATTN_F32,  ONE,       32, 1 },
    { "alibi_attn",          1, CLATTN_F32,  ONE,       16, 0 }, /* sink, lse, window */
    { "forgetting_attn",     0, CLATTN_F32,  ONE,       8,  1 },
    { "path_attn",           0, CLATTN_F32,  ONE,       16, 1 },
    /* types and chunks */
    { "gated_delta_rule",    0, CLATTN_F16,  ONE,       64, 0 },
    { "gated_delta_rule",    0, CLATTN_BF16, ONE,       16, 1 },
    { "rwkv7",               0, CLATTN_BF16, ONE,       8,  1 },
    { "kda",                 0, CLATTN_F16,  ONE,       64, 0 },
    { "linear_attn",         0, CLATTN_F16,  ONE,       8,  0 },
    /* groups of lanes, and products of 4, 2 and 1 rows at once */
    { "linear_attn",         0, CLATTN_F32,  LANES_64,  32, 0 },
    { "gated_delta_rule",    0, CLATTN_F32,  LANES_64,  64, 1 },
    { "gated_delta_rule",    0, CLATTN_BF16, LANES_64,  32, 0 },
    { "kda",                 0, CLATTN_F16,  LANES_16, 16, 1 },
    { "rwkv7",               0, CLATTN_F32,  LANES_16, 32, 1 },
    { "gla",                 1, CLATTN_F32,  LANES_16, 8,  0 },
    { "mlstm",               0, CLATTN_F16,  LANES_64,  16, 0 },
    { "forgetting_attn",     0, CLATTN_F32,  LANES_16,  32, 1 },
    { "deltaformer",         0, CLATTN_F32,  ONE,       16, 0 },
    { "deltaformer",         2, CLATTN_F32,  ONE,       8,  1 }, /* beta, linear */
    { "path_attn",           2, CLATTN_F32,  LANES_64,  8,  0 }, /* sink, lse, window */
    { "path_attn",           0, CLATTN_F32,  LANES_16,  8,  1 },
    { "softmax_attn",        2, CLATTN_BF16, LANES_64,  16, 0 }, /* window */
    { "forgetting_attn",     1, CLATTN_F16,  LANES_64,  8,  0 },
    /* register blocks */
    { "simple_gla",          0, CLATTN_F32,  BLOCKS,    64, 1 },
    { "gated_delta_rule",    0, CLATTN_F32,  BLOCKS,    64, 1 },
    { "gated_delta_product", 2, CLATTN_BF16, BLOCKS,    32, 0 }, /* 2 steps */
    { "kda",                 0, CLATTN_F32,  BLOCKS,    64, 1 },
    { "gdn2",                0, CLATTN_F32,  BLOCKS,    16, 1 },
    { "rwkv6",               0, CLATTN_F32,  BLOCKS,    32, 1 },
    { "rwkv7",               0, CLATTN_F32,  BLOCKS,    64, 1 },
    { "mlstm",               0, CLATTN_F32,  BLOCKS,    16, 1 },
    { "softmax_attn",        0, CLATTN_F32,  BLOCKS,    32, 1 },
    { "forgetting_attn",     0, CLATTN_BF16, BLOCKS,    32, 1 },
    /* the same on engines */
    { "softmax_attn",        0, CLATTN_F32,  ENGINE_NVIDIA, 32, 0 },
    { "simple_gla",          0, CLATTN_F32,  ENGINE_NVIDIA, 16, 1 },
    { "gated_delta_rule",    0, CLATTN_F32,  ENGINE_NVIDIA, 32, 0 },
    { "kda",                 0, CLATTN_F32,  ENGINE_NVIDIA, 16, 0 },
    { "rwkv7",               0, CLATTN_F32,  ENGINE_CDNA,   16, 0 },
    /* token by token */
    { "gated_delta_rule",    0, CLATTN_F32,  TOKENS_ONE, 0,  1 },
    { "rwkv6",               0, CLATTN_F16,  TOKENS_ONE, 0,  1 },
    { "rwkv7",               0, CLATTN_BF16, TOKENS_LANES, 0, 1 },
    { "kda",                 0, CLATTN_F32,  TOKENS_LANES, 0, 0 },
    { "mlstm",               0, CLATTN_F32,  TOKENS_ONE, 0,  1 },
};
/* clang-format on */

static clattn_plan_desc desc_of(const struct row *row)
{
    clattn_plan_desc desc = {.rule = clattn_rule_find(row->rule),
                             .dtype = row->dtype,
                             .batch = BATCH,
                             .seq_len = TOKENS,
                             .heads = HEADS,
                             .key_dim = KEY,
                             .value_dim = VALUE,
                             .mode = workers[row->who].group == 0 ? CLATTN_MODE_RECURRENT : CLATTN_MODE_CHUNK,
                             .chunk = row->chunk};

    assert_non_null(check_variant(desc.rule, row->variant, &desc));
    return desc;
}

/* The row's plan; NULL on the reference. */
static clattn_plan *plan_of(const struct row *row, const clattn_plan_desc *desc)
{
    int list = rule_has_list(rule_get(desc->rule));
    int blocks = workers[row->who].group == OWN;
    int turned = rule_get(desc->rule)->erase == ERASE_POSITION, written = rule_get(desc->rule)->erase == ERASE_KERNEL;
    static const char *const block_spaces[2][2] = {{"chunk_blocks", "matrix_blocks"},
                                                   {"flash_blocks", "flash_matrix_blocks"}};
    const char *block_space = block_spaces[list][workers[row->who].engine != NULL];
    const char *space = turned ? "path" : written ? "delta" : blocks ? block_space : list ? "flash" : "chunk_scan";
    struct tuned tuned = tuned_default(space_find(space));
    clattn_plan *plan = NULL;

    if (test_is_reference())
        return NULL;
    test_device.context->device.serial = workers[row->who].serial;
    test_device.context->engine = workers[row->who].engine != NULL ? engine_get(workers[row->who].engine) : NULL;
    if (workers[row->who].group == 0) {
        assert_status(clattn_plan_create(&plan, test_device.context, desc), SUCCESS);
        return plan;
    }
    test_tuned_set(&tuned, "chunk", row->chunk);
    if (blocks)
        list = 0;
    if (!blocks)
        test_tuned_set(&tuned, "vec", workers[row->who].vec);
    if (turned || written)
        test_tuned_set(&tuned, "span", 2);
    if (list)
        test_tuned_set(&tuned, turned ? "flash.group" : "group", workers[row->who].group);
    else if (!blocks) {
        test_tuned_set(&tuned, "prepare.group", workers[row->who].group);
        test_tuned_set(&tuned, "scan.group", workers[row->who].group);
    }
    assert_status(plan_create(&plan, test_device.context, desc, &tuned), SUCCESS);
    return plan;
}

/* On the plan, or on the reference where there is none */
static clattn_status run(struct check_tensors *tensors, clattn_plan *plan)
{
    test_log_clear();
    if (plan != NULL)
        return check_run_plan(tensors, &test_device, plan, test_log, NULL);
    test_run(tensors);
    return CLATTN_SUCCESS;
}

static void check_operand_tokens(const struct row *row, clattn_plan *plan, const struct check_tensors *clean,
                                 clattn_operand_id id)
{
    size_t count = id == OP(K) && row->dtype == CLATTN_F32 ? COUNT(values) : COUNT(values) - 1;
    int64_t whole = workers[row->who].engine != NULL && plan != NULL ? row->chunk : 1; /* what is multiplied as one */
    char what[96];

    for (size_t v = 0; v < count; v++)
        for (size_t t = 0; t < COUNT(tokens); t++) {
            struct check_tensors tensors;
            test_make(&tensors, &clean->desc, CHECK_GATES_USUAL, NULL);
            snprintf(what, sizeof what, "%s, chunk %d: %s = %g at %d", row->rule, row->chunk,
                     tensors.tensor[id].info.name, values[v], (int)tokens[t]);
            test_spoil(&tensors, id, tokens[t], values[v]);
            test_assert_spoiled(run(&tensors, plan), row->dtype);
            test_compare_beyond(&tensors, clean, (struct test_reach){1, tokens[t] / whole * whole, TOKENS}, what);
            check_free(&tensors);
        }
}

/* Whether rows before have all words of its rule, who works it, and its type. */
static int is_another(const struct row *row)
{
    int words = 0, who = 0, dtype = 0;

    for (const struct row *other = rows; other < row; other++) {
        words |= test_words_in_common(other->rule, row->rule);
        who |= other->who == row->who;
        dtype |= other->dtype == row->dtype;
    }
    return words == TEST_ALL_WORDS && who && dtype;
}

static void test_row(void **state)
{
    const struct row *row = *state;
    clattn_plan_desc desc = desc_of(row);
    clattn_plan *plan = plan_of(row, &desc);
    struct operand_row operands[OPERAND_COUNT];
    struct check_tensors clean;
    int count, runs = 0;

    test_make(&clean, &desc, CHECK_GATES_USUAL, NULL);
    assert_status(run(&clean, plan), SUCCESS);
    count = rule_operands(&clean.desc, operands);
    for (int i = 0; i < count; i++) {
        clattn_operand_id id = operands[i].id;
        if (test_has_tokens(&operands[i]) && (row->all || id == OP(K) || id == OP(V))) {
            check_operand_tokens(row, plan, &clean, id);
            runs++;
        }
    }
    test_ran(runs);
    check_free(&clean);
    clattn_plan_destroy(plan);
}

int main(int argc, char **argv)
{
    static char names[COUNT(rows)][64];
    struct CMUnitTest tests[COUNT(rows)];
    size_t count = 0;

    for (size_t i = 0; i < COUNT(rows); i++) {
        if (argc > 1 && strcmp(argv[1], "some") == 0 && is_another(&rows[i]))
            continue;
        snprintf(names[i], sizeof names[i], "%s %d, dtype %d, %s, chunk %d", rows[i].rule, rows[i].variant,
                 rows[i].dtype, workers[rows[i].who].name, rows[i].chunk);
        tests[count++] = (struct CMUnitTest){names[i], test_row, NULL, NULL, (void *)(uintptr_t)&rows[i]};
    }
    return test_run_group("causality", tests, count, test_device_open, test_device_close);
}
