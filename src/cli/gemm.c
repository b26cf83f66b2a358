/* clattn gemm: the time of matrix products, by each provider. */
#include "cli/gemm.h"

#include "cli/device/measure.h"
#include "cli/out/origin.h"
#include "cli/out/progress.h"
#include "cli/out/stream.h"
#include "cli/io/words.h"
#include "reference/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A product ---- */

size_t product_count(const struct settings *settings)
{
    return settings->shape_count > 0 ? settings->shape_count : 1;
}

const struct shape *product_shape(const struct settings *settings, size_t index)
{
    static const struct shape usual = {.seq_len = 1024, .value_dim = 1024, .key_dim = 1024};

    return settings->shape_count > 0 ? &settings->shapes[index] : &usual;
}

int product_desc(const struct settings *settings, const struct shape *shape, clattn_dtype dtype, clattn_gemm_desc *desc)
{
    static const char *const ways[] = {"nn", "tn", "nt", "tt"};
    const char *way = settings->transpose != NULL ? settings->transpose : ways[0];

    *desc = (clattn_gemm_desc){
        .dtype = dtype, .m = shape->seq_len, .n = shape->value_dim, .k = shape->key_dim, .batch = shape->batch};
    for (uint32_t i = 0; i < 4; i++)
        if (strcmp(way, ways[i]) == 0) {
            desc->flags = i; /* CLATTN_GEMM_TRANS_A and CLATTN_GEMM_TRANS_B */
            return EXIT_OK;
        }
    return bad("--transpose is '%s', expected nn, nt, tn or tt", way);
}

static clattn_status fill_buffer(struct timed_product *product, const struct target *target, enum gemm_operand id)
{
    const clattn_dtype dtype = product->gemm.desc.dtype;
    size_t bytes = (size_t)product->gemm.of[id].span * dtype_size(dtype);
    void *numbers = malloc(bytes);
    uint32_t seed = 1 + (uint32_t)id;
    cl_int error = CL_OUT_OF_HOST_MEMORY;

    for (int64_t i = 0; numbers != NULL && i < product->gemm.of[id].span; i++) {
        seed = seed * 1664525u + 1013904223u;
        number_store(dtype, numbers, i, (double)(seed >> 8) / (1 << 23) - 1);
    }
    if (numbers != NULL)
        product->buffers[id] = opencl_get()->CreateBuffer(target->device.cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                                          bytes, numbers, &error);
    free(numbers);
    return error == CL_SUCCESS ? CLATTN_SUCCESS : CLATTN_OUT_OF_MEMORY;
}

clattn_status product_open(struct timed_product *product, const struct target *target, const clattn_gemm_desc *desc)
{
    const struct log log = {sink_log, (void *)(uintptr_t)&target->sink};

    memset(product, 0, sizeof *product);
    TRY(gemm_read(&product->gemm, desc, sizeof *desc, &log));
    TRY(fill_buffer(product, target, GEMM_A));
    TRY(fill_buffer(product, target, GEMM_B));
    return fill_buffer(product, target, GEMM_D);
}

void product_close(struct timed_product *product)
{
    for (int i = 0; i < GEMM_OPERANDS; i++)
        if (product->buffers[i] != NULL)
            opencl_get()->ReleaseMemObject(product->buffers[i]);
}

struct launch {
    clattn_gemm_plan *plan;
    cl_command_queue queue;
    const struct timed_product *product;
};

static clattn_status enqueue(void *user, size_t run, cl_event *event)
{
    const struct launch *launch = user;
    const cl_mem *of = launch->product->buffers;
    const clattn_gemm_call call = {.a = of[GEMM_A], .b = of[GEMM_B], .d = of[GEMM_D]};

    (void)run;
    return clattn_gemm_enqueue(launch->plan, launch->queue, &call, 0, NULL, event);
}

clattn_status product_time(const struct timed_product *product, const struct target *target, clattn_gemm_plan *plan,
                           size_t runs, double budget, struct timing *timing)
{
    struct launch launch = {plan, target->device.queue, product};
    const struct timing_job job = {launch.queue, enqueue, &launch, {NULL, NULL}};

    return timing_measure(&job, runs, budget, timing);
}

clattn_status product_check(const struct timed_product *product, clattn_gemm_plan *plan, int *right)
{
    const clattn_gemm_desc *d = &product->gemm.desc;
    struct gemm small;

    if ((double)d->batch * (double)(d->m * d->k + d->k * d->n + d->m * d->n) < 1 << 25)
        return gemm_try(plan, &product->gemm, right);
    gemm_small(plan, &small);
    return gemm_try(plan, &small, right);
}

double product_flops(const clattn_gemm_desc *desc)
{
    return 2.0 * (double)desc->batch * (double)desc->m * (double)desc->n * (double)desc->k;
}

double product_bytes(const struct timed_product *product)
{
    double count = 0;

    for (int id = 0; id < GEMM_OPERANDS; id++)
        count += product->buffers[id] != NULL ? (double)product->gemm.of[id].span : 0;
    return count * (double)dtype_size(product->gemm.desc.dtype);
}

/* ---- The command ---- */

static const struct column columns[] = {
    {"provider", "provider", COLUMN_WORD, 0},
    {"by", "by", COLUMN_WORD, 0},
    {"dtype", "dtype", COLUMN_WORD, 0},
    {"shape", "shape", COLUMN_WORD, 0},
    {"time_ms", "ms", COLUMN_FIXED, 3},
    {"min_ms", "min", COLUMN_FIXED, 3},
    {"spread_percent", "spread %", COLUMN_FIXED, 1},
    {"gflop_per_s", "GFLOP/s", COLUMN_FIXED, 1},
    {"compute_percent", "% mad", COLUMN_FIXED, 1},
    {"gb_per_s", "GB/s", COLUMN_FIXED, 1},
    {"memory_percent", "% copy", COLUMN_FIXED, 1},
    {"ok", "result", COLUMN_WORD, 0},
    DEVICE_COLUMNS,
};

struct gemm_run {
    const struct settings *settings;
    struct target target;
    struct peak peak;
    struct stream stream;
};

static void add_share(cJSON *row, const char *key, double rate, double peak)
{
    if (peak > 0)
        cJSON_AddNumberToObject(row, key, 100 * rate / peak);
    else
        cJSON_AddNullToObject(row, key);
}

static void add_times(cJSON *row, const struct gemm_run *run, const struct timed_product *product,
                      const struct timing *timing)
{
    double flops = product_flops(&product->gemm.desc) / timing->median, bytes = product_bytes(product) / timing->median;

    cJSON_AddNumberToObject(row, "time_ms", 1e3 * timing->median);
    cJSON_AddNumberToObject(row, "min_ms", 1e3 * timing->min);
    cJSON_AddNumberToObject(row, "spread_percent", 100 * timing->spread);
    cJSON_AddNumberToObject(row, "gflop_per_s", 1e-9 * flops);
    add_share(row, "compute_percent", flops, run->peak.flops);
    cJSON_AddNumberToObject(row, "gb_per_s", 1e-9 * bytes);
    add_share(row, "memory_percent", bytes, run->peak.bytes);
}

static void add_problem(cJSON *row, const struct gemm_run *run, const clattn_gemm_desc *d)
{
    char shape[128];

    snprintf(shape, sizeof shape, "M=%lld,N=%lld,K=%lld,B=%lld,%c%c", (long long)d->m, (long long)d->n, (long long)d->k,
             (long long)d->batch, d->flags & CLATTN_GEMM_TRANS_A ? 't' : 'n',
             d->flags & CLATTN_GEMM_TRANS_B ? 't' : 'n');
    cJSON_AddStringToObject(row, "dtype", dtype_name(d->dtype));
    cJSON_AddStringToObject(row, "shape", shape);
    origin_add(row, &run->target);
}

/* The plan is right and timed, or the row says why not. */
static clattn_status time_plan(struct gemm_run *run, const struct timed_product *product, clattn_gemm_plan *plan,
                               cJSON *row)
{
    size_t runs = run->settings->repeat > 0 ? (size_t)run->settings->repeat : MEASURE_RUNS;
    clattn_gemm_info info;
    struct timing timing;
    char text[1024];
    int right = 0;

    TRY(clattn_gemm_plan_get(plan, &info));
    cJSON_ReplaceItemInObject(row, "provider", cJSON_CreateString(info.provider));
    cJSON_AddStringToObject(row, "by", info.chosen_by);
    TRY(clattn_gemm_plan_describe(plan, text, sizeof text));
    cJSON_AddStringToObject(row, "plan", text);
    if (run->settings->verbose)
        fprintf(stderr, "%s", text);
    TRY(product_check(product, plan, &right));
    if (right <= 0)
        return CLATTN_UNSUPPORTED;
    TRY(product_time(product, &run->target, plan, runs, 5, &timing));
    add_times(row, run, product, &timing);
    return CLATTN_SUCCESS;
}

/* provider NULL: what a plan takes by itself */
static void time_provider(struct gemm_run *run, const struct timed_product *product, const char *provider)
{
    clattn_gemm_desc desc = product->gemm.desc;
    cJSON *row = cJSON_CreateObject();
    clattn_gemm_plan *plan = NULL;
    clattn_status status;

    desc.provider = provider;
    progress_show(run->stream.done, run->stream.count, provider != NULL ? provider : "gemm");
    cJSON_AddStringToObject(row, "provider", provider != NULL ? provider : "");
    add_problem(row, run, &product->gemm.desc);
    status = clattn_gemm_plan_create(&plan, run->target.device.context, &desc);
    if (status == CLATTN_SUCCESS)
        status = time_plan(run, product, plan, row);
    clattn_gemm_plan_destroy(plan);
    if (status != CLATTN_SUCCESS)
        library_error(&run->target.sink, provider != NULL ? provider : "gemm", status);
    stream_row(&run->stream, row, status == CLATTN_SUCCESS);
}

/* The n-th of a product's rows: the provider that was asked for; or NULL, what a plan takes, and then each there is. */
static int nth_provider(const struct gemm_run *run, const struct gemm *gemm, int n, const char **name)
{
    const char *only = run->settings->provider;

    *name = only != NULL || n == 0 ? only : gemm_provider(run->target.device.context, gemm, n - 1);
    return n == 0 || (only == NULL && *name != NULL);
}

static int time_product(struct gemm_run *run, const clattn_gemm_desc *desc)
{
    struct timed_product product;
    clattn_status status = product_open(&product, &run->target, desc);
    const char *name;

    for (int n = 0; status == CLATTN_SUCCESS && !run->stream.stopped && nth_provider(run, &product.gemm, n, &name); n++)
        time_provider(run, &product, name);
    product_close(&product);
    return status == CLATTN_SUCCESS ? EXIT_OK : library_error(&run->target.sink, "gemm", status);
}

/* Of all shapes and types the n-th. EXIT_OK, or one line. */
static int nth_desc(const struct settings *settings, size_t n, clattn_gemm_desc *desc)
{
    size_t types = settings->dtype_count > 0 ? settings->dtype_count : 1;

    return product_desc(settings, product_shape(settings, n / types),
                        settings->dtype_count > 0 ? settings->dtypes[n % types] : CLATTN_F32, desc);
}

static size_t desc_count(const struct settings *settings)
{
    return product_count(settings) * (settings->dtype_count > 0 ? settings->dtype_count : 1);
}

/* What is known of every row before it is run: what is wrong with one costs no time. */
static int make_rows(struct gemm_run *run, cJSON *rows)
{
    const struct log log = {sink_log, &run->target.sink};
    clattn_gemm_desc desc;
    struct gemm gemm;
    const char *name;

    for (size_t i = 0; i < desc_count(run->settings); i++) {
        if (nth_desc(run->settings, i, &desc) != EXIT_OK)
            return EXIT_BAD;
        if (gemm_read(&gemm, &desc, sizeof desc, &log) != CLATTN_SUCCESS)
            return library_error(&run->target.sink, "gemm", CLATTN_INVALID_DESC);
        for (int n = 0; nth_provider(run, &gemm, n, &name); n++) {
            cJSON *row = cJSON_CreateObject();
            cJSON_AddStringToObject(row, "provider", name != NULL ? name : "");
            cJSON_AddStringToObject(row, "by", "rule of thumb");
            add_problem(row, run, &gemm.desc);
            cJSON_AddItemToArray(rows, row);
        }
    }
    return EXIT_OK;
}

static int time_all(struct gemm_run *run)
{
    struct stream *stream = &run->stream;
    cJSON *rows = cJSON_CreateArray();
    int status = make_rows(run, rows), ended;

    if (status != EXIT_OK) {
        cJSON_Delete(rows);
        return status;
    }
    stream_expect(stream, (size_t)cJSON_GetArraySize(rows));
    progress_show(0, stream->count, "peaks of the device");
    peak_measure(&run->target, &run->peak);
    stream_head(stream, columns, sizeof columns / sizeof *columns, rows, &run->target, &run->peak);
    for (size_t i = 0; i < desc_count(run->settings) && status == EXIT_OK && !stream->stopped; i++) {
        clattn_gemm_desc desc;
        status = nth_desc(run->settings, i, &desc);
        if (status == EXIT_OK)
            status = time_product(run, &desc);
    }
    ended = stream_end(stream);
    return status == EXIT_OK ? ended : status;
}

int gemm_main(struct settings *settings)
{
    static struct gemm_run run; /* outlived by who waits for signals */
    int status;

    run.settings = settings;
    stream_begin(&run.stream, settings->format);
    status = target_open(&run.target, settings->device);
    if (status == EXIT_OK && run.target.reference)
        status = bad("matrix products are timed on devices, not on the reference");
    if (status == EXIT_OK)
        status = time_all(&run);
    stream_drop(&run.stream);
    target_close(&run.target);
    return status;
}
