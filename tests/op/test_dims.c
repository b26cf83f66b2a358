/* Heads whose rows are wider than 256: xLSTM's 256 channels and 512 values, GatedDeltaNet's, Gemma's lists of 512, MLA's
 * of 576 and 512. Plans against the reference; the reference against itself on slices of the values, whose columns do
 * not depend on each other. With CLATTN_TEST_DEVICE=reference only the latter says something. */
#include "harness.h"

#include <stdio.h>
#include <string.h>

enum {
    FIRST = CLATTN_INITIAL_STATE,
    BOTH = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
    NORM = CLATTN_QK_L2NORM,
    CU = CLATTN_CU_SEQLENS,
    LSE = CLATTN_WITH_LSE
};
#define F32 CLATTN_F32
#define F16 CLATTN_F16
#define BF16 CLATTN_BF16
#define AUTO CLATTN_MODE_AUTO
#define TOKENWISE CLATTN_MODE_RECURRENT
#define CHUNK CLATTN_MODE_CHUNK

static const int64_t cuts[] = {0, 0, 1, 18};

/* clang-format off */
static const struct row {
    const char *name;
    clattn_plan_desc desc;
} rows[] = {
    /* rules of a state */
    {"mlstm",        {.rule = CLATTN_MLSTM, .dtype = F32, .mode = CHUNK, .seq_len = 18, .heads = 2, .key_dim = 256,
                      .value_dim = 512, .flags = BOTH}},
    {"mlstm bf16",   {.rule = CLATTN_MLSTM, .dtype = BF16, .mode = TOKENWISE, .seq_len = 5, .heads = 1, .key_dim = 256,
                      .value_dim = 512, .flags = BOTH}},
    {"mlstm step",   {.rule = CLATTN_MLSTM, .dtype = BF16, .mode = AUTO, .seq_len = 1, .batch = 2, .heads = 2,
                      .key_dim = 256, .value_dim = 512, .flags = BOTH}},
    {"gdr",          {.rule = CLATTN_GATED_DELTA_RULE, .dtype = BF16, .mode = CHUNK, .seq_len = 18, .heads = 2,
                      .qk_heads = 1, .key_dim = 256, .value_dim = 512, .flags = BOTH | NORM}},
    {"gdr packed",   {.rule = CLATTN_GATED_DELTA_RULE, .dtype = F32, .mode = CHUNK, .seq_len = 18, .heads = 1,
                      .key_dim = 256, .value_dim = 512, .flags = BOTH | CU | CLATTN_STATE_VK, .sequences = 3}},
    {"gdr step",     {.rule = CLATTN_GATED_DELTA_RULE, .dtype = F16, .mode = AUTO, .seq_len = 1, .batch = 3, .heads = 2,
                      .key_dim = 256, .value_dim = 512, .state_slots = 3, .flags = BOTH | CLATTN_WITH_STATE_INDICES}},
    {"gdr states",   {.rule = CLATTN_GATED_DELTA_RULE, .dtype = F32, .mode = AUTO, .seq_len = 7, .heads = 1,
                      .key_dim = 64, .value_dim = 512, .state_window = 3, .flags = BOTH}},
    {"gdr 512",      {.rule = CLATTN_GATED_DELTA_RULE, .dtype = F32, .mode = CHUNK, .seq_len = 18, .heads = 1,
                      .key_dim = 512, .value_dim = 512, .flags = BOTH}},
    {"gla",          {.rule = CLATTN_GLA, .dtype = F32, .mode = CHUNK, .seq_len = 18, .heads = 2, .key_dim = 128,
                      .value_dim = 320, .flags = BOTH | CLATTN_VALUE_GATE}},
    {"rwkv7 1024",   {.rule = CLATTN_RWKV7, .dtype = BF16, .mode = TOKENWISE, .seq_len = 3, .heads = 1, .key_dim = 1024,
                      .value_dim = 1024, .flags = BOTH}},
    {"linear",       {.rule = CLATTN_LINEAR_ATTN, .dtype = F32, .mode = CHUNK, .seq_len = 18, .heads = 1, .key_dim = 60,
                      .value_dim = 500, .feature_map = CLATTN_FEATURE_ELU1,
                      .flags = FIRST | CLATTN_NORMALIZE | CLATTN_NONCAUSAL}},
    {"mamba",        {.rule = CLATTN_MAMBA, .dtype = F32, .mode = AUTO, .seq_len = 18, .heads = 1, .key_dim = 16,
                      .value_dim = 600, .flags = BOTH | CLATTN_WITH_D | CLATTN_WITH_Z}},
    {"features",     {.rule = CLATTN_FEATURES, .dtype = F32, .seq_len = 5, .heads = 1, .key_dim = 512,
                      .value_dim = 320}},
    /* lists */
    {"mla",          {.rule = CLATTN_SOFTMAX_ATTN, .dtype = BF16, .seq_len = 18, .heads = 2, .kv_heads = 1,
                      .key_dim = 576, .value_dim = 512, .flags = LSE}},
    {"mla step",     {.rule = CLATTN_SOFTMAX_ATTN, .dtype = BF16, .seq_len = 1, .batch = 2, .heads = 4, .kv_heads = 1,
                      .kv_len = 70, .key_dim = 576, .value_dim = 512, .flags = LSE | CLATTN_APPEND}},
    {"gemma",        {.rule = CLATTN_SOFTMAX_ATTN, .dtype = F32, .seq_len = 18, .heads = 2, .kv_heads = 1,
                      .key_dim = 512, .value_dim = 512, .window = 9, .flags = CU | LSE, .sequences = 3}},
    {"fox",          {.rule = CLATTN_FORGETTING_ATTN, .dtype = F32, .seq_len = 18, .heads = 1, .key_dim = 512,
                      .value_dim = 320, .flags = LSE}},
    {"path",         {.rule = CLATTN_PATH_ATTN, .dtype = F32, .seq_len = 18, .heads = 1, .key_dim = 512,
                      .value_dim = 512, .flags = LSE}},
    {"path step",    {.rule = CLATTN_PATH_ATTN, .dtype = F32, .seq_len = 1, .heads = 2, .kv_heads = 1, .kv_len = 70,
                      .tail = 13, .key_dim = 576, .value_dim = 512, .flags = LSE | CLATTN_CARRY}},
    {"deltaformer",  {.rule = CLATTN_DELTAFORMER, .dtype = F32, .seq_len = 18, .heads = 1, .key_dim = 512,
                      .value_dim = 512, .flags = LSE | CLATTN_WITH_BETA}},
};
/* clang-format on */

static void make(struct check_tensors *tensors, const clattn_plan_desc *desc)
{
    test_make(tensors, desc, CHECK_GATES_USUAL, desc->flags & CU ? cuts : NULL);
}

static void test_row(void **state)
{
    const struct row *row = *state;
    struct check_tensors tensors, expected;
    clattn_operand_id worst = OP(O);
    double error;

    make(&tensors, &row->desc);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    test_run(&tensors);
    error = check_error(&tensors, &expected, &worst);
    if (!(error <= check_bound_of(&tensors.desc)))
        fail_msg("%s: relative error of %s is %.3g, bound %.3g", row->name, operand_name(worst), error,
                 check_bound_of(&tensors.desc));
    check_free(&tensors);
    check_free(&expected);
}

/* ---- Columns of values --------------------------------------------------------------------------------------------
 */

/* Copies `width` numbers of each row from column `from` of one tensor to column `to` of another. */
static void copy_columns(struct check_tensors *to, int64_t to_column, const struct check_tensors *from,
                         int64_t from_column, int64_t width, clattn_operand_id id)
{
    const clattn_operand_info *a = &to->tensor[id].info, *b = &from->tensor[id].info;
    const int64_t to_width = a->dims[a->rank - 1], from_width = b->dims[b->rank - 1];

    for (int64_t row = 0; row < check_count(a) / to_width; row++)
        for (int64_t c = 0; c < width; c++)
            test_set(to, id, row * to_width + to_column + c, test_get(from, id, row * from_width + from_column + c));
}

/* A problem of the slice of values that begins at `first`, of everything else the same. */
static void slice(struct check_tensors *part, const struct check_tensors *whole, int64_t first, int64_t width)
{
    static const clattn_operand_id shared[] = {OP(Q), OP(K), OP(G), OP(I), OP(F), OP(BETA)};
    static const clattn_operand_id cut[] = {OP(V), OP(STATE_IN)};
    clattn_plan_desc desc = whole->desc;

    desc.value_dim = width;
    make(part, &desc);
    for (size_t i = 0; i < COUNT(shared); i++)
        if (whole->tensor[shared[i]].data != NULL)
            test_copy(part, shared[i], whole, shared[i]);
    for (size_t i = 0; i < COUNT(cut); i++)
        if (whole->tensor[cut[i]].data != NULL)
            copy_columns(part, 0, whole, first, width, cut[i]);
}

/* Outputs of 320 columns are those of two problems of 256 and 64. */
static void test_columns(void **state)
{
    static const clattn_rule rules[] = {CLATTN_GATED_DELTA_RULE, CLATTN_SOFTMAX_ATTN, CLATTN_GLA};
    static const clattn_operand_id outputs[] = {OP(O), OP(STATE_OUT)};
    enum { WIDE = 320, MOST = 256 };

    (void)state;
    for (size_t r = 0; r < COUNT(rules); r++) {
        clattn_plan_desc desc = {
            .rule = rules[r], .seq_len = 18, .heads = 2, .key_dim = 40, .value_dim = WIDE, .flags = BOTH};
        struct check_tensors whole, joined, part;
        check_fit(&desc);
        make(&whole, &desc);
        make(&joined, &desc);
        test_run(&whole);
        for (int64_t first = 0; first < WIDE; first += MOST) {
            const int64_t width = first + MOST <= WIDE ? MOST : WIDE - first;
            slice(&part, &whole, first, width);
            test_run(&part);
            for (size_t i = 0; i < COUNT(outputs); i++)
                if (part.tensor[outputs[i]].data != NULL)
                    copy_columns(&joined, first, &part, 0, width, outputs[i]);
            check_free(&part);
        }
        for (size_t i = 0; i < COUNT(outputs); i++)
            if (whole.tensor[outputs[i]].data != NULL)
                test_compare(&whole.tensor[outputs[i]], &joined.tensor[outputs[i]], check_bound(CLATTN_F32),
                             test_rule_name(rules[r]));
        check_free(&whole);
        check_free(&joined);
    }
}

/* ---- What is refused ----------------------------------------------------------------------------------------------
 */

static void test_refused(void **state)
{
    const clattn_plan_desc wide = {.rule = CLATTN_MLSTM, .seq_len = 1, .heads = 1, .key_dim = 256, .value_dim = 1025};
    clattn_plan_desc full;

    (void)state;
    test_log_clear();
    assert_status(clattn_plan_desc_complete(&full, &wide, test_log, NULL), INVALID_DESC);
    assert_logged("value_dim is 1025, expected 1 to 1024");
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[COUNT(rows) + 2] = {{"columns", test_columns, NULL, NULL, NULL},
                                                {"refused", test_refused, NULL, NULL, NULL}};

    if (argc > 1)
        test_filter(argv[1]);
    for (size_t i = 0; i < COUNT(rows); i++)
        tests[i + 2] = (struct CMUnitTest){rows[i].name, test_row, NULL, NULL, (void *)(uintptr_t)&rows[i]};
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
