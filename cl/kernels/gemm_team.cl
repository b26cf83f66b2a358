/* gemm_matrix.cl by teams of sub-groups, which multiply B where it lies in local memory. One group: BM x BN of D, a
 * sub-group ROW_TILES tiles of 16 rows of it. Slices of BK of B's depth lie in STAGES places, in panels;
 * gemm_moved_apart.clh and gemm_moved.clh say who moves them. Rows of A, which nobody shares, go from memory to the
 * registers of those that multiply them, a slice ahead: gemm_rows.clh and gemm_rows_turned.clh. */
#include "gemm_acc.clh"

enum { TILES = ROW_TILES * BK / 16, COLUMN_TILES = BN / 16, OUT_PITCH = BN + 8 };

WORD void slice_multiply(engine_t m, acc_t *acc, const chain_t *rows, address_t right)
{
    team_begin();
    engine_unrolled
    for (int t = 0; t < TILES; t++) {
        int k = t % (BK / 16) * 16;
        team_multiply(m, acc + t / (BK / 16) * COLUMN_TILES, COLUMN_TILES, rows[t], right, PANEL_PITCH,
                      TURNED_B ? 0 : k, TURNED_B ? k : 0, !TURNED_B);
    }
    team_end();
}

/* Tile s of D's rows through the sub-group's own part of local memory: in whole lines */
WORD void rows_leave(engine_t m, local data_t *tile, const acc_t *acc, int s, global out_t *d, long d_stride,
                     float scale)
{
    engine_sync_own();
    engine_unrolled
    for (int c = 0; c < COLUMN_TILES; c++)
        acc_put(m, tile + c * 16, OUT_PITCH, scale * acc[c]);
    engine_sync_own();
    for (int task = m.lane; task < 16 * BN / 8; task += ENGINE_LANES) {
        int i = task / (BN / 8), j = task % (BN / 8) * 8;
        *(global uint4 *)(d + tile_row(s, i) * d_stride + j) = *(local const uint4 *)(tile + i * OUT_PITCH + j);
    }
}

/* Where a row of the group's matrix begins */
WORD long row_first(long4 at, int row)
{
    return gemm_first(at) + row * at.z;
}

KERNEL
gemm_team(global const data_t *a, long4 a_at, global const data_t *b, long4 b_at, global const out_t *c, long4 c_at,
          global out_t *d, long4 d_at, int4 size, float2 scales)
{
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    int2 tile = gemm_tile(size);
    int sub = LANE / ENGINE_LANES, row = tile.x + sub * ROW_TILES * 16;
    address_t right = address_of(tiles);
    slices_t slices = {tiles, tile.y, size.z};
    part_t left;
    acc_t acc[ROW_TILES * COLUMN_TILES];
    uint4 pieces[PIECES];

    left_of(&left, a, a_at, size);
    right_of(&slices.b, b, b_at, size);
    if (!is_computing()) {
        slices_move(&slices);
        return;
    }
    team_grow();
    engine_unrolled
    for (int t = 0; t < ROW_TILES * COLUMN_TILES; t++)
        acc[t] = 0;
    slices_begin(&slices);
    rows_get(m, pieces, &left, row, 0);
    _Pragma("unroll 1") for (int n = 0; n * BK < size.z; n++)
    {
        chain_t rows[TILES];
        rows_of(m, rows, pieces);
        rows_get(m, pieces, &left, row, (n + 1) * BK);
        slice_wait(&slices, n);
        slice_multiply(m, acc, rows, address_plus(right, slice_place(n)));
        slice_done(&slices, n);
    }
    slices_end(); /* D's rows take the place of slices */
    if (sizeof(out_t) == 2 && scales.y == 0 && tile.x + BM <= size.x && tile.y + BN <= size.y &&
        ((ulong)(d + gemm_first(d_at)) % 16 == 0) & (d_at.z % 8 == 0)) {
        engine_unrolled
        for (int s = 0; s < ROW_TILES; s++)
            rows_leave(m, tiles + sub * 16 * OUT_PITCH, acc + s * COLUMN_TILES, s, d + row_first(d_at, row) + tile.y,
                       d_at.z, scales.x);
        return;
    }
    engine_unrolled
    for (int t = 0; t < ROW_TILES * COLUMN_TILES; t++) {
        int j = tile.y + t % COLUMN_TILES * 16;
        acc_leave(m, acc[t], t / COLUMN_TILES, d + row_first(d_at, row) + j, d_at.z, c + row_first(c_at, row) + j,
                  c_at.z, size.x - row, size.y - j, scales);
    }
}
