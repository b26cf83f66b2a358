/* Reads and writes the caller's states. */
#include "reference/head.h"

#include <math.h>
#include <string.h>

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

/* The place of a job's state, in elements: where the tensor has a sequence's or a pool's at `state`, the one with that
 * number among several. */
static int64_t state_at(const struct head *head, const struct tensor *tensor, int64_t state, int64_t number)
{
    const struct view *view = &tensor->view;

    return view->offset + state * view->batch + number * view->token + head->head * view->head;
}

static void store_matrix(const struct head *head, const struct tensor *S, int64_t at)
{
    const int64_t size = head->K * head->V;

    for (int64_t level = 0; level < head->levels && S->data != NULL; level++)
        for (int64_t i = 0; i < size; i++)
            number_store(S->dtype, S->data, at + level * size + inner_index(head, i / head->V, i % head->V),
                         head->states[level * size + i]);
}

/* S at the beginning. Of levels those that have tokens; the others are empty, whatever the caller's memory holds. */
static void load_matrix(struct head *head, const struct tensor *S, int64_t at)
{
    const int whole = !rule_has_levels(head->task->problem->rule);
    const int64_t size = head->K * head->V;

    for (int64_t level = 0; level < head->levels; level++) {
        const int has = whole || (level > 0 && (head->position >> (level - 1) & 1));
        for (int64_t i = 0; i < size; i++)
            head->states[level * size + i] =
                has && S->data != NULL
                    ? number_load(S->dtype, S->data, at + level * size + inner_index(head, i / head->V, i % head->V))
                    : 0;
    }
}

static void store_sums(const struct head *head, const struct tensor *z, int64_t at)
{
    for (int64_t n = 0; n < head->K && z->data != NULL; n++)
        number_store(CLATTN_F32, z->data, at + n, head->z[n]);
}

static void store_gram(const struct head *head, const struct tensor *gram, int64_t at)
{
    for (int64_t i = 0; i < head->K * head->K && gram->data != NULL; i++)
        number_store(CLATTN_F32, gram->data, at + i, head->R[i]);
}

/* From the state's number in the pool; or zero. */
static void load_gram(struct head *head, int has_state, int64_t number)
{
    const struct tensor *gram = head_tensor(head, CLATTN_GRAM_IN);

    for (int64_t i = 0; head->R != NULL && i < head->K * head->K; i++)
        head->R[i] = has_state && gram->data
                         ? number_load(CLATTN_F32, gram->data, state_at(head, gram, head->state, number) + i)
                         : 0;
}

static void store_stabilizer(const struct head *head, const struct tensor *m, int64_t at)
{
    if (m->data != NULL)
        number_store(CLATTN_F32, m->data, at, head->m);
}

void head_leave(const struct head *head, int64_t tokens)
{
    const struct tensor *states = head_tensor(head, CLATTN_STATES), *z = head_tensor(head, CLATTN_NORMALIZERS),
                        *m = head_tensor(head, CLATTN_STABILIZERS), *gram = head_tensor(head, CLATTN_GRAMS);
    int in_pool = (head->task->problem->desc.flags & CLATTN_WITH_ACCEPTED) != 0;
    int64_t number = task_snapshot(head->task, head->tokens, tokens), state = in_pool ? head->state : head->sequence;

    if (states->data == NULL || number < 0 || state < 0 || head->units)
        return;
    store_matrix(head, states, state_at(head, states, state, number));
    store_sums(head, z, state_at(head, z, state, number));
    store_stabilizer(head, m, state_at(head, m, state, number));
    store_gram(head, gram, state_at(head, gram, state, number));
}

/* The position of a sequence's first token, of levels. */
static uint32_t first_position(const struct head *head)
{
    const struct tensor *position = head_tensor(head, CLATTN_POSITION);

    return position->data != NULL && head->state >= 0
               ? (uint32_t)number_index(position->data, position->view.offset + head->state, 0)
               : 0;
}

/* Makes S a unit state. */
static void begin_unit(struct head *head)
{
    const enum unit unit = problem_unit(head->task->problem);

    for (int64_t n = 0; n < head->K; n++)
        for (int64_t c = 0; c < head->V; c++) {
            const int is_one[] = {[UNIT_ONES] = 1,
                                  [UNIT_DIAGONAL] = n == c,
                                  [UNIT_ROW_PAIRS] = n % 2 == 0,
                                  [UNIT_COLUMN_PAIRS] = c % 2 == 0};
            head->S[n * head->V + c] = is_one[unit];
        }
}

static void end_transition(const struct head *head)
{
    const struct tensor *M = head_tensor(head, CLATTN_TRANSITION);
    const int64_t at = state_at(head, M, head->sequence, 0);
    double sum = 0;

    for (int64_t i = 0; i < head->K * head->V && !problem_stabilized(head->task->problem); i++)
        number_store(M->dtype, M->data, at + i, head->S[i]);
    if (!problem_stabilized(head->task->problem))
        return;
    for (int64_t token = 0; token < head->tokens; token++)
        sum += head_gate(head, token, 0);
    number_store(M->dtype, M->data, at, sum);
}

static void begin_given(struct head *head)
{
    const struct tensor *S = head_tensor(head, CLATTN_STATE_IN);
    const struct tensor *z = head_tensor(head, CLATTN_NORMALIZER_IN);
    const struct tensor *m = head_tensor(head, CLATTN_STABILIZER_IN);
    int64_t number = task_start(head->task, head->sequence);
    int has_state = head->state >= 0 && number >= 0;

    for (int64_t n = 0; n < head->K; n++)
        head->z[n] =
            has_state && z->data ? number_load(CLATTN_F32, z->data, state_at(head, z, head->state, number) + n) : 0;
    if (rule_has_levels(head->task->problem->rule) && !head->units)
        head->position = first_position(head);
    if (has_state && !head->units)
        load_matrix(head, S, state_at(head, S, head->state, number));
    load_gram(head, has_state, number);
    head->m = has_state && m->data ? number_load(CLATTN_F32, m->data, state_at(head, m, head->state, number))
                                   : (double)-INFINITY;
}

void head_begin(struct head *head)
{
    if (head->task->transition)
        begin_unit(head);
    else
        begin_given(head);
}

void head_end(const struct head *head)
{
    const struct tensor *S = head_tensor(head, CLATTN_STATE_OUT);
    const struct tensor *z = head_tensor(head, CLATTN_NORMALIZER_OUT);
    const struct tensor *m = head_tensor(head, CLATTN_STABILIZER_OUT);
    const struct tensor *gram = head_tensor(head, CLATTN_GRAM_OUT);

    if (head->task->transition) {
        end_transition(head);
        return;
    }
    if (head->state < 0 || head->units)
        return;
    store_matrix(head, S, state_at(head, S, head->state, 0));
    store_sums(head, z, state_at(head, z, head->state, 0));
    store_stabilizer(head, m, state_at(head, m, head->state, 0));
    store_gram(head, gram, state_at(head, gram, head->state, 0));
}

void task_move_positions(const struct task *task)
{
    const struct tensor *to = &task->tensors[CLATTN_POSITION_OUT];

    for (int64_t n = 0; n < task->extent.sequences && to->data != NULL; n++) {
        struct head head = {.task = task, .sequence = n};
        int32_t position;
        head_place(&head);
        position = (int32_t)(first_position(&head) + (uint32_t)head.tokens);
        if (head.state >= 0)
            memcpy((char *)to->data + (to->view.offset + head.state) * (int64_t)sizeof position, &position,
                   sizeof position);
    }
}
