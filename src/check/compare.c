/* The reference over a check's inputs, the bounds, and rel = RMS(x - ref) / (RMS(ref) + 1e-8). */
#include "check.h"

#include "reference/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

clattn_operand *check_operand(clattn_operands *operands, clattn_operand_id id)
{
    clattn_operand *const all[] = {
#define OPERAND_ADDRESS(name, shape) &operands->name,
        CLATTN_OPERAND_LIST(OPERAND_ADDRESS)
#undef OPERAND_ADDRESS
    };
    return all[id];
}

void check_operands(clattn_operands *operands, const struct check_tensors *tensors)
{
    *operands = (clattn_operands){.seq_len = CLATTN_WHOLE};
    for (int id = 0; id < CLATTN_OPERAND_COUNT; id++) {
        const struct check_tensor *tensor = &tensors->tensor[id];
        *check_operand(operands, (clattn_operand_id)id) = (clattn_operand){.host = tensor->data, .size = tensor->bytes};
    }
}

clattn_status check_reference(struct check_tensors *expected, const struct check_tensors *tensors, clattn_log_fn log,
                              void *log_user)
{
    clattn_plan_desc desc = tensors->desc;
    clattn_operands operands;
    clattn_status status;

    desc.dtype = desc.gate_dtype = CLATTN_F32;
    TRY(check_allocate(expected, &desc));
    for (int id = 0; id < CLATTN_OPERAND_COUNT; id++)
        if (expected->tensor[id].data != NULL && !expected->tensor[id].info.output)
            widen(&expected->tensor[id], &tensors->tensor[id], id == CLATTN_OPERAND_cu_seqlens);
    check_operands(&operands, expected);
    status = clattn_reference(&desc, &operands, log, log_user);
    for (int id = 0; id < CLATTN_OPERAND_COUNT; id++) {
        if (expected->tensor[id].info.output)
            continue;
        free(expected->tensor[id].data);
        expected->tensor[id].data = NULL;
    }
    if (status != CLATTN_SUCCESS)
        check_free(expected);
    return status;
}

double check_bound(clattn_dtype dtype)
{
    static const double bounds[] = {[CLATTN_F32] = 1e-5, [CLATTN_F16] = 5e-3, [CLATTN_BF16] = 5e-3};

    return bounds[dtype];
}

double check_tensor_error(const struct check_tensor *actual, const struct check_tensor *expected)
{
    double difference = 0, size = 0, finite = 0;
    int64_t count = check_count(&expected->info);

    for (int64_t i = 0; i < count; i++) {
        double ref = number_load(expected->info.dtype, expected->data, i);
        double x = number_load(actual->info.dtype, actual->data, i);
        if (isnan(ref) || (isinf(ref) && x == ref))
            continue;
        if (!isfinite(x) || !isfinite(ref))
            return (double)INFINITY;
        difference += (x - ref) * (x - ref);
        size += ref * ref;
        finite++;
    }
    return finite > 0 ? sqrt(difference / finite) / (sqrt(size / finite) + 1e-8) : 0;
}

double check_error(const struct check_tensors *actual, const struct check_tensors *expected, clattn_operand_id *worst)
{
    double most = -1;

    for (int id = 0; id < CLATTN_OPERAND_COUNT; id++) {
        double error;
        if (!expected->tensor[id].info.output || expected->tensor[id].data == NULL)
            continue;
        error = check_tensor_error(&actual->tensor[id], &expected->tensor[id]);
        if (error <= most)
            continue;
        most = error;
        if (worst != NULL)
            *worst = (clattn_operand_id)id;
    }
    return most;
}
