/* The scan on a matrix engine, the state in registers, held [value][channel] so that no product needs an exchange between
 * sub-groups but the sum over halves of the channels:
 *     Dᵀ = (X - (P o e^G) S)ᵀ Tᵀ          (matrix_erase_*.clh; X without erase)
 *     Oᵀ = Sᵀ (Q o e^G)ᵀ + Dᵀ Aᵀ
 *     Sᵀ = e^(G_C) Sᵀ + Dᵀ (K o e^(G_C - G))
 * A sub-group: 16 value columns and 1/KEY_SPLIT of the channels of one head of one sequence. Tiles, rows and factors of a chunk
 * are staged for the whole group, STAGES - 1 chunks ahead. */
KERNEL
scan_matrix(global const data_t *q, long4 q_at, global const data_t *k, long4 k_at, global const data_t *v, long4 v_at,
            global out_t *o, long4 o_at, global const data_t *p, long4 p_at, global const data_t *e, long4 e_at,
            global const float *den, long4 den_at, global const float *initial, long4 initial_at, global float *final,
            long4 final_at, global const int *cu, long4 cu_at, global const uint *records, long4 records_at,
            global const uint *rows, long4 rows_at, int seq_len, int states)
{
    local data_t stages[STAGES * STAGE] __attribute__((aligned(64)));
    SHARE_LOCALS
    ENGINE_LOCALS
    engine_t m = engine_begin();
    place at = place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at);
    int heads = get_num_groups(1), group_c0 = get_group_id(2) * VALUES;
    int stages_here = LANE >= STAGE_LANE0, computes_here = LANE < COMPUTE_LANES;
    int value_tile = LANE / ENGINE_LANES / KEY_SPLIT, c0 = group_c0 + value_tile * 16, channel0 = share_part * KT * 16;
    long slot = slot_of(at, seq_len), next_record = (long)heads * MATRIX_RECORD;
    global const uint *record = records + records_at.x + (slot * heads + at.head) * MATRIX_RECORD;
    global const uint *next_factors = record + MATRICES * MATRIX_FRAGS;
    int output_parts = output_parts_of(output_row(at, 0) + group_c0);
    source_t sources[STREAMS], values = value_source(at, group_c0);
    acc_t S[KT], mine[MINE];
    frag_t A[MINE * NT];
    int staged = 0, stage_in = 0, stage_out = 0, stage_before = 0, sources_aligned = values.aligned & values_whole(group_c0);
    int stream_lane = copy_lane(WIDTH, PITCH), values_lane = copy_lane(VALUES, VALUE_PITCH);
    int read_lane = frag_lane(m, PITCH) + channel0, write_lane = frag_lane_t(m, PITCH) + channel0;
    int value_lane = chain_lane_t(m, VALUE_PITCH) + value_tile * 16;
    ERASE_REGISTERS

    row_sources(sources, at, slot, heads);
    engine_unrolled for (int s = 0; s < STREAMS; s++)
        sources_aligned &= sources[s].aligned;
    if (stages_here)
        for (int i = 0; i < STAGES - 1; i++) {
            stage_streams_next();
            stage_values_next();
        }
    if (computes_here) {
        state_tiles_load(m, S, state_of(initial, at), states & HAS_INITIAL, c0, channel0);
        fetch_rows(m, A, record);
        erase_fetch(record);
        erase_fetch_mix(record);
    }
    for (int row = 0;; row += CHUNK) {
        local data_t *stage = stages + stage_out * STAGE;
        local const float *factors = stage_factors(stage);
        address_t stage_address = address_of(stage);
        acc_t O[NT];
        chain_t R[KT], D[NT];

        stage_wait();
        if (stages_here) {
            stage_streams_next();
            if (row > 0)
                output_store_tile(stage_output(stages + stage_before * STAGE), row - CHUNK);
            engine_stored(STAGE_LANES); /* the next values take its place */
            stage_values_next();
        }
        stage_wait_one();
        if (row >= at.rows)
            break;
        stage_before = stage_out;
        stage_out = stage_out + 1 == STAGES ? 0 : stage_out + 1;
        if (!computes_here)
            continue;
        engine_unrolled for (int kt = 0; kt < KT; kt++) R[kt] = chain_of(m, S[kt]);
        erase_reads(stage);
        engine_unrolled for (int n = 0; n < NT; n++) O[n] = 0;
        read_state(m, O, R, read_stream(STREAM_Q), 0, READ_FIRST);
        state_decay(m, S, state_factors(factors), channel0);
        erase_put();
        share_put(1, O);
        share_sync();
        erase_sum();
        share_sum(1, O);
        erase_correct(stage);
        record += next_record;
        erase_fetch(record);
        erase_write(0);
        engine_unrolled for (int n = 0; n < NT; n++) O[n] = row_factors(m, O[n], read_factors(factors) + n * 16);
        engine_unrolled for (int i = 0; i < MINE; i++)
        {
            mine[i] = share_mine(i, O);
            erase_mix(mine[i], i);
        }
        fetch_rows(m, A, record);
        erase_fetch_mix(record);
        if (NT > 1)
            erase_write(NT - 1);
        output_finish(stage_output(stage), row);
    }
    if (computes_here)
        state_tiles_store(m, S, state_of(final, at), states & HAS_FINAL, c0, channel0);
}
