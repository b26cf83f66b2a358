/* The outputs of the tokens of a block. Each token has a row q of what it reads a state with, which goes backwards: over
 * its own piece, the earlier ones of the block, and the nodes before the block,
 *     O = ((A T) o L) X                      q = Q o e^G - A T (P o e^G)
 *     O += l (Z T) X,  Z = q (K o e^(G_C - G))^T        q <- e^(G_C) q - (Z T o e^G) P
 *     O += l q N                             q <- q M
 * Without an erase q stays as it is, and a number says how much it has faded (tree.clh). One group: a block of one head;
 * a sub-group: 16 of its rows. */
#include "tree.clh"

#define VALUE_PITCH (VALUE_DIM + 8)
#define MATRIX_PITCH (PIECE + 8)

/* A tile of the chunk's product A T, or of A where nothing is erased: [column][row], of rows of tile n */
WORD acc_t product_t(engine_t m, chain_t unit, global const uint *record, int n, int column)
{
    acc_t sum = 0;

    if (!ERASES)
        return acc_of_frag_t(m, unit, record_frag(m, record, 0, n, column));
    engine_unrolled
    for (int i = column; i < PT; i++) {
        chain_t T = chain_of(m, acc_of_frag_t(m, unit, record_frag(m, record, 1, i, column)));
        sum = mma_frag(m, sum, T, i <= n ? record_frag(m, record, 0, n, i) : (frag_t)(0));
    }
    return sum;
}
/* Weights of the levels between rows from row0 on and columns from column0 on, 0 above the diagonal */
WORD acc_t own_weights(engine_t m, local const float *weights, int row0, int column0)
{
    float x[ACC];

    engine_unrolled
    for (int e = 0; e < ACC; e++) {
        int i = row0 + acc_row(m, e), j = column0 + acc_column(m, e);
        x[e] = j <= i ? weights[i * LEVELS + min(level_between(i, j), LEVELS - 1)] : 0.0f;
    }
    return CAT(vload, ACC)(0, x);
}
/* acc += tiles of a row of a matrix times as many rows of an operand, of which a lane has its address in the first */
WORD acc_t rows_product(engine_t m, acc_t acc, const chain_t *x, address_t rows, int pitch)
{
    engine_unrolled
    for (int n = 0; n < PT; n++)
        acc = mma_frag(m, acc, x[n], frag_load_t(m, address_plus(rows, n * 16 * pitch), pitch));
    return acc;
}
WORD void output_rows_store(global out_t *o, long stride, local const data_t *rows, int count)
{
    const int aligned = (ulong)o % 16 == 0 && stride % 8 == 0;

    for_each(task, count * (VALUE_DIM / 8)) {
        int i = task / (VALUE_DIM / 8), n = task % (VALUE_DIM / 8) * 8;
        local const data_t *from = rows + i * VALUE_PITCH + n;
        global out_t *to = o + i * stride + n;
        if (aligned)
            *(global uint4 *)to = *(local const uint4 *)from;
        else
            for (int e = 0; e < 8; e++)
                ((global ushort *)to)[e] = ((local const ushort *)from)[e];
    }
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const float, levels) X(global const int, cu) X(global const uint, records) X(global const uint, nodes) \
    X(global const float, fades)
/* clang-format on */
KERNEL
levels_tree(TENSORS(PARAMETER) int seq_len, int sequences, int slots)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(keys, LOCAL_KEYS)
    LOCAL_NUMBERS(values, LOCAL_VALUES)
    LOCAL_NUMBERS(products, LOCAL_MATRICES) /* A T of all pieces */
    LOCAL_NUMBERS(inverses, LOCAL_MATRICES) /* T */
    local float factors[PIECES * FACTORS] __attribute__((aligned(16)));
    local float weights[CHUNK * LEVELS];
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    const long slot = get_group_id(0);
    chunk_t chunk = chunk_of_slot(slot, get_group_id(1), sequences, seq_len, cu, cu_at);
    const int sub = LANE / ENGINE_LANES, row0 = sub * 16, own = row0 / PIECE, part = row0 % PIECE / 16;
    const int last = (chunk.count - 1) / PIECE, block = chunk.row / CHUNK;
    const chain_t unit = chain_of(m, unit_acc(m, 0, 0));
    global const uint *record;
    address_t key_rows, key_columns, value_columns;
    chain_t query[KT], x[PT];
    acc_t O[VT];
    float fade = 1;

    if (chunk.count <= 0)
        return;
    record = records_of(records, records_at, chunk, chunk.row, seq_len);
    levels += at_row(levels_at, chunk.at.batch, chunk.at.first + chunk.row, chunk.at.head);
    rows_stage(keys, KEY_PITCH, write_row(q, chunk, chunk.at.qk_head), q_at.z, KEY_DIM, chunk.count);
    rows_stage(values, VALUE_PITCH, write_row(v, chunk, chunk.at.head), v_at.z, VALUE_DIM, chunk.count);
    for_each(i, PIECES * FACTORS)
        factors[i] = record_factors(record + min(i / FACTORS, last) * NEXT_RECORD)[i % FACTORS];
    for_each(i, CHUNK * LEVELS)
        weights[i] = i / LEVELS < chunk.count ? levels[i / LEVELS * levels_at.z + i % LEVELS] : 0.0f;
    engine_unrolled
    for (int j = 0; j < PT; j++) {
        global const uint *of_rows = record + min(own, last) * NEXT_RECORD;
        acc_put_t(m, (local out_t *)products + row0 * MATRIX_PITCH + j * 16, MATRIX_PITCH,
                  product_t(m, unit, of_rows, part, j));
        if (ERASES)
            acc_put_t(m, (local out_t *)inverses + row0 * MATRIX_PITCH + j * 16, MATRIX_PITCH,
                      acc_of_frag_t(m, unit, j <= part ? record_frag(m, of_rows, 1, part, j) : (frag_t)(0)));
    }
    copies_end();
    SYNC();
    engine_unrolled
    for (int kt = 0; kt < KT; kt++)
        query[kt] = chain_load(m, address_of(keys + row0 * KEY_PITCH + kt * 16 + chain_lane(m, KEY_PITCH)), KEY_PITCH);
    SYNC(); /* q has been read */
    rows_stage(keys, KEY_PITCH, write_row(k, chunk, chunk.at.qk_head), k_at.z, KEY_DIM, chunk.count);
    copies_end();
    SYNC();
    key_rows = address_of(keys + frag_lane(m, KEY_PITCH));
    key_columns = address_of(keys + frag_lane_t(m, KEY_PITCH));
    value_columns = address_of(values + frag_lane_t(m, VALUE_PITCH));

    /* The own piece */
    engine_unrolled
    for (int j = 0; j < PT; j++)
        x[j] = chain_load(m, address_of(products + row0 * MATRIX_PITCH + j * 16 + chain_lane(m, MATRIX_PITCH)),
                          MATRIX_PITCH);
    {
        chain_t weighed[PT];
        engine_unrolled
        for (int j = 0; j < PT; j++)
            weighed[j] = chain_of(m, acc_of(m, x[j]) * own_weights(m, weights, row0, own * PIECE + j * 16));
        engine_unrolled
        for (int c = 0; c < VT; c++)
            O[c] = rows_product(m, (acc_t)(0), weighed,
                                address_plus(value_columns, own * PIECE * VALUE_PITCH + c * 16), VALUE_PITCH);
    }
    {
        const acc_t reads = rows_factor(m, factors + own * FACTORS + OF_READS, part * 16, 1);
        engine_unrolled
        for (int j = 0; j < PT && ERASES; j++)
            x[j] = chain_of(m, acc_of(m, x[j]) * acc_factors(m, factors + own * FACTORS + OF_ERASES + j * 16));
        engine_unrolled
        for (int kt = 0; kt < KT; kt++) {
            acc_t y = reads * acc_of(m, query[kt]);
            if (ERASES)
                y -= rows_product(m, (acc_t)(0), x, address_plus(key_columns, own * PIECE * KEY_PITCH + kt * 16),
                                  KEY_PITCH);
            query[kt] = chain_of(m, y);
        }
    }

    /* The pieces before it */
    for (int piece = PIECES - 2; piece >= 0; piece--) {
        const int reads = piece < own;
        local const float *factor = factors + piece * FACTORS;
        acc_t y[PT], weight;

        if (ENGINE_ALONE && !reads)
            continue;
        engine_unrolled
        for (int n = 0; n < PT; n++) {
            y[n] = 0;
            engine_unrolled
            for (int kt = 0; kt < KT; kt++)
                y[n] = mma_frag(m, y[n], query[kt],
                                frag_load(m, address_plus(key_rows, (piece * PT + n) * 16 * KEY_PITCH + kt * 16),
                                          KEY_PITCH));
            y[n] *= (float)reads * acc_factors(m, factor + OF_WRITES + n * 16);
            x[n] = chain_of(m, y[n]);
        }
        if (ERASES) {
            address_t T = address_of(inverses + piece * PIECE * MATRIX_PITCH + frag_lane_t(m, MATRIX_PITCH));
            engine_unrolled
            for (int n = 0; n < PT; n++)
                y[n] = rows_product(m, (acc_t)(0), x, address_plus(T, n * 16), MATRIX_PITCH);
            engine_unrolled
            for (int n = 0; n < PT; n++)
                x[n] = chain_of(m, y[n]);
        }
        weight = fade * rows_factor(m, weights + min(level_between(row0, piece * PIECE), LEVELS - 1), row0, LEVELS);
        engine_unrolled
        for (int c = 0; c < VT; c++)
            O[c] += weight * rows_product(m, (acc_t)(0), x,
                                          address_plus(value_columns, piece * PIECE * VALUE_PITCH + c * 16),
                                          VALUE_PITCH);
        if (!ERASES) {
            fade *= reads ? factor[OF_STATE] : 1.0f;
            continue;
        }
        engine_unrolled
        for (int n = 0; n < PT; n++)
            x[n] = chain_of(m, y[n] * acc_factors(m, factor + OF_ERASES + n * 16));
        engine_unrolled
        for (int kt = 0; kt < KT; kt++)
            query[kt] = chain_of(
                m, (reads ? factor[OF_STATE] : 1.0f) * acc_of(m, query[kt]) -
                       rows_product(m, (acc_t)(0), x, address_plus(key_columns, piece * PIECE * KEY_PITCH + kt * 16),
                                    KEY_PITCH));
    }

    /* The nodes before the block, of as many blocks as each set bit of its number says */
    for (int end = block; end > 0; end &= end - 1) {
        const int n = 31 - clz(end & -end);
        const long at = slot - block + end - 1;
        global const uint *node = nodes + nodes_at.x + node_of(at, chunk.at.head);
        const acc_t weight =
            fade * rows_factor(m, weights + min(level_between(chunk.row, chunk.row - (CHUNK << n)), LEVELS - 1), row0, LEVELS);

        engine_unrolled
        for (int c = 0; c < VT; c++) {
            acc_t sum = 0;
            engine_unrolled
            for (int kt = 0; kt < KT; kt++)
                sum = mma_frag(m, sum, query[kt], frag_get(m, node + (c * KT + kt) * FRAG));
            O[c] += weight * sum;
        }
        if (!ERASES)
            fade *= fades[fades_at.x + fade_of(at, chunk.at.head, n, slots)];
        else if ((end & (end - 1)) != 0) {
            chain_t next[KT];
            engine_unrolled
            for (int c = 0; c < KT; c++) {
                acc_t sum = 0;
                engine_unrolled
                for (int kt = 0; kt < KT; kt++)
                    sum = mma_frag(m, sum, query[kt], frag_get(m, node + ((VT + c) * KT + kt) * FRAG));
                next[c] = chain_of(m, sum);
            }
            engine_unrolled
            for (int c = 0; c < KT; c++)
                query[c] = next[c];
        }
    }
    SYNC(); /* values have been read */
    engine_unrolled
    for (int c = 0; c < VT; c++)
        acc_put(m, values + row0 * VALUE_PITCH + c * 16, VALUE_PITCH, O[c]);
    SYNC();
    output_rows_store(o + at_row(o_at, chunk.at.batch, chunk.at.first + chunk.row, chunk.at.head), o_at.z, values,
                      chunk.count);
}
