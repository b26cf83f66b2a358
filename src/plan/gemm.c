/* A matrix product's plan: which way computes it. */
#include "plan/gemm.h"

#include "base/sized.h"
#include "device/program.h"
#include "plan/probe.h"
#include "solve/solve.h"
#include "tune/gemm_key.h"
#include "tune/tuning_layers.h"

#include <stdlib.h>
#include <string.h>

/* ---- One way ------------------------------------------------------------------------------------------------------
 */

/* Whether the way is for the product, and the engine that it needs works. */
static int takes(clattn_context *context, const struct gemm_way *way, const struct gemm *gemm)
{
    if (!way->applies(context, gemm))
        return 0;
    if (way->space == NULL || !way->space->engine || gemm->desc.dtype == CLATTN_F32)
        return 1;
    return probe_engine(context, &gemm->ground, 0) == CLATTN_SUCCESS &&
           (!way->teams || probe_engine(context, &gemm->ground, 1) == CLATTN_SUCCESS);
}

/* Halves the groups until the device takes the kernel. */
static clattn_status bind_any(clattn_gemm_plan *plan, const struct gemm_way *way, const struct tuned *tuned)
{
    const clattn_context *context = plan->context;
    struct device_facts facts = {
        .device = &context->device, .engine = context->engine, .most_group = gemm_largest_group(context)};
    clattn_status status;

    do {
        status = gemm_choose(&plan->choice, way, &facts, &plan->gemm, tuned);
        if (status == CLATTN_SUCCESS)
            status = gemm_plan_bind(plan);
        facts.most_group /= 2;
    } while (status == CLATTN_UNSUPPORTED && facts.most_group >= 1);
    return status;
}

static clattn_status attempt(clattn_gemm_plan *plan, const struct gemm_way *way, const struct tuned *tuned)
{
    const char *device = plan->context->device.info.name;
    clattn_status status;

    TRY(bind_any(plan, way, tuned));
    if (way->prepare != NULL)
        TRY(way->prepare(plan->context, &plan->gemm, plan->choice.tiles));
    status = gemm_test(plan);
    plan->rejected += status == CLATTN_UNSUPPORTED;
    if (status != CLATTN_SUCCESS)
        log_line(&plan->log, CLATTN_LOG_WARNING, "gemm on %s: provider %s %s", device, way->provider,
                 status == CLATTN_UNSUPPORTED ? "gives wrong results: not used" : "cannot be run: not used this time");
    return status;
}

/* ---- Choosing -----------------------------------------------------------------------------------------------------
 */

static const struct tuning_entry *find_entry(const clattn_gemm_plan *plan, const struct gemm_way *way, int *layer)
{
    struct tuning_entry key;

    if (way->space == NULL || tuning_is_empty(plan->context))
        return NULL;
    gemm_key(&key, plan->context, &plan->gemm, way->space);
    return tuning_find_key(plan->context, &key, plan->context->self_test, layer);
}

static int is_wanted(const clattn_gemm_plan *plan, const struct gemm_way *way)
{
    const char *asked = plan->gemm.desc.provider;

    return (asked == NULL || strcmp(asked, way->provider) == 0) && !(plan->varies && way->fixed) &&
           takes(plan->context, way, &plan->gemm);
}

/* The way that was the fastest when all were measured; or the one that is asked for, as it was measured. */
static clattn_status choose_measured(clattn_gemm_plan *plan)
{
    for (int i = 0; gemm_ways[i] != NULL; i++) {
        int layer;
        const struct tuning_entry *entry = find_entry(plan, gemm_ways[i], &layer);
        if (entry == NULL || (entry->from_rows < 0 && plan->gemm.desc.provider == NULL) ||
            !is_wanted(plan, gemm_ways[i]))
            continue;
        plan->chosen_by = tuning_layer_name(plan->context->tuning, layer);
        if (attempt(plan, gemm_ways[i], &entry->tuned) == CLATTN_SUCCESS)
            return CLATTN_SUCCESS;
    }
    return CLATTN_UNSUPPORTED;
}

static clattn_status choose_by_thumb(clattn_gemm_plan *plan)
{
    clattn_status status = CLATTN_UNSUPPORTED;

    plan->chosen_by = plan->gemm.desc.provider != NULL ? "the caller" : "rule of thumb";
    for (int i = 0; gemm_ways[i] != NULL && status != CLATTN_SUCCESS; i++)
        if (is_wanted(plan, gemm_ways[i]))
            status = attempt(plan, gemm_ways[i], NULL);
    return status;
}

static clattn_status no_provider(const clattn_gemm_plan *plan, const struct log *log)
{
    const clattn_gemm_desc *d = &plan->gemm.desc;

    return FAIL(log, UNSUPPORTED, "gemm: m %lld, n %lld, k %lld in %s: %s%s computes it on %s", (long long)d->m,
                (long long)d->n, (long long)d->k, dtype_name(d->dtype),
                d->provider != NULL ? "not what is asked for, " : "nothing", d->provider != NULL ? d->provider : "",
                plan->context->device.info.name);
}

/* What keeps one way from being used is an error where none is. */
static clattn_status choose(clattn_gemm_plan *plan)
{
    const struct log log = plan->log;
    struct log_tried tried = {log, ""};
    clattn_status status = CLATTN_UNSUPPORTED;

    plan->log = (struct log){log_try, &tried};
    if (plan->gemm.desc.callback == NULL)
        status = choose_measured(plan);
    if (status != CLATTN_SUCCESS)
        status = choose_by_thumb(plan);
    plan->log = plan->context->log;
    if (status == CLATTN_UNSUPPORTED)
        return no_provider(plan, &tried.to);
    if (status != CLATTN_SUCCESS)
        log_give_up(&tried);
    else
        program_keep(plan->context);
    return status;
}

/* ---- The interface ------------------------------------------------------------------------------------------------
 */

static clattn_status open_desc(clattn_gemm_plan **plan, clattn_context *context, const struct log *log,
                               const clattn_gemm_desc *desc, size_t size)
{
    TRY(gemm_plan_open(plan, context, log));
    return gemm_plan_made(plan, gemm_read(&(*plan)->gemm, desc, size, log));
}

clattn_status gemm_plan_by(clattn_gemm_plan **plan, clattn_context *context, const clattn_gemm_desc *desc,
                           const struct gemm_way *way)
{
    TRY(open_desc(plan, context, &context->log, desc, sizeof *desc));
    (*plan)->chosen_by = "the caller";
    return gemm_plan_made(plan, attempt(*plan, way, NULL));
}

clattn_status gemm_plan_tuned(clattn_gemm_plan **plan, clattn_context *context, const clattn_gemm_desc *desc,
                              const struct tuned *tuned)
{
    clattn_status status = CLATTN_UNSUPPORTED;

    TRY(open_desc(plan, context, &context->log, desc, sizeof *desc));
    (*plan)->chosen_by = "the caller";
    for (int i = 0; gemm_ways[i] != NULL; i++)
        if (gemm_ways[i]->space == tuned->space && takes(context, gemm_ways[i], &(*plan)->gemm))
            status = attempt(*plan, gemm_ways[i], tuned);
    return gemm_plan_made(plan, status);
}

const char *gemm_provider(clattn_context *context, const struct gemm *gemm, int index)
{
    for (int i = 0; gemm_ways[i] != NULL; i++)
        if (gemm_ways[i]->space != NULL && takes(context, gemm_ways[i], gemm) && index-- == 0)
            return gemm_ways[i]->provider;
    return NULL;
}

/* ---- For a recipe's products --------------------------------------------------------------------------------------
 */

clattn_status planner_choose(const struct planner *planner, const struct gemm *gemm, int varies,
                             struct gemm_choice *choice)
{
    clattn_gemm_plan *plan;
    clattn_status status;

    TRY(open_desc(&plan, planner->context, planner->log, &gemm->desc, sizeof gemm->desc));
    plan->varies = varies;
    status = choose(plan);
    *choice = plan->choice;
    clattn_gemm_plan_destroy(plan);
    return status;
}

clattn_status planner_choose_untried(const struct planner *planner, const struct gemm *gemm, int varies,
                                     struct gemm_choice *choice)
{
    return gemm_choose_untried(choice, planner->context, gemm, varies);
}

clattn_status gemm_plan_deep(clattn_gemm_plan **plan, clattn_context *context, const clattn_gemm_desc *desc)
{
    TRY(open_desc(plan, context, &context->log, desc, sizeof *desc));
    (*plan)->gemm.depth_varies = (*plan)->varies = 1;
    return gemm_plan_made(plan, choose(*plan));
}

clattn_status clattn_gemm_plan_create_sized(clattn_gemm_plan **plan, clattn_context *context,
                                            const clattn_gemm_desc *desc, size_t desc_size)
{
    if (plan == NULL)
        return CLATTN_INVALID_ARGUMENT;
    *plan = NULL;
    if (context == NULL)
        return CLATTN_INVALID_ARGUMENT;
    TRY(open_desc(plan, context, &context->log, desc, desc_size));
    return gemm_plan_made(plan, choose(*plan));
}

clattn_status clattn_gemm_plan_get_sized(const clattn_gemm_plan *plan, clattn_gemm_info *info, size_t info_size)
{
    clattn_gemm_info ours;

    if (plan == NULL || info == NULL)
        return CLATTN_INVALID_ARGUMENT;
    ours = (clattn_gemm_info){.desc = &plan->gemm.desc,
                              .provider = plan->choice.way->provider,
                              .chosen_by = plan->chosen_by,
                              .rejected = plan->rejected,
                              .scratch = plan->choice.way->allocates};
    sized_write(info, info_size, &ours, sizeof ours);
    return CLATTN_SUCCESS;
}

clattn_status clattn_gemm_plan_describe(const clattn_gemm_plan *plan, char *to, size_t size)
{
    struct text text = {0};
    const struct gemm_way *way;
    const clattn_gemm_desc *d;
    char *whole;

    if (plan == NULL || to == NULL || size == 0)
        return CLATTN_INVALID_ARGUMENT;
    d = &plan->gemm.desc;
    way = plan->choice.way;
    text_format(&text, "gemm %s, m=%lld n=%lld k=%lld batch=%lld%s%s, on %s\nprovider %s, by %s%s\n",
                dtype_name(d->dtype), (long long)d->m, (long long)d->n, (long long)d->k, (long long)d->batch,
                d->flags & CLATTN_GEMM_TRANS_A ? ", a transposed" : "",
                d->flags & CLATTN_GEMM_TRANS_B ? ", b transposed" : "", plan->context->device.info.name, way->provider,
                plan->chosen_by, way->allocates ? ", which allocates scratch at a call" : "");
    if (gemm_has_kernel(way)) {
        text_format(&text, "  %-10s ", plan->choice.shape.step.name);
        way->describe(&text, plan->choice.tiles, &plan->choice.shape);
    }
    whole = text_take(&text);
    if (whole == NULL)
        return CLATTN_OUT_OF_MEMORY;
    text_fit(to, size, "%s", whole);
    free(whole);
    return CLATTN_SUCCESS;
}
