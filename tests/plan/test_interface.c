/* The public interface as programs of other versions and habits call it: operands as a list, structs of other sizes,
 * host memory, contexts that know nothing of their surroundings. */
#include "harness.h"

#include "base/file.h"
#include "device/context.h"
#include "tune/tuning_layers.h"
#include "ledger.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const clattn_plan_desc usual = {.rule = CLATTN_GATED_DELTA_RULE,
                                       .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                                       .batch = 2,
                                       .seq_len = 40,
                                       .heads = 2,
                                       .key_dim = 16,
                                       .value_dim = 12,
                                       .mode = CLATTN_MODE_CHUNK};

/* A plan with operands on the device, as the list that a caller writes; room for two more. */
struct given {
    clattn_plan *plan;
    struct check_tensors tensors;
    struct arguments arguments;
    clattn_operand list[OPERAND_COUNT + 2];
    clattn_call call;
};

static void given_open(struct given *given)
{
    test_log_clear();
    assert_status(clattn_plan_create(&given->plan, test_device.context, &usual), SUCCESS);
    test_make(&given->tensors, &usual, CHECK_GATES_USUAL, NULL);
    given->arguments = test_operands(&given->tensors, given->plan);
    given->call = arguments_call(&given->arguments, given->list);
}

static void given_close(struct given *given)
{
    assert_int_equal(opencl_get()->Finish(test_device.queue), CL_SUCCESS);
    test_operands_free(&given->arguments);
    check_free(&given->tensors);
    clattn_plan_destroy(given->plan);
}

#define assert_refused(given, status, words)                                                                           \
    do {                                                                                                               \
        test_log_clear();                                                                                              \
        assert_status(clattn_enqueue((given)->plan, test_device.queue, &(given)->call, 0, NULL, NULL), status);        \
        assert_logged(words);                                                                                          \
    } while (0)

/* ---- Operands ---------------------------------------------------------------------------------------------------- */

static void test_ids(void **state)
{
    static const struct {
        int id;
        const char *words;
    } unexpected[] = {{CLATTN_P, "p is unexpected"},
                      {CLATTN_GRADIENTS + CLATTN_Q, "d_q is unexpected"},
                      {CLATTN_OPERAND_NONE, "operand id 0 is unexpected"},
                      {CLATTN_GRADIENTS, "operand id 256 is unexpected"},
                      {77, "operand id 77 is unexpected"},
                      {-1, "is unexpected"}};
    struct given given;
    clattn_operand *last;

    (void)state;
    given_open(&given);
    last = &given.list[given.call.operand_count++];
    *last = given.list[0];
    assert_refused(&given, INVALID_OPERAND, "q is given twice");
    for (size_t i = 0; i < COUNT(unexpected); i++) {
        last->id = (clattn_operand_id)unexpected[i].id;
        assert_refused(&given, INVALID_OPERAND, unexpected[i].words);
    }
    given.call.operand_count -= 2;
    assert_refused(&given, INVALID_OPERAND, "operand final_state is missing");
    given.list[0].host = &given;
    given.list[0].buffer = NULL;
    assert_refused(&given, INVALID_OPERAND, "operand q is missing: it has .host, and clattn_enqueue reads .buffer");
    given.call.operands = NULL;
    assert_refused(&given, INVALID_OPERAND, "operands is NULL");
    given.call.operand_count = 0;
    assert_refused(&given, INVALID_OPERAND, "operand q is missing");
    given_close(&given);
}

static void test_foreign_buffers(void **state)
{
    struct given given;
    struct check_device other;
    cl_mem own, foreign;
    cl_int error;

    (void)state;
    given_open(&given);
    assert_status(check_device_open(&other, test_device.device, test_log, NULL), SUCCESS);
    foreign = opencl_get()->CreateBuffer(other.cl, CL_MEM_READ_WRITE, 1 << 20, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    own = given.list[0].buffer;
    given.list[0].buffer = foreign;
    assert_refused(&given, INVALID_OPERAND, "q: its buffer belongs to another context");
    given.list[0].buffer = own;
    given.call.workspace = foreign;
    assert_refused(&given, INVALID_WORKSPACE, "workspace: its buffer belongs to another context");
    opencl_get()->ReleaseMemObject(foreign);
    check_device_close(&other);
    given_close(&given);
}

static void test_waits(void **state)
{
    cl_event none[2] = {NULL, NULL}, done = (cl_event)&done;
    struct given given;

    (void)state;
    given_open(&given);
    assert_status(clattn_enqueue(given.plan, test_device.queue, &given.call, 2, none, &done), INVALID_ARGUMENT);
    assert_null(done);
    assert_logged("wait does not hold 2 events");
    assert_status(clattn_enqueue(given.plan, test_device.queue, &given.call, 0, none, NULL), INVALID_ARGUMENT);
    given_close(&given);
}

static clattn_operand *find(struct given *given, clattn_operand_id id)
{
    size_t i = 0;

    while (given->list[i].id != id)
        i++;
    return &given->list[i];
}

/* An output [2, 40, 2, 12] in all orders of its axes is taken; one element less apart is not. */
static void test_overlap(void **state)
{
    static const struct {
        int64_t batch, token, head;
        const char *words;
    } bad[] = {{1, 1, 1, "o overlaps itself: its batch stride is 1, expected 12 or more"},
               {960, 24, 11, "o overlaps itself: its head stride is 11, expected 12 or more"},
               {960, 23, 12, "o overlaps itself: its token stride is 23, expected 24 or more"},
               {959, 24, 12, "o overlaps itself: its batch stride is 959, expected 960 or more"},
               {0, 24, 12, "o overlaps itself: its batch stride is 0, expected 12 or more"}};
    struct given given;
    clattn_operand *o, *q;

    (void)state;
    given_open(&given);
    o = find(&given, CLATTN_O);
    for (size_t i = 0; i < COUNT(bad); i++) {
        o->batch_stride = bad[i].batch, o->token_stride = bad[i].token, o->head_stride = bad[i].head;
        assert_refused(&given, INVALID_OPERAND, bad[i].words);
    }
    o->batch_stride = 12, o->token_stride = 48, o->head_stride = 24;
    q = find(&given, CLATTN_Q); /* an input may repeat itself */
    q->batch_stride = 0, q->token_stride = 1, q->head_stride = 0;
    assert_status(clattn_enqueue(given.plan, test_device.queue, &given.call, 0, NULL, NULL), SUCCESS);
    given_close(&given);
}

/* Less memory than the buffer has, where the caller says so. */
static void test_given_sizes(void **state)
{
    struct given given;
    clattn_operand *k;
    size_t workspace;

    (void)state;
    given_open(&given);
    k = find(&given, CLATTN_K);
    k->size = given.tensors.tensor[CLATTN_K].bytes - 4;
    assert_refused(&given, INVALID_OPERAND, "k needs 2560 elements of 4 bytes, its memory holds 2559");
    k->size += 4;
    assert_status(clattn_plan_workspace_size(given.plan, &workspace), SUCCESS);
    given.call.workspace_size = workspace - 1;
    assert_refused(&given, INVALID_WORKSPACE, "workspace has");
    given.call.workspace_size = workspace;
    assert_status(clattn_enqueue(given.plan, test_device.queue, &given.call, 0, NULL, NULL), SUCCESS);
    given_close(&given);
}

/* ---- Types of operands ------------------------------------------------------------------------------------------- */

static clattn_plan_desc typed(clattn_operand_id id, clattn_dtype dtype, clattn_operand_id other)
{
    clattn_plan_desc desc = usual;

    desc.operand_types[desc.operand_type_count++] = (clattn_operand_type){id, dtype};
    if (other != CLATTN_OPERAND_NONE)
        desc.operand_types[desc.operand_type_count++] = (clattn_operand_type){other, dtype};
    return desc;
}

static void test_types(void **state)
{
    clattn_plan_desc desc = typed(CLATTN_G, CLATTN_BF16, CLATTN_BETA), full;
    clattn_operand_info info;

    (void)state;
    assert_status(clattn_plan_desc_complete(&full, &desc, NULL, NULL), SUCCESS);
    assert_int_equal(full.gate_dtype, CLATTN_BF16); /* all gates: the same as said of them at once */
    assert_int_equal(full.operand_type_count, 0);
    desc = typed(CLATTN_BETA, CLATTN_BF16, CLATTN_OPERAND_NONE);
    assert_status(clattn_plan_desc_complete(&full, &desc, NULL, NULL), SUCCESS);
    assert_int_equal(full.gate_dtype, CLATTN_F32);
    assert_int_equal(full.operand_type_count, 1);
    assert_status(clattn_operand_describe(&desc, CLATTN_BETA, &info), SUCCESS);
    assert_int_equal(info.dtype, CLATTN_BF16);
    assert_int_equal(info.element_size, 2);
    assert_status(clattn_operand_describe(&desc, CLATTN_G, &info), SUCCESS);
    assert_int_equal(info.element_size, 4);
    assert_status(clattn_supports(test_device.context, &desc), SUCCESS);
    desc = typed(CLATTN_K, CLATTN_F16, CLATTN_OPERAND_NONE);
    desc.dtype = CLATTN_BF16; /* k is not of the others' type: kernels read all vectors in f32 */
    assert_status(clattn_plan_desc_complete(&full, &desc, NULL, NULL), SUCCESS);
    assert_int_equal(full.dtype, CLATTN_F32);
    assert_status(clattn_operand_describe(&full, CLATTN_Q, &info), SUCCESS);
    assert_int_equal(info.dtype, CLATTN_BF16);
    assert_status(clattn_supports(test_device.context, &desc), SUCCESS);
}

static void test_bad_types(void **state)
{
    const struct {
        clattn_plan_desc desc;
        const char *words;
    } bad[] = {{typed(CLATTN_P, CLATTN_F16, CLATTN_OPERAND_NONE), "operand_types names p"},
               {typed((clattn_operand_id)99, CLATTN_F16, CLATTN_OPERAND_NONE), "id 99"},
               {typed(CLATTN_SEQLENS, CLATTN_F16, CLATTN_OPERAND_NONE), "operand_types names cu_seqlens"},
               {typed(CLATTN_Q, (clattn_dtype)3, CLATTN_OPERAND_NONE), "dtype of operand_types is 3"}};
    clattn_plan_desc full, desc = usual;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        test_log_clear();
        assert_status(clattn_plan_desc_complete(&full, &bad[i].desc, test_log, NULL), INVALID_DESC);
        assert_logged(bad[i].words);
    }
    desc.operand_type_count = 9;
    assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), INVALID_DESC);
    assert_logged("operand_type_count is 9, expected 0 to 8");
}

/* The reference takes any: the same numbers from beta in f32 and from beta in bf16, which check_make has rounded. */
static void test_reference_types(void **state)
{
    clattn_plan_desc mixed = typed(CLATTN_BETA, CLATTN_BF16, CLATTN_OPERAND_NONE);
    struct check_tensors a, b;
    struct arguments operands;

    (void)state;
    test_make(&a, &mixed, CHECK_GATES_USUAL, NULL);
    test_make(&b, &usual, CHECK_GATES_USUAL, NULL);
    for (int64_t i = 0; i < check_count(&b.tensor[CLATTN_BETA].info); i++)
        test_set(&b, CLATTN_BETA, i, test_get(&a, CLATTN_BETA, i));
    check_operands(&operands, &a);
    assert_status(check_compute(&mixed, &operands, test_log, NULL), SUCCESS);
    check_operands(&operands, &b);
    assert_status(check_compute(&usual, &operands, test_log, NULL), SUCCESS);
    test_compare_all(&a, &b, 0, "beta in bf16");
    check_free(&a);
    check_free(&b);
}

/* ---- Structs of other sizes -------------------------------------------------------------------------------------- */

/* A struct as a newer header has it. */
#define NEWER(type)                                                                                                    \
    struct {                                                                                                           \
        type known;                                                                                                    \
        unsigned char more[24];                                                                                        \
    }

static void test_newer_inputs(void **state)
{
    NEWER(clattn_plan_desc) desc = {usual, {0}};
    NEWER(clattn_context_desc) surroundings = {{.cl = test_device.cl, .log = test_log}, {0}};
    clattn_context *context = NULL;
    clattn_plan *plan = NULL;

    (void)state;
    assert_status(clattn_plan_create_sized(&plan, test_device.context, &desc.known, sizeof desc), SUCCESS);
    clattn_plan_destroy(plan);
    assert_status(clattn_context_create_sized(&context, &surroundings.known, sizeof surroundings), SUCCESS);
    clattn_context_destroy(context);
    desc.more[23] = surroundings.more[0] = 1;
    test_log_clear();
    assert_status(clattn_plan_create_sized(&plan, test_device.context, &desc.known, sizeof desc), INVALID_DESC);
    assert_null(plan);
    assert_logged("fields that this library (0.3.0) does not know");
    assert_status(clattn_supports_sized(test_device.context, &desc.known, sizeof desc), INVALID_DESC);
    test_log_clear();
    assert_status(clattn_context_create_sized(&context, &surroundings.known, sizeof surroundings), INVALID_DESC);
    assert_null(context);
    assert_logged("the context's desc has fields");
}

/* The operands of a newer program lie further apart. */
static void test_newer_call(void **state)
{
    NEWER(clattn_operand) list[OPERAND_COUNT];
    NEWER(clattn_call) call;
    struct given given;

    (void)state;
    given_open(&given);
    memset(list, 0, sizeof list);
    memset(&call, 0, sizeof call);
    call.known = given.call;
    call.known.operands = &list[0].known;
    for (size_t i = 0; i < given.call.operand_count; i++)
        list[i].known = given.list[i];
#define ENQUEUE                                                                                                        \
    clattn_enqueue_sized(given.plan, test_device.queue, &call.known, sizeof call, sizeof *list, 0, NULL, NULL)
    assert_status(ENQUEUE, SUCCESS);
    list[2].more[5] = 1;
    assert_status(ENQUEUE, INVALID_OPERAND);
    assert_logged("operands[2] has fields");
    list[2].more[5] = 0;
    call.more[0] = 1;
    assert_status(ENQUEUE, INVALID_ARGUMENT);
    assert_logged("the call has fields");
#undef ENQUEUE
    given_close(&given);
}

/* A program of before the last fields: they count as zero, whatever lies behind. */
static void test_older_inputs(void **state)
{
    clattn_plan_desc desc = usual, full;
    size_t before = offsetof(clattn_plan_desc, operand_type_count);

    (void)state;
    memset((char *)&desc + before, 0xff, sizeof desc - before);
    memset(&full, 0xee, sizeof full);
    assert_status(clattn_plan_desc_complete_sized(&full, &desc, before, test_log, NULL), SUCCESS);
    assert_int_equal(full.qk_heads, 2);
    assert_int_equal(((unsigned char *)&full)[before], 0xee);
    assert_status(clattn_plan_desc_complete(&full, &desc, NULL, NULL), INVALID_DESC);
}

/* Outputs: nothing past the caller's size, zeros past the library's. */
#define assert_output(type, call)                                                                                      \
    do {                                                                                                               \
        NEWER(type) whole, part;                                                                                       \
        type *info = &whole.known;                                                                                     \
        size_t size = sizeof whole, cut = sizeof whole.known - 8;                                                      \
        memset(&whole, 0xee, sizeof whole);                                                                            \
        memset(&part, 0xee, sizeof part);                                                                              \
        assert_status(call, SUCCESS);                                                                                  \
        for (size_t i = 0; i < sizeof whole.more; i++)                                                                 \
            assert_int_equal(whole.more[i], 0);                                                                        \
        info = &part.known;                                                                                            \
        size = cut;                                                                                                    \
        assert_status(call, SUCCESS);                                                                                  \
        assert_memory_equal(&part, &whole, cut);                                                                       \
        for (size_t i = cut; i < sizeof part; i++)                                                                     \
            assert_int_equal(((unsigned char *)&part)[i], 0xee);                                                       \
    } while (0)

static void test_outputs(void **state)
{
    clattn_plan *plan = NULL;

    (void)state;
    assert_status(clattn_plan_create(&plan, test_device.context, &usual), SUCCESS);
    assert_output(clattn_plan_info, clattn_plan_get_sized(plan, info, size));
    assert_output(clattn_rule_info, clattn_rule_describe_sized(CLATTN_KDA, info, size));
    assert_output(clattn_operand_info, clattn_operand_describe_sized(&usual, sizeof usual, CLATTN_Q, info, size));
    clattn_plan_destroy(plan);
}

static void test_device_strides(void **state)
{
    NEWER(clattn_device_info) wide[8];
    clattn_device_info all[8];
    size_t count = 0, again = 0;

    (void)state;
    assert_status(clattn_devices(all, COUNT(all), &count), SUCCESS);
    assert_in_range(count, 1, COUNT(all));
    memset(wide, 0xee, sizeof wide);
    assert_status(clattn_devices_sized(&wide[0].known, sizeof *wide, COUNT(wide), &again), SUCCESS);
    assert_int_equal(again, count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(wide[i].known.name, all[i].name);
    assert_int_equal(wide[count - 1].more[0], 0);
}

/* ---- Host memory, and plans not made ------------------------------------------------------------------------------
 */

/* clattn_run on tensors with gaps, whose gaps stay; in place. */
static void test_host_run(void **state)
{
    enum { GAP = 5, WIDTH = 12 + GAP };
    struct check_tensors tensors, expected;
    struct arguments operands;
    clattn_operand list[OPERAND_COUNT];
    clattn_call call;
    clattn_plan *plan = NULL;
    int64_t rows;
    float *o;

    (void)state;
    test_log_clear();
    test_make(&tensors, &usual, CHECK_GATES_USUAL, NULL);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    assert_status(clattn_plan_create(&plan, test_device.context, &usual), SUCCESS);
    rows = check_count(&tensors.tensor[CLATTN_O].info) / 12;
    o = malloc((size_t)(rows * WIDTH) * sizeof *o);
    for (int64_t i = 0; i < rows * WIDTH; i++)
        o[i] = 7;
    check_operands(&operands, &tensors);
    operands.of[CLATTN_O] =
        (clattn_operand){.host = o, .batch_stride = 40 * 2 * WIDTH, .token_stride = 2 * WIDTH, .head_stride = WIDTH};
    operands.of[CLATTN_STATE_OUT].host = operands.of[CLATTN_STATE_IN].host;
    call = arguments_call(&operands, list);
    assert_status(clattn_run(plan, &call), SUCCESS);
    for (int64_t i = 0; i < rows * WIDTH; i++) {
        if (i % WIDTH >= 12)
            assert_true(o[i] == 7);
        else
            ((float *)tensors.tensor[CLATTN_O].data)[i / WIDTH * 12 + i % WIDTH] = o[i];
    }
    memcpy(tensors.tensor[CLATTN_STATE_OUT].data, tensors.tensor[CLATTN_STATE_IN].data,
           tensors.tensor[CLATTN_STATE_OUT].bytes);
    test_compare_all(&tensors, &expected, check_bound(CLATTN_F32), "clattn_run");
    for (size_t i = 0; i < call.operand_count; i++)
        if (list[i].id == CLATTN_G)
            list[i].size -= 4;
    assert_status(clattn_run(plan, &call), INVALID_OPERAND);
    assert_logged("g needs 160 elements of 4 bytes, its memory holds 159");
    call.operand_count--;
    assert_status(clattn_run(plan, &call), INVALID_OPERAND);
    assert_status(clattn_run(plan, NULL), INVALID_ARGUMENT);
    assert_status(clattn_run(NULL, &call), INVALID_ARGUMENT);
    free(o);
    check_free(&tensors);
    check_free(&expected);
    clattn_plan_destroy(plan);
}

static cl_int never_build(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                          opencl_built built, void *user)
{
    (void)program, (void)count, (void)devices, (void)options, (void)built, (void)user;
    fail_msg("clattn_supports compiles");
    return CL_BUILD_PROGRAM_FAILURE;
}

static void test_supports(void **state)
{
    struct opencl *cl = test_opencl_table();
    const struct opencl real = *cl;
    clattn_plan_desc desc = usual;
    clattn_context *context = NULL;

    (void)state;
    cl->BuildProgram = never_build;
    assert_status(clattn_context_create(&context, &(clattn_context_desc){.device = test_device.device,
                                                                         .engine = "nvidia_emulated",
                                                                         .log = test_log}),
                  SUCCESS);
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        for (int mode = CLATTN_MODE_AUTO; mode <= CLATTN_MODE_CHUNK; mode++) {
            desc = usual;
            desc.rule = rule;
            desc.mode = (clattn_mode)mode;
            desc.dtype = CLATTN_BF16;
            check_fit(&desc);
            test_log_clear();
            if (check_mode_applies(rule, desc.mode)) {
                assert_status(clattn_supports(context, &desc), SUCCESS);
                continue;
            }
            assert_status(clattn_supports(context, &desc), UNSUPPORTED);
            assert_logged(mode == CLATTN_MODE_CHUNK ? "mode chunk is for rules whose chunks are matrix products"
                                                    : "mode recurrent is for rules whose state is a matrix");
        }
    *cl = real;
    desc = usual;
    desc.key_dim = 1300;
    assert_status(clattn_supports(context, &desc), INVALID_DESC);
    assert_status(clattn_supports(context, NULL), INVALID_ARGUMENT);
    assert_status(clattn_supports(NULL, &desc), INVALID_ARGUMENT);
    clattn_context_destroy(context);
}

/* ---- Surroundings -------------------------------------------------------------------------------------------------
 */

static void put(const char *name, const char *value)
{
    if (value == NULL)
        assert_int_equal(unsetenv(name), 0);
    else
        assert_int_equal(setenv(name, value, 1), 0);
}

static void test_isolated(void **state)
{
    static const char *const names[] = {"CLATTN_ENGINE",    "CLATTN_TUNING", "CLATTN_DEVICE_FACTS", "CLATTN_SELF_TEST",
                                        "CLATTN_CACHE_DIR", "HOME",          "XDG_CACHE_HOME",      "XDG_CONFIG_HOME"};
    char *before[COUNT(names)], *home = file_join(test_folder(), "home"), *nonsense = file_join(home, "nonsense");
    clattn_context_desc desc = {.device = test_device.device, .log = test_log, .flags = CLATTN_ISOLATED};
    clattn_context *context = NULL;
    clattn_plan *plan = NULL;
    clattn_plan_info info;

    (void)state;
    mkdir(test_folder(), 0700);
    assert_int_equal(mkdir(home, 0700), 0);
    for (size_t i = 0; i < COUNT(names); i++) {
        before[i] = getenv(names[i]) != NULL ? strdup(getenv(names[i])) : NULL;
        put(names[i], i < 3 ? "nonsense" : i == 3 ? "0" : i == 4 ? nonsense : home);
    }
    test_log_clear();
    assert_status(clattn_context_create(&context, &(clattn_context_desc){.device = desc.device, .log = test_log}),
                  INVALID_ARGUMENT); /* it does read the environment otherwise */
    assert_logged("no matrix engine is named nonsense");
    assert_status(clattn_context_create(&context, &desc), SUCCESS);
    assert_null(context->tuning->path);
    assert_int_equal(context->self_test, 1);
    assert_status(clattn_plan_create(&plan, context, &usual), SUCCESS);
    assert_status(clattn_plan_get(plan, &info), SUCCESS);
    assert_int_equal(info.desc->qk_heads, 2);
    clattn_plan_destroy(plan);
    clattn_context_destroy(context);
    for (size_t i = 0; i < COUNT(names); i++) {
        put(names[i], before[i]);
        free(before[i]);
    }
    assert_int_equal(rmdir(home), 0); /* it is empty */
    free(home);
    free(nonsense);
}

static void test_context_fields(void **state)
{
    char *path = file_join(test_folder(), "none.json"), *folder = file_join(path, "cache");
    clattn_context_desc desc = {.device = test_device.device, .log = test_log, .tuning = path, .self_test = -1};
    clattn_context *context = NULL;
    FILE *file;

    (void)state;
    test_log_clear();
    assert_status(clattn_context_create(&context, &desc), SUCCESS);
    assert_logged("none.json: there is no such file of measured parameters");
    assert_int_equal(context->self_test, 0);
    assert_string_equal(context->tuning->path, path);
    clattn_context_destroy(context);
    file = fopen(path, "w"); /* a folder cannot be in a file */
    assert_non_null(file);
    fclose(file);
    desc.cache_dir = folder;
    assert_status(clattn_context_create(&context, &desc), SUCCESS);
    assert_logged("compiled programs cannot be kept there");
    clattn_context_destroy(context);
    remove(path);
    desc.cache_dir = NULL;
    desc.self_test = 1;
    desc.tuning = "";
    assert_status(clattn_context_create(&context, &desc), SUCCESS);
    assert_int_equal(context->self_test, 1);
    for (int layer = 0; layer < LAYER_COUNT; layer++)
        assert_int_equal(context->tuning->tables[layer].count, 0);
    clattn_context_destroy(context);
    test_log_clear();
    desc.self_test = 2;
    assert_status(clattn_context_create(&context, &desc), INVALID_DESC);
    assert_logged("self_test is 2");
    desc.self_test = 0;
    desc.flags = 2;
    assert_status(clattn_context_create(&context, &desc), INVALID_DESC);
    assert_logged("unknown bits: 0x2");
    free(path);
    free(folder);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, ledger_begin, ledger_check_plans)

static int open_device(void **state)
{
    ledger_open();
    return test_device_open(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ids),
        TEST(test_foreign_buffers),
        TEST(test_waits),
        TEST(test_overlap),
        TEST(test_given_sizes),
        TEST(test_types),
        TEST(test_bad_types),
        TEST(test_reference_types),
        TEST(test_newer_inputs),
        TEST(test_newer_call),
        TEST(test_outputs),
        TEST(test_older_inputs),
        TEST(test_device_strides),
        TEST(test_host_run),
        TEST(test_supports),
        TEST(test_isolated),
        TEST(test_context_fields),
    };
    return cmocka_run_group_tests(tests, open_device, test_device_close);
}
