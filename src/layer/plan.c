/* A layer on a device: a recipe for many tokens, and one for a token alone. */
#include "layer/recipe.h"

#include "base/text.h"
#include "plan/call.h"

#include <stdlib.h>

enum { WHOLE, TOKEN, LENGTHS };

struct clattn_layer_plan {
    clattn_context *context;
    struct log log;
    struct module module;
    struct layer_recipe recipes[LENGTHS];
    size_t workspace; /* bytes that either needs */
    mutex lock;       /* kernels carry their arguments until enqueued */
};

/* ---- Creation ----------------------------------------------------------------------------------------------- */

static clattn_status open_recipe(clattn_layer_plan *plan, int length, int64_t seq_len)
{
    struct layer_recipe *recipe = &plan->recipes[length];

    TRY(layer_recipe_open(recipe, &plan->module, plan->context, seq_len, &plan->log));
    if ((size_t)recipe->ir.bytes[IR_SCRATCH] > plan->workspace)
        plan->workspace = (size_t)recipe->ir.bytes[IR_SCRATCH];
    return CLATTN_SUCCESS;
}

static clattn_status create(clattn_layer_plan *plan, const clattn_layer_desc *desc, size_t desc_size)
{
    int64_t seq_len;

    TRY(module_read(&plan->module, desc, desc_size, &plan->log));
    seq_len = plan->module.desc.seq_len;
    if (seq_len < 1)
        return FAIL(&plan->log, INVALID_DESC, "layer %s: seq_len is 0, expected the most tokens of a call",
                    plan->module.layer->name);
    TRY(open_recipe(plan, TOKEN, 1));
    return seq_len > 1 ? open_recipe(plan, WHOLE, seq_len) : CLATTN_SUCCESS;
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
    (*plan)->context = context;
    (*plan)->log = log;
    lock_init(&(*plan)->lock);
    status = create(*plan, desc, desc_size);
    if (status != CLATTN_SUCCESS) {
        clattn_layer_plan_destroy(*plan);
        *plan = NULL;
    }
    return status;
}

void clattn_layer_plan_destroy(clattn_layer_plan *plan)
{
    if (plan == NULL)
        return;
    for (int i = 0; i < LENGTHS; i++)
        layer_recipe_close(&plan->recipes[i]);
    lock_destroy(&plan->lock);
    free(plan);
}

clattn_status clattn_layer_workspace_size(const clattn_layer_plan *plan, size_t *bytes)
{
    if (plan == NULL || bytes == NULL)
        return CLATTN_INVALID_ARGUMENT;
    *bytes = plan->workspace;
    return CLATTN_SUCCESS;
}

clattn_status clattn_layer_plan_text(const clattn_layer_plan *plan, char *to, size_t size)
{
    struct text text = {0};
    clattn_status status;
    char *whole;

    if (plan == NULL || to == NULL || size == 0)
        return CLATTN_INVALID_ARGUMENT;
    text_format(&text, "layer %s, hidden %lld, workspace %zu bytes\n", plan->module.layer->name,
                (long long)plan->module.desc.hidden, plan->workspace);
    status = layer_recipe_write(&text, &plan->recipes[plan->module.desc.seq_len > 1 ? WHOLE : TOKEN]);
    whole = text_take(&text);
    if (status == CLATTN_SUCCESS && whole == NULL)
        status = CLATTN_OUT_OF_MEMORY;
    if (status == CLATTN_SUCCESS)
        text_fit(to, size, "%s", whole);
    free(whole);
    return status;
}

/* ---- Enqueue ------------------------------------------------------------------------------------------------ */

static clattn_status bind_workspace(const clattn_layer_plan *plan, const struct memory *work, struct ir_call *call)
{
    enum { ALIGNMENT = 16 };
    const char *name = plan->module.layer->name;
    size_t bytes = 0;

    if (work->buffer == NULL || work->offset % ALIGNMENT != 0)
        return FAIL(&plan->log, INVALID_WORKSPACE,
                    "layer %s: workspace %s, offset %zu: expected %zu bytes from a multiple of %d on", name,
                    work->buffer == NULL ? "is NULL" : "is there", work->offset, plan->workspace, ALIGNMENT);
    TRY(context_buffer_size(plan->context, work->buffer, "workspace", CLATTN_INVALID_WORKSPACE, &bytes));
    if (work->offset > bytes || bytes - work->offset < plan->workspace)
        return FAIL(&plan->log, INVALID_WORKSPACE,
                    "layer %s: workspace has %zu bytes, %zu are needed from offset %zu on", name, bytes,
                    plan->workspace, work->offset);
    call->scratch = work->buffer;
    call->scratch_offset = work->offset;
    return CLATTN_SUCCESS;
}

/* An operand of so many bytes; of none it need not be there. */
static clattn_status bind_operand(const clattn_layer_plan *plan, const struct memory *memory, const char *name,
                                  size_t needed, struct ir_place *place)
{
    size_t bytes = 0;

    *place = (struct ir_place){memory->buffer, {(int64_t)memory->offset, 0, 0, 0}};
    if (needed == 0)
        return CLATTN_SUCCESS;
    TRY(context_buffer_size(plan->context, memory->buffer, name, CLATTN_INVALID_OPERAND, &bytes));
    if (memory->offset > bytes || bytes - memory->offset < needed)
        return FAIL(&plan->log, INVALID_OPERAND,
                    "layer %s: operand %s has %zu bytes, %zu are needed from offset %zu on", plan->module.layer->name,
                    name, bytes, needed, memory->offset);
    return CLATTN_SUCCESS;
}

static clattn_status bind_operands(const clattn_layer_plan *plan, const struct memories *memories, int64_t seq_len,
                                   struct ir_place places[1 + MOST_BOUND])
{
    struct module called = plan->module;
    const struct layer_bound *bound;

    called.desc.seq_len = seq_len;
    called.sizes = sizes_of(&called.desc);
    TRY(bind_operand(plan, &memories->weights, "weights", packed_bytes(&called), &places[0]));
    for (int i = 0; (bound = bound_get(&called, i)) != NULL; i++)
        TRY(bind_operand(plan, &memories->bound[i], bound->name, bound_bytes(&called, bound), &places[1 + i]));
    return CLATTN_SUCCESS;
}

/* A layer's recipe that is run. */
struct running {
    clattn_layer_plan *plan;
    struct layer_recipe *recipe;
};

static clattn_status renew(void *user, int step)
{
    const struct running *running = user;

    return layer_recipe_renew(running->recipe, step, &running->plan->lock);
}

static clattn_status run(clattn_layer_plan *plan, cl_command_queue queue, const struct memories *memories,
                         int64_t seq_len, uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    const int64_t batch = plan->module.desc.batch;
    struct running running = {plan, &plan->recipes[seq_len <= 1 ? TOKEN : WHOLE]};
    const struct runner runner = {plan->context, &plan->log, &plan->lock, renew, &running};
    struct ir_place places[1 + MOST_BOUND];
    struct ir_call call = {
        .recipe = &running.recipe->ir,
        .cl = plan->context->device.cl,
        .kernels = running.recipe->kernels,
        .set = running.recipe->set,
        .extent = {.batch = batch, .seq_len = seq_len, .sequences = batch, .kv_len = seq_len},
        .operands = places,
        .queue = queue,
    };

    TRY(queue_check(plan->context, queue, &plan->log, &call.in_order));
    TRY(bind_workspace(plan, &memories->work, &call));
    TRY(bind_operands(plan, memories, seq_len, places));
    return run_recipe(&runner, &call, n_wait, wait, event, NULL);
}

clattn_status clattn_layer_enqueue_sized(clattn_layer_plan *plan, cl_command_queue queue, const clattn_layer_call *call,
                                         size_t call_size, size_t operand_size, uint32_t n_wait, const cl_event *wait,
                                         cl_event *event)
{
    struct memories memories;
    int64_t seq_len;

    if (event != NULL)
        *event = NULL;
    if (plan == NULL)
        return CLATTN_INVALID_ARGUMENT;
    if (queue == NULL || (n_wait > 0) != (wait != NULL))
        return FAIL(&plan->log, INVALID_ARGUMENT, "layer %s: queue is NULL, or n_wait is %u and wait %s",
                    plan->module.layer->name, n_wait, wait != NULL ? "not NULL" : "NULL");
    TRY(call_read(&memories, &seq_len, &plan->module, call, call_size, operand_size, 0, &plan->log));
    return run(plan, queue, &memories, seq_len, n_wait, wait, event);
}
