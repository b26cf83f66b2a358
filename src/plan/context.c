#include "device/context.h"

#include "base/file.h"
#include "base/sized.h"
#include "base/system.h"
#include "base/text.h"
#include "device/program.h"
#include "tune/device_facts.h"
#include "tune/tuning_layers.h"
#include "tune/tuning_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The one device of a caller's context. */
static clattn_status find_device(const clattn_context *context, cl_context owner, cl_device_id *id)
{
    const struct opencl *cl = opencl_get();
    size_t bytes = 0;

    TRY_CL(&context->log, cl, GetContextInfo, owner, CL_CONTEXT_DEVICES, 0, NULL, &bytes);
    if (bytes != sizeof *id)
        return FAIL(&context->log, INVALID_ARGUMENT,
                    "the context has %zu devices, expected one or a device in the desc", bytes / sizeof *id);
    TRY_CL(&context->log, cl, GetContextInfo, owner, CL_CONTEXT_DEVICES, sizeof *id, id, NULL);
    return CLATTN_SUCCESS;
}

/* Whether the caller's context was made for the device. */
static clattn_status check_member(const clattn_context *context, cl_context owner, cl_device_id id)
{
    const struct opencl *cl = context->device.cl;
    cl_device_id ids[64];
    size_t bytes = 0;

    TRY_CL(&context->log, cl, GetContextInfo, owner, CL_CONTEXT_DEVICES, sizeof ids, ids, &bytes);
    for (size_t i = 0; i < bytes / sizeof *ids; i++)
        if (ids[i] == id)
            return CLATTN_SUCCESS;
    return FAIL(&context->log, INVALID_ARGUMENT, "%s is not one of the context's devices", context->device.info.name);
}

/* Uses the caller's OpenCL context. */
static clattn_status open_given(clattn_context *context, const clattn_context_desc *desc)
{
    cl_device_id id = desc->device;

    if (id == NULL)
        TRY(find_device(context, desc->cl, &id));
    TRY(device_init(&context->device, id, &context->log));
    TRY(check_member(context, desc->cl, id));
    TRY_CL(&context->log, context->device.cl, RetainContext, desc->cl);
    context->cl = desc->cl;
    return CLATTN_SUCCESS;
}

/* Creates an OpenCL context for the device. */
static clattn_status open_device(clattn_context *context, cl_device_id id, const struct log *log)
{
    cl_int error;

    TRY(device_init(&context->device, id, log));
    context->cl = context->device.cl->CreateContext(NULL, 1, &id, NULL, NULL, &error);
    return context->cl != NULL ? CLATTN_SUCCESS : opencl_failed(log, error, "clCreateContext");
}

/* Uses the first of the devices on which a context can be created. */
static clattn_status open_first(clattn_context *context, const clattn_device_info *infos, size_t count)
{
    clattn_status status = CLATTN_NO_DEVICE;

    if (count == 0)
        return FAIL(&context->log, NO_DEVICE, "OpenCL lists no device");
    for (size_t i = 0; i < count && infos[i].unusable == NULL; i++) {
        struct log_held held = {.line = ""};
        clattn_status now = open_device(context, infos[i].device, &(struct log){log_hold, &held});
        if (now == CLATTN_SUCCESS)
            return CLATTN_SUCCESS;
        log_line(&context->log, CLATTN_LOG_WARNING, "%s is passed over: %s", infos[i].name, held.line);
        status = i == 0 ? now : status;
    }
    log_line(&context->log, CLATTN_LOG_ERROR, "none of %zu OpenCL devices can be used; %s: %s", count, infos[0].name,
             infos[0].unusable != NULL ? infos[0].unusable : "no context can be made of it");
    return status;
}

static clattn_status open_best(clattn_context *context)
{
    enum { MOST_DEVICES = 64 };
    clattn_device_info *infos = calloc(MOST_DEVICES, sizeof *infos);
    clattn_status status = CLATTN_OUT_OF_MEMORY;
    size_t count = 0;

    if (infos != NULL)
        status = clattn_devices(infos, MOST_DEVICES, &count);
    if (status == CLATTN_SUCCESS)
        status = open_first(context, infos, count < MOST_DEVICES ? count : MOST_DEVICES);
    free(infos);
    return status;
}

static clattn_status open_context(clattn_context *context, const clattn_context_desc *desc)
{
    if (opencl_get() == NULL)
        return FAIL(&context->log, NO_OPENCL, "the OpenCL library cannot be opened");
    if (desc->cl != NULL)
        return open_given(context, desc);
    return desc->device != NULL ? open_device(context, desc->device, &context->log) : open_best(context);
}

/* A variable of the environment; NULL if the context is isolated from it. */
static const char *variable(const clattn_context_desc *desc, const char *name)
{
    return desc->flags & CLATTN_ISOLATED ? NULL : getenv(name);
}

/* Replaces the device's limits by those of another device, to see the plans that it would get. */
static clattn_status override_device_facts(clattn_context *context, const clattn_context_desc *desc)
{
    const char *path = variable(desc, "CLATTN_DEVICE_FACTS");

    return path != NULL && *path != '\0' ? device_facts_read(path, &context->device, &context->log) : CLATTN_SUCCESS;
}

/* The path of the file of measured parameters, to be freed. NULL: there is no file. "": use neither a file nor the
 * parameters that come with the library. */
static clattn_status tuning_path(const clattn_context_desc *desc, char **path)
{
    const char *named = desc->tuning != NULL ? desc->tuning : variable(desc, "CLATTN_TUNING");

    *path = NULL;
    if (named == NULL) {
        if (!(desc->flags & CLATTN_ISOLATED))
            *path = tuning_user_path();
        return CLATTN_SUCCESS;
    }
    *path = text_copy(named);
    return *path != NULL ? CLATTN_SUCCESS : CLATTN_OUT_OF_MEMORY;
}

/* An empty value turns the self-test off, as it does with the other variables. */
static clattn_status choose_self_test(clattn_context *context, const clattn_context_desc *desc)
{
    const char *test = variable(desc, "CLATTN_SELF_TEST");
    int off = test != NULL && (*test == '\0' || strcmp(test, "0") == 0);

    context->self_test = desc->self_test != 0 ? desc->self_test > 0 : !off;
    if (desc->self_test == 0 && test != NULL && !off && strcmp(test, "1") != 0)
        return FAIL(&context->log, INVALID_ARGUMENT, "CLATTN_SELF_TEST is '%s', expected 0 or 1", test);
    return CLATTN_SUCCESS;
}

static clattn_status choose_verbose(clattn_context *context, const clattn_context_desc *desc)
{
    const char *verbose = variable(desc, "CLATTN_VERBOSE");

    if (verbose == NULL || *verbose == '\0' || strcmp(verbose, "0") == 0)
        return CLATTN_SUCCESS;
    context->verbose = 1;
    if (strcmp(verbose, "1") != 0)
        return FAIL(&context->log, INVALID_ARGUMENT, "CLATTN_VERBOSE is '%s', expected 0 or 1", verbose);
    return CLATTN_SUCCESS;
}

static clattn_status choose_clblast(clattn_context *context, const clattn_context_desc *desc)
{
    const char *name = desc->clblast != NULL ? desc->clblast : variable(desc, "CLATTN_CLBLAST");

    context->clblast_name = name != NULL ? text_copy(name) : NULL;
    return name == NULL || context->clblast_name != NULL ? CLATTN_SUCCESS : CLATTN_OUT_OF_MEMORY;
}

/* A folder that the application names and that cannot be written to: all works without it, but slowly. */
static void note_cache_dir(const clattn_context *context, const clattn_context_desc *desc)
{
    char *entry = desc->cache_dir != NULL ? file_join(context->cache.folder, "entry") : NULL;

    if (entry != NULL && (file_make_folders(entry) != 0 || !file_writable(context->cache.folder)))
        log_line(&context->log, CLATTN_LOG_INFO, "%s: compiled programs cannot be kept there: %s",
                 context->cache.folder, strerror(errno));
    free(entry);
}

/* Reads what lies outside of the process: cached programs, measured parameters, variables of the environment. */
static clattn_status read_environment(clattn_context *context, const clattn_context_desc *desc)
{
    char *path;

    TRY(choose_self_test(context, desc));
    TRY(choose_verbose(context, desc));
    TRY(choose_clblast(context, desc));
    context->tuning = calloc(1, sizeof *context->tuning);
    if (context->tuning == NULL)
        return CLATTN_OUT_OF_MEMORY;
    TRY(tuning_path(desc, &path));
    tuning_layers_load(context->tuning, path, desc->tuning != NULL || variable(desc, "CLATTN_TUNING") != NULL,
                       &context->device, &context->log);
    TRY(cache_init(&context->cache, desc));
    note_cache_dir(context, desc);
    return CLATTN_SUCCESS;
}

/* The engine asked for, or the device's own. */
static clattn_status choose_engine(clattn_context *context, const clattn_context_desc *desc)
{
    const char *name = desc->engine != NULL ? desc->engine : variable(desc, "CLATTN_ENGINE");

    if (name == NULL) {
        context->engine = engine_of(&context->device);
        return CLATTN_SUCCESS;
    }
    context->engine = engine_get(name);
    if (context->engine == NULL && *name != '\0' && strcmp(name, "none") != 0)
        return FAIL(&context->log, INVALID_ARGUMENT, "no matrix engine is named %s; there are %s", name,
                    engine_names());
    return CLATTN_SUCCESS;
}

/* Fills a zeroed context. */
static clattn_status fill(clattn_context *context, const clattn_context_desc *desc, size_t desc_size)
{
    clattn_context_desc ours = {.cl = NULL};
    int known = desc == NULL || sized_read(&ours, sizeof ours, desc, desc_size);

    context->log = (struct log){ours.log, ours.log_user};
    context->most_unheld = MOST_UNHELD;
    lock_init(&context->lock);
    lock_init(&context->probe_lock);
    if (!known)
        return FAIL(&context->log, INVALID_DESC, "the context's desc has fields that this library (%s) does not know",
                    clattn_version());
    if (ours.flags & ~(uint32_t)CLATTN_ISOLATED)
        return FAIL(&context->log, INVALID_DESC, "the context's flags have unknown bits: 0x%x", (unsigned)ours.flags);
    if (ours.self_test < -1 || ours.self_test > 1)
        return FAIL(&context->log, INVALID_DESC, "self_test is %d, expected -1, 0 or 1", (int)ours.self_test);
    TRY(open_context(context, &ours));
    TRY(choose_engine(context, &ours));
    TRY(override_device_facts(context, &ours));
    return read_environment(context, &ours);
}

clattn_status clattn_context_create_sized(clattn_context **context, const clattn_context_desc *desc, size_t desc_size)
{
    clattn_status status;

    if (context == NULL)
        return CLATTN_INVALID_ARGUMENT;
    *context = calloc(1, sizeof **context);
    if (*context == NULL)
        return CLATTN_OUT_OF_MEMORY;
    status = fill(*context, desc, desc_size);
    if (status != CLATTN_SUCCESS) {
        clattn_context_destroy(*context);
        *context = NULL;
    }
    return status;
}

void clattn_context_destroy(clattn_context *context)
{
    if (context == NULL)
        return;
    program_free_all(context);
    if (context->cl != NULL)
        context->device.cl->ReleaseContext(context->cl);
    cache_free(&context->cache);
    if (context->tuning != NULL)
        tuning_layers_free(context->tuning);
    free(context->tuning);
    free(context->clblast_name);
    free(context->clblast);
    free(context->verdicts);
    lock_destroy(&context->probe_lock);
    lock_destroy(&context->lock);
    free(context);
}

clattn_status clattn_context_get(const clattn_context *context, cl_context *cl, cl_device_id *device)
{
    if (context == NULL)
        return CLATTN_INVALID_ARGUMENT;
    if (cl != NULL)
        *cl = context->cl;
    if (device != NULL)
        *device = context->device.info.device;
    return CLATTN_SUCCESS;
}

clattn_status clattn_context_set_tuning(clattn_context *context, const char *json)
{
    struct tuning_table table = {NULL, 0};
    char why[96], all[160];
    int left_out;

    if (context == NULL || json == NULL)
        return CLATTN_INVALID_ARGUMENT;
    left_out = tuning_table_parse(&table, json, context->device.info.name, why, sizeof why);
    if (left_out != 0) {
        tuning_table_free(&table);
        if (left_out > 0)
            snprintf(all, sizeof all, "has %d entries that are not understood: %s", left_out, why);
        return FAIL(&context->log, INVALID_ARGUMENT, "the tuning text %s", left_out > 0 ? all : why);
    }
    tuning_table_free(&context->tuning->tables[LAYER_APPLICATION]);
    context->tuning->tables[LAYER_APPLICATION] = table;
    return CLATTN_SUCCESS;
}

clattn_status context_buffer_size(const clattn_context *context, cl_mem buffer, const char *name, clattn_status refused,
                                  size_t *bytes)
{
    const struct opencl *cl = context->device.cl;
    cl_context owner = NULL;

    TRY_CL(&context->log, cl, GetMemObjectInfo, buffer, CL_MEM_CONTEXT, sizeof owner, &owner, NULL);
    if (owner != context->cl) {
        log_line(&context->log, CLATTN_LOG_ERROR, "%s: its buffer belongs to another context than the plan", name);
        return refused;
    }
    TRY_CL(&context->log, cl, GetMemObjectInfo, buffer, CL_MEM_SIZE, sizeof *bytes, bytes, NULL);
    return CLATTN_SUCCESS;
}

static struct verdict *find_verdict(clattn_context *context, struct hash key)
{
    for (size_t i = 0; i < context->verdict_count && i < MOST_VERDICTS; i++)
        if (context->verdicts[i].key.high == key.high && context->verdicts[i].key.low == key.low)
            return &context->verdicts[i];
    return NULL;
}

int context_verdict(clattn_context *context, struct hash key)
{
    const struct verdict *verdict;
    int passed = 0;

    lock_take(&context->lock);
    verdict = find_verdict(context, key);
    if (verdict != NULL)
        passed = verdict->passed;
    lock_give(&context->lock);
    return passed;
}

/* Replaces the oldest verdict if there is no room for another. */
static void add_verdict(clattn_context *context, struct verdict verdict)
{
    const size_t count = context->verdict_count;
    struct verdict *all = context->verdicts;

    if (count < MOST_VERDICTS)
        all = realloc(all, (count + 1) * sizeof *all);
    if (all == NULL)
        return;
    context->verdicts = all;
    all[count % MOST_VERDICTS] = verdict;
    context->verdict_count++;
}

void context_set_verdict(clattn_context *context, struct hash key, int passed)
{
    lock_take(&context->lock);
    if (find_verdict(context, key) == NULL)
        add_verdict(context, (struct verdict){key, passed});
    lock_give(&context->lock);
}
