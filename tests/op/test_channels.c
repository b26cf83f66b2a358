/* test_channels: rules whose state's elements have a decay each. Their numbers against those that a program of another
 * language came to in double precision, from the rules' definitions and without a look at clattn; sequences around the
 * ends of stretches; a complex decay as a real one in a turning frame, and constant steps as a convolution. Stretches
 * are of devices whose work-items share a tile: the test is run with the limits of one. */
#include "harness.h"

#include "plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
static const double hgrn_o[] = {
    -0.230921700596809, -0.534192264080048, -0.837462842464447, 0.859266579151154, 0.555996060371399,
    0.252725481987, -0.0505450926721096, -0.353815644979477, -0.838944651725383, -1.32185972292451,
    0.249376624112522, 0.862473775738269, 0.368570248451676, -0.0801897039371543, -0.520272414775432,
    -1.04201533936404, 0.382847332746254, -0.109389550086818, 0.427393959285469, 0.355203461454995,
    0.0513035536236043, -0.664597017739952, -1.26522325661528, 0.170240821669505, 0.687470053155392,
    0.138973885422853, 0.0463394319809367, -0.104164756791405, -0.683394333539864, 0.538951860802471,
    -0.0411094723360015, 0.450022142098175, 0.350114171397795, -0.103947659810328, -0.503467888143547,
    -0.920053422431269, 0.430421752393528, 0.833313598036111, 0.226100450227213, 0.117397603872245,
    -0.0421412125038807, -0.746553161213809, -1.30764832351792, 0.195537207836772, 0.639402320992384,
    0.478303063465477, 0.044508782198143, -0.383858222894644, -0.818995009150833, 0.435596125108501,
    -0.106717366467731, 0.393801821032535, 0.256177309860832, 0.145090325041821, -0.571600745262253,
    -1.17708711322368};
static const double lru_o[] = {
    -0.230921700596809, -0.534192264080048, -0.837462842464447, 0.859266579151154, 0.555996060371399,
    0.252725481987, -0.0505450926721096, -0.353815644979477, -0.120235745103546, -0.777421560965235,
    0.239964723316196, -0.440535039297669, 0.0197130373649555, 0.252038815055744, -0.31807197354842,
    -0.933860263565203, 1.55676434180787, 1.03554123877165, 0.608775000836133, 0.302479690989486,
    -0.472537816484966, -0.554342891359671, -0.551281618583597, 0.295320537105905, -1.27610256288604,
    0.63349498025074, -0.500933658223482, 0.000139307770693209, -0.388224120479466, 0.570469341508697,
    0.322855748545021, 0.199227079165818, 0.442320525527617, -1.57488515935895, -0.425683232243417,
    -1.24841118990252, 0.398780529582537, 0.343700484410307, 0.2624677606309, 0.175454102376758,
    0.485823101931204, 0.685217451100233, 0.135068586746288, 0.676455240547233, 0.231052996625748,
    0.447235566350544, -0.173751365711912, -0.289561728156352, -1.60065245721312, 0.811072734585874,
    0.0299347046839071, 0.253550914912005, -0.289321327225706, -0.0849661538186828, -0.525818681636923,
    -1.1029680252455};
static const double mamba_o[] = {
    -0.127128523657989, 0.114788844359835, -0.384584976112487, -0.0213959592236476, -0.265221215080749,
    -0.100754767204302, 0.00943283535327331, -0.0494328128665142, 1.63989040278053, 0.65778580328655,
    -0.00975215810091732, 0.89788599204423, 0.444101331896944, 0.938462402641259, 1.88342538332093,
    1.24893396674908, -0.0542655352041678, 0.224273851176651, 0.0503873565754037, -0.0728474967354153,
    1.71256610456764, 0.564431757205827, 0.35908110383221, 0.0757939880155841, 0.210218634844735,
    0.566917626686247, 0.0466995938824349, 0.768451416117993, -1.16312429903597, 0.299422099793391,
    -0.255830227667947, 0.11283693979299, -0.0881052896579718, 4.38832977915125, -0.543309531579222,
    -0.870811844952146, -0.0297021191821563, -0.130973272924913, 0.474846546677695, -0.00731036084713429,
    -0.349400429529903, -0.0908046996017816, -0.14530941019899, -0.503372034983598, -0.145412563321514,
    0.11080872836529, -0.429233223758147, -0.0250694123237416, 1.43268653354934, -0.0583956785669368,
    0.32507709730704, 1.51966514222195, 0.0999302461740587, 2.77337112270907, 2.54320556073992,
    0.828645108321822};
static const double complex_o[] = {
    0.0889269354957982, 0.150399789591461, 0.149065667279812, -0.0639700856150784, -0.363500632443069,
    -0.13905797720583, 0.0225776771780261, 0.121406325474379, -0.0243120303948329, 0.0208379280238766,
    0.549378621032426, 0.423505735877286, -0.1800868616244, -0.962939764597413, -0.365276378738327,
    0.133077519767232, 0.670583787268451, 4.31667451165035, 1.56474839051889, 0.296931922736201,
    -1.18489713662186, -1.35617326354502, -1.49102562969734, 0.170319794008118, -0.295169602729064,
    0.0542053252128407, -0.468873558612122, 2.33283541881681, -0.0578835140098318, 0.155412974015147,
    -0.362116071084337, -0.109342688425766, 0.103826493230707, -1.86431826296228, 1.95646553813075,
    1.10375235435674, -1.33238015166888, -5.08619392305778, -1.12672222627898, 0.644697421640361,
    0.434005999538737, 1.38529084640361, 0.378619120373835, 1.30068514500855, -0.724569110938246,
    -1.62001225176022, -0.341579937808218, 0.686878245645063, -0.0045594876583494, 0.265612574668164,
    0.574862264810646, -2.43103670463011, -0.0994077372054684, 1.41872314927877, 0.484260541342182,
    -0.218213604351274};
static const double full_o[] = {
    -0.143780650382318, -0.332608459751199, -0.521436278398111, 0.535012115720794, 0.346184334186005,
    0.157356515539093, -0.0314713007883109, -0.220299103198669, 1.34545207169259, 2.25674086998752,
    -0.668361073311871, -1.49479841608587, -0.705734033932409, 0.0322763072089602, 0.91246432372745,
    1.67525891970379, -0.40629704896493, -0.390965827745472, -0.863247720959361, 0.251975180980347,
    0.348616165782612, 0.428308515323583, 0.391354055971067, -0.439878469332697, -0.881924991572674,
    -1.52595104502739, 0.331251705516025, -0.315131228033213, -0.52583788064681, 1.66347169951017,
    1.14868423887313, -1.37452893062615, 1.5773431535511, 0.918058479957396, -0.354399067584174,
    -0.557474545314996, 0.84657992024792, -0.963764299984192, -1.10908040371889, 1.31050563386847,
    -0.579678998550032, -0.619046769020383, -0.287754475820344, 1.35438045462638, -0.781475965925254,
    -0.0724697223934798, -0.207186121904241, -0.503522416884215, 1.84861746840369, -1.47911400953932,
    -0.906011629339745, -2.39184059432531, 1.09851807867222, 1.13742480799562, 1.65757112642687,
    1.93588994344703};
/* clang-format on */

enum { HEADS = 2, SIZE = 4, TOKENS = 7 };

/* Inputs are a formula of the operand's number here and the index. */
static const struct {
    clattn_operand_id id;
    int number;
    double low, high;
} inputs[] = {
    {OP(Q), 1, -2, 2},  {OP(K), 2, -2, 2},    {OP(V), 3, -1, 1},  {OP(G), 4, -1, 0},
    {OP(GV), 5, -1, 0}, {OP(THETA), 6, 0, 3}, {OP(DT), 7, 0, 1},  {OP(DT_BIAS), 8, -1, 1},
    {OP(D), 9, -1, 1},  {OP(Z), 10, -2, 2},   {OP(A), 11, -2, 0},
};

static void fill(struct check_tensors *tensors)
{
    for (size_t n = 0; n < COUNT(inputs); n++)
        for (int64_t i = 0; i < check_count(&tensors->tensor[inputs[n].id].info); i++)
            if (tensors->tensor[inputs[n].id].data != NULL)
                test_set(tensors, inputs[n].id, i,
                         inputs[n].low + (inputs[n].high - inputs[n].low) *
                                             (double)((i * 7919 + inputs[n].number * 104729) % 1009) / 1009);
}

static void test_numbers(void **state)
{
    static const struct {
        const char *name;
        clattn_rule rule;
        uint64_t flags;
        const double *o;
    } rows[] = {
        {"hgrn", CLATTN_HGRN, 0, hgrn_o},
        {"lru", CLATTN_LRU, 0, lru_o},
        {"mamba", CLATTN_MAMBA, CLATTN_SOFTPLUS | CLATTN_WITH_DT_BIAS | CLATTN_WITH_D | CLATTN_WITH_Z, mamba_o},
        {"complex mamba", CLATTN_MAMBA, CLATTN_COMPLEX, complex_o},
        {"full_gate", CLATTN_FULL_GATE, 0, full_o},
    };

    (void)state;
    for (size_t n = 0; n < COUNT(rows); n++) {
        clattn_plan_desc desc = {.rule = rows[n].rule,
                                 .flags = rows[n].flags,
                                 .seq_len = TOKENS,
                                 .heads = HEADS,
                                 .qk_heads = 1,
                                 .key_dim = SIZE,
                                 .value_dim = SIZE};
        struct check_tensors tensors, expected;
        check_fit(&desc);
        test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
        fill(&tensors);
        assert_status(check_allocate(&expected, &desc), SUCCESS);
        for (int64_t i = 0; i < check_count(&expected.tensor[OP(O)].info); i++)
            test_set(&expected, OP(O), i, rows[n].o[i]);
        test_run(&tensors);
        test_compare_all(&tensors, &expected, test_is_reference() ? 1e-6 : check_bound(CLATTN_F32), rows[n].name);
        check_free(&tensors);
        check_free(&expected);
    }
}

/* Lengths around the ends of stretches and tiles, of a plan with more tokens. */
static void check_lengths_of(clattn_plan *plan, const clattn_plan_desc *most, const char *what)
{
    static const int64_t lengths[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 70};

    for (size_t i = 0; i < COUNT(lengths); i++) {
        clattn_plan_desc desc = *most;
        struct check_tensors tensors, expected;
        char name[128];
        desc.seq_len = lengths[i];
        snprintf(name, sizeof name, "%s, %s, %d tokens", test_rule_name(desc.rule), what, (int)desc.seq_len);
        test_make(&tensors, &desc, CHECK_GATES_HARD, NULL);
        assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
        assert_status(check_run_plan(&tensors, &test_device, plan, test_log, NULL), SUCCESS);
        test_compare_all(&tensors, &expected, check_bound(CLATTN_F32), name);
        check_free(&tensors);
        check_free(&expected);
    }
}

static void test_stretches(void **state)
{
    static const struct {
        const char *what;
        int spans, tokens, lanes_k, block_v;
    } points[] = {{"4 of 2", 4, 2, 1, 8}, {"2 of 8", 2, 8, 2, 4}, {"16 of 4", 16, 4, 2, 8}, {"1 of 4", 1, 4, 4, 8}};
    static const clattn_rule rules[] = {CLATTN_HGRN, CLATTN_LRU, CLATTN_MAMBA, CLATTN_FULL_GATE};
    int stretches = 0;

    (void)state;
    for (size_t n = 0; n < COUNT(rules) * COUNT(points) && !test_is_reference(); n++) {
        clattn_plan_desc desc = {.rule = rules[n / COUNT(points)],
                                 .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                                 .batch = 2,
                                 .seq_len = 70,
                                 .heads = HEADS,
                                 .qk_heads = 1,
                                 .key_dim = 6,
                                 .value_dim = 10};
        struct tuned tuned = tuned_default(space_find("channels"));
        clattn_plan *plan = NULL;
        size_t point = n % COUNT(points);
        check_variant(desc.rule, point % 2 == 0 ? 0 : 2, &desc);
        check_fit(&desc);
        test_tuned_set(&tuned, "spans", points[point].spans);
        test_tuned_set(&tuned, "tokens", points[point].tokens);
        test_tuned_set(&tuned, "lanes_k", points[point].lanes_k);
        test_tuned_set(&tuned, "block_v", points[point].block_v);
        if (plan_create(&plan, test_device.context, &desc, &tuned) == CLATTN_SUCCESS) {
            check_lengths_of(plan, &desc, points[point].what);
            stretches++;
        }
        clattn_plan_destroy(plan);
    }
    assert_true(test_is_reference() || stretches >= 8);
}

/* The same of lanes that have a column each, for sequences on both sides of a tile's end. */
static void test_lanes(void **state)
{
    static const struct {
        const char *what;
        int block_v, tokens, key_dim;
    } points[] = {{"4 columns", 4, 2, 6},
                  {"8 columns, tiles of 8", 8, 1, 7},
                  {"32 columns", 32, 2, 16},
                  {"tiles of 48", 16, 3, 16}};
    static const uint32_t options[] = {0, CLATTN_SOFTPLUS | CLATTN_WITH_DT_BIAS | CLATTN_WITH_D | CLATTN_WITH_Z};
    int lanes = 0;

    (void)state;
    for (size_t n = 0; n < 2 * COUNT(points) && !test_is_reference(); n++) {
        clattn_plan_desc desc = {.rule = CLATTN_MAMBA,
                                 .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE | options[n % 2],
                                 .batch = 2,
                                 .seq_len = 70,
                                 .heads = HEADS,
                                 .qk_heads = 1,
                                 .key_dim = points[n / 2].key_dim,
                                 .value_dim = 10};
        struct tuned tuned = tuned_default(space_find("channels_lanes"));
        clattn_plan *plan = NULL;
        check_fit(&desc);
        test_tuned_set(&tuned, "block_v", points[n / 2].block_v);
        test_tuned_set(&tuned, "tokens", points[n / 2].tokens);
        if (plan_create(&plan, test_device.context, &desc, &tuned) == CLATTN_SUCCESS) {
            check_lengths_of(plan, &desc, points[n / 2].what);
            lanes++;
        }
        clattn_plan_destroy(plan);
    }
    assert_true(test_is_reference() || lanes == 8);
}

/* e^(i theta t) times each token's pairs, or e^(-i theta t) */
static void turn_tokens(struct check_tensors *tensors, clattn_operand_id id, const struct check_tensors *lru,
                        double sign)
{
    for (int64_t i = 0; i < check_count(&tensors->tensor[id].info); i += 2) {
        int64_t c = i % (HEADS * SIZE), token = i / (HEADS * SIZE);
        double angle = sign * (double)(token + 1) * test_get(lru, OP(THETA), c / 2);
        double re = test_get(tensors, id, i), im = test_get(tensors, id, i + 1);
        test_set(tensors, id, i, re * cos(angle) - im * sin(angle));
        test_set(tensors, id, i + 1, re * sin(angle) + im * cos(angle));
    }
}

static void test_turning_frame(void **state)
{
    const clattn_plan_desc desc = {.rule = CLATTN_LRU, .seq_len = 75, .heads = HEADS, .value_dim = SIZE};
    clattn_plan_desc other = desc;
    struct check_tensors lru, real;

    (void)state;
    other.rule = CLATTN_HGRN;
    test_make(&lru, &desc, CHECK_GATES_USUAL, NULL);
    test_make(&real, &other, CHECK_GATES_USUAL, NULL);
    test_copy(&real, OP(V), &lru, OP(V));
    for (int64_t i = 0; i < check_count(&real.tensor[OP(GV)].info); i++)
        test_set(&real, OP(GV), i, test_get(&lru, OP(GV), i % (HEADS * SIZE) / 2));
    turn_tokens(&real, OP(V), &lru, -1);
    test_run(&lru);
    test_run(&real);
    turn_tokens(&real, OP(O), &lru, 1);
    test_compare(&lru.tensor[OP(O)], &real.tensor[OP(O)], 2 * check_bound(CLATTN_F32), "a turning frame");
    check_free(&lru);
    check_free(&real);
}

/* 2 Re sum_n q_n k_n e^(a_n dt j) dt: what a token adds to the one j later */
static double response(const struct check_tensors *t, int64_t channel, double dt, int64_t j)
{
    double sum = 0;

    for (int64_t n = 0; n < SIZE; n += 2) {
        double size = exp(dt * (double)j * test_get(t, OP(A), channel * SIZE + n));
        double angle = dt * (double)j * test_get(t, OP(A), channel * SIZE + n + 1);
        double q = test_get(t, OP(Q), n), r = test_get(t, OP(Q), n + 1);
        double k = test_get(t, OP(K), n), l = test_get(t, OP(K), n + 1);
        sum += size * ((q * k - r * l) * cos(angle) - (q * l + r * k) * sin(angle));
    }
    return 2 * sum * dt;
}

static void test_convolution(void **state)
{
    const clattn_plan_desc desc = {.rule = CLATTN_MAMBA,
                                   .flags = CLATTN_COMPLEX,
                                   .seq_len = 75,
                                   .heads = HEADS,
                                   .qk_heads = 1,
                                   .key_dim = SIZE,
                                   .value_dim = SIZE};
    struct check_tensors tensors, expected;

    (void)state;
    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    test_set_all(&tensors, OP(DT), 0.05);
    for (int64_t i = SIZE; i < 75 * SIZE; i++) {
        test_set(&tensors, OP(Q), i, test_get(&tensors, OP(Q), i % SIZE));
        test_set(&tensors, OP(K), i, test_get(&tensors, OP(K), i % SIZE));
    }
    assert_status(check_allocate(&expected, &desc), SUCCESS);
    for (int64_t i = 0; i < 75 * HEADS * SIZE; i++) {
        double sum = 0;
        for (int64_t j = 0; j <= i / (HEADS * SIZE); j++)
            sum += response(&tensors, i % (HEADS * SIZE), test_get(&tensors, OP(DT), 0), j) *
                   test_get(&tensors, OP(V), i - j * HEADS * SIZE);
        test_set(&expected, OP(O), i, sum);
    }
    test_run(&tensors);
    test_compare(&tensors.tensor[OP(O)], &expected.tensor[OP(O)], 2 * check_bound(CLATTN_F32), "S4D");
    check_free(&tensors);
    check_free(&expected);
}

/* What a token has of its own where all before is forgotten: v; or sum_n q_n k_n dt v */
static double own_term(const struct check_tensors *t, int64_t i)
{
    int64_t token = i / (HEADS * SIZE);
    double sum = 0;

    if (t->desc.rule == CLATTN_LRU)
        return test_get(t, OP(V), i);
    for (int64_t n = 0; n < SIZE; n++)
        sum += test_get(t, OP(Q), token * SIZE + n) * test_get(t, OP(K), token * SIZE + n);
    return t->desc.scale * sum * test_get(t, OP(DT), i) * test_get(t, OP(V), i);
}

/* A rate of -inf forgets exactly, however large what was before: of the others of these rules test_forgets says it. */
static void test_forgets(void **state)
{
    static const clattn_rule rules[] = {CLATTN_LRU, CLATTN_MAMBA};

    (void)state;
    for (size_t n = 0; n < COUNT(rules); n++) {
        clattn_plan_desc desc = {
            .rule = rules[n], .seq_len = 75, .heads = HEADS, .qk_heads = 1, .key_dim = SIZE, .value_dim = SIZE};
        struct check_tensors tensors, expected;
        check_fit(&desc);
        test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
        test_set_all(&tensors, rules[n] == CLATTN_LRU ? OP(GV) : OP(A), (double)-INFINITY);
        for (int64_t i = 0; i < check_count(&tensors.tensor[OP(V)].info); i++) {
            if (tensors.tensor[OP(DT)].data != NULL)
                test_set(&tensors, OP(DT), i, 0.5);
            if (i / (HEADS * SIZE) % 3 == 0)
                test_set(&tensors, OP(V), i, 1e30);
        }
        assert_status(check_allocate(&expected, &desc), SUCCESS);
        for (int64_t i = 0; i < check_count(&expected.tensor[OP(O)].info); i++)
            test_set(&expected, OP(O), i, own_term(&tensors, i));
        test_run(&tensors);
        for (int64_t i = 0; i < check_count(&expected.tensor[OP(O)].info); i++)
            if (!(fabs(test_get(&tensors, OP(O), i) - test_get(&expected, OP(O), i)) <=
                  1e-5 * fabs(test_get(&expected, OP(O), i)) + 1e-6))
                fail_msg("%s: o %d is %g, expected %g", test_rule_name(rules[n]), (int)i, test_get(&tensors, OP(O), i),
                         test_get(&expected, OP(O), i));
        check_free(&tensors);
        check_free(&expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),       cmocka_unit_test(test_stretches),   cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_turning_frame), cmocka_unit_test(test_convolution), cmocka_unit_test(test_forgets),
    };
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
