/* The reader of safetensors files: any bytes are a file or give one line of error, and every tensor lies in the file. */
#include "fuzz.h"

#include "cli/io/safetensors.h"

#include <stdlib.h>
#include <string.h>

static void check_tensor(const struct safetensor *tensor, const uint8_t *data, size_t size)
{
    const uint8_t *begin = tensor->data;
    size_t before = (size_t)(begin - data);

    if (before > size || tensor->bytes > size - before || safetensors_element(tensor->dtype) == 0)
        abort();
    if (tensor->rank < 0 || tensor->rank > SAFETENSORS_MAX_RANK || tensor->name == NULL)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors file;
    char error[96] = "";

    if (safetensors_parse(data, size, &file, error, sizeof error) != 0) {
        if (error[0] == '\0' || memchr(error, '\0', sizeof error) == NULL)
            abort();
    } else {
        for (size_t i = 0; i < file.count; i++)
            check_tensor(&file.tensors[i], data, size);
        for (size_t i = 0; i < file.count; i++)
            if (safetensors_find(&file, file.tensors[i].name) != &file.tensors[i])
                abort();
    }
    safetensors_free(&file);
    return 0;
}
