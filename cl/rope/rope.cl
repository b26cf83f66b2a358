/* Rotates pairs of a row's first ROPE_DIM columns by t base^(-2n/ROPE_DIM), where n is the pair's index and t the
 * token's position; the other columns are copied. The backward pass turns the gradient by o back. One group: CHUNK tokens of SHARE heads, which share the angles. A
 * task handles VEC pairs, or VEC other columns, of RUN tokens. A pair is read before it is written, so o may be in v's memory. */
#include "columns.clh"
#include "turns.clh"

/* Angles are negated, not their sines: of eight of those clang 19 negates the last one alone for gfx90a and gfx942. */
WORD void angles_of(vec *cosines, vec *sines, const ulong *turns, long t)
{
    float halves[VEC];
    vec_unrolled
    for (int i = 0; i < VEC; i++)
        halves[i] = halves_of(turns[i], t) * (ROPE_INVERSE ? -1 : 1);
    *cosines = cospi(CAT(vload, VEC)(0, halves));
    *sines = sinpi(CAT(vload, VEC)(0, halves));
}

/* Columns from c up to end, VEC at most */
WORD void columns_put(vec y, stream_t x, int row, int c, int end)
{
    if (ADDS)
        y += stream_vec(x, row, c);
    if (x.wide)
        stream_put(y, x, row, c);
    else
        output_tail(y, (global out_t *)(x.rows + row * x.step), c, end);
}

/* From interleaved pairs in x and y to their first elements in x and their second ones in y; and back. Element by
 * element, because Oclgrind crashes at halves of vectors. */
WORD void pairs_apart(vec *x, vec *y)
{
    float beside[2 * VEC], apart[2 * VEC];
    vec_store(*x, beside);
    vec_store(*y, beside + VEC);
    vec_unrolled
    for (int i = 0; i < VEC; i++) {
        apart[i] = beside[2 * i];
        apart[VEC + i] = beside[2 * i + 1];
    }
    *x = vec_load(apart);
    *y = vec_load(apart + VEC);
}
WORD void pairs_beside(vec *x, vec *y)
{
    float beside[2 * VEC], apart[2 * VEC];
    vec_store(*x, apart);
    vec_store(*y, apart + VEC);
    vec_unrolled
    for (int i = 0; i < VEC; i++) {
        beside[2 * i] = apart[i];
        beside[2 * i + 1] = apart[VEC + i];
    }
    *x = vec_load(beside);
    *y = vec_load(beside + VEC);
}

/* Rotates pairs from n on. The elements of a pair are HALF columns apart, or adjacent. */
WORD void pairs_turn(stream_t in, stream_t out, int row, int n, vec cosines, vec sines)
{
    int c = INTERLEAVED ? 2 * n : n, next = INTERLEAVED ? c + VEC : c + HALF;
    vec x = stream_vec(in, row, c), y = stream_vec(in, row, next), a = x, b = y;
    if (INTERLEAVED)
        pairs_apart(&a, &b);
    x = a * cosines - b * sines;
    y = b * cosines + a * sines;
    if (INTERLEAVED)
        pairs_beside(&x, &y);
    columns_put(x, out, row, c, INTERLEAVED ? ROPE_DIM : HALF);
    columns_put(y, out, row, next, ROPE_DIM);
}

/* The argument is not modified: Mesa 22.3 passes a function the caller's struct, not a copy. */
static inline stream_t stream_of_head(global const char *x, long4 x_at, place at, int head, int size)
{
    stream_t stream = stream_from(x + at_row(x_at, at.batch, at.first * STEPS, head) * size, x_at.z, VALUE_DIM, size);
    stream.wide = stream.wide && ROPE_DIM % (2 * VEC) == 0;
    return stream;
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, v) X(global out_t, o) X(global const int, position) X(global const int, cu)
/* clang-format on */
KERNEL
rope(TENSORS(PARAMETER) int seq_len, int sequences)
{
    TENSORS(ABSENT)
    chunk_t chunk = chunk_of_slot(get_group_id(0), 0, sequences, seq_len, cu, cu_at);
    int head = get_group_id(1) * SHARE, heads = min(head + SHARE, HEADS);
    long start = HAS_POSITION ? position[position_at.x + chunk.at.sequence] : 0;

    if (o_at.x < 0) /* a gradient that the call does not have */
        return;
    for_each(task, CHUNK / RUN * (TURNS + RESTS)) {
        int e = task % (TURNS + RESTS), n = e * VEC, row = chunk.row + task / (TURNS + RESTS) * RUN;
        int end = min(row + RUN, chunk.row + chunk.count);
        ulong turns[VEC];
        vec_unrolled
        for (int i = 0; i < VEC; i++)
            turns[i] = turn_of(n + i);
        for (; row < end; row++) {
            vec cosines, sines;
            int token = REVERSED ? chunk.at.tokens - 1 - row / STEPS : row / STEPS;
            if (e < TURNS)
                angles_of(&cosines, &sines, turns, start + token);
            for (int h = head; h < heads; h++) {
                stream_t in = stream_of_head((global const char *)v, v_at, chunk.at, h, sizeof(data_t));
                stream_t out = stream_of_head((global const char *)o, o_at, chunk.at, h, sizeof(out_t));
                int c = ROPE_DIM + (e - TURNS) * VEC;
                if (e < TURNS)
                    pairs_turn(in, out, row, n, cosines, sines);
                else
                    columns_put(stream_vec(in, row, c), out, row, c, VALUE_DIM);
            }
        }
    }
}
