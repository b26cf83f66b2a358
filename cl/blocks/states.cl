/* The state carried over the chunks of a sequence, and left as it was before each:
 *     D = X' - W S                    (of low rank X' + W S, the second stream; what is written is D, or X as it is)
 *     S = e^(G_C) S + (K o e^(G_C - G))ᵀ D
 * One group: BV value columns of one head of one sequence, a segment of a stretch of it. Segments but the first begin
 * from zero (join.cl, outputs.cl): there is one where something is erased. Where the lanes are in two parts these share
 * the depth of every product, and the second leaves what it has to the first. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const data_t, v) X(global const data_t, e) X(global const gate_t, w) \
    X(global const int, cu) X(global const int, slots) X(global float, records) X(global float, rows) \
    X(global float, before) X(global float, carried) X(global float, segments) X(global float, kept)
#define OPTIONALS(X) \
    X(global const state_t, initial) X(global state_t, final)
/* clang-format on */
KERNEL
states(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int states, int first_row)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(S, LOCAL_STATE)
    LOCAL_FLOATS(own_written, LOCAL_WRITTEN)
    LOCAL_FLOATS(slice, LOCAL_SLICE)
    ENGINE_LOCALS
    local float factors[FACTORS];
    engine_t m = engine_begin(engine_scratch);
    local float *D = WRITTEN_IN_STATE ? S : own_written; /* once S was read */
    place at =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    int c0 = get_group_id(2) % VALUE_GROUPS * BV, segment = get_group_id(2) / VALUE_GROUPS;
    int row = segment_first(at, first_row, segment), end = segment_first(at, first_row, segment + 1);
    long whole = (long)at.sequence * get_num_groups(1) + at.head;
    chunk_room now, coming = chunk_find(row);
    vec state[STATE_ROWS * WIDE], held_written[WRITTEN_ROWS * WIDE];
    float keeps[STATE_ROWS], held_factors[FACTORS_HELD], held_across[STATE_ROWS];
    vec held_erasing[CHANNEL_HELD][held_count(CHUNK, BK)];
    write_raw_t held_write[TOKEN_HELD][held_count(BT, KP)], held_second[TOKEN_HELD][held_count(BT, KP)];
    value_raw_t held_values[held_count(CHUNK, BV)];

    state_begin();
    now = coming;
    if (row < end)
        first_fetch();
    for (; row < end; row += CHUNK) {
        vec written[WRITTEN_ROWS * WIDE];

        now = coming;
        if (row + CHUNK < end)
            coming = chunk_find(row + CHUNK);
        SYNC();
        chunk_put();
        if (!ERASES || SECOND)
            state_write(write);
        if (ERASES)
            state_read();
        if (ERASES && !SECOND)
            state_write(write);
        if (SECOND)
            state_write(second);
        state_gather();
    }
    state_end();
}
