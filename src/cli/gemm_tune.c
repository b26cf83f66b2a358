/* clattn tune --gemm: which provider of a matrix product is the fastest, and with which parameters. A parameter at a
 * time, again until none helps or the time is over; every point's numbers are checked before its time counts.
 * CLBlast's parameters bind each other: its points are drawn, of those that keep its constraints. */
#include "base/text.h"
#include "cli/gemm.h"

#include "base/system.h"

#include "solve/gemm/clblast.h"
#include "tune/gemm_key.h"
#include "tune/tuning_layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 10 };

struct search {
    const struct settings *settings;
    struct target target;
    struct timed_product product;
    struct tuning_table table; /* what is to be kept */
    double ends;               /* of the provider at hand, by now_seconds() */
    size_t points;
    uint32_t seed;
};

/* Seconds of a point; HUGE where it does not build, run or compute what it should. */
static double time_point(struct search *search, const struct tuned *tuned)
{
    clattn_gemm_plan *plan = NULL;
    struct timing timing;
    double seconds = 1e30;
    int right = 0;

    search->points++;
    if (gemm_plan_tuned(&plan, search->target.device.context, &search->product.gemm.desc, tuned) == CLATTN_SUCCESS &&
        product_check(&search->product, plan, &right) == CLATTN_SUCCESS && right > 0 &&
        product_time(&search->product, &search->target, plan, RUNS, 1, &timing) == CLATTN_SUCCESS)
        seconds = timing.median;
    clattn_gemm_plan_destroy(plan);
    search->target.sink.error[0] = '\0';
    return seconds;
}

static int take_better(struct search *search, const struct tuned *point, struct tuned *best, double *least)
{
    double seconds = time_point(search, point);

    if (seconds >= 0.98 * *least)
        return 0;
    *best = *point;
    *least = seconds;
    return 1;
}

/* One round over all parameters; whether it helped. */
static int improve(struct search *search, struct tuned *best, double *least)
{
    const struct parameter *parameters = best->space->parameters;
    int better = 0;

    for (int i = 0; parameters[i].name != NULL; i++)
        for (const int16_t *value = parameters[i].values; *value != BY_THUMB; value++) {
            struct tuned point = *best;
            if (now_seconds() > search->ends)
                return 0;
            if (point.values[i] == *value)
                continue;
            point.values[i] = *value;
            better |= take_better(search, &point, best, least);
        }
    return better;
}

/* ---- CLBlast's ---- */

static unsigned draw(struct search *search, unsigned count)
{
    search->seed = search->seed * 1664525u + 1013904223u;
    return (search->seed >> 8) % count;
}

static void draw_point(struct search *search, struct tuned *point)
{
    const struct parameter *parameters = point->space->parameters;
    struct clblast_tiles tiles;

    do {
        for (int i = 0; parameters[i].name != NULL; i++) {
            unsigned count = 0;
            while (parameters[i].values[count] != BY_THUMB)
                count++;
            point->values[i] = parameters[i].values[draw(search, count)];
        }
        tuned_tiles(point, &tiles, sizeof tiles);
    } while (!clblast_is_sound(&tiles, search->target.info.max_work_group));
}

static void search_clblast(struct search *search, struct tuned *best, double *least)
{
    while (now_seconds() < search->ends) {
        struct tuned point = *best;
        draw_point(search, &point);
        take_better(search, &point, best, least);
    }
}

/* ---- All providers ---- */

/* The best of a provider, as an entry that is not the fastest of all yet. */
static clattn_status search_provider(struct search *search, const char *provider)
{
    char name[32];
    struct tuning_entry entry;
    time_t now = time(NULL);
    double least, first;

    snprintf(name, sizeof name, "gemm_%s", provider);
    gemm_key(&entry, search->target.device.context, &search->product.gemm, gemm_space_find(name));
    search->ends = now_seconds() + (search->settings->budget > 0 ? search->settings->budget : 60);
    least = first = time_point(search, &entry.tuned);
    if (strcmp(provider, "clblast") == 0)
        search_clblast(search, &entry.tuned, &least);
    else
        while (improve(search, &entry.tuned, &least))
            ;
    if (least >= 1e30)
        return CLATTN_SUCCESS;
    entry.time_ms = 1e3 * least;
    entry.default_ms = first < 1e30 ? 1e3 * first : entry.time_ms;
    entry.seq_len = search->product.gemm.desc.m;
    snprintf(entry.tuner, sizeof entry.tuner, "%s", clattn_version());
    strftime(entry.date, sizeof entry.date, "%Y-%m-%d", gmtime(&now));
    text_print(stdout, "  %-8s %10.3f ms, by rule of thumb %.3f ms, %.1f GFLOP/s\n", provider, entry.time_ms,
               entry.default_ms, 1e-9 * product_flops(&search->product.gemm.desc) / least);
    fflush(stdout);
    return tuning_table_put(&search->table, &entry);
}

/* The fastest of the entries from `first` on is the one to take. */
static void mark_fastest(struct search *search, size_t first)
{
    struct tuning_entry *best = NULL;

    for (size_t i = first; i < search->table.count; i++)
        if (best == NULL || search->table.entries[i].time_ms < best->time_ms)
            best = &search->table.entries[i];
    if (best != NULL)
        best->from_rows = 0;
}

static clattn_status search_product(struct search *search, const clattn_gemm_desc *desc)
{
    size_t first = search->table.count;
    const char *provider;
    clattn_status status;

    printf("%s m=%lld n=%lld k=%lld\n", dtype_name(desc->dtype), (long long)desc->m, (long long)desc->n,
           (long long)desc->k);
    status = product_open(&search->product, &search->target, desc);
    for (int i = 0; status == CLATTN_SUCCESS &&
                    (provider = gemm_provider(search->target.device.context, &search->product.gemm, i)) != NULL;
         i++)
        status = search_provider(search, provider);
    product_close(&search->product);
    mark_fastest(search, first);
    return status;
}

static int search_all(struct search *search)
{
    const struct settings *settings = search->settings;
    size_t types = settings->dtype_count > 0 ? settings->dtype_count : 1;

    for (size_t i = 0; i < product_count(settings) * types; i++) {
        clattn_gemm_desc desc;
        clattn_status status;
        if (product_desc(settings, product_shape(settings, i / types),
                         settings->dtype_count > 0 ? settings->dtypes[i % types] : CLATTN_F32, &desc) != EXIT_OK)
            return EXIT_BAD;
        status = search_product(search, &desc);
        if (status != CLATTN_SUCCESS)
            return library_error(&search->target.sink, "gemm", status);
    }
    return EXIT_OK;
}

int gemm_tune_main(struct settings *settings)
{
    struct search search = {.settings = settings, .seed = (uint32_t)settings->seed + 1};
    char *path = tuning_user_path();
    int status = EXIT_OK;

    if (path == NULL && !settings->dry_run)
        return bad("there is no tuning file: CLATTN_TUNING is empty, or the user has no home");
    status = target_open(&search.target, settings->device);
    if (status == EXIT_OK && search.target.reference)
        status = bad("the reference has nothing to tune");
    if (status == EXIT_OK)
        status = search_all(&search);
    if (status == EXIT_OK && !settings->dry_run &&
        tuning_table_save(&search.table, path, &(struct log){sink_log, &search.target.sink}) != CLATTN_SUCCESS)
        status = library_error(&search.target.sink, path, CLATTN_DEVICE_ERROR);
    tuning_table_free(&search.table);
    target_close(&search.target);
    free(path);
    return status;
}
