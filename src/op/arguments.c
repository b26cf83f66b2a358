#include "op/arguments.h"

#include "base/sized.h"

#include <stdio.h>
#include <string.h>

/* "beta", "d_q", "operand id 77" */
static const char *id_text(clattn_operand_id id, char *text, size_t size)
{
    const clattn_operand_id known = operand_from_public(id);

    if (known != CLATTN_OPERAND_NONE)
        snprintf(text, size, "%s", operand_name(known));
    else
        snprintf(text, size, "operand id %lld", (long long)id);
    return text;
}

static int is_used(const struct problem *problem, clattn_operand_id id)
{
    for (int i = 0; i < problem->operand_count; i++)
        if (problem->operands[i].id == id)
            return 1;
    return 0;
}

static clattn_status add(struct arguments *arguments, const struct problem *problem, const clattn_operand *operand,
                         const struct log *log)
{
    const clattn_operand_id id = operand_from_public(operand->id);
    char text[64];

    if (id == CLATTN_OPERAND_NONE || !is_used(problem, id))
        return FAIL(log, INVALID_OPERAND, "%s: %s is unexpected", problem->rule->name,
                    id_text(operand->id, text, sizeof text));
    if (arguments->of[id].id != CLATTN_OPERAND_NONE)
        return FAIL(log, INVALID_OPERAND, "%s: %s is given twice", problem->rule->name,
                    id_text(operand->id, text, sizeof text));
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
        list[call.operand_count++].id = operand_to_public((clattn_operand_id)id);
    }
    return call;
}
