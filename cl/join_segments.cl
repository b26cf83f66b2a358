/* The states at the ends of a sequence's segments, one after the other:
 *     S_s = D_s S_(s-1) + N_s
 * and the last as the final state. One work-item: one number of the state of one head of one sequence. */
KERNEL
join_segments(global float *segments, long4 segments_at, global const float *decays, long4 decays_at, global float *final,
              long4 final_at, int seq_len, int states)
{
    int heads = get_num_groups(1), i = get_group_id(2) * GROUP + LANE, n = i / VALUE_DIM, c = i % VALUE_DIM;
    place at;
    float S;

    at.sequence = get_group_id(0);
    at.head = get_group_id(1);
    if (i >= KEY_DIM * VALUE_DIM)
        return;
    S = segment_state(at, 0)[i];
    for (int segment = 1; segment < SEGMENTS; segment++) {
        global float *state = segment_state(at, segment) + i;
        S = state_factor(segment_decay(at, segment), n) * S + *state;
        *state = S;
    }
    if (states & HAS_FINAL)
        state_of(final, at)[state_index(n, c)] = S;
}
