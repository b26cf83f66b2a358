/* What scan_matrix needs of a chunk where it makes the scores itself and takes the rows as they lie in memory,
 * without norms: factors of the rows, and of the state. A work-item has a row; a group, neighbouring chunks of one
 * head. */
/* clang-format off */
#define TENSORS(X) \
    X(global const gate_t, g) X(global const float, a_log) X(global const float, bias) \
    X(global const strength_t, beta) X(global const int, cu) X(global uint, records)
/* clang-format on */
KERNEL
prepare_factors(TENSORS(PARAMETER) int seq_len, int sequences, float scale)
{
    TENSORS(ABSENT)
    local float logs[LOCAL_LOGS] __attribute__((aligned(16)));
    long slot = (long)get_group_id(0) * (GROUP / CHUNK) + LANE / CHUNK;
    int heads = get_num_groups(1), i = LANE % CHUNK;
    chunk_t chunk = chunk_of_slot(slot, get_group_id(1), sequences, seq_len, cu, cu_at);
    global float *factors = (global float *)(records + records_at.x) + (slot * heads + chunk.at.head) * MATRIX_RECORD;
    float strength;
    float2 sums;

    if (!slot_exists(slot, sequences, seq_len))
        chunk.count = 0;
    logs[LANE] = decay_log(decay_gate((gates_t)GATES_HERE, g, g_at, chunk, i));
    SYNC();
    if (chunk.count <= 0)
        return;
    sums = decay_log_sums(logs + LANE / CHUNK * CHUNK, i);
    strength = write_strength(chunk, i);
    factors[READ_FACTORS + i] = scale * exp2(sums.x);
    factors[WRITE_FACTORS + i] = strength * exp2(sums.y - sums.x);
    factors[SCORE_ROWS_FACTORS + i] = scale;
    factors[SCORE_COLUMNS_FACTORS + i] = strength;
    factors[SCORE_ROWS_LOGS + i] = sums.x;
    factors[SCORE_COLUMNS_LOGS + i] = sums.x;
    if (i < DECAY_FACTORS)
        factors[STATE_FACTORS + i] = exp2(sums.y);
}
