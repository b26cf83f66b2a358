/* The text of llvm-objdump -d, a line an instruction:
 *
 *     v_fma_f32 v22, -v205, |v70|, v22 clamp        // 000000001C00: D613...
 *
 * into instructions whose row is found by the mnemonic. What is not understood is an error when it is executed, as a
 * code object ends in padding that is no code. */
#include <stdio.h>
#include <stdlib.h>

#include "interpreter.h"

static int starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* ---- Rows by name -------------------------------------------------------------------------------------------------- */

struct names {
    const struct row **rows;
    size_t count;
};

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct row *const *)a)->name, (*(const struct row *const *)b)->name);
}

static int names_make(struct names *names)
{
    const struct row *tables[] = {scalar_rows, vector_rows, lane_rows, memory_rows, matrix_rows};
    size_t count = 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct row *row = tables[i]; row->name; row++)
            count++;
    names->rows = malloc(count * sizeof(*names->rows));
    if (!names->rows)
        return -1;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct row *row = tables[i]; row->name; row++)
            names->rows[names->count++] = row;
    qsort(names->rows, names->count, sizeof(*names->rows), by_name);
    return 0;
}

static const struct row *names_find(const struct names *names, const char *name)
{
    struct row key = {.name = name};
    const struct row *pointer = &key;
    const struct row **found = bsearch(&pointer, names->rows, names->count, sizeof(*names->rows), by_name);
    return found ? *found : NULL;
}

/* The same operation in other encodings, and as one of a pair, is one row. */
static const struct row *find_row(const struct names *names, const char *mnemonic, size_t length)
{
    static const char *const encodings[] = {"_e64_dpp", "_e64", "_e32", "_dpp", "_sdwa"};
    char name[64];
    if (length >= sizeof name)
        return NULL;
    memcpy(name, mnemonic, length);
    name[length] = 0;
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++) {
        size_t suffix = strlen(encodings[i]);
        if (length > suffix && strcmp(name + length - suffix, encodings[i]) == 0) {
            name[length - suffix] = 0;
            break;
        }
    }
    if (starts(name, "v_dual_"))
        memmove(name + 2, name + 7, strlen(name + 7) + 1);
    return names_find(names, name);
}

/* ---- Operands -------------------------------------------------------------------------------------------------------- */

static int number(const char *text, const char **end, i64 *value)
{
    int negative = *text == '-';
    const char *digits = text + negative;
    char *stop;
    if (*digits < '0' || *digits > '9')
        return 0;
    u64 magnitude = starts(digits, "0x") ? strtoull(digits + 2, &stop, 16) : strtoull(digits, &stop, 10);
    *value = signed64(negative ? 0 - magnitude : magnitude);
    *end = stop;
    return 1;
}

/* The inline constants that are no integers. */
static int real_constant(const char *text, size_t length, struct operand *operand)
{
    static const struct {
        const char *text;
        f64 value;
    } reals[] = {{"0.5", 0.5}, {"1.0", 1}, {"2.0", 2}, {"4.0", 4}, {"0.15915494", 0.15915494309189532}};
    int negative = *text == '-';
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (starts(text + negative, reals[i].text) && (i == 4 || length == (size_t)negative + 3)) {
            operand->place = PLACE_CONSTANT;
            operand->real = 1;
            operand->bits = f64_bits(negative ? -reals[i].value : reals[i].value);
            return 1;
        }
    return 0;
}

/* v7, v[4:7], and so for other letters: the first register behind base. */
static int registers(const char *text, const char *prefix, enum place place, unsigned base, struct operand *operand)
{
    i64 first, last;
    const char *end;
    if (!starts(text, prefix))
        return 0;
    text += strlen(prefix);
    int range = *text == '[';
    if (!number(text + range, &end, &first))
        return 0;
    last = first;
    if (range && *end == ':' && !number(end + 1, &end, &last))
        return 0;
    if (first < 0 || last < first || last > 255 || base + (u64)last >= (place == PLACE_VECTOR ? VECTORS : SCALARS))
        return 0;
    operand->place = (uint8_t)place;
    operand->index = (uint16_t)(base + (unsigned)first);
    operand->words = (uint8_t)(last - first + 1);
    return 1;
}

static int named(const char *text, size_t length, struct operand *operand)
{
    static const struct {
        const char *name;
        uint16_t index;
        uint8_t words;
    } names[] = {{"vcc", VCC, 2},
                 {"vcc_lo", VCC, 1},
                 {"vcc_hi", VCC + 1, 1},
                 {"exec", EXEC, 2},
                 {"exec_lo", EXEC, 1},
                 {"exec_hi", EXEC + 1, 1},
                 {"m0", M0, 1},
                 {"null", NULL_SCALAR, 1},
                 {"flat_scratch", FLAT_SCRATCH, 2},
                 {"flat_scratch_lo", FLAT_SCRATCH, 1},
                 {"flat_scratch_hi", FLAT_SCRATCH + 1, 1}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].name) == length && starts(text, names[i].name)) {
            operand->place = PLACE_SCALAR;
            operand->index = names[i].index;
            operand->words = names[i].words;
            return 1;
        }
    if (length == 3 && starts(text, "off")) {
        operand->place = PLACE_OFF;
        return 1;
    }
    if (starts(text, "src_scc")) {
        operand->place = PLACE_SCC;
        return 1;
    }
    if (starts(text, "src_shared_base") || starts(text, "src_private_base")) {
        operand->place = PLACE_CONSTANT;
        operand->bits = (u64)(starts(text, "src_shared") ? SHARED_APERTURE : PRIVATE_APERTURE) << 32;
        return 1;
    }
    return 0;
}

/* hwreg(HW_REG_MODE, 4, 2) as its 16 bits. */
static int hardware_register(const char *text, struct operand *operand)
{
    i64 offset = 0, width = 32, id = 0;
    if (!starts(text, "hwreg("))
        return 0;
    const char *comma = strchr(text, ',');
    if (starts(text + 6, "HW_REG_MODE"))
        id = 1;
    if (comma && strncmp(comma, ")", 1)) {
        const char *end = comma;
        number(comma + 1 + (comma[1] == ' '), &end, &offset);
        if (*end == ',')
            number(end + 1 + (end[1] == ' '), &end, &width);
    }
    operand->place = PLACE_CONSTANT;
    operand->bits = (u64)(id | offset << 6 | (width - 1) << 11);
    return 1;
}

/* gpr_idx(SRC0,DST): which operands are indexed. */
static int indexed_operands(const char *text, struct operand *operand)
{
    static const char *const names[] = {"SRC0", "SRC1", "SRC2", "DST"};
    if (!starts(text, "gpr_idx("))
        return 0;
    operand->place = PLACE_CONSTANT;
    for (unsigned i = 0; i < 4; i++)
        operand->bits |= strstr(text, names[i]) ? (u64)1 << i : 0;
    return 1;
}

static int operand_parse(const char *text, size_t length, struct operand *operand)
{
    static const struct {
        const char *open;
        uint8_t close, negate, absolute, extend;
    } wraps[] = {{"neg(", 1, 1, 0, 0}, {"abs(", 1, 0, 1, 0}, {"sext(", 1, 0, 0, 1}, {"|", 1, 0, 1, 0}};
    const char *end;
    i64 value;
    if (length > 1 && *text == '-' && (text[1] < '0' || text[1] > '9')) {
        operand->negate = 1;
        return operand_parse(text + 1, length - 1, operand);
    }
    for (size_t i = 0; i < sizeof wraps / sizeof *wraps; i++)
        if (starts(text, wraps[i].open)) {
            size_t open = strlen(wraps[i].open);
            operand->negate |= wraps[i].negate;
            operand->absolute |= wraps[i].absolute;
            operand->extend |= wraps[i].extend;
            return length > open && operand_parse(text + open, length - open - wraps[i].close, operand);
        }
    if (registers(text, "v", PLACE_VECTOR, 0, operand) || registers(text, "s", PLACE_SCALAR, 0, operand) ||
        registers(text, "a", PLACE_VECTOR, 256, operand) || registers(text, "ttmp", PLACE_SCALAR, TTMP, operand) ||
        real_constant(text, length, operand) || named(text, length, operand) || hardware_register(text, operand) ||
        indexed_operands(text, operand))
        return 1;
    if (!number(text, &end, &value) || (size_t)(end - text) != length)
        return 0;
    operand->place = PLACE_CONSTANT;
    operand->bits = (u64)value;
    return 1;
}

/* ---- Modifiers ------------------------------------------------------------------------------------------------------- */

/* The value of "name:value"; lists such as [0,1,1] as bits, 0xf and 4 as numbers. */
static i64 argument(const char *text)
{
    const char *colon = strchr(text, ':'), *end = colon;
    i64 value = 0;
    if (!colon)
        return 1;
    if (colon[1] != '[') {
        number(colon + 1, &end, &value);
        return value;
    }
    int at_bit = 0;
    for (const char *at = colon + 2; *at && *at != ']'; at++)
        if (*at >= '0' && *at <= '9')
            value |= (i64)(*at - '0') << at_bit++;
    return value;
}

/* [1,0,3,2] as fields of so many bits each. */
static u32 list_argument(const char *text, int width)
{
    u32 value = 0;
    int at = 0;
    for (const char *digit = strchr(text, '['); digit && *digit != ']'; digit++)
        if (*digit >= '0' && *digit <= '9')
            value |= (u32)(*digit - '0') << width * at++;
    return value;
}

static uint8_t selection(const char *text)
{
    const char *name = strchr(text, ':') + 1;
    if (starts(name, "BYTE_"))
        return (uint8_t)(SELECT_BYTE + (name[5] - '0'));
    if (starts(name, "WORD_"))
        return (uint8_t)(SELECT_WORD + (name[5] - '0'));
    return SELECT_DWORD;
}

static int dpp_parse(struct instruction *in, const char *text)
{
    static const struct {
        const char *name;
        enum dpp dpp;
    } names[] = {{"row_shl:", DPP_ROW_SHL},     {"row_shr:", DPP_ROW_SHR},      {"row_ror:", DPP_ROW_ROR},
                 {"wave_shl:", DPP_WAVE_SHL},   {"wave_shr:", DPP_WAVE_SHR},    {"wave_rol:", DPP_WAVE_ROL},
                 {"wave_ror:", DPP_WAVE_ROR},   {"row_mirror", DPP_MIRROR},     {"row_half_mirror", DPP_HALF_MIRROR},
                 {"row_bcast:15", DPP_BCAST15}, {"row_bcast:31", DPP_BCAST31},  {"row_share:", DPP_SHARE},
                 {"row_xmask:", DPP_XMASK},     {"row_newbcast:", DPP_NEWBCAST}};
    if (starts(text, "quad_perm:") || starts(text, "dpp8:")) {
        in->dpp = *text == 'q' ? DPP_QUAD : DPP_8;
        in->dpp_argument = list_argument(text, *text == 'q' ? 2 : 3);
        return 1;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (starts(text, names[i].name)) {
            in->dpp = (uint8_t)names[i].dpp;
            in->dpp_argument = (u32)argument(text);
            return 1;
        }
    return 0;
}

/* ds_swizzle's pattern as its 16 bits. */
static int swizzle_parse(struct instruction *in, const char *text)
{
    if (!starts(text, "offset:swizzle("))
        return 0;
    i64 value[5] = {0};
    int count = 0;
    for (const char *comma = strchr(text, ','); comma && count < 5; comma = strchr(comma + 1, ',')) {
        const char *end;
        if (!number(comma + 1, &end, &value[count++]) && comma[1] == '"') { /* "01pip" */
            int and_mask = 0, or_mask = 0, xor_mask = 0;
            for (int i = 0; i < 5; i++) {
                int place = 16 >> i;
                char letter = comma[2 + i];
                and_mask |= letter == 'p' || letter == 'i' ? place : 0;
                or_mask |= letter == '1' ? place : 0;
                xor_mask |= letter == 'i' ? place : 0;
            }
            in->swizzle = and_mask | or_mask << 5 | xor_mask << 10;
            return 1;
        }
    }
    if (strstr(text, "QUAD_PERM"))
        in->swizzle = 0x8000 | (int)(value[0] | value[1] << 2 | value[2] << 4 | value[3] << 6);
    else if (strstr(text, "SWAP"))
        in->swizzle = 0x1f | (int)value[0] << 10;
    else if (strstr(text, "REVERSE"))
        in->swizzle = 0x1f | (int)(value[0] - 1) << 10;
    else if (strstr(text, "BROADCAST"))
        in->swizzle = (int)(0x20 - value[0]) | (int)value[1] << 5;
    else
        return 0;
    return 1;
}

static int modifier_parse(struct instruction *in, const char *text)
{
    static const char *const ignored[] = {"glc", "slc", "dlc", "sc0", "sc1", "nt", "scc", "th:", "scope:", "nv"};
    if (starts(text, "op_sel:"))
        in->op_sel = (uint8_t)argument(text), in->has_op_sel = 1;
    else if (starts(text, "op_sel_hi:"))
        in->op_sel_hi = (uint8_t)argument(text);
    else if (starts(text, "neg_lo:"))
        in->neg_lo = (uint8_t)argument(text);
    else if (starts(text, "neg_hi:"))
        in->neg_hi = (uint8_t)argument(text);
    else if (starts(text, "clamp"))
        in->clamp = 1;
    else if (starts(text, "mul:"))
        in->omod = argument(text) == 2 ? 1 : 2;
    else if (starts(text, "div:2"))
        in->omod = 3;
    else if (starts(text, "offset0:"))
        in->offset = (int32_t)argument(text);
    else if (starts(text, "offset1:"))
        in->offset1 = (int32_t)argument(text);
    else if (swizzle_parse(in, text) || dpp_parse(in, text))
        return 1;
    else if (starts(text, "offset:"))
        in->offset = (int32_t)argument(text), in->swizzle = in->offset;
    else if (starts(text, "offen"))
        in->offen = 1;
    else if (starts(text, "row_mask:"))
        in->row_mask = (uint8_t)argument(text);
    else if (starts(text, "bank_mask:"))
        in->bank_mask = (uint8_t)argument(text);
    else if (starts(text, "bound_ctrl:"))
        in->bound = 1;
    else if (starts(text, "fi:"))
        in->fetch_inactive = (uint8_t)argument(text);
    else if (starts(text, "dst_sel:"))
        in->sdwa = 1, in->dst_sel = selection(text);
    else if (starts(text, "dst_unused:"))
        in->sdwa = 1, in->dst_unused = strstr(text, "SEXT") ? 1 : strstr(text, "PRESERVE") ? 2 : 0;
    else if (starts(text, "src0_sel:"))
        in->sdwa = 1, in->src_sel[0] = selection(text);
    else if (starts(text, "src1_sel:"))
        in->sdwa = 1, in->src_sel[1] = selection(text);
    else if (starts(text, "cbsz:"))
        in->cbsz = (uint8_t)argument(text);
    else if (starts(text, "abid:"))
        in->abid = (uint8_t)argument(text);
    else if (starts(text, "blgp:"))
        in->blgp = (uint8_t)argument(text);
    else {
        for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
            if (starts(text, ignored[i]))
                return 1;
        return 0;
    }
    return 1;
}

/* ---- Lines ----------------------------------------------------------------------------------------------------------- */

/* The end of what stands before a separator at text, not within brackets. */
static const char *piece_end(const char *text, const char *end, char separator)
{
    int depth = 0;
    for (; text < end; text++) {
        depth += (*text == '[' || *text == '(') - (*text == ']' || *text == ')');
        if (depth == 0 && (*text == separator || *text == ','))
            break;
    }
    return text;
}

static int operands_parse(struct instruction *in, const char *at, const char *end)
{
    int modifiers = 0;
    while (at < end) {
        while (at < end && (*at == ' ' || *at == ','))
            at++;
        const char *stop = piece_end(at, end, ' ');
        char piece[96];
        size_t length = (size_t)(stop - at);
        if (length >= sizeof piece)
            return 0;
        memcpy(piece, at, length);
        piece[length] = 0;
        if (length &&
            (modifiers || in->operands == OPERANDS || !operand_parse(piece, length, &in->operand[in->operands]))) {
            if (!modifier_parse(in, piece))
                return 0;
            modifiers = 1;
        } else if (length) {
            in->operands++;
        }
        at = stop;
    }
    return 1;
}

static void run_unknown(struct wave *wave, const struct instruction *instruction)
{
    wave_fault(wave, instruction, "not an instruction that the interpreter knows");
}

static void instruction_parse(const struct names *names, const char *text, const char *end, struct instruction *in)
{
    static const struct row unknown = {.name = "unknown", .run = run_unknown};
    const char *stop = piece_end(text, end, ' ');
    in->advance = 1;
    in->row_mask = in->bank_mask = 15;
    in->row = find_row(names, text, (size_t)(stop - text));
    in->op_sel_hi = in->row && (in->row->flags & MIXES) ? 0 : 7;
    if (!in->row || (!(in->row->flags & NO_OPERANDS) && !operands_parse(in, stop, end)))
        in->row = &unknown;
    else if (in->row->operation && !vector_decode(in))
        in->row = &unknown;
    for (int i = 0; i < in->operands; i++)
        if (in->operand[i].real && !in->row->operation) {
            in->operand[i].bits =
                in->operand[0].words == 2 ? in->operand[i].bits : f32_bits((f32)f64_of(in->operand[i].bits));
            in->operand[i].real = 0;
        }
    in->run = in->row->run;
}

/* One line, which is one or two instructions; the text behind "//" begins with its address. */
static size_t line_parse(const struct names *names, char *line, struct instruction *in)
{
    char *comment = strstr(line, "//"), *pair = strstr(line, " :: ");
    if (*line != '\t' || !comment)
        return 0;
    char *end = comment;
    while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    u64 address = strtoull(comment + 2, NULL, 16);
    instruction_parse(names, line + 1, pair ? pair : end, &in[0]);
    if (pair) {
        instruction_parse(names, pair + 4, end, &in[1]);
        if (in[0].row->operation && in[1].row->operation) {
            in[0].run = vector_run_pair;
            in[0].advance = 2;
        }
    }
    *end = 0;
    in[0].line = in[1].line = line + 1;
    in[0].address = in[1].address = address;
    return pair ? 2 : 1;
}

static int lines_parse(struct code *code, const struct names *names)
{
    size_t room = 2;
    for (const char *at = code->text; (at = strchr(at, '\n')) != NULL; at++)
        room += 2;
    code->list = calloc(room, sizeof(*code->list));
    if (!code->list)
        return -1;
    for (char *line = code->text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        code->count += line_parse(names, line, code->list + code->count);
    }
    return code->count ? 0 : -1;
}

static int addresses_make(struct code *code)
{
    code->base = code->list[0].address;
    code->end = code->list[code->count - 1].address + 4;
    if (code->end <= code->base || code->end - code->base > (u64)1 << 28)
        return -1;
    code->at = calloc((code->end - code->base) / 4, sizeof(*code->at));
    if (!code->at)
        return -1;
    for (size_t i = code->count; i-- > 0;)
        if (code->list[i].address >= code->base && code->list[i].address < code->end)
            code->at[(code->list[i].address - code->base) / 4] = (uint32_t)i + 1;
    return 0;
}

static void target_parse(struct code *code, const char *target)
{
    i64 number_of = 0;
    const char *end;
    number(starts(target, "gfx") ? target + 3 : target, &end, &number_of);
    code->generation = number_of >= 1000 ? (int)(number_of / 100) : 9;
    code->gfx940 = starts(target, "gfx94") || starts(target, "gfx95");
    code->packed_ids = code->generation >= 11 || code->gfx940 || starts(target, "gfx90a");
}

struct code *code_parse(const char *disassembly, const char *target, char *error, size_t size)
{
    struct code *code = calloc(1, sizeof(*code));
    struct names names = {0};
    size_t length = strlen(disassembly) + 1;
    if (code && !names_make(&names) && (code->text = malloc(length)) != NULL) {
        memcpy(code->text, disassembly, length);
        target_parse(code, target);
        if (!lines_parse(code, &names) && !addresses_make(code)) {
            free(names.rows);
            return code;
        }
    }
    snprintf(error, size, "no instructions in the disassembly, or no memory");
    free(names.rows);
    code_free(code);
    return NULL;
}

void code_free(struct code *code)
{
    if (!code)
        return;
    free(code->at);
    free(code->list);
    free(code->text);
    free(code);
}
