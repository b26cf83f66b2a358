/* o = scale times the map GATE_MAP of v + dt_bias. One group: CHUNK tokens of all heads. A task computes VEC numbers of
 * RUN tokens; the numbers belong to several heads if these are narrow. */
#include "heads.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, v) X(global out_t, o) X(global const float, bias) X(global const float, a_log) \
    X(global const int, cu)
/* clang-format on */
KERNEL
gates(TENSORS(PARAMETER) int seq_len, int sequences, float scale)
{
    TENSORS(ABSENT)
    chunk_t chunk = chunk_of_slot(get_group_id(0), 0, sequences, seq_len, cu, cu_at);
    heads_t from = heads_of(v, v_at, sizeof(data_t)), to = heads_of(o, o_at, sizeof(out_t));
    gates_t gates = GATES_HERE;

    for_each(task, CHUNK / RUN * VECTORS) {
        int e = task % VECTORS * VEC, first = task / VECTORS * RUN, last = min(first + RUN, chunk.count) - 1;
        long token = chunk.at.first + chunk.row;
        vec rates = rates_at(gates, e), biases = biases_at(gates, e), x[RUN];
        if (first > last)
            continue;
        vec_unrolled
        for (int i = 0; i < RUN; i++)
            x[i] = heads_vec(from, chunk.at.batch, token + min(first + i, last), e);
        vec_unrolled
        for (int i = 0; i < RUN; i++)
            if (first + i <= last)
                heads_put(scale * gate_log_vec(x[i] + biases, rates), to, chunk.at.batch, token + first + i, e);
    }
}
