/* Which device is the default: machines by what their devices say of themselves (lies.h). */
#include "harness.h"

#include "device/context.h"
#include "ledger.h"
#include "lies.h"

#include <stdio.h>
#include <string.h>

#define NVIDIA "platform=NVIDIA CUDA;vendor_id=4318;type=gpu;unified=0;"
#define AMD "platform=AMD Accelerated Parallel Processing;vendor_id=4098;type=gpu;unified=0;"
#define INTEL "platform=Intel(R) OpenCL Graphics;vendor_id=32902;type=gpu;"
#define RUSTICL "platform=rusticl;type=gpu;"
#define IRIS INTEL "unified=1;units=96;clock=1300;"
#define RTX_3050 NVIDIA "units=20;clock=1500;"

/* Devices named by letters in the order in which they are to be ranked, listed in another. */
static const struct machine {
    const char *name, *lies;
} machines[] = {
    {"a laptop", IRIS "name=b|" RTX_3050 "name=a"},
    {"an integrated GPU with more lanes", AMD "unified=1;units=40;clock=2900;name=b|" RTX_3050 "name=a"},
    {"kinds", "name=llvmpipe, f|type=accelerator;units=900;name=e|type=cpu;units=64;clock=4000;name=c|"
              "type=cpu;units=32;clock=4000;name=d|" IRIS "name=b|" RTX_3050 "name=a"},
    {"units of three vendors", INTEL "unified=0;units=512;clock=2100;name=c|" NVIDIA "units=128;clock=2500;name=a|" AMD
                                     "units=60;clock=2400;name=b"},
    {"clocks", NVIDIA "units=20;clock=1500;name=b|" NVIDIA "units=20;clock=1700;name=a"},
    {"a driver without clocks", NVIDIA "units=20;clock=0;name=b|" NVIDIA "units=30;clock=0;name=a"},
    {"the same twice", NVIDIA "units=20;clock=1500;name=a|" NVIDIA "units=20;clock=1500;name=b"},
    {"no compiler", NVIDIA "units=128;compiler=0;name=b|type=cpu;name=a"},
    {"not available", NVIDIA "units=128;available=0;name=b|type=cpu;name=a"},
    {"OpenCL 1.1", NVIDIA "units=128;version=OpenCL 1.1 CUDA;name=b|type=cpu;version=OpenCL 1.2 PoCL;name=a"},
    {"several that cannot be used", "type=cpu;compiler=0;name=c|" NVIDIA "compiler=0;name=b|type=cpu;name=a"},
    {"two platforms", RUSTICL "vendor_id=4098;unified=0;units=900;clock=9000;name=c|" AMD
                              "units=20;clock=1000;name=b|" RTX_3050 "name=a"},
    {"two platforms, by bus", RUSTICL "vendor_id=4098;unified=0;bus=3;units=9;name=c|" AMD
                                      "units=90;clock=1000;bus=7;name=a|" AMD "units=20;clock=1000;bus=3;name=b"},
    {"the vendor's cannot be used",
     AMD "units=20;compiler=0;name=b|" RUSTICL "vendor_id=4098;unified=0;units=20;name=a"},
};

static void put(const char *lies)
{
    if (!lies_put(test_opencl_table(), lies))
        fail_msg("PoCL has too few devices: POCL_DEVICES");
}

/* The letter at a name's end. */
static char letter(const char *name)
{
    return name[strlen(name) - 1];
}

static void test_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(machines); i++) {
        clattn_device_info infos[16];
        char order[17] = "";
        size_t count = 0;
        put(machines[i].lies);
        assert_status(clattn_devices(infos, COUNT(infos), &count), SUCCESS);
        for (size_t j = 0; j < count && j < COUNT(infos); j++)
            order[j] = letter(infos[j].name);
        if (count < 2 || strncmp(order, "abcdef", count) != 0)
            fail_msg("%s: %s", machines[i].name, order);
    }
}

/* What a machine's devices come to in a context, and what the log says of it. */
static const struct {
    const char *name, *lies;
    char asked, taken; /* a device's letter; 0: none */
    clattn_status status;
    const char *logged;
} contexts[] = {
    {"the best", IRIS "name=b|" RTX_3050 "name=a", 0, 'a', CLATTN_SUCCESS, NULL},
    {"a driver that fails", IRIS "name=b|" RTX_3050 "context=fails;name=a", 0, 'b', CLATTN_SUCCESS,
     "a is passed over: clCreateContext: CL_OUT_OF_RESOURCES"},
    {"what cannot be used is not tried", IRIS "name=a|" RTX_3050 "compiler=0;name=b", 0, 'a', CLATTN_SUCCESS, NULL},
    {"asked for", IRIS "name=b|" RTX_3050 "name=a", 'b', 'b', CLATTN_SUCCESS, NULL},
    {"asked for, no compiler", "name=a|name=b;compiler=0", 'b', 0, CLATTN_NO_DEVICE, "no compiler for kernels"},
    {"asked for, not available", "name=a|name=b;available=0", 'b', 0, CLATTN_NO_DEVICE, "CL_DEVICE_AVAILABLE"},
    {"asked for, old", "name=a|name=b;version=OpenCL 1.0 x", 'b', 0, CLATTN_NO_DEVICE, "OpenCL 1.2"},
    {"asked for, fails", "name=a|name=b;context=fails", 'b', 0, CLATTN_DEVICE_ERROR, "CL_OUT_OF_RESOURCES"},
    {"none to be used", "name=a;compiler=0", 0, 0, CLATTN_NO_DEVICE, "a: it has no compiler for kernels"},
    {"all fail", "name=a;context=fails|name=b;context=fails", 0, 0, CLATTN_DEVICE_ERROR, "none of 2 OpenCL devices"},
};

static cl_device_id device_named(char name)
{
    clattn_device_info infos[16];
    size_t count = 0;

    assert_status(clattn_devices(infos, COUNT(infos), &count), SUCCESS);
    for (size_t i = 0; i < count && i < COUNT(infos); i++)
        if (letter(infos[i].name) == name)
            return infos[i].device;
    return NULL;
}

static void test_contexts(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(contexts); i++) {
        clattn_context_desc desc = {.log = test_log, .cache_dir = ""};
        clattn_context *context;
        clattn_status status;
        put(contexts[i].lies);
        desc.device = contexts[i].asked != 0 ? device_named(contexts[i].asked) : NULL;
        test_log_clear();
        status = clattn_context_create(&context, &desc);
        if (status != contexts[i].status || (contexts[i].logged == NULL && test_log_text[0] != '\0') ||
            (contexts[i].logged != NULL && strstr(test_log_text, contexts[i].logged) == NULL))
            fail_msg("%s: %s\n%s", contexts[i].name, clattn_status_text(status), test_log_text);
        if (context != NULL)
            assert_int_equal(letter(context->device.info.name), contexts[i].taken);
        clattn_context_destroy(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order, ledger_begin, ledger_check),
        cmocka_unit_test_setup_teardown(test_contexts, ledger_begin, ledger_check),
    };

    ledger_open();
    return cmocka_run_group_tests(tests, NULL, NULL) + ledger_close();
}
