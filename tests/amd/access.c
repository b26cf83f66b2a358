/* Loads and stores: LDS, global and flat memory, scratch, constants. An address of the device is one of
 * the host. Lanes whose EXEC bit is clear touch nothing. */
#include "interpreter.h"

enum space { SPACE_SHARED, SPACE_GLOBAL, SPACE_FLAT, SPACE_SCRATCH, SPACE_BUFFER };

#define FOR_ACTIVE(lane)                                                                                               \
    for (u64 rest_ = exec_mask(wave), once_ = 1; once_; once_ = 0)                                                     \
        for (int lane; rest_ && (lane = __builtin_ctzll(rest_), 1); rest_ &= rest_ - 1)

/* ---- Addresses ------------------------------------------------------------------------------------------------------- */

static unsigned char *shared_address(struct wave *wave, const struct instruction *in, u32 offset, u32 bytes)
{
    struct group *group = wave->group;
    if (offset <= group->shared_bytes && bytes <= group->shared_bytes - offset)
        return group->shared + offset;
    wave_fault(wave, in, "an access outside of the group's LDS");
    return NULL;
}

static unsigned char *private_address(struct wave *wave, const struct instruction *in, int lane, u32 offset, u32 bytes)
{
    if (offset <= wave->private_bytes && bytes <= wave->private_bytes - offset)
        return wave->private + (size_t)lane * wave->private_bytes + offset;
    wave_fault(wave, in, "an access outside of the work-item's scratch");
    return NULL;
}

static unsigned char *host_address(struct wave *wave, const struct instruction *in, int lane, u64 address, u32 bytes)
{
    unsigned char *result;
    uintptr_t plain = (uintptr_t)address;
    if (wave->group->launch->line)
        *wave->group->launch->line = in->line;
    if (address >> 32 == SHARED_APERTURE)
        return shared_address(wave, in, (u32)address, bytes);
    if (address >> 32 == PRIVATE_APERTURE)
        return private_address(wave, in, lane, (u32)address, bytes);
    if (address < 65536 || address >> 48)
        wave_fault(wave, in, "an access to an address that no buffer has");
    memcpy(&result, &plain, sizeof result);
    return wave->state == FAULTED ? NULL : result;
}

/* Where a lane accesses: the operand with its address is number at, a scalar base or offset is the one after the data. */
static unsigned char *lane_address(struct wave *wave, const struct instruction *in, int at, int lane, u32 bytes)
{
    const struct operand *vector = &in->operand[at], *base = &in->operand[in->operands > 2 ? in->operands - 1 : 0];
    u32 low = vector->place == PLACE_OFF ? 0 : lane_read(wave, vector, 0, lane), offset = (u32)in->offset;
    int has_base = in->operands > 2 && base->place != PLACE_OFF;
    switch (in->row->space) {
    case SPACE_SHARED: return shared_address(wave, in, low + offset, bytes);
    case SPACE_SCRATCH:
        return private_address(wave, in, lane, low + offset + (has_base ? (u32)scalar_read(wave, base) : 0), bytes);
    case SPACE_BUFFER: /* a stack in scratch: the scalar counts bytes of the whole wave */
        return private_address(wave, in, lane,
                               (in->offen ? low : 0) + offset + (u32)scalar_read(wave, base) / (u32)wave->lanes, bytes);
    default: break;
    }
    u64 address = (u64)(i64)in->offset;
    if (in->row->space == SPACE_GLOBAL && has_base)
        address += scalar_read(wave, base) + low;
    else
        address += low | (u64)lane_read(wave, vector, 1, lane) << 32;
    return host_address(wave, in, lane, address, bytes);
}

/* ---- Loads and stores ------------------------------------------------------------------------------------------------ */

/* Of one, two or four bytes into a register. */
static u32 loaded(const struct row *row, const unsigned char *from, u32 old)
{
    u32 value = 0;
    memcpy(&value, from, row->bytes);
    if (row->sign)
        value = (u32)sign_extend(value, row->bytes * 8u);
    if (row->half == 1)
        return (value & 0xffff) | (old & 0xffff0000);
    return row->half == 2 ? value << 16 | (old & 0xffff) : value;
}

/* Whole words, which most accesses are. */
static void load_words(struct wave *wave, const struct instruction *in)
{
    unsigned to = in->operand[0].index, words = in->row->words;
    FOR_ACTIVE(lane)
    {
        const unsigned char *from = lane_address(wave, in, 1, lane, 4u * words);
        if (!from)
            return;
        for (unsigned word = 0; word < words; word++)
            memcpy(&wave->v[to + word][lane], from + 4 * word, sizeof(u32));
    }
}

static void run_load(struct wave *wave, const struct instruction *in)
{
    const struct row *row = in->row;
    unsigned to = in->operand[0].index;
    if (row->bytes == sizeof(u32)) {
        load_words(wave, in);
        return;
    }
    FOR_ACTIVE(lane)
    {
        const unsigned char *from = lane_address(wave, in, 1, lane, row->bytes);
        if (!from)
            return;
        wave->v[to][lane] = loaded(row, from, wave->v[to][lane]);
    }
}

static void run_store(struct wave *wave, const struct instruction *in)
{
    const struct row *row = in->row;
    int buffer = row->space == SPACE_BUFFER;
    const struct operand *data = &in->operand[buffer ? 0 : 1];
    FOR_ACTIVE(lane)
    {
        unsigned char *to = lane_address(wave, in, buffer ? 1 : 0, lane, (u32)row->bytes * row->words);
        u32 narrow = lane_read(wave, data, 0, lane) >> (row->half == 2 ? 16 : 0);
        if (!to)
            return;
        for (unsigned word = 0; word < row->words && row->bytes == sizeof(u32); word++)
            memcpy(to + 4 * word, &wave->v[data->index + word][lane], sizeof(u32));
        if (row->bytes < sizeof(u32))
            memcpy(to, &narrow, row->bytes);
    }
}

/* LDS at two offsets, in units of an element or of 64 of them: half has the units. */
static void run_load_two(struct wave *wave, const struct instruction *in)
{
    u32 bytes = in->row->words * 4u, unit = bytes * in->row->half;
    unsigned to = in->operand[0].index;
    FOR_ACTIVE(lane)
    {
        u32 at = lane_read(wave, &in->operand[1], 0, lane), data[4];
        const unsigned char *first = shared_address(wave, in, at + (u32)in->offset * unit, bytes);
        const unsigned char *second = shared_address(wave, in, at + (u32)in->offset1 * unit, bytes);
        if (!first || !second)
            return;
        memcpy(data, first, bytes);
        memcpy(data + in->row->words, second, bytes);
        for (unsigned word = 0; word < 2u * in->row->words; word++)
            wave->v[to + word][lane] = data[word];
    }
}

static void run_store_two(struct wave *wave, const struct instruction *in)
{
    u32 bytes = in->row->words * 4u, unit = bytes * in->row->half;
    FOR_ACTIVE(lane)
    for (int which = 0; which < 2; which++) {
        u32 at = lane_read(wave, &in->operand[0], 0, lane) + (u32)(which ? in->offset1 : in->offset) * unit;
        unsigned char *to = shared_address(wave, in, at, bytes);
        if (!to)
            return;
        for (int word = 0; word < in->row->words; word++) {
            u32 value = lane_read(wave, &in->operand[1 + which], word, lane);
            memcpy(to + 4 * word, &value, sizeof value);
        }
    }
}

static void run_scalar_load(struct wave *wave, const struct instruction *in)
{
    const struct operand *to = &in->operand[0];
    u64 address = scalar_read(wave, &in->operand[1]) + scalar_read(wave, &in->operand[2]) + (u64)(i64)in->offset;
    const unsigned char *from = host_address(wave, in, 0, address, in->row->bytes * (u32)in->row->words);
    if (!from || to->place != PLACE_SCALAR || to->index == NULL_SCALAR)
        return;
    for (unsigned word = 0; word < in->row->words && to->index + word < SCALARS; word++)
        wave->s[to->index + word] = loaded(in->row, from + 4 * word, 0);
}

/* ---- The table --------------------------------------------------------------------------------------------------------- */

#define ACCESS(mnemonic, function, where, size, count, signs, part)                                                    \
    {.name = mnemonic, .run = function, .space = where, .bytes = size, .words = count, .sign = signs, .half = part},
/* Loads as GFX11 and as GFX9 name them, within prefix "global_load_" and the like. */
#define LOADS(prefix, where)                                                                                           \
    LOAD(prefix "b32", where, 4, 1, 0, 0)                                                                              \
    LOAD(prefix "b64", where, 4, 2, 0, 0)                                                                              \
    LOAD(prefix "b96", where, 4, 3, 0, 0)                                                                              \
    LOAD(prefix "b128", where, 4, 4, 0, 0)                                                                             \
    LOAD(prefix "dword", where, 4, 1, 0, 0)                                                                            \
    LOAD(prefix "dwordx2", where, 4, 2, 0, 0)                                                                          \
    LOAD(prefix "dwordx3", where, 4, 3, 0, 0)                                                                          \
    LOAD(prefix "dwordx4", where, 4, 4, 0, 0)                                                                          \
    LOAD(prefix "u8", where, 1, 1, 0, 0)                                                                               \
    LOAD(prefix "i8", where, 1, 1, 1, 0)                                                                               \
    LOAD(prefix "u16", where, 2, 1, 0, 0)                                                                              \
    LOAD(prefix "i16", where, 2, 1, 1, 0)                                                                              \
    LOAD(prefix "ubyte", where, 1, 1, 0, 0)                                                                            \
    LOAD(prefix "sbyte", where, 1, 1, 1, 0)                                                                            \
    LOAD(prefix "ushort", where, 2, 1, 0, 0)                                                                           \
    LOAD(prefix "sshort", where, 2, 1, 1, 0)                                                                           \
    LOAD(prefix "d16_b16", where, 2, 1, 0, 1)                                                                          \
    LOAD(prefix "d16_hi_b16", where, 2, 1, 0, 2)                                                                       \
    LOAD(prefix "short_d16", where, 2, 1, 0, 1)                                                                        \
    LOAD(prefix "short_d16_hi", where, 2, 1, 0, 2)                                                                     \
    LOAD(prefix "d16_u8", where, 1, 1, 0, 1)                                                                           \
    LOAD(prefix "d16_hi_u8", where, 1, 1, 0, 2)                                                                        \
    LOAD(prefix "ubyte_d16", where, 1, 1, 0, 1)                                                                        \
    LOAD(prefix "ubyte_d16_hi", where, 1, 1, 0, 2)                                                                     \
    LOAD(prefix "u8_d16", where, 1, 1, 0, 1)                                                                           \
    LOAD(prefix "u8_d16_hi", where, 1, 1, 0, 2)                                                                        \
    LOAD(prefix "u16_d16", where, 2, 1, 0, 1)                                                                          \
    LOAD(prefix "u16_d16_hi", where, 2, 1, 0, 2)
#define STORES(prefix, where)                                                                                          \
    STORE(prefix "b32", where, 4, 1, 0)                                                                                \
    STORE(prefix "b64", where, 4, 2, 0)                                                                                \
    STORE(prefix "b96", where, 4, 3, 0)                                                                                \
    STORE(prefix "b128", where, 4, 4, 0)                                                                               \
    STORE(prefix "dword", where, 4, 1, 0)                                                                              \
    STORE(prefix "dwordx2", where, 4, 2, 0)                                                                            \
    STORE(prefix "dwordx3", where, 4, 3, 0)                                                                            \
    STORE(prefix "dwordx4", where, 4, 4, 0)                                                                            \
    STORE(prefix "b8", where, 1, 1, 0)                                                                                 \
    STORE(prefix "b16", where, 2, 1, 0)                                                                                \
    STORE(prefix "byte", where, 1, 1, 0)                                                                               \
    STORE(prefix "short", where, 2, 1, 0)                                                                              \
    STORE(prefix "d16_hi_b8", where, 1, 1, 2)                                                                          \
    STORE(prefix "d16_hi_b16", where, 2, 1, 2)                                                                         \
    STORE(prefix "byte_d16_hi", where, 1, 1, 2)                                                                        \
    STORE(prefix "short_d16_hi", where, 2, 1, 2)                                                                       \
    STORE(prefix "b8_d16_hi", where, 1, 1, 2)                                                                          \
    STORE(prefix "b16_d16_hi", where, 2, 1, 2)
#define LOAD(mnemonic, where, size, count, signs, part) ACCESS(mnemonic, run_load, where, size, count, signs, part)
#define STORE(mnemonic, where, size, count, part) ACCESS(mnemonic, run_store, where, size, count, 0, part)
#define SCALAR_LOAD(mnemonic, size, count, signs) ACCESS(mnemonic, run_scalar_load, 0, size, count, signs, 0)
#define PAIRS(load, store, stride)                                                                                     \
    ACCESS("ds_" load "_b32", run_load_two, SPACE_SHARED, 4, 1, 0, 1)                                                  \
    ACCESS("ds_" load "_b64", run_load_two, SPACE_SHARED, 4, 2, 0, 1)                                                  \
    ACCESS("ds_" load stride "_b32", run_load_two, SPACE_SHARED, 4, 1, 0, 64)                                          \
    ACCESS("ds_" load stride "_b64", run_load_two, SPACE_SHARED, 4, 2, 0, 64)                                          \
    ACCESS("ds_" store "_b32", run_store_two, SPACE_SHARED, 4, 1, 0, 1)                                                \
    ACCESS("ds_" store "_b64", run_store_two, SPACE_SHARED, 4, 2, 0, 1)                                                \
    ACCESS("ds_" store stride "_b32", run_store_two, SPACE_SHARED, 4, 1, 0, 64)                                        \
    ACCESS("ds_" store stride "_b64", run_store_two, SPACE_SHARED, 4, 2, 0, 64)

const struct row memory_rows[] = {
    LOADS("global_load_", SPACE_GLOBAL) LOADS("flat_load_", SPACE_FLAT) LOADS("scratch_load_", SPACE_SCRATCH)
        LOADS("buffer_load_", SPACE_BUFFER) LOADS("ds_load_", SPACE_SHARED) LOADS("ds_read_", SPACE_SHARED) STORES(
            "global_store_", SPACE_GLOBAL) STORES("flat_store_", SPACE_FLAT) STORES("scratch_store_", SPACE_SCRATCH)
            STORES("buffer_store_", SPACE_BUFFER) STORES("ds_store_", SPACE_SHARED) STORES("ds_write_", SPACE_SHARED)
                PAIRS("load_2addr", "store_2addr", "_stride64") PAIRS("read2", "write2", "st64")
                    SCALAR_LOAD("s_load_b32", 4, 1, 0) SCALAR_LOAD("s_load_b64", 4, 2, 0)
                        SCALAR_LOAD("s_load_b96", 4, 3, 0) SCALAR_LOAD("s_load_b128", 4, 4, 0)
                            SCALAR_LOAD("s_load_b256", 4, 8, 0) SCALAR_LOAD("s_load_b512", 4, 16, 0)
                                SCALAR_LOAD("s_load_dword", 4, 1, 0) SCALAR_LOAD("s_load_dwordx2", 4, 2, 0)
                                    SCALAR_LOAD("s_load_dwordx4", 4, 4, 0) SCALAR_LOAD("s_load_dwordx8", 4, 8, 0)
                                        SCALAR_LOAD("s_load_dwordx16", 4, 16, 0) SCALAR_LOAD("s_load_u8", 1, 1, 0)
                                            SCALAR_LOAD("s_load_i8", 1, 1, 1) SCALAR_LOAD("s_load_u16", 2, 1, 0)
                                                SCALAR_LOAD("s_load_i16", 2, 1, 1){0}};
