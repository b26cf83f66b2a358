/* Queries and keys turned each by itself, over all tokens up to its own, x becomes x H_i … H_1, before flash.cl reads
 * them; W of a block, and what prepare_path and carry_path leave:
 *     own block       X -= (X Wᵀ) T W, of no row a later token's
 *     own span        the same, whole
 *     span before     X = X H
 * One group: one block of keys of one key head, or after these the queries of one head that stand there. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const gate_t, p) X(global const int, cu) \
    X(global float, rows) X(global float, segments) X(global out_t, turned_q) X(global out_t, turned_k)
#define OPTIONALS(X) \
    X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
turn_path(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int kv_len, int window, int given,
          int tail)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(X, LOCAL_QUERIES)
    LOCAL_FLOATS(Y, LOCAL_CROSSED)
    LOCAL_FLOATS(R, LOCAL_SLICE)
    LOCAL_FLOATS(S, LOCAL_SCORES)
    int number = get_group_id(1), queries = number >= KV_HEADS, head = queries ? number - KV_HEADS : number * KV_GROUP;
    cache_t cache = cache_of_tail(cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given), tail);
    turn_t turn = turn_of_slot(get_group_id(0), head, sequences, seq_len, cu, cu_at, cache);
    int block = turn.block, first = turn_from(turn, block);

    if (block >= turn.blocks)
        return;
    if (queries)
        turn_load(X, q + at_row(q_at, turn.list.rows.at.batch, turn.list.rows.at.first, head), q_at.z,
                  first - turn.list.position, turn.list.rows.at.tokens);
    else
        turn_load(X, k + list_row(k_at, turn.list), k_at.z, first, turn.list.keys);
    turn_products(S, X, R, 0, p, p_at, turn, block);
    for (int n0 = 0; n0 < KP; n0 += BK) {
        turn_slice(R, turn_rows(rows, rows_at, turn, block, TURN_FACTORS), n0);
        SYNC();
        turn_add_own(X + n0 * CP, R, 1, RP, S, BK);
        SYNC();
    }
    for (int before = block - 1; before >= 0; before--) {
        if (before / SPAN == block / SPAN) {
            turn_products(S, X, R, 0, p, p_at, turn, before);
            turn_add(X, S, R, turn_rows(rows, rows_at, turn, before, TURN_FACTORS), 0, p_at, turn, before);
        } else if (before % SPAN == 0)
            turn_cross(X, Y, R, turn_H(segments, segments_at, turn, before));
    }
    SYNC();
    if (queries)
        turn_store(X, turned_q, at_row(turned_q_at, turn.list.rows.at.batch, turn.list.rows.at.first, head),
                   turned_q_at.z, first - turn.list.position, turn.list.rows.at.tokens);
    else
        turn_store(X, turned_k, list_row(turned_k_at, turn.list), turned_k_at.z, first, turn.list.keys);
}
