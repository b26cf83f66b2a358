/* o = x rsqrt(mean of x^2 + eps) w f(z), x = v or v silu(z): of each head's row. One group: CHUNK rows of one head,
 * LANES work-items a row; each reads its columns twice, the second time for o, which may lie where v does. */
#include "pieces.clh"

WORD vec gated(vec x, stream_t z, int row, int c)
{
    return x * silu(stream_vec(z, row, c));
}
WORD vec input_of(stream_t v, stream_t z, int row, int c)
{
    vec x = stream_vec(v, row, c);
    if (GATED_BEFORE)
        x = gated(x, z, row, c);
    return VALUE_DIM % VEC == 0 ? x : select((vec)(0), x, vec_iota + c < VALUE_DIM);
}
WORD vec weight_of(global const gate_t *weights, int c)
{
    if (!HAS_WEIGHTS)
        return 1;
    return gate_row(weights, c, VALUE_DIM) + (float)CENTERED;
}

KERNEL
rms_norm(global const data_t *v, long4 v_at, global out_t *o, long4 o_at, global const data_t *z, long4 z_at,
         global const gate_t *weights, long4 weights_at, global const int *cu, long4 cu_at, int seq_len, int sequences)
{
    LOCAL_FLOATS(sums, LOCAL_SUMS)
    chunk_t chunk = chunk_of_slot(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at);
    stream_t x = stream_of((global const char *)v, v_at, chunk.at, sizeof(data_t));
    stream_t gates = stream_of((global const char *)z, z_at, chunk.at, sizeof(data_t));
    stream_t outs = stream_of((global const char *)o, o_at, chunk.at, sizeof(out_t));

    weights += at_row(weights_at, 0, 0, chunk.at.head);
    for (int turn = 0; turn < CHUNK * LANES / GROUP; turn++) {
        int i = turn * (GROUP / LANES) + LANE / LANES, row = chunk.row + i;
        int begin = i < chunk.count ? LANE % LANES * VEC : VALUE_DIM;
        vec squares = 0;
        float sum = 0;

        for (int c = begin; c < VALUE_DIM; c += LANES * VEC) {
            vec y = input_of(x, gates, row, c);
            squares += y * y;
        }
        sums[LANE] = vec_sum(squares);
        SYNC();
        for (int l = 0; l < LANES; l++)
            sum += sums[LANE / LANES * LANES + l];
        SYNC();
        sum = 1 / sqrt(sum / VALUE_DIM + EPS);
        for (int c = begin; c < VALUE_DIM; c += LANES * VEC) {
            vec y = input_of(x, gates, row, c) * sum * weight_of(weights, c);
            if (GATED_AFTER)
                y = gated(y, gates, row, c);
            if (GATED_SIGMOID)
                y /= 1 + exp2(-LOG2E * stream_vec(gates, row, c));
            stream_put(y, outs, row, c);
        }
    }
}
