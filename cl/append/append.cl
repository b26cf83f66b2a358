/* Copies keys and values of the call's tokens into the cache, at the positions of their queries. One group: one block
 * of tokens of one key head. */
#include "rows.clh"
#include "cache.clh"

/* Elements as bits, because they are copied without rounding. */
typedef uint f32_bits_t;
typedef ushort f16_bits_t, bf16_bits_t;
#define bits_t CAT(DATA, _bits_t)

WORD void rows_append(global bits_t *to, long4 to_at, global const bits_t *from, long4 from_at, list_t list, int width)
{
    int before = max(-list.position, 0); /* rows before the first key */

    to += at_row(to_at, list.rows.at.batch, list.first + list.position, list.kv_head);
    from += at_row(from_at, list.rows.at.batch, list.rows.at.first + list.rows.row, list.kv_head);
    for_each(task, max(list.rows.count - before, 0) * width) {
        int i = before + task / width, n = task % width;
        to[i * to_at.z + n] = from[i * from_at.z + n];
    }
}

/* clang-format off */
#define TENSORS(X) \
    X(global bits_t, k) X(global bits_t, v) X(global const bits_t, k_new) X(global const bits_t, v_new) \
    X(global const int, cu)
#define OPTIONALS(X) \
    X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
append(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int kv_len, int window, int given)
{
    TENSORS(ABSENT)
    chunk_t chunk = chunk_of_slot(get_group_id(0), get_group_id(1) * KV_GROUP, sequences, seq_len, cu, cu_at);
    list_t list = list_of(chunk, cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given));

    rows_append(k, k_at, k_new, k_new_at, list, KEY_DIM);
    rows_append(v, v_at, v_new, v_new_at, list, VALUE_DIM);
}
