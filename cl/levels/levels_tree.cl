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
/* Weights of the levels between the block's rows from row0 on, and columns from column0 on; 0 above the diagonal and
 * past `count` rows, which are `stride` apart */
WORD acc_t own_weights(engine_t m, global const float *weights, long stride, int count, int row0, int column0)
{
    float x[ACC];

    engine_unrolled
    for (int e = 0; e < ACC; e++) {
        int i = row0 + acc_row(m, e), j = column0 + acc_column(m, e);
        x[e] = j <= i && i < count ? weights[i * stride + level_between(i, j)] : 0.0f;
    }
    return CAT(vload, ACC)(0, x);
}
/* Those of one level */
WORD acc_t level_weights(engine_t m, global const float *weights, long stride, int count, int row0, int level)
{
    float x[LANE_ROWS];

    engine_unrolled
    for (int r = 0; r < LANE_ROWS; r++) {
        int i = row0 + acc_row(m, acc_rows_element(r));
        x[r] = i < count ? weights[i * stride + level] : 0.0f;
    }
    return acc_of_rows(acc_rows_get(x));
}
/* acc[row][column] = x[row] */
WORD acc_t rows_factor(engine_t m, local const float *of_rows)
{
    float x[LANE_ROWS];

    engine_unrolled
    for (int r = 0; r < LANE_ROWS; r++)
        x[r] = of_rows[acc_row(m, acc_rows_element(r))];
    return acc_of_rows(acc_rows_get(x));
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
levels_tree(TENSORS(PARAMETER) int seq_len, int sequences, int slot_count)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(keys, LOCAL_KEYS)
    LOCAL_NUMBERS(values, LOCAL_VALUES)
    LOCAL_NUMBERS(inverses, LOCAL_INVERSES) /* T */
    local float factors[PIECES * FACTORS] __attribute__((aligned(16)));
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    const long slot = get_group_id(0);
    chunk_t chunk = chunk_of_slot(slot, get_group_id(1), sequences, seq_len, cu, cu_at);
    const int sub = LANE / ENGINE_LANES, row0 = sub * 16, own = row0 / PIECE, tile = row0 % PIECE / 16;
    const int last = (chunk.count - 1) / PIECE, block = chunk.row / CHUNK;
    const chain_t unit = chain_of(m, unit_acc(m, 0, 0));
    local data_t *strip = keys + sub * (16 * MATRIX_PITCH);
    global const uint *record;
    global const float *weights;
    address_t key_rows, key_columns, value_columns;
    chain_t query[KT], product[PT];
    acc_t O[VT];
    float fade = 1;

    if (chunk.count <= 0)
        return;
    record = records_of(records, records_at, chunk, chunk.row, seq_len);
    weights = levels + at_row(levels_at, chunk.at.batch, chunk.at.first + chunk.row, chunk.at.head);
    q = write_row(q, chunk, chunk.at.qk_head);
    k = write_row(k, chunk, chunk.at.qk_head);
    v = write_row(v, chunk, chunk.at.head);
    for_each(i, PIECES * FACTORS)
        factors[i] = record_factors(record + min(i / FACTORS, last) * NEXT_RECORD)[i % FACTORS];
    engine_unrolled
    for (int j = 0; j < PT; j++)
        acc_put_t(m, (local out_t *)strip + j * 16, MATRIX_PITCH,
                  product_t(m, unit, record + min(own, last) * NEXT_RECORD, tile, j));
    engine_sync_own(); /* the tiles are whole */
    engine_unrolled
    for (int j = 0; j < PT; j++)
        product[j] = chain_load(m, address_of(strip + j * 16 + chain_lane(m, MATRIX_PITCH)), MATRIX_PITCH);
    engine_unrolled
    for (int kt = 0; kt < KT; kt++)
        query[kt] = 0;
    for (int stage = 0; stage < STAGES; stage++) {
        const int first = stage * STAGE_ROWS, has = row0 / STAGE_ROWS == stage;
        SYNC(); /* what was there has been read */
        rows_stage(keys, KEY_PITCH, q + first * q_at.z, q_at.z, KEY_DIM, chunk.count - first);
        copies_end();
        SYNC();
        engine_unrolled
        for (int kt = 0; kt < KT; kt++) {
            chain_t x = chain_load(
                m, address_of(keys + row0 % STAGE_ROWS * KEY_PITCH + kt * 16 + chain_lane(m, KEY_PITCH)), KEY_PITCH);
            query[kt] = has ? x : query[kt];
        }
    }
    key_rows = address_of(keys + frag_lane(m, KEY_PITCH));
    key_columns = address_of(keys + frag_lane_t(m, KEY_PITCH));
    value_columns = address_of(values + frag_lane_t(m, VALUE_PITCH));
    engine_unrolled
    for (int c = 0; c < VT; c++)
        O[c] = 0;

    /* The own piece and those before it */
    for (int piece = PIECES - 1; piece >= 0; piece--) {
        const int row = piece % STAGE_PIECES * PIECE, is_own = piece == own, reads = piece <= own;
        local const float *factor = factors + piece * FACTORS;
        acc_t y[PT], scale;
        chain_t x[PT];

        if (row + PIECE == STAGE_ROWS) {
            const int first = piece * PIECE - row, inverse = first + row0 % STAGE_ROWS;
            SYNC(); /* the rows before have been read */
            rows_stage(keys, KEY_PITCH, k + first * k_at.z, k_at.z, KEY_DIM, chunk.count - first);
            rows_stage(values, VALUE_PITCH, v + first * v_at.z, v_at.z, VALUE_DIM, chunk.count - first);
            engine_unrolled
            for (int j = 0; j < PT && ERASES; j++)
                acc_put_t(m, (local out_t *)inverses + row0 % STAGE_ROWS * MATRIX_PITCH + j * 16, MATRIX_PITCH,
                          acc_of_frag_t(
                              m, unit,
                              j <= tile ? record_frag(m, record + min(inverse / PIECE, last) * NEXT_RECORD, 1, tile, j)
                                        : (frag_t)(0)));
            copies_end();
            SYNC();
        }
        if (ENGINE_ALONE && !reads)
            continue;
        engine_unrolled
        for (int n = 0; n < PT; n++)
            y[n] = acc_of(m, product[n]);
        if (!(ENGINE_ALONE && is_own)) {
            engine_unrolled
            for (int n = 0; n < PT; n++) {
                acc_t z = 0;
                engine_unrolled
                for (int kt = 0; kt < KT; kt++)
                    z = mma_frag(m, z, query[kt],
                                 frag_load(m, address_plus(key_rows, (row + n * 16) * KEY_PITCH + kt * 16), KEY_PITCH));
                z *= (float)reads * acc_factors(m, factor + OF_WRITES + n * 16);
                x[n] = chain_of(m, z);
                if (!ERASES)
                    y[n] = is_own ? y[n] : z;
            }
            engine_unrolled
            for (int n = 0; n < PT && ERASES; n++) {
                acc_t z = rows_product(
                    m, (acc_t)(0), x, address_of(inverses + row * MATRIX_PITCH + n * 16 + frag_lane_t(m, MATRIX_PITCH)),
                    MATRIX_PITCH);
                y[n] = is_own ? y[n] : z;
            }
        }
        engine_unrolled
        for (int n = 0; n < PT; n++)
            x[n] = chain_of(m, y[n] * fade *
                                   own_weights(m, weights, levels_at.z, chunk.count, row0, piece * PIECE + n * 16));
        engine_unrolled
        for (int c = 0; c < VT; c++)
            O[c] = rows_product(m, O[c], x, address_plus(value_columns, row * VALUE_PITCH + c * 16), VALUE_PITCH);
        if (!ERASES && !is_own)
            fade *= reads ? factor[OF_STATE] : 1.0f;
        if (!ERASES && (!is_own || !reads))
            continue;
        scale = is_own ? rows_factor(m, factor + OF_READS + tile * 16) : (acc_t)(reads ? factor[OF_STATE] : 1.0f);
        engine_unrolled
        for (int n = 0; n < PT && ERASES; n++)
            x[n] = chain_of(m, (reads ? y[n] : (acc_t)(0)) * acc_factors(m, factor + OF_ERASES + n * 16));
        engine_unrolled
        for (int kt = 0; kt < KT; kt++) {
            acc_t z = scale * acc_of(m, query[kt]);
            if (ERASES)
                z -= rows_product(m, (acc_t)(0), x, address_plus(key_columns, row * KEY_PITCH + kt * 16), KEY_PITCH);
            query[kt] = chain_of(m, z);
        }
    }

    /* The nodes before the block, of as many blocks as each set bit of its number says */
    for (int end = block; end > 0; end &= end - 1) {
        const int n = 31 - clz(end & -end);
        const long at = slot - block + end - 1;
        global const uint *node = nodes + nodes_at.x + node_of(at, chunk.at.head);
        const acc_t weight = fade * level_weights(m, weights, levels_at.z, chunk.count, row0,
                                                  level_between(chunk.row, chunk.row - (CHUNK << n)));

        engine_unrolled
        for (int c = 0; c < VT; c++) {
            acc_t sum = 0;
            engine_unrolled
            for (int kt = 0; kt < KT; kt++)
                sum = mma_frag(m, sum, query[kt], frag_get(m, node + (c * KT + kt) * FRAG));
            O[c] += weight * sum;
        }
        if (!ERASES)
            fade *= fades[fades_at.x + fade_of(at, chunk.at.head, n, slot_count)];
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
    strip = values + row0 % STAGE_ROWS * VALUE_PITCH;
    o += at_row(o_at, chunk.at.batch, chunk.at.first + chunk.row, chunk.at.head);
    for (int stage = 0; stage < STAGES; stage++) {
        SYNC(); /* what was there has been read */
        if (row0 / STAGE_ROWS == stage)
            engine_unrolled
        for (int c = 0; c < VT; c++)
            acc_put(m, strip + c * 16, VALUE_PITCH, O[c]);
        SYNC();
        output_rows_store(o + stage * STAGE_ROWS * o_at.z, o_at.z, values,
                          min(chunk.count - stage * STAGE_ROWS, STAGE_ROWS));
    }
}
