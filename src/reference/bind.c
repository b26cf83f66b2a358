/* Checks a call's operands: all are present, and their integers keep every job within the caller's memory. */
#include "op/arguments.h"
#include "reference/number.h"
#include "reference/task.h"

static const void *slots_of(const struct task *task)
{
    const struct tensor *slots = &task->tensors[CLATTN_STATE_INDICES];

    return slots->data != NULL ? (const char *)slots->data + slots->view.offset * (int64_t)sizeof(int32_t) : NULL;
}

int64_t task_state(const struct task *task, int64_t sequence)
{
    const void *slots = slots_of(task);

    return slots != NULL ? problem_slot(task->problem, &task->extent, slots, sequence) : sequence;
}

int64_t task_start(const struct task *task, int64_t sequence)
{
    const struct tensor *accepted = &task->tensors[CLATTN_ACCEPTED];
    int64_t count;

    if (accepted->data == NULL)
        return 0;
    count = number_index(accepted->data, accepted->view.offset + sequence, 0);
    return count > 0 ? (count - 1) % task->problem->desc.state_window : -1;
}

int64_t task_snapshot(const struct task *task, int64_t tokens, int64_t done)
{
    const clattn_plan_desc *desc = &task->problem->desc;

    if (desc->state_every != 0)
        return done % desc->state_every == 0 ? done / desc->state_every - 1 : -1;
    if (done <= tokens - desc->state_window)
        return -1;
    return desc->flags & CLATTN_WITH_ACCEPTED ? (done - 1) % desc->state_window
                                              : desc->state_window - 1 - (tokens - done);
}

clattn_status task_bind(struct task *task, const struct arguments *arguments, const struct log *log)
{
    const struct problem *problem = task->problem;

    for (int i = 0; i < problem->operand_count; i++) {
        const struct operand_row *row = &problem->operands[i];
        const clattn_operand *operand = &arguments->of[row->id];
        struct tensor *tensor = &task->tensors[row->id];
        clattn_operand_info info;

        if (operand->host == NULL && operand_is_optional(row))
            continue;
        problem_operand_info(problem, &task->extent, row, &info);
        if (operand->host == NULL && !problem_is_empty(problem, &task->extent, row))
            return FAIL(log, INVALID_OPERAND, "%s: operand %s is missing", problem->rule->name, info.name);
        TRY(problem_view(problem, &task->extent, row, operand, operand->size, &tensor->view, log));
        tensor->data = operand->host;
        tensor->dtype = info.dtype;
    }
    TRY(problem_check_lengths(problem, &task->extent, arguments, log));
    if (slots_of(task) != NULL)
        return problem_check_slots(problem, &task->extent, slots_of(task), log);
    return CLATTN_SUCCESS;
}
