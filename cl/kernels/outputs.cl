/* O = (Q o e^G) S + A D of a chunk, S the state before it and D what it wrote (of low rank A X + A_qb D). In segments
 * but the first, S is what the segment has added so far, and what is kept of the state that it began with. One group:
 * BV value columns of one chunk of one head. */
KERNEL
outputs(global const data_t *q, long4 q_at, global const data_t *k, long4 k_at, global const data_t *v, long4 v_at,
        global out_t *o, long4 o_at, global const gate_t *w, long4 w_at, global const float *den, long4 den_at,
        global const int *cu, long4 cu_at, global const float *records, long4 records_at, global const float *rows,
        long4 rows_at, global const float *before, long4 before_at, global const float *segments, long4 segments_at,
        int seq_len, int sequences, float scale, int first_row)
{
    LOCAL_FLOATS(tiles, LOCAL_TILES)
    ENGINE_LOCALS
    OUTPUT_LOCALS
    LOCAL_FLOATS(factors, FACTORS)
    LOCAL_FLOATS(keeps, LOCAL_KEEPS)
    engine_t m = engine_begin(engine_scratch);
    chunk_t chunk = stretch_chunk(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at, first_row);
    long block = (long)get_group_id(0) * get_num_groups(1) + get_group_id(1);
    global const float *record = records + records_at.x + block * RECORD, *made = rows + rows_at.x + block * MADE_ROWS;
    int c0 = get_group_id(2) * BV;
    global const float *state = before + before_at.x + block * KP * VP + c0;
    int segment = SEGMENTS > 1 ? segment_of_row(chunk.at, first_row, chunk.row) : 0;
    global const float *entered =
        segments + segments_at.x +
        (((long)chunk.at.sequence * get_num_groups(1) + chunk.at.head) * SEGMENTS + segment - 1) * KP * VP + c0;
    vec O[OUTPUT_ROWS * WIDE];

    block_zero(O, OUTPUT_ROWS * WIDE);
    output_state();
    output_scores();
    vec_unrolled
    for (int r = 0; r < OUTPUT_ROWS; r++)
        vec_unrolled
    for (int x = 0; x < WIDE; x++) {
        int i = block_row(r), c = c0 + block_column(x), row = chunk.row + i;
        if (i < chunk.count && c < VALUE_DIM && row % STEPS == STEPS - 1)
            output_put(O[r * WIDE + x], chunk.at, row / STEPS, c);
    }
}
