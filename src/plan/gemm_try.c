/* One product of random numbers against what it should be. For every row of D, with a random vector r: D r = alpha A
 * (B r) + beta C r, in double, which takes as many steps as the matrices have numbers. */
#include "plan/gemm.h"

#include "reference/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What lies behind D's last number is nobody's. */
enum { ROOM = 64 };

struct operand {
    size_t bytes;
    void *numbers; /* as the device has them */
    cl_mem buffer;
};

struct attempt {
    clattn_gemm_plan *plan; /* of gemm, with the kernel that is tried */
    const struct gemm *gemm;
    cl_command_queue queue;
    struct operand of[GEMM_OPERANDS];
    double *r, *product, *inner; /* [n], [m], [k] */
    uint32_t seed;
};

static double draw(struct attempt *attempt)
{
    attempt->seed = attempt->seed * 1664525u + 1013904223u;
    return (double)(attempt->seed >> 8) / (1 << 23) - 1;
}

static clattn_status make_operand(struct attempt *attempt, int id)
{
    const struct clattn_context *context = attempt->plan->context;
    const clattn_gemm_desc *desc = &attempt->gemm->desc;
    const clattn_dtype dtype = gemm_type(&attempt->gemm->desc, (enum gemm_operand)id);
    struct operand *x = &attempt->of[id];
    size_t element = dtype_size(dtype), room = id == GEMM_D ? ROOM : 0;

    x->bytes = (size_t)attempt->gemm->of[id].span * element;
    x->numbers = malloc(x->bytes + room);
    if (x->numbers == NULL)
        return CLATTN_OUT_OF_MEMORY;
    memset(x->numbers, 0xff, x->bytes + room);
    for (int64_t i = 0; (id != GEMM_D || desc->beta != 0) && i < attempt->gemm->of[id].span; i++)
        number_store(dtype, x->numbers, i, draw(attempt));
    return opencl_create_buffer(&attempt->plan->log, context->device.cl, context->cl,
                                CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, x->bytes + room, x->numbers, &x->buffer);
}

static clattn_status make(struct attempt *attempt)
{
    const clattn_gemm_desc *d = &attempt->gemm->desc;

    attempt->r = malloc((size_t)(d->n + d->m + d->k) * sizeof *attempt->r);
    if (attempt->r == NULL)
        return CLATTN_OUT_OF_MEMORY;
    attempt->product = attempt->r + d->n;
    attempt->inner = attempt->product + d->m;
    for (int id = 0; id < GEMM_OPERANDS; id++)
        if (id != GEMM_C || d->flags & CLATTN_GEMM_WITH_C)
            TRY(make_operand(attempt, id));
    return CLATTN_SUCCESS;
}

/* out[rows] += factor op(X) x, X the matrix of that number in the batch */
static void multiply(const struct attempt *attempt, int id, int64_t index, double factor, const double *x, double *out)
{
    const struct gemm_matrix *at = &attempt->gemm->of[id];
    const clattn_dtype dtype = gemm_type(&attempt->gemm->desc, (enum gemm_operand)id);
    const int turned = gemm_turned(attempt->gemm, (enum gemm_operand)id);

    for (int64_t i = 0; i < at->rows; i++)
        for (int64_t j = 0; j < at->width; j++) {
            double y = number_load(dtype, attempt->of[id].numbers, index * at->stride + i * at->ld + j);
            out[turned ? j : i] += factor * y * x[turned ? i : j];
        }
}

/* product = alpha A B r + beta C r, of D as it was */
static void expect(struct attempt *attempt, int64_t index)
{
    const clattn_gemm_desc *d = &attempt->gemm->desc;

    memset(attempt->product, 0, (size_t)(d->m + d->k) * sizeof *attempt->product);
    multiply(attempt, GEMM_B, index, 1, attempt->r, attempt->inner);
    multiply(attempt, GEMM_A, index, (double)(float)d->alpha, attempt->inner, attempt->product);
    if (d->beta != 0)
        multiply(attempt, d->flags & CLATTN_GEMM_WITH_C ? GEMM_C : GEMM_D, index, (double)(float)d->beta, attempt->r,
                 attempt->product);
}

/* How large a row's sum of n numbers should be by the numbers of all rows: one sum itself may be small by chance. */
static double size_of(const struct attempt *attempt, int64_t index)
{
    const struct gemm_matrix *at = &attempt->gemm->of[GEMM_D];
    const clattn_dtype dtype = gemm_type(&attempt->gemm->desc, GEMM_D);
    double sum = 0;

    for (int64_t i = 0; i < at->rows; i++)
        for (int64_t j = 0; j < at->width; j++) {
            double y = number_load(dtype, attempt->of[GEMM_D].numbers, index * at->stride + i * at->ld + j);
            sum += y * y * attempt->r[j] * attempt->r[j];
        }
    return sqrt(sum / (double)at->rows);
}

/* Whether no row differs by more than rounding of numbers of that size. */
static int is_close(const struct attempt *attempt, const double *difference, double size)
{
    const double bound = 4 * number_bound(gemm_type(&attempt->gemm->desc, GEMM_D));

    for (int64_t i = 0; i < attempt->gemm->desc.m; i++)
        if (!(fabs(difference[i]) <= bound * (size + 1e-8)))
            return 0;
    return 1;
}

static clattn_status judge(struct attempt *attempt, void *found, int *right)
{
    const clattn_gemm_desc *d = &attempt->gemm->desc;
    struct operand *out = &attempt->of[GEMM_D];
    double *rest = malloc((size_t)d->m * sizeof *rest);
    void *before = out->numbers;

    if (rest == NULL)
        return CLATTN_OUT_OF_MEMORY;
    *right = memcmp((char *)found + out->bytes, (char *)before + out->bytes, ROOM) == 0 ? 1 : -1;
    for (int64_t index = 0; index<d->batch && * right> 0; index++) {
        for (int64_t j = 0; j < d->n; j++)
            attempt->r[j] = draw(attempt);
        expect(attempt, index);
        memcpy(rest, attempt->product, (size_t)d->m * sizeof *rest);
        out->numbers = found;
        multiply(attempt, GEMM_D, index, -1, attempt->r, rest);
        if (!is_close(attempt, rest, size_of(attempt, index)))
            *right = -1;
        out->numbers = before;
    }
    free(rest);
    return CLATTN_SUCCESS;
}

static clattn_status run(struct attempt *attempt, int *right)
{
    const struct clattn_context *context = attempt->plan->context;
    const struct opencl *cl = context->device.cl;
    struct operand *of = attempt->of;
    size_t bytes;
    void *found;
    clattn_status status;

    TRY(make(attempt));
    TRY(gemm_enqueue(
        attempt->plan, attempt->gemm->desc.m, attempt->queue,
        &(clattn_gemm_call){
            .a = of[GEMM_A].buffer, .b = of[GEMM_B].buffer, .c = of[GEMM_C].buffer, .d = of[GEMM_D].buffer},
        0, NULL, NULL));
    bytes = of[GEMM_D].bytes + ROOM;
    found = malloc(bytes);
    if (found == NULL)
        return CLATTN_OUT_OF_MEMORY;
    status = opencl_read(&attempt->plan->log, cl, attempt->queue, of[GEMM_D].buffer, 0, bytes, found);
    if (status == CLATTN_SUCCESS)
        status = judge(attempt, found, right);
    free(found);
    return status;
}

static clattn_status run_on_queue(struct attempt *attempt, int *right)
{
    const clattn_context *context = attempt->plan->context;
    const struct opencl *cl = context->device.cl;
    clattn_status status;

    TRY(opencl_create_queue(&attempt->plan->log, cl, context->cl, context->device.info.device, 0, &attempt->queue));
    status = run(attempt, right);
    cl->Finish(attempt->queue);
    cl->ReleaseCommandQueue(attempt->queue);
    return status;
}

clattn_status gemm_try(const clattn_gemm_plan *plan, const struct gemm *gemm, int *right)
{
    const struct opencl *cl = plan->context->device.cl;
    struct attempt attempt = {.gemm = gemm, .seed = 1};
    clattn_status status;

    TRY(gemm_plan_like(&attempt.plan, gemm, plan));
    status = run_on_queue(&attempt, right);
    for (int id = 0; id < GEMM_OPERANDS; id++) {
        if (attempt.of[id].buffer != NULL)
            cl->ReleaseMemObject(attempt.of[id].buffer);
        free(attempt.of[id].numbers);
    }
    free(attempt.r);
    clattn_gemm_plan_destroy(attempt.plan);
    return status;
}
