/* test_words: each word of cl/ against its formula in doubles, over ways to cut and share tiles. One program a
 * configuration, a kernel a word. */
#include "words_cases.h"

#include "device/context.h"
#include "base/text.h"

#include <stdio.h>

/* Rounding of sums in f32, relative to max(|expected|, 1). */
static const double bound = 4e-6, same = 0;

static const struct word_case {
    const char *name, *text;      /* the text calls the word */
    void (*fill)(struct sheet *); /* after numbers in (-1, 1) everywhere; may be NULL */
    void (*expect)(struct sheet *);
    int with;            /* `before`, a storage type, or which factor */
    const double *bound; /* 0: the same numbers */
    int stored;          /* H holds elements of the storage type `with` */
} words[] = {
    /* clang-format off */
    {"ab", "mma_ab(D, X, Y, BV)", NULL, expect_ab, 0, &bound, 0},
    {"atb", "mma_atb(D, 0, 0, X, Y, BV)", NULL, expect_atb, FACTOR_NONE, &bound, 0},
    {"atb_one", "mma_atb(D, Z, 0, X, Y, BV)", NULL, expect_atb, FACTOR_ONE, &bound, 0},
    {"atb_rows", "mma_atb(D, Z, 1, X, Y, BV)", NULL, expect_atb, FACTOR_ROWS, &bound, 0},
    {"lower", "mma_lower(D, X, Y, BV)", fill_lower, expect_lower, 0, &bound, 0},
    {"abt", "mma_abt_lower(D, X, Y, 0)", NULL, expect_abt, 0, &bound, 0},
    {"abt_strict", "mma_abt_lower(D, X, Y, 1)", NULL, expect_abt, 1, &bound, 0},
    {"inverse", "unit_lower_inverse(D, X)", fill_inverse, expect_inverse, 0, &bound, 0},
    {"zero", "tile_zero(D, CHUNK * BV)", NULL, expect_zero, 0, &same, 0},
    {"scale_rows", "tile_scale_rows(D, Z, CHUNK, BV)", NULL, expect_scaled, 0, &bound, 0},
    {"matrix_scale", "matrix_scale(D, Z, -1)", NULL, expect_matrix_scaled, 0, &bound, 0},
    {"difference", "erase_difference(D, X, Z)", NULL, expect_difference, 0, &bound, 0},

    {"slices", "slices(data_rows(D, GDATA, STRIDE, n0, COUNT, QUARTER_E))", fill_data, expect_rows, CONFIG_TYPE, &same, 0},
    {"keys", "slices(key_rows(D, Z, GDATA, AT, n0, chunk_of(0)))", fill_data, expect_keys, CONFIG_TYPE, &bound, 0},
    {"queries", "slices(query_rows(D, Z, GDATA, AT, n0, chunk_of(CHUNK), 0.75f))", fill_data, expect_queries,
     CONFIG_TYPE, &bound, 0},
    {"norms", "rows_norm(D, GDATA, STRIDE, CHUNK, STEPS, COUNT)", fill_data, expect_norms, CONFIG_TYPE, &bound, 0},
    {"values", "value_rows(D, Z, GDATA, AT, GDATA, AT, C0, chunk_of(0))", fill_data, expect_values, CONFIG_TYPE, &bound, 0},

    {"load", "state_load(D, G, C0)", NULL, expect_state, 1, &same, 0},
    {"load_none", "state_load(D, 0, C0)", NULL, expect_state, 0, &same, 0},
    {"load_rows", "for_each(i, KP * BV / VEC) vec_store(state_row(G, i * VEC / BV, C0 + i * VEC % BV), D + i * VEC)",
     NULL, expect_state, 1, &same, 0},
    {"store", "state_store(H, D, C0)", NULL, expect_stored, 1, &same, 0},
    {"store_none", "state_store(0, D, C0)", NULL, expect_stored, 0, &same, 0},
    {"store_rows",
     "for_each(i, KP * BV / VEC) state_row_store(vec_load(D + i * VEC), H, i * VEC / BV, C0 + i * VEC % BV)", NULL,
     expect_stored, 1, &same, 0},

    {"between", "decay_between(D, (decay_t){Z}, 0)", fill_logs, expect_between, 0, &bound, 0},
    {"between_before", "decay_between(D, (decay_t){Z}, 1)", fill_logs, expect_between, 1, &bound, 0},
    {"sums", "for_each(i, CHUNK) { H[i] = decay_read(Z, i, 0); H[CHUNK + i] = decay_read(Z, i, 1);"
     "H[2 * CHUNK + i] = decay_write(Z, i); H[3 * CHUNK + i] = decay_across(Z); }",
     fill_logs, expect_sums, 0, &bound, 0},
    {"chunk_logs", "decay_chunk((decay_t){D}, GDATA, AT, chunk_of(CHUNK))", fill_gates, expect_chunk_logs, CONFIG_TYPE, &bound, 0},
    {"row_logs", "slices(decay_rows((channel_decay_t){D, Z}, GDATA, AT, n0, chunk_of(CHUNK)))", fill_gates, expect_row_logs, CONFIG_TYPE,
     &bound, 0},
    {"scores_", "decay_exp(Z); SYNC(); channel_scores(D, X, Y, (channel_decay_t){Z, 0}, 0)", fill_logs, expect_scores, 0, &bound, 0},
    {"scores_before", "decay_exp(Z); SYNC(); channel_scores(D, X, Y, (channel_decay_t){Z, 0}, 1)", fill_logs, expect_scores, 1, &bound, 0},
    {"prefix", "decay_prefix(Z); SYNC(); gather(Z, 0, BK)", fill_logs, expect_prefix, 0, &bound, 0},
    {"suffix", "decay_suffix(Z, D); SYNC(); gather(Z, 0, BK)", fill_logs, expect_suffix, 0, &bound, 0},
    {"rows_by", "decay_rows_by(D, Z, 0)", fill_logs, expect_rows_by, 0, &bound, 0},
    {"rows_by_before", "decay_rows_by(D, Z, 1)", fill_logs, expect_rows_by, 1, &bound, 0},

    {"f32_gets", "gets(f32, G)", fill_patterns, expect_loaded, CLATTN_F32, &same, 0},
    {"f16_gets", "gets(f16, G16)", fill_patterns, expect_loaded, CLATTN_F16, &same, 0},
    {"bf16_gets", "gets(bf16, GB16)", fill_patterns, expect_loaded, CLATTN_BF16, &same, 0},
    {"f32_puts", "puts(f32, H)", fill_ties, expect_put, CLATTN_F32, &same, 1},
    {"f16_puts", "puts(f16, (global half *)H)", fill_ties, expect_put, CLATTN_F16, &same, 1},
    {"bf16_puts", "puts(bf16, (global ushort *)H)", fill_ties, expect_put, CLATTN_BF16, &same, 1},

    {"covered", "cover((global const int *)G, H)", fill_trials, expect_covered, 0, &same, 0},
    /* clang-format on */
};

/* What the texts above use beside the words. */
static const char prelude[] =
    "#define G16 ((global const half *)G)\n"
    "#define GB16 ((global const ushort *)G)\n"
    "#define GDATA ((global const data_t *)G)\n"
    "#define AT ((long4)(0, 0, STRIDE, 0))\n"
    "#define C0 ((VALUE_DIM - 1) / BV * BV)\n"
    "#define gather(T, n0, pitch) for_each(i, CHUNK * BK) H[i / BK * (pitch) + n0 + i % BK] = T[i / BK * RP + i % BK]\n"
    "#define slices(word) for (int n0 = 0; n0 < KP; n0 += BK) { word; SYNC(); gather(D, n0, KP); SYNC(); }\n"
    "#define gets(type, p) for_each(i, VALUES / VEC) { vec_store(type##_getv(p, i * VEC), H + VALUES + i * VEC);"
    " for (int n = i * VEC; n < i * VEC + VEC; n++) H[n] = type##_get(p, n); }\n"
    "#define puts(type, p) for_each(i, VALUES / VEC) { type##_putv(vec_load(G + i * VEC), p, VALUES + i * VEC);"
    " for (int n = i * VEC; n < i * VEC + VEC; n++) type##_put(G[n], p, n); }\n"
    "static inline chunk_t chunk_of(int row)\n" /* the first or the second, with COUNT rows */
    "{\n"
    "    place at = {0};\n"
    "    at.rows = row + COUNT;\n"
    "    return chunk_at(at, row);\n"
    "}\n"
    "static inline void count_rows(global float *counts, chunk_t chunk, int seq_len)\n"
    "{\n"
    "    long first = (chunk.at.batch * seq_len + chunk.at.first) * STEPS + chunk.row;\n"
    "    for (int i = 0; i < chunk.count; i++) counts[first + i] += 1;\n"
    "}\n"
    "static inline void cover_trial(int sequences, int seq_len, global const int *cu, global float *counts)\n"
    "{\n"
    "    int rows = seq_len * STEPS;\n"
    "    int slots = CU_STRIDE ? rows / CHUNK + sequences : sequences * ((rows + CHUNK - 1) / CHUNK);\n"
    "    for (int i = 0; i < 2 * TRIAL_ROWS; i++) counts[i] = 0;\n"
    "    for (int slot = 0; slot < slots; slot++)\n"
    "        count_rows(counts, chunk_of_slot(slot, 0, sequences, seq_len, cu, (long4)(0)), seq_len);\n"
    "    for (int sequence = 0; sequence < sequences; sequence++) {\n"
    "        place at = place_of(sequence, 0, seq_len, cu, (long4)(0));\n"
    "        for (int i = 0; i * CHUNK < at.rows; i++) {\n"
    "            chunk_t chunk = chunk_of_slot(slot_of(at, seq_len) + i, 0, sequences, seq_len, cu, (long4)(0));\n"
    "            if (chunk.at.sequence == sequence && chunk.row == i * CHUNK)\n"
    "                count_rows(counts + TRIAL_ROWS, chunk, seq_len);\n"
    "        }\n"
    "    }\n"
    "}\n"
    "static inline void cover(global const int *trials, global float *counts)\n"
    "{\n"
    "    for_each(t, TRIALS) cover_trial(trials[t * TRIAL_INTS], trials[t * TRIAL_INTS + 1],\n"
    "                                    trials + t * TRIAL_INTS + 2, counts + 2 * t * TRIAL_ROWS);\n"
    "}\n";

/* clang-format off */
#define TILES(g, v, c, bk, bv, p)                                                                                      \
    {                                                                                                                  \
        .group = g, .vec = v, .chunk = c, .block_k = bk, .block_v = bv, .pad = p                                      \
    }
static const struct config configs[] = {
    /*                     GROUP VEC CHUNK BK BV PAD  K    V  STEPS CU VK L2 feature */
    {"serial 16",    TILES(1,    16, 16,   32, 32, 0), 100, 40, 3, 1, 0, 1, CLATTN_FEATURE_IDENTITY, CLATTN_BF16},
    {"serial 8",     TILES(1,    16, 8,    16, 16, 0), 60,  20, 1, 0, 1, 0, CLATTN_FEATURE_ELU1, CLATTN_F16},
    {"64 lanes, 32", TILES(64,   4,  32,   48, 32, 4), 100, 40, 2, 2, 1, 1, CLATTN_FEATURE_RELU, CLATTN_F16},
    {"64 lanes, 16", TILES(64,   4,  16,   32, 32, 4), 61,  38, 1, 1, 0, 0, CLATTN_FEATURE_ELU1, CLATTN_F32},
    {"12, a token",  TILES(12,   4,  1,    64, 32, 4), 61,  30, 1, 0, 0, 1, CLATTN_FEATURE_IDENTITY, CLATTN_BF16},
    {"8 lanes",      TILES(8,    4,  8,    16, 16, 4), 60,  20, 3, 0, 0, 1, CLATTN_FEATURE_IDENTITY, CLATTN_BF16},
};
/* clang-format on */

/* ---- One program a configuration
 * ------------------------------------------------------------------------------------------ */

/* Floats: D, then X, Y and Z each; G and H. */
struct sizes {
    int d, tile;
};

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static struct sizes sizes_of(const struct sheet *s)
{
    struct sizes n = {0, s->chunk * larger(larger(s->rp, s->cp), s->bv)};

    n.tile = larger(n.tile, s->bk * s->bv);
    n.d = larger(n.tile, s->kp * s->bv);
    return n;
}

static struct sheet sheet_of(const struct config *c)
{
    return (struct sheet){.c = c,
                          .chunk = c->tiles.chunk,
                          .bk = c->tiles.block_k,
                          .bv = c->tiles.block_v,
                          .rp = c->tiles.block_k + c->tiles.pad,
                          .cp = round_up(c->tiles.chunk, c->tiles.vec),
                          .kp = round_up(c->key_dim, c->tiles.block_k),
                          .count = c->tiles.chunk - 3,
                          .stride = c->key_dim + 5};
}

static void add_constants(struct text *text, const struct config *c)
{
    static const char *const types[] = {[CLATTN_F32] = "f32", [CLATTN_F16] = "f16", [CLATTN_BF16] = "bf16"};
    struct sheet s = sheet_of(c);
    struct sizes n = sizes_of(&s);
    const struct {
        const char *name;
        int value;
    } numbers[] = {{"GROUP", c->tiles.group},
                   {"VEC", c->tiles.vec},
                   {"KP", round_up(c->key_dim, s.bk)},
                   {"RP", s.bk + c->tiles.pad},
                   {"CP", round_up(s.chunk, c->tiles.vec)},
                   {"MATRIX", s.chunk * round_up(s.chunk, c->tiles.vec)},
                   {"FACTORS", 6 * s.chunk + c->tiles.vec},
                   {"TOKEN_PARTS", (int)divide_up(c->key_dim, c->tiles.vec)},
                   {"CHUNK", s.chunk},
                   {"BK", s.bk},
                   {"BV", s.bv},
                   {"KEY_DIM", c->key_dim},
                   {"VALUE_DIM", c->value_dim},
                   {"STEPS", c->steps},
                   {"ERASE_BEFORE", 0},
                   {"QK_GROUP", 1},
                   {"QK_TILED", 0},
                   {"CU_STRIDE", c->cu_stride},
                   {"REVERSED", 0},
                   {"STATE_VK", c->state_vk},
                   {"STATE_POOL", 0},
                   {"SNAPSHOTS", 0},
                   {"L2NORM", c->l2norm},
                   {"FEATURE", c->feature},
                   {"FEATURE_ELU1", CLATTN_FEATURE_ELU1},
                   {"FEATURE_RELU", CLATTN_FEATURE_RELU},
                   {"GATE_MAP", CLATTN_GATE_MAP_LOG},
                   {"GATE_SOFTPLUS", CLATTN_GATE_MAP_SOFTPLUS},
                   {"GATE_SIGMOID", CLATTN_GATE_MAP_SIGMOID},
                   {"GATE_LOGSIGMOID", CLATTN_GATE_MAP_LOGSIGMOID},
                   {"GATE_EXP", CLATTN_GATE_MAP_EXP},
                   {"GATE_SCALE", 0},
                   {"STEP_LIMITED", 0},
                   {"BETA_MAP", CLATTN_BETA_STRENGTH},
                   {"BETA_SOFTPLUS", CLATTN_BETA_SOFTPLUS},
                   {"HAS_A_LOG", 0},
                   {"HAS_GATE_BIAS", 0},
                   {"COUNT", s.count},
                   {"STRIDE", s.stride},
                   {"VALUES", VALUES},
                   {"TRIALS", TRIALS},
                   {"TRIAL_INTS", TRIAL_INTS},
                   {"TRIAL_ROWS", TRIAL_ROWS},
                   {"D_SIZE", n.d},
                   {"TILE", n.tile}};

    for (size_t i = 0; i < COUNT(numbers); i++)
        text_format(text, "#define %s %d\n", numbers[i].name, numbers[i].value);
    text_format(text, "#define DATA %s\n#define GATE DATA\n#define OUT DATA\n#define STATE f32\n", types[c->dtype]);
}

static void add_kernel(struct text *text, const struct word_case *word)
{
    text_format(text,
                "KERNEL test_%s(global const float *in, global float *out)\n"
                "{\n"
                "    local float D[D_SIZE], X[TILE], Y[TILE], Z[TILE];\n"
                "    global const float *G = in + D_SIZE + 3 * TILE;\n"
                "    global float *H = out + D_SIZE;\n"
                "    copy_in(D, in, D_SIZE), copy_in(X, in + D_SIZE, TILE);\n",
                word->name);
    text_format(text, "    copy_in(Y, in + D_SIZE + TILE, TILE), copy_in(Z, in + D_SIZE + 2 * TILE, TILE);\n"
                      "    SYNC();\n    ");
    text_add(text, word->text, strlen(word->text));
    text_format(text, ";\n    SYNC();\n    copy_out(out, D, D_SIZE);\n}\n");
}

/* Words that both decays have: those of the first get other names. */
static const char *const shared[] = {
    "decay_t",         "decay_chunk",  "decay_between",      "decay_state", "decay_token", "decay_read",
    "decay_write",     "decay_across", "decay_token_factor", "decay_slice", "decay_reads", "decay_writes",
    "decay_read_rows", "scores",       "decay_write_rows",   "decay_of"};

static void add_decays(struct text *text)
{
    for (size_t i = 0; i < COUNT(shared); i++)
        text_format(text, "#define %s channel_%s\n", shared[i], shared[i]);
    text_format(text, "#include \"decay_channel.clh\"\n");
    for (size_t i = 0; i < COUNT(shared); i++)
        text_format(text, "#undef %s\n", shared[i]);
    text_format(text, "#include \"decay_scalar.clh\"\n");
}

static char *source_of(const struct config *c)
{
    struct text text = {0};
    char *source, *flat;

    add_constants(&text, c);
    add_decays(&text);
    text_format(&text, "#include \"value_plain.clh\"\n#include \"erase_delta.clh\"\n");
    text_add(&text, prelude, strlen(prelude));
    for (size_t i = 0; i < COUNT(words); i++)
        add_kernel(&text, &words[i]);
    source = text_take(&text);
    assert_non_null(source);
    flat = kernel_flatten(source);
    assert_non_null(flat);
    free(source);
    return flat;
}

static cl_program build(const struct config *c)
{
    const struct opencl *cl = opencl_get();
    static char log[16384];
    char *source = source_of(c);
    cl_int error;
    cl_program program = cl->CreateProgramWithSource(test_device.cl, 1, (const char *[]){source}, NULL, &error);

    assert_int_equal(error, CL_SUCCESS);
    error =
        cl->BuildProgram(program, 1, &test_device.device, "-cl-std=CL1.2 -w", NULL, NULL); /* -w: two decays' macros */
    if (error != CL_SUCCESS) {
        cl->GetProgramBuildInfo(program, test_device.device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
        fail_msg("%s: %s", c->name, log);
    }
    free(source);
    return program;
}

/* ---- One word
 * ------------------------------------------------------------------------------------------------------------- */

static void run(cl_program program, const struct word_case *word, const struct config *c, const float *in,
                size_t in_size, float *out, size_t out_size)
{
    const struct opencl *cl = opencl_get();
    char name[64];
    cl_int errors[3];
    size_t group = (size_t)c->tiles.group;
    cl_kernel kernel;
    cl_mem from, to;

    snprintf(name, sizeof name, "test_%s", word->name);
    kernel = cl->CreateKernel(program, name, &errors[0]);
    from = cl->CreateBuffer(test_device.cl, CL_MEM_READ_ONLY, in_size, NULL, &errors[1]);
    to = cl->CreateBuffer(test_device.cl, CL_MEM_READ_WRITE, out_size, NULL, &errors[2]);
    for (int i = 0; i < 3; i++)
        assert_int_equal(errors[i], CL_SUCCESS);
    cl->SetKernelArg(kernel, 0, sizeof from, &from);
    cl->SetKernelArg(kernel, 1, sizeof to, &to);
    cl->EnqueueWriteBuffer(test_device.queue, from, CL_TRUE, 0, in_size, in, 0, NULL, NULL);
    cl->EnqueueWriteBuffer(test_device.queue, to, CL_TRUE, 0, out_size, out, 0, NULL, NULL);
    assert_int_equal(cl->EnqueueNDRangeKernel(test_device.queue, kernel, 1, NULL, &group, &group, 0, NULL, NULL),
                     CL_SUCCESS);
    assert_int_equal(cl->EnqueueReadBuffer(test_device.queue, to, CL_TRUE, 0, out_size, out, 0, NULL, NULL),
                     CL_SUCCESS);
    cl->ReleaseMemObject(from);
    cl->ReleaseMemObject(to);
    cl->ReleaseKernel(kernel);
}

static void compare(double actual, double expected, const struct word_case *word, const struct config *c,
                    const char *tile, int i)
{
    int equal = isnan(expected) ? isnan(actual) : actual == expected && !signbit(actual) == !signbit(expected);

    if (equal || (*word->bound > 0 && fabs(actual - expected) <= *word->bound * fmax(fabs(expected), 1)))
        return;
    fail_msg("%s, %s: %s[%d] is %.9g, expected %.9g", c->name, word->name, tile, i, actual, expected);
}

static void test_word(cl_program program, const struct word_case *word, const struct config *c)
{
    static float in[4 * GLOBAL], out[2 * GLOBAL];
    static double expected[4 * GLOBAL], h[GLOBAL];
    struct sheet s = sheet_of(c);
    struct sizes n = sizes_of(&s);
    int count = n.d + 3 * n.tile + GLOBAL;

    assert_true((size_t)count <= COUNT(in));
    for (int i = 0; i < count; i++)
        in[i] = (float)draw();
    s.with = word->with;
    s.X = in + n.d, s.Y = s.X + n.tile, s.Z = s.Y + n.tile, s.g = s.Z + n.tile;
    s.d = expected, s.x = s.d + n.d, s.y = s.x + n.tile, s.z = s.y + n.tile, s.h = h;
    if (word->fill != NULL)
        word->fill(&s);
    for (int i = 0; i < n.d + 3 * n.tile; i++)
        expected[i] = (double)in[i];
    for (int i = 0; i < GLOBAL; i++)
        h[i] = (double)NAN;
    word->expect(&s);
    memset(out, 0xff, sizeof out);
    run(program, word, c, in, (size_t)count * sizeof *in, out, (size_t)(n.d + GLOBAL) * sizeof *out);
    for (int i = 0; i < n.d; i++)
        compare((double)out[i], s.d[i], word, c, "D", i);
    for (int i = 0; i < GLOBAL; i++)
        compare(number_load(word->stored ? (clattn_dtype)word->with : CLATTN_F32, out + n.d, i), h[i], word, c, "H", i);
}

/* Scores are made of two rows at once: a token alone has none. */
static int applies(const struct word_case *word, const struct config *c)
{
    return c->tiles.chunk > 1 || word->expect != expect_abt;
}

static void test_config(void **state)
{
    const struct config *c = *state;
    cl_program program = build(c);

    for (size_t i = 0; i < COUNT(words); i++)
        if (applies(&words[i], c))
            test_word(program, &words[i], c);
    opencl_get()->ReleaseProgram(program);
}

/* test_words [PATTERN]: the configurations whose names match. */
int main(int argc, char **argv)
{
    struct CMUnitTest tests[COUNT(configs)];

    for (size_t i = 0; i < COUNT(configs); i++) {
        union {
            const struct config *in;
            void *out;
        } state = {&configs[i]};
        tests[i] = (struct CMUnitTest){configs[i].name, test_config, NULL, NULL, state.out};
    }
    if (argc > 1)
        test_filter(argv[1]);
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
