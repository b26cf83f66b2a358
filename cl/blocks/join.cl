/* The states at the ends of a stretch's segments, N_s what segment s added and L_s the decay of a channel across it:
 *     S_s = L_s S_(s-1) + N_s
 * A work-group has a part of the state of one head of one sequence, a work-item one vector of a channel. */
/* clang-format off */
#define TENSORS(X) \
    X(global const int, cu) X(global const int, slots) X(global float, carried) X(global float, segments) \
    X(global const float, segment_decays)
#define OPTIONALS(X) \
    X(global state_t, final)
/* clang-format on */
KERNEL
join(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int states)
{
    TENSORS(ABSENT)
    place at =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    long head = (long)at.sequence * get_num_groups(1) + at.head;
    int element = (get_group_id(2) * GROUP + LANE) * VEC, n = element / VP;
    global float *ends = segments + segments_at.x + head * SEGMENTS * KP * VP + element;
    global const float *decays = segment_decays + segment_decays_at.x + head * SEGMENTS * KP + n;
    vec state;

    if (n < KP) {
        state = vec_given(ends);
        for (int s = 1; s < SEGMENTS; s++) {
            state = decays[s * KP] * state + vec_given(ends + (long)s * KP * VP);
            vec_global(ends + (long)s * KP * VP) = state;
        }
        if (STRETCH > 0)
            vec_global(carried + carried_at.x + head * KP * VP + element) = state;
        state_row_store(state, state_of(final, at), n, element % VP);
    }
}
