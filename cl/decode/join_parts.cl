/* Combines the results of the parts of a list of keys. With b_p the decay of part p by the parts after it,
 * m = max(sink, m_p + b_p)      l = e^(sink - m) + Σ_p e^(m_p + b_p - m) l_p      o = Σ_p e^(m_p + b_p - m) O_p / l
 * and lse = m + log l. One group: one block of queries of one head. Lanes that are left over combine other parts, in
 * SHARES. */
#define at_once _Pragma("unroll 8")

/* clang-format off */
#define TENSORS(X) \
    X(global out_t, o) X(global const int, cu) X(global const float, parts)
#define OPTIONALS(X) \
    X(global const float, sink) X(global float, lse)
/* clang-format on */
KERNEL
join_parts(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int given)
{
    TENSORS(ABSENT)
    local float most[LOCAL_PARTS], sums[LOCAL_PARTS], weights[LOCAL_PARTS], O[LOCAL_SHARES];
    int head = get_group_id(1), shared = head / KV_GROUP, tiles = (KV_GROUP + HEADS - 1) / HEADS;
    int tile = head % KV_GROUP / HEADS, lane = head % KV_GROUP % HEADS;
    chunk_t chunk = chunk_of_slot(get_group_id(0), head, sequences, seq_len, cu, cu_at);
    long first = ((long)get_group_id(0) * (get_num_groups(1) / KV_GROUP) * tiles + shared * tiles + tile) * PARTS;
    float extra = given & GIVEN_SINK ? LOG2E * sink[at_row(sink_at, 0, 0, head)] : -INFINITY;

    parts += parts_at.x + first * PART;
    for (int i = 0; i < chunk.count; i++) {
        int r = i * HEADS + lane;
        global const float *sizes = parts + ROWS * VP + r;
        float level = extra, sum = 0;
        SYNC();
        for_each(p, PARTS) {
            most[p] = sizes[p * PART];
            sums[p] = sizes[p * PART + ROWS];
            weights[p] = sizes[p * PART + 2 * ROWS]; /* the decay that a part applies to the parts before it */
        }
        SYNC();
        for_each(p, PARTS)
            for (int after = PARTS - 1; after > p; after--)
                most[p] += weights[after];
        SYNC();
        for (int p = 0; p < PARTS; p++)
            level = fmax(level, most[p]);
        level = level == -INFINITY ? 0 : level;
        for_each(p, PARTS)
            weights[p] = exp2(most[p] - level);
        SYNC();
        for (int p = 0; p < PARTS; p++)
            sum += weights[p] * sums[p];
        sum += exp2(extra - level);
        for_each(task, SHARES * (VP / VEC)) {
            int c = task % (VP / VEC) * VEC;
            vec x = 0;
            at_once for (int p = task / (VP / VEC); p < PARTS; p += SHARES) x +=
                weights[p] * vec_load(parts + p * PART + r * VP + c);
            vec_store(x, O + task * VEC);
        }
        SYNC();
        for_each(task, VP / VEC) {
            vec x = 0;
            for (int share = 0; share < SHARES; share++)
                x += vec_load(O + share * VP + task * VEC);
            if (task * VEC < VALUE_DIM)
                output_put(sum == 0 ? (vec)(0) : x / sum, chunk.at, chunk.row + i, task * VEC);
        }
        if (LANE == 0 && given & GIVEN_LSE)
            lse[at_row(lse_at, chunk.at.batch, chunk.at.first + chunk.row + i, head)] =
                (level + log2(sum)) * (1 / LOG2E);
    }
}
