/* The state carried over the chunks of a sequence, and left as it was before each:
 *     D = X' - W S                    (of low rank X' + W S, the second stream; what is written is D, or X as it is)
 *     S = e^(G_C) S + (K o e^(G_C - G))ᵀ D
 * One group: BV value columns of one head of one sequence, a segment of a stretch of it. Segments but the first begin
 * from zero (join.cl, outputs.cl): there is one where something is erased. Where the lanes are in two parts these share
 * the depth of every product, and the second leaves what it has to the first. */
KERNEL
states(global const data_t *k, long4 k_at, global const data_t *v, long4 v_at, global const data_t *e, long4 e_at,
       global const gate_t *w, long4 w_at, global const float *initial, long4 initial_at, global float *final,
       long4 final_at, global const int *cu, long4 cu_at, global float *records, long4 records_at, global float *rows,
       long4 rows_at, global float *before, long4 before_at, global float *carried, long4 carried_at,
       global float *segments, long4 segments_at, global float *kept, long4 kept_at, int seq_len, int states,
       int first_row)
{
    LOCAL_FLOATS(S, LOCAL_STATE)
    LOCAL_FLOATS(D, LOCAL_WRITTEN)
    LOCAL_FLOATS(slice, LOCAL_SLICE)
    ENGINE_LOCALS
    local float factors[FACTORS];
    engine_t m = engine_begin();
    place at = place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at);
    int c0 = get_group_id(2) % VALUE_GROUPS * BV, segment = get_group_id(2) / VALUE_GROUPS, heads = get_num_groups(1);
    int row = segment_first(at, first_row, segment), end = segment_first(at, first_row, segment + 1);
    int i0, n0; /* of the slices at hand */
    long whole = (long)at.sequence * heads + at.head;
    vec state[STATE_ROWS * WIDE];
    float keeps[STATE_ROWS];

    chunk_t chunk;
    global float *record, *made, *left;
    vec held_erasing[held_count(CHUNK, BK)], held_written[WRITTEN_ROWS * WIDE];
    write_raw_t held_rows[held_count(BK, KP)];
    value_raw_t held_values[held_count(CHUNK, BV)];
    float held_factors[FACTORS_HELD];

    state_begin();
    if (row < end)
        chunk_fetch(row);
    for (; row < end; row += CHUNK) {
        vec written[WRITTEN_ROWS * WIDE];

        SYNC();
        chunk_put();
        SYNC();
        state_decay();
        if (!ERASES)
            state_write(write, chunk_fetch_next);
        if (SECOND)
            state_write(write, erasing_fetch);
        if (ERASES)
            state_read();
        if (ERASES && !SECOND)
            state_write(write, chunk_fetch_next);
        if (SECOND)
            state_write(second, chunk_fetch_next);
        state_gather();
    }
    state_end();
}
