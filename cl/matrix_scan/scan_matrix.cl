/* The scan on a matrix engine, the state in registers, held [value][channel] so that no product needs an exchange
 * between sub-groups but the sum over halves of the channels:
 *     Dᵀ = (X - (P o e^G) S)ᵀ Tᵀ          (matrix_erase_*.clh; X without erase)
 *     Oᵀ = Sᵀ (Q o e^G)ᵀ + Dᵀ Aᵀ
 *     Sᵀ = e^(G_C) Sᵀ + Dᵀ (K o e^(G_C - G))
 * A sub-group: SPAN times ACC_ROWS value columns and 1/KEY_SPLIT of the channels of one head of one sequence. A
 * chunk's rows and factors are staged for the whole group, its values too (values_staged.clh) or each sub-group
 * fetches its own (values_strips.clh); its T and A a sub-group fetches by itself, a chunk ahead, or A is made in the
 * stage (reads_scored.clh). O may be left to other sub-groups (reads_apart.clh). */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const data_t, p) X(global const data_t, e) X(global const float, den) X(global const int, cu) \
    X(global const int, slots) X(global state_t, snapshots) X(global const uint, records) \
    X(global const uint, rows) X(global float, segments) X(global float, kept)
#define OPTIONALS(X) \
    X(global const state_t, initial) X(global state_t, final)
/* clang-format on */
KERNEL
scan_matrix(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int states, int every)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(stages, LOCAL_STAGES)
    VALUE_LOCALS
    READ_LOCALS
    SHARE_LOCALS
    SEGMENT_LOCALS
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    place whole =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    int heads = get_num_groups(1), group_c0 = value_column_of(get_group_id(2));
    int segment = segment_of(get_group_id(2)), segment_row = segment_rows(whole.rows) * segment;
    place at = segment_place(whole, segment_row);
    long slot = slot_of(whole, seq_len) + segment_row / CHUNK, next_record = (long)heads * MATRIX_RECORD;
    global const uint *record = records + records_at.x + (slot * heads + at.head) * MATRIX_RECORD;
    int value_tile = value_tile_of(LANE / ENGINE_LANES / KEY_SPLIT), c0 = group_c0 + value_tile * SPAN_COLUMNS,
        channel0 = share_part * KT * 16;
    int read_lane = frag_lane(m, PITCH) + channel0, write_lane = frag_lane_t(m, PITCH) + channel0;
    acc_t S[SPAN * KT];
    READ_REGISTERS
    ERASE_REGISTERS
    MOVE_REGISTERS
    VALUE_REGISTERS

    if (READERS > 0 && LANE >= COMPUTE_LANES && LANE < STAGE_LANE0) {
        read_main();
        return;
    }
    if (LOADERS == 0 || LANE >= STAGE_LANE0)
        move_begin(); /* by those that compute, where none loads for them */
    if (LOADERS > 0 && LANE >= STAGE_LANE0) {
        load_main();
        return;
    }

    values_begin();
    segment_load(S);
    if (FETCH_AHEAD) {
        erase_fetch(record);
        read_fetch(record);
    }
    for (int row = 0; row < at.rows; row += CHUNK) {
        local data_t *stage = stage_at(stages, row);
        address_t stage_address = address_of(stage);
        local const float *factors = stage_factors(stage);
        chain_t R[SPAN * KT], D[SPAN * NT];
        READ_CHUNK_REGISTERS

        if (OUTPUT_AHEAD)
            output_ahead = given_of(den, den_at, at, min(row + OUTPUT_LANE / OUTPUT_HAS, at.rows - 1) / STEPS);
        values_turn(row);
        engine_sync_all();
        if (LOADERS == 0)
            move_step(row, 0);
        if (STAGES == 1)
            engine_sync_all();
        engine_unrolled
        for (int i = 0; i < SPAN * KT; i++)
            R[i] = chain_of(m, S[i]);
        erase_reads(stage);
        read_start();
        state_decay(m, S, factors + STATE_FACTORS, channel0);
        erase_put();
        read_put();
        share_sync();
        erase_sum();
        read_sum();
        if (!FETCH_AHEAD)
            erase_fetch(record);
        erase_correct(stage);
        values_next(row);
        if (FETCH_AHEAD)
            erase_fetch(record + next_record);
        erase_write(0);
        if (!FETCH_AHEAD)
            read_fetch(record);
        read_finish();
        record += next_record;
        if (FETCH_AHEAD)
            read_fetch(record);
        if (NT > 1)
            erase_write(NT - 1);
        if (SNAPSHOTS)
            state_tiles_store(m, S, snapshot_of(snapshots, snapshots_at, whole, every, segment_row + row + CHUNK), c0,
                              channel0, STATE_VK);
        share_sync(); /* the output may take the place of values that others have still to load */
        read_output(row);
    }
    engine_sync_all();
    if (LOADERS == 0)
        move_end();
    segment_store(S);
}
