/* Checks a call's operands: all are present, and their integers keep every job within the caller's memory. */
#include "op/arguments.h"
#include "reference/number.h"
#include "reference/task.h"

/* Checks the starts of sequences, the last of which is the end: the length that `whole` names. */
static clattn_status check_cuts(const struct task *task, clattn_operand_id id, int64_t length, const char *whole,
                                const struct log *log)
{
    const struct tensor *cu = &task->tensors[id];
    int64_t before = 0, now = 0;

    if (cu->data == NULL)
        return CLATTN_SUCCESS;
    for (int64_t n = 0; n <= task->extent.sequences; n++, before = now) {
        now = task_cut(task->problem, cu, n);
        if (now < before || now > length || (n == 0 && now != 0))
            return FAIL(log, INVALID_OPERAND, "%s[%lld] is %lld, expected %s%lld to %lld", operand_name(id),
                        (long long)n, (long long)now, n == 0 ? "0, then " : "", (long long)before, (long long)length);
    }
    if (now != length)
        return FAIL(log, INVALID_OPERAND, "%s ends at %lld, expected %s %lld", operand_name(id), (long long)now, whole,
                    (long long)length);
    return CLATTN_SUCCESS;
}

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

/* The number of keys in use, of those that each sequence may have. */
static clattn_status check_lengths(const struct task *task, const struct log *log)
{
    const struct tensor *lens = &task->tensors[CLATTN_KV_LENS], *cu = &task->tensors[CLATTN_SEQLENS_KV];

    for (int64_t n = 0; lens->data != NULL && n < task->extent.sequences; n++) {
        int64_t length = number_index(lens->data, lens->view.offset + n, 0), most = task->extent.kv_len;
        if (cu->data != NULL)
            most = task_cut(task->problem, cu, n + 1) - task_cut(task->problem, cu, n);
        if (length < 0 || length > most)
            return FAIL(log, INVALID_OPERAND, "kv_lens[%lld] is %lld, expected 0 to the sequence's %lld keys",
                        (long long)n, (long long)length, (long long)most);
    }
    return CLATTN_SUCCESS;
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
    TRY(check_cuts(task, CLATTN_SEQLENS, task->extent.seq_len, "seq_len", log));
    TRY(check_cuts(task, CLATTN_SEQLENS_KV, task->extent.kv_len, "kv_len", log));
    if (slots_of(task) != NULL)
        TRY(problem_check_slots(problem, &task->extent, slots_of(task), log));
    return check_lengths(task, log);
}
