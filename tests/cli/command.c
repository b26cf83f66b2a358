#include "command.h"

#include <stdio.h>
#include <string.h>

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

struct settings test_layer_settings(const char *name, int64_t key_dim, const char *checkpoint, const char *x)
{
    static const struct command command = {.name = "layer", .bit = COMMAND_LAYER};

    return (struct settings){.command = &command,
                             .input = checkpoint,
                             .x = x,
                             .output = test_path("out"),
                             .device = "reference",
                             .files = {name},
                             .file_count = 1,
                             .shapes = {{.key_dim = key_dim}},
                             .shape_count = 1,
                             .clobber = 1};
}

int64_t test_key_dim(clattn_layer layer, const struct safetensors *numbers)
{
    const clattn_layer_desc desc = {.layer = layer, .flags = CLATTN_LAYER_FINAL_STATE};
    const struct safetensor *final = safetensors_find(numbers, "final_state");
    clattn_layer_part part;

    for (size_t i = 0; final != NULL && clattn_layer_part_describe(&desc, i, &part) == CLATTN_SUCCESS; i++)
        for (int d = 0; strcmp(part.name, "final_state") == 0 && d < part.rank; d++)
            if (strcmp(part.letters[d], "K") == 0)
                return final->dims[d];
    return 0;
}

const char *test_device_name(void)
{
    return getenv("CLATTN_TEST_DEVICE");
}
