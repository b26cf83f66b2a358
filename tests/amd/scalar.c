/* Scalar instructions: arithmetic, masks, branches. */
#include <math.h>

#include "interpreter.h"

u64 scalar_read(const struct wave *wave, const struct operand *operand)
{
    const u32 *s = wave->s + operand->index;
    if (operand->place == PLACE_CONSTANT)
        return operand->bits;
    if (operand->place == PLACE_SCC)
        return wave->scc;
    if (operand->place != PLACE_SCALAR || operand->index == NULL_SCALAR)
        return 0;
    return operand->words == 1 ? s[0] : s[0] | (u64)s[1] << 32;
}

void scalar_write(struct wave *wave, const struct operand *operand, u64 value)
{
    if (operand->place != PLACE_SCALAR || operand->index == NULL_SCALAR)
        return;
    wave->s[operand->index] = (u32)value;
    if (operand->words > 1)
        wave->s[operand->index + 1] = (u32)(value >> 32);
}

/* ---- What the table's formulas use ----------------------------------------------------------------------------------- */

static u64 field(u64 value, unsigned at, unsigned width)
{
    return width >= 64 ? value >> at : value >> at & (((u64)1 << width) - 1);
}

static i64 signed_field(i64 value, unsigned at, unsigned width, unsigned all)
{
    i64 shifted = value >> at;
    return width == 0 ? 0 : width >= all ? shifted : sign_extend((u64)shifted, width);
}

static u64 reversed(u64 value)
{
    u64 result = 0;
    for (int i = 0; i < 64; i++)
        result |= (value >> i & 1) << (63 - i);
    return result;
}

static u32 bits_set(u64 value)
{
    return (u32)__builtin_popcountll(value);
}

/* Places of the lowest and, from above, of the highest bit that is set; -1 for none. */
static u32 lowest(u64 value)
{
    return value ? (u32)__builtin_ctzll(value) : ~0u;
}

static u32 highest(u64 value, u32 width)
{
    return value ? (u32)__builtin_clzll(value) - (64 - width) : ~0u;
}

static u64 quads(u64 value)
{
    u64 any = (value | value >> 1 | value >> 2 | value >> 3) & 0x1111111111111111u;
    return any * 15;
}

static i32 i32_from(f32 value)
{
    return isnan(value) ? 0 : value >= 0x1p31f ? INT32_MAX : value <= -0x1p31f ? INT32_MIN : (i32)value;
}

static u32 u32_from(f32 value)
{
    return !(value > 0) ? 0 : value >= 0x1p32f ? UINT32_MAX : (u32)value;
}

static u64 vcc_mask(const struct wave *wave)
{
    return wave->lanes == 32 ? wave->s[VCC] : wave->s[VCC] | (u64)wave->s[VCC + 1] << 32;
}

/* ---- Control ----------------------------------------------------------------------------------------------------------- */

static void jump(struct wave *wave, const struct instruction *in, u64 address)
{
    const struct code *code = wave->code;
    uint32_t at = address >= code->base && address < code->end ? code->at[(address - code->base) / 4] : 0;
    if (at)
        wave->next = at - 1;
    else
        wave_fault(wave, in, "a jump to where no instruction is");
}

static void branch(struct wave *wave, const struct instruction *in)
{
    jump(wave, in, in->address + 4 + (u64)sign_extend(in->operand[0].bits, 16) * 4);
}

/* The address in memory of the instruction that follows. */
static u64 program_counter(const struct wave *wave)
{
    return (u64)(uintptr_t)wave->group->launch->image + wave->code->list[wave->next].address;
}

static void jump_memory(struct wave *wave, const struct instruction *in, u64 address)
{
    jump(wave, in, address - (u64)(uintptr_t)wave->group->launch->image);
}

static void run_s_getpc_b64(struct wave *wave, const struct instruction *in)
{
    scalar_write(wave, &in->operand[0], program_counter(wave));
}

static void run_s_setpc_b64(struct wave *wave, const struct instruction *in)
{
    jump_memory(wave, in, scalar_read(wave, &in->operand[0]));
}

static void run_s_swappc_b64(struct wave *wave, const struct instruction *in)
{
    u64 to = scalar_read(wave, &in->operand[1]);
    scalar_write(wave, &in->operand[0], program_counter(wave));
    jump_memory(wave, in, to);
}

static void run_s_endpgm(struct wave *wave, const struct instruction *in)
{
    (void)in;
    wave->state = ENDED;
}

static void run_s_barrier(struct wave *wave, const struct instruction *in)
{
    (void)in;
    wave->state = AT_BARRIER;
}

static void run_s_barrier_wait(struct wave *wave, const struct instruction *in)
{
    run_s_barrier(wave, in);
}

/* MODE: rounding of f32 in bits 0 and 1, of f16 and f64 in 2 and 3, which denormals stay in bits 4 to 7. */
static void mode_write(struct wave *wave, const struct instruction *in, u32 value, u32 mask)
{
    wave->mode = (wave->mode & ~mask) | (value & mask);
    wave->flush32 = (wave->mode >> 4 & 3) == 0;
    wave->flush16 = (wave->mode >> 6 & 3) == 0;
    if (wave->mode & 15)
        wave_fault(wave, in, "only rounding to nearest even is known");
}

static void setreg(struct wave *wave, const struct instruction *in)
{
    u32 what = (u32)in->operand[0].bits, at = what >> 6 & 31, width = (what >> 11 & 31) + 1;
    u32 mask = (u32)field(~(u64)0, 0, width) << at;
    if ((what & 63) == 1)
        mode_write(wave, in, (u32)scalar_read(wave, &in->operand[1]) << at, mask);
    else
        wave_fault(wave, in, "only the register MODE is known");
}

static void run_s_setreg_b32(struct wave *wave, const struct instruction *in)
{
    setreg(wave, in);
}

static void run_s_setreg_imm32_b32(struct wave *wave, const struct instruction *in)
{
    setreg(wave, in);
}

static void run_s_getreg_b32(struct wave *wave, const struct instruction *in)
{
    u32 what = (u32)in->operand[1].bits;
    if ((what & 63) == 1)
        scalar_write(wave, &in->operand[0], field(wave->mode, what >> 6 & 31, (what >> 11 & 31) + 1));
    else
        wave_fault(wave, in, "only the register MODE is known");
}

static void run_s_denorm_mode(struct wave *wave, const struct instruction *in)
{
    mode_write(wave, in, (u32)in->operand[0].bits << 4, 0xf0);
}

static void run_s_round_mode(struct wave *wave, const struct instruction *in)
{
    mode_write(wave, in, (u32)in->operand[0].bits, 15);
}

/* The next vector instructions find registers further on. */
static void run_s_set_gpr_idx_on(struct wave *wave, const struct instruction *in)
{
    wave->index = (u32)scalar_read(wave, &in->operand[0]) & 255;
    wave->indexed = (u32)in->operand[1].bits;
}

static void run_s_set_gpr_idx_off(struct wave *wave, const struct instruction *in)
{
    (void)in;
    wave->indexed = 0;
}

static void run_nothing(struct wave *wave, const struct instruction *in)
{
    (void)wave;
    (void)in;
}

/* ---- The table ----------------------------------------------------------------------------------------------------------- */

#define RUN(name) static void run_##name(struct wave *wave, const struct instruction *in)
#define SOURCE(type, at) (type) scalar_read(wave, &in->operand[at])
#define OPERATION(name, D, sources, ...)                                                                               \
    RUN(name)                                                                                                          \
    {                                                                                                                  \
        sources;                                                                                                       \
        u32 scc = wave->scc;                                                                                           \
        D d;                                                                                                           \
        __VA_ARGS__;                                                                                                   \
        wave->scc = scc;                                                                                               \
        scalar_write(wave, &in->operand[0], (u64)d);                                                                   \
    }
#define UNARY(name, D, A, ...) OPERATION(name, D, A a = SOURCE(A, 1), __VA_ARGS__)
#define BINARY(name, D, A, B, ...) OPERATION(name, D, A a = SOURCE(A, 1); B b = SOURCE(B, 2), __VA_ARGS__)
#define TERNARY(name, D, A, B, C, ...)                                                                                 \
    OPERATION(name, D, A a = SOURCE(A, 1); B b = SOURCE(B, 2); C c = SOURCE(C, 3), __VA_ARGS__)
#define UPDATE(name, D, A, B, ...) OPERATION(name, D, A a = SOURCE(A, 0); B b = SOURCE(B, 1), __VA_ARGS__)
#define IMMEDIATE(name, D, A, B, ...)                                                                                  \
    OPERATION(name, D, A a = SOURCE(A, 0); B b = (B)sign_extend(in->operand[1].bits, 16), __VA_ARGS__)
#define COMPARE(name, A, B, ...)                                                                                       \
    RUN(name)                                                                                                          \
    {                                                                                                                  \
        A a = SOURCE(A, 0);                                                                                            \
        B b = SOURCE(B, 1);                                                                                            \
        u32 scc;                                                                                                       \
        __VA_ARGS__;                                                                                                   \
        wave->scc = scc;                                                                                               \
    }
/* Of 32 bits in waves of 32 and of 64 bits in waves of 64 */
#define SAVE_EXEC(name, ...)                                                                                           \
    static void save_##name(struct wave *wave, const struct instruction *in, int width)                                \
    {                                                                                                                  \
        u64 exec = wave->s[EXEC] | (width == 64 ? (u64)wave->s[EXEC + 1] << 32 : 0);                                   \
        u64 a = SOURCE(u64, 1), d = __VA_ARGS__;                                                                       \
        scalar_write(wave, &in->operand[0], exec);                                                                     \
        wave->s[EXEC] = (u32)d;                                                                                        \
        if (width == 64)                                                                                               \
            wave->s[EXEC + 1] = (u32)(d >> 32);                                                                        \
        wave->scc = (width == 64 ? d : (u32)d) != 0;                                                                   \
    }                                                                                                                  \
    RUN(name##_b32)                                                                                                    \
    {                                                                                                                  \
        save_##name(wave, in, 32);                                                                                     \
    }                                                                                                                  \
    RUN(name##_b64)                                                                                                    \
    {                                                                                                                  \
        save_##name(wave, in, 64);                                                                                     \
    }
#define BRANCH(name, ...)                                                                                              \
    RUN(name)                                                                                                          \
    {                                                                                                                  \
        if (__VA_ARGS__)                                                                                               \
            branch(wave, in);                                                                                          \
    }
#define CONTROL(name)
#define NOTHING(name)
#include "scalar_table.h"
#undef UNARY
#undef BINARY
#undef TERNARY
#undef UPDATE
#undef IMMEDIATE
#undef COMPARE
#undef SAVE_EXEC
#undef BRANCH
#undef CONTROL
#undef NOTHING

#define CONTROL(mnemonic) {.name = #mnemonic, .run = run_##mnemonic},
#define UNARY(mnemonic, ...) CONTROL(mnemonic)
#define BINARY UNARY
#define TERNARY UNARY
#define UPDATE UNARY
#define IMMEDIATE UNARY
#define COMPARE UNARY
#define BRANCH UNARY
#define SAVE_EXEC(mnemonic, ...) CONTROL(mnemonic##_b32) CONTROL(mnemonic##_b64)
#define NOTHING(mnemonic) {.name = #mnemonic, .run = run_nothing, .flags = NO_OPERANDS},
const struct row scalar_rows[] = {
#include "scalar_table.h"
    {0}};
