/* A layer on the host, step by step. */
#include "layer/bind.h"

#include "base/thread.h"
#include "reference/number.h"

#include <stdlib.h>
#include <string.h>

/* ---- Places ------------------------------------------------------------------------------------------------- */

/* Bytes of the values before one; of the list's end: of all. */
static size_t bytes_before(const struct module *module, int index)
{
    size_t bytes = 0;

    for (int i = 0; i < index && module->layer->values[i].name != NULL; i++)
        bytes += value_bytes(module, &module->layer->values[i]);
    return bytes;
}

static void *host_of(const struct module *module, const struct memories *memories, const struct layer_place *place)
{
    switch (place->in) {
    case PLACE_WEIGHTS: return memories->weights.host + place->at;
    case PLACE_VALUE: return memories->work.host + bytes_before(module, place->index) + place->at;
    case PLACE_BOUND: return memories->bound[place->index].host;
    case PLACE_NONE: break;
    }
    return NULL;
}

/* ---- Products ----------------------------------------------------------------------------------------------- */

struct rows {
    struct layer_product product;
    clattn_dtype dtype;
    const void *a, *b;
    void *d;
};

/* d_j = sum_l a_l b_jl */
static void row(void *user, int64_t i)
{
    const struct rows *rows = user;
    const struct layer_product *p = &rows->product;

    for (int64_t j = 0; j < p->n; j++) {
        double sum = 0;
        for (int64_t l = 0; l < p->k; l++)
            sum += number_load(rows->dtype, rows->a, i * p->lda + l) * number_load(rows->dtype, rows->b, j * p->k + l);
        number_store(rows->dtype, rows->d, i * p->ldd + j, sum);
    }
}

static void multiply(const struct module *module, const struct layer_step *step, const struct memories *memories)
{
    struct rows rows = {step_product(module, step), module->desc.dtype, NULL, NULL, NULL};

    rows.a = host_of(module, memories, &rows.product.a);
    rows.b = host_of(module, memories, &rows.product.b);
    rows.d = host_of(module, memories, &rows.product.d);
    parallel_for(module->desc.batch * module->desc.seq_len, row, &rows);
}

/* ---- Steps -------------------------------------------------------------------------------------------------- */

static clattn_status compute(const struct module *module, const struct layer_step *step,
                             const struct memories *memories, const struct log *log)
{
    const int64_t seq_len = module->desc.seq_len;
    const clattn_plan_desc desc = step_desc(module, step, seq_len > 0 ? seq_len : 1);
    clattn_operand operands[LAYER_REFS];
    struct layer_place places[LAYER_REFS];
    clattn_call call = {.operands = operands, .seq_len = seq_len};

    call.operand_count = step_operands(module, step, seq_len, operands, places);
    for (size_t i = 0; i < call.operand_count; i++)
        operands[i].host = host_of(module, memories, &places[i]);
    return clattn_reference(&desc, &call, log->fn, log->user);
}

static clattn_status compute_all(const struct module *module, const struct memories *memories, const struct log *log)
{
    const struct layer_step *step;

    for (int i = 0; (step = step_get(module, i)) != NULL; i++)
        if (step->fixed.rule == CLATTN_RULE_NONE)
            multiply(module, step, memories);
        else
            TRY(compute(module, step, memories, log));
    return CLATTN_SUCCESS;
}

clattn_status clattn_layer_reference_sized(const clattn_layer_desc *desc, size_t desc_size,
                                           const clattn_layer_call *call, size_t call_size, size_t operand_size,
                                           clattn_log_fn log_fn, void *log_user)
{
    const struct log log = {log_fn, log_user};
    struct memories memories;
    struct module module;
    clattn_status status;
    int64_t seq_len;
    size_t bytes;

    TRY(module_read(&module, desc, desc_size, &log));
    TRY(call_read(&memories, &seq_len, &module, call, call_size, operand_size, 1, &log));
    module.desc.seq_len = seq_len;
    module.sizes = sizes_of(&module.desc);
    bytes = bytes_before(&module, LAYER_VALUES);
    memories.work = (struct memory){.host = calloc(bytes + 1, 1)};
    if (memories.work.host == NULL)
        return FAIL(&log, OUT_OF_MEMORY, "layer %s: no memory for %zu bytes between the steps", module.layer->name,
                    bytes);
    status = compute_all(&module, &memories, &log);
    free(memories.work.host);
    return status;
}
