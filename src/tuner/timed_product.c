#include "tuner/timed_product.h"

#include "reference/number.h"

#include <stdlib.h>
#include <string.h>

/* In [-1, 1), by a linear congruential generator. */
static void fill_random(void *numbers, clattn_dtype dtype, int64_t count, uint32_t seed)
{
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        number_store(dtype, numbers, i, (double)(seed >> 8) / (1 << 23) - 1);
    }
}

static clattn_status create_operand(struct timed_product *product, enum gemm_operand id, const struct log *log)
{
    const clattn_dtype dtype = product->gemm.desc.dtype;
    int64_t count = product->gemm.of[id].span;
    size_t bytes = (size_t)count * dtype_size(dtype);
    void *numbers = malloc(bytes);
    clattn_status status;

    if (numbers == NULL)
        return FAIL(log, OUT_OF_MEMORY, "no memory for %zu bytes of a matrix", bytes);
    fill_random(numbers, dtype, count, 1 + (uint32_t)id);
    status = opencl_create_buffer(log, opencl_get(), product->device->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                  bytes, numbers, &product->buffers[id]);
    free(numbers);
    return status;
}

clattn_status timed_product_open(struct timed_product *product, const struct check_device *device,
                                 const clattn_gemm_desc *desc, const struct log *log)
{
    *product = (struct timed_product){.device = device};
    TRY(gemm_read(&product->gemm, desc, sizeof *desc, log));
    TRY(create_operand(product, GEMM_A, log));
    TRY(create_operand(product, GEMM_B, log));
    return create_operand(product, GEMM_D, log);
}

void timed_product_close(struct timed_product *product)
{
    for (int i = 0; i < GEMM_OPERANDS; i++)
        if (product->buffers[i] != NULL)
            opencl_get()->ReleaseMemObject(product->buffers[i]);
}

struct launch {
    clattn_gemm_plan *plan;
    const struct timed_product *product;
};

static clattn_status enqueue(void *user, size_t run, cl_event *event)
{
    const struct launch *launch = user;
    const cl_mem *buffers = launch->product->buffers;
    const clattn_gemm_call call = {.a = buffers[GEMM_A], .b = buffers[GEMM_B], .d = buffers[GEMM_D]};

    (void)run;
    return clattn_gemm_enqueue(launch->plan, launch->product->device->queue, &call, 0, NULL, event);
}

clattn_status timed_product_time(const struct timed_product *product, clattn_gemm_plan *plan, size_t runs,
                                 double budget, struct timing *timing)
{
    struct launch launch = {plan, product};
    const struct timing_job job = {product->device->queue, enqueue, &launch, {NULL, NULL}};

    return timing_measure(&job, runs, budget, timing);
}

clattn_status timed_product_check(const struct timed_product *product, clattn_gemm_plan *plan, int *right)
{
    enum { MAX_NUMBERS = 1 << 25 };
    const clattn_gemm_desc *d = &product->gemm.desc;
    struct gemm small;

    if ((double)d->batch * (double)(d->m * d->k + d->k * d->n + d->m * d->n) < MAX_NUMBERS)
        return gemm_try(plan, &product->gemm, right);
    gemm_small(plan, &small);
    return gemm_try(plan, &small, right);
}

double timed_product_flops(const clattn_gemm_desc *desc)
{
    return 2.0 * (double)desc->batch * (double)desc->m * (double)desc->n * (double)desc->k;
}

double timed_product_bytes(const struct timed_product *product)
{
    double count = 0;

    for (int id = 0; id < GEMM_OPERANDS; id++)
        count += product->buffers[id] != NULL ? (double)product->gemm.of[id].span : 0;
    return count * (double)dtype_size(product->gemm.desc.dtype);
}
