/* A variant's source, and the kernel built of it. */
#include "kernel/kernel.h"

#include "device/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Source: constants, then the headers that supply the variant's words, then the kernel --------------------------
 */

/* FILE_COUNT for a name that no file has */
static enum embedded_file find_file(const struct embedded *files, const char *name, size_t length)
{
    enum embedded_file file = 0;

    while (file < FILE_COUNT && (strncmp(files[file].name, name, length) != 0 || files[file].name[length] != '\0'))
        file++;
    return file;
}

enum { MAX_INCLUDES = 48 };

/* Files already in the text, of all that there are. */
struct includes {
    const struct embedded *all;
    enum embedded_file files[MAX_INCLUDES];
    int count;
};

static void add_file(struct text *text, struct includes *done, const char *name, size_t length);

/* One line; an #include "name" becomes the file. */
static void add_line(struct text *text, struct includes *done, const char *line, size_t length)
{
    static const char include[] = "#include \"";
    const char *name = line + sizeof include - 1;
    const char *quote;

    if (length < sizeof include || memcmp(line, include, sizeof include - 1) != 0) {
        text_add(text, line, length);
        return;
    }
    quote = memchr(name, '"', length - (sizeof include - 1));
    if (quote != NULL)
        add_file(text, done, name, (size_t)(quote - name));
}

static void add_lines(struct text *text, struct includes *done, const char *at, size_t size)
{
    const char *end = at + size;

    while (at < end) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        next = next != NULL ? next + 1 : end;
        add_line(text, done, at, (size_t)(next - at));
        at = next;
    }
}

/* The file by name, once. A name that is not embedded stays as an #include line, for the compiler to complain of. */
static void add_file(struct text *text, struct includes *done, const char *name, size_t length)
{
    enum embedded_file file = find_file(done->all, name, length);

    if (file == FILE_COUNT || done->count == MAX_INCLUDES) {
        text_format(text, "#include \"%.*s\"\n", (int)length, name);
        return;
    }
    for (int i = 0; i < done->count; i++)
        if (done->files[i] == file)
            return;
    done->files[done->count++] = file;
    add_lines(text, done, done->all[file].text, done->all[file].size);
}

char *kernel_flatten(const char *source)
{
    struct text text = {0};
    struct includes done = {.all = embedded_files(), .count = 0};

    if (done.all == NULL)
        return NULL;
    add_lines(&text, &done, source, strlen(source));
    return text_take(&text);
}

static void add_constants(struct text *text, const struct variant *variant, const struct layout *layout)
{
    for (int i = 0; i < layout->constant_count; i++)
        text_format(text, "#define %s %lld\n", layout->constants[i].name, (long long)layout->constants[i].value);
    if (variant->normalizer || variant->problem->rule->op == OP_PIECE)
        text_format(text, "#define EPS %.9ef\n", (double)(float)problem_eps(variant->problem));
    text_format(text, "#define GATE_SCALE %.9ef\n", (double)(float)variant->problem->desc.gate_scale);
    text_format(text, "#define DATA %s\n#define GATE %s\n#define OUT %s\n#define STATE %s\n",
                dtype_name(variant->problem->desc.dtype), dtype_name(variant_gate(variant)),
                dtype_name(variant_out(variant)), dtype_name(variant_state(variant)));
}

/* Of the kernel's parameters those that are there, with what ends each; or of those that are absent zeros. The end of
 * them all: the last is there, a number. */
static const char *add_parameters(struct text *text, const struct variant *variant, const char *at, int absent)
{
    uint64_t bits = variant->absent;

    for (const role_byte *role = kernel_arguments(variant->kernel); *role != ARG_END; role++, bits >>= 1)
        for (int part = *role < ROLE_COUNT; part >= 0; part--) {
            int size = 0;
            while (at[size] != ',' && at[size] != ')')
                size++;
            if ((int)(bits & 1) == absent)
                text_format(text, absent ? "%.*s = 0;\n" : "%.*s", size + !absent, at);
            at += size + 1;
        }
    return at;
}

/* The text that has the kernel, without what is absent. */
static void add_kernel(struct text *text, const struct variant *variant, const char *from)
{
    const char *at = strchr(strstr(from, "KERNEL\n"), '(') + 1, *end;

    text_add(text, from, (size_t)(at - from));
    end = add_parameters(text, variant, at, 0);
    text_add(text, "{\n", 2);
    add_parameters(text, variant, at, 1);
    text_format(text, "%s", strchr(end, '{') + 1);
}

static void add_includes(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct embedded *files = embedded_files(), *file;

    if (files == NULL)
        return;
    file = &files[kernel_file(variant->kernel)];
    for (int i = 0; i < layout->header_count; i++)
        text_format(text, "#include \"%s\"\n", files[layout->headers[i]].name);
    if (variant->absent != 0)
        add_kernel(text, variant, file->text);
    else
        text_format(text, "#include \"%s\"\n", file->name);
}

/* Flattens and frees the text. */
static char *flatten(struct text *text)
{
    char *source = text_take(text), *flat = source != NULL ? kernel_flatten(source) : NULL;

    free(source);
    return flat;
}

char *kernel_source(const struct variant *variant, const struct layout *layout)
{
    struct text text = {0};

    add_constants(&text, variant, layout);
    add_includes(&text, variant, layout);
    return flatten(&text);
}

char *kernel_words(const struct variant *variant)
{
    const struct layout layout = kernel_layout(variant);
    struct text text = {0};

    add_includes(&text, variant, &layout);
    return flatten(&text);
}

/* ---- Build --------------------------------------------------------------------------------------------------------
 */

/* Whether the device runs the built kernel in groups of the size it was written for. */
static clattn_status check_group(clattn_context *context, const struct variant *variant, const struct layout *layout,
                                 cl_kernel kernel)
{
    const struct device *device = &context->device;
    size_t most = 0;

    TRY_CL(&context->log, device->cl->GetKernelWorkGroupInfo(kernel, device->info.device, CL_KERNEL_WORK_GROUP_SIZE,
                                                             sizeof most, &most, NULL));
    if (layout->any_group || most > device->info.max_work_group)
        most = device->info.max_work_group;
    if (most >= (size_t)variant->tiles.group)
        return CLATTN_SUCCESS;
    log_line(&context->log, CLATTN_LOG_INFO, "%s runs kernel %s in groups of %zu, not %d", device->info.name,
             kernel_name(variant->kernel), most, variant->tiles.group);
    return CLATTN_UNSUPPORTED;
}

/* PoCL 3.1, optimising, gets loops with barriers wrong. */
static void build_options(const clattn_context *context, const struct variant *variant, const struct layout *layout,
                          char *options, size_t size)
{
    const struct device *device = &context->device;
    int opposed = device->in_part || (device->serial && kernel_family(variant->kernel)->shared);
    const char *given = opposed ? UNOPTIMISED_OPTIONS : layout->options;

#ifdef CLATTN_EMULATIONS
    opposed |= strcmp(given, UNOPTIMISED_OPTIONS) == 0;
#endif
    if (opposed && device->optimised)
        given = PLAIN_OPTIONS;
    if (layout->registers > 0)
        snprintf(options, size, "%s " REGISTERS_OPTION "%d", layout->options, layout->registers);
    else
        snprintf(options, size, "%s", given);
}

/* Of kernel->program. */
static clattn_status make_kernel(clattn_context *context, struct kernel *kernel)
{
    cl_int error;

    kernel->from = program_cl(context, kernel->program);
    kernel->cl = context->device.cl->CreateKernel(kernel->from, kernel->program->name, &error);
    return kernel->cl != NULL ? CLATTN_SUCCESS : opencl_status(&context->log, "clCreateKernel", error);
}

clattn_status kernel_again(clattn_context *context, const struct kernel *kernel, struct kernel *again)
{
    *again = *kernel;
    if (kernel->program == NULL)
        return CLATTN_UNSUPPORTED;
    TRY(program_renew(context, kernel->program, kernel->from));
    return make_kernel(context, again);
}

cl_kernel kernel_swap(struct kernel *kernel, const struct kernel *again)
{
    cl_kernel released = again->cl;

    if (kernel->from != again->from) {
        released = kernel->cl;
        *kernel = *again;
    }
    return released;
}

static clattn_status make_or_renew(clattn_context *context, struct kernel *kernel)
{
    struct kernel again;
    clattn_status status = make_kernel(context, kernel);

    if (status != CLATTN_SUCCESS && kernel_again(context, kernel, &again) == CLATTN_SUCCESS) {
        *kernel = again;
        status = CLATTN_SUCCESS;
    }
    return status;
}

clattn_status kernel_create(clattn_context *context, const struct variant *variant, const struct layout *layout,
                            struct kernel *kernel, struct hash *hash)
{
    char *source = kernel_source(variant, layout);
    clattn_status status;
    char options[96];

    *kernel = (struct kernel){NULL, NULL, NULL};
    if (source == NULL)
        return CLATTN_OUT_OF_MEMORY;
    if (hash != NULL)
        *hash = hash_text(*hash, source);
    build_options(context, variant, layout, options, sizeof options);
    TRY(program_get(context, source, kernel_name(variant->kernel), options, &kernel->program));
    status = make_or_renew(context, kernel);
    if (status == CLATTN_SUCCESS)
        status = check_group(context, variant, layout, kernel->cl);
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
