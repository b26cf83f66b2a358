/* The packed block: every weight as the steps read it. */
#include "layer/layer.h"

#include "reference/number.h"

#include <math.h>
#include <string.h>

int64_t matrix_rows(const struct module *module, const struct layer_weight *weight)
{
    int64_t rows = sizes_value(&module->sizes, weight->dims[0]);

    while ((++weight)->joined)
        rows += sizes_value(&module->sizes, weight->dims[0]);
    return rows;
}

size_t packed_bytes(const struct module *module)
{
    return packed_at(module, NULL);
}

clattn_status clattn_layer_packed_size_sized(const clattn_layer_desc *desc, size_t desc_size, size_t *bytes)
{
    const struct log silent = {NULL, NULL};
    struct module module;

    if (bytes == NULL)
        return CLATTN_INVALID_ARGUMENT;
    TRY(module_read(&module, desc, desc_size, &silent));
    *bytes = packed_bytes(&module);
    return CLATTN_SUCCESS;
}

/* Number i of a tensor of any alignment. */
static double number_of(const clattn_layer_tensor *tensor, int64_t i)
{
    float aligned = 0;
    size_t element = element_of(tensor->dtype);

    memcpy(&aligned, (const char *)tensor->data + (size_t)i * element, element);
    return number_load(tensor->dtype, &aligned, 0);
}

/* Which row of the checkpoint is row `row` of the block: the rows of a term of every head follow each other there. */
static int64_t row_of(const struct module *module, const struct layer_weight *weight, int64_t row)
{
    const int64_t heads = sizes_value(&module->sizes, weight->each);
    const int64_t all = sizes_value(&module->sizes, weight->dims[0]) / heads;
    int64_t before = 0;
    char term[16];

    for (const char *at = weight->dims[0];; at += strlen(term) + 1) {
        int64_t rows;
        size_t length = strcspn(at, "+");
        memcpy(term, at, length);
        term[length] = '\0';
        rows = sizes_value(&module->sizes, term) / heads;
        if (row < heads * rows)
            return row / rows * all + before + row % rows;
        row -= heads * rows;
        before += rows;
    }
}

/* Number x of a tensor, one of so many, as its form has it. */
static double formed(enum form form, double x, int64_t count)
{
    switch (form) {
    case FORM_MATRIX:
    case FORM_FLOATS:
    case FORM_TURNED: break;
    case FORM_RATES: return -exp(x);
    case FORM_STEPS: return x + log(expm1(0.01));
    case FORM_RIDGES: return (x > 0 ? x + log1p(exp(-x)) : log1p(exp(x))) + 0.25;
    case FORM_ONES: return 1;
    case FORM_ROOTS: return 1 / sqrt((double)count);
    }
    return x;
}

static void fill_weight(const struct module *module, const struct layer_weight *weight, void *section)
{
    const int64_t count = weight_count(module, weight);

    for (int64_t i = 0; i < count; i++)
        number_store(CLATTN_F32, section, i, formed(weight->form, 0, count));
}

/* [heads,rows,columns] to [batch,heads,columns,rows] */
static void turn_weight(const struct module *module, const struct layer_weight *weight,
                        const clattn_layer_tensor *tensor, void *section)
{
    const int64_t rows = sizes_value(&module->sizes, weight->dims[1]),
                  columns = sizes_value(&module->sizes, weight->dims[2]);
    const int64_t count = weight_count(module, weight), copies = sizes_value(&module->sizes, weight->repeat);

    for (int64_t i = 0; i < count * copies; i++) {
        int64_t row = i % rows, column = i / rows % columns, head = i % count / rows / columns;
        number_store(CLATTN_F32, section, i, number_of(tensor, (head * rows + row) * columns + column));
    }
}

static void pack_weight(const struct module *module, const struct layer_weight *weight,
                        const clattn_layer_tensor *tensor, void *section)
{
    const int64_t rows = sizes_value(&module->sizes, weight->dims[0]), columns = weight_count(module, weight) / rows;
    const int64_t repeat = sizes_value(&module->sizes, weight->repeat);
    const clattn_dtype type = weight_type(module, weight);

    for (int64_t row = 0; row < rows; row++) {
        int64_t from = weight->each != NULL ? row_of(module, weight, row) : row;
        for (int64_t i = 0; i < columns; i++) {
            double x = number_of(tensor, from * columns + i);
            for (int64_t r = 0; r < repeat; r++)
                number_store(type, section, (row * columns + i) * repeat + r, formed(weight->form, x, rows));
        }
    }
}

clattn_status clattn_layer_pack_sized(const clattn_layer_desc *desc, size_t desc_size,
                                      const clattn_layer_tensor *tensors, size_t tensor_size, size_t count,
                                      void *packed, clattn_log_fn log_fn, void *log_user)
{
    const struct log log = {log_fn, log_user};
    struct module module;

    if (packed == NULL || tensors == NULL)
        return FAIL(&log, INVALID_ARGUMENT, "layer: packed or tensors is NULL");
    TRY(module_read(&module, desc, desc_size, &log));
    TRY(module_check(&module, tensors, tensor_size, count, &log));
    memset(packed, 0, packed_bytes(&module));
    for (const struct layer_weight *weight = module.layer->weights; weight->name != NULL; weight++) {
        char *section = (char *)packed + packed_at(&module, weight);
        clattn_layer_tensor tensor;
        if (weight_is_made(weight))
            fill_weight(&module, weight, section);
        if (weight_is_made(weight) || !tensor_read(tensors, tensor_size, count, weight->name, &tensor))
            continue;
        if (tensor.data == NULL)
            return FAIL(&log, INVALID_OPERAND, "tensor %s has no data", weight->name);
        (weight->form == FORM_TURNED ? turn_weight : pack_weight)(&module, weight, &tensor, section);
    }
    return CLATTN_SUCCESS;
}

/* The gradient of a packed weight as the checkpoint has the weight: rows in its order, and sums of numbers that are packed
 * several times. */
static void unpack_weight(const struct module *module, const struct layer_weight *weight, const float *section,
                          float *gradient)
{
    const int64_t rows = sizes_value(&module->sizes, weight->dims[0]), columns = weight_count(module, weight) / rows;
    const int64_t repeat = sizes_value(&module->sizes, weight->repeat);

    for (int64_t row = 0; row < rows; row++) {
        const int64_t to = weight->each != NULL ? row_of(module, weight, row) : row;
        for (int64_t i = 0; i < columns; i++) {
            double sum = 0;
            for (int64_t r = 0; r < repeat; r++)
                sum += (double)section[(row * columns + i) * repeat + r];
            gradient[to * columns + i] = (float)sum;
        }
    }
}

clattn_status clattn_layer_unpack_sized(const clattn_layer_desc *desc, size_t desc_size, const void *d_weights,
                                        const char *name, float *gradient, clattn_log_fn log_fn, void *log_user)
{
    const struct log log = {log_fn, log_user};
    struct module module;

    TRY(module_read(&module, desc, desc_size, &log));
    if (d_weights == NULL || name == NULL || gradient == NULL)
        return FAIL(&log, INVALID_ARGUMENT, "layer: d_weights, name or gradient is NULL");
    for (const struct layer_weight *weight = module.layer->weights; weight->name != NULL; weight++)
        if (strcmp(weight->name, name) == 0 && !weight_is_made(weight)) {
            unpack_weight(&module, weight,
                          (const float *)(const void *)((const char *)d_weights + gradient_at(&module, weight)),
                          gradient);
            return CLATTN_SUCCESS;
        }
    return FAIL(&log, INVALID_ARGUMENT, "layer %s has no weight %s", module.layer->name, name);
}
