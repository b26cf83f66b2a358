/* D = alpha op(A) op(B) + beta C: a desc, checked and completed, and the layout of its matrices. */
#ifndef CLATTN_SRC_GEMM_H
#define CLATTN_SRC_GEMM_H

#include "op/problem.h"

enum gemm_operand { GEMM_A, GEMM_B, GEMM_C, GEMM_D, GEMM_OPERANDS };

/* The layout of a matrix, in elements. */
struct gemm_matrix {
    int64_t rows, width;
    int64_t ld, stride;
    int64_t span; /* from the first element of the first matrix of a batch to the last element of the last one */
};

struct gemm {
    clattn_gemm_desc desc; /* completed */
    struct gemm_matrix of[GEMM_OPERANDS];
    struct problem ground; /* the types that kernels ask a problem for, and nothing else */
    int depth_varies;      /* calls have the depth as their number of keys, up to the desc's */
};

/* INVALID_DESC. */
clattn_status gemm_read(struct gemm *gemm, const clattn_gemm_desc *desc, size_t desc_size, const struct log *log);

/* Reduces the product to its first m rows. */
void gemm_cut(struct gemm *gemm, int64_t m);

static inline int gemm_turned(const struct gemm *gemm, enum gemm_operand id)
{
    return id < GEMM_C && (gemm->desc.flags >> id & 1);
}

/* The type in which a matrix is stored. */
static inline clattn_dtype gemm_type(const clattn_gemm_desc *desc, enum gemm_operand id)
{
    return id >= GEMM_C && (desc->flags & CLATTN_GEMM_F32_D) ? CLATTN_F32 : desc->dtype;
}

/* The smaller dimension of D if it is so small that the other operand is read only once, else 0. */
int gemm_few(const struct gemm *gemm);

#endif
