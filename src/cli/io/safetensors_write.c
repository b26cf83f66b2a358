#include "base/json.h"
#include "cli/io/safetensors.h"

#include <stdlib.h>
#include <string.h>

static int add_tensor(cJSON *header, const struct safetensor *tensor, uint64_t offset)
{
    cJSON *item = cJSON_AddObjectToObject(header, tensor->name), *shape, *offsets;

    if (item == NULL || cJSON_AddStringToObject(item, "dtype", tensor->dtype) == NULL)
        return -1;
    shape = cJSON_AddArrayToObject(item, "shape");
    for (int i = 0; i < tensor->rank; i++)
        if (!cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)tensor->dims[i])))
            return -1;
    offsets = cJSON_AddArrayToObject(item, "data_offsets");
    if (!cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)offset)) ||
        !cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)(offset + tensor->bytes))))
        return -1;
    return 0;
}

static int by_element(const void *a, const void *b)
{
    const struct safetensor *x = a, *y = b;
    size_t first = safetensors_element(x->dtype), second = safetensors_element(y->dtype);

    if (first != second)
        return first > second ? -1 : 1;
    return strcmp(x->name, y->name);
}

static char *make_header(const struct safetensor *tensors, size_t count, const cJSON *metadata)
{
    cJSON *header = cJSON_CreateObject();
    uint64_t offset = 0;
    char *text = NULL;
    int fine = header != NULL;

    if (metadata != NULL && metadata->child != NULL)
        fine = fine && cJSON_AddItemToObject(header, "__metadata__", cJSON_Duplicate(metadata, 1));
    for (size_t i = 0; i < count && fine; i++) {
        fine = add_tensor(header, &tensors[i], offset) == 0;
        offset += tensors[i].bytes;
    }
    if (fine)
        text = json_text(header);
    cJSON_Delete(header);
    return text;
}

/* Writes the length and the text, padded with spaces so that the data begins at a multiple of 8. */
static int write_header(FILE *file, const char *text)
{
    size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    uint8_t prefix[SAFETENSORS_PREFIX];

    for (int i = 0; i < SAFETENSORS_PREFIX; i++)
        prefix[i] = (uint8_t)((uint64_t)padded >> 8 * i);
    if (fwrite(prefix, 1, sizeof prefix, file) != sizeof prefix || fwrite(text, 1, length, file) != length)
        return -1;
    return fwrite("        ", 1, padded - length, file) == padded - length ? 0 : -1;
}

int safetensors_write(FILE *file, const struct safetensor *tensors, size_t count, const struct cJSON *metadata)
{
    struct safetensor *sorted = malloc((count + 1) * sizeof *sorted);
    char *text = NULL;
    int status = -1;

    if (sorted != NULL) {
        memcpy(sorted, tensors, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, by_element);
        text = make_header(sorted, count, metadata);
    }
    if (text != NULL)
        status = write_header(file, text);
    for (size_t i = 0; i < count && status == 0; i++)
        if (fwrite(sorted[i].data, 1, sorted[i].bytes, file) != sorted[i].bytes)
            status = -1;
    cJSON_free(text);
    free(sorted);
    return status;
}
