/* A layer on a device: a plan of every step, for many tokens and for one. */
#include "layer/bind.h"

#include "base/text.h"
#include "device/opencl.h"

#include <stdlib.h>
#include <string.h>

enum { WHOLE, TOKEN, LENGTHS, MANY_ROWS = 9, ALIGNMENT = 16 };

struct step_plan {
    clattn_plan *rule;
    clattn_gemm_plan *product;
};

struct clattn_layer_plan {
    struct module module;
    struct log log;
    struct step_plan of[LENGTHS][LAYER_STEPS];
    size_t values, workspace; /* bytes: of the values, and of all with the rules' own behind them */
};

static int step_count(const struct layer *layer)
{
    int count = 0;

    while (count < LAYER_STEPS && layer->steps[count].refs[0].name != NULL)
        count++;
    return count;
}

/* ---- Creation ----------------------------------------------------------------------------------------------- */

/* For any number of rows up to the plan's, so that it may not be compiled for few; or for one token's alone. */
static clattn_status create_product(clattn_layer_plan *plan, clattn_context *context, const struct layer_step *step,
                                    int64_t rows, int exact, clattn_gemm_plan **product)
{
    const struct memories none = {.work = {.offset = 0}};
    const struct layer_product p = step_product(&plan->module, step, &none);
    const clattn_gemm_desc desc = {.dtype = plan->module.desc.dtype,
                                   .flags = CLATTN_GEMM_TRANS_B,
                                   .m = exact || rows > MANY_ROWS ? rows : MANY_ROWS,
                                   .n = p.n,
                                   .k = p.k,
                                   .lda = p.lda,
                                   .ldd = p.ldd};

    return clattn_gemm_plan_create(product, context, &desc);
}

static clattn_status create_rule(clattn_layer_plan *plan, clattn_context *context, const struct layer_step *step,
                                 int64_t seq_len, clattn_plan **rule)
{
    const clattn_plan_desc desc = step_desc(&plan->module, step, seq_len);
    size_t bytes = 0;

    TRY(clattn_plan_create(rule, context, &desc));
    TRY(clattn_plan_workspace_size(*rule, &bytes));
    if (plan->values + bytes > plan->workspace)
        plan->workspace = plan->values + bytes;
    return CLATTN_SUCCESS;
}

static clattn_status create_steps(clattn_layer_plan *plan, clattn_context *context, int length)
{
    const clattn_layer_desc *d = &plan->module.desc;
    const int64_t seq_len = length == WHOLE ? d->seq_len : 1;

    for (int i = 0; i < step_count(plan->module.layer); i++) {
        const struct layer_step *step = &plan->module.layer->steps[i];
        struct step_plan *of = &plan->of[length][i];
        clattn_status status =
            step->fixed.rule != CLATTN_RULE_NONE
                ? create_rule(plan, context, step, seq_len, &of->rule)
                : create_product(plan, context, step, d->batch * seq_len, length == TOKEN, &of->product);
        if (status != CLATTN_SUCCESS)
            return log_line(&plan->log, CLATTN_LOG_ERROR, "layer %s: step %d of %d for %lld tokens cannot be had",
                            plan->module.layer->name, i + 1, step_count(plan->module.layer), (long long)seq_len),
                   status;
    }
    return CLATTN_SUCCESS;
}

static clattn_status create(clattn_layer_plan *plan, clattn_context *context, const clattn_layer_desc *desc,
                            size_t desc_size)
{
    TRY(module_read(&plan->module, desc, desc_size, &plan->log));
    if (plan->module.desc.seq_len < 1)
        return FAIL(&plan->log, INVALID_DESC, "layer %s: seq_len is 0, expected the most tokens of a call",
                    plan->module.layer->name);
    plan->values = plan->workspace = values_bytes(&plan->module);
    TRY(create_steps(plan, context, TOKEN));
    return plan->module.desc.seq_len > 1 ? create_steps(plan, context, WHOLE) : CLATTN_SUCCESS;
}

clattn_status clattn_layer_plan_create_sized(clattn_layer_plan **plan, clattn_context *context,
                                             const clattn_layer_desc *desc, size_t desc_size, clattn_log_fn log_fn,
                                             void *log_user)
{
    const struct log log = {log_fn, log_user};
    clattn_status status;

    if (plan != NULL)
        *plan = NULL;
    if (plan == NULL || context == NULL)
        return FAIL(&log, INVALID_ARGUMENT, "layer: plan or context is NULL");
    *plan = calloc(1, sizeof **plan);
    if (*plan == NULL)
        return CLATTN_OUT_OF_MEMORY;
    (*plan)->log = log;
    status = create(*plan, context, desc, desc_size);
    if (status != CLATTN_SUCCESS) {
        clattn_layer_plan_destroy(*plan);
        *plan = NULL;
    }
    return status;
}

void clattn_layer_plan_destroy(clattn_layer_plan *plan)
{
    for (int i = 0; plan != NULL && i < LENGTHS * LAYER_STEPS; i++) {
        clattn_plan_destroy(plan->of[i / LAYER_STEPS][i % LAYER_STEPS].rule);
        clattn_gemm_plan_destroy(plan->of[i / LAYER_STEPS][i % LAYER_STEPS].product);
    }
    free(plan);
}

clattn_status clattn_layer_workspace_size(const clattn_layer_plan *plan, size_t *bytes)
{
    if (plan == NULL || bytes == NULL)
        return CLATTN_INVALID_ARGUMENT;
    *bytes = plan->workspace;
    return CLATTN_SUCCESS;
}

/* ---- Text --------------------------------------------------------------------------------------------------- */

static clattn_status describe_step(struct text *text, const struct step_plan *step, int index)
{
    char lines[1024];

    TRY(step->rule != NULL ? clattn_plan_describe(step->rule, lines, sizeof lines)
                           : clattn_gemm_plan_describe(step->product, lines, sizeof lines));
    text_format(text, "%d. %s", index + 1, lines);
    return CLATTN_SUCCESS;
}

clattn_status clattn_layer_plan_text(const clattn_layer_plan *plan, char *to, size_t size)
{
    struct text text = {0};
    clattn_status status = CLATTN_SUCCESS;
    char *whole;
    int length;

    if (plan == NULL || to == NULL || size == 0)
        return CLATTN_INVALID_ARGUMENT;
    length = plan->module.desc.seq_len > 1 ? WHOLE : TOKEN;
    text_format(&text, "layer %s, hidden %lld, workspace %zu bytes\n", plan->module.layer->name,
                (long long)plan->module.desc.hidden, plan->workspace);
    for (int i = 0; i < step_count(plan->module.layer) && status == CLATTN_SUCCESS; i++)
        status = describe_step(&text, &plan->of[length][i], i);
    whole = text_take(&text);
    if (status == CLATTN_SUCCESS && whole == NULL)
        status = CLATTN_OUT_OF_MEMORY;
    if (status == CLATTN_SUCCESS)
        text_fit(to, size, "%s", whole);
    free(whole);
    return status;
}

/* ---- Enqueue ------------------------------------------------------------------------------------------------ */

/* What is enqueued so far. */
struct chain {
    cl_command_queue queue;
    uint32_t n_wait;
    const cl_event *wait;
    cl_event last;
};

static clattn_status enqueue_product(const clattn_layer_plan *plan, clattn_gemm_plan *product,
                                     const struct layer_step *step, const struct memories *memories, int64_t rows,
                                     const struct chain *chain, cl_event *event)
{
    const struct layer_product p = step_product(&plan->module, step, memories);
    const clattn_gemm_call call = {.a = p.a.buffer,
                                   .b = p.b.buffer,
                                   .d = p.d.buffer,
                                   .a_offset = p.a.offset,
                                   .b_offset = p.b.offset,
                                   .d_offset = p.d.offset,
                                   .m = rows};

    return clattn_gemm_enqueue(product, chain->queue, &call, chain->n_wait, chain->wait, event);
}

static clattn_status enqueue_rule(const clattn_layer_plan *plan, clattn_plan *rule, const struct layer_step *step,
                                  const struct memories *memories, int64_t seq_len, const struct chain *chain,
                                  cl_event *event)
{
    clattn_operand operands[LAYER_REFS];
    clattn_call call = {.operands = operands,
                        .seq_len = seq_len,
                        .workspace = memories->work.buffer,
                        .workspace_offset = memories->work.offset + plan->values};

    call.operand_count = step_operands(&plan->module, step, memories, seq_len, operands);
    return clattn_enqueue(rule, chain->queue, &call, chain->n_wait, chain->wait, event);
}

/* The step after what is enqueued: the chain's last event is its. */
static clattn_status enqueue_step(const clattn_layer_plan *plan, int index, const struct memories *memories,
                                  int64_t seq_len, struct chain *chain)
{
    const struct step_plan *of = &plan->of[seq_len <= 1 ? TOKEN : WHOLE][index];
    const struct layer_step *step = &plan->module.layer->steps[index];
    const int64_t rows = plan->module.desc.batch * seq_len;
    cl_event event = NULL;

    if (of->product != NULL && rows == 0)
        return CLATTN_SUCCESS;
    TRY(of->product != NULL ? enqueue_product(plan, of->product, step, memories, rows, chain, &event)
                            : enqueue_rule(plan, of->rule, step, memories, seq_len, chain, &event));
    if (chain->last != NULL)
        opencl_get()->ReleaseEvent(chain->last);
    chain->last = event;
    chain->n_wait = 1;
    chain->wait = &chain->last;
    return CLATTN_SUCCESS;
}

static clattn_status check_workspace(const clattn_layer_plan *plan, const struct memory *work)
{
    const struct opencl *cl = opencl_get();
    size_t bytes = 0;

    if (work->buffer == NULL || work->offset % ALIGNMENT != 0)
        return FAIL(&plan->log, INVALID_WORKSPACE,
                    "layer %s: workspace %s, offset %zu: expected %zu bytes from a multiple of %d on",
                    plan->module.layer->name, work->buffer == NULL ? "is NULL" : "is there", work->offset,
                    plan->workspace, ALIGNMENT);
    TRY_CL(&plan->log, cl, GetMemObjectInfo, work->buffer, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    if (work->offset > bytes || bytes - work->offset < plan->workspace)
        return FAIL(&plan->log, INVALID_WORKSPACE,
                    "layer %s: workspace has %zu bytes, %zu are needed from offset %zu on", plan->module.layer->name,
                    bytes, plan->workspace, work->offset);
    return CLATTN_SUCCESS;
}

static clattn_status enqueue(const clattn_layer_plan *plan, const struct memories *memories, int64_t seq_len,
                             struct chain *chain)
{
    TRY(check_workspace(plan, &memories->work));
    for (int i = 0; i < step_count(plan->module.layer); i++)
        TRY(enqueue_step(plan, i, memories, seq_len, chain));
    return CLATTN_SUCCESS;
}

clattn_status clattn_layer_enqueue_sized(clattn_layer_plan *plan, cl_command_queue queue, const clattn_layer_call *call,
                                         size_t call_size, size_t operand_size, uint32_t n_wait, const cl_event *wait,
                                         cl_event *event)
{
    struct chain chain = {queue, n_wait, wait, NULL};
    struct memories memories;
    clattn_status status;
    int64_t seq_len;

    if (event != NULL)
        *event = NULL;
    if (plan == NULL)
        return CLATTN_INVALID_ARGUMENT;
    if (queue == NULL || (n_wait > 0) != (wait != NULL))
        return FAIL(&plan->log, INVALID_ARGUMENT, "layer %s: queue is NULL, or n_wait is %u and wait %s",
                    plan->module.layer->name, n_wait, wait != NULL ? "not NULL" : "NULL");
    TRY(call_read(&memories, &seq_len, &plan->module, call, call_size, operand_size, 0, &plan->log));
    status = enqueue(plan, &memories, seq_len, &chain);
    if (event != NULL && status == CLATTN_SUCCESS)
        *event = chain.last;
    else if (chain.last != NULL)
        opencl_get()->ReleaseEvent(chain.last);
    return status;
}
