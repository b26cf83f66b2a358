/* The sums that flash_team.cl adds to scores where tokens decay, once for all queries. One group: a unit of keys of a
 * head. */
#include "flash_units.clh"
#include "gate.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const gate_t, g) X(global const int, cu) X(global float, after)
#define OPTIONALS(X) \
    X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
flash_sums(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int kv_len, int window, float scale,
           int given)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(logs, LOCAL_LOGS)
    int head = get_group_id(1);
    list_t list = list_of_key_slot(get_group_id(0), head, sequences, seq_len, cu, cu_at,
                                   cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given & CACHED), UNIT);
    int n = (int)(get_group_id(0) - key_slot(list, kv_len, UNIT));
    int from = (n - 1) * UNIT + (NONCAUSAL ? 0 : (list.position % UNIT + UNIT) % UNIT);
    global float *to = after + after_at.x + sums_place(list, kv_len, from, head);

    if (from >= list.keys)
        return;
    g += at_row(g_at, list.rows.at.batch, list.first, head);
    for_each(j, UNIT) {
        int key = from + j;
        float unit = LOG2E * (TURNED ? scale : 1);
        logs[j] = key >= 0 && key < list.keys ? unit * gate_log(gate_get(g, key * g_at.z), 1) : 0;
        to[UNIT_LOGS + j] = logs[j];
    }
    SYNC();
    for_each(j, UNIT) {
        float in_tile = 0, tiles = 0;
        for (int i = j / 16 * 16 + 15; i > j; i--)
            in_tile += logs[i];
        for (int i = UNIT - 1; i >= j / 16 * 16 + 16; i--)
            tiles += logs[i];
        to[j] = tiles + in_tile;
        to[UNIT_IN_TILES + j] = in_tile;
        if (j == 0)
            to[UNIT_TOTAL] = tiles + (in_tile + logs[0]);
    }
}
