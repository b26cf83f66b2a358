/* ttt_linear, ttt_mlp, titans and titans_mlp: against numbers of a program of another language, as rules that they are
 * in special cases, and by what must hold where a call is cut. */
#include "harness.h"

#include <math.h>
#include <stdio.h>

enum { T = 7, H = 2, K = 4, F = 5 };

/* clang-format off */
static const double ttt_linear_o[] = {
    0.4177189503, -0.3614789458, 1.741993555, -1.45704113, -0.3755748286, -0.5727882412, 0.8203231106, 1.725274049,
    -0.4304269159, -0.1821260426, 1.258039501, -2.007234128, 0.9975533124, 2.012641414, 0.1457345461, 0.2209876825,
    -0.8447919185, -0.9982917947, -1.673281702, 2.02133578, 0.9533981577, 1.151454478, -0.1523306167, -0.291181372,
    0.9533362587, 0.4515343221, -1.048512283, -0.5257841304, 0.3985550714, 0.2827246204, -0.5253095749, 0.2626969023,
    -0.1874000573, 0.03879779337, 1.910300793, -0.519230893, -0.08557042336, -0.3633275585, -0.8239811727,
    2.045258186, -0.2059379582, -0.1040008994, 1.592163669, -1.531833676, -0.8442250087, 2.355182731, 0.4069014113,
    0.7390474839, -1.158535311, 0.5013039839, 0.7960889987, -2.06545347, 1.255407614, 1.617412797, 0.2311059976,
    -0.5902755656};
static const double ttt_theta_o[] = {
    2.206578929, 0.2668685468, 1.693731894, -1.992959038, 0.1260363066, -0.6136115323, -1.335337249, 2.214987007,
    1.669604669, 1.10062814, 1.742723038, -2.209342375, -0.785990935, 0.7771259383, -0.9944737302, 2.690577316,
    1.614569834, 0.3288337659, -2.019128411, 1.137918303, -0.4875877828, 0.2810288699, -1.16918926, 2.719213776,
    3.058626059, 2.400332947, -0.8670920862, -0.8608104499, -0.9828005536, -0.3425368966, -0.9492214459, 3.322034169,
    2.043026298, -0.4824531608, 1.986054257, -1.607236405, -0.08627339648, -0.2011604853, -0.7369650813, 3.302906871,
    2.095083248, 0.6533270532, 1.617049496, -2.122142784, -1.960712562, 0.7608228788, -0.4969056837, 3.407674491,
    -0.3913990242, 1.073736281, 2.750097848, -1.522743064, 0.2266275805, 0.7080300774, -1.40977652, 1.821389634};
static const double ttt_mlp_o[] = {
    -0.129617166, -0.6551814422, -0.1490595014, 0.7738052779, -0.3459431672, 0.2812347689, 1.23350954, -1.170230352,
    -0.8323510087, -1.167623058, 0.01409141366, 0.0919810959, 1.505536081, 1.562679257, 0.5136194608, -0.6809382249,
    -0.115967093, -2.39873818, 0.09888311781, 1.059746291, 0.9996580134, 0.7499819629, -0.04399972894, 0.1665459248,
    0.7618708188, -2.040610315, 1.930981543, -1.073908996, 0.5591445641, 0.3329604724, -0.4833184884, -0.2195027678,
    -0.1926777936, -0.4653114805, 1.090252805, 0.5771556518, 0.1693035523, -0.08207678394, -0.8897421397, 1.218561184,
    -0.2779628471, -1.052595107, 0.2029955252, 0.4404182426, -0.1586697926, 1.551543739, 0.7764170382, 0.2611206245,
    -1.644545102, -0.5581595821, 0.1119555436, -0.336703661, 1.373834923, 1.074410272, 0.306545047, 0.1243036035};
static const double titans_o[] = {
    -0.253853473, -0.473832351, 0.4537934802, -0.0998524634, 0.7058874852, -0.8321541611, -0.8064108173,
    -0.7806674735, -0.3201636749, -0.0855751829, 0.292631436, -0.1261136694, 0.2804923849, 0.5555885563,
    0.04754416589, -0.4605002245, -0.8550862824, -0.7696671675, -0.2624589297, 0.6742006637, -0.1355687686,
    0.02139100124, -0.04582090656, -0.07133066443, 0.8566048044, 0.976095695, 0.2453451828, 0.4175105859,
    -0.5217735474, -0.5296580095, -0.1541373957, 0.3294391789, -0.2187214699, -0.6308546432, 0.1527841136,
    -0.0263264538, -0.1916426648, 0.564332002, 0.5662900649, 0.54866005, -0.2623358457, -0.3295350714, 0.1119588985,
    -0.06286023425, -0.008084834774, 0.6276081814, 0.3982709933, 0.1069386453, -0.3062397131, -0.0429741099,
    0.03535423853, -0.07505714322, 0.494457333, 0.183630843, -0.1089847929, -0.4112349313};
static const double moving_o[] = {
    -0.1702353931, -0.3625524767, 0.2720217674, -0.08168826996, 0.5997030074, -0.6611902325, -0.5978373793,
    -0.5852818596, -0.2252221303, -0.07144552808, 0.03611211676, -0.001159183769, 0.3380484143, 0.2884823724,
    -0.04171599963, -0.3800349717, -0.1873278936, -0.3274072643, 0.4407152358, -0.0200930783, 0.003693878119,
    -0.04231077475, -0.1153946067, -0.07860081074, 0.1998891454, 0.1226904406, 0.3712060242, -0.09480304642,
    -0.1959283498, -0.1368732697, -0.1396479682, 0.08795567413, -0.05613486445, -0.08509743566, -0.259526818,
    0.0194347887, -0.9320884244, 0.9040786129, 0.5910176656, 0.2773452731, -0.05820306772, -0.0908956361,
    -0.2681183737, -0.03923753313, 0.6373480745, -0.04245064714, 0.01579098016, -0.01612462203, -0.0667841927,
    -0.1222746397, -0.2549659087, 0.01713565668, 0.3784968795, -0.2939883933, -0.2126826677, -0.1826482743};
static const double omega_o[] = {
    -0.1776254699, -0.3206911084, 0.3908522445, -0.180982263, 0.6020778446, -0.6640554296, -0.5990557496,
    -0.584853403, -0.2381181833, 0.01205709969, 0.2907076447, -0.2075036799, 0.4177639466, 0.1893316121,
    -0.07212008344, -0.341692379, -0.2236382847, -0.3722506381, 0.4067903902, 0.07590439899, 0.04176362169,
    -0.08837499112, -0.1192422423, -0.06873743534, 0.2398448118, 0.1909597329, 0.2474867807, 0.0664042432,
    -0.2268595201, -0.1423257047, -0.1898815468, 0.08675704987, -0.03107996314, -0.03961616811, -0.2786423085,
    -0.1095364079, -0.3052584054, 0.2429817646, 0.4251534898, 0.4675333967, -0.09141192275, -0.07541094585,
    -0.2710870661, -0.2186695463, 0.3877921207, 0.3257390742, 0.3102868076, -0.06388424209, -0.1549148843,
    -0.1619378385, -0.2261769767, -0.07291665161, 0.2658746465, -0.0679746646, -0.156914306, -0.2791146479};
static const double titans_mlp_o[] = {
    -0.2598462004, -0.5207604282, 0.01963800626, 0.4853825386, 0.4208286997, 0.2594868688, 0.1005512062,
    -0.7810337295, -0.5661567788, -0.6753788279, -0.1084412428, 0.3509609007, 0.5261810644, 1.718925274, 1.572307961,
    -1.206662032, -0.4544363384, -0.3088044154, 0.04162471976, 0.02099467539, 0.4786689516, 0.889214332, 1.053554285,
    -0.7144128769, -0.4009767007, -0.1316151594, 0.05302612729, -0.1189600773, -0.01874546896, 0.6053324794,
    0.6183548376, -0.251049051, -0.1947750515, -0.1041281451, -0.09934922626, -0.2799521434, -0.2685284443,
    0.5318900941, 0.3945533723, 0.2126281687, -0.08259296595, -0.1704640977, -0.3614512486, -0.3335081796,
    -0.2898088561, 0.3233310241, 0.06399370485, 0.3339055884, -0.03037881937, -0.09682615028, -0.3226181041,
    -0.2159868887, -0.1665499216, 0.04973503329, -0.2020002429, -0.05129064071};
/* clang-format on */

static const struct family {
    const char *name;
    const double *o;
    clattn_plan_desc desc;
} families[] = {
    {"ttt_linear", ttt_linear_o, {.rule = CLATTN_TTT_LINEAR, .mini_batch = 3}},
    {"theta, a short batch, readout z",
     ttt_theta_o,
     {.rule = CLATTN_TTT_LINEAR, .readout = CLATTN_READOUT_Z, .scale = 0.5, .flags = CLATTN_WITH_THETA}},
    {"ttt_mlp", ttt_mlp_o, {.rule = CLATTN_TTT_MLP, .mini_batch = 3}},
    {"titans", titans_o, {.rule = CLATTN_TITANS, .mini_batch = 2, .flags = CLATTN_INITIAL_STATE}},
    {"alpha momentum",
     moving_o,
     {.rule = CLATTN_TITANS,
      .mini_batch = 3,
      .flags = CLATTN_INITIAL_STATE | CLATTN_WITH_ALPHA | CLATTN_WITH_MOMENTUM}},
    {"omega past the batch",
     omega_o,
     {.rule = CLATTN_TITANS,
      .mini_batch = 2,
      .omega = 4,
      .flags = CLATTN_INITIAL_STATE | CLATTN_WITH_ALPHA | CLATTN_WITH_MOMENTUM | CLATTN_WITH_GAMMA}},
    {"titans_mlp",
     titans_mlp_o,
     {.rule = CLATTN_TITANS_MLP, .mini_batch = 3, .flags = CLATTN_WITH_ALPHA | CLATTN_WITH_MOMENTUM}},
};

/* What the numbers of an operand lie between, and what its formula has in the place of a name. */
static const struct {
    clattn_operand_id id;
    int key;
    double low, high;
} inputs[] = {{CLATTN_Q, 1, -1, 1},
              {CLATTN_K, 2, -1, 1},
              {CLATTN_V, 3, -1, 1},
              {CLATTN_STATE_IN, 4, -1, 1},
              {CLATTN_INITIAL_BIAS, 5, -1, 1},
              {CLATTN_W1, 6, -1, 1},
              {CLATTN_B1, 7, -1, 1},
              {CLATTN_W2, 8, -1, 1},
              {CLATTN_B2, 9, -1, 1},
              {CLATTN_THETA, 10, 0, 0.3},
              {CLATTN_ETA, 11, 0, 0.3},
              {CLATTN_ALPHA, 12, 0, 0.5},
              {CLATTN_MOMENTUM, 13, 0, 1},
              {CLATTN_GAMMA, 14, 0, 1},
              {CLATTN_LN_WEIGHT, 15, 0.5, 1.5},
              {CLATTN_LN_BIAS, 16, -1, 1},
              {CLATTN_INITIAL_MOMENTUM, 17, -0.3, 0.3}};

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
    desc.seq_len = tokens;
    desc.heads = H;
    desc.key_dim = desc.value_dim = K;
    desc.hidden_dim = rule_get(desc.rule)->model == MODEL_MLP ? F : 0;
    return desc;
}

static double bound(void)
{
    return test_is_reference() ? 1e-6 : check_bound(CLATTN_F32);
}

static struct check_tensors made(const clattn_plan_desc *desc)
{
    struct check_tensors tensors;

    test_make(&tensors, desc, CHECK_GATES_USUAL, NULL);
    fill(&tensors);
    return tensors;
}

static void test_families(void **state)
{
    (void)state;
    for (size_t n = 0; n < COUNT(families); n++) {
        const clattn_plan_desc desc = sized(families[n].desc, T);
        struct check_tensors tensors = made(&desc), expected = made(&desc);
        for (int i = 0; i < T * H * K; i++)
            test_set(&expected, OP(O), i, families[n].o[i]);
        test_run(&tensors);
        test_compare(&tensors.tensor[OP(O)], &expected.tensor[OP(O)], bound(), families[n].name);
        check_free(&tensors), check_free(&expected);
    }
}

/* ---- Rules that titans is -----------------------------------------------------------------------------------------
 */

/* A batch of one token, without momentum, and the rule that it is: theta is the write's strength, 1 - alpha the decay */
static const struct {
    clattn_plan_desc titans, rule;
} alike[] = {
    {{.loss = CLATTN_LOSS_DOT}, {.rule = CLATTN_SSD}},
    {{.loss = CLATTN_LOSS_DOT, .flags = CLATTN_WITH_ALPHA}, {.rule = CLATTN_SSD}},
    {{.loss = CLATTN_LOSS_DOT, .flags = CLATTN_WITH_ALPHA}, {.rule = CLATTN_RETENTION}},
    {{.loss = CLATTN_LOSS_DOT}, {.rule = CLATTN_LINEAR_ATTN}},
    {{.loss = CLATTN_LOSS_L2}, {.rule = CLATTN_DELTA_RULE}},
    {{.loss = CLATTN_LOSS_L2, .flags = CLATTN_WITH_ALPHA}, {.rule = CLATTN_COMBA}},
};

/* The numbers of titans as the rule has them; those of a rule that fixes them as titans has them */
static void translate(struct check_tensors *titans, struct check_tensors *rule)
{
    static const clattn_operand_id same[] = {CLATTN_Q, CLATTN_K, CLATTN_V, CLATTN_STATE_IN};
    const int retention = rule->desc.rule == CLATTN_RETENTION;

    for (size_t n = 0; n < COUNT(same); n++)
        test_copy(rule, same[n], titans, same[n]);
    if (rule->tensor[OP(P)].data != NULL)
        test_copy(rule, OP(P), titans, OP(K));
    for (int64_t i = 0; i < T * H; i++) {
        int decays = titans->tensor[OP(ALPHA)].data != NULL;
        if (rule->tensor[OP(BETA)].data != NULL)
            test_set(rule, OP(BETA), i, test_get(titans, OP(THETA), i));
        else
            test_set(titans, OP(THETA), i, 1);
        if (retention)
            test_set(titans, OP(ALPHA), i, exp2(-5 - (double)(i % H)));
        if (rule->tensor[OP(G)].data != NULL)
            test_set(rule, OP(G), i, decays ? log1p(-test_get(titans, OP(ALPHA), i)) : 0);
    }
}

static void test_alike(void **state)
{
    (void)state;
    for (size_t n = 0; n < COUNT(alike); n++) {
        clattn_plan_desc of_titans = alike[n].titans, of_rule = alike[n].rule;
        struct check_tensors titans, rule;
        of_titans.rule = CLATTN_TITANS;
        of_titans.mini_batch = 1;
        of_titans.flags |= CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE;
        of_rule.flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE;
        of_rule.scale = 1;
        of_titans = sized(of_titans, T), of_rule = sized(of_rule, T);
        titans = made(&of_titans), rule = made(&of_rule);
        translate(&titans, &rule);
        test_run(&titans), test_run(&rule);
        test_compare(&titans.tensor[OP(O)], &rule.tensor[OP(O)], bound(), rule_get(of_rule.rule)->name);
        test_compare(&titans.tensor[OP(STATE_OUT)], &rule.tensor[OP(STATE_OUT)], bound(), "the state");
        check_free(&titans), check_free(&rule);
    }
}

/* ttt_linear learns its bias, too: by batches of one token, with loss l2, it is the delta rule of keys and queries with a 1
 * behind, whose state has the bias as its last row. */
static void test_biased(void **state)
{
    enum { WIDE = K + 1 };
    static const clattn_operand_id rows[][2] = {{OP(Q), OP(Q)}, {OP(K), OP(K)}};
    clattn_plan_desc desc = {.rule = CLATTN_TTT_LINEAR,
                             .flags = CLATTN_WITH_THETA | CLATTN_FINAL_STATE,
                             .mini_batch = 1,
                             .loss = CLATTN_LOSS_L2,
                             .readout = CLATTN_READOUT_NONE};
    clattn_plan_desc of_rule = {
        .rule = CLATTN_DELTA_RULE, .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE, .scale = 1};
    struct check_tensors ttt, rule;

    (void)state;
    desc = sized(desc, T), of_rule = sized(of_rule, T);
    of_rule.key_dim = WIDE;
    ttt = made(&desc), rule = made(&of_rule);
    for (size_t n = 0; n < COUNT(rows); n++)
        for (int64_t i = 0; i < T * H * WIDE; i++)
            test_set(&rule, rows[n][0], i, i % WIDE < K ? test_get(&ttt, rows[n][1], i / WIDE * K + i % WIDE) : 1);
    test_copy(&rule, OP(V), &ttt, OP(V));
    for (int64_t i = 0; i < T * H; i++)
        test_set(&rule, OP(BETA), i, test_get(&ttt, OP(THETA), i) * test_get(&ttt, OP(ETA), i));
    for (int64_t i = 0; i < H * WIDE * K; i++) {
        int64_t head = i / K / WIDE, row = i / K % WIDE, column = i % K;
        test_set(&rule, OP(STATE_IN), i,
                 row < K ? test_get(&ttt, OP(STATE_IN), (head * K + row) * K + column)
                         : test_get(&ttt, OP(INITIAL_BIAS), head * K + column));
    }
    test_run(&ttt), test_run(&rule);
    test_compare(&ttt.tensor[OP(O)], &rule.tensor[OP(O)], bound(), "the delta rule of keys with a 1");
    for (int64_t i = 0; i < H * WIDE * K; i++) {
        int64_t head = i / K / WIDE, row = i / K % WIDE, column = i % K;
        test_set(&rule, OP(STATE_IN), i,
                 row < K ? test_get(&ttt, OP(STATE_OUT), (head * K + row) * K + column)
                         : test_get(&ttt, OP(FINAL_BIAS), head * K + column));
    }
    test_compare(&rule.tensor[OP(STATE_IN)], &rule.tensor[OP(STATE_OUT)], bound(), "its state");
    check_free(&ttt), check_free(&rule);
}

/* ---- Slopes -------------------------------------------------------------------------------------------------------
 */

/* The operands from which a call goes on, and those that one before it wrote */
static const clattn_operand_id states[][2] = {{CLATTN_STATE_IN, CLATTN_STATE_OUT},
                                              {CLATTN_INITIAL_BIAS, CLATTN_FINAL_BIAS},
                                              {CLATTN_W1, CLATTN_FINAL_W1},
                                              {CLATTN_B1, CLATTN_FINAL_B1},
                                              {CLATTN_W2, CLATTN_FINAL_W2},
                                              {CLATTN_B2, CLATTN_FINAL_B2},
                                              {CLATTN_INITIAL_MOMENTUM, CLATTN_FINAL_MOMENTUM}};
static const clattn_operand_id rates[] = {CLATTN_THETA, CLATTN_ETA};

/* The reference's outputs, whatever the device. */
static clattn_status run_alone(struct check_tensors *tensors)
{
    struct check_tensors outputs;
    clattn_status status = check_reference(&outputs, tensors, test_log, NULL);

    for (int id = 1; id < OPERAND_COUNT && status == CLATTN_SUCCESS; id++)
        if (tensors->tensor[id].data != NULL && tensors->tensor[id].info.output)
            test_copy(tensors, (clattn_operand_id)id, &outputs, (clattn_operand_id)id);
    check_free(&outputs);
    return status;
}

/* The loss of the token whose key is read with the weights of `tensors`, which it does not change: z is the output of a
 * step of rate 0. */
static double loss_of(struct check_tensors *tensors, int head)
{
    const clattn_loss loss = tensors->desc.loss;
    double z[K], mean = 0, square = 0, sum = 0;

    assert_status(run_alone(tensors), SUCCESS);
    for (int c = 0; c < K; c++) {
        z[c] = test_get(tensors, OP(O), head * K + c);
        mean += z[c] / K;
    }
    for (int c = 0; c < K; c++)
        square += (z[c] - mean) * (z[c] - mean) / K;
    for (int c = 0; c < K; c++) {
        const double k = test_get(tensors, OP(K), head * K + c), v = test_get(tensors, OP(V), head * K + c);
        const double normal = (z[c] - mean) / sqrt(square + 1e-6);
        if (loss == CLATTN_LOSS_DOT)
            sum -= z[c] * v;
        else if (loss == CLATTN_LOSS_L2)
            sum += (z[c] - v) * (z[c] - v) / 2;
        else
            sum += pow(test_get(tensors, OP(LN_WEIGHT), head * K + c) * normal +
                           test_get(tensors, OP(LN_BIAS), head * K + c) - (v - k),
                       2) /
                   2;
    }
    return sum;
}

/* What a step of rate 1 takes from each weight is the slope of the loss, by central differences. */
static void check_slopes(clattn_rule of, clattn_loss loss)
{
    const double step = 1e-2;
    clattn_plan_desc desc = {.rule = of, .loss = loss, .readout = CLATTN_READOUT_NONE, .flags = CLATTN_FINAL_STATE};
    struct check_tensors moved, still;
    char what[96];

    if (rule_get(of)->rates == RATES_THETA)
        desc.flags |= CLATTN_INITIAL_STATE;
    desc = sized(desc, 1);
    moved = made(&desc), still = made(&desc);
    test_copy(&moved, OP(Q), &moved, OP(K));
    test_copy(&still, OP(Q), &moved, OP(K));
    for (size_t n = 0; n < COUNT(rates); n++)
        if (moved.tensor[rates[n]].data != NULL) {
            test_set_all(&moved, rates[n], 1);
            test_set_all(&still, rates[n], 0);
        }
    assert_status(run_alone(&moved), SUCCESS);
    snprintf(what, sizeof what, "%s, loss %d: slopes", test_rule_name(of), (int)loss);
    for (size_t n = 0; n < COUNT(states); n++) {
        const clattn_operand_id in = states[n][0], out = states[n][1];
        const int64_t count = moved.tensor[in].data != NULL ? check_count(&moved.tensor[in].info) : 0;
        for (int64_t i = 0; i < count; i++) {
            const double x = test_get(&still, in, i), taken = x - test_get(&moved, out, i);
            double above, below;
            test_set(&still, in, i, x + step);
            above = loss_of(&still, (int)(i / (count / H)));
            test_set(&still, in, i, x - step);
            below = loss_of(&still, (int)(i / (count / H)));
            test_set(&still, in, i, x);
            if (fabs(taken - (above - below) / (2 * step)) > 2e-3 * (1 + fabs(taken)))
                fail_msg("%s: number %d of %s: %g, by differences %g", what, (int)i, operand_name(in), taken,
                         (above - below) / (2 * step));
        }
    }
    check_free(&moved), check_free(&still);
}

static void test_slopes(void **state)
{
    static const clattn_rule rules[] = {CLATTN_TTT_LINEAR, CLATTN_TTT_MLP, CLATTN_TITANS, CLATTN_TITANS_MLP};

    (void)state;
    for (size_t n = 0; n < COUNT(rules); n++)
        for (int loss = CLATTN_LOSS_LN; loss <= CLATTN_LOSS_DOT; loss++)
            check_slopes(rules[n], (clattn_loss)loss);
}

/* ---- Batches ------------------------------------------------------------------------------------------------------
 */

#define MOVING CLATTN_WITH_ALPHA | CLATTN_WITH_MOMENTUM
static const clattn_plan_desc every[] = {
    {.rule = CLATTN_TTT_LINEAR, .mini_batch = 1},
    {.rule = CLATTN_TTT_LINEAR, .mini_batch = 40},
    {.rule = CLATTN_TTT_MLP},
    {.rule = CLATTN_TITANS, .flags = MOVING | CLATTN_INITIAL_STATE},
    {.rule = CLATTN_TITANS, .flags = CLATTN_WITH_ETA, .mini_batch = 21, .loss = CLATTN_LOSS_L2},
    {.rule = CLATTN_TITANS, .omega = 30, .mini_batch = 20, .flags = CLATTN_WITH_GAMMA | CLATTN_INITIAL_STATE},
    {.rule = CLATTN_TITANS_MLP, .omega = 3, .flags = MOVING},
    {.rule = CLATTN_TITANS, .muon = CLATTN_MUON_KELLER, .flags = MOVING | CLATTN_INITIAL_STATE},
    {.rule = CLATTN_TITANS_MLP, .muon = CLATTN_MUON_KELLER, .flags = CLATTN_WITH_ALPHA},
};

/* Against the reference over several batches, the last of them short; shares are also exactly 0 and 1. */
static void test_batches(void **state)
{
    enum { LONG = 53 };

    (void)state;
    for (size_t n = 0; n < COUNT(every) && !test_is_reference(); n++) {
        clattn_plan_desc desc = sized(every[n], LONG);
        struct check_tensors tensors, expected;
        desc.batch = 2;
        desc.flags |= CLATTN_FINAL_STATE;
        test_make(&tensors, &desc, CHECK_GATES_HARD, NULL);
        assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
        test_run(&tensors);
        test_compare_all(&tensors, &expected, desc.muon != CLATTN_MUON_NONE ? 1e-3 : bound(), "several batches");
        check_free(&tensors), check_free(&expected);
    }
}

static const clattn_operand_id of_tokens[] = {CLATTN_Q,   CLATTN_K,     CLATTN_V,        CLATTN_THETA,
                                              CLATTN_ETA, CLATTN_ALPHA, CLATTN_MOMENTUM, CLATTN_GAMMA};

static void copy_part(struct check_tensors *to, const struct check_tensors *from, int64_t first, int64_t count)
{
    for (size_t n = 0; n < COUNT(of_tokens); n++)
        if (to->tensor[of_tokens[n]].data != NULL)
            test_copy_tokens(to, 0, from, first, count, of_tokens[n]);
}

/* Cut where a batch ends, the weights and their steps carried over: the same as the whole. */
static void test_cut(void **state)
{
    static const clattn_plan_desc descs[] = {{.rule = CLATTN_TTT_LINEAR},
                                             {.rule = CLATTN_TTT_MLP},
                                             {.rule = CLATTN_TITANS, .flags = MOVING},
                                             {.rule = CLATTN_TITANS_MLP, .flags = MOVING}};
    enum { CUT = 4 };

    (void)state;
    for (size_t d = 0; d < COUNT(descs); d++) {
        clattn_plan_desc desc = sized(descs[d], T), before, after;
        struct check_tensors whole, first, rest, expected;
        desc.flags |= CLATTN_FINAL_STATE;
        if (rule_get(desc.rule)->rates == RATES_THETA)
            desc.flags |= CLATTN_INITIAL_STATE;
        desc.mini_batch = 2;
        before = sized(desc, CUT), after = sized(desc, T - CUT);
        whole = made(&desc), first = made(&before), rest = made(&after), expected = made(&after);
        test_run(&whole);
        copy_part(&first, &whole, 0, CUT), copy_part(&rest, &whole, CUT, T - CUT);
        test_run(&first);
        for (size_t n = 0; n < COUNT(states); n++)
            if (rest.tensor[states[n][0]].data != NULL)
                test_copy(&rest, states[n][0], &first, states[n][1]);
        test_run(&rest);
        test_copy_tokens(&expected, 0, &whole, CUT, T - CUT, OP(O));
        test_compare(&rest.tensor[OP(O)], &expected.tensor[OP(O)], bound(), "the tokens after the cut");
        for (size_t n = 0; n < COUNT(states); n++)
            if (rest.tensor[states[n][1]].data != NULL)
                test_compare(&rest.tensor[states[n][1]], &whole.tensor[states[n][1]], bound(), "what is learned");
        check_free(&whole), check_free(&first), check_free(&rest), check_free(&expected);
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
        {{.rule = CLATTN_TTT_LINEAR, .flags = CLATTN_CU_SEQLENS, .sequences = 2}, "ttt_linear takes no option varlen"},
        {{.rule = CLATTN_TTT_LINEAR, .flags = CLATTN_INITIAL_STATE}, "ttt_linear and ttt_mlp from their weights"},
        {{.rule = CLATTN_TTT_LINEAR, .flags = CLATTN_WITH_MOMENTUM}, "ttt_linear takes no option with_momentum"},
        {{.rule = CLATTN_TTT_LINEAR, .omega = 2}, "ttt_linear takes no option omega"},
        {{.rule = CLATTN_TITANS, .loss = (clattn_loss)4}, "loss is 4, expected 0 to 3"},
        {{.rule = CLATTN_TITANS, .omega = -1}, "omega is -1, expected 1 to 4096"},
        {{.rule = CLATTN_TITANS, .flags = CLATTN_WITH_ETA | CLATTN_WITH_ALPHA}, "titans: with_eta with with_alpha"},
        {{.rule = CLATTN_TITANS, .flags = CLATTN_WITH_ETA | CLATTN_WITH_GAMMA}, "titans: with_eta with with_gamma"},
        {{.rule = CLATTN_TITANS, .flags = CLATTN_WITH_ETA, .omega = 2}, "titans: with_eta with omega"},
        {{.rule = CLATTN_TITANS, .flags = CLATTN_WITH_ETA, .muon = CLATTN_MUON_FIVE}, "titans: with_eta with muon"},
        {{.rule = CLATTN_TITANS, .hidden_dim = 4}, "titans takes no option hidden_dim"},
        {{.rule = CLATTN_TITANS, .qk_heads = 1}, "qk_heads is 1, kv_heads 2, expected heads 2"},
        {{.rule = CLATTN_GLA, .loss = CLATTN_LOSS_L2}, "gla takes no option loss"},
    };
    clattn_plan_desc full, desc;

    (void)state;
    for (size_t n = 0; n < COUNT(bad); n++) {
        desc = sized(bad[n].desc, T);
        if (bad[n].desc.hidden_dim != 0)
            desc.hidden_dim = bad[n].desc.hidden_dim;
        test_log_clear();
        assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), INVALID_DESC);
        assert_logged(bad[n].said);
    }
    desc = sized((clattn_plan_desc){.rule = CLATTN_TTT_MLP}, T);
    desc.hidden_dim = 0;
    assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), SUCCESS);
    assert_true(full.hidden_dim == 4 * K && full.mini_batch == 16 && full.omega == 1);
    assert_true(full.loss == CLATTN_LOSS_LN && full.readout == CLATTN_READOUT_Q && full.scale == 1);
    desc.value_dim = K + 1;
    test_log_clear();
    assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), INVALID_DESC);
    assert_logged("ttt_mlp: value_dim is 5, expected key_dim 4 with loss ln");
}

/* No tokens: the weights stay. Fewer than the plan's: as alone. */
static void test_short_calls(void **state)
{
    clattn_plan_desc desc = sized((clattn_plan_desc){.rule = CLATTN_TITANS, .omega = 2, .mini_batch = 3}, T);
    clattn_plan *plan;

    (void)state;
    desc.flags |= CLATTN_FINAL_STATE | CLATTN_INITIAL_STATE;
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_families), cmocka_unit_test(test_alike),
                                       cmocka_unit_test(test_biased),   cmocka_unit_test(test_slopes),
                                       cmocka_unit_test(test_batches),  cmocka_unit_test(test_cut),
                                       cmocka_unit_test(test_refused),  cmocka_unit_test(test_short_calls)};

    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
