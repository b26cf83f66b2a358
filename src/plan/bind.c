/* A call's queue and buffers, checked, with the view of each. */
#include "plan/call.h"

#include <string.h>

enum { WORKSPACE_ALIGNMENT = 16 };

/* The bytes of a buffer from the operand's offset on, or the operand's size if that is smaller. */
static size_t bytes_from(const clattn_operand *operand, size_t whole)
{
    size_t available = operand->offset < whole ? whole - operand->offset : 0;

    return operand->size != 0 && operand->size < available ? operand->size : available;
}

static clattn_status memory_size(const struct clattn_plan *plan, const clattn_operand *operand, const char *name,
                                 size_t *size)
{
    const struct log *log = &plan->log;
    size_t whole;

    if (operand->buffer == NULL)
        return FAIL(log, INVALID_OPERAND, "%s: operand %s is missing%s", plan->problem.rule->name, name,
                    operand->host != NULL ? ": it has .host, and clattn_enqueue reads .buffer" : "");
    TRY(context_buffer_size(plan->context, operand->buffer, name, CLATTN_INVALID_OPERAND, &whole));
    if (operand->offset >= whole)
        return FAIL(log, INVALID_OPERAND, "%s: offset %zu lies past its %zu bytes", name, operand->offset, whole);
    *size = bytes_from(operand, whole);
    return CLATTN_SUCCESS;
}

void plan_find_usual(struct clattn_plan *plan)
{
    const struct problem *problem = &plan->problem;
    const clattn_operand first = {.offset = 0};

    plan->most = problem_most(problem);
    for (int i = 0; i < problem->operand_count; i++) {
        struct usual *usual = &plan->usual[i];
        struct placement place;
        if (problem_place(problem, &plan->most, &problem->operands[i], &first, 0, &place, NULL) != CLATTN_SUCCESS)
            continue;
        usual->view = placement_view(problem, &problem->operands[i], &place);
        usual->element = place.element;
        usual->bytes = (uint64_t)place.span * place.element;
    }
}

static int lies_so(const struct usual *usual, const clattn_operand *operand, size_t size)
{
    int64_t strides = operand->batch_stride | operand->token_stride | operand->head_stride;

    return strides == 0 && operand->offset % usual->element == 0 && usual->bytes <= size;
}

/* `usual` is the placement at the plan's own lengths, or NULL in a call of other lengths. An operand that is laid out
 * otherwise is placed again; a placement that is impossible is logged with its reason. */
static clattn_status bind_operand(struct call *call, const struct operand_row *row, const struct usual *usual,
                                  const clattn_operand *operand)
{
    const struct clattn_plan *plan = call->plan;
    struct ir_place *bound = &call->operands[row->id];
    size_t size = 0;

    bound->memory = operand->buffer;
    if (operand->buffer == NULL && operand_is_optional(row)) {
        bound->view =
            (struct view){.offset = -1}; /* kernels look at it, because a driver may reject a buffer of NULL */
        return CLATTN_SUCCESS;
    }
    if (usual != NULL || !problem_is_empty(&plan->problem, &call->ir.extent, row))
        TRY(memory_size(plan, operand, operand_name(row->id), &size));
    if (usual == NULL || !lies_so(usual, operand, size))
        return problem_view(&plan->problem, &call->ir.extent, row, operand, size, &bound->view, &plan->log);
    bound->view = usual->view;
    bound->view.offset += (int64_t)(operand->offset / usual->element);
    return CLATTN_SUCCESS;
}

static clattn_status bind_operands(struct call *call, const struct arguments *arguments)
{
    const struct clattn_plan *plan = call->plan;
    int whole = memcmp(&call->ir.extent, &plan->most, sizeof plan->most) == 0;

    for (int i = 0; i < plan->problem.operand_count; i++) {
        const struct operand_row *row = &plan->problem.operands[i];
        const struct usual *usual = whole && plan->usual[i].bytes > 0 ? &plan->usual[i] : NULL;
        TRY(bind_operand(call, row, usual, &arguments->of[row->id]));
    }
    /* the index operand has no such stride: kernels find the pool's size in its place */
    call->operands[CLATTN_STATE_INDICES].view.token =
        plan->problem.desc.state_slots != 0 ? plan->problem.desc.state_slots : call->ir.extent.sequences;
    call->operands[CLATTN_ACCEPTED].view.token = plan->problem.desc.state_window; /* and the size of a ring */
    return CLATTN_SUCCESS;
}

static clattn_status check_workspace(const struct clattn_plan *plan, const clattn_operand *workspace, size_t needed)
{
    const struct log *log = &plan->log;
    size_t whole;

    if (workspace->buffer == NULL)
        return FAIL(log, INVALID_WORKSPACE, "workspace is missing, %zu bytes are needed", needed);
    TRY(context_buffer_size(plan->context, workspace->buffer, "workspace", CLATTN_INVALID_WORKSPACE, &whole));
    if (workspace->offset % WORKSPACE_ALIGNMENT != 0)
        return FAIL(log, INVALID_WORKSPACE, "workspace: offset %zu is no multiple of %d", workspace->offset,
                    WORKSPACE_ALIGNMENT);
    if (bytes_from(workspace, whole) < needed)
        return FAIL(log, INVALID_WORKSPACE, "workspace has %zu bytes from offset %zu on, %zu are needed",
                    bytes_from(workspace, whole), workspace->offset, needed);
    return CLATTN_SUCCESS;
}

static clattn_status bind_workspace(struct call *call, const clattn_operand *workspace)
{
    const size_t needed = (size_t)call->plan->bound.ir.bytes[IR_SCRATCH];

    if (needed == 0)
        return CLATTN_SUCCESS;
    TRY(check_workspace(call->plan, workspace, needed));
    call->ir.scratch = workspace->buffer;
    call->ir.scratch_offset = workspace->offset;
    return CLATTN_SUCCESS;
}

clattn_status queue_check(const clattn_context *context, cl_command_queue queue, const struct log *log, int *in_order)
{
    const struct opencl *cl = context->device.cl;
    cl_command_queue_properties properties = 0;
    cl_context owner = NULL;

    TRY_CL(log, cl, GetCommandQueueInfo, queue, CL_QUEUE_CONTEXT, sizeof owner, &owner, NULL);
    if (owner != context->cl)
        return FAIL(log, INVALID_ARGUMENT, "the queue belongs to another context than the plan");
    TRY_CL(log, cl, GetCommandQueueInfo, queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    *in_order = !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    return CLATTN_SUCCESS;
}

clattn_status call_bind(struct call *call, const struct arguments *arguments)
{
    const struct clattn_plan *plan = call->plan;

    TRY(queue_check(plan->context, call->ir.queue, &plan->log, &call->ir.in_order));
    TRY(problem_extent(&call->plan->problem, arguments, &call->ir.extent, &call->plan->log));
    TRY(bind_operands(call, arguments));
    return bind_workspace(call, &arguments->workspace);
}
