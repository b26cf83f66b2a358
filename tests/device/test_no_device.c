/* test_no_device no-opencl|no-device: a machine without OpenCL, or without a driver for it. */
#include "harness.h"

#include <string.h>

int main(int argc, char **argv)
{
    int no_library = argc == 2 && strcmp(argv[1], "no-opencl") == 0;
    clattn_status expected = no_library ? CLATTN_NO_OPENCL : CLATTN_NO_DEVICE;
    clattn_context *context = (clattn_context *)&context;
    clattn_status status;
    size_t count = 7;

    status = clattn_devices(NULL, 0, &count);
    if (status != (no_library ? CLATTN_NO_OPENCL : CLATTN_SUCCESS) || count != 0) {
        print_error("clattn_devices: %s, %zu devices\n", clattn_status_text(status), count);
        return 1;
    }
    status = clattn_context_create(&context, &(clattn_context_desc){.log = test_log});
    if (status != expected || context != NULL || strlen(test_log_text) == 0) {
        print_error("clattn_context_create: %s, log: %s\n", clattn_status_text(status), test_log_text);
        return 1;
    }
    return 0;
}
