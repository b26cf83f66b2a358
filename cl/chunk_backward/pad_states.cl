/* States as the walks have them, [V][K] floats of every sequence: the initial one, from which the walk down the rows
 * begins, and the gradient of the final one over scale, from which the walk up begins. With CLOSE the gradient of the
 * initial state, which is what the walk up ends with, times scale. One group: a head of a sequence. */
#include "padded.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const int, cu) X(global const int, slots) X(global const float, d_final) X(global float, d_initial) \
    X(global float, begins) X(global float, ends) X(global const float, ended)
#define OPTIONALS(X) \
    X(global const state_t, initial)
/* clang-format on */
KERNEL
pad_states(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, float scale, int states)
{
    TENSORS(ABSENT)
    enum { HAS_SLOT = 4 };
    place at = place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states | HAS_SLOT,
                                 slots, slots_at);
    long own = ((long)at.sequence * get_num_groups(1) + at.head) * KEY_DIM * VALUE_DIM;
    int has = (at.states & HAS_SLOT) != 0;
    global const state_t *from = state_of(initial, at);

    for_each(j, KEY_DIM * VALUE_DIM) {
        int c = j / KEY_DIM, n = j % KEY_DIM;
        if (CLOSE && d_initial_at.x >= 0) {
            global float *to = d_initial + at_row(d_initial_at, at.sequence, 0, at.head) + state_index(n, c);
            *to = (has ? scale * ended[ended_at.x + own + j] : 0.0f) + (ADD_STATE ? *to : 0.0f);
        }
        if (!CLOSE && HAS_begins)
            begins[begins_at.x + own + j] = from != 0 ? state_get(from, state_index(n, c)) : 0.0f;
        if (!CLOSE && HAS_ends)
            ends[ends_at.x + own + j] =
                has ? d_final[at_row(d_final_at, at.sequence, 0, at.head) + state_index(n, c)] / scale : 0.0f;
    }
}
