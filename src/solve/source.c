/* The source of a step, and the kernel built from it. */
#include "solve/kernel_step.h"

#include "base/text.h"
#include "device/engine.h"
#include "device/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Source: constants, then the headers that define the words, then the kernel -------------------------- */

/* FILE_COUNT for a name that no file has */
static enum embedded_file find_file(const char *name, size_t length)
{
    enum embedded_file file = 0;

    while (file < FILE_COUNT &&
           (strncmp(embedded_files[file].name, name, length) != 0 || embedded_files[file].name[length] != '\0'))
        file++;
    return file;
}

/* A growing text, and the files that it already includes. */
struct flat {
    struct text *text;
    unsigned char has[FILE_COUNT];
};

static void add_file(struct flat *flat, const char *name, size_t length);

/* The name in a line #include "name", and its length. NULL: it is another line. */
static const char *included_name(const char *line, size_t size, size_t *length)
{
    static const char include[] = "#include \"";
    const char *name = line + sizeof include - 1, *quote;

    if (size < sizeof include || memcmp(line, include, sizeof include - 1) != 0)
        return NULL;
    quote = memchr(name, '"', size - (sizeof include - 1));
    *length = quote != NULL ? (size_t)(quote - name) : 0;
    return quote != NULL ? name : NULL;
}

/* Adds the lines of the file at `path`, numbered from 1. A line #include "name" is replaced by that file. `path` is
 * NULL for text that comes from no file. */
static void add_lines(struct flat *flat, const char *path, const char *at, size_t size)
{
    const char *end = at + size;

    for (int number = 1; at < end; number++) {
        const char *next = memchr(at, '\n', (size_t)(end - at)), *name;
        size_t length;
        next = next != NULL ? next + 1 : end;
        name = included_name(at, (size_t)(next - at), &length);
        if (name == NULL)
            text_add(flat->text, at, (size_t)(next - at));
        else
            add_file(flat, name, length);
        if (name != NULL && path != NULL)
            text_format(flat->text, "#line %d \"%s\"\n", number + 1, path);
        at = next;
    }
}

/* Adds the file unless it is there already. A name that is not embedded stays an #include line, which the compiler will
 * report. */
static void add_file(struct flat *flat, const char *name, size_t length)
{
    enum embedded_file file = find_file(name, length);

    if (file == FILE_COUNT) {
        text_format(flat->text, "#include \"%.*s\"\n", (int)length, name);
        return;
    }
    if (flat->has[file])
        return;
    flat->has[file] = 1;
    text_format(flat->text, "#line 1 \"%s\"\n", embedded_files[file].path);
    add_lines(flat, embedded_files[file].path, embedded_files[file].text, embedded_files[file].size);
}

char *kernel_flatten(const char *source)
{
    struct text text = {0};
    struct flat flat = {.text = &text};

    add_lines(&flat, NULL, source, strlen(source));
    return text_take(&text);
}

/* The limits of steps; a step that has none above has infinity. */
static void add_limits(struct text *text, const struct kernel_step *step)
{
    if (!(step->step_min > 0 || step->step_max > 0))
        return;
    text_format(text, "#define STEP_MIN %.9ef\n", (double)(float)step->step_min);
    if (step->step_max > 0)
        text_format(text, "#define STEP_MAX %.9ef\n", (double)(float)step->step_max);
    else
        text_format(text, "#define STEP_MAX INFINITY\n");
}

static void add_constants(struct text *text, const struct kernel_step *step)
{
    for (int i = 0; i < step->constant_count; i++)
        text_format(text, "#define %s %lld\n", step->constants[i].name, (long long)step->constants[i].value);
    if (step->eps >= 0)
        text_format(text, "#define EPS %.9ef\n", (double)(float)step->eps);
    if (step->softcap > 0)
        text_format(text, "#define SOFTCAP %.9ef\n", (double)(float)step->softcap);
    add_limits(text, step);
    text_format(text, "#define GATE_SCALE %.9ef\n", (double)(float)step->gate_scale);
    text_format(text, "#define DATA %s\n#define GATE %s\n#define STRENGTH %s\n#define OUT %s\n#define STATE %s\n",
                dtype_name(step->data), dtype_name(step->gate), dtype_name(step->strength), dtype_name(step->out),
                dtype_name(step->state));
}

/* Defines which of its tensors the kernel has. */
static void add_tensors(struct text *text, const struct kernel_step *step)
{
    const struct kernel_signature *signature = &kernel_signatures[step->file];

    for (int i = 0; i < signature->count; i++)
        if (signature->parameters[i].kind == PARAMETER_TENSOR)
            text_format(text, "#define HAS_%s %d\n", signature->parameters[i].name, !(step->absent >> i & 1));
}

char *kernel_source(const struct kernel_step *step)
{
    const struct embedded *file = &embedded_files[step->file];
    struct text text = {0};
    struct flat flat = {.text = &text};

    add_constants(&text, step);
    add_tensors(&text, step);
    for (int i = 0; i < step->header_count; i++)
        add_file(&flat, embedded_files[step->headers[i]].name, strlen(embedded_files[step->headers[i]].name));
    text_format(&text, "#line 1 \"%s\"\n", file->path);
    add_lines(&flat, file->path, file->text, file->size);
    return text_take(&text);
}

/* ---- Build --------------------------------------------------------------------------------------------------------
 */

/* Whether the device runs the built kernel in groups of the size that it was written for. */
static clattn_status check_group(clattn_context *context, const struct log *log, const struct kernel_step *step,
                                 cl_kernel kernel)
{
    const struct device *device = &context->device;
    size_t most = 0;

    cl_int error = device->cl->GetKernelWorkGroupInfo(kernel, device->info.device, CL_KERNEL_WORK_GROUP_SIZE,
                                                      sizeof most, &most, NULL);

    if (error != CL_SUCCESS)
        return opencl_failed(log, error, "clGetKernelWorkGroupInfo of kernel %s", step->name);
    if (step->any_group || most > device->info.max_work_group)
        most = device->info.max_work_group;
    if (most >= (size_t)step->group)
        return CLATTN_SUCCESS;
    log_line(log, CLATTN_LOG_INFO, "%s runs kernel %s in groups of %zu, not %d", device->info.name, step->name, most,
             step->group);
    return CLATTN_UNSUPPORTED;
}

/* The optimiser of PoCL 3.1 miscompiles loops with barriers. */
static void build_options(const clattn_context *context, const struct kernel_step *step, char *options, size_t size)
{
    const struct device *device = &context->device;
    int opposed = device->in_part || (device->serial && step->shared);
    const char *given = opposed ? UNOPTIMISED_OPTIONS : step->options;

#ifdef CLATTN_EMULATIONS
    opposed |= strcmp(given, UNOPTIMISED_OPTIONS) == 0;
#endif
    if (opposed && device->optimised)
        given = PLAIN_OPTIONS;
    if (step->registers > 0)
        snprintf(options, size, "%s " REGISTERS_OPTION "%d", step->options, step->registers);
    else
        snprintf(options, size, "%s", given);
}

/* Creates the kernel from kernel->program. */
static clattn_status make_kernel(clattn_context *context, const struct log *log, struct kernel *kernel)
{
    kernel->from = program_cl(context, kernel->program);
    return opencl_create_kernel(log, context->device.cl, kernel->from, kernel->program->name, &kernel->cl);
}

clattn_status kernel_rebuild(clattn_context *context, const struct kernel *kernel, struct kernel *rebuilt)
{
    *rebuilt = *kernel;
    if (kernel->program == NULL)
        return CLATTN_UNSUPPORTED;
    TRY(program_renew(context, kernel->program, kernel->from));
    return make_kernel(context, &context->log, rebuilt);
}

cl_kernel kernel_swap(struct kernel *kernel, const struct kernel *rebuilt)
{
    cl_kernel released = rebuilt->cl;

    if (kernel->from != rebuilt->from) {
        released = kernel->cl;
        *kernel = *rebuilt;
    }
    return released;
}

static clattn_status make_or_renew(clattn_context *context, const struct log *log, struct kernel *kernel)
{
    struct kernel rebuilt;
    clattn_status status = make_kernel(context, log, kernel);

    if (status != CLATTN_SUCCESS && kernel_rebuild(context, kernel, &rebuilt) == CLATTN_SUCCESS) {
        *kernel = rebuilt;
        status = CLATTN_SUCCESS;
    }
    return status;
}

clattn_status kernel_create(clattn_context *context, const struct log *log, const struct kernel_step *step,
                            struct kernel *kernel, struct hash *hash)
{
    clattn_status status;
    char options[96], *source;

    *kernel = (struct kernel){NULL, NULL, NULL};
    if (step->left_out != NULL)
        return FAIL(log, UNSUPPORTED, "kernel %s has too many constants or headers: %s is left out", step->name,
                    step->left_out);
    source = kernel_source(step);
    if (source == NULL)
        return CLATTN_OUT_OF_MEMORY;
    if (hash != NULL)
        *hash = hash_text(*hash, source);
    build_options(context, step, options, sizeof options);
    TRY(program_get(context, log, source, step->name, options, &kernel->program));
    status = make_or_renew(context, log, kernel);
    if (status == CLATTN_SUCCESS)
        status = check_group(context, log, step, kernel->cl);
    if (status != CLATTN_SUCCESS)
        kernel_release(context, kernel);
    return status;
}

void kernel_release(clattn_context *context, struct kernel *kernel)
{
    if (kernel->cl != NULL)
        context->device.cl->ReleaseKernel(kernel->cl);
    if (kernel->program != NULL)
        program_release(context, kernel->program);
    *kernel = (struct kernel){NULL, NULL, NULL};
}
