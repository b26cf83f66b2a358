/* What the files of the interpreter share: a decoded instruction, a wave, and how operands are read and written.
 *
 * A wave's vector registers are rows of 64 lanes, so that an operation is a loop over lanes that compilers vectorise. */
#ifndef CLATTN_TESTS_AMD_INTERPRETER_H
#define CLATTN_TESTS_AMD_INTERPRETER_H

#include <string.h>

#include "machine.h"

/* Types, as AMD's pseudocode names them; elements of 16 bits are kept in the low half of 32, bit is a lane of a mask. */
typedef uint32_t u32;
typedef int32_t i32;
typedef float f32;
typedef uint64_t u64;
typedef int64_t i64;
typedef double f64;
typedef uint16_t u16;
typedef int16_t i16;
typedef float f16;
typedef float bf16;
typedef uint32_t bit;
enum type {
    TYPE_none,
    TYPE_u32,
    TYPE_i32,
    TYPE_f32,
    TYPE_u64,
    TYPE_i64,
    TYPE_f64,
    TYPE_u16,
    TYPE_i16,
    TYPE_f16,
    TYPE_bf16,
    TYPE_bit
};

enum { LANES = 64, VECTORS = 512 /* 256 and 256 accumulation registers */, SCALARS = 128 };
/* Where the scalar registers with names are kept. */
enum { FLAT_SCRATCH = 102, VCC = 106, TTMP = 108, NULL_SCALAR = 124, M0 = 125, EXEC = 126 };
#define POISON 0x7fa57fa5u /* a signalling NaN as f32, two NaNs as f16 and bf16, a wild index */
/* Addresses whose high word is one of these are LDS and scratch; no address of the host is as high. */
#define SHARED_APERTURE 0x10000u
#define PRIVATE_APERTURE 0x20000u

enum place { PLACE_NONE, PLACE_OFF, PLACE_VECTOR, PLACE_SCALAR, PLACE_SCC, PLACE_CONSTANT };
struct operand {
    uint8_t place, words; /* words: how many registers */
    uint8_t negate, absolute, extend, real;
    uint16_t index;
    uint64_t bits; /* of a constant: sign-extended, or of the double when it is real; the decoder makes its type's */
};

enum { OPERANDS = 7 };
enum dpp {
    DPP_NONE,
    DPP_QUAD,
    DPP_ROW_SHL,
    DPP_ROW_SHR,
    DPP_ROW_ROR,
    DPP_WAVE_SHL,
    DPP_WAVE_SHR,
    DPP_WAVE_ROL,
    DPP_WAVE_ROR,
    DPP_MIRROR,
    DPP_HALF_MIRROR,
    DPP_BCAST15,
    DPP_BCAST31,
    DPP_SHARE,
    DPP_XMASK,
    DPP_8,
    DPP_NEWBCAST
};
enum select { SELECT_DWORD, SELECT_BYTE, SELECT_WORD = SELECT_BYTE + 4 };

struct wave;
struct row;
struct instruction {
    const struct row *row;
    void (*run)(struct wave *wave, const struct instruction *instruction);
    struct operand operand[OPERANDS];
    uint8_t operands, results, advance; /* results: how many operands are written; advance: 2 over a pair's second */
    uint8_t op_sel, op_sel_hi, neg_lo, neg_hi;
    uint8_t clamp, omod, offen, has_op_sel, unknown;
    uint8_t dpp, row_mask, bank_mask, bound, fetch_inactive;
    uint8_t sdwa, dst_sel, dst_unused, src_sel[2];
    uint8_t cbsz, abid, blgp;
    uint32_t dpp_argument;
    int32_t offset, offset1, swizzle;
    uint64_t address;
    const char *line; /* of the text, NUL-terminated */
};

/* A vector operation: all lanes of the sources, results in out, of 32 or 64 bits each by their type. */
struct lanes {
    const void *source[4];
    void *out;
    u32 *carry; /* second result, a mask */
    int count;
    const struct instruction *instruction;
    struct wave *wave;
};
typedef void vector_operation(const struct lanes *lanes);

enum flags {
    ACCUMULATES = 1,   /* the result's register is the last source */
    CARRIES = 2,       /* a second result, a mask */
    PACKED_HALVES = 4, /* on both halves of the operands */
    MIXES = 8,         /* f32 and f16, as op_sel_hi says, which is 0 when it is not written down */
    KEEPS_HIGH = 16,   /* of a result of 16 bits on GFX9, where others clear it */
    NO_OPERANDS = 32,  /* that matter here */
    SATURATES = 64     /* the formula heeds clamp */
};
struct row {
    const char *name;
    void (*run)(struct wave *wave, const struct instruction *instruction);
    vector_operation *operation;
    uint8_t result, source[4], flags;
    uint8_t words, bytes, sign, half; /* of a memory access */
    uint8_t space;
};

struct code {
    char *text;
    struct instruction *list;
    size_t count;
    uint64_t base, end;
    uint32_t *at;   /* index of the instruction at base + 4 i */
    int generation; /* 9 to 12 */
    int gfx940, packed_ids;
};

enum state { RUNS, AT_BARRIER, ENDED, FAULTED };
struct group {
    const struct launch *launch;
    unsigned char *shared;
    uint32_t shared_bytes;
    char *error;
    size_t error_size;
};
struct wave {
    u32 v[VECTORS][LANES];
    u32 s[SCALARS];
    u32 active[LANES]; /* ~0 or 0: of active_of, a copy of EXEC */
    u64 active_of;
    u32 scc, mode;
    u32 indexed, index; /* operands whose registers are index further: sources in bits 0 to 2, the result in 3 */
    int lanes, flush32, flush16; /* denormals are zero */
    size_t next;                 /* instruction */
    enum state state;
    unsigned char *private; /* of lane 0, the others follow at private_bytes each */
    uint32_t private_bytes;
    const struct code *code;
    struct group *group;
};

/* Bits of a value and back. */
static inline u32 f32_bits(f32 value)
{
    u32 bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline f32 f32_of(u32 bits)
{
    f32 value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline u64 f64_bits(f64 value)
{
    u64 bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline f64 f64_of(u64 bits)
{
    f64 value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline i32 signed32(u32 bits)
{
    i32 value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline i64 signed64(u64 bits)
{
    i64 value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline i64 sign_extend(u64 bits, unsigned width)
{
    u64 sign = (u64)1 << (width - 1);
    return signed64(((bits & (sign * 2 - 1)) ^ sign) - sign);
}
static inline f32 f16_of(u32 bits)
{
    u32 magnitude = (bits & 0x7fff) << 13;
    u32 finite = f32_bits(f32_of(magnitude) * 0x1p112f);
    return f32_of((magnitude >= 0x0f800000 ? magnitude | 0x7f800000 : finite) | (bits & 0x8000) << 16);
}
/* Rounds to nearest even. */
static inline u32 f16_bits(f32 value)
{
    u32 bits = f32_bits(value), magnitude = bits & 0x7fffffff;
    u32 normal = (magnitude + 0xc8000fff + (magnitude >> 13 & 1)) >> 13;
    u32 small = f32_bits(f32_of(magnitude) + 0.5f) - 0x3f000000;
    u32 large = magnitude > 0x7f800000 ? 0x7e00 | (magnitude >> 13 & 0x3ff) : 0x7c00;
    u32 finite = magnitude < 0x38800000 ? small : normal;
    return (magnitude >= 0x477ff000 ? large : finite) | (bits >> 16 & 0x8000);
}
static inline f32 bf16_of(u32 bits)
{
    return f32_of(bits << 16);
}
static inline u32 bf16_bits(f32 value)
{
    u32 bits = f32_bits(value);
    u32 rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded;
}

/* Transcendental operations of f32 take denormals for zero, and give zero for them. */
static inline u32 flushed32(u32 bits)
{
    return (bits & 0x7f800000) ? bits : bits & 0x80000000;
}
static inline f32 normal(f32 value)
{
    return f32_of(flushed32(f32_bits(value)));
}

/* The less and the greater of two numbers, where -0 is less than +0; of a number and a NaN the number. */
static inline int is_less(f64 a, f64 b)
{
    return a < b || (a == b && f64_bits(a) >> 63 > f64_bits(b) >> 63);
}
static inline f64 lesser(f64 a, f64 b)
{
    return b != b ? a : a != a ? b : is_less(a, b) ? a : b;
}
static inline f64 greater(f64 a, f64 b)
{
    return b != b ? a : a != a ? b : is_less(b, a) ? a : b;
}

static inline int is_wide(unsigned type)
{
    return type == TYPE_u64 || type == TYPE_i64 || type == TYPE_f64;
}
static inline int is_half(unsigned type)
{
    return type == TYPE_u16 || type == TYPE_i16 || type == TYPE_f16 || type == TYPE_bf16;
}

/* Stops the wave: the launch returns an error that tells what and the instruction. */
void wave_fault(struct wave *wave, const struct instruction *instruction, const char *what);

/* scalar.c: a scalar operand of one or two words; constants and SCC, too. */
u64 scalar_read(const struct wave *wave, const struct operand *operand);
void scalar_write(struct wave *wave, const struct operand *operand, u64 value);
static inline u64 exec_mask(const struct wave *wave)
{
    return wave->lanes == 32 ? wave->s[EXEC] : wave->s[EXEC] | (u64)wave->s[EXEC + 1] << 32;
}

/* vector.c. Which half of an operand is read, and its sign, as the instruction says for source k. */
union lane_buffer {
    u32 narrow[LANES];
    u64 wide[LANES];
};
struct reading {
    int high, negate, absolute, select, permuted;
};
/* All lanes of an operand as elements of a type; may point into the registers. */
const void *vector_read(const struct wave *wave, const struct instruction *instruction, const struct operand *operand,
                        unsigned type, struct reading reading, union lane_buffer *buffer);
/* One word of a lane's vector register, or of a scalar. */
u32 lane_read(const struct wave *wave, const struct operand *operand, int word, int lane);
void vector_run(struct wave *wave, const struct instruction *instruction);
void vector_run_pair(struct wave *wave, const struct instruction *instruction);
void vector_run_compare_exec(struct wave *wave, const struct instruction *instruction);
/* Makes the lanes' mask that of EXEC. */
void wave_refresh(struct wave *wave);

/* lanes.c: which lane DPP reads in the place of lane, or -1 for none. */
int dpp_lane(const struct wave *wave, const struct instruction *instruction, int lane);

/* The tables, each of which ends with a row without name. */
extern const struct row scalar_rows[], vector_rows[], lane_rows[], memory_rows[], matrix_rows[];
/* Makes constants those of the row's types, and adds operands that are not written down; 0 when there are too few or
 * too many. */
int vector_decode(struct instruction *instruction);

#endif
