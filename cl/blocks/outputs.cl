/* O = (Q o e^G) S + A D of a chunk, S the state before it and D what it wrote (of low rank A X + A_qb D). In segments
 * but the first, S is what the segment has added so far, and what is kept of the state that it began with. One group:
 * BV value columns of one chunk of one head. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const gate_t, w) X(global const float, den) X(global const int, cu) X(global const float, records) \
    X(global const float, rows) X(global const float, before) X(global const float, segments)
/* clang-format on */
KERNEL
outputs(TENSORS(PARAMETER) int seq_len, int sequences, float scale, int first_row)
{
    TENSORS(ABSENT)
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
