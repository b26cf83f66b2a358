#include "kernel/kernel.h"

#include "base/embedded.h"
#include "kernel/matrix.h"
#include "device/program.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *file;
    enum role arguments[ARG_END + 1];
} kernels[KERNEL_COUNT] = {
#define R(name) ROLE_##name
#define A(name) ARG_##name
    [KERNEL_PREPARE] = {"prepare",
                        "prepare.cl",
                        {R(q), R(k), R(g), R(beta), R(p), R(e), R(u), R(cu), R(records), A(seq_len), A(sequences),
                         A(scale), ARG_END}},
    [KERNEL_SCAN] = {"scan",
                     "scan.cl",
                     {R(q), R(k), R(v), R(o), R(g), R(gv), R(p), R(e), R(w), R(den), R(initial), R(final), R(cu),
                      R(records), A(seq_len), A(scale), A(states), ARG_END}},
    [KERNEL_RECURRENT] = {"recurrent",
                          "recurrent.cl",
                          {R(q), R(k), R(v), R(o), R(g), R(gv), R(beta), R(p), R(e), R(w), R(u), R(den), R(initial),
                           R(final), R(cu), A(seq_len), A(scale), A(states), ARG_END}},
    [KERNEL_STABILIZE] = {"stabilize",
                          "stabilize.cl",
                          {R(f), R(i), R(decay), R(strength), R(m), R(initial), R(final), R(cu), A(seq_len), A(states),
                           ARG_END}},
    [KERNEL_PREPARE_MATRIX] = {"prepare_matrix",
                               "prepare_matrix.cl",
                               {R(q), R(k), R(v), R(g), R(beta), R(p), R(e), R(w), R(u), R(cu), R(records), R(rows),
                                A(seq_len), A(sequences), A(scale), ARG_END}},
    [KERNEL_PREPARE_FACTORS] = {"prepare_factors",
                                "prepare_factors.cl",
                                {R(g), R(beta), R(cu), R(records), A(seq_len), A(sequences), A(scale), ARG_END}},
    [KERNEL_SCAN_MATRIX] = {"scan_matrix",
                            "scan_matrix.cl",
                            {R(q), R(k), R(v), R(o), R(p), R(e), R(den), R(initial), R(final), R(cu), R(records),
                             R(rows), R(segments), R(kept), A(seq_len), A(states), ARG_END}},
    [KERNEL_PROBE_MATRIX] = {"probe_matrix", "probe_matrix.cl", {ARG_END}}, /* probe.c sets its arguments */
#undef R
#undef A
};

const enum role *kernel_arguments(enum kernel_id id)
{
    return kernels[id].arguments;
}

const char *kernel_name(enum kernel_id id)
{
    return kernels[id].name;
}

/* ---- Source: constants, then the headers that supply the variant's words, then the kernel -------------------------- */

static const char *const decay_headers[] = {
    [DECAY_NONE] = "decay_none.clh", [DECAY_SCALAR] = "decay_scalar.clh", [DECAY_CHANNEL] = "decay_channel.clh"};
static const char *const erase_headers[] = {[ERASE_NONE] = "erase_none.clh",
                                            [ERASE_KEY] = "erase_key.clh",
                                            [ERASE_OPERAND] = "erase_operand.clh",
                                            [ERASE_GATED] = "erase_gated.clh",
                                            [ERASE_LOW_RANK] = "erase_low_rank.clh"};
static const char *const strength_headers[] = {[WRITE_VALUE] = "strength_none.clh",
                                               [WRITE_BETA] = "strength_operand.clh",
                                               [WRITE_GATED] = "strength_none.clh",
                                               [WRITE_EXP] = "strength_operand.clh"};
static const char *const read_headers[] = {
    [READ_AFTER] = "read_after.clh", [READ_BONUS] = "read_bonus.clh", [READ_STABILIZED] = "read_after.clh"};

static const struct embedded *find_file(const char *name, size_t length)
{
    for (size_t i = 0; i < embedded_count; i++)
        if (strlen(embedded_files[i].name) == length && memcmp(embedded_files[i].name, name, length) == 0)
            return &embedded_files[i];
    return NULL;
}

enum { MAX_INCLUDES = 32 };

/* Files already in the text. */
struct includes {
    const struct embedded *files[MAX_INCLUDES];
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
    const struct embedded *file = find_file(name, length);

    if (file == NULL || done->count == MAX_INCLUDES) {
        text_format(text, "#include \"%.*s\"\n", (int)length, name);
        return;
    }
    for (int i = 0; i < done->count; i++)
        if (done->files[i] == file)
            return;
    done->files[done->count++] = file;
    add_lines(text, done, (const char *)file->text, file->size);
}

char *kernel_flatten(const char *source)
{
    struct text text = {0};
    struct includes done = {.count = 0};

    add_lines(&text, &done, source, strlen(source));
    return text_take(&text);
}

static int cu_stride(const clattn_plan_desc *desc)
{
    if (!(desc->flags & CLATTN_CU_SEQLENS))
        return 0;
    return desc->flags & CLATTN_CU_SEQLENS_INT64 ? 2 : 1;
}

static void add_constants(struct text *text, const struct variant *variant)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct tiles *tiles = &variant->tiles;
    const struct {
        const char *name;
        long long value;
    } numbers[] = {
        {"GROUP", tiles->group},
        {"VEC", tiles->vec},
        {"CHUNK", tiles->chunk},
        {"BK", tiles->block_k},
        {"BV", tiles->block_v},
        {"PAD", tiles->pad},
        {"LANES_K", tiles->lanes_k},
        {"VALUE_TILES", tiles->value_tiles},
        {"KEY_SPLIT", tiles->key_split},
        {"STAGES", tiles->stages},
        {"LOADERS", tiles->loaders},
        {"READERS", tiles->readers * tiles->value_tiles},
        {"SEGMENTS", tiles->segments},
        {"KEY_DIM", desc->key_dim},
        {"VALUE_DIM", variant->value_dim},
        {"STEPS", desc->steps},
        {"QK_GROUP", desc->heads / desc->qk_heads},
        {"CU_STRIDE", cu_stride(desc)},
        {"STATE_VK", variant->state_vk},
        {"L2NORM", (desc->flags & CLATTN_QK_L2NORM) != 0},
        {"FEATURE", desc->feature_map},
        {"FEATURE_ELU1", CLATTN_FEATURE_ELU1},
        {"FEATURE_RELU", CLATTN_FEATURE_RELU},
    };

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        text_format(text, "#define %s %lld\n", numbers[i].name, numbers[i].value);
    if (matrix_kernel(variant->kernel))
        text_format(text, "#define SPAN %d\n#define DEPTH %d\n#define SCORED %d\n", tiles->span, matrix_depth(variant),
                    matrix_scored(variant));
    if (tiles->sub_group != 0)
        text_format(text, "#define SUB_GROUP %d\n", tiles->sub_group);
    text_format(text, "#define DATA %s\n#define GATE %s\n#define OUT %s\n", dtype_name(desc->dtype), variant->gate,
                variant->out);
}

static void add_include(struct text *text, const char *name)
{
    text_format(text, "#include \"%s\"\n", name);
}

static void plain_headers(const struct variant *variant, const char *headers[MATRIX_HEADERS])
{
    const struct rule *rule = variant->problem->rule;
    const char *const list[MATRIX_HEADERS] = {decay_headers[problem_decay(variant->problem)],
                                              erase_headers[rule->erase],
                                              strength_headers[rule->write],
                                              read_headers[rule->read],
                                              variant->value,
                                              variant->problem->desc.flags & CLATTN_VALUE_GATE ? "mix_gated.clh"
                                                                                               : "mix_plain.clh",
                                              variant->output};

    for (int i = 0; i < MATRIX_HEADERS; i++)
        headers[i] = list[i];
}

static void add_includes(struct text *text, const struct variant *variant)
{
    const char *headers[MATRIX_HEADERS] = {NULL};

    if (matrix_kernel(variant->kernel))
        matrix_headers(variant, headers);
    else if (variant->kernel != KERNEL_STABILIZE)
        plain_headers(variant, headers);
    for (int i = 0; i < MATRIX_HEADERS && headers[i] != NULL; i++)
        add_include(text, headers[i]);
    add_include(text, kernels[variant->kernel].file);
}

/* Flattens and frees the text. */
static char *flatten(struct text *text)
{
    char *source = text_take(text), *flat = source != NULL ? kernel_flatten(source) : NULL;

    free(source);
    return flat;
}

char *kernel_source(const struct variant *variant)
{
    struct text text = {0};

    add_constants(&text, variant);
    add_includes(&text, variant);
    return flatten(&text);
}

char *kernel_words(const struct variant *variant)
{
    struct text text = {0};

    add_includes(&text, variant);
    return flatten(&text);
}

/* ---- Local memory ------------------------------------------------------------------------------------------------- */

/* Sizes of the tiles that cl/words/tile.clh declares, in floats. */
struct footprint {
    int slice, matrix, value, factors, state;
};

static struct footprint footprint_of(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    struct footprint f;

    f.slice = t->chunk * (t->block_k + t->pad);
    f.matrix = t->chunk * round_up(t->chunk, t->vec);
    f.value = t->chunk * t->block_v;
    f.factors = 6 * t->chunk + t->vec;
    f.state = round_up((int)variant->problem->desc.key_dim, t->block_k) * t->block_v;
    return f;
}

static int decay_floats(const struct variant *variant, const struct footprint *f)
{
    switch (problem_decay(variant->problem)) {
    case DECAY_NONE: return 0;
    case DECAY_SCALAR: return variant->tiles.chunk;
    case DECAY_CHANNEL: return f->slice + variant->tiles.block_k;
    }
    return 0;
}

size_t kernel_local_bytes(const struct variant *variant)
{
    struct footprint f = footprint_of(variant);
    enum erase erase = variant->problem->rule->erase;
    int gated = (variant->problem->desc.flags & CLATTN_VALUE_GATE) != 0;
    int slices = erase == ERASE_NONE ? 0 : erase == ERASE_LOW_RANK ? 2 : 1;
    int floats = f.factors + decay_floats(variant, &f);

    if (matrix_kernel(variant->kernel))
        return matrix_local_bytes(variant);
    switch (variant->kernel) {
    case KERNEL_PREPARE: floats += (2 + slices) * f.slice + (1 + 2 * slices) * f.matrix; break;
    case KERNEL_SCAN:
        floats += f.state + (f.slice > f.matrix ? f.slice : f.matrix) + (2 + slices + gated) * f.value;
        break;
    case KERNEL_RECURRENT:
        floats += (2 + slices) * f.slice + f.value + f.matrix + variant->tiles.group * variant->tiles.vec;
        floats += 3 * round_up((int)variant->problem->desc.key_dim, variant->tiles.vec) / variant->tiles.vec + 1;
        break;
    case KERNEL_STABILIZE: floats = 4 * variant->tiles.group; break;
    case KERNEL_PREPARE_MATRIX:
    case KERNEL_PREPARE_FACTORS:
    case KERNEL_SCAN_MATRIX:
    case KERNEL_PROBE_MATRIX:
    case KERNEL_COUNT: break;
    }
    return (size_t)floats * sizeof(float);
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------ */

/* Whether the device runs the built kernel in groups of the size it was written for. */
static clattn_status check_group(clattn_context *context, const struct variant *variant, cl_kernel kernel)
{
    size_t most = 0;

    TRY_CL(&context->log,
           context->device.cl->GetKernelWorkGroupInfo(kernel, context->device.info.device, CL_KERNEL_WORK_GROUP_SIZE,
                                                      sizeof most, &most, NULL));
    /* NVIDIA says 256 of every kernel, and runs those of matrix engines in the larger groups they are compiled for. */
    if (most >= (size_t)variant->tiles.group || matrix_kernel(variant->kernel))
        return CLATTN_SUCCESS;
    log_line(&context->log, CLATTN_LOG_INFO, "%s runs kernel %s in groups of %zu, not %d", context->device.info.name,
             kernels[variant->kernel].name, most, variant->tiles.group);
    return CLATTN_UNSUPPORTED;
}

clattn_status kernel_create(clattn_context *context, const struct variant *variant, cl_kernel *kernel,
                            struct hash *hash)
{
    const struct opencl *cl = context->device.cl;
    const char *name = kernels[variant->kernel].name;
    char *source = kernel_source(variant);
    const char *options = matrix_kernel(variant->kernel) ? variant->engine->options : PLAIN_OPTIONS;
    cl_program program;
    clattn_status status;
    cl_int error;

    *kernel = NULL;
    if (source == NULL)
        return CLATTN_OUT_OF_MEMORY;
    if (hash != NULL)
        *hash = hash_text(*hash, source);
    TRY(program_get(context, source, name, options, &program));
    *kernel = cl->CreateKernel(program, name, &error);
    if (*kernel == NULL)
        return opencl_status(&context->log, "clCreateKernel", error);
    status = check_group(context, variant, *kernel);
    if (status != CLATTN_SUCCESS) {
        cl->ReleaseKernel(*kernel);
        *kernel = NULL;
    }
    return status;
}
