/* The position of every sequence after its last token. It is a kernel of its own, because final_position may be the
 * memory of position, which every group of the kernels before reads. One group: one sequence. */
#include "rows.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const int, cu) X(global const int, slots) X(global const int, position) X(global int, final_position)
#define OPTIONALS(X) \
    X(global const state_t, initial) X(global state_t, final)
/* clang-format on */
KERNEL
levels_position(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int states)
{
    TENSORS(ABSENT)
    place at = place_with_states(place_of(get_group_id(0), 0, seq_len, cu, cu_at), states, slots, slots_at);
    int first = HAS_position && at.states & HAS_initial ? position[position_at.x + at.state] : 0;

    if (LANE == 0 && (at.states & HAS_final))
        final_position[final_position_at.x + at.state] = first + at.tokens;
}
