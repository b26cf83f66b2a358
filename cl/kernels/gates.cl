/* o = scale f(v + dt_bias), f: -e^a_log softplus(x); log sigmoid(x); sigmoid(x); softplus(x).
 * One group: CHUNK tokens of all heads; a task is VEC numbers of a token, across heads where these are narrow. */
#include "pieces.clh"

WORD vec softplus(vec x)
{
    return max(x, (vec)(0)) + log1p(exp(-fabs(x)));
}
WORD vec gate_of(vec x, vec a)
{
    if (IS_LOG_SIGMOID)
        return -softplus(-x);
    if (IS_SIGMOID)
        return 1 / (1 + exp(-x));
    return IS_SOFTPLUS ? -exp(a) * softplus(x) : softplus(x);
}

KERNEL
gates(global const data_t *v, long4 v_at, global out_t *o, long4 o_at, global const float *bias, long4 bias_at,
      global const float *a_log, long4 a_log_at, global const int *cu, long4 cu_at, int seq_len, int sequences,
      float scale)
{
    chunk_t chunk = chunk_of_slot(get_group_id(0), 0, sequences, seq_len, cu, cu_at);

    for_each(task, CHUNK * VECTORS) {
        int i = task / VECTORS, e = task % VECTORS * VEC;
        long token = chunk.at.first + chunk.row + i;
        float x[VEC], a[VEC];
        if (i >= chunk.count)
            continue;
        vec_unrolled
        for (int j = 0; j < VEC; j++) {
            int at = min(e + j, HEADS * VALUE_DIM - 1), head = at / VALUE_DIM, c = at % VALUE_DIM;
            x[j] = data_get(v, at_row(v_at, chunk.at.batch, token, head) + c);
            if (HAS_BIAS)
                x[j] += bias[at_row(bias_at, 0, 0, head) + c];
            a[j] = IS_SOFTPLUS ? a_log[at_row(a_log_at, 0, 0, head)] : 0;
        }
        CAT(vstore, VEC)(scale * gate_of(CAT(vload, VEC)(0, x), CAT(vload, VEC)(0, a)), 0, x);
        vec_unrolled
        for (int j = 0; j < VEC; j++)
            if (e + j < HEADS * VALUE_DIM)
                out_put(x[j], o, at_row(o_at, chunk.at.batch, token, (e + j) / VALUE_DIM) + (e + j) % VALUE_DIM);
    }
}
