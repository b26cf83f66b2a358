/* The backward pass of gates. With x = v + dt_bias and y its log-decay: dv = dx = scale do dy/dx;  d dt_bias = sum dx;
 * d a_log = sum scale do dy/d a_log. One group: CHUNK tokens of all heads. A task has VEC numbers of RUN tokens, whose sums it
 * leaves in `parts`. */
#include "heads.clh"
#include "gradient.clh"

/* dy/dx and dy/d a_log of numbers with their bias */
WORD void slopes_of(vec x, vec rate, vec *by_number, vec *by_rate)
{
    vec s = 1 / (1 + exp2(-LOG2E * (GATE_MAP == GATE_SIGMOID ? rate * x : x)));
    vec rest = 1 / (1 + exp2(LOG2E * (GATE_MAP == GATE_SIGMOID ? rate * x : x))); /* 1 - s, as exact */
    *by_rate = 0;
    if (GATE_MAP == GATE_SOFTPLUS) {
        *by_number = -rate * s;
        *by_rate = gate_log_vec(x, rate);
        for (int i = 0; i < VEC && STEP_LIMITED; i++)
            if (step_is_limited(vec_number(softplus_step_vec(x), i)))
                *by_number = vec_with(*by_number, i, 0);
    } else if (GATE_MAP == GATE_SIGMOID) {
        *by_number = rate * GATE_SCALE * s * rest;
        *by_rate = select(x * *by_number, (vec)(0), *by_number == 0);
    } else if (GATE_MAP == GATE_LOGSIGMOID)
        *by_number = GATE_SCALE * rest;
    else
        *by_number = gate_log_vec(x, rate);
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, v) X(global const gate_t, d_o) X(global const float, bias) X(global const float, a_log) \
    X(global const int, cu) X(global out_t, d_v) X(global float, parts)
/* clang-format on */
KERNEL
gates_back(TENSORS(PARAMETER) int seq_len, int sequences, float scale)
{
    TENSORS(ABSENT)
    chunk_t chunk = chunk_of_slot(get_group_id(0), 0, sequences, seq_len, cu, cu_at);
    heads_t from = heads_of(v, v_at, sizeof(data_t)), above = heads_of(d_o, d_o_at, sizeof(gate_t));
    gates_t gates = GATES_HERE;

    for_each(task, CHUNK / RUN * VECTORS) {
        int e = task % VECTORS * VEC, run = task / VECTORS, last = min((run + 1) * RUN, chunk.count);
        long first = chunk.at.first + chunk.row;
        global float *part = parts + parts_at.x + ((long)get_group_id(0) * (CHUNK / RUN) + run) * HEADS * WIDTH;
        vec rates = rates_at(gates, e), biases = biases_at(gates, e), d_bias = 0, d_rate = 0;

        for (int i = run * RUN; i < last; i++) {
            vec x = heads_vec(from, chunk.at.batch, first + i, e) + biases, by_number, by_rate;
            vec dy = scale * heads_gate_vec(above, chunk.at.batch, first + i, e);
            slopes_of(x, rates, &by_number, &by_rate);
            d_bias += dy * by_number;
            d_rate += dy * by_rate;
            for (int j = 0; j < VEC && is_given(d_v); j++)
                if (e + j < HEADS * VALUE_DIM) {
                    long at = at_row(d_v_at, chunk.at.batch, first + i, (e + j) / VALUE_DIM) + (e + j) % VALUE_DIM;
                    out_put(vec_number(dy * by_number, j) + (ADD_V ? out_get(d_v, at) : 0.0f), d_v, at);
                }
        }
        for (int j = 0; j < VEC && e + j < HEADS * VALUE_DIM; j++) {
            global float *of_head = part + (e + j) / VALUE_DIM * WIDTH + (e + j) % VALUE_DIM;
            if (HAS_GATE_BIAS)
                of_head[AT_BIAS] = vec_number(d_bias, j);
            if (HAS_A_LOG)
                of_head[AT_RATE] = vec_number(d_rate, j);
        }
    }
}
