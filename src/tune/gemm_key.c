#include "tune/gemm_key.h"

#include "device/engine.h"

#include <stdio.h>
#include <string.h>

static int64_t power_from(int64_t x)
{
    int64_t power = 1;

    while (power < x)
        power *= 2;
    return power;
}

void gemm_key(struct tuning_entry *entry, const clattn_context *context, const struct gemm *gemm,
              const struct space *space)
{
    const struct device *device = &context->device;
    const clattn_gemm_desc *d = &gemm->desc;

    memset(entry, 0, sizeof *entry);
    snprintf(entry->device, sizeof entry->device, "%s", device->info.name);
    snprintf(entry->vendor, sizeof entry->vendor, "%s", device->vendor);
    snprintf(entry->driver, sizeof entry->driver, "%s", device->info.driver);
    snprintf(entry->group, sizeof entry->group, "gemm.%c%c", gemm_turned(gemm, GEMM_A) ? 't' : 'n',
             gemm_turned(gemm, GEMM_B) ? 't' : 'n');
    snprintf(entry->dtype, sizeof entry->dtype, "%s", dtype_name(d->dtype));
    snprintf(entry->solver, sizeof entry->solver, "%s", space->name);
    if (space->engine && context->engine != NULL)
        snprintf(entry->engine, sizeof entry->engine, "%s", context->engine->name);
    entry->format = space->format;
    entry->key_dim = power_from(d->m);
    entry->value_dim = power_from(d->n);
    entry->heads = power_from(d->k);
    entry->from_rows = -1;
    entry->tuned = tuned_default(space);
}
