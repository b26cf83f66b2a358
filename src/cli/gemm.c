/* clattn gemm: times matrix products by each provider. */
#include "cli/gemm.h"

#include "cli/device/measure.h"
#include "cli/out/origin.h"
#include "cli/out/progress.h"
#include "cli/out/stream.h"
#include "cli/io/words.h"
#include "tuner/timed_product.h"

#include <stdio.h>
#include <string.h>

/* ---- Products of the command line -------------------------------------------------------------------------------- */

static size_t dtype_count(const struct settings *settings)
{
    return settings->dtype_count > 0 ? settings->dtype_count : 1;
}

size_t gemm_desc_count(const struct settings *settings)
{
    return (settings->shape_count > 0 ? settings->shape_count : 1) * dtype_count(settings);
}

int gemm_desc_get(const struct settings *settings, size_t index, clattn_gemm_desc *desc)
{
    static const struct shape default_shape = {.seq_len = 1024, .value_dim = 1024, .key_dim = 1024};
    static const char *const layouts[] = {"nn", "tn", "nt", "tt"};
    const char *layout = settings->transpose != NULL ? settings->transpose : layouts[0];
    size_t types = dtype_count(settings);
    const struct shape *shape = settings->shape_count > 0 ? &settings->shapes[index / types] : &default_shape;

    *desc = (clattn_gemm_desc){.dtype = settings->dtype_count > 0 ? settings->dtypes[index % types] : CLATTN_F32,
                               .m = shape->seq_len,
                               .n = shape->value_dim,
                               .k = shape->key_dim,
                               .batch = shape->batch};
    for (uint32_t i = 0; i < 4; i++)
        if (strcmp(layout, layouts[i]) == 0) {
            desc->flags = i; /* CLATTN_GEMM_TRANS_A and CLATTN_GEMM_TRANS_B */
            return EXIT_OK;
        }
    return bad("--transpose is '%s', expected nn, nt, tn or tt", layout);
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

static const struct column columns[] = {
    {"provider", "provider", COLUMN_WORD, 0, 0},
    {"by", "by", COLUMN_WORD, 0, 2},
    {"dtype", "dtype", COLUMN_WORD, 0, 0},
    {"shape", "shape", COLUMN_WORD, 0, 0},
    {"time_ms", "ms", COLUMN_FIXED, 3, 0},
    {"min_ms", "min", COLUMN_FIXED, 3, 7},
    {"spread_percent", "spread %", COLUMN_FIXED, 1, 3},
    {"gflop_per_s", "GFLOP/s", COLUMN_FIXED, 1, 0},
    {"compute_percent", "% mad", COLUMN_FIXED, 1, 4},
    {"gb_per_s", "GB/s", COLUMN_FIXED, 1, 5},
    {"memory_percent", "% copy", COLUMN_FIXED, 1, 6},
    {"ok", "result", COLUMN_WORD, 0, 0},
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
    double flops = timed_product_flops(&product->gemm.desc) / timing->median,
           bytes = timed_product_bytes(product) / timing->median;

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

/* Adds the times if the plan's results are right; otherwise returns why there are none. */
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
    TRY(timed_product_check(product, plan, &right));
    if (right <= 0)
        return CLATTN_UNSUPPORTED;
    TRY(timed_product_time(product, plan, runs, 5, &timing));
    add_times(row, run, product, &timing);
    return CLATTN_SUCCESS;
}

/* provider NULL: the one that a plan chooses */
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

/* The provider of a product's n-th row: only the one that was asked for; else NULL, which a plan chooses, then each
 * that there is. Returns 0 past the last. */
static int nth_provider(const struct gemm_run *run, const struct gemm *gemm, int n, const char **name)
{
    const char *only = run->settings->provider;

    *name = only != NULL || n == 0 ? only : gemm_provider(run->target.device.context, gemm, n - 1);
    return n == 0 || (only == NULL && *name != NULL);
}

static int time_product(struct gemm_run *run, const clattn_gemm_desc *desc)
{
    const struct log log = {sink_log, &run->target.sink};
    struct timed_product product;
    clattn_status status = timed_product_open(&product, &run->target.device, desc, &log);
    const char *name;

    for (int n = 0; status == CLATTN_SUCCESS && !run->stream.stopped && nth_provider(run, &product.gemm, n, &name); n++)
        time_provider(run, &product, name);
    timed_product_close(&product);
    return status == CLATTN_SUCCESS ? EXIT_OK : library_error(&run->target.sink, "gemm", status);
}

/* The columns of every row that are known before it runs. A mistake in one of them costs no time. */
static int make_rows(struct gemm_run *run, cJSON *rows)
{
    const struct log log = {sink_log, &run->target.sink};
    clattn_gemm_desc desc;
    struct gemm gemm;
    const char *name;

    for (size_t i = 0; i < gemm_desc_count(run->settings); i++) {
        if (gemm_desc_get(run->settings, i, &desc) != EXIT_OK)
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
    for (size_t i = 0; i < gemm_desc_count(run->settings) && status == EXIT_OK && !stream->stopped; i++) {
        clattn_gemm_desc desc;
        status = gemm_desc_get(run->settings, i, &desc);
        if (status == EXIT_OK)
            status = time_product(run, &desc);
    }
    ended = stream_end(stream);
    return status == EXIT_OK ? ended : status;
}

int gemm_main(struct settings *settings)
{
    static struct gemm_run run; /* the thread that waits for signals may outlive this function */
    int status;

    run.settings = settings;
    stream_begin(&run.stream, settings->format);
    status = target_open(&run.target, settings->device);
    if (status == EXIT_OK && run.target.reference)
        status = bad("matrix products are timed on devices, not on the reference");
    if (status == EXIT_OK)
        status = time_all(&run);
    stream_close(&run.stream);
    target_close(&run.target);
    return status;
}
