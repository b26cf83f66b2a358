/* Decays of the state: reads them from the gate and applies them as factors of a token's rows and columns, or of each
 * element. */
#include "reference/head.h"

#include <math.h>

double head_gate(const struct head *head, int64_t token, int64_t n)
{
    const clattn_plan_desc *desc = &head->task->problem->desc;
    double x = head_element(head, head->task->problem->rule->gate, token, head->first, head->head, n), rate = 1;

    if (desc->flags & CLATTN_WITH_DT_BIAS)
        x += head_element(head, CLATTN_DT_BIAS, 0, 0, head->head, n);
    if (desc->flags & CLATTN_WITH_A_LOG)
        rate = exp(head_element(head, CLATTN_A_LOG, 0, 0, head->head, 0));
    return task_gate(desc, x, rate);
}

void head_factors(struct head *head, int64_t token)
{
    const struct problem *problem = head->task->problem;
    const struct rule *rule = problem->rule;
    clattn_operand_id gate = rule->gate;

    for (int64_t n = 0; n < head->K; n++) {
        double log_decay = 0;
        if (rule->head_decay != NULL)
            log_decay = rule->head_decay(&problem->desc, head->head);
        else if (rule_has_chunks(rule) && gate != NO_OPERAND && head_tensor(head, gate)->data != NULL)
            log_decay = head_gate(head, token, rule->decay == DECAY_CHANNEL ? n : 0);
        head->decay[n] = exp(log_decay);
    }
    for (int64_t c = 0; c < head->V; c++)
        head->value_decay[c] = 1;
    if (rule->decay != DECAY_COMPLEX && head_tensor(head, CLATTN_GV)->data != NULL)
        for (int64_t c = 0; c < head->V; c++)
            head->value_decay[c] = exp(head_element(head, CLATTN_GV, token, head->first, head->head, c));
}

/* x <- e^(log_decay + i angle) x for a complex number */
static void rotate(double *re, double *im, double log_decay, double angle)
{
    double factor = exp(log_decay), x = *re, y = *im;

    *re = factor * (cos(angle) * x - sin(angle) * y);
    *im = factor * (sin(angle) * x + cos(angle) * y);
}

/* The log-decay of an element of the state; the second element of a pair has an angle instead. */
static double log_decay_at(const struct head *head, int64_t row, int64_t first, int64_t n, int64_t c)
{
    if (head->task->problem->rule->decay == DECAY_FULL)
        return head_element(head, head->task->problem->rule->gate, row, first, head->head, n * head->V + c);
    return head->step[c] * head_element(head, head->task->problem->rule->gate, 0, 0, head->head, c * head->K + n);
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
                rotate(S, S + head->V, log_decay, log_decay_at(head, row, first, n + 1, c));
            else
                *S *= exp(log_decay);
        }
}

void head_decay(struct head *head, int64_t row, int64_t first)
{
    switch (head->task->problem->rule->decay) {
    case DECAY_NONE:
    case DECAY_SCALAR:
    case DECAY_CHANNEL:
    case DECAY_VALUE: decay_outer(head); return;
    case DECAY_COMPLEX:
        for (int64_t c = 0; c < head->V; c += 2)
            rotate(head->S + c, head->S + c + 1, head_element(head, CLATTN_GV, 0, 0, head->head, c / 2),
                   head_element(head, CLATTN_THETA, 0, 0, head->head, c / 2));
        return;
    case DECAY_PRODUCT:
    case DECAY_FULL: decay_elements(head, row, first); return;
    }
}
