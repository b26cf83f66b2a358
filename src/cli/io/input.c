#include "cli/io/input.h"

#include <string.h>

static int input_open(const char *path, struct safetensors *file,
                      int (*open)(const char *, struct safetensors *, char *, size_t))
{
    char error[512];
    int status = open(path, file, error, sizeof error);

    if (status == SAFETENSORS_NO_MEMORY)
        return failed("%s: %s", input_name(path), error);
    return status != 0 ? bad("%s: %s", input_name(path), error) : EXIT_OK;
}

int input_read(const char *path, struct safetensors *file)
{
    return input_open(path, file, safetensors_read);
}

int input_map(const char *path, struct safetensors *file)
{
    return input_open(path, file, safetensors_map);
}

const char *input_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}
