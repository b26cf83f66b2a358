/* test_supports FILE…: clattn_supports and clattn_plan_create agree, on devices that say what the files have and on some of
 * little local memory: every rule and its variants, in every type and mode, of small and large heads. Nothing is
 * compiled: whatever is built is a success. */
#include "harness.h"

#include "device/context.h"
#include "tune/device_facts.h"

#include <stdio.h>
#include <string.h>

static struct opencl real;
static int object; /* what every handle points at */
static int pairs, supported;

static cl_program CL_API_CALL make_program(cl_context context, cl_uint n, const char **text, const size_t *length,
                                           cl_int *error)
{
    (void)context, (void)n, (void)text, (void)length;
    *error = CL_SUCCESS;
    return (cl_program)(void *)&object;
}

static cl_int CL_API_CALL build(cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
                                opencl_built built, void *user)
{
    (void)program, (void)n, (void)devices, (void)options, (void)built, (void)user;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_program(cl_program program)
{
    (void)program;
    return CL_SUCCESS;
}

static cl_kernel CL_API_CALL make_kernel(cl_program program, const char *name, cl_int *error)
{
    (void)program, (void)name;
    *error = CL_SUCCESS;
    return (cl_kernel)(void *)&object;
}

static cl_int CL_API_CALL release_kernel(cl_kernel kernel)
{
    (void)kernel;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL any_group(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info name, size_t size,
                                    void *value, size_t *whole)
{
    const size_t most = (size_t)1 << 20;

    (void)kernel, (void)device, (void)name, (void)whole;
    assert_int_equal(size, sizeof most);
    memcpy(value, &most, sizeof most);
    return CL_SUCCESS;
}

static int put_functions(void **state)
{
    struct opencl *cl = test_opencl_table();

    if (test_device_open(state) != 0)
        return 1;
    real = *cl;
    cl->CreateProgramWithSource = make_program;
    cl->BuildProgram = build;
    cl->ReleaseProgram = release_program;
    cl->CreateKernel = make_kernel;
    cl->ReleaseKernel = release_kernel;
    cl->GetKernelWorkGroupInfo = any_group;
    return 0;
}

static int take_functions(void **state)
{
    *test_opencl_table() = real;
    return test_device_close(state);
}

/* Devices with so little local memory that some solvers have no tiles, of each kind that solvers are chosen for. */
static const struct invented {
    const char *name;
    uint64_t local_memory;
    int serial, sub_group;
} invented[] = {{"a CPU of 8 KiB", 8192, 1, 0},
                {"Intel's of 4 KiB", 4096, 0, 8},
                {"a GPU of 1 KiB", 1024, 0, 0},
                {"a GPU of 16 KiB", 16384, 0, 0}};

/* A context whose engine works. */
static clattn_context *open_context(const char *engine)
{
    clattn_context *context;

    assert_status(clattn_context_create(&context, &(clattn_context_desc){.cl = test_device.cl,
                                                                         .device = test_device.device,
                                                                         .cache_dir = "",
                                                                         .tuning = "",
                                                                         .self_test = -1,
                                                                         .engine = engine}),
                  SUCCESS);
    for (int team = 0; team < 2; team++)
        for (int dtype = CLATTN_F32; dtype <= CLATTN_BF16; dtype++)
            context->probed[team][dtype].answer = PROBE_RIGHT;
    return context;
}

static void compare(clattn_context *context, const clattn_plan_desc *desc, const char *what)
{
    clattn_status supports = clattn_supports(context, desc), made;
    clattn_plan *plan = NULL;

    made = clattn_plan_create(&plan, context, desc);
    clattn_plan_destroy(plan);
    pairs++;
    supported += made == CLATTN_SUCCESS;
    if (supports != made)
        fail_msg("%s: %s, %s, mode %d, chunk %d, K=%d, V=%d: clattn_supports says %s, clattn_plan_create %s", what,
                 test_rule_name(desc->rule), dtype_name(desc->dtype), (int)desc->mode, (int)desc->chunk,
                 (int)desc->key_dim, (int)desc->value_dim, clattn_status_text(supports), clattn_status_text(made));
}

/* Every rule; and its variants, where those are asked for. */
static void compare_rules(clattn_context *context, const clattn_plan_desc *usual, int variants, const char *what)
{
    for (int rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        for (int variant = 0; variant == 0 || variants; variant++) {
            clattn_plan_desc desc = *usual;
            desc.rule = (clattn_rule)rule;
            check_fit(&desc);
            if (check_variant(desc.rule, variant, &desc) == NULL)
                break;
            compare(context, &desc, what);
        }
}

static const struct asked {
    clattn_mode mode;
    int chunk, dim;
    clattn_dtype dtype;
    int variants;
} asked[] = {
    {CLATTN_MODE_AUTO, 0, 16, CLATTN_F32, 1},   {CLATTN_MODE_AUTO, 0, 256, CLATTN_BF16, 0},
    {CLATTN_MODE_CHUNK, 0, 16, CLATTN_F32, 0},  {CLATTN_MODE_CHUNK, 64, 256, CLATTN_F32, 0},
    {CLATTN_MODE_CHUNK, 0, 64, CLATTN_F16, 0},  {CLATTN_MODE_RECURRENT, 0, 256, CLATTN_F32, 0},
    {CLATTN_MODE_CHUNK, 0, 256, CLATTN_F32, 0}, {CLATTN_MODE_AUTO, 0, 576, CLATTN_BF16, 0},
};

static void compare_all(clattn_context *context, const char *what)
{
    for (size_t i = 0; i < COUNT(asked); i++) {
        const clattn_plan_desc desc = {.dtype = asked[i].dtype,
                                       .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                                       .seq_len = 300,
                                       .heads = 4,
                                       .key_dim = asked[i].dim,
                                       .value_dim = asked[i].dim,
                                       .chunk = asked[i].chunk,
                                       .mode = asked[i].mode};
        compare_rules(context, &desc, asked[i].variants, what);
    }
    clattn_context_destroy(context);
}

static void test_file(void **state)
{
    const struct log log = {test_log, NULL};
    clattn_context *context = open_context("none");

    assert_status(device_facts_read(*state, &context->device, &log), SUCCESS);
    compare_all(context, *state);
}

static void test_invented(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(invented); i++) {
        clattn_context *context = open_context(i % 2 == 0 ? "none" : "nvidia_emulated");
        context->device.info.local_memory = invented[i].local_memory;
        context->device.info.max_work_group = 256;
        context->device.info.gpu = !invented[i].serial;
        context->device.serial = invented[i].serial;
        context->device.sub_group = invented[i].sub_group;
        compare_all(context, invented[i].name);
    }
    assert_true(supported > 0 && supported < pairs);
}

int main(int argc, char **argv)
{
    enum { MOST = 64 };
    static struct CMUnitTest tests[MOST];
    int count = 0;

    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_invented);
    for (int i = 1; i < argc && count < MOST; i++)
        tests[count++] = (struct CMUnitTest){argv[i], test_file, NULL, NULL, argv[i]};
    return _cmocka_run_group_tests("supports", tests, (size_t)count, put_functions, take_functions);
}
