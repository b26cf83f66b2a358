/* test_local [ENGINE]: of every kernel that plans have, with an engine too, the local memory that its step counts, by
 * which tiles are cut to fit a device, is what the device says the built kernel has. */
#include "harness.h"

#include "device/context.h"
#include "plan/plan.h"

#include <stdio.h>

static int kernels, wrong;

static void check_step(const clattn_plan *plan, int step, const char *name)
{
    const struct device *device = &plan->context->device;
    const struct kernel_step *of = &plan->bound.built.steps[step];
    cl_ulong has = 0, counted = of->local_bytes;

    if (plan->bound.kernels[step].cl == NULL)
        return;
    assert_int_equal(device->cl->GetKernelWorkGroupInfo(plan->bound.kernels[step].cl, device->info.device,
                                                        CL_KERNEL_LOCAL_MEM_SIZE, sizeof has, &has, NULL),
                     CL_SUCCESS);
    kernels++;
    if (has == counted)
        return;
    print_error("%s: %s has %llu bytes of local memory, its step counts %llu\n", name, of->name,
                (unsigned long long)has, (unsigned long long)counted);
    wrong++;
}

static void check_rule(clattn_context *context, clattn_rule rule, clattn_mode mode, clattn_dtype dtype)
{
    for (int variant = 0;; variant++) {
        clattn_plan_desc desc = {.rule = rule,
                                 .dtype = dtype,
                                 .batch = 1,
                                 .seq_len = 256,
                                 .heads = 4,
                                 .key_dim = rule_get(rule)->decay == DECAY_PRODUCT ? 16 : 64,
                                 .value_dim = 64,
                                 .mode = mode,
                                 .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE};
        const char *name = check_variant(rule, variant, &desc);
        clattn_plan *plan;
        if (name == NULL)
            return;
        if (plan_create(&plan, context, &desc, NULL) != CLATTN_SUCCESS)
            continue;
        for (int i = 0; i < plan->bound.built.step_count; i++)
            check_step(plan, i, rule_get(rule)->name);
        clattn_plan_destroy(plan);
    }
}

static void every_kernel_has_what_its_step_counts(void **state)
{
    clattn_context *context = test_engine_device.context;

    (void)state;
    if (context->device.optimised) /* arrays that a kernel does not need are gone */
        skip();
    context->self_test = 0; /* nothing is run */
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        for (clattn_mode mode = CLATTN_MODE_RECURRENT; mode <= CLATTN_MODE_CHUNK; mode++)
            if (check_mode_applies(rule, mode)) {
                check_rule(context, rule, mode, CLATTN_F32);
                if (context->engine != NULL)
                    check_rule(context, rule, mode, CLATTN_BF16);
            }
    print_message("%d kernels\n", kernels);
    assert_true(kernels > 0);
    assert_int_equal(wrong, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kernel_has_what_its_step_counts)};

    test_engine = argc > 1 ? argv[1] : test_engine;
    return cmocka_run_group_tests(tests, test_engine_open, test_engine_close);
}
