/* D = alpha X W + beta C where X has few rows, ROWS: each number of W is read once and multiplied with all of them.
 * Views: x offset, y from one matrix of the batch to the next, z from row to row, w from column to column, so that the
 * transpose of a product is one, too. TURNED_B: W lies as [column][depth], and DEPTH_LANES lanes read along a row of
 * it, of WIDE columns each; else WIDE vectors of a row side by side, and DEPTH_LANES rows at once. Lanes that share
 * columns are joined in local memory. size is columns of D, depth. */
#include "gemm_out.clh"

enum { COLUMNS = GROUP / DEPTH_LANES * WIDE * (TURNED_B ? 1 : VEC) /* of a group */ };
#define depth_lane (TURNED_B ? LANE % DEPTH_LANES : LANE / (GROUP / DEPTH_LANES))
#define column_lane (TURNED_B ? LANE / DEPTH_LANES : LANE % (GROUP / DEPTH_LANES))
WORD long gemv_first(long4 at)
{
    return at.x + at.y * (long)get_group_id(1);
}

/* VEC numbers of a row of X from k on */
WORD vec given_row(global const data_t *x, long4 x_at, int r, int k, int depth)
{
    float y[VEC];

    x += r * x_at.z;
    if (x_at.w == 1)
        return data_row(x, k, depth);
    vec_unrolled
    for (int e = 0; e < VEC; e++)
        y[e] = k + e < depth ? data_get(x, (k + e) * x_at.w) : 0;
    return CAT(vload, VEC)(0, y);
}

/* acc[r][w] += along the depth, a vector at a time */
WORD void along_rows(vec *acc, global const data_t *x, long4 x_at, global const data_t *w, long stride, int column,
                     int2 size)
{
    for (int k = depth_lane * VEC; k < size.y; k += DEPTH_LANES * VEC) {
        vec y[WIDE];
        vec_unrolled
        for (int i = 0; i < WIDE; i++)
            y[i] = column + i < size.x ? weights_row(w + (column + i) * stride, k, size.y) : (vec)(0);
        vec_unrolled
        for (int r = 0; r < ROWS; r++) {
            vec given = given_row(x, x_at, r, k, size.y);
            vec_unrolled
            for (int i = 0; i < WIDE; i++)
                acc[r * WIDE + i] += given * y[i];
        }
    }
}
/* The same down the columns, a row of W at a time */
WORD void down_columns(vec *acc, global const data_t *x, long4 x_at, global const data_t *w, long stride, int column,
                       int2 size)
{
    _Pragma("unroll 4") for (int k = depth_lane; k < size.y; k += DEPTH_LANES)
    {
        vec y[WIDE];
        vec_unrolled
        for (int i = 0; i < WIDE; i++)
            y[i] = column + i * VEC < size.x ? weights_row(w + k * stride, column + i * VEC, size.x) : (vec)(0);
        vec_unrolled
        for (int r = 0; r < ROWS; r++) {
            float given = data_get(x, r * x_at.z + k * x_at.w);
            vec_unrolled
            for (int i = 0; i < WIDE; i++)
                acc[r * WIDE + i] += given * y[i];
        }
    }
}

/* One number of D */
WORD void leave(float x, global out_t *d, global const out_t *c, float2 scales)
{
    x *= scales.x;
    if (scales.y != 0)
        x += scales.y * out_get(c, 0);
    out_put(x, d, 0);
}

/* What lanes have of a row of D, to local memory: [depth lane][column] */
WORD void row_put(local float *parts, const vec *acc)
{
    local float *to = parts + depth_lane * COLUMNS + column_lane * WIDE * (TURNED_B ? 1 : VEC);

    vec_unrolled
    for (int i = 0; i < WIDE; i++)
        if (TURNED_B)
            to[i] = vec_sum(acc[i]);
        else
            vec_store(acc[i], to + i * VEC);
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, x) X(global const data_t, w) X(global const out_t, c) X(global out_t, d)
/* clang-format on */
KERNEL
gemv(TENSORS(PARAMETER) int2 size, float2 scales)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(parts, LOCAL_PARTS)
    int first = get_group_id(0) * COLUMNS, column = first + column_lane * WIDE * (TURNED_B ? 1 : VEC);
    vec acc[ROWS * WIDE];

    vec_unrolled
    for (int i = 0; i < ROWS * WIDE; i++)
        acc[i] = 0;
    if (TURNED_B)
        along_rows(acc, x + gemv_first(x_at), x_at, w + gemv_first(w_at), w_at.z, column, size);
    else
        down_columns(acc, x + gemv_first(x_at), x_at, w + gemv_first(w_at), w_at.z, column, size);
    vec_unrolled
    for (int r = 0; r < ROWS; r++) {
        SYNC();
        row_put(parts, acc + r * WIDE);
        SYNC();
        for_each(j, COLUMNS) {
            long at = r * d_at.z + (first + j) * d_at.w, c_from = r * c_at.z + (first + j) * c_at.w;
            float sum = 0;
            for (int lane = 0; lane < DEPTH_LANES; lane++)
                sum += parts[lane * COLUMNS + j];
            if (first + j < size.x)
                leave(sum, d + gemv_first(d_at) + at, c + gemv_first(c_at) + c_from, scales);
        }
    }
}
