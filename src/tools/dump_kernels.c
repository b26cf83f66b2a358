/* clattn_dump_kernels DIRECTORY [SUB_GROUP [ENGINE [RULE …]]]: writes the source of every kernel that plans for a
 * typical GPU use, one file each, for cmake/offline_compile.sh to compile. The first line has the kernel's name, the
 * second the build options. SUB_GROUP is the smallest sub-group of an Intel GPU, else 0. With ENGINE the kernels are
 * those of that matrix engine: of all rules with their options, or of the named rules without, and of one rule in f16.
 * No OpenCL is needed (recording_opencl.h). */
#include "check/check.h"
#include "op/problem.h"
#include "solve/gemm/gemm.h"
#include "solve/solve.h"
#include "tools/recording_opencl.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *directory;
static char label[256]; /* of the current problem */
static int is_backward; /* it is a backward pass */
static int written, failed;

/* Walks of a backward pass are forward passes, whose kernels forward plans have. */
static int is_of_walk(const char *name)
{
    return is_backward && strncmp(name, "pad_", 4) != 0 && strncmp(name, "divide_", 7) != 0 &&
           strncmp(name, "close_", 6) != 0 && strncmp(name, "backward_", 9) != 0 && strstr(name, "_gradients") == NULL;
}

static void write_kernel(void *user, const char *name, const char *options, const char *source)
{
    char path[4096];
    FILE *file;

    (void)user;
    if (is_of_walk(name))
        return;
    snprintf(path, sizeof path, "%s/%04d_%s.cl", directory, ++written, name);
    file = fopen(path, "w");
    if (file == NULL || fprintf(file, "/* %s of %s */\n/* options: %s */\n%s", name, label, options, source) < 0 ||
        fclose(file) != 0) {
        perror(path);
        failed = 1;
    }
}

static void print_log(void *user, clattn_log_level level, const char *message)
{
    (void)user, (void)level;
    fprintf(stderr, "%s: %s\n", label, message);
}

static const clattn_device_info usual_gpu = {.name = "a usual GPU",
                                             .gpu = 1,
                                             .compute_units = 64,
                                             .local_memory = 32 << 10,
                                             .global_memory = (uint64_t)8 << 30,
                                             .max_work_group = 256};

enum { HEADS = 32, FEW_HEADS = 16, FEWEST_HEADS = 4 };

static void dump(clattn_context *context, clattn_plan_desc desc, const char *variant)
{
    static const char *const modes[] = {"auto", "recurrent", "chunk"};
    clattn_rule_info rule;
    clattn_plan *plan;

    clattn_rule_describe(desc.rule, &rule);
    is_backward = desc.pass == CLATTN_PASS_BACKWARD;
    snprintf(label, sizeof label, "%s%s%s%s %s %s K=%d V=%d%s%s", rule.name, *variant ? " " : "", variant,
             desc.pass == CLATTN_PASS_BACKWARD ? " backward" : "", modes[desc.mode], dtype_name(desc.dtype),
             (int)desc.key_dim, (int)desc.value_dim, desc.flags & CLATTN_CU_SEQLENS ? " cu_seqlens" : "",
             desc.heads < FEW_HEADS ? " fewest heads"
             : desc.heads < HEADS   ? " few heads"
                                    : "");
    if (clattn_plan_create(&plan, context, &desc) != CLATTN_SUCCESS) {
        fprintf(stderr, "%s: no plan\n", label);
        failed = 1;
    }
    clattn_plan_destroy(plan);
}

/* A rule with each of its options, or the first `variants` of them, at a typical size. */
static void dump_rule(clattn_context *context, clattn_rule rule, clattn_mode mode, int heads, int variants)
{
    for (int variant = 0; variants == 0 || variant < variants; variant++) {
        clattn_plan_desc desc = {.rule = rule,
                                 .dtype = CLATTN_BF16,
                                 .batch = 1,
                                 .seq_len = 4096,
                                 .heads = heads,
                                 .qk_heads = heads / 2,
                                 .key_dim = rule_get(rule)->decay == DECAY_PRODUCT ? 16 : 128,
                                 .value_dim = 128,
                                 .mode = mode,
                                 .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE};
        const char *name = check_variant(rule, variant, &desc);
        if (name == NULL)
            return;
        dump(context, desc, name);
    }
}

/* One rule of each kind, at other sizes and types that change the code. */
static void dump_sizes(clattn_context *context, clattn_rule rule, clattn_mode mode)
{
    static const int dims[][2] = {{60, 100}, {256, 256}, {16, 16}, {32, 32}, {64, 64}};
    const clattn_plan_desc base = {
        .rule = rule, .batch = 1, .seq_len = 4096, .heads = HEADS, .key_dim = 128, .value_dim = 128, .mode = mode};
    clattn_plan_desc desc;

    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        desc = base;
        desc.key_dim = dims[i][0];
        desc.value_dim = dims[i][1];
        dump(context, desc, "");
    }
    desc = base;
    desc.dtype = desc.gate_dtype = CLATTN_F16;
    dump(context, desc, "");
    desc = base;
    desc.flags = CLATTN_CU_SEQLENS | CLATTN_QK_L2NORM;
    desc.sequences = 4;
    dump(context, desc, "");
}

/* One query with many keys, where four heads share one. */
static void dump_decode(clattn_context *context, clattn_rule rule, uint64_t flags, int64_t tail)
{
    const clattn_plan_desc desc = {.rule = rule,
                                   .dtype = CLATTN_BF16,
                                   .flags = flags | CLATTN_WITH_LSE,
                                   .batch = 1,
                                   .seq_len = 1,
                                   .kv_len = 4096,
                                   .tail = tail,
                                   .heads = HEADS,
                                   .kv_heads = HEADS / 4,
                                   .key_dim = 128,
                                   .value_dim = 128,
                                   .mode = CLATTN_MODE_CHUNK};
    dump(context, desc, "one query");
}

/* The gradients of a rule by each solver, without options. */
static void dump_backward(clattn_context *context, clattn_rule rule, clattn_mode mode)
{
    const clattn_plan_desc desc = {.rule = rule,
                                   .dtype = CLATTN_BF16,
                                   .pass = CLATTN_PASS_BACKWARD,
                                   .batch = 1,
                                   .seq_len = 4096,
                                   .heads = HEADS,
                                   .key_dim = 128,
                                   .value_dim = 128,
                                   .mode = mode,
                                   .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE};

    dump(context, desc, "");
}

/* Levels as problems of the rule without them, which begin from no state. */
static void dump_pieces(clattn_context *context, clattn_rule rule)
{
    const clattn_plan_desc desc = {.rule = rule,
                                   .dtype = CLATTN_BF16,
                                   .batch = 1,
                                   .seq_len = 4096,
                                   .heads = HEADS,
                                   .key_dim = 128,
                                   .value_dim = 128,
                                   .mode = CLATTN_MODE_CHUNK,
                                   .flags = CLATTN_FINAL_STATE};

    if (rule_has_levels(rule_get(rule)))
        dump(context, desc, "from zeros");
}

/* Rules of every kind of backward kernels: a log-decay a row or a channel, with and without an erase, of low rank, and
 * divided outputs. */
static const clattn_rule backward_kinds[] = {CLATTN_GATED_DELTA_RULE, CLATTN_DPLR, CLATTN_GLA, CLATTN_MLSTM};
enum { BACKWARD_KINDS = sizeof backward_kinds / sizeof *backward_kinds };

/* With many value columns in a group; with few, where other sub-groups may read; and with a sequence in segments. */
static void dump_matrix(clattn_context *context, clattn_rule rule, int variants)
{
    dump_rule(context, rule, CLATTN_MODE_CHUNK, HEADS, variants);
    if (context->engine->readers && rule_get(rule)->erase != ERASE_NONE)
        dump_rule(context, rule, CLATTN_MODE_CHUNK, FEW_HEADS, variants);
    if (context->engine->key_split == 1 || rule_get(rule)->erase == ERASE_NONE)
        dump_rule(context, rule, CLATTN_MODE_CHUNK, FEWEST_HEADS, variants);
}

/* f16 has words of its own, the same for every rule: here with the rule that keeps the most in registers. */
static void dump_f16(clattn_context *context)
{
    const clattn_plan_desc desc = {.rule = CLATTN_DPLR,
                                   .dtype = CLATTN_F16,
                                   .batch = 1,
                                   .seq_len = 4096,
                                   .heads = HEADS,
                                   .key_dim = 128,
                                   .value_dim = 128,
                                   .mode = CLATTN_MODE_CHUNK};
    dump(context, desc, "");
}

/* A rule of each kind on an engine that multiplies floats. */
static void dump_exact(clattn_context *context)
{
    static const clattn_rule kinds[] = {
        CLATTN_SIMPLE_GLA, CLATTN_GATED_DELTA_RULE, CLATTN_IPLR,           CLATTN_GLA, CLATTN_KDA,
        CLATTN_RWKV7,      CLATTN_SOFTMAX_ATTN,     CLATTN_FORGETTING_ATTN};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && context->engine->exact != FILE_nothing; i++)
        for (int dim = 64; dim <= 256; dim *= 2) {
            const clattn_plan_desc desc = {.rule = kinds[i],
                                           .batch = 1,
                                           .seq_len = 4096,
                                           .heads = HEADS,
                                           .key_dim = dim,
                                           .value_dim = dim,
                                           .mode = CLATTN_MODE_CHUNK,
                                           .flags = rule_has_list(rule_get(kinds[i]))
                                                        ? CLATTN_WITH_LSE
                                                        : CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE};
            dump(context, desc, "");
        }
}

/* A product by a way, with untransposed operands and with both transposed. */
static void dump_product(clattn_context *context, const struct gemm_way *way, clattn_dtype dtype, int rows)
{
    static const uint32_t turns[] = {0, CLATTN_GEMM_TRANS_A | CLATTN_GEMM_TRANS_B};
    const struct device_facts facts = {
        .device = &context->device, .engine = context->engine, .most_group = GEMM_MOST_GROUP};

    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        const clattn_gemm_desc desc = {.dtype = dtype, .flags = turns[i], .m = rows, .n = 4096, .k = 4096};
        struct gemm gemm;
        struct gemm_choice choice;
        struct kernel built;
        is_backward = 0;
        snprintf(label, sizeof label, "a product %s%s", dtype_name(dtype), turns[i] != 0 ? " turned" : "");
        if (gemm_read(&gemm, &desc, sizeof desc, &context->log) != CLATTN_SUCCESS ||
            gemm_choose(&choice, way, &facts, &gemm, NULL) != CLATTN_SUCCESS) {
            fprintf(stderr, "%s: no tiles\n", label);
            failed = 1;
            continue;
        }
        if (kernel_create(context, &context->log, &choice.shape.step, &built, NULL) != CLATTN_SUCCESS)
            failed = 1;
        kernel_release(context, &built);
    }
}

enum { ENGINE_LOCAL_MEMORY = 48 << 10, INTEL_LOCAL_MEMORY = 64 << 10, TEAMS_GROUP = 1024 };

/* The kernels of one engine, for every rule or for the named ones. */
static int dump_engine(clattn_context *context, const char *name, char **rules)
{
    context->engine = engine_get(name);
    if (context->engine == NULL) {
        fprintf(stderr, "no matrix engine is named %s; there are %s\n", name, engine_names());
        return 2;
    }
    context->device.info.local_memory = context->device.sub_group != 0 ? INTEL_LOCAL_MEMORY : ENGINE_LOCAL_MEMORY;
    if (context->engine->team != FILE_nothing)
        context->device.info.max_work_group = TEAMS_GROUP;
    recording_set_engine(context, context->engine);
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; *rules == NULL && rule < RULE_COUNT; rule++)
        dump_matrix(context, rule, 0);
    for (int i = 0; i < BACKWARD_KINDS; i++)
        dump_backward(context, backward_kinds[i], CLATTN_MODE_CHUNK);
    for (; *rules != NULL; rules++) {
        if (clattn_rule_find(*rules) == CLATTN_RULE_NONE) {
            fprintf(stderr, "no rule is named %s\n", *rules);
            return 2;
        }
        dump_matrix(context, clattn_rule_find(*rules), 1);
    }
    dump_f16(context);
    dump_exact(context);
    dump_product(context, &gemm_matrix, CLATTN_BF16, 4096);
    if (context->engine->team != FILE_nothing)
        dump_product(context, &gemm_team, CLATTN_BF16, 4096);
    return failed;
}

static void dump_plain(clattn_context *context)
{
    static const clattn_rule kinds[] = {CLATTN_SIMPLE_GLA, CLATTN_GATED_DELTA_RULE, CLATTN_KDA};

    for (clattn_mode mode = CLATTN_MODE_RECURRENT; mode <= CLATTN_MODE_CHUNK; mode++) {
        for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
            if (check_mode_applies(rule, mode))
                dump_rule(context, rule, mode, HEADS, 0);
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            dump_sizes(context, kinds[i], mode);
        for (int i = 0; i < BACKWARD_KINDS; i++)
            dump_backward(context, backward_kinds[i], mode);
    }
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        dump_pieces(context, rule);
    dump_decode(context, CLATTN_SOFTMAX_ATTN, CLATTN_WITH_KV_LENS, 0);
    dump_decode(context, CLATTN_FORGETTING_ATTN, CLATTN_QK_L2NORM, 0);
    dump_decode(context, CLATTN_PATH_ATTN, CLATTN_CARRY, 16);
    dump_product(context, &gemm_lanes, CLATTN_F32, 4096);
    dump_product(context, &gemm_lanes, CLATTN_BF16, 4096);
    dump_product(context, &gemm_gemv, CLATTN_F32, 1);
}

int main(int argc, char **argv)
{
    struct tuning_layers no_tuning = {.path = NULL};
    struct recording recording = {.kernel = write_kernel};
    clattn_context context;

    if (argc < 2) {
        fprintf(stderr, "usage: clattn_dump_kernels DIRECTORY [SUB_GROUP [ENGINE [RULE ...]]]\n");
        return 2;
    }
    directory = argv[1];
    recording_open(&context, &recording, &no_tuning);
    context.log.fn = print_log;
    context.most_unheld = INT_MAX; /* each kernel is written once */
    context.device.info = usual_gpu;
    if (argc > 2)
        context.device.sub_group = atoi(argv[2]);
    if (argc < 4)
        dump_plain(&context);
    else
        failed = dump_engine(&context, argv[3], argv + 4);
    recording_close(&context, &recording);
    printf("%d kernels\n", written);
    return failed;
}
