/* The first of two scans of sequences that are cut into segments: of each segment but the last, N, the state that it
 * would leave had it begun from zero (the first: from the initial state), and what it keeps of the state before it, L:
 *     U = (P o e^G) S
 *     D = T (X - U)                             what is written; X where nothing is erased
 *     S = e^(G_C) S + (K o e^(G_C - G))^T D
 * A group, its consumers and producers are those of scan_matrix.cl, without an output. Groups past those of the value
 * columns have columns of L where that is a matrix (kept_matrix.clh). The kernel has the name of the second scan. */
#include "matrix_scan.clh"
#include "scan_producer.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const data_t, v) X(global const data_t, p) X(global const data_t, e) \
    X(global const int, cu) X(global const int, slots) X(global const uint, records) X(global const uint, rows) \
    X(global float, segments) X(global float, kept)
#define OPTIONALS(X) \
    X(global const state_t, initial)
/* clang-format on */
KERNEL
scan_matrix(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int states)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(stages, LOCAL_STAGES)
    LOCAL_NUMBERS_IF(STRIPS, strips, LOCAL_STRIPS)
    LOCAL_NUMBERS_IF(KEEPS_MATRIX, kept_tiles, LOCAL_KEPT_TILES)
    LOCAL_WORDS_IF(CHANNELS_SHARED, float, share, LOCAL_SHARE)
    ENGINE_LOCALS
    const engine_t m = engine_begin(engine_scratch);
    const place sequence =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    const int heads = get_num_groups(1), column = gathered_column(get_group_id(2));
    const int segment = gathered_segment(get_group_id(2)), segment_row = segment_rows(sequence.rows) * segment;
    const long slot = slot_of(sequence, seq_len) + segment_row / CHUNK;
    const tensors_t in = {.k = k,
                          .v = v,
                          .p = p,
                          .e = e,
                          .rows = rows,
                          .k_at = k_at,
                          .v_at = v_at,
                          .p_at = p_at,
                          .e_at = e_at,
                          .rows_at = rows_at};
    const scan_t scan = {.m = m,
                         .at = segment_place(sequence, segment_row),
                         .heads = heads,
                         .column = column,
                         .slot = slot,
                         .record = records + records_at.x + (slot * heads + sequence.head) * MATRIX_RECORD,
                         .next_record = (long)heads * MATRIX_RECORD,
                         .stages = stages};
    global float *kept_here = segment_kept(kept, kept_at, &scan, segment);

    if (LOADERS > 0 && LANE >= STAGE_LANE0) {
        producer(&scan, &in, kept_here);
        return;
    }

    /* A consumer */
    const place at = scan.at;
    const int value_tile = LANE / ENGINE_LANES / KEY_SPLIT;
    const int c0 = column + value_tile * SPAN_COLUMNS, channel0 = share_part * KT * 16;
    const int read_lane = frag_lane(m, PITCH) + channel0, write_lane = frag_lane_t(m, PITCH) + channel0;
    local data_t *strip = strips + value_tile * STRIP;
    global const uint *record = scan.record;
    acc_t S[SPAN * KT];              /* the state */
    frag_t T[INVERSE_FRAGS];         /* with FETCH_AHEAD the next chunk's, once this one's has been used */
    uint4 next_values[STRIP_PIECES]; /* of the sub-group's columns, on their way to its strip */
    source_t values;
    cursor_t cursor; /* where consumers move the chunks, as are the chunks on their way */
    moving_t moving[DEPTH];

    if (LOADERS == 0) {
        cursor_begin(&cursor, &scan, &in);
        producer_fill(&cursor, moving, &scan, &in);
    }
    if (STRIPS) {
        values = value_source(&in, &scan, c0, SPAN_COLUMNS, m.lane, ENGINE_LANES);
        strip_values_fetch(&values, next_values, min(at.rows, CHUNK), m.lane, c0);
    }
    if (keeps_matrix(column))
        kept_begin(m, S, c0);
    else {
        global const state_t *from = segment == 0 ? state_of(initial, at) : 0;
        state_tiles_load(m, S, from, c0, channel0, STATE_VK);
        if (from != 0)
            segment_put(S, segment_tiles(segments, segments_at, &scan, SEGMENT_INITIAL));
    }
    if (FETCH_AHEAD && ERASES)
        inverses_fetch(m, T, record);

    for (int row = 0; row < at.rows; row += CHUNK) {
        local data_t *stage = stage_at(stages, row);
        local const float *factors = stage_factors(stage);
        const address_t staged = address_of(stage);
        acc_t U[NT];
        chain_t X[SPAN * NT], D[SPAN * NT];

        if (STRIPS) {
            engine_sync_own(); /* every lane has loaded the values of the chunk before */
            source_put(strip, VALUE_PITCH, next_values, SPAN_COLUMNS, m.lane, ENGINE_LANES);
            engine_sync_own(); /* the sub-group's values are in its strip */
            strip_values_fetch(&values, next_values, at.rows - row - CHUNK, m.lane, c0);
        }
        engine_sync_all(); /* 0: the chunk is in its stage; producers may fill the stage of the chunk before */
        if (LOADERS == 0)
            producer_turn(&cursor, moving, &scan, &in, row);
        if (STAGES == 1)
            engine_sync_all(); /* 0: with one stage the chunk was put only now */

        /* U = P S */
        if (ERASES) {
            chain_t R[SPAN * KT];
            state_round(m, R, S);
            tiles_zero(U, NT);
            read_state(m, U, R, stream_address(staged, read_lane, STREAM_P), 0, KT);
        }
        state_decay(m, S, factors + STATE_FACTORS, channel0);
        if (CHANNELS_SHARED && ERASES) {
            share_put(m, share, 0, U);
            engine_sync(COMPUTE_LANES); /* 1: every part of the sums is left */
            share_sum(m, share, 0, U);
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
        engine_unrolled
        for (int n = 0; n < SPAN * NT; n++)
            D[n] = ERASES ? chain_of(m, U[n % NT]) : X[n];
        record += scan.next_record;
        if (FETCH_AHEAD && ERASES)
            inverses_fetch(m, T, record);

        /* S += (K o e^(G_C - G))^T D */
        engine_unrolled
        for (int n = 0; n < NT; n++)
            state_write(m, S, X, D, n, staged, write_lane, factors + WRITE_FACTORS);
    }
    engine_sync_all(); /* 0: producers have done */
    if (keeps_matrix(column))
        kept_put(m, S, kept_tiles + value_tile * KEPT_TILE, kept_here, c0);
    else
        segment_put(S, segment_tiles(segments, segments_at, &scan, segment));
    if (LOADERS == 0 && KEEPS_FACTORS)
        kept_leave(cursor.kept, kept_here, column);
}
