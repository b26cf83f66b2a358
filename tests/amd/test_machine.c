/* The interpreter's instructions by themselves: each case is a few lines of assembly between a load of the operands and a
 * store of the result, with the value that AMD's pseudocode gives. */
#include "harness.h"

#include "machine.h"

#include <stdio.h>
#include <string.h>

enum { LANES = 64, KERNARG = 8 /* properties */, USER_SCALARS = 2 };

/* What a program reads and writes, by lane: operands of 64 bits, and the result. */
struct data {
    uint64_t a[LANES], b[LANES], c[LANES], result[LANES];
};

struct target {
    const char *name;
    int lanes;
    const char *before, *after; /* the operands are in v[4:5], v[6:7] and v[8:9], the result in v[2:3] */
};
#define LOAD(scalar, vector)                                                                                           \
    "s_load_" scalar " s[4:5], s[0:1], 0x0\nv_and_b32_e32 v0, 0x3ff, v0\nv_lshlrev_b32_e32 v1, 3, v0\n"                \
    "global_load_" vector " v[4:5], v1, s[4:5]\nglobal_load_" vector " v[6:7], v1, s[4:5] offset:512\n"                \
    "global_load_" vector " v[8:9], v1, s[4:5] offset:1024\nv_mov_b32_e32 v2, 0x11111111\nv_mov_b32_e32 v3, 0\n"
#define STORE(vector) "global_store_" vector " v1, v[2:3], s[4:5] offset:1536\ns_endpgm\n"
static const struct target gfx1100 = {"gfx1100", 32, LOAD("b64", "b64"), STORE("b64")};
static const struct target gfx942 = {"gfx942", 64, LOAD("dwordx2", "dwordx2"), STORE("dwordx2")};

/* As llvm-objdump would print it, from address 0x100 on. */
static void disassembly_write(char *text, size_t size, const char *source)
{
    unsigned address = 0x100;
    size_t used = 0;

    while (*source != 0) {
        int length = (int)strcspn(source, "\n");
        used += (size_t)snprintf(text + used, size - used, "\t%.*s // %012X: 00000000\n", length, source, address);
        assert_true(used < size);
        source += length;
        source += strspn(source, "\n");
        address += 4;
    }
}

static int try_program(const struct target *target, const char *instructions, void *data, uint32_t mode, char *error,
                       size_t size)
{
    static char source[16384], text[32768];
    static uint64_t packet[8];
    const void *kernarg[8] = {data};

    snprintf(source, sizeof source, "%s%s\n%s", target->before, instructions, target->after);
    disassembly_write(text, sizeof text, source);
    struct code *code = code_parse(text, target->name, error, size);
    assert_non_null(code);
    struct launch launch = {.code = code,
                            .entry = 0x100,
                            .rsrc1 = mode << 12,
                            .rsrc2 = USER_SCALARS << 1,
                            .group_bytes = 4096,
                            .private_bytes = 64,
                            .kernarg = kernarg,
                            .packet = packet,
                            .dimensions = 1,
                            .groups = {1, 1, 1},
                            .properties = KERNARG | (target->lanes == 32 ? 1u << 10 : 0)};
    launch.local[0] = (uint32_t)target->lanes;
    launch.local[1] = launch.local[2] = 1;
    int result = launch_run(&launch, error, size);
    code_free(code);
    return result;
}

static void run_program(const struct target *target, const char *instructions, struct data *data, uint32_t mode)
{
    char error[256] = "";

    if (try_program(target, instructions, data, mode, error, sizeof error))
        fail_msg("%s: %s", target->name, error);
}

enum { DENORMALS = 0xf0, FLUSH = 0xc0 };
struct operation {
    const char *instructions;
    uint64_t a, b, c, expected;
    uint32_t mode; /* 0: DENORMALS */
};

static void run_operations(const struct target *target, const struct operation *operations, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct operation *it = &operations[i];
        struct data data;
        for (int lane = 0; lane < LANES; lane++) {
            data.a[lane] = it->a;
            data.b[lane] = it->b;
            data.c[lane] = it->c;
        }
        run_program(target, it->instructions, &data, it->mode ? it->mode : DENORMALS);
        for (int lane = 0; lane < target->lanes; lane++)
            if (data.result[lane] != it->expected)
                fail_msg("%s: %s: %llx of lane %d is not %llx", target->name, it->instructions,
                         (unsigned long long)data.result[lane], lane, (unsigned long long)it->expected);
    }
}

static void test_f32(void **state)
{
    static const struct operation operations[] = {
        {"v_add_f32_e32 v2, v4, v6", 0x3f800000, 0x40000000, 0, 0x40400000, 0},
        {"v_sub_f32_e64 v2, -v4, |v6|", 0x3f800000, 0xc0000000, 0, 0xc0400000, 0},
        {"v_add_f32_e64 v2, v4, v6 clamp", 0x3f800000, 0x40000000, 0, 0x3f800000, 0},
        {"v_add_f32_e64 v2, v4, v6 mul:4", 0x3f800000, 0x40000000, 0, 0x41400000, 0},
        {"v_mul_f32_e32 v2, 0.5, v6", 0, 0x00800000, 0, 0x00400000, 0},
        {"v_mul_f32_e32 v2, 0.5, v6", 0, 0x00800000, 0, 0, FLUSH},
        {"v_add_f32_e32 v2, 0, v6", 0, 0x00400000, 0, 0, FLUSH},
        {"v_fma_f32 v2, v4, v6, v8", 0x3f800001, 0x3f800001, 0xbf800002, 0x28800000, 0},
        {"v_fmac_f32_e32 v2, v4, v6", 0x3f800000, 0x3f800000, 0, 0x3f800000, 0}, /* v2 is 0x11111111, some 1e-28 */
        {"v_fmaak_f32 v2, v4, v6, 0x3f800000", 0x40000000, 0x40000000, 0, 0x40a00000, 0},
        {"v_fmamk_f32 v2, v4, 0x40000000, v6", 0x40000000, 0x3f800000, 0, 0x40a00000, 0},
        {"v_max_f32_e32 v2, v4, v6", 0x80000000, 0, 0, 0, 0},
        {"v_min_f32_e32 v2, v4, v6", 0, 0x80000000, 0, 0x80000000, 0},
        {"v_max_f32_e32 v2, v4, v6", 0x7fa00000, 0x3f800000, 0, 0x7fe00000, 0},
        {"v_max_f32_e32 v2, v4, v6", 0x7fc00000, 0x3f800000, 0, 0x3f800000, 0},
        {"v_med3_f32 v2, v4, v6, v8", 0x40400000, 0x3f800000, 0x40000000, 0x40000000, 0},
        {"v_min_num_f32_e32 v2, v4, v6", 0x7fa00000, 0x3f800000, 0, 0x3f800000, 0},
        {"v_max_num_f32_e32 v2, v4, v6", 0x80000000, 0, 0, 0, 0},
        {"v_div_fixup_f32 v2, v4, v6, v8", 0x3f800000, 0x7f000000, 0x80000001, 0x80000000, 0},
        {"v_dot2_f32_f16 v2, v4, v6, v8", 0x40003c00, 0x3c003c00, 0x4b800000, 0x4b800001, 0},
        {"v_rcp_f32_e32 v2, v4", 0x40000000, 0, 0, 0x3f000000, 0},
        {"v_rcp_f32_e32 v2, v4", 0x00000001, 0, 0, 0x7f800000, 0},
        {"v_rsq_f32_e32 v2, v4", 0x40800000, 0, 0, 0x3f000000, 0},
        {"v_sqrt_f32_e32 v2, v4", 0x40800000, 0, 0, 0x40000000, 0},
        {"v_exp_f32_e32 v2, v4", 0xc0400000, 0, 0, 0x3e000000, 0},
        {"v_exp_f32_e32 v2, v4", 0xc3000000, 0, 0, 0, 0},
        {"v_log_f32_e32 v2, v4", 0x41000000, 0, 0, 0x40400000, 0},
        {"v_sin_f32_e32 v2, 0.5", 0, 0, 0, 0x250d3132, 0},
        {"v_rndne_f32_e32 v2, v4", 0x40200000, 0, 0, 0x40000000, 0},
        {"v_trunc_f32_e32 v2, v4", 0xbfc00000, 0, 0, 0xbf800000, 0},
        {"v_floor_f32_e32 v2, v4", 0xbfc00000, 0, 0, 0xc0000000, 0},
        {"v_frexp_mant_f32_e32 v2, v4", 0x40c00000, 0, 0, 0x3f400000, 0},
        {"v_frexp_exp_i32_f32_e32 v2, v4", 0x40c00000, 0, 0, 3, 0},
        {"v_frexp_exp_i32_f32_e32 v2, v4", 0x7f800000, 0, 0, 0, 0},
        {"v_ldexp_f32 v2, v4, v6", 0x3fc00000, 0xffffff80, 0, 0x00300000, 0},
        {"v_cmp_nge_f32_e64 s2, v4, v6\nv_mov_b32_e32 v2, s2", 0x7fc00000, 0x3f800000, 0, 0xffffffff, 0},
        {"v_cmp_lg_f32_e64 s2, v4, v6\nv_mov_b32_e32 v2, s2", 0x7fc00000, 0x3f800000, 0, 0, 0},
        {"v_cmp_o_f32_e64 s2, v4, v6\nv_mov_b32_e32 v2, s2", 0x7fc00000, 0x3f800000, 0, 0, 0},
        {"v_cmp_eq_f32_e64 s2, v4, v6\nv_mov_b32_e32 v2, s2", 0x80000000, 0, 0, 0xffffffff, 0},
        {"v_cmp_class_f32_e64 s2, v4, 0x260\nv_mov_b32_e32 v2, s2", 0x7f800000, 0, 0, 0xffffffff, 0},
        {"v_cmp_class_f32_e64 s2, v4, 0x1fc\nv_mov_b32_e32 v2, s2", 0x7f800000, 0, 0, 0, 0},
    };

    (void)state;
    run_operations(&gfx1100, operations, COUNT(operations));
}

/* 3 / 7 and a quotient of tiny numbers in the steps that compilers emit. */
static void test_division(void **state)
{
    static const char steps[] =
        "v_div_scale_f32 v10, null, v6, v6, v4\nv_rcp_f32_e32 v11, v10\nv_fma_f32 v12, -v10, v11, 1.0\n"
        "v_fmac_f32_e32 v11, v12, v11\nv_div_scale_f32 v12, vcc_lo, v4, v6, v4\nv_mul_f32_e32 v13, v12, v11\n"
        "v_fma_f32 v14, -v10, v13, v12\nv_fmac_f32_e32 v13, v14, v11\nv_fma_f32 v10, -v10, v13, v12\n"
        "v_div_fmas_f32 v10, v10, v11, v13\nv_div_fixup_f32 v2, v10, v6, v4";
    static const struct operation operations[] = {
        {steps, 0x40400000, 0x40e00000, 0, 0x3edb6db7, 0},
        {steps, 0x00000003, 0x00000001, 0, 0x40400000, 0},
        {steps, 0x7f000000, 0x00000001, 0, 0x7f800000, 0},
        {steps, 0x00000001, 0x7f000000, 0, 0, 0},
        {steps, 0, 0x40e00000, 0, 0, 0},
        {steps, 0x3f800000, 0x80000000, 0, 0xff800000, 0},
        {steps, 0x7f7fffff, 0x3f800001, 0, 0x7f7ffffd, 0},
        {steps, 0x00800000, 0x40000000, 0, 0x00400000, 0},
    };

    (void)state;
    run_operations(&gfx1100, operations, COUNT(operations));
}

static void test_integers(void **state)
{
    static const struct operation operations[] = {
        {"v_add_co_u32 v2, vcc_lo, v4, v6\nv_add_co_ci_u32_e64 v3, null, v5, v7, vcc_lo", 0x1ffffffffu, 0x200000001u, 0,
         0x400000000u, 0},
        {"v_sub_co_u32 v2, s8, v4, v6\nv_sub_co_ci_u32_e64 v3, null, v5, v7, s8", 0x100000000u, 1, 0, 0xffffffff, 0},
        {"v_mad_u64_u32 v[2:3], null, v4, v6, v[8:9]", 0xffffffff, 0xffffffff, 1, 0xfffffffe00000002u, 0},
        {"v_sub_nc_u32_e64 v2, v4, v6", 3, 5, 0, 0xfffffffe, 0},
        {"v_sub_nc_u32_e64 v2, v4, v6 clamp", 3, 5, 0, 0, 0},
        {"v_subrev_nc_u32_e64 v2, v4, v6 clamp", 3, 5, 0, 2, 0},
        {"v_add_nc_u32_e64 v2, v4, v6 clamp", 0xfffffff0, 0x20, 0, 0xffffffff, 0},
        {"v_mul_hi_i32 v2, v4, v6", 0xffffffff, 2, 0, 0xffffffff, 0},
        {"v_mul_i32_i24_e32 v2, v4, v6", 0x1ffffff, 3, 0, 0xfffffffd, 0},
        {"v_med3_i32 v2, v4, v6, v8", 5, 0xffffffff, 2, 2, 0},
        {"v_bfe_i32 v2, v4, 4, 4", 0xf8, 0, 0, 0xffffffff, 0},
        {"v_bfe_u32 v2, v4, v6, v8", 0xabcd, 4, 8, 0xbc, 0},
        {"v_alignbit_b32 v2, v4, v6, 8", 0x12, 0x34567890, 0, 0x12345678, 0},
        {"v_perm_b32 v2, v4, v6, v8", 0x83828180, 0x13121110, 0x0d0c0907, 0xff000083, 0},
        {"v_lshlrev_b64 v[2:3], 33, v[4:5]", 3, 0, 0, 0x600000000u, 0},
        {"v_ashrrev_i64 v[2:3], 30, v[4:5]", 0x8000000000000000u, 0, 0, 0xfffffffe00000000u, 0},
        {"v_clz_i32_u32_e32 v2, v4", 0x10, 0, 0, 27, 0},
        {"v_lshl_add_u32 v2, v4, 4, v6", 3, 1, 0, 49, 0},
        {"v_cmp_lt_i64_e64 s2, v[4:5], v[6:7]\nv_mov_b32_e32 v2, s2", 0xffffffffffffffffu, 0, 0, 0xffffffff, 0},
        {"v_cmp_lt_u64_e64 s2, v[4:5], v[6:7]\nv_mov_b32_e32 v2, s2", 0xffffffffffffffffu, 0, 0, 0, 0},
        {"v_cmp_gt_u16_e64 s2, v4, v6\nv_mov_b32_e32 v2, s2", 0xffff0001, 2, 0, 0, 0},
        {"v_cls_i32_e32 v2, v4", 0xfffffffe, 0, 0, 31, 0},
        {"v_mul_lo_u16 v2, v4, v6", 0xffff1234, 0x10, 0, 0x11112340, 0},
        {"v_add_nc_u16 v2, v4, v6 op_sel:[1,0,1]", 0x00020001, 5, 0, 0x00071111, 0},
        {"v_cvt_u32_f32_e32 v2, v4", 0xbf800000, 0, 0, 0, 0},
        {"v_cvt_u32_f32_e32 v2, v4", 0x7f800000, 0, 0, 0xffffffff, 0},
        {"v_cvt_i32_f32_e32 v2, v4", 0xc02ccccd, 0, 0, 0xfffffffe, 0},
        {"v_cvt_i32_f32_e32 v2, v4", 0x7fc00000, 0, 0, 0, 0},
        {"v_cvt_f32_u32_e32 v2, v4", 0x01000001, 0, 0, 0x4b800000, 0},
        {"v_cvt_f32_i32_e32 v2, v4", 0xffffffff, 0, 0, 0xbf800000, 0},
    };

    (void)state;
    run_operations(&gfx1100, operations, COUNT(operations));
}

static void test_halves(void **state)
{
    static const struct operation operations[] = {
        {"v_cvt_f16_f32_e32 v2, v4", 0x3f801000, 0, 0, 0x11113c00, 0}, /* halfway, to even */
        {"v_cvt_f16_f32_e32 v2, v4", 0x3f803000, 0, 0, 0x11113c02, 0},
        {"v_cvt_f16_f32_e32 v2, v4", 0x33800000, 0, 0, 0x11110001, 0},
        {"v_cvt_f16_f32_e32 v2, v4", 0x477ff000, 0, 0, 0x11117c00, 0},
        {"v_cvt_f32_f16_e32 v2, v4", 0x0001, 0, 0, 0x33800000, 0},
        {"v_cvt_f32_f16_e32 v2, v4", 0xfc00, 0, 0, 0xff800000, 0},
        {"v_cvt_pk_rtz_f16_f32_e32 v2, v4, v6", 0x3f801fff, 0xc77fffff, 0, 0xfbff3c00, 0},
        {"v_pk_add_f16 v2, v4, v6", 0x40003c00, 0x3c003c00, 0, 0x42004000, 0},
        {"v_pk_add_f16 v2, v4, v6 op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[0,1]", 0x40003c00, 0x3c003c00, 0, 0x40003c00, 0},
        {"v_pk_mul_f16 v2, v4, 2.0 op_sel_hi:[1,0]", 0x40003c00, 0, 0, 0x44004000, 0},
        {"v_fma_f16 v2, v4, v6, v8", 0x3c01, 0x3c01, 0xbc02, 0x11110010, 0},
        {"v_fma_mix_f32 v2, v4, v6, v8 op_sel:[1,0,0] op_sel_hi:[1,0,0]", 0x40003c00, 0x40400000, 0x3f800000,
         0x40e00000, 0},
        {"v_fma_mixhi_f16 v2, v4, v6, -v8 op_sel_hi:[0,0,0]", 0x40000000, 0x40400000, 0x3f800000, 0x45001111, 0},
        {"v_fma_mixlo_f16 v2, v4, v6, 1.0", 0x40000000, 0x40400000, 0, 0x11114700, 0},
        {"v_dot2_f32_f16 v2, v4, v6, v8", 0x40003c00, 0x42003c00, 0x3f800000, 0x41000000, 0},
    };

    (void)state;
    run_operations(&gfx1100, operations, COUNT(operations));
}

static void test_f64(void **state)
{
    static const struct operation operations[] = {
        {"v_add_f64 v[2:3], v[4:5], -v[6:7]", 0x3ff0000000000000u, 0x4000000000000000u, 0, 0xbff0000000000000u, 0},
        {"v_fma_f64 v[2:3], v[4:5], v[6:7], 1.0", 0x4000000000000000u, 0x4000000000000000u, 0, 0x4014000000000000u, 0},
        {"v_mul_f64 v[2:3], v[4:5], 0x40080000", 0x4000000000000000u, 0, 0, 0x4018000000000000u, 0},
        {"v_cvt_f64_f32_e32 v[2:3], v4", 0x40400000, 0, 0, 0x4008000000000000u, 0},
        {"v_cvt_f32_f64_e32 v2, v[4:5]", 0x3ff0000010000000u, 0, 0, 0x3f800000, 0},
        {"v_ldexp_f64 v[2:3], v[4:5], v6", 0x3ff0000000000000u, 3, 0, 0x4020000000000000u, 0},
        {"v_rndne_f64_e32 v[2:3], v[4:5]", 0x4004000000000000u, 0, 0, 0x4000000000000000u, 0},
    };

    (void)state;
    run_operations(&gfx1100, operations, COUNT(operations));
}

#define SCALARS(...)                                                                                                   \
    "s_load_b128 s[8:11], s[0:1], 0x8\ns_load_b64 s[12:13], s[4:5], 0x0\ns_load_b64 s[14:15], s[4:5], "                \
    "0x200\n" __VA_ARGS__
#define RESULT "\nv_mov_b32_e32 v2, s8\nv_mov_b32_e32 v3, s9"
#define SCC "\ns_cselect_b32 s8, 1, 0\ns_mov_b32 s9, 0"
static void test_scalars(void **state)
{
    static const struct operation operations[] = {
        {SCALARS("s_add_u32 s8, s12, s14\ns_addc_u32 s9, s13, s15" RESULT), 0x1ffffffffu, 0x200000001u, 0, 0x400000000u,
         0},
        {SCALARS("s_sub_u32 s8, s12, s14\ns_subb_u32 s9, s13, s15" RESULT), 0x100000000u, 1, 0, 0xffffffff, 0},
        {SCALARS("s_add_i32 s8, s12, s14" SCC RESULT), 0x7fffffff, 1, 0, 1, 0},
        {SCALARS("s_mul_hi_i32 s8, s12, s14\ns_mov_b32 s9, 0" RESULT), 0xffffffff, 2, 0, 0xffffffff, 0},
        {SCALARS("s_lshl_b64 s[8:9], s[12:13], s14" RESULT), 3, 33, 0, 0x600000000u, 0},
        {SCALARS("s_bfe_i64 s[8:9], s[12:13], 0x200000" RESULT), 0x80000000u, 0, 0, 0xffffffff80000000u, 0},
        {SCALARS("s_bfe_u32 s8, s12, 0x80004\ns_mov_b32 s9, 0" RESULT), 0xabcd, 0, 0, 0xbc, 0},
        {SCALARS("s_movk_i32 s8, 0xfe80\ns_ashr_i32 s9, s8, 31" RESULT), 0, 0, 0, 0xfffffffffffffe80u, 0},
        {SCALARS("s_cmpk_gt_u32 s12, 0xff00" SCC RESULT), 0xff01, 0, 0, 1, 0},
        {SCALARS("s_cmpk_lg_i32 s12, 0xff00" SCC RESULT), 0xffffff00, 0, 0, 0, 0},
        {SCALARS("s_bitcmp1_b32 s12, 5" SCC RESULT), 32, 0, 0, 1, 0},
        {SCALARS("s_cmp_lt_u32 s12, -3" SCC RESULT), 0xfffffffc, 0, 0, 1, 0},
        {SCALARS("s_min_i32 s8, s12, s14\ns_mov_b32 s9, 0" RESULT), 0xffffffff, 2, 0, 0xffffffff, 0},
        {SCALARS("s_brev_b32 s8, s12\ns_clz_i32_u32 s9, s12" RESULT), 1, 0, 0, 0x1f80000000u, 0},
        {SCALARS("s_cmp_eq_u32 s12, 7\ns_cbranch_scc1 1\ns_mov_b32 s12, 9\ns_mov_b32 s8, s12\ns_mov_b32 s9, 0" RESULT),
         7, 0, 0, 7, 0},
        {SCALARS("s_getpc_b64 s[8:9]\ns_add_u32 s8, s8, 12\ns_setpc_b64 s[8:9]\ns_mov_b32 s12, 9\n"
                 "s_mov_b32 s8, s12\ns_mov_b32 s9, 0" RESULT),
         7, 0, 0, 7, 0},
    };

    (void)state;
    run_operations(&gfx1100, operations, COUNT(operations));
}

/* Results of lanes that differ: expected says, by lane, which lane's operand a is expected, or -1 for what v2 held. */
struct permutation {
    const char *instructions;
    int (*expected)(int lane);
};

static void run_permutations(const struct target *target, const struct permutation *permutations, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct data data;
        for (int lane = 0; lane < LANES; lane++) {
            data.a[lane] = 1000 + (uint64_t)lane;
            data.b[lane] = (uint64_t)((lane * 7 + 3) % target->lanes * 4);
            data.c[lane] = 0;
        }
        run_program(target, permutations[i].instructions, &data, DENORMALS);
        for (int lane = 0; lane < target->lanes; lane++) {
            int from = permutations[i].expected(lane);
            uint32_t expected = from == -2 ? 0 : from < 0 ? 0x11111111 : 1000 + (uint32_t)from;
            if ((uint32_t)data.result[lane] != expected)
                fail_msg("%s: %s: %u of lane %d is not %u", target->name, permutations[i].instructions,
                         (uint32_t)data.result[lane], lane, expected);
        }
    }
}

static int odd_lanes(int lane)
{
    return lane % 2 ? lane : -1;
}
static int first_odd(int lane)
{
    (void)lane;
    return 1;
}
static int next_of_four(int lane)
{
    return (lane & ~3) | (lane + 1) % 4;
}
static int before_in_row(int lane)
{
    return lane % 16 ? lane - 1 : -1;
}
static int before_in_row_or_zero(int lane)
{
    return lane % 16 ? lane - 1 : -2;
}
static int reversed_row(int lane)
{
    return lane ^ 15;
}
static int other_row(int lane)
{
    return lane ^ 16;
}
static int by_sevens_32(int lane)
{
    return (lane * 7 + 3) % 32;
}
static int by_sevens_64(int lane)
{
    return (lane * 7 + 3) % 64;
}
static int lane_five(int lane)
{
    return lane == 5 ? 9 : -1;
}
static int same(int lane)
{
    return lane;
}
static int reversed_eight(int lane)
{
    return lane ^ 7;
}
static int last_before_row(int lane)
{
    return lane < 16 ? -1 : lane / 16 * 16 - 1;
}
static int neighbour(int lane)
{
    return lane ^ 1;
}

static void test_lanes(void **state)
{
    static const struct permutation permutations[] = {
        {"s_mov_b32 exec_lo, 0xaaaaaaaa\nv_mov_b32_e32 v2, v4\ns_mov_b32 exec_lo, -1", odd_lanes},
        {"v_and_b32_e32 v10, 1, v0\nv_cmp_eq_u32_e32 vcc_lo, 1, v10\ns_and_saveexec_b32 s8, vcc_lo\nv_mov_b32_e32 v2, "
         "v4\n"
         "s_or_b32 exec_lo, exec_lo, s8",
         odd_lanes},
        {"v_and_b32_e32 v10, 1, v0\ns_mov_b32 s8, exec_lo\nv_cmpx_eq_u32_e32 1, v10\nv_mov_b32_e32 v2, v4\ns_mov_b32 "
         "exec_lo, s8",
         odd_lanes},
        {"s_mov_b32 exec_lo, 0xaaaaaaaa\nv_readfirstlane_b32 s8, v4\ns_mov_b32 exec_lo, -1\nv_mov_b32_e32 v2, s8",
         first_odd},
        {"v_mov_b32_dpp v2, v4 quad_perm:[1,2,3,0] row_mask:0xf bank_mask:0xf", next_of_four},
        {"v_mov_b32_dpp v2, v4 row_shr:1 row_mask:0xf bank_mask:0xf", before_in_row},
        {"v_mov_b32_dpp v2, v4 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1", before_in_row_or_zero},
        {"v_mov_b32_dpp v2, v4 row_mirror row_mask:0xf bank_mask:0xf", reversed_row},
        {"s_mov_b32 s8, 0x76543210\nv_permlanex16_b32 v2, v4, s8, 0xfedcba98", other_row},
        {"s_mov_b32 s8, 0x89abcdef\nv_permlane16_b32 v2, v4, s8, 0x01234567", reversed_row},
        {"ds_bpermute_b32 v2, v6, v4", by_sevens_32},
        {"v_readlane_b32 s8, v4, 9\nv_writelane_b32 v2, s8, 5", lane_five},
        {"ds_swizzle_b32 v2, v4 offset:swizzle(SWAP,1)", neighbour},
        {"v_lshlrev_b32_e32 v10, 2, v0\nds_store_b32 v10, v4\nds_load_b32 v2, v6", by_sevens_32},
        {"v_lshlrev_b32_e32 v10, 2, v0\nds_store_b32 v10, v4 offset:256\ns_mov_b32 exec_lo, 0xaaaaaaaa\n"
         "ds_load_b32 v2, v10 offset:256\ns_mov_b32 exec_lo, -1",
         odd_lanes},
        {"v_mov_b32_dpp v2, v4 dpp8:[7,6,5,4,3,2,1,0]", reversed_eight},
        {"s_mov_b32 m0, 2\nv_mov_b32_e32 v12, v4\nv_movrels_b32_e32 v2, v10", same},
        {"s_mov_b32 m0, 2\nv_movreld_b32_e32 v10, v4\nv_mov_b32_e32 v2, v12", same},
        {"v_lshlrev_b32_e32 v10, 2, v0\nds_store_2addr_b32 v10, v10, v4 offset1:64\n"
         "ds_load_2addr_b32 v[2:3], v6 offset0:64",
         by_sevens_32},
        {"v_lshlrev_b32_e32 v10, 1, v0\nds_store_b16 v10, v4 offset:1\nds_load_u16 v2, v10 offset:1", same},
        {"scratch_store_b32 off, v4, off offset:8\nscratch_load_b32 v2, off, off offset:8\nv_xor_b32_e32 v10, 1, v0\n"
         "v_lshlrev_b32_e32 v10, 2, v10\nds_store_b32 v10, v2\nv_xor_b32_e32 v10, 4, v10\n"
         "v_lshlrev_b32_e32 v10, 2, v0\nds_load_b32 v2, v10",
         neighbour},
    };

    (void)state;
    run_permutations(&gfx1100, permutations, COUNT(permutations));
}

static void test_lanes_64(void **state)
{
    static const struct permutation permutations[] = {
        {"v_mov_b32_dpp v2, v4 row_mirror row_mask:0xf bank_mask:0xf", reversed_row},
        {"v_mov_b32_dpp v2, v4 row_bcast:15 row_mask:0xf bank_mask:0xf", last_before_row},
        {"s_mov_b32 s8, 2\nv_mov_b32_e32 v12, v4\ns_set_gpr_idx_on s8, gpr_idx(SRC0)\nv_mov_b32_e32 v2, v10\n"
         "s_set_gpr_idx_off",
         same},
        {"ds_bpermute_b32 v2, v6, v4", by_sevens_64},
        {"v_and_b32_e32 v10, 1, v0\nv_cmp_eq_u32_e32 vcc, 1, v10\ns_and_saveexec_b64 s[8:9], vcc\nv_mov_b32_e32 v2, "
         "v4\n"
         "s_or_b64 exec, exec, s[8:9]",
         odd_lanes},
        {"v_accvgpr_write_b32 a3, v4\nv_accvgpr_read_b32 v2, a3\nv_lshlrev_b32_e32 v10, 2, v0\nds_write_b32 v10, a3\n"
         "v_xor_b32_e32 v10, 4, v10\nds_read_b32 v2, v10",
         neighbour},
    };
    static const struct operation operations[] = {
        {"v_add_u32_sdwa v2, v4, sext(v6) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:BYTE_1",
         0x00050000, 0xff00, 0, 4, 0},
        {"v_mov_b32_sdwa v2, v4 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_2", 0x00ab0000, 0, 0,
         0x1111ab11, 0},
        {"v_mul_lo_u16_e32 v2, v4, v6", 0xffff1234, 0x10, 0, 0x2340, 0},
        {"v_pk_fma_f32 v[2:3], v[4:5], v[6:7], v[8:9] op_sel_hi:[1,0,1]", 0x400000003f800000u, 0x40000000,
         0x3f8000003f800000u, 0x40a0000040400000u, 0},
        {"v_lshl_add_u64 v[2:3], v[4:5], 2, v[6:7]", 0x100000001u, 3, 0, 0x400000007u, 0},
        {"v_max_f64 v[2:3], v[4:5], v[6:7]", 0x7ff4000000000000u, 0x3ff0000000000000u, 0, 0x7ff8000000000000u, 0},
        {"v_mov_b32_e32 v2, -1\nv_mad_legacy_u16 v2, v4, 13, v6", 0x10002, 0x20001, 0, 0x1b, 0},
        {"v_mov_b32_e32 v2, -1\nv_mad_u16 v2, v4, 13, v6", 0x10002, 0x20001, 0, 0xffff001b, 0},
    };

    (void)state;
    run_permutations(&gfx942, permutations, COUNT(permutations));
    run_operations(&gfx942, operations, COUNT(operations));
}

/* Fragments of matrices of 16 rows and 16 columns, a register a row; elements of 16 bits are two a register. */
struct fragments {
    uint32_t a[8][LANES], b[8][LANES], c[8][LANES], d[8][LANES];
};

struct matrix_case {
    const struct target *target;
    const char *instruction; /* D is v[50:…], A v[10:…], B v[20:…], C v[30:…] */
    int operand_words, result_words, halves, count;
    int (*k)(int lane, int element);  /* of which row of B, and column of A, an element is */
    int (*row)(int lane, int word);   /* of D */
    uint32_t (*bits)(unsigned value); /* of 0 to 7 */
};

static int k_all(int lane, int element)
{
    (void)lane;
    return element;
}
static int k_eight(int lane, int element)
{
    return lane < 16 ? element : 8 + element;
}
static int k_four(int lane, int element)
{
    return lane / 16 * 4 + element;
}
static int k_one(int lane, int element)
{
    return lane / 16 + element;
}
static int row_interleaved(int lane, int word)
{
    return word * 2 + (lane >= 16);
}
static int row_eight(int lane, int word)
{
    return word + (lane >= 16 ? 8 : 0);
}
static int row_four(int lane, int word)
{
    return lane / 16 * 4 + word;
}
static uint32_t bits_f16(unsigned value)
{
    static const uint32_t bits[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700};
    return bits[value];
}
static uint32_t bits_f32(unsigned value)
{
    float number = (float)value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}
static uint32_t bits_bf16(unsigned value)
{
    return bits_f32(value) >> 16;
}

static unsigned element_a(int row, int k)
{
    return (unsigned)(row * 5 + k * 3) % 8;
}
static unsigned element_b(int k, int column)
{
    return (unsigned)(k * k + column * 7 + 1) % 8;
}

static void fragments_fill(const struct matrix_case *it, struct fragments *fragments)
{
    memset(fragments, 0, sizeof *fragments);
    for (int lane = 0; lane < it->target->lanes; lane++) {
        for (int element = 0; element < it->operand_words * (it->halves ? 2 : 1); element++) {
            int word = it->halves ? element / 2 : element, shift = it->halves && element % 2 ? 16 : 0,
                k = it->k(lane, element);
            fragments->a[word][lane] |= it->bits(element_a(lane % 16, k)) << shift;
            fragments->b[word][lane] |= it->bits(element_b(k, lane % 16)) << shift;
        }
        for (int word = 0; word < it->result_words; word++)
            fragments->c[word][lane] = bits_f32((unsigned)(it->row(lane, word) * 16 + lane % 16));
    }
}

/* Loads a matrix into the registers from first on. */
static size_t matrix_load(char *text, const char *width, int first, int words, int matrix)
{
    size_t used = 0;
    for (int word = 0; word < words; word++)
        used += (size_t)sprintf(text + used, "global_load_%s v%d, v1, s[4:5] offset:%d\n", width, first + word,
                                (matrix * 8 + word) * LANES * 4);
    return used;
}

static size_t matrix_store(char *text, const char *width, int first, int words, int matrix)
{
    size_t used = 0;
    for (int word = 0; word < words; word++)
        used += (size_t)sprintf(text + used, "global_store_%s v1, v%d, s[4:5] offset:%d\n", width, first + word,
                                (matrix * 8 + word) * LANES * 4);
    return used;
}

static void run_matrix(const struct matrix_case *it)
{
    static char text[16384];
    const char *width = it->target->lanes == 64 ? "dword" : "b32";
    struct fragments *fragments = malloc(sizeof *fragments);
    char error[256] = "";
    size_t used = 0;

    assert_non_null(fragments);
    fragments_fill(it, fragments);
    used += (size_t)sprintf(text, "v_lshlrev_b32_e32 v1, 2, v0\n");
    used += matrix_load(text + used, width, 10, it->operand_words, 0);
    used += matrix_load(text + used, width, 20, it->operand_words, 1);
    used += matrix_load(text + used, width, 30, it->result_words, 2);
    used += (size_t)sprintf(text + used, "%s\n", it->instruction);
    matrix_store(text + used, width, 50, it->result_words, 3);
    if (try_program(it->target, text, fragments, DENORMALS, error, sizeof error))
        fail_msg("%s: %s", it->instruction, error);
    for (int lane = 0; lane < it->target->lanes; lane++)
        for (int word = 0; word < it->result_words; word++) {
            int row = it->row(lane, word), column = lane % 16;
            unsigned sum = (unsigned)(row * 16 + column);
            for (int k = 0; k < it->count; k++)
                sum += element_a(row, k) * element_b(k, column);
            assert_int_equal(fragments->d[word][lane], bits_f32(sum));
        }
    free(fragments);
}

static void test_matrices(void **state)
{
    static const struct target gfx1201 = {"gfx1201", 32, LOAD("b64", "b64"), STORE("b64")};
    static const struct target gfx90a = {"gfx90a", 64, LOAD("dwordx2", "dwordx2"), STORE("dwordx2")};
    static const struct matrix_case cases[] = {
        {&gfx1100, "v_wmma_f32_16x16x16_f16 v[50:57], v[10:17], v[20:27], v[30:37]", 8, 8, 1, 16, k_all,
         row_interleaved, bits_f16},
        {&gfx1100, "v_wmma_f32_16x16x16_bf16 v[50:57], v[10:17], v[20:27], v[30:37]", 8, 8, 1, 16, k_all,
         row_interleaved, bits_bf16},
        {&gfx1201, "v_wmma_f32_16x16x16_f16 v[50:57], v[10:13], v[20:23], v[30:37]", 4, 8, 1, 16, k_eight, row_eight,
         bits_f16},
        {&gfx1201, "v_wmma_f32_16x16x16_bf16 v[50:57], v[10:13], v[20:23], v[30:37]", 4, 8, 1, 16, k_eight, row_eight,
         bits_bf16},
        {&gfx942, "v_mfma_f32_16x16x16_f16 v[50:53], v[10:11], v[20:21], v[30:33]", 2, 4, 1, 16, k_four, row_four,
         bits_f16},
        {&gfx942, "v_mfma_f32_16x16x16_bf16 v[50:53], v[10:11], v[20:21], v[30:33]", 2, 4, 1, 16, k_four, row_four,
         bits_bf16},
        {&gfx942, "v_mfma_f32_16x16x4_f32 v[50:53], v10, v20, v[30:33]", 1, 4, 0, 4, k_one, row_four, bits_f32},
        {&gfx90a, "v_mfma_f32_16x16x16bf16_1k v[50:53], v[10:11], v[20:21], v[30:33]", 2, 4, 1, 16, k_four, row_four,
         bits_bf16},
        {&gfx90a, "v_mfma_f32_16x16x16f16 v[50:53], v[10:11], v[20:21], v[30:33]", 2, 4, 1, 16, k_four, row_four,
         bits_f16},
        {&gfx90a, "v_mfma_f32_16x16x4f32 v[50:53], v10, v20, v[30:33]", 1, 4, 0, 4, k_one, row_four, bits_f32},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        run_matrix(&cases[i]);
}

/* Poison: what was not written is not a number, and no address. */
static void test_errors(void **state)
{
    struct data data = {0};
    char error[256] = "";

    (void)state;
    assert_int_not_equal(try_program(&gfx1100, "v_none_b32 v2, v4", &data, DENORMALS, error, sizeof error), 0);
    assert_non_null(strstr(error, "v_none_b32 v2, v4"));
    assert_int_not_equal(try_program(&gfx1100, "ds_load_b32 v2, v40", &data, DENORMALS, error, sizeof error), 0);
    assert_non_null(strstr(error, "LDS"));
    assert_int_not_equal(
        try_program(&gfx1100, "scratch_load_b64 v[2:3], off, off offset:60", &data, DENORMALS, error, sizeof error), 0);
    assert_non_null(strstr(error, "scratch"));
    assert_int_not_equal(try_program(&gfx1100, "s_branch 2000", &data, DENORMALS, error, sizeof error), 0);
    assert_non_null(strstr(error, "jump"));
    assert_int_equal(try_program(&gfx1100, "v_cmp_u_f32_e32 vcc_lo, v40, v40\nv_mov_b32_e32 v2, vcc_lo", &data,
                                 DENORMALS, error, sizeof error),
                     0);
    assert_int_equal((uint32_t)data.result[0], 0xffffffff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),    cmocka_unit_test(test_division), cmocka_unit_test(test_integers),
        cmocka_unit_test(test_halves), cmocka_unit_test(test_f64),      cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_lanes),  cmocka_unit_test(test_lanes_64), cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
