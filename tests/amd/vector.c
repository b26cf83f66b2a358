/* Vector instructions: reading operands with their modifiers, the operation of all lanes, writing the active ones. */
#include <math.h>

#include "interpreter.h"

void wave_refresh(struct wave *wave)
{
    u64 mask = exec_mask(wave);
    if (mask == wave->active_of)
        return;
    for (int i = 0; i < LANES; i++)
        wave->active[i] = (mask >> i & 1) ? ~0u : 0;
    wave->active_of = mask;
}

/* ---- Reading --------------------------------------------------------------------------------------------------------- */

u32 lane_read(const struct wave *wave, const struct operand *operand, int word, int lane)
{
    if (operand->place == PLACE_VECTOR)
        return wave->v[operand->index + word][lane];
    return (u32)(scalar_read(wave, operand) >> 32 * word);
}

static u32 half_of(u32 bits, int high)
{
    return high ? bits >> 16 : bits & 0xffff;
}

static u32 selected(u32 bits, unsigned select, int extend)
{
    if (select == SELECT_DWORD)
        return bits;
    unsigned width = select >= SELECT_WORD ? 16 : 8;
    unsigned at = select >= SELECT_WORD ? (select - SELECT_WORD) * 16 : (select - SELECT_BYTE) * 8;
    u32 value = bits >> at & ((1u << width) - 1);
    return extend ? (u32)sign_extend(value, width) : value;
}

/* Operands of 32 or 16 bits, each lane by itself: what is rare, in the order in which the hardware does it. */
static void read_narrow(const struct wave *wave, const struct instruction *in, const struct operand *operand,
                        unsigned type, struct reading reading, u32 *out)
{
    u32 sign = is_half(type) ? 0x8000 : 0x80000000;
    for (int i = 0; i < wave->lanes; i++) {
        int lane = reading.permuted ? dpp_lane(wave, in, i) : i;
        u32 bits = lane < 0 ? 0 : lane_read(wave, operand, reading.high && !is_half(type), lane);
        bits = selected(bits, (unsigned)reading.select, operand->extend);
        bits = is_half(type) ? half_of(bits, reading.high) : bits;
        bits = reading.absolute ? bits & ~sign : bits;
        bits = reading.negate ? bits ^ sign : bits;
        out[i] = wave->flush32 && type == TYPE_f32 ? flushed32(bits) : bits;
    }
}

static void read_wide(const struct wave *wave, const struct instruction *in, const struct operand *operand,
                      struct reading reading, u64 *out)
{
    for (int i = 0; i < wave->lanes; i++) {
        int lane = reading.permuted ? dpp_lane(wave, in, i) : i;
        u64 bits = lane < 0 ? 0 : lane_read(wave, operand, 0, lane) | (u64)lane_read(wave, operand, 1, lane) << 32;
        bits = reading.absolute ? bits & ~((u64)1 << 63) : bits;
        out[i] = reading.negate ? bits ^ (u64)1 << 63 : bits;
    }
}

static void read_plain(const struct wave *wave, const struct operand *operand, unsigned type, union lane_buffer *buffer)
{
    u32 *narrow = buffer->narrow;
    u64 *wide = buffer->wide;
    if (type == TYPE_bit) {
        u64 mask = scalar_read(wave, operand);
        for (int i = 0; i < wave->lanes; i++)
            narrow[i] = (u32)(mask >> i) & 1;
    } else if (operand->place == PLACE_VECTOR) { /* of 64 bits */
        const u32 *low = wave->v[operand->index], *high = wave->v[operand->index + 1];
        for (int i = 0; i < wave->lanes; i++)
            wide[i] = low[i] | (u64)high[i] << 32;
    } else if (is_wide(type)) {
        u64 value = scalar_read(wave, operand);
        for (int i = 0; i < wave->lanes; i++)
            wide[i] = value;
    } else {
        u32 value = (u32)scalar_read(wave, operand);
        for (int i = 0; i < wave->lanes; i++)
            narrow[i] = value;
    }
}

const void *vector_read(const struct wave *wave, const struct instruction *in, const struct operand *operand,
                        unsigned type, struct reading reading, union lane_buffer *buffer)
{
    int plain =
        !(reading.high | reading.negate | reading.absolute | reading.select | reading.permuted | operand->extend) &&
        !is_half(type) && !(wave->flush32 && type == TYPE_f32);
    if (plain && operand->place == PLACE_VECTOR && !is_wide(type))
        return wave->v[operand->index];
    if (plain || type == TYPE_bit)
        read_plain(wave, operand, type, buffer);
    else if (is_wide(type))
        read_wide(wave, in, operand, reading, buffer->wide);
    else
        read_narrow(wave, in, operand, type, reading, buffer->narrow);
    return buffer;
}

/* How source k is read; pass 1 is the high half of a packed operation. */
static struct reading reading_of(const struct instruction *in, const struct operand *operand, int k, int pass)
{
    struct reading reading = {.negate = operand->negate, .absolute = operand->absolute};
    if (in->row->flags & PACKED_HALVES) {
        reading.high = (pass ? in->op_sel_hi : in->op_sel) >> k & 1;
        reading.negate = (pass ? in->neg_hi : in->neg_lo) >> k & 1;
    } else if (in->has_op_sel) {
        reading.high = in->op_sel >> k & 1;
    }
    reading.select = in->sdwa && k < 2 ? in->src_sel[k] : SELECT_DWORD;
    reading.permuted = in->dpp != DPP_NONE && k == 0;
    return reading;
}

/* ---- Writing --------------------------------------------------------------------------------------------------------- */

static f64 modified(const struct instruction *in, f64 value)
{
    static const f64 factors[] = {1, 2, 4, 0.5};
    value *= factors[in->omod];
    return !in->clamp ? value : value > 0 ? (value < 1 ? value : 1) : 0;
}

/* Output modifiers and denormals that the mode forbids. */
static void results_modify(struct wave *wave, const struct instruction *in, union lane_buffer *out)
{
    u32 *narrow = out->narrow;
    u64 *wide = out->wide;
    unsigned type = in->row->result;
    for (int i = 0; i < wave->lanes; i++) {
        if (type == TYPE_f32) {
            u32 bits = in->clamp | in->omod ? f32_bits((f32)modified(in, (f64)f32_of(narrow[i]))) : narrow[i];
            narrow[i] = wave->flush32 ? flushed32(bits) : bits;
        } else if (type == TYPE_f16) {
            narrow[i] = f16_bits((f32)modified(in, (f64)f16_of(narrow[i])));
        } else if (type == TYPE_f64) {
            wide[i] = f64_bits(modified(in, f64_of(wide[i])));
        }
    }
    if (in->clamp && type != TYPE_f32 && type != TYPE_f16 && type != TYPE_f64 && !(in->row->flags & SATURATES))
        wave_fault(wave, in, "clamp of integers is not known");
}

/* ~0 for the lanes that are written. */
static const u32 *written_lanes(const struct wave *wave, const struct instruction *in, u32 *buffer)
{
    if (in->dpp == DPP_NONE || in->dpp == DPP_8)
        return wave->active;
    for (int i = 0; i < wave->lanes; i++) {
        int enabled = (in->row_mask >> (i / 16) & 1) && (in->bank_mask >> (i / 4 % 4) & 1);
        int valid = in->bound || dpp_lane(wave, in, i) >= 0;
        buffer[i] = enabled && valid ? wave->active[i] : 0;
    }
    return buffer;
}

static void write_row(u32 *restrict to, const u32 *restrict from, const u32 *restrict mask, int count)
{
    for (int i = 0; i < count; i++)
        to[i] = (from[i] & mask[i]) | (to[i] & ~mask[i]);
}

static void write_wide(struct wave *wave, unsigned index, const u64 *from, const u32 *mask)
{
    u32 low[LANES], high[LANES];
    for (int i = 0; i < wave->lanes; i++) {
        low[i] = (u32)from[i];
        high[i] = (u32)(from[i] >> 32);
    }
    write_row(wave->v[index], low, mask, wave->lanes);
    write_row(wave->v[index + 1], high, mask, wave->lanes);
}

/* A result of 16 bits, or one that SDWA places, within what the register held. */
static void merge(const struct wave *wave, const struct instruction *in, u32 *out, int sources)
{
    const u32 *old = wave->v[in->operand[0].index];
    int high = in->has_op_sel && (in->op_sel >> sources & 1) && !(in->row->flags & PACKED_HALVES);
    int keep = wave->code->generation >= 10 || in->has_op_sel || (in->row->flags & KEEPS_HIGH);
    for (int i = 0; i < wave->lanes; i++) {
        if (in->sdwa && in->dst_sel != SELECT_DWORD) {
            int width = in->dst_sel >= SELECT_WORD ? 16 : 8;
            int at = in->dst_sel >= SELECT_WORD ? (in->dst_sel - SELECT_WORD) * 16 : (in->dst_sel - SELECT_BYTE) * 8;
            u32 mask = ((1u << width) - 1) << at, value = out[i] << at & mask;
            u32 extended =
                at + width < 32 && in->dst_unused == 1 && (value >> (at + width - 1) & 1) ? ~0u << (at + width) : 0;
            out[i] = value | (in->dst_unused == 2 ? old[i] & ~mask : extended);
        } else if (is_half(in->row->result) && !in->sdwa) {
            out[i] = high ? out[i] << 16 | (old[i] & 0xffff) : out[i] | (keep ? old[i] & 0xffff0000 : 0);
        }
    }
}

static u64 pack_mask(const struct wave *wave, const u32 *bits)
{
    u64 mask = 0;
    for (int i = 0; i < wave->lanes; i++)
        mask |= (u64)(bits[i] & 1) << i;
    return mask & exec_mask(wave);
}

static int source_count(const struct row *row)
{
    int count = 0;
    while (count < 4 && row->source[count])
        count++;
    return count;
}

static void results_write(struct wave *wave, const struct instruction *in, union lane_buffer *out, const u32 *carry)
{
    const struct operand *to = &in->operand[0];
    unsigned type = in->row->result;
    u32 buffer[LANES];
    if (in->row->flags & CARRIES)
        scalar_write(wave, &in->operand[1], pack_mask(wave, carry));
    if (type == TYPE_bit) {
        scalar_write(wave, to, pack_mask(wave, out->narrow));
        return;
    }
    if (to->place != PLACE_VECTOR) {
        wave_fault(wave, in, "a vector result that goes to no vector register");
        return;
    }
    const u32 *mask = written_lanes(wave, in, buffer);
    if (is_wide(type)) {
        write_wide(wave, to->index, out->wide, mask);
        return;
    }
    if (is_half(type) || in->sdwa)
        merge(wave, in, out->narrow, source_count(in->row) - ((in->row->flags & ACCUMULATES) != 0));
    write_row(wave->v[to->index], out->narrow, mask, wave->lanes);
}

/* ---- Running --------------------------------------------------------------------------------------------------------- */

static void compute(struct wave *wave, const struct instruction *in, int pass, union lane_buffer *out, u32 *carry)
{
    const struct row *row = in->row;
    union lane_buffer buffers[4];
    struct lanes lanes = {.out = out, .carry = carry, .count = wave->lanes, .instruction = in, .wave = wave};
    int first = 1 + ((row->flags & CARRIES) != 0);
    for (int k = 0; k < 4 && row->source[k]; k++) {
        int accumulator = (row->flags & ACCUMULATES) && (k == 3 || !row->source[k + 1]);
        const struct operand *operand = &in->operand[accumulator ? 0 : first + k];
        struct reading reading = reading_of(in, operand, accumulator ? 3 : k, pass);
        if (accumulator && !(row->flags & PACKED_HALVES)) /* the half that is written */
            reading = (struct reading){.high = in->has_op_sel && (in->op_sel >> k & 1)};
        lanes.source[k] = vector_read(wave, in, operand, row->source[k], reading, &buffers[k]);
    }
    row->operation(&lanes);
    if (in->clamp | in->omod | (wave->flush32 && row->result == TYPE_f32))
        results_modify(wave, in, out);
}

/* The instruction with its registers where s_set_gpr_idx_on has them. */
static void run_indexed(struct wave *wave, const struct instruction *in)
{
    struct instruction moved = *in;
    u32 indexed = wave->indexed;
    for (int i = 0; i < in->operands; i++)
        if (in->operand[i].place == PLACE_VECTOR && (indexed >> (i == 0 ? 3 : i - 1) & 1))
            moved.operand[i].index = (uint16_t)(in->operand[i].index + wave->index);
    wave->indexed = 0;
    vector_run(wave, &moved);
    wave->indexed = indexed;
}

void vector_run(struct wave *wave, const struct instruction *in)
{
    union lane_buffer out;
    u32 carry[LANES];
    if (wave->indexed) {
        run_indexed(wave, in);
        return;
    }
    wave_refresh(wave);
    compute(wave, in, 0, &out, carry);
    results_write(wave, in, &out, carry);
}

/* Both read before either writes. */
void vector_run_pair(struct wave *wave, const struct instruction *in)
{
    union lane_buffer out[2];
    wave_refresh(wave);
    compute(wave, &in[0], 0, &out[0], NULL);
    compute(wave, &in[1], 0, &out[1], NULL);
    results_write(wave, &in[0], &out[0], NULL);
    results_write(wave, &in[1], &out[1], NULL);
}

/* v_cmpx writes EXEC, on GFX9 and what is written down, too. */
void vector_run_compare_exec(struct wave *wave, const struct instruction *in)
{
    union lane_buffer out;
    wave_refresh(wave);
    compute(wave, in, 0, &out, NULL);
    u64 mask = pack_mask(wave, out.narrow);
    scalar_write(wave, &in->operand[0], mask);
    wave->s[EXEC] = (u32)mask;
    wave->s[EXEC + 1] = (u32)(mask >> 32);
}

/* The operation on both halves of registers, or on both registers of pairs. */
static void run_packed(struct wave *wave, const struct instruction *in)
{
    union lane_buffer low, high;
    u32 *first = low.narrow, *second = high.narrow;
    unsigned index = in->operand[0].index;
    wave_refresh(wave);
    compute(wave, in, 0, &low, NULL);
    compute(wave, in, 1, &high, NULL);
    if (is_half(in->row->result)) {
        for (int i = 0; i < wave->lanes; i++)
            first[i] = (first[i] & 0xffff) | second[i] << 16;
        write_row(wave->v[index], first, wave->active, wave->lanes);
    } else {
        write_row(wave->v[index], first, wave->active, wave->lanes);
        write_row(wave->v[index + 1], second, wave->active, wave->lanes);
    }
}

/* A mix reads its operands by itself, and writes one half. */
static void run_mix(struct wave *wave, const struct instruction *in)
{
    union lane_buffer out;
    unsigned index = in->operand[0].index;
    wave_refresh(wave);
    compute(wave, in, 0, &out, NULL);
    if (in->row->result == TYPE_f16)
        for (int i = 0; i < wave->lanes; i++) {
            u32 old = wave->v[index][i];
            out.narrow[i] = in->row->half ? out.narrow[i] << 16 | (old & 0xffff) : out.narrow[i] | (old & 0xffff0000);
        }
    write_row(wave->v[index], out.narrow, wave->active, wave->lanes);
}

/* ---- Operands that are not written down, and constants of the operation's types ---------------------------------------- */

static void constant_decode(struct operand *operand, unsigned type)
{
    f64 value = f64_of(operand->bits);
    if (operand->place != PLACE_CONSTANT || type == TYPE_bit)
        return;
    if (operand->real)
        operand->bits = type == TYPE_f16 || type == TYPE_u16 || type == TYPE_i16 ? f16_bits((f32)value)
                        : type == TYPE_bf16                                      ? bf16_bits((f32)value)
                        : is_wide(type)                                          ? operand->bits
                                                                                 : f32_bits((f32)value);
    else if (type == TYPE_f64 && operand->bits > 64 && operand->bits < (u64)1 << 32)
        operand->bits <<= 32; /* a literal is the high word */
    else if (type == TYPE_i64 && operand->bits < (u64)1 << 32)
        operand->bits = (u64)sign_extend(operand->bits, 32);
    operand->real = 0;
}

int vector_decode(struct instruction *in)
{
    static const struct operand vcc = {.place = PLACE_SCALAR, .index = VCC, .words = 2};
    static const struct operand exec = {.place = PLACE_SCALAR, .index = EXEC, .words = 2};
    const struct row *row = in->row;
    int first = 1 + ((row->flags & CARRIES) != 0), sources = source_count(row);
    int written = first + sources - ((row->flags & ACCUMULATES) != 0);
    if (in->operands == written - 1 && row->result == TYPE_bit) {
        memmove(in->operand + 1, in->operand, in->operands++ * sizeof(exec));
        in->operand[0] = exec;
    } else if (in->operands == written - 1 && row->source[sources - 1] == TYPE_bit) {
        in->operand[in->operands++] = vcc;
    }
    for (int k = 0; k < sources && first + k < in->operands; k++)
        constant_decode(&in->operand[first + k], row->source[k]);
    for (int k = 0; k < 3 && (row->flags & MIXES); k++)
        constant_decode(&in->operand[1 + k], (in->op_sel_hi >> k & 1) ? TYPE_f16 : TYPE_f32);
    return in->operands == written + ((row->flags & MIXES) ? 3 : 0);
}

/* ---- What the table's formulas use ----------------------------------------------------------------------------------- */

static inline i32 i32_from(f64 value)
{
    return value != value ? 0 : value >= 0x1p31 ? INT32_MAX : value <= -0x1p31 ? INT32_MIN : (i32)value;
}

static inline u32 u32_from(f64 value)
{
    return !(value > 0) ? 0 : value >= 0x1p32 ? UINT32_MAX : (u32)value;
}

static inline u32 u16_from(f32 value)
{
    return !(value > 0) ? 0 : value >= 65535 ? 65535 : (u32)value;
}

static inline i32 i16_from(f32 value)
{
    return value != value ? 0 : value >= 32767 ? 32767 : value <= -32768 ? -32768 : (i32)value;
}

static inline f32 quieted(f32 value)
{
    return f32_of(f32_bits(value) | 0x400000);
}

static inline int is_signalling(f32 value)
{
    return value != value && !(f32_bits(value) & 0x400000);
}
static inline int is_signalling64(f64 value)
{
    return value != value && !(f64_bits(value) >> 51 & 1);
}

/* Until GFX11, a signalling NaN makes a quiet one. */
static inline f32 min_f32(f32 a, f32 b)
{
    return is_signalling(a) ? quieted(a) : is_signalling(b) ? quieted(b) : (f32)lesser((f64)a, (f64)b);
}
static inline f32 max_f32(f32 a, f32 b)
{
    return is_signalling(a) ? quieted(a) : is_signalling(b) ? quieted(b) : (f32)greater((f64)a, (f64)b);
}
static inline f64 min_f64(f64 a, f64 b)
{
    return is_signalling64(a) || is_signalling64(b) ? (f64)NAN : lesser(a, b);
}
static inline f64 max_f64(f64 a, f64 b)
{
    return is_signalling64(a) || is_signalling64(b) ? (f64)NAN : greater(a, b);
}
static inline f64 med3_num(f64 a, f64 b, f64 c)
{
    f64 most = greater(greater(a, b), c);
    if (a != a || b != b || c != c)
        return lesser(lesser(a, b), c);
    return most == a ? greater(b, c) : most == b ? greater(a, c) : greater(a, b);
}
static inline f32 med3_f32(f32 a, f32 b, f32 c)
{
    return a == a && b == b && c == c ? (f32)med3_num((f64)a, (f64)b, (f64)c) : min_f32(min_f32(a, b), c);
}
#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define MOST(a, b) ((a) > (b) ? (a) : (b))
#define MIDDLE(a, b, c) MOST(LEAST(a, b), LEAST(MOST(a, b), c))

/* Halves of magnitudes in [0.5, 1), and the exponents that belong to them. */
static inline int has_exponent(f64 value)
{
    return value == value && value - value == 0 && value != 0;
}
static inline f64 mantissa(f64 value)
{
    int exponent;
    return has_exponent(value) ? frexp(value, &exponent) : value;
}
static inline i32 exponent(f64 value)
{
    int result = 0;
    if (has_exponent(value))
        frexp(value, &result);
    return result;
}
static inline i32 power(i32 exponent)
{
    return exponent > 9999 ? 9999 : exponent < -9999 ? -9999 : exponent;
}

/* A turn is 1. */
static inline f32 sine(f32 turns)
{
    f64 angle = (f64)turns - floor((f64)turns);
    return fabsf(turns) <= 256 ? (f32)sin(angle * 6.283185307179586) : turns - turns;
}
static inline f32 cosine(f32 turns)
{
    f64 angle = (f64)turns - floor((f64)turns);
    return fabsf(turns) <= 256 ? (f32)cos(angle * 6.283185307179586) : turns - turns + 1;
}

static inline u32 class_f32(f32 value)
{
    u32 bits = f32_bits(value), negative = bits >> 31, magnitude = bits & 0x7fffffff;
    return magnitude > 0x7f800000    ? 1u << (magnitude >> 22 & 1)
           : magnitude == 0x7f800000 ? 1u << (negative ? 2 : 9)
           : magnitude >= 0x800000   ? 1u << (negative ? 3 : 8)
           : magnitude               ? 1u << (negative ? 4 : 7)
                                     : 1u << (negative ? 5 : 6);
}
static inline u32 class_f16(f32 value)
{
    u32 bits = f32_bits(value), negative = bits >> 31, denormal = value != 0 && fabsf(value) < 0x1p-14f;
    return denormal ? 1u << (negative ? 4 : 7) : class_f32(value);
}
static inline u32 class_f64(f64 value)
{
    u64 bits = f64_bits(value), magnitude = bits & ~((u64)1 << 63), infinite = (u64)0x7ff << 52;
    u32 negative = (u32)(bits >> 63);
    return magnitude > infinite        ? 1u << (magnitude >> 51 & 1)
           : magnitude == infinite     ? 1u << (negative ? 2 : 9)
           : magnitude >= (u64)1 << 52 ? 1u << (negative ? 3 : 8)
           : magnitude                 ? 1u << (negative ? 4 : 7)
                                       : 1u << (negative ? 5 : 6);
}

/* A division a / b: its operands are scaled, so that no step of Newton's iteration overflows or is denormal. */
static inline int biased32(f32 value)
{
    return (int)(f32_bits(value) >> 23 & 255);
}
static inline int biased64(f64 value)
{
    return (int)(f64_bits(value) >> 52 & 2047);
}
static inline int is_denormal(f64 value, f64 least)
{
    return value != 0 && fabs(value) < least;
}
static inline f32 div_scale_f32(f32 what, f32 denominator, f32 numerator, u32 *scaled)
{
    int is_denominator = what == denominator;
    int tiny_inverse = is_denormal((f64)(1 / denominator), 0x1p-126);
    int tiny_result = is_denormal((f64)(numerator / denominator), 0x1p-126);
    *scaled = 0;
    if (numerator == 0 || denominator == 0)
        return f32_of(0x7fc00000);
    if (biased32(numerator) - biased32(denominator) >= 96 || (tiny_inverse && tiny_result)) {
        *scaled = 1;
        return is_denominator ? ldexpf(what, 64) : what;
    }
    if (is_denormal((f64)denominator, 0x1p-126))
        return ldexpf(what, 64);
    if (tiny_inverse)
        return ldexpf(what, -64);
    if (tiny_result) {
        *scaled = 1;
        return what == numerator ? ldexpf(what, 64) : what;
    }
    return biased32(numerator) <= 23 ? ldexpf(what, 64) : what;
}
static inline f64 div_scale_f64(f64 what, f64 denominator, f64 numerator, u32 *scaled)
{
    int top = biased64(numerator), bottom = biased64(denominator);
    int tiny_inverse = is_denormal(1 / denominator, 0x1p-1022),
        tiny_result = is_denormal(numerator / denominator, 0x1p-1022);
    *scaled = 0;
    if (numerator == 0 || denominator == 0)
        return f64_of(0x7ff8000000000000);
    if (top - bottom >= 768 || (tiny_inverse && tiny_result)) {
        *scaled = 1;
        return what == denominator ? ldexp(what, 128) : what;
    }
    if (is_denormal(denominator, 0x1p-1022))
        return ldexp(what, 128);
    if (tiny_inverse)
        return ldexp(what, -128);
    if (tiny_result) {
        *scaled = 1;
        return what == numerator ? ldexp(what, 128) : what;
    }
    return top <= 53 ? ldexp(what, 128) : what;
}
/* The scale that a quotient has left. */
static inline int unscaled(int numerator, int middle, int scale)
{
    return numerator > middle ? scale : -scale;
}
/* What a quotient is where the operands are not ordinary numbers. */
static inline f64 div_fixup(f64 quotient, f64 denominator, f64 numerator, int underflows)
{
    f64 sign = copysign(1, numerator) * copysign(1, denominator);
    if (numerator != numerator || denominator != denominator)
        return numerator != numerator ? numerator : denominator;
    if ((denominator == 0 && numerator == 0) || (isinf(denominator) && isinf(numerator)))
        return -(f64)NAN;
    if (denominator == 0 || isinf(numerator))
        return sign * (f64)INFINITY;
    if (isinf(denominator) || numerator == 0 || underflows)
        return sign * 0.0;
    return quotient - quotient != 0 ? sign * (f64)INFINITY : copysign(quotient, sign); /* it overflowed on the way */
}

/* Bytes of b, then of a, as c picks them: 0 to 7 a byte, 8 to 11 the sign of an odd one, 12 zero, above it ones. */
static inline u32 perm(u32 a, u32 b, u32 c)
{
    u64 bytes = (u64)a << 32 | b;
    u32 result = 0;
    for (int i = 0; i < 4; i++) {
        u32 pick = c >> 8 * i & 255;
        u32 sign = (bytes >> ((2 * (pick & 3) + 1) * 8 + 7) & 1) ? 255 : 0;
        u32 byte = pick > 12 ? 255 : pick == 12 ? 0 : pick >= 8 ? sign : (u32)(bytes >> 8 * pick) & 255;
        result |= byte << 8 * i;
    }
    return result;
}

static inline u32 low_bits(u32 value, u32 width)
{
    return value & ((1u << width) - 1);
}
static inline u32 reversed32(u32 value)
{
    u32 result = 0;
    for (int i = 0; i < 32; i++)
        result |= (value >> i & 1) << (31 - i);
    return result;
}
static inline u32 half_signed(u32 value)
{
    return (u32)sign_extend(value & 0xffff, 16);
}
/* Of f32, towards zero. */
static inline u32 f16_towards_zero(f32 value)
{
    u32 nearest = f16_bits(value);
    f32 back = f16_of(nearest);
    return value == value && fabsf(back) > fabsf(value) ? nearest - 1 : nearest;
}
/* f64 to f32 so that rounding once more is as rounding once: what is lost makes the last bit odd. */
static inline f32 odd_f32(f64 value)
{
    f32 nearest = (f32)value;
    u32 bits = f32_bits(nearest);
    if ((f64)nearest == value || value != value || isinf(nearest))
        return nearest;
    bits -= fabs((f64)nearest) > fabs(value);
    return f32_of(bits | 1);
}

/* Operand k of a mix is f32, or the half of a register as f16. */
static inline f32 mixed(const struct lanes *x, int k, int i)
{
    const struct instruction *in = x->instruction;
    const struct operand *operand = &in->operand[1 + k];
    u32 bits = lane_read(x->wave, operand, 0, i);
    f32 value = (in->op_sel_hi >> k & 1) ? f16_of(half_of(bits, in->op_sel >> k & 1)) : f32_of(bits);
    value = operand->absolute ? fabsf(value) : value;
    return operand->negate ? -value : value;
}
static inline f32 mix(const struct lanes *x, int i)
{
    return fmaf(mixed(x, 0, i), mixed(x, 1, i), mixed(x, 2, i));
}

/* ---- The table --------------------------------------------------------------------------------------------------------- */

/* Elements of each type, of 32 bits but for those of 64. */
#define ELEMENT(type, raw, from, to)                                                                                   \
    static inline type get_##type(const void *lanes, int i)                                                            \
    {                                                                                                                  \
        raw bits;                                                                                                      \
        memcpy(&bits, (const char *)lanes + (size_t)i * sizeof bits, sizeof bits);                                     \
        return (type)from(bits);                                                                                       \
    }                                                                                                                  \
    static inline void put_##type(void *lanes, int i, type value)                                                      \
    {                                                                                                                  \
        raw bits = (raw)to(value);                                                                                     \
        memcpy((char *)lanes + (size_t)i * sizeof bits, &bits, sizeof bits);                                           \
    }
ELEMENT(u32, u32, , )
ELEMENT(i32, u32, signed32, )
ELEMENT(f32, u32, f32_of, f32_bits)
ELEMENT(u64, u64, , )
ELEMENT(i64, u64, signed64, )
ELEMENT(f64, u64, f64_of, f64_bits)
ELEMENT(u16, u32, , )
ELEMENT(i16, u32, half_signed, (u16))
ELEMENT(f16, u32, f16_of, f16_bits)
ELEMENT(bit, u32, , )

#define GET(type, name, k) type name = get_##type(x->source[k], i)
#define LANE_LOOP(name, D, sources, ...)                                                                               \
    static void name(const struct lanes *x)                                                                            \
    {                                                                                                                  \
        for (int i = 0; i < x->count; i++) {                                                                           \
            sources;                                                                                                   \
            put_##D(x->out, i, (D)(__VA_ARGS__));                                                                      \
        }                                                                                                              \
    }
#define SATURATING(name, formula, beyond, bound)                                                                       \
    LANE_LOOP(op_##name, u32, GET(u32, a, 0); GET(u32, b, 1), x->instruction->clamp && (beyond) ? (bound) : (formula))
#define UNARY(name, D, A, ...) LANE_LOOP(op_##name, D, GET(A, a, 0), __VA_ARGS__)
#define BINARY(name, D, A, B, ...) LANE_LOOP(op_##name, D, GET(A, a, 0); GET(B, b, 1), __VA_ARGS__)
#define TERNARY(name, D, A, B, C, ...) LANE_LOOP(op_##name, D, GET(A, a, 0); GET(B, b, 1); GET(C, c, 2), __VA_ARGS__)
#define TERNARY_HIGH TERNARY
#define UPDATE(name, D, A, B, ...) TERNARY(name, D, A, B, D, __VA_ARGS__)
#define CARRY(name, A, B, C, formula, carries)                                                                         \
    LANE_LOOP(op_##name, u32, GET(A, a, 0); GET(B, b, 1); GET_##C; x->carry[i] = (carries), formula)
#define GET_none
#define GET_bit GET(bit, c, 2)
#define CARRY_WIDE(name, D, A, B, C, formula, carries)                                                                 \
    LANE_LOOP(op_##name, D, GET(A, a, 0); GET(B, b, 1); GET(C, c, 2); x->carry[i] = (carries), formula)
#define DIVISION(name, D, ...) TERNARY(name, D, D, D, D, __VA_ARGS__)
#define FMAS(name, D, ...)                                                                                             \
    LANE_LOOP(op_##name, D, GET(D, a, 0); GET(D, b, 1); GET(D, c, 2); GET(bit, d, 3), __VA_ARGS__)
#define MIX(name, D, high, ...) LANE_LOOP(op_##name, D, (void)0, __VA_ARGS__)
#define PACKED(...)
#define COMPARE(condition, type, ...)                                                                                  \
    LANE_LOOP(compare_##condition##_##type, bit, GET(type, a, 0); GET(type, b, 1), __VA_ARGS__)
#define ORDERED(type)                                                                                                  \
    COMPARE(lt, type, a < b)                                                                                           \
    COMPARE(eq, type, a == b)                                                                                          \
    COMPARE(le, type, a <= b)                                                                                          \
    COMPARE(gt, type, a > b)                                                                                           \
    COMPARE(ge, type, a >= b)
#define UNORDERED(type)                                                                                                \
    COMPARE(lg, type, a<b || a> b)                                                                                     \
    COMPARE(o, type, a == a && b == b)                                                                                 \
    COMPARE(u, type, a != a || b != b)                                                                                 \
    COMPARE(nge, type, !(a >= b))                                                                                      \
    COMPARE(nlg, type, !(a < b || a > b))                                                                              \
    COMPARE(ngt, type, !(a > b))                                                                                       \
    COMPARE(nle, type, !(a <= b))                                                                                      \
    COMPARE(neq, type, !(a == b))                                                                                      \
    COMPARE(nlt, type, !(a < b))
#define INTEGERS(type) COMPARE(ne, type, a != b)
#include "vector_table.h"
#undef SATURATING
#undef UNARY
#undef BINARY
#undef TERNARY
#undef TERNARY_HIGH
#undef UPDATE
#undef CARRY
#undef CARRY_WIDE
#undef DIVISION
#undef FMAS
#undef MIX
#undef PACKED
#undef COMPARE

#define ROW(mnemonic, function, D, A, B, C, E, what)                                                                   \
    {.name = #mnemonic,                                                                                                \
     .run = vector_run,                                                                                                \
     .operation = function,                                                                                            \
     .result = TYPE_##D,                                                                                               \
     .source = {TYPE_##A, TYPE_##B, TYPE_##C, TYPE_##E},                                                               \
     .flags = what},
#define SATURATING(name, ...) ROW(name, op_##name, u32, u32, u32, none, none, SATURATES)
#define UNARY(name, D, A, ...) ROW(name, op_##name, D, A, none, none, none, 0)
#define BINARY(name, D, A, B, ...) ROW(name, op_##name, D, A, B, none, none, 0)
#define TERNARY(name, D, A, B, C, ...) ROW(name, op_##name, D, A, B, C, none, 0)
#define TERNARY_HIGH(name, D, A, B, C, ...) ROW(name, op_##name, D, A, B, C, none, KEEPS_HIGH)
#define UPDATE(name, D, A, B, ...) ROW(name, op_##name, D, A, B, D, none, ACCUMULATES)
#define CARRY(name, A, B, C, ...) ROW(name, op_##name, u32, A, B, C, none, CARRIES)
#define CARRY_WIDE(name, D, A, B, C, ...) ROW(name, op_##name, D, A, B, C, none, CARRIES)
#define DIVISION(name, D, ...) ROW(name, op_##name, D, D, D, D, none, CARRIES)
#define FMAS(name, D, ...) ROW(name, op_##name, D, D, D, D, bit, 0)
#define MIX(mnemonic, D, high, ...)                                                                                    \
    {.name = #mnemonic, .run = run_mix, .operation = op_##mnemonic, .result = TYPE_##D, .half = high, .flags = MIXES},
#define PACKED(mnemonic, other, D, A, B, C)                                                                            \
    {.name = #mnemonic,                                                                                                \
     .run = run_packed,                                                                                                \
     .operation = op_##other,                                                                                          \
     .result = TYPE_##D,                                                                                               \
     .source = {TYPE_##A, TYPE_##B, TYPE_##C},                                                                         \
     .flags = PACKED_HALVES},
#define COMPARE(condition, type, ...)                                                                                  \
    ROW(v_cmp_##condition##_##type, compare_##condition##_##type, bit, type, type, none, none,                         \
        0){.name = "v_cmpx_" #condition "_" #type,                                                                     \
           .run = vector_run_compare_exec,                                                                             \
           .operation = compare_##condition##_##type,                                                                  \
           .result = TYPE_bit,                                                                                         \
           .source = {TYPE_##type, TYPE_##type}},
const struct row vector_rows[] = {
#include "vector_table.h"
    {0}};
