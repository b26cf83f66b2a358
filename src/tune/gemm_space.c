#include "tune/gemm_space.h"

#include "device/engine.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(name) offsetof(struct tiles, name)
/* clang-format off */
static const struct parameter tiles[] = {
    {"chunk",   0, FIELD(chunk),   {16, 32, 64, 128, 256, BY_THUMB}},
    {"block_v", 0, FIELD(block_v), {16, 32, 64, 128, 256, BY_THUMB}},
    {"block_k", 0, FIELD(block_k), {8, 16, 32, 64, 128, 256, BY_THUMB}},
    {"rows",    0, FIELD(rows),    {1, 2, 4, 8, 16, BY_THUMB}},
    {"wide",    0, FIELD(wide),    {1, 2, 4, 8, BY_THUMB}},
    {"stages",  0, FIELD(stages),  {2, 3, 4, BY_THUMB}},
    {"span",    0, FIELD(span),    {1, 4, 8, 16, BY_THUMB}},
    {NULL, 0, 0, {BY_THUMB}},
};

static const struct parameter teams[] = {
    {"chunk",   0, FIELD(chunk),   {64, 128, 256, BY_THUMB}},
    {"block_v", 0, FIELD(block_v), {64, 128, 256, BY_THUMB}},
    {"block_k", 0, FIELD(block_k), {32, 64, 128, BY_THUMB}},
    {"rows",    0, FIELD(rows),    {1, 2, BY_THUMB}},
    {"stages",  0, FIELD(stages),  {2, 3, 4, BY_THUMB}},
    {"span",    0, FIELD(span),    {1, 4, 8, 16, BY_THUMB}},
    {NULL, 0, 0, {BY_THUMB}},
};

static const struct parameter few[] = {
    {"group",   0, FIELD(group),   {1, 64, 128, 256, BY_THUMB}},
    {"lanes_k", 0, FIELD(lanes_k), {1, 8, 16, 32, 64, 128, BY_THUMB}},
    {"wide",    0, FIELD(wide),    {1, 2, 4, 8, BY_THUMB}},
    {NULL, 0, 0, {BY_THUMB}},
};

/* CLBlast's own parameters of its kernel Xgemm. A point sets either all of them or none. */
static const struct parameter clblast_xgemm[] = {
    {"GEMMK", 0, 0, {0, 1, BY_THUMB}},            {"KREG",  0, 0, {1, 2, 4, BY_THUMB}},
    {"KWG",   0, 0, {1, 16, 32, BY_THUMB}},       {"KWI",   0, 0, {1, 2, 8, BY_THUMB}},
    {"MDIMA", 0, 0, {1, 4, 8, 16, 32, BY_THUMB}}, {"MDIMC", 0, 0, {1, 4, 8, 16, 32, BY_THUMB}},
    {"MWG",   0, 0, {16, 32, 64, 128, BY_THUMB}}, {"NDIMB", 0, 0, {1, 4, 8, 16, 32, BY_THUMB}},
    {"NDIMC", 0, 0, {1, 4, 8, 16, 32, BY_THUMB}}, {"NWG",   0, 0, {16, 32, 64, 128, BY_THUMB}},
    {"SA",    0, 0, {0, 1, BY_THUMB}},            {"SB",    0, 0, {0, 1, BY_THUMB}},
    {"STRM",  0, 0, {0, 1, BY_THUMB}},            {"STRN",  0, 0, {0, 1, BY_THUMB}},
    {"VWM",   0, 0, {1, 2, 4, 8, BY_THUMB}},      {"VWN",   0, 0, {1, 2, 4, 8, BY_THUMB}},
    {NULL, 0, 0, {BY_THUMB}},
};
/* clang-format on */

static const struct space spaces[] = {
    {"gemm_plain", tiles, 0, 0, 0, 1}, {"gemm_engine", tiles, 0, 0, 1, 1},          {"gemm_team", teams, 0, 0, 1, 1},
    {"gemm_gemv", few, 0, 0, 0, 1},    {"gemm_clblast", clblast_xgemm, 0, 0, 0, 1},
};
enum { SPACE_COUNT = sizeof spaces / sizeof *spaces };

const struct space *gemm_space_find(const char *name)
{
    for (int i = 0; i < SPACE_COUNT; i++)
        if (strcmp(spaces[i].name, name) == 0)
            return &spaces[i];
    return NULL;
}

static int value_of(const struct tuned *tuned, const char *name)
{
    for (int i = 0; tuned->space->parameters[i].name != NULL; i++)
        if (strcmp(tuned->space->parameters[i].name, name) == 0)
            return tuned->values[i];
    return 0;
}

int gemm_clblast_sound(const struct tuned *tuned, size_t most_group)
{
#define V(name) value_of(tuned, #name)
    const int rows = V(MDIMC) * V(NDIMC);

    return V(GEMMK) == 0 && V(KREG) == 1 && V(KWG) % V(KWI) == 0 && V(MWG) % (V(MDIMC) * V(VWM)) == 0 &&
           V(NWG) % (V(NDIMC) * V(VWN)) == 0 && V(MWG) % (V(MDIMA) * V(VWM)) == 0 &&
           V(NWG) % (V(NDIMB) * V(VWN)) == 0 && rows % V(MDIMA) == 0 && rows % V(NDIMB) == 0 &&
           V(KWG) % (rows / V(MDIMA)) == 0 && V(KWG) % (rows / V(NDIMB)) == 0 && (size_t)rows <= most_group;
#undef V
}

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
