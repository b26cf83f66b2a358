#include "op/arguments.h"

#include "base/sized.h"

#include <stdio.h>
#include <string.h>

/* "beta", "the gradient of q", "operand 77" */
static const char *id_text(int64_t id, char *text, size_t size)
{
    int64_t base = id > CLATTN_GRADIENTS ? id - CLATTN_GRADIENTS : id;

    if (base > CLATTN_OPERAND_NONE && base < OPERAND_COUNT)
        snprintf(text, size, "%s%s", base != id ? "the gradient of " : "", operand_name((clattn_operand_id)base));
    else
        snprintf(text, size, "operand id %lld", (long long)id);
    return text;
}

static int is_used(const struct problem *problem, int64_t id)
{
    for (int i = 0; i < problem->operand_count; i++)
        if ((int64_t)problem->operands[i].id == id)
            return 1;
    return 0;
}

static clattn_status add(struct arguments *arguments, const struct problem *problem, const clattn_operand *operand,
                         const struct log *log)
{
    int64_t id = (int64_t)operand->id;
    char text[64];

    if (!is_used(problem, id))
        return FAIL(log, INVALID_OPERAND, "%s: %s is unexpected", problem->rule->name, id_text(id, text, sizeof text));
    if (arguments->of[id].id != CLATTN_OPERAND_NONE)
        return FAIL(log, INVALID_OPERAND, "%s: %s is given twice", problem->rule->name, id_text(id, text, sizeof text));
    arguments->of[id] = *operand;
    return CLATTN_SUCCESS;
}

clattn_status arguments_read(struct arguments *arguments, const struct problem *problem, const clattn_call *call,
                             size_t call_size, size_t operand_size, const struct log *log)
{
    clattn_call ours;

    if (!sized_read(&ours, sizeof ours, call, call_size))
        return FAIL(log, INVALID_ARGUMENT, "the call has fields that this library (%s) does not know",
                    clattn_version());
    if (ours.operands == NULL && ours.operand_count > 0)
        return FAIL(log, INVALID_OPERAND, "operands is NULL, operand_count %zu", ours.operand_count);
    memset(arguments, 0, sizeof *arguments);
    for (size_t i = 0; i < ours.operand_count; i++) {
        clattn_operand operand;
        if (!sized_read(&operand, sizeof operand, (const char *)ours.operands + i * operand_size, operand_size))
            return FAIL(log, INVALID_OPERAND, "operands[%zu] has fields that this library (%s) does not know", i,
                        clattn_version());
        TRY(add(arguments, problem, &operand, log));
    }
    arguments->workspace =
        (clattn_operand){.buffer = ours.workspace, .offset = ours.workspace_offset, .size = ours.workspace_size};
    arguments->seq_len = ours.seq_len;
    arguments->batch = ours.batch;
    arguments->sequences = ours.sequences;
    arguments->kv_len = ours.kv_len;
    arguments->tail = ours.tail;
    return CLATTN_SUCCESS;
}

clattn_call arguments_call(const struct arguments *arguments, clattn_operand *list)
{
    clattn_call call = {.operands = list,
                        .seq_len = arguments->seq_len,
                        .batch = arguments->batch,
                        .sequences = arguments->sequences,
                        .kv_len = arguments->kv_len,
                        .tail = arguments->tail,
                        .workspace = arguments->workspace.buffer,
                        .workspace_offset = arguments->workspace.offset,
                        .workspace_size = arguments->workspace.size};

    for (int id = 1; id < OPERAND_COUNT; id++) {
        const clattn_operand *operand = &arguments->of[id];
        if (operand->buffer == NULL && operand->host == NULL)
            continue;
        list[call.operand_count] = *operand;
        list[call.operand_count++].id = (clattn_operand_id)id;
    }
    return call;
}
