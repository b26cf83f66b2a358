/* D = alpha A B + beta C of each matrix of a batch, numbers of 16 bits on a matrix engine. One group: BM x BN of D, a
 * sub-group ROW_TILES tiles of ACC_ROWS rows by COLUMN_TILES tiles of 16 columns of it. Slices of BK of the depth lie
 * in STAGES places of local memory, as they lie in memory, all but one of them on their way. Rows of A are the chain,
 * and columns of B the frag: either is loaded across where it lies so. */
#include "matrix.clh"
#include "gemm_tiles.clh"

enum { ALL_TILES = ROW_TILES * COLUMN_TILES };

/* `rows` rows of `width` numbers from row i0, number n0 on; 0 past the matrix */
WORD void tile_copy_edge(local data_t *tile, int pitch, const operand_t *x, int i0, int n0, int rows, int width)
{
    _Pragma("unroll 1") for (int task = LANE; task < rows * width / 8; task += GROUP)
    {
        int i = task / (width / 8), n = task % (width / 8) * 8;
        uint4 y = 0;
        if (i0 + i < x->rows && n0 + n < x->width)
            y = piece_part(x->from + (i0 + i) * x->stride + n0 + n, x->width - n0 - n);
        piece_put(tile + i * pitch + n, y);
    }
}
WORD void tile_copy(local data_t *tile, int pitch, const operand_t *x, int i0, int n0, int rows, int width)
{
    if (i0 + rows > x->rows || n0 + width > x->width || !rows_aligned(x->from, x->stride)) {
        tile_copy_edge(tile, pitch, x, i0, n0, rows, width);
        return;
    }
    copies_unrolled for (int task = LANE; task < rows * width / 8; task += GROUP)
    {
        int i = task / (width / 8), n = task % (width / 8) * 8;
        piece_copy(tile + i * pitch + n, x->from + (i0 + i) * x->stride + n0 + n);
    }
}

/* The slice of the depth from k on, where there is one, to its place */
WORD void slice_copy(local data_t *tiles, const operand_t *a, const operand_t *b, int2 tile, int k, int depth)
{
    local data_t *left = tiles + k / BK % STAGES * (LEFT_TILE + RIGHT_TILE), *right = left + LEFT_TILE;

    if (k < depth) {
        if (TURNED_A)
            tile_copy(left, LEFT_PITCH, a, k, tile.x, BK, BM);
        else
            tile_copy(left, LEFT_PITCH, a, tile.x, k, BM, BK);
        if (TURNED_B)
            tile_copy(right, RIGHT_PITCH, b, tile.y, k, BN, BK);
        else
            tile_copy(right, RIGHT_PITCH, b, k, tile.y, BK, BN);
    }
    copies_group();
}

/* From which place a lane reads the sub-group's tiles, in numbers: of A, of B */
WORD int left_place(engine_t m, int row)
{
    return TURNED_A ? row + chain_lane_t(m, LEFT_PITCH) : row * LEFT_PITCH + chain_lane(m, LEFT_PITCH);
}
WORD int right_place(engine_t m, int column)
{
    return TURNED_B ? column * RIGHT_PITCH + frag_lane(m, RIGHT_PITCH) : column + frag_lane_t(m, RIGHT_PITCH);
}
/* Tile t of rows, or of columns, at depth k of the slice */
WORD chain_t left_load(engine_t m, address_t left, int t, int k)
{
    if (TURNED_A)
        return chain_load_t(m, address_plus(left, k * LEFT_PITCH + t * ACC_ROWS), LEFT_PITCH);
    return chain_load(m, address_plus(left, t * ACC_ROWS * LEFT_PITCH + k), LEFT_PITCH);
}
WORD frag_t right_load(engine_t m, address_t right, int t, int k)
{
    if (TURNED_B)
        return frag_load(m, address_plus(right, t * 16 * RIGHT_PITCH + k), RIGHT_PITCH);
    return frag_load_t(m, address_plus(right, k * RIGHT_PITCH + t * 16), RIGHT_PITCH);
}

WORD void slice_multiply(engine_t m, acc_t *acc, address_t left, address_t right)
{
    engine_unrolled
    for (int k = 0; k < BK; k += 16) {
        chain_t rows[ROW_TILES];
        engine_unrolled
        for (int t = 0; t < ROW_TILES; t++)
            rows[t] = left_load(m, left, t, k);
        engine_unrolled
        for (int c = 0; c < COLUMN_TILES; c++) {
            frag_t columns = right_load(m, right, c, k);
            engine_unrolled
            for (int t = 0; t < ROW_TILES; t++)
                acc[t * COLUMN_TILES + c] = mma_frag(m, acc[t * COLUMN_TILES + c], rows[t], columns);
        }
    }
}

/* A tile of D, number by number */
WORD void acc_leave(engine_t m, acc_t acc, global out_t *d, long d_stride, global const out_t *c, long c_stride,
                    int rows, int columns, float2 scales)
{
    float element[ACC];

    CAT(vstore, ACC)(scales.x * acc, 0, element);
    engine_unrolled
    for (int e = 0; e < ACC; e++) {
        int i = acc_row(m, e), j = acc_column(m, e);
        if (i >= rows || j >= columns)
            continue;
        if (scales.y != 0)
            element[e] += scales.y * out_get(c, i * c_stride + j);
        out_put(element[e], d, i * d_stride + j);
    }
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, a) X(global const data_t, b) X(global const out_t, c) X(global out_t, d)
/* clang-format on */
KERNEL
gemm_matrix(TENSORS(PARAMETER) int4 size, float2 scales)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    int2 tile = gemm_tile(size);
    operand_t left_operand, right_operand;
    int sub = LANE / ENGINE_LANES;
    int row = sub / SUB_COLUMNS * ROW_TILES * ACC_ROWS, column = sub % SUB_COLUMNS * COLUMN_TILES * 16;
    address_t left = address_of(tiles + left_place(m, row));
    address_t right = address_of(tiles + LEFT_TILE + right_place(m, column));
    acc_t acc[ALL_TILES];

    left_of(&left_operand, a, a_at, size);
    right_of(&right_operand, b, b_at, size);
    engine_unrolled
    for (int t = 0; t < ALL_TILES; t++)
        acc[t] = 0;
    engine_unrolled
    for (int s = 0; s < STAGES - 1; s++)
        slice_copy(tiles, &left_operand, &right_operand, tile, s * BK, size.z);
    _Pragma("unroll 1") for (int k = 0; k < size.z; k += BK)
    {
        int stage = k / BK % STAGES * (LEFT_TILE + RIGHT_TILE);
        copies_wait();
        engine_sync_all();
        slice_copy(tiles, &left_operand, &right_operand, tile, k + (STAGES - 1) * BK, size.z);
        slice_multiply(m, acc, address_plus(left, stage), address_plus(right, stage));
    }
    engine_unrolled
    for (int t = 0; t < ALL_TILES; t++) {
        int i = tile.x + row + t / COLUMN_TILES * ACC_ROWS, j = tile.y + column + t % COLUMN_TILES * 16;
        acc_leave(m, acc[t], d + gemm_first(d_at) + i * d_at.z + j, d_at.z, c + gemm_first(c_at) + i * c_at.z + j,
                  c_at.z, size.x - i, size.y - j, scales);
    }
}
