#include "op/gemm.h"

#include "base/sized.h"

#include <math.h>

enum { ALL_FLAGS = 2 * CLATTN_GEMM_F32_D - 1, FEW = 8 };

static const char names[] = {'a', 'b', 'c', 'd'};

static clattn_status check_desc(const clattn_gemm_desc *d, const struct log *log)
{
    if (d->m < 1 || d->n < 1 || d->k < 1 || d->batch < 1 || d->m > INT32_MAX || d->n > INT32_MAX || d->k > INT32_MAX ||
        d->batch > INT32_MAX)
        return FAIL(log, INVALID_DESC, "gemm: m %lld, n %lld, k %lld, batch %lld: expected 1 to 2147483647 each",
                    (long long)d->m, (long long)d->n, (long long)d->k, (long long)d->batch);
    if ((unsigned)d->dtype > CLATTN_BF16 || d->flags & ~(uint32_t)ALL_FLAGS)
        return FAIL(log, INVALID_DESC, "gemm: dtype is %d, flags 0x%x", (int)d->dtype, (unsigned)d->flags);
    if (!isfinite((float)d->alpha) || !isfinite((float)d->beta))
        return FAIL(log, INVALID_DESC, "gemm: alpha %g, beta %g: expected finite floats", d->alpha, d->beta);
    return CLATTN_SUCCESS;
}

static int64_t span_of(const struct gemm_matrix *x, int64_t batch)
{
    return (batch - 1) * x->stride + (x->rows - 1) * x->ld + x->width;
}

/* Strides default to contiguous rows and contiguous matrices. A matrix that the whole batch shares has stride 0. */
static clattn_status place(struct gemm_matrix *x, int64_t *ld, int64_t *stride, int64_t batch, int shared, char name,
                           const struct log *log)
{
    const int64_t most = INT64_MAX / 16;

    *ld = *ld != 0 ? *ld : x->width;
    if (*ld < x->width || *ld > INT32_MAX)
        return FAIL(log, INVALID_DESC, "gemm: ld%c is %lld, rows have %lld elements", name, (long long)*ld,
                    (long long)x->width);
    if (*stride == 0)
        *stride = x->rows * *ld;
    if (*stride < 0 || (!shared && batch > 1 && *stride > most / batch))
        return FAIL(log, INVALID_DESC, "gemm: stride_%c is %lld", name, (long long)*stride);
    x->ld = *ld;
    x->stride = shared || batch == 1 ? 0 : *stride;
    x->span = span_of(x, batch);
    return CLATTN_SUCCESS;
}

static clattn_status place_all(struct gemm *gemm, const struct log *log)
{
    clattn_gemm_desc *d = &gemm->desc;
    int64_t *const ld[] = {&d->lda, &d->ldb, &d->ldc, &d->ldd};
    int64_t *const stride[] = {&d->stride_a, &d->stride_b, &d->stride_c, &d->stride_d};
    const int64_t rows[] = {d->m, d->k, d->m, d->m}, width[] = {d->k, d->n, d->n, d->n};

    if (!(d->flags & CLATTN_GEMM_WITH_C)) {
        d->ldc = d->ldd;
        d->stride_c = d->stride_d;
    }
    for (int i = GEMM_OPERANDS; i-- > 0;) {
        int turned = gemm_turned(gemm, (enum gemm_operand)i), shared = i < GEMM_C && (d->flags >> (2 + i) & 1);
        gemm->of[i] = (struct gemm_matrix){.rows = turned ? width[i] : rows[i], .width = turned ? rows[i] : width[i]};
        TRY(place(&gemm->of[i], ld[i], stride[i], d->batch, shared, names[i], log));
    }
    if (d->batch > 1 && gemm->of[GEMM_D].stride < (d->m - 1) * d->ldd + d->n)
        return FAIL(log, INVALID_DESC, "gemm: stride_d is %lld, matrices have %lld elements", (long long)d->stride_d,
                    (long long)((d->m - 1) * d->ldd + d->n));
    return CLATTN_SUCCESS;
}

clattn_status gemm_read(struct gemm *gemm, const clattn_gemm_desc *desc, size_t desc_size, const struct log *log)
{
    clattn_gemm_desc *d = &gemm->desc;
    clattn_plan_desc ground = {.rule = CLATTN_LINEAR_ATTN, .seq_len = 1, .heads = 1, .key_dim = 1, .value_dim = 1};

    if (desc == NULL || !sized_read(d, sizeof *d, desc, desc_size))
        return FAIL(log, INVALID_DESC, "gemm: the desc is NULL, or has fields that this library does not know");
    d->batch = d->batch != 0 ? d->batch : 1;
    d->alpha = d->alpha != 0 ? d->alpha : 1;
    TRY(check_desc(d, log));
    TRY(place_all(gemm, log));
    ground.dtype = d->dtype;
    return problem_init(&gemm->ground, &ground, log);
}

void gemm_cut(struct gemm *gemm, int64_t m)
{
    gemm->desc.m = m;
    for (int i = 0; i < GEMM_OPERANDS; i++) {
        struct gemm_matrix *x = &gemm->of[i];
        if (i == GEMM_B)
            continue;
        *(gemm_turned(gemm, (enum gemm_operand)i) ? &x->width : &x->rows) = m;
        x->span = span_of(x, gemm->desc.batch);
    }
}

int gemm_few(const struct gemm *gemm)
{
    int64_t least = gemm->desc.m < gemm->desc.n ? gemm->desc.m : gemm->desc.n;

    return least <= FEW ? (int)least : 0;
}
