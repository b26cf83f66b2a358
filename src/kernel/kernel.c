#include "kernel/kernel.h"

#include "device/program.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum embedded_file file;
    const struct family *family;
    unsigned rules; /* that it is for: those whose state is a matrix, 0, or what the words below say */
    role_byte arguments[ARG_END + 1];
} kernels[KERNEL_COUNT] = {
#define R(name) ROLE_##name
#define A(name) ARG_##name
#define LIST(erase) (1u << ERASE_##erase) /* of a list, that erase so */
#define CHANNELS (1u << 16)               /* of channels with decays of their own */
#define PRODUCTS (1u << 17)               /* none */
#define PIECE_BIT(piece) (1u << (18 + (piece)))
#define LEARNERS (1u << 31)
    [KERNEL_PREPARE] = {"prepare",
                        FILE_prepare,
                        &family_plain,
                        0,
                        {R(q), R(k), R(g), R(a_log), R(bias), R(beta), R(p), R(e), R(u), R(cu), R(records), A(seq_len),
                         A(sequences), A(scale), ARG_END}},
    [KERNEL_SCAN] = {"scan", FILE_scan, &family_plain, 0, {R(q),      R(k),         R(v),       R(o),       R(g),
                                                           R(a_log),  R(bias),      R(gv),      R(p),       R(e),
                                                           R(w),      R(den),       R(initial), R(final),   R(cu),
                                                           R(slots),  R(snapshots), R(records), A(seq_len), A(scale),
                                                           A(states), A(every),     ARG_END}},
    [KERNEL_RECURRENT] = {"recurrent", FILE_recurrent, &family_plain, 0, {R(q),     R(k),      R(v),         R(o),
                                                                          R(g),     R(a_log),  R(bias),      R(gv),
                                                                          R(beta),  R(p),      R(e),         R(w),
                                                                          R(u),     R(den),    R(initial),   R(final),
                                                                          R(cu),    R(slots),  R(snapshots), A(seq_len),
                                                                          A(scale), A(states), A(every),     ARG_END}},
    [KERNEL_STABILIZE] = {"stabilize",
                          FILE_stabilize,
                          &family_plain,
                          0,
                          {R(f), R(i), R(decay), R(strength), R(m), R(initial), R(final), R(cu), R(slots), A(seq_len),
                           A(states), ARG_END}},
    [KERNEL_PREPARE_MATRIX] = {"prepare_matrix",
                               FILE_prepare_matrix,
                               &family_matrix,
                               0,
                               {R(q), R(k), R(v), R(g), R(a_log), R(bias), R(beta), R(p), R(e), R(w), R(u), R(cu),
                                R(records), R(rows), A(seq_len), A(sequences), A(scale), ARG_END}},
    [KERNEL_PREPARE_FACTORS] = {"prepare_factors",
                                FILE_prepare_factors,
                                &family_matrix,
                                0,
                                {R(g), R(a_log), R(bias), R(beta), R(cu), R(records), A(seq_len), A(sequences),
                                 A(scale), ARG_END}},
    [KERNEL_SCAN_MATRIX] = {"scan_matrix",
                            FILE_scan_matrix,
                            &family_matrix,
                            0,
                            {R(q),        R(k),     R(v),       R(o),      R(p),         R(e),       R(den),
                             R(initial),  R(final), R(cu),      R(slots),  R(snapshots), R(records), R(rows),
                             R(segments), R(kept),  A(seq_len), A(states), A(every),     ARG_END}},
    [KERNEL_PROBE_MATRIX] =
        {"probe_matrix", FILE_probe_matrix, &family_matrix, 0, {ARG_END}}, /* probe.c sets its arguments */
    [KERNEL_FLASH] = {"flash",
                      FILE_flash,
                      &family_plain,
                      LIST(NONE) | LIST(KERNEL) | LIST(POSITION),
                      {R(q), R(k), R(v), R(o), R(g), R(sink), R(lse), R(cu), R(cu_kv), R(lens), A(seq_len),
                       A(sequences), A(kv_len), A(window), A(scale), A(given), ARG_END}},
    [KERNEL_FLASH_BLOCKS] = {"flash_blocks",
                             FILE_flash_blocks,
                             &family_flash_blocks,
                             LIST(NONE),
                             {R(q), R(k), R(v), R(o), R(g), R(sink), R(lse), R(cu), R(cu_kv), R(lens), A(seq_len),
                              A(sequences), A(kv_len), A(window), A(scale), A(given), ARG_END}},
    [KERNEL_APPEND] = {"append",
                       FILE_append,
                       &family_plain,
                       LIST(NONE),
                       {R(k), R(v), R(k_new), R(v_new), R(cu), R(cu_kv), R(lens), A(seq_len), A(sequences), A(kv_len),
                        A(window), A(given), ARG_END}},
    [KERNEL_PREPARE_BLOCKS] = {"prepare_blocks",
                               FILE_prepare_blocks,
                               &family_blocks,
                               0,
                               {R(q), R(k), R(v), R(g), R(a_log), R(bias), R(beta), R(p), R(e), R(w), R(u), R(cu),
                                R(records), R(rows), A(seq_len), A(sequences), A(scale), A(first_row), ARG_END}},
    [KERNEL_STATES] = {"states",
                       FILE_states,
                       &family_blocks,
                       0,
                       {R(k), R(v), R(e), R(w), R(initial), R(final), R(cu), R(slots), R(records), R(rows), R(before),
                        R(carried), R(segments), R(kept), A(seq_len), A(states), A(first_row), ARG_END}},
    [KERNEL_JOIN] = {"join",
                     FILE_join,
                     &family_blocks,
                     0,
                     {R(final), R(cu), R(slots), R(carried), R(segments), R(kept), A(seq_len), A(states), ARG_END}},
    [KERNEL_FLASH_MATRIX] = {"flash_matrix",
                             FILE_flash_matrix,
                             &family_flash,
                             LIST(NONE) | LIST(KERNEL) | LIST(POSITION),
                             {R(q), R(k), R(v), R(o), R(g), R(sink), R(lse), R(cu), R(cu_kv), R(lens), A(seq_len),
                              A(sequences), A(kv_len), A(window), A(scale), A(given), ARG_END}},
    [KERNEL_OUTPUTS] = {"outputs",
                        FILE_outputs,
                        &family_blocks,
                        0,
                        {R(q), R(k), R(v), R(o), R(w), R(den), R(cu), R(records), R(rows), R(before), R(segments),
                         A(seq_len), A(sequences), A(scale), A(first_row), ARG_END}},
    [KERNEL_DECODE] = {"decode",
                       FILE_decode,
                       &family_decode,
                       LIST(NONE) | LIST(POSITION),
                       {R(q), R(k), R(v), R(g), R(cu), R(cu_kv), R(lens), R(parts), A(seq_len), A(sequences), A(kv_len),
                        A(window), A(scale), A(given), A(tail), ARG_END}},
    [KERNEL_JOIN_PARTS] = {"join_parts",
                           FILE_join_parts,
                           &family_decode,
                           LIST(NONE) | LIST(POSITION),
                           {R(o), R(sink), R(lse), R(cu), R(parts), A(seq_len), A(sequences), A(given), ARG_END}},
    [KERNEL_PREPARE_PATH] = {"prepare_path",
                             FILE_prepare_path,
                             &family_path,
                             LIST(POSITION),
                             {R(k), R(p), R(e), R(cu), R(cu_kv), R(lens), R(records), R(rows), A(seq_len), A(sequences),
                              A(kv_len), A(window), A(given), A(tail), ARG_END}},
    [KERNEL_CARRY_PATH] = {"carry_path",
                           FILE_carry_path,
                           &family_path,
                           LIST(POSITION),
                           {R(p), R(cu), R(cu_kv), R(lens), R(rows), R(segments), A(seq_len), A(sequences), A(kv_len),
                            A(window), A(given), A(tail), ARG_END}},
    [KERNEL_FLASH_PATH] = {"flash_path",
                           FILE_flash_path,
                           &family_path,
                           LIST(POSITION),
                           {R(q),      R(k),      R(v),     R(o),       R(g),    R(p),        R(sink),    R(lse),
                            R(cu),     R(cu_kv),  R(lens),  R(records), R(rows), R(segments), A(seq_len), A(sequences),
                            A(kv_len), A(window), A(scale), A(given),   A(tail), ARG_END}},
    [KERNEL_WALK_PATH] = {"walk_path",
                          FILE_walk_path,
                          &family_decode,
                          LIST(POSITION),
                          {R(q), R(k), R(v), R(g), R(p), R(e), R(cu), R(rows), R(parts), A(seq_len), A(sequences),
                           A(kv_len), A(window), A(scale), A(tail), ARG_END}},
    [KERNEL_TURN_PATH] = {"turn_path",
                          FILE_turn_path,
                          &family_path,
                          LIST(POSITION),
                          {R(q), R(k), R(p), R(cu), R(cu_kv), R(lens), R(rows), R(segments), R(turned_q), R(turned_k),
                           A(seq_len), A(sequences), A(kv_len), A(window), A(given), A(tail), ARG_END}},
    [KERNEL_FOLD_PATH] = {"fold_path",
                          FILE_fold_path,
                          &family_path,
                          LIST(POSITION),
                          {R(k), R(p), R(e), R(cu), R(cu_kv), R(lens), A(seq_len), A(sequences), A(kv_len), A(window),
                           A(given), A(tail), ARG_END}},
    [KERNEL_WRITE_BEFORE] = {"write_before",
                             FILE_write_before,
                             &family_write,
                             LIST(KERNEL),
                             {R(k), R(p), R(written), R(cu), R(cu_kv), R(lens), R(parts), A(seq_len), A(kv_len),
                              A(window), A(scale), A(given), A(first_row), ARG_END}},
    [KERNEL_WRITE_SOLVE] = {"write_solve",
                            FILE_write_solve,
                            &family_write,
                            LIST(KERNEL),
                            {R(k), R(v), R(p), R(e), R(written), R(cu), R(cu_kv), R(lens), R(parts), A(seq_len),
                             A(kv_len), A(window), A(scale), A(given), A(first_row), ARG_END}},
    /* plan/gemm.c sets their arguments */
    [KERNEL_GEMM] = {"gemm", FILE_gemm, &family_gemm_lanes, PRODUCTS, {ARG_END}},
    [KERNEL_GEMM_SERIAL] = {"gemm_serial", FILE_gemm_serial, &family_gemm, PRODUCTS, {ARG_END}},
    [KERNEL_GEMM_MATRIX] = {"gemm_matrix", FILE_gemm_matrix, &family_gemm_matrix, PRODUCTS, {ARG_END}},
    [KERNEL_GEMV] = {"gemv", FILE_gemv, &family_gemm, PRODUCTS, {ARG_END}},
    [KERNEL_CHANNELS] = {"channels",
                         FILE_channels,
                         &family_channels,
                         CHANNELS,
                         {R(q), R(k), R(v), R(o), R(g), R(theta), R(dt), R(bias), R(d), R(z), R(initial), R(final),
                          R(cu), R(slots), A(seq_len), A(scale), A(states), ARG_END}},
    [KERNEL_CHANNELS_LANES] = {"channels_lanes",
                               FILE_channels_lanes,
                               &family_channels_lanes,
                               CHANNELS,
                               {R(q), R(k), R(v), R(o), R(g), R(dt), R(bias), R(d), R(z), R(initial), R(final), R(cu),
                                R(slots), A(seq_len), A(scale), A(states), ARG_END}},
    [KERNEL_WRITE_BEFORE_MATRIX] = {"write_before_matrix",
                                    FILE_write_before_matrix,
                                    &family_write_matrix,
                                    LIST(KERNEL),
                                    {R(k), R(p), R(written), R(cu), R(parts), A(seq_len), A(kv_len), A(scale),
                                     A(first_row), ARG_END}},
    [KERNEL_WRITE_SOLVE_MATRIX] = {"write_solve_matrix",
                                   FILE_write_solve_matrix,
                                   &family_write_matrix,
                                   LIST(KERNEL),
                                   {R(v), R(e), R(written), R(cu), R(parts), A(seq_len), A(kv_len), A(given),
                                    A(first_row), ARG_END}},
    [KERNEL_PREPARE_PATH_MATRIX] = {"prepare_path_matrix",
                                    FILE_prepare_path_matrix,
                                    &family_path_matrix,
                                    LIST(POSITION),
                                    {R(k), R(p), R(e), R(cu), R(rows), A(seq_len), A(sequences), A(kv_len), A(tail),
                                     ARG_END}},
    [KERNEL_CARRY_PATH_MATRIX] = {"carry_path_matrix",
                                  FILE_carry_path_matrix,
                                  &family_path_matrix,
                                  LIST(POSITION),
                                  {R(k), R(cu), R(rows), R(segments), A(seq_len), A(sequences), A(kv_len), ARG_END}},
    [KERNEL_FLASH_PATH_MATRIX] = {"flash_path_matrix",
                                  FILE_flash_path_matrix,
                                  &family_path_matrix,
                                  LIST(POSITION),
                                  {R(q), R(k), R(v), R(o), R(g), R(sink), R(lse), R(cu), R(rows), R(segments),
                                   A(seq_len), A(sequences), A(kv_len), A(window), A(scale), A(given), ARG_END}},
    [KERNEL_SHORT_CONV] = {"short_conv",
                           FILE_short_conv,
                           &family_piece,
                           PIECE_BIT(PIECE_SHORT_CONV),
                           {R(v), R(o), R(weights), R(shift), R(initial), R(final), R(cu), R(slots), A(seq_len),
                            A(sequences), A(states), ARG_END}},
    [KERNEL_RMS_NORM] = {"rms_norm",
                         FILE_rms_norm,
                         &family_piece,
                         PIECE_BIT(PIECE_RMS_NORM),
                         {R(v), R(o), R(u), R(d), R(z), R(weights), R(cu), A(seq_len), A(sequences), ARG_END}},
    [KERNEL_GATES] = {"gates",
                      FILE_gates,
                      &family_piece,
                      PIECE_BIT(PIECE_GATES),
                      {R(v), R(o), R(bias), R(a_log), R(cu), A(seq_len), A(sequences), A(scale), ARG_END}},
    [KERNEL_ROPE] = {"rope",
                     FILE_rope,
                     &family_piece,
                     PIECE_BIT(PIECE_ROPE),
                     {R(v), R(o), R(position), R(cu), A(seq_len), A(sequences), ARG_END}},
    [KERNEL_FEATURES] = {"features",
                         FILE_features,
                         &family_piece,
                         PIECE_BIT(PIECE_FEATURES),
                         {R(v), R(o), R(omega), R(cu), A(seq_len), A(sequences), ARG_END}},
    [KERNEL_LACT_OPEN] = {"lact_open",
                          FILE_lact_open,
                          &family_lact,
                          LEARNERS,
                          {R(w0), R(w1), R(w2), R(fast), R(factors), R(sums), R(norms), R(moment), ARG_END}},
    [KERNEL_LACT_MIX] = {"lact_mix",
                         FILE_lact_mix,
                         &family_lact,
                         LEARNERS,
                         {R(hidden), R(mixed), A(sequences), A(stretch_rows), ARG_END}},
    [KERNEL_LACT_SLOPE] = {"lact_slope",
                           FILE_lact_slope,
                           &family_lact,
                           LEARNERS,
                           {R(hidden), R(mixed), R(lr0), R(lr1), R(lr2), A(sequences), A(first_row), A(stretch_rows),
                            ARG_END}},
    [KERNEL_LACT_MOMENT] = {"lact_moment",
                            FILE_lact_moment,
                            &family_lact,
                            LEARNERS,
                            {R(step), R(moment), R(squares), R(momentum), A(first_row), A(stretch_rows), ARG_END}},
    [KERNEL_LACT_UNIT] = {"lact_unit", FILE_lact_unit, &family_lact, LEARNERS, {R(step), R(squares), R(unit), ARG_END}},
    [KERNEL_LACT_STEP] = {"lact_step",
                          FILE_lact_step,
                          &family_lact,
                          LEARNERS,
                          {R(step), R(made), R(moment), R(momentum), R(fast), R(factors), R(sums), R(norms),
                           A(first_row), A(stretch_rows), ARG_END}},
    [KERNEL_LACT_CLOSE] = {"lact_close",
                           FILE_lact_close,
                           &family_lact,
                           LEARNERS,
                           {R(fast), R(final_w0), R(final_w1), R(final_w2), ARG_END}},
#undef R
#undef A
#undef LIST
};

const role_byte *kernel_arguments(enum kernel_id id)
{
    return kernels[id].arguments;
}

const char *kernel_name(enum kernel_id id)
{
    return kernels[id].name;
}

int kernel_takes(enum kernel_id id, const struct rule *rule)
{
    unsigned rules = kernels[id].rules;

    if (rule->op == OP_PIECE)
        return rules == PIECE_BIT(rule->piece);
    if (rule->op == OP_LEARNER)
        return rules == LEARNERS;
    if (rule_has_list(rule))
        return (int)(rules >> rule->erase & 1u);
    return rules == (rule_has_chunks(rule) ? 0 : CHANNELS);
}

const struct family *kernel_family(enum kernel_id id)
{
    return kernels[id].family;
}

struct layout kernel_layout(const struct variant *variant)
{
    return layout_of(variant, kernels[variant->kernel].family->lay_out);
}

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

static void add_includes(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct embedded *files = embedded_files();

    for (int i = 0; i < layout->header_count && files != NULL; i++)
        text_format(text, "#include \"%s\"\n", files[layout->headers[i]].name);
    if (files != NULL)
        text_format(text, "#include \"%s\"\n", files[kernels[variant->kernel].file].name);
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
    size_t most = 0;

    TRY_CL(&context->log,
           context->device.cl->GetKernelWorkGroupInfo(kernel, context->device.info.device, CL_KERNEL_WORK_GROUP_SIZE,
                                                      sizeof most, &most, NULL));
    if (most >= (size_t)variant->tiles.group || layout->any_group)
        return CLATTN_SUCCESS;
    log_line(&context->log, CLATTN_LOG_INFO, "%s runs kernel %s in groups of %zu, not %d", context->device.info.name,
             kernels[variant->kernel].name, most, variant->tiles.group);
    return CLATTN_UNSUPPORTED;
}

static const char *build_options(const clattn_context *context, const struct variant *variant,
                                 const struct layout *layout)
{
    if (context->device.serial && kernels[variant->kernel].family->shared)
        return PLAIN_OPTIONS " -cl-opt-disable";
    return layout->options;
}

clattn_status kernel_create(clattn_context *context, const struct variant *variant, const struct layout *layout,
                            cl_kernel *kernel, struct hash *hash)
{
    const struct opencl *cl = context->device.cl;
    const char *name = kernels[variant->kernel].name;
    char *source = kernel_source(variant, layout);
    cl_program program;
    clattn_status status;
    cl_int error;

    *kernel = NULL;
    if (source == NULL)
        return CLATTN_OUT_OF_MEMORY;
    if (hash != NULL)
        *hash = hash_text(*hash, source);
    TRY(program_get(context, source, name, build_options(context, variant, layout), &program));
    *kernel = cl->CreateKernel(program, name, &error);
    if (*kernel == NULL)
        return opencl_status(&context->log, "clCreateKernel", error);
    status = check_group(context, variant, layout, *kernel);
    if (status != CLATTN_SUCCESS) {
        cl->ReleaseKernel(*kernel);
        *kernel = NULL;
    }
    return status;
}
