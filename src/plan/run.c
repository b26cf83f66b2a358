/* One loop that binds a step's arguments and enqueues it. */
#include "plan/call.h"

#include "device/program.h"
#include "plan/gemm.h"

#include <string.h>

static cl_mem any_memory(const struct call *call)
{
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (call->operands[id].memory != NULL)
            return call->operands[id].memory;
    return call->temporaries[0].memory;
}

/* Of q's and o's heads those that are at hand: of each state one. */
static struct bound bound_read(const struct call *call, int id)
{
    struct bound bound = call->operands[id];

    const struct problem *problem = &call->plan->problem;

    if (id != CLATTN_Q && id != CLATTN_O && id != CLATTN_ATTN)
        return bound;
    if (problem->desc.flags & CLATTN_HEADS_TILED) {
        bound.view.offset += call->at.read * problem->desc.kv_heads * bound.view.head;
    } else {
        bound.view.offset += call->at.read * bound.view.head;
        bound.view.head *= problem_reads(problem);
    }
    return bound;
}

static struct bound resolve(const struct call *call, struct source source)
{
    switch (source.kind) {
    case SOURCE_NONE: break;
    case SOURCE_OPERAND: return bound_read(call, source.index);
    case SOURCE_TEMPORARY: return call->temporaries[source.index];
    case SOURCE_FIXED: return call->fixed;
    }
    return (struct bound){NULL, {0, 0, 0, 0}};
}

/* A view or a number, which goes to the kernel when it is not what the kernel has. */
static clattn_status set_value(const struct call *call, int step, cl_uint index, size_t size, const void *value)
{
    struct set_value *set = &call->set[step][index];
    const struct clattn_plan *plan = call->plan;

    if (set->size == size && memcmp(set->bytes, value, size) == 0)
        return CLATTN_SUCCESS;
    set->size = 0;
    TRY_CL(&call->log, plan->context->device.cl->SetKernelArg(plan->kernels[step].cl, index, size, value));
    set->size = size;
    memcpy(set->bytes, value, size);
    return CLATTN_SUCCESS;
}

/* A buffer goes to the kernel at every call: the address of one that is gone may come again for another. What this call
 * has not is NULL, for a buffer costs every launch .4 us of NVIDIA's driver; or, of a driver that refuses it, any
 * buffer. */
static clattn_status set_memory(const struct call *call, int step, cl_uint index, cl_mem memory)
{
    const struct clattn_plan *plan = call->plan;
    const struct opencl *cl = plan->context->device.cl;
    struct set_value *set = &call->set[step][index];

    if (memory == NULL) {
        if (set->size == sizeof memory ||
            cl->SetKernelArg(plan->kernels[step].cl, index, sizeof memory, &memory) == CL_SUCCESS) {
            set->size = sizeof memory; /* it stays */
            return CLATTN_SUCCESS;
        }
        memory = any_memory(call);
    }
    set->size = 0;
    TRY_CL(&call->log, cl->SetKernelArg(plan->kernels[step].cl, index, sizeof memory, &memory));
    return CLATTN_SUCCESS;
}

static clattn_status set_buffer(const struct call *call, int step, cl_uint *index, struct source source)
{
    const struct bound bound = resolve(call, source);
    const cl_long4 view = {{bound.view.offset, bound.view.batch, bound.view.token, bound.view.head}};

    TRY(set_memory(call, step, (*index)++, bound.memory));
    return set_value(call, step, (*index)++, sizeof view, &view);
}

static int is_last_read(const struct call *call)
{
    return call->at.read + 1 == problem_reads(&call->plan->problem);
}

/* Once; and where reads are of it, before them. */
static int leaves_state(const struct call *call)
{
    return problem_reads_whole(&call->plan->problem) ? call->at.read == 0 : is_last_read(call);
}

static int64_t rows_of(const struct call *call)
{
    if (call->plan->recipe.loop_keys)
        return call->extent.kv_len;
    return call->extent.seq_len * call->plan->problem.desc.steps;
}

/* The rows of the stretch at hand, of each sequence, at most. */
static int64_t stretch_rows(const struct call *call)
{
    int64_t most = call->plan->recipe.loop_rows, left = rows_of(call) - call->at.first_row;

    return most > 0 && most < left ? most : left;
}

static clattn_status set_number(const struct call *call, int step, cl_uint *index, enum role argument)
{
    const struct clattn_plan *plan = call->plan;
    const struct source *sources = plan->recipe.steps[step].sources;
    int64_t window = plan->problem.desc.window, keys = call->extent.kv_len;
    cl_int number = 0;
    cl_float scale = (cl_float)plan->problem.desc.scale;
    const void *value = argument == ARG_scale ? (const void *)&scale : &number;

    if (argument == ARG_seq_len)
        number = (cl_int)call->extent.seq_len;
    if (argument == ARG_sequences)
        number = (cl_int)call->extent.sequences;
    if (argument == ARG_states) /* the final one may be the initial one's memory, which every read wants */
        number = (sources[ROLE_initial].kind != SOURCE_NONE) +
                 2 * (sources[ROLE_final].kind != SOURCE_NONE && leaves_state(call));
    if (argument == ARG_kv_len)
        number = (cl_int)keys;
    if (argument == ARG_window)
        number = (cl_int)(window == 0 || window > keys ? keys : window);
    if (argument == ARG_tail)
        number = (cl_int)call->extent.tail;
    if (argument == ARG_first_row)
        number = (cl_int)call->at.first_row;
    if (argument == ARG_stretch_rows)
        number = (cl_int)stretch_rows(call);
    if (argument == ARG_every)
        number = (cl_int)(plan->problem.desc.state_every - plan->problem.desc.state_window);
    if (argument == ARG_given)
        number = (sources[ROLE_sink].kind != SOURCE_NONE) + 2 * (sources[ROLE_lse].kind != SOURCE_NONE) +
                 4 * (sources[ROLE_cu_kv].kind != SOURCE_NONE) + 8 * (sources[ROLE_lens].kind != SOURCE_NONE) +
                 16 * (sources[ROLE_e].kind != SOURCE_NONE);
    return set_value(call, step, (*index)++, 4, value);
}

static clattn_status set_arguments(const struct call *call, int step)
{
    const struct step *of = &call->plan->recipe.steps[step];
    const role_byte *argument = kernel_arguments(of->variant.kernel);
    cl_uint index = 0;

    for (int i = 0; *argument != ARG_END; argument++, i++) {
        if (of->variant.absent >> i & 1)
            continue;
        if (*argument < ROLE_COUNT)
            TRY(set_buffer(call, step, &index, of->sources[*argument]));
        else
            TRY(set_number(call, step, &index, (enum role) * argument));
    }
    return CLATTN_SUCCESS;
}

/* Chunks of each sequence in the stretch at hand, at most. */
static int64_t stretch_chunks(const struct call *call, const struct step *step)
{
    int64_t left = divide_up(rows_of(call) - call->at.first_row, step->variant.tiles.chunk);

    return left < step->layout.stretch ? left : step->layout.stretch;
}

/* Groups of the first dimension; 0 where there are no chunks to prepare. */
static int64_t first_groups(const struct call *call, const struct step *step)
{
    if (step->grid == GRID_SEQUENCES || (step->grid == GRID_SLOTS_OR_SEQUENCES && call->extent.seq_len == 0))
        return call->extent.sequences;
    if (step->grid == GRID_KEY_SLOTS)
        return recipe_key_slots(&call->plan->problem, &call->extent, step->variant.tiles.chunk);
    if (step->layout.stretch > 0)
        return call->extent.sequences * stretch_chunks(call, step);
    return divide_up(recipe_slots(step->variant.problem, &call->extent, step->variant.tiles.chunk), step->layout.slots);
}

/* Whether the rows of a product's matrix, as they lie, are the stretch's. */
static int has_stretch(const struct product *product, enum gemm_operand id)
{
    const clattn_gemm_desc *d = &product->desc;

    if (id == GEMM_B)
        return (d->flags & CLATTN_GEMM_TRANS_B ? product->n : product->k) == LENGTH_ROWS;
    return (id == GEMM_A && (d->flags & CLATTN_GEMM_TRANS_A) ? product->k : product->m) == LENGTH_ROWS;
}

static struct lying lie(const struct call *call, const struct product *product, enum gemm_operand id)
{
    const struct matrix *x = &product->of[id];
    const size_t element = dtype_size(gemm_type(&product->desc, id));
    struct bound bound = resolve(call, x->source);
    int64_t first = bound.view.offset + has_stretch(product, id) * call->at.first_row * bound.view.token;

    if (x->row == 0)
        return (struct lying){bound.memory, (first + x->at) * (int64_t)element, bound.view.token, bound.view.head,
                              bound.view.batch};
    if (x->source.kind == SOURCE_TEMPORARY)
        first =
            ((int64_t)call->workspace + call->plan->recipe.temporaries[x->source.index].at * (int64_t)sizeof(float)) /
            (int64_t)element;
    return (struct lying){bound.memory, (first + x->at) * (int64_t)element, x->row, x->head, x->sequence};
}

static void lengths_of(const struct call *call, int64_t lengths[3])
{
    lengths[LENGTH_FIXED] = 1;
    lengths[LENGTH_ROWS] = stretch_rows(call);
    lengths[LENGTH_KEYS] = call->extent.kv_len;
}

static clattn_status enqueue_product(const struct call *call, uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    const struct product *product = &call->plan->recipe.steps[call->at.step].product;
    struct lying at[GEMM_OPERANDS];
    int64_t lengths[3];

    lengths_of(call, lengths);
    for (int i = 0; i < GEMM_OPERANDS; i++)
        at[i] = lie(call, product, (enum gemm_operand)i);
    return plan_enqueue_product(call->plan, call->at.step, at, lengths, call->extent.sequences, call->at.part,
                                &call->log, call->queue, n_wait, wait, event);
}

static clattn_status enqueue(const struct call *call, uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    const struct clattn_plan *plan = call->plan;
    const struct step *step = &plan->recipe.steps[call->at.step];
    const struct opencl *cl = plan->context->device.cl;
    const size_t local[3] = {(size_t)step->variant.tiles.group, 1, 1};
    int64_t heads = step->layout.head_groups != 0 ? step->layout.head_groups : problem_work_heads(&plan->problem);
    const size_t global[3] = {(size_t)first_groups(call, step) * local[0], (size_t)heads,
                              (size_t)step->layout.value_groups};

    if (is_product(step))
        return enqueue_product(call, n_wait, wait, event);
    TRY(set_arguments(call, call->at.step));
    TRY_CL(&call->log, cl->EnqueueNDRangeKernel(call->queue, plan->kernels[call->at.step].cl, 3, NULL, global, local,
                                                n_wait, wait, event));
    return CLATTN_SUCCESS;
}

/* ---- The order of launches ----------------------------------------------------------------------------------------
 */

/* Whether a loop goes on after the stretch at hand. */
static int goes_back(const struct call *call)
{
    const struct recipe *recipe = &call->plan->recipe;

    return recipe->loop_rows > 0 && call->at.first_row + recipe->loop_rows < rows_of(call);
}

/* Launches of the step at hand: none where there is nothing to do. */
static int64_t launches_of(const struct call *call)
{
    const struct step *step = &call->plan->recipe.steps[call->at.step];
    const struct product *product = &step->product;
    int64_t lengths[3];

    if ((step->when == WHEN_NOT_LAST && !goes_back(call)) || (step->when != WHEN_ALWAYS && rows_of(call) == 0) ||
        (step->when == WHEN_WHOLE && stretch_rows(call) < call->plan->recipe.loop_rows))
        return 0;
    if (!is_product(step))
        return first_groups(call, step) > 0;
    lengths_of(call, lengths);
    return lengths[product->m] * lengths[product->n] * lengths[product->k] > 0
               ? plan_product_launches(call->plan, call->at.step, call->extent.sequences)
               : 0;
}

/* To the step after, past the last where it is all: with the stretch that it works, and the heads that read. */
static void next_step(struct call *call)
{
    const struct recipe *recipe = &call->plan->recipe;
    struct stand *at = &call->at;
    int last = at->step == recipe->loop_last;

    at->part = 0;
    if (last && goes_back(call)) {
        at->first_row += recipe->loop_rows;
        at->step = recipe->loop_first;
        return;
    }
    if (last)
        at->first_row = 0;
    if (++at->step < recipe->step_count || is_last_read(call))
        return;
    at->read++;
    at->step = 0;
}

/* To the first launch from here on that has anything to do; 0: there is none. */
static int find_launch(struct call *call)
{
    for (; call->at.step < call->plan->recipe.step_count; next_step(call))
        if (call->at.part < launches_of(call))
            return 1;
    return 0;
}

/* The one after that at hand. */
static int next_launch(struct call *call)
{
    call->at.part++;
    return find_launch(call);
}

int64_t plan_launches(const struct clattn_plan *plan)
{
    struct call call = {.plan = plan, .extent = problem_most(&plan->problem)};
    int64_t count = 0;

    for (int more = find_launch(&call); more; more = next_launch(&call))
        count++;
    return count;
}

static cl_event *note_launch(struct launches *launches, int step)
{
    launches->each[launches->count].step = step;
    launches->each[launches->count].event = NULL;
    return &launches->each[launches->count].event;
}

/* What a call of nothing to do comes to. */
static clattn_status enqueue_marker(const struct call *call, uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    const struct opencl *cl = call->plan->context->device.cl;

    TRY_CL(&call->log, cl->EnqueueMarkerWithWaitList(call->queue, n_wait, wait, event));
    return CLATTN_SUCCESS;
}

/* Each launch after the one before: by the queue's order, or by events where it has none. The last leaves the event;
 * with launches, on a queue in order, every one of its own. The call then stands behind the last, or at the launch that
 * has failed, from which it can go on. */
static clattn_status enqueue_chain(struct call *call, uint32_t n_wait, const cl_event *wait, cl_event *event,
                                   struct launches *launches)
{
    const struct opencl *cl = call->plan->context->device.cl;
    int more = find_launch(call);

    if (!more)
        return enqueue_marker(call, n_wait, wait, event);
    while (more) {
        const struct stand here = call->at;
        struct stand next;
        cl_event after = NULL, *out;
        more = next_launch(call);
        next = call->at;
        call->at = here;
        out = launches != NULL ? note_launch(launches, here.step) : !more ? event : call->in_order ? NULL : &after;
        TRY(call->before != NULL ? enqueue(call, 1, &call->before, out) : enqueue(call, n_wait, wait, out));
        call->at = next;
        if (launches != NULL)
            launches->count++;
        if (call->before != NULL)
            cl->ReleaseEvent(call->before);
        call->before = after;
        if (call->in_order)
            n_wait = 0, wait = NULL;
    }
    return CLATTN_SUCCESS;
}

/* The kernel of a step that cannot be run made again, where it came from the cache: SUCCESS. */
static clattn_status renew_step(struct clattn_plan *plan, int step)
{
    struct kernel kernel, again;
    cl_kernel released;

    if (step >= plan->recipe.step_count)
        return CLATTN_UNSUPPORTED;
    if (is_product(&plan->recipe.steps[step]))
        return gemm_renew(plan->products[step]);
    lock_take(&plan->lock);
    kernel = plan->kernels[step];
    lock_give(&plan->lock);
    TRY(kernel_again(plan->context, &kernel, &again));
    lock_take(&plan->lock);
    released = kernel_swap(&plan->kernels[step], &again);
    memset(plan->set[step], 0, sizeof plan->set[step]); /* it has no arguments yet */
    lock_give(&plan->lock);
    plan->context->device.cl->ReleaseKernel(released);
    return CLATTN_SUCCESS;
}

int plan_renew(struct clattn_plan *plan)
{
    int renewed = 0;

    for (int i = 0; i < plan->recipe.step_count; i++)
        renewed += renew_step(plan, i) == CLATTN_SUCCESS;
    return renewed > 0;
}

static clattn_status run(struct clattn_plan *plan, cl_command_queue queue, const struct arguments *arguments,
                         uint32_t n_wait, const cl_event *wait, cl_event *event, struct launches *launches)
{
    struct log_held held = {.line = ""};
    struct call call = {.plan = plan,
                        .queue = queue,
                        .set = plan->set,
                        .log = {log_hold, &held},
                        .fixed = {plan->head_decay, {0, 0, 0, 1}}};
    clattn_status status;
    int renewed = 0;

    TRY(call_bind(&call, arguments));
    if (launches != NULL && !call.in_order)
        return FAIL(&plan->context->log, INVALID_ARGUMENT, "the queue is out of order");
    do {
        held.line[0] = '\0';
        lock_take(&plan->lock);
        status = enqueue_chain(&call, n_wait, wait, event, launches);
        lock_give(&plan->lock);
    } while (status == CLATTN_DEVICE_ERROR && renew_step(plan, call.at.step) == CLATTN_SUCCESS && ++renewed);
    if (call.before != NULL)
        plan->context->device.cl->ReleaseEvent(call.before);
    if (renewed > 0)
        program_keep(plan->context);
    log_release(&held, &plan->context->log);
    return status;
}

clattn_status plan_run_each(struct clattn_plan *plan, cl_command_queue queue, const struct arguments *arguments,
                            struct launches *launches)
{
    launches->count = 0;
    return run(plan, queue, arguments, 0, NULL, NULL, launches);
}

clattn_status plan_run(struct clattn_plan *plan, cl_command_queue queue, const struct arguments *arguments,
                       uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    return run(plan, queue, arguments, n_wait, wait, event, NULL);
}
