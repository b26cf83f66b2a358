/* The outputs: what tokens read of the tokens of their own piece of CHUNK, by its attention matrix, and the sums of what
 * they read of all levels above.
 *     O = (A o L) X + sums
 * One group: BV value columns of a piece of one head. */
#include "levels.clh"

#define OWN_LEVELS min(LEVELS, OWN_BITS + 1)

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, v) X(global out_t, o) X(global const float, levels) X(global const int, cu) \
    X(global const data_t, attn) X(global const float, sums)
/* clang-format on */
KERNEL
levels_own(TENSORS(PARAMETER) int seq_len, int sequences, int adds)
{
    TENSORS(ABSENT)
    OF_OTHER_WORDS
    LOCAL_FLOATS(A, LOCAL_SCORES)
    LOCAL_FLOATS(X, LOCAL_VALUES)
    LOCAL_FLOATS(O, LOCAL_OUTPUT)
    local float ones[CHUNK];
    chunk_t chunk = chunk_of_slot(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at);
    int c0 = get_group_id(2) * BV;

    if (chunk.count <= 0)
        return;
    for_each(i, CHUNK)
        ones[i] = 1;
    for_each(task, CHUNK * CP) {
        int i = task / CP, j = task % CP;
        long token = chunk.at.first + chunk.row + i;
        A[task] = 0;
        if (j <= i && i < chunk.count)
            A[task] = data_get(attn + at_row(attn_at, chunk.at.batch, token, chunk.at.head), j) *
                      levels[at_row(levels_at, chunk.at.batch, token, chunk.at.head) +
                             min(level_between(i, j), OWN_LEVELS - 1)];
    }
    for_each(task, CHUNK * (BV / VEC)) {
        int i = task / (BV / VEC), c = c0 + task % (BV / VEC) * VEC;
        vec sum = 0;
        if (adds && i < chunk.count && c < VALUE_DIM)
            sum = vec_load(sums + at_row(sums_at, chunk.at.batch, chunk.at.first + chunk.row + i, chunk.at.head) + c);
        vec_store(sum, O + task * VEC);
    }
    SYNC();
    value_rows(X, ones, v, v_at, w, w_at, c0, chunk);
    SYNC();
    mma_lower(O, A, X, BV);
    SYNC();
    output_store(O, c0, chunk);
}
