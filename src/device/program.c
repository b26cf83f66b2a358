#include "device/program.h"

#include "base/system.h"
#include "base/text.h"
#include "device/ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- From source --------------------------------------------------------------------------------------------------
 */

enum { MOST_BUILD_LOG = 4000 };

/* The compiler's messages, of any length and encoding, to be freed. NULL: there are none. */
static char *build_log(clattn_context *context, cl_program program)
{
    const struct opencl *cl = context->device.cl;
    cl_device_id device = context->device.info.device;
    struct text readable = {0};
    size_t size = 0;
    char *raw;

    cl->GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    raw = calloc(1, size + 1);
    if (raw != NULL && cl->GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, raw, NULL) == CL_SUCCESS &&
        raw[0] != '\0')
        text_add_readable(&readable, raw, MOST_BUILD_LOG);
    free(raw);
    return text_take(&readable);
}

/* Logs the compiler's messages with the device's name. */
static void log_refusal(clattn_context *context, const struct log *log, cl_program program, const char *name)
{
    char *said = build_log(context, program);

    if (said != NULL)
        log_line(log, CLATTN_LOG_ERROR, "kernel %s does not build: %s", name, said);
    else
        log_line(log, CLATTN_LOG_ERROR, "kernel %s does not build for %s", name, context->device.info.name);
    free(said);
}

/* Whether the machine failed, as opposed to a compiler that refuses the kernel. */
static int is_transient(cl_int error)
{
    return error == CL_OUT_OF_HOST_MEMORY || error == CL_OUT_OF_RESOURCES || error == CL_DEVICE_NOT_AVAILABLE ||
           error == CL_MEM_OBJECT_ALLOCATION_FAILURE;
}

/* Logs a failed build and returns its status. */
static clattn_status status_of_build(clattn_context *context, const struct log *log, cl_program program,
                                     const char *name, cl_int error)
{
    if (is_transient(error))
        return opencl_failed(log, error, "clBuildProgram of kernel %s", name);
    log_refusal(context, log, program, name);
    return CLATTN_BUILD_FAILED;
}

/* Builds twice if necessary. Some drivers' own program caches are not safe for several processes: in PoCL 3.1 a build
 * fails if another process replaces the same file meanwhile. The second attempt finds the complete file. */
static clattn_status build(clattn_context *context, const struct log *log, struct program *entry)
{
    enum { ATTEMPTS = 2 };
    const struct opencl *cl = context->device.cl;
    const char *source = entry->source;
    clattn_status status = CLATTN_SUCCESS;
    cl_int error = CL_SUCCESS;

    for (int attempt = 1; attempt <= ATTEMPTS; attempt++) {
        entry->program = cl->CreateProgramWithSource(context->cl, 1, &source, NULL, &error);
        if (entry->program == NULL)
            return opencl_failed(log, error, "clCreateProgramWithSource of kernel %s", entry->name);
        error = cl->BuildProgram(entry->program, 1, &context->device.info.device, entry->options, NULL, NULL);
        if (error == CL_SUCCESS)
            break;
        if (attempt == ATTEMPTS)
            status = status_of_build(context, log, entry->program, entry->name, error);
        cl->ReleaseProgram(entry->program);
        entry->program = NULL;
    }
    return status;
}

/* ---- From and to binaries ------------------------------------------------------------------------------------------
 */

/* NULL, without a message: the driver does not accept the binary. */
static cl_program from_binary(const clattn_context *context, const struct program *entry, const unsigned char *binary,
                              size_t size)
{
    const struct opencl *cl = context->device.cl;
    cl_device_id device = context->device.info.device;
    cl_int error = CL_SUCCESS;
    cl_program program = cl->CreateProgramWithBinary(context->cl, 1, &device, &size, &binary, NULL, &error);

    if (program != NULL && cl->BuildProgram(program, 1, &device, entry->options, NULL, NULL) != CL_SUCCESS) {
        cl->ReleaseProgram(program);
        program = NULL;
    }
    return program;
}

/* The index of the context's device among the program's devices. -1: there are too many to tell. */
static int device_index(const clattn_context *context, cl_program program, size_t *count)
{
    enum { MOST = 16 };
    cl_device_id devices[MOST];
    size_t bytes = 0;

    if (context->device.cl->GetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof devices, devices, &bytes) != CL_SUCCESS)
        return -1;
    *count = bytes / sizeof *devices;
    for (size_t i = 0; i < *count; i++)
        if (devices[i] == context->device.info.device)
            return (int)i;
    return -1;
}

/* The binary for the device, to be freed. NULL: the driver has none. The other devices' binaries are not queried. */
static unsigned char *get_binary(const clattn_context *context, cl_program program, size_t *size)
{
    const struct opencl *cl = context->device.cl;
    size_t count = 0, sizes[16] = {0};
    unsigned char *binaries[16] = {NULL};
    int index = device_index(context, program, &count);

    if (index < 0 || cl->GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL) != CL_SUCCESS ||
        sizes[index] == 0)
        return NULL;
    *size = sizes[index];
    binaries[index] = malloc(*size);
    if (binaries[index] != NULL &&
        cl->GetProgramInfo(program, CL_PROGRAM_BINARIES, count * sizeof *binaries, binaries, NULL) != CL_SUCCESS) {
        free(binaries[index]);
        return NULL;
    }
    return binaries[index];
}

/* Replaces the program by one whose hidden instructions are active. */
static clattn_status uncover(const clattn_context *context, struct program *entry)
{
    size_t size = 0, uncovered = 0;
    unsigned char *binary = get_binary(context, entry->program, &size);
    unsigned char *whole = binary != NULL ? ptx_uncover(binary, size, &uncovered) : NULL;

    context->device.cl->ReleaseProgram(entry->program);
    entry->program = whole != NULL ? from_binary(context, entry, whole, uncovered) : NULL;
    free(whole);
    free(binary);
    return entry->program != NULL ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* ---- From and to the cache ----------------------------------------------------------------------------------------
 */

struct hash program_device_hash(const clattn_context *context)
{
    const struct device *device = &context->device;
    const char *const parts[] = {clattn_version(),     device->info.name,     device->info.driver,
                                 device->info.version, device->info.platform, device->platform_version};
    struct hash hash = {0, 0};

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash = hash_text(hash, parts[i]);
    return hash;
}

static struct hash program_key(const clattn_context *context, const struct program *entry)
{
    return hash_text(hash_text(program_device_hash(context), entry->options), entry->source);
}

static cl_program from_cache(clattn_context *context, const struct program *entry)
{
    size_t size = 0;
    unsigned char *binary = cache_load(&context->cache, program_key(context, entry), &size);
    cl_program program = binary != NULL ? from_binary(context, entry, binary, size) : NULL;

    free(binary);
    return program;
}

static void to_cache(clattn_context *context, const struct program *entry)
{
    char label[CACHE_LABEL];
    size_t size = 0;
    unsigned char *binary = get_binary(context, program_cl(context, entry), &size);

    if (binary == NULL)
        return;
    snprintf(label, sizeof label, "kernel %.30s, %.90s, %.60s", entry->name, context->device.info.name,
             context->device.info.driver);
    cache_store(&context->cache, program_key(context, entry), label, binary, size);
    free(binary);
}

/* Compilers take most of the time until a first plan is there: a line a kernel shows what it goes into. */
static void report_build(const clattn_context *context, const struct program *entry, double seconds)
{
    const long long ms = (long long)(1e3 * seconds + 0.5);

    log_line(&context->log, CLATTN_LOG_INFO, "kernel %s compiled in %lld ms", entry->name, ms);
    if (context->verbose)
        fprintf(stderr, "clattn: kernel %s compiled in %lld ms\n", entry->name, ms);
}

static clattn_status build_from_source(clattn_context *context, const struct log *log, struct program *entry)
{
    const double begin = now_seconds();

    entry->uncached = 1;
    TRY(build(context, log, entry));
    report_build(context, entry, now_seconds() - begin);
    return ptx_hides(entry->source) ? uncover(context, entry) : CLATTN_SUCCESS;
}

static clattn_status build_cached(clattn_context *context, const struct log *log, struct program *entry)
{
    entry->program = cache_enabled(&context->cache) ? from_cache(context, entry) : NULL;
    entry->cached = entry->program != NULL;
    return entry->cached ? CLATTN_SUCCESS : build_from_source(context, log, entry);
}

/* ---- The context's programs ---------------------------------------------------------------------------------------
 */

static struct program *find_program(clattn_context *context, const char *source, const char *options)
{
    struct program *entry = context->programs;

    while (entry != NULL && (strcmp(entry->source, source) != 0 || strcmp(entry->options, options) != 0))
        entry = entry->next;
    return entry;
}

/* Adds the entry at the front of the list, held by the caller. If another thread has added the same program meanwhile,
 * returns that one, and the caller keeps the given entry. */
static struct program *add_program(clattn_context *context, struct program *entry)
{
    struct program *other;

    lock_take(&context->lock);
    context->built++;
    other = find_program(context, entry->source, entry->options);
    if (other == NULL) {
        entry->next = context->programs;
        context->programs = other = entry;
    }
    other->holders++;
    lock_give(&context->lock);
    return other;
}

unsigned program_count(clattn_context *context)
{
    unsigned count;

    lock_take(&context->lock);
    count = context->built;
    lock_give(&context->lock);
    return count;
}

static void free_program(const clattn_context *context, struct program *entry)
{
    if (entry->program != NULL)
        context->device.cl->ReleaseProgram(entry->program);
    if (entry->broken != NULL)
        context->device.cl->ReleaseProgram(entry->broken);
    free(entry->source);
    free(entry);
}

/* Takes ownership of source. The lock is not held: compilers take long, and callbacks may call the library. */
static clattn_status make_program(clattn_context *context, const struct log *log, char *source, const char *name,
                                  const char *options, struct program **program)
{
    struct program *entry = calloc(1, sizeof *entry), *added = NULL;
    clattn_status status = CLATTN_OUT_OF_MEMORY;

    if (entry == NULL) {
        free(source);
        return status;
    }
    *entry = (struct program){.source = source, .name = name};
    snprintf(entry->options, sizeof entry->options, "%s", options);
    status = build_cached(context, log, entry);
    if (status == CLATTN_SUCCESS)
        added = add_program(context, entry);
    if (added != entry)
        free_program(context, entry);
    *program = added;
    return status;
}

clattn_status program_get(clattn_context *context, const struct log *log, char *source, const char *name,
                          const char *options, struct program **program)
{
    lock_take(&context->lock);
    *program = find_program(context, source, options);
    if (*program != NULL)
        (*program)->holders++;
    lock_give(&context->lock);
    if (*program == NULL)
        return make_program(context, log, source, name, options, program);
    free(source);
    return CLATTN_SUCCESS;
}

/* ---- Programs from the cache that cannot be run
 * ------------------------------------------------------------------- */

cl_program program_cl(clattn_context *context, const struct program *program)
{
    cl_program cl;

    lock_take(&context->lock);
    cl = program->program;
    lock_give(&context->lock);
    return cl;
}

/* Whether the caller must renew the program. *renewed: another thread has done so. */
static int begin_renewal(clattn_context *context, struct program *program, cl_program from, int *renewed)
{
    int mine;

    lock_take(&context->lock);
    *renewed = program->program != from;
    mine = !*renewed && program->cached;
    if (mine)
        program->cached = 0;
    lock_give(&context->lock);
    return mine;
}

clattn_status program_renew(clattn_context *context, struct program *program, cl_program from)
{
    struct program fresh = {.source = program->source, .name = program->name};
    int renewed;

    if (!begin_renewal(context, program, from, &renewed))
        return renewed ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
    log_line(&context->log, CLATTN_LOG_WARNING, "kernel %s of the cache cannot be run on %s: it is built again",
             program->name, context->device.info.name);
    memcpy(fresh.options, program->options, sizeof fresh.options);
    cache_remove(&context->cache, program_key(context, program));
    TRY(build_from_source(context, &context->log, &fresh));
    lock_take(&context->lock);
    program->broken = program->program; /* another thread may be creating a kernel from it */
    program->program = fresh.program;
    program->uncached = 1;
    lock_give(&context->lock);
    return CLATTN_SUCCESS;
}

/* ---- Holding and releasing programs
 * ------------------------------------------------------------------------------- */

/* The pointer in the list that leads to the entry. */
static struct program **place_of(clattn_context *context, const struct program *entry)
{
    struct program **place = &context->programs;

    while (*place != entry)
        place = &(*place)->next;
    return place;
}

/* If more programs are unheld than the context keeps, removes the one that was released first from the list. Else
 * NULL. */
static struct program *remove_surplus(clattn_context *context)
{
    struct program **place = &context->programs, *surplus;
    int unheld = 0;

    while (*place != NULL && (unheld += (*place)->holders == 0) <= context->most_unheld)
        place = &(*place)->next;
    surplus = *place;
    if (surplus != NULL)
        *place = surplus->next;
    return surplus;
}

void program_release(clattn_context *context, struct program *program)
{
    struct program *surplus = NULL;

    lock_take(&context->lock);
    if (--program->holders == 0) {
        *place_of(context, program) = program->next;
        program->next = context->programs;
        context->programs = program;
        surplus = remove_surplus(context);
    }
    lock_give(&context->lock);
    if (surplus != NULL)
        free_program(context, surplus);
}

void program_free_all(clattn_context *context)
{
    while (context->programs != NULL) {
        struct program *next = context->programs->next;
        free_program(context, context->programs);
        context->programs = next;
    }
}

/* ---- Storing programs in the cache
 * -------------------------------------------------------------------------------- */

/* The next program that is not in the cache and that no other thread is storing; it is held for the caller. NULL: there
 * are no more. */
static struct program *next_uncached(clattn_context *context)
{
    struct program *entry;

    lock_take(&context->lock);
    entry = context->programs;
    while (entry != NULL && !entry->uncached)
        entry = entry->next;
    if (entry != NULL) {
        entry->uncached = 0;
        entry->holders++;
    }
    lock_give(&context->lock);
    return entry;
}

void program_keep(clattn_context *context)
{
    struct program *entry;

    while (cache_enabled(&context->cache) && (entry = next_uncached(context)) != NULL) {
        to_cache(context, entry);
        program_release(context, entry);
    }
}
