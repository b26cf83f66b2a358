/* The recurrence of every rule, token by token in double precision: the oracle, and the path without OpenCL.
 *
 *     S <- D S;  S <- S - e (p^T S);  S <- S + k x^T;  o = S^T (scale q)       the S of p^T S may be that before D
 *
 * The columns of the rule table say which operands D, e, p, x and the read are made of. One job is one sequence and one
 * head of the state, which several heads of queries may read. The attention matrix is what the same makes of unit
 * vectors in the place of v. */
#include "op/arguments.h"
#include "reference/head.h"
#include "base/thread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* y = S^T x */
static void read_state(const struct head *head, const double *x, double *y)
{
    memset(y, 0, (size_t)head->V * sizeof *y);
    for (int64_t n = 0; n < head->K; n++)
        for (int64_t c = 0; c < head->V; c++)
            y[c] += head->S[n * head->V + c] * x[n];
}

static void add_outer(struct head *head, const double *column, const double *row, double sign)
{
    for (int64_t n = 0; n < head->K; n++)
        for (int64_t c = 0; c < head->V; c++)
            head->S[n * head->V + c] += sign * column[n] * row[c];
}

/* Decay and erase in the rule's order. */
static void keep(struct head *head, int64_t row, int64_t first, int decays)
{
    const struct rule *rule = head->task->problem->rule;

    if (rule->order == ERASE_FIRST)
        read_state(head, head->p, head->pS);
    if (decays)
        head_decay(head, row, first);
    if (rule->order == DECAY_FIRST && rule->erase != ERASE_NONE)
        read_state(head, head->p, head->pS);
    if (rule->erase != ERASE_NONE)
        add_outer(head, head->e, head->pS, -1);
}

/* One write: all states decay and are erased from, the first one is written to. */
static void update(struct head *head, int64_t row, int64_t first, int decays)
{
    double strength;

    head_load_key(head, CLATTN_K, row, first, head->key_head, head->k);
    strength = head_load_write(head, row, first);
    for (int64_t c = 0; c < head->V; c++)
        head->x[c] *= strength;
    head_load_erase(head, row, first, strength);
    for (int64_t level = head->levels; level-- > 0;) {
        head->S = head->states + level * head->K * head->V;
        keep(head, row, first, decays);
    }
    add_outer(head, head->k, head->x, 1);
    if (head->R != NULL)
        head_gram_update(head, strength);
    for (int64_t n = 0; n < head->K; n++)
        head->z[n] += strength * head->k[n];
}

/* rwkv6: what the token itself adds to its read of the state before it. */
static void read_bonus(struct head *head, int64_t token)
{
    double bonus = 0;

    head_load_key(head, CLATTN_K, token, head->first, head->key_head, head->k);
    head_load_value(head, token, head->first);
    for (int64_t n = 0; n < head->K; n++) {
        const struct tensor *u = head_tensor(head, CLATTN_U);
        int64_t at = u->view.offset + head->head * u->view.head + n;
        bonus += head->q[n] * number_load(u->dtype, u->data, at) * head->k[n];
    }
    read_state(head, head->q, head->o);
    for (int64_t c = 0; c < head->V; c++)
        head->o[c] += bonus * head->x[c];
}

/* o = sum of weight S^T q over the states of all levels. */
static void read_levels(struct head *head, int64_t token, int64_t h)
{
    memset(head->o, 0, (size_t)head->V * sizeof *head->o);
    for (int64_t level = head->levels; level-- > 0;) {
        const double weight = head_element(head, CLATTN_LEVELS, token, head->first, h, level);
        head->S = head->states + level * head->K * head->V;
        read_state(head, head->q, head->pS);
        for (int64_t c = 0; c < head->V; c++)
            head->o[c] += weight * head->pS[c];
    }
}

/* The token is one more of those before: the levels up to the lowest bit of their number become one. */
static void merge_levels(struct head *head)
{
    const int64_t size = head->K * head->V;
    int64_t merged = 1;

    head->position++;
    while (merged < head->levels && !(head->position >> (merged - 1) & 1))
        merged++;
    for (int64_t level = 0; level < merged; level++) {
        double *S = head->states + level * size, *to = head->states + merged * size;
        for (int64_t i = 0; i < size && merged < head->levels; i++)
            to[i] += S[i];
        memset(S, 0, (size_t)size * sizeof *S);
    }
}

/* o, of the state before the token's writes or after them. */
static void read_query(struct head *head, int64_t token, int64_t h)
{
    switch (head->task->problem->rule->read) {
    case READ_BONUS: read_bonus(head, token); return;
    case READ_LEVELS: read_levels(head, token, h); return;
    case READ_SOLVED:
        head_solve(head);
        read_state(head, head->q, head->o);
        return;
    case READ_SOFTMAX: /* list.c */
    case READ_AFTER:
    case READ_STATE:
    case READ_STABILIZED: read_state(head, head->q, head->o); return;
    }
}

/* What o is divided by. */
static double denominator(const struct head *head)
{
    const struct problem *problem = head->task->problem;
    double sum = 0;

    for (int64_t n = 0; n < head->K; n++)
        sum += head->q[n] * head->z[n];
    if (problem->rule->read == READ_STABILIZED)
        sum = fmax(fabs(sum), exp(-head->m));
    return problem_normalized(problem) ? sum + problem_eps(problem) : 1;
}

/* Twice the real part is what 2 q_re and -2 q_im read of the parts. */
static void double_conjugate(double *q, int64_t count)
{
    for (int64_t n = 0; n < count; n++)
        q[n] *= n % 2 == 0 ? 2 : -2;
}

/* What the output has beside its read. */
static void finish(struct head *head, int64_t token)
{
    for (int64_t c = 0; c < head->V; c++) {
        if (head_tensor(head, CLATTN_D)->data != NULL)
            head->o[c] += head_element(head, CLATTN_D, 0, 0, head->head, c) *
                          head_element(head, CLATTN_V, token, head->first, head->head, c);
        if (head_tensor(head, CLATTN_Z)->data != NULL) {
            double z = head_element(head, CLATTN_Z, token, head->first, head->head, c);
            head->o[c] *= z / (1 + exp(-z));
        }
    }
}

/* What the gate multiplies a number of the row by there. */
static double norm_gate(const struct head *head, int64_t token, int64_t h, int64_t c, clattn_gating where)
{
    double z;

    if (head_tensor(head, CLATTN_Z)->data == NULL || head->task->problem->desc.gating != where)
        return 1;
    z = head_element(head, CLATTN_Z, token, head->first, h, c);
    return (where == CLATTN_GATING_SIGMOID ? 1 : z) / (1 + exp(-z));
}

/* o over its root mean square, times weights and a gate */
static void normalise(struct head *head, int64_t token, int64_t h)
{
    const clattn_plan_desc *desc = &head->task->problem->desc;
    double squares = 0;

    for (int64_t c = 0; c < head->V; c++) {
        head->o[c] *= norm_gate(head, token, h, c, CLATTN_GATING_BEFORE);
        squares += head->o[c] * head->o[c];
    }
    for (int64_t c = 0; c < head->V; c++) {
        head->o[c] *= head_element(head, CLATTN_NORM, 0, 0, 0, c) / sqrt(squares / (double)head->V + desc->eps);
        head->o[c] *= norm_gate(head, token, h, c, CLATTN_GATING_AFTER);
        head->o[c] *= norm_gate(head, token, h, c, CLATTN_GATING_SIGMOID);
    }
}

/* A row of o; or of attn, which is 0 where other sequences have their columns. */
static void store_row(const struct head *head, int64_t token, int64_t h, double divisor)
{
    const struct tensor *o = head_tensor(head, head->units ? CLATTN_ATTN : CLATTN_O);
    int64_t at =
        o->view.offset + head->batch * o->view.batch + (head->first + token) * o->view.token + h * o->view.head;
    int64_t steps = head->task->problem->desc.steps;

    for (int64_t c = 0; head->units && c < head->task->extent.seq_len * steps; c++)
        number_store(o->dtype, o->data, at + c, 0);
    at += head->units ? head->first * steps : 0;
    for (int64_t c = 0; c < head->V; c++)
        number_store(o->dtype, o->data, at + c, head->o[c] / divisor);
}

static void read_token(struct head *head, int64_t token, int64_t h)
{
    const struct problem *problem = head->task->problem;

    head_load_key(head, CLATTN_Q, token, head->first, problem_reads(problem) > 1 ? h : head->key_head, head->q);
    for (int64_t n = 0; n < head->K; n++)
        head->q[n] *= problem->desc.scale;
    if (problem->desc.flags & CLATTN_COMPLEX)
        double_conjugate(head->q, head->K);
    read_query(head, token, h);
    if (!problem_norms(problem))
        finish(head, token);
    else if (!head->units)
        normalise(head, token, h);
    store_row(head, token, h, denominator(head));
}

static void run_token(struct head *head, int64_t token)
{
    const struct problem *problem = head->task->problem;
    int64_t steps = problem->desc.steps, reads = problem_reads(problem);
    int before = read_is_before(problem->rule->read), whole = problem_reads_whole(problem);

    if (problem_is_summary(problem))
        reads = 0;
    for (int64_t n = 0; n < reads && before; n++)
        read_token(head, token, head_of_read(head, n));
    head_factors(head, token);
    for (int64_t step = 0; step < steps; step++)
        update(head, token * steps + step, head->first * steps, step == 0);
    for (int64_t n = 0; n < reads && !before && !whole; n++)
        read_token(head, token, head_of_read(head, n));
    if (rule_has_levels(problem->rule))
        merge_levels(head);
}

/* Where all tokens read the state after the last */
static void read_whole(struct head *head)
{
    const struct problem *problem = head->task->problem;
    int64_t reads = problem_reads(problem);

    for (int64_t i = 0; i < head->tokens * reads && problem_reads_whole(problem); i++)
        read_token(head, i / reads, head_of_read(head, i % reads));
}

static void walk(struct head *head, double *memory)
{
    double **parts[] = {&head->z, &head->q, &head->k, &head->p, &head->e, &head->decay};
    double **value_parts[] = {&head->value_decay, &head->x, &head->pS, &head->o, &head->step};
    int64_t K = head->K, V = head->V, size = head->levels * K * V;

    head->S = head->states = memory;
    for (int i = 0; i < 6; i++)
        *parts[i] = memory + size + i * K;
    for (int i = 0; i < 5; i++)
        *value_parts[i] = memory + size + 6 * K + i * V;
    head->R = rule_is_solved(head->task->problem->rule) ? memory + size + 6 * K + 5 * V : NULL;
    head_begin(head);
    for (int64_t token = 0; token < head->tokens; token++) {
        run_token(head, token);
        head_leave(head, token + 1);
    }
    read_whole(head);
    head_end(head);
}

static void run_head(void *user, int64_t job)
{
    struct task *task = user;
    const clattn_plan_desc *desc = &task->problem->desc;
    int64_t heads = problem_work_heads(task->problem), shared = desc->qk_heads;
    struct head head = {.task = task,
                        .sequence = job / heads,
                        .head = job % heads,
                        .K = desc->key_dim,
                        .V = desc->value_dim,
                        .levels = rule_has_levels(task->problem->rule) ? desc->levels : 1,
                        .units = task->units};
    double *memory;

    head.key_head = desc->flags & CLATTN_HEADS_TILED ? head.head % shared : head.head / (desc->heads / shared);
    head_place(&head);
    if (head.units)
        head.V = head.tokens * desc->steps;
    if (task->transition && !problem_stabilized(task->problem))
        head.V = problem_unit_columns(task->problem);
    memory = calloc((size_t)(head.levels * head.K * head.V + 6 * head.K + 5 * head.V + head_gram_memory(task->problem)),
                    sizeof *memory);
    if (memory == NULL) {
        atomic_store(&task->out_of_memory, 1);
        return;
    }
    walk(&head, memory);
    free(memory);
}

static void (*job_of(const struct rule *rule))(void *user, int64_t job)
{
    switch (rule->op) {
    case OP_PIECE: return piece_head;
    case OP_LEARNER: return rule->model == MODEL_GATED ? learner_head : ttt_head;
    case OP_MIXER: return rule_has_list(rule) ? list_head : run_head;
    case OP_COUNT: break;
    }
    return NULL;
}

clattn_status clattn_reference_sized(const clattn_plan_desc *desc, size_t desc_size, const clattn_call *call,
                                     size_t call_size, size_t operand_size, clattn_log_fn log, void *log_user)
{
    const struct log sink = {log, log_user};
    struct problem problem;
    struct task task = {.problem = &problem};
    struct arguments arguments;

    if (call == NULL)
        return FAIL(&sink, INVALID_ARGUMENT, "call is NULL");
    TRY(problem_read(&problem, desc, desc_size, &sink));
    TRY(arguments_read(&arguments, &problem, call, call_size, operand_size, &sink));
    TRY(problem_extent(&problem, &arguments, &task.extent, &sink));
    TRY(task_bind(&task, &arguments, &sink));
    if (problem.desc.pass == CLATTN_PASS_BACKWARD)
        return (problem.rule->op == OP_PIECE ? piece_back_run : adjoint_run)(&task, &sink);
    if (task.extent.seq_len == 0 && !(problem.desc.flags & (CLATTN_FINAL_STATE | CLATTN_CARRY)))
        return CLATTN_SUCCESS; /* nothing is written, however many sequences there are */
    atomic_init(&task.out_of_memory, 0);
    if (problem.desc.flags & CLATTN_APPEND) /* before any head reads what others share with it */
        parallel_for(task.extent.sequences * problem.desc.kv_heads, list_append, &task);
    for (task.units = (problem.desc.flags & CLATTN_WITH_ATTN) != 0; task.units >= 0; task.units--)
        parallel_for(task.extent.sequences * problem_work_heads(&problem), job_of(problem.rule), &task);
    task.units = 0;
    task.transition = task.tensors[CLATTN_TRANSITION].data != NULL;
    if (task.transition)
        parallel_for(task.extent.sequences * problem_work_heads(&problem), run_head, &task);
    task.transition = 0;
    task_move_positions(&task);
    if (problem.desc.flags & CLATTN_CARRY)
        parallel_for(task.extent.sequences * problem.desc.kv_heads, list_carry, &task);
    if (atomic_load(&task.out_of_memory))
        return FAIL(&sink, OUT_OF_MEMORY, "no memory for the states of the reference");
    return CLATTN_SUCCESS;
}
