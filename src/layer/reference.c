/* A layer on the host, step by step. */
#include "layer/bind.h"

#include "base/thread.h"
#include "op/rule.h"
#include "reference/number.h"

#include <stdlib.h>
#include <string.h>

/* ---- Places ------------------------------------------------------------------------------------------------- */

/* Bytes of the values before one; of the list's end: of all. Their gradients follow in the same order. */
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
    case PLACE_GRADIENT:
        return memories->work.host + bytes_before(module, LAYER_VALUES) + bytes_before(module, place->index) +
               place->at;
    case PLACE_BOUND: return memories->bound[place->index].host + place->at;
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

/* Of d = a b^T: da = dd b, a row at a time, and db = dd^T a, a row of b at a time */
struct rows_back {
    struct layer_product product;
    clattn_dtype dtype;
    const void *a, *b, *dd;
    void *da;
    float *db;
    int64_t rows;
    int adds, adds_weights;
};

static void row_back(void *user, int64_t i)
{
    const struct rows_back *rows = user;
    const struct layer_product *p = &rows->product;

    for (int64_t l = 0; l < p->k; l++) {
        double sum = rows->adds ? number_load(rows->dtype, rows->da, i * p->lda + l) : 0;
        for (int64_t j = 0; j < p->n; j++)
            sum += number_load(rows->dtype, rows->dd, i * p->ldd + j) * number_load(rows->dtype, rows->b, j * p->k + l);
        number_store(rows->dtype, rows->da, i * p->lda + l, sum);
    }
}

static void weights_back(void *user, int64_t j)
{
    const struct rows_back *rows = user;
    const struct layer_product *p = &rows->product;

    for (int64_t l = 0; l < p->k; l++) {
        double sum = rows->adds_weights ? (double)rows->db[j * p->k + l] : 0;
        for (int64_t i = 0; i < rows->rows; i++)
            sum +=
                number_load(rows->dtype, rows->dd, i * p->ldd + j) * number_load(rows->dtype, rows->a, i * p->lda + l);
        rows->db[j * p->k + l] = (float)sum;
    }
}

static void multiply_back(const struct module *module, int index, const struct memories *memories)
{
    const struct layer_product_back back = step_product_back(module, index);
    struct rows_back rows = {.product = step_product(module, step_get(module, index)),
                             .dtype = module->desc.dtype,
                             .rows = module->desc.batch * module->desc.seq_len,
                             .adds = back.adds,
                             .adds_weights = (module->desc.flags & CLATTN_LAYER_ADDED) != 0};

    rows.a = host_of(module, memories, &rows.product.a);
    rows.b = host_of(module, memories, &rows.product.b);
    rows.dd = host_of(module, memories, &back.d);
    rows.da = host_of(module, memories, &back.a);
    rows.db = host_of(module, memories, &back.b);
    parallel_for(rows.rows, row_back, &rows);
    parallel_for(rows.product.n, weights_back, &rows);
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

static clattn_status compute_back(const struct module *module, int index, const struct memories *memories,
                                  const struct log *log)
{
    const clattn_plan_desc desc = step_back_desc(module, index, module->desc.seq_len);
    clattn_operand operands[BACK_OPERANDS];
    struct layer_place places[BACK_OPERANDS];
    clattn_call call = {.operands = operands, .seq_len = module->desc.seq_len};

    call.operand_count = step_back_operands(module, index, module->desc.seq_len, operands, places);
    for (size_t i = 0; i < call.operand_count; i++) {
        operands[i].host = host_of(module, memories, &places[i]);
        operands[i].id = operand_to_public(operands[i].id);
    }
    return clattn_reference(&desc, &call, log->fn, log->user);
}

static clattn_status compute_all(const struct module *module, const struct memories *memories, const struct log *log)
{
    const int backward = module_is_backward(module);
    const struct layer_step *step;
    int count = 0;

    for (; (step = step_get(module, count)) != NULL; count++)
        if (backward && !step_is_again(step))
            continue;
        else if (step->fixed.rule == CLATTN_RULE_NONE)
            multiply(module, step, memories);
        else
            TRY(compute(module, step, memories, log));
    for (int i = count - 1; i >= 0 && backward; i--)
        if (step_get(module, i)->fixed.rule == CLATTN_RULE_NONE)
            multiply_back(module, i, memories);
        else
            TRY(compute_back(module, i, memories, log));
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
    bytes = bytes_before(&module, LAYER_VALUES) * (size_t)(1 + module_is_backward(&module));
    memories.work = (struct memory){.host = calloc(bytes + 1, 1)};
    if (memories.work.host == NULL)
        return FAIL(&log, OUT_OF_MEMORY, "layer %s: no memory for %zu bytes between the steps", module.layer->name,
                    bytes);
    status = compute_all(&module, &memories, &log);
    free(memories.work.host);
    return status;
}
