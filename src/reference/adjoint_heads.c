/* The backward pass of a rule of a state: heads of sequences, the heads that share queries and keys, and the gradients that tokens
 * and sequences share. What a row does is in adjoint.c. */
#include "reference/adjoint.h"

#include "base/thread.h"

#include <math.h>
#include <stdlib.h>

/* ---- A head ---- */

/* Index of an element of a sequence's state, or of its gradient. */
static int64_t state_at(const struct head *head, const struct tensor *tensor, int64_t state, int64_t n, int64_t c)
{
    const int turned = (head->task->problem->desc.flags & CLATTN_STATE_VK) != 0;

    return tensor->view.offset + state * tensor->view.batch + head->head * tensor->view.head +
           (turned ? c * head->K + n : n * head->V + c);
}

static int64_t normalizer_at(const struct head *head, const struct tensor *tensor, int64_t state, int64_t n)
{
    return tensor->view.offset + state * tensor->view.batch + head->head * tensor->view.head + n;
}

/* A state with its normalizer, of the operands that have them; zero where there is none. */
static void get_state(const struct adjoint *a, clattn_operand_id matrix, clattn_operand_id vector, int64_t state,
                      double *S)
{
    const struct head *head = &a->head;
    const struct tensor *whole = head_tensor(head, matrix), *sums = head_tensor(head, vector);

    for (int64_t n = 0; n < a->K; n++) {
        for (int64_t c = 0; c < a->V; c++)
            S[n * a->columns + c] = state >= 0 && whole->data
                                        ? number_load(whole->dtype, whole->data, state_at(head, whole, state, n, c))
                                        : 0;
        if (a->columns > a->V)
            S[n * a->columns + a->V] =
                state >= 0 && sums->data ? number_load(CLATTN_F32, sums->data, normalizer_at(head, sums, state, n)) : 0;
    }
}

static void begin(struct adjoint *a)
{
    const struct head *head = &a->head;
    const struct tensor *m = head_tensor(head, CLATTN_STABILIZER_IN);

    get_state(a, CLATTN_STATE_IN, CLATTN_NORMALIZER_IN, head->state, a->after);
    a->head.m = head->state >= 0 && m->data ? number_load(CLATTN_F32, m->data, normalizer_at(head, m, head->state, 0))
                                            : (double)-INFINITY;
}

/* The gradient by the state that the sequence began with: 0 where it has none in the pool. */
static void leave_initial(const struct adjoint *a)
{
    const struct head *head = &a->head;
    const struct tensor *whole = head_tensor(head, gradient_of(CLATTN_STATE_IN));
    const struct tensor *sums = head_tensor(head, gradient_of(CLATTN_NORMALIZER_IN));
    const double is_there = head->state >= 0;

    for (int64_t n = 0; n < a->K; n++) {
        for (int64_t c = 0; c < a->V && whole->data; c++)
            task_leave(head->task, CLATTN_STATE_IN, state_at(head, whole, head->sequence, n, c),
                       is_there * a->dS[n * a->columns + c]);
        if (sums->data)
            task_leave(head->task, CLATTN_NORMALIZER_IN, normalizer_at(head, sums, head->sequence, n),
                       is_there * a->dS[n * a->columns + a->V]);
    }
}

static void walk(struct adjoint *a)
{
    const struct problem *problem = a->of->task->problem;

    begin(a);
    adjoint_forward(a);
    get_state(a, gradient_of(CLATTN_STATE_OUT), gradient_of(CLATTN_NORMALIZER_OUT),
              a->head.state >= 0 ? a->head.sequence : -1, a->dS);
    for (int64_t token = 0; token < a->head.tokens && problem_reads_whole(problem); token++)
        adjoint_reads_back(a, a->after, token);
    for (int64_t stretch = (a->rows + a->stretch - 1) / a->stretch - 1; stretch >= 0; stretch--) {
        const int64_t first = stretch * a->stretch;
        adjoint_again(a, stretch);
        for (int64_t i = a->stretch - 1; i >= 0; i--)
            if (first + i < a->rows)
                adjoint_row_back(a, first + i, a->before + i * a->K * a->columns);
    }
    leave_initial(a);
}

/* ---- Heads that share queries and keys ---- */

/* dy by a row as the state has it, to that by the operand: y = map(x r), r the norm, and x turned. */
static void map_back(struct adjoint *a, clattn_operand_id id, int64_t row, int64_t first, int64_t h, double *dy)
{
    const clattn_plan_desc *desc = &a->of->task->problem->desc;
    struct head *head = &a->head;
    double *x = head->q, factor, dot = 0;

    if (head_tensor(head, id)->data == NULL)
        return;
    head_load_turned(head, id, row, first, h, x);
    factor = head_norm(head, x);
    for (int64_t n = 0; n < a->K; n++) {
        x[n] *= factor;
        switch (desc->feature_map) {
        case CLATTN_FEATURE_IDENTITY: break;
        case CLATTN_FEATURE_ELU1: dy[n] *= x[n] > 0 ? 1 : exp(x[n]); break;
        case CLATTN_FEATURE_RELU: dy[n] *= x[n] > 0; break;
        }
        dot += x[n] * dy[n];
    }
    for (int64_t n = 0; n < a->K && desc->flags & CLATTN_QK_L2NORM; n++)
        dy[n] = factor * (dy[n] - x[n] * dot);
    task_turn_back(head->task, head->sequence, head_token(head, id, row), dy);
    for (int64_t n = 0; n < a->K; n++)
        adjoint_put(head, id, row, first, h, n, dy[n]);
}

static void leave_shared_rows(struct adjoint *a)
{
    const struct head *head = &a->head;
    const int64_t reads = problem_reads(a->of->task->problem), tokens = head->tokens;

    for (int64_t i = 0; i < reads * tokens; i++)
        map_back(a, CLATTN_Q, i % tokens, head->first, reads > 1 ? head_of_read(head, i / tokens) : head->key_head,
                 a->dq + i * a->K);
    for (int64_t row = 0; row < a->rows; row++)
        map_back(a, CLATTN_K, row, head->first * adjoint_steps(a), head->key_head, a->dk + row * a->K);
    for (int64_t token = 0; token < tokens; token++)
        map_back(a, CLATTN_P, token, head->first, head->key_head, a->dp_rows + token * a->K);
}

/* Room for a sequence's rows; NULL without memory. */
static double *share_out(struct adjoint *a)
{
    const int64_t K = a->K, columns = a->columns, state = K * columns, tokens = a->head.tokens;
    const int64_t reads = problem_reads(a->of->task->problem), stretches = (a->rows + a->stretch - 1) / a->stretch;
    struct head *head = &a->head;
    struct {
        double **to;
        int64_t count;
    } parts[] = {{&a->kept, stretches * state},
                 {&a->before, a->stretch * state},
                 {&a->stabilizers, a->rows},
                 {&a->decayed, state},
                 {&a->after, state},
                 {&a->dS, state},
                 {&a->u, columns},
                 {&a->du, columns},
                 {&a->dx, columns},
                 {&a->do_, columns},
                 {&a->value_flow, columns},
                 {&a->dkappa, K},
                 {&a->de, K},
                 {&a->dp, K},
                 {&a->flow, K},
                 {&a->dkey, K},
                 {&a->dq, reads * tokens * K},
                 {&a->dk, a->rows * K},
                 {&a->dp_rows, tokens * K},
                 {&head->q, K},
                 {&head->k, K},
                 {&head->p, K},
                 {&head->e, K},
                 {&head->decay, K},
                 {&head->value_decay, columns},
                 {&head->x, columns},
                 {&head->step, columns}};
    int64_t count = 0;
    double *memory;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        count += parts[i].count;
    memory = calloc((size_t)count, sizeof *memory);
    count = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && memory != NULL; i++) {
        *parts[i].to = memory + count;
        count += parts[i].count;
    }
    return memory;
}

static int64_t key_head_of(const clattn_plan_desc *desc, int64_t head)
{
    return desc->flags & CLATTN_HEADS_TILED ? head % desc->qk_heads : head / (desc->heads / desc->qk_heads);
}

/* How many heads of keys there are. */
static int64_t key_heads(const struct problem *problem)
{
    const int64_t states = problem_work_heads(problem);

    return states < problem->desc.qk_heads ? states : problem->desc.qk_heads;
}

/* A job: a sequence, and the heads that share one head of queries and keys, in their order. */
static void run_heads(void *user, int64_t job)
{
    const struct adjoint_task *of = user;
    const struct problem *problem = of->task->problem;
    const clattn_plan_desc *desc = &problem->desc;
    struct adjoint a = {
        .of = of, .K = desc->key_dim, .V = desc->value_dim, .columns = desc->value_dim + problem_normalized(problem)};
    const int64_t shared = job % key_heads(problem);
    double *memory;

    a.head =
        (struct head){.task = of->task, .sequence = job / key_heads(problem), .K = a.K, .V = a.V, .key_head = shared};
    head_place(&a.head);
    a.rows = a.head.tokens * desc->steps;
    a.stretch = (int64_t)ceil(sqrt((double)a.rows)) + 1;
    memory = share_out(&a);
    if (memory == NULL) {
        atomic_store(&of->task->out_of_memory, 1);
        return;
    }
    for (int64_t h = 0; h < problem_work_heads(problem); h++)
        if (key_head_of(desc, h) == shared) {
            a.head.head = h;
            walk(&a);
        }
    a.head.head = shared;
    leave_shared_rows(&a);
    free(memory);
}

/* ---- What tokens and sequences share ---- */

static clattn_operand_id shared_operand(const struct problem *problem, enum shared which)
{
    switch (which) {
    case SHARED_GATE: return problem->desc.flags & CLATTN_GATE_PER_HEAD ? problem->rule->gate : NO_OPERAND;
    case SHARED_BONUS: return CLATTN_U;
    case SHARED_RATE: return CLATTN_A_LOG;
    case SHARED_BIAS: return CLATTN_DT_BIAS;
    case SHARED_COUNT: break;
    }
    return NO_OPERAND;
}

static int open_sums(struct adjoint_task *of)
{
    const struct problem *problem = of->task->problem;
    const int64_t heads = problem_work_heads(problem);

    for (enum shared i = 0; i < SHARED_COUNT; i++) {
        const clattn_operand_id id = shared_operand(problem, i);
        of->width[i] = i == SHARED_BONUS || (i != SHARED_RATE && problem->rule->decay == DECAY_CHANNEL)
                           ? problem->desc.key_dim
                           : 1;
        if (id == NO_OPERAND || of->task->tensors[gradient_of(id)].data == NULL)
            continue;
        of->sums[i] = calloc((size_t)(of->task->extent.sequences * heads * of->width[i] + 1), sizeof *of->sums[i]);
        if (of->sums[i] == NULL)
            return 0;
    }
    return 1;
}

/* Sums over sequences, in their order. */
static void leave_sums(const struct adjoint_task *of)
{
    const struct problem *problem = of->task->problem;
    const int64_t heads = problem_work_heads(problem);
    const struct head head = {.task = of->task};

    for (enum shared i = 0; i < SHARED_COUNT; i++)
        for (int64_t n = 0; n < heads * of->width[i] && of->sums[i] != NULL; n++) {
            double sum = 0;
            for (int64_t sequence = 0; sequence < of->task->extent.sequences; sequence++)
                sum += of->sums[i][sequence * heads * of->width[i] + n];
            adjoint_put(&head, shared_operand(problem, i), 0, 0, n / of->width[i], n % of->width[i], sum);
        }
}

clattn_status adjoint_run(struct task *task, const struct log *log)
{
    struct adjoint_task of = {.task = task};

    atomic_init(&task->out_of_memory, !open_sums(&of));
    if (!atomic_load(&task->out_of_memory)) {
        parallel_for(task->extent.sequences * key_heads(task->problem), run_heads, &of);
        leave_sums(&of);
    }
    for (enum shared i = 0; i < SHARED_COUNT; i++)
        free(of.sums[i]);
    if (atomic_load(&task->out_of_memory))
        return FAIL(log, OUT_OF_MEMORY, "no memory for the states of the reference");
    return CLATTN_SUCCESS;
}
