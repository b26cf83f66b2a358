/* A call of a product's plan, checked. */
#include "plan/gemm.h"

#include "base/sized.h"

static clattn_status check_buffer(const clattn_gemm_plan *plan, const struct gemm *gemm, enum gemm_operand id,
                                  cl_mem buffer, size_t offset)
{
    static const char names[][8] = {"gemm: a", "gemm: b", "gemm: c", "gemm: d"};
    const struct log *log = &plan->log;
    size_t element = dtype_size(gemm_type(&gemm->desc, id)), needed = (size_t)gemm->of[id].span * element;
    size_t bytes = 0;

    if (buffer == NULL)
        return FAIL(log, INVALID_OPERAND, "%s is missing", names[id]);
    TRY(context_buffer_size(plan->context, buffer, names[id], CLATTN_INVALID_OPERAND, &bytes));
    if (offset % element != 0 || offset > bytes || bytes - offset < needed)
        return FAIL(log, INVALID_OPERAND, "%s has %zu bytes, %zu are needed from offset %zu on", names[id], bytes,
                    needed, offset);
    return CLATTN_SUCCESS;
}

static clattn_status check_call(const clattn_gemm_plan *plan, const struct gemm *gemm, const clattn_gemm_call *call)
{
    const cl_mem buffers[] = {call->a, call->b, call->c, call->d};
    const size_t offsets[] = {call->a_offset, call->b_offset, call->c_offset, call->d_offset};
    int with_c = (plan->gemm.desc.flags & CLATTN_GEMM_WITH_C) != 0;

    if (!with_c && call->c != NULL)
        return FAIL(&plan->log, INVALID_OPERAND, "gemm: c is given, without CLATTN_GEMM_WITH_C");
    for (int id = 0; id < GEMM_OPERANDS; id++)
        if (id != GEMM_C || with_c)
            TRY(check_buffer(plan, gemm, (enum gemm_operand)id, buffers[id], offsets[id]));
    return CLATTN_SUCCESS;
}

/* The plan's product with the call's rows; those of a gemv of few rows are compiled in. */
static clattn_status cut(const clattn_gemm_plan *plan, int64_t m, struct gemm *gemm)
{
    const clattn_gemm_desc *d = &plan->gemm.desc;
    const int fixed = plan->choice.shape.fixed_rows;

    *gemm = plan->gemm;
    if (m < 0 || m > d->m || (fixed && m != 0 && m != d->m))
        return FAIL(&plan->log, INVALID_ARGUMENT, "gemm: the call's m is %lld, the plan's %lld%s", (long long)m,
                    (long long)d->m, fixed ? ", which gemv takes alone" : "");
    if (m != 0)
        gemm_cut(gemm, m);
    return CLATTN_SUCCESS;
}

clattn_status gemm_enqueue(clattn_gemm_plan *plan, int64_t m, cl_command_queue queue, const clattn_gemm_call *call,
                           uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    const cl_mem buffers[] = {call->a, call->b, call->c, call->d};
    const size_t offsets[] = {call->a_offset, call->b_offset, call->c_offset, call->d_offset};
    struct ir_place places[GEMM_OPERANDS] = {{NULL, {0, 0, 0, 0}}};
    struct ir_call ir = {.extent = {.batch = 1, .seq_len = m, .sequences = 1, .kv_len = plan->gemm.desc.k},
                         .operands = places,
                         .queue = queue};

    for (int id = 0; id < GEMM_OPERANDS; id++) {
        places[id].memory = buffers[id];
        places[id].view.offset =
            (int64_t)(offsets[id] / dtype_size(gemm_type(&plan->gemm.desc, (enum gemm_operand)id)));
    }
    return bound_run(&plan->bound, &ir, &plan->log, n_wait, wait, event, NULL);
}

clattn_status clattn_gemm_enqueue_sized(clattn_gemm_plan *plan, cl_command_queue queue, const clattn_gemm_call *call,
                                        size_t call_size, uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    clattn_gemm_call ours;
    struct gemm gemm;

    if (event != NULL)
        *event = NULL;
    if (plan == NULL)
        return CLATTN_INVALID_ARGUMENT;
    if (queue == NULL || call == NULL || (n_wait > 0) != (wait != NULL) ||
        !sized_read(&ours, sizeof ours, call, call_size))
        return FAIL(&plan->log, INVALID_ARGUMENT, "gemm: queue, call or wait is NULL, or call has unknown fields");
    TRY(cut(plan, ours.m, &gemm));
    TRY(check_call(plan, &gemm, &ours));
    return gemm_enqueue(plan, gemm.desc.m, queue, &ours, n_wait, wait, event);
}
