#include "cli/device/target.h"

#include "base/file.h"
#include "base/system.h"
#include "base/text.h"
#include "base/thread.h"
#include "device/cache.h"
#include "device/context.h"
#include "op/rule.h"
#include "tuner/buffers.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEVICES = 64 };

/* strstr that ignores case */
static int contains(const char *text, const char *part)
{
    size_t length = strlen(part);

    for (; *text != '\0'; text++) {
        size_t i = 0;
        while (i < length && text[i] != '\0' && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
            i++;
        if (i == length)
            return 1;
    }
    return 0;
}

static int is_index(const char *spec)
{
    return *spec != '\0' && spec[strspn(spec, "0123456789")] == '\0';
}

static int list_devices(const char *spec, const char *why, const clattn_device_info *infos, const int *listed,
                        size_t count)
{
    struct text text = {0};
    char *list;

    for (size_t i = 0; i < count; i++)
        if (listed == NULL || listed[i])
            text_format(&text, "%s%zu: %s (%s)", text.size > 0 ? ", " : "", i, infos[i].name, infos[i].platform);
    list = text_take(&text);
    bad("--device '%s' %s: %s", spec, why, list != NULL ? list : "there is no OpenCL device");
    free(list);
    return EXIT_BAD;
}

static int same_device(const clattn_device_info *a, const clattn_device_info *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->platform, b->platform) == 0;
}

static int choose_device(const char *spec, const clattn_device_info *infos, size_t count, size_t *chosen)
{
    int matches[MAX_DEVICES] = {0}, found = 0, same = 1;

    if (is_index(spec)) {
        unsigned long long index = strtoull(spec, NULL, 10);
        if (index >= count)
            return list_devices(spec, "is not an index of", infos, NULL, count);
        *chosen = (size_t)index;
        return EXIT_OK;
    }
    for (size_t i = 0; i < count; i++) {
        matches[i] = contains(infos[i].name, spec) || contains(infos[i].platform, spec);
        if (matches[i] && found++ == 0)
            *chosen = i;
        if (matches[i])
            same = same && same_device(&infos[i], &infos[*chosen]);
    }
    if (found == 0)
        return list_devices(spec, "matches none of", infos, NULL, count);
    return same ? EXIT_OK : list_devices(spec, "matches several of", infos, matches, count);
}

static int use_reference(struct target *target)
{
    target->reference = 1;
    return EXIT_OK;
}

static int has_device(const struct opencl *cl, cl_platform_id platform)
{
    cl_uint count = 0;

    return cl->GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count) == CL_SUCCESS && count > 0;
}

void target_note_platforms(void)
{
    const struct opencl *cl = opencl_get();
    cl_platform_id platforms[MAX_DEVICES];
    cl_uint count = 0;

    if (cl == NULL || cl->GetPlatformIDs(MAX_DEVICES, platforms, &count) != CL_SUCCESS)
        return;
    for (cl_uint i = 0; i < count && i < MAX_DEVICES; i++) {
        char name[128] = "";
        if (has_device(cl, platforms[i]))
            continue;
        cl->GetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        note("OpenCL platform %s has no device%s", name,
             strcmp(name, "Portable Computing Language") == 0
                 ? ": PoCL needs a folder that it can write to, and POCL_CACHE_DIR names one"
                 : "");
    }
}

int target_find(struct target *target, const char *spec)
{
    clattn_device_info infos[MAX_DEVICES];
    size_t count = 0, chosen = 0;
    clattn_status status;

    memset(target, 0, sizeof *target);
    if (spec != NULL && *spec == '\0')
        return bad("--device is empty, expected an index from `clattn devices`, a part of a name, or reference");
    if (spec != NULL && strcmp(spec, "reference") == 0)
        return use_reference(target);
    status = clattn_devices(infos, MAX_DEVICES, &count);
    if (count > MAX_DEVICES)
        count = MAX_DEVICES;
    if (spec == NULL && count == 0) {
        warn("%s, using the reference on the CPU",
             clattn_status_text(status == CLATTN_SUCCESS ? CLATTN_NO_DEVICE : status));
        target_note_platforms();
        return use_reference(target);
    }
    if (spec == NULL && infos[0].unusable != NULL) {
        warn("%s cannot be used: %s; using the reference on the CPU", infos[0].name, infos[0].unusable);
        return use_reference(target);
    }
    if (spec != NULL && choose_device(spec, infos, count, &chosen) != EXIT_OK)
        return EXIT_BAD;
    target->info = infos[chosen];
    target->named = spec != NULL;
    return EXIT_OK;
}

int target_open_found(struct target *target)
{
    cl_device_id id = target->named ? target->info.device : NULL;
    clattn_status status;

    if (target->ranks != NULL)
        return target->ranks->open(target->ranks, target);
    status = check_device_open(&target->device, id, sink_log, &target->sink);
    if (status != CLATTN_SUCCESS)
        return library_error(&target->sink, target->info.name, status);
    if (target->device.device != target->info.device)
        target->info = target->device.context->device.info;
    return EXIT_OK;
}

int target_open(struct target *target, const char *spec)
{
    int status = target_find(target, spec);

    return status != EXIT_OK || target->reference ? status : target_open_found(target);
}

int target_find_of(struct target *target, const struct settings *settings)
{
    int status = target_find(target, settings->device);

    target->ranks = settings->ranks;
    if (status == EXIT_OK && target->ranks != NULL && target->reference)
        status = bad("--split needs an OpenCL device");
    return ranks_agree(target->ranks, status);
}

int target_open_of(struct target *target, const struct settings *settings)
{
    int status = target_find_of(target, settings);

    return status != EXIT_OK || target->reference ? status : target_open_found(target);
}

int target_fits(struct target *target, const clattn_plan_desc *desc)
{
    const clattn_context *context = target->device.context;
    const struct log log = {sink_log, &target->sink};
    clattn_status status;

    if (target->reference || target->ranks != NULL) /* of which each has a part */
        return EXIT_OK;
    target->sink.error[0] = '\0';
    status = buffers_fit(context != NULL ? &context->device.info : &target->info, desc, 0, &log);
    return status == CLATTN_SUCCESS ? EXIT_OK : library_error(&target->sink, rule_get(desc->rule)->name, status);
}

int target_keeps_programs(void)
{
    char *folder = cache_folder(), *entry = file_join(folder, "entry");
    int keeps = entry != NULL && file_make_folders(entry) == 0 && file_writable(folder);

    free(entry);
    free(folder);
    return keeps;
}

void target_note_cache(const struct target *target, const struct settings *settings)
{
    char *folder = settings->verbose && !target->reference ? cache_folder() : NULL;
    char *entry = file_join(folder, "entry");

    if (entry != NULL && (file_make_folders(entry) != 0 || !file_writable(folder)))
        note("%s: compiled programs cannot be kept there: %s", folder, strerror(errno));
    free(entry);
    free(folder);
}

void target_close(struct target *target)
{
    if (target->ranks != NULL)
        target->ranks->close(target->ranks, target);
    else if (target->device.context != NULL)
        check_device_close(&target->device);
    memset(target, 0, sizeof *target);
}

/* Each process compiles on one core and takes some of the device's memory. */
size_t target_processes(const struct target *target, int64_t asked)
{
    enum { MOST_OF_GPU = 16 };
    uint64_t cores = (uint64_t)core_count(), memory = target->info.global_memory >> 30, jobs;

    if (asked > 0 || target->reference)
        return asked > 0 ? (size_t)asked : 1;
    jobs = memory < cores ? memory : cores;
    jobs = target->info.gpu && jobs > MOST_OF_GPU ? MOST_OF_GPU : jobs;
    return jobs > 0 ? (size_t)jobs : 1;
}

/* On a CPU a plan uses all cores: while it is timed, no other process may run. */
size_t target_jobs(const struct target *target, int64_t asked)
{
    return asked == 0 && !target->info.gpu ? 1 : target_processes(target, asked);
}

const char *target_name(const struct target *target)
{
    return target->reference ? "reference" : target->info.name;
}

static clattn_status enqueue(struct target *target, const struct buffers *buffers, clattn_plan *plan,
                             const clattn_plan_desc *desc)
{
    const struct log log = {sink_log, &target->sink};
    struct arguments operands = buffers_operands(buffers, 0, desc);
    double begin = now_seconds();

    TRY(check_enqueue(plan, target->device.queue, &operands, 0, NULL, NULL));
    TRY_CL(&log, opencl_get(), Finish, target->device.queue);
    target->run_seconds = now_seconds() - begin;
    return CLATTN_SUCCESS;
}

static clattn_status run_plan(struct target *target, struct check_tensors *tensors, clattn_plan *plan)
{
    struct buffers buffers;
    size_t workspace;
    clattn_status status;

    TRY(clattn_plan_workspace_size(plan, &workspace));
    TRY(buffers_fit(&target->device.context->device.info, &tensors->desc, workspace,
                    &(struct log){sink_log, &target->sink}));
    status = buffers_create(&buffers, &target->device, tensors, 1, 0, workspace, sink_log, &target->sink);
    if (status == CLATTN_SUCCESS)
        status = buffers_write(&buffers, 0, tensors);
    if (status == CLATTN_SUCCESS)
        status = enqueue(target, &buffers, plan, &tensors->desc);
    if (status == CLATTN_SUCCESS)
        status = buffers_read(&buffers, 0, tensors);
    buffers_destroy(&buffers);
    return status;
}

static clattn_status run_reference(struct target *target, struct check_tensors *tensors)
{
    double begin = now_seconds();
    struct arguments operands;
    clattn_status status;

    TRY(check_updatable_operands(&operands, tensors));
    status = check_compute(&tensors->desc, &operands, sink_log, &target->sink);
    target->run_seconds = now_seconds() - begin;
    return status;
}

clattn_status target_run(struct target *target, struct check_tensors *tensors, char *plan_text, size_t text_size)
{
    double begin = now_seconds();
    clattn_plan_info info;
    clattn_plan *plan;
    clattn_status status;

    if (target->ranks != NULL)
        return target->ranks->run(target->ranks, target, tensors, plan_text, text_size);
    target->sink.error[0] = '\0';
    target->solver = "reference";
    target->phase = target->reference ? "computing" : "compiling";
    snprintf(plan_text, text_size, "reference");
    if (target->reference)
        return run_reference(target, tensors);
    status = clattn_plan_create(&plan, target->device.context, &tensors->desc);
    target->plan_seconds = now_seconds() - begin;
    target->phase = "running";
    if (status == CLATTN_SUCCESS)
        status = clattn_plan_describe(plan, plan_text, text_size);
    if (status == CLATTN_SUCCESS && clattn_plan_get(plan, &info) == CLATTN_SUCCESS)
        target->solver = info.solver;
    if (status == CLATTN_SUCCESS)
        status = run_plan(target, tensors, plan);
    clattn_plan_destroy(plan);
    return status;
}
