/* Reads safetensors files. The whole header is checked before any byte of data is read. */
#include "cli/io/safetensors.h"

#include "base/json.h"
#include "base/system.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_ITEMS = 1 << 20, /* commas in a header: limits the memory of its JSON tree */
    PADDING = 16         /* zero bytes after the header: cJSON before 1.7.18 reads past a text that ends early */
};

/* The size of a stream, which is read to its end. */
#define UNKNOWN UINT64_MAX

/* Where the message of an error goes. */
struct report {
    char *text;
    size_t size;
};

PRINTF_LIKE(2, 3)
static int report(const struct report *to, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    text_vfit(to->text, to->size, format, args);
    va_end(args);
    return -1;
}

static int no_memory(const struct report *to, size_t count, const char *what)
{
    report(to, "no memory for %zu %s", count, what);
    return SAFETENSORS_NO_MEMORY;
}

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {{"F32", 4},  {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"I64", 8},    {"F64", 8},
              {"BOOL", 1}, {"U8", 1},  {"I8", 1},      {"I16", 2},     {"U16", 2},    {"U32", 4},
              {"U64", 8},  {"C64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};

enum { DTYPES = sizeof dtypes / sizeof *dtypes };

size_t safetensors_element(const char *dtype)
{
    for (size_t i = 0; i < DTYPES; i++)
        if (strcmp(dtypes[i].name, dtype) == 0)
            return dtypes[i].bytes;
    return 0;
}

/* A JSON number that is a whole number from 0 to 2^53. */
static int whole(const cJSON *item, uint64_t *value)
{
    double number = cJSON_IsNumber(item) ? item->valuedouble : -1;

    if (!(number >= 0 && number <= 9007199254740992.0))
        return -1;
    *value = (uint64_t)number;
    return (double)*value == number ? 0 : -1;
}

static int read_dtype(const cJSON *item, struct safetensor *tensor, const struct report *error)
{
    if (!cJSON_IsString(item))
        return report(error, "tensor '%.64s' has no dtype", tensor->name);
    for (size_t i = 0; i < DTYPES && tensor->dtype == NULL; i++)
        if (strcmp(dtypes[i].name, item->valuestring) == 0)
            tensor->dtype = dtypes[i].name;
    if (tensor->dtype == NULL)
        return report(error, "tensor '%.64s' has unknown dtype '%.32s'", tensor->name, item->valuestring);
    return 0;
}

/* Reads the dims and the number of bytes that they need. */
static int read_shape(const cJSON *item, struct safetensor *tensor, uint64_t *bytes, const struct report *error)
{
    const cJSON *dim;

    *bytes = safetensors_element(tensor->dtype);
    if (!cJSON_IsArray(item))
        return report(error, "tensor '%.64s' has no shape", tensor->name);
    cJSON_ArrayForEach(dim, item)
    {
        uint64_t count;
        if (tensor->rank == SAFETENSORS_MAX_RANK)
            return report(error, "tensor '%.64s' has more than %d dims", tensor->name, SAFETENSORS_MAX_RANK);
        if (whole(dim, &count) != 0)
            return report(error, "tensor '%.64s': dim %d of its shape is no whole number", tensor->name, tensor->rank);
        if (count > 0 && *bytes > UINT64_MAX / count)
            return report(error, "tensor '%.64s': its shape overflows 64 bits", tensor->name);
        *bytes *= count;
        tensor->dims[tensor->rank++] = (int64_t)count;
    }
    return 0;
}

static int read_offsets(const cJSON *item, struct safetensor *tensor, uint64_t bytes, const struct report *error)
{
    uint64_t end;

    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != 2 || whole(item->child, &tensor->offset) != 0 ||
        whole(item->child->next, &end) != 0)
        return report(error, "tensor '%.64s': data_offsets are not two whole numbers", tensor->name);
    if (end < tensor->offset || end - tensor->offset != bytes)
        return report(error, "tensor '%.64s': data_offsets are [%llu,%llu], its shape and dtype take %llu bytes",
                      tensor->name, (unsigned long long)tensor->offset, (unsigned long long)end,
                      (unsigned long long)bytes);
    if (bytes > SIZE_MAX)
        return report(error, "tensor '%.64s' has %llu bytes, more than this machine addresses", tensor->name,
                      (unsigned long long)bytes);
    tensor->bytes = (size_t)bytes;
    return 0;
}

static int read_tensor(const cJSON *item, struct safetensor *tensor, const struct report *error)
{
    uint64_t bytes;

    tensor->name = item->string;
    if (!cJSON_IsObject(item) || cJSON_GetArraySize(item) != 3)
        return report(error, "tensor '%.64s' is not described by dtype, shape and data_offsets alone", tensor->name);
    if (read_dtype(cJSON_GetObjectItemCaseSensitive(item, "dtype"), tensor, error) != 0 ||
        read_shape(cJSON_GetObjectItemCaseSensitive(item, "shape"), tensor, &bytes, error) != 0)
        return -1;
    return read_offsets(cJSON_GetObjectItemCaseSensitive(item, "data_offsets"), tensor, bytes, error);
}

static int check_metadata(const cJSON *metadata, const struct report *error)
{
    const cJSON *item;

    if (!cJSON_IsObject(metadata))
        return report(error, "__metadata__ is not an object");
    cJSON_ArrayForEach(item, metadata)
    {
        if (!cJSON_IsString(item))
            return report(error, "__metadata__ '%.64s' is not a string", item->string);
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

static int check_duplicates(const cJSON *header, size_t count, const struct report *error)
{
    const cJSON **items = malloc((count + 1) * sizeof(const cJSON *)), *item;
    int status = 0;
    size_t n = 0;

    if (items == NULL)
        return no_memory(error, count, "names");
    cJSON_ArrayForEach(item, header) items[n++] = item;
    qsort(items, n, sizeof(const cJSON *), by_name);
    for (size_t i = 1; i < n && status == 0; i++)
        if (strcmp(items[i - 1]->string, items[i]->string) == 0)
            status = report(error, "the name '%.64s' occurs twice", items[i]->string);
    free(items);
    return status;
}

static int by_offset(const void *a, const void *b)
{
    const struct safetensor *x = a, *y = b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The tensors must tile the data without holes or overlaps. If the data's size is unknown, their end gives it. */
static int check_layout(struct safetensors *out, uint64_t *data_size, const struct report *error)
{
    uint64_t end = 0;

    qsort(out->tensors, out->count, sizeof *out->tensors, by_offset);
    for (size_t i = 0; i < out->count; i++) {
        const struct safetensor *tensor = &out->tensors[i];
        if (tensor->offset != end)
            return report(error, "tensor '%.64s' begins at byte %llu of the data, expected %llu", tensor->name,
                          (unsigned long long)tensor->offset, (unsigned long long)end);
        end += tensor->bytes;
        if (end > *data_size)
            return report(error, "tensor '%.64s' ends at byte %llu, the file has %llu bytes of data", tensor->name,
                          (unsigned long long)end, (unsigned long long)*data_size);
    }
    if (end != *data_size && *data_size != UNKNOWN)
        return report(error, "the file has %llu bytes of data, its header describes %llu",
                      (unsigned long long)*data_size, (unsigned long long)end);
    *data_size = end;
    return 0;
}

/* Whether a string contains a NUL, which would cut a name short. An escaped backslash starts no escape. */
static int has_nul(const char *text)
{
    for (; *text != '\0'; text++) {
        if (strncmp(text, "\\u0000", 6) == 0)
            return 1;
        if (*text == '\\' && text[1] != '\0')
            text++;
    }
    return 0;
}

static cJSON *parse_json(const char *text, size_t length, const struct report *error)
{
    size_t items = 0, end = 0;
    cJSON *json;

    for (const char *at = text; (at = memchr(at, ',', length - (size_t)(at - text))) != NULL; at++)
        items++;
    if (items > MAX_ITEMS || length == 0 || text[0] != '{' || memchr(text, '\0', length) != NULL) {
        report(error, items > MAX_ITEMS ? "the header has too many items" : "the header is not a JSON object");
        return NULL;
    }
    if (has_nul(text)) {
        report(error, "the header has a NUL in a string");
        return NULL;
    }
    json = json_parse_part(text, length, &end);
    if (json == NULL) {
        report(error, "the header is not valid JSON near its byte %zu", end);
        return NULL;
    }
    while (end < length && strchr(" \t\r\n", text[end]) != NULL)
        end++;
    if (end != length) {
        report(error, "the header goes on after its JSON object, at its byte %zu", end);
        cJSON_Delete(json);
        return NULL;
    }
    return json;
}

/* text has PADDING zero bytes after its length. */
static int parse_header(const char *text, size_t length, uint64_t *data_size, struct safetensors *out,
                        const struct report *error)
{
    const cJSON *item;
    size_t count;
    int status;

    out->header = parse_json(text, length, error);
    if (out->header == NULL)
        return -1;
    count = (size_t)cJSON_GetArraySize(out->header);
    out->tensors = calloc(count + 1, sizeof *out->tensors);
    if (out->tensors == NULL)
        return no_memory(error, count, "tensors");
    status = check_duplicates(out->header, count, error);
    if (status != 0)
        return status;
    cJSON_ArrayForEach(item, out->header)
    {
        int is_metadata = strcmp(item->string, "__metadata__") == 0;
        if (is_metadata ? check_metadata(item, error) != 0 : read_tensor(item, &out->tensors[out->count++], error) != 0)
            return -1;
    }
    return check_layout(out, data_size, error);
}

static int read_length(const uint8_t prefix[SAFETENSORS_PREFIX], uint64_t size, size_t *length,
                       const struct report *error)
{
    uint64_t value = 0;

    for (int i = SAFETENSORS_PREFIX - 1; i >= 0; i--)
        value = value << 8 | prefix[i];
    if (value > SAFETENSORS_MAX_HEADER)
        return report(error, "the header's length is %llu, expected at most %u", (unsigned long long)value,
                      SAFETENSORS_MAX_HEADER);
    if (value > size - SAFETENSORS_PREFIX)
        return report(error, "the header's length is %llu, the file has %llu bytes after it", (unsigned long long)value,
                      (unsigned long long)(size - SAFETENSORS_PREFIX));
    *length = (size_t)value;
    return 0;
}

static void place(struct safetensors *out, const uint8_t *data)
{
    for (size_t i = 0; i < out->count; i++)
        out->tensors[i].data = data + out->tensors[i].offset;
}

int safetensors_parse(const uint8_t *bytes, size_t size, struct safetensors *out, char *error, size_t error_size)
{
    const struct report to = {error, error_size};
    size_t length = 0;
    uint64_t data;
    char *text;
    int status;

    memset(out, 0, sizeof *out);
    if (size < SAFETENSORS_PREFIX)
        return report(&to, "the file has %zu bytes, expected 8 or more", size);
    if (read_length(bytes, size, &length, &to) != 0)
        return -1;
    text = calloc(1, length + PADDING);
    if (text == NULL)
        return no_memory(&to, length, "bytes of header");
    bytes += SAFETENSORS_PREFIX;
    memcpy(text, bytes, length);
    data = size - SAFETENSORS_PREFIX - length;
    status = parse_header(text, length, &data, out, &to);
    free(text);
    place(out, bytes + length);
    return status;
}

/* Memory grows only as data arrives: a stream's header may promise more than follows. */
static int read_data(FILE *file, size_t size, size_t room, struct safetensors *out, const struct report *error)
{
    size_t have = 0;

    for (room = room < size ? room : size;; room = room < size / 2 ? 2 * room : size) {
        uint8_t *memory = realloc(out->memory, room + 1);
        if (memory == NULL)
            return no_memory(error, size, "bytes of data");
        out->memory = memory;
        have += fread(memory + have, 1, room - have, file);
        if (have < room)
            return report(error, "cannot read its %zu bytes of data: it ends after %zu", size, have);
        if (have == size)
            break;
    }
    if (getc(file) != EOF)
        return report(error, "it goes on after its %zu bytes of data", size);
    place(out, out->memory);
    return 0;
}

static int read_header(FILE *file, uint64_t size, uint64_t *data, struct safetensors *out, const struct report *error)
{
    uint8_t prefix[SAFETENSORS_PREFIX];
    size_t length = 0;
    char *text;
    int status;

    if (fread(prefix, 1, sizeof prefix, file) != sizeof prefix)
        return report(error, "the file has less than %d bytes", SAFETENSORS_PREFIX);
    if (read_length(prefix, size, &length, error) != 0)
        return -1;
    text = calloc(1, length + PADDING);
    if (text == NULL)
        return no_memory(error, length, "bytes of header");
    *data = size == UNKNOWN ? UNKNOWN : size - SAFETENSORS_PREFIX - length;
    if (fread(text, 1, length, file) != length)
        status = report(error, "cannot read its header of %zu bytes", length);
    else
        status = parse_header(text, length, data, out, error);
    free(text);
    return status;
}

/* Whether the file is there as memory. */
static int map_data(FILE *file, uint64_t size, uint64_t data, struct safetensors *out)
{
    if (size > SIZE_MAX)
        return 0;
    out->memory = file_map(file, (size_t)size);
    if (out->memory == NULL)
        return 0;
    out->mapped = (size_t)size;
    place(out, (const uint8_t *)out->memory + (size - data));
    return 1;
}

static int read_file(FILE *file, uint64_t size, int maps, struct safetensors *out, const struct report *error)
{
    uint64_t data;
    int status = read_header(file, size, &data, out, error);

    if (status != 0 || (maps && size != UNKNOWN && map_data(file, size, data, out)))
        return status;
    return read_data(file, (size_t)data, size == UNKNOWN ? 1 << 20 : (size_t)data, out, error);
}

/* Opens a file of known size, a pipe, or standard input. NULL with the error. */
static FILE *open_input(const char *path, uint64_t *size, const struct report *error)
{
    FILE *file = NULL;

    *size = UNKNOWN;
    if (strcmp(path, "-") == 0) {
        stream_make_binary(stdin);
        return stdin;
    }
    switch (file_kind(path, size)) {
    case FILE_MISSING: report(error, "%s", strerror(errno)); return NULL;
    case FILE_FOLDER: report(error, "is a folder"); return NULL;
    case FILE_OTHER: *size = UNKNOWN; break;
    case FILE_REGULAR: break;
    }
    file = file_open(path, "rb");
    if (file == NULL)
        report(error, "%s", strerror(errno));
    return file;
}

static int read_or_map(const char *path, int maps, struct safetensors *out, char *error, size_t error_size)
{
    const struct report to = {error, error_size};
    uint64_t size;
    FILE *file;
    int status;

    memset(out, 0, sizeof *out);
    file = open_input(path, &size, &to);
    if (file == NULL)
        return -1;
    status = size < SAFETENSORS_PREFIX
                 ? report(&to, "the file has %llu bytes, expected 8 or more", (unsigned long long)size)
                 : read_file(file, size, maps, out, &to);
    if (file != stdin)
        fclose(file);
    return status;
}

int safetensors_read(const char *path, struct safetensors *out, char *error, size_t error_size)
{
    return read_or_map(path, 0, out, error, error_size);
}

int safetensors_map(const char *path, struct safetensors *out, char *error, size_t error_size)
{
    return read_or_map(path, 1, out, error, error_size);
}

void safetensors_free(struct safetensors *tensors)
{
    cJSON_Delete(tensors->header);
    free(tensors->tensors);
    if (tensors->mapped > 0)
        file_unmap(tensors->memory, tensors->mapped);
    else
        free(tensors->memory);
    memset(tensors, 0, sizeof *tensors);
}

const struct safetensor *safetensors_find(const struct safetensors *tensors, const char *name)
{
    for (size_t i = 0; i < tensors->count; i++)
        if (strcmp(tensors->tensors[i].name, name) == 0)
            return &tensors->tensors[i];
    return NULL;
}
