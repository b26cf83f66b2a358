/* Products of matrices of 16 rows and 16 columns: D = A B + C.
 *
 * Lane l has of A the row l % 16, of B and C the column l % 16; l / 16 is its part of the wave. With n elements of A and B a
 * lane, those are the elements k = n part + 0 … n - 1 of its row and column. Of C and D, whose m registers are rows, those
 * are the rows m part + 0 … m - 1. GFX11 is different: each part has all 16 elements, and the rows are 2 i + part. */
#include <math.h>

#include "interpreter.h"

enum { SIDE = 16 };
typedef f32 tile[SIDE][SIDE];

/* One word of an operand; of a constant all words are the same. */
static u32 word_of(const struct wave *wave, const struct operand *operand, int word, int lane)
{
    return lane_read(wave, operand, operand->place == PLACE_VECTOR ? word : 0, lane);
}

/* MI200 takes denormals of 16 bits for zero, and gives none. */
static f32 without_denormals(f32 value, f32 least)
{
    return fabsf(value) < least ? copysignf(0, value) : value;
}

static f32 element(const struct wave *wave, const struct instruction *in, const struct operand *operand, int lane,
                   int at)
{
    int flushes = wave->code->generation == 9 && !wave->code->gfx940;
    if (in->row->result == TYPE_f32)
        return f32_of(word_of(wave, operand, at, lane));
    u32 half = word_of(wave, operand, at / 2, lane) >> (at % 2 ? 16 : 0) & 0xffff;
    f32 value = in->row->result == TYPE_f16 ? f16_of(half) : bf16_of(half);
    return flushes ? without_denormals(value, in->row->result == TYPE_f16 ? 0x1p-14f : 0x1p-126f) : value;
}

/* Rows of A or columns of B: to[k][row or column]. */
static int operand_load(const struct wave *wave, const struct instruction *in, const struct operand *operand, tile to)
{
    int per_lane = operand->words * (in->row->result == TYPE_f32 ? 1 : 2),
        parts = per_lane == SIDE ? 1 : wave->lanes / SIDE;
    for (int lane = 0; lane < parts * SIDE; lane++)
        for (int at = 0; at < per_lane; at++)
            to[per_lane * (lane / SIDE) + at][lane % SIDE] = element(wave, in, operand, lane, at);
    return per_lane * parts;
}

/* Both parts of GFX11's operands are the same. */
static int is_replicated(const struct wave *wave, const struct operand *operand)
{
    for (int word = 0; word < operand->words; word++)
        if (memcmp(wave->v[operand->index + word], wave->v[operand->index + word] + SIDE, SIDE * sizeof(u32)) != 0)
            return 0;
    return 1;
}

static int row_of(const struct wave *wave, int words, int word, int lane)
{
    return wave->code->generation == 11 ? 2 * word + lane / SIDE : words * (lane / SIDE) + word;
}

static void multiply(struct wave *wave, const struct instruction *in)
{
    const struct operand *to = &in->operand[0], *a = &in->operand[1], *b = &in->operand[2], *c = &in->operand[3];
    tile rows, columns, sums;
    int count = operand_load(wave, in, a, rows);
    operand_load(wave, in, b, columns);
    for (int word = 0; word < to->words; word++)
        for (int lane = 0; lane < wave->lanes; lane++)
            sums[row_of(wave, to->words, word, lane)][lane % SIDE] = f32_of(word_of(wave, c, word, lane));
    for (int row = 0; row < SIDE; row++)
        for (int k = 0; k < count; k++)
            for (int column = 0; column < SIDE; column++)
                sums[row][column] = fmaf(rows[k][row], columns[k][column], sums[row][column]);
    for (int word = 0; word < to->words; word++)
        for (int lane = 0; lane < wave->lanes; lane++)
            wave->v[to->index + word][lane] = f32_bits(sums[row_of(wave, to->words, word, lane)][lane % SIDE]);
}

/* Whether lanes are active does not count for MFMA; with WMMA all of them have to be. */
static void run_mfma(struct wave *wave, const struct instruction *in)
{
    if (in->cbsz | in->abid | in->blgp)
        wave_fault(wave, in, "blocks of matrices that are broadcast are not known");
    else
        multiply(wave, in);
}

static void run_wmma(struct wave *wave, const struct instruction *in)
{
    const struct operand *a = &in->operand[1], *b = &in->operand[2];
    if (wave->lanes != 32 || exec_mask(wave) != 0xffffffff || in->neg_lo | in->neg_hi)
        wave_fault(wave, in, "a product of matrices by a wave that is not 32 active lanes, or with negated operands");
    else if (wave->code->generation == 11 && !(is_replicated(wave, a) && is_replicated(wave, b)))
        wave_fault(wave, in, "the halves of a wave have different operands of a product of matrices");
    else
        multiply(wave, in);
}

const struct row matrix_rows[] = {{.name = "v_wmma_f32_16x16x16_f16", .run = run_wmma, .result = TYPE_f16},
                                  {.name = "v_wmma_f32_16x16x16_bf16", .run = run_wmma, .result = TYPE_bf16},
                                  {.name = "v_mfma_f32_16x16x4_f32", .run = run_mfma, .result = TYPE_f32},
                                  {.name = "v_mfma_f32_16x16x4f32", .run = run_mfma, .result = TYPE_f32},
                                  {.name = "v_mfma_f32_16x16x16_f16", .run = run_mfma, .result = TYPE_f16},
                                  {.name = "v_mfma_f32_16x16x16f16", .run = run_mfma, .result = TYPE_f16},
                                  {.name = "v_mfma_f32_16x16x16_bf16", .run = run_mfma, .result = TYPE_bf16},
                                  {.name = "v_mfma_f32_16x16x16bf16_1k", .run = run_mfma, .result = TYPE_bf16},
                                  {0}};
