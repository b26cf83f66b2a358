/* Building recipes: tensors, steps and loops are appended, then scratch memory is laid out. */
#include "ir/grow.h"

#include <stdlib.h>
#include <string.h>

/* Arrays grow to powers of two. */
void *ir_grow(struct ir_recipe *recipe, void *array, int count, size_t size)
{
    void *grown;

    if (recipe->failed)
        return NULL;
    if (count > 0 && (count & (count - 1)) != 0)
        return array;
    grown = realloc(array, (count > 0 ? 2 * (size_t)count : 1) * size);
    recipe->failed = grown == NULL;
    return grown;
}

int ir_tensor(struct ir_recipe *recipe, const struct ir_tensor *tensor)
{
    struct ir_tensor *tensors = ir_grow(recipe, recipe->tensors, recipe->tensor_count, sizeof *tensors);

    if (tensors == NULL)
        return IR_NONE;
    recipe->tensors = tensors;
    tensors[recipe->tensor_count] = *tensor;
    return recipe->tensor_count++;
}

void ir_replace(struct ir_recipe *recipe, int number, const struct ir_step *step)
{
    recipe->steps[number] = *step;
    recipe->steps[number].first_argument = recipe->argument_count;
    recipe->steps[number].argument_count = 0;
    recipe->open_step = number;
}

int ir_step(struct ir_recipe *recipe, const struct ir_step *step)
{
    struct ir_step *steps = ir_grow(recipe, recipe->steps, recipe->step_count, sizeof *steps);

    if (steps == NULL)
        return IR_NONE;
    recipe->steps = steps;
    ir_replace(recipe, recipe->step_count, step);
    return recipe->step_count++;
}

void ir_argument(struct ir_recipe *recipe, const struct ir_argument *argument)
{
    struct ir_argument *arguments = ir_grow(recipe, recipe->arguments, recipe->argument_count, sizeof *arguments);

    if (arguments == NULL)
        return;
    recipe->arguments = arguments;
    arguments[recipe->argument_count++] = *argument;
    recipe->steps[recipe->open_step].argument_count++;
}

/* Loops do not grow: a cursor, which is copied, has a turn for each of them, and few are needed. A solver
 * adds one or two (over stretches, spans or mini-batches), each child of it another, and so do the reads of a shared state. */
int ir_loop(struct ir_recipe *recipe, const struct ir_loop *loop)
{
    if (recipe->loop_count == IR_MAX_LOOPS) {
        recipe->failed = 1;
        return IR_NONE;
    }
    recipe->loops[recipe->loop_count] = *loop;
    return recipe->loop_count++;
}

void ir_loop_end(struct ir_recipe *recipe, int loop, int last)
{
    if (loop != IR_NONE)
        recipe->loops[loop].last = last;
}

void ir_close(struct ir_recipe *recipe)
{
    free(recipe->nodes);
    free(recipe->tensors);
    free(recipe->steps);
    free(recipe->arguments);
    memset(recipe, 0, sizeof *recipe);
}

/* ---- Places -------------------------------------------------------------------------------------------------------
 */

enum { GRAIN = 256 }; /* bytes */

int64_t ir_room(const struct ir_tensor *tensor)
{
    return (tensor->bytes + GRAIN - 1) / GRAIN * GRAIN;
}

/* The tensor whose memory this one uses. */
static struct ir_tensor *owner(struct ir_recipe *recipe, int tensor)
{
    while (recipe->tensors[tensor].home == IR_SLICE)
        tensor = recipe->tensors[tensor].base;
    return &recipe->tensors[tensor];
}

static void extend(struct ir_recipe *recipe, int tensor, int step)
{
    struct ir_tensor *t;

    if (tensor == IR_NONE)
        return;
    t = owner(recipe, tensor);
    t->first = t->first < 0 ? step : t->first;
    t->last = step;
}

/* Extends a lifetime over a loop. A tensor that carries data from one iteration to the next lives as long as the loop.
 * One that was written before the loop lives to its end, because every iteration reads it. */
static void extend_over(const struct ir_loop *loop, struct ir_tensor *t)
{
    if (t->first < 0 || t->first > loop->last || t->last < loop->first)
        return;
    if ((loop->carries || t->carried) && t->first > loop->first)
        t->first = loop->first;
    if ((loop->carries || t->carried || t->first < loop->first) && t->last < loop->last)
        t->last = loop->last;
}

static void find_lifetimes(struct ir_recipe *recipe)
{
    for (int i = 0; i < recipe->tensor_count; i++)
        recipe->tensors[i].first = recipe->tensors[i].last = -1;
    for (int s = 0; s < recipe->step_count; s++) {
        const struct ir_step *step = &recipe->steps[s];
        for (int i = 0; i < step->argument_count; i++)
            if (recipe->arguments[step->first_argument + i].kind == IR_TENSOR)
                extend(recipe, recipe->arguments[step->first_argument + i].tensor, s);
        for (int i = 0; i < IR_MAX_FOREIGN && step->foreign != NULL; i++)
            extend(recipe, step->tensors[i], s);
    }
    for (int i = 0; i < recipe->tensor_count; i++)
        for (int loop = 0; loop < recipe->loop_count; loop++)
            extend_over(&recipe->loops[loop], &recipe->tensors[i]);
}

static int has_memory(const struct ir_tensor *t)
{
    return (t->home == IR_SCRATCH || t->home == IR_SAVED) && t->bytes > 0;
}

static int collide(const struct ir_tensor *a, const struct ir_tensor *b)
{
    int meet = a->home == IR_SAVED || (a->first <= b->last && b->first <= a->last);

    return has_memory(b) && a->home == b->home && meet && a->at < b->at + ir_room(b) && b->at < a->at + ir_room(a);
}

/* Finds the lowest place without collisions. */
static void place(struct ir_recipe *recipe, int tensor)
{
    struct ir_tensor *t = &recipe->tensors[tensor];

    t->at = 0;
    for (int other = 0; other < tensor; other++)
        if (collide(t, &recipe->tensors[other])) {
            t->at = recipe->tensors[other].at + ir_room(&recipe->tensors[other]);
            other = -1; /* start again: the new place may collide with a tensor that was checked before */
        }
}

clattn_status ir_finish(struct ir_recipe *recipe)
{
    if (recipe->failed)
        return CLATTN_OUT_OF_MEMORY;
    memset(recipe->bytes, 0, sizeof recipe->bytes);
    find_lifetimes(recipe);
    for (int i = 0; i < recipe->tensor_count; i++) {
        struct ir_tensor *t = &recipe->tensors[i];
        if (!has_memory(t))
            continue;
        place(recipe, i);
        if (t->at + ir_room(t) > recipe->bytes[t->home])
            recipe->bytes[t->home] = t->at + ir_room(t);
    }
    return CLATTN_SUCCESS;
}
