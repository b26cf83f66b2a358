/* Keys carried on to the end of their span, and what the whole span does to a row, the unit matrix carried as keys are:
 *     K -= (K (T W)ᵀ) W       for each later block of the span
 * One group: one block of keys of one key head; or CHUNK rows of the unit matrix, with the span's first block. The last
 * span has no queries after it. */
/* clang-format off */
#define TENSORS(X) \
    X(global const gate_t, p) X(global const int, cu) X(global float, rows) X(global float, segments)
#define OPTIONALS(X) \
    X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
carry_path(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int kv_len, int window, int given,
           int tail)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(X, LOCAL_QUERIES)
    LOCAL_FLOATS(S, LOCAL_SCORES)
    LOCAL_FLOATS(R, LOCAL_SLICE)
    cache_t cache = cache_of_tail(cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given), tail);
    turn_t turn = turn_of_slot(get_group_id(0), (int)get_group_id(1) * KV_GROUP, sequences, seq_len, cu, cu_at, cache);
    int unit = (int)get_group_id(2) - 1, end = turn_span_end(turn, turn.block);
    global float *to;

    if (turn.block >= turn.blocks || end == turn.blocks || (unit >= 0 && turn.block % SPAN != 0))
        return;
    for_each(task, KP * CP) {
        int n = task / CP, i = task % CP;
        float x = unit >= 0 && n == unit * CHUNK + i ? 1 : 0;
        X[task] = i >= CHUNK ? 0 : unit >= 0 ? x : turn_rows(rows, rows_at, turn, turn.block, TURN_KEYS)[i * KP + n];
    }
    for (int block = turn.block + (unit < 0); block < end; block++) {
        turn_products(S, X, R, turn_rows(rows, rows_at, turn, block, TURN_FACTORS), 0, p_at, turn, block);
        turn_add(X, S, R, 0, p, p_at, turn, block);
    }
    SYNC();
    to = turn_rows(rows, rows_at, turn, turn.block, TURN_CARRIED);
    if (unit >= 0)
        to = turn_H(segments, segments_at, turn, turn.block) + unit * CHUNK * KP;
    for_each(task, CHUNK * KP)
        to[task] = X[task % KP * CP + task / KP];
}
