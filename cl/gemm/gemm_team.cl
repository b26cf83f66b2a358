/* gemm_matrix.cl by teams of sub-groups, which multiply B where it lies in local memory. One group: BM x BN of D, a
 * sub-group ROW_TILES tiles of 16 rows of it. Slices of BK of B's depth lie in STAGES places, in panels;
 * gemm_moved_apart.clh and gemm_moved.clh say who moves them. Rows of A, which nobody shares, go from memory to the
 * registers of those that multiply them, a slice ahead: gemm_rows.clh and gemm_rows_turned.clh. */

enum { TILES = ROW_TILES * BK / 16, COLUMN_TILES = BN / 16, OUT_PITCH = PANEL + 8 };

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

/* A tile of the sub-group's rows and as many columns as a panel has, through its own strip of local memory: in whole
 * lines */
WORD void tile_leave(engine_t m, local float *tile, const acc_t *acc, int s, global out_t *d, long d_stride,
                     global const out_t *c, long c_stride, int rows, int columns, float2 scales)
{
    engine_sync_own();
    engine_unrolled
    for (int t = 0; t < PANEL / 16; t++) {
        float element[ACC];
        CAT(vstore, ACC)(acc[t], 0, element);
        engine_unrolled
        for (int e = 0; e < ACC; e += 2) /* two side by side */
            *(local float2 *)(tile + acc_row(m, e) * OUT_PITCH + t * 16 + acc_column(m, e)) = vload2(0, element + e);
    }
    engine_sync_own();
    for (int task = m.lane; task < 16 * PANEL / VEC; task += ENGINE_LANES) {
        int at = task / (PANEL / VEC), i = tile_row(s, at), j = task % (PANEL / VEC) * VEC;
        if (i < rows && j < columns)
            gemm_leave(vec_load(tile + at * OUT_PITCH + j), d + i * d_stride, c + i * c_stride, j, columns, scales);
    }
}

/* Where a row of the group's matrix begins */
WORD long row_first(long4 at, int row)
{
    return gemm_first(at) + row * at.z;
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, a) X(global const data_t, b) X(global const out_t, c) X(global out_t, d)
/* clang-format on */
KERNEL
gemm_team(TENSORS(PARAMETER) int4 size, float2 scales)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    int2 tile = gemm_tile(size);
    int sub = LANE / ENGINE_LANES, row = tile.x + sub * ROW_TILES * 16;
    address_t right = address_of(tiles);
    slices_t slices = {tiles, tile.y, size.z};
    operand_t left;
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
    engine_unrolled
    for (int t = 0; t < ROW_TILES * BN / PANEL; t++) {
        int j = tile.y + t % (BN / PANEL) * PANEL;
        tile_leave(m, (local float *)tiles + sub * 16 * OUT_PITCH, acc + t * PANEL / 16, t / (BN / PANEL),
                   d + row_first(d_at, row) + j, d_at.z, c + row_first(c_at, row) + j, c_at.z, size.x - row, size.y - j,
                   scales);
    }
}
