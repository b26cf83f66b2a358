/* o = scale times the map GATE_MAP of v + dt_bias. One group: CHUNK tokens of all heads. A task computes VEC numbers of
 * RUN tokens; the numbers belong to several heads if these are narrow. */
#include "columns.clh"
#include "gate.clh"

/* The numbers of a token, head by head; wide: VEC of them can be read at once. */
typedef struct {
    global char *numbers;
    long4 at;
    int wide;
} heads_t;

static inline heads_t heads_of(global const void *x, long4 at, int size)
{
    int wide_rows = VALUE_DIM % VEC == 0 || (at.w == VALUE_DIM && HEADS * VALUE_DIM % VEC == 0);
    heads_t heads;
    heads.numbers = (global char *)x;
    heads.at = at;
    heads.wide = wide_rows &&
                 (((size_t)x | at.x * size | at.y * size | at.z * size | at.w * size) & (min(16, VEC * size) - 1)) == 0;
    return heads;
}
WORD long heads_at(heads_t x, long batch, long token, int e)
{
    return at_row(x.at, batch, token, e / VALUE_DIM) + e % VALUE_DIM;
}
WORD vec heads_vec(heads_t x, long batch, long token, int e)
{
    float element[VEC];
    if (x.wide) {
        ulong raw[DATA_RAW];
        wide_copy(raw, x.numbers + heads_at(x, batch, token, e) * sizeof(data_t), sizeof(data_t));
        return data_vec(raw);
    }
    vec_unrolled
    for (int i = 0; i < VEC; i++)
        element[i] =
            data_get((global const data_t *)x.numbers, heads_at(x, batch, token, min(e + i, HEADS * VALUE_DIM - 1)));
    return vec_load(element);
}
WORD void heads_put(vec y, heads_t x, long batch, long token, int e)
{
    float element[VEC];
    if (x.wide) {
        ulong raw[VEC * sizeof(out_t) / 8];
        out_putv(y, (out_t *)raw, 0);
        wide_store(x.numbers + heads_at(x, batch, token, e) * sizeof(out_t), raw, sizeof(out_t));
        return;
    }
    vec_store(y, element);
    vec_unrolled
    for (int i = 0; i < VEC; i++)
        if (e + i < HEADS * VALUE_DIM)
            out_put(element[i], (global out_t *)x.numbers, heads_at(x, batch, token, e + i));
}

/* What all tokens share: rates of heads, biases of numbers */
WORD vec rates_at(gates_t gates, int e)
{
    float rate[VEC];
    if (!HAS_A_LOG || VALUE_DIM % VEC == 0)
        return gate_rate(gates, e / VALUE_DIM);
    vec_unrolled
    for (int i = 0; i < VEC; i++)
        rate[i] = gate_rate(gates, min(e + i, HEADS * VALUE_DIM - 1) / VALUE_DIM);
    return vec_load(rate);
}
WORD vec biases_at(gates_t gates, int e)
{
    float bias[VEC];
    if (!HAS_GATE_BIAS)
        return 0;
    vec_unrolled
    for (int i = 0; i < VEC; i++) {
        int at = min(e + i, HEADS * VALUE_DIM - 1);
        bias[i] = gates.bias[gates.bias_head * (at / VALUE_DIM) + at % VALUE_DIM];
    }
    return vec_load(bias);
}

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
