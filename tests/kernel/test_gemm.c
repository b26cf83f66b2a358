/* test_gemm PROVIDER|lanes [ENGINE [CASE]]: lanes are those of plain that share a tile, on any device. A provider of matrix
 * products against the reference, by every case of the table, or those with CASE in their names, in every type and with
 * either operand transposed, where the provider takes it. */
#include "harness.h"

#include "plan/gemm.h"
#include "reference/gemm.h"
#include "reference/number.h"
#include "tune/gemm_key.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>
#include <string.h>

static const char *provider, *engine = "none", *only;
static int shared; /* the kernel of lanes that share a tile */
static clattn_context *context;

/* Sizes, what lies between rows and between matrices, scales. */
static const struct gemm_case {
    const char *name;
    int64_t m, n, k, batch;
    int64_t pad, apart; /* elements after each row, and after each matrix */
    int64_t offset;     /* elements ahead of the first matrix */
    double alpha, beta;
    uint32_t flags;
} cases[] = {
    {"one number", 1, 1, 1, 1, 0, 0, 0, 0, 0, 0},
    {"a row", 1, 77, 130, 1, 0, 0, 0, 1, 0, 0},
    {"a column", 61, 1, 45, 2, 0, 0, 0, -1, 0.5, 0},
    {"few rows", 5, 300, 129, 1, 8, 0, 0, 1, 0, 0},
    {"few columns", 130, 8, 64, 2, 0, 16, 0, 2, -1, 0},
    {"whole tiles", 128, 128, 64, 1, 0, 0, 0, 1, 0, 0},
    {"odd", 131, 67, 33, 1, 0, 0, 0, 1, 0, 0},
    {"odd, apart", 67, 141, 51, 3, 3, 5, 7, 0.25, 0.75, 0},
    {"even, apart", 72, 136, 48, 2, 8, 64, 16, -1.5, 1, 0},
    {"deep", 17, 19, 1031, 1, 0, 0, 0, 1, 0, 0},
    {"shared a", 33, 40, 24, 4, 0, 0, 0, 1, 0, CLATTN_GEMM_SHARED_A},
    {"shared b", 40, 33, 24, 4, 8, 0, 8, 1, 1, CLATTN_GEMM_SHARED_B},
    {"c apart", 37, 50, 20, 2, 0, 0, 0, 1, -2, CLATTN_GEMM_WITH_C},
    {"c apart, not read", 37, 50, 20, 1, 4, 0, 0, 1, 0, CLATTN_GEMM_WITH_C},
    {"d in f32", 40, 70, 90, 2, 3, 0, 5, -1, 0.5, CLATTN_GEMM_F32_D},
    {"few rows, d in f32", 3, 90, 70, 1, 0, 0, 0, 1, 0, CLATTN_GEMM_F32_D},
    {"c apart, in f32", 37, 50, 20, 2, 0, 0, 0, 1, -2, CLATTN_GEMM_WITH_C | CLATTN_GEMM_F32_D},
    {"bands", 1300, 70, 16, 1, 0, 0, 0, 1, 0, 0},
};

/* ---- Numbers ---- */

static uint32_t seed = 1;
static double draw(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / (1 << 23) - 1;
}

/* Numbers as they lie, with NaN between rows, before and after: nobody reads them, nobody writes them. */
struct given {
    int64_t count, offset;
    size_t bytes;
    void *at;
    cl_mem buffer;
};

static struct given make(const struct gemm *gemm, int id, int64_t offset, int defined)
{
    enum { AFTER = 40 };
    const struct gemm_matrix *x = &gemm->of[id];
    clattn_dtype dtype = gemm_type(&gemm->desc, (enum gemm_operand)id);
    struct given numbers = {.count = offset + x->span + AFTER, .offset = offset};

    numbers.bytes = (size_t)numbers.count * dtype_size(dtype);
    numbers.at = malloc(numbers.bytes);
    assert_non_null(numbers.at);
    for (int64_t i = 0; i < numbers.count; i++)
        number_store(dtype, numbers.at, i, (double)NAN);
    for (int64_t b = 0; defined && b < (x->stride != 0 ? gemm->desc.batch : 1); b++)
        for (int64_t i = 0; i < x->rows; i++)
            for (int64_t j = 0; j < x->width; j++)
                number_store(dtype, numbers.at, offset + b * x->stride + i * x->ld + j, draw());
    numbers.buffer = test_buffer(numbers.bytes, numbers.at);
    return numbers;
}

static void drop(struct given *numbers)
{
    if (numbers->buffer != NULL)
        opencl_get()->ReleaseMemObject(numbers->buffer);
    free(numbers->at);
}

static const void *first(const struct gemm *gemm, enum gemm_operand id, const struct given *numbers)
{
    return numbers->at != NULL
               ? (const char *)numbers->at + (size_t)numbers->offset * dtype_size(gemm_type(&gemm->desc, id))
               : NULL;
}

/* ---- One product ---- */

/* Numbers of D within the bound of what they should be, and what lies between them as it was. */
static void compare(const struct gemm *gemm, const struct given *d, const void *found, const double *expected,
                    const char *what)
{
    const struct gemm_matrix *x = &gemm->of[GEMM_D];
    const clattn_gemm_desc *desc = &gemm->desc;
    const clattn_dtype dtype = gemm_type(desc, GEMM_D);
    double difference = 0, size = 0;
    char *touched = calloc((size_t)d->count, 1);

    assert_non_null(touched);
    for (int64_t b = 0; b < desc->batch; b++)
        for (int64_t i = 0; i < x->rows; i++)
            for (int64_t j = 0; j < x->width; j++) {
                int64_t at = d->offset + b * x->stride + i * x->ld + j;
                double y = expected[(b * x->rows + i) * x->width + j];
                difference += pow(number_load(dtype, found, at) - y, 2);
                size += y * y;
                touched[at] = 1;
            }
    if (!(sqrt(difference) <= number_bound(dtype) * sqrt(size)))
        fail_msg("%s: error %.2e", what, sqrt(difference / size));
    for (int64_t i = 0; i < d->count; i++)
        if (!touched[i] && memcmp((const char *)found + (size_t)i * dtype_size(dtype),
                                  (const char *)d->at + (size_t)i * dtype_size(dtype), dtype_size(dtype)) != 0)
            fail_msg("%s: number %lld, which is none of d's, was written", what, (long long)i);
    free(touched);
}

static void run_rows(clattn_gemm_plan *plan, const struct gemm *gemm, int64_t offset, int64_t rows, const char *what)
{
    const struct opencl *cl = opencl_get();
    const clattn_gemm_desc *desc = &gemm->desc;
    size_t at = (size_t)offset * dtype_size(desc->dtype), d_at = (size_t)offset * dtype_size(gemm_type(desc, GEMM_D));
    int with_c = (desc->flags & CLATTN_GEMM_WITH_C) != 0;
    struct given a = make(gemm, GEMM_A, offset, 1), b = make(gemm, GEMM_B, offset, 1);
    struct given c = {0}, d = make(gemm, GEMM_D, offset, desc->beta != 0);
    double *expected = malloc((size_t)(desc->batch * desc->m * desc->n) * sizeof *expected);
    void *found = malloc(d.bytes);
    cl_event event = NULL;

    if (with_c)
        c = make(gemm, GEMM_C, offset, desc->beta != 0);
    assert_non_null(expected);
    assert_non_null(found);
    assert_status(clattn_gemm_enqueue(plan, test_device.queue,
                                      &(clattn_gemm_call){.a = a.buffer,
                                                          .b = b.buffer,
                                                          .c = c.buffer,
                                                          .d = d.buffer,
                                                          .a_offset = at,
                                                          .b_offset = at,
                                                          .c_offset = with_c ? d_at : 0,
                                                          .d_offset = d_at,
                                                          .m = rows},
                                      0, NULL, &event),
                  SUCCESS);
    assert_non_null(event);
    assert_int_equal(cl->WaitForEvents(1, &event), CL_SUCCESS);
    cl->ReleaseEvent(event);
    assert_int_equal(cl->EnqueueReadBuffer(test_device.queue, d.buffer, CL_TRUE, 0, d.bytes, found, 0, NULL, NULL),
                     CL_SUCCESS);
    gemm_reference(gemm, first(gemm, GEMM_A, &a), first(gemm, GEMM_B, &b),
                   with_c ? first(gemm, GEMM_C, &c) : first(gemm, GEMM_D, &d), expected);
    compare(gemm, &d, found, expected, what);
    free(found);
    free(expected);
    drop(&a);
    drop(&b);
    drop(&c);
    drop(&d);
}

static void run(clattn_gemm_plan *plan, const struct gemm *gemm, int64_t offset, const char *what)
{
    run_rows(plan, gemm, offset, 0, what);
}

static clattn_gemm_desc desc_of(const struct gemm_case *c, clattn_dtype dtype, uint32_t turned)
{
    clattn_gemm_desc desc = {.dtype = dtype,
                             .flags = c->flags | turned,
                             .m = c->m,
                             .n = c->n,
                             .k = c->k,
                             .batch = c->batch,
                             .alpha = c->alpha,
                             .beta = c->beta,
                             .provider = provider};

    desc.lda = (turned & CLATTN_GEMM_TRANS_A ? c->m : c->k) + c->pad;
    desc.ldb = (turned & CLATTN_GEMM_TRANS_B ? c->k : c->n) + c->pad;
    desc.ldc = desc.ldd = c->n + c->pad;
    desc.stride_a = (turned & CLATTN_GEMM_TRANS_A ? c->k : c->m) * desc.lda + c->apart;
    desc.stride_b = (turned & CLATTN_GEMM_TRANS_B ? c->n : c->k) * desc.ldb + c->apart;
    desc.stride_c = desc.stride_d = c->m * desc.ldd + c->apart;
    return desc;
}

static int runs;

/* That CLBlast allocates at every call, and no other does, is in the plan's numbers and in its description. */
static void check_scratch(const clattn_gemm_plan *plan, const clattn_gemm_info *info)
{
    int allocates = strcmp(info->provider, "clblast") == 0;
    char text[512];

    assert_int_equal(info->scratch, allocates);
    assert_status(clattn_gemm_plan_describe(plan, text, sizeof text), SUCCESS);
    assert_int_equal(strstr(text, "allocates scratch at a call") != NULL, allocates);
}

static void test_case(const struct gemm_case *c, clattn_dtype dtype, uint32_t turned)
{
    clattn_gemm_desc desc = desc_of(c, dtype, turned);
    struct gemm gemm;
    clattn_gemm_plan *plan;
    clattn_gemm_info info;
    clattn_status status;
    char what[160];

    snprintf(what, sizeof what, "%s, %s, %s%s%s", provider, c->name, dtype_name(dtype),
             turned & 1 ? ", a transposed" : "", turned & 2 ? ", b transposed" : "");
    assert_status(gemm_read(&gemm, &desc, sizeof desc, &(struct log){test_log, NULL}), SUCCESS);
    test_log_clear();
    status = shared ? gemm_plan_by(&plan, context, &desc, &gemm_lanes) : clattn_gemm_plan_create(&plan, context, &desc);
    if (status == CLATTN_UNSUPPORTED) {
        if (strstr(test_log_text, "wrong results") != NULL)
            fail_msg("%s: refused as wrong", what);
        return;
    }
    if (status != CLATTN_SUCCESS)
        fail_msg("%s: %s", what, test_log_text);
    assert_status(clattn_gemm_plan_get(plan, &info), SUCCESS);
    assert_string_equal(info.provider, provider);
    check_scratch(plan, &info);
    run(plan, &gemm, c->offset, what);
    clattn_gemm_plan_destroy(plan);
    runs++;
}

static void test_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int dtype = 0; dtype <= CLATTN_BF16 && (only == NULL || strstr(cases[i].name, only) != NULL); dtype++)
            for (uint32_t turned = 0; turned < 4; turned++)
                test_case(&cases[i], (clattn_dtype)dtype, turned);
    print_message("%d products by %s\n", runs, provider);
    if (runs == 0 && strcmp(provider, "clblast") != 0)
        fail_msg("%s takes no case", provider);
    if (runs == 0)
        skip();
}

/* ---- What is no case of the table ---- */

static const clattn_gemm_desc usual = {.m = 70, .n = 90, .k = 50};

static clattn_gemm_plan *plan_of(const clattn_gemm_desc *desc)
{
    clattn_gemm_plan *plan;

    test_log_clear();
    assert_status(clattn_gemm_plan_create(&plan, context, desc), SUCCESS);
    return plan;
}

static void check(clattn_gemm_plan *plan, const clattn_gemm_desc *desc, const char *what)
{
    struct gemm gemm;

    assert_status(gemm_read(&gemm, desc, sizeof *desc, &(struct log){test_log, NULL}), SUCCESS);
    run(plan, &gemm, 0, what);
}

/* A call of fewer rows than the plan has: the same plan, and D's other rows as they were. */
static void test_rows(void **state)
{
    static const int64_t rows[] = {1, 7, 69, 70};
    static const char *const names[] = {"plain", "gemv"};
    clattn_gemm_desc desc = {.m = 70, .n = 90, .k = 50, .batch = 2, .stride_a = 70 * 50, .stride_d = 70 * 90};

    (void)state;
    for (uint32_t turned = 0; turned < 2; turned++) /* a: [k,m] keeps the plan's lda */
        for (size_t p = 0; p < COUNT(names); p++)
            for (size_t i = 0; i < COUNT(rows); i++) {
                clattn_gemm_desc part = desc;
                clattn_gemm_plan *plan;
                struct gemm gemm;
                char what[80];
                part.flags = turned;
                part.n = p == 0 ? desc.n : 5;
                part.provider = names[p];
                part.lda = turned ? desc.m : desc.k;
                plan = plan_of(&part);
                part.m = rows[i];
                assert_status(gemm_read(&gemm, &part, sizeof part, &(struct log){test_log, NULL}), SUCCESS);
                snprintf(what, sizeof what, "%s, %lld of 70 rows, a %d", names[p], (long long)rows[i], (int)turned);
                run_rows(plan, &gemm, 0, rows[i], what);
                clattn_gemm_plan_destroy(plan);
            }
}

/* What a provider is tried on before it is used may be one row: the sum that is compared is small then by chance, and what
 * is right must not be refused for that. A plan whose b lies the other way is wrong at every length. */
static void test_trials(void **state)
{
    enum { LENGTHS = 96 };

    (void)state;
    for (uint32_t turned = 0; turned <= CLATTN_GEMM_TRANS_B; turned += CLATTN_GEMM_TRANS_B) {
        const clattn_gemm_desc most = {
            .dtype = CLATTN_BF16, .flags = turned, .m = 1, .n = LENGTHS, .k = LENGTHS, .provider = "plain"};
        clattn_gemm_plan *plan = plan_of(&most);

        for (int64_t n = 2; n <= LENGTHS; n++) {
            const clattn_gemm_desc desc = {.dtype = CLATTN_BF16, .m = 1, .n = n, .k = n};
            struct gemm gemm;
            int right = 0;

            assert_status(gemm_read(&gemm, &desc, sizeof desc, &(struct log){test_log, NULL}), SUCCESS);
            assert_status(gemm_try(plan, &gemm, &right), SUCCESS);
            if ((right > 0) != (turned == 0))
                fail_msg("b %s, %lld numbers: judged %d", turned ? "turned" : "as it lies", (long long)n, right);
        }
        clattn_gemm_plan_destroy(plan);
    }
}

static void refuse_rows(int64_t m, int64_t rows, const char *logged)
{
    clattn_gemm_desc desc = {.m = m, .n = 90, .k = 50};
    clattn_gemm_plan *plan = plan_of(&desc);
    cl_mem buffer = test_buffer(1 << 16, NULL);
    clattn_gemm_call call = {.a = buffer, .b = buffer, .d = buffer, .m = rows};

    assert_status(clattn_gemm_enqueue(plan, test_device.queue, &call, 0, NULL, NULL), INVALID_ARGUMENT);
    assert_logged(logged);
    opencl_get()->ReleaseMemObject(buffer);
    clattn_gemm_plan_destroy(plan);
}

static void test_bad_rows(void **state)
{
    (void)state;
    refuse_rows(70, 71, "the call's m is 71, the plan's 70");
    refuse_rows(70, -1, "the call's m is -1, the plan's 70");
    refuse_rows(5, 4, "the call's m is 4, the plan's 5, which gemv takes alone");
}

/* CLBlast would take these without a word, and compute something else on one device and end the process on another. */
static void test_override(void **state)
{
    static const struct {
        const char *name;
        int value;
    } bad[] = {{"GEMMK", 1}, {"KREG", 1}, {"KWG", 1}, {"KWI", 1}, {"MDIMA", 1}, {"MDIMC", 1}, {"MWG", 16}, {"NDIMB", 1},
               {"NDIMC", 1}, {"NWG", 16}, {"SA", 0},  {"SB", 0},  {"STRM", 0},  {"STRN", 0},  {"VWM", 8},  {"VWN", 8}};
    clattn_gemm_desc desc = {.m = 1088, .n = 1088, .k = 1088, .provider = "clblast"};
    struct tuned tuned = tuned_default(gemm_space_find("gemm_clblast"));
    clattn_gemm_plan *plan;
    struct gemm gemm;

    (void)state;
    assert_status(gemm_read(&gemm, &desc, sizeof desc, &(struct log){test_log, NULL}), SUCCESS);
    if (!gemm_clblast.applies(context, &gemm))
        skip();
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(tuned_set(&tuned, bad[i].name, bad[i].value), 1);
    test_log_clear();
    assert_status(gemm_plan_tuned(&plan, context, &desc, &tuned), UNSUPPORTED);
    assert_logged("constraints");
    desc.provider = NULL;
    plan = plan_of(&desc); /* by another */
    clattn_gemm_plan_destroy(plan);
}

/* A product by CLBlast, and one in a type that the device may lack, which CLBlast would complain of. */
static void ask_clblast(clattn_dtype dtype)
{
    clattn_gemm_desc desc = {.m = 65, .n = 33, .k = 70, .dtype = dtype, .provider = "clblast"};
    clattn_gemm_plan *plan = NULL;

    if (clattn_gemm_plan_create(&plan, context, &desc) == CLATTN_SUCCESS)
        check(plan, &desc, "in silence");
    else
        assert_int_not_equal(dtype, CLATTN_F32);
    clattn_gemm_plan_destroy(plan);
}

/* Nothing of CLBlast reaches stdout or stderr. */
static void test_silence(void **state)
{
    FILE *said = tmpfile();
    const int streams[] = {fileno(stdout), fileno(stderr)}, kept[] = {dup(streams[0]), dup(streams[1])};
    struct gemm gemm;

    (void)state;
    assert_non_null(said);
    assert_status(gemm_read(&gemm, &usual, sizeof usual, &(struct log){test_log, NULL}), SUCCESS);
    if (!gemm_clblast.applies(context, &gemm))
        skip();
    fflush(NULL);
    for (int i = 0; i < 2; i++)
        assert_true(dup2(fileno(said), streams[i]) >= 0);
    ask_clblast(CLATTN_F32);
    ask_clblast(CLATTN_F16);
    ask_clblast(CLATTN_BF16);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(kept[i], streams[i]);
        close(kept[i]);
    }
    assert_int_equal(lseek(fileno(said), 0, SEEK_END), 0);
    fclose(said);
}

static clattn_context *context_without(const char *clblast)
{
    clattn_context *other;

    assert_status(clattn_context_create(&other, &(clattn_context_desc){.cl = test_device.cl,
                                                                       .device = test_device.device,
                                                                       .log = test_log,
                                                                       .clblast = clblast}),
                  SUCCESS);
    return other;
}

/* Where CLBlast is not wanted, is not there, or is another library, the others compute everything. */
static void test_without_clblast(void **state)
{
    static const char *const names[] = {"", "no library of this name", "libOpenCL.so.1"};
    clattn_gemm_desc desc = usual;

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        clattn_context *other = context_without(names[i]);
        clattn_gemm_plan *plan;
        desc.provider = "clblast";
        test_log_clear();
        assert_status(clattn_gemm_plan_create(&plan, other, &desc), UNSUPPORTED);
        assert_logged("clblast");
        assert_null(plan);
        desc.provider = NULL;
        assert_status(clattn_gemm_plan_create(&plan, other, &desc), SUCCESS);
        check(plan, &desc, "without CLBlast");
        clattn_gemm_plan_destroy(plan);
        clattn_context_destroy(other);
    }
}

/* A provider of the application's own: it computes by another plan, or nothing. */
static clattn_status call_back(void *user, const clattn_gemm_desc *desc, cl_command_queue queue,
                               const clattn_gemm_call *call, uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    clattn_gemm_desc own = *desc;
    clattn_gemm_plan *plan;
    clattn_status status;

    own.provider = "plain";
    own.callback = NULL;
    own.beta += *(double *)user;
    status = clattn_gemm_plan_create(&plan, context, &own);
    if (status == CLATTN_SUCCESS)
        status = clattn_gemm_enqueue(plan, queue, call, n_wait, wait, event);
    clattn_gemm_plan_destroy(plan);
    return status;
}

static void test_callback(void **state)
{
    double wrong = 0;
    clattn_gemm_desc desc = {.m = 20, .n = 30, .k = 10, .callback = call_back, .user = &wrong, .beta = 1};
    clattn_gemm_plan *plan = plan_of(&desc);
    clattn_gemm_info info;

    (void)state;
    assert_status(clattn_gemm_plan_get(plan, &info), SUCCESS);
    assert_string_equal(info.provider, "callback");
    check(plan, &desc, "callback");
    clattn_gemm_plan_destroy(plan);
    wrong = 0.5;
    plan = plan_of(&desc);
    assert_logged("provider callback gives wrong results");
    assert_status(clattn_gemm_plan_get(plan, &info), SUCCESS);
    assert_int_equal(info.rejected, 1);
    check(plan, &desc, "in the place of a wrong callback");
    clattn_gemm_plan_destroy(plan);
}

static void test_bad_desc(void **state)
{
    static const struct {
        clattn_gemm_desc desc;
        const char *said;
    } bad[] = {
        {{.m = 0, .n = 1, .k = 1}, "m 0"},
        {{.m = 1, .n = 1, .k = -3}, "k -3"},
        {{.m = 4, .n = 4, .k = 4, .lda = 3}, "lda is 3"},
        {{.m = 4, .n = 5, .k = 4, .ldd = 4}, "ldd is 4"},
        {{.m = 4, .n = 4, .k = 4, .batch = 2, .stride_d = 15}, "stride_d is 15"},
        {{.m = 4, .n = 4, .k = 4, .batch = 2, .stride_a = -16}, "stride_a is -16"},
        {{.m = 4, .n = 4, .k = 4, .flags = 1 << 6}, "flags 0x40"},
        {{.m = 4, .n = 4, .k = 4, .alpha = 1e300}, "alpha 1e+300"},
        {{.m = 4, .n = 4, .k = 4, .dtype = (clattn_dtype)7}, "dtype is 7"},
    };
    clattn_gemm_plan *plan;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        test_log_clear();
        assert_status(clattn_gemm_plan_create(&plan, context, &bad[i].desc), INVALID_DESC);
        assert_logged(bad[i].said);
        assert_null(plan);
    }
    assert_status(clattn_gemm_plan_create(&plan, NULL, &usual), INVALID_ARGUMENT);
    assert_status(clattn_gemm_plan_create(NULL, context, &usual), INVALID_ARGUMENT);
}

static void test_bad_call(void **state)
{
    clattn_gemm_plan *plan = plan_of(&usual);
    cl_mem a = test_buffer(70 * 50 * 4, NULL), b = test_buffer(50 * 90 * 4, NULL), d = test_buffer(70 * 90 * 4, NULL);
    const struct {
        clattn_gemm_call call;
        const char *said;
    } bad[] = {
        {{.b = b, .d = d}, "a is missing"},
        {{.a = a, .b = b}, "d is missing"},
        {{.a = a, .b = b, .c = d, .d = d}, "c is given"},
        {{.a = a, .b = a, .d = d}, "b has 14000 bytes, 18000 are needed"},
        {{.a = a, .b = b, .d = d, .d_offset = 4}, "d has 25200 bytes"},
        {{.a = a, .b = b, .d = d, .a_offset = 2}, "a has"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        test_log_clear();
        assert_status(clattn_gemm_enqueue(plan, test_device.queue, &bad[i].call, 0, NULL, NULL), INVALID_OPERAND);
        assert_logged(bad[i].said);
    }
    opencl_get()->ReleaseMemObject(a);
    opencl_get()->ReleaseMemObject(b);
    opencl_get()->ReleaseMemObject(d);
    clattn_gemm_plan_destroy(plan);
}

/* What was measured is taken: the provider, and its tiles. */
static void test_measured(void **state)
{
    clattn_context *other = context_without("");
    struct tuning_table table = {NULL, 0};
    struct tuning_entry entry;
    clattn_gemm_desc desc = {.m = 3, .n = 90, .k = 50}; /* for few rows by rule of thumb */
    clattn_gemm_plan *plan;
    clattn_gemm_info info;
    struct gemm gemm;
    char text[512], *json;

    (void)state;
    assert_status(gemm_read(&gemm, &desc, sizeof desc, &(struct log){test_log, NULL}), SUCCESS);
    gemm_key(&entry, other, &gemm, gemm_space_find("gemm_plain"));
    entry.from_rows = 0;
    snprintf(entry.tuner, sizeof entry.tuner, "test");
    snprintf(entry.date, sizeof entry.date, "today");
    assert_int_equal(tuned_set(&entry.tuned, "block_v", 64), 1);
    assert_status(tuning_table_put(&table, &entry), SUCCESS);
    json = tuning_table_print(&table);
    assert_status(clattn_context_set_tuning(other, json), SUCCESS);
    assert_status(clattn_gemm_plan_create(&plan, other, &desc), SUCCESS);
    assert_status(clattn_gemm_plan_get(plan, &info), SUCCESS);
    assert_string_equal(info.provider, "plain");
    assert_string_equal(info.chosen_by, "the application");
    assert_status(clattn_gemm_plan_describe(plan, text, sizeof text), SUCCESS);
    assert_non_null(strstr(text, " x 64,"));
    clattn_gemm_plan_destroy(plan);
    free(json);
    tuning_table_free(&table);
    clattn_context_destroy(other);
}

/* A product waits for the one whose D it reads. */
static void test_wait_list(void **state)
{
    static const char *const providers[] = {"plain", "clblast"};
    enum { SIDE = 64 };
    const struct opencl *cl = opencl_get();
    float numbers[SIDE * SIDE], found[SIDE * SIDE];
    cl_int error;
    cl_command_queue queue =
        cl->CreateCommandQueue(test_device.cl, test_device.device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &error);

    (void)state;
    if (queue == NULL)
        skip();
    for (int i = 0; i < SIDE * SIDE; i++)
        numbers[i] = i / SIDE == i % SIDE ? 2 : 0;
    for (size_t p = 0; p < COUNT(providers); p++) {
        clattn_gemm_desc desc = {.m = SIDE, .n = SIDE, .k = SIDE, .provider = providers[p]};
        cl_mem a = test_buffer(sizeof numbers, numbers),
               x[2] = {test_buffer(sizeof numbers, numbers), test_buffer(sizeof numbers, numbers)};
        cl_event event = NULL, next;
        clattn_gemm_plan *plan;
        if (clattn_gemm_plan_create(&plan, context, &desc) == CLATTN_SUCCESS) {
            for (int i = 0; i < 10; i++) {
                const clattn_gemm_call call = {.a = a, .b = x[i % 2], .d = x[1 - i % 2]};
                assert_status(
                    clattn_gemm_enqueue(plan, queue, &call, event != NULL, event != NULL ? &event : NULL, &next),
                    SUCCESS);
                if (event != NULL)
                    cl->ReleaseEvent(event);
                event = next;
            }
            assert_int_equal(cl->EnqueueReadBuffer(queue, x[0], CL_TRUE, 0, sizeof found, found, 1, &event, NULL),
                             CL_SUCCESS);
            cl->ReleaseEvent(event);
            assert_true(found[0] == 2048.0f && found[1] == 0.0f && found[SIDE * SIDE - 1] == 2048.0f);
        }
        clattn_gemm_plan_destroy(plan);
        cl->ReleaseMemObject(a);
        cl->ReleaseMemObject(x[0]);
        cl->ReleaseMemObject(x[1]);
    }
    cl->ReleaseCommandQueue(queue);
}

static int open_engine(void **state)
{
    if (test_device_open(state) != 0)
        return 1;
    return clattn_context_create(&context, &(clattn_context_desc){.cl = test_device.cl,
                                                                  .device = test_device.device,
                                                                  .log = test_log,
                                                                  .engine = engine}) != CLATTN_SUCCESS;
}

static int close_engine(void **state)
{
    clattn_context_destroy(context);
    return test_device_close(state);
}

int main(int count, char **words)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    const struct CMUnitTest others[] = {
        cmocka_unit_test(test_override), cmocka_unit_test(test_silence),   cmocka_unit_test(test_without_clblast),
        cmocka_unit_test(test_callback), cmocka_unit_test(test_bad_desc),  cmocka_unit_test(test_bad_call),
        cmocka_unit_test(test_measured), cmocka_unit_test(test_wait_list), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_bad_rows), cmocka_unit_test(test_trials)};

    if (count < 2)
        return 2;
    shared = strcmp(words[1], "lanes") == 0;
    provider = shared ? "plain" : words[1];
    engine = count > 2 ? words[2] : engine;
    only = count > 3 ? words[3] : NULL;
    if (strcmp(provider, "others") == 0)
        return cmocka_run_group_tests_name(provider, others, open_engine, close_engine);
    return cmocka_run_group_tests_name(provider, tests, open_engine, close_engine);
}
