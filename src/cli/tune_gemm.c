/* clattn tune --gemm: the fastest provider of matrix products, and its parameters. */
#include "base/text.h"
#include "cli/gemm.h"
#include "cli/io/words.h"
#include "cli/tune.h"
#include "tuner/gemm_search.h"

#include <stdio.h>
#include <stdlib.h>

static const double default_budget = 60;

static void print_found(void *user, const char *provider, const struct tuning_entry *entry)
{
    const clattn_gemm_desc *desc = user;

    text_print(stdout, "  %-8s %10.3f ms, by rule of thumb %.3f ms, %.1f GFLOP/s\n", provider, entry->time_ms,
               entry->default_ms, 1e-6 * timed_product_flops(desc) / entry->time_ms);
    fflush(stdout);
}

static int search_all(const struct settings *settings, struct target *target, struct tuning_table *table)
{
    clattn_gemm_desc desc;
    const struct gemm_search search = {.device = &target->device,
                                       .log = {sink_log, &target->sink},
                                       .budget = settings->budget > 0 ? settings->budget : default_budget,
                                       .seed = (uint32_t)settings->seed + 1,
                                       .found = print_found,
                                       .user = &desc};

    for (size_t i = 0; i < gemm_desc_count(settings); i++) {
        clattn_gemm_desc full;
        clattn_status status;
        if (gemm_desc_get(settings, i, &desc) != EXIT_OK)
            return EXIT_BAD;
        full = desc;
        desc.batch = desc.batch > 0 ? desc.batch : 1;
        printf("%s m=%lld n=%lld k=%lld\n", dtype_name(desc.dtype), (long long)desc.m, (long long)desc.n,
               (long long)desc.k);
        status = gemm_search(&search, &full, table);
        if (status != CLATTN_SUCCESS)
            return library_error(&target->sink, "gemm", status);
        target->sink.error[0] = '\0'; /* of points that failed */
    }
    return EXIT_OK;
}

int tune_gemm(struct settings *settings)
{
    struct tuning_table table = {NULL, 0};
    struct target target = {.reference = 0};
    char *path = tuning_user_path();
    int status;

    if (path == NULL && !settings->dry_run)
        return bad("there is no tuning file: CLATTN_TUNING is empty, or the user has no home");
    status = target_open(&target, settings->device);
    if (status == EXIT_OK && target.reference)
        status = bad("the reference has nothing to tune");
    if (status == EXIT_OK)
        status = search_all(settings, &target, &table);
    if (status == EXIT_OK && !settings->dry_run &&
        tuning_table_save(&table, path, &(struct log){sink_log, &target.sink}) != CLATTN_SUCCESS)
        status = library_error(&target.sink, path, CLATTN_DEVICE_ERROR);
    tuning_table_free(&table);
    target_close(&target);
    free(path);
    return status;
}
