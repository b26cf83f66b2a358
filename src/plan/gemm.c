/* A matrix product's plan: which provider computes it, and its launch. */
#include "plan/gemm.h"

#include "base/sized.h"
#include "device/program.h"
#include "plan/plan.h"
#include "plan/probe.h"
#include "tune/gemm_space.h"
#include "tune/tuning_layers.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_GROUP = 256, SHARED_VEC = 4 };

/* ---- Providers ----------------------------------------------------------------------------------------------------
 */

struct provider {
    const char *name;
    /* Whether it is for the product on the device. */
    int (*takes)(clattn_context *context, const struct gemm *gemm);
    /* The kernel of the library's own, by whether numbers have 16 bits; KERNEL_COUNT: another's. */
    enum kernel_id kernel, halves;
    int engine;        /* whether that is of the device's matrix engine */
    int fixed;         /* whether it is made, and tried, for the plan's sizes alone */
    const char *space; /* what tuning may choose; NULL: nothing */
};

static int takes_callback(clattn_context *context, const struct gemm *gemm)
{
    (void)context;
    return gemm->desc.callback != NULL;
}

static int takes_few(clattn_context *context, const struct gemm *gemm)
{
    (void)context;
    return gemm_few(gemm) > 0;
}

static int has_engine(const clattn_context *context, const struct gemm *gemm)
{
    return context->engine != NULL && (gemm->desc.dtype != CLATTN_F32 || context->engine->exact != FILE_nothing);
}

static int takes_engine(clattn_context *context, const struct gemm *gemm)
{
    return has_engine(context, gemm) &&
           (gemm->desc.dtype == CLATTN_F32 || probe_engine(context, &gemm->ground, 0) == CLATTN_SUCCESS);
}

/* Where nobody asks for it by name, of products with tiles enough for the device. */
static int takes_team(clattn_context *context, const struct gemm *gemm)
{
    enum { ROWS = 64, COLUMNS = 128 };
    const clattn_gemm_desc *d = &gemm->desc;
    int64_t tiles = divide_up(d->m, ROWS) * divide_up(d->n, COLUMNS) * d->batch;

    return takes_engine(context, gemm) && d->dtype != CLATTN_F32 &&
           (d->provider != NULL || tiles >= context->device.info.compute_units / 2) &&
           probe_engine(context, &gemm->ground, 1) == CLATTN_SUCCESS;
}

static int takes_any(clattn_context *context, const struct gemm *gemm)
{
    (void)context, (void)gemm;
    return 1;
}

/* In the order in which they are tried where nothing was measured. */
static const struct provider providers[] = {
    {"callback", takes_callback, KERNEL_COUNT, KERNEL_COUNT, 0, 1, NULL},
    {"gemv", takes_few, KERNEL_GEMV, KERNEL_GEMV, 0, 1, "gemm_gemv"},
    {"team", takes_team, KERNEL_COUNT, KERNEL_GEMM_TEAM, 1, 0, "gemm_team"},
    {"engine", takes_engine, KERNEL_GEMM, KERNEL_GEMM_MATRIX, 1, 0, "gemm_engine"},
    {"plain", takes_any, KERNEL_GEMM, KERNEL_GEMM, 0, 0, "gemm_plain"},
    {"clblast", clblast_takes, KERNEL_COUNT, KERNEL_COUNT, 0, 1, "gemm_clblast"},
};
enum { PROVIDER_COUNT = sizeof providers / sizeof *providers };

/* ---- Choosing -----------------------------------------------------------------------------------------------------
 */

/* Tiles, some of them as given, and the kernel. */
static clattn_status bind(clattn_gemm_plan *plan, const struct tiles *given, int most_group)
{
    const struct family *family = kernel_family(plan->variant.kernel);
    struct variant *variant = &plan->variant;

    TRY(family->heuristic(&plan->context->device, variant, most_group));
    if (given != NULL) {
        for (size_t i = 0; i < sizeof *given / sizeof(int); i++)
            if (((const int *)given)[i] != 0)
                ((int *)&variant->tiles)[i] = ((const int *)given)[i];
        TRY(family->complete(&plan->context->device, variant));
    }
    kernel_release(plan->context, &plan->kernel);
    plan->layout = kernel_layout(variant);
    plan->hash = (struct hash){0, 0};
    return kernel_create(plan->context, &plan->log, &plan->layout.step, &plan->kernel, &plan->hash);
}

static int largest_group(const clattn_context *context)
{
    size_t most = context->device.info.max_work_group;

    return most < MOST_GROUP ? (int)most : MOST_GROUP;
}

/* Halves the groups until the device takes the kernel. */
static clattn_status bind_any(clattn_gemm_plan *plan, const struct tiles *given)
{
    int most_group = largest_group(plan->context);
    clattn_status status;

    do {
        status = bind(plan, given, most_group);
        most_group /= 2;
    } while (status == CLATTN_UNSUPPORTED && most_group >= 1);
    return status;
}

/* Its kernel; that of another's is KERNEL_COUNT. */
static struct variant variant_of(const clattn_context *context, const struct gemm *gemm,
                                 const struct provider *provider, const struct tiles *given)
{
    enum kernel_id kernel = gemm->desc.dtype == CLATTN_F32 ? provider->kernel : provider->halves;

    if (kernel == KERNEL_GEMM && !provider->engine && context->device.serial &&
        (given == NULL || given->vec != SHARED_VEC))
        kernel = KERNEL_GEMM_SERIAL;
    return (struct variant){
        .kernel = kernel, .problem = &gemm->ground, .gemm = gemm, .engine = provider->engine ? context->engine : NULL};
}

static clattn_status open_provider(clattn_gemm_plan *plan, const struct provider *provider, const struct tiles *given)
{
    kernel_release(plan->context, &plan->kernel);
    plan->provider = provider;
    plan->calls_back = provider->takes == takes_callback;
    plan->variant = variant_of(plan->context, &plan->gemm, provider, given);
    return plan->variant.kernel != KERNEL_COUNT ? bind_any(plan, given) : CLATTN_SUCCESS;
}

/* Whether the provider has tiles for the product, in groups of any size. */
static int has_tiles(const clattn_context *context, const struct gemm *gemm, const struct provider *provider)
{
    struct variant variant = variant_of(context, gemm, provider, NULL);
    int most_group = largest_group(context);

    if (variant.kernel == KERNEL_COUNT)
        return !provider->engine;
    while (most_group >= 1 &&
           kernel_family(variant.kernel)->heuristic(&context->device, &variant, most_group) != CLATTN_SUCCESS)
        most_group /= 2;
    return most_group >= 1;
}

int gemm_fits(clattn_context *context, const clattn_gemm_desc *desc, int any_sizes)
{
    struct gemm gemm;

    if (gemm_read(&gemm, desc, sizeof *desc, &context->log) != CLATTN_SUCCESS)
        return 0;
    for (int i = 0; i < PROVIDER_COUNT; i++) {
        const struct provider *provider = &providers[i];
        int takes = provider->engine ? has_engine(context, &gemm) : provider->takes(context, &gemm);
        if (takes && !(any_sizes && provider->fixed) && has_tiles(context, &gemm, provider))
            return 1;
    }
    return 0;
}

/* What a point of a space says of tiles: 0 what it leaves to the rule of thumb. */
static struct tiles tuned_tiles(const struct tuned *tuned)
{
    struct tiles tiles;

    memset(&tiles, 0, sizeof tiles);
    for (int i = 0; tuned->space->parameters[i].name != NULL; i++)
        if (tuned->values[i] != BY_THUMB)
            memcpy((char *)&tiles + tuned->space->parameters[i].field, &tuned->values[i], sizeof(int));
    return tiles;
}

static clattn_status attempt(clattn_gemm_plan *plan, const struct provider *provider, const struct tiles *given)
{
    const struct log *log = &plan->log;
    clattn_status status;

    TRY(open_provider(plan, provider, given));
    status = gemm_test(plan);
    plan->rejected += status == CLATTN_UNSUPPORTED;
    if (status != CLATTN_SUCCESS)
        log_line(log, CLATTN_LOG_WARNING, "gemm on %s: provider %s %s", plan->context->device.info.name, provider->name,
                 status == CLATTN_UNSUPPORTED ? "gives wrong results: not used" : "cannot be run: not used this time");
    return status;
}

/* The same with what was measured. */
static clattn_status attempt_tuned(clattn_gemm_plan *plan, const struct provider *provider, const struct tuned *tuned)
{
    struct tiles tiles;

    if (provider->takes == clblast_takes) {
        TRY(clblast_override(plan->context, plan->gemm.desc.dtype, tuned));
        return attempt(plan, provider, NULL);
    }
    tiles = tuned_tiles(tuned);
    return attempt(plan, provider, tuned_is_default(tuned) ? NULL : &tiles);
}

static const struct tuning_entry *find_entry(const clattn_gemm_plan *plan, const struct provider *provider, int *layer)
{
    struct tuning_entry key;

    if (provider->space == NULL || tuning_is_empty(plan->context))
        return NULL;
    gemm_key(&key, plan->context, &plan->gemm, gemm_space_find(provider->space));
    return tuning_find_key(plan->context, &key, plan->context->self_test, layer);
}

static int is_wanted(const clattn_gemm_plan *plan, const struct provider *provider)
{
    const char *asked = plan->gemm.desc.provider;

    return (asked == NULL || strcmp(asked, provider->name) == 0) && !(plan->varies && provider->fixed) &&
           provider->takes(plan->context, &plan->gemm);
}

/* The provider that was the fastest when all were measured; or the one that is asked for, as it was measured. */
static clattn_status choose_measured(clattn_gemm_plan *plan)
{
    for (int i = 0; i < PROVIDER_COUNT; i++) {
        int layer;
        const struct tuning_entry *entry = find_entry(plan, &providers[i], &layer);
        if (entry == NULL || (entry->from_rows < 0 && plan->gemm.desc.provider == NULL) ||
            !is_wanted(plan, &providers[i]))
            continue;
        plan->chosen_by = tuning_layer_name(plan->context->tuning, layer);
        if (attempt_tuned(plan, &providers[i], &entry->tuned) == CLATTN_SUCCESS)
            return CLATTN_SUCCESS;
    }
    return CLATTN_UNSUPPORTED;
}

static clattn_status choose_by_thumb(clattn_gemm_plan *plan, const struct tiles *given)
{
    clattn_status status = CLATTN_UNSUPPORTED;

    plan->chosen_by = plan->gemm.desc.provider != NULL ? "the caller" : "rule of thumb";
    for (int i = 0; i < PROVIDER_COUNT && status != CLATTN_SUCCESS; i++)
        if (is_wanted(plan, &providers[i]))
            status = attempt(plan, &providers[i], given);
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

/* What keeps one provider from being used is an error where none is. */
static clattn_status choose(clattn_gemm_plan *plan, const struct tiles *given)
{
    struct log_tried tried = {plan->log, ""};
    clattn_status status = CLATTN_UNSUPPORTED;

    plan->log = (struct log){log_try, &tried};
    if (given == NULL && plan->gemm.desc.callback == NULL)
        status = choose_measured(plan);
    if (status != CLATTN_SUCCESS)
        status = choose_by_thumb(plan, given);
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

static clattn_status made(clattn_gemm_plan **plan, clattn_status status)
{
    if (status != CLATTN_SUCCESS) {
        clattn_gemm_plan_destroy(*plan);
        *plan = NULL;
    }
    return status;
}

static clattn_status open_plan(clattn_gemm_plan **plan, clattn_context *context, const struct log *log,
                               const clattn_gemm_desc *desc, size_t size)
{
    *plan = calloc(1, sizeof **plan);
    if (*plan == NULL)
        return CLATTN_OUT_OF_MEMORY;
    (*plan)->context = context;
    (*plan)->log = *log;
    lock_init(&(*plan)->lock);
    return made(plan, gemm_read(&(*plan)->gemm, desc, size, log));
}

clattn_status gemm_plan_for(clattn_gemm_plan **plan, clattn_context *context, const struct log *log,
                            const clattn_gemm_desc *desc, int varies)
{
    TRY(open_plan(plan, context, log, desc, sizeof *desc));
    (*plan)->varies = varies;
    return made(plan, choose(*plan, NULL));
}

static clattn_status create(clattn_gemm_plan **plan, clattn_context *context, const clattn_gemm_desc *desc, size_t size,
                            const struct tiles *tiles)
{
    TRY(open_plan(plan, context, &context->log, desc, size));
    return made(plan, choose(*plan, tiles));
}

clattn_status gemm_plan_create(clattn_gemm_plan **plan, clattn_context *context, const clattn_gemm_desc *desc,
                               const struct tiles *tiles)
{
    return create(plan, context, desc, sizeof *desc, tiles);
}

clattn_status gemm_plan_tuned(clattn_gemm_plan **plan, clattn_context *context, const clattn_gemm_desc *desc,
                              const struct tuned *tuned)
{
    clattn_status status = CLATTN_UNSUPPORTED;

    TRY(open_plan(plan, context, &context->log, desc, sizeof *desc));
    for (int i = 0; i < PROVIDER_COUNT; i++)
        if (providers[i].space != NULL && strcmp(providers[i].space, tuned->space->name) == 0 &&
            providers[i].takes(context, &(*plan)->gemm))
            status = attempt_tuned(*plan, &providers[i], tuned);
    return made(plan, status);
}

const char *gemm_provider(clattn_context *context, const struct gemm *gemm, int index)
{
    for (int i = 0; i < PROVIDER_COUNT; i++)
        if (providers[i].space != NULL && providers[i].takes(context, gemm) && index-- == 0)
            return providers[i].name;
    return NULL;
}

clattn_status clattn_gemm_plan_create_sized(clattn_gemm_plan **plan, clattn_context *context,
                                            const clattn_gemm_desc *desc, size_t desc_size)
{
    if (plan == NULL)
        return CLATTN_INVALID_ARGUMENT;
    *plan = NULL;
    if (context == NULL)
        return CLATTN_INVALID_ARGUMENT;
    return create(plan, context, desc, desc_size, NULL);
}

void clattn_gemm_plan_destroy(clattn_gemm_plan *plan)
{
    if (plan == NULL)
        return;
    kernel_release(plan->context, &plan->kernel);
    lock_destroy(&plan->lock);
    free(plan);
}

clattn_status clattn_gemm_plan_get_sized(const clattn_gemm_plan *plan, clattn_gemm_info *info, size_t info_size)
{
    clattn_gemm_info ours;

    if (plan == NULL || info == NULL)
        return CLATTN_INVALID_ARGUMENT;
    ours = (clattn_gemm_info){.desc = &plan->gemm.desc,
                              .provider = plan->provider->name,
                              .chosen_by = plan->chosen_by,
                              .rejected = plan->rejected,
                              .scratch = plan->provider->takes == clblast_takes};
    sized_write(info, info_size, &ours, sizeof ours);
    return CLATTN_SUCCESS;
}

clattn_status clattn_gemm_plan_describe(const clattn_gemm_plan *plan, char *to, size_t size)
{
    struct text text = {0};
    const clattn_gemm_desc *d;
    char *whole;

    if (plan == NULL || to == NULL || size == 0)
        return CLATTN_INVALID_ARGUMENT;
    d = &plan->gemm.desc;
    text_format(&text, "gemm %s, m=%lld n=%lld k=%lld batch=%lld%s%s, on %s\nprovider %s, by %s%s\n",
                dtype_name(d->dtype), (long long)d->m, (long long)d->n, (long long)d->k, (long long)d->batch,
                d->flags & CLATTN_GEMM_TRANS_A ? ", a transposed" : "",
                d->flags & CLATTN_GEMM_TRANS_B ? ", b transposed" : "", plan->context->device.info.name,
                plan->provider->name, plan->chosen_by,
                plan->provider->takes == clblast_takes ? ", which allocates scratch at a call" : "");
    if (plan->kernel.cl != NULL) {
        text_format(&text, "  %-10s ", kernel_name(plan->variant.kernel));
        kernel_family(plan->variant.kernel)->describe(&text, &plan->variant, &plan->layout);
    }
    whole = text_take(&text);
    if (whole == NULL)
        return CLATTN_OUT_OF_MEMORY;
    text_fit(to, size, "%s", whole);
    free(whole);
    return CLATTN_SUCCESS;
}
