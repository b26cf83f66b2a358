/* The executor: resolves one launch after another and submits it. */
#include "ir/ir.h"

#include <stdlib.h>
#include <string.h>

/* ---- The order of launches ----------------------------------------------------------------------------------------
 */

static int64_t launches_of(const struct ir_call *call)
{
    const struct ir_step *step = &call->recipe->steps[call->at.step];
    const ir_expression *sizes = step->foreign != NULL ? step->sizes : step->grid;
    const int count = step->foreign != NULL ? IR_MAX_FOREIGN : 3;

    if (ir_value_or(call, step->condition, 1) == 0)
        return 0;
    for (int i = 0; i < count; i++)
        if (ir_value_or(call, sizes[i], 1) <= 0)
            return 0;
    return ir_value_or(call, step->parts, 1);
}

/* Goes to the next step, or back to the beginning of a loop that has iterations left. */
static void next_step(struct ir_call *call)
{
    struct ir_cursor *at = &call->at;

    at->part = 0;
    for (int i = 0; i < call->recipe->loop_count; i++) {
        const struct ir_loop *loop = &call->recipe->loops[i];
        if (loop->last != at->step)
            continue;
        if (at->turn[i] + 1 < ir_turns(call, i)) {
            at->turn[i]++;
            at->step = loop->first;
            return;
        }
        at->turn[i] = 0;
    }
    at->step++;
}

/* Goes to the next launch that has work, from the current one on. 0: there is none. */
static int find_launch(struct ir_call *call)
{
    for (; call->at.step < call->recipe->step_count; next_step(call))
        if (call->at.part < launches_of(call))
            return 1;
    return 0;
}

static int next_launch(struct ir_call *call)
{
    call->at.part++;
    return find_launch(call);
}

int64_t ir_count(const struct ir_recipe *recipe, const struct extent *extent)
{
    struct ir_call call = {.recipe = recipe, .extent = *extent};
    int64_t count = 0;

    for (int more = find_launch(&call); more; more = next_launch(&call))
        count++;
    return count;
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------
 */

struct ir_set *ir_set_create(const struct ir_recipe *recipe)
{
    return calloc(2 * (size_t)recipe->argument_count + 1, sizeof(struct ir_set));
}

static struct opencl_kernel kernel_of(const struct ir_call *call)
{
    return (struct opencl_kernel){call->kernels[call->at.step], call->recipe->steps[call->at.step].kernel};
}

/* Passes a view or a number to the kernel unless the kernel has it already. */
static clattn_status set_value(const struct ir_call *call, struct ir_set *set, cl_uint index, size_t size,
                               const void *value)
{
    if (set->size == size && memcmp(set->bytes, value, size) == 0)
        return CLATTN_SUCCESS;
    set->size = 0;
    TRY(opencl_set_argument(&call->log, call->cl, kernel_of(call), index, size, value));
    set->size = size;
    memcpy(set->bytes, value, size);
    return CLATTN_SUCCESS;
}

void ir_set_forget(const struct ir_recipe *recipe, struct ir_set *set, int step)
{
    const struct ir_step *of = &recipe->steps[step];

    memset(set + 2 * (size_t)of->first_argument, 0, 2 * (size_t)of->argument_count * sizeof *set);
}

/* Some buffer of the call, for drivers that reject NULL. */
static cl_mem any_memory(const struct ir_call *call)
{
    for (int i = 0; i < call->recipe->tensor_count; i++) {
        const struct ir_place place = ir_resolve(call, i);
        if (place.memory != NULL)
            return place.memory;
    }
    return NULL;
}

/* Passes memory to the kernel in every call, because a new buffer may have the address of one that was released.
 * Buffers that a call does not have are NULL, because each buffer costs every launch 0.4 us in NVIDIA's driver. A
 * driver that rejects NULL gets any buffer. */
static clattn_status set_memory(const struct ir_call *call, struct ir_set *set, cl_uint index, cl_mem memory)
{
    const cl_kernel kernel = call->kernels[call->at.step];

    if (memory == NULL) {
        if (set->size == sizeof memory || call->cl->SetKernelArg(kernel, index, sizeof memory, &memory) == CL_SUCCESS) {
            set->size = sizeof memory; /* this does not change */
            return CLATTN_SUCCESS;
        }
        memory = any_memory(call);
    }
    set->size = 0;
    return opencl_set_argument(&call->log, call->cl, kernel_of(call), index, sizeof memory, &memory);
}

static clattn_status set_numbers(const struct ir_call *call, struct ir_set *set, cl_uint index,
                                 const struct ir_argument *argument)
{
    const int width = argument->width != 0 ? argument->width : 1;
    cl_int integers[IR_MAX_WIDTH];

    if (argument->kind == IR_FLOAT)
        return set_value(call, set, index, (size_t)width * sizeof(cl_float), argument->reals);
    for (int i = 0; i < width; i++)
        integers[i] = (cl_int)ir_value(call, argument->integers[i]);
    return set_value(call, set, index, (size_t)width * sizeof(cl_int), integers);
}

static clattn_status set_arguments(const struct ir_call *call, const struct ir_step *step)
{
    struct ir_set *set = call->set + 2 * (size_t)step->first_argument;
    cl_uint index = 0;

    for (int i = 0; i < step->argument_count; i++, set += 2) {
        const struct ir_argument *argument = &call->recipe->arguments[step->first_argument + i];
        if (argument->kind == IR_TENSOR) {
            const struct ir_place place = ir_resolve(call, argument->tensor);
            const cl_long4 view = {{place.view.offset, place.view.batch, place.view.token, place.view.head}};
            TRY(set_memory(call, &set[0], index++, place.memory));
            TRY(set_value(call, &set[1], index++, sizeof view, &view));
        } else
            TRY(set_numbers(call, &set[0], index++, argument));
    }
    return CLATTN_SUCCESS;
}

static clattn_status enqueue_kernel(const struct ir_call *call, const struct ir_step *step, uint32_t n_wait,
                                    const cl_event *wait, cl_event *event)
{
    const size_t local[3] = {step->group, 1, 1};
    const size_t global[3] = {(size_t)ir_value(call, step->grid[0]) * step->group,
                              (size_t)ir_value(call, step->grid[1]), (size_t)ir_value(call, step->grid[2])};

    TRY(set_arguments(call, step));
    return opencl_launch(&call->log, call->cl, call->queue, kernel_of(call), global, local, n_wait, wait, event);
}

static clattn_status enqueue_foreign(const struct ir_call *call, const struct ir_step *step, uint32_t n_wait,
                                     const cl_event *wait, cl_event *event)
{
    struct ir_place places[IR_MAX_FOREIGN];
    int64_t sizes[IR_MAX_FOREIGN];
    const struct ir_foreign foreign = {.user = step->user,
                                       .step = call->at.step,
                                       .places = places,
                                       .sizes = sizes,
                                       .part = call->at.part,
                                       .log = &call->log,
                                       .queue = call->queue,
                                       .n_wait = n_wait,
                                       .wait = wait,
                                       .event = event};

    for (int i = 0; i < IR_MAX_FOREIGN; i++) {
        places[i] = ir_resolve(call, step->tensors[i]);
        sizes[i] = ir_value_or(call, step->sizes[i], 0);
    }
    return step->foreign(&foreign);
}

static clattn_status submit(const struct ir_call *call, uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    const struct ir_step *step = &call->recipe->steps[call->at.step];

    return (step->foreign != NULL ? enqueue_foreign : enqueue_kernel)(call, step, n_wait, wait, event);
}

/* ---- The chain ----------------------------------------------------------------------------------------------------
 */

/* Enqueues a call that has no work. */
static clattn_status enqueue_marker(const struct ir_call *call, uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    TRY_CL(&call->log, call->cl, EnqueueMarkerWithWaitList, call->queue, n_wait, wait, event);
    return CLATTN_SUCCESS;
}

/* Where to store the launch's event. With `launches`, each launch has its own. Otherwise the last launch gets *event,
 * and on a queue out of order the others get the event that the next launch waits for. */
static cl_event *event_of(const struct ir_call *call, int is_last, cl_event *event, cl_event *after,
                          struct ir_launches *launches)
{
    if (launches != NULL) {
        launches->each[launches->count].step = call->at.step;
        launches->each[launches->count].event = NULL;
        return &launches->each[launches->count].event;
    }
    if (is_last)
        return event;
    return call->in_order ? NULL : after;
}

clattn_status ir_enqueue(struct ir_call *call, uint32_t n_wait, const cl_event *wait, cl_event *event,
                         struct ir_launches *launches)
{
    int more = find_launch(call);

    if (!more)
        return enqueue_marker(call, n_wait, wait, event);
    while (more) {
        const struct ir_cursor here = call->at;
        struct ir_cursor next;
        cl_event after = NULL, *out;
        more = next_launch(call);
        next = call->at;
        call->at = here;
        out = event_of(call, !more, event, &after, launches);
        TRY(call->before != NULL ? submit(call, 1, &call->before, out) : submit(call, n_wait, wait, out));
        call->at = next;
        if (launches != NULL)
            launches->count++;
        if (call->before != NULL)
            call->cl->ReleaseEvent(call->before);
        call->before = after;
        if (call->in_order)
            n_wait = 0, wait = NULL;
    }
    return CLATTN_SUCCESS;
}
