/* lact: against numbers of a program of another language, and by what must hold of weights that batches train. */
#include "harness.h"

#include <math.h>

enum { T = 7, H = 2, K = 4, V = 3, F = 5 };

/* clang-format off */
static const double lact_o[] = {
    -0.120956493606376, 0.186014485090687, -0.00955416794118224, 0.125126229271395, -0.031301936726234,
    0.114019589870551, -0.302017170788609, 0.306741910226154, 0.139450240796505, 0.500196388250993,
    0.0513712362740986, -0.481441842029138, -0.0638991469935314, -0.415145058812726, 0.600491207029839,
    0.103647494972691, 0.00171300154131156, 0.150602331075188, -1.62829606602167, 1.16025503659098, 0.374811916207438,
    -0.113223752518055, -0.484262531352977, 0.633243978568142, -0.0307081527031064, -0.29713661376174,
    0.0487465141221404, 0.90803162847814, 0.105069254400873, -0.538704786665149, -0.139434076202176,
    0.263997216898724, -0.0851163561584567, -0.585559655614082, -1.0239515940641, 1.06325997631201,
    -0.334302142183767, 0.23736081024091, 0.20923566907915, 0.323447198916552, 0.0226388442400725, -0.224436916666099};
static const double momentum_o[] = {
    -0.120956493606376, 0.186014485090687, -0.00955416794118224, 0.125126229271395, -0.031301936726234,
    0.114019589870551, -0.302017170788609, 0.306741910226154, 0.139450240796505, 0.500196388250993,
    0.0513712362740986, -0.481441842029138, -0.0638991469935314, -0.415145058812726, 0.600491207029839,
    0.103647494972691, 0.00171300154131156, 0.150602331075188, -1.62829606602167, 1.16025503659098, 0.374811916207438,
    -0.113223752518055, -0.484262531352977, 0.633243978568142, -0.0295045609722196, -0.296089617122268,
    0.04384148491432, 0.90607089489396, 0.151423387553504, -0.517496217120174, -0.138773354957495, 0.263630599693475,
    -0.089227011391652, -0.593302040065987, -1.0151149291876, 1.06312784206908, -0.333656291062406, 0.227645600914943,
    0.19271558224278, 0.319359880438977, 0.0351947546063586, -0.193191639811743};
static const double long_batch_o[] = {
    -0.120956493606376, 0.186014485090687, -0.00955416794118224, 0.125126229271395, -0.031301936726234,
    0.114019589870551, -0.302017170788609, 0.306741910226154, 0.139450240796505, 0.500196388250993,
    0.0513712362740986, -0.481441842029138, -0.0949503888772066, -0.633243828267547, 1.07640470783388,
    0.119181289785809, -0.0163463914933334, 0.137399030875557, -1.62198178018758, 1.17077568528043, 0.397400509995671,
    -0.101500203622998, -0.493537547229312, 0.628078703317341, -0.100695416966081, -0.280197109816613,
    0.177665010313566, 1.10730166205032, 0.25841730483661, -0.833681667289804, -0.165792899514008, 0.283087087489764,
    -0.00771933160811293, -0.465685063147341, -1.02919437593929, 0.983189760789043, -0.360924766056435,
    0.251394595068334, 0.249937983177446, 0.364377357685054, 0.069893396484047, -0.246788790993074};
static const double one_token_o[] = {
    -0.120956493606376, 0.186014485090687, -0.00955416794118224, 0.125126229271395, -0.031301936726234,
    0.114019589870551, -0.298775313742928, 0.2977493609361, 0.124577020163194, 0.562386792247562, 0.0949115963308333,
    -0.494852498409464, -0.0640679927241038, -0.413727879045204, 0.598194150243681, 0.103563387048336,
    0.00184452524240508, 0.150729689300274, -1.42736191355176, 1.03334462345223, -0.0343938196650502,
    -0.183089507709631, -0.430371935261666, 0.697049766833601, -0.0300570347367176, -0.296612537410861,
    0.0464950983973892, 0.912683411245952, 0.10761568495337, -0.539681327069673, -0.134035155298862,
    0.265629125375185, -0.0915651605932812, -1.06272167308312, -1.73742731680704, 1.73471111011144, -0.33306248973244,
    0.236704460253809, 0.209478041855904, 0.324692243379983, 0.0272026456489533, -0.218811114474455};
static const double muon_o[] = {
    -0.120956493606376, 0.186014485090687, -0.00955416794118224, 0.125126229271395, -0.031301936726234,
    0.114019589870551, -0.302017170788609, 0.306741910226154, 0.139450240796505, 0.500196388250993,
    0.0513712362740986, -0.481441842029138, -0.0949503888772066, -0.633243828267547, 1.07640470783388,
    0.119181289785809, -0.0163463914933334, 0.137399030875557, 1.16305279795956, -0.397799559178724,
    0.162085048011017, -0.545792034504895, -0.198944667768696, 1.07759539228464, 0.0170890718488807,
    -0.121038255106987, -0.120312094956607, 0.723301003860993, 1.10538491841646, -0.929131539912409,
    0.0935440429077827, 0.0923598084149478, -0.214211627775466, -0.547827419488621, -0.458242874243929,
    0.881036864529236, 0.0447891193196426, 0.166545520960982, -0.0636116676431313, -0.0665545611809244,
    0.00117919506526698, -0.115374198431178};
static const double keller_o[] = {
    -0.120956493606376, 0.186014485090687, -0.00955416794118224, 0.125126229271395, -0.031301936726234,
    0.114019589870551, -0.302017170788609, 0.306741910226154, 0.139450240796505, 0.500196388250993,
    0.0513712362740986, -0.481441842029138, -0.0949503888772066, -0.633243828267547, 1.07640470783388,
    0.119181289785809, -0.0163463914933334, 0.137399030875557, 0.0991278121184407, -0.211211266271904,
    0.0850405542629525, -0.510657398709249, -0.235559555811532, 1.07631617407838, -0.263875714647792,
    -0.1082187740775, -0.037046467940157, 0.852554080130036, 1.01117432294347, -0.897097526720977,
    -0.0332361060610405, 0.109173297329053, -0.18121943186472, -0.555051315704654, -0.586329429473715,
    0.962484445865195, 0.29946799237029, 0.213733028686274, -0.0443884859696819, -0.0732335987828188,
    0.0307516561783933, -0.0793357686361281};
static const double noncausal_o[] = {
    -0.0230840238757321, 0.207944976131981, -0.0992561189929349, 0.0878594029179997, -0.0286730080899832,
    0.0983076671220006, -0.268901022395111, 0.307906222942285, 0.0854660259213928, 0.451273248052926,
    -0.0344748079328314, -0.418796245944407, 0.246003402327692, -0.279460706788676, 0.526611351393616,
    0.0769990200706843, -0.0159054578840769, 0.125532244690837, -1.3052199170565, 1.12664547978609,
    -0.0479118849905295, -0.248792067547126, -0.47369225143047, 0.719255381267737, 0.0815998969683606,
    -0.214366690154938, 0.0446369385692559, 0.761146929701767, -0.0543284271016633, -0.476233737085823,
    -0.0964163137061673, 0.294707025032284, -0.0839009386821528, -1.07741564941392, -1.73352122253919,
    1.7151110448836, -0.328575955054294, 0.250719606621322, 0.20373644506582, 0.327423621989379, 0.0201591461258111,
    -0.23030096693538};
/* clang-format on */

static const struct family {
    const char *name;
    const double *o;
    clattn_plan_desc desc;
} families[] = {
    {"lact", lact_o, {.mini_batch = 2}},
    {"momentum", momentum_o, {.mini_batch = 2, .flags = CLATTN_WITH_MOMENTUM}},
    {"a batch of all", long_batch_o, {.mini_batch = 0}},
    {"batches of one token, pre_norm", one_token_o, {.mini_batch = 1, .flags = CLATTN_PRE_NORM}},
    {"muon, momentum", muon_o, {.mini_batch = 3, .muon = CLATTN_MUON_FIVE, .flags = CLATTN_WITH_MOMENTUM}},
    {"muon, keller", keller_o, {.mini_batch = 3, .muon = CLATTN_MUON_KELLER}},
    {"noncausal, pre_norm", noncausal_o, {.flags = CLATTN_NONCAUSAL | CLATTN_PRE_NORM}},
};

/* What the numbers of an operand lie between, and what its formula has in the place of a name. */
static const struct {
    clattn_operand_id id;
    int key;
    double low, high;
} inputs[] = {{CLATTN_Q, 1, -1, 1},    {CLATTN_K, 2, -1, 1},       {CLATTN_V, 3, -1, 1},    {CLATTN_W0, 4, -1, 1},
              {CLATTN_W1, 5, -1, 1},   {CLATTN_W2, 6, -1, 1},      {CLATTN_LR0, 7, 0, 0.3}, {CLATTN_LR1, 8, 0, 0.3},
              {CLATTN_LR2, 9, 0, 0.3}, {CLATTN_MOMENTUM, 10, 0, 1}};

static void fill(struct check_tensors *tensors)
{
    for (size_t n = 0; n < COUNT(inputs); n++)
        for (int64_t i = 0;
             tensors->tensor[inputs[n].id].data != NULL && i < check_count(&tensors->tensor[inputs[n].id].info); i++)
            test_set(tensors, inputs[n].id, i,
                     inputs[n].low + (inputs[n].high - inputs[n].low) *
                                         (double)((i * 7919 + inputs[n].key * 104729) % 1009) / 1009);
}

static clattn_plan_desc sized(clattn_plan_desc desc, int64_t tokens)
{
    desc.rule = CLATTN_LACT;
    desc.seq_len = tokens;
    desc.heads = H;
    desc.key_dim = K;
    desc.value_dim = V;
    desc.hidden_dim = F;
    return desc;
}

static double bound(void)
{
    return test_is_reference() ? 1e-6 : check_bound(CLATTN_F32);
}

static void test_families(void **state)
{
    (void)state;
    for (size_t n = 0; n < COUNT(families); n++) {
        const clattn_plan_desc desc = sized(families[n].desc, T);
        struct check_tensors tensors, expected;
        test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
        assert_status(check_allocate(&expected, &desc), SUCCESS);
        fill(&tensors);
        for (int i = 0; i < T * H * V; i++)
            test_set(&expected, OP(O), i, families[n].o[i]);
        test_run(&tensors);
        test_compare(&tensors.tensor[OP(O)], &expected.tensor[OP(O)], bound(), families[n].name);
        check_free(&tensors), check_free(&expected);
    }
}

/* ---- Batches ------------------------------------------------------------------------------------------------------
 */

static struct check_tensors made(const clattn_plan_desc *desc)
{
    struct check_tensors tensors;

    test_make(&tensors, desc, CHECK_GATES_USUAL, NULL);
    fill(&tensors);
    return tensors;
}

static const clattn_operand_id first_ids[] = {CLATTN_W0, CLATTN_W1, CLATTN_W2};
static const clattn_operand_id last_ids[] = {CLATTN_FINAL_W0, CLATTN_FINAL_W1, CLATTN_FINAL_W2};
static const clattn_operand_id rates[] = {CLATTN_LR0, CLATTN_LR1, CLATTN_LR2};
static const clattn_operand_id of_tokens[] = {CLATTN_Q, CLATTN_K, CLATTN_V, CLATTN_LR0, CLATTN_LR1, CLATTN_LR2};

/* What the last batch would teach reaches no output, whole or short; what one before would, reaches those behind it and
 * none before. */
static void test_reach(void **state)
{
    (void)state;
    for (int tokens = 6; tokens <= T; tokens++)
        for (int spoiled = 0; spoiled < tokens; spoiled++) {
            const clattn_plan_desc desc = sized((clattn_plan_desc){.mini_batch = 2}, tokens);
            struct check_tensors clean = made(&desc), other = made(&desc);
            int behind = (spoiled / 2 + 1) * 2, differ = 0;
            for (int c = 0; c < V; c++)
                test_set(&other, OP(V), spoiled * H * V + c, 2);
            test_run(&clean), test_run(&other);
            for (int i = 0; i < tokens * H * V; i++) {
                int differs = test_get(&clean, OP(O), i) != test_get(&other, OP(O), i);
                if (differs && (i / (H * V) < behind || i / V % H != 0))
                    fail_msg("token %d of %d: o of token %d, head %d differs", spoiled, tokens, i / (H * V), i / V % H);
                differ |= differs;
            }
            if (differ != (behind < tokens))
                fail_msg("token %d of %d: %s", spoiled, tokens, differ ? "o differs" : "nothing is learned");
            check_free(&clean), check_free(&other);
        }
}

/* Rates of 0 leave the weights, but for 1e-5 of a norm; a batch that is not whole, too, to the bit. */
static void test_still(void **state)
{
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        clattn_plan_desc desc = sized((clattn_plan_desc){.flags = CLATTN_FINAL_STATE}, T);
        struct check_tensors tensors;
        desc.mini_batch = whole ? T : T + 1;
        tensors = made(&desc);
        for (int n = 0; n < 3 && whole; n++)
            test_set_all(&tensors, rates[n], 0);
        test_run(&tensors);
        for (int n = 0; n < 3; n++)
            test_compare(&tensors.tensor[last_ids[n]], &tensors.tensor[first_ids[n]], whole ? 5e-5 : 0,
                         whole ? "rates of 0" : "half a batch");
        check_free(&tensors);
    }
}

static void copy_part(struct check_tensors *to, int64_t to_first, const struct check_tensors *from, int64_t first,
                      int64_t count)
{
    for (size_t n = 0; n < COUNT(of_tokens); n++)
        test_copy_tokens(to, to_first, from, first, count, of_tokens[n]);
}

/* Cut where a batch ends, the weights carried over: the same but for 1e-5 of a norm. */
static void test_cut(void **state)
{
    enum { CUT = 4 };
    const clattn_plan_desc desc = sized((clattn_plan_desc){.flags = CLATTN_FINAL_STATE, .mini_batch = 2}, T);
    const clattn_plan_desc before = sized(desc, CUT), after = sized(desc, T - CUT);
    struct check_tensors whole = made(&desc), first = made(&before), rest = made(&after), expected = made(&after);

    (void)state;
    test_run(&whole);
    copy_part(&first, 0, &whole, 0, CUT), copy_part(&rest, 0, &whole, CUT, T - CUT);
    test_run(&first);
    for (int n = 0; n < 3; n++)
        test_copy(&rest, first_ids[n], &first, last_ids[n]);
    test_run(&rest);
    test_copy_tokens(&expected, 0, &whole, CUT, T - CUT, OP(O));
    test_compare(&rest.tensor[OP(O)], &expected.tensor[OP(O)], 1e-4, "the tokens after the cut");
    for (int n = 0; n < 3; n++)
        test_compare(&rest.tensor[last_ids[n]], &whole.tensor[last_ids[n]], 1e-4, "the weights after the cut");
    check_free(&whole), check_free(&first), check_free(&rest), check_free(&expected);
}

/* Learned from all at once, then read: what a second half reads that follows itself. */
static void test_noncausal(void **state)
{
    const clattn_plan_desc desc = sized((clattn_plan_desc){.flags = CLATTN_NONCAUSAL}, T);
    const clattn_plan_desc twice = sized((clattn_plan_desc){.mini_batch = T}, 2 * T);
    struct check_tensors once = made(&desc), both = made(&twice), expected = made(&desc);

    (void)state;
    copy_part(&both, 0, &once, 0, T), copy_part(&both, T, &once, 0, T);
    test_run(&once), test_run(&both);
    test_copy_tokens(&expected, 0, &both, T, T, OP(O));
    test_compare(&once.tensor[OP(O)], &expected.tensor[OP(O)], bound(), "learned from the whole, then read");
    check_free(&once), check_free(&both), check_free(&expected);
}

/* ---- Muon ---------------------------------------------------------------------------------------------------------
 */

/* The largest cosine of two rows of one head's w1 after a step that is all that there is of it. */
static double largest_cosine(clattn_muon muon)
{
    const clattn_plan_desc desc =
        sized((clattn_plan_desc){.flags = CLATTN_FINAL_STATE | CLATTN_NONCAUSAL, .muon = muon}, 40);
    struct check_tensors tensors = made(&desc);
    double most = 0;

    for (int64_t i = 0; i < check_count(&tensors.tensor[OP(W1)].info); i++)
        test_set(&tensors, OP(W1), i, 1e-4 * test_get(&tensors, OP(W1), i));
    test_run(&tensors);
    for (int a = 0; a < V; a++)
        for (int b = 0; b < a; b++) {
            double ab = 0, aa = 0, bb = 0;
            for (int f = 0; f < F; f++) {
                double x = test_get(&tensors, OP(FINAL_W1), a * F + f), y = test_get(&tensors, OP(FINAL_W1), b * F + f);
                ab += x * y, aa += x * x, bb += y * y;
            }
            most = fmax(most, fabs(ab) / sqrt(aa * bb));
        }
    check_free(&tensors);
    return most;
}

/* Rows of a matrix whose singular values are 0.98 to 1.03, or 0.68 to 1.13, are that far from orthogonal at the most; a
 * step as it is has rows much alike. */
static void test_singular_values(void **state)
{
    double none = largest_cosine(CLATTN_MUON_NONE), five = largest_cosine(CLATTN_MUON_FIVE),
           keller = largest_cosine(CLATTN_MUON_KELLER);
    const double most_five = (1.03 * 1.03 - 0.98 * 0.98) / (1.03 * 1.03 + 0.98 * 0.98);
    const double most_keller = (1.13 * 1.13 - 0.68 * 0.68) / (1.13 * 1.13 + 0.68 * 0.68);

    (void)state;
    if (!(none > most_keller && five <= most_five && keller <= most_keller))
        fail_msg("cosines %.3g, %.3g, %.3g: expected above %.3g, up to %.3g, up to %.3g", none, five, keller,
                 most_keller, most_five, most_keller);
}

/* Where all matrices are square Muon's products are of all at once; wide ones, and tall, by themselves. */
static void test_sides(void **state)
{
    static const int64_t dims[][3] = {{6, 6, 6}, {9, 4, 5}, {3, 7, 5}};

    (void)state;
    for (size_t n = 0; n < COUNT(dims) && !test_is_reference(); n++) {
        clattn_plan_desc desc = sized(
            (clattn_plan_desc){.flags = CLATTN_FINAL_STATE | CLATTN_NONCAUSAL, .batch = 2, .muon = CLATTN_MUON_FIVE},
            40);
        struct check_tensors tensors, expected;
        desc.key_dim = dims[n][0], desc.value_dim = dims[n][1], desc.hidden_dim = dims[n][2];
        tensors = made(&desc);
        assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
        test_run(&tensors);
        test_compare_all(&tensors, &expected, bound(), "square, wide and tall");
        check_free(&tensors), check_free(&expected);
    }
}

/* ---- Refusals -----------------------------------------------------------------------------------------------------
 */

static void test_refused(void **state)
{
    static const struct {
        clattn_plan_desc desc;
        const char *said;
    } bad[] = {
        {{.flags = CLATTN_CU_SEQLENS, .sequences = 2},
         "lact takes no option varlen: a sequence is a row of the batch, and not cut by cu_seqlens"},
        {{.flags = CLATTN_INITIAL_STATE}, "lact from w0, w1 and w2"},
        {{.flags = CLATTN_QK_L2NORM}, "lact takes no option qk_l2norm"},
        {{.qk_heads = 1}, "qk_heads is 1, kv_heads 2, expected heads 2"},
        {{.scale = 2}, "lact takes no option scale"},
        {{.mini_batch = -1}, "mini_batch is -1, expected 1 to "},
        {{.muon = (clattn_muon)3}, "muon is 3, expected 0 to 2"},
        {{.flags = CLATTN_WITH_BIAS}, "lact takes no option with_bias"},
        {{.state_window = 1}, "lact takes no option state_window"},
    };
    clattn_plan_desc full, desc;

    (void)state;
    for (size_t n = 0; n < COUNT(bad); n++) {
        desc = sized(bad[n].desc, T);
        test_log_clear();
        assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), INVALID_DESC);
        assert_logged(bad[n].said);
    }
    desc = sized((clattn_plan_desc){.dtype = CLATTN_F32}, T);
    desc.hidden_dim = 1025;
    test_log_clear();
    assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), INVALID_DESC);
    assert_logged("hidden_dim is 1025, expected 1 to 1024");
    desc.hidden_dim = 0;
    assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), SUCCESS);
    assert_true(full.hidden_dim == K && full.mini_batch == 2048);
    desc.rule = CLATTN_GLA;
    desc.mini_batch = 2;
    assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), INVALID_DESC);
    assert_logged("gla takes no option mini_batch");
}

/* No tokens: nothing is read, and the weights stay. Fewer than the plan's: as alone. */
static void test_short_calls(void **state)
{
    const clattn_plan_desc desc = sized((clattn_plan_desc){.flags = CLATTN_FINAL_STATE, .mini_batch = 2}, T);
    clattn_plan *plan;

    (void)state;
    if (test_is_reference())
        return;
    assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
    for (int tokens = 1; tokens < T; tokens++) {
        const clattn_plan_desc fewer = sized(desc, tokens);
        struct check_tensors tensors = made(&fewer), expected;
        assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
        assert_status(check_run_plan(&tensors, &test_device, plan, test_log, NULL), SUCCESS);
        test_compare_all(&tensors, &expected, bound(), "a short call");
        check_free(&tensors), check_free(&expected);
    }
    clattn_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families), cmocka_unit_test(test_reach),     cmocka_unit_test(test_still),
        cmocka_unit_test(test_cut),      cmocka_unit_test(test_noncausal), cmocka_unit_test(test_singular_values),
        cmocka_unit_test(test_sides),    cmocka_unit_test(test_refused),   cmocka_unit_test(test_short_calls),
    };

    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
