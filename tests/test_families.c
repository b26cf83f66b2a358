/* Rules whose state is a list, against numbers that a program of another language came to in double precision, from the
 * rules' definitions and without a look at clattn: inputs are a formula of the operand and the index alone. */
#include "harness.h"

/* clang-format off */
static const double softmax_o[] = {
    0.128977313460421, 0.499730636642465, 0.230799746424769, 0.12072186392277, -0.17296223269832,
    -0.47295871839152, -0.660945376349323, 0.66333610638543, 0.391037830802726, -0.745149666601412,
    0.595447554224994, 0.33409135937817, -0.113761717462408, 0.108356117268553, -0.132067283691412,
    -0.352934934985728, 0.432628506410271, 0.154007527779126, 0.0971300386259282, -0.192880884460573,
    -0.417695070151699, -0.588182594943252, 0.567352598169944, 0.476078177690563, 0.260242690853082,
    0.0707588123022501, -0.194348857847473, -0.583247318856671, -0.847596664617352, 0.769358210332586};
static const double softmax_lse[] = {
    2.15156444866663, 4.19856323402384, 2.25477397533294, 1.6489667992098, 1.54716060938079, 2.17983563220785,
    4.27324440275635, 2.22467244228453, 2.78728356505394, 3.92803160508809};
static const double alibi_o[] = {
    0.0364298365511731, 0.36895608682051, 0.0656855080857079, 0.120692339141219, -0.176244823012085,
    -0.479515373868599, -0.518448163535226, 0.379331556470592, 0.0760610044352003, 0.502445708988308,
    0.543621481179075, 0.240350904346019, -0.058989771866476, -0.303316074174565, -0.606586675688845,
    -0.0566228876820012, 0.315873394795003, 0.0126028253286165, 0.085986809781198, -0.202757070038617,
    -0.419170856822185, -0.471970374648635, 0.224682203202356, 0.023658463939679, 0.359168688725982,
    0.290486019452936, -0.00127064236066148, -0.334134594367807, -0.612086951896387, 0.109020526831378};
static const double alibi_lse[] = {
    2.09516002400681, 4.19133576300482, 2.50717197469292, 3.17941672445667, 3.50615583368796, 2.62568672546498,
    4.11765247854337, 2.83599518142377, 3.27586729841993, 4.55024505805329};
static const double fox_o[] = {
    -0.440774009460637, 0.531762324297785, 0.228491746721515, 0.123859816191127, -0.175026956027302,
    -0.478297505985056, -0.728147571810797, 0.776295112227291, 0.473024580140633, 0.138760622070701,
    0.612696315863357, 0.309425745722401, -0.0778504049159422, -0.194444201289387, -0.497714791678083,
    0.0475908662867497, 0.216930685524122, -0.0863398820527339, 0.0109038338233528, -0.274770957806866,
    -0.276202328229421, -0.537251123043178, 0.254076774873222, 0.428804746547337, 0.299815813115347,
    0.104686494551657, -0.178124828024367, -0.542862780553582, -0.836026013012079, 0.67345460191798};
static const double fox_lse[] = {
    1.22235457849798, 4.17267881239492, 1.97218713455178, 1.5542203324998, 1.41689628406695, 1.53266479691234,
    2.87201849106166, 1.29377720657547, 2.31155573274019, 3.379823387592};
static const double path_o[] = {
    -0.233534101394957, 0.0996466114924643, -0.203623978183562, 0.125506039710002, -0.169255942766182,
    -0.472526491987423, -0.650660012578003, 0.695388844321773, 0.392118307631547, -0.110362291681055,
    -0.0323754244378035, -0.335646015721565, -0.0607850783148878, 0.339735635854619, 0.0364650689796966,
    0.018630368638053, 0.119042262034077, -0.184228311085178, -0.0283182408898326, -0.262909384621564,
    -0.224955797770834, -0.271847458888832, -0.0146940683976352, 0.145743305669397, 0.210158723041612,
    0.0887615569369758, -0.161471813995417, -0.537116971491775, -0.793342420550751, 0.724933807680946};
static const double path_lse[] = {
    1.38361905767578, 4.16376104950821, 2.08304768945013, 1.85229496333063, 1.15541132073283, 1.76952518923894,
    2.74937329378942, 1.32412992778795, 2.1470572162562, 3.22596145528007};
/* clang-format on */

static const struct family {
    const char *name;
    clattn_rule rule;
    uint32_t flags;
    int64_t seq_len, kv_len, window;
    const double *o, *lse;
} families[] = {
    {"softmax_attn, sink, window", CLATTN_SOFTMAX_ATTN, CLATTN_WITH_SINK | CLATTN_WITH_LSE, 5, 9, 4, softmax_o,
     softmax_lse},
    {"alibi_attn", CLATTN_ALIBI_ATTN, CLATTN_WITH_LSE, 5, 9, 0, alibi_o, alibi_lse},
    {"forgetting_attn", CLATTN_FORGETTING_ATTN, CLATTN_WITH_LSE, 5, 9, 0, fox_o, fox_lse},
    {"path_attn", CLATTN_PATH_ATTN, CLATTN_WITH_LSE, 5, 9, 0, path_o, path_lse},
};

/* What the numbers of an operand lie between. */
static const double ranges[OPERAND_COUNT][2] = {
    [CLATTN_Q] = {-2, 2}, [CLATTN_K] = {-2, 2},   [CLATTN_V] = {-1, 1},     [CLATTN_SINK] = {-1, 1},
    [CLATTN_G] = {-1, 0}, [CLATTN_BETA] = {0, 2}, [CLATTN_W] = {-0.7, 0.7},
};

static void fill(struct check_tensors *tensors, clattn_operand_id id)
{
    const double *range = ranges[id];

    for (int64_t i = 0; i < check_count(&tensors->tensor[id].info); i++)
        test_set(tensors, id, i,
                 range[0] + (range[1] - range[0]) * (double)((i * 7919 + (int)id * 104729) % 1009) / 1009);
}

static void test_family(void **state)
{
    const struct family *family = *state;
    const clattn_plan_desc desc = {.rule = family->rule,
                                   .flags = family->flags,
                                   .seq_len = family->seq_len,
                                   .kv_len = family->kv_len,
                                   .window = family->window,
                                   .heads = 2,
                                   .kv_heads = 1,
                                   .key_dim = 4,
                                   .value_dim = 3};
    struct check_tensors tensors, expected;

    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    assert_status(check_allocate(&expected, &desc), SUCCESS);
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (tensors.tensor[id].data != NULL && !tensors.tensor[id].info.output)
            fill(&tensors, (clattn_operand_id)id);
    for (int64_t i = 0; i < check_count(&expected.tensor[OP(O)].info); i++)
        test_set(&expected, OP(O), i, family->o[i]);
    for (int64_t i = 0; i < family->seq_len * 2 && expected.tensor[OP(LSE)].data != NULL; i++)
        test_set(&expected, OP(LSE), i, family->lse[i]);
    test_run(&tensors);
    test_compare_all(&tensors, &expected, test_is_reference() ? 1e-6 : check_bound(CLATTN_F32), family->name);
    check_free(&tensors);
    check_free(&expected);
}

int main(void)
{
    static struct family rows[COUNT(families)];
    struct CMUnitTest tests[COUNT(families)];

    for (size_t i = 0; i < COUNT(families); i++) {
        rows[i] = families[i];
        tests[i] = (struct CMUnitTest){.name = rows[i].name, .test_func = test_family, .initial_state = &rows[i]};
    }
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
