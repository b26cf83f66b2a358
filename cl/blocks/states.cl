/* The state of a head, carried over the chunks of a sequence, and left in the workspace as it was before each:
 *     D = X' - W S                  (of low rank X' + W S; where nothing is erased D is X)
 *     S = e^(G_C) S + (K o e^(G_C - G))ᵀ D      (of low rank + (K o e^(G_C - G))ᵀ X + (E o e^(G_C - G))ᵀ D)
 * A work-group has BV value columns of one head of one sequence, over a segment of a stretch of it. Every segment but
 * the first begins from zero; join.cl and outputs.cl add what is left of the state that it should have begun with.
 * There is one segment where something is erased. A work-item has STATE_ROWS channels by WIDE vectors of columns of S
 * in registers. With SPLIT 2 the lanes are in two parts, which multiply half of every slice's depth each: the first has
 * S, the second begins every chunk from zero and gives the first what it has at the end of it.
 *
 * Slices of W and K come to registers as many ahead as AHEAD says, from the next chunk where this one has no more. */
#include "blocks_states.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const data_t, v) X(global const data_t, e) X(global const gate_t, w) \
    X(global const int, cu) X(global const int, slots) X(global float, records) X(global float, rows) \
    X(global float, before) X(global float, carried) X(global float, segments) X(global float, segment_decays)
#define OPTIONALS(X) \
    X(global const state_t, initial) X(global state_t, final)
/* clang-format on */
KERNEL
states(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int states, int first_row)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(
        state_tile,
        LOCAL_STATE) /* S before the chunk, which W multiplies; at its end the second part's share of S: [KP][BV] */
    LOCAL_FLOATS(written_tile, LOCAL_WRITTEN) /* X, the second part's half of W S, then D: [CHUNK][BV] */
    LOCAL_FLOATS(slice, LOCAL_SLICE)          /* of W, CHUNK rows by BK channels; of K and E, BT rows */
    ENGINE_LOCALS
    local float factors[FACTORS]; /* of the chunk's rows */
    engine_t m = engine_begin(engine_scratch);
    /* X; where lanes are split, half of W S; then D. In the place of S it is put only once all have multiplied S. */
    local float *writes = WRITTEN_IN_STATE ? state_tile : written_tile;
    place at =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    int c0 = get_group_id(2) % VALUE_GROUPS * BV, segment = get_group_id(2) / VALUE_GROUPS;
    int row = segment_first(at, first_row, segment), end = segment_first(at, first_row, segment + 1);
    long head = (long)at.sequence * get_num_groups(1) + at.head;
    global float *carried_state = carried + carried_at.x + head * KP * VP + c0;
    const int part_token = lane_part * PART_TOKENS, part_channel = lane_part * PART_CHANNELS;
    vec state[STATE_ROWS * WIDE];
    float segment_decay[STATE_ROWS]; /* with segments: e^G of a channel since the segment began */
    /* on their way from memory */
    float next_factors[FACTORS_HELD], next_across[STATE_ROWS];
    vec erase_vectors[CHANNEL_AHEAD][held_count(CHUNK, BK)], solved[WRITTEN_ROWS * WIDE]; /* W; X' */
    decayed_vector_t key_vectors[TOKEN_AHEAD][held_count(BT, KP)], second_vectors[TOKEN_AHEAD][held_count(BT, KP)];
    value_vector_t value_vectors[held_count(CHUNK, BV)];
    chunk_work current, next = chunk_work_of(at, row, first_row, seq_len, records + records_at.x, rows + rows_at.x,
                                             before + before_at.x + c0);

    /* S: what the stretch before left, or the initial state */
    for_block(r, w, STATE_ROWS, WIDE) {
        int n = state_channel(r), c = block_column(w), begins = segment == 0 && lane_part == 0;
        segment_decay[r] = 1;
        if (begins && first_row > 0)
            state[r * WIDE + w] = vec_given(carried_state + n * VP + c);
        else
            state[r * WIDE + w] = state_row(begins ? state_of(initial, at) : 0, n, c0 + c);
    }
    /* The first chunk's data set out */
    if (row < end) {
        factors_fetch(next_factors, next_across, next.record);
        if (!ERASES || SECOND)
            values_fetch(value_vectors, v, v_at, w, w_at, next.chunk, 0, c0, CHUNK);
        if (ERASES && lane_part == 0)
            written_fetch(solved, next.rows + ROWS_WRITTEN + c0);
        vec_unrolled
        for (int s = 0; s < TOKEN_AHEAD; s++) {
            decayed_keys_fetch(key_vectors[s], k, k_at, next.rows, next.chunk, s * BT);
            if (SECOND)
                decayed_seconds_fetch(second_vectors[s], e, e_at, next.rows, next.chunk, s * BT);
        }
        vec_unrolled
        for (int s = 0; s < CHANNEL_AHEAD && ERASES; s++)
            floats_fetch(erase_vectors[s], next.rows + ROWS_ERASE + s * BK, KP, CHUNK, BK);
    }

    for (; row < end; row += CHUNK) {
        current = next;
        if (row + CHUNK < end)
            next = chunk_work_of(at, row + CHUNK, first_row, seq_len, records + records_at.x, rows + rows_at.x,
                                 before + before_at.x + c0);
        SYNC(); /* factors, S and D are the last chunk's until every lane is here */
        factors_put(factors, next_factors);
        if (lane_part == 0)
            for_block(r, w, STATE_ROWS, WIDE) {
                int n = state_channel(r), c = block_column(w);
                vec_global(current.before + n * VP + c) = state[r * WIDE + w];
                if (ERASES)
                    vec_at(state_tile + n * COLUMN_PITCH + c) = state[r * WIDE + w];
                if (SEGMENTS > 1 && c0 + c == 0)
                    current.record[BLOCK_SEGMENT_DECAYS + n] = segment_decay[r];
            }
        SYNC(); /* factors and S are whole before a lane reads them */
        if (!ERASES || SECOND)
            values_put(writes, value_vectors, strength_of(factors), 0, CHUNK);
        for_block(r, w, STATE_ROWS, WIDE) {
            float across = across_of(next_across[r], factors); /* e^(G_C) of the channel */
            state[r * WIDE + w] *= across;
            if (SEGMENTS > 1 && w == 0)
                segment_decay[r] *= across;
        }
        factors_fetch(next_factors, next_across, next.record);
        if (!ERASES || SECOND)
            values_fetch(value_vectors, v, v_at, w, w_at, next.chunk, 0, c0, CHUNK);

        /* S += (K o e^(G_C - G))ᵀ X, which does not wait for D */
        if (!ERASES || SECOND) {
            slices_in_turn for (int s = 0; s < TOKEN_SLICES; s++)
            {
                const int following = s + TOKEN_AHEAD;
                const chunk_work source = following < TOKEN_SLICES ? current : next;
                SYNC(); /* every lane has multiplied the slice before; X is whole */
                decayed_keys_put(slice, key_vectors[s % TOKEN_AHEAD], factors, current.chunk, s * BT);
                SYNC(); /* the slice is whole before a lane multiplies it */
                decayed_keys_fetch(key_vectors[s % TOKEN_AHEAD], k, k_at, source.rows, source.chunk,
                                   following % TOKEN_SLICES * BT);
                block_atb(m, state, slice + part_token * TOKEN_PITCH, TOKEN_PITCH,
                          writes + (s * BT + part_token) * COLUMN_PITCH, COLUMN_PITCH, STATE_ROWS / VEC, WIDE,
                          PART_TOKENS);
            }
            SYNC(); /* every lane has multiplied X and the last slice: others take their place */
        }
        if (ERASES) {
            vec written[WRITTEN_ROWS * WIDE];

            /* D = X' - W S, BK channels at a time; each part of the lanes has half of the sum */
            block_zero(written, WRITTEN_ROWS * WIDE);
            slices_in_turn for (int s = 0; s < CHANNEL_SLICES; s++)
            {
                const int following = s + CHANNEL_AHEAD;
                const chunk_work source = following < CHANNEL_SLICES ? current : next;
                SYNC(); /* every lane has multiplied the slice before */
                floats_put(slice, RP, erase_vectors[s % CHANNEL_AHEAD], CHUNK, BK);
                SYNC(); /* the slice is whole before a lane multiplies it */
                floats_fetch(erase_vectors[s % CHANNEL_AHEAD],
                             source.rows + ROWS_ERASE + following % CHANNEL_SLICES * BK, KP, CHUNK, BK);
                block_ab(m, written, slice + part_channel, RP, state_tile + (s * BK + part_channel) * COLUMN_PITCH,
                         COLUMN_PITCH, WRITTEN_ROWS, WIDE, PART_CHANNELS);
            }
            SYNC(); /* every lane has multiplied S: D may lie there */
            if (SPLIT > 1) {
                if (lane_part > 0)
                    written_put(writes, written);
                SYNC(); /* the second part's sums are whole before the first part reads them */
            }
            if (lane_part == 0) {
                for_block(r, w, WRITTEN_ROWS, WIDE) {
                    int i = block_row(r), c = block_column(w);
                    if (i < CHUNK) {
                        local float *to = writes + i * COLUMN_PITCH + c;
                        vec read = SPLIT > 1 ? written[r * WIDE + w] + vec_at(to) : written[r * WIDE + w];
                        vec x = solved[r * WIDE + w] + (SECOND ? read : -read);
                        vec_global(current.rows + ROWS_WRITTEN + i * VP + c0 + c) = x;
                        vec_at(to) = x;
                    }
                }
                written_fetch(solved, next.rows + ROWS_WRITTEN + c0);
            }

            /* S += (K o e^(G_C - G))ᵀ D, of low rank (E o e^(G_C - G))ᵀ D */
            slices_in_turn for (int s = 0; s < TOKEN_SLICES; s++)
            {
                const int following = s + TOKEN_AHEAD;
                const chunk_work source = following < TOKEN_SLICES ? current : next;
                const int i0 = following % TOKEN_SLICES * BT;
                SYNC(); /* every lane has multiplied the slice before; D is whole */
                if (SECOND)
                    decayed_seconds_put(slice, second_vectors[s % TOKEN_AHEAD], factors, s * BT);
                else
                    decayed_keys_put(slice, key_vectors[s % TOKEN_AHEAD], factors, current.chunk, s * BT);
                SYNC(); /* the slice is whole before a lane multiplies it */
                if (SECOND)
                    decayed_seconds_fetch(second_vectors[s % TOKEN_AHEAD], e, e_at, source.rows, source.chunk, i0);
                else
                    decayed_keys_fetch(key_vectors[s % TOKEN_AHEAD], k, k_at, source.rows, source.chunk, i0);
                block_atb(m, state, slice + part_token * TOKEN_PITCH, TOKEN_PITCH,
                          writes + (s * BT + part_token) * COLUMN_PITCH, COLUMN_PITCH, STATE_ROWS / VEC, WIDE,
                          PART_TOKENS);
            }
            SYNC(); /* every lane has multiplied D: S may lie there */
        }
        if (SPLIT > 1) {
            if (lane_part > 0)
                for_block(r, w, STATE_ROWS, WIDE) {
                    vec_at(state_tile + state_channel(r) * COLUMN_PITCH + block_column(w)) = state[r * WIDE + w];
                    state[r * WIDE + w] = 0;
                }
            SYNC(); /* the second part's share of S is whole before the first part adds it */
            if (lane_part == 0)
                for_block(r, w, STATE_ROWS, WIDE)
                    state[r * WIDE + w] += vec_at(state_tile + state_channel(r) * COLUMN_PITCH + block_column(w));
        }
    }

    /* S at the segment's end; where there is one segment, for the next stretch and the caller */
    if (lane_part == 0)
        for_block(r, w, STATE_ROWS, WIDE) {
            int n = state_channel(r), c = block_column(w);
            if (SEGMENTS > 1) {
                long of_segment = head * SEGMENTS + segment;
                vec_global(segments + segments_at.x + (of_segment * KP + n) * VP + c0 + c) = state[r * WIDE + w];
                if (c0 + c == 0)
                    segment_decays[segment_decays_at.x + of_segment * KP + n] = segment_decay[r];
            } else {
                if (STRETCH > 0)
                    vec_global(carried_state + n * VP + c) = state[r * WIDE + w];
                state_row_store(state[r * WIDE + w], state_of(final, at), n, c0 + c);
            }
        }
}
