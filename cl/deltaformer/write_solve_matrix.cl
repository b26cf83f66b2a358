/* DeltaFormer on a matrix engine, the second kernel of a span, from what write_before_matrix.cl leaves. With s the parts of
 * the keys before the span, f_s what their sums are multiplied with (-beta / l, and what makes m the same), f that of the
 * span's own weights P, and J the tiles of the span's rows above tile I:
 *     Y = Σ_s f_s O_s      X_I = V_I + Y_I + f Σ_J P_IJ U_J      U_I = (I - f P_II)⁻¹ X_I
 *
 * A work-group has a span of one key head and BV value columns, a sub-group ACC_ROWS rows of ROWS at once. The inverses of
 * the tiles of 16 on the diagonal of these ROWS rows are made side by side; then the tiles are worked one after the other.
 * U takes the place of V in local memory. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, v) X(global const gate_t, e) X(global data_t, written) X(global const int, cu) \
    X(global float, partials)
/* clang-format on */
KERNEL
write_solve_matrix(TENSORS(PARAMETER) int seq_len, int kv_len, int given, int first_row)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(values, LOCAL_TILES) /* V, then U */
    LOCAL_FLOATS(factors, LOCAL_FACTORS)
    LOCAL_FLOATS(diagonals, LOCAL_DIAGONALS)
    LOCAL_NUMBERS(inverses, LOCAL_INVERSES)
    LOCAL_NUMBERS(right_side, LOCAL_TILE) /* X of one tile */
    ENGINE_LOCALS
    engine_t engine = engine_begin(engine_scratch);
    int first_column = get_group_id(2) * BV, group_row = LANE / ENGINE_LANES * ACC_ROWS, group_tile = group_row / 16;
    list_t list = write_list(get_group_id(0), get_group_id(1), first_row, SPAN_ROWS, seq_len, cu, cu_at, kv_len);
    global float *partial = partials_of(partials, partials_at);

    if (list.rows.count <= 0)
        return;
    values_put(values, v, v_at, list, first_column);
    for (int first = 0; first < list.rows.count; first += ROWS) {
        int row = first + group_row, row_tile = row / ACC_ROWS;
        acc_t before[VT], sums[VT], factor; /* Y, and Σ_J P U */
        chain_t weights[ROWS / 16], inverse;

        engine_unrolled
        for (int tile = 0; tile < ROWS / 16; tile++)
            if (WEIGHTS_AHEAD && tile <= group_tile)
                weights[tile] = span_weights(partial, row_tile, first / 16 + tile)[engine.lane];
        SYNC(); /* V, and U of the rows before, are there; nobody reads factors and inverses of these any more */
        factors_make(factors, partial, e, e_at, list, first, given);
        SYNC(); /* factors are there */
        engine_unrolled
        for (int c = 0; c < VT; c++) {
            before[c] = values_of(engine, values + row * VALUE_PITCH + c * 16);
            sums[c] = 0;
        }
        if (first_row > 0)
            parts_read(engine, before, partial, factors, row, group_row, first_column);
        few_unrolled for (int tile = 0; tile < first / 16; tile++)
            own_read(engine, sums, span_weights(partial, row_tile, tile)[engine.lane],
                     address_of(values + tile * 16 * VALUE_PITCH + frag_lane_t(engine, VALUE_PITCH)));
        factor = acc_of_rows(rows_of(engine, factors + SPLITS * ROWS + group_row));
        diagonal_put(engine, diagonals + group_tile * 256,
                     factor * acc_of(engine, span_weights(partial, row_tile, row / 16)[engine.lane]), group_row % 16);
        SYNC(); /* tiles on the diagonal are whole */
        inverses_make(inverses, diagonals);
        SYNC(); /* inverses are there */
        inverse = chain_load(engine, address_of(inverses + group_row * TILE_PITCH + chain_lane(engine, TILE_PITCH)),
                             TILE_PITCH);
        engine_unrolled
        for (int tile = 0; tile < ROWS / 16; tile++) {
            local data_t *written_tile = values + (first + tile * 16) * VALUE_PITCH;
            acc_t solved[VT];

            engine_unrolled
            for (int c = 0; c < VT; c++)
                solved[c] = before[c] + factor * sums[c];
            if (tile == group_tile)
                tile_put(engine, right_side + group_row % 16 * VALUE_PITCH, solved);
            engine_sync_own(); /* X of the tile is there: where this is no barrier of the group a sub-group has all of it */
            if (!ENGINE_ALONE || tile == group_tile)
                own_read(engine, solved, inverse, address_of(right_side + frag_lane_t(engine, VALUE_PITCH)));
            if (tile == group_tile)
                tile_put(engine, written_tile + group_row % 16 * VALUE_PITCH, solved);
            SYNC(); /* U of the tile is there */
            if (!ENGINE_ALONE || tile < group_tile)
                own_read(engine, sums,
                         WEIGHTS_AHEAD ? weights[tile]
                                       : span_weights(partial, row_tile, first / 16 + tile)[engine.lane],
                         address_of(written_tile + frag_lane_t(engine, VALUE_PITCH)));
        }
    }
    SYNC(); /* U is whole */
    values_store(values, written, written_at, list, first_column);
}
