/* O = Q S, where S is the state after the whole sequence. One group: BV value columns of one chunk of one head. */
#include "tile.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global out_t, o) X(global const float, den) X(global const int, cu)
#define OPTIONALS(X) \
    X(global const state_t, final)
/* clang-format on */
KERNEL
read_state(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, float scale)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(S, LOCAL_STATE)
    LOCAL_FLOATS(R, LOCAL_ROWS)
    LOCAL_FLOATS(O, LOCAL_OUTPUT)
    local float norms[LOCAL_NORMS];
    chunk_t chunk = chunk_of_slot(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at);
    place at = place_with_states(chunk.at, chunk.count > 0 ? HAS_final : 0, 0, (long4)(0)); /* this state is never in a
                                                                                             * pool */
    int c0 = get_group_id(2) * BV;

    state_load(S, state_of(final, at), c0);
    query_norms(norms, q, q_at, chunk);
    tile_zero(O, CHUNK * BV);
    for (int n0 = 0; n0 < KP; n0 += BK) {
        SYNC();
        query_rows(R, norms, q, q_at, n0, chunk, scale);
        SYNC();
        mma_ab(O, R, S + n0 * BV, BV);
    }
    SYNC();
    output_store(O, c0, chunk);
}
