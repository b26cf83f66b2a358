/* test_gemm PROVIDER [ENGINE [CASE]]: a provider of matrix products against the reference, by every case of the table, in every
 * type and with either operand transposed, where the provider takes it. */
#include "harness.h"

#include "plan/gemm.h"
#include "reference/gemm.h"
#include "reference/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *provider, *engine = "none", *only;
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
    clattn_dtype dtype = gemm->desc.dtype;
    struct given numbers = {.count = offset + x->span + AFTER, .offset = offset};

    numbers.bytes = (size_t)numbers.count * dtype_size(dtype);
    numbers.at = malloc(numbers.bytes);
    assert_non_null(numbers.at);
    for (int64_t i = 0; i < numbers.count; i++)
        number_store(dtype, numbers.at, i, NAN);
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

static const void *first(const struct gemm *gemm, const struct given *numbers)
{
    return numbers->at != NULL ? (const char *)numbers->at + (size_t)numbers->offset * dtype_size(gemm->desc.dtype)
                               : NULL;
}

/* ---- One product ---- */

/* Numbers of D within the bound of what they should be, and what lies between them as it was. */
static void compare(const struct gemm *gemm, const struct given *d, const void *found, const double *expected,
                    const char *what)
{
    const struct gemm_matrix *x = &gemm->of[GEMM_D];
    const clattn_gemm_desc *desc = &gemm->desc;
    double difference = 0, size = 0;
    char *touched = calloc((size_t)d->count, 1);

    assert_non_null(touched);
    for (int64_t b = 0; b < desc->batch; b++)
        for (int64_t i = 0; i < x->rows; i++)
            for (int64_t j = 0; j < x->width; j++) {
                int64_t at = d->offset + b * x->stride + i * x->ld + j;
                double y = expected[(b * x->rows + i) * x->width + j];
                difference += pow(number_load(desc->dtype, found, at) - y, 2);
                size += y * y;
                touched[at] = 1;
            }
    if (!(sqrt(difference) <= number_bound(desc->dtype) * sqrt(size)))
        fail_msg("%s: error %.2e", what, sqrt(difference / size));
    for (int64_t i = 0; i < d->count; i++)
        if (!touched[i] &&
            memcmp((const char *)found + (size_t)i * dtype_size(desc->dtype),
                   (const char *)d->at + (size_t)i * dtype_size(desc->dtype), dtype_size(desc->dtype)) != 0)
            fail_msg("%s: number %lld, which is none of d's, was written", what, (long long)i);
    free(touched);
}

static void run(clattn_gemm_plan *plan, const struct gemm *gemm, int64_t offset, const char *what)
{
    const struct opencl *cl = opencl_get();
    const clattn_gemm_desc *desc = &gemm->desc;
    size_t element = dtype_size(desc->dtype), at = (size_t)offset * element;
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
                                                          .c_offset = with_c ? at : 0,
                                                          .d_offset = at},
                                      0, NULL, &event),
                  SUCCESS);
    assert_non_null(event);
    assert_int_equal(cl->WaitForEvents(1, &event), CL_SUCCESS);
    cl->ReleaseEvent(event);
    assert_int_equal(cl->EnqueueReadBuffer(test_device.queue, d.buffer, CL_TRUE, 0, d.bytes, found, 0, NULL, NULL),
                     CL_SUCCESS);
    gemm_reference(gemm, first(gemm, &a), first(gemm, &b), with_c ? first(gemm, &c) : first(gemm, &d), expected);
    compare(gemm, &d, found, expected, what);
    free(found);
    free(expected);
    drop(&a);
    drop(&b);
    drop(&c);
    drop(&d);
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
    status = clattn_gemm_plan_create(&plan, context, &desc);
    if (status == CLATTN_UNSUPPORTED) {
        if (strstr(test_log_text, "wrong results") != NULL)
            fail_msg("%s: refused as wrong", what);
        return;
    }
    if (status != CLATTN_SUCCESS)
        fail_msg("%s: %s", what, test_log_text);
    assert_status(clattn_gemm_plan_get(plan, &info), SUCCESS);
    assert_string_equal(info.provider, provider);
    run(plan, &gemm, c->offset, what);
    clattn_gemm_plan_destroy(plan);
    runs++;
}

static void test_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int dtype = 0; dtype <= CLATTN_BF16 && (only == NULL || strcmp(only, cases[i].name) == 0); dtype++)
            for (uint32_t turned = 0; turned < 4; turned++)
                test_case(&cases[i], (clattn_dtype)dtype, turned);
    print_message("%d products by %s\n", runs, provider);
    if (runs == 0)
        skip();
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

    if (count < 2)
        return 2;
    provider = words[1];
    engine = count > 2 ? words[2] : engine;
    only = count > 3 ? words[3] : NULL;
    return cmocka_run_group_tests_name(provider, tests, open_engine, close_engine);
}
