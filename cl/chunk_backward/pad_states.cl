/* States as the walks have them, [COLUMNS][K] floats of every sequence, for a span of tokens. Behind the caller's columns
 * are two with the normalizer, if there is one. MODE:
 *
 *     OPEN     the states from which the walk down begins, and the gradients over scale from which the walk up begins:
 *              the caller's, or of a sequence that the span cuts the state that was kept there, and the gradient that
 *              the span after it has left
 *     KEEP     the states at the end of the span, of sequences that go on beyond it
 *     CLOSE    what the walk up ends with: the gradient of the initial state, over scale, or what the span before needs
 *
 * One group: a head of a sequence. `kept` and `carried` have a state for each batch row: of packed sequences, one at most
 * is cut at a place. */
#include "gradient.clh"
#include "padded.clh"

enum { OPEN, KEEP, CLOSE };

/* The sum over the reads of a state of element j of what they ended with */
WORD float reads_total(global const float *ended, place at, int j)
{
    int heads = get_num_groups(1);
    float sum = 0;

    for (int read = 0; read < READS; read++) {
        long head = (long)at.sequence * heads + head_of_read_of(at.head, read, heads / READS);
        sum += ended[head * KEY_DIM * COLUMNS + j];
    }
    return sum;
}

/* clang-format off */
#define TENSORS(X) \
    X(global const int, cu) X(global const int, slots) X(global const float, d_final) X(global float, d_initial) \
    X(global float, begins) X(global float, ends) X(global const float, ended) X(global float, kept) \
    X(global float, carried) X(global const float, initial_z) X(global const float, d_final_z) \
    X(global float, d_initial_z)
#define OPTIONALS(X) \
    X(global const state_t, initial)
/* clang-format on */
KERNEL
pad_states(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, float scale, int states, int first_token,
           int span_tokens)
{
    TENSORS(ABSENT)
    enum { HAS_SLOT = 4 };
    place at = place_with_states(place_of(get_group_id(0), head_of_state(get_group_id(1)), seq_len, cu, cu_at),
                                 states | HAS_SLOT, slots, slots_at);
    long heads = get_num_groups(1), head = get_group_id(1);
    long own = ((long)at.sequence * heads + head) * KEY_DIM * COLUMNS;
    long cut = (at.batch * heads + head) * KEY_DIM * COLUMNS;
    int begin = (int)at.first, end = begin + at.tokens, span_end = first_token + span_tokens;
    int began = begin < first_token && end > first_token, goes_on = begin < span_end && end > span_end;
    int begins_here = begin >= first_token && (begin < span_end || span_end >= seq_len);
    int has = (at.states & HAS_SLOT) != 0, is_first_read = read_of_head(head) == 0;
    global const state_t *from = state_of(initial, at);

    for_each(j, KEY_DIM * COLUMNS) {
        int c = j / KEY_DIM, n = j % KEY_DIM;
        float begins_with = 0, ends_with = 0;
        if (MODE == OPEN && c < VALUE_DIM) {
            if (from != 0)
                begins_with = state_get(from, state_index(n, c));
            if (HAS_d_final && has && is_first_read)
                ends_with = d_final[at_row(d_final_at, at.sequence, 0, at.head) + state_index(n, c)];
        }
        if (MODE == OPEN && NORMALIZED && (c == VALUE_DIM || c == VALUE_DIM + 1)) {
            if (HAS_initial_z && (at.states & HAS_initial))
                begins_with = initial_z[at_row(initial_z_at, at.state, 0, at.head) + n];
            if (HAS_d_final_z && has && is_first_read && c == VALUE_DIM)
                ends_with = d_final_z[at_row(d_final_z_at, at.sequence, 0, at.head) + n];
        }
        if (MODE == OPEN && HAS_begins)
            begins[begins_at.x + own + j] = HAS_kept && began ? kept[kept_at.x + cut + j] : begins_with;
        if (MODE == OPEN && HAS_ends)
            ends[ends_at.x + own + j] = HAS_carried && goes_on ? carried[carried_at.x + cut + j] : ends_with / scale;
        if (MODE == KEEP && goes_on)
            kept[kept_at.x + cut + j] = ended[ended_at.x + own + j];
        if (MODE == CLOSE && HAS_carried && began)
            carried[carried_at.x + cut + j] = ended[ended_at.x + own + j];
        if (MODE == CLOSE && is_given(d_initial) && begins_here && is_first_read && c < VALUE_DIM) {
            global float *to = d_initial + at_row(d_initial_at, at.sequence, 0, at.head) + state_index(n, c);
            *to = (has ? scale * reads_total(ended + ended_at.x, at, j) : 0.0f) + (ADD_STATE ? *to : 0.0f);
        }
        if (MODE == CLOSE && is_given(d_initial_z) && begins_here && is_first_read && c == VALUE_DIM) {
            global float *to = d_initial_z + at_row(d_initial_z_at, at.sequence, 0, at.head) + n;
            float both = reads_total(ended + ended_at.x, at, j) + reads_total(ended + ended_at.x, at, j + KEY_DIM);
            *to = (has ? scale * both : 0.0f) + (ADD_NORMALIZER ? *to : 0.0f);
        }
    }
}
