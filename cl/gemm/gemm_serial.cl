/* D = alpha A B + beta C of each matrix of a batch where a work-item is a thread with wide vectors. It has BM x BN of
 * D, summed in local memory, which here is a cache: a slice of BK of the depth at a time is brought near, B in panels
 * of WIDE vectors, and multiplied ROWS by WIDE vectors at a time, whose sums are registers. */
#include "gemm_tiles.clh"

enum { PANEL = WIDE * VEC };

/* The vector at row i, number n; zero past the end */
WORD vec operand_vec(const operand_t *x, int i, int n)
{
    return i < x->rows && n < x->width ? data_row(x->from + i * x->stride, n, x->width) : (vec)(0);
}

/* A's rows, or its columns where it is turned, as they lie */
WORD void left_bring(local float *left, const operand_t *a, int i0, int k0)
{
    int rows = TURNED_A ? BK : BM, width = TURNED_A ? BM : BK;

    for (int i = 0; i < rows; i++)
        for (int n = 0; n < width; n += VEC)
            vec_store(operand_vec(a, (TURNED_A ? k0 : i0) + i, (TURNED_A ? i0 : k0) + n), left + i * LEFT_PITCH + n);
}

/* Where B's number lies in panels: [panel][depth][PANEL] */
WORD int right_at(int k, int n)
{
    return n / PANEL * (BK * PANEL) + k * PANEL + n % PANEL;
}
WORD void right_bring(local float *right, const operand_t *b, int j0, int k0)
{
    for (int k = 0; k < BK; k++)
        for (int n = 0; n < BN; n += VEC)
            vec_store(operand_vec(b, k0 + k, j0 + n), right + right_at(k, n));
}
/* The same of a B that lies as [n][k] */
WORD void right_bring_turned(local float *right, const operand_t *b, int j0, int k0)
{
    for (int k = 0; k < BK; k += VEC)
        for (int n = 0; n < BN; n++) {
            float x[VEC];
            vec_store(operand_vec(b, j0 + n, k0 + k), x);
            for (int e = 0; e < VEC; e++)
                right[right_at(k + e, n)] = x[e];
        }
}

/* sums[ROWS][PANEL] += left right */
WORD void block_multiply(local float *sums, local const float *left, local const float *right)
{
    vec acc[ROWS * WIDE];

    vec_unrolled
    for (int i = 0; i < ROWS * WIDE; i++)
        acc[i] = vec_load(sums + i / WIDE * BN + i % WIDE * VEC);
    for (int k = 0; k < BK; k++) {
        vec x[WIDE];
        vec_unrolled
        for (int w = 0; w < WIDE; w++)
            x[w] = vec_load(right + k * PANEL + w * VEC);
        vec_unrolled
        for (int r = 0; r < ROWS; r++) {
            float y = left[r * LEFT_ROW + k * LEFT_DEPTH];
            vec_unrolled
            for (int w = 0; w < WIDE; w++)
                acc[r * WIDE + w] += y * x[w];
        }
    }
    vec_unrolled
    for (int i = 0; i < ROWS * WIDE; i++)
        vec_store(acc[i], sums + i / WIDE * BN + i % WIDE * VEC);
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, a) X(global const data_t, b) X(global const out_t, c) X(global out_t, d)
/* clang-format on */
KERNEL
gemm_serial(TENSORS(PARAMETER) int4 size, float2 scales)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(left, LOCAL_LEFT)
    LOCAL_FLOATS(right, LOCAL_RIGHT)
    LOCAL_FLOATS(sums, SUMS_TILE)
    int2 tile = gemm_tile(size);
    operand_t left_operand, right_operand;
    int rows = min(BM, size.x - tile.x), columns = min(BN, size.y - tile.y);

    left_of(&left_operand, a, a_at, size);
    right_of(&right_operand, b, b_at, size);
    for (int i = 0; i < SUMS_TILE; i += VEC)
        vec_store((vec)(0), sums + i);
    for (int k = 0; k < size.z; k += BK) {
        left_bring(left, &left_operand, tile.x, k);
        if (TURNED_B)
            right_bring_turned(right, &right_operand, tile.y, k);
        else
            right_bring(right, &right_operand, tile.y, k);
        for (int n = 0; n < columns; n += PANEL)
            for (int i = 0; i < rows; i += ROWS)
                block_multiply(sums + i * BN + n, left + i * LEFT_ROW, right + n * BK);
    }
    for (int i = 0; i < rows; i++)
        for (int n = 0; n < columns; n += VEC)
            gemm_leave(vec_load(sums + i * BN + n), d + gemm_first(d_at) + (tile.x + i) * d_at.z,
                       c + gemm_first(c_at) + (tile.x + i) * c_at.z, tile.y + n, size.y, scales);
}
