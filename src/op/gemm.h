/* D = alpha op(A) op(B) + beta C: a desc checked and completed, and how each of its matrices lies. */
#ifndef CLATTN_SRC_GEMM_H
#define CLATTN_SRC_GEMM_H

#include "op/problem.h"

enum gemm_operand { GEMM_A, GEMM_B, GEMM_C, GEMM_D, GEMM_OPERANDS };

/* A matrix as it lies in memory, in elements. */
struct gemm_matrix {
    int64_t rows, width;
    int64_t ld, stride;
    int64_t span; /* from the first element of the batch's first to the last of its last */
};

struct gemm {
    clattn_gemm_desc desc; /* completed */
    struct gemm_matrix of[GEMM_OPERANDS];
    struct problem ground; /* of the kernels: types, and nothing else that they ask of a rule */
};

/* INVALID_DESC. */
clattn_status gemm_read(struct gemm *gemm, const clattn_gemm_desc *desc, size_t desc_size, const struct log *log);

/* The same product of the first m rows. */
void gemm_cut(struct gemm *gemm, int64_t m);

static inline int gemm_turned(const struct gemm *gemm, enum gemm_operand id)
{
    return id < GEMM_C && (gemm->desc.flags >> id & 1);
}

/* The type that a matrix is stored in. */
static inline clattn_dtype gemm_type(const clattn_gemm_desc *desc, enum gemm_operand id)
{
    return id >= GEMM_C && (desc->flags & CLATTN_GEMM_F32_D) ? CLATTN_F32 : desc->dtype;
}

/* The least dimension of D, where it is so small that the other operand is read but once: 0 where it is not. */
int gemm_few(const struct gemm *gemm);

#endif
