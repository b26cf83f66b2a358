/* write_before_matrix.cl by teams of sub-groups, with the words of flash_team.cl. The group of the first part has the
 * span's own keys, too: for m ahead of its part, and for P, of the m that is then known, behind it. A group has all
 * value columns. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const data_t, p) X(global const data_t, written) X(global const int, cu) \
    X(global float, parts)
/* clang-format on */
KERNEL
write_before_team(TENSORS(PARAMETER) int seq_len, int kv_len, float scale, int first_row)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    local float *norms = (local float *)(tiles + NORMS_AT);
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    int split = get_group_id(2) / BLOCKS, owns = split == 0;
    int first = first_row + (BLOCKS - 1 - get_group_id(2) % BLOCKS) * QUERIES, own_row = LANE / ENGINE_LANES * ACC_ROWS;
    int row = first - first_row + own_row, own_from = first + QUERIES - KEYS, n = 0;
    list_t list = write_list(get_group_id(0), get_group_id(1), first, QUERIES, seq_len, cu, cu_at, kv_len);
    own_t team = rows_from(list, own_row / TEAM_ROWS * TEAM_ROWS, TEAM_ROWS);
    keys_t keys = keys_of(split, first_row, first);
    address_t block = address_of(tiles);
    blocks_t blocks = {tiles, norms + QUERIES, k, written, k_at, written_at, 0};
    global float *part = write_part(parts, parts_at);
    acc_t O[VT];
    chain_t Q[KT];
    weights_t weights[1];

    if (list.rows.count <= 0)
        return;
    if (!is_computing()) {
        team_shrink();
        if (owns)
            n = blocks_move(&blocks, list_down_to(list, first_row), own_from, n);
        n = blocks_move(&blocks, list_down_to(list, keys.first), keys.last, n);
        if (owns)
            blocks_move(&blocks, list_down_to(list, first_row), own_from, n);
        return;
    }
    team_grow();
    queries_get(m, Q, norms, p, p_at, list, own_row, scale);
    weights[0] = weights_begin(m, norms + own_row, scale, (acc_rows_t)(-INFINITY));
    engine_unrolled
    for (int i = 0; i < VT; i++)
        O[i] = 0;
    for (int from = own_from; owns && from >= first_row; n++, from -= KEYS) {
        acc_t S[STEP];

        if (block_scores(m, S, Q, &blocks, list, team, n, from)) {
            scores_mask(engine_again(m), S, list, own_row, from);
            weights_raise(m, weights, S, O);
        }
        values_wait(n);
        values_done(n);
    }
    for (int from = keys.last; from >= keys.first; n++, from -= KEYS) {
        acc_t S[STEP];
        chain_t P[STEP];
        int sees = block_scores(m, S, Q, &blocks, list, team, n, from);

        if (sees) {
            weights_raise(m, weights, S, O);
            weights_of(m, weights, S, P);
        }
        values_wait(n);
        if (sees)
            weights_read(m, O, P, address_plus(block, values_place(n)));
        values_done(n);
    }
    for (int from = own_from; owns && from >= first_row; n++, from -= KEYS) {
        acc_t S[STEP];
        chain_t P[STEP];

        if (block_scores(m, S, Q, &blocks, list, team, n, from)) {
            scores_mask(engine_again(m), S, list, own_row, from);
            weights_of(m, weights, S, P);
            own_leave(engine_again(m), part, P, row, from - first_row);
        }
        values_wait(n);
        values_done(n);
    }
    sums_leave(m, part_most(part, split), weights, row);
    if (owns) { /* the sum is with the part's */
        weights[0].total = 0;
        sums_leave(m, part_most(part, SPLITS), weights, row);
    }
    engine_unrolled
    for (int c = 0; c < VT; c++)
        part_sums(part, split, row / ACC_ROWS, c)[m.lane] = O[c];
}
