/* Makes mLSTM's gates safe: m_t = max(f_t + m_{t-1}, i_t), then a log-decay f_t + m_{t-1} - m_t <= 0 and a write
 * strength e^(i_t - m_t) <= 1, for rules without m. One group: one head of one sequence. A lane handles RUN tokens at
 * once. A scan over the lanes gives it m before its first token, because the effect of several tokens on m has the form
 * max(m + add, least), too. */
#include "gate.clh"

#define RUN 8

/* (add, least): for no tokens; for those of `first`, then of `next`; and m after them */
#define NOTHING ((float2)(0, -INFINITY))
WORD float2 then(float2 first, float2 next)
{
    return (float2)(first.x + next.x, fmax(first.y + next.x, next.y));
}
WORD float after(float m, float2 tokens)
{
    return fmax(m + tokens.x, tokens.y);
}

/* The combined tokens of a lane and all lanes before it, in one of two rows of `places` */
WORD local float2 *scan_lanes(local float2 *places, float2 tokens)
{
    local float2 *now = places, *next = places + GROUP;

    now[LANE] = tokens;
    SYNC();
    for (int reach = 1; reach < GROUP; reach *= 2) {
        local float2 *swap = now;
        next[LANE] = LANE < reach ? now[LANE] : then(now[LANE - reach], now[LANE]);
        now = next;
        next = swap;
        SYNC();
    }
    return now;
}

#if !SNAPSHOTS
#undef HAS_snapshots
#define HAS_snapshots 2 /* nothing mentions them */
#endif

/* clang-format off */
#define TENSORS(X) \
    X(global const gate_t, f) X(global const gate_t, i) X(global float, decay) X(global float, strength) \
    X(global float, m) X(global const int, cu) X(global const int, slots) X(global const int, accepted) \
    X(global float, snapshots) X(global float, total)
#define OPTIONALS(X) \
    X(global const float, initial) X(global float, final)
/* clang-format on */
KERNEL
stabilize(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int states)
{
    TENSORS(ABSENT)
    local float2 places[LOCAL_PLACES];
    place at =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    global const float *first = state_of(initial, at);
    float last = first != 0 ? *first : -INFINITY, forgotten = 0; /* the sum of f */

    for (int token = 0; token < at.tokens; token += GROUP * RUN) {
        float forget[RUN], input[RUN], before;
        float2 tokens = NOTHING;
        local float2 *scanned;
        int own = token + LANE * RUN, count = min(at.tokens - own, RUN);

        unrolled
        for (int l = 0; l < RUN; l++) {
            long row = at.first + min(own + l, at.tokens - 1);
            forget[l] = gate_log(gate_get(f, at_row(f_at, at.batch, row, at.head)), 1);
            input[l] = gate_get(i, at_row(i_at, at.batch, row, at.head));
        }
        unrolled
        for (int l = 0; l < RUN; l++)
            if (l < count)
                tokens = then(tokens, (float2)(forget[l], input[l]));
        scanned = scan_lanes(places, tokens);
        before = after(last, LANE > 0 ? scanned[LANE - 1] : NOTHING);
        last = after(last, scanned[GROUP - 1]);
        forgotten += scanned[GROUP - 1].x;
        SYNC();
        unrolled
        for (int l = 0; l < RUN; l++)
            if (l < count) {
                long row = at.first + own + l;
                float now = after(before, (float2)(forget[l], input[l]));
                int empty = now == -INFINITY;
                decay[at_row(decay_at, at.batch, row, at.head)] = empty ? -INFINITY : forget[l] + before - now;
                strength[at_row(strength_at, at.batch, row, at.head)] = empty ? 0 : exp2(LOG2E * (input[l] - now));
                m[at_row(m_at, at.batch, row, at.head)] = now;
#if SNAPSHOTS
                global float *snapshot =
                    snapshot_of(snapshots, snapshots_at, at, snapshot_interval(states), own + l + 1);
                if (snapshot != 0)
                    *snapshot = now;
#endif
                before = now;
            }
    }
    if (LANE == 0 && state_of(final, at) != 0)
        *state_of(final, at) = last;
    if (LANE == 0 && HAS_total)
        total[at_row(total_at, at.sequence, 0, at.head)] = forgotten;
}
