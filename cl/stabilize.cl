/* mLSTM's gates made safe: m_t = max(f_t + m_{t-1}, i_t), then a log-decay f_t + m_{t-1} - m_t <= 0 and a write strength
 * e^(i_t - m_t) <= 1, for rules that know nothing of m. One group: one head of one sequence. */
#include "base.clh"

KERNEL
stabilize(global const gate_t *f, long4 f_at, global const gate_t *i, long4 i_at, global float *decay, long4 decay_at,
          global float *strength, long4 strength_at, global float *m, long4 m_at, global const float *initial,
          long4 initial_at, global float *final, long4 final_at, global const int *cu, long4 cu_at, int seq_len, int states)
{
    local float forget[GROUP], input[GROUP], most[GROUP + 1];
    place at = place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at);

    if (LANE == 0)
        most[0] = states & 1 ? initial[at_row(initial_at, at.sequence, 0, at.head)] : -INFINITY;
    for (int token = 0; token < at.tokens; token += GROUP) {
        int own = token + LANE, count = min(at.tokens - token, GROUP);
        long row = at.first + own;

        SYNC();
        if (own < at.tokens) {
            forget[LANE] = gate_get(f, at_row(f_at, at.batch, row, at.head));
            input[LANE] = gate_get(i, at_row(i_at, at.batch, row, at.head));
        }
        SYNC();
        if (LANE == 0)
            for (int t = 0; t < count; t++)
                most[t + 1] = fmax(forget[t] + most[t], input[t]);
        SYNC();
        if (own < at.tokens) {
            float now = most[LANE + 1];
            int empty = now == -INFINITY;
            decay[at_row(decay_at, at.batch, row, at.head)] = empty ? -INFINITY : forget[LANE] + most[LANE] - now;
            strength[at_row(strength_at, at.batch, row, at.head)] = empty ? 0 : exp2(LOG2E * (input[LANE] - now));
            m[at_row(m_at, at.batch, row, at.head)] = now;
        }
        SYNC();
        if (LANE == 0)
            most[0] = most[count];
    }
    if (LANE == 0 && states & 2)
        final[at_row(final_at, at.sequence, 0, at.head)] = most[0];
}
