/* Runs a plan on a device in poisoned memory. Every operand has a buffer of its own, between two guard bands:
 *
 *     | front: 0xff | the tensor; outputs and workspace: 0xff | back: 0xff |
 *
 * The front band's size is no multiple of a vector's, because a caller's offset need not be one. */
#include "check/check.h"

#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

enum { FRONT = 256, BACK = 4096, WORKSPACE = OPERAND_COUNT, REGIONS };

struct region {
    const char *name;
    cl_mem buffer;
    unsigned char *image; /* what the buffer held before the run */
    size_t front, bytes, element;
    int output;  /* every element must be written */
    int updated; /* may be written: the workspace, and inputs that a run updates */
};

struct run {
    const struct opencl *cl;
    struct check_device *device;
    struct log log;
    struct region regions[REGIONS];
};

clattn_status check_device_open(struct check_device *device, cl_device_id id, clattn_log_fn log, void *log_user)
{
    const struct opencl *cl = opencl_get();
    const struct log sink = {log, log_user};
    clattn_status status;

    memset(device, 0, sizeof *device);
    if (cl == NULL)
        return FAIL(&sink, NO_OPENCL, "no OpenCL library");
    status =
        clattn_context_create(&device->context, &(clattn_context_desc){.device = id, .log = log, .log_user = log_user});
    if (status == CLATTN_SUCCESS)
        status = clattn_context_get(device->context, &device->cl, &device->device);
    if (status == CLATTN_SUCCESS)
        status = opencl_create_queue(&sink, cl, device->cl, device->device, CL_QUEUE_PROFILING_ENABLE, &device->queue);
    if (status != CLATTN_SUCCESS)
        check_device_close(device);
    return status;
}

void check_device_close(struct check_device *device)
{
    if (device->queue != NULL)
        opencl_get()->ReleaseCommandQueue(device->queue);
    clattn_context_destroy(device->context);
    memset(device, 0, sizeof *device);
}

static size_t total(const struct region *region)
{
    return region->front + region->bytes + BACK;
}

/* data NULL: only poison. */
static clattn_status region_create(const struct run *run, struct region *region, const void *data)
{

    region->image = malloc(total(region));
    if (region->image == NULL)
        return FAIL(&run->log, OUT_OF_MEMORY, "no memory for the image of %s", region->name);
    memset(region->image, 0xff, total(region));
    if (data != NULL)
        memcpy(region->image + region->front, data, region->bytes);
    TRY(opencl_create_buffer(&run->log, run->cl, run->device->cl, CL_MEM_READ_WRITE, total(region), NULL,
                             &region->buffer));
    return opencl_write(&run->log, run->cl, run->device->queue, region->buffer, 0, total(region), region->image);
}

static clattn_status create_regions(struct run *run, const struct check_tensors *tensors, size_t workspace)
{
    for (int id = 1; id < OPERAND_COUNT; id++) {
        const struct check_tensor *tensor = &tensors->tensor[id];
        struct region *region = &run->regions[id];
        if (tensor->data == NULL)
            continue;
        region->name = tensor->info.name;
        region->bytes = tensor->bytes;
        region->element = tensor->bytes / (size_t)check_count(&tensor->info);
        region->front = FRONT + region->element;
        region->output = tensor->info.output;
        region->updated = operand_is_updated(&tensors->desc, (clattn_operand_id)id);
        TRY(region_create(run, region, region->output ? NULL : tensor->data));
    }
    if (workspace == 0)
        return CLATTN_SUCCESS;
    run->regions[WORKSPACE] = (struct region){.name = "workspace", .bytes = workspace, .front = FRONT, .updated = 1};
    return region_create(run, &run->regions[WORKSPACE], NULL);
}

static struct arguments device_operands(const struct run *run, const clattn_plan_desc *desc)
{
    const struct region *workspace = &run->regions[WORKSPACE];
    struct arguments operands = check_lengths(desc);

    operands.workspace = (clattn_operand){.buffer = workspace->buffer, .offset = workspace->front};
    for (int id = 1; id < OPERAND_COUNT; id++) {
        clattn_operand *operand = &operands.of[id];
        operand->buffer = run->regions[id].buffer;
        operand->offset = run->regions[id].front;
    }
    return operands;
}

/* The first byte from begin to end that differs from the image, or end. */
static size_t first_change(const struct region *region, const unsigned char *now, size_t begin, size_t end)
{
    if (memcmp(now + begin, region->image + begin, end - begin) == 0)
        return end;
    while (now[begin] == region->image[begin])
        begin++;
    return begin;
}

static clattn_status check_untouched(const struct run *run, const struct region *region, const unsigned char *now,
                                     size_t begin, size_t end)
{
    size_t at = first_change(region, now, begin, end);

    if (at == end)
        return CLATTN_SUCCESS;
    return FAIL(&run->log, DEVICE_ERROR, "%s: byte %lld of %zu was overwritten, outside of what may be written",
                region->name, (long long)at - (long long)region->front, region->bytes);
}

static clattn_status check_written(const struct run *run, const struct region *region, const unsigned char *now)
{
    static const unsigned char poison[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    size_t missing = 0, first = 0;

    for (size_t at = region->bytes; at > 0; at -= region->element) {
        if (memcmp(now + region->front + at - region->element, poison, region->element) != 0)
            continue;
        first = at / region->element - 1;
        missing++;
    }
    if (missing == 0)
        return CLATTN_SUCCESS;
    return FAIL(&run->log, DEVICE_ERROR, "%s: %zu of %zu elements were not written, the first is %zu", region->name,
                missing, region->bytes / region->element, first);
}

static clattn_status check_region(const struct run *run, const struct region *region, const unsigned char *now)
{
    int written = region->output || region->updated;

    if (!written)
        return check_untouched(run, region, now, 0, total(region));
    TRY(check_untouched(run, region, now, 0, region->front));
    TRY(check_untouched(run, region, now, region->front + region->bytes, total(region)));
    return region->output ? check_written(run, region, now) : CLATTN_SUCCESS;
}

/* Reads a region back, checks it, and copies its tensor to `to` unless that is NULL. */
static clattn_status collect(const struct run *run, const struct region *region, void *to)
{
    unsigned char *now = malloc(total(region));
    clattn_status status;

    if (now == NULL)
        return FAIL(&run->log, OUT_OF_MEMORY, "no memory to read %s", region->name);
    status = opencl_read(&run->log, run->cl, run->device->queue, region->buffer, 0, total(region), now);
    if (status == CLATTN_SUCCESS)
        status = check_region(run, region, now);
    if (to != NULL)
        memcpy(to, now + region->front, region->bytes);
    free(now);
    return status;
}

/* Whether byte *at belongs to a tensor. If so, *at moves to the tensor's last byte. */
static int is_reserved(const struct ir_recipe *recipe, int64_t *at)
{
    for (int i = 0; i < recipe->tensor_count; i++) {
        const struct ir_tensor *t = &recipe->tensors[i];
        if (t->home == IR_SCRATCH && *at >= t->at && *at < t->at + t->bytes) {
            *at = t->at + t->bytes - 1;
            return 1;
        }
    }
    return 0;
}

/* Scratch tensors are rounded up. The bytes between them must not change. */
static clattn_status check_gaps(const struct run *run, const clattn_plan *plan)
{
    const struct region *region = &run->regions[WORKSPACE];
    unsigned char *now = malloc(total(region));
    clattn_status status = now != NULL ? CLATTN_SUCCESS : CLATTN_OUT_OF_MEMORY;

    if (status == CLATTN_SUCCESS)
        status = opencl_read(&run->log, run->cl, run->device->queue, region->buffer, 0, total(region), now);
    for (int64_t at = 0; at < plan->bound.ir.bytes[IR_SCRATCH] && status == CLATTN_SUCCESS; at++)
        if (!is_reserved(&plan->bound.ir, &at)) {
            size_t byte = region->front + (size_t)at;
            status = check_untouched(run, region, now, byte, byte + 1);
        }
    free(now);
    return status;
}

/* Where an operand's result goes. NULL: nowhere. */
static void *destination_of(const struct check_tensors *tensors, int id)
{
    if (id == WORKSPACE)
        return NULL;
    return tensors->tensor[id].info.output ? tensors->tensor[id].data : tensors->after[id];
}

/* Checks every region, each with messages of its own. Returns the first failure. */
static clattn_status collect_all(const struct run *run, struct check_tensors *tensors)
{
    clattn_status first = check_copy_updated(tensors);

    for (int id = 0; id < REGIONS; id++) {
        clattn_status status = CLATTN_SUCCESS;
        if (run->regions[id].buffer != NULL)
            status = collect(run, &run->regions[id], destination_of(tensors, id));
        if (first == CLATTN_SUCCESS)
            first = status;
    }
    return first;
}

static clattn_status run_plan(struct run *run, struct check_tensors *tensors, clattn_plan *plan)
{
    struct arguments operands;
    clattn_status status, gaps;
    size_t workspace;

    TRY(clattn_plan_workspace_size(plan, &workspace));
    TRY(create_regions(run, tensors, workspace));
    operands = device_operands(run, &tensors->desc);
    TRY(check_enqueue(plan, run->device->queue, &operands, 0, NULL, NULL));
    TRY_CL(&run->log, run->cl, Finish, run->device->queue);
    status = collect_all(run, tensors);
    gaps = workspace > 0 ? check_gaps(run, plan) : CLATTN_SUCCESS;
    return status != CLATTN_SUCCESS ? status : gaps;
}

clattn_status check_run_plan(struct check_tensors *tensors, struct check_device *device, clattn_plan *plan,
                             clattn_log_fn log, void *log_user)
{
    struct run run = {.cl = opencl_get(), .device = device, .log = {log, log_user}};
    clattn_status status;

    status = run_plan(&run, tensors, plan);
    for (int id = 0; id < REGIONS; id++) {
        if (run.regions[id].buffer != NULL)
            run.cl->ReleaseMemObject(run.regions[id].buffer);
        free(run.regions[id].image);
    }
    return status;
}

clattn_status check_run(struct check_tensors *tensors, struct check_device *device, char *plan_text, size_t text_size,
                        clattn_log_fn log, void *log_user)
{
    clattn_plan *plan;
    clattn_status status = clattn_plan_create(&plan, device->context, &tensors->desc);

    device->plan = (clattn_plan_info){.solver = NULL};
    if (status == CLATTN_SUCCESS)
        status = clattn_plan_get(plan, &device->plan);
    device->plan.tiles_by = NULL;
    if (status == CLATTN_SUCCESS && plan_text != NULL)
        status = clattn_plan_describe(plan, plan_text, text_size);
    if (status == CLATTN_SUCCESS)
        status = check_run_plan(tensors, device, plan, log, log_user);
    clattn_plan_destroy(plan);
    return status;
}
