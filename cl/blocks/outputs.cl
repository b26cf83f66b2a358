/* The outputs of a chunk, S the state before it and D what it wrote:
 *     O = (Q o e^G) S + A D       A_ij = q_i . k_j e^(G_i - G_j), j <= i         (of low rank + A X + A_qb D)
 * In segments but the first S is what the segment has added so far, and the state before the segment times the decay since.
 * A work-group has BV value columns of one chunk of one head; a work-item OUTPUT_ROWS rows by WIDE vectors of them.
 *
 * Where OUTPUT_SCORES is 1 A is made here: the rows of Q meet the columns of S and of K^T in one product, so that a work-item
 * has vectors of both results. Where it is 0 prepare_blocks left A in the record. */
#include "blocks_outputs.clh"

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
    LOCAL_FLOATS(tiles, LOCAL_TILES) /* slices of a product's two operands, or A and a slice of D */
    ENGINE_LOCALS
    LOCAL_FLOATS(factors, FACTORS + LOCAL_DECAY) /* of the chunk's rows; then sums of its log-decays */
    LOCAL_FLOATS(segment_decays,
                 LOCAL_SEGMENT_DECAYS) /* of a channel: its decay from the segment's begin to this chunk */
    local float *decay_logs = factors + FACTORS;
    engine_t m = engine_begin(engine_scratch);
    chunk_t chunk = stretch_chunk(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at, first_row);
    long block = (long)get_group_id(0) * get_num_groups(1) + get_group_id(1);
    global const float *record = records + records_at.x + block * RECORD;
    global const float *chunk_rows = rows + rows_at.x + block * CHUNK_ROWS;
    int c0 = get_group_id(2) * BV;
    global const float *state = before + before_at.x + block * KP * VP + c0;
    int segment = SEGMENTS > 1 ? segment_of_row(chunk.at, first_row, chunk.row) : 0;
    global const float *incoming =
        segments + segments_at.x +
        (((long)chunk.at.sequence * get_num_groups(1) + chunk.at.head) * SEGMENTS + segment - 1) * KP * VP + c0;
    vec O[OUTPUT_ROWS * WIDE];

    /* O = (Q o e^G) S, BK channels at a time; the next slices are on their way while these are multiplied */
    if (OUTPUT_SCORES) {
        local float *query_tile = tiles, *both_tile = tiles + CHUNK * RP; /* [CHUNK][BK]; S and K^T, [BK][BV + CHUNK] */
        data_raw_t query_vectors[held_count(CHUNK, BK)], key_vectors[held_count(CHUNK, BK)];
        vec state_vectors[held_count(BK, BV)], incoming_vectors[held_count(BK, BV)];
        vec both[OUTPUT_ROWS * BOTH_WIDE]; /* Q S, then Q K^T */
        int k0 = 0;

        block_zero(both, OUTPUT_ROWS * BOTH_WIDE);
        queries_fetch(query_vectors, q, q_at, chunk, 0);
        keys_fetch(key_vectors, k, k_at, chunk, 0);
        floats_fetch(state_vectors, state, VP, BK, BV);
        if (segment > 0)
            floats_fetch(incoming_vectors, incoming, VP, BK, BV);
        vecs_in(factors, record + BLOCK_FACTORS, FACTORS);
        if (SEGMENTS > 1)
            vecs_in(segment_decays, record + BLOCK_SEGMENT_DECAYS, KP);
        vecs_in(decay_logs, record + BLOCK_LOGS, LOCAL_DECAY);
        while (k0 < KP) {
            SYNC(); /* every lane has multiplied the slices before; what came of the record is whole */
            queries_put(query_tile, query_vectors, norm_of_q(factors), chunk, scale, k0);
            state_rows_put(both_tile, SCORE_PITCH, state_vectors, incoming_vectors, segment_decays, segment, k0);
            keys_put_turned(both_tile + BV, key_vectors, norm_of_k(factors), chunk, k0);
            SYNC(); /* the slices are whole before a lane multiplies them */
            k0 += BK;
            if (k0 < KP) {
                queries_fetch(query_vectors, q, q_at, chunk, k0);
                keys_fetch(key_vectors, k, k_at, chunk, k0);
                floats_fetch(state_vectors, state + k0 * VP, VP, BK, BV);
                if (segment > 0)
                    floats_fetch(incoming_vectors, incoming + k0 * VP, VP, BK, BV);
            }
            block_ab(m, both, query_tile, RP, both_tile, SCORE_PITCH, OUTPUT_ROWS, BOTH_WIDE, BK);
        }
        SYNC(); /* every lane has multiplied the last slices: A takes their place */
        for_block(r, w, OUTPUT_ROWS, BOTH_WIDE) {
            int i = block_row(r), j = block_column(w) - BV;
            if (w < WIDE)
                O[r * WIDE + w] = query_factor(factors)[i] * both[r * BOTH_WIDE + w];
            else if (j < CHUNK)
                vec_at(tiles + i * CP + j) = score_of_block(both[r * BOTH_WIDE + w], decay_logs, i, j, 0, 0);
        }
    } else {
        local float *query_tile = tiles, *state_tile = tiles + CHUNK * RP; /* [CHUNK][BK], [BK][BV] */
        decayed_vector_t query_vectors[held_count(CHUNK, BK)];
        vec state_vectors[held_count(BK, BV)], incoming_vectors[held_count(BK, BV)];

        block_zero(O, OUTPUT_ROWS * WIDE);
        decayed_queries_fetch(query_vectors, q, q_at, chunk_rows, chunk, 0);
        floats_fetch(state_vectors, state, VP, BK, BV);
        if (segment > 0)
            floats_fetch(incoming_vectors, incoming, VP, BK, BV);
        vecs_in(factors, record + BLOCK_FACTORS, FACTORS);
        if (SEGMENTS > 1)
            vecs_in(segment_decays, record + BLOCK_SEGMENT_DECAYS, KP);
        rolled for (int k0 = 0; k0 < KP; k0 += BK)
        {
            SYNC(); /* every lane has multiplied the slices before; what came of the record is whole */
            decayed_queries_put(query_tile, query_vectors, factors, chunk, scale, k0);
            state_rows_put(state_tile, COLUMN_PITCH, state_vectors, incoming_vectors, segment_decays, segment, k0);
            SYNC(); /* the slices are whole before a lane multiplies them */
            if (k0 + BK < KP) {
                decayed_queries_fetch(query_vectors, q, q_at, chunk_rows, chunk, k0 + BK);
                floats_fetch(state_vectors, state + (k0 + BK) * VP, VP, BK, BV);
                if (segment > 0)
                    floats_fetch(incoming_vectors, incoming + (k0 + BK) * VP, VP, BK, BV);
            }
            block_ab(m, O, query_tile, RP, state_tile, COLUMN_PITCH, OUTPUT_ROWS, WIDE, BK);
        }
    }

    /* O += A D, BK tokens at a time; of low rank O += A X, then O += A_qb D. D is X where nothing is erased. */
    vec_unrolled
    for (int stream = 0; stream <= SECOND; stream++) {
        const int multiplies_D = ERASES && stream == SECOND;
        global const float *scores = record + (stream == 0 ? BLOCK_SCORES : BLOCK_SECOND);
        global const float *written = chunk_rows + ROWS_WRITTEN + c0;
        local float *score_tile = tiles,
                    *written_tile = tiles + CHUNK * (OUTPUT_SCORES ? CP : RP); /* and D's, [BK][BV] */
        vec score_vectors[held_count(CHUNK, BK)], written_vectors[held_count(BK, BV)];
        value_vector_t value_vectors[held_count(BK, BV)];

        if (!OUTPUT_SCORES)
            scores_fetch(score_vectors, scores, 0);
        if (multiplies_D)
            floats_fetch(written_vectors, written, VP, BK, BV);
        else
            values_fetch(value_vectors, v, v_at, w, w_at, chunk, 0, c0, BK);
        lower_slices for (int j0 = 0; j0 < CHUNK; j0 += BK)
        {
            SYNC(); /* every lane has multiplied the slices before; A is whole where it was made here */
            if (!OUTPUT_SCORES)
                floats_put(score_tile, RP, score_vectors, CHUNK, BK);
            if (multiplies_D)
                floats_put(written_tile, COLUMN_PITCH, written_vectors, BK, BV);
            else
                values_put(written_tile, value_vectors, strength_of(factors), j0, BK);
            SYNC(); /* the slices are whole before a lane multiplies them */
            if (j0 + BK < CHUNK) {
                if (!OUTPUT_SCORES)
                    scores_fetch(score_vectors, scores, j0 + BK);
                if (multiplies_D)
                    floats_fetch(written_vectors, written + (j0 + BK) * VP, VP, BK, BV);
                else
                    values_fetch(value_vectors, v, v_at, w, w_at, chunk, j0 + BK, c0, BK);
            }
            if (OUTPUT_SCORES)
                block_lower(m, O, tiles + j0, CP, written_tile, COLUMN_PITCH, OUTPUT_ROWS, WIDE, j0, BK);
            else
                block_lower(m, O, score_tile, RP, written_tile, COLUMN_PITCH, OUTPUT_ROWS, WIDE, j0, BK);
        }
    }

    for_block(r, w, OUTPUT_ROWS, WIDE) {
        int i = block_row(r), c = c0 + block_column(w), row = chunk.row + i;
        if (i < chunk.count && c < VALUE_DIM && row % STEPS == STEPS - 1)
            output_put(O[r * WIDE + w], chunk.at, row / STEPS, c);
    }
}
