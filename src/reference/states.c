/* Reads and writes the caller's states. */
#include "reference/head.h"

#include <math.h>

void head_place(struct head *head)
{
    const struct tensor *cu = head_tensor(head, CLATTN_SEQLENS);
    const struct problem *problem = head->task->problem;

    head->state = task_state(head->task, head->sequence);
    head->batch = cu->data ? 0 : head->sequence;
    head->first = cu->data ? task_cut(problem, cu, head->sequence) : 0;
    head->tokens = (cu->data ? task_cut(problem, cu, head->sequence + 1) : head->task->extent.seq_len) - head->first;
    if (cu->data && (problem->desc.flags & CLATTN_REVERSED))
        head->first = head->task->extent.seq_len - head->first - head->tokens;
}

int64_t head_of_read(const struct head *head, int64_t n)
{
    const clattn_plan_desc *desc = &head->task->problem->desc;

    if (desc->flags & CLATTN_HEADS_TILED)
        return n * desc->kv_heads + head->head;
    return head->head * problem_reads(head->task->problem) + n;
}

static int64_t inner_index(const struct head *head, int64_t n, int64_t c)
{
    return head->task->problem->desc.flags & CLATTN_STATE_VK ? c * head->K + n : n * head->V + c;
}

void head_leave(const struct head *head, int64_t tokens)
{
    const clattn_plan_desc *desc = &head->task->problem->desc;
    const struct tensor *states = head_tensor(head, CLATTN_STATES);
    int64_t slot = desc->state_window - 1 - (head->tokens - tokens), at;

    if (desc->state_every != 0)
        slot = tokens % desc->state_every == 0 ? tokens / desc->state_every - 1 : -1;
    if (states->data == NULL || slot < 0 || head->units)
        return;
    at = states->view.offset + head->sequence * states->view.batch + slot * states->view.token +
         head->head * states->view.head;
    for (int64_t n = 0; n < head->K; n++)
        for (int64_t c = 0; c < head->V; c++)
            number_store(states->dtype, states->data, at + inner_index(head, n, c), head->S[n * head->V + c]);
}

static int64_t state_index(const struct head *head, const struct tensor *tensor, int64_t n, int64_t c)
{
    return tensor->view.offset + head->state * tensor->view.batch + head->head * tensor->view.head +
           inner_index(head, n, c);
}

static int64_t vector_index(const struct head *head, const struct tensor *tensor, int64_t n)
{
    return tensor->view.offset + head->state * tensor->view.batch + head->head * tensor->view.head + n;
}

void head_begin(struct head *head)
{
    const struct tensor *S = head_tensor(head, CLATTN_STATE_IN);
    const struct tensor *z = head_tensor(head, CLATTN_NORMALIZER_IN);
    const struct tensor *m = head_tensor(head, CLATTN_STABILIZER_IN);
    int has_state = head->state >= 0;

    for (int64_t n = 0; n < head->K; n++) {
        head->z[n] = has_state && z->data ? number_load(CLATTN_F32, z->data, vector_index(head, z, n)) : 0;
        for (int64_t c = 0; c < head->V; c++)
            head->S[n * head->V + c] =
                has_state && S->data && !head->units ? number_load(S->dtype, S->data, state_index(head, S, n, c)) : 0;
    }
    head->m = has_state && m->data ? number_load(CLATTN_F32, m->data, vector_index(head, m, 0)) : (double)-INFINITY;
}

void head_end(const struct head *head)
{
    const struct tensor *S = head_tensor(head, CLATTN_STATE_OUT);
    const struct tensor *z = head_tensor(head, CLATTN_NORMALIZER_OUT);
    const struct tensor *m = head_tensor(head, CLATTN_STABILIZER_OUT);

    if (head->state < 0 || head->units)
        return;
    for (int64_t n = 0; n < head->K; n++) {
        if (z->data)
            number_store(CLATTN_F32, z->data, vector_index(head, z, n), head->z[n]);
        for (int64_t c = 0; c < head->V && S->data; c++)
            number_store(S->dtype, S->data, state_index(head, S, n, c), head->S[n * head->V + c]);
    }
    if (m->data)
        number_store(CLATTN_F32, m->data, vector_index(head, m, 0), head->m);
}
