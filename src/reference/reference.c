/* The recurrence of every rule, token by token in double precision: the oracle, and the path without OpenCL.
 *
 *     S <- D S;  S <- S - e (p^T S);  S <- S + k x^T;  o = S^T (scale q)       the S of p^T S may be that before D
 *
 * The columns of the rule table say which operands D, e, p, x and the read are made of. One job is one sequence and one
 * head of the state, which several heads of queries may read. The attention matrix is what the same makes of unit
 * vectors in the place of v. */
#include "op/arguments.h"
#include "reference/number.h"
#include "reference/task.h"
#include "base/thread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One head's state and the rows of the token at hand. */
struct head {
    const struct task *task;
    int64_t sequence, state, batch, head, key_head, first, tokens; /* state: its place in the pool, -1 for none */
    int64_t K, V;
    int units;     /* v are unit vectors, V the sequence's rows: what is read are rows of attn */
    double *S, *z; /* [K][V], [K]: z of normalize, n of mlstm */
    double m;
    double *q, *k, *p, *e, *decay, *value_decay, *x, *pS, *o, *step;
};

static const struct tensor *tensor_of(const struct head *head, clattn_operand_id id)
{
    return &head->task->tensors[id];
}

/* Element index of a token's row; rows are counted from the sequence's start. */
static double element(const struct head *head, clattn_operand_id id, int64_t row, int64_t first, int64_t h,
                      int64_t index)
{
    const struct tensor *tensor = tensor_of(head, id);
    const struct view *view = &tensor->view;
    int64_t at = view->offset + head->batch * view->batch + (first + row) * view->token + h * view->head + index;

    return number_load(tensor->dtype, tensor->data, at);
}

static void load_row(const struct head *head, clattn_operand_id id, int64_t row, int64_t first, int64_t h,
                     int64_t count, double *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = element(head, id, row, first, h, i);
}

/* q, k or p, normalised and mapped as the desc says; 1 where the rule has none. */
static void load_key(const struct head *head, clattn_operand_id id, int64_t row, int64_t first, int64_t h, double *to)
{
    const clattn_plan_desc *desc = &head->task->problem->desc;
    double sum = 0, factor = 1;

    to[0] = 1;
    if (tensor_of(head, id)->data == NULL)
        return;

    load_row(head, id, row, first, h, head->K, to);
    for (int64_t n = 0; n < head->K; n++)
        sum += to[n] * to[n];
    if (desc->flags & CLATTN_QK_L2NORM)
        factor = 1 / sqrt(sum + 1e-6);
    for (int64_t n = 0; n < head->K; n++) {
        double x = to[n] * factor;
        switch (desc->feature_map) {
        case CLATTN_FEATURE_IDENTITY: to[n] = x; break;
        case CLATTN_FEATURE_ELU1: to[n] = x > 0 ? x + 1 : exp(x); break;
        case CLATTN_FEATURE_RELU: to[n] = x > 0 ? x : 0; break;
        }
    }
}

/* The log-decay that the rule's gate says of a token, of its n-th channel. */
static double load_gate(const struct head *head, int64_t token, int64_t n)
{
    const clattn_plan_desc *desc = &head->task->problem->desc;
    double x = element(head, head->task->problem->rule->gate, token, head->first, head->head, n), rate = 1;

    if (desc->flags & CLATTN_WITH_DT_BIAS)
        x += element(head, CLATTN_DT_BIAS, 0, 0, head->head, n);
    if (desc->flags & CLATTN_WITH_A_LOG)
        rate = exp(element(head, CLATTN_A_LOG, 0, 0, head->head, 0));
    return task_gate(desc, x, rate);
}

/* The decay of a token, as factors of S's rows and columns; all tokens of a step but the first have none. */
static void load_decay(struct head *head, int64_t token)
{
    const struct problem *problem = head->task->problem;
    const struct rule *rule = problem->rule;
    clattn_operand_id gate = rule->gate;

    for (int64_t n = 0; n < head->K; n++) {
        double log_decay = 0;
        if (rule->head_decay != NULL)
            log_decay = rule->head_decay(&problem->desc, head->head);
        else if (rule_has_chunks(rule) && gate != NO_OPERAND && tensor_of(head, gate)->data != NULL)
            log_decay = load_gate(head, token, rule->decay == DECAY_CHANNEL ? n : 0);
        head->decay[n] = exp(log_decay);
    }
    for (int64_t c = 0; c < head->V; c++)
        head->value_decay[c] = 1;
    if (rule->decay != DECAY_COMPLEX && tensor_of(head, CLATTN_GV)->data != NULL)
        for (int64_t c = 0; c < head->V; c++)
            head->value_decay[c] = exp(element(head, CLATTN_GV, token, head->first, head->head, c));
}

/* Steps of the write: dt with all that is said of it. */
static void load_steps(struct head *head, int64_t row, int64_t first)
{
    for (int64_t c = 0; c < head->V; c++) {
        double x = element(head, CLATTN_DT, row, first, head->head, c);
        if (tensor_of(head, CLATTN_DT_BIAS)->data != NULL)
            x += element(head, CLATTN_DT_BIAS, 0, 0, head->head, c);
        if (head->task->problem->desc.flags & CLATTN_SOFTPLUS)
            x = number_softplus(x);
        head->step[c] = x;
    }
}

static void load_value(const struct head *head, int64_t row, int64_t first)
{
    if (!head->units) {
        load_row(head, CLATTN_V, row, first, head->head, head->V, head->x);
        return;
    }
    memset(head->x, 0, (size_t)head->V * sizeof *head->x);
    head->x[row] = 1;
}

/* x and its strength: what is written beside k, and what z or n gains. */
static double load_write(struct head *head, int64_t row, int64_t first)
{
    const clattn_plan_desc *desc = &head->task->problem->desc;
    int64_t h = head->head;
    double strength = 1;

    load_value(head, row, first);
    switch (head->task->problem->rule->write) {
    case WRITE_VALUE: break;
    case WRITE_BETA:
        strength = element(head, CLATTN_BETA, row, first, h, 0);
        if (desc->beta_map != CLATTN_BETA_STRENGTH)
            strength = desc->beta_map / (1 + exp(-strength));
        break;
    case WRITE_GATED:
        for (int64_t c = 0; c < head->V; c++)
            head->x[c] *= element(head, CLATTN_W, row, first, h, c);
        break;
    case WRITE_STEP:
        load_steps(head, row, first);
        for (int64_t c = 0; c < head->V; c++)
            head->x[c] *= head->step[c];
        break;
    case WRITE_EXP: {
        double forget = load_gate(head, row, 0) + head->m;
        double input = element(head, CLATTN_I, row, first, h, 0);
        double m = forget > input ? forget : input;
        int empty = isinf(m) && m < 0;
        for (int64_t n = 0; n < head->K; n++)
            head->decay[n] = empty ? 0 : exp(forget - m);
        strength = empty ? 0 : exp(input - m);
        head->m = m;
        break;
    }
    }
    for (int64_t c = 0; c < head->V; c++)
        head->x[c] *= strength;
    return strength;
}

/* p and e. */
static void load_erase(struct head *head, int64_t row, int64_t first, double strength)
{
    int64_t K = head->K, h = head->head;

    switch (head->task->problem->rule->erase) {
    case ERASE_POSITION:
    case ERASE_KERNEL:
    case ERASE_NONE: return;
    case ERASE_KEY: memcpy(head->p, head->k, (size_t)K * sizeof *head->p); break;
    case ERASE_OPERAND: load_key(head, CLATTN_P, row, first, head->key_head, head->p); break;
    case ERASE_GATED: load_row(head, CLATTN_B, row, first, h, K, head->p); break;
    case ERASE_LOW_RANK:
        load_row(head, CLATTN_A, row, first, h, K, head->p);
        load_row(head, CLATTN_B, row, first, h, K, head->e);
        for (int64_t n = 0; n < K; n++)
            head->e[n] = -head->e[n];
        return;
    }
    for (int64_t n = 0; n < K; n++) {
        if (head->task->problem->rule->erase == ERASE_GATED)
            head->p[n] *= head->k[n];
        head->e[n] = strength * head->k[n];
    }
}

/* y = S^T x */
static void read_state(const struct head *head, const double *x, double *y)
{
    memset(y, 0, (size_t)head->V * sizeof *y);
    for (int64_t n = 0; n < head->K; n++)
        for (int64_t c = 0; c < head->V; c++)
            y[c] += head->S[n * head->V + c] * x[n];
}

/* x <- e^(log_decay + i angle) x of a complex number */
static void turn(double *re, double *im, double log_decay, double angle)
{
    double factor = exp(log_decay), x = *re, y = *im;

    *re = factor * (cos(angle) * x - sin(angle) * y);
    *im = factor * (sin(angle) * x + cos(angle) * y);
}

/* The log-decay of an element of the state; of a pair's second its angle. */
static double log_decay_at(const struct head *head, int64_t row, int64_t first, int64_t n, int64_t c)
{
    if (head->task->problem->rule->decay == DECAY_FULL)
        return element(head, head->task->problem->rule->gate, row, first, head->head, n * head->V + c);
    return head->step[c] * element(head, head->task->problem->rule->gate, 0, 0, head->head, c * head->K + n);
}

static void decay_outer(struct head *head)
{
    for (int64_t n = 0; n < head->K; n++) {
        head->z[n] *= head->decay[n];
        for (int64_t c = 0; c < head->V; c++)
            head->S[n * head->V + c] *= head->decay[n] * head->value_decay[c];
    }
}

static void decay_elements(struct head *head, int64_t row, int64_t first)
{
    int pairs = (head->task->problem->desc.flags & CLATTN_COMPLEX) != 0;

    for (int64_t n = 0; n < head->K; n += 1 + pairs)
        for (int64_t c = 0; c < head->V; c++) {
            double *S = head->S + n * head->V + c, log_decay = log_decay_at(head, row, first, n, c);
            if (pairs)
                turn(S, S + head->V, log_decay, log_decay_at(head, row, first, n + 1, c));
            else
                *S *= exp(log_decay);
        }
}

static void decay_state(struct head *head, int64_t row, int64_t first)
{
    switch (head->task->problem->rule->decay) {
    case DECAY_NONE:
    case DECAY_SCALAR:
    case DECAY_CHANNEL:
    case DECAY_VALUE: decay_outer(head); return;
    case DECAY_COMPLEX:
        for (int64_t c = 0; c < head->V; c += 2)
            turn(head->S + c, head->S + c + 1, element(head, CLATTN_GV, 0, 0, head->head, c / 2),
                 element(head, CLATTN_THETA, 0, 0, head->head, c / 2));
        return;
    case DECAY_PRODUCT:
    case DECAY_FULL: decay_elements(head, row, first); return;
    }
}

static void add_outer(struct head *head, const double *column, const double *row, double sign)
{
    for (int64_t n = 0; n < head->K; n++)
        for (int64_t c = 0; c < head->V; c++)
            head->S[n * head->V + c] += sign * column[n] * row[c];
}

/* One write: decay and erase in the rule's order, write. */
static void update(struct head *head, int64_t row, int64_t first, int decays)
{
    const struct rule *rule = head->task->problem->rule;
    double strength;

    load_key(head, CLATTN_K, row, first, head->key_head, head->k);
    strength = load_write(head, row, first);
    load_erase(head, row, first, strength);
    if (rule->order == ERASE_FIRST)
        read_state(head, head->p, head->pS);
    if (decays)
        decay_state(head, row, first);
    if (rule->order == DECAY_FIRST && rule->erase != ERASE_NONE)
        read_state(head, head->p, head->pS);
    if (rule->erase != ERASE_NONE)
        add_outer(head, head->e, head->pS, -1);
    add_outer(head, head->k, head->x, 1);
    for (int64_t n = 0; n < head->K; n++)
        head->z[n] += strength * head->k[n];
}

/* rwkv6: what the token itself adds to its read of the state before it. */
static void read_bonus(struct head *head, int64_t token)
{
    double bonus = 0;

    load_key(head, CLATTN_K, token, head->first, head->key_head, head->k);
    load_value(head, token, head->first);
    for (int64_t n = 0; n < head->K; n++) {
        const struct tensor *u = tensor_of(head, CLATTN_U);
        int64_t at = u->view.offset + head->head * u->view.head + n;
        bonus += head->q[n] * number_load(u->dtype, u->data, at) * head->k[n];
    }
    read_state(head, head->q, head->o);
    for (int64_t c = 0; c < head->V; c++)
        head->o[c] += bonus * head->x[c];
}

/* o, of the state before the token's writes or after them. */
static void read_query(struct head *head, int64_t token)
{
    switch (head->task->problem->rule->read) {
    case READ_BONUS: read_bonus(head, token); return;
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
        if (tensor_of(head, CLATTN_D)->data != NULL)
            head->o[c] += element(head, CLATTN_D, 0, 0, head->head, c) *
                          element(head, CLATTN_V, token, head->first, head->head, c);
        if (tensor_of(head, CLATTN_Z)->data != NULL) {
            double z = element(head, CLATTN_Z, token, head->first, head->head, c);
            head->o[c] *= z / (1 + exp(-z));
        }
    }
}

/* The n-th head of queries that reads the state. */
static int64_t reading_head(const struct head *head, int64_t n)
{
    const clattn_plan_desc *desc = &head->task->problem->desc;

    if (desc->flags & CLATTN_HEADS_TILED)
        return n * desc->kv_heads + head->head;
    return head->head * problem_reads(head->task->problem) + n;
}

/* A row of o; or of attn, which is 0 where other sequences have their columns. */
static void store_row(const struct head *head, int64_t token, int64_t h, double divisor)
{
    const struct tensor *o = tensor_of(head, head->units ? CLATTN_ATTN : CLATTN_O);
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

    load_key(head, CLATTN_Q, token, head->first, problem_reads(problem) > 1 ? h : head->key_head, head->q);
    for (int64_t n = 0; n < head->K; n++)
        head->q[n] *= problem->desc.scale;
    if (problem->desc.flags & CLATTN_COMPLEX)
        double_conjugate(head->q, head->K);
    read_query(head, token);
    finish(head, token);
    store_row(head, token, h, denominator(head));
}

static void run_token(struct head *head, int64_t token)
{
    const struct problem *problem = head->task->problem;
    int64_t steps = problem->desc.steps, reads = problem_reads(problem);
    int before = read_is_before(problem->rule->read);

    for (int64_t n = 0; n < reads && before; n++)
        read_token(head, token, reading_head(head, n));
    load_decay(head, token);
    for (int64_t step = 0; step < steps; step++)
        update(head, token * steps + step, head->first * steps, step == 0);
    for (int64_t n = 0; n < reads && !before; n++)
        read_token(head, token, reading_head(head, n));
}

static int64_t inner_index(const struct head *head, int64_t n, int64_t c)
{
    return head->task->problem->desc.flags & CLATTN_STATE_VK ? c * head->K + n : n * head->V + c;
}

/* The state after so many of the sequence's tokens, where the caller wants it. */
static void leave_state(const struct head *head, int64_t tokens)
{
    const clattn_plan_desc *desc = &head->task->problem->desc;
    const struct tensor *states = tensor_of(head, CLATTN_STATES);
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

static void load_states(struct head *head)
{
    const struct tensor *S = tensor_of(head, CLATTN_STATE_IN);
    const struct tensor *z = tensor_of(head, CLATTN_NORMALIZER_IN);
    const struct tensor *m = tensor_of(head, CLATTN_STABILIZER_IN);
    int given = head->state >= 0;

    for (int64_t n = 0; n < head->K; n++) {
        head->z[n] = given && z->data ? number_load(CLATTN_F32, z->data, vector_index(head, z, n)) : 0;
        for (int64_t c = 0; c < head->V; c++)
            head->S[n * head->V + c] =
                given && S->data && !head->units ? number_load(S->dtype, S->data, state_index(head, S, n, c)) : 0;
    }
    head->m = given && m->data ? number_load(CLATTN_F32, m->data, vector_index(head, m, 0)) : (double)-INFINITY;
}

static void store_states(const struct head *head)
{
    const struct tensor *S = tensor_of(head, CLATTN_STATE_OUT);
    const struct tensor *z = tensor_of(head, CLATTN_NORMALIZER_OUT);
    const struct tensor *m = tensor_of(head, CLATTN_STABILIZER_OUT);

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

/* Which tokens the job's sequence has. */
static void place(struct head *head)
{
    const struct tensor *cu = tensor_of(head, CLATTN_SEQLENS);
    const struct tensor *slots = tensor_of(head, CLATTN_STATE_INDICES);
    const struct problem *problem = head->task->problem;

    head->state = slots->data ? ((const int32_t *)slots->data)[slots->view.offset + head->sequence] : head->sequence;
    head->batch = cu->data ? 0 : head->sequence;
    head->first = cu->data ? task_cut(problem, cu, head->sequence) : 0;
    head->tokens = (cu->data ? task_cut(problem, cu, head->sequence + 1) : head->task->extent.seq_len) - head->first;
    if (cu->data && (problem->desc.flags & CLATTN_REVERSED))
        head->first = head->task->extent.seq_len - head->first - head->tokens;
}

static void walk(struct head *head, double *memory)
{
    double **parts[] = {&head->z, &head->q, &head->k, &head->p, &head->e, &head->decay};
    double **value_parts[] = {&head->value_decay, &head->x, &head->pS, &head->o, &head->step};
    int64_t K = head->K, V = head->V;

    head->S = memory;
    for (int i = 0; i < 6; i++)
        *parts[i] = memory + K * V + i * K;
    for (int i = 0; i < 5; i++)
        *value_parts[i] = memory + K * V + 6 * K + i * V;
    load_states(head);
    for (int64_t token = 0; token < head->tokens; token++) {
        run_token(head, token);
        leave_state(head, token + 1);
    }
    store_states(head);
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
                        .units = task->units};
    double *memory;

    head.key_head = desc->flags & CLATTN_HEADS_TILED ? head.head % shared : head.head / (desc->heads / shared);
    place(&head);
    if (head.units)
        head.V = head.tokens * desc->steps;
    memory = calloc((size_t)(head.K * head.V + 6 * head.K + 5 * head.V), sizeof *memory);
    if (memory == NULL) {
        atomic_store(&task->out_of_memory, 1);
        return;
    }
    walk(&head, memory);
    free(memory);
}

/* Cuts of as many tokens as `whole` has. */
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

/* States of the pool, or none. */
static clattn_status read_slots(const struct task *task, const struct log *log)
{
    const struct tensor *slots = &task->tensors[CLATTN_STATE_INDICES];
    int64_t most = task->problem->desc.state_slots != 0 ? task->problem->desc.state_slots : task->extent.sequences;

    for (int64_t n = 0; slots->data != NULL && n < task->extent.sequences; n++) {
        int32_t slot = ((const int32_t *)slots->data)[slots->view.offset + n];
        if (slot >= most)
            return FAIL(log, INVALID_OPERAND, "state_indices[%lld] is %d, expected less than the pool's %lld states",
                        (long long)n, slot, (long long)most);
    }
    return CLATTN_SUCCESS;
}

/* Of the keys that each sequence may have those that are there. */
static clattn_status check_lengths(const struct task *task, const struct log *log)
{
    const struct tensor *lens = &task->tensors[CLATTN_KV_LENS], *cu = &task->tensors[CLATTN_SEQLENS_KV];

    for (int64_t n = 0; lens->data != NULL && n < task->extent.sequences; n++) {
        int64_t length = ((const int32_t *)lens->data)[lens->view.offset + n], most = task->extent.kv_len;
        if (cu->data != NULL)
            most = task_cut(task->problem, cu, n + 1) - task_cut(task->problem, cu, n);
        if (length < 0 || length > most)
            return FAIL(log, INVALID_OPERAND, "kv_lens[%lld] is %lld, expected 0 to the sequence's %lld keys",
                        (long long)n, (long long)length, (long long)most);
    }
    return CLATTN_SUCCESS;
}

static clattn_status bind(struct task *task, const struct arguments *arguments, const struct log *log)
{
    const struct problem *problem = task->problem;

    for (int i = 0; i < problem->operand_count; i++) {
        const struct operand_row *row = &problem->operands[i];
        const clattn_operand *operand = &arguments->of[row->id];
        struct tensor *tensor = &task->tensors[row->id];
        clattn_operand_info info;

        problem_operand_info(problem, &task->extent, row, &info);
        if (operand->host == NULL && !problem_is_empty(problem, &task->extent, row))
            return FAIL(log, INVALID_OPERAND, "%s: operand %s is missing", problem->rule->name, info.name);
        TRY(problem_view(problem, &task->extent, row, operand, operand->size, &tensor->view, log));
        tensor->data = operand->host;
        tensor->dtype = info.dtype;
    }
    TRY(check_cuts(task, CLATTN_SEQLENS, task->extent.seq_len, "seq_len", log));
    TRY(check_cuts(task, CLATTN_SEQLENS_KV, task->extent.kv_len, "kv_len", log));
    TRY(read_slots(task, log));
    return check_lengths(task, log);
}

static void (*job_of(const struct rule *rule))(void *user, int64_t job)
{
    switch (rule->op) {
    case OP_PIECE: return piece_head;
    case OP_LEARNER: return learner_head;
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
    TRY(bind(&task, &arguments, &sink));
    if (task.extent.seq_len == 0 && !(problem.desc.flags & CLATTN_FINAL_STATE))
        return CLATTN_SUCCESS; /* nothing is written, however many sequences there are */
    atomic_init(&task.out_of_memory, 0);
    if (problem.desc.flags & CLATTN_APPEND) /* before any head reads what others share with it */
        parallel_for(task.extent.sequences * problem.desc.kv_heads, list_append, &task);
    for (task.units = (problem.desc.flags & CLATTN_WITH_ATTN) != 0; task.units >= 0; task.units--)
        parallel_for(task.extent.sequences * problem_work_heads(&problem), job_of(problem.rule), &task);
    if (atomic_load(&task.out_of_memory))
        return FAIL(&sink, OUT_OF_MEMORY, "no memory for the states of the reference");
    return CLATTN_SUCCESS;
}
