#include "tuner/gemm_search.h"

#include "base/system.h"
#include "solve/gemm/clblast.h"
#include "tune/gemm_key.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { RUNS = 10 };
static const double gain = 0.02; /* an improvement below this share is noise */

struct state {
    const struct gemm_search *search;
    struct timed_product product;
    double end; /* of the provider's budget, by now_seconds() */
    uint32_t seed;
    struct tuned best;
    double best_seconds; /* infinite: nothing worked yet */
};

/* Infinite if the point does not build, does not run, or computes something else. */
static double time_point(struct state *state, const struct tuned *point)
{
    clattn_gemm_plan *plan = NULL;
    struct timing timing;
    double seconds = (double)INFINITY;
    int right = 0;

    if (gemm_plan_tuned(&plan, state->search->device->context, &state->product.gemm.desc, point) == CLATTN_SUCCESS &&
        timed_product_check(&state->product, plan, &right) == CLATTN_SUCCESS && right > 0 &&
        timed_product_time(&state->product, plan, RUNS, 1, &timing) == CLATTN_SUCCESS)
        seconds = timing.median;
    clattn_gemm_plan_destroy(plan);
    return seconds;
}

/* Returns whether the point is the best now. */
static int try_point(struct state *state, const struct tuned *point)
{
    double seconds = time_point(state, point);

    if (!(seconds < (1 - gain) * state->best_seconds))
        return 0;
    state->best = *point;
    state->best_seconds = seconds;
    return 1;
}

/* One round over all parameters; returns whether it improved anything. */
static int improve_each(struct state *state)
{
    const struct parameter *parameters = state->best.space->parameters;
    int better = 0;

    for (int i = 0; parameters[i].name != NULL; i++)
        for (const int16_t *value = parameters[i].values; *value != BY_HEURISTIC; value++) {
            struct tuned point = state->best;
            if (now_seconds() > state->end)
                return 0;
            if (point.values[i] == *value)
                continue;
            point.values[i] = *value;
            better |= try_point(state, &point);
        }
    return better;
}

static unsigned random_below(struct state *state, unsigned count)
{
    state->seed = state->seed * 1664525u + 1013904223u;
    return (state->seed >> 8) % count;
}

static void draw_clblast(struct state *state, struct tuned *point)
{
    const struct parameter *parameters = point->space->parameters;
    struct clblast_tiles tiles;

    do {
        for (int i = 0; parameters[i].name != NULL; i++) {
            unsigned count = 0;
            while (parameters[i].values[count] != BY_HEURISTIC)
                count++;
            point->values[i] = parameters[i].values[random_below(state, count)];
        }
        tuned_tiles(point, &tiles, sizeof tiles);
    } while (!clblast_is_sound(&tiles, state->search->device->context->device.info.max_work_group));
}

static void search_space(struct state *state, int is_clblast)
{
    while (is_clblast && now_seconds() < state->end) {
        struct tuned point = state->best;
        draw_clblast(state, &point);
        try_point(state, &point);
    }
    while (!is_clblast && improve_each(state))
        continue;
}

static void fill_entry(struct tuning_entry *entry, const struct state *state, double default_seconds)
{
    time_t now = time(NULL);

    entry->tuned = state->best;
    entry->time_ms = 1e3 * state->best_seconds;
    entry->default_ms = isfinite(default_seconds) ? 1e3 * default_seconds : entry->time_ms;
    entry->seq_len = state->product.gemm.desc.m;
    snprintf(entry->tuner, sizeof entry->tuner, "%s", clattn_version());
    strftime(entry->date, sizeof entry->date, "%Y-%m-%d", gmtime(&now));
}

/* The best point of a provider goes into the table, unless none works. */
static clattn_status search_provider(struct state *state, const char *provider, struct tuning_table *table)
{
    const struct gemm_search *search = state->search;
    struct tuning_entry entry;
    char name[32];
    double default_seconds;

    snprintf(name, sizeof name, "gemm_%s", provider);
    gemm_key(&entry, search->device->context, &state->product.gemm, gemm_space_find(name));
    state->end = now_seconds() + search->budget;
    state->best = entry.tuned;
    state->best_seconds = default_seconds = time_point(state, &entry.tuned);
    search_space(state, strcmp(provider, "clblast") == 0);
    if (!isfinite(state->best_seconds))
        return CLATTN_SUCCESS;
    fill_entry(&entry, state, default_seconds);
    if (search->found != NULL)
        search->found(search->user, provider, &entry);
    return tuning_table_put(table, &entry);
}

static void mark_fastest(struct tuning_table *table, size_t first)
{
    struct tuning_entry *best = NULL;

    for (size_t i = first; i < table->count; i++)
        if (best == NULL || table->entries[i].time_ms < best->time_ms)
            best = &table->entries[i];
    if (best != NULL)
        best->from_rows = 0;
}

clattn_status gemm_search(const struct gemm_search *search, const clattn_gemm_desc *desc, struct tuning_table *table)
{
    struct state state = {.search = search, .seed = search->seed};
    size_t first = table->count;
    const char *provider;
    clattn_status status = timed_product_open(&state.product, search->device, desc, &search->log);

    for (int i = 0; status == CLATTN_SUCCESS &&
                    (provider = gemm_provider(search->device->context, &state.product.gemm, i)) != NULL;
         i++)
        status = search_provider(&state, provider, table);
    timed_product_close(&state.product);
    mark_fastest(table, first);
    return status;
}
