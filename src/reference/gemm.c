#include "reference/gemm.h"

#include "base/thread.h"
#include "reference/number.h"

struct product_rows {
    const struct gemm *gemm;
    const void *a, *b, *c;
    double *out;
};

/* op(X)[i][j] of a matrix of the batch */
static double load(const struct gemm *gemm, enum gemm_operand id, const void *x, int64_t index, int64_t i, int64_t j)
{
    const struct gemm_matrix *at = &gemm->of[id];
    int64_t place = gemm_turned(gemm, id) ? j * at->ld + i : i * at->ld + j;

    return number_load(gemm_type(&gemm->desc, id), x, index * at->stride + place);
}

/* One row of one matrix: d_ij = alpha sum_l a_il b_lj + beta c_ij */
static void row(void *user, int64_t at)
{
    const struct product_rows *task = user;
    const struct gemm *gemm = task->gemm;
    const clattn_gemm_desc *d = &gemm->desc;
    enum gemm_operand c = d->flags & CLATTN_GEMM_WITH_C ? GEMM_C : GEMM_D;
    int64_t index = at / d->m, i = at % d->m;

    for (int64_t j = 0; j < d->n; j++) {
        double sum = 0;
        for (int64_t l = 0; l < d->k; l++)
            sum += load(gemm, GEMM_A, task->a, index, i, l) * load(gemm, GEMM_B, task->b, index, l, j);
        sum *= (double)(float)d->alpha;
        if (d->beta != 0)
            sum += (double)(float)d->beta * load(gemm, c, task->c, index, i, j);
        task->out[at * d->n + j] = sum;
    }
}

void gemm_reference(const struct gemm *gemm, const void *a, const void *b, const void *c, double *out)
{
    struct product_rows task = {gemm, a, b, c, out};

    parallel_for(gemm->desc.batch * gemm->desc.m, row, &task);
}
