/* The backward pass of rms_norm. With x what is normalised, r its factor, h = r x, w' = w + CENTERED and f what z makes of
 * the output:
 *     dn = do f;  dw = sum dn h;  dz = do h w' f';  dh = w' dn;  dx = r dh - curve (x . dh) x
 * where dr/dx = -curve x. Where z gates the input, dz = dx (v + d u) silu'(z) and dx <- dx silu(z). dv = dx;  du = d dx;
 * dd = sum dx u. One group: CHUNK rows of one head, LANES work-items a row, which read it twice. Work-items keep their sums of
 * dw and dd in registers, or in `parts` if a row has too many columns. */
#include "norm.clh"
#include "gradient.clh"

enum {
    SPAN = LANES * VEC,
    TALL = GROUP / LANES,
    VECTORS = (VALUE_DIM + SPAN - 1) / SPAN, /* of a work-item */
    KEPT = IN_REGISTERS ? VECTORS : 1
};

/* Loops over vectors that a work-item keeps */
#if IN_REGISTERS
#define kept_unrolled _Pragma("unroll")
#else
#define kept_unrolled
#endif

/* The slope of silu, and of the output's factor by z */
WORD vec silu_slope(vec z)
{
    return (1 + z / (1 + exp2(LOG2E * z))) / (1 + exp2(-LOG2E * z));
}
WORD vec factor_slope(vec z)
{
    return GATED_AFTER ? silu_slope(z) : 1 / (1 + exp2(-LOG2E * z)) / (1 + exp2(LOG2E * z));
}

/* Adds x to vector k of a work-item's sums. */
WORD void add_to(vec *kept, global float *part, int k, vec x)
{
    if (IN_REGISTERS)
        kept[k] += x;
    else
        vec_store(vec_load(part + k * SPAN) + x, part + k * SPAN);
}

WORD void leave_row(vec x, global out_t *to, long4 at, place of, int row, int c, int adds)
{
    out_put_row(x, to + at_row(at, of.batch, of.first + row, of.head), c, VALUE_DIM, adds);
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, v) X(global const data_t, d_o) X(global const data_t, u) X(global const float, d) \
    X(global const data_t, z) X(global const gate_t, weights) X(global const int, cu) X(global out_t, d_v) \
    X(global out_t, d_u) X(global out_t, d_z) X(global float, parts)
/* clang-format on */
KERNEL
rms_norm_back(TENSORS(PARAMETER) int seq_len, int sequences)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(sums, LOCAL_SUMS)
    long slot = get_group_id(0);
    chunk_t chunk = chunk_of_slot(slot, get_group_id(1), sequences, seq_len, cu, cu_at);
    place at = chunk.at;
    stream_t x = stream_of((global const char *)v, v_at, at, sizeof(data_t));
    stream_t added = stream_of((global const char *)u, u_at, at, sizeof(data_t));
    stream_t gates = stream_of((global const char *)z, z_at, at, sizeof(data_t));
    stream_t cotangents = stream_of((global const char *)d_o, d_o_at, at, sizeof(data_t));
    int begin = LANE % LANES * VEC, team = LANE / LANES, last = chunk.row + chunk.count - 1;
    global float *part = parts + parts_at.x + ((slot * TALL + team) * HEADS + at.head) * WIDTH + begin;
    vec dw[KEPT], dd[KEPT];

    weights += at_row(weights_at, 0, 0, at.head);
    d += at_row(d_at, 0, 0, at.head);
    vec_unrolled
    for (int k = 0; k < KEPT; k++)
        dw[k] = dd[k] = 0;
    for (int k = 0; k < WIDTH / SPAN && !IN_REGISTERS; k++)
        vec_store((vec)(0), part + k * SPAN);
    for (int turn = 0; turn < chunk.count; turn += TALL) {
        int row = min(chunk.row + turn + team, last), exists = chunk.row + turn + team <= last;
        vec squares = 0, dots = 0;
        float square = 0, dot = 0, root, factor, curve;

        for (int k = 0; k < VECTORS; k++) {
            int c = begin + k * SPAN;
            if (VALUE_DIM % SPAN == 0 || c < VALUE_DIM) {
                vec y = input_of(x, added, d, gates, row, c);
                squares += y * y;
                dots += y * weight_of(weights, c) * factor_of(gates, row, c) * stream_vec(cotangents, row, c);
            }
        }
        sums[LANE] = vec_sum(squares);
        sums[GROUP + LANE] = vec_sum(dots);
        SYNC();
        for (int l = 0; l < LANES; l++) {
            square += sums[team * LANES + l];
            dot += sums[GROUP + team * LANES + l];
        }
        SYNC();
        root = sqrt(square / VALUE_DIM + (EPS_OUTSIDE ? 0.0f : EPS));
        factor = 1 / (EPS_OUTSIDE ? root + EPS : root);
        curve = root > 0 ? factor * factor / (root * VALUE_DIM) : 0;
        kept_unrolled for (int k = 0; k < VECTORS; k++)
        {
            int c = begin + k * SPAN;
            if (exists && (VALUE_DIM % SPAN == 0 || c < VALUE_DIM)) {
                vec y = input_of(x, added, d, gates, row, c), cotangent = stream_vec(cotangents, row, c);
                vec weight = weight_of(weights, c), dn = factor_of(gates, row, c) * cotangent;
                vec dx = factor * weight * dn - curve * dot * y;
                if (HAS_WEIGHTS)
                    add_to(dw, part + AT_WEIGHTS, k, factor * dn * y);
                if ((GATED_AFTER || GATED_SIGMOID) && is_given(d_z))
                    leave_row(cotangent * factor * y * weight * factor_slope(stream_vec(gates, row, c)), d_z, d_z_at,
                              at, row, c, ADD_Z);
                if (GATED_BEFORE) {
                    vec gate = stream_vec(gates, row, c), inner = stream_vec(x, row, c);
                    if (HAS_D)
                        inner += f32_row(d, c, VALUE_DIM) * stream_vec(added, row, c);
                    if (is_given(d_z))
                        leave_row(dx * inner * silu_slope(gate), d_z, d_z_at, at, row, c, ADD_Z);
                    dx *= silu(gate);
                }
                if (HAS_D) {
                    vec more = stream_vec(added, row, c);
                    add_to(dd, part + AT_D, k, dx * more);
                    if (is_given(d_u))
                        leave_row(f32_row(d, c, VALUE_DIM) * dx, d_u, d_u_at, at, row, c, ADD_U);
                }
                if (is_given(d_v))
                    leave_row(dx, d_v, d_v_at, at, row, c, ADD_V);
            }
        }
    }
    vec_unrolled
    for (int k = 0; k < KEPT && IN_REGISTERS; k++) {
        if (HAS_WEIGHTS)
            vec_store(dw[k], part + AT_WEIGHTS + k * SPAN);
        if (HAS_D)
            vec_store(dd[k], part + AT_D + k * SPAN);
    }
}
