/* Rotary positions: rows of the piece, and of q, k and p before a rule. */
#include "reference/number.h"
#include "reference/task.h"

#include <math.h>

/* By the angle times sign. */
static void turn_by(const struct task *task, int64_t sequence, int64_t token, double sign, double *row)
{
    const clattn_plan_desc *desc = &task->problem->desc;
    const struct tensor *position = &task->tensors[CLATTN_POSITION];
    int64_t half = desc->rope_dim / 2;
    double at = (double)token;

    if (position->data != NULL)
        at += (double)number_index(position->data, position->view.offset + sequence, 0);
    for (int64_t n = 0; n < half; n++) {
        double angle =
            at * pow(desc->rope_base, -(double)n / (double)half) * (desc->flags & CLATTN_TURNED_BACK ? -sign : sign);
        double *first = row + (desc->flags & CLATTN_INTERLEAVED ? 2 * n : n),
               *second = first + (desc->flags & CLATTN_INTERLEAVED ? 1 : half);
        double x = *first, y = *second;
        *first = x * cos(angle) - y * sin(angle);
        *second = y * cos(angle) + x * sin(angle);
    }
}

void task_turn(const struct task *task, int64_t sequence, int64_t token, double *row)
{
    turn_by(task, sequence, token, 1, row);
}

void task_turn_back(const struct task *task, int64_t sequence, int64_t token, double *row)
{
    if (task->problem->desc.rope_dim != 0)
        turn_by(task, sequence, token, -1, row);
}

void task_turn_key(const struct task *task, clattn_operand_id id, int64_t sequence, int64_t token, double *row)
{
    const clattn_plan_desc *desc = &task->problem->desc;

    if (desc->rope_dim == 0)
        return;
    task_turn(task, sequence, token, row);
    for (int32_t n = 0; n < desc->rope_dim; n++)
        row[n] = number_round(task->tensors[id].dtype, row[n]);
}
