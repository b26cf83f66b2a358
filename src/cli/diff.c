/* clattn diff: compares a file's tensors with those of another, with the error measure and bounds of verify. */
#include "check/check.h"
#include "cli/cli.h"
#include "cli/io/input.h"
#include "cli/out/origin.h"
#include "cli/out/table.h"
#include "cli/io/words.h"
#include "reference/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct column columns[] = {
    {"tensor", "tensor", COLUMN_WORD, 0, 0},
    {"dtype", "dtype", COLUMN_WORD, 0, 4},
    {"shape", "shape", COLUMN_WORD, 0, 3},
    {"error", "error", COLUMN_SCIENTIFIC, 1, 0},
    {"bound", "bound", COLUMN_SCIENTIFIC, 0, 1},
    {"worst_row", "worst row", COLUMN_WORD, 0, 2},
    {"ok", "result", COLUMN_WORD, 0, 0},
    {"message", "message", COLUMN_WORD, 0, 0},
    BUILD_COLUMNS,
};

enum { ACTUAL, EXPECTED, NAME = 128 };

struct diff {
    const struct settings *settings;
    struct safetensors files[2];
    double bound;
    cJSON *rows;
    size_t failed;
};

/* ---- Elements ---------------------------------------------------------------------------------------------------- */

static double load_double(const void *data, int64_t i)
{
    double x;

    memcpy(&x, (const char *)data + (size_t)i * sizeof x, sizeof x);
    return x;
}

/* F64 counts as F32. NULL: the library has no such type. */
static const struct word *type_of(const struct safetensor *tensor)
{
    const char *name = strcmp(tensor->dtype, "F64") == 0 ? "F32" : tensor->dtype;
    const struct word *word = file_dtype_words;

    while (word->name != NULL && strcmp(word->name, name) != 0)
        word++;
    return word->name != NULL ? word : NULL;
}

/* The bound of the widest error. A narrow problem's state has the problem's bound, though it is stored as f32. */
static double widest_bound(const struct safetensors *file)
{
    double bound = check_bound(CLATTN_F32);

    for (size_t i = 0; i < file->count; i++) {
        const struct word *type = type_of(&file->tensors[i]);
        bound = type != NULL ? fmax(bound, check_bound((clattn_dtype)type->value)) : bound;
    }
    return bound;
}

/* Copies a tensor for check.h to compare, as rows of a type that the library has. -1: it has no such type; -2: no
 * memory. */
static int make_tensor(struct check_tensor *to, const struct safetensor *from)
{
    const struct word *type = type_of(from);
    int is_double = strcmp(from->dtype, "F64") == 0;
    int64_t row = from->rank > 0 ? from->dims[from->rank - 1] : 1;
    int64_t count = (int64_t)(from->bytes / safetensors_element(from->dtype));

    if (type == NULL)
        return -1;
    *to = (struct check_tensor){.data = malloc(from->bytes + 1),
                                .bytes = from->bytes,
                                .info = {.dims = {row > 0 ? count / row : 0, row}, .rank = 2}};
    if (to->data == NULL)
        return -2;
    to->info.dtype = (clattn_dtype)type->value;
    for (int64_t i = 0; i < count && is_double; i++)
        ((float *)to->data)[i] = (float)load_double(from->data, i);
    if (!is_double)
        memcpy(to->data, from->data, from->bytes);
    return 0;
}

static int64_t count_not_finite(const struct check_tensor *tensor)
{
    int64_t count = check_count(&tensor->info), not_finite = 0;

    for (int64_t i = 0; i < count; i++)
        not_finite += !isfinite(number_load(tensor->info.dtype, tensor->data, i));
    return not_finite;
}

/* ---- A row of the table ------------------------------------------------------------------------------------------ */

static cJSON *add_row(struct diff *diff, const struct safetensor *tensor)
{
    cJSON *row = cJSON_CreateObject();
    char text[NAME];

    cJSON_AddItemToArray(diff->rows, row);
    cJSON_AddStringToObject(row, "tensor", tensor->name);
    cJSON_AddStringToObject(row, "dtype", tensor->dtype);
    cJSON_AddStringToObject(row, "shape", dims_name(tensor->rank, tensor->dims, text, sizeof text));
    return row;
}

static void end_row(struct diff *diff, cJSON *row, int ok, const char *message)
{
    cJSON_AddBoolToObject(row, "ok", ok);
    if (*message != '\0')
        cJSON_AddStringToObject(row, "message", message);
    diff->failed += !ok;
}

/* "[0,17,2]": the position of a row in the tensor. */
static const char *row_name(const struct safetensor *tensor, int64_t row, char *text, size_t size)
{
    int64_t at[SAFETENSORS_MAX_RANK];
    int rank = tensor->rank > 0 ? tensor->rank - 1 : 0;

    for (int i = rank - 1; i >= 0; i--) {
        at[i] = row % tensor->dims[i];
        row /= tensor->dims[i];
    }
    return dims_name(rank, at, text, size);
}

/* Equal bits are equal, even NaN. */
static struct check_difference difference_of(const struct check_tensor *actual, const struct check_tensor *expected)
{
    if (actual->info.dtype == expected->info.dtype && actual->bytes == expected->bytes &&
        memcmp(actual->data, expected->data, actual->bytes) == 0)
        return (struct check_difference){0, 0, 0, 0};
    return check_tensor_difference(actual, expected);
}

static void compare_numbers(struct diff *diff, cJSON *row, const struct safetensor *expected,
                            const struct check_tensor tensors[2])
{
    const struct check_difference difference = difference_of(&tensors[ACTUAL], &tensors[EXPECTED]);
    int64_t actual_count = count_not_finite(&tensors[ACTUAL]), expected_count = count_not_finite(&tensors[EXPECTED]);
    char text[NAME];

    cJSON_AddNumberToObject(row, "error", difference.error);
    cJSON_AddNumberToObject(row, "bound", diff->bound);
    if (difference.error > 0)
        cJSON_AddStringToObject(row, "worst_row", row_name(expected, difference.at, text, sizeof text));
    snprintf(text, sizeof text, "not finite: %lld elements, expected %lld", (long long)actual_count,
             (long long)expected_count);
    end_row(diff, row, difference.error <= diff->bound, actual_count + expected_count > 0 ? text : "");
}

/* Tensors of types that the library does not compute with are equal or not. */
static void compare_bytes(struct diff *diff, cJSON *row, const struct safetensor *actual,
                          const struct safetensor *expected)
{
    size_t element = safetensors_element(expected->dtype), differing = 0;
    const char *a = actual->data, *b = expected->data;
    char text[NAME];

    for (size_t at = 0; at < expected->bytes; at += element)
        differing += memcmp(a + at, b + at, element) != 0;
    snprintf(text, sizeof text, "%zu of %zu elements differ", differing, expected->bytes / element);
    cJSON_AddNumberToObject(row, "error", differing > 0 ? (double)INFINITY : 0);
    cJSON_AddNumberToObject(row, "bound", 0);
    end_row(diff, row, differing == 0, differing > 0 ? text : "");
}

static int same_shape(const struct safetensor *a, const struct safetensor *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

/* Both have the same shape. */
static int compare(struct diff *diff, cJSON *row, const struct safetensor *actual, const struct safetensor *expected)
{
    struct check_tensor tensors[2] = {{.data = NULL}, {.data = NULL}};
    int first = make_tensor(&tensors[ACTUAL], actual), second = make_tensor(&tensors[EXPECTED], expected);
    int status = EXIT_OK;
    char text[NAME];

    snprintf(text, sizeof text, "dtype %s, expected %s", actual->dtype, expected->dtype);
    if (first == -2 || second == -2)
        status = failed("no memory for tensor '%s'", expected->name);
    else if (first == 0 && second == 0)
        compare_numbers(diff, row, expected, tensors);
    else if (strcmp(actual->dtype, expected->dtype) == 0)
        compare_bytes(diff, row, actual, expected);
    else
        end_row(diff, row, 0, text);
    free(tensors[ACTUAL].data);
    free(tensors[EXPECTED].data);
    return status;
}

static int compare_expected(struct diff *diff, const struct safetensor *expected)
{
    const struct safetensor *actual = safetensors_find(&diff->files[ACTUAL], expected->name);
    char dims[NAME], text[NAME + 16];
    cJSON *row;

    if (actual == NULL && diff->settings->common)
        return EXIT_OK;
    row = add_row(diff, actual != NULL ? actual : expected);
    if (actual == NULL) {
        end_row(diff, row, 0, "missing");
        return EXIT_OK;
    }
    if (same_shape(actual, expected))
        return compare(diff, row, actual, expected);
    snprintf(text, sizeof text, "expected shape %s", dims_name(expected->rank, expected->dims, dims, sizeof dims));
    end_row(diff, row, 0, text);
    return EXIT_OK;
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

static int compare_all(struct diff *diff)
{
    const struct safetensors *actual = &diff->files[ACTUAL], *expected = &diff->files[EXPECTED];
    int status = EXIT_OK;

    diff->bound =
        diff->settings->bound >= 0 ? diff->settings->bound : fmax(widest_bound(actual), widest_bound(expected));
    diff->rows = cJSON_CreateArray();
    for (size_t i = 0; i < expected->count && status == EXIT_OK; i++)
        status = compare_expected(diff, &expected->tensors[i]);
    if (diff->settings->common && status == EXIT_OK && cJSON_GetArraySize(diff->rows) == 0)
        status = failed("the files have no tensor in common");
    for (size_t i = 0; i < actual->count && status == EXIT_OK && !diff->settings->common; i++)
        if (safetensors_find(expected, actual->tensors[i].name) == NULL)
            end_row(diff, add_row(diff, &actual->tensors[i]), 0, "not expected");
    return status;
}

static int print(struct diff *diff)
{
    enum format format = diff->settings->format;
    cJSON *rows = diff->rows, *object;

    if (diff->settings->quiet)
        return EXIT_OK;
    diff->rows = NULL;
    if (format != FORMAT_JSON) {
        origin_add_all(rows, NULL);
        return table_print(rows, columns, sizeof columns / sizeof *columns, format);
    }
    object = cJSON_CreateObject();
    origin_add(object, NULL);
    cJSON_AddStringToObject(object, "file", diff->settings->files[ACTUAL]);
    cJSON_AddStringToObject(object, "expected", diff->settings->files[EXPECTED]);
    cJSON_AddBoolToObject(object, "ok", diff->failed == 0);
    cJSON_AddItemToObject(object, "tensors", rows);
    return json_print(object);
}

int diff_main(struct settings *settings)
{
    struct diff diff = {.settings = settings};
    int status = EXIT_OK;

    if (strcmp(settings->files[ACTUAL], "-") == 0 && strcmp(settings->files[EXPECTED], "-") == 0)
        return bad("both files are standard input, expected one or none");
    for (int i = ACTUAL; i <= EXPECTED && status == EXIT_OK; i++)
        status = input_read(settings->files[i], &diff.files[i]);
    if (status == EXIT_OK)
        status = compare_all(&diff);
    if (status == EXIT_OK)
        status = print(&diff);
    cJSON_Delete(diff.rows);
    safetensors_free(&diff.files[ACTUAL]);
    safetensors_free(&diff.files[EXPECTED]);
    return status == EXIT_OK && diff.failed > 0 ? EXIT_FAILED : status;
}
