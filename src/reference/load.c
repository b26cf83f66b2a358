/* The rows of a token: read of the caller's operands, and mapped as the desc says. */
#include "reference/head.h"

#include <math.h>
#include <string.h>

static void load_row(const struct head *head, clattn_operand_id id, int64_t row, int64_t first, int64_t h,
                     int64_t count, double *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = head_element(head, id, row, first, h, i);
}

int64_t head_token(const struct head *head, clattn_operand_id id, int64_t row)
{
    const clattn_plan_desc *desc = &head->task->problem->desc;
    int64_t token = id == CLATTN_K ? row / desc->steps : row;

    return desc->flags & CLATTN_REVERSED ? head->tokens - 1 - token : token;
}

void head_load_turned(const struct head *head, clattn_operand_id id, int64_t row, int64_t first, int64_t h, double *to)
{
    load_row(head, id, row, first, h, head->K, to);
    task_turn_key(head->task, id, head->sequence, head_token(head, id, row), to);
}

double head_norm(const struct head *head, const double *row)
{
    double sum = 0;

    for (int64_t n = 0; n < head->K; n++)
        sum += row[n] * row[n];
    return head->task->problem->desc.flags & CLATTN_QK_L2NORM ? 1 / sqrt(sum + 1e-6) : 1;
}

void head_load_key(const struct head *head, clattn_operand_id id, int64_t row, int64_t first, int64_t h, double *to)
{
    const clattn_plan_desc *desc = &head->task->problem->desc;
    double factor;

    to[0] = 1;
    if (head_tensor(head, id)->data == NULL)
        return;

    head_load_turned(head, id, row, first, h, to);
    factor = head_norm(head, to);
    for (int64_t n = 0; n < head->K; n++) {
        double x = to[n] * factor;
        switch (desc->feature_map) {
        case CLATTN_FEATURE_IDENTITY: to[n] = x; break;
        case CLATTN_FEATURE_ELU1: to[n] = x > 0 ? x + 1 : exp(x); break;
        case CLATTN_FEATURE_RELU: to[n] = x > 0 ? x : 0; break;
        }
    }
}

/* Steps of the write: dt with all that is said of it. */
static void load_steps(struct head *head, int64_t row, int64_t first)
{
    for (int64_t c = 0; c < head->V; c++) {
        double x = head_element(head, CLATTN_DT, row, first, head->head, c);
        if (head_tensor(head, CLATTN_DT_BIAS)->data != NULL)
            x += head_element(head, CLATTN_DT_BIAS, 0, 0, head->head, c);
        if (head->task->problem->desc.flags & CLATTN_SOFTPLUS)
            x = task_step(&head->task->problem->desc, x);
        head->step[c] = x;
    }
}

void head_load_value(const struct head *head, int64_t row, int64_t first)
{
    if (!head->units && !head->task->transition) {
        load_row(head, CLATTN_V, row, first, head->head, head->V, head->x);
        return;
    }
    memset(head->x, 0, (size_t)head->V * sizeof *head->x);
    if (head->units)
        head->x[row] = 1;
}

static double load_strength(const struct head *head, int64_t row, int64_t first)
{
    double x = head_element(head, CLATTN_BETA, row, first, head->head, 0);

    switch (head->task->problem->desc.beta_map) {
    case CLATTN_BETA_STRENGTH: break;
    case CLATTN_BETA_SIGMOID: return 1 / (1 + exp(-x));
    case CLATTN_BETA_TWICE_SIGMOID: return 2 / (1 + exp(-x));
    case CLATTN_BETA_SOFTPLUS:
        if (head->task->problem->desc.flags & CLATTN_WITH_DT_BIAS)
            x += head_element(head, CLATTN_DT_BIAS, 0, 0, head->head, 0);
        return task_step(&head->task->problem->desc, x);
    }
    return x;
}

double head_load_write(struct head *head, int64_t row, int64_t first)
{
    int64_t h = head->head;
    double strength = 1;

    head_load_value(head, row, first);
    switch (head->task->problem->rule->write) {
    case WRITE_VALUE: break;
    case WRITE_BETA: strength = load_strength(head, row, first); break;
    case WRITE_GATED:
        for (int64_t c = 0; c < head->V && !head->task->transition; c++)
            head->x[c] *= head_element(head, CLATTN_W, row, first, h, c);
        break;
    case WRITE_STEP:
        load_steps(head, row, first);
        for (int64_t c = 0; c < head->V; c++)
            head->x[c] *= head->step[c];
        break;
    case WRITE_EXP: {
        double forget = head_gate(head, row, 0) + head->m;
        double input = head_element(head, CLATTN_I, row, first, h, 0);
        double m = forget > input ? forget : input;
        int empty = isinf(m) && m < 0;
        for (int64_t n = 0; n < head->K; n++)
            head->decay[n] = empty ? 0 : exp(forget - m);
        strength = empty ? 0 : exp(input - m);
        head->m = m;
        break;
    }
    }
    return strength;
}

void head_load_erase(struct head *head, int64_t row, int64_t first, double strength)
{
    int64_t K = head->K, h = head->head;

    switch (head->task->problem->rule->erase) {
    case ERASE_POSITION:
    case ERASE_KERNEL:
    case ERASE_NONE: return;
    case ERASE_KEY: memcpy(head->p, head->k, (size_t)K * sizeof *head->p); break;
    case ERASE_OPERAND: head_load_key(head, CLATTN_P, row, first, head->key_head, head->p); break;
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
