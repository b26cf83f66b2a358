/* Warnings about inputs that make outputs useless: numbers that are not finite, and log-decays above 0, which let the
 * state grow. */
#include "cli/device/ranks.h"
#include "cli/io/operands.h"
#include "reference/number.h"

#include <math.h>
#include <string.h>

/* Logarithms of a magnitude, which may be 0. */
static int allows_minus_infinity(enum numbers numbers)
{
    return numbers == NUMBERS_DECAY || numbers == NUMBERS_FORGET || numbers == NUMBERS_INPUT ||
           numbers == NUMBERS_RAW || numbers == NUMBERS_STABILIZER || numbers == NUMBERS_LOGIT;
}

static void warn_not_finite(const char *path, const char *name, int64_t not_finite, int64_t count)
{
    if (not_finite > 0)
        warn("%s: tensor '%s' is not finite at %lld of its %lld elements", path, name, (long long)not_finite,
             (long long)count);
}

void tensor_warn(const char *path, const struct safetensor *tensor, clattn_dtype dtype)
{
    size_t element = safetensors_element(tensor->dtype), count = tensor->bytes / element;
    int64_t not_finite = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t aligned;
        memcpy(&aligned, (const char *)tensor->data + i * element, element);
        not_finite += !isfinite(number_load(dtype, &aligned, 0));
    }
    warn_not_finite(path, tensor->name, not_finite, (int64_t)count);
}

struct counts {
    int64_t all, not_finite, growing;
};

static struct counts count_tensor(const struct check_tensor *tensor, enum numbers numbers)
{
    const int minus_infinity_allowed = allows_minus_infinity(numbers);
    struct counts counts = {.all = tensor->data != NULL ? check_count(&tensor->info) : 0};

    for (int64_t i = 0; i < counts.all; i++) {
        double x = number_load(tensor->info.dtype, tensor->data, i);
        counts.not_finite += !isfinite(x) && !(minus_infinity_allowed && x < 0);
        counts.growing += numbers == NUMBERS_DECAY && isfinite(x) && x > 0;
    }
    return counts;
}

static void warn_tensor(const struct check_tensor *tensor, enum numbers numbers, const char *path,
                        const struct ranks *ranks)
{
    struct counts counts = count_tensor(tensor, numbers);

    if (ranks != NULL)
        ranks->sum(ranks, &counts.all, sizeof counts / sizeof counts.all);
    warn_not_finite(path, tensor->info.name, counts.not_finite, counts.all);
    if (counts.growing > 0)
        warn("%s: tensor '%s' is above 0 at %lld of its %lld elements, expected log-decays of 0 or less", path,
             tensor->info.name, (long long)counts.growing, (long long)counts.all);
}

void operands_warn(const struct operands *operands, const char *path, const struct ranks *ranks)
{
    struct operand_row rows[OPERAND_COUNT];
    int count = rule_operands(&operands->tensors.desc, rows);

    for (int i = 0; i < count; i++)
        if (rows[i].numbers != NUMBERS_WRITTEN && !operand_is_index(rows[i].id))
            warn_tensor(&operands->tensors.tensor[rows[i].id], rows[i].numbers, path, ranks);
}
