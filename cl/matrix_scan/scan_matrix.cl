/* The scan: a recurrence in chunks of tokens on a matrix engine, the state S in registers. G is the running sum of a
 * chunk's log-decays; A, T and factors of the rows are the chunk's record:
 *     R = S in 16 bits
 *     U = (P o e^G) R                           what earlier chunks left of what is erased
 *     D = T (X - U)                             what is written; X where nothing is erased
 *     O = (Q o e^G) R + A D
 *     S = e^(G_C) S + (K o e^(G_C - G))^T D
 * A group: VALUES value columns of one head of one sequence, or of a segment of it. Its sub-groups have roles, by their
 * place in the group: consumers, whose body is the kernel's; readers (scan_reader.clh) and producers
 * (scan_producer.clh), where there are any. A consumer: SPAN times ACC_ROWS value columns, and 1/KEY_SPLIT of the
 * channels. All tiles lie transposed, [value][channel] and [value][token], so that the sums of one product are the
 * operand of the next without an exchange between lanes. */
#include "matrix_scan.clh"
#include "scan_producer.clh"

/* Tiles of channels of which O = Q R is made ahead of the erase; the others fill the engine while the erase waits. */
#define READ_FIRST (KEY_SPLIT > 1 ? KT : KT / 2)

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const data_t, p) X(global const data_t, e) X(global const float, den) X(global const int, cu) \
    X(global const int, slots) X(global snapshot_t, snapshots) X(global const uint, records) \
    X(global const uint, rows) X(global float, segments) X(global float, kept)
#define OPTIONALS(X) \
    X(global const state_t, initial) X(global state_t, final)
/* clang-format on */
KERNEL
scan_matrix(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int states, int every)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(stages, LOCAL_STAGES)
    LOCAL_NUMBERS_IF(STRIPS, strips, LOCAL_STRIPS)
    LOCAL_NUMBERS_IF(READS_APART, queries, LOCAL_QUERIES)
    LOCAL_NUMBERS_IF(READS_APART, reader_strips, LOCAL_OUTPUT_STRIPS)
    LOCAL_WORDS_IF(READS_APART, uint, states_left, LOCAL_LEFT)
    LOCAL_WORDS_IF(CHANNELS_SHARED, float, share, LOCAL_SHARE)
    ENGINE_LOCALS
    const engine_t m = engine_begin(engine_scratch);
    const place sequence =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    const int heads = get_num_groups(1), column = (int)get_group_id(2) % VALUE_GROUPS * VALUES;
    const int segment = SEGMENTS > 1 ? (int)get_group_id(2) / VALUE_GROUPS : 0;
    const int segment_row = segment_rows(sequence.rows) * segment;
    const long slot = slot_of(sequence, seq_len) + segment_row / CHUNK;
    const tensors_t in = {q, k, v, p, e, rows, den, o, q_at, k_at, v_at, p_at, e_at, rows_at, den_at, o_at};
    const scan_t scan = {.m = m,
                         .at = segment_place(sequence, segment_row),
                         .heads = heads,
                         .column = column,
                         .slot = slot,
                         .record = records + records_at.x + (slot * heads + sequence.head) * MATRIX_RECORD,
                         .next_record = (long)heads * MATRIX_RECORD,
                         .stages = stages,
                         .queries = queries};
    const int value_tile = value_tile_of(LANE / ENGINE_LANES / KEY_SPLIT);
    local uint *state_left = states_left + value_tile * KT * FRAG;

    if (READS_APART && LANE >= COMPUTE_LANES && LANE < STAGE_LANE0) {
        reader(&scan, &in, value_tile, state_left, reader_strips);
        return;
    }
    if (LOADERS > 0 && LANE >= STAGE_LANE0) {
        producer(&scan, &in, 0);
        return;
    }

    /* A consumer */
    const place at = scan.at;
    const int c0 = column + value_tile * SPAN_COLUMNS, channel0 = share_part * KT * 16;
    const int read_lane = frag_lane(m, PITCH) + channel0, write_lane = frag_lane_t(m, PITCH) + channel0;
    local data_t *strip = strips + value_tile * STRIP;
    global const uint *record = scan.record;
    acc_t S[SPAN * KT]; /* the state */
    frag_t
        T[INVERSE_FRAGS];  /* with FETCH_AHEAD the next chunk's, once this one's has been used; else fetched for use */
    frag_t A[SCORE_FRAGS]; /* the same; where SCAN_SCORES the chunk's, from its stage */
    uint4 next_values[STRIP_PIECES]; /* of the sub-group's columns, on their way to its strip */
    source_t values;
    output_t output;
    cursor_t cursor; /* where consumers move the chunks, as are the chunks on their way */
    moving_t moving[DEPTH];
    float given = 0; /* what den has for the lane's number of the output */

    if (LOADERS == 0) {
        cursor_begin(&cursor, &scan, &in);
        producer_fill(&cursor, moving, &scan, &in);
    }
    if (STRIPS) {
        values = value_source(&in, &scan, c0, SPAN_COLUMNS, m.lane, ENGINE_LANES);
        strip_values_fetch(&values, next_values, min(at.rows, CHUNK), m.lane, c0);
        output = output_begin(&in, at, c0, m.lane);
    }
    if (SEGMENTS == 1 || (segment == 0 && state_of(initial, at) == 0))
        state_tiles_load(m, S, SEGMENTS == 1 ? state_of(initial, at) : 0, c0, channel0, STATE_VK);
    else
        segment_take(S, segment_tiles(segments, segments_at, &scan, segment == 0 ? SEGMENT_INITIAL : 0));
    for (int before = 1; before < segment; before++) /* S = L S + N of each segment before */
        segment_join(m, S, segment_tiles(segments, segments_at, &scan, before),
                     segment_kept(kept, kept_at, &scan, before), channel0);
    if (FETCH_AHEAD && ERASES)
        inverses_fetch(m, T, record);
    if (FETCH_AHEAD && !SCAN_SCORES && !READS_APART)
        scores_fetch(m, A, record);

    for (int row = 0; row < at.rows; row += CHUNK) {
        local data_t *stage = stage_at(stages, row);
        local const float *factors = stage_factors(stage);
        const address_t staged = address_of(stage), query_rows = stream_address(staged, read_lane, STREAM_Q);
        acc_t U[NT], O[SPAN * NT];
        chain_t R[SPAN * KT], X[SPAN * NT], D[SPAN * NT];

        if (OUTPUT_AHEAD)
            given = given_of(den, den_at, at, min(row + m.lane / OUTPUT_HAS, at.rows - 1) / STEPS);
        if (STRIPS) {
            engine_sync_own(); /* every lane has stored the last chunk's output from the strip to global memory */
            source_put(strip, VALUE_PITCH, next_values, SPAN_COLUMNS, m.lane, ENGINE_LANES);
            engine_sync_own(); /* the sub-group's values are in its strip */
        }
        /* 0: with two stages consumers find the chunk in its stage, and producers, who wait here for consumers and
         * readers, may fill the stage of the chunk before; readers took the last S, so state_left is free */
        engine_sync_all();
        if (LOADERS == 0)
            producer_turn(&cursor, moving, &scan, &in, row);
        if (STAGES == 1)
            engine_sync_all(); /* 0: with one stage the barrier before only freed it; now the chunk is in it */

        /* U = P R, O = Q R: the factors of rows come after */
        state_round(m, R, S);
        if (ERASES) {
            tiles_zero(U, NT);
            read_state(m, U, R, stream_address(staged, read_lane, STREAM_P), 0, KT);
        }
        tiles_zero(O, SPAN * NT);
        if (READS_APART) {
            chains_leave(m, state_left, R, KT);
            reader_signal(STATE_LEFT, LEFT_LANES); /* 4: the reader, which waits, may take R */
        } else if (SCAN_SCORES)
            read_state_rounding(m, O, S, query_rows);
        else
            read_state(m, O, R, query_rows, 0, READ_FIRST);
        state_decay(m, S, factors + STATE_FACTORS, channel0);
        if (CHANNELS_SHARED) {
            if (ERASES)
                share_put(m, share, 0, U);
            share_put(m, share, 1, O);
            engine_sync(COMPUTE_LANES); /* 1: every part of the sums is left */
            if (ERASES)
                share_sum(m, share, 0, U);
            share_sum(m, share, 1, O);
        }

        /* D = T (X - e^G U) */
        if (!FETCH_AHEAD && ERASES)
            inverses_fetch(m, T, record);
        values_load(
            m, X,
            STRIPS ? address_plus(address_of(strip), chain_lane_t(m, VALUE_PITCH))
                   : address_plus(staged, stream_at(STREAMS) + chain_lane_t(m, VALUE_PITCH) + value_tile * ACC_ROWS));
        if (ERASES)
            erase_correct(m, U, X, T, factors + ERASE_FACTORS);
        if (!READS_APART && !SCAN_SCORES)
            read_state(m, O, R, query_rows, READ_FIRST, KT);
        engine_unrolled
        for (int n = 0; n < SPAN * NT; n++)
            D[n] = ERASES ? chain_of(m, U[n % NT]) : X[n];
        if (STRIPS)
            strip_values_fetch(&values, next_values, at.rows - row - CHUNK, m.lane, c0);
        if (FETCH_AHEAD && ERASES)
            inverses_fetch(m, T, record + scan.next_record);
        state_write(m, S, X, D, 0, staged, write_lane, factors + WRITE_FACTORS);

        /* O = e^G O + A D */
        if (READS_APART) {
            chains_leave(m, reader_strip(reader_strips, row, value_tile), D, NT);
            if (row / CHUNK % 2 == 0) /* 5, 6: the reader, which waits, may take D */
                reader_signal(WRITES_LEFT, LEFT_LANES);
            else
                reader_signal(WRITES_LEFT + 1, LEFT_LANES);
        } else {
            if (SCAN_SCORES)
                stage_scores_take(m, A, stage);
            else if (!FETCH_AHEAD)
                scores_fetch(m, A, record);
            engine_unrolled
            for (int n = 0; n < SPAN * NT; n++)
                O[n] = row_factors(m, O[n], factors + READ_FACTORS + n % NT * 16);
            engine_unrolled
            for (int i = 0; i < SPAN * FINISHED; i++)
                O[i] = mix_written(m, finished_of(i, O), X, D, A, i);
            if (FETCH_AHEAD && !SCAN_SCORES)
                scores_fetch(m, A, record + scan.next_record);
        }
        record += scan.next_record;

        /* S += (K o e^(G_C - G))^T D, of the rest of the tokens */
        if (NT > 1)
            state_write(m, S, X, D, NT - 1, staged, write_lane, factors + WRITE_FACTORS);
        if (SNAPSHOTS)
            snapshot_tiles_store(m, S, snapshot_of(snapshots, snapshots_at, sequence, every, segment_row + row + CHUNK),
                                 c0, channel0, STATE_VK);

        if (CHANNELS_SHARED)
            engine_sync(COMPUTE_LANES); /* 1: all have loaded the values, whose place the output takes */
        if (OUTPUT_STAGED && finishes)
            output_put_tiles(m, stage_output(stage) + value_tile * ACC_ROWS, O, stage);
        if (STRIPS) {
            engine_sync_own(); /* every lane has loaded the values, whose place the output takes */
            output_put_tiles(m, (local out_t *)strip, O, stage);
            engine_sync_own(); /* the sub-group's output is in its strip */
            output_tile_store(&output, &in, at, (local const out_t *)strip, row, m.lane, given);
        }
    }
    engine_sync_all(); /* 0: the last output is in its stage */
    if (LOADERS == 0)
        producer_end(&cursor, &scan, &in);
    state_tiles_store(m, S, segment == SEGMENTS - 1 ? state_of(final, at) : 0, c0, channel0, STATE_VK);
}
