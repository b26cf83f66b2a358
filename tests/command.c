#include "command.h"

#include <stdio.h>

const char *test_path(const char *name)
{
    static char paths[5][512];
    static int next;
    char *path = paths[next++ % 5];

    snprintf(path, sizeof paths[0], "%s/%s", test_folder(), name);
    return path;
}

void test_write_file(const char *path, const struct safetensor *list, size_t count)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(safetensors_write(file, list, count, NULL), 0);
    assert_int_equal(fclose(file), 0);
}

struct settings test_run_settings(const clattn_plan_desc *desc, const char *device)
{
    static const struct command command = {.name = "run", .bit = COMMAND_RUN};

    return (struct settings){.command = &command,
                             .desc = *desc,
                             .input = test_path("in"),
                             .output = test_path("out"),
                             .device = device,
                             .rules = {desc->rule},
                             .rule_count = 1,
                             .bound = -1,
                             .clobber = 1};
}

const char *test_device_name(void)
{
    return getenv("CLATTN_TEST_DEVICE");
}
