/* What a chunk of a head has that does not depend on the state before it:
 *     A_ij = q_i . k_j e^(G_i - G_j), j <= i        M_ij = p_i . k_j e^(G_i - G_j), j < i        T = (I + M)⁻¹
 *     W = T (P o e^G)        X' = T X        (of low rank X' = T A_ak X, and A_qb)
 * A where the outputs do not make it, T and what is multiplied by it where something is erased; the factors of each row;
 * and with a decay a channel the rows as they read and write the state. A work-group has one chunk of one head.
 *
 * Scores are made in one of two ways. In squares (M alone, the outputs make A): as one product of register blocks. In
 * spots (SPOT_SCORES): a work-item has a few scores of one block of SPOT x SPOT of all matrices. */
#include "blocks_channels.clh"
#include "blocks_scores_spots.clh"
#include "blocks_scores_turned.clh"
#include "blocks_solve.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global const gate_t, g) \
    X(global const float, a_log) X(global const float, bias) X(global const strength_t, beta) \
    X(global const erase_t, p) X(global const data_t, e) X(global const gate_t, w) X(global const gate_t, u) \
    X(global const int, cu) X(global float, records) X(global float, rows)
/* clang-format on */
KERNEL
prepare_blocks(TENSORS(PARAMETER) int seq_len, int sequences, float scale, int first_row)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(slices, LOCAL_SLICES) /* of rows; then matrices and the columns that T multiplies */
    LOCAL_FLOATS(factors, FACTORS + LOCAL_ERASE_NORMS + LOCAL_DECAY) /* of rows; norms of P; decays */
    ENGINE_LOCALS
    local float *erase_norms = factors + FACTORS, *decay = erase_norms + LOCAL_ERASE_NORMS;
    local float *row_strengths = LOCAL_ERASE_NORMS > 0 ? erase_norms : strength_of(factors); /* of M */
    local float *matrix = slices, *second_matrix = matrix + CHUNK * CP; /* M, then T; of low rank A_ak */
    local float *columns = matrix + (1 + SECOND) * CHUNK * CP;
    engine_t m = engine_begin(engine_scratch);
    const gates_t gates = GATES_HERE;
    chunk_t chunk = stretch_chunk(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at, first_row);
    long block = (long)get_group_id(0) * get_num_groups(1) + get_group_id(1);
    global float *record = records + records_at.x + block * RECORD;
    global float *chunk_rows = rows + rows_at.x + block * CHUNK_ROWS;
    global const gate_t *bonus = u + at_row(u_at, 0, 0, chunk.at.head);

    /* 1 / |x| of the rows of Q and K, and of P where it is an operand of its own */
    if (L2NORM) {
        squares_put(slices, q + at_row(q_at, chunk.at.batch, chunk.at.first, chunk.at.qk_head), q_at.z, chunk.row,
                    STEPS, chunk.count);
        SYNC(); /* the sums of a row are whole before a lane adds them up */
        norms_put(norm_of_q(factors), slices);
        SYNC(); /* every lane has read the sums: K's take their place */
        squares_put(slices, write_row(k, chunk, chunk.at.qk_head), k_at.z, 0, 1, chunk.count);
        SYNC(); /* the sums are whole */
        norms_put(norm_of_k(factors), slices);
        SYNC(); /* every lane has read the sums: P's or slices take their place */
        if (LOCAL_ERASE_NORMS > 0) {
            squares_put(slices, (global const data_t *)write_row(p, chunk, chunk.at.qk_head), p_at.z, 0, 1,
                        chunk.count);
            SYNC(); /* the sums are whole */
            norms_put(erase_norms, slices);
            SYNC(); /* every lane has read the sums: slices take their place */
        }
    } else {
        for_each(i, CHUNK) {
            norm_of_q(factors)[i] = norm_of_k(factors)[i] = 1;
            if (LOCAL_ERASE_NORMS > 0)
                erase_norms[i] = 1;
        }
    }

    /* The factors of rows: strengths, decays */
    for_each(i, CHUNK)
        strength_of(factors)[i] = write_strength(chunk, i);
    if (HEAD_DECAYS) {
        decay_logs_put(decay, gates, g, g_at, chunk);
        SYNC(); /* the logs of all rows are there before a lane adds them up */
        decay_sums_put(decay);
        SYNC(); /* so are the sums of blocks */
        decay_over_put(decay);
    }
    SYNC(); /* strengths and sums of decays are whole */
    decay_factors_put(factors, decay);
    SYNC(); /* the factors of a row are whole before another lane multiplies them */
    if (LOCAL_ERASE_NORMS > 0)
        for_each(i, CHUNK) {
            erase_factor(factors)[i] *= erase_norms[i];
            erase_norms[i] *= strength_of(factors)[i];
        }
    SYNC(); /* all factors are whole */

    if (SPOT_SCORES) {
        data_raw_t query_vectors[held_count(CHUNK, BK)], key_vectors[held_count(CHUNK, BK)];
        data_raw_t second_vectors[held_count(CHUNK, BK)];
        erase_vector_t erase_vectors[held_count(CHUNK, BK)];
        decay_raw_t decay_vectors[held_count(CHUNK, BK)];
        float sums[SCORE_MATRICES * SCORE_ROWS * VEC];
        float diagonal[SCORE_MATRICES * SPOT]; /* with a decay a channel: of a key, with the rows of its block */
        float diagonal_scores[SCORE_MATRICES * SCORE_ROWS * VEC];
        /* This lane's scores are of rows i0 ... and columns j0 ...; with a decay a channel none are on the diagonal */
        int pair = LANE / LANES_PAIR, I = CHANNEL_DECAYS, J, i0, j0, lane_has_block = pair < PAIRS, n0 = 0;
        local float *between;

        while ((I + 1 - CHANNEL_DECAYS) * (I + 2 - CHANNEL_DECAYS) / 2 <= pair)
            I++;
        J = pair - (I - CHANNEL_DECAYS) * (I + 1 - CHANNEL_DECAYS) / 2;
        i0 = I * SPOT + row_in_spot();
        j0 = J * SPOT + column_in_spot();
        between = decay + DECAY_PAIRS + (I * (I - 1) / 2 + J) * BK;
        vec_unrolled
        for (int x = 0; x < SCORE_MATRICES * SPOT; x++)
            diagonal[x] = 0;
        vec_unrolled
        for (int x = 0; x < SCORE_MATRICES * SCORE_ROWS * VEC; x++)
            sums[x] = 0;
        queries_fetch(query_vectors, q, q_at, chunk, 0);
        keys_fetch(key_vectors, k, k_at, chunk, 0);
        if (ERASES && !ERASE_BY_KEY)
            erase_fetch(erase_vectors, k, k_at, p, p_at, norm_of_k(factors), chunk, 0);
        if (SECOND)
            seconds_fetch(second_vectors, e, e_at, chunk, 0);
        if (CHANNEL_DECAYS)
            decays_fetch(decay_vectors, g, g_at, chunk, 0);
        while (n0 < KP) {
            const int slice = n0;

            queries_put(slices + SLICE_Q, query_vectors, norm_of_q(factors), chunk, scale, slice);
            keys_put(slices + SLICE_K, key_vectors, norm_of_k(factors), chunk, slice);
            if (ERASE_BY_KEY && SLICE_P > SLICE_K)
                keys_put(slices + SLICE_P, key_vectors, norm_of_k(factors), chunk, slice);
            if (ERASES && !ERASE_BY_KEY)
                erase_put(slices + SLICE_P, erase_vectors, norm_of_k(factors), chunk, slice);
            if (SECOND)
                seconds_put(slices + SLICE_E, second_vectors);
            if (CHANNEL_DECAYS)
                decays_put(decay, decay_vectors, gates, chunk, slice);
            SYNC(); /* the slices are whole before a lane reads them */
            n0 += BK;
            if (n0 < KP) {
                queries_fetch(query_vectors, q, q_at, chunk, n0);
                keys_fetch(key_vectors, k, k_at, chunk, n0);
                if (ERASES && !ERASE_BY_KEY)
                    erase_fetch(erase_vectors, k, k_at, p, p_at, norm_of_k(factors), chunk, n0);
                if (SECOND)
                    seconds_fetch(second_vectors, e, e_at, chunk, n0);
                if (CHANNEL_DECAYS)
                    decays_fetch(decay_vectors, g, g_at, chunk, n0);
            }
            if (CHANNEL_DECAYS) {
                diagonal_add(diagonal, slices, decay, bonus, slice);
                decay_spots_put(decay + DECAY_SPOTS, decay);
                SYNC(); /* every lane has read the rows, which now decay in their place; sums of blocks are whole */
                slices_decay(slices, decay);
                decay_pairs_put(decay + DECAY_PAIRS, decay + DECAY_SPOTS);
                decay_ends_put(decay + DECAY_ENDS, decay + DECAY_SPOTS, record + BLOCK_ACROSS + slice);
                SYNC(); /* the decayed rows and what decays between blocks are whole */
                rows_leave(slices, decay + DECAY_ENDS, factors, chunk_rows + slice);
            }
            if (lane_has_block)
                scores_add(sums, slices, between, bonus, i0, j0, slice);
            SYNC(); /* every lane has read the slices: the next take their place */
        }
        if (CHANNEL_DECAYS) {
            SYNC(); /* every lane has read the last slices */
            diagonal_put(slices, diagonal);
            SYNC(); /* all parts' sums are there before a lane adds them up */
            if (LANE < SPOTS * LANES_PAIR)
                diagonal_sums(diagonal_scores, slices, LANE / LANES_PAIR * SPOT + row_in_spot(),
                              LANE / LANES_PAIR * SPOT + column_in_spot());
            SYNC(); /* every lane has read them: matrices take their place */
        }
        if (SECOND)
            tile_zero(second_matrix, CHUNK * CP);
        SYNC(); /* zeros are there before scores are put */
        for (int turn = 0; turn <= CHANNEL_DECAYS; turn++) {
            if (turn > 0) { /* the blocks on the diagonal */
                lane_has_block = pair < SPOTS;
                i0 = pair * SPOT + row_in_spot();
                j0 = pair * SPOT + column_in_spot();
                vec_unrolled
                for (int x = 0; x < SCORE_MATRICES * SCORE_ROWS * VEC; x++)
                    sums[x] = diagonal_scores[x];
            }
            vec_unrolled
            for (int r = 0; r < SCORE_ROWS; r++) {
                int i = i0 + r;
                if (!lane_has_block)
                    continue;
                vec_global(record + BLOCK_SCORES + i * CHUNK + j0) =
                    score_row(sums, decay, 0, r, i, j0, READ_BEFORE, READ_BEFORE);
                if (ERASES)
                    vec_at(matrix + i * CP + j0) =
                        (SECOND ? -1 : row_strengths[i]) * score_row(sums, decay, 1, r, i, j0, ERASE_BEFORE, 1);
                if (SECOND) {
                    vec_at(second_matrix + i * CP + j0) =
                        score_row(sums, decay, 2, r, i, j0, ERASE_BEFORE, ERASE_BEFORE);
                    vec_global(record + BLOCK_SECOND + i * CHUNK + j0) = score_row(sums, decay, 3, r, i, j0, 0, 0);
                }
            }
        }
    } else if (ERASES) {
        local float *erase_tile = slices, *key_tile = slices + CHUNK * RP; /* P, [CHUNK][BK]; K^T, [BK][CHUNK] */
        data_raw_t key_vectors[held_count(CHUNK, BK)];
        erase_vector_t erase_vectors[held_count(CHUNK, BK)];
        vec square[BLOCK_ROWS * SCORE_WIDE]; /* P K^T */
        int n0 = 0;

        block_zero(square, BLOCK_ROWS * SCORE_WIDE);
        keys_fetch(key_vectors, k, k_at, chunk, 0);
        if (!ERASE_BY_KEY)
            erase_fetch(erase_vectors, k, k_at, p, p_at, norm_of_k(factors), chunk, 0);
        while (n0 < KP) {
            SYNC(); /* every lane has multiplied the slices before */
            if (ERASE_BY_KEY)
                keys_put(erase_tile, key_vectors, norm_of_k(factors), chunk, n0);
            else
                erase_put(erase_tile, erase_vectors, norm_of_k(factors), chunk, n0);
            keys_put_turned(key_tile, key_vectors, norm_of_k(factors), chunk, n0);
            SYNC(); /* the slices are whole before a lane multiplies them */
            n0 += BK;
            if (n0 < KP) {
                keys_fetch(key_vectors, k, k_at, chunk, n0);
                if (!ERASE_BY_KEY)
                    erase_fetch(erase_vectors, k, k_at, p, p_at, norm_of_k(factors), chunk, n0);
            }
            block_ab(m, square, erase_tile, RP, key_tile, SCORE_PITCH, BLOCK_ROWS, SCORE_WIDE, BK);
        }
        SYNC(); /* every lane has multiplied the last slices: M takes their place */
        for_block(r, w, BLOCK_ROWS, SCORE_WIDE) {
            int i = block_row(r), j = block_column(w);
            if (j < CHUNK)
                vec_at(matrix + i * CP + j) =
                    row_strengths[i] * score_of_block(square[r * SCORE_WIDE + w], decay, i, j, ERASE_BEFORE, 1);
        }
    }

    /* The record, for states.cl and outputs.cl */
    if (HEAD_DECAYS)
        copy_out(record + BLOCK_LOGS, decay, DECAY_LOGS);
    copy_out(record + BLOCK_FACTORS, factors, FACTORS);
    if (!ERASES)
        return;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); /* M is whole; so are P o e^G in the workspace */

    /* T = (I + M)⁻¹ in M's place: the blocks on the diagonal, then pairs of blocks of twice as many rows each time */
    {
        float spot_column[SPOT];

        if (LANE < CHUNK)
            spot_solve(spot_column, matrix);
        SYNC(); /* every lane has read its block: the inverse takes its place */
        if (LANE < CHUNK)
            spot_put(matrix, spot_column);
        SYNC(); /* the inverses are whole */
        vec_unrolled
        for (int size = SPOT; size < CHUNK; size *= 2) {
            vec pairs[SOLVE_HELD];

            pairs_right(pairs, matrix, size);
            SYNC(); /* every lane has read M_BA */
            pairs_put(matrix, pairs, size);
            SYNC(); /* M_BA T_AA is whole */
            pairs_left(pairs, matrix, size);
            SYNC(); /* every lane has read it */
            pairs_put(matrix, pairs, size);
            SYNC(); /* T_BA is whole */
        }
    }

    /* W = T (P o e^G), BV channels at a time. A lane fetches the vectors that lie where it leaves its products. */
    {
        decayed_erase_t vectors[PRODUCT_VECTORS];

        vec_unrolled
        for (int x = 0; x < PRODUCT_VECTORS; x++)
            vectors[x] =
                decayed_erase_vector(k, k_at, p, p_at, factors, chunk_rows, chunk, product_row(x), product_column(x));
        for (int n0 = 0; n0 < KP; n0 += BV) {
            vec product[PRODUCT_VECTORS];

            SYNC(); /* every lane has multiplied the columns before */
            vec_unrolled
            for (int x = 0; x < PRODUCT_VECTORS; x++)
                vec_at(columns + product_row(x) * COLUMN_PITCH + product_column(x)) =
                    decayed_erase_floats(vectors[x], factors, chunk, product_row(x), n0 + product_column(x));
            SYNC(); /* the columns are whole before a lane multiplies them */
            if (n0 + BV < KP) {
                vec_unrolled
                for (int x = 0; x < PRODUCT_VECTORS; x++)
                    vectors[x] = decayed_erase_vector(k, k_at, p, p_at, factors, chunk_rows, chunk, product_row(x),
                                                      n0 + BV + product_column(x));
            }
            block_zero(product, PRODUCT_VECTORS);
            block_lower(m, product, matrix, CP, columns, COLUMN_PITCH, BLOCK_ROWS, WIDE, 0, CHUNK);
            product_leave(chunk_rows + ROWS_ERASE, product, n0, KP);
        }
    }

    /* Of low rank A_ak becomes T A_ak, BV columns at a time: what X is multiplied by */
    if (SECOND) {
        for (int n0 = 0; n0 < CHUNK; n0 += BV) {
            vec product[PRODUCT_VECTORS];

            block_zero(product, PRODUCT_VECTORS);
            SYNC(); /* the columns before are whole */
            block_lower(m, product, matrix, CP, second_matrix + n0, CP, BLOCK_ROWS, WIDE, 0, CHUNK);
            SYNC(); /* every lane has multiplied these: the products take their place */
            vec_unrolled
            for (int x = 0; x < PRODUCT_VECTORS; x++)
                if (n0 + product_column(x) < CHUNK)
                    vec_at(second_matrix + product_row(x) * CP + n0 + product_column(x)) = product[x];
        }
        SYNC(); /* T A_ak is whole */
    }

    /* X' = T X, BV value columns at a time */
    {
        local const float *lower = SECOND ? second_matrix : matrix;
        value_vector_t vectors[PRODUCT_VECTORS];

        vec_unrolled
        for (int x = 0; x < PRODUCT_VECTORS; x++)
            vectors[x] = value_vector(v, v_at, w, w_at, chunk, product_row(x), product_column(x));
        for (int c0 = 0; c0 < VP; c0 += BV) {
            vec product[PRODUCT_VECTORS];

            SYNC(); /* every lane has multiplied the columns before */
            vec_unrolled
            for (int x = 0; x < PRODUCT_VECTORS; x++)
                vec_at(columns + product_row(x) * COLUMN_PITCH + product_column(x)) =
                    strength_of(factors)[product_row(x)] * value_floats(vectors[x]);
            SYNC(); /* the columns are whole before a lane multiplies them */
            if (c0 + BV < VP) {
                vec_unrolled
                for (int x = 0; x < PRODUCT_VECTORS; x++)
                    vectors[x] = value_vector(v, v_at, w, w_at, chunk, product_row(x), c0 + BV + product_column(x));
            }
            block_zero(product, PRODUCT_VECTORS);
            block_lower(m, product, lower, CP, columns, COLUMN_PITCH, BLOCK_ROWS, WIDE, 0, CHUNK);
            product_leave(chunk_rows + ROWS_WRITTEN, product, c0, VP);
        }
    }
}
