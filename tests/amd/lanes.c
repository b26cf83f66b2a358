/* What passes values between lanes: DPP, permutations, reading and writing single lanes. */
#include "interpreter.h"

/* ---- DPP ------------------------------------------------------------------------------------------------------------- */

static int in_row(int lane, int place)
{
    return place < 0 || place > 15 ? -1 : (lane & ~15) | place;
}

static int in_wave(const struct wave *wave, int lane)
{
    return lane < 0 || lane >= wave->lanes ? -1 : lane;
}

static int dpp_source(const struct wave *wave, const struct instruction *in, int lane)
{
    int by = (int)in->dpp_argument, place = lane & 15, lanes = wave->lanes;
    switch (in->dpp) {
    case DPP_QUAD: return (lane & ~3) | (by >> 2 * (lane & 3) & 3);
    case DPP_8: return (lane & ~7) | (by >> 3 * (lane & 7) & 7);
    case DPP_ROW_SHL: return in_row(lane, place + by);
    case DPP_ROW_SHR: return in_row(lane, place - by);
    case DPP_ROW_ROR: return in_row(lane, (place - by) & 15);
    case DPP_WAVE_SHL: return in_wave(wave, lane + 1);
    case DPP_WAVE_SHR: return in_wave(wave, lane - 1);
    case DPP_WAVE_ROL: return (lane + 1) % lanes;
    case DPP_WAVE_ROR: return (lane + lanes - 1) % lanes;
    case DPP_MIRROR: return in_row(lane, 15 - place);
    case DPP_HALF_MIRROR: return lane ^ 7;
    case DPP_BCAST15: return lane < 16 ? -1 : (lane & ~15) - 1;
    case DPP_BCAST31: return lane < 32 ? -1 : 31;
    case DPP_SHARE:
    case DPP_NEWBCAST: return in_row(lane, by);
    case DPP_XMASK: return lane ^ by;
    default: return lane;
    }
}

int dpp_lane(const struct wave *wave, const struct instruction *in, int lane)
{
    int source = dpp_source(wave, in, lane);
    return source >= 0 && (in->fetch_inactive || (exec_mask(wave) >> source & 1)) ? source : -1;
}

/* ---- Single lanes ---------------------------------------------------------------------------------------------------- */

static void run_readfirstlane(struct wave *wave, const struct instruction *in)
{
    u64 mask = exec_mask(wave);
    scalar_write(wave, &in->operand[0], lane_read(wave, &in->operand[1], 0, mask ? __builtin_ctzll(mask) : 0));
}

static void run_readlane(struct wave *wave, const struct instruction *in)
{
    int lane = (int)(scalar_read(wave, &in->operand[2]) & (u64)(wave->lanes - 1));
    scalar_write(wave, &in->operand[0], lane_read(wave, &in->operand[1], 0, lane));
}

static void run_writelane(struct wave *wave, const struct instruction *in)
{
    int lane = (int)(scalar_read(wave, &in->operand[2]) & (u64)(wave->lanes - 1));
    wave->v[in->operand[0].index][lane] = (u32)scalar_read(wave, &in->operand[1]);
}

/* ---- All lanes ------------------------------------------------------------------------------------------------------- */

static void write_active(struct wave *wave, unsigned index, const u32 *from)
{
    for (int i = 0; i < wave->lanes; i++)
        if (exec_mask(wave) >> i & 1)
            wave->v[index][i] = from[i];
}

/* How many bits of a mask are those of lanes before: in the low or the high word. */
static void count_before(struct wave *wave, const struct instruction *in, int high)
{
    u32 out[LANES];
    for (int i = 0; i < wave->lanes; i++) {
        int below = high ? i - 32 : i;
        u32 mask = below <= 0 ? 0 : below >= 32 ? ~0u : (1u << below) - 1;
        out[i] = lane_read(wave, &in->operand[2], 0, i) +
                 (u32)__builtin_popcount(lane_read(wave, &in->operand[1], 0, i) & mask);
    }
    write_active(wave, in->operand[0].index, out);
}

static void run_mbcnt_lo(struct wave *wave, const struct instruction *in)
{
    count_before(wave, in, 0);
}

static void run_mbcnt_hi(struct wave *wave, const struct instruction *in)
{
    count_before(wave, in, 1);
}

/* Within rows of 16 lanes by 16 selectors of 4 bits; of the other row of two when row->half is 1. */
static void run_permlane16(struct wave *wave, const struct instruction *in)
{
    u64 selectors = (u32)scalar_read(wave, &in->operand[2]) | scalar_read(wave, &in->operand[3]) << 32;
    u32 out[LANES];
    int inactive = in->op_sel & 1, bound = in->op_sel >> 1 & 1;
    for (int i = 0; i < wave->lanes; i++) {
        int from = ((i & ~15) | (int)(selectors >> 4 * (i & 15) & 15)) ^ (in->row->half ? 16 : 0);
        int valid = inactive || (exec_mask(wave) >> from & 1);
        out[i] = valid ? lane_read(wave, &in->operand[1], 0, from) : bound ? 0 : wave->v[in->operand[0].index][i];
    }
    write_active(wave, in->operand[0].index, out);
}

static void run_permlane64(struct wave *wave, const struct instruction *in)
{
    u32 out[LANES];
    if (wave->lanes == 32)
        return;
    for (int i = 0; i < LANES; i++)
        out[i] = lane_read(wave, &in->operand[1], 0, i ^ 32);
    write_active(wave, in->operand[0].index, out);
}

/* Waves of 64 on GFX10 and later have two halves that do not mix. */
static int permuted_lane(const struct wave *wave, int lane, u32 address)
{
    int place = (int)(address / 4);
    return wave->code->generation == 9 ? place & 63 : (lane & 32) | (place & 31);
}

static void run_bpermute(struct wave *wave, const struct instruction *in)
{
    u32 out[LANES];
    for (int i = 0; i < wave->lanes; i++) {
        int from = permuted_lane(wave, i, lane_read(wave, &in->operand[1], 0, i) + (u32)in->offset);
        out[i] = (exec_mask(wave) >> from & 1) ? lane_read(wave, &in->operand[2], 0, from) : 0;
    }
    write_active(wave, in->operand[0].index, out);
}

static void run_permute(struct wave *wave, const struct instruction *in)
{
    u32 out[LANES] = {0};
    for (int i = 0; i < wave->lanes; i++)
        if (exec_mask(wave) >> i & 1)
            out[permuted_lane(wave, i, lane_read(wave, &in->operand[1], 0, i) + (u32)in->offset)] =
                lane_read(wave, &in->operand[2], 0, i);
    write_active(wave, in->operand[0].index, out);
}

static int swizzled_lane(int lane, int pattern)
{
    if (pattern & 0x8000)
        return (lane & ~3) | (pattern >> 2 * (lane & 3) & 3);
    int and_mask = pattern & 31, or_mask = pattern >> 5 & 31, xor_mask = pattern >> 10 & 31;
    return (lane & 32) | (((lane & 31 & and_mask) | or_mask) ^ xor_mask);
}

static void run_swizzle(struct wave *wave, const struct instruction *in)
{
    u32 out[LANES];
    for (int i = 0; i < wave->lanes; i++) {
        int from = swizzled_lane(i, in->swizzle);
        out[i] = (exec_mask(wave) >> from & 1) ? lane_read(wave, &in->operand[1], 0, from) : 0;
    }
    write_active(wave, in->operand[0].index, out);
}

static void run_swap(struct wave *wave, const struct instruction *in)
{
    u32 first[LANES], second[LANES];
    memcpy(first, wave->v[in->operand[0].index], sizeof first);
    memcpy(second, wave->v[in->operand[1].index], sizeof second);
    write_active(wave, in->operand[0].index, second);
    write_active(wave, in->operand[1].index, first);
}

/* A move whose source, or result when row->half is 1, is M0 registers further. */
static void run_movrel(struct wave *wave, const struct instruction *in)
{
    struct operand from = in->operand[1];
    unsigned to = in->operand[0].index;
    u32 out[LANES];
    if (in->row->half)
        to += wave->s[M0];
    else
        from.index = (uint16_t)(from.index + wave->s[M0]);
    if (to >= VECTORS || from.index >= VECTORS) {
        wave_fault(wave, in, "an index beyond the registers");
        return;
    }
    for (int i = 0; i < wave->lanes; i++)
        out[i] = lane_read(wave, &from, 0, i);
    write_active(wave, to, out);
}

/* The low word from the first operand, the high one from the second, each of the word that op_sel picks. */
static void run_pk_mov(struct wave *wave, const struct instruction *in)
{
    u32 low[LANES], high[LANES];
    for (int i = 0; i < wave->lanes; i++) {
        low[i] = lane_read(wave, &in->operand[1], in->op_sel & 1, i);
        high[i] = lane_read(wave, &in->operand[2], in->op_sel >> 1 & 1, i);
    }
    write_active(wave, in->operand[0].index, low);
    write_active(wave, in->operand[0].index + 1u, high);
}

const struct row lane_rows[] = {{.name = "v_readfirstlane_b32", .run = run_readfirstlane},
                                {.name = "v_readlane_b32", .run = run_readlane},
                                {.name = "v_writelane_b32", .run = run_writelane},
                                {.name = "v_mbcnt_lo_u32_b32", .run = run_mbcnt_lo},
                                {.name = "v_mbcnt_hi_u32_b32", .run = run_mbcnt_hi},
                                {.name = "v_permlane16_b32", .run = run_permlane16},
                                {.name = "v_permlanex16_b32", .run = run_permlane16, .half = 1},
                                {.name = "v_permlane64_b32", .run = run_permlane64},
                                {.name = "v_swap_b32", .run = run_swap},
                                {.name = "v_movrels_b32", .run = run_movrel},
                                {.name = "v_movreld_b32", .run = run_movrel, .half = 1},
                                {.name = "v_pk_mov_b32", .run = run_pk_mov},
                                {.name = "ds_bpermute_b32", .run = run_bpermute},
                                {.name = "ds_permute_b32", .run = run_permute},
                                {.name = "ds_swizzle_b32", .run = run_swizzle},
                                {0}};
