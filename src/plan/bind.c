/* A call's queue and buffers, checked, with the view of each. */
#include "plan/call.h"

enum { WORKSPACE_ALIGNMENT = 16 };

/* The bytes of a buffer of the plan's context; refused with the status given where it is another's. */
static clattn_status buffer_size(const struct clattn_plan *plan, cl_mem buffer, const char *name, clattn_status refused,
                                 size_t *bytes)
{
    const struct opencl *cl = plan->context->device.cl;
    const struct log *log = &plan->context->log;
    cl_context owner = NULL;

    TRY_CL(log, cl->GetMemObjectInfo(buffer, CL_MEM_CONTEXT, sizeof owner, &owner, NULL));
    if (owner != plan->context->cl) {
        log_line(log, CLATTN_LOG_ERROR, "%s: its buffer belongs to another context than the plan", name);
        return refused;
    }
    TRY_CL(log, cl->GetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof *bytes, bytes, NULL));
    return CLATTN_SUCCESS;
}

/* Of a buffer's bytes those from the operand's offset on, or its size where that is less. */
static size_t bytes_from(const clattn_operand *operand, size_t whole)
{
    size_t left = operand->offset < whole ? whole - operand->offset : 0;

    return operand->size != 0 && operand->size < left ? operand->size : left;
}

static clattn_status memory_size(const struct clattn_plan *plan, const clattn_operand *operand, const char *name,
                                 size_t *size)
{
    const struct log *log = &plan->context->log;
    size_t whole;

    if (operand->buffer == NULL)
        return FAIL(log, INVALID_OPERAND, "%s: operand %s is missing", plan->problem.rule->name, name);
    TRY(buffer_size(plan, operand->buffer, name, CLATTN_INVALID_OPERAND, &whole));
    if (operand->offset >= whole)
        return FAIL(log, INVALID_OPERAND, "%s: offset %zu lies past its %zu bytes", name, operand->offset, whole);
    *size = bytes_from(operand, whole);
    return CLATTN_SUCCESS;
}

static clattn_status bind_operands(struct call *call, const struct arguments *arguments)
{
    const struct clattn_plan *plan = call->plan;

    for (int i = 0; i < plan->problem.operand_count; i++) {
        const struct operand_row *row = &plan->problem.operands[i];
        const clattn_operand *operand = &arguments->of[row->id];
        size_t size = 0;

        if (!problem_is_empty(&plan->problem, &call->extent, row))
            TRY(memory_size(plan, operand, operand_name(row->id), &size));
        TRY(problem_view(&plan->problem, &call->extent, row, operand, size, &call->operands[row->id].view,
                         &plan->context->log));
        call->operands[row->id].memory = operand->buffer;
    }
    /* kernels have the pool's size in the place of a stride that indices lack */
    call->operands[CLATTN_STATE_INDICES].view.token =
        plan->problem.desc.state_slots != 0 ? plan->problem.desc.state_slots : call->extent.sequences;
    return CLATTN_SUCCESS;
}

static clattn_status check_workspace(const struct clattn_plan *plan, const clattn_operand *workspace, size_t needed)
{
    const struct log *log = &plan->context->log;
    size_t whole;

    if (workspace->buffer == NULL)
        return FAIL(log, INVALID_WORKSPACE, "workspace is missing, %zu bytes are needed", needed);
    TRY(buffer_size(plan, workspace->buffer, "workspace", CLATTN_INVALID_WORKSPACE, &whole));
    if (workspace->offset % WORKSPACE_ALIGNMENT != 0)
        return FAIL(log, INVALID_WORKSPACE, "workspace: offset %zu is no multiple of %d", workspace->offset,
                    WORKSPACE_ALIGNMENT);
    if (bytes_from(workspace, whole) < needed)
        return FAIL(log, INVALID_WORKSPACE, "workspace has %zu bytes from offset %zu on, %zu are needed",
                    bytes_from(workspace, whole), workspace->offset, needed);
    return CLATTN_SUCCESS;
}

/* A temporary of rows as v has them, and of its type. */
static void bind_rows(struct call *call, enum temporary_id id)
{
    const clattn_plan_desc *desc = &call->plan->problem.desc;
    struct view *view = &call->temporaries[id].view;
    int64_t token = desc->kv_heads * desc->value_dim;

    view->offset *= (int64_t)(sizeof(float) / dtype_size(desc->dtype));
    view->batch = call->extent.kv_len * token;
    view->token = token;
    view->head = desc->value_dim;
}

/* One that its solver has laid out. */
static void lay_elements(const struct temporary *temporary, struct view *view)
{
    int64_t at = view->offset * (int64_t)sizeof(float) / temporary->element;

    *view = temporary->strides;
    view->offset = at;
}

/* One that is in the place of an operand, as that lies where nothing else is said. */
static clattn_status bind_rotary(struct call *call, const struct operand_row *operand, enum temporary_id id)
{
    const struct clattn_plan *plan = call->plan;
    const struct operand_row row = rotary_row(&plan->problem, operand);
    const clattn_operand like = {.offset = (size_t)call->temporaries[id].view.offset * sizeof(float)};

    if (rotary_operand(id) != row.id || plan->recipe.temporaries[id].floats == 0)
        return CLATTN_SUCCESS;
    return problem_view(&plan->problem, &call->extent, &row, &like, 0, &call->temporaries[id].view,
                        &plan->context->log);
}

/* Temporaries are floats; those of a number a token and head are [batch, head, token], so that a head's lie side by
 * side. */
static clattn_status bind_workspace(struct call *call, const clattn_operand *workspace)
{
    const struct clattn_plan *plan = call->plan;
    size_t needed = (size_t)plan->recipe.floats[HOME_WORKSPACE] * sizeof(float);
    int64_t heads = problem_work_heads(&plan->problem), seq_len = call->extent.seq_len;

    if (needed == 0)
        return CLATTN_SUCCESS;
    TRY(check_workspace(plan, workspace, needed));
    for (int i = 0; i < TEMPORARY_COUNT; i++) {
        int64_t at = (int64_t)(workspace->offset / sizeof(float)) + plan->recipe.temporaries[i].at;
        call->temporaries[i] = (struct bound){workspace->buffer, {at, seq_len * heads, 1, seq_len}};
        if (plan->recipe.temporaries[i].element != 0)
            lay_elements(&plan->recipe.temporaries[i], &call->temporaries[i].view);
    }
    call->workspace = workspace->offset;
    bind_rows(call, TEMPORARY_WRITTEN);
    for (int i = 0; i < plan->problem.operand_count && plan->recipe.rotary != NULL; i++)
        for (int id = TEMPORARY_ROTARY_Q; id <= TEMPORARY_ROTARY_P; id++)
            TRY(bind_rotary(call, &plan->problem.operands[i], (enum temporary_id)id));
    return CLATTN_SUCCESS;
}

static clattn_status check_queue(struct call *call)
{
    const struct clattn_context *context = call->plan->context;
    const struct opencl *cl = context->device.cl;
    cl_command_queue_properties properties = 0;
    cl_context owner = NULL;

    TRY_CL(&context->log, cl->GetCommandQueueInfo(call->queue, CL_QUEUE_CONTEXT, sizeof owner, &owner, NULL));
    if (owner != context->cl)
        return FAIL(&context->log, INVALID_ARGUMENT, "the queue belongs to another context than the plan");
    TRY_CL(&context->log,
           cl->GetCommandQueueInfo(call->queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL));
    call->in_order = !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    return CLATTN_SUCCESS;
}

clattn_status call_bind(struct call *call, const struct arguments *arguments)
{
    TRY(check_queue(call));
    TRY(problem_extent(&call->plan->problem, arguments, &call->extent, &call->plan->context->log));
    TRY(bind_operands(call, arguments));
    return bind_workspace(call, &arguments->workspace);
}
