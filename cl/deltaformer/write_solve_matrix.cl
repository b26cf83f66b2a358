/* write_solve.cl on a matrix engine, from what write_before_matrix.cl leaves. P has what it lacks, f, apart:
 *     Y = Σ_s f_s (Σ P u)_s      X = V + Y + f Σ P_J U_J      U_I = (I - f P_I)⁻¹ X_I
 * s the parts of the keys before the span, J the tiles of its own rows above tile I, which are worked one after the
 * other; their inverses are made side by side, ROWS rows at once. U takes the place of V in local memory. One group: a
 * span of one key head, BV value columns. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, v) X(global const gate_t, e) X(global data_t, written) X(global const int, cu) \
    X(global float, parts)
/* clang-format on */
KERNEL
write_solve_matrix(TENSORS(PARAMETER) int seq_len, int kv_len, int given, int first_row)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(U, LOCAL_TILES)
    LOCAL_FLOATS(factors, LOCAL_FACTORS)
    LOCAL_FLOATS(M, LOCAL_DIAGONALS)
    LOCAL_NUMBERS(T, LOCAL_INVERSES)
    LOCAL_NUMBERS(X, LOCAL_TILE)
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    int c0 = get_group_id(2) * BV, own_row = LANE / ENGINE_LANES * ACC_ROWS, own_tile = own_row / 16;
    list_t list = write_list(get_group_id(0), get_group_id(1), first_row, SPAN_ROWS, seq_len, cu, cu_at, kv_len);
    global float *part = write_part(parts, parts_at);

    if (list.rows.count <= 0)
        return;
    values_put(U, v, v_at, list, c0);
    for (int first = 0; first < list.rows.count; first += ROWS) {
        int row = first + own_row, row_tile = row / ACC_ROWS;
        acc_t Y[VT], O[VT], factor;
        chain_t P[ROWS / 16], inverse;

        engine_unrolled
        for (int tile = 0; tile < ROWS / 16; tile++)
            if (WEIGHTS_AHEAD && tile <= own_tile)
                P[tile] = part_weights(part, row_tile, first / 16 + tile)[m.lane];
        SYNC();
        factors_make(factors, part, e, e_at, list, first, given);
        SYNC();
        engine_unrolled
        for (int c = 0; c < VT; c++) {
            Y[c] = values_of(m, U + row * VALUE_PITCH + c * 16);
            O[c] = 0;
        }
        if (first_row > 0)
            parts_read(m, Y, part, factors, row, own_row, c0);
        few_unrolled for (int tile = 0; tile < first / 16; tile++)
            own_read(m, O, part_weights(part, row_tile, tile)[m.lane],
                     address_of(U + tile * 16 * VALUE_PITCH + frag_lane_t(m, VALUE_PITCH)));
        factor = acc_of_rows(rows_of(m, factors + SPLITS * ROWS + own_row));
        diagonal_put(m, M + own_tile * 256, factor * acc_of(m, part_weights(part, row_tile, row / 16)[m.lane]),
                     own_row % 16);
        SYNC();
        inverses_make(T, M);
        SYNC();
        inverse = chain_load(m, address_of(T + own_row * TILE_PITCH + chain_lane(m, TILE_PITCH)), TILE_PITCH);
        engine_unrolled
        for (int tile = 0; tile < ROWS / 16; tile++) {
            local data_t *u = U + (first + tile * 16) * VALUE_PITCH;
            acc_t Z[VT];

            engine_unrolled
            for (int c = 0; c < VT; c++)
                Z[c] = Y[c] + factor * O[c];
            if (tile == own_tile)
                tile_put(m, X + own_row % 16 * VALUE_PITCH, Z);
            engine_sync_own();
            if (!ENGINE_ALONE || tile == own_tile)
                own_read(m, Z, inverse, address_of(X + frag_lane_t(m, VALUE_PITCH)));
            if (tile == own_tile)
                tile_put(m, u + own_row % 16 * VALUE_PITCH, Z);
            SYNC();
            if (!ENGINE_ALONE || tile < own_tile)
                own_read(m, O, WEIGHTS_AHEAD ? P[tile] : part_weights(part, row_tile, first / 16 + tile)[m.lane],
                         address_of(u + frag_lane_t(m, VALUE_PITCH)));
        }
    }
    SYNC();
    values_store(U, written, written_at, list, c0);
}
