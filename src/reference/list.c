/* Rules whose state is a list, in double precision, from their definition:
 *
 * b_j += g of each token after j;  o = Σ_j p_j v_j,  p_j = e^(scale q.k_j + b_j) / (e^sink + Σ of these)
 *
 * over the keys j that a query sees: those up to its own position, and of these the last `window`. With
 * CLATTN_NONCAUSAL it sees all keys, or those fewer than `window` positions away, and b_j is g times the distance. With
 * CLATTN_KEYS_BEFORE it reads as if its position was that of the last key. With
 * a softcap c, c tanh(scale q.k / c) is in the place of scale q.k. With ERASE_POSITION,
 * each k_j also loses beta w (w.k_j) of each token after j, and b_j is scaled as well. Because q.k_j is linear, the
 * query is transformed instead, from its own position back to j. With CLATTN_ABSOLUTE, queries and keys are transformed
 * separately, each over all tokens up to its own. */
#include "reference/number.h"
#include "reference/task.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One head: keys and values [keys][K], [keys][V] from the head's first one on, and the current token. */
struct list {
    const struct task *task;
    int64_t sequence, batch, head, kv_head, first, tokens, first_key, keys;
    int64_t raw; /* ERASE_POSITION: the first key that has not been carried */
    int64_t K, V;
    double *k, *v, *score, *q, *o;
    double *w, *beta; /* ERASE_POSITION only */
};

double task_step(const clattn_plan_desc *desc, double x)
{
    const double step = number_softplus(x);

    if (step < desc->step_min)
        return desc->step_min;
    return desc->step_max > 0 && step > desc->step_max ? desc->step_max : step;
}

int task_step_is_limited(const clattn_plan_desc *desc, double step)
{
    return (desc->step_min > 0 && step <= desc->step_min) || (desc->step_max > 0 && step >= desc->step_max);
}

double task_gate(const clattn_plan_desc *desc, double x, double rate)
{
    switch (desc->gate_map) {
    case CLATTN_GATE_MAP_LOG: break;
    case CLATTN_GATE_MAP_SOFTPLUS: return -rate * task_step(desc, x);
    case CLATTN_GATE_MAP_SIGMOID: return desc->gate_scale / (1 + exp(-rate * x));
    case CLATTN_GATE_MAP_LOGSIGMOID: return -desc->gate_scale * number_softplus(-x);
    case CLATTN_GATE_MAP_EXP: return -exp(x);
    }
    return x;
}

struct gate_slopes task_gate_slopes(const clattn_plan_desc *desc, double x, double rate)
{
    const double s = 1 / (1 + exp(desc->gate_map == CLATTN_GATE_MAP_SIGMOID ? -rate * x : -x));
    struct gate_slopes slopes = {1, 0};

    switch (desc->gate_map) {
    case CLATTN_GATE_MAP_LOG: break;
    case CLATTN_GATE_MAP_SOFTPLUS:
        slopes.by_rate = -rate * task_step(desc, x);
        slopes.by_number = task_step_is_limited(desc, task_step(desc, x)) ? 0 : -rate * s;
        break;
    case CLATTN_GATE_MAP_SIGMOID:
        slopes.by_number = rate * desc->gate_scale * s * (1 - s);
        slopes.by_rate = slopes.by_number == 0 ? 0 : x * slopes.by_number; /* 0 at an infinite x */
        break;
    case CLATTN_GATE_MAP_LOGSIGMOID: slopes.by_number = desc->gate_scale * (1 - s); break;
    case CLATTN_GATE_MAP_EXP: slopes.by_number = -exp(x); break;
    }
    return slopes;
}

static double element(const struct list *list, clattn_operand_id id, int64_t row, int64_t head, int64_t index)
{
    const struct tensor *tensor = &list->task->tensors[id];
    const struct view *view = &tensor->view;

    return number_load(tensor->dtype, tensor->data,
                       view->offset + list->batch * view->batch + row * view->token + head * view->head + index);
}

/* Loads a row of q, k or p, rotated and normalised as the desc says. */
static void load_row(const struct list *list, clattn_operand_id id, int64_t row, int64_t head, double *to)
{
    double sum = 0, factor = 1;

    for (int64_t n = 0; n < list->K; n++)
        to[n] = element(list, id, row, head, n);
    task_turn_key(list->task, id, list->sequence, row - list->first, to);
    for (int64_t n = 0; n < list->K; n++)
        sum += to[n] * to[n];
    if (list->task->problem->desc.flags & CLATTN_QK_L2NORM)
        factor = 1 / sqrt(sum + 1e-6);
    for (int64_t n = 0; n < list->K; n++)
        to[n] *= factor;
}

/* The weight of a score in rules without a denominator */
static double weight_of(clattn_weights weights, double x)
{
    switch (weights) {
    case CLATTN_WEIGHTS_SOFTMAX: return exp(x);
    case CLATTN_WEIGHTS_LINEAR: return x;
    case CLATTN_WEIGHTS_RELU: return x > 0 ? x : 0;
    case CLATTN_WEIGHTS_ROUND: return floor(x + 0.5);
    case CLATTN_WEIGHTS_FLOOR: return floor(x);
    }
    return 0;
}

/* Replaces the scores of the keys before t by their weights. Returns the divisor. */
static double weigh_before(const struct list *list, int64_t t)
{
    clattn_weights weights = list->task->problem->desc.write_kernel;
    double most = 0, sum = 0;

    for (int64_t j = 0; j < t && weights == CLATTN_WEIGHTS_SOFTMAX; j++)
        most = j == 0 ? list->score[j] : fmax(most, list->score[j]);
    for (int64_t j = 0; j < t; j++) {
        list->score[j] = weight_of(weights, list->score[j] - most);
        sum += list->score[j];
    }
    return weights == CLATTN_WEIGHTS_SOFTMAX ? sum : 1;
}

/* The range of columns that may be nonzero: for a unit vector its one column; for what a rule writes in its place, all
 * columns up to it. */
static int64_t first_column(const struct list *list, int64_t j)
{
    return list->task->units && list->task->problem->rule->erase != ERASE_KERNEL ? j : 0;
}

static int64_t last_column(const struct list *list, int64_t j)
{
    return list->task->units ? j + 1 : list->V;
}

/* Replaces v by u, token by token: v_t - beta_t Σ_(j<t) p_j u_j */
static void write_values(const struct list *list)
{
    const struct tensor *written = &list->task->tensors[CLATTN_WRITTEN], *beta = &list->task->tensors[CLATTN_BETA];
    clattn_operand_id p = list->task->tensors[CLATTN_P].data != NULL ? CLATTN_P : CLATTN_K;
    int64_t K = list->K, V = list->V, shared = list->task->problem->desc.heads / list->task->problem->desc.kv_heads;
    int stores =
        !list->task->units && written->data != NULL && list->head % shared == 0; /* once for all heads that share it */

    for (int64_t t = 0; t < list->keys; t++) {
        int64_t row = list->first_key + t, at = written->view.offset + list->batch * written->view.batch +
                                                row * written->view.token + list->kv_head * written->view.head;
        double strength = beta->data != NULL ? element(list, CLATTN_BETA, row, list->kv_head, 0) : 1, sum;
        load_row(list, p, row, list->kv_head, list->q);
        for (int64_t j = 0; j < t; j++) {
            list->score[j] = 0;
            for (int64_t n = 0; n < K; n++)
                list->score[j] += list->task->problem->desc.scale * list->q[n] * list->k[j * K + n];
        }
        sum = weigh_before(list, t);
        for (int64_t j = 0; j < t; j++)
            for (int64_t c = 0; c < last_column(list, j); c++)
                list->v[t * V + c] -= strength * list->score[j] / sum * list->v[j * V + c];
        for (int64_t c = 0; c < V && stores; c++)
            number_store(written->dtype, written->data, at + c, list->v[t * V + c]);
    }
}

static void load_keys(const struct list *list)
{
    for (int64_t j = 0; j < list->keys; j++) {
        load_row(list, CLATTN_K, list->first_key + j, list->kv_head, list->k + j * list->K);
        for (int64_t c = 0; c < list->V && !list->task->units; c++)
            list->v[j * list->V + c] = element(list, CLATTN_V, list->first_key + j, list->kv_head, c);
        if (list->task->units)
            list->v[j * list->V + j] = 1;
    }
}

/* The log-decay of key number m */
static double log_decay(const struct list *list, int64_t m)
{
    const struct rule *rule = list->task->problem->rule;

    if (list->task->problem->desc.flags & CLATTN_UNGATED)
        return 0;
    if (rule->head_decay != NULL)
        return rule->head_decay(&list->task->problem->desc, list->head);
    if (rule->gate == NO_OPERAND)
        return 0;
    return task_gate(&list->task->problem->desc, element(list, rule->gate, list->first_key + m, list->head, 0), 1);
}

/* Applies H = I - beta w w^T of key j to a query or key: x - beta w (w.x) */
static void apply_householder(const struct list *list, double *x, int64_t j)
{
    const double *w = list->w + j * list->K;
    double sum = 0;

    for (int64_t n = 0; n < list->K; n++)
        sum += w[n] * x[n];
    for (int64_t n = 0; n < list->K; n++)
        x[n] -= list->beta[j] * w[n] * sum;
}

/* Applies those of all tokens from `last` back to the first, if the problem is absolute */
static void apply_householder_absolute(const struct list *list, double *x, int64_t last)
{
    for (int64_t j = last; (list->task->problem->desc.flags & CLATTN_ABSOLUTE) && j >= 0; j--)
        apply_householder(list, x, j);
}

/* Loads w and beta of every key. Keys that were carried have none. */
static void load_householder(const struct list *list)
{
    for (int64_t j = list->raw; j < list->keys; j++) {
        int64_t row = list->first_key + j - list->raw;
        list->beta[j] = element(list, CLATTN_BETA, row, list->kv_head, 0);
        for (int64_t n = 0; n < list->K; n++)
            list->w[j * list->K + n] = element(list, CLATTN_W, row, list->kv_head, n);
    }
}

/* The score of key j, times `scale` */
static double score_of(const struct list *list, int64_t j, double scale)
{
    double sum = 0, cap = list->task->problem->desc.softcap;

    for (int64_t n = 0; n < list->K; n++)
        sum += list->q[n] * list->k[j * list->K + n];
    return cap > 0 ? cap * tanh(sum * scale / cap) : sum * scale;
}

/* The keys from `least` to `last` that the query at a position sees */
struct seen {
    int64_t least, last;
};

static struct seen keys_seen(const struct list *list, int64_t position)
{
    int64_t window = list->task->problem->desc.window;
    struct seen seen = {window > 0 && position >= window ? position - window + 1 : 0, position};

    if (problem_sees_all(list->task->problem)) {
        seen.last = list->keys - 1;
        if (window > 0 && position + window <= seen.last)
            seen.last = position + window - 1;
    }
    return seen;
}

/* Scores of the keys that the query at the position sees, on both sides. Returns the largest. */
static double score_all(const struct list *list, int64_t position, struct seen seen)
{
    double most = (double)-INFINITY;

    for (int64_t j = seen.least; j <= seen.last; j++) {
        double distance = fabs((double)(position - j));
        list->score[j] = score_of(list, j, list->task->problem->desc.scale) + log_decay(list, j) * distance;
        most = fmax(most, list->score[j]);
    }
    return most;
}

/* Scores of the keys from `least` to `position`, which is the query's own. Returns the largest. */
static double score_earlier(const struct list *list, int64_t position, int64_t least)
{
    double bias = 0, most = (double)-INFINITY, scale = list->task->problem->desc.scale;
    int inside = list->task->problem->rule->erase == ERASE_POSITION;

    for (int64_t j = position; j >= least; j--) {
        list->score[j] = inside ? (score_of(list, j, 1) + bias) * scale : score_of(list, j, scale) + bias;
        most = fmax(most, list->score[j]);
        bias += log_decay(list, j);
        if (inside && !(list->task->problem->desc.flags & CLATTN_ABSOLUTE))
            apply_householder(list, list->q, j);
    }
    return most;
}

static void store(const struct list *list, int64_t token, double log_sum)
{
    const struct tensor *o = &list->task->tensors[list->task->units ? CLATTN_ATTN : CLATTN_O];
    const struct tensor *lse = &list->task->tensors[CLATTN_LSE];
    int64_t row = list->first + token;
    int64_t at = o->view.offset + list->batch * o->view.batch + row * o->view.token + list->head * o->view.head;

    for (int64_t c = 0; list->task->units && c < list->task->extent.kv_len; c++)
        number_store(o->dtype, o->data, at + c, 0);
    at += list->task->units ? list->first_key : 0;
    for (int64_t c = 0; c < list->V; c++)
        number_store(o->dtype, o->data, at + c, list->o[c]);
    at = lse->view.offset + list->batch * lse->view.batch + row * lse->view.token + list->head * lse->view.head;
    if (lse->data != NULL)
        number_store(CLATTN_F32, lse->data, at, log_sum);
}

static void run_query(const struct list *list, int64_t token)
{
    const struct tensor *sink = &list->task->tensors[CLATTN_SINK];
    const uint64_t flags = list->task->problem->desc.flags;
    int64_t position = flags & CLATTN_KEYS_BEFORE ? list->keys - 1 : token + list->keys - list->tokens;
    const struct seen seen = keys_seen(list, position);
    double extra = sink->data != NULL ? element(list, CLATTN_SINK, 0, list->head, 0) : (double)-INFINITY;
    clattn_weights weights = list->task->problem->desc.kernel;
    double most, level, sum;

    load_row(list, CLATTN_Q, list->first + token, list->head, list->q);
    apply_householder_absolute(list, list->q, position);
    most = flags & CLATTN_NONCAUSAL ? score_all(list, position, seen) : score_earlier(list, position, seen.least);
    most = fmax(most, extra);
    level = weights != CLATTN_WEIGHTS_SOFTMAX || (isinf(most) && most < 0) ? 0 : most;
    sum = exp(extra - level);
    memset(list->o, 0, (size_t)list->V * sizeof *list->o);
    for (int64_t j = seen.least; j <= seen.last; j++) {
        double weight = weight_of(weights, list->score[j] - level);
        sum += weight;
        for (int64_t c = first_column(list, j); c < last_column(list, j); c++)
            list->o[c] += weight * list->v[j * list->V + c];
    }
    for (int64_t c = 0; c < list->V && sum > 0 && weights == CLATTN_WEIGHTS_SOFTMAX; c++)
        list->o[c] /= sum;
    store(list, token, log(sum) + level);
}

int64_t task_cut(const struct problem *problem, const struct tensor *tensor, int64_t index)
{
    return number_index(tensor->data, tensor->view.offset + index,
                        (problem->desc.flags & CLATTN_CU_SEQLENS_INT64) != 0);
}

/* Finds the queries and keys of the job's sequence. */
static void place(struct list *list)
{
    const struct tensor *cu = &list->task->tensors[CLATTN_SEQLENS];
    const struct tensor *cu_kv = &list->task->tensors[CLATTN_SEQLENS_KV];
    const struct tensor *lens = &list->task->tensors[CLATTN_KV_LENS];
    const struct problem *problem = list->task->problem;

    list->batch = cu->data ? 0 : list->sequence;
    list->first = list->first_key = cu->data ? task_cut(problem, cu, list->sequence) : 0;
    list->tokens = cu->data ? task_cut(problem, cu, list->sequence + 1) - list->first : list->task->extent.seq_len;
    list->keys = cu->data ? list->tokens : list->task->extent.kv_len;
    if (cu_kv->data != NULL) {
        list->first_key = task_cut(problem, cu_kv, list->sequence);
        list->keys = task_cut(problem, cu_kv, list->sequence + 1) - list->first_key;
    }
    if (lens->data != NULL)
        list->keys = number_index(lens->data, lens->view.offset + list->sequence, 0);
    list->raw = list->keys > list->task->extent.tail ? list->keys - list->task->extent.tail : 0;
}

/* Copies the call's keys or values into the cache, at the positions of their queries. */
static void append(const struct list *list, clattn_operand_id from, clattn_operand_id to, int64_t width)
{
    const struct tensor *cache = &list->task->tensors[to];
    const struct view *view = &cache->view;
    int64_t before = list->keys - list->tokens;

    for (int64_t t = before < 0 ? -before : 0; t < list->tokens; t++)
        for (int64_t n = 0; n < width; n++)
            number_store(cache->dtype, cache->data,
                         view->offset + list->batch * view->batch + (list->first_key + before + t) * view->token +
                             list->kv_head * view->head + n,
                         element(list, from, list->first + t, list->kv_head, n));
}

void list_append(void *user, int64_t job)
{
    struct task *task = user;
    const clattn_plan_desc *desc = &task->problem->desc;
    struct list list = {.task = task, .sequence = job / desc->kv_heads, .kv_head = job % desc->kv_heads};

    place(&list);
    append(&list, CLATTN_K_NEW, CLATTN_K, desc->key_dim);
    append(&list, CLATTN_V_NEW, CLATTN_V, desc->value_dim);
}

/* Carries key j over the tokens of the list from `first` on, in order */
static void carry_key(const struct list *list, int64_t j, int64_t first)
{
    for (int64_t m = first; m < list->keys; m++)
        apply_householder(list, list->k + j * list->K, m);
}

static void store_key(const struct list *list, int64_t j)
{
    const struct tensor *k = &list->task->tensors[CLATTN_K];
    int64_t at = k->view.offset + list->batch * k->view.batch + (list->first_key + j) * k->view.token +
                 list->kv_head * k->view.head;

    for (int64_t n = 0; n < list->K; n++)
        number_store(k->dtype, k->data, at + n, list->k[j * list->K + n]);
}

void list_carry(void *user, int64_t job)
{
    struct task *task = user;
    const clattn_plan_desc *desc = &task->problem->desc;
    struct list list = {
        .task = task, .sequence = job / desc->kv_heads, .kv_head = job % desc->kv_heads, .K = desc->key_dim};

    place(&list);
    list.k = calloc((size_t)(list.keys * (2 * list.K + 1) + 1), sizeof *list.k);
    if (list.k == NULL) {
        atomic_store(&task->out_of_memory, 1);
        return;
    }
    list.w = list.k + list.keys * list.K;
    list.beta = list.w + list.keys * list.K;
    load_keys(&list);
    load_householder(&list);
    for (int64_t j = 0; j < list.keys; j++) {
        carry_key(&list, j, j < list.raw ? list.raw : j + 1);
        store_key(&list, j);
    }
    free(list.k);
}

void list_head(void *user, int64_t job)
{
    struct task *task = user;
    const clattn_plan_desc *desc = &task->problem->desc;
    int64_t heads = desc->heads, head = job % heads;
    struct list list = {.task = task,
                        .sequence = job / heads,
                        .head = head,
                        .kv_head = head / (heads / desc->kv_heads),
                        .K = desc->key_dim,
                        .V = desc->value_dim};
    int64_t turned = task->problem->rule->erase == ERASE_POSITION ? desc->key_dim + 1 : 0;
    double *memory;

    place(&list);
    if (task->units)
        list.V = list.keys;
    memory = calloc((size_t)(list.keys * (list.K + list.V + 1 + turned) + list.K + list.V), sizeof *memory);
    if (memory == NULL) {
        atomic_store(&task->out_of_memory, 1);
        return;
    }
    list.k = memory;
    list.v = list.k + list.keys * list.K;
    list.score = list.v + list.keys * list.V;
    list.q = list.score + list.keys;
    list.o = list.q + list.K;
    list.w = list.o + list.V;
    list.beta = list.w + list.keys * list.K;
    load_keys(&list);
    if (turned > 0)
        load_householder(&list);
    for (int64_t j = 0; j < list.keys; j++)
        apply_householder_absolute(&list, list.k + j * list.K, j);
    if (task->problem->rule->erase == ERASE_KERNEL)
        write_values(&list);
    for (int64_t token = 0; token < list.tokens; token++)
        run_query(&list, token);
    free(memory);
}
