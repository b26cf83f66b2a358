#include "cli/io/input.h"

#include <string.h>

int input_read(const char *path, struct safetensors *file)
{
    char error[512];
    int status = safetensors_read(path, file, error, sizeof error);

    if (status == SAFETENSORS_NO_MEMORY)
        return failed("%s: %s", input_name(path), error);
    return status != 0 ? bad("%s: %s", input_name(path), error) : EXIT_OK;
}

const char *input_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}
