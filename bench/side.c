#include "side.h"

#include "cli/device/peak.h"
#include "tuner/buffers.h"
#include "tuner/kernel_times.h"

#include <stdlib.h>
#include <string.h>

struct side {
    struct target target;
};

struct side_problem {
    struct side *side;
    clattn_plan *plan;
    struct buffers buffers;
    struct check_tensors tensors;
    char text[2048];
};

int side_open(struct side **side, const char *device)
{
    *side = calloc(1, sizeof **side);
    if (*side == NULL)
        return CLATTN_OUT_OF_MEMORY;
    if (target_open(&(*side)->target, device) == EXIT_OK && !(*side)->target.reference)
        return CLATTN_SUCCESS;
    side_close(*side);
    *side = NULL;
    return CLATTN_NO_DEVICE;
}

void side_close(struct side *side)
{
    if (side != NULL)
        target_close(&side->target);
    free(side);
}

const char *side_device(const struct side *side)
{
    return target_name(&side->target);
}

const char *side_driver(const struct side *side)
{
    return side->target.info.driver;
}

const char *side_message(const struct side *side)
{
    return side->target.sink.error;
}

void side_peaks(struct side *side, double *bytes, double *flops)
{
    struct peak peak;

    peak_measure(&side->target, &peak);
    *bytes = peak.bytes;
    *flops = peak.flops;
}

static clattn_plan_desc make_desc(clattn_rule rule, const struct side_shape *shape)
{
    return (clattn_plan_desc){
        .rule = rule,
        .dtype = (clattn_dtype)shape->dtype,
        .gate_dtype = (clattn_dtype)shape->gate_dtype,
        .flags = (uint32_t)shape->flags,
        .batch = shape->batch,
        .seq_len = shape->seq_len,
        .heads = shape->heads,
        .qk_heads = shape->qk_heads,
        .key_dim = shape->key_dim,
        .value_dim = shape->value_dim,
        .layer = (int32_t)shape->layer,
        .layers = (int32_t)shape->layers,
        .readout = (clattn_readout)shape->readout,
    };
}

static clattn_status prepare(struct side_problem *problem, const clattn_plan_desc *desc, const struct side_shape *shape)
{
    struct target *target = &problem->side->target;
    size_t workspace;

    TRY(check_allocate(&problem->tensors, desc));
    TRY(clattn_plan_create(&problem->plan, target->device.context, &problem->tensors.desc));
    TRY(clattn_plan_describe(problem->plan, problem->text, sizeof problem->text));
    TRY(clattn_plan_workspace_size(problem->plan, &workspace));
    return buffers_create(&problem->buffers, &target->device, &problem->tensors, (size_t)shape->sets,
                          shape->in_place != 0, workspace, sink_log, &target->sink);
}

int side_problem_open(struct side_problem **problem, struct side *side, const char *rule,
                      const struct side_shape *shape)
{
    clattn_plan_desc desc = make_desc(clattn_rule_find(rule), shape);
    clattn_status status;

    side->target.sink.error[0] = '\0';
    *problem = calloc(1, sizeof **problem);
    if (*problem == NULL)
        return CLATTN_OUT_OF_MEMORY;
    (*problem)->side = side;
    status = prepare(*problem, &desc, shape);
    if (status != CLATTN_SUCCESS) {
        side_problem_close(*problem);
        *problem = NULL;
    }
    return (int)status;
}

void side_problem_close(struct side_problem *problem)
{
    if (problem == NULL)
        return;
    buffers_destroy(&problem->buffers);
    clattn_plan_destroy(problem->plan);
    check_free(&problem->tensors);
    free(problem);
}

const char *side_problem_plan(const struct side_problem *problem)
{
    return problem->text;
}

void *side_operand(struct side_problem *problem, const char *name, int64_t *bytes)
{
    for (int id = 1; id < OPERAND_COUNT; id++) {
        struct check_tensor *tensor = &problem->tensors.tensor[id];
        if (tensor->data == NULL || strcmp(tensor->info.name, name) != 0)
            continue;
        *bytes = (int64_t)tensor->bytes;
        return tensor->data;
    }
    *bytes = 0;
    return NULL;
}

int side_write(struct side_problem *problem, int64_t set)
{
    return (int)buffers_write(&problem->buffers, (size_t)set, &problem->tensors);
}

int side_read(struct side_problem *problem, int64_t set, const char *name)
{
    struct check_tensors wanted = problem->tensors;

    for (int id = 1; id < OPERAND_COUNT; id++)
        if (name != NULL && wanted.tensor[id].data != NULL && strcmp(wanted.tensor[id].info.name, name) != 0)
            wanted.tensor[id].data = NULL;
    return (int)buffers_read(&problem->buffers, (size_t)set, &wanted);
}

int side_fill(struct side_problem *problem, int64_t seed)
{
    struct check_tensors made;
    clattn_status status = check_make(&made, &problem->tensors.desc, (uint64_t)seed, CHECK_GATES_USUAL, NULL);

    if (status != CLATTN_SUCCESS)
        return (int)status;
    check_free(&problem->tensors);
    problem->tensors = made;
    return CLATTN_SUCCESS;
}

int side_reference_error(struct side_problem *problem, double *error)
{
    struct check_tensors expected;
    clattn_status status = check_reference(&expected, &problem->tensors, sink_log, &problem->side->target.sink);

    if (status != CLATTN_SUCCESS)
        return (int)status;
    *error = check_error(&problem->tensors, &expected, NULL);
    check_free(&expected);
    return CLATTN_SUCCESS;
}

static clattn_status enqueue(struct side_problem *problem, size_t run, cl_event *event)
{
    struct arguments operands =
        buffers_operands(&problem->buffers, run % problem->buffers.sets, &problem->tensors.desc);

    return check_enqueue(problem->plan, problem->side->target.device.queue, &operands, 0, NULL, event);
}

static clattn_status finish(struct side_problem *problem)
{
    const struct log log = {sink_log, &problem->side->target.sink};

    TRY_CL(&log, opencl_get(), Finish, problem->side->target.device.queue);
    return CLATTN_SUCCESS;
}

int side_run(struct side_problem *problem, int64_t set)
{
    clattn_status status = enqueue(problem, (size_t)set, NULL);

    return (int)(status == CLATTN_SUCCESS ? finish(problem) : status);
}

static clattn_status event_end(const struct side_problem *problem, cl_event event, double *seconds)
{
    const struct log log = {sink_log, &problem->side->target.sink};
    cl_ulong nanoseconds;

    TRY_CL(&log, opencl_get(), GetEventProfilingInfo, event, CL_PROFILING_COMMAND_END, sizeof nanoseconds, &nanoseconds,
           NULL);
    *seconds = 1e-9 * (double)nanoseconds;
    return CLATTN_SUCCESS;
}

/* events has count + 1 elements, NULL: the first run is not timed. */
static clattn_status run_all(struct side_problem *problem, size_t count, cl_event *events, double *seconds)
{
    double before = 0, end = 0;

    for (size_t i = 0; i <= count; i++)
        TRY(enqueue(problem, i, &events[i]));
    TRY(finish(problem));
    TRY(event_end(problem, events[0], &before));
    for (size_t i = 0; i < count; i++, before = end) {
        TRY(event_end(problem, events[i + 1], &end));
        seconds[i] = end - before;
    }
    return CLATTN_SUCCESS;
}

int side_time(struct side_problem *problem, int64_t count, double *seconds)
{
    cl_event *events = calloc((size_t)count + 1, sizeof *events);
    clattn_status status;

    if (events == NULL)
        return CLATTN_OUT_OF_MEMORY;
    status = run_all(problem, (size_t)count, events, seconds);
    for (int64_t i = 0; i <= count; i++)
        if (events[i] != NULL)
            opencl_get()->ReleaseEvent(events[i]);
    free(events);
    return (int)status;
}

int side_kernel_times(struct side_problem *problem, int64_t runs, const char **names, double *seconds, int64_t *count)
{
    struct kernel_times times;
    clattn_status status =
        kernel_times(&times, problem->plan, problem->side->target.device.queue, &problem->buffers, (size_t)runs);

    *count = times.count;
    for (int i = 0; i < times.count; i++) {
        names[i] = times.names[i];
        seconds[i] = times.seconds[i];
    }
    return (int)status;
}
