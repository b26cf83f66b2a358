/* What a way needs to add the step of a product to a recipe. */
#ifndef CLATTN_SRC_SOLVE_GEMM_WAY_H
#define CLATTN_SRC_SOLVE_GEMM_WAY_H

#include "solve/gemm/gemm.h"
#include "solve/solve.h"

/* Floats that a work-item works at once: where work-items share a tile, and where each is a thread of a CPU. */
enum { SHARED_VEC = 4, SERIAL_VEC = 16 };

/* ---- Matrices of a product: C stands for D where the product has no C of its own ----------------------------------
 */

/* From one sequence, row or head to the next. */
ir_expression product_stride(struct builder *b, const struct built_product *product, enum gemm_operand id,
                             enum ir_stride stride);
/* A kernel may know only one stride from matrix to matrix. Where the matrices of all sequences are evenly apart, one
 * launch has all of them; else each sequence has a launch of its own. Launches (IR_NONE: 1), matrices of a launch, and
 * that stride. */
ir_expression product_parts(struct builder *b, const struct built_product *product);
ir_expression product_batch(struct builder *b, const struct built_product *product);
ir_expression product_apart(struct builder *b, const struct built_product *product, enum gemm_operand id);
/* The matrix as a tensor whose view has these strides in the places of batch, token and head. in_parts: it begins with the
 * sequence of the launch at hand, where each has its own. */
int product_tensor(struct builder *b, const struct built_product *product, enum gemm_operand id,
                   const ir_expression strides[3], int in_parts);

/* ---- Steps --------------------------------------------------------------------------------------------------------
 */

/* The product's step launches the way's kernel on that grid. Its arguments follow: tensors, then the sizes, a vector of
 * `width` integers, and {alpha, beta}. */
void product_kernel(struct builder *b, const struct built_product *product, const ir_expression grid[3],
                    ir_expression parts);
void product_argument(struct builder *b, int tensor);
void product_numbers(struct builder *b, const struct built_product *product, const ir_expression *sizes, int width);

/* The step of a way without a kernel: it calls way->enqueue. */
void product_foreign(struct builder *b, const struct built_product *product);
/* What such a call is to compute. */
void product_asked(const struct ir_foreign *foreign, struct gemm *gemm, clattn_gemm_call *call);

#endif
