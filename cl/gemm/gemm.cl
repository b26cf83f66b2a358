/* D = alpha A B + beta C of each matrix of a batch, in floats: products of register blocks, by multiply-adds or on an
 * engine that multiplies floats. One group: BM x BN of D. While a slice of BK of the depth is multiplied, the next is
 * on its way in registers, and goes to the other of two places in local memory. */
#include "gemm_blocks.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, a) X(global const data_t, b) X(global const out_t, c) X(global out_t, d)
/* clang-format on */
KERNEL
gemm(TENSORS(PARAMETER) int4 size, float2 scales)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(tiles, LOCAL_TILES)
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    int2 tile = gemm_tile(size);
    operand_t left_operand, right_operand;
    vec acc[ROWS * WIDE];
    data_raw_t left[LEFT_HELD], right[RIGHT_HELD];

    left_of(&left_operand, a, a_at, size);
    right_of(&right_operand, b, b_at, size);
    block_zero(acc, ROWS * WIDE);
    left_fetch(left, &left_operand, tile.x, 0);
    right_fetch(right, &right_operand, tile.y, 0);
    rolled for (int k = 0; k < size.z; k += BK)
    {
        local float *stage = tiles + k / BK % 2 * (LEFT_TILE + RIGHT_TILE);
        left_put(stage, left);
        right_put(stage + LEFT_TILE, right);
        SYNC();
        left_fetch(left, &left_operand, tile.x, k + BK);
        right_fetch(right, &right_operand, tile.y, k + BK);
        gemm_product(m, acc, stage, stage + LEFT_TILE);
    }
    vec_unrolled
    for (int r = 0; r < ROWS; r++)
        vec_unrolled
    for (int w = 0; w < WIDE; w++) {
        int i = tile.x + gemm_row(r), j = tile.y + block_column(w);
        if (i < size.x && j < size.y)
            gemm_leave(acc[r * WIDE + w], d + gemm_first(d_at) + i * d_at.z, c + gemm_first(c_at) + i * c_at.z, j,
                       size.y, scales);
    }
}
