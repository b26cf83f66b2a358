/* Runs the reference over a check's inputs, and measures the error of a tensor and of its rows. */
#include "check/check.h"

#include "reference/number.h"
#include "reference/wide.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_TINY 1e-8
#define CHECK_ROW_SLACK 8.0 /* how much larger than the whole tensor's bound the error of one row may be */

static void widen(const struct check_tensor *to, const struct check_tensor *from, int is_index)
{
    int64_t count = check_count(&from->info);

    if (is_index) {
        memcpy(to->data, from->data, to->bytes);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        number_store(to->info.dtype, to->data, i, number_load(from->info.dtype, from->data, i));
}

struct arguments check_lengths(const clattn_plan_desc *desc)
{
    return (struct arguments){.batch = desc->batch,
                              .seq_len = desc->seq_len,
                              .sequences = desc->sequences,
                              .kv_len = desc->kv_len,
                              .tail = desc->tail};
}

void check_operands(struct arguments *operands, const struct check_tensors *tensors)
{
    *operands = (struct arguments){.seq_len = CLATTN_WHOLE};
    for (int id = 1; id < OPERAND_COUNT; id++) {
        const struct check_tensor *tensor = &tensors->tensor[id];
        operands->of[id] = (clattn_operand){.host = tensor->data, .size = tensor->bytes};
    }
}

clattn_status check_updatable_operands(struct arguments *operands, struct check_tensors *tensors)
{
    clattn_status status = check_copy_updated(tensors);

    check_operands(operands, tensors);
    for (int id = 1; id < OPERAND_COUNT && status == CLATTN_SUCCESS; id++)
        if (tensors->after[id] != NULL)
            operands->of[id].host = tensors->after[id];
    return status;
}

clattn_status check_enqueue(clattn_plan *plan, cl_command_queue queue, const struct arguments *operands,
                            uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    clattn_operand list[OPERAND_COUNT];
    const clattn_call call = arguments_call(operands, list);

    return clattn_enqueue(plan, queue, &call, n_wait, wait, event);
}

clattn_status check_compute(const clattn_plan_desc *desc, const struct arguments *operands, clattn_log_fn log,
                            void *log_user)
{
    clattn_operand list[OPERAND_COUNT];
    const clattn_call call = arguments_call(operands, list);

    return clattn_reference(desc, &call, log, log_user);
}

/* Whether the operand has logarithms of magnitudes that may be 0. */
static int is_log(clattn_operand_id id)
{
    return id == CLATTN_STABILIZER_OUT || id == CLATTN_LSE || id == CLATTN_TRANSITION;
}

/* Gates may be -inf: they forget everything, and the results are finite. */
static clattn_status check_finite(const struct check_tensor *tensor, clattn_operand_id id, const struct log *log)
{
    int64_t count = tensor->info.output && tensor->data != NULL ? check_count(&tensor->info) : 0;

    for (int64_t i = 0; i < count; i++) {
        double x = number_load(tensor->info.dtype, tensor->data, i);
        if (!isfinite(x) && !(is_log(id) && x == (double)-INFINITY))
            return FAIL(log, INVALID_OPERAND, "the reference of %s is %g at element %lld: no measure of anything",
                        tensor->info.name, x, (long long)i);
    }
    return CLATTN_SUCCESS;
}

static clattn_status check_all_finite(const struct check_tensors *expected, const struct log *log)
{
    for (int id = 1; id < OPERAND_COUNT; id++)
        TRY(check_finite(&expected->tensor[id], (clattn_operand_id)id, log));
    return CLATTN_SUCCESS;
}

clattn_status check_reference(struct check_tensors *expected, const struct check_tensors *tensors, clattn_log_fn log,
                              void *log_user)
{
    clattn_plan_desc desc = tensors->desc;
    struct arguments operands;
    clattn_status status;

    wide_desc(&desc);
    TRY(check_allocate(expected, &desc));
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (expected->tensor[id].data != NULL && !expected->tensor[id].info.output)
            widen(&expected->tensor[id], &tensors->tensor[id], operand_is_index((clattn_operand_id)id));
    check_operands(&operands, expected);
    status = check_compute(&desc, &operands, log, log_user);
    if (status == CLATTN_SUCCESS)
        status = check_all_finite(expected, &(struct log){log, log_user});
    for (int id = 1; id < OPERAND_COUNT; id++) {
        struct check_tensor *tensor = &expected->tensor[id];
        if (tensor->info.output)
            continue;
        if (operand_is_updated(&expected->desc, (clattn_operand_id)id))
            expected->after[id] = tensor->data;
        else
            free(tensor->data);
        tensor->data = NULL;
    }
    if (status != CLATTN_SUCCESS)
        check_free(expected);
    return status;
}

double check_bound(clattn_dtype dtype)
{
    return number_bound(dtype);
}

double check_bound_of(const clattn_plan_desc *desc)
{
    return number_bound_of(desc);
}

/* Sums over elements whose reference is finite. */
struct sums {
    double difference, size, count;
};

/* Adds `count` elements from `first` on. Returns 0 if one is not finite although its reference is, or differs from an
 * infinite one. */
static int add_elements(struct sums *sums, const struct check_tensor *actual, const struct check_tensor *expected,
                        int64_t first, int64_t count)
{
    for (int64_t i = first; i < first + count; i++) {
        double ref = number_load(expected->info.dtype, expected->data, i);
        double x = number_load(actual->info.dtype, actual->data, i);
        if (isinf(ref) && x == ref)
            continue;
        if (!isfinite(x) || !isfinite(ref))
            return 0;
        sums->difference += (x - ref) * (x - ref);
        sums->size += ref * ref;
        sums->count++;
    }
    return 1;
}

static double rms(double squares, double count)
{
    return count > 0 ? sqrt(squares / count) : 0;
}

static int64_t row_of(const struct check_tensor *tensor)
{
    return tensor->info.dims[tensor->info.rank - 1];
}

/* A row is divided by its own RMS, but at least by the tensor's. A row that nearly cancels is only as exact as the
 * terms of its sum, which have the tensor's magnitude. The rounding of a larger row grows with it. */
static void find_worst_row(struct check_difference *to, const struct check_tensor *actual,
                           const struct check_tensor *expected, double size)
{
    int64_t count = check_count(&expected->info), row = row_of(expected);

    for (int64_t first = 0; first < count; first += row) {
        struct sums sums = {0, 0, 0};
        double error;
        add_elements(&sums, actual, expected, first, row);
        error = rms(sums.difference, sums.count) / (fmax(size, rms(sums.size, sums.count)) + CHECK_TINY);
        if (error > to->row) {
            to->row = error;
            to->at = first / row;
        }
    }
}

/* The first row with an element that is not finite where its reference is. */
static int64_t find_not_finite_row(const struct check_tensor *actual, const struct check_tensor *expected)
{
    struct sums sums = {0, 0, 0};
    int64_t row = row_of(expected), first = 0;

    while (add_elements(&sums, actual, expected, first, row))
        first += row;
    return first / row;
}

struct check_difference check_tensor_difference(const struct check_tensor *actual, const struct check_tensor *expected)
{
    struct check_difference to = {0, 0, 0, 0};
    struct sums sums = {0, 0, 0};
    double size;

    if (!add_elements(&sums, actual, expected, 0, check_count(&expected->info))) {
        to.error = to.whole = to.row = (double)INFINITY;
        to.at = find_not_finite_row(actual, expected);
        return to;
    }
    size = rms(sums.size, sums.count);
    to.whole = rms(sums.difference, sums.count) / (size + CHECK_TINY);
    find_worst_row(&to, actual, expected, size);
    to.error = fmax(to.whole, to.row / CHECK_ROW_SLACK);
    return to;
}

double check_tensor_error(const struct check_tensor *actual, const struct check_tensor *expected)
{
    return check_tensor_difference(actual, expected).error;
}

/* The error of an output or of an updated input. Negative if the operand is neither. */
static double error_of(const struct check_tensors *actual, const struct check_tensors *expected, int id)
{
    struct check_tensor x = actual->tensor[id], reference = expected->tensor[id];

    if (!reference.info.output) {
        x.data = actual->after[id];
        reference.data = expected->after[id];
    }
    return x.data != NULL && reference.data != NULL ? check_tensor_error(&x, &reference) : -1;
}

double check_error(const struct check_tensors *actual, const struct check_tensors *expected, clattn_operand_id *worst)
{
    double most = -1;

    for (int id = 1; id < OPERAND_COUNT; id++) {
        double error = error_of(actual, expected, id);
        if (error <= most)
            continue;
        most = error;
        if (worst != NULL)
            *worst = (clattn_operand_id)id;
    }
    return most;
}
